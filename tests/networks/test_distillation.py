"""One release, a head, networks and corrections: what they cost, and that each step is there."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.features import PatchFilters
from labeldp.learners import Posterior
from labeldp.networks import Recipe, distillation, fit_best, steps, takes_labels
from labeldp.networks.distillation import (
    Layer,
    LayeredClassifier,
    agreement,
    geometric_mean,
    largest_weight,
    leaves_out_a_class,
)
from labeldp.privacy import total_loss

Images = tuple[np.ndarray, np.ndarray]
FILTERS = PatchFilters(side=12, filters=20)
SMALL = {"evaluation": 0.0, "representation": FILTERS}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Recipe(epochs=3, batch=32, peak=0.05, average=0.9)
    short = replace(distillation.SETTINGS, distilled=first, student=replace(first, epochs=2, peak=0.02), taught=first)
    monkeypatch.setattr(distillation, "SETTINGS", short)


def curator(labels: np.ndarray, epsilon: float = 10.0, delta: float = 1e-6) -> ldp.Curator:
    return ldp.Curator(labels, domain=ldp.Classes(4), budget=ldp.Budget(epsilon, delta))


def doubtful(labels: np.ndarray) -> np.ndarray:
    """Labels of which two in five are anything: no head is sure of them."""
    rng = np.random.default_rng(2)
    return np.where(rng.random(len(labels)) < 0.4, rng.integers(0, 4, len(labels)), labels)


STEPS = [
    *("head", "network", "network, mean", "network, corrected"),
    *("network 2", "network 2, mean", "network 2, corrected"),
]


@pytest.mark.guarantee("labeldp.networks:fit_best", "approximate")
@pytest.mark.guarantee("labeldp.networks:fit_best", "pure")
@pytest.mark.parametrize(
    ("trust", "epsilon", "delta", "mechanism"),
    [
        ("central", 1.0, 1e-6, "GaussianMoment"),
        ("central", 6.0, 1e-6, "RandomizedResponse"),
        ("local", 2.0, 0.0, "RandomizedResponse"),
        ("local", 0.7, 0.0, "LocalHashing"),
    ],
)
def test_all_of_epsilon_is_one_release(
    training: Images, test: Images, trust: Any, epsilon: float, delta: float, mechanism: str
) -> None:
    images, labels = training
    holder, seen = curator(doubtful(labels), epsilon, delta), {}
    release = fit_best(
        images, holder, epsilon=epsilon, delta=delta, trust=trust, rng=np.random.default_rng(0),
        callback=seen.__setitem__, **SMALL,
    )  # fmt: skip
    [charge] = release.certificate.entries
    assert charge.mechanism["mechanism"] == mechanism
    assert total_loss(holder.ledger.charges).within(str(epsilon), Fraction(str(delta)))
    assert release.certificate.epsilon(delta) > 0.98 * epsilon
    assert [step for step in STEPS if step in seen] == list(seen) and {"head", "network", "network 2"} <= set(seen)
    assert all(model.certificate.entries == release.certificate.entries for model in seen.values())
    assert np.mean(release.value.predict(test[0]) == test[1]) > (0.85 if epsilon >= 1 else 0.6)
    final = list(seen.values())[-1].value
    assert np.array_equal(final.predict_proba(test[0]), release.value.predict_proba(test[0]))
    [only] = steps(ldp.Classes(4), epsilon, delta, trust).values()
    assert only.privacy_loss() == release.certificate.entries[0].loss


@pytest.mark.parametrize(("classes", "epsilon", "central"), [(10, 1.0, False), (10, 4.0, True), (100, 2.0, False)])
def test_labels_are_taken_by_public_numbers_alone(classes: int, epsilon: float, central: bool) -> None:
    domain = ldp.Classes(classes)
    assert takes_labels(domain, epsilon, 1e-6, "central") == central
    assert takes_labels(domain, epsilon, 0.0, "local")
    assert takes_labels(domain, epsilon, 0.0, "central") or not central  # without a delta, sums are weaker


def test_an_evaluation_part_is_not_learned_from(training: Images) -> None:
    images, labels = training
    holder = curator(labels, 1.0)
    release = fit_best(
        images, holder, epsilon=1.0, delta=1e-6, rng=np.random.default_rng(0), representation=FILTERS, evaluation=0.2
    )
    assert len(release.value.evaluation.rows) == 120
    assert total_loss(holder.ledger.charges).within("1", Fraction("1e-6"))
    assert release.value.evaluation.accuracy().high > 0.8


def test_labels_of_the_evaluation_part_change_no_model(training: Images) -> None:
    images, labels = training
    models = []
    for given in (labels, np.where(np.random.default_rng(0).permutation(600) < 120, (labels + 1) % 4, labels)):
        holder = curator(given, 4.0, 0)
        release = fit_best(
            images, holder, epsilon=4.0, trust="local", rng=np.random.default_rng(0), representation=FILTERS,
            evaluation=0.2,
        )  # fmt: skip
        models.append(release.value.predict_proba(images))
    assert np.array_equal(*models)


def test_an_interrupted_run_goes_on_and_charges_nothing_twice(training: Images, test: Images, tmp_path: Path) -> None:
    images, labels = training

    class Interrupted(Exception):
        pass

    def fit(watch: object = None) -> ldp.Release[ldp.learners.Model]:
        ledger = ldp.LedgerFile(tmp_path / "a.ledger").dataset("bars", budget=ldp.Budget(1.0, 1e-6))
        holder = ldp.Curator(doubtful(labels), domain=ldp.Classes(4), ledger=ledger, run="a")
        return fit_best(
            images, holder, epsilon=1.0, delta=1e-6, rng=ledger.randomness, checkpoints=tmp_path / "at", watch=watch,
            **SMALL,
        )  # fmt: skip

    def stop(step: str, record: object, epochs: int) -> None:
        if record.epoch == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        fit(stop)
    seen = []
    first = fit(lambda step, record, epochs: seen.append(record.epoch))
    assert seen[0] == 3  # two epochs were kept
    second = fit()
    assert np.array_equal(first.value.predict_proba(test[0]), second.value.predict_proba(test[0]))
    ledger = ldp.LedgerFile(tmp_path / "a.ledger").dataset("bars")
    assert len(ledger.read().entries) == 1


def test_bad_arguments_charge_nothing(training: Images) -> None:
    images, labels = training
    for arguments, message in (
        ({"network": "vgg"}, "network must be one of"),
        ({"evaluation": 1.0}, "evaluation must be a share"),
        ({"seed": -1}, "seed must be an integer"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"delta": 2.0}, "delta must"),
        ({"trust": "nobody"}, "trust must be"),
        ({"trust": "local"}, "delta must be 0"),
        ({"augment": ("turn",)}, "augment must hold"),
    ):
        holder = curator(labels)
        with pytest.raises(ldp.privacy.InputError, match=message):
            fit_best(images, holder, rng=np.random.default_rng(0), **{"epsilon": 1.0, "delta": 1e-6, **arguments})
        assert total_loss(holder.ledger.charges).epsilon(1e-6) == 0


def test_what_the_budget_does_not_admit_as_a_whole_is_not_begun(training: Images) -> None:
    images, labels = training
    for epsilon, evaluation in ((1.0, 0.0), (1.0, 0.2), (4.0, 0.0)):
        holder = curator(labels, 0.8 * epsilon)
        with pytest.raises(ldp.BudgetExceeded):
            fit_best(
                images, holder, epsilon=epsilon, delta=1e-6, rng=np.random.default_rng(0), representation=FILTERS,
                evaluation=evaluation,
            )  # fmt: skip
        assert total_loss(holder.ledger.charges).epsilon(1e-6) == 0


def test_images_and_labels_belong_together(training: Images) -> None:
    images, labels = training
    for features in (images[:500], np.concatenate([images, images])):
        with pytest.raises(ldp.privacy.InputError, match="one row for each record"):
            fit_best(features, curator(labels), epsilon=1.0, delta=1e-6, rng=np.random.default_rng(0))


@pytest.mark.parametrize("trust", ["central", "local"])
def test_tables_are_learned_too(trust: Any) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(800, 6))
    labels = (table[:, 0] + table[:, 1] > 0).astype(int)
    delta = 1e-6 if trust == "central" else 0.0
    holder = ldp.Curator(labels, domain=ldp.Classes(2), budget=ldp.Budget("2", 1e-6))
    release = fit_best(table, holder, epsilon="2", delta=delta, rng=rng, network="mlp", trust=trust)
    assert np.mean(release.value.predict(table) == labels) > 0.85


def test_a_network_that_leaves_out_a_class_is_left_out(training: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = training

    def collapsed(self: Any, X: Any) -> np.ndarray:
        return np.tile([0.7, 0.2, 0.1, 0.0], (len(X), 1))

    monkeypatch.setattr(distillation.NetworkClassifier, "predict_proba", collapsed)
    seen: dict[str, Any] = {}
    release = fit_best(
        images,
        curator(labels),
        epsilon=1.0,
        delta=1e-6,
        rng=np.random.default_rng(0),
        callback=seen.__setitem__,
        **SMALL,
    )
    assert release.value.estimator.parts == [] and list(seen) == ["head"]
    assert np.mean(release.value.predict(images) == labels) > 0.85


@pytest.mark.parametrize("trust", ["central", "local"])
def test_a_network_that_the_release_contradicts_is_averaged_and_corrected(
    training: Images, monkeypatch: pytest.MonkeyPatch, trust: Any
) -> None:
    images, labels = training
    delta = 1e-6 if trust == "central" else 0.0

    def model(discrepancy: float) -> Any:
        monkeypatch.setattr(Posterior, "discrepancy", lambda *_: discrepancy)
        release = fit_best(
            images, curator(labels, 1.0, delta), epsilon=1.0, delta=delta, trust=trust, rng=np.random.default_rng(0),
            **SMALL,
        )  # fmt: skip
        return release.value.estimator.layers

    settings = distillation.SETTINGS
    limit = settings.sums_discrepancy if trust == "central" else settings.labels_discrepancy
    agreeing, contradicted = model(limit), model(limit + 0.01)
    assert [layer.weight for layer in agreeing] == [1.0, 0.5][: len(agreeing)]
    assert all(layer.coefficients is None for layer in agreeing)
    assert all(layer.coefficients is not None for layer in contradicted)


def test_the_largest_weight_is_taken_that_the_release_does_not_contradict() -> None:
    before, own = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])

    def weighed(limit: float) -> Any:
        return lambda mean: 1.0 if np.log(mean[0, 0] / mean[0, 1]) <= limit * np.log(9) + 0.01 else 1.2

    for most, limit, expected in ((1.0, 1.0, 1.0), (1.0, 0.65, 0.6), (0.5, 1.0, 0.5), (0.5, 0.35, 0.3)):
        assert largest_weight(weighed(limit), before, own, most, 1.0) == expected
        assert largest_weight(weighed(limit), before, own, most, 1.2) == most
    assert largest_weight(lambda mean: 2 + mean[0, 0], before, own, 1.0, 1.1) == 0.1  # least of the contradicted


def test_only_a_class_that_is_answered_often_counts() -> None:
    table = np.repeat(np.eye(3), [60, 39, 1], axis=0)
    assert leaves_out_a_class(np.tile([1.0, 0, 0], (100, 1)), table)
    assert not leaves_out_a_class(np.repeat(np.eye(3)[:2], [60, 40], axis=0), table)
    assert not leaves_out_a_class(table, table)


def test_images_are_flipped_where_mirror_images_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    taken: list[tuple[str, ...]] = []
    original = distillation.NetworkClassifier.fit_soft

    def spy(self: Any, *arguments: Any, **named: Any) -> Any:
        taken.append((*self.recipe.augment, *self.views))
        return original(self, *arguments, **named)

    monkeypatch.setattr(distillation.NetworkClassifier, "fit_soft", spy)
    for axis in (1, 2):  # the bright half is at the top or bottom, or on the left or right
        images = rng.integers(0, 60, (400, 12, 12))
        halves = [slice(0, 6), slice(6, 12)]
        for which in (0, 1):
            place = (labels == which, halves[which]) if axis == 1 else (labels == which, slice(None), halves[which])
            images[place] += 150
        holder = ldp.Curator(labels, domain=ldp.Classes(2), budget=ldp.Budget(1, 1e-6))
        fit_best(
            images.astype(np.uint8), holder, epsilon=1.0, delta=1e-6, rng=np.random.default_rng(0),
            representation=FILTERS,
        )  # fmt: skip
    assert taken == [("crop", "flip", "flip")] * 2 + [("crop", "warp", "shift")] * 2


@pytest.mark.parametrize("trust", ["central", "local"])
def test_the_reason_of_a_fitted_representation_stands_in_the_certificate(training: Images, trust: Any) -> None:
    images, labels = training
    delta = 1e-6 if trust == "central" else 0.0
    encoder = ldp.Public(PatchFilters(side=12, filters=20).fit(images), why="filters of the images alone")
    release = fit_best(
        images, curator(labels), epsilon=1.0, delta=delta, trust=trust, rng=np.random.default_rng(0),
        representation=encoder,
    )  # fmt: skip
    assert "the representation does not depend on the private labels (filters of the images alone)" in str(
        release.certificate
    )


def test_agreement_is_beyond_chance() -> None:
    table = np.repeat(np.eye(2), [50, 50], axis=0)
    assert agreement(table, table) == 1.0
    assert agreement(table, table[::-1]) == -1.0
    assert agreement(table, np.tile([1.0, 0.0], (100, 1))) == 0.0
    assert agreement(table[:50], table[:50]) == 1.0  # all of one class


def test_a_layer_is_a_geometric_mean_and_a_linear_term() -> None:
    class Fixed:
        classes_ = np.arange(2)

        def __init__(self, *row: float) -> None:
            self.row = row

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return np.tile(self.row, (len(X), 1))

        of_table = predict_proba

    table = np.array([[2.0]])
    plain = LayeredClassifier(FunctionTransformer(), Fixed(0.8, 0.2), [Layer(Fixed(0.5, 0.5))])
    expected = np.sqrt([0.4, 0.1]) / np.sqrt([0.4, 0.1]).sum()
    assert np.allclose(plain.predict_proba(table), expected, atol=1e-3)
    assert np.allclose(geometric_mean(np.array([[0.8, 0.2]]), np.array([[0.5, 0.5]]), 0.5), expected, atol=1e-3)
    assert np.allclose(geometric_mean(np.array([[0.8, 0.2]]), np.array([[0.4, 0.6]]), 1.0), [0.4, 0.6], atol=1e-3)
    term = Layer(Fixed(0.5, 0.5), 0.5, np.array([[1.0, 0.0]]), np.array([0.0, 1.0]))
    corrected = LayeredClassifier(FunctionTransformer(), Fixed(0.8, 0.2), [term]).predict_proba(table)
    odds = corrected[0, 0] / corrected[0, 1] / (expected[0] / expected[1])
    assert np.log(odds) == pytest.approx(2 - 1, abs=1e-3)
