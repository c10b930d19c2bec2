"""Good files of every kind that labeldp reads, and how each is read."""

import gzip
import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

import labeldp as ldp
from labeldp.audit import audit_csv, audit_run, check_signature, make_key, sign_files
from labeldp.bags import read_bags, release_bags
from labeldp.curator import LedgerFile
from labeldp.fit import fit_file, fit_request, load, verify
from labeldp.images import open_images
from labeldp.online import PrivateExperts, dump_state, load_state, run_online
from labeldp.releases import release_file
from labeldp.tables import open_table

CLASSES = ldp.Classes(("no", "yes"))
PEOPLE = 60


@dataclass(frozen=True)
class Parser:
    """A file, and what reads it.

    Args:
        file: the file that is changed.
        read: reads it; called with its folder.
        text: whether it is JSON.
        after: what is done when the file was changed, so that a digest does not stop it at the door.
    """

    file: str
    read: Callable[[Path], Any]
    text: bool = False
    after: Callable[[Path], None] = lambda folder: None


def make(folder: Path) -> None:
    """Fill a folder with all of them."""
    rows = np.arange(PEOPLE)
    people = pa.table(
        {
            "id": rows,
            "age": rows * 7 % 53,
            "pay": rows * 11 % 37 / 2,
            "region": np.array(["north", "south"])[rows % 2],
            "bought": np.array(["no", "yes"])[rows * rows % 3 % 2],
        }
    )
    csv.write_csv(people, folder / "people.csv")
    parquet.write_table(people, folder / "people.parquet")
    (folder / "people.csv.gz").write_bytes(gzip.compress((folder / "people.csv").read_bytes()))
    asked: dict[str, Any] = {"label": "bought", "domain": CLASSES, "ledger": folder / "l.ledger", "dataset": "bought"}
    LedgerFile(folder / "l.ledger").add("bought", ldp.Budget(epsilon=20))
    for number, name in enumerate(("noisy.csv", "noisy.parquet", "noisy.arrow")):
        release_file(folder / "people.csv", epsilon=1 + number / 8, out=folder / name, id_column="id", **asked)
    (folder / "parts").mkdir()
    for number in range(2):
        csv.write_csv(people.slice(30 * number, 30), folder / "parts" / f"{number}.csv")
    release_file(folder / "parts", epsilon=2, out=folder / "released", id_column="id", **asked)
    release_bags(
        str(folder / "people.csv"), mechanism="bag-sum", size=10, epsilon=1, out=folder / "sums.csv", id_column="id",
        **asked,
    )  # fmt: skip
    make_key(str(folder / "me.pem"))
    sign_files(str(folder / "noisy.csv"), str(folder / "me.pem"))
    request = fit_request(
        label="bought", domain=CLASSES, epsilon=1.0, delta=0.0, dataset="bought", id_column="id", model="linear"
    )
    fit_file(request, str(folder / "people.csv"), ledger=str(folder / "l.ledger"), out=str(folder / "model"))
    losses = np.random.default_rng(0).random((40, 3)).round(3)
    csv.write_csv(pa.table(dict(zip("abc", losses.T, strict=True))), folder / "losses.csv")
    learner = PrivateExperts(3, horizon=40, epsilon=1.0, delta=1e-6, rng=ldp.SystemRandomness())
    learner.update(losses[:5])
    (folder / "learner").write_bytes(dump_state(learner.state_dict()))
    _interrupted(folder)
    np.savez(folder / "digits.npz", images=np.zeros((20, 6, 6), np.uint8), labels=rows[:20] % 2)
    (folder / "idx").mkdir()
    pixels = bytes([0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 4, 0, 0, 0, 4]) + bytes(320)
    (folder / "idx" / "train-images-idx3-ubyte").write_bytes(pixels)
    (folder / "idx" / "train-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 20, *[1] * 20]))
    )
    (folder / "cifar").mkdir()
    (folder / "cifar" / "data_batch_1.bin").write_bytes(bytes(3073 * 4))
    _pictures(folder / "pictures")
    _cells(folder)
    with np.load(BytesIO((folder / "learner").read_bytes().split(b"\n", 2)[2])) as members:
        (folder / "learner.text").write_bytes(members["text"].tobytes())
    (folder / "mechanism.csv").write_text("label,a,b\nno,0.75,0.25\nyes,0.25,0.75\n")


