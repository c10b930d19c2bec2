"""Numbers answered around public predictions: points of a span, and bins of the distance."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.mechanisms import Classes, Interval, ResponseOnDistances, ResponseOnPoints, debias, second_moment
from labeldp.privacy import WORD, InputError, NotInvertibleError, Public, Release

RANGE = Interval(-10, 30, grid=41)


def spans(*rows: tuple[int, int]) -> Public[Any]:
    return Public(np.array(rows), why="a test")


def answered(mechanism: Any, labels: Any) -> Release[Any]:
    curator = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(mechanism.epsilon))
    return curator.release(mechanism, rng=np.random.default_rng(0))


@pytest.mark.guarantee("labeldp.mechanisms:ResponseOnPoints", "pure")
@pytest.mark.parametrize("points", [2, 3, 7])
def test_points_average_to_the_label_exactly_and_beyond_the_span_to_its_end(points: int) -> None:
    mechanism = ResponseOnPoints(domain=RANGE, epsilon=1.3, spans=spans((10, 22)), points=points)
    law = mechanism.law
    for code, row in enumerate(mechanism.weights()[0].tolist()):
        assert sum(row) == WORD and law.lie <= min(row) and max(row) <= law.keep
        steps = [Fraction(12 * place, points - 1) - 6 for place in range(points)]
        mean = sum(weight * step for weight, step in zip(row, steps, strict=True)) / Fraction(law.keep - law.lie)
        assert abs(mean - (np.clip(code, 10, 22) - 16)) < Fraction(1, 10**15)


@pytest.mark.guarantee("labeldp.mechanisms:ResponseOnPoints", "prior_charged")
def test_answers_have_the_mean_and_the_second_moment_that_are_said() -> None:
    count = 200_000
    released = answered(ResponseOnPoints(domain=RANGE, epsilon=1.0), np.zeros(10)).map(lambda _: [[5, 15]] * count)
    mechanism = ResponseOnPoints(domain=RANGE, epsilon=1.0, spans=released.map(np.array), points=3)
    assert mechanism.basis == (released.certificate,)
    values = mechanism.values(mechanism.randomize(np.full(count, 12), rng=np.random.default_rng(1)))
    square = float(second_moment([2.0], 5, 3, 1.0)[0])
    assert abs(values.mean() - 2) < 7 * (square / count) ** 0.5
    assert np.mean((values - 0) ** 2) == pytest.approx(square, rel=0.02)
    with pytest.raises(NotInvertibleError, match="outside of their span"):
        debias(mechanism, np.zeros(count, dtype=int))


def test_answers_on_the_range_can_be_debiased() -> None:
    mechanism = ResponseOnPoints(domain=RANGE, epsilon=2.0, points=4)
    release = answered(mechanism, np.repeat([-10.0, 3.0, 30.0], 20_000))
    means = debias(mechanism, release.value).values.reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(means, [-10, 3, 30], atol=7 * 25 / 20_000**0.5)


@pytest.mark.guarantee("labeldp.mechanisms:ResponseOnDistances", "pure")
@pytest.mark.guarantee("labeldp.mechanisms:ResponseOnDistances", "prior_charged")
def test_bins_of_distances_double_and_their_shares_are_unbiased() -> None:
    labels = np.repeat([0.0, 3.0, 12.0, 28.0], [20_000, 10_000, 8_000, 2_000])
    centers = Public(np.full((40_000, 1), 10), why="a test")
    mechanism = ResponseOnDistances(domain=RANGE, epsilon=2.0, centers=centers, bins=4)
    assert mechanism.edges.tolist() == [5, 10, 20]
    shares = mechanism.shares(answered(mechanism, labels).value)
    np.testing.assert_allclose(shares, [0.75, 0, 0.2, 0.05], atol=0.04)
    assert shares.sum() == pytest.approx(1)
    assert ResponseOnDistances(domain=Interval(0, 1, grid=2), epsilon=1.0).edges.tolist() == [1]


def test_what_does_not_fit_is_refused() -> None:
    for kind in (ResponseOnPoints, ResponseOnDistances):
        with pytest.raises(InputError, match="domain must be an Interval"):
            kind(domain=Classes(3), epsilon=1)
    for given, words in [
        (np.array([[0, 5]]), "must be Public"),
        (spans((0, 5), (0, 6)), "one length"),
        (spans((5, 5)), "at least 1"),
        (spans((0, 200)), "near it"),
        (Public(np.zeros(3), why="a test"), r"integers, shape \(n, 2\)"),
    ]:
        with pytest.raises(InputError, match=words):
            ResponseOnPoints(domain=RANGE, epsilon=1.0, spans=given)
    with pytest.raises(InputError, match=r"integers, shape \(n, 1\)"):
        ResponseOnDistances(domain=RANGE, epsilon=1.0, centers=Public(np.zeros(3, int), why="a test"))
    mechanism = ResponseOnPoints(domain=RANGE, epsilon=1.0, spans=spans((0, 5)))
    for noisy in ([0, 1], [2], [-1], [0.5]):
        with pytest.raises(InputError):
            mechanism.values(np.array(noisy))
