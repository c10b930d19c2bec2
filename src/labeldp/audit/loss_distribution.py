"""The privacy loss distribution of a certificate, in the form that dp-accounting reads."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

from labeldp.privacy import (
    MOST_CONVOLUTIONS,
    SMALLEST,
    Certificate,
    Floats,
    InputError,
    PrivacyLoss,
    Promise,
    RandomnessKind,
    Trust,
    convolutions,
    decimal,
    failures,
    float_above,
    loss_lattice,
    promised,
    rounded_up_text,
    total_mu,
)

FORMAT = "labeldp privacy loss 1"

TOLERANCE = 8e-10
"""How far a straight line in e^epsilon between two thresholds may lie above the curve."""

RELATIVE_TOLERANCE = 0.01
"""The same as a share of delta, for tails."""

FIRST_THRESHOLDS, CELLS = 1 << 9, 1 << 19
"""Thresholds of a curve at first, and the cells of its lattice: thresholds are multiples of a cell."""

LARGEST_LOSS, NEGLIGIBLE_DELTA = 600.0, 1e-20

_CDF_ERROR, _ROUNDING = 1e-12, 1e-11

Curve = Callable[[Floats], Floats]
"""An upper bound of delta at each epsilon >= 0, shape as given."""


def loss_distributions(certificate: Certificate, delta: Any) -> dict[str, Any]:
    """Return the privacy loss distributions of what a certificate guarantees at one delta, as JSON values.

    A record has one of them; with several, which one depends on the part of the records that it is in. Their fields are
    the arguments of `create_from_rounded_probability` in dp-accounting. It then gives, at every epsilon >= 0, a delta
    between that of the certificate and 1e-9 more; of a single release of secret bags or weights, the delta at which
    several of them are composed. A delta above 1 counts as 1, since failures are added.

    A guarantee of several releases that is a sum of pure costs or a budget has no joint curve. Its distribution is that
    of the worst mechanism with this epsilon and delta.

    Args:
        certificate: of a release with a guarantee.
        delta: in [0, 1]; the one at which the guarantee is read.

    Raises:
        InputError: there is no guarantee at this delta.
    """
    promise = promised(certificate.entries, delta)
    nothing = certificate.trust is Trust.NONE or certificate.randomness is RandomnessKind.SIMULATION
    losses = [] if nothing else [loss for part in (promise, *promise.others) for loss in _losses(part)]
    if not losses:
        raise InputError(f"the certificate guarantees nothing at delta = {delta}: it has no privacy loss distribution")
    return {
        "format": FORMAT,
        "neighbors": certificate.neighbors.name,
        "trust": certificate.trust.name,
        "delta": str(decimal(delta, "delta")),
        "epsilon": None if math.isinf(promise.epsilon) else rounded_up_text(promise.epsilon),
        "distributions": [loss_distribution(loss) for loss in dict.fromkeys(losses)],
    }


def _losses(promise: Promise) -> tuple[PrivacyLoss, ...]:
    """Return losses that dominate a guarantee; none where nothing is guaranteed."""
    if promise.kind == "block":
        return promise.blocks[0].loss.losses if promise.blocks else (PrivacyLoss.zero(),)
    if promise.epsilon == math.inf:
        return ()
    delta = promise.delta if promise.kind == "budget" else 0
    return (PrivacyLoss.approximate(promise.epsilon, delta) if promise.epsilon else PrivacyLoss.failure(delta),)


def loss_distribution(loss: PrivacyLoss) -> dict[str, Any]:
    """Return one privacy loss distribution, which dominates the outputs in both orders of two labels."""
    failure, mu = float_above(failures(loss.atoms)), total_mu(loss.atoms)
    too_many = InputError("the releases are too many to compose: read one of them, or the budget of their account")
    if convolutions(loss.atoms) > MOST_CONVOLUTIONS:
        raise too_many
    lattice = loss_lattice(loss.atoms)
    if math.isinf(lattice.most):
        raise too_many
    if mu:
        step, cells, masses, tail = _connected(_with_gaussian(lattice, mu))
    else:
        cells = lattice.first + np.flatnonzero(lattice.masses)
        masses = lattice.masses[lattice.masses > 0] * lattice.most
        # Two steps above the nearest double: no product with a count of cells is rounded below the loss.
        step, tail = math.nextafter(math.nextafter(float_above(lattice.step), math.inf), math.inf), lattice.lost
    return {
        "value_discretization_interval": step,
        "infinity_mass": min(1.0, tail + failure),
        "pessimistic_estimate": True,
        "symmetric": True,
        "rounded_probability_mass_function": {
            str(cell): float(f"{mass * (1 + _ROUNDING):.11e}")  # up, in fewer digits
            for cell, mass in zip(cells.tolist(), masses.tolist(), strict=True)
            if mass > 0
        },
    }


def _with_gaussian(lattice: Any, mu: float) -> Curve:
    """Return the curve of finite atoms and a Gaussian: the Gaussian's curve at each of their losses."""
    masses, losses = lattice.masses[lattice.masses > 0], lattice.losses()[lattice.masses > 0]

    def curve(epsilons: Floats) -> Floats:
        deltas = np.full(epsilons.shape, lattice.lost + SMALLEST)
        for mass, value in zip(masses.tolist(), losses.tolist(), strict=True):
            gaps = epsilons - value - 2.0**-50 * (np.abs(epsilons) + abs(value))
            gained, missed = ndtr(mu / 2 - gaps / mu), np.exp(gaps) * ndtr(-mu / 2 - gaps / mu)
            deltas += mass * lattice.most * np.maximum(gained * (1 + _CDF_ERROR) - missed * (1 - _CDF_ERROR), 0.0)
        return deltas

    return curve


