"""The release of a file: the same bits as in memory, once charged, certified."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp.curator import Curator, LedgerFile
from labeldp.mechanisms import LocalHashing, ResponseOnBins, UnbiasedNumbers
from labeldp.releases import release_file, verify_file
from labeldp.tables import Table, released_values
from releases.files import DOMAIN, column, listing, release, spent
from slow import mostly_slow

SCRIPTS = Path(__file__).parent


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("ids", [None, "id"])
@pytest.mark.parametrize("block_rows", [7, 10_000])
def test_blocks_and_formats_do_not_matter_a_file_is_released_as_labels_in_memory_are(
    people: Path, form: str, ids: str | None, block_rows: int
) -> None:
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=2))
    data, out = people / f"people.{form}", people / f"out.{form}"
    release(people, data=data, out=out, id_column=ids, block_rows=block_rows)
    table = pd.read_csv(data, dtype={"id": str}) if form == "csv" else pd.read_parquet(data)
    ledger = LedgerFile(people / "ledger.db").dataset("people")
    names = None if ids is None else table["id"].to_numpy()
    curator = Curator(table["bought"].to_numpy().astype(str), domain=DOMAIN, ledger=ledger, ids=names)
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=1)
    held = curator.release(mechanism, rng=ledger.randomness)
    assert column(out) == DOMAIN.decode(held.value).tolist()
    assert column(out) != column(data)
    expected = pd.Series(column(out)) == pd.Series(column(data))
    assert 0.65 < expected.mean() < 0.81  # keep probability 0.731, 600 records


@pytest.mark.parametrize("mechanism", ["randomized-response", "unary-encoding", "local-hashing"])
def test_the_same_table_as_csv_and_as_parquet_is_one_dataset(people: Path, mechanism: str) -> None:
    """Ids that are integers, texts, or some of each: one charge, one certificate, the same bits."""
    table = pd.read_csv(people / "people.csv", dtype=str)
    for name, ids in (("integers", np.arange(600) - 5), ("both", [f"p{n}" if n % 3 else str(n) for n in range(600)])):
        same = table.assign(id=ids)
        same.to_csv(people / "same.csv", index=False)
        same.to_parquet(people / "same.parquet")
        more: dict[str, Any] = {"dataset": name, "ledger": people / f"{name}.db", "id_column": "id"}
        outs = [people / f"{name}_csv.csv", people / f"{name}_parquet.csv"]
        one, two = (
            release(people, data=people / f"same.{form}", out=out, mechanism=mechanism, block_rows=rows, **more)
            for form, out, rows in (("csv", outs[0], 100), ("parquet", outs[1], 37))
        )
        assert one == two and outs[0].read_bytes() == outs[1].read_bytes()
        assert len(LedgerFile(people / f"{name}.db").dataset(name).charges) == 1


def test_tables_in_memory_and_arrow_files_are_released_as_their_file_is(people: Path) -> None:
    """One charge; ids as numbers and as texts, labels as categories."""
    polars = pytest.importorskip("polars")
    frame = pd.read_csv(people / "people.csv").assign(id=lambda table: np.arange(len(table)))
    frame.to_csv(people / "same.csv", index=False)
    first = release(people, data=people / "same.csv", out=people / "one.arrow", id_column="id")
    categories = frame.assign(bought=frame["bought"].astype("category"))
    sources = (pa.Table.from_pandas(frame), polars.from_pandas(categories), categories, people / "one.feather")
    with pa.OSFile(str(people / "one.feather"), "wb") as file, pa.ipc.new_file(file, sources[0].schema) as writer:
        writer.write_table(sources[0], max_chunksize=100)
    outs = [people / f"{number}.csv" for number in range(4)]
    for source, out in zip(sources, outs, strict=True):
        assert release(people, data=source, out=out, id_column="id") == first
    assert len({out.read_bytes() for out in outs}) == 1 and spent(people) == 1
    assert verify_file(people / "one.arrow").holds
    with pa.ipc.open_file(people / "one.arrow") as reader:
        assert reader.read_all().column("bought").to_pylist() == column(outs[0])
    release(people, data=sources[1], out=people / "whole.arrow", id_column="id", in_place=True)
    assert verify_file(people / "whole.arrow").holds
    with pytest.raises(ldp.privacy.InputError, match="Table given as data has no column 'income'"):
        release(people, data=sources[0], label="income", out=people / "no.csv")


class Query:
    """A query whose rows are other ones each time."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.asked = table, 0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.asked += 1
        labels = np.roll(self.table.column("bought").to_numpy(), self.asked)
        return self.table.set_column(1, "bought", pa.array(labels)).__arrow_c_stream__(requested_schema)


