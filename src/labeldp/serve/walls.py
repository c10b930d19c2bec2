"""Walls around the vault: another user, no network, no look from outside. Nothing private is open when they rise."""

import ctypes
import os
import resource
import sys

_DUMPABLE, _NO_NEW_PRIVILEGES = 4, 38
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


class NoWalls(Exception):
    """A wall that was asked for could not be raised."""


def raise_walls(user: str | None) -> bool:
    """Take away from this process what it does not need; return whether it is cut off from the network.

    Args:
        user: whom to become; None to stay who it is, for a server without isolation.

    Raises:
        NoWalls: a wall that isolation asks for could not be raised.
    """
    cut = cut_network()
    if user is not None:
        if not cut:
            raise NoWalls("the vault could not be cut off from the network")
        become(user)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        _prctl(_NO_NEW_PRIVILEGES, 1)
        _prctl(_DUMPABLE, 0)  # last: another user makes a process dumpable again
    elif user is not None:
        raise NoWalls("isolation needs Linux")
    return cut


def become(user: str) -> None:
    """Become another user of the system for good, with that user's group alone.

    Raises:
        NoWalls: there is no such user, or this process may not.
    """
    import pwd

    try:
        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except (KeyError, OSError) as error:
        raise NoWalls(f"the server cannot become the user {user!r}: {error}") from None
    if os.getuid() != entry.pw_uid or entry.pw_uid == 0:
        raise NoWalls(f"{user!r} must be a user without privileges")


def cut_network() -> bool:
    """Leave the network for an empty one; return False where the system does not allow it."""
    if sys.platform != "linux":
        return False
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    return unshare(_NEW_NETWORK) == 0 or unshare(_NEW_USER | _NEW_NETWORK) == 0


def hide() -> None:
    """Keep other processes of the same user from reading the memory of this one."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        _prctl(_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise NoWalls("the system refused a wall around the vault")
