"""How many records show an effect: without privacy, with noisy sums, and with single noisy answers."""

from dataclasses import dataclass
from math import exp, expm1, sqrt

from scipy.special import ndtr

from labeldp.inference.estimate import LEVEL, check_level
from labeldp.inference.intervals import geometric_variance, normal_quantile
from labeldp.privacy import InputError, check_choice, check_integer, check_positive

TRUSTS = ("none", "central", "local")


@dataclass(frozen=True)
class Power:
    """The power of an experiment with two arms of equal size and a binary outcome.

    Args:
        records: in both arms together.
        power: probability that a two-sided test shows the effect.
        effect: the difference of shares.
        rate: the share without treatment.
        epsilon: of the release; None without privacy.
        trust: "none" is without privacy, "central" one release of both sums, "local" single answers.
        r_squared: which part of the variance public covariates explain.
        level: one minus the level of the test.
    """

    records: int
    power: float
    effect: float
    rate: float
    epsilon: float | None
    trust: str
    r_squared: float = 0.0
    level: float = LEVEL

    def __str__(self) -> str:
        private = "without privacy" if self.epsilon is None else f"{self.trust} trust at epsilon = {self.epsilon:g}"
        return (
            f"{self.records:,} records show an effect of {self.effect:g} on a share of {self.rate:g} with a "
            f"probability of {100 * self.power:.0f} % at a level of {100 * (1 - self.level):g} %: {private}"
        )


def power(
    effect: float,
    rate: float,
    *,
    epsilon: float | None = None,
    trust: str = "local",
    power: float | None = 0.8,
    records: int | None = None,
    r_squared: float = 0.0,
    level: float = LEVEL,
) -> Power:
    """Return how many records an experiment needs, or with `records` which power it has. Nothing is released.

    Args:
        effect: the difference of shares to be shown.
        rate: the share without treatment, in (0, 1).
        epsilon: of the release; leave it out for trust="none".
        trust: "none", "central" or "local".
        power: wanted probability; it is ignored where records are given.
        records: in both arms together.
        r_squared: which part of the variance public covariates explain, in [0, 1).
        level: one minus the level of the test.

    Raises:
        InputError: shares outside of (0, 1), no effect, or no epsilon.

    Examples:
        >>> power(0.02, 0.05, trust="none").records, power(0.02, 0.05, epsilon=1.0).records
        (4419, 76682)
    """
    check_choice(trust, "trust", TRUSTS)
    check_level(level)
    if not 0 < rate < 1 or not 0 < rate + effect < 1 or not effect:
        raise InputError("must lie between 0 and 1, with the effect and without it", argument="rate")
    if not 0 <= r_squared < 1:
        raise InputError("must lie in [0, 1)", argument="r_squared")
    if (trust == "none") != (epsilon is None):
        raise InputError("must be given for 'central' and 'local', and be left out for 'none'", argument="epsilon")
    cost = None if epsilon is None else check_positive(epsilon, "epsilon")

    def reached(count: float) -> float:
        deviation = sqrt(effect_variance(count, effect, rate, cost, trust, r_squared))
        bound = normal_quantile(level)
        return float(ndtr(abs(effect) / deviation - bound) + ndtr(-abs(effect) / deviation - bound))

    if records is not None:
        count = check_integer(records, "records", 4)
        return Power(count, reached(count), effect, rate, cost, trust, r_squared, level)
    if power is None or not 1 - level < power < 1:
        raise InputError("must lie between the level of the test and 1, such as 0.8", argument="power")
    low, high = 4, 1 << 62
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    count = low if reached(low) >= power else high
    return Power(count, reached(count), effect, rate, cost, trust, r_squared, level)


def effect_variance(
    records: float, effect: float, rate: float, epsilon: float | None, trust: str, r_squared: float
) -> float:
    """Return the variance of a difference of shares of two arms of equal size.

    One answer has the variance e^eps / (e^eps - 1)^2 beyond that of the outcome; one sum has that of geometric noise.
    """
    arm = records / 2
    outcome = sum(share * (1 - share) for share in (rate, rate + effect)) * (1 - r_squared)
    if epsilon is None:
        return outcome / arm
    if trust == "local":
        answer = exp(-epsilon) / expm1(-epsilon) ** 2
        return (outcome + 2 * answer) / arm
    return outcome / arm + 2 * geometric_variance(epsilon) / arm**2
