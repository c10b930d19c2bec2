"""Release the label column of a data frame: charged once, drawn where the records are, the same bits each time."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.bags import bag_sum
from labeldp.bags import fit_bag_sums as fit_bags
from labeldp.fit import fit_linear
from labeldp.mechanisms import FiniteMechanism
from labeldp.privacy import Budget, Certificate, InputError, LabelDPError, Release, Request, Source, whole_cost
from labeldp.releases import (
    Grant,
    ask_grant,
    cells,
    check_new_folder,
    column_mechanism,
    fit_cells,
    histogram,
    moments,
    randomize_batch,
    release_request,
    write_parts,
)
from labeldp.spark.table import SparkTable, quoted, start_session
from labeldp.tables import recut

__all__ = [
    "ask_files",
    "ask_frame",
    "bag_sum",
    "cells",
    "fit_bags",
    "fit_cells",
    "fit_linear",
    "histogram",
    "moments",
    "release",
]

LAZY = "every evaluation of the released data frame reads the same labels (Spark reads them again each time)"

PROPERTY = "labeldp.certificate"
"""The key of the certificate, as JSON, in the metadata of the noisy column and in the properties of a table."""


def release(
    dataframe: Any,
    *,
    label: str,
    id: str,
    mechanism: FiniteMechanism,
    ledger: str | os.PathLike[str],
    dataset: str,
    cohort: str | None = None,
    revision: str | None = None,
    in_place: bool = False,
    out: str | os.PathLike[str] | None = None,
    table: str | None = None,
    note: Callable[[str], None] | None = None,
) -> Release[Any]:
    """Release the label column of a data frame of Spark.

    The labels are read and digested where they are, the charge is committed to the ledger file of the driver, and the
    workers get a grant for the noise of this release alone. Noise follows the record's id: partitions, retries, lost
    caches and a second action give the same bits, which are those of `release_file` on one machine.

    Args:
        dataframe: holds the label and the ids.
        label: its private column.
        id: its column of record ids, all different.
        mechanism: answers each record by itself, such as `RandomizedResponse(domain=Classes(10), epsilon=1)`.
        ledger: the ledger file to charge, on the driver; made if it is not there.
        dataset: the dataset's name in it. The first one of a ledger that is made is added with this release's cost as
            its whole budget.
        cohort: names a cohort of the dataset, whose records these are; all of them by default.
        revision: names another state of the labels; see `LedgerFile.dataset`.
        in_place: keep all columns, with noisy labels in place of the private ones, not ids and noisy labels alone.
        out: a new folder of Parquet parts, which driver and workers see under the same path. The labels are compared
            with those that were charged before it appears. Without it, the data frame that is returned is evaluated
            when you use it, and the certificate says on what condition it holds.
        table: the name of a new table of Spark over `out`, with the certificate in its properties.
        note: called with a sentence about a new ledger.

    Returns:
        A data frame of ids and noisy labels, its certificate and its mechanism.

    Guarantee (same_bits, whole): the same request gives the same bits for one charge, whatever partitions, retries and
        actions there are; a written release is of the labels that were charged, or does not appear.

    Raises:
        InputError: an argument is wrong, a label is missing or outside of the domain, an id is missing or repeated, or
            the output exists; nothing was charged.
        BudgetExceeded, LedgerError: nothing was charged.
        LabelDPError: the labels changed meanwhile, or Spark failed; nothing was published.
    """
    request = release_request(
        mechanism, Source.of(dataframe, label, id), dataset, cohort=cohort, revision=revision, in_place=in_place
    )
    cost = whole_cost(mechanism.privacy_loss())
    return ask_frame(
        request, dataframe, mechanism=mechanism, ledger=ledger, out=out, table=table, note=note, new_budget=cost
    )


def ask_frame(
    request: Request,
    dataframe: Any,
    *,
    mechanism: FiniteMechanism | None = None,
    ledger: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    table: str | None = None,
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Release[Any]:
    """Release the label column of a data frame as a request says; see `release`, and `ask_grant` of `releases`."""
    source, label, id = SparkTable(dataframe), request.source.label, request.source.ids
    target = None if out is None else check_new_folder(Path(out).absolute())
    _check_new_table(source, table, out)
    in_place = request.options.get("in_place")
    columns = [name for name in dataframe.columns if name not in (id, label)] if in_place else []
    grant = ask_grant(
        request,
        source,
        mechanism=mechanism,
        ledger=ledger,
        columns=tuple(columns),
        conditions=(LAZY,) if target is None else (),
        note=note,
        new_budget=new_budget,
    )
    schema = _released_schema(source, grant, columns)
    if target is None:
        return Release(_lazy(source, grant, schema), grant.certificate, grant.mechanism)
    write_parts(source, grant, target, columns=tuple(columns))
    session = source.frame.sparkSession
    if table is not None:
        _add_table(session, table, target, grant)
    return Release(session.read.schema(schema).parquet(target.as_uri()), grant.certificate, grant.mechanism)


def ask_files(
    request: Request,
    data: str,
    *,
    ledger: str | os.PathLike[str],
    out: str | os.PathLike[str],
    master: str = "local[*]",
    note: Callable[[str], None] | None = None,
    new_budget: Budget | None = None,
) -> Certificate:
    """Release the label column of files that Spark reads, as `labeldp release --engine spark` does.

    Args:
        request: of the kind "release"; records need ids.
        data: Parquet files, or CSV files with a header (a name that ends in .csv), as Spark names them.
        ledger: the ledger file to charge, on the driver.
        out: a new folder.
        master: where Spark runs, as in `start_session`.
        note, new_budget: see `release_file`.

    Raises:
        InputError, BudgetExceeded, LedgerError, LabelDPError: as `release`.
    """
    column_mechanism(request)(request.budget.epsilon)  # refuses before Spark starts
    if not request.source.ids:
        raise InputError("must be given: rows that Spark reads have no numbers", argument="id_column")
    check_new_folder(Path(out).absolute())
    dataframe = _read(start_session(master, "labeldp release"), data)
    return ask_frame(request, dataframe, ledger=ledger, out=out, note=note, new_budget=new_budget).certificate


def _read(session: Any, data: str) -> Any:
    try:
        if ".csv" in "".join(Path(data).suffixes[-2:]).lower():
            return session.read.csv(data, header=True)
        return session.read.parquet(data)
    except Exception as error:
        kind = type(error).__name__
    problem = f": Spark cannot read {data} ({kind}): Parquet is needed, or names that end in .csv"
    raise InputError(problem, argument="data")


def _released_schema(source: SparkTable, grant: Grant, columns: list[str]) -> Any:
    """Return the schema of the output: the ids, the noisy labels with their certificate, and other columns."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    kinds = {field.name: field for field in source.frame.schema.fields}
    kind = from_arrow_type(plain_type(grant.released_type))
    certificate = {PROPERTY: json.dumps(grant.certificate.to_json(), sort_keys=True)}
    noisy = StructField(grant.released, kind, nullable=True, metadata=certificate)
    return StructType([kinds[grant.ids.column], noisy, *(kinds[name] for name in columns)])


