"""Tables in: every format, and every refusal."""

import bz2
import csv
import gzip
import io
import itertools
import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from labeldp.privacy import InputError, UnreadableRows
from labeldp.tables import (
    DistinctIds,
    column_digest,
    is_as_certified,
    open_table,
    record_ids,
    release_writer,
)
from labeldp.tables.files import RowCutter
from labeldp.tables.table import block_rows_of
from labeldp.tables.values import distinct_labels
from labeldp.tables.writing import csv_lines

SECRET = "hiv-positive"

TEXT = f"id,age,diagnosis\n007,31,{SECRET}\n8,1e3,none\n9,old,none\n"


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: Path) -> str:
    """What the one error says when `path` is opened and read, with nothing private on it or behind it."""
    with pytest.raises(InputError) as caught:
        open_table(path).read()
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.bz2", "t.csv.zst", "t.csv.lz4", "t.data"])
def test_csv_is_read_as_the_text_that_it_holds(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(TEXT.encode())
    table = open_table(path)
    assert (table.columns, table.rows) == (("id", "age", "diagnosis"), None)
    assert table.read(["id", "age"]).to_pydict() == {"id": ["007", "8", "9"], "age": ["31", "1e3", "old"]}


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    source = pa.table({"id": [1, 2, 3], "color": pa.array(["red", None, "red"]).dictionary_encode(), "a.b": [0.5] * 3})
    parquet.write_table(source.replace_schema_metadata({"note": "x"}), path)
    table = open_table(path)
    assert (table.columns, table.rows) == (("id", "color", "a.b"), 3)
    assert table.read().equals(source) and table.read().schema.metadata is None
    assert [batch.num_rows for batch in table.blocks(["a.b"], block_rows=2)] == [2, 1]


@pytest.mark.parametrize("delimiter", list(",\t;|"))
def test_the_delimiter_is_found_in_the_header(tmp_path: Path, delimiter: str) -> None:
    table = open_table(written(tmp_path / "t.csv", TEXT.replace(",", delimiter)))
    assert table.columns == ("id", "age", "diagnosis")


HEADERS: list[tuple[str, str, list[str]]] = [
    (";", 'id;"weight, in kg, net"', ["id", "weight, in kg, net"]),
    (";", '"a,b";"c,d"', ["a,b", "c,d"]),
    (",", '"a;b;c",d', ["a;b;c", "d"]),
    ("\t", 'id\t"x,y,z"', ["id", "x,y,z"]),
    ("|", '"x,y,z"|w', ["x,y,z", "w"]),
    (";", '"two\nlines,";b', ["two\nlines,", "b"]),
    (";", '"two\r\nli,ne,s";b', ["two\r\nli,ne,s", "b"]),
    (",", '"a""b;c",d', ['a"b;c', "d"]),
    (";", "sep=;\na;b", ["a", "b"]),
    ("\t", "\ufeffsep=\t\r\na\tb,c", ["a", "b,c"]),
    (",", 'SEP=,\n"a;b;c",d', ["a;b;c", "d"]),
    (";", "\ufeffid;y", ["id", "y"]),
    (";", '\ufeff"id";"x,1"', ["id", "x,1"]),
    (";", "\n\r\n\na;b", ["a", "b"]),
    ("\t", "\tid", ["", "id"]),
    (",", "id, y", ["id", " y"]),
    (",", "y y", ["y y"]),
    (",", "id,", ["id", ""]),
    (";", 'é;"ü,ö"', ["é", "ü,ö"]),
]
"""Delimiters, headers, and the names in them."""


@pytest.mark.parametrize(("delimiter", "header", "names"), HEADERS)
def test_a_header_is_divided_outside_of_its_quotes(
    tmp_path: Path, delimiter: str, header: str, names: list[str]
) -> None:
    table = open_table(written(tmp_path / "t.csv", f"{header}\n{delimiter.join('1' for _ in names)}\n"))
    assert list(table.columns) == names and table.read().to_pydict() == {name: ["1"] for name in names}


@given(st.lists(st.text(st.sampled_from('ab,;|\t"\n '), min_size=1, max_size=6), min_size=2, max_size=4, unique=True))
def test_a_header_of_a_standard_writer_is_read(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    for delimiter in ",;\t|":
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([names, ["1"] * len(names)])
        path = tmp_path_factory.mktemp("header") / "t.csv"
        assert list(open_table(written(path, text.getvalue())).columns) == names


def test_the_delimiter_does_not_depend_on_private_rows(tmp_path: Path) -> None:
    for cell in ("a", '"x;y;z"', '"x;""y;z"', "x|y|z"):
        assert open_table(written(tmp_path / "t.csv", f"id,y\n1,{cell}\n")).columns == ("id", "y")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b,c\n1;2,3\n", "two delimiters could divide"),
        ("sep=#\na#b\n1#2\n", "a line sep= that must name"),
        ("sep=\na,b\n1,2\n", "a line sep= that must name"),
        ("sep=;\n", "no other row"),
        ("sep=;\na;b\n", "no other row"),
        ("a,b,,\n1,2,,\n", "its header end in delimiters"),
        ("a;b\n1;2\n".encode("utf-16"), "in UTF-16"),
        ("a;b\n1;2\n".encode("utf-16").replace(b"\xff\xfe", b"\xfe\xff"), "in UTF-16"),
        ("a;b\n1;2\n".encode("utf-16-le"), "CSV in UTF-8"),
        ('"a;b\n1;2\n', "a quote is not closed"),
    ],
)
def test_a_header_that_cannot_be_divided_is_refused(tmp_path: Path, text: str | bytes, words: str) -> None:
    assert words in refusal(written(tmp_path / "t.csv", text))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.arrow"])
