"""How many equal releases a budget admits: declared as one plan, one after the other, and at delta = 0.

    python benchmarks/accounts.py [--write]

Nothing is drawn. The last table is the time of one charge in a ledger file on this disk.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pages

import labeldp as ldp
from labeldp.accounting import Account, Books
from labeldp.bags.losses import NoisyBag
from labeldp.curator import LedgerFile
from labeldp.privacy import Block, Budget, PrivacyLoss, Step

BUDGETS = [(1, "1e-6"), (3, "1e-6"), (8, "1e-6"), (3, "1e-9")]

LOSSES = {
    "randomized response, ε = 0.1": PrivacyLoss.pure("0.1"),
    "randomized response, ε = 0.5": PrivacyLoss.pure("0.5"),
    "10 answers, ε = 0.1": PrivacyLoss.response("0.1", 10),
    "Gaussian, μ = 0.05": PrivacyLoss.gaussian(0.05),
    "a bag of 256, a tenth noisy": PrivacyLoss.curve(NoisyBag("gaussian", 0.25, 256, 26)),
}

MOST = 1 << 20

TEXT = """| budget | release | plan | one by one | pure |
|---|---|---|---|---|
{table}

| budget | {columns} |
|---|---|---|
{timed}
"""
"""Equal releases that a budget admits; and milliseconds of one more charge after so many unlike ones."""

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


def one_by_one(loss: PrivacyLoss, budget: Budget) -> int:
    """How many an account admits that was opened by something small."""
    account = Account("a benchmark", budget).admit(Block((Step("", PrivacyLoss.pure("1e-9")),)), ()).account
    books, count = Books(account), 0
    try:
        while True:
            books, count = books.charge(Step("", loss)).books, count + 1
    except ldp.BudgetExceeded:
        return count


def rows(epsilon: int, delta: str) -> list[str]:
    """How many of each loss are admitted, as rows of a table."""
    table = []
    for name, loss in LOSSES.items():
        plan = most(lambda times, loss=loss: Budget(epsilon, delta).admits(loss * times))  # type: ignore[misc]
        pure = most(lambda times, loss=loss: Budget(epsilon).admits(loss * times))  # type: ignore[misc]
        late = one_by_one(loss, Budget(epsilon, delta))
        table.append(f"| ({epsilon}, {delta}) | {name} | {plan} | {late} | {pure} |")
    return table


def charge_times(earlier: int, delta: str) -> float:
    """The median time of a charge, in milliseconds, where a ledger holds some unlike ones."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = LedgerFile(f"{folder}/l.db").dataset("labels", budget=Budget(1000, delta))
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
        f"| {name} | " + " | ".join(f"{charge_times(earlier, delta):.1f}" for earlier in EARLIER) + " |"
        for name, delta in (("δ = 0", "0"), ("δ > 0", "1e-6"))
    ]
    columns = " | ".join(f"{earlier:,}" for earlier in EARLIER)
    return TEXT.format(table="\n".join(table), columns=columns, timed="\n".join(timed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    options = parser.parse_args()
    text = page()
    print(text)
    if options.write:
        pages.store(text, "accounts", "accounts-time")


if __name__ == "__main__":
    main()
