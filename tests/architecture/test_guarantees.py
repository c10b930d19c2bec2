"""Every promise is executable: for each sentence under Guarantee in a docstring there is a test with the same words."""

import re
from functools import cache

import pytest

from architecture.source import ROOT, docstrings, files

BLOCK = re.compile(r"^(?P<indent> *)Guarantee:(?P<text>.*?)(?=\n\s*\n|\n(?P=indent)\S+:|\Z)", re.M | re.S)
POINTER = re.compile(r"\s*(?:Proof|Source): .*$", re.S)


def plain(text: str) -> str:
    """Text on one line, in small letters."""
    return " ".join(text.split()).lower()


def promises(docstring: str) -> list[str]:
    """The sentences under Guarantee, or their parts between semicolons, without where the proof stands."""
    blocks = (POINTER.sub("", plain_case(block["text"])) for block in BLOCK.finditer(docstring))
    return [plain(part) for block in blocks for part in re.split(r"(?<=\.)\s+|;\s+", block) if part.strip()]


def plain_case(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())


@cache
def repeated() -> str:
    """The docstrings of all tests."""
    return " ".join(plain(text) for file in files("tests") for text in docstrings(file))


PROMISES = [
    pytest.param(str(file.relative_to(ROOT / "src")), sentence, id=f"{file.relative_to(ROOT / 'src')}-{i}")
    for file in files("src")
    for i, sentence in enumerate(sentence for text in docstrings(file) for sentence in promises(text))
]


@pytest.mark.parametrize(("file", "sentence"), PROMISES)
def test_a_test_repeats_the_promise(file: str, sentence: str) -> None:
    assert sentence.rstrip(".") in repeated(), file


def test_promises_are_found() -> None:
    text = "One.\n\nGuarantee: it holds; it does. It holds\n    `always`. Proof: `docs/x.md`.\n\nArgs:\n    x: it.\n"
    assert promises(text) == ["it holds", "it does.", "it holds `always`."]
    assert promises("Guarantee:\n    Not this way.\n\nRaises:\n    Guarantee: no.\n")[0] == "not this way."
    assert promises("No promise.") == []
    assert len(PROMISES) >= 10
