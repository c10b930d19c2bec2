"""Excess risk against the number of classes: unary bits, randomized response, and response with a prior."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, RandomizedResponse, RandomizedResponseWithPrior, UnaryEncoding, debias
from labeldp.privacy import WORD, Public
from labeldp.workflows.reproduce.rates_learners import Counts, Floats, Rng

CLASSES = (2, 3, 5, 10, 20, 50, 100)
CELLS, RECORDS_IN_CELL, EPSILON = 200, 2000, 1.0
LEADS = tuple(float(each) for each in np.geomspace(0.01, 1.0, 15))
"""By how much the likelier class of a cell leads the other: the hardest counts."""
FIRST = 0.5
"""Share of the records of a cell that randomized response answers without a prior, to learn one."""

Released = Callable[[Counts, float, Rng], NDArray[Any]]


def excess_of_classes(method: str, classes: int, epsilon: float, *, rng: Rng) -> list[tuple[float, float]]:
    """The excess risk, for each of `LEADS`, where each cell holds two random classes that all but tie.

    Args:
        method: a key of `METHODS_OF_CLASSES`.
        classes: K.
        epsilon: of every label.
        rng: of instance, labels and noise.

    Source: Zhao, Theorem 2, for ln K; `docs/results/rates.md`.
    """
    return [(lead, _excess(METHODS_OF_CLASSES[method], classes, epsilon, lead, rng)) for lead in LEADS]


def _excess(released: Released, classes: int, epsilon: float, lead: float, rng: Rng) -> float:
    """By how much the chosen classes are less likely than the best ones, on average over cells."""
    pairs = np.argsort(rng.random((CELLS, classes)), axis=1)[:, :2]
    shares = np.zeros((CELLS, classes))
    np.put_along_axis(shares, pairs, np.array([[(1 + lead) / 2, (1 - lead) / 2]]), axis=1)
    chosen = released(rng.multinomial(RECORDS_IN_CELL, shares), epsilon, rng).argmax(axis=1)
    return float(np.mean(shares.max(axis=1) - shares[np.arange(CELLS), chosen]))


def _unary(counts: Counts, epsilon: float, rng: Rng) -> Counts:
    """Sums of randomized bits. Source: Zhao, eq. (11) and (12)."""
    flip = UnaryEncoding(domain=Classes(counts.shape[1]), epsilon=epsilon).law.lie / WORD
    others = counts.sum(axis=1, keepdims=True) - counts
    return rng.binomial(counts, 1 - flip) + rng.binomial(others, flip)


def _response(counts: Counts, epsilon: float, rng: Rng) -> Counts:
    """Counts of randomized labels."""
    matrix = RandomizedResponse(domain=Classes(counts.shape[1]), epsilon=epsilon).matrix()
    return _answers(counts, np.broadcast_to(matrix, (len(counts), *matrix.shape)), rng)


def _prior(counts: Counts, epsilon: float, rng: Rng) -> Counts:
    """Counts of randomized labels of both parts: the shares that the first one shows are the prior of the second.

    Source: Ghazi, Algorithms 3 and 5, with a majority in each cell as the model.
    """
    size = counts.shape[1]
    first = rng.binomial(counts, FIRST)
    seen = _response(first, epsilon, rng)
    plain = RandomizedResponse(domain=Classes(size), epsilon=epsilon)
    unbiased = debias(plain, np.arange(size, dtype=plain.domain.dtype)).values
    shares = np.clip(seen @ unbiased, 1e-9, None)
    prior = Public(shares / shares.sum(axis=1, keepdims=True), why="the first release shows it, in a simulation")
    inside = RandomizedResponseWithPrior(domain=Classes(size), epsilon=epsilon, prior=prior).candidates.membership()
    return seen + _answers(counts - first, _within(inside, epsilon), rng)


def _within(inside: NDArray[np.bool_], epsilon: float) -> Floats:
    """The law of randomized response within the candidates of each cell, shape (cells, K labels, K answers)."""
    sizes = inside.sum(axis=1)[:, None, None]
    growth = np.exp(epsilon)
    truth = np.eye(inside.shape[1]) * inside[:, :, None]
    known = (truth * (growth - 1) + inside[:, None, :]) / (growth + sizes - 1)
    return np.where(inside[:, :, None], known, inside[:, None, :] / sizes)


def _answers(counts: Counts, matrices: Floats, rng: Rng) -> Counts:
    """How often each label is answered in each cell, from the counts of true labels and the cells' matrices."""
    rows = matrices / matrices.sum(axis=2, keepdims=True)
    return rng.multinomial(counts, rows).sum(axis=1)


METHODS_OF_CLASSES: dict[str, Released] = {"unary": _unary, "response": _response, "prior": _prior}
"""How labels are randomized, and what is counted in a cell."""
