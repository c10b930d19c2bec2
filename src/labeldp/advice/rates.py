"""What privacy costs before any data: the exponents of Table I of Zhao, and the balance of bias and noise in one cell.

Exponents leave constants out: they compare, they do not predict. The balance has the constants of our mechanisms.

The proofs minimize the same sum, with the order of the noise in place of its variance. The unit is the most that the
regression function moves across the unit cube; for numbers it is half of the range.
"""

import math
from dataclasses import dataclass
from typing import Any

from labeldp.privacy import (
    InputError,
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    positive_epsilon,
    smallest_positive,
)

TASKS = ("classification", "regression", "heavy-tailed")
"""Tasks that a rate is known for."""

TRUSTS = ("local", "central")
"""Who may see the labels."""

PROTECTIONS = ("label", "full", "none")
"""What is private: the label, features too, or nothing."""

SPREAD = 0.5
"""The default standard deviation of the labels of similar records, in units of half the range."""

MIN_RECORDS_INSIDE = 1e-9
"""The fewest records expected in a cube; a smaller optimum means that labels hardly scatter."""

MIN_EPSILON = 1e-9
"""The smallest epsilon that is accepted; nothing can be learned with less."""


@dataclass(frozen=True)
class Term:
    """One term of a rate: (records · epsilon^power / logarithm)^-exponent.

    Args:
        exponent: exponent of the records.
        power: exponent of epsilon: 0, 1 or 2.
        capped: whether an epsilon above 1 counts as 1.
    """

    exponent: float
    power: int
    capped: bool = False

    def value(self, records: float, epsilon: float, logarithm: float = 1.0) -> float:
        """Return the term at a number of records; `logarithm` is ln K for classes, else 1."""
        return float((records * self._weight(epsilon) / logarithm) ** -self.exponent)

    def records(self, value: float, epsilon: float, logarithm: float = 1.0) -> float:
        """Return the number of records at which the term has a value."""
        return float(value ** (-1 / self.exponent) * logarithm / self._weight(epsilon))

    def _weight(self, epsilon: float) -> float:
        """Return the factor by which epsilon weighs one record."""
        return float((min(epsilon, 1.0) if self.capped else epsilon) ** self.power)


def rate_terms(
    *,
    task: str,
    trust: str = "local",
    protection: str = "label",
    dimension: int,
    beta: float = 1.0,
    margin: float = 0.0,
    moments: float = 2.0,
) -> tuple[Term, ...]:
    """Return the terms whose sum is the rate of a row of Table I; the one without privacy first where there are two.

    Args:
        task: "classification", "regression" (labels in an interval) or "heavy-tailed" (labels with bounded moments).
        trust: "local" or "central".
        protection: "label"; "full" for features too; "none", where `trust` says nothing.
        dimension: d, of the features.
        beta: Hölder smoothness, in (0, 1].
        margin: Tsybakov's γ of classes, at least 0; margin · beta at most d.
        moments: p, at least 2: E|label|^p is bounded. For "heavy-tailed" alone.

    Raises:
        InputError: a choice that does not exist, or a number out of its range.

    Source: Zhao, Table I, with the theorems of `SOURCES` and `docs/theory/corrections.md`.
    """
    check_choice(task, "task", TASKS)
    check_choice(trust, "trust", TRUSTS)
    check_choice(protection, "protection", PROTECTIONS)
    size = check_integer(dimension, "dimension")
    smooth = check_smoothness(beta, margin, size)
    power = risk_power(task, smooth, margin)
    tail = _tail(task, moments)
    public = Term(power / (2 * smooth + size), 0)
    if protection == "none":
        return (public,)
    if trust == "central":
        return public, Term(power / (smooth * tail + size), 1)
    if protection == "full":
        return public, Term(power / (2 * smooth * tail + 2 * size), 2)
    private = Term(power / (2 * smooth * tail + size), 2, capped=tail == 1)
    return (private,) if tail == 1 else (public, private)


def exponent(**setting: Any) -> float:
    """Return a where the risk falls as N^-a for fixed epsilon: the smallest exponent of the terms.

    Args:
        setting: the arguments of `rate_terms`.

    Source: Zhao, Table I.
    """
    return min(term.exponent for term in rate_terms(**setting))


@dataclass(frozen=True)
class CellNoise:
    """The variance of the answer in a cell with n of N records: the scatter of labels and the noise of privacy.

    Args:
        scatter: variance of one record's label around its mean; counts 1/n times.
        record: variance of the noise on one record's label; counts T²/n times.
        cell: variance of the noise on one cell; counts T²/n² times.
        everyone: variance of the noise that every record adds to every cell; counts T² N/n² times.
    """

    scatter: float
    record: float = 0.0
    cell: float = 0.0
    everyone: float = 0.0

    def variance(self, inside: float, records: float, *, reach: float = 1.0) -> float:
        """Return the variance of the answer.

        Args:
            inside: n, records in the cell.
            records: N.
            reach: T, where labels are clipped to [-T, T].
        """
        return self.scatter / inside + reach**2 * self.added(inside, records)

    def added(self, inside: float, records: float) -> float:
        """Return the variance that privacy adds at T = 1."""
        return self.record / inside + (self.cell + self.everyone * records) / inside**2


@dataclass(frozen=True)
class Balance:
    """The cube at which squared bias plus variance is least.

    Args:
        side: h, side of the cubes, at most 1.
        inside: n, records in a cube.
        reach: T, clipping radius of labels with moments; 1 for others.
        error: squared bias plus variance.
    """

    side: float
    inside: float
    reach: float
    error: float


