"""Many machines: charge once, and let workers draw the noise of that release where the records are."""

from labeldp.cluster.grants import Grant, charge, open_account, randomize_batch
from labeldp.cluster.parts import check_new_folder, write_parts
from labeldp.cluster.sums import AllRecords, Asked, ByColumn, Grouping, GroupMeasure
from labeldp.cluster.survey import Join, Measure, Names, Stream, Table, Tally, Task, larger

__all__ = [
    "AllRecords",
    "Asked",
    "ByColumn",
    "Grant",
    "GroupMeasure",
    "Grouping",
    "Join",
    "Measure",
    "Names",
    "Stream",
    "Table",
    "Tally",
    "Task",
    "charge",
    "check_new_folder",
    "larger",
    "open_account",
    "randomize_batch",
    "write_parts",
]
