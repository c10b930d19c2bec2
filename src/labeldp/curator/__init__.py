"""The curator, which holds the private labels, and the durable ledger that it charges."""

from labeldp.curator.cohorts import Cohort
from labeldp.curator.curator import Curator, Fingerprint, kind_of_ids, records_digest
from labeldp.curator.dataset_ledger import Change, Comparisons, DatasetLedger, Entry
from labeldp.curator.declared import LOSSES, times
from labeldp.curator.ledger_file import LedgerFile
from labeldp.curator.observers import ObservedCurator, Seen, WatchedCurator

__all__ = [
    "LOSSES",
    "Change",
    "Cohort",
    "Comparisons",
    "Curator",
    "DatasetLedger",
    "Entry",
    "Fingerprint",
    "LedgerFile",
    "ObservedCurator",
    "Seen",
    "WatchedCurator",
    "kind_of_ids",
    "records_digest",
    "times",
]
