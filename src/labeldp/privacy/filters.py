"""Filters: accounts that stay valid when the cost of a release is chosen after looking at earlier ones."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Any

import numpy as np

from labeldp.privacy.atoms import Atom, Curve, Discrete, Failure, Gaussian, Response, normal_cdf
from labeldp.privacy.charges import Path, joint
from labeldp.privacy.composition import Sequence, curve_masses, gaussian_delta
from labeldp.privacy.errors import InputError
from labeldp.privacy.exact import decimal, exp_bounds, largest
from labeldp.privacy.loss import PrivacyLoss
from labeldp.privacy.renyi import ORDERS, RENYI_ROUNDING, rdp_delta
from labeldp.privacy.stored import stored_fraction
from labeldp.privacy.totals import add_up

FAILURE_SHARE = Fraction(1, 10)
"""The share of delta that a filter keeps for failures, where the first releases leave room for it."""

TAIL_SHARE = Fraction(1, 10)
"""The share of delta that a filter keeps for tails: what exceeds the loss that a release is counted with."""

TAILS = 16
"""How many releases whose loss has a tail the losses of a filter may hold."""

MAX_POINTS = 32
"""The costs of more places than this are joined into one that covers them."""

FAILURE_SHARES = tuple(Fraction(1, 1 << power) for power in range(1, 13))
"""The shares of the failures of a filter that the tail of a curve may take."""

_QUANTILE_ERROR, _CDF_ERROR = 1e-12, 1e-12

_SUM_ERROR = 1e-11

_LEAST_PROBABILITY = Fraction(1, 10**280)

_NUDGES = 1024

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Cost:
    """What a filter adds up for one record; None stands for infinity.

    Args:
        pure: the largest privacy loss, failures and tails aside.
        rate: the square of the smallest mu whose Gaussian dominates it, or its rate of zero-concentrated privacy.
        failure: the probability of failure.
        tail: the probability that the loss exceeds `pure`, failures aside.
    """

    pure: Fraction | None = Fraction(0)
    rate: Fraction | None = Fraction(0)
    failure: Fraction = Fraction(0)
    tail: Fraction = Fraction(0)

    def __add__(self, other: "Cost") -> "Cost":
        failure, tail = (
            add_up(*pair) or Fraction(0) for pair in ((self.failure, other.failure), (self.tail, other.tail))
        )
        return Cost(add_up(self.pure, other.pure), add_up(self.rate, other.rate), failure, tail)

    def __mul__(self, times: int) -> "Cost":
        pure, rate = (None if each is None else each * times for each in (self.pure, self.rate))
        return Cost(pure, rate, self.failure * times, self.tail * times)

    def covers(self, other: "Cost") -> bool:
        """Return whether no coordinate is smaller than that of another cost."""
        pairs = (
            (self.pure, other.pure),
            (self.rate, other.rate),
            (self.failure, other.failure),
            (self.tail, other.tail),
        )
        return all(mine is None or (theirs is not None and mine >= theirs) for mine, theirs in pairs)

    @classmethod
    def worst(cls, costs: Iterable["Cost"]) -> "Cost":
        """Return the largest of each coordinate."""
        rows = ((each.pure, each.rate, each.failure, each.tail) for each in costs)
        pures, rates, failures, tails = zip(*rows, strict=True)
        return cls(_largest(pures), _largest(rates), max(failures), max(tails))

    def to_texts(self) -> tuple[str | None, str | None, str, str]:
        """Return the coordinates as exact texts."""
        pure, rate = (None if each is None else str(each) for each in (self.pure, self.rate))
        return pure, rate, str(self.failure), str(self.tail)

    @classmethod
    def from_texts(cls, pure: str | None, rate: str | None, failure: str, tail: str) -> "Cost":
        """Return the inverse of `to_texts`."""
        known = [None if each is None else stored_fraction(each) for each in (pure, rate)]
        return cls(known[0], known[1], stored_fraction(failure), stored_fraction(tail))


Costs = tuple[Cost, ...]
"""The costs of places, one of which each record has."""

FREE: Costs = (Cost(),)


@dataclass(frozen=True)
class Filter:
    """A rule that admits releases whose costs may depend on all that was released before.

    It adds up the coordinates of `Cost` for each record and admits a release while the failures stay within `failure`,
    and either the losses within `epsilon` and their tails within `tail`, or the rates within `most`. What it promises
    is (epsilon, delta) for everything that it will ever admit, and nothing better for what it admitted so far.

    Args:
        epsilon, delta: the promise, delta positive.
        kind: what the rates are, one of `KINDS`.
        most: the largest sum of the rates.
        failure: the largest sum of the failures.
        tail: the largest sum of the tails; delta of `most` at epsilon, `failure` and this are at most `delta`.

    Guarantee (within_budget): however releases and their costs are chosen after looking, all that it admits together is
        (epsilon, delta)-differentially private.

    Source: Rogers; FeldmanZrnic; SmithThakurta; Whitehouse; `docs/proofs/filters.md`.

    Examples:
        >>> rule = Filter.of(3, "1e-6", kind="zcdp", failure=0, tail=0)
        >>> release = rule.cost(PrivacyLoss.pure("0.1"))
        >>> rule.admits((release * 37,)), rule.admits((release * 38,))
        (True, False)
    """

    epsilon: Fraction
    delta: Fraction
    kind: str
    most: Fraction
    failure: Fraction
    tail: Fraction

    @classmethod
    def of(cls, epsilon: Any, delta: Any, kind: str = "gaussian", failure: Any = None, tail: Any = None) -> "Filter":
        """Return the filter that keeps shares of delta: a tenth for failures and a tenth for tails by default.

        Raises:
            InputError: failures or tails are negative, or more than delta together.
        """
        limit, share = decimal(epsilon, "epsilon"), decimal(delta, "delta")
        failed = share * FAILURE_SHARE if failure is None else decimal(failure, "failure")
        cut = min(share * TAIL_SHARE, share - failed) if tail is None else decimal(tail, "tail")
        if min(failed, cut) < 0 or failed + cut > share:
            raise InputError("and tail must not be negative, nor more than delta together", argument="failure")
        rates = _most_square if kind == "gaussian" else _most_rho
        most = rates(limit, share - failed - cut) if failed + cut < share else Fraction(0)
        return cls(limit, share, kind, most, failed, cut)

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """The shares of delta that it keeps for failures and for tails."""
        return self.failure / self.delta, self.tail / self.delta

    def admits(self, costs: Costs) -> bool:
        """Return whether each place stays within the filter."""
        return all(each.failure <= self.failure and (self._is_bounded(each) or self._is_slow(each)) for each in costs)

    def _is_bounded(self, cost: Cost) -> bool:
        return cost.pure is not None and cost.pure <= self.epsilon and cost.tail <= self.tail

    def _is_slow(self, cost: Cost) -> bool:
        return cost.rate is not None and cost.rate <= self.most

    def share(self, part: Fraction) -> "Filter":
        """Return the filter of somebody to whom a part is reserved: of rates and failures, or at delta = 0 of losses.

        Its costs are those of the whole filter. Parts that sum to at most 1 admit together no more than the whole.

        Args:
            part: of the whole, from 0 to 1.

        Source: `docs/proofs/filters.md`, shares.
        """
        pure = Fraction(0) if self.delta else self.epsilon * part
        return replace(self, epsilon=pure, most=self.most * part, failure=self.failure * part, tail=Fraction(0))

    def used(self, costs: Costs) -> Fraction:
        """Return the share of the filter that is used up: of its failures, or of what its losses or its rates use.

        The larger of the first two counts, and of losses and rates the smaller: at most 1 of what it admits. At 1 it
        may admit more, of another kind. Of what it would never admit it is 1, else more.
        """
        return max((max(self._share(each), _part(each.failure, self.failure)) for each in costs), default=Fraction(0))

    def _share(self, cost: Cost) -> Fraction:
        bounded, slow = [(cost.pure, self.epsilon), (cost.tail, self.tail)], [(cost.rate, self.most)]
        ways = (max(_part(spent or Fraction(0), most) for spent, most in way) for way in (bounded, slow) if _fits(way))
        return min(ways, default=Fraction(1))

    def cost(self, loss: PrivacyLoss) -> Cost:
        """Return what a release costs, rounded up."""
        return _cost(self, loss)

    def joint(self, counted: Iterable[tuple[tuple[Path, PrivacyLoss], int]]) -> Costs:
        """Return what charges cost a record: of a split the worst of its parts, and splits add up."""
        rows = ((path, (self.cost(loss) * times,)) for (path, loss), times in counted)
        return joint(rows, FREE, _plus, lambda parts: _pruned(cost for costs in parts for cost in costs))

    def to_json(self) -> dict[str, str]:
        """Return plain JSON values, exact."""
        numbers = ("epsilon", "delta", "most", "failure", "tail")
        return {"kind": self.kind, **{name: str(getattr(self, name)) for name in numbers}}

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> "Filter":
        """Return the filter that `to_json` wrote."""
        names = ("epsilon", "delta", "most", "failure", "tail")
        epsilon, delta, *rest = (stored_fraction(value[name]) for name in names)
        return cls(epsilon, delta, value["kind"], *rest)


def _plus(one: Costs, other: Costs) -> Costs:
    return _pruned(left + right for left in one for right in other)


def _pruned(costs: Iterable[Cost]) -> Costs:
    """The costs of places without those that another one covers; one for all where they are too many."""
    kept: list[Cost] = []
    for cost in costs:
        if not any(other.covers(cost) for other in kept):
            kept = [other for other in kept if not cost.covers(other)] + [cost]
    return tuple(kept) if len(kept) <= MAX_POINTS else (Cost.worst(kept),)


def _largest(values: Iterable[Fraction | None]) -> Fraction | None:
    known = list(values)
    return None if None in known else max(each for each in known if each is not None)


def _fits(sums: Iterable[tuple[Fraction | None, Fraction]]) -> bool:
    """Whether each of some sums has room at all."""
    return all(spent is not None and (most or not spent) for spent, most in sums)


def _part(spent: Fraction, most: Fraction) -> Fraction:
    if not spent:
        return Fraction(0)
    return spent / most if most else Fraction(1)


@lru_cache(maxsize=4096)
def _cost(rule: Filter, loss: PrivacyLoss) -> Cost:
    total = Cost()
    for atom, count in loss.atoms:
        total = total + _atom_cost(rule, atom) * count
    pure, tail = _bounded(rule, tuple(pair for pair in loss.atoms if not isinstance(pair[0], Failure)), total.pure)
    return replace(total, pure=pure, tail=tail)


def _bounded(rule: Filter, sequence: Sequence, pure: Fraction | None) -> tuple[Fraction | None, Fraction]:
    """The loss that a release is counted with, and its tail: where no loss bounds it, or one far above most of them."""
    tail = rule.tail / TAILS
    if not tail or (pure is not None and pure <= 2 * rule.epsilon / TAILS):
        return pure, Fraction(0)
    epsilon = PrivacyLoss(sequence).epsilon(tail)
    if math.isinf(epsilon) or (pure is not None and 2 * epsilon > pure):
        return pure, Fraction(0)
    return decimal(epsilon, "epsilon"), tail


@lru_cache(maxsize=4096)
def _atom_cost(rule: Filter, atom: Atom) -> Cost:
    """What one atom costs. Source: `docs/proofs/filters.md`."""
    if isinstance(atom, Failure):
        return Cost(failure=atom.delta)
    if isinstance(atom, Curve):
        found = [_curve_cost(rule, atom, share) for share in FAILURE_SHARES]
        return min(
            (cost for cost in found if cost.rate is not None), key=partial(_size, rule), default=Cost(None, None)
        )
    pure, square = atom.max_loss, _square(atom)
    if rule.kind == "gaussian":
        return Cost(pure, square)
    rates = [rate for rate in (None if pure is None else pure**2 / 2, None if square is None else square / 2) if rate]
    return Cost(pure, min(rates, default=None if square is None else Fraction(0)))


def _square(atom: Atom) -> Fraction | None:
    """The square of the smallest mu whose Gaussian dominates an atom in both orders, rounded up."""
    if isinstance(atom, Gaussian):
        return Fraction(atom.mu) ** 2
    if isinstance(atom, Response):
        return response_mu(atom.epsilon, atom.classes) ** 2
    assert isinstance(atom, Discrete)
    if atom.max_loss <= 0:
        return Fraction(0)
    pure, table = response_mu(atom.max_loss), _table_mu(atom)
    return min(pure, table or pure) ** 2


def response_mu(epsilon: Fraction, classes: int = 2) -> Fraction:
    """Return the smallest mu whose Gaussian dominates randomized response, rounded up; for two classes any pure loss.

    Source: `docs/proofs/filters.md`: the vertices of the trade-off curve.
    """
    _, high = exp_bounds(epsilon)
    one, others = 1 / (high + classes - 1), Fraction(classes - 1) / (high + classes - 1)
    return normal_deviation(one) + normal_deviation(others)


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
    while not _exceeded_by(x, probability, small):
        x, step = x + step, 2 * step
    return Fraction(x)


def _exceeded_by(x: float, probability: Fraction, small: bool) -> bool:
    """True only if P(N > x) is at most the probability."""
    error = Fraction(_CDF_ERROR)
    if small:
        return Fraction(normal_cdf(-x)) * (1 + error) <= probability
    return Fraction(normal_cdf(x)) * (1 - error) >= 1 - probability


def _table_mu(atom: Discrete) -> Fraction | None:
    """The smallest mu at the vertices of a finite trade-off curve, rounded up; None where no Gaussian dominates it."""
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


def _size(rule: Filter, cost: Cost) -> Fraction:
    """How much of a filter a cost uses up, whatever comes of it, so that the choice depends on nothing private."""
    return max(_part(cost.rate or Fraction(0), rule.most), _part(cost.failure, rule.failure))


def _curve_cost(rule: Filter, curve: Curve, share: Fraction) -> Cost:
    """What a curve costs where its tail may take a share of the failures."""
    failure = rule.failure * share
    squares = [_curve_square(each, float(failure)) for each in (curve, curve.reversed())]
    square = _largest(squares)
    if square is None:
        return Cost(None, None, failure)
    return Cost(None, square if rule.kind == "gaussian" else square / 2, failure)


def _curve_square(curve: Curve, failure: float) -> Fraction | None:
    """The square of the smallest mu that dominates a curve but for a failure, at vertices, rounded up."""
    from scipy.special import ndtri

    losses, masses, error, lost = curve_masses(curve)
    masses, losses = masses[::-1] * (1 + error), losses[::-1]
    gained = np.cumsum(masses) * (1 + _SUM_ERROR) + lost
    kept = np.cumsum(masses * np.exp(-losses)) * (1 - _SUM_ERROR) / (1 - failure)
    rest = (1 - gained) / (1 - failure)
    asked = (losses > 0) & (masses > 0) & (gained > failure * (1 - _SUM_ERROR))
    if lost <= failure and not asked.any():
        return Fraction(0)
    if lost > failure or (rest[asked] <= 0).any() or (kept[asked] <= 0).any():
        return None
    left, right = -ndtri(kept[asked]), -ndtri(rest[asked] * (1 - _SUM_ERROR))
    mus = left + right + _QUANTILE_ERROR * (1 + np.abs(left) + np.abs(right))
    return Fraction(max(0.0, float(mus.max()))) ** 2


@lru_cache(maxsize=256)
def _most_square(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest square of mu whose delta at epsilon is at most `delta`, rounded down."""
    below = float(epsilon) * (1 - 2.0**-50)

    def keeps(mu: float) -> bool:
        return Fraction(gaussian_delta(below, mu)) <= delta

    high = 1.0
    while keeps(high):
        high *= 2
    low = largest(keeps, 0.0, high, tol=2.0**-50)
    best = step = low
    for _ in range(_NUDGES):  # rounding blurs the border by some floats
        step = math.nextafter(step, math.inf)
        best = step if keeps(step) else best
    return Fraction(best) ** 2


@lru_cache(maxsize=256)
def _most_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rate of zero-concentrated privacy whose delta at epsilon is at most `delta`, rounded down.

    Source: Canonne, Proposition 12.
    """
    below = np.array([float(epsilon) * (1 - 2.0**-50)])

    def keeps(rho: float) -> bool:
        found = rdp_delta(rho * (1 + RENYI_ROUNDING) * ORDERS, ORDERS, below)[0] * (1 + RENYI_ROUNDING) + 1e-300
        return Fraction(float(found)) <= delta

    high = 1.0
    while keeps(high):
        high *= 2
    return Fraction(largest(keeps, 0.0, high, tol=2.0**-40))
