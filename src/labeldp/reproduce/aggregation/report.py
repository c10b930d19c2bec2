"""Tables and figures of `labeldp reproduce aggregation`, made of the files of its runs alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev

from markupsafe import Markup

from labeldp.report import fixed
from labeldp.reproduce.aggregation.run import AggregationResult
from labeldp.reproduce.plots import Axis, Point, Series, panel, stacked
from labeldp.tables import whole_or_nothing

TABLE = "aggregation.md"

INTRODUCTION = """\
Test errors (mean squared) of Tables 1 to 6 of Brahmbhatt et al., mean ± standard deviation over seeds. Every run is a
simulation: bags, weights and noise come from public seeds. The last column is what a row really promises: delta at
epsilon = 1 by the exact accounting, one for each k, worst seed; 1 is no protection at all."""

LEARNERS = {
    "Adam": "Table 1 (LBA), linear model by Adam",
    "exact": "Table 1 (LBA), linear model by least squares",
}

NUMBERS = {0.1: 2, 0.0: 3, 0.01: 4, 0.5: 5, 1.0: 6}
"""The paper's tables by the share of noisy labels."""

BAGS, ERROR = Axis("bags m, logarithmic scale", log=True), Axis("test error")

Group = Sequence[AggregationResult]


def write_aggregation(results: Group, folder: str | os.PathLike[str]) -> list[str]:
    """Write `aggregation.md` and an SVG for each problem; what stood there is replaced.

    Returns:
        The paths.
    """
    names = list(dict.fromkeys(each.run.problem for each in results))
    parts = {name: [each for each in results if each.run.problem == name] for name in names}
    pictures = {f"{name}.svg": f"{_figure(name, own)}\n" for name, own in parts.items() if any(r.run.bags for r in own)}
    texts = {TABLE: aggregation_markdown(results), **pictures}
    for name, text in texts.items():
        with whole_or_nothing(Path(folder) / name, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
    return [str(Path(folder) / name) for name in texts]


def aggregation_markdown(results: Group) -> str:
    """All tables, problem by problem, as Markdown."""
    text = ["# Learning from aggregates", "", INTRODUCTION, ""]
    for name in dict.fromkeys(each.run.problem for each in results):
        text += [f"## {name}", ""]
        for title, learner, own, alone in _tables([each for each in results if each.run.problem == name]):
            text += [f"### {title}", "", *_table(learner, own), "", _instances(alone), ""]
    return "\n".join(text)


def _tables(results: Group) -> Iterator[tuple[str, str, Group, Group]]:
    """Titles, learners, the cells of one table, and the runs on the labels themselves."""
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
    """Shares of noisy labels where whole numbers of them differ from what was asked for."""
    drawn = {each.run.size: each.cell.share or 0.0 for each in sorted(own, key=lambda each: each.run.size)}
    exact = all(math.isclose(value, own[0].run.share) for value in drawn.values())
    return "" if exact else f" (in whole labels {' / '.join(f'{value:.3f}' for value in drawn.values())})"


def _table(learner: str, own: Group) -> Iterator[str]:
    """A line for each number of bags, a column for each size, and the promise."""
    sizes = sorted({each.run.size for each in own})
    yield f"| m | {' | '.join(f'k = {size}' for size in sizes)} | seeds | promises: δ(1) |"
    yield "|---:|" + "---:|" * (len(sizes) + 1) + "---|"
    for count in sorted({each.run.bags for each in own}):
        cells = [[each for each in own if (each.run.bags, each.run.size) == (count, size)] for size in sizes]
        seeds = max(len(cell) for cell in cells)
        errors = [_spread([each.cell.errors[learner] for each in cell]) for cell in cells]
        yield f"| {count} | {' | '.join(errors)} | {seeds} | {_promise(cells)} |"


def _promise(cells: Sequence[Group]) -> str:
    """Delta at epsilon = 1 for each size, rounded up; the worst of the seeds."""
    if any(each.cell.delta is None for cell in cells for each in cell):
        return "none"
    return " / ".join(_upward(max(each.cell.delta or 0.0 for each in cell)) if cell else "–" for cell in cells)


def _upward(delta: float) -> str:
    """Three decimals, rounded up; small ones as powers."""
    return f"{math.ceil(1000 * delta) / 1000:.3f}" if delta >= 0.01 else f"{delta * 1.005:.1e}"


def _instances(alone: Group) -> str:
    """What the labels themselves give."""
    errors = [error for each in alone for error in each.cell.errors.values()]
    if not errors:
        return "The labels themselves were not learnt from."
    return f"From the labels themselves ({alone[0].cell.records:,} records, no protection): {_spread(errors)}."


def _spread(errors: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    if not errors:
        return "–"
    return fixed(fmean(errors), 2) + (f" ± {fixed(stdev(errors), 2)}" if len(errors) > 1 else "")


def _figure(name: str, results: Group) -> Markup:
    """A panel for each table: errors by the number of bags, a line for each size."""
    panels = []
    for title, learner, own, _ in _tables(results):
        sizes = sorted({each.run.size for each in own})
        series = [_line(f"k = {size}", learner, [each for each in own if each.run.size == size]) for size in sizes]
        panels.append(panel(title, series, BAGS, ERROR))
    return stacked(f"Test errors on {name} by the number of bags.", panels)


def _line(name: str, learner: str, own: Group) -> Series:
    """Means and spreads by the number of bags."""
    errors: Callable[[int], list[float]] = lambda m: [r.cell.errors[learner] for r in own if r.run.bags == m]  # noqa: E731
    counts = sorted({each.run.bags for each in own})
    found = [(count, errors(count)) for count in counts]
    return Series(name, tuple(Point(m, fmean(e), stdev(e) if len(e) > 1 else 0.0) for m, e in found))
