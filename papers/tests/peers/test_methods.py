"""Each method of another paper learns on made-up records, and promises what it was asked for."""

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from labeldp.mechanisms import Classes, Interval
from papers.peers import methods
from papers.peers.footing import Footing
from papers.peers.run import PEER_METHODS


def columns(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 6)) * [3, 2, 1, 1, 0.5, 0.5]


def classes(table: np.ndarray) -> np.ndarray:
    """Four classes by the signs of the two widest columns."""
    return 2 * (table[:, 0] > 0) + (table[:, 1] > 0)


def numbers(table: np.ndarray) -> np.ndarray:
    return np.clip(50 + 10 * table[:, 0] - 5 * table[:, 1], 0, 100)


def side_of(domain: Any, label: Callable[[np.ndarray], np.ndarray], count: int) -> Footing:
    own, other = columns(count, 0), columns(1000, 1)
    return Footing("made up", domain, own, label(own), other, label(other))


@pytest.fixture(scope="module")
def sides() -> dict[bool, Footing]:
    return {
        False: side_of(Classes(4), classes, 2000),
        True: side_of(Interval(0, 100, grid=129), numbers, 2000),
    }


PLAIN = [name for name, method in PEER_METHODS.items() if not method.network]

LEAST = {"pate": 0.6, "weighted-llp": 30, "laplace": 12, "rr-on-bins": 16, "local-numbers": 16, "central-numbers": 12}
"""Accuracies below and errors above which a method did not learn; a constant has an error of 30, chance is 0.25."""


@pytest.mark.parametrize("name", PLAIN)
def test_a_method_learns_and_promises_what_it_was_asked_for(name: str, sides: dict[bool, Footing]) -> None:
    method = PEER_METHODS[name]
    side, epsilon, delta = sides[method.numbers], 4.0, 1e-6 if method.delta else 0.0
    release = method.learn(side, epsilon, delta, np.random.default_rng(0))
    found = side.measure(release.value)
    assert found < LEAST[name] if method.numbers else found > LEAST.get(name, 0.85), found
    assert release.certificate.epsilon(delta) <= epsilon
    assert release.certificate.epsilon(delta) > 0.98 * epsilon, "no more is promised than was asked for"
    central = method.delta or name == "cluster-resampling"
    assert release.certificate.trust.name == ("CENTRAL" if central else "LOCAL")
    assert "SIMULATION" in release.certificate.at(delta)


def test_the_labels_themselves_are_learned(sides: dict[bool, Footing]) -> None:
    assert sides[False].measure(methods.labels_themselves(sides[False])) > 0.95
    assert sides[True].measure(methods.labels_themselves(sides[True])) < 5


def test_pate_says_that_a_label_moves_the_votes_of_one_teacher(sides: dict[bool, Footing]) -> None:
    release = methods.pate(sides[False], 2.0, 1e-6, np.random.default_rng(0))
    assert "a label moves the votes of one teacher" in release.certificate.at(1e-6)
    assert len(release.certificate.entries) in methods.QUERIES


@pytest.mark.parametrize("rate", [0.1, 0.5, 2.0])
def test_blurred_bits_have_the_law_of_laplace_noise(rate: float) -> None:
    """Bits of an indicator, blurred, beside the indicator with Laplace noise, cut to [0, 1]: for both indicators."""
    rng, count = np.random.default_rng(0), 400_000
    for indicator in (0, 1):
        keep = math.exp(rate) / (1 + math.exp(rate))
        bits = np.where(rng.random(count) < keep, indicator, 1 - indicator).astype(bool)
        made = methods.blurred(bits, rate, rng)
        for edge in (0.0, 0.2, 0.5, 0.9):
            away = edge - indicator
            expected = 0.5 * math.exp(rate * away) if away < 0 else 1 - 0.5 * math.exp(-rate * away)
            share = float(np.mean(made <= edge))
            assert abs(share - expected) < 7.5 * math.sqrt(expected * (1 - expected) / count), (indicator, edge)
        assert made.min() >= 0 and made.max() == 1


def test_answers_spread_to_neighbors_and_stay_within_their_cluster() -> None:
    table = np.random.default_rng(0).normal(size=(200, 2)) + 50 * (np.arange(200) % 2)[:, None]
    given = np.zeros((200, 2))
    given[0, 0] = given[1, 1] = 1
    soft = methods.spread(table, given)
    assert np.allclose(soft.sum(axis=1), 1)
    assert np.mean(soft.argmax(axis=1) == np.arange(200) % 2) == 1


def test_walr_has_the_gradient_of_logistic_regression_with_noisy_sums() -> None:
    """By hand: at the solution, sums that the model expects and the penalty make up for the released sums."""
    rng = np.random.default_rng(0)
    rows, moment = rng.normal(size=(50, 3)), rng.normal(size=(3, 2)) * 5
    found = methods.fit_walr(rows, moment, 2.0)
    assert np.allclose(rows.T @ softmax(rows @ found, axis=1) + 2.0 * found, moment, atol=1e-3)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not here")
@pytest.mark.parametrize("name", [name for name, method in PEER_METHODS.items() if method.network])
def test_label_only_gradients_learn_and_promise_what_they_were_asked_for(name: str, sides: dict[bool, Footing]) -> None:
    release = PEER_METHODS[name].learn(sides[False], 4.0, 1e-6, np.random.default_rng(0))
    assert sides[False].measure(release.value) > 0.7
    assert release.certificate.epsilon(1e-6) <= 4.0 and release.certificate.epsilon(1e-6) > 3.9
    assert release.certificate.trust.name == "CENTRAL"
