"""Tables and figures."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import log, log10
from pathlib import Path
from statistics import fmean, stdev

from markupsafe import Markup

from labeldp.report import fixed
from labeldp.reproduce.online.run import AutoChoice, OnlineCell, OnlineResult, auto_choices, online_cells
from labeldp.reproduce.online.tables import OnlinePoint
from labeldp.reproduce.plots import Axis, Point, Series, lines, panel, stacked
from labeldp.tables import whole_or_nothing

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
    """Write `online.md` and the figures; what stood there is replaced.

    Returns:
        The paths.
    """
    pictures = {f"{name}.svg": f"{picture}\n" for name, picture in online_figures(results)}
    texts = {TABLE: online_markdown(results), **pictures}
    for name, text in texts.items():
        with whole_or_nothing(Path(folder) / name, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
    return [str(Path(folder) / name) for name in texts]


def online_markdown(results: Sequence[OnlineResult]) -> str:
    """All tables as Markdown."""
    text = ["# Deciding every round, in private", "", INTRODUCTION, ""]
    own = {table: [each for each in results if each.run.table == table] for table in TITLES}
    for table, title in TITLES.items():
        if own[table]:
            text += [f"## {title}", "", *PARTS[table](own[table]), ""]
    return "\n".join(text)


def _exponents(results: Sequence[OnlineResult]) -> Iterator[str]:
    """β by α, panel by panel."""
    yield "Regret T^β for ε = T^−α, without logarithms; *free* is the largest α at which β is still 1/2."
    points = results[0].points
    for letter, title in PANELS.items():
        yield from ("", f"### {title}", "", f"| | | {' | '.join(f'α = {name}' for name in ALPHAS)} | free |")
        yield "|---|---|" + "---:|" * (len(ALPHAS) + 1)
        own = [point for point in points if point.setting[0] == letter]
        for (name, setting), group in groupby(own, lambda point: (point.name, point.setting)):
            found = list(group)
            at = [min(found, key=lambda point: abs(point.at - alpha)).value for alpha in ALPHAS.values()]
            free = fixed(found[0].bound, 3) if found[0].bound >= -1e-6 else "never"
            yield f"| {name} | {setting[3:]} | {' | '.join(fixed(value, 3) for value in at)} | {free} |"


def _bounds(results: Sequence[OnlineResult]) -> Iterator[str]:
    """Bounds by size and epsilon: a line for each of them."""
    ordered = sorted(results, key=lambda each: (each.size, each.run.epsilon))
    yield "Rates have constants of one and no logarithms of T and 1/delta; planned bounds are whole, and proven."
    sizes = [f"T = 1e{math.log10(each.size[0]):.0f}, d = 1e{math.log10(each.size[1]):.0f}" for each in ordered]
    heads = [f"{size}, ε = {each.run.epsilon:g}" for size, each in zip(sizes, ordered, strict=True)]
    yield from ("", f"| | | {' | '.join(heads)} |", "|---|---|" + "---:|" * len(heads))
    for place, point in enumerate(ordered[0].points):
        values = [each.points[place].value for each in ordered]
        yield f"| {point.name} | {point.setting} | {' | '.join(_whole(value) for value in values)} |"


def _excess(results: Sequence[OnlineResult]) -> Iterator[str]:
    """What batches cost."""
    yield "Two experts that lose in turns, for a batch each: regret in batches beyond that without them."
    names = [point.name for point in results[0].points]
    yield from ("", f"| T | ε | | {' | '.join(names)} |", "|---:|---:|---|" + "---:|" * len(names))
    for each in sorted(results, key=lambda each: each.size):
        values = " | ".join(_whole(point.value) for point in each.points)
        yield f"| {each.size[0]:,} | {each.run.epsilon:g} | {each.points[0].setting} | {values} |"


def _regrets(results: Sequence[OnlineResult]) -> Iterator[str]:
    """A table for each size and epsilon: a line for each learner, a column for each kind of losses."""
    for (size, epsilon), group in _grouped(results):
        cells, choices = online_cells(group), auto_choices(group)
        kinds = list(dict.fromkeys(each.run.data for each in group))
        seeds = max(len(each.values) for each in cells)
        many = f"{seeds} seeds" if seeds > 1 else "1 seed"
        yield from (f"### T = {size[0]:,}, d = {size[1]:,}, ε = {epsilon:g}; {many}", "")
        yield f"| | bound | {' | '.join(kinds)} |"
        yield "|---|---:|" + "---:|" * len(kinds)
        for name in dict.fromkeys(each.name for each in cells):
            own = {each.data: each for each in cells if each.name == name}
            shown = " | ".join(_spread(own[kind].values) if kind in own else "–" for kind in kinds)
            yield f"| {name} | {_whole(next(iter(own.values())).bound)} | {shown} |"
        yield from (_auto(choices, kinds), "")


def _auto(choices: Sequence[AutoChoice], kinds: Sequence[str]) -> str:
    """What a plan takes, over the best of the learners with a bound for any losses."""
    ratios = {each.data: _ratio(each) for each in choices}
    return f"| auto ({choices[0].method}) / best | | {' | '.join(ratios[kind] for kind in kinds)} |"


def _ratio(choice: AutoChoice) -> str:
    """Two digits, where there is a ratio."""
    return "–" if choice.ratio is None else fixed(choice.ratio, 2)


def _real(results: Sequence[OnlineResult]) -> Iterator[str]:
    """A table for each sequence: a line for each learner, its mean, a play, and switches for each epsilon."""
    for data in dict.fromkeys(each.run.data for each in results):
        group = [each for each in results if each.run.data == data]
        cells, epsilons = online_cells(group), sorted({each.run.epsilon for each in group})
        rounds, experts = group[0].size
        yield from (f"### {data}: {rounds:,} rounds, {experts} experts", "")
        yield f"| | {' | '.join(f'ε = {e:g}: mean | played | switches' for e in epsilons)} |"
        yield "|---|" + "---:|---:|---:|" * len(epsilons)
        for name in dict.fromkeys(each.name for each in cells):
            own = {each.epsilon: each for each in cells if each.name == name}
            yield f"| {name} | {' | '.join(_three(own.get(epsilon)) for epsilon in epsilons)} |"
        taken = ", ".join(f"{each.method} at ε = {each.epsilon:g} ({_ratio(each)})" for each in auto_choices(group))
        yield from ("", f"A plan takes by itself, with its regret over the best that it may take: {taken}.", "")


def _three(cell: OnlineCell | None) -> str:
    """The mean over coins, the spread of plays, and switches."""
    if cell is None:
        return "– | – | –"
    played = _spread(cell.played) if cell.played else "–"
    return f"{_whole(fmean(cell.values))} | {played} | {_whole(fmean(cell.switches)) if cell.switches else '–'}"


def _grouped(results: Sequence[OnlineResult]) -> Iterator[tuple[tuple[tuple[int, int], float], list[OnlineResult]]]:
    """Results by size and epsilon."""
    key = lambda each: (each.size, each.run.epsilon)  # noqa: E731
    for found, group in groupby(sorted(results, key=key), key):
        yield found, list(group)


def _whole(value: float) -> str:
    """A number of rounds."""
    return fixed(value, 1 if abs(value) < 9.95 else 0)


def _spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    return _whole(fmean(values)) + (f" ± {_whole(stdev(values))}" if len(values) > 1 else "")


TITLES = {
    "exponents": "Figure 1: exponents",
    "table1": "Table 1: bounds",
    "excess": "Proposition 3.3: the cost of batches",
    "regret": "Regret on made-up losses",
    "hard": "The adversary of Theorem 4.2",
    "stocks": "Stocks",
    "elec2": "Electricity prices",
}

PARTS = {
    "exponents": _exponents,
    "table1": _bounds,
    "excess": _excess,
    "regret": _regrets,
    "hard": _regrets,
    "stocks": _real,
    "elec2": _real,
}

SHOWN = {
    "multiplicative-weights": "no privacy",
    "dartboard": "dartboard",
    "l2p": "l2p",
    "l2p-printed": "l2p-printed",
    "matrix-factorization": "matrix-factorization",
    "doubling": "doubling",
    "redraw": "redraw",
    "shrinking-dartboard": "shrinking-dartboard",
    "tree": "tree",
    "better-of-two": "better-of-two",
}
"""Learners and their names in figures."""

FAR = 20.0
"""Regrets are shown on a logarithmic scale from this ratio on."""

APART = 0.08
"""Of learners on the same losses, where losses are 1 apart."""

FIGURE_TITLES = {
    "a": "(a) convex losses, d = polylog T",
    "b": "(b) convex losses, d = T^(1/3)",
    "c": "(c) experts, d = T",
}

EXPONENT = Axis("exponent β of the regret T^β"), Axis("α of ε = T^−α")

REGRET, EPSILON = Axis("regret; none is shown below 1", powers=True), Axis("ε, logarithmic scale", log=True)


def online_figures(results: Sequence[OnlineResult]) -> Iterator[tuple[str, Markup]]:
    """Names and pictures."""
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
        key = [Series(label, (), joined=False) for label in SHOWN.values()]
        yield (
            f"regret-T{size[0]}-d{size[1]}",
            stacked(f"Regret in {size[0]} rounds with {size[1]} experts, by losses.", panels, key),
        )
    for data in dict.fromkeys(each.run.data for each in results if each.run.table in ("stocks", "elec2")):
        yield data, _by_epsilon(data, [each for each in results if each.run.data == data])


def _figure_exponents(points: Sequence[OnlinePoint]) -> Markup:
    """β against α, a panel for each setting."""
    panels = []
    for letter, title in FIGURE_TITLES.items():
        own = [point for point in points if point.setting[0] == letter]
        series = [
            Series(
                f"{name}, {setting[3:]}" if name == "L2P" else name, tuple(Point(each.at, each.value) for each in group)
            )
            for (name, setting), group in groupby(own, lambda point: (point.name, point.setting))
        ]
        panels.append(panel(title, series, *reversed(EXPONENT)))
    return stacked("Exponents of regret against exponents of epsilon.", panels)


def _by_losses(results: Sequence[OnlineResult], epsilon: float) -> Markup:
    """Regret on every kind of losses, a series for each learner, with points or without; none is below 1."""
    kinds = tuple(dict.fromkeys(each.run.data for each in results))
    cells, size = online_cells(results), results[0].size
    series = []
    for aside, (name, label) in enumerate(SHOWN.items()):
        own = {each.data: fmean(each.values) for each in cells if each.name == name}
        shift = APART * (aside - (len(SHOWN) - 1) / 2)
        places = [(place + shift, kind) for place, kind in enumerate(kinds) if own.get(kind, 0.0) >= 1]
        series.append(Series(label, tuple(Point(at, log10(own[kind])) for at, kind in places), joined=False))
    title = f"T = {size[0]:,}, d = {size[1]:,}, ε = {epsilon:g}"
    return panel(title, series, Axis("losses", names=kinds), REGRET, named=False)


def _by_epsilon(data: str, results: Sequence[OnlineResult]) -> Markup:
    """Regret on real losses, with the spread of plays, and that of any expert."""
    cells = online_cells(results)
    means = [fmean(each.values) for each in cells if each.name in SHOWN or each.name == "blind"]
    far = min(means) > 0 and max(means) > FAR * min(means)
    shown = [(label, [each for each in cells if each.name == name]) for name, label in SHOWN.items()]
    series = [Series("", _points([each for each in cells if each.name == "blind"], far), reference=True)]
    series += [Series(label, _points(own, far)) for label, own in shown if own]
    title = "regret; bars: deviation of single plays; dashed: any expert, at random"
    return lines(f"Regret on {data}", series, EPSILON, Axis(title, powers=far), key=True)


def _points(cells: Sequence[OnlineCell], far: bool) -> tuple[Point, ...]:
    """Means by epsilon, as logarithms where asked for; learners without kernels have no spread."""
    found = []
    for each in sorted(cells, key=lambda each: each.epsilon):
        mean, spread = fmean(each.values), stdev(each.played) if len(each.played) > 1 else 0.0
        found.append(Point(each.epsilon, *((log10(mean), spread / mean / log(10)) if far else (mean, spread))))
    return tuple(found)
