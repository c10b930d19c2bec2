"""Lower bounds from outputs: honest mechanisms stay below their claims, and mistakes of others are found."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from audit.peers import (
    draw_table,
    in_each_epoch,
    of_few_seeds,
    staircase,
    top_k_of_true_labels,
    with_prior,
)
from audit.test_exact import SKEWED
from labeldp.audit import LowerBound, audit_outputs, audit_sampler, guess_bound
from labeldp.audit.black_box import best_cut, check_level, epsilon_of_rates, rate_above, rate_below
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


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.9])
def test_bounds_of_rates_fail_as_rarely_as_they_say(rate: float) -> None:
    trials, miss = 60, 0.04
    hits = np.arange(trials + 1)
    mass = binom.pmf(hits, trials, rate)
    assert mass[rate_below(hits, trials, miss) > rate].sum() <= miss
    assert mass[rate_above(hits, trials, miss) < rate].sum() <= miss
    assert mass[rate_below(hits, trials, 3 * miss) > rate].sum() <= 3 * miss
    assert rate_below(0, 10, 0.1) == 0 and rate_above(10, 10, 0.1) == 1


@pytest.mark.guarantee("labeldp.audit:guess_bound", "bound")
@pytest.mark.parametrize("of", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_for_a_dp_mechanism_the_bound_is_above_epsilon_with_probability_miss_at_most(of: int, epsilon: float) -> None:
    guesses, miss = 200, 0.05
    share = math.exp(epsilon) / (math.exp(epsilon) + of - 1)
    found = [guess_bound(right, guesses, miss=miss, of=of) for right in range(guesses + 1)]
    mass = binom.pmf(np.arange(guesses + 1), guesses, share)
    missed = mass[np.array(found) > epsilon].sum()
    assert missed <= miss
    assert missed > 0.01  # and it is no more careful than it says
    assert found == sorted(found)


def test_a_mechanism_that_fails_with_probability_delta_stays_within_the_confidence() -> None:
    """Enumerated: with probability delta for each secret the label itself is shown, else randomized response."""
    secrets, delta, epsilon, miss = 100, 0.02, 1.0, 0.05
    keep = math.exp(epsilon) / (math.exp(epsilon) + 1)
    mass = binom.pmf(np.arange(secrets + 1), secrets, delta + (1 - delta) * keep)
    plain, right = (
        np.array([guess_bound(hits, secrets, miss=miss, delta=each) for hits in range(secrets + 1)])
        for each in (0.0, delta)
    )
    assert mass[right > epsilon].sum() <= miss
    assert bool((right <= plain).all()) and bool((right < plain).any())
    # All at once: with probability delta every secret is shown.
    at_once = delta * np.eye(secrets + 1)[secrets] + (1 - delta) * binom.pmf(np.arange(secrets + 1), secrets, keep)
    assert at_once[right > epsilon].sum() <= miss


def test_epsilon_of_two_rates() -> None:
    assert epsilon_of_rates(0.8, 0.2, 0.0) == pytest.approx(math.log(4))
    assert epsilon_of_rates(0.8, 0.2, 0.4) == pytest.approx(math.log(2))
    assert epsilon_of_rates(0.1, 0.2, 0.0) == epsilon_of_rates(0.1, 0.2, 0.3) == 0.0
    assert epsilon_of_rates(0.1, 0.0, 0.0) == math.inf


def test_the_cut_is_where_the_two_laws_are_farthest_apart() -> None:
    one, two = np.repeat([0.0, 1.0, 2.0], [500, 300, 200]), np.repeat([0.0, 1.0, 2.0], [500, 490, 10])
    cut, promise = best_cut(one, two, 0.05, 0.0)
    assert cut == 2.0 and 1.5 < promise < math.log(20)


def test_counts_that_cannot_be_are_refused() -> None:
    for arguments in ((5, 4), (-1, 4), (1, 4, 2)):
        with pytest.raises(InputError, match="guesses must lie in"):
            guess_bound(arguments[0], arguments[1], secrets=arguments[2] if len(arguments) > 2 else None)
    with pytest.raises(InputError, match=r"delta must lie in \[0, 1\), and be 0"):
        guess_bound(1, 2, delta=0.1, of=3)
    for level in (0, 1, "0.9", True, math.nan):
        with pytest.raises(InputError, match="level must lie between 0 and 1"):
            check_level(level)
    assert guess_bound(0, 0) == 0.0
