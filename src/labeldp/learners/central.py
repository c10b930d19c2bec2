"""A linear model from a trusted curator: noise on sums, not on labels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners.errors import judged, measuring
from labeldp.learners.features import check_rows, row_table
from labeldp.learners.mapped import mapped_by
from labeldp.learners.maps import TableMap
from labeldp.learners.model import Model
from labeldp.learners.multistage import HELD_OUT
from labeldp.learners.rounds import UNIT, Refinement, Task
from labeldp.learners.whitening import MAX_DIMENSION
from labeldp.mechanisms import CrossMoment
from labeldp.privacy import CuratorLike, InputError, PrivacyLoss, Public, Release, gather


def fit_linear(
    features: Any,
    curator: CuratorLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    rng: Any,
    representation: Any = None,
    refine: Sequence[Refinement] = (),
    dimension: int | None = None,
    ridge: float | None = None,
    evaluation: float = 0.0,
    partition_seed: int = 0,
) -> Release[Model]:
    """Learn a linear model of public features from one noisy sum of rows times labels, released by a trusted curator.

    Use it where somebody may see the labels: it needs far less epsilon than labels that are randomized one by one.
    Directions, their number, the noise of each, weights of rows and shrinkage follow from features, epsilon and the
    number of records, under a fixed prior of what features explain; no label has a say. Regression where the
    curator's domain is an `Interval`. More rounds: the model of one says which features to take in the next, and the
    sums of all rounds make the last model.

    Args:
        features: public, one row for each record; numbers, NaN where a value is missing. Or a `Release` of such rows,
            such as the embedding of a network that was trained on released labels: the model's certificate holds both.
        curator: holds the labels.
        epsilon: of the release.
        delta: of the release; 0 asks for a pure guarantee, which costs many dimensions.
        rng: randomness of the noise.
        representation: unfitted scikit-learn transformer that is fitted on the features alone, such as
            `PatchFilters()`; by default `TableMap()`.
        refine: for each round after the first, what makes the released model of the round before a fitted
            transformer of the features, such as the embedding of a network that was distilled from it. All rounds
            have the same noise, and together cost epsilon.
        dimension: at most so many principal directions are used; by default `MAX_DIMENSION`, of which the noise
            leaves as many as are worth it; of many classes, as many as fit into one release.
        ridge: factor on the penalty that the noise asks for; 1 by default.
        evaluation: share of the records that is not learned from, but answered by plain randomized response at the
            same epsilon (numbers by `DiscreteLaplace`), so that the model has an `evaluation`; in [0, 1), and 0 where
            features are a `Release`, which may hold these labels.
        partition_seed: of the random split, public.

    Returns:
        The model; probabilities are calibrated on the released sums.

    Guarantee: (epsilon, delta)-DP for each label: the releases of all rounds together, composed exactly.

    Raises:
        InputError: an argument is wrong; nothing was charged. Or `refine` returns something else than it should: the
            rounds before it stay charged.
        BudgetExceeded: the budget does not admit everything together; nothing was charged.

    Source: `docs/proofs/cross_moment.md`; Balle and Wang (2018) for the noise.
    """
    source = features if isinstance(features, Release) else None
    features = features if source is None else source.value
    features = row_table(features)
    check_rows(features, curator.records)
    refine = _refine(refine)
    task = Task.of(curator.domain, epsilon, delta, _dimension(dimension), _ridge(ridge)).shared(1 + len(refine))
    _refuse_evaluation(evaluation, source)
    unfitted = TableMap() if representation is None else representation
    fitted = mapped_by(unfitted, features, source)
    if not evaluation:
        return task.rounds(fitted, features, slice(None), curator, rng, refine)[0]

    def learn(training: CuratorLike, held: NDArray[np.bool_]) -> tuple[Release[Model], Any]:
        model, last = task.rounds(fitted, features, ~held, training, rng, refine)
        return model, model.value.estimator.of_table(last.table[held])

    return evaluated(curator, epsilon, learn, share=evaluation, seed=partition_seed, rng=rng)


def evaluated(
    curator: CuratorLike,
    epsilon: float,
    learn: Callable[[CuratorLike, NDArray[np.bool_]], tuple[Release[Model], Any]],
    *,
    share: float,
    seed: int,
    rng: Any,
) -> Release[Model]:
    """A model with an evaluation on records that it was not learned from, answered one by one (see `measuring`).

    Args:
        curator: of all labels.
        epsilon: of the evaluation's labels.
        learn: takes the curator of the other records and the mask of those that are kept; returns the model and its
            probabilities for them, or predicted numbers.
        share: of the records, in (0, 1).
        seed: of the random split, public.
        rng: randomness of the noise.

    Raises:
        InputError: one of the two parts would be empty; nothing was charged.
    """
    held = np.random.default_rng(seed).permutation(curator.records) < share * curator.records
    if held.all() or not held.any():
        raise InputError("labels must hold more records: the training or the evaluation part would be empty")
    why = f"records are assigned at random from the public seed {seed}, without their labels"
    training, kept = curator.split(Public(held.astype(np.int64), why=why))
    response = measuring(kept.domain, epsilon)
    kept.require({"evaluation": response.privacy_loss()})
    model, predicted = learn(training, held)
    release = kept.release(response, rng=rng, step="evaluation")
    seen = judged(release, predicted, HELD_OUT, np.flatnonzero(held))
    return gather([model, release], lambda learnt, _: replace(learnt, evaluation=seen))


def round_moment(domain: Any, *, epsilon: float, delta: float = 0.0, rounds: int = 1) -> CrossMoment:
    """What each round of `fit_linear` would release of a single row of norm one: the noise, before features are known.

    Args:
        domain: of the labels.
        epsilon, delta: of all rounds together.
        rounds: how many.
    """
    return Task.of(domain, epsilon, delta, MAX_DIMENSION, 1.0).shared(rounds).mechanism(UNIT, 1.0)


def round_loss(domain: Any, *, epsilon: float, delta: float = 0.0, rounds: int = 1) -> PrivacyLoss:
    """What each round of `fit_linear` costs, whatever its features are.

    Args:
        domain: of the labels.
        epsilon, delta: of all rounds together.
        rounds: how many.
    """
    return round_moment(domain, epsilon=epsilon, delta=delta, rounds=rounds).privacy_loss()


def _refine(value: Any) -> tuple[Refinement, ...]:
    if not isinstance(value, Sequence) or not all(callable(each) for each in value):
        raise InputError("refine must be a sequence of functions, one for each round after the first")
    return tuple(value)


def check_evaluation(share: Any) -> None:
    """Refuse what is no share of the records that leaves some to learn from."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share < 1:
        raise InputError("evaluation must be a share of the records, in [0, 1)")


def _refuse_evaluation(share: Any, source: Any) -> None:
    check_evaluation(share)
    if share and source is not None:
        raise InputError("evaluation must be 0 where features are a Release: they may hold the labels that it held out")


def _dimension(value: Any) -> int:
    if value is None:
        return MAX_DIMENSION
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError("dimension must be a positive integer")
    return int(value)


def _ridge(value: Any) -> float:
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise InputError("ridge must be a positive factor, such as 1.0")
    return float(value)
