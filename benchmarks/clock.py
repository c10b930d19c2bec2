"""Processor time and memory of a benchmark: what other work on the machine takes does not count."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """The median processor time of a function."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def most_memory() -> float:
    """The most memory that this process held, in MB; `ru_maxrss` would count that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
