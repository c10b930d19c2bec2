"""Changes of a private outcome between public periods, and differences of such changes."""

from typing import Any

import numpy as np

from labeldp.inference.cells import CellOutcomes, source_of
from labeldp.inference.estimate import LEVEL, Estimate
from labeldp.inference.groups import PublicGroups
from labeldp.inference.sums import exposures, from_control
from labeldp.privacy import InputError

PARALLEL = "without the treatment, the treated would have changed as the others did"


MOST_PERIODS = 1000


def change(
    release: Any,
    periods: Any,
    *,
    since: Any = None,
    outcome: Any = None,
    groups: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = True,
) -> Estimate:
    """Estimate by how much the share of a class, or the mean number, changed from period to period.

    `mean` with the periods as groups has the level of each.

    Args:
        release: single answers, or the sums of `plan_sums("mean", …)` with the periods as groups.
        periods: the public period of each record, shape (n,). They are sorted: years and ISO dates are in order.
        since: the period that others are compared with; by default each one is compared with the one before it.
        outcome: the class; of two classes the second one by default.
        groups: a public group for each record, shape (n,): changes for each.
        users: the user of each record, where users have several, shape (n,); one may have records in several periods.
        level, simultaneous: see `mean`.

    Returns:
        A change for each period but the first one, or but `since`.

    Raises:
        InputError: one period alone, no such period, or one without enough records.
    """
    source = source_of(release, users, periods=periods, groups=groups)
    columns = PublicGroups.of(periods, source.records, "periods")
    if not 2 <= columns.count <= MOST_PERIODS:
        raise InputError(f"must be two or more, and at most {MOST_PERIODS:,}, such as months", argument="periods")
    if since is not None:
        columns = from_control(columns, since, "since")
    each = np.eye(columns.count)
    weights = each[1:] - (each[:-1] if since is None else each[:1])
    cells = CellOutcomes.of(
        source, PublicGroups.of(groups, source.records), columns, ("period", columns.names[1:]), outcome, level,
        simultaneous, ("period", "periods"),
    )  # fmt: skip
    key = "change, users" if source.clustered else "change"
    each_since_one = since is not None or columns.count == 2
    quantity = f"change since {columns.names[0]}" if each_since_one else "change since the period before"
    return cells.stated(key, quantity, cells.contrast(weights), ())


def difference_in_differences(
    release: Any,
    treated: Any,
    after: Any,
    *,
    outcome: Any = None,
    groups: Any = None,
    users: Any = None,
    level: float = LEVEL,
    simultaneous: bool = True,
) -> Estimate:
    """Estimate an effect as how much more the outcome of the treated changed than that of others.

    Args:
        release: single answers, or the sums of `plan_sums("difference", …)` with `after` as groups.
        treated: who is in the group that was treated later on, true or false, shape (n,).
        after: which records are of the time after the treatment, true or false, shape (n,).
        outcome, groups: see `change`.
        users: the user of each record, where users have several, shape (n,), such as one before and one after.
        level, simultaneous: see `mean`.

    Raises:
        InputError: columns that do not fit, or too few records of the treated or others, before or after.

    Source: AngristPischke, Section 5.2.
    """
    source = source_of(release, users, treated=treated, after=after, groups=groups)
    columns = exposures(treated, source.records).crossed(exposures(after, source.records, "after"))
    cells = CellOutcomes.of(
        source, PublicGroups.of(groups, source.records), columns, ("effect", ("effect",)), outcome, level, simultaneous,
        ("arm before and after", "after"),
    )  # fmt: skip
    key = "difference in differences, users" if source.clustered else "difference in differences"
    found = cells.contrast(np.array([[1.0, -1.0, -1.0, 1.0]]), (-2 * cells.width, 2 * cells.width))
    return cells.stated(key, "effect", found, (PARALLEL,))
