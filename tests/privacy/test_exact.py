"""Decimals as they were written, the exponential between two fractions, and the border of a promise."""

import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from labeldp.privacy import (
    InputError,
    PrivacyLoss,
    decimal,
    decimal_text,
    exact,
    exp_bounds,
    float_above,
    float_below,
    largest,
    positive_epsilon,
    rounded_up_text,
    smallest,
    smallest_below,
    smallest_integer,
    smallest_positive,
)

EPSILONS = [str(round(value, 12)) for value in np.random.default_rng(1).exponential(8, 300)]
MORE = ["0", "-1", "1e-30", "-20.5", "700", "-700", "1000", "0.6931471805599453"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, "1/10"),
        (np.float32(0.1), "1/10"),
        (np.float64(0.3), "3/10"),
        (np.int64(2), "2"),
        (np.uint8(200), "200"),
        (3, "3"),
        ("0.1", "1/10"),
        (" 1e-6 ", "1/1000000"),
        (Decimal("0.25"), "1/4"),
        (Fraction(1, 3), "1/3"),
        (1e-300, f"1/{10**300}"),
    ],
)
def test_a_number_is_the_decimal_that_was_written(written: object, meant: str) -> None:
    exact = decimal(written, "epsilon")
    assert exact == Fraction(meant)
    assert type(exact.numerator) is type(exact.denominator) is int


@pytest.mark.parametrize("written", [True, np.True_, None, "one", "", "1/3", [1.0], 1j, object()])
def test_what_is_no_number_is_refused(written: object) -> None:
    with pytest.raises(InputError, match="epsilon must be a number"):
        decimal(written, "epsilon")


@pytest.mark.parametrize("written", [math.nan, math.inf, -math.inf, "nan", "sNaN", "Infinity", np.float32("inf")])
def test_what_is_not_finite_is_refused(written: object) -> None:
    with pytest.raises(InputError, match="delta must be finite"):
        decimal(written, "delta")


@pytest.mark.parametrize("written", ["1e999999999", "1e-999999999"])
def test_a_number_that_would_not_end_is_refused(written: str) -> None:
    with pytest.raises(InputError, match="epsilon must be a number of ordinary size"):
        decimal(written, "epsilon")


@pytest.mark.parametrize("written", [0, -1, 0.0, "-0.5", -1e-300])
def test_epsilon_is_positive(written: object) -> None:
    with pytest.raises(InputError, match="epsilon must be positive, such as epsilon=1"):
        positive_epsilon(written)


def test_epsilon_is_at_most_a_thousand() -> None:
    assert positive_epsilon(1000) == 1000
    with pytest.raises(InputError, match="epsilon must be at most 1000"):
        positive_epsilon("1000.0000001")


def test_ten_charges_of_a_tenth_are_one() -> None:
    assert (PrivacyLoss.pure(0.1) * 10).max_loss == 1
    assert (PrivacyLoss.pure(np.float32(0.1)) * 10).epsilon() == 1.0


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=1000))
def test_floats_around_a_fraction(value: Fraction) -> None:
    below, above = float_below(value), float_above(value)
    assert decimal(below, "epsilon") <= value <= decimal(above, "epsilon")
    assert above in (below, math.nextafter(below, math.inf))


@given(st.floats(min_value=1e-300, max_value=1e300), st.integers(1, 17))
def test_digits_are_never_below_the_number(value: float, digits: int) -> None:
    shown = float(rounded_up_text(value, digits))
    assert value <= shown <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)
    assert float(decimal_text(value)) == value


def test_digits_as_they_are_read() -> None:
    assert [rounded_up_text(x) for x in (1.0, 0.1, 1.0000001, 9.999999, 0.0, math.inf)] == [
        "1",
        "0.1",
        "1.00001",
        "10",
        "0",
        "inf",
    ]
    assert [decimal_text(x) for x in (1, 0.5, 1e-6, 0)] == ["1", "0.5", "1e-06", "0"]


@pytest.mark.guarantee("labeldp.privacy:exp_bounds", "enclosed")
@pytest.mark.parametrize("chunk", range(10))
def test_the_bounds_enclose_the_exponential(chunk: int) -> None:
    """Against the balls of another library, and within the stated gap."""
    ctx.prec = 400
    for text in EPSILONS[chunk::10] + MORE[chunk::10]:
        exponent = Fraction(text)
        low, high = exp_bounds(exponent)
        ball = (arb(exponent.numerator) / exponent.denominator).exp()
        assert arb(low.numerator) / low.denominator <= ball <= arb(high.numerator) / high.denominator or exponent == 0
        assert low <= high <= low * (1 + Fraction(1, 1 << 140))


def test_the_bounds_agree_with_fifty_digits() -> None:
    with mpmath.workdps(60):
        for text in EPSILONS[:60] + MORE:
            low, high = exp_bounds(Fraction(text), bits=220)
            exact = mpmath.exp(mpmath.mpf(text))
            for bound in (low, high):
                assert abs(mpmath.mpf(bound.numerator) / bound.denominator / exact - 1) < mpmath.mpf(10) ** -50


