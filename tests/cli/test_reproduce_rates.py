"""`labeldp reproduce rates`: runs, a table and figures in a folder; a mistake gets one line."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.conftest import Ran


def arguments(**changes: str) -> list[str]:
    given = {"rows": "regression-local-full,classes-unary", "records": "1e3,1e4", "seeds": "1", "out": "rates"}
    return [
        "reproduce",
        "rates",
        *(word for name, value in {**given, **changes}.items() for word in (f"--{name}", value)),
    ]


def test_a_grid_ends_in_a_table_and_figures(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp(*arguments(epsilon="0.5,1"))
    assert ran.status == 0, ran
    assert ran.out.splitlines() == ["rates/rates.md", "rates/regression-local-full.svg", "rates/classes.svg"]
    table = (people / "rates" / "rates.md").read_text()
    assert table.count("| regression-local-full |") == 4 and table.count("| unary |") == 2
    for name in ("regression-local-full", "classes"):
        ElementTree.parse(people / "rates" / f"{name}.svg")
    stamps = {path: path.stat().st_mtime_ns for path in (people / "rates" / "runs").iterdir()}
    assert len(stamps) == 6
    again = labeldp(*arguments(epsilon="0.5,1"))
    assert again.status == 0 and (people / "rates" / "rates.md").read_text() == table
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


WRONG = [
    ({"rows": "regresion"}, "--rows"),
    ({"records": "1e3"}, "--records"),
    ({"epsilon": "-1"}, "epsilon"),
    ({"seeds": "0"}, "--seeds"),
    ({"out": "people.csv"}, "people.csv"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_mistake_gets_one_line(
    labeldp: Callable[..., Ran], people: Path, changes: dict[str, str], words: str
) -> None:
    ran = labeldp(*arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert not (people / "rates").exists()
