"""Sums over bags from the command line: what is written, what it costs, what is refused."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli.conftest import Ran, account
from slow import mostly_slow

COMMON = ("release", "people.csv", "--label", "bought", "--classes", "no,yes", "--id", "id", *account("people", "2"))


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(path.read_text().splitlines()))


def test_sums_of_similar_records(labeldp: Callable[..., Ran], people: Path) -> None:
    order = (*COMMON, "--mechanism", "bag-sum", "--size", "20", "--epsilon", "1")
    done = labeldp(*order, "--out", "sums.csv")
    assert done.status == 0, done.err
    assert "ε = 1, δ = 0" in done.out and "Created l.ledger" in done.err
    rows, source = read(people / "sums.csv"), read(people / "people.csv")
    assert list(rows[0]) == ["id", "bag", "bought_sum"] and [r["id"] for r in rows] == [r["id"] for r in source]
    bags = np.array([int(row["bag"]) for row in rows])
    assert np.bincount(bags).min() >= 20 and len(set(bags)) == len(rows) // 20
    sums = {row["bag"]: float(row["bought_sum"]) for row in rows}
    assert len(sums) == len({(row["bag"], row["bought_sum"]) for row in rows})
    truth = sum(row["bought"] == "yes" for row in source)
    assert abs(sum(sums.values()) - truth) < 12 * np.sqrt(2 * len(sums))
    assert labeldp("certificate", "sums.csv").status == 0

    again = labeldp(*order, "--out", "again.csv")
    assert again.status == 0 and (people / "again.csv").read_text() == (people / "sums.csv").read_text()
    assert "ε 1 of" in labeldp("ledger", "show", "l.ledger").out
    (people / "sums.csv").write_text((people / "sums.csv").read_text().replace("1", "2"))
    assert labeldp("certificate", "sums.csv").status != 0


@pytest.mark.parametrize("mechanism", mostly_slow(["bag-sum", "noisy-weighted-llp", "weighted-lba"], ["bag-sum"]))
def test_rows_in_another_order_are_the_same_release(labeldp: Callable[..., Ran], people: Path, mechanism: str) -> None:
    rows = [f"p{i:03},{i * i % 17},{i % 7},{i % 5}" for i in range(300)]
    (people / "one.csv").write_text("\n".join(["id,x,z,y", *rows]) + "\n")
    (people / "other.csv").write_text("\n".join(["id,x,z,y", *rows[::-1]]) + "\n")
    for name in ("one", "other"):
        done = labeldp(
            "release", f"{name}.csv", "--label", "y", "--range", "0,4", *account("numbers"),
            "--mechanism", mechanism, "--size", "50", "--epsilon", "1", "--delta", "1e-5", "--id", "id",
            "--out", f"{name}-sums.csv",
        )  # fmt: skip
        assert done.status == 0, done.err
    one, other = read(people / "one-sums.csv"), read(people / "other-sums.csv")
    assert one == (other if mechanism == "weighted-lba" else other[::-1])
    assert labeldp("ledger", "show", "l.ledger").out.count(" 300\n") == 1  # one charge


@pytest.mark.parametrize("bad", ["p001", ""])
def test_ids_are_distinct_and_there(labeldp: Callable[..., Ran], people: Path, bad: str) -> None:
    rows = [f"p{i:03},{i * i % 17},{i % 5}" for i in range(300)]
    (people / "bad.csv").write_text("\n".join(["id,x,y", *rows, f"{bad},1,2"]) + "\n")
    done = labeldp(
        "release", "bad.csv", "--label", "y", "--range", "0,4", *account("numbers"),
        "--mechanism", "bag-sum", "--size", "50", "--epsilon", "1", "--id", "id", "--out", "sums.csv",
    )  # fmt: skip
    assert done.status == 1 and ("must not be repeated" if bad else "missing id") in done.err
    assert not (people / "l.ledger").exists() and not (people / "sums.csv").exists()


@pytest.mark.parametrize("delta", ["0", "1e-5"])
def test_delta_says_which_noise(labeldp: Callable[..., Ran], people: Path, delta: str) -> None:
    order = (*COMMON, "--mechanism", "bag-sum", "--size", "20", "--bags", "random")
    done = labeldp(*order, "--epsilon", "2", "--delta", delta, "--out", "sums.csv")
    assert done.status == 0, done.err
    assert ("discrete Laplace noise" if delta == "0" else "Gaussian noise") in done.out
    assert ("δ = 0." in done.out) == (delta == "0")


def test_a_narrow_range(labeldp: Callable[..., Ran], people: Path) -> None:
    people.joinpath("tiny.csv").write_text("x,y\n" + "\n".join(f"{i},{i % 5}e-7" for i in range(90)) + "\n")
    order = ("release", "tiny.csv", "--label", "y", "--range", "0,4e-7", *account("tiny"))
    done = labeldp(
        *order,
        "--mechanism",
        "noisy-weighted-llp",
        "--size",
        "9",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--out",
        "t.csv",
    )
    assert done.status == 0, done.err


@pytest.mark.parametrize("weights", ["rademacher", "gaussian"])
def test_published_weights(labeldp: Callable[..., Ran], people: Path, weights: str) -> None:
    order = (*COMMON, "--mechanism", "noisy-weighted-llp", "--size", "20", "--noisy", "5")
    done = labeldp(*order, "--weights", weights, "--epsilon", "1", "--delta", "1e-5", "--out", "llp.parquet")
    assert done.status == 0, done.err
    assert "δ = 1e-05" in done.out
    table = pq.read_table(people / "llp.parquet").to_pydict()
    assert list(table) == ["id", "bag", "weight", "noisy", "bought_sum"]
    noisy = np.bincount(table["bag"], weights=np.array(table["noisy"], dtype=float))
    assert set(noisy) == {5.0}
    assert (set(np.abs(table["weight"])) == {1.0}) == (weights == "rademacher")


def test_secret_weights_stay_secret(labeldp: Callable[..., Ran], people: Path) -> None:
    people.joinpath("numbers.csv").write_text(
        "x,y\n" + "\n".join(f"{i % 17},{i % 5}" for i in range(600)) + "\n", encoding="utf-8"
    )
    order = ("release", "numbers.csv", "--label", "y", "--range", "0,4", *account("numbers"))
    done = labeldp(
        *order, "--mechanism", "weighted-lba", "--size", "150", "--rows", "2", "--epsilon", "1", "--delta", "1e-5",
        "--out", "lba.csv",
    )  # fmt: skip
    assert done.status == 0, done.err
    rows = read(people / "lba.csv")
    assert list(rows[0]) == ["bag", "records", "constant", "x", "y_sum"] and [row["bag"] for row in rows] == list(
        "00112233"
    )
    assert "the weights stay secret and are deleted" in done.out and "4 public bags" in done.out
    assert {row["records"] for row in rows} == {"150"}


def test_bags_of_a_column(labeldp: Callable[..., Ran], people: Path) -> None:
    lines = [f"{i},town {i % 7},{i % 5}" for i in range(70)]
    people.joinpath("towns.csv").write_text("\n".join(["x,town,y", *lines]) + "\n")
    order = (
        "release", "towns.csv", "--label", "y", "--range", "0,4", *account("towns"),
        "--mechanism", "bag-sum", "--bags", "town", "--epsilon", "1", "--out", "sums.csv",
    )  # fmt: skip
    done = labeldp(*order, "--size", "11")
    assert done.status == 1 and "at least size = 11 records each" in done.err
    done = labeldp(*order, "--size", "10")
    assert done.status == 0 and "the column 'town' is public" in done.out, done.err
    assert [row["bag"] for row in read(people / "sums.csv")] == [str(i % 7) for i in range(70)]


def test_a_certificate_remembers_its_delta(labeldp: Callable[..., Ran], people: Path) -> None:
    order = (*COMMON, "--mechanism", "noisy-weighted-llp", "--size", "20")
    assert labeldp(*order, "--epsilon", "1", "--delta", "1e-5", "--out", "llp.csv").status == 0
    shown = labeldp("certificate", "llp.csv").out
    assert "ε = 1, δ = 1e-05" in shown or "ε = 1, δ = 0.00001" in shown, shown
    assert "noisy weighted LLP  1  1e-05  600" in labeldp("ledger", "show", "l.ledger").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mechanism", "bag-sum", "--epsilon", "1"), "--size must be given"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "20", "--in-place"), "--in-place is for one"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "100000"), "--size must be at most the number"),
        (("--mechanism", "noisy-weighted-llp", "--epsilon", "1", "--size", "20"), "--delta must be positive for noisy"),
        (("--mechanism", "weighted-lba", "--epsilon", "1", "--size", "20"), "--delta must be positive for weighted"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "20", "--delta", "-1"), "--delta must lie in [0, 1)"),
        (("--mechanism", "noisy-weighted-llp", "--epsilon", "1e-8", "--size", "20", "--delta", "1e-9"), "less noise"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "20", "--bags", "bought"), "--bags must be median"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "20", "--id", "bought"), "--id must be another column"),
        (("--mechanism", "noisy-weighted-llp", "--epsilon", "1", "--size", "9", "--noisy", "0", "--delta", "1e-5"),
         "a bag without a noisy label reveals"),
        (("--mechanism", "weighted-lba", "--epsilon", "1", "--size", "20", "--delta", "1e-5"), "holds categories"),
        (("--mechanism", "weighted-lba", "--epsilon", "1", "--size", "20", "--weights", "gaussian"),
         "those of weighted-lba must stay secret"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "20", "--rows", "2"), "--rows is for weighted-lba"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "20", "--noisy", "2"), "--noisy is for noisy-weighted"),
        (("--mechanism", "bag-sum", "--epsilon", "1", "--size", "20", "--label", "none"), "--label: people.csv has"),
        (("--epsilon", "1", "--size", "20"), "--size is for mechanisms on bags"),
    ],
)  # fmt: skip
def test_what_is_refused(labeldp: Callable[..., Ran], people: Path, options: tuple[str, ...], words: str) -> None:
    done = labeldp(*COMMON, "--out", "sums.csv", *options)
    assert done.status != 0 and words in done.err
    assert not (people / "sums.csv").exists() and not (people / "l.ledger").exists()
