import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier

from labeldp.learners.probabilities import expanded, normalized, tempered, unmixed


def test_rows_without_mass_become_uniform() -> None:
    np.testing.assert_allclose(normalized([[1, 3], [0, 0]]), [[0.25, 0.75], [0.5, 0.5]])


def test_a_floor_raises_small_entries() -> None:
    np.testing.assert_allclose(normalized([[-1.0, 1.0]], floor=0.25), [[0.2, 0.8]])


def test_temperature_one_half_squares() -> None:
    np.testing.assert_allclose(tempered([[0.25, 0.75]], 0.5), [[0.1, 0.9]])
    np.testing.assert_allclose(tempered([[0.25, 0.75], [0.0, 1.0]], 1.0), [[0.25, 0.75], [0.0, 1.0]], atol=1e-300)


def test_noise_is_undone() -> None:
    matrix = np.array([[0.75, 0.25], [0.25, 0.75]])
    np.testing.assert_allclose(unmixed([[0.5, 0.5], [0.35, 0.65]], matrix), [[0.5, 0.5], [0.2, 0.8]])


def test_what_noise_cannot_have_made_is_clipped() -> None:
    rows = unmixed([[0.0, 1.0]], np.array([[0.75, 0.25], [0.25, 0.75]]))
    assert 0 < rows[0, 0] < 1e-3


@given(st.lists(st.floats(0.05, 1), min_size=3, max_size=3), st.floats(0.1, 0.9))
def test_unmixing_inverts_every_noise_matrix(masses: list[float], keep: float) -> None:
    truth = np.array([masses]) / sum(masses)
    matrix = np.full((3, 3), (1 - keep) / 2) + (keep - (1 - keep) / 2) * np.eye(3)
    if abs(keep - 1 / 3) > 0.05:
        np.testing.assert_allclose(unmixed(truth @ matrix, matrix), truth, atol=1e-6)


def test_classes_that_never_occurred_get_zero() -> None:
    model = DummyClassifier().fit(np.zeros((4, 1)), [0, 2, 2, 2])
    np.testing.assert_allclose(expanded(model, np.zeros((1, 1)), 4), [[0.25, 0, 0.75, 0]])


@pytest.mark.parametrize("temperature", [0.05, 20.0])
def test_extreme_temperatures_stay_finite(temperature: float) -> None:
    rows = tempered([[1e-300, 1.0 - 1e-300], [0.5, 0.5]], temperature)
    assert np.all(np.isfinite(rows))
    np.testing.assert_allclose(rows.sum(axis=1), 1)
