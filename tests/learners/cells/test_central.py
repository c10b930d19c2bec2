"""Cells from a trusted curator: eq. (17) and (23), what is charged, what is refused, and what neighbors can tell."""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.tree import DecisionTreeRegressor

import labeldp as ldp
from labeldp.learners import (
    CellTreesClassifier,
    CellTreesRegressor,
    CubePartition,
    MedianPartition,
    TreePartition,
    default_cells,
    fit_cells,
)
from labeldp.learners.cells.central import _CellLoss, _NoisyCells
from labeldp.privacy import BudgetExceeded, InputError, Trust
from learners.data import answered, blobs, curator

RNG = np.random.default_rng

CUBES = CubePartition(1.0, bounds=(0, 3))

ROWS = np.array([[0.5], [0.5], [0.5], [1.5], [1.5]])


def holder(labels: Any, domain: Any, epsilon: float = 1.0) -> ldp.Curator:
    return ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=epsilon))


def test_the_number_of_a_cell_is_its_noisy_mean() -> None:
    """Eq. (23) with the scale (high - low) / (n_l epsilon), of which the variance is seen over many draws."""
    labels, domain = [1.0, 2, 3, 9, 8], ldp.Interval(0, 10, grid=1001)
    sure = fit_cells(ROWS, holder(labels, domain, 1000), epsilon=1000, rng=RNG(0), partition=CUBES).value
    assert np.allclose(sure.predict([[0.1], [1.1], [2.9]]), [2.0, 8.5, 8.5], atol=0.1)
    wide = ldp.Interval(-1000, 1000, grid=2001)
    rng, draws = RNG(1), []
    for _ in range(400):
        holds = holder([0.0] * 4, wide, 20)
        draws.append(
            fit_cells(np.full((4, 1), 0.5), holds, epsilon=20, rng=rng, partition=CUBES).value.predict([[0.5]])[0]
        )
    assert np.std(draws) == pytest.approx(math.sqrt(2) * 2000 / (4 * 20), rel=0.2)  # a chance of about 1e-4 at 0.2


@pytest.mark.parametrize("mechanism", [None, "counts", "permute-and-flip", "exponential"])
def test_the_class_of_a_cell_is_its_most_frequent_one(mechanism: str | None) -> None:
    """Eq. (17) at an epsilon where noise is rare."""
    model = fit_cells(
        ROWS, curator([0, 1, 1, 0, 0], 2, 300), epsilon=300, rng=RNG(0), partition=CUBES, mechanism=mechanism
    ).value
    assert model.predict([[0.1], [1.1], [2.9]]).tolist() == [1, 0, 0]
    assert np.allclose(model.predict_proba(ROWS).sum(axis=1), 1)


def test_several_classes_are_learned_by_name() -> None:
    features, labels = blobs(3000, 3)
    names = np.array(["a", "b", "c"])[labels]
    release = fit_cells(
        features, holder(names, ldp.Classes(("a", "b", "c"))), epsilon=1, rng=RNG(0), partition=MedianPartition(32)
    )
    assert np.mean(release.value.predict(features) == names) > 0.85
    assert release.value.classes == ("a", "b", "c")


def test_estimates_are_unbiased_and_know_the_sizes() -> None:
    domain, groups = ldp.Classes(3), ldp.Public(np.zeros(10, int), why="one")
    counts = ldp.LaplaceHistogram(domain=domain, epsilon=1, groups=groups)
    found = counts.estimates(np.array([[6, 3, 4]]), np.array([10]))
    assert np.allclose(found, [[0.5, 0.2, 0.3]])
    sums = ldp.mechanisms.LaplaceSum(domain=ldp.Classes(2), epsilon=1, groups=groups)
    assert np.allclose(sums.estimates(np.array([-2]), np.array([10])), [[1.2, -0.2]])


@pytest.mark.guarantee("labeldp.learners:fit_cells", "pure")
@pytest.mark.guarantee("labeldp.learners:fit_cells", "prior_charged")
def test_what_is_charged_is_epsilon() -> None:
    features, labels = blobs(400)
    plain = fit_cells(features, curator(labels), epsilon=1, rng=RNG(0), partition=MedianPartition(8))
    assert plain.certificate.epsilon() == 1.0 and plain.certificate.trust is Trust.CENTRAL
    forest = TreePartition(RandomTreesEmbedding(3, max_depth=3, random_state=0))
    release = fit_cells(features, curator(labels), epsilon=1, rng=RNG(0), partition=forest)
    assert len(release.certificate.entries) == 3
    assert 0.999 < release.certificate.epsilon() <= 1.0
    first = answered(labels, ldp.Classes(2), ldp.RandomizedResponse, 0.5)
    tree = first.map(lambda codes: DecisionTreeRegressor(max_leaf_nodes=8).fit(features, codes))
    above = fit_cells(features, curator(labels), epsilon=1, rng=RNG(0), partition=TreePartition(tree))
    assert above.certificate.epsilon() == 1.5
    assert above.value.estimator.partition_.estimator is None
    public = TreePartition(ldp.Public(tree.value, why="grown to predict a public column"))
    certificate = fit_cells(features, curator(labels), epsilon=1, rng=RNG(0), partition=public).certificate
    assert "grown to predict a public column" in certificate.at(0)


