"""Whole releases about two neighbors, told apart as well as possible: no better than the certificate says.

Every bag of a large release is one try: in each of them one label is replaced, and what is published about the bag is
held against the law of both neighbors. δ(ε) = E over the first of (1 − e^(ε − L))+, L the log of the ratio of the laws.
"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

import labeldp as ldp
from labeldp import BagSum, Interval
from labeldp.bags import NoisyWeightedLLP, WeightedLBA
from mechanisms.examples import public

SURE = 7.04
"""Standard errors that chance passes with probability 1e-12."""

DOMAIN = Interval(-1, 1, grid=3)

KEY = ldp.KeyedRandomness(b"tell two neighbors apart".ljust(32, b".")).bind(b"a test")


def seen(losses: NDArray[Any], epsilon: float) -> tuple[float, float]:
    """The mean of (1 - e^(epsilon - loss))+ and its standard error."""
    parts = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0)
    return float(parts.mean()), float(parts.std() / math.sqrt(len(parts)) + 1e-6)


def check(losses: NDArray[Any], claim: ldp.PrivacyLoss, tight: bool = True) -> None:
    """The claim covers what is seen and, where the pair is the worst one, nothing more."""
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        mean, error = seen(losses, epsilon)
        assert mean <= claim.delta(epsilon) + SURE * error
        assert not tight or mean >= claim.delta(epsilon) - SURE * error


def members(bags: int, size: int) -> Any:
    """So many bags of equal size, one after another."""
    return public(np.repeat(np.arange(bags), size))


def test_gaussian_sums_over_bags() -> None:
    sums = BagSum(4, bags=members(50_000, 4), noise="gaussian", domain=DOMAIN, epsilon=2, delta=0.05)
    noise = sums.totals(sums.randomize(np.ones(200_000, dtype=np.uint8), rng=KEY)) / sums.noise_stddev
    ratio = 2 / sums.noise_stddev
    check(ratio * noise + ratio**2 / 2, sums.privacy_loss())


def test_laplace_sums_over_bags() -> None:
    sums = BagSum(4, bags=members(50_000, 4), domain=DOMAIN, epsilon=1)
    noise = sums.totals(sums.randomize(np.ones(200_000, dtype=np.uint8), rng=KEY))
    losses = (np.abs(noise + 2) - np.abs(noise)) / 2
    assert losses.max() <= 1
    check(losses, sums.privacy_loss(), tight=False)
    mean, error = seen(losses, 0.0)
    assert mean >= 1 - math.exp(-0.5) - SURE * error - 0.1  # geometric on a coarse grid


@pytest.mark.parametrize("weights", ["rademacher", "gaussian"])
def test_published_weights(weights: str) -> None:
    bags, size = 4000, 4
    llp = NoisyWeightedLLP(size, 2, 1.5, weights, domain=DOMAIN, bags=members(bags, size))
    shown = llp.released_sums(llp.randomize(np.ones(bags * size, dtype=np.uint8), rng=KEY))
    own, bare = shown.weights[::size], ~shown.noisy[::size]
    ratio = 2 * np.abs(own) / shown.noise_stddev
    losses = ratio * shown.sums / shown.noise_stddev + ratio**2 / 2  # all labels are 0: the sum is noise
    assert 0.4 < bare.mean() < 0.6
    check(losses[bare], llp.privacy_loss())
    check(losses[~bare], llp.privacy_loss(), tight=False)


def test_figure_2_with_bags_that_may_have_no_noise() -> None:
    bags, size = 3000, 4
    llp = NoisyWeightedLLP(size, 1, 1.5, domain=DOMAIN, bags=members(bags, size), paper_faithful=True)
    shown = llp.released_sums(llp.randomize(np.ones(bags * size, dtype=np.uint8), rng=KEY))
    bare = ~shown.noisy[::size]
    noisy, stddev = shown.noise_stddev > 0, np.maximum(shown.noise_stddev, 1e-9)
    ratio = 2 * np.abs(shown.weights[::size]) / stddev
    losses = np.where(noisy, ratio * shown.sums / stddev + ratio**2 / 2, np.inf)
    assert np.mean(~noisy) == pytest.approx(0.75**4, abs=0.05)
    check(losses[bare], llp.privacy_loss())


@pytest.mark.parametrize("toward", ["more", "less"])
def test_secret_weights(toward: str) -> None:
    """The rows of a bag are independent: together they show the law of one."""
    count, size = 2000, 12
    features = np.column_stack([np.ones(size), np.linspace(-1, 1, size)])
    one = WeightedLBA(size, bag_noise=2.0, domain=DOMAIN, bags=members(1, size), features=public(features))
    many = WeightedLBA(size, count, 2.0, domain=DOMAIN, bags=members(1, size), features=public(features))
    labels = np.full(size, 2, dtype=np.uint8)
    changed = labels.copy()
    changed[-1] = 0
    first, second = (labels, changed) if toward == "more" else (changed, labels)
    sums = many.released_sums(many.randomize(first, rng=KEY))
    published = np.column_stack([np.asarray(sums.features), sums.sums])
    laws = [_law(features, each, one.noise_stddev) for each in (first, second)]
    losses = laws[0].logpdf(published) - laws[1].logpdf(published)
    check(losses, one.privacy_loss(), tight=False)
    assert seen(losses, 0.5)[0] >= 0.1 * one.privacy_loss().delta(0.5)
    assert np.mean(np.exp(-losses)) == pytest.approx(1, abs=0.2)  # the law is what we think it is


def _law(features: NDArray[Any], codes: NDArray[Any], stddev: float) -> Any:
    """The normal law of one row of what is published."""
    table = np.column_stack([features, codes.astype(float) - 1])
    covariance = table.T @ table
    covariance[-1, -1] += stddev**2
    return multivariate_normal(np.zeros(3), covariance)
