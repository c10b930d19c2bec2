"""Bits per label: golden values, brute force, and how near partitions come to the most that can be told."""

from itertools import combinations, product
from math import exp

import numpy as np
import pytest

from benchmarks.bits import subset_selection_bits, unary_bits
from labeldp.mechanisms import (
    Classes,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
    best_groups,
    local_hashing_bits,
    response_bits,
)
from labeldp.privacy import InputError


def bits_of(matrix: np.ndarray) -> float:
    """The mutual information of a uniform label and its answer, from the matrix P(z | y)."""
    mean = matrix.mean(axis=0)
    return float(np.sum(matrix * np.log2(matrix / mean)) / len(matrix))


def partition_matrix(classes: int, groups: int, epsilon: float) -> np.ndarray:
    """P(group answered | class) under one partition; all partitions into groups of these sizes tell the same."""
    group = np.arange(classes) % groups
    total = exp(epsilon) + groups - 1
    return np.where(group[:, None] == np.arange(groups), exp(epsilon) / total, 1 / total)


def unary_matrix(classes: int, epsilon: float) -> np.ndarray:
    """P(bits | class) over all 2**K answers."""
    keep = exp(epsilon / 2) / (1 + exp(epsilon / 2))
    answers = np.array(list(product((0, 1), repeat=classes)))
    own = np.eye(classes, dtype=int)[:, None, :]
    return np.where(answers[None] == own, keep, 1 - keep).prod(axis=2)


def subset_matrix(classes: int, size: int, epsilon: float) -> np.ndarray:
    """P(set | class) over all sets of some size."""
    inside = np.array([[k in answer for answer in combinations(range(classes), size)] for k in range(classes)])
    weights = np.where(inside, exp(epsilon), 1.0)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("classes", [2, 3, 5, 7])
def test_every_sum_is_that_of_the_whole_matrix(classes: int, epsilon: float) -> None:
    for groups in range(2, classes + 1):
        by_hand = bits_of(partition_matrix(classes, groups, epsilon))
        assert local_hashing_bits(classes, epsilon, groups) == pytest.approx(by_hand, rel=1e-9, abs=1e-13)
    for size in range(1, classes):
        by_hand = bits_of(subset_matrix(classes, size, epsilon))
        assert subset_selection_bits(classes, epsilon, size) == pytest.approx(by_hand, rel=1e-9, abs=1e-13)
    assert unary_bits(classes, epsilon) == pytest.approx(bits_of(unary_matrix(classes, epsilon)), rel=1e-9, abs=1e-13)
    whole = RandomizedResponse(domain=Classes(classes), epsilon=epsilon).matrix()
    assert response_bits(classes, epsilon) == pytest.approx(bits_of(whole), rel=1e-9, abs=1e-13)


def test_mechanisms_tell_what_the_sums_say() -> None:
    subset = SubsetSelection(domain=Classes(5), epsilon=1.0)
    assert bits_of(subset.matrix()) == pytest.approx(subset_selection_bits(5, 1.0), rel=1e-9)
    bit = UnaryEncoding(domain=Classes(4), epsilon=1.5).matrix()
    answers = np.array(list(product((0, 1), repeat=4)))
    joint = np.stack([np.take_along_axis(bit[k], answers.T, axis=1).prod(axis=0) for k in range(4)])
    assert bits_of(joint) == pytest.approx(unary_bits(4, 1.5), rel=1e-9)


GOLDEN = {  # K, epsilon: randomized response, unary, best partition, optimum; and the best number of groups
    (10, 0.5): (0.0210, 0.0403, 0.0437, 0.0449, 2),
    (10, 1): (0.1059, 0.1582, 0.1760, 0.1765, 3),
    (10, 2): (0.588, 0.587, 0.684, 0.684, 5),
    (10, 3): (1.449, 1.172, 1.449, 1.449, 10),
    (10, 8): (3.283, 3.081, 3.283, 3.283, 10),
    (100, 1): (0.014, 0.175, 0.1778, 0.1779, 3),
    (100, 3): (0.478, 1.355, 1.453, 1.453, 9),
    (100, 4): (1.43, 2.16, 2.408, 2.408, 17),
    (100, 8): (6.23, 5.14, 6.23, 6.23, 100),
}


@pytest.mark.parametrize(("classes", "epsilon"), GOLDEN)
def test_golden_values(classes: int, epsilon: float) -> None:
    *golden, groups = GOLDEN[classes, epsilon]
    assert best_groups(classes, epsilon) == groups
    found = (
        response_bits(classes, epsilon),
        unary_bits(classes, epsilon),
        local_hashing_bits(classes, epsilon, groups),
        subset_selection_bits(classes, epsilon),
    )
    assert found == pytest.approx(golden, rel=3e-3)


def test_randomized_response_carries_as_much_for_up_to_three_classes() -> None:
    for epsilon in np.geomspace(1e-3, 12, 60).tolist():
        assert best_groups(2, epsilon) == 2
        assert best_groups(3, epsilon) == 3


@pytest.mark.parametrize(("classes", "crossing"), [(4, 0.8), (5, 1.3), (7, 2.0), (10, 2.6), (20, 3.7), (100, 5.85)])
def test_partitions_win_below_an_epsilon_that_grows_with_the_classes(classes: int, crossing: float) -> None:
    assert best_groups(classes, 0.93 * crossing) < classes
    assert best_groups(classes, 1.07 * crossing) == classes


@pytest.mark.parametrize("classes", [3, 4, 5, 7, 10, 20, 100])
def test_the_best_partition_is_near_the_most_that_can_be_told(classes: int) -> None:
    for epsilon in np.geomspace(0.1, 8, 40).tolist():
        share = local_hashing_bits(classes, epsilon, best_groups(classes, epsilon)) / subset_selection_bits(
            classes, epsilon
        )
        assert (0.965 if classes >= 10 else 0.93) <= share <= 1 + 1e-9


def test_extreme_numbers_stay_finite() -> None:
    for epsilon in (1e-6, 700, 1000):
        for classes in (2, 1000, 1 << 16):
            groups = best_groups(classes, epsilon)
            assert 0 <= local_hashing_bits(classes, epsilon, groups) <= np.log2(classes) + 1e-9


def test_numbers_out_of_range_are_refused() -> None:
    for refused in (
        lambda: best_groups(1, 1),
        lambda: local_hashing_bits(5, 1, 6),
        lambda: subset_selection_bits(5, 1, 5),
        lambda: unary_bits(5, -1),
        lambda: response_bits(True, 1),
    ):
        with pytest.raises(InputError):
            refused()
