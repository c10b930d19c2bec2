"""Make the files of one version, and write down what they must still say: run by hand, once for each version.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=OLD/src:tests python tests/versions/make.py v0_1_0

where OLD is a checkout of that version. Writes `FOLDER/files.tar.xz`, all that the commands and requests below left
(tables, ledgers, released files, models, what waits of runs that were killed), and `FOLDER/expected.json`: for each of
them what was asked, what was charged, and what came out. An archive keeps modes and hidden names, which git does not.
Where a later version does not know a module that `KILLED` patches, name its new place there.
"""

import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

import labeldp as ldp
from labeldp import mechanisms
from labeldp.online import CONVEX_METHODS, METHODS, dump_state
from labeldp.privacy import Certificate, Neighbors, RandomnessKind, Trust
from labeldp.tables import open_table, read_certificate
from versions.asked import (
    ASKED,
    BUDGET,
    FEATURES,
    LEARNED,
    LEDGER,
    ask,
    ask_stage_again,
    bits,
    charges,
    dataset_of,
    digest,
    go_on,
    losses,
    plain,
)

DELTAS = (0, 1e-6, 0.01)
PEOPLE = 90


@dataclass(frozen=True)
class Command:
    """One command line.

    Args:
        words: its arguments.
        sums: whether its released sums are found again by bits that other machines may compute otherwise.
        killed: where it was killed, a key of `KILLED`; its output was never made.
    """

    words: str
    sums: bool = False
    killed: str = ""

    @property
    def arguments(self) -> list[str]:
        """As the shell hands them over."""
        return self.words.split()

    @property
    def out(self) -> str:
        """What it writes."""
        return self.arguments[self.arguments.index("--out") + 1]


KILLED = {
    "between stages": "kill_after(watched.WatchedCurator, 'release')",
    "before the output": "report.render_report = killed",
    "in the middle of a release": "kill_in_writing()",
    "in the middle of the rounds": "online_run.BLOCK_CELLS = 30; kill_at_second(online_run.Unfinished, 'keep')",
    "after the rounds": "kill_after(online_run.Unfinished, 'keep')",
    "before the rounds": "online_run.LossFile.play = killed",
}
"""Where a process kills itself."""

PRELUDE = """
import os, signal
from labeldp import cli, report
from labeldp.tables import ReleaseWriter
from labeldp.workflows import online_run, watched

def killed(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def kill_after(kind, name, calls=1):
    whole, left = getattr(kind, name), [calls]
    def run(*arguments, **options):
        done = whole(*arguments, **options)
        left[0] -= 1
        return done if left[0] else killed()
    setattr(kind, name, run)

def kill_at_second(kind, name):
    kill_after(kind, name, 2)

def kill_in_writing():
    kill_after(ReleaseWriter, "write")

"""

BOUGHT = "--label bought --classes no,yes --epsilon 1 --ledger people.ledger --dataset bought"
KIND = "--label kind --classes 3 --epsilon 1 --ledger people.ledger --dataset kind"
HOURS = "--label hours --range 0,80 --epsilon 1 --ledger people.ledger --dataset hours"
SHOWN = "--features age,children,region --id id"
BAGS = "--label hours --range 0,80 --id id --ledger people.ledger --epsilon 1"
DIGITS = "--label labels --classes 2 --ledger people.ledger --trust central --model linear"
ONLINE = "--ledger rounds.ledger --dataset"

