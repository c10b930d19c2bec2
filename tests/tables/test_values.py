"""Columns of a block as labels and ids."""

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.mechanisms import Classes
from labeldp.privacy import DomainError, InputError
from labeldp.tables import (
    DistinctIds,
    TableEncoder,
    codes_of,
    label_numbers,
    record_ids,
)
from labeldp.tables.values import distinct_labels


def block(values: Any) -> pa.RecordBatch:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.RecordBatch.from_arrays([array], names=["y"])


def texts_of(batch: pa.RecordBatch, column: str) -> Any:
    """The label of each row."""
    texts, places = distinct_labels(batch, column)
    return texts[places]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0, 1, 10], ["0", "1", "10"]),
        (pa.array([0, 200], pa.uint8()), ["0", "200"]),
        ([True, False], ["true", "false"]),
        ([1.0, -0.0, 0.1], ["1", "0", "0.1"]),
        (pa.array(np.array([1.0, 0.5], np.float16)), ["1", "0.5"]),
        ([" yes", "No", ""], [" yes", "No", ""]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a", "b"]),
        (pa.array([3, 2, 3]).dictionary_encode(), ["3", "2", "3"]),
        (pa.array(["ü", "z"], pa.large_string()), ["ü", "z"]),
        ([Decimal("1.50")], ["1.50"]),
        ([date(2026, 1, 31)], ["2026-01-31"]),
    ],
)
def test_labels_have_one_text_form(values: Any, texts: list[str]) -> None:
    labels = texts_of(block(values), "y")
    assert labels.dtype == object and labels.tolist() == texts


@given(st.lists(st.sampled_from(["no", "yes", "maybe"])))
def test_distinct_labels_are_the_labels(values: list[str]) -> None:
    texts, places = distinct_labels(block(pa.array(values, pa.string())), "y")
    assert texts[places].tolist() == values
    assert len(set(texts.tolist())) == len(texts) == len(set(values))


@pytest.mark.parametrize(
    "values", [["yes", None], [1.0, float("nan")], [None, None], pa.DictionaryArray.from_arrays([0, 1], ["yes", None])]
)
def test_a_missing_label_is_refused_without_saying_where(values: Any) -> None:
    with pytest.raises(DomainError, match=r"^the label column 'y' has a missing label; every record needs one$"):
        texts_of(block(values), "y")


@pytest.mark.parametrize("values", [[[1]], [{"a": 1}], [b"x"]])
def test_a_column_that_cannot_hold_labels_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match=r"column 'y' holds .*; texts, numbers, booleans or dates are needed"):
        texts_of(block(values), "y")
    with pytest.raises(InputError, match="must hold numbers only"):
        label_numbers(block(values), "y")


def test_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.array([b"\xff secret"]).view(pa.string())
    with pytest.raises(InputError, match=r"^column 'y' holds text that is not UTF-8$") as caught:
        texts_of(block(broken), "y")
    assert caught.value.__context__ is None
    with pytest.raises(InputError, match="not UTF-8"):
        TableEncoder.fit(block(broken))


def test_times_in_a_zone_that_is_not_known_here_are_refused() -> None:
    times = pa.array([0]).cast(pa.timestamp("us", tz="Nowhere/Land"))
    with pytest.raises(InputError, match=r"^column 'y' holds timestamp.*, which cannot be written as text") as caught:
        texts_of(block(times), "y")
    assert caught.value.__context__ is None


def test_other_bad_label_columns_are_refused() -> None:
    with pytest.raises(InputError, match="exactly one column 'z'"):
        texts_of(block([1]), "z")
    with pytest.raises(InputError, match="NUL characters"):
        texts_of(block(["yes\0"]), "y")


@pytest.mark.parametrize("values", [["1.5", "-2"], [1.5, -2.0], [Decimal("1.5"), Decimal(-2)]])
def test_label_numbers_of_every_type(values: Any) -> None:
    assert label_numbers(block(values), "y").tolist() == [1.5, -2.0]
    assert label_numbers(block([2**63 - 1]), "y").tolist() == [2.0**63]


def test_bad_label_numbers_are_refused_without_the_cell() -> None:
    with pytest.raises(InputError, match=r"^the label column 'y' must hold numbers only$") as caught:
        label_numbers(block(["1", "a secret"]), "y")
    assert caught.value.__context__ is None
    with pytest.raises(InputError, match="must hold numbers only"):
        label_numbers(block([True]), "y")
    for values in (["1", None], ["nan"], [float("nan")]):
        with pytest.raises(DomainError, match="missing label"):
            label_numbers(block(values), "y")


def test_ids_come_as_integers_or_bytes() -> None:
    for kind, dtype in ((pa.int8(), np.int64), (pa.uint64(), np.uint64)):
        ids = record_ids(block(pa.array([3, 1], kind)), "y")
        assert isinstance(ids, np.ndarray) and ids.dtype == dtype and ids.tolist() == [3, 1]
    for values in (["7", "ü"], [b"7", "ü".encode()], pa.array(["7", "ü"]).dictionary_encode()):
        assert list(record_ids(block(values), "y")) == [b"7", "ü".encode()]


def test_bad_ids_are_refused() -> None:
    with pytest.raises(InputError, match="the id column 'y' has a missing id"):
        record_ids(block(["a", None]), "y")
    with pytest.raises(InputError, match="must hold integers or texts, and it holds double"):
        record_ids(block([1.5]), "y")


integers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 30), max_size=40)
texts = st.lists(st.binary(max_size=2) | st.binary(max_size=20), max_size=40)


@given(ids=integers | texts, held=st.integers(1, 50), size=st.integers(1, 9))
def test_repeated_ids_are_found_and_no_others(ids: list[Any], held: int, size: int) -> None:
    message = None
    try:
        with DistinctIds(held) as seen:
            for start in range(0, len(ids), size):
                part = ids[start : start + size]
                seen.add(part if isinstance(part[0], bytes) else np.array(part, dtype=np.int64))
    except InputError as error:
        message = str(error)
    repeated = "ids: record ids must not be repeated: each id is one record's noise"
    assert message == (repeated if len(set(ids)) < len(ids) else None)


def test_integers_and_the_texts_that_they_print_as_are_one_id() -> None:
    for held in (1, 100):
        for more, repeated in ((np.array([1]), False), (np.array([7]), True), ([b"07", b"-7", b"7.0"], False)):
            try:
                with DistinctIds(held) as seen:
                    seen.add([b"a", b"7", b"b"])
                    seen.add(more)
                assert not repeated
            except InputError:
                assert repeated


def test_one_long_label_among_many_is_outside_of_the_domain_like_any_other() -> None:
    """As texts of numpy they would take 80 GB, and its error tells their number and the length of the longest."""
    labels = pa.array(["x" * 1_000_000, *(f"label {number}" for number in range(20_000))])
    said = set()
    for column in (labels, labels.dictionary_encode(), labels.slice(1)):
        with pytest.raises(DomainError) as caught:
            codes_of(block(column), "y", Classes(("no", "yes")))
        said.add(str(caught.value))
    assert len(said) == 1
