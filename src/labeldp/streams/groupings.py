"""Public columns of numbers as the rows, or the cells, of records."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables import is_number


@final
@dataclass(frozen=True)
class ByFeatures:
    """Rows that are columns of public numbers as they are.

    Args:
        features: the columns.
    """

    features: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.features:
            raise InputError("must name a column", argument="features")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.features

    @property
    def width(self) -> int:
        """How many there are."""
        return len(self.features)

    def rows(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        """Return the row of each record."""
        return feature_table(batch, self.features)


@final
@dataclass(frozen=True)
class ByCells:
    """Groups that are the cells of a fitted partition of public features.

    Args:
        partition: the partition, of one tree.
        features: the columns of the features, in the order of the fit.
    """

    partition: Any
    features: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the features."""
        return self.features

    def groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the key of each record's cell."""
        keys = np.asarray(self.partition.transform(feature_table(batch, self.features)))
        if keys.ndim != 1 or (keys.size and keys.min() < 0):
            raise InputError("must put every record into one cell", argument="partition")
        return keys.astype(np.int64)


def feature_table(batch: pa.RecordBatch, features: tuple[str, ...] | list[str]) -> NDArray[np.float64]:
    """Return columns of public numbers as a table, shape (n, d), with NaN where one is missing.

    Raises:
        InputError: a column does not hold numbers or truth values.
    """
    table = np.empty((batch.num_rows, len(features)))
    for place, name in enumerate(features):
        values = batch.column(name)
        if not (is_number(values.type) or pa.types.is_boolean(values.type)):
            raise InputError(f"the column {name!r} must hold numbers: encode it first", argument="features")
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        table[:, place] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return table
