"""More rounds of a linear model: what they cost together, and what they add."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.learners import RandomFourier
from labeldp.learners.whitening import best_linear
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
