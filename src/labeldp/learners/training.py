"""Training that knows the noise: any scikit-learn classifier, labels that are right only sometimes."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from labeldp.learners.classifiers import as_candidates
from labeldp.learners.evidence import TEMPERATURES, Evidence, Probabilities, expanded, tempered, unmixed
from labeldp.learners.features import MIXED, TrialRows, are_numbers, check_rows, row_table, rows_of, trial_rows
from labeldp.learners.model import Model
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import InputError, LabelDPError, NotInvertibleError, Public, Release, gather

Method = Literal["posterior", "plain", "reweighted", "debiased"]

PRUNED = 0.002
"""Weighted copies of a record that weigh less are left out."""

DRAWS = 4
"""Copies of each record for a classifier without sample weights, each with a label drawn from its probabilities."""

FEW_TREES = 5

FEW_BINS = 15
"""Of boosted trees in a rehearsal: trees for each class, bins for each feature."""

RETRIED = 10**8
"""Probabilities of the rehearsal that a classifier gets which failed on fewer records, at most: K for each record."""

MADE_UP = 50
"""Classes of a rehearsal at most: some classifiers need several records of each."""


@dataclass(frozen=True)
class Training:
    """How a classifier is trained on noisy labels.

    Args:
        method: "posterior" trains on P(true class | released label, features) under an out-of-fold model, as soft
            labels: the expectation-maximization of a noisy-label model. "plain" takes released labels for
            true. "reweighted" weighs each released label by the posterior probability that it is true (one
            copy of each record). "debiased" minimizes the unbiased loss, with negative weights: only for
            classifiers that accept them.
        rounds: how often the posterior is taken, each time under the model of the round before; at least 1.
        folds: cross-fitting parts; a record's posterior never rests on a model that saw its released label.
        seed: of the folds and of drawn labels: public.

    Source: "debiased": Ghazi et al., Deep Learning with Label Differential Privacy, eq. (17).
    """

    method: Method = "posterior"
    rounds: int = 1
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise InputError(f"training must be one of {', '.join(get_args(Method))}")
        if self.rounds < 1 or self.folds < 2:
            raise InputError("rounds must be at least 1 and folds at least 2")

    @classmethod
    def of(cls, training: Any) -> "Training":
        """A recipe, or the one that a method's name stands for."""
        return training if isinstance(training, Training) else cls(training)


def fit_noisy(
    features: Any,
    release: Release[Any],
    *,
    classifier: Any = None,
    training: Training | Method = "posterior",
    prior: Any = None,
) -> Release[Model]:
    """Train on labels that were released already: it costs nothing more.

    Use it on one release; `fit_multistage` makes the releases too.

    Args:
        features: table or array of n records, whatever the classifier accepts.
        release: n released classes, as `Curator.release` returned them.
        classifier: scikit-learn classifier with `predict_proba`, or several, of which the one that explains
            held-out released labels best is chosen; by default `default_classifiers`, for numeric features.
        training: method, or `Training(...)`.
        prior: what was known of the labels beforehand, shape (n, K), a `Release` or `Public`.

    Guarantee: the model depends on the labels only through the release: its certificate is the release's.
    """
    evidence = Evidence.of(release)
    features = row_table(features)
    check_rows(features, len(evidence))
    recipe, known = Training.of(training), [prior] if isinstance(prior, Release) else []
    rows = None if prior is None else prior_rows(prior, len(evidence), evidence.classes)
    domain, candidates = release.mechanism.domain, as_candidates(classifier, features, evidence.classes)

    def build(*_: Any) -> Model:
        guess = cross_fit(features, evidence, candidates, recipe, prior=rows)
        return learn(features, evidence, guess, recipe, domain)

    return with_initial_certificate(gather([release, *known], build), candidates[0])


def posterior(release: Release[Any], prior: Any) -> Release[Probabilities]:
    """P(true class | released label, prior), shape (n, K): soft labels to train on.

    Args:
        release: n released classes.
        prior: class probabilities before the release was seen, shape (n, K), a `Release` (of a model that did not
            see these records, for instance) or `Public`.

    Guarantee: computed from releases alone; the certificate holds the charges of both.
    """
    evidence = Evidence.of(release)
    rows = prior_rows(prior, len(evidence), evidence.classes)
    return gather([release, *([prior] if isinstance(prior, Release) else [])], lambda *_: evidence.posterior(rows))


@dataclass(frozen=True)
class CrossFit:
    """A classifier, unfitted, and its class probabilities for records that it was not trained on.

    Args:
        classifier: the one that was chosen.
        probabilities: of the true class, out of fold, shape (n, K); None where nothing needs them.
    """

    classifier: Any
    probabilities: Probabilities | None


