import random
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import labeldp as ldp
from labeldp.learners import cluster_prior, fit_multistage, fit_noisy
from labeldp.learners.cluster_prior import _joined, default_clusters, default_epsilon, feature_clusters
from labeldp.privacy import BudgetExceeded, InputError, NotInvertibleError, Trust, total_loss
from learners.data import blobs, curator
from slow import mostly_slow

SIMULATED = np.random.default_rng


class Spy:
    """A curator that remembers what was asked of its parts."""

    def __init__(self, inner: Any, log: list[tuple[str | None, Any, Any]] | None = None) -> None:
        self.inner, self.log = inner, [] if log is None else log

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def release(self, mechanism: Any, *, rng: Any, step: str | None = None) -> Any:
        release = self.inner.release(mechanism, rng=rng, step=step)
        self.log.append((step, mechanism, release))
        return release

    def split(self, parts: Any) -> list["Spy"]:
        self.parts = parts
        return [Spy(part, self.log) for part in self.inner.split(parts)]


class Stored(Spy):
    """A curator that returns, as of an interrupted run, another mechanism's answers than were asked for."""

    def release(self, mechanism: Any, *, rng: Any, step: str | None = None) -> Any:
        return super().release(mechanism.with_epsilon(5.0) if step == "stage 1" else mechanism, rng=rng, step=step)

    def split(self, parts: Any) -> list["Spy"]:
        return [Stored(part, self.log) for part in self.inner.split(parts)]


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        RandomForestClassifier(15, min_samples_leaf=20, random_state=0),
        HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=40),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("stages", mostly_slow([1, 2], [1]))
def test_any_classifier_learns_in_stages(classifier: Any, stages: int) -> None:
    features, labels = blobs(2000, 3)
    holder = curator(labels, 3, 1.5)
    release = fit_multistage(features, holder, classifier=classifier, epsilon=1.5, stages=stages, rng=SIMULATED(0))
    assert np.mean(release.value.predict(features) == labels) > 0.9
    accuracy = release.value.evaluation.accuracy()
    assert accuracy.low < 0.96 and accuracy.high > 0.9


@pytest.mark.guarantee("labeldp.learners:fit_multistage", "pure")
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("training", ["posterior", "plain"])
def test_every_label_is_released_once(stages: int, training: Any) -> None:
    features, labels = blobs(900, 3)
    spy = Spy(curator(labels, 3, 2.0))
    release = fit_multistage(
        features, spy, classifier=LogisticRegression(), epsilon=2, stages=stages, training=training, rng=SIMULATED(0)
    )
    steps = [step for step, _, _ in spy.log]
    assert steps == [f"stage {number}" for number in range(1, stages + 1)] + ["evaluation"] * (stages > 1)
    assert sum(len(each.value) for _, _, each in spy.log) == 900
    assert spy.ledger.spent.epsilon() == 2.0  # the maximum over the parts, not their sum
    assert release.certificate.epsilon() == 2.0
    asked = {entry.id for _, _, each in spy.log for entry in each.certificate.entries}
    assert {entry.id for entry in release.certificate.entries} == asked


def test_a_budget_of_exactly_epsilon_is_enough_and_less_is_not() -> None:
    features, labels = blobs(300)
    arguments: dict[str, Any] = {"classifier": LogisticRegression(), "epsilon": 1, "rng": SIMULATED(0)}
    fit_multistage(features, curator(labels, epsilon=1), **arguments)
    poor = curator(labels, epsilon=0.999)
    with pytest.raises(BudgetExceeded):
        fit_multistage(features, poor, **arguments)
    assert not poor.ledger.charges


def test_later_stages_use_the_model_as_a_prior() -> None:
    features, labels = blobs(2000, 4)
    spy = Spy(curator(labels, 4, 1.0))
    fit_multistage(features, spy, classifier=LogisticRegression(), epsilon=1, stages=2, rng=SIMULATED(0))
    second = spy.log[1][1]
    assert isinstance(second, ldp.mechanisms.RandomizedResponseWithPrior)
    assert second.sizes.mean() < 2.5
    kept = [np.mean(each.value == labels[spy.parts.value == number]) for number, (_, _, each) in enumerate(spy.log)]
    assert kept[1] > kept[0] + 0.15


