"""Linear models of one noisy sum: against numpy without noise, what is charged, what is refused."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.features import (
    CenteredColumns,
    EncodedFeatures,
    Moments,
    RandomFourier,
    Space,
    TableMap,
    best_clip,
    blockwise,
    clipped,
    encode,
    equal_noise,
    shared_noise,
)
from labeldp.learners import Directions, Linear, LinearClassifier, LinearRegressor, LinearTask, Task
from labeldp.learners.linear import SETTINGS, _distances, _rising_root
from labeldp.mechanisms import GaussianMoment, LaplaceMoment
from labeldp.privacy import BudgetExceeded, InputError, Trust, total_loss
from labeldp.sampling import MAX_CELLS
from learners.data import blobs

SIMULATED = np.random.default_rng

AS_THEY_ARE = FunctionTransformer()


def central(labels: Any, domain: Any, epsilon: float = 1.0, delta: float = 1e-6) -> ldp.Curator:
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=epsilon, delta=delta))


def line(records: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that depend on five features in a line, between 0 and 10."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(records, 5))
    return features, np.clip(5 + features @ [1.0, -0.5, 0.3, 0.0, 0.2] + 0.3 * rng.normal(size=records), 0, 10)


def one_release(features: Any, labels: Any, epsilon: float, seed: int) -> Any:
    """A model of one release of sums of numbers on their whole range."""
    holder = central(labels, ldp.Interval(0, 10))
    mapped, task = encode(AS_THEY_ARE, features, None), LinearTask.of(holder.domain, epsilon, 1e-6)
    return task.measured(mapped, holder, SIMULATED(seed)).model().value


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_classes_are_learned(classes: int, delta: float) -> None:
    features, labels = blobs(4000, classes, distance=5.0)
    release = ldp.fit_linear(
        features,
        central(labels, ldp.Classes(classes), delta=delta),
        epsilon=1,
        delta=delta,
        rng=SIMULATED(0),
        representation=RandomFourier(components=50),
    )
    model = release.value
    assert isinstance(model.estimator, LinearClassifier)
    assert np.mean(model.predict(features) == labels) > (0.93 if classes < 7 else 0.75)
    assert np.allclose(model.predict_proba(features).sum(axis=1), 1)


def test_names_are_predicted() -> None:
    features, labels = blobs(2000)
    names = np.array(["no", "yes"])[labels]
    model = ldp.fit_linear(
        features, central(names, ldp.Classes(("no", "yes"))), epsilon=1, delta=1e-6, rng=SIMULATED(0)
    ).value
    assert model.classes == ("no", "yes")
    assert np.mean(model.predict(features) == names) > 0.95
    assert repr(model) == "Model(domain=Classes(('no', 'yes')), estimator=LinearClassifier)"


def test_numbers_are_learned() -> None:
    features, labels = line(20_000)
    release = ldp.fit_linear(
        features,
        central(labels, ldp.Interval(0, 10)),
        epsilon=1,
        delta=1e-6,
        rng=SIMULATED(0),
        representation=AS_THEY_ARE,
    )
    assert isinstance(release.value.estimator, LinearRegressor)
    predicted = release.value.predict(features)
    assert predicted.min() >= 0 and predicted.max() <= 10
    assert np.mean((predicted - labels) ** 2) < 0.12  # 0.09 is the noise of the labels
    with pytest.raises(InputError, match="a model of numbers has no classes"):
        release.value.predict_proba(features)


def test_with_hardly_any_noise_it_is_least_squares_of_weighted_rows() -> None:
    features, labels = line(3000)
    holder = central(labels, ldp.Interval(0, 10, 100_001), epsilon=1000, delta=1e-6)
    model = ldp.fit_linear(
        features, holder, epsilon=1000, delta=1e-6, rng=SIMULATED(0), representation=AS_THEY_ARE
    ).value
    design = np.column_stack([np.ones(3000), features])
    plain = np.linalg.lstsq(design, labels, rcond=None)[0]
    assert np.allclose(model.estimator.predict(features), design @ plain, atol=0.06)


def test_the_bayes_rule_is_ridge_regression() -> None:
    rng = SIMULATED(0)
    rows, targets = rng.normal(size=(200, 4)), rng.normal(size=(200, 2))
    rule = Moments.of(rows, rows, 0.0).rule(np.full(4, 0.5), 0.7)
    expected = np.linalg.solve(rows.T @ rows + 0.7 / 0.5 * np.eye(4), rows.T @ targets)
    assert np.allclose(rule.gain @ (rows.T @ targets), expected)


def test_the_expected_error_is_the_error() -> None:
    """Over coefficients of the prior and fresh noise, in a simulation."""
    rng = SIMULATED(1)
    rows = rng.normal(size=(300, 3)).astype(np.float32)
    released, signal = clipped(rows * np.float32(0.5), 0.8), np.array([0.5, 0.2, 0.1])
    rule = Moments.of(released, rows, 30.0).rule(signal, 0.3)
    errors = []
    for _ in range(4000):
        truth = rng.normal(size=3) * np.sqrt(signal)
        labels = rows @ truth + rng.normal(size=300) * np.sqrt(0.3)
        found = rule.gain @ (released.T @ labels + 30 * rng.normal(size=3))
        errors.append(np.mean((rows @ (found - truth)) ** 2))
    assert np.mean(errors) == pytest.approx(rule.error(rows), rel=0.06)


def test_noise_is_shared_by_water_filling() -> None:
    signal, noise = np.array([1.0, 0.3, 0.05, 1e-6]), 0.01
    shares = shared_noise(signal, noise)
    assert shares.sum() == pytest.approx(1) and shares[3] == 0 and np.all(shares[:3] > 0)

    def error(each: np.ndarray) -> float:
        return float(sum(s * noise / (s * t + noise) for s, t in zip(signal, each, strict=True)))

    for i, j in [(0, 1), (1, 2), (2, 0), (0, 3)]:
        moved = shares.copy()
        moved[i], moved[j] = moved[i] - 1e-3, moved[j] + 1e-3
        assert error(moved) > error(shares)
    assert np.count_nonzero(shared_noise(signal, 1e-9)) == 4
    assert np.count_nonzero(shared_noise(signal, 1e3)) == 1


def test_pure_noise_is_shared_by_few_directions() -> None:
    signal = 1 / np.arange(1, 40) ** 1.5
    few, many = (np.count_nonzero(equal_noise(signal, noise)) for noise in (1e-2, 1e-6))
    assert 1 <= few < many <= 39
    assert equal_noise(signal, 1e-6).sum() == pytest.approx(1)


def test_directions_are_uncorrelated() -> None:
    table = SIMULATED(0).normal(size=(5000, 6)) @ np.diag([5, 3, 1, 1, 0.5, 0]) + 3
    space = Space.of(table, 10)
    rows = space.rows(table)
    assert rows.shape == (5000, 6)  # the constant, and five directions that vary
    assert np.allclose(blockwise(rows, rows) / 5000, np.eye(6), atol=1e-4)
    assert np.all(np.diff(space.variances) <= 0)
    signal = space.signal(0.6, 0.1, 0.8)
    assert signal[0] == 0.1 and signal[1:].sum() == pytest.approx(0.6)


def test_narrow_directions_of_embeddings_get_less_of_the_release() -> None:
    table = SIMULATED(0).normal(size=(2000, 40)) / np.arange(1, 41)
    task = LinearTask.of(ldp.Classes(2), 0.5, 1e-6)
    embedding, other = (
        Directions.of(EncodedFeatures(transformer, table), len(table), task)
        for transformer in (CenteredColumns(), FunctionTransformer())
    )
    assert 1 < len(embedding.kept) < len(other.kept)


def test_a_few_long_rows_are_given_less_weight() -> None:
    rows = SIMULATED(0).normal(size=(4000, 3)).astype(np.float32)
    rows[:20] *= 100
    shares = np.full(3, 1 / 3)
    clip = best_clip(rows, shares, np.full(3, 0.2), 100.0, 0.1, pure=False, records=len(rows))
    assert clip < 5


def test_probabilities_are_about_right() -> None:
    features, labels = blobs(20_000, 3, distance=2.0)
    model = ldp.fit_linear(
        features,
        central(labels, ldp.Classes(3)),
        epsilon=1,
        delta=1e-6,
        rng=SIMULATED(0),
        representation=RandomFourier(components=60),
    ).value
    fresh, truth = blobs(20_000, 3, seed=1, distance=2.0)
    given = model.predict_proba(fresh)
    assert given.max(axis=1).mean() == pytest.approx(np.mean(given.argmax(axis=1) == truth), abs=0.03)
    plain = LogisticRegression().fit(fresh, truth).predict_proba(fresh)

    def log_loss(probabilities: np.ndarray) -> float:
        return float(-np.log(probabilities[np.arange(len(truth)), truth]).mean())

    assert log_loss(given) < log_loss(plain) + 0.05


def test_labels_without_signal_are_not_believed() -> None:
    features, _ = blobs(500)
    labels = SIMULATED(3).integers(0, 2, 500)
    model = ldp.fit_linear(features, central(labels, ldp.Classes(2)), epsilon=0.1, delta=1e-6, rng=SIMULATED(0)).value
    assert model.predict_proba(features).max() < 0.9


@pytest.mark.guarantee("labeldp.learners:fit_linear", "approximate")
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_what_is_promised_is_what_was_charged(delta: float) -> None:
    features, labels = blobs(600)
    holder = central(labels, ldp.Classes(2), 0.5, delta)
    release = ldp.fit_linear(features, holder, epsilon=0.5, delta=delta, rng=SIMULATED(0), evaluation=0.2)
    assert total_loss(holder.ledger.charges).within("0.5", Fraction(str(delta)))
    assert len(release.certificate.entries) == 2
    assert release.certificate.trust is Trust.CENTRAL
    assert {len(entry.path) for entry in release.certificate.entries} == {1}
    assert release.certificate.epsilon(delta) <= 0.5
    assert math.isinf(release.certificate.epsilon(0)) == (delta > 0)
    kinds = {entry.mechanism["mechanism"] for entry in release.certificate.entries}
    assert kinds == {"RandomizedResponse", GaussianMoment.__name__ if delta else LaplaceMoment.__name__}


def test_the_evaluation_is_of_records_that_were_not_learned_from() -> None:
    features, labels = blobs(3000)
    model = ldp.fit_linear(
        features, central(labels, ldp.Classes(2), 2.0), epsilon=2, delta=1e-6, rng=SIMULATED(0), evaluation=0.3
    ).value
    assert model.evaluation is not None and 800 < len(model.evaluation.rows) < 1000
    accuracy = model.evaluation.accuracy()
    assert accuracy.low < np.mean(model.predict(features) == labels) < accuracy.high
    assert np.allclose(model.predict_proba(features)[model.evaluation.rows], model.evaluation.probabilities, atol=1e-5)


def test_no_label_has_a_say_in_what_is_released() -> None:
    features, labels = blobs(400, 2)
    described = []
    for given in (labels, 1 - labels, np.zeros_like(labels)):
        holder = central(given, ldp.Classes(2))
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0))
        described.append(holder.ledger.charges[0].mechanism)
    assert described[0] == described[1] == described[2]


def test_dimension_is_obeyed() -> None:
    features, labels = blobs(2000, 4)
    arguments: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "rng": SIMULATED(0)}
    small = central(labels, ldp.Classes(4))
    ldp.fit_linear(features, small, dimension=3, **arguments)
    assert (
        "16 noisy sums"
        in ldp.fit_linear(features, central(labels, ldp.Classes(4)), dimension=3, **arguments).certificate.published
    )


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon": ({"epsilon": 0}, "epsilon must be positive"),
    "delta": ({"delta": 1}, "delta must lie in"),
    "a negative delta": ({"delta": -1e-6}, "delta must lie in"),
    "evaluation": ({"evaluation": 1.0}, "evaluation must be a share"),
    "everything held out": ({"evaluation": 0.999}, "labels must hold more records"),
    "dimension": ({"dimension": 0}, "dimension must be an integer, at least 1"),
    "representation": ({"representation": "pca"}, "scikit-learn transformer"),
    "rng": ({"rng": 7}, "rng must be"),
    "rows": ({"features": np.zeros((3, 2))}, "one row for each record"),
    "constant features": ({"features": np.zeros((60, 2)), "representation": AS_THEY_ARE}, "must not be constant"),
    "texts": ({"features": np.full((60, 2), "a")}, "features must be numbers: turn a table with texts"),
    "numbers whose squares are too large": (
        {"features": np.eye(60) * 1e20, "representation": AS_THEY_ARE},
        "features must be numbers of ordinary size",
    ),
    "numbers too large for floats": ({"features": np.eye(60) * 1e200, "representation": AS_THEY_ARE}, "finite matrix"),
    "gaps": ({"features": np.full((60, 2), np.nan), "representation": AS_THEY_ARE}, "finite matrix"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_and_nothing_is_charged(name: str) -> None:
    features, labels = blobs(60)
    holder = central(labels, ldp.Classes(2))
    changed, message = REFUSED[name]
    arguments = {"features": features, "epsilon": 1, "delta": 1e-6, "rng": SIMULATED(0), **changed}
    with pytest.raises(InputError, match=message):
        ldp.fit_linear(arguments.pop("features"), holder, **arguments)
    assert holder.ledger.charges == ()


def test_a_budget_of_less_is_not_enough() -> None:
    features, labels = blobs(200)
    for epsilon, delta in ((0.999, 1e-6), (1, 1e-7), (1, 0)):
        holder = central(labels, ldp.Classes(2), epsilon, delta)
        with pytest.raises(BudgetExceeded):
            ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0))
        assert holder.ledger.charges == ()


def test_the_same_fit_again_costs_nothing(tmp_path: Path) -> None:
    features, labels = blobs(500)
    given, spent = [], []
    for _ in range(2):
        ledger = ldp.LedgerFile(tmp_path / "people.ledger").dataset("people", budget=ldp.Budget(1, 1e-6))
        holder = ldp.Curator(labels, domain=ldp.Classes(2), ledger=ledger, run="one fit")
        release = ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=ledger.randomness)
        given.append(release.value.predict_proba(features))
        spent.append(len(ledger.charges))
    assert np.array_equal(*given)
    assert spent == [1, 1]


def test_features_that_were_released_are_certified_with_the_model() -> None:
    features, labels = blobs(400)
    holder = central(labels, ldp.Classes(2), 3.0)
    answers = holder.release(ldp.RandomizedResponse(domain=holder.domain, epsilon=1), rng=SIMULATED(1))
    learned = answers.map(lambda codes: np.column_stack([features, features * codes[:, None]]))
    release = ldp.fit_linear(learned, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0))
    assert len(release.certificate.entries) == 2
    assert release.certificate.epsilon(1e-6) > 1.5
    assert not any("rule that was fixed without the labels" in text for text in release.certificate.assumptions)


def test_features_that_may_hold_the_labels_have_no_evaluation_part() -> None:
    """Nothing predicts these labels: an estimate from records whose features hold them would not be of the model."""
    features, labels = blobs(400)
    holder = central(labels, ldp.Classes(2), 20.0)
    answers = holder.release(ldp.RandomizedResponse(domain=holder.domain, epsilon=4), rng=SIMULATED(1))
    with pytest.raises(InputError, match="evaluation must be 0 where features are a Release"):
        ldp.fit_linear(
            answers.map(lambda codes: np.column_stack([features, codes])),
            holder,
            epsilon=4,
            delta=1e-6,
            rng=SIMULATED(0),
            evaluation=0.2,
        )
    assert len(holder.ledger.charges) == 1


def test_the_default_map_is_for_tables() -> None:
    features, labels = blobs(1500)
    features = np.column_stack([features, SIMULATED(0).integers(0, 4, 1500)])
    features[::7, 0] = np.nan
    model = ldp.fit_linear(
        features,
        central(labels, ldp.Classes(2)),
        epsilon=1,
        delta=1e-6,
        rng=SIMULATED(0),
        representation=TableMap(categorical=[False, False, True]),
    ).value
    assert np.mean(model.predict(features) == labels) > 0.85


def test_the_prior_under_which_sums_are_likeliest_is_the_one_that_made_them() -> None:
    rng = SIMULATED(0)
    rows = np.linalg.qr(rng.normal(size=(5000, 30)))[0] * np.sqrt(5000)
    space = Space(np.zeros(30), np.eye(30), np.geomspace(100, 0.1, 30))
    products = Moments.of(rows, rows, 20.0)
    options = product((0.05, 0.5), (0.4, 1.2), (0.1, 1.0))
    priors = [(space.signal(share, 0.2, decay), left) for share, decay, left in options]
    for truth in priors:
        coefficients = np.sqrt(truth[0][1:, None]) * rng.normal(size=(30, 200))
        labels = rows @ coefficients + np.sqrt(truth[1]) * rng.normal(size=(5000, 200))
        moment = rows.T @ labels + 20 * rng.normal(size=(30, 200))
        signal, residual = products.likeliest(moment, [(signal[1:], left) for signal, left in priors])
        assert residual == truth[1] and np.array_equal(signal, truth[0][1:])


class Replay:
    """A curator of other labels, which says what an earlier one released."""

    def __init__(self, holder: ldp.Curator, earlier: "Replay | None" = None) -> None:
        self.holder, self.earlier = holder, earlier
        self.asked: list[Any] = []
        self.released: dict[str, Any] = {}
        self.domain, self.records, self.users = holder.domain, holder.records, None

    def require(self, steps: Any) -> None:
        self.holder.require(steps)

    def release(self, mechanism: Any, *, rng: Any, step: str) -> Any:
        self.asked.append((step, mechanism.specification(), mechanism.privacy_loss()))
        release = self.holder.release(mechanism, rng=rng, step=step)
        if self.earlier is not None:
            release = replace(release, value=self.earlier.released[step])
        self.released[step] = release.value
        return release


@pytest.mark.guarantee("labeldp.learners:fit_linear", "approximate")
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_numbers_meet_what_was_planned_and_earlier_releases_alone_steer_later_ones(epsilon: float) -> None:
    features, labels = line(600)
    domain, learner = ldp.Interval(0, 100), Linear("linear", AS_THEY_ARE)
    first, task = Replay(central(labels, domain, epsilon)), Task(domain, 600, epsilon, 1e-6, 0.0)
    second = Replay(central(100 - 10 * labels, domain, epsilon), first)
    models = [learner.fit(features, holder, task, rng=SIMULATED(1)) for holder in (first, second)]
    assert first.asked == second.asked
    assert np.array_equal(models[0].value.estimator.coefficients, models[1].value.estimator.coefficients)
    assert [(step, loss) for step, _, loss in first.asked] == [(s.name, s.loss) for s in learner.plan(task).steps]
    assert [step for step, _, _ in first.asked] == ["pilot", "distances", "linear"]
    for holder, model in zip((first, second), models, strict=True):
        loss, entries = total_loss(holder.holder.ledger.charges), model.certificate.entries
        assert loss.within(epsilon, 1e-6) and not loss.within(0.99 * epsilon, 1e-6)
        assert total_loss(entries) == loss and len(entries) == 3


@pytest.mark.parametrize("evaluation", [0.0, 0.2])
def test_a_budget_for_some_of_the_releases_of_numbers_is_not_touched(evaluation: float) -> None:
    features, labels = line(300)
    holder = central(labels, ldp.Interval(0, 10), 0.99)
    with pytest.raises(BudgetExceeded, match=r"this would bring it to .*\. Nothing was charged"):
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0), evaluation=evaluation)
    assert holder.ledger.charges == ()


def test_distances_from_a_first_model_need_less_noise_than_the_whole_range() -> None:
    features, labels = line(1000)
    labels = 5 + (labels - 5) / 10  # of a range ten times as wide as they are
    errors = np.zeros(2)
    for seed in range(6):
        asked: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "rng": SIMULATED(seed)}
        holder = central(labels, ldp.Interval(0, 10))
        around = ldp.fit_linear(features, holder, representation=AS_THEY_ARE, **asked).value
        models = around, one_release(features, labels, 1, seed)
        errors += [np.mean((model.predict(features) - labels) ** 2) for model in models]
    assert errors[0] < 0.75 * errors[1]  # of twelve seeds the ratio is 0.60


def test_numbers_on_the_coarsest_grid_and_a_delta_too_large_to_be_shared() -> None:
    features, labels = blobs(200)
    for epsilon, delta, releases in ((1, 1e-6, 3), (0.01, 0.01, 1)):
        holder = central(labels, ldp.Interval(0, 1, grid=2), epsilon, delta)
        asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rng": SIMULATED(0)}
        ldp.fit_linear(features, holder, representation=AS_THEY_ARE, **asked)
        assert len(holder.ledger.charges) == releases


def test_counts_that_noise_hides_say_that_labels_are_anywhere() -> None:
    mechanism = GaussianMoment(
        domain=ldp.Interval(0, 8, grid=9),
        epsilon=1,
        delta=1e-6,
        features=ldp.Public(np.ones((50, 1)), why="a test"),
        resolution=1,
        centers=ldp.Public(np.zeros(50, int), why="a test"),
        bins=3,
    )
    for counts, shares in (([5, 3, -9], [0, 0, 1]), ([900, 300, 4], [0.75, 0.25, 0])):
        assert _distances(mechanism, np.array([counts])).shares.tolist() == shares


def test_a_budget_without_room_for_the_evaluation_is_not_touched() -> None:
    features, labels = blobs(600)
    holder = central(labels, ldp.Classes(2), 1.9)
    held = np.random.default_rng(0).permutation(600) < 120
    part = holder.split(ldp.Public(held.astype(int), why="the split of every fit by the seed 0"))[1]
    part.release(ldp.RandomizedResponse(domain=part.domain, epsilon=1), rng=SIMULATED(0))
    with pytest.raises(BudgetExceeded, match=r" % of .* is used, .* Nothing was charged"):
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0), evaluation=0.2)
    assert len(holder.ledger.charges) == 1


class PowerCut(Exception):
    """The process died."""


@pytest.mark.parametrize("run", ["one fit", None])
def test_a_fit_that_was_interrupted_is_finished_within_the_same_budget(
    run: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels = line(300)

    def interrupted(*_: Any) -> Any:
        raise PowerCut

    def fit() -> tuple[ldp.Release[ldp.learners.Model], Any]:
        ledger = ldp.LedgerFile(tmp_path / "people.ledger").dataset("people", budget=ldp.Budget(1, 1e-6))
        holder = ldp.Curator(labels, domain=ldp.Interval(0, 100), ledger=ledger, run=run)
        asked: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "rng": ledger.randomness, "evaluation": 0.2}
        return ldp.fit_linear(features, holder, representation=AS_THEY_ARE, **asked), ledger

    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        patch.setattr("labeldp.learners.linear._distances", interrupted)
        fit()
    first, ledger = fit()
    second, _ = fit()
    assert len(ledger.charges) == 5 and total_loss(ledger.charges) == total_loss(first.certificate.entries)
    assert np.array_equal(first.value.predict(features), second.value.predict(features))


@pytest.mark.parametrize("delta", ["0.000001", Decimal("1e-6"), Decimal(0)])
def test_epsilon_and_delta_may_be_texts_and_decimals(delta: Any) -> None:
    features, labels = blobs(300)
    spent = []
    for epsilon, failure in ((1, float(delta)), ("1", delta), (Decimal(1), delta)):
        holder = central(labels, ldp.Classes(2))
        asked: dict[str, Any] = {"rng": SIMULATED(0), "representation": AS_THEY_ARE}
        ldp.fit_linear(features, holder, epsilon=epsilon, delta=failure, **asked)
        spent.append(total_loss(holder.ledger.charges))
    assert spent[0] == spent[1] == spent[2]


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("domain", [ldp.Classes(3), ldp.Interval(0, 1)])
def test_a_fit_costs_what_is_said_before_its_features_are_known(domain: Any, delta: float) -> None:
    features, labels = blobs(300)
    holder = central(labels * 0.5 if isinstance(domain, ldp.Interval) else labels, domain)
    ldp.fit_linear(features, holder, epsilon=0.7, delta=delta, rng=SIMULATED(0), representation=AS_THEY_ARE)
    stand_ins = LinearTask.of(domain, 0.7, delta).steps().values()
    assert [charge.loss for charge in holder.ledger.charges] == [each.privacy_loss() for each in stand_ins]


def test_steps_of_equal_cost_together_cost_what_was_asked_for() -> None:
    for delta, most in ((1e-6, 0.31), (0.0, 0.5 / 3)):  # 1 / sqrt(3) of the mu, or a third of epsilon
        loss = LinearTask.of(ldp.Classes(2), 0.5, delta).shared(3).loss
        assert (loss * 3).within("0.5", Fraction(str(delta))) and (loss * 3).epsilon(delta) > 0.499
        assert loss.within(most, Fraction(str(delta)))


@pytest.mark.parametrize("classes", [2, 1100, 1 << 19])
def test_of_many_classes_as_many_directions_are_taken_as_fit_into_one_release(classes: int) -> None:
    most = LinearTask.of(ldp.Classes(classes), 1, 1e-6, 10**6).dimension
    assert (1 + most) * classes <= MAX_CELLS < (2 + most) * classes
    assert LinearTask.of(ldp.Classes(classes), 1, 1e-6, 1).dimension == 1
    assert LinearTask.of(ldp.Classes(classes), 1, 0, 1000).dimension == 1000


def test_the_root_of_a_rising_function_or_the_nearer_end() -> None:
    assert _rising_root(lambda factor: factor**2, 9.0) == pytest.approx(3)
    assert _rising_root(lambda factor: factor, 0.0) == 0.0
    assert _rising_root(lambda factor: 1 - np.exp(-factor), 2.0) == SETTINGS.largest_confidence


@pytest.mark.parametrize("seed", [1, 6, 9])
def test_lucky_noise_makes_no_model_sure_of_everything(seed: int) -> None:
    features, labels = blobs(300, 2, distance=3.0)
    holder = central(labels, ldp.Classes(2))
    model = ldp.fit_linear(
        features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(seed), representation=AS_THEY_ARE
    ).value
    assert model.estimator.confidence < 100  # these sums agree with the model better than any labels could


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 2,000 records are many, and 1,000 of them are held."""
    monkeypatch.setattr("labeldp.features.representations.STREAMED_RECORDS", 2000)
    monkeypatch.setattr("labeldp.features.representations.SAMPLED_RECORDS", 1000)
    monkeypatch.setattr("labeldp.learners.linear.BLOCK_ROWS", 512)


