"""Every mechanism that `labeldp release` knows and every quick learner is asked again by its request."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from labeldp.audit import audit_run
from labeldp.bags import release_bags
from labeldp.curator import LedgerFile
from labeldp.fit import fit_file, fit_request, verify
from labeldp.learners import LEARNERS, TRUSTS
from labeldp.mechanisms import COMMANDS, Classes, Interval, load
from labeldp.online import run_online
from labeldp.privacy import REQUEST_KINDS, TOTALS, Budget, Request, Source
from labeldp.releases import PrivateColumn, histogram, release_file
from labeldp.report import render_report
from labeldp.tables import column_digest
from slow import mostly_slow

RECORDS = 90
NO, YES = CLASSES = ("no", "yes")
METADATA = b"labeldp.certificate"


def people(folder: Path, label: str = "bought", changed: int | None = None) -> str:
    """Write a table with a column of labels, one of which may be another."""
    rows = np.arange(RECORDS)
    table = pd.DataFrame({"id": rows + 7, "age": rows * 7 % 53, "pay": rows * 11 % 37 / 2, "team": rows // 10})
    labels = {"bought": np.where(table["age"] > 25, YES, NO), "hours": rows * 13 % 41}[label]
    if changed is not None:
        labels[changed] = next(other for other in labels if other != labels[changed])
    path = folder / ("people.csv" if changed is None else "changed.csv")
    table.assign(**{label: labels}).to_csv(path, index=False)
    return str(path)


def status(path: Path, data: str) -> int:
    """Audit a result with its ledger and data, and return the exit status of `labeldp audit`."""
    result = audit_run(str(path), ledger=str(path.parent / "l.ledger"), data=data, render=render_report)
    return {"holds": 0, "fails": 1, "unverified": 2}[result.verdict]


def change_a_value(path: Path) -> None:
    """Replace one released value by that of another record, and correct the digest."""
    content = json.loads(parquet.read_metadata(path).metadata[METADATA])
    table, column = parquet.read_table(path), content["column"]
    values = table[column].to_pylist()
    values[0] = values[0] + 1 if column == "bought_sum" else next(value for value in values if value != values[0])
    position, kind = table.column_names.index(column), table[column].type
    table = table.set_column(position, column, pa.array(values, kind))
    content["digest"] = column_digest(table[column].chunks)
    parquet.write_table(table.replace_schema_metadata({METADATA: json.dumps(content)}), path)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_mechanism_of_the_command_line_is_asked_again(tmp_path: Path, name: str) -> None:
    entry, out = COMMANDS[name], tmp_path / "noisy.parquet"
    asked: dict[str, Any] = {"label": "bought", "domain": Classes(CLASSES)}
    if "classes" not in entry.domains or entry.on_bags:
        asked = {"label": "hours", "domain": Interval(0, 40, grid=41)}
    data = people(tmp_path, asked["label"])
    asked |= {"mechanism": name, "epsilon": 2, "ledger": tmp_path / "l.ledger", "dataset": "people", "id_column": "id"}
    if entry.on_bags:
        certificate = release_bags(data, size=10, delta=1e-6 if entry.needs_delta else 0, out=out, **asked)
    else:
        certificate = release_file(data, out=out, **asked)
    request = certificate.request
    assert request is not None and verify(str(out)).certificate.request == request
    assert LedgerFile(tmp_path / "l.ledger").dataset("people").find_request(request.digest) == request
    assert status(out, data) == 0
    assert status(out, people(tmp_path, asked["label"], changed=3)) == 1
    change_a_value(out)
    assert verify(str(out)).holds and status(out, data) == 1


QUESTIONS: dict[str, dict[str, str]] = {
    "mean": {},
    "difference": {"treated": "older", "by": "team"},
    "evaluate": {"probabilities": "older", "why": "made up"},
    "compare": {"one": "old", "other": "new", "why": "made up"},
    "auc": {"probabilities": "age", "why": "made up"},
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_sums_of_a_question_are_asked_again(tmp_path: Path, question: str) -> None:
    data, out, domain = people(tmp_path), tmp_path / "sums.parquet", Classes(CLASSES)
    for path in (data, people(tmp_path, changed=3)):
        table = pd.read_csv(path)
        table["older"], table["old"], table["new"] = table.age % 2, np.array(CLASSES)[table.age % 2], NO
        table.to_csv(path, index=False)
    request = Request.of(
        "sums", question, "people", Source.of(data, "bought", "id"), 2, 0, domain=domain, **QUESTIONS[question]
    )
    column = PrivateColumn.read(data, "bought", domain, "id")
    release = column.release(request, ledger=tmp_path / "l.ledger", out=out)
    values = parquet.read_table(out)["bought_sum"].to_pylist()
    assert values == np.ravel(release.value).tolist() and verify(str(out)).certificate == release.certificate
    assert status(out, data) == 0
    assert status(out, str(tmp_path / "changed.csv")) == 1
    content = json.loads(parquet.read_metadata(out).metadata[METADATA])
    for part in ("mechanism", "request"):
        forged = json.loads(json.dumps(content))
        certificate = forged["certificate"]
        (certificate["request"] if part == "request" else certificate["entries"][0][part])["epsilon"] = "1"
        table = parquet.read_table(out).replace_schema_metadata({METADATA: json.dumps(forged)})
        parquet.write_table(table, tmp_path / "forged.parquet")
        assert status(tmp_path / "forged.parquet", data) == 1
    change_a_value(out)
    assert verify(str(out)).holds and status(out, data) == 1


MODELS = [
    (name, trust)
    for name, entry in LEARNERS.items()
    for trust in TRUSTS
    if "tables" in entry.data and entry.path(trust, "classes")
]
MODELS += [("auto", trust) for trust in TRUSTS]


@pytest.mark.parametrize(("name", "trust"), mostly_slow(MODELS, [("linear", "local"), ("cells", "central")]))
def test_every_learner_is_asked_again(tmp_path: Path, name: str, trust: str) -> None:
    data, out = people(tmp_path), tmp_path / "model"
    asked = fit_request("bought", Classes(CLASSES), 2.0, 0.0, "people", trust=trust, model=name, id_column="id")
    fit_file(asked, data, ledger=str(tmp_path / "l.ledger"), out=str(out), render=render_report)
    request = verify(str(out)).certificate.request
    assert request is not None and request.kind == "fit"
    assert status(out, data) == 0
    assert status(out, people(tmp_path, changed=3)) == 1


def test_a_fit_is_asked_again_with_diagnostics_and_without_them(tmp_path: Path) -> None:
    data, out = people(tmp_path), tmp_path / "model"
    asked = fit_request("bought", Classes(CLASSES), 2.0, 0.0, "people", model="linear", id_column="id")
    summary = fit_file(asked, data, ledger=str(tmp_path / "l.ledger"), out=str(out), render=render_report)
    assert summary.curve is None and not summary.importance
    assert "Permutation importance" not in (out / "report.html").read_text()
    assert status(out, data) == 0
    spent = LedgerFile(tmp_path / "l.ledger").dataset("people").spent
    fit_file(asked, data, ledger=str(tmp_path / "l.ledger"), out=str(tmp_path / "whole"), render=render_report,
             diagnostics=True)  # fmt: skip
    assert status(tmp_path / "whole", data) == 0
    assert LedgerFile(tmp_path / "l.ledger").dataset("people").spent == spent


def test_every_kind_of_request_is_asked_again_by_a_function_that_there_is() -> None:
    for text in (*(kind.answered_by for kind in REQUEST_KINDS.values()), *TOTALS.values()):
        assert text == "" or callable(load(text))


@pytest.mark.guarantee("labeldp.privacy:Request", "no_labels")
def test_a_request_is_the_same_for_other_labels(tmp_path: Path) -> None:
    """It is made before a label is read: nothing that was found in labels is in it."""
    requests: list[dict[str, str]] = []
    for number, data in enumerate((people(tmp_path), people(tmp_path, changed=3))):
        Path(data).rename(tmp_path / "data.csv")
        folder = tmp_path / str(number)
        folder.mkdir()
        given: dict[str, Any] = {"label": "bought", "domain": Classes(CLASSES), "dataset": "people"}
        given |= {"ledger": folder / "l.ledger", "epsilon": 1, "id_column": "id"}
        LedgerFile(folder / "l.ledger").add("people", Budget(5))
        certificates = {
            "release": release_file(tmp_path / "data.csv", out=folder / "noisy.csv", **given),
            "aggregate": release_bags(
                tmp_path / "data.csv", mechanism="bag-sum", size=10, out=folder / "sums.csv", **given
            ),
        }
        losses = np.random.default_rng(number).random((20, 2))
        pd.DataFrame(losses, columns=["a", "b"]).to_csv(tmp_path / "losses.csv", index=False)
        certificates["online"] = run_online(tmp_path / "losses.csv", epsilon=1.0, out=folder / "decisions.csv")
        asked = fit_request("bought", Classes(CLASSES), 1.0, 0.0, "people", model="linear", id_column="id")
        fit_file(asked, str(tmp_path / "data.csv"), ledger=str(folder / "l.ledger"), out=str(folder / "model"))
        certificates["fit"] = verify(str(folder / "model")).certificate
        source = Source.of(tmp_path / "data.csv", "bought", "id")
        request = Request.of("sums", "mean", "people", source, 1, 0, domain=Classes(CLASSES), by="team")
        column = PrivateColumn.read(tmp_path / "data.csv", "bought", Classes(CLASSES), "id")
        certificates["sums"] = column.release(request, ledger=folder / "l.ledger").certificate
        given = {"label": "bought", "id": "id", "domain": Classes(CLASSES), "epsilon": 1, "dataset": "people"}
        released = histogram(tmp_path / "data.csv", ledger=folder / "l.ledger", **given)
        certificates["totals"] = released.certificate
        requests.append({kind: json.dumps(certificate.request.to_json()) for kind, certificate in certificates.items()})
    assert requests[0] == requests[1] and set(requests[0]) == set(REQUEST_KINDS)
