"""Estimators whose `fit(X, y)` takes private labels: one fit for all clones, and no way around it."""

import copy
import gc
import io
import os
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp import estimators
from labeldp.cli import main
from labeldp.curator import DatasetLedger, Ledger
from labeldp.privacy import Trust, total_loss
from people import table_of_people
from slow import mostly_slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = np.where(X[:, 0] + RNG.normal(0, 0.3, 400) > 0, "yes", "no")
NUMBERS = np.clip(50 + 20 * X[:, 0] + RNG.normal(0, 5, 400), 0, 100)
NAMES = ("no", "yes")

SUMS: dict[str, Any] = {"estimator": "linear", "delta": 1e-6, "trust": "central"}
AUTO: dict[str, Any] = {"estimator": "auto", "delta": 0}
LOCAL: dict[str, Any] = {**AUTO, "trust": "local"}


def classifier(**changes: Any) -> ldp.LabelDPClassifier:
    """A classifier that learns quickly: of noisy sums."""
    return ldp.LabelDPClassifier(**{"epsilon": 2.0, "classes": NAMES, **SUMS, **changes})


def regressor(**changes: Any) -> ldp.LabelDPRegressor:
    """A regressor that learns quickly: of noisy sums."""
    return ldp.LabelDPRegressor(**{"epsilon": 2.0, "range": (0, 100), **SUMS, **changes})


