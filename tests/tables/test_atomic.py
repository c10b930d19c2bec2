"""Whole or nothing."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables import atomic_directory, atomic_write

Disk = Callable[[int], AbstractContextManager[None]]


def fill_a_disk() -> None:
    """The error of a disk that is full, from the system's own."""
    with open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")


@pytest.mark.guarantee("labeldp.tables:atomic_write", "whole")
def test_a_file_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    with atomic_write(target) as hidden:
        hidden.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["out.csv"]


@pytest.fixture(params=["anonymous", "named", "unlinked", "without /proc"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system that has files without a name, one that has none, and ones where they cannot be named or written to."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    if request.param == "unlinked":
        monkeypatch.setattr(os, "link", no_link)
    if request.param == "without /proc":
        exists = Path.exists
        monkeypatch.setattr(Path, "exists", lambda path, **how: path.parts[1:2] != ("proc",) and exists(path, **how))
    return str(request.param)


def no_link(*_: Any, **__: Any) -> None:
    """What a file system without hard links says."""
    raise PermissionError


@pytest.mark.guarantee("labeldp.tables:atomic_write", "owner_only")
@pytest.mark.guarantee("labeldp.tables:atomic_write", "mode")
@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_for_its_owner_alone_until_it_is_whole(
    tmp_path: Path, system: str, mask: int, overwrite: bool
) -> None:
    before = os.umask(mask)
    try:
        with atomic_write(tmp_path / "out.csv", overwrite=overwrite) as hidden:
            hidden.write_text("new")
            assert hidden.stat().st_mode & 0o777 == 0o600
            assert len(os.listdir(tmp_path)) == (system in ("named", "without /proc"))
            assert all(place.stat().st_mode & 0o777 == 0o600 for place in tmp_path.iterdir())
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == ["out.csv"] and (tmp_path / "out.csv").read_text() == "new"
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o666 & ~mask


def test_nothing_of_a_killed_process_stays_behind(tmp_path: Path) -> None:
    """A process that is killed in the middle leaves nothing where files need no name, and else what only its owner can
    read.
    """
    for named in ("", 'delattr(os, "O_TMPFILE")'):
        body = f"""
            import os, signal
            {named}
            os.umask(0)
            from labeldp.tables import atomic_write
            with atomic_write({str(tmp_path / "out.csv")!r}) as hidden:
                hidden.write_text("half")
                os.kill(os.getpid(), signal.SIGKILL)
        """
        run = subprocess.run([sys.executable, "-c", textwrap.dedent(body)], check=False)
        left = list(tmp_path.iterdir())
        assert run.returncode == -signal.SIGKILL
        assert [path.stat().st_mode & 0o777 for path in left] == ([0o600] if named or not anonymous(tmp_path) else [])
        assert all(path.name.startswith(".out.csv.") and path.name.endswith(".partial") for path in left)


def anonymous(folder: Path) -> bool:
    """Whether the file system has files without a name."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600))
    except (AttributeError, OSError):
        return False
    return True


def test_a_name_that_is_too_long_is_refused_first(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 240 + ".csv")
    with pytest.raises(InputError, match="cannot be written: its name is too long"), atomic_write(target):
        pytest.fail("the body must not run")


@pytest.mark.guarantee("labeldp.tables:atomic_write", "clean")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
@pytest.mark.parametrize("overwrite", [False, True])
def test_after_any_error_the_hidden_file_is_gone(tmp_path: Path, error: type[BaseException], overwrite: bool) -> None:
    target = tmp_path / "out.csv"
    if overwrite:
        target.write_text("old")
    with pytest.raises(error), atomic_write(target, overwrite=overwrite) as hidden:
        hidden.write_text("new")
        raise error
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"] * overwrite


def test_an_existing_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")
    with pytest.raises(InputError, match=r"out\.csv exists already"), atomic_write(target):
        pytest.fail("the body must not run")
    with atomic_write(target, overwrite=True) as hidden:
        hidden.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["out.csv"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    with pytest.raises(InputError, match="appeared meanwhile"), atomic_write(target) as hidden:
        hidden.write_text("new")
        target.write_text("another's")
    assert target.read_text() == "another's" and os.listdir(tmp_path) == ["out.csv"]


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with atomic_write(tmp_path / "out.csv") as hidden:
        hidden.write_text("new")
    assert os.listdir(tmp_path) == ["out.csv"]


def test_bad_targets_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target, message in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "out.csv", "there is no directory"),
        (tmp_path / "pipe", "is not a regular file"),
    ):
        with pytest.raises(InputError, match=message), atomic_write(target, overwrite=True):
            pytest.fail("the body must not run")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_leaves_nothing(tmp_path: Path, overwrite: bool, small_disk: Disk) -> None:
    target = tmp_path / "out.csv"
    if overwrite:
        target.write_text("old")
    with pytest.raises(LabelDPError, match="the disk is full"), atomic_write(target, overwrite=overwrite):
        fill_a_disk()
    with pytest.raises(LabelDPError, match=r"out\.csv was not written"), small_disk(1 << 20):  # noqa: SIM117
        with atomic_write(target, overwrite=overwrite) as hidden:
            hidden.write_bytes(bytes(1 << 21))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"] * overwrite


def directory(path: Path) -> AbstractContextManager[Path]:
    """A directory of two files."""
    return atomic_directory(path, ("model", "report"))


@pytest.mark.guarantee("labeldp.tables:atomic_directory", "whole")
@pytest.mark.guarantee("labeldp.tables:atomic_directory", "clean")
@pytest.mark.guarantee("labeldp.tables:atomic_directory", "owner_only")
@pytest.mark.guarantee("labeldp.tables:atomic_directory", "untouched")
def test_a_directory_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "run"
    (tmp_path / ".run.partial").mkdir(mode=0o755)  # open to others
    with directory(target) as hidden:
        assert hidden == tmp_path / ".run.partial" and hidden.stat().st_mode & 0o777 == 0o700
        (hidden / "model").write_text("m")
        assert not target.exists()
    assert (target / "model").read_text() == "m" and os.listdir(tmp_path) == ["run"]
    (tmp_path / "any").mkdir()
    assert target.stat().st_mode == (tmp_path / "any").stat().st_mode


def test_an_empty_directory_may_stand_there(tmp_path: Path) -> None:
    with directory(tmp_path / "run") as hidden:
        (hidden / "model").write_text("m")
        (tmp_path / "run").mkdir()
    assert os.listdir(tmp_path / "run") == ["model"]


def test_what_a_dead_run_left_is_not_in_the_next(tmp_path: Path) -> None:
    target = tmp_path / "run"
    body = f"""
        import os, signal
        from labeldp.tables import atomic_directory, atomic_write
        with atomic_directory({str(target)!r}, ("model", "report")) as hidden:
            (hidden / "report").write_text("of the dead run")
            with atomic_write(hidden / "model"):
                os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(body)], check=False)
    assert run.returncode == -signal.SIGKILL and not target.exists()
    assert "report" in os.listdir(tmp_path / ".run.partial")
    with directory(target) as hidden:
        assert os.listdir(hidden) == []
        (hidden / "model").write_text("m")
    assert os.listdir(target) == ["model"] and os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("name", ["model.txt", ".model.xyz.partial", "notes", ".other.0123abcd.partial"])
