"""Write numbers and names for readers: numbers rounded so as not to flatter, names without control characters."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from markupsafe import Markup

from labeldp.fit import BudgetUse, Estimated, RegressionSummary
from labeldp.learners import format_number

MINUS = "\N{MINUS SIGN}"

_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters, lone surrogates, and marks that reorder text, so that a name could change its sentence."""


def visible(value: Any) -> Any:
    """Replace control characters, lone surrogates and reordering marks by U+FFFD; keep line breaks and tabs.

    Markup, which is ours, and what is no text stay as they are.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)


def breakable(text: str) -> Markup:
    """Return a name such as RandomizedResponse as HTML that a line may break between its words."""
    return Markup("<wbr>").join(Markup.escape(word) for word in re.split(r"(?<=[a-z])(?=[A-Z])", visible(text)))


def fixed(value: float, digits: int) -> str:
    """Write a decimal with a true minus sign, and none before a rounded zero."""
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text.replace("-", MINUS)


def percent(share: float, digits: int = 1) -> str:
    """Write a share of 1 as a percentage."""
    return fixed(100 * share, digits) + "%"


def shortened(text: str, length: int) -> str:
    """Return a text on one line, cut to at most `length` characters."""
    plain = visible(" ".join(text.split()))
    return plain if len(plain) <= length else plain[: length - 1].rstrip() + "…"


def points(share: float) -> str:
    """Write a difference of shares in percentage points, without the unit."""
    return fixed(100 * share, 1)


def spent(loss: float) -> str:
    """Write a privacy loss with six digits, rounded up."""
    return _six_digits(loss, ROUND_CEILING)


def left(loss: float) -> str:
    """Write a remaining budget with six digits, rounded down."""
    return _six_digits(loss, ROUND_FLOOR)


def upward(margin: float) -> str:
    """Write a margin of error with two digits, rounded up."""
    return f"{Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(margin))).normalize():f}"


def _six_digits(loss: float, rounding: str) -> str:
    """Round to six digits, after dropping the thirteenth and later ones, which come from the binary representation."""
    decimal = Context(prec=12).create_decimal(repr(float(loss)))
    short = Context(prec=6, rounding=rounding).create_decimal(decimal).normalize()
    tiny = short != 0 and abs(short) < Decimal("0.0001")
    return f"{short:e}" if tiny else f"{short:f}"


def interval(estimate: Estimated) -> str:
    """Write the interval of a share, such as "85.1% to 87.7%"."""
    return f"{percent(estimate.low)} to {percent(estimate.high)}"


def verdict(gain: Estimated | None) -> str:
    """Return whether a model is better than its baseline: no more than the interval shows."""
    if gain is None:
        return "Not measured"
    return "Yes" if gain.low > 0 else "No" if gain.high < 0 else "Not significantly"


def difference(gain: Estimated | None) -> str:
    """Write the interval of a difference of shares in percentage points, with signs."""
    if gain is None:
        return ""
    low, high = (("+" if end > 0 else "") + points(end) for end in (gain.low, gain.high))
    return f"{low} to {high} points"


def comparison(gain: Estimated | None) -> str:
    """Compare model and baseline on the same records, and claim no more than the interval shows."""
    if gain is None:
        return ""
    level = f"{difference(gain)}, {percent(gain.level, 0)} CI"
    if gain.low <= 0 <= gain.high:
        return f"Not significantly better than the majority class (difference {level})."
    return f"{'Better' if gain.low > 0 else 'Worse'} than the majority class (difference {level})."


def signed(value: float) -> str:
    """Write a number in the unit of the labels, with a true minus sign."""
    digits, power, exponent = format_number(value).partition("e")
    scaled = f" × 10{exponent_of(int(exponent))}" if power else ""
    return digits.replace("-", MINUS) + scaled


def exponent_of(power: int) -> str:
    """Write an exponent in superscript digits."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def thousands(largest: float) -> int:
    """Return the power of ten, a multiple of 3, to write numbers up to `largest` in; 0 if they need none."""
    return 0 if largest == 0 or 1e-2 <= largest < 1e6 else 3 * math.floor(math.log10(largest) / 3)


def declared(value: float) -> str:
    """Write a declared number with up to twelve digits and with commas."""
    return f"{value:,.12g}".replace("-", MINUS)


def between(estimate: Estimated) -> str:
    """Write the interval of a number in the unit of the labels, such as "1.2 to 3.4"."""
    return f"{signed(estimate.low)} to {signed(estimate.high)}"


def against_the_mean(numbers: RegressionSummary) -> str:
    """Compare the squared errors of model and constant record by record, and claim no more than the interval shows."""
    gain = numbers.gain
    if gain.low <= 0 <= gain.high:
        return "Not significantly better than the mean on the same records."
    return f"{'Better' if gain.low > 0 else 'Worse'} than the mean on the same records."


def possible(estimate: Estimated) -> Estimated:
    """Clip an interval to [0, 1], and its share to the interval: after a correction for noise both may lie outside."""
    low, high = (min(1.0, max(0.0, end)) for end in (estimate.low, estimate.high))
    return replace(estimate, value=min(high, max(low, estimate.value)), low=low, high=high)


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def adds_up(budget: BudgetUse) -> bool:
    """Return whether the printed parts of the budget sum to the printed total."""
    parts = (budget.before, budget.run, budget.left)
    return abs(sum(part.epsilon for part in parts) - budget.total.epsilon) < 1e-5 * max(1.0, budget.total.epsilon)
