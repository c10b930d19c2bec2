"""Encode the feature columns of a table as floats."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables.frames import as_table, column_names
from labeldp.tables.table import index_of, plain
from labeldp.tables.values import as_text, is_number, is_text

FORMAT = 1

INDEX = "it is the index of a pandas data frame"
"""Why the index of a data frame is left out."""

Kind = Literal["number", "boolean", "time", "category"]


@final
@dataclass(frozen=True)
class FeatureColumn:
    """How one column becomes floats.

    Fields:
        name: name of the column in the table.
        kind: "number", "boolean" (0 or 1), "time" (days since 1970 in UTC; a time of day or a duration in days), or
            "category" (the index in `categories`).
        categories: the texts that have their own code, most frequent first; equal counts by text.
        rest: whether there were more categories than codes; the rest share the code len(categories).
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()
    rest: bool = False

    def encode(self, values: pa.ChunkedArray) -> NDArray[np.float64]:
        """Return the cells as floats, shape (n,); NaN for missing, infinite and unreadable ones."""
        parts = [self._encode(chunk) for chunk in values.chunks]
        encoded = np.concatenate(parts) if parts else np.empty(0)
        encoded[~np.isfinite(encoded)] = np.nan
        return encoded

    def other_kind(self, values: pa.ChunkedArray) -> str | None:
        """Return the kind of the cells in words, "" if all are missing, None if one is of this column's kind."""
        array = plain(values.combine_chunks())
        cells = clean(as_text(array, self.name)) if is_text(array.type) else array
        if pa.types.is_floating(cells.type):
            cells = pc.if_else(pc.is_nan(cells), None, cells)
        if cells.null_count == len(cells):
            return ""
        column = recognize(self.name, array)
        if column is None:
            return f"values of type {array.type}"
        if self.kind == "category":
            coded = self._codes(clean(as_text(array, self.name))) < len(self.categories)
            learned = pa.array(self.categories, pa.large_string())
            # Names that read as numbers may be others next time.
            is_alike = (
                bool(coded.any()) or column.kind == "category" or not np.isnan(PARSERS[column.kind](learned)).all()
            )
        elif is_text(array.type):
            is_alike = not np.isnan(PARSERS[self.kind](cells)).all()
        else:
            is_alike = column.kind == self.kind or {column.kind, self.kind} == {"number", "boolean"}
        return None if is_alike else KINDS[column.kind]

    def _encode(self, values: pa.Array) -> NDArray[np.float64]:
        values = plain(values)
        if self.kind == "category":
            return self._codes(clean(as_text(values, self.name)))
        if pa.types.is_null(values.type):
            return np.full(len(values), np.nan)
        if is_text(values.type):
            return PARSERS[self.kind](clean(as_text(values, self.name)))
        if self.kind == "time" and pa.types.is_temporal(values.type):
            return _days(values)
        if self.kind != "time" and (is_number(values.type) or pa.types.is_boolean(values.type)):
            return _floats(values)
        return np.full(len(values), np.nan)  # of another kind: `other_kind` says which

    def _codes(self, texts: pa.Array) -> NDArray[np.float64]:
        codes = pc.index_in(texts, value_set=pa.array(self.categories, pa.large_string()))
        if self.rest:
            codes = pc.if_else(texts.is_valid(), pc.fill_null(codes, len(self.categories)), codes)
        return _floats(codes)