def test_some_records_can_be_kept_for_an_evaluation() -> None:
    features, labels = blobs(4000)
    holds = curator(labels)
    release = fit_cells(features, holds, epsilon=1, rng=RNG(0), partition=MedianPartition(8), evaluation=0.3)
    assert release.certificate.epsilon() == 1.0 and holds.ledger.spent.epsilon() == 1.0
    assert release.value.evaluation.accuracy().value == pytest.approx(
        np.mean(release.value.predict(features) == labels), abs=0.1
    )
    numbers = np.clip(features[:, 0] + 5, 0, 10)
    release = fit_cells(
        features,
        holder(numbers, ldp.Interval(0, 10)),
        epsilon=1,
        rng=RNG(0),
        partition=CubePartition(2.0),
        evaluation=0.3,
    )
    assert release.value.evaluation.squared_error().low < 3


def neighbors_can_tell(mechanism: str | None, domain: Any, pair: tuple[list[Any], list[Any]], draws: int) -> float:
    """The largest lower bound on ln of a ratio of chances, over all events that one answer of the model shows.

    Each bound fails with a chance below 1e-12 (Clopper and Pearson).
    """
    rng = RNG(5)
    seen = []
    for labels in pair:
        found = []
        for _ in range(draws):
            holds = holder(labels, domain)
            model = fit_cells(ROWS, holds, epsilon=1, rng=rng, partition=CUBES, mechanism=mechanism).value
            found.append(np.round(model.estimator.answers(np.array([[0.5], [1.5]])).ravel(), 9))
        seen.append(np.array(found))
    outcomes = np.unique(np.vstack(seen), axis=0)
    worst = -np.inf
    for outcome in outcomes:
        hits = [int(np.all(each == outcome, axis=1).sum()) for each in seen]
        for more, less in (hits, hits[::-1]):
            if more:
                low = betaincinv(more, draws - more + 1, 1e-12)
                high = betaincinv(less + 1, draws - less, 1 - 1e-12) if less < draws else 1.0
                worst = max(worst, float(np.log(low / high)))
    return worst


@pytest.mark.parametrize(
    ("mechanism", "domain", "pair"),
    [
        ("permute-and-flip", ldp.Classes(2), ([0, 0, 1, 0, 1], [0, 1, 1, 0, 1])),
        ("exponential", ldp.Classes(2), ([0, 0, 1, 0, 1], [0, 1, 1, 0, 1])),
        ("sums", ldp.Interval(0, 1, grid=2), ([0, 0, 1, 0, 1], [0, 1, 1, 0, 1])),
    ],
)
def test_neighbors_are_not_told_apart_by_more_than_epsilon(mechanism: str, domain: Any, pair: Any) -> None:
    assert neighbors_can_tell(mechanism, domain, pair, 600) <= 1.0


@pytest.mark.slow
def test_the_distinguishing_test_can_fail() -> None:
    """With three labels replaced, the same draws show that more than epsilon was spent."""
    far = ([0, 0, 0, 0, 1], [1, 1, 1, 0, 1])
    assert neighbors_can_tell("sums", ldp.Interval(0, 1, grid=2), far, 1000) > 1.0


def test_bad_input_is_refused_before_anything_is_charged() -> None:
    features, labels = blobs(100)
    holds = curator(labels)
    given: dict[str, Any] = {"epsilon": 1, "rng": RNG(0), "partition": MedianPartition(4)}

    def refused(message: str, table: Any = features, **arguments: Any) -> None:
        with pytest.raises(InputError, match=message):
            fit_cells(table, holds, **{**given, **arguments})
        assert holds.ledger.spent.epsilon() == 0

    infinite = features.copy()
    infinite[0, 0] = np.inf
    refused("features must be finite", infinite)
    refused("features must have one row for each record", features[1:])
    refused("bounds must hold all features", partition=CubePartition(1.0, bounds=(0, 1)))
    refused("side is too small", np.tile(features, 30), partition=CubePartition(0.01))
    refused("partition must be a rule", partition=7)
    refused('mechanism must be one of "sums", "counts", "permute-and-flip", "exponential"', mechanism="noise")
    refused("evaluation must be a share", evaluation=1.0)
    refused("evaluation must be a share", evaluation="half")
    refused("epsilon must be positive", epsilon=0)
    refused("rng must be", rng=None)
    released = TreePartition(
        answered(labels, ldp.Classes(2), ldp.RandomizedResponse).map(
            lambda codes: DecisionTreeRegressor(max_leaf_nodes=4).fit(features, codes)
        )
    )
    refused("evaluation must be 0 where cells rest on a Release", partition=released, evaluation=0.2)
    with pytest.raises(InputError, match='mechanism must be one of "counts"'):
        fit_cells(features, curator(labels, 3), **given, mechanism="sums")
    with pytest.raises(BudgetExceeded):
        fit_cells(features, curator(labels, epsilon=0.5), **given)
    with pytest.raises(InputError, match="low must be below high"):
        ldp.Interval(1, 1)


