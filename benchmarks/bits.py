"""How many bits a released label tells, by mechanism, number of classes and epsilon.

    python benchmarks/bits.py [--draws 200000] [--write]

Mutual information, in bits, of a uniform label and its answer. Randomized response, unary bits (as VLP takes them),
randomized response over the best public random partition, and the most that any epsilon-DP mechanism can tell (the
subset selection with the best k) are exact sums (`labeldp.mechanisms.information`). Laplace noise on the class
indicators, of scale 2 / epsilon as in ALIBI, is simulated, with its standard error.
"""

import argparse
import math
from typing import Any

import numpy as np

from labeldp.mechanisms import best_groups, local_hashing_bits, response_bits
from labeldp.mechanisms.information import _check, _log, _subset_selection_bits
from labeldp.privacy import InputError, positive_epsilon

CLASSES = (3, 4, 5, 7, 10, 20, 100)
EPSILONS = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8)
BLOCK = 20_000


def laplace_bits(classes: int, epsilon: float, draws: int) -> tuple[float, float]:
    """Return the bits of Laplace noise on class indicators and their standard error; the label is the first class."""
    rng, found = np.random.default_rng([classes, round(1000 * epsilon)]), []
    for _ in range(0, draws, BLOCK):
        noisy = rng.laplace(scale=2 / epsilon, size=(min(BLOCK, draws), classes))
        noisy[:, 0] += 1
        # log P(z | k), but for what all classes share.
        logs = (np.abs(noisy) - np.abs(noisy - 1)) * epsilon / 2
        found.append(logs[:, 0] - np.logaddexp.reduce(logs, axis=1) + np.log(classes))
    values = np.concatenate(found) / np.log(2)
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def subset_selection_bits(classes: int, epsilon: Any, size: int | None = None) -> float:
    """Return the bits of subset selection; with the best k, the most that any epsilon-DP mechanism can tell.

    Args:
        size: k, 1 to K - 1; by default the best one.

    Raises:
        InputError: numbers out of range.

    Source: WangHuang, subset selection.
    """
    _check(classes, classes)
    if size is not None and not 1 <= size < classes:
        raise InputError(f"size must be an integer from 1 to {classes - 1}")
    sizes = np.arange(1, classes) if size is None else np.array([size])
    return float(_subset_selection_bits(classes, float(positive_epsilon(epsilon)), sizes).max())


def unary_bits(classes: int, epsilon: Any) -> float:
    """Return the bits of unary encoding: the entropy of its K answers less that of K flips.

    Raises:
        InputError: numbers out of range.
    """
    _check(classes, classes)
    half = float(positive_epsilon(epsilon)) / 2
    ones = np.arange(classes + 1)
    log_keep, log_lie = -np.logaddexp(0, -half), -np.logaddexp(0, half)
    # An answer with some ones: all K bits as if no label had them, times e^half for the own bit or e^-half without it.
    share = np.logaddexp(_log(ones) + half, _log(classes - ones) - half) - math.log(classes)
    log_chances = ones * log_lie + (classes - ones) * log_keep + share
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, classes + 1)))])
    ways = factorials[classes] - factorials - factorials[::-1]
    entropy = -(np.exp(ways + log_chances) * log_chances).sum()
    flip = math.exp(log_lie)
    return float(entropy + classes * (flip * log_lie + (1 - flip) * log_keep)) / math.log(2)


def page(draws: int) -> str:
    """The whole page."""
    lines = [
        "# Bits per label",
        "",
        "Made by `python benchmarks/bits.py --write`. Bits that a released label tells about a",
        "uniform one. All columns are exact sums but Laplace (noise of scale 2/ε on each indicator, as in ALIBI),",
        f"which is simulated with {draws:,} draws; ± is its standard error. *Partition* is randomized response over g",
        "groups of classes, drawn anew for each record from a public seed; *share* is the better one of it and",
        "randomized response, over the optimum.",
        "",
        "| K | ε | randomized response | unary bits | Laplace | partition | g | optimum | share |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    least = dict.fromkeys(("below ten classes", "from ten classes on"), 1.0)
    for classes in CLASSES:
        for epsilon in EPSILONS:
            groups, most = best_groups(classes, epsilon), subset_selection_bits(classes, epsilon)
            plain, parted = response_bits(classes, epsilon), local_hashing_bits(classes, epsilon, groups)
            share = max(plain, parted) / most
            kind = "from ten classes on" if classes >= 10 else "below ten classes"
            least[kind] = min(least[kind], share)
            mean, error = laplace_bits(classes, epsilon, draws)
            unary = unary_bits(classes, epsilon)
            lines.append(
                f"| {classes} | {epsilon:g} | {plain:.4g} | {unary:.4g} | {mean:.4f} ± {error:.4f} | {parted:.4g} "
                f"| {groups} | {most:.4g} | {share:.4f} |"
            )
    lines += ["", *(f"Least share {kind}: {share:.4f}." for kind, share in least.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import pages

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200_000)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    asked = parser.parse_args()
    text = page(asked.draws)
    print(text)
    if asked.write:
        pages.store(text, "bits")
