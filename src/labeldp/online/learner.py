"""What online learners share: they are charged before they play, and continued once from a snapshot."""

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.accounting import Policy
from labeldp.curator import LOSSES, Ledger
from labeldp.online.planning import OnlinePlan
from labeldp.online.snapshots import NOT_A_STATE, SECRET_WARNING, SnapshotClaims, from_plain, to_plain
from labeldp.privacy import (
    Budget,
    Certificate,
    Charge,
    DomainError,
    InputError,
    LedgerLike,
    Path,
    PendingCharge,
    PrivacyLoss,
    Randomness,
    RandomnessKind,
    RandomSource,
    RecordLoss,
    SingleProcess,
    SystemRandomness,
    Trust,
    Unit,
    as_successive,
    decimal,
    float_below,
    total_loss,
)

Result = TypeVar("Result")

CLAIM_NAME = "going on from a snapshot"
_SEEN_LATER = (("rounds as they come", "losses", "seen after the charge"),)
"""The traces of losses in a durable ledger if the losses are not known when the learner is charged."""
FIRST_EPOCH_ROUNDS = 1024
"""The length of the first epoch where the horizon is not known; each further epoch has twice as many rounds."""
SNAPSHOT_FORMAT = 1
_CLAIMS = SnapshotClaims()
_USED = (
    "this state was continued already, and to do so again is a second release of the same losses: give pay=True and a "
    "ledger that admits the whole horizon once more"
)


@final
@dataclass(frozen=True)
class HorizonCharge:
    """All rounds of a learner as one mechanism, charged once before the first decision.

    Its output is the sequence of decisions.

    Args:
        kernel: the public learner.
        plan: the plan of the learner, as plain JSON values.
        run: the name of this run of the learner, whose rounds are charged once.
        traces: (kind of ids, kind of losses, keyed digest) of all losses, if they are known beforehand; secret.
        name: the name of the mechanism in the ledger.
    """

    kernel: Any
    rounds: int
    plan: Mapping[str, Any]
    run: str
    traces: tuple[tuple[str, str, str], ...] = field(default=_SEEN_LATER, repr=False)
    name: str = "PrivateExperts"
    trust = Trust.CENTRAL
    basis: tuple[Certificate, ...] = ()

    @property
    def neighbors(self) -> Unit:
        """Which losses count as neighboring."""
        return self.kernel.neighbors

    @property
    def published(self) -> str:
        """The released values, in one phrase."""
        return f"{self.kernel.published}, for at most {self.rounds:,} rounds"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions of the guarantee, in words."""
        return self.kernel.assumptions

    @cached_property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all actions; the last of them depends only on the losses of the rounds before it."""
        return self.kernel.privacy_loss(self.rounds - 1)

    def privacy_loss(self) -> PrivacyLoss:
        """Return the privacy loss of all actions."""
        return self.loss

    def spent(self, rounds: int) -> PrivacyLoss:
        """Return the privacy loss after `rounds` rounds of losses, with the next action."""
        return self.kernel.privacy_loss(min(rounds, self.rounds - 1))

    def arrays(self) -> None:
        """Check that a learner has no array with a row for each record."""

    def specification(self) -> dict[str, Any]:
        """Return the public fields as plain JSON values: equal for equal learners."""
        delta = str(decimal(self.plan["delta"], "delta"))
        return {"mechanism": self.name, "run": self.run, "rounds": self.rounds, "delta": delta, "plan": dict(self.plan)}

    def charge(self, ledger: LedgerLike, rng: Randomness, path: Path = ()) -> Certificate:
        """Charge all rounds and return the certificate; a durable ledger charges the rounds of one run once.

        Raises:
            BudgetExceeded: the ledger does not admit them; nothing was charged.
        """
        with ledger.charging(self._request(rng, path), self) as draw:
            if draw.is_new:
                draw.value = np.zeros(0, np.uint8)  # actions come one by one
        return draw.release.certificate

    def receipt(self, charge: Charge, rng: Randomness, dataset: str) -> Certificate:
        """Return the certificate of an earlier charge."""
        return self._request(rng, charge.path).certificate(charge, self, dataset)

    def _request(self, rng: Randomness, path: Path) -> PendingCharge:
        return PendingCharge(
            mechanism=self.specification(),
            loss=self.loss,
            path=path,
            labels=self.run,
            randomness=rng.kind,
            source=rng.identity,
            traces=self.traces,
            unit=self.neighbors,
        )


def claim(ledger: LedgerLike, mechanism: HorizonCharge, rounds: int, owner: bytes) -> bool:
    """Claim in a durable ledger the right to continue from the state after `rounds` rounds of a run.

    Returns:
        False if another owner has it, in any process; always True with a ledger in memory, which has one process.
    """
    if ledger.digest_key is None:
        return True
    mine = np.frombuffer(owner, np.uint8)
    request = PendingCharge(
        claimed(mechanism.run, rounds),
        PrivacyLoss.zero(),
        labels=mechanism.run,
        traces=mechanism.traces,
        unit=mechanism.neighbors,
    )
    with ledger.charging(request, mechanism) as draw:
        if draw.is_new:
            draw.value = mine
    return np.array_equal(draw.value, mine)


