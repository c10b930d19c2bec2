"""The durable ledger: what may be spent on each dataset, what was, and what came out."""

import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    Certificate,
    Charge,
    Drawn,
    InputError,
    KeyedRandomness,
    LedgerError,
    PrivacyLoss,
    Request,
    Uncopied,
    check,
    derive,
    total_loss,
)
from labeldp.workflows.ledger_rows import (
    SECRET_BYTES,
    Shelf,
    budget_from,
    budget_texts,
    charge_from,
    charges_of,
    find_dataset,
    insert_dataset,
    known_dataset,
    text_of,
    uncharged,
)
from labeldp.workflows.ledger_store import Store

_CHANGED = (
    "these are not the labels or losses that were released before as {}; nothing was charged. Where some were "
    "corrected or rows were added, name the new state (revision, --revision NAME): it is charged in addition. "
    "Those of other people are a dataset of their own"
)


@final
class LedgerFile(Uncopied):
    """A file that remembers every release of some datasets: budget, charges, values, and the key to keyed noise.

    Use one for all that is ever released from a column of labels, by any number of processes and runs. Asking for
    the same release again returns the same bits and costs nothing. It is as secret as the labels
    themselves, since with its keys noise can be removed: keep it beside them, and never restore an older copy,
    which forgets what was spent.

    Args:
        path: the file. Where there is none, it is created when the first dataset is added or charged.

    Guarantee: a value leaves only after its charge is on disk; processes that share the file never pass a budget
        together; the file is readable by its owner alone.

    Raises:
        LedgerError: the file is something else, of another version, open to other users, or cannot be read. It is
            left as it is.

    Examples:
        >>> import tempfile, labeldp as ldp
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = LedgerFile(folder.name + "/ledger.db")
        >>> ledger.add("people", ldp.Budget(epsilon=2))
        >>> people = ledger.dataset("people")
        >>> curator = ldp.Curator(["no", "yes", "no"], domain=ldp.Classes(("no", "yes")), ledger=people)
        >>> mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
        >>> first, again = (curator.release(mechanism, rng=ldp.SystemRandomness()) for _ in range(2))
        >>> bool((first.value == again.value).all()), people.spent.epsilon()
        (True, 1.0)
        >>> folder.cleanup()
    """

    _uncopied = "a LedgerFile cannot be copied or pickled: open the file where it is needed, LedgerFile(path)"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store(path)

    @property
    def path(self) -> Path:
        """Where the file is, or will be."""
        return self._store.path

    @property
    def exists(self) -> bool:
        """Whether the file is there already."""
        return self._store.exists

    def datasets(self) -> tuple[str, ...]:
        """The names of the datasets, in the order in which they were added."""
        return tuple(name for (name,) in self._store.rows("SELECT name FROM dataset ORDER BY id"))

    def add(self, name: str, budget: Budget) -> None:
        """Add a dataset. Adding it again with the same budget changes nothing.

        Args:
            name: the user's name for the dataset, such as "adult"; it appears in certificates.
            budget: the most that all its releases may cost together.

        Raises:
            LedgerError: the dataset has another budget; `set_budget` changes it.
        """
        _require_name(name)
        with self._store.writing(create=True) as connection:
            known = find_dataset(connection, name)
            if known is None:
                insert_dataset(connection, name, budget)
            elif budget_texts(known.budget) != budget_texts(budget):
                raise LedgerError(
                    f"the dataset {name!r} has a budget already ({known.budget}); "
                    "to change it is a decision of its own: LedgerFile.set_budget, or labeldp ledger add --change"
                )

    def set_budget(self, name: str, budget: Budget) -> None:
        """Give a dataset another budget, larger or smaller. What was spent stays spent.

        Raises:
            BudgetExceeded: more was spent already.
            LedgerError: there is no such dataset.
        """
        with self._store.writing() as connection:
            known = known_dataset(connection, name)
            spent = total_loss(charges_of(connection, known))
            if not budget.admits(spent):
                raise BudgetExceeded(
                    f"the budget of {name!r} cannot be {budget}: "
                    f"epsilon = {spent.epsilon(budget.delta):.6g} at that delta was spent already"
                )
            texts = budget_texts(budget)
            connection.execute("UPDATE dataset SET epsilon = ?, delta = ? WHERE id = ?", (*texts, known.id))

    def dataset(self, name: str, *, revision: str | None = None, budget: Budget | None = None) -> "DatasetLedger":
        """The ledger of one dataset, for a curator.

        Args:
            name: the dataset's name.
            revision: names another state of its labels. Labels that changed are refused without one, since two
                releases of nearly the same labels reveal what changed; under a revision they are charged in addition.
            budget: what a dataset that the file does not know is added with when its first release is charged.
                A known dataset keeps its own.

        Raises:
            LedgerError: the file does not know the dataset, and no budget is given.
        """
        _require_name(name)
        if revision is not None:
            _require_name(revision, "revision")
        rows = self._store.rows("SELECT secret FROM dataset WHERE name = ?", (name,))
        if rows:
            return DatasetLedger(self._store, name, revision or "", rows[0][0], None)
        if budget is None:
            known = ", ".join(repr(other) for other in self.datasets()) or "none"
            raise LedgerError(f"the ledger {self.path} has no dataset {name!r} (it has {known}): add it with a budget")
        return DatasetLedger(self._store, name, revision or "", secrets.token_bytes(SECRET_BYTES), budget)

    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"


