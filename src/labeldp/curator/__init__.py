"""The curator, which holds the private labels, and the durable ledger that it charges."""

from labeldp.curator.cohorts import Cohort
from labeldp.curator.curator import Curator, Fingerprint, Recorded, Subscribers, kind_of_ids, records_digest
from labeldp.curator.dataset_ledger import Change, Comparisons, DatasetLedger, LedgerEntry
from labeldp.curator.datasets import LOSSES, times
from labeldp.curator.ledger_file import LedgerFile, copy_ledger
from labeldp.curator.ledger_upkeep import back_up, move, restore, rotate_keys
from labeldp.curator.memory_ledger import Ledger
from labeldp.curator.traces import IDS_KIND
from labeldp.curator.users import (
    NO_USER,
    ONE_USER,
    PUBLIC_USERS,
    WHOSE,
    first_records,
    numbered,
    user_names,
    users_digest,
)

__all__ = [
    "IDS_KIND",
    "LOSSES",
    "NO_USER",
    "ONE_USER",
    "PUBLIC_USERS",
    "WHOSE",
    "Change",
    "Cohort",
    "Comparisons",
    "Curator",
    "DatasetLedger",
    "Fingerprint",
    "Ledger",
    "LedgerEntry",
    "LedgerFile",
    "Recorded",
    "Subscribers",
    "back_up",
    "copy_ledger",
    "first_records",
    "kind_of_ids",
    "move",
    "numbered",
    "records_digest",
    "restore",
    "rotate_keys",
    "times",
    "user_names",
    "users_digest",
]
