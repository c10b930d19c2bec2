"""A grant: the noise of one charged release, for workers to draw where the records are."""

import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import IDS_KIND, counts_unreadable, open_account
from labeldp.mechanisms import COMMANDS, Domain, FiniteMechanism
from labeldp.privacy import (
    Budget,
    Certificate,
    DomainError,
    InputError,
    KeyedRandomness,
    LabelDPError,
    Request,
    Source,
    whole_cost,
)
from labeldp.releases.column import column_mechanism
from labeldp.releases.survey import IdColumn, LabelTask, TableIds, check_columns, survey_labels
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
        records: how many there are.
    """

    mechanism: FiniteMechanism
    label: str
    ids: IdColumn
    certificate: Certificate = field(repr=False)
    release_key: bytes = field(repr=False)
    check_key: bytes = field(repr=False)
    check: str = field(repr=False)
    records: int = 0

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
    ledger: str | os.PathLike[str],
    dataset: str,
    cohort: str | None = None,
    revision: str | None = None,
    columns: tuple[str, ...] | None = None,
    conditions: tuple[str, ...] = (),
    note: Callable[[str], None] | None = None,
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
        ledger: the ledger file to charge; made if it is not there.
        dataset, cohort, revision: see `LedgerFile.dataset`. The first dataset of a new file gets the cost of one
            release as its whole budget.
        columns: the public columns that stand beside the ids in the output; None for none.
        conditions: what the guarantee depends on beside the mechanism, in words: for the certificate.
        note: called with a sentence about a new ledger.

    Guarantee (charged_first, refusal_free): a grant exists only once its charge is on disk; what is refused charges
        nothing.

    Raises:
        InputError: an argument is wrong, a label is missing or outside of the domain, or an id is missing or repeated.
        BudgetExceeded: nothing was charged.
        LedgerError: the ledger cannot be used, or holds other labels; nothing was charged.
        LabelDPError: the table changed meanwhile; nothing was charged.
    """
    request = release_request(
        mechanism, Source.of(data, label, id), dataset, cohort=cohort, revision=revision, in_place=columns is not None
    )
    return ask_grant(
        request,
        data,
        mechanism=mechanism,
        ledger=ledger,
        columns=columns or (),
        conditions=conditions,
        note=note,
        new_budget=whole_cost(mechanism.privacy_loss()),
    )


@counts_unreadable
def ask_grant(
    request: Request,
    data: Any,
    *,
    mechanism: FiniteMechanism | None = None,
    ledger: str | os.PathLike[str],
    columns: tuple[str, ...] = (),
    conditions: tuple[str, ...] = (),
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Grant:
    """Charge a release as a request says, and return the grant; see `charge`.

    Args:
        mechanism: what `release_request` was given; None for the one of the command line that the request names.
        columns: the public columns beside the ids in the output.
        new_budget: of a ledger that does not exist yet; by default what the request costs.
    """
    mechanism = mechanism or column_mechanism(request)(request.budget.epsilon)
    table, domain = open_table(data), mechanism.domain.in_file()
    label, id = request.source.label, request.source.ids
    check_columns(table, label, id, domain)
    released = released_column(mechanism, label)
    if released != label and released in table.columns:
        raise InputError(f"must not have a column {released!r} already: it is the name of the output", argument="data")
    records = TableIds(table, id)
    account = open_account(
        request,
        ledger,
        public=(*columns, id),
        named=True,
        records=records.of,
        count=records.count,
        mechanism=lambda account: mechanism,
        budget=new_budget or whole_cost(mechanism.privacy_loss()),
        note=note,
    )
    ids, check_key = IdColumn(id, account.ids_key), secrets.token_bytes(32)
    task = LabelTask(ids, label, domain, account.digest_key, check_key)
    with account.comparing(mechanism.domain):
        survey = survey_labels(table, task, records.digest)
    pending = survey.labels.request(account, mechanism, IDS_KIND, (SECRECY, *conditions))
    certificate = with_conditions(account.charge_stream(pending, mechanism), pending.conditions)
    certificate = replace(certificate, request=request)
    release_key = account.randomness.bind(pending.context()).release_key
    return Grant(
        mechanism, label, ids, certificate, release_key, check_key, survey.check.hexdigest(), survey.ids.records
    )


def release_request(mechanism: FiniteMechanism, source: Source, dataset: str, **options: Any) -> Request:
    """Return the request of a release: that of `release_file` where its mechanism is one of the command line.

    Args:
        options: cohort, revision and in_place.

    Raises:
        InputError: the mechanism does not answer each record by itself.
    """
    _check_mechanism(mechanism)
    epsilon, domain = mechanism.epsilon, mechanism.domain
    for does, entry in COMMANDS.items():
        if not entry.on_bags and entry.name == type(mechanism).__name__:
            alike = entry.load()(domain=domain, epsilon=epsilon)
            if alike.specification() == mechanism.specification():
                return Request.of("release", does, dataset, source, epsilon, 0, domain=domain, **options)
    described = json.dumps(mechanism.specification(), sort_keys=True)
    does = re.sub("(?<=[a-z])(?=[A-Z])", "-", type(mechanism).__name__).lower()
    return Request.of("release", does, dataset, source, epsilon, 0, domain=domain, described=described, **options)


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
