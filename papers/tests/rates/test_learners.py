"""Learners on counts answer as the library's learners do on records, and their excess risk is exact."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.learners import (
    CellClassifier,
    CubeGrid,
    CubePartition,
    NeighborsRegressor,
    fit_cells,
)
from labeldp.mechanisms import DiscreteLaplace, LaplaceSum, RandomizedResponseWithPrior, UnaryEncoding, debias
from labeldp.privacy import Public
from papers.rates import learners as rates_classes
from papers.rates import learners as rates_learners
from papers.rates.instances import hard_classes, hard_values, heavy_values
from papers.rates.learners import cells_of_classes, cells_of_values, label_range
from papers.rates.whole_records import FullSelection, Located, fit_full_cells, simulate_full_local

RNG = np.random.default_rng

SIGMAS = 7.1  # two-sided 1e-12


def grid(per_axis: int, dimension: int) -> CubeGrid:
    return CubeGrid((0.0,) * dimension, (1.0,) * dimension, (per_axis,) * dimension)


def edges(per_axis: int) -> np.ndarray:
    return np.linspace(0, 1, per_axis + 1)


@pytest.mark.parametrize(("dimension", "cells", "bumps"), [(1, 7, 3), (1, 3, 8), (2, 4, 3), (2, 2, 5)])
def test_the_excess_risk_of_classes_is_exact(dimension: int, cells: int, bumps: int) -> None:
    instance = hard_classes(bumps, dimension=dimension, margin=0.5, rng=RNG(0))
    answers = RNG(1).integers(0, 2, cells**dimension)
    boxes = grid(cells, dimension)
    found = cells_of_classes(instance, boxes, 1000, lambda counts, rng: answers, rng=RNG(2))
    exact = instance.excess(lambda rows: answers[boxes.index(rows)], lines=edges(cells))
    assert found == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(("dimension", "cells", "bumps"), [(1, 7, 3), (1, 3, 8), (2, 4, 3), (2, 2, 5)])
def test_the_excess_risk_of_numbers_is_exact(dimension: int, cells: int, bumps: int) -> None:
    instance = heavy_values(bumps, dimension=dimension, moments=3.0, rng=RNG(0))
    answers = RNG(1).normal(size=cells**dimension)
    boxes = grid(cells, dimension)
    found = cells_of_values(instance, boxes, 1000, lambda counts, labels, rng: answers, rng=RNG(2))
    exact = instance.excess(lambda rows: answers[boxes.index(rows)], lines=edges(cells))
    assert found == pytest.approx(exact, abs=1e-12)


def apart(first: list[float], second: list[float]) -> float:
    """By how many standard errors two means differ."""
    spread = np.var(first, ddof=1) / len(first) + np.var(second, ddof=1) / len(second)
    return float(abs(np.mean(first) - np.mean(second)) / np.sqrt(spread))


SIDE, RECORDS, REPEATS = 4, 800, 150

PARTITION = CubePartition(1 / SIDE, bounds=(0, 1))

CLASSES, NUMBERS = ldp.Classes(2), label_range(1.0)

Predict = Callable[[Any], Any]


def holder(labels: Any, domain: Any) -> ldp.Curator:
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=1000))


def unary(data: Any, epsilon: float, rng: Any) -> Predict:
    release = holder(data[1], CLASSES).release(UnaryEncoding(domain=CLASSES, epsilon=epsilon), rng=rng)
    return CellClassifier(PARTITION).fit(data[0], release).predict


def central(data: Any, epsilon: float, rng: Any, domain: Any = CLASSES, mechanism: str = "permute-and-flip") -> Predict:
    curator = holder(data[1], domain)
    release = fit_cells(data[0], curator, epsilon=epsilon, rng=rng, partition=PARTITION, mechanism=mechanism)
    return release.value.predict


def central_sums(data: Any, epsilon: float, rng: Any) -> Predict:
    return central(data, epsilon, rng, NUMBERS, "sums")


def full(data: Any, epsilon: float, rng: Any, labels: Any = CLASSES, smallest: int | None = None) -> Predict:
    curator = holder(data, Located(grid(SIDE, 1), labels))
    return fit_full_cells(curator, epsilon=epsilon, rng=rng, smallest=smallest).value.predict


def full_sums(data: Any, epsilon: float, rng: Any) -> Predict:
    return full(data, epsilon, rng, NUMBERS, 100)


def baseline(data: Any, epsilon: float, rng: Any, labels: Any = CLASSES) -> Predict:
    domain, rows = Located(grid(SIDE, 1), labels), data[0]
    return simulate_full_local(rows, data[1], domain=domain, epsilon=epsilon, rng=rng, smallest=100).value.predict


def baseline_sums(data: Any, epsilon: float, rng: Any) -> Predict:
    return baseline(data, epsilon, rng, NUMBERS)


def nearest(data: Any, epsilon: float, rng: Any) -> Predict:
    release = holder(data[1], NUMBERS).release(DiscreteLaplace(domain=NUMBERS, epsilon=epsilon), rng=rng)
    return NeighborsRegressor(200, metric="chebyshev").fit(data[0], release).predict


SELECTS = [
    (unary, 1.0, rates_learners.unary_select),
    (central, 0.05, rates_learners.central_select),
    (full, 0.05, lambda epsilon: rates_learners.full_select(epsilon, grid(SIDE, 1))),
    (baseline, 4.0, rates_learners.local_full_select),
]


@pytest.mark.parametrize(("learned", "epsilon", "select"), SELECTS)
def test_classes_are_as_hard_from_counts_as_from_records(learned: Any, epsilon: float, select: Any) -> None:
    rng = RNG(0)

    def on_records() -> float:
        instance = hard_classes(6, dimension=1, rng=rng)
        predict = learned(instance.draw(RECORDS, rng), epsilon, rng)
        return instance.excess(predict, lines=edges(SIDE))

    def on_counts(given: float) -> float:
        instance = hard_classes(6, dimension=1, rng=rng)
        return cells_of_classes(instance, grid(SIDE, 1), RECORDS, select(given), rng=rng)

    records = [on_records() for _ in range(REPEATS)]
    assert apart(records, [on_counts(epsilon) for _ in range(10 * REPEATS)]) < SIGMAS
    assert apart(records, [on_counts(epsilon / 20) for _ in range(10 * REPEATS)]) > SIGMAS, "other noise is seen"


ESTIMATES = [
    (central_sums, 0.05, lambda epsilon: rates_learners.central_mean(epsilon, 1.0)),
    (full_sums, 0.1, lambda epsilon: rates_learners.full_mean(epsilon, 1.0, grid(SIDE, 1), 100)),
    (baseline_sums, 4.0, lambda epsilon: rates_learners.local_full_mean(epsilon, 1.0, 100)),
]


@pytest.mark.parametrize(("learned", "epsilon", "estimate"), ESTIMATES)
def test_numbers_are_as_hard_from_counts_as_from_records(learned: Any, epsilon: float, estimate: Any) -> None:
    rng = RNG(0)

    def on_records() -> float:
        instance = hard_values(6, dimension=1, rng=rng)
        predict = learned(instance.draw(RECORDS, rng), epsilon, rng)
        return instance.excess(predict, lines=edges(SIDE))

    def on_counts(given: float) -> float:
        instance = hard_values(6, dimension=1, rng=rng)
        return cells_of_values(instance, grid(SIDE, 1), RECORDS, estimate(given), rng=rng)

    records = [on_records() for _ in range(REPEATS)]
    assert apart(records, [on_counts(epsilon) for _ in range(10 * REPEATS)]) < SIGMAS
    assert apart(records, [on_counts(epsilon / 2) for _ in range(10 * REPEATS)]) > SIGMAS, "other noise is seen"


@pytest.mark.parametrize("dimension", [1, 2])
def test_neighbors_are_as_good_from_counts_as_from_records(dimension: int) -> None:
    rng = RNG(0)

    def on_records() -> float:
        instance = hard_values(3, dimension=dimension, rng=rng)
        predict = nearest(instance.draw(RECORDS, rng), 1.0, rng)
        at, _ = instance.draw(50, rng)
        return float(np.mean(instance.excess_at(at, predict(at))))

    def on_counts(epsilon: float) -> float:
        instance = hard_values(3, dimension=dimension, rng=rng)
        mechanism = DiscreteLaplace(domain=NUMBERS, epsilon=epsilon)
        return rates_learners.neighbors_of_values(instance, 200, mechanism, RECORDS, points=50, rng=rng)

    records = [on_records() for _ in range(REPEATS // 2)]
    assert apart(records, [on_counts(1.0) for _ in range(REPEATS)]) < SIGMAS
    assert apart(records, [on_counts(0.5) for _ in range(REPEATS)]) > SIGMAS, "other noise is seen"


@pytest.mark.parametrize("reach", [1.0, 2.5])
def test_sums_of_clipped_labels_have_the_law_of_the_mechanism(reach: float) -> None:
    """Labels beyond the radius count as the nearest end, as `Interval(..., clip=True)` has it."""
    domain, rng, size = label_range(2.0 if reach > 1 else 1.0), RNG(0), 4000
    mechanism = DiscreteLaplace(domain=domain, epsilon=1.0)
    counts = np.tile([3, 5, 9], (size, 1))
    drawn = rates_learners._noisy_sum(mechanism, counts, reach, rng)
    codes = domain.encode(np.repeat([-reach, 0.0, reach], [3, 5, 9]))
    sums = [debias(mechanism, mechanism.randomize(codes, rng=rng)).values.sum() for _ in range(400)]
    assert apart(list(drawn), sums) < SIGMAS and abs(np.mean(drawn) - 6 * min(reach, 2.0)) < 1.0
    assert np.std(drawn) == pytest.approx(np.std(sums), rel=0.3)


def test_noise_is_drawn_by_the_law_of_the_mechanism() -> None:
    mechanism = LaplaceSum(domain=NUMBERS, epsilon=0.5, groups=Public(np.arange(3), why="made up"))
    noise = rates_learners._two_sided(mechanism.rate, 40_000, RNG(0))
    found = np.bincount(np.searchsorted(mechanism.edges(), noise), minlength=len(mechanism.edges()) + 1)
    expected = mechanism.law(np.zeros(1)) * len(noise)
    assert np.sum((found - expected) ** 2 / expected) < 100
    other = LaplaceSum(domain=NUMBERS, epsilon=0.6, groups=Public(np.arange(3), why="made up"))
    wrong = other.law_between(mechanism.edges(), np.zeros(1)) * len(noise)
    assert np.sum((found - wrong) ** 2 / wrong) > 100, "another scale is seen"


@pytest.mark.parametrize("counts", [(5, 5), (7, 3), (0, 4)])
def test_classes_are_drawn_by_the_law_of_the_mechanism(counts: tuple[int, int]) -> None:
    made = {"domain": CLASSES, "epsilon": 0.5}
    both = (
        ldp.mechanisms.PermuteAndFlip(**made, groups=Public(np.arange(1), why="made up")),
        FullSelection(domain=Located(grid(1, 1), CLASSES), epsilon=0.5),
    )
    for mechanism in both:
        table = np.tile(np.array(counts), (20_000, 1))
        found = rates_learners._selected(table, mechanism.unit, RNG(0)).mean()
        expected = mechanism.law(np.array(counts))[1]
        assert abs(found - expected) < SIGMAS * np.sqrt(expected * (1 - expected) / len(table))
        if counts[0] != counts[1]:
            other = rates_learners._selected(table, mechanism.unit * 2, RNG(0)).mean()
            assert abs(other - expected) > SIGMAS * np.sqrt(expected * (1 - expected) / len(table)), "another is seen"


def test_the_grid_of_labels_holds_the_labels_of_the_instances() -> None:
    for reach in (1.0, 1.3, 4.0, 7.9):
        values = label_range(reach).decode(np.arange(label_range(reach).size))
        assert {-1.0, 0.0, 1.0} <= set(values.tolist()) and values.max() >= reach
    assert label_range(1.0).clip is False and label_range(3.2).clip is True and label_range(3.2).high == 3.5


def test_candidates_answer_by_the_law_of_response_with_a_prior() -> None:
    prior = np.array([[0.9, 0.05, 0.05], [0.4, 0.3, 0.3], [0.5, 0.5, 0.0]])
    public = Public(prior, why="made up")
    mechanism = RandomizedResponseWithPrior(domain=ldp.Classes(3), epsilon=1.0, prior=public)
    found = rates_classes._within(mechanism.candidates.membership(), 1.0)
    assert np.allclose(found, mechanism.matrix(), atol=1e-12)


def worst(method: str, classes: int) -> float:
    """The risk of the hardest lead, on average over four noises."""
    runs = [rates_classes.excess_of_classes(method, classes, 1.0, rng=RNG(seed)) for seed in range(4)]
    return max(float(np.mean([run[place][1] for run in runs])) for place in range(len(rates_classes.LEADS)))


def test_unary_bits_stay_where_response_degrades_and_a_prior_lies_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates_classes, "LEADS", (0.03, 0.07, 0.1, 0.14))
    few, many = ({name: worst(name, size) for name in rates_classes.METHODS_OF_CLASSES} for size in (2, 100))
    assert many["unary"] < 1.5 * few["unary"]
    assert many["response"] > 4 * few["response"]
    assert 1.5 * many["unary"] < many["prior"] < 0.9 * many["response"]
