"""Which learner to take for so many rounds and experts, and with which parameters: before any data."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import import_module
from typing import Any

from labeldp.online.accounting import (
    SWINGS,
    doubling_regret_bound,
    nonprivate_bound,
    switches_bound,
)
from labeldp.online.checks import whole
from labeldp.online.kernel import Kernel
from labeldp.online.tuning import Promise, Tuned, tuned
from labeldp.privacy import InputError, Neighbors, decimal, positive_epsilon, shortest_float

NEIGHBORS = {"replace": Neighbors.ONE_LOSS, "zero-out": Neighbors.ZERO_OUT}
"""What may become of one round's losses: any others, or none at all."""

MAX_HORIZON = 10**12
MAX_EXPERTS = 10**9


@dataclass(frozen=True)
class Alternative:
    """What another method promises for the same question."""

    method: str
    regret_bound: float
    holds: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"method": self.method, "regret_bound": self.regret_bound, "holds": self.holds}


@dataclass(frozen=True)
class Plan:
    """A learner for experts with its parameters: a function of public numbers alone.

    `regret_bound` is for losses as they are counted, in levels, and in the mean over the learner's own randomness. It
    is against the best expert of all rounds, for any losses that do not follow the actions, but for "doubling", where
    it is against the expert that is best on average, for losses that are independent draws of one law.
    `rounding_bound` is what rounding finer losses to levels may add at worst.

    Guarantee: the actions of the kernel keep epsilon and delta over the whole horizon.
    """

    method: str
    experts: int
    horizon: int
    epsilon: Fraction
    delta: Fraction
    neighbors: Neighbors
    loss_bits: int
    batch: int
    rate: Fraction
    redraw: Fraction
    stddev: float | None
    regret_bound: float
    expected_switches: float
    alternatives: tuple[Alternative, ...] = field(default=())

    @property
    def levels(self) -> int:
        """The level of a loss of 1."""
        return (1 << self.loss_bits) - 1

    @property
    def holds(self) -> str:
        """For which losses the bound holds."""
        return _METHODS[self.method].holds

    @property
    def nonprivate_bound(self) -> float:
        """What multiplicative weights promise without privacy."""
        return nonprivate_bound(self.experts, self.horizon)

    @property
    def rounding_bound(self) -> float:
        """How much rounding of losses to levels may add to the regret at worst; nothing where they are levels."""
        return self.horizon / self.levels

    @property
    def vacuous(self) -> bool:
        """Whether the bound says no more than that a round's loss is at most 1."""
        return self.regret_bound >= self.horizon

    def kernel(self) -> Kernel[Any]:
        """The learner."""
        return _METHODS[self.method].build(self)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; rate and redraw are exact."""
        return {
            "method": self.method,
            "experts": self.experts,
            "horizon": self.horizon,
            "epsilon": shortest_float(self.epsilon),
            "delta": shortest_float(self.delta),
            "neighbors": next(name for name, each in NEIGHBORS.items() if each is self.neighbors),
            "loss_bits": self.loss_bits,
            "B": self.batch,
            "eta": float(self.rate),
            "p": float(self.redraw),
            "stddev": self.stddev,
            "regret_bound": self.regret_bound,
            "regret_bound_holds": self.holds,
            "vacuous": self.vacuous,
            "nonprivate_bound": self.nonprivate_bound,
            "rounding_bound": self.rounding_bound,
            "expected_switches": self.expected_switches,
            "alternatives": [each.to_json() for each in self.alternatives],
        }


def plan_experts(
    d: int,
    horizon: int,
    epsilon: Any,
    delta: Any = 1e-6,
    method: str = "auto",
    neighbors: str = "replace",
    loss_bits: int = 8,
) -> Plan:
    """The method with the smallest bound of regret, or one by name, with the parameters that make its bound smallest.

    Args:
        d: the number of experts, at least 2.
        horizon: how many rounds will be played, at least 1.
        epsilon: privacy parameter of all actions together, positive.
        delta: in (0, 1); 0 for the method "doubling" alone.
        method: "auto", or one of `METHODS`. "auto" takes the smallest bound that holds for any losses, so never
            "doubling", whose regret can grow as fast as the horizon when losses are no independent draws.
        neighbors: "replace": one round's losses become any others; "zero-out": they become zero.
        loss_bits: 8 or 16; losses are counted in 2^loss_bits - 1 levels.

    Guarantee: the plan depends on its arguments alone.

    Raises:
        InputError: an argument is out of range.

    Source: `docs/proofs/online.md`.

    Examples:
        >>> plan = plan_experts(1000, 100_000, epsilon=1, delta=1e-6)
        >>> plan.method, plan.batch, round(plan.regret_bound)
        ('dartboard', 3, 1405)
    """
    asked = _Asked.checked(d, horizon, epsilon, delta, method, neighbors, loss_bits)
    plans = {name: _METHODS[name].plan(asked) for name in METHODS if asked.delta or _METHODS[name].pure}
    safe = [name for name in plans if _METHODS[name].worst_case]
    chosen = min(safe, key=lambda name: plans[name].regret_bound) if method == "auto" else method
    others = sorted((plan for name, plan in plans.items() if name != chosen), key=lambda plan: plan.regret_bound)
    return replace(
        plans[chosen], alternatives=tuple(Alternative(each.method, each.regret_bound, each.holds) for each in others)
    )


@dataclass(frozen=True)
class _Asked:
    """A question whose numbers were checked."""

    promise: Promise
    neighbors: Neighbors
    loss_bits: int

    @property
    def delta(self) -> Fraction:
        return self.promise.delta

    @classmethod
    def checked(
        cls, d: int, horizon: int, epsilon: Any, delta: Any, method: str, neighbors: str, loss_bits: int
    ) -> "_Asked":
        """The same, or one sentence that says what would be right."""
        if whole("d", d, 2) > MAX_EXPERTS or whole("horizon", horizon, 1) > MAX_HORIZON:
            raise InputError("d must be at most 10^9 and horizon at most 10^12")
        share = decimal(delta, "delta")
        if not 0 <= share < 1:
            raise InputError("delta must lie in (0, 1), or be 0 for the method 'doubling'")
        if method != "auto" and method not in METHODS:
            raise InputError(f"method must be one of: auto, {', '.join(METHODS)}")
        if share == 0 and (method == "auto" or not _METHODS[method].pure):
            raise InputError(
                "delta must be positive, such as 1e-6: with delta = 0 there is the method 'doubling' alone, for losses "
                "that are independent draws of one law"
            )
        if neighbors not in NEIGHBORS:
            raise InputError("neighbors must be 'replace' or 'zero-out'")
        if loss_bits not in (8, 16):
            raise InputError("loss_bits must be 8 or 16")
        relation = NEIGHBORS[neighbors]
        return cls(Promise(d, horizon, positive_epsilon(epsilon), share, SWINGS[relation]), relation, loss_bits)

    def plan(self, method: str, **found: Any) -> Plan:
        """A plan with what was found."""
        asked = {name: getattr(self.promise, name) for name in ("experts", "horizon", "epsilon", "delta")}
        return Plan(method, neighbors=self.neighbors, loss_bits=self.loss_bits, **asked, **found)

    def switching(self, method: str, found: Tuned) -> Plan:
        """A plan of a learner that keeps its action for a while."""
        moves = switches_bound(float(found.rate), found.batch, float(found.redraw), self.promise.horizon)
        return self.plan(
            method,
            batch=found.batch,
            rate=found.rate,
            redraw=found.redraw,
            stddev=None,
            regret_bound=found.bound,
            expected_switches=moves,
        )


def _dartboard(asked: _Asked) -> Plan:
    return asked.switching("dartboard", tuned(asked.promise, 1))


def _redraw(asked: _Asked) -> Plan:
    return asked.switching("redraw", tuned(asked.promise, 1, redraw=Fraction(1)))


def _shrinking(asked: _Asked) -> Plan:
    return asked.switching("shrinking-dartboard", tuned(asked.promise, 1, batch=1))


def _l2p(asked: _Asked) -> Plan:
    return asked.switching("l2p", tuned(asked.promise, 2))


def _doubling(asked: _Asked) -> Plan:
    """Epochs of 1, 2, 4, … rounds."""
    promise = asked.promise
    return asked.plan(
        "doubling",
        batch=1,
        rate=promise.epsilon / 2,
        redraw=Fraction(1),
        stddev=None,
        regret_bound=doubling_regret_bound(promise.experts, promise.horizon, float(promise.epsilon)),
        expected_switches=float(promise.horizon.bit_length() - 1),
    )


def _kernel_of_switching(plan: Plan) -> Kernel[Any]:
    made: Any = import_module("labeldp.online.dartboard")
    return made.BatchedDartboard(plan.experts, plan.batch, plan.rate, plan.redraw, plan.levels, plan.neighbors)


def _kernel_of_l2p(plan: Plan) -> Kernel[Any]:
    made: Any = import_module("labeldp.online.l2p")
    measure = made.MultiplicativeWeightsMeasure(plan.experts, plan.rate, plan.levels)
    return made.L2P(measure, plan.batch, plan.redraw, plan.neighbors)


def _kernel_of_doubling(plan: Plan) -> Kernel[Any]:
    made: Any = import_module("labeldp.online.doubling")
    return made.DoublingExponential(plan.experts, plan.epsilon, plan.levels)


@dataclass(frozen=True)
class _Method:
    """How a method is planned and built, and for which losses its bound holds."""

    plan: Callable[[_Asked], Plan]
    build: Callable[[Plan], Kernel[Any]]
    worst_case: bool = True
    pure: bool = False

    @property
    def holds(self) -> str:
        """For which losses the bound holds."""
        return "for any losses" if self.worst_case else "for independent draws of one law only"


_METHODS = {
    "dartboard": _Method(_dartboard, _kernel_of_switching),
    "redraw": _Method(_redraw, _kernel_of_switching),
    "shrinking-dartboard": _Method(_shrinking, _kernel_of_switching),
    "l2p": _Method(_l2p, _kernel_of_l2p),
    "doubling": _Method(_doubling, _kernel_of_doubling, worst_case=False, pure=True),
}

METHODS = tuple(_METHODS)
"""The methods that `plan_experts` knows."""
