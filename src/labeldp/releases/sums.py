"""A private column of a file that is summed with noise, once, and the public columns next to it."""

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import Curator, Ledger, open_account, records_digest
from labeldp.inference import plan_sums
from labeldp.mechanisms import Domain, LabelCodes, LabelSource, Mechanism
from labeldp.privacy import (
    Budget,
    InputError,
    LabelDPError,
    PrivacyWarning,
    Public,
    Release,
    Request,
)
from labeldp.tables import Table, by_id, check_kind, codes_of, distinct_ids, open_table, plain, release_writer

COLUMNS = ("by", "treated", "probabilities", "one", "other")
"""The options of a request that name public columns."""


@dataclass(frozen=True)
class OrderedLabels(LabelSource):
    """A private column of a table, in the order of the record ids, if there are any, whatever the order of the rows.

    Args:
        table: the table.
        label: its private column, which is read when a curator asks for the codes.
        domain: of the labels.
        ids: record ids in order, or None for row numbers.
        order: the row of each record, shape (n,); None if they stand in order.
    """

    table: Table = field(repr=False)
    label: str
    domain: Domain
    ids: Any = field(repr=False)
    order: Any = field(repr=False)

    @property
    @abstractmethod
    def records(self) -> int:
        """How many there are."""

    def codes(self, domain: Domain) -> NDArray[Any]:
        """Read the private labels and return their codes, in the order of the records, shape (n,)."""
        blocks, domain = self.table.blocks([self.label], encoded=self.label), domain.in_file()
        codes = np.concatenate([codes_of(batch, self.label, domain) for batch in blocks])
        self.require_same(len(codes))
        return codes if self.order is None else codes[self.order]

    def require_same(self, rows: int) -> None:
        """Raise LabelDPError if the table is another than the one whose ids were read."""
        if rows != self.records or not self.table.is_unchanged():
            raise LabelDPError(f"{self.table.path} changed while it was being read: nothing was charged")


def ids_in_order(content: pa.Table, column: str) -> tuple[Any, NDArray[np.intp]]:
    """Return the record ids of a column in order, and the row of each.

    Raises:
        InputError: two records have one id, or it cannot be one.
    """
    ids = distinct_ids(content, column)
    order = by_id(ids)
    return [ids[row] for row in order.tolist()] if isinstance(ids, list) else ids[order], order


