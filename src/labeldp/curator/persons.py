"""Persons of records: who they are, which of their records are kept, and a digest that tells one map from another."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import PublicInput
from labeldp.privacy import IdDigest, InputError, RecordIds, Texts, check_integer, derive_key, hidden_ids

WHOSE = "it is public whose each record is"
"""Why persons may be named."""
"""The reason for which persons are public."""

PUBLIC_PERSONS = PublicInput("persons", WHOSE).assumption
"""What certificates say where persons are protected."""

ONE_PERSON = "must be one integer, or one text, for each record: whose it is"
"""Said of persons that are none."""

NO_PERSON = "must not have missing values: nobody could say who is protected. Each record is somebody's"
"""Said of persons with gaps."""

PUBLIC_KEY = bytes(32)
"""Of digests that everybody may compute: they say which records of a person are kept."""


def person_names(persons: Any, key: bytes) -> RecordIds:
    """Return whose each record is, hashed under a key.

    Args:
        persons: integers or texts, shape (n,).
        key: secret key of the hashes.

    Raises:
        InputError: a record has no person, or persons are neither integers nor texts.
    """
    if isinstance(persons, RecordIds | Texts):
        return RecordIds.of(persons, key)
    values = np.asarray(persons)
    if values.ndim != 1 or np.ma.is_masked(persons):
        raise InputError(ONE_PERSON if values.ndim != 1 else NO_PERSON, argument="persons")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(NO_PERSON, argument="persons")
    if values.dtype.kind in "OUS":
        listed = values.tolist()
        if any(_is_missing(each) for each in listed):
            raise InputError(NO_PERSON, argument="persons")
        if not all(isinstance(each, str | bytes | int) and not isinstance(each, bool) for each in listed):
            raise InputError(ONE_PERSON, argument="persons")
        return RecordIds.of(Texts.of(listed), key)
    if values.dtype.kind not in "iu":
        raise InputError(ONE_PERSON, argument="persons")
    return RecordIds.of(values, key)


def _is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN and its relatives, which differ from themselves, or no text."""
    if value is None or value in ("", b""):
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def numbered(persons: RecordIds) -> NDArray[np.int64]:
    """Return numbers of persons, the same where the blocks are, shape (n,)."""
    return np.asarray(np.unique(persons.blocks, axis=0, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def persons_digest(ids: Any, persons: RecordIds, key: bytes) -> str:
    """Return a keyed digest of the map from record ids, or row numbers, to persons, whatever the order of the rows."""
    blocks = RecordIds.of(np.arange(len(persons)) if ids is None else ids, key).blocks
    digest = IdDigest(derive_key(key, b"persons"))
    digest.update(hidden_ids(blocks, derive_key(key, b"records of persons")) ^ persons.blocks)
    return digest.hexdigest()


def first_records(persons: NDArray[np.int64], ids: Any, most: int) -> NDArray[np.intp]:
    """Return the row numbers of at most `most` records of each person, ascending: those of the smallest digests.

    Args:
        persons: whose each record is, numbers, shape (n,).
        ids: record ids, which alone decide beside it; None for row numbers.
        most: how many are kept of each, at least 1.
    """
    check_integer(most, "most")
    blocks = RecordIds.of(np.arange(len(persons)) if ids is None else ids, PUBLIC_KEY).blocks
    words = hidden_ids(blocks, PUBLIC_KEY)
    order = np.lexsort((words[:, 1], words[:, 0], persons))
    starts = np.flatnonzero(np.diff(persons[order], prepend=-1))
    ranks = np.arange(len(order)) - np.repeat(starts, np.diff([*starts.tolist(), len(order)]))
    return np.sort(order[ranks < most])
