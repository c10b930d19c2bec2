"""Estimators by scikit-learn's conventions: `fit(X, y)` takes private labels, and charges them once."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from itertools import product
from pathlib import Path
from typing import Any, ParamSpec, Self, cast

import numpy as np
from joblib import effective_n_jobs, parallel_config
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp import encoders
from labeldp.curator import DatasetSnapshot, Ledger, LedgerFile, add_command
from labeldp.features import check_table, rows_of
from labeldp.fit import (
    FREE,
    NO_RIGHT,
    FitCost,
    FitSettings,
    FitSummary,
    GivenRows,
    Job,
    RightToFit,
    Stage,
    feature_rows,
    feature_table,
    fit_request,
    label_column,
    prepare,
    refuse_label,
    summarize,
)
from labeldp.learners import (
    AUTO,
    LEARNERS,
    MIN_RECORDS,
    TRUSTS,
    Learner,
    Model,
    WrappedEstimator,
    names_of,
    record_weights,
)
from labeldp.mechanisms import Classes, Interval, Mechanism
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    InputError,
    LedgerError,
    Release,
    Request,
    check_choice,
    decimal,
    float_below,
    positive_epsilon,
    total_loss,
)

OnRelease = Callable[[str, int, Mechanism], None]

__all__ = ["LabelDPClassifier", "LabelDPRegressor"]

CLONE = (
    "must be given: this is a clone, as cross_val_score and GridSearchCV fit to folds, and the ledger does not know "
    "how many records the dataset has. A fold would be charged, and all records refused from then on. Nothing was "
    f"charged. {FREE}. To fit all records, fit the estimator that you made, or declare how many they are: "
    "records=N, or "
)

RANDOM_STATE = (
    "is no parameter: whoever knows a seed can remove the noise, so the noise of a fit is cryptographic. To simulate, "
    "release with a seeded generator, Curator.release(mechanism, rng=np.random.default_rng(0)), and learn by fit_noisy"
)


P = ParamSpec("P")


def _refuse_seed(init: Callable[P, None]) -> Callable[P, None]:
    """Return an `__init__` with the same signature that says why it takes no seed."""

    @wraps(init)
    def declare(*args: P.args, **parameters: P.kwargs) -> None:
        if "random_state" in parameters:
            raise InputError(RANDOM_STATE, argument="random_state")
        init(*args, **parameters)

    return declare


class _LabelDPEstimator(BaseEstimator):  # type: ignore[misc]
    """What the two estimators share: they differ in the domain of the labels."""

    epsilon: Any
    estimator: Any
    delta: Any
    trust: str
    ledger: str | os.PathLike[str] | None
    dataset: str | None
    revision: str | None
    evaluation: float | None
    records: Any
    n_jobs: Any
    representation: str | None

    def _declare(self, parameters: dict[str, Any]) -> None:
        """Store the parameters of `__init__` unchanged, as scikit-learn does, and create a right to fit."""
        for name in self._get_param_names():
            setattr(self, name, parameters[name])
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
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, ids: Any = None, users: Any = None) -> Self:
        """Charge private labels, randomize them or sums of them, and learn from the release.

        Args:
            X: public features, shape (n, d). A scikit-learn `estimator` gets them as they are. Every other learner
                takes numbers, NaN where a value is missing; a data frame (pandas, polars, pyarrow), which is encoded as
                `labeldp fit` does; or a sparse matrix of at most 10,000,000 values, zeros included.
            y: private labels, shape (n,).
            sample_weight: public weights of the records in training, shape (n,). They must not depend on the labels,
                as the certificate says. Results count all records alike.
            ids: public record ids, integers or texts, shape (n,), no two alike. By default row numbers.
            users: the user of each record, public integers or texts, shape (n,): epsilon is then what a user pays for
                all of theirs, as with `labeldp fit --user`. By default each record is protected by itself.

        Raises:
            InputError: an argument is wrong, or a feature has the name of `y`; nothing was charged, and the right to
                fit is not used up.
            DomainError: a label is missing or outside of what was declared; nothing was charged.
            BudgetExceeded: the right to fit, or the budget in the ledger file, is used up; nothing was charged.
            LedgerError: the ledger file cannot be used, or these are other records or labels than the dataset's.
        """
        request = self._request(None if users is None else "users")
        settings = FitSettings.of(request)
        if users is None and settings.delta and self.trust == "local":
            raise InputError("must be 0 with trust='local' and no users: one answer needs none", argument="delta")
        learner = self._learner()
        wraps = isinstance(learner, WrappedEstimator)
        check_table(X)
        refuse_label(getattr(X, "column_names", getattr(X, "columns", ())), y)
        self._network = None if self.representation is None else encoders.NetworkFeatures.of(self.representation, X)
        X = self._encoded(X)
        features = (feature_rows if wraps else feature_table)(self, X, fit=True)
        records = rows_of(features)
        labels = label_column(y, records)
        if records < MIN_RECORDS:
            raise InputError(f"must hold at least {MIN_RECORDS} records, and has n_samples={records}", argument="X")
        self._check_count(records)
        self._records = records
        request = replace(request, does=self._name(settings, sample_weight, learner))
        takers = learner.estimators if isinstance(learner, WrappedEstimator) else ()
        weights = record_weights(sample_weight, records, takers)
        rows = GivenRows.of(features, labels, ids, settings.domain, users, weights)
        stages: list[Stage] = []

        def on_release(step: str, count: int, mechanism: Mechanism) -> None:
            stages.append(Stage.of(step, count, mechanism))

        fit = self._fit_once if self.ledger is None else self._fit_by_ledger
        with self._threads():
            job, release = fit(request, learner, rows, on_release)
        order, evaluation = cast(GivenRows, job.rows).order, release.value.evaluation
        assert evaluation is not None and evaluation.rows is not None
        self.evaluation_ = replace(evaluation, rows=order[evaluation.rows])
        self.model_: Model = replace(
            release.value,
            domain=self._domain(),
            evaluation=self.evaluation_,
            encoder=None if wraps else rows.encoder,
            certificate=release.certificate,
        )
        if self.model_.domain.target == "classes":
            self.classes_ = self.model_.classes_
        # A learner that a program holds cannot be asked for again by its name.
        self.certificate_ = replace(release.certificate, request=None if learner else release.certificate.request)
        weighted = sample_weight is not None
        self.choice_ = job.choice
        self._job = (
            job.taken,
            job.settings,
            job.learner,
            weighted,
            tuple(stages),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return self

    def _encoded(self, X: Any) -> Any:
        """Return features as the public encoder of the fit makes them of records, if there is one."""
        return X if self._network is None else self._network.transform(X)

    def _learner(self) -> Learner | None:
        """Return the learner that a program holds; None for one of the catalog."""
        if self.estimator is None or isinstance(self.estimator, str):
            return None
        learner = self.estimator if isinstance(self.estimator, Learner) else WrappedEstimator(estimator=self.estimator)
        if isinstance(learner, WrappedEstimator) and self.trust != "local":
            names = ", ".join(names_of(self.trust, self._domain().target))
            raise InputError(
                "learns from randomized labels, so it needs trust='local'; with trust='central' name one of "
                f"{AUTO}, {names}",
                argument="estimator",
            )
        kind, target = f"{type(learner).__module__}:{type(learner).__qualname__}", self._domain().target
        models = {
            trust
            for entry, trust, prior in product(LEARNERS.values(), ("local", "central"), ("none", "clusters"))
            if entry.path(trust, target, prior) == kind
        }
        if models and self.trust not in models:
            raise InputError(f"needs trust={models.pop()!r}, as its certificate will say", argument="estimator")
        return learner

    def _name(self, settings: FitSettings, sample_weight: Any, learner: Learner | None) -> str:
        if learner is not None:
            if sample_weight is not None and not isinstance(learner, WrappedEstimator):
                raise InputError(
                    "goes with the name of a learner or a scikit-learn estimator", argument="sample_weight"
                )
            return learner.name
        name, names = self.estimator or AUTO, [AUTO, *names_of(settings.trust, settings.target)]
        if name not in names:
            raise InputError(
                f"must be one of {', '.join(names)} with trust={settings.trust!r}, or with "
                "trust='local' an unfitted scikit-learn estimator",
                argument="estimator",
            )
        return name

    def _threads(self) -> ExitStack:
        """Return a context in which learning takes as many threads as `n_jobs` says."""
        context = ExitStack()
        if self.n_jobs is not None:
            count = effective_n_jobs(self.n_jobs)
            context.enter_context(parallel_config("threading", n_jobs=count))
            context.enter_context(threadpool_limits(count))
        return context

    def summarize(self, X: Any) -> FitSummary:
        """Return what a report says of the fitted model, for `write_report`: all of it from released labels.

        It measures how much each feature matters, and of some models how good they would be at other epsilons, on
        simulated labels: that may take longer than the fit.

        Args:
            X: the features of the fit, shape (n, d), in the same order.

        Raises:
            InputError: these are not as many records as were fitted, or the fit has no report.
        """
        model, (taken, settings, learner, weighted, stages, created) = self._fitted(), self._job
        if weighted or isinstance(learner, WrappedEstimator):
            raise InputError(
                "of a scikit-learn estimator, or of weighted records, have no report: read evaluation_",
                argument="estimators",
            )
        if settings.user_column is not None:
            raise InputError("of a fit with users have no report: labeldp fit --user writes one", argument="estimators")
        table, rows = feature_table(self, self._encoded(X)), self.evaluation_.rows
        if rows is None or table.num_rows != self._records:
            raise InputError(f"must be the features of the fit, {self._records:,} records", argument="X")
        settings = replace(settings, label="y")
        order = np.arange(table.num_rows)
        rows_of_fit = GivenRows(model.encoder, model.encoder.transform(table), None, settings.domain, None, order)
        account: Any = FitCost(Budget(settings.epsilon, settings.delta), total_loss(self.certificate_.entries))
        if self.ledger is not None:
            account = LedgerFile(self.ledger).dataset(settings.dataset, revision=self.revision)
        request = self.certificate_.request or taken
        job = Job(request, taken, settings, learner, rows_of_fit, rows_of_fit, account, self.choice_)
        release = Release(replace(model, encoder=None), self.certificate_)
        from labeldp.fit import diagnosed  # what a fit does not need

        summary = summarize(job, release, stages, repr(self))
        summary = diagnosed(summary, job, release.value, lambda text, share: None)
        return summary if summary.created else replace(summary, created=created)

    def _request(self, users: str | None) -> Request:
        """Return the request of the fit; raise an error if a parameter is invalid."""
        domain = self._domain().in_file()
        Budget(self.epsilon, self.delta)
        check_choice(self.trust, "trust", TRUSTS)
        epsilon, delta = float_below(positive_epsilon(self.epsilon)), float_below(decimal(self.delta, "delta"))
        if self.ledger is None and self.revision is not None:
            raise InputError("names a state of the labels in a ledger file: give ledger=, too", argument="revision")
        if self.ledger is not None and self.dataset is None:
            raise InputError("must name the labels in the ledger file, such as 'survey-2026'", argument="dataset")
        jobs = self.n_jobs
        if jobs is not None and (not isinstance(jobs, int | np.integer) or isinstance(jobs, bool) or not jobs):
            raise InputError("must be a number of threads, or -1 for one on each core", argument="n_jobs")
        assert isinstance(domain, Classes | Interval)
        named: dict[str, Any] = {"revision": self.revision, "trust": self.trust, "evaluation": self.evaluation}
        named |= {"encoder": self.representation, "user_column": users}
        return fit_request("", domain, epsilon, delta, self.dataset or "labels", **named)

    def _check_count(self, records: int) -> None:
        """Refuse a part of the records, where `records` says how many there are."""
        if self.records is None:
            return
        if not isinstance(self.records, int | np.integer) or isinstance(self.records, bool) or self.records < 1:
            raise InputError("must be the number of all records, such as 1000", argument="records")
        if records != self.records:
            raise InputError(
                f"must hold all {self.records:,} records that records= declares, and holds {records:,}; nothing was "
                f"charged. A fold of a cross-validation is not a dataset. {FREE}",
                argument="X",
            )

    def _fit_once(
        self, request: Request, learner: Learner | None, rows: GivenRows, on_release: OnRelease
    ) -> tuple[Job, Release[Model]]:
        """Use up the right to fit, unless the labels are refused before they are charged."""
        ledger = Ledger(request.budget, request.scope.name)
        job, right = prepare(request, rows, ledger, learner=learner), getattr(self, "_right", None)
        if right is None:
            raise BudgetExceeded(NO_RIGHT)
        with right.use(ledger):
            return job, job.learn(on_release)

    def _fit_by_ledger(
        self, request: Request, learner: Learner | None, rows: GivenRows, on_release: OnRelease
    ) -> tuple[Job, Release[Model]]:
        """Charge a ledger file, which finds again what it released."""
        try:
            job = prepare(request, rows, os.fspath(self.ledger), learner=learner)  # type: ignore[arg-type]
            state = cast(DatasetSnapshot, job.account.state)
            if self._is_clone and self.records is None and state.count is None:
                budget = " --epsilon …" if state.is_new else ""
                command = f"{add_command(Path(cast(str, self.ledger)), state.scope.dataset)} --records N{budget}"
                raise InputError(f"{CLONE}{command}", argument="records")
            job.require_budget()
            return job, job.learn(on_release)
        except LedgerError as error:
            raise LedgerError(f"{error}. A fold of a cross-validation is not a dataset. {FREE}") from None

    def _known(self, X: Any) -> Any:
        """Return features as the fitted model takes them."""
        return (feature_rows if self._fitted().encoder is None else feature_table)(self, self._encoded(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each record, or its number, clipped to the range, shape (n,)."""
        return self._fitted().predict(self._known(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy, or R squared of numbers; see `Model.score`.

        Args:
            X: features, shape (n, d).
            y: `Public(labels, why="…")`, or a `Release` of labels that the model did not learn from. The score of
                private labels would not be private: `evaluation_` has one that is.
        """
        return self._fitted().score(self._known(X), y)

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        wraps = isinstance(self.estimator, BaseEstimator)
        tags.input_tags.allow_nan = not wraps or get_tags(self.estimator).input_tags.allow_nan
        tags.input_tags.sparse = not wraps or get_tags(self.estimator).input_tags.sparse
        tags.non_deterministic = True
        return tags


class LabelDPClassifier(ClassifierMixin, _LabelDPEstimator):  # type: ignore[misc]
    """A classifier whose `fit(X, y)` takes private labels: it charges them once, adds noise, and learns.

    Without a ledger file an estimator and all its clones share one right to fit, because each fit looks at the labels.
    So `cross_val_score` and `GridSearchCV` are refused after their first fit. `evaluation_` says how good the model is,
    at no further cost.

    Args:
        epsilon: what the fit costs.
        classes: the possible labels, or `Classes`; never read from the labels.
        estimator: who learns. None or "auto" chooses from what is public, as `labeldp fit` does: with trust "central",
            too, it randomizes each label where that is expected to be no worse. A name chooses one learner: "boosting",
            "linear", "cells" or "neighbors". A `Learner` of `labeldp.learners` has its
            own options. Or an unfitted scikit-learn classifier with `predict_proba`, or several to choose from, which
            learn from randomized labels by their likelihood.
        delta: what the fit may cost beside epsilon, with trust "central" or with users; 0 for a pure guarantee.
        trust: "local": each label is randomized, and learned from by what is known of the noise. "central": noise is
            added to sums of labels, by this process, which is trusted with them.
        ledger: path of a ledger file, which remembers what was charged, by whichever process or copy. The same fit
            again costs nothing; another one is charged to the dataset's budget, which for a new file is that of this
            fit. Parts of the dataset are refused, and so is a clone as long as nothing says how many records there
            are: a release, `labeldp ledger add --records N`, or `records`.
        dataset: the name of the labels in the ledger file, and in the certificate.
        revision: names another state of the labels in the ledger file, where some were corrected.
        evaluation: share of the records, in (0, 1), that the model does not learn from, but is measured on. By default
            0.1; but with trust "local" none: models of cross-validation are measured in place of the model, which
            learns from all records. A share gives an interval of the model itself, and costs no epsilon.
        records: how many records there are. A fit of a part of them is then refused before it is charged.
        n_jobs: how many threads learning takes, -1 for one on each core; None leaves it to the libraries. What must be
            the same to the bit takes one.
        representation: the name of a public encoder, whose features are learned from: "imagenet" of images X, uint8,
            shape (n, height, width) or (n, height, width, 3); "text" of texts, a list or columns of a data frame.

    Attributes:
        choice_: what learned, and why it was taken: a `Choice`, whose text is empty for a named learner.
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

    @_refuse_seed
    def __init__(
        self,
        *,
        epsilon: Any,
        classes: Any = None,
        estimator: Any = None,
        delta: Any = 0.0,
        trust: str = "local",
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        revision: str | None = None,
        evaluation: float | None = None,
        records: int | None = None,
        n_jobs: int | None = None,
        representation: str | None = None,
    ) -> None:
        self._declare(locals())

    score = _LabelDPEstimator.score  # that of scikit-learn's mixin takes private labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities of the true class, shape (n, K), one column for each of `classes_`."""
        return self._fitted().predict_proba(self._known(X))

    def _domain(self) -> Classes:
        if self.classes is None:
            raise InputError(
                "must be declared, such as ('no', 'yes'): they are never read from the labels", argument="classes"
            )
        return Classes.of(self.classes)


class LabelDPRegressor(RegressorMixin, _LabelDPEstimator):  # type: ignore[misc]
    """A regressor whose `fit(X, y)` takes private numbers: it charges them once, adds noise, and learns.

    The rules are those of `LabelDPClassifier`.

    Args:
        epsilon: what the fit costs.
        range: the lowest and the highest possible number, or `Interval`; never read from the labels. A wider range
            means more noise. Numbers outside are refused, or with `Interval(low, high, clip=True)` clipped.
        estimator: who learns, see `LabelDPClassifier`: None, "auto", "boosting", "linear", "cells" or "neighbors"; a
            `Learner`; or an unfitted scikit-learn regressor of a squared loss.
        delta, trust, ledger, dataset, revision, records, n_jobs, representation: see `LabelDPClassifier`.
        evaluation: see `LabelDPClassifier`; with trust "local" it is 0.1 by default, too.

    Attributes:
        certificate_, choice_, model_, n_features_in_, feature_names_in_: see `LabelDPClassifier`.
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

    @_refuse_seed
    def __init__(
        self,
        *,
        epsilon: Any,
        range: Any = None,
        estimator: Any = None,
        delta: Any = 0.0,
        trust: str = "local",
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        revision: str | None = None,
        evaluation: float | None = None,
        records: int | None = None,
        n_jobs: int | None = None,
        representation: str | None = None,
    ) -> None:
        self._declare(locals())

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
