"""Exact draws of points of a space, a box or a ball, from normal laws restricted to it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from labeldp.online.convex.base import Ball, Body, Box
from labeldp.privacy import WORD, Flags, Floats, InputError, Integers, Randomness, Words
from labeldp.sampling import falls_below, fresh_words, geometric, successive

BALL_FAILURE = Fraction(2, 10**11)
"""What each point of a ball adds to delta: the error of its two potentials in doubles is below a fifth of this (tested
against 50 digits)."""
BALL_EPSILON = 20
"""Up to this epsilon that covers points so unlikely that no error of their potentials was tested."""
MAX_BALL_DIMENSION = 2048
"""The largest dimension of a ball for which that was tested."""
OFFSET_FAILURE = Fraction(1, 1 << 60)
"""What each number adds to delta: its uniform part has 127 bits, and a cell of any grid in use keeps its probability
within this share (docs/proofs/online-convex.md)."""
EXPONENT_MARGIN = 2.0**-44
"""A bound of the error of a coin's exponent E in doubles, as a share of E + cells + 4."""
PLACE_MARGIN = 2.0**-48
"""A bound of the error of a number in doubles, as a share of the sizes that it is the sum of."""
MODE_SLACK = 2.0**-30
"""How much deeper than at its computed mode a potential of a ball may be, at most."""
WIDTH_RISE = 1.001
"""The least rise of a potential of a ball within a width."""
LARGEST_POTENTIAL = 1e6
"""A potential that stands for larger ones: nothing so unlikely is ever drawn."""
GRID_BITS = 20
"""Points lie on a grid of 2**-GRID_BITS of the radius or of the law's standard deviation, or a little finer."""
MAX_GRID_STEPS = 2.0**40
"""The most grid steps from the center of a body to its ends."""
MAX_PLACE = 2.0**62
"""The most grid steps from the center of an unbounded body to a point."""
_SIGN_BIT = 1 << 63
Potential = Callable[[float], float]
Places = NDArray[np.intp]


def grid_step(body: Body, curvature: float) -> float:
    """Return the power of two that points are multiples of: public, and far below the law's standard deviation.

    Raises:
        InputError: the law is too narrow for `MAX_GRID_STEPS`, or a ball has too many dimensions.
    """
    if isinstance(body, Ball) and body.dimension > MAX_BALL_DIMENSION:
        raise InputError(f"dimension of a ball must be at most {MAX_BALL_DIMENSION} for draws of points")
    narrow = min(body.half.min(), body.radius) if isinstance(body, Box) else body.radius
    step = 2.0 ** (math.floor(math.log2(min(narrow, 1 / math.sqrt(2 * curvature)))) - GRID_BITS)
    if body.radius > MAX_GRID_STEPS * step:
        raise InputError("the law of points is too narrow for the body: take a smaller horizon or radius")
    return step


def draw_failure(body: Body) -> Fraction:
    """Return what one point adds to delta: the probability that a draw does not have the exact law."""
    return body.dimension * OFFSET_FAILURE + (BALL_FAILURE if is_round(body) else 0)


def is_round(body: Body) -> bool:
    """Return whether points of a body are drawn by potentials in doubles."""
    return isinstance(body, Ball) and body.dimension > 1


def draw_point(body: Body, center: Floats, curvature: float, step: float, *, rng: Randomness) -> Integers:
    """Draw a point x of a body with density e^(-curvature |x - center|^2), on a grid.

    Args:
        body: where points lie, relative to its own center.
        center: the center of the law, shape (dimension,); it may lie far outside the body.
        curvature: positive; the density without a body is normal with variance 1 / (2 curvature).
        step: the step of the grid, as `grid_step` returns it.

    Returns:
        The grid point in steps: the nearest one in a space or a box, in a ball the next one towards zero.

    Guarantee (law): the law of what is drawn is that of the real point, rounded, but with probability `draw_failure`.

    Source: Asi, equation (3), for the law. Proof: `docs/proofs/online-convex.md`.
    """
    if is_round(body):
        return _on_ball(body.radius, center, curvature, step, rng)
    half = body.half if isinstance(body, Box) else np.full(body.dimension, body.radius if body.bounded else math.inf)
    mode = np.clip(center, -half, half)
    steps = rounded(mode, draw_offsets(normal_laws(mode, mode - center, half, curvature), rng=rng), step)
    return np.clip(steps, -np.floor(half / step), np.floor(half / step)).astype(np.int64)


