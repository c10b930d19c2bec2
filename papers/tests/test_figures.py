"""The chart of the README shows what is stored."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # last: tests come first

import figures


def test_stored_points_are_those_of_the_tables() -> None:
    assert figures.read() == figures.gathered()


def test_each_line_has_points_in_both_panels() -> None:
    points = figures.read()
    assert {(point.data, point.line) for point in points} == {(d, s) for d in figures.PANELS for s in figures.STYLES}
