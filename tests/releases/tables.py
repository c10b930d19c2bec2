"""Tables in parts for the tests of the room: workers are pickles, and may die."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import labeldp as ldp
from labeldp.curator import DatasetLedger, LedgerFile
from labeldp.tables import Table, Task

DOMAIN = ldp.Classes(("no", "yes"))
MECHANISM = ldp.RandomizedResponse(domain=DOMAIN, epsilon=1)


def people(rows: int = 600, *, texts: bool = False, seed: int = 0) -> pa.Table:
    """A table of ids, labels and two features."""
    rng = np.random.default_rng(seed)
    ids: Any = np.arange(rows) - 5
    ids = [f"p{n}" if n % 3 else str(n) for n in ids.tolist()] if texts else ids
    labels = np.where(rng.random(rows) < 0.3, "yes", "no")
    return pa.table({"id": ids, "bought": labels, "age": rng.integers(18, 80, rows), "height": rng.normal(size=rows)})


class PartTable(Table):
    """A table in parts, drawn at random, each in blocks; every task goes through a pickle, as to a worker."""

    def __init__(
        self,
        table: pa.Table,
        count: int = 1,
        seed: int = 0,
        each_time: Callable[[pa.Table, int], pa.Table] = lambda table, time: table,
    ) -> None:
        super().__init__(Path("the table in parts"), table.schema)
        self.table, self.count, self.seed, self.each_time = table, count, seed, each_time
        self.tasks: list[bytes] = []

    def run(self, task: Task, columns: Sequence[str], *, join: Any = None, by: str | None = None) -> list[bytes]:
        table = self.each_time(self.table, len(self.tasks))
        part = np.random.default_rng(self.seed).integers(0, self.count, table.num_rows)
        if by is not None:
            part = np.array([hash(str(value)) % self.count for value in table.column(by).to_pylist()], dtype=int)
        states = self._run(task, table.select(list(dict.fromkeys(columns))), part)
        return states if join is None else [join(states[:2]), join(states[2:])]

    def _run(self, task: Task, table: pa.Table, part: Any) -> list[bytes]:
        self.tasks.append(pickle.dumps(task))
        worker = pickle.loads(self.tasks[-1])
        return [worker(table.filter(pa.array(part == number)).to_batches(50)) for number in range(self.count)]


def account(path: Any, **more: Any) -> DatasetLedger:
    """The ledger of the people."""
    return LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon=1), **more)
