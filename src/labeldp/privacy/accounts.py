"""Accounts of a dataset with delta > 0: a filter, or a list of releases that was declared before the first."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from labeldp.privacy.budget import LARGER_BUDGET, Budget
from labeldp.privacy.charges import Path, joint_loss, most_met, share_records
from labeldp.privacy.errors import BudgetExceeded
from labeldp.privacy.exact import decimal, float_above, rounded_up_text
from labeldp.privacy.filters import FAILURE_SHARE, TAIL_SHARE, Costs, Filter
from labeldp.privacy.loss import PrivacyLoss
from labeldp.privacy.totals import Bound

Span = tuple[int, int]
"""The numbers of the first and the last cohort that a charge is about; (0, 0) without cohorts."""


class Row(NamedTuple):
    """Equal charges: whose they are, what part of their records they use, what each costs, and how many there are."""

    span: Span
    path: Path
    loss: PrivacyLoss
    times: int = 1


@dataclass(frozen=True)
class FixedList:
    """An account that admits the releases of a list that was declared before the first of them, and no others.

    Records that nothing was released of may get a list of their own.

    Args:
        rows: what was declared.

    Guarantee (within_list): all that it admits together costs no more than the list, in whichever order it is asked
        for.

    Source: `docs/proofs/filters.md`.
    """

    rows: tuple[Row, ...]

    def lists(self, charged: Iterable[Row], asked: Row) -> bool:
        """Return whether a release is on the list and was charged fewer times than the list allows."""
        known = [row for row in charged if row.loss == asked.loss]
        return any(
            row.loss == asked.loss
            and row.span[0] <= asked.span[0]
            and asked.span[1] <= row.span[1]
            and asked.path[: len(row.path)] == row.path
            and all(_count([*known, asked], cohort, row.path) <= row.times for cohort in _cohorts(asked.span))
            for row in self.rows
        )

    def touches(self, rows: Iterable[Row]) -> bool:
        """Return whether a record of the list may be one of these, too."""
        return any(_share_records(mine, other) for mine in self.rows for other in rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, exact."""
        rows = [[list(row.span), [list(step) for step in row.path], row.loss.to_json(), row.times] for row in self.rows]
        return {"kind": "fixed", "rows": rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "FixedList":
        """Return the list that `to_json` wrote."""
        rows = (
            Row((low, high), tuple((str(split), int(part)) for split, part in path), PrivacyLoss.from_json(loss), times)
            for (low, high), path, loss, times in value["rows"]
        )
        return cls(tuple(rows))


Account = Filter | FixedList
"""What keeps a budget with a delta."""


def account_from(value: Mapping[str, Any]) -> Account:
    """Return the account that its `to_json` wrote."""
    return FixedList.from_json(value) if value["kind"] == "fixed" else Filter.from_json(value)


def settle(
    budget: Budget,
    account: Account | None,
    charged: Sequence[Row],
    asked: Sequence[Row],
    plan: Sequence[Row],
    name: str,
) -> Account:
    """Return the account that admits more charges; the first of a dataset choose it.

    A filter where one admits what was charged and what is declared, with shares of delta for failures and tails
    (`open_filter`). Else, and where the budget says so, the list of what is declared, if nothing was charged before
    and it costs no more than the budget.

    Args:
        budget: of the dataset, with a delta.
        account: of the dataset; None before the first charge, and where all of them were made at delta = 0.
        charged: what was charged before.
        asked: what is asked for now, of records of one span.
        plan: what was declared, and may hold what is asked for.
        name: of the dataset.

    Raises:
        BudgetExceeded: none admits them; nothing was charged.
    """
    if isinstance(account, Filter):
        return _filtered(budget, account, charged, asked, name)
    both = declared(plan, asked)
    if isinstance(account, FixedList):
        return _listed(budget, account, charged, asked, (both, asked), name)
    for listed in (both, asked):
        found = _first(budget, charged, listed)
        if found is not None:
            return found
    raise _exceeded(budget, charged, asked, name)


def joint_costs(rule: Filter, rows: Iterable[Row], cohort: int) -> Costs:
    """Return what the charges cost a record of one cohort."""
    return rule.joint(_counted(rows, cohort).items())


USUAL_SHARES = FAILURE_SHARE, TAIL_SHARE
"""The shares of delta that a filter keeps for failures and for tails where something was released before."""


def open_filter(budget: Budget, rows: Sequence[Row], shares: tuple[Fraction, Fraction] | None = None) -> Filter | None:
    """Return a filter that admits charges, or None.

    Of delta it keeps a tenth for failures, theirs alone, or one half; for tails a tenth, three quarters, or nothing.

    Args:
        budget: of the dataset.
        rows: what the filter must admit.
        shares: of delta for failures and for tails; None before the first release, where the rows may decide. After
            one they would be chosen by looking, and what is admitted may not depend on that.
    """
    delta = decimal(budget.delta, "delta")
    failed = sum((Bound.of(row.loss).failures * row.times for row in rows), Fraction(0))
    tails = (delta * TAIL_SHARE, delta * Fraction(3, 4), Fraction(0))
    kept = product((delta * FAILURE_SHARE, failed, delta / 2), tails)
    for failure, tail in kept if shares is None else [(delta * shares[0], delta * shares[1])]:
        if failed <= failure and failure + tail <= delta:
            rule = Filter.of(budget.epsilon, budget.delta, budget.kind or "gaussian", failure, tail)
            if all(rule.admits(joint_costs(rule, rows, cohort)) for cohort in _all_cohorts(rows)):
                return rule
    return None


def refused(budget: Budget, rule: Filter, spent: Costs, total: Costs, name: str) -> BudgetExceeded:
    """Return the refusal of a filter: it says how full it is, and no epsilon of what was spent."""
    used, after = (f"{rounded_up_text(100 * float_above(rule.used(costs)), 4)} %" for costs in (spent, total))
    then = f"this would bring it to {after}" if rule.used(total) > 1 else "it keeps nothing for releases of this kind"
    return BudgetExceeded(
        f"the budget of {name!r} is {budget}, kept by a filter of which {used} is used up; {then}. {PROMISE} "
        f"{LARGER_BUDGET}"
    )


PROMISE = "With delta > 0 the budget is promised of all releases together, and no smaller epsilon of those so far."
"""What a filter promises, in words."""


def _filtered(budget: Budget, rule: Filter, charged: Sequence[Row], asked: Sequence[Row], name: str) -> Filter:
    for cohort in _cohorts(asked[0].span) if asked else ():
        total = joint_costs(rule, [*charged, *asked], cohort)
        if not rule.admits(total):
            raise refused(budget, rule, joint_costs(rule, charged, cohort), total, name)
    return rule


def _listed(
    budget: Budget,
    account: FixedList,
    charged: Sequence[Row],
    asked: Sequence[Row],
    lists: Iterable[Sequence[Row]],
    name: str,
) -> FixedList:
    """The list that admits more charges: as it is, or with a list for records that nothing was released of."""
    if _takes(account, charged, asked):
        return account
    for more in lists:
        new = tuple(row for row in more if not account.touches([row]))
        longer = replace(account, rows=(*account.rows, *new))
        if _takes(longer, charged, asked) and _within(budget, longer.rows):
            return longer
    raise BudgetExceeded(
        f"the budget of {name!r} is {budget}, for releases that are declared before the first of them, and this is "
        "none of those that were; nothing was charged. The list is at the budget as a whole, so that nothing can be "
        "added after looking. " + LARGER_BUDGET
    )


def _takes(account: FixedList, charged: Sequence[Row], asked: Sequence[Row]) -> bool:
    known = list(charged)
    for row in asked:
        for _ in range(row.times):
            if not account.lists(known, row._replace(times=1)):
                return False
            known.append(row._replace(times=1))
    return True


def _first(budget: Budget, charged: Sequence[Row], listed: Sequence[Row]) -> Account | None:
    rows = (*charged, *listed)
    rule = None if budget.fixed else open_filter(budget, rows, USUAL_SHARES if charged else None)
    if rule is not None:
        return rule
    if not charged and (budget.fixed or budget.kind is None) and _within(budget, rows):
        return FixedList(declared((), rows))
    return None


def _within(budget: Budget, rows: Sequence[Row]) -> bool:
    """Whether the curve of a list keeps the budget."""
    return all(budget.admits(joint_loss(_counted(rows, cohort).items())) for cohort in _all_cohorts(rows))


def _exceeded(budget: Budget, charged: Sequence[Row], asked: Sequence[Row], name: str) -> BudgetExceeded:
    if charged and budget.kind is None and _within(budget, (*charged, *asked)):
        return BudgetExceeded(
            f"the budget of {name!r} is {budget}, and what was released so far was declared in no list: no filter of "
            f"it admits this as well; nothing was charged. {LARGER_BUDGET}"
        )
    rows, delta = (*charged, *asked), budget.delta
    total = max(joint_loss(_counted(rows, cohort).items()).epsilon(delta) for cohort in _all_cohorts(rows))
    kind = "" if budget.kind is None else f", kept by a filter of kind {budget.kind!r}"
    return BudgetExceeded(
        f"the budget of {name!r} is {budget}{kind}; this would bring it to epsilon = {rounded_up_text(total, 12)} at "
        f"that delta, for a list of releases that is declared before the first. {LARGER_BUDGET}"
    )


def declared(one: Iterable[Row], other: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows of both, each as often as in the one that has it more often."""
    return tuple(Row(*key, times) for key, times in (_tally(one) | _tally(other)).items())


def _tally(rows: Iterable[Row]) -> Counter[tuple[Span, Path, PrivacyLoss]]:
    found: Counter[tuple[Span, Path, PrivacyLoss]] = Counter()
    for row in rows:
        if row.loss != PrivacyLoss.zero():
            found[row.span, row.path, row.loss] += row.times
    return found


def _counted(rows: Iterable[Row], cohort: int) -> Counter[tuple[Path, PrivacyLoss]]:
    found: Counter[tuple[Path, PrivacyLoss]] = Counter()
    for row in rows:
        if row.span[0] <= cohort <= row.span[1]:
            found[row.path, row.loss] += row.times
    return found


def _cohorts(span: Span) -> range:
    return range(span[0], span[1] + 1)


def _all_cohorts(rows: Iterable[Row]) -> range:
    return range(max((row.span[1] for row in rows), default=0) + 1)


def _count(rows: Iterable[Row], cohort: int, place: Path) -> int:
    """How often a record of a cohort, in a part of it, meets some of these charges at most."""
    depth = len(place)
    inner = [
        (row.path[depth:], row.times)
        for row in rows
        if row.span[0] <= cohort <= row.span[1] and row.path[:depth] == place
    ]
    return most_met(inner)


def _share_records(one: Row, other: Row) -> bool:
    """Whether some record may meet both: not in unlike cohorts, and not in two parts of one split."""
    cohorts = one.span[0] <= other.span[1] and other.span[0] <= one.span[1]
    return cohorts and share_records(one.path, other.path)
