"""Cells of a table as texts, numbers, record ids and labels; labels as a mechanism answered them."""

import re
import secrets
from types import TracebackType
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.curator import NO_USER
from labeldp.mechanisms import Classes, Domain, FiniteMechanism, Interval
from labeldp.privacy import Buckets, DomainError, InputError, RecordIds, Texts, check_integer
from labeldp.tables.frames import readable
from labeldp.tables.table import plain, without_values


def check_kind(schema: pa.Schema, label: str, domain: Domain) -> None:
    """Check the type of the label column in a schema, which is public; no label is read.

    Raises:
        InputError: the column holds neither numbers, for an interval, nor what can be written as text, for classes.
    """
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, schema.field(label).type)], names=[label])
    if isinstance(domain, Interval):
        label_numbers(empty, label)
    else:
        distinct_labels(empty, label)


def codes_of(rows: pa.RecordBatch | pa.Table, label: str, domain: Domain) -> NDArray[Any]:
    """Return the private codes of labels in some rows, shape (rows,), in a domain from `Domain.in_file`.

    Raises:
        DomainError: a label is missing or outside of the domain; the message does not say which, where or how many.
    """
    blocks = rows.select([label]).to_batches() if isinstance(rows, pa.Table) else [rows]
    codes: list[NDArray[Any]] = []
    try:
        for block in blocks:
            if isinstance(domain, Interval):
                codes.append(domain.encode(label_numbers(block, label)))
            else:
                texts, places = distinct_labels(block, label)
                codes.append(domain.encode(texts)[places])
        return codes[0] if len(codes) == 1 else np.concatenate(codes)
    except InputError as error:  # cells of a CSV file that are not of the domain's kind
        words = str(error)
    raise DomainError(words)


def released_column(mechanism: FiniteMechanism, label: str) -> str:
    """Return the name of the column that a mechanism makes of a label column."""
    return label + mechanism.column_ending


def released_values(mechanism: FiniteMechanism, noisy: NDArray[Any]) -> pa.Array:
    """Return the answers of a mechanism as the column of a table.

    Codes become labels of the domain; sets of classes become texts of one '0' or '1' for each class, in the order of
    the domain; bins become their two ends, such as "0 to 24.5".
    """
    if mechanism.answers is not None:
        return _bits(mechanism, noisy)
    names = getattr(mechanism, "names", None)
    if names is not None:
        return pa.array(names).take(pa.array(noisy))
    if not isinstance(mechanism.domain, Classes):
        return pa.array(mechanism.values(noisy))
    names = mechanism.domain.names
    integers = all(isinstance(name, int) for name in names)
    return pa.array(names if integers else [str(name) for name in names]).take(pa.array(noisy))


def _bits(mechanism: FiniteMechanism, noisy: NDArray[Any]) -> pa.Array:
    bits = mechanism.named(noisy).view(np.uint8) + np.uint8(ord("0"))
    rows, classes = bits.shape
    edges = np.arange(rows + 1, dtype=np.int64) * classes
    return pa.Array.from_buffers(pa.large_string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(bits.tobytes())])


def distinct_labels(batch: pa.RecordBatch, column: str) -> tuple[NDArray[np.object_], NDArray[np.int32]]:
    """Return the distinct labels of a block as texts and, for each row, the index of its text.

    `domain.encode(texts)[places]` are the codes. Integers read '0', booleans 'true' and 'false', whole floats '1';
    texts are unchanged, spaces included. Both arrays are as private as the labels.

    Returns:
        texts, shape (d,), in order of appearance, as objects: numpy's texts would take d times the room of the longest
        one, and tell of both if there is none. And places, shape (batch.num_rows,), in [0, d).

    Raises:
        DomainError: a label is missing (null, an empty cell, NaN). The message says neither where nor how many.
        InputError: the column does not exist, or holds lists, structures or raw bytes.
    """
    values = batch.column(column) if batch.schema.names.count(column) == 1 else None
    if isinstance(values, pa.DictionaryArray) and not values.null_count and not values.dictionary.null_count:
        places = values.indices.to_numpy(zero_copy_only=False)
        seen = np.zeros(len(values.dictionary), dtype=np.bool_)
        seen[places] = True
        used = np.flatnonzero(seen)  # others are no labels
        renumbered = np.zeros(len(values.dictionary), dtype=np.int32)
        renumbered[used] = np.arange(len(used), dtype=np.int32)
        words = as_text(values.dictionary, column) if is_text(values.dictionary.type) else values.dictionary
        block = pa.RecordBatch.from_arrays([words.take(pa.array(used))], names=[column])
        texts, numbers = distinct_labels(block, column)
        return texts, numbers[renumbered[places]]
    encoded = as_text(_whole_column(batch, column), column).dictionary_encode()
    labels = np.array(encoded.dictionary.to_pylist(), dtype=np.object_)
    if any("\0" in text for text in labels):
        raise InputError(f"column {column!r} holds NUL characters")
    return labels, encoded.indices.to_numpy(zero_copy_only=False)


