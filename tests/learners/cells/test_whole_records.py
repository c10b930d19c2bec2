"""Cells of a fixed grid where features are private, too: answers by hand, certificates, refusals, the baseline."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv
from sklearn.tree import DecisionTreeRegressor

import labeldp as ldp
from labeldp.learners import (
    CubePartition,
    GridClassifier,
    GridRegressor,
    TreePartition,
    fit_cells,
    fit_full_cells,
    simulate_full_local,
)
from labeldp.learners.cells.whole_records import _LocalNoise
from labeldp.mechanisms import Located
from labeldp.privacy import BudgetExceeded, InputError, Neighbors, RandomnessKind, Trust

RNG = np.random.default_rng

GRID = CubePartition(1.0, bounds=(0, 3)).grid(1)

CLASSES = Located(GRID, ldp.Classes(("no", "yes")))

NUMBERS = Located(GRID, ldp.Interval(-5, 5, grid=1001))

ROWS = [[0.5], [0.6], [1.5], [1.5], [7.0]]  # the last one counts as in the third cell

NAMES = ["yes", "yes", "no", "no", "yes"]


def holder(features: Any, labels: Any, domain: Any, epsilon: float = 1.0) -> ldp.Curator:
    return ldp.Curator((features, labels), domain=domain, budget=ldp.Budget(epsilon=epsilon))


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
def test_every_cell_answers_with_a_class(rule: str) -> None:
    """epsilon-DP for each whole record."""
    release = fit_full_cells(holder(ROWS, NAMES, CLASSES, 300), epsilon=300, rng=RNG(0), rule=rule)
    model = release.value
    assert isinstance(model.estimator, GridClassifier)
    assert model.predict([[0.1], [1.1], [2.1], [-9.0], [9.0]]).tolist() == ["yes", "no", "yes", "yes", "yes"]
    assert model.predict_proba([[1.1]]).tolist() == [[1.0, 0.0]]
    assert release.certificate.neighbors is Neighbors.FULL and release.certificate.trust is Trust.CENTRAL
    assert release.certificate.epsilon() == 300
    assert "features and label" in release.certificate.at(0)


def test_every_cell_answers_with_a_number() -> None:
    """Eq. (33): sums are divided by at least n_0."""
    numbers = [4.0, 2.0, -1.0, -1.0, 2.0]
    release = fit_full_cells(holder(ROWS, numbers, NUMBERS, 1000), epsilon=1000, rng=RNG(0), smallest=2)
    assert isinstance(release.value.estimator, GridRegressor)
    assert np.allclose(release.value.predict([[0.1], [1.1], [2.1]]), [3.0, -1.0, 1.0], atol=0.1)


@pytest.mark.parametrize(("printed", "scale"), [(True, 6 * 5 / 10), (False, 4 * 5 / 11)])
def test_an_empty_cell_answers_with_the_middle_and_noise(printed: bool, scale: float) -> None:
    rng, answers = RNG(0), []
    for _ in range(500):
        holds = holder([[0.5]], [0.0], NUMBERS, 4)
        model = fit_full_cells(holds, epsilon=4, rng=rng, smallest=10, printed=printed).value
        answers += model.predict([[1.5], [2.5]]).tolist()
    assert abs(np.mean(answers)) < 7.1 * math.sqrt(2) * scale / 4 / math.sqrt(1000)
    assert np.mean(np.abs(answers)) == pytest.approx(scale / 4, rel=0.25)


def test_neighbors_of_whole_records_are_not_told_apart() -> None:
    """One record moves from one cell to another and changes its class; bounds fail with a chance below 1e-12."""
    draws, rng, seen = 2500, RNG(3), []
    for features, labels in (
        ([[0.5], [0.5], [1.5]], ["yes", "no", "no"]),
        ([[0.5], [1.5], [1.5]], ["yes", "yes", "no"]),
    ):
        found = [
            tuple(fit_full_cells(holder(features, labels, CLASSES), epsilon=1, rng=rng).value.estimator.values.tolist())
            for _ in range(draws)
        ]
        seen.append(found)
    worst = -np.inf
    for outcome in set(seen[0]) | set(seen[1]):
        hits = [each.count(outcome) for each in seen]
        for more, less in (hits, hits[::-1]):
            if more and less < draws:
                low = betaincinv(more, draws - more + 1, 1e-12)
                worst = max(worst, float(np.log(low / betaincinv(less + 1, draws - less, 1 - 1e-12))))
    assert worst <= 1.0


def test_cells_of_public_features_cannot_rest_on_a_release_of_whole_records() -> None:
    full = fit_full_cells(holder(ROWS, [0.0] * 5, NUMBERS), epsilon=1, rng=RNG(0), smallest=1)
    tree = full.map(lambda model: DecisionTreeRegressor(max_leaf_nodes=2).fit(ROWS, model.predict(ROWS)))
    labels = ldp.Curator([0.0] * 5, domain=ldp.Interval(0, 1), budget=ldp.Budget(epsilon=1))
    with pytest.raises(InputError, match="partition must rest on released labels"):
        fit_cells(ROWS, labels, epsilon=1, rng=RNG(0), partition=TreePartition(tree))
    assert labels.ledger.spent.epsilon() == 0


def test_bad_input_is_refused_before_anything_is_charged() -> None:
    holds = holder(ROWS, [0.0] * 5, NUMBERS)
    with pytest.raises(InputError, match=r"smallest \(n_0\) must be given for numbers"):
        fit_full_cells(holds, epsilon=1, rng=RNG(0))
    for wrong in (0, -1, 1.5, True, 1 << 41):
        with pytest.raises(InputError, match=r"smallest \(n_0\) must be an integer from 1 to 2\*\*40"):
            fit_full_cells(holds, epsilon=1, rng=RNG(0), smallest=wrong)  # type: ignore[arg-type]
    assert holds.ledger.spent.epsilon() == 0
    classes = holder(ROWS, NAMES, CLASSES)
    with pytest.raises(InputError, match=r"smallest \(n_0\) must be left out for classes"):
        fit_full_cells(classes, epsilon=1, rng=RNG(0), smallest=3)
    with pytest.raises(InputError, match="rule must be one of"):
        fit_full_cells(classes, epsilon=1, rng=RNG(0), rule="best")
    with pytest.raises(BudgetExceeded):
        fit_full_cells(classes, epsilon=2, rng=RNG(0))
    assert classes.ledger.spent.epsilon() == 0
    plain = ldp.Curator(NAMES, domain=ldp.Classes(("no", "yes")), budget=ldp.Budget(epsilon=1))
    with pytest.raises(InputError, match="curator must hold features and labels"):
        fit_full_cells(plain, epsilon=1, rng=RNG(0))
    with pytest.raises(InputError, match="grid must be a CubeGrid"):
        Located(CubePartition(1.0).fit(ROWS), ldp.Classes(2))  # type: ignore[arg-type]


def test_the_baseline_says_that_it_is_a_simulation() -> None:
    release = simulate_full_local(ROWS, NAMES, domain=CLASSES, epsilon=900, rng=RNG(0))
    assert release.value.predict([[0.1], [1.1]]).tolist() == ["yes", "no"]
    assert release.certificate.randomness is RandomnessKind.SIMULATION
    assert release.certificate.trust is Trust.LOCAL and release.certificate.neighbors is Neighbors.FULL
    assert "SIMULATION and protects nothing" in release.certificate.at(0)
    numbers = simulate_full_local(ROWS, [4.0, 2.0, -1, -1, 2], domain=NUMBERS, epsilon=900, rng=RNG(0)).value
    assert np.allclose(numbers.predict([[0.1], [1.1], [2.1]]), [3.0, -1.0, 2.0], atol=0.3)
    for rng in (ldp.SystemRandomness(), None, 3):
        with pytest.raises(InputError, match=r"rng must be a numpy\.random\.Generator"):
            simulate_full_local(ROWS, NAMES, domain=CLASSES, epsilon=1, rng=rng)  # type: ignore[arg-type]


def test_differences_of_gammas_are_sums_of_laplace_variables() -> None:
    """Variance 2 N b^2 and kurtosis 3 + 3 / N, against sums that are drawn one by one."""
    rng = RNG(0)
    noise = _LocalNoise(CLASSES, 1.0, rng)
    drawn, plain = noise._sums((200_000,), 3, 2.0), rng.laplace(0, 2.0, (200_000, 3)).sum(axis=1)
    for found in (drawn, plain):
        assert found.mean() == pytest.approx(0, abs=0.1)
        assert found.var() == pytest.approx(2 * 3 * 4, rel=0.05)
        assert np.mean(found**4) / found.var() ** 2 == pytest.approx(4, rel=0.1)
    shares = np.linspace(0.05, 0.95, 19)
    assert np.allclose(np.quantile(drawn, shares), np.quantile(plain, shares), atol=0.15)
