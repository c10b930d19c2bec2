"""Every door to a ledger file refuses what needs no label in one order, before it reads a label."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import labeldp as ldp
from labeldp.bags import bag_sum, release_bags
from labeldp.curator import LedgerFile
from labeldp.fit import fit_file, fit_linear, parse_fit
from labeldp.learners import MedianPartition
from labeldp.online import run_online
from labeldp.privacy import Request, Source
from labeldp.releases import PrivateColumn, cells, charge, fit_cells, histogram, moments, release_file, write_parts
from labeldp.tables import Table, open_table

DOMAIN = ldp.Classes(("no", "yes"))
ROWS = 60
FEATURES = ["age", "height"]
EPSILON = 1


def people(labels: Any) -> pa.Table:
    """Records with ids, users, groups and features, and these labels."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "user": np.arange(ROWS) // 2,
            "group": np.arange(ROWS) % 3,
            "age": rng.integers(18, 80, ROWS).astype(float),
            "height": rng.normal(size=ROWS),
            "bought": labels,
        }
    )


GOOD = np.where(np.arange(ROWS) % 3 > 0, "yes", "no")
BAD = np.where(np.arange(ROWS) == 7, "maybe", GOOD)
GONE = pa.array([None if number % 5 else text for number, text in enumerate(GOOD.tolist())])
LABELS = {"good": GOOD, "outside": BAD, "missing": GONE}


