"""`labeldp fit --curator`: a fit whose labels a server holds is the fit that it would be beside them."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.audit import audit_run
from labeldp.cli import main
from labeldp.curator import copy_ledger
from labeldp.fit import FitSettings, parse_fit, prepare
from labeldp.fit.rows import PrivateRows
from labeldp.tables import open_table
from serve.server import TOKENS, Server, labels
from slow import mostly_slow

RECORDS = 300
NUMBERS = np.random.default_rng(2).integers(0, 101, size=RECORDS)
IDS = np.arange(100, 100 + RECORDS)


def features() -> pd.DataFrame:
    """What the analyst has: no label, in the order of the server's."""
    rng = np.random.default_rng(4)
    return pd.DataFrame({"id": IDS, "age": rng.integers(18, 90, RECORDS), "height": rng.normal(170, 9, RECORDS)})


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("fit") / "s", labels(), budget="epsilon = 60\ndelta = 1e-5") as server:
        yield server


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("fit") / "n", NUMBERS, "range = [0, 100]\ngrid = 101") as server:
        yield server


@pytest.fixture
def fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run `labeldp fit features.csv …` in a folder of its own, with the token in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABELDP_TOKEN", TOKENS["ana"])
    features().to_csv("features.csv", index=False)

    def run(server: Server, words: str = "--out model", dataset: str = "people", file: str = "features.csv") -> Any:
        given = f"fit {file} --curator {server.address} --dataset {dataset} --epsilon 1 {words}"
        if "--id" not in words:
            given += " --id id"
        monkeypatch.setattr(sys, "argv", ["labeldp", *given.split()])
        status = 0
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


WAYS = {
    "randomized labels": ("classes", ""),
    "linear on sums": ("classes", "--trust central --delta 1e-6 --model linear"),
    "cells": ("classes", "--trust central --model cells"),
    "two stages": ("classes", "--model linear --stages 2"),
    "numbers, randomized": ("numbers", ""),
    "numbers, sums": ("numbers", "--trust central --model cells"),
}

AGAIN = ("linear on sums", "two stages")
"""The ways that are tried three times: more would say the same."""


