"""The same fit again: finished at no cost, recognized where it stands, and refused where it is another."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.conftest import DONE, PUBLIC, Ran, account
from labeldp._version import __version__
from labeldp.curator import LedgerFile
from labeldp.fit import Bundle, fit_file, fit_request
from labeldp.mechanisms import Classes
from labeldp.privacy import InputError, NamedFile
from people import table_of_people
from slow import mostly_slow

FIT = ("--label", "bought", "--classes", "no,yes", "--epsilon", "1", *account("people", "9"))
QUICK = ("fit", "people.csv", *FIT, "--model", "linear", "--out", "model")
STAGES = ("--stages", "2")
PRIOR = ("--trust", "central", "--prior", "clusters", "--model", "boosting")


def steps(people: Path) -> list[tuple[str, str]]:
    """The stages that the ledger was charged for, with the charges' ids."""
    entries = LedgerFile(people / "l.ledger").dataset("people").read().entries
    return [((entry.step or "").rpartition(": ")[2], entry.certificate.entries[0].id) for entry in entries]


@pytest.mark.parametrize(
    "options",
    [
        (),
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (STAGES, PRIOR, ("--id", "id"), ("--test", "public.csv", PUBLIC))
        ),
    ],
)
def test_the_same_command_again_says_the_same_at_no_cost(
    labeldp: Callable[..., Ran], people: Path, options: tuple[str, ...]
) -> None:
    first = labeldp(*QUICK, *options)
    assert first.status == 0, first.err
    files = {path.name: path.read_bytes() for path in (people / "model").iterdir()}
    charged = steps(people)
    again = labeldp(*QUICK, *options)
    assert (again.status, again.out, again.err) == (0, first.out, DONE)
    assert {path.name: path.read_bytes() for path in (people / "model").iterdir()} == files
    assert steps(people) == charged


SHARE = ("--evaluation", "0.25")


