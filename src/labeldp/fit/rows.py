"""Private and public rows of tables and images."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp import encoders
from labeldp.curator import ONE_USER, numbered, user_names
from labeldp.fit.settings import FitSettings, Ids
from labeldp.mechanisms import Domain, LabelSource
from labeldp.privacy import DomainError, InputError, without_traceback
from labeldp.releases import owner_like
from labeldp.tables import (
    INDEX,
    Table,
    TableEncoder,
    by_id,
    check_kind,
    check_user,
    codes_of,
    distinct_ids,
    label_numbers,
    open_table,
    take_ids,
    user_column,
)

PRIVATE_TEST = "--test: the test file holds private records: the labels of {} must be public, and of other records"

OUTSIDE_TEST = "--test: labels of {} must lie in the declared domain {}"

DISTINCT_SHARE = 0.95
"""If at least this share of the records are distinct, equal rows of two files are taken for the same record."""


@dataclass(frozen=True)
class TableRows(LabelSource):
    """Private rows of a table, in the order of their ids if they have some.

    Args:
        encoder: the encoder of the feature columns in use.
        features: the encoded features, shape (n, d).
        ids: record ids, or None for row numbers.
        domain: the declared domain of the labels.
    """

    encoder: "TableEncoder | encoders.NetworkFeatures" = field(repr=False)
    features: NDArray[Any] = field(repr=False)
    ids: Ids | None = field(repr=False)
    domain: Domain


@dataclass(frozen=True)
class GivenRows(TableRows):
    """The private rows that a program holds.

    Args:
        labels: the private labels as they were given, shape (n,).
        order: where each row stood in what was given, shape (n,).
        users: whose each row is, integers or texts, where users are protected.
        inputs: what the learner takes in place of encoded features, in order; None for these.
        weights: public weights of the rows in training, in order; None where all count alike.
    """

    labels: Any = field(repr=False)
    order: NDArray[np.intp] = field(repr=False)
    users: Any = field(default=None, repr=False)
    inputs: Any = field(default=None, repr=False)
    weights: Any = field(default=None, repr=False)
    index: ClassVar[tuple[str, ...]] = ()
    owner = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The feature columns in use."""
        return self.encoder.names

    def codes(self, domain: Domain) -> NDArray[Any]:
        """Return the codes of the private labels."""
        return domain.encode(self.labels)[self.order]

    @classmethod
    def of(
        cls, table: Any, labels: Any, ids: Any, domain: Domain, users: Any = None, weights: Any = None
    ) -> "GivenRows":
        """Encode features and sort all rows by their ids; labels are not read.

        Args:
            table: the features, n rows, which are encoded if it is a table of pyarrow; else the learner takes them.
            labels: one for each row.
            ids: integers or texts, one for each row and no two alike; None for row numbers.
            domain: the declared domain of the labels.
            users: whose each row is, integers or texts, shape (n,); None to protect each row by itself.
            weights: public weights of the rows, shape (n,), or None; see `record_weights`.

        Raises:
            InputError: a column, an id or a user cannot be used.
        """
        from labeldp.features import rows_of, take_rows  # a certificate is read without scikit-learn

        records = rows_of(table)
        if users is not None and len(numbered(user_names(users, b""))) != records:
            raise InputError(ONE_USER, argument="users")
        order, keys = np.arange(records), None
        if ids is not None:
            keys = distinct_ids(id_table(ids, records), IDS)
            order = by_id(keys)
            keys = take_ids(keys, order)
        owners = None if users is None else np.asarray(users)[order]
        weights = None if weights is None else weights[order]
        if not isinstance(table, pa.Table):
            inputs, nothing = take_rows(table, order), np.empty((records, 0))
            return cls(TableEncoder((), ()), nothing, keys, domain, labels, order, owners, inputs, weights)
        encoder = TableEncoder.fit(table)
        return cls(encoder, encoder.transform(table)[order], keys, domain, labels, order, owners, None, weights)

    def take(self, rows: NDArray[np.intp]) -> "GivenRows":
        """Return some of the rows, in order, without labels."""
        from labeldp.features import take_rows  # a certificate is read without scikit-learn

        inputs = None if self.inputs is None else take_rows(self.inputs, rows)
        weights = None if self.weights is None else self.weights[rows]
        part = replace(self, features=self.features[rows], labels=None, order=self.order[rows], users=None)
        return replace(part, ids=take_ids(self.ids, rows), inputs=inputs, weights=weights)


