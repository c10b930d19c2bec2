"""A grant: the noise of one release in the hands of many workers, and of no other release."""

import base64
import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.mechanisms import Interval, LocalHashing
from labeldp.releases import Grant, charge, randomize_batch, release_file
from labeldp.releases.grants import SECRECY
from labeldp.tables import open_table
from releases.tables import DOMAIN, MECHANISM, PartTable, account, people

RANGE = Interval(0, 10, 11)


def granted(path: Path, table: Any, **more: Any) -> Grant:
    """A grant for the people."""
    if not path.exists():
        LedgerFile(path).add("people", ldp.Budget(epsilon=1))
    asked = {"label": "bought", "id": "id", "mechanism": MECHANISM, "ledger": path, "dataset": "people"}
    return charge(table, **asked | more)


def answers(grant: Grant, table: pa.Table, rows: int) -> dict[Any, Any]:
    """The noisy label of each id, drawn in blocks of so many rows."""
    blocks = [randomize_batch(grant, batch) for batch in table.to_batches(rows)]
    whole = pa.Table.from_batches(blocks)
    return dict(zip(whole.column("id").to_pylist(), whole.column(grant.released).to_pylist(), strict=True))


@pytest.mark.guarantee("labeldp.releases:charge", "charged_first")
@pytest.mark.guarantee("labeldp.releases:charge", "refusal_free")
@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize(
    "mechanism", [MECHANISM, LocalHashing(domain=DOMAIN, epsilon=1), ldp.UnaryEncoding(domain=DOMAIN, epsilon=1)]
)
def test_workers_draw_the_bits_of_one_machine_for_one_charge(tmp_path: Path, texts: bool, mechanism: Any) -> None:
    table = people(texts=texts)
    names = {"RandomizedResponse": "randomized-response", "UnaryEncoding": "unary-encoding"}
    release_file(
        table, label="bought", domain=DOMAIN, epsilon=1, ledger=tmp_path / "ledger.db", dataset="people",
        mechanism=names.get(type(mechanism).__name__, "local-hashing"), id_column="id",
        out=tmp_path / "out.parquet",
    )  # fmt: skip
    from pyarrow import parquet

    alone = parquet.read_table(tmp_path / "out.parquet")
    expected = dict(zip(*(alone.column(number).to_pylist() for number in (0, 1)), strict=True))
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    for count in (1, 13, 64):
        grant = granted(tmp_path / "ledger.db", PartTable(table, count, seed=count), mechanism=mechanism)
        assert answers(grant, table, 1000) == expected
        assert answers(pickle.loads(pickle.dumps(grant)), shuffled, 7) == expected
    assert len(LedgerFile(tmp_path / "ledger.db").dataset("people").charges) == 1


def test_a_stream_is_a_table_in_one_part(path: Path) -> None:
    table = people()
    first = granted(path, open_table(table))
    assert answers(first, table, 100) == answers(granted(path, PartTable(table, 13)), table, 600)
    assert account(path).spent.epsilon() == 1


def test_numbers_are_answered_by_numbers_and_other_columns_stay(path: Path) -> None:
    table = people().append_column("income", pa.array(np.arange(600) % 11))
    mechanism = ldp.DiscreteLaplace(domain=RANGE, epsilon=1)
    grant = granted(path, PartTable(table, 3), label="income", mechanism=mechanism)
    batch = randomize_batch(grant, table.to_batches()[0])
    assert batch.schema.names == ["id", "bought", "age", "height", "income"]
    assert batch.schema.field("income").type == grant.released_type == pa.float64()
    assert batch.drop_columns("income") == table.to_batches()[0].drop_columns("income")
    assert randomize_batch(grant, table.to_batches()[0].slice(0, 0)).num_rows == 0


def test_the_noise_is_that_of_the_mechanism(path: Path) -> None:
    """4,000 labels kept with probability 0.731."""
    table = people(4000)
    found = answers(granted(path, PartTable(table, 4)), table, 512)
    truth = dict(zip(*(table.column(name).to_pylist() for name in ("id", "bought")), strict=True))
    kept = np.mean([found[name] == truth[name] for name in truth])
    assert abs(kept - MECHANISM.keep_probability) < 7.2 * np.sqrt(0.25 / 4000)


