"""Averaged over the noise, the estimate is the truth; where that cannot be, it is refused."""

import inspect

import numpy as np
import pytest

from labeldp.bags import Bagged
from labeldp.mechanisms import (
    Classes,
    DiscreteLaplace,
    Interval,
    LocalHashing,
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
    ResponseOnBins,
    UnaryEncoding,
    UnbiasedNumbers,
    debias,
)
from labeldp.mechanisms.base import draw_places, edges_of
from labeldp.privacy import WORD, InputError, NotInvertibleError
from mechanisms.examples import EXAMPLES, public


def condition(matrix: np.ndarray) -> float:
    """Of a matrix whose rows sum to 1, in the maximum norm."""
    return float(np.linalg.norm(np.linalg.inv(matrix), np.inf))


@pytest.mark.parametrize("classes", [2, 3, 10, 50])
@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_randomized_response_is_inverted(classes: int, epsilon: float) -> None:
    mechanism = RandomizedResponse(domain=Classes(classes), epsilon=epsilon)
    estimate = debias(mechanism, np.arange(classes))
    assert np.allclose(mechanism.matrix() @ estimate.values, np.eye(classes), atol=1e-9)
    assert np.allclose(estimate.values, np.linalg.inv(mechanism.matrix()), rtol=1e-9, atol=1e-9)
    assert estimate.condition_number == pytest.approx(condition(mechanism.matrix()), rel=1e-9)


@pytest.mark.parametrize("grid", [2, 3, 4, 9, 40])
@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
def test_discrete_laplace_is_inverted(grid: int, epsilon: float) -> None:
    mechanism = DiscreteLaplace(domain=Interval(-2, 5, grid=grid), epsilon=epsilon)
    estimate = debias(mechanism, np.arange(grid))
    truth = mechanism.domain.decode(np.arange(grid))
    assert np.allclose(mechanism.matrix() @ estimate.values, truth, atol=1e-9)
    assert estimate.condition_number == pytest.approx(condition(mechanism.matrix()), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_bits_are_inverted(epsilon: float) -> None:
    mechanism = UnaryEncoding(domain=Classes(3), epsilon=epsilon)
    outputs = np.arange(8)[:, None] >> np.array([2, 1, 0]) & 1
    estimate = debias(mechanism, np.packbits(outputs.astype(np.uint8), axis=1))
    bit = mechanism.tables()[0].weights.astype(float) / 2.0**64
    for code in range(3):
        chances = np.prod([bit[int(j == code)][outputs[:, j]] for j in range(3)], axis=0)
        assert np.allclose(chances @ estimate.values, np.eye(3)[code], atol=1e-9)
    assert estimate.condition_number == pytest.approx(condition(bit), rel=1e-9)


def test_candidates_are_inverted_only_where_all_classes_are_candidates() -> None:
    uniform = public(np.full((3, 3), 1 / 3))
    full = RandomizedResponseWithPrior(domain=Classes(3), epsilon=0.5, prior=uniform)
    plain = RandomizedResponse(domain=Classes(3), epsilon=0.5)
    assert np.array_equal(debias(full, [0, 1, 2]).values, debias(plain, [0, 1, 2]).values)
    top = RandomizedResponseTopK(domain=Classes(3), epsilon=1, prior=public([0.5, 0.3, 0.2]), k=3)
    assert np.allclose(top.matrix() @ debias(top, [0, 1, 2]).values, np.eye(3))


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponseTopK(domain=Classes(3), epsilon=1, prior=public([0.5, 0.3, 0.2]), k=2),
        RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=public([[1, 0, 0], [0.4, 0.3, 0.3]])),
    ],
)
def test_fewer_candidates_than_classes_are_refused(mechanism: RandomizedResponseTopK) -> None:
    with pytest.raises(NotInvertibleError, match="some records had fewer candidates than classes"):
        debias(mechanism, [0, 1])
    last = mechanism.matrix() if mechanism.matrix().ndim == 2 else mechanism.matrix()[0]
    assert np.linalg.matrix_rank(last) < 3


