"""The main job from a file to predictions, a certificate and a report, as a user runs it."""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.conftest import PUBLIC, Ran, account

FIT = ("--label", "bought", "--classes", "no,yes", "--epsilon", "1", *account("people"))
QUICK = (*FIT, "--model", "boosting", "--stages", "1")


def test_fit_predict_certificate_and_again_at_no_cost(labeldp: Callable[..., Ran], people: Path) -> None:
    done = labeldp("fit", "people.csv", *QUICK, "--out", "model", "--test", "public.csv", PUBLIC)
    assert done.status == 0, done.err
    assert "ε = 1, δ = 0" in done.out and "Created l.ledger" in done.err
    stages = [line.split(" s] ")[1] for line in done.err.splitlines() if " s] " in line]  # stderr is no terminal
    assert stages[0] == "training" and "evaluating" in stages
    assert stages[-1] == "evaluating" and len(set(stages)) == len(stages)
    assert {path.name for path in (people / "model").iterdir()} == {
        "certificate.json", "model.json", "model.skops", "report.html", "summary.json",
    }  # fmt: skip
    said, quiet, found = (labeldp("certificate", "model", *more) for more in ((), ("--quiet",), ("--json",)))
    assert (
        said.status == quiet.status == found.status == 0 and "The certified files of model are unchanged." in said.out
    )
    assert "model still is" not in quiet.out and quiet.out in said.out, "the first line says that it is unverified"
    assert json.loads(found.out)["words"] in said.out and json.loads(found.out)["checks"][0]["holds"] is None

    predicted = labeldp("predict", "model", "new_people.csv", "--out", "q.csv", "--json")
    assert json.loads(predicted.out) == {"rows": 50, "out": "q.csv"}
    assert labeldp("predict", "model", "new_people.csv", "--out", "p.csv", "--id", "id").status == 0
    rows = list(csv.DictReader((people / "p.csv").read_text().splitlines()))
    assert len(rows) == 50 and {row["prediction"] for row in rows} <= {"no", "yes"}
    assert all(abs(float(row["probability_no"]) + float(row["probability_yes"]) - 1) < 1e-9 for row in rows)

    again = labeldp("fit", "people.csv", *QUICK, "--out", "model2")
    assert again.status == 0, again.err
    assert "ε 1 of" in labeldp("ledger", "show", "l.ledger").out
    one, two = (json.loads((people / name / "certificate.json").read_text()) for name in ("model", "model2"))
    assert one["certificate"].pop("assumptions") == [
        *two["certificate"].pop("assumptions"), "the labels of public.csv are public",
    ]  # fmt: skip
    files = one["certificate"]["request"].pop("files")
    assert list(files) == ["test"] and files["test"]["name"] == "public.csv"
    assert one["certificate"] == two["certificate"]
    assert one["files"]["model.json"] == two["files"]["model.json"]

    another = labeldp("fit", "people.csv", *FIT, "--model", "cells", "--out", "cells")
    assert another.status == 0, another.err  # of the same released labels
    other = labeldp("fit", "people.csv", *QUICK, "--epsilon", "0.5", "--out", "model3")
    assert other.status == 1 and "budget" in other.err and not (people / "model3").exists()
    assert "ε 1 of" in labeldp("ledger", "show", "l.ledger").out


def test_a_changed_model_is_not_what_was_certified_and_does_not_predict(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    assert labeldp("fit", "people.csv", *QUICK, "--out", "model").status == 0
    with (people / "model" / "model.json").open("a") as file:
        file.write(" ")
    said = labeldp("certificate", "model")
    assert said.status == 1 and "NOT what was certified: model.json changed" in said.out
    assert labeldp("predict", "model", "new_people.csv", "--out", "p.csv").status == 1
    assert not (people / "p.csv").exists()
    shutil.rmtree(people / "model")
    assert labeldp("certificate", "model").status == 1


def test_two_stages_with_a_cluster_prior_cost_the_epsilon_together(labeldp: Callable[..., Ran], people: Path) -> None:
    """Counts are taken before noise is added, so the default, --trust local, is refused: nobody is trusted there."""
    command = ("fit", "people.csv", *FIT, "--model", "boosting", "--stages", "2", "--prior", "clusters")
    refused = labeldp(*command, "--out", "model")
    assert refused.status == 1 and "--prior clusters goes with --trust central" in refused.err
    assert not (people / "l.ledger").exists()
    done = labeldp(*command, "--trust", "central", "--out", "model")
    assert done.status == 0, done.err
    certificate = json.loads((people / "model" / "certificate.json").read_text())["certificate"]
    assert (
        certificate["trust"] == "CENTRAL" and "a trusted curator sees the labels" in labeldp("certificate", "model").out
    )
    assert "ε = 1, δ = 0 · central" in done.out
    summary = json.loads((people / "model" / "summary.json").read_text())
    assert [stage["name"] for stage in summary["stages"]] == ["cluster prior", "stage 1", "stage 2", "evaluation"]
    assert summary["budget"]["run"]["epsilon"] == 1.0 and summary["budget"]["left"]["epsilon"] == 0.0


def test_release_writes_a_sidecar_with_its_certificate(labeldp: Callable[..., Ran], people: Path) -> None:
    command = ("release", "people.parquet", *FIT, "--id", "id", "--out", "noisy.parquet")
    done = labeldp(*command)
    assert done.status == 0, done.err
    assert pq.read_schema(people / "noisy.parquet").names == ["id", "bought"]
    assert labeldp("certificate", "noisy.parquet").status == 0
    first = (people / "noisy.parquet").read_bytes()
    (people / "noisy.parquet").unlink()
    assert labeldp(*command).status == 0
    assert (people / "noisy.parquet").read_bytes() == first


def test_help_has_examples_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['labeldp', '--help']\n"
        "from labeldp.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'numpy', 'sklearn', 'pyarrow', 'scipy', 'rich', 'cryptography'} & set(sys.modules)\n"
        "    assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("command", ["fit", "predict", "release", "certificate", "demo"])
def test_every_command_has_an_example(labeldp: Callable[..., Ran], command: str) -> None:
    assert f"labeldp {command}" in labeldp(command, "--help").out.partition("Example")[2]


def test_an_epsilon_of_no_use_gives_a_model_that_says_so(labeldp: Callable[..., Ran], people: Path) -> None:
    """Of an epsilon that doubles cannot tell from 0 an estimate was no number, which was refused after the charge."""
    done = labeldp("fit", "people.csv", *QUICK, "--epsilon", "3e-18", "--out", "model")
    assert done.status == 0, done.err
    assert "95 % CI 0.0–100.0" in done.out and "do not show that the model is better" in " ".join(done.out.split())
