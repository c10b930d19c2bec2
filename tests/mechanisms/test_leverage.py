"""The span of a bag's features, in floating point."""

import numpy as np

from labeldp.mechanisms.bagging.leverage import span


def flags(rng: np.random.Generator, size: int) -> np.ndarray:
    """Two sets of categories, of which some do not occur and which add up to the same, and numbers."""
    first, second = np.eye(40)[rng.integers(0, 40, size)], np.eye(20)[rng.integers(0, 20, size)]
    return np.column_stack([first, second, rng.normal(size=(size, 11))])


def test_dependent_features_lie_in_the_span_to_the_last_bit_and_bags_keep_a_fine_grid() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        rows = flags(rng, 64)
        basis, lost = span(rows)
        assert basis.shape[1] == np.linalg.matrix_rank(rows) and lost < 2.0**-50
        np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-11)
        np.testing.assert_allclose(basis @ (basis.T @ rows), rows, atol=1e-11)


def test_columns_that_nearly_cancel_leave_an_orthonormal_basis_and_what_it_misses_is_measured() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(50, 4))
    rows = np.column_stack([rows, rows[:, 0] + 1e-13 * rng.normal(size=50)])
    basis, lost = span(rows)
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-10)
    assert lost < 2.0**-45
    rows[:, 4] = rows[:, 0] + 1e-15 * rng.normal(size=50)
    basis, lost = span(rows)
    assert basis.shape[1] == 4 and 1e-16 < lost < 1e-13
