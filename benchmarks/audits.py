"""Do the intervals of an audit cover, and do audits find mistakes?

    python benchmarks/audits.py [--runs 1000] [--write]

Coverage is the share of audits of a mechanism of known epsilon whose lower bound is not above it. The mistakes are
those of other projects, rewritten in tests/audit/peers.py.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pages

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from audit import peers
from labeldp.audit import audit_observed, audit_sampler, audit_table, audit_training, composed
from labeldp.mechanisms import Classes, DiscreteLaplace, Interval, Mechanism, RandomizedResponse, UnaryEncoding
from labeldp.privacy import Trust
from mechanisms.examples import EXAMPLES

CLASSES = 4
SKEWED = [peers.Fraction(each, 100) for each in (40, 20, 10, 10, 5, 5, 4, 3, 2, 1)]
DELTA = 1e-6

Audit = Callable[[np.random.Generator, int], float]


def outputs_of(mechanism: Mechanism, label: int, count: int, rng: np.random.Generator) -> Any:
    """Outputs for labels that are all alike but for the first one, or for single labels."""
    if mechanism.trust is Trust.LOCAL and mechanism.records is None:
        return mechanism.randomize(np.full(count, label, dtype=mechanism.domain.dtype), rng=rng)
    codes = np.zeros(mechanism.records or 8, dtype=mechanism.domain.dtype)
    codes[0] = label
    return np.array([np.ravel(mechanism.randomize(codes, rng=rng)) for _ in range(count)])


def black_box(mechanism: Mechanism, runs: int, rng: np.random.Generator, seed: int, delta: float = 0.0) -> float:
    """One audit from outputs of two labels, half of `runs` each."""
    labels = (0, mechanism.domain.size - 1)
    draw = partial(outputs_of, mechanism, rng=rng)
    return audit_sampler(lambda y, n: draw(y, n), labels, runs=runs // 2, seed=seed, delta=delta).epsilon


def training(epochs: int, of: int, rng: np.random.Generator, seed: int) -> float:
    """One audit with 500 canaries of a training that learns its labels by heart, at epsilon = 1 for each epoch."""
    labels = rng.integers(0, CLASSES, 600)

    def learn(codes: Any) -> Any:
        return peers.memorized(peers.in_each_epoch(codes, CLASSES, 1.0, epochs, rng), CLASSES)

    return audit_training(learn, labels, CLASSES, canaries=500, rng=rng, of=of).epsilon


def observed(epochs: int, rng: np.random.Generator, seed: int) -> float:
    """One audit of such a training of 1,000 records without canaries; the law of labels is known."""
    law = rng.dirichlet(np.ones(CLASSES), 1000)
    labels = np.minimum((law.cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1), CLASSES - 1)
    scores = np.log(peers.memorized(peers.in_each_epoch(labels, CLASSES, 1.0, epochs, rng), CLASSES) + 0.05)
    return audit_observed(scores, labels, law, rng=rng).epsilon


def leaky(rng: np.random.Generator, seed: int) -> float:
    """One audit at delta = 0.1 of a mechanism that shows the label with that probability, else epsilon = 1."""

    def draw(label: int, count: int) -> Any:
        noisy = peers.in_each_epoch(np.full(count, label), 2, 1.0, 1, rng)[:, 0]
        return np.where(rng.random(count) < 0.1, 10 + label, noisy)

    return audit_sampler(draw, [0, 1], runs=2000, seed=seed, delta=0.1).epsilon


def covered() -> dict[str, tuple[float, Audit]]:
    """Audits of mechanisms whose epsilon is known."""
    two, ten = Classes(2), Classes(10)
    found: dict[str, tuple[float, Audit]] = {}
    for epsilon in (0.5, 1.0, 3.0):
        mechanism = RandomizedResponse(domain=two, epsilon=epsilon)
        found[f"outputs, two classes, ε = {epsilon:g}"] = epsilon, partial(black_box, mechanism, 2000)
    others = {
        "outputs, ten classes": RandomizedResponse(domain=ten, epsilon=1),
        "outputs, bits of nine classes": UnaryEncoding(domain=Classes(9), epsilon=1),
        "outputs, grid of 65": DiscreteLaplace(domain=Interval(0, 1, grid=65), epsilon=1),
    }
    found |= {f"{name}, ε = 1": (1.0, partial(black_box, each, 2000)) for name, each in others.items()}
    found["outputs, ε = 1 but for δ = 0.1"] = 1.0, leaky
    found["canaries between two labels, ε = 1"] = 1.0, partial(training, 1, 2)
    found["canaries between four labels, ε = 1"] = 1.0, partial(training, 1, 4)
    found["without canaries, ε = 1"] = 1.0, partial(observed, 1)
    return found


def mistakes() -> dict[str, tuple[str, float, Audit]]:
    """Audits of mistakes, with the exact epsilon of what was claimed to have epsilon = 1."""
    wrong = peers.with_prior(SKEWED, 1, outside="all")
    once = audit_table(peers.response(2, 1))

    def outside(rng: np.random.Generator, seed: int) -> float:
        draw = partial(peers.draw_table, wrong, rng=rng)
        return audit_sampler(lambda y, n: draw(label=y, count=n), [0, 5, 9], runs=20_000, seed=seed).epsilon

    def anew(rng: np.random.Generator, seed: int) -> float:
        return audit_sampler(
            lambda y, n: peers.in_each_epoch(np.full(n, y), 2, 1.0, 5, rng), [0, 1], runs=20_000, seed=seed
        ).epsilon

    def prior(rng: np.random.Generator, seed: int) -> float:
        pair = [(0, 0, 1, 1, 2), (0, 0, 2, 1, 2)]
        return audit_sampler(
            lambda y, n: peers.top_k_of_true_labels(list(y), 3, n, rng), pair, runs=5000, seed=seed
        ).epsilon

    def stairs(right: bool, rng: np.random.Generator, seed: int) -> float:
        return audit_sampler(
            lambda y, n: y + peers.staircase(n, 1.0, rng, right=right), [0, 1], runs=50_000, seed=seed
        ).epsilon

    def seeds(rng: np.random.Generator, seed: int) -> float:
        pair = [(0,) * 24, (1, *(0,) * 23)]
        return audit_sampler(lambda y, n: peers.of_few_seeds(list(y), n, rng), pair, runs=4000, seed=seed).epsilon

    unbounded, five = "unbounded", f"{composed(once, 5).epsilon():.3g}"
    return {
        "answers outside of the top k": (unbounded, 60_000, outside),
        "noise redrawn in each of five epochs": (five, 40_000, anew),
        "the same, a training of ten epochs, 500 canaries": ("10", 1, partial(training, 10, 2)),
        "the same, without canaries, 1,000 records": ("10", 1, partial(observed, 10)),
        "a prior from true labels": (unbounded, 10_000, prior),
        "a wrong staircase": (unbounded, 100_000, partial(stairs, False)),
        "a right staircase, for comparison": ("1", 100_000, partial(stairs, True)),
        "a seed of 8 bits": (unbounded, 8000, seeds),
    }


def honest(runs: int) -> list[str]:
    """All public mechanisms at epsilon = 1, audited in turn until there are so many audits."""
    chosen = {}
    for name, make in EXAMPLES.items():
        mechanism = make(1.0)
        loss = mechanism.privacy_loss()
        claim = loss.epsilon(0) if loss.max_loss is not None else loss.epsilon(DELTA)
        if np.isfinite(claim):
            chosen[name] = mechanism, claim, 0.0 if loss.max_loss is not None else DELTA
    names, above, bounds, worst = list(chosen), 0, [], []
    for run in range(runs):
        mechanism, claim, delta = chosen[names[run % len(names)]]
        size = 2000 if mechanism.trust is Trust.LOCAL and mechanism.records is None else 120
        bound = black_box(mechanism, size, np.random.default_rng([7, run]), run, delta)
        above += bound > claim
        bounds.append(bound / claim)
        worst += [names[run % len(names)]] * (bound > claim)
    return [
        "| correct mechanisms | audits | above the claim | largest bound over claim | mechanisms above |",
        "|---|---|---|---|---|",
        f"| {len(names)} | {runs:,} | {above} | {max(bounds):.2f} | {', '.join(sorted(set(worst))) or 'none'} |",
    ]


def page(runs: int) -> str:
    """The whole page."""
    lines = [
        "| audit | coverage | mean bound ± standard deviation | true ε |",
        "|---|---|---|---|",
    ]
    for name, (epsilon, audit) in covered().items():
        found = [audit(np.random.default_rng([1, run]), run) for run in range(runs)]
        share = fmean(each <= epsilon for each in found)
        lines.append(f"| {name} | {100 * share:.1f} % | {fmean(found):.3f} ± {stdev(found):.3f} | {epsilon:g} |")
        print(lines[-1], flush=True)
    many, mechanism = max(10, runs // 20), RandomizedResponse(domain=Classes(2), epsilon=1)
    found = [black_box(mechanism, 100_000, np.random.default_rng([2, run]), run) for run in range(many)]
    lines += [
        "",
        f"Randomized response of two classes at ε = 1, from 100,000 outputs, {many} audits: {fmean(found):.3f} ±",
        f"{stdev(found):.3f}, at least {min(found):.3f}.",
        "",
        *honest(runs),
        "",
        "| mistake | exact ε | outputs or trainings | mean bound ± standard deviation | found |",
        "|---|---|---|---|---|",
    ]
    print("\n".join(lines[-12:]), flush=True)
    times = max(5, runs // 50)
    for name, (exact, count, audit) in mistakes().items():
        found = [audit(np.random.default_rng([3, run]), run) for run in range(times)]
        hits = sum(each > 1 for each in found)
        lines.append(f"| {name} | {exact} | {count:,} | {fmean(found):.2f} ± {stdev(found):.2f} | {hits} of {times} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compute the page, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    options = parser.parse_args()
    text = page(options.runs)
    if options.write:
        pages.store(text, "audit", "audit-correct", "audit-mistakes")


if __name__ == "__main__":
    main()
