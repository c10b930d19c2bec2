"""What an older version wrote is found and used, or refused with one sentence; nothing is charged again.

Each folder beside holds what one version left, and what it must still say: `make.py` made both. Later versions add
folders.
"""

import json
import lzma
import re
import shutil
import sqlite3
import sys
import tarfile
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version as installed
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.cli import main
from labeldp.online import dump_state, load_state
from labeldp.privacy import Certificate
from labeldp.tables import open_table
from labeldp.workflows import online as online_run
from labeldp.workflows.fit import simulate
from labeldp.workflows.fit.bundle import file_digest
from versions.asked import (
    ASKED,
    FEATURES,
    LEARNED,
    LEDGER,
    SUMS,
    ask,
    ask_stage_again,
    bits,
    charges,
    digest,
    go_on,
    multistage,
    plain,
)

HERE = Path(__file__).parent
VERSIONS = {
    folder.name: json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for folder in sorted(HERE.glob("v*"))
}
REFUSED_TODAY: dict[tuple[str, str], str] = {
    ("v0_1_0", "fit with a test file"): "--test-labels-are-public",
    ("v0_1_0", "fit with a prior"): "--trust central",
    ("v0_1_0", "weighted-lba"): "the budget of",
    ("v0_1_0", "weighted-lba of several rows"): "the budget of",
}
"""Commands of older versions, by version and name, that are refused today, with words of the sentence."""
OTHER_SUMS = {("v0_1_0", "secret weights"), ("v0_1_0", "secret weights, several rows")}
"""Requests of older versions that ask for other noise today: leverages had all their bits in version 0.1."""


def cases(part: str, *, where: Callable[[Any], bool] = lambda entry: True) -> list[Any]:
    """One case for each entry of a part of what is expected of all versions."""
    return [
        pytest.param(version, name, id=f"{version}: {name}")
        for version, expected in VERSIONS.items()
        for name, entry in expected[part].items()
        if where(entry)
    ]


@lru_cache
def content(version: str) -> bytes:
    """The files of a version, unpacked."""
    return lzma.decompress((HERE / version / "files.tar.xz").read_bytes())


def unpacked(version: str, place: Path) -> Path:
    """A folder with the files of a version, for their owner alone where they are secret."""
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=BytesIO(content(version))) as tar:
        tar.extractall(place, **safely)
    for secret in (*place.glob("*.ledger"), *place.glob("*.snapshot")):
        secret.chmod(0o600)
    return place


def spent(folder: Path) -> dict[str, Any]:
    """The charges of every ledger in a folder."""
    return {path.name: charges(path) for path in sorted(folder.glob("*.ledger"))}


def without_ids(charged: dict[str, Any]) -> dict[str, Any]:
    """Charges by what they are for: ids are drawn."""
    return {
        ledger: {name: [row[1:] for row in rows] for name, rows in each.items()} for ledger, each in charged.items()
    }


