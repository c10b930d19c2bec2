"""Predictions for the rows of a file, by blocks."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from labeldp.privacy import InputError
from labeldp.tables import BLOCK_ROWS, open_table, table_writer
from labeldp.workflows.bundle import Bundle


def predict_file(
    model: str,
    data: str,
    *,
    out: str,
    id_column: str | None = None,
    block_rows: int = BLOCK_ROWS,
    progress: Callable[[str, float], None] | None = None,
) -> int:
    """Write the predicted class and the class probabilities of each row of a CSV or Parquet file.

    Args:
        model: a directory that `labeldp fit` wrote.
        data: a table with the model's feature columns.
        out: a new .csv or .parquet file, whole or absent.
        id_column: a column to carry along.
        block_rows: rows read at a time; memory grows with it.
        progress: called with what is being done and the share of the work that is done.

    Returns:
        The number of rows.

    Raises:
        InputError: the directory, a column or the output is not as it should be.
    """
    bundle = Bundle.read(Path(model))
    table = open_table(data)
    used = [column.name for column in bundle.encoder.columns]
    for name in used:
        table.require(name, "data")
    if id_column is not None:
        table.require(id_column, "--id")
    names = [str(name) for name in bundle.model.classes]
    columns = [*([id_column] if id_column else []), "prediction", *(f"probability_{name}" for name in names)]
    if len(set(columns)) < len(columns):
        raise InputError("--id must not have the name of an output column, such as prediction")
    rows = 0
    with table_writer(out, columns) as write:
        for batch in table.blocks(list(dict.fromkeys([*used, *columns[: bool(id_column)]])), block_rows=block_rows):
            probabilities = bundle.model.predict_proba(bundle.encoder.transform(pa.Table.from_batches([batch])))
            predicted = pa.array(names).take(pa.array(probabilities.argmax(axis=1)))
            carried = [batch.column(id_column)] if id_column else []
            write([*carried, predicted, *(pa.array(column) for column in probabilities.T)])
            rows += batch.num_rows
            if progress:
                progress(f"predicting: {rows:,} rows", rows / table.rows if table.rows else 0.0)
    return rows
