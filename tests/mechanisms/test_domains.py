"""Labels in, codes out, and back; what is outside is refused without a word about it."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import DomainError, InputError

OUTSIDE = "labels must lie in the declared domain; at least one is missing or outside of"


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6),
        min_size=2,
        max_size=9,
        unique=True,
    ),
    st.data(),
)
def test_texts_are_encoded_and_decoded(names: list[str], data: st.DataObject) -> None:
    domain = Classes(names)
    labels = data.draw(st.lists(st.sampled_from(names), max_size=30))
    for given_as in (
        labels,
        np.array(labels, dtype=object),
        np.array(labels, dtype=np.str_),
        pd.Series(labels, dtype=object),
    ):
        codes = domain.encode(given_as)
        assert codes.dtype == np.uint8
        assert [names[code] for code in codes] == labels
    assert domain.decode(codes).tolist() == labels


@given(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=9, unique=True), st.data())
def test_integers_are_encoded_and_decoded(names: list[int], data: st.DataObject) -> None:
    domain = Classes(names)
    labels = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=30))
    assert domain.decode(domain.encode(labels)).tolist() == labels
    assert domain.decode(domain.encode(np.array(labels))).tolist() == labels


@pytest.mark.parametrize(("size", "dtype"), [(2, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
def test_codes_take_the_smallest_type(size: int, dtype: str) -> None:
    domain = Classes(size)
    codes = domain.encode([0, size - 1])
    assert codes.dtype == np.dtype(dtype)
    assert domain.decode(codes).tolist() == [0, size - 1]


@pytest.mark.parametrize(
    "labels", [[0, 1, 2], [0.0, 1.0, 2.0], (0, 1, 2), np.array([0, 1, 2], dtype=np.int8), pd.Series([0, 1, 2])]
)
def test_codes_of_any_number_type(labels: Any) -> None:
    assert Classes(3).encode(labels).tolist() == [0, 1, 2]


def test_mixed_names_decode_to_themselves() -> None:
    domain = Classes(("a", 1, "1"))
    assert domain.encode(np.array([1, "1", "a"], dtype=object)).tolist() == [1, 2, 0]
    assert domain.decode([0, 1, 2]).tolist() == ["a", 1, "1"]


SECRETS = [
    (Classes(3), [0, 77]),
    (Classes(3), [0, -1]),
    (Classes(3), [0, 77.5]),
    (Classes(3), [0, float("nan")]),
    (Classes(3), [0, float("inf")]),
    (Classes(3), np.array([0, None])),
    (Classes(3), ["0", "77"]),
    (Classes(3), np.array([0, 2**63], dtype=np.uint64)),
    (Classes(3), [0, 2**80]),
    (Classes(3), np.array(["2026-11-21"], dtype="datetime64[D]")),
    (Classes(3), np.ma.masked_array([0, 1], [False, True])),
    (Classes(("no", "yes")), ["no", "sentinel77"]),
    (Classes(("no", "yes")), ["no", None]),
    (Classes(("no", "yes")), ["no", float("nan")]),
    (Classes(("no", "yes")), np.array(["no", "sentinel77"], dtype=object)),
    (Classes(("no", "yes")), np.array([b"no", b"\xff77"])),
    (Classes(("no", "yes")), pd.Series(["no", pd.NA, "sentinel77"], dtype="string")),
    (Classes(("no", "yes")), pd.Series(["no", "sentinel77"], dtype="category")),
    (Classes(("no", "yes")), ["no", "no "]),
    (Classes(("no", "yes")), [0, 1]),
    (Classes((1, 2)), ["1", "77"]),
    (Classes((1, 2)), np.array([1, ["sentinel77"]], dtype=object)),
    (Interval(0, 10), [1, 77]),
    (Interval(0, 10), [1, -1e-9]),
    (Interval(0, 10), [1, float("nan")]),
    (Interval(0, 10), [1, None]),
    (Interval(0, 10), ["sentinel77"]),
    (Interval(0, 10), [1, float("inf")]),
    (Interval(0, 10), np.array([1 + 77j])),
    (Interval(0, 10), pd.array([1, pd.NA], dtype="Int64")),
    (Interval(0, 10), np.ma.masked_array([5.0, 1.0], [True, False])),
]


@pytest.mark.parametrize(("domain", "labels"), SECRETS, ids=range(len(SECRETS)))
def test_what_is_missing_or_outside_is_refused_without_a_word_about_it(domain: Any, labels: Any) -> None:
    with pytest.raises(DomainError, match=OUTSIDE) as caught:
        domain.encode(labels)
    error: BaseException | None = caught.value
    assert str(error) == f"{OUTSIDE} {domain!r}"
    while error is not None:
        assert "77" not in repr(error) and "None" not in repr(error)
        error = error.__cause__ or error.__context__
    assert not domain.contains(labels)


@pytest.mark.parametrize("domain", [Classes(3), Classes(("no", "yes")), Classes((5, 6)), Interval(0, 1)])
def test_labels_stand_in_one_column(domain: Any) -> None:
    for labels in (np.zeros((2, 2)), np.zeros((3, 1), dtype=int), 1):
        with pytest.raises(InputError, match="labels must be one-dimensional"):
            domain.encode(labels)
    assert len(domain.encode([])) == 0


@pytest.mark.parametrize("codes", [[0, 3], [-1], np.array([2**64 - 1], dtype=np.uint64)])
def test_codes_outside_are_refused(codes: Any) -> None:
    with pytest.raises(DomainError, match=OUTSIDE):
        Classes(3).check_codes(codes)
    with pytest.raises(DomainError, match=OUTSIDE):
        Classes(3).decode(codes)


@pytest.mark.parametrize("codes", [[0.0], [True], ["0"], [[0]], 0, [None]])
def test_codes_are_integers_in_one_column(codes: Any) -> None:
    with pytest.raises(InputError, match="labels must be a one-dimensional array of integer codes 0 to 2"):
        Classes(3).check_codes(codes)


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (1, "classes must hold at least two classes"),
        (0, "classes must hold at least two classes"),
        (-5, "classes must hold at least two classes"),
        (10**15, "classes must hold at most 16777216 classes"),
        ([], "classes must hold at least two classes"),
        (("yes",), "classes must hold at least two classes"),
        (("a", "a"), "classes must be distinct texts or integers"),
        ((1, True), "classes must be distinct texts or integers"),
        ((1.5, 2.5), "classes must be distinct texts or integers"),
        ((None, "a"), "classes must be distinct texts or integers"),
        ("no,yes", "classes must be a number of classes or a sequence of names"),
        (True, "classes must be a number of classes or a sequence of names"),
        (None, "classes must be a number of classes or a sequence of names"),
        (2.0, "classes must be a number of classes or a sequence of names"),
    ],
)
def test_what_are_no_classes_is_refused(classes: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Classes(classes)


def test_names_may_come_from_numpy() -> None:
    assert Classes(np.array(["a", "b"])) == Classes(("a", "b"))
    assert Classes(np.array([3, 4])).names == (3, 4)
    assert Classes(np.int64(3)) == Classes(3) == Classes(range(3))
    assert repr(Classes(3)) == "Classes(3)"
    assert Classes(("b", "a")) != Classes(("a", "b"))
    assert Classes(("b", "a")).to_json() == {"classes": ["b", "a"]}


@given(st.integers(-50, 50), st.integers(1, 80), st.integers(2, 300))
def test_grid_points_are_encoded_and_decoded(low: int, width: int, grid: int) -> None:
    domain = Interval(low, low + width, grid=grid)
    codes = np.arange(grid)
    points = domain.decode(codes)
    assert domain.encode(np.clip(points, low, low + width)).tolist() == codes.tolist()
    assert points[0] == low and points[-1] == pytest.approx(low + width)


@given(st.lists(st.floats(0, 7), max_size=20), st.integers(2, 100))
def test_labels_go_to_the_nearest_grid_point(labels: list[float], grid: int) -> None:
    domain = Interval(0, 7, grid=grid)
    decoded = domain.decode(domain.encode(labels))
    assert np.all(np.abs(decoded - np.array(labels)) <= domain.step / 2 * (1 + 1e-9))


def test_a_step_that_is_no_float() -> None:
    domain = Interval(0, 1, grid=4)
    assert domain.encode([0, 1 / 3, 0.34, 0.49, 0.51, 1]).tolist() == [0, 1, 1, 1, 2, 3]
    assert domain.decode([3]).tolist() == [1.0]
    assert Interval(0.1, 0.7, grid=7).encode([0.1, 0.2, 0.3, 0.7]).tolist() == [0, 1, 2, 6]


@pytest.mark.parametrize("low", [0, 0.0, "0", Decimal(0), Fraction(0), np.float32(0), np.int64(0)])
def test_a_range_may_be_written_in_any_way(low: Any) -> None:
    domain = Interval(low, "10", grid=11)
    assert domain == Interval(0, 10, grid=11)
    assert domain.encode([2.4]).tolist() == [2]
    assert domain.to_json() == {"low": "0", "high": "10", "grid": 11}
    assert type(domain.low) in (int, float)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1, 1), "low must be below high"),
        ((2, 1), "low must be below high"),
        ((float("nan"), 1), "low must be finite"),
        ((0, float("inf")), "high must be finite"),
        ((None, 1), "low must be a number"),
        ((0, 1, 1), "grid must be an integer number of points"),
        ((0, 1, 2.0), "grid must be an integer number of points"),
        ((0, 1, True), "grid must be an integer number of points"),
        ((0, 1, 2**24 + 1), "grid must be an integer number of points"),
    ],
)
def test_what_is_no_interval_is_refused(arguments: tuple, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Interval(*arguments)
