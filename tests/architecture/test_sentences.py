"""The report of `make words` counts words and sees patterns."""

from architecture.sentences import sentences
from architecture.words import hits


def test_sentences_are_prose_and_end_at_full_stops() -> None:
    prose = "One two three. Four five\nsix `seven eight` [nine ten](a.md)."
    page = f"# A heading\n\n{prose}\n\n```\nno prose here\n```\n| a | b |\n"
    assert list(sentences(page)) == [3, 6]


def test_a_pattern_is_seen_with_what_to_write_instead() -> None:
    assert hits("a:1", "Whoever reads it") == ["a:1: 'Whoever' → no one, anyone, or a role: curator, analyst, attacker"]
    assert hits("a:1", "noise is drawn anew <!-- words: a quotation -->") == [] == hits("a:1", "noise is drawn again")
