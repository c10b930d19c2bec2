"""Linear models of data frames: the same bits in any partition, and the model of one machine."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp import spark as room
from labeldp.curator import LedgerFile
from labeldp.features import ExactMap, TableMap, encode
from labeldp.fit.linear import learn
from labeldp.learners import LinearTask
from labeldp.privacy import Request, Source
from labeldp.releases import Aggregation, Survey
from labeldp.tables import open_table
from releases.tables import DOMAIN, PartTable
from spark.frames import dying, frame, through
from spark.test_fitting import RANGE, asked, people, rows

FEATURES = ("age", "height")
SMALL = TableMap(trees=5)
AS_THEY_ARE = FunctionTransformer()


def classes(path: Path, **more: Any) -> dict[str, Any]:
    """What is asked of them, for classes."""
    return asked(path, label="bought", domain=DOMAIN, delta=1e-6, representation=SMALL) | {"features": FEATURES} | more


def charges(path: Path) -> int:
    return len(LedgerFile(path).dataset("people").charges)


def aggregation(table: Any, label: str, domain: Any, path: Path, delta: float) -> Aggregation:
    source = Source.of(table, label, "id", features=FEATURES)
    request = Request.of("totals", "fit-linear", "people", source, 2, delta, domain=domain)
    return Aggregation.of(request, table, path)


@pytest.mark.guarantee("labeldp.fit:fit_linear", "approximate")
@pytest.mark.guarantee("labeldp.fit:fit_linear", "same_bits")
def test_partitions_give_the_same_bits_for_one_charge(spark: Any, path: Path, tmp_path: Path) -> None:
    """Also where a worker dies in the middle, and as one machine computes it from a stream."""
    source, found = people(), []
    for partitions in (1, 13, 64):
        model = room.fit_linear(frame(spark, source, partitions, seed=partitions), **classes(path))
        found.append(model.value.predict_proba(rows(source)))
    marks = tmp_path / "marks"
    marks.mkdir()
    again = room.fit_linear(dying(frame(spark, source, 3), marks, times=4), **classes(path))
    assert len(list(marks.iterdir())) == 4
    found.append(again.value.predict_proba(rows(source)))
    task = LinearTask.of(DOMAIN, 2, 1e-6)
    for table in (open_table(source), PartTable(source, 5)):
        alone = learn(aggregation(table, "bought", DOMAIN, path, 1e-6), task, SMALL)
        found.append(alone.value.predict_proba(rows(source)))
    assert all(np.array_equal(each, found[0]) for each in found)
    assert charges(path) == 1 and model.certificate == alone.certificate
    assert model.certificate.at(1e-6).startswith("(2, 1e-06)") or model.certificate.epsilon(1e-6) <= 2
    truth = np.array(source.column("bought").to_pylist())
    assert np.mean(model.value.predict(rows(source)) == truth) > 0.8


class Holder:
    """A curator on one machine whose release is one that was drawn elsewhere; it keeps the exact sums."""

    def __init__(self, domain: Any, labels: Any, release: ldp.Release[Any]) -> None:
        self.domain, self.records, self.users = domain, len(labels), None
        self.codes, self.given = domain.encode(labels), release

    def require(self, steps: Any) -> None:
        pass

    def release(self, mechanism: Any, *, rng: Any, step: Any) -> ldp.Release[Any]:
        self.mechanism, self.sums = mechanism, mechanism.sums(self.codes)
        return ldp.Release(self.given.value, self.given.certificate, mechanism)


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 1,000 records are many, and 500 of them are held."""
    for module in ("labeldp.features.representations", "labeldp.fit.linear"):
        monkeypatch.setattr(f"{module}.STREAMED_RECORDS", 1000)
        monkeypatch.setattr(f"{module}.SAMPLED_RECORDS", 500)


