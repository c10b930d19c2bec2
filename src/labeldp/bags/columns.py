"""A private column of a file that is summed with noise, once, and the public columns next to it."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.curator import Curator, Ledger, LedgerFile
from labeldp.mechanisms import Domain, LabelCodes, LabelSource, Mechanism
from labeldp.privacy import Budget, InputError, LabelDPError, PrivacyWarning, Release
from labeldp.tables import Table, by_id, check_kind, codes_of, distinct_ids, open_table


@dataclass(frozen=True)
class PrivateColumn(LabelSource):
    """A private column of a table, with the public columns next to it, in the order of the record ids.

    Args:
        table: the table.
        label: its private column, which is read by `release` alone.
        domain: of the labels.
        public: the other columns.
        ids: record ids in order, or None for row numbers.
        order: the row of each record, shape (n,); None if they stand in order.
        id_column: the column of the ids.
    """

    table: Table = field(repr=False)
    label: str
    domain: Domain
    public: pa.Table = field(repr=False)
    ids: Any = field(repr=False)
    order: Any = field(repr=False)
    id_column: str | None = None

    @classmethod
    def read(cls, data: Any, label: str, domain: Domain, id_column: str | None = None) -> "PrivateColumn":
        """Read all columns but the label, and check its kind.

        Args:
            data: a CSV, Parquet or Arrow file, a folder of them, or a table in memory.
            label: the private column.
            domain: the declared domain of the labels.
            id_column: record ids, all different: noise follows the ids, not the order of the rows.

        Raises:
            InputError: a column cannot be used.
        """
        table = open_table(data)
        table.require(label, "label")
        for part in table.parts:
            check_kind(part.schema, label, domain)
        if id_column is not None:
            table.require(id_column, "id_column")
        if id_column == label:
            raise InputError("must be another column than label", argument="id_column")
        names = [name for name in table.columns if name != label]
        public, ids, order = table.read(names) if names else pa.table({}), None, None
        if id_column is not None:
            ids = distinct_ids(public, id_column)
            order = by_id(ids)
            ids = [ids[row] for row in order.tolist()] if isinstance(ids, list) else ids[order]
            public = public.take(pa.array(order))
        return cls(table, label, domain, public, ids, order, id_column)

    @property
    def records(self) -> int:
        """How many there are."""
        if self.public.num_columns:
            return int(self.public.num_rows)
        return self.table.rows or sum(batch.num_rows for batch in self.table.blocks([self.label]))

    def release(
        self,
        mechanism: Mechanism,
        *,
        epsilon: Any,
        ledger: str | os.PathLike[str],
        dataset: str,
        columns: Sequence[str] = (),
        cohort: str | None = None,
        revision: str | None = None,
        other_ids: bool = False,
        note: Callable[[str], None] | None = None,
        new_budget: Budget | None = None,
    ) -> Release[Any]:
        """Release sums over the labels; the same sums again cost nothing and are the same.

        Args:
            mechanism: the sums, such as `labeldp.inference.plan_sums` makes.
            epsilon: what they cost.
            columns: the names of the public columns that the sums depend on.
            ledger, dataset, cohort, revision, other_ids, note, new_budget: see `labeldp.fit.release_file`.

        Guarantee (charged_first, refusal_free): nothing is drawn before its charge is on disk, and what is refused
            charges nothing.

        Raises:
            InputError: a label is missing or outside of the domain; nothing was charged.
            BudgetExceeded: nothing was charged and nothing released.
            LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
        """
        budget = new_budget or Budget(epsilon, 0)
        account = LedgerFile(ledger).dataset(
            dataset, cohort=cohort, revision=revision, other_ids=other_ids, budget=budget
        )
        account.check_users(None)
        account.check_ids(self.ids is not None)
        account.check_domain(self.domain)  # before the budget: a larger one would not help
        account.check_count(self.records)
        account.refuse_private((*columns, self.id_column))
        account.afford(mechanism)
        if account.is_new and note:
            note(account.creation(ledger))
        curator = Curator(self, domain=self.domain, ledger=account, ids=self.ids)
        return curator.release(mechanism, rng=account.randomness)

    def rehearse(self, mechanism: Mechanism) -> Release[Any]:
        """Return a release of synthetic labels, on which an estimate may be tried before anything is charged."""
        zeros = np.zeros(self.records, dtype=self.domain.dtype)
        curator = Curator(LabelCodes(zeros), domain=self.domain, ledger=Ledger(Budget(1000)))
        with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # made-up labels have no privacy
            return curator.release(mechanism, rng=np.random.default_rng(0))

    def codes(self, domain: Domain) -> Any:
        """Read the private labels and return their codes, in the order of the records, shape (n,)."""
        blocks, domain = self.table.blocks([self.label], encoded=self.label), domain.in_file()
        codes = np.concatenate([codes_of(batch, self.label, domain) for batch in blocks])
        if len(codes) != self.records or not self.table.is_unchanged():
            raise LabelDPError(f"{self.table.path} changed while it was being read: nothing was charged")
        return codes if self.order is None else codes[self.order]
