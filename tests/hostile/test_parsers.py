"""Whatever stands in a file, it is read, or refused in one sentence of labeldp's own; no code in it runs."""

import copy
import gzip
import json
import os
import pickle
import re
import shutil
import signal
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

import labeldp as ldp
from hostile.corpus import PARSERS, Parser, certified_again, digested_again, go_on, make, predict, put_back, use_ledger
from labeldp.curator import ledger_store
from labeldp.images import open_images
from labeldp.privacy import LabelDPError, validate
from labeldp.tables import open_table
from slow import mostly_slow

SOURCE = Path(ldp.__file__).parent
PAPERS = Path(__file__).parents[2] / "papers"
EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "4"))
"""Changed files for each kind of file and of change; `make hostile` tries 300."""

PATIENCE = 60
"""Seconds after which a parser hangs; each needs a few milliseconds."""

VALUES = st.sampled_from(
    [
        *(None, True, 0, -1, 1e308, float("nan"), 2**70, 10**400, [], {}, [1], {"a": 1}),
        *["", "x", "999999999999", "1/0", "-1", "1e999999999", "nan", "inf", "..", "/", "\x00"],
    ]
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "cut", "end"]), st.floats(0, 1), st.binary(min_size=1, max_size=9)),
    min_size=1, max_size=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    make(folder)
    return folder


@pytest.fixture
def fresh(good: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(good, tmp_path / "fresh"))


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A test that hangs fails."""

    def late(*_: Any) -> None:
        raise TimeoutError("a parser hangs")

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def edited(raw: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """Bytes with some of them changed."""
    found = bytearray(raw)
    for kind, share, new in edits:
        place = int(share * len(found))
        if kind == "set":
            found[place : place + len(new)] = new
        elif kind == "insert":
            found[place:place] = new
        elif kind == "cut":
            del found[place : place + 7 * len(new)]
        else:
            del found[place:]
    return bytes(found)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values within a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(path for key, each in inner for path in places(each, (*above, key)))]


def with_values(value: Any, changes: list[tuple[float, Any, bool]]) -> Any:
    """A JSON value in which some are others, or gone."""
    value = copy.deepcopy(value)
    for share, new, gone in changes:
        found = places(value)
        *above, last = found[min(int(share * len(found)), len(found) - 1)] or (None,)
        inner = value
        for key in above:
            inner = inner[key]
        if last is None:
            value = copy.deepcopy(new)
        elif gone:
            del inner[last]
        else:
            inner[last] = copy.deepcopy(new)
    return value


def judge(parser: Parser, good: Path, folder: Path, content: bytes) -> None:
    """Read a changed file in a copy of the folder: nothing comes out but what was read, or labeldp's own error."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder)
    (folder / parser.file).write_bytes(content)
    try:
        parser.after(folder)
    except (ValueError, KeyError):  # nothing is left of what holds the digests
        return
    signal.alarm(PATIENCE)
    try:
        parser.read(folder)
    except LabelDPError as error:
        assert str(error) and "Traceback" not in str(error)
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("kind", mostly_slow(PARSERS, list(PARSERS)[::4]))
def test_damaged_bytes_are_read_or_refused(good: Path, tmp_path: Path, kind: str) -> None:
    """Only errors of labeldp come out of a parser, and it ends."""
    parser = PARSERS[kind]
    raw = (good / parser.file).read_bytes()

    @settings(max_examples=EXAMPLES)
    @given(edits=EDITS)
    def check(edits: list[tuple[str, float, bytes]]) -> None:
        judge(parser, good, tmp_path / "changed", edited(raw, edits))

    check()


@pytest.mark.parametrize(
    "kind", mostly_slow(TEXTS := [name for name, parser in PARSERS.items() if parser.text], TEXTS[::4])
)
def test_other_values_are_read_or_refused(good: Path, tmp_path: Path, kind: str) -> None:
    """Only errors of labeldp come out of a parser, and it ends."""
    parser = PARSERS[kind]
    value = json.loads((good / parser.file).read_bytes())

    @settings(max_examples=EXAMPLES)
    @given(changes=st.lists(st.tuples(st.floats(0, 1), VALUES, st.booleans()), min_size=1, max_size=2))
    def check(changes: list[tuple[float, Any, bool]]) -> None:
        judge(parser, good, tmp_path / "changed", json.dumps(with_values(value, changes)).encode())

    check()
    judge(parser, good, tmp_path / "changed", b"[" * 200_000)