@pytest.mark.parametrize("label", ["bought", "income"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_model_is_that_of_one_machine(
    path: Path, label: str, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One release has the same directions, sums to single precision, as much noise, and the same model of them."""
    source, domain = people(), DOMAIN if label == "bought" else RANGE
    drawn: list[Any] = []
    release = Survey.release

    def keep(self: Survey, sums: Any) -> Any:
        drawn.extend((self.sums.sums, release(self, sums)))
        return drawn[1]

    monkeypatch.setattr(Survey, "release", keep)
    LedgerFile(path).add("people", ldp.Budget(epsilon=2, delta=delta))
    task = LinearTask.of(domain, 2, delta)
    model = learn(aggregation(PartTable(source, 3), label, domain, path, delta), task, SMALL).value
    holder: Any = Holder(domain, np.array(source.column(label).to_pylist()), drawn[1])
    alone = task.measured(encode(SMALL, rows(source), None, sampled=True), holder, ldp.SystemRandomness()).model().value
    assert drawn[1].mechanism.rows.shape == holder.mechanism.rows.shape
    assert drawn[1].mechanism.rows.clip == pytest.approx(holder.mechanism.rows.clip, rel=1e-5)
    assert np.isclose(drawn[1].mechanism.noise_stddev, holder.mechanism.noise_stddev, rtol=1e-3)
    steps = np.abs(drawn[0] - holder.sums) / holder.mechanism.domain.largest_entry
    assert steps.max() <= 0.01 * len(source)  # of the few rows that round otherwise, a step each
    shown = [
        each.predict_proba(rows(source)) if label == "bought" else each.predict(rows(source)) for each in (model, alone)
    ]
    assert np.allclose(*shown, atol=5e-3)  # as near as the search for the likeliest coefficients ends


@pytest.mark.usefixtures("few_are_many")
def test_many_records_are_a_sample_and_sums_of_all(spark: Any, path: Path) -> None:
    """Also what a model expects of all records does not depend on partitions."""
    source = people()
    found = []
    for partitions in (1, 5):
        model = room.fit_linear(frame(spark, source, partitions, seed=partitions), **classes(path))
        found.append(model.value.predict_proba(rows(source)))
    assert np.array_equal(*found) and charges(path) == 1


def test_a_source_that_changes_is_another_release_or_refused(spark: Any, path: Path, tmp_path: Path) -> None:
    source = people()
    first = room.fit_linear(frame(spark, source), **classes(path))
    moved = source.set_column(1, "age", pa.array(source.column("age").to_numpy()[::-1]))
    with pytest.raises(ldp.BudgetExceeded):
        room.fit_linear(frame(spark, moved), **classes(path))
    labels = source.column("bought").to_pylist()
    labels[7] = {"yes": "no", "no": "yes"}[labels[7]]
    place = source.schema.get_field_index("bought")
    changed = source.set_column(place, "bought", pa.array(labels))
    with pytest.raises(ldp.privacy.LedgerError, match="not the labels"):
        room.fit_linear(frame(spark, changed), **classes(path))
    marks = tmp_path / "marks"
    marks.mkdir()

    def vanish(batch: pa.RecordBatch) -> pa.RecordBatch:
        (marks / str(len(list(marks.iterdir())))).touch()
        return batch if len(list(marks.iterdir())) <= 2 else batch.slice(1)  # after the sample and the count

    with pytest.raises(ldp.LabelDPError, match=r"nothing was charged|not the records"):
        room.fit_linear(through(frame(spark, source, 1), vanish), **classes(path.with_name("other.db")))
    again = room.fit_linear(frame(spark, source), **classes(path))
    assert charges(path) == 1 and np.array_equal(again.value.predict(rows(source)), first.value.predict(rows(source)))


def test_numbers_and_a_pure_promise(spark: Any, path: Path) -> None:
    source = people()
    given = classes(path, label="income", domain=RANGE, delta=0, epsilon=3, representation=AS_THEY_ARE)
    model = room.fit_linear(frame(spark, source, 3), **given)
    assert np.corrcoef(model.value.predict(rows(source)), source.column("income").to_numpy())[0, 1] > 0.9
    assert model.certificate.epsilon() == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"representation": FunctionTransformer(lambda table: table - table.mean(axis=0))},
            "representation must encode each record by itself",
        ),
        ({"features": ()}, "features must be a list of columns, one at least"),
        ({"features": ("bought",)}, "it is private"),
        ({"features": ("income",), "label": "income", "domain": RANGE}, "it is private"),
        ({"dimension": 0}, "dimension"),
        ({"domain": ("no", "yes")}, "domain must be declared"),
    ],
)
def test_bad_arguments_are_refused(spark: Any, path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=message):
        room.fit_linear(frame(spark, people(200)), **classes(path, **more))
    assert not LedgerFile(path).exists or not charges(path)


def test_rows_are_the_same_in_any_block() -> None:
    """To the bit, and near the product that they stand for."""
    rng = np.random.default_rng(0)
    for columns, images in ((3, 2), (40, 7), (300, 41)):
        table = rng.normal(size=(500, columns)).astype(np.float32)
        table[:, 0] = 1.5  # no range
        coefficients, offset = rng.normal(size=(columns, images)), rng.normal(size=images)
        mapping = ExactMap.of(table, coefficients, offset)
        whole = mapping.rows(table)
        assert np.abs(whole - (table @ coefficients + offset)).max() < 1e-5 * columns
        assert np.abs(mapping.weights).sum(axis=0).max() * (1 << 20) < 1 << 53
        for size in (1, 3, 64, 499):
            parts = [mapping.rows(table[start : start + size]) for start in range(0, 500, size)]
            assert np.array_equal(np.concatenate(parts), whole)
        turned = rng.permutation(500)
        assert np.array_equal(mapping.rows(np.asfortranarray(table[turned])), whole[turned])
        beyond = mapping.rows(table * 100)
        assert np.isfinite(beyond).all() and np.abs(beyond).max() <= np.abs(coefficients).sum(axis=0).max() * 20
