"""Leaders on noisy sums of gradients (DP-FTRL), and their regret."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, final

import numpy as np

from labeldp.online.convex.base import Body, ConvexKernel, real
from labeldp.online.planning import ConvexTask, OnlinePlan, convex_plan
from labeldp.online.prefix_sums import (
    GaussianTree,
    HasRounds,
    LaplaceTree,
    NoisyPrefixSums,
    ToeplitzSums,
    smallest_stddev,
)
from labeldp.online.snapshots import KernelState
from labeldp.privacy import Floats, InputError, PrivacyLoss, Randomness, Unit, check_loss_neighbors, set_fields

S = TypeVar("S", bound=HasRounds)


@final
@dataclass(frozen=True)
class LeaderState(KernelState, Generic[S]):
    """Between two rounds: the state of the noisy sums, secret, and the point of the coming round."""

    sums: S
    point: Floats

    def __repr__(self) -> str:
        return f"LeaderState(rounds={self.sums.rounds}, dimension={len(self.point)})"


@final
@dataclass(frozen=True)
class NoisyLeader(ConvexKernel[LeaderState[Any]]):
    """Plays the projection of center - rate · (sum of all gradients, under noise): DP-FTRL.

    Gradients may be those of any convex loss at the point that was played. The noisy sums are charged; points follow
    from them. With `ToeplitzSums` the noise hardly grows with the horizon; with `GaussianTree`, the older method, it is
    several times as large.

    Args:
        body: where points lie.
        lipschitz: no gradient is longer.
        rate: positive; `linear_rate` and `convex_rate` give those with the least bounds of regret.
        sums: the noisy sums of as many numbers as the body has dimensions, of gradients divided by `lipschitz`, with
            Gaussian noise: gradients are bounded in Euclidean length, which Laplace noise does not pay for.
        neighbors: `Unit.ONE_LOSS` or `Unit.ZERO_OUT`.

    Guarantee (post_processing): all points together are post-processing of the noisy sums, of which one round's vector
        is replaced by another at a distance of at most 2, or by zero within a distance of 1, also where gradients
        depend on points.

    Source: Thakkar, Algorithm 1, for the tree; Denisov (2022), Theorem 2.1, for noise from a lower
    triangular factor and gradients that depend on points. Proof: `docs/proofs/online-convex.md`.

    Examples:
        >>> from labeldp.online import Ball, ToeplitzSums
        >>> body = Ball(dimension=2, radius=1.0)
        >>> kernel = NoisyLeader(body, lipschitz=1.0, rate=0.1, sums=ToeplitzSums(100, 2, stddev=20.0))
        >>> state = kernel.init(rng=np.random.default_rng(0))
        >>> state, points = kernel.update(state, np.full((100, 2), 0.5), rng=np.random.default_rng(0))
        >>> state, points.shape
        (LeaderState(rounds=100, dimension=2), (100, 2))
    """

    body: Body
    lipschitz: float
    rate: float
    sums: NoisyPrefixSums[Any]
    neighbors: Unit = Unit.ONE_LOSS

    def __post_init__(self) -> None:
        numbers = {name: real(getattr(self, name), name) for name in ("lipschitz", "rate")}
        set_fields(self, neighbors=check_loss_neighbors(self.neighbors), **numbers)
        if self.sums.width != self.body.dimension:
            raise InputError(f"sums must have a width of {self.body.dimension}, the dimension of the body")
        if isinstance(self.sums, LaplaceTree):
            raise InputError("sums must have Gaussian noise, such as those of ToeplitzSums or GaussianTree")

    @property
    def horizon(self) -> int:  # type: ignore[override]
        """Most rounds."""
        return self.sums.horizon

    def init(self, *, rng: Randomness) -> LeaderState[Any]:
        return LeaderState(self.sums.init(), self.body.center)

    def predict(self, state: LeaderState[Any]) -> Floats:
        return state.point

    def update(self, state: LeaderState[Any], gradients: Any, *, rng: Randomness) -> tuple[LeaderState[Any], Floats]:
        self.check_rounds(state.sums.rounds, len(gradients))
        vectors = np.clip(gradients / self.lipschitz, -1, 1)
        within, sums = self.sums.step(state.sums, vectors, rng=rng)
        next_points = self.body.center + self.body.project(-self.rate * self.lipschitz * sums)
        points = np.concatenate([state.point[np.newaxis], next_points])
        return LeaderState(within, points[-1]), points[:-1]

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return the loss of the sums so far."""
        return self.sums.privacy_loss(self.sensitivity / self.lipschitz * (1 + 2.0**-50), rounds)


def linear_regret(body: Body, horizon: int, lipschitz: float, rate: float, deviation: float) -> float:
    """Return a bound of expected regret on linear losses that do not depend on the points, against any fixed point.

    R² / (2 rate) + (rate / 2) (T L² + d s²), where s is the standard deviation of the last sum's noise: it holds if no
    sum has less noise than the one before.

    Args:
        deviation: s, of a sum of gradients.

    Source: `docs/proofs/online-convex.md`, equation (1).
    """
    noise = body.dimension * deviation**2
    return body.radius**2 / (2 * rate) + rate / 2 * (horizon * lipschitz**2 + noise)


def linear_rate(body: Body, horizon: int, lipschitz: float, deviation: float) -> float:
    """Return the rate with the least `linear_regret`, which is then R sqrt(T L² + d s²)."""
    return body.radius / math.hypot(math.sqrt(horizon) * lipschitz, math.sqrt(body.dimension) * deviation)


def convex_regret(body: Body, horizon: int, lipschitz: float, rate: float, deviation: float) -> float:
    """Return a bound of expected regret on convex losses that may depend on the points, against any fixed point.

    R² / (2 rate) + (rate / 2) T L (L + 2 s sqrt d), where s is the largest standard deviation of a sum's noise.

    Source: `docs/proofs/online-convex.md`, equation (2).
    """
    slope = lipschitz * (lipschitz + 2 * deviation * math.sqrt(body.dimension))
    return body.radius**2 / (2 * rate) + rate / 2 * horizon * slope


def convex_rate(body: Body, horizon: int, lipschitz: float, deviation: float) -> float:
    """Return the rate with the least `convex_regret`, which is then R sqrt(T L (L + 2 s sqrt d))."""
    slope = lipschitz * (lipschitz + 2 * deviation * math.sqrt(body.dimension))
    return body.radius / math.sqrt(horizon * slope)


def plan_leader(task: ConvexTask, method: str) -> OnlinePlan:
    """Plan noise on sums of gradients. The bound for linear losses needs noise that never falls, unlike a tree's."""
    kind = ToeplitzSums if method == "matrix-factorization" else GaussianTree
    make = partial(kind, task.horizon, task.body.dimension)
    sums = make(smallest_stddev(make, task.reach * (1 + 2.0**-40), task.epsilon, task.delta))
    linear = task.linear and method != "tree"
    regret, rate = (linear_regret, linear_rate) if linear else (convex_regret, convex_rate)
    deviation = sums.deviation * task.lipschitz
    best = rate(*task.sizes, deviation)
    kernel = NoisyLeader(task.body, task.lipschitz, best, sums, task.neighbors)
    return convex_plan(task, method, regret(*task.sizes, best, deviation), kernel)
