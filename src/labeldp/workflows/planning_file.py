"""What a plan takes from a file: how many records and columns, and how many dimensions they fill. Never a label."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp.learners import intrinsic_dimension
from labeldp.privacy import InputError
from labeldp.tables import BLOCK_ROWS, TableEncoder, open_table

SAMPLE = 100_000
"""So many rows are looked at, drawn from all: enough for kinds of columns and dimensions."""


@dataclass(frozen=True)
class PublicFeatures:
    """What the feature columns of a file say.

    Args:
        file: its name.
        records: rows.
        columns: the feature columns that can be used.
        intrinsic_dimension: how many dimensions the features fill; None where too few rows differ.
        notes: what was left out, in words; of a large file as far as a sample of its rows shows.
    """

    file: str
    records: int
    columns: tuple[str, ...]
    intrinsic_dimension: float | None
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """The number of feature columns."""
        return len(self.columns)


def read_features(
    path: str,
    *,
    label: str | None,
    columns: str | None = None,
    id_column: str | None = None,
    block_rows: int = BLOCK_ROWS,
    seed: int = 0,
) -> PublicFeatures:
    """Look at the public columns of a CSV or Parquet file, by blocks.

    Args:
        path: of the file.
        label: the private column, which must be named.
        columns: feature columns, separated by commas; all others by default.
        id_column: record ids, which are no feature.
        block_rows: rows read at a time.
        seed: of the rows that are kept, public.

    Guarantee: what is found does not depend on the label column.

    Raises:
        InputError: the label is not named, or a column or the file is not as it should be.
    """
    table = open_table(path)
    if label is None:
        raise InputError("--label must name the private column: it is left out, and never read")
    others = [table.require(label, "--label")]
    others += [table.require(id_column, "--id")] if id_column else []
    named = [name.strip() for name in columns.split(",")] if columns else []
    default = [name for name in table.columns if name not in (*others, *table.index)]
    used = [table.require(name, "--features") for name in named] or default
    if set(used) & set(others):
        raise InputError("--features must not hold the label column or the id column")
    if not used:
        raise InputError(f"{path} must have feature columns beside the label")
    rng, count = np.random.default_rng(seed), 0
    kept, keys = pa.Table.from_batches([], schema=table.schema(used)), np.zeros(0)
    for batch in table.blocks(used, block_rows=block_rows):
        count += batch.num_rows
        keys = np.concatenate([keys, rng.random(batch.num_rows)])
        smallest = np.argsort(keys, kind="stable")[:SAMPLE]
        kept, keys = pa.concat_tables([kept, pa.Table.from_batches([batch])]).take(pa.array(smallest)), keys[smallest]
    encoder = TableEncoder.fit(kept)
    return PublicFeatures(Path(path).name, count, encoder.names, _intrinsic(encoder, kept), encoder.notes)


def _intrinsic(encoder: TableEncoder, rows: pa.Table) -> float | None:
    """The intrinsic dimension, where there is one."""
    try:
        return intrinsic_dimension(encoder.transform(rows))
    except InputError:
        return None
