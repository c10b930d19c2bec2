"""Add the records of a file to a dataset: its ids are read, and no label."""

import os
from collections.abc import Iterator
from typing import Any

from labeldp.curator import Cohort, LedgerFile
from labeldp.tables import Table, open_table, record_ids


def add_cohort(
    data: Any,
    *,
    id_column: str,
    ledger: str | os.PathLike[str],
    dataset: str,
    cohort: str,
    block_rows: int | None = None,
) -> Cohort:
    """Add the records of a file or a folder to a dataset as a cohort; see `LedgerFile.add_cohort`.

    Only the column of ids is read, and memory grows with a block, not with the file.

    Args:
        data: the file, folder or table, as in `release_file`.
        id_column: its record ids, all different.
        ledger: the ledger file.
        dataset: the dataset's name in it.
        cohort: name of the cohort.
        block_rows: rows read at a time; by default a number that follows from the number of columns.

    Raises:
        InputError: an id is missing or occurs twice, or the column is not there; nothing was added.
        LedgerError: an id is in another cohort, the dataset takes no cohorts or does not exist; nothing was added.
    """
    table = open_table(data)
    table.require(id_column, "id_column")
    file = LedgerFile(ledger)
    file.add_cohort(dataset, cohort, _ids(table, id_column, block_rows))
    return next(item for item in file.dataset(dataset).state.cohorts if item.name == cohort)


def _ids(table: Table, column: str, block_rows: int | None) -> Iterator[Any]:
    for batch in table.blocks([column], block_rows=block_rows):
        yield record_ids(batch, column)
