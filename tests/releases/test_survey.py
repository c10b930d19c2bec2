"""What workers find out about the ids and labels of a table, and what may be printed of it."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa

import labeldp as ldp
from labeldp.curator import Fingerprint, LedgerFile
from labeldp.releases import IdColumn, LabelTask, TableIds, survey_labels
from labeldp.releases.survey import IdTask
from labeldp.tables import codes_of, open_table
from releases.tables import DOMAIN, PartTable, account, people

KEY = bytes(range(32))


def tasks(path: Path) -> tuple[IdColumn, LabelTask]:
    """How a survey of the people reads them."""
    LedgerFile(path).add("people", ldp.Budget(epsilon=1))
    ledger = account(path)
    names = IdColumn("id", ledger.ids_key)
    return names, LabelTask(names, "bought", DOMAIN.in_file(), ledger.digest_key, KEY)


def test_digests_of_parts_add_up_to_that_of_one_machine(path: Path) -> None:
    for texts in (False, True):
        table, (names, task) = people(texts=texts), tasks(path)
        ids, labels = set(), set()
        for each in (PartTable(table), PartTable(table, 13), PartTable(table, 64, seed=1), open_table(table)):
            ids.add(found := TableIds(each, "id").of(account(path)))
            surveyed = survey_labels(each, task, found)
            labels.add((surveyed.labels.labels, surveyed.check.hexdigest(), *surveyed.labels.traces("ids")))
        assert len(ids) == len(labels) == 1
        [batch] = table.combine_chunks().to_batches()
        alone = Fingerprint(account(path).digest_key, task.domain)
        alone.update(names.of(batch), codes_of(batch, "bought", task.domain))
        assert labels.pop()[2:] == alone.traces("ids")


def test_what_a_worker_carries_shows_no_key(path: Path) -> None:
    names, task = tasks(path)
    for each in (names, task, IdTask(names, KEY), open_table(people())):
        assert "\\x" not in repr(each) and KEY.hex() not in repr(each) and len(repr(each)) < 300
    assert pickle.loads(pickle.dumps(task)) == task


def test_a_worker_says_what_is_wrong_and_never_which(path: Path) -> None:
    names, task = tasks(path)
    wrong: Any = pa.table({"id": [54321, 54321], "bought": ["54321", None]}).to_batches()
    assert b"54321" not in IdTask(names, KEY)(wrong) and b"repeated" in IdTask(names, KEY)(wrong)
    answer = task(wrong)
    assert b"54321" not in answer and b'"refused": true' in answer
    missing: Any = pa.table({"id": pa.nulls(1, pa.int64()), "bought": ["no"]}).to_batches()
    assert b"missing id" in task(missing)


def test_an_id_that_is_missing_in_the_second_look_is_refused(path: Path) -> None:
    _, task = tasks(path)
    table = people(10)
    gone = table.set_column(0, "id", pa.nulls(10, pa.int64()))
    ids = TableIds(PartTable(table), "id").of(account(path))
    for other, message in ((gone, "missing id"), (table.slice(1), "changed while it was being checked")):
        try:
            survey_labels(PartTable(other), task, ids)
        except ldp.LabelDPError as error:
            assert message in str(error)
