"""Every kind of data is one table: read, released, changed meanwhile, damaged."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.releases import release_file
from labeldp.tables import FORMATS, Table, as_text, open_table
from labeldp.tables.formats import format_of
from tables.examples import EXAMPLES, ROWS, SECRET, Example, people

DOMAIN = ldp.Classes(("none", SECRET))


@pytest.fixture(params=EXAMPLES.values(), ids=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    kind: Example = request.param
    if kind is EXAMPLES["polars"]:
        pytest.importorskip("polars")
    return kind


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def texts(blocks: Iterator[pa.RecordBatch]) -> list[list[str]]:
    """The cells of some blocks by column, as texts: CSV has no other."""
    table = pa.Table.from_batches(list(blocks)).combine_chunks()
    return [as_text(column.combine_chunks(), "").to_pylist() for column in table.columns]


def release(data: Any, folder: Path, name: str, **options: Any) -> dict[str, str]:
    """The noisy label of each id, as texts."""
    release_file(
        data, label="diagnosis", domain=DOMAIN, epsilon=1, ledger=folder / "l.ledger", dataset="d", id_column="id",
        out=folder / name, **options,
    )  # fmt: skip
    table = open_table(folder / name).read()
    return dict(zip(*texts(iter(table.select(["id", "diagnosis"]).combine_chunks().to_batches())), strict=True))


def test_every_format_has_an_example_and_an_opener() -> None:
    assert {example.format for example in EXAMPLES.values()} | {"spark"} == set(FORMATS)
    for kind in FORMATS.values():
        assert kind.help and callable(kind.load())


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_it_is_read_as_often_as_it_is_asked(example: Example, source: Path, block_rows: int) -> None:
    data = example.store(people(), source)
    table = open_table(data)
    assert isinstance(table, Table) and open_table(table) is table
    assert format_of(data) is FORMATS[example.format] and table.columns == ("id", "diagnosis", "age")
    assert table.rows in (None, ROWS) and table.index == ()
    for _ in range(2):
        blocks = list(table.blocks(["age", "id"], block_rows=block_rows))
        assert max(block.num_rows for block in blocks) <= block_rows
        assert texts(iter(blocks)) == [[str(n) for n in range(ROWS)], [str(7 * n) for n in range(ROWS)]]
    assert table.read(["age"]).schema == table.types(["age"]) and table.read().num_rows == ROWS
    [rows] = table.run(lambda batches: sum(batch.num_rows for batch in batches).to_bytes(4, "big"), ["id"])
    assert int.from_bytes(rows, "big") == ROWS and table.is_unchanged()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda table: table.require("diagnosys", "label"),
            "label: .* no column 'diagnosys'; did you mean 'diagnosis'",
        ),
        (lambda table: table.blocks(["id", "id"]), "different column names"),
        (lambda table: table.read([]), "different column names"),
        (lambda table: table.blocks(block_rows=0), "block_rows must be at least 1"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    example: Example, source: Path, ask: Callable[[Table], Any], message: str
) -> None:
    table = open_table(example.store(people(), source))
    with pytest.raises(ldp.privacy.InputError, match=message) as refused:
        ask(table)
    assert SECRET not in str(refused.value)


def test_its_release_is_that_of_the_same_records_elsewhere(example: Example, source: Path, tmp_path: Path) -> None:
    """In place, too, in any order, under one charge."""
    alone = release(people().take(list(reversed(range(ROWS)))), tmp_path, "alone.parquet")
    data = example.store(people(), source)
    out = "out" if example.format == "folder" else "out.parquet"
    assert release(data, tmp_path, out) == alone
    assert release(data, tmp_path, f"whole-{out}", in_place=True) == alone
    whole = open_table(tmp_path / f"whole-{out}")
    assert whole.columns == ("id", "diagnosis", "age")
    assert texts(whole.blocks(["age"])) == [[str(n) for n in range(ROWS)]]
    assert len(LedgerFile(tmp_path / "l.ledger").dataset("d").charges) == 1


def test_what_changes_meanwhile_is_not_released(example: Example, source: Path, tmp_path: Path) -> None:
    if example.file is None:
        pytest.skip("nothing is a file")
    file = source / example.file
    data = example.store(people(), source)
    table, content = open_table(data), file.read_bytes()

    def change(batches: Any) -> bytes:
        file.write_bytes(content + b" ") if list(batches) else None
        return b""

    with pytest.raises(ldp.LabelDPError, match="changed while it was being read"):
        table.run(change, ["id"])
    assert not table.is_unchanged()
    file.write_bytes(content)
    out = "never" if example.format == "folder" else "never.parquet"
    with pytest.raises(ldp.LabelDPError, match="changed while it was being checked: nothing was charged"):
        release(data, tmp_path, out, progress=lambda done, share: os.utime(file, ns=(1, 1)))
    assert not list(tmp_path.glob("never*")) and not LedgerFile(tmp_path / "l.ledger").dataset("d").charges


def test_damaged_bytes_are_read_or_refused_by_one_sentence(example: Example, source: Path) -> None:
    if example.file is None:
        pytest.skip("nothing is a file")
    data = example.store(people(), source)
    file = source / example.file
    content, rng = file.read_bytes(), random.Random(example.file)
    for number in range(40):
        damaged = bytearray(content)
        if number % 2:
            damaged = damaged[: rng.randrange(len(damaged))]
        for _ in range(rng.randrange(1, 9)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        file.write_bytes(damaged)
        try:
            open_table(data).read()
        except ldp.privacy.InputError as error:
            assert SECRET not in str(error) and error.__cause__ is None and error.__context__ is None


def test_a_table_with_a_name_twice_or_without_rows_is_refused(example: Example, source: Path) -> None:
    if example.format not in ("parquet", "arrow", "stream") or example is EXAMPLES["polars"]:
        pytest.skip("cannot hold it, or says so itself")
    with pytest.raises(ldp.privacy.InputError, match="has columns but no rows"):
        open_table(example.store(people().slice(0, 0), source))


def test_an_object_that_is_no_table_is_refused() -> None:
    for data in ([1, 2], None, 3):
        with pytest.raises(ldp.privacy.InputError, match="data must be a path, or a table that gives an Arrow stream"):
            open_table(data)


def test_a_table_without_an_order_is_run_in_parts_only(tmp_path: Path) -> None:
    table = Table(tmp_path / "engine", people().schema)
    with pytest.raises(ldp.privacy.InputError, match=r"the rows of .*engine have no order; write them to files first"):
        table.blocks(["id"])
