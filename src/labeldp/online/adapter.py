"""Experts by their names, in the rhythm of river's bandits: pull, then update."""

from collections.abc import Mapping, Sequence
from typing import Any, final

from labeldp.online.convex import finite_array
from labeldp.online.experts import PrivateExperts
from labeldp.privacy import InputError


@final
class NamedExperts:
    """A learner whose experts have names; unlike a bandit's arms, all of them show their losses.

    Args:
        names: of the experts, all different.
        learner: decides; as many experts.

    Examples:
        >>> choice = NamedExperts(["up", "down"], PrivateExperts(d=2, horizon=100, epsilon=1))
        >>> choice.pull() in ("up", "down")
        True
        >>> choice.update({"up": 0.5, "down": 1.0})
    """

    def __init__(self, names: Sequence[str], learner: PrivateExperts) -> None:
        if len(set(names)) != len(names) or len(names) != learner.plan.experts:
            raise InputError(f"names must be different, one for each of {learner.plan.experts} experts")
        self.names, self.learner = tuple(names), learner

    def pull(self) -> str:
        """The name of the expert that is to be played."""
        return self.names[self.learner.predict()]

    def update(self, losses: Mapping[str, Any]) -> None:
        """Take in the losses of the round, in [0, 1], by name."""
        if set(losses) != set(self.names):
            raise InputError("losses must be given for each expert by its name")
        self.learner.update(finite_array([losses[name] for name in self.names], "losses", 1))
