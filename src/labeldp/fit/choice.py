"""The rule of `labeldp choose` and of the model "auto": what noise costs each way to fit a table, from public numbers.

With n labels without noise a learner goes the share n^p / (n^p + h^p) of the way from a constant answer to the best,
with h = half (K - 1) for K classes. Noise of variance v, in units of the labels' own, makes n labels worth n / (1 + v):

- local: v = a / sinh²(ε/2), with a = 1 for classes: the variance of a debiased answer of two equally frequent ones;
- sums: v = b / (n ε²), since one noise is spread over n records.

A restricted model gives up a share of the way, too. The loss is what is lacking to the local learner without noise; the
least loss comes first.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, log10, tanh
from pathlib import Path
from typing import Any

from labeldp.fit.settings import epsilon_of
from labeldp.learners import TRUSTS
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import Budget, InputError, Trust, check_integer, decimal, decimal_text, float_above

SOURCE = "docs/results/choose.md"

LEAST_RECORDS = 40
"""Fewer records cannot be split into those to learn from and those to be measured on."""

CATEGORICAL = 0.5
"""If more of the features are categories, a linear model of sums with a delta gives nothing up."""

LEAST_LEFT = 5
"""Fewer records than this without noise tell nothing."""

LEAST_SHARE = 0.15
"""The least share of the way from a constant answer to the best that an option is expected to go."""

ALIKE = 0.5
"""By fewer points than this local trust is no worse: it is ranked first, since it promises more."""

WIDEST = 20.0
"""An interval of more points than this says nothing: public numbers cannot tell."""

MOST_RECORDS, MOST_EPSILON = 10**12, 20.0
"""The most that a refusal suggests."""


@dataclass(frozen=True)
class LearningCurve:
    """How a score grows with the number of labels without noise, and how well that is known.

    Args:
        points: from a constant answer to the best, in percent of what a perfect answer has.
        half: with how many labels it goes half of the way; of K classes with K - 1 times as many.
        power: how fast it goes the other half.
        below, above: the ends of an interval for the loss, in units of the loss and a point.
    """

    points: float
    half: float
    power: float
    below: float
    above: float

    def share(self, labels: float, domain: Classes | Interval) -> float:
        """Return how far it goes from a constant answer to the best, in [0, 1)."""
        half = self.half * (domain.size - 1 if domain.target == "classes" else 1)
        return labels**self.power / (labels**self.power + half**self.power)


CURVES = {
    "classes": LearningCurve(65.0, 31.0, 0.92, 0.8, 2.33),
    "numbers": LearningCurve(38.0, 396.0, 0.51, 0.53, 1.6),
}
"""By what is learned; `benchmarks/choose.py constants` sets the numbers of curves and ways on half of its tables."""


@dataclass(frozen=True)
class Way:
    """One way to fit a table: a trust and a model of `labeldp fit`.

    Args:
        trust: "local" or "central".
        model: a name of `--model`.
        phrase: what it does, as the second half of a reason.
        noise: the constant a or b of the variance, by what is learned.
        given_up: the share of the way that the model gives up, by what is learned.
        delta: whether it spends a delta where there is one.
    """

    trust: str
    model: str
    phrase: str
    noise: Mapping[str, float]
    given_up: Mapping[str, float]
    delta: bool = False

    @property
    def name(self) -> str:
        """Trust and model; a ledger's runs are found by it, so that it never changes."""
        return f"{self.trust} {self.model}"

    def settings(self, delta: float) -> dict[str, Any]:
        """Return the settings of `labeldp fit` that it is, where so much delta may be spent."""
        return {"trust": self.trust, "model": self.model} | ({"delta": delta} if self.delta and delta else {})

    def admissible(self, trust: str) -> bool:
        """Return whether such trust allows it: who may see labels may also randomize them."""
        return trust == "central" or self.trust == "local"

    def left(self, records: int, domain: Classes | Interval, epsilon: float) -> float:
        """Return how many labels without noise tell as much as these."""
        noise, signal = self.noise[domain.target], records * epsilon**2
        if self.trust == "local":
            signal = tanh(epsilon / 2) ** 2
            noise *= 1 - signal
        return records * signal / (signal + noise)

    def share(self, curve: LearningCurve, records: int, domain: Classes | Interval, epsilon: float) -> float:
        """Return how far it goes from a constant answer to the best, in [0, 1)."""
        return (1 - self.given_up[domain.target]) * curve.share(self.left(records, domain, epsilon), domain)


WAYS = (
    Way(
        "local",
        "mixture",
        "each label is randomized once, and the best of several learners learns from all answers",
        {"classes": 1.0, "numbers": 1.06},
        {"classes": 0.0, "numbers": 0.0},
    ),
    Way(
        "central",
        "linear",
        "a linear model learns from one noisy sum over all records",
        {"classes": 713.0, "numbers": 1170.0},
        {"classes": 0.093, "numbers": 0.3},
        delta=True,
    ),
    Way(
        "central",
        "cells",
        "boosted trees learn from the noisy sums of many small cells of similar records",
        {"classes": 1390.0, "numbers": 6770.0},
        {"classes": 0.03, "numbers": 0.175},
    ),
)
"""Every way to fit a table."""


