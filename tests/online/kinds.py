"""Both kinds of learners that are charged before they play, small and simulated."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.online import Ball, methods_of

D, T = 3, 200

BUDGET = ldp.Budget(1, 1e-6)


@dataclass(frozen=True)
class Kind:
    """A class of learners, how one is made, and losses for it."""

    learner: Any
    first: Any
    methods: tuple[str, ...]
    losses: Callable[..., np.ndarray]

    def made(self, seed: int = 0, **changed: Any) -> Any:
        """A simulated learner; `rng=None` for a real one."""
        arguments = {"horizon": T, "epsilon": 1, "delta": 1e-6, "rng": np.random.default_rng(seed)}
        return self.learner(self.first, **{**arguments, **changed})

    def resumed(self, state: Any, seed: int = 5, **changed: Any) -> Any:
        """A simulated learner that goes on."""
        return self.learner.from_state_dict(state, **{"rng": np.random.default_rng(seed), **changed})


def losses(rounds: int, seed: int = 1) -> np.ndarray:
    """Of experts, in [0, 1]."""
    return np.random.default_rng(seed).random((rounds, D))


def gradients(rounds: int, seed: int = 1) -> np.ndarray:
    """No longer than 1."""
    return losses(rounds, seed) / 2


KINDS = {
    "experts": Kind(ldp.online.PrivateExperts, D, tuple(methods_of("experts")), losses),
    "points": Kind(ldp.online.PrivateOnlineConvex, Ball(D, 0.5), tuple(methods_of("convex"))[:-1], gradients),
}
