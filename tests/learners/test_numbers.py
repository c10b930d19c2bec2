"""Learning from numbers that are randomized one by one: the prior, the choice of what answers, and the model."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import NoisyNumberRegressor, Numbers, Task, fit_numbers
from labeldp.learners.numbers import answer_noise, distances_of
from labeldp.mechanisms import DiscreteLaplace, ResponseOnDistances
from labeldp.privacy import BudgetExceeded, InputError, Public
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


@pytest.mark.guarantee("labeldp.learners:fit_numbers", "pure")
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_what_is_asked_follows_from_earlier_answers_of_other_records_alone(epsilon: float) -> None:
    """Other labels of the last round, and of the evaluation, meet the same mechanisms; each record answers once."""
    features, labels = made_up(400)
    task = Task(RANGE, 400, epsilon)
    parts, names = Numbers().parts(task), list(Numbers().mechanisms(task))
    late = parts >= names.index(names[-2])
    found = []
    for values in (labels, np.where(late, 400 - labels, labels)):
        holder = curator(values, epsilon)
        release = fit_numbers(features, holder, epsilon=epsilon, rng=np.random.default_rng(3))
        found.append([dict(entry.mechanism) for entry in release.certificate.entries])
        assert release.certificate.epsilon() == epsilon == holder.ledger.spent.epsilon()
    assert found[0] == found[1] and len(found[0]) == len(names) == (2 if epsilon == 0.1 else 5)
    assert [step.name for step in Numbers().plan(task).steps] == names


def test_a_reach_is_small_where_answers_say_that_labels_are_close_and_wide_in_doubt() -> None:
    labels = np.clip(np.random.default_rng(0).normal(200, 10, size=20_000), 0, 400)
    centers = Public(np.full((20_000, 1), 100), why="a test")
    reaches = {}
    for records in (100, 20_000):
        mechanism = ResponseOnDistances(
            domain=RANGE, epsilon=1.0, centers=Public(centers.value[:records], why="a test")
        )
        distances = distances_of(released(labels[:records], mechanism))
        assert distances.shares.sum() == pytest.approx(1) and distances.shares.min() >= 0
        reaches[records] = distances.reach(partial(answer_noise, distances, 1.0, 3, records=10_000 / 30))
    assert 10 < reaches[20_000] <= 100 < reaches[100]
    closer = distances.after(float(distances.shares @ distances.sizes**2) / 2)
    np.testing.assert_allclose(closer.sizes, distances.sizes / 2**0.5)


@pytest.mark.guarantee("labeldp.learners:fit_numbers", "pure")
@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 1.0, 4.0], [1.0]))
def test_a_model_of_many_zeros_is_better_than_their_mean_and_than_noise_on_the_grid(epsilon: float) -> None:
    features, labels = made_up(4000)
    test, truth = made_up(2000, seed=1)
    holder = curator(labels, epsilon)
    release = fit_numbers(features, holder, epsilon=epsilon, rng=np.random.default_rng(3))
    assert release.certificate.epsilon() == epsilon == holder.ledger.spent.epsilon()
    assert len(release.certificate.entries) == 5
    error = np.sqrt(np.mean((release.value.predict(test) - truth) ** 2))
    assert error < 0.99 * truth.std()
    noisy = released(labels, DiscreteLaplace(domain=RANGE, epsilon=epsilon))
    trees = NoisyNumberRegressor().fit(features, noisy).predict(test)
    assert error < np.sqrt(np.mean((trees - truth) ** 2))
    evaluation = release.value.evaluation
    assert len(evaluation.rows) == 400 and isinstance(evaluation.release.mechanism, DiscreteLaplace)
    known = replace(evaluation, level=0.999).squared_error()
    assert known.low < error**2 + 1000 and error**2 - 1000 < known.high


def test_learners_can_be_given() -> None:
    """On numbers a blend asks the questions; a table that it cannot read leaves them to the regressor as well."""
    features, labels = made_up(300)
    frame = pd.DataFrame(features, columns=list("abcd")).assign(a=lambda table: table["a"].map(str))
    by_line = NoisyNumberRegressor(LinearRegression())
    by_text = NoisyNumberRegressor(make_pipeline(FunctionTransformer(_numbers), Ridge()))
    for table, regressor, kind in ((features, by_line, LinearRegression), (frame, by_text, Pipeline)):
        model = fit_numbers(
            table, curator(labels, 2), epsilon=2, rng=np.random.default_rng(0), regressors=[regressor]
        ).value
        assert isinstance(model.estimator.estimator_, kind)


def _numbers(table: Any) -> Any:
    return table.astype(float)


def test_what_cannot_be_learned_from_is_refused_and_charges_nothing() -> None:
    features, labels = made_up(100)
    classes = ldp.Curator(np.zeros(100, int), domain=ldp.Classes(2), budget=ldp.Budget(1))
    with pytest.raises(InputError, match="curator must hold numbers"):
        fit_numbers(features, classes, epsilon=1, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="labels must hold more records: each of 5 parts needs two"):
        fit_numbers(features[:5], curator(labels[:5], 1), epsilon=1, rng=np.random.default_rng(0))
    holder = curator(labels, 1)
    with pytest.raises(BudgetExceeded):
        fit_numbers(features, holder, epsilon=1.5, rng=np.random.default_rng(0))
    with pytest.raises(InputError):
        fit_numbers(features[:50], holder, epsilon=1, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="categorical must say of each column"):
        fit_numbers(features, holder, epsilon=1, rng=np.random.default_rng(0), categorical=[True])
    assert holder.ledger.spent.epsilon() == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"regressors": []}, "regressors must hold one or more"),
        ({"regressors": [object()]}, "object cannot learn from these records"),
        ({"sample_weight": np.ones(5)}, "sample_weight must hold 300 finite numbers"),
        ({"sample_weight": np.ones(300)}, "sample_weight goes with one regressor"),
    ],
)
def test_what_cannot_learn_is_refused_before_anything_is_charged(changes: dict[str, Any], sentence: str) -> None:
    rng = np.random.default_rng(0)
    curator = ldp.Curator(rng.uniform(0, 1, 300), domain=ldp.Interval(0, 1), budget=ldp.Budget(1))
    with pytest.raises(InputError, match=sentence):
        fit_numbers(rng.normal(size=(300, 2)), curator, epsilon=1, rng=rng, **changes)
    assert not curator.ledger.charges
