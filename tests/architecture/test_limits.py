"""Statements of docs/explanation/limits.md that no other test covers."""

import inspect
import logging
import math
import re
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp import mechanisms
from labeldp.cli import main
from labeldp.cli.ledger import describe_ledger
from labeldp.mechanisms.randomized_response import ResponseLaw
from labeldp.online import Ball, run_online
from labeldp.privacy import RecordIds, SystemRandomness, record_words

ROOT = Path(__file__).parents[2]
DOMAIN = ldp.Classes(("no", "yes"))
WORD = 1 << 64


def test_the_index_of_proofs_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "proofs" / "index.md").read_text())
    assert named
    for file, test in named:
        assert (ROOT / file).is_file(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(), test


def curator(path: Path, epsilon: float = 1) -> ldp.Curator:
    """Of twenty labels, as a new process would make it."""
    ledger = ldp.LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon))
    return ldp.Curator(["no", "yes"] * 10, domain=DOMAIN, ledger=ledger)


def keyed(one: ldp.Curator, epsilon: Any = 1) -> np.ndarray:
    """Its labels with the ledger's own noise."""
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon)
    return np.asarray(one.release(mechanism, rng=one.ledger.randomness).value)


def test_two_copies_of_a_ledger_each_spend_the_whole_budget(tmp_path: Path) -> None:
    """What the two release adds up unnoticed; only keyed noise gives the same bits for the same request in both."""
    first, copy = tmp_path / "first.ledger", tmp_path / "copy.ledger"
    ldp.LedgerFile(first).add("people", ldp.Budget(1))
    shutil.copy(first, copy)
    one, other = curator(first), curator(copy)
    assert np.array_equal(keyed(one), keyed(other))
    assert one.ledger.spent.epsilon() == other.ledger.spent.epsilon() == 1
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=0.5)
    for each in (one, other):
        with pytest.raises(ldp.BudgetExceeded):
            each.release(mechanism, rng=SystemRandomness())


def test_looking_at_a_ledger_undoes_what_was_cut_off(tmp_path: Path) -> None:
    """A `FILE-journal` stands beside it after a machine died while a release was being committed."""
    path, crashed = tmp_path / "l.ledger", tmp_path / "crashed"
    released = keyed(curator(path))
    whole = path.read_bytes()
    crashed.mkdir()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE release SET charge = '{}', value = zeroblob(100000)")
    for name in ("l.ledger", "l.ledger-journal"):
        shutil.copy(tmp_path / name, crashed / name)
    connection.rollback()
    connection.close()
    left = crashed / "l.ledger"
    assert left.read_bytes() != whole, "the file alone is half-written"
    left.chmod(0o600)
    assert "randomized response  1  0" in describe_ledger(str(left))
    assert not (crashed / "l.ledger-journal").exists() and left.read_bytes() == whole
    assert np.array_equal(keyed(curator(left)), released)


def test_without_a_ledger_two_runs_of_rounds_are_two_releases(tmp_path: Path) -> None:
    """No certificate knows of the other."""
    pd.DataFrame(np.random.default_rng(0).random((200, 8)), columns=list("abcdefgh")).to_csv(tmp_path / "l.csv")
    run = {"epsilon": 5, "delta": 0.01, "method": "redraw", "experts": tuple("abcdefgh")}
    certificates = [run_online(tmp_path / "l.csv", **run, out=tmp_path / f"{name}.csv") for name in "xy"]
    assert len({entry.id for each in certificates for entry in each.entries}) == 2
    assert (tmp_path / "x.csv").read_text() != (tmp_path / "y.csv").read_text()


def test_a_new_learner_of_points_is_charged_for_a_whole_horizon_more(tmp_path: Path) -> None:
    file = ldp.LedgerFile(tmp_path / "l.ledger")
    file.add("losses", ldp.Budget(2, 1e-5))
    for number in (1, 2):
        ldp.online.PrivateOnlineConvex(Ball(3, 0.5), 100, epsilon=1, delta=1e-6, ledger=file.dataset("losses"))
        assert len(file.dataset("losses").charges) == number


