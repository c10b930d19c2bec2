"""Points on a space, a box and a ball: their laws, by tests that reject a wrong one, and the bits where doubles end."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from labeldp.online import Ball, Body, Box, Unbounded
from labeldp.online.convex import points
from labeldp.online.convex.points import (
    BALL_FAILURE,
    UnivariateLaw,
    draw_failure,
    draw_offsets,
    draw_point,
    grid_step,
    log_gamma_share,
    normal_laws,
    rounded,
)
from labeldp.privacy import InputError, as_successive
from sampling.words import ChosenWords

FALSE_ALARM = 1e-12


def sample_points(body: Body, center: np.ndarray, curvature: float, count: int, seed: int) -> np.ndarray:
    """So many draws, as real numbers."""
    rng, step = as_successive(np.random.default_rng(seed)), grid_step(body, curvature)
    return np.array([draw_point(body, center, curvature, step, rng=rng) for _ in range(count)]) * step


def p_value(sample: np.ndarray, edges: np.ndarray, masses: np.ndarray) -> float:
    """Pearson's test of numbers between edges."""
    counts = np.bincount(np.searchsorted(edges, sample), minlength=len(masses))
    return float(stats.chisquare(counts, masses / masses.sum() * counts.sum()).pvalue)


def axis_masses(dimension: int, radius: float, distance: float, curvature: float, edges: np.ndarray) -> np.ndarray:
    """The law of a ball's coordinate along the axis, integrated on a fine grid of its own."""
    grid = np.linspace(-radius, radius, 400_001)[1:-1]
    log = -curvature * (grid - distance) ** 2
    if dimension > 1:
        log = log + stats.chi2.logcdf(2 * curvature * (radius**2 - grid**2), dimension - 1)
    masses = np.exp(log - log.max())
    return np.bincount(np.searchsorted(edges, grid), weights=masses, minlength=len(edges) + 1)


def quantiles(dimension: int, radius: float, distance: float, curvature: float) -> np.ndarray:
    """Edges between which the axis law has about equal masses."""
    grid = np.linspace(-radius, radius, 200_001)[1:-1]
    masses = axis_masses(dimension, radius, distance, curvature, grid)
    return grid[np.searchsorted(np.cumsum(masses) / masses.sum(), np.arange(1, 12) / 12)]


BOXES = [(0.3, 1.0, 2.0), (5.0, 1.0, 3.0), (0.0, 1.0, 1e-3), (-40.0, 1.0, 1.0), (0.99, 1.0, 50.0), (0.0, 1.0, 200.0)]


@pytest.mark.guarantee("labeldp.online:draw_offsets", "law")
@pytest.mark.parametrize(("center", "half", "curvature"), BOXES)
def test_numbers_of_a_box_are_truncated_normal(center: float, half: float, curvature: float) -> None:
    count, stddev = 40_000, 1 / math.sqrt(2 * curvature)
    body = Box((-half,) * count, (half,) * count)
    [sample] = sample_points(body, np.full(count, center), curvature, 1, seed=1)
    assert np.abs(sample).max() <= half

    def tested(factor: float) -> float:
        edges = quantiles(1, half, center, curvature)
        wide = stats.truncnorm((-half - center) / stddev, (half - center) / stddev, loc=center, scale=stddev)
        masses = np.diff(wide.cdf(edges), prepend=0, append=1)
        return p_value(sample * factor, edges, masses)

    assert tested(1.0) > FALSE_ALARM
    assert tested(0.9) < FALSE_ALARM


def test_numbers_of_a_space_are_normal_around_a_center_far_away() -> None:
    count = 40_000
    [sample] = sample_points(Unbounded(count, 1.0), np.full(count, 1e6), 0.5, 1, seed=2) - 1e6
    edges = stats.norm.ppf(np.arange(1, 20) / 20)
    masses = np.full(20, 1 / 20)
    assert p_value(sample, edges, masses) > FALSE_ALARM
    assert p_value(sample * 1.1, edges, masses) < FALSE_ALARM


BALLS = [(2, 1.0, 0.3, 2.0), (3, 1.0, 5.0, 3.0), (10, 1.0, 0.0, 1e-3), (10, 0.5, 20.0, 300.0), (40, 0.5, 0.2, 300.0)]