def test_labels_are_looked_at_once_and_a_table_in_place_must_be_the_same_again(people: Path) -> None:
    """What is published is what was charged, also of a query that gives other rows each time."""
    table = pa.table({"id": np.arange(50), "bought": np.where(np.arange(50) % 3, "no", "yes")})
    query = Query(table)
    with pytest.raises(ldp.LabelDPError, match="changed while it was being released: nothing was published"):
        release(people, data=query, id_column="id", in_place=True)
    assert not (people / "out.csv").exists()
    shown = table.set_column(1, "bought", pa.array(np.roll(table.column("bought").to_numpy(), query.asked - 1)))
    kept = release(people, data=shown, id_column="id")  # the look before the last is what was charged
    other = Query(table)
    other.asked = query.asked - 5  # the schema, the first rows, the ids, and the look
    assert release(people, data=other, id_column="id", out=people / "same.csv") == kept and spent(people) == 1
    assert (people / "same.csv").read_bytes() == (people / "out.csv").read_bytes()


def test_noise_follows_the_id_not_the_row(people: Path) -> None:
    release(people, id_column="id")
    table = pd.read_csv(people / "people.csv", dtype=str).sample(frac=1, random_state=1)
    table.to_csv(people / "shuffled.csv", index=False)
    release(people, id_column="id", data=people / "shuffled.csv", out=people / "shuffled_out.csv")
    one, two = (pd.read_csv(people / name).set_index("id") for name in ("out.csv", "shuffled_out.csv"))
    assert one.loc[two.index].equals(two)
    assert list(one.index) != list(two.index)
    assert spent(people) == 1.0


def test_the_output_is_the_noisy_labels_alone_or_with_ids_or_the_whole_table(people: Path) -> None:
    release(people)
    LedgerFile(people / "ledger.db").add("others", ldp.Budget(epsilon=1))
    release(people, id_column="id", out=people / "with_ids.parquet", dataset="others")
    release(people, in_place=True, out=people / "whole.parquet")
    source = pd.read_csv(people / "people.csv", dtype=str)
    assert list(pd.read_csv(people / "out.csv")) == ["bought"]
    assert list(pd.read_parquet(people / "with_ids.parquet")) == ["id", "bought"]
    whole = pd.read_parquet(people / "whole.parquet")
    assert list(whole) == list(source)
    assert whole.drop(columns="bought").fillna("").equals(source.drop(columns="bought").fillna(""))
    assert whole["bought"].tolist() == column(people / "out.csv")
    assert spent(people) == 1.0


def test_the_same_command_again_costs_nothing_and_writes_the_same(people: Path) -> None:
    first = release(people)
    content = (people / "out.csv").read_bytes()
    stamp = (people / "out.csv").stat().st_mtime_ns
    assert release(people) == first
    assert (people / "out.csv").stat().st_mtime_ns == stamp
    (people / "out.csv").unlink()
    with pytest.raises(ldp.privacy.InputError, match=r"out\.csv\.certificate\.json exists already"):
        release(people)
    (people / "out.csv.certificate.json").unlink()
    assert release(people) == first
    assert (people / "out.csv").read_bytes() == content
    assert spent(people) == 1.0


def test_another_release_is_refused_where_the_whole_budget_was_spent(people: Path) -> None:
    release(people)
    before = listing(people)
    for changes in ({"epsilon": 2}, {"mechanism": "unary-encoding"}, {"id_column": "id", "other_ids": True}):
        with pytest.raises(ldp.BudgetExceeded):
            release(people, **changes, out=people / "more.csv")
    assert listing(people) == before
    assert spent(people) == 1.0


def test_an_unknown_dataset_gets_the_cost_as_its_whole_budget_and_the_caller_is_told_once(
    people: Path,
) -> None:
    told: list[str] = []
    release(people, epsilon=0.3, note=told.append)
    release(people, epsilon=0.3, note=told.append, out=people / "again.csv")
    assert len(told) == 1
    assert "the budget of 'people' is" in told[0]
    assert "epsilon = 0.3" in told[0]
    assert LedgerFile(people / "ledger.db").dataset("people").budget == ldp.Budget(epsilon=0.3)


