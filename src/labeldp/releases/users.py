"""The column of users, and how many records of a user are answered."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import PUBLIC_USERS, DatasetLedger, first_records, numbered, user_names, users_digest
from labeldp.mechanisms import Domain
from labeldp.privacy import (
    AccountLike,
    InputError,
    PendingCharge,
    PrivacyLoss,
    RecordIds,
    Unit,
    float_below,
    positive_epsilon,
)
from labeldp.tables import Table, check_user, is_text, joined_ids, record_ids, user_column

Loss = Callable[[float], PrivacyLoss]

OWNER = re.compile(
    r"(^|[^a-z])(id|uid|user|person|people|patient|customer|client|member|subject|household|participant|respondent)"
    r"(s?$|[^a-z])",
    re.I,
)
"""Names of columns that may say whose a record is."""

LEAST_OWNERS = 20
"""Fewer different values are a category and no ids."""


def answer_epsilon(epsilon: float, delta: float, answers: int, loss: Loss = PrivacyLoss.pure) -> float:
    """Return the largest epsilon of one answer at which all answers to a user keep (epsilon, delta) together.

    It is epsilon / answers at delta = 0. With a delta it is larger, since many small losses rarely have the same sign.

    Args:
        epsilon, delta: what a user pays.
        answers: how many answers a user gives at most, each with randomness of its own.
        loss: what one answer costs at an epsilon.

    Source: `docs/proofs/users-and-cohorts.md`, answers one by one.

    Examples:
        >>> answer_epsilon(1, 0, 50), answer_epsilon(1, 1e-5, 50)
        (0.02, 0.0388)
    """
    low = float_below(positive_epsilon(epsilon) / answers)
    if not delta or answers == 1:
        return low

    def keeps(multiple: float) -> bool:
        return (loss(float(f"{multiple * low:.3g}")) * answers).within(epsilon, delta)

    multiple, step = 1.0, 1.0
    while step > 1e-4:
        if keeps(multiple + step):
            multiple, step = multiple + step, 2 * step
        else:
            step /= 2
    return low if multiple == 1 else float(f"{multiple * low:.3g}")


def best_cap(sizes: NDArray[np.int64], epsilon: float, delta: float, domain: Domain) -> int:
    """Return of how many records each user is answered at most, so that answers tell the most bits together.

    The bits are those of randomized response on labels that are equally frequent, for numbers on two classes: a
    public rule.
    """
    from labeldp.mechanisms import response_bits

    classes = max(domain.columns, 2)

    def bits(cap: int) -> float:
        return float(np.minimum(sizes, cap).sum() * response_bits(classes, answer_epsilon(epsilon, delta, cap)))

    largest, useful = int(sizes.max()), max(1, int(4 * epsilon))
    tried = list(range(1, min(largest, useful) + 1))
    if delta:  # More answers can tell more: their epsilon falls like one over the square root of their number.
        tried = sorted({*tried, *(int(number) for number in np.geomspace(1, largest, 20))})
    return max(tried, key=bits)


def counted(
    sizes: NDArray[np.int64], per_user: int | None, epsilon: float, delta: float, domain: Domain, trust: str
) -> tuple[int, float]:
    """Return as how many records, of which epsilon, those of users count in advice on what to fit.

    What a user pays is shared by their answers; sums have one row's worth of noise for each user.
    """
    if trust == "central":
        return len(sizes), epsilon
    cap = min(best_cap(sizes, epsilon, delta, domain) if per_user is None else per_user, int(sizes.max()))
    return int(np.minimum(sizes, cap).sum()), answer_epsilon(epsilon, delta, cap)


@dataclass(frozen=True)
class Owners:
    """Whose each record of a file is, how many each user has, and which row numbers are used."""

    names: Any = field(repr=False)
    sizes: NDArray[np.int64] = field(repr=False)
    cap: int
    rows: NDArray[np.intp] = field(repr=False)

    @classmethod
    def of(cls, names: Any, ids: Any, per_user: int | None, account: DatasetLedger) -> "Owners":
        """Return the users of a file; a curator holds at most `per_user` records of each, or all if it is None."""
        numbers = numbered(user_names(names, account.ids_key or b""))
        sizes = np.bincount(numbers)
        cap = int(sizes.max()) if per_user is None else min(per_user, int(sizes.max()))
        return cls(names, sizes, cap, first_records(numbers, named_ids(ids, account), cap))

    def describe(self, epsilon: float | None) -> str:
        """Return how many records of how many users are used, and what each answer costs where records are answered."""
        count, records = len(self.sizes), int(self.sizes.sum())
        text = f"{count:,} users have {records:,} records, {int(self.sizes.max()):,} at most"
        if len(self.rows) < records:
            text += f"; {len(self.rows):,} are used, at most {self.cap:,} of each user (--per-user)"
        return text if epsilon is None else f"{text}; each answer costs its user epsilon = {epsilon:.6g}"


@dataclass(frozen=True)
class FileUsers:
    """The users of the records of a file that is released in one pass.

    Args:
        names: integers or texts, shape (n,).
        ids: record ids, or None for row numbers.
        cap: the most records that one user has.
    """

    names: Any = field(repr=False)
    ids: Any = field(repr=False)
    cap: int

    @classmethod
    def of(cls, table: Table, column: str, reserved: tuple[str, str | None]) -> "FileUsers":
        """Read the users of a file, and its ids; `reserved` are the columns of labels and ids.

        Raises:
            InputError: several files, or a column that cannot be used.
        """
        check_user(column, reserved, None)
        if len(table.parts) > 1:
            raise InputError("--user is for one file: the records of a user may lie in several parts of a folder")
        id_column = reserved[1]
        table.require(column, "--user")
        if id_column is not None:
            table.require(id_column, "id_column")
        read = [column, *([] if id_column is None else [id_column])]
        content = pa.Table.from_batches(list(table.blocks(read)))
        names = user_column(content, column)
        ids = (
            None if id_column is None else joined_ids([record_ids(batch, id_column) for batch in content.to_batches()])
        )
        return cls(names, ids, int(np.bincount(numbered(user_names(names, b""))).max()))

    def digest(self, account: DatasetLedger) -> str:
        """Return a digest of the map from records to users, as the ledger keeps it."""
        key = account.ids_key
        return users_digest(named_ids(self.ids, account), user_names(self.names, key), key)

    def charged(self, request: PendingCharge, account: DatasetLedger) -> PendingCharge:
        """Return a request for answers to all records as users pay for it."""
        conditions = (*request.conditions, PUBLIC_USERS)
        loss, users = request.loss * self.cap, self.digest(account)
        return replace(request, loss=loss, unit=Unit.ONE_USER, users=users, conditions=conditions)


def named_ids(ids: Any, account: AccountLike) -> Any:
    """Return record ids as a curator of the dataset names them."""
    key = account.ids_key
    return ids if ids is None or key is None else RecordIds.of(ids, key)


def owner_like(content: pa.Table, columns: tuple[str, ...]) -> str | None:
    """Return a column that looks as if it said whose a record is, by its name and its values; None without one."""
    for name in columns:
        values = content.column(name)
        if OWNER.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) is None:
            continue
        if not (pa.types.is_integer(values.type) or is_text(values.type)):
            continue
        distinct = len(values.unique())
        if LEAST_OWNERS <= distinct < len(values):
            return name
    return None


def owner_note(name: str) -> str:
    """Return what to say of a column that looks as if it said whose a record is."""
    return (
        f"values of {name!r} repeat: if one user has several records, the promise is for each record, and what a "
        f"user pays adds up. To protect all labels of a user together: --user {name}"
    )