@pytest.fixture
def charged(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The ledgers in memory that were charged, of which each fit makes one."""
    found: set[int] = set()
    kept: list[Ledger] = []  # so that no two have one id
    record = Ledger.record

    def watched(self: Ledger, request: Any) -> Any:
        charge = record(self, request)
        kept.append(self)
        found.add(id(self))
        return charge

    monkeypatch.setattr(Ledger, "record", watched)
    return found


@pytest.mark.guarantee("labeldp.estimators:LabelDPClassifier", "approximate")
@pytest.mark.guarantee("labeldp.estimators:LabelDPRegressor", "approximate")
@pytest.mark.parametrize(
    ("estimator", "labels", "at_least"),
    [
        pytest.param(classifier(estimator="auto", epsilon=20), Y, 0.8, id="classes, central, delta"),
        pytest.param(classifier(**AUTO, epsilon=20), Y, 0.8, id="classes, central"),
        pytest.param(classifier(**LOCAL, epsilon=20), Y, 0.8, id="classes, local"),
        pytest.param(regressor(estimator="auto", epsilon=20), NUMBERS, 0.5, id="numbers, central, delta"),
        pytest.param(regressor(**AUTO, epsilon=20), NUMBERS, 0.3, id="numbers, central"),
        pytest.param(regressor(**LOCAL, epsilon=20), NUMBERS, 0.3, id="numbers, local"),
    ],
)
def test_it_learns_and_says_what_it_cost(estimator: Any, labels: Any, at_least: float) -> None:
    fitted = clone(estimator).fit(X, labels)
    assert fitted.certificate_.epsilon(estimator.delta) <= estimator.epsilon
    assert fitted.certificate_.trust is Trust.LOCAL or estimator.trust == "central"
    assert fitted.score(X, ldp.Public(labels, why="made up")) > at_least
    assert fitted.n_features_in_ == 3 and fitted.evaluation_ is fitted.model_.evaluation
    assert fitted.predict(X[:7]).shape == (7,)
    if fitted.certificate_.trust is Trust.CENTRAL:
        assert len(fitted.evaluation_.rows) == 40
    if hasattr(fitted, "classes"):
        assert fitted.classes_.tolist() == list(NAMES) and set(fitted.predict(X)) <= set(NAMES)
        assert np.allclose(fitted.predict_proba(X).sum(axis=1), 1) and fitted.evaluation_.accuracy().value > 0.6
    else:
        assert fitted.predict(X).min() >= 0 and fitted.predict(X).max() <= 100


@pytest.mark.parametrize(
    ("estimator", "labels"),
    [
        pytest.param(classifier(**LOCAL, evaluation=0.25), Y, id="classes, local"),
        pytest.param(classifier(**AUTO, evaluation=0.25), Y, id="classes, central"),
        pytest.param(regressor(**LOCAL, evaluation=0.25), NUMBERS, id="numbers, local", marks=pytest.mark.slow),
        pytest.param(regressor(**AUTO, evaluation=0.25), NUMBERS, id="numbers, central"),
    ],
)
def test_it_measures_itself_on_a_share_of_the_records(estimator: Any, labels: Any) -> None:
    fitted = clone(estimator).fit(X, labels)
    rows, evaluation = fitted.evaluation_.rows, fitted.evaluation_
    assert len(rows) == 100 and "the model, on records that it was not trained on" in str(evaluation)
    if hasattr(evaluation, "probabilities"):
        assert np.allclose(evaluation.probabilities, fitted.predict_proba(X[rows]))
    else:
        assert np.allclose(evaluation.predictions, fitted.predict(X[rows]))


@pytest.mark.parametrize("share", [0, 1, -0.1, 0.01, "a tenth"])
def test_a_wrong_share_uses_up_nothing(share: Any) -> None:
    estimator = classifier(evaluation=share)
    with pytest.raises(ldp.privacy.InputError, match=r"^evaluation must"):
        estimator.fit(X, Y)
    estimator.set_params(evaluation=None).fit(X, Y)


@pytest.mark.guarantee("labeldp.fit:RightToFit", "charged_once")
def test_all_clones_share_one_fit(charged: set[int]) -> None:
    first = classifier()
    clones = [clone(first), clone(clone(first)), clone(first).set_params(epsilon=0.1)]
    clones[1].fit(X, Y)
    assert len(charged) == 1
    others = np.where(Y == "yes", "no", "yes")
    for estimator in (first, *clones, clone(clones[1]), clones[1].set_params(epsilon=0.5, classes=("yes", "no"))):
        for rows, labels in ((X, Y), (X[:300], Y[:300]), (X, others)):
            with pytest.raises(ldp.BudgetExceeded, match=r"another fit, .* would look at private labels again"):
                estimator.fit(rows, labels)
    assert len(charged) == 1
    classifier().fit(X, Y)
    assert len(charged) == 2


def test_a_refusal_says_how_scores_are_had() -> None:
    estimator = classifier().fit(X, Y)
    with pytest.raises(ldp.BudgetExceeded, match=r"evaluation_.*released.*NoisyLabelClassifier.*ledger=") as refused:
        estimator.fit(X, Y)
    assert "yes" not in str(refused.value)


@pytest.mark.parametrize("jobs", [None, 2])
def test_cross_validation_charges_once_at_most(charged: set[int], jobs: int | None) -> None:
    """In other processes the clones are pickled copies, and none of them has a right to fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if jobs is None:  # one fold is fitted; it is not scored, because its labels are not public
            assert np.isnan(cross_val_score(classifier(), X, Y, cv=4)).all()
        else:
            with pytest.raises(ValueError, match="All the 4 fits failed"):
                cross_val_score(classifier(), X, Y, cv=4, n_jobs=jobs)
    assert len(charged) == (1 if jobs is None else 0)


def test_what_fits_many_clones_is_refused(charged: set[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ldp.BudgetExceeded, ValueError)):
            GridSearchCV(classifier(), {"epsilon": [0.5, 1.0]}, cv=2, scoring="accuracy").fit(X, Y)
    assert len(charged) == 1
    three = np.where(X[:, 1] > 0.5, 2, Y == "yes")
    with pytest.raises(ldp.BudgetExceeded):
        OneVsRestClassifier(classifier(classes=2)).fit(X, three)
    assert len(charged) == 2


def test_a_pipeline_of_clones_shares_it_too(charged: set[int]) -> None:
    pipeline = make_pipeline(StandardScaler(), classifier())
    assert set(clone(pipeline).fit(X, Y).predict(X)) == set(NAMES)
    with pytest.raises(ldp.BudgetExceeded):
        pipeline.fit(X, Y)
    assert len(charged) == 1


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda estimator: pickle.loads(pickle.dumps(estimator)),
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "clone of a pickle": lambda estimator: clone(pickle.loads(pickle.dumps(estimator))),
    "pickle of a clone": lambda estimator: pickle.loads(pickle.dumps(clone(estimator))),
}


