"""Linear heads of images, without a network: from labels that are randomized one by one, and from one noisy sum.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/heads.py --out .cache/heads --write docs/results/heads.md

Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. Every number is a mean over fresh
noises with its standard deviation (of one noise, not of the mean). `--out` holds the maps of the images in principal
directions, computed once for all noises, and a line of JSON for each run, which is not done again. Test labels are
used for the final measurement alone.

"labels": no trust in anybody, delta = 0, all labels randomized once, `SoftmaxClassifier`. "sums": trust in a curator,
delta = 1e-6, one release, `fit_linear`. "new" is the default: `ImageMap`; for labels the mechanism that tells most bits
(`PartitionResponse` or randomized response), for sums the likelihood of the sums under a softmax. "old" is what was
there before: `PatchFilters`; for labels randomized response, for sums least squares. No part is kept for an evaluation.

`RIDGE` and `DIMENSION` of the head of labels were chosen by `--choose` on a sixth of the training images, which no run
here learned from: the largest mean accuracy.
"""

import argparse
import json
import platform
import time
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import data
import numpy as np
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import Evidence, ImageMap, PatchFilters, first_response, label_head
from labeldp.learners.heads import DIMENSION, RIDGE
from labeldp.learners.whitening import MAX_DIMENSION, Space

DELTA = 1e-6
AS_THEY_ARE = FunctionTransformer()
TRUSTS = {"labels": "nobody", "sums": "a curator"}
EPSILONS = {
    "mnist": {"labels": (0.5, 1.0, 2.0), "sums": (0.1, 0.5, 1.0, 2.0)},
    "fashion_mnist": {"labels": (0.5, 1.0, 2.0), "sums": (0.1, 0.5, 1.0, 2.0)},
    "cifar100_subset": {"labels": (2.0, 4.0), "sums": (2.0, 4.0)},
}
AIMED = {
    ("mnist", "labels"): (95.5, 97.6, 98.5),
    ("fashion_mnist", "labels"): (84.2, 88.0, 89.9),
    ("mnist", "sums"): (96.1, 97.9, 98.3, 98.5),
    ("fashion_mnist", "sums"): (85.0, 88.6, 89.6, 90.4),
}
"""What was aimed at, in percent, at these epsilons."""

CHOICES = [(size, ridge) for size in (150, 300, 600) for ridge in (0.1, 0.2, 0.5)]
CHOSEN_ON = {"fashion_mnist": (0.5, 1.0, 2.0), "cifar10_subset": (1.0, 2.0)}


