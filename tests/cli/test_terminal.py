"""What a terminal shows: a bar above which lines stay, and tables that fit its width."""

import io
import re
import sys
from collections.abc import Callable

import pytest

from cli.conftest import Ran, account
from labeldp.cli.options import note, progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True

    @property
    def lines(self) -> list[str]:
        """The lines that stay, without escape sequences; a line that was erased is empty."""
        text = re.sub(r"\x1b\[\d*K", "\r", self.getvalue())
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)
        return [line.split("\r")[-1] for line in text.split("\n")]


def test_notes_and_stages_that_ended_stay_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("reading", lines=True) as show:
        assert show is not None
        note("Created people.ledger [/x]")
        show("training: fold 1 of 5", 0.1)
        show("training: fold 2 of 5", 0.2)
        show("evaluating", 0.6)
    assert [line for line in terminal.lines if line.strip()][:3] == [
        "Created people.ledger [/x]",
        "\N{CHECK MARK} Trained in 0 s",
        "\N{CHECK MARK} Evaluated in 0 s",
    ]


def test_a_fit_says_what_it_read_and_what_it_spent(labeldp: Callable[..., Ran]) -> None:
    fit = ("fit", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1", "--model", "linear")
    first = labeldp(*fit, *account("people"), "--out", "model")
    names = "'id', 'age', 'hours', 'region', 'job'"
    assert first.err.startswith(f"\N{CHECK MARK} Read people.csv: 600 records, 5 features (2 categorical): {names}\n")
    assert first.err.count("\N{CHECK MARK} Spent ε = 1, δ = 0 on 'people'\n") == 1
    again = labeldp(*fit, *account("people"), "--out", "other")
    assert again.status == 0 and "Read people.csv" in again.err and "Spent" not in again.err


def test_the_rows_of_a_ledger_fit_eighty_columns(labeldp: Callable[..., Ran]) -> None:
    command = ("release", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "0.3333333")
    named = account("people", "2")
    for place in range(2):
        assert labeldp(*command, *named, "--revision", f"a name of {place} " * 4, "--out", f"{place}.csv").status == 0
    shown = labeldp("ledger", "show", "l.ledger").out
    assert max(map(len, shown.splitlines())) <= 80 and shown.count("Revision: a name of") == 2, shown
