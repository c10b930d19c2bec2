"""Private experts: a learner that chooses among experts and is charged before it plays."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, final

from labeldp.online.convex.base import finite_array
from labeldp.online.experts.kernel import Actions, Losses, check_levels, paired, quantize
from labeldp.online.learner import ChargedLearner, Settings, floats_below
from labeldp.online.planning import OnlinePlan, plan_experts
from labeldp.privacy import Budget, InputError, LedgerLike, RandomSource, even_if_refused

_cached_plan = lru_cache(maxsize=64)(plan_experts)


@final
@dataclass(frozen=True)
class ExpertsSettings(Settings):
    """The public arguments of `PrivateExperts`."""

    d: int
    horizon: int | None
    epsilon: float
    delta: float
    method: str
    neighbors: str
    loss_bits: int
    name = "PrivateExperts"

    def planned(self, rounds: int) -> OnlinePlan:
        return _cached_plan(**{**asdict(self), "horizon": rounds})


@final
class PrivateExperts(ChargedLearner):
    """Privately picks one of d experts in every round, before it sees the losses of that round.

    The plan is made and the whole horizon charged before the first action, both from the arguments alone. Only the
    sequence of actions is released; the state, the randomness and the regret are as secret as the losses. Losses may
    depend on earlier actions, as those of an adversary do; the regret bound of the plan is for losses that do not.

    Args:
        horizon: the number of rounds; None if it is not known, for epochs of 1024, 2048, … rounds, each with its own
            plan. A round lies in one epoch, so epsilon is paid once; the regret is about 4 times as large.
        d, epsilon, delta, method, neighbors, loss_bits: see `plan_experts`.
        rng: `SystemRandomness()`, or a numpy generator for a simulation.
        ledger: charged in place of a new one with just this budget, such as `LedgerFile(path).dataset(name)`.
        dataset: the name of the losses in a new ledger.

    Guarantee (charged_first, shown, refusal, paid_once): the guarantee of the whole horizon is charged before the first
        action is drawn; the first action that `update` returns is the one that `predict` showed; of an update that is
        refused nothing is used; a state is continued once, or paid for again. Proof: `docs/proofs/keys.md`.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged and nothing drawn.

    Examples:
        >>> import numpy as np
        >>> learner = PrivateExperts(d=3, horizon=1000, epsilon=1, delta=1e-6)
        >>> action = learner.predict()
        >>> played = learner.update(np.random.default_rng(0).random((1000, 3)))
        >>> len(played), bool(played[0] == action), learner.ledger.spent.epsilon(1e-6) <= 1
        (1000, True, True)
    """

    _why_no_copy = f"{ChargedLearner._why_no_copy}. Use state_dict() and PrivateExperts.from_state_dict"
    _kind = ExpertsSettings

    def __init__(
        self,
        d: int,
        horizon: int | None,
        epsilon: Any,
        delta: Any = 1e-6,
        method: str = "auto",
        neighbors: str = "replace",
        loss_bits: int = 8,
        *,
        rng: RandomSource | None = None,
        ledger: LedgerLike | None = None,
        dataset: str = "losses",
    ) -> None:
        budget = Budget(epsilon, delta)
        settings = ExpertsSettings(d, horizon, *floats_below(epsilon, delta), method, neighbors, loss_bits)
        self._open(settings, rng, ledger, budget, dataset)

    def predict(self) -> int:
        """Return the expert of the coming round. It draws nothing and stays the same until `update`.

        Raises:
            InputError: the horizon is over.
        """
        return int(self._next())

    def update(self, losses: Any) -> Actions:
        """Play one or more rounds and learn from their losses.

        Args:
            losses: numbers in [0, 1], including integers 0 and 1, shape (d,) for one round or (rounds, d), dense or
                scipy.sparse; or a tuple (indices, values) for one round in which all other experts lose nothing:
                `([], [])` if nobody loses.

        Returns:
            The experts that were played in these rounds, shape (rounds,).

        Raises:
            InputError: losses are not of this kind, or there are more rounds than the horizon has left.
            BudgetExceeded: the ledger does not admit the next epoch, since others have charged it meanwhile.
        """
        s = self._settings
        return self._played(self._compared(lambda: quantize(paired(losses, s.d), s.loss_bits, experts=s.d)))

    def update_levels(self, levels: Any) -> Actions:
        """Do the same as `update` with losses that are rounded already: integers from 0 to 2^loss_bits - 1.

        Here 1 means 1/255, or 1/65535: give losses that are 0 or 1, such as clicks, to `update`.
        """
        s = self._settings
        return self._played(self._compared(lambda: check_levels(paired(levels, s.d), s.loss_bits, experts=s.d)))

    def _played(self, levels: Losses) -> Actions:
        """Play rounds whose losses were checked."""
        with self._lock:
            return self._advance(levels)

    @even_if_refused
    def __repr__(self) -> str:
        s = self._settings
        return f"PrivateExperts(d={s.d}, horizon={s.horizon}, rounds={self._rounds}, method={self.plan.method!r})"


@final
class NamedExperts:
    """A learner whose experts have names. Unlike a bandit, it sees the losses of all experts.

    Args:
        names: the names of the experts, all different.
        learner: the learner that decides, on as many experts.

    Examples:
        >>> choice = NamedExperts(["up", "down"], PrivateExperts(d=2, horizon=100, epsilon=1))
        >>> choice.pull() in ("up", "down")
        True
        >>> choice.update({"up": 0.5, "down": 1.0})
    """

    def __init__(self, names: Sequence[str], learner: PrivateExperts) -> None:
        if len(set(names)) != len(names) or len(names) != learner.plan.task.experts:
            raise InputError(f"names must be different, one for each of {learner.plan.task.experts} experts")
        self.names, self.learner = tuple(names), learner

    def pull(self) -> str:
        """Return the name of the expert of the coming round."""
        return self.names[self.learner.predict()]

    def update(self, losses: Mapping[str, Any]) -> None:
        """Learn from the losses of the round, in [0, 1], by name."""
        if set(losses) != set(self.names):
            raise InputError("losses must be given for each expert by its name")
        self.learner.update(finite_array([losses[name] for name in self.names], "losses", 1))
