"""Predict the rows of a file, by blocks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.fit.bundle import Bundle
from labeldp.fit.settings import names_images
from labeldp.learners import Model
from labeldp.privacy import InputError
from labeldp.tables import Blocks, TableEncoder, open_table, table_writer

BLOCK_IMAGES = 4096
Progress = Callable[[str, float], None]


def predict_file(
    model: str, data: str, *, out: str, id_column: str | None = None, progress: Progress | None = None
) -> int:
    """Predict each row of a CSV or Parquet file, or each image, and write the predictions to a file.

    A predicted class comes with the probability of each class; a predicted number stands alone.

    Args:
        model: a directory that `labeldp fit` wrote.
        data: a table with the model's feature columns, or images of the shape that the model takes, which are
            numbered from 0 in the output.
        out: a new .csv or .parquet file, which appears complete or not at all.
        id_column: a column to copy to the output.
        progress: called with a description and the share of the work that is done.

    Returns:
        The number of rows.

    Raises:
        InputError: the directory is not a model, a column is missing or holds another kind of values than the model
            learned from, or the output cannot be written.
    """
    bundle = Bundle.read(Path(model))
    encoder: Any = bundle.encoder
    if getattr(encoder, "shape", ()):
        return _predict_images(bundle.model, encoder, data, out, id_column, progress)
    if names_images(data):
        raise InputError(f"{model} is a model of tables: a CSV or Parquet file is needed, not {data}")
    table = open_table(data)
    used = [column.name for column in encoder.columns]
    missing = [name for name in used if name not in table.columns]
    if missing and len(missing) < len(used):  # so the file has a header
        raise InputError(f"data: {data} lacks columns of the model: {', '.join(map(repr, missing[:5]))}. Add them")
    for name in missing or used:
        table.require(name, "data")
    if id_column is not None:
        table.require(id_column, "--id")
    columns = [*([id_column] if id_column else []), *prediction_columns(bundle.model)]
    if len(set(columns)) < len(columns):
        raise InputError("--id must not have the name of an output column, such as prediction")
    rows, blocks = 0, Blocks(encoder) if isinstance(encoder, TableEncoder) else encoder
    with table_writer(out, columns) as write:
        for batch in table.blocks(list(dict.fromkeys([*used, *columns[: bool(id_column)]]))):
            predicted = predicted_columns(bundle.model, blocks.transform(pa.Table.from_batches([batch])))
            carried = [batch.column(id_column)] if id_column else []
            write([*carried, *predicted])
            rows += batch.num_rows
            if progress:
                progress(f"predicting: {rows:,} rows", rows / table.rows if table.rows else 0.0)
        blocks.require_kinds()
    return rows


def _predict_images(
    model: Model, shape: Any, data: str, out: str, id_column: str | None, progress: Progress | None
) -> int:
    """Predict each image and write the predictions; images have numbers and no ids."""
    if id_column is not None:
        raise InputError("--id is for tables: images are numbered in their order, from 0")
    if not names_images(data):
        raise InputError(f"the model takes {shape}: an .npz file or a folder is needed, not {data}")
    from labeldp.images import open_unlabeled_images

    images = open_unlabeled_images(data)
    shape.require(images, data)
    with table_writer(out, ["row", *prediction_columns(model)]) as write:
        for start in range(0, len(images), BLOCK_IMAGES):
            block = images[start : start + BLOCK_IMAGES]
            write([pa.array(range(start, start + len(block))), *predicted_columns(model, shape.transform(block))])
            if progress:
                done = start + len(block)
                progress(f"predicting: {done:,} images", done / len(images))
    return len(images)


def prediction_columns(model: Model) -> list[str]:
    """Return the names of the columns of predictions."""
    if model.domain.target == "numbers":
        return ["prediction"]
    return ["prediction", *(f"probability_{name}" for name in model.classes)]


def predicted_columns(model: Model, features: Any) -> list[pa.Array]:
    """Return the columns of predictions for some records."""
    if model.domain.target == "numbers":
        return [pa.array(model.predict(features))]
    probabilities = model.predict_proba(features)
    names = pa.array([str(name) for name in model.classes])
    return [names.take(pa.array(probabilities.argmax(axis=1))), *(pa.array(column) for column in probabilities.T)]
