"""What all methods see is made of features alone, and the penalty of a softmax of released labels."""

import numpy as np
import pytest

from labeldp.mechanisms import Classes
from labeldp.privacy import InputError
from papers.peers.footing import FACTORS, Footing, footing, load_footing


def made(labels: np.ndarray) -> Footing:
    table = np.random.default_rng(0).normal(size=(700, 5))
    return footing("made up", Classes(2), table[:600], labels, table[600:], np.zeros(100, dtype=int))


def test_rows_are_white_and_no_label_moves_them() -> None:
    one, other = made(np.zeros(600, dtype=int)), made(np.ones(600, dtype=int))
    assert one.digest == other.digest and np.array_equal(one.rows, other.rows)
    assert np.allclose(one.rows[:, 1:].T @ one.rows[:, 1:] / 600, np.eye(one.rows.shape[1] - 1), atol=1e-2)
    assert np.array_equal(one.rows[:, 0], np.ones(600)) and one.test_rows.shape == (100, one.rows.shape[1])
    assert one.signal[1:].sum() == pytest.approx(1.0)


def test_labels_of_pure_noise_get_the_largest_penalty_and_clear_ones_the_smallest() -> None:
    side = made(np.zeros(600, dtype=int))
    noise = np.random.default_rng(1).integers(0, 2, 600)
    assert side.best_factor(side.one_hot(noise)) == max(FACTORS)
    assert side.best_factor(side.one_hot((side.rows[:, 1] > 0).astype(int))) == min(FACTORS)


def test_scores_and_numbers_are_measured() -> None:
    side = made(np.zeros(600, dtype=int))
    assert side.metric == "accuracy" and side.measure(np.tile([1.0, 0.0], (100, 1))) == 1.0


def test_too_few_records_and_missing_data_are_refused(tmp_path: object) -> None:
    with pytest.raises(InputError, match="at least 500 training records"):
        footing("made up", Classes(2), np.zeros((9, 2)), np.zeros(9), np.zeros((9, 2)), np.zeros(9))
    with pytest.raises(InputError, match="--data must be given: the files of mnist"):
        load_footing("mnist", None, 600)
    with pytest.raises(InputError, match="--data must hold hillstrom"):
        load_footing("hillstrom", None, 600)
