"""Tables and figures of imagined runs: every number is a mean of runs, and every picture is a whole SVG file."""

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

from papers.multistage.grid import Run
from papers.multistage.report import beside_the_paper, markdown, write_reproduced
from papers.multistage.run import Result
from papers.plots import COLORS

SVG = "{http://www.w3.org/2000/svg}"


def result(method: str, epsilon: float, seed: int, value: float, **changes: object) -> Result:
    """A run with two epochs of each stage, and candidates in the second one."""
    network = None if method in ("linear", "clusters") else "cnn"
    staged = method == "lp-2st"
    settings = changes.pop("settings", ())
    release = {"step": "stage", "records": 10, "mechanism": "some", "candidates": None, "covered": None}
    second = {**release, "candidates": 1.5 + epsilon, "covered": 0.9}
    steps = ("stage 1", "stage 2") if staged else ("stage 1",)
    curve = tuple({"step": step, "epoch": epoch, "loss": 2.0 / epoch} for step in steps for epoch in (1, 2))
    made = Result(
        run=Run("mnist", method, epsilon, 0.0, seed, network, network and "quick", settings),
        metric="accuracy",
        value=value,
        steps=(),
        trust="local",
        recipe=(),
        releases=(release, second) if staged else (release,),
        curve=curve if network else (),
        seconds=12.0,
        processor_seconds=11.0,
        records=(60_000, 10_000),
        data="0",
        certificate="a sentence",
        hardware={"processor": "a <fast> one", "cores": 2},
        versions={"python": "3.13"},
        date="2026-01-02T03:04:05+00:00",
    )
    return dataclasses.replace(made, **changes)


MAIN = [
    result("lp-1st", 1.0, 0, 0.95),
    result("lp-1st", 1.0, 1, 0.97),
    result("lp-2st", 1.0, 0, 0.98),
    result("lp-2st", 10.0, 0, 0.99),
    result("linear", 2.0, 0, 0.96),
]

SWEEPS = [
    *(
        result("lp-2st", 1.0, 0, 0.9 + a / 100, settings=(("split", a), ("temperature", t)))
        for a in (0.4, 0.7)
        for t in (1.0, "calibrated")
    ),
    *(result("clusters", e, 0, 0.8, settings=(("clusters", c),)) for e in (0.1, 1.0) for c in (10.0, 100.0)),
]


def rows(text: str) -> dict[str, list[str]]:
    """The cells of a table's rows, by the first one."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {each[0]: each[1:] for each in cells}


def test_a_cell_is_the_mean_over_noises_with_their_spread_and_number() -> None:
    table = rows(markdown(MAIN))
    assert table["method"][-3:] == ["ε = 1", "ε = 2", "ε = 10"]
    assert table["**lp-1st**"] == ["cnn", "quick", "local", "0", "96.00 ± 1.41 (2)", "", ""]
    assert table["**linear**"][-3:] == ["", "96.00 (1)", ""]
    assert table["lp-2st: mean k\\*"][-3:] == ["2.50 (1)", "", "11.50 (1)"]
    assert table["lp-2st: stage-1 top-k accuracy in percent"][-3:] == ["90.00 (1)", "", "90.00 (1)"]


def test_the_table_says_what_it_was_measured_on_and_where() -> None:
    text = markdown(MAIN)
    for words in ("60,000 training and 10,000 test records", "2026-01-02", "a <fast> one, 2 cores", "python 3.13"):
        assert words in text
    assert "Every run is a simulation" in text and "nothing is chosen by them" in text


def test_sweeps_have_tables_of_their_own() -> None:
    text = markdown([*MAIN, *SWEEPS])
    assert rows(text)["0.4"] == ["calibrated", "90.40 (1)"]
    assert "| 0.4 | 1 | 90.40 (1) |" in text
    assert "| 100 | 80.00 (1) | 80.00 (1) |" in text


def test_steps_on_the_way_are_shown() -> None:
    steps = ({"step": "head", "value": 0.5}, {"step": "student", "value": 0.75})
    table = rows(markdown([result("best", 1.0, 0, 0.8, steps=steps)]))
    assert table["best: after head"][-1] == "50.00 (1)" and table["best: after student"][-1] == "75.00 (1)"


def test_errors_are_no_percentages() -> None:
    table = rows(markdown([result("lp-1st", 1.0, 0, 0.91234, metric="RMSE")]))
    assert table["**lp-1st**"][-1] == "0.9123 (1)"


def pictures(folder: Path) -> dict[str, ElementTree.Element]:
    return {path.name: ElementTree.parse(path).getroot() for path in folder.glob("*.svg")}


def test_there_is_a_figure_for_whatever_was_run(tmp_path: Path) -> None:
    paths = write_reproduced([*MAIN, *SWEEPS], tmp_path)
    found = pictures(tmp_path)
    assert sorted(found) == [
        "mnist-accuracy.svg",
        "mnist-candidates.svg",
        "mnist-clusters.svg",
        "mnist-learning.svg",
        "mnist-split-temperature-lp-2st-cnn-quick-epsilon1-topk.svg",
        "mnist-split-temperature-lp-2st-cnn-quick-epsilon1.svg",
        "mnist-topk.svg",
    ]
    assert {Path(path).name for path in paths} == {"results.md", *found}
    for root in found.values():
        assert root.tag == f"{SVG}svg" and root.get("role") == "img" and root.get("aria-label")


def test_a_figure_shows_every_series_by_name(tmp_path: Path) -> None:
    write_reproduced(MAIN, tmp_path)
    found = pictures(tmp_path)
    texts = [each.text for each in found["mnist-accuracy.svg"].iter(f"{SVG}text")]
    assert {"lp-1st", "lp-2st", "linear", "test accuracy", "ε, logarithmic scale"} <= set(texts)
    markers = [each for each in found["mnist-accuracy.svg"].iter(f"{SVG}use") if each.get("style", "")[6:13] in COLORS]
    assert len(markers) == 4 + 3, "of means, and in the legend"
    titles = [each.text for each in found["mnist-learning.svg"].iter(f"{SVG}text") if "lp-" in (each.text or "")]
    assert titles == ["lp-1st: stage 1", "lp-2st: stage 1, then stage 2"]


def test_figures_and_table_are_replaced(tmp_path: Path) -> None:
    write_reproduced(MAIN[:1], tmp_path)
    write_reproduced(MAIN, tmp_path)
    assert "linear" in (tmp_path / "results.md").read_text()
    assert not list(tmp_path.glob(".*"))


def test_nothing_yet_is_an_empty_table(tmp_path: Path) -> None:
    assert [Path(path).name for path in write_reproduced([], tmp_path)] == ["results.md"]


def test_printed_figures_stand_beside_ours_and_empty_places_stay_empty() -> None:
    text = markdown([*MAIN, result("lp-1st", 1000.0, 0, 0.5)])
    assert "| ε | LP-1ST, published | lp-1st | LP-2ST, published | lp-2st |" in text
    assert "| 1 | 95.34 | 96.00 ± 1.41 (2) | 95.82 | 98.00 (1) |" in text
    assert "| 3 | 98.81 |  | 99.14 |  |" in text and "| none | 99.33 | 50.00 (1) |  |  |" in text
    other = dataclasses.replace(MAIN[0], run=dataclasses.replace(MAIN[0].run, network="inception"))
    assert "| lp-1st cnn | lp-1st inception |" in "\n".join(beside_the_paper("mnist", [MAIN[0], other]))
    assert "| 4 | 96.86 |  | 97.83 |  |" in "\n".join(beside_the_paper("kmnist", []))
