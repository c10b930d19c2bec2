"""What the workers of an engine wrote is repeated on one machine, from a file of the same records in any order."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import labeldp as ldp
from labeldp.audit import RunAudit, audit_run
from labeldp.curator import LedgerFile
from labeldp.mechanisms import RandomizedResponseTopK
from labeldp.releases import charge, release_file, write_parts
from releases.tables import DOMAIN, MECHANISM, PartTable, people

TABLE = people(300)
PRIOR = ldp.Public(np.array([0.7, 0.3]), why="made up")


def written(folder: Path, in_place: bool = False, mechanism: Any = MECHANISM) -> Path:
    """A folder that seven workers wrote."""
    columns = ("age", "height") if in_place else None
    asked: dict[str, Any] = {"label": "bought", "id": "id", "mechanism": mechanism, "dataset": "people"}
    grant = charge(PartTable(TABLE, 7), ledger=folder / "l.ledger", columns=columns, **asked)
    write_parts(PartTable(TABLE, 7, seed=1), grant, folder / "out", columns=columns or ())
    return folder / "out"


def audited(out: Path, table: pa.Table, ending: str = "parquet") -> RunAudit:
    """An audit of the folder with such data, in another order than that of the parts."""
    data, shuffled = out.parent / f"people.{ending}", table.take(np.random.default_rng(5).permutation(len(table)))
    (csv.write_csv if ending == "csv" else parquet.write_table)(shuffled, data)
    return audit_run(str(out), ledger=str(out.parent / "l.ledger"), data=str(data))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("in_place", [False, True])
def test_the_same_records_on_one_machine_give_the_same_release(tmp_path: Path, in_place: bool, ending: str) -> None:
    out = written(tmp_path, in_place)
    paid = LedgerFile(tmp_path / "l.ledger").dataset("people").charges
    audit = audited(out, TABLE, ending)
    assert audit.verdict == "holds", audit.checks
    assert audit.checks[-1].sentence.endswith("every released value is the same.") and audit.bound is not None
    request = audit.certificate.request
    assert request is not None and (request.kind, request.does) == ("release", "randomized-response")
    assert LedgerFile(tmp_path / "l.ledger").dataset("people").charges == paid


def test_one_changed_label_is_noticed(tmp_path: Path) -> None:
    out, labels = written(tmp_path), TABLE["bought"].to_pylist()
    labels[7] = {"no": "yes", "yes": "no"}[labels[7]]
    audit = audited(out, TABLE.set_column(1, "bought", pa.array(labels)))
    assert audit.verdict == "fails" and "could NOT be recomputed" in audit.checks[-1].sentence


@pytest.mark.parametrize("change", ["value", "id", "repeated id"])
def test_one_changed_cell_of_a_part_is_noticed(tmp_path: Path, change: str) -> None:
    out = written(tmp_path)
    part = sorted(out.glob("part-*.parquet"))[0]
    table = parquet.read_table(part)
    number = 1 if change == "value" else 0
    cells = table.column(number).to_pylist()
    cells[0] = {"value": {"no": "yes", "yes": "no"}.get(cells[0]), "id": 10**6, "repeated id": cells[1]}[change]
    name = table.column_names[number]
    parquet.write_table(table.set_column(number, name, pa.array(cells, table.column(number).type)), part)
    audit = audited(out, TABLE)
    assert audit.verdict == "fails" and audit.checks[-1].sentence.endswith("released values are NOT the same.")


def test_a_mechanism_that_only_python_has_is_not_repeated(tmp_path: Path) -> None:
    mechanism = RandomizedResponseTopK(domain=ldp.Classes(("no", "yes")), epsilon=1, prior=PRIOR, k=2)
    audit = audited(written(tmp_path, mechanism=mechanism), TABLE)
    assert audit.verdict == "unverified" and "settings that only Python has" in audit.checks[-1].sentence


def test_a_file_in_another_order_of_rows_is_the_same_release(tmp_path: Path) -> None:
    """By ids: the noise of a record follows its id, not its row."""
    asked: dict[str, Any] = {"label": "bought", "domain": DOMAIN, "epsilon": 1, "dataset": "people", "id_column": "id"}
    release_file(TABLE, ledger=tmp_path / "l.ledger", out=tmp_path / "out.parquet", **asked)
    audit = audited(tmp_path / "out.parquet", TABLE)
    assert audit.verdict == "holds", audit.checks
