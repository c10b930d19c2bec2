"""labeldp account llp, lba: options and words. No data and no ledger is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from labeldp.cli.options import CommandGroup, add_options, flags_in_errors, json_option

LLP_EXAMPLES = """\b
Examples:
  labeldp account llp --size 72 --stddev 1 --range -1,1 --epsilon 1
  labeldp account llp --size 256 --noisy-fraction 0.1 --stddev 1 \\
      --range 0,253.78 --epsilon 1 \\
      --weights gaussian --noisy-set fixed
  labeldp account llp --size 256 --noisy-fraction 0.1 --stddev 1 \\
      --range 0,51 --delta 1e-5 --noisy-set fixed --n 1e5
  labeldp account llp --solve-for size --noisy-fraction 0.1 --stddev 4 \\
      --range -1,1 --epsilon 1 --delta 1e-6
"""

LBA_EXAMPLES = """\b
Examples:
  labeldp account lba --size 1024 --leverage 0.015 --residual 100 \\
      --range -1,1 --epsilon 1
  labeldp account lba --size 1024 --leverage 0.015 --range -1,1 \\
      --solve-for residual --epsilon 1 --delta 1e-6
  labeldp account lba --cross 4.6 --leverage 0.035 --residual 200 \\
      --rows 2 --range 0,10 --delta 1e-6 --json
