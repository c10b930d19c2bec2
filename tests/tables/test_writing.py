"""Released columns with their certificates."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables import ColumnDigest, column_digest, is_as_certified, open_table, read_certificate, release_writer
from labeldp.tables import atomic as whole

Disk = Callable[[int], AbstractContextManager[None]]

NAMES = ["r.parquet", "r.csv", "r.csv.gz"]

CERTIFICATE = {"epsilon": "1", "sentence": "ε = 1"}

SECRET = "hiv-positive"


def release(path: Path, blocks: Sequence[pa.RecordBatch], noisy: Sequence[Any]) -> str:
    """Write every block with its noisy labels in the place of 'y'; the digest."""
    with release_writer(path, blocks[0].schema.names, released="y") as writer:
        for block, values in zip(blocks, noisy, strict=True):
            writer.write(values, block)
        writer.certify(CERTIFICATE)
        return writer.digest


def example_blocks() -> list[pa.RecordBatch]:
    rows = [("a", "x,1", SECRET), (None, 'q"', "none"), ("", "two\nlines", SECRET)]
    return pa.Table.from_pylist([dict(zip("tuy", row, strict=True)) for row in rows]).to_batches(max_chunksize=2)


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_table_with_the_noisy_label_in_place(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    digest = release(path, example_blocks(), [np.array(["no", "yes"]), np.array(["no"])])
    assert open_table(path).read().to_pydict() == {
        "t": ["a", None, ""],
        "u": ["x,1", 'q"', "two\nlines"],
        "y": ["no", "yes", "no"],
    }
    document = read_certificate(path)
    assert document["certificate"] == CERTIFICATE
    assert (document["column"], document["rows"], document["digest"]) == ("y", 3, digest)
    assert digest == column_digest([["no", "yes"], ["no"]])
    assert is_as_certified(path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noisy", [np.array([3, 1], np.uint8), np.array([0.1, -0.0]), np.array([2**40, 1])])
def test_a_sidecar_of_codes_or_grid_points(tmp_path: Path, name: str, noisy: Any) -> None:
    path = tmp_path / name
    block = pa.record_batch({"id": [7, 8], "y": [0, 0]})
    with release_writer(path, ("id", "y"), released="y") as writer:
        writer.write(noisy, block)
        writer.certify(CERTIFICATE)
    assert open_table(path).columns == ("id", "y") and is_as_certified(path)
    with release_writer(tmp_path / f"alone-{name}", ("y",), released="y") as writer:
        writer.write(noisy)
        writer.certify(CERTIFICATE)
    assert read_certificate(path)["digest"] == read_certificate(tmp_path / f"alone-{name}")["digest"]


def private_source(path: Path) -> None:
    """A Parquet file that names its private labels wherever such a file can."""
    frame = pd.DataFrame({"x": [1, 2, 3], "y": pd.Categorical([SECRET, "none", SECRET])})
    table = pa.Table.from_pandas(frame)
    fields = [field.with_metadata({"seen": SECRET}) for field in table.schema]
    metadata = {**table.schema.metadata, b"comment": SECRET.encode()}
    parquet.write_table(table.cast(pa.schema(fields, metadata)), path, write_page_index=True)


@pytest.mark.parametrize("name", ["r.parquet", "r.csv"])
def test_the_private_label_survives_nowhere(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source.parquet"
    private_source(source)
    assert source.read_bytes().count(SECRET.encode()) >= 3
    table = open_table(source)
    release(tmp_path / name, list(table.blocks()), [pa.array(["none", "none", "none"])])
    for path in tmp_path.glob("r.*"):
        assert SECRET.encode() not in path.read_bytes()
        assert b"pandas" not in path.read_bytes() and b"comment" not in path.read_bytes()
    if name.endswith("parquet"):
        metadata = parquet.read_metadata(tmp_path / name)
        assert set(metadata.metadata) == {b"labeldp.certificate", b"ARROW:schema"}
        assert open_table(tmp_path / name).schema.metadata is None


@pytest.mark.guarantee("labeldp.tables:release_writer", "whole")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_nothing_stands(tmp_path: Path, name: str, error: type[BaseException]) -> None:
    with pytest.raises(error), release_writer(tmp_path / name, ("y",), released="y") as writer:
        writer.write([1, 2])
        writer.certify(CERTIFICATE)
        raise error
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_output_needs_rows_and_a_certificate(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(LabelDPError, match="needs rows and a certificate"),
        release_writer(tmp_path / name, "y", released="y") as writer,
    ):
        writer.write([1, 2])
    with (
        pytest.raises(LabelDPError, match="needs rows and a certificate"),
        release_writer(tmp_path / name, "y", released="y") as writer,
    ):
        writer.certify(CERTIFICATE)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_no_output(tmp_path: Path, name: str, small_disk: Disk) -> None:
    noise = np.random.default_rng(1).integers(0, 2**60, 1 << 18)
    with pytest.raises(LabelDPError, match="the disk is full"), small_disk(1 << 20):  # noqa: SIM117
        with release_writer(tmp_path / name, ("y",), released="y") as writer:
            writer.write(noise)
            writer.certify(CERTIFICATE)
    assert os.listdir(tmp_path) == []


def test_the_certificate_of_a_csv_file_appears_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    link = os.link

    def spy(source: Path, target: Path, **how: Any) -> Any:
        if target.name[0] != ".":
            seen.append((target.name, sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".")))
        return link(source, target, **how)

    monkeypatch.setattr(os, "link", spy)
    release(tmp_path / "r.csv", example_blocks(), [["a", "b"], ["c"]])
    assert seen == [("r.csv.certificate.json", []), ("r.csv", ["r.csv.certificate.json"])]
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "r.csv.certificate.json"]


@pytest.mark.parametrize("name", NAMES)
def test_an_existing_output_is_not_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    release(path, example_blocks(), [["a", "b"], ["c"]])
    before = {entry: entry.read_bytes() for entry in tmp_path.iterdir()}
    with pytest.raises(InputError, match=rf"{name} exists already"):
        release(path, example_blocks(), [["c", "b"], ["a"]])
    assert {entry: entry.read_bytes() for entry in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_names_the_output(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"{name} cannot be written: there is no directory .*no$"):
        release(tmp_path / "no" / name, example_blocks(), [["a", "b"], ["c"]])


def test_a_certificate_without_its_file_is_not_replaced(tmp_path: Path) -> None:
    path, beside = tmp_path / "r.csv", tmp_path / "r.csv.certificate.json"
    beside.write_text("of a file that was moved")
    with pytest.raises(InputError, match="json exists already, from a moved file or a killed run"):
        release(path, example_blocks(), [["c", "b"], ["a"]])
    assert beside.read_text() == "of a file that was moved" and os.listdir(tmp_path) == [beside.name]


def test_a_certificate_goes_where_its_file_does_not_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appear = whole._appear

    def interrupted(hidden: Path, target: Path, overwrite: bool) -> None:
        if target.name == "r.csv":
            raise KeyboardInterrupt
        appear(hidden, target, overwrite)

    monkeypatch.setattr(whole, "_appear", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release(tmp_path / "r.csv", example_blocks(), [["c", "b"], ["a"]])
    assert os.listdir(tmp_path) == []


def test_bad_writes_are_refused(tmp_path: Path) -> None:
    block = pa.record_batch({"id": [1, 2]})
    for columns, released, message in (
        (("id",), "y", "with the released column among them"),
        (("y", "y"), "y", "different names"),
    ):
        with pytest.raises(InputError, match=message), release_writer(tmp_path / "r.csv", columns, released=released):
            pytest.fail("the body must not run")
    for name in ("r.xlsx", "r", "r.gz", "r.csv.zip"):
        with pytest.raises(InputError, match="must end in"), release_writer(tmp_path / name, ("y",), released="y"):
            pytest.fail("the body must not run")
    for values, batch, message in (
        ([1], block, "one value for each row"),
        ([1, None], block, "missing values"),
        ([1, 2], None, "batch must have the column 'id'"),
        ([1, 2], pa.record_batch({"di": [1, 2]}), "batch must have the column 'id'"),
    ):
        with (
            pytest.raises(InputError, match=message),
            release_writer(tmp_path / "r.csv", ("id", "y"), released="y") as w,
        ):
            w.write(values, batch)
    with (
        pytest.raises(InputError, match="same column types"),
        release_writer(tmp_path / "r.csv", "y", released="y") as w,
    ):
        w.write([1])
        w.write(["a"])
    lists = pa.record_batch({"id": [[1], [2]]})
    with (
        pytest.raises(InputError, match="column 'id' holds list"),
        release_writer(tmp_path / "r.csv", ("id", "y"), released="y") as w,
    ):
        w.write([1, 2], lists)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_is_noticed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    release(path, example_blocks(), [["no", "yes"], ["no"]])
    table = open_table(path).read()
    document = json.dumps(read_certificate(path))

    def edited(changed: pa.Table) -> bool:
        if name.endswith("parquet"):
            parquet.write_table(changed.replace_schema_metadata({"labeldp.certificate": document}), path)
        else:
            with pa.output_stream(str(path), compression="gzip" if name.endswith("gz") else None) as stream:
                csv.write_csv(changed, stream)
        return is_as_certified(path)

    assert edited(table) == edited(table.set_column(0, "t", pa.array(["other"] * 3))) == name.endswith("parquet")
    assert not edited(table.set_column(2, "y", pa.array(["no", "no", "yes"])))
    assert not edited(table.slice(1))
    assert not edited(table.rename_columns(["t", "u", "z"]))


def test_bad_certificates_are_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain.parquet"
    parquet.write_table(pa.table({"y": [1]}), plain)
    with pytest.raises(InputError, match="holds no certificate of labeldp"):
        read_certificate(plain)
    (tmp_path / "r.csv").write_text("y\n1\n")
    with pytest.raises(InputError, match=r"has no certificate: .*r\.csv\.certificate\.json cannot be read"):
        read_certificate(tmp_path / "r.csv")
    good = {"format": 1, "column": "y", "rows": 1, "digest": "", "certificate": {}}
    for content, message in (
        (b"\xff", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{}", "cannot be read"),
        (json.dumps({**good, "rows": "1"}).encode(), "cannot be read"),
        (json.dumps({**good, "format": 2}).encode(), "another version"),
    ):
        (tmp_path / "r.csv.certificate.json").write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_certificate(tmp_path / "r.csv")
    with pytest.raises(InputError, match="no such file"):
        is_as_certified(tmp_path / "none.csv")


texts = st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=3), max_size=12)


@given(values=texts, cut=st.integers(0, 12))
def test_digests_do_not_depend_on_blocks(values: list[str | None], cut: int) -> None:
    array = pa.array(values, pa.string())
    blocks = [array.slice(0, cut), array.slice(cut)]
    whole = column_digest([array])
    assert column_digest(blocks) == column_digest([block.dictionary_encode() for block in blocks]) == whole


@given(first=texts, second=texts)
def test_different_columns_have_different_digests(first: list[str | None], second: list[str | None]) -> None:
    arrays = [pa.array(values, pa.string()) for values in (first, second)]
    assert (column_digest(arrays[:1]) == column_digest(arrays[1:])) == (first == second)


def test_a_digest_by_hand() -> None:
    digest = ColumnDigest()
    digest.add(np.array(["no", "yes"]))
    assert digest.rows == 2
    # sha256(sha256(02 00 00 00 03 00 00 00) + sha256("noyes"))
    assert digest.value() == "47460901a43ad53c665eb718ade94530eb523d077d17235ad668eda701897033"


def chopped(table: pa.Table, rows: int) -> pa.Table:
    """The same table in batches of so many rows, each with a dictionary of its own."""
    kinds = {field.name for field in table.schema if pa.types.is_dictionary(field.type)}
    batches = []
    for batch in table.to_batches(max_chunksize=rows):
        columns = [
            column.cast(pa.string()).dictionary_encode() if name in kinds else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("output", ["r.parquet", "r.arrow", "r.csv"])
@pytest.mark.parametrize("source", ["memory", "t.parquet", "t.arrow", "t.csv"])
def test_no_byte_of_an_output_depends_on_the_blocks_of_its_source(
    tmp_path: Path, source: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands under missing values, in a dictionary or behind the last row of a block is not of the source."""
    rng, rows = np.random.default_rng(0), 601

    def holed(values: list[Any]) -> list[Any]:
        return [None if missing else value for value, missing in zip(values, rng.random(rows) < 0.2, strict=True)]

    table = pa.table(
        {
            "id": np.arange(rows),
            "flag": holed([bool(value) for value in rng.random(rows) < 0.5]),
            "number": holed(list(rng.random(rows))),
            "text": holed(["x" * length for length in rng.integers(0, 9, rows)]),
            "kind": pa.array(holed([f"kind {kind}" for kind in rng.integers(0, 5, rows)])).dictionary_encode(),
            "y": ["no"] * rows,
        }
    )
    if "csv" not in source + output:
        table = table.append_column("list", pa.array(holed([[1] * size for size in rng.integers(0, 3, rows)])))
        if int(pa.__version__.partition(".")[0]) >= 25:  # before, pyarrow crashes on parts of such a column
            table = table.append_column("view", table["text"].cast(pa.string_view()))
    written = set()
    for number, size in enumerate((601, 200, 37, 8)):
        cut, path = chopped(table, size), tmp_path / source
        if source == "t.parquet":
            parquet.write_table(cut, path, row_group_size=size)
        elif source == "t.arrow":
            with pa.ipc.new_file(path, cut.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True)) as file:
                file.write_table(cut)
        elif source == "t.csv":
            monkeypatch.setattr("labeldp.tables.files.BLOCK_BYTES", size * 20)
            csv.write_csv(cut.set_column(4, "kind", cut["kind"].cast(pa.string())), path)
        opened = open_table(cut if source == "memory" else path)
        out = tmp_path / f"{number}-{output}"
        with release_writer(out, opened.columns, released="y", ids="id") as writer:
            for block in opened.blocks(block_rows=200):
                writer.write(["yes"] * block.num_rows, block)
            writer.certify(CERTIFICATE)
        written.add(out.read_bytes())
    assert len(written) == 1
    if output == "r.parquet":
        groups = parquet.ParquetFile(out).metadata
        assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [200, 200, 200, 1]
