"""What bags refuse, with the reason, before anything is charged."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp import BagSum, Classes, Interval
from labeldp.bags import NoisyWeightedLLP, WeightedLBA
from labeldp.privacy import InputError
from mechanisms.examples import public

TENTHS = Interval(0, 1, grid=11)


def rows(count: int) -> Any:
    """Public features."""
    return public(np.random.default_rng(0).normal(size=(count, 2)))


def bag_sum(*size: int, **changes: Any) -> BagSum:
    """A sum over bags with some arguments changed."""
    return BagSum(*(size or (2,)), **{"domain": TENTHS, "epsilon": 1, "bags": public([0, 0, 1, 1]), **changes})


def llp(*positional: Any, **changes: Any) -> NoisyWeightedLLP:
    """Published weights with some arguments changed."""
    return NoisyWeightedLLP(*positional, **{"domain": TENTHS, "bags": public([0, 0, 1, 1]), **changes})


def lba(*positional: Any, **changes: Any) -> WeightedLBA:
    """Secret weights with some arguments changed."""
    given = {"domain": TENTHS, "features": rows(8), "epsilon": 1, "delta": 1e-6, **changes}
    return WeightedLBA(*(positional or (4,)), **given)


GIVEN = {"epsilon": None, "delta": None}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bag_sum(bags=public([[0, 1], [1, 2]])), "bags must not overlap"),
        (lambda: bag_sum(bags=public([[0, 1], [2, 3]])), "one bag number for each record"),
        (lambda: bag_sum(bags=public([0, 0, 0, 1])), "bags must hold at least size = 2 records each: one is smaller"),
        (lambda: bag_sum(bags=public([0, 0, 2, 2])), "one is smaller"),
        (lambda: bag_sum(bags=ldp.Public([[0, 1, 3], [1, 2]], why="made up")), "bags must not overlap"),
        (lambda: bag_sum(bags=ldp.Public([[0, 1, 3], [2]], why="made up")), "one bag number for each record"),
        (lambda: bag_sum(bags=public([0.5, 0, 1, 1])), "bags must be one non-negative integer"),
        (lambda: bag_sum(bags=[0, 0, 1, 1]), "bags must be Public"),
        (lambda: bag_sum(bags="random"), "random_bags"),
        (lambda: bag_sum(bags="kdtree"), 'bags must be "median", "random"'),
        (lambda: bag_sum(bags="median"), "features must be given"),
        (lambda: bag_sum(bags="median", features=np.ones((4, 1))), "features must be Public"),
        (lambda: bag_sum(9, bags="random", features=rows(8)), "size must be at most the number of records"),
        (lambda: bag_sum(0), "size must be an integer"),
        (lambda: bag_sum(noise="uniform"), "noise must be one of"),
        (lambda: bag_sum(noise="gaussian"), "delta must lie in"),
        (lambda: bag_sum(delta=1e-6), "delta must lie in"),
        (lambda: bag_sum(domain=Classes(3)), "domain must be Interval"),
        (lambda: bag_sum(epsilon=1e-12), "epsilon is too small"),
        (lambda: llp(2, 0, 1.0), "a bag without a noisy label reveals its labels"),
        (lambda: llp(2, 3, 1.0), "noisy must be at most size"),
        (lambda: llp(2, 1, 0), "stddev must be positive"),
        (lambda: llp(2, 1, 1.0, epsilon=1, delta=1e-6), "a given noise decides them"),
        (lambda: llp(2, 1, "auto", epsilon=1), "epsilon and delta must be given with stddev"),
        (lambda: llp(2, 1, "auto", epsilon=1, delta=0), "delta must lie in"),
        (lambda: llp(2, 1, "auto", epsilon=1e-9, delta=1e-6), "do not fit into 64 bits"),
        (lambda: llp(2, 1, 1.0, "ones"), "weights must be one of"),
        (lambda: llp(2, 1, 1e9), "do not fit into 64 bits"),
        (lambda: lba(2, bag_noise=0, assumed_residual_square=9, **GIVEN), "size must exceed the rank"),
        (lambda: lba(2, bag_noise=1, assumed_residual_square=9, **GIVEN), "no residual is left"),
        (lambda: lba(features=public(np.ones((8, 1)) * 1j)), "features must be real numbers"),
        (lambda: bag_sum(bags="median", features=public(np.ones((4, 1)) * 1j)), "features must be real numbers"),
        (lambda: lba(features=public(np.full((8, 1), 1e200))), "features must be at most 1e.100"),
        (lambda: lba(bag_noise=0, **GIVEN), "bag_noise must be positive"),
        (lambda: lba(bag_noise=-1, **GIVEN), "bag_noise must not be negative"),
        (lambda: lba(bag_noise=1), "a given noise decides them"),
        (lambda: lba(epsilon=None), "epsilon and delta must be given"),
        (lambda: lba(assumed_residual_square=1), "no assumed_residual_square"),
        (lambda: lba(delta=1e-10), "delta must be above"),
        (lambda: lba(features=None), "features must be given"),
        (lambda: lba(features=public(np.full((8, 1), np.nan))), "features must be a finite array"),
        (lambda: lba(weights="public"), "weights of WeightedLBA are secret"),
        (lambda: lba(4, bag_noise=0, assumed_residual_square=1.01, **GIVEN), "at most 1, .* none can satisfy it"),
        (lambda: llp(2, 1, 1.0, "rademacher", paper_faithful=True), "weights must be .gaussian. with paper_faithful"),
    ],
)
def test_what_bags_refuse(make: Callable[[], Any], words: str) -> None:
    with pytest.raises((InputError, TypeError), match=words):
        make()


def test_labels_outside_are_refused_or_clipped_and_nothing_is_charged() -> None:
    for domain, labels in ((TENTHS, [0.5, 2.0, 0, 0]), (Interval(0, 1, grid=11, clip=True), [0.5, 2.0, 0, np.nan])):
        with pytest.raises(ldp.privacy.DomainError):
            ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=1))
    clipped = Interval(0, 1, grid=11, clip=True)
    curator = ldp.Curator([7.0, 2.0, 0, 0], domain=clipped, budget=ldp.Budget(epsilon=1000))
    with pytest.raises(InputError, match="labels must hold 6 records"):
        curator.release(bag_sum(domain=clipped, bags=public([0, 0, 1, 1, 1, 1])), rng=ldp.SystemRandomness())
    assert curator.ledger.spent.epsilon() == 0
    sums = bag_sum(domain=clipped, epsilon=1000)
    assert sums.totals(curator.release(sums, rng=ldp.SystemRandomness()).value) == pytest.approx([2, 0])
