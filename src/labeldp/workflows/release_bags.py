"""Release sums of the label column of a file over bags, and read such a release again."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp import mechanisms
from labeldp.curator import Curator, LedgerFile
from labeldp.mechanisms import Bagged, Domain, ReleasedSums
from labeldp.privacy import Budget, Certificate, Floats, InputError, Public, Release, check_choice, decimal
from labeldp.tables import (
    Parts,
    TableEncoder,
    TableFile,
    as_text,
    check_kind,
    domain_in_file,
    open_parts,
    open_table,
    plain,
    read_certificate,
    release_writer,
)
from labeldp.workflows.fit.data import by_id, codes_in, distinct_ids
from labeldp.workflows.release_mechanisms import RELEASE_MECHANISMS, ReleaseMechanism
from labeldp.workflows.verify import verify_file


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
    note: Callable[[str], None] | None = None,
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
        ledger, dataset, cohort, revision, note: as in `release_file`.
        out: the output, .parquet or .csv, which must not exist.
        id_column: record ids, all different, that are written beside the bags; with them the order of rows counts for
            nothing.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
    """
    budget = Budget(epsilon, delta)
    choices = tuple(each.name for each in RELEASE_MECHANISMS.values() if each.on_bags)
    row = RELEASE_MECHANISMS[check_choice(mechanism, "mechanism", choices)]
    if row.needs_delta and not decimal(delta, "delta"):
        raise InputError(f"must be positive for {mechanism}, such as 1e-6: its noise is Gaussian", argument="delta")
    records = _Records.read(open_parts(data), label, id_column, domain, bags)
    given = {"noisy": noisy, "weights": weights, "rows": rows}
    own = {name: given[name] for name in row.options if name in given}
    made = _mechanism(row, size, records, bags, domain=domain, epsilon=epsilon, delta=delta, **own)
    account = LedgerFile(ledger).dataset(dataset, cohort=cohort, revision=revision, budget=budget)
    if Path(out).absolute() == Path(ledger).absolute():
        raise InputError("must be different files", argument=("out", "ledger"))
    released = f"{label}_sum"
    names = (*made.column_names("row" if id_column is None else id_column, records.encoder.names), released)
    if len(set(names)) < len(names):
        raise InputError(f"the table must not have columns with the names of the output: {', '.join(names)}")
    account.afford(made)
    with release_writer(out, names, released=released) as writer:
        if account.is_new and note:
            note(f"{dataset!r} is new in {ledger}: its whole budget is what this release may cost")
        curator = Curator.of_codes(records.codes, domain=domain, ledger=account, ids=records.ids)
        release = curator.release(made, rng=account.randomness)
        arrays = made.column_values(release.value, records.names, records.places)
        others = pa.RecordBatch.from_arrays([pa.array(each) for each in arrays[:-1]], names=list(names[:-1]))
        writer.write(pa.array(arrays[-1]), others)
        writer.certify(release.certificate.to_json())
    return release.certificate


@dataclass(frozen=True)
class _Records:
    """The whole table in the order of the record ids where it has some: rows may stand in any order.

    Args:
        encoder: of the feature columns.
        features: shape (n, d).
        codes: compares the private labels with the domain and returns their codes, shape (n,).
        ids: record ids, or None for row numbers.
        names: what stands for each record in the output, in the order of the file.
        places: for each row of the file the place of its record here, shape (n,).
        bags: the bag of each record, where a column says it.
    """

    encoder: TableEncoder = field(repr=False)
    features: NDArray[np.float64] = field(repr=False)
    codes: Callable[[], NDArray[Any]] = field(repr=False)
    ids: Any = field(repr=False)
    names: pa.Array = field(repr=False)
    places: NDArray[np.intp] = field(repr=False)
    bags: Public[NDArray[np.int64]] | None = field(repr=False)

    @classmethod
    def read(cls, parts: Parts, label: str, id_column: str | None, domain: Domain, bags: str | None) -> "_Records":
        """Read everything, and check all but the labels: what is wrong is refused here."""
        own = bags if bags not in (None, "median", "random") else None
        columns = _feature_columns(parts.tables[0], label, id_column, own)
        for table in parts.tables:
            check_kind(table.schema([label]), label, domain)
        content = parts.read()
        ids, order = None, np.arange(content.num_rows)
        names = pa.array(order)
        if id_column is not None:
            ids, names = distinct_ids(content, id_column), content.column(id_column).combine_chunks()
            order = by_id(ids)
            content = content.take(pa.array(order))
            ids = [ids[row] for row in order.tolist()] if isinstance(ids, list) else ids[order]
        encoder = TableEncoder.fit(content.select(columns))
        codes = partial(codes_in, content.select([label]), label, domain_in_file(domain))
        return cls(encoder, encoder.transform(content), codes, ids, names, np.argsort(order), _bags_in(content, own))


