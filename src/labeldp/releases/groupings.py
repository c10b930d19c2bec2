"""Public rules that give each record a group or a row of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.privacy import Floats, InputError
from labeldp.tables import Table, is_number, is_text, plain


class Grouping(Protocol):
    """A public rule that puts each record into a group; it can be pickled."""

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the group of each record, from 0, shape (n,); raise InputError if columns are wrong."""


@final
@dataclass(frozen=True)
class AllRecords(Grouping):
    """One group of all records."""

    @property
    def columns(self) -> Sequence[str]:
        return []

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        return np.zeros(batch.num_rows, dtype=np.int64)


@final
@dataclass(frozen=True)
class ByColumn(Grouping):
    """Groups whose numbers, from 0, are in a column."""

    column: str

    @property
    def columns(self) -> Sequence[str]:
        return [self.column]

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        values = _parsed(batch.column(self.column), pa.int64())
        if values is None or not pa.types.is_integer(values.type) or values.null_count:
            raise InputError(f"the column of groups {self.column!r} must hold a whole number for each record")
        return np.asarray(pc.cast(values, pa.int64()).to_numpy(zero_copy_only=False))


@final
@dataclass(frozen=True)
class ByCells(Grouping):
    """Groups that are the cells of a fitted partition of public features.

    Args:
        partition: the partition, of one tree.
        features: the columns of the features, in the order of the fit.
    """

    partition: Any
    features: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.features

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        keys = np.asarray(self.partition.transform(feature_table(batch, self.features)))
        if keys.ndim != 1 or (keys.size and keys.min() < 0):
            raise InputError("must put every record into one cell", argument="partition")
        return keys.astype(np.int64)


class RowMap(Protocol):
    """A public rule that makes a row of numbers of each record; it can be pickled."""

    @property
    def columns(self) -> Sequence[str]:
        """The public columns that it reads."""

    @property
    def width(self) -> int:
        """The numbers in a row, d."""

    def rows(self, batch: pa.RecordBatch) -> Floats:
        """Return the row of each record, shape (n, d): to the bit the same in whatever block the record stands."""


@final
@dataclass(frozen=True)
class ByFeatures(RowMap):
    """Rows of unchanged columns of public numbers."""

    features: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.features:
            raise InputError("must name a column", argument="features")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.features

    @property
    def width(self) -> int:
        return len(self.features)

    def rows(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        return feature_table(batch, self.features)


def feature_table(batch: pa.RecordBatch, features: Sequence[str]) -> NDArray[np.float64]:
    """Return columns of public numbers as a table, shape (n, d), with NaN where one is missing.

    Texts, as CSV holds them, are read as numbers; an empty text is a missing number.

    Raises:
        InputError: a column does not hold numbers or truth values.
    """
    table = np.empty((batch.num_rows, len(features)))
    for column, name in enumerate(features):
        values = _parsed(batch.column(name), pa.float64())
        if values is None or not (is_number(values.type) or pa.types.is_boolean(values.type)):
            raise InputError(f"the column {name!r} must hold numbers: encode it first", argument="features")
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        table[:, column] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return table


def check_features(table: Table, features: Sequence[str], label: str | None = None) -> tuple[str, ...]:
    """Return the names of columns of public numbers; no row is read.

    Raises:
        InputError: no list of columns, one that is missing or of another type, or the private one.
    """
    if isinstance(features, str) or not features:
        raise InputError("must be a list of columns, one at least", argument="features")
    for name in features:
        table.require(name, "features")
    if label in features:
        raise InputError("must be no column of public numbers: it is private", argument="label")
    empty = [pa.nulls(0, table.schema.field(name).type) for name in features]
    feature_table(pa.RecordBatch.from_arrays(empty, names=list(features)), features)
    return tuple(features)


def _parsed(values: Any, kind: pa.DataType) -> Any:
    """Return texts as numbers, or None for a text that is no number; return other values unchanged."""
    values = plain(values)
    if not is_text(values.type):
        return values
    texts = values.cast(pa.large_string())
    try:
        return pc.if_else(pc.equal(pc.utf8_trim_whitespace(texts), ""), None, texts).cast(kind)
    except pa.ArrowInvalid:
        return None
