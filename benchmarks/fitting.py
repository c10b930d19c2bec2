"""What fits cost as tables grow, beside the same trees once, and what the rules for many records cost in accuracy.

    python benchmarks/fitting.py [--parts trees,auto,diagnostics,linear,cells,rules] [--write docs/results/fitting.md]

One thread, processor time. Each fit runs in a process of its own, whose largest memory is counted whole. Tables are
made up, but for those of the rules: `census_income_kdd`, `hillstrom` and `skin_segmentation`, looked for in the folder
LABELDP_DATA, by default ../shared/data.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ARROW_IO_THREADS", "1")

import numpy as np
import pyarrow as pa
from clock import most_memory, seconds
from pyarrow import parquet

import labeldp as ldp

HERE = Path(__file__)
NAMES = tuple("abcdefghij")


def made_up(records: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and labels that follow them smoothly, with interactions."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(records, columns)).astype(np.float32)
    scores = features @ (0.5 * rng.normal(size=(columns, classes))) + np.sin(2 * features[:, :classes])
    scores += features[:, [0]] * features[:, [1]] * np.linspace(-1, 1, classes)
    return features, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def fit(model: str, records: int, columns: int, classes: int, *, diagnostics: bool = False) -> Callable[[], object]:
    """`labeldp fit` of a table in Parquet, report included."""
    from labeldp.fit import fit_file, parse_fit
    from labeldp.report import render_report

    folder = tempfile.TemporaryDirectory()
    place = Path(folder.name)
    features, codes = made_up(records, columns, classes)
    table = {f"x{j}": column for j, column in enumerate(features.T)} | {"label": np.array(NAMES)[codes]}
    parquet.write_table(pa.table(table), place / "t.parquet")
    request = parse_fit(
        label="label", classes=",".join(NAMES[:classes]), epsilon="1", delta="0", dataset="d", model=model,
        features=None, stages=None,
    )  # fmt: skip

    def work() -> None:
        fit_file(
            request,
            str(place / "t.parquet"),
            ledger=str(place / "l.db"),
            out=str(place / "o"),
            render=render_report,
            diagnostics=diagnostics,
        )
        folder.cleanup()

    return work


def trees(kind: str, records: int, columns: int, classes: int) -> Callable[[], object]:
    """The same trees once on released labels, or scikit-learn's own ones on true labels."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from labeldp.learners.classifiers import boosted_trees

    features, codes = made_up(records, columns, classes)
    if kind == "scikit-learn":
        return lambda: HistGradientBoostingClassifier().fit(features, codes)
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(classes), epsilon=1)
    noisy = mechanism.randomize(codes.astype(np.uint8), rng=np.random.default_rng(0))
    return lambda: boosted_trees(records, None, classes).fit(features, noisy)


def linear(records: int, columns: int, classes: int) -> Callable[[], object]:
    """`fit_linear` as it is by default."""
    features, codes = made_up(records, columns, classes)
    curator = ldp.Curator(codes, domain=ldp.Classes(classes), budget=ldp.Budget(1, 1e-6))
    return lambda: ldp.fit_linear(features, curator, epsilon=1, delta=1e-6, rng=np.random.default_rng(0))


def cells(records: int, columns: int, classes: int) -> Callable[[], object]:
    """`fit_cells` as it is by default."""
    features, codes = made_up(records, columns, classes)
    curator = ldp.Curator(codes, domain=ldp.Classes(classes), budget=ldp.Budget(1))
    return lambda: ldp.fit_cells(features, curator, epsilon=1, rng=np.random.default_rng(0))


def partition(records: int, columns: int, classes: int) -> Callable[[], object]:
    """A thousand cells at medians."""
    features = made_up(records, columns, classes)[0]
    return lambda: ldp.learners.MedianPartition(1000).fit(features).transform(features)


WORK: dict[str, Callable[[int, int, int], Callable[[], object]]] = {
    "boosting": lambda *shape: fit("boosting", *shape),
    "auto": lambda *shape: fit("auto", *shape),
    "same trees": lambda *shape: trees("same", *shape),
    "scikit-learn": lambda *shape: trees("scikit-learn", *shape),
    "fit_linear": linear,
    "fit_cells": cells,
    "MedianPartition": partition,
}


def worker(what: str, shape: list[int]) -> None:
    """One piece of work: prints its processor time, and the most memory that the process held."""
    if what in ("boosting", "auto"):
        fit(what, 1000, 5, 2)()  # what is imported late is imported now
    work = WORK[what](*shape)
    print(json.dumps([seconds(work), most_memory()]))


def run(what: str, *shape: int) -> tuple[float, float]:
    """Seconds and MB of a worker."""
    command = [sys.executable, str(HERE), "--worker", what, "--shape", ",".join(map(str, shape))]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(what, shape, found.strip(), file=sys.stderr, flush=True)
    seconds, megabytes = json.loads(found.splitlines()[-1])
    return seconds, megabytes


