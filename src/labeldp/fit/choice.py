"""What every way to fit a table is expected to reach, from public numbers alone: the rule of `labeldp choose`."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import ceil, floor, log10, sqrt, tanh
from pathlib import Path
from typing import Any

from labeldp.fit.settings import domain_words, epsilon_of
from labeldp.learners import TRUSTS
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import Budget, InputError, Trust, check_integer, decimal, decimal_text, float_above

SCORES = {"two classes": "AUC", "classes": "accuracy", "numbers": "error"}
"""What is expected, by the kind of labels: the area under the ROC curve or accuracy, in percent, or the root mean
squared error as a share of that of always answering the mean."""

SOURCE = "docs/results/choose.md"

LEAST_RECORDS = 40
"""Fewer records cannot be split into those to learn from and those to be measured on."""

LEAST_LEFT = 5
"""Fewer records than this without noise tell nothing."""

LEAST_GAIN = {"AUC": 5.0, "accuracy": 5.0, "error": 0.98}
"""What a way must be expected to give: points above a constant answer, or such an error."""

ALIKE = {"AUC": 0.5, "accuracy": 0.5, "error": 0.01}
"""By less than this local trust is no worse: it is ranked first, since it promises more."""

MOST_RECORDS, MOST_EPSILON = 10**12, 20.0
"""The most that a refusal suggests."""


@dataclass(frozen=True)
class LearningCurve:
    """How a score grows with the records that noise leaves.

    Records with noise tell as much as fewer records without. With `left` of those, a method reaches the share
    1 / (1 + (half / left)^power) of the way from a constant answer to the best that it can give.

    Args:
        low, top, high: the best that it can give: the least, the mean and the most of some tables; 0 is a constant
            answer and 1 the best there can be. For numbers the share of the squared error that is explained.
        half: with how many records without noise it goes half of the way.
        power: how fast it goes the other half.
        noise: of sums: the number of records that noise at epsilon = 1 costs; None where each label is randomized.
        excess: of numbers: by how much the squared error is above that of the mean where nothing is learned.
    """

    low: float
    top: float
    high: float
    half: float
    power: float
    noise: float | None = None
    excess: float = 0.0

    def left(self, records: int, epsilon: float) -> float:
        """Return how many records without noise tell as much as these."""
        if self.noise is None:
            return records * tanh(epsilon / 2) ** 2
        signal = records * epsilon**2
        return records * signal / (signal + self.noise)

    def share(self, records: int, epsilon: float) -> float:
        """Return how far it goes from a constant answer to the best, in (0, 1)."""
        reached = self.left(records, epsilon) ** self.power
        return reached / (reached + self.half**self.power)


@dataclass(frozen=True)
class Way:
    """One way to fit a table: a trust and a model of `labeldp fit`.

    Args:
        trust: "local" or "central".
        model: a name of `--model`.
        phrase: what it does, as the second half of a reason.
        curves: what it is expected to reach, by the kind of labels that it learns.
        delta: whether it spends a delta where there is one.
    """

    trust: str
    model: str
    phrase: str
    curves: Mapping[str, LearningCurve]
    delta: bool = False

    @property
    def name(self) -> str:
        """Trust and model; a ledger's runs are found by it, so that it never changes."""
        return f"{self.trust} {self.model}"

    def settings(self, delta: float) -> dict[str, Any]:
        """Return the settings of `labeldp fit` that it is, where so much delta may be spent."""
        return {"trust": self.trust, "model": self.model} | ({"delta": delta} if self.delta and delta else {})

    def admissible(self, domain: Classes | Interval, trust: str) -> bool:
        """Return whether it learns such labels under such trust: who may see labels may also randomize them."""
        return kind_of(domain) in self.curves and (trust == "central" or self.trust == "local")


WAYS = (
    Way(
        "local",
        "auto",
        "each label is randomized once, and the best of several learners learns from all answers",
        {
            "two classes": LearningCurve(0.214, 0.64, 0.99, 4.98, 0.599),
            "classes": LearningCurve(0.24, 0.688, 0.99, 162, 0.671),
            "numbers": LearningCurve(0.297, 0.614, 0.955, 9.39, 0.38, None, 1.54),
        },
    ),
    Way(
        "local",
        "linear",
        "each label is randomized once, and a linear model with a prior learns from all answers",
        {
            "two classes": LearningCurve(0.182, 0.614, 0.99, 7.41, 0.542),
            "classes": LearningCurve(0.192, 0.648, 0.99, 259, 0.711),
        },
    ),
    Way(
        "central",
        "linear",
        "a linear model learns from one noisy sum over all records",
        {
            "two classes": LearningCurve(0.231, 0.654, 0.99, 8.42, 0.408, 501),
            "classes": LearningCurve(0.195, 0.65, 0.99, 88.6, 0.386, 799),
            "numbers": LearningCurve(0.143, 0.46, 0.801, 9.44, 0.319, 4300, 0.468),
        },
        delta=True,
    ),
    Way(
        "central",
        "cells",
        "boosted trees learn from the noisy sums of many small cells of similar records",
        {
            "two classes": LearningCurve(0.2, 0.629, 0.99, 98.8, 1.8, 619),
            "classes": LearningCurve(0.2, 0.654, 0.99, 52.7, 0.458, 4450),
            "numbers": LearningCurve(0.229, 0.546, 0.887, 23, 0.309, 23700, 0.213),
        },
    ),
)
"""Every way to fit a table; `benchmarks/choose.py --constants` sets the numbers on half of its tables."""


