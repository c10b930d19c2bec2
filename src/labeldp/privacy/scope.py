"""The labels of a charge: dataset, column, revision, cohort, analyst and unit."""

from dataclasses import dataclass
from enum import StrEnum

from labeldp.privacy.errors import InputError


class Unit(StrEnum):
    """What one neighbor may change."""

    RECORD = "record"
    USER = "user"


@dataclass(frozen=True)
class Scope:
    """Public name of the labels of a charge and their state.

    Args:
        dataset: the dataset's name in the ledger.
        column: one of several private columns of the dataset; empty where it has one without a name.
        revision: the state of the labels; empty for the first.
        cohort: the records that came together; empty for all records.
        analyst: whose share is charged; empty for none.
    """

    dataset: str
    column: str = ""
    revision: str = ""
    cohort: str = ""
    analyst: str = ""
    unit: Unit = Unit.RECORD

    @classmethod
    def parse(cls, text: str, *, unit: Unit = Unit.RECORD, **fields: str) -> "Scope":
        """Return the scope that "survey/income" or "survey" names.

        Raises:
            InputError: a name with control characters.
        """
        if not all(name.isprintable() for name in (text, *fields.values())):
            raise InputError("must be a printable name", argument="dataset")
        dataset, slash, column = text.rpartition("/")
        if not (slash and dataset.strip() and column.strip()):
            dataset, column = text, ""
        return cls(dataset, column, unit=unit, **fields)

    @property
    def name(self) -> str:
        """The name of the labels in the ledger, such as "survey/income"."""
        return f"{self.dataset}/{self.column}" if self.column else self.dataset

    def to_json(self) -> dict[str, str]:
        """Return what a user wrote, as JSON values; what is empty is left out."""
        return {name: str(value) for name, value in vars(self).items() if value}