def test_features_that_never_vary_make_one_cell() -> None:
    numbers = holder([2.0] * 50, ldp.Interval(0, 10, grid=11), 1000)
    model = fit_cells(np.ones((50, 2)), numbers, epsilon=1000, rng=RNG(0), partition=MedianPartition(8)).value
    assert len(model.estimator.cells_[0].keys) == 1
    assert np.allclose(model.predict(np.ones((2, 2))), 2, atol=0.01)


def test_labels_with_heavy_tails_are_clipped() -> None:
    domain = ldp.Interval(-10, 10, grid=2001, clip=True)
    model = fit_cells(ROWS, holder([1e9, 1, 1, -1e9, 0], domain, 1000), epsilon=1000, rng=RNG(0), partition=CUBES).value
    assert np.allclose(model.predict([[0.5], [1.5]]), [4.0, -5.0], atol=0.1)


def ripples(records: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers between 0 and 10 that wave along the first of four features and step along the second."""
    features = RNG(seed).uniform(0, 1, (records, 4))
    values = 5 + 3 * np.sin(6 * features[:, 0]) + 1.5 * np.sign(features[:, 1] - 0.5)
    return features, np.clip(values, 0, 10)


def test_many_small_cells_together_say_more_than_each_alone() -> None:
    features, labels = ripples(6000)
    asked, truth = ripples(1000, seed=1)
    domain = ldp.Interval(0, 10)

    def error(**arguments: Any) -> float:
        release = fit_cells(features, holder(labels, domain), epsilon=1, rng=RNG(0), **arguments)
        assert release.certificate.epsilon() == 1.0 and len(release.certificate.entries) == 1
        return float(np.mean((release.value.predict(asked) - truth) ** 2))

    cells = default_cells(6000, 1.0)
    together = error()
    assert together < 0.7 * min(error(partition=MedianPartition(size)) for size in (cells, cells // 8, cells // 32))
    assert together < 0.25 * np.var(truth)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_learned_from_many_small_cells(classes: int) -> None:
    features, labels = blobs(4000, classes)
    holds = curator(labels, classes)
    release = fit_cells(features, holds, epsilon=1, rng=RNG(0), evaluation=0.2)
    assert np.mean(release.value.predict(features) == labels) > 0.9
    assert np.allclose(release.value.predict_proba(features).sum(axis=1), 1)
    assert holds.ledger.spent.epsilon() == 1.0
    assert isinstance(release.value.estimator, CellTreesClassifier)


def test_the_same_randomness_gives_the_same_model() -> None:
    features, labels = ripples(1500)
    models = [
        fit_cells(features, holder(labels, ldp.Interval(0, 10)), epsilon=1, rng=RNG(0)).value.predict(features)
        for _ in range(2)
    ]
    assert np.array_equal(*models)


def test_few_records_make_a_constant_and_gaps_are_no_problem() -> None:
    features, labels = ripples(12)
    model = fit_cells(features, holder(labels, ldp.Interval(0, 10), 100), epsilon=100, rng=RNG(0)).value
    assert len(np.unique(model.predict(features))) == 1
    assert model.predict(features)[0] == pytest.approx(labels.mean(), abs=0.1)
    features, labels = ripples(2000)
    features[::3, 2] = np.nan
    model = fit_cells(features, holder(labels, ldp.Interval(0, 10)), epsilon=1, rng=RNG(0)).value
    assert np.mean((model.predict(features) - labels) ** 2) < 0.5 * labels.var()


def test_trees_learn_within_cells_what_their_means_show() -> None:
    """Exact means of cells that each hold both sides of a step: no cell alone shows it, and all together do."""
    rng = RNG(0)
    features = rng.uniform(0, 1, (4000, 2))
    labels = (features[:, 1] > 0.5).astype(float)
    cells = MedianPartition(400).fit(features[:, :1]).transform(features[:, :1])
    sizes = np.bincount(cells)
    means = np.bincount(cells, labels) / sizes
    learner = CellTreesRegressor(rounds=100).learn(features, cells, means[:, None], 0.1 / sizes)
    assert np.mean((learner.predict(features) - labels) ** 2) < 0.1
    assert np.mean((means[cells] - labels) ** 2) > 0.2
    again = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(again.predict(features), learner.predict(features))
    assert repr(CellTreesRegressor(rounds=100)) == "CellTreesRegressor(rounds=100)"


def test_how_many_small_cells_by_hand() -> None:
    """10/epsilon records in each."""
    assert default_cells(10_000, 1.0) == 1000
    assert default_cells(10_000, 0.01) == 10
    assert default_cells(10, 0.01) == 1
    assert default_cells(1000, 1000.0) == 1000


def test_trees_need_estimates() -> None:
    features, labels = blobs(100)
    with pytest.raises(InputError, match='mechanism must be one of "sums", "counts" for these labels and no partition'):
        fit_cells(features, curator(labels), epsilon=1, rng=RNG(0), mechanism="exponential")
    with pytest.raises(InputError, match="features must be numbers"):
        fit_cells(np.array([["a"]] * 100), curator(labels), epsilon=1, rng=RNG(0))


def test_few_large_cells_leave_every_tree_some_records() -> None:
    """A booster that learns from one cell would be without any in half of all draws."""
    sums = _NoisyCells.of(np.repeat(np.arange(20), 4), np.ones((20, 1)), np.ones(20))[1]
    loss = _CellLoss(sums, 3)
    loss.held[:, 0] = np.arange(20) != 3
    gradient, hessian = np.empty((2, 80, 3))
    for _ in range(50):
        loss.gradient_hessian(None, np.zeros((80, 3)), None, gradient, hessian)
        assert set(np.flatnonzero(gradient[:, 0]) // 4) == set(np.flatnonzero(hessian[:, 0]) // 4) == {3}
        assert 0 < np.count_nonzero(gradient[:, 1]) < 80


def test_slopes_of_coupled_records_by_hand() -> None:
    """Cells of two and one records, means 3 and 5, weights 1 and 3: slopes are weight / size times what lacks."""
    cells = _NoisyCells(np.array([0, 0, 1]), np.array([2, 1]), np.array([[3.0], [5.0]]), np.array([1.0, 3.0]))
    loss = _CellLoss(cells, 3)
    loss.held[:] = False
    seen = set()
    for _ in range(30):
        gradient, hessian = np.empty((2, 3, 3))
        loss.gradient_hessian(None, np.tile([[1.0], [2.0], [1.0]], 3), None, gradient, hessian)
        seen |= {(tuple(one), tuple(other)) for one, other in zip(gradient.T, hessian.T, strict=True)}
    both = (-0.75, -0.75, -12.0), (0.5, 0.5, 3.0)
    assert seen == {both, ((-0.75, -0.75, 0.0), (0.5, 0.5, 0.0)), ((0.0, 0.0, -12.0), (0.0, 0.0, 3.0))}
    loss.held[:] = [[True, False, False], [False, True, True]]
    assert loss(None, np.tile([[1.0], [2.0], [1.0]], 3)) == 1.5**2 * 1 + 2 * 4**2 * 3


@pytest.mark.parametrize(("records", "classes"), [(40, 10), (79, 10), (80, 10), (25, 2), (20, 2)])
def test_few_records_of_many_classes_are_no_trouble(records: int, classes: int) -> None:
    """Warnings are errors in these tests: scikit-learn warns of classes that few records have."""
    rng = RNG(0)
    cells, features = np.arange(records) % 20, rng.normal(size=(records, 3))
    learner = CellTreesClassifier().learn(features, cells, rng.random((20, classes)), np.ones(20))
    assert learner.predict_proba(features).shape == (records, classes)


def test_cells_that_a_ledger_released_before_are_those_that_are_learned_from(tmp_path: Path) -> None:
    """Other features, another machine: the same step is the same release, of the cells of that time."""
    features, labels = blobs(600)
    other = features[:, :1] * 0

    def again(table: Any, epsilon: float, partition: Any = None) -> Any:
        account = ldp.LedgerFile(tmp_path / "l.ledger").dataset("x", budget=ldp.Budget(epsilon=2))
        holds = ldp.Curator(labels, domain=ldp.Classes(2), ledger=account, run="a run")
        return fit_cells(table, holds, epsilon=epsilon, rng=account.randomness, partition=partition), account

    first, account = again(features, 1)
    second, account = again(other, 1)
    assert first.certificate == second.certificate and account.spent.epsilon() == 1
    assert np.isfinite(second.value.predict_proba(other)).all()
    again(features, 0.5, MedianPartition(8))
    with pytest.raises(InputError, match="partition must cut features as it did"):
        again(features, 0.5, MedianPartition(4))
    assert account.spent.epsilon() == 1.5