@pytest.mark.guarantee("labeldp.estimators:LabelDPClassifier", "no_copy")
@pytest.mark.guarantee("labeldp.estimators:LabelDPRegressor", "no_copy")
@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_has_no_right_to_fit(make: Callable[[Any], Any], charged: set[int], tmp_path: Path) -> None:
    estimator = classifier()
    with pytest.raises(ldp.BudgetExceeded, match=r"copied or pickled.*has no right to fit.*evaluation_"):
        make(estimator).fit(X, Y)
    assert not charged
    fitted = estimator.fit(X, Y)
    copied = make(fitted)
    if hasattr(copied, "model_"):
        assert (copied.predict_proba(X) == fitted.predict_proba(X)).all()
    with pytest.raises(ldp.BudgetExceeded):
        copied.fit(X, Y)
    copied.set_params(ledger=tmp_path / "labels.ledger", dataset="people", records=400).fit(X, Y)
    assert len(charged) == 1


@pytest.mark.guarantee("labeldp.estimators:LabelDPClassifier", "no_copy")
@pytest.mark.guarantee("labeldp.estimators:LabelDPRegressor", "no_copy")
def test_a_fork_has_no_right_to_fit() -> None:
    estimator = classifier()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if not child:
        status = 1
        try:
            estimator.fit(X, Y)
        except ldp.privacy.InputError as error:
            status = 0 if "belongs to the process" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    estimator.fit(X, Y)


def test_workers_have_no_right_to_fit() -> None:
    estimator = classifier()
    for backend in ("loky", "multiprocessing"):
        with pytest.raises(ldp.LabelDPError, match=r"no right to fit|another process"):
            Parallel(n_jobs=2, backend=backend)(delayed(clone(estimator).fit)(X, Y) for _ in range(2))
    estimator.fit(X, Y)


@pytest.mark.guarantee("labeldp.fit:RightToFit", "charged_once")
def test_of_fits_in_threads_one_is_charged(charged: set[int]) -> None:
    first, results = classifier(), []

    def fit(estimator: Any) -> None:
        try:
            results.append(estimator.fit(X, Y))
        except ldp.BudgetExceeded as error:
            results.append(error)

    threads = [threading.Thread(target=fit, args=(clone(first),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(charged) == 1 and sum(isinstance(each, ldp.BudgetExceeded) for each in results) == 3


REFUSED: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "classes": ({"classes": None}, X, Y, "classes must be declared, .* never read from the labels"),
    "one class": ({"classes": ("no",)}, X, Y, "classes"),
    "epsilon": ({"epsilon": -1.0}, X, Y, "epsilon must be positive"),
    "epsilon of text": ({"epsilon": "much"}, X, Y, "epsilon"),
    "delta": ({"delta": 2.0}, X, Y, "delta must lie in"),
    "trust": ({"trust": "nobody"}, X, Y, "trust must be one of local, central"),
    "delta of local": ({**LOCAL, "delta": 1e-6}, X, Y, "delta must be 0"),
    "dataset": ({"ledger": "labels.ledger"}, X, Y, "dataset must name the labels"),
    "revision": ({"revision": "new"}, X, Y, "revision .*give ledger="),
    "too few": ({}, X[:10], Y[:10], "X must hold at least 20 records"),
    "too few, local": (LOCAL, X[:19], Y[:19], "X must hold at least 20 records"),
    "lengths": ({}, X[:300], Y, "y must have one label for each row"),
    "no labels": ({}, X, None, "requires y to be passed"),
    "two columns": ({}, X, np.column_stack([Y, Y]), "y must be a 1d array"),
    "texts": ({}, X.astype(str).astype(object) + "a", Y, "features must be numbers"),
    "infinite": ({}, np.where(X > 2, np.inf, X), Y, "features must be finite"),
    "constant": ({}, np.ones((400, 2)), Y, "no feature column that can be used"),
}


@pytest.mark.parametrize(("changes", "features", "labels", "message"), REFUSED.values(), ids=REFUSED)
def test_a_fit_that_is_refused_uses_up_nothing(
    changes: dict[str, Any], features: Any, labels: Any, message: str, charged: set[int]
) -> None:
    estimator = classifier(**changes)
    with pytest.raises(ldp.privacy.InputError, match=message):
        estimator.fit(features, labels)
    assert not charged
    estimator.set_params(**classifier().get_params()).fit(X, Y)
    assert len(charged) == 1


def test_labels_outside_of_the_domain_use_up_nothing_and_are_not_told(charged: set[int]) -> None:
    for estimator, labels in ((classifier(), [*Y[:-1], "perhaps"]), (regressor(), [*NUMBERS[:-1], 123.25])):
        with pytest.raises(ldp.privacy.DomainError) as refused:
            estimator.fit(X, labels)
        assert "perhaps" not in str(refused.value) and "123" not in str(refused.value)
        assert not charged
    assert regressor(range=ldp.Interval(0, 100, clip=True)).fit(X, [*NUMBERS[:-1], 123.25])


@pytest.mark.parametrize("bounds", [None, (1,), 3, (5, 2), ("a", "b")])
def test_a_range_is_declared(bounds: Any) -> None:
    with pytest.raises(ldp.privacy.InputError, match=r"range|low"):
        regressor(range=bounds).fit(X, NUMBERS)


def test_ids_are_distinct_and_one_for_each_row(charged: set[int]) -> None:
    for ids in (np.zeros(400, dtype=int), range(399), np.ones((400, 2)), [None] * 400, [1.5] * 400):
        with pytest.raises(ldp.privacy.InputError, match=r"ids?\b"):
            classifier().fit(X, Y, ids=ids)
    assert not charged


def test_a_score_takes_public_or_released_labels() -> None:
    estimator = classifier(epsilon=8).fit(X, Y)
    for labels in (Y, list(Y), pd.Series(Y)):
        with pytest.raises(ldp.privacy.InputError, match=r"Public\(array.*`evaluation_` of an estimator"):
            estimator.score(X, labels)
    right = float((estimator.predict(X) == Y).mean())
    assert estimator.score(X, ldp.Public(Y, why="made up")) == right
    holder = ldp.Curator(Y, domain=ldp.Classes(NAMES), budget=ldp.Budget(10))
    release = holder.release(ldp.RandomizedResponse(domain=holder.domain, epsilon=10), rng=np.random.default_rng(0))
    assert estimator.score(X, release) == pytest.approx(right, abs=0.01)
    model = regressor(epsilon=8).fit(X, NUMBERS)
    own = 1 - ((model.predict(X) - NUMBERS) ** 2).mean() / NUMBERS.var()
    assert model.score(X, ldp.Public(NUMBERS, why="made up")) == pytest.approx(own)
    holder = ldp.Curator(NUMBERS, domain=ldp.Interval(0, 100), budget=ldp.Budget(200))
    release = holder.release(ldp.DiscreteLaplace(domain=holder.domain, epsilon=200), rng=np.random.default_rng(0))
    assert model.score(X, release) == pytest.approx(own, abs=0.02)
    with pytest.raises(ldp.privacy.InputError, match="on the domain of the model"):
        estimator.score(X, release)


def test_nothing_holds_the_labels_after_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Any]] = []
    begin = ldp.Curator.__init__

    def watched(self: Any, *arguments: Any, **options: Any) -> None:
        made.append(weakref.ref(self))
        begin(self, *arguments, **options)

    monkeypatch.setattr(ldp.Curator, "__init__", watched)
    estimator = regressor().fit(X, NUMBERS)
    stored = pickle.dumps(estimator)
    assert not any(number.tobytes() in stored for number in NUMBERS if 0 < number < 100)
    gc.collect()
    assert len(made) == 1 and made[0]() is None


