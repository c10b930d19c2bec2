"""Runs of a folder: made where they are missing, by one command alone; those of older code are recognized."""

import gzip
import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.privacy import InputError
from papers.aggregation import run as aggregation_run
from papers.aggregation.report import write_aggregation
from papers.aggregation.run import AggregationGrid, reproduce_aggregation
from papers.harness import (
    UNFINISHED,
    Experiment,
    Json,
    Progress,
    SeededRun,
    Stored,
    claimed,
    listed,
    markdown_table,
    path_of,
    results_folder,
)
from papers.multistage.grid import Grid
from papers.multistage.report import write_reproduced
from papers.multistage.run import reproduce_multistage
from papers.online import tables as online_tables
from papers.online.report import write_online
from papers.online.run import OnlineGrid, reproduce_online
from papers.rates.report import write_rates
from papers.rates.run import RateGrid, reproduce_rates


@dataclass(frozen=True)
class Run(SeededRun):
    seed: int = 0
    word: str = "one"

    @property
    def name(self) -> str:
        return f"{self.word}-seed{self.seed}"

    @property
    def title(self) -> str:
        return self.word.capitalize()


@dataclass(frozen=True)
class Found(Stored):
    COMMAND = "nothing"
    NOTE = "SIMULATION"

    run: Run
    constants: Json
    seconds: float = 0.0

    @classmethod
    def parts(cls, content: Json) -> Json:
        return {"run": Run(**content["run"])}


class Nothing(Experiment[Run, Found]):
    """Runs that note where they were made."""

    stored = Found

    def __init__(self, *, forbidden: bool = False, level: float = 1.0) -> None:
        self.places, self.forbidden, self.level = list[Path](), forbidden, level

    def constants(self, run: Run) -> Json:
        return {"LEVEL": self.level, "SIZES": (1, 2)}

    def measure(self, run: Run, place: Path, show: Progress) -> Found:
        assert not self.forbidden, "this run was measured again"
        self.places.append(place)
        show("at work", 0.5)
        return Found(run, self.constants(run))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return results_folder(str(tmp_path / "out"))


def test_a_missing_run_is_made_and_nothing_unfinished_is_left(folder: Path) -> None:
    made = Nothing()
    [found] = made.run_missing([Run()], folder)
    assert path_of(folder, Run()).exists() and Found.read(path_of(folder, Run())) == replace(
        found, constants={"LEVEL": 1.0, "SIZES": [1, 2]}
    )
    assert made.places == [folder / UNFINISHED / "one-seed0"] and not (folder / UNFINISHED).exists()


def test_a_run_that_exists_is_not_even_claimed(folder: Path) -> None:
    Nothing().run_missing([Run()], folder)
    with claimed(folder / UNFINISHED / "one-seed0"):
        again = Nothing(forbidden=True).run_missing([Run()], folder, callback=lambda sentence: pytest.fail(sentence))
    assert len(again) == 1


def test_a_run_that_another_command_made_meanwhile_is_not_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def late(place: Path) -> Iterator[bool]:
        """The other command ends before the claim is held."""
        with claimed(place) as free:
            Found(Run(), {"LEVEL": 1.0, "SIZES": (1, 2)}, 7.0).write(path_of(folder, Run()))
            yield free

    monkeypatch.setattr("papers.harness.claimed", late)
    [found] = Nothing(forbidden=True).run_missing([Run()], folder)
    assert found.seconds == 7.0 and not (folder / UNFINISHED).exists()


def test_a_run_that_another_command_is_at_is_left_to_it(folder: Path) -> None:
    said: list[str] = []
    with claimed(folder / UNFINISHED / "one-seed0"):
        assert Nothing(forbidden=True).run_missing([Run()], folder, callback=said.append) == []
    assert said == ["One: left to the command that is at work on it"]


def test_other_constants_are_refused_before_any_run_is_started(folder: Path) -> None:
    Nothing().run_missing([Run(1)], folder)
    with pytest.raises(InputError, match=r"one-seed1\.json was made with other data or constants"):
        Nothing(forbidden=True, level=2.0).run_missing([Run(0), Run(1)], folder)


def test_results_are_published_after_each_batch_in_which_a_run_was_made(folder: Path) -> None:
    runs, counts = [Run(seed, word) for seed in range(3) for word in ("one", "two")], list[int]()
    Nothing().run_missing(runs[2:4], folder)
    Nothing().run_missing(runs, folder, publish=lambda results: counts.append(len(results)))
    assert counts == [4, 6], "after the first and the last seed"


def test_progress_rises_to_the_share_of_all_runs(folder: Path) -> None:
    shares = list[tuple[str, float]]()
    Nothing().run_missing([Run(0), Run(1)], folder, progress=lambda text, share: shares.append((text, share)))
    assert shares == [("One", 0.0), ("at work", 0.25), ("One", 0.5), ("at work", 0.75)]


