"""Log-linear regression of a private count on public features."""

from dataclasses import dataclass, field

import numpy as np

from labeldp.inference.effects import certain_squares, sums_by_user
from labeldp.inference.groups import Codes
from labeldp.inference.intervals import end_of_tests, spread_of, student_quantile
from labeldp.privacy import Floats

FARTHEST = 30.0
"""A log rate, for a standard deviation of what is left of a column without the others; more is unbounded."""


@dataclass(frozen=True)
class LogLinear:
    """The estimating equations of E(number | x) = exp(x b), for unbiased numbers of any law.

    Their solution is the maximum of a concave function, that of Poisson numbers; single numbers may be negative.

    Args:
        design: orthonormal columns, shape (n, d); see `orthonormal`.
        number: unbiased numbers, shape (n,).
        users: the user of each record, if users have several.
    """

    design: Floats = field(repr=False)
    number: Floats = field(repr=False)
    users: Codes | None = field(default=None, repr=False)

    @property
    def start(self) -> Floats:
        """The coefficients of a constant mean, shape (d,)."""
        return np.asarray(self.design.mean(axis=0) * np.log(max(float(self.number.mean()), 1e-9)))

    def _value(self, coefficients: Floats) -> tuple[float, Floats]:
        """Return the concave function and the means, shape (n,)."""
        rates = np.minimum(self.design @ coefficients, 2 * FARTHEST)
        means = np.exp(rates)
        return float(self.number @ rates - means.sum()), means

    def climbed(self, start: Floats, held: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the coefficients at the maximum, and the means there; those along `held` stay unchanged."""
        across = np.zeros((len(start), len(start))) if held is None else np.outer(held, held)
        free = np.eye(len(start)) - across
        coefficients, (value, means) = start, self._value(start)
        for _ in range(60):
            slope = free @ (self.design.T @ (self.number - means))
            information = (self.design * means[:, None]).T @ self.design
            size = max(float(np.trace(information)), 1e-12)
            move = np.linalg.solve(free @ information @ free + across * size + 1e-9 * size * free, slope)
            move *= min(1.0, 2 / max(float(np.abs(move).max()), 1e-9))
            part, after = 1.0, self._value(coefficients + move)
            while part > 1e-6 and not after[0] >= value - 1e-10:
                part /= 2
                after = self._value(coefficients + part * move)
            coefficients, gain = coefficients + part * move, after[0] - value
            value, means = after
            if abs(gain) < 1e-8 * (1 + abs(value)) or float(np.abs(coefficients).max()) > FARTHEST:
                break
        return coefficients, means

    def moves(self, direction: Floats, means: Floats) -> tuple[Floats, Floats]:
        """Return by how much each record, or user, moves a linear function of the coefficients, and weights of records.

        Both have the shape (n,) or (users,); weights are those of the numbers, squared.
        """
        terms = self.design @ self._solved(direction, means)
        both = np.stack([terms * (self.number - means), terms], axis=1)
        if self.users is None:
            return both[:, 0], both[:, 1] ** 2
        totals, alone = sums_by_user(both, self.users)
        return totals[:, 0], np.maximum(totals[:, 1] ** 2, alone[:, 1])

    def _solved(self, direction: Floats, means: Floats) -> Floats:
        """Return the inverse of the information times a direction, shape (d,)."""
        information = (self.design * means[:, None]).T @ self.design
        return np.linalg.solve(information + 1e-12 * np.trace(information) * np.eye(len(direction)), direction)

    def ends(
        self, direction: Floats, optimum: Floats, means: Floats, level: float
    ) -> tuple[float, float, float, float]:
        """Return a linear function of the coefficients, the ends that a score test does not refuse, and its variance.

        Args:
            direction: the weights of the function, shape (d,).
            optimum, means: of `climbed`.
            level: coverage.

        Source: Rao for score tests; the variance is that of the scores, as in HC0.
        """
        moved, weights = self.moves(direction, means)
        variance, certain = certain_squares(moved, float(len(moved)))
        freedom = min(float(spread_of(weights)[0]), float(certain), len(moved) - 1.0)
        limit = float(student_quantile(level, freedom)) * float(np.sqrt(len(moved) / max(len(moved) - 1, 1)))
        length = float(np.linalg.norm(direction))
        held, center = direction / length, float(direction @ optimum) / length
        step = limit * float(np.clip(np.sqrt(variance) / length, 1e-3, 2.0))

        along = self._solved(held, means)
        along /= held @ along

        def over(at: float) -> float:
            """Return by how much the score exceeds its limit; other coefficients move as they do near the optimum."""
            scores, _ = self.moves(direction, self.climbed(optimum + (at - center) * along, held)[1])
            return abs(float(scores.sum())) / max(float(np.sqrt((scores**2).sum())), 1e-300) - limit

        if not np.isfinite(limit) or abs(center) >= FARTHEST or not self.number.mean() > 0:
            return float("nan"), -np.inf, np.inf, float("inf")
        low, high = (end_of_tests(over, center, limit, sign * step, FARTHEST) for sign in (-1, 1))
        return center * length, low * length, high * length, float(variance)
