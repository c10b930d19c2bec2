"""Head, network and noisy labels together: what they cost, and that each step is there."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import PatchFilters, fit_linear
from labeldp.networks import Recipe, best, fit_best, shares, steps
from labeldp.networks.best import Blend, Joint, Remembered

Images = tuple[np.ndarray, np.ndarray]
FILTERS = PatchFilters(side=12, filters=20)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best, "DISTILLED", Recipe(epochs=3, batch=32, peak=0.05, augment=()))
    monkeypatch.setattr(best, "STUDENT", Recipe(epochs=2, batch=32, peak=0.02, augment=()))


def curator(labels: np.ndarray, epsilon: float = 10.0, delta: float = 1e-6) -> ldp.Curator:
    return ldp.Curator(labels, domain=ldp.Classes(4), budget=ldp.Budget(epsilon, delta))


def doubtful(labels: np.ndarray) -> np.ndarray:
    """Labels of which two in five are anything: no head is sure of them."""
    rng = np.random.default_rng(2)
    return np.where(rng.random(len(labels)) < 0.4, rng.integers(0, 4, len(labels)), labels)


@pytest.mark.parametrize(
    ("epsilon", "mechanisms"),
    [
        (1.0, ["GaussianMoment", "GaussianMoment"]),
        (6.0, ["GaussianMoment", "GaussianMoment", "RandomizedResponseWithPrior"]),
    ],
)
def test_all_steps_together_cost_what_was_asked_for(
    training: Images, test: Images, epsilon: float, mechanisms: list[str]
) -> None:
    """(epsilon, delta)-DP for each label: all releases together."""
    images, labels = training
    holder, seen = curator(doubtful(labels), epsilon), {}
    release = fit_best(images, holder, epsilon=epsilon, delta=1e-6, rng=np.random.default_rng(0), told=seen.__setitem__)
    assert [charge.mechanism["mechanism"] for charge in release.certificate.entries] == mechanisms
    assert holder.ledger.spent.within(str(epsilon), Fraction("1e-6"))
    assert release.certificate.loss.epsilon(1e-6) > 0.98 * epsilon
    assert list(seen) == ["head", "distilled", "second head", "student"]
    assert all(model.certificate.entries for model in seen.values())
    assert np.mean(release.value.predict(test[0]) == test[1]) > 0.85


def test_the_first_head_is_that_of_earlier_ledgers(training: Images) -> None:
    """Rows of the second round follow from it: with another head, a fit that was charged would be charged again."""
    images, labels = training
    heads: list[Any] = []

    def kept(head: Any) -> Any:
        heads.append(head)
        return head.map(lambda model: model.estimator.representation)

    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "representation": FILTERS}
    fit_linear(images, curator(labels), **given, rng=np.random.default_rng(0), refine=(kept,), link="identity")
    fit_best(images, curator(labels), **given, rng=np.random.default_rng(0), told=lambda _, head: heads.append(head))
    first, same = (head.value.predict_proba(images) for head in heads[:2])
    assert np.array_equal(first, same)


def test_an_evaluation_part_is_not_learnt_from(training: Images) -> None:
    images, labels = training
    holder = curator(labels, 1.0)
    release = fit_best(
        images, holder, epsilon=1.0, delta=1e-6, rng=np.random.default_rng(0), representation=FILTERS, evaluation=0.2
    )
    assert len(release.value.evaluation.rows) == 120
    assert holder.ledger.spent.within("1", Fraction("1e-6"))
    assert release.value.evaluation.accuracy().high > 0.8


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.9, 3.0, 4.0, 8.0])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_shares_add_up_to_no_more_than_the_whole(epsilon: float, delta: float) -> None:
    head, rest = shares(epsilon, delta, 10)
    assert (rest == 0) == (epsilon < 3)
    if not rest:
        assert head == epsilon
    elif not delta:
        assert head + rest == pytest.approx(epsilon)
    else:
        first, *others = steps(ldp.Classes(10), epsilon, delta).values()
        total = sum(others, start=first)
        assert total.within(str(epsilon), Fraction("1e-6"))
        assert total.epsilon(delta) > 0.98 * epsilon


def test_an_interrupted_run_goes_on_and_charges_nothing_twice(training: Images, test: Images, tmp_path: object) -> None:
    images, labels = training

    class Interrupted(Exception):
        pass

    def fit(watch: object = None) -> ldp.Release[ldp.learners.Model]:
        ledger = ldp.LedgerFile(tmp_path / "a.ledger").dataset("bars", budget=ldp.Budget(6.0, 1e-6))
        holder = ldp.Curator(doubtful(labels), domain=ldp.Classes(4), ledger=ledger, run="a")
        return fit_best(
            images,
            holder,
            epsilon=6.0,
            delta=1e-6,
            rng=ledger.randomness,
            representation=FILTERS,
            checkpoints=tmp_path / "at",
            watch=watch,
        )

    def stop(step: str, record: object, epochs: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        fit(stop)
    seen = []
    first = fit(lambda step, record, epochs: seen.append(record.epoch))
    assert seen[0] == 2  # the first epoch was kept
    second = fit()
    assert np.array_equal(first.value.predict_proba(test[0]), second.value.predict_proba(test[0]))
    ledger = ldp.LedgerFile(tmp_path / "a.ledger").dataset("bars")
    assert len(ledger.entries) == 3


def test_bad_arguments_charge_nothing(training: Images) -> None:
    images, labels = training
    for arguments, message in (
        ({"network": "vgg"}, "network must be one of"),
        ({"evaluation": 1.0}, "evaluation must be a share"),
        ({"seed": -1}, "seed must be an integer"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"delta": 2.0}, "delta must"),
    ):
        holder = curator(labels)
        with pytest.raises(ldp.InputError, match=message):
            fit_best(images, holder, rng=np.random.default_rng(0), **{"epsilon": 1.0, "delta": 1e-6, **arguments})
        assert holder.ledger.spent.epsilon(1e-6) == 0


def test_what_the_budget_does_not_admit_as_a_whole_is_not_begun(training: Images) -> None:
    images, labels = training
    for epsilon, evaluation in ((1.0, 0.0), (1.0, 0.2), (4.0, 0.0)):
        holder = curator(labels, 0.8 * epsilon)
        with pytest.raises(ldp.BudgetExceeded):
            fit_best(images, holder, epsilon=epsilon, delta=1e-6, rng=np.random.default_rng(0), evaluation=evaluation)
        assert holder.ledger.spent.epsilon(1e-6) == 0


def test_images_and_labels_belong_together(training: Images) -> None:
    images, labels = training
    for features in (images[:500], np.concatenate([images, images])):
        with pytest.raises(ldp.InputError, match="one row for each record"):
            fit_best(features, curator(labels), epsilon=1.0, delta=1e-6, rng=np.random.default_rng(0))


def test_tables_are_learnt_too() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(800, 6))
    labels = (table[:, 0] + table[:, 1] > 0).astype(int)
    holder = ldp.Curator(labels, domain=ldp.Classes(2), budget=ldp.Budget("2", 1e-6))
    release = fit_best(table, holder, epsilon="2", delta=1e-6, rng=rng, network="mlp")
    assert np.mean(release.value.predict(table) == labels) > 0.85


def test_what_is_charged_does_not_depend_on_how_sure_the_head_is(training: Images) -> None:
    images, labels = training
    spent = []
    for given in (labels, doubtful(labels)):
        holder = curator(given)
        fit_best(images, holder, epsilon=6.0, delta=1e-6, rng=np.random.default_rng(0), representation=FILTERS)
        spent.append(holder.ledger.spent)
    assert spent[0] == spent[1]


def test_a_slow_map_is_computed_once() -> None:
    calls = []

    def slow(X: np.ndarray) -> np.ndarray:
        calls.append(len(X))
        return X + 1

    table = np.arange(6.0).reshape(3, 2)
    memory = clone(Remembered(FunctionTransformer(slow))).fit(table)
    assert np.array_equal(memory.transform(table), memory.transform(table.copy()))
    assert calls == [3]
    memory.transform(table[:2])
    memory.forget()
    memory.transform(table)
    assert calls == [3, 2, 3]


def test_joined_features_have_the_same_total_variance() -> None:
    table = np.random.default_rng(0).normal(size=(500, 3))
    parts = FunctionTransformer(lambda x: 10 * x).fit(table), FunctionTransformer(lambda x: x[:, :1]).fit(table)
    joined = Joint.of(parts, table).transform(table)
    assert joined.shape == (500, 4)
    assert joined[:, :3].var(axis=0).sum() == pytest.approx(1.0, rel=1e-3)
    assert joined[:, 3].var() == pytest.approx(1.0, rel=1e-3)


def test_a_blend_is_a_geometric_mean() -> None:
    class Fixed:
        classes_ = np.arange(2)

        def __init__(self, *row: float) -> None:
            self.row = row

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return np.tile(self.row, (len(X), 1))

    found = Blend((Fixed(0.8, 0.2), Fixed(0.5, 0.5))).predict_proba(np.zeros((1, 1)))
    expected = np.sqrt([0.4, 0.1])
    assert np.allclose(found, expected / expected.sum())
