"""Releases of made-up labels, with seeded noise."""

from typing import Any

import numpy as np

import labeldp as ldp


def released(labels: Any, mechanism: Any, seed: int = 0, users: Any = None) -> Any:
    """What a curator of these labels releases; the certificate calls it a simulation."""
    curator = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(epsilon=9))
    return curator.release(mechanism, rng=np.random.default_rng(seed))


def response(classes: Any = 2, epsilon: float = 1.0) -> Any:
    """Randomized response."""
    return ldp.RandomizedResponse(domain=ldp.Classes(classes), epsilon=epsilon)


SURE = 1 - 1e-6
"""A level at which a seeded test of one release does not fail by chance."""


def held(estimate: Any, truth: Any) -> bool:
    """Whether all intervals hold the truth."""
    return bool(np.all((np.asarray(estimate.low) <= truth) & (truth <= np.asarray(estimate.high))))
