"""Folders of parts, and folders that appear complete or not at all."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables import (
    FolderWriter,
    ReleaseWriter,
    is_folder_as_certified,
    open_table,
    read_certificate,
    read_folder_certificate,
    release_folder,
)


def write(path: Path, rows: int = 3, name: str = "y") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({name: list(range(rows))}), path)


def draw(values: list[str]) -> Any:
    return lambda writer: writer.write(pa.array(values))


def test_parts_stand_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b/2.parquet", "b/10.parquet", "a.parquet", "_temporary/x.parquet", ".git/x.parquet", "_x.parquet"):
        write(tmp_path / "data" / name)
    table = open_table(tmp_path / "data")
    assert table.names == ("a.parquet", "b/10.parquet", "b/2.parquet") and len(table.parts) == 3
    assert table.rows == 9 and table.columns == ("y",) and table.read().num_rows == 9
    assert table.is_unchanged()
    write(tmp_path / "data" / "c.parquet")
    assert not table.is_unchanged()
    file = open_table(tmp_path / "data" / "a.parquet")
    assert file.parts == (file,) and file.names == ("a.parquet",) and file.is_unchanged()


def test_a_column_of_several_types_is_read_as_text(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.parquet")
    parquet.write_table(pa.table({"y": pa.array(["07"]).dictionary_encode()}), tmp_path / "data" / "b.parquet")
    table = open_table(tmp_path / "data")
    assert table.read().column("y").to_pylist() == ["0", "1", "2", "07"]
    assert table.parts[0].schema.field("y").type == pa.int64()
    parquet.write_table(pa.table({"y": [[1]]}), tmp_path / "data" / "c.parquet")
    with pytest.raises(InputError, match="column 'y' holds list"):
        open_table(tmp_path / "data").read()


def test_a_folder_is_not_read_as_a_released_file(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.parquet")
    with pytest.raises(InputError, match="is a folder; a released file is needed"):
        read_certificate(tmp_path / "data")


def fill(path: Path, *, fail: BaseException | None = None) -> None:
    """Release two parts, and fail between them if asked to."""
    with release_folder(path, ("a.csv", "b/c.parquet"), ("y",), released="y") as folder:
        assert isinstance(folder, FolderWriter)
        folder.write("a.csv", {"of": "a"}, draw(["no", "yes"]))
        if fail:
            raise fail
        folder.write("b/c.parquet", {"of": "c"}, draw(["no"]))
        folder.certify({"what": "a test"})


@pytest.mark.guarantee("labeldp.tables:atomic_directory", "whole")
@pytest.mark.guarantee("labeldp.tables:release_folder", "whole")
@pytest.mark.guarantee("labeldp.tables:release_folder", "parts")
def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fill(out)
    found = {place.relative_to(out).as_posix() for place in out.rglob("*") if place.is_file()}
    assert found == {"a.csv", "b/c.parquet", "_certificate.json", "_SUCCESS"}
    assert read_folder_certificate(out)["certificate"] == {"what": "a test"} and is_folder_as_certified(out)
    (tmp_path / "probe").mkdir()
    assert out.stat().st_mode & 0o777 == (tmp_path / "probe").stat().st_mode & 0o777
    with pytest.raises(InputError, match="is not empty"):
        fill(out)
    assert sorted(os.listdir(tmp_path)) == ["out", "probe"]


@pytest.mark.guarantee("labeldp.tables:atomic_directory", "clean")
@pytest.mark.guarantee("labeldp.tables:atomic_directory", "owner_only")
def test_an_error_leaves_nothing_and_an_interrupt_what_is_whole(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fill(tmp_path / "out", fail=ZeroDivisionError())
    assert os.listdir(tmp_path) == []
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "out", fail=KeyboardInterrupt())
    assert os.listdir(tmp_path) == [".out.partial"]
    assert (tmp_path / ".out.partial").stat().st_mode & 0o777 == 0o700
    (tmp_path / ".out.partial" / ".a.csv.0123abcd.partial").touch()  # of a run that was killed in the middle
    drawn: list[str] = []

    def again(writer: ReleaseWriter) -> None:
        drawn.append("again")
        writer.write(pa.array(["no"]))

    with release_folder(tmp_path / "out", ("a.csv", "b.csv"), ("y",), released="y") as folder:
        assert not folder.write("a.csv", {"of": "a"}, again)
        assert folder.write("b.csv", {"of": "b"}, again)
        assert folder.write("a.csv", {"of": "another"}, again)
        folder.certify({})
    assert drawn == ["again", "again"] and is_folder_as_certified(tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["_SUCCESS", "_certificate.json", "a.csv", "b.csv"]


def test_a_folder_without_a_certificate_is_not_published(tmp_path: Path) -> None:
    with (
        pytest.raises(LabelDPError, match="needs parts and a certificate"),
        release_folder(tmp_path / "out", ("a.csv",), ("y",), released="y") as folder,
    ):
        folder.write("a.csv", {}, draw(["no"]))
    assert os.listdir(tmp_path) == []


def test_one_run_at_a_time_fills_a_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(LabelDPError, match="another run is at work on"),
        release_folder(tmp_path / "out", ("a.csv",), ("y",), released="y"),
    ):
        fill(tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        fill(tmp_path / "file")
    with pytest.raises(InputError, match="must end in"), release_folder(tmp_path / "o", ("a.x",), ("y",), released="y"):
        pass


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}'])
def test_damaged_certificates_of_folders_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "_certificate.json").write_text(content)
    with pytest.raises(InputError, match="cannot be read"):
        read_folder_certificate(tmp_path)
