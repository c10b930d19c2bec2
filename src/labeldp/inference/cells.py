"""Outcomes in public cells, such as arms, periods or strata of groups: their means, and contrasts of these."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from labeldp.inference.catalog import RULES
from labeldp.inference.estimate import Estimate
from labeldp.inference.groups import Codes, PublicGroups
from labeldp.inference.intervals import Ends, clopper_pearson, contrasted, student_within
from labeldp.inference.released import NoisySums, Outcomes, entry_level, estimate_of, outcome_code, precision
from labeldp.inference.sums import cell_means_of, is_sums, refuse_users
from labeldp.privacy import Floats, InputError


def source_of(release: Any, users: Any, **public: Any) -> Outcomes | NoisySums:
    """Return answers or sums, next to public columns.

    Raises:
        InputError: see `Outcomes.of` and `NoisySums.of`; users of sums.
    """
    if not is_sums(release):
        return Outcomes.of(release, users, **public)
    sums = NoisySums.of(release, **public)
    refuse_users(users)
    return sums


def values_of(outcomes: Outcomes, code: int | None, rows: slice) -> Floats:
    """Return unbiased indicators of a class, or unbiased numbers, of a block, shape (m,)."""
    return outcomes.numbers(rows) if code is None else outcomes.indicators(rows, code)


@dataclass(frozen=True)
class CellMeans:
    """Shares of a class or mean numbers, of columns of groups, independent of each other; shape (G, columns).

    Args:
        kind: "answers" with two outputs, "numbers" of any answers, "sums" of classes, or "number sums".
        value, low, high, variance: of the means. Ends may lie outside of what is possible.
        sampling: the variance without privacy; None where the release does not tell it.
    """

    kind: str
    value: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    variance: Floats = field(repr=False)
    sampling: Floats | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CellContrast:
    """Weighted sums of means, of groups: shape (G, contrasts).

    Args:
        kind: of the means; see `CellMeans`.
        value, low, high, variance: of the sums.
        noise, effective: see `precision`.
    """

    kind: str
    value: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    variance: Floats | None = field(default=None, repr=False)
    noise: Floats | None = field(default=None, repr=False)
    effective: Floats | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CellOutcomes:
    """Outcomes in columns of public groups, and what contrasts of the columns are called.

    Args:
        source: answers or sums.
        groups: the public groups.
        columns: arms, periods or strata of each group.
        axis: of the contrasts, and their names.
        outcome: the class that is meant; None for a number, and for the second one of two.
        level: coverage.
        simultaneous: whether all intervals hold together.
    """

    source: Outcomes | NoisySums
    groups: PublicGroups
    columns: PublicGroups
    axis: tuple[str, tuple[str, ...]]
    outcome: Any
    level: float
    simultaneous: bool

    @classmethod
    def of(
        cls,
        source: Outcomes | NoisySums,
        groups: PublicGroups,
        columns: PublicGroups,
        axis: tuple[str, tuple[str, ...]],
        outcome: Any,
        level: float,
        simultaneous: bool,
        names: tuple[str, str],
    ) -> "CellOutcomes":
        """Return the outcomes, after everything is checked that can be refused.

        Args:
            names: what a column is called, and the argument that has it.

        Raises:
            InputError: no such class, or a cell without enough records.
        """
        if outcome is not None and not source.names:
            raise InputError("must be left out: the outcome is a number", argument="outcome")
        found = cls(source, groups, columns, axis, outcome, level, simultaneous)
        _, _ = found.code, found.entry
        few = 1 if isinstance(source, NoisySums) else 2
        if found.sizes.min() < few:
            many = "two records" if few == 2 else "a record"
            raise InputError(f"must have {many} of each {names[0]} in each group", argument=names[1])
        return found

    @cached_property
    def code(self) -> int | None:
        """The class that is meant; None for a number."""
        return outcome_code(self.source, self.outcome) if self.source.names else None

    @cached_property
    def crossed(self) -> PublicGroups:
        """Groups by columns."""
        return self.groups.crossed(self.columns)

    @property
    def sizes(self) -> Codes:
        """The records of each cell, shape (G, columns)."""
        return self.crossed.sizes.reshape(-1, self.columns.count)

    @property
    def entry(self) -> float:
        """The level of each interval: contrasts of one group depend on each other."""
        return entry_level(self.source, self.groups, self.level, self.simultaneous, len(self.axis[1]))

    @property
    def width(self) -> float:
        """The largest difference that is possible."""
        domain = self.source.mechanism.domain
        return 1.0 if self.code is not None else float(domain.high - domain.low)

    def against(self, quantity: str) -> str:
        """Return a quantity with the names of its control, and of the only other arm, but for the arms 0 and 1."""
        names = self.columns.names
        if names == ("0", "1"):
            return quantity
        return f"{quantity} against {names[0]}" if len(names) > 2 else f"{quantity} of {names[1]} against {names[0]}"

    def possible(self, ends: Ends, reach: tuple[float, float] | None = None) -> Ends:
        """Return the ends of differences within what is possible; `reach` is that of others."""
        least, most = reach or (-self.width, self.width)
        return np.clip(ends[0], least, most), np.clip(ends[1], least, most)

    @cached_property
    def means(self) -> CellMeans:
        """The means of the cells. Those of cells that share users depend on each other."""
        source, code, sizes = self.source, self.code, self.sizes
        if isinstance(source, NoisySums):
            value, low, high, variance, sampling = cell_means_of(
                source, self.crossed, sizes.shape[1], self.outcome, self.entry, within=False
            )
            if source.names:
                return CellMeans("sums", value, low, high, variance, sampling)
            return CellMeans("number sums", value, low, high, variance)
        rates = source.rates() if code is not None else None
        binary = rates is not None if code is not None else source.two_outputs
        if binary and not source.clustered:
            if rates is not None and code is not None:
                start, gap = rates[1][code], rates[0][code] - rates[1][code]
            else:
                gap = 1 / (source.outputs[1] - source.outputs[0])
                start = -source.outputs[0] * gap
            hits = source.counts(self.crossed)[:, 1 if code is None else code].reshape(sizes.shape)
            rate = hits / sizes
            ends = [(end - start) / gap for end in clopper_pearson(hits, sizes, self.entry)]
            value, variance = (rate - start) / gap, rate * (1 - rate) / sizes / gap**2
            share = np.clip(value, 0, 1)
            within = np.maximum(share * (1 - share), 1 / sizes) / sizes
            return CellMeans(
                "answers", value, np.minimum(*ends), np.maximum(*ends), variance, None if code is None else within
            )
        result = source.means(lambda rows: values_of(source, code, rows)[:, None, None], self.crossed)
        mean, squares = result.mean[:, 0, 0], result.covariance[:, 0, 0, 0]
        reach = (0.0, 1.0) if code is not None else tuple(source.outputs.tolist())
        low, high = student_within(mean, squares, result.units, result.freedom, (reach[0], reach[1]), self.entry)
        value, low, high, variance = (number.reshape(sizes.shape) for number in (mean, low, high, squares))
        return CellMeans("numbers", value, low, high, variance)

    def contrast(self, weights: Floats, reach: tuple[float, float] | None = None) -> CellContrast:
        """Return weighted sums of the means of each group.

        Args:
            weights: of the columns in each contrast, shape (contrasts, columns).
            reach: what is possible; by default what is possible for a difference.

        Source: Zou (MOVER); with users, the covariance of sums by user, linearized.
        """
        if self.source.clustered:
            assert isinstance(self.source, Outcomes)
            return self._of_users(self.source, weights, reach)
        means = self.means
        value, low, high = contrasted(means.value, means.low, means.high, weights)
        variance = means.variance @ (weights**2).T
        noise = effective = None
        if means.sampling is not None:
            sizes = self.sizes @ (weights != 0).T
            noise, effective = precision(variance, means.sampling @ (weights**2).T, sizes)
        return CellContrast(means.kind, value, *self.possible((low, high), reach), variance, noise, effective)

    def _of_users(self, outcomes: Outcomes, weights: Floats, reach: tuple[float, float] | None) -> CellContrast:
        """Return contrasts of cells that may hold records of one user."""
        part = self.sizes / np.maximum(self.groups.sizes, 1)[:, None]
        mean, codes = self.means.value, self.columns.codes
        assert codes is not None

        def influence(rows: slice) -> Floats:
            number, cell = values_of(outcomes, self.code, rows), codes[rows]
            group = self.groups.block(rows, len(cell))
            moved = (number - mean[group, cell]) / part[group, cell]
            return np.asarray((weights.T[cell] * moved[:, None])[:, :, None])

        result = outcomes.means(influence, self.groups, 3 * len(weights) + len(outcomes.names))
        value, variance = mean @ weights.T, result.covariance[..., 0, 0]
        most = (np.abs(weights) / part[:, None, :]).max(axis=2)  # what one record moves, in records
        units, freedom = result.units[:, None] / most, result.freedom[:, None]
        ends = student_within(value, variance, units, freedom, reach or (-self.width, self.width), self.entry)
        return CellContrast("numbers", value, *self.possible(ends, reach), variance)

    def stated(self, key: str, quantity: str, found: CellContrast, conditions: tuple[str, ...]) -> Estimate:
        """Return an estimate for each group and contrast; with one contrast there is no axis of contrasts."""
        axes = self.groups.axes if len(self.axis[1]) == 1 else (*self.groups.axes, self.axis)
        return estimate_of(
            self.source, RULES[key], quantity, axes, found.value, found.low, found.high, found.variance, self.level,
            self.simultaneous, found.noise, found.effective, (*conditions, *self.source.conditions),
        )  # fmt: skip
