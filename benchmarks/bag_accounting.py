"""How fast the accounting of bags is, as a ratio to `scipy.integrate.quad` of the same integrand in the same run.

    python benchmarks/bag_accounting.py [--repeats 15] [--write]

One thread. `quad` adds up one integral for each number of noisy labels of a bag that has a probability above 1e-16, to
a relative 1e-8 (its own estimate); ours is a bracket that holds for certain, of a relative width of 1e-10 for published
weights and 1e-5 for secret ones. Inverses have no peer: their ratio is to one `quad` of the same curve.
"""

import argparse
import os
import statistics
from collections.abc import Callable

import pages
from clock import seconds

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.integrate import quad
from scipy.special import betainc, erfcx
from scipy.stats import binom, hypergeom

from labeldp.bags import HiddenBag, NoisyBags, cross_bound, lba_delta, lba_required_residual, llp_delta, llp_epsilon


def by_quad(bags: NoisyBags, epsilon: float) -> float:
    """The delta of bags with Gaussian weights, from one quadrature for each number of noisy labels."""
    if bags.noisy_per_bag == bags.size:
        return inside_by_quad(bags, epsilon)
    ratio, others = float(bags.ratio), bags.size - 1
    if bags.noisy_set == "stratified":
        numbers, masses = np.array([bags.noisy]), np.ones(1)
    else:
        law = binom(others, float(bags.fraction)) if bags.limit else hypergeom(bags.records - 1, bags.noisy, others)
        numbers = np.arange(others + 1)
        masses = law.pmf(numbers)
    kept = (masses > 1e-16) & (numbers > 0)
    total = float(masses[numbers == 0].sum())
    for n, mass in zip(numbers[kept], masses[kept], strict=True):

        def integrand(x: float, n: float = n) -> float:
            a = np.exp(x)
            tail = betainc(n / 2, 0.5, 1 / (1 + (a / ratio) ** 2))
            return tail * np.exp(-0.5 * (a / 2 - epsilon / a) ** 2) / np.sqrt(2 * np.pi) * a

        total += mass * quad(integrand, -12, 4, epsabs=0, epsrel=1e-8, limit=200)[0]
    return total


def inside_by_quad(bags: NoisyBags, epsilon: float) -> float:
    """The same where every label has noise."""
    ratio, others = float(bags.ratio), bags.size - 1

    def integrand(a: float) -> float:
        return betainc(others / 2, 0.5, 1 - (a / ratio) ** 2) * np.exp(-0.5 * (a / 2 - epsilon / a) ** 2)

    return quad(integrand, 0, ratio, epsabs=0, epsrel=1e-8, limit=200)[0] / np.sqrt(2 * np.pi)


def hidden_by_quad(bag: HiddenBag, epsilon: float) -> float:
    """The delta of secret weights, one row: the larger of two quadratures in the smaller eigenvalue's direction."""
    return max(
        _hidden_by_quad(pair.stretch, pair.shrink, epsilon) for pair in (bag.weights(), bag.weights().reversed())
    )


def _hidden_by_quad(stretch: float, shrink: float, epsilon: float) -> float:
    shift = epsilon + (np.log1p(stretch) + np.log1p(-shrink)) / 2

    def integrand(u: float) -> float:
        y = shift + shrink * u * u / 2
        if y <= 0:
            inner = 1 - np.exp(y) / np.sqrt(1 + stretch)
        else:
            x = np.sqrt(2 * y / stretch)
            gap = erfcx(x / np.sqrt(2)) - erfcx(x * np.sqrt((1 + stretch) / 2)) / np.sqrt(1 + stretch)
            inner = np.exp(-x * x / 2) * gap
        return 2 * np.exp(-u * u / 2) / np.sqrt(2 * np.pi) * inner

    return quad(integrand, 0, 12, epsabs=0, epsrel=1e-8, limit=200)[0]