@dataclass(frozen=True)
class UnivariateLaw:
    """Independent laws of n numbers, with density e^-V at an offset from `mode`, where V is convex and V(0) = 0.

    Attributes:
        mode: shape (n,).
        widths: on either side V is at least 1 at this offset, or the law ends before it; positive, shape (n,).
        ends: how far the law goes to the left and to the right, maybe infinite, shape (2, n).
        potential: V at offsets of some of the numbers: (places, offsets) -> V, each shape (m,).
        exact: V at a rational offset of one number; None if V is computed in doubles, whose error is charged.
    """

    mode: Floats = field(repr=False)
    widths: Floats = field(repr=False)
    ends: Floats = field(repr=False)
    potential: Callable[[Places, Floats], Floats] = field(repr=False)
    exact: Callable[[int, Fraction], Fraction] | None = field(default=None, repr=False)


def normal_laws(mode: Floats, excess: Floats, half: Floats, curvature: float) -> UnivariateLaw:
    """Return independent normal laws between -half and half: V = curvature · offset · (offset + 2 excess).

    Args:
        mode: where each density is largest, between the ends.
        excess: the mode minus the normal law's center: 0 if the center lies between the ends.
    """
    root = 1 / (curvature * (np.abs(excess) + np.sqrt(excess**2 + 1 / curvature))) * (1 + 2.0**-40)
    ends = np.stack([np.where(excess > 0, 0.0, half + mode), np.where(excess < 0, 0.0, half - mode)])

    def potential(places: Places, offsets: Floats) -> Floats:
        return np.asarray(curvature * offsets * (offsets + 2 * excess[places]))

    def exact(i: int, offset: Fraction) -> Fraction:
        return Fraction(curvature) * offset * (offset + 2 * Fraction(float(excess[i])))

    return UnivariateLaw(mode, np.minimum(root, ends.max(axis=0)), ends, potential, exact)


def _on_ball(radius: float, center: Floats, curvature: float, step: float, rng: Randomness) -> Integers:
    """Draw a point of a ball of two dimensions or more, rounded towards zero.

    It draws the coordinate along the axis through the law's center, then the distance from the axis, then a direction.
    """
    distance = float(np.linalg.norm(center))
    gap = _one(_axis(len(center), radius, distance, curvature), rng)
    left = gap * (2 * Fraction(radius) - gap)
    away = _one(_distance(len(center) - 2, math.sqrt(left), curvature), rng)
    count = len(center) - 1
    sides = normal_laws(np.zeros(count), np.zeros(count), np.full(count, math.inf), 0.5)
    drawn = draw_offsets(sides, rng=rng)
    steps = _turned(Fraction(radius) - gap, away, drawn.offsets, center) / step
    unsure = np.abs(steps - np.rint(steps)) <= 2.0**-44 * (radius / step + 1) * math.sqrt(len(center))
    if unsure.any():
        exact = [drawn.offset(i) for i in range(count)]
        return np.array([int(number) for number in _turned_exactly(Fraction(radius) - gap, away, exact, center, step)])
    return np.trunc(steps).astype(np.int64)


def _one(law: UnivariateLaw, rng: Randomness) -> Fraction:
    """Draw a number, at least 0, from a law of one number."""
    return max(Fraction(float(law.mode[0])) + draw_offsets(law, rng=rng).offset(0), Fraction(0))


def _axis(dimension: int, radius: float, distance: float, curvature: float) -> UnivariateLaw:
    """Return the law of the gap g = radius - coordinate along the axis, between 0 and 2 radius.

    V = curvature · g · (g + 2 (distance - radius)) - ln P(chi² of dimension - 1 <= 2 curvature g (2 radius - g)), up to
    a constant. `MODE_SLACK` is added, so that V is never negative although the mode is known to a few digits only.
    """
    shape, excess = (dimension - 1) / 2, distance - radius

    def inside(g: float) -> float:
        return log_gamma_share(shape, curvature * g * (2 * radius - g))

    mode = _lowest(lambda g: curvature * g * (g + 2 * excess) - inside(g), 0.0, 2 * radius)
    there = inside(mode)

    def rise(offset: float) -> float:
        return MODE_SLACK + curvature * offset * (offset + 2 * (mode + excess)) + there - inside(mode + offset)

    return _around(mode, rise, mode, 2 * radius - mode)


