"""The sentences of the pages stay short."""

from architecture.sentences import TARGET, grouped, lengths, sentences
from architecture.source import ROOT


def test_pages_outside_proofs_and_results_have_short_sentences() -> None:
    words = lengths(grouped()[TARGET])
    assert sum(words) / len(words) <= 17
    assert sum(count > 25 for count in words) <= 0.02 * len(words)
    assert sum(count > 30 for count in words) <= 0.01 * len(words)


def test_pages_of_results_have_short_sentences() -> None:
    words = lengths(grouped()["results"])
    assert sum(words) / len(words) <= 17
    assert sum(count > 25 for count in words) <= 0.1 * len(words)


LONG = {"project": 1, "proofs": 136, "reference": 1, "results": 16, "theory": 6}
"""How many sentences of each group have more than 30 words; other groups have none. The numbers only fall."""


def test_long_sentences_become_fewer() -> None:
    found = {name: sum(count > 30 for count in lengths(pages)) for name, pages in grouped().items() if name != TARGET}
    assert {name: count for name, count in found.items() if count > LONG.get(name, 0)} == {}


def test_no_sentence_of_the_readme_is_long() -> None:
    assert max(lengths([ROOT / "README.md"])) <= 20


def test_sentences_are_prose_and_end_at_full_stops() -> None:
    prose = "One two three. Four five\nsix `seven eight` [nine ten](a.md)."
    page = f"# A heading\n\n{prose}\n\n```\nno prose here\n```\n| a | b |\n"
    assert list(sentences(page)) == [3, 6]
