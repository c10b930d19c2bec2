"""One example of every public mechanism at a given epsilon, small enough for the whole contract."""

from collections.abc import Callable
from typing import Any

import numpy as np

from labeldp.bags import BagSum, NoisyWeightedLLP, WeightedLBA
from labeldp.mechanisms import (
    Classes,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianChoice,
    GaussianMoment,
    GaussianOneHot,
    Interval,
    LaplaceHistogram,
    LaplaceMoment,
    LaplaceSum,
    LocalHashing,
    Mechanism,
    Optimal,
    PermuteAndFlip,
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
    ResponseOnBins,
    ResponseOnDistances,
    ResponseOnPoints,
    SquaredErrors,
    SubsetSelection,
    UnaryEncoding,
    UnbiasedNumbers,
)
from labeldp.privacy import Public


def public(values: Any) -> Public[Any]:
    """An array that no label went into."""
    return Public(np.asarray(values), why="written by hand for a test")


GROUPS = public([0, 1, 1, 0, 3])
PRIORS = public([[0.7, 0.2, 0.1], [0.34, 0.33, 0.33], [0.1, 0.45, 0.45], [1, 0, 0]])
CENTERS = public([[0], [2], [2], [5]])
SPANS = public([[-2, 1], [1, 4], [1, 4], [4, 7]])
CLASS_PRIOR = public([0.1, 0.4, 0.2, 0.3])

COSTS = public([[0, 0.1, 1, 1], [1, 0, 0.1, 1], [1, 1, 0, 0.1], [0.1, 1, 1, 0]])
SHARES = public([0.24, 0.26, 0.25, 0.25])

ROWS = public([[1.0, 0.5], [-0.25, 2.0], [3.0, -1.0], [0.0, 0.0], [0.6, 0.6]])

CODES, ONES = public([0, 2, 5, 3, 3]), public(np.ones((5, 1)))

CHOICES = public(np.random.default_rng(1).normal(size=(5, 3, 2)))
MANY = public(np.random.default_rng(0).normal(size=(40, 2)))
BITS = Interval(0, 1, grid=2)
SIX = Interval(-1, 1, grid=6)

