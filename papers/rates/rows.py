"""The rows of Table I as experiments: which instances, which learner, which tuning."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import ceil, floor, log2
from statistics import fmean
from typing import Any

import numpy as np

from labeldp.learners import CubeGrid, clipping_radius, cube_side, neighbor_count
from labeldp.mechanisms import DiscreteLaplace
from labeldp.privacy import Trust
from papers.rates import learners
from papers.rates.instances import HardClasses, HardValues, hard_classes, hard_values, heavy_values
from papers.rates.learners import Estimate, Rng, Select
from papers.rates.table import critical_side

AMPLITUDE = 1.0
"""The height of bumps of side 1."""

RECORDS = tuple(round(10 ** (6 + half / 2)) for half in range(7))
"""Two for each power of ten."""

DIMENSIONS = (1, 2)
FINEST = 3
"""Bumps go down to this part of the learner's side. The hardest of all widths counts."""

WIDTHS = tuple(float(each) for each in np.geomspace(1 / FINEST, 4, 8))
"""Sides of bumps for neighbors, as multiples of (k / N)^(1/d): noise is alike for all, and bias less for wider ones."""

ALIGNED = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3))
"""Bumps for each cube of a learner of numbers, along each axis: no cube holds a sliver of the features only."""

TAILS = (0.0, 0.5, 1.0)
"""How heavy tails are, from bounded labels to eq. (166), where the moments allow more than bounded ones."""

POINTS, REPEATS = 200, 8
"""Places at which neighbors are asked, and how often records are drawn for cubes, in one run at d = 1."""


@dataclass(frozen=True)
class Family:
    """What is assumed of the distributions.

    Args:
        beta: Hölder smoothness.
        margin: Tsybakov's γ, of classes.
        moments: p, of heavy tails.
    """

    beta: float
    margin: float
    moments: float

    @property
    def title(self) -> str:
        """Its name in tables."""
        return f"β = {self.beta:g}, γ = {self.margin:g}, p = {self.moments:g}"


FAMILIES = {"smooth": Family(1.0, 0.5, 3.0), "rough": Family(0.5, 1.0, 2.0)}
"""By their names in options."""


@dataclass(frozen=True)
class Row:
    """A row of Table I and how it is measured.

    Args:
        task: of `labeldp.advice.rates.TASKS`.
        trust: "local" or "central"; "" without protection.
        protection: of `labeldp.advice.rates.PROTECTIONS`.
        epsilons: by default; empty without protection.
        constant: of the side of cubes, or of the number of neighbors.
        printed: tuned as the paper prints it, not as corrected.
    """

    task: str
    trust: str
    protection: str
    epsilons: tuple[float, ...]
    constant: float
    printed: bool = False

    @property
    def name(self) -> str:
        """Its name in files and options."""
        return "-".join(filter(None, (self.task, self.trust, self.protection, "printed" * self.printed)))

    def setting(self, dimension: int, family: Family) -> dict[str, Any]:
        """Return what the calculators of rates ask for."""
        found = {"task": self.task, "protection": self.protection, "dimension": dimension, "beta": family.beta}
        found |= {"trust": self.trust} if self.trust else {}
        found |= {"margin": family.margin} if self.task == "classification" else {}
        return found | ({"moments": family.moments} if self.task == "heavy-tailed" else {})


@dataclass(frozen=True)
class Tuning:
    """What a learner is given.

    Args:
        side: of cubes; of neighbors (k / N)^(1/d).
        reach: T, the clipping radius; 1 for bounded labels.
        neighbors: k, where there are any.
    """

    side: float
    reach: float = 1.0
    neighbors: int | None = None

    @property
    def per_axis(self) -> int:
        """How many cubes fill the unit interval: a whole number near 1 / side."""
        return max(1, round(1 / self.side))