def test_labels_that_changed_are_refused_without_a_revision(people: Path) -> None:
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=2))
    release(people)
    table = pd.read_csv(people / "people.csv", dtype=str)
    table.loc[0, "bought"] = "no" if table.loc[0, "bought"] == "yes" else "yes"
    table.to_csv(people / "people.csv", index=False)
    with pytest.raises(ldp.privacy.LedgerError, match="--revision NAME"):
        release(people, out=people / "two.csv")
    release(people, out=people / "two.csv", revision="two")
    differ = pd.Series(column(people / "out.csv")) != pd.Series(column(people / "two.csv"))
    assert differ.mean() > 0.2
    assert spent(people) == 2.0


def test_bits_are_published_as_texts_in_the_order_of_the_classes(people: Path) -> None:
    release(people, mechanism="unary-encoding", epsilon=8, in_place=True)
    bits = column(people / "out.csv", "bought_bits")
    truth = {"no": "10", "yes": "01"}
    agree = np.mean([truth[label] == text for label, text in zip(column(people / "people.csv"), bits, strict=True)])
    assert set(bits) <= {"00", "01", "10", "11"}
    assert 0.93 < agree < 0.99  # each bit is kept with probability 0.982
    table = pd.read_csv(people / "people.csv")
    table.assign(bought_bits=0).to_csv(people / "people.csv", index=False)
    with pytest.raises(ldp.privacy.InputError, match="must not have a column 'bought_bits'"):
        release(people, mechanism="unary-encoding", in_place=True, out=people / "two.csv")


def test_groups_are_published_that_anybody_can_build_again(tmp_path: Path) -> None:
    ids = np.arange(400) + 1000
    kinds = np.array(["ant", "bee", "cat", "dog", "elk"])[ids % 5]
    pd.DataFrame({"id": ids, "kind": kinds}).to_csv(tmp_path / "kinds.csv", index=False)
    asked: dict[str, Any] = {
        "label": "kind",
        "domain": ldp.Classes(("ant", "bee", "cat", "dog", "elk")),
        "mechanism": "local-hashing",
        "epsilon": 1,
        "ledger": tmp_path / "l.ledger",
        "dataset": "kinds",
        "id_column": "id",
    }
    certificate = release_file(tmp_path / "kinds.csv", out=tmp_path / "one.csv", **asked)
    again = release_file(tmp_path / "kinds.csv", out=tmp_path / "two.parquet", block_rows=64, **asked)
    assert again == certificate
    released = pd.read_csv(tmp_path / "one.csv", dtype=str)
    assert released["kind_group"].tolist() == pd.read_parquet(tmp_path / "two.parquet")["kind_group"].tolist()
    mechanism = LocalHashing(domain=asked["domain"], epsilon=1, seed=certificate.entries[0].mechanism["seed"])
    named = np.array([[bit == "1" for bit in text] for text in released["kind_group"]])
    groups = mechanism.partition(ids)  # the ids of a CSV file are texts that integers print as
    answered = groups[np.arange(400), named.argmax(axis=1)]
    assert ((groups == answered[:, None]) == named).all()
    true = named[np.arange(400), ids % 5].mean()
    assert abs(true - mechanism.keep_probability) < 7.2 * 0.5 / 20
    assert str(mechanism.seed) in certificate.at(0)


def test_numbers_are_published_on_the_grid_of_their_interval(people: Path) -> None:
    domain = ldp.Interval(0, 100, grid=101)
    release(people, label="hours", domain=domain, mechanism="discrete-laplace", epsilon=4, out=people / "out.parquet")
    values = parquet.read_table(people / "out.parquet").column("hours").to_numpy()
    assert set(values) <= set(range(101))
    assert 20 < values.mean() < 50


def test_numbers_are_published_as_outputs_that_average_to_them(people: Path) -> None:
    domain, out = ldp.Interval(0, 100, grid=101), people / "out.parquet"
    release(people, label="hours", domain=domain, mechanism="unbiased-numbers", epsilon=4, out=out)
    values = parquet.read_table(out).column("hours").to_numpy()
    mechanism = UnbiasedNumbers(domain=domain, epsilon=4)
    assert set(values) <= set(mechanism.outputs)
    assert 20 < values.mean() < 50


