"""What `labeldp online plan` prints: a plan for experts, in words."""

from contextlib import suppress
from textwrap import wrap
from typing import Any

from labeldp.online import Plan, plan_experts
from labeldp.privacy import InputError, all_digits, decimal, digits_above

WIDTH = 110
"""Of sentences, in characters."""


def plan_online(*, experts: Any, horizon: Any, epsilon: Any, delta: Any, **chosen: Any) -> Plan:
    """The plan for numbers as a command line has them, such as 1e5.

    Raises:
        InputError: an argument is out of range.
    """
    return plan_experts(count(experts, "experts", 2, 9), count(horizon, "horizon", 1, 12), epsilon, delta, **chosen)


def count(text: Any, name: str, least: int, digits: int) -> int:
    """A whole number as a command line has it, such as 1e5, from `least` to 10^digits.

    Raises:
        InputError: something else.
    """
    with suppress(InputError):
        exact = decimal(text, name)
        if exact.denominator == 1 and least <= exact <= 10**digits:
            return exact.numerator
    raise InputError(f"{name} must be a whole number from {least} to 10^{digits}, such as 1e5")


def online_plan_lines(plan: Plan) -> list[str]:
    """The lines that `labeldp online plan` prints."""

    def most(bound: float) -> str:
        return _amount(min(bound, plan.horizon))  # nobody loses more

    promise = f"epsilon = {all_digits(float(plan.epsilon))} and delta = {all_digits(float(plan.delta))}"
    asked = f"{plan.experts:,} experts, {plan.horizon:,} rounds, {promise}, where {plan.neighbors.value}."
    lines = [asked, "", *_parameters(plan)]
    lines += [
        f"Expected regret: at most {most(plan.regret_bound)}, {plan.holds}. Without privacy: at most "
        f"{most(plan.nonprivate_bound)}.",
        f"Expected changes of the expert: at most {_amount(plan.expected_switches)}.",
        "",
    ]
    rows = [["method", "regret at most", "holds"], [plan.method, most(plan.regret_bound), plan.holds]]
    rows += [[each.method, most(each.regret_bound), each.holds] for each in plan.alternatives]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [*lines, "", *(wrapped for note in _notes(plan) for wrapped in wrap(note, WIDTH))]


def _parameters(plan: Plan) -> list[str]:
    """What the learner is, with its numbers."""
    if plan.stddev is not None:
        noise = f"noise of standard deviation {digits_above(plan.stddev)}"
        return [f"Method: {plan.method}, rate eta = {float(plan.rate):.6g}, {noise}."]
    if plan.method == "doubling":
        return [f"Method: {plan.method}, rate eta = {float(plan.rate):.6g}: one draw for each of 1, 2, 4, … rounds."]
    return [
        f"Method: {plan.method}, batches of B = {plan.batch:,} rounds, rate eta = {float(plan.rate):.6g}, redraw "
        f"probability p = {float(plan.redraw):.6g}."
    ]


def _amount(number: float) -> str:
    """A bound in whole numbers, rounded up; small ones in three digits."""
    return f"{-int(-number // 1):,}" if number >= 100 else digits_above(number, 3)


def _notes(plan: Plan) -> list[str]:
    """What the numbers mean, and where they mean little."""
    notes = [
        "Regret is what is lost beyond the expert that is best over all rounds, with losses in [0, 1], in the mean "
        "over its own draws, for losses that do not follow what is played. Privacy holds for losses that do, too."
    ]
    if "doubling" in {plan.method, *(each.method for each in plan.alternatives)}:
        notes.append(
            "The bound of doubling is against the expert that is best on average, where all rounds are independent "
            "draws of one law. Where they are not, its regret can grow as fast as the number of rounds."
        )
    if plan.rounding_bound > plan.regret_bound / 100:
        finer = "" if plan.loss_bits == 16 else f"; with --loss-bits 16, {_amount(plan.horizon / 65535)}"
        notes.append(
            f"Losses are counted in steps of 1/{plan.levels:,}. Rounding finer ones can add "
            f"{_amount(plan.rounding_bound)} at worst{finer}; it hardly adds anything where roundings cancel."
        )
    if plan.vacuous:
        notes.append(
            f"This bound says nothing: nobody loses more than {plan.horizon:,} in {plan.horizon:,} rounds. It takes "
            "more rounds, fewer experts or a larger epsilon."
        )
    elif plan.regret_bound > plan.horizon / 10:
        notes.append(
            f"The bound is {plan.regret_bound / plan.horizon:.0%} of the largest loss that is possible: there is "
            "little to learn with so few rounds or so small an epsilon."
        )
    return notes