def test_a_high_temperature_forgets_the_prior() -> None:
    features, labels = blobs(600, 4)
    spy = Spy(curator(labels, 4, 1.0))
    arguments: dict[str, Any] = {"classifier": LogisticRegression(), "epsilon": 1, "stages": 2}
    fit_multistage(features, spy, temperature=1e6, rng=SIMULATED(0), **arguments)
    assert set(spy.log[1][1].sizes) == {4}


def test_evaluation_records_are_never_trained_on() -> None:
    features, labels = blobs(1000)
    features = np.column_stack([features, np.arange(1000)])
    spy, seen = Spy(curator(labels)), set()

    class Watcher(ClassifierMixin, BaseEstimator):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Watcher":
            if spy.log:  # not the rehearsal with made-up labels
                seen.update(X[:, 2].astype(int).tolist())
            self.inner_ = LogisticRegression(max_iter=1000).fit(X[:, :2], y, sample_weight)
            self.classes_ = self.inner_.classes_
            return self

        def predict_proba(self, X: Any) -> Any:
            return self.inner_.predict_proba(X[:, :2])

    fit_multistage(features, spy, classifier=Watcher(), epsilon=1, stages=2, rng=SIMULATED(0))
    held = set(np.flatnonzero(spy.parts.value == 2).tolist())
    assert len(held) == 100
    assert seen == set(range(1000)) - held


def test_earlier_labels_outside_the_top_candidates_are_dropped_by_plain_training() -> None:
    features, labels = blobs(2000, 4, distance=6.0)
    sizes: list[int] = []

    class Counter(LogisticRegression):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            sizes.append(len(y))
            return super().fit(X, y, sample_weight)

    spy = Spy(curator(labels, 4, 0.5))
    fit_multistage(features, spy, classifier=Counter(), epsilon=0.5, stages=2, training="plain", rng=SIMULATED(0))
    first, second = (len(each.value) for _, _, each in spy.log[:2])
    assert spy.log[1][1].sizes.mean() == pytest.approx(1, abs=0.1)  # so one candidate is kept
    inside = np.mean(spy.log[0][2].value == labels[spy.parts.value == 0])
    assert sizes[-1] == pytest.approx(second + inside * first, abs=20)


def test_training_goes_on_with_the_mechanism_that_was_stored() -> None:
    """Labels at epsilon = 5, found again, are not read as if they were at epsilon = 0.1."""
    features, labels = blobs(600)
    holder = Stored(curator(labels, epsilon=5.0))
    model = fit_multistage(
        features, holder, classifier=LogisticRegression(), epsilon=0.1, stages=1, rng=SIMULATED(0)
    ).value
    estimate = model.evaluation.accuracy()
    assert estimate.high - estimate.low < 0.1
    assert np.mean(model.predict(features) == labels) > 0.95


def test_the_split_is_public_and_says_why() -> None:
    features, labels = blobs(200)
    splits = []
    for noise in (0, 1):
        spy = Spy(curator(labels))
        arguments: dict[str, Any] = {"classifier": LogisticRegression(), "epsilon": 1, "stages": 2}
        release = fit_multistage(features, spy, rng=SIMULATED(noise), **arguments)
        splits.append(spy.parts.value)
        assert any("public seed 0" in text for text in release.certificate.assumptions)
    np.testing.assert_array_equal(splits[0], splits[1])


def test_one_stage_is_the_default() -> None:
    features, labels = blobs(300)
    spy = Spy(curator(labels, epsilon=1))
    fit_multistage(features, spy, classifier=LogisticRegression(), epsilon=1, rng=SIMULATED(0))
    assert [(step, len(release.value)) for step, _, release in spy.log] == [("stage 1", 300)]
    spy = Spy(curator(labels, epsilon=1))
    arguments: dict[str, Any] = {"fractions": (0.5, 0.3, 0.2), "classifier": LogisticRegression()}
    fit_multistage(features, spy, epsilon=1, rng=SIMULATED(0), **arguments)
    assert [step for step, _, _ in spy.log] == ["stage 1", "stage 2", "stage 3", "evaluation"]


