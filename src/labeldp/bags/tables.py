"""Sums of the label column of a table over public bags: released, written, read again, and learned from."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.bags.base import Bagged, ReleasedSums, halved_at_medians, public_halves, random_bags
from labeldp.bags.learners import BagRows, bag_model
from labeldp.bags.sums import BagSum
from labeldp.curator import (
    WHOSE,
    Curator,
    DatasetLedger,
    counts_unreadable,
    numbered,
    open_account,
    records_digest,
    refuse_private,
    user_names,
    users_digest,
)
from labeldp.learners import Model
from labeldp.mechanisms import COMMANDS, MECHANISMS, Domain
from labeldp.privacy import (
    Budget,
    Certificate,
    Floats,
    InputError,
    Public,
    RecordIds,
    Release,
    Request,
    Source,
    UnreadableRows,
    check_choice,
    check_nonnegative,
    checked_certificate,
)
from labeldp.releases import (
    Aggregation,
    ByColumn,
    GroupSums,
    OrderedLabels,
    check_features,
    feature_table,
    ids_in_order,
    restored,
    stored,
)
from labeldp.tables import (
    BLOCK_ROWS,
    Table,
    TableEncoder,
    as_text,
    check_kind,
    check_user,
    is_as_certified,
    open_table,
    plain,
    read_certificate,
    recut,
    release_writer,
)
from labeldp.tables import user_column as read_users


def release_bags(
    data: str | os.PathLike[str],
    *,
    label: str,
    domain: Domain,
    mechanism: str,
    size: int,
    epsilon: Any,
    delta: Any = 0,
    bags: str | None = None,
    noisy: int | None = None,
    weights: str = "rademacher",
    rows: int = 1,
    ledger: str | os.PathLike[str],
    dataset: str,
    out: str | os.PathLike[str],
    id_column: str | None = None,
    cohort: str | None = None,
    revision: str | None = None,
    other_ids: bool = False,
    user_column: str | None = None,
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Certificate:
    """Release sums of a label column over bags as a table with a certificate.

    Noise is as small as (epsilon, delta) allows. All columns but label and ids are public features: bags are made of
    them, and `weighted-lba` sums them, so there they must be numbers. The table has a row for each record (its id or
    row number, its bag, its bag's noisy sum in LABEL_sum; `noisy-weighted-llp` adds its weight and whether it counts
    as noisy), or for `weighted-lba` a row for each weighted sum of features and labels (its bag, how many records that
    has, and the sums, of labels less the middle of their range). The same command on the same file costs nothing again.

    Args:
        data: the file, or a folder of files, as in `release_file`.
        label: its private column.
        domain: an `Interval`, or two classes.
        mechanism: "bag-sum", "noisy-weighted-llp" or "weighted-lba".
        size: records in the smallest bag.
        epsilon, delta: what the release costs; of `bag-sum` delta = 0 asks for Laplace noise.
        bags: "median", "random", or a public column with a value for each bag, which then is no feature; by default
            "median" for `bag-sum`, else "random".
        noisy: labels of each bag that count as noisy; all of the smallest bag by default.
        weights: of `noisy-weighted-llp`: "rademacher" or "gaussian".
        rows: of `weighted-lba`: weighted sums of each bag.
        ledger, dataset, cohort, revision, other_ids, note, new_budget: as in `release_file`.
        out: the output, .parquet or .csv, which must not exist.
        id_column: record ids, all different, that are written beside the bags; with them the order of rows counts for
            nothing.
        user_column: of `bag-sum` and `noisy-weighted-llp`: the user of each record, no feature; epsilon is what a user
            pays for all of theirs.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
    """
    values = {"noisy": noisy, "weights": weights, "rows": rows}
    row = COMMANDS.get(mechanism)
    options: dict[str, Any] = {name: values[name] for name in (row.options if row else ()) if name in values}
    options |= {"size": size, "bags": bags, "other_ids": other_ids, "cohort": cohort, "revision": revision}
    source = Source.of(data, label, id_column, user_column)
    request = Request.of("aggregate", mechanism, dataset, source, epsilon, delta, domain=domain, **options)
    return ask_bags(request, data, ledger=ledger, out=out, note=note, new_budget=new_budget)


@counts_unreadable
def ask_bags(
    request: Request,
    data: str | os.PathLike[str],
    *,
    ledger: str | os.PathLike[str],
    out: str | os.PathLike[str],
    progress: Callable[[str, float], None] | None = None,
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Certificate:
    """Release sums over bags as a request says; see `release_bags`."""
    choices = tuple(name for name, entry in COMMANDS.items() if entry.on_bags)
    row = COMMANDS[check_choice(request.does, "mechanism", choices)]
    source, options, domain, budget = request.source, request.options, Domain.from_json(request.domain), request.budget
    label, id_column, user_column = source.label, source.ids or None, source.users or None
    size: Any = options.get("size")
    bags = options.get("bags")
    if row.needs_delta and not budget.delta:
        raise InputError(f"must be positive for {request.does}, such as 1e-6: its noise is Gaussian", argument="delta")
    kind: type[Bagged] = row.load()
    if user_column is not None and not kind.takes_users:
        raise InputError(
            f"--user does not go with {request.does}, which protects single records only: bag-sum and "
            "noisy-weighted-llp can protect users"
        )
    if user_column is not None and options.get("weights", "rademacher") != "rademacher":
        raise InputError("must be rademacher with --user: what Gaussian weights move has no bound", argument="weights")
    check_user(user_column, (label, id_column), None)
    table = open_table(data)
    public = [name for name in table.columns if name != label]
    refuse_private(ledger, request.scope.name, public)  # before a message tells of their values
    records = _Records.read(table, label, id_column, domain, bags, user_column)
    parameters = {name: options[name] for name in ("noisy", "weights", "rows") if name in options}
    arguments = records.public(kind, row.command, size, bags or str(signature(kind).parameters["bags"].default))
    if records.users is not None:
        arguments["users"] = Public(numbered(user_names(records.users, b"")), why=WHOSE)
    cost = {"epsilon": budget.epsilon, "delta": budget.delta}
    sums = kind.calibrated(size, domain=domain, **cost, **parameters, **arguments)
    released = f"{label}_sum"
    features = records.encoder.names if kind.sums_features else ()
    names = (*sums.column_names("row" if id_column is None else id_column, features), released)
    if len(set(names)) < len(names):
        raise InputError(f"the table must not have columns with the names of the output: {', '.join(names)}")
    with release_writer(out, names, released=released) as writer:
        account = open_account(
            request,
            ledger,
            public=public,
            out=out,
            named=id_column is not None,
            users=None if records.users is None else records.users_digest,
            records=lambda account: records_digest(records.ids, account),
            count=lambda: records.records,
            mechanism=lambda account: sums,
            budget=new_budget,
            note=note,
        )
        curator = Curator(records, domain=domain, ledger=account, ids=records.ids, users=records.users)
        release = curator.release(sums, rng=account.randomness)
        arrays = sums.column_values(release.value, records.names, records.positions)
        for start in range(0, len(arrays[-1]), BLOCK_ROWS):
            *columns, values = (pa.array(array[start : start + BLOCK_ROWS]) for array in arrays)
            writer.write(values, pa.RecordBatch.from_arrays(columns, names=list(names[:-1])))
        certificate = replace(release.certificate, request=request)
        writer.certify(certificate.to_json())
    return certificate


@dataclass(frozen=True)
class _Records(OrderedLabels):
    """The records of a table; no more than a column is held at a time.

    Args:
        columns: the public features.
        names: of the records in the output, in the order of the rows.
        bags: the bag of each record, if a column holds it.
        users: the users of the records in order, if users are protected.
    """

    columns: list[str]
    names: Any = field(repr=False)
    bags: Public[NDArray[np.int64]] | None = field(default=None, repr=False)
    users: Any = field(default=None, repr=False)

    @classmethod
    def read(
        cls, table: Table, label: str, id_column: str | None, domain: Domain, bags: str | None, user: str | None
    ) -> "_Records":
        """Read ids and bags, and check all but the labels and features: what is wrong is refused here."""
        column = bags if bags not in (None, "median", "random") else None
        if user is not None:
            table.require(user, "--user")
        columns = _feature_columns(table, label, id_column, column, user)
        for part in table.parts:
            check_kind(part.schema, label, domain)
        ids = order = None
        names: Any = None
        if id_column is None:
            names = np.arange(table.rows or sum(len(batch) for batch in table.blocks([label])))
        else:
            content = table.read([id_column])
            names = content.column(id_column).combine_chunks()
            ids, order = ids_in_order(content, id_column)
        records = cls(table, label, domain, ids, order, columns, names)
        whose = None if user is None else read_users(pa.table({user: records.column(user)}), user)
        return replace(records, bags=None if column is None else _bags_in(records.column(column), column), users=whose)

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a public column, in the order of the records."""
        values = self.table.read([name]).column(0)
        self.require_same(len(values))
        return values if self.order is None else values.take(pa.array(self.order))

    @property
    def records(self) -> int:
        return len(self.names)

    def users_digest(self, account: DatasetLedger) -> str:
        """Return a digest of the map from records to users, as the ledger keeps it."""
        key = account.ids_key
        return users_digest(None if self.ids is None else RecordIds.of(self.ids, key), user_names(self.users, key), key)

    @property
    def positions(self) -> NDArray[np.intp]:
        """For each row of the table the number of its record, shape (n,)."""
        return np.arange(len(self.names)) if self.order is None else np.argsort(self.order)

    @cached_property
    def encoder(self) -> TableEncoder:
        """The encoder of the feature columns."""
        return TableEncoder.of_columns((name, self.column(name)) for name in self.columns)

    def public(self, kind: type[Bagged], name: str, size: int, bags: str) -> dict[str, Any]:
        """Return what a mechanism takes of the public columns: bags, and features where they are summed.

        Raises:
            InputError: features are summed, and a column holds categories: a sum of their codes says nothing.
        """
        why = "the columns beside the label are public features"
        if not kind.sums_features:
            if self.bags is not None:
                return {"bags": self.bags}
            if bags == "random":
                return {"bags": random_bags(len(self.names), size)}
            shape = (len(self.names), len(self.encoder.columns))
            encoded = (column.encode(self.column(column.name)) for column in self.encoder.columns)
            return {"bags": public_halves(halved_at_medians(encoded, shape, size), why)}
        for column in self.encoder.columns:
            if column.kind == "category":
                raise InputError(
                    f"{name} sums features: the column {column.name!r} holds categories, make each a column of 0 and 1"
                )
        matrix = np.ones((len(self.names), 1 + len(self.encoder.columns)))
        for number, column in enumerate(self.encoder.columns, start=1):
            matrix[:, number] = column.encode(self.column(column.name))
        return {"bags": bags if self.bags is None else self.bags, "features": Public(matrix, why=why)}


