"""Noise-aware training of any scikit-learn classifier on released labels."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from labeldp import encoders
from labeldp.features import (
    MANY_RECORDS,
    MIXED_HINT,
    TrialRows,
    are_numbers,
    check_rows,
    row_table,
    rows_of,
    take_rows,
    trial_rows,
)
from labeldp.learners.classifiers import SoftTrees, as_candidates, without_rare_columns
from labeldp.learners.evaluation import HELD_OUT, evaluate
from labeldp.learners.evidence import (
    TEMPERATURES,
    Evidence,
    Probabilities,
    expanded,
    refuse_reused,
    tempered,
    unmixed,
)
from labeldp.learners.model import Model, check_evaluation, kept_apart
from labeldp.learners.plan import Progress
from labeldp.mechanisms import Domain, Interval, RandomizedResponse
from labeldp.privacy import InputError, LabelDPError, NotInvertibleError, Public, Release, gather

Method = Literal["posterior", "plain", "debiased", "consensus"]

CROSS_FITTING = 0.6
"""The share of the learning that cross-fitting is shown as."""

MIN_SOFT_TREES = 75
"""The smallest number of trees that learn from soft labels of many records."""

MIN_WEIGHT = 0.002
"""Copies of a record with a smaller weight are left out."""

DRAWN_LABELS = 4
"""Labels that are drawn for each record where a classifier takes no sample weights."""

TRIAL_TREES, TRIAL_BINS = 5, 15
"""Limits on boosted trees in a dry run: trees for each class, bins for each feature."""

MAX_TRIAL_SIZE = 10**8
"""The largest records times classes of a second dry run, for a classifier that failed on fewer records."""

MAX_TRIAL_CLASSES = 50
"""The largest number of classes in a dry run: some classifiers need several records of each."""


@dataclass(frozen=True)
class Training:
    """How a classifier is trained on noisy labels.

    Args:
        method: "posterior" trains on P(true class | released label, features) under an out-of-fold model, as soft
            labels: expectation-maximization of a noisy-label model. "plain" treats released labels as true.
            "debiased" minimizes the unbiased loss, with negative weights: only for classifiers that accept them.
            "consensus" trains on the classes that the out-of-fold model answers, of those records alone whose released
            answer names them.
        rounds: how often the posterior is computed, each time under the model of the round before; at least 1.
        folds: number of parts for cross-fitting: no posterior comes from a model that saw the record's label. By
            default `fold_count` of the records.
        seed: public seed of the folds and of drawn labels.

    Source: "debiased": Ghazi et al., Deep Learning with Label Differential Privacy, eq. (17). "consensus":
    Das, with models that did not see the record's own answer.
    """

    method: Method = "posterior"
    rounds: int = 1
    folds: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise InputError(f"training must be one of {', '.join(get_args(Method))}")
        if self.rounds < 1 or (self.folds is not None and self.folds < 2):
            raise InputError("rounds must be at least 1 and folds at least 2")

    @classmethod
    def of(cls, training: Any) -> "Training":
        """Return a `Training`, made of a method's name if need be."""
        return training if isinstance(training, Training) else cls(training)

    def parts(self, records: int) -> int:
        """Return the number of parts for this number of records."""
        return min(self.folds or fold_count(records), records)


def fold_count(records: int) -> int:
    """Return the number of parts of cross-fitting: 5, or 2 of many records, where half of them are many, too."""
    return 5 if records < MANY_RECORDS else 2