class Seen(TableMap):
    """A map that counts the rows that it was shown at once."""

    most = 0

    def transform(self, X: Any) -> Any:
        Seen.most = max(Seen.most, len(X))
        return super().transform(X)


@pytest.mark.parametrize("evaluation", [0.0, 0.2])
@pytest.mark.usefixtures("few_are_many")
def test_many_records_are_summed_block_by_block(evaluation: float) -> None:
    """All of them count, in a table of a sample."""
    features, labels = blobs(9000, 3, distance=2.5)
    Seen.most = 0
    asked: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "rng": SIMULATED(0), "evaluation": evaluation}
    release = ldp.fit_linear(features, central(labels, ldp.Classes(3)), representation=Seen(trees=5), **asked)
    fresh, truth = blobs(9000, 3, distance=2.5)
    assert Seen.most == 1000
    accuracy = np.mean(release.value.predict(fresh) == truth)
    assert accuracy > np.mean(LogisticRegression().fit(features, labels).predict(fresh) == truth) - 0.03
    if evaluation:
        found = release.value.evaluation
        assert found is not None and len(found.predictions) == 1800 and found.accuracy().low < accuracy


@pytest.mark.usefixtures("few_are_many")
def test_what_is_expected_of_a_sample_is_corrected_by_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise to speak of, coefficients are those of all records, and not of the sample."""
    rng = SIMULATED(3)
    features = rng.normal(size=(30_000, 8))
    labels = (rng.random(30_000) < 1 / (1 + np.exp(-2 * features @ np.ones(8)))).astype(int)
    fresh = rng.normal(size=(20_000, 8))
    truth = 1 / (1 + np.exp(-2 * fresh @ np.ones(8)))
    errors = []
    for corrected in (True, False):
        if not corrected:
            monkeypatch.setattr("labeldp.learners.linear.Fit.of_sample", lambda self, posterior, weights: posterior)
        asked: dict[str, Any] = {"epsilon": 100, "delta": 1e-6, "rng": SIMULATED(0), "representation": AS_THEY_ARE}
        model = ldp.fit_linear(features, central(labels, ldp.Classes(2), 100.0), **asked).value
        errors.append(float(np.mean((model.predict_proba(fresh)[:, 1] - truth) ** 2)))
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.usefixtures("few_are_many")
def test_many_numbers_are_learned_block_by_block() -> None:
    features, numbers = line(6000)
    holder = central(numbers, ldp.Interval(0, 10), 2.0)
    asked: dict[str, Any] = {"epsilon": 2, "delta": 1e-6, "rng": SIMULATED(0), "representation": AS_THEY_ARE}
    model = ldp.fit_linear(features, holder, **asked).value
    assert np.mean((model.predict(features) - numbers) ** 2) < 0.3 * np.var(numbers)
