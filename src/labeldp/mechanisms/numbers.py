"""Private numbers with few outputs: outputs that average to the label, or bins of the range."""

import hashlib
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from math import exp, log, sqrt
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
    integer_row,
    refuse_large,
    words_for,
)
from labeldp.mechanisms.domains import Codes, Interval, require_domain
from labeldp.mechanisms.inputs import PublicInput, prior_rows
from labeldp.mechanisms.randomized_response import ResponseLaw, respond
from labeldp.privacy import (
    WORD,
    Flags,
    Floats,
    Ids,
    InputError,
    PrivacyLoss,
    Randomness,
    check_choice,
    check_integer,
    exp_bounds,
    positive_epsilon,
    set_fields,
)

MAX_POINTS = 65
"""Labels that the linear program has a row for; one between two of them is rounded to either, without a bias."""

MAX_GRID = (1 << 12) + 1
"""Grid points of a domain: the table has a row for each."""

LEAST_GAIN = 0.01
"""The optimum is taken where its variance is smaller by this part than that of two points."""

LEAST_MASS = 1e-9
"""An output that no label has with a larger probability is left out."""

LARGEST_GROWTH = exp(12)
"""Odds of which the linear program makes use: beyond, there is hardly any noise left to save."""

MAX_BINS = 64

MAX_CUTS = 256
"""Places where a bin may begin, in a finer grid."""


