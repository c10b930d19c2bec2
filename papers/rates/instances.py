"""Hard distributions: bumps of random sign that shrink as the records grow, so that a learner shows its true exponent.

On one fixed distribution a learner may be faster than the minimax rate. Here the side h of the bumps follows N
(`critical_side`), the regression function moves by h^β, and only its random signs are to be learned.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from labeldp.advice.rates import check_smoothness
from labeldp.privacy import Floats, InputError, Integers, check_integer, check_nonnegative, check_positive, set_fields
from papers.rates.table import critical_side

MAX_CUBES = 1 << 24
"""The most cubes of an instance."""

MAX_BOXES = 1 << 22
"""The most boxes of an exact integral."""


@dataclass(frozen=True)
class Cubes:
    """M^d cubes of side 1/M that tile [0, 1]^d; features lie in the inner half of each, along every axis.

    The gaps make the function smooth: it changes its sign between two cubes, where there are no features.

    Args:
        per_axis: M.
        dimension: d.

    Source: Zhao, Appendix B, with the gaps of `docs/theory/corrections.md`.
    """

    per_axis: int
    dimension: int

    def __post_init__(self) -> None:
        set_fields(
            self,
            per_axis=check_integer(self.per_axis, "per_axis"),
            dimension=check_integer(self.dimension, "dimension"),
        )
        if self.per_axis**self.dimension > MAX_CUBES:
            raise InputError(
                "so many bumps do not fit in memory: take fewer records, a larger side or fewer dimensions"
            )

    @property
    def count(self) -> int:
        """The number of cubes."""
        return int(self.per_axis**self.dimension)

    def index(self, features: ArrayLike) -> Integers:
        """Return the cube of each row of features, shape (n, d); rows outside belong to the nearest cube."""
        rows = np.asarray(features, dtype=float).reshape(-1, self.dimension)
        places = np.clip((rows * self.per_axis).astype(np.int64), 0, self.per_axis - 1)
        return np.ravel_multi_index(tuple(places.T), (self.per_axis,) * self.dimension).astype(np.int64)

    def draw(self, records: int, rng: np.random.Generator) -> tuple[Floats, Integers]:
        """Draw features, shape (n, d), uniformly on the inner halves; return them and the cube of each."""
        cubes = rng.integers(0, self.count, check_integer(records, "records"))
        corners = np.stack(np.unravel_index(cubes, (self.per_axis,) * self.dimension), axis=1)
        inside = 0.25 + 0.5 * rng.random((cubes.size, self.dimension))
        return (corners + inside) / self.per_axis, cubes

    def boxes(self, lines: ArrayLike = ()) -> tuple[Floats, Floats]:
        """Cut the inner halves by lines into boxes; return their centers, shape (b, d), and their probabilities.

        Args:
            lines: positions at which every axis is cut, besides the edges of the inner halves.
        """
        starts = (np.arange(self.per_axis)[:, None] + [0.25, 0.75]) / self.per_axis
        edges = np.unique(np.concatenate([starts.ravel(), np.asarray(lines, dtype=float).ravel()]))
        middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        occupied = (np.abs(middles * self.per_axis % 1 - 0.5) < 0.25) & (middles > 0) & (middles < 1)
        middles, widths = middles[occupied], 2 * widths[occupied]
        if middles.size**self.dimension > MAX_BOXES:
            raise InputError(
                "so many boxes do not fit in memory: take fewer lines, or the mean of excess_at on a sample"
            )
        centers = np.stack(np.meshgrid(*[middles] * self.dimension, indexing="ij"), axis=-1)
        weights = np.stack(np.meshgrid(*[widths] * self.dimension, indexing="ij"), axis=-1)
        return centers.reshape(-1, self.dimension), weights.prod(axis=-1).ravel()


class _OnCubes(ABC):
    """A hard distribution whose features lie on cubes."""

    cubes: Cubes

    @abstractmethod
    def excess_at(self, features: ArrayLike, predictions: ArrayLike) -> Floats:
        """Return the excess risk of predictions, given the features of each: its mean on a sample is unbiased."""

    def excess(self, predict: Callable[[Floats], ArrayLike], *, lines: ArrayLike = ()) -> float:
        """Return the excess risk of a learner: exact where predictions change on the lines alone, along every axis.

        Source: Zhao, Proposition 2, eq. (8) and (9).
        """
        centers, weights = self.cubes.boxes(lines)
        return float(weights @ self.excess_at(centers, predict(centers)))


@dataclass(frozen=True)
class HardClasses(_OnCubes):
    """Classes that nearly tie: in some cubes a random class is likelier than all others by the height.

    Elsewhere all K classes are equally likely. For K = 2 this is eq. (46).

    Args:
        cubes: where features lie.
        winners: the likelier class of each cube, -1 in cubes where all tie, shape (cubes.count,).
        height: by how much it is likelier, in (0, 1].
        classes: K.

    Source: Zhao, eq. (46) and (47); more than two classes are ours.
    """

    cubes: Cubes
    winners: Integers = field(repr=False)
    height: float
    classes: int

    @property
    def bayes_risk(self) -> float:
        """Error probability of the best classifier."""
        share = float(np.mean(self.winners >= 0))
        return (1 - 1 / self.classes) * (1 - share * self.height)

    def probabilities(self, features: ArrayLike) -> Floats:
        """Return P(class given features), shape (n, K)."""
        winners = self.winners[self.cubes.index(features)]
        heights = np.where(winners >= 0, self.height, 0.0)
        table = np.repeat((1 - heights)[:, None] / self.classes, self.classes, axis=1)
        table[np.arange(winners.size), winners] += heights
        return table

    def draw(self, records: int, rng: np.random.Generator) -> tuple[Floats, Integers]:
        """Draw features, shape (n, d), and labels 0 to K-1, shape (n,)."""
        features, cubes = self.cubes.draw(records, rng)
        winners = self.winners[cubes]
        sure = (rng.random(cubes.size) < self.height) & (winners >= 0)
        return features, np.where(sure, winners, rng.integers(0, self.classes, cubes.size))

    def excess_at(self, features: ArrayLike, predictions: ArrayLike) -> Floats:
        winners = self.winners[self.cubes.index(features)]
        return self.height * ((winners >= 0) & (np.asarray(predictions) != winners)).astype(float)


@dataclass(frozen=True)
class HardValues(_OnCubes):
    """Numbers whose mean is plus or minus the height, by the random sign of each cube.

    A label is T, 0 or -T. With T = 1 and no zeros labels are bounded; else their moments are.

    Args:
        cubes: where features lie.
        signs: 1 or -1 for each cube, shape (cubes.count,).
        height: the mean's absolute value.
        reach: T.
        share: P(label is not 0), at least height / T.

    Source: Zhao, eq. (131) and Appendix F for bounded labels; eq. (166) with share = M_p T^-p for heavy tails.
    """

    cubes: Cubes
    signs: Integers = field(repr=False)
    height: float
    reach: float = 1.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or not 0 <= self.height <= self.share * self.reach * (1 + 1e-12):
            raise InputError("share must lie in (0, 1] and the height must be at most share · reach")

    @property
    def bayes_risk(self) -> float:
        """Mean squared error of the true mean."""
        return self.share * self.reach**2 - self.height**2

    def mean(self, features: ArrayLike) -> Floats:
        """Return the mean label given features, shape (n,)."""
        return np.asarray(self.height * self.signs[self.cubes.index(features)], dtype=np.float64)

    def draw(self, records: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw features, shape (n, d), and labels in {-T, 0, T}, shape (n,)."""
        features, cubes = self.cubes.draw(records, rng)
        words = rng.random(cubes.size)
        above = 0.5 * (self.share + self.height / self.reach * self.signs[cubes])
        return features, self.reach * ((words < above) - 1.0 * ((words >= above) & (words < self.share)))

    def excess_at(self, features: ArrayLike, predictions: ArrayLike) -> Floats:
        return np.asarray((np.asarray(predictions, dtype=float) - self.mean(features)) ** 2)


