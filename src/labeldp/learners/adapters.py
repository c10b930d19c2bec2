"""A scikit-learn classifier for labels that were released before they came here."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from labeldp.learners.defaults import as_candidates
from labeldp.learners.evaluation import debiased_accuracy
from labeldp.learners.evidence import Evidence, released_codes
from labeldp.learners.features import check_columns, check_rows, row_table
from labeldp.learners.probabilities import Probabilities
from labeldp.learners.training import Training, first_guess, learn
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import InputError, Release


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A noise-aware classifier around any other, for released labels, in scikit-learn's terms.

    It adds no noise and protects nothing: give it what `Curator.release` returned. `fit(X, release)` needs no more.
    With `mechanism`, the labels alone will do, as codes (`release.value`) or as names: so it fits in pipelines,
    `cross_val_score` and `GridSearchCV` at no further cost.

    Args:
        estimator: classifier with `predict_proba`, or a list of such to choose from; by default
            `default_classifiers` (numeric features).
        mechanism: what made the labels, such as `release.mechanism`, unless `fit` is given the release; or
        epsilon: that of plain randomized response over `classes`.
        classes: class names in order; by default the distinct labels given to `fit`, which are released and so public.
        training: "posterior", "plain", "reweighted" or "debiased"; see `Training`.
        rounds, folds, random_state: see `Training`.
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
        folds: int = 5,
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
            y: a `Release`, or released labels, shape (n,): names, or codes (see `mechanism`).
            likelihood: P(released label | true class) of each record, shape (n, K), where records had different
                mechanisms; it takes the place of `mechanism`. Metadata: `set_fit_request(likelihood=True)`.
        """
        domain, evidence = self._evidence(y, likelihood)
        X = row_table(X)
        check_rows(X, len(evidence))
        check_columns(self, X, fit=True)
        recipe = Training(self.training, self.rounds, self.folds, self.random_state)  # type: ignore[arg-type]
        candidates = as_candidates(self.estimator, X, domain.size, argument="estimator")
        guess = first_guess(X, evidence, candidates, recipe)
        self.model_ = learn(X, evidence, guess, recipe, domain)
        self.classes_ = np.asarray(domain.names)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely true class of each record, shape (n,)."""
        check_is_fitted(self, "model_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Probabilities:
        """Probabilities of the true class, shape (n, K), one column for each of `classes_`."""
        check_is_fitted(self, "model_")
        X = row_table(X)
        check_columns(self, X)
        return self.model_.predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy that records show.

        Args:
            X: features, shape (n, d), that `fit` did not see.
            y: a `Release`: the debiased accuracy, an unbiased estimate of that on the true labels. Or labels by name,
                shape (n,): how often the predictions agree with them, as in all of scikit-learn. Agreement with noisy
                labels is less than the accuracy; `debiased_scorer` puts it right.
            sample_weight: of labels, shape (n,).
        """
        if not isinstance(y, Release):
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise InputError("sample_weight cannot go with a release: its records count alike")
        if y.mechanism is None or y.mechanism.domain.names != tuple(self.classes_.tolist()):
            raise InputError("y must be a release of the classes that the model was fitted on")
        return float(debiased_accuracy(y, self.predict_proba(X).argmax(axis=1)).value)

    def _evidence(self, y: Any, likelihood: Any) -> tuple[Classes, Evidence]:
        """The classes, and what the labels say about the true ones."""
        if isinstance(y, Release):
            if any(given is not None for given in (self.mechanism, self.epsilon, self.classes, likelihood)):
                raise InputError("mechanism, epsilon, classes and likelihood must be left out where y is a release")
            evidence = Evidence.of(y)
            return y.mechanism.domain, evidence
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        names = self.classes
        if self.mechanism is not None:
            domain: Classes = self.mechanism.domain
        else:
            domain = Classes(np.unique(labels).tolist() if names is None else names)
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
