"""What a server holds and whom it answers, from a file of TOML."""

import hashlib
import hmac
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from string import hexdigits
from typing import Any

from labeldp.mechanisms import MECHANISMS, Classes, Domain, Interval
from labeldp.privacy import Budget, InputError, did_you_mean

NO_ISOLATION = "none: an attacker who takes over the front can read the labels"
"""What a configuration must say in these words where the front and the vault are not to be kept apart."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

NO_TOKEN = "this token is not known here, or not any more"

TOKEN = "ldp_"
"""What every token begins with, so that it is recognized where it should not be."""


@dataclass(frozen=True)
class Analyst:
    """Someone who may ask.

    Args:
        name: their name, which is part of the identity of their requests; tokens may change.
        token: a salt and the SHA-256 of salt and token, as `hashed` writes them.
        expires: the moment from which on the token is refused; None for never.
    """

    name: str
    token: str = field(repr=False)
    expires: datetime | None = None

    def knows(self, token: str, now: datetime) -> bool:
        """Return whether a token is this analyst's; the time that it takes does not depend on how much is right."""
        salt, _, digest = self.token.partition(":")
        same = hmac.compare_digest(_digest(salt, token), digest)
        return same and (self.expires is None or now < self.expires)


@dataclass(frozen=True)
class DatasetConfig:
    """A dataset of a server.

    Args:
        name: its name, in the ledger as well.
        labels, label, id: the file, its column of labels, and that of record ids; None for row numbers.
        domain: the declared domain.
        budget: of all releases together.
        ledger: the ledger file.
        mechanisms: names of those that are allowed.
        shares: of each analyst, as decimals.
        features: columns beside the labels that are public: analysts get them.
    """

    name: str
    labels: Path
    label: str
    id: str | None
    domain: Domain
    budget: Budget
    ledger: Path
    mechanisms: tuple[str, ...]
    shares: Mapping[str, str]
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServerLimits:
    """What a server bounds, so that no one can exhaust it.

    Args:
        body: bytes of a request; the requests and answers of one analyst together hold as many, those of all four
            times as many.
        waiting: requests that wait for the vault at one time, half of them of one analyst. Connections without a right
            token are dropped above twice as many of one peer, and four times as many of all.
        rate: requests of one analyst in a minute.
        patience: seconds in which a client must have sent a request.
        quantum: seconds; an answer leaves at a multiple of it that public sizes fix, or a later one.
        cells: numbers and records that are worked on in one quantum.
        memory: bytes that the vault may take beyond what it has once all labels are open.
    """

    body: int = 64 << 20
    waiting: int = 64
    rate: int = 600
    patience: float = 30.0
    quantum: float = 0.05
    cells: int = 200_000
    memory: int = 2 << 30


@dataclass(frozen=True)
class Config:
    """A server: what `labeldp serve CONFIG.toml` reads.

    Args:
        address: "unix:PATH", or "HOST:PORT".
        state: a folder that only the vault may open, for the log and its key.
        datasets, analysts: by name.
        limits: see `ServerLimits`.
        isolation: None, where the front and the vault run as `front` and `vault`; or `NO_ISOLATION`.
        front, vault: users of the system.
        certificate, key: files of a TLS certificate and its key, for addresses beyond this machine.
    """

    address: str
    state: Path
    datasets: Mapping[str, DatasetConfig]
    analysts: Mapping[str, Analyst]
    limits: ServerLimits = ServerLimits()
    isolation: str | None = None
    front: str | None = None
    vault: str | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def socket(self) -> Path | None:
        """The path of the Unix socket; None for an address of a network."""
        return Path(self.address.removeprefix("unix:")) if self.address.startswith("unix:") else None

    @property
    def host(self) -> tuple[str, int]:
        """Host and port of a network address."""
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)

    @classmethod
    def read(cls, path: str | Path) -> "Config":
        """Read a configuration; paths in it begin at its folder.

        Raises:
            InputError: it cannot be read, or says something that does not fit; the sentence names the place.
        """
        file = Path(path).absolute()
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f": {file} cannot be read: {error.strerror if isinstance(error, OSError) else error}", argument="config"
            ) from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f": {file} is not TOML: {error}", argument="config") from None
        return _config(content, file.parent)


