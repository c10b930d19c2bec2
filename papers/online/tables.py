"""What is measured in each table: exponents and bounds by formula, regret of learners."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, prod, sqrt
from statistics import fmean
from typing import Any

from labeldp.online import Regret, expected_weights, measured_regret
from labeldp.privacy import RandomSource, as_randomness
from papers.online.bounds import batch_lower_bound
from papers.online.data import RealLosses
from papers.online.learners import BLIND, Learner, learners
from papers.online.regret import Alternating, Epochs, Gap, LossSequence, Shift, Trap

SEQUENCES: dict[str, Callable[[int, int, int], LossSequence]] = {
    "iid-0.1": lambda rounds, experts, seed: Gap(rounds, experts, seed, 0.1),
    "iid-0.02": lambda rounds, experts, seed: Gap(rounds, experts, seed, 0.02),
    "ep10": lambda rounds, experts, seed: Epochs.of_length(rounds, experts, 10, seed),
    "ep100": lambda rounds, experts, seed: Epochs.of_length(rounds, experts, 100, seed),
    "shift": Shift,
    "trap": Trap,
    "alt100": lambda rounds, experts, seed: Alternating(rounds, experts, seed, 100),
}
"""Kinds of losses, made of rounds, experts and a seed."""

HARD, ADVERSARY = "hard", "adversary"
"""The adversary of Theorem 4.2, which depends on epsilon, too: mean regret at one size, and plays by T and epsilon."""

ADVERSARY_ROUNDS, ADVERSARY_POWERS = (10**4, 10**5), (1 / 2, 3 / 8, 1 / 4)
"""T, and a of epsilon = T^-a: the adversary is defined up to T^(-1/4)."""

LOWER_BOUND = "√T + T^(1/3)/ε^(2/3)"

EXCESSES = ((10**4, 0.1), (10**5, 0.1), (10**6, 0.1), (10**7, 0.01))
BOUNDED = ((10**4, 100), (10**5, 1000), (10**6, 1000), (10**6, 100_000))
HARD_EPSILONS, BOUNDED_EPSILONS, REAL_EPSILONS = (0.01, 0.03), (0.1, 1.0), (1.0, 4.0, 8.0)
PLAYS = 3
"""Of learners whose mean is not computed: so many are averaged."""


@dataclass(frozen=True)
class OnlinePoint:
    """One number of a table.

    Args:
        name: of a method, a bound or a curve.
        value: the regret, the exponent or the bound; of a method the mean over its coins.
        at: the place on an axis.
        bound: what a plan promises; 0 where there is none.
        played: the regret of one play of the kernel; None where it was not played.
        switches: of the actions in that play.
        setting: parameters, in words.
    """

    name: str
    value: float
    at: float = 0.0
    bound: float = 0.0
    played: float | None = None
    switches: int | None = None
    setting: str = ""


def exponents() -> list[OnlinePoint]:
    """Return Figure 1: β against α, panel by panel; where an exponent leaves 1/2 is its `bound`."""
    return [
        OnlinePoint(
            each.name, each.exponent(alpha, growth), alpha, free_until(each, growth), setting=f"{letter}: {each.source}"
        )
        for letter, setting, growth, _ in PANELS
        for each in bounds_of(setting)
        for alpha in ALPHAS
    ]


def bounds(rounds: int, experts: int, epsilon: float) -> list[OnlinePoint]:
    """Return Table 1 with constants of one, and the bounds that plans promise, with all constants and delta."""
    table = [
        OnlinePoint(each.name, each.value(rounds, experts, epsilon), setting=each.source) for each in bounds_of(EXPERTS)
    ]
    batch = min(max(1, round(1 / epsilon)), rounds)
    table.append(OnlinePoint("floor of batches of 1/ε", batch_lower_bound(experts, rounds, batch), setting="proven"))
    planned = [each for each in learners(experts, rounds, epsilon) if each.name != BLIND]
    return table + [OnlinePoint(each.name, min(each.bound, rounds), setting="planned") for each in planned]


def excess(rounds: int, epsilon: float) -> list[OnlinePoint]:
    """Return the cost of batches of 1/ε rounds where Proposition 3.3 has T B² η²: halves that alternate, two experts.

    Source: Asi, Proposition 3.3 and Theorem 3.10.
    """
    batch, rate = round(1 / epsilon), epsilon ** (2 / 3) * rounds ** (-1 / 3)
    losses = Alternating(rounds, 2, length=batch)
    slow, fast = (expected_weights(losses.blocks(), rate=rate, batch=each).regret for each in (batch, 1))
    setting = f"B = {batch}, η = {rate:.2e}"
    return [
        OnlinePoint("measured", slow - fast, setting=setting),
        OnlinePoint("η T B / 8", rate * rounds * batch / 8, setting=setting),
        OnlinePoint("claimed, T B² η²", rounds * (batch * rate) ** 2, setting=setting),
    ]


def regrets(data: str, rounds: int, experts: int, epsilon: float, seed: int, rng: RandomSource) -> list[OnlinePoint]:
    """Return the mean regret of every learner on one sequence of losses."""
    hard = data == HARD
    losses = Epochs.hard(rounds, experts, epsilon, seed) if hard else SEQUENCES[data](rounds, experts, seed)
    return [_mean(each, losses, seed, rng) for each in learners(experts, rounds, epsilon)]


def _mean(learner: Learner, losses: LossSequence | RealLosses, seed: int, rng: RandomSource) -> OnlinePoint:
    """Return the mean regret: exact where the marginals are known, else the mean of some plays."""
    if learner.expected is not None:
        value = learner.expected(losses.blocks(), seed).regret
    else:
        value = fmean(_played(learner, losses, rng).regret for _ in range(PLAYS))
    return OnlinePoint(learner.name, value, bound=learner.bound, setting=words(learner.parameters))


def _played(learner: Learner, losses: LossSequence | RealLosses, rng: RandomSource) -> Regret:
    """Play a kernel once."""
    assert learner.kernel is not None
    return measured_regret(learner.kernel(), losses.blocks(), rng=as_randomness(rng))


def real_regrets(losses: RealLosses, epsilon: float, seed: int, rng: RandomSource) -> list[OnlinePoint]:
    """Return the mean regret of every learner on real losses, and that of one play of its kernel."""
    rounds, experts = losses.levels.shape
    return _means_and_plays(losses, rounds, experts, epsilon, seed, rng)


def adversary_regrets(rounds: int, experts: int, epsilon: float, seed: int, rng: RandomSource) -> list[OnlinePoint]:
    """Return the lower bound of Theorem 4.2, and what its adversary costs every learner, in the mean and in one play.

    Source: Asi, Theorem 4.2.
    """
    bound = OnlinePoint(LOWER_BOUND, sqrt(rounds) + rounds ** (1 / 3) / epsilon ** (2 / 3))
    losses = Epochs.hard(rounds, experts, epsilon, seed)
    return [bound, *_means_and_plays(losses, rounds, experts, epsilon, seed, rng)]


def _means_and_plays(
    losses: LossSequence | RealLosses, rounds: int, experts: int, epsilon: float, seed: int, rng: RandomSource
) -> list[OnlinePoint]:
    """Return the mean regret of every learner, and that of one play of its kernel."""
    found = []
    for each in learners(experts, rounds, epsilon):
        point = _mean(each, losses, seed, rng)
        if each.kernel is not None:
            played = _played(each, losses, rng)
            point = replace(point, played=played.regret, switches=played.switches)
        found.append(point)
    return found


def words(parameters: dict[str, Any]) -> str:
    """Return parameters in words."""
    texts = {name: value if isinstance(value, str) else f"{value:.3g}" for name, value in parameters.items() if value}
    return ", ".join(f"{name} = {text}" for name, text in texts.items())


EXPERTS, CONVEX = "experts", "convex losses"
PRINTED, CORRECTED, KNOWN = "published", "corrected", "known"
"""Where a rate comes from: claimed for L2P, proven for L2P, or of other work."""


@dataclass(frozen=True)
class Monomial:
    """T^rounds · d^dimension · (ln d)^logs · epsilon^(−privacy)."""

    rounds: float
    dimension: float = 0.0
    logs: float = 0.0
    privacy: float = 0.0

    def value(self, rounds: float, dimension: float, epsilon: float) -> float:
        """Return the value with a constant of one."""
        powers = (rounds, self.rounds), (dimension, self.dimension), (log(dimension), self.logs)
        return prod(base**power for base, power in powers) / epsilon**self.privacy

    def exponent(self, alpha: float, growth: float) -> float:
        """Return the exponent of T, where epsilon = T^−alpha and d = T^growth."""
        return self.rounds + growth * self.dimension + alpha * self.privacy


@dataclass(frozen=True)
class Bound:
    """A regret: the smallest of some sums, without constants and without logarithms of T and 1/delta.

    Args:
        name: whose.
        setting: `EXPERTS` or `CONVEX`.
        source: `PRINTED`, `CORRECTED` or `KNOWN`.
        ways: sums of monomials, of which one may choose the smallest.
    """

    name: str
    setting: str
    source: str
    ways: tuple[tuple[Monomial, ...], ...]

    def value(self, rounds: float, dimension: float, epsilon: float) -> float:
        """Return the value with constants of one, never above T: that much has every learner."""
        sums = [sum(each.value(rounds, dimension, epsilon) for each in way) for way in self.ways]
        return min(rounds, *sums)

    def exponent(self, alpha: float, growth: float) -> float:
        """Return β of a regret T^β, where epsilon = T^−alpha and d = T^growth."""
        return min(1.0, *(max(each.exponent(alpha, growth) for each in way) for way in self.ways))


def _bound(name: str, setting: str, source: str, *ways: Monomial) -> Bound:
    """Return the regret without privacy, and what privacy adds in the best of some ways."""
    free = Monomial(1 / 2, logs=1 / 2) if setting == EXPERTS else Monomial(1 / 2)
    return Bound(name, setting, source, tuple((free, way) for way in ways) or ((free,),))


def _sum(name: str, setting: str, source: str, *terms: Monomial) -> Bound:
    """Return the regret without privacy, and all that privacy adds."""
    return Bound(name, setting, source, ((Monomial(1 / 2), *terms),))


BOUNDS = (
    _bound("without privacy", EXPERTS, KNOWN),
    _bound("tree noise", EXPERTS, KNOWN, Monomial(0, 1 / 2, 1, 1)),
    _bound("lazy, before", EXPERTS, KNOWN, Monomial(1 / 3, 0, 1, 1), Monomial(2 / 5, 0, 1, 4 / 5)),
    _bound("L2P", EXPERTS, PRINTED, Monomial(1 / 3, 0, 1, 2 / 3)),
    _bound("L2P", EXPERTS, CORRECTED, Monomial(1 / 3, 0, 1, 1), Monomial(2 / 5, 0, 4 / 5, 3 / 5)),
    _bound("redraw", EXPERTS, KNOWN, Monomial(1 / 2, 0, 3 / 4, 1 / 2)),
    _bound("without privacy", CONVEX, KNOWN),
    _bound("DP-FTRL", CONVEX, KNOWN, Monomial(1 / 2, 1 / 4, 0, 1 / 2)),
    _sum("lazy, before", CONVEX, KNOWN, Monomial(1 / 3, 1 / 2, 0, 1), Monomial(3 / 8, 1 / 2, 0, 3 / 4)),
    _bound("L2P", CONVEX, PRINTED, Monomial(1 / 3, 1 / 2, 0, 2 / 3)),
    # √(TB) + √d T^(1/3)/(εB^(1/3)) with the best B from 1 to 1/ε; logarithms were not followed
    _sum("L2P", CONVEX, CORRECTED, Monomial(2 / 5, 3 / 10, privacy=3 / 5), Monomial(1 / 3, 1 / 2, privacy=2 / 3)),
)
"""Table 1, with footnote 2, the corrected rates, and the plain redraw in every batch."""

PANELS = (("a", CONVEX, 0.0, "d = polylog T"), ("b", CONVEX, 1 / 3, "d = T^(1/3)"), ("c", EXPERTS, 1.0, "d = T"))
"""Of Figure 1: letter, setting, and how d grows with T."""

ALPHAS = tuple(step / 60 for step in range(61))


def bounds_of(setting: str) -> tuple[Bound, ...]:
    """Return every regret of a setting."""
    return tuple(each for each in BOUNDS if each.setting == setting)


def free_until(bound: Bound, growth: float) -> float:
    """Return the largest α of ε = T^−α at which the exponent is still 1/2, as without privacy; −1 for none."""
    low, high = -1.0, 1.0
    if bound.exponent(high, growth) <= 0.5:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if bound.exponent(middle, growth) <= 0.5 + 1e-12 else (low, middle)
    return low