class Guarded(Table):
    """A table whose label column cannot be read."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(Path("the guarded table"), table.schema)
        self.inner = open_table(table)

    def _stream(self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None) -> Iterator[Any]:
        assert "bought" not in columns, "a label was read"
        yield from self.inner.blocks(columns, block_rows=block_rows)


@dataclass(frozen=True)
class Place:
    """A folder with a ledger; the account of each door is `people`."""

    folder: Path
    dataset: str = "people"
    name: str = "l.ledger"

    @property
    def ledger(self) -> Path:
        return self.folder / self.name

    @property
    def account(self) -> dict[str, Any]:
        return {"ledger": self.ledger, "dataset": self.dataset, "label": "bought", "domain": DOMAIN, "epsilon": EPSILON}

    def out(self, name: str) -> Path:
        return self.folder / name


Door = Callable[[Place, Any, Path], Any]
"""Asks for a release of a table; the path is the output, where there is one."""


def csv_of(place: Place, table: Any) -> str:
    """The table in a file, for doors that take no other."""
    path = place.folder / "people.csv"
    csv.write_csv(table.inner.read() if isinstance(table, Guarded) else table, path)
    return str(path)


def aggregate(function: Any, **more: Any) -> Door:
    return lambda place, table, out: function(table, id="id", **place.account, **more)


def fitting(trust: str, model: str) -> Door:
    def fit(place: Place, table: Any, out: Path) -> None:
        request = parse_fit(
            label="bought", classes="no,yes", epsilon=str(EPSILON), delta="0", dataset=place.dataset,
            features=",".join(FEATURES), id_column="id", trust=trust, model=model, stages=1,
        )  # fmt: skip
        fit_file(request, csv_of(place, table), ledger=str(place.ledger), out=str(out))

    return fit


def estimating(place: Place, table: Any, out: Path) -> None:
    column = PrivateColumn.read(table, "bought", DOMAIN, "id")
    source = Source.of("people.csv", "bought", "id")
    request = Request.of("sums", "mean", place.dataset, source, EPSILON, 0, domain=DOMAIN)
    column.release(request, ledger=place.ledger, out=out)


def granting(place: Place, table: Any, out: Path) -> None:
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=EPSILON)
    account = {"ledger": place.ledger, "dataset": place.dataset}
    grant = charge(table, label="bought", id="id", mechanism=mechanism, **account)
    write_parts(table, grant, out)


def estimator(place: Place, table: Any, out: Path) -> None:
    table = table.inner.read() if isinstance(table, Guarded) else table
    frame = table.to_pandas()
    model = ldp.LabelDPClassifier(classes=["no", "yes"], epsilon=EPSILON, ledger=place.ledger, dataset=place.dataset)
    model.fit(frame[FEATURES], frame["bought"], ids=frame["id"].to_numpy())


PARTITION = MedianPartition(4).fit(np.random.default_rng(1).normal(50, 20, (100, 2)))
WHY = "of public columns"

DOORS: dict[str, Door] = {
    "release": lambda place, table, out: release_file(table, id_column="id", out=out, **place.account),
    "release in place": lambda place, table, out: release_file(
        table, id_column="id", out=out, in_place=True, **place.account
    ),
    "bags": lambda place, table, out: release_bags(
        table, id_column="id", out=out, mechanism="bag-sum", size=10, **place.account
    ),
    "estimate": estimating,
    "histogram": aggregate(histogram),
    "groups": aggregate(histogram, groups="group", why=WHY),
    "cells": aggregate(cells, features=FEATURES, partition=PARTITION, mechanism=ldp.LaplaceHistogram, why=WHY),
    "moments": aggregate(moments, features=FEATURES, clip=3.0, why=WHY),
    "bag_sum": aggregate(bag_sum, bags="group", size=10, why=WHY),
    "fit_cells": aggregate(fit_cells, features=FEATURES),
    "fit_linear": aggregate(fit_linear, features=FEATURES),
    "grant": granting,
    "fit": fitting("local", "linear"),
    "central fit": fitting("central", "linear"),
    "estimator": estimator,
}
IN_MEMORY = ("fit", "central fit", "estimator")
"""Doors that take a path, or labels that were read before."""

HAVE_OUTPUT = {"release", "release in place", "bags", "estimate"}


def out(place: Place, name: str) -> Path:
    """The output of a door, a file or a folder."""
    return place.out("out.csv" if name in HAVE_OUTPUT else "out")


def other_release(place: Place, table: pa.Table, **more: Any) -> None:
    asked = {"id_column": "id", "out": place.out("first.csv"), **place.account} | more
    release_file(table, **asked)


def private(place: Place, column: str = "id") -> None:
    """Another private column of the account holds the ids, or a feature."""
    more = {"label": column, "domain": ldp.Interval(0, 99), "mechanism": "discrete-laplace"}
    other_release(place, people(GOOD), dataset=f"people/{column}", id_column=None, **more)


REFUSALS: dict[str, tuple[Callable[[Place], None], str]] = {
    "private column": (private, "holds private labels of 'people'"),
    "users": (lambda place: other_release(place, people(GOOD), user_column="user"), "user"),
    "kind of ids": (lambda place: other_release(place, people(GOOD), id_column=None), "was released by row numbers"),
    "records": (lambda place: other_release(place, people(GOOD).slice(10)), "not the records that were released"),
    "domain": (
        lambda place: LedgerFile(place.ledger).change("people", domain=ldp.Classes(("a", "b"))),
        "the declared domain of 'people' is",
    ),
    "number of records": (lambda place: LedgerFile(place.ledger).change("people", records=7), "has 7 records"),
    "budget": (lambda place: LedgerFile(place.ledger).change("people", budget=ldp.Budget(0.1)), "budget"),
}


def refused(door: Door, place: Place, table: Any, out: Path) -> tuple[str, str]:
    """The kind and the words of a refusal."""
    with pytest.raises(ldp.LabelDPError) as error:
        door(place, table, out)
    return type(error.value).__name__, str(error.value)


def state(place: Place) -> Any:
    """All that the ledger may tell of labels that were compared or charged."""
    account = LedgerFile(place.ledger).dataset("people")
    return account.charges, account.read().domains, account.read().differences


@pytest.fixture
def place(tmp_path: Path) -> Place:
    LedgerFile(tmp_path / "l.ledger").add("people", ldp.Budget(epsilon=9, delta=1e-6))
    return Place(tmp_path)


@pytest.mark.guarantee("labeldp.curator:open_account", "labels_last")
@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", DOORS)
def test_a_refusal_without_labels_says_the_same_for_all_labels(place: Place, name: str, refusal: str) -> None:
    prepare, words = REFUSALS[refusal]
    if refusal == "private column":
        place = Place(place.folder, "people/bought")
        prepare = partial(private, column="age" if name == "estimator" else "id")  # ids in memory have no name
    prepare(place)
    before = state(place)
    answers = {refused(DOORS[name], place, people(labels), out(place, name)) for labels in LABELS.values()}
    assert len(answers) == 1, answers
    [(_, said)] = answers
    assert words in said
    assert state(place) == before and not out(place, name).exists()


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", [name for name in DOORS if name not in IN_MEMORY])
def test_a_refusal_comes_before_labels_are_read(place: Place, name: str, refusal: str) -> None:
    if refusal == "private column":
        place = Place(place.folder, "people/bought")
    prepare, words = REFUSALS[refusal]
    prepare(place)
    _, said = refused(DOORS[name], place, Guarded(people(GOOD)), out(place, name))
    assert words in said


@pytest.mark.parametrize("name", DOORS)
def test_earlier_refusals_hide_later_ones(place: Place, name: str) -> None:
    """Everything is wrong at once, and is mended one after the other: the answers come in the order of the list."""
    place = Place(place.folder, "people")
    LedgerFile(place.ledger).change("people", budget=ldp.Budget(0.1), records=7, domain=ldp.Classes(("a", "b")))
    assert "the declared domain" in refused(DOORS[name], place, people(BAD), out(place, name))[1]
    LedgerFile(place.ledger).change("people", domain=DOMAIN)
    assert "has 7 records" in refused(DOORS[name], place, people(BAD), out(place, name))[1]
    LedgerFile(place.ledger).change("people", records=ROWS)
    assert "budget" in refused(DOORS[name], place, people(BAD), out(place, name))[1]
    LedgerFile(place.ledger).change("people", budget=ldp.Budget(9))
    assert "missing or not among" in refused(DOORS[name], place, people(BAD), out(place, name))[1]
    assert LedgerFile(place.ledger).dataset("people").read().domains[-1].refused == 1


@pytest.mark.parametrize("name", sorted(HAVE_OUTPUT))
def test_the_ledger_is_no_output(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path, name="l.csv")
    for labels in LABELS.values():
        assert "must be different files" in refused(DOORS[name], place, people(labels), place.ledger)[1]
        assert not place.ledger.exists()


@pytest.mark.parametrize("name", DOORS)
def test_a_request_is_charged_with_what_it_asked(place: Place, name: str) -> None:
    DOORS[name](place, people(GOOD), out(place, name))
    account = LedgerFile(place.ledger).dataset("people")
    assert account.charges
    for paid in account.charges:
        digest = account.requested(paid.id)
        request = account.find_request(digest or "")
        assert request is not None and request.scope.name == "people" and request.source.label in ("bought", "")
        assert request.domain == DOMAIN.to_json() and request.epsilon == "1"


def by_system(mechanism: Any, **more: Any) -> Callable[[Place], Any]:
    """A release whose noise nobody draws again, so that no other request finds it."""

    def release(place: Place) -> None:
        account = LedgerFile(place.ledger).dataset("people")
        curator = ldp.Curator(GOOD, domain=DOMAIN, ledger=account, **more)
        curator.release(mechanism, rng=ldp.SystemRandomness())

    return release


RESPONSE = ldp.RandomizedResponse(domain=DOMAIN, epsilon=EPSILON)
IDS = np.arange(ROWS)


def for_users(place: Place, table: Any, out: Path) -> None:
    """Each answer costs as much as one for a record: two records a user, and twice the epsilon."""
    release_file(table, id_column="id", user_column="user", out=out, **place.account | {"epsilon": 2 * EPSILON})


def summed_for_users(place: Place, table: Any, out: Path) -> None:
    release_bags(
        table, id_column="id", user_column="user", out=out, mechanism="bag-sum", size=10, bags="group", **place.account
    )


def under_other_ids(place: Place, table: Any, out: Path) -> None:
    release_file(table, id_column=None, out=out, other_ids=True, **place.account)


def fit_of_users(place: Place, table: Any, out: Path) -> None:
    request = parse_fit(
        label="bought", classes="no,yes", epsilon="2", delta="0", dataset=place.dataset, features=",".join(FEATURES),
        id_column="id", user_column="user", per_user=2, trust="local", model="linear", stages=1,
    )  # fmt: skip
    fit_file(request, csv_of(place, table), ledger=str(place.ledger), out=str(out))


HISTORIES: dict[str, tuple[Callable[[Place], Any], Door]] = {
    "records, then users": (lambda place: other_release(place, people(GOOD)), for_users),
    "records, then a fit of users": (lambda place: other_release(place, people(GOOD)), fit_of_users),
    "bags of records, then of users": (
        lambda place: DOORS["bags"](place, people(GOOD), place.out("first.csv")),
        summed_for_users,
    ),
    "ids, then row numbers": (lambda place: other_release(place, people(GOOD)), under_other_ids),
    "system noise, then a file": (by_system(RESPONSE, ids=IDS), DOORS["release"]),
    "system noise, then a grant": (by_system(RESPONSE, ids=IDS), DOORS["grant"]),
    "system noise, then a fit": (by_system(RESPONSE, ids=IDS), DOORS["fit"]),
}


@pytest.mark.guarantee("labeldp.curator:open_account", "labels_last")
@pytest.mark.parametrize("history", HISTORIES)
def test_an_earlier_release_that_answers_another_request_pays_for_nothing(place: Place, history: str) -> None:
    """The mechanism was charged before, but for another unit, other ids or other noise: labels are not read."""
    before, door = HISTORIES[history]
    LedgerFile(place.ledger).change("people", budget=ldp.Budget(EPSILON))
    before(place)
    paid = state(place)
    answers = {refused(door, place, people(labels), place.out("second.csv")) for labels in LABELS.values()}
    assert len(answers) == 1, answers
    assert answers.pop()[0] == "BudgetExceeded"
    assert state(place) == paid


@pytest.mark.parametrize("name", DOORS)
def test_the_same_request_is_found_when_the_budget_is_used_up(place: Place, name: str) -> None:
    LedgerFile(place.ledger).change("people", budget=ldp.Budget(EPSILON))
    DOORS[name](place, people(GOOD), out(place, name))
    paid = LedgerFile(place.ledger).dataset("people").charges
    again = place.out("again.csv" if name in HAVE_OUTPUT else "again")
    DOORS[name](place, people(GOOD), again)
    assert LedgerFile(place.ledger).dataset("people").charges == paid


class Unread:
    """Labels whose number is public, and which nobody may read."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("a label was read")

    __iter__ = __array__ = __getitem__


