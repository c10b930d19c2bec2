"""Every command that a message prints works, and so does the first command after it."""

import ast
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.conftest import Ran
from labeldp.curator import LedgerFile
from labeldp.privacy import Budget

PACKAGE = Path(__file__).parents[2] / "src" / "labeldp"

Run = Callable[..., Ran]

LEDGER = "it's a ledger.db"
DATASET = "my people/bought it"
RELEASE = ("--label", "bought it", "--classes", "no,yes", "--epsilon", "1", "--ledger", LEDGER, "--dataset", DATASET)
ADD = ("ledger", "add", LEDGER, "--dataset", "my people")


def table(first: int, last: int, labels: tuple[str, ...] = ("no", "yes")) -> str:
    lines = [f"{row},{row // 2},{labels[row % len(labels)]}" for row in range(first, last)]
    return "\n".join(["id,user,bought it", *lines]) + "\n"


@dataclass(frozen=True)
class Case:
    """A command that is refused by a message with a command.

    Args:
        before: commands that make the situation.
        first: the refused command.
        fill: what a user puts for placeholders of the printed command; once for each time that it is run.
        prints: the functions of the package that the message comes from.
    """

    before: tuple[tuple[str, ...], ...]
    first: tuple[str, ...]
    fill: tuple[dict[str, str], ...]
    prints: tuple[str, ...]


def release(data: str, *more: str, out: str = "out.csv") -> tuple[str, ...]:
    return ("release", data, *RELEASE, "--out", out, *more)


BUDGET = (*ADD, "--epsilon", "1")
WIDE = (*ADD, "--epsilon", "9")
COHORT = {"NAME": "'the first'", "FILE": "'my people.csv'", "COLUMN": "id"}
LATER = {"NAME": "later", "FILE": "later.csv", "COLUMN": "id"}
IDS = ("--id", "id")
BACKUP = ("ledger", "backup", LEDGER, "--out", "the backup")

