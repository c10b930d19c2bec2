"""The curve delta(epsilon) of one sequence of atoms, every rounding against us."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import chain

import numpy as np

from labeldp.privacy.atoms import (
    SMALLEST,
    Atom,
    BoundedRange,
    Discrete,
    Failure,
    Gaussian,
    NumericAtom,
    Response,
    gaussian_terms,
)
from labeldp.privacy.validate import Floats, Integers

Sequence = tuple[tuple[Atom, int], ...]
"""Atoms with how often each occurs, in a canonical order."""

MAX_LATTICE_POINTS = 1 << 15
"""Lattices with more points are coarsened, losses rounded up."""

MOST_PRODUCTS = 1 << 35
"""Where composing would take more products of masses, lattices have fewer points."""

MOST_CONVOLUTIONS = 1 << 16
"""Losses that need more convolutions are not composed."""

FEW_MASSES = 256
"""At most so many masses are convolved one by one."""

MIN_TRIMMED_POINTS = 1 << 10
"""Lattices with at most so many points keep all of them."""

MAX_TRIMMED_MASS = 1e-40
"""Mass that may be moved off either end of a longer lattice: upwards, at the top to an infinite loss."""

MIN_CURVE_STEPS = 1 << 11
"""At least so many steps of the lattice lie between the losses 0 and `reach` of a curve, unless another reaches far."""

DENSE_CURVE_STEPS, CURVE_STEP_GROWTH = 256, 1.01
"""A curve is read at every step near zero, and further out where losses are so much larger than the last."""

_MOST_MOVED = 1e-24
"""No more mass than this was moved upwards off the lower ends of the lattices of `MOST_COMPOSED` losses."""

_LEAST_ERROR = 1e-9

_DOTS_ERROR = 1e-9

_RATE_ERROR = 1e-9

_MAX_EPSILON = Fraction(10**12)

_MAX_SQUARE = Fraction(2**200)
"""A square of mu so large is enough for a delta of 1 at any epsilon up to `_MAX_EPSILON`."""

MOST_COMPOSED = 10**13
"""More finite losses and curves are not composed: their errors could exceed them."""


@dataclass(frozen=True)
class _Lattice:
    """Finite losses (first + i) * step with masses, correct up to a relative error.

    No loss was rounded up by more than `raised`.
    """

    step: Fraction
    first: int
    masses: Floats
    relative_error: float
    lost: float = 0.0
    limit: int = MAX_LATTICE_POINTS
    raised: Fraction = Fraction(0)

    @property
    def most(self) -> float:
        """By what factor true sums over all of the masses may exceed the computed ones, at most."""
        error = self.relative_error + 2.0**-50 * (len(self.masses) + 1)
        return (1 + 2.0**-51) / (1 - error) if error < 1 else math.inf

    def losses(self) -> Floats:
        """Return the losses as floats, shape (points,)."""
        return np.asarray((self.first + np.arange(len(self.masses))) * float(self.step))

    @property
    def total(self) -> float:
        """The sum of all masses."""
        return float(self.masses.sum())

    def __matmul__(self, other: "_Lattice") -> "_Lattice":
        """Return the loss of two independent outputs: masses convolve, directly, so that the error stays relative."""
        step = max(self.step, other.step)
        left, right = self.on(step), other.on(step)
        terms = min(np.count_nonzero(left.masses), np.count_nonzero(right.masses))
        error = left.relative_error + right.relative_error + 1.01 * (terms + 1) * 2.0**-53
        lost = 1.001 * (left.lost * max(1.0, right.total) + right.lost * max(1.0, left.total))
        masses, raised = _convolved(left.masses, right.masses), left.raised + right.raised
        return _Lattice(step, left.first + right.first, masses, error, lost, self.limit, raised).trimmed()

    def on(self, step: Fraction) -> "_Lattice":
        """Return the same on a step that is this one times a power of two, losses rounded up."""
        lattice = self
        while lattice.step < step:
            lattice = lattice.coarser()
        return lattice

    def coarser(self) -> "_Lattice":
        """Return the same on twice the step: each odd cell joins the even one above it."""
        padded = np.concatenate([np.zeros(1 - self.first % 2), self.masses])
        padded = np.concatenate([padded, np.zeros(len(padded) % 2)])
        masses = padded.reshape(-1, 2).sum(axis=1)
        error, raised = self.relative_error + 2.0**-52, self.raised + self.step
        return _Lattice(2 * self.step, -(-self.first // 2), masses, error, self.lost, self.limit, raised)

    def trimmed(self) -> "_Lattice":
        """Return a long lattice without its negligible ends, on a coarser step where it is still too long."""
        if len(self.masses) <= MIN_TRIMMED_POINTS:
            return self
        above, below = np.cumsum(self.masses[::-1]), np.cumsum(self.masses)
        top = min(int(np.searchsorted(above, MAX_TRIMMED_MASS, side="right")), len(above) - 1)
        bottom = min(int(np.searchsorted(below, MAX_TRIMMED_MASS, side="right")), len(above) - 1 - top)
        masses = self.masses[bottom : len(self.masses) - top].copy()
        masses[0] += below[bottom - 1] if bottom else 0.0
        lost = self.lost + (1.001 * float(above[top - 1]) if top else 0.0)
        error, first = self.relative_error + 2.0**-52, self.first + bottom
        lattice = _Lattice(self.step, first, masses, error, lost, self.limit, self.raised)
        while len(lattice.masses) > self.limit:
            lattice = lattice.coarser()
        return lattice


def _convolved(one: Floats, other: Floats) -> Floats:
    """Convolve masses by sums of products alone; with few masses, shifted copies of the other."""
    few, many = sorted((one, other), key=np.count_nonzero)
    places = np.flatnonzero(few)
    if len(places) > FEW_MASSES:
        return np.convolve(one, other)
    masses = np.zeros(len(one) + len(other) - 1)
    for index in places.tolist():
        masses[index : index + len(many)] += few[index] * many
    return masses


@lru_cache(maxsize=256)
def max_loss(sequence: Sequence) -> Fraction | None:
    """Return the exact largest loss of the whole sequence, or None where it is unbounded."""
    total = Fraction(0)
    for atom, count in sequence:
        if atom.max_loss is None:
            return None
        total += count * atom.max_loss
    return total


def delta_of(sequence: Sequence, epsilon: Fraction) -> float:
    """Return an upper bound of delta at epsilon.

    Source: Balle and Wang (2018), Theorem 8, for the Gaussian part; the rest is the hockey-stick
    divergence of the convolved loss distribution (`docs/proofs/composition.md`).
    """
    failure = failures(sequence)
    epsilon = min(epsilon, _MAX_EPSILON)  # delta falls with epsilon
    if _beyond(sequence, epsilon):
        return _checked(sequence, epsilon, min(1.0, _float_up(failure)))
    delta = min(_lattice_delta(sequence, epsilon, failure), _concentrated_delta(sequence, epsilon, failure))
    return _checked(sequence, epsilon, delta)


def _checked(sequence: Sequence, epsilon: Fraction, delta: float) -> float:
    """Return a delta of several losses, after comparing it with the lower end of each of them.

    Raises:
        ArithmeticError: it is less than that of a part, which no bound of several releases is.
    """
    if any(atom.least(epsilon) > delta for atom, _ in sequence):
        raise ArithmeticError("several releases cannot cost less than one of them: the loss could not be computed")
    return delta


def _lattice_delta(sequence: Sequence, epsilon: Fraction, failure: Fraction) -> float:
    """Return the bound by the convolved loss distribution."""
    single = [atom for atom, count in sequence if not isinstance(atom, Failure) for _ in range(min(count, 2))]
    if len(single) == 1 and isinstance(single[0], NumericAtom):
        return min(1.0, single[0].delta(epsilon) + _float_up(failure) + SMALLEST)
    composed = sum(count for atom, count in sequence if not isinstance(atom, Gaussian | Failure))
    if composed > MOST_COMPOSED or convolutions(sequence) > MOST_CONVOLUTIONS:
        return 1.0
    lattice, mu = loss_lattice(sequence), total_mu(sequence)
    gaps = float(epsilon) - lattice.losses()
    slack = 2.0**-50 * (abs(float(epsilon)) + np.abs(lattice.losses()))
    if mu > 0:
        pieces = np.array([gaussian_delta(float(gap), mu) for gap in gaps - slack])
    else:
        pieces = -np.expm1(np.minimum(gaps - slack, 0.0))
    finite = (float(lattice.masses @ pieces) + SMALLEST) * lattice.most
    return min(1.0, finite + lattice.lost + _float_up(failure) + SMALLEST)


def within(sequence: Sequence, epsilon: Fraction, delta: Fraction) -> bool:
    """Return True when delta at epsilon is at most `delta`: exactly where only failures are left, else by the bound."""
    failure, epsilon = failures(sequence), min(epsilon, _MAX_EPSILON)
    if _beyond(sequence, epsilon):
        return failure <= delta
    if delta >= 1:
        return True
    concentrated = _concentrated_delta(sequence, epsilon, failure)
    if concentrated <= delta:
        return _checked(sequence, epsilon, concentrated) <= delta
    return delta_of(sequence, epsilon) <= delta


def exceeds(sequence: Sequence, epsilon: Fraction, delta: Fraction) -> bool:
    """Return True only if a sequence surely does not keep (epsilon, delta): by lower ends of delta.

    They are those of each atom alone, and of finite losses and Gaussian atoms together. Failures add to them.

    Args:
        epsilon: positive.
        delta: where it is 0, the largest loss decides, exactly.
    """
    if not delta:
        bound = max_loss(sequence)
        return bound is None or bound > epsilon
    epsilon = min(epsilon, _MAX_EPSILON)
    alone = [atom.least(epsilon) for atom, _ in sequence if not isinstance(atom, Failure)]
    return failures(sequence) + Fraction(max(0.0, _least_together(sequence, epsilon), *alone)) > delta


def _least_together(sequence: Sequence, epsilon: Fraction) -> float:
    """Return a lower end of delta at epsilon of the finite losses and the Gaussian atoms of a sequence together."""
    parts = tuple([pair for pair in sequence if isinstance(pair[0], Response | Discrete | Gaussian)])
    finite = tuple([pair for pair in parts if not isinstance(pair[0], Gaussian)])
    if sum(count for _, count in finite) > MOST_COMPOSED or convolutions(finite) > MOST_CONVOLUTIONS:
        return 0.0
    lattice, mu = _lattice(finite), total_mu(parts) * (1 - 2.0**-49)
    above = float(epsilon + lattice.raised)
    gaps = above - lattice.losses() + 2.0**-50 * (above + np.abs(lattice.losses()))
    pieces = -np.expm1(np.minimum(gaps, 0.0))
    if mu > 0:
        pieces = np.array([gained - lost for gained, lost in (gaussian_terms(gap, mu, -1.0) for gap in gaps.tolist())])
    error = lattice.relative_error + 2.0**-50 * (len(gaps) + 1) + _LEAST_ERROR
    return float(lattice.masses @ np.maximum(pieces - SMALLEST, 0.0)) * (1 - error) - _MOST_MOVED


def concentration(atom: Atom) -> Fraction | None:
    """Return the rho of the zero-concentrated privacy that an atom has, or None where it is not known.

    Source: BunSteinke, Propositions 1.4 and 1.6; CesarRogers for a bounded range.
    """
    if isinstance(atom, Gaussian):
        return Fraction(atom.mu) ** 2 / 2
    if isinstance(atom, BoundedRange):
        return atom.eta**2 / 8
    return atom.epsilon**2 / 2 if isinstance(atom, Response) else None


def concentrated_delta(rho: Fraction, epsilon: Fraction, failure: Fraction) -> float:
    """Return an upper bound of delta at epsilon where the concentrated rates add up to rho.

    Source: BunSteinke, Proposition 1.3.
    """
    if rho >= epsilon:
        return 1.0
    rate = (float(rho) + SMALLEST) * (1 + _RATE_ERROR)
    gap = float(epsilon) * (1 - _RATE_ERROR) - rate
    if gap <= 0:
        return 1.0
    return min(
        1.0, math.exp(-(gap**2) / (4 * rate) * (1 - _RATE_ERROR)) * (1 + _RATE_ERROR) + _float_up(failure) + SMALLEST
    )


def _concentrated_delta(sequence: Sequence, epsilon: Fraction, failure: Fraction) -> float:
    rho = total_concentration(sequence)
    return 1.0 if rho is None else concentrated_delta(rho, epsilon, failure)


@lru_cache(maxsize=256)
def total_concentration(sequence: Sequence) -> Fraction | None:
    """Return the rho of a whole sequence, failures aside, or None if the rho of an atom is unknown."""
    total = Fraction(0)
    for atom, count in sequence:
        rate = Fraction(0) if isinstance(atom, Failure) else concentration(atom)
        if rate is None:
            return None
        total += count * rate
    return total


def failures(sequence: Sequence) -> Fraction:
    """Return the probability of all failures together, at most."""
    return sum((count * atom.delta for atom, count in sequence if isinstance(atom, Failure)), Fraction(0))


def _beyond(sequence: Sequence, epsilon: Fraction) -> bool:
    """Return True when no loss exceeds epsilon, failures aside."""
    bound = max_loss(tuple(pair for pair in sequence if not isinstance(pair[0], Failure)))
    return bound is not None and epsilon >= bound


def finite_losses(sequence: Sequence) -> list[Fraction]:
    """Return the losses that the finite atoms of a sequence can add up to, on their lattice."""
    lattice = _lattice(tuple(pair for pair in sequence if isinstance(pair[0], Response | Discrete)))
    return [(lattice.first + int(i)) * lattice.step for i in np.flatnonzero(lattice.masses)]


def _float_up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def total_mu(sequence: Sequence) -> float:
    """Return the mu of all Gaussian parts together, rounded up. Source: Dong, Roth, Su (2019), Corollary 3.3."""
    squares = [count * Fraction(atom.mu) ** 2 for atom, count in sequence if isinstance(atom, Gaussian)]
    total = min(sum(squares, Fraction(0)), _MAX_SQUARE)
    return math.sqrt(_float_up(total)) * (1 + 2.0**-51) if total else 0.0


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Upper bound of Phi(mu/2 - epsilon/mu) - e**epsilon Phi(-mu/2 - epsilon/mu).

    Source: Balle and Wang (2018), Theorem 8.
    """
    gained, lost = gaussian_terms(epsilon, mu, 1.0)
    return min(1.0, max(0.0, gained - lost) + SMALLEST)


