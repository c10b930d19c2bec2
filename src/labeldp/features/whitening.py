"""Choices of a linear model that need no label: directions, their shares of the noise, and weights of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import AnyFloats, Floats, InputError

MAX_DIMENSION = 1000
"""Directions along which a model is learned at most."""

DECAY = 0.8
"""The expected signal in a unit direction grows with its variance to this power."""

EMBEDDING_DECAY = 1.6
"""The same power for embeddings, whose narrow directions say less (`docs/results/imagenet-features.md`)."""

EXPLAINED = 0.6
"""The share of the labels' variance that a model is expected to explain; both are from `choice-of-defaults.md`."""

DECAYS = (0.4, 0.8, 1.2)
"""Powers among which the released sums choose afterwards."""

EXPLANATIONS = (0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8, 0.95)
"""Shares of the labels' variance that features may explain, among which they choose."""

RESIDUALS = (0.04, 0.1, 0.25, 0.5, 1.0)
"""Shares of that variance that features may leave."""

OFFSET = 0.2
"""The expected square of the mean label, in variances of a uniform class or squared quarters of the interval."""

BLOCK_ROWS = 4096

PROBED_ROWS = 4000

CLIP_SHARES = (0.02, 0.15, 0.4, 0.7, 1.0)

USER_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)

CHOSEN = {
    "MAX_DIMENSION": MAX_DIMENSION,
    "DECAY": DECAY,
    "EMBEDDING_DECAY": EMBEDDING_DECAY,
    "EXPLAINED": EXPLAINED,
    "OFFSET": OFFSET,
    "CLIP_SHARES": CLIP_SHARES,
}
"""The constants of all linear models, on which measured results depend."""


