"""Labels in, codes out, and back; what is outside is refused without a word about it."""

import itertools
import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.mechanisms import GAPS, Classes, Domain, Interval
from labeldp.mechanisms.domains import DOMAINS as REGISTRY
from labeldp.mechanisms.domains import require_domain
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
        assert [domain.names[code] for code in codes] == labels
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
    assert domain.encode(np.array([1, "1", "a"], dtype=object)).tolist() == [0, 1, 2]
    assert domain.decode([0, 1, 2]).tolist() == [1, "1", "a"]


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
    assert str(error) == f"{OUTSIDE} {domain!r}. {GAPS}"
    while error is not None:
        assert "77" not in repr(error) and "None" not in repr(error)
        error = error.__cause__ or error.__context__
    assert not domain.contains(labels)


def test_a_label_that_differs_by_nul_is_another_label() -> None:
    """numpy drops NUL at the end of a text: of `Classes(("a", "a\\0"))` both names had the code 0, in silence."""
    with pytest.raises(InputError, match="classes must be texts without NUL characters"):
        Classes(("a", "a\0"))
    for labels in (["a", "a\0"], ["a\0"], (b"a\0",), np.array(["a\0"], dtype=object), pd.Series(["a\0"], dtype=object)):
        with pytest.raises(DomainError):
            Classes(("a", "b")).encode(labels)
    with pytest.raises(DomainError):
        Interval(0, 2).encode(["1\0"])


def test_large_numbers_are_outside_or_clipped_and_never_rounded_into_the_domain() -> None:
    for labels in ([10**400, 1], [-(10**400)], [Decimal("1e999")], [Fraction(10**400)]):
        with pytest.raises(DomainError, match=OUTSIDE):
            Interval(0, 2).encode(labels)
    assert Interval(0, 2, grid=3, clip=True).encode([10**400, 1, -(10**400), np.inf]).tolist() == [2, 1, 0, 2]
    for labels in ([2**63 + 1, 0.0], [2**53 + 1, 0.0]):
        with pytest.raises(DomainError):
            Classes((2**53, 2**63, 0)).encode(labels)
    assert Classes((2**53, 2**63 + 1, 0)).encode([2**63 + 1, 2**53, -0.0]).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    "labels",
    [[True, False], np.array([True]), np.array([1 + 0j]), np.array([0], "M8[Y]"), np.array([1], "m8[ns]"), ["1_0"]],
    ids=str,
)
def test_what_are_no_numbers_are_no_labels_of_an_interval(labels: Any) -> None:
    with pytest.raises(DomainError):
        Interval(0, 10).encode(labels)


@pytest.mark.parametrize("number", [1, True, "1", "1.0", 1.0, "True", Decimal("1.0"), Fraction(1), b"1", np.float32(1)])
def test_names_that_two_labels_could_mean_are_taken_letter_for_letter(number: Any) -> None:
    """1, 1.0, "1.0" and True are one label where one class has that name, and else their own names alone."""
    for names in (("0", "1"), (5, 1), ("1.00", "0"), ("TRUE", "FALSE"), (True, False)):
        domain = Classes(names)
        code = next(code for code, name in enumerate(domain.names) if str(name)[0] in "1T")
        assert domain.encode([number]).tolist() == [code]
    domain = Classes(("1", "1.0", "True", "true", "x"))
    text = "true" if number is True else str(number) if isinstance(number, str) else "1"
    assert domain.decode(domain.encode([number])).tolist() == [text]


