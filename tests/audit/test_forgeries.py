"""Forged results: with an honest ledger and data, or a signature, no audit passes one that changes what is claimed."""

import json
import random
import runpy
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import labeldp as ldp
from labeldp.audit import audit_run, export_ledger, make_key, sign_files
from labeldp.bags import release_bags
from labeldp.curator import LedgerFile
from labeldp.fit import CERTIFIED, FitSummary, fit_file, fit_request
from labeldp.fit.bundle import certificate_digest, file_digest
from labeldp.online import run_online
from labeldp.privacy import Certificate, LabelDPError, Request, Source
from labeldp.releases import PrivateColumn, release_file, statements
from labeldp.report import render_report
from labeldp.tables import column_digest, open_table

CLASSES = ldp.Classes(("no", "yes"))
PEOPLE = 80
VERIFIER = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "verify_certificate.py"))["main"]
METADATA = b"labeldp.certificate"
CERTIFICATE, SUMMARY = "certificate.json", "summary.json"

MODELS = {
    trust: fit_request("bought", CLASSES, 1.0, delta, "bought", id_column="id", model="linear", trust=trust)
    for trust, delta in (("local", 0.0), ("central", 1e-6))
}
ARTIFACTS = {
    "noisy.csv": "people.csv",
    "noisy.parquet": "people.csv",
    "place.csv": "people.csv",
    "parts": "people",
    "sums.csv": "people.csv",
    "question.csv": "people.csv",
    "decisions.csv": "losses.csv",
    "local": "people.csv",
    "central": "people.csv",
}
"""What is forged, and what it was made of."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with honest results of all kinds, their signatures, their ledger and their data."""
    folder = tmp_path_factory.mktemp("results")
    rows = np.arange(PEOPLE)
    people = pa.table(
        {
            "id": rows,
            "age": rows * 7 % 53,
            "pay": rows * 11 % 37 / 2,
            "bought": np.array(["no", "yes"])[(rows * 7 % 53 > 25).astype(int)],
        }
    )
    csv.write_csv(people, folder / "people.csv")
    (folder / "people").mkdir()
    for number in range(2):
        csv.write_csv(people.slice(number * PEOPLE // 2, PEOPLE // 2), folder / "people" / f"{number}.csv")
    losses = np.random.default_rng(0).random((40, 3)).round(3)
    csv.write_csv(pa.table(dict(zip("abc", losses.T, strict=True))), folder / "losses.csv")
    ledger, data = folder / "l.ledger", str(folder / "people.csv")
    for name in ("bought", "losses"):
        LedgerFile(ledger).add(name, ldp.Budget(30, 1e-5))
    given: dict[str, Any] = {"label": "bought", "domain": CLASSES, "ledger": ledger, "dataset": "bought"}
    given["id_column"] = "id"
    for name, epsilon in (("noisy.csv", 1), ("noisy.parquet", 1.5)):
        release_file(data, out=folder / name, epsilon=epsilon, **given)
    release_file(data, out=folder / "place.csv", epsilon=2, in_place=True, **given)
    release_file(folder / "people", out=folder / "parts", epsilon=2.5, **given)
    release_bags(data, mechanism="bag-sum", size=10, epsilon=1, out=folder / "sums.csv", **given)
    source = Source.of(data, "bought", "id")
    request = Request.of("sums", "mean", "bought", source, 1, 0, domain=CLASSES)
    PrivateColumn.read(data, "bought", CLASSES, "id").release(request, ledger=ledger, out=folder / "question.csv")
    run_online(folder / "losses.csv", epsilon=1.0, out=folder / "decisions.csv", ledger=ledger, dataset="losses")
    for name, request in MODELS.items():
        fit_file(request, data, ledger=str(ledger), out=str(folder / name), render=render_report)
    for name in ("me.pem", "other.pem"):
        make_key(str(folder / name))
    for name in ARTIFACTS:
        sign_files(str(folder / name), str(folder / "me.pem"))
    (folder / "ledger.json").write_text(json.dumps(export_ledger(str(ledger))))
    return folder


def audited(results: Path, place: Path, given: str) -> str:
    """Return the verdict on a result, or "fails" where it is refused."""
    asked: dict[str, Any] = {"render": render_report}
    if given == "ledger":
        data = str(results / ARTIFACTS[place.name])
        asked |= {"ledger": str(results / "l.ledger"), "data": data}
    if given == "signature":
        asked |= {"signed_by": str(results / "me.pem.pub")}
    try:
        return audit_run(str(place), **asked).verdict
    except LabelDPError:
        return "fails"


def verified(results: Path, place: Path, given: str) -> int:
    """Return the exit status of the verifier that shares no code with labeldp."""
    words = {"ledger": ["--ledger", "ledger.json"], "signature": ["--signed-by", "me.pem.pub"]}.get(given, [])
    return int(VERIFIER([str(place), *words[:1], *(str(results / word) for word in words[1:])]))


@pytest.mark.parametrize("name", ARTIFACTS)
def test_the_verifier_passes_what_is_signed_and_whose_losses_it_can_add_up(results: Path, name: str) -> None:
    """No status is 0 without a signature: whoever has a ledger alone cannot say where values come from."""
    assert verified(results, results / name, "signature") == (2 if name == "decisions.csv" else 0)
    assert verified(results, results / name, "ledger") == 2
    assert verified(results, results / name, "nothing") == 2


@pytest.mark.parametrize("name", ARTIFACTS)
def test_what_is_honest_holds(results: Path, name: str) -> None:
    assert audited(results, results / name, "ledger") == "holds"
    assert audited(results, results / name, "signature") == "holds"
    assert audited(results, results / name, "nothing") == "unverified"


@dataclass
class Artifact:
    """A result that a forger writes anew, with all digests in order."""

    place: Path

    @property
    def is_model(self) -> bool:
        return self.place.name in MODELS

    @property
    def table(self) -> Path:
        """A file of the values of a release."""
        return self.place / "0.csv" if self.place.name == "parts" else self.place

    @property
    def document(self) -> Path:
        """Where the certificate stands, of all but Parquet."""
        inside = {"parts": "_certificate.json", "local": CERTIFICATE, "central": CERTIFICATE}.get(self.place.name)
        return self.place.with_name(f"{self.place.name}.certificate.json") if inside is None else self.place / inside

    def read(self) -> pa.Table:
        return parquet.read_table(self.table) if self.place.suffix == ".parquet" else csv.read_csv(self.table)

    def content(self) -> Any:
        if self.place.suffix == ".parquet":
            return json.loads(parquet.read_metadata(self.place).metadata[METADATA])
        return json.loads(self.document.read_text())

    def write_content(self, content: Any) -> None:
        if self.place.suffix == ".parquet":
            parquet.write_table(self.read().replace_schema_metadata({METADATA: json.dumps(content)}), self.place)
        else:
            self.document.write_text(json.dumps(content))

    def write(self, table: pa.Table) -> None:
        if self.place.suffix == ".parquet":
            parquet.write_table(table.replace_schema_metadata({METADATA: json.dumps(self.content())}), self.place)
        else:
            csv.write_csv(table, self.table)

    def in_order(self) -> None:
        """Correct all digests."""
        content = self.content()
        if self.is_model:
            summary = json.loads((self.place / SUMMARY).read_text())
            summary["certificate_digest"] = certificate_digest(content["certificate"])
            (self.place / SUMMARY).write_text(json.dumps(summary))
            content["files"] = {each: file_digest(self.place / each) for each in CERTIFIED}
        else:
            digest = column_digest(block.column(0) for block in open_table(self.table).blocks([content["column"]]))
            entry = content["parts"]["0.csv"] if self.place.name == "parts" else content
            entry |= {"digest": digest} | ({"sha256": file_digest(self.table)} if "sha256" in entry else {})
        self.write_content(content)

    def meaning(self) -> Any:
        """Return what is claimed: a promise and values, without what no reader sees."""
        content = self.content()
        certificate = Certificate.from_json(content["certificate"])
        request = None if certificate.request is None else certificate.request.digest
        promise = replace(certificate, request=None).to_json() | {"request": request}
        if not self.is_model:
            return promise, content["column"], self.read().to_pydict()
        summary = FitSummary.from_json(json.loads((self.place / SUMMARY).read_text()))
        files = [(self.place / name).read_bytes() for name in ("model.json", "model.skops", "report.html")]
        typed = replace(summary, certificate_digest="", command="", request="", file="")
        return promise, content.get("records"), typed, files


def stated(artifact: Artifact) -> Any:
    """Return what the certificate of a result states of privacy, each phrase once; None if it is damaged."""
    with suppress(Exception):
        found = statements(Certificate.from_json(artifact.content()["certificate"]))
        return found | {name: {*found[name]} for name in ("published", "conditions", "cohorts")}
    return None


Forgery = Callable[[random.Random, Artifact, Path], None]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON value."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


WORDS = (
    "",
    "0",
    "1",
    "1/2",
    "LOCAL",
    "CENTRAL",
    "ONE_LABEL",
    "FULL",
    "SYSTEM",
    "SIMULATION",
    "one noisy label",
    "1e-9",
)


def other_leaf(rng: random.Random, value: Any) -> Any:
    """Return another value in place of a leaf."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + 1, value / 2, 0, -value])
    if isinstance(value, str):
        return rng.choice([*WORDS, value + "0", value[:-1], value.swapcase(), value.replace("1", "0")])
    return []


def edit(rng: random.Random, value: Any) -> None:
    """Change a JSON value somewhere."""
    found = places(value)
    leaves = [place for place in found if not isinstance(place[0][place[1]], dict | list)]
    lists = [place[0][place[1]] for place in found if isinstance(place[0][place[1]], list) and place[0][place[1]]]
    kind = rng.choice(["leaf", "leaf", "leaf", "leaf", "remove", "add", "twice", "empty"])
    if kind == "leaf":
        container, key = rng.choice(leaves)
        container[key] = other_leaf(rng, container[key])
    elif kind == "remove":
        container, key = rng.choice(found)
        del container[key]
    elif kind == "add":
        objects = [value, *(place[0][place[1]] for place in found if isinstance(place[0][place[1]], dict))]
        rng.choice(objects)[rng.choice(["cohorts", "facts", "delta", "filter", "note"])] = rng.choice(
            [[], "x", 0, ["a"]]
        )
    elif lists and kind == "twice":
        values = rng.choice(lists)
        values.append(rng.choice(values))
    elif lists:
        rng.choice(lists).clear()


def forged_certificate(rng: random.Random, artifact: Artifact, results: Path) -> None:
    """Edit the certificate, and what it covers."""
    content = artifact.content()
    certificate = content["certificate"]
    if rng.random() < 0.5:  # what is not of a single charge
        field = rng.choice(["dataset", "neighbors", "trust", "randomness", "published", "assumptions"])
        other = {"neighbors": "FULL", "trust": "CENTRAL", "randomness": "SYSTEM", "assumptions": ["nobody looks"]}
        certificate[field] = rng.choice([other.get(field, "sums"), other_leaf(rng, certificate[field])])
    else:
        edit(rng, certificate if rng.random() < 0.9 else content)
    artifact.write_content(content)


def no_charge(rng: random.Random, artifact: Artifact, results: Path) -> None:
    """Certify raw labels without a charge: the attack that an audit once passed."""
    if not artifact.is_model:
        forged_values(rng, artifact, results)
    content = artifact.content()
    content["certificate"]["entries"] = []
    artifact.write_content(content)


def swapped(rng: random.Random, artifact: Artifact, results: Path) -> None:
    """Take the certificate of another result, its charges, or these in addition."""
    others = [name for name in ARTIFACTS if name != artifact.place.name]
    other, content = Artifact(results / rng.choice(others)).content()["certificate"], artifact.content()
    kind = rng.choice(["all", "entries", "more"])
    if kind == "all":
        content["certificate"] = other
    elif kind == "entries":
        content["certificate"]["entries"] = other["entries"]
    else:
        content["certificate"]["entries"] += other["entries"]
    artifact.write_content(content)


def forged_values(rng: random.Random, artifact: Artifact, results: Path) -> None:
    """Change released values: to raw labels, to others, or to another order."""
    if artifact.is_model:
        forged_model(rng, artifact, results)
        return
    table, column = artifact.read(), artifact.content()["column"]
    values = table[column].to_pylist()
    raw = csv.read_csv(results / "people.csv")["bought"].to_pylist()[: len(values)]
    kind, place = rng.choice(["raw", "one", "rows", "column"]), rng.randrange(len(values))
    if kind == "raw" and len(raw) == len(values) and isinstance(values[0], str):
        values = raw
    elif kind == "rows":
        values.reverse()
    elif kind == "column" and len(table.columns) > 1:
        column = rng.choice([name for name in table.column_names if name != column])
        values = list(reversed(table[column].to_pylist()))
    else:
        values[place] = values[place - 1] if isinstance(values[0], str) else values[place] + 1
        if values == table[column].to_pylist():
            values.reverse()
    artifact.write(table.set_column(table.column_names.index(column), column, pa.array(values)))


def forged_model(rng: random.Random, artifact: Artifact, results: Path) -> None:
    """Change a file of a model, or a column of a release."""
    if not artifact.is_model:
        table = artifact.read()
        artifact.write(table.append_column("more", pa.array(range(len(table)))))
        return
    other = results / ("central" if artifact.place.name == "local" else "local")
    name = rng.choice([*CERTIFIED, SUMMARY, SUMMARY])
    place = artifact.place / name
    if name == "report.html":
        place.write_text(place.read_text().replace("1", "0", 1))
    elif name == "model.skops" or rng.random() < 0.3:
        shutil.copy(other / name, place)
    else:
        content = json.loads(place.read_text())
        edit(rng, content)
        place.write_text(json.dumps(content))


def forged_request(rng: random.Random, artifact: Artifact, results: Path) -> None:
    """Ask for something else: a valid request, that of another result, or none."""
    content = artifact.content()
    certificate = content["certificate"]
    request = certificate["request"]
    kind = rng.choice(["epsilon", "delta", "label", "rows", "does", "option", "unit", "other", "none"])
    if kind in ("epsilon", "delta"):
        request[kind] = rng.choice(["0.5", "3", "1/3"])
    elif kind in ("label", "rows"):
        request["source"][kind] = {"label": "age", "rows": 41}[kind]
    elif kind == "does":
        request["does"] = rng.choice(["cells", "unary-encoding", "weighted-lba", "doubling"])
    elif kind == "option":
        request.setdefault("options", {})[rng.choice(["in_place", "trust", "size", "levels"])] = rng.choice([7, "x"])
    elif kind == "unit":
        request["scope"]["unit"] = "ONE_USER"
    elif kind == "other":
        others = [name for name in ARTIFACTS if name != artifact.place.name]
        certificate["request"] = Artifact(results / rng.choice(others)).content()["certificate"]["request"]
    else:
        del certificate["request"]
    artifact.write_content(content)


FORGERIES: tuple[Forgery, ...] = (
    forged_certificate, forged_certificate, forged_certificate, no_charge, swapped, forged_values, forged_model,
    forged_request,
)  # fmt: skip


def forged(rng: random.Random, results: Path, folder: Path, suffixes: tuple[str, ...]) -> tuple[Artifact, bool]:
    """Write a forgery, and return it, and whether it claims anything else than the honest result."""
    name = rng.choice(list(ARTIFACTS))
    folder.mkdir()
    for place in (results / f"{name}{suffix}" for suffix in suffixes if (results / f"{name}{suffix}").exists()):
        (shutil.copytree if place.is_dir() else shutil.copy)(place, folder / place.name)
    artifact, honest = Artifact(folder / name), Artifact(results / name)
    rng.choice(FORGERIES)(rng, artifact, results)
    try:
        artifact.in_order()
        return artifact, artifact.meaning() != honest.meaning()
    except Exception:  # what cannot be read claims nothing that is honest
        return artifact, True


@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_valid_request_that_the_ledger_was_not_asked_fails(results: Path, tmp_path: Path, name: str) -> None:
    for suffix in ("", ".certificate.json"):
        if (place := results / f"{name}{suffix}").exists():
            (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / place.name)
    artifact = Artifact(tmp_path / name)
    content = artifact.content()
    content["certificate"]["request"]["epsilon"] = "0.25"
    artifact.write_content(content)
    artifact.in_order()
    result = audit_run(str(artifact.place), ledger=str(results / "l.ledger"), render=render_report)
    assert result.verdict == "fails"
    [sentence] = [check.sentence for check in result.checks if check.holds is False]
    assert sentence.startswith("The request in the certificate does NOT equal the request in the ledger")


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_no_forgery_passes(results: Path, tmp_path: Path, count: int) -> None:
    rng, changed = random.Random(count), 0
    honest = [stated(Artifact(results / name)) for name in ARTIFACTS]
    for number in range(count):
        given = rng.choice(["ledger", "ledger", "signature", "nothing"])
        suffixes = ("", ".certificate.json", *([".signature"] if given == "signature" else []))
        artifact, is_other = forged(rng, results, tmp_path / str(number), suffixes)
        if given == "signature" and rng.random() < 0.3:
            other = rng.choice([name for name in ARTIFACTS if name != artifact.place.name])
            shutil.copy(results / f"{other}.signature", f"{artifact.place}.signature")
        elif given == "signature" and rng.random() < 0.3:
            with suppress(LabelDPError):  # what is not as certified is not signed
                sign_files(str(artifact.place), str(results / "other.pem"))
        verdict, status = audited(results, artifact.place, given), verified(results, artifact.place, given)
        changed += is_other
        if given == "nothing":
            assert verdict != "holds" and status != 0, (number, artifact.place)
        if is_other:
            assert verdict != "holds" and status != 0, (number, given, artifact.place)
        if given == "ledger" and stated(artifact) not in honest:
            assert status == 1, (number, artifact.place)
    assert changed > 0.8 * count
