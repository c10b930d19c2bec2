"""One of each mechanism of the papers, small, by name."""

from collections.abc import Callable
from typing import Any

from labeldp.learners import CubeGrid
from labeldp.mechanisms import Classes, Interval, Mechanism
from papers.aggregation.naive import NaiveBags
from papers.rates.whole_records import FullMeans, FullSelection, Located

GRID = CubeGrid.of_side(0.5, [(0, 1), (-1, 1)])
FEW = CubeGrid.of_side(0.5, [(0, 1.5)])

SIX = Interval(-1, 1, grid=6)

EXAMPLES: dict[str, Callable[[Any], Mechanism]] = {
    "full selection": lambda epsilon: FullSelection(domain=Located(GRID, Classes(3)), epsilon=epsilon),
    "full exponential": lambda epsilon: FullSelection(
        domain=Located(GRID, Classes(2)), epsilon=epsilon, rule="exponential"
    ),
    "full means": lambda epsilon: FullMeans(domain=Located(FEW, Interval(-1, 1, grid=6)), epsilon=epsilon, smallest=2),
    "full means, n_0 = 1": lambda epsilon: FullMeans(
        domain=Located(FEW, Interval(0, 1, grid=2)), epsilon=epsilon, smallest=1
    ),
    "naive bags": lambda epsilon: NaiveBags(8, 3, population=40, domain=SIX),
}