@pytest.mark.parametrize("name", ["exponential", "permute and flip", "histogram"])
def test_counts_have_no_estimate_of_single_labels(name: str) -> None:
    with pytest.raises(NotInvertibleError, match="has no unbiased estimate of single labels"):
        debias(EXAMPLES[name](1), [0])


def test_what_is_no_output_is_refused() -> None:
    with pytest.raises(InputError, match="mechanism must be the one that made the noisy labels"):
        debias(None, [0])
    with pytest.raises(InputError, match="labels must lie in the declared domain"):
        debias(RandomizedResponse(domain=Classes(3), epsilon=1), [3])
    for noisy in ([0, 1], np.zeros((2, 2), dtype=np.uint8), np.zeros((2, 1))):
        with pytest.raises(InputError, match="noisy must be packed bits"):
            debias(UnaryEncoding(domain=Classes(3), epsilon=1), noisy)


def test_an_average_of_many_is_the_truth() -> None:
    mechanism = RandomizedResponse(domain=Classes(4), epsilon=1)
    truth = np.repeat(np.arange(4), [40_000, 30_000, 20_000, 10_000])
    noisy = mechanism.randomize(truth, rng=np.random.default_rng(9))
    shares = debias(mechanism, noisy).values.mean(axis=0)
    spread = debias(mechanism, noisy).values.std(axis=0) / np.sqrt(len(truth))
    assert np.all(np.abs(shares - [0.4, 0.3, 0.2, 0.1]) < 7.2 * spread)


def test_no_estimate_shows_in_a_repr() -> None:
    assert "values" not in repr(debias(RandomizedResponse(domain=Classes(4), epsilon=1), [0, 1]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_domain_and_epsilon_may_be_given_by_position(name: str) -> None:
    made = EXAMPLES[name](1.0)
    if isinstance(made, Bagged):
        pytest.skip("its noise has no epsilon of its own")
    first = list(inspect.signature(type(made)).parameters.values())[:2]
    assert [(each.name, each.kind) for each in first] == [
        ("domain", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        ("epsilon", inspect.Parameter.POSITIONAL_OR_KEYWORD),
    ]


def test_what_is_named_first_may_be_given_third() -> None:
    assert LocalHashing(Classes(10), 1, 4) == LocalHashing(domain=Classes(10), epsilon=1, groups=4)
    numbers, prior = Interval(0, 1, grid=5), public([0.5, 0.25, 0.125, 0.0625, 0.0625])
    for kind in (UnbiasedNumbers, ResponseOnBins):
        assert kind(numbers, 1, prior) == kind(domain=numbers, epsilon=1, prior=prior)


def test_laws_of_more_than_a_table_are_refused() -> None:
    assert UnaryEncoding(domain=Classes(2896), epsilon=1.0).weights().shape == (2896, 2896, 2)
    for mechanism in (UnaryEncoding(domain=Classes(2897), epsilon=1.0), RandomizedResponse(Classes(4097), 1.0)):
        with pytest.raises(InputError, match=r"at most 2\*\*24 entries"):
            mechanism.weights()


def test_a_word_stands_for_the_output_in_whose_weights_it_lies() -> None:
    law = np.array([[1, 0, WORD - 3, 2], [WORD // 2, 1, 1, WORD // 2 - 2]], dtype=object)
    for row, weights in enumerate(law.tolist()):
        starts = [sum(weights[:output]) for output in range(4)]
        pairs = [(start + shift, output) for output, start in enumerate(starts) for shift in {0, weights[output] - 1}]
        cases = [(word, output) for word, output in pairs if weights[output]]
        words = np.array([word for word, _ in cases], dtype=np.uint64)
        drawn = draw_places(words, edges_of(law), np.full(len(words), row))
        assert drawn.tolist() == [output for _, output in cases]
