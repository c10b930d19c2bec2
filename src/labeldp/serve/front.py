"""The front of a server: HTTP and limits, without private data. It passes requests to the vault, and answers back."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, final

from labeldp.privacy import InputError, LabelDPError
from labeldp.serve.config import NO_ISOLATION, NO_TOKEN, Analyst, Config, ServerLimits, analyst_of
from labeldp.serve.gate import PENALTY, Connection, Gate, Listener
from labeldp.serve.isolation import NotIsolated, become, check_private, hide
from labeldp.serve.log import KEY, LOG
from labeldp.serve.wire import CALLS, decoded, encoded, receive

_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TMPDIR")
"""What the vault is told of the environment."""

Scope = dict[str, Any]

Answer = tuple[int, bytes]
"""A status of HTTP, and a body of JSON."""

BUSY: Answer = (503, encoded({"error": "retry", "message": "the server is busy: try again"}))

BACKLOG = 256
"""How many connections the system accepts before the server has seen them."""


@final
class Pipe:
    """The front's end of the pipe to the vault: one request at a time.

    Args:
        end: a socket of which the vault has the other end.
        waiting: how many requests may wait.
    """

    def __init__(self, end: socket.socket, waiting: int) -> None:
        self._end, self._most = end, waiting
        self._lock, self._count = asyncio.Lock(), 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.is_open = True

    async def ask(self, head: dict[str, Any], body: bytes) -> Answer:
        """Return status and body of the vault's answer."""
        if not self.is_open or self._count >= self._most:
            return BUSY
        self._count += 1
        try:
            # A client that goes away must not tear a message in two.
            return await asyncio.shield(asyncio.ensure_future(self._asked(head, body)))
        finally:
            self._count -= 1

    async def _asked(self, head: dict[str, Any], body: bytes) -> Answer:
        async with self._lock:
            try:
                if self._streams is None:
                    self._streams = await asyncio.open_connection(sock=self._end, limit=1 << 20)
                reader, writer = self._streams
                start = encoded(head)
                writer.write(len(start).to_bytes(4, "big") + len(body).to_bytes(8, "big") + start)
                writer.write(body)
                await writer.drain()
                lengths = await reader.readexactly(12)
                answer = await reader.readexactly(int.from_bytes(lengths[:4], "big"))
                content = await reader.readexactly(int.from_bytes(lengths[4:], "big"))
            except (OSError, asyncio.IncompleteReadError):
                self.is_open = False
                return BUSY
            return int(decoded(answer)["status"]), content

    async def close(self) -> None:
        """Let the vault end, once all that was asked is answered."""
        async with self._lock:
            self.is_open = False
            if self._streams is None:
                self._end.close()
            else:
                self._streams[1].close()


def make_app(pipe: Pipe, gate: Gate, analysts: Mapping[str, Analyst], limits: ServerLimits) -> Any:
    """Return the ASGI application: every call is a POST of JSON with a bearer token."""

    async def answered(scope: Scope, receive: Callable[[], Any]) -> Answer | None:
        path, method = str(scope["path"]), str(scope["method"])
        call = path.removeprefix("/v1/")
        if path == "/v1/health":
            if method != "GET":
                return refused(405, "method", "this call is a GET")
            return (200, encoded({"status": "open"})) if pipe.is_open else BUSY
        if not path.startswith("/v1/") or call not in CALLS:
            return refused(404, "input", "there is no such call")
        if method != "POST":
            return refused(405, "method", "every call is a POST")
        connection: Connection = scope["state"]["connection"]
        token = _token(scope["headers"])
        analyst = analyst_of(token, analysts)
        if analyst is None:
            if not gate.failures.take(connection.peer):
                await asyncio.sleep(PENALTY)
            return refused(401, "token", NO_TOKEN)
        if not gate.requests.take(analyst.name):
            return refused(429, "rate", f"at most {limits.rate} requests in a minute")
        if not gate.admit(connection, analyst.name):
            return BUSY
        try:
            async with asyncio.timeout(limits.patience):
                body = await _body(scope["headers"], receive, partial(gate.hold, connection), limits.body)
        except TimeoutError:
            return refused(408, "slow", f"a request must be sent within {limits.patience:g} seconds")
        if not isinstance(body, bytes):
            return body
        answer = await pipe.ask({"call": call, "token": token}, body)
        connection.held = len(answer[1])
        return answer

    async def app(scope: Scope, receive: Callable[[], Any], send: Callable[[Scope], Any]) -> None:
        answer = await answered(scope, receive)
        if answer is not None:
            status, content = answer
            await send({"type": "http.response.start", "status": status, "headers": heads(status, content)})
            await send({"type": "http.response.body", "body": content})

    return app


