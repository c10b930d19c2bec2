"""An estimate with its interval, what the interval guarantees, and on which conditions."""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from labeldp.privacy import Certificate, InputError, set_fields

LEVEL = 0.95
"""The coverage of intervals by default."""


CLUSTERED = "with errors clustered by user"

INDEPENDENT = "records are independent of each other"
CLUSTERS = "users are independent of each other; records of one user need not be"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One or several estimates, with their intervals.

    Args:
        quantity: what is estimated, in words.
        value: the estimates, shape of the axes; unbiased ones may lie outside of what is possible.
        low, high: the intervals, within what is possible.
        level: coverage.
        stderr: standard errors; None where an interval has none.
        noise_share: which part of the variance is due to privacy noise; None where the release does not tell it.
        n_effective: how many records without privacy would be as precise; None where the release does not tell it.
        simultaneous: whether all intervals hold together with probability `level`, and not only each by itself.
        target: "population", the law that records come from, or "records", these records alone.
        records: how many records the estimate is from.
        guarantee: see `Rule`.
        method: which interval it is.
        assumptions: the conditions, in words. Nobody checked them.
        certificate: of the release. The estimate itself costs nothing more.
        axes: the name of each axis of `value`, and the names along it; empty for one number.
    """

    quantity: str
    value: Any = field(repr=False)
    low: Any = field(repr=False)
    high: Any = field(repr=False)
    level: float = LEVEL
    stderr: Any = field(default=None, repr=False)
    noise_share: Any = field(default=None, repr=False)
    n_effective: Any = field(default=None, repr=False)
    simultaneous: bool = False
    target: str = "population"
    records: int | None = None
    guarantee: str = "asymptotic"
    method: str = ""
    assumptions: tuple[str, ...] = ()
    certificate: Certificate | None = field(default=None, repr=False)
    axes: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_level(self.level)
        shape = tuple(len(names) for _, names in self.axes)
        for name in ("value", "low", "high", "stderr", "noise_share", "n_effective"):
            numbers = getattr(self, name)
            if numbers is not None:
                array = np.broadcast_to(np.asarray(numbers, dtype=np.float64), shape)
                set_fields(self, **{name: array + 0.0 if shape else float(array) + 0.0})  # a zero has no sign

    def __str__(self) -> str:
        """Return the estimate as one sentence; a value outside of its interval is shown at the nearer end."""
        promise = f"{self._about} ({self.guarantee}: {self.method})"
        percent = f"{100 * self.level:g} %"
        if self.axes:
            along = " and ".join(name for name, _ in self.axes)
            together = "simultaneous " if self.simultaneous else ""
            lowest, highest = np.nanmin(self.low), np.nanmax(self.high)
            return (
                f"{self.quantity} by {along}: {np.size(self.value)} estimates with {together}{percent} intervals "
                f"between {number_text(lowest)} and {number_text(highest)} {promise}"
            )
        shown = self.value if np.isnan(self.value) else min(max(self.value, self.low), self.high)
        ends = f"{number_text(self.low)} to {number_text(self.high)}"
        text = f"{self.quantity} {number_text(shown)}, {percent} interval {ends} {promise}"
        if self.noise_share is not None and self.n_effective is not None:
            text += (
                f", of whose variance {100 * self.noise_share:.0f} % is privacy noise: as precise as "
                f"{self.n_effective:,.0f} records without privacy"
            )
        return text

    @property
    def _about(self) -> str:
        if self.target == "population":
            return "among records like these"
        return "among these records" if self.records is None else f"among these {self.records:,} records"

    def at(self, **names: Any) -> "Estimate":
        """Return the estimate at one name of one or several axes, such as `estimate.at(group="a")`.

        Raises:
            InputError: no such axis, or no such name along it.
        """
        index: list[Any] = [slice(None)] * len(self.axes)
        for axis, name in names.items():
            position = [title for title, _ in self.axes].index(axis) if axis in dict(self.axes) else None
            if position is None:
                raise InputError(f"must be one of {', '.join(dict(self.axes)) or 'none'}: {axis!r} is no axis")
            if str(name) not in self.axes[position][1]:
                raise InputError(f"has no {name!r} among its names", argument=axis)
            index[position] = self.axes[position][1].index(str(name))
        left = tuple(axis for axis, part in zip(self.axes, index, strict=True) if isinstance(part, slice))
        parts: dict[str, Any] = {
            name: None if getattr(self, name) is None else np.asarray(getattr(self, name))[tuple(index)]
            for name in ("value", "low", "high", "stderr", "noise_share", "n_effective")
        }
        where = ", ".join(f"{axis} {name}" for axis, name in names.items())
        return replace(self, quantity=f"{self.quantity} ({where})", axes=left, **parts)

    def rows(self) -> list[str]:
        """Return the name of each entry, in the order of `value.ravel()`; one without axes has none."""
        return [", ".join(names) for names in product(*(names for _, names in self.axes))]

    def table(self) -> Any:
        """Return an Arrow table with a row for each entry: names along the axes, numbers, and what the interval is."""
        import pyarrow as pa

        listed = list(product(*(names for _, names in self.axes)))
        columns: dict[str, Any] = {
            axis: [names[position] for names in listed] for position, (axis, _) in enumerate(self.axes)
        }
        for name in ("value", "low", "high", "stderr", "noise_share", "n_effective"):
            numbers = getattr(self, name)
            size = len(listed)
            columns[name] = pa.array([None] * size if numbers is None else np.ravel(numbers).tolist(), pa.float64())
        for name in ("level", "guarantee", "method", "simultaneous", "target"):
            columns[name] = [getattr(self, name)] * len(listed)
        return pa.table({"quantity": [self.quantity] * len(listed), **columns})

    def conf_int(self) -> Any:
        """Return the intervals, low and high along the last axis, shape (…, 2), as statsmodels names them."""
        return np.stack([self.low, self.high], axis=-1)

    def summary(self) -> str:
        """Return a table of the estimates in the form that statsmodels prints, with the ratios of log ratios.

        The standard error is blank where an interval has none.
        """
        tail = (1 - self.level) / 2
        ends = {f"[{tail:.4g}": self.low, f"{1 - tail:.4g}]": self.high}
        columns = [("coef", self.value), ("std err", self.stderr), *ends.items()]
        if self.quantity in ("log odds ratio", "log rate ratio"):
            with np.errstate(over="ignore"):
                ratios = {self.quantity.removeprefix("log "): self.value, **ends}
                columns += [(title, np.exp(numbers)) for title, numbers in ratios.items()]
        cells = [["", *self.rows()]]
        for title, numbers in columns:
            texts = [""] * len(self.rows()) if numbers is None else map(number_text, np.ravel(numbers).tolist())
            cells.append([title, *texts])
        width, *widths = (max(map(len, column)) for column in cells)
        lines = [
            "  ".join([name.ljust(width), *map(str.rjust, numbers, widths)])
            for name, *numbers in zip(*cells, strict=True)
        ]
        records = "" if self.records is None else f", {self.records:,} records"
        method = f"({self.guarantee}: {self.method})"
        head = f"{self.quantity} {self._about}{records}, {100 * self.level:g} % intervals {method}"
        return "\n".join([head, *lines])

    def plot(self) -> str:
        """Return a forest plot of the estimates as SVG text."""
        from labeldp.inference.forest import forest  # most estimates are never drawn

        numbers = np.stack([np.ravel(self.value), np.ravel(self.low), np.ravel(self.high)], axis=1)
        shown = np.column_stack([np.clip(numbers[:, 0], numbers[:, 1], numbers[:, 2]), numbers[:, 1:]])
        return forest(self.quantity, self.rows(), [(row[0], row[1], row[2]) for row in shown.tolist()])


def number_text(number: float) -> str:
    """Return a number with four digits; zero has no sign."""
    return f"{number:.4g}".replace("-0", "0") if float(f"{number:.4g}") == 0 else f"{number:.4g}"


TARGETS = ("population", "records")
"""Whom an estimate is about: the law that records come from, or these records."""


def check_level(level: Any) -> float:
    """Return the coverage of an interval, in (0, 1)."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise InputError("must lie between 0 and 1, such as 0.95", argument="level")
    return float(level)
