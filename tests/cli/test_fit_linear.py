"""A linear model of noisy sums, from a file to predictions: trust, costs, the same command again, what is refused."""

import csv
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cli.conftest import DONE, Ran, account
from cli.test_fit_again import KILLED, steps
from cli.test_refusals import refused
from labeldp.curator import LedgerFile
from labeldp.mechanisms import moments
from labeldp.privacy import total_loss

LABELS = ("--label", "bought", "--classes", "no,yes", *account("people", "2"))
CENTRAL = ("--trust", "central", "--model", "linear")
FIT = ("fit", "people.csv", *LABELS, *CENTRAL, "--id", "id", "--epsilon", "2", "--delta", "1e-6", "--diagnostics",
       "--out", "model")  # fmt: skip


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a first model is kept, so that it is learned once."""
    return tmp_path_factory.mktemp("linear")


@pytest.fixture
def fitted(labeldp: Callable[..., Ran], people: Path, made: Path, curves: None) -> tuple[Path, str]:
    """The folder with a fitted model, and what the command said."""
    if not (made / "said.txt").exists():
        done = labeldp(*FIT)
        assert done.status == 0, done.err
        for name in ("model", "l.ledger"):
            copy = shutil.copytree if (people / name).is_dir() else shutil.copy
            copy(people / name, made / name)
        (made / "said.txt").write_text(done.out)
    else:
        shutil.copytree(made / "model", people / "model")
        shutil.copy(made / "l.ledger", people / "l.ledger")
    return people, (made / "said.txt").read_text()


def summary(folder: Path) -> Any:
    return json.loads((folder / "model" / "summary.json").read_text())


def test_one_command_makes_a_model_with_trust_and_delta_in_its_certificate(
    labeldp: Callable[..., Ran], fitted: tuple[Path, str]
) -> None:
    folder, said = fitted
    assert "ε = 2, δ = 1e-06 · central" in said and "held-out noisy labels" in said
    certificate = labeldp("certificate", "model").out
    assert "a trusted curator sees the labels" in certificate
    assert "the features do not depend on the private labels" in certificate
    checked = labeldp("certificate", "model", "--delta", "1e-6")
    assert checked.status == 0 and "ε = 2, δ = 1e-06" in checked.out
    assert labeldp("certificate", "model").out == checked.out
    assert "NONE at δ = 0: no finite ε holds" in labeldp("certificate", "model", "--delta", "0").out
    assert "gaussian moment      linear      2  1e-06" in labeldp("ledger", "show", "l.ledger").out
    assert labeldp("predict", "model", "new_people.csv", "--out", "p.csv", "--id", "id").status == 0
    rows = list(csv.DictReader((folder / "p.csv").read_text().splitlines()))
    assert len(rows) == 50 and {row["prediction"] for row in rows} == {"no", "yes"}
    assert all(abs(float(row["probability_no"]) + float(row["probability_yes"]) - 1) < 1e-9 for row in rows)


def test_the_report_says_whom_to_trust_how_much_noise_there_is_and_what_stays_secret(fitted: tuple[Path, str]) -> None:
    found = summary(fitted[0])
    assert [(stage["name"], stage["records"]) for stage in found["stages"]] == [("linear", 540), ("evaluation", 60)]
    assert found["model"] == (
        "a linear model of numbers, categories and random trees’ leaves, learned from one release of noisy sums"
    )
    assert any(text.startswith("Gaussian noise was added to every sum") for text in found["published"])
    assert "The sums as they were before noise was added." in found["secret"]
    assert [point["epsilon"] for point in found["curve"]["points"]] == [1.0, 2.0, 4.0]
    assert "summed with new noise" in found["curve"]["method"]
    assert {item["feature"] for item in found["importance"]} == {"age", "hours", "region", "job"}
    assert found["certificate"][0]["mechanism"] == "GaussianMoment, epsilon = 2, delta = 1e-06"
    assert found["budget"]["left"]["epsilon"] == 0.0
    report = (fitted[0] / "model" / "report.html").read_text()
    assert "δ = 1e-6, central" in report and "a trusted curator sees the labels" in report


def test_the_same_command_again_costs_nothing(labeldp: Callable[..., Ran], fitted: tuple[Path, str]) -> None:
    folder, said = fitted
    charged = steps(folder)
    assert [step for step, _ in charged] == ["linear", "evaluation"]
    again = labeldp(*FIT)
    assert (again.status, again.out, again.err) == (0, said, DONE)
    pd.read_csv(folder / "people.csv").sample(frac=1, random_state=0).to_csv(folder / "people.csv", index=False)
    moved = labeldp(*FIT[:-1], "moved")
    assert moved.status == 0, moved.err
    assert steps(folder) == charged
    one, two = (json.loads((folder / name / "summary.json").read_text()) for name in ("model", "moved"))
    assert one["accuracy"] == two["accuracy"] and one["importance"] == two["importance"]


def test_the_budget_must_carry_delta_and_all_parts_before_the_first_is_charged(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    for epsilon, delta, words in [
        ("2", "0", "this costs a delta"),
        ("1.9", "1e-6", "this would bring it to 118.7"),
        ("2", "1e-7", "bring"),
    ]:
        assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", epsilon, "--delta", delta,
                       *(["--change"] if (people / "l.ledger").exists() else [])).status == 0  # fmt: skip
        ran = labeldp(*FIT, "--new-budget", epsilon)
        assert ran.status == 1 and words in ran.err and ran.err.count("\n") == 1, ran
        assert "labeldp ledger add l.ledger --dataset people --change --epsilon … --reason …" in ran.err
        assert steps(people) == [] and not (people / "model").exists()


@pytest.mark.slow
def test_a_killed_fit_is_finished_by_the_same_command_with_the_same_charges(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    command = [sys.executable, "-c", KILLED, "between stages", *FIT]
    killed = subprocess.run(command, cwd=people, capture_output=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    charged = steps(people)
    assert [step for step, _ in charged] == ["linear"] and not (people / "model").exists()
    done = labeldp(*FIT)
    assert done.status == 0, done.err
    assert steps(people)[:1] == charged and [step for step, _ in steps(people)] == ["linear", "evaluation"]
    charges = LedgerFile(people / "l.ledger").dataset("people").charges
    assert 1.999 < total_loss(charges).epsilon(1e-6) <= 2


def test_rows_of_other_bits_are_refused_before_the_sums_could_be_charged_again(
    labeldp: Callable[..., Ran], fitted: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine may round otherwise; the budget would allow a second release, and nobody asked for one."""
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "9", "--delta", "1e-5",
                   "--change").status == 0  # fmt: skip
    charged, rows = steps(fitted[0]), moments.GridRows.of
    monkeypatch.setattr(moments.GridRows, "of", lambda features, *others: rows(_nudged(features), *others))
    ran = labeldp(*FIT[:-1], "again")
    assert ran.status == 1 and "other bits" in ran.err and ran.err.count("Error: ") == 1, ran
    assert steps(fitted[0]) == charged
    # A directory that holds this very fit is left as it is: nothing is learned again.
    files = {path.name: path.read_bytes() for path in (fitted[0] / "model").iterdir()}
    ran = labeldp(*FIT)
    assert ran.status == 0, ran
    assert {path.name: path.read_bytes() for path in (fitted[0] / "model").iterdir()} == files
    assert steps(fitted[0]) == charged and not (fitted[0] / "again").exists()


