"""A private column that is summed once: charged first, and refused at no cost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp.curator.ledger_transaction import LedgerTransaction
from labeldp.privacy import DomainError, InputError, Request, Source
from labeldp.releases import PrivateColumn

DOMAIN = ldp.Classes(("no", "yes"))
TABLE = pa.table({"bought": np.where(np.arange(200) % 3 == 0, "yes", "no"), "region": np.arange(200) % 2})


def charges(path: Path) -> int:
    """How many charges the ledger has; none if there is no ledger."""
    file = ldp.LedgerFile(path)
    return len(file.dataset("bought").charges) if file.exists and file.datasets() else 0


def request(epsilon: float = 1) -> Request:
    """Of the shares of both classes."""
    return Request.of("sums", "mean", "bought", Source.of(None, "bought"), epsilon, 0, domain=DOMAIN)


@pytest.mark.guarantee("labeldp.releases:PrivateColumn.release", "charged_first")
def test_sums_leave_only_with_a_charge_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    column, options = PrivateColumn.read(TABLE, "bought", DOMAIN), {"ledger": tmp_path / "l.ledger"}
    ldp.LedgerFile(options["ledger"]).add("bought", ldp.Budget(1))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(LedgerTransaction, "write", fail)
        with pytest.raises((OSError, ldp.LabelDPError)):
            column.release(request(), out=tmp_path / "sums.csv", **options)
    assert not list(tmp_path.glob("sums*")) and charges(options["ledger"]) == 0
    first = column.release(request(), **options)
    assert charges(options["ledger"]) == 1 and first.certificate.epsilon() == 1
    assert np.array_equal(column.release(request(), **options).value, first.value) and charges(options["ledger"]) == 1


@pytest.mark.guarantee("labeldp.releases:PrivateColumn.release", "refusal_free")
def test_refused_sums_charge_nothing(tmp_path: Path) -> None:
    options = {"ledger": tmp_path / "l.ledger"}
    ldp.LedgerFile(options["ledger"]).add("bought", ldp.Budget(1))
    column = PrivateColumn.read(TABLE, "bought", DOMAIN)
    with pytest.raises(ldp.BudgetExceeded):
        column.release(request(2), **options)
    outside = PrivateColumn.read(TABLE.set_column(0, "bought", pa.array(["maybe"] * 200)), "bought", DOMAIN)
    with pytest.raises(DomainError) as refused:
        outside.release(request(), **options)
    assert "maybe" not in str(refused.value) and charges(options["ledger"]) == 0
    with pytest.raises(ldp.BudgetExceeded):  # before a label is read
        outside.release(request(2), **options)


@pytest.mark.guarantee("labeldp.releases:PrivateColumn.release", "refusal_free")
def test_a_file_that_changes_before_its_labels_are_read_charges_nothing(tmp_path: Path) -> None:
    path, ledger = tmp_path / "table.parquet", tmp_path / "l.ledger"
    pq.write_table(TABLE, path)
    column = PrivateColumn.read(path, "bought", DOMAIN)
    pq.write_table(TABLE.set_column(0, "bought", pa.array(["no"] * 200)), path)
    with pytest.raises(ldp.LabelDPError, match="changed while it was being read: nothing was charged"):
        column.release(request(), ledger=ledger)
    assert charges(ledger) == 0


def test_a_request_of_other_columns_or_options_is_refused(tmp_path: Path) -> None:
    column, ledger = PrivateColumn.read(TABLE, "bought", DOMAIN), tmp_path / "l.ledger"
    for options, sentence in (
        ({"by": "bought"}, "by must be a public column: there is no 'bought'"),
        ({"level": 0.9}, "the request has an option 'level'"),
        ({"treated": "region"}, "treated must be left out of sums for 'mean'"),
    ):
        with pytest.raises(InputError, match=sentence):
            column.release(replace(request(), options=options), ledger=ledger)
    assert not ledger.exists()


def test_a_table_of_labels_alone_is_summed(tmp_path: Path) -> None:
    column = PrivateColumn.read(TABLE.select(["bought"]), "bought", DOMAIN)
    assert column.records == 200
    release = column.release(request(), ledger=tmp_path / "l.ledger")
    assert release.certificate.epsilon() == 1
