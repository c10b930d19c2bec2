"""The sentences of the pages stay short."""

from architecture.sentences import TARGET, grouped, lengths, sentences
from architecture.source import ROOT


def test_pages_outside_proofs_and_results_have_short_sentences() -> None:
    words = lengths(grouped()[TARGET])
    assert sum(words) / len(words) <= 17
    assert sum(count > 25 for count in words) <= 0.1 * len(words)
    assert sum(count > 30 for count in words) <= 0.04 * len(words)


def test_no_sentence_of_the_readme_is_long() -> None:
    assert max(lengths([ROOT / "README.md"])) <= 20


def test_sentences_are_prose_and_end_at_full_stops() -> None:
    prose = "One two three. Four five\nsix `seven eight` [nine ten](a.md)."
    page = f"# A heading\n\n{prose}\n\n```\nno prose here\n```\n| a | b |\n"
    assert list(sentences(page)) == [3, 6]
