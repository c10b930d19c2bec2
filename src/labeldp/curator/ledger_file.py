"""The durable ledger: a file of datasets."""

import os
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from typing import Any, final

from labeldp.curator.cohorts import SortedIds, cohorts_of, insert_cohort, refuse_known, unknown_cohort
from labeldp.curator.dataset_ledger import DatasetLedger
from labeldp.curator.datasets import (
    IDS,
    SECRET_BYTES,
    Dataset,
    as_declared,
    budget_texts,
    declare_first,
    find_dataset,
    insert_dataset,
    known_dataset,
    now,
    record_change,
    unknown_dataset,
)
from labeldp.curator.declared import Declared, declare, declared_domains
from labeldp.curator.ledger_store import Store
from labeldp.curator.ledger_totals import read_totals
from labeldp.mechanisms import Domain
from labeldp.privacy import Budget, BudgetExceeded, InputError, LedgerError, NotCopyable, derive_key


@final
class LedgerFile(NotCopyable):
    """A file that remembers every release of some datasets: budget, charges, values, and the key of keyed noise.

    Use one for all releases of a column of labels, by any number of processes and runs. Asking for the same release
    again returns the same bits and costs nothing. The file is as secret as the labels, since its keys can remove the
    noise: keep it beside them, and never restore an older copy, which forgets what was spent.

    Args:
        path: path of the file. If it does not exist, it is created when the first dataset is added or charged.

    Guarantee: a value leaves only after its charge is on disk; processes that share the file never pass a budget
        together; the file is readable by its owner alone.

    Raises:
        LedgerError: the file is not a ledger, is of another version, is open to other users, or cannot be read. It is
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

    def add(self, name: str, budget: Budget, domain: Domain | None = None) -> None:
        """Add a dataset. Adding it again with the same budget and domain changes nothing.

        Args:
            name: name of the dataset, such as "adult"; it appears in certificates.
            budget: the most that all its releases may cost together.
            domain: domain of its labels; by default the first one that labels are compared with.

        Raises:
            LedgerError: the dataset has another budget or domain; `set_budget` and `set_domain` change it.
        """
        _require_text(name, "name")
        declared = None if domain is None else as_declared(domain)
        with self._store.writing(create=True) as connection:
            known = find_dataset(connection, name)
            if known is None:
                insert_dataset(connection, name, budget)
            elif budget_texts(known.budget) != budget_texts(budget):
                raise LedgerError(
                    f"the dataset {name!r} has a budget already ({known.budget}); "
                    "to change it is a decision of its own: LedgerFile.set_budget, or labeldp ledger add --change"
                )
            if declared is not None:
                declare_first(connection, known_dataset(connection, self.path, name), declared, self.path)

    def set_budget(self, name: str, budget: Budget, why: str | None = None) -> None:
        """Change the budget of a dataset and record the change; what was spent stays spent.

        Args:
            name: name of the dataset.
            budget: the new budget.
            why: the reason, in words.

        Raises:
            BudgetExceeded: more was spent already.
            LedgerError: the dataset does not exist.
        """
        self.change(name, budget, None, why)

    def set_domain(self, name: str, domain: Domain, why: str | None = None) -> None:
        """Declare another domain for a dataset, in addition to those that were declared before.

        Whether labels fit a domain is a bit about all of them that no epsilon covers, so certificates of later
        releases count every change. A domain that was declared before changes nothing; nor do another order of the
        classes, another grid, or `clip`.

        Args:
            name: name of the dataset.
            domain: domain of its labels.
            why: the reason, in words.

        Raises:
            LedgerError: the dataset does not exist.
        """
        self.change(name, None, domain, why)

    def change(self, name: str, budget: Budget | None, domain: Domain | None, why: str | None = None) -> None:
        """Do what `set_budget` and `set_domain` do, both or neither; None changes nothing."""
        if why is not None:
            _require_text(why, "why", "the questionnaire has a new answer")
        declared = None if domain is None else as_declared(domain)
        with self._store.writing() as connection:
            known = known_dataset(connection, self.path, name)
            if budget is not None:
                _change_budget(connection, known, budget, why)
            if declared is not None:
                _change_domain(connection, known, declared, why)

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

        Guarantee: ids of two cohorts are disjoint; a cohort is added whole or not at all.

        Raises:
            InputError: an id occurs twice, or there is none; nothing was added.
            LedgerError: an id is in another cohort, the first cohort is not what was released so far, or the dataset
                was released without ids; nothing was added.
        """
        _require_text(cohort, "cohort", "people of May")
        account = self.dataset(name)
        key = account.digest_key
        with closing(SortedIds(account.ids_key or key, key)) as found:
            for block in ids if isinstance(ids, Iterator) else (ids,):
                found.add(block)
            if not found.records:
                raise InputError("must hold at least one record id", argument="ids")
            [(number,)] = self._store.rows("SELECT id FROM dataset WHERE name = ?", (name,))
            # Most of the work, while others may write; the transaction compares what came meanwhile.
            compared = tuple(each for each in account.cohorts if each.name != cohort and each.digest != found.digest)
            with self._store.connected() as reading:
                refuse_known(reading, number, name, compared, found)
            with self._store.writing() as connection:
                known = known_dataset(connection, self.path, name)
                if derive_key(known.secret, b"labels") != key:
                    raise LedgerError(f"the dataset {name!r} was replaced meanwhile: run again")
                insert_cohort(connection, known, self.path, cohort, found, compared)

    def dataset(
        self, name: str, *, cohort: str | None = None, revision: str | None = None, budget: Budget | None = None
    ) -> "DatasetLedger":
        """Return the ledger of one dataset, for a curator.

        Args:
            name: name of the dataset.
            cohort: name of a cohort, whose records alone are released; by default all records, as they are now or as
                they were before a cohort was added: their ids tell.
            revision: names another state of its labels. Labels that changed are refused without one, since two
                releases of nearly the same labels reveal what changed; under a revision they are charged in addition.
            budget: if the file does not exist yet, the budget with which its first dataset is added before labels are
                read. A known dataset keeps its own.

        Raises:
            LedgerError: the dataset or the cohort does not exist: it must be added first, since a typing error would be
                a second budget for the same labels.
        """
        _require_text(name, "name")
        if revision is not None:
            _require_text(revision, "revision")
        rows = self._store.rows("SELECT secret FROM dataset WHERE name = ?", (name,))
        if rows:
            scheme = self._store.rows("SELECT ids FROM dataset WHERE name = ?", (name,), since=3)
            found = DatasetLedger(self._store, name, revision or "", rows[0][0], None, scheme[0][0] if scheme else 1)
            return found if cohort is None else found.of_cohort(cohort)
        others = self.datasets()
        if budget is None or others:
            raise unknown_dataset(self.path, name, others)
        if cohort is not None:
            raise unknown_cohort(self.path, name, cohort, ())
        return DatasetLedger(self._store, name, revision or "", secrets.token_bytes(SECRET_BYTES), budget, IDS)

    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"


def _change_budget(connection: Connection, dataset: Dataset, budget: Budget, why: str | None) -> None:
    cohorts = range(max(1, len(cohorts_of(connection, dataset.id))))
    spent, texts = read_totals(connection, dataset.id).loss(cohorts), budget_texts(budget)
    if not budget.admits(spent):
        raise BudgetExceeded(
            f"the budget of {dataset.name!r} cannot be {budget}: "
            f"epsilon = {spent.epsilon(budget.delta):.6g} at that delta was spent already"
        )
    if texts != budget_texts(dataset.budget):
        connection.execute("UPDATE dataset SET epsilon = ?, delta = ? WHERE id = ?", (*texts, dataset.id))
        record_change(connection, dataset, "budget", str(dataset.budget), str(budget), why)


def _change_domain(connection: Connection, dataset: Dataset, declared: Declared, why: str | None) -> None:
    before = declared_domains(connection, dataset.id)
    if declared.form not in before:
        declare(connection, dataset.id, declared, now())
        if before:
            record_change(connection, dataset, "declared domain", " or ".join(before.values()), declared.words, why)


def _require_text(value: Any, argument: str, example: str = "adult-2026") -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"must be a printable text that is not empty, such as {example!r}", argument=argument)