def analyst_of(token: str, analysts: Mapping[str, Analyst]) -> Analyst | None:
    """Return whose token it is; None for no one's."""
    now = datetime.now(UTC)
    matching = [analyst for analyst in analysts.values() if analyst.knows(token, now)]  # all are compared
    return matching[0] if len(matching) == 1 else None


def new_token() -> str:
    """Return a new token of 256 random bits."""
    return TOKEN + secrets.token_urlsafe(32)


def check_analyst(name: str) -> None:
    """Raise InputError unless a configuration and the log can hold a name."""
    if not name.isprintable() or not name.strip():
        raise InputError("must be a name of printable characters", argument="analyst")


def hashed(token: str) -> str:
    """Return what a configuration holds of a token: a salt and a digest, from which no one finds the token."""
    salt = secrets.token_hex(16)
    return f"{salt}:{_digest(salt, token)}"


def _digest(salt: str, token: str) -> str:
    return hashlib.sha256(f"{salt}:{token}".encode("utf-8", "surrogatepass")).hexdigest()


class _Table:
    """A table of TOML, whose entries are taken one by one; what is left over is refused."""

    def __init__(self, content: Any, path: str) -> None:
        if not isinstance(content, dict):
            raise InputError("must be a table", argument=path)
        self._content, self._path = dict(content), path
        self._names: list[str] = []

    def take(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """Return an entry of a type."""
        self._names.append(name)
        value = self._content.pop(name, default)
        if value is ...:
            raise InputError("is missing", argument=self._called(name))
        wanted = kind if isinstance(kind, tuple) else (kind,)
        if value is not default and (not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)):
            words = " or ".join(accepted.__name__ for accepted in wanted)
            raise InputError(f"must be of type {words}", argument=self._called(name))
        return value

    def take_tables(self, name: str) -> dict[str, Any]:
        """Return a table of tables."""
        return dict(self.take(name, dict, {}))

    def _called(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def close(self) -> None:
        """Refuse what was not taken."""
        for name in self._content:
            raise InputError(
                f"is not known; {did_you_mean(name, self._names) or 'remove it'}", argument=self._called(name)
            )


def _config(content: Any, folder: Path) -> Config:
    table = _Table(content, "")
    isolation = table.take("isolation", (str, dict), {})
    users: dict[str, Any] = {"isolation": None}
    if isinstance(isolation, str):
        if isolation != NO_ISOLATION:
            raise InputError(
                f"must be a table with front and vault, or the words {NO_ISOLATION!r}", argument="isolation"
            )
        users = {"isolation": isolation}
    elif isolation:
        inner = _Table(isolation, "isolation")
        users |= {name: inner.take(name, str) for name in ("front", "vault")}
        inner.close()
        if users["front"] == users["vault"]:
            raise InputError("must be two users: else the front may read what the vault may", argument="isolation")
    analysts = {name: _analyst(name, entry) for name, entry in table.take_tables("analyst").items()}
    datasets = {name: _served(name, entry, folder, analysts) for name, entry in table.take_tables("dataset").items()}
    files: dict[str, Any] = {name: _path(table.take(name, str, None), folder) for name in ("certificate", "key")}
    limits = _limits(table.take_tables("limits"))
    config = Config(
        address=table.take("address", str), state=folder / table.take("state", str), datasets=datasets,
        analysts=analysts, limits=limits, **users, **files,
    )  # fmt: skip
    table.close()
    if not datasets:
        raise InputError("must be given: at least one table [dataset.NAME]", argument="dataset")
    _check_address(config, folder)
    if (socket := config.socket) is not None:
        config = Config(**{**vars(config), "address": f"unix:{folder / socket}"})
    return config


def _check_address(config: Config, folder: Path) -> None:
    if (config.certificate is None) != (config.key is None):
        raise InputError("must be given together", argument=("certificate", "key"))
    if config.socket is not None:
        return
    host, _, port = config.address.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise InputError('must be "unix:PATH" or "HOST:PORT"', argument="address")
    if config.host[0] not in LOOPBACK and config.certificate is None:
        raise InputError(
            f"is beyond this machine, {config.host[0]}: give certificate and key, the files of a TLS certificate. "
            "Without TLS a server listens on a Unix socket or the loopback alone",
            argument="address",
        )


def _path(text: str | None, folder: Path) -> Path | None:
    return None if text is None else folder / text


def _analyst(name: str, content: Any) -> Analyst:
    table = _Table(content, f"analyst.{name}")
    token, expires = table.take("token", str), table.take("expires", datetime, None)
    table.close()
    salt, _, digest = token.partition(":")
    if len(salt) < 16 or len(digest) != 64 or set(salt + digest) - set(hexdigits):
        raise InputError(
            "must be what labeldp admin token prints: a salt and a digest, and not the token itself",
            argument=f"analyst.{name}.token",
        )
    check_analyst(name)
    return Analyst(name, token, expires if expires is None or expires.tzinfo else expires.replace(tzinfo=UTC))


def _served(name: str, content: Any, folder: Path, analysts: Mapping[str, Analyst]) -> DatasetConfig:
    path = f"dataset.{name}"
    table = _Table(content, path)
    number = (int, float, str)
    budget = Budget(table.take("epsilon", number), table.take("delta", number, 0.0))
    allowed = tuple(table.take("mechanisms", list, list(MECHANISMS)))
    for mechanism in allowed:
        if mechanism not in MECHANISMS:
            raise InputError(
                f": {mechanism!r} is not known; {did_you_mean(str(mechanism), MECHANISMS)}",
                argument=f"{path}.mechanisms",
            )
    shares = {str(who): str(share) for who, share in table.take_tables("shares").items()}
    for who in shares:
        if who not in analysts:
            raise InputError(f": there is no table [analyst.{who}]", argument=f"{path}.shares")
    features = table.take("features", list, [])
    dataset = DatasetConfig(
        name, folder / table.take("labels", str), table.take("label", str), table.take("id", str, None),
        _domain(table, path), budget, folder / table.take("ledger", str), allowed, shares, tuple(features),
    )  # fmt: skip
    table.close()
    if not all(isinstance(mechanism, str) for mechanism in features) or len(set(features)) < len(features):
        raise InputError("must be different names of columns", argument=f"{path}.features")
    if private := {dataset.label, dataset.id} & set(features):
        raise InputError(f"must not hold {min(map(str, private))!r}: features are public", argument=f"{path}.features")
    return dataset


def _domain(table: _Table, path: str) -> Domain:
    classes, ends = table.take("classes", (list, int), None), table.take("range", list, None)
    grid, clip = table.take("grid", int, None), table.take("clip", bool, False)
    if (classes is None) == (ends is None):
        raise InputError("must be declared, by classes or by range: it is never read off labels", argument=path)
    if classes is not None:
        return Classes(classes if isinstance(classes, int) else tuple(classes))
    if len(ends) != 2:
        raise InputError("must be two numbers, such as [0, 100]", argument=f"{path}.range")
    return Interval(ends[0], ends[1], clip=clip, **({} if grid is None else {"grid": grid}))


def _limits(content: dict[str, Any]) -> ServerLimits:
    table, defaults = _Table(content, "limits"), ServerLimits()
    values = {name: table.take(name, (int, float), value) for name, value in vars(defaults).items()}
    table.close()
    for name, value in values.items():
        if not value > 0:
            raise InputError("must be positive", argument=f"limits.{name}")
    typed: dict[str, Any] = {name: type(getattr(defaults, name))(value) for name, value in values.items()}
    return ServerLimits(**typed)
