"""How often the intervals that models and reports print hold what they speak of.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/coverage.py [--fits 1000] [--write] [--kept FILE]

Each fit draws its own records and its own noise. What an interval speaks of is computed from the law of the records: on
20,000 of them with their exact class probabilities, or on 100,000 with numbers. --only NAME takes some of the settings;
--kept keeps those that are finished, and an interrupted run resumes. --write stores the rows of these settings in place
of their old ones, and fills the pages.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pages
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import labeldp as ldp
from labeldp.fit.simulate import importances
from labeldp.fit.summarize import binned, constant_accuracy, constant_classes
from labeldp.inference import Estimate, area_terms, clopper_pearson, log_losses
from labeldp.learners import NoisyNumberRegressor, fit_numbers, learner_of

FEATURES = 3
TESTED = 200
Found = Iterator[tuple[str, Any, Any]]
"""What is estimated, the estimate, and what it should hold: numbers or arrays of one shape."""


class Classes:
    """Records of K classes, of which one is rare, by a softmax of three features."""

    def __init__(self, classes: int) -> None:
        rng = np.random.default_rng(classes)
        self.domain = ldp.Classes(classes)
        self.weights = rng.normal(size=(FEATURES, classes)) * 1.5
        self.offset = np.linspace(0, -1.5, classes)
        self.pool = rng.normal(size=(20_000, FEATURES))
        self.chances = self.law(self.pool)

    def law(self, x: np.ndarray) -> np.ndarray:
        """P(y | x), shape (n, K)."""
        scores = np.exp(x @ self.weights + self.offset)
        return scores / scores.sum(axis=1, keepdims=True)

    def drawn(self, records: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Features and codes."""
        x = rng.normal(size=(records, FEATURES))
        return x, (rng.random((records, 1)) > np.cumsum(self.law(x), axis=1)[:, :-1]).sum(axis=1)

    def confusion(self, predicted: np.ndarray) -> np.ndarray:
        """Shares by true and predicted class, where the pool is predicted like this."""
        return np.stack(
            [self.chances[predicted == code].sum(axis=0) for code in range(self.domain.size)], axis=1
        ) / len(self.pool)


