"""Learners on cells that are given by their counts: what they answer, and its exact excess risk.

Millions of records are drawn at once, cell by cell: only counts decide what a cell answers.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, expm1
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import CubeGrid
from labeldp.mechanisms import (
    Classes,
    DiscreteLaplace,
    Interval,
    LaplaceSum,
    PermuteAndFlip,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    UnaryEncoding,
    debias,
)
from labeldp.privacy import WORD, Floats, Public
from papers.rates.instances import HardClasses, HardValues
from papers.rates.whole_records import FullMeans, FullSelection, Located

Counts = NDArray[np.int64]
Rng = np.random.Generator
Select = Callable[[Counts, Rng], NDArray[Any]]
"""The class of each cell from the class counts, shape (cells, K)."""

Estimate = Callable[[Counts, Floats, Rng], Floats]
"""The number of each cell from counts, shape (cells, 3), of three labels, shape (3,)."""

HALVES = 8
"""Steps of the label grid from 0 to 1, for bounded labels."""


def cells_of_classes(instance: HardClasses, grid: CubeGrid, records: int, select: Select, *, rng: Rng) -> float:
    """Return the excess risk of one class for each cube of a grid: two classes, records drawn afresh.

    Source: Zhao, eq. (8), (12) and (17).
    """
    overlaps = _overlaps(grid, instance.cubes.per_axis)
    signs = np.where(instance.winners < 0, 0.0, 2.0 * instance.winners - 1)
    mass, lead = (_summed(overlaps, each, instance.height) for each in (None, signs))
    counts = _drawn(mass, 0.5 * np.stack([mass - lead, mass + lead], axis=1), records, rng)
    answers = 2.0 * select(counts, rng) - 1
    return float(0.5 * np.sum(_summed(overlaps, np.abs(signs), instance.height) - answers * lead))


def cells_of_values(instance: HardValues, grid: CubeGrid, records: int, estimate: Estimate, *, rng: Rng) -> float:
    """Return the excess risk of one number for each cube of a grid, records drawn afresh.

    Source: Zhao, eq. (9), (23), (28) and (33).
    """
    overlaps = _overlaps(grid, instance.cubes.per_axis)
    mass, lead = (_summed(overlaps, each, instance.height) for each in (None, instance.signs))
    counts = _drawn(mass, _three(mass, lead, instance), records, rng)
    answers = estimate(counts, instance.reach * np.array([-1.0, 0.0, 1.0]), rng)
    return float(instance.height**2 - 2 * answers @ lead + answers**2 @ mass)


def neighbors_of_values(
    instance: HardValues, neighbors: int, mechanism: DiscreteLaplace, records: int, *, points: int, rng: Rng
) -> float:
    """Return the excess risk of the mean of the nearest unbiased labels, maximum metric, averaged over points.

    Each point has records of its own, which leaves the expectation as it is: the mass of the cube that reaches the
    neighbor after the last one is Beta, and the neighbors are independent inside of it.

    Source: Zhao, eq. (20).
    """
    at, _ = instance.cubes.draw(points, rng)
    mass = rng.beta(neighbors + 1, records - neighbors, points) if neighbors < records else np.ones(points)
    radius = _radius(at, mass, instance.cubes.per_axis)[:, None]
    overlaps = [_between(each[:, None] - radius, each[:, None] + radius, instance.cubes.per_axis) for each in at.T]
    signs = instance.signs.reshape((instance.cubes.per_axis,) * len(overlaps))
    terms = "ij,j->i" if len(overlaps) == 1 else "ij,ik,jk->i"
    lead = instance.height * np.einsum(terms, *overlaps, signs, optimize=True)
    counts = rng.multinomial(neighbors, _shares(_three(mass, lead, instance)))
    domain = mechanism.domain
    answers = np.clip(_noisy_sum(mechanism, counts, instance.reach, rng) / neighbors, domain.low, domain.high)
    return float(np.mean(instance.excess_at(at, answers)))


def plain_select() -> Select:
    """Select the most frequent class."""
    return lambda counts, rng: np.argmax(counts, axis=1)


def unary_select(epsilon: float) -> Select:
    """Select the class with the most randomized bits. Source: Zhao, eq. (11) to (13)."""
    return lambda counts, rng: np.argmax(_unary(counts, epsilon, rng), axis=1)


def central_select(epsilon: float) -> Select:
    """Select a class by permute-and-flip. Source: Zhao, eq. (17)."""
    mechanism = PermuteAndFlip(domain=Classes(2), epsilon=epsilon, groups=_each(1))
    return lambda counts, rng: _selected(counts, mechanism.unit, rng)


def full_select(epsilon: float, grid: CubeGrid) -> Select:
    """Select a class by permute-and-flip, for whole records. Source: Zhao, eq. (31)."""
    mechanism = FullSelection(domain=Located(grid, Classes(2)), epsilon=epsilon)
    return lambda counts, rng: _selected(counts, mechanism.unit, rng)


def label_range(reach: float) -> Interval:
    """Return the range of labels clipped to a radius. All labels of instances lie on its grid: nothing is rounded.

    Args:
        reach: 1 for bounded labels; a radius above is rounded up to a multiple of a half, the step of the grid.
    """
    if reach <= 1:
        return Interval(-1.0, 1.0, grid=2 * HALVES + 1)
    steps = ceil(2 * reach)
    return Interval(-steps / 2, steps / 2, grid=2 * steps + 1, clip=True)


def plain_mean() -> Estimate:
    """Estimate by the mean label, 0 for an empty cell."""
    return lambda counts, labels, rng: (counts @ labels) / np.maximum(counts.sum(axis=1), 1)


def central_mean(epsilon: float, reach: float) -> Estimate:
    """Estimate by the mean of labels clipped to a radius, with noise. Source: Zhao, eq. (23) and (28)."""
    domain = label_range(reach)

    def estimate(counts: Counts, labels: Floats, rng: Rng) -> Floats:
        mechanism = LaplaceSum(domain=domain, epsilon=epsilon, groups=_each(len(counts)))
        sums = counts @ domain.encode(labels).astype(np.int64)
        means = mechanism.means(sums + _two_sided(mechanism.rate, len(sums), rng), counts.sum(axis=1))
        return np.clip(np.nan_to_num(means), domain.low, domain.high)

    return estimate


def full_mean(epsilon: float, reach: float, grid: CubeGrid, smallest: int) -> Estimate:
    """Estimate by the mean of clipped labels with noise, for whole records. Source: Zhao, eq. (33) to (36)."""
    domain = label_range(reach)
    mechanism = FullMeans(domain=Located(grid, domain), epsilon=epsilon, smallest=smallest)

    def estimate(counts: Counts, labels: Floats, rng: Rng) -> Floats:
        table = np.zeros((len(counts), domain.size), dtype=np.int64)
        for code, column in zip(domain.encode(labels), counts.T, strict=True):
            table[:, code] += column
        means = mechanism.means(mechanism.rounded(table) + _two_sided(mechanism.rate, len(table), rng))
        return np.clip(means, domain.low, domain.high)

    return estimate


def local_full_select(epsilon: float) -> Select:
    """Select the largest sum of indicators, to which every record adds Laplace noise of scale 2 / epsilon.

    Source: Berrett and Butucea (2019), as in `simulate_full_local`.
    """
    return lambda counts, rng: np.argmax(counts + _everyone(counts, counts.shape, 2 / epsilon, rng), axis=1)


def local_full_mean(epsilon: float, reach: float, smallest: float) -> Estimate:
    """Estimate by a noisy sum over a noisy size, each at half of epsilon; 0 where the size is too small.

    Source: Berrett, Györfi and Walk (2021), as in `simulate_full_local`.
    """

    def estimate(counts: Counts, labels: Floats, rng: Rng) -> Floats:
        cells = (len(counts),)
        sums = counts @ np.clip(labels, -reach, reach) + _everyone(counts, cells, 4 * reach / epsilon, rng)
        sizes = counts.sum(axis=1) + _everyone(counts, cells, 4 / epsilon, rng)
        return np.clip(np.where(sizes >= smallest, sums / np.maximum(sizes, smallest), 0.0), -reach, reach)

    return estimate


def _selected(counts: Counts, unit: Fraction, rng: Rng) -> NDArray[Any]:
    """Select one of two classes by permute-and-flip: the mechanisms' own law, drawn faster.

    The rarer class is tried first in half of the cases, and accepted with probability e^(-unit * deficit).
    """
    deficit = np.abs(counts[:, 1] - counts[:, 0])
    rarer = rng.random(len(counts)) < 0.5 * np.exp(-float(unit) * deficit)
    return (counts[:, 1] > counts[:, 0]) ^ rarer


def _two_sided(rate: Fraction, count: int, rng: Rng) -> Counts:
    """Draw noise i with probability proportional to e^(-rate |i|): the mechanisms' own law, drawn faster."""
    drawn = rng.geometric(-expm1(-float(rate)), (2, count))
    return np.asarray(drawn[0] - drawn[1], dtype=np.int64)