def hard_classes(
    per_axis: int,
    *,
    dimension: int,
    beta: float = 1.0,
    margin: float = 0.0,
    classes: int = 2,
    amplitude: float = 1.0,
    rng: np.random.Generator,
) -> HardClasses:
    """Return the instance of M^(d - γβ) bumps of height `amplitude` · M^-β among M^d cubes.

    Every class probability is β-Hölder with the constant 2^β · amplitude, and the margin condition holds with
    C = 2 amplitude^-γ; both do not depend on M, nor on K.

    Args:
        per_axis: M, or 1/h; `critical_cells` finds the one that is hardest for N records.
        dimension: d.
        beta: Hölder smoothness, in (0, 1].
        margin: Tsybakov's γ; margin · beta at most d.
        classes: K.
        amplitude: of the bumps, at most M^β.
        rng: numpy generator of cubes and winners: they are made up.

    Source: Zhao, eq. (46) and (47).
    """
    cubes = Cubes(per_axis, dimension)
    height = _height(per_axis, beta, margin, dimension, amplitude)
    size = check_integer(classes, "classes", 2)
    bumps = max(1, round(per_axis ** (dimension - margin * beta)))
    winners = np.full(cubes.count, -1, dtype=np.int64)
    winners[rng.permutation(cubes.count)[:bumps]] = rng.integers(0, size, bumps)
    return HardClasses(cubes, winners, height, size)


