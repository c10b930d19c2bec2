"""Estimators by scikit-learn's conventions: `fit(X, y)` takes private labels, and charges them once."""

import os
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Self, cast, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from labeldp.curator import DatasetLedger, LedgerFile, WatchedCurator
from labeldp.fit import (
    FitJob,
    FitSettings,
    FitSummary,
    GivenRows,
    Stage,
    summarize,
)
from labeldp.learners import MIN_RECORDS, TRUSTS, Model, check_columns, number_table
from labeldp.mechanisms import Classes, Interval, Mechanism
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    InputError,
    Ledger,
    LedgerError,
    Path,
    RecordLoss,
    Release,
    SingleProcess,
    SystemRandomness,
    check_choice,
    decimal,
    float_below,
    positive_epsilon,
    total_loss,
)
from labeldp.tables import domain_in_file

OnRelease = Callable[[str, int, Mechanism], None]

__all__ = ["LabelDPClassifier", "LabelDPRegressor"]

FREE = (
    "Scores cost nothing: a fitted model has its own in evaluation_, and cross-validation is free on labels that were "
    "released once (NoisyLabelClassifier, debiased_scorer)"
)

LEDGER = "a ledger file, ledger= and dataset=, whose budget says how much more these labels may cost"

USED = (
    "this estimator, or a clone of it, was fitted before, and all clones share one right to fit: another fit, also to "
    f"a fold of a cross-validation, would look at private labels again. {FREE}. To fit again on purpose, give {LEDGER}"
)

NO_RIGHT = (
    "this estimator was copied or pickled, and such a copy has no right to fit: fit the one that you made, or a clone "
    f"of it, or give {LEDGER}. {FREE}"
)

CLONE = (
    "must be given: this is a clone, as cross_val_score and GridSearchCV fit to folds, and the ledger does not know "
    "how many records the dataset has. A fold would be charged, and all records refused from then on. Nothing was "
    f"charged. {FREE}. To fit all records, fit the estimator that you made, or declare how many they are: "
    "records=N, or labeldp ledger add LEDGER --dataset NAME --records N"
)


