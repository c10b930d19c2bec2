"""More rounds of a linear model: what they cost together, and what they add."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import RandomFourier, round_loss
from labeldp.learners.rounds import MOST_CONFIDENT, Task, _rising_root
from labeldp.learners.whitening import best_linear
from labeldp.mechanisms import MAX_CELLS
from labeldp.privacy import BudgetExceeded, InputError, total_loss
from learners.data import blobs
from learners.test_linear import AS_THEY_ARE, SIMULATED, central, line


def again(model: ldp.Release[ldp.Model]) -> ldp.Release[Any]:
    """The representation of the round before, as a refinement."""
    return model.map(lambda learnt: learnt.estimator.representation)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_rounds_together_cost_what_was_asked_for(delta: float) -> None:
    """(epsilon, delta)-DP for each label: the releases of all rounds together, composed exactly."""
    features, labels = blobs(600)
    holder = central(labels, ldp.Classes(2), 0.5, delta)
    release = ldp.fit_linear(features, holder, epsilon=0.5, delta=delta, rng=SIMULATED(0), refine=(again, again))
    assert len(release.certificate.entries) == 3
    assert holder.ledger.spent.within("0.5", Fraction(str(delta)))
    assert release.certificate.loss.epsilon(delta) > 0.499
    first = release.certificate.entries[0].loss
    assert first.within(0.5 / 3 if delta == 0 else 0.31, Fraction(str(delta)))  # 1 / sqrt(3) of the mu, not a third


def test_charges_do_not_depend_on_what_the_rounds_before_showed() -> None:
    features, labels = blobs(600)

    def other(model: ldp.Release[ldp.Model]) -> ldp.Release[Any]:
        return model.map(lambda _: RandomFourier(components=7).fit(features))

    losses = []
    for refinement in (again, other):
        holder = central(labels, ldp.Classes(2))
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0), refine=(refinement,))
        losses.append(holder.ledger.spent)
    assert losses[0] == losses[1]


def test_two_sums_of_the_same_rows_count_like_one_with_half_the_variance() -> None:
    rows, signal = SIMULATED(0).normal(size=(200, 4)), np.array([2.0, 1.0, 0.5, 0.1])
    single = best_linear(rows, rows, signal, 3.0, 0.0, 1.0)
    double = best_linear(np.hstack([rows, rows]), rows, signal, np.full(8, 3.0 * 2**0.5), 0.0, 1.0)
    assert np.allclose(double.left, single.left)
    assert np.allclose(double.gain[:, :4] + double.gain[:, 4:], single.gain)


def test_the_sums_of_all_rounds_make_the_last_model() -> None:
    features, labels = line(3000)

    def error(refine: tuple[Any, ...], epsilon: float, seed: int) -> float:
        holder = central(labels, ldp.Interval(0, 10))
        model = ldp.fit_linear(
            features,
            holder,
            epsilon=epsilon,
            delta=1e-6,
            rng=SIMULATED(seed),
            representation=AS_THEY_ARE,
            refine=refine,
        ).value
        return float(np.mean((model.predict(features) - labels) ** 2))

    half = 0.1448  # whose loss twice is that of 0.2: the last round alone
    alone, joined = (np.mean([error(r, e, seed) for seed in range(8)]) for r, e in (((), half), ((again,), 0.2)))
    assert joined < 0.9 * alone


def test_a_refinement_makes_features_that_labels_asked_for() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 30))
    labels = (features[:, 0] * features[:, 1] > 0).astype(int)

    def products(model: ldp.Release[ldp.Model]) -> ldp.Release[Any]:
        return model.map(lambda _: FunctionTransformer(lambda x: np.hstack([x, x[:, :1] * x[:, 1:2]])).fit(features))

    release = ldp.fit_linear(
        features,
        central(labels, ldp.Classes(2), 4.0),
        epsilon=4,
        delta=1e-6,
        rng=SIMULATED(0),
        representation=AS_THEY_ARE,
        refine=(products,),
        evaluation=0.2,
    )
    assert np.mean(release.value.predict(features) == labels) > 0.8
    assert release.value.evaluation.accuracy().high > 0.8


def unrelated(features: Any) -> Any:
    """A refinement that returns a release which does not know of the sums: of other labels, and of another ledger."""
    other = central(np.arange(len(features)) % 2, ldp.Classes(2), 0.3)
    mechanism = ldp.RandomizedResponse(domain=other.domain, epsilon=0.3)
    release = other.release(mechanism, rng=SIMULATED(9))
    return other, lambda _: release.map(lambda _: FunctionTransformer(lambda x: x**2).fit(features))


@pytest.mark.parametrize("evaluation", [0.0, 0.2])
def test_the_certificate_holds_the_charges_of_all_rounds(evaluation: float) -> None:
    """(epsilon, delta)-DP for each label: the releases of all rounds together, composed exactly."""
    features, labels = blobs(600)
    holder = central(labels, ldp.Classes(2))
    other, refinement = unrelated(features)
    asked: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "rng": SIMULATED(0), "evaluation": evaluation}
    release = ldp.fit_linear(features, holder, refine=(refinement, refinement), **asked)
    assert len(holder.ledger.charges) == (4 if evaluation else 3)
    assert {each.id for each in holder.ledger.charges} < {each.id for each in release.certificate.entries}
    own = [charge for charge in release.certificate.entries if charge in holder.ledger.charges]
    assert total_loss(own) == holder.ledger.spent
    assert [charge for charge in release.certificate.entries if charge not in own] == list(other.ledger.charges)


def test_a_budget_for_some_of_the_rounds_is_not_touched() -> None:
    features, labels = blobs(600)
    for budget, evaluation in ((0.8, 0.0), (0.8, 0.2), (0.99, 0.0)):
        holder = central(labels, ldp.Classes(2), budget)
        with pytest.raises(BudgetExceeded, match=r"would bring it to epsilon = (0\.99|1 at)"):
            ldp.fit_linear(
                features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0), refine=(again,), evaluation=evaluation
            )
        assert holder.ledger.charges == ()


def test_a_budget_without_room_for_the_evaluation_is_not_touched() -> None:
    features, labels = blobs(600)
    holder = central(labels, ldp.Classes(2), 1.9)
    held = np.random.default_rng(0).permutation(600) < 120
    part = holder.split(ldp.Public(held.astype(int), why="the split of every fit by the seed 0"))[1]
    part.release(ldp.RandomizedResponse(domain=part.domain, epsilon=1), rng=SIMULATED(0))
    with pytest.raises(BudgetExceeded, match=r"would bring it to epsilon = 1\.99"):
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0), evaluation=0.2)
    assert len(holder.ledger.charges) == 1


def transforming(function: Any) -> Any:
    return lambda model: model.map(lambda _: FunctionTransformer(function))


class PowerCut(Exception):
    """The process died."""


@pytest.mark.parametrize("run", ["one fit", None])
def test_rounds_that_were_interrupted_are_finished_within_the_same_budget(run: str | None, tmp_path: Path) -> None:
    features, labels = blobs(500)

    powers = tuple(transforming(lambda x, power=power: x**power) for power in (2, 3))

    def interrupted(model: ldp.Release[ldp.Model]) -> ldp.Release[Any]:
        raise PowerCut

    def fit(refine: Any) -> tuple[ldp.Release[ldp.Model], Any]:
        ledger = ldp.LedgerFile(tmp_path / "people.ledger").dataset("people", budget=ldp.Budget(1, 1e-6))
        holder = ldp.Curator(labels, domain=ldp.Classes(2), ledger=ledger, run=run)
        asked: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "rng": ledger.randomness, "evaluation": 0.2}
        asked["representation"] = AS_THEY_ARE
        return ldp.fit_linear(features, holder, refine=refine, **asked), ledger

    with pytest.raises(PowerCut):
        fit((powers[0], interrupted))
    first, ledger = fit(powers)
    second, _ = fit(powers)
    assert len(ledger.charges) == 4 and ledger.spent == first.certificate.loss
    assert np.array_equal(first.value.predict_proba(features), second.value.predict_proba(features))


WRONG = {
    "no release": (lambda model: model.value.estimator.representation, "refine must return a Release"),
    "no transformer": (lambda model: model, "refine must return a Release of a fitted transformer"),
    "other rows": (transforming(lambda x: x[1:]), "refine must make a finite matrix"),
    "not a number": (transforming(lambda x: x * np.nan), "refine must make a finite matrix"),
    "too large for a float": (transforming(lambda x: x * 1e200), "refine must make a finite matrix"),
    "one column without its axis": (transforming(lambda x: x[:, 0]), "refine must make a finite matrix"),
    "texts": (transforming(lambda x: x.astype(str)), "refine must make a finite matrix"),
    "an error": (transforming(lambda x: x @ x), "FunctionTransformer cannot take these features"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_refinement_is_refused(name: str) -> None:
    features, labels = blobs(100)
    holder = central(labels, ldp.Classes(2))
    refinement, words = WRONG[name]
    with pytest.raises(InputError, match=words):
        asked: dict[str, Any] = {"rng": SIMULATED(0), "refine": (refinement,), "representation": AS_THEY_ARE}
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, **asked)
    assert len(holder.ledger.charges) == 1, "the round before stays charged"


@pytest.mark.parametrize("refine", [again, (None,), 2])
def test_what_cannot_be_called_is_refused_before_the_first_charge(refine: Any) -> None:
    features, labels = blobs(100)
    holder = central(labels, ldp.Classes(2))
    with pytest.raises(InputError, match="refine must be a sequence of functions"):
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(0), refine=refine)
    assert holder.ledger.charges == ()


@pytest.mark.parametrize("delta", ["0.000001", Decimal("1e-6"), Decimal(0)])
def test_epsilon_and_delta_may_be_texts_and_decimals(delta: Any) -> None:
    features, labels = blobs(300)
    spent = []
    for epsilon, failure in ((1, float(delta)), ("1", delta), (Decimal(1), delta)):
        holder = central(labels, ldp.Classes(2))
        asked: dict[str, Any] = {"rng": SIMULATED(0), "refine": (again,), "representation": AS_THEY_ARE}
        ldp.fit_linear(features, holder, epsilon=epsilon, delta=failure, **asked)
        spent.append(holder.ledger.spent)
    assert spent[0] == spent[1] == spent[2]


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("domain", [ldp.Classes(3), ldp.Interval(0, 1)])
def test_a_round_costs_what_is_said_before_its_features_are_known(domain: Any, delta: float) -> None:
    features, labels = blobs(300)
    holder = central(labels * 0.5 if isinstance(domain, ldp.Interval) else labels, domain)
    asked: dict[str, Any] = {"epsilon": 0.7, "delta": delta}
    given: dict[str, Any] = {"rng": SIMULATED(0), "refine": (again, again), "representation": AS_THEY_ARE}
    ldp.fit_linear(features, holder, **given, **asked)
    assert {charge.loss for charge in holder.ledger.charges} == {round_loss(domain, rounds=3, **asked)}


@pytest.mark.parametrize("classes", [2, 1100, 1 << 19])
def test_of_many_classes_as_many_directions_are_taken_as_fit_into_one_release(classes: int) -> None:
    most = Task.of(ldp.Classes(classes), 1, 1e-6, 10**6, 1.0).dimension
    assert (1 + most) * classes <= MAX_CELLS < (2 + most) * classes
    assert Task.of(ldp.Classes(classes), 1, 1e-6, 1, 1.0).dimension == 1
    assert Task.of(ldp.Classes(classes), 1, 0, 1000, 1.0).dimension == 1000


def test_the_root_of_a_rising_function_or_the_nearer_end() -> None:
    assert _rising_root(lambda factor: factor**2, 9.0) == pytest.approx(3)
    assert _rising_root(lambda factor: factor, 0.0) == 0.0
    assert _rising_root(lambda factor: 1 - np.exp(-factor), 2.0) == MOST_CONFIDENT


@pytest.mark.parametrize("seed", [1, 6, 9])
def test_lucky_noise_makes_no_model_sure_of_everything(seed: int) -> None:
    features, labels = blobs(300, 2, distance=3.0)
    holder = central(labels, ldp.Classes(2))
    model = ldp.fit_linear(
        features, holder, epsilon=1, delta=1e-6, rng=SIMULATED(seed), representation=AS_THEY_ARE
    ).value
    assert model.estimator.confidence < 100  # these sums agree with the model better than any labels could