"""


@dataclass(frozen=True)
class _Asked:
    """What a command is to find: a delta at an epsilon, an epsilon at a delta, or a parameter that keeps both."""

    epsilon: str | None
    delta: str | None
    solve_for: str | None

    def checked(self, unknowns: tuple[str, ...], values: dict[str, Any]) -> _Asked:
        """Return the question itself, after checking that its options go together."""
        from labeldp.privacy import InputError

        if self.solve_for is None:
            if (self.epsilon is None) == (self.delta is None):
                raise InputError("--epsilon prints the delta, --delta the epsilon: give one of them, or --solve-for")
        elif self.solve_for not in unknowns:
            raise InputError(f"--solve-for must be one of: {', '.join(unknowns)}")
        elif self.epsilon is None or self.delta is None:
            raise InputError("--solve-for needs --epsilon and --delta")
        for name in unknowns:
            if values.get(name) is not None and name == self.solve_for:
                raise InputError(f"--{name} is what is to be found: leave it out")
            if values.get(name) is None and name != self.solve_for:
                raise InputError(f"--{name} must be given")
        return self

    def found(self, bags: Any, delta_at: Callable[..., float], epsilon_at: Callable[[], float]) -> dict[str, Any]:
        """Return the numbers of the answer, for JSON."""
        epsilon = self.epsilon if self.epsilon is not None else epsilon_at()
        at = min(epsilon, 1e6) if isinstance(epsilon, float) else epsilon
        upper, lower = (delta_at(bags, at, end=end) for end in ("upper", "lower"))
        finite = float(epsilon) if math.isfinite(float(epsilon)) else None
        return {"epsilon": finite, "delta": upper, "delta_lower": lower, **bags.to_json()}

    def answer(self, numbers: dict[str, Any], value: float | None = None) -> str:
        """Return the first sentence of the answer, with its numbers rounded up."""
        from labeldp.privacy import rounded_up_text

        delta = rounded_up_text(numbers["delta"])
        if self.solve_for is not None and value is not None:
            smallest = f"{self.solve_for} = {rounded_up_text(value, 10 if self.solve_for == 'size' else 6)}"
            return f"{smallest} is the smallest that keeps epsilon = {self.epsilon} and delta = {self.delta}."
        if self.epsilon is not None:
            return f"delta = {delta} at epsilon = {self.epsilon}"
        if numbers["epsilon"] is None:
            return f"No finite epsilon keeps delta = {self.delta}"
        return f"epsilon = {rounded_up_text(numbers['epsilon'])} at delta = {self.delta}"


def _integer(text: str | None, name: str) -> int | None:
    """Parse a whole number, written as 256 or as 1e6; None stays None."""
    from labeldp.privacy import InputError, decimal

    if text is None:
        return None
    exact = decimal(text, name)
    if exact.denominator != 1:
        raise InputError("must be a whole number", argument=name)
    return exact.numerator


def _range(text: str) -> tuple[str, ...]:
    """Split a range into the texts of its two ends."""
    from labeldp.privacy import InputError

    ends = tuple(part.strip() for part in text.split(","))
    if len(ends) != 2:
        raise InputError("--range must be two numbers with a comma between them, such as 0,100")
    return ends


_shared = add_options(
    click.option("--range", "label_range", required=True, metavar="LOW,HIGH", help="The range of the labels."),
    click.option("--epsilon", metavar="NUMBER", help="Print the delta at this epsilon."),
    click.option("--delta", metavar="NUMBER", help="Print the epsilon at this delta."),
    json_option,
)
"""The options of both commands."""


@click.group(cls=CommandGroup)
def account() -> None:
    """Compute ε, δ for bag sums.

    No data is read.
    """


@account.command("llp", epilog=LLP_EXAMPLES)
@click.option("--size", metavar="NUMBER", help="Labels in a bag.")
@click.option("--noisy-fraction", metavar="NUMBER", help="The share of labels that have noise; 1 by default.")
@click.option("--stddev", metavar="NUMBER", help="Standard deviation of the noise on one label.")
@click.option("--weights", default="rademacher", show_default=True, metavar="NAME", help="rademacher (±1) or gaussian.")
@click.option(
    "--noisy-set",
    default="stratified",
    show_default=True,
    metavar="NAME",
    help="stratified (the same number in each bag) or fixed (one set, drawn before the bags).",
)
@click.option("--n", metavar="NUMBER", help="All labels: the exact law of a fixed set, as a certificate has it.")
@click.option("--solve-for", metavar="NAME", help="size, stddev or noisy-fraction: the smallest that keeps both.")
@_shared
@flags_in_errors(records="--n")
def llp(epsilon: str | None, delta: str | None, solve_for: str | None, as_json: bool, **options: str | None) -> None:
    """Account for bags with published weights and some noise.

    The guarantee is for every label that is in a bag. With --noisy-set fixed and without --n the number is the limit
    for infinitely many records, which no certificate may hold.
    """
    from labeldp.bags import NoisyBags, llp_calibrate, llp_delta, llp_epsilon

    share = options["noisy_fraction"] or (None if solve_for == "noisy-fraction" else "1")
    named = {"size": _integer(options["size"], "--size"), "stddev": options["stddev"], "noisy-fraction": share}
    query = _Asked(epsilon, delta, solve_for).checked(tuple(named), named)
    design: dict[str, Any] = {
        **{name.replace("-", "_"): value for name, value in named.items() if value is not None},
        "label_range": _range(options["label_range"] or ""),
        "weights": options["weights"],
        "noisy_set": options["noisy_set"],
        "records": _integer(options["n"], "--n"),
    }
    if solve_for is None:
        bags = NoisyBags(**design)
    else:
        bags = llp_calibrate(solve_for.replace("-", "_"), epsilon=epsilon, delta=delta, **design)
    numbers = query.found(bags, llp_delta, lambda: llp_epsilon(bags, delta))
    noisy, law = (None, "binomial limit") if bags.limit else (bags.noisy_per_bag, "exact")
    numbers |= {"noisy_each": noisy, "law": law}
    value = numbers[solve_for.replace("-", "_")] if solve_for else None
    click.echo(
        json.dumps(numbers, indent=2) if as_json else "\n".join([query.answer(numbers, value), *_llp_words(bags)])
    )


def _llp_words(bags: Any) -> list[str]:
    """Return sentences that describe the bags and the kind of number that was printed."""
    from labeldp.privacy import decimal_text, rounded_up_text

    low, high = (decimal_text(float(end)) for end in bags.label_range)
    lines = [
        f"For every label that is in a bag of {bags.size}: labels in [{low}, {high}], {bags.weights} weights,",
        f"noise of standard deviation {rounded_up_text(float(bags.stddev))} on {_noisy_words(bags)}.",
    ]
    if bags.limit:
        lines += ["The limit of infinitely many records, for no certificate; --n gives the exact law of so many."]
    elif bags.records is not None:
        lines += [f"The exact law of {bags.records} labels, of which the noisy ones are drawn before the bags are."]
    elif bags.noisy_per_bag is not None and bags.weights == "rademacher":
        lines += [f"A Gaussian loss with mu = {rounded_up_text(float(bags.ratio) / math.sqrt(bags.noisy_per_bag))}."]
    return lines


def _noisy_words(bags: Any) -> str:
    """Return in words how many labels are noisy; in the limit, which share."""
    from labeldp.privacy import decimal_text

    share = decimal_text(float(bags.fraction))
    if bags.limit:
        return f"a share of {share} of all labels"
    rounded = "" if bags.noisy == bags.fraction * bags.population else f", a share of {share} rounded down"
    return f"{bags.noisy} of {bags.population} labels{' of each bag' if bags.records is None else ''}{rounded}"


@account.command("lba", epilog=LBA_EXAMPLES)
@click.option("--size", metavar="NUMBER", help="Labels in a bag; it bounds --cross.")
@click.option("--leverage", required=True, metavar="NUMBER", help="The largest diagonal entry of a bag's hat matrix.")
@click.option("--cross", metavar="NUMBER", help="The largest sum of the other entries of a row, in absolute values.")
@click.option("--residual", metavar="NUMBER", help="A floor of the squared residual of the labels, in every bag.")
@click.option("--rows", default="1", show_default=True, metavar="NUMBER", help="Weight vectors for the same bag.")
@click.option("--solve-for", metavar="NAME", help="residual: the smallest floor that keeps both.")
@_shared
@flags_in_errors(residual_square="--residual")
def lba(epsilon: str | None, delta: str | None, solve_for: str | None, as_json: bool, **options: str | None) -> None:
    """Account for bags with secret weights.

    The guarantee holds on condition that the squared distance of a bag's labels from the span of its features never
    falls below --residual. Noise of that variance on each released sum of labels replaces the condition.
    """
    from labeldp.bags import HiddenBag, lba_delta, lba_required_residual
    from labeldp.privacy import decimal, rounded_up_text

    residual: Any = options["residual"]
    query = _Asked(epsilon, delta, solve_for).checked(("residual",), {"residual": residual})
    design: dict[str, Any] = {
        "leverage": options["leverage"],
        "cross": _cross(options),
        "label_range": _range(options["label_range"] or ""),
        "rows": _integer(options["rows"], "--rows"),
    }
    if solve_for is not None:
        residual = lba_required_residual(epsilon=epsilon, delta=delta, **design)
    bag = HiddenBag(residual, **design)
    numbers = query.found(bag, lba_delta, lambda: bag.privacy_loss().epsilon(delta))
    value = numbers["residual_square"] if solve_for else None
    low, high = (decimal(end, "label_range") for end in bag.label_range)
    size = _integer(options["size"], "--size")
    reachable = size is None or decimal(bag.residual_square, "residual_square") <= size * ((high - low) / 2) ** 2
    words = (_CONDITION if reachable else _NOISE).format(rounded_up_text(numbers["residual_square"]))
    click.echo(json.dumps(numbers, indent=2) if as_json else "\n".join([query.answer(numbers, value), words]))


_CONDITION = """On condition that the squared residual of a bag, which depends on labels, is never below {0};
or without a condition, with noise of variance {0} on each released sum of labels."""

_NOISE = """With noise of variance {0} on each released sum of labels; no bag of this size and range has such a squared
residual by itself."""


def _cross(options: dict[str, str | None]) -> str | float:
    """Return --cross, or its bound from --size."""
    from labeldp.bags import cross_bound
    from labeldp.privacy import InputError, decimal

    size = _integer(options["size"], "--size")
    if options["cross"] is not None:
        return options["cross"]
    if size is None:
        raise InputError("--cross must be given, or --size for a bound of it")
    return cross_bound(size, min(decimal(options["leverage"], "leverage"), decimal("0.5", "leverage")))
