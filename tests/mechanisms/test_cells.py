"""Sums over cells, by hand, and what they refuse."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labeldp.learners import CubeGrid
from labeldp.mechanisms import Classes, GroupSizes, Interval, LaplaceSum
from labeldp.privacy import DomainError, InputError, Public

GRID = CubeGrid.of_side(0.5, [(0, 1), (0, 1)])
WHY = "written by hand for a test"


def test_the_noise_of_a_cell_mean_has_scale_range_over_records_times_epsilon() -> None:
    """Equation (23), corrected: (high - low)/(n_l epsilon)."""
    mechanism = LaplaceSum(domain=Interval(-5, 5, grid=11), epsilon=0.5, groups=Public([0, 0, 1], why=WHY))
    assert mechanism.rate == Fraction(1, 20)
    assert mechanism.scale == 20.0 == 10 / 0.5
    noise = mechanism.release_counts(np.zeros((200_000, 1), dtype=np.int64), rng=np.random.default_rng(0))
    means = mechanism.means(noise, np.full(len(noise), 4))
    assert np.mean(np.abs(means + 5)) == pytest.approx(10 / (4 * 0.5), rel=0.02)  # E|Laplace(b)| = b


def test_sums_and_means_by_hand() -> None:
    groups = Public(np.array([2, 0, 2, 2]), why=WHY)
    mechanism = LaplaceSum(domain=Interval(10, 20, grid=11), epsilon=1000, groups=groups)
    codes = mechanism.domain.encode([11, 20, 13, 14])
    assert mechanism.counts(codes).tolist() == [[10], [0], [8]]
    released = mechanism.randomize(codes, rng=np.random.default_rng(0))  # so much epsilon that there is no noise
    means = mechanism.means(released, [1, 0, 3])
    assert means[[0, 2]] == pytest.approx([20, 38 / 3])
    assert np.isnan(means[1])


def test_sums_that_doubles_do_not_hold_exactly_are_refused() -> None:
    groups = Public(GroupSizes(np.array([1 << 32, 1 << 32]), "a digest"), why=WHY)
    assert LaplaceSum(domain=Interval(0, 1, grid=(1 << 20) + 1), epsilon=1, groups=groups).records == 1 << 33
    with pytest.raises(InputError, match="not exact in doubles: take a coarser grid"):
        LaplaceSum(domain=Interval(0, 1, grid=(1 << 20) + 2), epsilon=1, groups=groups)


def test_a_clipped_interval_takes_every_number_but_nan() -> None:
    interval = Interval(-1, 1, grid=3, clip=True)
    assert interval.encode([-7, 0.2, 1e300, -np.inf]).tolist() == [0, 1, 2, 0]
    assert interval != Interval(-1, 1, grid=3)
    assert interval.to_json() == {"low": "-1", "high": "1", "grid": 3, "clip": True}
    assert "clip" not in Interval(-1, 1, grid=3).to_json()
    with pytest.raises(DomainError):
        interval.encode([np.nan])


def test_a_grid_of_cubes_by_hand() -> None:
    grid = CubeGrid.of_side([0.5, 1], [(0, 1), (-1, 1.5)])
    assert grid.shape == (2, 3)
    assert grid.high == (1.0, 2.0)
    assert grid.cells == 6
    assert grid.index([[0.1, -0.5], [0.6, 1.7], [0.5, 0.0], [-3, 99]]).tolist() == [0, 5, 4, 2]
    assert grid.centers([0, 5]).tolist() == [[0.25, -0.5], [0.75, 1.5]]
    assert np.array_equal(grid.index(grid.centers(np.arange(6))), np.arange(6))
    assert CubeGrid.of_side(0.1, [(0, 1)]).shape == (10,)


@pytest.mark.parametrize(
    ("side", "bounds", "message"),
    [
        (0, [(0, 1)], "side must be a positive number"),
        ("a", [(0, 1)], "side and bounds must be numbers"),
        (0.1, [(1, 0)], "bounds must be finite pairs"),
        (0.1, [(0, np.inf)], "bounds must be finite pairs"),
        (0.1, [0, 1], "bounds must be finite pairs"),
        (1e308, [(-1e308, 1e308)], "bounds so wide"),
        (1e-300, [(0, 1e10)], "side must not be so small"),
        (1e-3, [(0, 1)] * 7, "more than 2\\*\\*62 cubes"),
    ],
)
def test_a_grid_refuses(side: Any, bounds: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CubeGrid.of_side(side, bounds)


def test_a_private_feature_of_any_size_is_clamped_in_silence() -> None:
    """No warning (they are errors here) and no error tells that some feature is far outside."""
    largest = np.finfo(float).max
    far = [[largest, -largest], [-largest, largest]]
    assert GRID.index(far).tolist() == [2, 1]
    wide = CubeGrid.of_side(4e307, [(-8e307, 8e307)] * 2)
    assert wide.index(far).tolist() == [12, 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Interval(0, 1, clip="yes"), "clip must be"),
        (
            lambda: LaplaceSum(domain=Classes(3), epsilon=1, groups=Public([0], why=WHY)),
            "domain must be Interval, .* or two classes",
        ),
    ],
)
def test_what_cells_refuse(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((InputError, DomainError), match=message):
        make()


def test_other_groups_have_another_digest() -> None:
    """Also where their bytes are the same: 256 in two bytes is 0 and 1 in one byte each."""
    each = [[0, 1], [256], [0, 0, 1], [1, 0], []]
    digests = [
        LaplaceSum(
            domain=Interval(0, 1), epsilon=1, groups=Public(np.array(groups, dtype=int), why=WHY)
        ).partition.digest
        for groups in each
    ]
    assert len(set(digests)) == len(each)


@pytest.mark.parametrize("bounds", [[(0, 0)], [(0, 1), (2, 2)], [(1, 0)], [(0, np.nan)], [0, 1], [(0, 1, 2)]])
def test_a_cube_without_width_is_refused(bounds: Any) -> None:
    with pytest.raises(InputError, match="bounds"):
        CubeGrid.of_side(0.5, bounds)


def test_what_lies_outside_of_the_bounds_is_counted_at_the_border() -> None:
    grid = CubeGrid.of_side(0.5, [(0, 1), (-1, 1)])
    rows = np.array([[-9.0, -9.0], [0.0, -1.0], [1.0, 1.0], [9.0, 9.0], [9.0, -9.0]])
    assert grid.index(rows).tolist() == [0, 0, grid.cells - 1, grid.cells - 1, grid.cells - grid.shape[1]]