def test_numbers_are_published_as_bins(people: Path) -> None:
    domain, out = ldp.Interval(0, 100, grid=101), people / "out.csv"
    release(people, label="hours", domain=domain, mechanism="response-on-bins", epsilon=4, out=out)
    bins = pd.read_csv(out)["hours_bin"]
    assert set(bins) <= set(ResponseOnBins(domain=domain, epsilon=4).names) and bins.str.contains(" to ").all()


def test_classes_that_are_integers_stay_integers(people: Path) -> None:
    pd.DataFrame({"digit": np.arange(50) % 10}).to_csv(people / "digits.csv", index=False)
    out = people / "out.parquet"
    release(people, data=people / "digits.csv", label="digit", domain=ldp.Classes(10), out=out)
    assert parquet.read_schema(out).field("digit").type == pa.int64()
    pd.DataFrame({"digit": ["00"] * 50}).to_csv(people / "digits.csv", index=False)
    with pytest.raises(ldp.privacy.DomainError):
        release(people, data=people / "digits.csv", label="digit", domain=ldp.Classes(10), out=people / "two.csv")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_certificate_says_whether_the_file_still_is_what_was_certified(people: Path, name: str) -> None:
    out = people / name
    certificate = release(people, out=out)
    verdict = verify_file(out)
    assert (verdict.certificate, verdict.holds) == (certificate, True)
    assert verdict.sentence == f"The column 'bought' of {out} still holds what was certified."
    noisy = column(out)
    noisy[3] = "no" if noisy[3] == "yes" else "yes"
    if name == "out.csv":
        out.write_text("bought\n" + "".join(f"{value}\n" for value in noisy))
    else:
        metadata = parquet.read_metadata(out).metadata
        metadata.pop(b"ARROW:schema", None)
        edited = pa.table({"bought": noisy}).replace_schema_metadata(metadata)
        parquet.write_table(edited, out)
    verdict = verify_file(out)
    assert not verdict.holds
    assert "is NOT what was certified" in verdict.sentence
    with pytest.raises(ldp.privacy.InputError, match="certificate"):
        verify_file(people / f"people{out.suffix}")


def test_the_certificate_names_the_secret_that_it_rests_on(people: Path) -> None:
    certificate = release(people)
    assert "the noise key" in certificate.at()
    assert "stays as secret as the labels" in certificate.at()
    assert certificate == LedgerFile(people / "ledger.db").dataset("people").read().entries[0].certificate


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_progress_goes_through_the_rows_twice(people: Path, form: str) -> None:
    seen: list[tuple[str, float]] = []
    data = people / f"people.{form}"
    release(people, data=data, block_rows=300, progress=lambda done, share: seen.append((done, share)))
    checked = [0.25, 0.5] if form == "parquet" else [0.0, 0.0]  # a CSV file does not say how many rows it has
    assert [done for done, _ in seen] == [
        f"{done} {rows} rows" for done in ("checked", "released") for rows in (300, 600)
    ]
    assert [share for _, share in seen] == [*checked, 0.75, 1.0]


@pytest.mark.slow
def test_memory_grows_with_a_block_not_with_the_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "memory.py", tmp_path], capture_output=True, text=True, check=True, timeout=120
    )
    assert (tmp_path / "large.parquet").stat().st_size > 100 * 2**20
    assert float(done.stdout) < 40
    for name in ("large", "large_out", "small", "small_out"):
        (tmp_path / f"{name}.parquet").unlink()


def test_a_curator_needs_no_tables() -> None:
    code = "import sys, labeldp.curator; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"pyarrow", "sklearn"} & set(done.stdout.split())


def test_the_labels_that_a_curator_released_are_published_at_no_cost(people: Path) -> None:
    """What a fit learned from can be published: the same request is the same release, held or streamed."""
    labels = pd.read_csv(people / "people.csv")["bought"].to_numpy(str)
    account = LedgerFile(people / "l.db").dataset("people", budget=ldp.Budget(1))
    domain = ldp.Classes(("no", "yes"))
    curator = ldp.Curator(labels, domain=domain, ledger=account, run="a fit")
    mechanism = ldp.RandomizedResponse(domain=domain, epsilon=1)
    held = curator.release(mechanism, rng=account.randomness, step="stage 1")
    release_file(
        people / "people.csv", label="bought", domain=domain, epsilon=1, ledger=people / "l.db", dataset="people",
        out=people / "noisy.csv",
    )  # fmt: skip
    published = pd.read_csv(people / "noisy.csv")["bought"].tolist()
    assert published == domain.decode(held.value).tolist()
    assert account.spent.epsilon() == 1.0