def _bags_in(content: pa.Table, column: str | None) -> Public[NDArray[np.int64]] | None:
    """A bag for each value of a column, in the order of their texts; none without a column."""
    if column is None:
        return None
    texts = as_text(plain(content.column(column).combine_chunks()), column)
    if texts.null_count:
        raise InputError(f"must be a column without gaps: {column!r} has a missing value", argument="bags")
    _, numbers = np.unique(np.array(texts.to_pylist(), dtype=np.str_), return_inverse=True)
    return Public(numbers.astype(np.int64), why=f"the column {column!r} is public")


def _feature_columns(table: TableFile, label: str, id_column: str | None, bags: str | None) -> list[str]:
    """Return all columns but label, ids and bags."""
    table.require(label, "label")
    if id_column is not None:
        table.require(id_column, "id_column")
    if id_column == label:
        raise InputError("must be another column than label: ids are published", argument="id_column")
    if bags is not None and (bags not in table.columns or bags in (label, id_column)):
        raise InputError("must be median, random, or a column beside label and ids", argument="bags")
    columns = [name for name in table.columns if name not in (label, id_column, bags)]
    if not columns:
        raise InputError("the table must have feature columns beside the label: bags are made of them")
    return columns


def _mechanism(row: ReleaseMechanism, size: int, records: _Records, bags: str | None, **arguments: Any) -> Bagged:
    """Return the mechanism of a row of the registry for the records of a file.

    Raises:
        InputError: features are summed, and a column holds categories: a sum of their codes says nothing.
    """
    kind: type[Bagged] = getattr(mechanisms, row.type)
    features, encoder = records.features, records.encoder
    if kind.sums_features:
        if found := [name for name, is_one in zip(encoder.names, encoder.categorical, strict=True) if is_one]:
            raise InputError(
                f"{row.name} sums features: the column {found[0]!r} holds categories, make each a column of 0 and 1"
            )
        features = np.column_stack([np.ones(len(features)), features])
    if records.bags is not None or bags is not None:
        arguments["bags"] = bags if records.bags is None else records.bags
    public = Public(features, why="the columns beside the label are public features")
    return kind.calibrated(size, features=public, **arguments)


def read_bags(path: str | os.PathLike[str]) -> Release[ReleasedSums]:
    """A release of bags from its file, for `fit_bags`, `BagRegressor` and `labeldp.networks.train_bags`.

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
    verdict = verify_file(path)
    if not verdict.holds:
        raise InputError(verdict.sentence)
    made = verdict.certificate.entries[0].mechanism
    row = next((each for each in RELEASE_MECHANISMS.values() if each.on_bags and each.type == made["mechanism"]), None)
    if row is None:
        raise InputError(f"{path} holds no sums over bags: labeldp release --mechanism bag-sum writes them")
    table: pa.Table = open_table(path).read()
    try:
        kind: type[Bagged] = getattr(mechanisms, row.type)
        sums = str(read_certificate(path)["column"])
        shown = kind.read_columns(table.column_names, partial(_numbers, table), sums, made)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the certificate of {path} is damaged or not of labeldp") from error
    return Release(shown, verdict.certificate)


def _numbers(table: pa.Table, column: str) -> Floats:
    """A column as numbers; true and false count as 1 and 0.

    Raises:
        InputError: it is not there, or holds something else.
    """
    problem = f"the file must have a column {column!r} of numbers, as it was released"
    if table.column_names.count(column) != 1:
        raise InputError(problem)
    values = plain(table.column(column).combine_chunks())
    try:
        numbers = values.cast(pa.bool_()) if column == "noisy" else values
        found: Floats = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(problem) from None
    if not np.isfinite(found).all():
        raise InputError(problem)
    return found