def _bags_in(values: pa.ChunkedArray, column: str) -> Public[NDArray[np.int64]]:
    """Return a bag for each value of a column, in the order of their texts."""
    texts = as_text(plain(values.combine_chunks()), column)
    if texts.null_count:
        raise InputError(f"must be a column without gaps: {column!r} has a missing value", argument="bags")
    _, numbers = np.unique(np.array(texts.to_pylist(), dtype=np.str_), return_inverse=True)
    return Public(numbers.astype(np.int64), why=f"the column {column!r} is public")


def _feature_columns(table: Table, label: str, id_column: str | None, bags: str | None, user: str | None) -> list[str]:
    """Return all columns but label, ids, bags and users."""
    table.require(label, "label")
    if id_column is not None:
        table.require(id_column, "id_column")
    if id_column == label:
        raise InputError("must be another column than label: ids are published", argument="id_column")
    if bags is not None and (bags not in table.columns or bags in (label, id_column)):
        raise InputError("must be median, random, or a column other than label and ids", argument="bags")
    columns = [name for name in table.columns if name not in (label, id_column, bags, user)]
    if not columns:
        raise InputError("the table must have feature columns in addition to the label: bags are made of them")
    return columns


def read_bags(path: str | os.PathLike[str]) -> Release[ReleasedSums]:
    """Return a release of bags from its file, for `fit_bags`, `BagRegressor` and `labeldp.networks.train_bags`.

    Features are not in the file, `weighted-lba`'s weighted sums of them aside: whoever learns has them, a row for each
    row of the file in its order; with `weighted-lba` a column of ones and then those of the file, in any order of
    rows.

    Args:
        path: a CSV or Parquet file that `release_bags` or `labeldp release --mechanism bag-sum …` wrote.

    Returns:
        What was released, with the certificate found in or beside the file.

    Raises:
        InputError: no such file, no certificate of sums over bags, or a file that is not what was certified.
    """
    content = read_certificate(path)
    certificate, column = checked_certificate(content["certificate"], path), str(content["column"])
    if not is_as_certified(path):
        raise InputError(f"The column {column!r} of {path} is NOT what was certified: it was changed afterwards.")
    mechanism = next((charge.mechanism for charge in certificate.entries), {})
    row = MECHANISMS.get(str(mechanism.get("mechanism")))
    if row is None or not row.on_bags:
        raise InputError(f"{path} holds no sums over bags: labeldp release --mechanism bag-sum writes them")
    table: pa.Table = open_table(path).read()
    try:
        kind: type[Bagged] = row.load()
        sums = kind.read_columns(table.column_names, partial(_numbers, table), column, mechanism)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"the certificate of {path} is damaged or not of labeldp") from error
    return Release(sums, certificate)


