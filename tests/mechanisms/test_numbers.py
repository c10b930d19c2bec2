"""Numbers answered by one of a few: unbiased outputs of least variance, and bins of the range."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.mechanisms import Classes, DiscreteLaplace, Interval, ResponseOnBins, UnbiasedNumbers, debias
from labeldp.mechanisms.numbers import _best_bins
from labeldp.privacy import WORD, InputError, Public, exp_bounds, positive_epsilon
from slow import mostly_slow

RANGE = Interval(0, 400, grid=1025)


def zeros_and_some(grid: int) -> np.ndarray:
    """80 % zeros, and a broad hump."""
    values = np.linspace(0, 400, grid)
    hump = np.exp(-0.5 * np.log(np.maximum(values, 1) / 60) ** 2) / np.maximum(values, 1)
    hump[0] = 0
    chances = 0.2 * hump / hump.sum()
    chances[0] = 0.8
    return chances


def bell(grid: int) -> np.ndarray:
    chances = np.exp(-0.5 * ((np.linspace(0, 400, grid) - 200) / 60) ** 2)
    return np.asarray(chances / chances.sum())


def numbers(epsilon: Any, prior: Any = None, domain: Interval = RANGE) -> UnbiasedNumbers:
    return UnbiasedNumbers(domain=domain, epsilon=epsilon, prior=None if prior is None else Public(prior, why="a test"))


@pytest.mark.parametrize(
    ("prior", "epsilon", "stddev"),
    [
        (zeros_and_some, 1, 389),
        pytest.param(zeros_and_some, 2, 178, marks=pytest.mark.slow),
        (zeros_and_some, 4, 62),
        (bell, 1, 380),
        pytest.param(bell, 2, 160, marks=pytest.mark.slow),
        (bell, 4, 53),
    ],
)
def test_noise_is_as_small_as_it_can_be(prior: Any, epsilon: float, stddev: float) -> None:
    """Standard deviations of the optimum on 41 points, labels 0 to 400, and of a linear program of other people."""
    mechanism = numbers(epsilon, prior(RANGE.size))
    assert mechanism.law.dtype == object and mechanism.noise_stddev <= 1.02 * stddev
    assert all(sum(column) for column in zip(*mechanism.law.tolist(), strict=True))  # each output occurs
    assert mechanism.noise_stddev < 0.8 * DiscreteLaplace(domain=RANGE, epsilon=epsilon).scale * 2**0.5


@pytest.mark.guarantee("labeldp.mechanisms:UnbiasedNumbers", "pure")
@pytest.mark.parametrize("epsilon", mostly_slow([0.1, 1, 3, 8], [1]))
@pytest.mark.parametrize("grid", mostly_slow([2, 3, 66, 1025], [2, 66]))
def test_answers_average_to_the_label(grid: int, epsilon: float) -> None:
    """Exactly, from the integer weights, within rounding; and every ratio of a column is at most e^epsilon."""
    domain = Interval(-3, 5, grid=grid)
    mechanism = numbers(epsilon, domain=domain)
    growth = exp_bounds(positive_epsilon(epsilon))[0]
    weights = mechanism.weights()
    assert {sum(row) for row in weights.tolist()} == {WORD}
    for column in weights.T.tolist():
        assert 0 < max(column) <= growth * min(column)
    outputs = [Fraction(output) for output in mechanism.outputs.tolist()]
    for code in {0, 1, grid // 2, grid - 1}:
        mean = sum(w * v for w, v in zip(weights[code].tolist(), outputs, strict=True)) / WORD
        assert abs(mean - Fraction(float(domain.decode([code])[0]))) < 1e-7 * domain.step
    assert mechanism.bias < 1e-7 * domain.step
    assert mechanism.outputs[0] < -3 and mechanism.outputs[-1] > 5


def test_two_outputs_are_those_of_the_two_point_mechanism() -> None:
    mechanism = numbers(0.5, domain=Interval(0, 1, grid=1025))
    beyond = 1 / (np.exp(0.5) - 1)
    np.testing.assert_allclose(mechanism.outputs, [-beyond, 1 + beyond])
    assert mechanism.privacy_loss() == ldp.PrivacyLoss.response(0.5, 2)


def test_released_numbers_are_outputs_and_their_mean_is_the_labels() -> None:
    mechanism = numbers(2, zeros_and_some(RANGE.size))
    labels = np.random.default_rng(3).choice(RANGE.decode(np.arange(1025)), size=200_000, p=zeros_and_some(1025))
    curator = ldp.Curator(labels, domain=RANGE, budget=ldp.Budget(2))
    release = curator.release(mechanism, rng=np.random.default_rng(4))
    values = debias(mechanism, release.value).values
    assert set(values.tolist()) <= set(mechanism.outputs.tolist())
    error = mechanism.noise_stddev / len(labels) ** 0.5
    assert abs(values.mean() - labels.mean()) < 7 * error
    assert 0.98 < (values - labels).std() / mechanism.noise_stddev < 1.02


@pytest.mark.slow
def test_another_law_is_another_mechanism() -> None:
    """Keyed noise, charges and copies go by the specification: it holds the weights themselves, as a digest."""
    one, other = numbers(2, bell(1025)), numbers(2, zeros_and_some(1025))
    assert one.specification() != other.specification()
    assert one.specification() == numbers(2, bell(1025)).specification()
    assert one.with_epsilon(1).specification() == numbers(1, bell(1025)).specification()
    assert [each.assumption for each in one.public_inputs] == [
        "the prior does not depend on the private labels (a test)"
    ]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_bins_are_the_best_of_all(count: int) -> None:
    """The dynamic program against every way to cut nine points."""
    chances = np.random.default_rng(count).dirichlet(np.ones(9))
    growth = np.exp(1.5)
    labels, lie = np.arange(9.0), 1 / (growth + count - 1)

    def error(first: tuple[int, ...]) -> float:
        total = 0.0
        for start, stop in zip(first, [*first[1:], 9], strict=True):
            weights = lie * chances + (growth - 1) * lie * chances * ((labels >= start) & (labels < stop))
            answer = weights @ labels / weights.sum()
            total += weights @ (answer - labels) ** 2
        return total

    every = [(0, *rest) for rest in combinations(range(1, 9), count - 1)]
    assert error(tuple(_best_bins(chances, growth, 9, count))) == pytest.approx(min(map(error, every)))


@pytest.mark.guarantee("labeldp.mechanisms:ResponseOnBins", "pure")
def test_bins_say_what_they_are() -> None:
    mechanism = ResponseOnBins(domain=Interval(0, 100, grid=101), epsilon=2.0, bins=4)
    assert len(mechanism.edges) == 5 and mechanism.edges[[0, -1]].tolist() == [0, 100]
    assert np.all(np.diff(mechanism.edges) > 0) and np.all(np.diff(mechanism.centers) > 0)
    codes = np.arange(101)
    bins = mechanism.bin_of(codes)
    assert np.all((mechanism.edges[bins] <= codes) & (codes <= mechanism.edges[bins + 1]))
    noisy = mechanism.randomize(np.full(100_000, 30), rng=np.random.default_rng(0))
    assert abs(np.mean(noisy == bins[30]) - mechanism.keep_probability) < 0.01
    likelihood = mechanism.likelihood(noisy[:5])
    assert likelihood.shape == (5, 4) and np.all(likelihood.argmax(axis=1) == noisy[:5])
    assert np.all(mechanism.values(noisy[:5]) == mechanism.centers[noisy[:5]])
    assert mechanism.privacy_loss() == ldp.PrivacyLoss.response(2.0, 4)


@pytest.mark.parametrize("kind", [UnbiasedNumbers, ResponseOnBins])
def test_what_is_no_number_is_refused(kind: Any) -> None:
    with pytest.raises(InputError, match="domain must be an Interval"):
        kind(domain=Classes(3), epsilon=1)
    with pytest.raises(InputError, match=r"prior must be a Release or Public"):
        kind(domain=Interval(0, 1, grid=3), epsilon=1, prior=[0.2, 0.3, 0.5])
    for prior, words in (([0.5, 0.5], "one column"), ([0.5, 0.4, 0.4], "sum to 1"), (np.ones((2, 3)) / 3, "one row")):
        with pytest.raises(InputError, match=f"prior must .*{words}"):
            kind(domain=Interval(0, 1, grid=3), epsilon=1, prior=Public(prior, why="a test"))
    mechanism = kind(domain=Interval(0, 1, grid=3), epsilon=1)
    for noisy in ([9], [-1], [0.5], [[0]]):
        with pytest.raises(InputError, match="noisy must be places"):
            mechanism.values(np.array(noisy))


def test_a_grid_too_fine_and_bins_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="domain must have a grid of at most 4,097 points"):
        UnbiasedNumbers(domain=Interval(0, 1, grid=5000), epsilon=1)
    for bins in (1, 65, 2.5, True, "all"):
        with pytest.raises(InputError, match="bins must be an integer from 2 to 64"):
            ResponseOnBins(domain=RANGE, epsilon=1, bins=bins)


def test_a_bin_that_never_occurs_has_the_mean_of_its_points() -> None:
    bins = ResponseOnBins(domain=Interval(0, 10, grid=11), epsilon=1.0, bins=3, cuts="even")
    chances = np.where(bins.bin_of(np.arange(11)) == 1, 0.0, 1.0)
    points = [np.arange(11)[bins.bin_of(np.arange(11)) == place] for place in range(3)]
    assert bins.means(chances) == pytest.approx([each.mean() for each in points])
