"""Bag sums of features and labels with the same secret normal weights."""

import hashlib
import math
from dataclasses import KW_ONLY, InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.aggregation.checks import at_epsilon, positive, target, whole
from labeldp.mechanisms.aggregation.lba import HiddenBag, lba_required_residual
from labeldp.mechanisms.bagging.bags import Bagged
from labeldp.mechanisms.bagging.coins import NORMAL_ERROR, normals
from labeldp.mechanisms.bagging.leverage import Leverages, finite_rows
from labeldp.mechanisms.coins import MIN_RATE, Integers, WordStream, discrete_laplace
from labeldp.privacy import InputError, PrivacyLoss, all_digits, decimal, shortest_float

Floats = NDArray[np.float64]

MAX_ROWS = 1 << 20

DITHER = MIN_RATE
"""Rate of the integer noise on every released sum: it hides the difference between doubles and real numbers."""

FINEST, COARSEST = 2.0**-40, 2.0**-34
"""A grid step in standard deviations of a sum; the integer noise is 2**32.5 steps."""

PIECE = 512
"""Records that are summed at once: few, since each sum adds to the error."""

_CHUNK = 1 << 16


@final
@dataclass(frozen=True)
class WeightedLBA(Bagged):
    """Weighted sums of features and labels of each bag: the weights are normal, secret, and thrown away.

    Labels are centered on the middle of their range. Noise on each released sum of labels makes the promise hold for
    all labels, as if each bag held one more record without features. One bag of all records with many rows is the
    Gaussian sketch. Output perturbation (`fit_linear`) learns more from the same labels at the same promise.

    Args:
        domain, size, bags, features, seed: as in `Bagged`; bags are random by default, and features must be given.
        rows: independent weighted sums of each bag.
        bag_noise: standard deviation of the noise on each sum of labels, in their unit; "auto": as little as
            (epsilon, delta) needs.
        epsilon, delta: what "auto" keeps; not to be given otherwise.
        assumed_residual_square: with a `bag_noise` that may be 0, what the squared distance of the labels of every
            bag from the nearest linear function of the features is assumed to be at least.
        weights: not to be given; they are drawn and thrown away.

    Guarantee: that of `HiddenBag` with a residual of the square of the noise, whatever the labels are; with an assumed
    residual only on condition that it holds, which nobody has checked.

    Raises:
        InputError: bags that overlap or are smaller than asked; neither noise nor an assumed residual; a bag with as
            many independent features as records and no noise; an assumed residual that no labels have; weights; or a
            parameter out of range.

    Source: Brahmbhatt, Fig. 1. Proof: `docs/proofs/bags.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> from labeldp.privacy import Public
        >>> rows = Public(np.random.default_rng(0).normal(size=(2000, 3)), why="made up")
        >>> lba = WeightedLBA(500, domain=Interval(-1, 1), features=rows, epsilon=1, delta=1e-6)
        >>> 9 < lba.noise_stddev < 13
        True
    """

    rows: int = 1
    bag_noise: Any = "auto"
    _: KW_ONLY
    bags: InitVar[Any] = "random"
    epsilon: float | None = None
    delta: float | None = None
    assumed_residual_square: float = 0.0
    weights: InitVar[Any] = None
    table: Floats = field(init=False, repr=False, compare=False)
    digest: str = field(init=False)
    why_features: str = field(init=False, compare=False)

    def __post_init__(self, bags: Any, features: Any, seed: int, weights: Any) -> None:
        if weights is not None:
            raise InputError("weights of WeightedLBA are secret: published beside the sums they give the labels away")
        super().__post_init__(bags, features, seed)
        whole(self.rows, "rows", MAX_ROWS)
        table = finite_rows(features, self.records)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "why_features", getattr(features, "why", ""))
        object.__setattr__(self, "digest", hashlib.sha256(repr(table.shape).encode() + table.tobytes()).hexdigest())
        for name in ("epsilon", "delta", "bag_noise", "assumed_residual_square"):
            object.__setattr__(self, name, _number(getattr(self, name), name))
        if self.bag_noise == "auto":
            self._check_auto()
        else:
            self._check_given()
        self.units  # refuses what does not fit  # noqa: B018

    def _check_auto(self) -> None:
        if self.epsilon is None or self.delta is None or self.assumed_residual_square:
            raise InputError('epsilon and delta must be given with bag_noise="auto", and no assumed_residual_square')
        positive(at_epsilon(self.epsilon), "epsilon")
        target(self.delta)

    def _check_given(self) -> None:
        if self.epsilon is not None or self.delta is not None:
            raise InputError('epsilon and delta are for bag_noise="auto": a given noise decides them')
        if not (self.bag_noise or self.assumed_residual_square):
            raise InputError(
                "bag_noise must be positive: without noise the promise rests on a residual that nobody may check; "
                "assumed_residual_square states it as a condition"
            )
        if self.assumed_residual_square and self.leverages.full:
            raise InputError(
                "size must exceed the rank of the features in every bag, or bag_noise be positive and nothing assumed: "
                "there the weighted sums of features give the weights away, and no residual is left"
            )
        largest = int(self.sizes.min()) * (self.width / 2) ** 2
        if decimal(self.assumed_residual_square, "assumed_residual_square") > largest:
            raise InputError(
                f"assumed_residual_square must be at most {all_digits(shortest_float(largest))}, size times the square "
                "of half the range: no labels of this range lie further from zero, and none can satisfy it"
            )

    @cached_property
    def leverages(self) -> Leverages:
        """What the features of the bags promise, without a look at labels."""
        return Leverages.of(self.table, self.partition)

    @cached_property
    def residual_square(self) -> float:
        """The floor of the squared residual: what noise adds to every bag, and what is assumed."""
        if self.bag_noise != "auto":
            return float(decimal(self.bag_noise, "bag_noise") ** 2 + decimal(self.assumed_residual_square, "assumed"))
        rest = target(self.delta) - float(self.failure)
        if rest <= 0:
            raise InputError(f"delta must be above {float(self.failure):.3g} here: so much do sums in doubles add")
        return lba_required_residual(epsilon=self.epsilon, delta=rest, rows=self.rows, **self._design)

    @property
    def _design(self) -> dict[str, Any]:
        leverages = self.leverages
        ends = (self.low, self.low + self.width)
        return {"leverage": leverages.largest, "cross": leverages.cross, "label_range": ends}

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on each released sum of labels, in their unit."""
        return math.sqrt(self.residual_square) if self.bag_noise == "auto" else float(self.bag_noise)

    @property
    def law(self) -> HiddenBag:
        """The worst bag in real numbers."""
        return HiddenBag(self.residual_square, rows=self.rows, **self._design)

    def privacy_loss(self) -> PrivacyLoss:
        """That of the worst bag in real numbers, and a small failure that stands for doubles."""
        return self.law.privacy_loss() + PrivacyLoss.failure(self.failure)

    @property
    def failure(self) -> Fraction:
        """What sums in doubles add to delta, at every epsilon. Source: `docs/proofs/bags.md`, equation (2)."""
        return self.rows * (self.table.shape[1] + 1) * (DITHER + Fraction(1, 1 << 50))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That bags and features were public; where a residual is assumed, that it is so large."""
        why = f"the features do not depend on the private labels ({self.why_features})"
        public = (*super().assumptions, *([why] if self.why_features else []))
        if not self.assumed_residual_square:
            return public
        floor = all_digits(self.assumed_residual_square)
        return (
            *public,
            f"in every bag the labels, and those of every neighbor, have a squared distance of at least {floor} from "
            "the nearest linear function of the features: nobody has checked this, a check would cost privacy, and "
            "where it fails a label of that bag may be revealed",
        )

    def parameters(self) -> dict[str, Any]:
        """Size, bags, features, rows, and what was asked for."""
        asked = {
            "epsilon": None if self.epsilon is None else str(decimal(self.epsilon, "epsilon")),
            "delta": None if self.delta is None else str(decimal(self.delta, "delta")),
            "bag_noise": self.noise_stddev.hex(),
            "assumed_residual_square": str(decimal(self.assumed_residual_square, "assumed_residual_square")),
        }
        return {**super().parameters(), "features": self.digest, "rows": self.rows, **asked}

    @property
    def published(self) -> str:
        """What leaves, in words; not the weights."""
        return (
            f"weighted sums of features and labels, {self.rows} for each of {self.partition.count} public bags, of "
            f"{self.labels_in_words}, by {self}; the weights are secret and thrown away"
        )

    @cached_property
    def units(self) -> Floats:
        """The grid of the released sums: of each feature and, last, of the labels, shape (d + 1,). Public."""
        of_record, count = self.partition.of_record, self.partition.count
        squares = [np.bincount(of_record, weights=column**2, minlength=count).max() for column in self.table.T]
        spreads = np.sqrt(np.append(np.where(np.array(squares) > 0, squares, 1.0), self.residual_square))
        size = int(self.sizes.max())
        exact = NORMAL_ERROR + self.leverages.lost + (PIECE + size / PIECE + 4) * float(np.finfo(np.longdouble).eps)
        errors = np.full(len(spreads), (math.sqrt(size) + 12) * exact)
        errors[-1] = errors[-1] * math.sqrt(size) * float(self.width / 2) / spreads[-1] + 16 * NORMAL_ERROR
        if errors.max() > COARSEST:
            raise InputError("size is too large for sums in doubles: take smaller bags")
        return np.asarray(2.0 ** np.ceil(np.log2(np.maximum(errors, FINEST) * spreads)), dtype=np.float64)

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Integers:
        """Weighted sums in steps of `units`, shape (bags * rows, d + 1), all rows of a bag together."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        bound, bags = self.bound(rng), self.partition.count
        weights, noise = (bound.bind(name) for name in (b"weights", b"noise"))
        stream = WordStream(weights, weights.record_ids(None, len(codes)))
        added = WordStream(noise, noise.record_ids(None, bags))
        middle: Floats = float(self.step) * (codes.astype(np.float64) - (self.domain.size - 1) / 2)
        released = np.empty((bags, self.rows, self.table.shape[1] + 1), dtype=np.int64)
        for row in range(self.rows):
            sums = self._weighted(normals(stream), middle)
            sums[:, -1] += self.noise_stddev * normals(added)
            released[:, row] = np.rint(sums / self.units)
        dither = bound.bind(b"dither")
        steps = discrete_laplace(WordStream(dither, dither.record_ids(None, released.size)), DITHER)
        return (released.ravel() + steps).reshape(bags * self.rows, -1)

    def _weighted(self, weights: Floats, middle: Floats) -> NDArray[np.longdouble]:
        """The sums of one row, with secret weights, shape (bags, d + 1). They are private."""
        order = np.argsort(self.partition.of_record, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        sums = np.empty((len(starts), self.table.shape[1] + 1), dtype=np.longdouble)
        each = max(1, _CHUNK // int(self.sizes.max()))
        for first in range(0, len(starts), each):
            part = slice(starts[first], starts[first + each] if first + each < len(starts) else None)
            rows = order[part]
            block = np.column_stack([self.table[rows], middle[rows]]).astype(np.longdouble)
            sums[first : first + each] = _sums(
                block * weights[rows, None], starts[first : first + each] - starts[first]
            )
        return sums

    def opened(self, released: Any) -> tuple[Floats, Floats]:
        """Weighted sums of features (bags * rows, d) and of labels less the middle of their range (bags * rows,)."""
        values = np.asarray(released) * self.units
        return values[:, :-1], values[:, -1]

    def __str__(self) -> str:
        text = f"WeightedLBA of {self.size} records with noise of stddev {self.noise_stddev:.6g} on each sum of labels"
        if self.epsilon is not None and self.delta is not None:
            text += f" for epsilon = {all_digits(self.epsilon)}, delta = {all_digits(self.delta)}"
        if self.assumed_residual_square:
            text += f" and an assumed squared residual of {all_digits(self.assumed_residual_square)}"
        return text


def _number(value: Any, name: str) -> Any:
    """A number of at least 0 as a float; what is not given, or "auto", as it is.

    Raises:
        InputError: anything else.
    """
    if value is None or (name == "bag_noise" and value == "auto"):
        return value
    exact = decimal(value, name)
    if exact < 0:
        raise InputError(f"{name} must not be negative")
    return float(exact)


def _sums(block: NDArray[np.longdouble], starts: NDArray[np.int64]) -> NDArray[np.longdouble]:
    """Sums of the rows from each start to the next, by pieces, shape (len(starts), d)."""
    ends = np.append(starts[1:], len(block))
    pieces = -(-(ends - starts) // PIECE)
    firsts = np.cumsum(pieces) - pieces
    places = np.repeat(starts - PIECE * firsts, pieces) + PIECE * np.arange(pieces.sum())
    return np.add.reduceat(np.add.reduceat(block, places), firsts)
