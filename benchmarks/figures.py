"""Charts of the documentation, drawn from stored results.

    python benchmarks/figures.py gather      # images.csv and published tables -> docs/results/data/headline.csv
    python benchmarks/figures.py headline    # that file -> docs/_static/headline.svg and headline-dark.svg

`gather` takes the rows that runs stored, and published figures from `papers/multistage/published.py`.
Drawing needs matplotlib: the extra `papers` or `docs`.
"""

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pages

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

DATA = ROOT / "docs" / "results" / "data" / "headline.csv"
CHART = ROOT / "docs" / "_static" / "headline.svg"

PANELS = {"fashion_mnist": "Fashion-MNIST", "mnist": "MNIST"}
LINES = {
    "best": ("labeldp, central", "measured"),
    "best-local": ("labeldp, local", "measured"),
    "LP-2ST": ("LP-2ST", "published"),
    "LabelDP-Pro": ("LabelDP-Pro, central", "published"),
    "ALIBI": ("ALIBI", "published"),
}
"""By the first word of a row of the table: the name of its line, and whether it was measured or published."""

STYLES = {
    "labeldp, central": {"color": "#1f77b4", "linewidth": 2.2, "marker": "o"},
    "labeldp, local": {"color": "#e8710a", "linewidth": 2.2, "marker": "o"},
    "LP-2ST": {"color": "gray", "linestyle": "--", "marker": "s"},
    "LabelDP-Pro, central": {"color": "gray", "linestyle": ":", "marker": "^"},
    "ALIBI": {"color": "gray", "linestyle": "-.", "marker": "v"},
}
NAMES = {
    "LP-2ST": "LP-2ST (published)",
    "LabelDP-Pro, central": "LabelDP-Pro, central (published)",
    "ALIBI": "ALIBI (published)",
}
"""Names in the legend, where they differ."""

LOWEST = 68.0
"""Percent at the bottom of both panels."""


class Point(NamedTuple):
    """One mean accuracy in percent; spread is the standard deviation over runs, empty if published."""

    data: str
    line: str
    source: str
    epsilon: float
    mean: float
    spread: str
    runs: str


def gathered() -> list[Point]:
    """Return the points of the chart from the table of images and from the figures of the papers."""
    from papers.multistage.published import PRINTED

    head, rows = pages.read("images")
    epsilons = [float(column.removeprefix("ε = ")) for column in head[4:]]
    points = []
    for data in PANELS:
        for row in rows:
            if row[0] != data or (line := LINES.get(re.split(r"[ ,:]", row[1])[0])) is None or ":" in row[1]:
                continue
            for epsilon, cell in zip(epsilons, row[4:], strict=True):
                if match := re.fullmatch(r"([\d.]+)(?: ± ([\d.]+))?(?: \((\d+)\))?", cell):
                    points.append(Point(data, *line, epsilon, float(match[1]), match[2] or "", match[3] or ""))
        more = PRINTED[data]["lp-2st"].items()
        points += [Point(data, *LINES["LP-2ST"], epsilon, mean, "", "") for epsilon, mean in more if 2 < epsilon <= 4]
    return points


def read() -> list[Point]:
    """Return the stored points."""
    with DATA.open() as file:
        return [
            Point(
                row["data"],
                row["line"],
                row["source"],
                float(row["epsilon"]),
                float(row["mean"]),
                row["spread"],
                row["runs"],
            )
            for row in csv.DictReader(file)
        ]


def draw(points: list[Point], path: Path, ink: str) -> None:
    """Draw one panel for each data set; ours end at epsilon = 2, above which they were not measured."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    colors = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
    with mpl.rc_context({**colors, "svg.hashsalt": "labeldp", "svg.fonttype": "none", "font.size": 9}):
        figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.0), sharey=True, layout="constrained")
        for panel, (data, title) in zip(panels, PANELS.items(), strict=True):
            _draw_panel(panel, [point for point in points if point.data == data])
            panel.set_title(title)
        panels[0].set_ylabel("test accuracy (%)")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8
        )
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def _draw_panel(panel: Any, points: list[Point]) -> None:
    for line, style in STYLES.items():
        epsilons, means, spreads = zip(
            *sorted((point.epsilon, point.mean, float(point.spread or 0)) for point in points if point.line == line),
            strict=True,
        )
        error = spreads if any(spreads) else None
        panel.errorbar(epsilons, means, yerr=error, markersize=4, capsize=2, label=NAMES.get(line, line), **style)
    panel.set_xscale("log", base=2)
    panel.set_xlim(0.45, 4.5)
    panel.set_ylim(LOWEST, 101)
    panel.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    panel.set_xlabel("ε")
    panel.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["gather", "headline"])
    if parser.parse_args().action == "gather":
        DATA.parent.mkdir(exist_ok=True)
        with DATA.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Point._fields)
            writer.writerows(gathered())
    else:
        draw(read(), CHART, "#24292f")
        draw(read(), CHART.with_name("headline-dark.svg"), "#e6edf3")
