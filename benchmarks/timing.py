"""Does the running time of randomize depend on the labels?

    python benchmarks/timing.py [--runs 4000] [--write docs/results/timing.md]

Two inputs of one length, whose labels differ, are randomized in random order, each many times, with fresh noise.
Welch's t compares the CPU times of the two, after the slowest tenth of all was left out: what an attacker with a clock
would do. Leaky versions of the same mechanisms are measured in the same way, and must be found.

Source: Reparaz, Balasch, Verbauwhede, Dude, is my code constant time? (2017).
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import FiniteMechanism
from labeldp.privacy import KeyedRandomness, SystemRandomness, Trust
from mechanisms.examples import EXAMPLES

LABELS = 1000
"""Labels of one call, where a mechanism takes any number."""

ALARM = 4.5
"""Above this |t| there is a dependence: chance gets there in 7 of a million comparisons."""

KEPT = 0.9
"""The share of the fastest measurements that is compared: the others met an interrupt."""

Randomize = Callable[[NDArray[Any]], Any]


def times(randomize: Randomize, inputs: tuple[Any, Any], runs: int, rng: np.random.Generator) -> list[NDArray[Any]]:
    """CPU times in ns of so many calls on each of two inputs, in random order."""
    order = rng.permutation(np.repeat([0, 1], runs))
    found = np.empty(len(order))
    for warm in inputs * 20:
        randomize(warm)
    for place, which in enumerate(order.tolist()):
        labels = inputs[which].copy()
        start = time.thread_time_ns()
        randomize(labels)
        found[place] = time.thread_time_ns() - start
    limit = np.quantile(found, KEPT)
    return [found[(order == which) & (found <= limit)] for which in (0, 1)]


def compared(one: NDArray[Any], other: NDArray[Any]) -> tuple[float, float, float, float]:
    """Welch's t, the difference of means, the smallest one that would raise the alarm, and the mean, in ns."""
    error = (one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other)) ** 0.5
    gap = one.mean() - other.mean()
    return float(gap / error), float(gap), ALARM * float(error), float((one.mean() + other.mean()) / 2)


def examples() -> dict[str, FiniteMechanism]:
    """Every public finite mechanism on single labels, at epsilon = 1."""
    made = {name: make(1.0) for name, make in EXAMPLES.items()}
    return {
        name: each for name, each in made.items() if isinstance(each, FiniteMechanism) and each.trust is Trust.LOCAL
    }


def inputs_of(mechanism: FiniteMechanism, rng: np.random.Generator) -> dict[str, tuple[Any, Any]]:
    """Pairs of labels of one length: all the lowest and all the highest, and all the lowest and any."""
    count, size, kind = mechanism.records or LABELS, mechanism.domain.size, mechanism.domain.dtype
    low, high = np.zeros(count, kind), np.full(count, size - 1, kind)
    return {"lowest, highest": (low, high), "lowest, mixed": (low, rng.integers(0, size, count).astype(kind))}


def leaks(mechanism: FiniteMechanism) -> dict[str, Randomize]:
    """The same mechanism made leaky: by a branch on labels, and by drawing again where the truth came out."""

    def with_branch(labels: NDArray[Any]) -> Any:
        if labels[0]:
            hash(bytes(2000))  # a microsecond more
        return mechanism.randomize(labels, rng=SystemRandomness())

    def skipping_zeros(labels: NDArray[Any]) -> Any:
        noisy = mechanism.randomize(labels, rng=SystemRandomness())
        changed = np.flatnonzero(labels)
        noisy[changed] = noisy[changed]
        return noisy

    return {"a branch on the first label": with_branch, "work on labels that are not 0": skipping_zeros}


def page(runs: int) -> str:
    """The whole page."""
    rng, key = np.random.default_rng(1), KeyedRandomness(b"k" * 32, b"a benchmark")
    lines = [
        "# Running time and labels",
        "",
        f"Made by `python benchmarks/timing.py --runs {runs} --write docs/results/timing.md`. For each mechanism",
        f"two inputs of one length are randomized {runs:,} times each, in random order, with fresh noise: {LABELS:,}",
        "labels, or as many as the mechanism was made for. Welch's t compares the CPU times of the two, after the",
        f"slowest tenth was left out. A dependence on labels is |t| above {ALARM}, which chance reaches in 7 of a",
        "million comparisons.",
        "",
        "Found from: the smallest difference that would be one, in ns for a whole call.",
        "",
        "| mechanism | randomness | labels | µs a call | difference in ns | found from | t |",
        "|---|---|---|---|---|---|---|",
    ]
    found = []
    for name, mechanism in examples().items():
        ids = np.arange(mechanism.records or LABELS)
        ways: dict[str, Randomize] = {
            "system": lambda labels, made=mechanism: made.randomize(labels, rng=SystemRandomness()),
            "keyed": lambda labels, made=mechanism, own=ids: made.randomize(labels, rng=key, ids=own),
        }
        for randomness, randomize in ways.items():
            for labels, pair in inputs_of(mechanism, rng).items():
                t, gap, least, mean = compared(*times(randomize, pair, runs, rng))
                found.append(abs(t))
                cells = f"{mean / 1000:.1f} | {gap:+.0f} | {least:.0f} | {t:+.2f}"
                lines.append(f"| {name} | {randomness} | {labels} | {cells} |")
                print(lines[-1], flush=True)
    above = sum(t > ALARM for t in found)
    lines += [
        "",
        f"**{above} of {len(found)} comparisons are above {ALARM}; the largest |t| is {max(found):.2f}.**",
        "",
        "## Leaky versions",
        "",
        "The same in the same run, of versions that do a little more for some labels, 1 to 3 µs in a call. Found:",
        "|t| is above the limit. What is not found is smaller than what this many runs can tell from noise.",
        "",
        "| mechanism | leak | difference in ns | t | found |",
        "|---|---|---|---|---|",
    ]
    for name, mechanism in examples().items():
        if mechanism.records is not None:
            continue
        for leak, randomize in leaks(mechanism).items():
            pair = inputs_of(mechanism, rng)["lowest, highest"]
            t, gap, _, _ = compared(*times(randomize, pair, runs, rng))
            lines.append(f"| {name} | {leak} | {gap:+.0f} | {t:+.2f} | {'yes' if abs(t) > ALARM else 'no'} |")
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    text = page(options.runs)
    if options.write:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
