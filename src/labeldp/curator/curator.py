"""The curator: the only object that holds private labels."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.curator.datasets import ANY_KIND, IDS_KIND, ROWS_KIND
from labeldp.curator.memory_ledger import Ledger
from labeldp.curator.users import ONE_USER, PUBLIC_USERS, WHOSE, first_records, numbered, user_names, users_digest
from labeldp.mechanisms import Domain, Groups, LabelSource, Mechanism
from labeldp.privacy import (
    Budget,
    IdDigest,
    InputError,
    LabelDigest,
    LedgerLike,
    NotCopyable,
    Path,
    PendingCharge,
    PrivacyLoss,
    Public,
    Randomness,
    RandomnessKind,
    RandomSource,
    RecordIds,
    Release,
    Texts,
    Unit,
    as_randomness,
    common_unit,
    derive_key,
    even_if_refused,
    integer_ids,
    record_words,
    refuse_repeats,
)

MOST_STEPS = 10_000
"""The most steps that are declared at once."""


def check_steps(steps: Any, domain: Domain) -> None:
    """Refuse declared steps that are no mechanisms: a loss follows from its mechanism, and is never received.

    Raises:
        InputError: what a step must be.
    """
    if not isinstance(steps, Mapping) or not all(isinstance(step, Mechanism) for step in steps.values()):
        raise InputError("must be mechanisms by the names of their steps: their losses follow", argument="steps")
    if len(steps) > MOST_STEPS:
        raise InputError(f"must be at most {MOST_STEPS:,}", argument="steps")
    other = next((step.domain for step in steps.values() if step.domain != domain), None)
    if other is not None:
        raise InputError(f"must be on the domain of the labels, {domain!r}, not {other!r}", argument="steps")


@final
class Fingerprint:
    """Keyed digests of labeled records, which do not depend on the order of the records or on blocks.

    Classes are identified by their texts: neither their order nor whether they are integers matters.

    Args:
        key: secret key of the digests.
        domain: domain of the codes that will be added.
    """

    def __init__(self, key: bytes, domain: Domain) -> None:
        self._key, self._domain = key, domain
        self._digest = LabelDigest(key)
        names = domain.texts
        self._names: list[str] | range = range(domain.size) if names is None else names
        self._ranks = np.arange(domain.size, dtype=np.uint32)  # of each label among the sorted names
        if names is not None:
            self._ranks[sorted(self._ranks.tolist(), key=names.__getitem__)] = np.arange(len(names), dtype=np.uint32)
        self._counts = np.zeros(domain.size, dtype=np.int64)

    def update(self, ids: Any, codes: NDArray[Any]) -> None:
        """Add records with these ids (None for row numbers) and labels, as codes, shape (n,)."""
        self._digest.update(record_words(ids, len(codes), self._key), self._ranks[codes])
        if len(self._counts) <= len(codes):
            self._counts += np.bincount(codes, minlength=len(self._counts))
        else:
            present, counts = np.unique(codes, return_counts=True)
            self._counts[present] += counts

    def merge(self, other: "Fingerprint") -> None:
        """Add the records of another fingerprint under the same key and domain."""
        self._digest.merge(other._digest)
        self._counts += other._counts

    @property
    def state(self) -> tuple[bytes, dict[int, int]]:
        """What was added so far, to be added to the fingerprint of another process by `add_state`; as secret."""
        present = np.flatnonzero(self._counts)
        return self._digest.state, dict(zip(present.tolist(), self._counts[present].tolist(), strict=True))

    def add_state(self, digest: bytes, counts: Mapping[int, int]) -> None:
        """Add the records of a fingerprint under the same key and domain, by its `state`."""
        self._digest.add_state(digest)
        self._counts[list(counts)] += np.array(list(counts.values()), dtype=np.int64)

    @property
    def labels(self) -> str:
        """Digest of the pairs of id and label."""
        return self._digest.hexdigest()

    def traces(self, scheme: str) -> tuple[tuple[str, str, str], ...]:
        """Return what to compare with other releases of the same labels: (kind of ids, kind of labels, digest).

        Traces of the same two kinds have the same digest if the labels are the same. With other ids or other
        classes, releases can still be compared by how often each label occurs, and always by the number of records.
        """
        form = json.dumps(self._domain.to_json(), sort_keys=True)
        common = form
        if self._domain.target == "classes":
            form, common = self._domain.form, "classes"
        present = np.flatnonzero(self._counts)
        pairs = sorted([(self._names[code], int(self._counts[code])) for code in present.tolist()])
        key = derive_key(self._key, b"label histogram")
        histogram = hmac.new(key, json.dumps(pairs).encode(), hashlib.sha256).hexdigest()
        return (
            (scheme, form, self.labels),
            (ANY_KIND, common, histogram),
            (ANY_KIND, ANY_KIND, str(int(self._counts.sum()))),
        )

    def request(
        self, ledger: Any, mechanism: Mechanism, scheme: str, conditions: tuple[str, ...] = ()
    ) -> PendingCharge:
        """Return the request of a release of all these records."""
        return PendingCharge(
            mechanism=mechanism.specification(),
            loss=mechanism.privacy_loss(),
            labels=self.labels,
            traces=self.traces(scheme),
            scheme=scheme,
            randomness=ledger.randomness.kind,
            source=ledger.randomness.identity,
            conditions=conditions,
            unit=mechanism.neighbors,
            records=int(self._counts.sum()),
            analyst=ledger.scope.analyst,
        )

    @even_if_refused
    def __repr__(self) -> str:
        return "Fingerprint(<secret>)"


@dataclass(frozen=True)
class Recorded:
    """A release, for a subscriber of its curator.

    Args:
        step: name of the step, or "release".
        release: the value with its certificate and its mechanism.
        rows: which records of the subscribed curator it is about, shape (n,).
    """

    step: str
    release: Release[Any]
    rows: NDArray[np.intp] = field(repr=False)


@final
class Subscribers:
    """Who is told of the releases of a curator and of its parts."""

    def __init__(self) -> None:
        self._calls: list[tuple[NDArray[np.intp], Callable[[Recorded], None], Callable[[str, Mechanism], None]]] = []

    @contextmanager
    def add(
        self,
        rows: NDArray[np.intp],
        callback: Callable[[Recorded], None],
        before: Callable[[str, Mechanism], None] = lambda step, mechanism: None,
    ) -> Iterator[None]:
        """Tell someone of releases of some rows, ascending, while the body runs; see `Curator.subscribe`."""
        self._calls.append((rows, callback, before))
        try:
            yield
        finally:
            self._calls.pop()

    def before(self, step: str | None, mechanism: Mechanism) -> None:
        """Ask everyone whether something may be released."""
        for _, _, before in self._calls:
            before(step or "release", mechanism)

    def after(self, step: str | None, release: Release[Any], rows: Callable[[], NDArray[np.intp]]) -> None:
        """Tell everyone of a release of some rows; without subscribers, `rows` is not called."""
        for complete, callback, _ in self._calls:
            callback(Recorded(step or "release", release, np.searchsorted(complete, rows())))


class Curator(NotCopyable):
    """Holds the private labels of one dataset, and releases nothing before it is charged.

    Use one curator for each column of labels, and charge all its releases to one ledger. The labels are encoded once
    and never shown. A curator cannot be copied or pickled. With a ledger in memory it works only in the process that
    made it; if several processes release, each makes its own curator with the same ledger file.

    Args:
        labels: the private labels, one for each record, shape (n,); or a `LabelSource`, which encodes itself.
        domain: the declared domain; it is never inferred from the labels.
        budget: limit of a new ledger in memory.
        ledger: a ledger to charge instead, such as `LedgerFile(path).dataset(name)`.
        ids: distinct record ids, integers or texts, shape (n,); row numbers by default. Only keyed noise needs them.
        run: the name of a run of several releases, so that a durable ledger finds its stages again.
        users: the user of each record, integers or texts, shape (n,), public: all labels of a user are protected
            together. What answers each record by itself then costs a user as much for each; `limited` keeps fewer.
            By default each record is protected by itself.

    Guarantee (charged_first, refusal_free, no_copy, users): nothing is drawn before its charge is committed; a
        refusal charges nothing; a fork, a copy or a pickle of it has no budget. With users, what is charged holds for
        all labels of a user together.

    Raises:
        DomainError: a label is missing or outside of the domain.
        InputError: not exactly one of budget and ledger is given, ids are repeated, or a record has no user.
        LedgerError: the ledger was charged for other users, or for users while these labels have none.

    Examples:
        >>> import labeldp as ldp
        >>> curator = ldp.Curator(["no", "yes", "no"], domain=ldp.Classes(("no", "yes")), budget=ldp.Budget(epsilon=1))
        >>> mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
        >>> release = curator.release(mechanism, rng=ldp.SystemRandomness())
        >>> curator.ledger.spent.epsilon()
        1.0
    """

    _why_no_copy = (
        "a Curator cannot be copied or pickled: it holds the raw labels, and a copy would release them again. Make one "
        "in each process, with a ledger file that all of them share: LedgerFile(path).dataset(name)"
    )

    def __init__(
        self,
        labels: Any,
        *,
        domain: Domain,
        budget: Budget | None = None,
        ledger: LedgerLike | None = None,
        ids: Any = None,
        run: str | None = None,
        users: Any = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise InputError('domain must be declared, such as Classes(("no", "yes")) or Interval(0, 100)')
        if (budget is None) == (ledger is None):
            raise InputError("give either a budget or a ledger: every release must be charged to one")
        if ledger is not None and not callable(getattr(ledger, "of_records", None)):
            raise InputError("must be one, such as LedgerFile(path).dataset(name)", argument="ledger")
        account: LedgerLike = ledger if budget is None else Ledger(budget)  # type: ignore[assignment]
        names, count = None if ids is None else _distinct(ids, account.ids_key), _count(labels)
        if names is not None and count is not None and len(names) != count:
            raise InputError("ids must be one integer, or one text, for each record")
        account = account.of_records(records_digest(names, account))
        key = account.ids_key or account.digest_key or b""
        whose = None if users is None else user_names(users, key)
        if whose is not None and names is not None and len(names) != len(whose):
            raise InputError(ONE_USER, argument="users")
        self._map = None if whose is None else users_digest(names, whose, key)
        alone = Unit.FULL if account.state.protection.unit is Unit.FULL else Unit.ONE_LABEL  # its mechanisms come later
        account.state.check_unit(alone if whose is None else Unit.ONE_USER, self._map)
        if count is not None:
            if whose is not None and len(whose) != count:
                raise InputError(ONE_USER, argument="users")
            account.state.check_count(count)
        with account.comparing(domain):
            if isinstance(labels, LabelSource):
                codes = domain.check_codes(labels.codes(domain))
            else:
                codes = domain.encode(labels)
            codes = codes.copy()  # labels that the caller changes later must not meet the noise of the first ones
        if not len(codes):
            raise InputError("labels must hold at least one record")
        if names is not None and len(names) != len(codes):
            raise InputError("ids must be one integer, or one text, for each record")
        if whose is not None and len(whose) != len(codes):
            raise InputError(ONE_USER, argument="users")
        self._population = json.dumps([account.enroll(), kind_of_ids(names), domain.to_json()])
        self._domain, self._ledger, self._run, self._whole = domain, account, run, self
        self._subscribers = Subscribers()
        self._codes, self._ids, self._users = codes, names, None if whose is None else numbered(whose)
        self._path: Path = ()
        self._reasons: tuple[str, ...] = ()
        self._fingerprints: dict[bytes, Fingerprint] = {}

    @cached_property
    def _rows(self) -> NDArray[np.intp]:
        """The rows of the whole dataset; `_part` replaces them."""
        return np.arange(self.records)

    @property
    def records(self) -> int:
        """Number of records, which is public."""
        return len(self._codes)

    @property
    def domain(self) -> Domain:
        """The declared domain."""
        return self._domain

    @property
    def users(self) -> Public[NDArray[np.int64]] | None:
        """The user of each record, numbers of users, shape (n,); None where each record is protected by itself."""
        return None if self._users is None else Public(self._users, why=WHOSE)

    @property
    def ledger(self) -> Any:
        """The ledger that is charged."""
        return self._ledger

    @property
    def path(self) -> Path:
        """The part of the dataset that this curator holds; empty for the whole."""
        return self._path

    def release(self, mechanism: Mechanism, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """Charge a mechanism to the ledger, then draw from it; with users, what it costs one of them.

        Args:
            mechanism: a mechanism on this curator's domain.
            rng: `SystemRandomness()`, the keyed noise of a ledger file (`curator.ledger.randomness`), or a numpy
                generator for a simulation.
            step: the name of a stage of the run. A durable ledger returns what the same stage of the same run released
                before, with its mechanism: continue with the release's mechanism, not with `mechanism`.

        Returns:
            The released value with its certificate and its mechanism.

        Raises:
            InputError: the mechanism or the randomness does not fit; nothing was charged.
            BudgetExceeded: nothing was charged and nothing drawn.
        """
        if not isinstance(mechanism, Mechanism):
            raise InputError("mechanism must be one, such as RandomizedResponse(domain=curator.domain, epsilon=1.0)")
        if mechanism.domain != self._domain:
            raise InputError(
                f"mechanism must be on the domain of the labels, {self._domain!r}, not {mechanism.domain!r}"
            )
        mechanism.check_records(self.records)
        self._subscribers.before(step, mechanism)
        randomness, keyed = as_randomness(rng), self._ledger.randomness
        if randomness.kind is RandomnessKind.KEYED and (keyed is None or randomness.identity != keyed.identity):
            raise InputError(
                "rng: keyed noise for a curator is the noise of its ledger file, rng=curator.ledger.randomness with "
                "ledger=LedgerFile(path).dataset(name). Under another key, two columns of labels or two states of one "
                "could meet the same noise, which tells where they are equal. SystemRandomness() needs no key"
            )
        self._ledger.check_process()
        request = self._request(mechanism, randomness, step)
        noise = randomness.bind(request.context())
        ids = self._ids
        if ids is None and noise.kind is RandomnessKind.KEYED:
            ids = np.arange(self.records, dtype=np.uint64)
        with self._ledger.charging(request, mechanism) as draw:
            if draw.is_new:
                draw.value = mechanism.randomize(self._codes, rng=noise, ids=ids)
        self._subscribers.after(step, draw.release, lambda: self._rows)
        return draw.release

    def subscribe(
        self, callback: Callable[[Recorded], None], before: Callable[[str, Mechanism], None] = lambda *_: None
    ) -> AbstractContextManager[None]:
        """Call `callback` after each release of these records or of parts of them, while a body runs.

        Args:
            callback: takes each release; it never sees a label.
            before: takes step and mechanism before anything is charged; what it raises refuses the release.
        """
        return self._subscribers.add(self._rows, callback, before)

    def require(self, steps: Mapping[str, Mechanism]) -> None:
        """Raise BudgetExceeded if the budget does not admit all these steps; charge nothing.

        A fit of several releases calls this before the first of them, so that it does not stop halfway. A durable
        ledger does not count releases that it would find again: those of this run with the same name and loss or, if
        the curator has no `run`, any release without a name and with the same loss.

        Args:
            steps: the mechanism of each step, by name, at most 10,000. In place of one that depends on earlier
                releases, any other on the same domain that costs as much: its loss is declared.

        Raises:
            InputError: something else than mechanisms on this curator's domain, such as losses.
        """
        check_steps(steps, self._domain)
        requests = [
            PendingCharge(
                {}, self.cost(mechanism), self._path, step=self._step_name(step), unit=self._unit(mechanism.neighbors)
            )
            for step, mechanism in steps.items()
        ]
        self._ledger.require(requests)

    def cost(self, mechanism: Mechanism) -> PrivacyLoss:
        """Return what a release would cost a label or, with users, all labels of a user; charge nothing.

        Args:
            mechanism: a mechanism on this curator's domain.

        Raises:
            InputError: with users, a mechanism that protects single records only.
        """
        return mechanism.privacy_loss() if self._users is None else mechanism.user_loss(Groups.of_users(self.users))

    def has_released(self, mechanism: Mechanism, *, step: str) -> bool:
        """Return whether a durable ledger holds a release of these records that cost as much; nothing is charged.

        Args:
            mechanism: what would be released.
            step: its name; without a `run` of the curator, which names steps, any release with this cost counts.
        """
        unit = self._unit(mechanism.neighbors)
        request = PendingCharge({}, self.cost(mechanism), self._path, step=self._step_name(step), unit=unit)
        return bool(self._ledger.has_charged(request))

    def check_labels(self) -> None:
        """Raise LedgerError if the labels are not those of earlier releases; charge nothing.

        A ledger file records the refusal. A ledger in memory cannot tell labels apart, and refuses none.
        """
        key, scheme = self._ledger.digest_key, kind_of_ids(self._whole._ids)
        if key is not None:
            traces = self._whole._fingerprint(key).traces(scheme)
            labels = self._fingerprint(key).labels
            request = PendingCharge(
                {},
                PrivacyLoss.zero(),
                self._path,
                labels=labels,
                scheme=scheme,
                traces=traces,
                unit=self._unit(self._ledger.read().protection.unit or Unit.ONE_LABEL),
                users=self._map,
            )
            self._ledger.check_labels(request)

    def split(self, parts: Public[Any]) -> list["Curator"]:
        """Return one curator for each part of the records; the ledger charges the largest loss of the parts.

        Args:
            parts: `Public(array, why="…")`, the part 0, 1, … of each record, shape (n,).

        Raises:
            InputError: `parts` is not `Public`, does not have one part for each record, or has records of one user
                in several parts, whose losses would add up.
        """
        self._ledger.check_process()
        if not isinstance(parts, Public):
            raise InputError('parts must be Public(array, why="…"): a split may not depend on private labels')
        numbers = np.asarray(parts.value)
        if numbers.shape != (self.records,) or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
            raise InputError("parts must be one non-negative integer for each record")
        if self._users is not None:
            first = np.full(int(self._users.max()) + 1, -1, dtype=np.int64)
            first[self._users] = numbers
            if (first[self._users] != numbers).any():
                raise InputError("must keep all records of a user in one part", argument="parts")
        name = _split_name(self._population, self._ids, numbers)
        reasons = (*self._reasons, f"the split of the records does not depend on the private labels ({parts.why})")
        count = int(numbers.max(initial=-1)) + 1
        return [self._part(np.flatnonzero(numbers == part), ((name, part),), reasons) for part in range(count)]

    def limited(self, cap: int) -> tuple["Curator", NDArray[np.intp]]:
        """Return a curator of at most `cap` records of each user, and the row numbers of those that it holds.

        Which ones depends on ids and users alone: those whose ids have the smallest digests. Take the features of
        these rows. What the other records' labels are is not released by it.

        Args:
            cap: how many records of a user are kept, at least 1.

        Raises:
            InputError: not such a number, or a curator without users.
        """
        if self._users is None:
            raise InputError("a curator without users has one record of each: there is nothing to limit")
        rows = first_records(self._users, self._ids, cap)
        return self._part(rows, (), self._reasons), rows

    def _part(self, rows: NDArray[np.intp], path: Path, reasons: tuple[str, ...]) -> "Curator":
        """Return a curator of some of the rows, which keep their ids; it shares all other fields."""
        if self._ids is None:
            ids: Any = rows.astype(np.uint64)
        elif isinstance(self._ids, np.ndarray | RecordIds):
            ids = self._ids[rows]
        else:
            ids = [self._ids[row] for row in rows.tolist()]
        part = object.__new__(Curator)
        part.__dict__.update(self.__dict__)
        part._users = None if self._users is None else self._users[rows]
        part._codes, part._rows, part._ids = self._codes[rows], self._rows[rows], ids
        part._path, part._reasons, part._fingerprints = (*self._path, *path), reasons, {}
        return part

    def _unit(self, without: Unit) -> Unit:
        """Return the unit of protection of a release; `without` users, the mechanism's unit."""
        return without if self._users is None else Unit.ONE_USER

    def _request(self, mechanism: Mechanism, randomness: Randomness, step: str | None) -> PendingCharge:
        unit = self._unit(mechanism.neighbors)
        common_unit([unit, *[certificate.neighbors for certificate in mechanism.basis]])  # refuses before the charge
        key, scheme = self._ledger.digest_key, kind_of_ids(self._whole._ids)
        return PendingCharge(
            mechanism=mechanism.specification(),
            loss=self.cost(mechanism),
            path=self._path,
            labels="" if key is None else self._fingerprint(key).labels,
            step=self._step_name(step),
            scheme=scheme,
            randomness=randomness.kind,
            source=randomness.identity,
            traces=() if key is None else self._whole._fingerprint(key).traces(scheme),
            conditions=self._reasons if self._map is None else (*self._reasons, PUBLIC_USERS),
            order=_by_id(self._ids) if key is not None and self._whole._ids is not None else None,
            unit=unit,
            users=self._map,
            records=self.records,
            analyst=self._ledger.scope.analyst,
        )

    def _step_name(self, step: str | None) -> str | None:
        """Return the name of a step in the ledger; None if the step or the run has no name."""
        return None if self._run is None or step is None else f"{self._run}: {step}"

    def _fingerprint(self, key: bytes) -> Fingerprint:
        """Return keyed digests of this curator's labels."""
        if key not in self._fingerprints:
            self._fingerprints[key] = Fingerprint(key, self._domain)
            self._fingerprints[key].update(self._ids, self._codes)
        return self._fingerprints[key]

    @even_if_refused
    def __repr__(self) -> str:
        return f"Curator(records={self.records}, domain={self._domain!r}, ledger={self._ledger!r})"