def cross_fit(
    features: Any,
    evidence: Evidence,
    candidates: Sequence[Any],
    recipe: Training,
    *,
    prior: Any = None,
    always: bool = False,
) -> CrossFit:
    """Cross-fit every candidate, and keep the one that explains the held-out released labels best."""
    if any(map(is_noise_aware, candidates)):
        known = evidence.class_prior()[None, :] if prior is None else prior
        return CrossFit(candidates[0], np.broadcast_to(known, (len(evidence), evidence.classes)))
    if len(candidates) == 1 and recipe.method in ("plain", "debiased") and not always:
        return CrossFit(candidates[0], None)
    guesses = [CrossFit(each, _first_probabilities(features, evidence, each, recipe, prior)) for each in candidates]
    return max(guesses, key=lambda guess: evidence.score(guess.probabilities))


def is_noise_aware(classifier: Any) -> bool:
    """Whether a classifier learns from released labels and their law itself, by a method `fit_released`."""
    return hasattr(classifier, "fit_released")


def with_initial_certificate(model: Release[Model], classifier: Any) -> Release[Model]:
    """A model with what its classifier's first weights cost, or under the condition that they are public."""
    first = getattr(classifier, "init", None) if is_noise_aware(classifier) else None
    if isinstance(first, Release):
        return gather([model, first], lambda learnt, _: learnt)
    if not isinstance(first, Public):
        return model
    condition = f"the first weights do not depend on the private labels ({first.why})"
    certificate = model.certificate
    assumptions = (*certificate.assumptions, condition)
    return replace(model, certificate=replace(certificate, assumptions=assumptions))


def learn(
    features: Any,
    evidence: Evidence,
    guess: CrossFit,
    recipe: Training,
    domain: Classes,
    *,
    start: Any = None,
    stage: int = 1,
) -> Model:
    """One model from released labels, by the recipe's method, or by that of a classifier that knows the noise.

    Args:
        start: the fitted classifier of the stage before, for one that knows the noise.
        stage: 1, 2, …, likewise.
    """
    if is_noise_aware(guess.classifier):
        unfitted, prior = clone(guess.classifier), guess.probabilities
        return Model(domain, unfitted.fit_released(features, evidence, start=start, prior=prior, stage=stage))
    if recipe.method == "plain":
        return Model(domain, fit_codes(guess.classifier, features, evidence.codes), evidence.matrix)
    if recipe.method == "debiased":
        return Model(domain, fit_soft(guess.classifier, features, _unbiased(evidence), recipe.seed))
    assert guess.probabilities is not None
    probabilities = guess.probabilities
    for _ in range(recipe.rounds - 1):
        soft = evidence.posterior(probabilities)
        probabilities = out_of_fold(
            features, evidence.classes, recipe, _soft_fitter(guess.classifier, features, soft, recipe)
        )
    soft = evidence.posterior(probabilities)
    if recipe.method == "reweighted":
        weights = soft[np.arange(len(soft)), evidence.codes]
        return Model(domain, fit_codes(guess.classifier, features, evidence.codes, weights))
    return Model(domain, fit_soft(guess.classifier, features, soft, recipe.seed))


def fit_codes(classifier: Any, features: Any, codes: NDArray[Any], weights: Any = None) -> Any:
    """A fresh classifier, fitted on codes; where only one class occurs, the constant."""
    targets = codes.astype(np.int64)
    if not np.any(targets != targets[0]):
        return DummyClassifier().fit(np.zeros((len(targets), 1)), targets)
    once = np.flatnonzero(np.isin(targets, np.flatnonzero(np.bincount(targets) == 1)))
    if once.size:  # some classifiers stop early on a part that is split by class: a class needs two records for it
        rows = np.concatenate([np.arange(len(targets)), once])
        features, targets = _safe_indexing(features, rows), targets[rows]
        weights = None if weights is None else weights[rows]
    with config_context(enable_metadata_routing=False):
        return clone(classifier).fit(features, targets, **_weight_argument(classifier, weights))