EXAMPLES: dict[str, Callable[[Any], Mechanism]] = {
    "two classes": lambda epsilon: RandomizedResponse(domain=Classes(("no", "yes")), epsilon=epsilon),
    "three classes": lambda epsilon: RandomizedResponse(domain=Classes(3), epsilon=epsilon),
    "ten classes": lambda epsilon: RandomizedResponse(domain=Classes(10), epsilon=epsilon),
    "top two": lambda epsilon: RandomizedResponseTopK(domain=Classes(4), epsilon=epsilon, prior=CLASS_PRIOR, k=2),
    "top three": lambda epsilon: RandomizedResponseTopK(domain=Classes(4), epsilon=epsilon, prior=CLASS_PRIOR, k=3),
    "prior": lambda epsilon: RandomizedResponseWithPrior(domain=Classes(3), epsilon=epsilon, prior=PRIORS),
    "two bits": lambda epsilon: UnaryEncoding(domain=Classes(2), epsilon=epsilon),
    "nine bits": lambda epsilon: UnaryEncoding(domain=Classes(9), epsilon=epsilon),
    "three groups of four classes": lambda epsilon: LocalHashing(
        domain=Classes(4), epsilon=epsilon, groups=3, seed=bytes(16)
    ),
    "two groups of nine classes": lambda epsilon: LocalHashing(
        domain=Classes(9), epsilon=epsilon, groups=2, seed=bytes(16)
    ),
    "sets of two of five classes": lambda epsilon: SubsetSelection(domain=Classes(5), epsilon=epsilon, size=2),
    "grid of two": lambda epsilon: DiscreteLaplace(domain=Interval(0, 1, grid=2), epsilon=epsilon),
    "grid of six": lambda epsilon: DiscreteLaplace(domain=Interval(-1, 1, grid=6), epsilon=epsilon),
    "two numbers": lambda epsilon: UnbiasedNumbers(domain=Interval(0, 1, grid=2), epsilon=epsilon),
    "few numbers": lambda epsilon: UnbiasedNumbers(domain=Interval(-1, 1, grid=6), epsilon=epsilon),
    "three bins": lambda epsilon: ResponseOnBins(domain=Interval(-1, 1, grid=6), epsilon=epsilon, bins=3),
    "least expected loss": lambda epsilon: Optimal(Classes(4), epsilon, COSTS, SHARES),
    "least expected distance": lambda epsilon: Optimal(SIX, epsilon, np.abs(np.subtract.outer(range(6), range(6)))),
    "three points of spans": lambda epsilon: ResponseOnPoints(domain=SIX, epsilon=epsilon, spans=SPANS, points=3),
    "three points of the range": lambda epsilon: ResponseOnPoints(domain=SIX, epsilon=epsilon, points=3),
    "bins of distances": lambda epsilon: ResponseOnDistances(domain=SIX, epsilon=epsilon, centers=CENTERS, bins=4),
    "exponential": lambda epsilon: ExponentialMechanism(domain=Classes(3), epsilon=epsilon, groups=GROUPS),
    "permute and flip": lambda epsilon: PermuteAndFlip(domain=Classes(4), epsilon=epsilon, groups=GROUPS),
    "histogram": lambda epsilon: LaplaceHistogram(domain=Classes(3), epsilon=epsilon, groups=GROUPS),
    "sum": lambda epsilon: LaplaceSum(domain=Interval(-5, 5, grid=11), epsilon=epsilon, groups=GROUPS),
    "sum of two classes": lambda epsilon: LaplaceSum(domain=Classes(("no", "yes")), epsilon=epsilon, groups=GROUPS),
    "sum of bits": lambda epsilon: LaplaceSum(domain=Interval(0, 1, grid=2), epsilon=epsilon, groups=GROUPS),
    "squared errors": lambda epsilon: SquaredErrors(
        domain=Interval(0, 8, grid=9), epsilon=epsilon, predictions=Public(np.array([2, 5, 5, 3]), why="a test")
    ),
    "gaussian moment": lambda epsilon: GaussianMoment(
        domain=Classes(3), epsilon=epsilon, delta=1e-6, features=ROWS, clip=2.0, resolution=64
    ),
    "gaussian moment of numbers": lambda epsilon: GaussianMoment(
        domain=Interval(-1, 1, grid=6), epsilon=epsilon, delta=1e-6, features=ROWS, resolution=64
    ),
    "gaussian moment of distances": lambda epsilon: GaussianMoment(
        domain=SIX, epsilon=epsilon, delta=1e-6, features=ROWS, resolution=64, centers=CODES, reach=2
    ),
    "gaussian moment of bins": lambda epsilon: GaussianMoment(
        domain=SIX, epsilon=epsilon, delta=1e-6, features=ONES, resolution=1, centers=CODES, bins=3
    ),
    "gaussian sum of choices": lambda epsilon: GaussianChoice(
        domain=Classes(3), epsilon=epsilon, delta=1e-6, rows=CHOICES, clip=2.0, resolution=64
    ),
    "gaussian indicators": lambda epsilon: GaussianOneHot(domain=Classes(3), epsilon=epsilon, delta=1e-6),
    "laplace moment": lambda epsilon: LaplaceMoment(domain=Classes(3), epsilon=epsilon, features=ROWS, resolution=64),
    "laplace moment of numbers": lambda epsilon: LaplaceMoment(
        domain=Interval(-1, 1, grid=6), epsilon=epsilon, features=ROWS, resolution=64
    ),
    "laplace moment of distances": lambda epsilon: LaplaceMoment(
        domain=SIX, epsilon=epsilon, features=ROWS, resolution=64, centers=CODES, reach=4
    ),
    "bag sum": lambda epsilon: BagSum(6, domain=SIX, epsilon=epsilon, features=MANY),
    "bag sum of two classes": lambda epsilon: BagSum(
        6, bags="random", domain=Classes(("no", "yes")), epsilon=epsilon, features=MANY
    ),
    "gaussian bag sum": lambda epsilon: BagSum(
        6, noise="gaussian", domain=BITS, epsilon=epsilon, delta=1e-6, features=MANY
    ),
    "signed bags": lambda epsilon: NoisyWeightedLLP(8, 4, epsilon, domain=SIX, features=MANY),
    "normal bags": lambda epsilon: NoisyWeightedLLP(8, 4, epsilon, "gaussian", domain=BITS, features=MANY),
    "the paper's bags": lambda epsilon: NoisyWeightedLLP(8, 4, epsilon, domain=SIX, features=MANY, paper_faithful=True),
    "secret weights": lambda epsilon: WeightedLBA(20, domain=SIX, features=MANY, epsilon=epsilon, delta=1e-6),
    "secret weights, several rows": lambda epsilon: WeightedLBA(
        40, 3, domain=BITS, features=MANY, epsilon=epsilon, delta=1e-6
    ),
    "secret weights on condition": lambda epsilon: WeightedLBA(
        20, bag_noise=0, assumed_residual_square=epsilon, domain=SIX, features=MANY
    ),
}
