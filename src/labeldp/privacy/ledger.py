"""Pending charges of a curator, and the ledger as a curator uses it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy.certificate import Certificate, Release, join_certificates
from labeldp.privacy.charges import Charge, Path
from labeldp.privacy.loss import Budget, PrivacyLoss
from labeldp.privacy.randomness import KeyedRandomness, RandomnessKind
from labeldp.privacy.request import Request, Scope
from labeldp.privacy.unit import Protection, Unit

KEY_SECRECY = "the noise key, and a ledger file that holds it, stays as secret as the labels"

ARRAY_DIGESTS = ("candidates", "groups", "places")
"""Entries of a mechanism's specification that digest an array with one row for each record."""


@dataclass(frozen=True)
class PendingCharge:
    """A requested charge, with everything that the outcome and its noise depend on.

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
        conditions: of the guarantee, in addition to the mechanism's assumptions.
        order: the row numbers in the order of the record ids, shape (n,), if ids were given: a stored release is reused
            for the same records in another order.
        unit: the unit of protection that the cost is for.
        users: a digest of the map from records to users, if the unit is all labels of a user.
        records: public number of labels that it uses; 0 if unknown.
        analyst: who asks, if shares of the budget are reserved; each analyst gets releases of their own.
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
    unit: Unit = Unit.ONE_LABEL
    users: str | None = field(default=None, repr=False)
    records: int = field(default=0, compare=False)
    analyst: str = ""

    def identity(self, *, with_arrays: bool = True) -> dict[str, Any]:
        """Return the request as plain JSON values; the noise key is a function of them.

        A step counts only if the mechanism has an array with a row for each record: other requests share one release in
        several runs. `with_arrays=False` leaves out the digests of such arrays (candidate sets, groups), which a stage
        of training cannot reproduce to the bit.
        """
        stepwise = not self.mechanism.keys().isdisjoint(ARRAY_DIGESTS)
        mechanism = {name: value for name, value in self.mechanism.items() if with_arrays or name not in ARRAY_DIGESTS}
        return {
            "mechanism": mechanism,
            "path": [list(part) for part in self.path],
            "labels": self.labels,
            "step": self.step if stepwise else None,
            "scheme": self.scheme,
            "randomness": self.source,
            **({"users": self.users} if self.users else {}),
            **({"analyst": self.analyst} if self.analyst else {}),
        }

    def context(self) -> bytes:
        """Return the identity as bytes, to bind keyed noise to it."""
        return json.dumps(self.identity(), sort_keys=True).encode()

    def certificate(self, charge: Charge, mechanism: Any, dataset: str, cohorts: tuple[str, ...] = ()) -> Certificate:
        """Return the certificate of this request under `charge` and `mechanism`, and its basis."""
        keyed = (KEY_SECRECY,) if self.randomness is RandomnessKind.KEYED else ()
        certificate = Certificate(
            entries=(charge,),
            dataset=dataset,
            neighbors=self.unit,
            trust=mechanism.trust,
            randomness=self.randomness,
            published=mechanism.published,
            assumptions=(*mechanism.assumptions, *self.conditions, *keyed),
            cohorts=cohorts,
        )
        return join_certificates([certificate, *mechanism.basis])


@dataclass
class Draw:
    """A charged draw, while a body of `LedgerLike.charging` makes it and after it.

    Args:
        mechanism: what answers; of a stage that was found again, the stored one.
        is_new: whether the body must draw `value`; otherwise it was found again.
        value: what was drawn.
        certificate: as it was first given; None until the body of a new draw ends.
    """

    mechanism: Any
    is_new: bool
    value: Any = field(default=None, repr=False)
    certificate: Certificate | None = None

    @property
    def release(self) -> Release[Any]:
        """The value with its certificate, once the body has ended."""
        assert self.certificate is not None
        return Release(self.value, self.certificate, self.mechanism)


class AccountState(Protocol):
    """What charges of one set of labels add up to at one moment."""

    @property
    def budget(self) -> Budget:
        """The most that all charges may cost together."""

    @property
    def protection(self) -> Protection:
        """The unit of protection of the account, with its users."""

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges so far that the account can list, oldest first."""

    @property
    def own_entries(self) -> tuple[Any, ...]:
        """The releases of these records that the account can find again, oldest first."""

    def used(self, *, without: Iterable[Charge] = ()) -> Fraction:
        """Return the share of the budget that is used up, or was used without some charges; it is no epsilon."""

    def holds(self, charges: Iterable[Charge]) -> bool:
        """Return whether all these were charged here."""

    def has_made(self, request: PendingCharge) -> bool:
        """Return whether a release of all these records may answer a request, whatever its labels."""

    def foresee(self, more: Iterable[tuple[Path, PrivacyLoss]], unit: Unit) -> None:
        """Refuse if the budget cannot admit more charges of parts of these records; nothing is charged."""

    def check_unit(self, unit: Unit, users: str | None = None) -> None:
        """Refuse a unit of protection, or users, that the account does not keep; see `Protection.admit`."""

    def check_count(self, records: int) -> None:
        """Refuse another number of records than the account knows."""


