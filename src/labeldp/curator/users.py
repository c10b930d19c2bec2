"""Users of records: who they are, which of their records are kept, and a digest that tells one map from another."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import PublicInput
from labeldp.privacy import IdDigest, InputError, RecordIds, Texts, check_integer, derive_key, hidden_ids

WHOSE = "the user of each record is public"
"""The reason for which users are public."""

PUBLIC_USERS = PublicInput("users", WHOSE).assumption
"""What certificates say where users are protected."""

ONE_USER = "must be one integer, or one text, for each record: whose it is"
"""Said of users that are none."""

NO_USER = "must not have missing values: nobody could say who is protected. Each record is somebody's"
"""Said of users with gaps."""

PUBLIC_KEY = bytes(32)
"""Of digests that everybody may compute: they say which records of a user are kept."""


def user_names(users: Any, key: bytes) -> RecordIds:
    """Return the user of each record, hashed under a secret key.

    Args:
        users: integers or texts, shape (n,).
        key: secret key of the hashes.

    Raises:
        InputError: a record has no user, or users are neither integers nor texts.
    """
    if isinstance(users, RecordIds | Texts):
        return RecordIds.of(users, key)
    values = np.asarray(users)
    if values.ndim != 1 or np.ma.is_masked(users):
        raise InputError(ONE_USER if values.ndim != 1 else NO_USER, argument="users")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(NO_USER, argument="users")
    if values.dtype.kind in "OUS":
        listed = values.tolist()
        if any(_is_missing(name) for name in listed):
            raise InputError(NO_USER, argument="users")
        if not all(isinstance(name, str | bytes | int) and not isinstance(name, bool) for name in listed):
            raise InputError(ONE_USER, argument="users")
        return RecordIds.of(Texts.of(listed), key)
    if values.dtype.kind not in "iu":
        raise InputError(ONE_USER, argument="users")
    return RecordIds.of(values, key)


def _is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN and its relatives, which differ from themselves, or no text."""
    if value is None or value in ("", b""):
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def numbered(users: RecordIds) -> NDArray[np.int64]:
    """Return numbers of users, the same where the blocks are, shape (n,)."""
    return np.asarray(np.unique(users.blocks, axis=0, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def users_digest(ids: Any, users: RecordIds, key: bytes) -> str:
    """Return a keyed digest of the map from record ids, or row numbers, to users, whatever the order of the rows."""
    blocks = RecordIds.of(np.arange(len(users)) if ids is None else ids, key).blocks
    digest = IdDigest(derive_key(key, b"users"))
    digest.update(hidden_ids(blocks, derive_key(key, b"records of users")) ^ users.blocks)
    return digest.hexdigest()


def first_records(users: NDArray[np.int64], ids: Any, cap: int) -> NDArray[np.intp]:
    """Return the row numbers of at most `cap` records of each user, ascending: the smallest digests.

    Args:
        users: the user of each record, numbers, shape (n,).
        ids: record ids, which alone decide beside it; None for row numbers.
        cap: how many are kept of each, at least 1.
    """
    check_integer(cap, "most")
    blocks = RecordIds.of(np.arange(len(users)) if ids is None else ids, PUBLIC_KEY).blocks
    words = hidden_ids(blocks, PUBLIC_KEY)
    order = np.lexsort((words[:, 1], words[:, 0], users))
    starts = np.flatnonzero(np.diff(users[order], prepend=-1))
    ranks = np.arange(len(order)) - np.repeat(starts, np.diff([*starts.tolist(), len(order)]))
    return np.sort(order[ranks < cap])
