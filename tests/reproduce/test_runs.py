"""One run of a folder: made where it is missing, and by one command alone."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from labeldp.reproduce.runs import UNFINISHED, claimed, make, path_of, results_folder


@dataclass(frozen=True)
class Run:
    name: str = "one"
    title: str = "One"


@dataclass(frozen=True)
class Found:
    def write(self, path: Path) -> None:
        path.write_text("{}")


def never(place: Path) -> Found:
    raise AssertionError("this run was measured again")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return results_folder(str(tmp_path / "out"))


def test_a_missing_run_is_made_and_nothing_unfinished_is_left(folder: Path) -> None:
    places = []
    assert make(folder, Run(), lambda: False, lambda place: places.append(place) or Found(), print)
    assert path_of(folder, Run()).exists()
    assert places == [folder / UNFINISHED / "one"] and not (folder / UNFINISHED).exists()


def test_a_run_that_stands_is_not_even_claimed(folder: Path) -> None:
    with claimed(folder / UNFINISHED / "one"):
        assert not make(folder, Run(), lambda: True, never, lambda sentence: pytest.fail(sentence))


def test_a_run_that_another_command_made_meanwhile_is_not_made_again(folder: Path) -> None:
    seen = iter([False, True])
    assert not make(folder, Run(), lambda: next(seen), never, print)
    assert not (folder / UNFINISHED).exists()


def test_a_run_that_another_command_is_at_is_left_to_it(folder: Path) -> None:
    said: list[str] = []
    with claimed(folder / UNFINISHED / "one"):
        assert not make(folder, Run(), lambda: False, never, said.append)
    assert said == ["One: left to the command that is at work on it"]
