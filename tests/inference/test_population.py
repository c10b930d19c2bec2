"""Intervals hold the truth of populations, from which the records of each run are drawn anew."""

import pytest
from scipy.stats import binom

from inference.population import Cell, cells

NOMINAL = {"exact": 0.95, "finite sample": 0.95, "asymptotic": 0.93}


def misses(cell: Cell, runs: int) -> str:
    """Return what is said of a cell that holds the truth too seldom; nothing of others."""
    held, guarantee, _ = cell.coverage(runs, seed=5)
    return f"{cell.title}: {held} of {runs} ({guarantee})" if binom.cdf(held, runs, NOMINAL[guarantee]) < 1e-4 else ""


BRIEF = [cell for cell in cells(brief=True) if cell.records != 2000]


@pytest.mark.parametrize("cell", BRIEF, ids=lambda cell: cell.title)
def test_intervals_hold_the_truth_of_the_population(cell: Cell) -> None:
    assert misses(cell, 30) == ""


@pytest.mark.slow
@pytest.mark.parametrize("cell", list(cells(brief=True)), ids=lambda cell: cell.title)
def test_intervals_hold_the_truth_in_many_runs(cell: Cell) -> None:
    assert misses(cell, 100) == ""


def test_a_harness_that_finds_intervals_that_are_too_short() -> None:
    def short(rng, level):  # type: ignore[no-untyped-def]
        return next(cell for cell in BRIEF if cell.name == "share of 1 %, answers").run(rng, 0.5)

    assert misses(Cell("a level of 50 %", 800, 3.0, short), 30) != ""
