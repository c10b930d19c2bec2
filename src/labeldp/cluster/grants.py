"""A grant: the noise of one charged release, for workers to draw where the records are."""

import os
import secrets
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import IDS_KIND, DatasetLedger, LedgerFile, counting_unreadable
from labeldp.mechanisms import Domain, FiniteMechanism
from labeldp.privacy import Certificate, DomainError, InputError, KeyedRandomness, LabelDPError, Unit, whole_cost
from labeldp.streams import IdColumn, LabelTask, check_columns, check_ids, survey_labels
from labeldp.tables import CHANGED, codes_of, open_table, released_column, released_values

SECRECY = "the grant, which tasks and workers carry, stays as secret as the labels"


@final
@dataclass(frozen=True)
class Grant:
    """The right to draw the noise of one release that was charged, for any of its records; get one from `charge`.

    It can be pickled and sent to workers, which answer their records by `randomize_batch`, in any order and as often as
    they like. It is as secret as the labels: with it the noise of this release can be removed.

    Guarantee (own_noise): a grant draws the noise of its own release and of no other, and shows no key when it is
        printed.

    Fields:
        mechanism: what answers.
        label: the private column.
        ids: names the records.
        certificate: of the release.
    """

    mechanism: FiniteMechanism
    label: str
    ids: IdColumn
    certificate: Certificate = field(repr=False)
    release_key: bytes = field(repr=False)
    check_key: bytes = field(repr=False)
    check: str = field(repr=False)

    @property
    def released(self) -> str:
        """The name of the noisy column."""
        return released_column(self.mechanism, self.label)

    @property
    def released_type(self) -> pa.DataType:
        """The Arrow type of the noisy column."""
        return released_values(self.mechanism, self._drawn(np.zeros(0, dtype=np.uint8), np.zeros(0, np.uint64))).type

    @property
    def domain(self) -> Domain:
        """The domain as a file names it."""
        return self.mechanism.domain.in_file()

    def read(self, batch: pa.RecordBatch) -> tuple[Any, NDArray[Any]]:
        """Return the names and the private codes of the records of a block.

        Raises:
            LabelDPError: a label is missing or outside of the domain: these are not the labels that were charged.
        """
        try:
            return self.ids.of(batch), codes_of(batch, self.label, self.domain)
        except DomainError:
            pass
        raise LabelDPError(f"{CHANGED.format('released')}: these are not the labels that were charged")

    def answer(self, batch: pa.RecordBatch, names: Any, codes: NDArray[Any]) -> pa.RecordBatch:
        """Return a block with noisy labels in place of the private ones, which were read from it."""
        number = batch.schema.get_field_index(self.label)
        columns, titles = list(batch.columns), list(batch.schema.names)
        columns[number], titles[number] = released_values(self.mechanism, self._drawn(codes, names)), self.released
        return pa.RecordBatch.from_arrays(columns, names=titles)

    def _drawn(self, codes: NDArray[Any], names: Any) -> NDArray[Any]:
        return self.mechanism.randomize(codes, rng=KeyedRandomness.of_release(self.release_key), ids=names)


def charge(
    data: Any,
    *,
    label: str,
    id: str,
    mechanism: FiniteMechanism,
    account: DatasetLedger,
    conditions: tuple[str, ...] = (),
) -> Grant:
    """Charge a release of the label column of a table to its ledger, and return the grant to draw it.

    Use it where an engine holds the table, whose parts lie on many machines. It is read twice: its ids, which must be
    distinct, and its labels. The same request again, also by `release_file` on one machine, is found again, costs
    nothing and has the same noise.

    Args:
        data: a `Table`, or what `open_table` takes.
        label: its private column.
        id: its column of record ids, all different; noise follows the id.
        mechanism: answers each record by itself, such as `RandomizedResponse(domain=Classes(10), epsilon=1)`.
        account: `LedgerFile(path).dataset(name)`.
        conditions: what the guarantee depends on beside the mechanism, in words: for the certificate.

    Guarantee (charged_first, refusal_free): a grant exists only once its charge is on disk; what is refused charges
        nothing.

    Raises:
        InputError: an argument is wrong, a label is missing or outside of the domain, or an id is missing or repeated.
        BudgetExceeded: nothing was charged.
        LedgerError: the ledger cannot be used, or holds other labels; nothing was charged.
        LabelDPError: the table changed meanwhile; nothing was charged.
    """
    _check_mechanism(mechanism)
    table, domain = open_table(data), mechanism.domain.in_file()
    check_columns(table, label, id, domain)
    released = released_column(mechanism, label)
    if released != label and released in table.columns:
        raise InputError(f"must not have a column {released!r} already: it is the name of the output", argument="data")
    account.refuse_private([id])
    account.check_unit(Unit.ONE_LABEL)
    account.afford(mechanism)
    ids, check_key = IdColumn(id, account.ids_key), secrets.token_bytes(32)
    with counting_unreadable(lambda: account, mechanism.domain):
        digest = check_ids(table, ids, account)
    account = account.of_records(digest)
    account.afford(mechanism)
    task = LabelTask(ids, label, domain, account.digest_key, check_key)
    with account.comparing(mechanism.domain):
        survey = survey_labels(table, task, digest)
    request = survey.labels.request(account, mechanism, IDS_KIND, (SECRECY, *conditions))
    certificate = with_conditions(account.charge_stream(request, mechanism), request.conditions)
    release_key = account.randomness.bind(request.context()).release_key
    return Grant(mechanism, label, ids, certificate, release_key, check_key, survey.check.hexdigest())


def open_account(
    mechanism: FiniteMechanism,
    ledger: str | os.PathLike[str],
    dataset: str,
    cohort: str | None = None,
    revision: str | None = None,
) -> DatasetLedger:
    """Return the ledger of a dataset; the first one of a new file gets the cost of one release as its whole budget.

    Raises:
        InputError: not a mechanism that answers each record by itself.
        LedgerError: the ledger cannot be used, or has no such dataset.
    """
    _check_mechanism(mechanism)
    cost = whole_cost(mechanism.privacy_loss())
    return LedgerFile(ledger).dataset(dataset, cohort=cohort, revision=revision, budget=cost)


def randomize_batch(grant: Grant, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a block with noisy labels in place of the private ones; other columns stay unchanged.

    A pure function: the answer to a record depends on the grant, its id and its label alone. On labels that changed
    since they were charged the same noise would show what changed: do not publish what it answers then (`write_parts`
    compares).

    Args:
        grant: from `charge`.
        batch: a block that holds the column of ids and the private column.

    Raises:
        InputError: a column is missing, or an id.
        LabelDPError: these are not the labels that were charged.
    """
    return grant.answer(batch, *grant.read(batch))


def _check_mechanism(mechanism: Any) -> None:
    if not isinstance(mechanism, FiniteMechanism) or mechanism.records is not None:
        raise InputError(
            "must answer each record by itself, such as RandomizedResponse(domain=Classes(10), epsilon=1)",
            argument="mechanism",
        )


def with_conditions(certificate: Certificate, conditions: tuple[str, ...]) -> Certificate:
    """Return a certificate that names some conditions, each once."""
    return replace(certificate, assumptions=tuple(dict.fromkeys((*certificate.assumptions, *conditions))))