def beside(title: str, what: str, peer: str, shape: tuple[int, ...]) -> str:
    """A row of a fit beside its floor."""
    (spent, memory), (floor, less) = run(what, *shape), run(peer, *shape)
    return f"| {title} | {spent:.1f} | {floor:.1f} | {spent / floor:.1f} | {memory:.0f} | {less:.0f} |"


HEAD = "| fit | s | {}, s | ratio | MB | {}, MB |\n|---|---|---|---|---|---|"


def of_trees(sizes: list[int]) -> str:
    """Boosting beside the same trees once."""
    rows = [beside(f"boosting, {size:,} x 20", "boosting", "same trees", (size, 20, 2)) for size in sizes]
    return "\n".join([HEAD.format("same trees", "same trees"), *rows])


def of_auto() -> str:
    """The default beside scikit-learn's boosted trees."""
    row = beside("auto, 81,000 x 49, three classes", "auto", "scikit-learn", (81_000, 49, 3))
    return "\n".join([HEAD.format("scikit-learn", "scikit-learn"), row])


DIAGNOSTICS = ((600, 4, 2), (20_000, 10, 2), (5_000, 50, 2))


def diagnostics(shape: list[int]) -> None:
    """A fit with its report: prints the processor time of all, and that of other epsilons and of ranked features."""
    from importlib import import_module

    module, spent = import_module("labeldp.fit.simulate"), []

    def timed(work: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object) -> object:
            start = time.process_time()
            result = work(*arguments)
            spent.append(time.process_time() - start)
            return result

        return run

    for name in ("simulated_curve", "importances"):
        setattr(module, name, timed(getattr(module, name)))
    print(json.dumps([seconds(fit("auto", *shape, diagnostics=True)), *spent]))


def of_diagnostics() -> str:
    """What the diagnostics of a fit cost, beside the rest of it."""
    lines = [
        "| fit | s without diagnostics | other ε, s | ranked features, s | ratio |",
        "|---|---|---|---|---|",
    ]
    for shape in DIAGNOSTICS:
        size = ",".join(map(str, shape))
        command = [sys.executable, "-W", "ignore", str(HERE), "--worker", "diagnostics", "--shape", size]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        total, curve, ranks = json.loads(output.splitlines()[-1])
        rest = total - curve - ranks
        cells = (f"auto, {shape[0]:,} x {shape[1]}", f"{rest:.1f}", f"{curve:.2f}", f"{ranks:.2f}")
        lines.append(f"| {' | '.join(cells)} | {(curve + ranks) / rest:.2f} |")
    return "\n".join(lines)


def of_linear(sizes: list[int]) -> str:
    """`fit_linear` at several sizes, and the exponent of its time."""
    found = [run("fit_linear", size, 20, 2) for size in sizes]
    lines = ["| records | s | MB | exponent from the row above |", "|---|---|---|---|"]
    for i, (size, (spent, memory)) in enumerate(zip(sizes, found, strict=True)):
        exponent = "" if not i else f"{np.log(spent / found[i - 1][0]) / np.log(size / sizes[i - 1]):.2f}"
        lines.append(f"| {size:,} | {spent:.1f} | {memory:.0f} | {exponent} |")
    return "\n".join(lines)


def of_cells() -> str:
    """Cells and their trees."""
    lines = ["| work | s | MB |", "|---|---|---|"]
    for what, title in (
        ("fit_cells", "fit_cells, 10,000 x 20"),
        ("MedianPartition", "MedianPartition(1000), 1,000,000 x 20"),
    ):
        size = int(title.split(", ", 1)[1].split(" x")[0].replace(",", ""))
        seconds, memory = run(what, size, 20, 2)
        lines.append(f"| {title} | {seconds:.1f} | {memory:.0f} |")
    return "\n".join(lines)


def tables() -> dict[str, Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray, int]]]:
    """Features, mask of categories, codes and their number, of tables of many records."""
    import pandas as pd
    from learning import DATA, encoded

    def read(path: str, drop: list[str], label: Callable[[pd.DataFrame], np.ndarray]) -> tuple:
        table = pd.read_csv(DATA / path)
        features, mask = encoded(table.drop(columns=drop))
        codes = label(table)
        return features, mask, codes, int(codes.max()) + 1

    census = "census_income_kdd/census_income_kdd.csv.gz"
    weeks = "weeks_worked_in_year"

    def smooth(classes: int) -> tuple:
        features, codes = made_up(120_000, 20, classes)
        return features.astype(float), np.zeros(20, bool), codes, classes

    return {
        "census": lambda: read(census, ["income"], lambda table: table.income.to_numpy()),
        "census, weeks": lambda: read(census, [weeks], lambda t: 1 * (t[weeks] > 0).to_numpy() + (t[weeks] > 51)),
        "hillstrom": lambda: read(
            "hillstrom/hillstrom.csv.gz", ["visit", "conversion", "spend"], lambda table: table.visit.to_numpy()
        ),
        "synthetic": lambda: smooth(2),
        "synthetic, three classes": lambda: smooth(3),
    }