def _distance(power: int, end: float, curvature: float) -> UnivariateLaw:
    """Return the law with density r^power e^(-curvature r²) for 0 < r < most."""
    peak = min(math.sqrt(power / (2 * curvature)), end)
    slope = 2 * curvature * peak - power / peak if peak else 0.0  # 0 at a peak inside

    def rise(offset: float) -> float:
        if not peak:
            return curvature * offset**2
        share = offset / peak
        if share <= -1:
            return math.inf
        inside = peak < end
        bend = share - math.log1p(share)
        return curvature * offset**2 + power * bend + (0.0 if inside else slope * offset)

    return _around(peak, rise, peak, end - peak)


def log_gamma_share(shape: float, x: float) -> float:
    """Return ln(P(shape, x) Γ(shape + 1)) for the regularized incomplete gamma function P; minus infinity at 0."""
    if x <= 0:
        return -math.inf
    if x > shape + 1:
        return math.log1p(-float(gammaincc(shape, x))) + float(gammaln(shape + 1))
    term, total, k = 1.0, 1.0, shape
    while term > 2.0**-56 * total:
        k += 1
        term *= x / k
        total += term
    return shape * math.log(x) - x + math.log(total)


def _lowest(depth: Potential, low: float, high: float) -> float:
    """Return where a convex function is lowest between two ends, by golden-section search."""
    share = (math.sqrt(5) - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = depth(left), depth(right)
    for _ in range(120):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = depth(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = depth(right)
    return left if at_left <= at_right else right


def _around(mode: float, rise: Potential, left: float, right: float) -> UnivariateLaw:
    """Return the law of one number with V = rise, and a width that suits both sides."""
    width = max(_width(rise, -1, left), _width(rise, 1, right))

    def potential(_: Places, offsets: Floats) -> Floats:
        return np.array([min(rise(float(offset)), LARGEST_POTENTIAL) for offset in offsets])

    return UnivariateLaw(np.array([mode]), np.array([width]), np.array([[left], [right]]), potential)


def _width(rise: Potential, sign: int, end: float) -> float:
    """Return an offset on one side where the rise is `WIDTH_RISE` or a little more; the end if it is less there."""
    if not end or rise(sign * end) < WIDTH_RISE:
        return end
    low, high = 0.0, end
    while high > (1 + 2.0**-6) * low:
        middle = (low + high) / 2
        low, high = (low, middle) if rise(sign * middle) >= WIDTH_RISE else (middle, high)
    return high


def _turned(along: Fraction, away: Fraction, sides: Floats, center: Floats) -> Floats:
    """Return the point at `along` on the axis through the center, and `away` from it in the direction of `sides`."""
    axis, sign = _axis_of(center)
    point = np.concatenate([[-sign * float(along)], sides * (float(away) / np.linalg.norm(sides))])
    mirror = axis.copy()
    mirror[0] += sign
    return np.asarray(point - mirror * (2 * (mirror @ point) / (mirror @ mirror)))


def _turned_exactly(
    along: Fraction, away: Fraction, sides: list[Fraction], center: Floats, step: float
) -> list[Decimal]:
    """Return the same point in steps of the grid, to 60 digits, for the axis that doubles give."""
    with localcontext(Context(prec=80)):
        axis, sign = _axis_of(center)
        mirror = [Decimal(float(component)) for component in axis]
        mirror[0] += Decimal(sign)
        normals = [_decimal(side) for side in sides]
        factor = _decimal(away) / sum((side * side for side in normals), Decimal(0)).sqrt()
        point = [-Decimal(sign) * _decimal(along), *(side * factor for side in normals)]
        dot = sum((a * b for a, b in zip(mirror, point, strict=True)), Decimal(0))
        factor = 2 * dot / sum((component * component for component in mirror), Decimal(0))
        return [(a - factor * b) / Decimal(step) for a, b in zip(point, mirror, strict=True)]


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _axis_of(center: Floats) -> tuple[Floats, float]:
    """Return the direction of the center (the first axis if it is zero), and a sign that keeps the mirror from zero."""
    length = np.linalg.norm(center)
    axis = center / length if length else np.eye(1, len(center))[0]
    return axis, 1.0 if axis[0] >= 0 else -1.0


@dataclass(frozen=True)
class Offsets:
    """Offsets that were drawn or tried: each is a side, a number of whole widths, and a share of one more.

    Attributes:
        words: the first bit is the side, the other 127 are the share; shape (2, n).
        cells: the number of whole widths, shape (n,).
        widths: shape (n,).
    """

    words: Words = field(repr=False)
    cells: Integers = field(repr=False)
    widths: Floats = field(repr=False)

    @property
    def right(self) -> Flags:
        """True for numbers to the right of the mode."""
        return self.words[0] >= np.uint64(_SIGN_BIT)

    @property
    def offsets(self) -> Floats:
        """The offsets as doubles, shape (n,), each within a few units of its last place."""
        sizes = (self.cells + (self.words[0] % np.uint64(_SIGN_BIT)) / _SIGN_BIT) * self.widths
        return np.where(self.right, sizes, -sizes)

    def offset(self, i: int) -> Fraction:
        """Return one offset exactly."""
        high, low = (int(word) for word in self.words[:, i])
        share = Fraction(((high % _SIGN_BIT) << 64) | low, 1 << 127)
        size = (int(self.cells[i]) + share) * Fraction(float(self.widths[i]))
        return size if high >= _SIGN_BIT else -size


def draw_offsets(law: UnivariateLaw, *, rng: Randomness) -> Offsets:
    """Draw one offset from each law, exactly if the law has `exact`.

    A uniform number within a width on either side is moved outwards by a geometric number of widths, and accepted
    with probability e^-(V - cells), which is at most 1 since V is convex. More than one in ten is accepted.

    Guarantee (law): what is drawn has the law of its density, up to `OFFSET_FAILURE` and what the potential misses.

    Source: Devroye, Section VII.2, for log-concave laws. Proof: `docs/proofs/online-convex.md`.
    """
    count = len(law.mode)
    drawn = Offsets(np.zeros((2, count), dtype=np.uint64), np.zeros(count, dtype=np.int64), law.widths)
    left = np.arange(count)
    while left.size:
        words = fresh_words(rng, 2 * left.size).reshape(2, -1)
        cells = geometric(successive(rng, left.size), np.arange(left.size), Fraction(1))
        tried = Offsets(words, cells, law.widths[left])
        good = _accepted(law, left, tried, rng)
        drawn.words[:, left[good]], drawn.cells[left[good]] = tried.words[:, good], tried.cells[good]
        left = left[~good]
    return drawn


def _accepted(law: UnivariateLaw, left: Places, tried: Offsets, rng: Randomness) -> Flags:
    """Flip a coin for each offset: of probability e^-(V - cells) within the ends, and 0 outside."""
    offsets = tried.offsets
    ends = np.where(tried.right, law.ends[1, left], law.ends[0, left])
    sizes = np.abs(offsets)
    inside, edge = sizes <= ends, np.abs(sizes - ends) <= PLACE_MARGIN * sizes
    near = np.sign(offsets) * np.minimum(sizes, ends)  # the potential is not defined outside
    exponents = np.maximum(law.potential(left, near) - tried.cells, 0.0)
    margin = EXPONENT_MARGIN * (exponents + tried.cells + 4)
    coins = fresh_words(rng, left.size)
    places, chances = coins.astype(np.float64), np.exp(-exponents) * WORD
    heads: Flags = inside & ~edge & (places + 1 <= chances * (1 - margin))
    unsure = (inside | edge) & ~heads & (places <= chances * (1 + margin))
    for i in np.flatnonzero(unsure):
        offset = tried.offset(int(i))
        real = Fraction(float(exponents[i]))
        if law.exact is not None:
            real = law.exact(int(left[i]), offset) - int(tried.cells[i])
        heads[i] = abs(offset) <= ends[i] and falls_below(int(coins[i]), max(real, Fraction(0)), Fraction(1), rng)
    return heads


def rounded(mode: Floats, numbers: Offsets, step: float) -> Integers:
    """Return exactly the multiples of a power of two that are nearest to mode + offset, in steps, shape (n,)."""
    offsets = numbers.offsets
    places = (mode + offsets) / step
    sizes = (np.abs(mode) + np.abs(offsets)) / step
    steps = np.floor(places + 0.5).astype(np.int64)
    for i in np.flatnonzero(np.abs(places + 0.5 - np.rint(places + 0.5)) <= PLACE_MARGIN * (sizes + 1)):
        real = (Fraction(float(mode[i])) + numbers.offset(int(i))) / Fraction(step)
        steps[i] = math.floor(real + Fraction(1, 2))
    return steps
