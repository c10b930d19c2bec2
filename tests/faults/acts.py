"""What is done under faults: library calls and commands on a small folder, and a number that makes each another one.

An act that is done again with the same number asks for the same release. What it returns is told to whoever waits: the
outputs that left it, by the charges that they rest on.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np

import labeldp as ldp
from labeldp.bags import release_bags
from labeldp.cli import main
from labeldp.curator import Curator, LedgerFile
from labeldp.fit import verify
from labeldp.online import run_online
from labeldp.privacy import Certificate
from labeldp.releases import release_file
from labeldp.tables import column_digest, has_folder_certificate, open_table, read_certificate, read_folder_certificate

PEOPLE, LATER = 60, 20
"""Records of the first table, and of those that come later."""

CLASSES = ldp.Classes(("n", "y"))
BUDGET = ldp.Budget(epsilon=1000)
LEDGER = "people.ledger"

Told = dict[str, str]
"""The digest of an output by the id of the charge that it rests on."""


@dataclass(frozen=True)
class Act:
    """Something that is done to a folder.

    Args:
        name: in words.
        do: does it; called with the folder and a number. Returns what left it.
        outputs: the files or folders that it writes.
        sidecars: what stands beside them.
        share: how many of a hundred kills it gets among acts of its kind.
    """

    name: str
    do: Callable[[Path, int], Told]
    outputs: Callable[[int], list[str]] = lambda number: []
    share: int = 10


def prepare(folder: Path) -> None:
    """Fill a folder with tables and a ledger of one dataset with a domain."""
    rows = [f"{n},{n * 7 % 53},{'ab'[n % 2]},{'ny'[n * n % 3 % 2]}" for n in range(PEOPLE + LATER)]
    for name, chosen in (("people.csv", rows[:PEOPLE]), ("all.csv", rows), ("later.csv", rows[PEOPLE:])):
        (folder / name).write_text("\n".join(["id,age,region,bought", *chosen]) + "\n")
    (folder / "parts").mkdir()
    for part in range(2):
        half = rows[part * PEOPLE // 2 : (part + 1) * PEOPLE // 2]
        (folder / "parts" / f"{part}.csv").write_text("\n".join(["id,age,region,bought", *half]) + "\n")
    losses = [f"{n % 2},{n * 3 % 5 / 4},0.5" for n in range(40)]
    (folder / "losses.csv").write_text("\n".join(["a,b,c", *losses]) + "\n")
    ledger = LedgerFile(folder / LEDGER)
    for name in ("bought", "grown", "arrays"):
        ledger.add(name, BUDGET)
    ledger.add("clicks", ldp.Budget(epsilon=1000, delta=1e-3))


def epsilon(number: int) -> str:
    """Another one for each number, so that each is a release of its own."""
    return f"{1 + number / 1000:g}"


def bits(array: object) -> str:
    """Tell outputs apart."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def told_of(certificate: Certificate, digest: str) -> Told:
    """The same output for each charge of a certificate that costs something."""
    return {charge.id: digest for charge in certificate.entries}


def output_of(path: Path) -> Told:
    """What a released file or folder, or a model, shows to a reader, who first checks that it is as certified."""
    verdict = verify(str(path))
    if not verdict.holds:
        raise AssertionError(f"{path.name} is not what was certified")
    if path.is_dir() and not has_folder_certificate(path):
        return told_of(verdict.certificate, "a model")  # its values are in the ledger, where they are compared
    content = read_folder_certificate(path) if path.is_dir() else read_certificate(path)
    tables = open_table(str(path)).parts
    return told_of(
        verdict.certificate,
        column_digest(block.column(0) for table in tables for block in table.blocks([content["column"]])),
    )


def held(folder: Path, number: int) -> Told:
    """A curator releases labels, which the ledger keeps."""
    account = LedgerFile(folder / LEDGER).dataset("arrays")
    curator = Curator(np.arange(50) % 3, domain=ldp.Classes(3), ledger=account, run="faults")
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon(number))
    release = curator.release(mechanism, rng=ldp.SystemRandomness(), step=str(number))
    return told_of(release.certificate, bits(release.value))


