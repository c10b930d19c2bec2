"""`PrivateExperts`: private online learning with experts, with a plan, a ledger and snapshots; experts with names."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from labeldp.online.charging import CLAIM_NAME, ChargedLearner, OnlineLedger, RoundsMechanism, claim, claimed
from labeldp.online.convex.base import finite_array
from labeldp.online.experts.kernel import Actions, Kernel, Losses, check_levels, paired, quantize
from labeldp.online.experts.planning import ExpertsPlan
from labeldp.online.experts.snapshots import Epoch, Settings, Snapshot, Tickets
from labeldp.privacy import (
    Budget,
    Certificate,
    InputError,
    PrivacyLoss,
    RandomnessKind,
    RandomSource,
    decimal,
    float_below,
    total_loss,
)

_TICKETS = Tickets()
_USED = (
    "this state was continued already, and to do so again is a second release of the same losses: give pay=True and a "
    "ledger that admits the whole horizon once more"
)


@final
class PrivateExperts(ChargedLearner):
    """Privately picks one of d experts in every round, before it sees the losses of that round.

    The plan is made and the whole horizon charged before the first action, both from the arguments alone. Only the
    sequence of actions is released; the state, the randomness and the regret are as secret as the losses. Losses may
    depend on earlier actions, as those of an adversary do; the regret bound of the plan is for losses that do not.

    Args:
        d: the number of experts, at least 2.
        horizon: the number of rounds; None if it is not known, for epochs of 1024, 2048, … rounds, each with its own
            plan. A round lies in one epoch, so epsilon is paid once; the regret is about 4 times as large.
        epsilon: privacy parameter, positive.
        delta: in (0, 1), or 0 for the method "doubling".
        method: "auto", or one by name: see `plan_experts`.
        neighbors: "replace" protects a round's losses against all others, "zero-out" against none at all.
        loss_bits: 8 or 16; losses are rounded to multiples of 1 / (2^loss_bits - 1).
        rng: `SystemRandomness()`, or a numpy generator for a simulation.
        ledger: charged in the place of a new one with just this budget, such as `LedgerFile(path).dataset(name)`.
        dataset: the name of the losses in a new ledger.

    Guarantee: the guarantee of the whole horizon is charged before the first action is drawn; the first action that
        `update` returns is the one that `predict` showed; of an update that is refused nothing is used; a state is
        continued once, or paid for again. Proof: `docs/proofs/snapshots.md`.

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
        ledger: OnlineLedger | None = None,
        dataset: str = "losses",
    ) -> None:
        budget = Budget(epsilon, delta)
        exact = (float_below(decimal(epsilon, "epsilon")), float_below(decimal(delta, "delta")))
        self._settings = Settings(d, horizon, *exact, method, neighbors, loss_bits)
        self._start(secrets.token_hex(8), rng, ledger, budget, dataset)
        self._epoch = self._opened(0)

    def _start(
        self, run: str, rng: RandomSource | None, ledger: OnlineLedger | None, budget: Budget, dataset: str
    ) -> None:
        """Set the attributes that a new learner and one from a snapshot have in common."""
        self._begin(rng, ledger, budget, dataset)
        self._run, self._simulated = run, self._rng.kind is RandomnessKind.SIMULATION
        self._snapped, self._owner = False, secrets.token_bytes(16)
        self._receipts: dict[int, Certificate] = {}

    @property
    def plan(self) -> ExpertsPlan:
        """The method, its parameters, its regret bound and alternatives; without a horizon, for the current epoch."""
        return self._epoch.plan

    @property
    def certificate(self) -> Certificate:
        """The certificate of the charge: it covers all rounds of the horizon, or of the epochs so far."""
        receipts = list(self._receipts.values())
        entries = tuple(entry for receipt in receipts for entry in receipt.entries)
        rounds = sum(entry.mechanism["rounds"] for entry in entries)
        return replace(
            receipts[-1],
            entries=entries,
            published=f"{self._epoch.mechanism.kernel.published}, for {rounds:,} rounds",
            randomness=RandomnessKind.SIMULATION if self._simulated else receipts[-1].randomness,
        )

    @property
    def spent(self) -> PrivacyLoss:
        """The loss of the actions so far and the next one: it depends on their number alone.

        It holds for a number of rounds fixed in advance; if what was seen decides when to stop, use the certificate.
        """
        *before, charge = self.certificate.entries
        return total_loss([*before, replace(charge, loss=self._epoch.mechanism.spent(self._epoch.seen))])

    def predict(self) -> int:
        """Return the expert of the coming round. It draws nothing and stays the same until `update`.

        Raises:
            InputError: the horizon is over.
        """
        epoch = self._epoch
        epoch.check_left()
        return epoch.mechanism.kernel.predict(epoch.state)

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
        return self._advance(quantize(paired(losses, s.d), s.loss_bits, experts=s.d))

    def update_levels(self, levels: Any) -> Actions:
        """Do the same as `update` with losses that are rounded already: integers from 0 to 2^loss_bits - 1.

        Here 1 means 1/255, or 1/65535: give losses that are 0 or 1, such as clicks, to `update`.
        """
        s = self._settings
        return self._advance(check_levels(paired(levels, s.d), s.loss_bits, experts=s.d))

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot of the learner as plain values and arrays, which can be continued once.

        It holds sums of losses: KEEP IT LIKE THE LOSSES THEMSELVES. `dump_state` turns it into bytes. The first to
        continue, this learner or one made by `from_state_dict`, uses the snapshot up.
        """
        self.check_process()
        with self._lock:
            self._snapped = True
            place = (self._settings, self._ledger.name, self._run, self._rounds, self._simulated, self._epoch)
            return Snapshot(*place).to_dict()

    @classmethod
    def from_state_dict(
        cls,
        state: Mapping[str, Any],
        *,
        rng: RandomSource | None = None,
        ledger: OnlineLedger | None = None,
        pay: bool = False,
    ) -> "PrivateExperts":
        """Return a learner that continues from a snapshot.

        A snapshot that was used is refused, in the process that used it and in every process that shares a durable
        ledger. Two processes without a shared ledger each take it for unused: then take care of copies yourself.

        Args:
            state: what `state_dict` returned.
            rng: as for a new learner.
            ledger: the one that holds the learner's charge; a new one in memory by default, with just its budget.
            pay: continue even a used snapshot, as a new learner that is charged for a whole horizon.

        Raises:
            InputError: state is no snapshot, it was used, or ledger lacks the learner's charge; nothing was charged.
            BudgetExceeded: with `pay`; nothing was charged.
        """
        snapshot, learner = Snapshot.from_dict(state), cls.__new__(cls)
        if pay and ledger is None:
            raise InputError("ledger must be given with pay=True: the one that was charged for the first release")
        settings = learner._settings = snapshot.settings
        run, budget = secrets.token_hex(8) if pay else snapshot.run, Budget(settings.epsilon, settings.delta)
        learner._start(run, rng, ledger, budget, snapshot.dataset)
        learner._simulated |= snapshot.simulated
        learner._rounds, learner._snapped = snapshot.rounds, not pay
        if not pay:
            learner._collect_receipts(snapshot, known=ledger is not None)
        _, mechanism = learner._pay(snapshot.epoch.number)
        learner._epoch = replace(snapshot.epoch, mechanism=mechanism)
        return learner

    def _collect_receipts(self, snapshot: Snapshot, *, known: bool) -> None:
        """Collect a run's receipts, from its ledger if `known`, else by charging a new one; refuse a used snapshot."""
        mark = claimed(self._run, snapshot.rounds)
        charges = [charge for charge in self._ledger.charges if charge.mechanism.get("run") == self._run]
        if _TICKETS.claimed(self._run, snapshot.rounds) or mark in [charge.mechanism for charge in charges]:
            raise InputError(_USED)
        epochs = range(snapshot.epoch.number + 1)
        if not known:
            for number in epochs:
                self._pay(number)
            return
        paid = {charge.mechanism["rounds"]: charge for charge in charges if charge.mechanism["mechanism"] != CLAIM_NAME}
        for number in epochs:
            _, mechanism = self._settings.mechanism(number, self._run)
            charge = paid.get(mechanism.rounds)
            if charge is None or charge.loss != mechanism.loss:
                raise InputError("ledger must hold the charge of this learner: give the one that it was charged to")
            self._receipts[number] = mechanism.receipt(charge, self._rng, self._ledger.name)

    def _pay(self, number: int) -> tuple[ExpertsPlan, RoundsMechanism[Kernel[Any]]]:
        """Charge an epoch that is not charged yet; return its plan and its mechanism."""
        plan, mechanism = self._settings.mechanism(number, self._run)
        if number not in self._receipts:
            self._receipts[number] = mechanism.pay(self._ledger, self._rng, self._settings.path(number, self._run))
        return plan, mechanism

    def _opened(self, number: int) -> Epoch:
        """Charge a new epoch, then begin it."""
        plan, mechanism = self._pay(number)
        return Epoch(number, plan, mechanism, 0, mechanism.kernel.init(rng=self._rng))

    def _advance(self, levels: Losses) -> Actions:
        """Play rounds whose losses were checked: all of them or none."""
        with self._lock:
            rounds, epoch, played = levels.shape[0], self._epoch, []
            epoch.check_left()
            if self._settings.horizon is not None and rounds > epoch.left:
                raise InputError(
                    f"losses must have at most {epoch.left:,} more rounds: the horizon is {epoch.mechanism.rounds:,}"
                )
            self._claim()
            while levels.shape[0]:
                now, levels = levels[: epoch.left], levels[epoch.left :]
                epoch, actions = epoch.played(now, self._rng)
                played.append(actions)
                if not epoch.left and self._settings.horizon is None:
                    epoch = self._opened(epoch.number + 1)
            self._epoch, self._rounds = epoch, self._rounds + rounds
        return np.concatenate(played) if played else np.zeros(0, np.int64)

    def _claim(self) -> None:
        """Take the right to continue from a state that was snapped, unless another learner has it."""
        self.check_process()
        if self._snapped:
            place = (self._rounds, self._owner)
            if not (_TICKETS.claim(self._run, *place) and claim(self._ledger, self._epoch.mechanism, *place)):
                raise InputError(_USED)
            self._snapped = False

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
        if len(set(names)) != len(names) or len(names) != learner.plan.experts:
            raise InputError(f"names must be different, one for each of {learner.plan.experts} experts")
        self.names, self.learner = tuple(names), learner

    def pull(self) -> str:
        """Return the name of the expert of the coming round."""
        return self.names[self.learner.predict()]

    def update(self, losses: Mapping[str, Any]) -> None:
        """Learn from the losses of the round, in [0, 1], by name."""
        if set(losses) != set(self.names):
            raise InputError("losses must be given for each expert by its name")
        self.learner.update(finite_array([losses[name] for name in self.names], "losses", 1))
