"""One feature column of a mixed-type table: what kind it is, and its cells as floats."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.tables.values import as_text, is_number, is_text, plain

Kind = Literal["number", "boolean", "time", "category"]
KINDS: dict[str, str] = {
    "number": "numbers",
    "boolean": "booleans",
    "time": "dates or times",
    "category": "categories",
}
"""Each kind in words."""

MAX_CATEGORIES = 254
MISSING = pa.array(
    ["", "?", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None", "NaT"], pa.large_string()
)
NUMBER = r"(?i)^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^[+-]?inf(inity)?$"
BOOLEAN = r"(?i)^(true|false)$"
DATE = r"^\d{4}-\d{2}-\d{2}([T ].*)?$"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@final
@dataclass(frozen=True)
class FeatureColumn:
    """How one column becomes floats.

    Fields:
        name: its name in the table.
        kind: "number" and "boolean" (0 or 1) as they are, "time" in days since 1970 in UTC (a time of
            day or a duration in days), "category" as the place in `categories`.
        categories: the texts that have a code of their own, the most frequent first; equal counts by text.
        rest: whether there were more categories than codes; they share the code len(categories).
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()
    rest: bool = False

    def encode(self, values: pa.ChunkedArray) -> NDArray[np.float64]:
        """The cells as floats, shape (n,), NaN where missing, not finite, or not to be understood."""
        parts = [self._encode(chunk) for chunk in values.chunks]
        encoded = np.concatenate(parts) if parts else np.empty(0)
        encoded[~np.isfinite(encoded)] = np.nan
        return encoded

    def other_kind(self, values: pa.ChunkedArray) -> str | None:
        """None where a cell is of this column's kind; else what the cells are in words, "" where all are missing."""
        array = plain(values.combine_chunks())
        cells = clean(as_text(array, self.name)) if is_text(array.type) else _without_nan(array)
        if cells.null_count == len(cells):
            return ""
        found = recognize(self.name, array)
        if found is None:
            return f"values of type {array.type}"
        if self.kind == "category":
            known = self._codes(clean(as_text(array, self.name))) < len(self.categories)
            learned = pa.array(self.categories, pa.large_string())
            # Names that read as numbers may be others next time.
            mine = bool(known.any()) or found.kind == "category" or not np.isnan(PARSERS[found.kind](learned)).all()
        elif is_text(array.type):
            mine = not np.isnan(PARSERS[self.kind](cells)).all()
        else:
            mine = found.kind == self.kind or {found.kind, self.kind} == {"number", "boolean"}
        return None if mine else KINDS[found.kind]

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


def recognize(name: str, values: Any) -> FeatureColumn | None:
    """How to encode a column, from its type and, for texts, from its cells; None where no way is known."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return FeatureColumn(name, "boolean")
    if is_number(kind) or pa.types.is_null(kind):
        return FeatureColumn(name, "number")
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return FeatureColumn(name, "time")
    if is_text(kind):
        return _recognize_text(name, clean(as_text(values, name)))
    if pa.types.is_dictionary(kind) and (is_text(kind.value_type) or is_number(kind.value_type)):
        return _category(name, clean(as_text(plain(values), name)))
    return None


def _without_nan(values: pa.Array) -> pa.Array:
    """The same with null for NaN."""
    return pc.if_else(pc.is_nan(values), None, values) if pa.types.is_floating(values.type) else values


def clean(texts: Any) -> Any:
    """Texts without spaces around them, null where they only say that nothing is there."""
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.large_string()))
    return pc.if_else(pc.is_in(trimmed, value_set=MISSING), pa.scalar(None, pa.large_string()), trimmed)


def has_numbers(texts: Any) -> bool:
    """Whether some cells read as numbers."""
    return bool(pc.any(pc.match_substring_regex(texts, NUMBER)).as_py())


def _recognize_text(name: str, texts: pa.ChunkedArray) -> FeatureColumn:
    distinct = texts.unique().drop_null()
    if _all_match(distinct, NUMBER):
        return FeatureColumn(name, "number")
    if _all_match(distinct, BOOLEAN):
        return FeatureColumn(name, "boolean")
    if _all_match(distinct, DATE) and not np.isnan(_parse_times(distinct)).any():
        return FeatureColumn(name, "time")
    return _category(name, texts)


def _category(name: str, texts: Any) -> FeatureColumn:
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
    """Days since 1970, or of a duration or a time of day."""
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
    """Days since 1970 of ISO dates and times, without a zone taken as UTC."""
    encoded = texts.dictionary_encode()
    days = np.array([_day(text) for text in encoded.dictionary.to_pylist()], dtype=np.float64)
    places = _floats(encoded.indices)
    known = ~np.isnan(places)
    result = np.full(len(places), np.nan)
    result[known] = days[places[known].astype(np.int64)]
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
