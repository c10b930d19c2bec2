"""What learners release of records that a model did not learn from, for `Scores` and `Errors` of `inference`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.inference import LEVEL, DebiasedErrors, Outcomes, PublicGroups, Scores, SummedErrors
from labeldp.learners.evidence import normalized
from labeldp.mechanisms import DiscreteLaplace, RandomizedResponse
from labeldp.privacy import CuratorLike, RandomSource, Release, float_below, positive_epsilon

Evaluation = Scores | DebiasedErrors | SummedErrors
"""How good a model is: scores of classes, or errors of numbers."""

HELD_OUT = "the model, on records that it was not trained on"
"""What is evaluated where a part of the records is kept for it."""

CONSTANT_SHARE = 0.25
"""The share of epsilon of a sum of squared errors that goes to those of the constant, in an evaluation of numbers."""


def evaluate(
    release: Release[Any], predicted: Any, about: str, rows: NDArray[np.intp], fold: Any = None
) -> Scores | DebiasedErrors:
    """Return the scores of class probabilities, or the errors of predictions, on released labels of the same records.

    Scores of a release where some record had fewer candidates than classes raise a NotInvertibleError.

    Args:
        release: released codes, or packed bits.
        predicted: probabilities, shape (n, K), or numbers, shape (n,), of a model that never saw these labels.
        about: what is evaluated, in words.
        rows: places of these records in the training table, shape (n,).
        fold: see `Scores`.
    """
    domain = release.mechanism.domain
    if domain.target == "numbers":
        predictions = np.clip(predicted, *domain.ends)
        return DebiasedErrors(release=release, predictions=predictions, about=about, rows=rows, fold=fold)
    cells = PublicGroups.of(None, len(release.value))
    return Scores(Outcomes(release), normalized(predicted), about, cells, LEVEL, False, rows=rows, fold=fold)


def evaluation_mechanism(domain: Any, epsilon: float) -> RandomizedResponse | DiscreteLaplace:
    """Return the mechanism for labels of an evaluation: plain randomized response, or for numbers noise on the grid."""
    if domain.target == "numbers":
        return DiscreteLaplace(domain=domain, epsilon=epsilon)
    return RandomizedResponse(domain=domain, epsilon=epsilon)


def release_errors(
    curator: CuratorLike, predicted: Any, *, epsilon: float, about: str, rows: NDArray[np.intp], rng: RandomSource
) -> SummedErrors:
    """Release the noisy sums of squared errors of predictions and of their mean, from a trusted curator."""
    from labeldp.mechanisms import SquaredErrors  # a fit of classes needs no sums of errors

    domain = curator.domain
    predictions = np.clip(predicted.value, domain.low, domain.high)
    codes = np.rint((predictions - domain.low) / domain.step).astype(np.int64)
    level = int(np.rint(codes.mean()))
    shares = error_shares(epsilon)
    sums = {}
    for step, places in (("errors", codes), ("errors of the mean", np.full_like(codes, level))):
        compared = predicted.map(lambda _, places=places: places)
        mechanism = SquaredErrors(domain=domain, epsilon=shares[step], predictions=compared)
        sums[step] = curator.release(mechanism, rng=rng, step=step)
    return SummedErrors(
        errors=sums["errors"],
        constant_errors=sums["errors of the mean"],
        predictions=predictions,
        constant=float(domain.low + level * domain.step),
        about=about,
        rows=rows,
    )


def error_shares(epsilon: float) -> dict[str, float]:
    """Return the epsilon of each step of `release_errors`."""
    total = positive_epsilon(epsilon)
    constant = positive_epsilon(float_below(total * positive_epsilon(CONSTANT_SHARE)))
    return {"errors": float_below(total - constant), "errors of the mean": float(constant)}
