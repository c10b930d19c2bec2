"""The analyst's side of a server: a curator of labels that are elsewhere."""

import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import Recorded, Subscribers, check_steps
from labeldp.mechanisms import Domain, Mechanism
from labeldp.privacy import (
    BudgetExceeded,
    Certificate,
    InputError,
    LabelDPError,
    PrivacyLoss,
    Public,
    RandomSource,
    Release,
    Request,
    SystemRandomness,
    even_if_refused,
)
from labeldp.serve.account import RemoteAccount
from labeldp.serve.wire import described, described_steps, encoded, order_digest, packed, unpacked, unpacked_rows

TRIES = 12
"""How often a request is sent that the server asks to send again, or that it did not answer."""

PATIENCE = 600.0
"""Seconds to wait for an answer."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@final
class ServerConnection:
    """A server, as an analyst with a token asks it.

    Args:
        address: "unix:PATH", "https://HOST:PORT", or "http://127.0.0.1:PORT" on this machine.
        token: the analyst's.
        certificate: a file of certificates that the server's is checked with; by default those of the system.
        tries: how often a request is sent before it is given up; the same request is charged once.

    Raises:
        InputError: another address, or no token.
    """

    def __init__(self, address: str, token: str, *, certificate: str | Path | None = None, tries: int = TRIES) -> None:
        if not isinstance(token, str) or not token.strip():
            raise InputError("must be the text that the owner of the data gave you", argument="token")
        self._address, self._token, self._certificate, self._tries = str(address), token.strip(), certificate, tries
        self._has_answered = False
        self._connection()

    def ask(self, call: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call; send it again where the server asks for that.

        Raises:
            BudgetExceeded: the analyst's share does not admit it; nothing was charged.
            InputError: the server refuses what was asked for; nothing was charged.
            LabelDPError: the server cannot be reached, or refuses the token.
        """
        body, wait = encoded(content), 0.05
        for _ in range(self._tries):
            try:
                status, answer = self._sent(call, body)
                self._has_answered = True
            except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
                if not self._has_answered:  # later the server may be starting again
                    raise LabelDPError(
                        f"no server is at {self._address}: {error.strerror}. Check the address, and that it runs"
                    ) from None
                problem = str(error)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = str(error) or type(error).__name__
            else:
                if answer.get("error") not in ("retry", "rate"):
                    return _checked(status, answer)
                problem = str(answer.get("message"))
            time.sleep(wait)
            wait = min(2 * wait, 5.0)
        raise LabelDPError(
            f"the server {self._address} gave no answer: {problem}. The same request later is charged once"
        )

    def _sent(self, call: str, body: bytes) -> tuple[int, dict[str, Any]]:
        connection = self._connection()
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request("POST", f"/v1/{call}", body, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            if not isinstance(answer, dict):
                raise ValueError("the answer is no object of JSON")
            return response.status, answer
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.startswith("unix:"):
            return _UnixConnection(self._address.removeprefix("unix:"), PATIENCE)
        url = urlsplit(self._address)
        if url.scheme == "https" and url.hostname:
            context = ssl.create_default_context(cafile=None if self._certificate is None else str(self._certificate))
            return http.client.HTTPSConnection(url.hostname, url.port, timeout=PATIENCE, context=context)
        if url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost", "::1"):
            return http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE)
        raise InputError(
            'must be "unix:PATH", "https://HOST:PORT", or "http://127.0.0.1:PORT" on this machine: a token goes over '
            "no network in the clear",
            argument="address",
        )

    @even_if_refused
    def __repr__(self) -> str:
        return f"ServerConnection({self._address!r})"


