"""A mixture of linear softmaxes and boosted trees, all fitted to released labels by likelihood."""

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.features import Table, TableMap, default_representation, fourier_map, number_table
from labeldp.learners.evidence import Evidence, Probabilities, fit_softmax, likeliest_factor, normalized
from labeldp.learners.softmax import OFFSET, LikelihoodClassifier, LinearClassifier, Plane, of_features
from labeldp.privacy import AnyFloats, InputError


@dataclass(frozen=True)
class MixtureSettings:
    """The constants of a mixture. The published results have the default ones.

    Args:
        ridges: factors on the precision of the prior of linear scores, each fitted from the one before.
        factors: on fitted scores. A strong prior finds the best direction of few answers, but its scores are too small.
        scale: variance of the scores of a class, and of its offset, at a ridge of 1.
        plain_share: weight of the plain view of a table in a mixture before any answer. If features say little, answers
            hardly tell views apart, and the simplest one is safest.
        plain_decay: power of variances in the plain view, as `DECAY`.
        directions: principal directions of a view, at most.
        fewest_directions: of many records.
        most_numbers: in principal directions of all records, about.
        trees, fourier: random trees of one of the views, and random cosines of another.
        map_records: by which maps and principal directions are found.
        path_records: of a fold, which choose views and ridges.
        folds: of cross-fitting.
        path_steps, last_steps: iterations of L-BFGS at each ridge of a path, and at the chosen ones with all records.
        least_weight: of a linear softmax in the mixture; one of less is left out.
        most_parts: linear softmaxes of the mixture.
        mixing_rounds: of expectation-maximization.
        rate, smoothing, largest_step: of a leaf: the share of its step that is taken, what is added to the squares of
            gradients, and its largest step.
        soft_rate, soft_smoothing, soft_trees: the same share and addition, and the number of trees, for soft labels.
        most_trees: of boosting.
        patience: trees without an improvement before boosting stops.
        leaf_share, least_leaf: least share, and least number, of the records in a leaf.
        most_leaves: of a tree.
        split_records, split_values, split_features: of a split: records, values of a column, the share of features.
        sketch: random sums of the gradients of more classes.
        largest_power: of a model in a pool.
        belief: precision with which the linear part alone is expected. Of few answers, all models are about as likely,
            and chance would choose among them.
        student_share, student_factor: share in predictions of trees of soft labels, at most, and as a multiple of the
            power of the other trees.
        gap: what trees see in place of a missing number.
        least_chance: that trees begin with.
    """

    ridges: tuple[float, ...] = (100.0, 30.0, 10.0, 3.0, 1.0)
    factors: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    scale: float = 4.0
    plain_share: float = 0.9
    plain_decay: float = 1.0
    directions: int = 200
    fewest_directions: int = 20
    most_numbers: int = 20_000_000
    trees: int = 30
    fourier: int = 500
    map_records: int = 5_000
    path_records: int = 4_000
    folds: int = 3
    path_steps: int = 6
    last_steps: int = 10
    least_weight: float = 0.05
    most_parts: int = 4
    mixing_rounds: int = 900
    rate: float = 0.3
    smoothing: float = 5.0
    largest_step: float = 2.0
    soft_rate: float = 0.12
    soft_smoothing: float = 20.0
    soft_trees: int = 50
    most_trees: int = 100
    patience: int = 8
    leaf_share: float = 1 / 200
    least_leaf: int = 10
    most_leaves: int = 64
    split_records: int = 5_000
    split_values: int = 64
    split_features: float = 0.4
    sketch: int = 5
    largest_power: float = 2.0
    belief: float = 20.0
    student_share: float = 0.5
    student_factor: float = 2.0
    gap: float = -1e9
    least_chance: float = 1e-6


SETTINGS = MixtureSettings()

