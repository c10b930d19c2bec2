"""What `fit_linear` gains by the likelihood of its sums under a softmax, and how strong the prior should be.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/linear_link.py [--write]

Least squares and the softmax of largest posterior density read the same released sums at delta = 1e-6; a cell is
log loss / accuracy. `LIKELIHOOD_RIDGE`, beside "softmax", multiplies the precision of the prior on the coefficients.
Records that no table of results shows, as in `linear_prior.py`: of `fashion_mnist` 20,000 training images, of which
5,000 are held out; of `magic_gamma`, `covertype_20k` and `higgs_7500` a quarter is. The same noises for every setting,
three for tables and one for images. The setting with the smallest mean log loss is the default.
"""

import argparse
from unittest.mock import patch

import numpy as np
import pages
from learning import Task
from linear import DELTA, TASKS, reduced
from linear_prior import held_out, load
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import Posterior

EPSILONS = (0.1, 0.5, 2.0)
RIDGES = (0.3, 0.6, 1.0, 2.0)
NOISES = {"fashion_mnist": 1}
NAMES = ("magic_gamma", "covertype_20k", "higgs_7500", "fashion_mnist")


def records(name: str) -> Task:
    """Mapped records, of which some are held out."""
    if name != "fashion_mnist":
        return load(name)
    task = TASKS[name]()
    return reduced(held_out(task.features[:20_000], task.labels[:20_000], 5_000))


def measured(task: Task, epsilon: float, seed: int, ridge: float | None) -> tuple[float, float]:
    """Mean log loss, of probabilities of at least 0.001, and accuracy in per cent, of held-out records."""
    budget = ldp.Budget(epsilon=epsilon, delta=DELTA)
    curator = ldp.Curator(task.labels, domain=ldp.Classes(task.classes), budget=budget)
    # Without a ridge the coefficients stay where the search for the largest density starts: at least squares.
    least_squares = patch.object(Posterior, "largest", lambda _, start: start)
    with patch("labeldp.learners.linear.LIKELIHOOD_RIDGE", ridge) if ridge else least_squares:
        model = ldp.fit_linear(
            task.features,
            curator,
            epsilon=epsilon,
            delta=DELTA,
            rng=np.random.default_rng([seed, 5]),
            representation=FunctionTransformer(),
        )
    chances = model.value.predict_proba(task.test_features)
    own = np.maximum(chances[np.arange(len(chances)), task.test_labels], 1e-3)
    return float(-np.log(own).mean()), 100 * float(np.mean(chances.argmax(axis=1) == task.test_labels))


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    lines: list[str] = []
    heads = ["least squares", *(f"softmax, {ridge:g}" for ridge in RIDGES)]
    lines += [f"| data | ε | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    losses = []
    for name in NAMES:
        task = records(name)
        for epsilon in EPSILONS:
            noises = range(NOISES.get(name, 3))
            found = [
                np.mean([measured(task, epsilon, seed, each) for seed in noises], axis=0) for each in (None, *RIDGES)
            ]
            losses.append([loss for loss, _ in found])
            cells = [f"{loss:.3f} / {accuracy:.2f}" for loss, accuracy in found]
            lines.append(f"| {name} | {epsilon:g} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    means = np.mean(losses, axis=0)
    lines.append(f"| mean log loss | | {' | '.join(f'{mean:.4f}' for mean in means)} |")
    lines += ["", f"Chosen: LIKELIHOOD_RIDGE = {RIDGES[int(np.argmin(means[1:]))]:g}.", ""]
    print("\n".join(lines))
    if given.write:
        pages.store("\n".join(lines), "linear_link")


if __name__ == "__main__":
    main()