def label_numbers(batch: pa.RecordBatch, column: str) -> NDArray[np.float64]:
    """Return the labels of a block as floats, for an `Interval`.

    The column holds integers, floats, decimals, or texts that read as such.

    Returns:
        Numbers, shape (batch.num_rows,), none of them NaN; infinities are left to the domain to refuse.

    Raises:
        DomainError: a label is missing (null, an empty cell, NaN).
        InputError: the column does not exist, or does not hold numbers only.
    """
    values = _whole_column(batch, column)
    problem = f"the label column {column!r} must hold numbers only"
    if not (is_text(values.type) or is_number(values.type)):
        raise InputError(problem)
    numbers = without_values(lambda: values.cast(pa.float64(), safe=False), lambda error: problem)
    floats: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False)
    if np.isnan(floats).any():
        raise DomainError(_missing(column))
    return floats


def column_of(batch: pa.RecordBatch | pa.Table, column: str) -> Any:
    """Return a column, decoded if it is a dictionary; raise InputError unless exactly one has the name."""
    if batch.schema.names.count(column) != 1:
        raise InputError(f"the table needs exactly one column {column!r}")
    problem = f"column {column!r} holds values that cannot be read"
    return without_values(lambda: plain(readable(batch.column(column))), lambda error: problem)


def as_text(values: Any, column: str) -> Any:
    """Return values as text, alike for every file format: '0', 'true', '0.1', '2026-01-31'; missing stays missing."""
    kind = values.type
    if is_text(kind):
        texts = values.cast(pa.large_string())
        without_values(
            lambda: texts.validate(full=True), lambda error: f"column {column!r} holds text that is not UTF-8"
        )
        return texts
    if pa.types.is_floating(kind):
        unsigned_zero = pc.add(values.cast(pa.float64()), 0.0)
        return unsigned_zero.cast(pa.large_string())
    if is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind):
        problem = (
            f"column {column!r} holds {type_name(kind)}, which cannot be written as text: is its time zone known here?"
        )
        return without_values(lambda: values.cast(pa.large_string()), lambda error: problem)
    raise InputError(f"column {column!r} holds {type_name(kind)}; texts, numbers, booleans or dates are needed")


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type without its fields and parameters: of a table in memory they come from cells."""
    return re.split(r"[<\[(]", str(kind))[0]


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's text types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is an integer, a float or a decimal."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _whole_column(batch: pa.RecordBatch, column: str) -> Any:
    """Return a label column; raise DomainError if a value is missing."""
    values = column_of(batch, column)
    missing = values.null_count > 0 or (pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py())
    if missing:
        raise DomainError(_missing(column))
    return values


def _missing(column: str) -> str:
    return f"the label column {column!r} has a missing label; every record needs one"


RawIds = NDArray[np.int64] | NDArray[np.uint64] | Texts
HELD_IDS = 1 << 20


def record_ids(batch: pa.RecordBatch, column: str) -> RawIds:
    """Return the record ids of a block, for `KeyedRandomness`.

    The column holds integers, texts or bytes. Ids of a CSV file are texts, so '7' and '07' are two records.

    Returns:
        For integers int64 or uint64, shape (batch.num_rows,); for texts and bytes as many `Texts`.

    Raises:
        InputError: an id is missing, or the column holds something else.
    """
    values = column_of(batch, column)
    kind = values.type
    if values.null_count:
        raise InputError(f"the id column {column!r} has a missing id; every record needs an id")
    if pa.types.is_integer(kind):
        wide = pa.int64() if pa.types.is_signed_integer(kind) else pa.uint64()
        integers: NDArray[np.int64] = values.cast(wide).to_numpy(zero_copy_only=False)
        return integers
    if is_text(kind):
        values = values.cast(pa.large_string())
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        raise InputError(f"the id column {column!r} must hold integers or texts, and it holds {type_name(kind)}")
    texts = values.cast(pa.large_binary())
    _, edges, data = texts.buffers()
    places = np.frombuffer(edges, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return Texts(np.frombuffer(data or b"", dtype=np.uint8), places)


@final
class DistinctIds:
    """Checks that no record id is repeated in a stream of blocks.

    Integers that ascend from block to block are compared with the one before. Of all others more than `held` are
    spilled by a hash to an anonymous temporary file with 256 buckets, each of which is sorted alone: memory holds
    `held` ids, or 1/256 of all. Texts are spilled as keyed hashes, so the file shows none.

    Example:
        >>> with DistinctIds() as seen:
        ...     seen.add([b"a", b"b"])
        ...     seen.add([b"a"])
        Traceback (most recent call last):
        labeldp.privacy.errors.InputError: ids: record ids must not be repeated: each id is one record's noise
    """

    def __init__(self, held: int = HELD_IDS) -> None:
        self._key = secrets.token_bytes(32)
        self._integers, self._texts = _Integers(held), Buckets(held, 2)

    def __enter__(self) -> "DistinctIds":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Check the ids if the body ended without an error; remove the temporary files in any case."""
        try:
            if kind is None and (self._integers.repeated() or self._texts.repeated()):
                raise InputError(": record ids must not be repeated: each id is one record's noise", argument="ids")
        finally:
            self._integers.close()
            self._texts.close()

    def add(self, ids: Any) -> None:
        """Add the ids of one block: integers, texts or `RecordIds`, with one key in all blocks."""
        records = RecordIds.of(ids, self._key)
        texts = records.are_texts
        if not texts.any():
            self._integers.add(records.blocks[:, 0])
        elif texts.all():
            self._texts.add(records.blocks)
        else:
            self._integers.add(records.blocks[~texts, 0])
            self._texts.add(records.blocks[texts])