@final
class RightToFit(SingleProcess):
    """The right of an estimator and all its clones to one fit without a ledger file.

    Guarantee (charged_once): of all fits that share a right, in any number of threads, one is charged.
    """

    _why_no_copy = f"a right to fit cannot be copied or pickled: {NO_RIGHT}"
    _why_no_fork = (
        "an estimator's right to fit belongs to the process that made it: fit it in that process, or give "
        f"{LEDGER}. {FREE}"
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._claim_process()

    @contextmanager
    def use(self, ledger: Ledger) -> Iterator[None]:
        """Let the body charge a ledger, unless an earlier body charged another one.

        Raises:
            BudgetExceeded: the right is used up.
            InputError: this is a fork of the process that the right belongs to.
        """
        self.check_process()
        with self._lock:
            if self._ledger is not None and self._ledger.charges:
                raise BudgetExceeded(USED)
            self._ledger = ledger
            yield


@dataclass(frozen=True)
class Spent:
    """What a fit without a ledger file cost, for a report, which else asks the dataset of a ledger.

    Args:
        budget: of the fit.
        loss: what was spent of it.
    """

    budget: Budget
    loss: RecordLoss
    entries: ClassVar[tuple[Any, ...]] = ()

    def part(self, path: Path) -> Path:
        """Return the part that a charge used."""
        return path

    def used(self, *, without: Collection[str] = ()) -> None:
        """Return None: a fit by itself has a list of releases, and no filter."""

    def spent_with(self, *, without: Collection[str] = ()) -> RecordLoss:
        """Return what was spent; nothing without this fit."""
        return total_loss(()) if without else self.loss


class _LabelDPEstimator(BaseEstimator):  # type: ignore[misc]
    """What the two estimators share: they differ in the domain of the labels."""

    def __init__(
        self,
        epsilon: Any,
        delta: Any = 0.0,
        trust: str = "local",
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        revision: str | None = None,
        evaluation: float | None = None,
        records: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.trust = trust
        self.ledger = ledger
        self.dataset = dataset
        self.revision = revision
        self.evaluation = evaluation
        self.records = records
        self._is_clone = False
        self._right: RightToFit | None = RightToFit()

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clone._right = getattr(self, "_right", None)
        clone._is_clone = True
        return clone

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the right to fit: copies and pickles have none."""
        return {name: value for name, value in super().__getstate__().items() if name != "_right"}

    def _domain(self) -> Classes | Interval:
        """Return the declared domain of the labels."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, ids: Any = None, persons: Any = None) -> Self:
        """Charge private labels, randomize them or sums of them, and learn from what was released.

        Args:
            X: public features, shape (n, d): numbers, NaN where a value is missing, or a data frame (pandas, polars,
                pyarrow), whose texts, dates and categories are encoded as `labeldp fit` encodes them.
            y: private labels, shape (n,).
            ids: public record ids, integers or texts, shape (n,), no two alike. By default row numbers.
            persons: whose each record is, public integers or texts, shape (n,): epsilon is then what a person pays for
                all of theirs, as with `labeldp fit --person`. By default each record is protected by itself.

        Raises:
            InputError: an argument is wrong, or a feature has the name of `y`; nothing was charged, and the right to
                fit is not used up.
            DomainError: a label is missing or outside of what was declared; nothing was charged.
            BudgetExceeded: the right to fit, or the budget in the ledger file, is used up; nothing was charged.
            LedgerError: the ledger file cannot be used, or these are other records or labels than the dataset's.
        """
        settings = self._settings()
        if persons is not None:
            settings = replace(settings, person_column="persons")
        table = self._table(X, fit=True)
        _refuse_label(table, y)
        labels = _labels(y, table.num_rows)
        if table.num_rows < MIN_RECORDS:
            least = f"must hold at least {MIN_RECORDS} records"
            raise InputError(f"{least}, and has n_samples={table.num_rows}", argument="X")
        self._check_count(table.num_rows)
        self._records = table.num_rows
        rows = GivenRows.of(table, labels, ids, settings.domain, persons)
        stages: list[Stage] = []

        def on_release(step: str, records: int, mechanism: Mechanism) -> None:
            stages.append(Stage.of(step, records, mechanism))

        fit = self._fit_once if self.ledger is None else self._fit_by_ledger
        job, release = fit(settings, rows, on_release)
        used = cast(GivenRows, job.rows)
        model, evaluation = release.value, release.value.evaluation
        assert evaluation is not None and evaluation.rows is not None
        self.evaluation_ = replace(evaluation, rows=used.order[evaluation.rows])
        self.model_: Model = replace(
            model,
            domain=self._domain(),
            evaluation=self.evaluation_,
            encoder=rows.encoder,
            certificate=release.certificate,
        )
        if isinstance(self.model_.domain, Classes):
            self.classes_ = self.model_.classes_
        self.certificate_ = release.certificate
        self._told = job.settings, tuple(stages), datetime.now(UTC).isoformat(timespec="seconds")
        return self

    def summarize(self, X: Any) -> FitSummary:
        """Return what a report says of the fitted model, for `write_report`: all of it from released labels.

        It measures how much each feature matters, and of some models how good they would be at other epsilons, on
        simulated labels: that may take longer than the fit.

        Args:
            X: the features of the fit, shape (n, d), in the same order.

        Raises:
            InputError: these are not as many records as were fitted.
        """
        model, (settings, stages, created) = self._fitted(), self._told
        if settings.person_column is not None:
            raise InputError(
                "of a fit with persons have no report: labeldp fit --person writes one", argument="estimators"
            )
        table, rows = self._table(X), self.evaluation_.rows
        if rows is None or table.num_rows != self._records:
            raise InputError(f"must be the features of the fit, {self._records:,} records", argument="X")
        settings = replace(settings, label="y")
        places = np.arange(table.num_rows)
        given = GivenRows(model.encoder, model.encoder.transform(table), None, settings.domain, None, places)
        account: Any = Spent(Budget(settings.epsilon, settings.delta), total_loss(self.certificate_.entries))
        if self.ledger is not None:
            account = LedgerFile(self.ledger).dataset(settings.dataset, revision=settings.revision)
        job = FitJob(settings, settings.learner(), "", repr(self), given, None, account, None)
        release = Release(replace(model, encoder=None), self.certificate_)
        summary = summarize(job, release, stages, lambda text, share: None)
        return summary if summary.created else replace(summary, created=created)

    def _settings(self) -> FitSettings:
        """Return what is asked for; refuse what is wrong."""
        domain = domain_in_file(self._domain())
        Budget(self.epsilon, self.delta)
        check_choice(self.trust, "trust", TRUSTS)
        epsilon, delta = float_below(positive_epsilon(self.epsilon)), float_below(decimal(self.delta, "delta"))
        if delta and self.trust == "local":
            raise InputError("must be 0 with trust='local': randomized labels need none", argument="delta")
        if self.ledger is None and self.revision is not None:
            raise InputError("names a state of the labels in a ledger file: give ledger=, too", argument="revision")
        if self.ledger is not None and self.dataset is None:
            raise InputError("must name the labels in the ledger file, such as 'survey-2026'", argument="dataset")
        assert isinstance(domain, Classes | Interval)
        name = self.dataset or "labels"
        revision, trust, share = self.revision, self.trust, self.evaluation
        return FitSettings("", domain, epsilon, delta, name, revision=revision, trust=trust, evaluation=share)

    def _check_count(self, records: int) -> None:
        """Refuse a part of the records, where `records` says how many there are."""
        if self.records is None:
            return
        if not isinstance(self.records, int | np.integer) or isinstance(self.records, bool) or self.records < 1:
            raise InputError("must be the number of all records, such as 1000", argument="records")
        if records != self.records:
            raise InputError(
                f"must hold all {self.records:,} records that records= declares, and holds {records:,}; nothing was "
                f"charged. A fold of a cross-validation is no dataset of its own. {FREE}",
                argument="X",
            )

    def _fit_once(self, settings: FitSettings, rows: GivenRows, on_release: OnRelease) -> tuple[FitJob, Release[Model]]:
        """Use up the right to fit, unless the labels are refused before they are charged."""
        right: RightToFit | None = getattr(self, "_right", None)
        if right is None:
            raise BudgetExceeded(NO_RIGHT)
        ledger = Ledger(Budget(settings.epsilon, settings.delta), settings.dataset)
        job = FitJob.of_rows(settings, rows, ledger).checked()
        with right.use(ledger):
            watched = WatchedCurator(job.curator, on_release, {})
            return job, job.fit(watched, rng=SystemRandomness())

    def _fit_by_ledger(
        self, settings: FitSettings, rows: GivenRows, on_release: OnRelease
    ) -> tuple[FitJob, Release[Model]]:
        """Charge a ledger file, which finds again what it released."""
        try:
            job = FitJob.of_rows(settings, rows, ledger=os.fspath(self.ledger))  # type: ignore[arg-type]
            job.checked()
            if self._is_clone and self.records is None and cast(DatasetLedger, job.account).records is None:
                raise InputError(CLONE, argument="records")
            job.require_budget()
            return job, job.learn(on_release)
        except LedgerError as error:
            raise LedgerError(f"{error}. A fold of a cross-validation is no dataset of its own. {FREE}") from None

    def _table(self, X: Any, *, fit: bool = False) -> pa.Table:
        """Return features as a table, whose columns have the names of the fit."""
        check_columns(self, X, fit=fit)
        names = list(getattr(self, "feature_names_in_", ()))
        if names and hasattr(X, "__arrow_c_stream__"):
            return pa.table(X).select(names)
        numbers = number_table(X)
        return pa.table(list(numbers.T), names=names or [f"x{place}" for place in range(numbers.shape[1])])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each record, or its number, clipped to the range, shape (n,)."""
        return self._fitted().predict(self._table(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy, or R squared of numbers; see `Model.score`.

        Args:
            X: features, shape (n, d).
            y: `Public(labels, why="…")`, or a `Release` of labels that the model did not learn from. The score of
                private labels would not be private: `evaluation_` has one that is.
        """
        return self._fitted().score(self._table(X), y)

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


class LabelDPClassifier(ClassifierMixin, _LabelDPEstimator):  # type: ignore[misc]
    """A classifier whose `fit(X, y)` takes private labels: it makes a curator, which charges and randomizes them once.

    It learns as `labeldp fit` does by default. Without a ledger file an estimator and all its clones share one right to
    fit, because each fit looks at the labels: what fits again and again, such as `cross_val_score` or `GridSearchCV`,
    is refused after the first fit, whatever labels it passes. `evaluation_` says how good the model is, at no further
    cost.

    Args:
        epsilon: what the fit costs.
        classes: the possible labels, or `Classes`; never read from the labels.
        delta: what the fit may cost beside epsilon, with trust "central"; 0 for a pure guarantee.
        trust: "local": each label is randomized, and learned from by what is known of the noise. "central": noise is
            added to sums of labels, by this process, which is trusted with them.
        ledger: path of a ledger file, which remembers what was charged, by whichever process or copy. The same fit
            again costs nothing; another one is charged to the dataset's budget, which for a new file is that of this
            fit. Parts of the dataset are refused, and so is a clone as long as nothing says how many records there
            are: a release, `labeldp ledger add --records N`, or `records`.
        dataset: the name of the labels in the ledger file, and in the certificate.
        revision: names another state of the labels in the ledger file, where some were corrected.
        evaluation: share of the records, in (0, 1), that the model does not learn from, but is measured on. By default
            0.1; but none with trust "local", where models of cross-validation are measured in place of the model, which
            learns from all records: ask for a share to have an interval of the model itself. It costs no epsilon.
        records: how many records there are. A fit of a part of them is then refused before it is charged.

    Attributes:
        classes_: the declared classes, sorted, in the order of the columns of `predict_proba`.
        certificate_: what was charged, under which conditions.
        evaluation_: how good the model is, from released labels alone: `evaluation_.accuracy()`, `.confusion()`, ….
        model_: the `Model`, with the encoder of the features.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Guarantee (approximate, no_copy): (epsilon, delta)-DP for each label over all fits of an estimator and its clones,
        or with a ledger file the budget of its dataset; a copy that was pickled or forked has no right to fit without a
        ledger file.

    Examples:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> y = np.where(X[:, 0] > 0, "yes", "no")  # private
        >>> model = LabelDPClassifier(epsilon=2.0, classes=("no", "yes"), trust="central").fit(X, y)
        >>> model.certificate_.epsilon()
        2.0
    """

    def __init__(
        self,
        *,
        epsilon: Any,
        classes: Any = None,
        delta: Any = 0.0,
        trust: str = "local",
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        revision: str | None = None,
        evaluation: float | None = None,
        records: int | None = None,
    ) -> None:
        super().__init__(epsilon, delta, trust, ledger, dataset, revision, evaluation, records)
        self.classes = classes

    score = _LabelDPEstimator.score  # that of scikit-learn's mixin takes private labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities of the true class, shape (n, K), one column for each of `classes_`."""
        return self._fitted().predict_proba(self._table(X))

    def _domain(self) -> Classes:
        if self.classes is None:
            raise InputError(
                "must be declared, such as ('no', 'yes'): they are never read from the labels", argument="classes"
            )
        return self.classes if isinstance(self.classes, Classes) else Classes(self.classes)


class LabelDPRegressor(RegressorMixin, _LabelDPEstimator):  # type: ignore[misc]
    """A regressor whose `fit(X, y)` takes private numbers: it makes a curator, which charges and randomizes them once.

    The rules are those of `LabelDPClassifier`.

    Args:
        epsilon: what the fit costs.
        range: the lowest and the highest possible number, or `Interval`; never read from the labels. A wider range
            means more noise. Numbers outside are refused, or with `Interval(low, high, clip=True)` clipped.
        delta, trust, ledger, dataset, revision, records: see `LabelDPClassifier`.
        evaluation: see `LabelDPClassifier`; with trust "local" it is 0.1 by default, too.

    Attributes:
        certificate_, model_, n_features_in_, feature_names_in_: see `LabelDPClassifier`.
        evaluation_: how good the model is, from released numbers alone: `evaluation_.error()`, `.explained()`, ….

    Guarantee (approximate, no_copy): (epsilon, delta)-DP for each label over all fits of an estimator and its clones,
        or with a ledger file the budget of its dataset; a copy that was pickled or forked has no right to fit without a
        ledger file.

    Examples:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> y = np.clip(50 + 10 * X[:, 0], 0, 100)  # private
        >>> model = LabelDPRegressor(epsilon=2.0, range=(0, 100), trust="central").fit(X, y)
        >>> model.certificate_.epsilon()
        2.0
    """

    def __init__(
        self,
        *,
        epsilon: Any,
        range: Any = None,
        delta: Any = 0.0,
        trust: str = "local",
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        revision: str | None = None,
        evaluation: float | None = None,
        records: int | None = None,
    ) -> None:
        super().__init__(epsilon, delta, trust, ledger, dataset, revision, evaluation, records)
        self.range = range

    score = _LabelDPEstimator.score  # that of scikit-learn's mixin takes private labels

    def _domain(self) -> Interval:
        if self.range is None:
            raise InputError("must be declared, such as (0, 100): it is never read from the labels", argument="range")
        if isinstance(self.range, Interval):
            return self.range
        try:
            low, high = self.range
        except (TypeError, ValueError):
            raise InputError("must be the lowest and the highest number, such as (0, 100)", argument="range") from None
        return Interval(low, high)


def _refuse_label(table: pa.Table, y: Any) -> None:
    """Raise InputError if a feature has the name of the labels."""
    columns = getattr(y, "columns", None)
    name = columns[0] if columns is not None and len(columns) == 1 else getattr(y, "name", None)
    if isinstance(name, str) and name in table.column_names:
        raise InputError(
            f"must not hold {name!r}, the column of the labels: they are private, and features are public. Drop it, "
            "or rename y where it is another column; nothing was charged",
            argument="X",
        )


def _labels(y: Any, records: int) -> Any:
    """Return one column of labels, which are not looked at.

    Raises:
        InputError: there is not one label for each record.
    """
    if y is None:
        raise InputError(": fit requires y to be passed, but the target y is None", argument="y")
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        warnings.warn("y is a column-vector, and is taken as shape (n,)", DataConversionWarning, stacklevel=3)
        y = _safe_indexing(y, 0, axis=1)
        shape = getattr(y, "shape", None)
    if (shape is not None and len(shape) != 1) or not hasattr(y, "__len__"):
        raise InputError("must be a 1d array, one label for each row of X", argument="y")
    if len(y) != records:
        raise InputError("must have one label for each row of X: inconsistent numbers of samples", argument="y")
    return y
