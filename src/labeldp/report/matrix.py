"""A confusion matrix as a table of tinted cells, or, for many classes, as a picture and its most confused pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from labeldp.report.svg import figure, tag
from labeldp.workflows import Confusion

FULL_TABLE = 12
"""Most classes whose matrix is shown number by number; above, a page has no room for it."""
PICTURE = 200
"""Most classes whose matrix is drawn; above, its cells are smaller than a pixel."""
PAIRS = 15
_STEPS = 6


@dataclass(frozen=True)
class Cell:
    """One share and how strongly its background is tinted, in [0, 1] relative to the largest share."""

    share: float
    tint: float
    right: bool


@dataclass(frozen=True)
class Pair:
    """Records of class `true` that were called `predicted`; `clear` when the share exceeds its margin of error."""

    true: str
    predicted: str
    share: float
    clear: bool


def cells(confusion: Confusion) -> list[list[Cell]]:
    """The matrix with a tint per cell."""
    most = max(max(row) for row in confusion.shares)
    return [
        [Cell(share, _tint(share, most), i == j) for j, share in enumerate(row)]
        for i, row in enumerate(confusion.shares)
    ]


def _tint(share: float, most: float) -> float:
    """The square root, since mistakes are rarer than right answers and still to be seen."""
    return round(math.sqrt(max(0.0, share) / most), 2) if most > 0 else 0.0


def most_confused(confusion: Confusion, classes: tuple[str, ...]) -> list[Pair]:
    """The largest shares of mistakes, largest first, at most `PAIRS`, ties in the order of the classes."""
    margin = confusion.margin or 0.0
    mistakes = [
        (-share, i, j) for i, row in enumerate(confusion.shares) for j, share in enumerate(row) if i != j and share > 0
    ]
    return [Pair(classes[i], classes[j], -share, -share > margin) for share, i, j in sorted(mistakes)[:PAIRS]]


def mosaic(confusion: Confusion) -> Markup:
    """The whole matrix as a picture: one path per kind and strength, so that 200 classes still make a small file."""
    paths: dict[tuple[bool, int], list[str]] = {}
    for i, row in enumerate(cells(confusion)):
        for j, cell in enumerate(row):
            step = round(_STEPS * cell.tint)
            if step:
                paths.setdefault((cell.right, step), []).append(f"M{j} {i}h1v1h-1z")
    count = len(confusion.shares)
    drawn = [
        tag("path", class_="hit" if right else "miss", opacity=step / _STEPS, d="".join(path))
        for (right, step), path in sorted(paths.items())
    ]
    frame = tag("rect", class_="frame", x=0, y=0, width=count, height=count)
    label = f"Confusion matrix of {count} classes: true class down, predicted across, stronger color is more frequent."
    return figure(label, count, count, frame, *drawn, class_="mosaic")
