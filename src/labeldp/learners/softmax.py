"""Linear classifiers on principal directions of public features, from released labels by their likelihood."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.features import (
    GapTags,
    Space,
    check_columns,
    check_rows,
    default_representation,
    encode,
    is_embedded,
    number_table,
    row_table,
    rows_of,
    take_rows,
)
from labeldp.learners.evidence import Evidence, Posterior, Probabilities, likeliest_factor, normalized
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import AnyFloats, check_positive

DIMENSION = 300
"""Principal directions, at most."""

RIDGE = 1.0
"""Precision of the prior: the scores of a class have the variance 1 / ridge, beside its offset."""

OFFSET = 0.1
"""Expected square of the offset, as a part of that variance."""

DECAY, EMBEDDING_DECAY = 0.4, 1.2
"""The expected square of a direction's coefficient grows with its variance to this power; and that of embeddings."""

SPREADS = np.geomspace(0.25, 16, 19)
"""Standard deviations of scores among which the start is looked for."""

BLOCK_ROWS = 8192

TRIAL_RECORDS = 500
"""Records of a dry run, at most."""


class LinearScores(BaseEstimator):  # type: ignore[misc]
    """Linear scores of encoded features, as `fit_linear` makes them.

    Args:
        representation: fitted transformer.
        coefficients: coefficients, shape (p, columns).
        offset: offsets, shape (columns,).
        confidence: factor on scores before the softmax.
    """

    def __init__(self, representation: Any, coefficients: Any, offset: Any, confidence: float = 1.0) -> None:
        self.representation = representation
        self.coefficients = coefficients
        self.offset = offset
        self.confidence = confidence

    def mapped(self, X: Any) -> Any:
        """Return features as the representation encodes them, or unchanged without one."""
        if hasattr(self, "n_features_in_"):
            return number_table(X, self, gaps=False)
        table = self.representation.transform(row_table(X))
        return table if hasattr(table, "dtype") else np.asarray(table)

    def scores(self, table: Any) -> NDArray[np.float64]:
        """Return scores of encoded features, shape (n, columns)."""
        return np.asarray(table @ self.coefficients.astype(table.dtype) + self.offset, dtype=np.float64)


class LinearClassifier(ClassifierMixin, LinearScores):  # type: ignore[misc]
    """A classifier by linear scores, made by `fit_linear`; it has no fit of labels."""

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.coefficients.shape[1])

    def of_table(self, table: Any) -> NDArray[np.float64]:
        """Return probabilities for encoded features, shape (n, K)."""
        return np.asarray(softmax(self.confidence * self.scores(table), axis=1), dtype=np.float64)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities, shape (n, K)."""
        return self.of_table(self.mapped(X))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the code of the largest score, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)


MIN_CORRECTED = 1e-4
"""What is added to a probability before its log: no model that is corrected excludes a class."""


def log_scores(probabilities: Any) -> AnyFloats:
    """Return the logs of probabilities, none of which counts as 0, shape (n, K)."""
    return np.log(np.asarray(probabilities) + MIN_CORRECTED)


@dataclass(frozen=True)
class LinearHead:
    """A linear classifier, and the release for it: other classifiers can learn from that as well, at no cost.

    Args:
        classifier: the fitted classifier.
        posterior: the release about the training records, and their directions.
        space: the principal directions of the mapped features.
        kept: columns of `space.rows` that the classifier is linear in.
        weights: its coefficients for them, shape (d, K).
    """

    classifier: LinearClassifier
    posterior: Posterior = field(repr=False)
    space: Space = field(repr=False)
    kept: NDArray[np.intp] = field(repr=False)
    weights: AnyFloats = field(repr=False)

    def probabilities(self) -> NDArray[np.float64]:
        """Return the classifier's probabilities for the training records, shape (n, K), without mapping them again."""
        scores = self.posterior.rows @ self.weights.astype(self.posterior.rows.dtype)
        return np.asarray(softmax(self.classifier.confidence * scores, axis=1), dtype=np.float64)

    def correction(self, probabilities: Any, *, ridge: float) -> LinearClassifier:
        """Return the scores to add to a classifier's log probabilities, with which all that was released is likeliest.

        This is post-processing: it uses the release for this head again.

        Args:
            probabilities: what a classifier of the same codes says of the head's training records, shape (n, K), such
                as a network that was distilled from this head.
            ridge: factor on the precision of the head's prior.
        """
        offset, factor = log_scores(probabilities).astype(self.posterior.rows.dtype), check_positive(ridge, "ridge")
        weights = self.posterior.largest(np.zeros_like(self.weights), offset=offset, ridge=factor)
        weights *= self.posterior.confidence(weights, offset=offset, ridge=factor)
        return LinearClassifier(self.classifier.representation, *of_features(self.space, self.kept, weights))


