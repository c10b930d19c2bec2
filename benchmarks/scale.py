"""What releases cost as tables and ledgers grow, as ratios to peers and floors that are measured in the same run.

    python benchmarks/scale.py [--rows 1e7] [--repeats 3] [--write]

One thread; processor time (user and system), medians, so that other work on the machine counts for little. The floors:
pyarrow reading and writing the same two columns, a sort of the ids with AES on them, a ledger with few charges.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import pages
from clock import most_memory, seconds

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ARROW_IO_THREADS", "1")

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

import labeldp as ldp
from labeldp.bags.losses import HiddenWeights
from labeldp.curator import Ledger, LedgerFile
from labeldp.privacy import PendingCharge, PrivacyLoss
from labeldp.releases import add_cohort, release_file

NAMES = ("no", "yes", "perhaps")

KINDS = {"integer ids, Parquet": "i.parquet", "text ids, Parquet": "t.parquet", "integer ids, CSV": "i.csv"}
"""The tables that are released, and the names of their files."""

CHUNK = 1 << 18


def elapsed(work: Callable[[], object], repeats: int) -> float:
    """The shortest time of a function by the clock: what other work on the machine adds counts least there."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def make(path: Path, rows: int, first: int = 0) -> None:
    """Write a table of ids in no order, from a first one on, and labels."""
    rng, writer = np.random.default_rng(0), None
    step = 7 if rows % 7 else 11  # no divisor: each id once
    for start in range(0, rows, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, rows)) * step % rows + first
        ids = pa.array([f"user-{number:09d}" for number in numbers]) if path.name[0] == "t" else pa.array(numbers)
        labels = pa.array(np.array(NAMES)[rng.integers(0, 3, len(numbers))])
        batch = pa.record_batch({"id": ids, "label": labels})
        if writer is None:
            is_csv = path.suffix == ".csv"
            writer = csv.CSVWriter(path, batch.schema) if is_csv else parquet.ParquetWriter(path, batch.schema)
        writer.write_batch(batch)
    assert writer is not None
    writer.close()