def hard_values(
    per_axis: int, *, dimension: int, beta: float = 1.0, amplitude: float = 1.0, rng: np.random.Generator
) -> HardValues:
    """Return the instance of bounded regression: labels 1 or -1 with mean `amplitude` · M^-β and a sign for each cube.

    The mean is β-Hölder with the constant 2^(1+β) · amplitude.

    Args:
        per_axis: M, or 1/h.
        dimension: d.
        beta: Hölder smoothness, in (0, 1].
        amplitude: of the bumps, at most M^β.
        rng: numpy generator of the signs: they are made up.

    Source: Zhao, eq. (131).
    """
    cubes = Cubes(per_axis, dimension)
    return HardValues(cubes, _signs(cubes, rng), _height(per_axis, beta, 0.0, dimension, amplitude))


def heavy_values(
    per_axis: int,
    *,
    dimension: int,
    beta: float = 1.0,
    moments: float = 2.0,
    bound: float = 1.0,
    amplitude: float = 1.0,
    rng: np.random.Generator,
) -> HardValues:
    """Return the instance of heavy tails: labels T, 0 or -T with E|label|^p = `bound`; T grows as the bumps shrink.

    T = (bound / (2 height))^(1/(p - 1)), or bound^(1/p) where that is more: else P(label is not 0) would exceed 1.

    Args:
        per_axis: M, or 1/h.
        dimension: d.
        beta: Hölder smoothness, in (0, 1].
        moments: p, at least 2.
        bound: M_p.
        amplitude: of the bumps, at most M^β; the height at most bound^(1/p).
        rng: numpy generator of the signs: they are made up.

    Source: Zhao, eq. (166) and (169).
    """
    cubes = Cubes(per_axis, dimension)
    order, limit = check_positive(moments, "moments"), check_positive(bound, "bound")
    if order < 2:
        raise InputError("moments must be at least 2")
    height = _height(per_axis, beta, 0.0, dimension, amplitude)
    reach = max((limit / (2 * height)) ** (1 / (order - 1)), limit ** (1 / order))
    return HardValues(cubes, _signs(cubes, rng), height, reach, min(1.0, limit * reach**-order))


def critical_cells(*, constant: float = 1.0, **setting: Any) -> int:
    """Return the hardest number of cubes along each axis for a number of records: their side is near `critical_side`.

    To measure a slope, use it for the most records, and find the records of fewer cubes by `critical_records`:
    rounding to whole cubes bends lines.

    Args:
        constant: multiplies the side; larger bumps are easier to learn.
        setting: the arguments of `critical_side`.

    Source: Zhao, eq. (59), (111), (138), (172) and (198).
    """
    return max(1, round(1 / (check_positive(constant, "constant") * critical_side(**setting))))


def _height(per_axis: int, beta: Any, margin: Any, dimension: int, amplitude: Any) -> float:
    """Return the height of the bumps, after checking that it is at most 1."""
    check_nonnegative(margin, "margin")
    height = check_positive(amplitude, "amplitude") * per_axis ** -check_smoothness(beta, margin, dimension)
    if height > 1:
        raise InputError("amplitude must be at most per_axis^beta: bumps are no higher than 1")
    return float(height)


def _signs(cubes: Cubes, rng: np.random.Generator) -> Integers:
    """Draw a random sign for each cube."""
    return 2 * rng.integers(0, 2, cubes.count) - 1