Parts = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
"""Places of the records to learn from and of those that are held out, for each fold."""


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
    table: AnyFloats,
    likelihood: AnyFloats,
    start: AnyFloats,
    learned: NDArray[np.intp],
    held: NDArray[np.intp],
    count: int | None = None,
    *,
    soft: bool = False,
) -> tuple[BoostedTrees, AnyFloats]:
    """Boost the likelihood of answers, one tree for all classes at a time, until held-out answers are no likelier.

    The gradient of a record's log likelihood by its scores is P(class | answer) - P(class). A tree is split by it, or
    by random sums of it; a leaf takes a step of its sum over the sum of its squares.

    Args:
        table: numbers without gaps, shape (n, d).
        likelihood: P(answer | class) up to a factor of each record, shape (n, K).
        start: scores to start with, shape (n, K).
        learned, held: places of the records to learn from, and of those to stop by.
        count: number of trees, where it is known.
        soft: whether rows are soft labels, of sum 1, and not likelihoods: the gradient is then the label - P(class).

    Returns:
        The trees, and the scores of the records that are held out.

    Source: Friedman, Algorithm 1, with Newton's step in each leaf; Iosipoi, for random sums.
    """
    rng = np.random.default_rng(0)
    (shown, answers, scores), (remaining, their_answers, their_scores) = (
        (table[rows], np.asfortranarray(likelihood[rows]), np.asfortranarray(start[rows])) for rows in (learned, held)
    )
    records, classes = answers.shape
    size, coarse = min(-(-records // 2), SETTINGS.split_records), np.apply_along_axis(rounded, 0, shown)
    settings: dict[str, Any] = {
        "max_leaf_nodes": int(np.clip(SETTINGS.leaf_share * records, 8, SETTINGS.most_leaves)),
        "min_samples_leaf": max(int(max(SETTINGS.leaf_share * records, SETTINGS.least_leaf) * size / records), 1),
        "max_features": SETTINGS.split_features,
    }
    best, retained, best_scores = _explained(their_scores, their_answers), 0, their_scores
    ensemble = BoostedTrees([], [])
    for number in range(SETTINGS.most_trees if count is None else count):
        chances = softmax(scores, axis=1)
        joint = answers if soft else chances * answers
        slopes = joint / joint.sum(axis=1, keepdims=True) - chances
        some = rng.permutation(records)[:size]
        targets = slopes[some, 1:] if classes == 2 else slopes[some]
        if classes > SETTINGS.sketch:
            targets = targets @ rng.normal(size=(classes, SETTINGS.sketch)).astype(targets.dtype)
        tree = DecisionTreeRegressor(**settings, random_state=number).fit(coarse[some], targets).tree_
        leaf = tree.apply(shown)
        members = csr_array((np.ones(records, np.float32), leaf, np.arange(records + 1)), (records, tree.node_count)).T
        curvature = members @ (chances * (1 - chances) if soft else slopes**2)
        rate, smoothing = (SETTINGS.soft_rate, SETTINGS.soft_smoothing) if soft else (SETTINGS.rate, SETTINGS.smoothing)
        newton = (members @ slopes) / (curvature + smoothing)
        step = rate * np.clip(newton, -SETTINGS.largest_step, SETTINGS.largest_step)
        ensemble.trees.append(tree)
        ensemble.steps.append(step)
        scores += step[leaf]
        their_scores = their_scores + step[tree.apply(remaining)]
        value = _explained(their_scores, their_answers)
        if value > best or count is not None:
            best, retained, best_scores = value, number + 1, their_scores
        elif number + 1 - retained >= SETTINGS.patience:
            break
    return BoostedTrees(ensemble.trees[:retained], ensemble.steps[:retained]), best_scores


def rounded(column: AnyFloats) -> AnyFloats:
    """Return numbers rounded to the nearest of at most `split_values` of them: few values are sorted soon."""
    values = np.unique(column)
    values = values[np.linspace(0, len(values) - 1, min(len(values), SETTINGS.split_values)).astype(np.intp)]
    return values[np.searchsorted((values[1:] + values[:-1]) / 2, column)]


def _explained(scores: AnyFloats, likelihood: AnyFloats) -> float:
    """Return the mean log probability of answers, up to a constant."""
    if not len(scores):
        return 0.0
    return float(np.log(np.einsum("ij,ij->i", softmax(scores, axis=1), likelihood)).mean())


def mixing_weights(parts: Sequence[AnyFloats], likelihood: AnyFloats, weights: AnyFloats) -> AnyFloats:
    """Return the weights, sum 1, of a mixture under which answers are likeliest, by expectation-maximization.

    Args:
        parts: probabilities of each model for records whose answers it did not see, shape (n, K) each.
        likelihood: P(answer | class) up to a factor of each record, shape (n, K).
        weights: to start from; few rounds hardly change them where the models explain answers about equally.
    """
    explained = np.column_stack([np.einsum("ij,ij->i", part, likelihood) for part in parts]).astype(np.float64)
    for _ in range(SETTINGS.mixing_rounds):
        weights = weights * (1 / (explained @ weights) @ explained) / len(explained)
    return weights


def pooled(parts: Sequence[AnyFloats], powers: AnyFloats) -> Probabilities:
    """Return the product of powers of probabilities, scaled to sum 1, shape (n, K)."""
    logs = [power * np.log(np.maximum(part, SETTINGS.least_chance)) for power, part in zip(powers, parts, strict=True)]
    return np.asarray(softmax(np.sum(logs, axis=0), axis=1), dtype=np.float64)


def pool_powers(parts: Sequence[AnyFloats], likelihood: AnyFloats) -> AnyFloats:
    """Return the powers of largest posterior density, from 0 to `largest_power`, of a pool of models.

    The prior is normal: 1 for the first model, 0 for the others, with the precision `belief`.

    Args:
        parts, likelihood: as in `mixing_weights`.
    """
    logs = np.stack([np.log(np.maximum(part, SETTINGS.least_chance)) for part in parts])
    expected, precision = np.eye(len(parts))[0], SETTINGS.belief / len(likelihood)

    def objective(powers: AnyFloats) -> tuple[float, AnyFloats]:
        chances = pooled(parts, powers)
        joint = chances * likelihood
        explained = joint.sum(axis=1, keepdims=True)
        gap, slope = powers - expected, chances - joint / explained
        value = precision / 2 * float(gap @ gap) - float(np.log(explained).mean())
        return value, np.einsum("mik,ik->m", logs, slope, dtype=np.float64) / len(slope) + precision * gap

    bounds = [(0.0, SETTINGS.largest_power)] * len(parts)
    return np.asarray(minimize(objective, expected, jac=True, method="L-BFGS-B", bounds=bounds).x)


@dataclass(frozen=True)
class Head:
    """A linear softmax of one view of the features.

    Args:
        plane: what the view makes of the features.
        prior: scores where features say nothing, shape (K,).
        weights: coefficients, shape (1 + d, K).
        ridge: factor on the precision of the prior of coefficients.
        factor: on the scores, before `prior` is added.
    """

    plane: Plane = field(repr=False)
    prior: AnyFloats = field(repr=False)
    weights: AnyFloats = field(repr=False)
    ridge: float = SETTINGS.ridges[0]
    factor: float = 1.0

    def fitted(self, likelihood: AnyFloats, records: Any, steps: int) -> "Head":
        """Return the head of some records, from these coefficients on."""
        rows, answers = self.plane.rows[records], np.asfortranarray(likelihood[records])
        precision, prior = self.ridge / self.plane.signal, np.broadcast_to(self.prior, answers.shape)
        slopes = normalized(np.exp(self.prior) * answers) - np.exp(self.prior)
        # Rows are uncorrelated, with mean square one: in these units of coefficients, all curvatures are about one.
        units = 1 / np.sqrt(precision + len(rows) * float(np.mean(slopes**2)))
        optimum = {"start": self.weights / units[:, None], "precision": precision * units**2, "steps": steps}
        weights = fit_softmax(rows * units.astype(rows.dtype), offset=prior, likelihood=answers, **optimum)
        return replace(self, weights=units[:, None] * weights)

    def scores(self, records: Any) -> AnyFloats:
        """Return scores of some records without factor and prior, shape (n, K)."""
        rows = self.plane.rows[records]
        return np.asarray(rows @ self.weights.astype(rows.dtype))

    def classifier(self) -> LinearClassifier:
        """Return what predicts for other features."""
        retained, weights = np.arange(len(self.weights)), self.factor * self.weights
        return LinearClassifier(self.plane.transformer, *of_features(self.plane.space, retained, weights, self.prior))


def _cross_fitted(
    heads: Sequence[Head], likelihood: AnyFloats, folds: Parts, steps: int
) -> tuple[list[Head], AnyFloats]:
    """Return the heads of all folds, with the likeliest factor, and their probabilities of held-out records.

    Args:
        heads: one view and one ridge, with the coefficients from which each fold goes on.
    """
    heads = [head.fitted(likelihood, learned, steps) for head, (learned, _) in zip(heads, folds, strict=True)]
    scores = np.concatenate([head.scores(held) for head, (_, held) in zip(heads, folds, strict=True)])
    answers, prior = likelihood[np.concatenate([held for _, held in folds])], heads[0].prior
    factor = likeliest_factor(np.array(SETTINGS.factors), scores, answers, np.broadcast_to(prior, answers.shape))
    return [replace(head, factor=factor) for head in heads], np.asarray(softmax(factor * scores + prior, axis=1))


def views(features: Any, categorical: Any) -> list[Any]:
    """Return the unfitted maps of a mixture's linear parts: three for a table, one for an embedding."""
    default = default_representation(features, categorical)
    if not isinstance(default, TableMap):
        return [default]
    plain = TableMap(categorical=categorical, bins=1, trees=0)
    return [plain, TableMap(categorical=categorical, trees=SETTINGS.trees), fourier_map(categorical, SETTINGS.fourier)]


def _planes(features: Table, maps: Sequence[Any]) -> list[Plane]:
    """Return what each map makes of the features; one whose columns are constant is left out."""
    count = len(features)
    dimension = int(np.clip(SETTINGS.most_numbers // count, SETTINGS.fewest_directions, SETTINGS.directions))
    planes = []
    for unfitted in maps:
        with suppress(InputError):
            plane = Plane.of(features, count, unfitted, dimension, most=SETTINGS.map_records)
            if len(maps) > 1 and unfitted is maps[0]:  # the plain view of a table
                plane = replace(plane, signal=plane.space.signal(1.0, OFFSET, SETTINGS.plain_decay))
            planes.append(replace(plane, signal=SETTINGS.scale * plane.signal))
    return planes


def _heads(
    planes: list[Plane], likelihood: AnyFloats, prior: AnyFloats, folds: Parts
) -> tuple[list[list[Head]], AnyFloats]:
    """Return the linear softmaxes of largest weight under held-out answers, for all folds, and their weights."""
    if not planes:
        return [], np.empty(0)
    every = -(-len(folds[0][0]) // SETTINGS.path_records)
    some: Parts = [(learned[::every], held[::every]) for learned, held in folds]
    options = []
    for plane in planes:
        heads = [Head(plane, prior, np.zeros((plane.rows.shape[1], len(prior))))] * len(folds)
        for ridge in SETTINGS.ridges:
            heads = [replace(head, ridge=ridge) for head in heads]
            options.append(_cross_fitted(heads, likelihood, some, SETTINGS.path_steps))
            heads = options[-1][0]
    answers = likelihood[np.concatenate([held for _, held in some])]
    first = np.arange(len(options)) < len(SETTINGS.ridges)
    start = normalized([np.where(first, SETTINGS.plain_share, (1 - SETTINGS.plain_share) / max(len(planes) - 1, 1))])[0]
    shares = mixing_weights([chances for _, chances in options], answers, start)
    order = [number for number in np.argsort(-shares)[: SETTINGS.most_parts] if shares[number] > SETTINGS.least_weight]
    return [options[number][0] for number in order], shares[order] / shares[order].sum()


class MixtureClassifier(LikelihoodClassifier):
    """A mixture of linear softmaxes of several views of a table and of boosted trees, for noisy labels.

    Use it for tables and for embeddings. It learns from the answers of any mechanism, classes or sets of classes, and
    uses their exact probabilities. A product of powers pools a linear part and boosted trees, which start from class
    frequencies. Powers, weights, views, ridges and numbers of trees maximize the likelihood of held-out answers. The
    prior of the powers expects the linear part alone. The pool gives class probabilities of each record, given its
    answer. Other trees learn from these, and the prediction is a geometric mean of the pool and these trees. They count
    for less where the pool has little of trees.

    Args:
        categorical: boolean mask of the columns that hold category codes, shape (d,).
    """

    def __init__(self, categorical: Any = None) -> None:
        self.categorical = categorical

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from true labels y, shape (n,), and features X, shape (n, d)."""
        labels = validate_data(self, y=y)
        table = number_table(X, self, fit=True)
        check_consistent_length(table, labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self._learn(table, Evidence(codes, np.eye(len(self.classes_))[codes], None))
        return self

    def fit_released(self, X: Any, evidence: Evidence, *, start: Any = None, prior: Any = None, stage: int = 1) -> Self:
        """Learn from released labels whose noise is known; see `SoftmaxClassifier.fit_released`."""
        self.cross_fit(X, evidence, prior if stage == 1 else None)
        return self

    def cross_fit(
        self, X: Any, evidence: Evidence, prior: Any = None
    ) -> tuple[Probabilities, tuple["MixtureClassifier", NDArray[np.intp]]]:
        """Learn from released labels, and return what models say of records whose answers they did not see.

        Args:
            X, evidence, prior: as in `fit_released`.

        Returns:
            Probabilities, shape (n, K); and one of these models, with the places of its held-out records.
        """
        table = number_table(X, self, fit=True)
        self.classes_ = np.arange(evidence.classes)
        return self._learn(
            table, evidence if prior is None else replace(evidence, likelihood=evidence.posterior(prior))
        )

    def _learn(self, features: Table, evidence: Evidence) -> tuple[Probabilities, Any]:
        likelihood = np.maximum(normalized(evidence.likelihood), np.finfo(np.float32).tiny).astype(np.float32)
        count = len(likelihood)
        fold = np.random.default_rng(0).permutation(count) % SETTINGS.folds
        folds: Parts = [
            (np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(SETTINGS.folds)
        ]
        folds = folds if count >= SETTINGS.folds else [(np.arange(count), np.arange(count))]
        maps = views(features, self.categorical)
        self.prior_ = np.log(np.maximum(evidence.class_prior(), SETTINGS.least_chance)).astype(np.float32)
        planes = _planes(features, maps)
        chosen, self.shares_ = _heads(planes, likelihood, self.prior_, folds)
        fitted = [_cross_fitted(heads, likelihood, folds, SETTINGS.last_steps) for heads in chosen]
        linear = np.empty_like(likelihood)
        linear[np.concatenate([held for _, held in folds])] = self._mixed([chances for _, chances in fitted], count)
        self._set_levels(features, linear)
        table = self._numbers(features)
        start, grown, by_trees = np.broadcast_to(self.prior_, linear.shape), [], np.empty_like(linear)
        for learned, held in folds:
            trees, scores = boosted(table, likelihood, start, learned, held)
            by_trees[held] = softmax(scores, axis=1)
            grown.append(trees)
        size = round(sum(len(trees.trees) for trees in grown) / len(folds))
        complete, _ = boosted(table, likelihood, start, np.arange(count), np.arange(0), size)
        outside = [linear, by_trees]
        self.powers_ = pool_powers(outside, likelihood)
        last = copy(self)
        last._finish([heads[-1] for heads, _ in fitted], grown[-1])
        self._finish([heads[-1].fitted(likelihood, slice(None), SETTINGS.last_steps) for heads, _ in fitted], complete)
        unseen = pooled(outside, self.powers_)
        soft = normalized(unseen * likelihood).astype(np.float32)
        student, _ = boosted(table, soft, start, np.arange(count), np.arange(0), SETTINGS.soft_trees, soft=True)
        self.student_ = [student.trees, student.steps]
        return unseen, (last, folds[-1][1])

    def _finish(self, heads: list[Head], trees: BoostedTrees) -> None:
        self.heads_ = [head.classifier() for head in heads]
        self.trees_ = [trees.trees, trees.steps]
        self.student_ = []

    def _mixed(self, parts: Sequence[AnyFloats], count: int) -> AnyFloats:
        """Return the linear part of the mixture, or class frequencies where features say nothing."""
        if not parts:
            return np.broadcast_to(np.exp(self.prior_), (count, len(self.prior_)))
        return np.asarray(np.tensordot(self.shares_, np.stack(parts), 1), dtype=np.float32)

    def _set_levels(self, features: Table, linear: AnyFloats) -> None:
        """Learn the categories of each column, and their means of the score in which linear parts differ most."""
        scores = np.log(np.maximum(linear, SETTINGS.least_chance)).astype(np.float64)
        scores -= scores.mean(axis=1, keepdims=True)
        scores -= scores.mean(axis=0)
        score = scores @ np.linalg.eigh(scores.T @ scores)[1][:, -1]
        mask = np.zeros(features.shape[1], bool) if self.categorical is None else np.asarray(self.categorical, bool)
        self.levels_ = {}
        for column in np.flatnonzero(mask):
            finite = np.isfinite(features[:, column])
            levels, places, counts = np.unique(features[finite, column], return_inverse=True, return_counts=True)
            means = np.bincount(places, score[finite], len(levels)) / counts
            self.levels_[int(column)] = levels, means.astype(np.float32)

    def _numbers(self, features: Table) -> AnyFloats:
        """Return what trees see: numbers, means of categories, and `gap` for gaps and unknown categories."""
        table = np.nan_to_num(features, nan=SETTINGS.gap).astype(np.float32)
        for column, (levels, means) in self.levels_.items():
            values = features[:, column]
            table[:, column] = SETTINGS.gap
            finite = np.flatnonzero(np.isin(values, levels))
            table[finite, column] = means[np.searchsorted(levels, values[finite])]
        return table

    def predict_proba(self, X: Any) -> Probabilities:
        """Return probabilities, shape (n, K)."""
        check_is_fitted(self, "powers_")
        features = number_table(X, self)
        tables: dict[int, Any] = {}
        for head in self.heads_:
            if id(head.representation) not in tables:
                tables[id(head.representation)] = head.mapped(features)
        parts = [head.of_table(tables[id(head.representation)]) for head in self.heads_]
        linear, table = self._mixed(parts, len(features)), self._numbers(features)
        start = np.broadcast_to(self.prior_, linear.shape)
        result = pooled([linear, softmax(BoostedTrees(*self.trees_).scores(table, start), axis=1)], self.powers_)
        if not self.student_:
            return result
        share = min(SETTINGS.student_factor * self.powers_[1], SETTINGS.student_share)
        student = softmax(BoostedTrees(*self.student_).scores(table, start), axis=1)
        return pooled([result, student], np.array([1 - share, share]))
