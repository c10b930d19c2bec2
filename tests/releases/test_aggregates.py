"""Cells and bags of files that do not fit into memory: the same bits and one charge, whatever blocks and files are."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import csv, parquet

import labeldp as ldp
from labeldp.bags import bag_sum, fit_bag_sums
from labeldp.curator import LedgerFile
from labeldp.fit import fit_linear
from labeldp.learners import MedianPartition
from labeldp.mechanisms import Interval, LaplaceSum
from labeldp.releases import (
    aggregates,
    cells,
    fit_cells,
    histogram,
    moments,
    public_sample,
)
from labeldp.tables import DistinctIds, open_table
from releases.tables import PartTable

RANGE = Interval(0, 10)
COARSE = Interval(0, 10, grid=5)
YES = ldp.Classes(("no", "yes"))
FEATURES = ["age", "height"]


def people(rows: int = 1500) -> pa.Table:
    """Records whose income depends on two features, in bags of 50 that are alike in the first."""
    rng = np.random.default_rng(0)
    age, height = rng.normal(size=rows), rng.normal(size=rows)
    income = np.clip(5 + 2 * age - height + rng.normal(0, 0.5, rows), 0, 10)
    bag = np.empty(rows, dtype=np.int64)
    bag[np.argsort(age)] = np.arange(rows) // 50
    bought = np.where(age + height + rng.normal(0, 0.5, rows) > 0, "yes", "no")
    return pa.table(
        {"id": np.arange(rows), "age": age, "height": height, "income": income, "bag": bag, "bought": bought}
    )


PEOPLE = people()
ROWS = np.column_stack([PEOPLE.column(name).to_numpy() for name in FEATURES])


def asked(place: Path, **more: Any) -> dict[str, Any]:
    own = {"label": "income", "id": "id", "domain": RANGE, "epsilon": 2, "ledger": place, "dataset": "people"}
    return own | more


def charged(place: Path) -> Any:
    """What the ledger holds, if there is one."""
    file = LedgerFile(place) if place.exists() else None
    return file is not None and "people" in file.datasets() and file.dataset("people").charges


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(PEOPLE, "people.parquet", row_group_size=350)
    Path("folder").mkdir()
    parquet.write_table(PEOPLE[1000:], "folder/a.parquet")
    csv.write_csv(PEOPLE[:1000], "folder/b.csv")
    return tmp_path / "l.db"


def sources() -> Iterator[Any]:
    """The same records in memory, in a file, in a folder of two kinds in another order, and in parts."""
    shuffled = PEOPLE.take(np.random.default_rng(1).permutation(len(PEOPLE)))
    yield from (PEOPLE, "people.parquet", "folder", shuffled, PartTable(PEOPLE, 13), PartTable(shuffled, 3, seed=2))


@pytest.fixture(params=[1 << 17, 37])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a pass have so many rows at most, or a few more."""
    monkeypatch.setattr("labeldp.tables.table.BLOCK_ROWS", request.param)


@pytest.mark.guarantee("labeldp.releases:fit_cells", "pure")
@pytest.mark.guarantee("labeldp.releases:fit_cells", "same_bits")
@pytest.mark.usefixtures("small_blocks")
def test_cells_are_the_same_to_the_bit_for_one_charge(place: Path) -> None:
    models = [fit_cells(data, features=FEATURES, **asked(place)) for data in sources()]
    predicted = [each.value.predict(ROWS) for each in models]
    assert all(np.array_equal(each, predicted[0]) for each in predicted)
    [charge] = LedgerFile(place).dataset("people").charges
    assert charge.loss.epsilon() == models[0].certificate.epsilon() == 2
    assert np.corrcoef(predicted[0], PEOPLE.column("income").to_numpy())[0, 1] > 0.8


CELLS = MedianPartition(16).fit(ROWS)
RELEASES = {
    "histogram": lambda data, place: histogram(
        data, groups="bag", why="sorted by age", **asked(place, label="bought", domain=YES)
    ),
    "cells": lambda data, place: cells(
        data, features=FEATURES, partition=CELLS, mechanism=LaplaceSum, why="of public features", **asked(place)
    ),
    "moments": lambda data, place: moments(
        data, features=FEATURES, clip=3.0, delta=1e-6, why="of public features", **asked(place)
    ),
    "fit_linear": lambda data, place: fit_linear(
        data, features=FEATURES, delta=1e-6, **asked(place, label="bought", domain=YES)
    ).map(lambda model: model.predict_proba(ROWS)),
}