class AccountLike(Protocol):
    """What charges of one set of labels add up to: in memory, in a ledger file, or on a server."""

    @property
    def scope(self) -> Scope:
        """Whose labels these are, in which state, and whose share of the budget is charged."""

    @property
    def state(self) -> AccountState:
        """What was charged by the time that the account was opened. What is charged since is in `read()`."""

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges by now that the account can list, oldest first."""

    @property
    def remote(self) -> Any:
        """The curator of the labels, where a server holds them; None where the curator is here."""

    @property
    def secret(self) -> tuple[str, ...]:
        """Sentences on what stays secret, with the labels themselves."""

    @property
    def digest_key(self) -> bytes | None:
        """A secret key for digests of the labels, or None where the ledger needs no digest."""

    @property
    def ids_key(self) -> bytes | None:
        """A secret key of `RecordIds`, or None for a ledger in memory, which uses plain ids."""

    @property
    def randomness(self) -> KeyedRandomness | None:
        """The only keyed noise for releases charged here, or None where there is none."""

    def read(self) -> AccountState:
        """Return what was charged by now."""

    def creation(self, ledger: object) -> str:
        """Return what is said where the first charge creates the file `ledger`; else an empty text."""

    def part(self, path: Path) -> Path:
        """Return the part of these records that a charge was about."""

    def of_request(self, request: Request) -> Self:
        """Return the account as it charges a request."""


class LedgerLike(AccountLike, Protocol):
    """An account that a curator in this process charges."""

    def check_process(self) -> None:
        """Refuse in a process where this ledger does not know the charges."""

    def of_records(self, records: str | None) -> "LedgerLike":
        """Return the ledger for records with this digest of ids; refuse other records before labels are compared."""

    def comparing(self, domain: Any) -> AbstractContextManager[None]:
        """Let the body compare labels with a declared domain; a ledger file remembers that and the outcome."""

    def enroll(self) -> str:
        """Return a name for one more curator: only parts of records under one name are charged in parallel."""

    def require(self, requests: Sequence[PendingCharge]) -> None:
        """Refuse requests that the budget would not admit together; nothing is charged.

        Releases that the ledger may find again do not count: only their step, path and loss are known so early.
        """

    def has_charged(self, request: PendingCharge) -> bool:
        """Return whether the ledger can find a release of the same records, step, part and loss again."""

    def check_labels(self, request: PendingCharge) -> None:
        """Refuse labels that are not those of earlier requests, if the ledger has a `digest_key` to tell."""

    def charging(self, request: PendingCharge, mechanism: Any) -> AbstractContextManager[Draw]:
        """Charge before the body draws, and commit the value after it; what is refused never reaches the body."""
