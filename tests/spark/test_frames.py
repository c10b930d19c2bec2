"""Releases in Spark: the bits of one machine for one charge, whatever Spark does with the work."""

import base64
import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp import spark as room
from labeldp.curator import LedgerFile
from labeldp.fit import verify
from labeldp.releases import grants, release_file
from labeldp.spark.frames import LAZY, PROPERTY
from labeldp.tables import open_table
from releases.tables import DOMAIN, MECHANISM
from releases.tables import people as rows
from spark.frames import answers, dying, frame, through


def release(path: Path, dataframe: Any, **more: Any) -> Any:
    """A release of the people."""
    asked = {"label": "bought", "id": "id", "mechanism": MECHANISM, "ledger": path, "dataset": "people"}
    return room.release(dataframe, **(asked | more))


def alone(path: Path, table: pa.Table, **more: Any) -> dict[Any, Any]:
    """The noisy label of each user as one machine releases them."""
    out = path.parent / "alone.parquet"
    asked: dict[str, Any] = {"label": "bought", "domain": DOMAIN, "epsilon": 1, "dataset": "people", "id_column": "id"}
    release_file(table, ledger=path, out=out, **(asked | more))
    columns = parquet.read_table(out)
    return dict(zip(*(columns.column(number).to_pylist() for number in (0, 1)), strict=True))


def charges(path: Path) -> int:
    return len(LedgerFile(path).dataset("people").charges)


