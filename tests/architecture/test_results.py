"""The pages of results show what runs stored."""

import ast
import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.source import PACKAGE, ROOT

sys.path.append(str(ROOT / "benchmarks"))  # last: tests come first

import pages

RESULTS = ROOT / "docs" / "results"


def test_tables_and_answers_are_those_of_the_data() -> None:
    """`python benchmarks/pages.py` fills them again."""
    assert pages.changed() == []


def test_a_changed_number_and_a_row_that_is_not_there_are_seen() -> None:
    page = (RESULTS / "bits.md").read_text()
    assert pages.filled(page.replace("0.1779", "0.1778", 1)) == page
    with pytest.raises(ValueError, match="no row: bits"):
        pages.table("bits | K=1")


def test_tables_of_a_run_are_stored_by_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "DATA", tmp_path)
    monkeypatch.setattr(pages, "fill", lambda: None)
    head = "| x | y |\n|---|---|\n"
    text = f"## A\n\n{head}| **1** | [b](c.md) |\n\n| z |\n|---|\n| 3 |\n\n## B\n\n{head}| 2 | |\n"
    pages.store(text, "first", "second")
    assert pages.read("first") == (["table", "x", "y"], [["A", "1", "b"], ["B", "2", ""]])
    assert pages.table("first | table=A") == "| x | y |\n| ---: | --- |\n| 1 | b |\n"
    assert pages.read("second") == (["z"], [["3"]])
    with pytest.raises(ValueError, match="argument 2 is longer"):
        pages.store(text, "first")


def test_every_file_of_data_is_shown_or_linked() -> None:
    text = "".join(page.read_text() for page in RESULTS.glob("*.md")) + (ROOT / "benchmarks" / "answers.py").read_text()
    text += (ROOT / "benchmarks" / "figures.py").read_text()
    names = [file.stem for file in pages.DATA.glob("*.csv")]
    shown = (f"<!-- table: {{}} {end}".format for end in ("-->", "|"))
    forms = [*shown, "data/{}.csv".format, '"{}"'.format]
    assert [name for name in sorted(names) if not any(form(name) in text for form in forms)] == []


def test_every_figure_is_linked() -> None:
    text = "".join(page.read_text() for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"))
    figures = [*RESULTS.rglob("*.svg"), *(ROOT / "docs" / "_static").glob("*.svg")]
    assert [str(figure) for figure in figures if f"{figure.parent.name}/{figure.name}" not in text] == []


def test_the_page_of_results_is_short() -> None:
    lines = (RESULTS / "README.md").read_text().splitlines()
    assert len(lines) <= 250
    sections = "\n".join(lines).split("\n## ")
    assert len(sections) == 14
    assert [part.splitlines()[0] for part in sections[1:] if part.count("\n|") > 2 + 8] == []


def constants(file: Path) -> Iterator[tuple[str, str]]:
    """The names and values of assignments, of keys of literals and of keyword arguments in a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        pairs: list[tuple[ast.expr | str | None, ast.expr]] = []
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            many = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = list(zip(target.elts, node.value.elts, strict=True)) if many else [(target, node.value)]  # type: ignore[attr-defined]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:  # a field of settings
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.keyword):
            pairs = [(node.arg, node.value)]
        for name, value in pairs:
            key = name if isinstance(name, str) else getattr(name, "id", getattr(name, "value", None))
            yield str(key), ast.unparse(value)


def test_the_table_of_constants_has_the_values_of_the_code() -> None:
    with (pages.DATA / "choices.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["constant"].replace("_", "").isalpha()]
    assert len(rows) >= 10
    found = {file: set(constants(PACKAGE / file)) for file in {row["file"] for row in rows}}
    assert [row["constant"] for row in rows if (row["constant"], row["value"]) not in found[row["file"]]] == []
