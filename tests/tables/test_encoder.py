"""Mixed-type tables as matrices."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.privacy import InputError
from labeldp.tables import Blocks, TableEncoder, open_table

NAN = float("nan")

FILLER = [1, 2, 3, 4]


def column(values: Any, again: Any = None) -> tuple[list[float], str, tuple[str, ...]]:
    """The encoded cells of `again` (or of `values`), the kind, and the notes, of an encoder fitted to `values`."""
    encoder = TableEncoder.fit(pa.table({"x": values}))
    cells = encoder.transform(pa.table({"x": values if again is None else again}))[:, 0]
    return cells.tolist(), encoder.columns[0].kind, encoder.notes


def same(cells: list[float], expected: list[float]) -> bool:
    return np.array_equal(cells, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None, 3], "number", [1, NAN, 3]),
        ([0.5, NAN, 2.0], "number", [0.5, NAN, 2]),
        ([Decimal("1.5"), None], "number", [1.5, NAN]),
        (["1", " +2.5e1 ", "NA", "?", None, ".5"], "number", [1, 25, NAN, NAN, NAN, 0.5]),
        ([True, False, None], "boolean", [1, 0, NAN]),
        (["True", "FALSE", ""], "boolean", [1, 0, NAN]),
        (["b", "a", " b", None, "a", "c", "b"], "category", [0, 1, 0, NAN, 1, 2, 0]),
        (["b", "a", "b", "a"], "category", [1, 0, 1, 0]),
        (pa.array([7, 5, 5]).dictionary_encode(), "category", [1, 0, 0]),
        ([date(1970, 1, 2), None], "time", [1, NAN]),
        (pa.array([86400_000, 0], pa.date64()), "time", [1, 0]),
        ([datetime(1970, 1, 1, 12), datetime(1970, 1, 3)], "time", [0.5, 2]),
        (pa.array([1, 2], pa.timestamp("s", "Europe/Paris")), "time", [1 / 86400, 2 / 86400]),
        ([timedelta(hours=6), None], "time", [0.25, NAN]),
        ([time(6), time(18)], "time", [0.25, 0.75]),
        (["1970-01-02", "1970-01-01 12:00", "", "1970-01-02T02:00:00+02:00"], "time", [1, 0.5, NAN, 1]),
        (["2026-02-30", "2026-02-30", "2026-01-01"], "category", [0, 0, 1]),
    ],
)
def test_each_type_becomes_floats(values: Any, kind: str, expected: list[float]) -> None:
    cells, found, notes = column(values)
    assert same(cells, expected) and found == kind and notes == ()


def test_infinite_values_are_missing() -> None:
    cells, _, notes = column([1.0, 2.0, float("inf")])
    assert same(cells, [1, 2, NAN]) and notes == ("'x': infinite values are taken as missing",)
    assert same(column(["1", "2", "-Infinity", "INF"])[0], [1, 2, NAN, NAN])


def test_mixed_columns_are_categories() -> None:
    cells, kind, notes = column(["12", "old", "12", "7"])
    assert (cells, kind) == ([0, 2, 0, 1], "category")
    assert notes == ("'x': numbers and texts are mixed, so all are taken as categories",)


def test_rare_categories_share_a_code() -> None:
    values = [f"c{i:03}" for i in range(300)] + [f"c{i:03}" for i in range(254)]
    encoder = TableEncoder.fit(pa.table({"x": values}))
    codes = encoder.transform(pa.table({"x": ["c000", "c253", "c254", "c299", "new", None]}))[:, 0]
    assert same(codes.tolist(), [0, 253, 254, 254, 254, NAN])
    assert encoder.notes == ("'x': the 254 most frequent categories are kept, the rest are one",)


def test_what_was_not_seen_is_missing() -> None:
    assert same(column(["a", "b", "a"], ["b", "new"])[0], [1, NAN])
    assert same(column(["1", "2"], ["2", "two", "nan"])[0], [2, NAN, NAN])
    assert same(column([True, False], ["true", "0", "maybe"])[0], [1, 0, NAN])
    assert same(column([date(1970, 1, 2), None], ["1970-01-05", "soon"])[0], [4, NAN])
    assert same(column([1, 2], pa.nulls(2))[0], [NAN, NAN])
    assert same(column([1, 2], pa.array([], pa.int64()))[0], [])


def test_useless_columns_are_left_out_with_a_note() -> None:
    table = pa.table(
        {
            "ok": FILLER,
            "same": [7] * 4,
            "none": pa.nulls(4),
            "id": ["a", "b", "c", "d"],
            "list": [[1]] * 4,
            "half": [7, None, 7, 7],
        }
    )
    encoder = TableEncoder.fit(table)
    assert encoder.names == ("ok", "half")
    assert encoder.notes == (
        "left out 'same': every value is the same",
        "left out 'none': every value is missing",
        "left out 'id': no two rows share a value",
        "left out 'list': its type list<item: int64> is not handled",
    )
    many = TableEncoder.fit(pa.table({"ok": range(999), "id": [f"u{i}" for i in range(999)]}))
    assert many.notes == ("left out 'id': no two rows share a value",)


def test_bad_tables_are_refused() -> None:
    encoder = TableEncoder.fit(pa.table({"age": FILLER, "day": [date(2026, 1, i) for i in FILLER]}))
    with pytest.raises(InputError, match="exactly one feature column 'day', and it has 0"):
        encoder.transform(pa.table({"age": FILLER}))
    with pytest.raises(InputError, match="exactly one feature column 'age', and it has 2"):
        TableEncoder.fit(pa.table([FILLER, FILLER], names=["age", "age"]))
    with pytest.raises(
        InputError, match="column 'day' held dates or times when it was learned from, and now holds numbers"
    ):
        encoder.transform(pa.table({"age": FILLER, "day": FILLER}))
    with pytest.raises(
        InputError, match="column 'age' held numbers when it was learned from, and now holds dates or times"
    ):
        encoder.transform(pa.table({"age": [date(2026, 1, 1)], "day": [date(2026, 1, 1)]}))
    with pytest.raises(InputError, match="no feature column that can be used; left out 'x': every value is the same"):
        TableEncoder.fit(pa.table({"x": ["a"]}))
    with pytest.raises(InputError, match="table must be a pyarrow table"):
        TableEncoder.fit([[1, 2]])
    with pytest.raises(InputError, match="exactly one feature column 'zip'"):
        TableEncoder.fit(pa.table({"x": FILLER}), columns=["zip"])


OTHERS = {
    "words for numbers": ([30, 40, 50], ["young", "old", None], "numbers", "categories"),
    "words for numbers in CSV": (["30", "40", "50"], ["young", "?", "old"], "numbers", "categories"),
    "dates for numbers": ([30, 40, 50], ["2026-01-01", "2026-01-02", None], "numbers", "dates or times"),
    "truth for numbers in CSV": (["3", "4", "5"], ["true", "false", "true"], "numbers", "booleans"),
    "numbers for categories": (["red", "green", "red"], [1, 2, 3], "categories", "numbers"),
    "numbers for categories in CSV": (["red", "green", "red"], ["1", "2", "3"], "categories", "numbers"),
    "dates for categories": (["red", "green", "red"], [date(2026, 1, 1)] * 3, "categories", "dates or times"),
    "words for truth": ([True, False, True], ["yes", "no", "no"], "booleans", "categories"),
    "numbers for dates": ([date(2026, 1, 1), date(2026, 1, 2), None], ["1", "2", "3"], "dates or times", "numbers"),
    "lists for numbers": ([30, 40, 50], [[1], [2], [3]], "numbers", "values of type list"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_column_of_another_kind_is_refused_with_both_kinds(name: str) -> None:
    """All such cells were read as missing, and predictions were made of gaps without a word."""
    before, now, kind, other = OTHERS[name]
    encoder = TableEncoder.fit(pa.table({"x": before, "y": [1.0, 2.0, 3.0]}))
    words = f"column 'x' held {kind} when it was learned from, and now holds {other}"
    with pytest.raises(InputError, match=words):
        encoder.transform(pa.table({"x": now, "y": [1.0, 2.0, 3.0]}))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (["a", "b", "a"], ["new", "names", "alone"]),
        (pa.array([1, 2, 1]).dictionary_encode(), [7, 8, 9]),
        (pa.array([1, 2, 1]).dictionary_encode(), ["7", "8", "9"]),
        (["1", "1", "x"], [7, 8, 9]),
        (["a", "b", "a"], pa.array([NAN] * 3)),
        (["a", "b", "a"], ["?", "", None]),
        ([1, 2, 3], [True, False, True]),
        ([1, 2, 3], pa.array(["3", "4", "5"]).dictionary_encode()),
        ([1, 2, 3], pa.array([3, 4, 5]).dictionary_encode()),
        ([True, False, True], [0, 1, 0]),
        ([1, 2, 3], ["3", "unknown", "NA"]),
    ],
)
def test_unseen_names_gaps_and_other_forms_of_a_kind_are_taken(before: Any, now: Any) -> None:
    encoder = TableEncoder.fit(pa.table({"x": before, "y": [1.0, 2.0, 3.0]}))
    assert encoder.names == ("x", "y")
    assert encoder.transform(pa.table({"x": now, "y": [1.0, 2.0, 3.0]})).shape == (3, 2)


def test_the_kind_is_told_from_the_whole_file_not_from_a_block() -> None:
    encoder = TableEncoder.fit(pa.table({"x": ["1", "2", "3"]}))
    blocks = Blocks(encoder)
    for cells in (["unknown"], ["4"], ["odd"]):
        blocks.transform(pa.table({"x": cells}))
    blocks.require_kinds()
    blocks = Blocks(encoder)
    for cells in (["unknown"], [None], ["odd"]):
        blocks.transform(pa.table({"x": cells}))
    with pytest.raises(InputError, match="column 'x' held numbers"):
        blocks.require_kinds()


@pytest.mark.parametrize("name", [None, "key"])
def test_the_index_of_a_data_frame_is_no_feature(name: str | None) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=pd.Index([7, 3, 5], name=name))
    index = name or "__index_level_0__"
    encoder = TableEncoder.fit(frame)
    assert encoder.names == ("x",)
    assert encoder.notes == (f"left out {index!r}: it is the index of a pandas data frame",)
    assert same(encoder.transform(frame.reset_index(drop=True))[:, 0].tolist(), [1, 2, 4])
    assert TableEncoder.fit(frame, columns=[index, "x"]).names == (index, "x")
    assert TableEncoder.fit(pa.table({"x": [1, 2]}, metadata={b"pandas": b"not JSON"})).names == ("x",)


cell = st.none() | st.integers(-5, 5).map(str) | st.sampled_from(["red", "green", "?", "1970-01-02", "true"])


@given(values=st.lists(cell, min_size=2, max_size=12), cut=st.integers(0, 12))
def test_encoding_survives_json_and_does_not_depend_on_blocks(values: list[str | None], cut: int) -> None:
    table = pa.table({"y": range(len(values)), "x": pa.array(values, pa.string())})
    encoder = TableEncoder.fit(table)
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    halves = np.vstack([again.transform(table.slice(0, cut)), again.transform(table.slice(cut))])
    np.testing.assert_array_equal(halves, encoder.transform(table))
    assert (encoder.transform(table)[:, encoder.categorical] != 255).all()


def test_bad_json_is_refused() -> None:
    good = TableEncoder.fit(pa.table({"x": FILLER})).to_json()
    for bad in ({}, {**good, "columns": [{}]}, {**good, "columns": None}):
        with pytest.raises(InputError, match="not a table encoder of labeldp"):
            TableEncoder.from_json(bad)
    with pytest.raises(InputError, match="another version"):
        TableEncoder.from_json({**good, "format": 99})
    with pytest.raises(InputError, match="of a kind that this version does not know"):
        TableEncoder.from_json({**good, "columns": [{**good["columns"][0], "kind": "image"}]})


def test_csv_parquet_and_data_frames_encode_alike(tmp_path: Path) -> None:
    typed = {
        "n": [1.5, None, 3.0],
        "b": [True, False, True],
        "c": ["u", "v", "u"],
        "t": [datetime(2026, 1, 1, tzinfo=UTC), None, datetime(2026, 1, 2, tzinfo=UTC)],
    }
    text = "n,b,c,t\n1.5,true,u,2026-01-01\n,false,v,\n3,true,u,2026-01-02 00:00:00Z\n"
    (tmp_path / "t.csv").write_text(text)
    sources = [pa.table(typed), pl.DataFrame(typed), pd.DataFrame(typed), open_table(tmp_path / "t.csv").read()]
    for fitted in sources:
        encoder = TableEncoder.fit(fitted)
        assert encoder.categorical.tolist() == [False, False, True, False]
        for table in sources:
            np.testing.assert_array_equal(encoder.transform(table), TableEncoder.fit(sources[0]).transform(sources[0]))


def test_dictionaries_may_differ_between_chunks() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "a", "b"]).dictionary_encode()]
    table = pa.table({"x": pa.chunked_array(chunks)})
    assert TableEncoder.fit(table).transform(table)[:, 0].tolist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("text", ["{},5", "1,{:03d}"])
def test_numbers_with_commas_are_refused_where_they_would_be_categories(text: str) -> None:
    table = pa.table({"age": [text.format(each) for each in range(30)], "x": list(range(30))})
    with pytest.raises(InputError, match=r"column 'age' has numbers with commas: write 34\.5 for 34,5"):
        TableEncoder.fit(table)
    few = pa.table({"size": ["1,5", "2"] * 15})
    assert TableEncoder.fit(few).categorical.tolist() == [True]


def test_the_label_is_refused_among_the_features() -> None:
    table = pa.table({"x": FILLER, "bought": FILLER})
    for columns in (None, ["x", "bought"]):
        with pytest.raises(InputError, match="must not hold 'bought', the label"):
            TableEncoder.fit(table, columns=columns, label="bought")
    assert TableEncoder.fit(table, columns=["x"], label="bought").names == ("x",)
    assert TableEncoder.fit(table.select(["x"]), label="bought").names == ("x",)
