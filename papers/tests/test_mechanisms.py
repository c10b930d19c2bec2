"""Mechanisms of the papers keep the whole contract; broken ones are caught; what they draw is recorded."""

import inspect
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.learners import CubeGrid
from labeldp.mechanisms import Classes, Interval, Mechanism
from labeldp.privacy import InputError, KeyedRandomness, Trust, positive_epsilon
from labeldp.testing import ContractViolation, check_mechanism
from mechanisms.recorded import recorded
from papers.rates.whole_records import FullMeans, FullSelection, Located
from papers.tests.examples import EXAMPLES

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))


def leaves(kind: type) -> set[type]:
    """The concrete classes of `papers` below a class."""
    below = set().union(*(leaves(child) for child in kind.__subclasses__()))
    concrete = kind.__module__.startswith("papers.") and not kind.__module__.startswith("papers.tests")
    return below | ({kind} if concrete and not inspect.isabstract(kind) else set())


def test_no_mechanism_is_missing_here() -> None:
    assert leaves(Mechanism) == {type(make(1)) for make in EXAMPLES.values()}


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 4])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_mechanism_keeps_its_contract(name: str, epsilon: float) -> None:
    """epsilon-DP for each record, features and label.

    epsilon-DP for each record, features and label, for the emitted bits.
    None: delta = mk/n for every epsilon, and nothing better.
    """
    check_mechanism(EXAMPLES[name](epsilon))


@pytest.mark.parametrize("name", EXAMPLES)
def test_specification_cost_and_draws_are_recorded(name: str) -> None:
    assert set(RECORDED) == set(EXAMPLES)
    assert json.loads(json.dumps(recorded(EXAMPLES[name](1.0)))) == RECORDED[name]


@pytest.mark.parametrize("epsilon", ["1e-30", 1e-300])
@pytest.mark.parametrize("name", [name for name in EXAMPLES if hasattr(EXAMPLES[name](1), "epsilon")])
def test_an_epsilon_that_64_bits_cannot_express_is_refused(name: str, epsilon: Any) -> None:
    for make in (EXAMPLES[name], EXAMPLES[name](1).with_epsilon):  # type: ignore[attr-defined]
        with pytest.raises(InputError, match=r"epsilon.* too small"):
            make(epsilon)


@pytest.mark.parametrize("name", EXAMPLES)
def test_keyed_noise_that_would_repeat_is_refused(name: str) -> None:
    mechanism, key = EXAMPLES[name](1.0), KeyedRandomness(b"k" * 32)
    labels = np.zeros(mechanism.records or 20, dtype=mechanism.domain.dtype)
    assert mechanism.trust is (Trust.NONE if name == "naive bags" else Trust.CENTRAL)
    with pytest.raises(InputError, match="noise that belongs to no record"):
        mechanism.randomize(labels, rng=key)
    named = key.bind(b"column, state, part")
    first, again = (mechanism.randomize(labels, rng=named, ids=np.arange(len(labels))) for _ in range(2))
    assert np.array_equal(first, again)


class FullAtWholeEpsilon(FullSelection):
    """The exponent epsilon for each count, though a record leaves one cell and enters another."""

    @property
    def unit(self) -> Fraction:
        return positive_epsilon(self.epsilon)


class OneCellMoves(FullMeans):
    """Counts the cell that a record enters and forgets the one that it leaves."""

    @property
    def moved(self) -> Fraction:
        return super().moved / 2


class EmptyCellsNotDivided(FullMeans):
    """Divides by the number of records of a cell, which is private, and not by n_0 where there are fewer."""

    def rounded(self, table: Any) -> Any:
        twice = 2 * np.arange(self.interval.size) - (self.interval.size - 1)
        return np.rint(table @ twice / np.maximum(table.sum(axis=1), 1) * self.fine).astype(np.int64)


FULL = Located(CubeGrid.of_side(0.5, [(0, 1), (0, 1)]), Classes(3))
NUMBERS = Located(CubeGrid.of_side(0.5, [(0, 1), (0, 1)]), Interval(-1, 1, grid=6))


@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
@pytest.mark.parametrize(
    ("mutant", "arguments"),
    [
        (FullAtWholeEpsilon, {"domain": FULL}),
        (OneCellMoves, {"domain": NUMBERS, "smallest": 2}),
        (EmptyCellsNotDivided, {"domain": NUMBERS, "smallest": 3}),
    ],
)
def test_a_broken_mechanism_is_caught(mutant: type, arguments: dict[str, Any], epsilon: float) -> None:
    with pytest.raises(ContractViolation, match="replacing one record costs at most epsilon"):
        check_mechanism(mutant(epsilon=epsilon, **arguments))
