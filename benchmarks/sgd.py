"""Excess risk of label-private gradient descent on convex problems with a known optimum, beside its bound.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/sgd.py [--repeats 8] [--write]

One pass of `lp_rr_sgd` and `lp_normal_sgd` (delta = 1e-6), last iterate. Two problems, both with features of norm one
in p dimensions of which three matter. *Linear*: the loss of the lower bound, L⟨w, x⟩ for one class and -L⟨w, x⟩ for the
other, in a ball of diameter 2; the optimum lies on its surface. *Softmax*: regression on three classes whose true
probabilities are softmax(xᵀw*), so that w* is the optimum; the excess risk is the mean Kullback-Leibler divergence
over 20,000 other records. The bound is `last_iterate_bound` at the length of these gradients; no number was tuned.
Every number is a mean over fresh records and noises with its standard deviation (of one, not of the mean). Slopes are
fitted by least squares to log excess risk against log n, each noise by itself; their interval is 95 % by Student's t.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pages

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import log_softmax, softmax
from scipy.stats import t as student

import labeldp as ldp
from labeldp.sgd import SoftmaxRegression, UnitVectorLoss, best_gradient_groups, normal_moment, response_moment
from papers.rates.bounds import last_iterate_bound

DELTA = 1e-6
MATTER = 3
RECORDS = [2**power for power in range(11, 19)]
WIDTHS = [4, 16, 64, 256, 1024]
EPSILONS = [0.5, 1.0, 2.0]
ALGORITHMS = {"lp_rr_sgd": "Algorithm 5", "lp_normal_sgd": "Algorithm 6"}


def features(count: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of norm one: a point of a sphere in the three dimensions that matter, and one in the others."""
    parts = [rng.normal(size=(count, size)) for size in (MATTER, width - MATTER)]
    return np.hstack([part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]) / np.sqrt(2)


@dataclass(frozen=True)
class Problem:
    """A loss, a ball, and how to draw labels and to measure excess risk in p dimensions."""

    loss: Any
    diameter: float
    labels: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    excess: Callable[[np.ndarray], float]


