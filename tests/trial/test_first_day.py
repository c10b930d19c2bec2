"""The first day on a small table, in this process: what `make trial` measures on a large one."""

import shlex
from pathlib import Path

import pytest

from trial.day import COLUMNS, hospital, make_tables, readme, users
from trial.world import labeldp


def test_the_table_is_as_the_page_of_results_says() -> None:
    table = hospital(2000)
    assert table.shape == (2000, COLUMNS) and set(table["readmitted"]) == {"NO", ">30", "<30"}
    assert table["patient"].duplicated().any() and table["stay"].is_unique and table.isna().to_numpy().any()


def test_the_trial_takes_its_first_steps_from_the_readme() -> None:
    """The lines themselves are run by tests/guide/test_pages.py."""
    readme_text = (Path(__file__).parents[2] / "README.md").read_text()
    sources = [step.source for step in readme()][1:]
    commands = [source for source in sources if source.startswith("labeldp ")]
    assert commands and all(command in readme_text for command in commands)
    assert {command.split()[1] for command in commands} >= {"ledger", "fit", "predict"}


def test_three_users_get_through_their_first_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step ends as it should, and says nothing of a label that a message may not say."""
    monkeypatch.chdir(tmp_path)
    make_tables(1500)
    for step in users("linear"):
        if step.command:
            ran = labeldp(*shlex.split(step.source)[1:])
            assert ran.status == step.status, (step, ran)
            if step.status:
                told = ran.err or ran.out
                assert "budget" in told or "NOT" in told
        else:
            exec(step.source, {"__name__": "__main__"})
    assert (tmp_path / "sklearn.html").stat().st_size > 10_000
    assert (tmp_path / "stays_predictions.csv").read_text().startswith("stay,prediction,")