def _everyone(counts: Counts, shape: tuple[int, ...], scale: float, rng: Rng) -> Floats:
    """Draw sums of a Laplace variable for each record: in law the difference of two Gamma variables."""
    records = float(counts.sum())
    return rng.gamma(records, scale, shape) - rng.gamma(records, scale, shape)


def _each(count: int) -> Public[Any]:
    """Return a group for each cell: counts are given, so there is no record."""
    return Public(np.arange(count), why="cells of a simulation")


def _overlaps(grid: CubeGrid, per_axis: int) -> list[Floats]:
    """Return P(a feature lies in an interval of the grid and in a cube of the instance), along each axis."""
    found = []
    for low, high, count in zip(grid.low, grid.high, grid.shape, strict=True):
        edges = np.linspace(low, high, count + 1)[:, None]
        found.append(_between(edges[:-1], edges[1:], per_axis))
    return found


def _between(low: Floats, high: Floats, per_axis: int) -> Floats:
    """Return P(a feature lies between two places and in a cube) along one axis, shape (places, per_axis)."""
    cubes = np.arange(per_axis)
    below = [np.clip(2 * (each * per_axis - cubes) - 0.5, 0, 1) for each in (low, high)]
    return (below[1] - below[0]) / per_axis


def _summed(overlaps: list[Floats], signs: NDArray[Any] | None, height: float) -> Floats:
    """Return the integral of signs · height over each cell, shape (cells,); without signs the probability of each."""
    first = overlaps[0]
    if signs is None:
        along = first.sum(axis=1)
        return along if len(overlaps) == 1 else np.outer(along, along).ravel()
    inner = signs.reshape((first.shape[1],) * len(overlaps))
    total = first @ inner if len(overlaps) == 1 else first @ inner @ overlaps[1].T
    return height * total.ravel()


