"""The index of the papers: every row has its data, its command, and numbers of that data."""

import csv
import re
import shlex

import click
import pytest

from architecture.source import ROOT
from labeldp.privacy import InputError
from papers.__main__ import papers
from papers.aggregation.run import AggregationGrid
from papers.index import DATA, ENTRIES, PAPERS, Entry, listed_commands, table
from papers.multistage.grid import Grid
from papers.online.run import OnlineGrid
from papers.rates.run import RateGrid

GRIDS = {"multistage": Grid, "rates": RateGrid, "aggregation": AggregationGrid, "online": OnlineGrid}
NUMBER = re.compile(r"(?<![\w.^])−?\d+(?:,\d{3})*(?:\.\d+)?(?![\w^])")
IDS = [f"{entry.paper} {entry.item}" for entry in ENTRIES]


def parsed(command: str) -> object:
    """What a command asks for, as its parser understands it; or the script that it runs."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    if words[1] != "-m":
        assert (ROOT / words[1]).is_file(), command
        return words[1]
    assert words[:3] == ["python", "-m", "papers"], command
    context = papers.get_command(click.Context(papers), words[3]).make_context(words[3], words[4:])
    return GRIDS[words[3]].parse(
        **{name: value for name, value in context.params.items() if name not in ("data", "out")}
    )


def missing_numbers(entry: Entry, text: str) -> list[str]:
    """The numbers of a row that are not in a text."""
    return [number for number in NUMBER.findall(entry.ours) if not re.search(rf"(?<![\d.,]){number}(?!\d)", text)]


def cells(entry: Entry) -> str:
    """The cells of the data of a row."""
    files = [(DATA / f"{name}.csv").read_text().splitlines() for name in entry.data]
    return " | ".join(cell for lines in files for row in csv.reader(lines) for cell in row)


def test_the_data_are_what_the_list_says() -> None:
    """`make papers` writes them again."""
    with (DATA / "papers.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [list(row) for row in table()]


@pytest.mark.parametrize("entry", ENTRIES, ids=IDS)
def test_a_row_has_its_data_its_command_and_its_numbers(entry: Entry) -> None:
    assert entry.paper in PAPERS and entry.published and parsed(entry.command)
    assert entry.ours or entry.missing, "an empty row names what is missing"
    assert not entry.ours or entry.why, "ours differs for a reason"
    assert missing_numbers(entry, cells(entry)) == []
    numbers = {float(number.replace("−", "-").replace(",", "")) for number in NUMBER.findall(entry.ours)}
    assert {ours for _, ours in entry.pairs} <= numbers


def test_a_number_that_is_not_in_the_data_and_a_wrong_command_are_seen() -> None:
    made = Entry("Ghazi", "Table 9", ("images",), "", "", "97.96 and 1,234.5 (ε = 1)", "why")
    assert missing_numbers(made, "| 97.96 ± 0.06 | ε = 1 | 11,234.5 |") == ["1,234.5"]
    with pytest.raises(InputError, match="--dataset"):
        parsed("python -m papers multistage --dataset mnits --data DIR --epsilon 1 --out runs")
    with pytest.raises(click.UsageError, match="--noises"):
        parsed("python -m papers rates --noises 3 --out rates")


def test_every_table_and_figure_of_each_paper_has_a_row() -> None:
    items = {paper: " ".join(entry.item for entry in ENTRIES if entry.paper == paper) for paper in PAPERS}
    wanted = {
        "Ghazi": [
            *(f"Table {n}" for n in range(1, 6)),
            "Figure 1",
            "Figure 2",
            "Figure 3",
            "Figure 4a",
            "Figure 4b",
            "Figure 5",
        ],
        "Zhao": ["Table I: classification", "Table I: bounded regression", "Table I: unbounded noise"],
        "Brahmbhatt": [f"Table {number}" for number in range(1, 7)],
        "Asi": ["Table 1", "Figure 1"],
    }
    assert [name for paper, names in wanted.items() for name in names if name not in items[paper]] == []


def test_the_list_names_each_command_and_a_quick_one_for_each_paper() -> None:
    text = "\n".join(listed_commands())
    assert all(entry.command in text and entry.item in text for entry in ENTRIES)
    assert all(parsed(paper.quick) and paper.quick in text for paper in PAPERS.values())