@given(st.fractions(min_value=-30, max_value=30), st.fractions(min_value=-30, max_value=30))
def test_the_bounds_multiply(a: Fraction, b: Fraction) -> None:
    low, high = (x * y for x, y in zip(exp_bounds(a), exp_bounds(b), strict=True))
    both = exp_bounds(a + b)
    assert low <= both[1] and both[0] <= high


@pytest.mark.parametrize("error", [Fraction(1, 1 << 40), -Fraction(1, 1 << 40)])
def test_a_logarithm_is_certified_from_both_sides(error: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = exact.log_bounds(Fraction(7, 3))
    assert exp_bounds(low)[1] <= Fraction(7, 3) <= exp_bounds(high)[0] and high - low == Fraction(1, 1 << 79)
    real, calls = exp_bounds, []

    def wrong(exponent: Fraction) -> tuple[Fraction, Fraction]:
        calls.append(exponent)
        low, high = real(exponent)
        return (low, high) if len(calls) == 1 else (low * (1 + error), high * (1 + error))

    monkeypatch.setattr(exact, "exp_bounds", wrong)
    with pytest.raises(ArithmeticError, match="could not be certified"):
        exact.log_bounds(Fraction(7, 3))


def test_the_logarithm_of_one_is_zero() -> None:
    assert exact.log_bounds(Fraction(1)) == (0, 0)


NUMBERS = st.floats(1e-6, 1e6)


def remembered(keeps: Callable[[float], bool], kept: set[float]) -> Callable[[float], bool]:
    """The same question, which remembers every number that keeps the promise."""

    def asked(number: float) -> bool:
        if keeps(number):
            kept.add(number)
        return number in kept

    return asked


@given(NUMBERS)
def test_smallest_keeps_and_is_within_the_tolerance(border: float) -> None:
    kept: set[float] = {2e6}
    found = smallest(remembered(lambda x: x >= border, kept), 0.0, 2e6, tol=1e-9)
    assert found in kept and border <= found <= border * (1 + 2e-9)
    kept = set()
    positive = smallest_positive(remembered(lambda x: x >= border, kept), tol=1e-9, limit=2.0**30)
    assert positive in kept and border <= positive <= border * (1 + 2e-9)


@given(NUMBERS)
def test_largest_keeps_and_is_within_the_tolerance(border: float) -> None:
    kept: set[float] = set()
    found = largest(remembered(lambda x: x <= border, kept), 0.0, 2e6, tol=1e-9)
    assert found in kept and border * (1 - 2e-9) <= found <= border


def test_where_nothing_or_everything_keeps_it() -> None:
    assert smallest(lambda _: False, 0.0, 8.0, tol=1e-3) == 8.0
    assert largest(lambda _: False, 0.0, 8.0, tol=1e-3, lowest=1e-6) == 0.0
    assert largest(lambda _: True, 0.0, 8.0, tol=1e-3) == pytest.approx(8.0, rel=1e-3)
    assert smallest_positive(lambda _: False, tol=1e-3, limit=64.0) is None
    assert smallest_integer(lambda _: False, 1, 100) is None
    assert smallest_integer(lambda _: True, 7, 100) == 7


@given(st.randoms(use_true_random=False), st.floats(0.5, 2))
def test_the_answer_keeps_it_even_where_rounding_blurs_the_border(coins: random.Random, border: float) -> None:
    blurred = {}

    def keeps(x: float) -> bool:
        return blurred.setdefault(x, x > border + coins.choice([-0.01, 0.01]))

    found = smallest_positive(keeps, tol=1e-6, limit=64.0)
    assert found is not None and blurred[found]


@pytest.mark.parametrize("border", [1, 2, 77, 100])
def test_integers(border: int) -> None:
    assert smallest_integer(lambda n: n >= border, 1, 100) == border


@pytest.mark.parametrize("target", [1e-3, 0.3, 0.9999])
def test_the_answer_on_a_curve_is_the_smallest_and_nothing_is_asked_twice(target: float) -> None:
    asked: list[float] = []

    def curve(x: float) -> float:
        asked.append(x)
        return math.exp(-x)

    found = smallest_below(curve, target, 1e-9, 1e6)
    assert found is not None and math.exp(-found) <= target < math.exp(-found * (1 - 1e-9))
    assert len(set(asked)) == len(asked) <= 16
    assert min(asked) > 1e-9 and max(asked) < 100


def test_ends_of_the_search_on_a_curve() -> None:
    assert smallest_below(lambda x: 1 / x, 1e12, 1e-9, 1e6) == 1e-9
    assert smallest_below(lambda x: 1 / x, 1e-6 * (1 + 1e-12), 1e-9, 1e6) == pytest.approx(1e6)
    assert smallest_below(lambda x: 1 / x, 1e-7, 1e-9, 1e6) is None
    assert smallest_below(lambda x: 2 - x, 1.0, 1e-9, 1.0) == 1.0
