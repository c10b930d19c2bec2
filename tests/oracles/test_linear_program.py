"""A linear program over all private mechanisms: none keeps more labels than randomized response with a prior."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from labeldp.mechanisms import Classes, RandomizedResponse, RandomizedResponseWithPrior
from mechanisms.examples import public
from slow import mostly_slow


def best_private_matrix(prior: NDArray[Any], epsilon: float) -> float:
    """The largest P(answer = label) over all matrices M[y, z] with M[y, z] <= e^epsilon M[y', z] and rows of sum 1."""
    size = len(prior)
    index = np.arange(size * size).reshape(size, size)
    limits = []
    for z in range(size):
        for y in range(size):
            for other in range(size):
                if y != other:
                    row = np.zeros(size * size)
                    row[index[y, z]], row[index[other, z]] = 1, -np.exp(epsilon)
                    limits.append(row)
    rows = np.kron(np.eye(size), np.ones(size))
    gain = -np.diag(prior).ravel()
    found = linprog(gain, np.array(limits), np.zeros(len(limits)), rows, np.ones(size), bounds=(0, 1), method="highs")
    assert found.success
    return -float(found.fun)


def kept(prior: NDArray[Any], epsilon: float) -> float:
    """P(answer = label) of our mechanism."""
    mechanism = RandomizedResponseWithPrior(domain=Classes(len(prior)), epsilon=epsilon, prior=public(prior[None]))
    return float(np.diag(mechanism.matrix()[0]) @ prior)


@pytest.mark.parametrize("classes", mostly_slow([2, 3, 4, 5, 6], [2, 4]))
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.69, 1.0, 2.0, 5.0])
def test_no_private_mechanism_keeps_more_labels(classes: int, epsilon: float) -> None:
    rng = np.random.default_rng([classes, int(100 * epsilon)])
    for concentration in (0.2, 1.0, 10.0):
        prior = rng.dirichlet(np.full(classes, concentration))
        assert kept(prior, epsilon) == pytest.approx(best_private_matrix(prior, epsilon), abs=1e-8)


@pytest.mark.parametrize("classes", [2, 4, 6])
def test_without_knowledge_that_is_plain_randomized_response(classes: int) -> None:
    uniform, plain = np.full(classes, 1 / classes), RandomizedResponse(domain=Classes(classes), epsilon=0.4)
    assert kept(uniform, 0.4) == pytest.approx(plain.keep_probability, abs=1e-12)
    assert best_private_matrix(uniform, 0.4) == pytest.approx(plain.keep_probability, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_the_references_mistake_keeps_fewer(seed: int) -> None:
    from mechanisms.test_mutants import references_choice

    rng = np.random.default_rng(seed)
    losses = []
    for _ in range(200):
        prior, epsilon = rng.dirichlet(np.ones(8)), 0.5
        size = references_choice(prior, epsilon)
        theirs = np.exp(epsilon) / (np.exp(epsilon) + size - 1) * np.sort(prior)[::-1][:size].sum()
        losses.append(kept(prior, epsilon) - theirs)
    assert min(losses) > -1e-12
    assert np.mean(losses) > 0.005


@pytest.mark.parametrize("seed", range(6))
def test_sets_are_the_best_of_all_sizes(seed: int) -> None:
    """Against the definition, row by row: the smallest k of largest score, ties to the smaller class."""
    rng = np.random.default_rng(seed)
    classes, epsilon = int(rng.integers(2, 40)), float(rng.exponential(1.5))
    priors = rng.dirichlet(np.full(classes, 0.7), size=300).round(2)
    priors = np.where(priors.sum(axis=1, keepdims=True) > 0, priors, 1.0)
    priors /= priors.sum(axis=1, keepdims=True)
    mechanism = RandomizedResponseWithPrior(domain=Classes(classes), epsilon=epsilon, prior=public(priors))
    growth = np.exp(epsilon)
    for row, members in zip(priors, mechanism.membership(), strict=True):
        order = np.lexsort((np.arange(classes), -row))
        scores = growth / (growth + np.arange(classes)) * np.cumsum(row[order])
        chosen = np.flatnonzero(members)
        assert scores[len(chosen) - 1] >= scores.max() * (1 - 1e-12)
        mass = row[chosen].sum()
        assert mass == pytest.approx(np.cumsum(row[order])[len(chosen) - 1], abs=1e-12)