@pytest.mark.parametrize("model", ["boosting", "neighbors"])
def test_an_evaluation_part_of_released_labels_costs_nothing(
    labeldp: Callable[..., Ran], people: Path, model: str
) -> None:
    command = ("fit", "people.csv", *FIT, "--model", model)
    assert labeldp(*command, "--out", "model").status == 0
    charged = steps(people)
    measured = labeldp(*command, *SHARE, "--out", "measured")
    assert measured.status == 0, measured.err
    assert steps(people) == charged
    found = json.loads((people / "measured" / "summary.json").read_text())
    records = found["rows"]
    assert found["held_out"] == -(-records // 4) and "--evaluation 0.25" in found["command"]
    assert f"on {found['held_out']:,} held-out noisy labels" in measured.out
    report = (people / "measured" / "report.html").read_text()
    assert f"Estimated on a held-out set of {found['held_out']:,}" in report and "cross-validation" not in report
    whole = json.loads((people / "model" / "summary.json").read_text())
    assert whole["held_out"] == 0 and "--evaluation" not in whole["command"]
    again = labeldp(*command, *SHARE, "--out", "measured")
    assert (again.status, again.out) == (0, measured.out)


@pytest.mark.slow
@pytest.mark.parametrize("model", [("--trust", "central", "--model", "linear"), STAGES])
def test_the_share_that_is_the_default_is_found_again_when_it_is_named(
    labeldp: Callable[..., Ran], people: Path, model: tuple[str, ...]
) -> None:
    command = ("fit", "people.csv", *FIT[:-1], "1", *model)
    assert labeldp(*command, "--out", "model").status == 0
    charged = steps(people)
    named = labeldp(*command, "--evaluation", "0.1", "--out", "named")
    assert named.status == 0, named.err
    assert steps(people) == charged
    refused = labeldp(*command, "--evaluation", "0.3", "--out", "other")  # other records would be summed
    assert refused.status == 1 and "budget" in refused.err and steps(people) == charged


@pytest.mark.parametrize(
    ("share", "words"),
    [("0", "--evaluation must be a share of the records above 0"), ("1", "--evaluation must be a share of the records"),
     ("0.001", "--evaluation must leave at least 20 records"), ("a", "--evaluation must be a number")],
)  # fmt: skip
def test_a_wrong_share_is_refused_and_nothing_is_charged(
    labeldp: Callable[..., Ran], people: Path, share: str, words: str
) -> None:
    ran = labeldp(*QUICK, "--evaluation", share)
    assert ran.status == 1 and words in ran.err and not (people / "l.ledger").exists()


def test_a_fit_of_too_few_records_is_refused_before_a_charge(labeldp: Callable[..., Ran], people: Path) -> None:
    """Nineteen records were charged for a model that had learned nothing."""
    pd.read_csv(people / "people.csv").head(19).to_csv(people / "people.csv", index=False)
    ran = labeldp(*QUICK)
    assert ran.status == 1 and "a fit needs at least 20 records, and this one has 19" in ran.err
    assert ran.err.count("\n") == 1 and not (people / "l.ledger").exists()


def test_a_wrong_domain_is_reported_before_a_spent_budget(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*QUICK).status == 0
    charged = steps(people)
    wrong = [each.replace("no,yes", "no,yes,maybe") for each in QUICK]
    ran = labeldp(*wrong, "--epsilon", "7", "--out", "other")
    assert ran.status == 1 and "the declared domain of" in ran.err and "budget" not in ran.err, ran.err
    assert steps(people) == charged


MODELS: dict[str, tuple[str, ...]] = {
    "stages": (*FIT, "--model", "linear", *STAGES),
    "boosting": (*FIT, "--test", "public.csv", PUBLIC),
    "ids": (*FIT, "--model", "boosting", "--id", "id"),
    "cells": (*FIT, "--model", "cells", "--cells", "4"),
    "neighbors": (*FIT, "--model", "neighbors"),
    "linear": (*FIT, "--trust", "central", "--model", "linear", "--delta", "1e-6"),
    "numbers": ("--label", "hours", "--range", "0,100", *FIT[4:]),
}
"""What is asked for, each charged to a dataset of its own."""

FITTED = """
import sys
from labeldp import cli
sys.argv = ["labeldp", *sys.argv[1:]]
cli.main()
"""


@pytest.mark.parametrize("name", mostly_slow(MODELS, ["cells"]))
def test_the_same_fit_writes_the_same_bytes(people: Path, name: str) -> None:
    """Two processes with one ledger fill two directories, one after the other: every file is the same, to the byte.

    A model said before where its objects had stood in memory, and when it was written.
    """
    table_of_people(200, seed=3).to_csv(people / "public.csv", index=False)
    found = []
    for seed in ("1", "2"):
        (people / seed).mkdir()
        command = [sys.executable, "-c", FITTED, "fit", "people.csv", *MODELS[name], "--out", f"{seed}/model"]
        ran = subprocess.run(
            command, cwd=people, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONHASHSEED": seed}
        )
        assert ran.returncode == 0, ran.stderr
        found.append({path.name: path.read_bytes() for path in (people / seed / "model").iterdir()})
    assert found[0].keys() == {"certificate.json", "model.json", "model.skops", "report.html", "summary.json"}
    assert [file for file, content in found[0].items() if found[1][file] != content] == []
    assert Bundle.read(people / "1" / "model").model.domain == Bundle.read(people / "2" / "model").model.domain


def test_another_command_does_not_take_a_model_that_stands(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "9").status == 0
    assert labeldp(*QUICK).status == 0
    charged = steps(people)
    for change in [
        ("--epsilon", "2"),
        ("--model", "boosting"),
        ("--test", "public.csv", PUBLIC),
        ("--ledger", "m.ledger"),
    ]:
        ran = labeldp(*QUICK, *change)
        assert ran.status == 1 and "not empty" in ran.err, ran
    with (people / "model" / "report.html").open("a") as file:
        file.write(" ")
    assert "not empty" in labeldp(*QUICK).err
    assert steps(people) == charged and not (people / "m.ledger").exists()


def test_labels_that_changed_are_refused_although_a_model_stands(labeldp: Callable[..., Ran], people: Path) -> None:
    for options in [(), STAGES]:
        shutil.rmtree(people / "model", ignore_errors=True)
        (people / "l.ledger").unlink(missing_ok=True)
        assert labeldp(*QUICK, *options).status == 0
        charged, table = steps(people), pd.read_csv(people / "people.csv")
        table["bought"] = table["bought"].map({"no": "yes", "yes": "no"})
        table.to_csv(people / "people.csv", index=False)
        ran = labeldp(*QUICK, *options)
        assert ran.status == 1 and "--revision" in ran.err, ran
        assert steps(people) == charged


KILLED = """
import os, signal, sys
from labeldp import cli
from labeldp.curator import curator, ledger_transaction
from labeldp.fit import run

def dying(function, when):
    def killed(*arguments, **options):
        if when == "before": os.kill(os.getpid(), signal.SIGKILL)
        function(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return killed

moment = sys.argv.pop(1)
if moment == "the ledger appeared":
    ledger_transaction.LedgerTransaction.write = dying(ledger_transaction.LedgerTransaction.write, "before")
elif moment == "between stages":
    curator.Curator.release = dying(curator.Curator.release, "after")
else:
    run.write_json = dying(run.write_json, "before")
cli.main()
"""


@pytest.mark.parametrize(
    ("moment", "known"),
    [
        pytest.param("the ledger appeared", [], marks=pytest.mark.slow),
        ("between stages", ["stage 1"]),
        pytest.param("the directory is half full", ["stage 1", "stage 2", "evaluation"], marks=pytest.mark.slow),
    ],
)
def test_a_killed_fit_is_finished_by_the_same_command_with_the_same_charges(
    labeldp: Callable[..., Ran], people: Path, moment: str, known: list[str]
) -> None:
    command = [sys.executable, "-c", KILLED, moment, *QUICK, *STAGES]
    killed = subprocess.run(command, cwd=people, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (people / "l.ledger").exists() and not (people / "model").exists()
    charged = steps(people) if known else []
    assert [step for step, _ in charged] == known
    assert (people / ".model.partial" / "model.skops").exists() == (len(known) == 3)
    done = labeldp(*QUICK, *STAGES)
    assert done.status == 0, done.err
    assert [step for step, _ in steps(people)] == ["stage 1", "stage 2", "evaluation"]
    assert steps(people)[: len(known)] == charged
    assert "ε 1 of" in labeldp("ledger", "show", "l.ledger").out
    assert labeldp("certificate", "model").status == 0 and not list(people.glob(".*.partial"))


def test_what_auto_took_is_what_the_terminal_says(labeldp: Callable[..., Ran], people: Path) -> None:
    """It may spend less than a request allows."""
    asked = ("--trust", "central", "--delta", "1e-6", "--epsilon", "4", "--model", "auto")
    done = labeldp(*QUICK, *asked)
    assert done.status == 0, done.err
    [entry, *_] = json.loads((people / "model" / "summary.json").read_text())["certificate"]
    assert entry["trust"].startswith("local: ") and entry["delta"] == 0
    assert "Spent ε = 4, δ = 0 on 'people'" in done.err and "ε = 4, δ = 0 · local · " in done.out


def test_a_request_that_begins_from_a_network_is_not_repeated_without_it(people: Path) -> None:
    asked = fit_request("bought", Classes(("no", "yes")), 1, 0, "people", model="linear")
    asked = replace(asked, files={"init": NamedFile("network", "0" * 64)}, version="0.0.1")
    with pytest.raises(InputError, match="init must name the directory of 'network', as the request does"):
        fit_file(asked, str(people / "people.csv"), ledger=str(people / "l.ledger"), out=str(people / "model"))
    assert not (people / "l.ledger").exists()
    place = {"ledger": str(people / "l.ledger"), "out": str(people / "m")}
    fit_file(replace(asked, files={}), str(people / "people.csv"), **place)
    stored = json.loads((people / "m" / "certificate.json").read_text())["certificate"]["request"]
    assert stored["version"] == __version__


@pytest.mark.slow
def test_what_is_left_of_an_interrupted_fit_must_fit_the_budget(labeldp: Callable[..., Ran], people: Path) -> None:
    """The part that another release used up in between is missing: no further stage is charged."""
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "1").status == 0
    command = [sys.executable, "-c", KILLED, "between stages", *QUICK, *PRIOR, "--new-budget", "1"]
    assert subprocess.run(command, cwd=people, check=False).returncode == -signal.SIGKILL
    charged = steps(people)
    assert [step for step, _ in charged] == ["cluster prior"]
    other = ("release", "people.csv", *FIT, "--new-budget", "1", "--epsilon", "0.5", "--out", "noisy.csv")
    assert labeldp(*other).status == 0
    ran = labeldp(*QUICK, *PRIOR, "--new-budget", "1")
    assert ran.status == 1 and "this would bring it to " in ran.err and ran.err.count("\n") == 1, ran
    assert steps(people)[:1] == charged and len(steps(people)) == 2


def test_a_certificate_that_was_edited_is_not_what_was_certified(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*QUICK).status == 0
    place = people / "model" / "certificate.json"
    written = json.loads(place.read_text())
    for field, value in [("published", "nothing"), ("assumptions", []), ("dataset", "others")]:
        place.write_text(json.dumps({**written, "certificate": {**written["certificate"], field: value}}))
        said = labeldp("certificate", "model")
        assert said.status == 1 and "NOT what was certified: certificate.json" in said.out, said
        assert labeldp("predict", "model", "new_people.csv", "--out", "p.csv").status == 1
    for field, value in [("assumptions", [3]), ("assumptions", "text"), ("published", None), ("dataset", 1)]:
        place.write_text(json.dumps({**written, "certificate": {**written["certificate"], field: value}}))
        said = labeldp("certificate", "model")
        assert said.status == 1 and said.err.startswith("Error: ") and said.err.count("\n") == 1, said
    place.write_text(json.dumps({**written, "certificate": [1]}))
    assert labeldp("certificate", "model").err.startswith("Error: ")
    place.write_text(json.dumps(written, indent=3))
    assert labeldp("certificate", "model").status == 0


def test_a_model_of_another_sampler_is_refused_before_its_labels_are_charged_again(
    labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "people", "--epsilon", "9").status == 0
    assert labeldp(*QUICK).status == 0
    charged = steps(people)
    monkeypatch.setattr("labeldp.mechanisms.base.SAMPLER_VERSION", 2)
    ran = labeldp(*QUICK)
    assert ran.status == 1 and "not empty" in ran.err
    assert steps(people) == charged


KINDS = ("--label", "kind", "--classes", "0,1,2,3,4", "--epsilon", "1", *account("kinds", ledger="kinds.ledger"))


@pytest.mark.parametrize("options", [STAGES, PRIOR], ids=["two stages", "a prior"])
def test_the_report_says_which_records_were_answered_by_groups(
    labeldp: Callable[..., Ran], people: Path, options: tuple[str, ...]
) -> None:
    """Records with a prior are answered by one class, and the report said that all were answered by groups."""
    kinds = np.arange(300) % 5
    pd.DataFrame({"x": kinds + 0.5, "y": np.arange(300) % 7, "kind": kinds}).to_csv(people / "kinds.csv", index=False)
    done = labeldp("fit", "kinds.csv", *KINDS, "--model", "boosting", *options, "--out", "model")
    assert done.status == 0, done.err
    published = json.loads((people / "model" / "summary.json").read_text())["published"]
    [said] = [each for each in published if "random class groups" in each]
    assert said.startswith("Each released label is the true label with probability")
    assert "Each record without a prior releases one of" in said


def test_a_fit_of_many_classes_answers_by_groups_once(labeldp: Callable[..., Ran], people: Path) -> None:
    kinds = np.arange(300) % 5
    pd.DataFrame({"x": kinds + 0.5, "y": np.arange(300) % 7, "kind": kinds}).to_csv(people / "kinds.csv", index=False)
    fit = ("fit", "kinds.csv", *KINDS, "--model", "boosting", "--out", "model")
    first = labeldp(*fit)
    assert first.status == 0, first.err
    assert "one noisy class group per record (local hashing, 3 groups" in labeldp("certificate", "model").out
    report = (people / "model" / "report.html").read_text()
    assert "one of 3 random class groups" in report and "bits per label" in report
    charges = LedgerFile(people / "kinds.ledger").dataset("kinds").charges
    shutil.rmtree(people / "model")
    assert labeldp(*fit).out == first.out
    release = labeldp("release", "kinds.csv", *KINDS, "--mechanism", "local-hashing", "--out", "groups.csv")
    assert release.status == 0, release.err  # the groups that the model learned from cost nothing more
    assert LedgerFile(people / "kinds.ledger").dataset("kinds").charges == charges


def test_cells_neighbors_and_classifiers_learn_from_one_release(labeldp: Callable[..., Ran], people: Path) -> None:
    kinds = np.arange(300) % 5
    pd.DataFrame({"x": kinds + 0.5, "y": np.arange(300) % 7, "kind": kinds}).to_csv(people / "kinds.csv", index=False)
    for model in ("cells", "boosting", "neighbors"):
        done = labeldp("fit", "kinds.csv", *KINDS, "--model", model, "--out", model)
        assert done.status == 0, done.err
        assert "one noisy class group per record (local hashing, 3 groups" in labeldp("certificate", model).out
    [charge] = LedgerFile(people / "kinds.ledger").dataset("kinds").charges
    assert charge.mechanism["mechanism"] == "LocalHashing"
