"""Figures are whole SVG files, the same for the same numbers, and show every series by name, color and marker."""

import itertools
import re
from xml.etree import ElementTree

import pytest
from matplotlib import rc_context
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from papers import plots
from papers.plots import COLORS, Axis, Panel, Point, Series

SVG = "{http://www.w3.org/2000/svg}"

PLAIN = Axis("x"), Axis("y")


def texts(picture: str) -> list[str]:
    """All words of a picture."""
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def drawn(panels: list[Panel], **options: bool) -> Figure:
    """A figure whose pieces have their places."""
    with rc_context(plots.STYLE):
        figure = plots.panels_figure(panels, **options)
        figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize("key_above", [False, True])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_everything_stays_inside_the_picture(count: int, key_above: bool) -> None:
    points = (Point(1.0, 0.5, 0.4), Point(8.0, 1.0, 0.2))
    series = [Series(f"series {n}", points) for n in range(count)]
    x, y = Axis("x", log=True), Axis("the share of all that was ever measured, in percent", share=True)
    figure = drawn([Panel("many", series, x, y)] * 2, key_above=key_above)
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 > -0.01 and box.y0 > -0.01 and box.x1 < width + 0.01 and box.y1 < height + 0.01
    legends = figure.legends if key_above else [axes.get_legend() for axes in figure.axes]
    assert len(legends) == (1 if key_above else 2)
    for legend in legends:
        names = [each.get_window_extent() for each in legend.get_texts()]
        assert [each.get_text() for each in legend.get_texts()] == [each.name for each in series]
        assert not any(a.overlaps(b) for place, a in enumerate(names) for b in names[:place])


def test_names_are_escaped_and_no_formula() -> None:
    picture = plots.lines("<b>", [Panel("$<b>", [Series("$<i>$", (Point(1.0, 0.5),))], *PLAIN)])
    assert "<b>" not in picture and "<i>" not in picture and {"$<b>", "$<i>$"} <= set(texts(picture))
    root = ElementTree.fromstring(picture)
    assert root.get("role") == "img" and root.get("aria-label") == "<b>"


def test_the_same_numbers_give_the_same_file() -> None:
    panels = [Panel("some", [Series("a", (Point(1.0, 0.5, 0.1), Point(2.0, 0.7, 0.1)))], *PLAIN)]
    assert plots.lines("some", panels) == plots.lines("some", panels)
    cells = {(0, 0): Point(0.0, 0.5), (0, 1): Point(0.0, 0.7, 0.1)}
    grids = [plots.grid("some", [("a", ["1"]), ("b", ["1", "2"])], cells) for _ in range(2)]
    assert grids[0] == grids[1] and "date" not in grids[0]


def test_a_grid_shows_every_number_and_a_deeper_tint_for_a_higher_one() -> None:
    cells = {(0, 0): Point(0.0, 0.5), (0, 1): Point(0.0, 0.7, 0.012)}
    picture = plots.grid("some", [("down", ["row"]), ("across", ["low", "high"])], cells)
    assert {"some", "down", "across", "row", "low", "high", "50.00", "70.00 ± 1.20"} <= set(texts(picture))
    assert "0.7000 ± 0.0120" in texts(plots.grid("some", [("a", ["1"]), ("b", ["1", "2"])], cells, share=False))
    tints = [sum(to_rgb(each)) for each in re.findall(r"fill: (#\w{6}); stroke: #ffffff", picture)]
    assert len(tints) == 2 and tints[0] > tints[1] + 0.5


def test_powers_of_ten_are_written_as_such() -> None:
    axis = Axis("y", powers=True)
    assert [axis.text(value) for value in (1e-3, 1.0, 1e12, 0.3)] == ["10⁻³", "10⁰", "10¹²", "3·10⁻¹"]
    for low, high in ((10**-3.1, 10**-0.4), (10**-1.2, 10**-0.9), (1e4, 1e9)):
        points = (Point(1.0, low), Point(2.0, high))
        picture = plots.lines("some", [Panel("some", [Series("a", points)], Axis("x"), axis)])
        ticks = [each for each in texts(picture) if re.fullmatch(r"([235]·)?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", each)]
        assert 1 <= len(ticks) <= 7 and len(set(ticks)) == len(ticks)


def test_ticks_of_a_logarithmic_axis_stand_at_the_points_that_have_room() -> None:
    points = tuple(Point(x, 1.0) for x in (1.0, 1.01, 2.0, 10.0))
    words = texts(plots.lines("some", [Panel("some", [Series("a", points)], Axis("x", log=True), Axis("y"))]))
    assert {"1.01", "2", "10"} <= set(words) and "1" not in words[:3]


def test_names_stand_in_place_of_numbers() -> None:
    axis = Axis("losses", names=("one", "two", "three"))
    points = tuple(Point(float(place), 1.0 + place) for place in range(3))
    words = texts(plots.lines("some", [Panel("some", [Series("a", points)], axis, Axis("y"))]))
    assert set(axis.names) <= set(words) and "0" not in words


def test_a_reference_has_the_color_of_the_series_before_and_no_name() -> None:
    points = (Point(1.0, 0.5), Point(2.0, 0.7))
    series = [Series("a", points), Series("", points, reference=True), Series("b", points)]
    figure = drawn([Panel("some", series, *PLAIN)])
    first, reference, second = figure.axes[0].lines
    assert [first.get_color(), reference.get_color(), second.get_color()] == [COLORS[0], COLORS[0], COLORS[1]]
    assert reference.get_linestyle() == "--" and reference.get_marker() == "" and first.get_marker() == "o"
    assert [each.get_text() for each in figure.axes[0].get_legend().get_texts()] == ["a", "b"]
    alone = drawn([Panel("some", series[1:], *PLAIN)]).axes[0].lines
    assert [each.get_color() for each in alone] == [plots.GRAY, COLORS[0]]


def test_a_color_that_is_used_again_has_open_markers() -> None:
    series = [Series(str(n), (Point(1.0, n), Point(2.0, n))) for n in range(len(COLORS) + 1)]
    *others, last = drawn([Panel("some", series, *PLAIN)], key_above=True).axes[0].lines
    assert [each.get_color() for each in (*others, last)] == [*COLORS, COLORS[0]]
    assert all(each.get_markerfacecolor() == each.get_color() for each in others)
    assert last.get_markerfacecolor() == "white" and last.get_linestyle() == ":"
    assert len({each.get_marker() for each in (*others, last)}) == len(series)


def test_spreads_at_the_same_place_stand_beside_each_other() -> None:
    series = [Series(str(n), (Point(1.0, 0.5, 0.1), Point(2.0, 0.5, 0.1))) for n in range(3)]
    lines = drawn([Panel("some", series, *PLAIN)]).axes[0].lines
    places = [each.get_transform().transform((1.0, 0.5))[0] for each in lines]
    assert places == sorted(places) and all(b - a > 3 for a, b in itertools.pairwise(places))


def test_every_color_stands_out_from_the_paper() -> None:
    """A contrast of 3 to 1, as WCAG asks of graphics."""

    def luminance(color: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert all(1.05 / (luminance(color) + 0.05) >= 3 for color in (*COLORS, plots.GRAY))