def records_digest(ids: Any, account: LedgerLike) -> str | None:
    """Return a keyed digest of record ids, whatever their order; None without ids, or for a ledger in memory."""
    key = account.digest_key
    if key is None or ids is None:
        return None
    digest = IdDigest(key)
    digest.update(RecordIds.of(ids, account.ids_key or key).blocks)
    return digest.hexdigest()


def _distinct(ids: Any, key: bytes | None) -> Any:
    """Return a copy of the record ids, as `RecordIds` if there is a key; raise InputError if they are repeated."""
    values = None if isinstance(ids, RecordIds | Texts) else np.array(ids)  # a copy: others would share noise later
    if values is not None and values.ndim != 1:
        raise InputError("ids must be one integer, or one text, for each record")
    integers = values if values is not None and values.dtype.kind in "iu" else None
    if key is not None:
        records = RecordIds.of(ids if integers is None else integers, key)
        refuse_repeats(records.blocks if records.are_texts.any() else records.blocks[:, 0])
        return records
    if integers is not None:
        refuse_repeats(integer_ids(integers, len(integers)))
        return integers
    texts = [value if isinstance(value, bytes) else str(value) for value in ids]
    if len(set(_texts(texts))) < len(texts):
        raise InputError("ids must be distinct: records with the same id would share their noise")
    return texts