CASES = {
    "a label outside": Case(
        (WIDE,),
        release("missing.csv", "--classes", "no,yes,missing"),
        ({"--classes … or --range …": "--classes no,yes,missing"},),
        ("curator/dataset_ledger.py:_refusal",),
    ),
    "another domain": Case(
        (WIDE, release("my people.csv")),
        release("missing.csv", "--classes", "no,yes,missing", "--revision", "corrected", out="other.csv"),
        ({},),
        ("curator/datasets.py:refuse_undeclared",),
    ),
    "classes to quote": Case(
        (WIDE, release("my people.csv")),
        release("my people.csv", "--classes", "no,yes,not known,it's", "--revision", "other", out="other.csv"),
        ({},),
        ("curator/datasets.py:refuse_undeclared",),
    ),
    "budget": Case(
        (BUDGET,),
        release("my people.csv", "--epsilon", "2"),
        ({"--epsilon …": "--epsilon 2", "--reason …": "--reason 'a second study'"},),
        ("cli/options.py:suggest_budget_change",),
    ),
    "another new budget": Case(
        (BUDGET,),
        release("my people.csv", "--new-budget", "7"),
        ({},),
        ("cli/account_options.py:budget_of_new_ledger",),
    ),
    "no ledger": Case((), release("my people.csv"), ({},), ("cli/account_options.py:budget_of_new_ledger",)),
    "unknown dataset": Case(
        ((*ADD[:-1], "other", "--epsilon", "1"),),
        release("my people.csv"),
        ({"--epsilon …": "--epsilon 1"},),
        ("curator/datasets.py:unknown_dataset",),
    ),
    "number of records": Case(
        ((*WIDE, "--records", "7"),),
        release("my people.csv", *IDS),
        ({},),
        ("curator/snapshot.py:check_count",),
    ),
    "records that came later": Case(
        (WIDE, release("my people.csv", *IDS)),
        release("all.csv", *IDS, out="all.noisy.csv"),
        (COHORT, LATER),
        ("curator/snapshot.py:check_records",),
    ),
    "neither all records nor a cohort": Case(
        (WIDE, release("my people.csv", *IDS), (*ADD, "--cohort", "one", "--ids", "my people.csv", "--id", "id")),
        release("all.csv", *IDS, out="all.noisy.csv"),
        (LATER,),
        ("curator/cohorts.py:span_of",),
    ),
    "other records of a cohort": Case(
        (WIDE, release("my people.csv", *IDS), (*ADD, "--cohort", "one", "--ids", "my people.csv", "--id", "id")),
        release("later.csv", *IDS, "--cohort", "later", out="later.noisy.csv"),
        (LATER,),
        ("curator/cohorts.py:unknown_cohort",),
    ),
    "a cohort of a new ledger": Case(
        (),
        release("my people.csv", *IDS, "--cohort", "the first", "--new-budget", "1"),
        ({**COHORT, "--epsilon …": "--epsilon 1"},),
        ("curator/cohorts.py:unknown_cohort",),
    ),
    "records of the first cohort": Case(
        ((*WIDE, "--records", "7"),),
        (*ADD, "--cohort", "one", "--ids", "my people.csv", "--id", "id"),
        ({},),
        ("curator/cohorts.py:insert_cohort",),
    ),
    "another first cohort": Case(
        (WIDE, release("my people.csv", *IDS)),
        (*ADD, "--cohort", "later", "--ids", "later.csv", "--id", "id"),
        (COHORT,),
        ("curator/cohorts.py:_refuse_other_first",),
    ),
    "declared number": Case(
        ((*WIDE, "--records", "7"),),
        (*ADD, "--records", "60"),
        ({},),
        ("curator/ledger_file.py:_pin_first",),
    ),
    "another budget": Case(
        (BUDGET,),
        (*ADD, "--epsilon", "1.5", "--delta", "1e-6"),
        ({},),
        ("curator/ledger_file.py:add",),
    ),
    "no ledger to show": Case(
        (),
        ("ledger", "show", LEDGER),
        ({"--epsilon …": "--epsilon 1", "NAME": "people"},),
        ("audit/ledger_export.py:existing_ledger",),
    ),
    "closed": Case(
        (
            WIDE,
            release("my people.csv"),
            BACKUP,
            ("remove", LEDGER),
            ("ledger", "restore", "the backup", "--out", LEDGER),
        ),
        release("my people.csv", "--epsilon", "2", out="two.csv"),
        ({"--epsilon …": "--epsilon 9"},),
        ("curator/datasets.py:refuse_closed",),
    ),
    "a backup is no ledger": Case(
        (WIDE, BACKUP),
        ("ledger", "show", "the backup"),
        ({"--out …": "--out restored.ledger"},),
        ("curator/ledger_store.py:_check_content",),
    ),
}

OPTIONS = {"cli/estimate.py:column", "fit/bundle.py:_load_estimator", "bags/tables.py:read_bags"}
"""Functions that name an option of a command, and print no command to run."""

COVERED = {
    "cli/ledger.py:ledger_restore": "test_restore_prints_a_command_for_each_dataset",
    "curator/ledger_upkeep.py:move": "test_a_move_that_was_cut_off_prints_its_end",
    "estimators.py:_fit_by_ledger": "test_a_clone_prints_how_to_declare_the_number",
    "curator/datasets.py:add_command": "all of them",
    "curator/cohorts.py:cohort_command": "those of cohorts",
}
"""Functions that print commands in other situations, and their tests."""


def filled(command: str, fill: dict[str, str]) -> list[str]:
    """The words of a printed command, with a user's words for placeholders, as a shell splits them."""
    for gap, text in fill.items():
        command = re.sub(rf"(?<!\w){re.escape(gap)}(?!\w)", text.replace("\\", "\\\\"), command)
    assert "…" not in command, command
    return shlex.split(command)[1:]


def printed(said: str) -> list[str]:
    """The commands in a message: up to the end of the sentence, or of the line."""
    return [
        match.rstrip(".")
        for match in re.findall(r"labeldp \S+ .*?(?=\. [A-Z]|; | \(|\.?$)", said, re.M)
        if "--" in match
    ]


