"""Rates with exact confidence, and what a number of right guesses says of epsilon."""

import math
from typing import Any

import numpy as np

from labeldp.privacy import Floats, InputError

LEVEL = 0.95


def rate_below(hits: Any, trials: Any, miss: float) -> Any:
    """Return a lower bound of a binomial rate, which is above the rate with probability `miss` at most.

    Source: Clopper.
    """
    from scipy.special import betaincinv

    hits, trials = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, miss), 0.0)


def rate_above(hits: Any, trials: Any, miss: float) -> Any:
    """Return an upper bound of a binomial rate, which is below the rate with probability `miss` at most.

    Source: Clopper.
    """
    return 1 - rate_below(np.asarray(trials) - np.asarray(hits), trials, miss)


def check_level(level: Any) -> float:
    """Return a confidence level in (0, 1) as a float; raise InputError for any other."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError("must lie between 0 and 1, such as 0.95", argument="level")
    return float(level)


def epsilon_of_rates(first: float, second: float, delta: float) -> float:
    """Return the epsilon that one event needs at least whose two rates are at least `first` and at most `second`."""
    if first - delta <= 0:
        return 0.0
    return math.inf if second <= 0 else max(0.0, math.log((first - delta) / second))


def guess_bound(
    right: int, guesses: int, *, miss: float = 1 - LEVEL, delta: float = 0.0, secrets: int | None = None, of: int = 2
) -> float:
    """Return a lower bound of epsilon from how many labels were guessed, which fails with probability `miss` at most.

    Each secret is one of `of` labels, drawn uniformly and independently of the others; the guesser saw everything but
    the draws and the labels, and might abstain. Then a guess is right with probability e^epsilon / (e^epsilon + of - 1)
    at most, whatever the others are, so that the number of right ones is below a binomial number.

    Args:
        right: guesses that were right.
        guesses: how many were made; chosen without a look at what is right.
        miss: the probability that the bound is above the true epsilon.
        delta: of the claim; above 0 only between two labels.
        secrets: labels that were drawn, guessed or not; `guesses` by default.
        of: labels between which was drawn.

    Guarantee (bound): for an (epsilon, delta)-DP mechanism the bound is above epsilon with probability `miss` at most.

    Raises:
        InputError: counts that cannot be, or a delta with more than two labels.

    Source: SteinkeAudit, Theorem 5.2, for two labels; `docs/proofs/audit.md` for more of them.

    Examples:
        >>> round(guess_bound(90, 100), 2)
        1.63
    """
    many = guesses if secrets is None else secrets
    if not 0 <= right <= guesses <= many or of < 2:
        raise InputError("must lie in 0 <= right <= guesses <= secrets", argument="guesses")
    if not 0 <= delta < 1 or (delta > 0 and of > 2):
        raise InputError("must lie in [0, 1), and be 0 where more than two labels are drawn from", argument="delta")
    if not delta:
        share = float(rate_below(right, max(guesses, 1), miss))
        return math.inf if share >= 1 else max(0.0, math.log(max((of - 1) * share / (1 - share), 1.0)))
    if not guesses or _p_value(right, guesses, 0.0, delta, many) > miss:
        return 0.0
    low, high = 0.0, 1.0
    while _p_value(right, guesses, high, delta, many) <= miss and high < 60:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _p_value(right, guesses, middle, delta, many) <= miss else (low, middle)
    return low


def _p_value(right: int, guesses: int, epsilon: float, delta: float, secrets: int) -> float:
    """Return a bound of the probability of so many right guesses between two labels under (epsilon, delta)-DP."""
    from scipy.stats import binom

    share = 1 / (1 + math.exp(-epsilon))
    # What delta adds: the largest mean mass of a window of counts just below the one that was seen.
    masses = binom.pmf(np.arange(right - 1, -1, -1), guesses, share)
    windows = np.cumsum(masses) / np.arange(1, right + 1) if right else np.zeros(1)
    return min(1.0, float(binom.sf(right - 1, guesses, share)) + 2 * secrets * delta * float(windows.max()))


def best_cut(one: Floats, two: Floats, miss: float, delta: float) -> tuple[float, float]:
    """Return the score from which on an event begins that tells two laws apart best, and what it promises.

    Args:
        one, two: scores of outputs of both laws, high where the first is likelier.
        miss, delta: as for the bound that will be computed on other outputs.
    """
    cuts = np.unique(np.concatenate([one, two]))
    if len(cuts) > 4096:
        cuts = cuts[np.linspace(0, len(cuts) - 1, 4096).astype(int)]
    firsts, seconds = (len(each) - np.searchsorted(np.sort(each), cuts) for each in (one, two))
    low, high = rate_below(firsts, len(one), miss / 2), rate_above(seconds, len(two), miss / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), 0.0)
    best = int(np.argmax(found))
    return float(cuts[best]), float(found[best])