def _interrupted(folder: Path) -> None:
    """What waits of an online run that was stopped in its middle."""

    class Stop(Exception):
        """The end of a process."""

    def stop(text: str, share: float) -> None:
        if text.startswith("played"):
            raise Stop

    try:
        run_online(folder / "losses.csv", epsilon=1, out=folder / "plays.csv", progress=stop)
    except Stop:
        return
    raise AssertionError("the run was not stopped")


def _pictures(folder: Path) -> None:
    from PIL import Image

    for number in range(4):
        place = folder / f"class{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((5, 5), number, np.uint8)).save(place / f"{number}.png")


def certified_again(folder: Path) -> None:
    """Whoever changes a model can write a certificate with the new digests, too."""
    place = folder / "model" / "certificate.json"
    content = json.loads(place.read_text())
    for name in content["files"]:
        content["files"][name] = hashlib.sha256((folder / "model" / name).read_bytes()).hexdigest()
    place.write_text(json.dumps(content))


def digested_again(folder: Path) -> None:
    """The same for a learner's state."""
    for place in (folder / "learner", folder / "plays.csv.unfinished" / "state"):
        head, _, body = place.read_bytes().split(b"\n", 2) if place.read_bytes().count(b"\n") > 1 else (b"", b"", b"")
        place.write_bytes(b"\n".join([head, hashlib.sha256(body).hexdigest().encode(), body]))


CELLS = {
    "rows/charge": ("release", "charge"),
    "rows/certificate": ("release", "certificate"),
    "rows/loss": ("paid", "loss"),
    "rows/rate": ("paid", "rate"),
    "rows/path": ("paid", "path"),
    "rows/epsilon": ("dataset", "epsilon"),
    "rows/policy": ("account", "policy"),
    "rows/versions": ("account", "versions"),
    "rows/reserve": ("account", "reserve"),
    "rows/payment": ("release", "paid"),
    "rows/request": ("request", "content"),
    "rows/value": ("release", "value"),
}
"""Cells of the ledger, each in a file of its own, with their tables and columns."""

NO_JSON = ("rows/value", "rows/loss", "rows/rate", "rows/policy")
"""Those that hold bytes, ratios and a word."""


def _cells(folder: Path) -> None:
    """Write the cells of a ledger into files."""
    (folder / "rows").mkdir()
    with closing(sqlite3.connect(folder / "l.ledger")) as connection:
        for name, (table, column) in CELLS.items():
            query = f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY rowid"
            found = connection.execute(query).fetchone() or ("{}",)
            (folder / name).write_bytes(found[0] if isinstance(found[0], bytes) else found[0].encode())


def put_back(name: str) -> Callable[[Path], None]:
    """Write the cell of a ledger back, as whoever holds the file can."""

    def put(folder: Path) -> None:
        table, column = CELLS[name]
        raw = (folder / name).read_bytes()
        value: Any = raw if column == "value" else raw.decode(errors="replace")
        first = f"SELECT rowid FROM {table} WHERE {column} IS NOT NULL ORDER BY rowid LIMIT 1"
        with closing(sqlite3.connect(folder / "l.ledger")) as connection:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid IN ({first})", (value,))
            connection.commit()

    return put


def packed_again(folder: Path) -> None:
    """Put the text of a snapshot back into it."""
    head, _, body = (folder / "learner").read_bytes().split(b"\n", 2)
    with np.load(BytesIO(body)) as members:
        arrays = {name: members[name] for name in members.files if name != "text"}
    buffer = BytesIO()
    text = np.frombuffer((folder / "learner.text").read_bytes(), np.uint8)
    np.savez_compressed(buffer, text=text, **arrays)
    body = buffer.getvalue()
    (folder / "learner").write_bytes(b"\n".join([head, hashlib.sha256(body).hexdigest().encode(), body]))


def use_ledger(folder: Path) -> None:
    """All that is read of a ledger, and a release."""
    ledger = LedgerFile(folder / "l.ledger")
    for name in ledger.datasets():
        account = ledger.dataset(name)
        assert account.read().entries is not None and account.charges is not None
        _ = account.spent, account.budget, account.read().cohorts, account.read().changes
    asked: dict[str, Any] = {"label": "bought", "domain": CLASSES, "ledger": folder / "l.ledger", "dataset": "bought"}
    release_file(folder / "people.csv", epsilon=1, out=folder / "again.csv", id_column="id", **asked)
    data = str(folder / "people.csv")
    release_bags(data, mechanism="bag-sum", size=10, epsilon=1, out=folder / "more.csv", id_column="id", **asked)


