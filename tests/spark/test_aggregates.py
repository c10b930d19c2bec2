"""Aggregates of data frames: those of one machine's parts, bit for bit, for one charge."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp import spark as room
from labeldp.curator import LedgerFile
from labeldp.learners import MedianPartition
from labeldp.mechanisms import GaussianMoment, LaplaceMoment, LaplaceSum
from labeldp.privacy import Request, Source
from labeldp.releases import Aggregation, ByColumn, feature_table
from labeldp.releases.groupings import ByCells
from releases.tables import DOMAIN
from releases.test_tallies import RANGE, exact, table
from spark.frames import frame

WHY = "a test"


def asked(path: Path, **more: Any) -> dict[str, Any]:
    """What is asked of the people."""
    own = {"label": "bought", "id": "id", "domain": DOMAIN, "epsilon": 1, "ledger": path, "dataset": "people"}
    return own | more


@pytest.mark.guarantee("labeldp.releases:histogram", "same_bits")
def test_histograms_are_those_of_one_machine_for_one_charge(spark: Any, path: Path) -> None:
    source = table()
    LedgerFile(path).add("people", ldp.Budget(epsilon=1))
    request = Request.of("totals", "histogram", "people", Source.of(source, "bought", "id"), 1, domain=DOMAIN)
    aggregation = Aggregation.of(request, source, path)
    alone = aggregation.grouped(ldp.LaplaceHistogram, ["group"], lambda: ByColumn("group"), WHY, 1)
    for partitions in (1, 13):
        dealt = frame(spark, source, partitions, seed=partitions)
        found = room.histogram(dealt, groups="group", why=WHY, **asked(path))
        assert np.array_equal(found.value, alone.value) and found.certificate == alone.certificate
    assert len(LedgerFile(path).dataset("people").charges) == 1
    sure = room.histogram(frame(spark, source), **asked(path.with_name("other.db"), epsilon=900))
    assert sure.value.tolist() == [exact(source).sum(axis=0).tolist()]


@pytest.mark.guarantee("labeldp.releases:cells", "same_bits")
@pytest.mark.guarantee("labeldp.bags:bag_sum", "same_bits")
def test_cells_and_bags(spark: Any, path: Path) -> None:
    source = table()
    income = source.column("income").to_numpy()
    places = np.column_stack([source.column(name).to_numpy() for name in ("age", "height")])
    fitted = MedianPartition(8).fit(places)
    numbers = asked(path, label="income", domain=RANGE, epsilon=900)
    found = room.cells(
        frame(spark, source, 3), features=["age", "height"], partition=fitted, mechanism=LaplaceSum, why=WHY, **numbers
    )
    assert found.value.tolist() == np.bincount(fitted.transform(places), weights=income).astype(int).tolist()
    bags = source.append_column("bag", pa.array(np.arange(600) // 100))
    other = numbers | {"ledger": path.with_name("bags.db")}
    for partitions in (2, 3):
        sums = room.bag_sum(frame(spark, bags, partitions), bags="bag", size=100, why=WHY, **other)
        assert np.allclose(sums.mechanism.totals(sums.value), income.reshape(6, 100).sum(axis=1))
    assert len(LedgerFile(path.with_name("bags.db")).dataset("people").charges) == 1
    with pytest.raises(ldp.privacy.InputError, match="at least size = 200 records"):
        room.bag_sum(frame(spark, bags), bags="bag", size=200, why=WHY, **other)


def test_bad_arguments_are_refused(spark: Any, path: Path) -> None:
    source = frame(spark, table())
    for more, message in (
        ({"groups": "group"}, "why must say"),
        ({"groups": "bought", "why": WHY}, "it is private"),
        ({"groups": "height", "why": WHY}, "must hold a whole number"),
        ({"domain": ("no", "yes")}, "domain must be declared"),
        ({"epsilon": 0}, "epsilon"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=message):
            room.histogram(source, **(asked(path) | more))
    assert not LedgerFile(path).exists or not LedgerFile(path).dataset("people").charges


def test_feature_tables_are_numbers() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, None], "b": [True, False], "c": ["x", "y"]})
    assert np.array_equal(feature_table(batch, ["a", "b"]), [[1, 1], [np.nan, 0]], equal_nan=True)
    with pytest.raises(ldp.privacy.InputError, match="the column 'c' must hold numbers"):
        feature_table(batch, ["c"])
    with pytest.raises(ldp.privacy.InputError, match="partition must put every record into one cell"):
        ByCells(type("Two", (), {"transform": lambda self, rows: np.zeros((2, 2))})(), ("b",)).groups(batch)


@pytest.mark.guarantee("labeldp.releases:moments", "same_bits")
def test_moments_are_those_of_one_machine_for_one_charge(spark: Any, path: Path) -> None:
    source = table()
    places = np.column_stack([source.column(name).to_numpy() for name in ("age", "height")])
    codes = DOMAIN.encode(np.array(source.column("bought").to_pylist()))
    given = {"features": ["age", "height"], "clip": 60.0, "why": WHY, "delta": 1e-6}
    found = [
        room.moments(frame(spark, source, partitions, seed=partitions), **given, **asked(path))
        for partitions in (1, 13)
    ]
    assert np.array_equal(found[0].value, found[1].value)
    assert len(LedgerFile(path).dataset("people").charges) == 1
    alone = GaussianMoment(
        domain=DOMAIN, epsilon=1, delta=1e-6, features=ldp.Public(places, why=WHY), clip=60.0
    )  # fmt: skip
    assert found[0].mechanism.noise_stddev == alone.noise_stddev
    noise = found[0].value - alone.sums(codes)
    assert 0 < np.abs(noise).max() < 6 * alone.stddev
    pure = asked(path.with_name("pure.db"), epsilon=1000) | given | {"delta": 0, "resolution": 8}
    sure = room.moments(frame(spark, source), **pure)
    alone = LaplaceMoment(domain=DOMAIN, epsilon=1000, features=ldp.Public(places, why=WHY), clip=60.0, resolution=8)
    assert np.array_equal(sure.value, alone.sums(codes))
    for more, message in (
        ({"features": []}, "features must be a list of columns, one at least"),
        ({"features": ["bought"]}, "is private"),
        ({"clip": 0}, "clip must be a positive"),
        ({"delta": 2}, "delta"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=message):
            room.moments(frame(spark, source), **(asked(path) | given | more))
    assert len(LedgerFile(path).dataset("people").charges) == 1
