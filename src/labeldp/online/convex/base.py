"""Bodies that hold the points of learners, the base class of learners of convex losses, and checks of gradients."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np

from labeldp.privacy import (
    DomainError,
    Floats,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    Trust,
    Unit,
    check_integer,
    check_loss_neighbors,
    exact_positive,
    private_array,
    set_fields,
    without_traceback,
)

GRADIENT_BITS = 22
"""Gradients are rounded to units of lipschitz / 2**GRADIENT_BITS, so that their sums are exact in any order."""
NORM_SLACK = 2.0**-30
"""Relative excess of a norm that counts as rounding; privacy losses are computed for gradients that much longer."""
MAX_DIMENSION = 1 << 20
S = TypeVar("S")


class Body(ABC):
    """A public convex set of points of shape (dimension,). Learners work with points relative to its `center`."""

    dimension: int
    radius: float

    @property
    @abstractmethod
    def center(self) -> Floats:
        """The first point of a learner, shape (dimension,)."""

    @property
    def bounded(self) -> bool:
        """Whether no point is further than `radius` from the center."""
        return True

    @abstractmethod
    def project(self, points: Floats) -> Floats:
        """Return the nearest point of the body for each point, all relative to the center, shape as given."""


class _CenteredBody(Body):
    """A body around zero with a dimension and a radius."""

    def __post_init__(self) -> None:
        set_fields(self, dimension=_check_dimension(self.dimension), radius=real(self.radius, "radius"))

    @property
    def center(self) -> Floats:
        return np.zeros(self.dimension)


@final
@dataclass(frozen=True)
class Unbounded(_CenteredBody):
    """All points.

    Args:
        dimension: at least 1.
        radius: the distance from zero within which regret is bounded. It sets rates; points may lie outside.
    """

    dimension: int
    radius: float

    @property
    def bounded(self) -> bool:
        return False

    def project(self, points: Floats) -> Floats:
        return points


@final
@dataclass(frozen=True)
class Ball(_CenteredBody):
    """The points within `radius` of zero.

    Args:
        dimension: at least 1.
        radius: positive.
    """

    dimension: int
    radius: float

    def project(self, points: Floats) -> Floats:
        norms = np.linalg.norm(points, axis=-1, keepdims=True)
        return np.asarray(points * (self.radius / np.maximum(norms, self.radius)))


@final
@dataclass(frozen=True)
class Box(Body):
    """The points between two ends in every coordinate.

    Args:
        low, high: numbers, one for each coordinate; low below high.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            ends = finite_array(getattr(self, name), name, 1)
            set_fields(self, **{name: tuple(float(end) for end in ends)})
        _check_dimension(len(self.low))
        if len(self.low) != len(self.high) or any(a >= b for a, b in zip(self.low, self.high, strict=True)):
            raise InputError("low and high must be as long as each other, low below high in every coordinate")

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The number of coordinates."""
        return len(self.low)

    @property
    def half(self) -> Floats:
        """Half of each side, shape (dimension,)."""
        return (np.array(self.high) - np.array(self.low)) / 2

    @property
    def radius(self) -> float:  # type: ignore[override]
        """Half of the diagonal."""
        return float(np.linalg.norm(self.half))

    @property
    def center(self) -> Floats:
        return (np.array(self.low) + np.array(self.high)) / 2

    def project(self, points: Floats) -> Floats:
        return np.clip(points, -self.half, self.half)


NEEDS_SAMPLER = (
    "general convex losses need a sampler that states its total variation `distance` to the exact law: the bounds of "
    "the known samplers hide constants, so that none of them gives a guarantee. Give gradients of linear losses, take "
    'method="matrix-factorization" for gradients at the played points, or answer for a sampler of your own'
)


class Sampler(Protocol):
    """Draws points of a body with a density near e^(-beta (sum of losses + strength |x - center|^2))."""

    @property
    def distance(self) -> Any:
        """The largest total variation between the law of a draw and the exact one, for any losses."""

    def draw(self, losses: Sequence[Any], beta: float, strength: float, body: Body, *, rng: Randomness) -> Floats:
        """Draw a point, shape (dimension,)."""


class ConvexKernel(ABC, Generic[S]):
    """A learner that picks a point of a body in every round, before it sees the convex loss of that round.

    A kernel is a frozen, public description. Its state is a frozen dataclass of integers, arrays and other states, as
    secret as the losses: its repr shows sizes only. What is released is the sequence of points.

    Attributes:
        lipschitz: no gradient is longer, in Euclidean length.

    Guarantee (causal): a point depends on losses of earlier rounds alone.
    """

    body: Body
    horizon: int
    lipschitz: float
    neighbors: Unit
    trust = Trust.CENTRAL

    @abstractmethod
    def init(self, *, rng: Randomness) -> S:
        """Return the state before the first round."""

    @abstractmethod
    def predict(self, state: S) -> Floats:
        """Return the point of the coming round, shape (dimension,); draws nothing."""

    @abstractmethod
    def update(self, state: S, gradients: Any, *, rng: Randomness) -> tuple[S, Floats]:
        """Return the state after more rounds and the points in them, the first of which is `predict(state)`.

        Args:
            gradients: the gradient of each round's loss at the point that was played, shape (rounds, dimension), as
                `checked_gradients` returns them. Several rounds at once are for linear losses, whose gradients do
                not depend on the point.
        """

    @abstractmethod
    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return what all points up to the one after `rounds` rounds of losses reveal of one round's loss."""

    @property
    def published(self) -> str:
        """The released values, in one phrase."""
        return "the point of each round"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions of the guarantee, in words."""
        return ()

    def check_rounds(self, done: int, more: int) -> None:
        """Check that `more` rounds fit into the horizon after `done` rounds.

        Raises:
            InputError: they do not.
        """
        if more and done >= self.horizon:
            raise InputError(f"the horizon of {self.horizon:,} rounds is over")
        if done + more > self.horizon:
            raise InputError(f"there are more rounds than the horizon of {self.horizon:,}: plan for more of them")

    def _check_common_fields(self, *positive: str) -> None:
        """Check and store `horizon`, `neighbors` and the fields named, which must be positive numbers."""
        numbers = {name: real(getattr(self, name), name) for name in positive}
        neighbors = check_loss_neighbors(self.neighbors)
        set_fields(self, horizon=check_integer(self.horizon, "horizon"), neighbors=neighbors, **numbers)

    @property
    def sensitivity(self) -> float:
        """The largest distance of one round's gradients in neighboring sequences: 2 L, or L if one is zero."""
        swing = 1 if self.neighbors is Unit.ZERO_OUT else 2
        return swing * self.lipschitz * (1 + NORM_SLACK)


