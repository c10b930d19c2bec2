"""The answer of least expected loss: its gap, what it is known as, its bits, and what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from labeldp.curator import Curator
from labeldp.mechanisms import Classes, Interval, Optimal, RandomizedResponse, restore
from labeldp.mechanisms.optimal import _in_integers, _lower_bound
from labeldp.privacy import WORD, Budget, InputError, PrivacyLoss, Public, SystemRandomness, exp_bounds


def random_losses(count: int) -> list[tuple[int, float, np.ndarray, Public | None]]:
    rng = np.random.default_rng(0)
    cases = []
    for number in range(count):
        size, epsilon = int(rng.integers(2, 13)), float(rng.choice([0.05, 0.5, 1, 2, 4, 8]))
        loss = rng.random((size, size)) * 10.0 ** rng.integers(-3, 4)
        if number % 3:
            np.fill_diagonal(loss, 0)
        prior = Public(rng.dirichlet(np.ones(size)), why="drawn for a test") if number % 2 else None
        cases.append((size, epsilon, loss, prior))
    return cases


@pytest.mark.guarantee("labeldp.mechanisms:Optimal", "optimal")
def test_the_gap_of_200_random_losses_is_at_most_a_millionth() -> None:
    for size, epsilon, loss, prior in random_losses(200):
        mechanism = Optimal(Classes(size), epsilon, loss, prior)
        assert 0 <= mechanism.gap <= 1e-6 * np.ptp(loss)


@pytest.mark.guarantee("labeldp.mechanisms:Optimal", "optimal")
def test_the_optimum_is_that_of_another_program() -> None:
    """The plain program over all tables, with one constraint for each pair of labels and each answer."""
    for size, epsilon, loss, prior in random_losses(12):
        chances = np.full(size, 1 / size) if prior is None else prior.value
        growth, rows = math.exp(epsilon), []
        for answer in range(size):
            for one in range(size):
                for other in range(size):
                    if one != other:
                        row = np.zeros((size, size))
                        row[one, answer], row[other, answer] = 1, -growth
                        rows.append(row.ravel())
        sums = np.kron(np.eye(size), np.ones(size))
        solution = linprog((chances[:, None] * loss).ravel(), np.array(rows), np.zeros(len(rows)), sums, np.ones(size))
        mechanism = Optimal(Classes(size), epsilon, loss, prior)
        assert mechanism.expected_loss == pytest.approx(solution.fun, rel=1e-6, abs=1e-9)
        assert mechanism.expected_loss - mechanism.gap <= solution.fun * (1 + 1e-9)


@pytest.mark.guarantee("labeldp.mechanisms:Optimal", "pure")
def test_weights_keep_epsilon_in_integers() -> None:
    for size, epsilon, loss, prior in random_losses(40):
        law = Optimal(Classes(size), epsilon, loss, prior).weights()
        growth = exp_bounds(Fraction(str(epsilon)))[0]
        assert all(sum(row) == WORD for row in law.tolist())
        assert all(max(column) <= min(column) * growth for column in law.T.tolist())


@pytest.mark.guarantee("labeldp.mechanisms:Optimal", "optimal")
def test_prices_that_are_too_high_bound_nothing_that_a_mechanism_does_not_reach() -> None:
    growth = exp_bounds(Fraction(1))[1]
    for size, _, loss, prior in random_losses(40):
        mechanism = Optimal(Classes(size), 1.0, loss, prior)
        weighted = (np.full(size, 1 / size) if prior is None else prior.value)[:, None] * loss
        for prices in (weighted.min(axis=1), weighted.mean(axis=1), weighted.max(axis=1), -weighted.max(axis=1)):
            assert _lower_bound(weighted, prices, growth) <= mechanism.expected_loss
    wrong = (1 - np.eye(2)) / 2
    assert _lower_bound(wrong, np.array([0.125, 0.125]), Fraction(3)) == Fraction(1, 4)  # randomized response at ln 3
    assert _lower_bound(wrong, np.array([0.5, 0.5]), Fraction(3)) < Fraction(1, 4)


def test_laws_that_ignore_the_label_survive_rounding() -> None:
    for seed in range(200):
        law = np.random.default_rng(seed).dirichlet(np.ones(2 + seed % 11))
        size = len(law)
        rounded = _in_integers(np.tile(law, (size, 1)), exp_bounds(Fraction(1, 10))[0], np.tile(range(size), (size, 1)))
        assert (rounded.sum(axis=1) == WORD).all() and np.abs((rounded / WORD).astype(float) - law).max() < 1e-14


def test_it_names_what_it_is() -> None:
    wrong = 1 - np.eye(4)
    plain = Optimal(Classes(4), 1.0, wrong)
    assert plain.known_as == "randomized response"
    assert plain.matrix() == pytest.approx(RandomizedResponse(Classes(4), 1.0).matrix(), abs=1e-15)
    rare = Public([0.45, 0.45, 0.09, 0.01], why="a census")
    assert Optimal(Classes(4), 0.5, wrong, rare).known_as == "randomized response over 0, 1"
    assert Optimal(Classes(("no", "yes")), 1.0, [[0, 1], [5, 0]]).known_as == "a constant answer"
    assert Optimal(Classes(("no", "yes")), 1.0, [[0, 1], [5, 0]]).privacy_loss() == PrivacyLoss.zero()
    distances = np.abs(np.subtract.outer(range(7), range(7)))
    assert (
        Optimal(Interval(0, 6, grid=7), 2.0, distances).known_as == "randomized response over 1.0, 2.0, 3.0, 4.0, 5.0"
    )
    circle = np.array([0, 0.1, 1, 1, 1])[(np.arange(5)[None, :] - np.arange(5)[:, None]) % 5]
    assert Optimal(Classes(5), 1.0, circle).known_as == ""


def test_a_loss_around_a_circle_has_a_closed_form() -> None:
    """The program on the same loss, which one entry keeps from being the same for all labels, finds the same."""
    shifts = (np.arange(6)[None, :] - np.arange(6)[:, None]) % 6
    loss = np.array([0, 1, 3, 4, 3, 1.0])[shifts]
    nudged = loss.copy()
    nudged[2, 5] += 1e-9
    closed, solved = Optimal(Classes(6), 0.7, loss), Optimal(Classes(6), 0.7, nudged)
    assert closed.expected_loss == pytest.approx(solved.expected_loss, abs=1e-8)
    assert closed.gap <= 1e-12


def test_it_costs_less_than_the_best_decision_on_randomized_response() -> None:
    """Two costs for the two mistakes, and a distance: both are below what can be made of randomized response."""
    for loss, prior in (
        ([[0, 1], [3, 0]], [0.7, 0.3]),
        (np.abs(np.subtract.outer(range(8), range(8))), np.full(8, 1 / 8)),
    ):
        size = len(prior)
        joint = np.array(prior)[:, None] * RandomizedResponse(Classes(size), 1.5).matrix()
        best = (joint.T @ np.asarray(loss)).min(axis=1).sum()
        mechanism = Optimal(Classes(size), 1.5, loss, Public(prior, why="a survey"))
        assert mechanism.expected_loss <= best * (1 + 1e-9)
    assert mechanism.expected_loss < 0.95 * best


def test_a_curator_releases_it_and_it_comes_back_from_its_description() -> None:
    domain, costs = Classes(("no", "maybe", "yes")), [[0, 1, 2], [1, 0, 1], [4, 2, 0]]
    mechanism = Optimal(domain, 1.0, costs, Public([0.5, 0.3, 0.2], why="last year's survey"))
    labels = np.array(["no", "maybe", "yes"] * 400)
    release = Curator(labels, domain=domain, budget=Budget(1)).release(mechanism, rng=SystemRandomness())
    assert release.certificate.epsilon() == 1
    assert "a stated cost, not computed from the labels" in release.certificate.at()
    shares = np.bincount(release.value, minlength=3) / 1200
    assert np.abs(shares - mechanism.matrix().mean(axis=0)).max() < 0.1
    again = restore(mechanism.describe(), domain)
    assert (again.weights() == mechanism.weights()).all()
    assert mechanism.likelihood(release.value).shape == (1200, 3)


@pytest.mark.parametrize(
    ("domain", "loss", "prior", "words"),
    [
        (Classes(13), np.zeros((13, 13)), None, "2 to 12 labels"),
        (Classes(3), [[0, 1], [1, 0]], None, r"loss must hold finite numbers, shape \(3, 3\)"),
        (Classes(2), [[0, math.nan], [1, 0]], None, "finite numbers"),
        (Classes(2), [["a", "b"], ["c", "d"]], None, "finite numbers"),
        (Classes(2), [[0, 1], [1, 0]], [0.5, 0.5], "prior must be a Release or Public"),
        (Classes(2), [[0, 1], [1, 0]], Public([[0.5, 0.5], [0.1, 0.9]], why="x"), "one row"),
    ],
)
def test_what_it_refuses(domain: Classes, loss: object, prior: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Optimal(domain, 1.0, loss, prior)