def test_a_name_that_is_not_utf_8_is_read_and_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"b\udcff{name}"
    with release_writer(path, ["id", "y"], released="y") as writer:
        writer.write(pa.array(["no", "yes"]), pa.record_batch({"id": ["1", "2"]}))
        writer.certify({})
    assert open_table(path).read().to_pydict() == {"id": ["1", "2"], "y": ["no", "yes"]}
    assert is_as_certified(path)


def test_a_part_of_a_folder_must_have_a_name_in_utf_8(tmp_path: Path) -> None:
    written(tmp_path / "b\udcff.csv", TEXT)
    assert "must have a name in UTF-8" in refusal(tmp_path)


def test_a_later_block_may_change_its_mind_about_types(tmp_path: Path) -> None:
    lines = ["a,b"] + ["1,2"] * 2_000_000 + ["x,2.5"]
    table = open_table(written(tmp_path / "t.csv", "\n".join(lines)))
    last = None
    for batch in table.blocks():
        last = batch
    assert last is not None and last.to_pylist()[-1] == {"a": "x", "b": "2.5"}


def test_an_empty_cell_is_missing_and_a_quoted_one_is_empty(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "t.csv", '\ufeffa,b\n,""\n"x\ny",NA\n'))
    assert table.read().to_pylist() == [{"a": None, "b": ""}, {"a": "x\ny", "b": "NA"}]


