"""One cell of a table: release labels in bags, learn a model from the release, and measure it on test records."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from labeldp.bags import BagSum, NoisyWeightedLLP, WeightedLBA, bag_rows, fit_bags, random_bags
from labeldp.curator import Curator
from labeldp.learners import imported
from labeldp.mechanisms import Interval, Mechanism
from labeldp.privacy import Budget, Floats, Public, Release
from papers.aggregation.data import SPLIT, Problem

GRID_POINTS = 4097
"""Of the declared labels."""

STDDEV = 1.0
"""Of the noise on one label of NOISY-WTD-LLP, on the natural scale of the labels, as in Appendix K."""

SMALLEST_STDDEV = 1e-3
"""The same where the paper adds none."""

BAG_NOISE = 1 / 700
"""Of each sum of WTD-LBA, as a share of the range and for the root of its records: the paper adds none, and then no
grid of the sums keeps a promise."""

EPOCHS, BATCH, LEARNING_RATE, PATIENCE, HELD_OUT = 200, 1024, 1e-3, 3, 0.1
"""Of Appendix K: epochs, records in a step, first learning rate, epochs without progress on the released bags that are
held out, and their share."""

CENSUS_BATCH = 8192
"""Records in a step on the paper's census."""

MAX_INSTANCES = 50_000
"""Records that a network without bags learns from, at most."""

LARGEST_EPSILON = 1000.0
"""Epsilon of labels that are as good as bare: noise of 0.14 % of their range."""

UNPROTECTED = "none: the model is learned from the labels themselves"


def constants() -> dict[str, Any]:
    """Return what this file fixes for every cell, by the names that results store."""
    return {
        "GRID": GRID_POINTS,
        "STDDEV": STDDEV,
        "NEARLY_NONE": SMALLEST_STDDEV,
        "BAG_NOISE": BAG_NOISE,
        "LARGEST": LARGEST_EPSILON,
        "INSTANCES": MAX_INSTANCES,
        "EPOCHS": EPOCHS,
        "BATCH": BATCH,
        "CENSUS_BATCH": CENSUS_BATCH,
        "PEAK": LEARNING_RATE,
        "PATIENCE": PATIENCE,
        "HELD_OUT": HELD_OUT,
    }


def learned(table: str) -> dict[str, Any]:
    """Return which models a table has: results with others are of an earlier version."""
    if table == "adam":
        return {"WAYS": {name: asdict(way) for name, way in ADAM_WAYS.items()}}
    return {"LEARNERS": ["exact", "Adam", "natural"]} if table == "lba" else {}


@dataclass(frozen=True)
class Cell:
    """What a cell found.

    Args:
        errors: test errors by the name of the learner.
        delta: at epsilon = 1; None where nothing is promised.
        share: of the labels that have noise, as it was drawn.
        certificate: the guarantee as a sentence; that there is none, where there is none.
        records: trained on.
        curves: test errors by epoch, by the name of the training; empty but in the table of Adam.
    """

    errors: dict[str, float]
    delta: float | None
    share: float | None
    certificate: str
    records: int
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """One public split of a problem.

    Args:
        features: of training, with a constant first, shape (n, d + 1).
        labels: of training, shape (n,): the private part.
        test: features of test records, shape (t, d + 1).
        truth: their labels, shape (t,).
    """

    features: Floats
    labels: Floats
    test: Floats
    truth: Floats

    @classmethod
    def of(cls, problem: Problem, most: int, seed: int) -> "Split":
        """Draw at most so many training records, and test records, by a public seed."""
        order = np.random.default_rng([seed, 1]).permutation(len(problem.labels))
        cut = training_records(problem)
        chosen, rest = order[: min(most, cut)], order[cut : cut + MAX_INSTANCES]
        rows = [np.column_stack([np.ones(len(part)), problem.features[part]]) for part in (chosen, rest)]
        return cls(rows[0], problem.labels[chosen], rows[1], problem.labels[rest])

    def error(self, predictions: Floats) -> float:
        """Return the mean squared error on the test records."""
        return float(np.mean((predictions - self.truth) ** 2))


