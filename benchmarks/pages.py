"""The tables of the results pages, from the CSV files that runs wrote.

    python benchmarks/pages.py            # fill the tables and answers of docs/results from docs/results/data
    python benchmarks/pages.py --check    # name the pages that differ from their data

A page has a marker where a table stands:

    <!-- table: NAME | columns=A / B | K=10 / 100 -->

NAME.csv has the rows. `columns` chooses columns, every other word chooses rows by their value. `<!-- answer: NAME -->`
and `<!-- summary: NAME -->` have a sentence and a table that `answers.py` computes from the same files. Programs call
`store` with their tables.
"""

import argparse
import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import answers

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
DATA = PAGES / "data"
OTHERS = (ROOT / "README.md", ROOT / "docs" / "project" / "compare.md")
"""Pages elsewhere that have markers."""

MARKER = re.compile(r"^<!-- (table|answer|summary): (.+?) -->\n(?:\n?(?:(?:\|.*\n)+|\*\*.*\n))?", re.M)
NUMBER = re.compile(r"(?:\*\*)?[-−+]?[\d.,]+(?:e[-+]?\d+)?(?: %| ±.*| \(.*|\*\*)?")


def read(name: str) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows of a file of data."""
    with (DATA / f"{name}.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    return head, rows


def write(name: str, head: list[str], rows: list[list[str]]) -> None:
    """Write a file of data."""
    DATA.mkdir(exist_ok=True)
    with (DATA / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each Markdown table of a text: the headings above it, and its cells without emphasis and links."""
    headings: dict[int, str] = {}
    lines = [*text.splitlines(), ""]
    block: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            block.append([re.sub(r"\*\*|`|\[([^\]]*)\]\([^)]*\)", r"\1", cell) for cell in cells])
        elif block:
            yield ", ".join(headings.values()), [block[0], *block[2:]]
            block = []
        if line.startswith("##"):
            level = len(line) - len(line.lstrip("#"))
            headings = {above: words for above, words in headings.items() if above < level}
            headings[level] = line.strip("# ")


def store(text: str, *names: str) -> None:
    """Store the Markdown tables of a run in files of these names, and fill the pages.

    Tables with the same columns become one file, whose first column has the headings above them.
    """
    groups: dict[tuple[str, ...], list[tuple[str, list[list[str]]]]] = {}
    for heading, (head, *rows) in tables(text):
        groups.setdefault(tuple(head), []).append((heading, rows))
    for name, (columns, parts) in zip(names, groups.items(), strict=True):
        if len(parts) == 1:
            write(name, list(columns), parts[0][1])
        else:
            write(name, ["table", *columns], [[heading, *row] for heading, rows in parts for row in rows])
    fill()


def table(words: str) -> str:
    """Return the Markdown table that a marker asks for."""
    name, *choices = (word.strip() for word in words.split(" | "))
    head, rows = read(name)
    for choice in choices:
        column, _, values = choice.partition("=")
        if column != "columns":
            rows = [row for row in rows if row[head.index(column)] in values.split(" / ")]
    if not rows:
        raise ValueError(f"no row: {words}")
    named = [word.removeprefix("columns=").split(" / ") for word in choices if word.startswith("columns=")]
    columns = [head.index(column) for column in named[0]] if named else list(range(len(head)))
    if not named and "| table=" in words:
        columns.remove(head.index("table"))
    return markdown([head[place] for place in columns], [[row[place] for place in columns] for row in rows])


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, with columns of numbers to the right."""
    right = [all(NUMBER.fullmatch(cell) or cell in ("", "–") for cell in column) for column in zip(*rows, strict=True)]
    lines = [head, ["---:" if number else "---" for number in right], *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def filled(text: str) -> str:
    """Return a page with its tables and answers from the data."""

    def block(match: re.Match[str]) -> str:
        kind, words = match[1], match[2]
        if kind == "table":
            content = table(words)
        elif kind == "summary":
            content = markdown(*answers.SUMMARIES[words](read))
        else:
            content = f"**{answers.ANSWERS[words](read)}**\n"
        return f"<!-- {kind}: {words} -->\n{content}"

    return MARKER.sub(block, text)


def fill() -> None:
    """Fill all pages."""
    for page in (*sorted(PAGES.glob("*.md")), *OTHERS):
        page.write_text(filled(page.read_text()))


def changed() -> list[str]:
    """Return the names of the pages that differ from their data."""
    pages = (*sorted(PAGES.glob("*.md")), *OTHERS)
    return [page.name for page in pages if page.read_text() != filled(page.read_text())]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--store", nargs="+", metavar=("FILE", "NAME"))
    given = parser.parse_args()
    if given.store:
        store(Path(given.store[0]).read_text(), *given.store[1:])
    elif not given.check:
        fill()
    elif differing := changed():
        sys.exit(f"differ from docs/results/data: {', '.join(differing)}")