@dataclass(frozen=True)
class PrivateRows(TableRows):
    """The private file, sorted by record id if it has ids; where a server holds the labels, in the order of the file.

    Args:
        columns: the requested feature columns.
        labels: the private labels, a table of n rows and one column; without a column where a server holds them.
        index: the columns that pandas wrote for an index, which are no features; empty if features are named.
        users: the user of each record, integers or texts, where users are protected.
        owner: a feature column that looks as if it said whose a record is, where they are not.
    """

    columns: tuple[str, ...]
    labels: pa.Table = field(repr=False)
    index: tuple[str, ...] = ()
    users: Any = field(default=None, repr=False)
    owner: str | None = None
    inputs = weights = None

    def codes(self, domain: Domain) -> NDArray[Any]:
        """Return the codes of the private labels."""
        return codes_of(self.labels, self.labels.column_names[0], domain)

    @classmethod
    def read(cls, data: str | pa.Table, settings: FitSettings) -> "PrivateRows":
        """Read a whole file and check everything but the labels, before anything is charged."""
        table = open_table(data)
        columns = _feature_columns(table, settings)
        private = [] if settings.server else [settings.label]
        if private:
            check_kind(table.schema, settings.label, settings.domain)
        reserved = [column for column in (*private, settings.id_column, settings.user_column) if column]
        content: pa.Table = table.read([*columns, *reserved])
        ids = None
        if settings.id_column is not None:
            ids = distinct_ids(content, settings.id_column)
            # A server has its labels in an order of its own, which these rows must have.
            order = by_id(ids) if private else np.arange(len(ids))
            content = content.take(pa.array(order))
            ids = take_ids(ids, order)
        users = None if settings.user_column is None else user_column(content, settings.user_column)
        owner = owner_like(content, columns) if users is None else None
        index = () if settings.features else tuple(name for name in columns if name in table.index)
        features = content.select([name for name in columns if name not in index])
        if not features.num_columns:
            raise InputError(f"{table.path} must have feature columns in addition to the label and the index of pandas")
        labels = content.select(private)
        fields = settings.domain, columns, labels, index, users, owner
        if settings.encoder is not None:
            texts = encoders.NetworkFeatures.of_table(settings.encoder, features.column_names)
            return cls(texts, texts.transform(features), ids, *fields)
        encoder = TableEncoder.fit(features)
        notes = (*(f"left out {name!r}: {INDEX}" for name in index), *encoder.notes)
        return cls(replace(encoder, notes=notes), encoder.transform(features), ids, *fields)

    def take(self, rows: NDArray[np.intp]) -> "PrivateRows":
        """Return some of the rows, in order."""
        ids, labels = take_ids(self.ids, rows), self.labels.take(pa.array(rows))
        return replace(self, features=self.features[rows], ids=ids, labels=labels)


@dataclass(frozen=True)
class PublicRows:
    """A file with public labels: its name, features (n, …), and the classes' codes, or the numbers themselves, (n,)."""

    file: str
    features: NDArray[Any]
    labels: NDArray[Any]

    def digest(self) -> str:
        """Return a digest of the content, which differs for another file of the same name."""
        return hashlib.sha256(self.features.tobytes() + self.labels.tobytes()).hexdigest()


