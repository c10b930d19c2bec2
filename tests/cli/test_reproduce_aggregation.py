"""`labeldp reproduce aggregation`: runs, a table and figures in a folder; a mistake gets one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran
from labeldp.privacy import InputError
from labeldp.workflows.reproduce import aggregation, aggregation_data


def arguments(**changes: str) -> list[str]:
    given = {"tables": "lba", "bag-size": "8", "bags": "100", "seeds": "1", "out": "bags"}
    words = (word for name, value in {**given, **changes}.items() for word in (f"--{name}", value))
    return ["reproduce", "aggregation", *words]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation_data, "MADE", 3_000)
    monkeypatch.delenv("LABELDP_DATA", raising=False)


def test_a_grid_ends_in_a_table_and_a_figure(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp(*arguments())
    assert ran.status == 0 and ran.out.splitlines() == ["bags/aggregation.md", "bags/generated.svg"], ran
    assert "| 100 |" in (people / "bags" / "aggregation.md").read_text()
    assert not (people / "bags" / "unfinished").exists()


def test_without_torch_the_other_tables_are_run(
    labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise InputError("networks need torch: pip install '.[torch]'")

    monkeypatch.setattr(aggregation, "networks", missing)
    ran = labeldp(*arguments(tables="lba,llp"))
    assert ran.status == 0 and "bags/aggregation.md" in ran.out, ran
    assert "the tables of llp are left out: networks need torch: pip install '.[torch]'" in ran.err
    ran = labeldp(*arguments(tables="llp", out="none"))
    assert ran.status == 1 and ran.err.splitlines()[-1].startswith("Error: networks need torch")


WRONG = [
    ({"tables": "lbp"}, "--tables"),
    ({"bags": "0"}, "--bags"),
    ({"data": "people.csv"}, "Criteo"),
    ({"data": "nowhere"}, "nowhere"),
    ({"out": "people.csv"}, "people.csv"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_mistake_gets_one_line(
    labeldp: Callable[..., Ran], people: Path, changes: dict[str, str], words: str
) -> None:
    ran = labeldp(*arguments(**changes))
    assert ran.status != 0 and "Traceback" not in ran.err and words in ran.err.splitlines()[-1], ran
    assert not (people / "bags").exists()