def test_a_first_stage_that_was_released_alone_goes_on(tmp_path: Path) -> None:
    features, labels = blobs(600)
    ledger = ldp.LedgerFile(tmp_path / "l.ledger").dataset("people", budget=ldp.Budget(1))
    held = ldp.Curator(labels, domain=ldp.Classes(2), ledger=ledger, run="a run")
    arguments: dict[str, Any] = {"classifier": LogisticRegression(), "epsilon": 1, "rng": ledger.randomness}

    class Dies(Spy):
        def release(self, mechanism: Any, *, rng: Any, step: str | None = None) -> Any:
            if step != "stage 1":
                raise KeyboardInterrupt
            return super().release(mechanism, rng=rng, step=step)

        def split(self, parts: Any) -> list[Spy]:
            return [Dies(part, self.log) for part in self.inner.split(parts)]

    with pytest.raises(KeyboardInterrupt):
        fit_multistage(features, Dies(held), stages=2, **arguments)
    assert len(ledger.charges) == 1
    fit_multistage(features, held, stages=2, **arguments)
    assert len(ledger.charges) == 3 and ledger.spent.epsilon() == 1


@pytest.mark.parametrize("labels", [np.arange(60) % 2, ["no", "yes"] * 30])
def test_labels_in_the_place_of_a_curator_are_refused_with_what_to_do(labels: Any) -> None:
    calls: list[Any] = [fit_multistage, ldp.fit_linear, ldp.fit_cells, cluster_prior, ldp.learners.fit_linear_head]
    for call in calls:
        with pytest.raises(InputError, match=r"curator must be a Curator.*LabelDPClassifier.*fit\(X, y\)"):
            call(np.ones((60, 2)), labels, epsilon=1.0, rng=SIMULATED(0))
    with pytest.raises(InputError, match="curator must be a Curator"):
        loss = ldp.sgd.SoftmaxRegression(2)
        ldp.sgd.lp_rr_sgd(np.ones((60, 2)), labels, loss=loss, epsilon=1, diameter=2, rng=SIMULATED(0))
    with pytest.raises(InputError, match="curator must be a Curator"):
        ldp.learners.preferences(np.ones((60, 2)), np.zeros((60, 2)), labels, epsilon=1, rng=SIMULATED(0))


def test_a_prior_is_used_by_the_first_stage_and_certified() -> None:
    features, labels = blobs(800, 3)
    holder = curator(labels, 3, 2.0)
    counts = ldp.LaplaceHistogram(
        domain=holder.domain, epsilon=0.5, groups=ldp.Public(np.zeros(800, int), why="one group")
    )
    prior = holder.release(counts, rng=SIMULATED(0)).map(lambda _: np.tile([0.5, 0.3, 0.2], (800, 1)))
    spy = Spy(holder)
    release = fit_multistage(
        features, spy, classifier=LogisticRegression(), epsilon=1.5, stages=1, prior=prior, rng=SIMULATED(0)
    )
    assert isinstance(spy.log[0][1], ldp.mechanisms.RandomizedResponseWithPrior)
    assert [step for step, _, _ in spy.log] == ["stage 1", "evaluation"]
    assert release.certificate.epsilon() == pytest.approx(2.0)
    assert np.mean(release.value.predict(features) == labels) > 0.85


def test_classes_have_their_names() -> None:
    features, labels = blobs(400)
    names = np.array(["no", "yes"])[labels]
    release = fit_multistage(
        features, curator(names, ("no", "yes"), 3.0), classifier=LogisticRegression(), epsilon=3, rng=SIMULATED(0)
    )
    assert release.value.classes == ("no", "yes")
    assert np.mean(release.value.predict(features) == names) > 0.95
    assert repr(release.value) == "Model(domain=Classes(('no', 'yes')), estimator=LogisticRegression)"


def test_the_default_takes_a_matrix_with_gaps() -> None:
    features, labels = blobs(600)
    features[::5, 0] = np.nan
    model = fit_multistage(features, curator(labels, epsilon=2.0), epsilon=2, rng=SIMULATED(0)).value
    assert np.mean(model.predict(features) == labels) > 0.85


def test_rare_classes_that_are_never_answered_are_handled() -> None:
    features, labels = blobs(400, 2)
    model = fit_multistage(
        features, curator(labels, 30, 8.0), classifier=LogisticRegression(), epsilon=8, stages=3, rng=SIMULATED(0)
    ).value
    assert model.predict_proba(features).shape == (400, 30)


