"""The exact privacy of tables of probabilities, and two-sided bounds of the privacy of added noise."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import FiniteMechanism, joint_laws
from labeldp.privacy import (
    Floats,
    InputError,
    decimal,
    exp_bounds,
    float_above,
    float_below,
    largest,
    log_bounds,
    smallest,
)

MOST_COMPARED = 1 << 24
"""delta(epsilon) compares this many entries of pairs of labels at most."""

ROUNDED = Fraction(1, 10**6)
"""How far from 1 the printed probabilities of a label may sum."""

LARGEST_EPSILON = 1000
"""No table that anybody writes down has more; above it an exponential is no number of ordinary size."""

_MOST_BITS = 10_000

MOST_CELLS = 1 << 24
"""Cells of all coordinates together, at most."""

_DOUBLES = 2.0**-48
"""What the rounding of the masses of all cells may add up to."""


@dataclass(frozen=True)
class LabelPair:
    """Two labels, in order: outputs of the first one that the second one explains worst.

    Args:
        label, other: their names.
        output: the output at which the odds between them are largest; None where a pair is about all outputs.
    """

    label: str
    other: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.label!r} against {self.other!r}" + ("" if self.output is None else f", output {self.output!r}")


@dataclass(frozen=True)
class DeltaCurve:
    """delta(epsilon) of the worst pair of labels, between exact ends.

    Args:
        epsilons: where, shape (p,).
        low, high: the ends, which differ by less than 1e-30 where e^epsilon is irrational, and are equal at 0.
    """

    epsilons: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@final
@dataclass(frozen=True)
class TableAudit:
    """The exact privacy of one table of probabilities, a row for each label.

    Use `audit_table` or `audit_mechanism` to make one. All numbers are fractions of integers; an epsilon is compared
    by certified bounds of its exponential, so that no rounding decides.

    Args:
        labels, outputs: names of the rows and of the columns.
        rounding: how far from 1 the farthest row summed; each row was divided by its sum.

    Guarantee (exact): `holds(epsilon, delta)` is True exactly where every ordered pair of labels is (epsilon,
        delta)-DP.

    Examples:
        >>> audit = audit_table([["0.75", "0.25"], ["0.25", "0.75"]])
        >>> audit.ratio, round(audit.epsilon(), 4), audit.holds(1.0), audit.holds(1.1)
        (Fraction(3, 1), 1.0986, False, True)
        >>> audit.delta(0)
        (Fraction(1, 2), Fraction(1, 2))
    """

    labels: tuple[str, ...]
    outputs: tuple[str, ...]
    rounding: Fraction
    _weights: NDArray[np.object_] = field(repr=False, compare=False)
    _totals: NDArray[np.object_] = field(repr=False, compare=False)

    @cached_property
    def _extreme(self) -> tuple[Fraction | None, LabelPair]:
        """The largest ratio of two probabilities of one output, None where it is unbounded, and where."""
        best, where = Fraction(1), (0, 0, 0)
        for column in range(len(self.outputs)):
            shares = [Fraction(a, total) for a, total in zip(self._weights[:, column], self._totals, strict=True)]
            high, low = max(range(len(shares)), key=shares.__getitem__), min(range(len(shares)), key=shares.__getitem__)
            if shares[high] and not shares[low]:
                return None, self._pair(high, low, column)
            if shares[low] and shares[high] / shares[low] > best:
                best, where = shares[high] / shares[low], (high, low, column)
        return best, self._pair(*where)

    def _pair(self, label: int, other: int, output: int | None = None) -> LabelPair:
        return LabelPair(self.labels[label], self.labels[other], None if output is None else self.outputs[output])

    @property
    def ratio(self) -> Fraction | None:
        """Exact e^epsilon of the smallest pure epsilon; None if no epsilon is enough."""
        return self._extreme[0]

    @property
    def worst(self) -> LabelPair:
        """The labels and the output with the largest ratio; any labels if all rows are equal."""
        return self._extreme[1]

    def epsilon_ends(self, delta: Any = 0) -> tuple[float, float]:
        """Return two neighboring floats, or nearly so, with the smallest epsilon at this delta between them.

        Args:
            delta: in [0, 1].

        Raises:
            InputError: not such a delta, or more than 2**24 entries to compare for a positive one.
        """
        share = _within(delta, "delta", 1)
        ratio = self.ratio if share == 0 else self._ratio_at(share)
        if ratio is None:
            return float("inf"), float("inf")
        low, high = log_bounds(ratio)
        return float_below(max(low, Fraction(0))), float_above(high)

    def epsilon(self, delta: Any = 0) -> float:
        """Return the smallest epsilon at this delta, rounded up; infinity where there is none."""
        return self.epsilon_ends(delta)[1]

    def _ratio_at(self, delta: Fraction) -> Fraction | None:
        """Return e to the smallest epsilon at a delta: the worst pair decides, and a later one only if it is worse."""
        ratio = Fraction(1)
        while True:
            delta_there, label, other = self._largest(ratio)
            if delta_there <= delta:
                return ratio
            larger = self._ratio_of(label, other, delta)
            if larger is None:
                return None
            ratio = larger

    def _ratio_of(self, label: int, other: int, delta: Fraction) -> Fraction | None:
        """Return the ratio at which the curve of one pair falls to delta: it is linear between its kinks."""
        one, two = ([Fraction(a, self._totals[row]) for a in self._weights[row]] for row in (label, other))
        mass = sum((a for a, b in zip(one, two, strict=True) if not b), Fraction(0))
        if mass > delta:
            return None
        under = Fraction(0)
        kinks = sorted(((a / b, a, b) for a, b in zip(one, two, strict=True) if b), reverse=True)
        for position, (_, a, b) in enumerate(kinks):
            mass, under = mass + a, under + b
            following = kinks[position + 1][0] if position + 1 < len(kinks) else Fraction(0)
            if mass - following * under > delta:
                return (mass - delta) / under
        return Fraction(0)

    def deltas(self, ratio: Fraction) -> list[list[Fraction]]:
        """Return delta of every ordered pair of labels at e^epsilon = ratio, exactly: row the first, column the other.

        Args:
            ratio: at least 1.

        Source: `docs/proofs/audit.md`.
        """
        self._refuse_many(1)
        rows = []
        top, bottom = ratio.numerator, ratio.denominator
        for row, total in zip(self._weights, self._totals, strict=True):
            apart = row[None, :] * (self._totals[:, None] * bottom) - self._weights * (top * total)
            sums = np.maximum(apart, 0).sum(axis=1)
            rows.append([Fraction(int(a), bottom * total * other) for a, other in zip(sums, self._totals, strict=True)])
        return rows

    def _refuse_many(self, times: int) -> None:
        if self._compared * times > MOST_COMPARED:
            raise InputError(
                f"delta compares each pair of labels at each output, {self._compared:,} entries: at most "
                f"{MOST_COMPARED:,} are compared; audit fewer labels at a time, or delta = 0 alone"
            )

    @property
    def compares_pairs(self) -> bool:
        """Whether the table is so small that delta can be computed."""
        return self._compared <= MOST_COMPARED

    @property
    def _compared(self) -> int:
        return len(self.labels) ** 2 * len(self.outputs)

    def _largest(self, ratio: Fraction) -> tuple[Fraction, int, int]:
        """Return the largest delta at a ratio, and the pair that has it."""
        deltas = self.deltas(ratio)
        rows = range(len(self.labels))
        label, other = max(((a, b) for a in rows for b in rows), key=lambda pair: deltas[pair[0]][pair[1]])
        return deltas[label][other], label, other

    def delta(self, epsilon: Any, bits: int = 160) -> tuple[Fraction, Fraction]:
        """Return exact ends of delta(epsilon) of the worst pair; they are equal at epsilon = 0.

        Args:
            epsilon: at least 0, a decimal as it is written.
            bits: of the bounds of the exponential.
        """
        low, high = _exponential(_within(epsilon, "epsilon", LARGEST_EPSILON), bits)
        above = self._largest(low)[0]
        return above if low == high else self._largest(high)[0], above

    def worst_at(self, epsilon: Any) -> LabelPair:
        """Return the pair of labels with the largest delta(epsilon)."""
        _, label, other = self._largest(_exponential(_within(epsilon, "epsilon", LARGEST_EPSILON), 160)[0])
        return self._pair(label, other)

    def holds(self, epsilon: Any, delta: Any = 0) -> bool:
        """Return whether every ordered pair of labels is (epsilon, delta)-DP, without rounding.

        Args:
            epsilon: at least 0.
            delta: in [0, 1].
        """
        limit, share, bits = _within(epsilon, "epsilon", LARGEST_EPSILON), _within(delta, "delta", 1), 160
        if share == 0 and self.ratio is None:
            return False
        while bits < _MOST_BITS:
            if share == 0:
                low, high = _exponential(limit, bits)
                assert self.ratio is not None
                if self.ratio <= low:
                    return True
                if self.ratio > high:
                    return False
            else:
                low_delta, high_delta = self.delta(limit, bits)
                if high_delta <= share:
                    return True
                if low_delta > share:
                    return False
            bits *= 2  # e^epsilon is irrational, so that some number of bits decides
        raise ArithmeticError("the claim could not be decided")

    def curve(self, points: int = 33) -> DeltaCurve | None:
        """Return delta(epsilon) of the worst pair from 0 to where it ends, or None for a table that is too large.

        Args:
            points: how many at most; fewer for large tables.
        """
        count = min(points, MOST_COMPARED // max(1, 2 * self._compared))
        if count < 5:
            return None
        end = self.epsilon() if self.ratio is not None else self._last_finite()
        epsilons = [round(end * point / (count - 1), 6) for point in range(count)]
        ends = [self.delta(epsilon) for epsilon in epsilons]
        return DeltaCurve(tuple(epsilons), *(tuple(map(float, epsilon)) for epsilon in zip(*ends, strict=True)))

    def _last_finite(self) -> float:
        """Return an epsilon beyond which the curve of an unbounded table is flat, at least 1."""
        ratio = Fraction(1)
        for column in range(len(self.outputs)):
            shares = [Fraction(a, total) for a, total in zip(self._weights[:, column], self._totals, strict=True) if a]
            ratio = max(ratio, max(shares) / min(shares)) if shares else ratio
        return max(1.0, 1.2 * float(log_bounds(ratio)[1]))

    def to_json(self, epsilon: Any = None, delta: Any = None) -> dict[str, Any]:
        """Return plain JSON values, and with a claim whether it holds.

        Args:
            epsilon, delta: the claim; of one alone the other one is computed.
        """
        low, high = self.epsilon_ends()
        content: dict[str, Any] = {
            "labels": list(self.labels),
            "outputs": len(self.outputs),
            "row_sums_off_by": float_above(self.rounding),
            "pure_epsilon": None if self.ratio is None else {"low": low, "high": high},
            "ratio": None if self.ratio is None else str(self.ratio),
            "unbounded": self.ratio is None,
            "worst": {"label": self.worst.label, "other": self.worst.other, "output": self.worst.output},
        }
        if epsilon is not None:
            content["holds"] = self.holds(epsilon, 0 if delta is None else delta)
        if epsilon is not None and self.compares_pairs:
            low_delta, high_delta = self.delta(epsilon)
            pair = self.worst_at(epsilon)
            content["at_epsilon"] = {
                "epsilon": str(epsilon),
                "delta": {"low": float_below(low_delta), "high": float_above(high_delta)},
                "worst": {"label": pair.label, "other": pair.other},
            }
        if epsilon is None and delta is not None:
            low, high = self.epsilon_ends(delta)
            content["at_delta"] = {"delta": str(delta), "epsilon": None if low == float("inf") else high}
        if (curve := self.curve()) is not None:
            content["curve"] = {"epsilon": curve.epsilons, "delta": curve.high}
        return content


def audit_table(table: Any, *, labels: Iterable[Any] | None = None, outputs: Iterable[Any] | None = None) -> TableAudit:
    """Return the exact privacy of any finite mechanism, given as a table of probabilities.

    Args:
        table: P(output | label), a row for each label and a column for each output: numbers, fractions, or texts of
            decimals ("0.25") and of ratios ("1/3"), which are taken exactly as they are written. Rows must sum to 1 up
            to 1e-6, or all to one integer, as `mechanism.weights()` do; each row is divided by its sum.
        labels, outputs: their names; by default their numbers.

    Raises:
        InputError: not such a table.
    """
    try:
        rows = [list(row) for row in table]
    except TypeError:
        raise InputError("must have a row of probabilities for each label", argument="table") from None
    if len(rows) < 2 or not rows[0] or len({len(row) for row in rows}) > 1:
        raise InputError("must have two rows or more, all of one length, at least 1", argument="table")
    names = _names(labels, len(rows), "labels"), _names(outputs, len(rows[0]), "outputs")
    exact = [
        [_probability(value, names[0][row], names[1][column]) for column, value in enumerate(values)]
        for row, values in enumerate(rows)
    ]
    sums = [sum(values, Fraction(0)) for values in exact]
    is_integers = len(set(sums)) == 1 and sums[0] > 0 and all(value.denominator == 1 for row in exact for value in row)
    off = Fraction(0) if is_integers else max(abs(total - 1) for total in sums)
    if off > ROUNDED:
        worst = max(range(len(sums)), key=lambda row: abs(sums[row] - 1))
        raise InputError(
            f"must have rows that sum to 1, and that of {names[0][worst]!r} sums to {float(sums[worst]):g}",
            argument="table",
        )
    return _audit(names, [_integers(values) for values in exact], off)


def _audit(names: tuple[tuple[str, ...], tuple[str, ...]], rows: Sequence[Sequence[int]], off: Fraction) -> TableAudit:
    weights = np.empty((len(rows), len(rows[0])), dtype=object)
    weights[:] = [list(row) for row in rows]
    totals = np.empty(len(rows), dtype=object)
    totals[:] = [sum(row) for row in rows]
    return TableAudit(*names, off, weights, totals)


def audit_mechanism(mechanism: FiniteMechanism) -> tuple[TableAudit, ...]:
    """Return the exact privacy of each distinct law of a finite mechanism, from its integers over 2**64.

    Args:
        mechanism: one whose law is a few tables, such as `RandomizedResponse`.

    Raises:
        InputError: a mechanism without tables.

    Examples:
        >>> from labeldp.mechanisms import Classes, RandomizedResponse
        >>> [audit] = audit_mechanism(RandomizedResponse(domain=Classes(3), epsilon=1))
        >>> audit.holds(1), audit.holds("0.999999999999999")
        (True, False)
    """
    if not isinstance(mechanism, FiniteMechanism):
        raise InputError("must be a mechanism whose law is a few tables", argument="mechanism")
    audits = []
    for rows in joint_laws(mechanism):
        domain = mechanism.domain
        labels = _names(domain.texts if len(rows) == domain.size else None, len(rows), "labels")
        audits.append(_audit((labels, _names(None, len(rows[0]), "outputs")), rows, Fraction(0)))
    return tuple(audits)


def _names(names: Iterable[Any] | None, count: int, argument: str) -> tuple[str, ...]:
    texts = tuple(map(str, range(count) if names is None else names))
    if len(texts) != count:
        raise InputError(f"must name all {count} of them", argument=argument)
    return texts


def _probability(value: Any, label: str, output: str) -> Fraction:
    """Return an exact probability from its text: a number, a decimal, or a ratio of two numbers."""
    argument = f"P({output} | {label})"
    top, slash, bottom = value.partition("/") if isinstance(value, str) else (value, "", "")
    exact = decimal(top, argument)
    if slash:
        under = decimal(bottom, argument)
        if under <= 0:
            raise InputError("must not be divided by 0 or less", argument=argument)
        exact /= under
    if exact < 0:
        raise InputError("must not be negative", argument=argument)
    return exact


def _integers(values: Sequence[Fraction]) -> list[int]:
    """Return integers in the same proportions."""
    common = int(np.lcm.reduce(np.array([value.denominator for value in values], dtype=object)))
    return [int(value * common) for value in values]


def _exponential(epsilon: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return certified bounds of e^epsilon, equal at 0."""
    return exp_bounds(epsilon, bits) if epsilon else (Fraction(1), Fraction(1))


