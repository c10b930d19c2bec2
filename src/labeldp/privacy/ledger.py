"""The ledger in memory, which charges releases to a budget."""

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy.accounts import Account, Row, declared, settle
from labeldp.privacy.budget import LARGER_BUDGET, Budget
from labeldp.privacy.certificate import Certificate, Neighbors, join_certificates, warn_of_weak_budget
from labeldp.privacy.charges import Charge, Path, Plans, Step
from labeldp.privacy.errors import BudgetExceeded, InputError, LedgerError
from labeldp.privacy.exact import decimal, rounded_up_text
from labeldp.privacy.loss import PrivacyLoss, RecordLoss
from labeldp.privacy.process import SingleProcess
from labeldp.privacy.randomness import KeyedRandomness, RandomnessKind
from labeldp.privacy.totals import Bound, Totals

Encoded = TypeVar("Encoded")

KEY_SECRECY = "the key to the noise, and a ledger that holds it, stays as secret as the labels"

ARRAY_DIGESTS = ("candidates", "groups")
"""Entries of a mechanism's specification that digest an array with one row for each record."""


@dataclass(frozen=True)
class PendingCharge:
    """A charge that a curator asks of a ledger, with everything that the outcome and its noise depend on.

    Args:
        mechanism: the mechanism's public specification, plain JSON values.
        loss: its cost.
        path: the part of the records that it uses.
        labels: a keyed, order-free digest of the encoded labels that it uses; secret.
        step: names a stage of a longer run, so that it is found again after a crash.
        scheme: how the dataset's records are identified: "row numbers" or "ids".
        randomness: where the noise will come from.
        source: tells keys apart; `Randomness.identity`.
        traces: traces of all labels of the dataset, by which changed labels are recognized, each (kind of ids, kind of
            labels, keyed digest); secret.
        conditions: what the guarantee depends on beside the mechanism's own assumptions, in words.
        order: the row numbers in the order of the record ids, shape (n,), where ids were given: what a ledger keeps
            is found again by records whose rows stand in another order.
        persons: a digest of the map from records to persons, where all labels of a person are protected together.
        records: how many labels it uses; public. 0 where nobody says.
        analyst: who asks, where shares of the budget are reserved; nobody is answered from another's releases.
    """

    mechanism: Mapping[str, Any]
    loss: PrivacyLoss
    path: Path = ()
    labels: str = field(default="", repr=False)
    step: str | None = None
    scheme: str = "row numbers"
    randomness: RandomnessKind = RandomnessKind.SYSTEM
    source: str = RandomnessKind.SYSTEM.name
    traces: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)
    conditions: tuple[str, ...] = ()
    order: NDArray[np.intp] | None = field(default=None, repr=False, compare=False)
    persons: str | None = field(default=None, repr=False)
    records: int = field(default=0, compare=False)
    analyst: str = ""

    def identity(self, *, with_arrays: bool = True) -> dict[str, Any]:
        """Return the request as plain JSON values; the noise key is a function of them.

        A step counts only where the mechanism has an array with a row for each record: any other is found again by
        whoever asks for the same, so that several runs share one release.

        Args:
            with_arrays: False leaves out the digests of per-record arrays (candidate sets, groups) that a stage
                of training cannot reproduce to the bit.
        """
        stepwise = any(name in self.mechanism for name in ARRAY_DIGESTS)
        mechanism = {name: value for name, value in self.mechanism.items() if with_arrays or name not in ARRAY_DIGESTS}
        return {
            "mechanism": mechanism,
            "path": [list(part) for part in self.path],
            "labels": self.labels,
            "step": self.step if stepwise else None,
            "scheme": self.scheme,
            "randomness": self.source,
            **({"persons": self.persons} if self.persons else {}),
            **({"analyst": self.analyst} if self.analyst else {}),
        }

    def context(self) -> bytes:
        """Return the identity as bytes, to bind keyed noise to it."""
        return json.dumps(self.identity(), sort_keys=True).encode()

    def certificate(self, charge: Charge, mechanism: Any, dataset: str, cohorts: tuple[str, ...] = ()) -> Certificate:
        """Return the certificate of this request, charged as `charge` and answered by `mechanism`, and of its basis.

        Args:
            charge: of this request.
            mechanism: what answered it.
            dataset: name of the dataset.
            cohorts: those that it was about; empty in a dataset without cohorts.
        """
        keyed = (KEY_SECRECY,) if self.randomness is RandomnessKind.KEYED else ()
        own = Certificate(
            entries=(charge,),
            dataset=dataset,
            neighbors=Neighbors.ONE_PERSON if self.persons else mechanism.neighbors,
            trust=mechanism.trust,
            randomness=self.randomness,
            published=mechanism.published,
            assumptions=(*mechanism.assumptions, *self.conditions, *keyed),
            cohorts=cohorts,
        )
        return join_certificates([own, *mechanism.basis])