@pytest.mark.parametrize("way", mostly_slow(WAYS, ["randomized labels", "cells"]))
def test_it_is_the_fit_that_it_would_be_beside_the_labels(
    way: str, fit: Callable[..., Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind, words = WAYS[way]
    server = request.getfixturevalue(kind)
    copy = copy_ledger(server.folder / "people.db", tmp_path / "copy.db", values=True)  # before: same secrets
    status, said = fit(server, f"{words} --out model")
    assert status == 0, said
    before = [charge.id for charge in server.ledger("ana").charges]
    summary = json.loads(Path("model/summary.json").read_text())
    certificate = ldp.Certificate.from_json(json.loads(Path("model/certificate.json").read_text())["certificate"])
    assert {each.id for each in certificate.entries} <= set(before)
    assert all(each.loss.epsilon(1e-6) <= 1 for each in certificate.entries)
    audited = audit_run("model", ledger=str(server.folder / "people.db"))
    unverified = [check.sentence for check in audited.checks if check.holds is None]
    assert audited.verdict == "unverified" and any("has no request of this release" in text for text in unverified)

    # The same fit in one process, by the same analyst, of a ledger with the same secrets.
    values = labels() if kind == "classes" else NUMBERS
    features().assign(people=values).to_csv("whole.csv", index=False)
    options: dict[str, Any] = dict(zip(words.split()[::2], words.split()[1::2], strict=True))
    request = parse_fit(
        label="people", dataset="people", id_column="id", epsilon="1", delta=options.get("--delta", "0"),
        features=None, stages=int(options.get("--stages", 1)), trust=options.get("--trust", "local"),
        model=options.get("--model", "auto"),
        **({"classes": "no,yes,maybe"} if kind == "classes" else {"interval": "0,100", "grid": 101}),
    )  # fmt: skip
    rows = PrivateRows.read("whole.csv", FitSettings.of(request))
    account = copy.dataset("people", analyst="ana")
    job = prepare(request, rows, account)
    here = job.learn(lambda *_: None)
    there = ldp.load("model")
    assert np.array_equal(
        _answers(there, open_table("features.csv").read(["age", "height"])), _answers(here.value, rows.features)
    )
    assert sorted(map(_charge, here.certificate.entries)) == sorted(map(_charge, certificate.entries))
    assert summary["dataset"] == "people" and f"unix:{Path(server.address).name}" in summary["command"]
    assert "The server did not send them." in " ".join(summary["secret"])

    if way not in AGAIN:
        return
    # Again: nothing is charged; without the output, the same output once more.
    first = Path("model/certificate.json").read_bytes(), Path("model/summary.json").read_bytes()
    assert fit(server, f"{words} --out model")[0] == 0
    Path("model").rename("first")
    assert fit(server, f"{words} --out model")[0] == 0
    assert [charge.id for charge in server.ledger("ana").charges] == before
    assert Path("model/certificate.json").read_bytes() == first[0]
    again, known = (json.loads(text) for text in (Path("model/summary.json").read_bytes(), first[1]))
    assert again == known


def _answers(model: Any, rows: Any) -> Any:
    return (model.predict_proba if isinstance(model.domain, ldp.Classes) else model.predict)(rows)


def _charge(entry: Any) -> str:
    return json.dumps([entry.loss.to_json(), entry.mechanism, [part for _, part in entry.path]], sort_keys=True)


REFUSED = {
    "--out m --ledger l.db": "--ledger does not go with --curator",
    "--out m --classes no,yes": "do not go with --curator: the server says them",
    "--out m --range 0,1": "do not go with --curator: the server says them",
    "--out m --cohort c": "--cohort does not go with --curator",
    "--out m --revision r": "--revision does not go with --curator",
    "--out m --user age": "--user does not go with --curator",
    "--out m --token-file absent": "cannot be read",
    "--out m --token-file empty.txt": "needs your token",
    "--out m --label age": "must hold features alone, and has a column 'age'",
    "--out m --id age": "",
    "--out m --trust central --model cells --delta 1e-6": "--delta does not go with --model cells",
    "--out m --delta 1e-6": "--trust central",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_go_with_a_server_is_refused_and_charges_nothing(
    words: str, fit: Callable[..., Any], classes: Server
) -> None:
    Path("empty.txt").write_text("\n")
    before = len(classes.ledger().charges)
    status, said = fit(classes, words)
    assert status and REFUSED[words] in said and "Traceback" not in said, said
    assert len(said.strip().splitlines()) <= 6 and len(classes.ledger().charges) == before
    assert not Path("m").exists()


def test_other_rows_tokens_and_datasets_are_refused(
    fit: Callable[..., Any], classes: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(classes.ledger().charges)
    table = features()
    table[:-1].to_csv("fewer.csv", index=False)
    table[::-1].to_csv("turned.csv", index=False)
    for file, said in (("fewer.csv", "299"), ("turned.csv", "in the order of their rows")):
        assert said in fit(classes, file=file)[1]
    assert "must be one that you have a share of: 'people'" in fit(classes, dataset="users")[1]
    monkeypatch.setenv("LABELDP_TOKEN", "ldp_wrong")
    assert "not known here" in fit(classes)[1]
    monkeypatch.delenv("LABELDP_TOKEN")
    assert "LABELDP_TOKEN or in --token-file" in fit(classes)[1]
    Path("token.txt").write_text(TOKENS["ana"] + "\n")
    assert len(classes.ledger().charges) == before
    status, said = fit(classes, "--out model --token-file token.txt --reason a-test")
    assert status == 0 and "% of your share is used up" in said


def test_options_of_a_server_need_one(
    fit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, wanted in (
        ("--ledger l.db --label age --token-file t", "--token-file goes with --curator"),
        ("--ledger l.db", "--label must be given, or --curator"),
        ("--label age", "features.ledger does not exist. Create it with a budget"),
    ):
        given = f"fit features.csv --dataset people --classes a,b --epsilon 1 --out model {words}"
        monkeypatch.setattr(sys, "argv", ["labeldp", *given.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code and wanted in capsys.readouterr().err
    assert not Path("l.db").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has public features beside the labels."""
    server = Server(tmp_path_factory.mktemp("fit") / "w", labels(), more='features = ["height", "age"]')
    features().assign(answer=labels(), secret=range(RECORDS)).to_csv(server.folder / "labels.csv", index=False)
    with server:
        yield server


def test_without_a_file_the_features_are_the_servers(
    fit: Callable[..., Any], whole: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeldp.serve.vault.PAGE", 700)  # of this process alone: the server keeps its own
    found = whole.curator().features()
    assert found.column_names == ["height", "age"] and found.num_rows == RECORDS
    assert found.column("height").to_pylist() == [float(text) for text in pd.read_csv("features.csv", dtype=str).height]
    status, said = fit(whole, "--trust central --delta 0 --model linear --out model", file="")
    assert status and "--id goes with DATA" in said
    words = f"fit --curator {whole.address} --dataset people --epsilon 1 --trust central --model linear --out model"
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["labeldp", *words.split()])
        main()
    summary = json.loads(Path("model/summary.json").read_text())
    assert summary["features"] == ["height", "age"] and summary["file"] == "the server's features"
    assert summary["command"].startswith("labeldp fit --epsilon 1 --curator unix:door.sock")
    assert len(whole.ledger("ana").charges) == 2  # sums, and the labels of the part that measures
    with pytest.raises(ldp.privacy.InputError, match="has no features on this server"):
        _without_features(whole.folder.parent)


def _without_features(folder: Path) -> None:
    with Server(folder / "other", labels()) as other:
        other.curator().features()
