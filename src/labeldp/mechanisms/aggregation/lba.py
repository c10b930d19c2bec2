"""Bags with secret Gaussian weights: what a label is promised where labels are far from linear in the features."""

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from labeldp.mechanisms.aggregation.checks import at_epsilon, label_width, one_of, positive, target, whole
from labeldp.mechanisms.aggregation.solve import falls_below
from labeldp.privacy import MAX_BAG, HiddenWeights, InputError, PrivacyLoss, decimal

ENDS = "lower", "upper"
MAX_ROWS = MAX_BAG
MAX_STRETCH = 2.0**40
"""A larger variance beside one leaves no privacy, and is not told apart in doubles the other way round."""

_UP = 1 + 2.0**-45


def cross_bound(size: int, leverage: Any) -> float:
    """The most that the other entries of a row of a hat matrix can sum to in absolute value, given its diagonal one.

    Args:
        size: labels in the bag.
        leverage: the diagonal entry, in [0, 1]. To cover every row of a bag, the largest one, or 1/2 if that is less.

    The true sum is often a fifth smaller. Source: `docs/proofs/aggregation.md`, by the Cauchy-Schwarz inequality.
    """
    whole(size, "size", 1 << 50)
    share = _share(leverage)
    return math.sqrt(share * (1 - share) * (size - 1)) * _UP


def _share(leverage: Any) -> Fraction:
    exact = decimal(leverage, "leverage")
    if not 0 <= exact <= 1:
        raise InputError("leverage must lie in [0, 1]: it is a diagonal entry of the bag's hat matrix")
    return exact


@dataclass(frozen=True)
class HiddenBag:
    """A bag released as sums of features and labels with the same secret standard normal weights.

    Labels are centered on the middle of their range before they are summed.

    Args:
        residual_square: a floor of |y - (its projection on the features)|^2 in the bag, for the data and for every
            neighbor. Noise of variance s^2 on the released sum of labels adds s^2 to it; without such noise it is a
            condition that nobody has checked.
        leverage: the largest diagonal entry of the bag's hat matrix.
        cross: the largest sum of the other entries of one row, in absolute values; see `cross_bound`.
        label_range: the lowest and the highest label.
        rows: independent weight vectors for the same bag.

    Guarantee: a label of such a bag is promised at least the loss, as long as the residual stands above its floor.

    Raises:
        InputError: a parameter out of range.

    Source: Brahmbhatt, Fig. 1. Proof: `docs/proofs/aggregation.md`.
    """

    residual_square: Any
    _: KW_ONLY
    leverage: Any
    cross: Any
    label_range: Any
    rows: int = 1

    def __post_init__(self) -> None:
        positive(self.residual_square, "residual_square")
        _share(self.leverage)
        if decimal(self.cross, "cross") < 0:
            raise InputError("cross must not be negative: it is a sum of absolute values")
        label_width(self.label_range)
        whole(self.rows, "rows", MAX_ROWS)
        if self.weights().stretch > MAX_STRETCH:
            raise InputError("residual_square is so small that the released sums give the label away")

    @property
    def _residual(self) -> float:
        """The floor of the residual in units of half the label range, squared, rounded down."""
        half = label_width(self.label_range) / 2
        return float(positive(self.residual_square, "residual_square") / half**2) / _UP

    def weights(self) -> HiddenWeights:
        """The pair of normal laws that dominates every move of a label from a smaller to a larger residual.

        Source: `docs/proofs/aggregation.md`, equations (5) and (6).
        """
        cross = float(decimal(self.cross, "cross")) * _UP
        growth = (4 * cross if cross > 1 else (1 + cross) ** 2) / self._residual
        square = 4 * float(_share(self.leverage)) / self._residual * _UP
        total = square + growth
        stretch = (total + math.sqrt(total**2 + 4 * square)) / 2
        shrink = 2 * math.sqrt(square) / (math.sqrt(square) + math.sqrt(square + 4))
        return HiddenWeights(stretch * _UP, max(shrink * _UP, 2.0**-40), self.rows)

    def privacy_loss(self) -> PrivacyLoss:
        """What one release costs a label in the bag, on condition of the residual."""
        return PrivacyLoss.curve(self.weights()) | PrivacyLoss.curve(self.weights().reversed())


def lba_delta(bag: HiddenBag, epsilon: Any, *, end: str = "upper") -> float:
    """The delta of one release at `epsilon`, for the worst label and neighbor that `bag` admits.

    Args:
        epsilon: in [0, 10**6].
        end: "upper", or "lower" for the lower end around the same dominating pair of laws, which no data need reach.

    Guarantee: the upper end is never below the delta of any two neighbors that the bag admits.

    Source: Brahmbhatt, Fig. 1; `docs/proofs/aggregation.md`, where the paper has a bound.

    Examples:
        >>> bag = HiddenBag(143.4, leverage=15 / 16384, cross=cross_bound(16384, 15 / 16384), label_range=(-1, 1))
        >>> 0.9e-6 < lba_delta(bag, 1) < 1e-6
        True
    """
    one_of(end, "end", ENDS)
    return _read(bag, at_epsilon(epsilon), ENDS.index(end))


def _read(bag: HiddenBag, epsilon: float, end: int = 1) -> float:
    """One end of the larger of both directions."""
    pair = bag.weights()
    return max(float(each.ends(np.array([epsilon]))[end][0]) for each in (pair, pair.reversed()))


def lba_required_residual(
    *, epsilon: Any, delta: Any, leverage: Any, cross: Any, label_range: Any, rows: int = 1
) -> float:
    """The smallest floor of the squared residual that keeps (epsilon, delta): the variance of noise on a bag that needs
    no condition.

    Args:
        epsilon, delta: what is to be kept; delta in (0, 1).
        leverage, cross, label_range, rows: as in `HiddenBag`.

    Guarantee: a bag with this residual keeps (epsilon, delta).

    Source: `docs/proofs/aggregation.md`: noise on the sum is one more label with no features.
    """
    aim, at = target(delta), at_epsilon(epsilon)

    def bag(residual: float) -> HiddenBag:
        return HiddenBag(residual, leverage=leverage, cross=cross, label_range=label_range, rows=rows)

    unit = float(label_width(label_range) / 2) ** 2 * (1 + float(decimal(cross, "cross")))
    found = falls_below(lambda share: _read(bag(share * unit), at), aim, 1e-9, 1e15)
    if found is None:
        raise InputError(f"no residual keeps epsilon = {epsilon} and delta = {delta}: take larger ones")
    return found * unit
