"""Totals of a ledger file: kept with each charge, in its transaction, so that one more reads none of the others."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from sqlite3 import Connection
from typing import Any, final

from labeldp.curator.stored import stored
from labeldp.privacy import (
    Bound,
    Budget,
    Path,
    PrivacyLoss,
    RecordLoss,
    Row,
    Span,
    Totals,
    check_budget,
    float_above,
    rounded_up_text,
)

TotalRow = tuple[int, int, str, str, int]
"""Equal charges: the span, the part of its records, the loss, and how many there are."""


def add_charge(connection: Connection, dataset: int, span: Span, path: Path, loss: PrivacyLoss) -> None:
    """Count a charge that is written in the same transaction, for each of its cohorts."""
    texts = _texts(path, loss)
    connection.execute(
        "INSERT INTO total VALUES (?, ?, ?, ?, ?, ?, 1) "
        "ON CONFLICT (dataset, low, high, cost) DO UPDATE SET times = times + 1",
        (dataset, *span, _digest(*texts), *texts),
    )
    known, more = read_bounds(connection, dataset, span), Bound.of(loss)
    rows = [(dataset, number, *(bound + more).to_texts()) for number, bound in known.items()]
    connection.executemany("INSERT OR REPLACE INTO bound VALUES (?, ?, ?, ?, ?)", rows)


def read_bounds(connection: Connection, dataset: int, span: Span) -> dict[int, Bound]:
    """Return the sums that bound what was charged to each cohort of a span."""
    query = "SELECT cohort, pure, rho, failures FROM bound WHERE dataset = ? AND cohort BETWEEN ? AND ?"
    return bounds_from(connection.execute(query, (dataset, *span)).fetchall(), span)


def bounds_from(rows: Iterable[tuple[int, str | None, str | None, str]], span: Span) -> dict[int, Bound]:
    """Return the sums of each cohort of a span, from rows of the table; nothing was charged to one without a row."""
    known = {number: Bound.from_texts(pure, rho, failures) for number, pure, rho, failures in rows}
    return {number: known.get(number, Bound()) for number in range(span[0], span[1] + 1)}


def read_totals(connection: Connection, dataset: int) -> "CohortTotals":
    """Return what was charged to a dataset, under all revisions."""
    query = "SELECT low, high, path, loss, times FROM total WHERE dataset = ? ORDER BY rowid"
    return CohortTotals(connection.execute(query, (dataset,)).fetchall())


@final
class CohortTotals:
    """What was charged to each cohort of a dataset.

    Args:
        rows: equal charges of a span.

    Guarantee (never_less): the loss is never less than that of any single record.
    """

    def __init__(self, rows: Iterable[TotalRow]) -> None:
        self._rows = [
            ((low, high), (_path(path), stored(loss, PrivacyLoss.from_json)), times)
            for low, high, path, loss, times in rows
        ]

    @classmethod
    def of(cls, charges: Iterable[tuple[Span, Path, PrivacyLoss]]) -> "CohortTotals":
        """Return the totals of charges: their cohorts, the part of these, and the loss."""
        return cls((*span, *_texts(path, loss), 1) for span, path, loss in charges)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> list[Row]:
        """The charges, equal ones counted."""
        return [Row(span, path, loss, times) for span, (path, loss), times in self._rows]

    def of_cohort(self, cohort: int) -> Totals:
        """Return what the records of a cohort were charged."""
        counted: dict[tuple[Path, PrivacyLoss], int] = {}
        for (low, high), cost, times in self._rows:
            if low <= cohort <= high:
                counted[cost] = counted.get(cost, 0) + times
        return Totals(counted)

    def loss(self, cohorts: Iterable[int], more: Iterable[tuple[Path, PrivacyLoss]] = ()) -> RecordLoss:
        """Return the most that a record of some cohorts pays for what it was charged, and for more."""
        asked = list(more)
        # Cohorts that were charged the same are computed once.
        alike = {
            tuple(place for place, ((low, high), _, _) in enumerate(self._rows) if low <= cohort <= high): cohort
            for cohort in cohorts
        }
        return RecordLoss.worst(self.of_cohort(cohort).loss(asked) for cohort in alike.values())


def check_cohorts(
    budget: Budget,
    bounds: Mapping[int, Bound],
    totals: Callable[[], CohortTotals],
    more: Iterable[tuple[Path, PrivacyLoss]],
    name: str,
) -> None:
    """Refuse more charges that would pass the budget together for a record of some cohort; see `check_budget`.

    Args:
        budget: the most that all may cost together.
        bounds: sums that bound what was charged before to each cohort that would pay.
        totals: returns what was charged before.
        more: path and loss of each charge that is asked for.
        name: name of the dataset.

    Raises:
        BudgetExceeded: the message says what the total would be.
    """
    asked = list(more)
    for cohort, bound in bounds.items():
        check_budget(budget, bound, lambda cohort=cohort: totals().of_cohort(cohort), asked, name)  # type: ignore[misc]


COMPOSED = 4
"""Up to this number of unlike charges, what all cost together is computed as exactly as it can be."""


def paid_in_all(bounds: Mapping[int, Bound], totals: "CohortTotals", path: Path, loss: PrivacyLoss) -> str:
    """Return the most that a record of a dataset without a delta has paid with one more charge, as a budget is written.

    Args:
        bounds: sums that bound what was charged before to each cohort that pays.
        totals: what was charged before.
        path: the part of the records of the charge.
        loss: of the charge.
    """
    if len(totals) <= COMPOSED:
        return f"epsilon = {rounded_up_text(totals.loss(bounds, [(path, loss)]).epsilon())}, delta = 0"
    most = max((bound + Bound.of(loss)).pure or Fraction(0) for bound in bounds.values())
    return f"at most epsilon = {rounded_up_text(float_above(most))}, delta = 0"


def cost_digest(path: Path, loss: PrivacyLoss) -> str:
    """Return a digest of where a charge belongs and what it costs, the same for the same costs."""
    return _digest(*_texts(path, loss))


def made_digest(specification: Any) -> str:
    """Return a digest of a mechanism's public specification."""
    return _digest(json.dumps(specification, sort_keys=True))


def _texts(path: Path, loss: PrivacyLoss) -> tuple[str, str]:
    return json.dumps(path), json.dumps(loss.to_json(), sort_keys=True)


def _path(text: str) -> Path:
    return stored(text, lambda path: tuple((str(split), int(part)) for split, part in path))


def _digest(*texts: str) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
