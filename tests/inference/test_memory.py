"""Memory follows the records and the classes, and not their product or the square of the classes."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp import inference
from labeldp.inference import debiased_accuracy
from labeldp.mechanisms import SubsetSelection, debias
from slow import slow_cases

MIB = 1 << 20
BLOCKS = 150 * MIB
"""Some blocks of 32 MiB."""


def peak(work: Callable[[], Any]) -> int:
    """The most memory that was held at once, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def released(kind: str, records: int, classes: int) -> Any:
    domain = ldp.Classes(classes)
    mechanisms = {
        "randomized response": lambda: ldp.RandomizedResponse(domain, 5.0),
        "unary": lambda: ldp.UnaryEncoding(domain, 5.0),
        "hashing": lambda: ldp.LocalHashing(domain, 5.0),
        "subset": lambda: SubsetSelection(domain, 5.0),
    }
    labels = np.random.default_rng(0).integers(0, classes, records)
    curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(9))
    return curator.release(mechanisms[kind](), rng=np.random.default_rng(1))


KINDS = ["randomized response", "unary", "hashing"]
"""Mechanisms that take many classes: subsets and other tables are as large as they were declared."""


def uses(release: Any) -> dict[str, Callable[[], Any]]:
    """Every estimate of one class."""
    records = len(release.value)
    half = np.arange(records) % 2
    rows = ldp.Public(np.random.default_rng(2).normal(size=(records, 1)), why="made up")
    return {
        "mean": lambda: inference.mean(release, outcome=3),
        "mean of groups": lambda: inference.mean(release, outcome=3, groups=half),
        "mean of users": lambda: inference.mean(release, outcome=3, users=np.arange(records) // 2),
        "difference": lambda: inference.difference(release, half, outcome=3),
        "odds ratio": lambda: inference.odds_ratio(release, half, outcome=3),
        "regression": lambda: inference.regression(release, rows, outcome=3),
        "monitor": lambda: inference.monitor(release, outcome=3),
        "accuracy": lambda: debiased_accuracy(release, np.zeros(records, dtype=np.int64)),
    }


@pytest.mark.parametrize("kind", slow_cases(KINDS, ["unary"]))
def test_one_of_many_classes_needs_little_memory(kind: str) -> None:
    release = released(kind, 300, 10_000)
    for name, use in uses(release).items():
        held = peak(use)
        assert held < BLOCKS, (name, held / MIB)


@pytest.mark.parametrize("kind", KINDS)
def test_debiased_indicators_are_held_once(kind: str) -> None:
    release = released(kind, 300, 10_000)
    assert peak(lambda: debias(release.mechanism, release.value)) < 1.4 * 8 * 300 * 10_000


@pytest.mark.parametrize("kind", ["randomized response", pytest.param("unary", marks=pytest.mark.slow)])
def test_many_records_of_many_classes_are_read_in_blocks(kind: str) -> None:
    """All indicators together would be 800 MB."""
    release = released(kind, 100_000, 1000)
    assert peak(lambda: inference.mean(release)) < 2 * BLOCKS
    assert peak(lambda: inference.mean(release, outcome=3, users=np.arange(100_000) // 2)) < 2 * BLOCKS


@pytest.mark.parametrize("kind", [*KINDS, "subset"])
def test_naming_rates_are_those_of_the_inverse(kind: str) -> None:
    mechanism = released(kind, 50, 7).mechanism
    table = mechanism.unbiased(mechanism.singles()).values
    gap = 1 / (table[0, 0] - table[0, 1])
    own, other = mechanism.naming_rates()
    assert own - other == pytest.approx(gap) and other == pytest.approx(-table[0, 1] * gap)
