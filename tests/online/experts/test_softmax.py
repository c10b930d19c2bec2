"""Experts by noisy sums: the law of their actions, what it reveals, and what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from scipy.stats import chi2

from labeldp.online import (
    Kernel,
    MatrixFactorization,
    TreeNoise,
)
from labeldp.online.experts.softmax import softmax_draws
from labeldp.online.prefix_sums import nodes, toeplitz_factor
from labeldp.privacy import InputError, KeyedRandomness, PrivacyLoss, Unit, as_randomness
from labeldp.sampling import laplace_law
from labeldp.testing.laws import check_law

FALSE_ALARM = 1e-12

RUNS = 1500


def rng(seed: int):
    return as_randomness(np.random.default_rng(seed))


def levels(*rounds: tuple[float, ...]) -> np.ndarray:
    return np.rint(255 * np.array(rounds)).astype(np.uint8)


def inverse(rounds: int, horizon: int) -> np.ndarray:
    """B = A C^-1."""
    factor = toeplitz_factor(horizon)
    column = ((1 - factor.gaps) ** np.arange(rounds)[:, None]) @ factor.weights
    lags = np.subtract.outer(np.arange(rounds), np.arange(rounds))
    return np.tri(rounds) @ np.linalg.inv(np.where(lags >= 0, column[np.abs(lags)], 0.0))


def law(losses: np.ndarray, rate: float, covariance: np.ndarray, early: int = 0) -> np.ndarray:
    """Of three actions of two experts in two rounds and the coming one; `early`: losses of the round itself count."""
    nodes_, weights = np.polynomial.hermite_e.hermegauss(60)
    root = np.linalg.cholesky(2 * covariance + 1e-15 * np.eye(2))
    one, other = root @ np.stack([part.ravel() for part in np.meshgrid(nodes_, nodes_, indexing="ij")])
    weight = np.outer(weights, weights).ravel() / weights.sum() ** 2
    gaps = np.cumsum(losses[:, 1] / 255 - losses[:, 0] / 255)
    seen = gaps if not early else np.r_[gaps[1:], gaps[-1]]
    second, third = expit(-rate * (seen[0] + one)), expit(-rate * (seen[1] + other))
    table = np.empty((2, 2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        table[:, a, b] = 0.5 * weight @ ((second if a else 1 - second) * (third if b else 1 - third))
    return table.ravel()


def tally(kernel: Kernel, losses: np.ndarray, splits: tuple[int, ...], seed: int) -> np.ndarray:
    """How often each sequence of three actions was played."""
    counts, source = np.zeros(8), rng(seed)
    for _ in range(RUNS):
        state, actions, start = kernel.init(rng=source), [], 0
        for count in splits:
            state, played = kernel.update(state, losses[start : start + count], rng=source)
            actions, start = [*actions, *played], start + count
        counts[4 * actions[0] + 2 * actions[1] + kernel.predict(state)] += 1
    return counts


def statistic(counts: np.ndarray, claimed: np.ndarray) -> float:
    return float(((counts - RUNS * claimed) ** 2 / (RUNS * claimed)).sum())


@pytest.mark.parametrize("splits", [(2,), (1, 1)])
def test_actions_have_their_law_and_not_another(splits: tuple[int, ...]) -> None:
    losses, rate, stddev = levels((0, 1), (1, 0.2)), 2.0, 0.5
    b = inverse(2, 2)
    counts = tally(MatrixFactorization(2, 2, rate, stddev), losses, splits, 1)
    limit = chi2.isf(FALSE_ALARM, 7)
    assert statistic(counts, law(losses, rate, stddev**2 * b @ b.T)) < limit
    assert statistic(counts, law(losses, rate, stddev**2 * b @ b.T, early=1)) > limit, "a round's own loss is caught"
    assert statistic(counts, law(losses, rate, 0 * b)) > limit, "no noise is caught"
    assert statistic(counts, law(losses, rate, 9 * stddev**2 * b @ b.T)) > limit
    assert statistic(counts, law(losses[:, ::-1], rate, stddev**2 * b @ b.T)) > limit


def test_actions_of_the_gaussian_tree_have_their_law() -> None:
    losses, rate, stddev = levels((0, 1), (1, 0.2)), 2.0, 0.5
    counts = tally(TreeNoise(2, 2, rate, stddev=stddev), losses, (2,), 2)
    assert statistic(counts, law(losses, rate, stddev**2 * np.eye(2))) < chi2.isf(FALSE_ALARM, 7)
    assert statistic(counts, law(losses, rate, stddev**2 * 9 * np.eye(2))) > chi2.isf(FALSE_ALARM, 7)


def test_the_noise_of_a_tree_does_not_follow_the_number_of_rounds() -> None:
    """The second expert loses in the first round alone: it is as likely after 1, 2 and 4 rounds as with seven nodes."""
    kernel, losses, source = TreeNoise(2, 127, 5.0, stddev=1.0), levels((0, 1), *[(0, 0)] * 4), rng(5)
    plays = np.array([kernel.update(kernel.init(rng=source), losses, rng=source)[1] for _ in range(RUNS)])
    x, mass = np.polynomial.hermite_e.hermegauss(60)
    even, uneven = (float(expit(-5 * (1 + math.sqrt(2 * count) * x)) @ mass / mass.sum()) for count in (7, 1))
    for rounds in (1, 2, 3, 4):
        assert abs(plays[:, rounds].mean() - even) < 7.1 * math.sqrt(even * (1 - even) / RUNS)
        assert abs(plays[:, rounds].mean() - uneven) > 7.1 * math.sqrt(uneven * (1 - uneven) / RUNS)


def test_actions_of_the_laplace_tree_have_their_law() -> None:
    kernel = TreeNoise(2, 1, 2.0, epsilon=4)
    counts, source, losses = np.zeros(2), rng(3), levels((0, 1))
    for _ in range(RUNS):
        state, _ = kernel.update(kernel.init(rng=source), losses, rng=source)
        counts[kernel.predict(state)] += 1
    masses = laplace_law(4 / 2 / 255, np.arange(-3000, 3001))[1:-1]
    differences = np.arange(-len(masses) + 1, len(masses)) / 255
    second = float(expit(-2 * (1 + differences)) @ np.convolve(masses, masses[::-1]))
    assert abs(counts[1] / RUNS - second) < 7.1 * math.sqrt(second * (1 - second) / RUNS)
    assert abs(counts[1] / RUNS - expit(-2)) > 7.1 * math.sqrt(second * (1 - second) / RUNS), "no noise is caught"


def test_draws_follow_the_weights() -> None:
    sums, source = np.array([3.0, 0.0, 1.0, 700.0]), rng(4)
    exact, wrong = (np.exp(-rate * sums) / np.exp(-rate * sums).sum() for rate in (0.5, 0.55))
    check_law(lambda n: softmax_draws(np.tile(sums, (n, 1)), 0.5, rng=source), exact, wrong)
    assert set(softmax_draws(np.array([[1e9, 0.0, 1e9]] * 50), 1.0, rng=source)) == {1}


def hockey_stick(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


@pytest.mark.guarantee("labeldp.online:MatrixFactorization", "gaussian")
@pytest.mark.guarantee("labeldp.online:MatrixFactorization", "prefix")
def test_no_pair_of_action_laws_exceeds_the_loss() -> None:
    rate, stddev, b = 8.0, 1.5, inverse(2, 2)
    kernel = MatrixFactorization(2, 2, rate, stddev)
    every = [np.reshape(bits, (2, 2)) * 255.0 for bits in itertools.product((0, 1), repeat=4)]
    laws = [law(losses, rate, stddev**2 * b @ b.T) for losses in every]
    epsilons = (0.0, 0.2, 0.5, 1.0)
    worst = np.zeros(4)
    for (one, left), (other, right) in itertools.permutations(zip(every, laws, strict=True), 2):
        if ((one != other).any(axis=1)).sum() == 1:
            worst = np.maximum(worst, [hockey_stick(left, right, epsilon) for epsilon in epsilons])
    claimed = [kernel.privacy_loss(2).delta(epsilon) for epsilon in epsilons]
    assert (worst <= claimed).all() and worst[0] > 0.4 * claimed[0]
    for rounds in (1, 2):
        [mu] = [atom.mu for atom, _ in kernel.privacy_loss(rounds).atoms if hasattr(atom, "mu")]
        assert mu == pytest.approx(math.sqrt(2) * toeplitz_factor(2).column(rounds) / stddev, rel=1e-6)
    assert kernel.privacy_loss(0) == PrivacyLoss.zero()


@pytest.mark.guarantee("labeldp.online:TreeNoise", "pure")
@pytest.mark.guarantee("labeldp.online:TreeNoise", "gaussian")
def test_the_tree_costs_what_it_says() -> None:
    laplace = TreeNoise(5, 100, 0.1, epsilon="0.3")
    assert laplace.privacy_loss(100) == laplace.privacy_loss(64) == PrivacyLoss.pure("0.3")
    assert laplace.privacy_loss(1) == PrivacyLoss.pure(Fraction("0.3") / 7)
    assert laplace.sums.rate * 255 * 5 * nodes(100) == Fraction("0.3")
    loss = TreeNoise(5, 100, 0.1, stddev=9).privacy_loss(100)
    [mu] = [atom.mu for atom, _ in loss.atoms if hasattr(atom, "mu")]
    assert mu == pytest.approx(math.sqrt(5 * 7) / 9, rel=1e-6) and mu >= math.sqrt(5 * 7) / 9


def test_sparse_losses_are_played_like_dense_ones() -> None:
    losses = levels(*np.random.default_rng(0).integers(0, 2, size=(90, 4)))
    kernel = MatrixFactorization(4, 90, 0.5, 1.0)
    played = [kernel.update(kernel.init(rng=rng(1)), each, rng=rng(2))[1] for each in (losses, csr_array(losses))]
    assert (played[0] == played[1]).all() and len(set(played[0])) > 1


def test_a_better_expert_is_found_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = levels(*[(1, 0.5, 1)] * 2000)
    for kernel in (MatrixFactorization(3, 2000, 0.1, 5.0), TreeNoise(3, 2000, 0.1, epsilon=5)):
        _, played = kernel.update(kernel.init(rng=rng(1)), losses, rng=rng(2))
        assert (played[1000:] == 1).mean() > 0.95
        monkeypatch.setattr("labeldp.online.experts.softmax.BLOCK_LOSSES", 100)
        state, again = kernel.update(kernel.init(rng=rng(1)), losses, rng=rng(2))
        assert (again[1000:] == 1).mean() > 0.95 and kernel.predict(state) == 1


def over(kernel: Kernel) -> None:
    state, _ = kernel.update(kernel.init(rng=rng(0)), np.zeros((3, 2), dtype=np.uint8), rng=rng(0))
    kernel.update(state, np.zeros((2, 2), dtype=np.uint8), rng=rng(0))


MF = MatrixFactorization

REFUSED = {
    "more rounds": (lambda: over(MF(2, 4, 1, 1.0)), "more rounds than the horizon of 4"),
    "more rounds of a tree": (lambda: over(TreeNoise(2, 4, 1, epsilon=1)), "more rounds than the horizon of 4"),
    "losses": (lambda: MF(2, 4, 1, 1.0).update(None, np.zeros((1, 2)), rng=rng(0)), "losses must be a matrix of uint8"),
    "a key": (lambda: MF(2, 4, 1, 1.0).init(rng=KeyedRandomness(bytes(32))), "keyed randomness would repeat"),
    "one expert": (lambda: MF(1, 4, 1, 1.0), "experts must be an integer, at least 2"),
    "no horizon": (lambda: MF(2, 0, 1, 1.0), "horizon must be an integer, at least 1"),
    "no rate": (lambda: MF(2, 4, 0, 1.0), "rate must be positive"),
    "no stddev": (lambda: MF(2, 4, 1, -1.0), "stddev must be positive"),
    "levels": (lambda: MF(2, 4, 1, 1.0, levels=100), "levels must be 255 or 65535"),
    "neighbors": (lambda: MF(2, 4, 1, 1.0, neighbors=Unit.ONE_LABEL), "neighbors must be Unit.ONE_LOSS"),
    "both noises": (lambda: TreeNoise(2, 4, 1, epsilon=1, stddev=1), "give one of epsilon"),
    "no noise": (lambda: TreeNoise(2, 4, 1), "give one of epsilon"),
    "no epsilon": (lambda: TreeNoise(2, 4, 1, epsilon=0), "epsilon must be positive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        call()
