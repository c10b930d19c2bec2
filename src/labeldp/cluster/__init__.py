"""Many machines: charge once, and let workers draw the noise of that release where the records are."""

from labeldp.cluster.features import ByCells, ByFeatures, feature_table
from labeldp.cluster.grants import Grant, charge, open_account, randomize_batch
from labeldp.cluster.moments import ROWS, RowMap, RowMeasure
from labeldp.cluster.parts import check_new_folder, write_parts
from labeldp.cluster.sums import AllRecords, Asked, ByColumn, Grouping, GroupMeasure, Surveyed
from labeldp.cluster.survey import CHANGED, Join, Measure, Names, Stream, Table, Tally, Task, larger

__all__ = [
    "CHANGED",
    "ROWS",
    "AllRecords",
    "Asked",
    "ByCells",
    "ByColumn",
    "ByFeatures",
    "Grant",
    "GroupMeasure",
    "Grouping",
    "Join",
    "Measure",
    "Names",
    "RowMap",
    "RowMeasure",
    "Stream",
    "Surveyed",
    "Table",
    "Tally",
    "Task",
    "charge",
    "check_new_folder",
    "feature_table",
    "larger",
    "open_account",
    "randomize_batch",
    "write_parts",
]
