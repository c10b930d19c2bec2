"""Plain words: what the pages do not say, and what they say instead; codespell sees to American spelling."""

import re

import pytest

from architecture.source import ROOT

INSTEAD = {
    r"learnt|spelt|burnt": "learned, spelled, burned",
    r"in the place of": "instead of, in place of",
    r"g(?:o|oes|oing|one) on|went on": "continue, resume",
    r"need be": "has to be",
    r"in silence": "silently",
    r"without a word": "without a message, without a further step",
    r"tells? apart": "distinguishes, detects",
    r"misfortune": "say what can be done",
    r"dear": "expensive, costs much",
    r"turns? it round": "solves for",
    r"all the same": "anyway, still",
}
"""Patterns of whole words, in any case, with what to write."""

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def unwanted(text: str) -> list[str]:
    """What of a text is in the list, with what to write."""
    return [
        f"{match[0]}: {words}" for bad, words in INSTEAD.items() for match in re.finditer(rf"\b(?:{bad})\b", text, re.I)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_plain_words(page) -> None:
    assert unwanted(page.read_text()) == []


def test_words_of_the_list_are_seen_and_others_are_not() -> None:
    assert unwanted("Learnt, and it goes on.") == ["Learnt: learned, spelled, burned", "goes on: continue, resume"]
    assert unwanted("It depends on the place of a row; a dearth of endearing puns, without a wording.") == []
