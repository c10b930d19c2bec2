"""Outputs that appear whole or not at all."""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labeldp.privacy import InputError, LabelDPError
from labeldp.tables.reading import explain_full_disk


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = False, private: bool = False) -> Iterator[Path]:
    """Write a file where nobody sees it, and give it its name when it is whole.

    Where the system has files without a name (Linux), nothing of a killed process stays behind. Elsewhere the file is
    `.NAME.xxxxxxxx.partial` beside the target until it is whole, and a killed process leaves it.

    Args:
        path: where the file shall appear. Its directory must exist.
        overwrite: whether an existing file may be replaced; it stands untouched until the new one is whole.
        private: whether its owner alone may read the file when it is whole, too.

    Yields:
        The path to write to: an empty file on the same file system, to be opened in this process.

    Guarantee:
        `path` is never seen half-written: it appears, on disk, when the body ends without an error. After any
        error, Ctrl-C included, the hidden file is gone and what stood at `path` still stands. Until it is whole its
        owner alone can read it; then it has the mode of any new file.

    Raises:
        InputError: the directory does not exist or may not be written to, or `path` exists and
            `overwrite` is false, or it is not a regular file.
        LabelDPError: the disk is full.
    """
    target = Path(path)
    check_new_file(target, overwrite=overwrite)
    hidden = _beside(target)
    with explain_full_disk(str(target)):
        mode = 0o600 if private else _usual_mode(target) & 0o666
        handle, draft = _create(hidden, target)
        try:
            yield draft
            _set_mode(handle, mode)
            os.fsync(handle)
            if draft != hidden:
                _link(handle, draft, hidden)
            _appear(hidden, target, overwrite)
        except BaseException:
            with suppress(FileNotFoundError):
                hidden.unlink()
            raise
        finally:
            os.close(handle)
    sync(target.parent)


@contextmanager
def atomic_directory(path: str | os.PathLike[str], names: Collection[str]) -> Iterator[Path]:
    """Fill a directory under the hidden name `.NAME.partial` beside it, and give it its name when it is whole.

    Two runs at a time are refused. What a killed run left under the hidden name is removed when the next one begins.

    Args:
        path: where the directory shall appear; an empty directory may stand there already.
        names: the files that may stand in it, and no others.

    Yields:
        The hidden directory to fill, empty. Files in it should be written by `atomic_write`.

    Guarantee:
        `path` is never seen half-filled and holds nothing but regular files of `names`; after any error the hidden
        directory is gone. Until it is whole nobody but its owner can enter it. A directory that is not empty is never
        touched, nor a file that is not ours.

    Raises:
        InputError: `path` is a file or a directory that is not empty, its parent does not exist, or something else
            than what a run leaves stands under the hidden name.
        LabelDPError: another run is at work on it, or the disk is full.
    """
    target = Path(path)
    _refuse_directory(target)
    hidden = target.with_name(f".{target.name}.partial")
    with explain_full_disk(str(target)), _only_run(hidden, target) as handle:
        try:
            _clear(hidden, names)
            _refuse_strangers(hidden, ())
            yield hidden
            _refuse_strangers(hidden, names)
            for place in hidden.iterdir():
                sync(place)
            _set_mode(handle, _usual_mode(target))
            sync(hidden)
            _take_name(hidden, target)
        except BaseException:
            _clear(hidden, names)
            with suppress(OSError):
                hidden.rmdir()  # which is left where something in it is not ours
            raise
    sync(target.parent)


def check_new_file(target: Path, *, overwrite: bool) -> None:
    """Refuse a path that no file can be put at, before any work is done for it."""
    if not target.name or target.is_dir():
        raise InputError(f"{target} is a directory; the name of a file is needed")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: there is no directory {target.parent}")
    if len(os.fsencode(_beside(target).name)) > os.pathconf(target.parent, "PC_NAME_MAX"):
        raise InputError(f"{target} cannot be written: its name is too long")
    if not os.path.lexists(target):
        return
    if not target.is_file():
        raise InputError(f"{target} is not a regular file")
    if not overwrite:
        raise InputError(f"{target} exists already; choose another name or remove it first")


