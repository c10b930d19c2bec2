"""Label-private gradient descent: unbiased gradients, how long they are, what is charged, what is refused."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from labeldp.mechanisms import (
    CandidateSets,
    Classes,
    GaussianOneHot,
    LocalHashing,
    RandomizedResponseWithPrior,
)
from labeldp.privacy import InputError, Public, Trust, total_loss
from labeldp.sgd import (
    ConvexLoss,
    LossClassifier,
    SoftmaxRegression,
    UnitVectorLoss,
    _Descent,
    best_gradient_groups,
    clipped_rows,
    normal_moment,
    partition_moment,
    printed_moment,
    response_moment,
)
from learners.data import blobs, curator

SIMULATED = np.random.default_rng
LOSSES = [SoftmaxRegression(2), SoftmaxRegression(5, clip=2.0), UnitVectorLoss(3, lipschitz=1.5)]
DELTA = 1e-6


def gradients(loss: ConvexLoss, seed: int = 0) -> np.ndarray:
    """The gradients of all classes at random weights and a row of the largest norm, shape (K, …)."""
    rng = SIMULATED(seed)
    row = loss.rows(1e6 * rng.normal(size=(1, 4)))[0]
    weights = rng.normal(size=loss.start(4).shape)
    return np.array([loss.gradient(weights, row, each) for each in np.eye(loss.classes)])


def lengths(parts: np.ndarray) -> np.ndarray:
    """Squared lengths of gradients, whatever their shape."""
    return (parts.reshape(len(parts), -1) ** 2).sum(axis=1)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_losses(loss: ConvexLoss) -> None:
    rng = SIMULATED(1)
    rows, weights = loss.rows(rng.normal(size=(1, 4))), rng.normal(size=loss.start(4).shape)
    move = rng.normal(size=weights.shape)
    slopes = (loss.losses(weights + 1e-6 * move, rows) - loss.losses(weights - 1e-6 * move, rows))[0] / 2e-6
    for k, indicator in enumerate(np.eye(loss.classes)):
        assert np.vdot(loss.gradient(weights, rows[0], indicator), move) == pytest.approx(slopes[k], abs=1e-6)
    label = rng.normal(size=loss.classes)
    each = np.array([loss.gradient(weights, rows[0], one) for one in np.eye(loss.classes)])
    assert np.allclose(loss.gradient(weights, rows[0], label), np.tensordot(label, each, 1))


@pytest.mark.parametrize("loss", LOSSES)
def test_no_gradient_is_longer_and_none_further_apart_than_said(loss: ConvexLoss) -> None:
    for seed in range(20):
        each = gradients(loss, seed)
        assert lengths(each).max() <= loss.lipschitz**2 * (1 + 1e-12)
        for count in range(1, loss.classes + 1):
            for some in itertools.combinations(range(loss.classes), count):
                part = each[list(some)]
                assert lengths(part - part.mean(axis=0)).sum() <= loss.spread(count) * (1 + 1e-12)
    assert lengths(each - each.mean(axis=0)).sum() == pytest.approx(loss.spread(loss.classes)), "reached"


def test_losses_by_hand() -> None:
    softmax = SoftmaxRegression(2)
    weights, row = np.array([[math.log(3), 0.0]]), np.array([1.0])
    assert np.allclose(softmax.losses(weights, row[None]), [[math.log(4 / 3), math.log(4)]])
    assert np.allclose(softmax.gradient(weights, row, np.array([1.0, 0.0])), [[-0.25, 0.25]])
    unit = UnitVectorLoss(3, lipschitz=2.0)
    assert unit.losses(np.array([0.5]), row[None]).tolist() == [[1.0, -1.0, 0.0]]


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_of_algorithm_5_is_right_on_average(loss: ConvexLoss, epsilon: float) -> None:
    """Equation (7) for every answer, and its mean over the law of the answers."""
    mechanism = ldp.RandomizedResponse(domain=Classes(loss.classes), epsilon=epsilon)
    labels = mechanism.gradient_weights(np.arange(loss.classes, dtype=np.uint8))
    each, total = gradients(loss), math.exp(epsilon) + loss.classes - 1
    ours = np.tensordot(labels, each, 1)
    printed = total / (math.exp(epsilon) - 1) * (each - each.sum(axis=0) / total)
    assert np.allclose(ours, printed)
    assert np.allclose(np.tensordot(mechanism.matrix(), ours, 1), each)
    second = mechanism.matrix() @ lengths(ours)
    assert second.max() <= response_moment(loss, epsilon) ** 2 * (1 + 1e-9)


def test_the_length_of_a_gradient_by_hand() -> None:
    """ε = ln 3, K = 4, L = √2, S = 3: √2 (3 + 5)/2 = 5.66 is above √(2 + 3 · 4 · 3/4) = √11."""
    assert response_moment(SoftmaxRegression(4), "1.0986122886681098") == pytest.approx(math.sqrt(11))
    assert response_moment(SoftmaxRegression(4), 1, top_k=1) == pytest.approx(math.sqrt(2))
    assert response_moment(UnitVectorLoss(), "1.0986122886681098") == pytest.approx(2.0)  # (e^ε + 1)/(e^ε - 1)
    assert printed_moment(SoftmaxRegression(4), 0.5) == pytest.approx(6 * 4 * math.sqrt(2) / 0.5)


def over_all_partitions(mechanism: LocalHashing, noisy_row: int) -> tuple[np.ndarray, np.ndarray]:
    """Every answer to a label of one class, over all orders of the classes, packed, and the chance of each."""
    classes, groups = mechanism.domain.size, int(mechanism.groups)
    answers, chances = [], []
    for order in itertools.permutations(range(classes)):
        group = np.empty(classes, dtype=int)
        group[list(order)] = np.arange(classes) % groups
        law = mechanism.matrix()[group[noisy_row]]
        answers += [group == answer for answer in range(groups)]
        chances += (law / math.factorial(classes)).tolist()
    return np.packbits(np.array(answers), axis=1), np.array(chances)


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("groups", [2, 3, 4, 5])
@pytest.mark.parametrize("loss", [SoftmaxRegression(5, clip=2.0), UnitVectorLoss(5, lipschitz=1.5)])
def test_a_gradient_from_groups_is_right_on_average_and_as_long_as_said(
    loss: ConvexLoss, groups: int, epsilon: float
) -> None:
    """Exactly, over all partitions of five classes and all answers."""
    mechanism = LocalHashing(domain=Classes(5), epsilon=epsilon, groups=groups)
    each = gradients(loss)
    for label in range(5):
        answers, chances = over_all_partitions(mechanism, label)
        weights = mechanism.gradient_weights(answers)
        assert np.allclose(weights.sum(axis=1), 1)
        assert np.allclose(chances @ weights, np.eye(5)[label], atol=1e-12)
        assert np.allclose(chances @ mechanism.unbiased(answers).values, np.eye(5)[label], atol=1e-12)
        found = np.tensordot(weights, each, 1)
        assert np.allclose(np.tensordot(chances, found, 1), each[label])
        assert chances @ lengths(found) <= partition_moment(loss, epsilon, groups) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize(("classes", "groups", "epsilon"), [(5, 2, 0.5), (5, 3, 1.0), (6, 3, 0.5), (6, 4, 2.0)])
def test_the_variance_of_a_gradient_from_groups_is_what_the_proof_says(
    classes: int, groups: int, epsilon: float
) -> None:
    """The bound is reached where the label's own gradient is the mean, or as far from it as it can be."""
    mechanism = LocalHashing(domain=Classes(classes), epsilon=epsilon, groups=groups)
    answers, chances = over_all_partitions(mechanism, 0)
    own, others = np.eye(classes)[0] - 1 / classes, np.eye(classes)[1] - np.eye(classes)[2]
    found = []
    for direction in (own, others):
        values = mechanism.gradient_weights(answers) @ direction
        found.append((chances @ values**2 - (chances @ values) ** 2) / (direction @ direction))
    # A loss with spread 1, and gradients so long that the other bound is not taken.
    loss = SimpleNamespace(classes=classes, lipschitz=1e3, spread=lambda count: 1.0)
    assert partition_moment(loss, epsilon, groups) ** 2 - 1e6 == pytest.approx(max(found), rel=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_single_classes_as_groups_have_the_length_of_randomized_response(classes: int, epsilon: float) -> None:
    opposite, softmax = UnitVectorLoss(classes), SoftmaxRegression(classes)
    assert partition_moment(opposite, epsilon, classes) == pytest.approx(response_moment(opposite, epsilon))
    assert partition_moment(softmax, epsilon, classes) <= response_moment(softmax, epsilon) * (1 + 1e-12)


def test_the_length_of_a_gradient_from_groups_grows_with_the_root_of_the_classes() -> None:
    found = {}
    for classes in (100, 400):
        loss = SoftmaxRegression(classes)
        found[classes] = partition_moment(loss, 1, best_gradient_groups(loss, 1))
        assert found[classes] < response_moment(loss, 1) / 4
    assert 1.8 < found[400] / found[100] < 2.1
    assert response_moment(SoftmaxRegression(400), 1) > 3.9 * response_moment(SoftmaxRegression(100), 1)
    assert [best_gradient_groups(SoftmaxRegression(10), epsilon) for epsilon in (0.5, 1, 2, 3)] == [3, 3, 5, 10]
    assert best_gradient_groups(SoftmaxRegression(3), 0.1) == 3
    assert best_gradient_groups(SoftmaxRegression(70_000), 0.1) == 70_000
    with pytest.raises(InputError, match="groups must be an integer from 2 to 10"):
        partition_moment(SoftmaxRegression(10), 1, 11)


def test_many_classes_are_learned_better_from_groups() -> None:
    """The same steps on gradients with less noise."""
    rng = SIMULATED(0)
    features, weights = rng.normal(size=(6000, 8)), 3 * rng.normal(size=(8, 20))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    chances = softmax(features @ weights, axis=1)
    labels = (rng.random((6000, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    arguments = {"loss": SoftmaxRegression(20), "epsilon": 1, "diameter": 70, "rng": SIMULATED(1)}
    single = ldp.sgd.lp_rr_sgd(features, curator(labels, 20), **arguments)
    holder = curator(labels, 20, epsilon=1)
    groups = ldp.sgd.lp_rr_sgd(features, holder, response="best", **arguments)
    losses = [-(chances * np.log(each.value.predict_proba(features))).sum(axis=1).mean() for each in (single, groups)]
    assert losses[1] < losses[0] - 0.4, losses
    [charge] = holder.ledger.charges
    assert charge.mechanism["number_of_groups"] == 4 and holder.ledger.spent.epsilon(0) == 1
    few = curator(labels % 3, 3, epsilon=1)
    ldp.sgd.lp_rr_sgd(features, few, **{**arguments, "loss": SoftmaxRegression(3)}, response="best")
    assert few.ledger.charges[0].mechanism["mechanism"] == "RandomizedResponse"


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 0.999])
@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_the_printed_steps_are_at_least_three_times_too_small(classes: int, epsilon: float) -> None:
    loss = SoftmaxRegression(classes)
    assert printed_moment(loss, epsilon) >= 3 * response_moment(loss, epsilon)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_within_candidates_a_gradient_is_right_for_them_and_the_mean_for_others(k: int) -> None:
    """Equation (17), as weights of the gradients; a label outside of the candidates becomes a uniform one of them."""
    prior = np.array([[0.4, 0.1, 0.2, 0.3]])
    sets = Public(CandidateSets.top(prior, k), why="by hand")
    mechanism = RandomizedResponseWithPrior(domain=Classes(4), epsilon=0.7, prior=sets)
    many = mechanism.restored(np.repeat(mechanism.arrays(), 4, axis=0))
    labels = many.gradient_weights(np.arange(4, dtype=np.uint8))
    members = mechanism.membership()[0]
    average = mechanism.matrix()[0] @ labels
    for y in range(4):
        assert np.allclose(average[y], np.eye(4)[y] if members[y] else members / k, atol=1e-12)
    assert np.allclose(labels[members].sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(5))
def test_noise_on_the_label_is_never_louder_than_noise_in_all_directions_of_the_gradients(seed: int) -> None:
    """Its variance is 2c²Σ|g_k - ḡ|², at most c²Δ²(K - 1), and equal to it where all distances are equal."""
    rng = SIMULATED(seed)
    for classes, width in ((2, 5), (3, 1), (6, 3), (10, 40)):
        each = rng.normal(size=(classes, width)) * rng.exponential(size=(classes, 1))
        apart = lengths((each[:, None] - each[None]).reshape(-1, width))
        spread = lengths(each - each.mean(axis=0)).sum()
        assert spread == pytest.approx(apart.sum() / (2 * classes))
        assert 2 * spread <= apart.max() * (classes - 1) * (1 + 1e-12)
    simplex = np.eye(7)
    assert 2 * lengths(simplex - simplex.mean(axis=0)).sum() == pytest.approx(2 * 6)


def test_a_span_of_few_dimensions_can_be_quieter_than_noise_on_the_label() -> None:
    """The limit of that comparison: ten gradients at two points of a line need noise in one direction only."""
    each = np.repeat([[0.0], [1.0]], 5, axis=0)
    assert 2 * lengths(each - each.mean(axis=0)).sum() == 5 > 1 * 1


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_with_noise_on_the_label_are_right_on_average_and_as_long_as_said(loss: ConvexLoss) -> None:
    mechanism = GaussianOneHot(domain=Classes(loss.classes), epsilon=1, delta=DELTA)
    count = 20_000
    noisy = mechanism.randomize(np.ones(count, dtype=np.uint8), rng=SIMULATED(0))
    each = gradients(loss).reshape(loss.classes, -1)
    found = ldp.debias(mechanism, noisy).values @ each
    error, variance = found.mean(axis=0) - each[1], mechanism.noise_stddev**2 * loss.spread(loss.classes)
    assert (error**2).sum() < 60 * variance / count
    assert lengths(found - each[1]).mean() == pytest.approx(variance, rel=0.1)
    assert variance + lengths(each)[1] <= normal_moment(loss, mechanism) ** 2


@pytest.mark.parametrize(("classes", "better"), [(10, False), (90, False), (115, True)])
def test_gaussian_noise_pays_from_about_a_hundred_classes(classes: int, better: bool) -> None:
    """The variances of both gradients of softmax regression at epsilon = 1 and delta = 1e-6."""
    response = ldp.RandomizedResponse(domain=Classes(classes), epsilon=1)
    labels = ldp.debias(response, np.arange(classes, dtype=np.uint8)).values
    answered = response.matrix()[0] @ lengths(labels - np.eye(classes)[0])
    noise = GaussianOneHot(domain=Classes(classes), epsilon=1, delta=DELTA)
    assert (noise.noise_stddev**2 * (classes - 1) < answered) == better


def by_the_paper(features: np.ndarray, answers: np.ndarray, order: np.ndarray, epsilon: float) -> np.ndarray:
    """Algorithm 5 for softmax regression with K = 3, line by line, diameter 4, steps as printed."""
    weights, classes, diameter = np.zeros((features.shape[1], 3)), 3, 4.0
    for t, i in enumerate(order, start=1):
        scores = np.exp(features[i] @ weights)
        each = [np.outer(features[i], scores / scores.sum() - np.eye(3)[k]) for k in range(classes)]
        total = math.exp(epsilon) + classes - 1
        gradient = total / (math.exp(epsilon) - 1) * (each[answers[i]] - sum(each) / total)
        weights = weights - diameter * epsilon / (6 * classes * math.sqrt(2) * math.sqrt(t)) * gradient
        weights *= min(1, diameter / 2 / np.linalg.norm(weights))
    return weights


def test_algorithm_5_step_by_step() -> None:
    features, labels = blobs(300, 3)
    features = clipped_rows(features, 1.0)
    release = ldp.sgd.lp_rr_sgd(
        features,
        curator(labels, 3),
        loss=SoftmaxRegression(3),
        epsilon=0.9,
        diameter=4,
        rng=SIMULATED(7),
        steps="printed",
        order_seed=3,
    )
    mechanism = ldp.RandomizedResponse(domain=Classes(3), epsilon=0.9)
    answers = mechanism.randomize(labels.astype(np.uint8), rng=SIMULATED(7))
    expected = by_the_paper(features, answers, SIMULATED(3).permutation(300), 0.9)
    assert np.allclose(release.value.estimator.weights, expected)


def test_without_noise_it_finds_the_optimum() -> None:
    features, labels = blobs(3000, 3)
    descent = _Descent.of(features, curator(labels, 3), SoftmaxRegression(3, clip=5.0), 6, 20, 0)
    model = descent.model(np.eye(3)[labels], 5 * math.sqrt(2))
    peer = LogisticRegression(C=1e3, fit_intercept=False).fit(clipped_rows(features, 5.0), labels)
    assert np.mean(model.predict(features) == peer.predict(features)) > 0.98
    assert np.linalg.norm(model.estimator.weights) <= 3 + 1e-12


@pytest.mark.guarantee("labeldp.sgd:lp_rr_sgd", "pure")
def test_classes_are_learned_at_the_cost_of_one_release() -> None:
    features, labels = blobs(6000, 2)
    holder = curator(np.array(["no", "yes"])[labels], ("no", "yes"), epsilon=1)
    arguments = {"loss": SoftmaxRegression(2), "epsilon": 1, "diameter": 10, "rng": SIMULATED(0), "passes": 2}
    release = ldp.sgd.lp_rr_sgd(features, holder, **arguments)
    model = release.value
    assert np.mean(model.predict(features) == np.array(["no", "yes"])[labels]) > 0.9
    assert isinstance(model.estimator, LossClassifier)
    assert np.allclose(model.predict_proba(features).sum(axis=1), 1)
    assert release.certificate.trust is Trust.LOCAL
    assert holder.ledger.spent.epsilon(0) == release.certificate.epsilon(0) == 1
    with pytest.raises(ldp.BudgetExceeded):
        ldp.sgd.lp_rr_sgd(features, holder, **arguments)


@pytest.mark.guarantee("labeldp.sgd:lp_normal_sgd", "approximate")
def test_many_passes_cost_one_release() -> None:
    features, labels = blobs(6000, 3)
    holder = ldp.Curator(labels, domain=ldp.Classes(3), budget=ldp.Budget(epsilon=4, delta=DELTA))
    release = ldp.sgd.lp_normal_sgd(
        features,
        holder,
        loss=SoftmaxRegression(3),
        epsilon=4,
        delta=DELTA,
        diameter=10,
        rng=SIMULATED(0),
        passes=4,
    )
    assert np.mean(release.value.predict(features) == labels) > 0.9
    assert len(holder.ledger.charges) == 1
    assert total_loss(holder.ledger.charges).epsilon(DELTA) == pytest.approx(4, rel=1e-3)
    assert release.certificate.trust is Trust.LOCAL


def test_a_prior_takes_the_place_of_the_classes_and_is_certified() -> None:
    """With the two likeliest of eight classes the gradients are more than three times shorter."""
    features, labels = blobs(4000, 8, distance=6.0)
    other = (labels + SIMULATED(0).integers(1, 8, 4000)) % 8
    prior = np.full((4000, 8), 0.01)
    prior[np.arange(4000), labels] += 0.46
    prior[np.arange(4000), other] += 0.46
    arguments = {"loss": SoftmaxRegression(8), "epsilon": 1, "diameter": 20}
    why = "another data set"
    narrow = ldp.sgd.lp_rr_sgd(
        features, curator(labels, 8), rng=SIMULATED(1), prior=ldp.Public(prior, why=why), top_k=2, **arguments
    )
    wide = ldp.sgd.lp_rr_sgd(features, curator(labels, 8), rng=SIMULATED(1), **arguments)
    hits = [np.mean(release.value.predict(features) == labels) for release in (narrow, wide)]
    assert hits[0] > hits[1] + 0.1, hits
    assert why in narrow.certificate.at()
    assert response_moment(SoftmaxRegression(8), 1, 2) < response_moment(SoftmaxRegression(8), 1) / 3


def test_a_released_prior_is_charged_with_the_model() -> None:
    features, labels = blobs(200, 3)
    holder = curator(labels, 3, epsilon=2)
    noisy = holder.release(ldp.RandomizedResponse(domain=holder.domain, epsilon=1), rng=SIMULATED(0))
    prior = noisy.map(lambda codes: np.eye(3)[codes] * 0.7 + 0.1)
    release = ldp.sgd.lp_rr_sgd(
        features,
        holder,
        loss=SoftmaxRegression(3),
        epsilon=1,
        diameter=2,
        rng=SIMULATED(1),
        prior=prior,
        top_k=2,
    )
    assert release.certificate.epsilon(0) == 2


FEATURES, LABELS = blobs(20, 3)
PRIOR = np.full((20, 3), 1 / 3)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no loss": ({"loss": "softmax"}, "loss must be a ConvexLoss"),
    "other classes": ({"loss": SoftmaxRegression(4)}, "loss must be for the 3 classes"),
    "other rows": ({"features": FEATURES[:5]}, "features must have one row for each record"),
    "texts": ({"features": np.full((20, 1), "a")}, "features must be numbers"),
    "not finite": ({"features": np.full((20, 2), np.nan)}, "features must be finite"),
    "no width": ({"features": np.zeros((20, 0))}, "at least one row and one column"),
    "diameter": ({"diameter": 0}, "diameter must be a positive finite number"),
    "endless": ({"diameter": math.inf}, "diameter must be a positive finite number"),
    "passes": ({"passes": 0}, "passes must be an integer, at least 1"),
    "epsilon": ({"epsilon": -1}, "epsilon must be positive"),
    "printed": ({"steps": "printed"}, "epsilon must be below 1 for the steps as printed"),
    "steps": ({"steps": "small"}, "steps must be"),
    "prior alone": ({"prior": Public(PRIOR, why="flat")}, "prior and top_k must be given together"),
    "top_k alone": ({"top_k": 2}, "prior and top_k must be given together"),
    "a bare prior": ({"prior": PRIOR, "top_k": 2}, "prior must be a Release or Public"),
    "too many": ({"prior": Public(PRIOR, why="flat"), "top_k": 4}, "top_k must be an integer from 1 to 3"),
    "another response": ({"response": "groups"}, "response must be"),
    "groups with a prior": (
        {"prior": Public(PRIOR, why="flat"), "top_k": 2, "response": "best"},
        'response must be "randomized-response" with a prior',
    ),
    "groups as printed": (
        {"steps": "printed", "epsilon": 0.5, "response": "best"},
        'response must be "randomized-response" with a prior or steps="printed"',
    ),
    "a seed of groups": (
        {"loss": SoftmaxRegression(3), "response": "best", "partition_seed": -1},
        "partition_seed must be an integer, at least 0",
    ),
    "order": ({"order_seed": -1}, "order_seed must be an integer"),
    "an order of its own": ({"order_seed": None}, "order_seed must be an integer"),
    "a generator": ({"rng": 3}, "rng must be"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_and_nothing_is_charged(name: str) -> None:
    given, message = REFUSED[name]
    holder = curator(LABELS, 3)
    arguments = {"features": FEATURES, "loss": SoftmaxRegression(3), "epsilon": 1, "diameter": 2, "rng": SIMULATED(0)}
    with pytest.raises(InputError, match=message):
        ldp.sgd.lp_rr_sgd(curator=holder, **{**arguments, **given})
    assert holder.ledger.charges == ()


def test_bad_input_of_the_gaussian_one_is_refused_and_nothing_is_charged() -> None:
    holder = curator(LABELS, 3)
    asked = {"loss": SoftmaxRegression(3), "epsilon": 1, "delta": 1e-6, "diameter": 2, "rng": SIMULATED(0)}
    for given, words in (
        ({"delta": 0}, "delta must lie in"),
        ({"loss": UnitVectorLoss(2)}, "loss must be for the 3 classes"),
        ({"order_seed": -1}, "order_seed must be an integer, at least 0"),
    ):
        with pytest.raises(InputError, match=words):
            ldp.sgd.lp_normal_sgd(FEATURES, holder, **{**asked, **given})
    assert holder.ledger.charges == ()
    numbers = ldp.Curator([0.5], domain=ldp.Interval(0, 1), budget=ldp.Budget(1))
    with pytest.raises(InputError, match="curator must hold classes"):
        ldp.sgd.lp_rr_sgd([[1.0]], numbers, loss=SoftmaxRegression(2), epsilon=1, diameter=1, rng=SIMULATED(0))


def test_bad_losses_are_refused() -> None:
    for make in (lambda: SoftmaxRegression(3, clip=0), lambda: UnitVectorLoss(2, lipschitz=math.inf)):
        with pytest.raises(InputError, match="must be a positive finite number"):
            make()
    with pytest.raises(InputError, match="classes must be an integer, at least 2"):
        UnitVectorLoss(1)