def test_an_evaluation_part_of_one_release_costs_records_and_no_epsilon(tmp_path: Path) -> None:
    features, labels = blobs(1000)
    account = ldp.LedgerFile(tmp_path / "ledger").dataset("labels", budget=ldp.Budget(epsilon=1))
    holder = ldp.Curator(labels, domain=ldp.Classes(2), ledger=account)
    arguments: dict[str, Any] = {"classifier": LogisticRegression(), "epsilon": 1, "rng": account.randomness}
    crossed = fit_multistage(features, holder, **arguments)
    measured = fit_multistage(features, holder, evaluation=0.2, **arguments)
    assert account.spent.epsilon() == 1 and measured.certificate == crossed.certificate
    evaluation, whole = measured.value.evaluation, crossed.value.evaluation
    assert len(evaluation.rows) == 200 and "the model, on records" in evaluation.about
    assert "models of cross-validation" in whole.about
    assert np.array_equal(evaluation.release.value, whole.release.value[evaluation.rows])
    assert np.array_equal(evaluation.probabilities, measured.value.predict_proba(features[evaluation.rows]))
    # It is the model of the other records alone.
    others = np.setdiff1d(np.arange(1000), evaluation.rows)
    known = replace(whole.release, value=whole.release.value[others])
    same = fit_noisy(features[others], known, classifier=LogisticRegression()).value
    assert np.array_equal(same.predict_proba(features), measured.value.predict_proba(features))


