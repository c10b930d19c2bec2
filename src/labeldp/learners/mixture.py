"""A mixture of linear softmaxes and boosted trees, all fitted to released answers by their likelihood."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.learners.evidence import Evidence, Probabilities, fit_softmax, normalized
from labeldp.learners.features import GapTags, number_table
from labeldp.learners.linear import LinearClassifier, of_features
from labeldp.learners.representations import RandomFourier, TableMap
from labeldp.learners.scattering import default_representation, is_embedding
from labeldp.learners.softmax import Plane
from labeldp.privacy import AnyFloats, InputError

RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
"""Factors on the precision of the prior of linear scores, each fitted from the one before."""

SCALE = 4.0
"""Variance of the scores of a class, and of its offset, at a ridge of 1."""

DECAY = 0.4
"""The expected square of a direction's coefficient grows with its variance to this power."""

DIRECTIONS = 200
"""Principal directions of a view, at most."""

FOLDS = 3

PATH_STEPS, LAST_STEPS = 12, 25
"""Iterations of L-BFGS at each ridge of a path, and at the chosen ones with all records."""

MIN_WEIGHT, MAX_PARTS = 0.05, 4
"""A linear softmax of less weight is left out of the mixture; and at most so many are kept."""

RATE, SMOOTHING, MAX_STEP = 0.3, 5.0, 2.0
"""Of a leaf: the share of its step that is taken; squares that are added to those of its gradients; its largest step."""

MAX_TREES, PATIENCE = 80, 8
"""Trees at most, and trees without an improvement before boosting stops."""

LEAF_SHARE, MIN_LEAF, MAX_LEAVES = 1 / 200, 10, 64
"""Least share of the records in a leaf, least number of records, and leaves of a tree at most."""

SHOWN_RECORDS = 10_000
"""Records by which the splits of a tree are found, at most."""

TRIED_FEATURES = 0.4
"""The share of the features that is tried at each split."""

SKETCH = 8
"""Random sums of the gradients of more classes that a tree is split by."""

DAMPING = 0.7
"""Factor on the logits of the linear part that trees begin with."""

BELIEF = 20.0
"""Answers that the linear part is believed to have explained alone, before the weights of trees are learned."""


@dataclass(frozen=True)
class BoostedTrees:
    """Trees whose leaves add to the scores of all classes.

    Args:
        trees: fitted trees of scikit-learn.
        steps: what the nodes of each tree add, shape (nodes, K).
    """

    trees: list[Any] = field(repr=False)
    steps: list[AnyFloats] = field(repr=False)

    def scores(self, table: AnyFloats, start: AnyFloats) -> AnyFloats:
        """Return the scores of records, shape (n, K), from those to start with."""
        scores = start.copy()
        for tree, step in zip(self.trees, self.steps, strict=True):
            scores += step[tree.apply(table)]
        return scores