def _numbers(table: pa.Table, column: str) -> Floats:
    """Return a column as numbers; true and false count as 1 and 0.

    Raises:
        InputError: it is not there, or holds something else.
    """
    problem = f"the file must have a column {column!r} of numbers, as it was released"
    if table.column_names.count(column) != 1:
        raise InputError(problem)
    values = plain(table.column(column).combine_chunks())
    try:
        numbers = values.cast(pa.bool_()) if column == "noisy" else values
        floats: Floats = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(problem) from None
    if not np.isfinite(floats).all():
        raise InputError(problem)
    return floats


def bag_sum(
    data: Any,
    *,
    label: str,
    id: str,
    bags: str,
    size: int,
    domain: Domain,
    epsilon: Any,
    ledger: str | os.PathLike[str],
    dataset: str,
    why: str,
    delta: Any = 0,
    cohort: str | None = None,
    revision: str | None = None,
) -> Release[NDArray[np.int64]]:
    """Release the noisy sum of the labels of each public bag of a table of any size; see `BagSum`.

    Memory grows with a block and with the bags, not with the table.

    Args:
        data, label, id, domain, epsilon, ledger, dataset, cohort, revision: as in `labeldp.releases.histogram`.
        bags: its column of bag numbers, from 0.
        size: the smallest number of records in a bag.
        why: why the bags do not depend on labels, in words.
        delta: of Gaussian noise; 0 for Laplace noise.

    Returns:
        Sums in fine steps, shape (bags,), with the mechanism `BagSum`: `mechanism.totals(value)` has their unit.

    Guarantee (approximate, same_bits): (epsilon, delta)-DP for each label; the same request gives the same sums for one
        charge, whatever order, blocks, files, partitions and retries there are.

    Raises:
        InputError: also where a bag is smaller than asked.
        BudgetExceeded, LedgerError, LabelDPError: as `labeldp.releases.histogram`.
    """
    options: dict[str, Any] = {"bags": bags, "size": size, "why": why, "cohort": cohort, "revision": revision}
    source = Source.of(data, label, id)
    request = Request.of("totals", "bag-sum", dataset, source, epsilon, delta, domain=domain, **options)
    return ask_bag_sum(request, data, ledger=ledger)


