"""Prefix sums under Toeplitz noise: both norms, the noise that comes out, what it reveals, and memory."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from labeldp.online import (
    ToeplitzSums,
    square_root_norm,
)
from labeldp.online import prefix_sums as noise
from labeldp.online.prefix_sums import toeplitz_factor, toeplitz_stddev
from labeldp.privacy import InputError, KeyedRandomness, as_randomness

FALSE_ALARM = 1e-12


def rng(seed: int):
    return as_randomness(np.random.default_rng(seed))


def dense(rounds: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """B and C for so many rounds of a horizon."""
    factor = toeplitz_factor(horizon)
    column = ((1 - factor.gaps) ** np.arange(rounds)[:, None]) @ factor.weights
    lags = np.subtract.outer(np.arange(rounds), np.arange(rounds))
    c = np.where(lags >= 0, column[np.abs(lags)], 0.0)
    return np.tri(rounds) @ np.linalg.inv(c), c


def played(sums: ToeplitzSums, vectors: np.ndarray, splits: list[int], seed: int) -> np.ndarray:
    """The noisy sums of all rounds, in several steps."""
    state, parts, start, source = sums.init(), [], 0, rng(seed)
    for count in splits:
        state, part = sums.step(state, vectors[start : start + count], rng=source)
        parts.append(part)
        start += count
    return np.concatenate(parts)


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "discrete_gaussian", lambda stream, _: np.zeros(len(stream), dtype=np.int64))


@pytest.mark.parametrize(("horizon", "product"), [(10**4, 4.00), (10**5, 4.73), (10**6, 5.46), (10**7, 6.20)])
def test_the_square_root_has_the_norms_of_the_literature(horizon: int, product: float) -> None:
    assert square_root_norm(horizon) == pytest.approx(product, abs=0.005)


def test_the_square_root_norm_is_the_sum_of_squares() -> None:
    numbers = np.arange(1, 50_000)
    coefficients = np.cumprod(np.r_[1.0, (2 * numbers - 1) / (2 * numbers)])
    for horizon in (1, 2, 3, 4096, 4097, 50_000):
        assert square_root_norm(horizon) == pytest.approx((coefficients[:horizon] ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 1000, 10**5, 10**7, 10**12])
def test_exponentials_lose_less_than_one_percent(horizon: int) -> None:
    factor = toeplitz_factor(horizon)
    assert 1 <= factor.product / square_root_norm(horizon) < 1.002
    assert len(factor.gaps) <= 6 + math.log(horizon) / 2.5


@pytest.mark.guarantee("labeldp.online:ToeplitzFactor", "never_below")
@pytest.mark.parametrize("horizon", [1, 2, 3, 17, 300])
def test_norms_are_those_of_the_dense_matrices(horizon: int) -> None:
    b, c = dense(horizon, horizon)
    factor = toeplitz_factor(horizon)
    for rounds in {1, (horizon + 1) // 2, horizon}:
        exact = np.linalg.norm(c[:rounds], axis=0).max()
        assert exact <= factor.column(rounds) <= exact * (1 + 3e-9)
    assert factor.row == pytest.approx(np.linalg.norm(b, axis=1).max(), rel=1e-9)
    assert factor.column(0) == 0


@pytest.mark.parametrize(("width", "splits"), [(5, [1, 2, 40, 700, 57]), (5, [800]), (2500, [33, 7]), (1, [1] * 50)])
def test_without_noise_the_sums_are_exact(no_noise: None, width: int, splits: list[int]) -> None:
    vectors = np.random.default_rng(0).uniform(-1, 1, size=(sum(splits), width))
    sums = played(ToeplitzSums(10**6, width, 10.0), vectors, splits, 0)
    assert sums == pytest.approx(np.cumsum(vectors, axis=0), abs=1e-6)


def test_the_secret_sums_stay_within_the_bound_of_rounding(no_noise: None) -> None:
    horizon, rounds = 10**7, 30_000
    sums, factor = ToeplitzSums(horizon, 1, 10.0), toeplitz_factor(horizon)
    state, exact = sums.init(), np.zeros(len(factor.gaps), dtype=np.longdouble)
    decay = 1 - factor.gaps.astype(np.longdouble)
    for count in [1] * 200 + [rounds - 200]:
        state, _ = sums.step(state, np.ones((count, 1)), rng=rng(0))
    exact = (1 - np.exp(rounds * np.log1p(-factor.gaps.astype(np.longdouble)))) / (1 - decay)
    error = np.abs(state.exact[:, 0] - exact) @ factor.weights
    assert error <= sums.rounding and error <= 2.0**-53 * (sums.rows + 14) * factor.reach


def statistic(whitened: np.ndarray) -> float:
    """How far rows are from independent ones of variance 1: chi-squared with r (r + 1) / 2 degrees of freedom."""
    rows, samples = whitened.shape
    excess = whitened @ whitened.T / samples - np.eye(rows)
    return samples / 2 * float((excess**2).sum())


@pytest.mark.parametrize(("rounds", "width", "splits"), [(6, 60_000, [2, 4]), (40, 3000, [3, 30, 7])])
def test_the_noise_has_covariance_b_b(rounds: int, width: int, splits: list[int]) -> None:
    """The covariance over rounds is that of B times its transpose and the variance; others are told apart."""
    sums = ToeplitzSums(1000, width, 3.0)
    noisy = played(sums, np.zeros((rounds, width)), splits, 11)
    b, _ = dense(rounds, 1000)
    limit = chi2.isf(FALSE_ALARM, rounds * (rounds + 1) // 2)
    assert statistic(np.linalg.solve(3.0 * b, noisy)) < limit
    repeated = np.outer(b.sum(axis=1), np.ones(width)) * 3.0 * np.random.default_rng(1).standard_normal(width)
    fresh = 3.0 * np.linalg.norm(b, axis=1)[:, None] * np.random.default_rng(2).standard_normal((rounds, width))
    for wrong in (repeated, fresh, 1.03 * noisy if rounds == 6 else 1.2 * noisy):
        assert statistic(np.linalg.solve(3.0 * b, wrong)) > limit


@pytest.mark.guarantee("labeldp.online:NoisyPrefixSums", "causal")
def test_a_sum_depends_on_the_vectors_before_it_alone() -> None:
    sums, vectors = ToeplitzSums(100, 3, 1.0), np.random.default_rng(0).uniform(size=(60, 3))
    whole = played(sums, vectors, [60], 5)
    for start in (0, 1, 31, 59):
        other = vectors.copy()
        other[start:] = -vectors[start:]
        assert played(sums, other, [60], 5)[:start] == pytest.approx(whole[:start], abs=1e-9)


def mu_of(loss) -> float:
    """The parameter of the Gaussian part."""
    [(gaussian, _)] = [pair for pair in loss.atoms if hasattr(pair[0], "mu")]
    return gaussian.mu


@pytest.mark.guarantee("labeldp.online:ToeplitzSums", "gaussian")
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_mu_is_that_of_the_worst_pair(rounds: int) -> None:
    experts, stddev, horizon = 2, 2.0, 3
    _, c = dense(rounds, horizon)
    worst = 0.0
    for losses in itertools.product((0.0, 1.0), repeat=rounds * experts):
        x = np.reshape(losses, (rounds, experts))
        for place, other in itertools.product(range(rounds), itertools.product((0.0, 1.0), repeat=experts)):
            moved = np.zeros_like(x)
            moved[place] = np.array(other) - x[place]
            worst = max(worst, float(np.linalg.norm(c @ moved)) / stddev)
    claimed = mu_of(ToeplitzSums(horizon, experts, stddev).privacy_loss(math.sqrt(experts), rounds))
    assert worst <= claimed <= worst * 1.000001
    forgotten = mu_of(ToeplitzSums(horizon, experts, stddev).privacy_loss(1.0, rounds))
    assert forgotten < worst, "a sensitivity without the square root of the number of experts is caught"


def test_the_released_integers_move_as_the_proof_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    monkeypatch.setattr(noise, "discrete_gaussian", lambda stream, _: np.zeros(len(stream), dtype=np.int64))
    rint = np.rint
    monkeypatch.setattr(noise.np, "rint", lambda values: seen.append(rint(values)) or seen[-1])
    sums, vectors = ToeplitzSums(10**4, 2, 50.0), np.random.default_rng(4).integers(0, 256, size=(500, 2)) / 255
    other = vectors.copy()
    other[100] = 1 - np.round(vectors[100])
    for each in (vectors, other):
        sums.step(sums.init(), each, rng=rng(0))
    half = len(seen) // 2
    moved = np.concatenate(seen[half:]) - np.concatenate(seen[:half])
    assert (moved == np.rint(moved)).all() and not moved[:100].any() and moved[100].any()
    reach = float(np.linalg.norm(other[100] - vectors[100]))
    assert np.linalg.norm(moved) / 2**36 <= mu_of(sums.privacy_loss(reach, 500))


def test_vectors_that_hardly_differ_may_be_rounded_apart(no_noise: None) -> None:
    """On a coarse grid nearly all of the move is rounding: what is charged covers it."""
    sums, width = ToeplitzSums(1, 4, 0.3 * 2**36), 4
    half = 0.5 / (dense(1, 1)[1][0, 0] * sums.scale)
    low, high = (sums.step(sums.init(), np.full((1, width), half * share), rng=rng(0))[1] for share in (0.999, 1.001))
    assert (low == 0).all() and (high > half).all(), "each number moves by a step of the grid"
    reach = 0.002 * half * math.sqrt(width)
    assert mu_of(sums.privacy_loss(reach, 1)) >= math.sqrt(width) / 2**36


def test_a_prefix_costs_less_and_nothing_costs_nothing() -> None:
    sums = ToeplitzSums(1000, 4, 5.0)
    costs = [sums.privacy_loss(2.0, rounds).epsilon(1e-6) for rounds in (0, 1, 10, 1000)]
    assert costs[0] == 0 and costs == sorted(set(costs))


@pytest.mark.parametrize(("horizon", "width", "epsilon"), [(1, 1, 1.0), (10**5, 100, 0.1), (10**7, 1000, 8.0)])
def test_the_smallest_stddev_keeps_the_promise_and_less_does_not(horizon: int, width: int, epsilon: float) -> None:
    reach = math.sqrt(width)
    stddev = toeplitz_stddev(horizon, width, reach, epsilon, 1e-6)
    assert ToeplitzSums(horizon, width, stddev).privacy_loss(reach, horizon).within(epsilon, 1e-6)
    assert not ToeplitzSums(horizon, width, stddev * 0.99999).privacy_loss(reach, horizon).within(epsilon, 1e-6)
    mu = reach * toeplitz_factor(horizon).column() / stddev
    assert mu_of(ToeplitzSums(horizon, width, stddev).privacy_loss(reach, horizon)) == pytest.approx(mu, rel=1e-4)


def test_memory_does_not_grow_with_the_rounds() -> None:
    sums = ToeplitzSums(10**6, 3, 5.0)
    state, _ = sums.step(sums.init(), np.ones((5000, 3)), rng=rng(0))
    assert [np.shape(getattr(state, name)) for name in ("exact", "errors", "public", "total")] == [(10, 3)] * 3 + [(3,)]
    assert repr(state) == "SumsState(rounds=5000, width=3)"


def step(sums: ToeplitzSums, vectors: object, randomness: object = None) -> None:
    sums.step(sums.init(), vectors, rng=randomness or rng(0))


REFUSED = {
    "too many rounds": (lambda: step(ToeplitzSums(3, 2, 1.0), np.zeros((4, 2))), "more rounds than the horizon of 3"),
    "a wrong width": (lambda: step(ToeplitzSums(3, 2, 1.0), np.zeros((1, 3))), r"shape \(rounds, 2\)"),
    "one axis": (lambda: step(ToeplitzSums(3, 2, 1.0), np.zeros(2)), r"shape \(rounds, 2\)"),
    "a large number": (lambda: step(ToeplitzSums(3, 2, 1.0), np.full((1, 2), 1.01)), "entries from -1 to 1"),
    "no number": (lambda: step(ToeplitzSums(3, 2, 1.0), np.full((1, 2), np.nan)), "entries from -1 to 1"),
    "keyed noise": (lambda: step(ToeplitzSums(3, 2, 1.0), np.zeros((1, 2)), KeyedRandomness(bytes(32))), "repeat"),
    "no rounds": (lambda: toeplitz_factor(0), "horizon must be an integer, at least 1"),
    "half a round": (lambda: ToeplitzSums(1.5, 2, 1.0), "horizon must be an integer, at least 1"),
    "no width": (lambda: ToeplitzSums(3, 0, 1.0), "width must be an integer, at least 1"),
    "no noise": (lambda: ToeplitzSums(3, 2, 0), "stddev must be positive"),
    "little noise": (lambda: ToeplitzSums(10**6, 2, 1e-9), "stddev is too small"),
    "no delta": (lambda: toeplitz_stddev(10, 2, 1.0, 1.0, 0), "delta is too small for Gaussian noise"),
    "no epsilon": (lambda: toeplitz_stddev(10, 2, 1.0, -1, 1e-6), "epsilon must be positive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        call()
