"""Isolation of the vault: another user, no network, no look from outside. Nothing private is open before."""

import ctypes
import os
import resource
import shlex
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_DUMPABLE, _NO_NEW_PRIVILEGES = 4, 38
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


class NotIsolated(Exception):
    """The isolation that was asked for is not possible."""


def isolate(user: str | None) -> bool:
    """Take away from this process what it does not need; return whether it is cut off from the network.

    Args:
        user: whom to become; None to stay who it is, for a server without isolation.

    Raises:
        NotIsolated: what isolation asks for is not possible.
    """
    cut = cut_network()
    if user is not None:
        if not cut:
            raise NotIsolated("the vault could not be cut off from the network")
        become(user)
    hide()
    if user is not None and sys.platform != "linux":
        raise NotIsolated("isolation needs Linux")
    return cut


def become(user: str) -> None:
    """Become another user of the system for good, with that user's group alone.

    Raises:
        NotIsolated: there is no such user, or this process may not.
    """
    entry = _user(user)
    try:
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except OSError as error:
        raise NotIsolated(f"the server cannot become the user {user!r}: {error}") from None
    if os.getuid() != entry.pw_uid or entry.pw_uid == 0:
        raise NotIsolated(f"{user!r} must be a user without privileges")


def cut_network() -> bool:
    """Leave the network for an empty one; return False where the system does not allow it."""
    if sys.platform != "linux":
        return False
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    return unshare(_NEW_NETWORK) == 0 or unshare(_NEW_USER | _NEW_NETWORK) == 0


def hide() -> None:
    """Take from this process every way to more rights, and keep others of its user from reading its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        _prctl(_NO_NEW_PRIVILEGES, 1)
        _prctl(_DUMPABLE, 0)  # after `become`: another user makes a process dumpable again


def limit_memory(more: int) -> None:
    """Let this process take so many more bytes of addresses than it has now."""
    if sys.platform == "linux":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + more
        limit = resource.getrlimit(resource.RLIMIT_AS)[1]
        size = size if limit == resource.RLIM_INFINITY else min(size, limit)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def check_private(paths: Iterable[Path], owner: str, front: str, *, secret: bool = True) -> None:
    """Refuse files that someone else than their owner and root may open or replace.

    Args:
        paths: files and folders; what does not exist is left out, but for its folders.
        owner: the user whom they belong to.
        front: a user who must not be able to open them, which is tried.
        secret: whether others may not read them, either.

    Raises:
        NotIsolated: they may.
    """
    allowed, reader = {0, _user(owner).pw_uid}, _user(front)
    if reader.pw_uid in allowed:
        raise NotIsolated(f"{front!r} and {owner!r} are the same user")
    for path in paths:
        for file in dict.fromkeys((path, path.resolve(), *path.parents, *path.resolve().parents)):
            try:
                status = file.lstat()
            except FileNotFoundError:
                continue
            is_file, link = file in (path, path.resolve()), stat.S_ISLNK(status.st_mode)
            rights = 0 if link else status.st_mode & (0o077 if is_file and secret else 0o022)
            if status.st_uid not in allowed:
                raise NotIsolated(f"{file} belongs to neither {owner!r} nor root: run chown {owner} {_quoted(file)}")
            if rights and (is_file or not status.st_mode & stat.S_ISVTX):
                kind = "go-rwx" if is_file and secret else "go-w"
                raise NotIsolated(f"{file} is open to other users: run chmod {kind} {_quoted(file)}")
            if is_file and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                raise NotIsolated(f"{file} has another name, a hard link: remove it, or copy the file and use the copy")
        if secret and opens(path, reader):
            raise NotIsolated(
                f"{path} can be opened by {front!r}: take away what lets this user read it, such as an ACL"
            )


def opens(path: Path, user: Any) -> bool:
    """Return whether a user can open a path, by trying it as this user."""
    groups = os.getgroups()
    try:
        os.setgroups([])
        os.setegid(user.pw_gid)
        os.seteuid(user.pw_uid)
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        return True
    except OSError:
        return False
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _user(name: str) -> Any:
    import pwd

    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise NotIsolated(f"there is no user {name!r}") from None


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise NotIsolated("the system refused to isolate this process")