def published_cases() -> dict[str, tuple[NoisyBags, float]]:
    """Bags by name, with the epsilon at which they are read."""
    unit = {"stddev": 1, "label_range": (-1, 1), "weights": "gaussian"}
    return {
        "385 labels, all noisy": (NoisyBags(385, **unit), 1),
        "3950 labels, 395 noisy in each": (NoisyBags(3950, noisy_fraction=0.1, **unit), 1),
        "3975 labels, a tenth noisy, limit": (
            NoisyBags(3975, noisy_fraction=0.1, noisy_set="fixed", **unit),
            1,
        ),
        "the same, of 100,000 records": (
            NoisyBags(3975, noisy_fraction=0.1, noisy_set="fixed", records=100_000, **unit),
            1,
        ),
        "39767 labels, a hundredth noisy, limit": (
            NoisyBags(39_767, noisy_fraction=0.01, noisy_set="fixed", **unit),
            1,
        ),
        "Criteo in the paper: 256 labels, a tenth noisy": (
            NoisyBags(
                256, stddev=1, label_range=(0, 253.78), noisy_fraction=0.1, weights="gaussian", noisy_set="fixed"
            ),
            1,
        ),
    }


def lines(repeats: int) -> list[str]:
    """The table, a row for each call."""
    rows, ratios = [], []

    def row(name: str, call: str, ours: Callable[[], object], peer: float, note: str) -> None:
        took = seconds(ours, repeats)
        ratios.append((took, took / peer))
        rows.append(f"| {name} | `{call}` | {1000 * took:.1f} | {1000 * peer:.1f} | {took / peer:.3f} | {note} |")

    for name, (bags, epsilon) in published_cases().items():
        peer = seconds(lambda bags=bags, epsilon=epsilon: by_quad(bags, epsilon), 3)
        found, expected = llp_delta(bags, epsilon), by_quad(bags, epsilon)
        agree = f"{abs(found / expected - 1):.0e} apart"
        row(name, "llp_delta", lambda bags=bags, epsilon=epsilon: llp_delta(bags, epsilon), peer, agree)
        row(name, "llp_epsilon", lambda bags=bags: llp_epsilon(bags, 0.01), peer, "")
    for size, features in ((1024, 5), (16_384, 71)):
        leverage = 3 * features / size
        asked = {"leverage": leverage, "cross": cross_bound(size, leverage), "label_range": (-1, 1)}
        bag = HiddenBag(300, **asked)
        peer = seconds(lambda bag=bag: hidden_by_quad(bag, 1), 3)
        agree = f"{abs(lba_delta(bag, 1) / hidden_by_quad(bag, 1) - 1):.0e} apart"
        name = f"secret weights, {size} labels, {features} features"
        row(name, "lba_delta", lambda bag=bag: lba_delta(bag, 1), peer, agree)
        needed = lambda asked=asked: lba_required_residual(epsilon=1, delta=1e-6, **asked)  # noqa: E731
        row(name, "lba_required_residual", needed, peer, "")
    median, worst = statistics.median(time for time, _ in ratios), max(time for time, _ in ratios)
    direct = statistics.median(ratio for (_, ratio), text in zip(ratios, rows, strict=True) if "_delta`" in text)
    return [
        "| bags | call | ms | `quad`, ms | ratio | to `quad` |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"Median {1000 * median:.1f} ms, slowest {1000 * worst:.0f} ms; "
        f"a delta takes {direct:.3f} of a `quad` in the median.",
    ]


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    options = parser.parse_args()
    command = f"python benchmarks/bag_accounting.py --repeats {options.repeats}"
    head = [
        "# Accounting of bags",
        "",
        f"`{command}`: one thread, medians of processor time. The figures beside each other are",
        "of one run.",
        "",
    ]
    text = "\n".join([*head, *lines(options.repeats)]) + "\n"
    print(text)
    if options.write:
        pages.store(text, "bag_accounting")


if __name__ == "__main__":
    main()
