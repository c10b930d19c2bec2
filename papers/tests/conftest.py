"""What tests start from, as in `tests`, and `python -m papers`, called as the shell calls it, in this process."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran
from labeldp.cli import main
from papers.__main__ import papers as group
from tests.conftest import path as path
from tests.conftest import people as people
from tests.conftest import people_files as people_files
from tests.conftest import pytest_fixture_setup as pytest_fixture_setup
from tests.conftest import pytest_runtest_protocol as pytest_runtest_protocol
from tests.conftest import small_disk as small_disk


@pytest.fixture
def papers(people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `python -m papers ARGUMENTS` in the folder of the people's tables."""
    monkeypatch.chdir(people)

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["papers", *arguments])
        try:
            main(group)
            status = 0
        except SystemExit as done:
            status = int(done.code or 0)
        said = capsys.readouterr()
        return Ran(status, said.out, said.err)

    return run