NUMBERS = (
    st.integers(-(10**30), 10**30)
    | st.integers(-3, 3)
    | st.sampled_from([10**400, -(10**5000), True, False, None, np.True_, np.int8(1), np.float16(1), np.uint64(2**63)])
    | st.floats()
    | st.decimals(allow_nan=True)
    | st.fractions()
    | st.complex_numbers()
)
THINGS: Any = (
    NUMBERS
    | st.text(max_size=4)
    | st.sampled_from(
        ["0", "1", "no", "yes", "1.0", "true", "nan", "1e999", "\ud800", "no\0", "-0.0", "1e+99", "7" * 5000]
    )
    | st.binary(max_size=3)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.sampled_from([pd.NA, pd.NaT, np.ma.masked, Decimal("sNaN"), np.complex128(1), np.longdouble(1), np.str_("no")])
    | st.sampled_from([{}, set(), object(), len, int, [0], [[]], (), (1, 2)])
)
DATES = "labels: dates and times are no labels. Convert them to texts for Classes, or to numbers"
DTYPES = ["i1", "u8", "f2", "f4", "f8", "g", "c8", "?", "S3", "M8[ns]", "M8[D]", "m8[ns]", "V2"]
ARRAYS = st.one_of(
    st.builds(
        lambda raw, kind: np.frombuffer(raw * 48, kind), st.binary(min_size=1, max_size=3), st.sampled_from(DTYPES)
    ),
    st.lists(st.text(max_size=3), max_size=4).map(lambda texts: np.array(texts, dtype=np.str_)),
    st.lists(st.sampled_from([0, 1, None]), max_size=4).map(lambda values: pd.array(values, dtype="Int64")),
    st.lists(st.sampled_from(["no", None]), max_size=4).map(lambda values: pd.Series(values, dtype="string")),
    st.lists(st.booleans(), min_size=1, max_size=4).map(lambda mask: np.ma.masked_array(np.zeros(len(mask)), mask)),
)
LABELS = st.lists(THINGS, max_size=4) | st.tuples(THINGS) | st.lists(st.lists(THINGS, max_size=2)) | ARRAYS | THINGS
DOMAINS = [
    Classes(2),
    Classes(300),
    Classes(("no", "yes")),
    Classes(("0", "1")),
    Classes((5, -1, 2**60)),
    Classes((False, True)),
    Classes(("a", 1, "1")),
    Classes(("nan", "None")),
    Interval(0, 1),
    Interval(-1, 1, grid=7, clip=True),
    Interval("-1e29", 1e29, clip=True),
]


@settings(max_examples=600)
@given(LABELS, st.sampled_from(DOMAINS))
def test_whatever_labels_are_there_are_codes_or_one_error_that_tells_nothing(labels: Any, domain: Any) -> None:
    """No other exception, no warning, no label in a message, and nothing behind it in `__cause__` or `__context__`.

    `Interval.encode([10**400, 1])` raised a bare OverflowError, dates and durations were read as numbers.
    """
    try:
        codes = domain.encode(labels)
    except (DomainError, InputError) as error:
        assert str(error) in (f"{OUTSIDE} {domain!r}. {GAPS}", "labels must be one-dimensional", DATES)
        assert error.__cause__ is None and error.__context__ is None
    else:
        assert codes.ndim == 1 and codes.dtype == domain.dtype and len(codes) == len(labels)
        assert not len(codes) or codes.max() < domain.size


