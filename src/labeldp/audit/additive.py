"""Two-sided bounds of what added noise costs, from its distribution function and its density."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from labeldp.privacy import Floats, InputError, decimal, largest, smallest

MOST_CELLS = 1 << 24
"""Cells of all coordinates together, at most."""

_DOUBLES = 2.0**-48
"""What the rounding of the masses of all cells may add up to."""


@final
@dataclass(frozen=True)
class AdditiveAudit:
    """Bounds from below and above of the privacy of noise that is added to numbers; make one with `audit_additive`.

    Guarantee (enclosed): the true delta(epsilon) lies between the two ends, if the distribution function is right and
        the loss is monotone between neighboring edges.
    """

    _masses: Floats = field(repr=False)
    _others: Floats = field(repr=False)
    _losses: Floats = field(repr=False)
    _tail: tuple[float, float] = field(repr=False)

    def delta(self, epsilon: Any) -> tuple[float, float]:
        """Return a lower and an upper bound of delta(epsilon), epsilon >= 0."""
        limit = float(decimal(epsilon, "epsilon"))
        if limit < 0:
            raise InputError("must not be negative", argument="epsilon")
        low = float(np.maximum(self._masses - math.exp(limit) * self._others, 0).sum())
        high = float((self._masses * -np.expm1(np.minimum(limit - self._losses, 0))).sum())
        tail, loss = self._tail
        high += tail * -math.expm1(min(limit - loss, 0.0))
        return max(0.0, low - _DOUBLES), min(1.0, high + _DOUBLES)

    def epsilon(self, delta: Any = 0) -> tuple[float, float]:
        """Return a lower and an upper bound, perhaps infinite, of the smallest epsilon at a delta in [0, 1].

        At delta = 0 the lower one is the largest loss of a cell, the upper one the largest of a point.
        """
        share = float(decimal(delta, "delta"))
        if not 0 <= share <= 1:
            raise InputError("must lie in [0, 1]", argument="delta")
        top = max(float(self._losses.max()), self._tail[1])
        if share == 0:
            sure = (self._masses > 1e-9) & (self._others > 1e-9)
            seen = np.log(self._masses[sure] / self._others[sure])
            return max(0.0, float(seen.max(initial=0.0)) - 1e-6), top
        reach = 1.0
        while reach < 1e3 and self.delta(reach)[1] > share:
            reach *= 2
        high = math.inf if reach >= 1e3 else smallest(lambda at: self.delta(at)[1] <= share, 0.0, reach, tol=1e-9)
        if self.delta(0)[0] <= share:
            return 0.0, high
        return largest(lambda at: self.delta(at)[0] > share, 0.0, min(reach, 1e3), tol=1e-9), high


def audit_additive(
    cdf: Callable[[Floats], Any],
    log_density: Callable[[Floats], Any],
    shifts: Sequence[float],
    *,
    edges: Any,
    kinks: Sequence[float] = (0.0,),
    tail_loss: float = math.inf,
) -> AdditiveAudit:
    """Return two-sided bounds of the privacy of independent noise that is added to one or two numbers.

    The line of outputs is cut into cells. What anybody may learn from cells alone is a lower bound; the largest loss
    in each cell, which lies at one of its ends, makes an upper one. Finer edges bring the two together.

    Args:
        cdf: P(noise <= x), in doubles.
        log_density: the logarithm of the density of the noise.
        shifts: by how much two labels differ in each number: (width,) for a number of an interval of that width,
            (1, -1) for the indicators of two classes.
        edges: where cells begin and end, increasing, so wide that nearly all noise lies between.
        kinks: where the density has kinks or jumps. Edges are added there, and at the same places moved by the shift.
        tail_loss: the largest loss outside of the edges; infinite by default.

    Raises:
        InputError: no shifts, or too many cells.

    Source: `docs/proofs/audit.md`.

    Examples:
        >>> laplace = audit_additive(
        ...     lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2),
        ...     lambda x: -np.abs(x), [1.0], edges=np.linspace(-40, 40, 2001), tail_loss=1.0,
        ... )
        >>> low, high = laplace.delta(0.5)
        >>> round(low, 3), round(1 - math.exp(-0.25), 3), round(high, 3)
        (0.221, 0.221, 0.225)
    """
    places = np.asarray(edges, dtype=np.float64)
    if not 1 <= len(shifts) <= 2:
        raise InputError("must hold one number or two", argument="shifts")
    if places.ndim != 1 or len(places) < 2 or not bool((np.diff(places) > 0).all()):
        raise InputError("must increase, shape (at least 2,)", argument="edges")
    parts = [_coordinate(cdf, log_density, float(shift), places, kinks) for shift in shifts]
    if math.prod(len(part[0]) for part in parts) > MOST_CELLS:
        raise InputError("must be so few that 2**24 cells are enough", argument="edges")
    masses, others, losses, tail = parts[0]
    for more, under, added, outside in parts[1:]:
        masses, others = np.outer(masses, more).ravel(), np.outer(others, under).ravel()
        losses = np.add.outer(losses, added).ravel()
        tail = tail + outside
    return AdditiveAudit(masses, others, losses, (tail, len(parts) * tail_loss))


def _coordinate(
    cdf: Callable[[Floats], Any],
    log_density: Callable[[Floats], Any],
    shift: float,
    edges: Floats,
    kinks: Sequence[float],
) -> tuple[Floats, Floats, Floats, float]:
    """Return the masses of the cells under both laws, the largest loss in each, and the mass outside of all."""
    marks = np.asarray(kinks, dtype=np.float64)
    cuts = np.unique(np.concatenate([edges, marks, marks + shift]))
    own, moved = (np.asarray(cdf(cuts - by), dtype=np.float64) for by in (0.0, shift))
    inner = np.nextafter(cuts[:-1], np.inf), np.nextafter(cuts[1:], -np.inf)
    losses = np.maximum(*(np.asarray(log_density(at)) - np.asarray(log_density(at - shift)) for at in inner))
    outside = max(0.0, float(own[0] + 1 - own[-1])) + _DOUBLES
    return np.maximum(np.diff(own), 0), np.maximum(np.diff(moved), 0), losses, outside
