"""Which learner to take for so many rounds and experts, and with which parameters: before any data."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from labeldp.online.accounting import SWINGS, nonprivate_bound
from labeldp.online.checks import whole
from labeldp.online.kernel import Kernel
from labeldp.online.methods import METHODS, Choice, Method
from labeldp.online.tuning import Promise
from labeldp.privacy import InputError, Neighbors, decimal, positive_epsilon, shortest_float

__all__ = ["MAX_EXPERTS", "MAX_HORIZON", "METHODS", "NEIGHBORS", "Alternative", "Plan", "plan_experts"]

NEIGHBORS = {"replace": Neighbors.ONE_LOSS, "zero-out": Neighbors.ZERO_OUT}
"""What may become of one round's losses: any others, or none at all."""

MAX_HORIZON = 10**12
MAX_EXPERTS = 10**9
LEAST_DELTA = Fraction(1, 10**200)
"""Smaller ones are lost among the smallest doubles."""


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

    def __repr__(self) -> str:
        promise = f"epsilon={shortest_float(self.epsilon)}, delta={shortest_float(self.delta)}"
        values = f"B={self.batch}, eta={float(self.rate):.4g}, p={float(self.redraw):.4g}"
        sizes = f"experts={self.experts}, horizon={self.horizon}"
        return f"Plan({self.method!r}, {sizes}, {promise}, {values}, regret_bound={self.regret_bound:.6g})"

    @property
    def levels(self) -> int:
        """The level of a loss of 1."""
        return (1 << self.loss_bits) - 1

    @property
    def holds(self) -> str:
        """For which losses the bound holds."""
        return METHODS[self.method].holds

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
        return METHODS[self.method].make(self)

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
            "doubling", whose regret can grow as fast as the horizon when losses are no independent draws, nor
            "better-of-two", which finds out in private whether doubling or another learner is better.
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
    promise, relation = _checked(d, horizon, epsilon, delta, neighbors, loss_bits)
    known = _admitted(method, promise.delta)
    found = {name: choice for name, each in known.items() if (choice := _choice(each, promise, name == method))}
    safe = [name for name in found if METHODS[name].by_itself]
    chosen = min(safe, key=lambda name: found[name].regret_bound) if method == "auto" else method
    others = sorted(found.keys() - {chosen}, key=lambda name: (found[name].regret_bound, name))
    return Plan(
        chosen,
        experts=d,
        horizon=horizon,
        epsilon=promise.epsilon,
        delta=promise.delta,
        neighbors=relation,
        loss_bits=loss_bits,
        alternatives=tuple(Alternative(name, found[name].regret_bound, METHODS[name].holds) for name in others),
        **vars(found[chosen]),
    )


def _checked(
    d: int, horizon: int, epsilon: Any, delta: Any, neighbors: str, loss_bits: int
) -> tuple[Promise, Neighbors]:
    """The numbers of a question, or one sentence that says what would be right."""
    if whole("d", d, 2) > MAX_EXPERTS or whole("horizon", horizon, 1) > MAX_HORIZON:
        raise InputError("d must be at most 10^9 and horizon at most 10^12")
    share = decimal(delta, "delta")
    if not 0 <= share < 1 or 0 < share < LEAST_DELTA:
        raise InputError("delta must lie in [1e-200, 1), or be 0 for the method 'doubling'")
    if neighbors not in NEIGHBORS:
        raise InputError("neighbors must be 'replace' or 'zero-out'")
    if loss_bits not in (8, 16):
        raise InputError("loss_bits must be 8 or 16")
    relation = NEIGHBORS[neighbors]
    return Promise(d, horizon, positive_epsilon(epsilon), share, SWINGS[relation]), relation


def _admitted(method: str, delta: Fraction) -> dict[str, Method]:
    """The methods that this delta admits, with the one that is asked for among them."""
    if method != "auto" and method not in METHODS:
        raise InputError(f"method must be one of: auto, {', '.join(METHODS)}")
    known = {name: each for name, each in METHODS.items() if delta or each.pure}
    if (method == "auto" and not any(each.by_itself for each in known.values())) or method not in {"auto", *known}:
        raise InputError(
            "delta must be positive, such as 1e-6: with delta = 0 there is only the method 'doubling', for losses that "
            "are independent draws of one law"
        )
    return known


def _choice(method: Method, promise: Promise, wanted: bool) -> Choice | None:
    """The parameters of a method; None where its noise does not fit into 64 bits, unless it was asked for."""
    try:
        return method.choose(promise)
    except InputError:
        if wanted:
            raise
        return None
