"""Prefix sums from a binary tree: which nodes, their noise, what they reveal, exactness in integers."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from labeldp.online import GaussianTree, LaplaceTree
from labeldp.online import prefix_sums as tree
from labeldp.online.prefix_sums import nodes
from labeldp.privacy import InputError, PrivacyLoss, as_randomness
from labeldp.sampling import WordStream, laplace_law
from labeldp.testing.laws import check_law

FALSE_ALARM = 1e-12


def rng(seed: int):
    return as_randomness(np.random.default_rng(seed))


def node_matrix(rounds: int) -> np.ndarray:
    """Which rounds each released node sums up, shape (rounds, rounds)."""
    matrix = np.zeros((rounds, rounds))
    for t in range(1, rounds + 1):
        matrix[t - 1, t - (t & -t) : t] = 1
    return matrix


def played(sums, vectors: np.ndarray, splits: list[int], seed: int) -> np.ndarray:
    """The noisy sums of all rounds, in several steps."""
    state, parts, start, source = sums.init(), [], 0, rng(seed)
    for count in splits:
        state, part = sums.step(state, vectors[start : start + count], rng=source)
        parts.append(part)
        start += count
    return np.concatenate(parts)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 7, 8, 37, 64])
def test_a_vector_is_in_as_many_nodes_as_is_charged(rounds: int) -> None:
    matrix = node_matrix(rounds)
    assert matrix.sum(axis=0).max() == matrix[:, 0].sum() == nodes(rounds)
    used = np.linalg.solve(matrix.T, np.tri(rounds).T).T
    assert set(np.unique(used.round(9))) <= {0.0, 1.0}, "a sum is that of some nodes"
    assert used.sum(axis=1).max() == tree._most_nodes(rounds)


@pytest.mark.parametrize("splits", [[70], [1] * 70, [5, 1, 33, 31], [64, 6]])
def test_the_noise_of_a_sum_is_that_of_its_nodes(splits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, width = 70, 3
    noise = np.random.default_rng(2).integers(-50, 50, size=(rounds, width))
    left = [noise]

    def given(stream: WordStream, rate: Fraction) -> np.ndarray:
        first, left[0] = left[0][: len(stream) // width], left[0][len(stream) // width :]
        return first.ravel().copy()

    monkeypatch.setattr(tree, "discrete_laplace", given)
    vectors = np.random.default_rng(3).integers(0, 256, size=(rounds, width)) / 255
    sums = played(LaplaceTree(rounds, width, 1, 255), vectors, splits, 0)
    matrix = node_matrix(rounds)
    exact = np.tri(rounds) @ np.linalg.solve(matrix, matrix @ np.rint(vectors * 255) + noise)
    assert sums * 255 == pytest.approx(exact, abs=1e-6)


def test_gaussian_noise_has_the_covariance_of_the_tree() -> None:
    rounds, width, stddev = 7, 30_000, 2.0
    noisy = played(GaussianTree(100, width, stddev), np.zeros((rounds, width)), [3, 4], 4)
    used = np.linalg.solve(node_matrix(rounds).T, np.tri(rounds).T).T
    whitened = np.linalg.solve(stddev * used, noisy)
    limit = chi2.isf(FALSE_ALARM, rounds * (rounds + 1) // 2)
    assert statistic(whitened) < limit < statistic(1.03 * whitened)
    again = np.tile(noisy[:1], (rounds, 1))
    assert statistic(np.linalg.solve(stddev * used, again)) > limit, "noise that is used again is caught"


def statistic(whitened: np.ndarray) -> float:
    rows, samples = whitened.shape
    return samples / 2 * float(((whitened @ whitened.T / samples - np.eye(rows)) ** 2).sum())


def test_laplace_noise_has_its_law_in_every_number() -> None:
    rate = Fraction(1, 20) / 10
    edges = np.arange(-800, 801, 40)
    law, wrong = (laplace_law(float(each), edges) for each in (rate, rate * Fraction(11, 10)))

    def draw(count: int) -> np.ndarray:
        sums = played(LaplaceTree(1, count, Fraction(1, 20), 10), np.zeros((1, count)), [1], count)
        return np.searchsorted(edges, np.rint(sums[0] * 10).astype(np.int64))

    check_law(draw, law, wrong)


def gaussians(x: np.ndarray) -> np.ndarray:
    """P(the sum of three of standard deviation 2 <= x)."""
    return norm.cdf(x / (2 * math.sqrt(3)))


def laplaces(x: np.ndarray) -> np.ndarray:
    """P(the sum of three of scale 1 <= x)."""
    above = np.exp(-np.abs(x)) * (8 + 5 * np.abs(x) + x**2) / 16
    return np.where(x < 0, above, 1 - above)


@pytest.mark.parametrize("splits", [[4], [1, 2, 1]])
@pytest.mark.parametrize("law", [gaussians, laplaces])
def test_evened_noise_has_one_law_in_every_round(law: Callable, splits: list[int]) -> None:
    """After 1, 2, 3 and 4 of 7 rounds it is that of three nodes; that of the sums themselves is not."""
    width = 30_000
    sums = GaussianTree(7, width, 2.0) if law is gaussians else LaplaceTree(7, width, 1, 1000)
    state, source, before, after = sums.init(), rng(6), [], []
    for count in splits:
        state, released = sums.step(state, np.zeros((count, width)), rng=source)
        before += [*released]
        after += [*sums.evened(released, state.rounds, rng=source)]
    assert len(after) == 4
    for even, uneven in zip(after, before, strict=True):
        assert kstest(even, law).pvalue > FALSE_ALARM > kstest(uneven, law).pvalue
        assert abs(np.corrcoef(even - uneven, uneven)[0, 1]) < 7.1 / math.sqrt(width), "what is added is fresh"
    added = np.subtract(after, before)
    assert (np.abs(np.corrcoef(added) - np.eye(4)) < 7.1 / math.sqrt(width)).all(), "in every round"


def test_a_sum_of_most_nodes_is_left_as_it_is() -> None:
    for sums in (GaussianTree(7, 5, 2.0), LaplaceTree(7, 5, 1, 1000)):
        released = played(sums, np.ones((7, 5)), [7], 7)
        evened = sums.evened(released, 7, rng=rng(8))
        assert (evened[6] == released[6]).all() and (evened[:6] != released[:6]).any(axis=1).all()


@pytest.mark.guarantee("labeldp.online:LaplaceTree", "pure")
@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_epsilon_is_that_of_the_worst_pair(rounds: int) -> None:
    width, epsilon, matrix = 2, Fraction(1, 10), node_matrix(rounds)
    worst = 0.0
    for place, move in itertools.product(range(rounds), itertools.product((-1.0, 0.0, 1.0), repeat=width)):
        moved = np.zeros((rounds, width))
        moved[place] = move
        worst = max(worst, float(np.abs(matrix @ moved).sum()))
    sums = LaplaceTree(rounds, width, epsilon, 255)
    assert sums.privacy_loss(width, rounds) == PrivacyLoss.pure(epsilon * Fraction(worst))
    assert sums.rate == epsilon / 255
    assert sums.privacy_loss(width, 0) == PrivacyLoss.zero()


@pytest.mark.guarantee("labeldp.online:GaussianTree", "gaussian")
@pytest.mark.parametrize("rounds", [1, 3, 8])
def test_mu_is_that_of_the_worst_pair(rounds: int) -> None:
    width, stddev = 2, 3.0
    worst = math.sqrt(width) * np.linalg.norm(node_matrix(rounds), axis=0).max() / stddev
    loss = GaussianTree(100, width, stddev).privacy_loss(math.sqrt(width), rounds)
    [mu] = [atom.mu for atom, _ in loss.atoms if hasattr(atom, "mu")]
    assert worst <= mu <= worst * 1.000001


def test_vectors_that_hardly_differ_may_be_rounded_apart() -> None:
    """On a coarse grid nearly all of the move is rounding: what is charged covers it."""
    sums, width = GaussianTree(1, 4, 0.3 * 2**36), 4
    moved = sums.grid(np.full(width, 0.1501)) - sums.grid(np.full(width, 0.1499))
    assert moved.tolist() == [1] * width
    loss = sums.privacy_loss(0.0002 * math.sqrt(width), 1)
    [mu] = [atom.mu for atom, _ in loss.atoms if hasattr(atom, "mu")]
    assert mu >= np.linalg.norm(moved) / 2**36


def test_a_sum_depends_on_the_vectors_before_it_alone() -> None:
    sums, vectors = GaussianTree(100, 3, 1.0), np.random.default_rng(0).uniform(size=(60, 3))
    whole = played(sums, vectors, [60], 5)
    for start in (0, 1, 31, 59):
        other = vectors.copy()
        other[start:] = -vectors[start:]
        assert (played(sums, other, [60], 5)[:start] == whole[:start]).all()


def test_deviations_are_those_of_the_worst_round() -> None:
    assert GaussianTree(6, 1, 2.0).deviation == 2 * math.sqrt(2)
    assert GaussianTree(7, 1, 2.0).deviation == 2 * math.sqrt(3)
    assert LaplaceTree(7, 1, 0.5, 255).deviation == math.sqrt(6) / 0.5


def test_the_state_is_small_and_its_repr_shows_sizes() -> None:
    state, _ = (sums := LaplaceTree(1000, 2, 1, 255)).step(sums.init(), np.ones((500, 2)), rng=rng(0))
    assert state.noise.shape == (11, 2) and repr(state) == "TreeState(rounds=500, width=2)"


REFUSED = {
    "too many rounds": (lambda: played(GaussianTree(3, 2, 1.0), np.zeros((4, 2)), [4], 0), "more rounds than the hor"),
    "a large number": (lambda: played(LaplaceTree(3, 2, 1, 255), np.full((1, 2), 2), [1], 0), "entries from -1 to 1"),
    "no noise": (lambda: GaussianTree(3, 2, 0), "stddev must be positive"),
    "little noise": (lambda: GaussianTree(10**6, 2, 1e-6), "stddev is too small"),
    "no epsilon": (lambda: LaplaceTree(3, 2, -1, 255), "epsilon must be positive"),
    "a tiny epsilon": (lambda: LaplaceTree(3, 2, 1e-9, 255), "epsilon is too small for integer noise"),
    "no levels": (lambda: LaplaceTree(3, 2, 1, 0), "levels must be an integer, at least 1"),
    "no horizon": (lambda: LaplaceTree(0, 2, 1, 255), "horizon must be an integer, at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        call()