def _connected(curve: Curve) -> tuple[float, Any, Floats, float]:
    """Return step, cells, masses and infinite mass of straight lines between points of a curve: they lie above it.

    Below epsilon = 0 the curve is that of the exchanged laws. Thresholds are added until lines and curve are close.

    Source: Doroshenko, Algorithm 1.
    """
    top = 1.0
    while top < LARGEST_LOSS and curve(np.array([top]))[0] > NEGLIGIBLE_DELTA:
        top *= 1.25
    step = 2.0 ** math.floor(math.log2(top / CELLS))
    cells = np.unique(np.linspace(0, math.ceil(top / step), FIRST_THRESHOLDS + 1).astype(np.int64))
    deltas = curve(np.multiply(cells, step, dtype=np.float64))
    while True:
        middle = (cells[:-1] + cells[1:]) // 2
        share = np.expm1((middle - cells[:-1]) * step) / np.expm1((cells[1:] - cells[:-1]) * step)
        read = curve(np.multiply(middle, step, dtype=np.float64))
        above = deltas[:-1] * (1 - share) + deltas[1:] * share - read
        wide = (above > np.minimum(TOLERANCE, RELATIVE_TOLERANCE * read)) & (middle > cells[:-1])
        wide &= deltas[:-1] > NEGLIGIBLE_DELTA
        if not wide.any():
            break
        order = np.argsort(np.concatenate([cells, middle[wide]]), kind="stable")
        cells = np.concatenate([cells, middle[wide]])[order]
        deltas = np.concatenate([deltas, read[wide]])[order]
    losses = cells * step
    below = -np.expm1(-losses[:0:-1]) + np.exp(-losses[:0:-1]) * deltas[:0:-1]
    cells, deltas = np.concatenate([-cells[:0:-1], cells]), np.concatenate([below, deltas])
    growths = np.exp(cells * step)
    slopes = -np.diff(np.concatenate([[1.0], deltas])) / np.diff(np.concatenate([[0.0], growths]))
    steepest = np.maximum.accumulate(np.concatenate([np.maximum(slopes, 0.0), [0.0]])[::-1])[::-1]
    masses = (steepest[:-1] - steepest[1:]) * growths
    return step, cells, masses, float(deltas[-1])
