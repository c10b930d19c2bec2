"""How long the networks of `fit_best` are trained, measured on held-out training images.

    OMP_NUM_THREADS=1 python benchmarks/best.py --epochs 4,5 8,10 16,20 [--data mnist] [--trust local] [--write]

`fit_best` learns from all training images but the 10,000 held-out ones, whose true labels say what each step gives:
accuracy in percent, and log loss. The seconds are those of the processor, of both networks and what is between them.
One noise. Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. Needs torch.
"""

import argparse
import time
from dataclasses import replace
from unittest.mock import patch

import data
import numpy as np
import pages
import torch

import labeldp as ldp
from labeldp.learners import Model
from labeldp.networks import distillation, fit_best

HELD_OUT = 10_000
STEPS = ("network", "network, corrected", "network 2", "network 2, corrected")


def main() -> None:
    """Print a row for each pair of epochs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", nargs="+", default=["4,5", "8,10"], help="of the first and the second network")
    parser.add_argument("--data", choices=("mnist", "fashion_mnist"), default="fashion_mnist")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--trust", choices=("central", "local"), default="central")
    parser.add_argument("--records", type=int, default=50_000, help="to learn from")
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = [f"| epochs of the two networks | {' | '.join(STEPS)} | seconds |", "|---|" + "---:|" * (len(STEPS) + 1)]
    for pair in given.epochs:
        found, seconds = measured(given, *(int(each) for each in pair.split(",")))
        lines.append(f"| {pair} | {' | '.join(found.get(step, '–') for step in STEPS)} | {seconds:.0f} |")
        print(lines[-1], flush=True)
    if given.write:
        pages.store("\n".join(lines), "images-epochs")


def measured(given: argparse.Namespace, first: int, second: int) -> tuple[dict[str, str], float]:
    """Return what each step gives, and the seconds from the head to the end."""
    images, labels = data.images(given.data)[:2]
    order = np.random.default_rng(0).permutation(len(images))
    rows, held = order[: given.records], order[-HELD_OUT:]
    delta = 1e-6 if given.trust == "central" else 0.0
    curator = ldp.Curator(
        labels[rows].astype(int), domain=ldp.Classes(10), budget=ldp.Budget(epsilon=given.epsilon, delta=delta)
    )
    found, clock = {}, []

    def told(step: str, model: ldp.Release[Model]) -> None:
        clock.append(time.process_time())
        chances = model.value.predict_proba(images[held])
        loss = -np.log(chances[np.arange(len(held)), labels[held]]).mean()
        found[step] = f"{100 * np.mean(chances.argmax(axis=1) == labels[held]):.2f} / {loss:.3f}"

    passes = [replace(distillation.SETTINGS.taught, epochs=each, least_steps=0) for each in (first, second)]
    names = ("distilled", "student") if given.trust == "central" else ("taught", "taught")
    settings = replace(distillation.SETTINGS, **dict(zip(names, passes, strict=True)))
    with patch.object(distillation, "SETTINGS", settings):
        fit_best(
            images[rows], curator, epsilon=given.epsilon, delta=delta, rng=np.random.default_rng([0, 5]),
            trust=given.trust, callback=told,
        )  # fmt: skip
    return found, clock[-1] - clock[0]


if __name__ == "__main__":
    main()