def scores(name: str, epsilon: float, noise: int, rules: bool) -> list[float]:
    """Accuracy, AUC or NaN, log loss and seconds on a held-out fifth, with or without the rules for many records."""
    from sklearn.metrics import roc_auc_score

    from labeldp.learners import default_classifiers, fit_multistage

    features, mask, codes, classes = tables()[name]()
    test = np.random.default_rng(0).random(len(codes)) < 0.2
    holder = ldp.Curator(np.asarray(codes)[~test], domain=ldp.Classes(classes), budget=ldp.Budget(epsilon))
    start = time.process_time()
    with ExitStack() as stack:
        for module in () if rules else ("training", "heads"):
            stack.enter_context(patch(f"labeldp.learners.{module}.MANY_RECORDS", 10**9))
        candidates = default_classifiers(features[~test], mask)
        rng = np.random.default_rng([noise, 11])
        model = fit_multistage(features[~test], holder, classifier=candidates, epsilon=epsilon, stages=1, rng=rng).value
    seconds = time.process_time() - start
    found, truth = model.predict_proba(features[test]), np.asarray(codes)[test]
    own = np.maximum(found[np.arange(len(truth)), truth], 1e-3)
    auc = 100 * roc_auc_score(truth, found[:, 1]) if classes == 2 else np.nan
    return [100 * float(np.mean(found.argmax(axis=1) == truth)), auc, -float(np.log(own).mean()), seconds]


def of_rules(epsilons: list[float], noises: int, only: str, kept: Path) -> str:
    """The rules for many records beside a fit without them, on the same released labels."""
    kept.mkdir(parents=True, exist_ok=True)
    lines = [
        "| table | ε | fit | accuracy | AUC | log loss | s | runs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in tables():
        if only and name not in only.split("+"):
            continue
        for epsilon in epsilons:
            for rules in (False, True):
                found = []
                for noise in range(noises):
                    path = kept / f"{name}-{epsilon:g}-{noise}-{'rules' if rules else 'folds'}.json"
                    if not path.exists():
                        path.write_text(json.dumps(scores(name, epsilon, noise, rules)))
                        print(path.stem, path.read_text(), file=sys.stderr, flush=True)
                    found.append(json.loads(path.read_text()))
                each = np.array(found)
                spread = each.std(axis=0, ddof=1) if noises > 1 else np.full(4, np.nan)
                cells = [
                    f"{each[:, j].mean():.{digits}f} ± {spread[j]:.{digits}f}" for j, digits in ((0, 2), (1, 2), (2, 4))
                ]
                cells[1] = "" if np.isnan(each[0, 1]) else cells[1]
                title = "rules" if rules else "five folds, copies"
                lines.append(
                    f"| {name} | {epsilon:g} | {title} | {' | '.join(cells)} | {each[:, 3].mean():.0f} | {noises} |"
                )
    return "\n".join(lines)


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="trees,auto,diagnostics,linear,cells,rules")
    parser.add_argument("--sizes", default="1e5,1e6", help="of boosting")
    parser.add_argument("--linear", default="1e4,1e5,1e6", help="sizes of fit_linear")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--noises", type=int, default=2)
    parser.add_argument("--only", default="", help="tables of the rules, by +")
    parser.add_argument("--kept", type=Path, default=HERE.parents[1] / ".cache" / "fitting")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--worker", choices=[*WORK, "diagnostics"], help=argparse.SUPPRESS)
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker == "diagnostics":
        diagnostics([int(size) for size in given.shape.split(",")])
        return
    if given.worker:
        worker(given.worker, [int(each) for each in given.shape.split(",")])
        return
    sizes, many = ([int(float(each)) for each in text.split(",")] for text in (given.sizes, given.linear))
    epsilons = [float(each) for each in given.epsilons.split(",")]
    parts: dict[str, tuple[str, Callable[[], str]]] = {
        "trees": ("Boosted trees beside the same trees once, on the same released labels", lambda: of_trees(sizes)),
        "auto": ("The default beside scikit-learn's boosted trees on true labels", of_auto),
        "diagnostics": ("Diagnostics beside the fit that they are of", of_diagnostics),
        "linear": ("`fit_linear`, 20 columns", lambda: of_linear(many)),
        "cells": ("Cells", of_cells),
        "rules": (
            "What the rules for many records cost",
            lambda: of_rules(epsilons, given.noises, given.only, given.kept),
        ),
    }
    text = f"# Fitting at size\n\n`python benchmarks/fitting.py {' '.join(sys.argv[1:])}`\n"
    print(text)
    for name in given.parts.split(","):
        title, make = parts[name]
        part = f"\n## {title}\n\n{make()}\n"
        print(part, flush=True)
        text += part
    if given.write:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
