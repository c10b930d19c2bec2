"""What one block of releases costs in the two books of an account, every number rounded up."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from labeldp.privacy import (
    Atom,
    BoundedRange,
    Discrete,
    Failure,
    Floats,
    Gaussian,
    NumericAtom,
    Response,
    exp_bounds,
    loss_lattice,
    normal_cdf,
    smallest,
    stored_fraction,
)

GRAIN = 1 << 80
"""Sums are rounded up to a multiple of 1/GRAIN where their denominators grow longer."""

FAILURE_SHARES = tuple(Fraction(1, 1 << power) for power in range(1, 13))
"""The shares of an account's failures that the tail of a curve may take."""

RESERVE_POINTS = 1 << 12
"""Thresholds at which a release beside the reserve is compared with a Gaussian."""

RESERVE_MASSES = 256
"""A release with more distinct losses than this is counted without the reserve."""

RESERVE_LOSS = 2
"""A release with a larger loss than this is counted without the reserve, which would not help."""

_QUANTILE_ERROR, _CDF_ERROR, _SUM_ERROR = 1e-12, 1e-12, 1e-11

_LEAST_PROBABILITY = Fraction(1, 10**280)

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Cost:
    """What a block adds to the two books for one record; None stands for infinity.

    Args:
        loss: an epsilon of the block, for the loss book.
        tail: the delta of the block at `loss`.
        rate: the square of a mu whose Gaussian dominates the block, failures aside, for the rate book.
        failure: the probability of failure beside that Gaussian.
    """

    loss: Fraction | None = Fraction(0)
    tail: Fraction = Fraction(0)
    rate: Fraction | None = Fraction(0)
    failure: Fraction = Fraction(0)

    def __add__(self, other: "Cost") -> "Cost":
        tail, failure = _sum(self.tail, other.tail), _sum(self.failure, other.failure)
        return Cost(
            _sum(self.loss, other.loss), tail or Fraction(0), _sum(self.rate, other.rate), failure or Fraction(0)
        )

    def covers(self, other: "Cost") -> bool:
        """Return whether no number is smaller than that of another cost."""
        pairs = zip(self._numbers, other._numbers, strict=True)
        return all(mine is None or (theirs is not None and mine >= theirs) for mine, theirs in pairs)

    @classmethod
    def largest(cls, costs: Iterable["Cost"]) -> "Cost":
        """Return the largest of each number."""
        losses, tails, rates, failures = zip(*[cost._numbers for cost in costs], strict=True)
        return cls(_largest(losses), max(tails), _largest(rates), max(failures))

    @property
    def _numbers(self) -> tuple[Fraction | None, Fraction, Fraction | None, Fraction]:
        return self.loss, self.tail, self.rate, self.failure

    def to_texts(self) -> tuple[str | None, str, str | None, str]:
        """Return the numbers as exact texts."""
        loss, rate = (None if number is None else str(number) for number in (self.loss, self.rate))
        return loss, str(self.tail), rate, str(self.failure)

    @classmethod
    def from_texts(cls, loss: str | None, tail: str, rate: str | None, failure: str) -> "Cost":
        """Return the inverse of `to_texts`; raise ValueError for anything but four numbers of at least 0."""
        numbers = [None if text is None else stored_fraction(text) for text in (loss, tail, rate, failure)]
        if any(number is not None and number < 0 for number in numbers) or numbers[1] is None or numbers[3] is None:
            raise ValueError("a cost is not negative")
        return cls(numbers[0], numbers[1], numbers[2], numbers[3])


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    if one is None or other is None:
        return None
    total = one + other
    return total if total.denominator <= GRAIN else Fraction(math.ceil(total * GRAIN), GRAIN)


def _largest(numbers: Iterable[Fraction | None]) -> Fraction | None:
    listed = list(numbers)
    return None if None in listed else max([number for number in listed if number is not None])


def sequence_rate(
    sequence: Iterable[tuple[Atom, int]], reserve: Fraction, failures: Fraction, rates: Fraction
) -> tuple[Fraction | None, Fraction]:
    """Return rate and failure of a sequence of atoms: the sums over its atoms.

    Args:
        sequence: atoms, and how often each occurs.
        reserve: the part of the rate book that is never spent.
        failures, rates: the limits of the rate book; the tail of a curve takes a share of the first that suits both.

    Source: `docs/proofs/composition.md`, the account, Theorems 4 and 5.
    """
    rate: Fraction | None = Fraction(0)
    failure = Fraction(0)
    for atom, count in sequence:
        more, failed = _atom_rate(atom, reserve, failures, rates)
        rate = None if rate is None or more is None else rate + more * count
        failure += failed * count
    return rate, failure


