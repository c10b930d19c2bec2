"""Private online convex optimization: a learner that is charged before it plays."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, final

import numpy as np

from labeldp.online.convex.base import (
    NEEDS_SAMPLER,
    Ball,
    Body,
    Box,
    Sampler,
    Unbounded,
    checked_gradients,
    finite_array,
    real,
)
from labeldp.online.convex.gradient import NoisyLeader
from labeldp.online.convex.regularized import SampledWeights
from labeldp.online.learner import ChargedLearner, Settings, floats_below
from labeldp.online.planning import OnlinePlan, plan_convex
from labeldp.privacy import Budget, Floats, InputError, LedgerLike, RandomSource, even_if_refused

_BODIES: dict[str, type[Body]] = {kind.__name__: kind for kind in (Unbounded, Ball, Box)}


"""The bodies that a snapshot may name."""


@final
@dataclass(frozen=True)
class ConvexSettings(Settings):
    """The public arguments of `PrivateOnlineConvex`."""

    body: Body
    horizon: int | None
    epsilon: float
    delta: float
    lipschitz: float
    method: str
    losses: str
    neighbors: str
    clip: bool
    sampler: Sampler | None = field(default=None, repr=False)
    name = "PrivateOnlineConvex"

    def planned(self, rounds: int) -> OnlinePlan:
        settings = (self.epsilon, self.delta, self.lipschitz, self.method, self.losses, self.neighbors)
        return plan_convex(self.body, rounds, *settings, self.sampler)

    def to_json(self) -> dict[str, Any]:
        if self.sampler is not None:
            raise InputError("a learner with a sampler of your own has no snapshots: losses of any kind are its state")
        kind = type(self.body).__name__
        if _BODIES.get(kind) is not type(self.body):
            raise InputError("a learner has snapshots only where body is Unbounded, a Box or a Ball")
        body = {"kind": kind, **asdict(self.body)}  # type: ignore[call-overload]
        fields = ("horizon", "epsilon", "delta", "lipschitz", "method", "losses", "neighbors", "clip")
        return {"body": body, **{name: getattr(self, name) for name in fields}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        kind, body = value["body"]["kind"], {k: v for k, v in value["body"].items() if k != "kind"}
        return cls(**{**value, "body": _BODIES[kind](**body)})


@final
class PrivateOnlineConvex(ChargedLearner):
    """Privately plays a point in every round, before it sees the convex loss of that round.

    The plan is made and the whole horizon charged before the first point, both from the arguments alone. Only the
    sequence of points is released; the state and the randomness are as secret as the losses.

    Args:
        body: where points lie: `Unbounded`, `Box` or `Ball`.
        horizon: the number of rounds; None if it is not known, for epochs of 1024, 2048, … rounds, each with its own
            plan and starting anew. A round lies in one epoch, so epsilon is paid once; the regret is 3 to 4 times as
            large, and up to once an epoch where noise is most of it.
        epsilon, delta: privacy parameters, positive.
        lipschitz, method, losses, neighbors, sampler: see `plan_convex`.
        clip: scale longer gradients down instead of refusing them.
        rng, ledger, dataset: as for `PrivateExperts`.

    Guarantee (charged_first, shown, refusal, paid_once): the guarantee of all rounds is charged before the first point
        is drawn; the first point that an update returns is the one that the learner showed before; of gradients that
        are refused nothing is used; a state is continued once, or paid for again. Proof: `docs/proofs/keys.md`.

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
        >>> learner.certificate.epsilon(1e-6) <= 1
        True
    """

    _why_no_copy = f"{ChargedLearner._why_no_copy}. Use state_dict() and PrivateOnlineConvex.from_state_dict"
    _kind = ConvexSettings

    def __init__(
        self,
        body: Body,
        horizon: int | None,
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
        ledger: LedgerLike | None = None,
        dataset: str = "losses",
    ) -> None:
        settings = ConvexSettings(
            body,
            horizon,
            *floats_below(epsilon, delta),
            real(lipschitz, "lipschitz"),
            method,
            losses,
            neighbors,
            clip,
            sampler,
        )
        self._open(settings, rng, ledger, Budget(epsilon, delta), dataset)

    def predict(self) -> Floats:
        """Return the point of the coming round, shape (dimension,). It draws nothing and stays the same until `update`.

        Raises:
            InputError: the horizon is over.
        """
        return np.array(self._next())

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
            BudgetExceeded: the ledger does not admit the next epoch, since others have charged it meanwhile.
        """
        self.check_process()
        with self._lock:
            return self._advance(self._compared(lambda: self._checked(gradients)))

    def _checked(self, gradients: Any) -> Any:
        """Return what the kernel takes: rows of gradients, or the losses of a sampler."""
        kernel = self._epoch.mechanism.kernel
        if isinstance(kernel, SampledWeights):
            return list(gradients)
        if callable(gradients):
            if not isinstance(kernel, NoisyLeader):
                raise InputError(NEEDS_SAMPLER)
            gradients = finite_array(gradients(self.predict()), "gradients", 1, 2)
            if gradients.ndim != 1:
                raise InputError("gradients must have shape (dimension,) where a function gives them")
        return checked_gradients(gradients, kernel.body.dimension, kernel.lipschitz, clip=self._settings.clip)

    @even_if_refused
    def __repr__(self) -> str:
        settings = (self._settings.horizon, self._rounds, self.plan.method)
        return "PrivateOnlineConvex(horizon={}, rounds={}, method={!r})".format(*settings)
