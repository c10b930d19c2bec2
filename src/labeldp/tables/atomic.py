"""Write files and directories that appear complete or not at all."""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labeldp.privacy import InputError, LabelDPError, explain_full_disk


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = False, private: bool = False) -> Iterator[Path]:
    """Write a file under a hidden name, and give it its own when it is complete.

    If the system has files without a name (Linux), a killed process leaves nothing behind. Elsewhere the file is
    `.NAME.xxxxxxxx.partial` beside the target until it is complete, and a killed process leaves it.

    Args:
        path: path of the file. Its directory must exist.
        overwrite: whether an existing file may be replaced; it stays untouched until the new one is complete.
        private: whether only its owner may read the complete file.

    Yields:
        The path to write to: an empty file on the same file system, to be opened in this process.

    Guarantee (whole, clean, owner_only, mode):
        `path` is never seen half-written: it appears, on disk, when the body ends without an error. After any
        error, Ctrl-C included, the hidden file is gone and what stood at `path` still stands. Until it is whole its
        owner alone can read it; then it has the mode of any new file.

    Raises:
        InputError: the directory does not exist or may not be written to, `path` exists and `overwrite` is false, or
            `path` is not a regular file.
        LabelDPError: the disk is full.
    """
    target = Path(path)
    check_new_file(target, overwrite=overwrite)
    hidden = _beside(target)
    with explain_full_disk(str(target)):
        mode = 0o600 if private else usual_mode(target) & 0o666
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
def atomic_directory(path: str | os.PathLike[str], names: Collection[str], notes: str | None = None) -> Iterator[Path]:
    """Fill a directory under the hidden name `.NAME.partial` next to it, and give it its name when it is complete.

    Two runs at a time are refused. A new run removes what a killed run left under the hidden name, or with `notes` goes
    on with it.

    Args:
        path: path of the directory; an empty directory may exist there already.
        names: the paths within it that it may hold when it is complete, and no others.
        notes: a directory within it for notes on the work, by which a later run goes on; it is removed in the end.

    Yields:
        The hidden directory to fill. Files in it should be written by `atomic_write`.

    Guarantee (whole, clean, owner_only, untouched):
        `path` is never seen half-filled and holds nothing but regular files of `names`. After any error the hidden
        directory is gone; with `notes`, Ctrl-C leaves it like the end of the process does. Until it is whole nobody but
        its owner can enter it. A directory that is not empty is never touched, nor a file that is not ours.

    Raises:
        InputError: `path` is a file or a directory that is not empty, its parent does not exist, or something that no
            run wrote has the hidden name.
        LabelDPError: another run is at work on it, or the disk is full.
    """
    target = Path(path)
    _refuse_directory(target)
    hidden = target.with_name(f".{target.name}.partial")
    with explain_full_disk(str(target)), _only_run(hidden, target) as handle:
        content = _Content(hidden, names, notes)
        content.remove(drafts_only=notes is not None)
        content.refuse_others()
        try:
            yield hidden
            if notes is not None:
                shutil.rmtree(hidden / notes, ignore_errors=True)
            content.refuse_others()
            for entry in sorted(hidden.rglob("*"), reverse=True):
                sync(entry)
            _set_mode(handle, usual_mode(target))
            sync(hidden)
            try:
                hidden.rename(target)  # onto an empty directory, too
            except OSError:
                _refuse_directory(target)
                raise
        except BaseException as error:
            if notes is None or isinstance(error, Exception):
                content.remove()
                with suppress(OSError):
                    hidden.rmdir()  # stays if something in it is not ours
            raise
    sync(target.parent)


_DRAFT = re.compile(r"\.(.*)\.[0-9a-f]{8}\.partial")


class _Content:
    """What a run may leave in its hidden directory: files of these names, their drafts and folders, and notes."""

    def __init__(self, hidden: Path, names: Collection[str], notes: str | None) -> None:
        self._hidden, self._files, self._notes = hidden, set(map(Path, names)), notes
        self._folders = {folder for name in self._files for folder in name.parents}

    def _has(self, entry: Path, file: Path) -> bool:
        """Return whether an entry is one of a run, if a file is of this name."""
        folders = entry.is_dir() and not entry.is_symlink()
        return file.parts[0] == self._notes or file in (self._folders if folders else self._files)

    def refuse_others(self) -> None:
        """Raise InputError if there is anything but folders and regular files of a run; remove nothing."""
        for entry in sorted(self._hidden.rglob("*")):
            regular = not entry.is_symlink() and (entry.is_file() or entry.is_dir())
            if not regular or not self._has(entry, entry.relative_to(self._hidden)):
                raise InputError(
                    f"{entry} is not of this run; look at it, and remove it before the command is run again"
                )

    def remove(self, *, drafts_only: bool = False) -> None:
        """Remove drafts, or all that is of a run, and the folders that are empty then."""
        for entry in sorted(self._hidden.rglob("*"), reverse=True):
            file, draft = entry.relative_to(self._hidden), _DRAFT.fullmatch(entry.name)
            if (drafts_only and not draft) or not self._has(entry, file.with_name(draft[1]) if draft else file):
                continue
            if entry.is_dir() and not entry.is_symlink():
                with suppress(OSError):
                    entry.rmdir()
            else:
                entry.unlink()


def check_new_file(target: Path, *, overwrite: bool) -> None:
    """Raise InputError if no file can be created at a path, before any work is done for it."""
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
    """Lock a directory for this process; create it for its owner alone if it does not exist.

    Returns:
        An open handle; closing it, or the end of the process, frees the lock. None if another process holds the
        directory, or removed it meanwhile.

    Raises:
        OSError: the directory cannot be created or opened, or is not a directory.
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


def file_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, read by blocks; None if there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _beside(target: Path) -> Path:
    """Return a random hidden name next to a path."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def usual_mode(target: Path) -> int:
    """Return the mode that this process gives to new directories, read off an empty file next to the target.

    `os.umask` would change the mode for a moment, for all threads.
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
    """Set the permissions of a file or a directory; other bits, such as setgid, stay."""
    with suppress(PermissionError):  # a file system without permissions
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~0o777 | mode)


def _create(hidden: Path, target: Path) -> tuple[int, Path]:
    """Create an empty file for its owner alone, without a name or under the hidden one; return handle and path."""
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
    """Give a file without a name the hidden one; if the system refuses, write a copy under it."""
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
    """Rename to the target; without `overwrite`, refuse to replace a file that appeared there meanwhile."""
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


@contextmanager
def _only_run(hidden: Path, target: Path) -> Iterator[int]:
    """Create the hidden directory if it does not exist, and lock it."""
    try:
        handle = lock_directory(hidden)
    except PermissionError:
        raise InputError(f"{target} cannot be made: permission denied") from None
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise InputError(
            f"{hidden} is not a directory of labeldp; look at it, and remove it before the command is run again"
        ) from None
    if handle is None:
        raise LabelDPError(f"another run is at work on {target}")
    try:
        with suppress(PermissionError):  # where it was open to others before
            os.fchmod(handle, 0o700)
        yield handle
    finally:
        os.close(handle)