COMMANDS: dict[str, Command] = {
    "release of classes": Command(f"release people.csv {BOUGHT} --id id --out classes.csv"),
    "release by row numbers": Command(f"release people.csv {BOUGHT} --out rows.parquet"),
    "release in place": Command(f"release people.parquet {KIND} --id id --in-place --out in_place.parquet"),
    "release of bits": Command(f"release people.csv {KIND} --mechanism unary-encoding --id id --out bits.csv"),
    "release of bits in place": Command(
        f"release people.parquet {BOUGHT} --mechanism unary-encoding --in-place --out bits.parquet"
    ),
    "release of numbers": Command(
        f"release people.csv {HOURS} --grid 81 --mechanism discrete-laplace --id id --out numbers.csv.gz"
    ),
    "release of clipped numbers": Command(
        "release people.csv --label hours --range 10,60 --clip --epsilon 1 --mechanism discrete-laplace "
        "--ledger people.ledger --dataset clipped --out clipped.parquet"
    ),
    "release of a revision": Command(
        f"release corrected.csv {BOUGHT} --id id --revision corrected --out corrected_classes.csv"
    ),
    "bag-sum": Command(f"release sums.csv {BAGS} --dataset sums1 --mechanism bag-sum --size 8 --out sums1.csv"),
    "bag-sum with a delta": Command(
        f"release sums.csv {BAGS} --dataset sums2 --mechanism bag-sum --size 8 --delta 1e-6 --bags random "
        "--out sums2.parquet"
    ),
    "bag-sum of a column": Command(
        f"release sums.csv {BAGS} --dataset sums3 --mechanism bag-sum --size 8 --bags household --out sums3.csv"
    ),
    "noisy-weighted-llp": Command(
        f"release sums.csv {BAGS} --dataset sums4 --mechanism noisy-weighted-llp --size 8 --delta 1e-6 --out sums4.csv"
    ),
    "noisy-weighted-llp of normal weights": Command(
        f"release sums.csv {BAGS} --dataset sums5 --mechanism noisy-weighted-llp --size 8 --delta 1e-6 --noisy 6 "
        "--weights gaussian --out sums5.parquet"
    ),
    "weighted-lba": Command(
        f"release sums.csv {BAGS} --dataset sums6 --mechanism weighted-lba --size 30 --delta 1e-6 --out sums6.csv"
    ),
    "weighted-lba of several rows": Command(
        f"release sums.csv {BAGS} --dataset sums7 --mechanism weighted-lba --size 40 --rows 2 --delta 1e-6 "
        "--out sums7.parquet"
    ),
    "fit": Command(f"fit people.csv {BOUGHT} {SHOWN} --out auto"),
    "fit of stages": Command(f"fit people.csv {BOUGHT} {SHOWN} --model logistic --stages 2 --out stages"),
    "fit with a prior": Command(f"fit people.csv {BOUGHT} {SHOWN} --model logistic --prior clusters --out prior"),
    "fit with a test file": Command(f"fit people.csv {BOUGHT} {SHOWN} --model logistic --test public.csv --out tested"),
    "fit of a revision": Command(
        f"fit corrected.csv {BOUGHT} {SHOWN} --model logistic --revision corrected --out corrected"
    ),
    "fit by row numbers": Command(
        f"fit people.parquet {KIND} --features age,children,region --model logistic --out by_rows"
    ),
    "fit of a kernel": Command(f"fit people.csv {BOUGHT} {SHOWN} --model kernel --out kernel"),
    "fit of a forest": Command(f"fit people.csv {KIND} {SHOWN} --model forest --out forest"),
    "fit of cells": Command(f"fit people.csv {KIND} {SHOWN} --model cells --out cells"),
    "fit of neighbors": Command(f"fit people.csv {BOUGHT} {SHOWN} --model neighbors --neighbors 9 --out neighbors"),
    "central fit": Command(f"fit people.csv {BOUGHT} {SHOWN} --trust central --out central"),
    "central fit of cells": Command(
        f"fit people.csv {KIND} {SHOWN} --trust central --model cells --cells 4 --out central_cells"
    ),
    "central fit of a linear model": Command(
        f"fit people.csv {BOUGHT} {SHOWN} --trust central --model linear --out linear".replace(
            "--dataset bought", "--dataset linear"
        ),
        sums=True,
    ),
    "central fit with a delta": Command(
        f"fit people.csv {KIND} {SHOWN} --trust central --delta 1e-6 --out linear_delta".replace(
            "--dataset kind", "--dataset linear_delta"
        ),
        sums=True,
    ),
    "fit of numbers": Command(f"fit people.csv {HOURS} {SHOWN} --out hours"),
    "fit of numbers by neighbors": Command(f"fit people.csv {HOURS} {SHOWN} --model neighbors --out hours_neighbors"),
    "fit of numbers by cells": Command(f"fit people.csv {HOURS} {SHOWN} --model cells --cells 3 --out hours_cells"),
    "central fit of numbers": Command(f"fit people.csv {HOURS} {SHOWN} --trust central --out hours_central"),
    "central fit of numbers by a line": Command(
        f"fit people.csv {HOURS} {SHOWN} --trust central --model linear --delta 1e-6 --out hours_linear".replace(
            "--dataset hours", "--dataset hours_linear"
        ),
        sums=True,
    ),
    "fit of images": Command(f"fit images.npz {DIGITS} --epsilon 1 --dataset images --out images", sums=True),
    "fit of images with a delta": Command(
        f"fit images.npz {DIGITS} --epsilon 2 --delta 1e-6 --dataset images_delta --out images_delta", sums=True
    ),
    "killed fit": Command(
        f"fit people.csv {BOUGHT} {SHOWN} --epsilon 2 --model logistic --out killed_fit".replace("--epsilon 1 ", ""),
        killed="before the output",
    ),
    "killed fit of stages": Command(
        f"fit people.csv {BOUGHT} {SHOWN} --epsilon 2 --model logistic --stages 2 --out killed_stages".replace(
            "--epsilon 1 ", ""
        ),
        killed="between stages",
    ),
    "killed fit of sums": Command(
        f"fit people.csv {HOURS} {SHOWN} --trust central --epsilon 2 --model cells --out killed_cells".replace(
            "--epsilon 1 ", ""
        ),
        killed="before the output",
    ),
    "killed release": Command(
        f"release people.csv {KIND} --epsilon 2 --id id --out killed_release.csv".replace("--epsilon 1 ", ""),
        killed="in the middle of a release",
    ),
    **{
        f"rounds of {method}": Command(
            f"online run losses.csv --method {method} --epsilon 5 --delta 0.01 {ONLINE} {method} --out {method}.csv"
        )
        for method in METHODS
    },
    "rounds, zero-out": Command(
        f"online run losses.parquet --epsilon 5 --neighbors zero-out {ONLINE} zero_out --out zero_out.parquet"
    ),
    "rounds of levels": Command(
        f"online run levels.csv --epsilon 5 --levels --loss-bits 16 --horizon 64 {ONLINE} levels --out levels.parquet"
    ),
    "rounds of some experts": Command(
        f"online run losses.csv --epsilon 5 --experts a,c --revision second {ONLINE} some --out some.csv"
    ),
    "killed rounds": Command(
        f"online run losses.csv --method dartboard --epsilon 20 --delta 0.01 {ONLINE} killed --out killed.csv",
        killed="in the middle of the rounds",
    ),
    "killed rounds of a tree": Command(
        f"online run losses.csv --method tree --epsilon 20 --delta 0.01 {ONLINE} killed_tree --out killed_tree.csv",
        killed="in the middle of the rounds",
    ),
    "killed rounds without a ledger": Command(
        "online run losses.csv --method dartboard --epsilon 20 --delta 0.01 --out alone.parquet",
        killed="in the middle of the rounds",
    ),
    "killed before the rounds": Command(
        f"online run losses.csv --epsilon 20 {ONLINE} killed_before --out before.csv", killed="before the rounds"
    ),
    "killed after the rounds": Command(
        f"online run losses.csv --epsilon 20 {ONLINE} killed_after --out after.parquet", killed="after the rounds"
    ),
}
"""Every command that releases something, in this order."""


