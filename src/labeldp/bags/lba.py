"""Sums of features and labels with secret random weights: `WeightedLBA` and its accounting."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from labeldp.bags.base import Bagged, ReleasedSums
from labeldp.bags.losses import ENDS, MAX_BAG, HiddenWeights
from labeldp.mechanisms import Domain, Groups, PublicInput, public_value, real_matrix
from labeldp.privacy import (
    UNTIL_MADE,
    Floats,
    InputError,
    Integers,
    Largest,
    PrivacyLoss,
    Public,
    RandomSource,
    check_choice,
    check_delta,
    check_epsilon,
    check_integer,
    decimal,
    decimal_text,
    exact_positive,
    float_above,
    label_width,
    set_fields,
    smallest_below,
)
from labeldp.sampling import MIN_RATE, NORMAL_ERROR, WordStream, discrete_laplace, normals

MAX_ROWS = 1 << 20

DITHER = MIN_RATE
"""Rate of the integer noise on every released sum: it hides the difference between doubles and real numbers."""

MIN_STEP, MAX_STEP = 2.0**-40, 2.0**-34
"""A grid step in standard deviations of a sum; the integer noise is 2**32.5 steps."""

RECORDS_AT_ONCE = 512
"""Records that are summed at once: few, since each sum adds to the error."""

_NUMBERS_AT_ONCE = 1 << 16

LONGEST = 20
"""By so much the length of secret weights exceeds the root of their number, at most: no error of sums of longer ones is
proved, but their probability, e^-200, matters at no epsilon up to 100."""

MAX_STRETCH = 2.0**40
"""A larger variance beside one leaves no privacy, and is not told apart in doubles the other way round."""

_UP = 1 + 2.0**-45

MAX_HAT_MATRIX = 2048
"""Hat matrices of larger bags are not formed: a bound stands for the sums of their rows."""

MAX_FEATURE = 1e100
"""No feature is larger."""

_NEGLIGIBLE = 2.0**-46
"""Columns have unit length; a direction in which they are shorter than this is left out, and counts as lost."""

_MAX_ERROR = 2.0**-36
"""So far from the identity, in norm, the products of basis vectors may be; the margins of leverages cover it."""

_LEVERAGE_MARGIN = 1 + 2.0**-30


@dataclass(frozen=True)
class HiddenBag:
    """A bag released as sums of features and labels with the same secret standard normal weights.

    Labels are centered on the middle of their range before they are summed.

    Args:
        residual_square: a floor of |y - (its projection on the features)|^2 in the bag, for the data and for every
            neighbor. Noise of variance s^2 on the released sum of labels adds s^2 to it; without such noise it is a
            condition that nobody has checked.
        leverage: the largest diagonal entry of the bag's hat matrix.
        cross: the largest sum of the other entries of one row, in absolute values; see `cross_bound`.
        label_range: the lowest and the highest label.
        rows: independent weight vectors for the same bag.

    Guarantee (loss): a label of such a bag is promised at least the loss, as long as the residual stands above its
        floor.

    Raises:
        InputError: a parameter out of range.

    Source: Brahmbhatt, Fig. 1. Proof: `docs/proofs/bags.md`.
    """

    residual_square: Any
    _: KW_ONLY
    leverage: Any
    cross: Any
    label_range: Any
    rows: int = 1

    def __post_init__(self) -> None:
        exact_positive(self.residual_square, "residual_square")
        _share(self.leverage)
        if decimal(self.cross, "cross") < 0:
            raise InputError("must not be negative: it is a sum of absolute values", argument="cross")
        label_width(self.label_range)
        set_fields(self, rows=check_integer(self.rows, "rows", high=MAX_BAG))
        if self._stretch_and_shrink[0] > MAX_STRETCH:
            raise InputError("is so small that the released sums give the label away", argument="residual_square")

    def to_json(self) -> dict[str, Any]:
        """Return the fields as values of JSON."""
        numbers = {name: float(getattr(self, name)) for name in ("residual_square", "leverage", "cross")}
        return {**numbers, "label_range": [float(end) for end in self.label_range], "rows": self.rows}

    @property
    def _residual(self) -> float:
        """The floor of the residual in units of half the label range, squared, rounded down."""
        half = label_width(self.label_range) / 2
        return float(exact_positive(self.residual_square, "residual_square") / half**2) / _UP

    def weights(self) -> HiddenWeights:
        """Return the pair of normal laws that dominates every move of a label from a smaller to a larger residual.

        Source: `docs/proofs/bags.md`, equations (5) and (6).
        """
        return HiddenWeights(*self._stretch_and_shrink, self.rows)

    @property
    def _stretch_and_shrink(self) -> tuple[float, float]:
        """How much the larger eigenvalue exceeds one, and how much the smaller one falls short of one, rounded up."""
        cross = float(decimal(self.cross, "cross")) * _UP
        growth = (4 * cross if cross > 1 else (1 + cross) ** 2) / self._residual
        square = 4 * float(_share(self.leverage)) / self._residual * _UP
        total = square + growth
        stretch = (total + math.sqrt(total**2 + 4 * square)) / 2
        shrink = 2 * math.sqrt(square) / (math.sqrt(square) + math.sqrt(square + 4))
        return stretch * _UP, max(shrink * _UP, 2.0**-40)

    def privacy_loss(self) -> PrivacyLoss:
        """Return what one release costs a label in the bag, on condition of the residual."""
        return PrivacyLoss.curve(Largest((self.weights(), self.weights().reversed())))


@dataclass(frozen=True)
class Leverages:
    """The largest of all bags, rounded up to 24 bits.

    Args:
        largest: diagonal entry of a hat matrix.
        cross: sum of the other entries of a row, in absolute values.
        full: whether the features of some bag span all its records, so that no residual is left.
        lost: how far a column may lie outside of the span whose hat matrix it is, as a share of its length.
    """

    largest: float
    cross: float
    full: bool
    lost: float

    @classmethod
    def of(cls, table: Floats, partition: Groups) -> "Leverages":
        """From the rows (n, d) of all bags."""
        order = np.argsort(partition.of_record, kind="stable")
        sizes = np.bincount(partition.of_record, minlength=partition.count)
        largest, cross, full, lost = 0.0, 0.0, False, 0.0
        for rows in np.split(order, np.cumsum(sizes)[:-1]):
            basis, outside = span(table[rows])
            shares = (basis**2).sum(axis=1)
            share = min(1.0, float(shares.max(initial=0.0)) * _LEVERAGE_MARGIN + 2.0**-40)
            largest, full = max(largest, share), full or basis.shape[1] >= len(rows)
            cross, lost = max(cross, _row_sum(basis, shares, share)), max(lost, outside)
        return cls(_coarsely_up(largest), _coarsely_up(cross), full, lost)


@final
@dataclass(frozen=True)
class WeightedLBA(Bagged):
    """Weighted sums of features and labels of each bag, with secret normal weights that are discarded.

    Labels are centered on the middle of their range. Noise on each released sum of labels makes the guarantee hold for
    all labels, as if each bag held one more record without features. One bag of all records with many rows is the
    Gaussian sketch. Output perturbation (`fit_linear`) learns more from the same labels at the same guarantee.

    Args:
        domain, size, bags, features, seed: as in `Bagged`; bags are random by default, and features must be given.
        rows: independent weighted sums of each bag.
        bag_noise: standard deviation of the noise on each sum of labels, in their unit; "auto": as little as
            (epsilon, delta) needs.
        epsilon, delta: only with "auto".
        assumed_residual_square: with a `bag_noise` that may be 0, what the squared distance of the labels of every
            bag from the nearest linear function of the features is assumed to be at least.
        weights: always rejected: they are drawn and discarded.

    Guarantee (approximate, condition): that of `HiddenBag` with a residual of the square of the noise, whatever the
        labels are; with an assumed residual only on condition that it holds, which nobody has checked.

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

    contract: ClassVar[str] = "labeldp.testing.checks:check_hidden"
    plain: ClassVar[tuple[str, ...]] = ("size", "rows", "bag_noise", "epsilon", "delta")
    rows: int = 1
    bag_noise: Any = "auto"
    sums_features: ClassVar[bool] = True
    _: KW_ONLY
    bags: InitVar[Any] = "random"
    epsilon: float | None = None
    delta: float | None = None
    assumed_residual_square: float = 0.0
    weights: InitVar[Any] = None
    table: Floats = field(init=False, repr=False, compare=False)
    digest: str = field(init=False, default=UNTIL_MADE)
    leverages: Leverages = field(init=False, repr=False, compare=False)
    residual_square: float = field(init=False, repr=False, compare=False)
    units: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self, bags: Any, features: Any, seed: int, weights: Any) -> None:
        if weights is not None:
            raise InputError("of WeightedLBA are secret: with the sums they reveal the labels", argument="weights")
        super().__post_init__(bags, features, seed)
        set_fields(self, rows=check_integer(self.rows, "rows", high=MAX_ROWS))
        table = finite_rows(features, self.records)
        digest = hashlib.sha256(repr(table.shape).encode() + table.tobytes()).hexdigest()
        set_fields(self, table=table, digest=digest, leverages=Leverages.of(table, self.partition))
        if isinstance(features, Public):
            set_fields(self, public_inputs=(*self.public_inputs, PublicInput.of(features, "features")))
        for name in ("epsilon", "delta", "bag_noise", "assumed_residual_square"):
            set_fields(self, **{name: _number(getattr(self, name), name)})
        if self.bag_noise == "auto":
            self._check_auto()
        else:
            self._check_given()
        set_fields(self, residual_square=self._residual_square())
        set_fields(self, units=self._units())

    @classmethod
    def calibrated(cls, size: int, *, epsilon: Any, delta: Any, **arguments: Any) -> Self:
        return cls(size, epsilon=epsilon, delta=delta, **arguments)

    def _check_auto(self) -> None:
        if self.epsilon is None or self.delta is None or self.assumed_residual_square:
            raise InputError(
                'must be given with bag_noise="auto", and no assumed_residual_square', argument=("epsilon", "delta")
            )
        exact_positive(check_epsilon(self.epsilon), "epsilon")
        check_delta(self.delta)

    def _check_given(self) -> None:
        if self.epsilon is not None or self.delta is not None:
            raise InputError('are for bag_noise="auto": a given noise decides them', argument=("epsilon", "delta"))
        if not (self.bag_noise or self.assumed_residual_square):
            raise InputError(
                "bag_noise must be positive: without noise the guarantee rests on a residual that no one can check; "
                "assumed_residual_square states it as a condition"
            )
        if self.assumed_residual_square and self.leverages.full:
            raise InputError(
                "must exceed the rank of the features in every bag, or bag_noise be positive and nothing assumed: "
                "there the weighted sums of features give the weights away, and no residual is left",
                argument="size",
            )
        largest = int(self.sizes.min()) * (self.width / 2) ** 2
        if decimal(self.assumed_residual_square, "assumed_residual_square") > largest:
            raise InputError(
                f"assumed_residual_square must be at most {decimal_text(float_above(largest))}, size times the square "
                "of half the range: no labels of this range lie further from zero, and none can satisfy it"
            )

    def _residual_square(self) -> float:
        """Return the floor of the squared residual: what noise adds to every bag, and what is assumed."""
        if self.bag_noise != "auto":
            return float(decimal(self.bag_noise, "bag_noise") ** 2 + decimal(self.assumed_residual_square, "assumed"))
        remainder = check_delta(self.delta) - float(self.failure)
        if remainder <= 0:
            raise InputError(
                f"must be above {float(self.failure):.3g} here: so much do sums in doubles add", argument="delta"
            )
        return lba_required_residual(epsilon=self.epsilon, delta=remainder, rows=self.rows, **self._design)

    @property
    def _design(self) -> dict[str, Any]:
        leverages = self.leverages
        ends = (self.domain.low_exact, self.domain.low_exact + self.width)
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
        """Return the loss of the worst bag in real numbers, plus a small failure for the rounding of doubles."""
        return self.law.privacy_loss() + PrivacyLoss.failure(self.failure)

    @property
    def failure(self) -> Fraction:
        """What sums in doubles add to delta. Source: `docs/proofs/bags.md`, computation, equation (2)."""
        return self.rows * (self.table.shape[1] + 1) * (DITHER + Fraction(1, 1 << 50))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That bags and features were public; where a residual is assumed, that it is so large."""
        public = super().assumptions
        if not self.assumed_residual_square:
            return public
        floor = decimal_text(self.assumed_residual_square)
        return (
            *public,
            f"in every bag the labels, also after one of them changes, have a squared distance of at least {floor} "
            "from the nearest linear function of the features (UNCHECKED: a check would cost privacy; if it fails, a "
            "label of that bag can be revealed)",
        )

    def parameters(self) -> dict[str, Any]:
        budget = {
            "epsilon": None if self.epsilon is None else str(decimal(self.epsilon, "epsilon")),
            "delta": None if self.delta is None else str(decimal(self.delta, "delta")),
            "bag_noise": self.noise_stddev.hex(),
            "assumed_residual_square": str(decimal(self.assumed_residual_square, "assumed_residual_square")),
        }
        return {**super().parameters(), "features": self.digest, "rows": self.rows, **budget}

    @property
    def published(self) -> str:
        return (
            f"{self.rows} weighted sums of features and labels for each of {self.partition.count:,} public bags (the "
            "weights stay secret and are deleted)"
        )

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {**super().packed(), "features": self.table}

    def _units(self) -> Floats:
        """Return the grid of the released sums, shape (d + 1,): the features first, then the labels. Public."""
        of_record, count = self.partition.of_record, self.partition.count
        squares = [np.bincount(of_record, weights=column**2, minlength=count).max() for column in self.table.T]
        spreads = np.sqrt(np.append(np.where(np.array(squares) > 0, squares, 1.0), self.residual_square))
        size = int(self.sizes.max())
        exact = (
            NORMAL_ERROR
            + self.leverages.lost
            + (RECORDS_AT_ONCE + size / RECORDS_AT_ONCE + 4) * float(np.finfo(np.longdouble).eps)
        )
        errors = np.full(len(spreads), (math.sqrt(size) + LONGEST) * exact)
        errors[-1] = errors[-1] * math.sqrt(size) * float(self.width / 2) / spreads[-1] + LONGEST * NORMAL_ERROR
        if errors.max() > MAX_STEP:
            raise InputError("is too large for sums in doubles: take smaller bags", argument="size")
        return np.asarray(2.0 ** np.ceil(np.log2(np.maximum(errors, MIN_STEP) * spreads)), dtype=np.float64)

    def released_sums(self, value: Any) -> ReleasedSums:
        numbers = np.asarray(value) * self.units
        sizes, stddevs = np.repeat(self.sizes.astype(np.float64), self.rows), np.full(len(numbers), self.noise_stddev)
        return ReleasedSums(self.domain, self.records, sizes, numbers[:, -1], stddevs, features=numbers[:, :-1])

    def column_names(self, record: str, features: Sequence[str]) -> tuple[str, ...]:
        return ("bag", "records", "constant", *features)

    def column_values(self, value: Any, names: Any, places: NDArray[np.intp]) -> list[Any]:
        """Return the columns of a table with a row for each weighted sum; it names no record."""
        content, bags = self.released_sums(value), np.repeat(np.arange(self.partition.count), self.rows)
        return [bags, self.sizes[bags], *np.asarray(content.features).T, content.sums]

    @classmethod
    def read_columns(
        cls, names: Sequence[str], column: Callable[[str], Floats], sums: str, spec: Mapping[str, Any]
    ) -> ReleasedSums:
        sizes, labels = column("records"), column(sums)
        features = np.column_stack([column(name) for name in names if name not in ("bag", "records", sums)])
        spread = np.full(len(labels), float.fromhex(spec["bag_noise"]))
        records = int(sizes.sum()) // spec["rows"]
        return ReleasedSums(Domain.from_json(spec["domain"]), records, sizes, labels, spread, features=features)

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> Integers:
        """Return weighted sums in steps of `units`, shape (bags * rows, d + 1), all rows of a bag together."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        bound, bags = self.bound(rng), self.partition.count
        weights, noise = (bound.bind(name) for name in (b"weights", b"noise"))
        stream = WordStream(weights, weights.record_ids(None, len(codes)))
        added = WordStream(noise, noise.record_ids(None, bags))
        middle: Floats = float(self.domain.step_exact) * (codes.astype(np.float64) - (self.domain.size - 1) / 2)
        released = np.empty((bags, self.rows, self.table.shape[1] + 1), dtype=np.int64)
        for row in range(self.rows):
            sums = self._weighted(normals(stream), middle)
            sums[:, -1] += self.noise_stddev * normals(added)
            released[:, row] = np.rint(sums / self.units)
        dither = bound.bind(b"dither")
        steps = discrete_laplace(WordStream(dither, dither.record_ids(None, released.size)), DITHER)
        return (released.ravel() + steps).reshape(bags * self.rows, -1)

    def _weighted(self, weights: Floats, middle: Floats) -> NDArray[np.longdouble]:
        """Return the sums of one row, with secret weights, shape (bags, d + 1). They are private."""
        order = np.argsort(self.partition.of_record, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        sums = np.empty((len(starts), self.table.shape[1] + 1), dtype=np.longdouble)
        step = max(1, _NUMBERS_AT_ONCE // int(self.sizes.max()))
        for first in range(0, len(starts), step):
            part = slice(starts[first], starts[first + step] if first + step < len(starts) else None)
            rows = order[part]
            block = np.column_stack([self.table[rows], middle[rows]]).astype(np.longdouble)
            sums[first : first + step] = _sums(
                block * weights[rows, None], starts[first : first + step] - starts[first]
            )
        return sums

    def __str__(self) -> str:
        text = f"WeightedLBA of {self.size} records with noise of stddev {self.noise_stddev:.6g} on each sum of labels"
        if self.epsilon is not None and self.delta is not None:
            text += f" for epsilon = {decimal_text(self.epsilon)}, delta = {decimal_text(self.delta)}"
        if self.assumed_residual_square:
            text += f" and an assumed squared residual of {decimal_text(self.assumed_residual_square)}"
        return text


def _number(value: Any, name: str) -> Any:
    """Return a number of at least 0 as a float; return None and "auto" unchanged.

    Raises:
        InputError: anything else.
    """
    if value is None or (name == "bag_noise" and value == "auto"):
        return value
    exact = decimal(value, name)
    if exact < 0:
        raise InputError("must not be negative", argument=name)
    return float(exact)


def _sums(block: NDArray[np.longdouble], starts: NDArray[np.int64]) -> NDArray[np.longdouble]:
    """Return sums of the rows from each start to the next, by pieces, shape (len(starts), d)."""
    ends = np.append(starts[1:], len(block))
    pieces = -(-(ends - starts) // RECORDS_AT_ONCE)
    firsts = np.cumsum(pieces) - pieces
    places = np.repeat(starts - RECORDS_AT_ONCE * firsts, pieces) + RECORDS_AT_ONCE * np.arange(pieces.sum())
    return np.add.reduceat(np.add.reduceat(block, places), firsts)


def cross_bound(size: int, leverage: Any) -> float:
    """Return the largest absolute sum of the other entries of a row of a hat matrix, given its diagonal one.

    Args:
        size: labels in the bag.
        leverage: the diagonal entry, in [0, 1]. To cover every row of a bag, the largest one, or 1/2 if that is less.

    The true sum is often a fifth smaller. Source: `docs/proofs/bags.md`, by the Cauchy-Schwarz inequality.
    """
    size = check_integer(size, "size", high=1 << 50)
    share = _share(leverage)
    return math.sqrt(share * (1 - share) * (size - 1)) * _UP


def _share(leverage: Any) -> Fraction:
    exact = decimal(leverage, "leverage")
    if not 0 <= exact <= 1:
        raise InputError("must lie in [0, 1]: it is a diagonal entry of the bag's hat matrix", argument="leverage")
    return exact


def lba_delta(bag: HiddenBag, epsilon: Any, *, end: str = "upper") -> float:
    """Return the delta of one release at `epsilon`, for the worst label and neighbor that `bag` admits.

    Args:
        epsilon: in [0, 10**6]; from 100 on the upper end stays the same.
        end: "upper", or "lower" for the lower end around the same dominating pair of laws, which no data need reach.

    Guarantee (enclosed): the upper end is never below the delta of any two neighbors that the bag admits.

    Source: Brahmbhatt, Fig. 1; `docs/proofs/bags.md`, where the paper has a bound.

    Examples:
        >>> bag = HiddenBag(143.4, leverage=15 / 16384, cross=cross_bound(16384, 15 / 16384), label_range=(-1, 1))
        >>> 0.9e-6 < lba_delta(bag, 1) < 1e-6
        True
    """
    check_choice(end, "end", ENDS)
    return _read(bag, check_epsilon(epsilon), ENDS.index(end))


def _read(bag: HiddenBag, epsilon: float, end: int = 1) -> float:
    pair = bag.weights()
    return max(float(loss.ends(np.array([epsilon]))[end][0]) for loss in (pair, pair.reversed()))


def lba_required_residual(
    *, epsilon: Any, delta: Any, leverage: Any, cross: Any, label_range: Any, rows: int = 1
) -> float:
    """Return the smallest floor of the squared residual that keeps (epsilon, delta).

    It is the variance of noise on a bag that needs no condition.

    Args:
        epsilon, delta: the guarantee; delta in (0, 1).
        leverage, cross, label_range, rows: as in `HiddenBag`.

    Guarantee (kept): a bag with this residual keeps (epsilon, delta).

    Source: `docs/proofs/bags.md`: noise on the sum is one more label with no features.
    """
    aim, at = check_delta(delta), check_epsilon(epsilon)

    def bag(residual: float) -> HiddenBag:
        return HiddenBag(residual, leverage=leverage, cross=cross, label_range=label_range, rows=rows)

    unit = float(label_width(label_range) / 2) ** 2 * (1 + float(decimal(cross, "cross")))
    share_of_unit = smallest_below(lambda share: _read(bag(share * unit), at), aim, 1e-9, 1e15)
    if share_of_unit is None:
        raise InputError(f"no residual keeps epsilon = {epsilon} and delta = {delta}: take larger ones")
    return share_of_unit * unit


def _coarsely_up(number: float) -> float:
    """Return a number of 24 bits that is no smaller.

    The last bits of a matrix product depend on the processor and on where its arrays lie in memory; what a release
    costs must not.
    """
    share, exponent = math.frexp(number)
    return math.ldexp(math.ceil(math.ldexp(share, 24)), exponent - 24)


def _row_sum(basis: Floats, shares: Floats, largest: float) -> float:
    """Return the largest sum of the other entries of a row."""
    size = len(basis)
    if size > MAX_HAT_MATRIX:
        # h (1 - h) is largest at 1/2.
        return cross_bound(size, min(largest, 0.5))
    return float((np.abs(basis @ basis.T).sum(axis=1) - shares).max(initial=0.0)) * _LEVERAGE_MARGIN + 2.0**-30


def span(rows: Floats) -> tuple[Floats, float]:
    """Return an orthonormal basis of the columns of a matrix (k, d), whatever their units are, and how much it misses.

    Returns:
        The basis, shape (k, rank), and twice the largest share of a column's length that lies outside of it.
    """
    lengths = np.sqrt((rows**2).sum(axis=0))
    columns = rows / np.where(lengths > 0, lengths, 1.0)
    left, sizes, right = np.linalg.svd(columns, full_matrices=False)
    significant = sizes > _NEGLIGIBLE
    # Combinations of the columns themselves lie in their span to the last bit, unless they nearly cancel.
    basis: Floats = (columns.astype(np.longdouble) @ (right[significant].T / sizes[significant])).astype(np.float64)
    if np.abs(basis.T @ basis - np.eye(basis.shape[1])).max(initial=0.0) * len(basis.T) > _MAX_ERROR:
        basis = left[:, significant]
    return basis, 2 * math.sqrt((_outside(columns, basis) ** 2).sum(axis=0).max())


def _outside(columns: Floats, basis: Floats) -> Floats:
    """Return what is left of the columns (k, d) after the nearest combinations of a basis (k, rank).

    The first difference is of nearly equal numbers, so it is taken in extended precision.
    """
    inside = (basis.T @ columns).astype(np.longdouble)
    remainder: Floats = (columns.astype(np.longdouble) - basis.astype(np.longdouble) @ inside).astype(np.float64)
    return remainder - basis @ (basis.T @ remainder)


def finite_rows(features: Any, records: int) -> Floats:
    """Return a finite public row for each record, not to be written to.

    Raises:
        InputError: anything else.
    """
    problem = "features must be a finite array, shape (n, d), one row for each record: fill gaps first"
    table = np.array(real_matrix(public_value(features, "features"), problem), order="C")
    if len(table) != records or not np.isfinite(table).all():
        raise InputError(problem)
    if np.abs(table).max(initial=0.0) > MAX_FEATURE:
        raise InputError(f"features must be at most {MAX_FEATURE:g}: their squares are summed")
    table.flags.writeable = False
    return table