cells = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_csv_written_is_csv_read(tmp_path: Path, rows: list[tuple[str | None, str | None]]) -> None:
    columns = [pa.array(column, pa.large_string()) for column in zip(*rows, strict=True)]
    path = written(tmp_path / "t.csv", b"first,second\n" + bytes(csv_lines(columns)))
    assert [tuple(row.values()) for row in open_table(path).read().to_pylist()] == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "\n\n", "is empty"),
        ("t.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("t.csv", "id,age\n", "has a header row but no other row"),
        ("t.csv", "id,age", "has a header row but no other row"),
        ("t.csv", "id,age,id\n1,2,3\n", "repeated column names"),
        ("t.csv", f"x,{SECRET},{SECRET}\n1,2,3\n", "does it have a header row?"),
        ("t.csv", f"1,1,{SECRET}\n1,2,{SECRET}\n", "does it have a header row?"),
        ("t.csv", bytes(range(256)) * 40, "is not a table"),
        ("t.csv", b"a,\xff\n1,2\n", "is not a table"),
        ("t.csv.gz", gzip.compress(TEXT.encode() * 99, mtime=0)[:-30], "is damaged or truncated"),
        ("t.csv.gz", gzip.compress(TEXT.encode() * 99, mtime=0)[:-4], "is damaged or truncated"),
        ("t.csv.gz", gzip.compress(TEXT.encode(), mtime=0)[:-8] + bytes(8), "is damaged or truncated"),
        ("t.csv.bz2", bz2.compress(TEXT.encode())[:-9], "is damaged or truncated"),
        ("t.parquet", TEXT, "is named as Parquet but is not"),
        ("t.parquet", b"PAR1" + b"x" * 99, "is a damaged or truncated Parquet file"),
        ("t.csv", b"ARROW1\0\0" + b"x" * 99, "is a damaged or truncated Arrow file"),
    ],
)
def test_bad_files_are_refused_with_one_clear_error(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    assert message in refusal(written(tmp_path / name, content))


UNREADABLE = {
    "a byte that is not UTF-8": b"\xff" + SECRET.encode(),
    "half a letter": "é".encode()[:1],
    "NUL": b"n\0o",
    "a cell more": f"{SECRET},".encode(),
    "a cell less": b"n\n8",
    "a bare carriage return": f"n\r{SECRET}".encode(),
    "an open quote": f'"{SECRET}'.encode(),
    "a quote that is closed by the next one": f'"{SECRET}\n8,"x'.encode(),
    "a long cell": b"x" * (1 << 20),
    "a long quoted cell": b'"' + b"x\n" * (1 << 19) + b'"',
}
"""Cells after which it is not known which cells the rows have."""


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("row", [0, 30, 59])
def test_rows_that_cannot_be_read_are_refused_in_one_way(tmp_path: Path, name: str, row: int) -> None:
    """Neither the message nor a block tells what it is, or where."""
    rows = [b"%d,no" % number for number in range(60)]
    rows[row] = b"%d," % row + UNREADABLE[name]
    table = open_table(written(tmp_path / "t.csv", b"id,y\n" + b"\n".join(rows) + b"\n"))
    for columns in (["id", "y"], ["y"], ["id"]):
        if "UTF-8" in name or "letter" in name:
            columns = ["y"]
        with pytest.raises(UnreadableRows) as caught:
            next(table.blocks(columns, block_rows=1))
        assert caught.value.__context__ is None and SECRET not in str(caught.value)
        assert str(caught.value) == (
            f"{table.path} has rows that cannot be read. In CSV each row has as many cells as the header and 1 MiB at "
            "most, in UTF-8 without NUL; each quote is closed, and doubled within a cell"
        )


def test_a_cell_is_too_long_wherever_it_stands(tmp_path: Path) -> None:
    """Where a piece of the file ends, of which labels are a part, does not decide."""
    row = b"2,%s\n" % (b"x" * ((1 << 20) - 3))
    for before in (b"", b"1,n\n", b"1,%s\n" % (b"n" * 900_000), b"1,n\n" * 200_000):
        path = written(tmp_path / "t.csv", b"a,b\n" + before + row)
        assert open_table(path).read(["b"])["b"].to_pylist()[-1] == row[2:-1].decode()
        written(path, b"a,b\n" + before + row.replace(b",", b",x"))
        with pytest.raises(UnreadableRows):
            open_table(path).read()


CELLS = ["a\rb", "a\nb", "a\r\nb", "\r\n", 'a"b', '""', '"', "a,b", "é€𝄞", "\ufeffa", "a\\", '\\"', "", "\r", "\n\r"]
"""Cells with each byte that means something to a reader."""


def seams(monkeypatch: pytest.MonkeyPatch, text: bytes) -> Iterator[int]:
    """Read a text in pieces of each size, so that each byte ends one and begins another."""
    for size in range(text.index(b"\n") + 2, len(text) + 2):
        monkeypatch.setattr("labeldp.tables.files.BLOCK_BYTES", size)
        yield size


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("all_quoted", [True, False])
def test_no_cell_changes_where_a_piece_of_the_file_ends(
    tmp_path: Path, end: str, all_quoted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[cell, str(number)] for number, cell in enumerate(CELLS)]
    body = io.StringIO(newline="")
    for cell, number in rows:
        quoted = '"' + cell.replace('"', '""') + '"'
        needs = all_quoted or any(mark in cell for mark in ',\r\n"')
        body.write(f"{quoted if needs else cell},{number}{end}")
    for mark in ("", "\ufeff"):
        text = f"{mark}text,id{end}{body.getvalue()}".encode()
        path = written(tmp_path / "t.csv", text)
        assert list(csv.reader(io.StringIO(text.decode("utf-8-sig"), newline="")))[1:] == rows
        for size in seams(monkeypatch, text.replace(b"\r", b"\n")):
            read = open_table(path).read().to_pylist()
            assert [[row["text"] or "", row["id"]] for row in read] == rows, size


def pieces_of(text: bytes, sizes: list[int]) -> tuple[list[bytes], bool]:
    """The rows of a text that is added by pieces of these sizes and the rest, and whether it is sound."""
    ends = np.cumsum([0, *sizes, len(text)]).tolist()
    rows = RowCutter(",")
    cut = list(rows.cut(piece for start, end in itertools.pairwise(ends) if (piece := text[start:end])))
    return cut, rows.sound


marks = st.lists(
    st.sampled_from(['"', ",", "\n", "\r", "\r\n", "x", '""', '\n"', '",', ',"', "\\", "\ufeff", "é"]), max_size=14
)


@settings(max_examples=300)
@given(parts=marks, sizes=st.lists(st.integers(1, 4), max_size=12))
def test_rows_are_cut_where_they_end_whatever_the_pieces_are(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts).encode()
    whole, sound = pieces_of(text, [])
    pieces, still = pieces_of(text, sizes)
    assert b"".join(pieces) == b"".join(whole) == text and sound == still
    if not sound:
        return
    rows = [row for row in csv.reader(io.StringIO(text.decode(), newline=""), strict=False) if row]
    by_piece = [list(csv.reader(io.StringIO(piece.decode(), newline=""), strict=False)) for piece in pieces]
    assert [row for piece in by_piece for row in piece if row] == rows


@given(rows=st.lists(st.lists(st.text(alphabet='",\nx', max_size=4), min_size=2, max_size=2), min_size=1, max_size=4))
def test_quotes_of_a_standard_writer_are_sound(rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    assert pieces_of(text.getvalue().encode(), [])[1]


def test_bad_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    assert "has columns but no rows" in refusal(path)
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    assert "more than one column named 'a'" in refusal(path)
    parquet.write_table(pa.table({"a": [SECRET * 9] * 999}), path, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    assert "damaged" in refusal(written(path, whole[:-20]))
    assert "damaged" in refusal(written(path, whole[:20] + b"\xff" * 60 + whole[80:]))


def test_bad_paths_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "t.csv")
    assert "holds no files" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refusal(tmp_path / "pipe")
    assert "cannot be read" in refusal(written(tmp_path / "t.csv", TEXT) / "below")


def test_a_wrong_column_name_is_refused_at_once(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "t.csv", TEXT))
    with pytest.raises(InputError, match=r"label: .* no column 'diagnosys'; did you mean 'diagnosis'\?$"):
        table.require("diagnosys", "label")
    with pytest.raises(InputError, match="different column names"):
        table.blocks(["id", "id"])
    with pytest.raises(InputError, match="different column names"):
        table.read([])
    with pytest.raises(InputError, match="block_rows must be at least 1"):
        table.blocks(block_rows=0)
    assert table.require("id", "id") == "id"


def test_a_parquet_file_lists_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"id": [1], "7": [31], "diagnosis": [SECRET]}), path)
    with pytest.raises(InputError, match=r"columns: .* no column 'zip'; it has 'id', '7', 'diagnosis'$"):
        open_table(path).blocks(["zip"])
    with pytest.raises(InputError, match=r"did you mean 'diagnosis'\? It has 'id', '7', 'diagnosis'$"):
        open_table(path).require("diagnosys", "label")
    parquet.write_table(pa.table({f"c{place}": [1] for place in range(40)}), path)
    with pytest.raises(InputError, match=r"'c11' and 28 more$"):
        open_table(path).require("label", "label")