def fit_noisy(
    features: Any,
    release: Release[Any],
    *,
    classifier: Any = None,
    training: Training | Method = "posterior",
    prior: Any = None,
    evaluation: float = 0.0,
    partition_seed: int = 0,
    sample_weight: Any = None,
) -> Release[Model]:
    """Train a classifier on labels that are released already, at no further cost.

    Use it on one release; `fit_multistage` makes the releases, too.

    Args:
        features: table or array of n records, whatever the classifier accepts.
        release: n released classes, as `Curator.release` returned them.
        classifier: scikit-learn classifier with `predict_proba`, or several, of which the one that explains
            held-out released labels best is kept; by default `MixtureClassifier`, for numeric features.
        training: method, or `Training(...)`.
        prior: class probabilities from before the release, shape (n, K), a `Release` or `Public`.
        evaluation: share of the records, in [0, 1), whose released labels the model does not learn from, but is
            measured on: its `evaluation` is then that of this very model. It costs records, and no epsilon.
        partition_seed: public seed of the draw of these records.
        sample_weight: public weights of the records in training, shape (n,); results count all records alike.

    Guarantee (post_processing): the model depends on the labels only through the release: its certificate is the
        release's.
    """
    evidence = Evidence.of(release)
    features = row_table(features)
    check_rows(features, len(evidence))
    recipe, releases = Training.of(training), [prior] if isinstance(prior, Release) else []
    rows = None if prior is None else prior_rows(prior, len(evidence), evidence.classes)
    inputs = getattr(release.mechanism, "public_inputs", ())
    compared = None if any(source.name == "prior" for source in inputs) else rows  # answers by a prior agree with it
    refuse_reused(release.mechanism, release.value, features=features, prior=compared, sample_weight=sample_weight)
    candidates = as_candidates(classifier, features)
    check_evaluation(evaluation)
    held = kept_apart(len(evidence), evaluation, partition_seed)
    weights = record_weights(sample_weight, len(evidence), candidates)

    def build(*_: Any) -> Model:
        return fit_and_measure(features, release, candidates, recipe, held, prior=rows, weights=weights)

    return with_initial_certificate(gather([release, *releases], build), candidates[0])


def fit_and_measure(
    features: Any,
    release: Release[Any],
    candidates: Sequence[Any],
    recipe: Training,
    held: NDArray[np.bool_],
    *,
    prior: Any = None,
    weights: NDArray[np.float64] | None = None,
    callback: Progress | None = None,
) -> Model:
    """Return a model of released labels, measured on the held-out records, if any."""
    seen, rows = np.flatnonzero(~held), np.flatnonzero(held)
    table, evidence = take_rows(features, seen), replace(Evidence.of(release), weights=weights).take(seen)
    training_prior = None if prior is None else prior[seen]
    guess = cross_fit(table, evidence, candidates, recipe, prior=training_prior, callback=callback)
    model = learn(table, evidence, guess, recipe, release.mechanism.domain)
    if not len(rows):
        return model
    answers = replace(release, value=release.value[rows])
    return replace(model, evaluation=evaluate(answers, model.predict_proba(take_rows(features, rows)), HELD_OUT, rows))


def posterior(release: Release[Any], prior: Any) -> Release[Probabilities]:
    """Return P(true class | released label, prior), shape (n, K): soft labels to train on.

    Args:
        release: n released classes.
        prior: class probabilities before the release was seen, shape (n, K), a `Release` (of a model that did not
            see these records, for instance) or `Public`.

    Guarantee (post_processing, charged): computed from releases alone; the certificate holds the charges of both.
    """
    evidence = Evidence.of(release)
    rows = prior_rows(prior, len(evidence), evidence.classes)
    return gather([release, *([prior] if isinstance(prior, Release) else [])], lambda *_: evidence.posterior(rows))


@dataclass(frozen=True)
class CrossFit:
    """An unfitted classifier, and what models that did not see a record's label say of it.

    Args:
        classifier: the one to learn with.
        probabilities: out-of-fold probabilities of the true class, if they are needed, shape (n, K).
        fold: one of the models that they are of, where there is one; else None.
        fitted: the classifier fitted to all records, where it is known already.
    """

    classifier: Any
    probabilities: Probabilities | None
    fold: "Fold | None" = None
    fitted: Any = field(default=None, repr=False)

    def take(self, rows: NDArray[np.intp]) -> "CrossFit":
        """Return the same of some records."""
        if self.probabilities is None:
            return self
        fitted = self.fitted if len(rows) == len(self.probabilities) else None
        return CrossFit(self.classifier, self.probabilities[rows], self.fold, fitted)


@dataclass(frozen=True)
class Fold:
    """One model of cross-fitting.

    Args:
        estimator: the fitted classifier.
        rows: places, among all that were cross-fitted, of the records whose labels it did not see.
        matrix: P(answer | class), shape (K, K), where it predicts what was answered; None where it predicts classes.
    """

    estimator: Any = field(repr=False)
    rows: NDArray[np.intp] = field(repr=False)
    matrix: NDArray[np.float64] | None = field(repr=False)