def linear() -> Problem:
    """Labels agree with the sign of the first feature with probability 0.9."""

    def labels(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return ((rows[:, 0] > 0) ^ (rng.random(len(rows)) < 0.1)).astype(np.uint8)

    pull = 0.8 * 0.5 / np.sqrt(2)  # E sign(x) · x: the mean of |x| on a sphere in three dimensions is 1/2
    return Problem(UnitVectorLoss(2), 2.0, labels, lambda weights: float(pull * (1 - weights[0])))


def regression() -> Problem:
    """Labels follow a softmax of norm 6 in the dimensions that matter."""
    inner = 6 / np.sqrt(1.5) * (np.eye(MATTER)[:, :3] - 1 / 3) / np.sqrt(4 / 3)

    def labels(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        chances = softmax(rows[:, :MATTER] @ inner, axis=1).cumsum(axis=1)
        return (rng.random((len(rows), 1)) > chances[:, :-1]).sum(axis=1).astype(np.uint8)

    def excess(weights: np.ndarray) -> float:
        rows = features(20_000, len(weights), np.random.default_rng(99))
        truth = softmax(rows[:, :MATTER] @ inner, axis=1)
        found = softmax(rows @ weights, axis=1)
        return float(np.mean(np.sum(truth * np.log(truth / found), axis=1)))

    return Problem(SoftmaxRegression(3), 2 * float(np.linalg.norm(inner)), labels, excess)


def measured(
    problem: Problem, algorithm: str, count: int, width: int, epsilon: float, noise: int, **options: Any
) -> float:
    """The excess risk of one run on fresh records."""
    rng = np.random.default_rng([noise, count, width])
    rows = features(count, width, rng)
    labels = problem.labels(rows, rng)
    budget = ldp.Budget(epsilon=epsilon, delta=DELTA)
    curator = ldp.Curator(labels, domain=ldp.Classes(problem.loss.classes), budget=budget)
    given = {"loss": problem.loss, "epsilon": epsilon, "diameter": problem.diameter, "order_seed": noise} | options
    if algorithm == "lp_normal_sgd":
        given["delta"] = DELTA
    release = getattr(ldp, algorithm)(rows, curator, rng=rng, **given)
    return problem.excess(release.value.estimator.weights)


def bound(problem: Problem, algorithm: str, count: int, epsilon: float) -> float:
    """What theory promises, from the length of these gradients."""
    if algorithm == "lp_rr_sgd":
        moment = response_moment(problem.loss, epsilon)
    else:
        domain = ldp.Classes(problem.loss.classes)
        moment = normal_moment(problem.loss, ldp.mechanisms.GaussianOneHot(domain=domain, epsilon=epsilon, delta=DELTA))
    return last_iterate_bound(count, diameter=problem.diameter, moment=moment)


def many_classes(classes: int) -> Problem:
    """Labels follow a softmax of random weights in the dimensions that matter."""
    inner = 8 * np.random.default_rng(classes).normal(size=(MATTER, classes))
    inner -= inner.mean(axis=1, keepdims=True)

    def labels(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        chances = softmax(rows[:, :MATTER] @ inner, axis=1).cumsum(axis=1)
        return (rng.random((len(rows), 1)) > chances[:, :-1]).sum(axis=1).astype(np.uint8)

    def excess(weights: np.ndarray) -> float:
        rows = features(20_000, len(weights), np.random.default_rng(99))
        truth, scores = softmax(rows[:, :MATTER] @ inner, axis=1), rows @ weights
        found = log_softmax(scores, axis=1)
        return float(np.mean(np.sum(truth * (np.log(truth) - found), axis=1)))

    return Problem(SoftmaxRegression(classes), 2 * float(np.linalg.norm(inner)), labels, excess)


def by_classes(noises: int) -> list[str]:
    """Excess risk for many classes: randomized response, groups of classes with the same steps, Gaussian noise."""
    lines = [
        "| K | ε | Algorithm 5 | groups of classes | of them | Algorithm 6 |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for classes in (10, 50):
        problem = many_classes(classes)
        for epsilon in EPSILONS:
            ways = [("lp_rr_sgd", {}), ("lp_rr_sgd", {"response": "best"}), ("lp_normal_sgd", {})]
            cells = [
                mean_and_spread(
                    np.array([measured(problem, name, 1 << 14, 16, epsilon, i, **options) for i in range(noises)])
                )
                for name, options in ways
            ]
            groups = best_gradient_groups(problem.loss, epsilon)
            lines.append(f"| {classes} | {epsilon:g} | {cells[0]} | {cells[1]} | {groups} | {cells[2]} |")
    return lines


def mean_and_spread(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1):.4f}"


def slope(counts: list[int], values: np.ndarray) -> str:
    """The slope of log excess risk in log n, with its interval, from values of shape (noises, counts)."""
    each = np.polyfit(np.log(counts), np.log(values).T, 1)[0]
    half = student.ppf(0.975, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))
    return f"{each.mean():.3f} ({each.mean() - half:.3f} to {each.mean() + half:.3f})"


def promised_slope(problem: Problem, algorithm: str, counts: list[int]) -> str:
    """The slope of the bound, which has a logarithm beside the root."""
    bounds = [bound(problem, algorithm, n, 1.0) for n in counts]
    return f"{np.polyfit(np.log(counts), np.log(bounds), 1)[0]:.3f}"


def by_records(problem: Problem, noises: int) -> list[str]:
    """Excess risk against n at epsilon 1 and 16 dimensions, and its slope."""
    lines = ["| n | " + " | ".join(f"{text} | its bound" for text in ALGORITHMS.values()) + " |", "|---:" * 5 + "|"]
    found = {
        name: np.array([[measured(problem, name, n, 16, 1.0, i) for n in RECORDS] for i in range(noises)])
        for name in ALGORITHMS
    }
    for j, n in enumerate(RECORDS):
        cells = [f"{mean_and_spread(found[name][:, j])} | {bound(problem, name, n, 1.0):.2f}" for name in ALGORITHMS]
        lines.append(f"| {n} | {' | '.join(cells)} |")
    for text, start in (("all n", 0), ("the larger half", len(RECORDS) // 2)):
        cells = [
            f"{slope(RECORDS[start:], values[:, start:])} | {promised_slope(problem, name, RECORDS[start:])}"
            for name, values in found.items()
        ]
        lines.append(f"| slope, {text} | {' | '.join(cells)} |")
    return [*lines, ""]


def by_width(problem: Problem, noises: int) -> list[str]:
    """Excess risk against p at 16,384 records, for every epsilon."""
    head = [f"{text}, ε = {epsilon:g}" for text in ALGORITHMS.values() for epsilon in EPSILONS]
    lines = [f"| p | {' | '.join(head)} |", "|---:" * (1 + len(head)) + "|"]
    for width in WIDTHS:
        cells = [
            mean_and_spread(np.array([measured(problem, name, 1 << 14, width, epsilon, i) for i in range(noises)]))
            for name in ALGORITHMS
            for epsilon in EPSILONS
        ]
        lines.append(f"| {width} | {' | '.join(cells)} |")
    last = [f"{bound(problem, name, 1 << 14, epsilon):.2f}" for name in ALGORITHMS for epsilon in EPSILONS]
    return [*lines, f"| bound | {' | '.join(last)} |", ""]


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    parser.add_argument("--classes", action="store_true", help="print the table of many classes alone")
    given, started = parser.parse_args(), time.perf_counter()
    if given.classes:
        result = "\n".join(by_classes(given.repeats))
        print(result)
        if given.write:
            pages.store(result, "sgd-classes")
        return
    lines: list[str] = []
    for name, problem in {"Linear": linear(), "Softmax": regression()}.items():
        lines += [f"## {name}", "", "Excess risk against n, ε = 1, p = 16:", "", *by_records(problem, given.repeats)]
        lines += ["Excess risk against the number of features, n = 16,384:", "", *by_width(problem, given.repeats)]
    minutes = (time.perf_counter() - started) / 60
    lines += [f"{date.today()}, {given.repeats} noises, one core, {platform.machine()}, {minutes:.0f} minutes."]
    result = "\n".join(lines) + "\n"
    print(result)
    if given.write:
        pages.store(result, "sgd", "sgd-features")


if __name__ == "__main__":
    main()