def _within(value: Any, name: str, end: int) -> Fraction:
    exact = decimal(value, name)
    if not 0 <= exact <= end:
        raise InputError(f"must lie in [0, {end}]", argument=name)
    return exact


def composed(audit: TableAudit, times: int) -> TableAudit:
    """Return the privacy of the same table drawn from several times, with fresh noise each time.

    Use it for noise that is drawn anew in each epoch. It expands all outputs, so that few fit.

    Args:
        audit: of one draw.
        times: draws, at least 1; at most 2**24 entries.
    """
    if times < 1 or len(audit.labels) * len(audit.outputs) ** times > MOST_COMPARED:
        raise InputError(f"must be at least 1, and so few that {MOST_COMPARED:,} entries are enough", argument="times")
    weights, outputs = audit._weights, audit.outputs
    for _ in range(times - 1):
        weights = (weights[:, :, None] * audit._weights[:, None, :]).reshape(len(weights), -1)
        outputs = tuple(f"{first}, {then}" for first in outputs for then in audit.outputs)
    rounding = (1 + audit.rounding) ** times - 1
    return TableAudit(audit.labels, outputs, rounding, weights, audit._totals**times)


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
    masses, moved, losses, tail = parts[0]
    for more, under, added, outside in parts[1:]:
        masses, moved = np.outer(masses, more).ravel(), np.outer(moved, under).ravel()
        losses = np.add.outer(losses, added).ravel()
        tail = tail + outside
    return AdditiveAudit(masses, moved, losses, (tail, len(parts) * tail_loss))


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
    unmoved, moved = (np.asarray(cdf(cuts - by), dtype=np.float64) for by in (0.0, shift))
    inner = np.nextafter(cuts[:-1], np.inf), np.nextafter(cuts[1:], -np.inf)
    losses = np.maximum(*(np.asarray(log_density(at)) - np.asarray(log_density(at - shift)) for at in inner))
    outside = max(0.0, float(unmoved[0] + 1 - unmoved[-1])) + _DOUBLES
    return np.maximum(np.diff(unmoved), 0), np.maximum(np.diff(moved), 0), losses, outside