@counts_unreadable
def ask_bag_sum(request: Request, data: Any, *, ledger: str | os.PathLike[str]) -> Release[NDArray[np.int64]]:
    """Release the sum of each bag as a request says; see `bag_sum`."""
    aggregation, options, budget = Aggregation.of(request, data, ledger), request.options, request.budget
    bags = aggregation.table.require(options["bags"], "bags")

    def mechanism(sums: Any) -> BagSum:
        groups, cost = Public(sums.groups, why=options["why"]), {"epsilon": budget.epsilon, "delta": budget.delta}
        return BagSum.calibrated(options["size"], domain=aggregation.domain, bags=groups, **cost)

    sums = GroupSums(ByColumn(bags), None)
    return aggregation.release((bags,), lambda: (sums, mechanism), lambda sums, mechanism: sums.sums * mechanism.fine)


def fit_bag_sums(
    data: Any, release: Release[Any], *, bags: str, features: Sequence[str], ridge: float = 0.0
) -> Release[Model]:
    """Fit a linear model to released sums over bags of a table by least squares; see `labeldp.fit_bags`. It is free.

    Features are summed in one pass. Of rows in order the model is that of `labeldp.fit_bags` to the bit; the parts of
    an engine may change the last bits.

    Args:
        data: the records that were released, as in `bag_sum`.
        release: what `bag_sum` returned.
        bags: its column of bag numbers.
        features: its columns of public numbers, none of them missing.
        ridge: penalty, as in `labeldp.fit_bags`.

    Raises:
        InputError: the release is not of bags, or the columns do not fit it.
    """
    check_nonnegative(ridge, "ridge")
    mechanism = release.mechanism if isinstance(release, Release) else None
    if not isinstance(mechanism, BagSum):
        raise InputError("must be what bag_sum returned", argument="release")
    table = open_table(data)
    table.require(bags, "bags")
    task = FeatureSums(bags, check_features(table, features), len(mechanism.sizes))
    counts, sums = task.total(table.run(task, [bags, *features], join=task.join))
    if not np.array_equal(counts, mechanism.sizes):
        raise InputError(OTHER_RECORDS, argument="data")
    sizes = counts.astype(np.float64)
    equations = BagRows(
        np.column_stack([sizes, sums]),
        mechanism.totals(release.value),
        sizes,
        np.full(len(sizes), mechanism.noise_stddev) ** 2,
    )
    return release.map(lambda _: bag_model(equations, mechanism.domain, np.empty((1, sums.shape[1])), ridge))