def with_cell(name: str, value: str) -> Callable[[Path], None]:
    """The same table with one cell replaced, in its last row."""

    def change(folder: Path) -> None:
        table = pd.read_csv(folder / "people.csv", dtype=str)
        table.loc[len(table) - 1, name] = value
        table.to_csv(folder / "people.csv", index=False)

    return change


def nothing(folder: Path) -> None:
    """The table as it is."""


REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "id repeated": (with_cell("id", "1000"), {"id_column": "id"}, "must not be repeated"),
    "id missing": (with_cell("id", ""), {"id_column": "id"}, "missing id"),
    "no such label": (nothing, {"label": "boughd"}, "label: .* did you mean 'bought'"),
    "no such id": (nothing, {"id_column": "ids"}, "id_column: .* did you mean 'id'"),
    "label as id": (nothing, {"id_column": "bought"}, "another column than label"),
    "epsilon zero": (nothing, {"epsilon": 0}, "epsilon must be positive"),
    "epsilon negative": (nothing, {"epsilon": -1}, "epsilon must be positive"),
    "epsilon infinite": (nothing, {"epsilon": float("inf")}, "epsilon must be finite"),
    "epsilon nan": (nothing, {"epsilon": float("nan")}, "epsilon must be finite"),
    "no such mechanism": (
        nothing,
        {"mechanism": "laplace"},
        "mechanism must be one of randomized-response, ",
    ),
    "wrong domain": (nothing, {"mechanism": "discrete-laplace"}, "domain must be an Interval"),
    "empty file": (lambda folder: (folder / "people.csv").write_text(""), {}, "is empty"),
    "no rows": (lambda folder: (folder / "people.csv").write_text("id,bought\n"), {}, "no other row"),
    "out ends in nothing": (nothing, {"out": Path("out.txt")}, "must end in .parquet or .csv"),
    "out is nowhere": (nothing, {"out": Path("nowhere/out.csv")}, r"out\.csv cannot be written: there is no directory"),
    "out is the data": (nothing, {"out": Path("people.csv")}, "exists already"),
    "out is the ledger": (nothing, {"out": Path("ledger.db")}, "must end in .parquet or .csv"),
    "bad name": (nothing, {"dataset": ""}, "name must be a printable text"),
    "block_rows": (nothing, {"block_rows": 0}, "block_rows must be at least 1"),
}


@pytest.mark.guarantee("labeldp.releases:release_file", "refusal_free")
@pytest.mark.parametrize("kind", REFUSED)
def test_bad_input_is_refused_and_nothing_is_charged_or_written(people: Path, kind: str) -> None:
    change, arguments, message = REFUSED[kind]
    change(people)
    if "out" in arguments:
        arguments = arguments | {"out": people / arguments["out"]}
    before = {name: (people / name).read_bytes() for name in listing(people)}
    with pytest.raises(ldp.privacy.InputError, match=message) as caught:
        release(people, **arguments)
    assert "maybe" not in str(caught.value)
    assert {name: (people / name).read_bytes() for name in listing(people)} == before


BAD_LABELS: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "label outside": (with_cell("bought", "maybe"), {}),
    "label missing": (with_cell("bought", ""), {}),
    "not a number": (nothing, {"mechanism": "discrete-laplace", "domain": ldp.Interval(0, 1)}),
}


@pytest.mark.parametrize("kind", BAD_LABELS)
def test_labels_that_do_not_fit_leave_the_declared_domain_and_no_charge(people: Path, kind: str) -> None:
    """All of them are refused by one sentence, so that a refusal tells one bit, and the bit is on record."""
    change, arguments = BAD_LABELS[kind]
    change(people)
    with pytest.raises(ldp.privacy.DomainError, match=r"Some labels are missing or not (among|numbers from)") as caught:
        release(people, **arguments)
    assert "maybe" not in str(caught.value) and caught.value.__context__ is None
    assert listing(people) == {"people.csv", "people.parquet", "new_people.csv", "ledger.db"}
    assert spent(people) == 0
    assert [domain.refused for domain in LedgerFile(people / "ledger.db").dataset("people").read().domains] == [1]


