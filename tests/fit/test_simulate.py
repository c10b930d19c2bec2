"""What features are worth, and other epsilons, of many records."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import labeldp as ldp
from labeldp.fit import simulate
from labeldp.inference import Scores
from labeldp.learners import (
    Model,
    Multistage,
    NoisyNumberRegressor,
    Task,
    evaluate,
    fit_multistage,
    multistage,
    tune,
)

BOOSTING = Multistage("boosting")


def learned(records: int = 600) -> tuple[Model, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(records, 2))
    holder = ldp.Curator((features[:, 0] > 0).astype(int), domain=ldp.Classes(2), budget=ldp.Budget(4))

    return fit_multistage(
        features, holder, classifier=LogisticRegression(), epsilon=4, stages=1, rng=rng
    ).value, features


def test_importances_take_a_model_that_cross_fitting_left_and_at_most_so_many_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, features = learned()
    asked: list[int] = []
    scores = simulate._scores

    def spy(model: Model, table: np.ndarray, release: ldp.Release) -> np.ndarray:
        asked.append(len(table))
        return scores(model, table, release)

    monkeypatch.setattr(simulate, "_scores", spy)
    monkeypatch.setattr(Multistage, "refit", None)  # nothing is learned again
    first, second = simulate.importances(BOOSTING, model, features, ("one", "two"))
    assert first.low > 0.2 and second.low <= 0 <= second.high
    assert asked == [120] * 3  # a fifth of the records did not teach that model
    assert isinstance(model.evaluation, Scores)
    other, rows = model.evaluation.fold
    assert np.mean(other.predict(features[rows]) == (features[rows, 0] > 0)) > 0.9
    for most in ("MAX_SHUFFLED", "MIN_SHUFFLED"):
        monkeypatch.setattr(simulate, most, 50)
    asked.clear()
    simulate.importances(BOOSTING, model, features, ("one", "two"))
    assert asked == [50] * 3


def test_a_simulation_learns_from_few_directions_of_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    model, features = learned()
    monkeypatch.setattr(simulate, "MAX_SIMULATED", 500)
    monkeypatch.setattr(multistage, "SIMULATED_DIRECTIONS", 30)
    shapes: list[tuple[int, ...]] = []
    fitted = Multistage.fit_simulated

    def spy(self: Multistage, table: np.ndarray, *arguments: Any, **options: Any) -> Model:
        shapes.append(table.shape)
        return fitted(self, table, *arguments, **options)

    monkeypatch.setattr(Multistage, "fit_simulated", spy)
    task = Task(ldp.Classes(2), len(features), 4.0)
    curve = simulate.simulated_curve(BOOSTING, task, model, features)
    assert curve is not None and [point.epsilon for point in curve.points] == [0.25, 0.5, 1, 2, 4]
    assert set(shapes) == {(400, 30)} and len(shapes) == 10  # a fifth of the records is for the test
    assert curve.points[-1].value > max(0.8, curve.points[0].value)


def test_importances_of_numbers_take_such_a_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 2))
    numbers = np.clip(5 + 2 * features[:, 0], 0, 10)
    holder = ldp.Curator(numbers, domain=ldp.Interval(0, 10), budget=ldp.Budget(4))
    release = holder.release(ldp.DiscreteLaplace(domain=holder.domain, epsilon=4), rng=rng)
    found = tune([NoisyNumberRegressor(LinearRegression())], features, release)
    fold = Model(holder.domain, found.fold[0]), found.fold[1]
    model = Model(holder.domain, found.learner, None, evaluate(release, found.held_out, "", np.arange(500), fold))
    monkeypatch.setattr(Multistage, "refit", None)
    first, second = simulate.importances(BOOSTING, model, features, ("one", "two"))
    assert first.low > 2 and second.low <= 0.1 and len(fold[1]) == 100
    assert np.array_equal(fold[0].predict(features[fold[1]]), np.clip(found.held_out, 0, 10)[fold[1]])