class Center:
    """A sampler that says that it is nearly exact; nobody checks."""

    distance = 1e-12

    def draw(self, losses: Any, beta: float, strength: float, body: Any, *, rng: Any) -> Any:
        """The center."""
        return body.center


def write_tables(folder: Path) -> None:
    """The inputs: whole numbers and texts without any randomness."""
    n = np.arange(PEOPLE)
    people = {
        "id": 1000 + n * 13 % 97,
        "age": 20 + n * 29 % 53,
        "children": n * 7 % 5,
        "region": np.array(["north", "south", "east", "west"])[n * 3 % 4],
        "bought": np.where(20 + n * 29 % 53 + n % 9 > 48, "yes", "no"),
        "kind": (n * 7 % 5 + n % 4) % 3,
        "hours": np.minimum(n * 29 % 53 + n % 27, 80),
    }
    table = pa.table(people)
    csv.write_csv(table, folder / "people.csv")
    parquet.write_table(table, folder / "people.parquet")
    swapped = people | {"bought": people["bought"][[1, 0, *range(2, PEOPLE)]]}
    assert (swapped["bought"] != people["bought"]).any()
    csv.write_csv(pa.table(swapped), folder / "corrected.csv")
    numbers = {name: people[name] for name in ("id", "age", "children", "hours")}
    csv.write_csv(pa.table(numbers | {"household": n // 10}), folder / "sums.csv")
    other = {name: values[:40] for name, values in people.items()} | {"age": 30 + n[:40], "id": 5000 + n[:40]}
    csv.write_csv(pa.table(other), folder / "public.csv")
    new = {name: other[name][:12] for name in ("id", "age", "children", "region")}
    csv.write_csv(pa.table(new), folder / "new_people.csv")
    kinds = np.arange(80) * 5 % 7 % 2
    images = (np.arange(80 * 64).reshape(80, 8, 8) * 31 % 67).astype(np.uint8)
    images[kinds == 1, 2:4, :] += 120
    images[kinds == 0, :, 5:7] += 120
    np.savez_compressed(folder / "images.npz", images=images, labels=kinds)
    np.savez_compressed(folder / "new_images.npz", images=images[:10, ::-1])
    rounds = pa.table(dict(zip("abc", losses(40).T, strict=True)))
    csv.write_csv(rounds, folder / "losses.csv")
    parquet.write_table(rounds, folder / "losses.parquet")
    csv.write_csv(pa.table(dict(zip("abc", (losses(40) * 65535).astype(int).T, strict=True))), folder / "levels.csv")


def run(folder: Path, command: Command) -> None:
    """Run a command in a folder, or run into where it is killed."""
    if command.killed:
        script = f"{PRELUDE}\n{KILLED[command.killed]}\ncli.main()"
        words = [sys.executable, "-c", script, *command.arguments]
        expected = -signal.SIGKILL
    else:
        words, expected = [sys.executable, "-m", "labeldp", *command.arguments], 0
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != expected:
        raise SystemExit(f"{command.words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}")


def table_of(path: Path) -> dict[str, Any]:
    """The columns of a released file or of predictions."""
    return dict(open_table(path).read().to_pydict().items())


def rounded(values: list[Any]) -> list[Any]:
    """Numbers to nine digits: more may depend on the machine."""
    return [round(float(each), 9) if isinstance(each, float) else each for each in values]


def spent(folder: Path) -> dict[str, Any]:
    """The charges of every ledger in a folder."""
    return {path.name: charges(path) for path in sorted(folder.glob("*.ledger"))}


def said(certificate: Certificate) -> dict[str, Any]:
    """A certificate as JSON, and what it says."""
    return {"certificate": certificate.to_json(), "says": {str(delta): certificate.at(delta) for delta in DELTAS}}


def certificate_at(place: Path) -> Certificate:
    """The certificate of a model or of a released file."""
    if place.is_dir():
        return Certificate.from_json(json.loads((place / "certificate.json").read_text())["certificate"])
    return Certificate.from_json(read_certificate(place)["certificate"])


def outcome(folder: Path, command: Command) -> dict[str, Any]:
    """What a command left: a certificate, and released values or what a model predicts."""
    place = folder / command.out
    found: dict[str, Any] = said(certificate_at(place))
    if not place.is_dir():
        return found | {"values": digest(sorted(table_of(place).items()))}
    data = "new_images.npz" if command.arguments[1].endswith(".npz") else "new_people.csv"
    run(folder, Command(f"predict {command.out} {data} --out predicted.csv"))
    predicted = {name: rounded(values) for name, values in table_of(folder / "predicted.csv").items()}
    (folder / "predicted.csv").unlink()
    return found | {"data": data, "predicted": predicted}


def run_all(folder: Path) -> dict[str, Any]:
    """Every command with what it was charged and what it left; of one that was killed, what finishing it leaves."""
    told = {}
    for name, command in COMMANDS.items():
        print(name, flush=True)
        before = spent(folder)
        run(folder, command)
        charged = spent(folder)
        entry: dict[str, Any] = {"arguments": command.arguments, "out": command.out, "sums": command.sums}
        entry["charged"] = news(before, charged)
        if command.killed:
            assert not (folder / command.out).exists()
            with tempfile.TemporaryDirectory() as place:
                copy = shutil.copytree(folder, Path(place) / "copy")
                finish = (
                    f"{PRELUDE}\nonline_run.BLOCK_CELLS = {blocks(command) or 'online_run.BLOCK_CELLS'}\ncli.main()"
                )
                subprocess.run([sys.executable, "-c", finish, *command.arguments], cwd=copy, check=True)
                entry |= {"killed": command.killed, "block_cells": blocks(command)}
                entry |= outcome(copy, command) | {"charged by the rest": news(charged, spent(copy))}
        else:
            entry |= outcome(folder, command)
        told[name] = entry
    return told


def blocks(command: Command) -> int | None:
    """How many losses are played at a time where it is not the usual number."""
    return 30 if command.killed == "in the middle of the rounds" else None


def news(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The charges that were added, by ledger and dataset."""
    found = {
        ledger: {name: rows[len(before.get(ledger, {}).get(name, [])) :] for name, rows in datasets.items()}
        for ledger, datasets in after.items()
    }
    found = {ledger: {name: rows for name, rows in datasets.items() if rows} for ledger, datasets in found.items()}
    return {ledger: datasets for ledger, datasets in found.items() if datasets}


def ask_all(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every request in Python: digests of what was released and certificates."""
    for dataset in sorted({dataset_of(each) for each in ASKED.values()} | set(LEARNED)):
        ldp.LedgerFile(folder / LEDGER).add(dataset, BUDGET)
    answers, certificates = {}, {}
    for name, asked in ASKED.items():
        release = ask(folder, asked)
        answers[name], certificates[name] = digest(release.value), said(release.certificate)
    answers["a stage again"] = digest(ask_stage_again(folder).value)
    for name, learn in LEARNED.items():
        model = learn(folder)
        answers[name] = plain(model.value.predict(FEATURES[:, : 2 if name == "full cells" else None]))
        certificates[name] = said(model.certificate)
    kinds = {getattr(mechanisms, name) for name in mechanisms.__all__}
    kinds = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, mechanisms.Mechanism)}
    final = {kind.__name__ for kind in kinds if not kind.__abstractmethods__}
    asked_for = {row[2] for rows in charges(folder / LEDGER).values() for row in rows}
    print("mechanisms", sorted(asked_for), "of", sorted(final))
    return answers, certificates


def learn_online(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Learners of rounds on the ledger: snapshots with what follows from them, and certificates."""
    snapshots, certificates = {}, {}
    file = ldp.LedgerFile(folder / LEDGER)
    kinds = {method: {"horizon": 50, "method": method} for method in METHODS}
    kinds["zero-out"] = {"horizon": 50, "method": "dartboard", "neighbors": "zero-out"}
    kinds["without a horizon"] = {"horizon": None, "method": "redraw", "loss_bits": 16}
    for name, options in kinds.items():
        dataset = f"rounds, {name}"
        file.add(dataset, BUDGET)
        learner = ldp.PrivateExperts(3, epsilon=5, delta=0.01, ledger=file.dataset(dataset), **options)
        learner.update(losses(1040 if options["horizon"] is None else 20))
        place = f"{name.replace(' ', '_')}.snapshot"
        (folder / place).write_bytes(dump_state(learner.state_dict()))
        (folder / place).chmod(0o600)
        snapshots[name] = {"file": place, "dataset": dataset, "rounds": learner.rounds}
        certificates[f"learner, {name}"] = said(learner.certificate)
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(folder, Path(scratch) / "copy")
        for found in snapshots.values():
            found["actions"] = go_on(copy, (folder / found["file"]).read_bytes(), found["dataset"])
    file.add("points", BUDGET)
    for method in CONVEX_METHODS:
        sampler = {"sampler": Center()} if method == "sampler" else {}
        ball = ldp.online.Ball(3, 0.5)
        points = file.dataset("points")
        one = ldp.PrivateOnlineConvex(ball, horizon=30, method=method, ledger=points, epsilon=1, delta=1e-6, **sampler)
        certificates[f"points, {method}"] = said(one.certificate)
    return snapshots, certificates


def others() -> dict[str, Any]:
    """Certificates of what is in no ledger file: simulations and joined releases."""
    curator = ldp.Curator(["no", "yes"] * 10, domain=ldp.Classes(("no", "yes")), budget=ldp.Budget(5))
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=1)
    first = curator.release(mechanism, rng=ldp.SystemRandomness())
    simulated = curator.release(mechanism, rng=np.random.default_rng(0))
    both = ldp.gather([first, simulated], lambda one, two: None)
    return {name: said(each.certificate) for name, each in (("simulation", simulated), ("both", both))}


def archive(folder: Path, target: Path) -> None:
    """Everything in a folder, the same bytes for the same files."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            info = tar.gettarinfo(path, str(path.relative_to(folder)))
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            with path.open("rb") if path.is_file() else BytesIO() as content:
                tar.addfile(info, content)
    target.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def check_complete(certificates: dict[str, Any]) -> None:
    """Every word that a certificate can have for neighbors, trust and randomness stands in one."""
    for field, kind in (("neighbors", Neighbors), ("trust", Trust), ("randomness", RandomnessKind)):
        missing = {each.name for each in kind} - {each["certificate"][field] for each in certificates.values()}
        print("no certificate with", field, missing or "missing")


def main(folder: Path) -> None:
    """Make `files.tar.xz` and `expected.json` in a folder that does not exist."""
    if {os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")} != {"1"}:
        raise SystemExit("set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS to 1: the tests read the files on one thread")
    folder.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        os.chdir(place)
        write_tables(place)
        for dataset in ("bought", "kind", "hours"):
            ldp.LedgerFile(place / "people.ledger").add(dataset, ldp.Budget(epsilon=1000, delta=0.001))
        commands = run_all(place)
        answers, certificates = ask_all(place)
        snapshots, learners = learn_online(place)
        certificates |= learners | others()
        for name, entry in commands.items():
            certificates[name] = {key: entry.pop(key) for key in ("certificate", "says")}
        check_complete(certificates)
        packages = {name: version(name) for name in ("numpy", "scikit-learn", "scipy", "skops")}
        expected = {
            "labeldp": ldp.__version__,
            "packages": packages,
            "bits": bits(),
            "charges": spent(place),
            "commands": commands,
            "answers": answers,
            "snapshots": snapshots,
            "certificates": certificates,
        }
        archive(place, folder / "files.tar.xz")
    (folder / "expected.json").write_text(document(expected), encoding="utf-8")


def document(expected: dict[str, Any]) -> str:
    """JSON with a line for each command, request and certificate."""

    def inner(value: Any) -> str:
        if not isinstance(value, dict):
            return json.dumps(value)
        rows = [f"  {json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in value.items()]
        return "{\n" + ",\n".join(rows) + "\n }"

    return "{\n" + ",\n".join(f" {json.dumps(name)}: {inner(value)}" for name, value in expected.items()) + "\n}\n"


if __name__ == "__main__":
    main(Path(__file__).parent.resolve() / sys.argv[1])