def _three(mass: Floats, lead: Floats, instance: HardValues) -> Floats:
    """Return the probabilities of the labels -T, 0 and T in each place."""
    some, more = instance.share * mass, lead / instance.reach
    return np.stack([(some - more) / 2, mass - some, (some + more) / 2], axis=1)


def _drawn(mass: Floats, joint: Floats, records: int, rng: Rng) -> Counts:
    """Draw how many records each cell has of each label."""
    return rng.multinomial(rng.multinomial(records, mass / mass.sum()), _shares(joint))


def _shares(joint: Floats) -> Floats:
    """Return rows that sum to 1; where nothing can be, it does not matter which."""
    whole = np.clip(joint, 0.0, None) + 1e-300
    return np.asarray(whole / whole.sum(axis=1, keepdims=True), dtype=np.float64)


def _radius(at: Floats, mass: Floats, per_axis: int) -> Floats:
    """Return half of the side of the cube around each point that holds a probability, by bisection."""
    low, high = np.zeros(len(at)), np.ones(len(at))
    for _ in range(60):
        middle = (low + high) / 2
        held = np.prod(_below(at + middle[:, None], per_axis) - _below(at - middle[:, None], per_axis), axis=1)
        low, high = np.where(held < mass, middle, low), np.where(held < mass, high, middle)
    return high


def _below(places: Floats, per_axis: int) -> Floats:
    """Return P(a feature is below a place), along one axis."""
    scaled = np.clip(places, 0, 1) * per_axis
    whole = np.floor(scaled)
    return (whole + np.clip(2 * (scaled - whole) - 0.5, 0, 1)) / per_axis


def _noisy_sum(mechanism: DiscreteLaplace, counts: Counts, reach: float, rng: Rng) -> Floats:
    """Draw the sum of unbiased labels, from the counts of the labels -T, 0 and T, shape (places,)."""
    size = mechanism.domain.size
    rows = np.asarray(mechanism.weights() / WORD, dtype=np.float64)[mechanism.domain.encode([-reach, 0.0, reach])]
    seen = sum(rng.multinomial(own, row / row.sum()) for own, row in zip(counts.T, rows, strict=True))
    return np.asarray(seen @ debias(mechanism, np.arange(size, dtype=mechanism.domain.dtype)).values, dtype=np.float64)


CLASSES = (2, 3, 5, 10, 20, 50, 100)
CELLS, RECORDS_IN_CELL, EPSILON = 200, 2000, 1.0
LEADS = tuple(float(each) for each in np.geomspace(0.01, 1.0, 15))
"""By how much the likelier class of a cell leads the other: the hardest counts."""