@dataclass(frozen=True)
class Entry:
    """One release as a ledger remembers it: all of this is public, the value and the keys are not shown.

    Args:
        revision: the state of the labels, empty for the first.
        form: "held" when the value is stored in the ledger, "stream" when it is recomputed from the labels.
        step: the run and stage that it belongs to, or None.
        certificate: its receipt.
        created: when it was charged, UTC, ISO 8601.
    """

    revision: str
    form: str
    step: str | None
    certificate: Certificate
    created: str


@final
class DatasetLedger(Uncopied):
    """The ledger of one dataset in a `LedgerFile`, as a curator takes it; get one from `LedgerFile.dataset`.

    Guarantee: the same request is answered by the same bits and charged once; another request is charged or
        refused; labels that changed are refused unless a new revision says so.
    """

    _uncopied = (
        "the ledger of a dataset cannot be copied or pickled: it holds the key to the noise. Open the file where it is "
        "needed, LedgerFile(path).dataset(name)"
    )

    def __init__(self, store: Store, name: str, revision: str, secret: bytes, budget: Budget | None) -> None:
        self.name = name
        self.revision = revision
        self._store, self._secret, self._proposed = store, secret, budget

    @property
    def is_new(self) -> bool:
        """Whether the file does not hold the dataset yet: its first charge adds it."""
        return not self._store.rows("SELECT 1 FROM dataset WHERE name = ?", (self.name,))

    @property
    def budget(self) -> Budget:
        """The dataset's budget; of a new one, what it will be added with."""
        rows = self._store.rows("SELECT epsilon, delta FROM dataset WHERE name = ?", (self.name,))
        if rows:
            return budget_from(*rows[0])
        if self._proposed is None:
            raise LedgerError(f"the ledger {self._store.path} has no dataset {self.name!r} any more")
        return self._proposed

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge so far, of all revisions, oldest first."""
        rows = self._store.rows(
            "SELECT charge FROM release WHERE dataset = (SELECT id FROM dataset WHERE name = ?) ORDER BY id",
            (self.name,),
        )
        return tuple(charge_from(text) for (text,) in rows)

    @property
    def spent(self) -> PrivacyLoss:
        """The privacy loss of all charges together."""
        return total_loss(self.charges)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every release so far, of all revisions, oldest first."""
        rows = self._store.rows(
            "SELECT revision, form, step, certificate, created FROM release "
            "WHERE dataset = (SELECT id FROM dataset WHERE name = ?) ORDER BY id",
            (self.name,),
        )
        return tuple(
            Entry(revision, form, step, Certificate.from_json(json.loads(text)), created)
            for revision, form, step, text, created in rows
        )

    @property
    def randomness(self) -> KeyedRandomness:
        """Keyed noise under the dataset's secret and its revision; a curator binds it to the whole request."""
        return KeyedRandomness(self._secret, json.dumps(["noise", self.name, self.revision]).encode())

    @property
    def digest_key(self) -> bytes:
        """The key of label digests, the same for all revisions; secret."""
        return derive(self._secret, b"labels")

    def check_process(self) -> None:
        """Every process may use it: the file knows what was spent."""

    def enroll(self) -> str:
        """A name for the revision of the dataset: within one, records are told apart by ids, and labels stay."""
        return derive(self._secret, b"population", self.revision.encode()).hex()[:16]

    def require(self, requests: Sequence[Request]) -> None:
        """Refuse what the budget would not admit together; what was charged under its step, path and loss is found."""
        query = "SELECT step, charge FROM release WHERE dataset = (SELECT id FROM dataset WHERE name = ?) "
        known = self._store.rows(query + "AND revision = ?", (self.name, self.revision))
        check(self.budget, self.charges, uncharged(requests, known), self.name)

    def draw(self, request: Request, mechanism: Any, make: Callable[[], Any]) -> Drawn:
        """Charge, draw and store in one transaction, or return what the same request was answered before.

        Args:
            request: what is asked for. A stage (`request.step`) is found again whatever its candidate sets.
            mechanism: answers it; of a stage found again, the stored mechanism is returned instead.
            make: draws the value, an array; called at most once, after the budget was checked.

        Raises:
            BudgetExceeded: nothing was charged and nothing drawn.
            LedgerError: the labels changed, or the file cannot be used; nothing was charged.
        """
        with self._shelf(request) as shelf:
            found = shelf.held(request, mechanism)
            known = None if found else shelf.recomputable(request)
            if known:
                found = Drawn(make(), mechanism, known[1])
            elif found is None:
                charge = self._charge(shelf, request)
                found = Drawn(make(), mechanism, request.certificate(charge, mechanism, self.name))
                shelf.write(request, mechanism, charge, found.value)
        return found

    def charge_stream(self, request: Request, mechanism: Any) -> Charge:
        """Commit the charge of a release that is not held in memory, or find it again.

        Its noise must be `randomness.bind(request.context())`, so that it can be recomputed at any time.

        Raises:
            BudgetExceeded, LedgerError: as `draw`.
        """
        with self._shelf(request) as shelf:
            known = shelf.recomputable(request)
            if known:
                charge = known[0]
            else:
                charge = self._charge(shelf, request)
                shelf.write(request, mechanism, charge)
        return charge

    def find_stream(self, request: Request) -> Charge | None:
        """The charge of a stream that was charged before; nothing is charged or written."""
        rows = self._store.rows(
            "SELECT charge FROM release WHERE dataset = (SELECT id FROM dataset WHERE name = ?) "
            "AND revision = ? AND identity = ?",
            (self.name, self.revision, text_of(request.identity())),
        )
        return charge_from(rows[0][0]) if rows else None

    @contextmanager
    def _shelf(self, request: Request) -> Iterator[Shelf]:
        """One transaction on the dataset, which is made if this is its first charge.

        Refused where the labels are not those of before.
        """
        if not request.labels or not request.whole:
            raise InputError("request must hold digests of the labels: a durable ledger tells by them what is the same")
        with self._store.writing(create=self._proposed is not None) as connection:
            known = find_dataset(connection, self.name)
            if known is None and self._proposed is not None:
                insert_dataset(connection, self.name, self._proposed, self._secret)
                known = find_dataset(connection, self.name)
            if known is None or known.secret != self._secret:
                raise LedgerError(f"the dataset {self.name!r} was added or replaced meanwhile: run again")
            shelf = Shelf(connection, known, self.revision)
            if not shelf.is_of(request):
                raise LedgerError(_CHANGED.format(self._called))
            yield shelf

    def _charge(self, shelf: Shelf, request: Request) -> Charge:
        """A charge that the budget admits."""
        charge = Charge(secrets.token_hex(8), request.path, request.loss, request.mechanism)
        check(shelf.dataset.budget, charges_of(shelf.connection, shelf.dataset), [charge], self.name)
        return charge

    @property
    def _called(self) -> str:
        return f"revision {self.revision!r} of {self.name!r}" if self.revision else repr(self.name)

    def __repr__(self) -> str:
        revision = f", revision={self.revision!r}" if self.revision else ""
        return f"DatasetLedger(name={self.name!r}{revision}, file={str(self._store.path)!r})"


def _require_name(name: Any, argument: str = "name") -> None:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"{argument} must be a printable text that is not empty, such as 'adult-2026'")