def cross_fit(
    features: Any,
    evidence: Evidence,
    candidates: Sequence[Any],
    recipe: Training,
    *,
    prior: Any = None,
    always: bool = False,
    callback: Progress | None = None,
) -> CrossFit:
    """Cross-fit all candidates, and return the one that explains the held-out released labels best.

    A noise-aware classifier that can be cross-fitted is fitted at once.
    """
    if is_noise_aware(candidates[0]):
        if callback:
            callback(f"training: {type(candidates[0]).__name__}", 0.0)
        if not hasattr(candidates[0], "cross_fit"):
            known = evidence.class_prior()[None, :] if prior is None else prior
            return CrossFit(candidates[0], np.broadcast_to(known, (len(evidence), evidence.classes)))
        fitted = clone(candidates[0])
        probabilities, (part, rows) = fitted.cross_fit(features, evidence, prior)
        return CrossFit(candidates[0], probabilities, Fold(part, rows, None), fitted)
    if len(candidates) == 1 and recipe.method in ("plain", "debiased") and not always:
        return CrossFit(candidates[0], None)
    steps = len(candidates) / CROSS_FITTING  # the rest is for `learn`

    def telling(number: int) -> Progress | None:
        return callback and (lambda text, done: callback(text, (number + done) / steps))

    guesses = [
        _first_guess(features, evidence, candidate, recipe, prior, telling(number))
        for number, candidate in enumerate(candidates)
    ]
    return max(guesses, key=lambda guess: evidence.score(guess.probabilities))


def is_noise_aware(classifier: Any) -> bool:
    """Return whether a classifier learns from released labels itself, by a method `fit_released`."""
    return hasattr(classifier, "fit_released")


def with_initial_certificate(model: Release[Model], classifier: Any) -> Release[Model]:
    """Return a model whose certificate also covers the first weights of its classifier, and a fitted representation."""
    if not is_noise_aware(classifier):
        return model
    sources = {
        "init": "first weights do",
        "module_weights": "first weights do",
        "representation": "representation does",
    }
    for name, words in sources.items():
        model = with_given(model, getattr(classifier, name, None), words)
    return model


def with_given(model: Release[Model], source: Any, words: str) -> Release[Model]:
    """Return a model whose certificate also covers what it was given.

    Args:
        source: a `Release`, whose charges the certificate lists; something `Public`, whose reason it quotes; or
            anything else, which changes nothing.
        words: what it is, and its verb, such as "representation does".
    """
    if isinstance(source, Release):
        return gather([model, source], lambda model, _: model)
    if isinstance(source, str) and source in encoders.ENCODERS:
        source = Public(source, why=encoders.ENCODERS[source].why)
    if not isinstance(source, Public):
        return model
    assumptions = (*model.certificate.assumptions, f"the {words} not depend on the private labels ({source.why})")
    return replace(model, certificate=replace(model.certificate, assumptions=assumptions))


def learn(
    features: Any,
    evidence: Evidence,
    guess: CrossFit,
    recipe: Training,
    domain: Domain,
    *,
    start: Any = None,
    stage: int = 1,
) -> Model:
    """Learn one model from released labels, by the recipe's method or by a noise-aware classifier's own."""
    classifier, probabilities = guess.classifier, guess.probabilities
    if is_noise_aware(classifier):
        if guess.fitted is not None:
            return Model(domain, guess.fitted)
        unfitted = clone(classifier)
        return Model(domain, unfitted.fit_released(features, evidence, start=start, prior=probabilities, stage=stage))
    if recipe.method == "plain":
        return Model(domain, _fit_answers(classifier, features, evidence, recipe), evidence.matrix)
    if recipe.method == "debiased":
        return Model(domain, fit_soft(classifier, features, _unbiased(evidence), recipe.seed, evidence.weights))
    for _ in range(recipe.rounds - 1):
        soft = evidence.posterior(probabilities)
        probabilities = _soft_out_of_fold(features, classifier, soft, recipe, evidence.weights)
    if recipe.method == "consensus":
        return Model(domain, _fit_agreed(classifier, features, evidence, probabilities))
    soft = evidence.posterior(probabilities)
    return Model(domain, _fit_posterior(classifier, features, soft, recipe.seed, evidence.weights, guess.fold))


