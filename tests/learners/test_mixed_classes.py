"""Classes of several types, or beyond 64 bits, are told apart or refused: none are merged."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from labeldp import learners, mechanisms
from labeldp.privacy import InputError
from slow import mostly_slow

N = 400
X = np.random.default_rng(0).normal(size=(N, 2))
CODES = (X[:, 0] > 0).astype(int)

GOOD: list[Any] = [
    (1, "1"), (0, "1"), (2**70, 2**70 + 1), (2**63, 2**63 + 1), (-(2**63) - 1, 0), (1, "a"),
    (2**53, 2**53 + 1), (2**62, "x"), (True, "1"), (True, "True"),
    (False, 2), ("1", "1.0"), ("é", "e\u0301"), ("", " "), ("None", "nan"), ("a", "a "),
]  # fmt: skip
GOOD = [pair for pair in GOOD if all(not isinstance(name, int) or abs(name) < 2**64 for name in pair)]

BAD: list[Any] = [
    (1, True), (0, False), (1, 1.0), (1, b"1"), ("a", None), ("a", float("nan")), (0.5, 1.5), (1, 2**70), ("a", "a"),
    (b"a", b"b"), ((1,), (2,)), ([1], [2]), (1j, 2j), ("a", "a\0"), (np.datetime64("2026"), "a"), (None, float("nan")),
]  # fmt: skip


def labels_of(names: Any, container: str) -> Any:
    column = np.empty(N, dtype=object)
    for row, code in enumerate(CODES.tolist()):
        column[row] = names[code]
    return {"list": list(column), "objects": column, "pandas": pd.Series(column, dtype=object)}[container]


CONTAINERS = ["list", "objects", "pandas"]
PAIRS = [(names, container) for names in GOOD for container in CONTAINERS]
QUICK = [(names, CONTAINERS[number % 3]) for number, names in enumerate(GOOD)]
"""Each pair of classes once, each container with several pairs."""


@pytest.mark.parametrize(("names", "container"), PAIRS, ids=repr)
def test_classes_of_several_types_have_codes_of_their_own(names: Any, container: str) -> None:
    domain = ldp.Classes(names)
    assert sorted(map(repr, domain.names)) == sorted(map(repr, names))
    codes = domain.encode(labels_of(names, container))
    assert len(np.unique(codes)) == 2 and [type(name) for name in domain.decode(codes).tolist()] == list(
        map(type, labels_of(names, "list"))
    )


@pytest.mark.parametrize(("names", "container"), mostly_slow(PAIRS, QUICK), ids=repr)
def test_classes_of_several_types_are_told_apart(names: Any, container: str) -> None:
    labels, domain = labels_of(names, container), ldp.Classes(names)
    codes = domain.encode(labels)
    mechanism = mechanisms.RandomizedResponse(domain, 12.0)
    for classifier in (
        learners.NoisyLabelClassifier(LogisticRegression(), epsilon=12.0),
        learners.NoisyLabelClassifier(LogisticRegression(), epsilon=12.0, classes=names),
        learners.NoisyLabelClassifier(LogisticRegression(), mechanism=mechanism),
    ):
        classifier.fit(X, labels)
        assert [(type(name), name) for name in classifier.classes_.tolist()] == [(type(n), n) for n in domain.names]
        assert classifier.score(X, labels) > 0.95
        assert np.mean([a == b and type(a) is type(b) for a, b in zip(
            classifier.predict(X).tolist(), labels_of(names, "list"), strict=True)]) > 0.95  # fmt: skip
    if type(domain.names[0]) is type(domain.names[1]):
        assert learners.debiased_scorer(mechanism=mechanism)(classifier, X, labels) > 0.9
    else:
        with pytest.raises(InputError, match="names of one type"):
            learners.debiased_scorer(mechanism=mechanism)
    release = ldp.Curator(labels, domain=domain, budget=ldp.Budget(12)).release(mechanism, rng=np.random.default_rng(0))
    for learner in (learners.CellClassifier(), learners.NeighborsClassifier(), learners.NoisyLabelClassifier()):
        learner.fit(X, release)
        assert learner.classes_.tolist() == list(domain.names)
        predicted = domain.encode(learner.predict(X).tolist())
        assert (predicted == codes).mean() > 0.85


@pytest.mark.parametrize("names", BAD, ids=repr)
def test_classes_that_cannot_be_told_apart_are_refused(names: Any) -> None:
    with pytest.raises(InputError, match="classes"):
        ldp.Classes(names)
    estimator = ldp.LabelDPClassifier(epsilon=5, classes=names, estimator="neighbors")
    with pytest.raises(InputError, match="classes"):
        estimator.fit(X, CODES)
    estimator.set_params(classes=(0, 1)).fit(X, CODES)  # the right to fit is left
    if names != ("a", "a"):
        for given in (names, None):
            with pytest.raises((InputError, ValueError)):
                learners.NoisyLabelClassifier(LogisticRegression(), epsilon=5.0, classes=given).fit(
                    X, labels_of(names, "objects")
                )


def test_any_two_of_many_names_are_two_classes_or_refused() -> None:
    things = [
        1,
        "1",
        True,
        2**63,
        2**70,
        1.0,
        b"1",
        None,
        float("nan"),
        "True",
        np.int64(1),
        np.str_("1"),
        0,
        "0",
        False,
    ]
    for names in combinations(things, 2):
        try:
            domain = ldp.Classes(names)
        except InputError:
            continue
        assert domain.size == 2
        assert domain.encode([domain.names[0], domain.names[1]]).tolist() == [0, 1]
        decoded = domain.decode([0, 1]).tolist()
        assert [(type(a), a) for a in decoded] == [(type(a), a) for a in domain.names]
