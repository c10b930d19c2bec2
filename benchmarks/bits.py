"""How many bits a released label tells, by mechanism, number of classes and epsilon.

    python benchmarks/bits.py [--draws 200000] [--write docs/results/bits.md]

Mutual information, in bits, of a uniform label and its answer. Randomized response, unary bits (as VLP takes them),
randomized response over the best public random partition, and the most that any epsilon-DP mechanism can tell (the
subset selection with the best k) are exact sums (`labeldp.mechanisms.information`). Laplace noise on the class
indicators, of scale 2 / epsilon as in ALIBI, is simulated, with its standard error.
"""

import argparse
from pathlib import Path

import numpy as np

from labeldp.mechanisms import best_groups, local_hashing_bits, response_bits, subset_selection_bits, unary_bits

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


def page(draws: int) -> str:
    """The whole page."""
    lines = [
        "# Bits per label",
        "",
        "Made by `python benchmarks/bits.py --write docs/results/bits.md`. Bits that a released label tells about a",
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200_000)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    text = page(asked.draws)
    print(text)
    if asked.write:
        asked.write.write_text(text)
