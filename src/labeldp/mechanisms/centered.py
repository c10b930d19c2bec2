"""Private numbers, released as places relative to a public prediction for each record."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import (
    Debiased,
    FiniteMechanism,
    Table,
    Weights,
    check_places,
    draw_places,
    edges_of,
    refuse_large,
    words_for,
)
from labeldp.mechanisms.domains import Codes, Interval, bins_of, distance_cuts, require_domain
from labeldp.mechanisms.inputs import PublicInput, public_value
from labeldp.mechanisms.randomized_response import ResponseLaw
from labeldp.privacy import (
    WORD,
    Floats,
    Ids,
    InputError,
    NotInvertibleError,
    PrivacyLoss,
    Randomness,
    check_integer,
    positive_epsilon,
    set_fields,
)

MOST_OUTPUTS = 64


@dataclass(frozen=True, kw_only=True)
class _Located(FiniteMechanism):
    """Randomized response on where a number lies, seen from one row of integers for each record, or for all."""

    domain: Interval = field(kw_only=False)
    places: NDArray[np.int32] = field(init=False, repr=False, compare=False)
    digest: str = field(init=False, repr=False)
    law: ResponseLaw = field(init=False, repr=False, compare=False)

    def _set_places(self, values: Any, default: list[int]) -> None:
        """Check the public integers, shape (n, columns), which are grid steps in the domain or near it."""
        require_domain(self.domain, "numbers")
        places, digest, inputs = np.array([default], dtype=np.int32), "", self.public_inputs
        if values is not None:
            name, array = self.stored, np.asarray(public_value(values, self.stored))
            if array.dtype.kind not in "iu" or array.shape[1:] != (len(default),) or not len(array):
                raise InputError(f"must be integers, shape (n, {len(default)})", argument=name)
            if np.abs(array.astype(np.int64)).max() > 2 * self.domain.size:
                raise InputError("must be grid steps in the domain or near it", argument=name)
            places, inputs = array.astype(np.int32), (PublicInput.of(values, name),)
            digest = hashlib.sha256(places.astype("<i4").tobytes()).hexdigest()
        places.flags.writeable = False
        set_fields(self, places=places, digest=digest, public_inputs=inputs)

    @property
    @abstractmethod
    def _outputs(self) -> int:
        """How many outputs there are."""

    @property
    @abstractmethod
    def _rows(self) -> Weights:
        """Weights of each row of the table, shape (rows, outputs)."""

    @abstractmethod
    def _row_of(self, codes: Any, places: NDArray[np.int32]) -> NDArray[Any]:
        """Return which row of the table is the law of a label, given what is public of its record."""

    def _calibrate(self) -> None:
        """Compute the law of randomized response over the outputs."""
        set_fields(self, law=ResponseLaw.of(self._outputs, positive_epsilon(self.epsilon)))

    @property
    def records(self) -> int | None:
        return len(self.places) if self.public_inputs else None

    def privacy_loss(self) -> PrivacyLoss:
        """Return the loss of randomized response over the outputs."""
        return PrivacyLoss.response(self.epsilon, self._outputs)

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {self.stored: self.places} if self.public_inputs else {}

    def parameters(self) -> dict[str, Any]:
        return {**self.arguments(), **super().parameters(), "places": self.digest}

    def tables(self) -> list[Table]:
        if self.records is None:
            return [Table(self._law(self.places), "table")]
        kinds, kind = np.unique(self.places, axis=0, return_inverse=True)
        return [Table(self._law(row[None]), "table", np.flatnonzero(kind.ravel() == i)) for i, row in enumerate(kinds)]

    def weights(self) -> Weights:
        """Exact weights, shape (n, grid, outputs), or (grid, outputs) with one law for all records."""
        refuse_large(len(self.places) * self.domain.size * self._outputs)
        weights = np.array([self._law(row[None]) for row in self.places], dtype=object)
        return weights if self.records else weights[0]

    def _law(self, places: NDArray[np.int32]) -> Weights:
        """Return the weights for one record, shape (grid, outputs)."""
        return self._rows[self._row_of(np.arange(self.domain.size), places)]

    @cached_property
    def _edges(self) -> NDArray[np.uint64]:
        return edges_of(self._rows)

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        places = self.places[start : start + len(codes)] if self.records else self.places
        return draw_places(words_for(randomness, ids), self._edges, self._row_of(codes, places))

    def _answers(self, noisy: Any) -> NDArray[Any]:
        """Return answers, which are numbers of outputs, shape (n,)."""
        answers = check_places(noisy, self._outputs, "outputs")
        self.check_records(len(answers))
        return answers


@final
@dataclass(frozen=True, kw_only=True)
class ResponseOnPoints(_Located):
    """Randomized response over a few points of a public span, which average to the number.

    Each record has a span of the same length, in which the points are equally spaced. A number between two points is
    rounded to either at random, with itself as the mean; one outside of its span counts as the nearer end. Use it where
    a model predicts numbers closer than their range: the noise is as small as the span.

    Args:
        domain: `Interval`.
        spans: first and last point of each record, in grid steps from the low end, shape (n, 2), which may lie beyond
            the range; a `Release` or `Public(array, why="…")`. By default the range, for all records.
        points: how many, at least 2. Few are best for small epsilon: see `second_moment`.

    What is released are numbers of points, shape (n,): see `values`.

    Guarantee (pure, prior_charged): epsilon-DP for each label, exactly, for the emitted bits, given its span; what
        released spans cost stands in the certificate of the release, too.

    Raises:
        InputError: a domain without numbers, or spans of several lengths.

    Source: `docs/proofs/finite-mechanisms.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> from labeldp.privacy import Public
        >>> spans = Public(np.array([[0, 20], [40, 60]]), why="around last year's published means")
        >>> mechanism = ResponseOnPoints(domain=Interval(0, 100, grid=101), epsilon=1.0, spans=spans)
        >>> mechanism.values(np.array([0, 1])).round(1)
        array([-11.6,  71.6])
    """

    plain: ClassVar[tuple[str, ...]] = ("epsilon", "points")
    stored: ClassVar[str] = "spans"
    spans: InitVar[Any] = None
    points: int = 2

    def __post_init__(self, spans: Any) -> None:
        super().__post_init__()
        self._set_places(spans, [0, self.domain.size - 1])
        if len(np.unique(self.places @ [-1, 1])) > 1 or self.width < 1:
            raise InputError("must have one length, at least 1", argument="spans")
        check_integer(self.points, "points", 2, MOST_OUTPUTS)
        self._calibrate()

    @property
    def width(self) -> int:
        """Length of the spans, in grid steps."""
        return int(self.places[0, 1] - self.places[0, 0])

    @property
    def _outputs(self) -> int:
        return self.points

    @cached_property
    def _rows(self) -> Weights:
        width, last = self.width, self.points - 1
        offsets = np.arange(width + 1)
        below = np.minimum(offsets * last // width, last - 1)
        gap = self.law.keep - self.law.lie
        moved = np.array([gap * left // width for left in (offsets * last - below * width).tolist()], dtype=object)
        rows = np.full((width + 1, self.points), self.law.lie, dtype=object)
        rows[offsets, below] = self.law.keep - moved
        rows[offsets, below + 1] += moved
        return rows

    def _row_of(self, codes: Any, places: NDArray[np.int32]) -> NDArray[Any]:
        return np.clip(np.asarray(codes, dtype=np.int32) - places[:, 0], 0, self.width)

    @property
    def gain(self) -> float:
        """By how much points are stretched around the middle of the span, so that answers average to the number."""
        return WORD / (self.law.keep - self.law.lie)

    @property
    def published(self) -> str:
        around = "around a prediction" if self.public_inputs else "around the range"
        return f"one noisy number per record (one of {self.points} values {around}, with the label as mean)"

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        reach = self.gain * self.width * self.domain.step / 2
        where = f"around a prediction, at most {number(reach)} from it, with the label as its mean if it is close"
        if not self.public_inputs:
            ends = (number(self.domain.center + sign * reach) for sign in (-1, 1))
            where = f"in [{', '.join(ends)}] with the label as its mean"
        return f"Each label is replaced by one of {self.points} values {where}."

    def values(self, noisy: Any) -> Floats:
        """Return answers in the unit of the labels, shape (n,): on average the label, brought into its span.

        Raises:
            InputError: not what this mechanism released.
        """
        steps = self._answers(noisy) * (self.width / (self.points - 1)) - self.width / 2
        return np.asarray(float(self.domain.low) + (self.places.mean(axis=1) + self.gain * steps) * self.domain.step)

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased labels, shape (n,), in their unit, where every span holds the whole range."""
        if self.places[:, 0].max() > 0 or self.places[:, 1].min() < self.domain.size - 1:
            raise NotInvertibleError("the noise has no inverse: labels outside of their span count as its end")
        return Debiased(self.values(noisy), self.gain)


def second_moment(distances: Any, reach: float, points: int, epsilon: float) -> Floats:
    """Return the mean square of answers of `ResponseOnPoints`, from the middle of the span, shape (m,).

    Args:
        distances: of numbers from the middle, in any unit, shape (m,).
        reach: half of the span, in the same unit.
        points, epsilon: as in `ResponseOnPoints`.
    """
    step, growth = 2 * reach / (points - 1), np.expm1(min(epsilon, 50.0))
    position = (np.clip(np.asarray(distances, dtype=np.float64), -reach, reach) + reach) / step
    share = position - np.floor(position)
    rounded = (position * step - reach) ** 2 + share * (1 - share) * step**2
    uniform = reach**2 * (points + 1) / (3 * (points - 1))  # the mean square of the points
    return np.asarray((growth + points) / growth * (rounded + points * uniform / growth))


@final
@dataclass(frozen=True, kw_only=True)
class ResponseOnDistances(_Located):
    """Randomized response over a few bins of the distance between a number and a public center.

    Each bin ends at twice the distance of the one before. Use it to learn how close a released model's predictions are:
    see `shares`.

    Args:
        domain: `Interval`.
        centers: a code of the domain for each record, shape (n, 1); a `Release` or `Public(array, why="…")`. By default
            the middle of the range, for all records.
        bins: how many, at least 2; fewer where the grid is too coarse.

    What is released are numbers of bins, shape (n,).

    Guarantee (pure, prior_charged): epsilon-DP for each label, exactly, for the emitted bits, given its center; what
        released centers cost stands in the certificate of the release, too.

    Raises:
        InputError: a domain without numbers.

    Source: `docs/proofs/finite-mechanisms.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> ResponseOnDistances(domain=Interval(0, 100, grid=101), epsilon=1.0, bins=4).edges
        array([13., 25., 50.])
    """

    plain: ClassVar[tuple[str, ...]] = ("epsilon", "bins")
    stored: ClassVar[str] = "centers"
    centers: InitVar[Any] = None
    bins: int = 8

    def __post_init__(self, centers: Any) -> None:
        super().__post_init__()
        self._set_places(centers, [(getattr(self.domain, "size", 0) - 1) // 2])
        check_integer(self.bins, "bins", 2, MOST_OUTPUTS)
        self._calibrate()

    @property
    def _outputs(self) -> int:
        return len(self._cuts) + 1

    @property
    def _cuts(self) -> NDArray[np.intp]:
        return distance_cuts(self.domain, self.bins)

    @cached_property
    def _rows(self) -> Weights:
        return np.array(self.law.rows()[:-1], dtype=object)

    def _row_of(self, codes: Any, places: NDArray[np.int32]) -> NDArray[Any]:
        return bins_of(np.abs(np.asarray(codes, dtype=np.int32) - places[:, 0]), self._cuts)

    @property
    def edges(self) -> Floats:
        """Where bins after the first begin, in the unit of the labels, shape (bins - 1,)."""
        return np.asarray(self._cuts * self.domain.step)

    @property
    def published(self) -> str:
        return f"one noisy bin per record (randomized response on {self._outputs} bins of the distance from a center)"

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        truth = f"It is the true bin with probability {self.law.keep / WORD:.3f}."
        return f"Each record releases one of {self._outputs} bins of its label's distance from a public center. {truth}"

    def shares(self, noisy: Any) -> Floats:
        """Return unbiased shares of the bins among the labels, shape (bins,); some may be negative."""
        counts = np.bincount(self._answers(noisy), minlength=self._outputs)
        return np.asarray((counts / counts.sum() - self.law.lie / WORD) / ((self.law.keep - self.law.lie) / WORD))
