"""`PrivateOnlineConvex`: private learning from convex losses, with a plan and a ledger."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

from labeldp.online.charging import ChargedLearner, OnlineLedger, RoundsMechanism
from labeldp.online.convex.base import Body, checked_gradients, finite_array
from labeldp.online.convex.gradient import NoisyLeader
from labeldp.online.convex.planning import ConvexPlan, plan_convex
from labeldp.online.convex.regularized import NEEDS_SAMPLER, SampledWeights, Sampler
from labeldp.privacy import Budget, Certificate, Floats, InputError, PrivacyLoss, RandomnessKind, RandomSource

Gradient = Callable[[Floats], Any]


@final
class PrivateOnlineConvex(ChargedLearner):
    """Privately plays a point in every round, before it sees the convex loss of that round.

    The plan is made and the whole horizon charged before the first point, both from the arguments alone. Only the
    sequence of points is released; everything else is as secret as the losses. There are no snapshots: a learner lives
    as long as its process.

    Args:
        body: where points lie: `Space`, `Box` or `Ball`.
        horizon: the number of rounds; it must be known.
        epsilon, delta: privacy parameters, positive.
        lipschitz: no gradient is longer, in Euclidean length.
        method: see `plan_convex`.
        losses: "linear", or "convex" for gradients at the points that were played.
        neighbors: "replace" protects a round's loss against all others, "zero-out" against none at all.
        clip: scale longer gradients down instead of refusing them.
        sampler: for method "sampler": draws for general convex losses, with its total variation stated.
        rng: `SystemRandomness()`, or a numpy generator for a simulation.
        ledger: charged in the place of a new one with just this budget, such as `LedgerFile(path).dataset(name)`.
        dataset: the name of the losses in a new ledger.

    Guarantee: the guarantee of all rounds is charged before the first point is drawn; the first point that an update
        returns is the one that the learner showed before; of gradients that are refused nothing is used.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged and nothing drawn.

    Examples:
        >>> import numpy as np
        >>> from labeldp.online import Ball
        >>> learner = PrivateOnlineConvex(Ball(3, 1.0), horizon=1000, epsilon=1, delta=1e-6)
        >>> played = learner.update(np.random.default_rng(0).uniform(-0.5, 0.5, (999, 3)))
        >>> learner.update(lambda point: (point - 0.1) / 2).shape
        (1, 3)
        >>> learner.certificate.loss.epsilon(1e-6) <= 1
        True
    """

    _why_no_copy = (
        f"{ChargedLearner._why_no_copy}. There are no snapshots of PrivateOnlineConvex, so that it lives as long as "
        "its process"
    )

    def __init__(
        self,
        body: Body,
        horizon: int,
        epsilon: Any,
        delta: Any,
        lipschitz: Any = 1.0,
        method: str = "auto",
        losses: str = "linear",
        neighbors: str = "replace",
        *,
        clip: bool = False,
        sampler: Sampler | None = None,
        rng: RandomSource | None = None,
        ledger: OnlineLedger | None = None,
        dataset: str = "losses",
    ) -> None:
        self._plan = plan_convex(body, horizon, epsilon, delta, lipschitz, method, losses, neighbors, sampler)
        self._kernel, self._clip = self._plan.kernel, clip
        self._begin(rng, ledger, Budget(epsilon, delta), dataset)
        plan = self._plan.to_json()
        self._mechanism = RoundsMechanism(self._kernel, horizon, plan, secrets.token_hex(8), name="PrivateOnlineConvex")
        self._receipt = self._mechanism.pay(self._ledger, self._rng)
        self._state = self._kernel.init(rng=self._rng)

    @property
    def plan(self) -> ConvexPlan:
        """The method, its parameters, its regret bound and alternatives."""
        return self._plan

    @property
    def certificate(self) -> Certificate:
        """The certificate of the charge: it covers all rounds of the horizon."""
        simulated = self._rng.kind is RandomnessKind.SIMULATION
        return replace(self._receipt, randomness=self._rng.kind) if simulated else self._receipt

    @property
    def spent(self) -> PrivacyLoss:
        """The loss of the points so far and the next one: it depends on their number alone.

        It holds for a number of rounds fixed in advance; if what was seen decides when to stop, use the certificate.
        """
        return self._mechanism.spent(self._rounds)

    def predict(self) -> Floats:
        """Return the point of the coming round, shape (dimension,). It draws nothing and stays the same until `update`.

        Raises:
            InputError: the horizon is over.
        """
        self._kernel.check_rounds(self._rounds, 1)
        return self._kernel.predict(self._state).copy()

    def update(self, gradients: Any) -> Floats:
        """Play one or more rounds and learn from their losses.

        Args:
            gradients: of the losses, shape (dimension,) for one round or (rounds, dimension) for several linear ones;
                or a function that gives the gradient of one round at the point that is played. With a sampler of your
                own, a list of losses as it takes them. What such a function raises is passed on as it is, with whatever
                its text tells of the losses; nothing of that update is used, and the point stays.

        Returns:
            The points that were played in these rounds, shape (rounds, dimension).

        Raises:
            InputError: gradients are not finite, longer than `lipschitz` or more than the horizon has left.
        """
        self.check_process()
        with self._lock:
            rows = self._checked(gradients)
            state, points = self._kernel.update(self._state, rows, rng=self._rng)
            self._rounds, self._state = self._rounds + len(rows), state  # an interrupt in between forgets no round
        return points

    def _checked(self, gradients: Any) -> Any:
        """Return what the kernel takes: rows of gradients, or the losses of a sampler."""
        if isinstance(self._kernel, SampledWeights):
            return list(gradients)
        if callable(gradients):
            if not isinstance(self._kernel, NoisyLeader):
                raise InputError(NEEDS_SAMPLER)
            gradients = finite_array(gradients(self.predict()), "gradients", 1, 2)
            if gradients.ndim != 1:
                raise InputError("gradients must have shape (dimension,) where a function gives them")
        body = self._kernel.body
        rows = checked_gradients(gradients, body.dimension, self._kernel.lipschitz, clip=self._clip)
        self._kernel.check_rounds(self._rounds, len(rows))
        return rows

    def __repr__(self) -> str:
        plan = self._plan
        return f"PrivateOnlineConvex(horizon={plan.horizon}, rounds={self._rounds}, method={plan.method!r})"