@pytest.mark.guarantee("labeldp.releases:histogram", "same_bits")
@pytest.mark.guarantee("labeldp.releases:cells", "same_bits")
@pytest.mark.guarantee("labeldp.releases:moments", "same_bits")
@pytest.mark.guarantee("labeldp.fit:fit_linear", "same_bits")
@pytest.mark.guarantee("labeldp.fit:fit_linear", "approximate")
@pytest.mark.parametrize("name", RELEASES)
def test_aggregates_are_the_same_to_the_bit_for_one_charge(place: Path, name: str) -> None:
    releases = [RELEASES[name](data, place) for data in sources()]
    assert all(np.array_equal(release.value, releases[0].value) for release in releases)
    [charge] = LedgerFile(place).dataset("people").charges
    delta = 1e-6 if name in ("moments", "fit_linear") else 0
    assert charge.loss.epsilon(delta) <= 2 and releases[0].certificate.epsilon(delta) <= 2


@pytest.mark.parametrize("partition", [MedianPartition(16), None])
@pytest.mark.parametrize("label", ["income", "bought"])
def test_cells_are_those_of_fit_cells_at_its_cost(place: Path, partition: Any, label: str) -> None:
    """At an epsilon so large that noise is zero, the streamed model and the one in memory are the same function."""
    domain = YES if label == "bought" else COARSE
    given = asked(place, label=label, domain=domain, epsilon=1000)
    streamed = fit_cells("people.parquet", features=FEATURES, partition=partition, **given)
    # In the order of the sample, by which cells are cut.
    order = public_order()
    curator = ldp.Curator(
        np.array(PEOPLE.column(label).to_pylist())[order], domain=domain, budget=ldp.Budget(1000), ids=order
    )
    whole = ldp.fit_cells(ROWS[order], curator, epsilon=1000, rng=ldp.SystemRandomness(), partition=partition)
    assert streamed.certificate.epsilon() == whole.certificate.epsilon()
    if partition is None:  # its cells are at most one for `RECORDS_IN_CELL` records of the sample
        said = streamed.value.predict(ROWS)
        scores = said == "yes" if label == "bought" else said
        assert abs(np.corrcoef(scores, PEOPLE.column("age").to_numpy())[0, 1]) > 0.5
        return
    ask = "predict" if label == "income" else "predict_proba"
    assert np.array_equal(getattr(streamed.value, ask)(ROWS), getattr(whole.value, ask)(ROWS))


def public_order() -> NDArray[np.int64]:
    """The ids in the order of the sample."""
    found, records = public_sample(open_table(PEOPLE), "id", ("id",))
    assert records == len(PEOPLE) == len(np.unique(found))
    return found[:, 0].astype(np.int64)


@pytest.mark.usefixtures("place", "small_blocks")
def test_the_sample_depends_on_ids_alone() -> None:
    found = [
        public_sample(open_table(data), "id", ("id", "age"), 100)[0]
        for data in (PEOPLE, PEOPLE.take(np.arange(1499, -1, -1)), "folder", PartTable(PEOPLE, 7))
    ]
    assert found[0].shape == (100, 2) and all(np.array_equal(each, found[0]) for each in found)
    assert np.array_equal(found[0][:, 0], public_order()[:100])
    assert 600 < found[0][:, 0].mean() < 900  # not the first ones


@pytest.mark.guarantee("labeldp.bags:bag_sum", "approximate")
@pytest.mark.guarantee("labeldp.bags:bag_sum", "same_bits")
@pytest.mark.usefixtures("small_blocks")
def test_bags_are_the_same_to_the_bit_for_one_charge(place: Path) -> None:
    given = asked(place, bags="bag", size=50, why="sorted by age", delta=1e-6)
    releases = [bag_sum(data, **given) for data in sources()]
    assert all(np.array_equal(each.value, releases[0].value) for each in releases)
    [charge] = LedgerFile(place).dataset("people").charges
    assert 1.99 < charge.loss.epsilon(1e-6) <= 2
    made = releases[0].mechanism
    truth = np.bincount(PEOPLE.column("bag").to_numpy(), weights=PEOPLE.column("income").to_numpy())
    assert np.abs(made.totals(releases[0].value) - truth).max() < 8 * made.noise_stddev


