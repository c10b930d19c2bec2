"""How often the intervals of `labeldp.inference` hold the truth of a population, with records drawn anew in each run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests python benchmarks/population.py [--write]

All cells of `tests/inference/population.py` are screened with 200 runs. The hundred cells that hold the truth least
often, beside their guarantee, are run 2,000 times with other seeds. Each cell is appended to the file of cells as it
comes, so an interrupted run resumes. --write fills the page with the worst cells.
"""

import argparse
import csv
import sys
import warnings
from pathlib import Path

import pages
from scipy.stats import binom

from inference.population import Cell, cells

SCREEN, FULL, WORST, SHOWN = 200, 2000, 100, 20
NOMINAL = {"exact": 0.95, "finite sample": 0.95, "asymptotic": 0.93}
"""What an interval of 95 % must cover: all of it, or 93 % of it for many records."""

DATA = Path(__file__).parents[1] / "docs/results/data/population.csv"
HEAD = ("cell", "records", "epsilon", "guarantee", "runs", "held", "width")


def stored() -> dict[tuple[str, int], dict[str, str]]:
    """Return the rows that are there, by cell and runs."""
    if not DATA.exists():
        return {}
    with DATA.open(newline="") as file:
        return {(title(row), int(row["runs"])): row for row in csv.DictReader(file)}


def title(row: dict[str, str]) -> str:
    return f"{row['cell']}, n = {int(row['records']):,}, ε = {row['epsilon']}"


def chance(row: dict[str, str]) -> float:
    """Return the probability that an interval with its guarantee holds so seldom."""
    return float(binom.cdf(int(row["held"]), int(row["runs"]), NOMINAL[row["guarantee"]]))


def run(cell: Cell, runs: int, rows: dict[tuple[str, int], dict[str, str]]) -> None:
    if (cell.title, runs) in rows:
        return
    held, guarantee, width = cell.coverage(runs, seed=runs)
    values = (cell.name, cell.records, f"{cell.epsilon:g}", guarantee, runs, held, f"{width:.4g}")
    fresh = not DATA.exists()
    with DATA.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEAD, values] if fresh else [values])
    rows[cell.title, runs] = dict(zip(HEAD, map(str, values), strict=True))


def worst(rows: dict[tuple[str, int], dict[str, str]], runs: int, count: int) -> list[dict[str, str]]:
    return sorted((row for (_, each), row in rows.items() if each == runs), key=chance)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, every = stored(), list(cells(brief=False))
    for number, cell in enumerate(every, 1):
        run(cell, SCREEN, rows)
        print(f"\r{number} of {len(every)}", end="", file=sys.stderr, flush=True)
    chosen = {title(row) for row in worst(rows, SCREEN, WORST)}
    for cell in every:
        if cell.title in chosen:
            run(cell, FULL, rows)
    if options.write:
        publish(rows)


def publish(rows: dict[tuple[str, int], dict[str, str]]) -> None:
    """Write the table of the page."""
    found = worst(rows, FULL, SHOWN)
    table = [
        [
            row["cell"], f"{int(row['records']):,}", row["epsilon"], row["guarantee"],
            f"{100 * int(row['held']) / int(row['runs']):.1f}", row["width"],
        ]
        for row in found
    ]  # fmt: skip
    columns = ["estimate and population", "n", "ε", "guarantee", "coverage of 95 %", "width"]
    pages.write("population-worst", columns, table)
    pages.fill()


if __name__ == "__main__":
    main()
