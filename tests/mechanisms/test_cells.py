"""Sums over cells and answers for whole records, by hand, and what they refuse."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labeldp.curator import Curator
from labeldp.mechanisms import (
    Classes,
    CubeGrid,
    FullMeans,
    FullSelection,
    Interval,
    LaplaceSum,
    Located,
    PermuteAndFlip,
)
from labeldp.privacy import Budget, DomainError, InputError, Neighbors, Public

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


@pytest.mark.parametrize("private", ["secret", None, [1], 10**400, 1j])
def test_no_message_quotes_a_private_feature(private: Any) -> None:
    with pytest.raises((DomainError, InputError), match="features must") as caught:
        Located(GRID, Classes(2)).encode(([[0.1, private]], [0]))
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert "secret" not in str(caught.value)


def test_a_located_record_is_its_cell_and_its_label() -> None:
    domain = Located(GRID, Classes(("no", "maybe", "yes")))
    features, labels = [[0.1, 0.9], [5, -5], [0.6, 0.7]], ["yes", "no", "maybe"]
    codes = domain.encode((features, labels))
    assert codes.tolist() == [1 * 3 + 2, 2 * 3 + 0, 3 * 3 + 1]
    assert domain.decode(codes).tolist() == [[1, 2], [2, 0], [3, 1]]
    assert domain.table(codes).tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Located([0, 1], Classes(2)), "grid must be a CubeGrid"),
        (lambda: Located(GRID, Located(GRID, Classes(2))), "labels must be the domain"),
        (lambda: Located(CubeGrid.of_side(1e-3, [(0, 1)] * 2), Classes(100)), "more than the 16,777,216"),
        (lambda: Located(GRID, Classes(2)).encode([1, 2, 3]), "the pair"),
        (lambda: Located(GRID, Classes(2)).encode(([[0, 0]], [0, 1])), "one row for each label"),
        (lambda: Located(GRID, Classes(2)).encode(([[0]], [0])), "must have 2 columns"),
        (lambda: Located(GRID, Classes(2)).encode(([[0, np.nan]], [0])), "features must be finite"),
        (lambda: FullSelection(domain=Classes(2), epsilon=1), "domain must be Located"),
        (lambda: FullSelection(domain=Located(GRID, Interval(0, 1)), epsilon=1), "must have Classes"),
        (lambda: FullSelection(domain=Located(GRID, Classes(2)), epsilon=1, rule="best"), "rule must be one of"),
        (lambda: FullMeans(domain=Located(GRID, Classes(2)), epsilon=1, smallest=1), "must have an Interval"),
        (lambda: FullMeans(domain=Located(GRID, Interval(0, 1)), epsilon=1, smallest=0), "smallest \\(n_0\\)"),
        (lambda: FullMeans(domain=Located(GRID, Interval(0, 1)), epsilon=1, smallest=None), "smallest \\(n_0\\)"),
        (lambda: FullMeans(domain=Located(GRID, Interval(0, 1)), epsilon=1e-5, smallest=5), "epsilon is too small"),
        (lambda: Interval(0, 1, clip="yes"), "clip must be"),
        (
            lambda: LaplaceSum(domain=Classes(3), epsilon=1, groups=Public([0], why=WHY)),
            "domain must be Interval, .* or two classes",
        ),
    ],
)
def test_what_whole_records_refuse(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((InputError, DomainError), match=message):
        make()


def test_means_of_cells_by_hand() -> None:
    """Equation (33): the sum of a cell over the larger of its size and n_0, from the middle of the range."""
    mechanism = FullMeans(domain=Located(GRID, Interval(0, 4, grid=5)), epsilon=1, smallest=2)
    table = np.zeros((4, 5), dtype=np.int64)
    table[0, 4] = 1  # one record of 2 above the middle, divided by n_0 = 2
    table[1, 0], table[1, 3] = 2, 2  # mean 1.5
    table[2, 4] = 3
    assert mechanism.means(mechanism.rounded(table)) == pytest.approx([3, 1.5, 4, 2], abs=1e-5)


def test_the_noise_of_a_full_mean_is_that_of_the_paper_or_less() -> None:
    """Equation (36), printed: 6T/(n_0 epsilon); ours: 4T/((n_0 + 1) epsilon)."""
    domain = Located(GRID, Interval(-3, 3, grid=61))
    for smallest in (1, 7, 1000):
        printed, ours = (
            FullMeans(domain=domain, epsilon=0.5, smallest=smallest, printed=printed) for printed in (True, False)
        )
        assert printed.scale == pytest.approx(6 * 3 / (smallest * 0.5), rel=1e-5)
        assert ours.scale == pytest.approx(4 * 3 / ((smallest + 1) * 0.5), rel=1e-5)


def test_the_bound_of_a_full_mean_is_reached() -> None:
    """Two cells of n_0 + 1 records, all at one end but the one that moves: no smaller noise would do."""
    mechanism = FullMeans(domain=Located(GRID, Interval(0, 1, grid=2)), epsilon=1, smallest=3)
    one, two = np.zeros((2, 4, 2), dtype=np.int64)
    one[0], one[1] = [1, 3], [3, 0]
    two[0], two[1] = [0, 3], [3, 1]
    moved = int(np.abs(mechanism.rounded(one) - mechanism.rounded(two)).sum())
    assert mechanism.sensitivity - 3 <= moved <= mechanism.sensitivity


def test_large_cells_are_divided_exactly() -> None:
    """Where the remainder times the units leaves 64 bits."""
    mechanism = FullMeans(domain=Located(GRID, Interval(0, 1, grid=2)), epsilon=1, smallest=10**9)
    table = np.array([[10**9, 2 * 10**9 + 1], [0, 0], [1, 0], [10**9, 10**9]])
    exact = [Fraction(int(b - a), max(int(a + b), 10**9)) * mechanism.fine for a, b in table]
    assert mechanism.rounded(table).tolist() == [int((each + Fraction(1, 2)).__floor__()) for each in exact]


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
def test_protecting_features_costs_selection_nothing(rule: str) -> None:
    """Equation (31), tight: one cell has the law of label privacy at the same epsilon; printed, at half."""
    counts = np.array([5, 3, 4])
    full = FullSelection(domain=Located(GRID, Classes(3)), epsilon=1, rule=rule)
    printed = FullSelection(domain=Located(GRID, Classes(3)), epsilon=1, rule=rule, printed=True)
    half = FullSelection(domain=Located(GRID, Classes(3)), epsilon=0.5, rule=rule)
    assert full.law(counts).argmax() == 0
    assert printed.law(counts) == pytest.approx(half.law(counts))
    if rule == "permute-and-flip":
        groups = Public([0], why=WHY)
        assert full.law(counts) == pytest.approx(
            PermuteAndFlip(domain=Classes(3), epsilon=1, groups=groups).law(counts)
        )
    else:
        weights = np.exp([2.5, 1.5, 2.0])
        assert full.law(counts) == pytest.approx(weights / weights.sum())


def test_a_curator_of_whole_records_says_what_is_protected() -> None:
    domain, rng = Located(GRID, Classes(2)), np.random.default_rng(0)
    features = rng.random((50, 2))
    curator = Curator((features, np.arange(50) % 2), domain=domain, budget=Budget(epsilon=1))
    release = curator.release(FullSelection(domain=domain, epsilon=1), rng=rng)
    assert release.certificate.neighbors is Neighbors.FULL
    sentence = release.certificate.at(0)
    assert sentence.startswith("Differential privacy with epsilon = 1 and delta = 0 for every record of the dataset")
    assert "Changing any one record makes" in sentence
    assert "a trusted curator sees all records and releases a randomized result" in sentence
    assert "the cells and their bounds were chosen without a look at the features" in sentence
    assert release.value.shape == (4,)


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