def training_records(problem: Problem) -> int:
    """Return how many records are trained on."""
    return int(SPLIT * len(problem.labels))


def noisy_labels(share: float, size: int) -> int:
    """Return the noisy labels of a bag on average: a whole number, at least one."""
    return max(1, round(share * size))


def whole_sample(problem: Problem, table: str, seed: int) -> Cell:
    """Learn from the labels themselves: by least squares, or by the network on bags of one record."""
    if table == "lba":
        split = Split.of(problem, training_records(problem), seed)
        solution = np.linalg.lstsq(split.features, split.labels, rcond=None)[0]
        return Cell({"exact": split.error(split.test @ solution)}, None, None, UNPROTECTED, len(split.labels))
    split = Split.of(problem, MAX_INSTANCES, seed)
    count = len(split.labels)
    alone = Public(np.arange(count), why="every record is alone")
    mechanism = BagSum(1, domain=_domain(problem), bags=alone, epsilon=LARGEST_EPSILON)
    release = _released(problem, split, mechanism, np.random.default_rng([seed, 2]))
    return Cell({"network": _network(problem, split, release, seed)}, None, None, UNPROTECTED, count)


def lba(problem: Problem, size: int, bags: int, rng: np.random.Generator, seed: int) -> Cell:
    """Return a cell of Table 1: secret weights, a linear model by Adam as in Appendix K, and by least squares.

    Adam learns twice: from numbers of mean 0 and deviation 1, and from unscaled numbers.

    Source: Brahmbhatt, Fig. 1, Table 1 and Appendix K.
    """
    split = Split.of(problem, size * bags, seed)
    mechanism, release = _weighted(problem, split, size, bags, rng, seed)
    exact = fit_bags(split.features, release).value.predict(split.test)
    rows, sums = _rows(problem, split, release)
    errors = {"exact": split.error(exact)}
    for name, turn in (("Adam", np.eye(rows.shape[1])), ("natural", _natural(problem))):
        coefficients = fit_adam(rows @ turn, sums, max(1, _batch(problem) // size), seed)
        errors[name] = split.error(split.test @ turn @ coefficients)
    return Cell(errors, mechanism.privacy_loss().delta(1.0), None, release.certificate.at(0.5), size * bags)


def adam(problem: Problem, size: int, bags: int, rng: np.random.Generator, seed: int) -> Cell:
    """Return the same cell of Table 1 as `lba`, learned by Adam in several ways, with their learning curves.

    Source: Brahmbhatt, Table 1 and Appendix K.
    """
    split = Split.of(problem, size * bags, seed)
    mechanism, release = _weighted(problem, split, size, bags, rng, seed)
    rows, sums = _rows(problem, split, release)
    errors = {"least squares": split.error(fit_bags(split.features, release).value.predict(split.test))}
    curves: dict[str, list[tuple[int, float]]] = {}
    for name, way in ADAM_WAYS.items():
        batch = 1 if way.alone else max(1, _batch(problem) // size)
        errors[name], curves[name] = _adam_in_a_way(problem, split, rows, sums, way, batch, seed)
    delta = mechanism.privacy_loss().delta(1.0)
    return Cell(errors, delta, None, release.certificate.at(0.5), size * bags, curves)


def _adam_in_a_way(
    problem: Problem, split: Split, rows: Floats, sums: Floats, way: "AdamWay", batch: int, seed: int
) -> tuple[float, list[tuple[int, float]]]:
    """Return the test error of what Adam keeps, and those along its way, by epoch."""
    turn = _natural(problem) if way.natural else np.eye(rows.shape[1])
    epochs, test = EPOCHS * way.longer, split.test @ turn
    start = np.zeros(rows.shape[1])
    start[0] = rows[:, 0] @ sums / (rows[:, 0] @ rows[:, 0]) if way.from_mean else 0.0
    curve = [(0, split.error(test @ start))]

    def watch(epoch: int, coefficients: Floats) -> None:
        if epoch & (epoch - 1) == 0 or epoch % CURVE_STEP == 0:
            curve.append((epoch, split.error(test @ coefficients)))

    schedule = Schedule(epochs, LEARNING_RATE * way.faster, epochs if way.patient else PATIENCE)
    found = fit_adam(rows @ turn, sums, batch, seed, schedule=schedule, start=start, watch=watch)
    return split.error(test @ found), curve


def _natural(problem: Problem) -> Floats:
    """Return the matrix that turns a constant and scaled features into a constant and features as they were."""
    mean, deviation = problem.scales
    return np.block([[np.ones((1, 1)), mean[None, :]], [np.zeros((len(mean), 1)), np.diag(deviation)]])


def _weighted(
    problem: Problem, split: Split, size: int, bags: int, rng: np.random.Generator, seed: int
) -> tuple[WeightedLBA, Release[Any]]:
    """Release sums over bags with secret weights."""
    noise = BAG_NOISE * math.sqrt(size) * (problem.high - problem.low)
    features = Public(split.features, why="features are public")
    drawn = random_bags(size * bags, size, seed=seed)
    mechanism = WeightedLBA(size, domain=_domain(problem), bags=drawn, features=features, bag_noise=noise)
    return mechanism, _released(problem, split, mechanism, rng)


def _rows(problem: Problem, split: Split, release: Release[Any]) -> tuple[Floats, Floats]:
    """Return released sums of features, shape (m, d + 1), and of labels, shape (m,)."""
    rows = bag_rows(split.features, release)
    middle = (problem.low + problem.high) / 2
    return rows.features, rows.sums + middle * rows.features[:, 0]


def llp(problem: Problem, size: int, bags: int, share: float, rng: np.random.Generator, seed: int) -> Cell:
    """Return a cell of Tables 2 to 6: published weights, noise on a share of the labels, the network of Appendix K.

    Source: Brahmbhatt, Fig. 2, Tables 2 to 6 and Appendix K.
    """
    split = Split.of(problem, size * bags, seed)
    noisy = noisy_labels(share, size)
    stddev, drawn = STDDEV if share else SMALLEST_STDDEV, random_bags(size * bags, size, seed=seed)
    mechanism = NoisyWeightedLLP(size, noisy, stddev, domain=_domain(problem), bags=drawn, paper_faithful=True)
    release = _released(problem, split, mechanism, rng)
    errors = {"network": _network(problem, split, release, seed)}
    if not share:
        return Cell(errors, None, 0.0, "none: noise of a thousandth stands for no noise at all", size * bags)
    delta = mechanism.privacy_loss().delta(1.0)
    return Cell(errors, delta, noisy / size, release.certificate.at(0.5), size * bags)


def _domain(problem: Problem) -> Interval:
    return Interval(problem.low, problem.high, grid=GRID_POINTS)


def _batch(problem: Problem) -> int:
    return CENSUS_BATCH if problem.name == "census" else BATCH


def _released(problem: Problem, split: Split, mechanism: Mechanism, rng: np.random.Generator) -> Release[Any]:
    """Simulate a release, under a budget that admits nearly everything."""
    budget = Budget(epsilon=LARGEST_EPSILON, delta=1 - 1e-12)
    return Curator(split.labels, domain=_domain(problem), budget=budget).release(mechanism, rng=rng)


@dataclass(frozen=True)
class Schedule:
    """How long Adam runs.

    Args:
        epochs: at most.
        rate: the first learning rate; it falls as a cosine, to a thousandth.
        patience: epochs without progress on the held-out bags.
    """

    epochs: int
    rate: float
    patience: int


@dataclass(frozen=True)
class AdamWay:
    """A change of the paper's training.

    Args:
        natural: numbers are not scaled.
        from_mean: the constant starts where it fits the released sums best by itself.
        alone: one bag in a step.
        patient: no early end.
        faster: factor on the learning rate.
        longer: factor on the epochs.
    """

    natural: bool = False
    from_mean: bool = False
    alone: bool = False
    patient: bool = False
    faster: int = 1
    longer: int = 1


ADAM_WAYS = {
    "Appendix K, numbers scaled": AdamWay(),
    "no early end": AdamWay(patient=True),
    "unscaled numbers": AdamWay(natural=True),
    "one bag in a step": AdamWay(alone=True),
    "constant from the mean": AdamWay(from_mean=True),
    "rate × 10": AdamWay(faster=10),
    "rate × 100": AdamWay(faster=100),
    "epochs × 10": AdamWay(longer=10),
    "unscaled numbers, rate × 10": AdamWay(natural=True, faster=10),
}
"""What is changed in the table of Adam, one thing at a time."""

CURVE_STEP = 20
"""Epochs between points of a learning curve, after the first ones."""


def fit_adam(
    rows: Floats,
    sums: Floats,
    batch: int,
    seed: int,
    *,
    schedule: Schedule | None = None,
    start: Floats | None = None,
    watch: Callable[[int, Floats], None] = lambda epoch, coefficients: None,
) -> Floats:
    """Fit a linear model to released sums by Adam with a cosine schedule, until held-out bags get no better.

    Args:
        rows: weighted sums of features, shape (m, d).
        sums: of labels, shape (m,).
        batch: bags in a step.
        seed: of order and of the bags that are held out.
        schedule: by default that of Appendix K.
        start: first coefficients, shape (d,); by default 0.
        watch: called after each epoch with its number and the coefficients.

    Returns:
        Coefficients, shape (d,).

    Source: Brahmbhatt, Appendix K.
    """
    plan = schedule or Schedule(EPOCHS, LEARNING_RATE, PATIENCE)
    order = np.random.default_rng(seed)
    mixed = order.permutation(len(sums))
    cut = max(1, int(HELD_OUT * len(sums)))
    held, learned = mixed[:cut], mixed[cut:]
    state = np.zeros((3, rows.shape[1]))
    state[0] = 0.0 if start is None else start
    best, kept, waited, step = math.inf, state[0], 0, 0
    for epoch in range(plan.epochs):
        rate = plan.rate * (0.001 + 0.999 * (1 + math.cos(math.pi * epoch / plan.epochs)) / 2)
        mixed = order.permutation(learned)
        for first in range(0, len(mixed), batch):
            step += 1
            chosen = mixed[first : first + batch]
            missed = rows[chosen] @ state[0] - sums[chosen]
            state = _adam(state, 2 / len(chosen) * (missed @ rows[chosen]), rate, step)
        error = float(np.mean((rows[held] @ state[0] - sums[held]) ** 2))
        waited = 0 if error < best else waited + 1
        best, kept = (error, state[0]) if error < best else (best, kept)
        watch(epoch + 1, state[0])
        if waited >= plan.patience:
            break
    return kept


def _adam(state: Floats, gradient: Floats, rate: float, step: int) -> Floats:
    """Return coefficients, mean and mean square of gradients after one more step, shape (3, d)."""
    mean, square = 0.9 * state[1] + 0.1 * gradient, 0.999 * state[2] + 0.001 * gradient**2
    moved = rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return np.stack([state[0] - moved, mean, square])


def _network(problem: Problem, split: Split, release: Release[Any], seed: int) -> float:
    """Return the test error of the paper's network, trained as the paper says."""
    torch, networks = imported("torch"), imported("labeldp.networks")
    rows, test = (torch.as_tensor(part[:, 1:], dtype=torch.float32) for part in (split.features, split.test))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = networks.appendix_network(rows.shape[1])
    training = {"epochs": EPOCHS, "batch": _batch(problem), "peak": LEARNING_RATE, "held_out": HELD_OUT}
    for _ in networks.train_bags(module, rows, release, seed=seed, patience=PATIENCE, **training):
        pass
    module.eval()
    with torch.no_grad():
        predictions = torch.cat([module(part).reshape(-1) for part in test.split(1 << 16)]).double().numpy()
    return split.error(predictions)