@pytest.mark.parametrize("row", [0, 250, 599])
def test_neither_progress_nor_time_tells_which_label_was_refused(people: Path, row: int) -> None:
    """With blocks of one row, `checked 251 rows` before the refusal told that the label of row 252 is outside."""
    table = pd.read_csv(people / "people.csv", dtype=str)
    table.loc[row, "bought"] = "maybe"
    table.to_csv(people / "people.csv", index=False)
    done: list[str] = []
    with pytest.raises(ldp.privacy.DomainError):
        release(people, block_rows=1, id_column="id", progress=lambda text, share: done.append(text))
    assert done == [f"checked {rows} rows" for rows in range(1, 601)]


def test_a_refusal_by_the_budget_looks_at_no_label(people: Path) -> None:
    with_cell("bought", "maybe")(people)
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=0.5))
    with pytest.raises(ldp.BudgetExceeded):
        release(people)
    assert LedgerFile(people / "ledger.db").dataset("people").read().domains == ()


def test_ids_that_change_after_they_were_checked_are_refused(people: Path) -> None:
    """Ids are read and found distinct before a label is looked at, so others must not take their place."""

    def swap(told: str) -> None:
        table = pd.read_csv(people / "people.csv", dtype=str)
        table.loc[0, "id"] = table.loc[1, "id"]
        table.to_csv(people / "people.csv", index=False)

    with pytest.raises(ldp.LabelDPError, match="changed while it was being checked: nothing was charged"):
        release(people, id_column="id", note=swap)
    assert not (people / "ledger.db").exists()
    assert not (people / "out.csv").exists()


def test_one_class_only_is_no_reason_to_refuse(people: Path) -> None:
    """Whether all labels are the same is private."""
    pd.DataFrame({"bought": ["no"] * 50}).to_csv(people / "people.csv", index=False)
    release(people)
    assert set(column(people / "out.csv")) == {"no", "yes"}


def test_an_output_that_stands_and_is_not_this_release_is_refused_and_left(people: Path) -> None:
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=9))
    release(people)
    LedgerFile(people / "ledger.db").add("others", ldp.Budget(epsilon=9))
    for change in (
        {"epsilon": 2},
        {"id_column": "id", "other_ids": True},
        {"in_place": True},
        {"dataset": "others"},
        {"revision": "two"},
    ):
        before = (people / "out.csv").read_bytes()
        with pytest.raises(ldp.privacy.InputError, match="exists already and is not this release"):
            release(people, **change)
        assert (people / "out.csv").read_bytes() == before
    (people / "out.csv").write_text("bought\n" + "no\n" * 600)
    with pytest.raises(ldp.privacy.InputError, match="exists already and is not this release"):
        release(people)
    assert spent(people) == 1.0


def test_a_column_that_the_output_cannot_hold_is_refused_before_the_charge(people: Path) -> None:
    table = pa.table({"bought": ["no", "yes"], "tags": [["a"], []], "raw": pa.array([b"a", b"b"])})
    parquet.write_table(table, people / "odd.parquet")
    with pytest.raises(ldp.privacy.InputError, match=r"a CSV file cannot hold the column 'tags'"):
        release(people, data=people / "odd.parquet", in_place=True)
    assert not (people / "ledger.db").exists()
    release(people, data=people / "odd.parquet")
    release(people, data=people / "odd.parquet", in_place=True, out=people / "odd_out.parquet")
    assert parquet.read_table(people / "odd_out.parquet").column("tags").to_pylist() == [["a"], []]


def test_times_in_an_unknown_zone_are_refused_before_the_charge(people: Path) -> None:
    times = pa.array([0, 1]).cast(pa.timestamp("us", tz="Nowhere/Land"))
    parquet.write_table(pa.table({"bought": ["no", "yes"], "at": times}), people / "odd.parquet")
    with pytest.raises(ldp.privacy.InputError, match=r"a CSV file cannot hold the column 'at'"):
        release(people, data=people / "odd.parquet", in_place=True)
    assert not (people / "ledger.db").exists()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("stage", ["checked", "released"])
