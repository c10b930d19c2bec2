"""CIFAR-10 with ImageNet features

How accurate is `labeldp fit --encoder imagenet`?

    OMP_NUM_THREADS=1 python benchmarks/image_encoders.py --store docs/results/data/imagenet-features.csv \\
        --write docs/results/imagenet-features.md

The program needs the extra `image-encoder`, and data in the folder LABELDP_DATA, by default ../shared/data. It computes
features once, at 50 to 100 images a second on one core, and stores them in the feature cache. It leaves out runs that
the stored table has. `--train N` takes the first N images, and `--only NAME` takes one data set.

- **labeldp, central**: a curator sees the labels, δ = 1e-6. **labeldp, local**: noise on each label once, δ = 0.
- Both learn as `labeldp fit --encoder imagenet` does, but from all training images. No image is held out.
- **LP-1ST and LP-2ST** release each label once, by randomized response with a prior, in one or two stages. They train a
  logistic model on the noisy labels, with the same features. Held-out noisy labels choose its penalty.
- Test labels are used for the final measurement only. No constant was chosen by them.
- Cells are means over runs, ± the standard deviation. A cell without ± is one run.
"""

import argparse
import csv
import platform
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import data
import numpy as np
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from labeldp.encoders import ENCODERS
from labeldp.learners import Task, learner_of, linear, softmax

ENCODER, DELTA = ENCODERS["imagenet"], 1e-6

SETS = {"cifar10": (0.1, 0.5, 1.0, 2.0, 4.0), "cifar100_subset": (1.0, 2.0, 4.0)}

WHOLE = {"cifar10": 50_000, "cifar100_subset": 10_000}

METHODS = {
    "central": "**labeldp, central**",
    "local": "**labeldp, local**",
    "LP-1ST": "LP-1ST, local",
    "LP-2ST": "LP-2ST, local",
}

DECAYS = {"central": (0.8, 1.2, 1.6, 2.0), "local": (0.4, 0.8, 1.2, 1.6)}
"""Powers of the variance that the expected signal of a direction may grow with, by trust."""

PRIORS = {"central": "labeldp.learners.linear.EMBEDDING_DECAY", "local": "labeldp.learners.softmax.EMBEDDING_DECAY"}
CHOICE_EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)

TRAINING, HELD_OUT = 15_000, 5_000
"""Training images of CIFAR-10 by which one of them is chosen, and by which it is judged."""

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
"""Inverse penalties of logistic models, on features of unit scale, of which held-out released labels choose one."""

PUBLISHED = """\
| published, no ImageNet | features | ε = 0.05 | ε = 0.5 | ε = 1 | ε = 1.6 | ε = 2 | ε = 4 |
|---|---|---:|---:|---:|---:|---:|---:|
| LP-2ST [1] | ResNet-18, no outside data | | | 63.67 | | 86.05 | 93.37 |
| LP-2ST, its authors' later run | the same | | | 62.89 ± 2.07 | | 88.11 ± 0.38 | 94.18 ± 0.13 |
| LP-1ST [1] | ResNet-18, CIFAR-100 | | | 67.64 | | 83.99 | 92.83 |
| LP-2ST [1] | ResNet-18, CIFAR-100 | | | 70.16 | | 87.22 | 93.53 |
| LabelDP-Pro [2], central, δ > 0 | SimCLR | 85.5 | 87.4 | | 87.7 | | |
| DP-SGD [2], central, δ > 0 | SimCLR | 85.1 | 87.1 | | 87.2 | | |
| randomized response [2] | SimCLR | 3.5 | 6.0 | | 88.1 | | |
| the same with a prior of clusters [2] | SimCLR | 70.8 | 78.1 | | 83.1 | | |
"""

NOTES = """\
[1] Ghazi et al., Deep Learning with Label Differential Privacy (2021), table 1. [2] Ghazi et al., LabelDP-Pro (2024),
table 6.

- The SimCLR features of [2] come from a Wide-ResNet-18 and the images of CIFAR-10, without labels. A model of all true
  labels reaches 90.9 with them.
- ImageNet shares most classes of CIFAR-10. So compare rows with different features only as whole systems.
- The test images here are not the official test set. Training and test images are one pool of 58,865 of the 60,000
  images. So differences of a few tenths of a point to published numbers say nothing.
"""