def public_rows(path: str, data: str | pa.Table, settings: FitSettings, private: PrivateRows) -> PublicRows:
    """Read a test file, which must not hold the private records: its labels are public, and never trained on."""
    table, encoder = open_table(path), private.encoder
    refusal = InputError(PRIVATE_TEST.format(path))
    if isinstance(data, str) and os.path.samefile(path, data):
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
        codes = codes_of(content, settings.label, domain)
    except DomainError:
        raise InputError(OUTSIDE_TEST.format(path, domain)) from None
    numbers = domain.target == "numbers"
    labels = np.concatenate([label_numbers(batch, settings.label) for batch in batches]) if numbers else codes
    return PublicRows(Path(path).name, features, labels)


def same_rows(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether an array holds the records of another, in any order, or some of them.

    It does if the two have the same rows; if most of the other's rows are repeated, each must also occur as often. If
    nearly all rows of the other are distinct, one row in a hundred that occurs in both is enough: it is no chance.
    """
    first, second = Counter(_row_digests(one)), Counter(_row_digests(other))
    if first == second or (2 * len(second) > len(other) and first.keys() == second.keys()):
        return True
    shared = sum(count for row, count in first.items() if row in second)
    return len(second) >= DISTINCT_SHARE * len(other) and len(one) <= 100 * shared


def _row_digests(matrix: NDArray[Any]) -> Iterator[bytes]:
    """Yield a digest of each row; the two zeros are one number, and so is everything that is none."""
    plain = np.where(np.isnan(matrix), np.nan, matrix + 0.0) if matrix.dtype.kind == "f" else matrix
    return (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in plain)


def _feature_columns(table: Table, settings: FitSettings) -> tuple[str, ...]:
    """Return the columns that were asked for, by default all but label and ids."""
    if not settings.server:
        table.require(settings.label, "--label")
    elif settings.label in table.columns:
        raise InputError(f"--curator: {table.path} must hold features alone, and has a column {settings.label!r}")
    reserved = {settings.label, settings.id_column}
    if settings.id_column is not None:
        table.require(settings.id_column, "--id")
    if len(reserved) == 1:
        raise InputError("--id must be another column than the label")
    check_user(settings.user_column, (settings.label, settings.id_column), settings.per_user)
    if settings.user_column is not None:
        table.require(settings.user_column, "--user")
        reserved.add(settings.user_column)
    columns = settings.features or tuple(name for name in table.columns if name not in reserved)
    if settings.label in columns:
        raise InputError("--features must not hold the label column")
    if settings.id_column in columns:
        raise InputError("--features must not hold the id column")
    if settings.user_column in columns:
        raise InputError("--features must not hold the user column: whose a record is says nothing of other people")
    for name in columns:
        table.require(name, "--features")
    if not columns:
        raise InputError(f"{table.path} must have feature columns in addition to the label")
    return columns


IDS = "ids"
"""The argument with record ids, and the column that they are put into."""


def id_table(ids: Any, records: int) -> pa.Table:
    """Return given record ids, an integer or a text for each row, as a table of one column."""
    column = without_traceback(lambda: _id_column(ids))
    if column is None or len(column) != records:
        raise InputError("must be one integer, or one text, for each row", argument=IDS)
    return pa.table({IDS: column})


def _id_column(ids: Any) -> Any:
    """Return given record ids as Arrow values; integers of more than 64 bits as the texts that they print as.

    Raises:
        Exception: there is no such column.
    """
    if hasattr(ids, "__arrow_c_stream__") and not hasattr(ids, "iloc"):
        return pa.chunked_array(ids)
    if np.ma.is_masked(ids):
        raise ValueError("a masked id is missing")
    listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if set(map(type, listed)) == {int} and (min(listed) < -(1 << 63) or max(listed) >= 1 << 63):
        return pa.array(list(map(str, listed)))
    return pa.array(listed, from_pandas=True)


@dataclass(frozen=True)
class ImageRows(LabelSource):
    """The private images, in the order of their source; they have no ids but their numbers.

    Args:
        encoder: their shape, and the network that encodes them, if any.
        features: bytes, shape (n, height, width) or (n, height, width, 3); or as the network encodes them.
        labels: the private ones, shape (n,).
        label: their name.
        domain: what they can be.
    """

    encoder: "encoders.ImageShape | encoders.NetworkFeatures"
    features: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    label: str
    domain: Domain
    columns: ClassVar[tuple[str, ...]] = ()
    index: ClassVar[tuple[str, ...]] = ()
    ids: ClassVar[None] = None
    users = owner = inputs = weights = None

    def codes(self, domain: Domain) -> NDArray[Any]:
        """Return the codes of the private labels."""
        return _codes(self.labels, self.label, domain)

    @classmethod
    def read(cls, data: str, settings: FitSettings) -> "ImageRows":
        """Read a whole source and check all but the labels: what is wrong is refused here, and nothing was charged."""
        if settings.user_column or settings.per_user:
            raise InputError("--user is for tables: images have no column that says whose they are")
        if settings.features or settings.id_column:
            raise InputError("--features and --id are for tables: images have no columns and are told apart by number")
        from labeldp.images import open_images

        part = open_images(data, label=settings.label).train
        encoder: encoders.ImageShape | encoders.NetworkFeatures = encoders.ImageShape(part.shape[1:])
        if settings.encoder is not None:
            encoder = encoders.NetworkFeatures.of_images(settings.encoder, part.shape[1:])
        return cls(encoder, encoder.transform(part.features), part.labels, settings.label, settings.domain)


class Rows(Protocol):
    """The private rows of a fit; the curator alone asks for the codes of their labels."""

    @property
    def features(self) -> NDArray[Any]:
        """The encoded features, shape (n, …)."""

    @property
    def domain(self) -> Domain:
        """The declared domain of the labels."""

    @property
    def encoder(self) -> Any:
        """The encoder of the features."""

    @property
    def ids(self) -> Ids | None:
        """The record ids, or None for row numbers."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The requested feature columns; none of images."""

    @property
    def index(self) -> tuple[str, ...]:
        """The columns that pandas wrote for an index."""

    @property
    def users(self) -> Any:
        """The user of each record, where users are protected, else None."""

    @property
    def owner(self) -> str | None:
        """A feature column that looks as if it said whose a record is, or None."""

    @property
    def inputs(self) -> Any:
        """What the learner takes in place of encoded features; None for these."""

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Public weights of the rows in training; None where all count alike."""

    def codes(self, domain: Domain) -> NDArray[Any]:
        """Return the codes of the private labels."""


def public_images(path: str, data: str, settings: FitSettings, private: ImageRows) -> PublicRows:
    """Read the test part of a source, or all of one without; it must not hold the private images."""
    from labeldp.images import open_images

    pictures = open_images(path, label=settings.label)
    part, name = pictures.test or pictures.train, Path(path).name
    private.encoder.require(part.features, f"--test: {path}")
    features = private.encoder.transform(part.features)
    if (pictures.test is None and os.path.samefile(path, data)) or same_rows(features, private.features):
        raise InputError(PRIVATE_TEST.format(path))
    try:
        codes = _codes(part.labels, settings.label, settings.domain)
    except DomainError:
        raise InputError(OUTSIDE_TEST.format(path, settings.domain)) from None
    return PublicRows(f"{name} (test part)" if pictures.test else name, features, codes)


def _codes(labels: NDArray[Any], name: str, domain: Domain) -> NDArray[Any]:
    """Return the codes of an array of labels, read as a table's column would be, shape (n,)."""
    with np.errstate(all="ignore"):  # a warning would tell of a label
        plain = labels.astype(np.float64) if labels.dtype.kind == "f" else labels
    return codes_of(pa.RecordBatch.from_arrays([pa.array(plain)], names=[name]), name, domain)