@final
@dataclass(frozen=True, kw_only=True)
class UnbiasedNumbers(FiniteMechanism):
    """Answer each number by one of a few outputs, which average to the number itself, with little noise.

    For small epsilon there are two outputs beyond the two ends of the range. Above an epsilon of about 1.5 a linear
    program finds the outputs and probabilities of least variance. The noise is always less than that of
    `DiscreteLaplace`: at epsilon = 1 about .75 of its standard deviation, at 4 about .4.

    Args:
        domain: `Interval`, with at most 4,097 grid points.
        prior: how frequent each grid point is, shape (grid,), a `Release` or `Public(array, why="…")`: the variance is
            the smallest under it. Without one, all are equally frequent.

    What is released are places in `outputs`, shape (n,): see `unbiased`.

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits, whatever the prior.

    Raises:
        InputError: a domain without numbers, or numbers out of range.

    Source: BadanidiyuruUnbiased; `docs/proofs/finite-mechanisms.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> mechanism = UnbiasedNumbers(domain=Interval(0, 1, grid=2), epsilon=1.0)
        >>> mechanism.outputs.round(3)
        array([-0.582,  1.582])
    """

    domain: Interval = field(kw_only=False)
    prior: InitVar[Any] = field(default=None, kw_only=False)
    chances: Floats = field(init=False, repr=False, compare=False)
    outputs: Floats = field(init=False, repr=False, compare=False)
    law: Weights = field(init=False, repr=False, compare=False)

    def __post_init__(self, prior: Any) -> None:
        super().__post_init__()
        chances, inputs = _prior_of(self.domain, prior)
        if len(chances) > MAX_GRID:
            raise InputError(f"must have a grid of at most {MAX_GRID:,} points for UnbiasedNumbers", argument="domain")
        set_fields(self, chances=chances, public_inputs=inputs)
        self._calibrate()

    def _calibrate(self) -> None:
        """Compute outputs and weights; the guarantee is checked in integers."""
        epsilon = positive_epsilon(self.epsilon)
        points = np.unique(np.rint(np.linspace(0, self.domain.size - 1, min(self.domain.size, MAX_POINTS))).astype(int))
        outputs, law = _two_points(points, ResponseLaw.of(2, epsilon))
        if len(points) > 2:
            shares = _rounded_prior(self.chances, points)
            optimum = _optimum(tuple(points.tolist()), shares.tobytes(), epsilon)
            if optimum is not None and _spread(*optimum, points, shares) < (1 - LEAST_GAIN) * _spread(
                outputs, law, points, shares
            ):
                outputs, law = optimum
        _check(law, epsilon)
        set_fields(self, outputs=float(self.domain.low) + outputs * self.domain.step, law=_interpolated(law, points))

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere; with two outputs, exact everywhere."""
        if len(self.outputs) == 2:
            return PrivacyLoss.response(self.epsilon, 2)
        return PrivacyLoss.pure(self.epsilon)

    def parameters(self) -> dict[str, Any]:
        digest = hashlib.sha256(self.outputs.astype("<f8").tobytes())
        digest.update(b"".join(int(weight).to_bytes(9, "little") for weight in self.law.flat))
        return {**super().parameters(), "outputs": len(self.outputs), "law": digest.hexdigest()}

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {"prior": self.chances} if self.public_inputs else {}

    @property
    def published(self) -> str:
        return (
            f"one noisy number per record (one of {len(self.outputs)} values with the label as mean, "
            f"sd {self.noise_stddev:.3g})"
        )

    @property
    def bias(self) -> float:
        """The largest distance of a label from the mean of its outputs, in the unit of the labels: rounding alone."""
        return float(np.abs(self.matrix() @ self.outputs - self._labels).max())

    @property
    def noise_variances(self) -> Floats:
        """The variance of the answer for each grid point, shape (grid,), in the square of the unit of the labels."""
        chances = self.matrix()
        return np.asarray((chances * (self.outputs - self._labels[:, None]) ** 2).sum(axis=1))

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise for a label as frequent as the prior says."""
        return sqrt(float(self.chances @ self.noise_variances))

    @property
    def _labels(self) -> Floats:
        return self.domain.decode(np.arange(self.domain.size))

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        low, high = number(float(self.outputs[0])), number(float(self.outputs[-1]))
        return (
            f"Each label is replaced by one of {len(self.outputs)} values in [{low}, {high}] with the label as its "
            f"mean (noise standard deviation {number(self.noise_stddev)})."
        )

    def tables(self) -> list[Table]:
        return [Table(self.law, "table")]

    def weights(self) -> Weights:
        """Exact weights, shape (grid, outputs)."""
        return self.law

    @cached_property
    def _edges(self) -> NDArray[np.uint64]:
        return edges_of(self.law)

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        return draw_places(words_for(randomness, ids), self._edges, codes)

    def values(self, noisy: Any) -> Floats:
        """Return the outputs of places in them, shape (n,).

        Raises:
            InputError: not what this mechanism released.
        """
        return np.asarray(self.outputs[check_places(noisy, len(self.outputs), "outputs")])

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased labels, shape (n,), in their unit: the outputs."""
        reach = float(np.abs(self.outputs - (self.domain.low + self.domain.high) / 2).max())
        return Debiased(self.values(noisy), reach / ((self.domain.high - self.domain.low) / 2))


@final
@dataclass(frozen=True, kw_only=True)
class ResponseOnBins(FiniteMechanism):
    """Randomized response over a few intervals of the range: which of them a number lies in.

    An answer says more of a label than the outputs of `UnbiasedNumbers` do, but none of it averages to the label: learn
    from it by its likelihood, as from classes in order, and not as if it were a number.

    Args:
        domain: `Interval`.
        prior: how frequent each grid point is, shape (grid,), a `Release` or `Public(array, why="…")`; without one, all
            are equally frequent.
        bins: how many, at least 2; "best" takes the number whose answers are nearest to the labels in mean square.
        cuts: where bins begin: "nearest" has the answers nearest to the labels in mean square, which of several bins
            may make some tiny; "even" has bins as frequent as each other under the prior, which tell the most bits.

    What is released are the numbers of bins, shape (n,): see `likelihood`, `edges` and `centers`.

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits, whatever the prior.

    Raises:
        InputError: a domain without numbers, or numbers out of range.

    Source: GhaziBins; `docs/proofs/finite-mechanisms.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> mechanism = ResponseOnBins(domain=Interval(0, 100, grid=101), epsilon=2.0, bins=4)
        >>> mechanism.centers
        array([18.5, 43.5, 56. , 81.5])
    """

    column_ending: ClassVar[str] = "_bin"
    plain: ClassVar[tuple[str, ...]] = ("epsilon", "bins", "cuts")
    domain: Interval = field(kw_only=False)
    prior: InitVar[Any] = field(default=None, kw_only=False)
    bins: int | str = "best"
    cuts: str = "nearest"
    chances: Floats = field(init=False, repr=False, compare=False)
    first: NDArray[np.intp] = field(init=False, repr=False, compare=False)
    law: ResponseLaw = field(init=False, repr=False, compare=False)

    def __post_init__(self, prior: Any) -> None:
        super().__post_init__()
        chances, inputs = _prior_of(self.domain, prior)
        largest = min(self.domain.size, MAX_BINS)
        if self.bins != "best":
            check_integer(self.bins, "bins", 2, largest, advice=', or "best"')
        check_choice(self.cuts, "cuts", ("nearest", "even"))
        set_fields(self, chances=chances, public_inputs=inputs)
        first = _best_bins(chances, _odds(positive_epsilon(self.epsilon)), largest, self.bins)
        if self.cuts == "even":
            first = _even_bins(chances, len(first))
        set_fields(self, first=first, bins=len(first))
        self._calibrate()

    def _calibrate(self) -> None:
        """Compute the integer law of the answered bin."""
        set_fields(self, law=ResponseLaw.of(len(self.first), positive_epsilon(self.epsilon)))

    def privacy_loss(self) -> PrivacyLoss:
        """Return that of randomized response over the bins."""
        return PrivacyLoss.response(self.epsilon, len(self.first))

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {"prior": self.chances} if self.public_inputs else {}

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "bins": [int(first) for first in self.first]}

    @property
    def published(self) -> str:
        return (
            f"one noisy bin per record (randomized response on {len(self.first)} bins, true bin kept with probability "
            f"{self.keep_probability:.3f})"
        )

    @property
    def keep_probability(self) -> float:
        """P(the answer is the label's bin)."""
        return self.law.keep / WORD

    @property
    def edges(self) -> Floats:
        """The ends of the bins, in the unit of the labels, shape (bins + 1,): half-way between two grid points."""
        inner = float(self.domain.low) + (self.first[1:] - 0.5) * self.domain.step
        return np.concatenate([[float(self.domain.low)], inner, [float(self.domain.high)]])

    @property
    def names(self) -> list[str]:
        """Each bin as a text: its two ends."""
        return [f"{low:.10g} to {high:.10g}" for low, high in pairwise(self.edges.tolist())]

    @property
    def centers(self) -> Floats:
        """The mean label of each bin under the prior, in the unit of the labels, shape (bins,)."""
        return self.means(self.chances)

    def means(self, chances: Floats) -> Floats:
        """Return the mean label of each bin where grid points are so frequent, in the unit of the labels, (bins,)."""
        mass = np.add.reduceat(chances, self.first)
        labels = self.domain.decode(np.arange(self.domain.size))
        widths = np.diff([*self.first, self.domain.size])
        plain = np.add.reduceat(labels, self.first) / widths
        sums = np.add.reduceat(chances * labels, self.first)
        return np.where(mass > 0, sums / np.where(mass > 0, mass, 1), plain)

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        return (
            f"Each record releases one of {len(self.first)} bins of the range. It is the true bin with probability "
            f"{self.keep_probability:.3f}."
        )

    def tables(self) -> list[Table]:
        return [Table(self.weights(), "table")]

    def weights(self) -> Weights:
        """Exact weights, shape (grid, bins)."""
        refuse_large(self.domain.size * len(self.first))
        rows = self.law.rows()
        codes = np.arange(self.domain.size).astype(self.domain.dtype)
        return np.array([rows[bin_number] for bin_number in self.bin_of(codes)], dtype=np.object_)

    def bin_of(self, codes: Codes) -> Codes:
        """Return the bins of codes, shape (n,)."""
        places = np.zeros(np.shape(codes), dtype=np.min_scalar_type(len(self.first)))
        for first in self.first[1:].tolist():  # a binary search would take other branches for other labels
            places += np.asarray(codes) >= first
        return places

    def named(self, noisy: Any) -> Flags:
        """Return which bin each answer names, shape (n, bins)."""
        return self._places(noisy)[:, None] == np.arange(len(self.first))

    def singles(self) -> NDArray[Any]:
        """Return an answer for each bin."""
        return np.arange(len(self.first))

    def likelihood(self, noisy: Any) -> Floats:
        """Return P(answer | bin of the label), shape (n, bins): all that answers say of their labels."""
        return np.where(self.named(noisy), self.law.keep / WORD, self.law.lie / WORD)

    def values(self, noisy: Any) -> Floats:
        """Return the centers of the answered bins, shape (n,)."""
        return np.asarray(self.centers[self._places(noisy)])

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        return respond(self.bin_of(codes), words_for(randomness, ids), self.law)

    def _places(self, noisy: Any) -> Codes:
        return check_places(noisy, len(self.first), "bins")


def _odds(epsilon: Fraction) -> float:
    return exp(min(float(epsilon), log(LARGEST_GROWTH)))


def _prior_of(domain: Any, prior: Any) -> tuple[Floats, tuple[PublicInput, ...]]:
    """Return a probability for each grid point, and where they come from."""
    require_domain(domain, "numbers")
    if prior is None:
        return np.full(domain.size, 1 / domain.size), ()
    rows = prior_rows(prior, domain.size)
    if len(rows) != 1:
        raise InputError("must be one row: a probability for each grid point", argument="prior")
    return rows[0], (PublicInput.of(prior, "prior"),)


def _best_bins(chances: Floats, growth: float, largest: int, wanted: int | str) -> NDArray[np.intp]:
    """Return the first code of each bin: those under which an answer is nearest to its label in mean square.

    An answer v has an expected square distance of k (v - label)^2 over its own bin and a (v - label)^2 over all labels,
    where a is the probability of a given lie and k + a that of the truth. For each number of bins a dynamic program
    goes through where the last one begins.
    """
    cuts = np.unique(np.rint(np.linspace(0, len(chances), min(len(chances), MAX_CUTS) + 1)).astype(int))
    codes = np.arange(len(chances)) / max(len(chances) - 1, 1)
    powers = np.stack([np.concatenate([[0.0], np.cumsum(chances * codes**power)])[cuts] for power in range(3)])
    inside = powers[:, None, :] - powers[:, :, None]  # of the labels from one cut to another
    total = powers[:, -1, None, None]
    after = np.tri(len(cuts), k=-1, dtype=np.bool_).T
    best, best_starts = np.inf, np.array([0], dtype=np.intp)
    numbers = range(2, min(largest, len(cuts) - 1) + 1) if wanted == "best" else (int(wanted),)
    for count in numbers:
        lie = 1 / (growth + count - 1)
        mass, first, second = (growth - 1) * lie * inside + lie * total
        cost = np.where(after, second - first**2 / np.where(after, mass, 1), np.inf)
        costs, begun = cost[0], []
        for _ in range(count - 1):
            sums = costs[:, None] + cost
            begun.append(sums.argmin(axis=0))
            costs = sums.min(axis=0)
        if costs[-1] < best or wanted != "best":
            best, end, starts = costs[-1], len(cuts) - 1, []
            for before in reversed(begun):
                end = int(before[end])
                starts.append(end)
            best_starts = cuts[[0, *reversed(starts)]]
        elif count > len(best_starts) + 4:
            break
    return best_starts


def _even_bins(chances: Floats, count: int) -> NDArray[np.intp]:
    """Return the first code of each bin, where all are as frequent as whole grid points allow and none is empty."""
    below, first = np.concatenate([[0.0], np.cumsum(chances)]), [0]
    for left in range(count - 1, 0, -1):
        start = first[-1]
        wanted = below[start] + (below[-1] - below[start]) / (left + 1)
        nearest = int(np.abs(below - wanted).argmin())
        first.append(int(np.clip(nearest, start + 1, len(chances) - left)))
    return np.array(first, dtype=np.intp)


def _rounded_prior(chances: Floats, points: NDArray[np.intp]) -> Floats:
    """Return the probabilities of the points when labels between two of them are rounded to either without a bias."""
    codes = np.arange(len(chances))
    upper = np.clip(np.searchsorted(points, codes, side="right"), 1, len(points) - 1)
    share = (codes - points[upper - 1]) / (points[upper] - points[upper - 1])
    mass = np.bincount(upper - 1, chances * (1 - share), len(points))
    return np.asarray(mass + np.bincount(upper, chances * share, len(points)))


def _two_points(points: NDArray[np.intp], response: ResponseLaw) -> tuple[Floats, Weights]:
    """Return two outputs beyond the ends of the grid and the weights of both for each point."""
    reach, lie = int(points[-1]), response.lie
    gap = WORD - 2 * lie
    upper = [lie + gap * int(point) // reach for point in points]
    beyond = float(Fraction(reach * lie, gap))
    outputs = np.array([-beyond, reach + beyond])
    return outputs, np.array([[WORD - weight, weight] for weight in upper], dtype=object)


@lru_cache(maxsize=16)
def _optimum(places: tuple[int, ...], prior: bytes, epsilon: Fraction) -> tuple[Floats, Weights] | None:
    """Return the outputs and weights of least variance, or None where no solution survives the rounding.

    Args:
        places: the points.
        prior: their shares, as bytes of doubles: copies of a mechanism solve one program.
        epsilon: the exact privacy parameter.
    """
    points, shares = np.array(places), np.frombuffer(prior)
    reach, growth = float(points[-1]), _odds(epsilon)
    beyond = reach / (growth - 1)
    inner = points[:: max(1, len(points) // 32)]
    near, far = np.linspace(-beyond, reach + beyond, 41), np.linspace(-reach, 2 * reach, 61)
    candidates = np.unique(np.concatenate([near, far, inner]).round(9))
    chances = _program(points, shares, candidates, growth)
    for _ in range(2):  # once more without the outputs that hardly occur
        if chances is None:
            return None
        likely = chances.max(axis=0) > LEAST_MASS
        if likely.all():
            break
        candidates = candidates[likely]
        chances = _program(points, shares, candidates, growth)
    return None if chances is None else _in_integers(candidates, chances, points, epsilon)


def _program(points: NDArray[np.intp], shares: Floats, outputs: Floats, growth: float) -> Floats | None:
    """Return P(output | point) of least variance, shape (points, outputs), of those with the points as means.

    P = t + s with 0 <= s <= (e^epsilon - 1) t, where t is the least probability of an output over all points.
    """
    from scipy.optimize import linprog  # heavy: only here
    from scipy.sparse import coo_matrix

    count, width = len(points), len(outputs)
    unit = float(points[-1])
    x, v = points / unit, outputs / unit
    cost = shares[:, None] * (v[None, :] - x[:, None]) ** 2
    variables = np.arange(count * width)
    of_row, of_column = np.divmod(variables, width)
    floors = count * width + np.arange(width)
    bounded = coo_matrix(
        (
            np.concatenate([np.ones(len(variables)), np.full(len(variables), 1 - growth)]),
            (np.concatenate([variables, variables]), np.concatenate([variables, floors[of_column]])),
        ),
        shape=(len(variables), len(variables) + width),
    )
    rows = np.arange(count).repeat(width)
    all_floors = np.tile(floors, count)
    means = coo_matrix(
        (
            np.concatenate([np.ones(len(variables)), np.ones(len(variables)), v[of_column], np.tile(v, count)]),
            (
                np.concatenate([of_row, rows, count + of_row, count + rows]),
                np.concatenate([variables, all_floors, variables, all_floors]),
            ),
        ),
        shape=(2 * count, len(variables) + width),
    )
    solution = linprog(
        np.concatenate([cost.ravel(), cost.sum(axis=0)]),
        A_ub=bounded,
        b_ub=np.zeros(len(variables)),
        A_eq=means,
        b_eq=np.concatenate([np.ones(count), x]),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.x is None:
        return None
    return np.asarray(solution.x[: len(variables)].reshape(count, width) + solution.x[len(variables) :])


def _in_integers(outputs: Floats, chances: Floats, points: NDArray[np.intp], epsilon: Fraction) -> Any:
    """Return outputs and integer weights, each between the least of its column and e^epsilon times that, or None."""
    growth = exp_bounds(epsilon)[0]
    floors = [max(int(floor * WORD), 0) for floor in chances.min(axis=0).tolist()]
    caps = [growth.numerator * floor // growth.denominator for floor in floors]
    rows = []
    for point, row in zip(points.tolist(), chances.tolist(), strict=True):
        # What rounding left goes to the outputs nearest to the label, which moves its mean least.
        nearest = np.abs(outputs - point).argsort(kind="stable").tolist()
        rows.append(integer_row(row, floors, caps, nearest, nearest))
        if sum(rows[-1]) != WORD:
            return None
    occurs = np.array(floors) > 0
    return outputs[occurs], np.array(rows, dtype=object)[:, occurs]


def _spread(outputs: Floats, law: Weights, points: NDArray[np.intp], shares: Floats) -> float:
    """Return the variance of the noise for points of such shares, in squared grid steps."""
    chances = (law / WORD).astype(np.float64)
    return float(shares @ (chances * (outputs - points[:, None]) ** 2).sum(axis=1))


def _check(law: Weights, epsilon: Fraction) -> None:
    """Refuse weights that do not keep the guarantee; convex combinations of the rows keep it with them."""
    growth = exp_bounds(epsilon)[0]
    for column in law.T:
        if not max(column) * growth.denominator <= min(column) * growth.numerator:
            raise InputError("is too small for a table of 64-bit weights", argument="epsilon")


def _interpolated(law: Weights, points: NDArray[np.intp]) -> Weights:
    """Return weights for every grid point: between two of the points those of both, in shares that keep the mean.

    Each weight is rounded to an integer between those of the two points, so that the ratio of a column stays.
    """
    rows = []
    for lower, upper, below, above in zip(points[:-1].tolist(), points[1:].tolist(), law[:-1], law[1:], strict=True):
        width = upper - lower
        for step in range(width):
            exact = below * (width - step) + above * step
            row = exact // width
            rests = np.flatnonzero(exact % width)
            row[rests[: WORD - sum(row)]] += 1
            rows.append(row)
    return np.array([*rows, law[-1]], dtype=object)