def of_features(space: Space, kept: Any, weights: AnyFloats, center: Any = 0.0) -> tuple[AnyFloats, AnyFloats]:
    """Return coefficients and offset for mapped features, from the weights of some columns of `space.rows`.

    Args:
        center: added to the scores.
    """
    full = np.zeros((1 + len(space.variances), weights.shape[1]))
    full[kept] = weights
    coefficients = space.basis @ full[1:]
    return coefficients, full[0] + center - space.mean @ coefficients


def label_head(features: Any, evidence: Evidence, *, representation: Any = None, prior: Any = None) -> LinearHead:
    """Fit the linear softmax on principal directions of public features under which released labels are likeliest.

    Args:
        features: public features of n records: images or a table, as the representation takes them.
        evidence: what was released of each record.
        representation: as in `fit_linear`.
        prior: class probabilities of each record from another source, shape (n, K): the head is then fitted to the
            posterior of each record.

    Raises:
        InputError: an argument is wrong.
    """
    plane = Plane.of(features, len(evidence), representation, DIMENSION)
    known = normalized(evidence.likelihood if prior is None else evidence.posterior(prior)).astype(np.float32)
    likelihood, soft = (known, None) if prior is None else (None, known)
    posterior = Posterior(plane.rows, RIDGE / plane.signal, likelihood=likelihood, soft=soft)
    weights = posterior.largest(_start(plane.rows, known, plane.signal))
    kept = np.arange(plane.rows.shape[1])
    scores, confidence = of_features(plane.space, kept, weights), posterior.confidence(weights)
    classifier = LinearClassifier(plane.transformer, *scores, confidence)
    return LinearHead(classifier, posterior, plane.space, kept, weights)


@dataclass(frozen=True)
class Plane:
    """What a head sees of the features, found without labels.

    Args:
        transformer: fitted map.
        space: principal directions of what it makes.
        rows: the features along them, shape (n, 1 + d).
        signal: expected square of each coefficient, up to a factor, shape (1 + d,).
    """

    transformer: Any
    space: Space
    rows: AnyFloats = field(repr=False)
    signal: AnyFloats = field(repr=False)

    @classmethod
    def of(
        cls, features: Any, records: int, representation: Any, dimension: int, *, most: int | None = None
    ) -> "Plane":
        """Return the plane of features, computed from at most `most` records."""
        features = row_table(features)
        check_rows(features, records)
        unfitted = default_representation(features) if representation is None else representation
        some = most is not None and records > most
        shown = take_rows(features, _sample(records, most)) if some else features
        mapped = encode(unfitted, shown, None, sampled=True)
        space = Space.of(mapped.table, min(dimension, max(len(mapped.table) - 1, 1)))
        if some or mapped.whole is not None:
            blocks = (np.arange(start, min(start + BLOCK_ROWS, records)) for start in range(0, records, BLOCK_ROWS))
            rows = np.concatenate([space.rows(mapped.encoded(take_rows(features, block))) for block in blocks])
        else:
            rows = space.rows(mapped.table)
        decay = EMBEDDING_DECAY if is_embedded(mapped.transformer) else DECAY
        return cls(mapped.transformer, space, rows, space.signal(1.0, OFFSET, decay))


def _sample(records: int, most: int | None) -> NDArray[np.intp]:
    """Return the places of some of many records, drawn by a public seed, in order."""
    return np.sort(np.random.default_rng(0).permutation(records)[:most])


