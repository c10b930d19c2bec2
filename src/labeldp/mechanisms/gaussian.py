"""Integer Gaussian noise: an exact sampler, what it reveals, and the smallest one that a promise needs."""

import math
from fractions import Fraction

from labeldp.privacy import Argument, InputError, PrivacyLoss, largest
from labeldp.sampling import MAX_CELLS, MAX_STDDEV, MIN_STDDEV, SMOOTHING

CELL_FAILURE = Fraction(1, 1 << 110)
"""What each integer adds to delta: how far the proof's noise is from the exact one, 2 exp(-2 pi^2 SMOOTHING) or so."""

MIN_MU, MAX_MU = 2.0**-60, 2.0**10


def gaussian_loss(sensitivity_square: int, stddev: int, cells: int) -> PrivacyLoss:
    """Return what `cells` integers reveal of an integer vector that moves by at most a given length.

    Args:
        sensitivity_square: squared Euclidean length of the largest move.
        stddev: of `discrete_gaussian`, added to each integer; at least `MIN_STDDEV`.
        cells: how many integers.

    Guarantee (dominates): the loss dominates that of the exact integer noise for every pair of vectors so close.

    Source: `docs/proofs/cross_moment.md`: mu = sensitivity / sqrt(stddev^2 - SMOOTHING), and `CELL_FAILURE` each.
    """
    square = Fraction(sensitivity_square, stddev**2 - SMOOTHING)
    mu = math.sqrt(square)
    while Fraction(mu) ** 2 < square:
        mu = math.nextafter(mu, math.inf)
    return PrivacyLoss.gaussian(mu) + PrivacyLoss.failure(cells * CELL_FAILURE)


def largest_mu(epsilon: Fraction, delta: Fraction) -> float:
    """The mu of the largest Gaussian loss that keeps (epsilon, delta) beside the failure of `MAX_CELLS` integers.

    It depends on nothing else: a charge of this loss is fixed before earlier outputs may decide what is summed.
    """
    mu = largest(lambda mu: loss_of(mu).within(epsilon, delta), 0.0, MAX_MU, tol=1e-9, least=MIN_MU)
    if not mu:
        raise _too_small("take larger ones")
    return mu


def loss_of(mu: float) -> PrivacyLoss:
    """A Gaussian loss, and the failure of `MAX_CELLS` integers."""
    return PrivacyLoss.gaussian(mu) + PrivacyLoss.failure(MAX_CELLS * CELL_FAILURE)


def stddev_within(sensitivity_square: int, mu: float) -> int:
    """Return the smallest integer standard deviation at which `gaussian_loss` has at most this mu.

    Raises:
        InputError: it does not fit into 64 bits.
    """
    stddev = max(math.isqrt(math.ceil(sensitivity_square / Fraction(mu) ** 2) + SMOOTHING - 1) + 1, MIN_STDDEV)
    if stddev > MAX_STDDEV:
        raise _too_small("take a coarser resolution")
    return stddev


def smallest_stddev(sensitivity_square: int, cells: int, epsilon: Fraction, delta: Fraction) -> int:
    """Return the smallest integer standard deviation that keeps (epsilon, delta), by bisection.

    Raises:
        InputError: no noise that fits into 64 bits does.

    Source: Balle and Wang (2018), Algorithm 1, for the continuous part of `gaussian_loss`.
    """
    if not gaussian_loss(sensitivity_square, MAX_STDDEV, cells).within(epsilon, delta):
        raise _too_small("take a coarser resolution")
    # Not `smallest_integer`: where rounding blurs the border, its other path gives another integer, and other noise.
    low, high = MIN_STDDEV - 1, MAX_STDDEV
    while high - low > 1:
        middle = (low + high) // 2
        fits = gaussian_loss(sensitivity_square, middle, cells).within(epsilon, delta)
        low, high = (low, middle) if fits else (middle, high)
    return high


def _too_small(advice: str) -> InputError:
    problem = f" is too small for integer noise of 64 bits: {advice}"
    return InputError(Argument("epsilon"), " or ", Argument("delta"), problem)