def boosted(
    table: AnyFloats, likelihood: AnyFloats, start: AnyFloats, learned: NDArray[np.intp], held: NDArray[np.intp]
) -> tuple[BoostedTrees, AnyFloats]:
    """Boost the likelihood of answers, one tree for all classes at a time, until held-out answers are no likelier.

    The gradient of a record's log likelihood by its scores is P(class | answer) - P(class). A tree is split by it, or
    by random sums of it; a leaf takes a step of its sum over the sum of its squares.

    Args:
        table: numbers without gaps, shape (n, d).
        likelihood: P(answer | class) up to a factor of each record, shape (n, K).
        start: scores to start with, shape (n, K).
        learned, held: places of the records to learn from, and of those to stop by.

    Returns:
        The trees, and the scores of the records that are held out.

    Source: Friedman, Greedy Function Approximation: A Gradient Boosting Machine (2001); Iosipoi and Vakhrushev,
        SketchBoost (2022), section 3.3, for random sums.
    """
    rng = np.random.default_rng(0)
    shown, answers, scores = table[learned], likelihood[learned], start[learned]
    others, their_answers, their_scores = table[held], likelihood[held], start[held]
    count, classes = answers.shape
    size = min(-(-count // 2), SHOWN_RECORDS)
    least = max(int(LEAF_SHARE * count), MIN_LEAF)
    leaves = int(np.clip(LEAF_SHARE * count, 8, MAX_LEAVES))
    trees: list[Any] = []
    steps: list[AnyFloats] = []
    best, kept, best_scores = _explained(their_scores, their_answers), 0, their_scores.copy()
    for number in range(MAX_TREES):
        chances = softmax(scores, axis=1)
        slopes = normalized(chances * answers).astype(scores.dtype) - chances
        some = rng.permutation(count)[:size]
        targets = slopes[some, 1:] if classes == 2 else slopes[some]
        if classes > SKETCH:
            targets = targets @ rng.normal(size=(classes, SKETCH)).astype(targets.dtype)
        grown = DecisionTreeRegressor(
            max_leaf_nodes=leaves,
            min_samples_leaf=max(least * size // count, 1),
            max_features=TRIED_FEATURES,
            random_state=number,
        )
        tree = grown.fit(shown[some], targets).tree_
        leaf = tree.apply(shown)
        members = csr_array((np.ones(count, scores.dtype), leaf, np.arange(count + 1)), (count, tree.node_count)).T
        step = RATE * np.clip((members @ slopes) / (members @ slopes**2 + SMOOTHING), -MAX_STEP, MAX_STEP)
        trees.append(tree)
        steps.append(step)
        scores += step[leaf]
        their_scores += step[tree.apply(others)]
        value = _explained(their_scores, their_answers)
        if value > best:
            best, kept, best_scores = value, number + 1, their_scores.copy()
        elif number + 1 - kept >= PATIENCE:
            break
    return BoostedTrees(trees[:kept], steps[:kept]), best_scores


def _explained(scores: AnyFloats, likelihood: AnyFloats) -> float:
    """Return the mean log probability of answers, up to a constant."""
    return float(np.log(np.einsum("ij,ij->i", softmax(scores, axis=1), likelihood)).mean())


def mixing_weights(parts: Sequence[AnyFloats], likelihood: AnyFloats, believed: AnyFloats | float = 0.0) -> AnyFloats:
    """Return the weights, sum 1, of a mixture under which answers are likeliest, by expectation-maximization.

    Args:
        parts: probabilities of each model for records whose answers it did not see, shape (n, K) each.
        likelihood: P(answer | class) up to a factor of each record, shape (n, K).
        believed: answers that each model is taken to have explained alone before, shape (m,).
    """
    explained = np.column_stack([np.einsum("ij,ij->i", part, likelihood) for part in parts]).astype(np.float64)
    weights = np.full(len(parts), 1 / len(parts))
    for _ in range(MIXING_ROUNDS):
        shares = explained * weights
        shares /= shares.sum(axis=1, keepdims=True)
        weights = shares.sum(axis=0) + believed
        weights /= weights.sum()
    return weights


MIXING_ROUNDS = 300


@dataclass(frozen=True)
class Head:
    """A linear softmax of one view of the features.

    Args:
        plane: what the view makes of the features.
        ridge: factor on the precision of the prior.
        weights: coefficients, shape (1 + d, K).
    """

    plane: Plane = field(repr=False)
    ridge: float
    weights: AnyFloats = field(repr=False)

    def fitted(self, likelihood: AnyFloats, records: Any, steps: int) -> "Head":
        """Return the head of some records, from these coefficients on."""
        precision = self.ridge / self.plane.signal
        rows, answers = self.plane.rows[records], likelihood[records]
        weights = fit_softmax(rows, start=self.weights, precision=precision, likelihood=answers, steps=steps)
        return Head(self.plane, self.ridge, weights)

    def probabilities(self, records: Any) -> AnyFloats:
        """Return class probabilities of some records, shape (n, K)."""
        rows = self.plane.rows[records]
        return np.asarray(softmax(rows @ self.weights.astype(rows.dtype), axis=1))

    def classifier(self) -> LinearClassifier:
        """Return what predicts for other features."""
        kept = np.arange(len(self.weights))
        return LinearClassifier(self.plane.transformer, *of_features(self.plane.space, kept, self.weights))


def views(features: Any, categorical: Any) -> list[Any]:
    """Return the unfitted maps of a mixture's linear parts: of a table three, of an embedding its own columns."""
    default = default_representation(features, categorical)
    if not isinstance(default, TableMap):
        return [default]
    plain = TableMap(categorical=categorical, bins=1, trees=0)
    return [default, plain, make_pipeline(plain, RandomFourier(components=FOURIER, bandwidth=BANDWIDTH))]


FOURIER, BANDWIDTH = 500, 0.7
"""Random directions of one of the views, and the length scale of its kernel."""

SHOWN_TO_MAPS = 5_000
"""Records by which maps and principal directions are found, at most."""


def _planes(features: Any, categorical: Any) -> list[Plane]:
    """Return what each view makes of the features; a view without variance is left out."""
    planes = []
    for view in views(features, categorical):
        with suppress(InputError):
            plane = Plane.of(features, len(features), view, DIRECTIONS, DECAY, most=SHOWN_TO_MAPS)
            planes.append(plane.scaled(SCALE))
    return planes


def _heads(
    planes: list[Plane], likelihood: AnyFloats, folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]]
) -> tuple[list[Head], AnyFloats, AnyFloats]:
    """Fit linear softmaxes, and return those of largest weight, their weights, and what they say held out."""
    first, (learned, held) = [], folds[0]
    for plane in planes:
        head = Head(plane, RIDGES[0], np.zeros((plane.rows.shape[1], likelihood.shape[1])))
        for ridge in RIDGES:
            head = Head(plane, ridge, head.weights).fitted(likelihood, learned, PATH_STEPS)
            first.append(head)
    shares = mixing_weights([head.probabilities(held) for head in first], likelihood[held])
    order = [number for number in np.argsort(-shares)[:MAX_PARTS] if shares[number] > MIN_WEIGHT]
    heads, shares = [first[number] for number in order], shares[order] / shares[order].sum()
    outside = np.empty(likelihood.shape, likelihood.dtype)
    for learned, held in folds:
        again = heads if learned is folds[0][0] else [head.fitted(likelihood, learned, LAST_STEPS) for head in heads]
        outside[held] = sum(share * head.probabilities(held) for share, head in zip(shares, again, strict=True))
    return [head.fitted(likelihood, slice(None), LAST_STEPS) for head in heads], shares, outside


class MixtureClassifier(GapTags, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A mixture of linear softmaxes of several views of a table and of boosted trees, for noisy labels.

    Use it for tables, and for embeddings: it takes what every mechanism answered, classes and sets of classes, at the
    chances that the mechanism gave them. Trees begin from the linear part, and once more from nothing. The weights of
    the mixture, the views, the ridge and the number of trees are those under which held-out answers are likeliest.

    Args:
        categorical: boolean mask of the columns that hold category codes, shape (d,).
    """

    loss: ClassVar[str] = "forward"

    def __init__(self, categorical: Any = None) -> None:
        self.categorical = categorical

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from true labels y, shape (n,), and features X, shape (n, d)."""
        labels = validate_data(self, y=y)
        table = number_table(X, self, fit=True)
        check_consistent_length(table, labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self._learn(table, np.eye(len(self.classes_))[codes])
        return self

    def fit_released(self, X: Any, evidence: Evidence, *, start: Any = None, prior: Any = None, stage: int = 1) -> Self:
        """Learn from released labels whose noise is known.

        Args:
            X: features of n records.
            evidence: the released labels and their noise.
            start, stage: of the stage before; all labels are learned from anew, so they are not used.
            prior: class probabilities from another source, shape (n, K); used in the first stage if they differ
                between records.
        """
        self.cross_fit(X, evidence, prior if stage == 1 else None)
        return self

    def cross_fit(self, X: Any, evidence: Evidence, prior: Any = None) -> Probabilities:
        """Learn from released labels, and return probabilities of each record that its label had no say in, (n, K).

        Args:
            X, evidence, prior: as in `fit_released`.
        """
        differs = prior is not None and bool(np.ptp(prior, axis=0).any())
        self.classes_ = np.arange(evidence.classes)
        known = evidence.posterior(prior) if differs else normalized(evidence.likelihood)
        return self._learn(number_table(X, self, fit=True), known)

    def _learn(self, features: Any, known: AnyFloats) -> Probabilities:
        likelihood = np.maximum(known, np.finfo(np.float32).tiny).astype(np.float32)
        count = len(likelihood)
        fold = np.random.default_rng(0).permutation(count) % min(FOLDS, count)
        folds = [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(fold.max() + 1)]
        planes = _planes(features, self.categorical)
        heads, self.shares_, linear = _heads(planes, likelihood, folds)
        self.heads_ = [head.classifier() for head in heads]
        table = self._table(features)
        self.prior_ = np.log(linear.mean(axis=0))
        starts = DAMPING * np.log(np.maximum(linear, MIN_CHANCE)), np.broadcast_to(self.prior_, linear.shape)
        self.trees_, outside = [], [linear]
        for start in starts:
            found = np.empty_like(linear)
            grown = []
            for learned, held in folds:
                trees, scores = boosted(table, likelihood, start, learned, held)
                found[held] = softmax(scores, axis=1)
                grown.append(trees)
            self.trees_.append(grown)
            outside.append(found)
        self.weights_ = mixing_weights(outside, likelihood, np.array([BELIEF, 0.0, 0.0]))
        return normalized(sum(weight * part for weight, part in zip(self.weights_, outside, strict=True)))

    def _table(self, features: AnyFloats) -> AnyFloats:
        return np.nan_to_num(features, nan=GAP).astype(np.float32)

    def _linear(self, X: Any) -> AnyFloats:
        tables: dict[int, Any] = {}
        total = 0.0
        for share, head in zip(self.shares_, self.heads_, strict=True):
            name = id(head.representation)
            if name not in tables:
                tables[name] = head.mapped(X)
            total = total + share * head.of_table(tables[name])
        return np.asarray(total)

    def predict_proba(self, X: Any) -> Probabilities:
        """Return probabilities, shape (n, K)."""
        check_is_fitted(self, "weights_")
        features = number_table(X, self)
        table, linear = self._table(features), self._linear(features)
        starts = DAMPING * np.log(np.maximum(linear, MIN_CHANCE)), np.broadcast_to(self.prior_, linear.shape)
        total = self.weights_[0] * linear
        for weight, start, grown in zip(self.weights_[1:], starts, self.trees_, strict=True):
            parts = [softmax(trees.scores(table, start), axis=1) for trees in grown]
            total = total + weight * np.mean(parts, axis=0)
        return normalized(total)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class, shape (n,)."""
        check_is_fitted(self, "weights_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


GAP, MIN_CHANCE = -1e9, 1e-6
"""What trees see in place of a gap; and the least probability that they begin with."""