def checked_gradients(gradients: Any, dimension: int, lipschitz: float, *, clip: bool = False) -> Floats:
    """Return gradients of one round or of many, shape (rounds, dimension), none longer than `lipschitz`.

    Args:
        gradients: shape (dimension,) or (rounds, dimension).
        clip: scale longer ones down instead of refusing them. Then they are no gradients of a convex loss, and no
            regret bound holds.

    Raises:
        InputError: another shape, not finite, or longer than `lipschitz`. The message does not say where.
    """
    rows = finite_array(gradients, "gradients", 1, 2)
    rows = rows[np.newaxis] if rows.ndim == 1 else rows
    if rows.shape[1] != dimension:
        raise InputError(f"gradients must have {dimension} numbers a round, one for each coordinate")
    # Squares of huge numbers overflow, so each row is first divided by its largest number.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    sizes = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)
    if not clip and bool((largest > lipschitz / sizes * (1 + NORM_SLACK / 2)).any()):
        raise DomainError(f"gradients must not be longer than lipschitz = {lipschitz:g}: scale losses, or clip=True")
    return np.where(largest > lipschitz / sizes, scaled * (lipschitz / sizes), rows)


def gradient_units(gradients: Floats, lipschitz: float) -> Integers:
    """Return gradients in units of lipschitz / 2**GRADIENT_BITS, rounded towards zero: none becomes longer."""
    return np.trunc(gradients * (2.0**GRADIENT_BITS / lipschitz)).astype(np.int64)


def finite_array(values: Any, name: str, *dimensions: int) -> Floats:
    """Return numbers as an array of doubles.

    Raises:
        InputError: not numbers, not finite, or of another number of axes.
    """
    raw = private_array(values)
    # A cast would drop the imaginary part of complex numbers.
    array = None if raw is None or raw.dtype.kind == "c" else without_traceback(lambda: raw.astype(np.float64))
    if array is None:
        raise DomainError(f"{name} must be numbers")
    if array.ndim not in dimensions or not np.isfinite(array).all():
        raise DomainError(f"{name} must be finite numbers, with {' or '.join(map(str, dimensions))} axes")
    return array


def real(value: Any, name: str) -> float:
    """Return a positive number as a double.

    Raises:
        InputError: another value, or one beyond doubles.
    """
    number = float(exact_positive(value, name)) if not isinstance(value, float) or math.isfinite(value) else math.inf
    if not 1e-150 < number < 1e150:
        raise InputError(f"{name} must be a positive number between 1e-150 and 1e150")
    return number


def _check_dimension(dimension: Any) -> int:
    dimension = check_integer(dimension, "dimension")
    if dimension > MAX_DIMENSION:
        raise InputError(f"dimension must be at most {MAX_DIMENSION:,}")
    return dimension