@pytest.mark.usefixtures("small_blocks")
def test_a_model_of_bags_is_that_of_fit_bags_to_the_bit(place: Path) -> None:
    given = asked(place, bags="bag", size=50, why="sorted by age")
    release = bag_sum("people.parquet", **given)
    in_memory = ldp.BagSum(
        50, domain=RANGE, epsilon=2, bags=ldp.Public(PEOPLE.column("bag").to_numpy(), why="sorted by age")
    )
    whole = ldp.fit_bags(ROWS, ldp.Release(release.value, release.certificate, in_memory), ridge=0.01)
    model = fit_bag_sums("people.parquet", release, bags="bag", features=FEATURES, ridge=0.01)
    assert model.certificate == release.certificate
    assert np.array_equal(model.value.estimator.coefficients, whole.value.estimator.coefficients)
    assert np.array_equal(model.value.predict(ROWS), whole.value.predict(ROWS))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"features": ["bought"]}, "the column 'bought' must hold numbers"),
        ({"features": ["nobody"]}, "nobody"),
        ({"features": []}, "features must be a list of columns, one at least"),
        ({"features": "age"}, "features must be a list of columns, one at least"),
        ({"features": ["income"]}, "label must be no column of public numbers: it is private"),
        ({"label": "nobody"}, "nobody"),
        ({"id": "bag"}, "ids must not be repeated"),
        ({"domain": ("no", "yes")}, "domain must be declared"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_costs_nothing(place: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words):
        fit_cells("people.parquet", **(asked(place) | {"features": FEATURES} | more))
    assert not charged(place)


def test_labels_outside_of_the_domain_cost_nothing(place: Path) -> None:
    wrong = PEOPLE.set_column(3, "income", pa.array([11.0, *[5.0] * (len(PEOPLE) - 1)]))
    with pytest.raises(ldp.privacy.DomainError, match="Some labels are missing or not numbers from"):
        fit_cells(wrong, features=FEATURES, **asked(place))
    with pytest.raises(ldp.privacy.DomainError, match="Some labels are missing or not numbers from"):
        bag_sum(wrong, bags="bag", size=50, why="sorted by age", **asked(place))
    assert not charged(place)


def test_bags_that_do_not_fit_are_refused(place: Path) -> None:
    given = asked(place, bags="bag", size=50, why="sorted by age")
    for more, words in (({"size": 51}, "size = 51"), ({"bags": "nobody"}, "nobody"), ({"bags": "age"}, "whole number")):
        with pytest.raises(ldp.privacy.InputError, match=words):
            bag_sum("people.parquet", **(given | more))
    assert not charged(place)
    release = bag_sum("people.parquet", **given)
    gaps = PEOPLE.append_column("gaps", pa.array([None, *[1.0] * (len(PEOPLE) - 1)]))
    for data, more, words in (
        (gaps, {"features": ["gaps"]}, "features must be finite numbers"),
        (PEOPLE[1:], {}, "data must be the records that were released, in their bags"),
        (PEOPLE, {"bags": "id"}, "data must be the records that were released, in their bags"),
        (PEOPLE, {"ridge": -1}, "ridge"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=words):
            fit_bag_sums(data, release, **({"bags": "bag", "features": ["age"]} | more))
    with pytest.raises(ldp.privacy.InputError, match="release must be what bag_sum returned"):
        fit_bag_sums(PEOPLE, "sums", bags="bag", features=["age"])


def test_a_file_that_changes_meanwhile_charges_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = aggregates.public_sample

    def changing(*given: Any) -> Any:
        found = real(*given)
        parquet.write_table(PEOPLE[:1499], "people.parquet")
        return found

    monkeypatch.setattr(aggregates, "public_sample", changing)
    with pytest.raises(ldp.LabelDPError, match="changed while it was being read"):
        fit_cells("people.parquet", features=FEATURES, **asked(place))
    assert not charged(place)


class Made:
    """A table that is made block by block whenever it is read, and never held."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(self.blocks):
                rng = np.random.default_rng(number)
                age = rng.normal(size=BLOCK)
                bags = pa.array((np.arange(BLOCK) + number * BLOCK) % 20)
                ids = pa.array(np.arange(BLOCK) + number * BLOCK)
                yield pa.record_batch([ids, pa.array(age), pa.array(np.clip(5 + age, 0, 10)), bags], schema=MADE)

        return pa.RecordBatchReader.from_batches(MADE, batches()).__arrow_c_stream__(requested_schema)


BLOCK = 1 << 13
MADE = pa.schema([("id", pa.int64()), ("age", pa.float64()), ("income", pa.float64()), ("bag", pa.int64())])


def test_memory_grows_with_a_block_and_not_with_the_table(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_sample, "__defaults__", (1000,))
    monkeypatch.setattr(DistinctIds.__init__, "__defaults__", (1000,))
    most = []
    for number, blocks in enumerate((2, 20, 60)):
        given = asked(place, dataset=f"d{number}")
        LedgerFile(place).add(f"d{number}", ldp.Budget(10))
        tracemalloc.start()
        fit_cells(Made(blocks), features=["age"], partition=MedianPartition(8), **given)
        release = bag_sum(Made(blocks), bags="bag", size=50, why="made up", **given)
        fit_bag_sums(Made(blocks), release, bags="bag", features=["age"])
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    held = BLOCK * 60 * 8
    assert most[2] < 1.25 * most[1], most
    assert most[2] - most[1] < held / 4, most
