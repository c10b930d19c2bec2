"""Regressors on released numbers: noise of mean zero does not move what is best."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import labeldp as ldp
from labeldp.learners import NoisyNumberRegressor, boosted_regression, judged, tune
from labeldp.privacy import InputError, Release
from learners.data import released


def numbers(records: int, epsilon: float = 4.0) -> tuple[np.ndarray, np.ndarray, Release]:
    """Features, numbers from 0 to 10 that depend on them in a line, and their release."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (records, 3))
    labels = 5 + features @ [2.0, -1.0, 0.0] + rng.normal(0, 0.5, records)
    domain = ldp.Interval(0, 10)
    curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=epsilon))
    return features, labels, curator.release(ldp.DiscreteLaplace(domain=domain, epsilon=epsilon), rng=rng)


def test_least_squares_on_released_numbers_finds_the_line() -> None:
    features, _, release = numbers(40_000)
    model = NoisyNumberRegressor(LinearRegression()).fit(features, release)
    np.testing.assert_allclose(model.estimator_.coef_, [2, -1, 0], atol=0.2)
    assert model.certificate_ is release.certificate
    assert model.predict(100 * features[:9]).min() >= 0 and model.predict(100 * features[:9]).max() <= 10


def test_by_default_trees_are_boosted() -> None:
    features, labels, release = numbers(6000)
    found = NoisyNumberRegressor().fit(features, release).predict(features)
    assert np.mean((found - labels) ** 2) < 0.6 * labels.var()
    few, many = (boosted_regression(count) for count in (100, 5000))
    assert not few.early_stopping and many.early_stopping and few.max_iter < many.max_iter


def test_what_tuning_holds_out_is_an_evaluation() -> None:
    features, labels, release = numbers(3000)
    tuned = tune([NoisyNumberRegressor(LinearRegression()), NoisyNumberRegressor()], features, release)
    assert tuned.held_out.shape == (3000,) and tuned.scores[0] > tuned.scores[1]
    seen = judged(release, tuned.held_out, "held out", np.arange(3000))
    found = seen.squared_error(1 - 1e-12)  # type: ignore[union-attr]
    assert found.low < np.mean((labels - tuned.held_out) ** 2) < found.high


def test_bad_input_is_refused() -> None:
    features, _, release = numbers(100)
    with pytest.raises(InputError, match="Interval"):
        NoisyNumberRegressor().fit(features, released([0, 1] * 50))
    with pytest.raises(InputError, match="one row for each record"):
        NoisyNumberRegressor().fit(features[1:], release)
    with pytest.raises(InputError, match="scikit-learn regressor"):
        NoisyNumberRegressor(3).fit(features, release)
    with pytest.raises(InputError, match="numbers"):
        NoisyNumberRegressor().fit(np.full((100, 1), "text"), release)
