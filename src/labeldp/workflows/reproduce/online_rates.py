"""Figure 1 and Table 1 of Asi et al. as formulas: as they are printed, and what the algorithms really have."""

from dataclasses import dataclass
from math import log, prod

EXPERTS, CONVEX = "experts", "convex losses"
PRINTED, CORRECTED, KNOWN = "printed", "corrected", "known"
"""Where a rate comes from: claimed for L2P, proven for L2P, or of other work."""


@dataclass(frozen=True)
class Monomial:
    """T^rounds · d^dimension · (ln d)^logs · epsilon^(−privacy)."""

    rounds: float
    dimension: float = 0.0
    logs: float = 0.0
    privacy: float = 0.0

    def value(self, rounds: float, dimension: float, epsilon: float) -> float:
        """With a constant of one."""
        powers = (rounds, self.rounds), (dimension, self.dimension), (log(dimension), self.logs)
        return prod(base**power for base, power in powers) / epsilon**self.privacy

    def exponent(self, alpha: float, growth: float) -> float:
        """Of T, where epsilon = T^−alpha and d = T^growth."""
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
        """With constants of one, never above T: that much has every learner."""
        sums = [sum(each.value(rounds, dimension, epsilon) for each in way) for way in self.ways]
        return min(rounds, *sums)

    def exponent(self, alpha: float, growth: float) -> float:
        """β of a regret T^β, where epsilon = T^−alpha and d = T^growth."""
        return min(1.0, *(max(each.exponent(alpha, growth) for each in way) for way in self.ways))


def _bound(name: str, setting: str, source: str, *ways: Monomial) -> Bound:
    """The regret without privacy, and what privacy adds in the best of some ways."""
    free = Monomial(1 / 2, logs=1 / 2) if setting == EXPERTS else Monomial(1 / 2)
    return Bound(name, setting, source, tuple((free, way) for way in ways) or ((free,),))


_CORRECTED_CONVEX = Bound(
    "L2P",
    CONVEX,
    CORRECTED,
    ((Monomial(1 / 2), Monomial(2 / 5, 3 / 10, privacy=3 / 5), Monomial(1 / 3, 1 / 2, privacy=2 / 3)),),
)
"""√(TB) + √d T^(1/3)/(εB^(1/3)) with the best B from 1 to 1/ε; logarithms were not followed."""

BOUNDS = (
    _bound("without privacy", EXPERTS, KNOWN),
    _bound("tree noise", EXPERTS, KNOWN, Monomial(0, 1 / 2, 1, 1)),
    _bound("lazy, before", EXPERTS, KNOWN, Monomial(1 / 3, 0, 1, 1), Monomial(2 / 5, 0, 1, 4 / 5)),
    _bound("L2P", EXPERTS, PRINTED, Monomial(1 / 3, 0, 1, 2 / 3)),
    _bound("L2P", EXPERTS, CORRECTED, Monomial(1 / 3, 0, 1, 1), Monomial(2 / 5, 0, 4 / 5, 3 / 5)),
    _bound("redraw", EXPERTS, KNOWN, Monomial(1 / 2, 0, 3 / 4, 1 / 2)),
    _bound("without privacy", CONVEX, KNOWN),
    _bound("DP-FTRL", CONVEX, KNOWN, Monomial(1 / 2, 1 / 4, 0, 1 / 2)),
    Bound(
        "lazy, before",
        CONVEX,
        KNOWN,
        ((Monomial(1 / 2), Monomial(1 / 3, 1 / 2, 0, 1), Monomial(3 / 8, 1 / 2, 0, 3 / 4)),),
    ),
    _bound("L2P", CONVEX, PRINTED, Monomial(1 / 3, 1 / 2, 0, 2 / 3)),
    _CORRECTED_CONVEX,
)
"""Table 1, with footnote 2, the corrected rates, and the plain redraw in every batch."""

PANELS = (("a", CONVEX, 0.0, "d = polylog T"), ("b", CONVEX, 1 / 3, "d = T^(1/3)"), ("c", EXPERTS, 1.0, "d = T"))
"""Of Figure 1: letter, setting, and how d grows with T."""

ALPHAS = tuple(step / 60 for step in range(61))


def bounds_of(setting: str) -> tuple[Bound, ...]:
    """Every regret of a setting."""
    return tuple(each for each in BOUNDS if each.setting == setting)


def free_until(bound: Bound, growth: float) -> float:
    """The largest α of ε = T^−α at which the exponent is still the 1/2 of learners without privacy; −1 for none."""
    low, high = -1.0, 1.0
    if bound.exponent(high, growth) <= 0.5:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if bound.exponent(middle, growth) <= 0.5 + 1e-12 else (low, middle)
    return low
