"""How fast sums over bags are built, as a ratio to a memory copy of the same rows in the same run.

    OMP_NUM_THREADS=1 python benchmarks/bag_speed.py [--rows 10000000] [--repeats 5] [--write]

One thread, 20 features in doubles. `bag_product` reads the rows once, in the order in which they stand, and adds each
to its bag. It is fast where the sums of all bags stay in cache, as with large bags, or where the records of a bag stand
together. The sums of 156,000 bags of 64 (25 MB) do not stay in cache.
"""

import argparse
import os
import platform
from datetime import date

import pages
from clock import seconds

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import labeldp as ldp
from labeldp.bags.learners import bag_product

FEATURES = 20


def ratios(count: int, repeats: int) -> list[tuple[str, float, float, float]]:
    """For each kind of bags: seconds of a copy, of building the matrix, and of the sums."""
    rng = np.random.default_rng(0)
    table = np.empty((count, FEATURES))
    table[:] = rng.random((1000, FEATURES))[np.arange(count) % 1000]
    other, weights = np.empty_like(table), rng.choice([-1.0, 1.0], count)
    found = []
    for size in (64, 256, 512, 1024):
        drawn = ldp.bags.random_bags(count, size).value
        for kind, bags in (("at random", drawn), ("together", np.sort(drawn))):
            copy = seconds(lambda: np.copyto(other, table), repeats)
            made = seconds(lambda bags=bags: bag_product(bags, weights), repeats)
            product = bag_product(bags, weights)
            found.append((f"{size}, records {kind}", copy, made, seconds(lambda p=product: p @ table, repeats)))
    return found


def report(count: int, repeats: int) -> str:
    """A page of Markdown."""
    lines = [
        "# How fast sums over bags are",
        "",
        f"`python benchmarks/bag_speed.py`, {date.today()}: {platform.machine()}, Python {platform.python_version()}, "
        f"numpy {np.__version__}, one thread; {count:,} rows of {FEATURES} doubles, medians of {repeats}.",
        "",
        "| records of a bag | copy, ms | sums, ms | share of the copy's bandwidth | the matrix, ms |",
        "|---|---|---|---|---|",
    ]
    for name, copy, made, summed in ratios(count, repeats):
        lines.append(f"| {name} | {1e3 * copy:.0f} | {1e3 * summed:.0f} | {copy / summed:.2f} | {1e3 * made:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    chosen = parser.parse_args()
    page = report(chosen.rows, chosen.repeats)
    print(page)
    if chosen.write:
        pages.store(page, "bag_sums")


if __name__ == "__main__":
    main()
