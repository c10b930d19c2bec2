"""How many records show an effect: without privacy, with noisy sums, and with single noisy answers."""

from dataclasses import dataclass, replace
from functools import cache
from math import exp, expm1, sqrt
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtr

from labeldp.inference.estimate import LEVEL, check_level
from labeldp.inference.intervals import geometric_variance, normal_quantile
from labeldp.mechanisms import Interval, UnbiasedNumbers
from labeldp.privacy import InputError, check_choice, check_integer, check_positive

TRUSTS = ("none", "central", "local")


@dataclass(frozen=True)
class Power:
    """The power of an experiment with two arms.

    Args:
        records: in both arms together.
        power: probability that a two-sided test shows the effect.
        effect: the difference of shares, or of means.
        rate: the share, or the mean, without treatment.
        epsilon: of the release; None without privacy.
        trust: "none" is without privacy, "central" one release of both sums, "local" single answers.
        r_squared: which part of the variance public covariates explain.
        level: one minus the level of the test.
        treated: which part of the records is treated.
        spread: the standard deviation of a number; None of a share.
        low, high: the range of a number; None of a share.
        per_user: how many records a user has.
        correlation: of two records of a user.
    """

    records: int
    power: float
    effect: float
    rate: float
    epsilon: float | None
    trust: str
    r_squared: float = 0.0
    level: float = LEVEL
    treated: float = 0.5
    spread: float | None = None
    low: float | None = None
    high: float | None = None
    per_user: float = 1.0
    correlation: float = 0.0

    def __str__(self) -> str:
        private = "without privacy" if self.epsilon is None else f"{self.trust} trust at epsilon = {self.epsilon:g}"
        return (
            f"{self.records:,} records show an effect of {self.effect:.4g} on {self.outcome} with a "
            f"probability of {100 * self.power:.0f} % at a level of {100 * (1 - self.level):.3g} %: {private}"
        )

    @property
    def outcome(self) -> str:
        """What the effect is on, in words."""
        if self.spread is None:
            return f"a share of {self.rate:g}"
        return f"a mean of {self.rate:g} (standard deviation {self.spread:g})"

    @property
    def variance(self) -> float:
        """The variance of the difference of the arms.

        A record has the variance of the outcome that covariates do not explain, times the design effect of users: it
        grows with the records that a user has in one arm. One answer of two classes has the variance
        e^eps / (e^eps - 1)^2 beyond that, one sum that of geometric noise. An answer of a number has at most that of
        `UnbiasedNumbers` under any law with this mean and spread. Sums of numbers do not tell the spread, and
        `difference` takes the largest one that the range admits.

        Source: Kish for the design effect; BhatiaDavis for the largest variance.
        """
        total, design = 0.0, 1 + (self.per_user - 1) * self.correlation
        for mean, part in ((self.rate, 1 - self.treated), (self.rate + self.effect, self.treated)):
            size = self.records * part
            outcome = mean * (1 - mean) if self.spread is None else self.spread**2
            outcome *= (1 - self.r_squared) * design
            noise, width = 0.0, 1.0
            if self.low is not None and self.high is not None:
                width = self.high - self.low
            if self.epsilon is not None and self.trust == "local":
                if self.spread is None:
                    noise = exp(-self.epsilon) / expm1(-self.epsilon) ** 2
                else:
                    place = (mean - (self.low or 0.0)) / width
                    noise = width**2 * answer_variance(self.epsilon, place, self.spread / width)
            elif self.epsilon is not None:
                noise = width**2 * geometric_variance(self.epsilon / STEPS) / STEPS**2 / size
                if self.spread is None:
                    noise = geometric_variance(self.epsilon) / size
                elif self.low is not None and self.high is not None:
                    middle = (self.low + self.high) / 2
                    move = min(sqrt(noise / size), abs(middle - mean))
                    nearer = mean + (move if mean < middle else -move)
                    outcome = (nearer - self.low) * (self.high - nearer)
            total += (outcome + noise) / size
        return total

    @property
    def reached(self) -> float:
        """The probability that a test of this level shows the effect."""
        shift, bound = abs(self.effect) / sqrt(self.variance), normal_quantile(self.level)
        return float(ndtr(shift - bound) + ndtr(-shift - bound))


STEPS = 100
"""Into how many steps a range is divided."""


@cache
def answer_variances(epsilon: float) -> Any:
    """Return the variance of an answer about each number on a grid of [0, 1], shape (STEPS + 1,)."""
    return UnbiasedNumbers(domain=Interval(0, 1, grid=STEPS + 1), epsilon=epsilon).noise_variances


@cache
def answer_variance(epsilon: float, mean: float, spread: float) -> float:
    """Return the largest mean variance of an answer under a law on [0, 1] with this mean and standard deviation."""
    grid = np.linspace(0, 1, STEPS + 1)
    moments = np.stack([np.ones_like(grid), grid, (grid - mean) ** 2])
    slack = 0.25 / STEPS**2  # a law between grid points
    law = linprog(
        -answer_variances(epsilon),
        A_eq=moments[:2],
        b_eq=[1, mean],
        A_ub=[moments[2], -moments[2]],
        b_ub=[spread**2 + slack, slack - spread**2],
    )
    return float(-law.fun) if law.success else float(answer_variances(epsilon).max())