def test_randomized_response_takes_one_word_for_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nearly the same time for all labels: the number of words does not depend on them."""
    fill, drawn = SystemRandomness.fill, []

    def counted(self: Any, words: Any, *arguments: Any, **options: Any) -> None:
        drawn.append(len(words))
        fill(self, words, *arguments, **options)

    monkeypatch.setattr(SystemRandomness, "fill", counted)
    for labels in (np.zeros(1000, int), np.arange(1000) % 3):
        ldp.RandomizedResponse(domain=ldp.Classes(3), epsilon=1).randomize(labels, rng=SystemRandomness())
        assert sum(drawn) == 1000
        drawn.clear()


@pytest.fixture
def labeldp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a command in a folder of its own; it must succeed."""
    monkeypatch.chdir(tmp_path)

    def run(words: str) -> None:
        monkeypatch.setattr("sys.argv", ["labeldp", *words.split()])
        main()

    return run


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that was written, what is compressed in it taken apart."""
    found = {}
    for path in filter(Path.is_file, folder.rglob("*")):
        found[str(path)] = path.read_bytes()
        if path.suffix == ".ledger":
            connection = sqlite3.connect(path)
            blobs = connection.execute("SELECT value FROM release WHERE value IS NOT NULL").fetchall()
            connection.close()
            found |= {f"{path}: {place}": zlib.decompress(value) for place, (value,) in enumerate(blobs)}
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                found |= {f"{path}: {name}": archive.read(name) for name in archive.namelist()}
    return found


def test_the_library_writes_no_raw_labels_to_disk_and_logs_none(
    tmp_path: Path, labeldp: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """Ninety numbers off the grid that stand nowhere else, in text or in binary, once commands ran over them."""
    caplog.set_level(logging.DEBUG, "labeldp")
    n = np.arange(90)
    raw = 1000.0 + n * 7.3e-1 + 1.2345e-3 * (n + 1)
    pd.DataFrame({"id": n, "age": n % 31, "pay": raw}).to_csv("people.csv", index=False)
    texts = [cell.encode() for cell in pd.read_csv("people.csv", dtype=str)["pay"]]
    options = "--label pay --range 1000,1100 --id id --ledger l.ledger --dataset pay"
    labeldp("ledger add l.ledger --dataset pay --epsilon 9")
    labeldp(f"release people.csv {options} --epsilon 1 --mechanism discrete-laplace --out noisy.csv")
    labeldp(f"release people.csv {options} --epsilon 1 --mechanism bag-sum --size 9 --out sums.parquet")
    labeldp(f"fit people.csv {options} --epsilon 1 --model cells --trust central --out model")
    Path("people.csv").unlink()
    for name, content in contents(tmp_path).items():
        assert not any(text in content for text in texts), name
        assert not any(value.tobytes() in content for value in raw), name
    assert not caplog.records


@pytest.mark.parametrize(("model", "keeps"), [("linear", False), ("neighbors", True)])
def test_a_linear_model_keeps_no_row_and_one_of_neighbors_all(
    model: str, keeps: bool, tmp_path: Path, labeldp: Callable[..., None]
) -> None:
    n = np.arange(83)  # a prime: an array of rows has a multiple of it
    pd.DataFrame({"age": n * 29 % 53, "pay": n * 7 % 31, "y": n % 2}).to_csv("people.csv", index=False)
    command = f"fit people.csv --label y --classes 2 --epsilon 1 --ledger l.ledger --model {model}"
    labeldp(f"{command} --dataset y --new-budget 1 --out model")
    sizes = set()
    with zipfile.ZipFile("model/model.skops") as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as stream:
                    sizes.add(np.load(stream, allow_pickle=False).size)
    assert any(size and size % len(n) == 0 for size in sizes) == keeps


def test_ids_beside_noisy_labels_are_not_covered(tmp_path: Path, labeldp: Callable[..., None]) -> None:
    """The certificate in a Parquet file covers the noisy column in its order, not the ids beside it."""
    pd.DataFrame({"id": np.arange(50), "y": np.arange(50) % 2}).to_csv("people.csv", index=False)
    command = (
        "release people.csv --label y --classes 2 --epsilon 1 --ledger l.ledger --dataset y --id id --new-budget 1"
    )
    labeldp(f"{command} --out noisy.parquet")
    noisy = parquet.read_table("noisy.parquet")
    noisy = noisy.replace_schema_metadata(parquet.read_metadata("noisy.parquet").metadata)
    parquet.write_table(noisy.set_column(0, "id", noisy["id"].take(list(range(50))[::-1])), "noisy.parquet")
    labeldp("certificate noisy.parquet")
    parquet.write_table(noisy.set_column(1, "y", noisy["y"].take(list(range(50))[::-1])), "noisy.parquet")
    with pytest.raises(SystemExit):
        labeldp("certificate noisy.parquet")
    labeldp(f"{command} --out noisy.csv")
    noisy = pd.read_csv("noisy.csv")
    noisy.assign(id=noisy["id"].to_numpy()[::-1]).to_csv("noisy.csv", index=False)
    with pytest.raises(SystemExit):
        labeldp("certificate noisy.csv")


@pytest.mark.parametrize("classes", [2, 10, 184, 1000, 100_000, 1 << 24])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "10", "30"])
def test_integers_keep_the_truth_less_often_by_less_than_a_word_for_each_class(classes: int, epsilon: str) -> None:
    """Below k · 2^-64: 10^-17 for up to 184 classes, 10^-12 for the most that there can be."""
    law = ResponseLaw.of(classes, Fraction(epsilon))
    with mpmath.workdps(60):
        power = mpmath.exp(mpmath.mpf(epsilon))
        lost = power / (power + classes - 1) - mpmath.mpf(law.keep) / WORD
        assert 0 <= lost < mpmath.mpf(classes) / WORD
    assert 184 / WORD < 1e-17 and (1 << 24) / WORD < 1e-12


@pytest.mark.parametrize("classes", [3, 10, 1000])
def test_an_epsilon_that_64_bits_cannot_express_is_refused(classes: int) -> None:
    """From about k² / 2^64 for k candidates: within a factor of eight."""
    about = Fraction(classes**2, WORD)
    ldp.RandomizedResponse(domain=ldp.Classes(classes), epsilon=8 * about)
    with pytest.raises(ldp.privacy.InputError, match="too small"):
        ldp.RandomizedResponse(domain=ldp.Classes(classes), epsilon=about / 8)


def test_an_epsilon_that_no_float_prints_is_rounded_down() -> None:
    third = Fraction(1, 3)
    loss = ldp.RandomizedResponse(domain=DOMAIN, epsilon=third).privacy_loss()
    told = Fraction(loss.epsilon(0))
    assert loss.within(third, 0)
    assert abs(told - third) < Fraction(1, 10**15)


def test_text_ids_are_told_apart_by_95_or_96_bits() -> None:
    """Two of n share a hash with probability at most n² / 2^96: 2^-56 for a million, 2^-36 for a billion."""
    blocks = RecordIds.of([f"user {n}" for n in range(1000)], b"k" * 32).blocks
    assert (blocks[:, 1] >> np.uint64(31) == 1).all() and len(np.unique(blocks, axis=0)) == 1000  # 64 and 31 bits
    words = np.asarray(record_words([f"user {n}" for n in range(1000)], 1000, b"k" * 32))
    assert 8 * words.dtype.itemsize * words[0].size == 96 and len(np.unique(words, axis=0)) == 1000
    assert math.log2(1e6**2 / 2**96) < -56 and math.log2(1e9**2 / 2**96) < -36


def test_sets_from_a_released_prior_are_charged_as_two_answers(tmp_path: Path) -> None:
    """Whatever their sizes."""
    domain = ldp.Classes(4)
    holder = ldp.Curator(np.arange(40) % 4, domain=domain, budget=ldp.Budget(9))
    groups = ldp.Public(np.arange(40) % 2, why="written by hand")
    counts = holder.release(ldp.LaplaceHistogram(domain=domain, epsilon=1, groups=groups), rng=SystemRandomness())
    for rows in (np.full((40, 4), 0.25), np.tile([0.97, 0.01, 0.01, 0.01], (40, 1))):
        prior = counts.map(lambda _, rows=rows: rows)
        mechanism = ldp.mechanisms.RandomizedResponseWithPrior(domain=domain, epsilon=1, prior=prior)
        assert mechanism.privacy_loss() == ldp.PrivacyLoss.pure(1)


def public_mechanism(found: Any) -> bool:
    """Whether it is a mechanism that can be made."""
    return isinstance(found, type) and issubclass(found, mechanisms.Mechanism) and not inspect.isabstract(found)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1, 10, 100])
def test_the_delta_of_a_gaussian_is_never_short(mu: float) -> None:
    """By at most 10^-100, and 10^-19 where epsilon is above 500."""
    loss = ldp.PrivacyLoss.gaussian(mu)
    with mpmath.workdps(250):
        for epsilon in (0, 0.001, 0.1, 1, 10, 100, 499, 501, 1000, 3000):
            middle, half = mpmath.mpf(epsilon) / mpmath.mpf(mu), mpmath.mpf(mu) / 2
            true = mpmath.ncdf(half - middle) - mpmath.exp(epsilon) * mpmath.ncdf(-half - middle)
            assert mpmath.mpf(loss.delta(epsilon)) >= true - (mpmath.mpf(10) ** (-100 if epsilon <= 500 else -19))