FLOATS = [np.array([0x7F800001, 0], "<u4").view("<f4"), np.array(["1e400", "0"]).astype(np.longdouble)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("labels", FLOATS, ids=["signaling", "beyond a double"])
def test_no_warning_tells_of_a_float(labels: Any, domain: Any) -> None:
    """numpy warns where a signaling NaN or a number beyond a double is converted."""
    try:
        domain.encode(labels)
    except DomainError as error:
        assert str(error) == f"{OUTSIDE} {domain!r}. {GAPS}"
    else:
        assert getattr(domain, "clip", False)


class Odd:
    """A label that tells of itself in every exception that it raises."""

    def __init__(self, raised: type[Exception]) -> None:
        self.raised = raised

    def __hash__(self) -> int:
        raise self.raised("secret77")

    def __float__(self) -> float:
        raise self.raised("secret77")

    def __eq__(self, other: object) -> bool:
        raise self.raised("secret77")


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("raised", [ValueError, OverflowError, RuntimeError])
def test_labels_that_raise_are_outside(domain: Any, raised: type[Exception]) -> None:
    for labels in ([Odd(raised)], np.array([0, Odd(raised)], dtype=object), Odd(raised)):
        with pytest.raises((DomainError, InputError)) as caught:
            domain.encode(labels)
        assert caught.value.__cause__ is None and caught.value.__context__ is None and "77" not in str(caught.value)


@given(st.lists(st.sampled_from([0, 1, 0.0, 1.0, True, False, "0", "1", "0.0", "true", "False", "FALSE"]), max_size=9))
def test_one_table_of_values_whatever_stands_beside_them(labels: list[Any]) -> None:
    """A list of numbers, texts and truth values is read label by label: numpy would make texts of all of them."""
    expected = [int(label in (1, "1", "true")) for label in labels]
    for domain in DOMAINS:
        if domain in (Classes(2), Classes(("0", "1")), Classes((False, True))):
            assert domain.encode(labels).tolist() == [domain.encode([label])[0] for label in labels] == expected


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
        (np.array(3), "classes must be a number of classes or a sequence of names"),
        ({"no": 1, "yes": 0}, "classes must be a number of classes or a sequence of names"),
        (itertools.count(), "classes must hold at most 16777216 classes"),
        (("a", "b\0"), "classes must be texts without NUL characters, or integers below"),
        ((1, 10**5000), "classes must be texts without NUL characters, or integers below"),
    ],
)
def test_what_are_no_classes_is_refused(classes: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Classes(classes)


def test_names_may_come_one_after_the_other() -> None:
    assert Classes(iter(("b", "a"))) == Classes(name for name in ("b", "a")) == Classes(pd.Index(["b", "a"]))


def test_names_may_come_from_numpy() -> None:
    assert Classes(np.array(["a", "b"])) == Classes(("a", "b"))
    assert Classes(np.array([3, 4])).names == (3, 4)
    assert Classes(np.int64(3)) == Classes(3) == Classes(range(3))
    assert repr(Classes(3)) == "Classes(3)"


@pytest.mark.parametrize(
    "names",
    [
        ("no", "yes"),
        (0, 1, 2, 10),
        ("0", "2", "10"),
        (False, True),
        ("false", "true"),
        (-1, 0, "1", "x", "é"),
        (1, "1", "1.0", "True", "true"),
    ],
)
def test_the_order_of_classes_is_no_part_of_a_domain(names: tuple[Any, ...]) -> None:
    """In two orders they were two domains: a ledger charged the same release twice, with independent noise."""
    for order in itertools.permutations(names):
        assert Classes(order).names == Classes(set(order)).names == names
        assert json.dumps(Classes(order).to_json()) == json.dumps({"classes": names})


@given(st.sets(st.integers(-20, 20) | st.booleans() | st.text(max_size=3), min_size=2, max_size=6))
def test_names_have_the_same_codes_as_texts_of_a_file(names: set[Any]) -> None:
    texts = [str(name) for name in Classes(names).names] if not any("\0" in str(name) for name in names) else ()
    if len(set(texts)) > 1 and len(set(texts)) == len(texts):
        assert list(Classes(texts).names) == texts


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
        ((0, 10**399), "low and high must be numbers from -1e30 to 1e30 that are at least 1e-9 apart"),
        ((0, "1e-320"), "low and high must be numbers from -1e30 to 1e30 that are at least 1e-9 apart"),
        ((10**17, 10**17 + 1), "low and high must be numbers from -1e30 to 1e30 that are at least 1e-9 apart"),
        ((0, 1, 1), "grid must be an integer number of points"),
        ((0, 1, 2.0), "grid must be an integer number of points"),
        ((0, 1, True), "grid must be an integer number of points"),
        ((0, 1, 2**24 + 1), "grid must be an integer number of points"),
    ],
)
def test_what_is_no_interval_is_refused(arguments: tuple, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Interval(*arguments)


def test_integers_that_numpy_would_round_are_decoded_as_they_are() -> None:
    """Names on both sides of int64 made doubles, two of them equal: encoding them again gave [0, 0, 2]."""
    for names in ((-1, 2**63, 2**63 + 1), (0, 2**64 - 1), (-(2**64) + 1, -(2**63) - 1)):
        domain, codes = Classes(names), range(len(names))
        decoded = domain.decode(list(codes))
        assert decoded.tolist() == list(names)
        assert domain.encode(decoded).tolist() == list(codes)
    assert Classes((-(2**63), 2**63 - 1)).decode([0, 1]).dtype == np.int64


@pytest.mark.parametrize(
    ("names", "label", "code"),
    [((0, 1, "false"), False, 1), ((0, 1, "true"), True, 2), ((False, "0"), 0, 0), ((0, 1), True, 1)],
)
def test_a_truth_value_is_its_text_in_python_as_in_a_file(names: Any, label: Any, code: int) -> None:
    """`False == 0` was found as the name 0 in Python, and as "false" in a file."""
    domain = Classes(names)
    arrays = (np.array([label]), np.array([label], dtype=object), pd.Series([label], dtype=object))
    for labels in ([label], [np.array(label)[()]], *arrays):
        assert domain.encode(labels).tolist() == [code]
    assert Classes([str(name) for name in names]).encode(["false" if label is False else str(label).lower()]) == [code]


@pytest.mark.parametrize(
    "domain",
    [
        Classes(3),
        Classes(("no", "yes")),
        Interval(-1, 0.1, grid=7),
        Interval(0, 10, clip=True),
    ],
)
def test_a_domain_is_read_from_its_description(domain: Domain) -> None:
    assert Domain.from_json(json.loads(json.dumps(domain.to_json()))) == domain


def test_every_domain_has_a_description_that_is_read() -> None:
    assert set(REGISTRY.values()) == {each for each in Domain.__subclasses__() if "papers" not in each.__module__}


@pytest.mark.parametrize("content", [{}, {"colors": []}, None, 3, {"classes": ["one"]}, {"classes": ["yes", "no"]}])
def test_what_describes_no_domain_is_refused(content: Any) -> None:
    with pytest.raises(InputError):
        Domain.from_json(content)


def test_decimals_are_classes_by_the_text_that_they_print_as() -> None:
    domain = Classes(("0.5", "1.50", "2"))
    labels = [Decimal("1.50"), Decimal("0.5"), Decimal(2), 0.5]
    assert domain.decode(domain.encode(labels)).tolist() == ["1.50", "0.5", "2", "0.5"]
    with pytest.raises(DomainError):
        domain.encode([Decimal("0.50001")])


def test_a_domain_says_what_labels_are_as_vectors_of_integers() -> None:
    classes, numbers = Classes(("a", "b", "c")), Interval(-2, 6, grid=5)
    assert (classes.target, classes.columns, classes.largest_entry, classes.has_sums) == ("classes", 3, 1, False)
    assert (numbers.target, numbers.columns, numbers.largest_entry, numbers.has_sums) == ("numbers", 1, 4, True)
    assert (classes.low_exact, classes.step_exact, classes.step, classes.ends) == (0, 1, 1.0, (0.0, 2.0))
    assert (numbers.low_exact, numbers.step_exact, numbers.step, numbers.ends) == (-2, 2, 2.0, (-2.0, 6.0))
    assert (classes.center, numbers.center) == (1 / 3, 2)
    assert (classes.variance_guess, numbers.variance_guess) == (pytest.approx(2 / 9), 4)
    rows, codes = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.int16), np.array([0, 2, 2], dtype=np.uint8)
    assert classes.unit_sums(rows, codes).tolist() == [[1, 0, 8], [2, 0, 10]]
    assert numbers.unit_sums(rows, codes).tolist() == [[16], [20]]
    assert Classes(2).has_sums