@lru_cache(maxsize=4096)
def _atom_rate(atom: Atom, reserve: Fraction, failures: Fraction, rates: Fraction) -> tuple[Fraction | None, Fraction]:
    if isinstance(atom, Failure):
        return Fraction(0), atom.delta
    if isinstance(atom, Gaussian):
        return Fraction(atom.mu) ** 2, Fraction(0)
    if isinstance(atom, BoundedRange):  # Its curve is that of logistic noise, tightest against a normal at eta / 2.
        return response_mu(atom.eta / 2) ** 2, Fraction(0)
    if isinstance(atom, NumericAtom):
        return _curve_rate(atom, failures, rates)
    assert isinstance(atom, Response | Discrete)
    alone = _table_rate(atom)
    if not reserve or alone == 0 or len(atom.masses()) > RESERVE_MASSES or atom.max_loss > RESERVE_LOSS:
        return alone, Fraction(0)
    beside, failure = _reserved_rate(atom, float(reserve), math.inf if alone is None else float(alone))
    return (alone, Fraction(0)) if alone is not None and alone <= beside else (beside, failure)


def _table_rate(atom: Response | Discrete) -> Fraction | None:
    """Return the square of the smallest mu whose Gaussian dominates a finite table; None where none does."""
    if isinstance(atom, Response):
        return response_mu(atom.epsilon, atom.classes) ** 2
    if atom.max_loss <= 0:
        return Fraction(0)
    pure, table = response_mu(atom.max_loss), _vertex_mu(atom)
    return min(pure, table or pure) ** 2


def response_mu(epsilon: Fraction, classes: int = 2) -> Fraction:
    """Return the smallest mu whose Gaussian dominates randomized response, rounded up; for two classes any pure loss.

    Source: `docs/proofs/composition.md`: the vertices of the trade-off curve.
    """
    _, high = exp_bounds(epsilon)
    one, lies = 1 / (high + classes - 1), Fraction(classes - 1) / (high + classes - 1)
    return normal_deviation(one) + normal_deviation(lies)


def normal_deviation(probability: Fraction) -> Fraction:
    """Return an x that a standard normal variable exceeds with at most this probability, as small as floats tell.

    Source: `normal_cdf` and its error; far out, P(N > x) <= exp(-x^2 / 2) / 2.
    """
    if probability < _LEAST_PROBABILITY:
        log = math.log(probability.numerator) - math.log(probability.denominator)
        return Fraction(math.sqrt(-2 * (log + math.log(2))) * (1 + _QUANTILE_ERROR) + _QUANTILE_ERROR)
    small = probability <= Fraction(1, 2)
    near = float(probability if small else 1 - probability)
    x = -_NORMAL.inv_cdf(near) if small else _NORMAL.inv_cdf(near)
    step = _QUANTILE_ERROR * (1 + abs(x))
    while not _is_exceeded(x, probability, small):
        x, step = x + step, 2 * step
    return Fraction(x)


def _is_exceeded(x: float, probability: Fraction, small: bool) -> bool:
    """Return True only if P(N > x) is at most the probability."""
    error = Fraction(_CDF_ERROR)
    if small:
        return Fraction(normal_cdf(-x)) * (1 + error) <= probability
    return Fraction(normal_cdf(x)) * (1 - error) >= 1 - probability


def _vertex_mu(atom: Discrete) -> Fraction | None:
    """Return the smallest mu at the vertices of a finite trade-off curve, rounded up, or None."""
    gained = lost = largest_mu = Fraction(0)
    for loss, mass in sorted(atom.masses(), reverse=True):
        if loss <= 0:
            break
        gained, lost = gained + mass, lost + mass * exp_bounds(-loss)[0]
        if not mass:
            continue
        if gained >= 1:
            return None
        largest_mu = max(largest_mu, normal_deviation(lost) + normal_deviation(1 - gained))
    return largest_mu


