"""Aggregates over parts: exact integers, one charge, one draw of noise, and digests of what groups were."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.mechanisms import Interval, LaplaceSum, PermuteAndFlip
from labeldp.privacy import Request, Source
from labeldp.releases import Aggregation, ByColumn, GroupSums
from labeldp.releases.groupings import AllRecords
from labeldp.tables import open_table
from releases.tables import DOMAIN, PartTable, account, people

WHY = "a test"
RANGE = Interval(0, 10, 11)


def table(rows: int = 600, **more: Any) -> pa.Table:
    """The people in 7 groups, of which one is empty, with an income."""
    groups = np.arange(rows) % 6 + (np.arange(rows) % 6 > 2)
    return people(rows, **more).append_column("group", pa.array(groups)).append_column(
        "income", pa.array((np.arange(rows) * 7) % 11)
    )  # fmt: skip


def asked(
    path: Path, source: Any, label: str = "bought", domain: Any = DOMAIN, epsilon: float = 900, delta: float = 0
) -> Aggregation:
    """What is asked of the people, by default with so much epsilon that noise is zero."""
    LedgerFile(path).add("people", ldp.Budget(epsilon=epsilon, delta=delta))
    return aggregation(path, source, label, domain)


def aggregation(path: Path, source: Any, label: str = "bought", domain: Any = DOMAIN) -> Aggregation:
    """A request to the account of the people."""
    request = Request.of("totals", "histogram", "people", Source.of(source, label, "id"), 1, domain=domain)
    return Aggregation.of(request, source, path)


def grouped(asked: Aggregation, kind: Any, grouping: Any, epsilon: float) -> ldp.Release[Any]:
    """The output of a mechanism on groups."""
    return asked.grouped(kind, grouping.columns, lambda: grouping, WHY, epsilon)


def histogram(path: Path, source: Any, epsilon: float = 900, **more: Any) -> ldp.Release[Any]:
    """Class counts of the groups."""
    grouping = more.pop("grouping", ByColumn("group"))
    return grouped(asked(path, source, epsilon=epsilon), ldp.LaplaceHistogram, grouping, epsilon)


def exact(source: pa.Table) -> Any:
    """Class counts of the groups, without noise."""
    counts = np.zeros((7, 2), dtype=np.int64)
    labels = np.array(source.column("bought").to_pylist()) == "yes"
    np.add.at(counts, (source.column("group").to_numpy(), labels.astype(int)), 1)
    return counts


def test_counts_are_exact_whatever_the_parts(path: Path) -> None:
    source = table()
    for each in (PartTable(source), PartTable(source, 13), PartTable(source, 64, seed=1), open_table(source)):
        found = histogram(path, each)
        assert np.array_equal(found.value, exact(source))
        assert found.mechanism.partition.sizes.tolist() == exact(source).sum(axis=1).tolist()
        assert f"the groups do not depend on the private labels ({WHY})" in found.certificate.assumptions
    assert len(account(path).charges) == 1
    whole = histogram(path.with_name("other.db"), PartTable(source), grouping=AllRecords())
    assert whole.value.tolist() == [exact(source).sum(axis=0).tolist()]


@pytest.mark.guarantee("labeldp.releases:Aggregation.release", "charged_first")
@pytest.mark.guarantee("labeldp.releases:Aggregation.release", "refusal_free")
def test_noise_is_drawn_once(path: Path) -> None:
    source = table(texts=True)
    first = histogram(path, PartTable(source), epsilon=0.5)
    assert not np.array_equal(first.value, exact(source))
    assert np.abs(first.value - exact(source)).max() < 200
    for count in (13, 64):
        assert np.array_equal(histogram(path, PartTable(source, count), epsilon=0.5).value, first.value)
    assert account(path).spent.epsilon() == 0.5
    with pytest.raises(ldp.BudgetExceeded):
        grouped(asked(path, PartTable(source), epsilon=0.5), LaplaceSum, ByColumn("group"), 0.4)
    assert account(path).spent.epsilon() == 0.5


def test_other_groups_are_another_release(path: Path) -> None:
    source = table()
    swapped = source.set_column(4, "group", pa.array(source.column("group").to_numpy()[::-1]))
    LedgerFile(path).add("people", ldp.Budget(epsilon=2))
    one, other = (
        grouped(aggregation(path, PartTable(each)), ldp.LaplaceHistogram, ByColumn("group"), 1)
        for each in (source, swapped)
    )
    assert one.mechanism != other.mechanism and len(account(path).charges) == 2


def test_sums_of_numbers_and_choices(path: Path) -> None:
    source = table()
    found = grouped(asked(path, PartTable(source, 13), "income", RANGE), LaplaceSum, ByColumn("group"), 900)
    income, groups = source.column("income").to_numpy(), source.column("group").to_numpy()
    sums = np.bincount(groups, weights=income, minlength=7)
    assert found.value.tolist() == sums.astype(int).tolist()
    assert np.allclose(found.mechanism.estimates(found.value, found.mechanism.partition.sizes)[0], sums[0] / 100)
    with pytest.raises(ldp.privacy.InputError, match="groups are known by their sizes"):
        found.mechanism.randomize(income, rng=np.random.default_rng(0))
    other = path.with_name("other.db")
    chosen = grouped(asked(other, PartTable(source, 3)), PermuteAndFlip, ByColumn("group"), 900)
    assert chosen.value.shape == (7,) and chosen.value[:3].tolist() == exact(source)[:3].argmax(axis=1).tolist()


def test_bags_are_groups_of_a_size(path: Path) -> None:
    source = table().filter(pa.array(table().column("group").to_numpy() < 3))
    for noise, delta in (("laplace", 0.0), ("gaussian", 1e-6)):
        made = partial(ldp.BagSum, 100, noise, epsilon=400, delta=delta, domain=RANGE)
        found = asked(path.with_name(noise), PartTable(source, 5), "income", RANGE, delta=delta).release(
            ["group"],
            lambda made=made: (
                GroupSums(ByColumn("group"), None),
                lambda tally: made(bags=ldp.Public(tally.groups, why=WHY)),
            ),
            lambda tally, made: tally.sums * made.fine,
        )
        income, groups = source.column("income").to_numpy(), source.column("group").to_numpy()
        sums = np.bincount(groups, weights=income)
        assert np.abs(found.mechanism.totals(found.value) - sums).max() < 5
        with pytest.raises(ldp.privacy.InputError, match="release must say which record is in which bag"):
            found.mechanism.released_sums(found.value)
    with pytest.raises(ldp.privacy.InputError, match="at least size = 150 records"):
        asked(path, PartTable(source), "income", RANGE).release(
            ["group"],
            lambda: (
                GroupSums(ByColumn("group"), None),
                lambda tally: ldp.BagSum(150, epsilon=1, domain=RANGE, bags=ldp.Public(tally.groups, why=WHY)),
            ),
            lambda tally, made: tally.sums,
        )
    with pytest.raises(ldp.privacy.InputError, match="bags must be a bag number for each record"):
        sizes = ldp.Public(found.mechanism.partition, why=WHY)
        ldp.bags.NoisyWeightedLLP(100, 100, 1.0, delta=1e-6, domain=RANGE, bags=sizes)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([0.5] * 600), "must hold a whole number for each record"),
        (pa.array([None, *range(599)], pa.int64()), "must hold a whole number for each record"),
        (pa.array([-1] * 600), "groups must have numbers from 0"),
        (pa.array([1 << 40] * 600), "groups must have numbers from 0"),
    ],
)
def test_groups_that_are_no_numbers_are_refused(path: Path, column: Any, message: str) -> None:
    source = table()
    with pytest.raises(ldp.privacy.InputError, match=message):
        histogram(path, PartTable(source.set_column(4, "group", column), 3))
    for grouping in (ByColumn("bought"), ByColumn("nobody")):
        with pytest.raises(ldp.privacy.InputError, match=r"is private|has no column 'nobody'"):
            histogram(path, PartTable(source), grouping=grouping)
    assert not LedgerFile(path).dataset("people").charges


def test_a_tally_shows_nothing_and_travels(path: Path) -> None:
    measure = pickle.loads(pickle.dumps(GroupSums(ByColumn("group"), 2)))
    tally = measure.start(bytes(32))
    [batch] = table(54).to_batches()
    tally.add(np.arange(54, dtype=np.uint64), np.ones(54, dtype=np.uint8), batch)
    other = measure.start(bytes(32))
    other.add_state(tally.state)
    other.add_state(measure.start(bytes(32)).state)
    assert np.array_equal(other.counts, tally.counts) and other.groups == tally.groups
    assert repr(tally) == "GroupAccumulator(<secret>)"