@final
class _Integers:
    """Words of which none may be repeated; as long as they ascend, only the last one is needed to tell."""

    def __init__(self, held: int) -> None:
        self._held = held
        self._raw = Buckets(held, 1, buckets=1)
        self._spread: Buckets | None = None
        self._last = -1

    def add(self, words: NDArray[np.uint64]) -> None:
        if self._spread is None and len(words):
            ascending = int(words[0]) > self._last and bool((words[1:] > words[:-1]).all())
            if ascending:
                self._last = int(words[-1])
                self._raw.add(words)
                return
            self._spread = Buckets(self._held, 1)
        if self._spread is not None:
            self._spread.add(words)

    def repeated(self) -> bool:
        if self._spread is None:
            return False
        for words in self._raw.runs():
            self._spread.add(words)
        return self._spread.repeated()

    def close(self) -> None:
        self._raw.close()
        if self._spread is not None:
            self._spread.close()


def distinct_ids(content: pa.Table, column: str) -> Any:
    """Return the record ids of a table, integers or a list of texts; refuse ids that occur twice."""
    blocks: list[Any] = []
    with DistinctIds() as ids:
        for batch in content.select([column]).to_batches():
            blocks.append(record_ids(batch, column))
            ids.add(blocks[-1])
    return [text for block in blocks for text in block] if isinstance(blocks[0], Texts) else np.concatenate(blocks)


def take_ids(ids: Any, rows: NDArray[np.intp]) -> Any:
    """Return some of the record ids, in order; None where records are known by their numbers."""
    return [ids[row] for row in rows.tolist()] if isinstance(ids, list) else None if ids is None else ids[rows]


def by_id(ids: Any) -> NDArray[np.intp]:
    """Return the row numbers in the order of the ids."""
    if isinstance(ids, list):
        return np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.intp)
    return np.argsort(ids)


def answers_in(mechanism: FiniteMechanism, column: pa.Array) -> NDArray[Any]:
    """Return the answers of a mechanism from the column of `released_values`; refuse any other value."""
    domain, names = mechanism.domain, getattr(mechanism, "names", None)
    if mechanism.answers is not None or names is not None or isinstance(domain, Classes):
        coded = plain(column).cast(pa.string()).dictionary_encode()
        texts, places = coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
        if coded.null_count:
            raise InputError("must not have missing answers", argument="column")
        if mechanism.answers is not None:
            bits = np.array([[letter == "1" for letter in text.zfill(domain.size)] for text in texts])
            return np.asarray(np.packbits(bits, axis=1)[places])
        if names is not None:
            return np.array([names.index(text) for text in texts], dtype=np.uint8)[places]
        return np.asarray(domain.in_file().encode(np.array(texts, dtype=np.str_))[places])
    numbers = plain(column).cast(pa.float64()).to_numpy(zero_copy_only=False)
    outputs = getattr(mechanism, "outputs", None)
    if outputs is None:
        return domain.encode(numbers)
    nearest = np.abs(numbers[:, None] - outputs).argmin(axis=1)
    if not np.allclose(outputs[nearest], numbers, rtol=1e-9, atol=1e-9 * float(np.ptp(outputs))):
        raise InputError("must be outputs of the mechanism", argument="column")
    return nearest.astype(np.min_scalar_type(len(outputs) - 1))


def user_column(content: pa.Table, column: str) -> Any:
    """Return the user of each record of a table, integers or texts.

    Raises:
        InputError: a record has no user, or the column holds something else.
    """
    values = content.column(column)
    empty = is_text(values.type) and any(not text for text in values.unique().to_pylist())
    if values.null_count or empty:
        raise InputError(NO_USER, argument=f"--user: the column {column!r}")
    if not (pa.types.is_integer(values.type) or is_text(values.type)):
        raise InputError(
            f"--user: the column {column!r} must hold integers or texts, and it holds {type_name(values.type)}"
        )
    return joined_ids([record_ids(batch, column) for batch in content.select([column]).to_batches()])


def check_user(column: str | None, columns: tuple[str | None, ...], cap: int | None) -> None:
    """Raise InputError for a user column that is the label or the ids, and for a wrong cap."""
    if column is not None and column in columns:
        raise InputError("--user must be another column than the label and the ids")
    if cap is None:
        return
    if column is None:
        raise InputError("--per-user goes with --user COLUMN, the column with the user of each record")
    check_integer(cap, "--per-user")


def joined_ids(blocks: list[Any]) -> Any:
    """Return integers or texts of several blocks as one."""
    return Texts.of(text for ids in blocks for text in ids) if isinstance(blocks[0], Texts) else np.concatenate(blocks)