@final
@dataclass(frozen=True)
class TableEncoder:
    """Turns the feature columns of a table into float64 columns, the same way every time.

    Numbers, booleans, dates and categories are recognized from the table itself, since features are public.
    Never pass the label column; name it in `fit`, which then refuses it.

    Fields:
        columns: the columns that are encoded, in order.
        notes: sentences on what was left out or simplified.

    Example:
        >>> table = pa.table({"age": ["31", "?", "58"], "job": ["smith", "baker", "smith"], "id": ["a", "b", "c"]})
        >>> encoder = TableEncoder.fit(table)
        >>> encoder.names, encoder.categorical.tolist()
        (('age', 'job'), [False, True])
        >>> encoder.transform(table).tolist()
        [[31.0, 0.0], [nan, 1.0], [58.0, 0.0]]
        >>> encoder.notes
        ("left out 'id': no two rows share a value",)
    """

    columns: tuple[FeatureColumn, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(cls, table: Any, *, columns: Sequence[str] | None = None, label: str | None = None) -> Self:
        """Decide how to encode each column of a table.

        Constant columns, texts that are all different, and types that do not convert to floats (lists, structures,
        bytes) are left out, with a note.

        Args:
            table: a pyarrow table, or anything that Arrow can take (a polars or pandas data frame).
            columns: the feature columns; by default all but the index of a pandas data frame.
            label: the name of the label column, which must not be among them. Name it, so that it is never encoded.

        Returns:
            The encoder.

        Raises:
            InputError: a column does not exist or exists twice or has numbers with commas, or none is left to use; or
                one is the label.
        """
        if label is not None and label in (columns if columns is not None else column_names(table)):
            raise InputError(
                f"the feature columns must not hold {label!r}, the label: it is private, and features are public. Name "
                "the others in columns, or drop it"
            )
        source = as_table(table, columns)
        index = index_of(source.schema) if columns is None else ()
        names = [name for name in (source.column_names if columns is None else columns) if name not in index]
        return cls.of_columns(((name, _column(source, name)) for name in names), index)

    @classmethod
    def of_columns(cls, columns: Iterable[tuple[str, pa.ChunkedArray]], index: Sequence[str] = ()) -> Self:
        """Decide how to encode columns, given as pairs of name and cells; see `fit`. Those of `index` are left out."""
        names, notes = [], [f"left out {name!r}: {INDEX}" for name in index]
        for name, values in columns:
            column = recognize(name, values)
            if column is not None:
                _refuse_commas(column)
            if reason := _useless(column, values):
                notes.append(f"left out {name!r}: {reason}")
                continue
            assert column is not None
            names.append(column)
            notes.extend(_remarks(column, values))
        if not names:
            raise InputError("the table has no feature column that can be used; " + "; ".join(notes))
        return cls(tuple(names), tuple(notes))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the matrix columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def categorical(self) -> NDArray[np.bool_]:
        """Whether each matrix column holds category codes, shape (d,); codes are at most 254."""
        return np.array([column.kind == "category" for column in self.columns], dtype=np.bool_)

    def transform(self, table: Any) -> NDArray[np.float64]:
        """Encode a table, or a block of one.

        Args:
            table: as for `fit`; it may have further columns and come from another file format.

        Returns:
            Matrix, shape (n, d). Missing cells and single cells of another kind are NaN; a category that `fit` did not
            see has the code of the rest, if there is one, else NaN.

        Raises:
            InputError: a column is missing, or all its values are of another kind than when fitted.
        """
        blocks = Blocks(self)
        matrix = blocks.transform(table)
        blocks.require_kinds()
        return matrix

    def to_json(self) -> dict[str, Any]:
        """Return the encoder as a JSON object."""
        columns = [asdict(column) | {"categories": list(column.categories)} for column in self.columns]
        return {"format": FORMAT, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the encoder that `to_json` wrote; raise InputError if it is not one."""
        try:
            if content["format"] != FORMAT:
                raise InputError("the table encoder was written by another version of labeldp")
            if not all(entry["kind"] in get_args(Kind) for entry in content["columns"]):
                raise InputError("the table encoder has a column of a kind that this version does not know")
            columns = (
                FeatureColumn(
                    str(entry["name"]), entry["kind"], tuple(map(str, entry["categories"])), bool(entry["rest"])
                )
                for entry in content["columns"]
            )
            return cls(tuple(columns), tuple(map(str, content["notes"])))
        except (KeyError, TypeError):
            raise InputError("this is not a table encoder of labeldp") from None


class Blocks:
    """Encodes a table block by block, and checks at the end that each column is of the kind that it was fitted on."""

    def __init__(self, encoder: TableEncoder) -> None:
        self._columns = encoder.columns
        self._others: dict[str, str] = {}
        self._settled: set[str] = set()

    def transform(self, table: Any) -> NDArray[np.float64]:
        """Encode one block; see `TableEncoder.transform`."""
        source = as_table(table, [column.name for column in self._columns])
        matrix = np.empty((source.num_rows, len(self._columns)))
        for index, column in enumerate(self._columns):
            values = _column(source, column.name)
            if column.name not in self._settled:
                other = column.other_kind(values)
                if other is None:
                    self._settled.add(column.name)
                elif other:
                    self._others.setdefault(column.name, other)
            matrix[:, index] = column.encode(values)
        return matrix

    def require_kinds(self) -> None:
        """Raise InputError if no cell of a column is of the kind that was learned from."""
        for column in self._columns:
            if column.name in self._others and column.name not in self._settled:
                raise InputError(
                    f"column {column.name!r} held {KINDS[column.kind]} when it was learned from, and now holds "
                    f"{self._others[column.name]}"
                )


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    places = table.schema.get_all_field_indices(name)
    if len(places) != 1:
        raise InputError(f"the table needs exactly one feature column {name!r}, and it has {len(places)}")
    return table.column(places[0])


def _useless(column: FeatureColumn | None, values: pa.ChunkedArray) -> str | None:
    """Return why a column is left out, None if it is used."""
    if column is None:
        return f"its type {values.type} is not handled"
    encoded = column.encode(values)
    missing = np.isnan(encoded)
    if missing.all():
        return "every value is missing"
    if not missing.any() and encoded.min() == encoded.max():
        return "every value is the same"
    if column.kind == "category" and not missing.any():
        many = column.rest and is_text(values.type)
        distinct = len(clean(values).unique()) if many else len(column.categories)
        if distinct == len(encoded) and (many or not column.rest):
            return "no two rows share a value"
    return None


def _refuse_commas(column: FeatureColumn) -> None:
    """Refuse numbers with decimal commas or commas between thousands, which would be taken for categories."""
    names = column.categories
    if len(names) > FEW_NAMES and all(map(COMMAS.fullmatch, names)) and any("," in name for name in names):
        raise InputError(
            f"column {column.name!r} has numbers with commas: write 34.5 for 34,5 and 1234 for 1,234, or leave it out"
        )


def _remarks(column: FeatureColumn, values: pa.ChunkedArray) -> list[str]:
    remarks = []
    if column.rest:
        remarks.append(f"{column.name!r}: the {MAX_CATEGORIES} most frequent categories are kept, the rest are one")
    if column.kind == "category" and is_text(values.type) and _some_number(clean(values)):
        remarks.append(f"{column.name!r}: numbers and texts are mixed, so all are taken as categories")
    if pa.types.is_floating(values.type) and np.isinf(values.to_numpy()).any():
        remarks.append(f"{column.name!r}: infinite values are taken as missing")
    return remarks


KINDS: dict[str, str] = {
    "number": "numbers",
    "boolean": "booleans",
    "time": "dates or times",
    "category": "categories",
}
"""Each kind in words."""

MAX_CATEGORIES = 254

FEW_NAMES = 20
"""Up to this number of texts, such as 1,2 and 1,5, may be names of categories."""

COMMAS = re.compile(r"[+-]?\d+(,\d+)*")

MISSING = ("", "?", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "NaT")
"""Texts that stand for a missing value."""

NUMBER = r"(?i)^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^[+-]?inf(inity)?$"
BOOLEAN = r"(?i)^(true|false)$"
DATE = r"^\d{4}-\d{2}-\d{2}([T ].*)?$"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def recognize(name: str, values: Any) -> FeatureColumn | None:
    """Return how to encode a column by its type and, for texts, by its cells; None if it cannot be encoded."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return FeatureColumn(name, "boolean")
    if is_number(kind) or pa.types.is_null(kind):
        return FeatureColumn(name, "number")
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return FeatureColumn(name, "time")
    if is_text(kind):
        texts = clean(as_text(values, name))
        distinct = texts.unique().drop_null()
        if _all_match(distinct, NUMBER):
            return FeatureColumn(name, "number")
        if _all_match(distinct, BOOLEAN):
            return FeatureColumn(name, "boolean")
        if _all_match(distinct, DATE) and not np.isnan(_parse_times(distinct)).any():
            return FeatureColumn(name, "time")
        return _category(name, texts)
    if pa.types.is_dictionary(kind) and (is_text(kind.value_type) or is_number(kind.value_type)):
        return _category(name, clean(as_text(plain(values), name)))
    return None


def clean(texts: Any) -> Any:
    """Strip texts, and replace those that stand for a missing value by null."""
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.large_string()))
    missing = pc.is_in(trimmed, value_set=pa.array(MISSING, pa.large_string()))
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), trimmed)