OWNERS = np.repeat(np.arange(160), 3)[:400]
"""Three records of each user but the last."""


@pytest.mark.parametrize(
    ("estimator", "labels"),
    [
        (classifier(), Y),
        (regressor(), NUMBERS),
        (classifier(**LOCAL, epsilon=3.0), Y),
        (regressor(**LOCAL, epsilon=3.0), NUMBERS),
    ],
)
@pytest.mark.parametrize("durable", [False, True])
def test_all_labels_of_a_user_pay_the_epsilon_of_the_fit(
    estimator: Any, labels: Any, durable: bool, tmp_path: Path
) -> None:
    place = {"ledger": tmp_path / "l.db", "dataset": "people", "records": 400} if durable else {}
    order = np.random.default_rng(2).permutation(400)
    fit = clone(estimator).set_params(**place)
    fit._right = estimators.RightToFit()
    fit.fit(X[order], labels[order], ids=order, users=OWNERS[order])
    assert "all labels of one user of dataset" in fit.certificate_.at(1e-6)
    assert fit.certificate_.epsilon(fit.delta) <= fit.epsilon
    assert fit.evaluation_.rows.max() < 400 and len(fit.predict(X)) == 400
    with pytest.raises(ldp.privacy.InputError, match="labeldp fit --user writes one"):
        fit.summarize(X)
    if durable:
        bits = fit.predict(X)
        again = clone(estimator).set_params(**place).fit(X, labels, ids=np.arange(400), users=OWNERS)
        assert np.array_equal(again.predict(X), bits)  # the same fit, which costs nothing
        with pytest.raises(ldp.privacy.LedgerError, match="users"):
            clone(estimator).set_params(**place).fit(X, labels, ids=np.arange(400))


