"""How far sums of distances reach: less noise for near labels, and more reach where counts are in doubt."""

import numpy as np

from labeldp.learners.distances import Distances
from labeldp.mechanisms import Interval

RANGE, NEAR = Interval(0, 100, grid=101), np.array([0.7, 0.2, 0.1, 0.0])


def reach(doubt: float, shares: np.ndarray = NEAR, noise: float = 1.0) -> float:
    distances = Distances.of(RANGE, len(shares), shares, np.full(len(shares), doubt))
    return distances.reach(lambda reach: (noise * reach / 100) ** 2)


def test_a_reach_is_small_where_labels_are_near_and_counts_are_exact() -> None:
    assert reach(0.0, noise=30) < reach(0.0, noise=1) <= 100
    assert reach(0.0, noise=30) < reach(0.0, NEAR[::-1], noise=30)


def test_doubt_about_far_labels_keeps_the_reach_long() -> None:
    assert reach(0.05**2, noise=30) > reach(0.0, noise=30)


def test_a_better_model_leaves_smaller_distances() -> None:
    distances = Distances.of(RANGE, 4, NEAR, np.zeros(4))
    assert np.isclose(distances.after(distances.square / 2).square, distances.square / 2)
    assert np.isclose(distances.after(distances.square).square, distances.square / 10)  # never less than a tenth
