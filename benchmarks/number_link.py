"""Whether numbers of a declared range gain by a link: a scaled logistic mean against least squares, on the same sums.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/number_link.py [--noises 3]

With a logistic link the prediction is low + (high - low) σ(x w), fitted as `link="softmax"` is for two classes: the
squared distance of its sums from the released ones over the variance of noise and labels, and a Gaussian prior, whose
precision is multiplied by one of three factors. 8,000 records of `protein_structure` (distance from the native fold,
0 to 21), which no table of results shows, and of `bike_sharing` (rentals in an hour, clipped at 949), which some do;
delta = 1e-6, a quarter held out. Root mean squared error, mean of the noises ± standard deviation of one.
"""

import argparse
from typing import Any
from unittest.mock import patch

import data
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.model_selection import train_test_split

import labeldp as ldp
from labeldp.learners.evidence import SumsTerm, fit_softmax
from labeldp.learners.linear import Fit, LinearRegressor

DELTA = 1e-6
EPSILONS = (0.5, 2.0)
FACTORS = (0.6, 2.0, 6.0)
SOURCES = {"protein_structure": ("rmsd", ldp.Interval(0, 21)), "bike_sharing": ("cnt", ldp.Interval(0, 949, clip=True))}


class Logistic:
    """A linear score, squashed into a range."""

    def __init__(self, score: LinearRegressor, low: float, high: float) -> None:
        self.score, self.low, self.high = score, low, high

    def predict(self, X: Any) -> np.ndarray:
        """Numbers of the range."""
        return self.low + (self.high - self.low) * expit(self.score.predict(X))


def logistic(fit: Fit, moments: Any, factor: float) -> Logistic:
    """The model of largest posterior density under a logistic link."""
    low, high = fit.task.domain.low, fit.task.domain.high
    width, rows = high - low, fit.directions.rows
    weights = fit.rule.gain @ np.vstack(moments) / width
    doubt = fit.task.residual / width**2
    terms = []
    for released, moment in zip(fit.sums, moments, strict=True):
        total = released.rows.sum(axis=0, dtype=np.float64)[:, None]
        above = (moment + (fit.task.center - low) * total) / width
        both = SumsTerm.of(
            released.rows.astype(rows.dtype), np.hstack([total - above, above]), released.spread / width, doubt
        )
        # Two columns say the same thing: each counts half.
        terms.append(SumsTerm(both.rows, both.moment, 2 * both.variance))
    precision = factor / (fit.directions.signal * (2 / width) ** 2)
    found = fit_softmax(rows, start=np.hstack([-2 * weights, 2 * weights]), precision=precision, sums=terms)
    score = LinearRegressor(fit.representation, *fit._of_features(found[:, 1:] - found[:, :1], 0.0))
    return Logistic(score, low, high)


def measured(name: str, epsilon: float, noise: int) -> list[float]:
    """Errors of least squares and of each factor."""
    column, domain = SOURCES[name]
    table = pd.read_csv(next((data.DATA / name).glob("*.csv.gz")))
    labels = table.pop(column).to_numpy(float)
    features = table.select_dtypes("number").drop(columns=["casual", "registered", "instant"], errors="ignore")
    some = np.random.default_rng(0).permutation(len(labels))[:10_667]
    parts = train_test_split(features.to_numpy(float)[some], labels[some], test_size=0.25, random_state=0)
    train, test, known, truth = parts
    found = []
    for factor in (None, *FACTORS):
        budget = ldp.Budget(epsilon=epsilon, delta=DELTA)
        holder = ldp.Curator(known, domain=domain, budget=budget)
        linked = Fit._regressor if factor is None else lambda fit, moments, f=factor: logistic(fit, moments, f)
        with patch.object(Fit, "_regressor", linked):
            rng = np.random.default_rng([noise, 5])
            model = ldp.fit_linear(train, holder, epsilon=epsilon, delta=DELTA, rng=rng).value
        answers = np.clip(model.estimator.predict(test), domain.low, domain.high)
        found.append(float(np.sqrt(np.mean((answers - truth) ** 2))))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noises", type=int, default=3)
    given = parser.parse_args()
    heads = ["least squares", *(f"logistic, {factor:g}" for factor in FACTORS)]
    print(f"| data | ε | {' | '.join(heads)} |\n|---|---:|" + "---:|" * len(heads))
    for name in SOURCES:
        for epsilon in EPSILONS:
            runs = np.array([measured(name, epsilon, noise) for noise in range(given.noises)])
            cells = [f"{a:.4g} ± {b:.2g}" for a, b in zip(runs.mean(axis=0), runs.std(axis=0, ddof=1), strict=True)]
            print(f"| {name} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