def fit_soft(classifier: Any, features: Any, soft: NDArray[np.float64], seed: int) -> Any:
    """A fresh classifier, fitted on class weights, shape (n, K), rows sum to 1.

    A classifier with a method `fit_soft(features, weights)` gets them as they are; one with sample weights gets each
    record once for each class; any other gets copies with drawn labels.
    """
    if hasattr(classifier, "fit_soft"):
        return clone(classifier).fit_soft(features, soft)
    count, classes = soft.shape
    if _takes_weights(classifier):
        weights = soft.T.ravel()
        kept = np.flatnonzero(np.abs(weights) > PRUNED)
        return fit_codes(classifier, _safe_indexing(features, kept % count), kept // count, weights[kept])
    drawn = np.random.default_rng(seed).random((DRAWS, count, 1))
    labels = (drawn > np.cumsum(soft, axis=1)[None]).sum(axis=2).clip(0, classes - 1)
    return fit_codes(classifier, _safe_indexing(features, np.tile(np.arange(count), DRAWS)), labels.ravel())


def out_of_fold(
    features: Any, classes: int, recipe: Training, fitter: Callable[[NDArray[np.intp]], Any]
) -> Probabilities:
    """Probabilities for each record from a model that was fitted without it, shape (n, K)."""
    count = rows_of(features)
    result = np.empty((count, classes))
    parts = KFold(min(recipe.folds, count), shuffle=True, random_state=recipe.seed)
    for others, held in parts.split(np.arange(count)):
        result[held] = expanded(fitter(others), _safe_indexing(features, held), classes)
    return result


def _first_probabilities(
    features: Any, evidence: Evidence, classifier: Any, recipe: Training, prior: Any
) -> Probabilities:
    """The first probabilities of the true class: noise undone where it has an inverse, else one round of posterior."""
    if prior is None and evidence.matrix is not None:

        def fitter(rows: NDArray[np.intp]) -> Any:
            return fit_codes(classifier, _safe_indexing(features, rows), evidence.codes[rows])

        noisy = out_of_fold(features, evidence.classes, recipe, fitter)
        return calibrated(unmixed(noisy, evidence.matrix), evidence)
    soft = evidence.posterior(evidence.class_prior()[None, :] if prior is None else prior)
    return out_of_fold(features, evidence.classes, recipe, _soft_fitter(classifier, features, soft, recipe))


def calibrated(probabilities: Probabilities, evidence: Evidence) -> Probabilities:
    """Held-out probabilities at the temperature that explains the released labels best."""
    return max((tempered(probabilities, t) for t in TEMPERATURES.tolist()), key=evidence.score)


def _soft_fitter(
    classifier: Any, features: Any, soft: Probabilities, recipe: Training
) -> Callable[[NDArray[np.intp]], Any]:
    return lambda rows: fit_soft(classifier, _safe_indexing(features, rows), soft[rows], recipe.seed)


def _unbiased(evidence: Evidence) -> NDArray[np.float64]:
    """Unbiased class indicators, shape (n, K): the weights of the debiased loss."""
    if evidence.matrix is None:
        raise NotInvertibleError(
            'training="debiased" needs noise with an inverse, as of RandomizedResponse in one stage; '
            'training="posterior" needs none'
        )
    return np.linalg.inv(evidence.matrix)[evidence.codes]


def dry_run(
    candidates: Sequence[Any],
    features: Any,
    recipe: Training,
    response: RandomizedResponse,
    *,
    records: int | None = None,
) -> None:
    """Try every classifier on some of the features with made-up labels: what it cannot take is refused here.

    Clones learn from at most 1,000 records as the recipe has it, from labels that were drawn uniformly from the domain
    by a public seed (of many classes, from 50), and once from labels among which a class is missing, as noise may leave
    them. They predict records with texts or integers that they did not learn from, as cross-fitting asks. Who fails is
    tried on as many records as there will be. The global random states of Python and NumPy are put back. What fails
    only on the records that were left out is not found.

    Args:
        candidates: classifiers, one or several.
        features: public table or array.
        recipe: of the training.
        response: whose domain and epsilon the labels will have.
        records: the fewest that a classifier will learn from; all by default.

    Raises:
        InputError: nothing was charged, because no label was needed.
    """
    if len(candidates) > 1 and any(map(is_noise_aware, candidates)):
        raise InputError("classifier must be one alone if it knows the noise: it is not compared with others")
    size, count = response.domain.size, rows_of(features)
    most = min(count if records is None else records, max(RETRIED // size, 1))
    told: TrialRows | None = None
    for each in candidates:
        if is_noise_aware(each):
            each.dry_run(features, size)
            continue
        told = told or trial_rows(features, recipe.seed)
        try:
            _dry_run_of(each, features, told, recipe, response)
        except InputError:
            if most <= len(told.rows):
                raise
            _dry_run_of(each, features, told.among(count, most, recipe.seed), recipe, response)


def _dry_run_of(each: Any, features: Any, told: TrialRows, recipe: Training, response: RandomizedResponse) -> None:
    """Try a classifier on some records; see `dry_run`."""
    domain, rng, rows = response.domain, np.random.default_rng(recipe.seed), told.rows
    assert isinstance(domain, Classes)
    table, each_row = _safe_indexing(features, rows), np.arange(len(rows))
    classes = np.sort(rng.permutation(domain.size)[:MADE_UP])
    places = rng.integers(0, len(classes), len(rows))
    drawn, next_ones = classes[places], classes[(places + 1) % len(classes)]
    evidence = Evidence.made_by(response, drawn.astype(domain.dtype))
    # Half on the label, half on the next one: no record is copied for every class.
    halves = np.zeros((len(rows), domain.size))
    halves[each_row, drawn] = halves[each_row, next_ones] = 0.5
    # One class of two is a constant, which no classifier is asked for.
    fewer = drawn if domain.size == 2 else np.where(places == 0, classes[1], drawn)

    def fit(codes: NDArray[Any], learned: NDArray[np.intp] = each_row, asked: NDArray[np.intp] = each_row) -> None:
        fitted = fit_codes(_short(each), _safe_indexing(table, learned), codes[learned])
        expanded(fitted, _safe_indexing(table, asked), domain.size)

    with _undisturbed(), _naming(each, features, "cannot learn from these features", len(rows)):
        guess = CrossFit(_short(each), halves)
        learn(table, evidence, guess, replace(recipe, rounds=1), domain).predict_proba(table)
    with _undisturbed(), _naming(each, features, "cannot learn where a class is missing among released labels"):
        try:
            fit(fewer)
        except Exception:
            with _naming(each, features, "cannot learn from these features", len(rows)):
                fit(drawn)
            raise
    held = rng.permutation(np.flatnonzero(told.single))[: len(rows) // recipe.folds]
    if len(held):
        learned = each_row.copy()
        learned[held] = rng.choice(np.setdiff1d(each_row, held), len(held))
        with _undisturbed(), _naming(each, features, "cannot predict values that it did not learn from"):
            fit(drawn, learned, held)


def _short(classifier: Any) -> Any:
    """The same with few and coarse trees where it boosts them: what a later one would raise, the first did."""
    if not isinstance(classifier, HistGradientBoostingClassifier):
        return classifier
    few, mask = {"max_iter": min(classifier.max_iter, FEW_TREES)}, classifier.categorical_features
    plain = mask is None or np.array_equal(mask, np.zeros_like(mask, dtype=np.bool_))
    if plain:  # each category would need a bin of its own
        few["max_bins"] = min(classifier.max_bins, FEW_BINS)
    return clone(classifier).set_params(**few)


@contextmanager
def _naming(classifier: Any, features: Any, problem: str, tried: int | None = None) -> Iterator[None]:
    """Whatever a classifier of the user's raises, as a sentence that names the argument."""
    try:
        yield
    except LabelDPError:
        raise
    except Exception as error:
        hint = "" if are_numbers(features) else f" ({MIXED})"
        count = rows_of(features)
        some = f" (tried on {tried:,} of {count:,} records)" if tried is not None and tried < count else ""
        raise InputError(f"classifier {type(classifier).__name__} {problem}: {error}{hint}{some}") from error


@contextmanager
def released_anyway(candidates: Sequence[Any]) -> Iterator[None]:
    """Whatever a classifier raises once labels were released, as a sentence that says what became of them."""
    try:
        yield
    except (LabelDPError, MemoryError):
        raise
    except Exception as error:
        names = " or ".join(dict.fromkeys(type(each).__name__ for each in candidates))
        raise LabelDPError(
            f"classifier {names} failed after labels were released: {error}. The released labels stay charged. With a "
            "ledger file the same call with another classifier finds those of the first stage at no further cost; a "
            "ledger in memory keeps none"
        ) from error


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Nothing that is drawn or warned of inside is seen outside: made-up labels say nothing of the true ones."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def prior_rows(prior: Any, count: int, classes: int) -> Probabilities:
    """The rows of a prior that was released or is public, checked, shape (n, K)."""
    if not isinstance(prior, Release | Public):
        raise InputError('prior must be a Release or Public(array, why="…"): it may not have seen the private labels')
    rows = np.asarray(prior.value, dtype=np.float64)
    if rows.shape != (count, classes):
        raise InputError("prior must have one row for each record and one column for each class")
    if not np.all(rows >= 0) or not np.allclose(rows.sum(axis=1), 1.0, atol=1e-6):
        raise InputError("prior must be non-negative and sum to 1 in each row")
    return rows


def _final(classifier: Any) -> tuple[str, Any]:
    """The estimator that sees the labels, and the prefix of its arguments."""
    if isinstance(classifier, Pipeline):
        name, last = classifier.steps[-1]
        return f"{name}__", last
    return "", classifier


def _takes_weights(classifier: Any) -> bool:
    return has_fit_parameter(_final(classifier)[1], "sample_weight")


def _weight_argument(classifier: Any, weights: Any) -> dict[str, Any]:
    """The argument that carries sample weights; refused where there is none."""
    if weights is None:
        return {}
    if not _takes_weights(classifier):
        raise InputError('this classifier takes no sample weights: use training="posterior" or "plain"')
    return {f"{_final(classifier)[0]}sample_weight": weights}
