"""Models from aggregates of data frames."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp import spark as room
from labeldp.curator import LedgerFile
from labeldp.learners import MedianPartition
from labeldp.mechanisms import Interval
from labeldp.releases import public_sample
from labeldp.tables import open_table
from spark.frames import frame

RANGE = Interval(0, 10)


def people(rows: int = 2000) -> pa.Table:
    """Records whose income depends on two features, in bags of 50 that are alike in the first."""
    rng = np.random.default_rng(0)
    age, height = rng.normal(size=rows), rng.normal(size=rows)
    income = np.clip(5 + 2 * age - height + rng.normal(0, 0.5, rows), 0, 10)
    bag = np.empty(rows, dtype=np.int64)
    bag[np.argsort(age)] = np.arange(rows) // 50
    sex = np.where(age + height + rng.normal(0, 0.5, rows) > 0, "yes", "no")
    columns = {"id": np.arange(rows), "age": age, "height": height, "income": income, "bag": bag, "bought": sex}
    return pa.table(columns)


def asked(path: Path, **more: Any) -> dict[str, Any]:
    """What is asked of them."""
    own = {"label": "income", "id": "id", "domain": RANGE, "epsilon": 2, "ledger": path, "dataset": "people"}
    return own | more


def rows(table: pa.Table) -> Any:
    """The features as an array."""
    return np.column_stack([table.column(name).to_numpy() for name in ("age", "height")])


@pytest.mark.guarantee("labeldp.releases:fit_cells", "pure")
@pytest.mark.guarantee("labeldp.releases:fit_cells", "same_bits")
def test_cells_of_numbers_and_of_classes(spark: Any, path: Path) -> None:
    source = people()
    models = [
        room.fit_cells(frame(spark, source, partitions, seed=partitions), features=["age", "height"], **asked(path))
        for partitions in (1, 5)
    ]
    predicted = [each.value.predict(rows(source)) for each in models]
    assert np.array_equal(*predicted) and len(LedgerFile(path).dataset("people").charges) == 1
    assert models[0].certificate.epsilon() == 2
    assert np.corrcoef(predicted[0], source.column("income").to_numpy())[0, 1] > 0.8
    classes = asked(path.with_name("classes.db"), label="bought", domain=ldp.Classes(("no", "yes")))
    given: dict[str, Any] = {"features": ["age", "height"], "partition": MedianPartition(16), "mechanism": "counts"}
    model = room.fit_cells(frame(spark, source, 2), **given, **classes)
    assert (model.value.predict(rows(source)) == np.array(source.column("bought").to_pylist())).mean() > 0.75


def test_bags_are_least_squares_of_sums(spark: Any, path: Path) -> None:
    source = people()
    whole = frame(spark, source, 3)
    release = room.bag_sum(whole, bags="bag", size=50, why="sorted by age", **asked(path, epsilon=50))
    model = room.fit_bags(whole, release, bags="bag", features=["age", "height"])
    slopes = model.value.estimator.coefficients[:, 0]
    assert np.abs(slopes - [2, -1]).max() < 0.6 and model.certificate == release.certificate
    mechanism = ldp.BagSum(50, epsilon=50, domain=RANGE, bags=ldp.Public(source.column("bag").to_numpy(), why="sorted"))
    same = ldp.Release(release.value, release.certificate, mechanism)
    assert np.allclose(ldp.fit_bags(rows(source), same).value.estimator.coefficients[:, 0], slopes)
    gaps = frame(spark, source.append_column("gaps", pa.array([None, *[1.0] * 1999])), 3)
    for more, message in (
        ({"features": ["bought"]}, "the column 'bought' must hold numbers"),
        ({"features": ["nobody"]}, "no column 'nobody'"),
        ({"features": ["gaps"]}, "features must be finite numbers"),
        ({"bags": "nobody"}, "no column 'nobody'"),
        ({"bags": "id"}, "must be the records that were released, in their bags"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=message):
            room.fit_bags(gaps, release, **({"bags": "bag", "features": ["age"]} | more))
    with pytest.raises(ldp.privacy.InputError, match="release must be what bag_sum returned"):
        room.fit_bags(whole, None, bags="bag", features=["age"])


def test_a_sample_depends_on_the_ids_alone(spark: Any) -> None:
    source = people(300)
    dealt = [frame(spark, source, partitions, seed=partitions) for partitions in (1, 4)]
    samples = [public_sample(open_table(data), "id", ("age",), 50) for data in dealt]
    assert np.array_equal(np.sort(samples[0][0][:, 0]), np.sort(samples[1][0][:, 0]))
    assert np.array_equal(samples[0][0], samples[1][0]) and samples[0][1] == 300
    alone = public_sample(open_table(source), "id", ("age",), 50)
    assert np.array_equal(samples[0][0], alone[0]) and alone[1] == 300
    with pytest.raises(ldp.privacy.InputError, match="the column 'bought' must hold numbers"):
        public_sample(open_table(frame(spark, source)), "id", ("bought",))