@dataclass(frozen=True)
class Expected:
    """How many points are expected to be lost to noise, with an interval.

    Args:
        score: of what: "AUC" or "accuracy" in percent, or "RMSE" in percent of the labels' standard deviation.
        value, low, high: the points.
    """

    score: str
    value: float
    low: float
    high: float

    @property
    def tells(self) -> bool:
        """Whether the interval is shown: intervals of numbers held too rarely on other tables."""
        return self.score != "RMSE" and self.high - self.low <= WIDEST

    @property
    def cost(self) -> str:
        """The value in words."""
        return f"noise costs {round(self.value)} point{'s' * (round(self.value) != 1)} of {self.score}"

    def __str__(self) -> str:
        if not self.tells:
            return "public numbers cannot tell what noise costs"
        return f"{self.cost} ({round(self.low)} to {round(self.high)})"


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
    """The command line that an option is: names of files and columns, and options that every way shares."""

    file: str = "DATA"
    label: str = "LABEL"
    options: tuple[str, ...] = ()
    epsilon: float | None = None

    def words(self, domain: Classes | Interval, epsilon: float, settings: Mapping[str, Any]) -> str:
        """Return the command with its options."""
        stem = Path(self.file).name.partition(".")[0]
        words = ["labeldp", "fit", self.file, "--label", self.label, *domain.options]
        words += ["--epsilon", decimal_text(epsilon if self.epsilon is None else self.epsilon)]
        for name, value in settings.items():
            words += [f"--{name}", decimal_text(value) if name == "delta" else value]
        words += [*self.options, "--ledger", f"{stem}.ledger", "--dataset", self.label, "--out", "model"]
        return shlex.join(words)


def score_of(domain: Classes | Interval) -> str:
    """Return the score of such labels; see `Expected`."""
    if domain.target == "numbers":
        return "RMSE"
    return "AUC" if domain.size == 2 else "accuracy"


def advise(
    records: int,
    dimension: int,
    domain: Domain,
    epsilon: Any,
    delta: Any = 0.0,
    trust: Any = "local",
    command: Command = Command(),
    categories: int = 0,
) -> Advice:
    """Rank the ways to fit a table from public numbers alone.

    The least expected loss comes first, but local trust does where it is worse by less than half a point.

    Args:
        records: how many.
        dimension: number of features.
        domain: the declared classes, or the range of numbers.
        epsilon: what may be spent.
        delta: what may be spent beside it.
        trust: "local" or "central", or a `Trust`; whoever may see labels may also randomize them.
        command: what the command lines of the options share.
        categories: how many of the features are categories.

    Raises:
        InputError: a number that is none, another domain or another trust.

    Source: `docs/results/choose.md`.
    """
    records, dimension = check_integer(records, "records"), check_integer(dimension, "dimension")
    if not isinstance(domain, Classes | Interval):
        raise InputError("must be Classes or an Interval", argument="domain")
    budget, trust = Budget(epsilon_of(epsilon), float_above(decimal(delta, "delta"))), trust_name(trust)
    task, curve = (records, domain, budget.epsilon), CURVES[domain.target]
    ways = [way for way in WAYS if way.admissible(trust)]
    if budget.delta and check_integer(categories, "categories", 0) > CATEGORICAL * dimension:
        ways = [replace(way, given_up={**way.given_up, "classes": 0.0}) if way.delta else way for way in ways]
    ways = [way for way in ways if learns(curve, way, *task)]
    options = [_option(way, records, domain, budget, command) for way in ways]
    options.sort(key=lambda option: option.expected.value - ALIKE * (option.settings["trust"] == "local"))
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


def loss(curve: LearningCurve, way: Way, records: int, domain: Classes | Interval, epsilon: float) -> float:
    """Return the points that a way is expected to lose to noise."""
    unit = curve.points * (1 - 1 / domain.size if domain.target == "classes" else 1)
    return unit * (curve.share(records, domain) - way.share(curve, records, domain, epsilon))


def expected(way: Way, records: int, domain: Classes | Interval, epsilon: float) -> Expected:
    """Return the points that a way is expected to lose to noise, with an interval."""
    curve = CURVES[domain.target]
    value = loss(curve, way, records, domain, epsilon)
    return Expected(score_of(domain), value, value - curve.below * (value + 1), value + curve.above * (value + 1))


def learns(curve: LearningCurve, way: Way, records: int, domain: Classes | Interval, epsilon: float) -> bool:
    """Return whether a way is expected to learn more than a constant."""
    left = way.left(records, domain, epsilon)
    enough = records >= LEAST_RECORDS and left >= LEAST_LEFT
    return enough and way.share(curve, records, domain, epsilon) >= LEAST_SHARE


def _option(way: Way, records: int, domain: Classes | Interval, budget: Budget, command: Command) -> Option:
    settings = way.settings(budget.delta)
    left = way.left(records, domain, budget.epsilon)
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
        task, curve = (records, domain, epsilon), CURVES[domain.target]
        return any(way.admissible(trust) and learns(curve, way, *task) for way in WAYS)

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
        "trust no method is expected to learn more than a constant answer"
        + (f"; {', or '.join(ways)} would do" if ways else "")
    )


def _first(enough: Callable[[float], bool], limit: float) -> float | None:
    """Return the first factor in steps of a tenth that is enough, None if none up to the most is."""
    factor = 1.1
    while factor <= limit:
        if enough(factor):
            return factor
        factor *= 1.1
    return None