def test_parts_of_an_output_follow_the_ids_whatever_parts_its_source_has(
    spark: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark cuts its source by bytes, with the labels: neither files nor partitions of a release may show it."""
    monkeypatch.setattr("labeldp.spark.table.PART_ROWS", 100)
    written, kept = set(), set()
    for number, partitions in enumerate((1, 13)):
        source = frame(spark, partitions=partitions, seed=number)
        release(path, source, out=path.parent / f"out{number}", in_place=True)
        files = sorted((path.parent / f"out{number}").glob("part-*.parquet"))
        written.add(tuple((file.name, file.read_bytes()) for file in files))
        lazy = release(path, source).value
        kept.add(tuple(tuple(row.id for row in part) for part in lazy.rdd.glom().collect()))
    assert len(written) == len(kept) == 1
    assert len(next(iter(kept))) == 6 and len(next(iter(written))) == 6


@pytest.mark.guarantee("labeldp.spark:release", "same_bits")
def test_partitions_and_actions_give_the_bits_of_one_machine(spark: Any, path: Path) -> None:
    expected = alone(path, rows())
    for partitions in (1, 13, 64):
        released = release(path, frame(spark, partitions=partitions, seed=partitions)).value
        assert answers(released) == expected
        if partitions != 13:
            continue
        assert answers(released.repartition(5).orderBy("bought")) == expected
        kept = released.cache()
        assert kept.count() == 600 and answers(kept) == expected
        kept.unpersist()
        assert answers(kept) == expected
    assert charges(path) == 1


def test_texts_as_ids_and_sets_as_answers(spark: Any, path: Path) -> None:
    table, mechanism = rows(texts=True), ldp.UnaryEncoding(domain=DOMAIN, epsilon=1)
    expected = alone(path, table, mechanism="unary-encoding")
    found = release(path, frame(spark, table, 3), mechanism=mechanism, in_place=True)
    assert found.value.columns == ["id", "bought_bits", "age", "height"]
    assert answers(found.value) == expected and charges(path) == 1
    assert found.mechanism == mechanism
    whole = dict(zip(*(table.column(name).to_pylist() for name in ("id", "age")), strict=True))
    assert {row["id"]: row["age"] for row in found.value.collect()} == whole


@pytest.mark.guarantee("labeldp.spark:release", "same_bits")
def test_a_worker_that_dies_changes_nothing(spark: Any, path: Path, tmp_path: Path) -> None:
    expected, marks = alone(path, rows()), tmp_path / "marks"
    marks.mkdir()
    source = dying(frame(spark, partitions=3), marks, times=4)
    found = release(path, source, out=tmp_path / "out")
    assert len(list(marks.iterdir())) == 4
    assert answers(found.value) == expected and charges(path) == 1
    assert verify(str(tmp_path / "out")).holds


@pytest.mark.guarantee("labeldp.spark:release", "whole")
def test_a_written_release_has_its_certificate_beside_it_and_in_its_table(
    spark: Any, path: Path, tmp_path: Path
) -> None:
    source = frame(spark, partitions=3)
    first = release(path, source, out=tmp_path / "one", table="noisy_people")
    assert LAZY not in first.certificate.assumptions and grants.SECRECY in first.certificate.assumptions
    verdict = verify(str(tmp_path / "one"))
    assert verdict.holds and verdict.certificate == first.certificate
    [text] = [row.value for row in spark.sql("SHOW TBLPROPERTIES noisy_people").collect() if row.key == PROPERTY]
    assert ldp.Certificate.from_json(json.loads(text)) == first.certificate
    assert answers(spark.table("noisy_people")) == answers(first.value)
    metadata = first.value.schema["bought"].metadata
    assert ldp.Certificate.from_json(json.loads(metadata[PROPERTY])) == first.certificate
    again = release(path, source, out=tmp_path / "two")
    assert answers(again.value) == answers(first.value) and charges(path) == 1
    for more, message in (
        ({"out": tmp_path / "one"}, "exists already"),
        ({"out": tmp_path / "three", "table": "noisy_people"}, "there is a table 'noisy_people' already"),
        ({"table": "other"}, "table goes with out"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=message):
            release(path, source, **more)
    assert sorted(os.listdir(tmp_path)) == ["ledger.db", "one", "two"]


def shifting(spark: Any, marks: Path, after: int, change: str) -> Any:
    """A source that changes after so many evaluations of its one part: a label, or who is in it."""
    marks.mkdir()

    def shift(batch: pa.RecordBatch) -> pa.RecordBatch:
        time = len(list(marks.iterdir()))
        (marks / str(time)).touch()
        if time < after:
            return batch
        if change == "row":
            return batch.slice(1)
        labels = batch.column("bought").to_pylist()
        labels[7] = {"yes": "no", "no": "yes"}[labels[7]] if change == "label" else "54321"
        return batch.set_column(1, "bought", pa.array(labels))

    return through(frame(spark, partitions=1), shift)


@pytest.mark.guarantee("labeldp.spark:release", "whole")
def test_labels_that_change_meanwhile_are_not_published(spark: Any, path: Path, tmp_path: Path) -> None:
    for number, change in enumerate(("label", "row", "foreign")):
        source = shifting(spark, tmp_path / f"marks{number}", 2, change)
        with pytest.raises(ldp.LabelDPError, match="changed while it was being released: nothing was published"):
            release(path, source, out=tmp_path / "out")
        assert not (tmp_path / "out").exists() and charges(path) == 1
    source = shifting(spark, tmp_path / "marks_of_ids", 1, "row")
    other = path.with_name("other.db")
    with pytest.raises(ldp.LabelDPError, match="changed while it was being checked: nothing was charged"):
        release(other, source)
    assert charges(other) == 0
    assert not list(tmp_path.glob(".*"))


def test_the_certificate_of_a_lazy_release_says_on_what_condition(spark: Any, path: Path, tmp_path: Path) -> None:
    found = release(path, shifting(spark, tmp_path / "marks", 2, "foreign"))
    assert LAZY in found.certificate.assumptions and LAZY in found.certificate.at(0)
    assert LAZY in found.value.schema["bought"].metadata[PROPERTY]
    with pytest.raises(Exception, match="these are not the labels that were charged") as refused:
        found.value.collect()
    assert "54321" not in str(refused.value)


def test_bad_input_charges_nothing(spark: Any, path: Path) -> None:
    def with_ids(ids: Any) -> Any:
        table = rows(len(ids)).set_column(0, "id", pa.array(ids, pa.int64()))
        return frame(spark, table, len(ids))

    whole, labels = frame(spark), rows().column("bought").to_pylist()
    labels[300] = "54321"
    wrong = frame(spark, rows().set_column(1, "bought", pa.array(labels)), 3)
    for source, more, message in (
        (with_ids([1, 2, 1]), {}, "must not be repeated"),
        (with_ids([1, None, 2]), {}, "has a missing id"),
        (whole.limit(0), {}, "at least one record"),
        (wrong, {}, "Some labels are missing or not among"),
        (whole, {"id": "nobody"}, "id: the data frame has no column 'nobody'"),
        (whole, {"id": "height"}, "must hold integers or texts"),
        (whole, {"mechanism": "rr"}, "mechanism must answer each record by itself"),
        (whole.withColumnRenamed("age", "bought"), {}, "the data frame has more than one column named 'bought'"),
        (rows(), {}, "dataframe must be a data frame of Spark"),
        (spark.readStream.format("rate").load(), {}, "dataframe must not be a stream"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=message) as refused:
            release(path, source, **more)
        assert "54321" not in str(refused.value)
    assert not LedgerFile(path).exists or charges(path) == 0


def test_no_key_and_no_label_stands_in_a_plan_a_log_or_an_event(
    spark: Any, logs: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant shows no key when it is printed; Spark logs at INFO here, and keeps all of its events."""
    held: list[grants.Grant] = []
    charged = grants.ask_grant

    def kept(*arguments: Any, **more: Any) -> grants.Grant:
        held.append(charged(*arguments, **more))
        return held[-1]

    monkeypatch.setattr(import_module("labeldp.spark.frames"), "ask_grant", kept)
    labels = np.where(np.arange(600) % 3, "class_54321", "class_65432")
    table = rows(texts=True).set_column(1, "bought", pa.array(labels))
    domain = ldp.Classes(("class_54321", "class_65432", "class_76543"))
    mechanism = ldp.RandomizedResponse(domain=domain, epsilon=1)
    found = release(path, frame(spark, table, 2), mechanism=mechanism)
    found.value.count()
    release(path, frame(spark, table, 2), mechanism=mechanism, out=tmp_path / "out")
    with pytest.raises(Exception, match="not the labels that were charged"):
        # A lazy release whose labels changed: what a worker says goes to the log.
        release(path, shifting_texts(spark, table, tmp_path / "marks"), mechanism=mechanism).value.collect()
    execution = found.value._jdf.queryExecution()
    plans = [execution.toString(), execution.logical().toJSON(), execution.executedPlan().toJSON(), repr(held[0])]
    plans += [execution.explainString(spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode))
              for mode in ("extended", "codegen", "cost", "formatted")]  # fmt: skip
    texts = {f"plan {number}": text.encode() for number, text in enumerate(plans)}
    texts |= {
        str(place): place.read_bytes() for place in logs.rglob("*") if place.is_file() and "warehouse" not in str(place)
    }
    assert any("events" in name and b"labeldp_release" in text for name, text in texts.items())
    assert any("spark.log" in name and b"labels that were charged" in text for name, text in texts.items())
    dataset = LedgerFile(path).dataset("people")
    secrets = [dataset._secret, dataset.digest_key, dataset.ids_key, dataset.randomness._key]
    secrets += [key for grant in held for key in (grant.release_key, grant.check_key, bytes.fromhex(grant.check[:32]))]
    for secret in secrets:
        forms = {secret, secret.hex().encode(), secret.hex().upper().encode(), repr(secret)[2:-1].encode()}
        forms |= {base64.b64encode(secret[shift:])[:20] for shift in range(3)}
        forms |= {str([each - 256 if each > 127 else each for each in secret[:8]])[1:-1].encode()}
        assert [name for name, text in texts.items() if any(form in text for form in forms)] == []
    # The declared classes are public and stand in the certificate; which record has which stands nowhere.
    shown = [name for name, text in texts.items() if b"p1," in text or b"'p1'" in text or b'"p1"' in text]
    assert shown == []


