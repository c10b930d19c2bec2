"""Whole or nothing."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables import whole_directory, whole_or_nothing

Disk = Callable[[int], AbstractContextManager[None]]


def fill_a_disk() -> None:
    """The error of a disk that is full, from the system's own."""
    with open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")


def test_a_file_appears_whole(tmp_path: Path) -> None:
    """`path` is never seen half-written: it appears, on disk, when the body ends without an error."""
    target = tmp_path / "out.csv"
    with whole_or_nothing(target) as hidden:
        assert hidden.parent == tmp_path and hidden.name.startswith(".")
        hidden.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["out.csv"]
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
@pytest.mark.parametrize("overwrite", [False, True])
def test_after_any_error_the_hidden_file_is_gone(tmp_path: Path, error: type[BaseException], overwrite: bool) -> None:
    """After any error, Ctrl-C included, the hidden file is gone and what stood at `path` still stands."""
    target = tmp_path / "out.csv"
    if overwrite:
        target.write_text("old")
    with pytest.raises(error), whole_or_nothing(target, overwrite=overwrite) as hidden:
        hidden.write_text("new")
        raise error
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"] * overwrite


def test_an_existing_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")
    with pytest.raises(InputError, match=r"out\.csv exists already"), whole_or_nothing(target):
        pytest.fail("the body must not run")
    with whole_or_nothing(target, overwrite=True) as hidden:
        hidden.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["out.csv"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    with pytest.raises(InputError, match="appeared meanwhile"), whole_or_nothing(target) as hidden:
        hidden.write_text("new")
        target.write_text("another's")
    assert target.read_text() == "another's" and os.listdir(tmp_path) == ["out.csv"]


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(source: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_link)
    with whole_or_nothing(tmp_path / "out.csv") as hidden:
        hidden.write_text("new")
    assert os.listdir(tmp_path) == ["out.csv"]


def test_bad_targets_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target, message in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "out.csv", "there is no directory"),
        (tmp_path / "pipe", "is not a regular file"),
    ):
        with pytest.raises(InputError, match=message), whole_or_nothing(target, overwrite=True):
            pytest.fail("the body must not run")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_leaves_nothing(tmp_path: Path, overwrite: bool, small_disk: Disk) -> None:
    target = tmp_path / "out.csv"
    if overwrite:
        target.write_text("old")
    with pytest.raises(LabelDPError, match="the disk is full"), whole_or_nothing(target, overwrite=overwrite):
        fill_a_disk()
    with pytest.raises(LabelDPError, match=r"out\.csv was not written"), small_disk(1 << 20):  # noqa: SIM117
        with whole_or_nothing(target, overwrite=overwrite) as hidden:
            hidden.write_bytes(bytes(1 << 21))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"] * overwrite


def directory(path: Path) -> AbstractContextManager[Path]:
    """A directory of two files."""
    return whole_directory(path, ("model", "report"))


def test_a_directory_appears_whole(tmp_path: Path) -> None:
    """`path` is never seen half-filled and holds nothing but regular files of `names`; after any error the hidden
    directory is gone. A directory that is not empty is never touched, nor a file that is not ours.
    """
    target = tmp_path / "run"
    with directory(target) as hidden:
        assert hidden == tmp_path / ".run.partial"
        (hidden / "model").write_text("m")
        assert not target.exists()
    assert (target / "model").read_text() == "m" and os.listdir(tmp_path) == ["run"]


def test_an_empty_directory_may_stand_there(tmp_path: Path) -> None:
    with directory(tmp_path / "run") as hidden:
        (hidden / "model").write_text("m")
        (tmp_path / "run").mkdir()
    assert os.listdir(tmp_path / "run") == ["model"]


def test_what_a_dead_run_left_is_not_in_the_next(tmp_path: Path) -> None:
    target = tmp_path / "run"
    body = f"""
        import os, signal
        from labeldp.tables import whole_directory, whole_or_nothing
        with whole_directory({str(target)!r}, ("model", "report")) as hidden:
            (hidden / "report").write_text("of the dead run")
            with whole_or_nothing(hidden / "model"):
                os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(body)], check=False)
    assert run.returncode == -signal.SIGKILL and not target.exists()
    assert len(os.listdir(tmp_path / ".run.partial")) == 2
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
