"""What a learner was asked for, and the stretch of rounds that it is in."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from labeldp.online.charging import Course
from labeldp.online.kernel import Actions, Losses
from labeldp.online.planning import Plan, plan_experts
from labeldp.online.snapshots import NOT_A_STATE, SECRET, freeze, thaw
from labeldp.privacy import InputError, Path, Randomness

FORMAT = 1
FIRST_EPOCH = 1024
"""Rounds of the first epoch where the horizon is not known; each further epoch has twice as many."""


@dataclass(frozen=True)
class Settings:
    """The public arguments of a learner."""

    d: int
    horizon: int | None
    epsilon: float
    delta: float
    method: str
    neighbors: str
    loss_bits: int

    def course(self, number: int, run: str) -> tuple[Plan, Course]:
        """Plan and cost of an epoch; there is one epoch where the horizon is known."""
        rounds = FIRST_EPOCH << number if self.horizon is None else self.horizon
        plan = _plan(self, rounds)
        return plan, Course(plan.kernel(), rounds, plan.to_json(), run)

    def path(self, number: int, run: str) -> Path:
        """Where an epoch is charged: each round lies in one epoch, so that the worst of them counts."""
        return () if self.horizon is not None else ((run, number),)


@lru_cache(maxsize=64)
def _plan(settings: Settings, rounds: int) -> Plan:
    """Made once: it takes a while, and is a function of public arguments."""
    s = settings
    return plan_experts(s.d, rounds, s.epsilon, s.delta, s.method, s.neighbors, s.loss_bits)


@dataclass(frozen=True)
class Epoch:
    """A stretch of rounds with a plan of its own, so many of them played."""

    number: int
    plan: Plan
    course: Course
    seen: int
    state: Any = field(repr=False)

    @property
    def left(self) -> int:
        """How many rounds are to come."""
        return self.course.rounds - self.seen

    def check_left(self) -> None:
        """Refuse to go on after the last round."""
        if not self.left:
            raise InputError(f"the horizon of {self.course.rounds:,} rounds is over")

    def played(self, levels: Losses, rng: Randomness) -> tuple["Epoch", Actions]:
        """After more rounds, and what was played in them."""
        state, actions = self.course.kernel.update(self.state, levels, rng=rng)
        return replace(self, seen=self.seen + levels.shape[0], state=state), actions


@dataclass(frozen=True)
class Snapshot:
    """A learner between two rounds: public settings, and a secret state.

    `simulated` says whether anything was drawn from a seeded generator.
    """

    settings: Settings
    dataset: str
    run: str
    rounds: int
    simulated: bool
    epoch: Epoch = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As plain values and arrays; secret."""
        return {
            "warning": SECRET,
            "format": FORMAT,
            "settings": asdict(self.settings),
            "dataset": self.dataset,
            "run": self.run,
            "rounds": self.rounds,
            "simulated": self.simulated,
            "epoch": self.epoch.number,
            "seen": self.epoch.seen,
            "plan": self.epoch.plan.to_json(),
            "state": freeze(self.epoch.state),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Snapshot":
        """The inverse of `to_dict`.

        Raises:
            InputError: something else, or a plan that this version of labeldp would not make.
        """
        try:
            settings = Settings(**value["settings"])
            plan, course = settings.course(value["epoch"], str(value["run"]))
            same = value["format"] == FORMAT and value["plan"] == plan.to_json()
            same = same and 0 <= value["seen"] <= min(course.rounds, value["rounds"])
            epoch = Epoch(value["epoch"], plan, course, int(value["seen"]), thaw(value["state"]))
            found = cls(
                settings, str(value["dataset"]), course.run, int(value["rounds"]), bool(value["simulated"]), epoch
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            same = False
        if not same:
            raise InputError(NOT_A_STATE)
        return found