class Features:
    """Training and test part of a data set, as the encoder makes them, once for all runs."""

    def __init__(self, name: str, train: int | None) -> None:
        X, y, X_test, y_test = data.cifar10() if name == "cifar10" else data.subset(name)
        self.train, self.labels = ENCODER.transform(X[:train]), y[:train].astype(np.int64)
        self.test, self.test_labels = ENCODER.transform(X_test), y_test.astype(np.int64)
        self.classes = int(self.labels.max()) + 1  # all classes of both sets are known
        self.scaled = tuple((part - self.train.mean(axis=0)) / self.train.std() for part in (self.train, self.test))

    def measure(self, method: str, epsilon: float, seed: int) -> dict[str, float]:
        """Accuracy in percent, and seconds of the fit."""
        delta = DELTA if method == "central" else 0.0
        budget = ldp.Budget(epsilon, delta) if epsilon else ldp.Budget(1)
        curator = ldp.Curator(self.labels, domain=ldp.Classes(self.classes), budget=budget)
        rng, start, test = np.random.default_rng(seed), time.perf_counter(), self.test
        logistic = [LogisticRegression(C=penalty, max_iter=100) for penalty in PENALTIES]
        if method in ("central", "local"):
            task = Task.of(curator, epsilon, delta, evaluation=0.0)
            model: Any = learner_of("linear", trust=method, delta=delta).fit(self.train, curator, task, rng=rng).value
        elif epsilon:
            X, test = self.scaled
            options: dict[str, Any] = {"training": "plain", "response": "randomized-response", "evaluation": 0.0}
            stages = int(method[3])
            model = ldp.fit_multistage(
                X, curator, classifier=logistic, epsilon=epsilon, stages=stages, rng=rng, **options
            ).value
        else:
            X, test = self.scaled
            model = logistic[-1].fit(X, self.labels)
        seconds = time.perf_counter() - start
        accuracy = 100 * float(np.mean(model.predict(test) == self.test_labels))
        return {"accuracy": accuracy, "seconds": seconds}

    def choices(self) -> Iterator[dict[str, Any]]:
        """Accuracy and log loss on held-out training images, for each power of the variance."""
        order = np.random.default_rng(7).permutation(len(self.labels))
        learned, held = order[:TRAINING], order[40_000 : 40_000 + HELD_OUT]
        for (trust, decays), epsilon in product(DECAYS.items(), CHOICE_EPSILONS):
            delta = DELTA if trust == "central" else 0.0
            for decay in decays:
                curator = ldp.Curator(
                    self.labels[learned], domain=ldp.Classes(self.classes), budget=ldp.Budget(epsilon, delta)
                )
                task = Task.of(curator, epsilon, delta, evaluation=0.0)
                rng, learner = np.random.default_rng(0), learner_of("linear", trust=trust, delta=delta)
                with patch(PRIORS[trust], decay):
                    model: Any = learner.fit(self.train[learned], curator, task, rng=rng).value
                chances, truth = model.predict_proba(self.train[held]), self.labels[held]
                of_truth = np.maximum(chances[np.arange(len(held)), truth], 1e-6)
                accuracy = 100 * float(np.mean(chances.argmax(axis=1) == truth))
                yield {
                    **{"set": "training images", "method": f"{trust} {decay:g}", "epsilon": epsilon, "seed": 0},
                    **{"train": TRAINING, "test": HELD_OUT, "accuracy": accuracy},
                    "log_loss": -float(np.log(of_truth).mean()),
                }


def chosen(lines: list[dict[str, Any]]) -> str:
    """The section of the power of the variance."""
    text = f"""\
## The prior of embeddings

A linear model expects more signal in feature directions of more variance. It expects a signal that grows with the
variance of the direction, to a power. labeldp uses the power {linear.EMBEDDING_DECAY:g} in the central model, and
{softmax.EMBEDDING_DECAY:g} in the local model.

Models learn from {TRAINING:,} training images of CIFAR-10. {HELD_OUT:,} other training images measure them, in one run.
No test image is used. A cell is accuracy in percent / log loss.

| trust, power | {" | ".join(f"ε = {epsilon:g}" for epsilon in CHOICE_EPSILONS)} |
|---|{"---:|" * len(CHOICE_EPSILONS)}
"""
    cells = {
        (line["method"], line["epsilon"]): f"{line['accuracy']:.2f} / {line['log_loss']:.3f}"
        for line in lines
        if line["set"] == "training images"
    }
    methods = [f"{trust} {decay:g}" for trust, decays in DECAYS.items() for decay in decays]
    rows = [
        f"| {method.replace(' ', ', ')} | {' | '.join(cells[method, epsilon] for epsilon in CHOICE_EPSILONS)} |"
        for method in methods
        if cells
    ]
    return text + "\n".join(rows)