@dataclass(frozen=True)
class Expected:
    """A score that is expected, and between what it was, on average, on the tables that the rule was made from.

    Args:
        score: "AUC" or "accuracy", in percent, or "error": the root mean squared error as a share of that of always
            answering the mean.
        value, low, high: the score.
    """

    score: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 2 if self.score == "error" else 0
        name, unit = ("RMSE", " times that of the mean") if self.score == "error" else (self.score, " %")
        value, low, high = (f"{number:.{digits}f}" for number in (self.value, self.low, self.high))
        return f"{name} {value}{unit} ({low} to {high})"


@dataclass(frozen=True)
class Option:
    """One way to fit these records, and what to expect of it.

    Args:
        method: its name: trust and model.
        settings: of `labeldp fit`: trust, model, and a delta where one is spent.
        expected: the score.
        why: the reason, a sentence.
        source: the page of results that it rests on.
        command: the command line.
    """

    method: str
    settings: Mapping[str, Any]
    expected: Expected
    why: str
    source: str
    command: str


@dataclass(frozen=True)
class Advice:
    """What to take, best first.

    Args:
        records, dimension: how many records and features the advice is for.
        options: every way that is expected to learn more than a constant.
        remedy: where there is none, a sentence on what would help; else "".
        rehearsed: on how many records the order was rehearsed; 0 where it was not.
    """

    records: int
    dimension: int
    options: tuple[Option, ...]
    remedy: str = ""
    rehearsed: int = 0

    @property
    def best(self) -> Option:
        """The first option.

        Raises:
            InputError: there is none; it says what would help.
        """
        if not self.options:
            raise InputError(f": {self.remedy}", argument="epsilon")
        return self.options[0]

    def to_json(self) -> dict[str, Any]:
        """Return the advice as a JSON object."""
        return {"version": 1, **asdict(self), "options": [asdict(option) for option in self.options]}


@dataclass(frozen=True)
class Command:
    """The command line that an option is: names of files and columns, and options that every way shares.

    Args:
        file, label: names of the file and of the private column.
        options: more of them.
        epsilon: what is paid, where the advice is for another one; None where it is not.
    """

    file: str = "DATA"
    label: str = "LABEL"
    options: tuple[str, ...] = ()
    epsilon: float | None = None

    def words(self, domain: Classes | Interval, epsilon: float, settings: Mapping[str, Any]) -> str:
        """Return the command with its options."""
        stem = Path(self.file).name.partition(".")[0]
        words = ["labeldp", "fit", self.file, "--label", self.label, *domain_words(domain)]
        words += ["--epsilon", decimal_text(epsilon if self.epsilon is None else self.epsilon)]
        for name, value in settings.items():
            words += [f"--{name}", decimal_text(value) if name == "delta" else value]
        words += [*self.options, "--ledger", f"{stem}.ledger", "--dataset", self.label, "--out", "model"]
        return shlex.join(words)


def kind_of(domain: Classes | Interval) -> str:
    """Return what labels are, as far as the rule is concerned: a key of `SCORES`."""
    if domain.target == "numbers":
        return "numbers"
    return "two classes" if domain.size == 2 else "classes"


def advise(
    records: int,
    dimension: int,
    domain: Domain,
    epsilon: Any,
    delta: Any = 0.0,
    trust: Any = "local",
    command: Command = Command(),
) -> Advice:
    """Rank the ways to fit a table from public numbers alone.

    The best expected score comes first, but local trust does where it is worse by less than half a point, or a
    hundredth of an error.

    Args:
        records: how many.
        dimension: number of features.
        domain: the declared classes, or the range of numbers.
        epsilon: what may be spent.
        delta: what may be spent beside it.
        trust: "local" or "central", or a `Trust`; whoever may see labels may also randomize them.
        command: what the command lines of the options share.

    Raises:
        InputError: a number that is none, another domain or another trust.

    Source: `docs/results/choose.md`.
    """
    records, dimension = check_integer(records, "records"), check_integer(dimension, "dimension")
    if not isinstance(domain, Classes | Interval):
        raise InputError("must be Classes or an Interval", argument="domain")
    budget, trust = Budget(epsilon_of(epsilon), float_above(decimal(delta, "delta"))), trust_name(trust)
    ways = [way for way in WAYS if way.admissible(domain, trust)]
    options = [_option(way, records, domain, budget, command) for way in ways if _enough(way, records, domain, budget)]
    options.sort(key=_rank)
    remedy = "" if options else _remedy(records, domain, budget, trust)
    return Advice(records, dimension, tuple(options), remedy)


