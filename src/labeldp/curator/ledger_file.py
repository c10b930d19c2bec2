"""The durable ledger: a file of datasets."""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection, connect
from typing import Any, final

from labeldp.curator.cohorts import SortedIds, cohorts_of, insert_cohort, refuse_known, unknown_cohort
from labeldp.curator.dataset_ledger import DatasetLedger
from labeldp.curator.datasets import (
    ANY_KIND,
    SECRET_BYTES,
    Dataset,
    Declared,
    add_command,
    as_declared,
    closed_by,
    dataset_names,
    declare,
    declare_first,
    declared_domains,
    find_dataset,
    insert_dataset,
    known_dataset,
    now,
    record_change,
    unknown_dataset,
    write_protection,
)
from labeldp.curator.ledger_store import Store
from labeldp.curator.paid import OWNER, accounts_of, change_budget, reserve
from labeldp.curator.snapshot import DatasetSnapshot
from labeldp.mechanisms import Domain
from labeldp.privacy import (
    Budget,
    InputError,
    LedgerError,
    NotCopyable,
    Protection,
    Scope,
    Unit,
    decimal,
    decimal_text,
    derive_key,
    even_if_refused,
    numbers_of,
)


@final
class LedgerFile(NotCopyable):
    """A file that remembers every release of some datasets: budget, charges, values, and the key of keyed noise.

    Use one for all releases of a column of labels, by any number of processes and runs. Asking for the same release
    again returns the same bits and costs nothing. The file is as secret as the labels, since its keys can remove the
    noise: keep it beside them, and never restore an older copy, which forgets what was spent.

    Args:
        path: path of the file. If it does not exist, it is created when the first dataset is added or charged.

    Guarantee (charged_first, no_overspending, owner_only): a value leaves only after its charge is on disk; processes
        that share the file never pass a budget together; the file is readable by its owner alone.

    Raises:
        LedgerError: the file is not a ledger, has another schema, is open to other users, or cannot be read. It is
            not changed.

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

    _why_no_copy = "a LedgerFile cannot be copied or pickled: open the file where it is needed, LedgerFile(path)"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store(path)
        self._store.check()

    @property
    def path(self) -> Path:
        """Path of the file, which may not exist yet."""
        return self._store.path

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._store.exists

    def datasets(self) -> tuple[str, ...]:
        """Return the names of the datasets, in the order in which they were added."""
        return tuple(name for (name,) in self._store.rows("SELECT name FROM dataset ORDER BY id"))

    @property
    def requests(self) -> tuple[str, ...]:
        """The digests of all requests that the file was asked; see `Request.digest`."""
        return tuple(digest for (digest,) in self._store.rows("SELECT digest FROM request ORDER BY digest"))

    def add(
        self,
        name: str,
        budget: Budget,
        domain: Domain | None = None,
        records: int | None = None,
        unit: Unit | None = None,
    ) -> None:
        """Add a dataset. Adding it again with the same arguments changes nothing.

        Args:
            name: name of the dataset, such as "adult"; it appears in certificates.
            budget: the most that all its releases may cost together.
            domain: domain of its labels; by default the first one that labels are compared with.
            records: how many records it has. A release of a part of them, such as a fold of a cross-validation, is
                then refused before it is charged. By default the first release decides.
            unit: what its releases protect, for good, such as `Unit.ONE_USER`. By default the first release decides.

        Raises:
            LedgerError: the dataset has another budget, domain or number of records, which `change` changes; or it
                protects another unit, which stays.
        """
        _require_text(name, "name")
        _require_count(records)
        if not isinstance(budget, Budget):
            raise InputError("must be a Budget, such as Budget(epsilon=1.0)", argument="budget")
        declared = None if domain is None else as_declared(domain)
        with self._store.writing(create=True) as connection:
            row, (parent, column) = find_dataset(connection, name), _dataset_and_column(name)
            if row is None and column and find_dataset(connection, parent) is not None:
                raise LedgerError(
                    f"{name!r} is a column of the dataset {parent!r} and shares its budget: it need not be added. To "
                    "declare its domain, compare labels with it"
                )
            if row is None:
                insert_dataset(connection, name, budget)
            elif numbers_of(row.budget) != numbers_of(budget):
                raise LedgerError(
                    f"the dataset {name!r} has a budget already ({row.budget}); "
                    "to change it, use LedgerFile.change, or "
                    f"{add_command(self.path, name)} --change {_options(budget)}"
                )
            dataset = known_dataset(connection, self.path, name)
            if unit is not None:
                _protect_first(connection, dataset, unit)
            if declared is not None:
                declare_first(connection, dataset, "", declared, self.path)
            if records is not None:
                _pin_first(connection, dataset, records, self.path)

    def change(
        self,
        name: str,
        *,
        budget: Budget | None = None,
        domain: Domain | None = None,
        records: int | None = None,
        why: str | None = None,
    ) -> None:
        """Change the budget, the declared domain or the number of records of a dataset: all or none of it.

        Every change is recorded, and charges stay. What is promised from then on is the largest epsilon and the largest
        delta that the dataset had: a smaller budget only refuses more. Shares that were reserved keep their budgets.

        Whether labels fit a domain is a bit about all of them that no epsilon covers, so certificates of later
        releases count every change. A domain that was declared before changes nothing; nor do another order of the
        classes, another grid, or `clip`.

        Args:
            name: name of the dataset.
            budget: the new one.
            domain: one more, in addition to those that were declared before.
            records: how many records the dataset has from now on. Labels that were released keep their number; this one
                is for a first release, or a new revision.
            why: the reason, in words.

        Raises:
            BudgetExceeded: the budget is less than what is reserved to analysts.
            LedgerError: the dataset does not exist.
        """
        _require_count(records)
        if why is not None:
            _require_text(why, "why", "the questionnaire has a new answer")
        declared = None if domain is None else as_declared(domain)
        with self._store.writing() as connection:
            parent, column = _dataset_and_column(name) if find_dataset(connection, name) is None else (name, "")
            dataset = known_dataset(connection, self.path, name if find_dataset(connection, parent) is None else parent)
            if budget is not None and column:
                raise LedgerError(f"{name!r} is a column of the dataset {parent!r}: change the budget of that")
            if budget is not None:
                _change_budget(connection, dataset, budget, why)
            if declared is not None:
                _change_domain(connection, dataset, column, declared, why)
            if records is not None and records != dataset.records:
                _pin(connection, dataset, records)
                before = "not declared" if dataset.records is None else f"{dataset.records:,}"
                record_change(connection, dataset, "number of records", before, f"{records:,}", why)

    def add_cohort(self, name: str, cohort: str, ids: Any) -> None:
        """Add records to a dataset as a cohort, or name those that it has; nothing is charged.

        The first cohort is the records that were released so far, if there are some. Later ones have ids that no
        earlier one has. Each record then pays for the releases of its cohort, and for those of all records since its
        cohort was added. Adding a cohort again changes nothing; one that nothing was released of may be replaced.

        Decide on more records without a look at what was released, or read guarantees at delta = 0: certificates of
        later releases say so.

        Args:
            name: name of the dataset.
            cohort: name of the cohort, such as "people of May"; it appears in certificates.
            ids: its record ids, integers or texts, shape (n,); or an iterator over blocks of them.

        Guarantee (disjoint, whole): ids of two cohorts are disjoint; a cohort is added whole or not at all.

        Raises:
            InputError: an id occurs twice, or there is none; nothing was added.
            LedgerError: an id is in another cohort, the first cohort is not what was released so far, or the dataset
                was released without ids; nothing was added.
        """
        _require_text(cohort, "cohort", "people of May")
        if name not in self.datasets() and _dataset_and_column(name)[0] in self.datasets():
            raise LedgerError(f"cohorts are of a whole dataset, {_dataset_and_column(name)[0]!r}, and not of a column")
        account = self.dataset(name)
        key = account.digest_key
        with closing(SortedIds(account.ids_key, key)) as addition:
            for block in ids if isinstance(ids, Iterator) else (ids,):
                addition.add(block)
            if not addition.records:
                raise InputError("must hold at least one record id", argument="ids")
            [(number,)] = self._store.rows("SELECT id FROM dataset WHERE name = ?", (name,))
            # Most of the work, while others may write; the transaction compares what came meanwhile.
            compared = tuple(
                member for member in account.state.cohorts if member.name != cohort and member.digest != addition.digest
            )
            with self._store.connected() as reading:
                refuse_known(reading, number, name, compared, addition)
            with self._store.writing() as connection:
                dataset = known_dataset(connection, self.path, name)
                if derive_key(dataset.secret, b"labels") != key:
                    raise LedgerError(f"the dataset {name!r} was replaced meanwhile: run again")
                insert_cohort(connection, dataset, self.path, cohort, addition, compared)

    def reserve(self, name: str, shares: Mapping[str, Any]) -> None:
        """Reserve a share of a dataset's budget for each analyst, as a separate account.

        Whether a release is admitted then depends on what the same analyst was charged, and on nobody else. Whoever
        names no analyst has all that is left by their first release, so reserve shares before it. A share is never
        divided again, and what is not used of it returns to nobody.

        Args:
            name: name of the dataset.
            shares: for each analyst a share of epsilon and delta, a decimal or a fraction above 0; at most 1 together.
                Analysts who have that share already keep it.

        Guarantee (analysts_together): analysts who show each other everything never learn more than the budget of the
            dataset promises.

        Raises:
            InputError: not such shares.
            BudgetExceeded: less is left of the budget; nothing was changed.
            LedgerError: the dataset does not exist, or an analyst has another share.

        Examples:
            >>> import tempfile, labeldp as ldp
            >>> folder = tempfile.TemporaryDirectory()
            >>> ledger = LedgerFile(folder.name + "/ledger.db")
            >>> ledger.add("people", ldp.Budget(epsilon=2))
            >>> ledger.reserve("people", {"ana": "0.5", "ben": "0.25"})
            >>> str(ledger.shares("people")["ana"])
            'epsilon = 1, delta = 0'
            >>> folder.cleanup()
        """
        parts = {}
        for analyst, share in shares.items():
            _require_text(analyst, "shares", "ana")
            parts[analyst] = decimal(share, "shares")
        with self._store.writing() as connection:
            reserve(connection, known_dataset(connection, self.path, name), parts)

    def shares(self, name: str) -> dict[str, Budget]:
        """Return the budget of a dataset that is reserved to each analyst; empty where nothing is."""
        with self._store.connected() as connection:
            accounts = accounts_of(connection, known_dataset(connection, self.path, name))
        return {analyst: stored.account.budget for analyst, stored in accounts.items() if analyst != OWNER}

    def dataset(
        self,
        name: str,
        *,
        cohort: str | None = None,
        revision: str | None = None,
        budget: Budget | None = None,
        analyst: str = "",
        other_ids: bool = False,
    ) -> "DatasetLedger":
        """Return the ledger of one dataset, for a curator.

        Args:
            name: name of the dataset; or "DATASET/COLUMN" for one of several private columns, each with labels and a
                domain of its own, which pay from the budget of the dataset together.
            cohort: name of a cohort, whose records alone are released; by default all records, as they are now or as
                they were before a cohort was added: their ids tell.
            revision: names another state of its labels. Labels that changed are refused without one, since two
                releases of nearly the same labels reveal what changed; under a revision they are charged in addition.
            budget: if the file does not exist yet, the budget with which its first dataset is added before labels are
                read. A known dataset keeps its own.
            analyst: who releases: their share is charged (`reserve`), their noise is of their own, and they are
                answered from their own releases alone.
            other_ids: admits records with ids where they were released by row numbers, or the other way around. The
                ledger cannot tell that they are the same, and charges a release once more.

        Raises:
            LedgerError: the dataset or the cohort does not exist: it must be added first, since a typing error would be
                a second budget for the same labels.
        """
        return open_dataset(
            self._store, name, cohort=cohort, revision=revision, budget=budget, analyst=analyst, other_ids=other_ids
        )

    @even_if_refused
    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"


def open_dataset(
    store: Store,
    name: str,
    *,
    cohort: str | None = None,
    revision: str | None = None,
    budget: Budget | None = None,
    analyst: str = "",
    other_ids: bool = False,
) -> DatasetLedger:
    """Return the ledger of one dataset, read in one connection; see `LedgerFile.dataset`."""
    _require_text(name, "name")
    if revision is not None:
        _require_text(revision, "revision")
    scope, names = Scope(name, revision=revision or "", analyst=analyst), list[str]()
    parent, column = _dataset_and_column(name)
    if store.exists:
        with store.reading() as connection:
            names = dataset_names(connection)
            if name not in names:
                scope = replace(scope, dataset=parent, column=column)
            state = DatasetSnapshot.read(connection, store.path, scope, other_ids=other_ids)
            if state.dataset is not None:
                account = DatasetLedger(store, state, state.dataset.secret)
                return account if cohort is None else account.of_cohort(cohort, state)
    if budget is None or names:
        raise unknown_dataset(store.path, name, names)
    scope = replace(scope, dataset=parent, column=column)
    if cohort is not None:
        raise unknown_cohort(store.path, scope.dataset, cohort, (), new=True)
    if analyst:
        raise LedgerError(f"the dataset {name!r} must be added first: a share is a part of its budget")
    state = DatasetSnapshot(store.path, scope, proposed=budget, other_ids=other_ids)
    return DatasetLedger(store, state, secrets.token_bytes(SECRET_BYTES))


def copy_ledger(path: str | os.PathLike[str], target: Path, *, values: bool) -> LedgerFile:
    """Copy a ledger file for an audit, which may try on the copy what must not be charged; return the copy.

    The copy is as secret as the ledger, and its charges bind nobody: remove it before anything that was drawn under a
    new charge of it leaves.

    Args:
        path: of the ledger.
        target: of the copy, in a folder that only its owner may read.
        values: whether the copy keeps released values; without them, keyed noise is drawn again from its keys.

    Raises:
        LedgerError: not a ledger.
    """
    LedgerFile(path).datasets()
    address = f"{Path(path).absolute().as_uri()}?mode=ro"
    with closing(connect(address, uri=True)) as source, closing(connect(target)) as copy:
        source.backup(copy)
        if not values:
            copy.execute("UPDATE release SET form = 'stream', value = NULL")
            copy.commit()
    target.chmod(0o600)
    return LedgerFile(target)


def _change_budget(connection: Connection, dataset: Dataset, budget: Budget, why: str | None) -> None:
    same = numbers_of(dataset.budget) == numbers_of(budget)
    if not same:
        change_budget(connection, dataset, budget)
    if not same or closed_by(connection, dataset.id):
        record_change(connection, dataset, "budget", str(dataset.budget), str(budget), why)


def _change_domain(connection: Connection, dataset: Dataset, column: str, declared: Declared, why: str | None) -> None:
    before = declared_domains(connection, dataset.id, column)
    if declared.form not in before:
        declare(connection, dataset.id, column, declared, now())
        if before:
            record_change(connection, dataset, "declared domain", " or ".join(before.values()), declared.words, why)


def _pin_first(connection: Connection, dataset: Dataset, records: int, path: Path) -> None:
    """Declare how many records a dataset has; raise LedgerError if it is known to have another number."""
    query = "SELECT digest FROM labels WHERE dataset = ? AND scheme = ? AND domain = ?"
    released = [int(count) for (count,) in connection.execute(query, (dataset.id, ANY_KIND, ANY_KIND))]
    counts = [dataset.records] if dataset.records is not None else released
    if counts and records not in counts:
        raise LedgerError(
            f"{dataset.name!r} has {counts[-1]:,} records, and not {records:,}. For a new revision of its labels, "
            f"change the number: {add_command(path, dataset.name)} --change --records {records}"
        )
    if dataset.records is None:
        _pin(connection, dataset, records)


def _pin(connection: Connection, dataset: Dataset, records: int) -> None:
    if cohorts_of(connection, dataset.id):
        raise LedgerError(
            f"{dataset.name!r} has cohorts, and the ids of a cohort say which records it holds: leave the number out"
        )
    connection.execute("UPDATE dataset SET records = ? WHERE id = ?", (records, dataset.id))


def _protect_first(connection: Connection, dataset: Dataset, unit: Unit) -> None:
    """Declare what a dataset protects; raise LedgerError if it protects another unit already."""
    account = dataset.protection.unit
    if account not in (None, unit):
        raise LedgerError(
            f"the account of {dataset.name!r} protects {account.words.unit}, and not {unit.words.unit}: that stays. "
            "Use another dataset, whose budget is in addition"
        )
    if unit is Unit.ONE_USER and cohorts_of(connection, dataset.id):
        raise LedgerError(f"users do not go with cohorts, and {dataset.name!r} has some. It protects single records")
    if account is None:
        write_protection(connection, dataset.id, Protection(unit))


def _options(budget: Budget) -> str:
    epsilon, delta = (decimal_text(float(number)) for number in numbers_of(budget))
    return f"--epsilon {epsilon}" + (f" --delta {delta}" if delta != "0" else "")


def _require_count(records: Any) -> None:
    if records is not None and (not isinstance(records, int) or isinstance(records, bool) or records < 1):
        raise InputError("must be the number of all records, such as 1000", argument="records")


def _require_text(value: Any, argument: str, example: str = "adult-2026") -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"must be a printable text that is not empty, such as {example!r}", argument=argument)


def _dataset_and_column(name: str) -> tuple[str, str]:
    """Return the dataset and the column that a name would be of; no column where it is of a whole dataset."""
    scope = Scope.parse(name)
    return scope.dataset, scope.column
