"""Predictions of a model for a data frame, and how good they are by released labels."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa

from labeldp.fit import Bundle, predicted_columns, prediction_columns
from labeldp.inference import Estimate, accuracy_of_agreements
from labeldp.mechanisms import FiniteMechanism
from labeldp.privacy import InputError
from labeldp.spark.table import SparkTable, arrow_type
from labeldp.tables import Blocks, TableEncoder, as_text, plain, recut


def predict(dataframe: Any, model: str | os.PathLike[str]) -> Any:
    """Return a data frame with the predictions of a model that `labeldp fit` wrote next to its columns.

    The model is read once and sent to the workers, which need the packages that it is made of.

    Args:
        dataframe: holds the feature columns of the model.
        model: the directory of the model, on the driver.

    Returns:
        The columns, `prediction`, and of classes the probability of each, `probability_…`.

    Raises:
        InputError: the directory is not a model of tables, or a column is missing or has the name of an output.
    """
    source = SparkTable(dataframe)
    bundle = Bundle.read(Path(model))
    encoder = bundle.encoder
    if not isinstance(encoder, TableEncoder):
        raise InputError("must be a model of tables: data frames hold no images", argument="model")
    used = [column.name for column in encoder.columns]
    for name in used:
        if source.schema.names.count(name) != 1:
            raise InputError(f"must have exactly one column {name!r}: the model learned from it", argument="dataframe")
    outputs = prediction_columns(bundle.model)
    if taken := set(outputs) & set(source.schema.names):
        raise InputError(f"must not have the column {min(taken)!r}: it is an output", argument="dataframe")
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    numbers = bundle.model.domain.target == "numbers"
    kinds = [DoubleType() if numbers or number else StringType() for number in range(len(outputs))]
    more = [StructField(name, kind) for name, kind in zip(outputs, kinds, strict=True)]
    schema = StructType([*source.frame.schema.fields, *more])
    types = [arrow_type(kind) for kind in kinds]

    def labeldp_predict(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = Blocks(encoder)
        for batch in recut(batches):
            features = blocks.transform(pa.Table.from_batches([batch.select(used)]))
            arrays = predicted_columns(bundle.model, features)
            cast = [array.cast(kind) for array, kind in zip(arrays, types, strict=True)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *cast], names=[*batch.schema.names, *outputs])

    return source.frame.mapInArrow(labeldp_predict, schema)


def debiased_accuracy(
    dataframe: Any, *, mechanism: FiniteMechanism, noisy: str, prediction: str = "prediction", level: float = 0.95
) -> Estimate:
    """Estimate the accuracy that predictions would show on the true labels; see `labeldp.debiased_accuracy`.

    Args:
        dataframe: holds released labels and predictions, made without these labels.
        mechanism: what released them, such as `release(…).mechanism`.
        noisy: its column of released labels, or of bits.
        prediction: its column of predicted classes.
        level: coverage of the interval.

    Raises:
        InputError: no records, a cell that is no class, or a mechanism that has no classes.
        NotInvertibleError: the noise has no inverse.
    """
    source = SparkTable(dataframe)
    if not isinstance(mechanism, FiniteMechanism) or mechanism.domain.target != "classes":
        raise InputError("must be what released the labels, on Classes", argument="mechanism")
    for name, argument in ((noisy, "noisy"), (prediction, "prediction")):
        if source.schema.names.count(name) != 1:
            raise InputError(f"must be one column of the data frame: {name!r}", argument=argument)
    task = _CountAgreements(mechanism, noisy, prediction)
    parts = [json.loads(state) for state in source.run(task, [noisy, prediction])]
    if any(part["problem"] for part in parts):
        raise InputError("released labels and predictions must be classes of the domain, none of them missing")
    records = sum(part["records"] for part in parts)
    if not records:
        raise InputError("must hold at least one record", argument="dataframe")
    return accuracy_of_agreements(mechanism, sum(part["agreements"] for part in parts), records, level=level)


@final
@dataclass(frozen=True)
class _CountAgreements:
    """Counts the records of a part, and those whose released answer names the predicted class."""

    mechanism: FiniteMechanism
    noisy: str
    prediction: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        records = agreements = 0
        for batch in recut(batches):
            answers, predicted = (as_text(plain(batch.column(name)), name) for name in (self.noisy, self.prediction))
            places = self._codes(predicted)
            if places is None or answers.null_count:
                return json.dumps({"problem": True}).encode()
            if self.mechanism.answers is not None:
                named = self._bits(answers)
                agreeing = None if named is None else named[np.arange(len(places)), places]
            else:
                codes = self._codes(answers)
                agreeing = None if codes is None else codes == places
            if agreeing is None:
                return json.dumps({"problem": True}).encode()
            records, agreements = records + len(places), agreements + int(agreeing.sum())
        return json.dumps({"problem": False, "records": records, "agreements": agreements}).encode()

    def _codes(self, texts: Any) -> Any:
        codes = pa.compute.index_in(texts, value_set=pa.array(self.mechanism.domain.texts, texts.type))
        return None if codes.null_count else codes.to_numpy(zero_copy_only=False)

    def _bits(self, texts: Any) -> Any:
        """Return which classes texts of '0' and '1' name, shape (n, K), None if one is no such text."""
        classes = self.mechanism.domain.size
        joined = "".join(texts.to_pylist()).encode()
        flags = np.frombuffer(joined, dtype=np.uint8)
        lengths = pa.compute.utf8_length(texts).to_numpy(zero_copy_only=False)
        if (lengths != classes).any() or not np.isin(flags, (ord("0"), ord("1"))).all():
            return None
        return flags.reshape(-1, classes) == ord("1")
