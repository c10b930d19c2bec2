"""A folder of files is one table and one release: one charge, one certificate, resumable part by part."""

import gzip
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp.bags import release_bags
from labeldp.curator import LedgerFile
from labeldp.fit import verify
from labeldp.tables import read_folder_certificate
from releases.files import DOMAIN, column, listing, release
from slow import mostly_slow

ROWS = 600

KILLED = Path(__file__).with_name("killed_folder.py")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """The same table as a file, and as a folder of parts of several kinds."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {"id": np.arange(ROWS) * 3, "kind": rng.choice(["a", "b"], ROWS), "bought": rng.choice(["no", "yes"], ROWS)}
    )
    table.to_parquet(tmp_path / "people.parquet", index=False)
    (tmp_path / "parts" / "day=1").mkdir(parents=True)
    (tmp_path / "parts" / "day=2").mkdir()
    table[:200].to_csv(tmp_path / "parts" / "day=1" / "a.csv", index=False)
    encoded = pa.table(
        {"id": pa.array(table["id"][200:400]), "kind": pa.array(table["kind"][200:400]).dictionary_encode(),
         "bought": pa.array(table["bought"][200:400]).dictionary_encode()}
    )  # fmt: skip
    parquet.write_table(encoded, tmp_path / "parts" / "day=1" / "b.parquet", row_group_size=37)
    table[400:].to_parquet(tmp_path / "parts" / "day=2" / "a.parquet", index=False)
    (tmp_path / "parts" / "_SUCCESS").touch()
    (tmp_path / "parts" / ".hidden").write_text("left out")
    return tmp_path


def publish(many: Path, **changes: Any) -> ldp.Certificate:
    """The release of the folder, with ids."""
    return release(many, **({"data": many / "parts", "out": many / "noisy", "id_column": "id"} | changes))


def charges(many: Path) -> int:
    return len(LedgerFile(many / "ledger.db").dataset("people").charges)


def bits(path: Path) -> dict[str, str]:
    """The noisy label of each id, in a file or in the parts of a folder."""
    files = (
        [each for each in sorted(path.rglob("*")) if each.suffix in (".csv", ".parquet")] if path.is_dir() else [path]
    )
    return {name: label for file in files for name, label in zip(column(file, "id"), column(file), strict=True)}


def test_a_folder_is_released_as_its_table_is(many: Path) -> None:
    """the output is a folder with the same parts, one certificate and `_SUCCESS`; one charge for every form of it."""
    certificate = publish(many)
    assert listing(many / "noisy") == {"day=1", "day=2", "_certificate.json", "_SUCCESS"}
    assert listing(many / "noisy" / "day=1") == {"a.csv", "b.parquet"}
    assert release(many, data=many / "people.parquet", out=many / "one.csv", id_column="id") == certificate
    in_place = publish(many, in_place=True, out=many / "whole")
    assert in_place == certificate and charges(many) == 1
    assert bits(many / "noisy") == bits(many / "one.csv") == bits(many / "whole")
    kept = parquet.read_schema(many / "whole" / "day=1" / "b.parquet")
    assert pa.types.is_dictionary(kept.field("kind").type)
    assert publish(many) == certificate  # it stands already
    assert verify(str(many / "noisy")).holds
    with pytest.raises(ldp.privacy.InputError, match="exists already and is not this release"):
        publish(many, out=many / "noisy", in_place=True)
    parts = read_folder_certificate(many / "noisy")["parts"]
    assert {name: part["rows"] for name, part in parts.items()} == {
        "day=1/a.csv": 200, "day=1/b.parquet": 200, "day=2/a.parquet": 200
    }  # fmt: skip


def test_a_folder_may_be_written_as_one_file(many: Path) -> None:
    shutil.rmtree(many / "parts" / "day=1")
    table = pd.read_parquet(many / "people.parquet")
    table[:100].to_parquet(many / "parts" / "first.parquet", index=False)
    publish(many, out=many / "one.parquet", in_place=True)
    assert len(bits(many / "one.parquet")) == 300
    table[100:110].astype({"id": "int32"}).to_parquet(many / "parts" / "second.parquet", index=False)
    with pytest.raises(ldp.privacy.InputError, match="has other types of columns than"):
        publish(many, out=many / "two.parquet", revision="more")


def test_row_numbers_go_on_from_part_to_part(many: Path) -> None:
    publish(many, id_column=None)
    release(many, data=many / "people.parquet", out=many / "one.csv")
    parts = [many / "noisy" / name for name in ("day=1/a.csv", "day=1/b.parquet", "day=2/a.parquet")]
    assert [label for part in parts for label in column(part)] == column(many / "one.csv")
    assert charges(many) == 1


def test_a_changed_part_is_noticed_afterwards(many: Path) -> None:
    publish(many)
    for break_it in (
        lambda folder: (folder / "_SUCCESS").unlink(),
        lambda folder: (folder / "day=1" / "a.csv").unlink(),
        lambda folder: shutil.copy(folder / "day=1" / "a.csv", folder / "day=1" / "c.csv"),
        lambda folder: (folder / "day=1" / "a.csv").write_text("id,bought\n1,no\n"),
    ):
        shutil.rmtree(many / "copy", ignore_errors=True)
        shutil.copytree(many / "noisy", many / "copy")
        assert verify(str(many / "copy")).holds
        break_it(many / "copy")
        assert not verify(str(many / "copy")).holds
    (many / "noisy" / "_certificate.json").write_text("{}")
    with pytest.raises(ldp.privacy.InputError, match="damaged or not of labeldp"):
        verify(str(many / "noisy"))


def killed(many: Path, after: int, **changes: Any) -> None:
    """A run that ends at once when so many parts were begun, and leaves what the end of a process leaves."""

    def progress(done: str, share: float) -> None:
        if done == f"released {after:,} rows":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(many, progress=progress, **changes)
    assert not (many / "noisy").exists()


def test_a_killed_run_is_finished_part_by_part_at_no_cost(many: Path) -> None:
    """parts that a killed run finished are not drawn again."""
    told: list[str] = []
    killed(many, 500)
    hidden = many / ".noisy.partial"
    assert listing(hidden / "day=1") == {"a.csv", "b.parquet"} and not (hidden / "_SUCCESS").exists()
    assert hidden.stat().st_mode & 0o077 == 0
    before = (hidden / "day=1" / "b.parquet").stat().st_mtime_ns
    certificate = publish(many, note=told.append)
    assert told == [f"day=1/{name} was finished by an earlier run" for name in ("a.csv", "b.parquet")]
    assert (many / "noisy" / "day=1" / "b.parquet").stat().st_mtime_ns == before
    assert not hidden.exists() and charges(many) == 1 and verify(str(many / "noisy")).holds
    assert listing(many / "noisy") == {"day=1", "day=2", "_certificate.json", "_SUCCESS"}
    assert release(many, data=many / "people.parquet", out=many / "one.csv", id_column="id") == certificate
    assert bits(many / "noisy") == bits(many / "one.csv")


def test_what_a_killed_run_made_otherwise_is_made_again(many: Path) -> None:
    """Another form of the output, a part that was damaged, another epsilon: nothing of the old parts is used."""
    told: list[str] = []
    LedgerFile(many / "ledger.db").add("people", ldp.Budget(epsilon=9))
    killed(many, 500)
    (many / ".noisy.partial" / "day=1" / "a.csv").write_text("id,bought\n0,no\n")
    killed(many, 500, in_place=True)
    publish(many, epsilon=2, revision="two", note=told.append)
    assert told == [] and verify(str(many / "noisy")).holds
    plain = release(many, data=many / "people.parquet", out=many / "o.csv", id_column="id", epsilon=2, revision="two")
    assert bits(many / "noisy") == bits(many / "o.csv")
    assert plain.epsilon(0) == 2


def test_files_of_others_are_never_removed(many: Path) -> None:
    killed(many, 500)
    (many / ".noisy.partial" / "mine.txt").write_text("mine")
    with pytest.raises(ldp.privacy.InputError, match=r"mine\.txt is not of this run"):
        publish(many)
    assert (many / ".noisy.partial" / "mine.txt").exists()


CHANGES: dict[str, Any] = {
    "a part vanishes": lambda parts: (parts / "day=1" / "b.parquet").unlink(),
    "the folder grows": lambda parts: shutil.copy(parts / "day=2" / "a.parquet", parts / "day=2" / "b.parquet"),
    "a part is cut off": lambda parts: (parts / "day=2" / "a.parquet").write_bytes(b"PAR1 and nothing more"),
    "a label is another": lambda parts: (
        pd.read_parquet(parts / "day=2" / "a.parquet")
        .assign(bought=lambda table: np.where(table["bought"] == "no", "yes", "no"))
        .to_parquet(parts / "day=2" / "a.parquet", index=False)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("stage", ["checked", "released"])
def test_a_source_that_changes_meanwhile_publishes_nothing(many: Path, change: str, stage: str) -> None:
    """Before the charge nothing is charged; after it the release stays charged, and nothing stands."""
    done: list[str] = []

    def progress(told: str, share: float) -> None:
        if told == f"{stage} 100 rows" and not done:
            done.append(told)
            CHANGES[change](many / "parts")

    LedgerFile(many / "ledger.db").add("people", ldp.Budget(epsilon=9))
    words = r"changed while|no such file|damaged|named as Parquet"
    with pytest.raises(ldp.LabelDPError, match=words) as refused:
        publish(many, progress=progress)
    assert charges(many) == (0 if stage == "checked" else 1)
    if stage == "released":
        assert "nothing was published" in str(refused.value)
    assert not (many / "noisy").exists() and not (many / ".noisy.partial").exists()


def rewritten(old: str, new: str) -> Callable[[Path], None]:
    """The CSV part with other text."""

    def change(folder: Path) -> None:
        part = folder / "parts" / "day=1" / "a.csv"
        assert old in part.read_text()
        part.write_text(part.read_text().replace(old, new))

    return change


def with_column(name: str, values: Any) -> Callable[[Path], None]:
    """The last Parquet part with another column."""

    def change(folder: Path) -> None:
        table = parquet.read_table(folder / "parts" / LAST)
        parquet.write_table(
            table.set_column(table.column_names.index(name), name, values(table)), folder / "parts" / LAST
        )

    return change


def damaged(name: str, where: int) -> Callable[[Path], None]:
    """A part some of whose bytes are others."""

    def change(folder: Path) -> None:
        content = bytearray((folder / "parts" / name).read_bytes())
        content[where : where + 40] = bytes(40)
        (folder / "parts" / name).write_bytes(content)

    return change


def packed_and_cut_off(folder: Path) -> None:
    """A compressed CSV part without its end."""
    part = folder / "parts" / "day=1" / "a.csv"
    content = gzip.compress(part.read_bytes())
    part.unlink()
    part.with_suffix(".csv.gz").write_bytes(content[:-40])


def written(name: str, text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "parts" / name).write_text(text)


def nothing(folder: Path) -> None:
    """The folder as it is."""


def first_of(table: Any) -> list[Any]:
    """Ids of which the last is one of the CSV part."""
    return [*table.column("id").to_pylist()[:-1], 3]


LAST = "day=2/a.parquet"

REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "no ids in a part": (rewritten("id,kind", "key,kind"), {}, "has other columns than"),
    "ids of no part": (nothing, {"id_column": "key"}, "id_column: .* has no column 'key'"),
    "a null id": (with_column("id", lambda table: pa.array([None, *range(9000, 9199)])), {}, "has a missing id"),
    "an empty id": (rewritten("\n0,", "\n,"), {}, "has a missing id"),
    "an id twice in a part": (rewritten("\n3,", "\n0,"), {}, "record ids must not be repeated"),
    "an id in two parts": (with_column("id", lambda table: pa.array(first_of(table))), {}, "must not be repeated"),
    "an id as integer and as text": (
        with_column("id", lambda table: pa.array([str(each) for each in first_of(table)])), {}, "must not be repeated",
    ),
    "the same part twice": (
        lambda folder: shutil.copy(folder / "parts" / LAST, folder / "parts" / "b.parquet"), {}, "must not be repeated",
    ),
    "ids that are fractions": (
        with_column("id", lambda table: pa.array(np.arange(200) + 0.5)), {}, "must hold integers or texts",
    ),
    "labels that are lists": (
        with_column("bought", lambda table: pa.array([["no"]] * 200)), {}, "numbers, booleans or dates are needed",
    ),
    "columns in another order": (rewritten("id,kind", "kind,id"), {}, "has other columns than"),
    "a column more": (
        lambda folder: parquet.write_table(
            parquet.read_table(folder / "parts" / LAST).append_column("more", pa.array(range(200))),
            folder / "parts" / LAST,
        ),
        {}, "has other columns than",
    ),
    "a column of another type, one file": (
        with_column("kind", lambda table: pa.array(range(200))),
        {"out": "one.parquet", "in_place": True}, "has other types of columns than",
    ),
    "no rows in a part": (written("day=1/a.csv", "id,kind,bought\n"), {}, "has a header row but no other row"),
    "an empty part": (written("notes.txt", ""), {}, r"notes\.txt is empty"),
    "a part that is no table": (written("notes.csv", "\0\1"), {}, "is not a table"),
    "a damaged footer": (damaged(LAST, -60), {}, "damaged or truncated Parquet"),
    "a part without its end": (packed_and_cut_off, {}, "damaged or truncated"),
    "a part of another name": (
        lambda folder: (folder / "parts" / "day=1" / "a.csv").rename(folder / "parts" / "a.txt"), {}, "must end in",
    ),
    "a link to a folder": (
        lambda folder: (folder / "parts" / "link").symlink_to(folder / "parts" / "day=1"), {}, "is a link to a folder",
    ),
    "a pipe": (lambda folder: os.mkfifo(folder / "parts" / "pipe.csv"), {}, "is not a regular file"),
    "no such label": (nothing, {"label": "income"}, "has no column 'income'"),
    "no files": (lambda folder: (folder / "empty").mkdir(), {"data": "empty"}, "holds no files"),
    "out within the folder": (nothing, {"out": "parts/out"}, "must not lie in the folder that is released"),
    "out is the folder": (nothing, {"out": "parts"}, "exists already and is not this release"),
    "out is a file": (lambda folder: (folder / "noisy").write_text("mine"), {}, "exists already and is not this"),
    "out is a full folder": (
        lambda folder: ((folder / "noisy").mkdir(), (folder / "noisy" / "mine").write_text("mine")),
        {}, "exists already and is not this release",
    ),
    "out is nowhere": (nothing, {"out": "nowhere/noisy"}, "there is no directory"),
    "what a stranger left": (
        lambda folder: ((folder / ".noisy.partial").mkdir(), (folder / ".noisy.partial" / "mine").write_text("mine")),
        {}, "mine is not of this run",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_folders_are_refused_before_anything_is_charged(many: Path, kind: str) -> None:
    """One sentence; nothing is charged, compared with a domain or left, and what stood there stands."""
    change, arguments, message = REFUSED[kind]
    change(many)
    LedgerFile(many / "ledger.db").add("people", ldp.Budget(epsilon=9))
    before = standing(many)
    places = {name: many / value for name, value in arguments.items() if name in ("data", "out")}
    with pytest.raises(ldp.privacy.InputError, match=message) as refused:
        publish(many, **(arguments | places))
    assert "\n" not in str(refused.value)
    assert standing(many) == before and charges(many) == 0
    assert LedgerFile(many / "ledger.db").dataset("people").read().domains == ()


def standing(folder: Path) -> dict[str, Any]:
    """Every file, and its content; of folders and pipes the name."""
    return {
        place.relative_to(folder).as_posix(): place.read_bytes() if place.is_file() else None
        for place in folder.rglob("*")
    }


def test_a_label_outside_of_the_domain_is_refused_in_any_part(many: Path) -> None:
    for part in ("day=1/a.csv", LAST):
        name, dataset = many / "parts" / part, part
        LedgerFile(many / "ledger.db").add(dataset, ldp.Budget(epsilon=9))
        before = name.read_bytes()
        table = pd.read_csv(name) if part.endswith("csv") else pd.read_parquet(name)
        table.loc[3, "bought"] = "perhaps"
        table.to_csv(name, index=False) if part.endswith("csv") else table.to_parquet(name, index=False)
        with pytest.raises(ldp.privacy.DomainError, match="Some labels are missing or not among"):
            publish(many, dataset=dataset)
        assert not LedgerFile(many / "ledger.db").dataset(dataset).charges and not (many / "noisy").exists()
        name.write_bytes(before)


STAGES = ["checked 300 rows", "released 100 rows", "released 500 rows"]


@pytest.mark.parametrize("stage", mostly_slow(STAGES, STAGES[1:2]))
@pytest.mark.parametrize("out", ["noisy", "noisy.parquet", "noisy.csv"])
def test_a_killed_process_leaves_nothing_that_looks_finished(many: Path, stage: str, out: str) -> None:
    """Neither a folder, nor `_SUCCESS`, nor a certificate; the same command finishes it at no further cost."""
    names = {"a.csv", "b.parquet", "a.parquet", "_SUCCESS", ".hidden"}
    if out != "noisy":  # one file, of columns of one type
        names = names - {"a.csv"} | {"c.parquet"}
        whole = parquet.read_table(many / "people.parquet")
        for name, start in (("day=1/c.parquet", 0), ("day=1/b.parquet", 200), (LAST, 400)):
            parquet.write_table(whole.slice(start, 200), many / "parts" / name)
        (many / "parts" / "day=1" / "a.csv").unlink()
    LedgerFile(many / "ledger.db").add("people", ldp.Budget(epsilon=1))
    done = subprocess.run([sys.executable, KILLED, many, out, stage], capture_output=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (many / out).exists() and charges(many) == (stage[:8] == "released")
    left = {place.name for place in many.rglob("*") if place.is_file()} - {"ledger.db", "people.parquet"}
    records = {place.name for place in many.glob(".noisy.partial/_parts/*")}
    assert left == names | records and (stage == "released 500 rows" and out == "noisy") == bool(records)
    assert not list(many.glob(".noisy.partial/**/_*.json")) and not list(many.glob(".noisy.partial/**/_SUCCESS"))
    publish(many, out=many / out)
    assert charges(many) == 1 and verify(str(many / out)).holds and not (many / ".noisy.partial").exists()
    release(many, data=many / "people.parquet", out=many / "one.csv", id_column="id")
    assert bits(many / out) == bits(many / "one.csv")


def test_bags_of_a_folder_are_those_of_its_table(many: Path) -> None:
    table = pd.read_parquet(many / "people.parquet").assign(size=np.arange(ROWS) % 7)
    (many / "two").mkdir()
    for name, rows in (("a", slice(0, 250)), ("b", slice(250, None))):
        table[rows].to_parquet(many / "two" / f"{name}.parquet", index=False)
    table.to_parquet(many / "all.parquet", index=False)
    asked: dict[str, Any] = {
        "label": "bought", "domain": DOMAIN, "mechanism": "bag-sum", "size": 20, "epsilon": 1, "dataset": "people",
        "ledger": many / "ledger.db", "id_column": "id",
    }  # fmt: skip
    one = release_bags(many / "all.parquet", out=many / "one.csv", **asked)
    assert release_bags(many / "two", out=many / "two.csv", **asked) == one
    assert (many / "one.csv").read_bytes() == (many / "two.csv").read_bytes()