def _lazy(source: SparkTable, grant: Grant, schema: Any) -> Any:
    """Return the data frame that draws the noise wherever it is evaluated."""
    kind = plain_type(grant.released_type)

    def labeldp_release(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in recut(batches):
            answered = randomize_batch(grant, batch)
            number = answered.schema.get_field_index(grant.released)
            yield answered.set_column(number, grant.released, answered.column(number).cast(kind))

    read = [grant.ids.column, grant.label, *schema.names[2:]]
    placed = SparkTable(source.frame.select(*map(quoted, read))).placed(grant.ids.column, grant.records)
    return placed.frame.mapInArrow(labeldp_release, schema)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark has for the values of an Arrow type: short texts for long ones."""
    return pa.string() if pa.types.is_large_string(kind) else kind


def _check_new_table(source: SparkTable, table: str | None, out: Any) -> None:
    """Raise InputError if a table cannot be added."""
    if table is None:
        return
    if out is None:
        raise InputError("goes with out: a table needs a folder of parts", argument="table")
    if source.frame.sparkSession.catalog.tableExists(table):
        raise InputError(f": there is a table {table!r} already; choose another name", argument="table")


def _add_table(session: Any, table: str, folder: Path, grant: Grant) -> None:
    """Add a table over a released folder, with the certificate in its properties."""
    name = ".".join(map(quoted, table.split(".")))
    text = _shown(json.dumps(grant.certificate.to_json(), sort_keys=True))
    try:
        session.sql(
            f"CREATE TABLE {name} USING parquet LOCATION {_literal(folder.as_uri())} "
            f"TBLPROPERTIES ({_literal(PROPERTY)} = {_literal(text)})"
        )
    except Exception as error:
        raise LabelDPError(
            f"{folder} was released, and the table {table!r} over it could not be added ({type(error).__name__})"
        ) from None


def _shown(text: str) -> str:
    """Return JSON that Spark shows: it hides properties in which certain words stand, unless a letter is escaped."""
    return re.sub("(?i)(secret|password|token|access)", lambda match: f"\\u{ord(match[0][0]):04x}{match[0][1:]}", text)


def _literal(text: str) -> str:
    """Return a text as Spark's SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