OTHER_RECORDS = "must be the records that were released, in their bags"


@dataclass(frozen=True)
class FeatureSums:
    """Counts the records of each bag of a part, and sums their features, one record after the other.

    Args:
        bags: the column of bag numbers.
        features: the columns of public numbers.
        count: how many bags there are.
    """

    bags: str
    features: tuple[str, ...]
    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        counts, sums = self._zeros()
        try:
            for batch in recut(batches):
                groups, rows = ByColumn(self.bags).groups(batch), feature_table(batch, self.features)
                if groups.min() < 0 or groups.max() >= self.count:
                    raise InputError(OTHER_RECORDS, argument="data")
                if not np.isfinite(rows).all():
                    raise InputError("must be finite numbers, none of them missing", argument="features")
                np.add.at(sums, groups, rows)
                counts += np.bincount(groups, minlength=self.count)
        except UnreadableRows:
            raise
        except InputError as error:
            return stored(problem=np.array(str(error)))
        return stored(counts=counts, sums=sums)

    def join(self, states: Iterable[bytes]) -> bytes:
        """Put what several of these tasks returned together."""
        try:
            counts, sums = self.total(states)
        except InputError as error:
            return stored(problem=np.array(str(error)))
        return stored(counts=counts, sums=sums)

    def total(self, states: Iterable[bytes]) -> tuple[NDArray[np.int64], Floats]:
        """Return the records of each bag, shape (bags,), and the sums of their features, (bags, d)."""
        counts, sums = self._zeros()
        for part in map(restored, states):
            counts += part["counts"]
            sums += part["sums"]
        return counts, sums

    def _zeros(self) -> tuple[NDArray[np.int64], Floats]:
        return np.zeros(self.count, dtype=np.int64), np.zeros((self.count, len(self.features)))
