"""PrivateExperts, NamedExperts."""

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
    "this state was gone on from already, and to do so again is a second release of the same losses: give pay=True "
    "and a ledger that admits the whole horizon once more"
)


@final
class PrivateExperts(ChargedLearner):
    """Picks one of d experts in every round, before the losses of that round are seen, in private.

    The plan is made, and the whole horizon charged, before the first action; both depend on the arguments alone. What
    is released is the sequence of actions. All else is as secret as the losses: the state, the randomness, the regret.
    Losses may depend on the actions before them, as those of an adversary do; the regret bound of the plan is for
    losses that do not.

    Args:
        d: the number of experts, at least 2.
        horizon: the number of rounds; None where it is not known: epochs of 1024, 2048, … rounds, each with a plan of
            its own. A round lies in one epoch, so epsilon is paid once; the regret is some 4 times as large.
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
        gone on from once, or paid for again. Proof: `docs/proofs/snapshots.md`.

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
        """Set what a new learner and one from a snapshot have in common."""
        self._begin(rng, ledger, budget, dataset)
        self._run, self._simulated = run, self._rng.kind is RandomnessKind.SIMULATION
        self._snapped, self._owner = False, secrets.token_bytes(16)
        self._receipts: dict[int, Certificate] = {}

    @property
    def plan(self) -> ExpertsPlan:
        """Method and parameters, regret bound and alternatives; where there is no horizon, of the epoch at hand."""
        return self._epoch.plan

    @property
    def certificate(self) -> Certificate:
        """The receipt of what was charged: it covers all rounds of the horizon, or of the epochs so far."""
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
        """What the actions so far, the coming one among them, reveal of one round: a function of their number alone.

        It holds for a number of rounds that was fixed in advance; who stops by what was seen relies on the certificate.
        """
        *before, charge = self.certificate.entries
        return total_loss([*before, replace(charge, loss=self._epoch.mechanism.spent(self._epoch.seen))])

    def predict(self) -> int:
        """The expert of the coming round. It draws nothing: asked again, it is the same.

        Raises:
            InputError: the horizon is over.
        """
        epoch = self._epoch
        epoch.check_left()
        return epoch.mechanism.kernel.predict(epoch.state)

    def update(self, losses: Any) -> Actions:
        """Take in the losses of one or more rounds, and play them.

        Args:
            losses: numbers in [0, 1], integers 0 and 1 as well, shape (d,) for one round or (rounds, d), dense or
                scipy.sparse; or a pair (indices, values), a tuple, for one round in which all other experts lose
                nothing: `([], [])` where nobody loses.

        Returns:
            The experts that were played in these rounds, shape (rounds,).

        Raises:
            InputError: losses are not of this kind, or there are more rounds than the horizon has left.
            BudgetExceeded: the ledger, which others have charged meanwhile, does not admit the next epoch.
        """
        s = self._settings
        return self._advance(quantize(paired(losses, s.d), s.loss_bits, experts=s.d))

    def update_levels(self, levels: Any) -> Actions:
        """As `update`, with losses that are rounded already: integers from 0 to 2^loss_bits - 1.

        Here 1 means 1/255, or 1/65535: losses that are 0 or 1, as clicks are, go to `update`.
        """
        s = self._settings
        return self._advance(check_levels(paired(levels, s.d), s.loss_bits, experts=s.d))

    def state_dict(self) -> dict[str, Any]:
        """A snapshot: the learner as plain values and arrays, from which it can be gone on from once.

        It holds sums of losses: KEEP IT LIKE THE LOSSES THEMSELVES. `dump_state` makes bytes of it. Whoever goes
        on first, this learner or one made by `from_state_dict`, uses the snapshot up.
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
        """A learner that goes on from a snapshot.

        A snapshot that somebody went on from is refused. That is noticed in the process where it happened, and by
        every process that shares a durable ledger. Of two processes without one, each takes the snapshot for unused:
        copies of it are then up to you.

        Args:
            state: what `state_dict` gave.
            rng: as for a new learner.
            ledger: the one that holds the learner's charge; a new one in memory by default, with just its budget.
            pay: go on whether or not somebody else did, as another learner that is charged for a whole horizon.

        Raises:
            InputError: not a state, one that was used, or a ledger without the learner's charge; nothing was charged.
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
            learner._go_on(snapshot, known=ledger is not None)
        _, mechanism = learner._pay(snapshot.epoch.number)
        learner._epoch = replace(snapshot.epoch, mechanism=mechanism)
        return learner

    def _go_on(self, snapshot: Snapshot, *, known: bool) -> None:
        """The receipts of a run so far; refused where somebody went on from the snapshot."""
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
        """Charge an epoch, once."""
        plan, mechanism = self._settings.mechanism(number, self._run)
        if number not in self._receipts:
            self._receipts[number] = mechanism.pay(self._ledger, self._rng, self._settings.path(number, self._run))
        return plan, mechanism

    def _opened(self, number: int) -> Epoch:
        """A new epoch: charged, then begun."""
        plan, mechanism = self._pay(number)
        return Epoch(number, plan, mechanism, 0, mechanism.kernel.init(rng=self._rng))

    def _advance(self, levels: Losses) -> Actions:
        """Play rounds whose losses were checked; all of them or none."""
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
        """Take the one right to go on from the state at hand, where somebody else may have it, too."""
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