@dataclass(frozen=True)
class Drawn:
    """The outcome of a charged draw: the value, the mechanism that made it, and its certificate as first given."""

    value: Any = field(repr=False)
    mechanism: Any
    certificate: Certificate


class LedgerLike(Protocol):
    """The ledger as a curator uses it."""

    @property
    def name(self) -> str:
        """The dataset's name."""

    @property
    def analyst(self) -> str:
        """Who is charged, where shares of the budget are reserved; else empty."""

    @property
    def digest_key(self) -> bytes | None:
        """A secret key for digests of the labels, or None where the ledger needs no digest."""

    @property
    def ids_key(self) -> bytes | None:
        """A secret key of `RecordIds`, or None for a ledger in memory, which takes ids as they are."""

    @property
    def randomness(self) -> KeyedRandomness | None:
        """The only keyed noise for releases charged here, or None where there is none."""

    def check_process(self) -> None:
        """Refuse in a process where this ledger does not know what was spent."""

    def of_records(self, records: str | None) -> "LedgerLike":
        """Return the ledger as it charges these records; refuse others than its own, before a label is compared.

        Args:
            records: digest of the record ids, or None without ids; see `RecordDigest`.
        """

    def check_persons(self, persons: str | None) -> None:
        """Refuse another map from records to persons than charges were made for; see `Pinned`.

        Args:
            persons: digest of the map, or None where each record is protected by itself.
        """

    def compare(self, domain: Any, encode: Callable[[], Encoded]) -> Encoded:
        """Return the result of `encode`, which compares labels with a declared domain; a ledger file remembers that."""

    def enroll(self) -> str:
        """Return a name for one more curator: only parts of records under one name are charged in parallel."""

    def require(self, requests: Sequence[PendingCharge]) -> None:
        """Refuse requests that the budget would not admit together; nothing is charged.

        Releases that the ledger may find again do not count: only their step, path and loss are known so early.
        """

    def has_charged(self, request: PendingCharge) -> bool:
        """Return whether the ledger may find a release again: of these records, with the same step, part and loss."""

    def check_labels(self, request: PendingCharge) -> None:
        """Refuse labels that are not those of earlier requests, if the ledger has a `digest_key` to tell."""

    def draw(self, request: PendingCharge, mechanism: Any, make: Callable[[], Any]) -> Drawn:
        """Check the budget, commit the charge and the drawn value; refuse before `make` is called."""


@dataclass(frozen=True)
class Pinned:
    """What the first charges of a dataset fixed for good: whom they protect.

    Args:
        persons: digest of the map from records to persons, or None if no charge was for persons.
        whole: whether every charge was for persons: then what protects single records only is refused.
    """

    persons: str | None = None
    whole: bool = True

    def check(self, persons: str | None, name: str) -> None:
        """Refuse a request for records, or for other persons.

        A charge for persons counts for their records as well, so where records alone were protected it may follow.

        Args:
            persons: as in `PendingCharge`.
            name: of the dataset.

        Raises:
            LedgerError: nothing was charged.
        """
        if self.persons is None or self.persons == persons:
            return
        if persons is not None:
            raise LedgerError(
                f"these are not the persons that {name!r} was charged for: a dataset has one map from records to "
                "persons; nothing was charged. Records of other people are a dataset of their own"
            )
        if self.whole:
            raise LedgerError(
                f"{name!r} was charged for persons, and this would protect single records only; nothing was charged. "
                "Say whose each record is (persons, --person COLUMN); what cannot do so takes a dataset of its own"
            )


