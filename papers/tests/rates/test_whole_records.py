"""Cells of a fixed grid where features are private, too: answers by hand, certificates, refusals, the baseline."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv
from sklearn.tree import DecisionTreeRegressor

import labeldp as ldp
from labeldp.learners import (
    CubeGrid,
    CubePartition,
    TreePartition,
    fit_cells,
)
from labeldp.mechanisms import Classes, Interval, PermuteAndFlip
from labeldp.privacy import BudgetExceeded, DomainError, InputError, Public, RandomnessKind, Trust, Unit
from papers.rates.whole_records import (
    FullMeans,
    FullSelection,
    GridClassifier,
    GridRegressor,
    Located,
    _LocalNoise,
    fit_full_cells,
    simulate_full_local,
)

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
    assert release.certificate.neighbors is Unit.FULL and release.certificate.trust is Trust.CENTRAL
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


def test_cells_may_rest_on_a_release_of_whole_records_which_protects_labels_too() -> None:
    full = fit_full_cells(holder(ROWS, [0.0] * 5, NUMBERS), epsilon=1, rng=RNG(0), smallest=1)
    tree = full.map(lambda model: DecisionTreeRegressor(max_leaf_nodes=2).fit(ROWS, model.predict(ROWS)))
    labels = ldp.Curator([0.0] * 5, domain=ldp.Interval(0, 1), budget=ldp.Budget(epsilon=1))
    model = fit_cells(ROWS, labels, epsilon=1, rng=RNG(0), partition=TreePartition(tree))
    assert model.certificate.neighbors is Unit.ONE_LABEL and model.certificate.epsilon(0) == 2


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
    assert release.certificate.trust is Trust.LOCAL and release.certificate.neighbors is Unit.FULL
    assert "SIMULATION – seeded noise, no privacy" in release.certificate.at(0)
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


BOXES = CubeGrid.of_side(0.5, [(0, 1), (0, 1)])
WHY = "written by hand for a test"


@pytest.mark.parametrize("private", ["secret", None, [1], 10**400, 1j])
def test_no_message_quotes_a_private_feature(private: Any) -> None:
    with pytest.raises((DomainError, InputError), match="features must") as caught:
        Located(BOXES, Classes(2)).encode(([[0.1, private]], [0]))
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert "secret" not in str(caught.value)


def test_a_located_record_is_its_cell_and_its_label() -> None:
    domain = Located(BOXES, Classes(("no", "maybe", "yes")))
    features, labels = [[0.1, 0.9], [5, -5], [0.6, 0.7]], ["yes", "no", "maybe"]
    codes = domain.encode((features, labels))
    assert codes.tolist() == [1 * 3 + 2, 2 * 3 + 1, 3 * 3 + 0]
    assert domain.decode(codes).tolist() == [[1, 2], [2, 1], [3, 0]]
    assert domain.table(codes).tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Located([0, 1], Classes(2)), "grid must be a CubeGrid"),
        (lambda: Located(BOXES, Located(BOXES, Classes(2))), "labels must be the domain"),
        (lambda: Located(CubeGrid.of_side(1e-3, [(0, 1)] * 2), Classes(100)), "more than the 16,777,216"),
        (lambda: Located(BOXES, Classes(2)).encode([1, 2, 3]), "the pair"),
        (lambda: Located(BOXES, Classes(2)).encode(([[0, 0]], [0, 1])), "one row for each label"),
        (lambda: Located(BOXES, Classes(2)).encode(([[0]], [0])), "must have 2 columns"),
        (lambda: Located(BOXES, Classes(2)).encode(([[0, np.nan]], [0])), "features must be finite"),
        (lambda: FullSelection(domain=Classes(2), epsilon=1), "domain must be Located"),
        (lambda: FullSelection(domain=Located(BOXES, Interval(0, 1)), epsilon=1), "must have Classes"),
        (lambda: FullSelection(domain=Located(BOXES, Classes(2)), epsilon=1, rule="best"), "rule must be one of"),
        (lambda: FullMeans(domain=Located(BOXES, Classes(2)), epsilon=1, smallest=1), "must have an Interval"),
        (lambda: FullMeans(domain=Located(BOXES, Interval(0, 1)), epsilon=1, smallest=0), "smallest \\(n_0\\)"),
        (lambda: FullMeans(domain=Located(BOXES, Interval(0, 1)), epsilon=1, smallest=None), "smallest \\(n_0\\)"),
        (lambda: FullMeans(domain=Located(BOXES, Interval(0, 1)), epsilon=1e-5, smallest=5), "epsilon is too small"),
    ],
)
def test_what_whole_records_refuse(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((InputError, DomainError), match=message):
        make()


def test_means_of_cells_by_hand() -> None:
    """Equation (33): the sum of a cell over the larger of its size and n_0, from the middle of the range."""
    mechanism = FullMeans(domain=Located(BOXES, Interval(0, 4, grid=5)), epsilon=1, smallest=2)
    table = np.zeros((4, 5), dtype=np.int64)
    table[0, 4] = 1  # one record of 2 above the middle, divided by n_0 = 2
    table[1, 0], table[1, 3] = 2, 2  # mean 1.5
    table[2, 4] = 3
    assert mechanism.means(mechanism.rounded(table)) == pytest.approx([3, 1.5, 4, 2], abs=1e-5)


def test_the_noise_of_a_full_mean_is_that_of_the_paper_or_less() -> None:
    """Equation (36), printed: 6T/(n_0 epsilon); ours: 4T/((n_0 + 1) epsilon)."""
    domain = Located(BOXES, Interval(-3, 3, grid=61))
    for smallest in (1, 7, 1000):
        printed, ours = (
            FullMeans(domain=domain, epsilon=0.5, smallest=smallest, printed=printed) for printed in (True, False)
        )
        assert printed.scale == pytest.approx(6 * 3 / (smallest * 0.5), rel=1e-5)
        assert ours.scale == pytest.approx(4 * 3 / ((smallest + 1) * 0.5), rel=1e-5)


def test_the_bound_of_a_full_mean_is_reached() -> None:
    """Two cells of n_0 + 1 records, all at one end but the one that moves: no smaller noise would do."""
    mechanism = FullMeans(domain=Located(BOXES, Interval(0, 1, grid=2)), epsilon=1, smallest=3)
    one, two = np.zeros((2, 4, 2), dtype=np.int64)
    one[0], one[1] = [1, 3], [3, 0]
    two[0], two[1] = [0, 3], [3, 1]
    moved = int(np.abs(mechanism.rounded(one) - mechanism.rounded(two)).sum())
    assert mechanism.sensitivity - 3 <= moved <= mechanism.sensitivity


def test_large_cells_are_divided_exactly() -> None:
    """Where the remainder times the units leaves 64 bits."""
    mechanism = FullMeans(domain=Located(BOXES, Interval(0, 1, grid=2)), epsilon=1, smallest=10**9)
    table = np.array([[10**9, 2 * 10**9 + 1], [0, 0], [1, 0], [10**9, 10**9]])
    exact = [Fraction(int(b - a), max(int(a + b), 10**9)) * mechanism.fine for a, b in table]
    assert mechanism.rounded(table).tolist() == [int((each + Fraction(1, 2)).__floor__()) for each in exact]


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
def test_protecting_features_costs_selection_nothing(rule: str) -> None:
    """Equation (31), tight: one cell has the law of label privacy at the same epsilon; printed, at half."""
    counts = np.array([5, 3, 4])
    full = FullSelection(domain=Located(BOXES, Classes(3)), epsilon=1, rule=rule)
    printed = FullSelection(domain=Located(BOXES, Classes(3)), epsilon=1, rule=rule, printed=True)
    half = FullSelection(domain=Located(BOXES, Classes(3)), epsilon=0.5, rule=rule)
    assert full.law(counts).argmax() == 0
    assert printed.law(counts) == pytest.approx(half.law(counts))
    if rule == "permute-and-flip":
        groups = Public([0], why=WHY)
        assert full.law(counts) == pytest.approx(
            PermuteAndFlip(domain=Classes(3), epsilon=1, groups=groups).law(counts)
        )
    else:
        weights = np.exp([2.5, 1.5, 2.0])
        assert full.law(counts) == pytest.approx(weights / weights.sum())


def test_a_curator_of_whole_records_says_what_is_protected() -> None:
    domain, rng = Located(BOXES, Classes(2)), np.random.default_rng(0)
    features = rng.random((50, 2))
    curator = ldp.Curator((features, np.arange(50) % 2), domain=domain, budget=ldp.Budget(epsilon=1))
    release = curator.release(FullSelection(domain=domain, epsilon=1), rng=rng)
    assert release.certificate.neighbors is Unit.FULL
    sentence = release.certificate.at(0)
    assert "one record (features and label) of dataset" in sentence
    assert "ε = 1, δ = 0. Any output is at most 2.719 times as likely under another record" in sentence
    assert "central: a trusted curator sees the records" in sentence
    assert "the cells and their bounds were chosen without a look at the features" in sentence
    assert release.value.shape == (4,)


def test_a_grid_clamps_what_lies_outside_in_silence() -> None:
    values = np.arange(4)
    model = GridRegressor(np.zeros(2), np.ones(2), np.array([2, 2]), values)
    assert model.predict([[-1e300, 1e300], [0.9, 0.1]]).tolist() == [1, 2]
    with pytest.raises(InputError, match="features must have 2 columns"):
        model.predict([[0.5]])
    with pytest.raises(InputError, match="Complex data not supported"):
        model.predict(np.full((1, 2), 1j))


@pytest.mark.parametrize("labels", [Classes(("a", "b")), Interval(0, 1, grid=5)])
def test_a_domain_of_whole_records_describes_itself_and_is_not_read_back(labels: Any) -> None:
    domain = Located(BOXES, labels)
    assert json.loads(json.dumps(domain.to_json())) == {"cells": BOXES.to_json(), "labels": labels.to_json()}
    with pytest.raises(InputError):
        ldp.mechanisms.Domain.from_json(domain.to_json())