def go_on(folder: Path) -> None:
    """Continue from a snapshot."""
    learner = PrivateExperts.from_state_dict(load_state((folder / "learner").read_bytes()), rng=ldp.SystemRandomness())
    learner.update(np.full((2, 3), 0.5))


def release_csv(folder: Path, name: str) -> None:
    """Release a table that may be anything."""
    release_file(
        folder / name, label="bought", domain=CLASSES, epsilon=1, ledger=folder / "new.ledger", dataset="b",
        out=folder / "out.csv", id_column="id",
    )  # fmt: skip


def predict(folder: Path) -> None:
    """Load a model, and use it."""
    load(folder / "model").predict(parquet.read_table(folder / "people.parquet"))


PARSERS = {
    "a CSV file": Parser("people.csv", lambda folder: release_csv(folder, "people.csv")),
    "a compressed CSV file": Parser("people.csv.gz", lambda folder: release_csv(folder, "people.csv.gz")),
    "a Parquet file": Parser("people.parquet", lambda folder: release_csv(folder, "people.parquet")),
    "a table of features": Parser("people.parquet", lambda folder: open_table(folder / "people.parquet").read()),
    "a released CSV file": Parser("noisy.csv", lambda folder: verify(str(folder / "noisy.csv"))),
    "a certificate beside a file": Parser(
        "noisy.csv.certificate.json", lambda folder: verify(str(folder / "noisy.csv")), text=True
    ),
    "the same, audited": Parser(
        "noisy.csv.certificate.json",
        lambda folder: audit_run(
            str(folder / "noisy.csv"), ledger=str(folder / "l.ledger"), data=str(folder / "people.csv")
        ),
        text=True,
    ),
    "a certificate in Parquet metadata": Parser("noisy.parquet", lambda folder: verify(str(folder / "noisy.parquet"))),
    "a released Arrow file": Parser("noisy.arrow", lambda folder: verify(str(folder / "noisy.arrow"))),
    "a certificate of a folder": Parser(
        "released/_certificate.json", lambda folder: verify(str(folder / "released")), text=True
    ),
    "released sums": Parser("sums.csv", lambda folder: read_bags(folder / "sums.csv")),
    "the certificate of sums": Parser(
        "sums.csv.certificate.json", lambda folder: read_bags(folder / "sums.csv"), text=True
    ),
    "a signature": Parser("noisy.csv.signature", lambda folder: check_signature(str(folder / "noisy.csv")), text=True),
    "the certificate of a model": Parser("model/certificate.json", predict, text=True),
    "the description of a model": Parser("model/model.json", predict, text=True, after=certified_again),
    "a model": Parser("model/model.skops", predict, after=certified_again),
    "a ledger": Parser("l.ledger", use_ledger),
    **{
        f"{name.removeprefix('rows/')} in a ledger": Parser(name, use_ledger, name not in NO_JSON, put_back(name))
        for name in CELLS
    },
    "the text of a snapshot": Parser("learner.text", go_on, text=True, after=packed_again),
    "a snapshot": Parser("learner", go_on, after=digested_again),
    "an unfinished run": Parser(
        "plays.csv.unfinished/run.json",
        lambda folder: run_online(folder / "losses.csv", epsilon=1, out=folder / "plays.csv"),
        text=True,
    ),
    "the state of an unfinished run": Parser(
        "plays.csv.unfinished/state",
        lambda folder: run_online(folder / "losses.csv", epsilon=1, out=folder / "plays.csv"),
        after=digested_again,
    ),
    "losses": Parser("losses.csv", lambda folder: run_online(folder / "losses.csv", epsilon=1, out=folder / "new.csv")),
    "images in an archive": Parser("digits.npz", lambda folder: open_images(folder / "digits.npz")),
    "images of MNIST's format": Parser("idx/train-images-idx3-ubyte", lambda folder: open_images(folder / "idx")),
    "labels of MNIST's format": Parser("idx/train-labels-idx1-ubyte.gz", lambda folder: open_images(folder / "idx")),
    "CIFAR's format": Parser("cifar/data_batch_1.bin", lambda folder: open_images(folder / "cifar")),
    "a picture": Parser("pictures/class0/0.png", lambda folder: open_images(folder / "pictures")),
    "a table of probabilities": Parser("mechanism.csv", lambda folder: audit_csv(str(folder / "mechanism.csv"))),
}
"""Everything that is read, in words."""