def cell_noise(
    *, task: str, trust: str = "local", protection: str = "label", epsilon: Any = None, spread: float = SPREAD
) -> CellNoise:
    """Return the noise of a cell's answer; for classes, of the difference between the shares of the leading two.

    Args:
        task: "classification", "regression" or "heavy-tailed".
        trust: "local" or "central".
        protection: "label", "full" or "none".
        epsilon: of the release; without protection it may be missing.
        spread: standard deviation of the labels of similar records, for numbers, in units of half the range.

    Source: `docs/proofs/learning.md`, for the mechanisms of Zhao, eq. (11), (17), (20), (23), (31), (33) and (36).
    """
    check_choice(task, "task", TASKS)
    check_choice(trust, "trust", TRUSTS)
    check_choice(protection, "protection", PROTECTIONS)
    scatter = 1.0 if task == "classification" else check_positive(spread, "spread") ** 2
    if protection == "none":
        return CellNoise(scatter)
    if epsilon is None:
        raise InputError("epsilon is missing")
    exact = float(positive_epsilon(epsilon))
    if exact < MIN_EPSILON:
        raise InputError(f"epsilon must be at least {MIN_EPSILON:g}: with less nothing can be learned")
    laplace = 2 / exact**2  # the variance of noise of sensitivity 1
    if task == "classification":
        if trust == "central":
            return CellNoise(scatter, cell=4 * laplace)
        if protection == "full":
            return CellNoise(scatter, everyone=8 * laplace)
        return CellNoise(scatter, record=1 / (2 * math.sinh(exact / 4) ** 2))
    if trust == "central":
        return CellNoise(scatter, cell=(64 if protection == "full" else 4) * laplace)
    if protection == "full":
        return CellNoise(scatter, everyone=32 * laplace)
    return CellNoise(scatter, record=2 * (2 - math.exp(-exact / 2)) * laplace)


def balance(
    *, records: float, noise: CellNoise, dimension: int, beta: float = 1.0, moments: float = math.inf
) -> Balance:
    """Find the side of cubes, and for heavy tails the clipping radius, with the least squared bias plus variance.

    h^(2β) + (T^(1-p)/(p-1))² + variance of the noise with n = N h^d records.

    Args:
        records: N.
        noise: as `cell_noise` gives it.
        dimension: d.
        beta: Hölder smoothness, in (0, 1].
        moments: p, at least 2, with E|label|^p at most 1; infinite for bounded labels.

    Source: Zhao, eq. (150), (163), (190) and (203).
    """
    count, size = check_positive(records, "records"), check_integer(dimension, "dimension")
    smooth, order = check_smoothness(beta, 0.0, size), check_moments(moments)

    def at(exponent: float) -> Balance:
        side = math.exp(exponent)
        inside = count * side**size
        added = noise.added(inside, count)
        reach = 1.0 if order == math.inf else _reach(added, order)
        cut = 0.0 if order == math.inf else reach ** (1 - order) / (order - 1)
        error = side ** (2 * smooth) + cut**2 + noise.scatter / inside + (reach**2 * added if added else 0.0)
        return Balance(side, inside, reach, error)

    low, high = math.log(MIN_RECORDS_INSIDE / count) / size, 0.0
    while high - low > 1e-10:  # the error is convex in the logarithm of the side: a sum of powers
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if at(first).error < at(second).error else (first, high)
    return at((low + high) / 2)


def relative_records(
    *, records: float, dimension: int, beta: float = 1.0, moments: float = math.inf, noise: CellNoise
) -> float:
    """Return how many times N records are needed with this noise for the error of N records without privacy.

    Args:
        records: N.
        dimension: d.
        beta: Hölder smoothness, in (0, 1].
        moments: p, at least 2, where labels have heavy tails; infinite for bounded ones.
        noise: as `cell_noise` gives it.

    Source: `docs/proofs/learning.md`.
    """
    setting: dict[str, Any] = {"dimension": dimension, "beta": beta, "moments": moments}
    goal = balance(records=records, noise=CellNoise(noise.scatter), **setting).error
    multiple = smallest_positive(
        lambda times: balance(records=records * times, noise=noise, **setting).error <= goal, tol=1e-6, limit=1e300
    )
    assert multiple is not None
    return multiple


def _reach(added: float, order: float) -> float:
    """Return the clipping radius T that minimizes T² times the noise plus (T^(1-p)/(p-1))²."""
    return math.inf if added == 0 else (added * (order - 1)) ** (-1 / (2 * order))


def check_smoothness(beta: Any, margin: Any, dimension: int) -> float:
    """Return the smoothness, in (0, 1], after checking that the margin is at least 0 and their product at most d.

    Raises:
        InputError: another value.
    """
    smooth = check_positive(beta, "beta")
    if smooth > 1:
        raise InputError("beta must lie in (0, 1]: a function that is smoother than that in this sense is constant")
    if smooth * check_nonnegative(margin, "margin") > dimension:
        raise InputError(f"margin · beta must be at most {dimension}, the dimension: no smooth classes are clearer")
    return smooth


def check_moments(moments: Any) -> float:
    """Return the number of bounded moments, at least 2; infinite for bounded labels.

    Raises:
        InputError: another value.
    """
    order = math.inf if moments == math.inf else check_positive(moments, "moments")
    if order < 2:
        raise InputError("moments must be at least 2: without a variance even learning without privacy is slower")
    return order


def risk_power(task: str, beta: float, margin: float) -> float:
    """Return a where the risk is h^a for cubes of side h."""
    return beta * (margin + 1) if task == "classification" else 2 * beta


def _tail(task: str, moments: Any) -> float:
    """Return p/(p - 1) for labels with p moments and 1 for bounded ones, the factor by which tails slow privacy."""
    order = check_moments(moments) if task == "heavy-tailed" else math.inf
    return 1.0 if order == math.inf else order / (order - 1)
