"""Lengths of the sentences of the pages: `python tests/architecture/sentences.py` prints a line for each group.

A sentence is prose: code, tables, headings and front matter do not count. A link counts as its text.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCKS = re.compile(r"\A---\n.*?^---$|^ *```.*?^ *```$|<!--.*?-->|<picture>.*?</picture>", re.M | re.S)
LINES = re.compile(r"^(?: {4}|\||#|<).*$", re.M)
END = re.compile(r"(?<=[.!?])[*_)\"']*\s+(?=[\"'(*`\[]*(?:[A-Z0-9ε]|labeldp\b))|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s+")
TARGET = "outside proofs and results"


def group(page: Path) -> str:
    """The group of a page: its folder, or the first pages."""
    parts = page.relative_to(ROOT).parts
    return parts[1] if parts[0] == "docs" and len(parts) > 2 else "first pages"


def sentences(text: str) -> Iterator[int]:
    """The number of words of each sentence of a page."""
    text = LINES.sub("\n", BLOCKS.sub("\n\n", text))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    for sentence in END.split("\n\n" + text):
        words = re.findall(r"[^\W_][\w'’.,^−-]*", sentence)
        if len(words) > 2:
            yield len(words)


def lengths(pages: Iterable[Path]) -> list[int]:
    """The number of words of each sentence of some pages."""
    return [words for page in pages for words in sentences(page.read_text())]


def grouped() -> dict[str, list[Path]]:
    """README and the pages of docs by group, without those that Sphinx makes."""
    groups: dict[str, list[Path]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if "api" not in page.parts:
            groups.setdefault(group(page), []).append(page)
            if group(page) not in ("proofs", "results"):
                groups.setdefault(TARGET, []).append(page)
    return groups


def summary(pages: Iterable[Path]) -> str:
    """How many sentences pages have, how long they are, and the shares above 25 and above 30 words."""
    words = lengths(pages)
    above, far = (sum(count > limit for count in words) / len(words) for limit in (25, 30))
    return f"{len(words):5} sentences, mean {sum(words) / len(words):4.1f}, {above:4.0%} > 25, {far:4.0%} > 30"


if __name__ == "__main__":
    for name, pages in sorted(grouped().items()):
        sys.stdout.write(f"{name:28} {len(pages):3} pages, {summary(pages)}\n")
