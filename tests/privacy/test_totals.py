"""Totals that are kept never under-count."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.privacy import Bound, Budget, Charge, PrivacyLoss, Totals, total_loss
from labeldp.privacy.bag_loss import NoisyBag

LOSSES = [
    PrivacyLoss.zero(),
    PrivacyLoss.pure("0.1"),
    PrivacyLoss.pure(Fraction(1, 3)),
    PrivacyLoss.response("0.7", 10),
    PrivacyLoss.approximate("0.1", "1e-7"),
    PrivacyLoss.gaussian(0.3),
    PrivacyLoss.gaussian(0.1) + PrivacyLoss.pure(1),
    PrivacyLoss.pure(1) + PrivacyLoss.gaussian(0.5),
    PrivacyLoss.pure("0.2") * 5,
]

paths = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=2).map(tuple)
charges = st.lists(st.tuples(paths, st.sampled_from(LOSSES)), max_size=12)


@pytest.mark.slow
@pytest.mark.guarantee("labeldp.privacy:Totals", "never_less")
@settings(max_examples=1000, deadline=None)
@given(history=charges, asked=charges)
def test_kept_totals_are_those_of_all_charges(history: Any, asked: Any) -> None:
    totals = Totals()
    for path, loss in history:
        totals.add(path, loss)
    rows = [Charge("", path, loss, {}) for path, loss in [*history, *asked]]
    assert totals.loss() == total_loss(rows[: len(history)])
    assert totals.loss(asked) == total_loss(rows)
    again = Totals({key: history.count(key) for key in history})
    kept, counted = totals.bound, again.bound
    assert again.loss() == totals.loss()
    assert (kept.pure, kept.failures) == (counted.pure, counted.failures)
    assert kept.rho == counted.rho or abs(kept.rho - counted.rho) < 1e-20  # type: ignore[operator]  (rounded up)


@pytest.mark.guarantee("labeldp.privacy:Bound", "sound")
@pytest.mark.guarantee("labeldp.privacy:Bound", "incomplete")
@settings(max_examples=100, deadline=None)
@given(history=charges, epsilon=st.sampled_from(["0.1", "0.5", 1, 2, 5]), delta=st.sampled_from([0, "1e-6", "1e-3"]))
def test_a_bound_admits_only_what_the_loss_admits(history: Any, epsilon: Any, delta: Any) -> None:
    totals = Totals()
    for path, loss in history:
        totals.add(path, loss)
    if totals.bound.admits(epsilon, delta):
        assert Budget(epsilon, delta).admits(totals.loss())
    assert Bound.from_texts(*totals.bound.to_texts()) == totals.bound


def test_a_bound_is_exact_for_pure_losses_and_knows_what_it_does_not_know() -> None:
    ten = Bound.of(PrivacyLoss.pure("0.1")) * 10
    assert ten.admits(1, 0) and not ten.admits("0.9999999999", 0)
    assert (ten + Bound.of(PrivacyLoss.failure("1e-6"))).admits(1, "1e-6")
    assert not (ten + Bound.of(PrivacyLoss.failure("1e-6"))).admits(1, "9e-7")
    bag = Bound.of(PrivacyLoss.curve(NoisyBag(weights="rademacher", ratio=0.5, size=4, noisy=4)))
    assert bag.pure is None and bag.rho is None and not bag.admits(100, "0.5")
    assert Bound.from_texts(*bag.to_texts()) == bag


def test_many_small_releases_are_admitted_by_their_concentration() -> None:
    """1,000 releases of epsilon = 0.01 stay within epsilon = 3 at delta = 1e-6, and sums alone show it."""
    thousand = Bound.of(PrivacyLoss.pure("0.01")) * 1000
    assert thousand.admits(3, "1e-6") and not thousand.admits(3, 0)
    loss = PrivacyLoss.pure("0.01") * 1000
    assert loss.within(3, "1e-6")


@pytest.mark.parametrize("texts", [("1/3", None, "0"), (None, "2", "1/7")])
def test_texts_are_exact(texts: Any) -> None:
    assert Bound.from_texts(*texts).to_texts() == texts
