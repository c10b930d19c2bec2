"""What is measured in each table on online learning: exponents, bounds, excess of batches, regret."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from labeldp.online import (
    Alternating,
    Epochs,
    Gap,
    LossSequence,
    Regret,
    Shift,
    Trap,
    batch_lower_bound,
    expected_weights,
    measured_regret,
)
from labeldp.privacy import as_randomness
from labeldp.workflows.reproduce.online_data import RealLosses
from labeldp.workflows.reproduce.online_methods import BLIND, Learner, learners
from labeldp.workflows.reproduce.online_rates import ALPHAS, EXPERTS, PANELS, bounds_of, free_until

Rng = Any

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

HARD = "hard"
"""The adversary of Theorem 4.2, which depends on epsilon, too."""

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
    """Figure 1: β against α, panel by panel; where an exponent leaves 1/2 is its `bound`."""
    return [
        OnlinePoint(
            each.name, each.exponent(alpha, growth), alpha, free_until(each, growth), setting=f"{letter}: {each.source}"
        )
        for letter, setting, growth, _ in PANELS
        for each in bounds_of(setting)
        for alpha in ALPHAS
    ]


def bounds(rounds: int, experts: int, epsilon: float) -> list[OnlinePoint]:
    """Table 1 with constants of one, and the bounds that plans promise for the same, with all constants and delta."""
    table = [
        OnlinePoint(each.name, each.value(rounds, experts, epsilon), setting=each.source) for each in bounds_of(EXPERTS)
    ]
    batch = min(max(1, round(1 / epsilon)), rounds)
    table.append(OnlinePoint("floor of batches of 1/ε", batch_lower_bound(experts, rounds, batch), setting="proven"))
    planned = [each for each in learners(experts, rounds, epsilon) if each.name != BLIND]
    return table + [OnlinePoint(each.name, min(each.bound, rounds), setting="planned") for each in planned]


def excess(rounds: int, epsilon: float) -> list[OnlinePoint]:
    """The cost of batches of 1/ε rounds where Proposition 3.3 has T B² η²: halves that alternate, two experts.

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


def regrets(data: str, rounds: int, experts: int, epsilon: float, seed: int, rng: Rng) -> list[OnlinePoint]:
    """The mean regret of every learner on one sequence of losses."""
    if data == HARD:
        losses: LossSequence = Epochs.hard(rounds, experts, epsilon, seed)
    else:
        losses = SEQUENCES[data](rounds, experts, seed)
    return [_mean(each, losses, seed, rng) for each in learners(experts, rounds, epsilon)]


def _mean(learner: Learner, losses: LossSequence | RealLosses, seed: int, rng: Rng) -> OnlinePoint:
    """Exact where the marginals are known, else the mean of some plays."""
    if learner.expected is not None:
        value = learner.expected(losses.blocks(), seed).regret
    else:
        value = fmean(_played(learner, losses, rng).regret for _ in range(PLAYS))
    return OnlinePoint(learner.name, value, bound=learner.bound, setting=words(learner.parameters))


def _played(learner: Learner, losses: LossSequence | RealLosses, rng: Rng) -> Regret:
    """One play of a kernel."""
    assert learner.kernel is not None
    return measured_regret(learner.kernel(), losses.blocks(), rng=as_randomness(rng))


def real_regrets(losses: RealLosses, epsilon: float, seed: int, rng: Rng) -> list[OnlinePoint]:
    """Mean regret of every learner on real losses, and that of one play of its kernel."""
    rounds, experts = losses.levels.shape
    found = []
    for each in learners(experts, rounds, epsilon):
        point = _mean(each, losses, seed, rng)
        if each.kernel is not None:
            played = _played(each, losses, rng)
            point = replace(point, played=played.regret, switches=played.switches)
        found.append(point)
    return found


def words(parameters: dict[str, Any]) -> str:
    """Parameters in words."""
    texts = {name: value if isinstance(value, str) else f"{value:.3g}" for name, value in parameters.items() if value}
    return ", ".join(f"{name} = {text}" for name, text in texts.items())