@pytest.mark.parametrize("rows", mostly_slow([100, 300, 600], [300]))
@pytest.mark.parametrize("kind", ["other labels", "fewer rows", "more rows"])
def test_a_file_that_changes_meanwhile_is_not_published_and_the_charge_is_found_again(
    people: Path, kind: str, rows: int, stage: str, in_place: bool
) -> None:
    source = (people / "people.csv").read_bytes()
    table = pd.read_csv(people / "people.csv", dtype=str)

    def swap(done: str, share: float) -> None:
        if done == f"{stage} {rows} rows":
            changed = table.assign(bought=table["bought"].map({"no": "yes", "yes": "no"}))
            more = {"other labels": changed, "fewer rows": table[:500], "more rows": pd.concat([table, table[:1]])}
            more[kind].to_csv(people / "people.csv", index=False)

    ends = {"checked": "checked: nothing was charged", "released": "released: nothing was published"}
    with pytest.raises(ldp.LabelDPError, match=f"changed while it was being {ends[stage]}"):
        release(people, progress=swap, in_place=in_place)
    assert listing(people) == {"people.csv", "people.parquet", "new_people.csv", "ledger.db"}
    assert spent(people) == (stage == "released")
    (people / "people.csv").write_bytes(source)
    release(people)
    assert spent(people) == 1.0


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("ids", [None, "id"])
def test_labels_that_changed_never_meet_the_noise_of_others(
    people: Path, ids: str | None, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is changed after the charge, and looks as before: no noise is drawn for its new labels.

    350 of 600 labels are swapped. Were they drawn, what stood in a file that was killed then would be, row for row,
    another answer to the same coins: each that differs tells that its label changed, with certainty.
    """
    drawn: list[str] = []
    published = released_values

    def spied(mechanism: Any, noisy: Any) -> Any:
        values = published(mechanism, noisy)
        drawn.extend(values.to_pylist())
        return values

    monkeypatch.setattr("labeldp.releases.column.released_values", spied)
    monkeypatch.setattr(Table, "is_unchanged", lambda table: True)
    source = pd.read_csv(people / "people.csv", dtype=str)
    swapped = source["bought"].map({"no": "yes", "yes": "no"})
    changed = source.assign(bought=source["bought"].where(source.index < 250, swapped))

    def swap(done: str, share: float) -> None:
        if done == "checked 600 rows":
            changed.to_csv(people / "people.csv", index=False)

    if in_place:
        with pytest.raises(ldp.LabelDPError, match="changed while it was being released"):
            release(people, progress=swap, id_column=ids, in_place=True)
    else:
        release(people, progress=swap, id_column=ids)
    before = list(drawn)
    source.to_csv(people / "people.csv", index=False)
    release(people, id_column=ids, out=people / "two.csv")
    assert len(before) == (200 if in_place else 600) and before == column(people / "two.csv")[: len(before)]
    assert spent(people) == 1.0


def linked_in(folder: Path, handle: int) -> bool:
    """Whether this process holds a file without a name in a folder open by this number."""
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{handle}").startswith(f"{folder}/#")
    return False


@pytest.mark.parametrize("out", ["out.csv", "out.csv.gz", "out.parquet"])
def test_a_release_is_for_its_owner_alone_until_it_is_whole(people: Path, out: str) -> None:
    """Until then nobody else can read it; then it has the mode of any new file, as has its certificate."""
    seen: list[int] = []

    def look(done: str, share: float) -> None:
        places = [place for place in people.iterdir() if "out" in place.name]
        handles = [int(name) for name in os.listdir("/proc/self/fd")]
        drafts = [os.fstat(handle) for handle in handles if linked_in(people, handle)]
        seen.extend(stat.st_mode & 0o777 for stat in [*drafts, *(place.stat() for place in places)])

    before = os.umask(0o022)
    try:
        release(people, out=people / out, progress=look)
    finally:
        os.umask(before)
    assert set(seen) == {0o600}
    made = [place for place in people.iterdir() if place.name.startswith("out")]
    assert len(made) == 2 - out.endswith("parquet") and {place.stat().st_mode & 0o777 for place in made} == {0o644}


@pytest.mark.guarantee("labeldp.releases:release_file", "charged_first")
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
@pytest.mark.parametrize("stage", ["checked", "released"])
def test_a_release_that_was_stopped_is_finished_by_the_same_command_with_the_same_bits(
    people: Path, name: str, stage: str
) -> None:
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=1))
    done = subprocess.run(
        [sys.executable, SCRIPTS / "killed_release.py", people, name, stage],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert not (people / "out.csv").exists()
    if name == "SIGINT":
        assert listing(people) == {"people.csv", "people.parquet", "new_people.csv", "ledger.db"}
    assert spent(people) == (1.0 if stage == "released" else 0.0)
    (people / "copy").mkdir()
    shutil.copy(people / "ledger.db", people / "copy")
    release(people)
    release(people, ledger=people / "copy" / "ledger.db", out=people / "copy" / "out.csv")
    assert (people / "out.csv").read_bytes() == (people / "copy" / "out.csv").read_bytes()
    assert spent(people) == 1.0


def test_a_full_disk_leaves_nothing_and_the_charge_is_found_again(people: Path, tiny_disk: Path) -> None:
    table = pd.DataFrame({"bought": np.tile(["no", "yes"], 100_000)})
    table.to_csv(people / "people.csv", index=False)
    with pytest.raises(ldp.LabelDPError, match="disk is full"):
        release(people, out=tiny_disk / "out.csv")
    assert listing(tiny_disk) == set()
    release(people)
    assert spent(people) == 1.0


def test_the_order_of_the_classes_is_no_part_of_a_request(people: Path) -> None:
    """`--classes no,yes` and then `yes,no` were charged twice, with independent noise."""
    first = release(people)
    assert release(people, domain=ldp.Classes(("yes", "no")), out=people / "again.csv") == first
    assert (people / "again.csv").read_bytes() == (people / "out.csv").read_bytes() and spent(people) == 1
    labels = pd.read_csv(people / "people.csv", dtype=str)["bought"]
    values = []
    for names in (("no", "yes"), ("yes", "no")):
        account = LedgerFile(people / "fit.db").dataset("people", budget=ldp.Budget(1))
        curator = Curator(labels, domain=ldp.Classes(names), ledger=account)
        values.append(curator.release(ldp.RandomizedResponse(curator.domain, 1), rng=ldp.SystemRandomness()).value)
    assert values[0].tolist() == values[1].tolist()
    assert len(LedgerFile(people / "fit.db").dataset("people").read().domains) == 1


def test_a_wrong_domain_is_reported_before_a_spent_budget(people: Path) -> None:
    """The user was told to raise the budget, which would not have helped."""
    release(people)
    wrong = {"domain": ldp.Classes(("no", "yes", "maybe")), "epsilon": 5, "out": people / "two.csv"}
    with pytest.raises(
        ldp.privacy.LedgerError, match="the declared domain of 'people' is the 2 classes 'no', 'yes', and not"
    ):
        release(people, **wrong)
    with pytest.raises(ldp.privacy.LedgerError, match="No label was read, and nothing was charged"):
        release(people, mechanism="unary-encoding", **wrong)
    assert spent(people) == 1 and len(LedgerFile(people / "ledger.db").dataset("people").read().domains) == 1


@pytest.mark.parametrize(("first", "second"), [(None, "id"), ("id", None)])
def test_other_ids_are_refused_unless_they_are_asked_for(people: Path, first: str | None, second: str | None) -> None:
    """A forgotten --id was charged once more, in silence."""
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=2))
    release(people, id_column=first)
    table = pd.read_csv(people / "people.csv", dtype=str)
    table.assign(bought="?").to_csv(people / "unread.csv", index=False)  # would be refused if it were looked at
    words = "'people' was released .*, and this would release it .*: the same labels would be charged once more"
    for epsilon in (1, 5):  # before the budget, too
        with pytest.raises(ldp.privacy.LedgerError, match=words):
            release(people, id_column=second, data=people / "unread.csv", out=people / "two.csv", epsilon=epsilon)
    account = LedgerFile(people / "ledger.db").dataset("people")
    with pytest.raises(ldp.privacy.LedgerError, match="--other-ids"):
        Curator(table["bought"], domain=DOMAIN, ledger=account, ids=None if second is None else table["id"])
    assert spent(people) == 1 and account.read().domains[0].refused == 0
    release(people, id_column=second, out=people / "two.csv", other_ids=True)
    assert spent(people) == 2
    for ids in (first, second):  # both are known now
        release(people, id_column=ids, out=people / f"{ids}.csv")
    assert spent(people) == 2
