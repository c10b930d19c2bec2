"""Learning from released labels and scoring on them, by scikit-learn's conventions."""

from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import make_scorer
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from labeldp.features import check_columns, check_numbers, check_rows, row_table, rows_of
from labeldp.inference import RATIO_TERMS, area_terms, debiased_accuracy, log_losses
from labeldp.learners.cells.local import domain_of, unbiased
from labeldp.learners.classifiers import as_candidates, boosted_regression, without_rare_columns
from labeldp.learners.evidence import Evidence, Probabilities, are_sets, inverse_table, refuse_reused, released_codes
from labeldp.learners.training import Training, cross_fit, learn, record_weights, weight_name
from labeldp.mechanisms import Classes, Interval, RandomizedResponse, debias
from labeldp.privacy import InputError, Release


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A noise-aware classifier around any other, for released labels, as a scikit-learn estimator.

    It adds no noise and protects nothing: give it what `Curator.release` returned. `fit(X, release)` is enough. With
    `mechanism`, it also takes the labels alone, as codes or packed sets (`release.value`) or as names, for pipelines,
    `cross_val_score` and `GridSearchCV` at no further cost.

    Args:
        estimator: classifier with `predict_proba`, or a list of such to choose from; by default
            `MixtureClassifier` (numeric features).
        mechanism: the mechanism that made the labels, unless `fit` is given the release, or `epsilon`.
        epsilon: epsilon of plain randomized response over `classes`, in place of `mechanism`.
        classes: class names; by default the distinct labels given to `fit`, which are released and so public.
        training, rounds, folds, random_state: see `Training`.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        mechanism: Any = None,
        epsilon: float | None = None,
        classes: Any = None,
        training: str = "posterior",
        rounds: int = 1,
        folds: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.classes = classes
        self.training = training
        self.rounds = rounds
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, likelihood: Any = None) -> Self:
        """Learn from released labels.

        Args:
            X: features, shape (n, d), any table that the estimator takes.
            y: a `Release`, or released labels, shape (n,): names, or codes (see `mechanism`). Or sets of classes, as
                `mechanism` packs them.
            likelihood: P(released label | true class) of each record, shape (n, K), in place of `mechanism` if records
                had different ones; metadata by `set_fit_request(likelihood=True)`.
        """
        domain, evidence = self._evidence(y, likelihood)
        X = row_table(X)
        check_rows(X, len(evidence))
        check_columns(self, X, fit=True)
        if isinstance(y, Release):
            refuse_reused(y.mechanism, y.value, X=X)
        recipe = Training(self.training, self.rounds, self.folds, self.random_state)  # type: ignore[arg-type]
        candidates = as_candidates(self.estimator, X, argument="estimator")
        guess = cross_fit(X, evidence, candidates, recipe)
        self.model_ = learn(X, evidence, guess, recipe, domain)
        self.classes_ = domain.decode(np.arange(domain.size))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely true class of each record, shape (n,)."""
        check_is_fitted(self, "model_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Probabilities:
        """Return probabilities of the true class, shape (n, K), one column for each of `classes_`."""
        check_is_fitted(self, "model_")
        X = row_table(X)
        check_columns(self, X)
        return self.model_.predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of predictions.

        Args:
            X: features, shape (n, d), that `fit` did not see.
            y: a `Release`, for the debiased accuracy, which is unbiased for that on the true labels. Or labels by name,
                shape (n,), for the agreement with them, as elsewhere in scikit-learn; with noisy labels it is below the
                accuracy, which `debiased_scorer` corrects.
            sample_weight: weights of labels, shape (n,), not of a release.
        """
        if not isinstance(y, Release):
            domain = Classes(self.classes_.tolist())
            hits = domain.encode(y) == self.predict_proba(X).argmax(axis=1)
            return float(np.average(hits, weights=sample_weight))
        if sample_weight is not None:
            raise InputError("sample_weight cannot go with a release: its records count alike")
        if y.mechanism is None or y.mechanism.domain.names != tuple(self.classes_.tolist()):
            raise InputError("y must be a release of the classes that the model was fitted on")
        return float(debiased_accuracy(y, self.predict_proba(X).argmax(axis=1)).value)

    def _evidence(self, y: Any, likelihood: Any) -> tuple[Classes, Evidence]:
        if isinstance(y, Release):
            if any(argument is not None for argument in (self.mechanism, self.epsilon, self.classes, likelihood)):
                raise InputError("mechanism, epsilon, classes and likelihood must be left out where y is a release")
            evidence = Evidence.of(y)
            return y.mechanism.domain, evidence
        if self.mechanism is not None and likelihood is None and are_sets(self.mechanism):
            return self.mechanism.domain, Evidence.made_by(self.mechanism, y)
        # Of a list numpy would make texts of numbers beside texts, and round integers of more than 64 bits.
        listed = not hasattr(y, "__array__") and isinstance(y, Iterable) and not isinstance(y, str)
        labels = column_or_1d(np.array([*y, None], dtype=object)[:-1] if listed else y, warn=True)
        entries, names = labels.tolist(), self.classes
        if self.mechanism is not None:
            domain: Classes = self.mechanism.domain
        elif names is not None:
            domain = Classes(names)
        else:
            if labels.dtype.kind != "O":
                check_classification_targets(labels)
            distinct: dict[Any, Any] = {(type(label), label): label for label in entries if isinstance(label, Hashable)}
            domain = Classes(list(distinct.values()) if len(distinct) else entries)
        codes = released_codes(domain, labels)
        if likelihood is not None:
            rows = np.asarray(likelihood, dtype=np.float64)
            if rows.shape != (len(labels), domain.size) or not np.all(rows >= 0):
                raise InputError(
                    "likelihood must be non-negative, one row for each label and one column for each class"
                )
            return domain, Evidence(codes, rows, None)
        if (self.mechanism is None) == (self.epsilon is None):
            raise InputError("give either the mechanism that made the labels, or the epsilon of randomized response")
        mechanism = self.mechanism or RandomizedResponse(domain=domain, epsilon=self.epsilon)  # type: ignore[arg-type]
        return domain, Evidence.made_by(mechanism, codes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator
        if inner is None:
            tags.input_tags.allow_nan = True
        elif not isinstance(inner, list | tuple) and is_classifier(inner):
            tags.input_tags = inner.__sklearn_tags__().input_tags
        tags.classifier_tags.poor_score = True
        return tags


class NoisyNumberRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Any regressor of squared loss, fitted to unbiased released numbers.

    Apart from a term without predictions a squared loss is linear in the labels, so noise with mean zero does not
    change the optimum. It adds no noise and protects nothing: give it what `Curator.release` returned.

    Args:
        estimator: regressor that minimizes a squared loss; by default `boosted_regression` (numeric features).
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, release: Release[Any], sample_weight: Any = None) -> Self:
        """Learn from features, shape (n, d), released numbers, and public weights of the records, shape (n,).

        Raises:
            InputError: `release` has no numbers, features do not fit it, or the estimator takes no weights.
            NotInvertibleError: the noise has no inverse.
        """
        self.domain_ = domain_of(release, Interval)
        X = row_table(X)
        check_rows(X, len(release.value))
        check_columns(self, X, fit=True)
        refuse_reused(release.mechanism, release.value, X=X, sample_weight=sample_weight)
        if self.estimator is None:
            check_numbers(X, "estimator")
        elif not (hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")):
            raise InputError("estimator must be a scikit-learn regressor, such as HistGradientBoostingRegressor()")
        inner = boosted_regression(rows_of(X)) if self.estimator is None else clone(self.estimator)
        weights = record_weights(sample_weight, len(release.value), [inner])
        arguments = {} if weights is None else {weight_name(inner) or "": weights}
        table = without_rare_columns(X) if isinstance(inner, HistGradientBoostingRegressor) else X
        self.estimator_ = inner.fit(table, unbiased(release), **arguments)
        self.certificate_ = release.certificate
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predicted numbers, clipped to the declared range, shape (n,)."""
        check_is_fitted(self, "estimator_")
        X = row_table(X)
        check_columns(self, X)
        return np.clip(self.estimator_.predict(X), self.domain_.low, self.domain_.high)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.allow_nan = True
        elif isinstance(self.estimator, BaseEstimator):
            tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        return tags


Metric = Literal[
    "accuracy", "balanced_accuracy", "f1", "f1_macro", "neg_log_loss", "precision", "precision_macro", "recall",
    "recall_macro", "roc_auc",
]  # fmt: skip

RATIOS = {
    "recall": "recall",
    "recall_macro": "recall",
    "balanced_accuracy": "recall",
    "precision": "precision",
    "precision_macro": "precision",
    "f1": "F1",
    "f1_macro": "F1",
}
"""Scores of classes: of the second of two, or the mean over all."""

RESPONSES: dict[str, Any] = {
    "accuracy": "predict",
    **dict.fromkeys(RATIOS, "predict"),
    "neg_log_loss": "predict_proba",
    "roc_auc": ("decision_function", "predict_proba"),
}


def debiased_scorer(metric: Metric = "accuracy", *, mechanism: Any = None, domain: Classes | None = None) -> Any:
    """Return a scorer on released labels for `cross_val_score`, `GridSearchCV` and the like, at no cost in privacy.

    If one mechanism made all labels, give it. If records had different ones (several epsilons, say), give the domain,
    and pass `debias(mechanism, noisy).values`, shape (n, K), as the metadata `indicators`, which scikit-learn splits
    with the rows: `debiased_scorer("accuracy", domain=domain).set_score_request(indicators=True)` with
    `params={"indicators": values}` and metadata routing enabled.

    Args:
        metric: scikit-learn's name of a metric, larger is better: "accuracy"; "neg_log_loss", the negative log loss in
            nats; "roc_auc", for two classes. "recall",
            "precision" and "f1", of the second of two classes; "balanced_accuracy", "recall_macro", "precision_macro"
            and "f1_macro", the mean over all: ratios of unbiased estimates, NaN where a class seems not to occur.
        mechanism: the mechanism that made the scored labels, which are class names, codes, or sets as it packs them.
        domain: the declared classes, if `indicators` are passed.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    if not isinstance(metric, str):
        raise InputError(
            "must be the name of a metric, such as 'accuracy'. For a release, pass mechanism=release.mechanism",
            argument="metric",
        )
    if metric not in RESPONSES:
        raise InputError(f"metric must be one of {', '.join(RESPONSES)}")
    if (mechanism is None) == (domain is None):
        raise InputError("give either the mechanism that made all labels, or the domain and indicators as metadata")
    names = mechanism.domain if mechanism is not None else domain
    if not isinstance(names, Classes):
        raise InputError("the domain must be Classes")
    if len(set(map(type, names.names))) > 1:
        raise InputError("must have names of one type, which scikit-learn can sort: declare texts", argument="classes")
    if metric in ("recall", "precision", "f1") and names.size != 2:
        raise InputError(f"must be {metric}_macro for more than two classes", argument="metric")
    if mechanism is not None:
        inverse_table(mechanism)  # refuses noise without an inverse
    function = partial(_score, metric=metric, domain=names, mechanism=mechanism)
    function.__name__ = f"debiased_{metric}"  # type: ignore[attr-defined]  # scikit-learn before 1.6.1 prints it
    return make_scorer(function, response_method=RESPONSES[metric], greater_is_better=metric != "neg_log_loss")


def _score(labels: Any, answers: Any, *, metric: str, domain: Classes, mechanism: Any, indicators: Any = None) -> float:
    """Return the score of one fold, from released labels and the model's responses."""
    if indicators is None and mechanism is None:
        raise InputError("indicators must be passed: debias(mechanism, noisy).values, through metadata routing")
    if mechanism is None:
        weights = indicators
    elif are_sets(mechanism):
        weights = debias(mechanism, labels).values
    else:
        weights = inverse_table(mechanism)[released_codes(domain, labels)]
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (len(labels), domain.size):
        raise InputError("indicators must have one row for each label and one column for each class")
    if metric == "accuracy":
        return float(values[np.arange(len(values)), released_codes(domain, answers)].mean())
    if metric in RATIOS:
        hits = np.eye(domain.size, dtype=np.bool_)[released_codes(domain, answers)]
        part, total = (terms.sum(axis=0) for terms in RATIO_TERMS[RATIOS[metric]](values, hits))
        shares = np.divide(part, total, out=np.full(domain.size, np.nan), where=total > 0)
        return float(shares[1] if metric in ("recall", "precision", "f1") else shares.mean())
    answers = np.asarray(answers, dtype=np.float64)
    if metric == "roc_auc":
        pairs = area_terms(values[:, 1], answers if answers.ndim == 1 else answers[:, 1])
        ordered, every = pairs.statistics.tolist()
        return float(ordered / every) if every > 0 else 0.5
    return float((values * log_losses(_columns(answers, domain))).sum(axis=1).mean())


def _columns(answers: NDArray[np.float64], domain: Classes) -> NDArray[np.float64]:
    """Return probabilities, one column for each class; of two classes scikit-learn passes on the second alone."""
    rows = np.column_stack([1 - answers, answers]) if answers.ndim == 1 else answers
    if rows.shape[1] != domain.size:
        raise InputError(
            "the model must give a probability to every class of the domain: wrap it in NoisyLabelClassifier"
        )
    return rows
