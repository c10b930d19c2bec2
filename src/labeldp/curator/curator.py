"""The only holder of labels."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, Domain, Mechanism
from labeldp.privacy import (
    Budget,
    InputError,
    LabelDigest,
    Ledger,
    LedgerLike,
    NotCopyable,
    Path,
    PrivacyLoss,
    Public,
    Randomness,
    RandomnessKind,
    RandomSource,
    Release,
    Request,
    as_randomness,
    derive_key,
    record_words,
)


@final
class Fingerprint:
    """Keyed digests of labelled records, in any order and any split.

    Classes count by their texts: neither their order nor whether they are integers matters.

    Args:
        key: secret.
        domain: of the codes that will be added.
    """

    def __init__(self, key: bytes, domain: Domain) -> None:
        self._key, self._domain = key, domain
        self._digest = LabelDigest(key)
        self._names, self._ranks = _canonical(domain)
        self._counts = np.zeros(domain.size, dtype=np.int64)

    def update(self, ids: Any, codes: NDArray[Any]) -> None:
        """Add records: ids as the randomness takes them, or None for row numbers; codes (n,)."""
        self._digest.update(record_words(ids, len(codes), self._key), self._ranks[codes])
        if len(self._counts) <= len(codes):
            self._counts += np.bincount(codes, minlength=len(self._counts))
        else:
            found, counts = np.unique(codes, return_counts=True)
            self._counts[found] += counts

    @property
    def labels(self) -> str:
        """A digest of the pairs of id and label."""
        return self._digest.hexdigest()

    def traces(self, scheme: str) -> tuple[tuple[str, str, str], ...]:
        """Return what to compare with other releases of the same labels: (kind of ids, kind of labels, digest).

        Where both kinds are those of another trace, the labels are the same only if the digests are. Under other ids,
        and under other classes, it is still told how often each label occurs; under any, how many records there are.
        """
        form = json.dumps(self._domain.to_json(), sort_keys=True)
        common = form
        if isinstance(self._domain, Classes):
            form = f"classes {hashlib.sha256(json.dumps(sorted(self._names)).encode()).hexdigest()}"
            common = "classes"
        return (
            (scheme, form, self.labels),
            (ANY_KIND, common, self._histogram()),
            (ANY_KIND, ANY_KIND, str(int(self._counts.sum()))),
        )

    def _histogram(self) -> str:
        """Return a keyed digest of how often each label occurs."""
        present = np.flatnonzero(self._counts)
        pairs = sorted((self._names[code], int(self._counts[code])) for code in present.tolist())
        key = derive_key(self._key, b"label histogram")
        return hmac.new(key, json.dumps(pairs).encode(), hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return "Fingerprint(<secret>)"


class Curator(NotCopyable):
    """Holds the private labels of one dataset and lets nothing out that was not charged first.

    Use one curator for one column of labels, with all that is ever to be released from it charged to
    one ledger. The labels are encoded once and never shown. A curator cannot be copied or pickled, and with a ledger
    in memory it works in the process that made it alone; where several processes release, each makes its own curator
    with the same ledger file.

    Args:
        labels: the private labels, one for each record, shape (n,).
        domain: the declared domain; it is never read off the labels.
        budget: limit of a new ledger in memory.
        ledger: a ledger to charge instead, such as `LedgerFile(path).dataset(name)`.
        ids: distinct record ids, integers or texts, shape (n,); row numbers by default. Only keyed noise needs them.
        run: names a longer run, so that its stages are found again in a durable ledger.

    Guarantee: nothing is drawn before its charge is committed; a refusal charges nothing; a fork, a copy or a pickle
        of it has no budget.

    Raises:
        DomainError: a label is missing or outside of the domain.
        InputError: not exactly one of budget and ledger, or repeated ids.

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
    ) -> None:
        if not isinstance(domain, Domain):
            raise InputError('domain must be declared, such as Classes(("no", "yes")) or Interval(0, 100)')
        if (budget is None) == (ledger is None):
            raise InputError("give either a budget or a ledger: every release must be charged to one")
        account = ledger if ledger is not None else Ledger(budget)  # type: ignore[arg-type]
        names, count = None if ids is None else _distinct(ids), _count(labels)
        if names is not None and count is not None and len(names) != count:
            raise InputError("ids must be one integer, or one text, for each record")
        # A copy: labels that the caller changes later must not be randomized by the noise of the first ones.
        self._begin(lambda: np.array(domain.encode(labels)), domain, account, names, run)

    @classmethod
    def of_codes(
        cls, codes: Callable[[], NDArray[Any]], *, domain: Domain, ledger: LedgerLike, ids: Any, run: str | None = None
    ) -> "Curator":
        """Return a curator of labels that are read as codes of a domain.

        Args:
            codes: reads them, shape (n,), once the domain is declared; refuses what lies outside of it.
            domain, ledger, ids, run: see `Curator`.
        """
        curator = object.__new__(cls)
        names = None if ids is None else _distinct(ids)
        curator._begin(lambda: np.array(domain.check_codes(codes())), domain, ledger, names, run)
        return curator

    def _begin(
        self, read: Callable[[], NDArray[Any]], domain: Domain, account: LedgerLike, names: Any, run: str | None
    ) -> None:
        """Compare the labels with the domain, which the ledger remembers if it can."""
        codes = account.compare(domain, read)
        if not len(codes):
            raise InputError("labels must hold at least one record")
        if names is not None and len(names) != len(codes):
            raise InputError("ids must be one integer, or one text, for each record")
        self._population = json.dumps([account.enroll(), _scheme(names), domain.to_json()])
        self._domain, self._ledger, self._run, self._whole = domain, account, run, self
        self._set(codes, names, (), ())

    def _set(self, codes: NDArray[Any], ids: Any, path: Path, reasons: tuple[str, ...]) -> None:
        """Set what a part has of its own; it shares everything else with the curator that it came from."""
        self._codes, self._ids, self._path, self._reasons = codes, ids, path, reasons
        self._fingerprints: dict[bytes, Fingerprint] = {}

    @property
    def records(self) -> int:
        """How many records there are: public."""
        return len(self._codes)

    @property
    def domain(self) -> Domain:
        """The declared domain."""
        return self._domain

    @property
    def ledger(self) -> Any:
        """The ledger that every release is charged to."""
        return self._ledger

    @property
    def path(self) -> Path:
        """The part of the dataset that this curator holds; empty for all of it."""
        return self._path

    def release(self, mechanism: Mechanism, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """Charge a mechanism to the ledger, then draw from it.

        Args:
            mechanism: on this curator's domain.
            rng: `SystemRandomness()`, the keyed noise of a ledger file (`curator.ledger.randomness`), or a numpy
                generator for a simulation.
            step: names a stage of a run. A durable ledger returns what the same stage of the same run released
                before, with the mechanism of that time: go on with the release's mechanism, not with the one asked for.

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
        randomness = self._admitted(rng)
        self._ledger.check_process()
        request = self._request(mechanism, randomness, step)
        noise = randomness.bind(request.context())
        ids = self._ids
        if ids is None and noise.kind is RandomnessKind.KEYED:
            ids = np.arange(self.records, dtype=np.uint64)
        drawn = self._ledger.draw(request, mechanism, lambda: mechanism.randomize(self._codes, rng=noise, ids=ids))
        return Release(drawn.value, drawn.certificate, drawn.mechanism)

    def require(self, steps: Mapping[str, PrivacyLoss]) -> None:
        """Refuse steps that the budget would not admit together beside what was spent; nothing is charged.

        A fit of several releases asks this before the first of them, so that it is not left half paid. A durable
        ledger does not count what it would find again: what this run was charged as much for under the same name, or,
        where the curator has no `run`, any release without a name that cost as much.

        Args:
            steps: the loss of each, by the name that it will have.

        Raises:
            BudgetExceeded: it would not.
        """
        self._ledger.require([Request({}, loss, self._path, step=self._named(step)) for step, loss in steps.items()])

    def check_labels(self) -> None:
        """Refuse labels that are not those of earlier releases; nothing is charged.

        A ledger file puts the refusal on record. A ledger in memory cannot tell labels apart, and refuses none.

        Raises:
            LedgerError: the labels changed.
        """
        key, scheme = self._ledger.digest_key, _scheme(self._whole._ids)
        if key is not None:
            traces = self._whole._fingerprint(key).traces(scheme)
            labels = self._fingerprint(key).labels
            zero = PrivacyLoss.zero()
            self._ledger.check_labels(Request({}, zero, self._path, labels=labels, scheme=scheme, traces=traces))

    def split(self, parts: Public[Any]) -> list["Curator"]:
        """Return one curator for each part of the records; the ledger charges the worst of the parts.

        Args:
            parts: `Public(array, why="…")`, the part 0, 1, … of each record, shape (n,).

        Raises:
            InputError: a bare array, or not one part for each record.
        """
        self._ledger.check_process()
        if not isinstance(parts, Public):
            raise InputError('parts must be Public(array, why="…"): a split may not depend on private labels')
        numbers = np.asarray(parts.value)
        if numbers.shape != (self.records,) or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
            raise InputError("parts must be one non-negative integer for each record")
        name = _split_name(self._population, self._ids, numbers)
        reasons = (*self._reasons, f"the split of the records does not depend on the private labels ({parts.why})")
        count = int(numbers.max(initial=-1)) + 1
        return [self._part(np.flatnonzero(numbers == part), (name, part), reasons) for part in range(count)]

    def _part(self, rows: NDArray[np.intp], place: tuple[str, int], reasons: tuple[str, ...]) -> "Curator":
        """Return the curator of some of the rows, which keep the ids that they have here."""
        if self._ids is None:
            ids: Any = rows.astype(np.uint64)
        elif isinstance(self._ids, np.ndarray):
            ids = self._ids[rows]
        else:
            ids = [self._ids[row] for row in rows.tolist()]
        part = object.__new__(Curator)
        part.__dict__.update(self.__dict__)
        part._set(self._codes[rows], ids, (*self._path, place), reasons)
        return part

    def _request(self, mechanism: Mechanism, randomness: Randomness, step: str | None) -> Request:
        key, scheme = self._ledger.digest_key, _scheme(self._whole._ids)
        return Request(
            mechanism=mechanism.specification(),
            loss=mechanism.privacy_loss(),
            path=self._path,
            labels="" if key is None else self._fingerprint(key).labels,
            step=self._named(step),
            scheme=scheme,
            randomness=randomness.kind,
            source=randomness.identity,
            traces=() if key is None else self._whole._fingerprint(key).traces(scheme),
            conditions=self._reasons,
            order=self._order,
        )

    def _admitted(self, rng: RandomSource) -> Randomness:
        """Return the caller's randomness. Keyed noise is the ledger's own: it alone never meets other labels."""
        randomness, own = as_randomness(rng), self._ledger.randomness
        if randomness.kind is RandomnessKind.KEYED and (own is None or randomness.identity != own.identity):
            raise InputError(
                "rng: keyed noise for a curator is that of its ledger file, rng=curator.ledger.randomness with "
                "ledger=LedgerFile(path).dataset(name). Under another key, two columns of labels or two states of one "
                "could meet the same noise, which tells where they are equal. SystemRandomness() needs no key"
            )
        return randomness

    def _named(self, step: str | None) -> str | None:
        """Return a step as a ledger knows it."""
        return None if self._run is None or step is None else f"{self._run}: {step}"

    @property
    def _order(self) -> NDArray[np.intp] | None:
        """The rows by id, where a ledger keeps values and the rows may stand in another order next time."""
        named = self._whole._ids is not None and self._ledger.digest_key is not None
        return _by_id(self._ids) if named else None

    def _fingerprint(self, key: bytes) -> Fingerprint:
        """Return keyed digests of the labels here."""
        if key not in self._fingerprints:
            self._fingerprints[key] = Fingerprint(key, self._domain)
            self._fingerprints[key].update(self._ids, self._codes)
        return self._fingerprints[key]

    def __repr__(self) -> str:
        return f"Curator(records={self.records}, domain={self._domain!r}, ledger={self._ledger!r})"


def _distinct(ids: Any) -> Any:
    """Return the record ids, checked to be one for each record and all different.

    Raises:
        InputError: the message does not say which.
    """
    values: Any = np.array(ids)  # a copy: ids that change later would share their noise
    if values.ndim != 1:
        raise InputError("ids must be one integer, or one text, for each record")
    if values.dtype.kind in "iu":
        distinct = len(np.unique(values)) == len(values)
    else:
        values = [value if isinstance(value, bytes) else str(value) for value in ids]
        distinct = len(set(_texts(values))) == len(values)
    if not distinct:
        raise InputError("ids must be distinct: records with the same id would share their noise")
    return values


def _count(labels: Any) -> int | None:
    """Return how many labels there are, without a look at one; None where that is not known beforehand.

    Raises:
        InputError: none, or not in one dimension.
    """
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
    """Name a split by the part of every record, in whatever order the records stand.

    Two splits share a name only where they put the same records into the same parts: the parts of one name are
    charged in parallel.
    """
    digest = hashlib.sha256(population.encode())
    if ids is not None:
        order = _by_id(ids)
        parts = parts[order]
        digest.update(_id_bytes(ids, order))
    digest.update(parts.astype("<i8").tobytes())
    return digest.hexdigest()


def _by_id(ids: Any) -> NDArray[np.intp]:
    """Return the row numbers in the order of the ids, shape (n,)."""
    if isinstance(ids, np.ndarray):
        return np.argsort(ids)
    texts = _texts(ids)
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.intp)


def _id_bytes(ids: Any, order: NDArray[np.intp]) -> bytes:
    """Return ids in an order, as bytes that no other ids give."""
    if isinstance(ids, np.ndarray):
        return ids[order].astype("<i8").tobytes()
    texts = _texts(ids)
    return b"".join(len(texts[row]).to_bytes(8, "little") + texts[row] for row in order.tolist())


def _texts(ids: Any) -> list[bytes]:
    return [value if isinstance(value, bytes) else value.encode() for value in ids]


def _scheme(ids: Any) -> str:
    if ids is None:
        return "row numbers"
    return "integers" if isinstance(ids, np.ndarray) else "texts"


ANY_KIND = "any"


def _canonical(domain: Domain) -> tuple[list[str] | range, NDArray[np.uint32]]:
    """Return the texts of all labels, by code, and the place of each among the sorted texts."""
    if not isinstance(domain, Classes):
        return range(domain.size), np.arange(domain.size, dtype=np.uint32)
    names = [str(name) for name in domain.names]
    ranks = np.empty(len(names), dtype=np.uint32)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names), dtype=np.uint32)
    return names, ranks
