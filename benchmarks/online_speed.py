"""How fast private learners take in losses, as ratios to one read of the same array in the same run.

    python benchmarks/online_speed.py [--repeats 9] [--write]

One thread, real randomness, processor time. The limit is `losses.sum()`, which reads every loss once; each repeat times
it just before the learner, and the tables have medians of the ratios. Parameters are those of `plan_experts`. `play`
is the slow way to the same decisions, which looks at each coin: it plays L2P and points of a body, and played the
dartboard before. Memory is the peak of this process after one block of rounds, and after ten more like it.
"""

import argparse
import os
import resource
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pages
from clock import seconds

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

from labeldp import SystemRandomness
from labeldp.online import L2P, BatchedDartboard, MultiplicativeWeightsMeasure, PrivateExperts, plan_experts, quantize
from labeldp.online.experts.kernel import rows_of
from labeldp.online.experts.lazy import play
from labeldp.sampling import draw_index

ROUNDS, EXPERTS, EPSILON, DELTA, BLOCK, CALLS = 10**6, 1000, 1.0, 1e-6, 10**5, 2000
RNG = SystemRandomness()
PLAN = plan_experts(EXPERTS, ROUNDS, EPSILON, DELTA, method="dartboard")


def ratio(work: Callable[[], object], limit: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Median, least and largest ratio of two times, each pair taken in turn, after one warm-up."""
    work()
    found = [1 / seconds(limit) * seconds(work) for _ in range(repeats)]
    return statistics.median(found), min(found), max(found)


def made(rounds: int, experts: int, seed: int = 0) -> Any:
    """Uniform levels."""
    return np.random.default_rng(seed).integers(0, 256, (rounds, experts), dtype=np.uint8)


def stream(kernel: Any, losses: Any, rows: int | None = None) -> Any:
    """Play all rounds, so many in a call."""
    state = kernel.init(rng=RNG)
    for start in range(0, losses.shape[0], rows or losses.shape[0]):
        state, _ = kernel.update(state, losses[start : start + (rows or losses.shape[0])], rng=RNG)
    return state


def slowly(kernel: BatchedDartboard, losses: Any) -> Any:
    """The same by `play`, in one call."""
    rows = rows_of(losses, kernel.experts, kernel.levels)
    return play(kernel.measure, kernel.batch, kernel.redraw, kernel.init(rng=RNG), rows, rng=RNG)


def of(experts: int, plan: Any = PLAN) -> BatchedDartboard:
    """The dartboard with the parameters of a plan."""
    return BatchedDartboard(experts, *(plan.parameters[name] for name in ("B", "eta", "p")))


def named(plan: Any) -> str:
    """The parameters of a plan."""
    return "B = {B}, η = {eta:.3g}, p = {p:.3g}".format(
        **{name: float(plan.parameters[name]) for name in ("B", "eta", "p")}
    )


def many(repeats: int) -> list[str]:
    """A thousand experts, in calls of several sizes; and L2P."""
    lines = ["| what is streamed | median ratio to `losses.sum()` | least | largest |", "|---|---|---|---|"]
    losses = made(3 * BLOCK, EXPERTS)
    measure = MultiplicativeWeightsMeasure(EXPERTS, PLAN.rate, 255)
    few = losses[:BLOCK]
    cases: dict[str, tuple[Any, Any, int | None]] = {
        f"{len(losses):,} × {EXPERTS} uint8 in one call": (of(EXPERTS), losses, None),
        f"{len(losses):,} × {EXPERTS} uint8, 10,000 rounds a call": (of(EXPERTS), losses, 10_000),
        f"{len(few):,} × {EXPERTS} uint8, one round a call": (of(EXPERTS), few, 1),
        f"{len(few):,} × {EXPERTS} uint8, L2P with the same parameters": (
            L2P(measure, PLAN.batch, PLAN.redraw),
            few,
            None,
        ),
    }
    for name, (learner, array, rows) in cases.items():
        middle, low, high = ratio(lambda c=(learner, array, rows): stream(*c), array.sum, repeats)
        lines.append(f"| {name} | {middle:.2f} | {low:.2f} | {high:.2f} |")
    return lines


def widths(repeats: int) -> list[str]:
    """Fewer experts and more, in one call, beside `play`."""
    own = plan_experts(10, ROUNDS, EPSILON, DELTA, method="dartboard")
    head = "| rounds × experts | draws | median ratio to `losses.sum()` | least | largest | by `play` |"
    lines = [head, "|---|---|---|---|---|---|"]
    sizes = [(10**5, 10), (10**6, 10), (10**7, 10), (10**6, 32), (10**6, 100), (10**4, 10_000), (10**3, 100_000)]
    for rounds, experts, plan in [*((*size, PLAN) for size in sizes), (10**6, 10, own)]:
        losses, kernel = made(rounds, experts, 4), of(experts, plan)
        middle, low, high = ratio(lambda c=(kernel, losses): stream(*c), losses.sum, repeats)
        before, _, _ = ratio(lambda c=(kernel, losses): slowly(*c), losses.sum, 1 + repeats // 4)
        drawn = "as above" if plan is PLAN else named(plan)
        lines.append(f"| {rounds:,} × {experts:,} | {drawn} | {middle:.2f} | {low:.2f} | {high:.2f} | {before:.1f} |")
    return lines


def single(repeats: int) -> list[str]:
    """One round a call, in microseconds a round: what numpy takes to add it to sums, and what is on top of that."""
    head = "| experts | numpy adds a round | on top, the action stays | on top, with draws | on top, `PrivateExperts` |"
    lines = [head, "|---|---|---|---|---|"]
    for experts in (10, 100, 1000):
        losses = made(CALLS, experts)
        rows = [losses[i : i + 1] for i in range(CALLS)]
        calm, usual = BatchedDartboard(experts, 1, Fraction(1, 1 << 30), Fraction(1, 1 << 30)), of(experts)

        def add(rows: Any = rows, experts: int = experts) -> None:
            sums = np.zeros(experts, dtype=np.int64)
            for row in rows:
                sums = sums + row[0]

        learner = PrivateExperts(experts, 10**7, EPSILON, DELTA, method="dartboard")
        whole = [
            lambda k=calm, r=losses: stream(k, r, 1),
            lambda k=usual, r=losses: stream(k, r, 1),
            lambda f=learner, r=losses: [f.update_levels(row) for row in r],
        ]
        floor, found = [], [[] for _ in whole]
        for _ in range(2 * repeats):
            floor.append(seconds(add) / CALLS * 1e6)
            for times, work in zip(found, whole, strict=True):
                times.append(seconds(work) / CALLS * 1e6 - floor[-1])
        cells = " | ".join(f"{statistics.median(times):.2f}" for times in (floor, *found))
        lines.append(f"| {experts:,} | {cells} |")
    return lines


def sparse(repeats: int) -> list[str]:
    """CSR losses, one in a hundred of them not zero, beside a dense array of the same losses."""
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((BLOCK, EXPERTS), dtype=np.float32) < 0.01, rng.integers(1, 256, (BLOCK, 1)), 0)
    dense = dense.astype(np.uint8)
    rows = sp.csr_array(dense)
    middle, low, high = ratio(lambda: stream(of(EXPERTS), rows), lambda: stream(of(EXPERTS), dense), repeats)
    return [f"CSR against dense, {BLOCK:,} × {EXPERTS}, one loss in 100: {middle:.2f} ({low:.2f} to {high:.2f})."]


def parts(repeats: int) -> list[str]:
    """One draw, and rounding, against a read of as many losses."""
    lines = ["| part | median ratio | of |", "|---|---|---|"]
    for experts in (10, 1000, 100_000):
        totals = np.random.default_rng(2).integers(0, 10**6, experts)
        times = range(200_000 // experts + 1)
        values = np.exp(-1e-5 * totals)
        middle, _, _ = ratio(
            lambda t=totals, m=times: [draw_index(t, Fraction(1, 1 << 17), rng=RNG) for _ in m],
            lambda v=values, m=times: [np.cumsum(np.exp(v)) for _ in m],
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


def memory() -> str:
    """Peak memory by the number of rounds."""
    kernel, block = of(EXPERTS), made(BLOCK, EXPERTS)
    state, _ = kernel.update(kernel.init(rng=RNG), block, rng=RNG)
    once = peak()
    for _ in range(10):
        state, _ = kernel.update(state, block, rng=RNG)
    return f"Peak memory after {11 * BLOCK:,} rounds, by that after {BLOCK:,}: {peak() / once:.4f}."


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    arguments = parser.parse_args()
    grown = memory()
    sections = [
        f"{named(PLAN)}, the plan for a thousand experts and a million rounds. {grown}",
        "\n".join(many(arguments.repeats)),
        "\n".join(widths(arguments.repeats)),
        "\n".join(single(arguments.repeats)),
        "\n".join(sparse(arguments.repeats)),
        "\n".join(parts(arguments.repeats)),
    ]
    text = "\n\n".join(sections) + "\n"
    print(text)
    if arguments.write:
        names = ("online_speed", "online_speed-experts", "online_speed-calls", "online_speed-parts")
        pages.store(text, *names)


if __name__ == "__main__":
    main()