def tuning(row: Row, dimension: int, family: Family, epsilon: float, records: int) -> Tuning:
    """Tune a learner by the library's rules, or by the paper's where they were corrected.

    Source: Zhao, Theorems 2, 4, 6, 8, 10, 12, 13 and 14, `docs/theory/corrections.md`.
    """
    if row.printed:
        return _printed(row, dimension, family, epsilon, records)
    if row.protection == "none" or (row.trust, row.protection) == ("local", "full"):
        side = row.constant * critical_side(records=records, epsilon=epsilon or None, **row.setting(dimension, family))
        order = 2 * family.moments if row.task == "heavy-tailed" and row.trust else np.inf
        return Tuning(side, (records * side ** (2 * dimension) * epsilon**2) ** (1 / order))
    given: dict[str, Any] = {"epsilon": epsilon, "beta": family.beta}
    moments = {"moments": family.moments} if row.task == "heavy-tailed" else {}
    trust = Trust[row.trust.upper()]
    reach = clipping_radius(records, dimension, trust=trust, **moments, **given) if moments else 1.0
    given |= {"constant": row.constant, **moments}
    if row.trust == "local" and row.task != "classification":
        count = neighbor_count(records, dimension, **given)
        return Tuning((count / records) ** (1 / dimension), reach, count)
    classes = {"classes": 2} if row.task == "classification" else {}
    return Tuning(cube_side(records, dimension, trust=trust, **given, **classes), reach)


def _printed(row: Row, dimension: int, family: Family, epsilon: float, records: int) -> Tuning:
    """Tune by Theorems 10, 12 and 14 (2) as they are printed."""
    beta, moments = family.beta, family.moments
    public, heavy = 2 * beta + dimension, moments * beta + dimension * (moments - 1)
    if row.trust == "local":
        private = (records * epsilon**2) ** (2 * beta / (heavy + moments * beta))
        count = min(records, ceil(row.constant * max(private, records ** (2 * beta / public))))
        return Tuning((count / records) ** (1 / dimension), (count * epsilon**2) ** (1 / (2 * moments)), count)
    side = row.constant * (records ** (-1 / public) + (epsilon * records) ** (-1 / heavy))
    return Tuning(side, (epsilon * records * side**dimension) ** (1 / moments))


@dataclass(frozen=True)
class Measured:
    """The excess risk of one learner on one instance.

    Args:
        per_axis: bumps along each axis.
        tail: of `TAILS`.
        excess: exact, given the records that were drawn; of neighbors averaged over points.
    """

    per_axis: int
    tail: float
    excess: float


def measure(row: Row, dimension: int, family: Family, epsilon: float, records: int, *, rng: Rng) -> list[Measured]:
    """Return the excess risk on bumps of all widths, records and noise drawn afresh for each."""
    tuned = tuning(row, dimension, family, epsilon, records)
    tails = TAILS if row.task == "heavy-tailed" else (0.0,)
    repeats = REPEATS // dimension if tuned.neighbors is None else 1
    made = []
    for per_axis, tail in product(_bumps(row.task, tuned), tails):
        instances = (_instance(row.task, per_axis, dimension, family, tail, rng) for _ in range(repeats))
        excess = fmean(_excess(row, each, tuned, epsilon, records, rng) for each in instances)
        made.append(Measured(per_axis, tail, excess))
    return made


def _bumps(task: str, tuned: Tuning) -> list[int]:
    """Return numbers of bumps along each axis: for classes from one on, as noise is worst where bumps are wide."""
    if task == "classification":
        steps = int(2 * log2(max(FINEST / tuned.side, 1.0)))
        return sorted({round(2 ** (step / 2)) for step in range(steps + 1)})
    if tuned.neighbors is not None:
        return sorted({max(1, round(1 / (width * tuned.side))) for width in WIDTHS})
    return [int(each * tuned.per_axis) for each in ALIGNED if (each * tuned.per_axis).denominator == 1]


def _instance(
    task: str, per_axis: int, dimension: int, family: Family, tail: float, rng: Rng
) -> HardClasses | HardValues:
    """Draw bumps with random signs, as high as smoothness allows."""
    given: dict[str, Any] = {"dimension": dimension, "beta": family.beta, "amplitude": AMPLITUDE, "rng": rng}
    if task == "classification":
        return hard_classes(per_axis, margin=family.margin, **given)
    if task == "regression":
        return hard_values(per_axis, **given)
    heaviest = heavy_values(per_axis, moments=family.moments, **given)
    reach = max(1.0, floor(2 * heaviest.reach**tail) / 2)
    return replace(heaviest, reach=reach, share=min(1.0, reach**-family.moments))