def claimed(run: str, rounds: int) -> dict[str, Any]:
    """Return what a ledger records of a claim to continue from the state after `rounds` rounds of a run."""
    return {"mechanism": CLAIM_NAME, "run": run, "rounds": rounds}


class Settings(ABC):
    """The public arguments of a learner: a frozen dataclass.

    Attributes:
        horizon: the number of rounds, or None for epochs of 1024, 2048, … rounds.
        name: the name of the learner in a ledger.
    """

    horizon: int | None
    epsilon: float
    delta: float
    name: ClassVar[str]

    @abstractmethod
    def planned(self, rounds: int) -> OnlinePlan:
        """Return the plan for so many rounds."""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values.

        Raises:
            InputError: they cannot be stored.
        """
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the settings that `to_json` was given."""
        return cls(**value)

    def mechanism(self, number: int, run: str) -> tuple[OnlinePlan, HorizonCharge]:
        """Return an epoch's plan and its rounds as a mechanism; there is one epoch where the horizon is known."""
        rounds = FIRST_EPOCH_ROUNDS << number if self.horizon is None else self.horizon
        plan = self.planned(rounds)
        return plan, HorizonCharge(plan.kernel, rounds, plan.to_json(), run, name=self.name)

    def path(self, number: int, run: str) -> Path:
        """Return where an epoch is charged: each round lies in one epoch, so that the worst of them counts."""
        return () if self.horizon is not None else ((run, number),)


@dataclass(frozen=True)
class Epoch:
    """A stretch of rounds with its own plan, of which `seen` rounds were played."""

    number: int
    plan: OnlinePlan
    mechanism: HorizonCharge
    seen: int
    state: Any = field(repr=False)

    @property
    def left(self) -> int:
        """The number of rounds to come."""
        return self.mechanism.rounds - self.seen

    def check_left(self) -> None:
        """Raise InputError after the last round."""
        if not self.left:
            raise InputError(f"the horizon of {self.mechanism.rounds:,} rounds is over")

    def played(self, losses: Any, rng: Randomness) -> tuple["Epoch", NDArray[Any]]:
        """Return the epoch after more rounds, and what was played in them."""
        state, played = self.mechanism.kernel.update(self.state, losses, rng=rng)
        return replace(self, seen=self.seen + count_rounds(losses), state=state), played


def count_rounds(losses: Any) -> int:
    """Return the number of rounds of checked losses: rows of an array, sparse or not, or items of a list."""
    return int(losses.shape[0]) if hasattr(losses, "shape") else len(losses)


