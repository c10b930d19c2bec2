"""Sums of rows that labels choose: exact, as far apart as rows are, refused where rows are not public."""

from typing import Any

import numpy as np
import pytest

from labeldp.curator import Curator
from labeldp.mechanisms import Classes, GaussianChoice, Interval
from labeldp.privacy import Budget, InputError
from mechanisms.examples import public

ROWS = np.array([[[3.0, 4.0], [0.0, 0.0], [-3.0, 0.0]], [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])


def choice(rows: Any = ROWS, **changes: Any) -> GaussianChoice:
    given = {"domain": Classes(3), "epsilon": 1.0, "delta": 1e-6, "rows": public(rows), "resolution": 50, **changes}
    return GaussianChoice(**given)


@pytest.mark.guarantee("labeldp.mechanisms:GaussianChoice", "approximate")
def test_by_hand_the_longest_move_is_the_largest_distance_of_two_rows_of_one_record() -> None:
    mechanism = choice()
    assert mechanism.choices.unit == 0.1
    assert mechanism.sensitivity_square == 60**2 + 40**2
    assert mechanism.sums(np.array([0, 1], dtype=np.uint8)).tolist() == [40, 40]
    assert mechanism.total([40, 40]).tolist() == [4.0, 4.0]
    assert mechanism.privacy_loss().within(1, 1e-6) and not mechanism.privacy_loss().within(0.99, 1e-6)


def test_distances_are_those_of_64_bit_integers() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 4, 300))
    steps = choice(rows, domain=Classes(4), resolution=1 << 14).choices.steps.astype(np.int64)
    exact = max(int(((steps[:, i] - steps[:, j]) ** 2).sum(axis=1).max()) for i in range(4) for j in range(i))
    assert choice(rows, domain=Classes(4), resolution=1 << 14).sensitivity_square == exact


def test_longer_rows_are_cut_and_the_noise_is_centered() -> None:
    cut = choice(clip=1.0)
    assert np.linalg.norm(cut.values(), axis=2).max() == pytest.approx(1.0, abs=0.02)
    curator = Curator(np.array([0, 1]), domain=Classes(3), budget=Budget(1, 1e-6))
    release = curator.release(cut, rng=np.random.default_rng(0))
    assert release.certificate.trust.name == "CENTRAL" and release.value.shape == (2,)
    noise = cut.draw_noise(4000, rng=np.random.default_rng(1))
    assert abs(noise.mean()) < 6 * cut.stddev / np.sqrt(4000)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domain": Interval(0, 1)}, "domain must be Classes"),
        ({"rows": ROWS[0]}, r"rows must be a finite array of numbers, shape \(n, K, d\)"),
        ({"rows": ROWS * np.nan}, "rows must be a finite array"),
        ({"rows": ROWS[:, :2]}, "rows must have a row for each of the 3 classes"),
        ({"rows": np.ones((2, 3, 2))}, "rows must differ between the classes"),
        ({"clip": 0}, "clip must be a positive finite norm"),
        ({"resolution": 0}, "resolution must be an integer number of grid steps"),
        ({"delta": 0}, r"delta must lie in \(0, 1\)"),
        ({"epsilon": 0}, "epsilon must be positive"),
    ],
)
def test_what_cannot_be_promised_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        choice(**changes)


def test_rows_that_may_have_seen_labels_are_refused() -> None:
    with pytest.raises(InputError, match=r"rows must be Public\(array"):
        GaussianChoice(domain=Classes(3), epsilon=1.0, delta=1e-6, rows=ROWS)
