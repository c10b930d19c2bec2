"""Losses of randomized preferences, and sums of a trusted curator, on made-up embeddings.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/preferences.py [--write]

5,000 pairs of answers with normal embeddings of 64 numbers whose variances fall as 1 / rank; rewards are linear with
normal coefficients, scaled so that the better answer is preferred in 80 of 100 pairs. A cell is how often the sign of
the difference of rewards is right for 20,000 fresh pairs, in percent: mean and standard deviation over noises, each
with its own data. "forward" and "sums" are `preferences(…)` with nobody and with a curator trusted (δ = 1e-6), as
they come. "unbiased" is the loss that averages to that of the true preferences (Chowdhury, Kini and Natarajan, ICML
2024), "plain" the logistic loss of the released preferences as if they were true; both get, of seven penalties, the
one that is best on the fresh pairs for each ε, which flatters them.
"""

import argparse
from typing import Any

import numpy as np
import pages
from scipy.optimize import minimize
from scipy.special import expit, log_expit

import labeldp as ldp
from labeldp.learners import preferences

PAIRS, NUMBERS, FRESH = 5000, 64, 20_000
EPSILONS = (0.25, 0.5, 1.0, 2.0)
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
DOMAIN = ldp.Classes(("A", "B"))


def task(seed: int) -> tuple[np.ndarray, ...]:
    """Embeddings of both sides, who was preferred, and fresh differences with their true rewards."""
    rng = np.random.default_rng([7, seed])
    widths = 1 / np.sqrt(np.arange(1, NUMBERS + 1))
    truth = rng.normal(size=NUMBERS)
    a, b = widths * rng.normal(size=(2, PAIRS, NUMBERS))
    margins = (a - b) @ truth
    # The mean of max(p, 1 - p) grows with the scale: found by halving.
    low, high = 0.0, 100.0
    for _ in range(60):
        scale = (low + high) / 2
        low, high = (scale, high) if expit(np.abs(scale * margins)).mean() < 0.8 else (low, scale)
    better = np.where(rng.random(PAIRS) < expit(scale * margins), "A", "B")
    fresh = widths * rng.normal(size=(2, FRESH, NUMBERS))
    difference = fresh[0] - fresh[1]
    return a, b, better, difference, difference @ truth


def fitted(differences: np.ndarray, signs: np.ndarray, keep: float, kind: str, penalty: float) -> np.ndarray:
    """The direction of least loss and penalty; the unbiased loss may have no minimum without one."""
    true = 1.0 if kind == "plain" else keep / (2 * keep - 1)
    false = 0.0 if kind == "plain" else (1 - keep) / (2 * keep - 1)

    def loss(direction: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (differences @ direction)
        value = -(true * log_expit(margins) - false * log_expit(-margins)).sum()
        slope = -(true * expit(-margins) + false * expit(margins))
        return value + penalty / 2 * direction @ direction, differences.T @ (slope * signs) + penalty * direction

    found: Any = minimize(loss, np.zeros(NUMBERS), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return np.asarray(found.x)


def right(direction: np.ndarray, difference: np.ndarray, truth: np.ndarray) -> float:
    """How often the sign of the difference of rewards is right, in percent."""
    return float(100 * np.mean((difference @ direction > 0) == (truth > 0)))


def measured(epsilon: float, seed: int) -> dict[str, Any]:
    """The score of each way to learn; a list over penalties for the baselines."""
    a, b, better, difference, truth = task(seed)
    scores: dict[str, Any] = {}
    for name, trust, delta in (("sums", "central", 1e-6), ("forward", "local", 0.0)):
        curator = ldp.Curator(better, domain=DOMAIN, budget=ldp.Budget(epsilon, delta))
        rng = np.random.default_rng([11, seed])
        model = preferences(a, b, curator, epsilon=epsilon, delta=delta, trust=trust, rng=rng).value  # type: ignore[arg-type]
        scores[name] = right(model.direction, difference, truth)
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon)
    noisy = mechanism.randomize(DOMAIN.encode(better), rng=np.random.default_rng([11, seed]))
    signs = 1.0 - 2 * noisy
    for kind in ("unbiased", "plain"):
        scores[kind] = [
            right(fitted(a - b, signs, mechanism.keep_probability, kind, penalty), difference, truth)
            for penalty in PENALTIES
        ]
    return scores


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    lines: list[str] = []
    lines += ["| ε | sums, δ = 1e-6 | forward, δ = 0 | unbiased, δ = 0 | plain, δ = 0 |", "|---:|---:|---:|---:|---:|"]
    for epsilon in EPSILONS:
        runs = [measured(epsilon, seed) for seed in range(given.repeats)]
        cells = []
        for name in ("sums", "forward", "unbiased", "plain"):
            scores = np.array([run[name] for run in runs])
            best = scores if scores.ndim == 1 else scores[:, scores.mean(axis=0).argmax()]
            cells.append(f"{best.mean():.2f} ± {best.std(ddof=1) if len(best) > 1 else 0:.2f}")
        lines.append(f"| {epsilon:g} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if given.write:
        pages.store("\n".join([*lines, ""]), "preferences")


if __name__ == "__main__":
    main()