def power(
    effect: float | None,
    rate: float,
    *,
    epsilon: float | None = None,
    trust: str = "local",
    power: float | None = 0.8,
    records: int | None = None,
    treated: float = 0.5,
    domain: Any = None,
    spread: float | None = None,
    per_user: float = 1.0,
    correlation: float = 0.0,
    r_squared: float = 0.0,
    level: float = LEVEL,
) -> Power:
    """Return how many records an experiment needs, which power it has, or which effect it shows. Nothing is released.

    Args:
        effect: the difference of shares or means to be shown; None for the smallest increase that `records` show.
        rate: the share without treatment, in (0, 1), or the mean number.
        epsilon: of the release; leave it out for trust="none".
        trust: "none", "central" or "local".
        power: wanted probability; it is ignored where effect and records are given.
        records: in both arms together.
        treated: which part of the records is treated.
        domain: of numbers, `Interval(low, high)`; None for a share. Answers are those of `UnbiasedNumbers`.
        spread: the standard deviation of numbers.
        per_user: how many records a user has. All of them are in one arm, and each is answered with this epsilon.
        correlation: of two records of a user, from 0 to 1.
        r_squared: which part of the variance public covariates explain, in [0, 1).
        level: one minus the level of the test.

    Raises:
        InputError: shares or means outside of their range, no effect, or none that these records show; no epsilon; or
            users of several records with trust="central": sums do not tell whose records they are of.

    Examples:
        >>> power(0.02, 0.05, trust="none").records, power(0.02, 0.05, epsilon=1.0).records
        (4419, 76682)
        >>> round(power(None, 0.05, epsilon=1.0, records=76_682).effect, 4)
        0.02
    """
    check_choice(trust, "trust", TRUSTS)
    check_level(level)
    if (domain is None) != (spread is None):
        raise InputError("must be given for numbers, with their range, and be left out for a share", argument="spread")
    if domain is not None and not isinstance(domain, Interval):
        raise InputError("must be an Interval, such as Interval(0, 100)", argument="domain")
    low, high = (0.0, 1.0) if domain is None else (float(domain.low), float(domain.high))
    if not low < rate < high or not low < rate + (effect or 0) < high or effect == 0:
        raise InputError(f"must lie between {low:g} and {high:g}, with the effect and without it", argument="rate")
    largest = sqrt((rate - low) * (high - rate))
    if spread is not None and not 0 < spread <= largest:
        raise InputError(f"must be positive, and at most {largest:.4g} for this range and mean", argument="spread")
    if not 0 <= r_squared < 1:
        raise InputError("must lie in [0, 1)", argument="r_squared")
    if not 0 < treated < 1:
        raise InputError("must lie between 0 and 1, such as 0.5", argument="treated")
    if not per_user >= 1:
        raise InputError("must be at least 1", argument="per_user")
    if not 0 <= correlation <= 1:
        raise InputError("must lie in [0, 1]", argument="correlation")
    if per_user > 1 and trust == "central":
        raise InputError("must be 1 for 'central': sums do not tell whose records they are of", argument="per_user")
    if (trust == "none") != (epsilon is None):
        raise InputError("must be given for 'central' and 'local', and be left out for 'none'", argument="epsilon")
    cost = None if epsilon is None else check_positive(epsilon, "epsilon")
    count = 4 if records is None else check_integer(records, "records", 4)
    plan = Power(
        count, 0.0, effect or 0.0, rate, cost, trust, r_squared, level, treated, spread,
        low=None if domain is None else low, high=None if domain is None else high, per_user=per_user,
        correlation=correlation,
    )  # fmt: skip
    if effect is not None and records is not None:
        return replace(plan, power=plan.reached)
    if power is None or not 1 - level < power < 1:
        raise InputError("must lie between the level of the test and 1, such as 0.8", argument="power")
    plan = _with_records(plan, power) if effect is not None else _with_effect(plan, power, records, high - rate)
    return replace(plan, power=plan.reached)


def _with_records(plan: Power, wanted: float) -> Power:
    """Return the plan with the fewest records that have this power."""
    low, high = 4, 1 << 62
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if replace(plan, records=middle).reached >= wanted else (middle, high)
    fewest = replace(plan, records=low)
    return fewest if fewest.reached >= wanted else replace(plan, records=high)


def _with_effect(plan: Power, wanted: float, records: int | None, most: float) -> Power:
    """Return the plan with the smallest effect that has this power."""
    if records is None:
        raise InputError("must be given without an effect: the smallest one that they show is told", argument="records")
    low, high = 0.0, most * (1 - 1e-9)
    if replace(plan, effect=high).reached < wanted:
        cost = "without privacy" if plan.epsilon is None else f"at epsilon = {plan.epsilon:g}, {plan.trust}"
        raise InputError(f"must be more: no increase is shown with this probability {cost}", argument="records")
    while high - low > 1e-7 * most:
        middle = (low + high) / 2
        low, high = (low, middle) if replace(plan, effect=middle).reached >= wanted else (middle, high)
    return replace(plan, effect=high)