@pytest.mark.parametrize("users", [OWNERS[:-1], np.where(OWNERS == 3, None, OWNERS), OWNERS / 7])
def test_users_that_are_none_use_up_nothing(users: Any, charged: set[int]) -> None:
    with pytest.raises(ldp.privacy.InputError, match="users must"):
        classifier().fit(X, Y, users=users)
    assert not charged


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        classifier().predict(X)
    estimator = classifier(classes=None)
    with pytest.raises(ldp.privacy.InputError):
        estimator.fit(X, Y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


def test_a_ledger_file_finds_the_same_fit_again(tmp_path: Path) -> None:
    path = tmp_path / "labels.ledger"
    named = {"ledger": str(path), "dataset": "people"}
    first = classifier(**named).fit(X, Y)
    dataset = ldp.LedgerFile(path).dataset("people")
    count = len(dataset.charges)
    again = COPIES["pickle"](clone(first)).fit(X, Y)
    assert (again.predict_proba(X) == first.predict_proba(X)).all()
    assert first.certificate_.to_json() == again.certificate_.to_json()
    assert len(dataset.charges) == count and total_loss(dataset.charges).epsilon(1e-6) <= 2
    with pytest.raises(ldp.BudgetExceeded, match="'people'"):
        clone(first).set_params(epsilon=1.5).fit(X, Y)
    assert len(dataset.charges) == count
    ldp.LedgerFile(path).change("people", budget=ldp.Budget(16, 2e-6))
    clone(first).set_params(epsilon=1.5).fit(X, Y)
    assert len(dataset.charges) == 2 * count


@pytest.mark.parametrize("ids", [None, np.arange(400)[::-1]], ids=["row numbers", "ids"])
def test_a_ledger_file_refuses_parts_of_the_dataset(ids: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.ledger"
    ldp.LedgerFile(path).add("people", ldp.Budget(100, 1e-4))
    estimator = classifier(ledger=path, dataset="people").fit(X, Y, ids=ids)
    dataset = ldp.LedgerFile(path).dataset("people")
    count = len(dataset.charges)
    for rows in (slice(300), slice(100, 400), RNG.permutation(400)[:399]):
        with pytest.raises(ldp.privacy.LedgerError, match=r"evaluation_"):
            clone(estimator).fit(X[rows], Y[rows], ids=None if ids is None else ids[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="fits failed"):
            cross_val_score(estimator, X, Y, cv=3)
    assert len(dataset.charges) == count


SEARCHES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cross_val_score": lambda estimator, X, y: cross_val_score(estimator, X, y, cv=4),
    "cross_val_score, processes": lambda estimator, X, y: cross_val_score(estimator, X, y, cv=4, n_jobs=2),
    "cross_val_score, pipeline": lambda estimator, X, y: cross_val_score(
        make_pipeline(StandardScaler(), estimator), X, y, cv=4
    ),
    "GridSearchCV": lambda estimator, X, y: GridSearchCV(
        estimator, {"epsilon": [0.5, 1.0]}, cv=2, scoring="accuracy", refit=True
    ).fit(X, y),
    "deep copy of a clone": lambda estimator, X, y: copy.deepcopy(clone(estimator)).fit(X[:300], y[:300]),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("pinned", ["nowhere", "in the ledger", "by records="])
def test_a_search_with_a_ledger_charges_nothing_and_leaves_the_fit(search: Any, pinned: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.ledger"
    ledger = ldp.LedgerFile(path)
    ledger.add("people", ldp.Budget(4, 1e-5), records=400 if pinned == "in the ledger" else None)
    records = 400 if pinned == "by records=" else None
    estimator = classifier(ledger=path, dataset="people", records=records)
    words = "must be given: this is a clone" if pinned == "nowhere" else "400 records"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ldp.LabelDPError, ValueError), match=words) as refused:
            search(estimator, X, Y)
    assert "NoisyLabelClassifier, debiased_scorer" in str(refused.value)
    dataset = ledger.dataset("people")
    assert not dataset.charges and not dataset.read().domains and not dataset.read().differences
    fitted = estimator.fit(X, Y)
    assert fitted.predict(X).shape == (400,) and total_loss(dataset.charges).epsilon(1e-6) <= 2


def test_a_clone_of_all_records_is_fitted_once_something_says_how_many_there_are(tmp_path: Path) -> None:
    named = {"ledger": tmp_path / "labels.ledger", "dataset": "people"}
    with pytest.raises(ldp.privacy.InputError, match="records must be given"):
        clone(classifier(**named)).fit(X, Y)
    assert not Path(named["ledger"]).exists()
    first = clone(classifier(records=400, **named)).fit(X, Y)
    again = clone(classifier(**named)).fit(X, Y)  # its release says it now
    assert (again.predict_proba(X) == first.predict_proba(X)).all()


def test_without_a_ledger_records_keep_a_fold_from_the_right_to_fit(charged: set[int]) -> None:
    estimator = classifier(records=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="X must hold all 400 records"):
            cross_val_score(estimator, X, Y, cv=4)
    assert not charged
    estimator.fit(X, Y)
    assert len(charged) == 1


@pytest.mark.parametrize("records", [0, -3, 1.5, "all", True])
def test_a_wrong_number_of_records_uses_up_nothing(records: Any, charged: set[int]) -> None:
    with pytest.raises(ldp.privacy.InputError, match=r"^records must be the number of all records"):
        classifier(records=records).fit(X, Y)
    assert not charged


def test_ids_name_the_records_in_any_order(tmp_path: Path) -> None:
    named = {"ledger": tmp_path / "labels.ledger", "dataset": "people"}
    ids = np.array([f"p{number:03}" for number in range(400)])
    first = classifier(**named).fit(X, Y, ids=ids)
    count = len(ldp.LedgerFile(named["ledger"]).dataset("people").charges)
    order = RNG.permutation(400)
    again = classifier(**named).fit(X[order], Y[order], ids=pd.Series(ids[order]))
    assert (first.predict_proba(X) == again.predict_proba(X)).all()
    assert len(ldp.LedgerFile(named["ledger"]).dataset("people").charges) == count
    # The evaluation names places in the table that was given.
    assert (ids[first.evaluation_.rows] == ids[order][again.evaluation_.rows]).all()
    assert (first.evaluation_.release.value == again.evaluation_.release.value).all()


@pytest.mark.parametrize("kind", mostly_slow([pd.DataFrame, pl.DataFrame], [pd.DataFrame]), ids=["pandas", "polars"])
def test_data_frames_are_encoded_as_the_command_line_does(
    kind: Any, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit of a data frame, and `labeldp fit` on the same table, are found by each other in one ledger."""
    table = table_of_people(600, seed=1)
    frame = kind(table[["age", "hours", "region", "job"]])
    ledger = str(people / "people.ledger")
    options = {"epsilon": 8.0, "classes": NAMES, "trust": "local", "ledger": ledger, "dataset": "people"}
    estimator = ldp.LabelDPClassifier(**options).fit(frame, table["bought"], ids=table["id"].to_numpy())
    assert estimator.feature_names_in_.tolist() == ["age", "hours", "region", "job"]
    assert estimator.model_.encoder.categorical.tolist() == [False, False, True, True]
    assert estimator.score(frame, ldp.Public(table["bought"], why="made up")) > 0.7
    with pytest.raises(ldp.privacy.InputError, match="features must have 4 columns"):
        estimator.predict(frame[["hours", "age", "region", "job"]])
    dataset = ldp.LedgerFile(ledger).dataset("people")
    assert len(dataset.charges) == 1
    command = f"labeldp fit {people}/people.parquet --label bought --id id --classes no,yes --epsilon 8"
    monkeypatch.setattr(sys, "argv", [*command.split(), *f"--ledger {ledger} --dataset people --out model".split()])
    monkeypatch.chdir(people)
    main()
    assert len(dataset.charges) == 1


def test_names_of_columns_are_kept() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(400) + 7)
    estimator = classifier().fit(frame, Y)
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"] and estimator.n_features_in_ == 3
    with pytest.warns(UserWarning, match="valid feature names"):
        assert (estimator.predict_proba(X) == estimator.predict_proba(frame)).all()


@pytest.mark.parametrize("kind", ["pandas", "pandas frame", "polars"])
@pytest.mark.parametrize("durable", [False, True])
def test_a_feature_with_the_name_of_the_labels_is_refused(
    kind: str, durable: bool, charged: set[int], tmp_path: Path
) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(bought=Y)
    labels = frame[["bought"]] if kind == "pandas frame" else frame["bought"]
    given = (pl.DataFrame(frame), pl.Series(labels)) if kind == "polars" else (frame, labels)
    place = {"ledger": tmp_path / "l.db", "dataset": "people"} if durable else {}
    estimator = classifier(**place)
    with pytest.raises(ldp.privacy.InputError, match=r"^X must not hold 'bought', the column of the labels"):
        estimator.fit(*given)
    assert not charged and not (tmp_path / "l.db").exists()
    estimator.fit(frame[["a", "b", "c"]], frame["bought"])


def test_classes_may_be_numbers() -> None:
    codes = (Y == "yes").astype(int)
    estimator = classifier(classes=2, epsilon=20).fit(X, codes)
    assert estimator.classes_.tolist() == [0, 1] and estimator.predict(X).dtype.kind in "iu"
    assert (estimator.predict(X) == codes).mean() > 0.8


def test_its_text_shows_no_label() -> None:
    estimator = classifier().fit(X, Y)
    assert "LabelDPClassifier(" in repr(estimator) and "_right" not in repr(estimator)
    assert estimators.RightToFit.__name__ not in repr(vars(clone(estimator)).keys())


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "ledger"])
def test_a_report_is_written_of_what_was_fitted(stored: bool, tmp_path: Path) -> None:
    named = {"ledger": tmp_path / "labels.ledger", "dataset": "people"} if stored else {}
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    made = classifier(epsilon=20, **named)
    fitted = pickle.loads(pickle.dumps(made.fit(frame, Y, ids=np.arange(400)[::-1])))
    summary = fitted.summarize(frame)
    assert summary.sentence == fitted.certificate_.at(1e-6) and summary.rows == 400
    assert summary.budget.run.epsilon == pytest.approx(20) and summary.budget.before.epsilon == 0
    assert max(summary.importance, key=lambda each: each.drop).feature == "a"
    assert [(each.name, each.records) for each in summary.stages] == [("linear", 360), ("evaluation", 40)]
    assert any("ledger file" in each for each in summary.secret) == stored
    ldp.report.write_report(fitted, tmp_path / "report.html", frame)
    page = (tmp_path / "report.html").read_text()
    assert "LabelDPClassifier(" in page and "labeldp certificate DIR" not in page and "<dt>File" not in page
    with pytest.raises(ldp.privacy.InputError, match="X must be the features of the fit, 400 records"):
        ldp.report.write_report(fitted, tmp_path / "other.html", frame[:9])
    with pytest.raises(ldp.privacy.InputError, match="features must be the features of the fit"):
        ldp.report.write_report(fitted, tmp_path / "other.html")
    with pytest.raises(ldp.privacy.InputError, match="fitted must be a FitSummary or"):
        ldp.report.write_report(fitted.model_, tmp_path / "other.html", frame)
    with pytest.raises(NotFittedError):
        classifier().summarize(frame)
    assert not (tmp_path / "other.html").exists()


def test_a_report_of_numbers(tmp_path: Path) -> None:
    fitted = regressor().fit(X, NUMBERS)
    ldp.report.write_report(fitted, tmp_path / "report.html", X)
    assert "a number from 0 to 100" in " ".join((tmp_path / "report.html").read_text().split())


class _Seen(pickle.Pickler):
    """Keeps the type of each object that is pickled."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.types: set[type] = set()

    def persistent_id(self, found: Any) -> None:
        self.types.add(type(found))


@pytest.mark.parametrize("trust", ["local", "central"])
def test_a_fitted_estimator_keeps_no_label_no_curator_and_no_ledger(trust: str) -> None:
    """Codes and words of the labels, in the order of the records, are nowhere in its pickle."""
    model = ldp.LabelDPClassifier(epsilon=1, classes=("no", "yes"), estimator="linear", trust=trust).fit(X, Y)
    file = io.BytesIO()
    seen = _Seen(file)
    seen.dump(model)
    assert not {kind for kind in seen.types if issubclass(kind, (ldp.Curator, Ledger, DatasetLedger))}
    codes = (Y == "yes").astype(np.uint8)
    for array in (codes, codes.astype(np.int64), codes.astype(np.float64), Y, np.packbits(codes)):
        assert array.tobytes()[:64] not in file.getvalue()
    cost = model.certificate_.epsilon()
    model.summarize(X)
    assert model.certificate_.epsilon() == cost
