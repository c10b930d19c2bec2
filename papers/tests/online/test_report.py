"""Tables and figures on online learning from imagined results: every number in its cell, every picture whole."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from papers.online.learners import learners
from papers.online.report import PANELS, SHOWN, online_figures, online_markdown, write_online
from papers.online.run import OnlineResult, RegretRun
from papers.online.tables import OnlinePoint, excess, exponents
from papers.plots import COLORS

SVG = "{http://www.w3.org/2000/svg}"


def result(
    run: RegretRun, points: list[OnlinePoint], auto: str = "", size: tuple[int, int] = (1000, 5)
) -> OnlineResult:
    """A finished run."""
    return OnlineResult(run, tuple(points), auto, size, {}, 0.1, {}, "2026-01-01")


def regret(data: str, seed: int, epsilon: float = 1.0) -> OnlineResult:
    """Regrets that are easy to follow."""
    points = [
        OnlinePoint("multiplicative-weights", 10.0 + seed, bound=30.0),
        OnlinePoint("dartboard", 60.0 + 2 * seed, bound=100.0),
        OnlinePoint("matrix-factorization", 50.0, bound=120.0),
        OnlinePoint("doubling", 20.0, bound=80.0),
        OnlinePoint("blind", 400.0, bound=1000.0),
    ]
    return result(RegretRun("regret", data, 1000, 5, epsilon, seed), points, "dartboard")


def real(epsilon: float, seed: int) -> OnlineResult:
    """Regrets of plays."""
    points = [
        OnlinePoint("dartboard", 12.0 / epsilon, played=12.0 / epsilon + seed, switches=7),
        OnlinePoint("blind", 33.0),
    ]
    return result(RegretRun("stocks", "djia", 0, 0, epsilon, seed), points, "dartboard", (507, 30))


FOUND = [
    result(RegretRun("exponents"), exponents()),
    result(RegretRun("excess", "", 10**4, 2, 0.1), excess(10**4, 0.1), size=(10**4, 2)),
    *(regret(data, seed) for data in ("trap", "shift") for seed in (0, 2)),
    *(real(epsilon, seed) for epsilon in (1.0, 4.0) for seed in (0, 2)),
]


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of tables."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_regret_is_shown_with_its_spread_and_what_a_plan_would_have_taken() -> None:
    table = rows(online_markdown(FOUND))
    assert ["", "bound", "trap", "shift"] in table
    assert ["dartboard", "100", "62 ± 2.8", "62 ± 2.8"] in table
    assert ["auto (dartboard) / best", "", "1.24", "1.24"] in table, "over matrix-factorization, not over doubling"


def test_there_is_no_ratio_where_the_best_gains_on_every_expert() -> None:
    lucky = OnlinePoint("dartboard", 5.0), OnlinePoint("redraw", -5.0)
    found = result(RegretRun("regret", "alt100", 1000, 5, 1.0), list(lucky), "dartboard")
    assert ["auto (dartboard) / best", "", "–"] in rows(online_markdown([found]))


def test_exponents_have_a_table_for_each_panel() -> None:
    text = online_markdown(FOUND)
    table = rows(text)
    assert text.count("### (") == 3
    printed = ["L2P", "published", "0.500", "0.500", "0.500", "0.556", "0.667", "0.778", "1.000", "0.250"]
    corrected = ["L2P", "corrected", "0.500", "0.500", "0.550", "0.600", "0.700", "0.800", "1.000", "0.167"]
    assert table.count(printed) == 2 and table.count(corrected) == 2, "few dimensions, and experts"
    assert any(row[0] == "DP-FTRL" and row[-1] == "never" for row in table)


def test_the_cost_of_batches_stands_beside_the_claim() -> None:
    assert ["10,000", "0.1", "B = 10, η = 1.00e-02", "112", "125", "100"] in rows(online_markdown(FOUND))


def test_plays_and_switches_stand_beside_the_mean() -> None:
    table = rows(online_markdown(FOUND))
    assert ["dartboard", "12", "13 ± 1.4", "7.0", "3.0", "4.0 ± 1.4", "7.0"] in table
    assert ["blind", "33", "–", "–", "33", "–", "–"] in table
    assert "that it may take: dartboard at ε = 1 (1.00), dartboard at ε = 4 (1.00)." in online_markdown(FOUND)


def test_every_figure_is_a_whole_picture() -> None:
    pictures = dict(online_figures(FOUND))
    assert list(pictures) == ["exponents", "regret-T1000-d5", "djia"]
    for picture in pictures.values():
        assert ElementTree.fromstring(picture).tag == f"{SVG}svg"
    assert "L2P, corrected" in pictures["exponents"]
    assert all(f">{title}<" in pictures["exponents"] for title in PANELS.values())
    assert ">trap<" in pictures["regret-T1000-d5"] and ">shift<" in pictures["regret-T1000-d5"]
    [bars] = list(pictures["djia"].split('<g id="LineCollection_1">')[1:])
    assert bars.split("</g>")[0].count("<path") == 2


def test_figures_show_every_learner_and_name_it_once_above_all_panels() -> None:
    """So that names beside the last losses are not read as an order."""
    made = [
        result(RegretRun("regret", data, 1000, 5, epsilon), [OnlinePoint(name, 50.0) for name in SHOWN])
        for data in ("trap", "alt100")
        for epsilon in (0.1, 1.0)
    ]
    plays = [
        result(RegretRun("elec2", "elec2", 0, 0, epsilon), [OnlinePoint(name, 9.0) for name in (*SHOWN, "blind")])
        for epsilon in (1.0, 4.0)
    ]
    assert {*SHOWN, "blind"} == {each.name for each in learners(3, 100, 1.0)}
    for picture in dict(online_figures([*made, *plays])).values():
        whole = ElementTree.fromstring(picture)
        heights = {text.text or "": float(text.get("y", 0)) for text in whole.iter(f"{SVG}text")}
        assert all(picture.count(f">{label}<") == 1 for label in SHOWN.values())
        titles = [height for text, height in heights.items() if text.startswith(("T = ", "Regret on"))]
        assert titles and max(heights[label] for label in SHOWN.values()) < min(titles)


def test_a_learner_without_points_keeps_its_color() -> None:
    """What is below 1 has no place on a logarithmic scale, and the learners after it are drawn as before."""
    points = [OnlinePoint("multiplicative-weights", -3.0), OnlinePoint("dartboard", 60.0)]
    picture = dict(online_figures([result(RegretRun("regret", "trap", 1000, 5, 1.0), points)]))["regret-T1000-d5"]
    legend = picture.index('<g id="legend_1">')
    used = [color for color in COLORS if f'style="fill: {color};' in picture[:legend]]
    assert used == [COLORS[1]]


def test_the_report_says_what_its_words_mean() -> None:
    text = online_markdown(FOUND)
    for word in ("bound", "mean", "played", "switches", "blind", "l2p-printed", "auto / best"):
        assert f"*{word}*" in text


@pytest.mark.parametrize("found", [[], FOUND])
def test_everything_is_written(found: list[OnlineResult], tmp_path: Path) -> None:
    names = [Path(path).name for path in write_online(found, tmp_path)]
    assert names == ["online.md", *(f"{name}.svg" for name, _ in online_figures(found))]
    text = (tmp_path / "online.md").read_text()
    assert "no private output" in " ".join(text.split()) and not list(tmp_path.glob(".*"))