@lru_cache(maxsize=256)
def _lattice(sequence: Sequence) -> _Lattice:
    """Return the loss distribution of all finite atoms of a sequence on one lattice."""
    if not sequence:
        return _Lattice(Fraction(1), 0, np.ones(1), 0.0)
    limit = MAX_LATTICE_POINTS
    while convolutions(sequence) * limit**2 > MOST_PRODUCTS and limit > MIN_TRIMMED_POINTS:
        limit //= 2
    step = _step(sequence, limit)
    lattices = (replace(_atom_lattice(atom, step), limit=limit) for atom, _ in sequence)
    powers = (_power(lattice, count) for lattice, (_, count) in zip(lattices, sequence, strict=True))
    return reduce(lambda left, right: left @ right, powers)


def convolutions(sequence: Sequence) -> int:
    """Return how many convolutions of lattices the finite losses and curves of a sequence take."""
    counts = [count for atom, count in sequence if not isinstance(atom, Gaussian | Failure)]
    return sum(count.bit_length() + count.bit_count() - 1 for count in counts)


def _step(sequence: Sequence, limit: int = MAX_LATTICE_POINTS) -> Fraction:
    """Return the largest step that all losses are multiples of; a coarser one if an atom needs too many points.

    Curves have no step of their own: it is halved until it is fine enough for them, or as fine as the largest bears.
    """
    lists = [[loss for loss, _ in atom.masses()] for atom, _ in sequence if isinstance(atom, Response | Discrete)]
    curves = [Fraction(atom.reach) for atom, _ in sequence if isinstance(atom, NumericAtom)]
    reach = max([max(losses) - min(losses) for losses in lists] + [2 * curve for curve in curves])
    floor, step = 4 * reach / limit, Fraction(0)
    for loss in filter(None, chain(*lists)):
        step = _common_step(step, loss)
        if step <= floor:
            break
    step = max(step or Fraction(1), floor)
    while curves and step * min(MIN_CURVE_STEPS, limit // 4) > min(curves) and step * limit > reach:
        step /= 2
    return step


def _common_step(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _atom_lattice(atom: Atom, step: Fraction) -> _Lattice:
    """One atom on the lattice, losses rounded up to it."""
    if isinstance(atom, NumericAtom):
        return _curve_lattice(atom, step)
    assert isinstance(atom, Response | Discrete)
    cells = [(math.ceil(loss / step), mass) for loss, mass in atom.masses()]
    first = min(cell for cell, _ in cells)
    masses = np.zeros(max(cell for cell, _ in cells) - first + 1)
    for cell, mass in cells:
        masses[cell - first] += float(mass)
    raised = max(cell * step - loss for (cell, _), (loss, _) in zip(cells, atom.masses(), strict=True))
    return _Lattice(step, first, masses, (len(cells) + 1) * 2.0**-52, raised=raised)


@lru_cache(maxsize=256)
def _curve_lattice(curve: NumericAtom, step: Fraction) -> _Lattice:
    """Return a lattice whose curve lies above the upper ends of another: straight lines between points, in e^epsilon.

    Source: Doroshenko, Algorithm 1.
    """
    places = _curve_multiples(math.ceil(curve.reach / step))
    points = len(places) - 1
    places = np.concatenate([-places[:0:-1], places])
    losses = np.asarray(places * float(step), dtype=np.float64)
    growths = np.exp(losses)
    above, below = curve.upper(losses[points:]), curve.reversed().upper(-losses[:points])
    deltas = np.concatenate([-np.expm1(losses[:points]) + growths[:points] * below, above])
    slopes = -np.diff(np.concatenate([[1.0], deltas, deltas[-1:]])) / np.diff(
        np.concatenate([[0.0], growths, [np.inf]])
    )
    steepest = np.maximum.accumulate(np.maximum(slopes, 0.0)[::-1])[::-1]
    masses = np.zeros(places[-1] - places[0] + 1)
    masses[places - places[0]] = (steepest[:-1] - steepest[1:]) * growths
    return _Lattice(step, int(places[0]), masses, _DOTS_ERROR, float(deltas[-1])).trimmed()


def loss_lattice(sequence: Sequence) -> _Lattice:
    """Return a lattice whose curve bounds a sequence without its Gaussian atoms and failures."""
    return _lattice(tuple(pair for pair in sequence if isinstance(pair[0], Response | Discrete | NumericAtom)))


def _curve_multiples(last: int) -> Integers:
    """Return the multiples of a step, 0 to `last`, at which a curve is read: all of the first, few of the others."""
    growths = max(0, math.ceil(math.log(max(last, 1) / DENSE_CURVE_STEPS, CURVE_STEP_GROWTH)))
    far = np.ceil(DENSE_CURVE_STEPS * CURVE_STEP_GROWTH ** np.arange(growths))
    return np.unique(np.minimum(np.concatenate([np.arange(DENSE_CURVE_STEPS), far, [last]]), last)).astype(np.int64)


def _power(lattice: _Lattice, count: int) -> _Lattice:
    """Return the lattice of `count` independent copies, by repeated squaring."""
    result, square = None, lattice
    while count:
        if count & 1:
            result = square if result is None else result @ square
        count >>= 1
        square = square @ square if count else square
    assert result is not None
    return result
