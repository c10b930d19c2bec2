"""Outputs that appear whole or not at all."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables.quiet import naming_full_disk


@contextmanager
def whole_or_nothing(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Write a file under a hidden name beside it, and give it its name when it is whole.

    Args:
        path: where the file shall appear. Its directory must exist.
        overwrite: whether an existing file may be replaced; it stands untouched until the new one is whole.

    Yields:
        The hidden path to write to, an empty file in the same directory.

    Guarantee:
        `path` is never seen half-written: it appears, on disk, when the body ends without an error. After any
        error, Ctrl-C included, the hidden file is gone and what stood at `path` still stands.

    Raises:
        InputError: the directory does not exist or may not be written to, or `path` exists and
            `overwrite` is false, or it is not a regular file.
        LabelDPError: the disk is full.
    """
    target = Path(path)
    refuse_target(target, overwrite=overwrite)
    hidden = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    with naming_full_disk(str(target)):
        _create(hidden, target)
        try:
            yield hidden
            sync(hidden)
            _appear(hidden, target, overwrite)
        except BaseException:
            with suppress(FileNotFoundError):
                hidden.unlink()
            raise
    sync(target.parent)


@contextmanager
def whole_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Fill a directory under the hidden name `.NAME.partial` beside it, and give it its name when it is whole.

    A run that died leaves the hidden directory; the next run with the same `path` finds there what
    was finished and goes on. Two runs at a time are refused.

    Args:
        path: where the directory shall appear; an empty directory may stand there already.

    Yields:
        The hidden directory to fill. Files in it should be written by `whole_or_nothing`.

    Guarantee:
        `path` is never seen half-filled, and a directory that is not empty is never touched.

    Raises:
        InputError: `path` is a file or a directory that is not empty, or its parent does not exist.
        LabelDPError: another run is at work on it, or the disk is full; what was finished stays in the
            hidden directory.
    """
    target = Path(path)
    _refuse_directory(target)
    hidden = target.with_name(f".{target.name}.partial")
    with naming_full_disk(str(target)), _only_run(hidden, target):
        yield hidden
        for folder, _, names in os.walk(hidden):
            for name in names:
                sync(Path(folder, name))
            sync(Path(folder))
        try:
            hidden.rename(target)  # onto an empty directory, too
        except OSError:
            _refuse_directory(target)
            raise
    sync(target.parent)


def refuse_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a path that no file can be put at, before any work is done for it."""
    if not target.name or target.is_dir():
        raise InputError(f"{target} is a directory; the name of a file is needed")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: there is no directory {target.parent}")
    if not os.path.lexists(target):
        return
    if not target.is_file():
        raise InputError(f"{target} is not a regular file")
    if not overwrite:
        raise InputError(f"{target} exists already; choose another name or remove it first")


def sync(path: Path) -> None:
    """Wait until a file or a directory is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _create(hidden: Path, target: Path) -> None:
    try:
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except PermissionError:
        raise InputError(f"{target} cannot be written: permission denied") from None


def _appear(hidden: Path, target: Path, overwrite: bool) -> None:
    """Rename; without `overwrite`, a file that appeared at the target meanwhile is refused, not replaced."""
    if overwrite:
        hidden.replace(target)
        return
    try:
        os.link(hidden, target)
    except FileExistsError:
        raise InputError(f"{target} appeared meanwhile; choose another name or remove it first") from None
    except OSError:  # a file system without hard links
        refuse_target(target, overwrite=False)
        hidden.replace(target)
        return
    hidden.unlink()


def _refuse_directory(target: Path) -> None:
    if not target.name or target.name == "..":
        raise InputError(f"{target} cannot be used: the name of a new directory is needed")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; the name of a new directory is needed")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"the directory {target} is not empty; choose another name or remove it first")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be made: there is no directory {target.parent}")


@contextmanager
def _only_run(hidden: Path, target: Path) -> Iterator[None]:
    """Hold the hidden directory, made if need be; the lock goes with the process, however that ends."""
    try:
        hidden.mkdir(exist_ok=True)
        handle = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        raise InputError(f"{target} cannot be made: permission denied") from None
    try:
        if not _locked(handle, hidden):
            raise LabelDPError(f"another run is at work on {target}")
        yield
    finally:
        os.close(handle)


def _locked(handle: int, hidden: Path) -> bool:
    """Whether this process now holds the directory, and the directory still has its hidden name."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), hidden.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
