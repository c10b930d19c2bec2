"""Sums of rows over parts: exact integers, the noise of one machine, and a row that no block changes."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.mechanisms import CrossMoment, GaussianMoment, LaplaceMoment
from labeldp.releases import RowSums
from releases.tables import DOMAIN, PartTable, people
from releases.test_tallies import RANGE, asked, table

WHY = "a test"


@dataclass(frozen=True)
class TwoColumns:
    """Rows of age and height."""

    factor: float = 1.0
    columns = ("age", "height")
    width = 2

    def rows(self, batch: pa.RecordBatch) -> Any:
        return self.factor * np.column_stack([batch.column(name).to_numpy() for name in self.columns])


def features(source: pa.Table) -> Any:
    return np.column_stack([source.column(name).to_numpy() for name in TwoColumns.columns])


STEPS = 8
"""So few grid steps that Laplace noise is zero at epsilon 1000."""


def made(kind: type[CrossMoment], domain: Any, rows: Any, epsilon: float) -> Any:
    """The mechanism, of rows that are held or of their totals."""
    more: dict[str, Any] = {"delta": 1e-6} if kind is GaussianMoment else {}
    given = ldp.Public(rows, why=WHY)
    return kind(domain=domain, epsilon=epsilon, features=given, clip=50.0, resolution=STEPS, **more)


def moments(
    path: Path,
    source: Any,
    *,
    kind: type[CrossMoment] = LaplaceMoment,
    label: str = "bought",
    domain: Any = DOMAIN,
    epsilon: float = 1,
    factor: float = 1,
) -> ldp.Release[Any]:
    """The sums of the rows of all people."""
    measure = RowSums(TwoColumns(factor), domain, 50.0, STEPS)
    budget = {"epsilon": epsilon, "delta": 1e-6 if kind is GaussianMoment else 0}
    return asked(path, source, label, domain, **budget).release(
        measure.columns,
        lambda: (measure, lambda tally: made(kind, domain, tally.rows, epsilon)),
        lambda tally, _: tally.sums,
    )


@pytest.mark.parametrize("kind", [GaussianMoment, LaplaceMoment])
@pytest.mark.parametrize(("label", "domain"), [("bought", DOMAIN), ("income", RANGE)])
def test_sums_and_noise_are_those_of_one_machine(path: Path, kind: Any, label: str, domain: Any) -> None:
    """With so much epsilon that noise is zero, or known to be as wide."""
    source = table()
    alone = made(kind, domain, features(source), 1000)
    codes = domain.encode(np.array(source.column(label).to_pylist()))
    found = moments(path, PartTable(source, 13), kind=kind, label=label, domain=domain, epsilon=1000)
    assert found.mechanism.noise_stddev == alone.noise_stddev
    assert found.mechanism.privacy_loss() == alone.privacy_loss()
    off = np.abs(found.value - alone.sums(codes)).max()
    assert off == 0 if domain is DOMAIN and kind is LaplaceMoment else off < 60
    assert np.allclose(found.mechanism.moment(found.value), alone.moment(found.value))
    assert (found.mechanism.rows.square, found.mechanism.rows.length) == (alone.rows.square, alone.rows.length)
    assert np.array_equal(found.mechanism.rows.total, alone.rows.total)


def test_parts_give_the_same_bits_for_one_charge(path: Path) -> None:
    source = table()
    first = moments(path, PartTable(source))
    for count in (13, 64):
        again = moments(path, PartTable(source, count, seed=count))
        assert np.array_equal(again.value, first.value) and again.certificate == first.certificate
    account = ldp.LedgerFile(path).dataset("people")
    assert len(account.charges) == 1 and account.spent.epsilon() == 1
    assert np.abs(first.value - made(LaplaceMoment, DOMAIN, features(source), 1).sums(_codes(source))).max() > 0


def _codes(source: pa.Table) -> Any:
    return DOMAIN.encode(np.array(source.column("bought").to_pylist()))


def test_other_rows_are_another_release(path: Path) -> None:
    """Another row of a record, or rows that two records swapped: other noise, which is charged."""
    source = people()
    swapped = source.column("age").to_numpy().copy()
    low, high = swapped.argmin(), swapped.argmax()
    swapped[[low, high]] = swapped[[high, low]]
    other = source.set_column(2, "age", pa.array(swapped))
    first = moments(path, PartTable(source))
    for changed in (PartTable(other), PartTable(source)):
        with pytest.raises(ldp.BudgetExceeded):
            moments(path, changed, factor=1.0 if changed.table is other else 2.0)
    assert np.array_equal(moments(path, PartTable(source)).value, first.value)


def test_bad_rows_and_arguments_are_refused(path: Path) -> None:
    source = people()
    nothing = source.set_column(3, "height", pa.array([np.nan, *[1.0] * 599]))
    with pytest.raises(ldp.privacy.InputError, match="features must be a finite array"):
        moments(path, PartTable(nothing, 3))
    assert not ldp.LedgerFile(path).dataset("people").charges
    for clip, resolution, message in ((0, 4096, "clip"), (1.0, 1 << 15, "resolution"), (1.0, True, "resolution")):
        with pytest.raises(ldp.privacy.InputError, match=message):
            RowSums(TwoColumns(), ldp.Classes(2), clip, resolution)
    mechanism = moments(path, PartTable(source)).mechanism
    with pytest.raises(ldp.privacy.InputError, match="features are known by their totals"):
        mechanism.randomize(_codes(source), rng=np.random.default_rng(0))
    with pytest.raises(ldp.privacy.InputError, match="features are known by their totals"):
        mechanism.values()


def test_a_tally_shows_nothing_and_travels() -> None:
    measure = pickle.loads(pickle.dumps(RowSums(TwoColumns(), ldp.Classes(2), 50.0)))
    [batch] = people(54).to_batches()
    tally, other = measure.start(bytes(32)), measure.start(bytes(32))
    names = np.column_stack([np.arange(54), np.zeros(54)]).astype(np.uint64)
    tally.add(names, np.ones(54, dtype=np.uint8), batch)
    other.add_state(tally.state)
    other.add_state(measure.start(bytes(32)).state)
    assert np.array_equal(other.sums, tally.sums) and other.rows == tally.rows
    assert other.rows != measure.start(bytes(32)).rows and hash(other.rows) == hash(tally.rows)
    assert repr(tally) == "RowAccumulator(<secret>)"
