"""The base of learners: charged before they play, in epochs if need be, with snapshots that are continued once."""

import secrets
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.online.charging import CLAIM_NAME, OnlineLedger, RoundsMechanism, claim, claimed
from labeldp.online.snapshots import Epoch, Settings, Snapshot, Tickets, count_rounds
from labeldp.privacy import (
    Budget,
    Certificate,
    InputError,
    Ledger,
    RandomnessKind,
    RandomSource,
    RecordLoss,
    SingleProcess,
    SystemRandomness,
    as_successive,
    decimal,
    total_loss,
)

_TICKETS = Tickets()
_USED = (
    "this state was continued already, and to do so again is a second release of the same losses: give pay=True and a "
    "ledger that admits the whole horizon once more"
)


class ChargedLearner(SingleProcess):
    """Base of learners that are charged to a ledger before they play; each works only in the process that made it.

    Guarantee (charged_first, refusal, paid_once): the guarantee of the whole horizon is charged before anything is
        drawn; of an update that is refused nothing is used; a state is continued once, or paid for again. Proof:
        `docs/proofs/snapshots.md`.
    """

    _why_no_copy = "a learner cannot be copied or pickled: two of them would each release the same losses"
    _why_no_fork = "this learner belongs to the process that made it: its fork would release losses again"
    _kind: ClassVar[type[Settings]]
    """The class of its settings."""

    _settings: Any
    _epoch: Epoch

    def _open(self, rng: RandomSource | None, ledger: OnlineLedger | None, budget: Budget, dataset: str) -> None:
        """Charge all rounds, or the first epoch, then begin; `_settings` are set."""
        self._start(secrets.token_hex(8), rng, ledger, budget, dataset)
        self._epoch = self._opened(0)

    def _start(
        self, run: str, rng: RandomSource | None, ledger: OnlineLedger | None, budget: Budget, dataset: str
    ) -> None:
        """Set the attributes that a new learner and one from a snapshot have in common."""
        self._rng = as_successive(SystemRandomness() if rng is None else rng)
        if decimal(budget.delta, "delta"):
            budget = replace(budget, fixed=True)  # epochs are about disjoint rounds: each may cost all of it
        self._ledger: OnlineLedger = Ledger(budget, dataset) if ledger is None else ledger
        if not callable(getattr(self._ledger, "draw", None)):
            raise InputError("ledger must be one, such as Ledger(Budget(1, 1e-6)) or LedgerFile(path).dataset(name)")
        self._lock, self._rounds = threading.Lock(), 0
        self._claim_process()
        self._run, self._simulated = run, self._rng.kind is RandomnessKind.SIMULATION
        self._snapped, self._owner = False, secrets.token_bytes(16)
        self._receipts: dict[int, Certificate] = {}

    @property
    def rounds(self) -> int:
        """The number of rounds played so far."""
        return self._rounds

    @property
    def ledger(self) -> Any:
        """The ledger to which all rounds were charged."""
        return self._ledger

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
    def spent(self) -> RecordLoss:
        """The loss of what was played so far and what comes next: it depends on their number alone.

        It holds for a number of rounds fixed in advance; if what was seen decides when to stop, use the certificate.
        """
        *before, charge = self.certificate.entries
        return total_loss([*before, replace(charge, loss=self._epoch.mechanism.spent(self._epoch.seen))])

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
    ) -> Self:
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
        snapshot, learner = Snapshot.from_dict(state, cls._kind), cls.__new__(cls)
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

    def _pay(self, number: int) -> tuple[Any, RoundsMechanism[Any]]:
        """Charge an epoch that is not charged yet; return its plan and its mechanism."""
        plan, mechanism = self._settings.mechanism(number, self._run)
        if number not in self._receipts:
            self._receipts[number] = mechanism.pay(self._ledger, self._rng, self._settings.path(number, self._run))
        return plan, mechanism

    def _opened(self, number: int) -> Epoch:
        """Charge a new epoch, then begin it."""
        plan, mechanism = self._pay(number)
        return Epoch(number, plan, mechanism, 0, mechanism.kernel.init(rng=self._rng))

    def _advance(self, losses: Any) -> NDArray[Any]:
        """Play rounds whose losses were checked, all of them or none; `_lock` is held."""
        rounds, epoch = count_rounds(losses), self._epoch
        played: list[NDArray[Any]] = []
        epoch.check_left()
        if self._settings.horizon is not None and rounds > epoch.left:
            raise InputError(
                f"there are more rounds than the {epoch.left:,} that are left of the horizon of "
                f"{epoch.mechanism.rounds:,}"
            )
        self._claim()
        while count_rounds(losses) or not played:
            now, losses = losses[: epoch.left], losses[epoch.left :]
            epoch, actions = epoch.played(now, self._rng)
            played.append(actions)
            if not epoch.left and self._settings.horizon is None:
                epoch = self._opened(epoch.number + 1)
        self._epoch, self._rounds = epoch, self._rounds + rounds  # an interrupt in between forgets no round
        return np.concatenate(played)

    def _claim(self) -> None:
        """Take the right to continue from a state that was snapped, unless another learner has it."""
        self.check_process()
        if self._snapped:
            place = (self._rounds, self._owner)
            if not (_TICKETS.claim(self._run, *place) and claim(self._ledger, self._epoch.mechanism, *place)):
                raise InputError(_USED)
            self._snapped = False