def _checked(status: int, answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer; raise what it says of an error."""
    if status == 200:
        return answer
    message = str(answer.get("message", f"status {status}"))
    kinds: dict[str, type[LabelDPError]] = {"budget": BudgetExceeded, "input": InputError}
    raise kinds.get(str(answer.get("error")), LabelDPError)(message)


def _part(answer: Any, name: str) -> Any:
    """Return a part of an answer; raise LabelDPError where a server sent none."""
    if not isinstance(answer, Mapping) or name not in answer:
        raise LabelDPError(f"the server sent an answer without {name!r}: check the address, and that versions agree")
    return answer[name]


def connect(
    address: str,
    *,
    token: str,
    dataset: str | None = None,
    ids: Iterable[Any] | None = None,
    run: str | None = None,
    reason: str = "",
    certificate: str | Path | None = None,
) -> "RemoteCurator":
    """Return the curator of a dataset that a server holds, for everything that takes a curator.

    Args:
        address: "unix:PATH", "https://HOST:PORT", or "http://127.0.0.1:PORT" on this machine.
        token: what the owner of the data gave you.
        dataset: its name; it may be left out where you have a share of one alone.
        ids: the record ids of your features, integers or texts, in their order: they are compared with those of the
            labels, whose rows must stand in the same order. Without them nobody notices another order.
        run: the name of a run of several releases, so that its stages are found again.
        reason: what you need the releases for; the owner reads it in the log.
        certificate: a file of certificates that the server's is checked with; by default those of the system.

    Raises:
        InputError: another address, not one dataset of this name, or other ids.
        LabelDPError: the server cannot be reached, or does not know the token.
    """
    server = ServerConnection(address, token, certificate=certificate)
    shares = {_part(entry, "dataset"): entry for entry in _part(server.ask("datasets", {}), "datasets")}
    name = next(iter(shares)) if dataset is None and len(shares) == 1 else dataset
    if name is None or name not in shares:
        listed = ", ".join(map(repr, shares)) or "none"
        raise InputError(f"must be one that you have a share of: {listed}", argument="dataset")
    about = shares[name]
    curator = RemoteCurator(
        server, name, Domain.from_json(_part(about, "domain")), int(_part(about, "records")), run, reason
    )
    if ids is not None:
        curator.check_ids(ids)
    return curator


@final
class RemoteCurator:
    """A curator whose labels a server holds; get one from `connect`.

    It is a `Curator` to everything that takes one. The server draws the noise, keyed to its own secret and to whoever
    asks, so `rng` is `SystemRandomness()`, of which nothing is taken: certificates say KEYED.

    Args:
        run, reason: see `connect`.
        splits: how the records of a part were chosen: parts, the part, and why they are public.

    Guarantee (labels_stay, same_bits): labels never leave the server; what is released is what a curator in its process
        would release to the same analyst, bit for bit, with the same charges.
    """

    def __init__(
        self,
        server: ServerConnection,
        dataset: str,
        domain: Domain,
        records: int,
        run: str | None = None,
        reason: str = "",
        splits: tuple[tuple[NDArray[Any], int, str], ...] = (),
    ) -> None:
        self._server, self._dataset, self._domain, self._records = server, dataset, domain, records
        self._run, self._reason, self._splits = run, reason, splits
        self._subscribers, self._rows = Subscribers(), np.arange(records)

    @property
    def records(self) -> int:
        """Number of records, which is public."""
        return self._records

    @property
    def domain(self) -> Domain:
        """The declared domain."""
        return self._domain

    @property
    def users(self) -> None:
        """None: servers protect each record by itself."""
        return None

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._dataset

    @property
    def budget(self) -> dict[str, Any]:
        """The guarantee of the dataset, and the used part of the analyst's share."""
        return self._server.ask("budget", {"dataset": self._dataset})

    def features(self) -> pa.Table:
        """Return the public columns that the server has next to the labels, in their order.

        They have the types of the server's file; columns of a CSV file are numbers or texts.

        Raises:
            InputError: it has none.
            LabelDPError: the answer is not as it should be.
        """
        pages: list[pa.Table] = []
        while (start := sum(page.num_rows for page in pages)) < self._records:
            answer = self._server.ask("features", {"dataset": self._dataset, "start": start})
            try:
                pages.append(unpacked_rows(answer["arrow"]))
            except (KeyError, ValueError):
                raise LabelDPError("the server sent features that are no table") from None
            if not pages[-1].num_rows or pages[-1].schema != pages[0].schema:
                raise LabelDPError("the server sent features that are no table")
        return pa.concat_tables(pages).combine_chunks()

    def check_ids(self, ids: Iterable[Any]) -> None:
        """Compare record ids with the ids of the labels.

        Args:
            ids: integers or texts, one for each record, in the order of one's features.

        Raises:
            InputError: they are others, or stand in another order.
        """
        order = _part(self.budget, "order")
        if order is None:
            raise InputError("must be left out: the server has labels without ids", argument="ids")
        if order_digest(ids) != order:
            raise InputError("must be the ids of the labels, in the order of their rows", argument="ids")

    def account(self, request: Request, records: int, ids: Iterable[Any] | None) -> RemoteAccount:
        """Return the share of the budget, as the account of a fit; see `RemoteAccount.of`."""
        return RemoteAccount.of(self, request, records, ids)

    def of_run(self, run: str) -> "RemoteCurator":
        """Return the same curator for a run of several releases; see `connect`."""
        return RemoteCurator(self._server, self._dataset, self._domain, self._records, run, self._reason, self._splits)

    def cost(self, mechanism: Mechanism) -> PrivacyLoss:
        """Return what a release would cost a label; see `Curator.cost`."""
        return mechanism.privacy_loss()

    def require(self, steps: Mapping[str, Mechanism]) -> None:
        """Raise BudgetExceeded if the analyst's share does not admit all these steps; see `Curator.require`.

        A server takes at most 256 steps and 16 different mechanisms.
        """
        check_steps(steps, self._domain)
        if steps:
            self._ask("require", described_steps(steps))

    def has_released(self, mechanism: Mechanism, *, step: str) -> bool:
        """Return whether such a release would be found again; see `Curator.has_released`."""
        return bool(_part(_part(self._ask("released", described_steps({step: mechanism})), "released"), step))

    def release(self, mechanism: Mechanism, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """Have the server charge a mechanism and draw from it; see `Curator.release`.

        Args:
            rng: `SystemRandomness()`: the noise is the server's.

        Raises:
            InputError: the mechanism does not fit, or the server does not know it; nothing was charged.
            BudgetExceeded: the analyst's share does not admit it; nothing was charged.
        """
        if not isinstance(mechanism, Mechanism):
            raise InputError("mechanism must be one, such as RandomizedResponse(domain=curator.domain, epsilon=1.0)")
        if not isinstance(rng, SystemRandomness):
            raise InputError(
                "must be SystemRandomness(): the server draws the noise, and no simulation", argument="rng"
            )
        mechanism.check_records(self._records)
        self._subscribers.before(step, mechanism)
        request = {"mechanism": described(mechanism), "step": step or "", "reason": self._reason}
        answer = self._ask("release", request)
        certificate = Certificate.from_json(_part(answer, "certificate"))
        restored = _part(answer, "restored")
        restored_mechanism = mechanism if restored is None else mechanism.restored(unpacked(restored, "restored"))
        release = Release(unpacked(_part(answer, "value"), "value"), certificate, restored_mechanism)
        self._subscribers.after(step, release, lambda: self._rows)
        return release

    def subscribe(
        self, callback: Callable[[Recorded], None], before: Callable[[str, Mechanism], None] = lambda *_: None
    ) -> AbstractContextManager[None]:
        """Call `callback` after each release while a body runs; see `Curator.subscribe`."""
        return self._subscribers.add(self._rows, callback, before)

    def certificate(self, charge: str) -> Certificate:
        """Return the certificate of an earlier release to the same analyst, by the id of its charge."""
        return Certificate.from_json(_part(self._ask("certificate", {"charge": charge}), "certificate"))

    def split(self, parts: Public[Any]) -> list["RemoteCurator"]:
        """Return one curator for each part of the records; see `Curator.split`."""
        if not isinstance(parts, Public):
            raise InputError('parts must be Public(array, why="…"): a split may not depend on private labels')
        numbers = np.asarray(parts.value)
        if numbers.shape != (self._records,) or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
            raise InputError("parts must be one non-negative integer for each record")
        numbers = numbers.astype(np.int64)
        curators = []
        for part, size in enumerate(np.bincount(numbers)):
            splits = (*self._splits, (numbers, part, parts.why))
            curators.append(
                RemoteCurator(self._server, self._dataset, self._domain, int(size), self._run, self._reason, splits)
            )
            curators[-1]._subscribers, curators[-1]._rows = self._subscribers, self._rows[numbers == part]
        return curators

    def limited(self, cap: int) -> tuple["RemoteCurator", NDArray[np.intp]]:
        """Refuse: a curator without users has one record of each."""
        raise InputError("a curator without users has one record of each: there is nothing to limit")

    def _ask(self, call: str, content: Mapping[str, Any]) -> dict[str, Any]:
        splits = [{"parts": packed(parts), "part": part, "why": why} for parts, part, why in self._splits]
        return self._server.ask(call, {"dataset": self._dataset, "run": self._run or "", "splits": splits, **content})

    @even_if_refused
    def __repr__(self) -> str:
        return f"RemoteCurator({self._dataset!r}, records={self._records}, domain={self._domain!r})"
