"""Limits of the front: connections, wrong tokens, and bytes of each peer and analyst."""

import socket
import struct
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, final

from labeldp.serve.config import ServerLimits

FAILURES = 60
"""How many wrong tokens of one peer in a minute are refused at once; later ones wait for `PENALTY`."""

PENALTY = 1.0
"""Seconds until a further wrong token is refused."""

KEPT = 4096
"""The most names of which an `Allowance` is remembered."""


@dataclass(eq=False)
class Connection:
    """An open connection.

    Args:
        socket: its socket.
        peer: who has the other end: a user of this machine, or an address of a network.
        analyst: whose token the request has; None until it was checked.
        held: bytes of its request or its answer in memory.
    """

    socket: socket.socket
    peer: str
    analyst: str | None = None
    held: int = 0


@final
class Allowance:
    """So many events in a minute for each name."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> bool:
        """Count an event; return False, and count nothing, where there were too many."""
        now = time.monotonic()
        left, then = self._left.pop(name, (self._rate, now))
        left = min(self._rate, left + (now - then) * self._rate / 60)
        self._left[name] = (left - (left >= 1), now)
        if len(self._left) > KEPT:
            del self._left[next(iter(self._left))]
        return left >= 1


@final
class Gate:
    """The open connections of a server, and what each peer and each analyst may take of it.

    A connection without a right token is dropped when there are too many: the oldest one of the peer with the most.
    So idle connections keep nobody out for longer than it takes to send a head.

    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._open: dict[int, Connection] = {}
        self.requests, self.failures = Allowance(limits.rate), Allowance(FAILURES)

    def enter(self, end: socket.socket) -> None:
        """Note a new connection; drop the oldest idle one of the busiest peer, where there are too many."""
        self._open = {number: one for number, one in self._open.items() if one.socket.fileno() == number}
        self._open[end.fileno()] = Connection(end, _peer(end))
        idle = [one for one in self._open.values() if one.analyst is None]
        [(peer, count)] = Counter(one.peer for one in idle).most_common(1)
        if count > 2 * self._limits.waiting or len(idle) > 4 * self._limits.waiting:
            oldest = next(one for one in idle if one.peer == peer)
            del self._open[oldest.socket.fileno()]
            with suppress(OSError):  # its other end was faster
                oldest.socket.shutdown(socket.SHUT_RDWR)

    def connection(self, number: int) -> Connection | None:
        """Return the connection with the number of a file; None where it was dropped."""
        return self._open.get(number)

    def admit(self, connection: Connection, analyst: str) -> bool:
        """Give a connection to an analyst; return False where the analyst has half of the places already."""
        if self._count(analyst) >= max(1, self._limits.waiting // 2):
            return False
        connection.analyst = analyst
        return True

    def hold(self, connection: Connection, more: int) -> bool:
        """Count bytes that a connection brings; return False where its analyst, or all, hold too many."""
        of_all = [one for one in self._open.values() if one.socket.fileno() >= 0]
        of_analyst = [one for one in of_all if one.analyst == connection.analyst]
        limit = self._limits.body
        if _held(of_analyst) + more > limit or _held(of_all) + more > 4 * limit:
            return False
        connection.held += more
        return True

    def _count(self, analyst: str) -> int:
        return sum(one.analyst == analyst for one in self._open.values() if one.socket.fileno() >= 0)


@final
class Listener(socket.socket):
    """A socket that shows each new connection to a gate before TLS begins."""

    gate: Gate

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        end, address = super().accept()
        self.gate.enter(end)
        return end, address


def _held(connections: list[Connection]) -> int:
    return sum(one.held for one in connections)


def _peer(end: socket.socket) -> str:
    """Return the user or the network that a connection comes from; of IPv6 a whole /64, which one machine may have."""
    try:
        if end.family == socket.AF_UNIX:
            peer = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return f"user {struct.unpack('3i', peer)[1]}"
        address = end.getpeername()[0]
        return str(ip_network((address.partition("%")[0], 64 if ":" in address else 32), strict=False))
    except (OSError, AttributeError):  # it is gone already, or the system does not say
        return ""