def page(lines: list[dict[str, Any]]) -> str:
    """The page of all runs."""
    assert __doc__ is not None
    parts = [f"# {__doc__.strip()}", f"{date.today()}, {platform.machine()}, one core of"]
    parts[-1] += f" a shared machine. Encoder: {ENCODER.version}."
    for name, epsilons in SETS.items():
        of_set = [line for line in lines if line["set"] == name]
        if not of_set:
            continue
        train, test = max(line["train"] for line in of_set), of_set[0]["test"]
        of_set = [line for line in of_set if line["train"] == train]
        runs: dict[tuple[str, float], list[dict[str, float]]] = defaultdict(list)
        for line in of_set:
            runs[line["method"], line["epsilon"]].append(line)
        rows = [
            f"## {name}: {train:,} training and {test:,} test images",
            "",
            "Test accuracy in percent.",
        ]
        if train < WHOLE[name]:
            rows[-1] += f" These are the first {train:,} of {WHOLE[name]:,} training images."
        rows += ["", f"| ImageNet features | {' | '.join(f'ε = {e:g}' for e in epsilons)} | seconds of a fit |"]
        rows.append(f"|---|{'---:|' * (len(epsilons) + 1)}")
        for method, words in METHODS.items():
            if not any(line["method"] == method for line in of_set):
                continue
            cells = [cell([line["accuracy"] for line in runs[method, epsilon]]) or "not run" for epsilon in epsilons]
            seconds = [line["seconds"] for epsilon in epsilons for line in runs[method, epsilon]]
            rows.append(f"| {words} | {' | '.join(cells)} | {f'{np.median(seconds):.0f}' if seconds else ''} |")
        if missing := [method for method in METHODS if not any(line["method"] == method for line in of_set)]:
            rows += ["", f"Not run: {', '.join(missing)}."]
        if plain := [line["accuracy"] for line in runs["none", 0.0]]:
            rows += ["", f"A logistic model of all true labels, without privacy: {np.mean(plain):.2f}."]
        parts.append("\n".join(rows))
        if name == "cifar10":
            parts += [PUBLISHED.strip(), NOTES.strip()]
    return "\n\n".join([*parts, chosen(lines)]) + "\n"


def stored(path: Path) -> list[dict[str, Any]]:
    """The rows of a table of runs."""
    numbers = {"epsilon": float, "seed": int, "train": int, "test": int, "accuracy": float}
    numbers |= {"seconds": float, "log_loss": float}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{name: numbers.get(name, str)(value) for name, value in row.items() if value} for row in rows]


def store(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write a table of runs."""
    names = ("set", "method", "epsilon", "seed", "train", "test", "accuracy", "seconds", "log_loss")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def cell(values: list[float]) -> str:
    """A mean with the spread of one noise."""
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}" if values else ""


def main() -> None:
    """Do what is asked for and was not done before, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--train", type=int)
    parser.add_argument("--only", choices=SETS)
    parser.add_argument("--methods", nargs="*", default=[*METHODS, "none"])
    parser.add_argument("--choose", action="store_true", help="the prior of embeddings, on training images")
    parser.add_argument("--page-only", action="store_true", help="write the page from the stored table")
    asked = parser.parse_args()
    lines = stored(asked.store) if asked.store.exists() else []
    for name in () if asked.page_only else [asked.only] if asked.only else SETS:
        features = Features(name, asked.train)
        if asked.choose and name == "cifar10":
            lines = [line for line in lines if line["set"] != "training images"]
            for line in features.choices():
                lines.append(line)
                store(asked.store, lines)
        sizes = {"train": len(features.train), "test": len(features.test)}
        cases = [("none", 0.0, 0)] if "none" in asked.methods else []
        for seed, epsilon in product(range(asked.runs), SETS[name]):
            # LP-1ST and LP-2ST take long: one noise.
            cases += [(m, epsilon, seed) for m in METHODS if m in asked.methods and (seed == 0 or m[:2] != "LP")]
        for method, epsilon, seed in cases:
            case = {"set": name, "method": method, "epsilon": epsilon, "seed": seed, **sizes}
            if any(case.items() <= line.items() for line in lines):
                continue
            lines.append({**case, **features.measure(method, epsilon, seed)})
            store(asked.store, lines)
            print(lines[-1], flush=True)
    if asked.write:
        asked.write.write_text(page(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