@pytest.mark.parametrize("refusal", ["users", "kind of ids", "domain", "number of records"])
def test_a_curator_refuses_before_it_reads_labels(place: Place, refusal: str) -> None:
    prepare, words = REFUSALS[refusal]
    prepare(place)
    with pytest.raises(ldp.privacy.LedgerError, match=words):
        ldp.Curator(Unread(), domain=DOMAIN, ledger=LedgerFile(place.ledger).dataset("people"), ids=IDS)


def test_a_curator_counts_users_before_it_reads_labels() -> None:
    with pytest.raises(ldp.privacy.InputError, match="users"):
        ldp.Curator(Unread(), domain=DOMAIN, budget=ldp.Budget(1), users=np.arange(7))


def losses(place: Place, value: str) -> str:
    path = place.folder / "losses.csv"
    path.write_text("a,b\n" + "0,1\n" * 20 + f"{value},1\n")
    return str(path)


@pytest.mark.parametrize("refusal", ["users", "domain", "budget"])
def test_a_run_is_refused_before_losses_are_read(place: Place, refusal: str) -> None:
    prepare, words = REFUSALS[refusal]
    prepare(place)
    before = state(place)

    def door(place: Place, data: Any, out: Path) -> None:
        run_online(data, epsilon=EPSILON, delta=1e-7, out=out, ledger=place.ledger, dataset="people")

    answers = {refused(door, place, losses(place, value), place.out("o.csv")) for value in ("0", "2", "much")}
    assert len(answers) == 1 and words in answers.pop()[1]
    assert state(place) == before
