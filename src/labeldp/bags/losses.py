"""Losses of weighted bag sums: NoisyBag, HiddenWeights."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from labeldp.privacy import NEGLIGIBLE_DELTA, Ends, Floats, NumericAtom

MAX_BAG = 1 << 20
"""Labels in a bag, and rows of secret weights, at most."""

MAX_LABELS = 1 << 53
"""Labels that bags are drawn from, at most."""

MAX_RATIO = 1e30
"""The largest ratio of a range and a standard deviation, and one over the smallest."""

ENDS = "lower", "upper"
"""The ends of an enclosed curve, in the order of `NumericAtom.ends`."""

_ROUNDING = 3e-11
"""Relative error of the floating-point sums below, at most (tested against 40 digits)."""

_GAMMA_ERROR = 1e-11
"""Relative error of incomplete gamma functions, at most."""

_SMALLEST = 1e-300
"""Added to upper ends, in place of what underflows."""

_TRAPEZOID_ERRORS = 100.0, 800.0
"""Logarithms of one over the error that the trapezoidal rule may have: first the larger one."""

_MAX_DEVIATIONS = 40.0
"""Normal tails beyond so many standard deviations are left out."""

_FARTHEST = 100.0
"""Sums of secret weights in doubles are proved to be as private as real numbers up to this epsilon."""

_CHI_SQUARE_CELLS = 1024

_ENTRIES_AT_ONCE = 1 << 18

_TERMS_AT_ONCE = 1 << 21

_DROPPED_MASS = 1e-100
"""Masses below are not kept one by one; their sum is."""


@dataclass(frozen=True)
class Counts:
    """The law of a number of noisy labels: each positive number that matters, with its probability.

    Args:
        numbers: positive integers, consecutive, shape (r,).
        masses: their probabilities, relative error below 2e-11, shape (r,).
        none: the probability of zero.
        dropped: the probability of all others, at most.
    """

    numbers: Floats = field(repr=False)
    masses: Floats = field(repr=False)
    none: float = 0.0
    dropped: float = 0.0

    def survival(self, points: Floats) -> Floats:
        """Return P(|w| > t |v|) for each t > 0, w standard normal and v one of so many dimensions, shape as `points`.

        For n dimensions it is the same as for n + 2 and a positive term, so the sum over the law needs the incomplete
        beta function at its two ends only. Zero dimensions are left out.

        Source: `docs/proofs/bags.md`, equation (3).
        """
        from scipy.special import betaincc

        share = points**2 / (1 + points**2)
        ends = self.numbers[-2:] + 2
        # Of all that have the same parity: the probability of at most this number.
        sums = self.masses.copy()
        for parity in (0, 1):
            sums[parity::2] = np.cumsum(self.masses[parity::2])
        total = sum(
            sums[-len(ends) :][i] * betaincc(0.5, number / 2, share) for i, number in enumerate(ends)
        ) + self._terms(points, share, sums)
        return np.asarray(total)

    def _terms(self, points: Floats, share: Floats, sums: Floats) -> Floats:
        """Return the terms between n dimensions and n + 2, each as often as the law asks, shape as `points`."""
        from scipy.special import poch

        factors = sums * poch(self.numbers / 2 + 1, -0.5) / math.sqrt(math.pi)
        logs = -0.5 * np.log1p(points**2)
        total = np.zeros(len(points))
        for start in range(0, len(self.numbers), max(1, _TERMS_AT_ONCE // len(points))):
            part = slice(start, start + max(1, _TERMS_AT_ONCE // len(points)))
            total += factors[part] @ np.exp(self.numbers[part, None] * logs)
        return total * np.sqrt(share)


@dataclass(frozen=True)
class NoisyBag(NumericAtom):
    """One label's share of a bag sum with published random weights, where some labels of a bag have Gaussian noise.

    It is a Gaussian loss whose mu = ratio |w| / (length of the weights of the noisy labels) is random and published.

    Args:
        weights: "gaussian", or "rademacher" for +1 and -1.
        ratio: width of the label range over the standard deviation of one label's noise.
        size: labels in a bag.
        noisy: noisy labels: exactly so many in each bag, or in all `records`.
        records: how many labels the bags are drawn from, where one set of noisy labels is drawn from all of them.

    Guarantee (enclosed): the ends enclose the curve of the worst label, noisy or not.

    Source: Brahmbhatt, Fig. 2; `docs/proofs/bags.md`.
    """

    kind = "noisy bag"
    weights: str
    ratio: float
    size: int
    noisy: int
    records: int | None = None

    def __post_init__(self) -> None:
        population = self.size if self.records is None else self.records
        valid = self.weights in ("gaussian", "rademacher") and 1 / MAX_RATIO <= self.ratio <= MAX_RATIO
        valid = valid and population <= MAX_LABELS and 0 < self.size <= min(population, MAX_BAG)
        if not (valid and 0 < self.noisy <= population):
            raise ValueError("the parameters of a bag are out of range")

    def reversed(self) -> "NoisyBag":
        """Return the same loss: a Gaussian loss is symmetric for each weight."""
        return self

    def ends(self, epsilons: Floats) -> Ends:
        """Return the lower and upper ends of delta at each epsilon >= 0, shape as given."""
        return bag_ends(self.weights, self.ratio, *self._counts, epsilons)

    @cached_property
    def _counts(self) -> tuple[Counts | None, Counts]:
        """The laws of the number of noisy labels among the others of a bag, as `bag_ends` takes them."""
        all_noisy = self.noisy == (self.records or self.size)
        if self.records is None:
            return None if all_noisy else constant(self.noisy), constant(self.noisy - 1)
        others, draws = self.records - 1, self.size - 1
        without = None if all_noisy else hypergeometric(others, self.noisy, draws)
        return without, hypergeometric(others, self.noisy - 1, draws)

    def __str__(self) -> str:
        noisy = f"{self.noisy} of {self.records or self.size} labels noisy"
        return f"a bag of {self.size} with {self.weights} weights, {noisy}, range / stddev = {self.ratio:g}"


def bag_ends(weights: str, ratio: float, without: Counts | None, noisy: Counts, epsilons: Floats) -> Ends:
    """Return the lower and upper ends of delta for the worst label of a bag with a random number of noisy labels.

    Args:
        without: for a label without noise, the law of the number of noisy labels in its bag; None where all have noise.
        noisy: for a label with noise, the law of the number of noisy labels in its bag beside itself.

    Source: `docs/proofs/bags.md`, equations (1) and (2).
    """
    curves = [_label_ends(weights, ratio, noisy, epsilons, inside=True)]
    if without is not None:
        curves.append(_label_ends(weights, ratio, without, epsilons, inside=False))
    lower, upper = zip(*curves, strict=True)
    return np.max(lower, axis=0), np.max(upper, axis=0)


def _label_ends(weights: str, ratio: float, counts: Counts, epsilons: Floats, inside: bool) -> Ends:
    """Return the lower and upper ends of delta for a label, from the law of the number of other noisy labels.

    Args:
        inside: whether the label is noisy itself.
    """
    value: Floats = np.zeros(len(epsilons))
    error: Floats = value
    if not len(counts.numbers):
        pass
    elif weights == "rademacher":
        value, error = _signed(ratio, counts.numbers + inside, counts.masses, epsilons)
    else:
        value, error = _trapezoid(ratio, counts, epsilons, inside)
    # Beside no noisy label, the noise of the label itself is all there is.
    alone, slack = _signed(ratio, np.ones(1), np.ones(1), epsilons) if inside else (1.0, 0.0)
    value, error = value + counts.none * alone, error + counts.none * slack
    upper = np.minimum(value * (1 + _ROUNDING) + error + counts.dropped + _SMALLEST, 1.0)
    return np.maximum(value * (1 - _ROUNDING) - error, 0.0), upper


def _signed(ratio: float, numbers: Floats, masses: Floats, epsilons: Floats) -> Ends:
    """Return the curve of weights +1 and -1, and by how much its error may exceed `_ROUNDING` of it.

    mu = ratio / sqrt(number of noisy labels). Where mu is small, the curve is a difference of nearly equal terms: its
    error is that of normal probabilities at rounded arguments.

    Source: Balle, Theorem 8; `docs/proofs/bags.md`, rounding.
    """
    from scipy.special import log_ndtr, ndtr

    mus, exponents = ratio / np.sqrt(numbers), epsilons[:, None]
    near, far = mus / 2 - exponents / mus, mus / 2 + exponents / mus
    gained, lost = ndtr(near), np.exp(np.minimum(exponents + log_ndtr(-far), 0.0))
    value = np.asarray(np.maximum(gained - lost, 0.0) @ masses)
    slope = (1 - np.minimum(near, 0.0)) * np.exp(-(np.maximum(near, 0.0) ** 2) / 2)
    errors = 2.0**-50 * (gained * (1 + far * slope) + lost * (1 + exponents + far * (1 + far)))
    return value, np.maximum(errors @ masses - _ROUNDING * value, 0.0)


def _trapezoid(ratio: float, counts: Counts, epsilons: Floats, inside: bool) -> Ends:
    """Return the integral (2) and the error of the trapezoidal rule; finer where the error would show."""
    value: Floats = np.zeros(len(epsilons))
    error: Floats = value
    for exponent in _TRAPEZOID_ERRORS:
        nodes, step, cut = _nodes(ratio, epsilons, exponent, inside)
        if not len(nodes):
            return value, error
        size = nodes * ratio / np.sqrt(1 + nodes**2) if inside else nodes * ratio
        width = size / (1 + nodes**2) if inside else size
        heights = counts.survival(nodes) * width * step / math.sqrt(2 * math.pi)
        gaps = size / 2 - epsilons[:, None] / size
        terms = np.exp(-0.5 * gaps**2) * heights
        value = terms.sum(axis=1)
        error = np.asarray(cut + 3 * math.exp(-exponent) + (terms[:, -1] / step if inside else 0.0))
        if value.min(initial=1.0) * _ROUNDING > math.exp(-exponent):
            break
    return value, error


def _nodes(ratio: float, epsilons: Floats, exponent: float, inside: bool) -> tuple[Floats, float, float]:
    """Return nodes t of the trapezoidal rule in ln t, its step, and what is cut off below.

    t = mu / ratio for a label without noise, and t / sqrt(1 + t^2) for one with noise.

    The error of the rule is below 3 exp(-exponent).
    """
    low_end, high_end = float(epsilons.min()), float(epsilons.max())
    strip = min(0.7, math.sqrt(exponent / high_end)) if high_end else 0.7
    cosine = math.cos(2 * strip)
    step = 2 * math.pi * strip / (exponent + high_end * (1 - cosine) / 2 - 1.25 * math.log(cosine))
    start, floor = (
        2 * low_end / (_MAX_DEVIATIONS + math.sqrt(_MAX_DEVIATIONS**2 + 2 * low_end)),
        NEGLIGIBLE_DELTA * min(1.0, ratio),
    )
    low, high = max(start, floor), _MAX_DEVIATIONS + math.sqrt(_MAX_DEVIATIONS**2 + 2 * high_end)
    cut = low if low > start else 0.0
    if inside and low >= ratio:
        return np.empty(0), step, cut
    first = low / math.sqrt((ratio - low) * (ratio + low)) if inside else low / ratio
    last = 1e10 if inside else high / ratio
    return first * np.exp(step * np.arange(math.ceil(math.log(last / first) / step) + 1)), step, cut


@dataclass(frozen=True)
class HiddenWeights(NumericAtom):
    """Sums of a bag with secret Gaussian weights: rows of N(0, diag(1 + stretch, 1 - shrink)) against N(0, I).

    Args:
        stretch: how much the larger eigenvalue exceeds one, positive.
        shrink: how much the smaller eigenvalue falls short of one, in (0, 1).
        rows: independent weight vectors for one bag.

    Guarantee (enclosed): the ends enclose the curve of this pair of normal laws.

    Source: Brahmbhatt, Fig. 1; `docs/proofs/bags.md`, equation (4).
    """

    kind = "hidden weights"
    stretch: float
    shrink: float
    rows: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.stretch <= MAX_RATIO and 0 < self.shrink < 1 and 1 <= self.rows <= MAX_BAG):
            raise ValueError("the parameters of hidden weights are out of range")

    def reversed(self) -> "HiddenWeights":
        """Return the loss of N(0, I) against the other law, scaled."""
        up, down = 1 + 2.0**-50, 1 - 2.0**-50
        return HiddenWeights(
            self.shrink / (1 - self.shrink) * up, min(self.stretch / (1 + self.stretch) * up, down), self.rows
        )

    def ends(self, epsilons: Floats) -> Ends:
        """Return the lower and upper ends of delta at each epsilon >= 0, shape as given."""
        shift, cells, masses, _, ceiling = self._cells(epsilons)
        lower = self._given(shift + self.shrink / 2 * cells[:-1] + np.log1p(ceiling), -1.0) @ masses
        return lower * (1 - _ROUNDING), self.upper(epsilons)

    def upper(self, epsilons: Floats) -> Floats:
        """Return the upper ends alone; beyond `_FARTHEST` the one there."""
        shift, cells, _, weights, _ = self._cells(np.minimum(epsilons, _FARTHEST))
        upper = self._given(shift + self.shrink / 2 * cells, 1.0) @ weights
        return np.asarray(np.minimum(upper * (1 + _ROUNDING) + _SMALLEST, 1.0))

    def _cells(self, epsilons: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return exponents at 0, ends of cells of the shrunk squares, their masses, weights of ends, and growth."""
        from scipy.special import gammaincc

        shape, rate = self.rows / 2, self.shrink / 2
        root, tilt = math.sqrt(self.rows), 1 + self.shrink / self.stretch
        count = min(max(_ENTRIES_AT_ONCE // len(epsilons), _CHI_SQUARE_CELLS // 4), _CHI_SQUARE_CELLS)
        cells = np.linspace(max(0.0, root / math.sqrt(tilt) - 9), root + 9, count) ** 2
        cells[0] = 0.0
        tails, tilted = gammaincc(shape, cells / 2), gammaincc(shape, (1 - self.shrink) * cells / 2)
        masses, moments = tails[:-1] - tails[1:], tilted[:-1] - tilted[1:]
        growth = np.expm1(rate * np.diff(cells))
        safe = np.maximum(np.minimum(masses, moments), _SMALLEST)
        logs = np.log(np.maximum(moments, _SMALLEST) / np.maximum(masses, _SMALLEST)) - rate * cells[:-1]
        means = np.expm1(np.clip(logs - shape * math.log1p(-self.shrink), 0.0, np.log1p(growth)))
        slack = 2.0**-48 * np.maximum(tails, tilted)[:-1] / safe
        share, ceiling = np.clip((means - slack) / growth, 0.0, 1.0), np.minimum(means + slack, growth)
        weights = np.concatenate([masses * (1 - share), tails[-1:]]) + np.concatenate([[0.0], masses * share])
        shift = epsilons[:, None] + shape * (math.log1p(self.stretch) + math.log1p(-self.shrink))
        return shift, cells, masses, weights, ceiling

    def _given(self, exponents: Floats, side: float) -> Floats:
        """H(e^exponent; chi-square of `rows` times (1 + stretch), chi-square), rounded to one side.

        The lower end is 0 where what is subtracted leaves the range of doubles.
        """
        from scipy.special import gammaincc

        shifted = exponents - side * 2.0**-48 * (1 + np.abs(exponents))
        shape, point = self.rows / 2, np.maximum(shifted, 0.0) / self.stretch
        gained = gammaincc(shape, point)
        growth = np.exp(np.minimum(shifted, 700.0) - shape * math.log1p(self.stretch))
        tail = gammaincc(shape, (1 + self.stretch) * point)
        lost = growth * tail
        value = np.maximum(gained * (1 + side * _GAMMA_ERROR) - lost * (1 - side * _GAMMA_ERROR), 0.0)
        return value if side > 0 else np.where((shifted <= 700.0) & (tail > 1e-290), value, 0.0)

    def __str__(self) -> str:
        return f"{self.rows} rows of secret weights with eigenvalues 1 + {self.stretch:g} and 1 - {self.shrink:g}"


def constant(number: int) -> Counts:
    """Return the law of a number that is certain."""
    return Counts(np.array([float(number)]), np.ones(1)) if number else Counts(np.empty(0), np.empty(0), none=1.0)


def binomial(trials: int, probability: float) -> Counts:
    """Return the law of the number of noisy labels among `trials` independent ones; the probability in (0, 1]."""
    if probability == 1:
        return constant(trials)
    odds = probability / (1 - probability)
    mean = trials * probability
    return _law(lambda n: (trials - n) / (n + 1) * odds, 0, trials, mean, mean * (1 - probability))


def hypergeometric(population: int, noisy: int, draws: int) -> Counts:
    """Return the law of the number of noisy labels among `draws`, drawn without replacement from a population."""
    rest_of_bag = population - noisy - draws
    share = noisy / population if population else 0.0
    mean = draws * share
    return _law(
        lambda n: (noisy - n) * (draws - n) / ((n + 1) * (rest_of_bag + n + 1)),
        max(0, -rest_of_bag),
        min(noisy, draws),
        mean,
        mean * (1 - share),
    )


def _law(ratio: Callable[[Floats], Floats], low: int, high: int, mean: float, variance: float) -> Counts:
    """Return a law from the ratio of neighbors: products outwards from the middle, and nothing is subtracted.

    What lies further out than `reach` has a probability below 1e-300 (Bernstein's inequality).
    """
    reach = math.ceil(40 * math.sqrt(variance) + 1100)
    middle = min(max(math.floor(mean), low), high)
    first, last = max(low, middle - reach), min(high, middle + reach)
    up = np.cumprod(ratio(np.arange(middle, last, dtype=np.float64)))
    down = np.cumprod(1 / ratio(np.arange(middle - 1, first - 1, -1, dtype=np.float64)))
    masses = np.concatenate([down[::-1], [1.0], up])
    masses /= masses.sum()
    numbers = np.arange(first, last + 1, dtype=np.float64)
    none = float(masses[0]) if first == 0 else 0.0
    large = (masses >= _DROPPED_MASS) & (numbers > 0)
    dropped = float(masses[~large & (numbers > 0)].sum()) + 1e-300
    return Counts(numbers[large], masses[large], none, dropped)