def test_a_domain_says_how_a_command_line_declares_it() -> None:
    assert Classes((1, 2)).in_file() == Classes(("1", "2")) and Classes((1, 2)).texts == ["1", "2"]
    assert Classes(("no", "yes")).options == ["--classes", "no,yes"]
    clipped = Interval(0, 100, grid=11, clip=True)
    assert clipped.in_file() is clipped and clipped.texts is None
    assert clipped.options == ["--range", "0,100", "--grid", "11", "--clip"]
    assert Interval(0, 100).options == ["--range", "0,100"]


@pytest.mark.parametrize(
    ("domain", "targets", "words"),
    [
        ("no,yes", ("classes",), "domain must be Classes, such as Classes(10)"),
        (Interval(0, 1), ("classes",), "domain must be Classes, such as Classes(10)"),
        (Classes(2), ("numbers",), "domain must be an Interval, such as Interval(0, 100, grid=1025)"),
        (
            None,
            ("classes", "numbers"),
            "domain must be Classes or an Interval, such as Classes(10) or",
        ),
    ],
)
def test_labels_of_another_kind_are_refused(domain: Any, targets: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        require_domain(domain, *targets)


@pytest.mark.parametrize("domain", [Classes(2), Interval(0, 1)])
@pytest.mark.parametrize(
    "dates",
    [
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.array([3], dtype="timedelta64[s]"),
        pd.Series(pd.to_datetime(["2026-01-01"])),
        pd.Series(pd.to_datetime(["2026-01-01"], utc=True)),
    ],
)
def test_dates_are_no_labels(domain: Domain, dates: Any) -> None:
    with pytest.raises(InputError, match=r"labels: dates and times are no labels. Convert them") as caught:
        domain.encode(dates)
    assert "2026" not in str(caught.value)


@pytest.mark.parametrize("domain", [Classes(2), Interval(0, 1)])
def test_a_tensor_with_gradients_names_the_remedy(domain: Domain) -> None:
    class Tensor:
        """What torch gives: it refuses to become an array."""

        requires_grad = True

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    with pytest.raises(InputError, match=r"labels: a tensor with gradients is not read. Pass labels.detach\(\)"):
        domain.encode(Tensor())
