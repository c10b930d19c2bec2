"""The intrinsic dimension of features: known shapes, and what must not change it."""

import numpy as np
import pytest

from labeldp.learners import intrinsic_dimension
from labeldp.privacy import InputError


def bent(dimension: int, columns: int, records: int = 2000, seed: int = 0) -> np.ndarray:
    """Points of a cube of few dimensions, bent into more columns."""
    rng = np.random.default_rng(seed)
    inner = rng.random((records, dimension))
    mixed = inner @ rng.normal(size=(dimension, columns))
    return np.column_stack([mixed, np.sin(mixed[:, 0])])


@pytest.mark.parametrize(("dimension", "columns"), [(1, 5), (2, 6), (3, 10), (5, 20)])
def test_it_is_that_of_the_cube_that_was_bent(dimension: int, columns: int) -> None:
    assert intrinsic_dimension(bent(dimension, columns)) == pytest.approx(dimension, rel=0.2)


def test_units_gaps_copies_and_constants_change_little() -> None:
    features = bent(2, 4)
    plain = intrinsic_dimension(features)
    assert intrinsic_dimension(features * [1, 1e6, 1e-6, 1, 1]) == pytest.approx(plain)
    assert intrinsic_dimension(np.repeat(features, 2, axis=0)) == pytest.approx(plain)
    assert intrinsic_dimension(np.column_stack([features, np.ones(len(features))])) == pytest.approx(plain)
    gaps = features.copy()
    gaps[::50, 0] = np.nan
    assert intrinsic_dimension(gaps) == pytest.approx(plain, rel=0.2)


def test_many_records_are_drawn_from_by_the_seed() -> None:
    features = bent(2, 3, records=12_000)
    assert intrinsic_dimension(features, seed=1) == intrinsic_dimension(features, seed=1)
    assert intrinsic_dimension(features, seed=1) == pytest.approx(intrinsic_dimension(features, seed=2), rel=0.1)


def test_it_is_at_most_the_number_of_columns() -> None:
    assert intrinsic_dimension(np.random.default_rng(0).integers(0, 3, (500, 4))) <= 4
    assert intrinsic_dimension([[0.0], [1.0], [2.0]]) == 1
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert intrinsic_dimension(corners, neighbors=2) == 2, "all neighbors are as far: no bound but the columns"


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (np.ones((10, 2)), "at least three different rows"),
        ([["a"], ["b"]], "features must be numbers"),
        (np.zeros((0, 2)), "features must be a table of numbers"),
        ([[1.0], [np.inf], [2.0]], "features must be finite"),
    ],
)
def test_what_has_no_dimension_is_refused(features: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        intrinsic_dimension(features)


def test_neighbors_must_be_a_number() -> None:
    with pytest.raises(InputError, match="neighbors must be a positive integer"):
        intrinsic_dimension(bent(1, 1), neighbors=0)