def copy(source: Path, out: Path) -> None:
    """Read and write both columns with pyarrow, in blocks of the same size, compressed as labeldp does."""
    if source.suffix == ".csv":
        reader = csv.open_csv(source, csv.ReadOptions(use_threads=False))
        with csv.CSVWriter(out, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        return
    file = parquet.ParquetFile(source)
    with parquet.ParquetWriter(out, file.schema_arrow, compression="zstd") as writer:
        for batch in file.iter_batches(CHUNK, use_threads=False):
            writer.write_batch(batch)


def release(source: Path, folder: Path) -> None:
    """Release the labels as a sidecar, under a new ledger."""
    release_file(
        source, label="label", domain=ldp.Classes(NAMES), epsilon=1, ledger=folder / "l.db", dataset="label",
        out=folder / f"out{source.suffix}", id_column="id",
    )  # fmt: skip


def worker(what: str, source: Path) -> None:
    """One copy or release in a process of its own: prints its processor time, and the most memory that it held."""
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(dir=source.parent) as place:
        folder = Path(place)
        small = folder / f"{source.name[0]}{source.suffix}"
        make(small, 1000)
        (folder / "warm").mkdir()
        release(small, folder / "warm")  # what is imported late is imported now
        start = time.process_time()
        if what == "copy":
            copy(source, folder / f"copy{source.suffix}")
        else:
            release(source, folder)
        taken = time.process_time() - start
    print(json.dumps([taken, most_memory()]))


def cohort_worker(source: Path) -> None:
    """Add the records of `later` beside those of a table: prints processor time, most memory, and the ledger's size."""
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(dir=source.parent) as place:
        ledger = Path(place) / "l.db"
        LedgerFile(ledger).add("label", ldp.Budget(epsilon=1))
        add = partial(add_cohort, id_column="id", ledger=ledger, dataset="label")
        add(source, cohort="first")
        before, start = ledger.stat().st_size, time.process_time()
        added = add(source.with_name(f"later-{source.name}"), cohort="later")
        taken = time.process_time() - start
        print(json.dumps([taken, most_memory(), (ledger.stat().st_size - before) / added.records]))


def cohorts(sizes: list[int], repeats: int, place: str | None) -> list[str]:
    """A million records that come later."""
    lines = [
        "| ids | records so far | new | s | sort of the new ids, s | most memory, MB | bytes a record in the ledger |",
        "|---|---|---|---|---|---|---|",
    ]
    new = 10**6
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for name in ("i.parquet", "t.parquet"):
            for rows in sorted({10**6, *sizes}):
                source = Path(folder) / name
                make(source, rows)
                make(source.with_name(f"later-{name}"), new, first=rows)
                values = parquet.read_table(source.with_name(f"later-{name}"), columns=["id"]).column("id").to_numpy()
                floor = seconds(lambda: np.sort(values), repeats)  # noqa: B023
                found = []
                for _ in range(repeats):
                    command = [sys.executable, __file__, "--worker", "cohort", "--source", str(source)]
                    found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
                taken, memory, size = (statistics.median(each) for each in zip(*found, strict=True))
                kind = "integers" if name[0] == "i" else "texts"
                lines.append(f"| {kind} | {rows:,} | {new:,} | {taken:.2f} | {floor:.2f} | {memory:.0f} | {size:.1f} |")
    return lines


def run(what: str, source: Path, repeats: int) -> tuple[float, float]:
    """The median time and the largest memory of workers."""
    found = []
    for _ in range(repeats):
        command = [sys.executable, __file__, "--worker", what, "--source", str(source)]
        found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return statistics.median(each[0] for each in found), max(each[1] for each in found)


def sidecars(sizes: list[int], repeats: int, place: str | None) -> tuple[list[str], list[str]]:
    """Releases of files beside copies of them, and how they grow."""
    lines = [
        "| table | rows | copy, s | release, s | speed of a copy | copy, MB | release, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    growth = ["| table | copy, time | release, time | release, memory |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for kind, name in KINDS.items():
            found = []
            for rows in sizes:
                source = Path(folder) / name
                make(source, rows)
                copied, released = run("copy", source, repeats), run("release", source, repeats)
                found.append((copied[0], *released))
                share = copied[0] / released[0]
                row = (kind, rows, copied[0], released[0], share, copied[1], released[1])
                lines.append("| {} | {:,} | {:.2f} | {:.2f} | {:.2f} | {:.0f} | {:.0f} |".format(*row))
                print(lines[-1], flush=True)
                source.unlink()
            growth.append("| {} | {:.2f} | {:.2f} | {:.2f} |".format(kind, *exponents(sizes, found)))
    return lines, growth


def exponents(sizes: list[int], found: Sequence[tuple[float, ...]]) -> list[float]:
    """The powers of the size with which figures grow, by least squares on logarithms."""
    if len(sizes) < 2:
        return [float("nan")] * len(found[0])
    return [float(np.polyfit(np.log(sizes), np.log(each), 1)[0]) for each in zip(*found, strict=True)]


def ids(rows: int, repeats: int) -> list[str]:
    """Keyed randomized response in memory, beside a sort of its ids with AES on them."""
    rng = np.random.default_rng(0)
    names, labels = rng.permutation(rows).astype(np.uint64), rng.integers(0, 10, rows, dtype=np.uint8)
    keyed, words = ldp.KeyedRandomness(bytes(32)), np.empty(rows, dtype=np.uint64)
    mechanism = ldp.RandomizedResponse(domain=ldp.Classes(10), epsilon=1)
    sort, fill = seconds(lambda: np.sort(names), repeats), seconds(lambda: keyed.fill(words, names), repeats)
    whole = seconds(lambda: mechanism.randomize(labels, rng=keyed, ids=names), repeats)
    halves = [slice(0, rows // 2), slice(rows // 2, rows)]

    def half(part: slice) -> None:
        mechanism.randomize(labels[part], rng=keyed, ids=names[part])

    with ThreadPoolExecutor(2) as pool:
        one = elapsed(lambda: list(map(half, halves)), repeats)
        two = elapsed(lambda: list(pool.map(half, halves)), repeats)
    return [
        "| rows | sort, s | AES, s | keyed randomized response, s | ratio to both | "
        "two threads on halves, times as fast by the clock |",
        "|---|---|---|---|---|---|",
        f"| {rows:,} | {sort:.2f} | {fill:.2f} | {whole:.2f} | {whole / (sort + fill):.2f} | {one / two:.2f} |",
    ]


def in_memory(repeats: int) -> list[str]:
    """A ledger in memory: k charges, equal or all different."""
    lines = ["| charges | equal, s | different, s | different, epsilon at 1e-6, s |", "|---|---|---|---|"]
    for count in (100, 1000, 10_000):

        def charge(losses: list[PrivacyLoss]) -> Ledger:
            ledger = Ledger(ldp.Budget(epsilon=1000, delta=1e-6))
            for loss in losses:
                ledger.record(PendingCharge({}, loss))
            return ledger

        equal = [PrivacyLoss.pure("0.001")] * count
        different = [PrivacyLoss.pure(Fraction(place + 1, 100 * count)) for place in range(count)]
        spent = charge(different).spent if count <= 1000 else None
        asked = "not run" if spent is None else f"{seconds(lambda: spent.epsilon(1e-6), 1):.2f}"  # noqa: B023
        taken = [seconds(lambda: charge(losses), repeats) for losses in (equal, different)]  # noqa: B023
        lines.append(f"| {count:,} | {taken[0]:.3f} | {taken[1]:.3f} | {asked} |")
    return lines


def in_file(repeats: int) -> list[str]:
    """One more release charged to a file of many, and what was spent in all."""
    lines = ["| releases in the file | MB | one more, ms | all spent, ms |", "|---|---|---|---|"]
    domain = ldp.Classes(3)
    mechanism = ldp.RandomizedResponse(domain=domain, epsilon=0.001)
    with tempfile.TemporaryDirectory() as folder:
        path, held = Path(folder) / "l.db", 0
        account = LedgerFile(path).dataset("many", budget=ldp.Budget(epsilon=1000))
        traces = (("ids", "classes", "0"),)
        for count in (10, 1000, 10_000, 100_000):
            with account._open() as (connection, dataset):  # in one transaction: 100,000 waits for a disk say nothing
                for place in range(held, count):
                    request = PendingCharge(
                        {"place": place}, mechanism.privacy_loss(), labels=str(place), traces=traces, step="a stage"
                    )
                    if place == held:
                        transaction = account._begin(connection, dataset, request)
                    transaction.write(request, mechanism, account._charge(transaction, request))
            held = count
            request = PendingCharge(mechanism.specification(), mechanism.privacy_loss(), labels="0", traces=traces)

            def append(request: PendingCharge = request) -> None:
                nonlocal held
                held += 1
                account.charge_stream(
                    PendingCharge({"place": held}, request.loss, labels="0", traces=traces), mechanism
                )

            one, spent = seconds(append, 20 * repeats), seconds(lambda: account.spent, repeats)
            size = path.stat().st_size / 1e6
            lines.append(f"| {count:,} | {size:.1f} | {1000 * one:.2f} | {1000 * spent:.2f} |")
    return lines


def compositions() -> list[str]:
    """The epsilon at delta = 1e-6 of many different losses."""
    lines = ["| losses | s | each, s |", "|---|---|---|"]
    for count in (10, 100, 1000):
        pure = PrivacyLoss.total((PrivacyLoss.pure(Fraction(place + 7, 100 * count)), 1) for place in range(count))
        taken = seconds(lambda: pure.epsilon(1e-6), 1)  # noqa: B023
        lines.append(f"| {count} different pure ones | {taken:.2f} | {taken / count:.4f} |")
    for count in (1, 2, 5, 10, 20, 40):
        curves = (HiddenWeights(0.01 * (place + 3), 0.01 + 0.001 * place) for place in range(count))
        bags = PrivacyLoss.total((PrivacyLoss.curve(curve), 1) for curve in curves)
        taken = seconds(lambda: bags.epsilon(1e-6), 1)  # noqa: B023
        lines.append(f"| {count} different LBAs | {taken:.2f} | {taken / count:.3f} |")
    return lines


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=lambda text: [int(float(each)) for each in text.split(",")], default=[10**7])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--place", help="where the tables are written")
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    parser.add_argument("--worker", choices=("copy", "release", "cohort"), help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker == "cohort":
        cohort_worker(arguments.source)
        return
    if arguments.worker:
        worker(arguments.worker, arguments.source)
        return
    repeats, rows = arguments.repeats, ",".join(f"{each:g}" for each in arguments.rows)
    parts: list[str] = []

    def say(*more: str) -> None:
        parts.extend(more)
        print(*more, sep="\n\n", end="\n\n", flush=True)

    say(
        "# Scale",
        f"`python benchmarks/scale.py --rows {rows} --repeats {repeats}`: one thread, processor time, medians; numpy "
        f"{np.__version__}, pyarrow {pa.__version__}. Ratios were taken in one run; absolute figures depend on the "
        "machine.",
    )
    say("## Keyed noise in memory, integer ids in no order", "\n".join(ids(10**7, repeats)))
    say("## A ledger in memory", "\n".join(in_memory(repeats)))
    say("## A ledger file", "\n".join(in_file(repeats)))
    say("## Composition of different losses", "\n".join(compositions()))
    lines, growth = sidecars(arguments.rows, repeats, arguments.place)
    say(
        "## A sidecar of noisy labels, beside a copy of both columns",
        "\n".join(lines),
        "Ids are in no order. Each table is read once; labels and ids wait in an encrypted file without a name. Memory "
        "is the most that the process held (`VmHWM`), Python and pyarrow included.",
        "They grow with these powers of the number of rows:",
        "\n".join(growth),
    )
    say(
        "## Records that come later",
        "\n".join(cohorts(arguments.rows, repeats, arguments.place)),
        "Ids are in no order; adding them compares each with all that are known, and writes them down.",
    )
    text = "\n\n".join(parts) + "\n"
    if arguments.write:
        pages.store(
            text,
            "scale-keyed",
            "scale-memory",
            "scale-ledger",
            "scale-composition",
            "scale-files",
            "scale-growth",
            "scale-records",
        )


if __name__ == "__main__":
    main()
