"""The demo: one dataset with one budget, and nothing of the user's is overwritten."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Ran
from labeldp import fit
from labeldp.cli.options import program
from labeldp.curator import LedgerFile
from labeldp.privacy import Request


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same demo with a classifier that is quickly learned."""
    prepare = fit.prepare_demo

    def prepare_quick(*arguments: Any, **options: Any) -> tuple[Request, dict[str, Any]]:
        request, files = prepare(*arguments, **options)
        return replace(request, does="linear"), files

    monkeypatch.setattr(fit, "prepare_demo", prepare_quick)


def test_demos_of_all_epsilons_are_charged_to_one_dataset(labeldp: Callable[..., Ran], people: Path) -> None:
    first = labeldp("demo", "--epsilon", "1")
    assert first.status == 0, first.err
    assert "demo-output/demo.ledger: the budget of 'patients' is epsilon = 10" in first.err
    again = labeldp("demo", "--epsilon", "1.0")
    assert again.status == 0 and "model_epsilon_1" in again.out, again.err
    assert labeldp("demo", "--epsilon", "8").status == 0
    ledger = LedgerFile(people / "demo-output" / "demo.ledger")
    assert ledger.datasets() == ("patients",)
    assert ledger.dataset("patients").spent.epsilon() == 9.0
    over = labeldp("demo", "--epsilon", "2")
    assert over.status == 1 and "budget exceeded for 'patients'" in over.err.splitlines()[-1]


def test_the_demo_replaces_no_file(labeldp: Callable[..., Ran], people: Path) -> None:
    (people / "mine").mkdir()
    for name in ("patients.csv", "public_patients.csv"):
        place = people / "mine" / name
        place.write_text("mine")
        ran = labeldp("demo", "--out", "mine")
        assert ran.status == 1 and name in ran.err and ran.err.count("\n") == 1, ran
        assert place.read_text() == "mine" and len(list((people / "mine").iterdir())) == 1
        place.unlink()


def test_what_the_demo_names_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`.venv/bin/labeldp demo` once said `labeldp certificate …`, which such a shell does not find."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("labeldp.cli.options.which", lambda name: None)
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv" / "bin" / "labeldp"), "demo"])
    assert program() == ".venv/bin/labeldp"
    monkeypatch.setattr("labeldp.cli.options.which", lambda name: "/usr/bin/labeldp")
    assert program() == "labeldp"
