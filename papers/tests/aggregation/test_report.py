"""Tables of imagined cells: means with their spread, promises rounded up, and a whole SVG file for each problem."""

from pathlib import Path
from xml.etree import ElementTree

from papers.aggregation.cells import Cell
from papers.aggregation.report import aggregation_markdown, write_aggregation
from papers.aggregation.run import AggregationResult, AggregationRun


def result(table: str, size: int, bags: int, share: float, seed: int, delta: float | None) -> AggregationResult:
    error = 100.0 + bags / 100 + seed
    errors = (
        {"network": error}
        if table == "llp"
        else {"Adam": 2 * error, "natural": 3 * error, "exact": error}
        if bags
        else {"exact": 90.0}
    )
    drawn = max(1, round(share * size)) / size if share else 0.0
    cell = Cell(errors, delta, drawn if table == "llp" else None, "said", max(size * bags, 1000))
    return AggregationResult(AggregationRun("made", table, size, bags, share, seed), cell, {}, 1.0, {}, "today")


RESULTS = [
    result("lba", 0, 0, 0.0, 0, None),
    *(result("lba", size, bags, 0.0, seed, 0.95001) for size in (32, 64) for bags in (100, 200) for seed in (0, 1)),
    *(result("llp", 32, 100, share, 0, 0.00123 if share else None) for share in (0.0, 0.01, 0.5)),
]


def rows(title: str) -> list[list[str]]:
    """The cells of all rows of the table under a title."""
    part = aggregation_markdown(RESULTS).split(f"### {title}")[1].split("###")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]


def test_a_cell_is_a_mean_with_its_spread_and_a_row_says_what_it_promises() -> None:
    table = rows("Table 1 (LBA), linear model by least squares")
    assert table[0] == ["m", "k = 32", "k = 64", "seeds", "promises: δ(1)"]
    assert table[2] == ["100", "101.50 ± 0.71", "101.50 ± 0.71", "2", "0.951 / 0.951"], "delta is rounded up"
    assert rows("Table 1 (LBA), linear model by Adam\n")[3][1] == "205.00 ± 1.41"
    assert rows("Table 1 (LBA), linear model by Adam, unscaled numbers")[3][1] == "307.50 ± 2.12"


def test_without_noise_nothing_is_promised_and_whole_labels_are_told() -> None:
    assert rows("Table 3 (LLP), network, ρ = 0\n")[-1] == ["100", "101.00", "1", "none"]
    assert rows("Table 4 (LLP), network, ρ = 0.01 (in whole labels 0.031)")[-1][-1] == "1.2e-03"
    assert rows("Table 5 (LLP), network, ρ = 0.5\n")[-1][1] == "101.00"


def test_each_problem_has_a_figure(tmp_path: Path) -> None:
    paths = write_aggregation(RESULTS, tmp_path)
    assert [Path(path).name for path in paths] == ["aggregation.md", "made.svg"]
    picture = (tmp_path / "made.svg").read_text()
    assert ElementTree.fromstring(picture).tag.endswith("svg") and picture.count(">Table ") == 6
    assert (
        "From the labels themselves (1,000 records, no protection): 90.00." in (tmp_path / "aggregation.md").read_text()
    )


def test_the_tables_are_also_there_as_they_are_printed() -> None:
    text = aggregation_markdown([])
    assert text.count(", published, criteo") == text.count(", published, census") == 6
    assert "| 512 | 252.9 ± 21.3 | 234.61 ± 3.14 | 226.41 ± 3.06 | 219.23 ± 2.26 |" in text
    assert "| 8192 | 181.0 ± 1.74 | 149.79 ± 0.68 | 145.92 ± 0.26 | 145.55 ± 0.25 |" in text
