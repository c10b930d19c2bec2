"""A released file of sums over bags says all that its receiver needs to learn."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp.bags import read_bags, release_bags
from labeldp.releases import release_file
from labeldp.tables import TableEncoder
from labeldp.tables.files import ParquetFile

MECHANISMS = "bag-sum", "noisy-weighted-llp", "weighted-lba"

KINDS = [*((mechanism, {}) for mechanism in MECHANISMS), ("noisy-weighted-llp", {"weights": "gaussian"})]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """4,000 records whose labels are linear in two features."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(4000, 2))
    y = np.clip(50 + 30 * x[:, 0] - 15 * x[:, 1] + rng.normal(0, 1, 4000), 0, 100)
    table = {"id": [f"p{i}" for i in range(4000)], "a": x[:, 0], "b": x[:, 1], "y": y}
    pq.write_table(pa.table(table), tmp_path / "people.parquet")
    return tmp_path


def released(data: Path, mechanism: str, name: str, **options: Any) -> Path:
    release_bags(
        data / "people.parquet", label="y", domain=ldp.Interval(0, 100), mechanism=mechanism, size=40, epsilon=8,
        delta="1e-5", ledger=data / "l.ledger", dataset=mechanism, out=data / name, id_column="id", **options,
    )  # fmt: skip
    return data / name


@pytest.mark.parametrize(("mechanism", "options"), KINDS)
@pytest.mark.parametrize("name", ["sums.csv", "sums.parquet"])
def test_the_receiver_learns_from_the_file(data: Path, mechanism: str, options: dict[str, Any], name: str) -> None:
    release = ldp.bags.read_bags(released(data, mechanism, name, **options))
    assert release.certificate.epsilon("1e-5") <= 8 and release.certificate.dataset == mechanism
    people = pq.read_table(data / "people.parquet")
    features = np.column_stack([people["a"], people["b"]])
    ones = np.ones((4000, 1))
    hidden = mechanism == "weighted-lba"
    model = ldp.fit_bags(np.hstack([ones, features]) if hidden else features, release).value
    predicted = model.predict(np.hstack([ones, features]) if hidden else features)
    truth = 50 + 30 * features[:, 0] - 15 * features[:, 1]
    assert np.sqrt(np.mean((predicted - truth) ** 2)) < 15 < truth.std()
    shown = release.value
    assert shown.records == 4000 and shown.sizes.sum() == 4000 and (shown.bags is None) == hidden
    if mechanism == "bag-sum":
        trees = ldp.bags.BagRegressor().fit(features, release)
        assert np.std(trees.predict(features) - truth) < 15
    else:
        with pytest.raises(ldp.privacy.InputError, match="weighted sums have no means"):
            ldp.bags.BagRegressor().fit(features, release)


def test_a_file_says_what_the_curator_said(data: Path) -> None:
    """The same sums and the same noise; with normal weights up to 2^-6."""
    for name in ("noisy-weighted-llp", "bag-sum"):
        ldp.LedgerFile(data / "l.ledger").add(name, ldp.Budget(50, 1e-4))
    bags = ldp.bags.random_bags(4000, 40)
    llp = ldp.bags.NoisyWeightedLLP(40, 40, "auto", domain=ldp.Interval(0, 100), bags=bags, epsilon=8, delta=1e-5)
    assert read_bags(released(data, "noisy-weighted-llp", "llp.csv")).value.noise_stddev == pytest.approx(
        np.full(100, llp.stddev * np.sqrt(40))
    )
    sums = read_bags(released(data, "bag-sum", "sums.csv", bags="random")).value
    table = pq.read_table(released(data, "bag-sum", "sums.parquet", bags="random"))
    found = dict(zip(table["bag"].to_pylist(), table["y_sum"].to_pylist(), strict=True))
    assert sums.sums.tolist() == [found[bag] for bag in range(100)]
    noise = ldp.BagSum(40, bags=bags, noise="gaussian", domain=ldp.Interval(0, 100), epsilon=8, delta=1e-5)
    assert set(sums.noise_stddev) == {noise.noise_stddev}


@pytest.mark.parametrize(("bags", "read"), [("random", {"id", "y"}), ("a", {"id", "y", "a"}), ("median", None)])
def test_no_more_than_a_column_is_read_at_a_time(
    data: Path, bags: str, read: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of the features none where bags need none."""
    asked: list[tuple[str, ...]] = []
    stream = ParquetFile._stream

    def spied(table: ParquetFile, columns: tuple[str, ...], *rest: Any) -> Any:
        asked.append(columns)
        return stream(table, columns, *rest)

    people = pq.read_table(data / "people.parquet")
    people = people.set_column(1, "a", pa.array(np.arange(4000) % 50))
    pq.write_table(people, data / "people.parquet")
    monkeypatch.setattr(ParquetFile, "_stream", spied)
    released(data, "bag-sum", "sums.parquet", bags=bags)
    columns = [each for each in asked if each not in (("id", "bag", "y_sum"), ("y_sum",))]
    assert all(len(each) == 1 for each in columns)
    assert {name for each in columns for name in each} == (read or {"id", "a", "b", "y"})


def test_labels_that_change_while_features_are_read_are_not_charged(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = TableEncoder.of_columns.__func__  # type: ignore[attr-defined]

    def late(cls: Any, columns: Any, *rest: Any) -> Any:
        encoder = encode(cls, columns, *rest)
        people = pq.read_table(data / "people.parquet")
        pq.write_table(people.slice(0, 3999), data / "people.parquet")
        return encoder

    monkeypatch.setattr(TableEncoder, "of_columns", classmethod(late))
    ldp.LedgerFile(data / "l.ledger").add("bag-sum", ldp.Budget(9, 1e-5))
    with pytest.raises(ldp.LabelDPError, match="changed while it was being read: nothing was charged"):
        released(data, "bag-sum", "sums.parquet", bags="median")
    assert not ldp.LedgerFile(data / "l.ledger").dataset("bag-sum").charges and not (data / "sums.parquet").exists()


def test_what_is_no_file_of_bags_is_refused(data: Path) -> None:
    place = released(data, "bag-sum", "sums.csv")
    text = place.read_text()
    lines = text.splitlines()
    place.write_text("\n".join([*lines[:1], lines[1] + "1", *lines[2:]]) + "\n")
    with pytest.raises(ldp.privacy.InputError, match="is NOT what was certified"):
        read_bags(place)
    place.write_text(text)
    beside = data / "sums.csv.certificate.json"
    content = json.loads(beside.read_text())
    del content["certificate"]["entries"][0]["mechanism"]["noise"]
    beside.write_text(json.dumps(content))
    with pytest.raises(ldp.privacy.InputError, match="damaged or not of labeldp"):
        read_bags(place)
    release_file(
        data / "people.parquet", label="y", domain=ldp.Interval(0, 100), mechanism="discrete-laplace", epsilon=1,
        ledger=data / "other.ledger", dataset="people", out=data / "noisy.csv", id_column="id",
    )  # fmt: skip
    with pytest.raises(ldp.privacy.InputError, match="holds no sums over bags"):
        read_bags(data / "noisy.csv")
    with pytest.raises(ldp.privacy.InputError, match="no such file"):
        read_bags(data / "nothing.csv")