def stages(folder: Path, number: int) -> Told:
    """A curator releases disjoint parts one after the other."""
    account = LedgerFile(folder / LEDGER).dataset("arrays")
    curator = Curator(np.arange(50) % 3, domain=ldp.Classes(3), ledger=account, run=f"stages {number}")
    parts = curator.split(ldp.Public(np.arange(50) % 2, why="by row number"))
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon(number))
    told: Told = {}
    for part in parts:
        release = part.release(mechanism, rng=ldp.SystemRandomness(), step=str(number))
        told |= told_of(release.certificate, bits(release.value))
    return told


def file(folder: Path, number: int) -> Told:
    """`release_file` of a file."""
    out = folder / f"file{number}.csv"
    release_file(
        folder / "people.csv", label="bought", domain=CLASSES, epsilon=epsilon(number), ledger=folder / LEDGER,
        dataset="bought", out=out, id_column="id", block_rows=16,
    )  # fmt: skip
    return output_of(out)


def parts(folder: Path, number: int) -> Told:
    """`release_file` of a folder."""
    out = folder / f"parts{number}"
    release_file(
        folder / "parts", label="bought", domain=CLASSES, epsilon=epsilon(number), ledger=folder / LEDGER,
        dataset="bought", out=out, id_column="id",
    )  # fmt: skip
    return output_of(out)


def bags(folder: Path, number: int) -> Told:
    """`release_bags`."""
    out = folder / f"bags{number}.parquet"
    release_bags(
        str(folder / "people.csv"), label="bought", domain=CLASSES, mechanism="bag-sum", size=10, delta=0,
        epsilon=epsilon(number), ledger=folder / LEDGER, dataset="bought", out=out, id_column="id",
    )  # fmt: skip
    return output_of(out)


def online(folder: Path, number: int) -> Told:
    """`run_online`."""
    out = folder / f"online{number}.csv"
    run_online(
        folder / "losses.csv", epsilon=epsilon(number), delta="1e-9", method="dartboard", out=out,
        ledger=folder / LEDGER, dataset="clicks",
    )  # fmt: skip
    return output_of(out)


def add(folder: Path, number: int) -> Told:
    """A dataset is added with a domain, its budget is changed, and another domain is declared."""
    ledger, name = LedgerFile(folder / LEDGER), f"new {number}"
    if name not in ledger.datasets():
        ledger.add(name, ldp.Budget(epsilon=2), CLASSES)
    ledger.change(
        name, budget=ldp.Budget(epsilon=3), domain=ldp.Classes(("n", "y", "?")), why="there are three answers"
    )
    return {}


def first_ledger(folder: Path, number: int) -> Told:
    """A ledger file of its own is made by its first release."""
    account = LedgerFile(folder / f"own{number}.ledger").dataset("own", budget=ldp.Budget(epsilon=5))
    curator = Curator(np.arange(50) % 3, domain=ldp.Classes(3), ledger=account, run="faults")
    release = curator.release(ldp.RandomizedResponse(domain=curator.domain, epsilon=1), rng=ldp.SystemRandomness())
    return told_of(release.certificate, bits(release.value))


def cohort(folder: Path, number: int) -> Told:
    """Records are added as a cohort, and released."""
    ledger, count = LedgerFile(folder / LEDGER), 20
    ids = np.arange(count) + count * number
    ledger.add_cohort("grown", f"cohort {number}", ids)
    account = ledger.dataset("grown", cohort=f"cohort {number}")
    curator = Curator(ids % 2, domain=ldp.Classes(2), ledger=account, ids=ids, run="faults")
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon(number))
    release = curator.release(mechanism, rng=ldp.SystemRandomness(), step=str(number))
    return told_of(release.certificate, bits(release.value))