class Ledger(SingleProcess):
    """The charges about one set of labels, in memory.

    It belongs to the process that made it. Where several processes release (forked workers, a process pool, a web
    server with workers), use a ledger file, which all of them share: `LedgerFile(path).dataset(name)`.

    Guarantee (charged_first, no_copy): nothing is drawn before its charge is recorded, and no charge passes the budget;
        a fork, a copy or a pickle of it has no budget.
    """

    _why_no_copy = (
        "a Ledger in memory cannot be copied or pickled: each copy would spend the same budget again. Use a ledger "
        "file, LedgerFile(path).dataset(name), which all processes share"
    )
    _why_no_fork = (
        "this ledger in memory belongs to the process that made it, and a fork would spend the same budget again: use "
        "a ledger file, LedgerFile(path).dataset(name), which all processes share"
    )

    def __init__(self, budget: Budget, name: str = "labels") -> None:
        if not isinstance(budget, Budget):
            raise InputError("budget must be a Budget, such as Budget(epsilon=1.0)")
        self._budget = budget
        self.name = name
        self._charges: list[Charge] = []
        self._totals = Totals()
        self._account: Account | None = None
        self._declared: list[Row] = []
        self._plans = Plans()
        self._pinned = Pinned()
        self._curators = 0
        self._lock = threading.Lock()
        self._token = secrets.token_hex(8)
        self._claim_process()

    @property
    def budget(self) -> Budget:
        """The most that all charges may cost together; it never changes."""
        return self._budget

    @property
    def analyst(self) -> str:
        """Nobody: a ledger in memory reserves no shares."""
        return ""

    @property
    def digest_key(self) -> None:
        """None: a ledger in memory never finds a release again, so it does not fingerprint labels."""
        return None

    @property
    def ids_key(self) -> None:
        """None: noise that does not depend on ids needs no names of records."""
        return None

    @property
    def randomness(self) -> None:
        """None: keyed noise needs a ledger file, which keeps the key and notices labels that changed."""
        return None

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge so far, oldest first."""
        self.check_process()
        return tuple(self._charges)

    @property
    def spent(self) -> RecordLoss:
        """The privacy loss of all charges together, if their list was fixed in advance; else the budget is promised."""
        self.check_process()
        with self._lock:
            return self._totals.loss()

    def of_records(self, records: str | None) -> "Ledger":
        """Return this ledger: one in memory does not tell records apart."""
        return self

    def check_persons(self, persons: str | None) -> None:
        """See `Pinned.check`."""
        self._pinned.check(persons, self.name)

    def compare(self, domain: Any, encode: Callable[[], Encoded]) -> Encoded:
        """Return the result of `encode`: a ledger in memory remembers neither domains nor refusals."""
        return encode()

    def enroll(self) -> str:
        """Return a new name: whether two curators hold the same records is not known here."""
        self.check_process()
        with self._lock:
            self._curators += 1
            return f"curator {self._curators}"

    def record(self, request: PendingCharge) -> Charge:
        """Charge a request.

        Raises:
            BudgetExceeded: it would pass the budget; nothing was charged.
        """
        self.check_process()
        charge = self._charge(request)
        with self._lock:
            self._pinned.check(request.persons, self.name)
            self._account = self._check([charge])
            warn_of_weak_budget(self.budget.epsilon, self.budget.delta, request.records)
            charge = replace(charge, plan=self._plans.take(charge.path, charge.loss))
            if request.persons is not None and self._pinned.persons is None:
                self._pinned = Pinned(request.persons, not self._charges)
            self._charges.append(charge)
            self._totals.add(charge.path, charge.loss)
        return charge

    def require(self, requests: Sequence[PendingCharge]) -> None:
        """Refuse requests that the budget would not admit together; a ledger in memory finds none of them again.

        Raises:
            BudgetExceeded: nothing was charged.
        """
        self.check_process()
        with self._lock:
            asked = [self._charge(request) for request in requests]
            self._check(asked)
            self._declared = list(declared(self._declared, _rows(asked)))
            self._plans.declare((Step(charge.path, charge.loss) for charge in asked), secrets.token_hex(8))

    def has_charged(self, request: PendingCharge) -> bool:
        """Return False: a ledger in memory finds nothing again."""
        return False

    def check_labels(self, request: PendingCharge) -> None:
        """Refuse nothing: a ledger in memory does not fingerprint labels."""

    def _check(self, more: Sequence[Charge]) -> Account | None:
        """Raise BudgetExceeded unless the budget admits more charges; return its account, if it has a delta."""
        if not decimal(self.budget.delta, "delta"):
            costs = [(charge.path, charge.loss) for charge in more]
            check_budget(self.budget, self._totals.bound, lambda: self._totals, costs, self.name)
            return None
        charged = [Row((0, 0), path, loss, times) for (path, loss), times in self._totals.counted.items()]
        return settle(self.budget, self._account, charged, _rows(more), self._declared, self.name)

    def _charge(self, request: PendingCharge) -> Charge:
        # Splits of two ledgers never count as one: their records may overlap in any way.
        path = tuple((f"{self._token}:{split}", part) for split, part in request.path)
        limits = decimal(self.budget.epsilon, "epsilon"), decimal(self.budget.delta, "delta")
        own = {"account": self._token, "budgets": (limits,)}
        return Charge(secrets.token_hex(8), path, request.loss, request.mechanism, **own)  # type: ignore[arg-type]

    def draw(self, request: PendingCharge, mechanism: Any, make: Callable[[], Any]) -> Drawn:
        """Charge first, then draw."""
        charge = self.record(request)
        return Drawn(make(), mechanism, request.certificate(charge, mechanism, self.name))

    def __repr__(self) -> str:
        return f"Ledger(name={self.name!r}, budget=({self.budget}), charges={len(self._charges)})"


def _rows(charges: Sequence[Charge]) -> list[Row]:
    return [Row((0, 0), charge.path, charge.loss) for charge in charges]


def check_budget(
    budget: Budget, bound: Bound, totals: Callable[[], Totals], more: Iterable[tuple[Path, PrivacyLoss]], name: str
) -> None:
    """Refuse more charges that would pass the budget together.

    Args:
        budget: the most that all may cost together.
        bound: sums that bound what was charged before; where they show that all is well, nothing else is read.
        totals: returns what was charged before.
        more: path and loss of each charge that is asked for.
        name: name of the dataset.

    Raises:
        BudgetExceeded: the message says what the total would be.
    """
    asked = list(more)
    if not asked or sum((Bound.of(loss) for _, loss in asked), bound).admits(budget.epsilon, budget.delta):
        return
    known = totals()
    total = known.loss(asked)
    if not budget.admits(total):
        delta, spent = budget.delta, known.loss()
        if total.epsilon(delta) == float("inf") and not decimal(delta, "delta"):
            raise BudgetExceeded(
                f"the budget of {name!r} is {budget}, and this costs a delta: ask for delta = 0, or give the budget a "
                "delta. That is a decision of its own: the probability that the promise fails"
            )
        raise BudgetExceeded(
            f"the budget of {name!r} is {budget}; spent so far: epsilon = {rounded_up_text(spent.epsilon(delta), 12)}; "
            f"this would bring it to epsilon = {rounded_up_text(total.epsilon(delta), 12)} at that delta. "
            f"{LARGER_BUDGET}"
        )
