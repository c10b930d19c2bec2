"""Models of released bags: exact solutions by hand, the law of their error, and any regressor on means."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import labeldp as ldp
from labeldp import BagSum, Interval
from labeldp.bags import (
    BagRegressor,
    BagRows,
    NoisyWeightedLLP,
    WeightedLBA,
    bag_rows,
    fit_bags,
    random_bags,
)
from labeldp.bags.learners import _solved as solved
from labeldp.bags.learners import bag_product, least_squares
from labeldp.privacy import Public, Release

DOMAIN = Interval(-4, 4, grid=8001)
TRUE = np.array([0.5, -1.0, 0.25])


def linear(count: int, noise: float, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features, and labels that are linear in them up to noise."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (count, 3))
    return features, np.clip(1 + features @ TRUE + noise * rng.normal(size=count), -4, 4)


def public(value: Any) -> Public[Any]:
    """An array that no label went into."""
    return Public(value, why="made up for a test")


def released(labels: Any, mechanism: Any, seed: int = 0) -> Release[Any]:
    """A simulated release, whatever it costs."""
    certificate: Any = None
    value = mechanism.randomize(DOMAIN.encode(labels), rng=np.random.default_rng(seed))
    return Release(value, certificate, mechanism)


def test_sums_over_bags_by_hand() -> None:
    table = np.array([[1.0, 2], [3, 4], [5, 6]])
    assert (bag_product([1, 0, 1], [1, -1, 2]) @ table).tolist() == [[-3, -4], [11, 14]]
    rng = np.random.default_rng(0)
    bags, weights, large = rng.integers(0, 50, 1000), rng.normal(size=1000), rng.normal(size=(1000, 4))
    expected = [(weights[bags == bag, None] * large[bags == bag]).sum(axis=0) for bag in range(50)]
    assert bag_product(bags, weights) @ large == pytest.approx(np.array(expected))


def test_weights_are_one_over_the_variance() -> None:
    """Two rows about one number, of variances 1 and 3: the mean leans three to one to the first."""
    rows = BagRows(np.ones((2, 1)), np.array([0.0, 4.0]), np.ones(2), np.array([1.0, 3.0]))
    assert solved(rows, 1 / rows.variances, 0.0, True) == pytest.approx([1.0])


def test_the_variance_around_the_fit_is_estimated_from_released_sums() -> None:
    """Where labels deviate, large bags say less about a mean than their noise alone would let one think.

    With variances known, the error is that of the best weights; with noise alone as the variance it is larger.
    """
    best, naive = [], []
    sizes = np.repeat([4.0, 100.0], [2000, 40])
    variances = np.repeat([1.0, 400.0], [2000, 40])
    for seed in range(50):
        rng = np.random.default_rng(seed)
        sums = 2 * sizes + rng.normal(size=len(sizes)) * np.sqrt(25 * sizes + variances)
        rows = BagRows(sizes[:, None], sums, sizes, variances)
        best.append(least_squares(rows)[0] - 2)
        naive.append(solved(rows, 1 / variances, 0.0, True)[0] - 2)
    expected = 1 / np.sum(sizes**2 / (25 * sizes + variances))
    assert np.mean(np.square(best)) == pytest.approx(expected, rel=0.5)
    assert np.mean(np.square(best)) <= np.mean(np.square(naive))


@pytest.mark.parametrize("kind", ["sum", "signs", "normal", "secret"])
def test_noise_away_the_truth_is_found(kind: str) -> None:
    features, labels = linear(6000, 0.0)
    bags = random_bags(6000, 20)
    constant = np.column_stack([np.ones(6000), features])
    mechanism: Any = {
        "sum": lambda: BagSum(20, domain=DOMAIN, epsilon=900, bags=bags),
        "signs": lambda: NoisyWeightedLLP(20, 2, 0.01, domain=DOMAIN, bags=bags),
        "normal": lambda: NoisyWeightedLLP(20, 2, 0.01, "gaussian", domain=DOMAIN, bags=bags),
        "secret": lambda: WeightedLBA(20, bag_noise=0.02, domain=DOMAIN, bags=bags, features=public(constant)),
    }[kind]()
    given = constant if kind == "secret" else features
    model = fit_bags(given, released(labels, mechanism)).value
    assert model.predict(given) == pytest.approx(1 + features @ TRUE, abs=0.02)


def test_the_error_does_not_depend_on_the_size_of_bags() -> None:
    """tau^2 (1 + d/(m - d - 1)) with m bags and d coefficients."""
    found = {}
    for size in (4, 32):
        errors = []
        for seed in range(60):
            features, labels = linear(40 * size, 0.5, seed)
            mechanism = NoisyWeightedLLP(size, 1, 1e-4, domain=DOMAIN, bags=random_bags(len(labels), size, seed=seed))
            model = fit_bags(features, released(labels, mechanism, seed)).value
            errors.append(np.mean((model.predict(features) - 1 - features @ TRUE) ** 2))
        found[size] = np.mean(errors)
        assert found[size] == pytest.approx(0.25 * 4 / (40 - 4 - 1), rel=0.5)
    assert 0.5 < found[4] / found[32] < 2


def test_bags_of_similar_records_beat_bags_at_random() -> None:
    features, labels = linear(20_000, 0.3)
    errors = []
    for bags in ("median", "random"):
        sums = BagSum(64, bags=bags, domain=DOMAIN, epsilon=1, features=public(features))
        model = fit_bags(features, released(labels, sums)).value
        errors.append(np.mean((model.predict(features) - 1 - features @ TRUE) ** 2))
    assert errors[0] < errors[1] / 10


def test_a_penalty_shrinks() -> None:
    features, labels = linear(2000, 0.1)
    release = released(labels, BagSum(20, domain=DOMAIN, epsilon=900, features=public(features)))
    sizes = [np.abs(fit_bags(features, release, ridge=r).value.estimator.coefficients).sum() for r in (0, 0.1, 100)]
    assert sizes[0] == pytest.approx(1.75, rel=0.05)
    assert sizes[0] > sizes[1] > 10 * sizes[2]


@pytest.mark.parametrize(
    "estimator", [None, LinearRegression(), DecisionTreeRegressor(max_leaf_nodes=8, random_state=0)]
)
def test_any_regressor_learns_from_means(estimator: Any) -> None:
    rng = np.random.default_rng(1)
    features = rng.uniform(-1, 1, (8000, 2))
    labels = np.where(features[:, 0] > 0, 3.0, -3.0) + features[:, 1]
    sums = BagSum(40, domain=DOMAIN, epsilon=2, features=public(features))
    curator = ldp.Curator(labels, domain=DOMAIN, budget=ldp.Budget(epsilon=2))
    model = BagRegressor(estimator).fit(features, curator.release(sums, rng=rng))
    assert estimator is not None or len(model.estimator_.leaves) == 1, "other sizes of trees are not worth their time"
    error = np.mean((model.predict(features) - labels) ** 2)
    assert error < (2.5 if isinstance(estimator, LinearRegression) else 0.9) and labels.var() > 9
    assert model.certificate_.entries[0].loss == sums.privacy_loss()
    assert np.abs(model.predict(100 * features)).max() <= 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"release": "sums"}, "release must be what a curator released by BagSum, NoisyWeightedLLP or WeightedLBA"),
        ({"features": np.ones((7, 3))}, "features"),
        ({"features": np.full((40, 3), np.nan)}, "features must be finite"),
        ({"features": np.ones(40)}, r"features must be a table of numbers, shape \(n, d\)"),
        ({"features": np.full((40, 3), "text")}, "features must be numbers"),
        ({"ridge": -1}, "ridge must be a finite number, at least 0"),
    ],
)
def test_what_is_refused(change: dict[str, Any], words: str) -> None:
    features, labels = linear(40, 0.1)
    release = released(labels, BagSum(4, domain=DOMAIN, epsilon=1, features=public(features)))
    with pytest.raises(ldp.privacy.InputError, match=words):
        fit_bags(**{"features": features, "release": release, **change})
    with pytest.raises(ldp.privacy.InputError, match="released by BagSum"):
        BagRegressor().fit(features, labels)
    with pytest.raises(ldp.privacy.InputError, match="estimator must be a regressor"):
        BagRegressor("x").fit(features, release)
    with pytest.raises(ldp.privacy.InputError, match="features must be a table"):
        BagRegressor().fit(features[:, 0], release)


def test_what_bags_say_is_public_but_for_its_noise() -> None:
    features, labels = linear(43, 0.1)
    sums = BagSum(4, domain=DOMAIN, epsilon=1, features=public(features))
    rows = bag_rows(features, released(labels, sums))
    assert rows.features[:, 0].tolist() == sums.sizes.tolist() == rows.squares.tolist()
    assert rows.variances == pytest.approx(np.full(10, 2 * 64), rel=1e-3)
    assert "array" not in repr(rows)
