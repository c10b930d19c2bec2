"""Totals of a table are asked for in Python; their request is in the ledger, and an audit repeats it with labels."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import labeldp as ldp
from labeldp.audit import audit_run
from labeldp.bags import bag_sum
from labeldp.curator import LedgerFile
from labeldp.fit import fit_linear
from labeldp.learners import MedianPartition
from labeldp.releases import cells, fit_cells, histogram, moments

DOMAIN = ldp.Classes(("no", "yes"))
FEATURES = ["age", "height"]
WHY = "of public columns"
CUTS = MedianPartition(4).fit(np.random.default_rng(1).normal(50, 20, (100, 2)))

CALLS: dict[str, Callable[..., Any]] = {
    "histogram": histogram,
    "groups": lambda *data, **more: histogram(*data, groups="group", why=WHY, **more),
    "moments": lambda *data, **more: moments(*data, features=FEATURES, clip=3.0, why=WHY, **more),
    "gaussian": lambda *data, **more: moments(*data, features=FEATURES, clip=3.0, delta=1e-6, why=WHY, **more),
    "bags": lambda *data, **more: bag_sum(*data, bags="group", size=20, why=WHY, **more),
    "fit_cells": lambda *data, **more: fit_cells(*data, features=FEATURES, **more),
    "counts": lambda *data, **more: fit_cells(*data, features=FEATURES, mechanism="counts", **more),
    "fit_linear": lambda *data, **more: fit_linear(*data, features=FEATURES, delta=1e-6, dimension=2, **more),
}
OBJECTS: dict[str, Callable[..., Any]] = {
    "cells": lambda *data, **more: cells(
        *data, features=FEATURES, partition=CUTS, mechanism=ldp.LaplaceHistogram, why=WHY, **more
    ),
    "partition": lambda *data, **more: fit_cells(*data, features=FEATURES, partition=MedianPartition(4), **more),
}


@pytest.fixture
def data(tmp_path: Path) -> str:
    rng, rows = np.random.default_rng(0), 90
    columns = {name: rng.normal(50, 20, rows) for name in FEATURES}
    labels = np.where(rng.random(rows) < 0.3, "yes", "no")
    table = pa.table({"id": np.arange(rows), "group": np.arange(rows) % 3, **columns, "bought": labels})
    csv.write_csv(table, tmp_path / "people.csv")
    return str(tmp_path / "people.csv")


def asked(data: str, call: Callable[..., Any]) -> tuple[ldp.Release[Any], dict[str, str]]:
    """A release, and the arguments of its audit."""
    folder = Path(data).parent
    ledger = folder / "l.ledger"
    LedgerFile(ledger).add("people", ldp.Budget(epsilon=2, delta=1e-5))
    release = call(data, label="bought", id="id", domain=DOMAIN, epsilon=1, ledger=ledger, dataset="people")
    (folder / "totals.json").write_text(json.dumps(release.certificate.to_json()))
    return release, {"path": str(folder / "totals.json"), "ledger": str(ledger), "data": data}


@pytest.mark.parametrize("name", CALLS)
def test_an_audit_repeats_the_request_of_totals(data: str, name: str) -> None:
    release, place = asked(data, CALLS[name])
    audit = audit_run(**place)
    assert audit.verdict == "holds" and "has the value that was stored" in audit.checks[-1].sentence
    request = release.certificate.request
    assert request is not None and request.kind == "totals" and request.source.name == "people.csv"
    with pytest.raises(ldp.privacy.InputError, match="asked for in Python"):
        request.command()


@pytest.mark.parametrize("name", CALLS)
def test_an_audit_finds_other_labels(data: str, name: str) -> None:
    _, place = asked(data, CALLS[name])
    path = Path(data)
    path.write_text(path.read_text().replace('"yes"', '"no"', 1).replace("yes", "no", 1))
    audit = audit_run(**place)
    assert audit.verdict == "fails" and "could NOT be recomputed" in audit.checks[-1].sentence


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_of_a_program_is_known_by_its_digest(data: str, name: str) -> None:
    release, place = asked(data, OBJECTS[name])
    audit = audit_run(**place)
    assert audit.verdict == "unverified" and "digest of an object" in audit.checks[-1].sentence
    assert release.certificate.request is not None
    described = str(release.certificate.request.options["partition"])
    again, _ = asked(data, OBJECTS[name])
    assert again.certificate.request == release.certificate.request and described.startswith("MedianPartition ")


def test_a_request_holds_what_decides_the_result(data: str) -> None:
    """Requests that differ in one argument differ in their digest."""
    ledger = Path(data).with_name("l.ledger")
    LedgerFile(ledger).add("people", ldp.Budget(epsilon=40, delta=1e-3))
    account = {"label": "bought", "id": "id", "domain": DOMAIN, "epsilon": 1, "ledger": ledger, "dataset": "people"}
    base = {"features": FEATURES, "clip": 3.0, "delta": 1e-6, "why": WHY, **account}
    changes = ({}, {"clip": 4.0}, {"delta": 1e-5}, {"epsilon": 2}, {"resolution": 512}, {"why": "other"})
    changes = (*changes, {"features": FEATURES[::-1]}, {"revision": "corrected"})
    requests = [moments(data, **base | change).certificate.request for change in changes]
    requests += [fit_linear(data, features=FEATURES, delta=1e-6, dimension=size, **account).certificate.request
                 for size in (1, 2)]  # fmt: skip
    assert len({request.digest for request in requests if request is not None}) == len(requests)
