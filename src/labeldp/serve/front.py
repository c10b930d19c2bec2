"""The front of a server: HTTP, limits, and nothing private. It hands each request to the vault and its answer back."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from labeldp.privacy import InputError, LabelDPError
from labeldp.serve.config import NO_ISOLATION, Config, Limits
from labeldp.serve.walls import NoWalls, become, hide
from labeldp.serve.wire import CALLS, decoded, encoded, receive

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

_KEPT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TMPDIR")
"""What the vault is told of the environment."""

BUSY = (503, encoded({"error": "retry", "message": "the server is busy: try again"}))


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

    async def ask(self, head: dict[str, Any], body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body of the vault's answer."""
        if not self.is_open or self._count >= self._most:
            return BUSY
        self._count += 1
        try:
            # A client that goes away must not tear a message in two.
            return await asyncio.shield(asyncio.ensure_future(self._asked(head, body)))
        finally:
            self._count -= 1

    async def _asked(self, head: dict[str, Any], body: bytes) -> tuple[int, bytes]:
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


def make_app(pipe: Pipe, limits: Limits) -> "Starlette":
    """Return the application: every call is a POST of JSON with a bearer token."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    def answered(status: int, content: bytes) -> Response:
        headers = {"Connection": "close", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(content, status, headers, "application/json")

    def refused(status: int, kind: str, message: str) -> Response:
        return answered(status, encoded({"error": kind, "message": message}))

    async def health(request: "Request") -> Response:
        return answered(*((200, encoded({"status": "open"})) if pipe.is_open else BUSY))

    async def call(request: "Request") -> Response:
        name = request.path_params["call"]
        if name not in CALLS:
            return refused(404, "input", "there is no such call")
        token = _token(request)
        status, content = await pipe.ask({"call": "who", "token": token})
        if status != 200:
            return answered(status, content)
        try:
            async with asyncio.timeout(limits.patience):
                body = await _body(request, limits.body)
        except TimeoutError:
            return refused(408, "slow", f"a request must be sent within {limits.patience:g} seconds")
        if body is None:
            return refused(413, "size", f"a request has at most {limits.body} bytes")
        return answered(*await pipe.ask({"call": name, "token": token}, body))

    return Starlette(routes=[
        Route("/v1/health", health, methods=["GET"]),
        Route("/v1/{call}", call, methods=["POST"]),
    ])  # fmt: skip


def _token(request: "Request") -> str:
    """Return the token of a request; empty where there is none or more than one."""
    given = request.headers.getlist("authorization")
    kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token if kind.lower() == "bearer" and len(token) <= 200 else ""


async def _body(request: "Request", most: int) -> bytes | None:
    """Return the body of a request, None as soon as it is too long."""
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or int(length[:20]) > most:
        return None
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > most:
            return None
    return bytes(found)


def spawn_vault(path: Path, config: Config) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the vault as a process of its own, and wait until it holds everything.

    It is a new process and no fork of this one, and begins with nothing of its memory.

    Raises:
        LabelDPError: the vault refuses to open; the sentence says why.
    """
    here, there = socket.socketpair()
    command = [sys.executable, "-m", "labeldp.serve.vault", str(path), str(there.fileno())]
    if config.vault is not None:
        command.append(config.vault)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    with there:
        vault = subprocess.Popen(
            command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    first = receive(here)
    if first is None or "ready" not in first[0]:
        vault.wait()
        raise LabelDPError(str(first[0].get("refused")) if first else "the vault ended before it was open")
    return vault, here


def check_isolation(config: Config) -> None:
    """Refuse to start without the walls that the configuration asks for.

    Raises:
        InputError: the front and the vault would be the same user, and nobody said so.
    """
    if config.isolation == NO_ISOLATION:
        return
    if config.vault is None:
        raise InputError(
            "must name two users of the system, front and vault, and the server must be started as root: only then "
            f"nobody who takes over the front can read the labels. Without it: isolation = {NO_ISOLATION!r}",
            argument="isolation",
        )
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise InputError(
            f"asks for the users {config.front!r} and {config.vault!r}: start the server as root, which it gives up "
            f"at once, or write isolation = {NO_ISOLATION!r}",
            argument="isolation",
        )


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
    check_isolation(config)
    vault, end = spawn_vault(file, config)
    try:
        pipe, listener, context = Pipe(end, config.limits.waiting), listen(config), _tls(config)
        server = _server(uvicorn, make_app(pipe, config.limits), config.limits, context)
        if config.front is not None:
            become(config.front)
        hide()
    except (NoWalls, OSError, ssl.SSLError) as error:
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


def listen(config: Config) -> socket.socket:
    """Return the socket that a server listens on; a Unix socket is open to everybody who may enter its folder."""
    path = config.socket
    if path is None:
        host, port = config.host
        kind = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(kind, socket.SOCK_STREAM)
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
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o666)
    return listener


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.certificate is None or config.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(config.certificate, config.key)
    return context


def _server(uvicorn: Any, app: "Starlette", limits: Limits, context: ssl.SSLContext | None) -> Any:
    """Return uvicorn's server of the application."""
    settings = uvicorn.Config(
        app, http=_protocol(limits), lifespan="off", log_level="warning", access_log=False,
        server_header=False, date_header=False, limit_concurrency=4 * limits.waiting, proxy_headers=False,
        timeout_graceful_shutdown=60, timeout_keep_alive=1,
    )  # fmt: skip
    settings.load()
    settings.ssl = context
    return uvicorn.Server(settings)


async def _run(server: Any, pipe: Pipe, listener: socket.socket, vault: subprocess.Popen[bytes]) -> None:
    """Answer until somebody stops the server or the vault is gone."""

    async def watch() -> None:
        while pipe.is_open and vault.poll() is None and not server.should_exit:
            await asyncio.sleep(0.2)
        server.should_exit = True

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: None)  # what uvicorn raises again when all is answered must not end it here
    watching = asyncio.ensure_future(watch())
    await server.serve(sockets=[listener])
    watching.cancel()
    await pipe.close()


def _protocol(limits: Limits) -> Any:
    """Return uvicorn's HTTP in pure Python, with a client dropped whose head does not come, or who does not read."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    base: Any = H11Protocol

    class Impatient(base):  # type: ignore[misc,unused-ignore]
        """Drops a connection after so long, but for the time in which the vault works on its request."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._drop_unasked = self.loop.call_later(limits.patience, self._drop)

        def _drop(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._drop_unasked.cancel()
            super().connection_lost(exc)

    return Impatient