def refused(status: int, kind: str, message: str) -> Answer:
    """Return the response of a refused request."""
    return status, encoded({"error": kind, "message": message})


def heads(status: int, content: bytes) -> list[tuple[bytes, bytes]]:
    """Return the heads of an answer."""
    again = [(b"retry-after", b"1")] if status in (429, 503) else []
    return [
        (b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"), (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"), *again,
    ]  # fmt: skip


def _token(headers: list[tuple[bytes, bytes]]) -> str:
    """Return the token of a request; empty where there is none or more than one."""
    values = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
    kind, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token if kind.lower() == "bearer" and len(token) <= 200 else ""


async def _body(
    headers: list[tuple[bytes, bytes]], receive: Callable[[], Any], hold: Callable[[int], bool], limit: int
) -> bytes | Answer | None:
    """Return the body of a request, its refusal once it is too long, or None if the client went away."""
    length = int(dict(headers).get(b"content-length", b"0")[:20])
    if length <= limit and not hold(length):
        return BUSY
    body, is_whole = bytearray(), length > limit
    while not is_whole:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        is_whole = len(body) > limit or not message.get("more_body")
        if len(body) > length and len(body) <= limit and not hold(len(body) - length):
            return BUSY
        length = max(length, len(body))
    return bytes(body) if length <= limit else refused(413, "size", f"a request has at most {limit} bytes")


