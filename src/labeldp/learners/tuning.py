"""Sizes of cells and neighborhoods, and clipping radii: by the paper's rules, or chosen by released labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from labeldp.features import check_rows, row_table, take_rows
from labeldp.mechanisms import debias
from labeldp.privacy import InputError, Release, Trust, check_integer, check_positive, positive_epsilon


def cube_side(
    records: int,
    dimension: int,
    *,
    epsilon: float,
    trust: Trust,
    classes: int | None = None,
    moments: float | None = None,
    beta: float = 1.0,
    constant: float = 1.0,
) -> float:
    """Return the side of a cube that balances bias, sampling and privacy, for features that fill the unit cube.

    Args:
        records: number of records, N.
        dimension: number of features, d.
        epsilon: cost of the release.
        trust: `Trust.LOCAL` or `Trust.CENTRAL`.
        classes: number of classes, K; None for numbers.
        moments: p, the number of bounded moments of the labels, at least 2; None for labels with a range.
        beta: smoothness of the regression function, in (0, 1].
        constant: a factor that you choose, as the rule gives the rate alone; include the width of the features.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, Theorems 2, 4, 6, 8 and 10,
    and 12 with the exponent of eq. (205) (`docs/theory/corrections.md`); of neighbors the side is (k / N)^(1/d).
    """
    rates = _Rates.of(records, dimension, epsilon, classes, moments, beta, constant)
    if _local(trust):
        return constant * float((rates.balance() / rates.records) ** (1 / rates.dimension))
    sampling = (rates.logarithm / rates.records) ** (1 / (2 * beta + dimension))
    weight = 1.0 if rates.moments is None else 1 - 1 / rates.moments
    privacy = (rates.logarithm / (rates.epsilon * rates.records)) ** (weight / (beta + dimension * weight))
    return constant * float(sampling + privacy)


def neighbor_count(
    records: int,
    dimension: int,
    *,
    epsilon: float,
    classes: int | None = None,
    moments: float | None = None,
    beta: float = 1.0,
    constant: float = 1.0,
) -> int:
    """Return how many neighbors of locally randomized labels to average over, from 1 to the number of records.

    Args:
        records, dimension, epsilon, classes, moments, beta, constant: as in `cube_side`.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, Theorem 6, and Theorem 10
    corrected (`docs/theory/corrections.md`); for classes Theorem 2, with k = N h^d.
    """
    rates = _Rates.of(records, dimension, epsilon, classes, moments, beta, constant)
    return int(np.clip(ceil(constant * rates.balance()), 1, records))


def clipping_radius(
    records: int,
    dimension: int,
    *,
    epsilon: float,
    moments: float,
    trust: Trust,
    beta: float = 1.0,
    constant: float = 1.0,
) -> float:
    """Return where to clip numbers with heavy tails, T: declare `Interval(-T, T, clip=True)`.

    Args:
        records, dimension, epsilon, beta, trust: as in `cube_side`.
        moments: p, the number of bounded moments, at least 2.
        constant: a factor that you choose, in the unit of the labels: about the p-th root of the bound on the mean of
            |label|^p. It must not come from private labels.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, Theorems 10 and 12, with
    the corrected k and h (`docs/theory/corrections.md`).
    """
    rates = _Rates.of(records, dimension, epsilon, None, moments, beta, constant)
    if _local(trust):
        return constant * float((rates.balance() * rates.epsilon**2) ** (1 / (2 * moments)))
    side = cube_side(records, dimension, epsilon=epsilon, trust=trust, moments=moments, beta=beta)
    return constant * float((rates.epsilon * records * side**dimension) ** (1 / moments))


@dataclass(frozen=True)
class _Rates:
    """The checked arguments of the rules."""

    records: int
    dimension: int
    epsilon: float
    logarithm: float  # ln K, 1 for numbers
    moments: float | None
    beta: float

    @classmethod
    def of(
        cls, records: Any, dimension: Any, epsilon: Any, classes: Any, moments: Any, beta: Any, constant: Any
    ) -> "_Rates":
        if classes is not None and moments is not None:
            raise InputError("moments must be left out for classes: they are bounded")
        if moments is not None and not (_is_number(moments) and moments >= 2):
            raise InputError("moments must be at least 2: without a variance even learning without privacy is slower")
        if not _is_number(beta) or not 0 < beta <= 1:
            raise InputError("beta must lie in (0, 1]: smoother functions of this kind are constant")
        check_positive(constant, "constant")
        return cls(
            check_integer(records, "records"),
            check_integer(dimension, "dimension"),
            float(positive_epsilon(epsilon)),
            1.0 if classes is None else log(check_integer(classes, "classes", 2)),
            None if moments in (None, np.inf) else float(moments),
            float(beta),
        )

    def balance(self) -> float:
        """Return the number of neighbors that balances bias and noise under local protection."""
        spread, d = 2 * self.beta, self.dimension
        plain = self.records ** (spread / (spread + d))
        if self.moments is None:
            strength = self.logarithm / min(self.epsilon, 1.0) ** 2
            return float(plain * strength ** (d / (spread + d)))
        p, square = self.moments, self.epsilon**2
        heavy = (self.records * square) ** (p * spread / (p * spread + d * (p - 1))) / square
        return float(max(heavy, plain))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _local(trust: Any) -> bool:
    if trust not in (Trust.LOCAL, Trust.CENTRAL):
        raise InputError("trust must be Trust.LOCAL or Trust.CENTRAL")
    return bool(trust is Trust.LOCAL)


@dataclass(frozen=True)
class Tuned:
    """The result of `tune`.

    Args:
        learner: the best learner, fitted to all records.
        scores: score of each learner, larger is better: what true labels would show, up to a constant that all share.
        held_out: what the best learner predicted for each record without its label: numbers, shape (n,), or class
            probabilities, shape (n, K). `evaluate` takes them.
        fold: one of the models that predicted them, and the places of the records whose labels it did not see.
    """

    learner: Any
    scores: tuple[float, ...]
    held_out: NDArray[np.float64] = field(repr=False)
    fold: tuple[Any, NDArray[np.intp]] = field(repr=False)


def tune(learners: Sequence[Any], features: Any, release: Release[Any], *, folds: int = 5) -> Tuned:
    """Choose the learner that best predicts released labels which it did not see, at no cost in privacy.

    Args:
        learners: unfitted learners with `fit(features, release)`, such as `CellRegressor` with several partitions.
        features: public features, shape (n, d).
        release: labels that one law randomized one by one, by a mechanism that `debias` inverts.
        folds: number of parts of the records, each predicted by a learner of the others.

    Returns:
        The best learner and all scores: debiased accuracies, or minus the mean squared errors on unbiased labels, to
        which the noise adds the same for all.

    Raises:
        InputError: there is no learner, or records of the release depend on each other.
        NotInvertibleError: the noise has no inverse.
    """
    check_rows(features, len(release.value))
    if not learners:
        raise InputError("learners must hold at least one learner")
    check_integer(folds, "folds", 2)
    if release.mechanism is None or release.mechanism.records is not None:
        raise InputError("release must answer all records by one law, as Curator.release returned it")
    part = np.random.default_rng(0).permutation(len(release.value)) % folds
    rows = row_table(features)
    unbiased = debias(release.mechanism, release.value).values
    crossed = [_held_out(learner, rows, release, part) for learner in learners]
    scores = [_agreement(predicted, unbiased) for predicted, _ in crossed]
    best = int(np.argmax(scores))
    predicted, fold = crossed[best]
    return Tuned(clone(learners[best]).fit(rows, release), tuple(scores), predicted, fold)


def _held_out(
    learner: Any, features: Any, release: Release[Any], part: NDArray[np.intp]
) -> tuple[NDArray[np.float64], tuple[Any, NDArray[np.intp]]]:
    """Return what learners of all other parts predict for each part of the records, and the last learner and part."""
    domain = release.mechanism.domain
    predicted = np.empty((len(part), domain.size) if domain.target == "classes" else len(part))
    for fold in np.unique(part):
        held = part == fold
        training = Release(release.value[~held], release.certificate, release.mechanism)
        fitted, table = clone(learner).fit(take_rows(features, ~held), training), take_rows(features, held)
        predicted[held] = fitted.predict_proba(table) if domain.target == "classes" else fitted.predict(table)
    return predicted, (fitted, np.flatnonzero(held))


def _agreement(predicted: NDArray[np.float64], unbiased: NDArray[np.float64]) -> float:
    """Return the debiased accuracy of probabilities, or minus the mean squared error of numbers."""
    if predicted.ndim == 2:
        return float(unbiased[np.arange(len(unbiased)), predicted.argmax(axis=1)].mean())
    return -float(((predicted - unbiased) ** 2).mean())