@dataclass(frozen=True)
class PrivateColumn(OrderedLabels):
    """A private column of a table, with the public columns next to it.

    Args:
        public: the other columns, in the order of the records.
        id_column: the column of the ids.
    """

    public: pa.Table = field(repr=False)
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
            ids, order = ids_in_order(public, id_column)
            public = public.take(pa.array(order))
        return cls(table, label, domain, ids, order, public, id_column)

    @property
    def records(self) -> int:
        """How many there are."""
        if self.public.num_columns:
            return int(self.public.num_rows)
        return self.table.rows or sum(batch.num_rows for batch in self.table.blocks([self.label]))

    def plan(self, request: Request) -> Mechanism:
        """Return the mechanism with the sums that a request asks for; see `labeldp.inference.plan_sums`.

        Raises:
            InputError: a column is not there, or of another kind.
        """
        options = request.options
        names = {role: str(options[role]) for role in COLUMNS if role in options}
        why = str(options.get("why") or f"public columns: {', '.join(names.values()) or 'none'}")
        values = {role: self._values(role, name, request.does) for role, name in names.items()}
        titles = {"by": "groups", "probabilities": "scores" if request.does == "auc" else "predictions"}
        titles |= {"one": "predictions", "other": "rival"}
        columns: dict[str, Any] = {titles.get(role, role): Public(value, why=why) for role, value in values.items()}
        epsilon = float(request.budget.epsilon)
        return plan_sums(request.does, self.domain, epsilon, records=self.records, **columns)

    def _values(self, role: str, name: str, question: str) -> Any:
        """Return a public column as a question takes it, shape (n,)."""
        if name not in self.public.column_names:
            raise InputError(f"must be a public column: there is no {name!r}", argument=role)
        column = plain(self.public.column(name).combine_chunks())
        if role == "by":
            return column.to_numpy(zero_copy_only=False)
        if role in ("one", "other"):
            return self.domain.in_file().encode(column)
        if role == "treated":
            return arms_in(column)
        numbers = numbers_in(column)
        if numbers is None:
            raise InputError("must be a column of numbers, or of true and false", argument=role)
        return (numbers > 0.5).astype(np.int64) if role == "probabilities" and question != "auc" else numbers

    def release(
        self,
        request: Request,
        *,
        ledger: str | os.PathLike[str],
        out: str | os.PathLike[str] | None = None,
        note: Callable[[str], None] | None = None,
        new_budget: Budget | None = None,
    ) -> Release[Any]:
        """Release the sums that a request asks for; the same ones again cost nothing and are the same.

        Args:
            request: of the kind "sums".
            out: a new file with a row for each sum, and the certificate; None for none.
            ledger, note, new_budget: see `labeldp.releases.release_file`.

        Guarantee (charged_first, refusal_free): nothing is drawn before its charge is on disk, and what is refused
            charges nothing.

        Raises:
            InputError: a label is missing or outside of the domain; nothing was charged.
            BudgetExceeded: nothing was charged and nothing released.
            LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
        """
        mechanism, options = self.plan(request), request.options
        released = f"{self.label}_sum"
        names = ("cell", "class", released)
        with nullcontext() if out is None else release_writer(out, names, released=released) as writer:
            account = open_account(
                request,
                ledger,
                public=(*(str(options[role]) for role in COLUMNS if role in options), self.id_column),
                out=out,
                named=self.ids is not None,
                records=lambda account: records_digest(self.ids, account),
                count=lambda: self.records,
                mechanism=lambda account: mechanism,
                budget=new_budget,
                note=note,
            )
            curator = Curator(self, domain=self.domain, ledger=account, ids=self.ids)
            release = curator.release(mechanism, rng=account.randomness)
            release = replace(release, certificate=replace(release.certificate, request=request))
            if writer is not None:
                sums = np.asarray(release.value)
                table = sums.reshape(len(sums), -1)
                cells, classes = (pa.array(indices.ravel()) for indices in np.indices(table.shape))
                writer.write(pa.array(table.ravel()), pa.RecordBatch.from_arrays([cells, classes], names=names[:2]))
                writer.certify(release.certificate.to_json())
        return release

    def rehearse(self, mechanism: Mechanism) -> Release[Any]:
        """Return a release of synthetic labels, on which an estimate may be tried before anything is charged."""
        zeros = np.zeros(self.records, dtype=self.domain.dtype)
        curator = Curator(LabelCodes(zeros), domain=self.domain, ledger=Ledger(Budget(1000)))
        with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # made-up labels have no privacy
            return curator.release(mechanism, rng=np.random.default_rng(0))


def numbers_in(column: pa.Array) -> Any:
    """Return a column of numbers, or of true and false, shape (n,); None of others."""
    for kind in (pa.float64(), pa.bool_()):
        try:
            return column.cast(kind).to_numpy(zero_copy_only=False)
        except pa.ArrowException:
            continue
    return None


def arms_in(column: pa.Array) -> Any:
    """Return the arm of each record, by number, true or false, or name, shape (n,)."""
    numbers = numbers_in(column)
    return column.to_numpy(zero_copy_only=False) if numbers is None else numbers


def ask_sums(
    request: Request,
    data: Any,
    *,
    ledger: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Release[Any]:
    """Release the sums of a request of the kind "sums"; see `PrivateColumn.release`."""
    source = request.source
    column = PrivateColumn.read(data, source.label, Domain.from_json(request.domain), source.ids or None)
    return column.release(request, ledger=ledger, out=out)
