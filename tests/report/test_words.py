"""Numbers are rounded in the honest direction, and charts stay inside their frame."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.fit import BudgetUse, Confusion, CostRow, Curve, CurvePoint, Estimated
from labeldp.report import charts, svg, words
from labeldp.report import charts as matrix


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (1.0, "1", "1"),
        (0.25, "0.25", "0.25"),
        (0.1 + 0.2, "0.3", "0.3"),
        (2 / 3, "0.666667", "0.666666"),
        (1e-6, "1e-6", "1e-6"),
        (100.0, "100", "100"),
        (0.0, "0", "0"),
    ],
)
def test_a_loss_is_rounded_up_and_a_remainder_down(value: float, up: str, down: str) -> None:
    assert words.spent(value) == up
    assert words.left(value) == down


@given(st.floats(1e-12, 1e6))
def test_a_printed_loss_is_never_below_the_true_one(value: float) -> None:
    assert float(words.left(value)) <= value * (1 + 1e-11)
    assert float(words.spent(value)) >= value * (1 - 1e-11)
    assert math.isclose(float(words.spent(value)), value, rel_tol=1.1e-5)


def test_percentages_have_a_true_minus_and_no_negative_zero() -> None:
    assert words.percent(0.8637) == "86.4%"
    assert words.percent(-0.03) == "\N{MINUS SIGN}3.0%"
    assert words.percent(-0.0001) == "0.0%"
    assert words.upward(0.02741) == "0.028"
    assert words.upward(140.0) == "140"


def test_names_of_mechanisms_break_between_their_words() -> None:
    assert words.breakable("RandomizedResponse, ε = 2") == "Randomized<wbr>Response, ε = 2"
    assert words.breakable("<b>aB") == "&lt;b&gt;a<wbr>B"


def test_names_lose_what_could_rewrite_the_line() -> None:
    assert words.visible("a\x00b\u202ec\ud800d\te") == "a\ufffdb\ufffdc\ufffdd\te"
    assert words.visible("naïve 日本 👩‍🔬") == "naïve 日本 👩‍🔬"


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.02, 0.3, "Better than the majority class (difference +2.0 to +30.0 points"),
        (-0.3, -0.1, "Worse than the majority class"),
        (-0.1, 0.4, "Not significantly better than the majority class"),
    ],
)
def test_the_comparison_says_what_the_interval_allows(low: float, high: float, says: str) -> None:
    assert says in words.comparison(Estimated((low + high) / 2, low, high, 0.95, ""))
    assert words.comparison(None) == ""


@given(st.floats(0.0, 0.9), st.floats(1e-6, 1.0))
def test_ticks_are_few_round_and_inside(low: float, span: float) -> None:
    ticks = svg.round_ticks(low, low + span)
    assert 1 <= len(ticks) <= 6
    assert all(low - 1e-9 <= tick <= low + span + 1e-9 for tick in ticks)


def test_text_and_attributes_are_escaped() -> None:
    assert svg.tag("text", "<b>&", x='"') == '<text x="&#34;">&lt;b&gt;&amp;</text>'


@given(st.lists(st.tuples(st.floats(1e-3, 100), st.floats(-0.5, 1.5)), min_size=1, max_size=8))
def test_the_curve_stays_inside_its_frame(places: list[tuple[float, float]]) -> None:
    curve = Curve(tuple(CurvePoint(epsilon, share, share - 0.1, share + 0.1) for epsilon, share in places), "")
    chart = charts.curve_chart(curve, 1.0, Estimated(0.9, 0.7, 1.1, 0.95, ""), 0.5)
    for x, y in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', chart):
        assert charts.LEFT <= float(x) <= charts.RIGHT and charts.TOP <= float(y) <= charts.BOTTOM
    assert "nan" not in chart and "inf" not in chart


def test_the_budget_bar_fills_its_width_even_where_parts_exceed_the_whole() -> None:
    for total in (4.0, 1.0, 0.0):
        bar = charts.budget_bar(BudgetUse(CostRow(total), CostRow(1.0), CostRow(0.5), CostRow(0.25)))
        assert sum(map(float, re.findall(r' width="([\d.]+)"', bar))) <= 1000.1
    assert not words.adds_up(BudgetUse(CostRow(4.0), CostRow(1.0), CostRow(1.0), CostRow(1.5)))


def test_confused_pairs_are_sorted_and_marked_against_the_margin() -> None:
    confusion = Confusion(((0.3, 0.1, -0.02), (0.04, 0.2, 0.1), (0.0, 0.01, 0.27)), "", 0.05)
    pairs = matrix.most_confused(confusion, ("a", "b", "c"))
    assert [(pair.true, pair.predicted, pair.share) for pair in pairs] == [
        ("a", "b", 0.1),
        ("b", "c", 0.1),
        ("b", "a", 0.04),
        ("c", "b", 0.01),
    ]
    assert [pair.clear for pair in pairs] == [True, True, False, False]
    assert matrix.cells(confusion)[0][2].tint == 0.0 and matrix.cells(confusion)[0][0].tint == 1.0
