"""What files hold: JSON, exact numbers, and how much a compressed file may grow."""

from fractions import Fraction

import pytest

from labeldp.privacy import InputError, check_growth, json_value, most_bytes, stored_fraction


def test_json_is_read_where_it_is_json_and_not_too_deep() -> None:
    assert json_value('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]} == json_value(b'{"a": [1, 2.5, null]}')
    for text in ("", "{", "[" * 100_000, "NaN", "[Infinity]", b"\xff"):
        with pytest.raises(ValueError):
            json_value(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/3", Fraction(1, 3)), ("-2", -2), ("1e-6", Fraction(1, 10**6)), ("0.25", Fraction(1, 4)), (3, 3), (0.5, 0.5)],
)
def test_exact_numbers_are_read_exactly(text: object, value: Fraction) -> None:
    assert stored_fraction(text) == value


@pytest.mark.parametrize(
    "text", [*["1e999999999", "1e-10000", "", "x", "1/0", "nan", "inf", "1 /3", "1/-3"], None, [], True]
)
def test_what_is_no_number_of_ordinary_size_is_refused_at_once(text: object) -> None:
    with pytest.raises((ValueError, ZeroDivisionError)):
        stored_fraction(text)


def test_data_may_grow_by_a_factor_of_200_or_to_256_megabytes() -> None:
    check_growth("a file", 10, 1 << 28)
    check_growth("a file", 10**9, 200 * 10**9)
    assert most_bytes(10) == 1 << 28 and most_bytes(10**9) == 200 * 10**9
    with pytest.raises(InputError, match="a file would grow beyond 256 MiB"):
        check_growth("a file", 10, (1 << 28) + 1)