def added(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Charges that were not there before; the old ones stand as they stood."""
    found: dict[str, Any] = {}
    for ledger, datasets in after.items():
        for name, rows in datasets.items():
            old = before.get(ledger, {}).get(name, [])
            assert rows[: len(old)] == old
            if rows[len(old) :]:
                found.setdefault(ledger, {})[name] = rows[len(old) :]
    return found


def remove(place: Path) -> None:
    """Remove an output with the certificate beside it."""
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
        place.with_name(f"{place.name}.certificate.json").unlink(missing_ok=True)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run `labeldp ARGUMENTS` in the folder of the files; returns the exit status, what it said and complained of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simulate, "EPSILONS", ())  # the curve of a report takes the longest and releases nothing

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["labeldp", *arguments])
        status = 0
        try:
            main()
        except SystemExit as done:
            status = int(done.code or 0)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def refused(version: str, name: str, ran: tuple[int, str, str]) -> bool:
    """Whether a command was refused in one sentence, where that may be: see docs/versions.md."""
    entry = VERSIONS[version]["commands"][name]
    words = REFUSED_TODAY.get((version, name))
    doubles = entry["sums"] or entry["arguments"][0] == "online" or "weighted-lba" in entry["arguments"]
    elsewhere = doubles and bits() != VERSIONS[version]["bits"]
    if ran[0] and (words or elsewhere):
        last = ran[2].splitlines()[-1]
        return ran[0] == 1 and last.startswith("Error: ") and (words or "") in last
    assert ran[0] == 0, ran[2]
    return False


IN_PLAIN_WORDS = re.compile(r"(Whatever one sees|Changing any one|Changing the losses) .*?(?=Published: )")
"""What a certificate says of its epsilon for readers without the definition: version 0.1 said it in other words."""


def promised(sentence: str) -> str:
    """A certificate's sentence without its epsilon in plain words, which must be there."""
    return IN_PLAIN_WORDS.sub("", sentence)


def check_values(version: str, name: str, folder: Path, run: Callable[..., Any], *, fitted: bool = False) -> None:
    """The output of a command stands, is what its certificate says, and holds or predicts what it did."""
    expected = VERSIONS[version]
    entry, said = expected["commands"][name], expected["certificates"][name]
    place = folder / entry["out"]
    status, out, err = run("certificate", entry["out"])
    assert status == 0, err
    sentence = next(line for line in out.splitlines() if not line.startswith("Unverified: "))
    if "values" in entry:
        assert digest(sorted(open_table(place).read().to_pydict().items())) == entry["values"]
        assert promised(sentence) in map(promised, said["says"].values())
        return
    assert promised(sentence) in map(promised, said["says"].values()) or "charged by the rest" in entry
    status, _, err = run("predict", entry["out"], entry["data"], "--out", "predicted.csv")
    same = {each: installed(each) for each in expected["packages"]} == expected["packages"]
    if status and not same:
        assert err.startswith("Error: ") and err.count("\n") == 1
        return
    assert status == 0, err
    if fitted and not (same and bits() == expected["bits"]):
        return  # another library, or machine, learns another model from the same released labels
    predicted = open_table(folder / "predicted.csv").read().to_pydict()
    assert list(predicted) == list(entry["predicted"])
    for column, values in entry["predicted"].items():
        if column.startswith("probability_") or "--range" in entry["arguments"]:
            found, wanted = (np.asarray(each, dtype=np.float64) for each in (predicted[column], values))
            near = 1e-6 if bits() == expected["bits"] else 1e-4  # 32-bit features of images round otherwise elsewhere
            assert np.allclose(found, wanted, rtol=near, atol=near / 100)
        else:
            assert predicted[column] == values


FINISHED = cases("commands", where=lambda entry: "killed" not in entry)
KILLED = cases("commands", where=lambda entry: "killed" in entry)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ledger_is_read_with_every_charge(version: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    folder = unpacked(version, tmp_path)
    assert spent(folder) == VERSIONS[version]["charges"]
    for ledger, datasets in VERSIONS[version]["charges"].items():
        status, out, err = run("ledger", "show", ledger)
        assert status == 0 and all(name in out for name in datasets), err
    assert spent(folder) == VERSIONS[version]["charges"]


@pytest.mark.parametrize(("version", "name"), FINISHED)
def test_what_a_command_wrote_stands(version: str, name: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    """A model loads and predicts, a released file verifies, and both certificates say the same sentence."""
    check_values(version, name, unpacked(version, tmp_path), run)


@pytest.mark.parametrize(("version", "name"), FINISHED)
def test_the_same_command_again_costs_nothing(
    version: str, name: str, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the output stands it is left; where it is gone it is made again, with the same released values."""
    # Version 0.1 read its sums by least squares: with that link the same sums give the same predictions.
    monkeypatch.setattr("labeldp.learners.linear.chosen_link", lambda link, domain: "identity")
    # And it learned from the best of its classifiers alone.
    monkeypatch.setattr("labeldp.learners.training._learns_from_all", lambda candidates, recipe: False)
    folder, entry = unpacked(version, tmp_path), VERSIONS[version]["commands"][name]
    before = spent(folder)
    place = folder / entry["out"]
    files = [file for file in (place, *sorted(place.glob("*"))) if file.is_file()]
    content = [file.read_bytes() for file in files]
    ran = run(*entry["arguments"])
    stands = (
        ran[0] == 1 and "exists already" in ran[2] and ran[2].count("\n") == 1
    )  # bags and rounds recognize no output
    if not stands:
        refused(version, name, ran)
    assert content == [file.read_bytes() for file in files]
    assert spent(folder) == before
    remove(place)
    if not refused(version, name, run(*entry["arguments"])):
        check_values(version, name, folder, run, fitted=True)
    assert spent(folder) == before


@pytest.mark.parametrize(("version", "name"), KILLED)
def test_what_was_killed_is_finished(
    version: str, name: str, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command pays what was not paid yet, and nothing twice; it ends where it would have ended."""
    monkeypatch.setattr("labeldp.learners.training._learns_from_all", lambda candidates, recipe: False)
    folder, entry = unpacked(version, tmp_path), VERSIONS[version]["commands"][name]
    if entry["block_cells"]:
        monkeypatch.setattr(online_run, "BLOCK_CELLS", entry["block_cells"])
    before = spent(folder)
    if refused(version, name, run(*entry["arguments"])):
        assert spent(folder) == before
        return
    rest = entry["charged by the rest"]
    assert without_ids(added(before, spent(folder))) == without_ids(rest)
    if not (rest and "predicted" in entry):  # a stage that was released only now learns another model
        check_values(version, name, folder, run, fitted=True)
    assert not (folder / f"{entry['out']}.unfinished").exists()


@pytest.mark.parametrize(("version", "name"), cases("answers"))
def test_the_same_request_again_costs_nothing(version: str, name: str, tmp_path: Path) -> None:
    """Every mechanism, kind of ids, part, revision and stage, and every private learner, in Python."""
    folder, expected = unpacked(version, tmp_path), VERSIONS[version]
    before = spent(folder)
    if name in SUMS:  # another machine may ask for other sums: then the budget must refuse
        dataset = ASKED[name].dataset if name in ASKED else name
        ldp.LedgerFile(folder / LEDGER).set_budget(dataset, ldp.Budget(epsilon=1, delta=SUMS[name]))
    try:
        if name in LEARNED:
            release = LEARNED[name](folder)
            found: Any = plain(release.value.predict(FEATURES[:, : 2 if name == "full cells" else None]))
        else:
            release = ask_stage_again(folder) if name == "a stage again" else ask(folder, ASKED[name])
            found = digest(release.value)
    except ldp.BudgetExceeded:
        assert name in SUMS and (bits() != expected["bits"] or (version, name) in OTHER_SUMS)
    else:
        same = name in ASKED or bits() == expected["bits"]
        assert found == expected["answers"][name] or not same
        if name in expected["certificates"]:
            assert release.certificate.to_json() == expected["certificates"][name]["certificate"]
    assert spent(folder) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_stages_that_nobody_asked_for_are_those_that_were_charged(version: str, tmp_path: Path) -> None:
    """Version 0.1 took two stages by default, where one is the default now."""
    folder = unpacked(version, tmp_path)
    before = spent(folder)
    release = multistage(folder, stages=None)
    assert spent(folder) == before
    assert len(release.certificate.entries) == 5  # two clusterings, two stages, the evaluation
    if bits() == VERSIONS[version]["bits"]:
        assert plain(release.value.predict(FEATURES)) == VERSIONS[version]["answers"]["multistage"]


@pytest.mark.parametrize(("version", "name"), cases("snapshots"))
def test_a_snapshot_goes_on_once_at_no_cost(version: str, name: str, tmp_path: Path) -> None:
    folder, expected = unpacked(version, tmp_path), VERSIONS[version]
    entry = expected["snapshots"][name]
    before, snapshot = spent(folder), (folder / entry["file"]).read_bytes()
    try:
        assert go_on(folder, snapshot, entry["dataset"]) == entry["actions"]
    except ldp.InputError:  # another machine may make another plan, by a last bit
        assert bits() != expected["bits"]
    else:
        with pytest.raises(ldp.InputError, match="continued already"):
            go_on(folder, snapshot, entry["dataset"])
    assert spent(folder) == before


@pytest.mark.parametrize(("version", "name"), cases("certificates"))
def test_a_certificate_says_the_same_sentence(version: str, name: str) -> None:
    expected = VERSIONS[version]["certificates"][name]
    certificate = Certificate.from_json(expected["certificate"])
    for delta, said in expected["says"].items():
        assert promised(certificate.at(float(delta))) == promised(said)
    assert certificate.to_json() == expected["certificate"]


LATEST = list(VERSIONS)[-1]


def edited(place: Path, change: dict[str, Any]) -> None:
    """Replace entries of a JSON object in a file."""
    place.write_text(json.dumps(json.loads(place.read_text()) | change))


def test_a_ledger_of_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path, run: Callable[..., Any]) -> None:
    folder = unpacked(LATEST, tmp_path)
    ledger = folder / "people.ledger"
    connection = sqlite3.connect(ledger)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = ledger.read_bytes()
    for name in ("fit", "release of classes", "bag-sum"):
        remove(folder / VERSIONS[LATEST]["commands"][name]["out"])
        status, _, err = run(*VERSIONS[LATEST]["commands"][name]["arguments"])
        assert status == 1 and "is of version 99, and this labeldp reads version" in err and err.count("\n") == 1
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("file", ["certificate.json", "model.json"])
def test_a_model_of_a_later_version_is_refused(file: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    folder = unpacked(LATEST, tmp_path)
    edited(folder / "cells" / file, {"format": 99})
    if file == "model.json":  # what covers it would be of that version, too
        found = file_digest(folder / "cells" / file)
        files = json.loads((folder / "cells" / "certificate.json").read_text())["files"]
        edited(folder / "cells" / "certificate.json", {"files": files | {file: found}})
    status, _, err = run("predict", "cells", "new_people.csv", "--out", "predicted.csv")
    assert status == 1 and "another version of labeldp" in err and err.count("\n") == 1


def test_a_released_file_of_a_later_version_is_refused(tmp_path: Path, run: Callable[..., Any]) -> None:
    folder = unpacked(LATEST, tmp_path)
    edited(folder / "classes.csv.certificate.json", {"format": 99})
    status, _, err = run("certificate", "classes.csv")
    assert status == 1 and "is of another version of labeldp" in err and err.count("\n") == 1


def test_a_snapshot_of_a_later_version_is_refused(tmp_path: Path) -> None:
    folder = unpacked(LATEST, tmp_path)
    entry = VERSIONS[LATEST]["snapshots"]["redraw"]
    later = dump_state(load_state((folder / entry["file"]).read_bytes()) | {"format": 99})
    before = spent(folder)
    with pytest.raises(ldp.InputError, match="another version of labeldp"):
        go_on(folder, later, entry["dataset"])
    assert spent(folder) == before


def test_a_run_that_waits_for_another_version_is_refused(
    tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request holds the version of what was kept: played otherwise it would be another release."""
    folder, entry = unpacked(LATEST, tmp_path), VERSIONS[LATEST]["commands"]["killed rounds"]
    monkeypatch.setattr(online_run, "BLOCK_CELLS", entry["block_cells"])
    monkeypatch.setattr(online_run, "STATE_VERSION", 99)
    before = spent(folder)
    status, _, err = run(*entry["arguments"])
    assert status == 1 and "is of another run" in err and err.count("Error: ") == 1
    assert spent(folder) == before and (folder / f"{entry['out']}.unfinished").is_dir()
