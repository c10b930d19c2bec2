"""Integer Gaussian noise: an exact sampler, what it reveals, and the smallest one that a promise needs."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.coins import Flags, Integers, WordStream, exp_coins, uniform
from labeldp.privacy import InputError, PrivacyLoss

MAX_STDDEV = 1 << 40
"""Larger noise, times the few hundred standard deviations that a sample can reach, might leave 64 bits."""

MIN_STDDEV = 3
SMOOTHING = 4
"""Variance that is given away in the proof: noise of variance v is as private as continuous noise of v - SMOOTHING."""

CELL_FAILURE = Fraction(1, 1 << 110)
"""What each integer adds to delta: how far the proof's noise is from the exact one, 2 exp(-2 pi^2 SMOOTHING) or so."""

MAX_CELLS = 1 << 20
"""Integers of one release."""

MIN_MU, MAX_MU = 2.0**-60, 2.0**10

_LIMB = 20


def discrete_gaussian(stream: WordStream, stddev: int) -> Integers:
    """Integers i with probability proportional to e^(-i^2 / (2 stddev^2)), exactly, shape (len(stream),).

    Args:
        stream: a cell for each integer.
        stddev: integer, 1 to `MAX_STDDEV`.

    Guarantee: each integer is drawn with its exact probability, whatever the others are.

    Source: Karney, Algorithm D for integer parameters, with coins of `exp_coins`; the law is that of Canonne, Kamath,
    Steinke (2020), Definition 1. Proof: `docs/proofs/cross_moment.md`.
    """
    if not 1 <= stddev <= MAX_STDDEV:
        raise InputError("the noise does not fit into 64 bits: take a larger epsilon or a coarser resolution")
    noise = np.zeros(len(stream), dtype=np.int64)
    open_cells = np.arange(len(stream))
    while open_cells.size:
        steps = _half_normal(stream, open_cells)
        rest = uniform(stream, open_cells, stddev)
        magnitudes = steps * stddev + rest
        kept = product_coins(stream, open_cells, rest, magnitudes + steps * stddev, Fraction(1, 2 * stddev**2))
        negative = uniform(stream, open_cells, 2).astype(np.bool_)
        kept &= ~(negative & (magnitudes == 0))  # A zero would be counted under both signs.
        noise[open_cells[kept]] = np.where(negative, -magnitudes, magnitudes)[kept]
        open_cells = open_cells[~kept]
    return noise


def _half_normal(stream: WordStream, cells: NDArray[np.intp]) -> Integers:
    """Integers k >= 0 with probability proportional to e^(-k^2 / 2), shape (len(cells),)."""
    drawn = np.zeros(len(cells), dtype=np.int64)
    open_cells = np.arange(len(cells))
    half = Fraction(1, 2)
    while open_cells.size:
        drawn[open_cells] = 0
        running = open_cells
        while running.size:
            running = running[exp_coins(stream, cells[running], np.ones(len(running), dtype=np.int64), half)]
            drawn[running] += 1
        tried = drawn[open_cells]
        open_cells = open_cells[~exp_coins(stream, cells[open_cells], tried * (tried - 1), half)]
    return drawn


def product_coins(stream: WordStream, cells: NDArray[np.intp], one: Integers, other: Integers, unit: Fraction) -> Flags:
    """Coins that are true with probability exactly e^(-unit * one * other), shape (len(cells),).

    The product is a sum of three products of shorter integers, so it may have 100 bits; a coin of a sum is a coin
    of each term in turn.

    Args:
        one: integers 0 to 2**40.
        other: integers 0 to 2**50.
        unit: positive.
    """
    high, low = one >> _LIMB, one & ((1 << _LIMB) - 1)
    above, below = other >> _LIMB, other & ((1 << _LIMB) - 1)
    heads: Flags = power_coins(stream, cells, high * above, unit * (1 << 2 * _LIMB))
    for exponents, factor in ((high * below + low * above, unit * (1 << _LIMB)), (low * below, unit)):
        alive = np.flatnonzero(heads)
        heads[alive] = power_coins(stream, cells[alive], exponents[alive], factor)
    return heads


