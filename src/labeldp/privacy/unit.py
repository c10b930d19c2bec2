"""The unit of protection: what may differ between two datasets, and the one unit that an account keeps."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from labeldp.privacy.errors import InputError, LedgerError


class Unit(Enum):
    """What one neighbor may change: the unit of protection."""

    ONE_LABEL = "the label of one record is replaced"
    ONE_USER = "all labels of one user are replaced"
    ONE_LOSS = "one round's loss function is replaced"
    ZERO_OUT = "one round's loss function is replaced by zero"
    FULL = "one whole record, features and label, is replaced"

    @property
    def words(self) -> "Wording":
        """The words of certificates."""
        return _WORDING[self]

    def covers(self, other: "Unit") -> bool:
        """Return whether datasets that differ by `other` always differ by this unit, so that its loss bounds theirs.

        Source: `docs/proofs/composition.md`, units of protection.
        """
        return other is self or other in _COVERED.get(self, ())


_COVERED = {
    Unit.ONE_USER: (Unit.ONE_LABEL,),
    Unit.FULL: (Unit.ONE_LABEL,),
    Unit.ONE_LOSS: (Unit.ZERO_OUT,),
}


@dataclass(frozen=True)
class Wording:
    """The words for a unit of protection: the unit, the same in a neighboring dataset, and what a curator sees."""

    unit: str
    other: str
    seen: tuple[str, str] = ("label", "labels")


_LOSSES = ("round's losses", "losses")

_WORDING = {
    Unit.ONE_LABEL: Wording("one label", "another label"),
    Unit.ONE_USER: Wording("all labels of one user", "other labels of the user"),
    Unit.ONE_LOSS: Wording("the losses of one round", "other losses of the round", _LOSSES),
    Unit.ZERO_OUT: Wording(
        "the losses of one round (against zero losses)", "zero losses of the round, and the reverse", _LOSSES
    ),
    Unit.FULL: Wording("one record (features and label)", "another record", ("record", "records")),
}


def check_loss_neighbors(value: object) -> Unit:
    """Return how sequences of losses may differ: in the loss of one round, replaced or set to zero.

    Raises:
        InputError: another relation.
    """
    if value not in (Unit.ONE_LOSS, Unit.ZERO_OUT):
        raise InputError("must be Unit.ONE_LOSS or Unit.ZERO_OUT", argument="neighbors")
    return Unit(value)


def common_unit(units: Iterable[Unit]) -> Unit:
    """Return the largest unit that every one of some units covers: what their losses bound together.

    Raises:
        InputError: there is none, such as for labels and losses of rounds.
    """
    listed = set(units)
    for unit in (Unit.ONE_USER, Unit.FULL, Unit.ONE_LABEL, Unit.ONE_LOSS, Unit.ZERO_OUT):
        if all(charged.covers(unit) for charged in listed):
            return unit
    words = sorted(charged.words.unit for charged in listed)
    raise InputError(f"releases must share a unit of protection: no guarantee is for {' and '.join(words)} together")


@dataclass(frozen=True)
class Protection:
    """What the account of a dataset protects, for good: decided when it is declared, or by its first charge.

    Args:
        unit: the unit of protection of every charge; None before the first one.
        users: a keyed digest of the map from records to users; None if no charge was for users.

    Guarantee (one_unit, one_map): the loss of every charge bounds what a change of one unit of the account shows, and
        all charges for users are for the users of one map.

    Source: `docs/proofs/composition.md`, units of protection.
    """

    unit: Unit | None = None
    users: str | None = None

    def admit(self, unit: Unit, users: str | None, dataset: str) -> "Protection":
        """Return the protection after a charge, whose unit covers the unit of the account.

        Args:
            unit: of the charge.
            users: the digest of its users; None for a charge that is not for users.
            dataset: the name of the dataset.

        Raises:
            LedgerError: its unit does not cover the account's, or it is for other users; nothing was charged.
        """
        if self.unit is not None and not unit.covers(self.unit):
            raise LedgerError(
                f"the account of {dataset!r} protects {self.unit.words.unit}, and this would protect "
                f"{unit.words.unit} only; nothing was charged. {_advice(self.unit, unit)}"
            )
        if users is not None and self.users not in (None, users):
            raise LedgerError(
                f"these are not the users that {dataset!r} was charged for: a dataset has one map from records to "
                "users; nothing was charged. Use another dataset for the records of other people"
            )
        return Protection(self.unit or unit, self.users if users is None else users)


def _advice(account: Unit, request: Unit) -> str:
    """Return what to do where an account keeps another unit than a request."""
    instead = "use another dataset, whose budget is in addition"
    if (account, request) == (Unit.ONE_USER, Unit.ONE_LABEL):
        return f"Pass the user of each record (users, --user COLUMN), or {instead}"
    if (account, request) == (Unit.ONE_LOSS, Unit.ZERO_OUT):
        return f'Plan it for any losses (neighbors="replace", --neighbors replace), or {instead}'
    return f"{instead[0].upper()}{instead[1:]}"
