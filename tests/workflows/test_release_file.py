"""The release of a file: the same bits as in memory, once charged, certified."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp.workflows import Curator, LedgerFile, release_file, verify_file
from workflows.files import DOMAIN, column, listing, release, spent

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
    with pytest.raises(ldp.InputError, match=r"out\.csv\.certificate\.json exists already"):
        release(people)
    (people / "out.csv.certificate.json").unlink()
    assert release(people) == first
    assert (people / "out.csv").read_bytes() == content
    assert spent(people) == 1.0


def test_another_release_is_refused_where_the_whole_budget_was_spent(people: Path) -> None:
    release(people)
    before = listing(people)
    for changes in ({"epsilon": 2}, {"mechanism": "unary-encoding"}, {"id_column": "id"}):
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
    assert "'people' is new in" in told[0]
    assert "epsilon = 0.3" in told[0]
    assert LedgerFile(people / "ledger.db").dataset("people").budget == ldp.Budget(epsilon=0.3)


def test_labels_that_changed_are_refused_without_a_revision(people: Path) -> None:
    LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=2))
    release(people)
    table = pd.read_csv(people / "people.csv", dtype=str)
    table.loc[0, "bought"] = "no" if table.loc[0, "bought"] == "yes" else "yes"
    table.to_csv(people / "people.csv", index=False)
    with pytest.raises(ldp.LedgerError, match="--revision NAME"):
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
    with pytest.raises(ldp.InputError, match="must not have a column 'bought_bits'"):
        release(people, mechanism="unary-encoding", in_place=True, out=people / "two.csv")


def test_numbers_are_published_on_the_grid_of_their_interval(people: Path) -> None:
    domain = ldp.Interval(0, 100, grid=101)
    release(people, label="hours", domain=domain, mechanism="discrete-laplace", epsilon=4, out=people / "out.parquet")
    values = parquet.read_table(people / "out.parquet").column("hours").to_numpy()
    assert set(values) <= set(range(101))
    assert 20 < values.mean() < 50


def test_classes_that_are_integers_stay_integers(people: Path) -> None:
    pd.DataFrame({"digit": np.arange(50) % 10}).to_csv(people / "digits.csv", index=False)
    out = people / "out.parquet"
    release(people, data=people / "digits.csv", label="digit", domain=ldp.Classes(10), out=out)
    assert parquet.read_schema(out).field("digit").type == pa.int64()
    pd.DataFrame({"digit": ["00"]}).to_csv(people / "digits.csv", index=False)
    with pytest.raises(ldp.DomainError):
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
    with pytest.raises(ldp.InputError, match="certificate"):
        verify_file(people / f"people{out.suffix}")


def test_the_certificate_names_the_secret_that_it_rests_on(people: Path) -> None:
    certificate = release(people)
    assert "a secret key" in certificate.at()
    assert "stays as secret as the labels" in certificate.at()
    assert certificate == LedgerFile(people / "ledger.db").dataset("people").entries[0].certificate


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


def test_memory_grows_with_a_block_not_with_the_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "memory.py", tmp_path], capture_output=True, text=True, check=True, timeout=120
    )
    assert (tmp_path / "large.parquet").stat().st_size > 100 * 2**20
    assert float(done.stdout) < 40
    for name in ("large", "large_out", "small", "small_out"):
        (tmp_path / f"{name}.parquet").unlink()


def test_a_curator_needs_no_tables() -> None:
    code = "import sys, labeldp.workflows.curator, labeldp.workflows.ledger_file; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"pyarrow", "sklearn"} & set(done.stdout.split())


def test_the_labels_that_a_curator_released_are_published_at_no_cost(people: Path) -> None:
    """What a fit learnt from can be published: the same request is the same release, held or streamed."""
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