@pytest.mark.guarantee("labeldp.online:draw_point", "law")
@pytest.mark.parametrize(("dimension", "radius", "distance", "curvature"), BALLS)
def test_points_of_a_ball_have_their_law(dimension: int, radius: float, distance: float, curvature: float) -> None:
    axis = np.random.default_rng(dimension).normal(size=dimension)
    axis /= np.linalg.norm(axis)
    sample = sample_points(Ball(dimension, radius), distance * axis, curvature, 500, seed=dimension)
    lengths = np.linalg.norm(sample, axis=1)
    assert lengths.max() <= radius * (1 + 1e-12)
    along = sample @ axis
    edges = quantiles(dimension, radius, distance, curvature)
    masses = axis_masses(dimension, radius, distance, curvature, edges)
    assert p_value(along, edges, masses) > FALSE_ALARM
    assert p_value(along - 0.5 * along.std(), edges, masses) < FALSE_ALARM
    # Around the axis every direction is as likely, whatever the distance from it is.
    side = np.linalg.svd(axis[np.newaxis])[2][1]
    signs = np.sign(sample @ side)
    assert stats.binomtest(int((signs > 0).sum()), len(signs)).pvalue > FALSE_ALARM
    away = np.sqrt(np.maximum(lengths**2 - along**2, 0))
    share = stats.chi2.cdf(2 * curvature * away**2, dimension - 1)
    share /= stats.chi2.cdf(2 * curvature * (radius**2 - along**2), dimension - 1)
    assert stats.kstest(share, "uniform").pvalue > FALSE_ALARM
    assert stats.kstest(share**2, "uniform").pvalue < FALSE_ALARM


def test_a_law_far_outside_keeps_to_the_surface() -> None:
    sample = sample_points(Ball(100, 0.5), np.eye(1, 100)[0] * 1e4, 300.0, 50, seed=3)
    assert np.linalg.norm(sample, axis=1).min() > 0.4999
    assert sample[:, 0].min() > 0.49


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.5, 49.5, 511.5])
def test_gamma_shares_against_fifty_digits(shape: float) -> None:
    with mpmath.workdps(50):
        for x in [1e-12 * shape, 1e-3 * shape, 0.5 * shape, shape, shape + 1.5, 2 * shape + 3, 20 * shape + 20]:
            true = mpmath.log(mpmath.gammainc(shape, 0, x, regularized=True)) + mpmath.loggamma(shape + 1)
            assert abs(true - log_gamma_share(shape, x)) < 2e-12 * max(1, shape / 100)


@pytest.mark.parametrize(
    ("dimension", "radius", "distance", "curvature"),
    [*BALLS, (500, 0.5, 200.0, 1e4), (2000, 1.0, 50.0, 1e5), (2048, 1.0, 4.318622657590747, 21329784.136726756)],
)
def test_potentials_of_a_ball_are_known_to_a_fifth_of_what_is_charged(
    dimension: int, radius: float, distance: float, curvature: float
) -> None:
    line = points._axis(dimension, radius, distance, curvature)
    rest = points._distance(dimension - 2, 0.7 * radius, curvature)
    with mpmath.workdps(50):
        kappa, shape = mpmath.mpf(curvature), mpmath.mpf(dimension - 1) / 2

        def axis(g: mpmath.mpf) -> mpmath.mpf:
            inside = mpmath.gammainc(shape, 0, kappa * g * (2 * radius - g), regularized=True)
            return kappa * g * (g + 2 * (mpmath.mpf(distance) - radius)) - mpmath.log(inside)

        def away(r: mpmath.mpf) -> mpmath.mpf:
            return kappa * r**2 - (dimension - 2) * mpmath.log(r)

        for law, exact, slack in ((line, axis, points.MODE_SLACK), (rest, away, 0.0)):
            mode = mpmath.mpf(float(law.mode[0]))
            for widths in (-6, -2.5, -1, -0.3, 0.2, 1, 3, 7):
                offset = float(widths * law.widths[0])
                if -law.ends[0, 0] < offset < law.ends[1, 0] and mode + offset > 0:
                    [found] = law.potential(np.array([0]), np.array([offset])) - slack
                    floor = exact(mode) if mode else mpmath.mpf(0)
                    true = (exact(mode + offset) if mode else kappa * mpmath.mpf(offset) ** 2) - floor
                    if true < 60:
                        # The mode inside is that of the real law, a unit of the last place away: no first order.
                        assert abs(found - true) < float(BALL_FAILURE) / 5
                    assert true > -points.MODE_SLACK


