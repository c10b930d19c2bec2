"""Hard instances: probabilities, smoothness, margin, Bayes risk and excess risk are what they say."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from labeldp.privacy import InputError
from papers.rates.instances import (
    Cubes,
    HardClasses,
    HardValues,
    critical_cells,
    hard_classes,
    hard_values,
    heavy_values,
)
from papers.rates.table import critical_records, critical_side

SIGMAS = 7.4
"""A normal variable is farther out with a probability of about 1e-13."""

shapes = st.tuples(st.integers(1, 3), st.integers(1, 12), st.floats(0.1, 1), st.integers(0, 1 << 30))


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(shapes, st.floats(0, 3), st.integers(2, 100), st.floats(0.1, 1))
def test_classes_keep_the_smoothness_and_the_margin_that_they_promise(
    shape: tuple[int, int, float, int], margin: float, classes: int, amplitude: float
) -> None:
    dimension, per_axis, beta, seed = shape
    assume(margin * beta <= dimension)
    rng = seeded(seed)
    hard = hard_classes(
        per_axis, dimension=dimension, beta=beta, margin=margin, classes=classes, amplitude=amplitude, rng=rng
    )
    features, labels = hard.draw(60, rng)
    table = hard.probabilities(features)
    assert table.shape == (60, classes) and labels.shape == (60,) and 0 <= labels.min() <= labels.max() < classes
    assert np.all((table >= 0) & (table <= 1)) and np.allclose(table.sum(axis=1), 1)
    gaps = np.linalg.norm(features[:, None] - features[None], axis=2)
    change = np.abs(table[:, None] - table[None]).max(axis=2)
    assert np.all(change <= 2**beta * amplitude * gaps**beta * (1 + 1e-9) + 1e-12)
    ordered = np.sort(table, axis=1)
    lead = ordered[:, -1] - ordered[:, -2]
    assert np.allclose(lead[lead > 1e-12], hard.height)
    share = np.mean(hard.winners >= 0)
    assert share <= 2 * amplitude**-margin * hard.height**margin * (1 + 1e-9)


@given(shapes, st.floats(2, 9), st.floats(0.2, 1), st.booleans())
def test_numbers_keep_the_smoothness_and_the_moment_that_they_promise(
    shape: tuple[int, int, float, int], moments: float, amplitude: float, heavy: bool
) -> None:
    dimension, per_axis, beta, seed = shape
    rng = seeded(seed)
    setting: dict[str, Any] = {"dimension": dimension, "beta": beta, "amplitude": amplitude, "rng": rng}
    hard = heavy_values(per_axis, moments=moments, **setting) if heavy else hard_values(per_axis, **setting)
    features, labels = hard.draw(60, rng)
    mean = hard.mean(features)
    gaps = np.linalg.norm(features[:, None] - features[None], axis=2)
    assert np.all(np.abs(mean[:, None] - mean[None]) <= 2 ** (1 + beta) * amplitude * gaps**beta * (1 + 1e-9) + 1e-12)
    above, below = (0.5 * (hard.share + sign * hard.height / hard.reach) for sign in (1, -1))
    assert 0 <= below <= above <= 1 and above + below == pytest.approx(hard.share)
    assert hard.share * hard.reach**moments == pytest.approx(1)
    assert (above - below) * hard.reach == pytest.approx(hard.height)
    assert set(np.unique(labels)) <= {-hard.reach, 0.0, hard.reach}
    if not heavy:
        assert set(np.unique(labels)) <= {-1.0, 1.0}


def test_labels_follow_the_probabilities() -> None:
    rng = seeded(1)
    hard = hard_classes(3, dimension=1, classes=4, beta=0.5, rng=rng)
    features, labels = hard.draw(40_000, rng)
    for cube in range(3):
        inside = hard.cubes.index(features) == cube
        expected = hard.probabilities(features[inside][:1])[0]
        found = np.bincount(labels[inside], minlength=4) / inside.sum()
        assert np.all(np.abs(found - expected) < SIGMAS * 0.5 / math.sqrt(inside.sum()))
    assert np.mean(labels != hard.winners[hard.cubes.index(features)]) == pytest.approx(hard.bayes_risk, abs=0.02)


def test_three_points_follow_equation_166() -> None:
    rng = seeded(2)
    hard = heavy_values(4, dimension=2, beta=1.0, moments=3.0, bound=2.0, rng=rng)
    assert hard.height == pytest.approx(0.25) and hard.reach == pytest.approx((2 / 0.5) ** 0.5)
    assert hard.share == pytest.approx(2 * hard.reach**-3)
    features, labels = hard.draw(200_000, rng)
    mean = hard.mean(features)
    spread = hard.reach * math.sqrt(hard.share)
    assert abs(np.mean(labels - mean)) < SIGMAS * spread / math.sqrt(len(labels))
    assert np.mean(np.abs(labels) ** 3) == pytest.approx(2, rel=0.05)
    assert np.mean((labels - mean) ** 2) == pytest.approx(hard.bayes_risk, rel=0.05)


def test_wide_bumps_are_not_likelier_than_certain() -> None:
    """Where bumps are high equation (169) alone would ask for P(label is not 0) above 1; then T is larger."""
    hard = heavy_values(1, dimension=1, moments=2.0, rng=seeded())
    assert hard.reach == hard.share == hard.height == 1


def test_the_best_predictor_has_no_excess_and_the_worst_has_all() -> None:
    rng = seeded(3)
    hard = hard_classes(5, dimension=2, classes=2, margin=1.0, rng=rng)
    assert hard.excess(lambda x: hard.winners[hard.cubes.index(x)]) == 0
    worst = hard.excess(lambda x: 1 - hard.winners[hard.cubes.index(x)])
    assert worst == pytest.approx(hard.height * 5 / 25)
    values = hard_values(5, dimension=2, rng=rng)
    assert values.excess(values.mean) == pytest.approx(0, abs=1e-15)
    assert values.excess(lambda x: -values.mean(x)) == pytest.approx(4 * values.height**2)
    assert values.excess(lambda x: np.full(len(x), 3.0)) == pytest.approx(
        np.mean((3 - values.height * values.signs) ** 2)
    )


def test_the_bayes_risk_is_that_of_the_best_predictor() -> None:
    rng = seeded(4)
    hard = hard_classes(6, dimension=1, classes=5, margin=0.5, rng=rng)
    table = hard.probabilities(hard.cubes.boxes()[0])
    assert hard.bayes_risk == pytest.approx(np.mean(1 - table.max(axis=1)))


@given(shapes, st.floats(0.03, 0.9), st.floats(0, 1))
def test_excess_is_exact_for_predictors_on_a_grid(
    shape: tuple[int, int, float, int], side: float, offset: float
) -> None:
    """Against a second way of counting: the share of each cube that each box of the predictor covers, axis by axis."""
    dimension, per_axis, beta, seed = min(shape[0], 2), *shape[1:]
    rng = seeded(seed)
    hard = hard_values(per_axis, dimension=dimension, beta=beta, rng=rng)
    lines = np.arange(-1, 1 / side + 2) * side + offset * side
    answers = rng.normal(size=(len(lines) + 1,) * dimension)

    def predict(features: np.ndarray) -> np.ndarray:
        return answers[tuple(np.searchsorted(lines, features).T)]

    starts = (np.arange(per_axis) + 0.25) / per_axis
    ends = np.concatenate([[-np.inf], lines, [np.inf]])
    low = np.maximum(starts[:, None], ends[None, :-1])
    high = np.minimum(starts[:, None] + 0.5 / per_axis, ends[None, 1:])
    overlap = 2 * np.maximum(high - low, 0)  # the probability of (cube, box) along one axis
    signs = hard.height * hard.signs.reshape((per_axis,) * dimension)
    if dimension == 1:
        expected = np.sum(overlap * (answers[None] - signs[:, None]) ** 2)
    else:
        errors = (answers[None, None] - signs[:, :, None, None]) ** 2
        expected = np.einsum("ia,jb,ijab->", overlap, overlap, errors)
    assert hard.excess(predict, lines=lines) == pytest.approx(expected, rel=1e-9)


def test_the_mean_on_a_sample_estimates_the_excess() -> None:
    rng = seeded(5)
    hard = hard_classes(4, dimension=2, rng=rng)

    def predict(features: np.ndarray) -> np.ndarray:
        return (features.sum(axis=1) > 1).astype(int)

    mesh = hard.excess(predict, lines=np.linspace(0, 1, 801))
    points = hard.excess_at(features := hard.draw(200_000, rng)[0], predict(features))
    assert abs(points.mean() - mesh) < SIGMAS * points.std() / math.sqrt(len(points)) + 1e-3


def test_features_lie_in_the_inner_halves_and_boxes_cover_them() -> None:
    cubes = Cubes(3, 2)
    features, index = cubes.draw(1000, seeded(6))
    inner = features * 3 % 1
    assert inner.min() >= 0.25 and inner.max() <= 0.75 and np.array_equal(cubes.index(features), index)
    centers, weights = cubes.boxes([0.5, 0.1, 7.0])
    assert weights.sum() == pytest.approx(1) and len(centers) == len(weights) == 5**2
    assert sorted(cubes.index(cubes.boxes()[0])) == list(range(9))
    assert cubes.index([[-3.0, 9.0]]).tolist() == [2]


def test_critical_cells_are_near_the_critical_side() -> None:
    setting: dict[str, Any] = {"task": "regression", "epsilon": 0.5, "dimension": 2, "beta": 0.5}
    assert critical_cells(records=1e5, **setting) == round(1 / critical_side(records=1e5, **setting))
    assert critical_cells(records=1e5, constant=2, **setting) == round(0.5 / critical_side(records=1e5, **setting))
    assert critical_cells(records=critical_records(1 / 17, **setting), **setting) == 17


def test_instances_are_the_same_for_the_same_generator_and_show_no_signs() -> None:
    one, two = (hard_classes(9, dimension=1, rng=seeded(7)) for _ in range(2))
    assert np.array_equal(one.winners, two.winners) and "winners" not in repr(one)
    assert "signs" not in repr(hard_values(9, dimension=1, rng=seeded(7)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hard_classes(0, dimension=1, rng=seeded()), "per_axis must be an integer, at least 1"),
        (lambda: hard_classes(1000, dimension=3, rng=seeded()), "so many bumps do not fit in memory"),
        (lambda: hard_classes(4, dimension=1, margin=2.0, rng=seeded()), "margin · beta must be at most 1"),
        (lambda: hard_classes(4, dimension=1, classes=1, rng=seeded()), "classes"),
        (lambda: hard_values(4, dimension=1, beta=2.0, rng=seeded()), "beta must lie in"),
        (lambda: hard_values(4, dimension=1, amplitude=5.0, rng=seeded()), "amplitude must be at most per_axis"),
        (lambda: heavy_values(4, dimension=1, moments=1.0, rng=seeded()), "moments must be at least 2"),
        (lambda: heavy_values(1, dimension=1, bound=0.1, rng=seeded()), "height must be at most share"),
        (lambda: HardValues(Cubes(1, 1), np.ones(1, int), 0.5, 1.0, 0.4), "share"),
        (lambda: Cubes(2, 2).boxes(np.linspace(0, 1, 9000)), "so many boxes do not fit in memory"),
        (lambda: critical_cells(constant=0, task="regression", records=10, epsilon=1, dimension=1), "constant"),
    ],
)
def test_what_is_no_instance_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_tie_is_worth_nothing() -> None:
    hard = HardClasses(Cubes(2, 1), np.array([-1, 1]), 0.5, 3)
    assert hard.excess_at([[0.2], [0.3], [0.7], [0.8]], [0, 2, 1, 0]).tolist() == [0, 0, 0, 0.5]
