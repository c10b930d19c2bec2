"""`labeldp reproduce online`: runs, tables and figures in a folder; a mistake gets one line."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.conftest import Ran


def arguments(**changes: str) -> list[str]:
    given = {"tables": "exponents,regret", "losses": "trap,shift", "rounds": "200", "experts": "3", "epsilon": "4"}
    words = {**given, "seeds": "1", "out": "online", **changes}
    return ["reproduce", "online", *(word for name, value in words.items() for word in (f"--{name}", value))]


def test_a_grid_ends_in_tables_and_figures(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp(*arguments())
    assert ran.status == 0, ran
    assert ran.out.splitlines() == ["online/online.md", "online/exponents.svg", "online/regret-T200-d3.svg"]
    table = (people / "online" / "online.md").read_text()
    assert "| L2P | corrected |" in table and "### T = 200, d = 3, ε = 4; 1 seed" in table
    for name in ("exponents", "regret-T200-d3"):
        ElementTree.parse(people / "online" / f"{name}.svg")
    stamps = {path: path.stat().st_mtime_ns for path in (people / "online" / "runs").iterdir()}
    assert len(stamps) == 3
    again = labeldp(*arguments())
    assert again.status == 0 and (people / "online" / "online.md").read_text() == table
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


WRONG = [
    ({"tables": "figure1"}, "--tables"),
    ({"losses": "iid"}, "--losses"),
    ({"rounds": "some"}, "--rounds"),
    ({"experts": "1"}, "--experts"),
    ({"epsilon": "-1"}, "Error: --epsilon"),
    ({"epsilon": "abc"}, "Error: --epsilon"),
    ({"tables": "stocks"}, "Error: --tables: stocks cannot be made; --data names no folder with these losses"),
    ({"seeds": "0"}, "--seeds"),
    ({"data": "nowhere"}, "nowhere"),
    ({"out": "people.csv"}, "people.csv"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_mistake_gets_one_line(
    labeldp: Callable[..., Ran], people: Path, changes: dict[str, str], words: str
) -> None:
    ran = labeldp(*arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert not (people / "online").exists()