def test_doubles_and_integers_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every coin and every rounding is done again in exact arithmetic, with the same words."""
    count = 60
    mode = np.linspace(-1, 1, count)
    law = normal_laws(mode, np.where(np.abs(mode) == 1, mode * -3, 0.0), np.full(count, 1.0), 4.0)
    step = 2.0**-12

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        numbers = draw_offsets(law, rng=as_successive(np.random.default_rng(5)))
        return numbers.words, rounded(law.mode, numbers, step)

    fast = drawn()
    monkeypatch.setattr(points, "PLACE_MARGIN", 2.0)
    calls = []
    monkeypatch.setattr(points, "EXPONENT_MARGIN", 0.24)
    falls_below = points.falls_below
    monkeypatch.setattr(points, "falls_below", lambda *a: calls.append(a) or falls_below(*a))
    slow = drawn()
    assert calls
    assert np.array_equal(fast[0], slow[0]) and np.array_equal(fast[1], slow[1])


def test_a_number_beyond_the_end_by_less_than_doubles_know_is_refused() -> None:
    """The end is half a width away: a share of 1/2 + 2^-100 lies outside, one of 1/2 just inside."""
    law = UnivariateLaw(
        np.zeros(1), np.ones(1), np.full((2, 1), 0.5), lambda _, offsets: 0.0 * offsets, lambda *_: Fraction(0)
    )
    none = [(1 << 64) - 1] * 6 + [1]  # no width further: six digits, and all above
    right, further, beyond = 1 << 63, [*none, 0], 1 << 27
    for low, words in ((0, further), (beyond, [*further, right | 1 << 61, 0, *further])):
        source_ = ChosenWords([right | 1 << 62, low, *words])
        drawn = draw_offsets(law, rng=source_)
        assert drawn.offset(0) == Fraction(1, 4 if low else 2) and not source_.rest


def test_points_of_a_ball_are_turned_alike_in_sixty_digits() -> None:
    rng = np.random.default_rng(6)
    center, sides = rng.normal(size=7), rng.normal(size=6)
    along, away, step = Fraction(1, 3), Fraction(2, 7), 2.0**-20
    found = points._turned(along, away, sides, center)
    exact = points._turned_exactly(along, away, [Fraction(float(side)) for side in sides], center, step)
    assert np.allclose(found / step, [float(each) for each in exact], rtol=1e-12)
    assert math.isclose(np.linalg.norm(found) ** 2, float(along**2 + away**2), rel_tol=1e-12)
    assert math.isclose(found @ center / np.linalg.norm(center), 1 / 3, rel_tol=1e-12)


def test_a_ball_asks_for_sixty_digits_where_doubles_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    center = np.array([0.3, -0.2, 0.1])
    draw = lambda: draw_point(Ball(3, 1.0), center, 5.0, 2.0**-21, rng=as_successive(np.random.default_rng(7)))  # noqa: E731
    fast = draw()
    monkeypatch.setattr(np, "rint", lambda x: x)
    assert np.array_equal(fast, draw())


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="too narrow"):
        grid_step(Ball(2, 1e12), 1e3)
    with pytest.raises(InputError, match="at most 2048"):
        grid_step(Ball(3000, 1.0), 1.0)


def test_failures_are_those_of_every_number() -> None:
    assert draw_failure(Box((0.0,), (1.0,))) == points.OFFSET_FAILURE
    assert draw_failure(Unbounded(5, 1.0)) == 5 * points.OFFSET_FAILURE
    assert draw_failure(Ball(5, 1.0)) == BALL_FAILURE + 5 * points.OFFSET_FAILURE
