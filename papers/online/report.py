"""Tables and figures on online learning."""

import math
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import fmean

from labeldp.online import methods_of
from labeldp.report import fixed
from papers.harness import markdown_table, write_files
from papers.online.run import AutoChoice, OnlineCell, OnlineResult, auto_choices, online_cells
from papers.online.tables import LOWER_BOUND, OnlinePoint
from papers.plots import Axis, Panel, Point, Series, lines

TABLE = "online.md"
INTRODUCTION = """\
Regret against the best fixed expert, mean ± standard deviation over seeds, delta = 1e-6, one round's losses replaced by
any others. Every run is a simulation: losses are made up or public, coins come from public seeds, and regret itself is
no private output.

- *bound*: what a plan promises, for any losses that do not answer to the actions (doubling: for independent draws).
- *mean*: the regret in the mean over all coins of the learner, computed; better-of-two is played a few times instead.
- *played*: the regret of single plays of the learner, one for each seed, mean ± deviation; – where nothing was played.
- *switches*: how often a play's action was another one than in the round before.
- *multiplicative-weights* ("no privacy" in figures): the learner without privacy. *blind*: any expert, at random.
- *l2p-printed*: Algorithm 1 with the best parameters that the printed formula of Theorem 3.2 allows. Nothing proves its
  privacy; *l2p* is the same algorithm with parameters that are proved.
- *auto / best*: the regret of what a plan takes by itself, over the least regret of those that it may take."""

ALPHAS = {"0": 0.0, "1/6": 1 / 6, "1/4": 1 / 4, "1/3": 1 / 3, "1/2": 1 / 2, "2/3": 2 / 3, "1": 1.0}
PANELS = {"a": "(a) convex losses, d = polylog T", "b": "(b) convex losses, d = T^(1/3)", "c": "(c) experts, d = T"}


def write_online(results: Sequence[OnlineResult], folder: str | os.PathLike[str]) -> list[str]:
    """Write `online.md` and the figures, over what was there; return the paths."""
    pictures = {f"{name}.svg": picture for name, picture in online_figures(results)}
    return write_files(folder, {TABLE: online_markdown(results), **pictures})


def online_markdown(results: Sequence[OnlineResult]) -> str:
    """Return all tables as Markdown."""
    text = ["# Deciding every round, in private", "", INTRODUCTION, ""]
    for table, (title, part) in PARTS.items():
        if own := [each for each in results if each.run.table == table]:
            text += [f"## {title}", "", *part(own), ""]
    return "\n".join(text)


def _of_panel(points: Sequence[OnlinePoint], letter: str) -> Iterator[tuple[str, str, list[OnlinePoint]]]:
    """Yield name, source and points of each curve in a panel of Figure 1."""
    own = [point for point in points if point.setting[0] == letter]
    for (name, setting), group in groupby(own, lambda point: (point.name, point.setting)):
        yield name, setting[3:], list(group)


def _exponents(results: Sequence[OnlineResult]) -> Iterator[str]:
    """Yield β by α, panel by panel."""
    yield "Regret T^β for ε = T^−α, without logarithms; *free* is the largest α at which β is still 1/2."
    for letter, title in PANELS.items():
        rows = []
        for name, source, points in _of_panel(results[0].points, letter):
            at = [min(points, key=lambda point: abs(point.at - alpha)).value for alpha in ALPHAS.values()]
            free = fixed(points[0].bound, 3) if points[0].bound >= -1e-6 else "never"
            rows.append([name, source, *(fixed(value, 3) for value in at), free])
        yield from ("", f"### {title}", "")
        heads = ["", "", *(f"α = {name}" for name in ALPHAS), "free"]
        yield from markdown_table(heads, "ll" + "r" * (len(ALPHAS) + 1), rows)


def _bounds(results: Sequence[OnlineResult]) -> Iterator[str]:
    """Yield bounds by size and epsilon: a line for each of them."""
    ordered = sorted(results, key=lambda each: (each.size, each.run.epsilon))
    yield "Rates have constants of one and no logarithms of T and 1/delta; planned bounds are whole, and proven."
    yield ""
    sizes = [f"T = 1e{math.log10(each.size[0]):.0f}, d = 1e{math.log10(each.size[1]):.0f}" for each in ordered]
    heads = [f"{size}, ε = {each.run.epsilon:g}" for size, each in zip(sizes, ordered, strict=True)]
    rows = [
        [point.name, point.setting, *(_whole(each.points[place].value) for each in ordered)]
        for place, point in enumerate(ordered[0].points)
    ]
    yield from markdown_table(["", "", *heads], "ll" + "r" * len(heads), rows)