def test_users_are_measured_or_learned_from_with_all_their_records() -> None:
    features, labels = blobs(600)
    users = np.arange(600) // 3
    holder = curator(labels, epsilon=3, users=users)
    model = fit_multistage(
        features, holder, classifier=LogisticRegression(), epsilon=1, evaluation=0.25, rng=SIMULATED(0)
    ).value
    rows = model.evaluation.rows
    assert len(rows) == 150 and not set(users[rows]) & set(users[np.setdiff1d(np.arange(600), rows)])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "stages": ({"stages": 0}, "stages"),
    "fractions": ({"fractions": (0.5, 0.4)}, "fractions"),
    "evaluation": ({"evaluation": 1.0}, "evaluation"),
    "temperature": ({"temperature": 0.0}, "temperature"),
    "epsilon": ({"epsilon": -1}, "epsilon"),
    "infinite epsilon": ({"epsilon": float("inf")}, "epsilon"),
    "training": ({"training": "magic"}, "training"),
    "classifier": ({"classifier": "logistic"}, "classifier"),
    "raw prior": ({"prior": np.full((60, 2), 0.5)}, "prior"),
    "prior of another size": ({"prior": ldp.Public(np.full((5, 2), 0.5), why="a test")}, "prior"),
    "too few records": ({"stages": 100}, "records"),
    "rng": ({"rng": None}, "rng"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_and_nothing_is_charged(name: str) -> None:
    wrong, message = REFUSED[name]
    features, labels = blobs(60)
    holder = curator(labels)
    arguments = {"classifier": LogisticRegression(), "epsilon": 1.0, "rng": SIMULATED(0)} | wrong
    with pytest.raises(InputError, match=message):
        fit_multistage(features, holder, **arguments)
    assert not holder.ledger.charges


def test_features_that_the_classifier_cannot_take_are_refused_before_anything_is_charged() -> None:
    features, labels = blobs(60)
    features[0, 0] = np.nan
    holder = curator(labels)
    with pytest.raises(InputError, match="cannot learn from these features"):
        fit_multistage(features, holder, classifier=LogisticRegression(), epsilon=1, rng=SIMULATED(0))
    with pytest.raises(InputError, match="one row for each record"):
        fit_multistage(features[:-1], holder, epsilon=1, rng=SIMULATED(0))
    assert not holder.ledger.charges


class Watched(ClassifierMixin, BaseEstimator):
    """A classifier that tells what it is fitted to, draws from the global generators, and warns."""

    def __init__(self, told: Any = None, broken: str = "") -> None:
        self.told, self.broken = told, broken

    def __sklearn_clone__(self) -> "Watched":
        return Watched(self.told, self.broken)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Watched":
        np.random.random()  # noqa: NPY002
        random.random()
        warnings.warn("made-up labels", UserWarning, stacklevel=1)
        self.told.append((len(X), np.array(y), None if sample_weight is None else np.array(sample_weight)))
        classes = np.unique(y)
        if self.broken == "missing" and not np.array_equal(classes, np.arange(3)):
            raise ValueError(f"Invalid classes inferred from unique values of y: {classes}")
        if self.broken == "weights" and sample_weight is not None and (sample_weight != 1).any():
            raise ValueError("sample_weight must be one")
        if self.broken == "negative" and sample_weight is not None and (sample_weight < 0).any():
            raise ValueError("Negative values in data passed to sample_weight")
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.inner_.predict_proba(X)


def global_states() -> Any:
    return random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002


class Refusing(Spy):
    """A curator without a budget: nothing after the rehearsal happens."""

    def release(self, mechanism: Any, *, rng: Any, step: str | None = None) -> Any:
        raise BudgetExceeded("a test")

    def split(self, parts: Any) -> list["Spy"]:
        return [Refusing(part) for part in self.inner.split(parts)]


@pytest.mark.parametrize(
    ("broken", "training", "message"),
    [
        ("missing", "posterior", "classifier Watched cannot learn where a class is missing among released labels"),
        ("weights", "posterior", "classifier Watched cannot learn from these features: sample_weight must be one"),
        ("negative", "debiased", "classifier Watched cannot learn from these features: Negative values"),
    ],
)
def test_what_a_classifier_cannot_take_is_found_before_anything_is_charged(
    broken: str, training: Any, message: str
) -> None:
    """Each of these was rehearsed on unweighted labels of every class, charged, and then raised a ValueError."""
    features, labels = blobs(3000, 3)
    holder, arguments = curator(labels, 3), {"classifier": Watched([], broken), "training": training, "stages": 1}
    with pytest.raises(InputError, match=message):
        fit_multistage(features, holder, epsilon=1, rng=SIMULATED(0), **arguments)
    assert not holder.ledger.charges


def categories(count: int, seed: int = 0) -> Any:
    """A classifier that knows no other values than those that it learned from, and a column of many values."""
    column = np.random.default_rng(seed).integers(0, count, (3000, 1))
    return make_pipeline(OneHotEncoder(), LogisticRegression()), column


@pytest.mark.parametrize("kind", [int, str, object])
@pytest.mark.parametrize("frame", [False, True])
def test_values_that_stand_alone_are_met_before_anything_is_charged(kind: Any, frame: bool) -> None:
    """Cross-fitting raised `ValueError: Found unknown categories` of integers below 900, after the charge."""
    classifier, column = categories(900)
    table, holder = column.astype(kind), curator(np.arange(3000) % 2)
    with pytest.raises(InputError, match="Pipeline cannot predict values that it did not learn from: Found unknown"):
        fit_multistage(pd.DataFrame(table, columns=["a"]) if frame else table, holder, classifier=classifier, epsilon=1,
                       rng=SIMULATED(0))  # fmt: skip
    assert not holder.ledger.charges


def test_a_rare_text_among_numbers_is_met_before_anything_is_charged() -> None:
    """Of 20,000 cells three are "?": a rehearsal on 1,000 at random sees none of them nine times of ten."""
    column = np.arange(20_000).astype(object)[:, None] % 7
    column[[5000, 9000, 15_000]] = "?"
    holder = curator(np.arange(20_000) % 2)
    with pytest.raises(InputError, match="LogisticRegression cannot learn from these features"):
        fit_multistage(column, holder, classifier=LogisticRegression(), epsilon=1, rng=SIMULATED(0))
    assert not holder.ledger.charges


def test_common_values_are_no_reason_to_refuse_and_unknown_ones_may_be_ignored() -> None:
    classifier, column = categories(20)
    fit_multistage(column, curator(np.arange(3000) % 2), classifier=classifier, epsilon=1, rng=SIMULATED(0))
    ignoring = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    many = categories(900)[1]
    fit_multistage(many, curator(np.arange(3000) % 2), classifier=ignoring, epsilon=1, rng=SIMULATED(0))


def test_what_a_classifier_raises_after_the_charge_is_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    """Values that occur twice stand alone in no rehearsal: it was a bare ValueError with labels charged."""
    classifier, _ = categories(2)
    column, labels = np.repeat(np.arange(1500), 2)[:, None], np.arange(3000) % 2
    ledger = ldp.LedgerFile(tmp_path / "l.ledger").dataset("people", budget=ldp.Budget(1))
    holder = ldp.Curator(labels, domain=ldp.Classes(2), ledger=ledger)
    with pytest.raises(ldp.LabelDPError, match="classifier Pipeline failed after labels were released: Found") as told:
        fit_multistage(column, holder, classifier=classifier, epsilon=1, stages=2, rng=ledger.randomness)
    assert not isinstance(told.value, InputError) and "The released labels stay charged" in str(told.value)
    before = holder.ledger.charges
    assert len(before) == 1
    other = LogisticRegression()
    fit_multistage(column, holder, classifier=other, epsilon=1, stages=2, rng=ledger.randomness)
    assert holder.ledger.charges[0] == before[0] and len(holder.ledger.charges) == 3
    assert holder.ledger.spent.epsilon() == 1, "the first stage is found, and the others are of other records"


def test_a_classifier_that_needs_many_records_is_tried_on_as_many_as_there_will_be() -> None:
    """1,200 neighbors were refused on 1,000 records of 3,000, as if a class were missing."""
    features, labels = blobs(3000)
    many = KNeighborsClassifier(1200)
    for reason, stages in (("", 1), ("n_samples = 1188 .tried on 1,188 of 3,000 records", 2)):
        holder = curator(labels)
        if not reason:
            fit_multistage(features, holder, classifier=many, epsilon=1, stages=stages, rng=SIMULATED(0))
            continue
        with pytest.raises(InputError, match=f"cannot learn from these features: Expected n_neighbors .*{reason}"):
            fit_multistage(features, holder, classifier=many, epsilon=1, stages=stages, rng=SIMULATED(0))
        assert not holder.ledger.charges


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("frame", [False, True])
def test_one_gap_among_many_records_is_found_before_anything_is_charged(value: float, frame: bool) -> None:
    """A gap in record 2,500 of 3,000 was out of sight of a rehearsal on the first 1,000: it raised after the charge."""
    features, labels = blobs(3000)
    features[2500, 1] = value
    holder, table = curator(labels), pd.DataFrame(features, columns=["a", "b"]) if frame else features
    with pytest.raises(InputError, match="classifier LogisticRegression cannot learn from these features"):
        fit_multistage(table, holder, classifier=LogisticRegression(), epsilon=1, rng=SIMULATED(0))
    assert not holder.ledger.charges


@pytest.mark.parametrize("classes", [2, 3, 400])
def test_a_rehearsal_sees_no_label_and_leaves_no_trace(classes: int) -> None:
    features, labels = blobs(3000, classes)
    states, seen = global_states(), []
    for some in (labels, np.zeros(3000, dtype=int)):
        told: list[Any] = []
        classifier = Watched(told)
        with pytest.raises(BudgetExceeded):
            fit_multistage(
                features, Refusing(curator(some, classes)), classifier=classifier, epsilon=1, rng=SIMULATED(0)
            )
        assert vars(classifier) == {"told": told, "broken": ""}, "only clones are fitted"
        assert global_states() == states
        seen.append(told)
    assert [y.tolist() for _, y, _ in seen[0]] == [y.tolist() for _, y, _ in seen[1]], "true labels have no say"
    (_, soft, weights), (rows, missing, none) = seen[0]
    assert rows == 1000 and none is None and weights is not None
    assert len(soft) <= 2 * 1000, "a record stands there once for each of two classes"
    if classes == 3:
        assert set(soft) == {0, 1, 2} and set(missing) == {1, 2}


def test_more_classes_than_a_rehearsal_has_records_for() -> None:
    """Boosted trees hold a tenth of the records out to stop by, with a record of each class."""
    features, labels = blobs(25_000, 500)
    trees = HistGradientBoostingClassifier(max_iter=1, max_bins=7, max_leaf_nodes=2, early_stopping=True)
    with pytest.raises(BudgetExceeded):
        fit_multistage(features, Refusing(curator(labels, 500)), classifier=trees, epsilon=1, rng=SIMULATED(0))


@pytest.mark.parametrize("training", ["posterior", "plain", "debiased", "consensus"])
@pytest.mark.parametrize("classes", mostly_slow([2, 4, 10], [4]))
@pytest.mark.parametrize("epsilon", mostly_slow(["1e-30", "3e-18", "1e-15", "1e-12"], ["1e-30", "1e-12"]))
def test_no_epsilon_is_charged_and_then_of_no_use(epsilon: str, classes: int, training: Any) -> None:
    """Of 1e-16 the noise had no inverse in doubles: a LinAlgError came after the charge, and of 1e-30 another."""
    features, labels = blobs(60, classes)
    holder = curator(labels, classes)
    arguments = {"classifier": LogisticRegression(), "epsilon": epsilon, "training": training, "stages": 1}
    try:
        model = fit_multistage(features, holder, rng=SIMULATED(0), **arguments)
    except (InputError, NotInvertibleError):
        assert not holder.ledger.charges
    else:
        assert epsilon != "1e-30"
        assert np.isfinite(model.value.evaluation.accuracy().value)


def test_a_single_record_cannot_be_learned_from() -> None:
    holder = curator([1])
    with pytest.raises(InputError, match="labels must hold more records"):
        fit_multistage(np.ones((1, 1)), holder, classifier=LogisticRegression(), epsilon=1, rng=SIMULATED(0))
    assert not holder.ledger.charges


def test_the_debiased_loss_in_two_stages_is_refused_before_anything_is_charged() -> None:
    features, labels = blobs(60)
    holder = curator(labels)
    arguments: dict[str, Any] = {"classifier": LogisticRegression(), "epsilon": 1, "stages": 2}
    with pytest.raises(NotInvertibleError, match="one stage"):
        fit_multistage(features, holder, training="debiased", rng=SIMULATED(0), **arguments)
    assert not holder.ledger.charges


def test_numbers_on_an_interval_are_refused() -> None:
    holder = ldp.Curator([0.5, 1.0], domain=ldp.Interval(0, 1, 5), budget=ldp.Budget(epsilon=1))
    with pytest.raises(InputError, match="classes"):
        fit_multistage(np.ones((2, 1)), holder, epsilon=1, rng=SIMULATED(0))


def test_the_prior_knows_the_class_of_a_clear_cluster() -> None:
    features, labels = blobs(3000, 3, distance=8.0)
    holder = curator(labels, 3, 1.0)
    prior = cluster_prior(features, holder, clusters=3, epsilon=0.5, rng=SIMULATED(0))
    np.testing.assert_allclose(prior.value.sum(axis=1), 1)
    assert prior.value[np.arange(3000), labels].mean() > 0.95
    assert holder.ledger.spent.epsilon() == prior.certificate.epsilon() == 0.5


def test_records_of_one_cluster_have_one_prior() -> None:
    features, labels = blobs(500)
    prior = cluster_prior(features, curator(labels), clusters=7, rng=SIMULATED(0)).value
    clusters = feature_clusters(features, 7, 0)
    for number in range(7):
        assert len(np.unique(prior[clusters == number], axis=0)) <= 1


def test_counts_without_mass_become_a_uniform_prior() -> None:
    features, labels = blobs(40)
    prior = cluster_prior(features, curator(labels), clusters=40, epsilon=0.01, rng=SIMULATED(1)).value
    assert np.any(np.all(prior == 0.5, axis=1))


@pytest.mark.guarantee("labeldp.learners:cluster_prior", "public_clusters")
def test_clusters_depend_on_the_features_alone() -> None:
    features, labels = blobs(300)
    holders = [curator(labels), curator(1 - labels)]
    mechanisms = [
        cluster_prior(features, holder, rng=SIMULATED(0)).certificate.entries[0].mechanism for holder in holders
    ]
    assert mechanisms[0] == mechanisms[1]


@pytest.mark.parametrize(("records", "classes"), [(50, 2), (1437, 10), (32561, 2), (10**6, 100)])
def test_defaults_follow_from_public_sizes(records: int, classes: int) -> None:
    clusters = default_clusters(records, classes)
    assert 1 <= clusters <= 100
    assert records / clusters >= 10
    assert 0.01 <= default_epsilon(records, clusters) <= 0.2


def test_gaps_and_wide_tables_are_taken() -> None:
    rng = SIMULATED(0)
    features = rng.normal(size=(200, 40))
    features[::9, 3] = np.nan
    assert feature_clusters(features, 5, 0).shape == (200,)


def test_bad_input_is_refused_and_nothing_is_charged_of_clusters() -> None:
    features, labels = blobs(30)
    holder = curator(labels)
    for wrong in (
        {"clusters": 0},
        {"clusters": 31},
        {"clusterings": 0},
        {"clusterings": 1.5},
        {"clusters": 2.5},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            cluster_prior(features, holder, rng=SIMULATED(0), **wrong)
    with pytest.raises(InputError, match="one row for each record"):
        cluster_prior(features[1:], holder, rng=SIMULATED(0))
    with pytest.raises(InputError, match="numbers"):
        cluster_prior(np.array([["a"]] * 30), holder, rng=SIMULATED(0))
    numbers = ldp.Curator(np.zeros(30), domain=ldp.Interval(0, 1, 3), budget=ldp.Budget(epsilon=1))
    with pytest.raises(InputError, match="Classes"):
        cluster_prior(features, numbers, rng=SIMULATED(0))
    assert not holder.ledger.charges and not numbers.ledger.charges


def test_a_model_with_a_prior_of_counts_is_certified_as_central() -> None:
    """Labels are randomized one by one, but somebody saw them to count clusters: the weaker trust is named."""
    features, labels = blobs(200)
    holder = curator(labels, 2, 2.0)
    prior = cluster_prior(features, holder, epsilon=0.5, rng=SIMULATED(0))
    model = ldp.fit_multistage(
        features, holder, classifier=LogisticRegression(), epsilon=1.5, stages=1, prior=prior, rng=SIMULATED(0)
    )
    assert model.certificate.trust is Trust.CENTRAL
    assert "a trusted curator sees the labels" in model.certificate.at()


@pytest.mark.guarantee("labeldp.learners:cluster_prior", "pure")
def test_several_clusterings_share_the_epsilon() -> None:
    """Three parts of 0.2, of which none is rounded up."""
    features, labels = blobs(600, 3, distance=8.0)
    holder = curator(labels, 3, 0.2)
    prior = cluster_prior(features, holder, clusters=6, clusterings=3, epsilon=0.2, rng=SIMULATED(0))
    assert 0.2 - 1e-12 < prior.certificate.epsilon() <= 0.2
    assert len(prior.certificate.entries) == len(holder.ledger.charges) == 3
    np.testing.assert_allclose(prior.value.sum(axis=1), 1)
    assert np.all(prior.value > 0)


def test_a_budget_for_some_of_the_clusterings_is_not_touched() -> None:
    features, labels = blobs(200)
    holder = curator(labels, 2, 0.15)
    with pytest.raises(BudgetExceeded, match=r"would bring it to 0\.2\."):
        cluster_prior(features, holder, epsilon=0.2, clusterings=2, rng=SIMULATED(0))
    assert holder.ledger.charges == ()


def test_opinions_are_joined_by_their_geometric_mean() -> None:
    first, second = np.array([[0.5, 0.5, 0.0]]), np.array([[0.32, 0.02, 0.66]])
    found = _joined([first, second])[0]
    roots = np.sqrt([0.5 * 0.32, 0.5 * 0.02, 0.001 * 0.66])
    np.testing.assert_allclose(found, roots / roots.sum())
    assert np.array_equal(_joined([first]), first)


def test_each_clustering_has_a_seed_of_its_own() -> None:
    features, labels = blobs(400, 2)
    options = {"clusters": 9, "epsilon": 0.5}
    several = cluster_prior(features, curator(labels), clusterings=2, seed=3, rng=SIMULATED(0), **options)
    one = cluster_prior(features, curator(labels), seed=4, rng=SIMULATED(0), **options)
    first, second = (entry.mechanism for entry in several.certificate.entries)
    assert first != second
    both = np.stack([feature_clusters(features, 9, seed) for seed in (3, 4)], axis=1)
    assert len(np.unique(both, axis=0)) > 9 >= len(np.unique(one.value, axis=0))
    for row in np.unique(both, axis=0):
        assert len(np.unique(several.value[(both == row).all(axis=1)], axis=0)) == 1


def test_the_model_of_one_noisy_sum_is_a_prior_and_costs_what_it_cost() -> None:
    features, labels = blobs(2000, 3, distance=6.0)
    holder = ldp.Curator(labels, domain=ldp.Classes(3), budget=ldp.Budget("2.3", 1e-6))
    head = ldp.fit_linear(features, holder, epsilon=0.5, delta=1e-6, rng=SIMULATED(0))
    prior = head.map(lambda model: model.predict_proba(features))
    mechanism = ldp.mechanisms.RandomizedResponseWithPrior(domain=holder.domain, epsilon=1.5, prior=prior)
    release = holder.release(mechanism, rng=SIMULATED(1))
    assert release.mechanism.sizes.mean() < 3
    assert np.mean(release.value == labels) > 0.9
    assert 1.9 < total_loss(holder.ledger.charges).epsilon(1e-6) <= 2.0
    assert release.certificate.epsilon(1e-6) == 2.3, "the budget: the prior has no pure epsilon"