FIRST = 0.5
"""Share of the records of a cell that randomized response answers without a prior, to learn one."""

Released = Callable[[Counts, float, Rng], NDArray[Any]]


def excess_of_classes(method: str, classes: int, epsilon: float, *, rng: Rng) -> list[tuple[float, float]]:
    """Return the excess risk, for each of `LEADS`, where each cell holds two random classes that all but tie.

    Args:
        method: a key of `METHODS_OF_CLASSES`.
        classes: K.
        epsilon: of every label.
        rng: of instance, labels and noise.

    Source: Zhao, Theorem 2, for ln K; `docs/results/papers.md#rates`.
    """
    return [(lead, _excess(METHODS_OF_CLASSES[method], classes, epsilon, lead, rng)) for lead in LEADS]


def _excess(released: Released, classes: int, epsilon: float, lead: float, rng: Rng) -> float:
    """Return by how much the chosen classes are less likely than the best ones, on average over cells."""
    pairs = np.argsort(rng.random((CELLS, classes)), axis=1)[:, :2]
    shares = np.zeros((CELLS, classes))
    np.put_along_axis(shares, pairs, np.array([[(1 + lead) / 2, (1 - lead) / 2]]), axis=1)
    chosen = released(rng.multinomial(RECORDS_IN_CELL, shares), epsilon, rng).argmax(axis=1)
    return float(np.mean(shares.max(axis=1) - shares[np.arange(CELLS), chosen]))


def _unary(counts: Counts, epsilon: float, rng: Rng) -> Counts:
    """Draw sums of randomized bits. Source: Zhao, eq. (11) and (12)."""
    flip = UnaryEncoding(domain=Classes(counts.shape[1]), epsilon=epsilon).law.lie / WORD
    others = counts.sum(axis=1, keepdims=True) - counts
    return rng.binomial(counts, 1 - flip) + rng.binomial(others, flip)


def _response(counts: Counts, epsilon: float, rng: Rng) -> Counts:
    """Draw counts of randomized labels."""
    matrix = RandomizedResponse(domain=Classes(counts.shape[1]), epsilon=epsilon).matrix()
    return _answers(counts, np.broadcast_to(matrix, (len(counts), *matrix.shape)), rng)


def _prior(counts: Counts, epsilon: float, rng: Rng) -> Counts:
    """Draw counts of randomized labels of two parts: the shares that the first one shows are the prior of the second.

    Source: Ghazi, Algorithms 3 and 5, with a majority in each cell as the model.
    """
    size = counts.shape[1]
    first = rng.binomial(counts, FIRST)
    seen = _response(first, epsilon, rng)
    plain = RandomizedResponse(domain=Classes(size), epsilon=epsilon)
    unbiased = debias(plain, np.arange(size, dtype=plain.domain.dtype)).values
    shares = np.clip(seen @ unbiased, 1e-9, None)
    prior = Public(shares / shares.sum(axis=1, keepdims=True), why="the first release shows it, in a simulation")
    inside = RandomizedResponseWithPrior(domain=Classes(size), epsilon=epsilon, prior=prior).candidates.membership()
    return seen + _answers(counts - first, _within(inside, epsilon), rng)


def _within(inside: NDArray[np.bool_], epsilon: float) -> Floats:
    """Return the law of randomized response within the candidates of each cell, shape (cells, K labels, K answers)."""
    sizes = inside.sum(axis=1)[:, None, None]
    growth = np.exp(epsilon)
    truth = np.eye(inside.shape[1]) * inside[:, :, None]
    known = (truth * (growth - 1) + inside[:, None, :]) / (growth + sizes - 1)
    return np.where(inside[:, :, None], known, inside[:, None, :] / sizes)


def _answers(counts: Counts, matrices: Floats, rng: Rng) -> Counts:
    """Draw how often each label is answered in each cell, from the counts of true labels and the cells' matrices."""
    rows = matrices / matrices.sum(axis=2, keepdims=True)
    return rng.multinomial(counts, rows).sum(axis=1)


METHODS_OF_CLASSES: dict[str, Released] = {"unary": _unary, "response": _response, "prior": _prior}
"""How labels are randomized, and what is counted in a cell."""


def constants_of_classes() -> dict[str, Any]:
    """Return what this file fixes for `excess_of_classes`, as results store it."""
    cells = {"CELLS": CELLS, "RECORDS_IN_CELL": RECORDS_IN_CELL}
    return {"CLASSES": CLASSES, **cells, "LEADS": LEADS, "FIRST": FIRST}
