"""Tables and figures of imagined slopes: what is not reached is flagged, and every picture is a whole SVG file."""

import dataclasses
import math
from pathlib import Path
from xml.etree import ElementTree

from papers.rates.report import rate_figures, rates_markdown, write_rates
from papers.rates.run import ClassCurve, Slope

SVG = "{http://www.w3.org/2000/svg}"

RECORDS = tuple(10**power for power in range(4, 9))


def slope(row: str, dimension: int, epsilon: float, measured: float, predicted: float = -0.5) -> Slope:
    """A straight line."""
    risks = tuple(0.3 * (n / 1e4) ** measured for n in RECORDS)
    interval = measured - 0.02, measured + 0.02
    return Slope(row, dimension, epsilon, 3, RECORDS, risks, measured, *interval, predicted, -0.375)


FOUND = [
    *(slope("regression-local-label", d, e, -0.52) for d in (1, 2) for e in (0.5, 1.0)),
    slope("regression-none", 1, 0.0, -0.5),
    *(slope("heavy-tailed-central-label", 1, e, -0.45) for e in (0.001, 1.0)),
    slope("heavy-tailed-central-label-printed", 1, 1.0, -0.28),
]

CURVES = [
    ClassCurve("unary", 1.0, 2, (2, 10, 100), (0.01, 0.011, 0.012), (0.001, 0.001, 0.002)),
    ClassCurve("response", 1.0, 2, (2, 10, 100), (0.008, 0.02, 0.08), (0.001, 0.001, 0.002)),
]


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of tables."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_a_slope_stands_beside_its_interval_and_the_predicted_one() -> None:
    table = rows(rates_markdown(FOUND, CURVES))
    first = ["regression-local-label", "1", "0.5", "1e4 to 1e8", "3", "−0.520", "−0.540 to −0.500", "−0.500"]
    assert [*first, "−0.375", ""] in table
    assert any(row[:3] == ["regression-none", "1", ""] for row in table)
    single = slope("regression-none", 1, 0.0, -0.5)
    alone = Slope(**{**vars(single), "noises": 1, "low": math.nan, "high": math.nan})
    assert rows(rates_markdown([alone], []))[-1][6] == ""


def test_a_family_has_tables_and_figures_of_its_own() -> None:
    rough = dataclasses.replace(slope("regression-none", 1, 0.0, -0.5), family="rough")
    text = rates_markdown([*FOUND, rough], [])
    assert "## Regression, rough: β = 0.5, γ = 1, p = 2\n" in text and text.count("## Regression") == 2
    assert "5 of 5 intervals hold the predicted slope; 0 hold" in text and "0 of 2 intervals" in text
    assert "regression-none-rough" in dict(rate_figures([*FOUND, rough], []))


def test_slopes_that_are_not_reached_are_flagged_and_no_others() -> None:
    flagged = [row for row in rows(rates_markdown(FOUND, [])) if "off by" in row[-1]]
    assert [(row[0], row[-1]) for row in flagged] == [("heavy-tailed-central-label-printed", "**off by 0.220**")]


def test_the_number_of_classes_has_a_table_of_its_own() -> None:
    table = rows(rates_markdown([], CURVES))
    assert table[0] == ["labels", "ε", "noises", "K = 2", "K = 10", "K = 100"]
    assert table[2] == ["unary", "1", "2", "0.0100 ± 0.0010", "0.0110 ± 0.0010", "0.0120 ± 0.0020"]


def test_every_row_has_a_figure_with_the_printed_tuning_beside_the_right_one() -> None:
    pictures = dict(rate_figures(FOUND, CURVES))
    assert list(pictures) == ["regression-local-label", "regression-none", "heavy-tailed-central-label", "classes"]
    for picture in pictures.values():
        assert ElementTree.fromstring(picture).tag == f"{SVG}svg"
    local = pictures["regression-local-label"]
    assert local.count("by N (ε ∧ 1)²<") == 2 and local.count(">regression-local-label, d = ") == 4, "against N and Nε²"
    assert local.count("stroke-dasharray") == 4, "a predicted slope beside each measured one"
    heavy = pictures["heavy-tailed-central-label"]
    assert "ε = 1, printed" in heavy and "by εN" in heavy
    assert pictures["regression-none"].count(">regression-none, d = ") == 1


def test_everything_is_written_even_where_nothing_was_found(tmp_path: Path) -> None:
    assert [Path(path).name for path in write_rates([], tmp_path)] == ["rates.md"]
    assert "Every run is a simulation" in (tmp_path / "rates.md").read_text() and not list(tmp_path.glob(".*"))