LIBRARY = (
    Act("a release that the ledger keeps", held, share=30),
    Act("releases of disjoint parts", stages, share=10),
    Act("a release of a file", file, lambda number: [f"file{number}.csv"], share=15),
    Act("a release of a folder", parts, lambda number: [f"parts{number}"], share=6),
    Act("sums over bags", bags, lambda number: [f"bags{number}.parquet"], share=5),
    Act("an online run", online, lambda number: [f"online{number}.csv"], share=4),
    Act("a dataset added and changed", add, share=10),
    Act("a first release, which makes the ledger", first_ledger, share=10),
    Act("a cohort added and released", cohort, share=10),
)
"""Library calls."""


class Refused(ldp.LabelDPError):
    """A command ended with status 1 and a sentence."""


def command(words: list[str], folder: Path) -> None:
    """Run a command in this process as the shell would; raise Refused if it says that it did not work.

    Raises:
        AssertionError: it ended with a traceback, or otherwise than commands do.
    """
    sys.argv, said = ["labeldp", *words], StringIO()
    os.chdir(folder)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(said):
            main()
    except SystemExit as done:
        lines = said.getvalue().strip().splitlines()
        if done.code not in (1, 2) or not lines or "Traceback" in said.getvalue():
            raise AssertionError(f"status {done.code}: {said.getvalue()}") from None
        raise Refused(lines[-1]) from None


def fit(folder: Path, number: int) -> Told:
    """`labeldp fit`."""
    out = f"model{number}"
    words = f"fit people.csv --label bought --classes n,y --epsilon {epsilon(number)} --model linear --id id"
    command([*words.split(), "--ledger", LEDGER, "--dataset", "bought", "--out", out], folder)
    return output_of(folder / out)


def release(folder: Path, number: int) -> Told:
    """`labeldp release`."""
    out = f"released{number}.csv"
    words = f"release people.csv --label bought --classes n,y --epsilon {epsilon(number)} --id id"
    command([*words.split(), "--ledger", LEDGER, "--dataset", "bought", "--out", out], folder)
    return output_of(folder / out)


def online_run(folder: Path, number: int) -> Told:
    """`labeldp online run`."""
    out = f"decisions{number}.csv"
    words = f"online run losses.csv --epsilon {epsilon(number)} --delta 1e-9 --method dartboard"
    command([*words.split(), "--ledger", LEDGER, "--dataset", "clicks", "--out", out], folder)
    return output_of(folder / out)


def ledger_add(folder: Path, number: int) -> Told:
    """`labeldp ledger add`, which may be run again."""
    words = f"ledger add {LEDGER} --epsilon 4 --classes n,y --dataset"
    command([*words.split(), f"command {number}"], folder)
    return {}


def extension(folder: Path, number: int) -> Told:
    """`labeldp ledger add --cohort` twice and `labeldp release --cohort`: a dataset grows."""
    name, out = f"growing {number}", f"cohort{number}.csv"
    command(["ledger", "add", LEDGER, "--epsilon", "4", "--dataset", name], folder)
    for each, ids in (("first", "people.csv"), ("later", "later.csv")):
        words = f"ledger add {LEDGER} --cohort {each} --ids {ids} --id id --dataset"
        command([*words.split(), name], folder)
    words = f"release later.csv --label bought --classes n,y --epsilon 1 --id id --cohort later --out {out}"
    command([*words.split(), "--ledger", LEDGER, "--dataset", name], folder)
    return output_of(folder / out)


COMMANDS = (
    Act("labeldp fit", fit, lambda number: [f"model{number}"]),
    Act("labeldp release", release, lambda number: [f"released{number}.csv"]),
    Act("labeldp online run", online_run, lambda number: [f"decisions{number}.csv"]),
    Act("labeldp ledger add", ledger_add),
    Act("labeldp ledger add --cohort, and a release", extension, lambda number: [f"cohort{number}.csv"]),
)
"""Commands, run as the shell runs them but for the start of the interpreter."""


def as_json(told: Told) -> bytes:
    """For a pipe."""
    return json.dumps(told).encode() + b"\n"
