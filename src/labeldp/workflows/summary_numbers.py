"""What is known and may be published about a model of numbers, and about any model of one or two features."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeldp.privacy import InputError
from labeldp.workflows.estimated import Estimated, Finite


@dataclass(frozen=True)
class Bin(Finite):
    """What released labels say of the records in a stretch of some quantity.

    Args:
        start, end: of the stretch.
        records: how many lie in it.
        middle: their mean.
        value: the mean of what released labels say of them, debiased.
        low, high: its confidence interval.
    """

    start: float
    end: float
    records: int
    middle: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class NumberTest(Finite):
    """How predicted numbers do on a public file with true, public labels.

    Args:
        file: the file's name, without its folder.
        rows: number of records.
        error: root mean squared error, in the unit of the labels.
        absolute: mean absolute error, in that unit.
        explained: R squared against the mean of the file's labels; None where all of them are the same.
    """

    file: str
    rows: int
    error: float
    absolute: float
    explained: float | None = None


@dataclass(frozen=True)
class Numbers(Finite):
    """What takes the place of classes, accuracy and confusion where labels are numbers.

    Args:
        start, end: the declared range.
        grid: points of the range that a released label can be.
        clip: whether labels outside were counted as the nearest end.
        error: root mean squared error, debiased, in the unit of the labels.
        constant: that of always answering the mean, chosen on other released labels.
        gain: by how much the mean squared error is below that of always answering the mean.
        explained: the gain as a share, R squared, where it could be told.
        residuals: labels minus predictions, by prediction.
        test: result on a public test file.
    """

    start: float
    end: float
    grid: int
    clip: bool
    error: Estimated
    constant: Estimated
    gain: Estimated
    explained: Estimated | None = None
    residuals: tuple[Bin, ...] = ()
    test: NumberTest | None = None


@dataclass(frozen=True)
class Across:
    """A feature along which answers are drawn.

    Args:
        feature: its name.
        kind: "number", "boolean", "time" (days since 1970) or "category" (places in `names`).
        places: values, in order.
        names: of the values, where they have some.
    """

    feature: str
    kind: str
    places: tuple[float, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A model's answers along its one feature, or over its two.

    Args:
        axes: one or two.
        answers: for numbers one row, for classes a row of probabilities each; with two features all places of the
            second for the first place of the first, and so on.
        seen: what released labels say along one feature: mean labels, or shares of the second of two classes.

    Raises:
        InputError: not as many answers as places, or one that is not finite.
    """

    axes: tuple[Across, ...]
    answers: tuple[tuple[float, ...], ...]
    seen: tuple[Bin, ...] = ()

    def __post_init__(self) -> None:
        count = math.prod(len(axis.places) for axis in self.axes)
        if len(self.axes) not in (1, 2) or any(len(row) != count for row in self.answers):
            raise InputError("Picture must have one or two axes and an answer for each of their places.")
        if not all(math.isfinite(value) for row in self.answers for value in row):
            raise InputError("Picture.answers must be finite numbers.")