def run(labeldp: Run, words: tuple[str, ...] | list[str]) -> Ran:
    if words[0] == "remove":
        Path(words[1]).unlink()
        return Ran(0, "", "")
    return labeldp(*words)


@pytest.fixture
def folder(tmp_path: Path, labeldp: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my people.csv").write_text(table(0, 60))
    Path("later.csv").write_text(table(60, 80))
    Path("all.csv").write_text(table(0, 80))
    Path("missing.csv").write_text(table(0, 60, ("no", "yes", "missing")))
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_a_printed_command_helps(folder: Path, labeldp: Run, name: str) -> None:
    case = CASES[name]
    for words in case.before:
        assert run(labeldp, words).status == 0, words
    first = case.first
    if name == "a label outside":
        first = release("missing.csv")
    refused = run(labeldp, first)
    assert refused.status != 0
    commands = printed(refused.err)
    assert commands, refused.err
    for fill in case.fill:
        done = run(labeldp, filled(commands[0], fill))
        assert done.status == 0, (commands, done.err)
    if name == "a backup is no ledger":
        first = ("ledger", "show", "restored.ledger")
    again = run(labeldp, case.first if name != "a backup is no ledger" else first)
    assert again.status == 0, again.err


def test_restore_prints_a_command_for_each_dataset(folder: Path, labeldp: Run) -> None:
    file = LedgerFile(LEDGER)
    for name in ("my people", "it's"):
        file.add(name, Budget(1))
    assert labeldp("ledger", "backup", LEDGER, "--out", "backup").status == 0
    Path(LEDGER).unlink()
    commands = printed(labeldp("ledger", "restore", "backup", "--out", LEDGER).out)
    assert len(commands) == 2
    for command in commands:
        assert run(labeldp, filled(command, {"--epsilon …": "--epsilon 1"})).status == 0, command


def test_a_move_that_was_cut_off_prints_its_end(folder: Path, labeldp: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert labeldp(*WIDE).status == 0

    def stop(*paths: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("labeldp.curator.ledger_upkeep._empty", stop)
        assert labeldp("ledger", "move", LEDGER, "--out", "the new one").status != 0
    refused = labeldp("ledger", "move", LEDGER, "--out", "another")
    [command] = printed(refused.err)
    command = command.removesuffix(" ends that")
    assert run(labeldp, filled(command, {})).status == 0
    assert labeldp("ledger", "show", "the new one").status == 0


def test_a_clone_prints_how_to_declare_the_number(folder: Path, labeldp: Run) -> None:
    import numpy as np
    from sklearn.base import clone

    import labeldp as ldp

    features, labels = np.arange(60.0)[:, None], np.arange(60) % 2
    for dataset, gaps in (("new", {"--epsilon …": "--epsilon 9"}), ("my people", {})):
        if not gaps:
            assert labeldp(*WIDE).status == 0
        model = ldp.LabelDPClassifier(
            classes=2, epsilon=1, ledger=f"{dataset} ledger" if gaps else LEDGER, dataset=dataset
        )
        with pytest.raises(ldp.LabelDPError) as refused:
            clone(model).fit(features, labels)
        [command] = printed(str(refused.value))
        assert run(labeldp, filled(command, {"N": "60", **gaps})).status == 0, command
        clone(model).fit(features, labels)


def prints_commands() -> set[str]:
    """The functions of the package that build a command with options, by file and name."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and _prints(node):
                found.add(f"{file.relative_to(PACKAGE)}:{node.name}")
    return found


def _prints(function: ast.FunctionDef) -> bool:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    for node in (each for statement in body for each in ast.walk(statement)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("add_command", "cohort_command"):
            return True
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value for part in node.values if isinstance(part, ast.Constant))
            if re.search(r"labeldp (ledger|fit|release|predict|online|estimate|certificate|audit|admin) .*--", text):
                return True
    return False


def test_every_function_that_prints_a_command_has_a_case() -> None:
    cases = {name for case in CASES.values() for name in case.prints}
    assert prints_commands() == cases | COVERED.keys() | OPTIONS