@dataclass(frozen=True)
class Snapshot:
    """A learner between two rounds: public settings and a secret state.

    `simulated` says whether anything was drawn from a seeded generator.
    """

    settings: Settings
    dataset: str
    run: str
    rounds: int
    simulated: bool
    epoch: Epoch = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as plain values and arrays: secret."""
        return {
            "warning": SECRET_WARNING,
            "format": SNAPSHOT_FORMAT,
            "settings": self.settings.to_json(),
            "dataset": self.dataset,
            "run": self.run,
            "rounds": self.rounds,
            "simulated": self.simulated,
            "epoch": self.epoch.number,
            "seen": self.epoch.seen,
            "plan": self.epoch.plan.to_json(),
            "state": to_plain(self.epoch.state),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], kind: type[Settings]) -> "Snapshot":
        """Return the snapshot that `to_dict` wrote, of a learner with settings of this kind.

        Raises:
            InputError: value is something else, or has a plan that this version of labeldp would not make.
        """
        try:
            settings = kind.from_json(value["settings"])
            plan, mechanism = settings.mechanism(value["epoch"], str(value["run"]))
            same = value["format"] == SNAPSHOT_FORMAT and value["plan"] == plan.to_json()
            same = same and 0 <= value["seen"] <= min(mechanism.rounds, value["rounds"])
            epoch = Epoch(value["epoch"], plan, mechanism, int(value["seen"]), from_plain(value["state"]))
            snapshot = cls(
                settings, str(value["dataset"]), mechanism.run, int(value["rounds"]), bool(value["simulated"]), epoch
            )
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError):
            same = False
        if not same:
            raise InputError(NOT_A_STATE)
        return snapshot


class ChargedLearner(SingleProcess):
    """Base of learners that are charged to a ledger before they play; each works only in the process that made it.

    Guarantee (charged_first, refusal, paid_once): the guarantee of the whole horizon is charged before anything is
        drawn; of an update that is refused nothing is used; a state is continued once, or paid for again. Proof:
        `docs/proofs/keys.md`.
    """

    _why_no_copy = "a learner cannot be copied or pickled: two of them would each release the same losses"
    _why_no_fork = "this learner belongs to the process that made it: its fork would release losses again"
    _kind: ClassVar[type[Settings]]
    """The class of its settings."""

    _settings: Any
    _epoch: Epoch

    def _compared(self, check: Callable[[], Result]) -> Result:
        """Return losses that were checked; if the losses themselves are refused, a ledger file counts that first."""
        try:
            return check()
        except DomainError as error:
            refused = error.with_traceback(None)
        with self._ledger.comparing(LOSSES):
            raise refused

    def _open(
        self, settings: Any, rng: RandomSource | None, ledger: LedgerLike | None, budget: Budget, dataset: str
    ) -> None:
        """Charge all rounds, or the first epoch, then begin."""
        self._settings = settings
        self._start(secrets.token_hex(8), rng, ledger, budget, dataset)
        self._epoch = self._opened(0)

    def _start(
        self, run: str, rng: RandomSource | None, ledger: LedgerLike | None, budget: Budget, dataset: str
    ) -> None:
        """Set the attributes that a new learner and one from a snapshot have in common."""
        self._rng = as_successive(SystemRandomness() if rng is None else rng)
        # Epochs are about disjoint rounds, and each may cost the whole budget.
        self._ledger: LedgerLike = Ledger(budget, dataset, policy=Policy.PLAN) if ledger is None else ledger
        if not callable(getattr(self._ledger, "charging", None)):
            raise InputError("ledger must be one, such as Ledger(Budget(1, 1e-6)) or LedgerFile(path).dataset(name)")
        self._lock, self._rounds = threading.Lock(), 0
        self._claim_process()
        self._run, self._simulated = run, self._rng.kind is RandomnessKind.SIMULATION
        self._snapped, self._owner = False, secrets.token_bytes(16)
        self._receipts: dict[int, Certificate] = {}

    @property
    def plan(self) -> OnlinePlan:
        """The method, its parameters, its regret bound and alternatives; without a horizon, for the current epoch."""
        return self._epoch.plan

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
            fields = (self._settings, self._ledger.scope.name, self._run, self._rounds, self._simulated, self._epoch)
            return Snapshot(*fields).to_dict()

    @classmethod
    def from_state_dict(
        cls,
        state: Mapping[str, Any],
        *,
        rng: RandomSource | None = None,
        ledger: LedgerLike | None = None,
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
            learner._collect_receipts(snapshot, in_ledger=ledger is not None)
        _, mechanism = learner._charge(snapshot.epoch.number)
        learner._epoch = replace(snapshot.epoch, mechanism=mechanism)
        return learner

    def _collect_receipts(self, snapshot: Snapshot, *, in_ledger: bool) -> None:
        """Collect a run's receipts from its ledger, or by charging a new one; refuse a used snapshot."""
        mark = claimed(self._run, snapshot.rounds)
        charges = [charge for charge in self._ledger.charges if charge.mechanism.get("run") == self._run]
        if _CLAIMS.claimed(self._run, snapshot.rounds) or mark in [charge.mechanism for charge in charges]:
            raise InputError(_USED)
        epochs = range(snapshot.epoch.number + 1)
        if not in_ledger:
            for number in epochs:
                self._charge(number)
            return
        paid = {charge.mechanism["rounds"]: charge for charge in charges if charge.mechanism["mechanism"] != CLAIM_NAME}
        for number in epochs:
            _, mechanism = self._settings.mechanism(number, self._run)
            charge = paid.get(mechanism.rounds)
            if charge is None or charge.loss != mechanism.loss:
                raise InputError("ledger must hold the charge of this learner: give the one that it was charged to")
            self._receipts[number] = mechanism.receipt(charge, self._rng, self._ledger.scope.name)

    def _charge(self, number: int) -> tuple[OnlinePlan, HorizonCharge]:
        """Charge an epoch that is not charged yet; return its plan and its mechanism."""
        plan, mechanism = self._settings.mechanism(number, self._run)
        if number not in self._receipts:
            self._receipts[number] = mechanism.charge(self._ledger, self._rng, self._settings.path(number, self._run))
        return plan, mechanism

    def _next(self) -> Any:
        """Return what will be played in the coming round; raise InputError after the last."""
        self._epoch.check_left()
        return self._epoch.mechanism.kernel.predict(self._epoch.state)

    def _opened(self, number: int) -> Epoch:
        plan, mechanism = self._charge(number)
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
            right = (self._rounds, self._owner)
            if not (_CLAIMS.claim(self._run, *right) and claim(self._ledger, self._epoch.mechanism, *right)):
                raise InputError(_USED)
            self._snapped = False


def floats_below(epsilon: Any, delta: Any) -> tuple[float, float]:
    """Return floats that are not above epsilon and delta."""
    return float_below(decimal(epsilon, "epsilon")), float_below(decimal(delta, "delta"))