def _start(rows: AnyFloats, known: AnyFloats, signal: AnyFloats) -> AnyFloats:
    """Return coefficients to start from, shape (d, K): least squares, shrunk, and scaled so that labels are likeliest.

    Args:
        rows: uncorrelated columns of mean square one, shape (n, d).
        known: class probabilities by what was released alone, shape (n, K).
        signal: expected square of each coefficient, up to a factor, shape (d,).
    """
    targets = known - known.mean(axis=0)
    moment = (rows.T @ targets).astype(np.float64) / len(rows)
    noise = float(targets.var(axis=0).mean()) / len(rows)
    found = max(float(np.mean(moment**2, axis=1).sum()) - noise * len(signal), noise) * signal / signal.sum()
    if not found.any():  # all targets are equal
        return np.zeros_like(moment)
    weights = moment * (found / (found + noise))[:, None]
    scores = rows @ weights.astype(rows.dtype)
    return weights * likeliest_factor(
        SPREADS / max(float(scores.std()), float(np.finfo(scores.dtype).tiny)), scores, known
    )


class LikelihoodClassifier(GapTags, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The base of classifiers that learn from released labels by their likelihood."""

    loss: ClassVar[str] = "forward"

    def dry_run(self, X: Any, classes: int) -> None:
        """Learn from some records and synthetic labels, to find errors before anything is charged.

        Raises:
            InputError: features or arguments cannot be used.
        """
        some = take_rows(row_table(X), np.arange(min(rows_of(X), TRIAL_RECORDS)))
        domain = Classes(classes)
        synthetic = (np.arange(rows_of(some)) % classes).astype(domain.dtype)
        evidence = Evidence.made_by(RandomizedResponse(domain=domain, epsilon=1.0), synthetic)
        clone(self).fit_released(some, evidence).predict_proba(some)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class, shape (n,)."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])


class SoftmaxClassifier(LikelihoodClassifier):
    """A linear softmax on principal directions of a map of the features, fitted to released labels by their likelihood.

    Use it for images and for tables of many numbers, in `fit_multistage`, `fit_noisy` or on its own: it takes what
    every mechanism answered, classes and sets of classes, at the chances that the mechanism gave them.

    Args:
        representation: unfitted transformer, which sees the features alone; by default `default_representation`. Or a
            fitted one as `Public(encoder, why="…")`, whose reason the certificates of fits quote.
    """

    def __init__(self, representation: Any = None) -> None:
        self.representation = representation

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from true labels y, shape (n,), and features X."""
        labels = validate_data(self, y=y)
        features = self._checked(X, fit=True)
        check_consistent_length(features, labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        return self._learn(features, Evidence(codes, np.eye(len(self.classes_))[codes], None))

    def fit_released(self, X: Any, evidence: Evidence, *, start: Any = None, prior: Any = None, stage: int = 1) -> Self:
        """Learn from released labels whose noise is known.

        Args:
            X: features, shape (n, d).
            evidence: the released labels and their noise.
            start: the classifier of the stage before. It is not used: each stage learns from all labels.
            prior: class probabilities from another source, shape (n, K), used in the first stage if records differ.
            stage: 1, 2, …
        """
        self.classes_ = np.arange(evidence.classes)
        differs = stage == 1 and prior is not None and bool(np.ptp(prior, axis=0).any())
        return self._learn(self._checked(X, fit=True), evidence, prior if differs else None)

    def _learn(self, features: Any, evidence: Evidence, prior: Any = None) -> Self:
        self.head_ = label_head(features, evidence, representation=self.representation, prior=prior).classifier
        return self

    def _checked(self, X: Any, fit: bool = False) -> Any:
        """Return features whose rows can be selected; the columns of a table are recorded or compared."""
        features = row_table(X)
        if len(np.shape(features)) == 2 if fit else hasattr(self, "n_features_in_"):
            check_columns(self, X, fit=fit)
        return features

    def predict_proba(self, X: Any) -> Probabilities:
        """Return probabilities, shape (n, K)."""
        check_is_fitted(self, "head_")
        return self.head_.predict_proba(self._checked(X))
