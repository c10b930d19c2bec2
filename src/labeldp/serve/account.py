"""A share of the budget of a dataset whose labels a server holds, as the account of a fit."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from labeldp.privacy import (
    Budget,
    Charge,
    InputError,
    Path,
    PendingCharge,
    PrivacyLoss,
    Protection,
    Request,
    Scope,
    Unit,
    decimal,
    promised,
)


@dataclass(frozen=True)
class RemoteAccount:
    """A share of a dataset that a server holds. A fit uses it like the dataset of a ledger.

    The server keeps the charges, draws the noise, and finds stored releases. This class knows only what it answers.

    Args:
        remote: the curator of the dataset, a `RemoteCurator`.
    """

    remote: Any
    randomness, secret = None, ()
    own_entries = charges = ()
    digest_key = ids_key = None

    @classmethod
    def of(cls, remote: Any, request: Request, records: int, ids: Iterable[Any] | None) -> "RemoteAccount":
        """Return the account of a fit, after comparing what is public of its rows with the server's.

        Args:
            remote: the curator of the dataset.
            request: what is asked for.
            records: the number of rows.
            ids: their record ids, or None.

        Raises:
            InputError: the rows or the request do not go with the labels of the server.
        """
        scope = request.scope
        values = {
            "cohort": scope.cohort,
            "revision": scope.revision,
            "user": request.source.users,
            "other-ids": request.options.get("other_ids"),
        }
        for flag, value in values.items():
            if value:
                raise InputError(f"--{flag} does not go with --curator: a server has one state of all records")
        if records != remote.records:
            raise InputError(
                f"--curator: the server has labels of {remote.records:,} records, and the file has {records:,}: the "
                "rows must be the rows of the labels, in their order"
            )
        if ids is not None:
            remote.check_ids(ids)
        return cls(remote)

    @property
    def state(self) -> "RemoteAccount":
        """This account: it asks the server."""
        return self

    def read(self) -> "RemoteAccount":
        """Return this account."""
        return self

    @property
    def scope(self) -> Scope:
        """The scope of the labels: the dataset that they belong to."""
        return Scope.parse(self.remote.dataset)

    @property
    def protection(self) -> Protection:
        """Single labels: servers protect each record by itself."""
        return Protection(Unit.ONE_LABEL)

    @cached_property
    def budget(self) -> Budget:
        """The analyst's share of the dataset's epsilon, at the delta of the whole."""
        content = self.remote.budget
        return Budget(decimal(content["epsilon"], "epsilon") * Fraction(content["share"]), content["delta"])

    def creation(self, ledger: object) -> str:
        """Return an empty text: no file is created."""
        return ""

    def used(self, *, without: Iterable[Charge] = ()) -> Fraction:
        """Return how much of the share is used up by now, but for what some charges guarantee."""
        charges, budget = tuple(without), self.budget
        cost = promised(charges, budget.delta).epsilon if charges else 0
        used = Fraction(self.remote.budget["used"]) - decimal(cost, "epsilon") / decimal(budget.epsilon, "epsilon")
        return max(Fraction(0), used)

    def holds(self, charges: Iterable[Charge]) -> bool:
        """Return whether the server released these to the same analyst."""
        try:
            return all(self.remote.certificate(charge.id).entries[0] == charge for charge in charges)
        except InputError:
            return False

    def part(self, path: Path) -> Path:
        """Return the part of the records that a charge was about."""
        return path

    def check_unit(self, unit: Unit, users: str | None = None) -> None:
        """See `Protection.admit`."""
        self.protection.admit(unit, users, self.scope.dataset)

    def check_count(self, records: int) -> None:
        """Refuse nothing: the rows were counted when the account was opened."""

    def has_made(self, request: PendingCharge) -> bool:
        """Return False: what the server finds again is no matter of this process."""
        return False

    def of_request(self, request: Request) -> "RemoteAccount":
        """Return this account: a server stores no request of a fit."""
        return self

    def foresee(self, more: Iterable[tuple[Path, PrivacyLoss]], unit: Unit) -> None:
        """Refuse nothing: the learner asks the server, as soon as it knows the parts of the records."""