def _count(labels: Any) -> int | None:
    """Return the number of labels without reading one, None if unknown; raise InputError if there are none."""
    shape = getattr(labels, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 1:
        raise InputError("labels must be one-dimensional, shape (n,)")
    try:
        count = len(labels)
    except TypeError:
        return None
    if not count:
        raise InputError("labels must hold at least one record")
    return count


def _split_name(population: str, ids: Any, parts: NDArray[Any]) -> str:
    """Return a name for a split, which depends on the part of every record but not on their order.

    Two splits share a name only if they put the same records into the same parts, since the parts of one name are
    charged in parallel. So ids, and whether there are some, cannot be taken for parts.
    """
    kind = "rows" if ids is None else "ids"
    digest = hashlib.sha256(f"{len(population)} {population} {kind} {len(parts)} ".encode())
    if ids is not None:
        order = _by_id(ids)
        parts = parts[order]
        digest.update(_id_bytes(ids, order))
    digest.update(parts.astype("<i8").tobytes())
    return digest.hexdigest()


def _by_id(ids: Any) -> NDArray[np.intp]:
    """Return the row numbers in the order of the ids, shape (n,)."""
    if isinstance(ids, RecordIds):
        return ids.order
    if isinstance(ids, np.ndarray):
        return np.argsort(ids)
    texts = _texts(ids)
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.intp)


def _id_bytes(ids: Any, order: NDArray[np.intp]) -> bytes:
    """Return ids in an order, as bytes that no other ids give."""
    if isinstance(ids, RecordIds):
        return ids.blocks[order].tobytes()
    if isinstance(ids, np.ndarray):
        return ids[order].astype("<i8").tobytes()
    texts = _texts(ids)
    return b"".join(len(texts[row]).to_bytes(8, "little") + texts[row] for row in order.tolist())


def _texts(ids: Any) -> list[bytes]:
    return [value if isinstance(value, bytes) else value.encode() for value in ids]


def kind_of_ids(ids: Any) -> str:
    """Return the kind of ids, as traces name it."""
    return ROWS_KIND if ids is None else IDS_KIND
