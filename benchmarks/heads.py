"""Linear heads of images, without a network: from labels that are randomized one by one, and from one noisy sum.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/heads.py --out .cache/heads --write

Data folders are looked for in the folder LABELDP_DATA, by default ../shared/data. Every number is a mean over fresh
noises with its standard deviation (of one noise, not of the mean). `--out` holds the maps of the images in principal
directions, computed once for all noises, and a line of JSON for each run, which is not done again. Test labels are
used for the final measurement alone.

Labels: no trust in anybody, delta = 0, all labels randomized once by the mechanism that tells most bits
(`LocalHashing` or randomized response), `SoftmaxClassifier`. Sums: trust in a curator, delta = 1e-6, one release,
`fit_linear`. Both with their defaults, `ImageMap` among them, on all training images: none is kept for an evaluation.

`constants.py heads` compared `DECAY` and `RIDGE` of the head of labels.
"""

import argparse
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import data
import numpy as np
import pages
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.features import default_representation
from labeldp.features.whitening import MAX_DIMENSION, Space
from labeldp.learners import Evidence, first_response, label_head

DELTA = 1e-6
AS_THEY_ARE = FunctionTransformer()
TRUSTS = {"labels": "local", "sums": "central"}
EPSILONS = {
    "mnist": {"labels": (0.5, 1.0, 2.0), "sums": (0.1, 0.5, 1.0, 2.0)},
    "fashion_mnist": {"labels": (0.5, 1.0, 2.0), "sums": (0.1, 0.5, 1.0, 2.0)},
    "cifar100_subset": {"labels": (2.0, 4.0), "sums": (2.0, 4.0)},
}


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
            start = time.process_time()
            result = {"asked": asked, **measure(self.folder, **asked), "seconds": time.process_time() - start}
            with self.log.open("a") as lines:
                lines.write(json.dumps(result) + "\n")
            print(json.dumps(result), flush=True)
            self.found[self.key(asked)] = result
        return self.found[self.key(asked)]


@cache
def mapped(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Images in principal directions of a map, of their own widths, their labels, and the seconds of both."""
    path = folder / f"{name}_ImageMap.npz"
    if not path.exists():
        images, labels, test_images, test_labels = getattr(data, name)()
        start = time.process_time()
        transformer = default_representation(images)
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


def answered(labels: np.ndarray, epsilon: float, rng: np.random.Generator) -> Evidence:
    """All labels, randomized once."""
    curator = holder(labels, epsilon)
    return Evidence.of(curator.release(first_response(curator.domain, epsilon), rng=rng))


def right(model: Any, features: np.ndarray, labels: np.ndarray) -> float:
    return 100 * float(np.mean(model.predict(features) == labels))


def measure(folder: Path, data: str, source: str, epsilon: float, noise: int) -> dict[str, float]:
    """Test accuracy of one head."""
    parts, rng = mapped(folder, data), np.random.default_rng([noise, 17])
    if source == "labels":
        evidence = answered(parts["labels"], epsilon, rng)
        model: Any = label_head(parts["train"], evidence, representation=AS_THEY_ARE).classifier
    else:
        curator = holder(parts["labels"], epsilon)
        options = {"epsilon": epsilon, "delta": DELTA, "representation": AS_THEY_ARE}
        model = ldp.fit_linear(parts["train"], curator, rng=rng, **options).value
    return {"accuracy": right(model, parts["test"], parts["test_labels"]), "before": float(parts["seconds"])}


def cell(found: list[dict[str, Any]]) -> str:
    scores = [each["accuracy"] for each in found]
    if not scores:
        return ""
    return f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}" if len(scores) > 1 else f"{scores[0]:.2f}"


def page(runs: Runs, noises: int) -> str:
    """The tables of all runs that were done."""
    lines = ["| data | trust | ε | accuracy | runs | seconds, map + fit |", "|---|---|---:|---:|---:|---:|"]
    for name, sources in EPSILONS.items():
        for source, epsilons in sources.items():
            for epsilon in epsilons:
                if found := done(runs, name, source, epsilon, noises):
                    spent = f"{found[0]['before']:.0f} + {np.mean([each['seconds'] for each in found]):.0f}"
                    cells = (name, TRUSTS[source], f"{epsilon:g}", cell(found), len(found), spent)
                    lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def done(runs: Runs, name: str, source: str, epsilon: float, noises: int) -> list[dict[str, Any]]:
    """The results of one cell so far."""
    asked = {"data": name, "source": source, "epsilon": epsilon}
    keys = [runs.key(asked | {"noise": noise}) for noise in range(noises)]
    return [runs.found[key] for key in keys if key in runs.found]


def main() -> None:
    """Run what was not run before, noise by noise, and write the page where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="parts of what is run, such as mnist/sums")
    parser.add_argument("--write", action="store_true", help="store the tables of all runs so far, and run nothing")
    given = parser.parse_args()
    runs = Runs(given.out)
    if given.write:
        pages.store(page(runs, given.repeats), "heads")
        return
    for noise in range(given.repeats):
        for name, sources in EPSILONS.items():
            for source, epsilons in sources.items():
                if given.only in f"{name}/{source}":
                    for epsilon in epsilons:
                        runs.run(data=name, source=source, epsilon=epsilon, noise=noise)


if __name__ == "__main__":
    main()