def fit_codes(classifier: Any, features: Any, codes: NDArray[Any], weights: Any = None) -> Any:
    """Fit a clone of a classifier to codes; if only one class occurs, fit a constant."""
    targets = codes.astype(np.int64)
    if not np.any(targets != targets[0]):
        return DummyClassifier().fit(np.zeros((len(targets), 1)), targets)
    once = np.flatnonzero(np.isin(targets, np.flatnonzero(np.bincount(targets) == 1)))
    if once.size:  # repeated: classifiers that stop early split by class, and need two records of each
        rows = np.concatenate([np.arange(len(targets)), once])
        features, targets = take_rows(features, rows), targets[rows]
        weights = None if weights is None else weights[rows]
    if isinstance(classifier, HistGradientBoostingClassifier):
        features = without_rare_columns(features)
    name, arguments = weight_name(classifier), {}
    if weights is not None:
        if name is None:
            raise InputError("this classifier takes no sample weights")
        arguments[name] = weights
    with config_context(enable_metadata_routing=False):
        return clone(classifier).fit(features, targets, **arguments)


def _fit_answers(classifier: Any, features: Any, evidence: Evidence, recipe: Training) -> Any:
    """Return a fresh classifier of what was answered: the class, or every class that a set names."""
    if evidence.codes is not None:
        return fit_codes(classifier, features, evidence.codes, evidence.weights)
    assert evidence.named is not None
    weights = evidence.named.astype(np.float64)
    if not hasattr(classifier, "fit_soft") and weight_name(classifier) is None:  # one class is drawn from each set
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    return fit_soft(classifier, features, weights, recipe.seed, evidence.weights)


def _fit_agreed(classifier: Any, features: Any, evidence: Evidence, probabilities: Any) -> Any:
    """Return a fresh classifier of the likeliest classes, from records whose answers name them; from all if none do."""
    likeliest = np.asarray(probabilities).argmax(axis=1)
    rows = np.flatnonzero(evidence.names(likeliest))
    rows = rows if len(rows) else np.arange(len(likeliest))
    weights = None if evidence.weights is None else evidence.weights[rows]
    return fit_codes(classifier, take_rows(features, rows), likeliest[rows], weights)


