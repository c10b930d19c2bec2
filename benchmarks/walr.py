"""The published objective for noisy sums of rows times labels (WALR), beside least squares and the likelihood of sums.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/walr.py [--noises 3]

WALR (Yuan and Lazarsfeld, in the drafts of the W3C's Private Advertising Technology group) puts the released sums in
the place of the true ones in the gradient of logistic regression: it minimizes the sum of log Z(x) less the product of
coefficients and sums, plus a ridge. A baseline only: `python -m papers peers --method walr`. All three read the same
release of `fit_linear`, at delta = 1e-6: the same directions, the same noise. Ridges of WALR are 0.1, 1, 10 and 100
times the standard deviation of the noise; the best one *on the test records* is shown, which flatters it.
scikit-learn's digits (1,437 images and 360 held out, `PatchFilters`) and `magic_gamma` (5,000 records, mapped as in
`linear_prior.py`; a quarter of all is held out). Test accuracy in percent, mean of the noises ± standard deviation of
one.
"""

import argparse
from typing import Any

import numpy as np
from learning import Task, digits
from linear_prior import load
from scipy.special import softmax
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import PatchFilters, fit_linear_head
from papers.peers.methods import fit_walr

DELTA = 1e-6
EPSILONS = (0.5, 2.0)
RIDGES = (0.1, 1.0, 10.0, 100.0)


def magic() -> Task:
    task = load("magic_gamma")
    return Task(
        task.features[:5000], task.labels[:5000], task.test_features, task.test_labels, task.categorical, 2, "accuracy"
    )


def measured(task: Task, representation: Any, epsilon: float, noise: int) -> list[float]:
    """Accuracies of least squares, the likelihood of sums, and WALR at each ridge."""
    found = []
    for link in ("identity", "softmax"):
        model = ldp.fit_linear(
            task.features,
            holder(task, epsilon),
            epsilon=epsilon,
            delta=DELTA,
            rng=np.random.default_rng([noise, 5]),
            representation=representation,
            link=link,
        )
        found.append(task.score(model.value.predict_proba(task.test_features)))
    head = fit_linear_head(
        task.features,
        holder(task, epsilon),
        epsilon=epsilon,
        delta=DELTA,
        rng=np.random.default_rng([noise, 5]),
        representation=representation,
    ).value
    [sums], rows = head.posterior.sums, head.posterior.rows
    scale = (np.abs(sums.rows) / np.maximum(np.abs(rows), 1e-9)).max(axis=0)  # of rows that were not cut
    table = head.classifier.representation.transform(task.test_features)
    test = head.space.rows(np.asarray(table, dtype=rows.dtype))[:, head.kept] * scale
    spread = np.sqrt(sums.variance.min())
    for ridge in RIDGES:
        found.append(task.score(softmax(test @ fit_walr(sums.rows.astype(float), sums.moment, ridge * spread), axis=1)))
    return found


def holder(task: Task, epsilon: float) -> ldp.Curator:
    budget = ldp.Budget(epsilon=epsilon, delta=DELTA)
    return ldp.Curator(task.labels, domain=ldp.Classes(task.classes), budget=budget)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noises", type=int, default=3)
    given = parser.parse_args()
    print("| data | ε | least squares | likelihood of sums | WALR, best ridge |\n|---|---:|---:|---:|---:|")
    patches = PatchFilters(side=8, patch=3, filters=40, regions=2)
    for name, task, representation in (("digits", digits(), patches), ("magic_gamma", magic(), FunctionTransformer())):
        for epsilon in EPSILONS:
            runs = [measured(task, representation, epsilon, noise) for noise in range(given.noises)]
            means, spreads = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1)
            best = 2 + int(np.argmax(means[2:]))
            cells = [f"{means[i]:.2f} ± {spreads[i]:.2f}" for i in (0, 1, best)]
            print(f"| {name} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
