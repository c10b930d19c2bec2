"""A released table in a folder: of the labels that were charged, whole or absent, whatever happens to workers."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp.fit import verify
from labeldp.releases import Grant, write_parts
from labeldp.tables import FolderTable, open_table
from releases.tables import PartTable, account, people
from releases.test_grants import answers, granted


def read(folder: Path) -> dict[Any, Any]:
    """The noisy label of each id in a folder."""
    table = parquet.read_table([folder / name for name in open_table(folder).names])
    return dict(zip(table.column("id").to_pylist(), table.column("bought").to_pylist(), strict=True))


def test_a_folder_holds_the_answers_under_one_certificate(path: Path, tmp_path: Path) -> None:
    table, out = people(), tmp_path / "out"
    grant = granted(path, PartTable(table))
    write_parts(PartTable(table, 13), grant, out)
    assert read(out) == answers(grant, table, 100)
    verdict = verify(str(out))
    assert verdict.holds and verdict.certificate == grant.certificate
    files = open_table(out)
    assert isinstance(files, FolderTable) and files.columns == ("id", "bought") and files.rows == 600
    assert {"_SUCCESS", "_certificate.json"} < set(os.listdir(out))
    assert sorted(os.listdir(tmp_path)) == ["ledger.db", "out"]
    assert oct(out.stat().st_mode) == oct(tmp_path.joinpath("out").stat().st_mode)
    write_parts(PartTable(table, 600, seed=3), grant, tmp_path / "whole", columns=("height",))  # empty parts, too
    assert read(tmp_path / "whole") == read(out)
    assert open_table(tmp_path / "whole").columns == ("id", "bought", "height")
    assert verify(str(tmp_path / "whole")).holds


class Retried(PartTable):
    """An engine that loses what a worker returned and runs its task once more, or lets it die halfway."""

    def _run(self, task: Any, table: pa.Table, part: Any) -> list[bytes]:
        def dying(batches: list[pa.RecordBatch]) -> Any:
            yield batches[0]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            task(dying(table.to_batches(50)))
        task(table.to_batches(50))
        return super()._run(task, table, part)


def test_of_a_part_that_was_computed_several_times_one_counts(path: Path, tmp_path: Path) -> None:
    table = people()
    grant = granted(path, Retried(table, 3))
    write_parts(Retried(table, 3), grant, tmp_path / "out")
    assert read(tmp_path / "out") == answers(grant, table, 100)
    assert open_table(tmp_path / "out").rows == 600
    assert verify(str(tmp_path / "out")).holds and sorted(os.listdir(tmp_path)) == ["ledger.db", "out"]


def swapped(table: pa.Table, time: int) -> pa.Table:
    """Other labels, one of them, at each evaluation."""
    labels = table.column("bought").to_pylist()
    labels[0] = "no" if labels[0] == "yes" else "yes"
    return table.set_column(1, "bought", pa.array(labels))


@pytest.mark.guarantee("labeldp.releases:write_parts", "whole")
@pytest.mark.parametrize(
    "each_time", [swapped, lambda table, time: table.slice(1), lambda table, time: pa.concat_tables([table, table])]
)
def test_labels_that_changed_are_not_published(path: Path, tmp_path: Path, each_time: Any) -> None:
    table = people()
    grant = granted(path, PartTable(table))
    with pytest.raises(ldp.LabelDPError, match="changed while it was being released: nothing was published"):
        write_parts(PartTable(table, 3, each_time=each_time), grant, tmp_path / "out")
    assert os.listdir(tmp_path) == ["ledger.db"]
    assert account(path).spent.epsilon() == 1
    write_parts(PartTable(table, 3), grant, tmp_path / "out")
    assert verify(str(tmp_path / "out")).holds


class Dying(PartTable):
    """An engine that fails after its workers wrote."""

    def run(self, task: Any, columns: Any, **options: Any) -> list[bytes]:
        super().run(task, columns)
        raise RuntimeError("lost")


def test_an_engine_that_fails_leaves_nothing(path: Path, tmp_path: Path) -> None:
    grant = granted(path, PartTable(people()))
    with pytest.raises(RuntimeError, match="lost"):
        write_parts(Dying(people()), grant, tmp_path / "out")
    assert os.listdir(tmp_path) == ["ledger.db"]


def test_a_driver_that_is_killed_leaves_nothing_that_looks_finished(path: Path, tmp_path: Path) -> None:
    grant = granted(path, PartTable(people()))
    child = os.fork()
    if not child:

        class Killed(PartTable):
            def run(self, task: Any, columns: Any, **options: Any) -> list[bytes]:
                super().run(task, columns)
                os.kill(os.getpid(), 9)
                return []

        write_parts(Killed(people()), grant, tmp_path / "out")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 9
    [hidden] = set(os.listdir(tmp_path)) - {"ledger.db"}
    assert hidden.startswith(".out.") and hidden.endswith(".partial")
    assert oct((tmp_path / hidden).stat().st_mode & 0o777) == "0o700"
    assert not list((tmp_path / hidden).rglob("_SUCCESS")) and not list((tmp_path / hidden).rglob("part-*"))
    write_parts(PartTable(people(), 2), grant, tmp_path / "out")
    assert verify(str(tmp_path / "out")).holds


class Elsewhere(PartTable):
    """Workers whose disk the driver does not see."""

    def run(self, task: Any, columns: Any, **options: Any) -> list[bytes]:
        found = super().run(task, columns)
        for place in Path(task.folder).iterdir():
            place.unlink()
        return found


def test_outputs_that_cannot_be_written_are_refused(path: Path, tmp_path: Path) -> None:
    grant: Grant = granted(path, PartTable(people()))
    table = PartTable(people())
    (tmp_path / "file").touch()
    for out, message in (("file", "exists already"), ("no/out", "there is no directory"), ("", "exists already")):
        with pytest.raises(ldp.privacy.InputError, match=message):
            write_parts(table, grant, tmp_path / out)
    assert not table.tasks
    with pytest.raises(ldp.privacy.InputError, match="a worker wrote where the driver does not see it"):
        write_parts(Elsewhere(people()), grant, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["file", "ledger.db"]