def test_what_is_not_of_a_run_is_named_and_left(tmp_path: Path, name: str) -> None:
    stranger = tmp_path / ".run.partial" / name
    stranger.parent.mkdir()
    stranger.write_text("mine")
    with pytest.raises(InputError, match=f"{name} is not of this run"), directory(tmp_path / "run"):
        pytest.fail("the body must not run")
    assert stranger.read_text() == "mine" and os.listdir(tmp_path) == [".run.partial"]


@pytest.mark.parametrize("kind", ["stranger", "link", "directory"])
def test_what_appears_beside_the_files_is_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / ".run.partial" / ("mine" if kind == "stranger" else "report")
    with pytest.raises(InputError, match="is not of this run"), directory(tmp_path / "run") as hidden:
        (hidden / "model").write_text("m")
        {"stranger": place.touch, "link": lambda: place.symlink_to(tmp_path), "directory": place.mkdir}[kind]()
    assert not (tmp_path / "run").exists()
    assert kind == "link" or os.listdir(tmp_path / ".run.partial") == [place.name]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_hidden_name_that_is_taken_is_refused(tmp_path: Path, kind: str) -> None:
    place, elsewhere = tmp_path / ".run.partial", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "model").write_text("mine")
    {"file": place.touch, "link": lambda: place.symlink_to(elsewhere)}[kind]()
    with pytest.raises(InputError, match=r"\.run\.partial is not a directory of labeldp"), directory(tmp_path / "run"):
        pytest.fail("the body must not run")
    assert (elsewhere / "model").read_text() == "mine"


def test_two_runs_at_a_time_are_refused(tmp_path: Path) -> None:
    with directory(tmp_path / "run"):
        with pytest.raises(LabelDPError, match="another run is at work"), directory(tmp_path / "run"):
            pytest.fail("the body must not run")
        with directory(tmp_path / "other"):
            pass
    assert sorted(os.listdir(tmp_path)) == ["other", "run"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_any_error_the_hidden_directory_is_gone(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), directory(tmp_path / "run") as hidden:
        (hidden / "model").write_text("m")
        raise error
    assert os.listdir(tmp_path) == []


def test_errors_of_the_body_stay_themselves(tmp_path: Path) -> None:
    for error in (BlockingIOError, FileNotFoundError, PermissionError):
        with pytest.raises(error), directory(tmp_path / "run"):
            raise error


def test_bad_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("old")
    for target, message in (
        (tmp_path / "full", "is not empty"),
        (tmp_path / "full" / "file", "is a file"),
        (tmp_path / "no" / "run", "there is no directory"),
        (Path("/"), "the name of a new directory is needed"),
    ):
        with pytest.raises(InputError, match=message), directory(target):
            pytest.fail("the body must not run")
    assert os.listdir(tmp_path) == ["full"]


def test_a_directory_that_fills_up_meanwhile_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not empty"), directory(tmp_path / "run") as hidden:
        (hidden / "model").write_text("m")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "theirs").write_text("t")
    assert os.listdir(tmp_path / "run") == ["theirs"]


def test_a_full_disk_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(LabelDPError, match="the disk is full"), directory(tmp_path / "run") as hidden:
        (hidden / "model").write_text("done")
        fill_a_disk()
    assert os.listdir(tmp_path) == []


def test_a_disk_for_reading_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def no_new(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", no_new)
    with pytest.raises(LabelDPError, match=r"reading only: .*out\.csv was not"), atomic_write(tmp_path / "out.csv"):
        pytest.fail("the body must not run")