def fit_soft(
    classifier: Any,
    features: Any,
    soft: NDArray[np.float64],
    seed: int,
    record_weights: NDArray[np.float64] | None = None,
) -> Any:
    """Fit a clone of a classifier to class weights, shape (n, K), whose rows sum to 1.

    A classifier with a method `fit_soft(features, weights)` gets the weights themselves; one that takes sample weights
    gets a copy of each record for each class; any other gets copies with drawn labels. Weights of the records, shape
    (n,), go to classifiers that take sample weights alone.
    """
    if hasattr(classifier, "fit_soft"):
        arguments = {} if record_weights is None else {"sample_weight": record_weights}
        return clone(classifier).fit_soft(features, soft, **arguments)
    count, classes = soft.shape
    if weight_name(classifier) is not None:
        weights = soft.T.ravel()
        rows = np.flatnonzero(np.abs(weights) > MIN_WEIGHT)
        copies = weights[rows] if record_weights is None else weights[rows] * record_weights[rows % count]
        return fit_codes(classifier, take_rows(features, rows % count), rows // count, copies)
    drawn = np.random.default_rng(seed).random((DRAWN_LABELS, count, 1))
    labels = (drawn > np.cumsum(soft, axis=1)[None]).sum(axis=2).clip(0, classes - 1)
    return fit_codes(classifier, take_rows(features, np.tile(np.arange(count), DRAWN_LABELS)), labels.ravel())


def _fit_posterior(
    classifier: Any,
    features: Any,
    soft: Probabilities,
    seed: int,
    weights: NDArray[np.float64] | None,
    fold: "Fold | None" = None,
) -> Any:
    """Fit a clone of a classifier to class probabilities, shape (n, K); trees of many records without copying them.

    Such trees do not stop early. As many are grown as a model of cross-fitting had when it stopped, of twice the
    weight: soft labels are less noisy than released ones, and ask for more.
    """
    plain = type(classifier) is HistGradientBoostingClassifier and classifier.class_weight is None
    if not plain or len(soft) < MANY_RECORDS:
        return fit_soft(classifier, features, soft, seed, weights)
    stopped = getattr(fold and fold.estimator, "n_iter_", classifier.max_iter / 2)
    rate, trees = 2 * classifier.learning_rate, max(int(stopped), MIN_SOFT_TREES)
    slower = SoftTrees(clone(classifier).set_params(max_iter=trees, learning_rate=rate))
    return fit_soft(slower, features, soft, seed, weights)


def out_of_fold(
    features: Any, classes: int, recipe: Training, fitter: Callable[[NDArray[np.intp]], Any]
) -> Probabilities:
    """Return probabilities for each record from a model that was fitted without it, shape (n, K)."""
    return _crossed(features, classes, recipe, fitter)[0]


def _crossed(
    features: Any,
    classes: int,
    recipe: Training,
    fitter: Callable[[NDArray[np.intp]], Any],
    callback: Callable[[int, int], None] = lambda number, parts: None,
    matrix: NDArray[np.float64] | None = None,
) -> tuple[Probabilities, Fold]:
    """Return what `out_of_fold` does, and the last of the models."""
    count = rows_of(features)
    result = np.empty((count, classes))
    folds = KFold(recipe.parts(count), shuffle=True, random_state=recipe.seed)
    for number, (fitted, held) in enumerate(folds.split(np.arange(count))):
        callback(number, recipe.parts(count))
        fold = Fold(fitter(fitted), held, matrix)
        result[held] = expanded(fold.estimator, take_rows(features, held), classes)
    return result, fold


def _first_guess(
    features: Any, evidence: Evidence, classifier: Any, recipe: Training, prior: Any, callback: Progress | None = None
) -> CrossFit:
    """Return out-of-fold probabilities of the true class, from inverted noise or from one round of the posterior."""
    if prior is None and evidence.matrix is not None:

        def fitter(rows: NDArray[np.intp]) -> Any:
            return _fit_answers(classifier, take_rows(features, rows), evidence.take(rows), recipe)

        def telling(number: int, parts: int) -> None:
            if callback:
                callback(f"training: {type(classifier).__name__}, fold {number + 1} of {parts}", number / parts)

        noisy, fold = _crossed(features, evidence.classes, recipe, fitter, telling, evidence.matrix)
        return CrossFit(classifier, calibrated(unmixed(noisy, evidence.matrix), evidence), fold=fold)
    soft = evidence.posterior(evidence.class_prior()[None, :] if prior is None else prior)
    return CrossFit(classifier, _soft_out_of_fold(features, classifier, soft, recipe, evidence.weights))


def calibrated(probabilities: Probabilities, evidence: Evidence) -> Probabilities:
    """Return held-out probabilities at the temperature that explains the released labels best."""
    return max((tempered(probabilities, t) for t in TEMPERATURES.tolist()), key=evidence.score)


def _soft_out_of_fold(
    features: Any, classifier: Any, soft: Probabilities, recipe: Training, weights: NDArray[np.float64] | None
) -> Probabilities:

    def fitter(rows: NDArray[np.intp]) -> Any:
        part = None if weights is None else weights[rows]
        return _fit_posterior(classifier, take_rows(features, rows), soft[rows], recipe.seed, part)

    return out_of_fold(features, soft.shape[1], recipe, fitter)


def _unbiased(evidence: Evidence) -> NDArray[np.float64]:
    """Return unbiased class indicators, shape (n, K): the weights of the debiased loss."""
    indicators = evidence.unbiased()
    if indicators is None:
        raise NotInvertibleError(
            'training="debiased" needs noise with an inverse, as of RandomizedResponse in one stage; '
            'training="posterior" needs none'
        )
    return indicators


def dry_run(
    candidates: Sequence[Any],
    features: Any,
    recipe: Training,
    response: RandomizedResponse,
    *,
    records: int | None = None,
) -> None:
    """Fit every classifier to some of the features and synthetic labels, and refuse those that fail.

    A clone learns as the recipe says from at most 1,000 records (see `trial_rows`), with labels of at most 50 classes
    that a public seed draws; then from labels among which a class is missing, as noise may cause; and it predicts
    texts or integers that it did not learn from, as in cross-fitting. One that fails is tried again on as many records
    as there will be. A failure that only other records cause is not found. The global random states of Python and NumPy
    stay as they are.

    Args:
        candidates: one classifier or several.
        features: public table or array.
        recipe: how they will be trained.
        response: the mechanism that will release the labels.
        records: the smallest number of records that a classifier will learn from; all by default.

    Raises:
        InputError: a classifier failed; nothing was charged.
    """
    if len(candidates) > 1 and any(map(is_noise_aware, candidates)):
        raise InputError("classifier must be one alone if it is noise-aware: it is not compared with others")
    size, count = response.domain.size, rows_of(features)
    limit = min(count if records is None else records, max(MAX_TRIAL_SIZE // size, 1))
    trial: TrialRows | None = None
    for candidate in candidates:
        if is_noise_aware(candidate):
            candidate.dry_run(features, size)
            continue
        trial = trial or trial_rows(features, recipe.seed)
        try:
            _dry_run_of(candidate, features, trial, recipe, response)
        except InputError:
            if limit <= len(trial.rows):
                raise
            _dry_run_of(candidate, features, trial.among(count, limit, recipe.seed), recipe, response)


def _dry_run_of(
    classifier: Any, features: Any, trial: TrialRows, recipe: Training, response: RandomizedResponse
) -> None:
    """Try a classifier on some records; see `dry_run`."""
    domain, rng, rows = response.domain, np.random.default_rng(recipe.seed), trial.rows
    table, each_row = take_rows(features, rows), np.arange(len(rows))
    classes = np.sort(rng.permutation(domain.size)[:MAX_TRIAL_CLASSES])
    places = rng.integers(0, len(classes), len(rows))
    drawn, next_ones = classes[places], classes[(places + 1) % len(classes)]
    evidence = Evidence.made_by(response, drawn.astype(domain.dtype))
    # Half on the label, half on the next one, so that no record is copied for every class.
    halves = np.zeros((len(rows), domain.size))
    halves[each_row, drawn] = halves[each_row, next_ones] = 0.5
    # Of two classes none is missing: one class alone would be fitted by a constant.
    fewer = drawn if domain.size == 2 else np.where(places == 0, classes[1], drawn)

    def fit(codes: NDArray[Any], learned: NDArray[np.intp] = each_row, predicted: NDArray[np.intp] = each_row) -> None:
        fitted = fit_codes(_short(classifier), take_rows(table, learned), codes[learned])
        expanded(fitted, take_rows(table, predicted), domain.size)

    with _undisturbed(), _naming(classifier, features, "cannot learn from these features", len(rows)):
        guess = CrossFit(_short(classifier), halves)
        learn(table, evidence, guess, replace(recipe, rounds=1), domain).predict_proba(table)
    with _undisturbed(), _naming(classifier, features, "cannot learn where a class is missing among released labels"):
        try:
            fit(fewer)
        except Exception:
            with _naming(classifier, features, "cannot learn from these features", len(rows)):
                fit(drawn)
            raise
    held = rng.permutation(np.flatnonzero(trial.single))[: len(rows) // recipe.parts(len(rows))]
    if len(held):
        learned = each_row.copy()
        learned[held] = rng.choice(np.setdiff1d(each_row, held), len(held))
        with _undisturbed(), _naming(classifier, features, "cannot predict values that it did not learn from"):
            fit(drawn, learned, held)


def dry_run_regressor(regressor: Any, features: Any, domain: Interval, weights: Any = None) -> None:
    """Fit a regressor to some of the features and synthetic numbers, and refuse one that fails, as `dry_run` does.

    Raises:
        InputError: the regressor failed; nothing was charged.
    """
    rows = trial_rows(features, 0).rows
    table, numbers = take_rows(features, rows), np.random.default_rng(0).uniform(domain.low, domain.high, len(rows))
    arguments = {} if weights is None else {weight_name(regressor) or "": weights[rows]}
    with _undisturbed(), _naming(regressor, features, "cannot learn from these features", len(rows)):
        clone(regressor).fit(table, numbers, **arguments).predict(table)


def _short(classifier: Any) -> Any:
    """Return a classifier that boosts fewer and coarser trees: they fail where all would."""
    if not isinstance(classifier, HistGradientBoostingClassifier):
        return classifier
    few, mask = {"max_iter": min(classifier.max_iter, TRIAL_TREES)}, classifier.categorical_features
    plain = mask is None or np.array_equal(mask, np.zeros_like(mask, dtype=np.bool_))
    if plain:  # each category would need a bin of its own
        few["max_bins"] = min(classifier.max_bins, TRIAL_BINS)
    return clone(classifier).set_params(**few)


@contextmanager
def _naming(classifier: Any, features: Any, problem: str, tried: int | None = None) -> Iterator[None]:
    """Raise what a classifier raises as an `InputError` that names it."""
    try:
        yield
    except LabelDPError:
        raise
    except Exception as error:
        kind = "regressor" if is_regressor(classifier) else "classifier"
        hint = "" if are_numbers(features) else f" ({MIXED_HINT})"
        count = rows_of(features)
        some = f" (tried on {tried:,} of {count:,} records)" if tried is not None and tried < count else ""
        raise InputError(f"{kind} {type(classifier).__name__} {problem}: {error}{hint}{some}") from error


@contextmanager
def released_anyway(candidates: Sequence[Any]) -> Iterator[None]:
    """Raise what a classifier raises after a release as a `LabelDPError` that says what became of the labels."""
    try:
        yield
    except (LabelDPError, MemoryError):
        raise
    except Exception as error:
        names = " or ".join(dict.fromkeys(type(candidate).__name__ for candidate in candidates))
        raise LabelDPError(
            f"classifier {names} failed after labels were released: {error}. The released labels stay charged. With a "
            "ledger file the same call with another classifier reuses the labels of the first stage for free; a ledger "
            "in memory keeps none"
        ) from error


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Silence warnings, and put back the global random states of Python and NumPy."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def prior_rows(prior: Any, count: int, classes: int) -> Probabilities:
    """Return the rows of a prior that was released or is public, shape (n, K), or raise an `InputError`."""
    if not isinstance(prior, Release | Public):
        raise InputError('prior must be a Release or Public(array, why="…"): it may not have seen the private labels')
    rows = np.asarray(prior.value, dtype=np.float64)
    if rows.shape != (count, classes):
        raise InputError("prior must have one row for each record and one column for each class")
    if not np.all(rows >= 0) or not np.allclose(rows.sum(axis=1), 1.0, atol=1e-6):
        raise InputError("prior must be non-negative and sum to 1 in each row")
    return rows


def record_weights(weights: Any, records: int, learners: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return public weights of the records in training, shape (n,); None where all count alike.

    Args:
        weights: numbers of at least 0, not all of them 0, shape (n,); or None.
        records: how many there are.
        learners: what they are for, unfitted.

    Raises:
        InputError: they are no such weights, or a learner cannot use them.
    """
    if weights is None:
        return None
    for learner in learners:
        if is_noise_aware(learner) or hasattr(learner, "fit_soft") or weight_name(learner) is None:
            raise InputError(
                f"must be left out: {type(learner).__name__} takes no weights. Name an estimator whose fit takes "
                "sample_weight, such as LogisticRegression()",
                argument="sample_weight",
            )
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (records,) or not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise InputError(
            "must be one finite number of at least 0 for each row of X, and not all zero", argument="sample_weight"
        )
    return array


def weight_name(classifier: Any) -> str | None:
    """Return the argument of `fit` that carries sample weights, if there is one."""
    prefix, last = "", classifier
    if isinstance(classifier, Pipeline):
        name, last = classifier.steps[-1]
        prefix = f"{name}__"
    return f"{prefix}sample_weight" if has_fit_parameter(last, "sample_weight") else None
