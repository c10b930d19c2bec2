"""Lower bounds from outputs: honest mechanisms stay below their claims, and mistakes of others are found."""

import math
from functools import partial

import numpy as np
import pytest

from audit.peers import (
    draw_table,
    in_each_epoch,
    of_few_seeds,
    staircase,
    top_k_of_true_labels,
    with_prior,
)
from audit.test_exact import SKEWED
from labeldp.audit import LowerBound, audit_outputs, audit_sampler
from labeldp.mechanisms import Classes, Mechanism, RandomizedResponse, UnaryEncoding
from labeldp.privacy import InputError
from mechanisms.examples import EXAMPLES


def bound_of(mechanism: Mechanism, runs: int, seed: int, labels: tuple[int, ...] = (0, 1)) -> LowerBound:
    """The bound of labels all alike but for the first one, by any mechanism."""
    rng, records = np.random.default_rng(seed), mechanism.records or 1

    def draw(first: int, count: int) -> np.ndarray:
        codes = np.zeros(records, dtype=mechanism.domain.dtype)
        codes[0] = first
        if mechanism.records is None:
            return np.asarray(mechanism.randomize(np.full(count, first, dtype=codes.dtype), rng=rng))
        return np.array([np.ravel(mechanism.randomize(codes, rng=rng)) for _ in range(count)])

    return audit_sampler(draw, labels, runs=runs, seed=seed)


def test_randomized_response_at_epsilon_1_shows_nearly_all_of_it() -> None:
    """The acceptance test: from 10^5 outputs, at least .9."""
    for classes in (2, 10):
        mechanism = RandomizedResponse(domain=Classes(classes), epsilon=1)
        bound = bound_of(mechanism, 50_000, seed=1)
        assert 0.9 <= bound.epsilon <= 1.0
        assert not bound.refutes(1.0)
        assert "outputs of" in str(bound)


@pytest.mark.guarantee("labeldp.audit:audit_outputs", "bound")
def test_the_bound_is_above_epsilon_with_probability_1_minus_level_at_most() -> None:
    mechanism = RandomizedResponse(domain=Classes(2), epsilon=1)
    above = sum(bound_of(mechanism, 500, seed).epsilon > 1 for seed in range(300))
    assert above <= 15 + 4 * math.sqrt(15)
    loose = [bound_of(mechanism, 500, seed).epsilon for seed in range(20)]
    assert min(loose) > 0.1


@pytest.mark.parametrize("name", ["top two", "two bits", "grid of six", "few numbers"])
def test_honest_mechanisms_are_not_refuted(name: str) -> None:
    mechanism = EXAMPLES[name](1.0)
    labels = (0, mechanism.domain.size - 1)
    bounds = [bound_of(mechanism, 300, seed, labels).epsilon for seed in range(6)]
    assert sum(each > 1.0 for each in bounds) <= 2
    assert max(bounds) > 0


def test_bits_are_heard_together() -> None:
    bound = bound_of(UnaryEncoding(domain=Classes(2), epsilon=2), 40_000, seed=3)
    assert 1.7 < bound.epsilon <= 2


def test_answers_outside_of_the_candidates_are_found() -> None:
    rng = np.random.default_rng(5)
    wrong, right = with_prior(SKEWED, 1, outside="all"), with_prior(SKEWED, 1)
    draws = {True: right, False: wrong}
    bounds = {
        honest: audit_sampler(lambda y, n, table=table: draw_table(table, y, n, rng), [0, 5, 9], runs=20_000)
        for honest, table in draws.items()
    }
    assert bounds[False].refutes(1.5)
    assert not bounds[True].refutes(1.0)


def test_noise_that_is_drawn_anew_in_each_epoch_is_found() -> None:
    rng = np.random.default_rng(6)
    bound = audit_sampler(lambda y, n: in_each_epoch(np.full(n, y), 2, 1.0, 5, rng), [0, 1], runs=20_000)
    assert bound.refutes(2.5) and bound.epsilon < 5


def test_a_prior_from_true_labels_is_found() -> None:
    rng = np.random.default_rng(7)
    one, two = (0, 0, 1, 1, 2), (0, 0, 2, 1, 2)
    bound = audit_sampler(lambda y, n: top_k_of_true_labels(list(y), 3, n, rng), [one, two], runs=5_000)
    assert bound.refutes(1.5)


def test_a_wrong_staircase_is_found_and_a_right_one_is_not() -> None:
    bounds = []
    for right in (True, False):
        draw = partial(_shifted, rng=np.random.default_rng(8), right=right)
        bounds.append(audit_sampler(draw, [0, 1], runs=50_000))
    assert not bounds[0].refutes(1.0) and bounds[0].epsilon > 0.8
    assert bounds[1].refutes(1.5)


def _shifted(label: int, count: int, rng: np.random.Generator, right: bool) -> np.ndarray:
    return label + staircase(count, 1.0, rng, right=right)


def test_a_seed_of_8_bits_is_found() -> None:
    rng = np.random.default_rng(9)
    one, two = [0] * 24, [1] + [0] * 23
    bound = audit_sampler(lambda y, n: of_few_seeds(list(y), n, rng), [tuple(one), tuple(two)], runs=4_000)
    assert bound.refutes(3.0)


def test_a_delta_is_taken_off() -> None:
    """The label itself in one of ten: unbounded, but (1, 0.1)-DP."""
    rng = np.random.default_rng(10)

    def draw(label: int, count: int) -> np.ndarray:
        noisy = in_each_epoch(np.full(count, label), 2, 1.0, 1, rng)[:, 0]
        return np.where(rng.random(count) < 0.1, 10 + label, noisy)

    assert audit_sampler(draw, [0, 1], runs=20_000).refutes(1.5)
    assert not audit_sampler(draw, [0, 1], runs=20_000, delta=0.1).refutes(1.0)


def test_texts_and_bytes_are_outputs_too() -> None:
    rng = np.random.default_rng(11)
    texts = {y: [f"answer {each}" for each in rng.random(1000) < (0.2, 0.8)[y]] for y in (0, 1)}
    assert audit_outputs(texts).epsilon > 0.8
    assert audit_outputs({y: [each.encode() for each in texts[y]] for y in texts}).epsilon > 0.8


@pytest.mark.parametrize(
    ("outputs", "options", "message"),
    [
        ({0: [1, 2, 3, 4]}, {}, "two labels or more"),
        ({0: [1, 2, 3, 4], 1: [[1, 2]] * 4}, {}, "of one shape"),
        ({0: [1, 2, 3], 1: [1, 2, 3]}, {}, "at least four outputs"),
        ({0: [], 1: []}, {}, "must hold an array of outputs"),
        ({0: [math.nan] * 4, 1: [1.0] * 4}, {}, "must be finite"),
        ({0: [1] * 4, 1: [1] * 4}, {"level": 1}, "level must lie"),
        ({0: [1] * 4, 1: [1] * 4}, {"delta": -1}, "delta must lie"),
        ({0: [1] * 4, 1: [1] * 4}, {"split": 0}, "split must lie"),
    ],
)
def test_what_cannot_be_audited_is_refused(outputs: dict, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit_outputs(outputs, **options)
