"""Learning from numbers that are randomized one by one: the prior, the choice of what answers, and the model."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import labeldp as ldp
from labeldp import learners
from labeldp.learners import NoisyNumberRegressor, fit_numbers, known_numbers, number_prior, number_response
from labeldp.mechanisms import DiscreteLaplace, ResponseOnBins, UnbiasedNumbers
from labeldp.privacy import BudgetExceeded, InputError, Public, positive_epsilon
from slow import mostly_slow

RANGE = ldp.Interval(0, 400, grid=201, clip=True)


def made_up(records: int, seed: int = 0) -> tuple[Any, Any]:
    """Features, and values of which four in five are zero."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(records, 4))
    bought = rng.random(records) < 1 / (1 + np.exp(1.8 - 1.6 * features[:, 0]))
    return features, np.where(bought, np.clip(np.exp(4.2 + 0.5 * features[:, 1]), 1, 400), 0.0)


def curator(labels: Any, epsilon: float) -> ldp.Curator:
    return ldp.Curator(labels, domain=RANGE, budget=ldp.Budget(epsilon))


def released(labels: Any, mechanism: Any, seed: int = 0) -> Any:
    return curator(labels, mechanism.epsilon).release(mechanism, rng=np.random.default_rng(seed))


@pytest.mark.guarantee("labeldp.learners:number_prior", "post_processing")
@pytest.mark.guarantee("labeldp.learners:number_prior", "prior_charged")
@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 1.0, 4.0], [1.0]))
@pytest.mark.parametrize(("shape", "scale"), [((0.1, 0.9), 400), ((6, 4), 400), ((2, 2), 100)])
def test_a_prior_has_the_mean_and_the_spread_of_the_labels(shape: Any, scale: float, epsilon: float) -> None:
    labels = np.random.default_rng(1).beta(*shape, size=8000) * scale
    release = released(labels, UnbiasedNumbers(domain=RANGE, epsilon=epsilon))
    prior = number_prior([release])
    values = RANGE.decode(np.arange(RANGE.size))
    mean = float(prior.value @ values)
    assert prior.value.sum() == pytest.approx(1) and prior.value.min() >= 0
    assert abs(mean - labels.mean()) < 60 / epsilon
    if epsilon == 4:
        assert abs(np.sqrt(prior.value @ (values - mean) ** 2) - labels.std()) < 20
    assert prior.certificate.entries == release.certificate.entries


@pytest.mark.slow
def test_the_rule_sees_public_quantities_alone_and_takes_bins_where_noise_is_large() -> None:
    prior = Public(np.full(RANGE.size, 1 / RANGE.size), why="a test")
    kinds = [type(number_response(RANGE, epsilon, prior)) for epsilon in (0.25, 0.5, 1, 4, 8)]
    assert kinds == [ResponseOnBins] * 3 + [UnbiasedNumbers] * 2
    counts = [number_response(RANGE, epsilon, prior).parameters()["bins"] for epsilon in (0.25, 0.5, 1)]
    assert [len(each) for each in counts] == [3, 3, 4]
    low = np.exp(-np.arange(RANGE.size) / 10)
    assert isinstance(number_response(RANGE, 2, Public(low / low.sum(), why="a test")), ResponseOnBins)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_what_is_asked_for_does_not_change_with_the_labels_that_are_asked(epsilon: float) -> None:
    """Other labels of the records that are not in the first part meet the same mechanism."""
    features, labels = made_up(600)
    parts = learners.numbers._parts(600, positive_epsilon(epsilon), 0.1, 0)
    changed = np.where(parts == 0, labels, 400 - labels)
    found = []
    for values in (labels, changed):
        holder = curator(values, epsilon)
        given: Any = {"classifiers": [LogisticRegression()], "regressors": [NoisyNumberRegressor(LinearRegression())]}
        release = fit_numbers(features, holder, epsilon=epsilon, rng=np.random.default_rng(3), **given)
        found.append([dict(entry.mechanism) for entry in release.certificate.entries])
    assert found[0] == found[1] and len(found[0]) == 3


@pytest.mark.guarantee("labeldp.learners:fit_numbers", "pure")
@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 1.0, 4.0], [1.0]))
def test_a_model_of_many_zeros_is_better_than_their_mean_and_than_noise_on_the_grid(epsilon: float) -> None:
    features, labels = made_up(4000)
    test, truth = made_up(2000, seed=1)
    holder = curator(labels, epsilon)
    release = fit_numbers(features, holder, epsilon=epsilon, rng=np.random.default_rng(3))
    assert release.certificate.epsilon() == epsilon == holder.ledger.spent.epsilon()
    assert len(release.certificate.entries) == 3
    error = np.sqrt(np.mean((release.value.predict(test) - truth) ** 2))
    assert error < 0.99 * truth.std()
    noisy = released(labels, DiscreteLaplace(domain=RANGE, epsilon=epsilon))
    trees = NoisyNumberRegressor().fit(features, noisy).predict(test)
    assert error < np.sqrt(np.mean((trees - truth) ** 2))
    evaluation = release.value.evaluation
    assert len(evaluation.rows) == 400 and isinstance(evaluation.release.mechanism, DiscreteLaplace)
    known = evaluation.squared_error(0.999)
    assert known.low < error**2 + 1000 and error**2 - 1000 < known.high


@pytest.mark.slow
def test_learners_can_be_given() -> None:
    features, labels = made_up(900)
    by_line = [NoisyNumberRegressor(LinearRegression())]
    model = fit_numbers(
        features, curator(labels, 1), epsilon=1, rng=np.random.default_rng(0), classifiers=[LogisticRegression()]
    ).value
    assert isinstance(model.estimator.classifier, LogisticRegression)
    for epsilon in (1, 8):  # bins, then unbiased answers: the regressor learns from both
        holder = curator(labels, epsilon)
        model = fit_numbers(
            features, holder, epsilon=epsilon, rng=np.random.default_rng(0), classifiers=(), regressors=by_line
        ).value
        assert isinstance(model.estimator.estimator_, LinearRegression)


def test_numbers_of_bins_average_to_what_the_bins_stand_for() -> None:
    labels = np.random.default_rng(1).beta(1, 3, size=60_000) * 400
    prior = Public(np.full(RANGE.size, 1 / RANGE.size), why="a test")
    release = released(labels, ResponseOnBins(domain=RANGE, epsilon=2.0, prior=prior, bins=3))
    known = known_numbers([release])
    values = known.mechanism.unbiased(known.value).values
    means = release.mechanism.means(number_prior([release]).value)
    bins = release.mechanism.bin_of(RANGE.encode(labels))
    assert abs(values.mean() - means[bins].mean()) < 7 * values.std() / len(labels) ** 0.5
    assert len(set(values.tolist())) == 3


def test_what_cannot_be_learned_from_is_refused_and_charges_nothing() -> None:
    features, labels = made_up(100)
    classes = ldp.Curator(np.zeros(100, int), domain=ldp.Classes(2), budget=ldp.Budget(1))
    with pytest.raises(InputError, match="curator must hold numbers"):
        fit_numbers(features, classes, epsilon=1, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="labels must hold more records: each of three parts needs two"):
        fit_numbers(features[:5], curator(labels[:5], 1), epsilon=1, rng=np.random.default_rng(0))
    holder = curator(labels, 1)
    with pytest.raises(BudgetExceeded):
        fit_numbers(features, holder, epsilon=1.5, rng=np.random.default_rng(0))
    with pytest.raises(InputError):
        fit_numbers(features[:50], holder, epsilon=1, rng=np.random.default_rng(0))
    assert holder.ledger.spent.epsilon() == 0