def _excess(results: Sequence[OnlineResult]) -> Iterator[str]:
    """Yield what batches cost."""
    yield "Two experts that lose in turns, for a batch each: regret in batches beyond that without them."
    yield ""
    names = [point.name for point in results[0].points]
    rows = [
        [f"{each.size[0]:,}", f"{each.run.epsilon:g}", each.points[0].setting, *(_whole(p.value) for p in each.points)]
        for each in sorted(results, key=lambda each: each.size)
    ]
    yield from markdown_table(["T", "ε", "", *names], "rrl" + "r" * len(names), rows)


def _regrets(results: Sequence[OnlineResult]) -> Iterator[str]:
    """Yield a table for each size and epsilon: a line for each learner, a column for each kind of losses."""

    def key(each: OnlineResult) -> tuple[tuple[int, int], float]:
        return each.size, each.run.epsilon

    for (size, epsilon), found in groupby(sorted(results, key=key), key):
        group = list(found)
        cells, choices = online_cells(group), auto_choices(group)
        kinds = list(dict.fromkeys(each.run.data for each in group))
        seeds = max(len(each.values) for each in cells)
        many = f"{seeds} seeds" if seeds > 1 else "1 seed"
        rows = []
        for name in dict.fromkeys(each.name for each in cells):
            own = {each.data: each for each in cells if each.name == name}
            bound = _whole(next(iter(own.values())).bound)
            rows.append([name, bound, *(_spread(own[kind].values) if kind in own else "–" for kind in kinds)])
        ratios = {each.data: _ratio(each) for each in choices}
        taken = f"| auto ({choices[0].method}) / best | | {' | '.join(ratios[kind] for kind in kinds)} |"
        yield from (f"### T = {size[0]:,}, d = {size[1]:,}, ε = {epsilon:g}; {many}", "")
        yield from (*markdown_table(["", "bound", *kinds], "lr" + "r" * len(kinds), rows), taken, "")


def _ratio(choice: AutoChoice) -> str:
    """Return two digits, where there is a ratio."""
    return "–" if choice.ratio is None else fixed(choice.ratio, 2)


def _real(results: Sequence[OnlineResult]) -> Iterator[str]:
    """Yield a table for each sequence: for each learner its mean, a play, and switches for each epsilon."""
    for data, size in dict.fromkeys((each.run.data, each.size) for each in results):
        group = [each for each in results if (each.run.data, each.size) == (data, size)]
        cells, epsilons = online_cells(group), sorted({each.run.epsilon for each in group})
        rounds, experts = group[0].size
        rows = []
        for name in dict.fromkeys(each.name for each in cells):
            own = {each.epsilon: each for each in cells if each.name == name}
            rows.append([name, *(number for epsilon in epsilons for number in _three(own.get(epsilon)))])
        heads = [head for e in epsilons for head in (f"ε = {e:g}: mean", "played", "switches")]
        yield from (f"### {data}: {rounds:,} rounds, {experts} experts", "")
        yield from markdown_table(["", *heads], "l" + "r" * len(heads), rows)
        taken = ", ".join(f"{each.method} at ε = {each.epsilon:g} ({_ratio(each)})" for each in auto_choices(group))
        yield from ("", f"A plan takes by itself, with its regret over the best that it may take: {taken}.", "")


def _three(cell: OnlineCell | None) -> tuple[str, str, str]:
    """Return the mean over coins, the spread of plays, and switches."""
    if cell is None:
        return "–", "–", "–"
    played = _spread(cell.played) if cell.played else "–"
    return _whole(fmean(cell.values)), played, _whole(fmean(cell.switches)) if cell.switches else "–"


def _whole(value: float) -> str:
    """Return a number of rounds."""
    return fixed(value, 1 if abs(value) < 9.95 else 0)


def _spread(values: Sequence[float]) -> str:
    """Return mean ± standard deviation."""
    point = Point.of(0.0, values)
    return _whole(point.value) + (f" ± {_whole(point.spread)}" if len(values) > 1 else "")


PARTS = {
    "exponents": ("Figure 1: exponents", _exponents),
    "table1": ("Table 1: bounds", _bounds),
    "excess": ("Proposition 3.3: the cost of batches", _excess),
    "regret": ("Regret on made-up losses", _regrets),
    "hard": ("The adversary of Theorem 4.2", _regrets),
    "adversary": ("The adversary of Theorem 4.2, played", _real),
    "stocks": ("Stocks", _real),
    "elec2": ("Electricity prices", _real),
}
"""Titles of the tables, and what is in them."""

SHOWN = {
    name: name if name != "multiplicative-weights" else "no privacy"
    for name in (
        "multiplicative-weights",
        "dartboard",
        "l2p",
        "l2p-printed",
        "matrix-factorization",
        "doubling",
        "redraw",
        "shrinking-dartboard",
        "tree",
        *methods_of("experts"),
    )
}
"""Learners and their names in figures."""

