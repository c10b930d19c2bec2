"""Changed labels are noticed whatever their classes are called, in whatever order, and whatever their ids are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.mechanisms import Domain
from labeldp.workflows import Curator, LedgerFile
from labeldp.workflows.fingerprint import Fingerprint
from workflows.files import release
from workflows.ledgers import LABELS, SYSTEM

KEY = bytes(range(32))
CHANGED = np.where(np.arange(len(LABELS)) == 7, (LABELS + 1) % 3, LABELS)
SWAPPED = LABELS.copy()
SWAPPED[[0, 1]] = SWAPPED[[1, 0]]
TEXTS = ("0", "1", "2")
NAMES = [f"r{row}" for row in range(len(LABELS))]
BACK = np.arange(len(LABELS))[::-1]

FORMS: dict[str, tuple[Domain, Any, Any]] = {
    "texts": (ldp.Classes(TEXTS), np.str_, None),
    "another order": (ldp.Classes((2, 0, 1)), int, None),
    "one class more": (ldp.Classes(4), int, None),
    "integers as ids": (ldp.Classes(3), int, BACK),
    "texts as ids": (ldp.Classes(("2", "1", "0")), np.str_, NAMES),
}


def ask(path: Path, labels: Any, domain: Domain, ids: Any = None) -> None:
    ledger = LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon=9))
    mechanism: Any = ldp.RandomizedResponse if isinstance(domain, ldp.Classes) else ldp.DiscreteLaplace
    Curator(labels, domain=domain, ledger=ledger, ids=ids).release(mechanism(domain=domain, epsilon=1), rng=SYSTEM)


def spent(path: Path) -> float:
    return LedgerFile(path).dataset("people").spent.epsilon()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_labels_in_another_form_are_charged_and_others_refused(path: Path, form: str) -> None:
    domain, kind, ids = FORMS[form]
    ask(path, LABELS, ldp.Classes(3))
    LedgerFile(path).set_domain("people", domain)  # changes nothing but where there is one class more
    with pytest.raises(ldp.LedgerError, match="these are not the labels"):
        ask(path, CHANGED.astype(kind), domain, ids)
    assert spent(path) == 1.0
    ask(path, LABELS.astype(kind), domain, ids)
    assert spent(path) > 1.0


@pytest.mark.parametrize("form", ["texts", "another order"])
def test_swapped_labels_are_refused_in_another_form(path: Path, form: str) -> None:
    domain, kind, ids = FORMS[form]
    ask(path, LABELS, ldp.Classes(3))
    with pytest.raises(ldp.LedgerError, match="nothing was charged"):
        ask(path, SWAPPED.astype(kind), domain, ids)


def test_changed_labels_are_refused_again_under_the_ids_that_were_refused(path: Path) -> None:
    ask(path, LABELS, ldp.Classes(3))
    for _ in range(2):
        with pytest.raises(ldp.LedgerError, match="nothing was charged"):
            ask(path, CHANGED, ldp.Classes(3), NAMES)
    ask(path, LABELS, ldp.Classes(3), NAMES)


def test_another_number_of_records_is_refused_on_another_grid(path: Path) -> None:
    values = LABELS / 2
    ask(path, values, ldp.Interval(0, 1, grid=5))
    ask(path, values, ldp.Interval(0, 1, grid=3))
    with pytest.raises(ldp.LedgerError, match="nothing was charged"):
        ask(path, values[:-1], ldp.Interval(0, 1, grid=9))
    with pytest.raises(ldp.LedgerError, match="nothing was charged"):
        ask(path, CHANGED / 2, ldp.Interval(0, 1, grid=5), NAMES)


def test_a_file_with_a_changed_label_is_refused_under_an_id_column(people: Path) -> None:
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=9))
    release(people)
    table = pd.read_csv(people / "people.csv", dtype=str)
    table.loc[0, "bought"] = "no" if table.loc[0, "bought"] == "yes" else "yes"
    table.to_csv(people / "changed.csv", index=False)
    for change in ({"id_column": "id"}, {"domain": ldp.Classes(("yes", "no"))}):
        with pytest.raises(ldp.LedgerError, match="--revision NAME"):
            release(people, data=people / "changed.csv", out=people / "two.csv", **change)
    release(people, out=people / "two.csv", id_column="id")


def test_traces_do_not_depend_on_order_or_blocks_and_need_the_key() -> None:
    def traces(key: bytes, rows: Any, cut: int) -> Any:
        found = Fingerprint(key, ldp.Classes(3))
        for part in (rows[:cut], rows[cut:]):
            found.update(part, LABELS[part])
        return found.traces("integers")

    assert traces(KEY, np.arange(300), 10) == traces(KEY, BACK, 299)  # the second with a block of one record
    ours, theirs = traces(KEY, BACK, 5), traces(bytes(32), BACK, 5)
    assert [a[2] == b[2] for a, b in zip(ours, theirs, strict=True)] == [False, False, True]  # the number of records
    assert repr(Fingerprint(KEY, ldp.Classes(3))) == "Fingerprint(<secret>)"