@pytest.mark.guarantee("labeldp.releases:Grant", "own_noise")
def test_a_grant_shows_no_key_and_draws_one_release_only(path: Path) -> None:
    ledger = LedgerFile(path)
    ledger.add("people", ldp.Budget(epsilon=3))
    table = people()
    one = granted(path, PartTable(table))
    other = granted(path, PartTable(table), mechanism=ldp.RandomizedResponse(domain=DOMAIN, epsilon=0.5))
    dataset = ledger.dataset("people")
    secrets = [dataset._secret, dataset.digest_key, dataset.randomness._key, other.release_key, other.check_key]
    held = pickle.dumps(one)
    for secret in secrets:
        assert not _holds(held, secret)
    for secret in (*secrets, one.release_key, one.check_key, one.check.encode(), dataset.ids_key or b"-"):
        for text in (repr(one), str(one), f"{one}", repr(vars(one)["ids"]), repr(copy.copy(one))):
            assert not _holds(text.encode(), secret)
    assert one.release_key != other.release_key
    # What the other release drew is not what this grant draws for the same labels.
    assert answers(one, table, 100) != answers(other, table, 100)


def _holds(text: bytes, secret: bytes) -> bool:
    """Whether a secret stands in a text, as bytes, digits or base 64."""
    forms = (secret, secret.hex().encode(), base64.b64encode(secret)[:24], repr(secret)[2:-1].encode())
    return any(form in text for form in forms)


def test_the_certificate_says_on_what_it_rests(path: Path) -> None:
    """Also where one machine charged the same release before, and its certificate did not say so."""
    table = people()
    ldp.releases.release_file(
        table, label="bought", domain=DOMAIN, epsilon=1, ledger=path, dataset="people", id_column="id",
        out=path.parent / "out.csv",
    )  # fmt: skip
    grant = granted(path, PartTable(table), conditions=("labels stay",))
    assert {SECRECY, "labels stay"} < set(grant.certificate.assumptions)
    assert "ε = 1, δ = 0" in grant.certificate.at(0)
    assert len(account(path).charges) == 1


def test_labels_or_ids_that_change_meanwhile_charge_nothing(path: Path) -> None:
    def others(table: pa.Table, time: int) -> pa.Table:
        return table.slice(1) if time else table

    with pytest.raises(ldp.LabelDPError, match="the table changed while it was being checked: nothing was charged"):
        granted(path, PartTable(people(), each_time=others))
    assert not account(path).charges


def test_labels_outside_of_the_domain_are_refused_by_one_sentence(path: Path) -> None:
    for number, wrong in enumerate(("maybe", None)):
        labels = people().column("bought").to_pylist()
        labels[300 * number] = wrong
        table = people().set_column(1, "bought", pa.array(labels))
        with pytest.raises(ldp.privacy.DomainError, match="Some labels are missing or not among") as refused:
            granted(path, PartTable(table, 5))
        assert "maybe" not in str(refused.value)
    assert not account(path).charges
    assert account(path).read().domains[0].refused == 2


def test_a_batch_of_other_labels_is_refused_without_a_word_about_them(path: Path) -> None:
    grant = granted(path, PartTable(people()))
    batch = pa.RecordBatch.from_pydict({"id": [1], "bought": ["maybe"]})
    with pytest.raises(ldp.LabelDPError, match="these are not the labels that were charged") as refused:
        randomize_batch(grant, batch)
    assert "maybe" not in str(refused.value) and refused.value.__context__ is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"id": "bought"}, "id must be another column than label"),
        ({"id": "nobody"}, "id: the table in parts has no column 'nobody'; it has 'id', 'bought', 'age', 'height'"),
        ({"label": "income"}, "label: the table in parts has no column 'income'"),
        ({"label": None}, "label: the table in parts has no column None"),
        ({"mechanism": "rr"}, "mechanism must answer each record by itself"),
        ({"id": "height"}, "must hold integers or texts"),
        ({"mechanism": ldp.RandomizedResponse(domain=DOMAIN, epsilon=2)}, "budget"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_charged(path: Path, more: Any, message: str) -> None:
    table = PartTable(people())
    with pytest.raises(ldp.LabelDPError, match=message):
        granted(path, table, **more)
    assert not account(path).charges
    assert not any(b"LabelTask" in task for task in table.tasks)


@pytest.mark.parametrize("count", [1, 13])
@pytest.mark.parametrize(("ids", "message"), [([1, 2, 1], "must not be repeated"), ([1, None, 2], "has a missing id")])
def test_ids_that_are_missing_or_repeated_are_refused_across_parts(
    path: Path, count: int, ids: Any, message: str
) -> None:
    table = pa.table({"id": pa.array(ids, pa.int64()), "bought": ["no", "yes", "no"]})
    with pytest.raises(ldp.privacy.InputError, match=message):
        granted(path, PartTable(table, count))
    assert not account(path).charges


def test_a_table_without_rows_is_refused(path: Path) -> None:
    with pytest.raises(ldp.privacy.InputError, match="at least one record"):
        granted(path, PartTable(people().slice(0, 0)))
