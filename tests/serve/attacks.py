"""Three attacks on a server from the same machine, and what is left for an analyst meanwhile.

    PYTHONPATH=tests python tests/serve/attacks.py

Without a token: 256 connections that send no head to its end, and 80 threads with wrong tokens. With a token: 24
uploads of 60 MB that do not end. All come from the user of this machine that the analyst is, too, which is the worst
case: peers are told apart by users or addresses.
"""

import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import labeldp as ldp
from labeldp.serve import ServerConnection
from serve.server import TOKENS, Server, labels

IDLE, THREADS, UPLOADS = 256, 80, 24

SIZE, SECONDS = 60_000_000, 15


def request(token: str, length: int) -> bytes:
    """The head of a request."""
    lines = ["POST /v1/budget HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", f"Content-Length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def flood(path: str) -> None:
    """Ask with wrong tokens until this process is ended."""

    def ask() -> None:
        while True:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as end:
                end.settimeout(60)
                end.connect(path)
                end.sendall(request("ldp_guess", 2) + b"{}")
                while end.recv(1 << 16):
                    pass

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def upload(path: str, ends: list[socket.socket]) -> None:
    """Send all but the end of a large request, and wait."""
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(20)
    ends.append(end)
    with suppress(OSError):
        end.connect(path)
        end.sendall(request(TOKENS["ana"], SIZE + 1) + b" " * SIZE)


def first_answer(server: Server) -> float:
    """Seconds until an analyst is answered."""
    began = time.monotonic()
    while True:
        with suppress(ldp.LabelDPError):
            ServerConnection(server.address, TOKENS["ben"], tries=1).ask("budget", {"dataset": "people"})
            return time.monotonic() - began
        time.sleep(0.02)


def answers(server: Server) -> str:
    """What an analyst sees for some seconds."""
    times, began = [first_answer(server)], time.monotonic()
    while time.monotonic() - began < SECONDS:
        times.append(first_answer(server))
    return f"{len(times) / SECONDS:.0f} answers a second, half within {1000 * statistics.median(times):.0f} ms"


def resident(process: int, name: str) -> float:
    """Megabytes of a process: VmRSS now, VmHWM at most."""
    [line] = [one for one in Path(f"/proc/{process}/status").read_text().splitlines() if one.startswith(name)]
    return int(line.split()[1]) / 1000


def main() -> None:
    """Attack, and print what is left."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as open_ends:
        limits = "quantum = 0.002\nrate = 1000000000"
        server = open_ends.enter_context(Server(Path(name) / "s", labels(), limits=limits))
        assert server.process is not None
        front, path = server.process.pid, server.address.removeprefix("unix:")
        print("nobody else:", answers(server))
        ends = [open_ends.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(IDLE)]
        for end in ends:
            end.connect(path)
            end.sendall(b"POST /v1/budget HTTP/1.1\r\n")
        print(f"{IDLE} idle connections: the first answer after {first_answer(server):.2f} s")
        for end in ends:
            end.close()
        time.sleep(2)
        flooding = subprocess.Popen([sys.executable, __file__, path])
        time.sleep(2)
        print(f"{THREADS} threads with wrong tokens:", answers(server))
        flooding.kill()
        flooding.wait()
        time.sleep(2)
        before, uploads = resident(front, "VmRSS"), list[socket.socket]()
        threads = [threading.Thread(target=upload, args=(path, uploads)) for _ in range(UPLOADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"{UPLOADS} uploads of 60 MB: the front takes {resident(front, 'VmHWM') - before:.0f} MB more")
        for end in uploads:
            end.close()


if __name__ == "__main__":
    flood(sys.argv[1]) if len(sys.argv) > 1 else main()
