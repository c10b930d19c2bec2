"""What a fit reads: the private file, and a test file whose labels are public."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.learners import TableMap
from labeldp.mechanisms import Domain, Interval
from labeldp.privacy import DomainError, InputError
from labeldp.tables import INDEX, DistinctIds, TableEncoder, TableFile, label_numbers, open_table, record_ids
from labeldp.workflows.fit_settings import FitSettings, Ids
from labeldp.workflows.labels import check_kind, codes_of
from labeldp.workflows.summarize import PublicRows

PRIVATE_TEST = "--test: the test file holds private records: the labels of {} must be public, and of other records"
OUTSIDE_TEST = "--test: labels of {} must lie in the declared domain {}"

UNLIKE = 0.95
"""Of records of which so many differ from all others, one that occurs twice is the same record."""


@dataclass(frozen=True)
class PrivateRows:
    """The private file, in the order of its record ids where it has some.

    Args:
        columns: the feature columns that were asked for.
        encoder: of those that are used.
        features: shape (n, d).
        ids: record ids, or None for row numbers.
        labels: the private ones, shape (n,), in one column.
        domain: what they can be.
        index: the columns that pandas wrote for an index, where no features are named.
        keeps_index: whether they are features all the same.
    """

    columns: tuple[str, ...]
    encoder: TableEncoder = field(repr=False)
    features: NDArray[np.float64] = field(repr=False)
    ids: Ids | None = field(repr=False)
    labels: pa.Table = field(repr=False)
    domain: Domain
    index: tuple[str, ...] = ()
    keeps_index: bool = False

    @cached_property
    def codes(self) -> NDArray[Any]:
        """The codes of the private labels, shape (n,): who asks first compares them with the domain.

        Raises:
            DomainError: a label is missing or outside of it.
        """
        return codes_in(self.labels, self.labels.column_names[0], self.domain)

    @classmethod
    def read(cls, data: str, settings: FitSettings, *, index: bool = False) -> "PrivateRows":
        """Read a whole file and check all but the labels: what is wrong is refused here, and nothing was charged.

        Args:
            data: the file.
            settings: what columns are asked for.
            index: take the index of a pandas data frame for a feature where no features are named, as was done once.

        Raises:
            InputError: a column or an id is not as it should be.
        """
        table = open_table(data)
        columns = _feature_columns(table, settings)
        check_kind(table, settings.label, settings.domain)
        others = [settings.label, *([settings.id_column] if settings.id_column else [])]
        content: pa.Table = table.read([*columns, *others])
        ids = None
        if settings.id_column is not None:
            ids = distinct_ids(content, settings.id_column)
            order = by_id(ids)
            content = content.take(pa.array(order))
            ids = [ids[row] for row in order.tolist()] if isinstance(ids, list) else ids[order]
        found = () if settings.features else tuple(name for name in columns if name in table.index)
        left = () if index else found
        features = content.select([name for name in columns if name not in left])
        if not features.num_columns:
            raise InputError(f"{table.path} must have feature columns beside the label and the index of pandas")
        encoder = TableEncoder.fit(features)
        labels = content.select([settings.label])
        notes = (*(f"left out {name!r}: {INDEX}" for name in left), *encoder.notes)
        rows = encoder.transform(features)
        return cls(columns, replace(encoder, notes=notes), rows, ids, labels, settings.domain, found, index)

    def representation(self) -> TableMap:
        """What makes linear features of such rows."""
        return TableMap(categorical=self.encoder.categorical)


def public_rows(path: str, data: str, settings: FitSettings, private: PrivateRows) -> PublicRows:
    """A test file: its labels are public, and never trained on.

    Raises:
        InputError: it holds the private records, or a column or label is not as it should be.
    """
    table, encoder = open_table(path), private.encoder
    refusal = InputError(PRIVATE_TEST.format(path))
    if os.path.samefile(path, data):
        raise refusal
    columns = [column.name for column in encoder.columns]
    for name in [*columns, settings.label]:
        table.require(name, "--test")
    content: pa.Table = table.read([*columns, settings.label])
    features = encoder.transform(content.select(columns))
    if same_rows(features, private.features):
        raise refusal
    batches, domain = content.select([settings.label]).to_batches(), settings.domain
    try:
        codes = codes_in(content, settings.label, domain)
    except DomainError:
        raise InputError(OUTSIDE_TEST.format(path, domain)) from None
    numbers = isinstance(domain, Interval)
    labels = np.concatenate([label_numbers(batch, settings.label) for batch in batches]) if numbers else codes
    return PublicRows(Path(path).name, features, labels)


def codes_in(content: pa.Table, label: str, domain: Domain) -> NDArray[Any]:
    """The codes of a table's labels, shape (rows,)."""
    return np.concatenate([codes_of(batch, label, domain) for batch in content.select([label]).to_batches()])


def same_rows(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether an array holds the records of another, in whatever order, or some of them.

    How often rows occur counts where most are alike anyway. Where hardly any are, one row in a hundred that occurs in
    both tells: by chance it would not.
    """
    first, second = Counter(_row_digests(one)), Counter(_row_digests(other))
    if first == second or (2 * len(second) > len(other) and first.keys() == second.keys()):
        return True
    shared = sum(count for row, count in first.items() if row in second)
    return len(second) >= UNLIKE * len(other) and len(one) <= 100 * shared


def _row_digests(matrix: NDArray[Any]) -> Iterator[bytes]:
    """A digest of each row; the two zeros are one number, and so is everything that is none."""
    plain = np.where(np.isnan(matrix), np.nan, matrix + 0.0) if matrix.dtype.kind == "f" else matrix
    return (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in plain)


def _feature_columns(table: TableFile, settings: FitSettings) -> tuple[str, ...]:
    """The columns that were asked for; without a word all but label and ids."""
    table.require(settings.label, "--label")
    others = {settings.label, settings.id_column}
    if settings.id_column is not None:
        table.require(settings.id_column, "--id")
    if len(others) == 1:
        raise InputError("--id must be another column than the label")
    columns = settings.features or tuple(name for name in table.columns if name not in others)
    if settings.label in columns:
        raise InputError("--features must not hold the label column")
    if settings.id_column in columns:
        raise InputError("--features must not hold the id column")
    for name in columns:
        table.require(name, "--features")
    if not columns:
        raise InputError(f"{table.path} must have feature columns beside the label")
    return columns


def distinct_ids(content: pa.Table, column: str) -> Ids:
    """The record ids of a table, all different."""
    found: list[Any] = []
    with DistinctIds() as seen:
        for batch in content.select([column]).to_batches():
            found.append(record_ids(batch, column))
            seen.add(found[-1])
    return [each for ids in found for each in ids] if isinstance(found[0], list) else np.concatenate(found)


def by_id(ids: Ids) -> NDArray[np.intp]:
    """The row numbers in the order of the ids."""
    if isinstance(ids, list):
        return np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.intp)
    return np.argsort(ids)