def _some_number(texts: Any) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts.unique(), NUMBER)).as_py())


def _category(name: str, texts: Any) -> FeatureColumn:
    """Return a column of categories, the most frequent first."""
    counted = texts.drop_null().value_counts()
    pairs = zip(counted.field("counts").to_pylist(), counted.field("values").to_pylist(), strict=True)
    ranked = [text for _, text in sorted(pairs, key=lambda pair: (-pair[0], pair[1]))]
    return FeatureColumn(name, "category", tuple(ranked[:MAX_CATEGORIES]), len(ranked) > MAX_CATEGORIES)


def _all_match(texts: Any, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _floats(values: Any) -> NDArray[np.float64]:
    floats: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.array(floats, dtype=np.float64)


def _days(values: Any) -> NDArray[np.float64]:
    """Return days since 1970, or the length in days of a duration or a time of day."""
    kind = values.type
    if pa.types.is_date32(kind):
        return _floats(values.cast(pa.int32()))
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    return _floats(values.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())) / PER_DAY[unit]


def _parse_numbers(texts: pa.Array) -> NDArray[np.float64]:
    readable = pc.match_substring_regex(texts, NUMBER)
    return _floats(pc.if_else(readable, texts, pa.scalar(None, pa.large_string())))


def _parse_booleans(texts: pa.Array) -> NDArray[np.float64]:
    order = pa.array(["false", "true", "0", "1"], pa.large_string())
    return _floats(pc.index_in(pc.utf8_lower(texts), value_set=order)) % 2


def _parse_times(texts: pa.Array) -> NDArray[np.float64]:
    """Return the days since 1970 of ISO dates and times, in UTC unless they have a time zone."""
    encoded = texts.dictionary_encode()
    days = np.array([_day(text) for text in encoded.dictionary.to_pylist()], dtype=np.float64)
    places = _floats(encoded.indices)
    present = ~np.isnan(places)
    result = np.full(len(places), np.nan)
    result[present] = days[places[present].astype(np.int64)]
    return result


def _day(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return float("nan")
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) / timedelta(days=1)


PARSERS: dict[str, Callable[[pa.Array], NDArray[np.float64]]] = {
    "number": _parse_numbers,
    "boolean": _parse_booleans,
    "time": _parse_times,
}
