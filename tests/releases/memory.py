"""The memory that a release of a file takes beyond that of a small file; run as a script, it prints MiB."""

import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.releases import release_file

WIDTH = 8
BLOCK = 1 << 14


def write(path: Path, blocks: int) -> None:
    """A table of floats and a label, written block by block as one row group after the other."""
    rng = np.random.default_rng(0)
    names = pa.array(["no", "yes"])
    schema = pa.schema([(f"x{i}", pa.float64()) for i in range(WIDTH)] + [("label", pa.string())])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(blocks):
            columns = [pa.array(rng.random(BLOCK)) for _ in range(WIDTH)]
            writer.write_table(pa.table([*columns, names.take(pa.array(rng.integers(0, 2, BLOCK)))], schema=schema))


def release(folder: Path, name: str) -> float:
    """Release one file in place, and the most memory that this process ever held, in MiB."""
    release_file(
        folder / f"{name}.parquet", label="label", domain=ldp.Classes(("no", "yes")), epsilon=1, dataset=name,
        ledger=folder / "ledger.db", out=folder / f"{name}_out.parquet", in_place=True, block_rows=BLOCK,
    )  # fmt: skip
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(folder: Path) -> None:
    """The growth between a file of 4 blocks and one of 100."""
    write(folder / "small.parquet", 4)
    write(folder / "large.parquet", 100)
    for name in ("small", "large"):
        LedgerFile(folder / "ledger.db").add(name, ldp.Budget(1))
    before = release(folder, "small")
    print(release(folder, "large") - before)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