class Runs:
    """The folder with maps and results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "runs.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.found = {self.key(each["asked"]): each for each in map(json.loads, lines)}

    @staticmethod
    def key(asked: dict[str, Any]) -> str:
        return json.dumps(asked, sort_keys=True)

    def run(self, **asked: Any) -> dict[str, Any]:
        """The result of one run, which is done now if it was not done before."""
        if self.key(asked) not in self.found:
            work = choose if "ridge" in asked else measure
            start = time.process_time()
            result = {"asked": asked, **work(self.folder, **asked), "seconds": time.process_time() - start}
            with self.log.open("a") as lines:
                lines.write(json.dumps(result) + "\n")
            print(json.dumps(result), flush=True)
            self.found[self.key(asked)] = result
        return self.found[self.key(asked)]


@cache
def mapped(folder: Path, name: str, kind: str) -> dict[str, np.ndarray]:
    """Images in principal directions of a map, of their own widths, their labels, and the seconds of both."""
    path = folder / f"{name}_{kind}.npz"
    if not path.exists():
        images, labels, test_images, test_labels = getattr(data, name)()
        start = time.process_time()
        make = {"ImageMap": ImageMap, "PatchFilters": PatchFilters}[kind]
        transformer = make(side=images.shape[1], channels=int(np.prod(images.shape[3:])))
        tables = transformer.fit_transform(images), transformer.transform(test_images)
        space = Space.of(tables[0], MAX_DIMENSION)
        widths = np.sqrt(space.variances).astype(np.float32)
        train, test = (space.rows(each)[:, 1:] * widths for each in tables)
        seconds = time.process_time() - start
        np.savez(path, train=train, labels=labels, test=test, test_labels=test_labels, seconds=seconds)
    with np.load(path) as stored:
        return dict(stored)


def holder(labels: np.ndarray, epsilon: float) -> ldp.Curator:
    domain = ldp.Classes(int(labels.max()) + 1)
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=epsilon, delta=DELTA))


def answered(labels: np.ndarray, epsilon: float, response: Any, rng: np.random.Generator) -> Evidence:
    """All labels, randomized once."""
    curator = holder(labels, epsilon)
    return Evidence.of(curator.release(first_response(curator.domain, epsilon, response=response), rng=rng))


def right(model: Any, features: np.ndarray, labels: np.ndarray) -> float:
    return 100 * float(np.mean(model.predict(features) == labels))


def measure(folder: Path, data: str, source: str, version: str, epsilon: float, noise: int) -> dict[str, float]:
    """Test accuracy of one head."""
    new = version == "new"
    parts = mapped(folder, data, "ImageMap" if new else "PatchFilters")
    rng = np.random.default_rng([noise, 17])
    if source == "labels":
        evidence = answered(parts["labels"], epsilon, "best" if new else "randomized-response", rng)
        model: Any = label_head(parts["train"], evidence, representation=AS_THEY_ARE).classifier
    else:
        link = None if new else "identity"
        model = ldp.fit_linear(
            parts["train"], holder(parts["labels"], epsilon), epsilon=epsilon, delta=DELTA, rng=rng,
            representation=AS_THEY_ARE, link=link,
        ).value  # fmt: skip
    return {"accuracy": right(model, parts["test"], parts["test_labels"]), "before": float(parts["seconds"])}


def choose(folder: Path, data: str, epsilon: float, noise: int, size: int, ridge: float) -> dict[str, float]:
    """Accuracy and mean log loss on a sixth of the training images, of a head of the others."""
    parts = mapped(folder, data, "ImageMap")
    features, labels = parts["train"], parts["labels"]
    held = np.random.default_rng(5).permutation(len(labels)) < len(labels) // 6
    evidence = answered(labels[~held], epsilon, "best", np.random.default_rng([noise, 11]))
    options = {"dimension": size, "ridge": ridge, "representation": AS_THEY_ARE}
    model = label_head(features[~held], evidence, **options).classifier
    own = np.maximum(model.predict_proba(features[held])[np.arange(held.sum()), labels[held]], 1e-3)
    return {"accuracy": right(model, features[held], labels[held]), "loss": float(-np.log(own).mean())}


def cell(found: list[dict[str, Any]]) -> str:
    scores = [each["accuracy"] for each in found]
    return f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}" if len(scores) > 1 else f"{scores[0]:.2f}"


def page(runs: Runs, noises: int) -> str:
    """The page of all runs that were done."""
    lines = ["# Linear heads of images", "", (__doc__ or "").strip().partition("\n\n")[2], ""]
    lines += [f"{date.today()}, one core of a shared {platform.machine()} machine.", "", NOTES.strip()]
    for name, sources in EPSILONS.items():
        lines += ["", f"## {name}", "", "Test accuracy in percent."]
        for source, epsilons in sources.items():
            lines += ["", f"| {source}, trust in {TRUSTS[source]} | {' | '.join(f'ε = {e:g}' for e in epsilons)} |"]
            lines += ["|---|" + "---:|" * len(epsilons)]
            for version in ("old", "new"):
                cells = [done(runs, name, source, version, epsilon, noises) for epsilon in epsilons]
                lines += [f"| {version} | {' | '.join(cell(each) if each else '' for each in cells)} |"]
            if (name, source) in AIMED:
                lines += [f"| aimed at | {' | '.join(f'{each:g}' for each in AIMED[name, source])} |"]
            spent = [f"{c[0]['before']:.0f} + {np.mean([e['seconds'] for e in c]):.0f}" if c else "" for c in cells]
            lines += [f"| noises | {' | '.join(str(len(each)) for each in cells)} |"]
            lines += [f"| seconds of the new one, map + fit | {' | '.join(spent)} |"]
    lines += ["", "## Chosen", "", "Accuracy in percent / log loss on held-out training images, one noise.", ""]
    columns = [(name, epsilon) for name, listed in CHOSEN_ON.items() for epsilon in listed]
    lines += [f"| directions | ridge | {' | '.join(f'{name}, ε = {e:g}' for name, e in columns)} | mean |"]
    lines += ["|---:|---:|" + "---:|" * (len(columns) + 1)]
    for size, ridge in CHOICES:
        asked = [{"data": n, "epsilon": e, "noise": 0, "size": size, "ridge": ridge} for n, e in columns]
        found = [runs.found.get(runs.key(each)) for each in asked]
        cells_ = [f"{each['accuracy']:.2f} / {each['loss']:.3f}" if each else "" for each in found]
        mean = f"{np.mean([each['accuracy'] for each in found if each]):.2f}" if all(found) else ""
        lines += [f"| {size} | {ridge:g} | {' | '.join(cells_)} | {mean} |"]
    return "\n".join([*lines, "", f"Chosen: DIMENSION = {DIMENSION}, RIDGE = {RIDGE:g}."]) + "\n"


def done(runs: Runs, name: str, source: str, version: str, epsilon: float, noises: int) -> list[dict[str, Any]]:
    """The results of one cell so far."""
    asked = {"data": name, "source": source, "version": version, "epsilon": epsilon}
    keys = [runs.key(asked | {"noise": noise}) for noise in range(noises)]
    return [runs.found[key] for key in keys if key in runs.found]


NOTES = ""


def main() -> None:
    """Run what was not run before, noise by noise, and write the page where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--noises", type=int, default=5)
    parser.add_argument("--only", default="", help="parts of what is run, such as mnist/sums/new")
    parser.add_argument("--choose", action="store_true", help="measure the constants instead")
    parser.add_argument("--write", type=Path, help="write the page of all runs so far, and run nothing")
    given = parser.parse_args()
    runs = Runs(given.out)
    if given.write:
        given.write.write_text(page(runs, given.noises))
        return
    if given.choose:
        for name, epsilons in CHOSEN_ON.items():
            for epsilon in epsilons:
                for size, ridge in CHOICES:
                    runs.run(data=name, epsilon=epsilon, noise=0, size=size, ridge=ridge)
        return
    for noise in range(given.noises):
        for name, sources in EPSILONS.items():
            for source, epsilons in sources.items():
                for version in ("new", "old"):
                    if given.only in f"{name}/{source}/{version}":
                        for epsilon in epsilons:
                            runs.run(data=name, source=source, version=version, epsilon=epsilon, noise=noise)


if __name__ == "__main__":
    main()
