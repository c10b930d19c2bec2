"""Public weights under a fresh head: CIFAR-100's, for private labels of CIFAR-10, on the two subsets.

    OMP_NUM_THREADS=1 python benchmarks/transfer.py --repeats 2 [--write]

Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. The compact network, the quick
preset, one stage; the labels of CIFAR-100 count as public. The subsets are small parts of the data sets, so the numbers
cannot be compared with published ones. Needs torch.
"""

import argparse
import time

import numpy as np
import pages
import torch
from data import cifar10_subset, cifar100_subset

import labeldp as ldp
from labeldp.networks import NetworkClassifier, Recipe

RECIPE = Recipe(epochs=8, augment=("crop", "flip"))
EPSILONS = (1.0, 2.0, 4.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=2)
    torch.set_num_threads(1)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    noises = given.repeats
    start = time.perf_counter()
    fine, names, *_ = cifar100_subset()
    public = NetworkClassifier(recipe=RECIPE).fit(fine, names.astype(int))
    print(f"public weights: {time.perf_counter() - start:.0f} s\n")
    lines = ["| ε | first weights | test accuracy in percent |", "|---:|---|---:|"]
    for epsilon in EPSILONS:
        for name, init in (("random", None), ("of CIFAR-100", public)):
            found = [100 * accuracy(epsilon, init, noise) for noise in range(noises)]
            lines.append(
                f"| {epsilon:g} | {name} | {np.mean(found):.1f} ± {np.std(found, ddof=min(1, noises - 1)):.1f} |"
            )
            print(lines[-1], flush=True)
    if given.write:
        pages.store("\n".join(lines), "images-weights")


def accuracy(epsilon: float, init: NetworkClassifier | None, noise: int) -> float:
    """One stage at one epsilon with one noise."""
    features, labels, test_features, test_labels = cifar10_subset()
    model = ldp.fit_multistage(
        features,
        ldp.Curator(labels.astype(int), domain=ldp.Classes(10), budget=ldp.Budget(epsilon)),
        classifier=NetworkClassifier(
            recipe=RECIPE, init=init and ldp.Public(init, why="learnt from CIFAR-100, whose labels are public")
        ),
        epsilon=epsilon,
        stages=1,
        evaluation=0.0,
        rng=np.random.default_rng(noise),
    ).value
    return float(np.mean(model.predict(test_features) == test_labels))


if __name__ == "__main__":
    main()
