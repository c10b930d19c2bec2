"""The adversary's list: what comes through the door of a running server, and what is seen from outside of it."""

import asyncio
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

import labeldp as ldp
from labeldp.serve import Analyst, ServerConnection, ServerLimits, connect, hashed
from labeldp.serve.front import Pipe, make_app
from labeldp.serve.gate import FAILURES, PENALTY, Connection, Gate
from labeldp.serve.wire import described, encoded
from serve.server import CLASSES, TOKENS, Server, labels

PLANTED = "planted-id-7c1e9f"

PATIENCE = 1.0

RELEASE = encoded(
    {
        "dataset": "people",
        "mechanism": described(ldp.RandomizedResponse(domain=ldp.Classes(CLASSES), epsilon=1)),
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    limits = f"quantum = 0.002\nbody = 100000\npatience = {PATIENCE}\nwaiting = 8\nrate = 100000"
    one = Server(tmp_path_factory.mktemp("front") / "s", labels(), limits=limits)
    file = one.folder / "labels.csv"
    file.write_text(file.read_text().replace("\n100,", f"\n{PLANTED},"))
    with one:
        yield one


def said(server: Server, *parts: bytes) -> bytes:
    """What the server says to these bytes, all of it until it closes the connection."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(20)
        one.connect(str(server.folder / "door.sock"))
        found = b""
        with suppress(ConnectionError):  # it may close before it has read everything
            for part in parts:
                one.sendall(part)
        with suppress(ConnectionError):
            while more := one.recv(1 << 16):
                found += more
        return found


def request(path: str = "/v1/release", *headers: str, body: bytes = RELEASE, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: door", *headers]
    if not any(each.lower().startswith(("content-length", "transfer-encoding")) for each in headers):
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


ANA, BEN = (f"Authorization: Bearer {TOKENS[who]}" for who in ("ana", "ben"))

CHUNK = b"186a0\r\n" + b"x" * 100_000 + b"\r\n"

LIST: dict[str, tuple[list[bytes], int]] = {
    "no token": ([request()], 401),
    "a wrong token": ([request("/v1/release", "Authorization: Bearer ldp_guess")], 401),
    "another kind of token": ([request("/v1/release", f"Authorization: Basic {TOKENS['ana']}")], 401),
    "two tokens": ([request("/v1/release", ANA, BEN)], 401),
    "a token twice": ([request("/v1/release", ANA, ANA)], 401),
    "a token in the address": ([request(f"/v1/release?token={TOKENS['ana']}")], 401),
    "a long token": ([request("/v1/release", "Authorization: Bearer " + "a" * 5000)], 401),
    "a token of bytes": ([request("/v1/release", "Authorization: Bearer \xff\xfe")], 401),
    "somebody else's name in a head": ([request("/v1/budget", BEN, "X-Forwarded-User: ana", body=b"{}")], 400),
    "the vault's own call": ([request("/v1/who", ANA)], 404),
    "an unknown call": ([request("/v1/labels", ANA)], 404),
    "a path upwards": ([request("/v1/../../etc/passwd", ANA)], 404),
    "a path upwards in disguise": ([request("/v1/%2e%2e/state/log.jsonl", ANA)], 404),
    "a slash more": ([request("/v1/budget/", ANA)], 404),
    "a path with a NUL": ([request("/v1/release%00", ANA)], 404),
    "another method": ([request("/v1/release", ANA, method="GET", body=b"")], 405),
    "a method of one's own": ([request("/v1/release", ANA, method="RELEASE")], 405),
    "a body of 10 GB": ([request("/v1/release", ANA, "Content-Length: 10000000000", body=b"x")], 413),
    "a body of no length": ([request("/v1/release", ANA, "Content-Length: -1")], 400),
    "two lengths": ([request("/v1/release", ANA, "Content-Length: 5", "Content-Length: 6")], 400),
    "chunks without end": ([request("/v1/release", ANA, "Transfer-Encoding: chunked", body=CHUNK), CHUNK, CHUNK], 413),
    "a million brackets": ([request("/v1/release", ANA, body=b"[" * 99_000)], 400),
    "no JSON": ([request("/v1/release", ANA, body=b"\x00\xff")], 400),
    "no dataset": ([request("/v1/release", ANA, body=b"{}")], 400),
    "another's dataset": ([request("/v1/release", ANA, body=b'{"dataset": "../people"}')], 404),
    "a dataset as a number": ([request("/v1/budget", ANA, body=b'{"dataset": 1e400}')], 400),
    "a head without end": ([b"POST /v1/release HTTP/1.1\r\n" + b"X: " + b"a" * 200_000], 400),
    "no HTTP": ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"], 400),
}


@pytest.mark.parametrize("trick", LIST)
def test_what_the_adversary_sends_is_refused_and_charges_nothing(trick: str, server: Server) -> None:
    before = len(server.ledger().charges)
    parts, status = LIST[trick]
    answer = said(server, *parts)
    assert int(re.match(rb"HTTP/1.1 (\d+)", answer)[1]) == status  # type: ignore[index]
    assert not any(token.encode() in answer for token in TOKENS.values())
    assert b"Traceback" not in answer and b"/tmp" not in answer
    heads, _, content = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in heads and set(json.loads(content)) == {"error", "message"}
    assert b"location" not in heads.lower()
    assert len(server.ledger().charges) == before


def test_a_request_that_is_replayed_is_the_same_answer_and_anothers_is_not(server: Server) -> None:
    first, again, other = (said(server, request("/v1/release", who)) for who in (ANA, ANA, BEN))
    assert first == again and first.startswith(b"HTTP/1.1 200")
    assert json.loads(first.partition(b"\r\n\r\n")[2])["value"] != json.loads(other.partition(b"\r\n\r\n")[2])["value"]
    assert len(server.ledger().charges) == 2


def test_slow_clients_are_dropped(server: Server) -> None:
    began = time.monotonic()
    assert said(server, b"POST /v1/release HTTP/1.1\r\nHo") == b""  # the head never ends
    late = said(server, request("/v1/release", ANA, "Content-Length: 900", body=b"{"))
    assert late.startswith(b"HTTP/1.1 408")
    assert PATIENCE < time.monotonic() - began < 8 * PATIENCE


def test_idle_connections_keep_nobody_out(server: Server) -> None:
    idle = []
    try:
        for _ in range(256):
            idle.append(socket.socket(socket.AF_UNIX))
            idle[-1].connect(str(server.folder / "door.sock"))
            idle[-1].sendall(b"POST /v1/release HTTP/1.1\r\n")
        began = time.monotonic()
        assert server.curator().budget["dataset"] == "people"
        assert time.monotonic() - began < PATIENCE
    finally:
        for each in idle:
            each.close()


def test_an_analyst_has_so_many_bytes_and_places_at_one_time(server: Server) -> None:
    ends = []
    try:
        for count in (60_000, 30_000):
            ends.append(socket.socket(socket.AF_UNIX))
            ends[-1].connect(str(server.folder / "door.sock"))
            ends[-1].sendall(request("/v1/release", ANA, f"Content-Length: {count}", body=b"{"))
        time.sleep(PATIENCE / 5)
        for more in (["Content-Length: 20000"], ["Transfer-Encoding: chunked"]):
            refusal = said(server, request("/v1/release", ANA, *more, body=b"4e20\r\n" + b" " * 20_000 + b"\r\n"))
            assert refusal.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in refusal
        assert said(server, request("/v1/budget", ANA)).startswith(b"HTTP/1.1 200")
        assert said(server, request("/v1/budget", BEN, body=RELEASE + b" " * 40_000)).startswith(b"HTTP/1.1 200")
        for _ in range(2):
            ends.append(socket.socket(socket.AF_UNIX))
            ends[-1].connect(str(server.folder / "door.sock"))
            ends[-1].sendall(request("/v1/release", ANA, "Content-Length: 1", body=b""))
        time.sleep(PATIENCE / 5)
        assert said(server, request("/v1/budget", ANA)).startswith(b"HTTP/1.1 503")  # four of eight places are taken
        assert said(server, request("/v1/budget", BEN)).startswith(b"HTTP/1.1 200")
    finally:
        for each in ends:
            each.close()


def test_uploads_that_end_early_leave_no_trace(tmp_path: Path) -> None:
    one = Server(tmp_path / "s", labels())
    with one:
        for cut in (
            request("/v1/release", ANA, "Content-Length: 900", body=b"{"),
            request("/v1/release", ANA, "Transfer-Encoding: chunked", body=b"zz"),
            b"POST /v1/release HT",
            b"\x16\x03\x01",
        ):
            with socket.socket(socket.AF_UNIX) as end:
                end.connect(str(one.folder / "door.sock"))
                end.sendall(cut)
        one.curator()
        assert one.stop() == ""


def answer(app: Any, token: str, connection: Connection, path: str = "/v1/budget") -> int:
    """The status that the application answers with."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope = {"path": path, "method": "POST", "headers": headers, "state": {"connection": connection}}
    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


def test_wrong_tokens_never_reach_the_vault_and_too_many_are_answered_late(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    with here, there:
        limits, pipe = ServerLimits(rate=3), Pipe(here, 8)
        asked, slept = [], []

        async def ask(self: Pipe, head: dict[str, Any], body: bytes) -> tuple[int, bytes]:
            asked.append(head["call"])
            return 200, b"{}"

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        monkeypatch.setattr(Pipe, "ask", ask)
        monkeypatch.setattr("asyncio.sleep", sleep)
        app = make_app(pipe, Gate(limits), {"ana": Analyst("ana", hashed("right"))}, limits)
        peer = Connection(there, "user 1")
        assert {answer(app, "wrong", peer) for _ in range(FAILURES)} == {401} and not slept
        assert answer(app, "wrong", peer) == 401 and slept == [PENALTY]
        assert answer(app, "wrong", Connection(there, "user 2")) == 401 and slept == [PENALTY]
        assert not asked
        assert [answer(app, "right", peer) for _ in range(5)] == [200, 200, 200, 429, 429]
        assert asked == ["budget"] * 3 and slept == [PENALTY]


def test_the_oldest_idle_connection_of_the_busiest_peer_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = iter("abaaa")
    monkeypatch.setattr("labeldp.serve.gate._peer", lambda end: next(peers))
    gate, pairs = Gate(ServerLimits(waiting=1, body=100)), [socket.socketpair() for _ in range(5)]
    connections = []
    for end, _ in pairs:
        gate.enter(end)
        connections.append(gate.connection(end.fileno()))
    assert [gate.connection(end.fileno()) is not None for end, _ in pairs] == [False, True, False, True, True]
    assert pairs[0][1].recv(1) == b""
    first, second = connections[1], connections[4]
    assert first is not None and second is not None
    assert gate.admit(first, "ana") and not gate.admit(second, "ana") and gate.admit(second, "ben")
    assert gate.hold(first, 90) and not gate.hold(first, 20) and gate.hold(second, 20)
    for end in (end for pair in pairs for end in pair):
        end.close()
    assert gate.admit(Connection(pairs[0][0], "c"), "ana")  # what was closed counts no more


def test_a_module_in_the_working_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "tomllib.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(9)\n")
    one = Server(tmp_path / "s", labels())
    try:
        one.start(tmp_path).wait()
    finally:
        one.__exit__()
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="of Linux")
def test_neither_process_gets_new_rights_and_the_memory_of_the_vault_is_bounded(server: Server) -> None:
    assert server.process is not None
    for process in (server.process.pid, server.vault()):
        assert "NoNewPrivs:\t1" in Path(f"/proc/{process}/status").read_text()
    [line] = [each for each in Path(f"/proc/{server.vault()}/limits").read_text().splitlines() if "address" in each]
    soft, hard = line.split()[3:5]
    assert soft == hard and 1 << 31 < int(soft) < 1 << 35
    assert os.readlink(f"/proc/{server.vault()}/cwd") == "/"


def memory(process: int) -> Iterator[bytes]:
    """What a process has in memory, piece by piece."""
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as found:
        for line in maps:
            place, rights = line.split()[:2]
            low, high = (int(each, 16) for each in place.split("-"))
            if rights.startswith("rw"):
                try:
                    found.seek(low)
                    yield found.read(high - low)
                except (OSError, ValueError, OverflowError):
                    continue


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may read a memory")
def test_the_front_has_no_record_in_memory_and_the_vault_is_another_process(server: Server) -> None:
    server.curator().budget  # noqa: B018
    assert server.process is not None
    front, vault = server.process.pid, server.vault()
    needle = PLANTED.encode()
    try:
        found = any(needle in part for part in memory(vault))
    except PermissionError:
        pytest.skip("a container in which even root may not read the memory of another process")
    assert found  # so that the next line could fail
    assert not any(needle in part for part in memory(front))
    opened = {os.readlink(f"/proc/{front}/fd/{each}") for each in os.listdir(f"/proc/{front}/fd")}
    assert not any(name in each for each in opened for name in ("labels.csv", "people.db", "log"))
    assert PLANTED not in Path(f"/proc/{vault}/cmdline").read_text() + Path(f"/proc/{vault}/environ").read_text()


def test_the_folder_shows_nothing_to_others(server: Server) -> None:
    for file in (server.folder / "state", server.folder / "people.db", *(server.folder / "state").iterdir()):
        assert file.stat().st_mode & 0o077 == 0
    assert PLANTED not in (server.folder / "state" / "log.jsonl").read_text()


def test_a_second_server_of_the_same_folder_does_not_start(server: Server, tmp_path: Path) -> None:
    other = Server.__new__(Server)
    other.folder, other.process, other.address = server.folder, None, server.address
    assert "in use by another server" in other.start().refusal()


def test_a_file_that_is_no_socket_is_left_as_it_is(tmp_path: Path) -> None:
    one = Server(tmp_path / "s", labels())
    (one.folder / "door.sock").write_text("mine")
    assert "could not start" in one.start().refusal()
    assert (one.folder / "door.sock").read_text() == "mine"


def test_a_network_address_of_this_machine_works_too(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one = Server(tmp_path / "s", labels())
    file = one.folder / "serve.toml"
    file.write_text(file.read_text().replace("unix:door.sock", f"127.0.0.1:{port}"))
    one.address = f"http://127.0.0.1:{port}"
    with one:
        curator = connect(f"http://127.0.0.1:{port}", token=TOKENS["ana"], reason="a test")
        mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
        assert len(curator.release(mechanism, rng=ldp.SystemRandomness()).value) == 300
        for address in (f"http://example.org:{port}", "ftp://x", "people"):
            with pytest.raises(ldp.privacy.InputError, match="address"):
                connect(address, token="t")


def certified(folder: Path) -> None:
    """Write a certificate of this machine for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = builder.sign(key, hashes.SHA256())
    plain = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "tls.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "tls.key").write_bytes(key.private_bytes(*plain))


def test_with_a_certificate_it_speaks_tls_and_nothing_in_the_clear(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one = Server(tmp_path / "s", labels(), top='certificate = "tls.pem"\nkey = "tls.key"')
    certified(one.folder)
    file = one.folder / "serve.toml"
    file.write_text(file.read_text().replace("unix:door.sock", f"127.0.0.1:{port}"))
    one.start()
    try:
        curator = None
        for _ in range(200):
            with suppress(ldp.LabelDPError):
                door = ServerConnection(
                    f"https://localhost:{port}", TOKENS["ana"], certificate=one.folder / "tls.pem", tries=1
                )
                curator = door.ask("datasets", {})["datasets"][0]
                break
            time.sleep(0.1)
        assert curator is not None and curator["dataset"] == "people"
        with pytest.raises(ldp.LabelDPError, match="CERTIFICATE_VERIFY_FAILED"):
            ServerConnection(f"https://localhost:{port}", TOKENS["ana"], tries=1).ask("datasets", {})
        with pytest.raises(ldp.LabelDPError, match="no answer"):
            ServerConnection(f"http://127.0.0.1:{port}", TOKENS["ana"], tries=1).ask("datasets", {})
    finally:
        one.__exit__()


def test_a_stop_answers_what_was_asked_and_leaves_nothing(tmp_path: Path) -> None:
    one = Server(tmp_path / "s", labels())
    with one:
        one.curator()
        assert one.stop() == ""
    assert one.process is not None and one.process.returncode == 0
    assert not (one.folder / "door.sock").exists()
    assert "stop" in (one.folder / "state" / "log.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("who", ["front", "vault"])
def test_where_one_of_the_two_is_killed_the_other_ends_and_the_next_start_goes_on(tmp_path: Path, who: str) -> None:
    one = Server(tmp_path / "s", labels())
    with one:
        curator = one.curator()
        mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
        first = curator.release(mechanism, rng=ldp.SystemRandomness())
        assert one.process is not None
        vault = one.vault()
        os.kill(one.process.pid if who == "front" else vault, 9)
        one.process.wait(timeout=30)
        for _ in range(300):
            if not Path(f"/proc/{vault}").exists() or "Z" in Path(f"/proc/{vault}/stat").read_text().split()[2]:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the vault outlives its front")
    with one:
        again = one.curator().release(mechanism, rng=ldp.SystemRandomness())
    assert (first.value == again.value).all() and first.certificate == again.certificate


def test_a_server_that_cannot_open_says_why_and_no_label(tmp_path: Path) -> None:
    for name, values in (("a", ["no", PLANTED] * 5), ("b", ["no", ""] * 5)):
        refusal = Server(tmp_path / name, values).start().refusal()
        assert "Some labels are missing or not among the 3 classes" in refusal and PLANTED not in refusal