FAR = 20.0
"""Regrets are shown on a logarithmic scale from this ratio on."""

APART = 0.08
"""Of learners on the same losses, where losses are 1 apart."""

EPSILON = Axis("ε, logarithmic scale", log=True)


def online_figures(results: Sequence[OnlineResult]) -> Iterator[tuple[str, str]]:
    """Yield names and SVG texts."""
    for each in results:
        if each.run.table == "exponents":
            yield "exponents", _figure_exponents(each.points)
    made = [each for each in results if each.run.table == "regret"]
    for size in sorted({each.size for each in made}):
        own = [each for each in made if each.size == size]
        panels = [
            _by_losses([each for each in own if each.run.epsilon == epsilon], epsilon)
            for epsilon in sorted({each.run.epsilon for each in own})
        ]
        label = f"Regret in {size[0]} rounds with {size[1]} experts, by losses."
        yield f"regret-T{size[0]}-d{size[1]}", lines(label, panels, key_above=True)
    for data in dict.fromkeys(each.run.data for each in results if each.run.table in ("stocks", "elec2")):
        yield data, _by_epsilon(data, [each for each in results if each.run.data == data])
    if own := [each for each in results if each.run.table == "adversary"]:
        yield "adversary", _adversary_figure(own)


def _figure_exponents(points: Sequence[OnlinePoint]) -> str:
    """Draw β against α, a panel for each setting."""
    panels = []
    for letter, title in PANELS.items():
        series = [
            Series(f"{name}, {source}" if name == "L2P" else name, tuple(Point(each.at, each.value) for each in curve))
            for name, source, curve in _of_panel(points, letter)
        ]
        panels.append(Panel(title, series, Axis("α of ε = T^−α"), Axis("exponent β of the regret T^β")))
    return lines("Exponents of regret against exponents of epsilon.", panels)


def _by_losses(results: Sequence[OnlineResult], epsilon: float) -> Panel:
    """Return regret on every kind of losses, a series for each learner, with points or without; none is below 1."""
    kinds = tuple(dict.fromkeys(each.run.data for each in results))
    cells, size = online_cells(results), results[0].size
    series = []
    for beside, (name, label) in enumerate(SHOWN.items()):
        means = {each.data: fmean(each.values) for each in cells if each.name == name}
        shift = APART * (beside - (len(SHOWN) - 1) / 2)
        points = [Point(at + shift, means[kind]) for at, kind in enumerate(kinds) if means.get(kind, 0.0) >= 1]
        series.append(Series(label, tuple(points), joined=False))
    title = f"T = {size[0]:,}, d = {size[1]:,}, ε = {epsilon:g}"
    return Panel(title, series, Axis("losses", names=kinds), Axis("regret; none is shown below 1", powers=True))


def _by_epsilon(data: str, results: Sequence[OnlineResult]) -> str:
    """Draw regret on real losses, with the spread of plays, and that of any expert."""
    cells = online_cells(results)
    means = [fmean(each.values) for each in cells if each.name in SHOWN or each.name == "blind"]
    far = min(means) > 0 and max(means) > FAR * min(means)
    series = [Series("", _points(cells, "blind"), reference=True)]
    series += [Series(label, points) for name, label in SHOWN.items() if (points := _points(cells, name))]
    regret = Axis("regret; bars: deviation of single plays; dashed: any expert, at random", powers=far)
    title = f"Regret on {data}"
    return lines(f"{title}, by ε.", [Panel(title, series, EPSILON, regret)], key_above=True)


def _adversary_figure(results: Sequence[OnlineResult]) -> str:
    """Draw plays against the adversary by epsilon, a panel for each T; dashed: any expert, and the lower bound."""
    panels = []
    for size in sorted({each.size for each in results}):
        cells = online_cells([each for each in results if each.size == size])
        cells = [each for each in cells if fmean(each.values) >= 1]
        series = [Series("", _points(cells, name), reference=True) for name in ("blind", LOWER_BOUND)]
        series += [Series(label, points) for name, label in SHOWN.items() if (points := _points(cells, name))]
        regret = Axis(f"regret, from 1; dashed: any expert, at random, and {LOWER_BOUND}", powers=True)
        panels.append(Panel(f"T = {size[0]:,}, d = {size[1]:,}", series, EPSILON, regret))
    return lines("Regret against the adversary of Theorem 4.2, by ε.", panels, key_above=True)


def _points(cells: Sequence[OnlineCell], name: str) -> tuple[Point, ...]:
    """Return the means of a learner by epsilon, with the spread of its plays where there are several."""
    return tuple(
        Point(each.epsilon, fmean(each.values), Point.of(each.epsilon, each.played or (0.0,)).spread)
        for each in sorted(cells, key=lambda each: each.epsilon)
        if each.name == name
    )