def _nudged(features: Any) -> Any:
    value = features.value
    rows = value.block(0, value.shape[0]) if hasattr(value, "block") else value
    return type(features)(rows * (1 + 1e-3), why=features.why)


def test_without_a_delta_the_promise_is_pure(labeldp: Callable[..., Ran], people: Path) -> None:
    words = [word for word in FIT if word not in ("--delta", "1e-6")]
    done = labeldp(*words)
    assert done.status == 0, done.err
    assert "ε = 2, δ = 0 · central" in done.out
    found = summary(people)
    assert found["certificate"][0]["mechanism"] == "LaplaceMoment, epsilon = 2" and "--delta" not in found["command"]
    assert any(text.startswith("Two-sided geometric noise") for text in found["published"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "linear", "--delta", "1e-6"), ("--delta goes with --trust central",)),
        (("--trust", "central", "--model", "boosting"), ("--model boosting goes with --trust local", "--model linear")),
        (("--trust", "central", "--model", "boosting"), ("goes with --trust local",)),
        (("--delta", "1e-6"), ("--delta goes with --trust central",)),
        ((*CENTRAL, "--delta", "1"), ("delta must lie in [0, 1)",)),
        ((*CENTRAL, "--delta", "-1e-6"), ("delta must lie in [0, 1)",)),
        ((*CENTRAL, "--delta", "small"), ("delta",)),
        ((*CENTRAL, "--delta", "nan"), ("delta",)),
        ((*CENTRAL, "--stages", "2"), ("--stages",)),
        ((*CENTRAL, "--prior", "clusters"), ("--prior",)),
        ((*CENTRAL, "--epsilon", "1e-30"), ("epsilon",)),
        ((*CENTRAL, "--epsilon", "1e-30", "--delta", "1e-30"), ("epsilon",)),
    ],
)
def test_what_does_not_go_together_is_refused(
    labeldp: Callable[..., Ran], people: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """One clear error; nothing is charged and nothing is written."""
    refused(labeldp("fit", "people.csv", *LABELS, "--epsilon", "1", "--out", "model", *options), people, *words)


def test_a_table_too_small_to_learn_from_is_refused(labeldp: Callable[..., Ran], people: Path) -> None:
    pd.read_csv(people / "people.csv").head(2).to_csv(people / "people.csv", index=False)
    ran = labeldp(*FIT)
    assert ran.status == 1 and "Traceback" not in ran.err
    assert "a fit needs at least 20 records, and this one has 2" in ran.err
    assert not (people / "l.ledger").exists() and not (people / "model").exists()