def power_coins(stream: WordStream, cells: NDArray[np.intp], exponents: Integers, unit: Fraction) -> Flags:
    """Coins that are true with probability exactly e^(-unit * exponent): one coin for each binary digit of it.

    `exp_coins` bounds one exponential for each distinct exponent, this one for each digit: use it where the exponents
    are many and different.

    Args:
        exponents: non-negative integers, shape (len(cells),).
        unit: positive.
    """
    heads: Flags = np.ones(len(cells), dtype=np.bool_)
    top = int(exponents.max(initial=0)).bit_length()
    for digit in range(top - 1, -1, -1):
        asked = np.flatnonzero(heads & ((exponents >> digit) & 1).astype(np.bool_))
        if asked.size:
            heads[asked] = exp_coins(stream, cells[asked], np.ones(len(asked), dtype=np.int64), unit * (1 << digit))
    return heads


def gaussian_loss(sensitivity_square: int, stddev: int, cells: int) -> PrivacyLoss:
    """What `cells` integers reveal of an integer vector that moves by at most a given length.

    Args:
        sensitivity_square: squared Euclidean length of the largest move.
        stddev: of `discrete_gaussian`, added to each integer; at least `MIN_STDDEV`.
        cells: how many integers.

    Guarantee: the loss dominates that of the exact integer noise for every pair of vectors so close.

    Source: `docs/proofs/cross_moment.md`: mu = sensitivity / sqrt(stddev^2 - SMOOTHING), and `CELL_FAILURE` each.
    """
    square = Fraction(sensitivity_square, stddev**2 - SMOOTHING)
    mu = math.sqrt(square)
    while Fraction(mu) ** 2 < square:
        mu = math.nextafter(mu, math.inf)
    return PrivacyLoss.gaussian(mu) + PrivacyLoss.failure(cells * CELL_FAILURE)


def gaussian_law(stddev: int, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]) for `discrete_gaussian`."""
    support = np.arange(-12 * stddev, 12 * stddev + 1)
    masses = np.exp(-0.5 * (support / stddev) ** 2)
    return np.bincount(np.searchsorted(edges, support), weights=masses, minlength=len(edges) + 1) / masses.sum()


def largest_mu(epsilon: Fraction, delta: Fraction) -> float:
    """The mu of the largest Gaussian loss that keeps (epsilon, delta) beside the failure of `MAX_CELLS` integers.

    It depends on nothing else: a charge of this loss is fixed before earlier outputs may decide what is summed.
    """
    low, high = 0.0, MAX_MU
    while high - low > 1e-9 * high and high > MIN_MU:
        middle = (low + high) / 2
        low, high = (middle, high) if loss_of(middle).within(epsilon, delta) else (low, middle)
    if not low:
        raise InputError("epsilon or delta is too small for integer noise of 64 bits: take larger ones")
    return low


def loss_of(mu: float) -> PrivacyLoss:
    """A Gaussian loss, and the failure of `MAX_CELLS` integers."""
    return PrivacyLoss.gaussian(mu) + PrivacyLoss.failure(MAX_CELLS * CELL_FAILURE)


def stddev_within(sensitivity_square: int, mu: float) -> int:
    """The smallest integer standard deviation at which `gaussian_loss` has at most this mu.

    Raises:
        InputError: it does not fit into 64 bits.
    """
    stddev = max(math.isqrt(math.ceil(sensitivity_square / Fraction(mu) ** 2) + SMOOTHING - 1) + 1, MIN_STDDEV)
    if stddev > MAX_STDDEV:
        raise InputError("epsilon or delta is too small for integer noise of 64 bits: take a coarser resolution")
    return stddev


def smallest_stddev(sensitivity_square: int, cells: int, epsilon: Fraction, delta: Fraction) -> int:
    """The smallest integer standard deviation that keeps (epsilon, delta), by bisection.

    Raises:
        InputError: no noise that fits into 64 bits does.

    Source: Balle and Wang (2018), Algorithm 1, for the continuous part of `gaussian_loss`.
    """
    if not gaussian_loss(sensitivity_square, MAX_STDDEV, cells).within(epsilon, delta):
        raise InputError("epsilon or delta is too small for integer noise of 64 bits: take a coarser resolution")
    low, high = MIN_STDDEV - 1, MAX_STDDEV
    while high - low > 1:
        middle = (low + high) // 2
        fits = gaussian_loss(sensitivity_square, middle, cells).within(epsilon, delta)
        low, high = (low, middle) if fits else (middle, high)
    return high
