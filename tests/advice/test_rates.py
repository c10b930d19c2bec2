"""The noise of a cell is that of our mechanisms, and the balance of bias and noise is where it should be."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.advice import cell_noise, exponent, relative_records
from labeldp.advice.rates import CellNoise, balance, rate_terms
from labeldp.mechanisms import (
    Classes,
    DiscreteLaplace,
    Interval,
    LaplaceSum,
    UnaryEncoding,
    debias,
)
from labeldp.privacy import InputError, Public

SIGMAS = 7.4


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_local_classes_have_the_noise_of_unary_bits(epsilon: float) -> None:
    """1/(2 sinh²(ε/4)) beside the scatter 1 of two classes that tie, whatever the number of classes."""
    rng = np.random.default_rng(0)
    for classes in (2, 7):
        bits = UnaryEncoding(domain=Classes(classes), epsilon=epsilon)
        labels = rng.integers(0, 2, 40_000)
        values = debias(bits, bits.randomize(labels, rng=rng)).values
        lead = values[:, 0] - values[:, 1]
        noise = cell_noise(task="classification", epsilon=epsilon)
        total = noise.scatter + noise.record
        assert np.mean(lead**2) == pytest.approx(total, abs=SIGMAS * np.std(lead**2) / 200)
        assert noise.record == pytest.approx(1 / (2 * math.sinh(epsilon / 4) ** 2))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_local_numbers_have_the_noise_of_clipped_geometric_noise(epsilon: float) -> None:
    """(4/ε²)(2 - e^(-ε/2)) at the middle of the range, where it is largest, but for the width of the grid."""
    grid = Interval(-1, 1, grid=257)
    local = DiscreteLaplace(domain=grid, epsilon=epsilon)
    values, law = debias(local, np.arange(257)).values, local.matrix()
    variances = law @ values**2 - (law @ values) ** 2
    found = cell_noise(task="regression", epsilon=epsilon).record
    assert variances.max() == pytest.approx(found, rel=0.02)
    assert int(np.argmax(variances)) == 128


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_central_numbers_have_the_noise_of_sums(epsilon: float) -> None:
    sums = LaplaceSum(domain=Interval(-1, 1), epsilon=epsilon, groups=Public([0], why="one"))
    noise = cell_noise(task="regression", trust="central", epsilon=epsilon)
    assert noise.cell == pytest.approx(2 * sums.scale**2)


def test_full_local_noise_by_hand() -> None:
    """Laplace noise of scale 2/ε on K indicators of each cell; of scale 4T/ε on labels, and 4/ε on indicators."""
    classes = cell_noise(task="classification", protection="full", epsilon=0.5)
    assert classes.everyone == pytest.approx(2 * 2 * (2 / 0.5) ** 2)
    numbers = cell_noise(task="regression", protection="full", epsilon=0.5)
    assert numbers.everyone == pytest.approx(2 * (4 / 0.5) ** 2 + 2 * (4 / 0.5) ** 2)


def test_a_variance_by_hand() -> None:
    noise = CellNoise(0.5, record=2.0, cell=30.0, everyone=0.1)
    assert noise.variance(10, 1000) == pytest.approx(0.05 + 0.2 + 0.3 + 1.0)
    assert noise.variance(10, 1000, reach=2.0) == pytest.approx(0.05 + 4 * 1.5)


@given(
    st.integers(1, 6),
    st.floats(0.2, 1),
    st.one_of(st.just(math.inf), st.floats(2, 9)),
    st.tuples(*[st.floats(0, 50)] * 3),
    st.floats(0.01, 2),
)
def test_a_balance_is_least(
    dimension: int, beta: float, moments: float, added: tuple[float, float, float], scatter: float
) -> None:
    """No other side and no other radius has a smaller sum of squared bias and variance."""
    noise = CellNoise(scatter, *(0.0 if each < 1e-3 else each for each in added))
    found = balance(records=1e6, noise=noise, dimension=dimension, beta=beta, moments=moments)
    for wider in (0.5, 0.9, 1.1, 2.0):
        for farther in (0.5, 0.9, 1.0, 1.1, 2.0):
            side = min(1.0, found.side * wider)
            reach = found.reach * farther if math.isfinite(moments) and math.isfinite(found.reach) else found.reach
            inside = 1e6 * side**dimension
            cut = reach ** (1 - moments) / (moments - 1) if math.isfinite(moments) else 0.0
            variance = noise.variance(inside, 1e6, reach=reach) if math.isfinite(reach) else scatter / inside
            assert found.error <= (side ** (2 * beta) + cut**2 + variance) * (1 + 1e-9)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("trust", ["local", "central"])
@pytest.mark.parametrize("protection", ["label", "full"])
@pytest.mark.parametrize("dimension", [1, 3])
def test_the_balance_falls_as_table_1_says(task: str, trust: str, protection: str, dimension: int) -> None:
    """Its exponent in the records is that of the rate: for classes a difference squared, a margin of 1."""
    noise = cell_noise(task=task, trust=trust, protection=protection, epsilon=0.5)
    records = [1e14, 1e16]
    errors = [balance(records=n, noise=noise, dimension=dimension, beta=0.8).error for n in records]
    found = -math.log(errors[1] / errors[0]) / math.log(100)
    expected = exponent(task=task, trust=trust, protection=protection, dimension=dimension, beta=0.8, margin=1.0)
    assert found == pytest.approx(expected, abs=0.02)


def test_relative_records_by_hand() -> None:
    """Where noise is on records it is their variance against the scatter; central noise fades as records grow."""
    local = cell_noise(task="classification", epsilon=1)
    setting: dict[str, Any] = {"dimension": 3, "beta": 0.7}
    assert relative_records(records=1e5, noise=local, **setting) == pytest.approx(1 + local.record, rel=1e-4)
    assert relative_records(records=1e5, noise=CellNoise(1.0), **setting) == pytest.approx(1, rel=1e-5)
    central = cell_noise(task="classification", trust="central", epsilon=1)
    few, many = (relative_records(records=n, noise=central, **setting) for n in (1e3, 1e7))
    assert few > many > 1
    found = relative_records(records=1e5, noise=central, **setting)
    errors = [
        balance(records=n, noise=noise, **setting).error for n, noise in ((1e5, CellNoise(1.0)), (1e5 * found, central))
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-5)


def test_large_epsilons_do_not_overflow() -> None:
    assert cell_noise(task="classification", epsilon=1000).record == pytest.approx(0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "ranking"}, "task must be"),
        ({"trust": "none"}, "trust must be"),
        ({"protection": "some"}, "protection must be"),
        ({"epsilon": None}, "epsilon is missing"),
        ({"epsilon": -1}, "epsilon"),
        ({"task": "regression", "spread": 0}, "spread must be a positive"),
    ],
)
def test_what_has_no_noise_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        cell_noise(**{"task": "classification", "epsilon": 1, **changes})


def test_what_has_no_balance_is_refused() -> None:
    noise = CellNoise(1.0)
    for changes, words in (
        ({"beta": 2.0}, "beta must lie in"),
        ({"moments": 1.0}, "moments must be at least 2"),
        ({"records": 0}, "records must be a positive"),
        ({"dimension": 0}, "dimension"),
    ):
        setting: dict[str, Any] = {"records": 10, "dimension": 1, **changes}
        with pytest.raises(InputError, match=words):
            balance(noise=noise, **setting)


# d = 3, beta = 1/2, margin = 2, p = 3: Table I, corrected, by hand.
BY_HAND = {
    ("classification", "local", "label"): 1.5 / 4,
    ("classification", "local", "full"): 1.5 / 7,
    ("classification", "central", "label"): 1.5 / 4,
    ("classification", "central", "full"): 1.5 / 4,
    ("regression", "local", "label"): 1 / 4,
    ("regression", "local", "full"): 0.5 / 3.5,
    ("regression", "central", "label"): 1 / 4,
    ("regression", "central", "full"): 1 / 4,
    ("heavy-tailed", "local", "label"): 2 / (3 + 6),
    ("heavy-tailed", "local", "full"): 1 / (1.5 + 6),
    ("heavy-tailed", "central", "label"): 1 / 4,
    ("heavy-tailed", "central", "full"): 1 / 4,
}
SECOND = {"classification": 1.5 / 3.5, "regression": 1 / 3.5, "heavy-tailed": 2 / (1.5 + 6)}


@pytest.mark.parametrize("row", BY_HAND)
def test_every_row_of_table_1_by_hand(row: tuple[str, str, str]) -> None:
    setting: dict[str, Any] = dict(zip(("task", "trust", "protection"), row, strict=True))
    setting |= {"dimension": 3, "beta": 0.5, "margin": 2.0, "moments": 3.0}
    assert exponent(**setting) == pytest.approx(BY_HAND[row])
    if row[1] == "central":
        public, private = rate_terms(**setting)
        assert (private.exponent, private.power, public.power) == (pytest.approx(SECOND[row[0]]), 1, 0)