class Planted:
    """A value whose pickle runs code when it is loaded."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (_ran, ("",))


RAN: list[str] = []


def _ran(name: str) -> str:
    RAN.append(name)
    return name


def test_the_planted_pickle_runs_where_pickles_are_loaded() -> None:
    pickle.loads(pickle.dumps(Planted()))
    assert RAN.pop() == ""


@pytest.mark.parametrize("kind", PARSERS)
def test_no_planted_pickle_runs(good: Path, tmp_path: Path, kind: str) -> None:
    """No pickle and no code in any load path."""
    parser, code = PARSERS[kind], pickle.dumps(Planted())
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        for name in ("schema.json", "data.pkl", "images.npy", "labels.npy", "text.npy", "archive/data.pkl"):
            members.writestr(name, code)
    objects = BytesIO()
    np.save(objects, np.array([Planted()] * 20), allow_pickle=True)
    for content in (code, archive.getvalue(), objects.getvalue()):
        judge(parser, good, tmp_path / "changed", content)
        assert RAN == []


def test_a_model_with_a_type_that_runs_code_is_refused(fresh: Path) -> None:
    place = fresh / "model" / "model.skops"
    with zipfile.ZipFile(place) as members:
        content = {name: members.read(name) for name in members.namelist()}
    schema = json.loads(content["schema.json"])
    schema.update({"__module__": "os", "__class__": "system", "__loader__": "FunctionNode"})
    content["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(place, "w") as members:
        for name, each in content.items():
            members.writestr(name, each)
    certified_again(fresh)
    with pytest.raises(ldp.privacy.InputError, match=r"model\.skops"):
        predict(fresh)


def test_the_source_has_no_way_to_load_a_pickle() -> None:
    """No pickle and no code in any load path."""
    ways = re.compile(r"^\s*(import|from) (pickle|marshal|shelve|dill|cloudpickle)\b|\b(eval|exec)\(|allow_pickle=True")
    loads = re.compile(r"joblib\.load|torch\.load\((?!.*weights_only=True)|np\.load\((?!.*allow_pickle=False)")
    found = [
        f"{path}: {line.strip()}"
        for path in [*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py")]
        for line in path.read_text().splitlines()
        if (ways.search(line) and ".eval(" not in line) or loads.search(line)
    ]
    assert found == []


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte takes the place of 256."""
    monkeypatch.setattr(validate, "ALWAYS_FINE", 1 << 20)


ZEROS = bytes(1 << 23)
"""Compresses by a factor of a thousand."""


def _arrow(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)


@pytest.mark.usefixtures("small_memory")
def test_bombs_are_refused_with_a_size(fresh: Path) -> None:
    """A file that would fill the memory is refused before it does."""
    said = "would grow beyond 256 MiB and 200 times its bytes"
    np.savez_compressed(fresh / "bomb.npz", images=np.frombuffer(ZEROS, np.uint8).reshape(-1, 8, 8), labels=[1])
    with pytest.raises(ldp.privacy.InputError, match=said):
        open_images(fresh / "bomb.npz")
    header = bytes([0, 0, 8, 3]) + (1 << 17).to_bytes(4, "big") + bytes([0, 0, 0, 8]) * 2
    (fresh / "idx" / "train-images-idx3-ubyte").unlink()
    (fresh / "idx" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + ZEROS))
    with pytest.raises(ldp.privacy.InputError, match=said):
        open_images(fresh / "idx")
    (fresh / "bomb.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * (1 << 21)))
    with pytest.raises(ldp.privacy.InputError, match=said):
        open_table(fresh / "bomb.csv.gz").read()
    _arrow(fresh / "bomb.arrow", pa.table({"a": np.zeros(1 << 20)}))
    with pytest.raises(ldp.privacy.InputError, match=said):
        open_table(fresh / "bomb.arrow")
    _arrow(fresh / "words.arrow", pa.table({"a": pa.array([ZEROS[: 1 << 23].decode()]).dictionary_encode()}))
    with pytest.raises(ldp.privacy.InputError, match=said):
        open_table(fresh / "words.arrow")
    parquet.write_table(pa.table({"a": np.zeros(1 << 20)}), fresh / "bomb.parquet", compression="zstd")
    with pytest.raises(ldp.privacy.InputError, match=said):
        open_table(fresh / "bomb.parquet").read()


@pytest.mark.usefixtures("small_memory")
def test_bombs_in_models_snapshots_and_ledgers_are_refused(fresh: Path) -> None:
    model = fresh / "model" / "model.skops"
    times = 1 + 200 * 2 * model.stat().st_size // len(ZEROS)
    with zipfile.ZipFile(model, "a", zipfile.ZIP_DEFLATED) as members:
        members.writestr("more.npy", times * ZEROS)
    certified_again(fresh)
    with pytest.raises(ldp.privacy.InputError, match="would grow"):
        predict(fresh)
    head, _, body = (fresh / "learner").read_bytes().split(b"\n", 2)
    buffer = BytesIO(body)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as members:
        members.writestr("more.npy", ZEROS)
    (fresh / "learner").write_bytes(b"\n".join([head, b"", buffer.getvalue()]))
    digested_again(fresh)
    with pytest.raises(ldp.privacy.InputError, match="would grow"):
        go_on(fresh)
    (fresh / "rows" / "value").write_bytes(zlib.compress(ZEROS))
    put_back("rows/value")(fresh)
    with pytest.raises(ldp.privacy.LedgerError, match="did not write"):
        use_ledger(fresh)


def test_what_compresses_well_and_is_small_is_read(tmp_path: Path) -> None:
    """256 MiB are always fine, however they were compressed."""
    csv.write_csv(pa.table({"a": np.zeros(200_000, np.int64)}), tmp_path / "zeros.csv")
    (tmp_path / "zeros.csv.gz").write_bytes(gzip.compress((tmp_path / "zeros.csv").read_bytes()))
    assert open_table(tmp_path / "zeros.csv.gz").read().num_rows == 200_000
    packed = ledger_store.pack(np.zeros(1 << 22, np.uint8))
    assert ledger_store.unpack(packed).sum() == 0 and len(packed) < 1 << 16
