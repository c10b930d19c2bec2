"""How fast private learners take in losses, as ratios to one read of the same array in the same run.

    python benchmarks/online_speed.py [--repeats 5] [--write docs/results/online_speed.md]

One thread, real randomness. The limit is `losses.sum()`, which reads every loss once; each repeat times it just before
the learner, and the table has medians of the ratios. Parameters are those of `plan_experts`. Memory is the peak of this
process after one block of rounds, and after ten more like it.
"""

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

from labeldp import SystemRandomness
from labeldp.online import L2P, BatchedDartboard, MultiplicativeWeightsMeasure, plan_experts, quantize
from labeldp.sampling.discrete import draw_index

ROUNDS, EXPERTS, EPSILON, DELTA, BLOCK = 10**6, 1000, 1.0, 1e-6, 10**5
RNG = SystemRandomness()


def seconds(work: Callable[[], object]) -> float:
    """The time of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(work: Callable[[], object], limit: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Median, least and largest ratio of two times, each pair taken in turn, after one warm-up."""
    work()
    found = [1 / seconds(limit) * seconds(work) for _ in range(repeats)]
    return statistics.median(found), min(found), max(found)


def stream(kernel: Any, losses: Any, rows: int | None = None) -> Any:
    """Play all rounds, so many in a call."""
    state = kernel.init(rng=RNG)
    for start in range(0, losses.shape[0], rows or losses.shape[0]):
        state, _ = kernel.update(state, losses[start : start + (rows or losses.shape[0])], rng=RNG)
    return state


def dartboards(losses: Any, repeats: int) -> list[str]:
    """The dartboard at the parameters of the plan, dense, in calls of several sizes; and its relatives."""
    plan = plan_experts(EXPERTS, ROUNDS, EPSILON, DELTA, method="dartboard")
    kernel = plan.kernel()
    assert isinstance(kernel, BatchedDartboard)
    lines = [
        f"B = {plan.batch}, η = {float(plan.rate):.3g}, p = {float(plan.redraw):.3g}.",
        "",
        "| what is streamed | median ratio to `losses.sum()` | least | largest |",
        "|---|---|---|---|",
    ]
    few = losses[:BLOCK]
    measure = MultiplicativeWeightsMeasure(EXPERTS, plan.rate, 255)
    cases: dict[str, tuple[Any, Any, int | None]] = {
        f"{len(losses):,} × {EXPERTS} uint8 in one call": (kernel, losses, None),
        f"{len(losses):,} × {EXPERTS} uint8, 10,000 rounds a call": (kernel, losses, 10_000),
        f"{len(few):,} × {EXPERTS} uint8, one round a call": (kernel, few, 1),
        f"{len(few):,} × {EXPERTS} uint8, L2P with the same parameters": (
            L2P(measure, plan.batch, plan.redraw),
            few,
            None,
        ),
    }
    for name, (learner, array, rows) in cases.items():
        middle, low, high = ratio(lambda c=(learner, array, rows): stream(*c), array.sum, repeats)
        lines.append(f"| {name} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    return lines


def widths(repeats: int) -> list[str]:
    """The same dartboard on 10^8 losses of fewer experts, and of more."""
    plan = plan_experts(EXPERTS, ROUNDS, EPSILON, DELTA, method="dartboard")
    lines = ["| rounds × experts | median ratio to `losses.sum()` | least | largest |", "|---|---|---|---|"]
    for experts in (100, 10_000, 100_000):
        losses = np.random.default_rng(4).integers(0, 256, (BLOCK * EXPERTS // experts, experts), dtype=np.uint8)
        kernel = BatchedDartboard(experts, plan.batch, plan.rate, plan.redraw)
        middle, low, high = ratio(lambda c=(kernel, losses): stream(*c), losses.sum, repeats)
        lines.append(f"| {len(losses):,} × {experts:,} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    return lines


def sparse(repeats: int) -> list[str]:
    """CSR losses, one in a hundred of them not zero, beside a dense array of the same losses."""
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((BLOCK, EXPERTS), dtype=np.float32) < 0.01, rng.integers(1, 256, (BLOCK, 1)), 0)
    dense = dense.astype(np.uint8)
    kernel = plan_experts(EXPERTS, ROUNDS, EPSILON, DELTA, method="dartboard").kernel()
    rows = sp.csr_array(dense)
    middle, low, high = ratio(lambda: stream(kernel, rows), lambda: stream(kernel, dense), repeats)
    return [f"CSR against dense, {BLOCK:,} × {EXPERTS}, one loss in 100: {middle:.2f} ({low:.2f} to {high:.2f})."]


def parts(losses: Any, repeats: int) -> list[str]:
    """One draw, and rounding, against a read of as many losses."""
    lines = ["| part | median ratio | of |", "|---|---|---|"]
    for experts in (1000, 100_000):
        totals = np.random.default_rng(2).integers(0, 10**6, experts)
        many = range(200_000 // experts + 1)
        values = np.exp(-1e-5 * totals)
        middle, _, _ = ratio(
            lambda t=totals, m=many: [draw_index(t, Fraction(1, 1 << 17), rng=RNG) for _ in m],
            lambda v=values, m=many: [np.cumsum(np.exp(v)) for _ in m],
            5 * repeats,
        )
        lines.append(f"| a draw among {experts:,} | {middle:.2f} | `np.cumsum(np.exp(values))` |")
    numbers = np.random.default_rng(3).random((20_000, EXPERTS))
    middle, _, _ = ratio(lambda: quantize(numbers), lambda: np.rint(numbers * 255).astype(np.uint8), 3 * repeats)
    lines.append(f"| `quantize`, {len(numbers):,} × {EXPERTS} doubles | {middle:.2f} | plain numpy without checks |")
    return lines


def peak() -> int:
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory(losses: Any) -> str:
    """Peak memory by the number of rounds."""
    kernel = plan_experts(EXPERTS, ROUNDS, EPSILON, DELTA, method="dartboard").kernel()
    block = losses[:BLOCK]
    state, _ = kernel.update(kernel.init(rng=RNG), block, rng=RNG)
    once = peak()
    for _ in range(10):
        state, _ = kernel.update(state, block, rng=RNG)
    return f"Peak memory after {11 * BLOCK:,} rounds, by that after {BLOCK:,}: {peak() / once:.4f}."


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    few = np.random.default_rng(0).integers(0, 256, (BLOCK, EXPERTS), dtype=np.uint8)
    grown = memory(few)
    losses = np.concatenate([few] * (ROUNDS // BLOCK))
    sections = [
        "# Speed of online learners",
        f"`python benchmarks/online_speed.py --repeats {arguments.repeats}`: one thread, cryptographic randomness, "
        f"numpy {np.__version__}, ε = {EPSILON:g}, δ = {DELTA:g}. Each ratio is of two times in turn.",
        "## The batched dartboard",
        "\n".join(dartboards(losses, arguments.repeats)),
        f"Wanted for a million rounds of a thousand experts: at most 2. {grown}",
        "A call costs as much as reading some tens of rounds, so rounds that wait are best given together. L2P has a "
        "second sequence to draw, and switches more often.",
        "## Fewer and more experts, same parameters",
        "\n".join(widths(arguments.repeats)),
        "With few experts the draws cost more than the losses: their number depends on the rounds alone.",
        "## Sparse losses",
        "\n".join(sparse(arguments.repeats)),
        "## Parts",
        "\n".join(parts(losses, arguments.repeats)),
    ]
    text = "\n\n".join(sections) + "\n"
    print(text)
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
