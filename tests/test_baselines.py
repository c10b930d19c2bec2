"""The comparison of defaults with baselines: paired, and corrected for all cells."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.baselines import FIELDS, OURS, compared, holm


def test_holm_steps_down() -> None:
    """Sorted: 3 x 0.01 = 0.03, 2 x 0.02 = 0.04, and 1 x 0.03 is raised to 0.04."""
    assert np.allclose(holm(np.array([0.03, 0.01, 0.02])), [0.04, 0.03, 0.04])
    assert np.allclose(holm(np.array([0.6, 0.9])), [1, 1])


def rows(column: str, scores: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    """Return rows as a run stores them, at epsilon = 1."""
    return pd.DataFrame(
        [
            (column, 4000, 1.0, seed, trust, method, score, 1.0, 100)
            for (trust, method), series in scores.items()
            for seed, score in enumerate(series)
        ],
        columns=list(FIELDS),
    )


def test_a_cell_is_paired_by_seed_with_its_best_baseline() -> None:
    """Runs differ by ten points, and ours is half a point below in each; the curator takes the local baseline, too."""
    base = np.array([80.0, 90.0, 85.0, 70.0, 75.0])
    wiggle = np.array([0.01, -0.01, 0.02, 0.0, -0.02])
    scores = {
        ("local", OURS): base - 0.5 + wiggle,
        ("local", "RR + logistic"): base,
        ("local", "RR + boosting"): base - 1,
        ("central", OURS): base + 2 + wiggle,
        ("central", "noisy sums"): base - 3,
    }
    local, central = compared(rows("adult", {key: list(values) for key, values in scores.items()})).itertuples()
    assert (local.trust, local.best, local.runs) == ("local", "RR + logistic", 5)
    assert local.gain == pytest.approx(-0.5) and local.adjusted < 1e-4
    assert (central.trust, central.best) == ("central", "RR + logistic")
    assert central.gain == pytest.approx(2) and central.adjusted > 0.9


def test_a_smaller_error_of_numbers_is_a_gain() -> None:
    scores = {
        ("local", OURS): [90.0, 91.0, 89.0],
        ("local", "Laplace + ridge"): [100.0, 100.0, 100.0],
        ("central", OURS): [110.0, 111.0, 109.0],
        ("central", "noisy sums"): [120.0, 120.0, 120.0],
    }
    local, central = compared(rows("bike", scores)).itertuples()
    assert local.gain == pytest.approx(10) and local.adjusted > 0.9
    assert central.best == "Laplace + ridge" and central.gain == pytest.approx(-10) and central.adjusted < 0.05
