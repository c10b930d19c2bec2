"""Tables and figures of learning from bags."""

import math
import os
from collections.abc import Iterator, Sequence

from labeldp.report import fixed
from papers.aggregation.published import COUNTS, PRINTED, SIZES
from papers.aggregation.run import AggregationResult
from papers.harness import markdown_table, write_files
from papers.plots import Axis, Panel, Point, Series, lines

TABLE = "aggregation.md"
INTRODUCTION = """\
Test errors (mean squared) of Tables 1 to 6 of Brahmbhatt et al., mean ± standard deviation over seeds. Every run is a
simulation: bags, weights and noise come from public seeds. The last column is what a row really promises: delta at
epsilon = 1 by the exact accounting, one for each k, worst seed; 1 is no protection at all."""

LEARNERS = {
    "natural": "Table 1 (LBA), linear model by Adam, unscaled numbers",
    "Adam": "Table 1 (LBA), linear model by Adam",
    "exact": "Table 1 (LBA), linear model by least squares",
}

NUMBERS = {0.1: 2, 0.0: 3, 0.01: 4, 0.5: 5, 1.0: 6}
"""The paper's tables by the share of noisy labels."""

BAGS, ERROR = Axis("bags m, logarithmic scale", log=True), Axis("test error")
Group = Sequence[AggregationResult]


def write_aggregation(results: Group, folder: str | os.PathLike[str]) -> list[str]:
    """Write `aggregation.md` and an SVG for each problem, over what was there; return the paths."""
    pictures = {
        f"{name}.svg": _figure(name, own)
        for name, own in _problems(results)
        if any(each.run.bags and each.run.table != "adam" for each in own)
    }
    for name, own in _problems(results):
        for cells in _adam_cells(own):
            run = cells[0].run
            pictures[f"{name}-adam-m{run.bags}-k{run.size}.svg"] = _adam_figure(name, cells)
    return write_files(folder, {TABLE: aggregation_markdown(results), **pictures})


def aggregation_markdown(results: Group) -> str:
    """Return all tables, problem by problem, as Markdown."""
    text = ["# Learning from aggregates", "", INTRODUCTION, ""]
    for name, own in _problems(results):
        text += [f"## {name}", ""]
        for title, learner, cells, alone in _tables(own):
            text += [f"### {title}", "", *_table(learner, cells), "", _instances(alone), ""]
        for cells in _adam_cells(own):
            text += [f"### Adam, m = {cells[0].run.bags}, k = {cells[0].run.size}", "", *_adam_table(cells), ""]
    return "\n".join([*text, *printed_tables()])


def _adam_cells(own: Group) -> list[Group]:
    """Return the cells that were learned by Adam in several ways."""
    found = [each for each in own if each.run.table == "adam"]
    places = dict.fromkeys((each.run.size, each.run.bags) for each in found)
    return [[each for each in found if (each.run.size, each.run.bags) == place] for place in places]


def _adam_table(cells: Group) -> Iterator[str]:
    """Return a line for each way to train: its error at the start, after the last epoch, and of what was kept."""
    rows = []
    for name in cells[0].cell.errors:
        curves = [each.cell.curves.get(name) for each in cells]
        first = [curve[0][1] for curve in curves if curve]
        rows.append([name, _spread(first), _spread([each.cell.errors[name] for each in cells]), len(cells)])
    return markdown_table(["", "before the first step", "at the end", "seeds"], "lrrr", rows)


def _adam_figure(name: str, cells: Group) -> str:
    """Draw test errors by epoch, means over seeds; a line for each way to train."""
    series = []
    for way in cells[0].cell.curves:
        curves = [dict(each.cell.curves[way]) for each in cells]
        epochs = sorted(set.intersection(*(set(curve) for curve in curves)) - {0})
        series.append(Series(way, tuple(Point.of(e, [curve[e] for curve in curves]) for e in epochs)))
    size = f"m = {cells[0].run.bags}, k = {cells[0].run.size}"
    panel = Panel(f"{name}, {size}", series, Axis("epoch, logarithmic scale", log=True), ERROR)
    return lines(f"Test errors on {name} by epoch, {size}.", [panel])