def lock_directory(folder: Path) -> int | None:
    """Hold a directory as the only process, made for its owner alone if need be.

    Returns:
        An open handle. The lock goes when it is closed, or with the process, however that ends. None where another
        process holds the directory, or removed it meanwhile.

    Raises:
        OSError: the directory cannot be made or opened, or is none.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None


def sync(path: Path) -> None:
    """Wait until a file or a directory is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _beside(target: Path) -> Path:
    """Return a hidden name that nobody else takes."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def _usual_mode(target: Path) -> int:
    """Return what this process leaves of a mode of 0777, read off an empty file beside the target.

    To ask the system for it (`os.umask`) is to change it for a moment, for all threads.
    """
    probe = _beside(target)
    try:
        handle = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o777)
    except PermissionError:
        raise InputError(f"{target} cannot be written: permission denied") from None
    try:
        return os.fstat(handle).st_mode & 0o777
    finally:
        os.close(handle)
        probe.unlink()


def _set_mode(handle: int, mode: int) -> None:
    """Give a file or a directory this mode; what else it has, such as the group of its files, stays."""
    with suppress(PermissionError):  # a file system without modes
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~0o777 | mode)


def _create(hidden: Path, target: Path) -> tuple[int, Path]:
    """Open an empty file for its owner alone, under the hidden name where it needs one; return handle and path."""
    try:
        handle = os.open(target.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
    except (AttributeError, OSError):  # a system or a file system without
        return os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), hidden
    draft = Path(f"/proc/self/fd/{handle}")
    if draft.exists():
        return handle, draft
    os.close(handle)
    return os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), hidden


def _link(handle: int, draft: Path, hidden: Path) -> None:
    """Give a file without a name the hidden one, or write a copy under it where the system refuses."""
    folder = os.open(hidden.parent, os.O_RDONLY)
    try:
        os.link(draft, hidden, src_dir_fd=folder, follow_symlinks=True)  # Python follows only where a folder is given
        return
    except OSError:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        os.close(folder)
    named = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with draft.open("rb") as source, os.fdopen(named, "wb") as copy:
        shutil.copyfileobj(source, copy)
        copy.flush()
        os.fchmod(named, mode)
        os.fsync(named)


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
        check_new_file(target, overwrite=False)
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


def _clear(hidden: Path, names: Collection[str]) -> None:
    """Remove what a run may have left: files of these names, and their drafts."""
    ours = re.compile(rf"{_any_of(names)}|\.{_any_of(names)}\.[0-9a-f]{{8}}\.partial")
    for place in hidden.iterdir():
        if ours.fullmatch(place.name) and (place.is_symlink() or place.is_file()):
            place.unlink()


def _any_of(names: Collection[str]) -> str:
    return f"({'|'.join(map(re.escape, names))})"


def _refuse_strangers(hidden: Path, names: Collection[str]) -> None:
    """Refuse everything but regular files of these names; nothing is removed."""
    for place in sorted(hidden.iterdir()):
        if place.name not in names or place.is_symlink() or not place.is_file():
            raise InputError(f"{place} is not of this run; look at it, and remove it before the command is run again")


def _take_name(hidden: Path, target: Path) -> None:
    try:
        hidden.rename(target)  # onto an empty directory, too
    except OSError:
        _refuse_directory(target)
        raise


@contextmanager
def _only_run(hidden: Path, target: Path) -> Iterator[int]:
    """Hold the hidden directory, made if need be."""
    problem = None
    try:
        handle = lock_directory(hidden)
    except PermissionError:
        problem = f"{target} cannot be made: permission denied"
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        problem = f"{hidden} is not a directory of labeldp; look at it, and remove it before the command is run again"
    if problem:
        raise InputError(problem)
    if handle is None:
        raise LabelDPError(f"another run is at work on {target}")
    try:
        with suppress(PermissionError):  # where an older version left it open
            os.fchmod(handle, 0o700)
        yield handle
    finally:
        os.close(handle)
