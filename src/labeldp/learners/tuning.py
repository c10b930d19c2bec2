"""How large cells, how many neighbors and which clipping radius: the paper's rules, and a choice by released labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from labeldp.learners.features import check_rows, positive_integer, row_table, take_rows
from labeldp.mechanisms import Classes, debias
from labeldp.privacy import InputError, Release, Trust, positive_epsilon


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
    """The side of a cube that balances bias, sampling and privacy, where features fill the unit cube.

    Args:
        records: N.
        dimension: d, of the features.
        epsilon: of the release.
        trust: `Trust.LOCAL` or `Trust.CENTRAL`.
        classes: K, for classification; None for numbers.
        moments: p, how many moments of the labels are bounded, at least 2; None for labels with a range.
        beta: smoothness, in (0, 1].
        constant: yours: the rule gives the rate. Multiply by the width of the features where that is not 1.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, Theorems 2, 4, 6, 8 and 10,
    and 12 with the exponent of eq. (205) (`docs/corrections.md`); of neighbors the side is (k / N)^(1/d).
    """
    task = _Task.of(records, dimension, epsilon, classes, moments, beta, constant)
    if _local(trust):
        return constant * float((task.balance() / task.records) ** (1 / task.dimension))
    sampling = (task.logarithm / task.records) ** (1 / (2 * beta + dimension))
    weight = 1.0 if task.moments is None else 1 - 1 / task.moments
    privacy = (task.logarithm / (task.epsilon * task.records)) ** (weight / (beta + dimension * weight))
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
    """How many neighbors of locally randomized labels to average over: from 1 to the number of records.

    Args:
        records, dimension, epsilon, classes, moments, beta, constant: as in `cube_side`.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, Theorem 6, and Theorem 10
    corrected (`docs/corrections.md`); for classes Theorem 2, with k = N h^d.
    """
    task = _Task.of(records, dimension, epsilon, classes, moments, beta, constant)
    return int(np.clip(ceil(constant * task.balance()), 1, records))


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
    """Where to clip numbers with heavy tails: declare `Interval(-T, T, clip=True)`.

    Args:
        records, dimension, epsilon, beta: as in `cube_side`.
        moments: p, how many moments are bounded, at least 2.
        trust: `Trust.LOCAL` or `Trust.CENTRAL`.
        constant: yours, in the unit of the labels: about the p-th root of the bound on the mean of |label|^p. It must
            not be looked up in private labels.

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, Theorems 10 and 12, with
    the corrected k and h (`docs/corrections.md`).
    """
    task = _Task.of(records, dimension, epsilon, None, moments, beta, constant)
    if _local(trust):
        return constant * float((task.balance() * task.epsilon**2) ** (1 / (2 * moments)))
    side = cube_side(records, dimension, epsilon=epsilon, trust=trust, moments=moments, beta=beta)
    return constant * float((task.epsilon * records * side**dimension) ** (1 / moments))


@dataclass(frozen=True)
class _Task:
    """What the rules are about, checked."""

    records: int
    dimension: int
    epsilon: float
    logarithm: float  # ln K, 1 for numbers
    moments: float | None
    beta: float

    @classmethod
    def of(
        cls, records: Any, dimension: Any, epsilon: Any, classes: Any, moments: Any, beta: Any, constant: Any
    ) -> "_Task":
        if classes is not None and moments is not None:
            raise InputError("moments must be left out for classes: they are bounded")
        if moments is not None and not (_is_number(moments) and moments >= 2):
            raise InputError("moments must be at least 2: without a variance even learning without privacy is slower")
        if not _is_number(beta) or not 0 < beta <= 1:
            raise InputError("beta must lie in (0, 1]: smoother functions of this kind are constant")
        if not _is_number(constant) or not 0 < constant < np.inf:
            raise InputError("constant must be a positive number")
        if classes is not None and positive_integer(classes, "classes") < 2:
            raise InputError("classes must be at least 2")
        count = positive_integer(records, "records")
        return cls(
            count,
            positive_integer(dimension, "dimension"),
            float(positive_epsilon(epsilon)),
            1.0 if classes is None else log(classes),
            None if moments in (None, np.inf) else float(moments),
            float(beta),
        )

    def balance(self) -> float:
        """k that balances bias and noise under local protection."""
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
    """What `tune` found.

    Args:
        learner: the best one, fitted to all records.
        scores: of each candidate, larger is better: estimates of what true labels would show, up to the same constant.
        held_out: what the best one predicted for each record without its label: numbers, shape (n,), or class
            probabilities, shape (n, K). `evaluate` makes an evaluation of them.
    """

    learner: Any
    scores: tuple[float, ...]
    held_out: NDArray[np.float64] = field(repr=False)


def tune(learners: Sequence[Any], features: Any, release: Release[Any], *, folds: int = 5, seed: int = 0) -> Tuned:
    """The learner, of several, that predicts released labels best which it did not see: it costs no privacy.

    Args:
        learners: unfitted, with `fit(features, release)`, such as `CellRegressor` with several partitions.
        features: public, shape (n, d).
        release: labels that were randomized one by one, alike, by a mechanism that `debias` inverts.
        folds: parts of the records, each predicted by a learner of the others.
        seed: of the parts, public.

    Returns:
        The scores are debiased accuracies, or minus the mean squared errors on unbiased labels, whose noise adds the
        same to all.

    Raises:
        InputError: no learner, or a release whose records cannot be taken apart.
        NotInvertibleError: the noise has no inverse.
    """
    check_rows(features, len(release.value))
    if not learners or positive_integer(folds, "folds") < 2:
        raise InputError("learners must hold at least one learner, and folds be at least 2")
    if release.mechanism is None or release.mechanism.records is not None:
        raise InputError("release must answer all records by one law, as Curator.release returned it")
    part = np.random.default_rng(seed).permutation(len(release.value)) % folds
    rows = row_table(features)
    unbiased = debias(release.mechanism, release.value).values
    predicted = [_held_out(learner, rows, release, part) for learner in learners]
    scores = [_agreement(each, unbiased) for each in predicted]
    best = int(np.argmax(scores))
    return Tuned(clone(learners[best]).fit(rows, release), tuple(scores), predicted[best])


def _held_out(learner: Any, features: Any, release: Release[Any], part: NDArray[np.intp]) -> NDArray[np.float64]:
    """What a learner of the other parts predicts for each part of the records."""
    domain = release.mechanism.domain
    predicted = np.empty((len(part), domain.size) if isinstance(domain, Classes) else len(part))
    for fold in np.unique(part):
        held = part == fold
        known = Release(release.value[~held], release.certificate, release.mechanism)
        fitted, table = clone(learner).fit(take_rows(features, ~held), known), take_rows(features, held)
        predicted[held] = fitted.predict_proba(table) if isinstance(domain, Classes) else fitted.predict(table)
    return predicted


def _agreement(predicted: NDArray[np.float64], unbiased: NDArray[np.float64]) -> float:
    """How well predictions agree with unbiased labels: the debiased accuracy, or minus the mean squared difference."""
    if predicted.ndim == 2:
        return float(unbiased[np.arange(len(unbiased)), predicted.argmax(axis=1)].mean())
    return -float(((predicted - unbiased) ** 2).mean())