def shifting_texts(spark: Any, table: pa.Table, marks: Path) -> Any:
    """A source whose third evaluation has a label that is in no domain."""
    marks.mkdir()

    def shift(batch: pa.RecordBatch) -> pa.RecordBatch:
        time = len(list(marks.iterdir()))
        (marks / str(time)).touch()
        return batch if time < 2 else batch.set_column(1, "bought", pa.array(["class_98765"] * batch.num_rows))

    return through(frame(spark, table, 1), shift)


def test_the_command_line_releases_what_spark_reads(spark: Any, people: Path, labeldp: Callable[..., Any]) -> None:
    frame(spark, rows(), 3).write.parquet((people / "orders").as_uri())
    orders = ["release", str(people / "orders"), "--label", "bought", "--classes", "no,yes", "--epsilon", "1"]
    asked = [*orders, "--ledger", "l.db", "--dataset", "bought", "--new-budget", "1"]
    done = labeldp(*asked, "--id", "id", "--engine", "spark", "--master", "local[2]", "--out", "noisy")
    assert done.status == 0, done.err
    assert "Released: noisy" in done.out
    assert verify(str(people / "noisy")).holds
    alone = labeldp(*asked, "--id", "id", "--out", "alone")
    assert alone.status == 0, alone.err
    noisy = [
        parquet.read_table([people / folder / name for name in open_table(people / folder).names]).sort_by("id")
        for folder in ("noisy", "alone")
    ]
    assert noisy[0].to_pydict() == noisy[1].to_pydict()
    assert len(LedgerFile(people / "l.db").dataset("bought").charges) == 1
    engine = ["--engine", "spark", "--out"]
    for more, message in (
        (["--id", "id", *engine, "noisy"], "exists already"),
        (["--id", "id", "--master", "local[2]", "--out", "more"], "--master is for --engine spark"),
        (["--id", "id", "--mechanism", "bag-sum", "--size", "9", *engine, "more"], "labeldp.spark.bag_sum has sums"),
        ([*engine, "more"], "--id must be given"),
        (["--id", "nobody", *engine, "more"], "--id: the data frame has no column 'nobody'"),
    ):
        done = labeldp(*asked, *more)
        assert done.status and message in " ".join(done.err.split()), done.err
    done = labeldp("release", "nothing", *asked[2:], "--id", "id", *engine, "more")
    assert done.status and "Spark cannot read nothing" in done.err and not (people / "more").exists()