def test_a_list_of_values_is_parsed_or_refused() -> None:
    assert listed(" a, b", "names") == ["a", "b"] and listed("1,2", "sizes", int) == [1, 2]
    for text in ("a,", "a,a", ""):
        with pytest.raises(InputError, match="--names must hold distinct values"):
            listed(text, "names")
    with pytest.raises(InputError, match="--sizes must hold numbers"):
        listed("1,many", "sizes", int)
    with pytest.raises(InputError, match="distinct"):
        listed("1,1.0", "sizes", float)


def test_a_table_has_a_line_for_each_row() -> None:
    assert list(markdown_table(["a", ""], "lr", [["x", 1], ["", 2.5]])) == [
        "| a | |",
        "|---|---:|",
        "| x | 1 |",
        "|  | 2.5 |",
    ]


STORED = Path(__file__).parent / "stored"
"""Runs and tables that commit 20493d2 made."""


def rates(out: str, place: Path) -> list[Any]:
    chosen = (
        "regression-none,regression-local-label,heavy-tailed-central-label,classification-local-label,classes-unary"
    )
    grid = RateGrid.parse(rows=chosen, epsilon="1", records="1e3,1e4", seeds=1)
    few = tuple(run for run in grid.runs if run.dimension != 2 and not run.row.endswith("printed"))
    return reproduce_rates(RateGrid(grid.records, few), out=out)


def online(out: str, place: Path) -> list[Any]:
    options = {"tables": "excess,regret", "losses": "trap", "rounds": "256", "experts": "3", "epsilon": "4"}
    return reproduce_online(OnlineGrid.parse(**options, seeds=1), data=None, out=out)


def aggregation(out: str, place: Path) -> list[Any]:
    """Columns of -1 and 1, whose scaled values are exact on every machine, so that the digest is."""
    (place / "protein_structure").mkdir(parents=True)
    numbers = np.arange(1024)
    columns = [1 - 2 * ((numbers >> bit) & 1) for bit in range(9)]
    rows = zip(*columns, 8 + columns[0] + columns[1] / 2, strict=True)
    lines = [",".join([*(f"F{number}" for number in range(1, 10)), "rmsd"]), *(",".join(map(str, row)) for row in rows)]
    with gzip.open(place / "protein_structure" / "protein_structure.csv.gz", "wt") as file:
        file.write("\n".join(lines))
    grid = AggregationGrid.parse(tables="lba", bag_size="4", bags="100", noisy_fraction=None, seeds=1)
    return reproduce_aggregation(grid, data=str(place), out=out)


def multistage(out: str, place: Path) -> list[Any]:
    place.mkdir()
    arrays = {}
    for part, count in {"train": 60, "test": 20}.items():
        labels = np.arange(count) % 2
        images = np.arange(count * 81).reshape(count, 9, 9) * 7 % 60
        images[labels == 0, :4] += 150
        images[labels == 1, 5:] += 150
        arrays |= {f"{part}_images": images.astype(np.uint8), f"{part}_labels": labels}
    np.savez(place / "halves.npz", **arrays)
    options = {"dataset": "npz", "classes": "2", "epsilon": "5", "delta": "1e-6", "network": None, "preset": None}
    grids = [Grid.parse(**options, method="linear", seeds=1, figure=figure) for figure in (None, "clusters")]
    runs = grids[0].runs + grids[1].runs[:1]
    return reproduce_multistage(Grid("npz", "2", runs), data=str(place / "halves.npz"), out=out)


PAPERS = {
    "rates": (rates, write_rates, "rates.md"),
    "online": (online, write_online, "online.md"),
    "aggregation": (aggregation, write_aggregation, "aggregation.md"),
    "multistage": (multistage, write_reproduced, "results.md"),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_runs_of_older_code_are_read_and_not_made_again(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that logarithms and powers went into may differ in the last digit on another machine."""
    reproduce, write, table = PAPERS[paper]
    monkeypatch.setattr(online_tables, "EXCESSES", online_tables.EXCESSES[:1])
    load = aggregation_run.problems
    only = {"protein_structure"}
    monkeypatch.setattr(aggregation_run, "problems", lambda data: {k: v for k, v in load(data).items() if k in only})
    fresh = reproduce(str(tmp_path / "fresh"), tmp_path / "data")
    shutil.copytree(STORED / paper, tmp_path / "old")
    for result in fresh:
        path = path_of(tmp_path / "old", result.run)
        content = json.loads(path.read_text())
        now = json.loads(json.dumps(result.content()))
        assert alike(content["constants"], now["constants"])
        assert {**now["run"], **content["run"]} == now["run"] and list(content) == list(now)
        path.write_text(json.dumps({**content, "constants": now["constants"]}))
    kept = {path: path.read_bytes() for path in (tmp_path / "old" / "runs").iterdir()}
    shutil.rmtree(tmp_path / "data", ignore_errors=True)
    results = reproduce(str(tmp_path / "old"), tmp_path / "data")
    assert len(results) == len(kept) == len(fresh)
    assert kept == {path: path.read_bytes() for path in (tmp_path / "old" / "runs").iterdir()}, "none was made again"
    write(results, tmp_path / "old")
    assert (tmp_path / "old" / table).read_text() == (STORED / paper / table).read_text()


def alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same up to the last digits of numbers."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)
