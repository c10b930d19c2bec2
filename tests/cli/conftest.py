"""The command line, called as the shell calls it, in this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from labeldp.cli import main
from people import table_of_people

PUBLIC = "--test-labels-are-public"

DONE = "\N{CHECK MARK} Already done: model/ is this fit. No ε spent.\n"
"""What a fit says that was done before."""


def account(dataset: str, budget: str = "1", ledger: str = "l.ledger") -> tuple[str, ...]:
    """The options that charge a dataset of a ledger, which is created with a budget if it does not exist."""
    return ("--ledger", ledger, "--dataset", dataset, "--new-budget", budget)


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit status and what it said."""

    status: int
    out: str
    err: str


@pytest.fixture
def labeldp(people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `labeldp ARGUMENTS` in the folder of the people's tables, with a table of others in public.csv."""
    table_of_people(200, seed=3).to_csv(people / "public.csv", index=False)
    monkeypatch.chdir(people)

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["labeldp", *arguments])
        try:
            main()
            status = 0
        except SystemExit as done:
            status = int(done.code or 0)
        said = capsys.readouterr()
        return Ran(status, said.out, said.err)

    return run