@pytest.mark.parametrize("record", [f"007,31,{SECRET}", f"blue,{SECRET},smith"])
def test_the_first_row_of_a_file_without_header_stays_unsaid(tmp_path: Path, record: str) -> None:
    table = open_table(written(tmp_path / "t.csv", record + "\n" + record + "\n"))
    for ask in (lambda: table.require("diagnosis", "label"), lambda: table.blocks(["zip"])):
        with pytest.raises(InputError, match="does it have a header row") as caught:
            ask()
        said = str(caught.value).replace(str(tmp_path), "")  # The folder of a test run has numbers of its own.
        assert not any(cell in said for cell in record.split(","))


def test_a_header_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("größe,b\n0.1,0.2\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"is not a table: Parquet, or CSV in UTF-8 .* is needed"):
        open_table(path)


ROWS = 2_000_000

BLOCK = 1 << 16


class Memory:
    """The most that Arrow and Python (numpy with it) held at once since the beginning, in bytes."""

    def __init__(self) -> None:
        self._start = pa.total_allocated_bytes()
        self._arrow = 0

    def watch(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same blocks, with a look at what Arrow holds at each."""
        for block in blocks:
            yield block
            self.look()

    def look(self) -> None:
        self._arrow = max(self._arrow, pa.total_allocated_bytes() - self._start)

    def peak(self) -> int:
        return self._arrow + tracemalloc.get_traced_memory()[1]


@contextmanager
def memory_below(megabytes: int) -> Iterator[Memory]:
    """What the body holds at any time stays below a limit."""
    tracemalloc.start()
    try:
        memory = Memory()
        yield memory
        assert memory.peak() < megabytes << 20
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file in one row group whose columns take 48 MB in memory."""
    path = tmp_path_factory.mktemp("big") / "big.parquet"
    rng = np.random.default_rng(3)
    columns = {"id": np.arange(ROWS)[::-1], "x": rng.random(ROWS), "y": rng.integers(0, 10, ROWS)}
    parquet.write_table(pa.table(columns), path, row_group_size=ROWS, compression="none")
    return path


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_a_release_streams(big: Path, tmp_path: Path, name: str) -> None:
    table = open_table(big)
    with memory_below(24) as memory, release_writer(tmp_path / name, ("id", "y"), released="y") as writer:
        for batch in memory.watch(table.blocks(["id", "y"], block_rows=BLOCK)):
            texts, places = distinct_labels(batch, "y")
            writer.write(texts[::-1][places], batch)
        writer.certify({})
        digest = writer.digest
    assert writer.rows == ROWS == table.rows
    assert digest == column_digest(batch.column(0) for batch in open_table(tmp_path / name).blocks(["y"]))


def test_csv_streams(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    with path.open("wb") as file:
        file.write(b"id,y\n")
        for _ in range(150):
            file.write(b"1234567,yes\n" * 90_000)
    assert path.stat().st_size > 150 << 20
    with memory_below(75) as memory:  # the reader works some blocks ahead
        assert sum(batch.num_rows for batch in memory.watch(open_table(path).blocks())) == 150 * 90_000


def test_distinct_ids_stream(big: Path) -> None:
    with memory_below(24) as memory, DistinctIds(held=1 << 18) as seen:
        for batch in memory.watch(open_table(big).blocks(["id"], block_rows=BLOCK)):
            seen.add(record_ids(batch, "id"))


def test_the_measure_itself_would_notice(big: Path) -> None:
    with pytest.raises(AssertionError), memory_below(24) as memory:
        table = open_table(big).read()
        memory.look()
        assert table.num_rows == ROWS


def arrow_file(path: Path) -> Path:
    """A table of several record batches as an Arrow file."""
    with pa.OSFile(str(path), "wb") as file:
        table = pa.table({"n": pa.array(range(10)), "y": pa.array(["no", "yes"] * 5).dictionary_encode()})
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    return path


@pytest.mark.guarantee("labeldp.tables:Table.blocks", "cut_by_rows")
@pytest.mark.parametrize("form", ["t.csv", "t.csv.gz", "t.parquet", "t.arrow", "folder", "memory"])
def test_blocks_are_cut_by_rows_whatever_the_cells_are(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeldp.tables.files.BLOCK_BYTES", 1 << 12)
    for number, label in enumerate(("n", "a label of many letters" * 9)):
        rows = pa.table({"id": np.arange(500), "y": pa.array([label if row % 3 else "n" for row in range(500)])})
        ends = np.cumsum([len(text) for text in rows["y"].to_pylist()]) // 999  # as engines cut what they write
        pieces = [rows.take(pa.array(np.flatnonzero(ends == end))) for end in np.unique(ends)]
        path = tmp_path / f"{number}-{form}"
        if form.endswith("parquet"):
            with parquet.ParquetWriter(path, rows.schema) as file:
                for piece in pieces:
                    file.write_table(piece)
        elif form.endswith("arrow"):
            with pa.ipc.new_file(path, rows.schema) as file:
                for piece in pieces:
                    file.write_table(piece)
        elif form == "folder":
            path.mkdir()
            pyarrow.csv.write_csv(rows[:100], path / "a.csv")
            pyarrow.csv.write_csv(rows[100:], path / "b.csv")
        elif form != "memory":
            with pa.output_stream(path, compression="detect") as stream:
                pyarrow.csv.write_csv(rows, stream)
        table = open_table(pa.concat_tables(pieces) if form == "memory" else path)
        for encoded in (None, "y"):
            blocks = list(table.blocks(["y", "id"], block_rows=128, encoded=encoded))
            assert [block.num_rows for block in blocks] == [128, 128, 128, 116]
            labels = [text for block in blocks for text in block.column("y").to_pylist()]
            assert labels == rows["y"].to_pylist()


def test_wide_tables_have_blocks_of_fewer_rows() -> None:
    for columns, rows in ((1, 1 << 16), (16, 1 << 16), (100, 10_485), (1 << 21, 1)):
        assert block_rows_of(columns) == rows
    table = open_table(pa.table({f"x{number}": np.zeros(30_000) for number in range(100)}))
    assert [block.num_rows for block in table.blocks()] == [10_485, 10_485, 9_030]


def test_dictionaries_of_many_batches_become_one() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    pieces = [pa.array([f"{start + step}" for step in range(100)]).dictionary_encode() for start in (0, 100, 150)]
    table = open_table(pa.Table.from_batches([pa.record_batch({"x": piece.cast(kind)}) for piece in pieces]))
    values = [value for piece in pieces for value in piece.to_pylist()]
    assert table.read()["x"].to_pylist() == values


@pytest.mark.parametrize("block_rows", [1, 3, 100])
def test_arrow_files_and_tables_in_memory_come_by_blocks(tmp_path: Path, block_rows: int) -> None:
    polars, dataset = pytest.importorskip("polars"), pytest.importorskip("pyarrow.dataset")
    file = arrow_file(tmp_path / "t.arrow")
    whole = open_table(file).read()
    parquet.write_table(whole, tmp_path / "t.parquet")
    for source in (whole, polars.from_arrow(whole), whole.to_pandas(), dataset.dataset(tmp_path / "t.parquet"), None):
        table = open_table(file if source is None else source)
        assert table.columns == ("n", "y") and table.rows is None and not table.index
        for _ in range(2):
            blocks = list(table.blocks(["y", "n"], block_rows=block_rows))
            assert max(block.num_rows for block in blocks) <= block_rows
            found = pa.Table.from_batches(blocks)
            assert found.column_names == ["y", "n"] and found.column("n").to_pylist() == list(range(10))
            assert [str(value) for value in found.column("y").to_pylist()] == ["no", "yes"] * 5


def test_arrow_files_and_sources_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    file = arrow_file(tmp_path / "t.arrow")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match="is a damaged or truncated Arrow file"):
        open_table(file)
    file.write_text("n,y\n1,no\n")
    with pytest.raises(InputError, match="is named as Arrow but is not"):
        open_table(file)
    whole = pa.table({"n": [1]})
    with pytest.raises(InputError, match="the RecordBatchReader given as data can be read only once"):
        open_table(whole.to_reader())
    with pytest.raises(InputError, match="must be a path, or a table that gives an Arrow stream"):
        open_table([1, 2])
    with pytest.raises(InputError, match="has columns but no rows"):
        open_table(whole.slice(1))
    with pytest.raises(InputError, match="has more than one column named 'n'"):
        open_table(pa.table([[1], [2]], names=["n", "n"]))


@pytest.mark.parametrize(("name", "asked"), [("id", "ID"), ("BOUGHT", "bought"), ("Age", "age")])
def test_a_name_in_another_case_is_a_name_that_was_meant(tmp_path: Path, name: str, asked: str) -> None:
    (tmp_path / "t.csv").write_text(f"{name},other\n1,2\n")
    with pytest.raises(InputError, match=rf"no column '{asked}'; did you mean '{name}'\?$"):
        open_table(tmp_path / "t.csv").require(asked, "id")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.json", b"3", "a JSON file"),
        ("t.csv", b'[{"age": 3}]', "a JSON file"),
        ("t.csv", b'{"age": 3}\n{"age": 4}\n', "a JSON file"),
        ("t.csv", b"PK\x03\x04rest", "an Excel file"),
        (
            "t.npz",
            b"PK\x03\x04rest",
            "a NumPy archive of arrays, not a table",
        ),
        ("t.xls", b"\xd0\xcf\x11\xe0rest", "an old Excel file"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is {words}.*: save it as CSV or Parquet first$"):
        open_table(tmp_path / name)