def trust_name(trust: Any) -> str:
    """Return "local" or "central".

    Raises:
        InputError: another trust.
    """
    name = trust.name.lower() if isinstance(trust, Trust) else trust
    if name not in TRUSTS:
        raise InputError(f"must be {' or '.join(TRUSTS)}", argument="trust")
    return str(name)


def expected(way: Way, records: int, domain: Classes | Interval, epsilon: float) -> Expected:
    """Return the score that a way is expected to reach, between its least and its most."""
    kind = kind_of(domain)
    curve = way.curves[kind]
    share = curve.share(records, epsilon)
    if domain.target == "numbers":

        def error(best: float) -> float:
            return sqrt(max(1 - best * share + curve.excess * (1 - share), 0.0))

        return Expected(SCORES[kind], error(curve.top), error(curve.high), error(curve.low))
    constant = _constant(domain)
    value, low, high = (constant + (100 - constant) * share * best for best in (curve.top, curve.low, curve.high))
    return Expected(SCORES[kind], value, low, high)


def _constant(domain: Domain) -> float:
    """Return the AUC or the accuracy of a constant answer, where classes are equally frequent."""
    return 50.0 if domain.size == 2 else 100 / domain.size


def _rank(option: Option) -> float:
    """Return what options are sorted by: the score, and that local trust guarantees more."""
    score = option.expected
    bonus = ALIKE[score.score] * (option.settings["trust"] == "local")
    return score.value - bonus if score.score == "error" else -score.value - bonus


def _enough(way: Way, records: int, domain: Classes | Interval, budget: Budget) -> bool:
    """Return whether a way is expected to learn more than a constant."""
    if records < LEAST_RECORDS or way.curves[kind_of(domain)].left(records, budget.epsilon) < LEAST_LEFT:
        return False
    result = expected(way, records, domain, budget.epsilon)
    if domain.target == "numbers":
        return result.value <= LEAST_GAIN["error"]
    return result.value >= _constant(domain) + LEAST_GAIN[result.score]


def _option(way: Way, records: int, domain: Classes | Interval, budget: Budget, command: Command) -> Option:
    """Return a way as an option for these records."""
    settings = way.settings(budget.delta)
    left = way.curves[kind_of(domain)].left(records, budget.epsilon)
    return Option(
        way.name,
        settings,
        expected(way, records, domain, budget.epsilon),
        f"{records:,} noisy labels carry as much information as about {rounded(left):,} clean labels: {way.phrase}.",
        SOURCE,
        command.words(domain, budget.epsilon, settings),
    )


def rounded(count: float) -> int:
    """Return a count in two digits, at least 1."""
    if count < 1:
        return 1
    unit = 10 ** max(floor(log10(count)) - 1, 0)
    return round(count / unit) * unit


def _remedy(records: int, domain: Classes | Interval, budget: Budget, trust: str) -> str:
    """Return what would make a way admissible: more records, more epsilon, or another trust."""

    def enough(records: int, epsilon: float, trust: str) -> bool:
        spent = Budget(epsilon, budget.delta)
        return any(way.admissible(domain, trust) and _enough(way, records, domain, spent) for way in WAYS)

    ways = []
    more = _first(lambda factor: enough(ceil(records * factor), budget.epsilon, trust), MOST_RECORDS / records)
    if more:
        ways.append(f"about {rounded(records * more):,} records")
    more = _first(lambda factor: enough(records, budget.epsilon * factor, trust), MOST_EPSILON / budget.epsilon)
    if more:
        ways.append(f"epsilon = {budget.epsilon * more:.2g}")
    if trust == "local" and enough(records, budget.epsilon, "central"):
        ways.append("central trust")
    return (
        f"nothing admissible is left: with {records:,} records, epsilon = {decimal_text(budget.epsilon)} and {trust} "
        f"trust no method is expected to learn more than a constant answer; {', or '.join(ways)} would do"
    )


def _first(enough: Callable[[float], bool], limit: float) -> float | None:
    """Return the first factor in steps of a tenth that is enough, None if none up to the most is."""
    factor = 1.1
    while factor <= limit:
        if enough(factor):
            return factor
        factor *= 1.1
    return None