def spawn_vault(path: Path, config: Config) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the vault as a separate process, and wait until it holds everything.

    The vault is a new process, not a fork, so it has none of the memory of this one. It imports only installed
    packages (`-I`): nothing from the working folder, and nothing that environment variables name.

    Raises:
        LabelDPError: the vault refuses to open; the sentence says why.
    """
    here, there = socket.socketpair()
    command = [sys.executable, "-I", "-m", "labeldp.serve.vault", str(path), str(there.fileno())]
    if config.vault is not None:
        command.append(config.vault)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    with there:
        vault = subprocess.Popen(
            command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, env=environment, start_new_session=True,
            cwd="/",
        )  # fmt: skip
    first = receive(here)
    if first is None or "ready" not in first[0]:
        vault.wait()
        raise LabelDPError(str(first[0].get("refused")) if first else "the vault ended before it was open")
    return vault, here


def check_isolation(config: Config, file: Path) -> None:
    """Refuse to start without the isolation that the configuration asks for.

    Args:
        config: the configuration.
        file: its path.

    Raises:
        InputError: the front and the vault would be the same user, and the configuration does not allow it; or another
            user than that of the vault may open its files.
    """
    if config.isolation == NO_ISOLATION:
        return
    if config.vault is None or config.front is None:
        raise InputError(
            "must name two users of the system, front and vault, and the server must be started as root: "
            f"otherwise an attacker in the front can read the labels. Without it: isolation = {NO_ISOLATION!r}",
            argument="isolation",
        )
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise InputError(
            f"asks for the users {config.front!r} and {config.vault!r}: start the server as root, which it gives up "
            f"at once, or write isolation = {NO_ISOLATION!r}",
            argument="isolation",
        )
    datasets = config.datasets.values()
    private = [config.state, config.state / LOG, config.state / KEY, *(dataset.ledger for dataset in datasets)]
    private += [dataset.labels for dataset in datasets]
    try:
        check_private(private, config.vault, config.front)
        check_private([] if config.key is None else [config.key], "root", config.front)
        check_private([file], "root", config.front, secret=False)
    except NotIsolated as error:
        raise InputError(f"cannot be kept: {error}", argument="isolation") from None


def serve(path: str | Path) -> int:
    """Run a server until it is stopped; return its exit status.

    Args:
        path: of the configuration.

    Raises:
        LabelDPError: the configuration, labels, ledgers or the log are not as they should be.
    """
    try:
        import uvicorn
    except ImportError:
        raise LabelDPError("a server needs more packages: pip install 'labeldp[serve]'") from None
    file = Path(path).absolute()
    config = Config.read(file)
    check_isolation(config, file)
    vault, end = spawn_vault(file, config)
    try:
        pipe, listener, context = Pipe(end, config.limits.waiting), listen(config), _tls(config)
        app = make_app(pipe, listener.gate, config.analysts, config.limits)
        server = _server(uvicorn, app, listener.gate, config.limits, context)
        if config.front is not None:
            become(config.front)
        hide()
    except (NotIsolated, OSError, ssl.SSLError) as error:
        end.close()
        raise LabelDPError(f"the server could not start: {error}") from None
    try:
        asyncio.run(_run(server, pipe, listener, vault))
    finally:
        end.close()
        if config.socket is not None:
            with suppress(OSError):
                config.socket.unlink()
    return vault.wait()


def listen(config: Config) -> Listener:
    """Return the socket that a server listens on; a Unix socket is open to everyone who may enter its folder."""
    path = config.socket
    if path is None:
        host, port = config.host
        kind = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = _listener(kind, config)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        return listener
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            if path.is_socket():  # a server that was killed left it
                path.unlink()
        else:
            raise OSError(f"another server listens on {path}")
    listener = _listener(socket.AF_UNIX, config)
    listener.bind(str(path))
    path.chmod(0o666)
    return listener


def _listener(kind: int, config: Config) -> Listener:
    listener = Listener(kind, socket.SOCK_STREAM)
    listener.gate = Gate(config.limits)
    return listener


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.certificate is None or config.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(config.certificate, config.key)
    return context


def _server(uvicorn: Any, app: Any, gate: Gate, limits: ServerLimits, context: ssl.SSLContext | None) -> Any:
    settings = uvicorn.Config(
        app, http=_protocol(gate, limits), ws="none", lifespan="off", log_level="error", access_log=False,
        server_header=False, date_header=False, proxy_headers=False, backlog=BACKLOG,
        timeout_graceful_shutdown=60, timeout_keep_alive=1,
    )  # fmt: skip
    settings.load()
    settings.ssl = context
    return uvicorn.Server(settings)


async def _run(server: Any, pipe: Pipe, listener: socket.socket, vault: subprocess.Popen[bytes]) -> None:
    """Answer until someone stops the server or the vault is gone."""

    async def watch() -> None:
        while pipe.is_open and vault.poll() is None and not server.should_exit:
            await asyncio.sleep(0.2)
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # what uvicorn raises again when all is answered must not end it here
    watching = asyncio.ensure_future(watch())
    await server.serve(sockets=[listener])
    watching.cancel()
    await pipe.close()


def _protocol(gate: Gate, limits: ServerLimits) -> Any:
    """Return uvicorn's HTTP in pure Python. It drops clients that send no complete head, or that do not read."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    base: Any = H11Protocol

    class Impatient(base):  # type: ignore[misc,unused-ignore]
        """Drops a client that sends or reads nothing for some time. The time of processing a request does not count."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._unread = 0
            self._look = self.loop.call_later(limits.patience, self._drop)
            connection = gate.connection(transport.get_extra_info("socket").fileno())
            self.app_state = {"connection": connection}
            if connection is None:
                transport.abort()

        def _drop(self) -> None:
            unread = self.transport.get_write_buffer_size()
            if (self.cycle is None or self.cycle.response_complete) and (not unread or unread == self._unread):
                self.transport.abort()
            self._unread = unread
            self._look = self.loop.call_later(limits.patience, self._drop)

        def connection_lost(self, exc: Exception | None) -> None:
            self._look.cancel()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            status, content = refused(400, "input", "this is no request of HTTP")
            try:
                for event in (
                    h11.Response(status_code=status, headers=heads(status, content), reason=b"Bad Request"),
                    h11.Data(data=content),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event))
                self.transport.close()
            except h11.LocalProtocolError:  # an answer has begun
                self.transport.abort()

    return Impatient
