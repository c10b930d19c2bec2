"""Walls around the vault, as a process that has them sees them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
ALONE = "import sys; from labeldp.serve.isolation import cut_network; sys.exit(not cut_network())"

SEEN = """
import ctypes, errno, os, socket, sys
from labeldp.serve.isolation import isolate
cut = isolate(sys.argv[1] or None)
prctl = ctypes.CDLL(None).prctl
print(os.getuid(), os.getgroups() == [], prctl(3, 0, 0, 0, 0), prctl(39, 0, 0, 0, 0), cut)
try:
    socket.socket().connect(("127.0.0.1", int(sys.argv[2])))
    print("connected")
except OSError as error:
    print(errno.errorcode.get(error.errno, "none"))
for path in sys.argv[3:]:
    try:
        open(path).close()
        print("opened")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


def seen(user: str, *paths: Path) -> list[str]:
    """What a process prints that is behind the walls, while this one listens on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-c", SEEN, user, port, *map(str, paths)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")


@pytest.mark.skipif(sys.platform != "linux", reason="walls are of Linux")
def test_nobody_looks_into_the_vault_and_it_reaches_no_network() -> None:
    first, network, *_ = seen("")
    _, _, dumpable, privileges, cut = first.split()
    assert (dumpable, privileges) == ("0", "1")
    assert cut == "False" or network != "connected"


@pytest.mark.skipif(sys.platform != "linux" or not ROOT, reason="only root becomes another user")
def test_another_user_cannot_open_what_is_roots(tmp_path: Path) -> None:
    import pwd

    if subprocess.run([sys.executable, "-c", ALONE], check=False).returncode:
        with pytest.raises(subprocess.CalledProcessError):
            seen("nobody")
        pytest.skip("a container that keeps its processes on its network: no vault starts behind walls here")
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    first, network, opened, *_ = seen("nobody", secret)
    assert first.split() == [str(pwd.getpwnam("nobody").pw_uid), "True", "0", "1", "True"]
    assert network != "connected" and opened == "EACCES"


@pytest.mark.skipif(sys.platform != "linux" or not ROOT, reason="only root becomes another user")
@pytest.mark.parametrize("user", ["root", "nobody-of-this-name"])
def test_a_user_with_privileges_or_of_no_name_is_refused(user: str) -> None:
    code = (
        "from labeldp.serve.isolation import NotIsolated, become\n"
        f"try: become({user!r})\nexcept NotIsolated as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert user in said