@dataclass(frozen=True)
class Space:
    """Principal directions of a table, scaled to unit variance, the widest first, after a constant 1.

    Args:
        mean: mean of the columns, shape (p,).
        basis: map from columns to directions, shape (p, d).
        variances: variances of the table along them, shape (d,).
    """

    mean: AnyFloats = field(repr=False)
    basis: AnyFloats = field(repr=False)
    variances: AnyFloats = field(repr=False)

    @classmethod
    def of(cls, table: AnyFloats, dimension: int) -> "Space":
        """Return the first principal directions of a table (n, p), at most `dimension`.

        Raises:
            InputError: the table has no variance, or numbers too large for their squares to be summed.
        """
        mean = table.mean(axis=0, dtype=np.float64)
        gram = np.zeros((table.shape[1], table.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(table), BLOCK_ROWS):
                part = table[start : start + BLOCK_ROWS] - mean.astype(table.dtype)
                gram += part.T @ part
        if not np.all(np.isfinite(gram)):
            raise InputError("features must be numbers of ordinary size: these have squares too large to be summed")
        values, vectors = np.linalg.eigh(gram / len(table))
        order = np.argsort(-values)[:dimension]
        order = order[values[order] > 1e-5 * max(float(values.max()), 1e-30)]
        if not len(order):
            raise InputError("features must not be constant, nor of one sample: there is nothing to learn from")
        return cls(mean, vectors[:, order] / np.sqrt(values[order]), values[order])

    def rows(self, table: AnyFloats, columns: NDArray[np.intp] | None = None) -> NDArray[np.float32]:
        """Return a table along the constant and the directions, shape (n, 1 + d); or some of these columns, in order.

        Columns that were chosen lie one after the other in memory, so that sums over them are the same to the bit
        wherever they are added up.
        """
        if columns is not None:
            some = np.empty((len(table), len(columns)), dtype=np.float32, order="F")
            for start in range(0, len(table), BLOCK_ROWS):
                part = slice(start, start + BLOCK_ROWS)
                some[part] = self.rows(table[part])[:, columns]
            return some
        result = np.ones((len(table), 1 + len(self.variances)), dtype=np.float32)
        basis = self.basis.astype(table.dtype)
        for start in range(0, len(table), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            result[part, 1:] = (table[part] - self.mean.astype(table.dtype)) @ basis
        return result

    def signal(self, explained: float, offset: float, decay: float) -> AnyFloats:
        """Return the expected square of each coefficient: `offset` first, `explained` shared among the others."""
        shares = self.variances**decay
        return np.concatenate([[offset], explained * shares / shares.sum()])


RANGE_STEPS = 1 << 20
"""Steps in the range of a column, for `ExactMap`."""

MARGIN = 1.5
"""That range goes beyond what a sample has by so many times its own range, on both sides."""

WEIGHT_STEPS = 1 << 32
"""The sum of the absolute weights of a column's image, for `ExactMap`, in their steps, before they are rounded."""


@dataclass(frozen=True)
class ExactMap:
    """A linear map of rows whose sums are exact: a row has the same image to the bit in any block, on any machine.

    Columns are rounded to steps of a range, four times that of a sample, and weights to steps of their own, so that
    every sum is of integers below 2^53, which doubles hold, in whatever order they are added.

    Args:
        low, span: where the range of each column begins, and its length, shape (p,); what is beyond counts as its end.
        weights: integers, shape (p, c).
        unit: one step of each image, shape (c,).
        offset: added to the images, shape (c,).
    """

    low: Floats = field(repr=False)
    span: Floats = field(repr=False)
    weights: Floats = field(repr=False)
    unit: Floats = field(repr=False)
    offset: Floats = field(repr=False)

    @classmethod
    def of(cls, sample: AnyFloats, coefficients: AnyFloats, offset: AnyFloats) -> "ExactMap":
        """Return an approximation of the map x to x @ coefficients + offset, for rows x like a sample.

        Args:
            sample: shape (m, p).
            coefficients: shape (p, c).
            offset: shape (c,).
        """
        low, high = sample.min(axis=0).astype(np.float64), sample.max(axis=0).astype(np.float64)
        low, span = low - MARGIN * (high - low), (1 + 2 * MARGIN) * (high - low)
        shares = coefficients * (span / RANGE_STEPS)[:, None]
        sums = np.abs(shares).sum(axis=0)
        unit = np.where(sums > 0, sums, 1.0) / WEIGHT_STEPS
        return cls(low, span, np.rint(shares / unit), unit, offset + low @ coefficients)

    def rows(self, table: AnyFloats) -> Floats:
        """Return the images of rows, shape (n, c)."""
        places = (table - self.low) / np.where(self.span > 0, self.span, 1.0)
        steps = np.rint(np.clip(places, 0.0, 1.0) * RANGE_STEPS)
        return np.ascontiguousarray(steps @ self.weights) * self.unit + self.offset


def shared_noise(signal: AnyFloats, noise: float) -> AnyFloats:
    """Return each direction's share of the squared length of a row, sum 1, by reverse water-filling.

    Noise of variance noise / share on a coefficient of expected square `signal`, with optimal shrinkage, leaves an
    error of signal * noise / (signal * share + noise). The sum of the errors is smallest where share = level - noise /
    signal, or 0 if that is negative: directions with little signal get nothing.

    Args:
        signal: expected square of each coefficient, positive, shape (d,).
        noise: variance of the noise on a coefficient that has the whole row.
    """
    costs = np.sort(noise / signal)
    levels = (1 + np.cumsum(costs)) / np.arange(1, len(costs) + 1)
    level = levels[np.flatnonzero(levels > costs)[-1]]
    return np.maximum(level - noise / signal, 0.0)


@dataclass(frozen=True)
class Estimator:
    """The linear map from released sums to coefficients of least expected error.

    Args:
        gain: the map, shape (d, r), for r released sums.
        left: expected covariance of the errors of the coefficients, shape (d, d).
        noise: expected covariance of the sums around what the coefficients explain, shape (r, r).
    """

    gain: AnyFloats = field(repr=False)
    left: AnyFloats = field(repr=False)
    noise: AnyFloats = field(repr=False)

    def error(self, rows: AnyFloats) -> float:
        """Return the expected squared error of predictions for rows like these, in one column of the labels."""
        return float(np.sum(self.left * blockwise(rows, rows)) / len(rows))


@dataclass(frozen=True)
class Moments:
    """The relation of coefficients to released sums of rows times labels.

    Args:
        cross: sums of released rows times rows that predict, shape (r, d).
        own: sums of released rows times themselves, shape (r, r).
        noise: variance of the noise on each sum, shape (r,).
    """

    cross: AnyFloats = field(repr=False)
    own: AnyFloats = field(repr=False)
    noise: AnyFloats = field(repr=False)

    @classmethod
    def of(cls, released: Any, rows: AnyFloats, spread: float | AnyFloats, factor: float = 1.0) -> "Moments":
        """Return those of rows.

        Args:
            released: rows that are multiplied by labels, shape (n, r): an array, or what gives slices of it.
            rows: rows that predict, shape (n, d).
            spread: standard deviation of the noise on all sums, or on each, shape (r,).
            factor: records for each row, where rows are those of a sample.
        """
        cross, own = (factor * blockwise(released, other) for other in (rows, released))
        return cls(cross, own, np.broadcast_to(np.square(spread), len(own)))

    def rule(self, signal: AnyFloats, residual: float) -> Estimator:
        """Return the Bayes rule for coefficients with independent priors.

        Args:
            signal: expected square of each coefficient, shape (d,).
            residual: variance of a label around its prediction.
        """
        noise = np.diag(self.noise) + residual * self.own
        spanned = self.cross * signal
        gain = signal[:, None] * np.linalg.solve(spanned @ self.cross.T + noise, self.cross).T
        return Estimator(gain, np.diag(signal) - gain @ spanned, noise)

    def likeliest(self, moment: AnyFloats, priors: Sequence[tuple[AnyFloats, float]]) -> tuple[AnyFloats, float]:
        """Return the prior under which the sums are likeliest, each by itself.

        Whitened rows are nearly uncorrelated, so that the sums are nearly independent.
        """
        slopes, squares = np.diag(self.cross) ** 2, np.diag(self.own)
        found = np.mean(moment**2, axis=1)

        def surprise(prior: tuple[AnyFloats, float]) -> float:
            variance = slopes * prior[0] + prior[1] * squares + self.noise
            return float(np.sum(np.log(variance) + found / variance))

        return min(priors, key=surprise)


def blockwise(left: Any, right: AnyFloats, *, power: int = 1) -> AnyFloats:
    """Return the transpose of a matrix (n, d) times another (n, r), with blocks summed in doubles.

    Args:
        power: 2 takes the squares of all entries.
    """
    total = np.zeros((left.shape[1], right.shape[1]))
    for start in range(0, len(left), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        first = left[part]
        second = first if right is left else right[part]  # the same array: NumPy computes half of a symmetric product
        total += first.T @ second if power == 1 else (first**power).T @ second**power
    return total


def clipped(rows: AnyFloats, clip: float) -> AnyFloats:
    """Scale longer rows down to a norm."""
    norms = np.linalg.norm(rows, axis=1)
    return rows * (clip / np.maximum(norms, clip)).astype(rows.dtype)[:, None]


def best_clip(
    rows: AnyFloats,
    shares: AnyFloats,
    signal: AnyFloats,
    noise: float,
    residual: float,
    *,
    pure: bool,
    records: int,
) -> float:
    """Return the norm for `clipped` with the least expected error, of a few quantiles of the norms of some rows.

    Args:
        rows: whitened rows, shape (n, d).
        shares: positive shares of `shared_noise`.
        signal: expected square of each coefficient, shape (d,).
        noise: standard deviation of the noise for rows of norm one.
        residual: variance of a label around its prediction.
        pure: whether the noise depends on sums of absolute values of rows.
        records: the number of records; `rows` may be a sample of them.
    """
    every = max(len(rows) // PROBED_ROWS, 1)
    probe, factor = rows[::every], records / len(rows[::every])
    metric = probe * np.sqrt(shares).astype(rows.dtype)
    clips = np.quantile(np.linalg.norm(metric, axis=1), CLIP_SHARES)

    def error(clip: float) -> float:
        rows = clipped(metric, clip)
        longest = float(np.abs(rows).sum(axis=1).max()) if pure else clip
        products = Moments.of(rows, probe, noise * longest / factor)
        return products.rule(signal, residual / factor).error(probe)

    return float(min(clips[clips > 0].tolist(), key=error))


def best_user_clip(
    rows: AnyFloats,
    shares: AnyFloats,
    signal: AnyFloats,
    noise: float,
    residual: float,
    users: NDArray[np.int64],
    *,
    pure: bool,
) -> tuple[float, AnyFloats]:
    """Return the norm for `clipped`, and weights of rows, with the least expected error where users are protected.

    Noise grows with the sum of the lengths of one user's rows, which is cut to a public bound: all rows of a user
    who has more get one weight below 1. The norm is tried at a few quantiles of rows, and the bound at a few of users.

    Args:
        rows, shares, signal, residual, pure: as in `best_clip`, of all records.
        noise: standard deviation of the noise where the rows of each user have a sum of lengths of one.
        users: whose each row is, numbers, shape (n,).

    Returns:
        The norm, and the weights, shape (n,).
    """
    every = max(len(rows) // PROBED_ROWS, 1)
    probe, factor = rows[::every], len(rows) / len(rows[::every])
    metric = rows * np.sqrt(shares).astype(rows.dtype)
    norms = np.linalg.norm(metric, axis=1)
    best: tuple[float, float, AnyFloats] | None = None
    for clip in np.unique(np.quantile(norms, CLIP_SHARES)).tolist():
        if not clip:
            continue
        clipped_rows = clipped(metric, clip)
        lengths = np.abs(clipped_rows).sum(axis=1) if pure else np.minimum(norms, clip)
        totals = np.bincount(users, weights=lengths)
        for bound in np.unique(np.quantile(totals[totals > 0], USER_SHARES)).tolist():
            weights = np.minimum(1.0, bound / np.maximum(totals, bound))[users]
            measured = clipped_rows[::every] * weights[::every, None].astype(rows.dtype)
            rule = Moments.of(measured, probe, noise * bound / factor).rule(signal, residual / factor)
            if best is None or rule.error(probe) < best[0]:
                best = rule.error(probe), clip, weights
    assert best is not None  # some row is not zero
    return best[1:]


def equal_noise(signal: AnyFloats, noise: float) -> AnyFloats:
    """Return equal shares for the first directions and 0 for others, for noise that grows with absolute values.

    A row of d whitened entries has a sum of absolute values of about 0.8 d, so each coefficient gets noise of variance
    0.64 noise d^2.
    """
    sizes = np.arange(1, len(signal) + 1)
    spread = 0.64 * noise * sizes**2
    rows = [
        float((signal[:d] * v / (signal[:d] + v)).sum() + signal[d:].sum()) for d, v in zip(sizes, spread, strict=True)
    ]
    size = int(np.argmin(rows)) + 1
    return np.where(np.arange(len(signal)) < size, 1.0 / size, 0.0)
