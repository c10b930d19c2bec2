"""Ranges of numbers are refused where they are declared, or work in every mechanism and learner."""

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp import inference, mechanisms
from labeldp.privacy import InputError, label_width

X = np.random.default_rng(0).normal(size=(200, 3))
SHARES = np.clip(0.5 + 0.2 * X[:, 0], 0, 1)

GOOD: list[Any] = [
    (0, 1), (0, 1e30), (-1e30, 1e30), (-1e30, -0.5e30), (0, 1e-9), (-5e-10, 5e-10), (1e6, 1e6 + 1e-3), (1e12, 1e12 + 2),
    (-(1e12) - 2, -1e12), (0, 10**25), ("0", "0.3"), (Fraction(1, 3), 1),
]  # fmt: skip

BAD: list[Any] = [
    (0, 1e31), (0, 1e150), (0, 1e160), (0, 1e200), (0, 1e300), (-1e300, 1e300), (-1e308, 1e308), (0, 10**400),
    (0, 1e-10), (0, 1e-150), (0, 1e-200), (0, 5e-324), (-5e-324, 5e-324), (0, "1e-400"), (1e15, 1e15 + 1), (1e16, 1e16),
    (1e18, 1e18 + 1024), (1, 1), (1, 0), (0, -1), (0, np.nan), (np.nan, np.nan), (0, np.inf), (-np.inf, 0), (None, 1),
    (0, "x"), (0, 1j), (0, [1]), (True, "1e999999999"),
]  # fmt: skip


@pytest.mark.parametrize("ends", BAD, ids=str)
def test_a_range_that_floats_cannot_hold_is_refused_where_it_is_declared(ends: Any) -> None:
    with pytest.raises(InputError, match=r"^(low|high)"):
        ldp.Interval(*ends)
    regressor = ldp.LabelDPRegressor(epsilon=5, range=ends)
    with pytest.raises(InputError):
        regressor.fit(X, SHARES)
    regressor.set_params(range=(0, 1), estimator="neighbors").fit(X, SHARES)  # the right to fit is left
    if ends not in ((1e15, 1e15 + 1), (1e18, 1e18 + 1024)):  # of one step
        with pytest.raises(InputError, match=r"^label_range"):
            label_width(ends)


def test_a_fine_grid_is_refused_where_its_points_are_equal() -> None:
    ldp.Interval(1e9, 1e9 + 1, grid=2**16)
    with pytest.raises(InputError, match="points between them apart"):
        ldp.Interval(1e9, 1e9 + 1, grid=2**21)


@pytest.mark.parametrize("ends", GOOD, ids=str)
def test_all_mechanisms_and_estimates_take_a_range(ends: Any) -> None:
    domain = ldp.Interval(*ends)
    low, high = domain.ends
    labels = np.clip(low + (high - low) * SHARES, low, high)
    assert (np.abs(domain.decode(domain.encode(labels)) - labels) <= 0.51 * domain.step).all()
    for mechanism in (
        mechanisms.DiscreteLaplace(domain, 2.0),
        mechanisms.UnbiasedNumbers(domain, 2.0),
        mechanisms.ResponseOnBins(domain, 2.0),
    ):
        curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(9))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            release = curator.release(mechanism, rng=np.random.default_rng(0))
            values = np.asarray(mechanism.values(release.value), dtype=object)
            assert len(values) == len(labels)
            if not isinstance(mechanism, mechanisms.ResponseOnBins):
                mean = inference.mean(release)
                assert low <= mean.low <= mean.high <= high and mean.high - mean.low < high - low
                effect = inference.difference(release, X[:, 1] > 0)
                assert np.isfinite([effect.value, effect.low, effect.high]).all()
                assert np.isfinite(inference.regression(release, X, kind="linear").value).all()
    curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(9))
    sums = curator.release(inference.plan_sums("mean", domain, 2.0, records=200), rng=np.random.default_rng(0))
    mean = inference.mean(sums)
    assert low <= mean.low <= mean.value <= mean.high <= high


@pytest.mark.parametrize("learner", ["boosting", "cells", "neighbors", "mixture", "linear, central", "cells, central"])
@pytest.mark.parametrize("ends", [(0, 1e30), (-5e-10, 5e-10), (1e12, 1e12 + 2)], ids=str)
def test_all_learners_take_a_range(ends: Any, learner: str) -> None:
    low, high = ends
    name, _, central = learner.partition(", ")
    labels = np.clip(low + (high - low) * SHARES, low, high)
    regressor = ldp.LabelDPRegressor(epsilon=8, range=ends, estimator=name, trust=central or "local")
    predicted = regressor.fit(X, labels).predict(X)
    assert ((predicted >= low) & (predicted <= high)).all()
    assert np.sqrt(np.mean(((predicted - low) / (high - low) - SHARES) ** 2)) < 0.17  # a constant errs by 0.2
    assert "nan" not in str(regressor.evaluation_)
