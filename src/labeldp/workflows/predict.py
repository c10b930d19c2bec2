"""Predictions for the rows of a file, by blocks."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from labeldp.learners import Model
from labeldp.privacy import InputError
from labeldp.tables import BLOCK_ROWS, names_images, open_table, open_unlabeled_images, table_writer
from labeldp.workflows.bundle import Bundle
from labeldp.workflows.image_rows import ImageShape

BLOCK_IMAGES = 4096

Progress = Callable[[str, float], None]


def predict_file(
    model: str,
    data: str,
    *,
    out: str,
    id_column: str | None = None,
    block_rows: int = BLOCK_ROWS,
    progress: Progress | None = None,
) -> int:
    """Write the predicted class and the class probabilities of each row of a CSV or Parquet file, or of each image.

    Args:
        model: a directory that `labeldp fit` wrote.
        data: a table with the model's feature columns, or images of the shape that the model takes: their numbers,
            from 0, are written beside.
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
    if isinstance(bundle.encoder, ImageShape):
        return _predict_images(bundle.model, bundle.encoder, data, out, id_column, progress)
    if names_images(data):
        raise InputError(f"{model} is a model of tables: a CSV or Parquet file is needed, not {data}")
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


def _predict_images(
    model: Model, shape: ImageShape, data: str, out: str, id_column: str | None, progress: Progress | None
) -> int:
    """The same for images, which have numbers and no ids."""
    if id_column is not None:
        raise InputError("--id is for tables: images are numbered in their order, from 0")
    if not names_images(data):
        raise InputError(f"the model takes {shape}: an .npz file or a folder is needed, not {data}")
    images, names = open_unlabeled_images(data), [str(name) for name in model.classes]
    shape.require(images, data)
    columns = ["row", "prediction", *(f"probability_{name}" for name in names)]
    with table_writer(out, columns) as write:
        for start in range(0, len(images), BLOCK_IMAGES):
            probabilities = model.predict_proba(images[start : start + BLOCK_IMAGES])
            numbers = pa.array(range(start, start + len(probabilities)))
            predicted = pa.array(names).take(pa.array(probabilities.argmax(axis=1)))
            write([numbers, predicted, *(pa.array(column) for column in probabilities.T)])
            if progress:
                done = start + len(probabilities)
                progress(f"predicting: {done:,} images", done / len(images))
    return len(images)
