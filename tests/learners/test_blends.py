"""A ridge regression whose prior the values choose, trees on binned columns, and their weighted sum."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from labeldp.learners.blends import (
    FOLDS,
    Blend,
    _log_likelihood,
    _shares,
    binned,
    quantile_cuts,
    ridge_regression,
)


def made_up(records: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=(records, 2)), rng.integers(0, 3, records)])
    return table, 50 + 8 * table[:, 0] + 6 * (table[:, 2] == 1) + rng.normal(size=records)


def test_the_likelihood_is_that_of_normal_values_at_its_best_noise() -> None:
    rng = np.random.default_rng(1)
    rows, values, weights = rng.normal(size=(12, 3)), rng.normal(size=12), rng.uniform(0.5, 2, 12)
    gram, moment, square = rows.T @ (rows * weights[:, None]), rows.T @ (weights * values), weights @ values**2
    found, expected = [], []
    for variances in (np.array([0.5, 1.0, 2.0]), np.array([0.01, 3.0, 0.0])):
        covariance = np.diag(1 / weights) + rows * variances @ rows.T
        noise = float(values @ np.linalg.solve(covariance, values)) / 12
        expected.append(multivariate_normal(np.zeros(12), noise * covariance).logpdf(values))
        found.append(_log_likelihood(gram, moment, square, variances, 12))
    assert found[0] - found[1] == pytest.approx(expected[0] - expected[1])


def test_columns_that_say_nothing_are_left_out_and_others_are_not() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(2000, 12))
    values = rows[:, 0] + rng.normal(size=2000)
    folds, kinds = np.arange(2000) % FOLDS, np.repeat([0, 1], [2, 10])
    coefficients, held_out = ridge_regression(rows, kinds, values, np.ones(2000), folds)
    assert coefficients[0] == pytest.approx(1, abs=0.1) and np.abs(coefficients[2:]).max() < 0.05
    assert np.corrcoef(held_out, rows[:, 0])[0, 1] > 0.99


def test_shares_follow_held_out_values_and_without_information_the_regression() -> None:
    rng = np.random.default_rng(3)
    line, forest = rng.normal(size=(2, 5000))
    both = np.column_stack([line, forest])
    assert _shares(both, 0.3 * line + 0.6 * forest, np.ones(5000)) == pytest.approx([0.3, 0.6], abs=0.05)
    assert _shares(0.001 * both, rng.normal(size=5000), np.ones(5000)) == pytest.approx([1, 0], abs=0.05)


def test_bins_keep_order_gaps_and_categories() -> None:
    table = np.column_stack([np.random.default_rng(0).normal(size=600), np.arange(600.0), np.arange(600) % 3])
    table[5, 0] = np.nan
    cuts = quantile_cuts(table, np.array([False, True, False]))
    coded = binned(table, cuts)
    assert np.isnan(coded[5, 0]) and np.array_equal(coded[:, 1:], table[:, 1:])
    order = np.argsort(table[:, 0])[:-1]
    assert np.all(np.diff(coded[order, 0]) >= 0) and len(np.unique(coded[order, 0])) == 255


def test_a_blend_is_its_weighted_parts_within_the_range() -> None:
    table, labels = made_up()
    blend = Blend(table, np.array([False, False, True]), (0.0, 100.0))
    model = blend.fit(np.arange(200), labels[:200], np.repeat([1.0, 2.0], 100))
    assert np.sqrt(np.mean((model.predict(table[200:]) - labels[200:]) ** 2)) < 0.4 * labels.std()
    trees = np.mean([tree.predict(binned(table, model.cuts)) for tree in model.trees], axis=0)
    lines = sum(line.predict(table) for line in model.lines)
    total = model.offset + model.shares[0] * lines + model.shares[1] * trees
    np.testing.assert_allclose(model.predict(table), np.clip(total, 0, 100))
    model.ends = (40.0, 60.0)
    assert model.predict(table).min() == 40 and model.predict(table).max() == 60
