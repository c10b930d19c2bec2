"""Whole models of released labels, told apart as well as possible: exactly, over every release of three records."""

from collections import defaultdict
from functools import cache
from itertools import product
from math import inf, log
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import labeldp as ldp
from labeldp.learners import (
    CellClassifier,
    CellRegressor,
    CubePartition,
    MedianPartition,
    NeighborsClassifier,
    NeighborsRegressor,
    NoisyNumberRegressor,
    TreePartition,
    tune,
)
from learners.data import answered

EPSILON = 0.8
FEATURES = np.array([[0.1], [0.4], [0.9]])
SEEN = np.array([[0.0], [0.3], [0.6], [1.0]])
CUBES = CubePartition(0.5, bounds=(0, 1))
NUMBERS, TWO = ldp.Interval(0, 1, grid=3), ldp.Classes(2)


class Tuned:
    """The best of some learners by the released labels."""

    def __init__(self, *learners: Any) -> None:
        self.learners = learners

    def fit(self, features: Any, release: Any) -> Any:
        return tune(self.learners, features, release, folds=3).learner


CASES: list[tuple[Any, Any, Any]] = [
    (CellRegressor(CUBES), NUMBERS, ldp.DiscreteLaplace),
    (CellRegressor(), NUMBERS, ldp.DiscreteLaplace),
    (CellRegressor(TreePartition(DecisionTreeRegressor(max_depth=1))), NUMBERS, ldp.DiscreteLaplace),
    (NeighborsRegressor(2), NUMBERS, ldp.DiscreteLaplace),
    (NoisyNumberRegressor(DecisionTreeRegressor(random_state=0)), NUMBERS, ldp.DiscreteLaplace),
    (Tuned(CellRegressor(MedianPartition(1)), NeighborsRegressor(1)), NUMBERS, ldp.DiscreteLaplace),
    (CellClassifier(CUBES), TWO, ldp.UnaryEncoding),
    (CellClassifier(CUBES), TWO, ldp.RandomizedResponse),
    (NeighborsClassifier(2), TWO, ldp.UnaryEncoding),
    (NeighborsClassifier(1), TWO, ldp.RandomizedResponse),
    (Tuned(CellClassifier(MedianPartition(1)), NeighborsClassifier(1)), TWO, ldp.UnaryEncoding),
]


def laws(mechanism: Any) -> tuple[list[Any], np.ndarray]:
    """What a record can be answered with, and with which probability for each label, shape (labels, answers)."""
    if not isinstance(mechanism, ldp.UnaryEncoding):
        matrix = mechanism.matrix()
        return list(range(matrix.shape[1])), matrix
    one = mechanism.matrix()  # (bits, labels, values of a bit)
    bits = list(product([0, 1], repeat=len(one)))
    table = [[np.prod([one[j][label][bit] for j, bit in enumerate(each)]) for each in bits] for label in range(2)]
    return [np.packbits(each).tolist() for each in bits], np.array(table)


def worst_ratio(learner: Any, domain: Any, kind: Any) -> float:
    """The largest logarithm of a ratio of chances, over all neighbors and all that the model answers."""
    release = answered([0, 0, 0], domain, kind, EPSILON)
    values, law = laws(release.mechanism)

    @cache
    def shown(chosen: tuple[int, ...]) -> tuple[float, ...]:
        value = np.array([values[each] for each in chosen], dtype=release.value.dtype)
        model = learner.fit(FEATURES, ldp.Release(value, release.certificate, release.mechanism))
        found = model.predict_proba(SEEN) if domain is TWO else model.predict(SEEN)
        return tuple(np.round(np.ravel(found), 9).tolist())

    def chances(labels: tuple[int, ...]) -> dict[tuple[float, ...], float]:
        total: dict[tuple[float, ...], float] = defaultdict(float)
        for chosen in product(range(len(values)), repeat=3):
            total[shown(chosen)] += float(
                np.prod([law[label][each] for label, each in zip(labels, chosen, strict=True)])
            )
        return total

    worst = -inf
    for labels in product(range(domain.size), repeat=3):
        own = chances(labels)
        for place, other in product(range(3), range(domain.size)):
            near = chances((*labels[:place], other, *labels[place + 1 :]))
            worst = max(worst, *(log(own[each] / near[each]) for each in own))
    return worst


@pytest.mark.parametrize(("learner", "domain", "kind"), CASES)
def test_a_model_of_released_labels_tells_neighbors_apart_by_epsilon_at_most(
    learner: Any, domain: Any, kind: Any
) -> None:
    """Exact, and not for want of looking: more than half of epsilon is seen."""
    assert EPSILON / 2 < worst_ratio(learner, domain, kind) <= EPSILON * (1 + 1e-9)


def test_a_release_that_costs_more_than_it_says_is_seen_through_a_model() -> None:
    class Doubled(ldp.RandomizedResponse):  # type: ignore[misc]
        """Answers at twice the epsilon that it says."""

        def matrix(self) -> np.ndarray:
            return ldp.RandomizedResponse(domain=TWO, epsilon=2 * EPSILON).matrix()

    assert worst_ratio(NeighborsClassifier(1), TWO, Doubled) > EPSILON * 1.5