class Numbers:
    """Numbers from 0 to 100, clipped and rounded to fives, by a bent surface of three features."""

    def __init__(self) -> None:
        self.domain = ldp.Interval(0, 100, grid=21)
        self.pool, self.labels = self.drawn(100_000, np.random.default_rng(0))

    def drawn(self, records: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Features and numbers."""
        x = rng.normal(size=(records, FEATURES))
        surface = 40 + 15 * x[:, 0] + 8 * np.sin(2 * x[:, 1]) + 5 * x[:, 2] ** 2
        return x, 5 * np.rint(np.clip(surface + 6 * rng.standard_t(5, records), 0, 100) / 5)


def shares(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Recall, precision and F1 of each class, by a confusion matrix of shares."""
    right, rows, columns = matrix.diagonal(), matrix.sum(axis=1), matrix.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return right / rows, right / columns, 2 * right / (rows + columns)


def area_of(second: np.ndarray, scores: np.ndarray) -> float:
    """The area under the ROC curve by the chances of the second class."""
    ordered, pairs = area_terms(second, scores).statistics
    return float(ordered / pairs)


def interval(name: str, value: Any, low: Any, high: Any) -> Estimate:
    """An estimate of its three numbers, or of three arrays."""
    axes = (("entry", tuple(map(str, range(np.size(value))))),) if np.ndim(value) else ()
    return Estimate(quantity=name, value=value, low=low, high=high, axes=axes)


def of_predictions(evaluation: Any, matrix: np.ndarray, world: Classes) -> Found:
    """Everything that follows from predicted classes."""
    yield "accuracy", evaluation.accuracy(), matrix.trace()
    constant = constant_classes(evaluation.release)
    frequent = world.chances.mean(axis=0)
    yield "accuracy of a constant", constant_accuracy(evaluation.release, constant), frequent[constant].mean()
    gain = evaluation.compare(constant)
    yield "difference to the constant", gain, matrix.trace() - frequent[constant].mean()
    recall, precision, f1 = shares(matrix)
    yield "recall", evaluation.recall(), recall
    yield "precision", evaluation.precision(), precision
    yield "F1", evaluation.f1(), f1
    yield "confusion", evaluation.confusion(), matrix


def of_model(model: Any, world: Classes, x: np.ndarray, rng: np.random.Generator) -> Found:
    """Everything that is said of a model that was measured on records that it did not learn from."""
    evaluation, probabilities = model.evaluation, model.predict_proba(world.pool)
    predicted = probabilities.argmax(axis=1)
    matrix = world.confusion(predicted)
    yield from of_predictions(evaluation, matrix, world)
    yield "log loss", evaluation.log_loss(), (world.chances * log_losses(probabilities)).sum(axis=1).mean()
    if world.domain.size == 2:
        yield "area under the ROC curve", evaluation.auc(), area_of(world.chances[:, 1], probabilities[:, 1])
    sure = probabilities.max(axis=1).mean()
    yield "calibration gap", evaluation.overconfidence(), sure - matrix.trace()
    public, answers = world.drawn(TESTED, rng)
    right = np.sum(model.predict_proba(public).argmax(axis=1) == answers)
    low, high = clopper_pearson(right, TESTED, 0.95)
    yield "accuracy on a test file", interval("accuracy", right / TESTED, low, high), matrix.trace()
    learner = learner_of("boosting")
    names = tuple(map(str, range(FEATURES)))
    for place, item in enumerate(importances(learner, model, x, names)):
        shuffled = world.pool.copy()
        shuffled[:, place] = rng.permutation(shuffled[:, place])
        drop = matrix.trace() - world.confusion(model.predict_proba(shuffled).argmax(axis=1)).trace()
        yield "importance of a feature", interval("drop", item.drop, item.low, item.high), drop
    if world.domain.size == 2:
        unbiased = ldp.debias(evaluation.release.mechanism, evaluation.release.value).values[:, 1]
        rows = x[evaluation.rows]
        along, truth = rows[:, 0], world.law(rows)[:, 1]
        yield "means in bins", *in_bins(along, unbiased, truth)


def in_bins(along: np.ndarray, values: np.ndarray, truth: np.ndarray) -> tuple[Estimate, np.ndarray]:
    """Bins of a picture as one estimate, and the true mean of each."""
    bins, same = binned(along, values), binned(along, truth)
    ends = np.array([(each.value, each.low, each.high) for each in bins]).T
    return interval("mean", *ends), np.array([each.value for each in same])


KEPT: list[Any] = []


class Remembered(LogisticRegression):
    """A classifier whose fitted models are kept, with how many records each saw."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Remembered":
        """Fit as usual."""
        KEPT.append(self)
        self.records_ = len(X)
        return super().fit(X, y, sample_weight)


def curator(labels: Any, domain: Any) -> ldp.Curator:
    """A curator who may spend anything."""
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=100, delta=0.1))


def crossed(classes: int, epsilon: float, records: int) -> Callable[[np.random.Generator], Found]:
    """Randomized labels, learned from at once: what is measured are the models of cross-validation."""
    world = Classes(classes)

    def run(rng: np.random.Generator) -> Found:
        x, y = world.drawn(records, rng)
        KEPT.clear()
        model = ldp.fit_multistage(
            x, curator(y, world.domain), classifier=Remembered(), training="plain", epsilon=epsilon, rng=rng,
            response="randomized-response",
        ).value  # fmt: skip
        folds = KEPT[-6:-1]  # the last is the model
        assert [each.records_ for each in folds] == [records * 4 // 5] * 5 and KEPT[-1].records_ == records
        coded = (each.classes_[each.predict_proba(world.pool).argmax(axis=1)] for each in folds)
        yield from of_predictions(model.evaluation, np.mean([world.confusion(each) for each in coded], axis=0), world)

    return run


def chosen(classes: int, epsilon: float, records: int) -> Callable[[np.random.Generator], Found]:
    """The same with two classifiers, pooled by the labels that they are measured on: what holds for these records."""
    world = Classes(classes)

    def run(rng: np.random.Generator) -> Found:
        x, y = world.drawn(records, rng)
        candidates = [LogisticRegression(), DecisionTreeClassifier(max_depth=4, random_state=0)]
        evaluation = ldp.fit_multistage(
            x, curator(y, world.domain), classifier=candidates, epsilon=epsilon, rng=rng
        ).value.evaluation
        chances = world.law(x)
        yield "accuracy", evaluation.accuracy(), chances[np.arange(records), evaluation.predictions].mean()
        truth = (chances * log_losses(evaluation.probabilities)).sum(axis=1).mean()
        yield "log loss", evaluation.log_loss(), truth
        if classes == 2:
            scores = evaluation.probabilities[:, 1]
            yield "area under the ROC curve", evaluation.auc(), area_of(chances[:, 1], scores)

    return run


def measured(classes: int, epsilon: float, records: int, share: float) -> Callable[[np.random.Generator], Found]:
    """Randomized labels with an evaluation part: what is measured is the model itself."""
    world = Classes(classes)

    def run(rng: np.random.Generator) -> Found:
        x, y = world.drawn(records, rng)
        model = ldp.fit_multistage(
            x, curator(y, world.domain), classifier=LogisticRegression(), epsilon=epsilon, evaluation=share, rng=rng,
            partition_seed=int(rng.integers(1 << 30)),
        ).value  # fmt: skip
        yield from of_model(model, world, x, rng)

    return run


def summed(classes: int, epsilon: float, records: int, share: float) -> Callable[[np.random.Generator], Found]:
    """A trusted curator's sums with an evaluation part of randomized labels."""
    world = Classes(classes)

    def run(rng: np.random.Generator) -> Found:
        x, y = world.drawn(records, rng)
        model = ldp.fit_linear(
            x, curator(y, world.domain), epsilon=epsilon, delta=1e-6, evaluation=share, rng=rng,
            partition_seed=int(rng.integers(1 << 30)), representation=StandardScaler(),
        ).value  # fmt: skip
        yield from of_model(model, world, x, rng)

    return run


def of_numbers(model: Any, world: Numbers, x: np.ndarray, y: np.ndarray) -> Found:
    """Everything that is said of a model of numbers."""
    evaluation, labels = model.evaluation, world.labels
    square = np.mean((labels - model.predict(world.pool)) ** 2)
    one_by_one = hasattr(evaluation, "release")
    constants = np.unique(evaluation.constant()) if one_by_one else [evaluation.constant]
    constant = np.mean([np.mean((labels - each) ** 2) for each in constants])
    yield "error", evaluation.error(), np.sqrt(square)
    yield "error of a constant", evaluation.constant_error(), np.sqrt(constant)
    yield "difference of squared errors", evaluation.gain(), constant - square
    yield "R²", evaluation.explained(), 1 - square / constant
    if one_by_one:
        residuals = y[evaluation.rows] - evaluation.predictions
        yield "means in bins", *in_bins(evaluation.predictions, evaluation.residuals(), residuals)


def local_numbers(epsilon: float, records: int, share: float) -> Callable[[np.random.Generator], Found]:
    """Randomized numbers with an evaluation part."""
    world = Numbers()

    def run(rng: np.random.Generator) -> Found:
        x, y = world.drawn(records, rng)
        model = fit_numbers(
            x, curator(y, world.domain), epsilon=epsilon, rng=rng, evaluation=share,
            regressors=[NoisyNumberRegressor(Ridge())], partition_seed=int(rng.integers(1 << 30)),
        ).value  # fmt: skip
        yield from of_numbers(model, world, x, y)

    return run


def summed_numbers(epsilon: float, records: int, share: float) -> Callable[[np.random.Generator], Found]:
    """A trusted curator's sums, and sums of squared errors."""
    world = Numbers()

    def run(rng: np.random.Generator) -> Found:
        x, y = world.drawn(records, rng)
        model = ldp.fit_linear(
            x, curator(y, world.domain), epsilon=epsilon, delta=1e-6, evaluation=share, rng=rng,
            partition_seed=int(rng.integers(1 << 30)), representation=StandardScaler(),
        ).value  # fmt: skip
        yield from of_numbers(model, world, x, y)

    return run


SETTINGS: dict[str, tuple[str, Callable[[np.random.Generator], Found]]] = {
    "two classes, cross-validated": ("1,000 records, ε = 1, local", crossed(2, 1.0, 1000)),
    "four classes, cross-validated": ("1,000 records, ε = 2, local", crossed(4, 2.0, 1000)),
    "two classifiers, cross-validated": ("600 records, ε = 1, local", chosen(2, 1.0, 600)),
    "two classes, evaluation part": ("800 records, a quarter measured, ε = 1, local", measured(2, 1.0, 800, 0.25)),
    "four classes, evaluation part": (
        "1,000 records, three tenths measured, ε = 2, local",
        measured(4, 2.0, 1000, 0.3),
    ),
    "two classes, central": ("800 records, a quarter measured, ε = 1, δ = 10⁻⁶", summed(2, 1.0, 800, 0.25)),
    "four classes, central": ("1,000 records, three tenths measured, ε = 2, δ = 10⁻⁶", summed(4, 2.0, 1000, 0.3)),
    "numbers, local": ("1,500 records, a fifth measured, ε = 4", local_numbers(4.0, 1500, 0.2)),
    "numbers, local, small ε": ("1,500 records, a fifth measured, ε = 1", local_numbers(1.0, 1500, 0.2)),
    "numbers, central": ("1,000 records, a fifth measured, ε = 2, δ = 10⁻⁶", summed_numbers(2.0, 1000, 0.2)),
    "numbers, central, small ε": ("1,000 records, a fifth measured, ε = 0.3, δ = 10⁻⁶", summed_numbers(0.3, 1000, 0.2)),
}


Coverage = tuple[float, float, float | None]
"""How often an estimate holds what it speaks of, how often it lies below, and how often its worst entry holds it."""


def coverage(run: Callable[[np.random.Generator], Found], fits: int) -> dict[str, Coverage]:
    """The coverage of each estimate."""
    seen: dict[str, list[np.ndarray]] = defaultdict(list)
    for seed in range(fits):
        together: dict[str, list[np.ndarray]] = defaultdict(list)
        for name, found, truth in run(np.random.default_rng(seed)):
            ends = (np.ravel(found.low), np.ravel(found.high), np.ravel(truth))
            together[name].append(np.stack(np.broadcast_arrays(*ends)).astype(float))
        for name, each in together.items():
            low, high, target = np.concatenate(each, axis=1)
            known = np.isfinite(target)  # such as the precision of a class that is never predicted
            held, below = (
                np.where(known, (low <= target) & (target <= high), np.nan),
                np.where(known, high < target, np.nan),
            )
            seen[name].append(np.stack([held, below]))
    found = {}
    for name, each in seen.items():
        held, below = np.nanmean(np.concatenate(each, axis=1), axis=1)
        alike = each[0].shape[1] > 1 and len({one.shape for one in each}) == 1
        worst = float(np.nanmin(np.nanmean(np.stack(each), axis=0)[0])) if alike else None
        found[name] = (float(held), float(below), worst)
    return found


def publish(results: dict[str, dict[str, Coverage]]) -> None:
    """Store the rows of these settings in place of their old ones, and fill the pages."""
    head, rows = pages.read("intervals")
    names = {name: f"{name[0].upper()}{name[1:]}, {SETTINGS[name][0]}" for name in SETTINGS}
    merged: list[list[str]] = []
    for name, title in names.items():
        if name not in results:
            merged += [row for row in rows if row[0] == title]
            continue
        for estimate, (held, low, worst) in results[name].items():
            last = "" if worst is None else f"{100 * worst:.1f} %"
            merged.append([title, estimate, f"{100 * held:.1f} %", f"{100 * low:.1f} %", last])
    pages.write("intervals", head, merged)
    pages.fill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results = json.loads(options.kept.read_text()) if options.kept and options.kept.exists() else {}
    for name in options.only or SETTINGS:
        if name in results:
            continue
        results[name] = coverage(SETTINGS[name][1], options.fits)
        if options.kept:
            options.kept.write_text(json.dumps(results))
        for estimate, (held, low, worst) in results[name].items():
            print(f"{name:34} {estimate:30} {held:7.4f}  too low {low:7.4f}  worst {worst}", flush=True)
    if options.write:
        publish(results)


if __name__ == "__main__":
    main()