def _curve_rate(curve: NumericAtom, failures: Fraction, rates: Fraction) -> tuple[Fraction | None, Fraction]:
    """Return the rate of a curve whose tail takes the share of the failures that uses up least of the rate book."""
    points = []
    for share in FAILURE_SHARES if failures else ():
        rate = _largest(_curve_square(order, float(failures * share)) for order in (curve, curve.reversed()))
        if rate is not None:
            points.append((max(rate / rates if rates else Fraction(1), share), rate, failures * share))
    return min(points)[1:] if points else (None, Fraction(0))


def _curve_square(curve: NumericAtom, failure: float) -> Fraction | None:
    """Return the square of the smallest mu that dominates a curve but for a failure, at vertices, rounded up."""
    from scipy.special import ndtri

    lattice = loss_lattice(((curve, 1),))
    lost, losses = lattice.lost, lattice.losses()[::-1]
    masses = lattice.masses[::-1] * (1 + lattice.relative_error)
    gained = np.cumsum(masses) * (1 + _SUM_ERROR) + lost
    likely = np.cumsum(masses * np.exp(-losses)) * (1 - _SUM_ERROR) / (1 - failure)
    residue = (1 - gained) / (1 - failure)
    vertices = (losses > 0) & (masses > 0) & (gained > failure * (1 - _SUM_ERROR))
    if lost <= failure and not vertices.any():
        return Fraction(0)
    if lost > failure or (residue[vertices] <= 0).any() or (likely[vertices] <= 0).any():
        return None
    left, right = -ndtri(likely[vertices]), -ndtri(residue[vertices] * (1 - _SUM_ERROR))
    mus = left + right + _QUANTILE_ERROR * (1 + np.abs(left) + np.abs(right))
    return Fraction(max(0.0, float(mus.max()))) ** 2


@lru_cache(maxsize=1024)
def _reserved_rate(atom: Response | Discrete, reserve: float, alone: float) -> tuple[Fraction, Fraction]:
    """Return the smallest c for which the atom and N(reserve) lie below N(reserve + c), and a failure that it leaves.

    Both curves are convex in e^t, so between two thresholds the left one lies below its chord and the right one above
    its tangent. What is left beyond the last threshold is counted twice as a failure.

    Source: `docs/proofs/composition.md`, the account, Theorem 4.
    """
    masses = [(float(loss), float(mass) * (1 + 2.0**-50)) for loss, mass in atom.masses() if mass]
    top = float(atom.max_loss) + reserve / 2 + 8.5 * math.sqrt(reserve)
    thresholds = np.linspace(0.0, top, RESERVE_POINTS + 1)
    left = np.zeros_like(thresholds)
    for loss, mass in masses:
        delta, error, _ = _gaussian_curve(thresholds - loss, reserve)
        left += mass * (delta + error)
    left *= 1 + _SUM_ERROR
    residue = float(left[-1])
    widths = np.diff(np.exp(thresholds)) * (1 + _SUM_ERROR)

    def is_below(rate: float) -> bool:
        delta, error, falls = _gaussian_curve(thresholds, reserve + rate)
        lower = delta - error + residue * (1 - delta)
        chords = delta[:-1] - error[:-1] - widths * falls[:-1] * (1 + _CDF_ERROR) + residue * (1 - delta[:-1])
        return bool((left <= lower).all() and (left[1:] <= chords).all())

    low, high = 0.0, min(alone, 4.0)
    if not is_below(high):
        return Fraction(alone) if math.isfinite(alone) else Fraction(10**6), Fraction(0)
    return Fraction(smallest(is_below, low, high, tol=1e-6)), 2 * Fraction(residue)


def _gaussian_curve(epsilons: Floats, square: float) -> tuple[Floats, Floats, Floats]:
    """Return delta of a Gaussian with this mu^2 at epsilons of any sign, a bound of its error, and minus its slope.

    All have shape (points,); the slope is that by e^epsilon.
    """
    mu = math.sqrt(square)
    gained, falls = _normal_cdfs(mu / 2 - epsilons / mu), _normal_cdfs(-mu / 2 - epsilons / mu)
    lost = np.exp(epsilons) * falls
    return gained - lost, 4 * _CDF_ERROR * (gained + lost), falls


def _normal_cdfs(points: Floats) -> Floats:
    """P(N(0, 1) <= x) at each point, within a relative error of 1e-12 where it is above 1e-300."""
    return np.array(list(map(math.erfc, (points / -math.sqrt(2)).tolist()))) / 2