def _excess(
    row: Row, instance: HardClasses | HardValues, tuned: Tuning, epsilon: float, records: int, rng: Rng
) -> float:
    """Return the excess risk of one learner on one instance."""
    if tuned.neighbors is not None and isinstance(instance, HardValues):
        mechanism = DiscreteLaplace(domain=learners.label_range(tuned.reach), epsilon=epsilon)
        return learners.neighbors_of_values(instance, tuned.neighbors, mechanism, records, points=POINTS, rng=rng)
    size = instance.cubes.dimension
    grid = CubeGrid((0.0,) * size, (1.0,) * size, (tuned.per_axis,) * size)
    learner = row.trust, row.protection
    if isinstance(instance, HardClasses):
        selects: dict[tuple[str, str], Callable[[], Select]] = {
            ("", "none"): learners.plain_select,
            ("local", "label"): lambda: learners.unary_select(epsilon),
            ("central", "label"): lambda: learners.central_select(epsilon),
            ("local", "full"): lambda: learners.local_full_select(epsilon),
            ("central", "full"): lambda: learners.full_select(epsilon, grid),
        }
        return learners.cells_of_classes(instance, grid, records, selects[learner](), rng=rng)
    smallest = max(1, round(records / grid.cells / 2))  # n_0: half of the records that a cell holds on average
    estimates: dict[tuple[str, str], Callable[[], Estimate]] = {
        ("", "none"): learners.plain_mean,
        ("central", "label"): lambda: learners.central_mean(epsilon, tuned.reach),
        ("local", "full"): lambda: learners.local_full_mean(epsilon, tuned.reach, smallest),
        ("central", "full"): lambda: learners.full_mean(epsilon, tuned.reach, grid, smallest),
    }
    return learners.cells_of_values(instance, grid, records, estimates[learner](), rng=rng)


LOCAL, CENTRAL, FULL = (0.25, 0.5, 1.0), (0.0001, 0.0003, 1.0), (0.0005, 0.002, 1.0)
"""Epsilons of rows."""

ROWS = {
    row.name: row
    for row in (
        Row("classification", "local", "label", LOCAL, 3.0),
        Row("classification", "central", "label", CENTRAL, 2.0),
        Row("classification", "local", "full", LOCAL, 2.0),
        Row("classification", "central", "full", CENTRAL, 2.0),
        Row("classification", "", "none", (), 2.0),
        Row("regression", "local", "label", LOCAL, 2.0),
        Row("regression", "central", "label", CENTRAL, 2.0),
        Row("regression", "local", "full", LOCAL, 2.0),
        Row("regression", "central", "full", FULL, 5.0),
        Row("regression", "", "none", (), 2.0),
        Row("heavy-tailed", "local", "label", LOCAL, 2.0),
        Row("heavy-tailed", "local", "label", LOCAL, 2.0, printed=True),
        Row("heavy-tailed", "central", "label", CENTRAL, 2.0),
        Row("heavy-tailed", "central", "label", CENTRAL, 2.0, printed=True),
        Row("heavy-tailed", "local", "full", LOCAL, 2.0),
        Row("heavy-tailed", "central", "full", FULL, 5.0),
        Row("heavy-tailed", "central", "full", FULL, 5.0, printed=True),
        Row("heavy-tailed", "", "none", (), 2.0),
    )
}
"""Table I, and the tunings that were corrected, by name."""


def constants(row: Row, family: Family) -> dict[str, Any]:
    """Return what this file fixes for a row, as results store it."""
    shared = {"BETA": family.beta, "MARGIN": family.margin}
    if row.task == "classification":
        own: dict[str, Any] = {"AMPLITUDE": AMPLITUDE, "FINEST": FINEST}
    else:
        own = {"MOMENTS": family.moments, "AMPLITUDE": AMPLITUDE, "WIDTHS": WIDTHS, "TAILS": TAILS, "POINTS": POINTS}
    return {**shared, **own, "REPEATS": REPEATS, "constant": row.constant}