def printed_tables() -> Iterator[str]:
    """Yield the tables as the paper prints them, one after the other, on both of its data sets."""
    yield from ("## What the paper prints", "", "Mean ± standard deviation over ten seeds.", "")
    for table in PRINTED:
        yield from (f"### Table {table.number}, published, {table.data}", "")
        sizes = SIZES[table.data]
        rows = [
            [count, *(table.cells[count, size].replace("±", " ± ") for size in sizes)] for count in COUNTS[table.data]
        ]
        yield from markdown_table(["m", *(f"k = {size}" for size in sizes)], "r" * (1 + len(sizes)), rows)
        yield from ("", f"From the labels themselves: {table.labels.replace('±', ' ± ')}.", "")


def _problems(results: Group) -> list[tuple[str, Group]]:
    """Return the results of each problem."""
    names = dict.fromkeys(each.run.problem for each in results)
    return [(name, [each for each in results if each.run.problem == name]) for name in names]


def _tables(results: Group) -> Iterator[tuple[str, str, Group, Group]]:
    """Yield titles, learners, the cells of one table, and the runs on the labels themselves."""
    linear = [each for each in results if each.run.table == "lba"]
    for learner, title in LEARNERS.items():
        if own := [each for each in linear if each.run.bags]:
            yield title, learner, own, [each for each in linear if not each.run.bags]
    networks = [each for each in results if each.run.table == "llp" and each.run.bags]
    alone = [each for each in results if each.run.table == "llp" and not each.run.bags]
    for share in sorted({each.run.share for each in networks}):
        own = [each for each in networks if each.run.share == share]
        number = f"Table {NUMBERS[share]} (LLP)" if share in NUMBERS else "LLP"
        yield f"{number}, network, ρ = {share:g}{_drawn(own)}", "network", own, alone


def _drawn(own: Group) -> str:
    """Return the shares of noisy labels where whole numbers of them differ from what was asked for."""
    drawn = {each.run.size: each.cell.share or 0.0 for each in sorted(own, key=lambda each: each.run.size)}
    exact = all(math.isclose(value, own[0].run.share) for value in drawn.values())
    return "" if exact else f" (in whole labels {' / '.join(f'{value:.3f}' for value in drawn.values())})"


def _table(learner: str, own: Group) -> Iterator[str]:
    """Return a line for each number of bags, a column for each size, and the promise."""
    sizes = sorted({each.run.size for each in own})
    rows = []
    for count in sorted({each.run.bags for each in own}):
        cells = [[each for each in own if (each.run.bags, each.run.size) == (count, size)] for size in sizes]
        errors = [_spread([each.cell.errors[learner] for each in cell]) for cell in cells]
        rows.append([count, *errors, max(map(len, cells)), _promise(cells)])
    heads = ["m", *(f"k = {size}" for size in sizes), "seeds", "promises: δ(1)"]
    return markdown_table(heads, "r" * (len(sizes) + 2) + "l", rows)


def _promise(cells: Sequence[Group]) -> str:
    """Return delta at epsilon = 1 for each size, rounded up; the worst of the seeds."""
    if any(each.cell.delta is None for cell in cells for each in cell):
        return "none"
    return " / ".join(_upward(max(each.cell.delta or 0.0 for each in cell)) if cell else "–" for cell in cells)


def _upward(delta: float) -> str:
    """Return three decimals, rounded up; small ones as powers."""
    return f"{math.ceil(1000 * delta) / 1000:.3f}" if delta >= 0.01 else f"{delta * 1.005:.1e}"


def _instances(alone: Group) -> str:
    """Return what the labels themselves give."""
    errors = [error for each in alone for error in each.cell.errors.values()]
    if not errors:
        return "The labels themselves were not learned from."
    return f"From the labels themselves ({alone[0].cell.records:,} records, no protection): {_spread(errors)}."


def _spread(errors: Sequence[float]) -> str:
    """Return mean ± standard deviation."""
    if not errors:
        return "–"
    point = Point.of(0.0, errors)
    return fixed(point.value, 2) + (f" ± {fixed(point.spread, 2)}" if len(errors) > 1 else "")


def _figure(name: str, results: Group) -> str:
    """Draw a panel for each table: errors by the number of bags, a line for each size."""
    panels = []
    for title, learner, own, _ in _tables(results):
        series = []
        for size in sorted({each.run.size for each in own}):
            cells = [each for each in own if each.run.size == size]
            counts = sorted({each.run.bags for each in cells})
            errors = [[each.cell.errors[learner] for each in cells if each.run.bags == count] for count in counts]
            series.append(Series(f"k = {size}", tuple(map(Point.of, counts, errors))))
        panels.append(Panel(title, series, BAGS, ERROR))
    return lines(f"Test errors on {name} by the number of bags.", panels)
