"""How many noisy labels a bag has: laws of a number, and what they mean for a random weight."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DROPPED = 1e-100
_CHUNK = 1 << 21


@dataclass(frozen=True)
class Counts:
    """The law of a number of noisy labels: each positive number that matters, with its probability.

    Args:
        numbers: positive integers, consecutive, shape (r,).
        masses: their probabilities, relative error below 1e-11, shape (r,).
        none: the probability of zero.
        dropped: the probability of all others, at most.
    """

    numbers: Floats = field(repr=False)
    masses: Floats = field(repr=False)
    none: float = 0.0
    dropped: float = 0.0

    def fewer(self) -> "Counts":
        """The law of one less, where every number is at least two."""
        return Counts(self.numbers - 1, self.masses, self.none, self.dropped)

    def survival(self, points: Floats) -> Floats:
        """P(|w| > t |v|) for each t > 0, w standard normal and v one of so many dimensions, shape as `points`.

        For n dimensions it is the same as for n + 2 and a positive term, so the sum over the law needs the incomplete
        beta function at its two ends only. Zero dimensions are left out.

        Source: `docs/proofs/aggregation.md`, equation (3).
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
        """The terms between n dimensions and n + 2, each as often as the law asks, shape as `points`."""
        from scipy.special import poch

        factors = sums * poch(self.numbers / 2 + 1, -0.5) / math.sqrt(math.pi)
        logs = -0.5 * np.log1p(points**2)
        total = np.zeros(len(points))
        for start in range(0, len(self.numbers), max(1, _CHUNK // len(points))):
            part = slice(start, start + max(1, _CHUNK // len(points)))
            total += factors[part] @ np.exp(self.numbers[part, None] * logs)
        return total * np.sqrt(share)


def constant(number: int) -> Counts:
    """Always the same positive number."""
    return Counts(np.array([float(number)]), np.ones(1))


def binomial(trials: int, probability: float) -> Counts:
    """How many of `trials` independent labels are noisy; the probability of each in (0, 1]."""
    if probability == 1:
        return constant(trials) if trials else Counts(np.empty(0), np.empty(0), none=1.0)
    odds = probability / (1 - probability)
    mean = trials * probability
    return _law(lambda n: (trials - n) / (n + 1) * odds, 0, trials, mean, mean * (1 - probability))


def hypergeometric(population: int, noisy: int, draws: int) -> Counts:
    """How many of `draws` labels are noisy, drawn without replacement from a population with so many noisy ones."""
    others = population - noisy - draws
    share = noisy / population if population else 0.0
    mean = draws * share
    return _law(
        lambda n: (noisy - n) * (draws - n) / ((n + 1) * (others + n + 1)),
        max(0, -others),
        min(noisy, draws),
        mean,
        mean * (1 - share),
    )


def _law(ratio: Callable[[Floats], Floats], low: int, high: int, mean: float, variance: float) -> Counts:
    """A law from the ratio of neighbors: products outwards from the middle, and nothing is subtracted.

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
    kept = (masses >= _DROPPED) & (numbers > 0)
    dropped = float(masses[~kept & (numbers > 0)].sum()) + 1e-300
    return Counts(numbers[kept], masses[kept], none, dropped)
