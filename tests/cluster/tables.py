"""Tables in parts for the tests of the room: workers are pickles, and may die."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import labeldp as ldp
from labeldp.cluster import Task
from labeldp.curator import DatasetLedger, LedgerFile

DOMAIN = ldp.Classes(("no", "yes"))
MECHANISM = ldp.RandomizedResponse(domain=DOMAIN, epsilon=1)


def people(rows: int = 600, *, texts: bool = False, seed: int = 0) -> pa.Table:
    """A table of ids, labels and two features."""
    rng = np.random.default_rng(seed)
    ids: Any = np.arange(rows) - 5
    ids = [f"p{n}" if n % 3 else str(n) for n in ids.tolist()] if texts else ids
    labels = np.where(rng.random(rows) < 0.3, "yes", "no")
    return pa.table({"id": ids, "bought": labels, "age": rng.integers(18, 80, rows), "height": rng.normal(size=rows)})


@dataclass
class Parts:
    """A table in parts, drawn at random, each in blocks; every task goes through a pickle, as to a worker."""

    table: pa.Table
    count: int = 1
    seed: int = 0
    each_time: Callable[[pa.Table, int], pa.Table] = lambda table, time: table
    tasks: list[bytes] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def run(self, task: Task, columns: Sequence[str], join: Any = None) -> list[bytes]:
        table = self.each_time(self.table, len(self.tasks))
        part = np.random.default_rng(self.seed).integers(0, self.count, table.num_rows)
        found = self._run(task, table.select(list(columns)), part)
        return found if join is None else [join(found[:2]), join(found[2:])]

    def run_by_id(self, task: Task, column: str) -> list[bytes]:
        table = self.each_time(self.table, len(self.tasks))
        part = np.array([hash(str(each)) % self.count for each in table.column(column).to_pylist()], dtype=int)
        return self._run(task, table.select([column]), part)

    def _run(self, task: Task, table: pa.Table, part: Any) -> list[bytes]:
        self.tasks.append(pickle.dumps(task))
        worker = pickle.loads(self.tasks[-1])
        return [worker(table.filter(pa.array(part == number)).to_batches(50)) for number in range(self.count)]


def account(path: Any, **more: Any) -> DatasetLedger:
    """The ledger of the people."""
    return LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon=1), **more)
