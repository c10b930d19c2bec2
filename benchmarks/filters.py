"""What a filter costs against a list that is declared first: how many equal releases each admits.

    python benchmarks/filters.py [--write docs/results/filters.md]

Nothing is drawn. A filter is that of `Budget(epsilon, delta, kind=…)`, which keeps a tenth of delta for failures;
"alone" keeps nothing for them. The last table is the time of one charge in a ledger file on this disk.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.privacy import Budget, Cost, Filter, NoisyBag, PrivacyLoss

BUDGETS = [(1, "1e-6"), (3, "1e-6"), (8, "1e-6"), (3, "1e-9")]

LOSSES = {
    "randomized response, ε = 0.1": PrivacyLoss.pure("0.1"),
    "randomized response, ε = 0.5": PrivacyLoss.pure("0.5"),
    "10 answers, ε = 0.1": PrivacyLoss.response("0.1", 10),
    "Gaussian, μ = 0.05": PrivacyLoss.gaussian(0.05),
    "a bag of 256, a tenth noisy": PrivacyLoss.curve(NoisyBag("gaussian", 0.25, 256, 26)),
}

MOST = 1 << 20

TEXT = """# What filters cost

`python benchmarks/filters.py`: how many equal releases a budget admits. *Fixed*: a list that is declared before the
first, by its exact curve. *Filters*: one after the other, each chosen after looking at all before it; a tenth of δ is
kept for failures and a tenth for tails, and *alone* nothing is (Gaussian, zCDP). *Pure*: the same ε with δ = 0, where
costs may be chosen late, too.

| budget | release | fixed | Gaussian filter | zCDP filter | alone | pure |
|---|---|---|---|---|---|---|
{table}

A filter admits what either of its sums admits, so it never admits less than δ = 0 does. A tenth of δ is kept for
tails: sixteen releases with a δ count with their ε, so that releases of unlike kinds add up nearly as they would on
paper. Gaussian releases lose next to nothing: their squares add up exactly. Small releases with a pure loss lose a
third, and less with `kind="zcdp"`; where they are few, neither helps over δ = 0. A bag with random weights has a
mixture of Gaussian losses: the one Gaussian that lies above all of it is much larger than most, so many bags are a
case for a list that is declared first.

**One more charge** in a ledger file, milliseconds, median of 20, after so many unlike ones:

| account | {columns} |
|---|---|---|
{timed}
"""

EARLIER = (10, 1000)
"""Unlike charges that a ledger holds when one more is timed."""


def most(admits: Callable[[int], bool]) -> int:
    """The largest number that is admitted."""
    low, high = 0, 1
    while high < MOST and admits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if admits(middle) else (low, middle)
    return low


def by_filter(loss: PrivacyLoss, epsilon: int, delta: str, kind: str, *shares: object) -> int:
    """How many a filter admits, one after the other."""
    rule = Filter.of(epsilon, delta, kind, *shares)
    cost = Cost.worst(rule.cost(loss))
    return most(lambda times: rule.admits((cost * times,)))


def rows(epsilon: int, delta: str) -> list[str]:
    """How many of each loss are admitted, as rows of a table."""
    found = []
    for name, loss in LOSSES.items():
        fixed = most(lambda times, loss=loss: Budget(epsilon, delta).admits(loss * times))  # type: ignore[misc]
        pure = most(lambda times, loss=loss: Budget(epsilon).admits(loss * times))  # type: ignore[misc]
        kinds = [by_filter(loss, epsilon, delta, kind) for kind in ("gaussian", "zcdp")]
        alone = [by_filter(loss, epsilon, delta, kind, 0, 0) for kind in ("gaussian", "zcdp")]
        found.append(
            f"| ({epsilon}, {delta}) | {name} | {fixed} | {kinds[0]} | {kinds[1]} | {alone[0]}, {alone[1]} | {pure} |"
        )
    return found


def charge_times(earlier: int, kind: str | None) -> float:
    """The median time of a charge, in milliseconds, where a ledger holds some unlike ones."""
    with tempfile.TemporaryDirectory() as folder:
        delta = 0 if kind is None else "1e-6"
        ledger = LedgerFile(f"{folder}/l.db").dataset("labels", budget=Budget(1000, delta, kind=kind))
        curator = ldp.Curator(np.zeros(10, dtype=int), domain=ldp.Classes(2), ledger=ledger)
        times = []
        for number in range(earlier + 20):
            mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=0.01 + number * 1e-6)
            start = time.perf_counter()
            curator.release(mechanism, rng=ldp.SystemRandomness())
            times.append(time.perf_counter() - start)
        return 1000 * statistics.median(times[earlier:])


def page() -> str:
    """The page of results."""
    table = [row for epsilon, delta in BUDGETS for row in rows(epsilon, delta)]
    timed = [
        f"| {name} | " + " | ".join(f"{charge_times(earlier, kind):.1f}" for earlier in EARLIER) + " |"
        for name, kind in (("δ = 0", None), ("gaussian filter", "gaussian"), ("zCDP filter", "zcdp"))
    ]
    columns = " | ".join(f"{earlier:,}" for earlier in EARLIER)
    return TEXT.format(table="\n".join(table), columns=columns, timed="\n".join(timed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    text = page()
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
