"""Intervals from sums alone: rates, differences, ratios, bounded means, and binomial counts with geometric noise."""

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, betaincinv, gammaincinv, ndtri, stdtrit

from labeldp.privacy import Floats

Ends = tuple[Floats, Floats]
"""The low and the high ends of intervals, each of one shape."""


def clopper_pearson(hits: ArrayLike, trials: ArrayLike, level: float) -> Ends:
    """Return the exact interval of binomial rates; [0, 1] without trials.

    For independent trials of unlike rates it holds their mean rate.

    Source: Clopper; Hoeffding for unlike rates.
    """
    hits, trials = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    misses, tail = trials - hits, (1 - level) / 2
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, 1), 1 - tail), 1.0)
    return low, high


def exact_shares(
    hits: Any, trials: ArrayLike, rates: tuple[Any, Any], level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return shares of a class from how often answers name it: value, low, high and variance, not clipped.

    An interval that lies outside of [0, 1] is moved to the nearer end: noise, and no certainty, put it there.

    Args:
        hits: how many answers name the class.
        trials: how many there are; without any the value is NaN, and the interval has all shares.
        rates: P(named | the class) and P(named | any other). In a design the first may be the smaller one. At an
            epsilon so small that doubles cannot tell both, the value is 0.5, and the interval has all shares.
        level: coverage of the intervals of `clopper_pearson`.
    """
    (hit, miss), trials = rates, np.asarray(trials, dtype=np.float64)
    rate = hits / np.where(trials > 0, trials, np.nan)
    blind = np.equal(hit, miss)
    gap = np.where(blind, np.nan, hit - miss)
    ends = [(end - miss) / gap for end in clopper_pearson(hits, trials, level)]
    value, low, high = (rate - miss) / gap, np.minimum(*ends), np.maximum(*ends)
    variance = np.nan_to_num(rate * (1 - rate)) / np.maximum(trials, 1) / gap**2
    value = np.where(blind & (trials > 0), 0.5, value)
    low, high, variance = (np.where(blind, end, of) for end, of in ((0.0, low), (1.0, high), (0.25, variance)))
    return value, *within_shares(low, high), variance


def within_shares(low: Floats, high: Floats) -> Ends:
    """Return intervals that meet [0, 1]; those outside are moved to the nearer end with their width, at most 1."""
    width = np.minimum(high - low, 1.0)
    return np.where(low >= 1, 1 - width, low), np.where(high <= 0, width, high)


def sidak(level: float, independent: int, dependent: int = 1) -> float:
    """Return the level of each interval so that all hold together with probability `level`.

    Args:
        level: of all together.
        independent: groups of intervals that are independent of each other.
        dependent: intervals in a group, which may depend on each other in any way: Bonferroni.

    Source: Sidak.
    """
    group = level if independent <= 1 else level ** (1 / independent)
    return group if dependent <= 1 else 1 - (1 - group) / dependent


def normal_quantile(level: float) -> float:
    """Return the z of a two-sided normal interval."""
    return float(ndtri((1 + level) / 2))


def student_quantile(level: float, freedom: ArrayLike) -> Floats:
    """Return the t of two-sided intervals by Student's law; infinite without a degree of freedom."""
    degrees = np.asarray(freedom, dtype=np.float64)
    return np.where(degrees > 0, stdtrit(np.maximum(degrees, 1), (1 + level) / 2), np.inf)


def student(mean: Floats | float, variance: ArrayLike, freedom: ArrayLike, level: float) -> Ends:
    """Return Student's interval of means with an estimated variance: all numbers without a degree of freedom."""
    half = student_quantile(level, freedom) * np.sqrt(np.maximum(variance, 0.0))
    return np.asarray(mean - half), np.asarray(mean + half)


def more_units(level: float) -> float:
    """Return how many units of an extreme value an end is computed with, so that rare values count that did not occur.

    A normal end of a Poisson mean is then that of `poisson` where nothing was counted.

    Source: Agresti, for the addition of units.
    """
    quantile = normal_quantile(level)
    return float((np.sqrt(quantile**2 - 4 * np.log((1 - level) / 2)) - quantile) ** 2 / 4)


def student_within(
    mean: Floats,
    variance: Floats,
    units: ArrayLike,
    freedom: ArrayLike,
    reach: tuple[ArrayLike, ArrayLike],
    level: float,
) -> Ends:
    """Return the ends of means of numbers in a range: Student's, or those with `more_units` if they lie further out.

    The first ones hold where few units decide. The second ones are normal, with more units at that end of the range.

    Args:
        mean: shape (...).
        variance: of the means.
        units: how many independent units of equal size have this precision.
        freedom: degrees of freedom of the variance; without any the interval has all numbers.
        reach: the lowest and the highest number.
        level: coverage.

    Source: Agresti for one rate.
    """
    more, quantile = more_units(level), normal_quantile(level)
    total, variance = np.asarray(units) + more, np.maximum(variance, 0.0)
    ends = []
    for sign, end, usual in zip((-1, 1), reach, student(mean, variance, freedom, level), strict=True):
        apart = np.asarray(end) - mean
        apart = np.where(sign * apart > 0, apart, 0.0)
        limit = mean + more * apart / total + sign * quantile * np.sqrt(variance + more * (apart / total) ** 2)
        limit = sign * np.maximum(sign * limit, sign * usual)
        ends.append(np.where(np.isnan(limit), sign * np.inf, limit))
    return ends[0], ends[1]


def student_or_more(mean: Floats, variance: Floats, more: Floats, freedom: Floats, level: float) -> Ends:
    """Return Student's ends, or normal ones with `more` variance if they lie further out; see `student_within`."""
    half = normal_quantile(level) * np.sqrt(variance + more_units(level) * more)
    low, high = student(mean, variance, freedom, level)
    return np.minimum(low, mean - half), np.maximum(high, mean + half)


def spread_of(shares: Floats) -> tuple[Floats, Floats]:
    """Return the degrees of freedom of a variance, and by how much one more unit of the range would raise it.

    Args:
        shares: squared weights of records, or of users, in a weighted sum of their numbers, shape (n, ...).

    Source: Satterthwaite.
    """
    total, squares = shares.sum(axis=0), np.maximum((shares**2).sum(axis=0), 1e-300)
    return np.maximum(total**2 / squares - 1, 1.0), squares / np.maximum(total, 1e-300)


def laplace_quantile(stddev: ArrayLike, level: float) -> Floats:
    """Return what the absolute value of Laplace noise exceeds with probability 1 - level."""
    return np.asarray(stddev) * float(-np.log(1 - level) / np.sqrt(2))


def recovered(
    first: tuple[Floats, Floats, Floats], second: tuple[Floats, Floats, Floats], *, dependent: bool = False
) -> Ends:
    """Return the interval of a difference from the value, low and high of two independent estimates.

    Where a value is NaN, or estimates may depend on each other in any way, the ends are those of the two intervals.

    Source: Newcombe for two rates; Zou for any two (MOVER).
    """
    (a, low_a, high_a), (b, low_b, high_b) = first, second
    if dependent:
        return low_a - high_b, high_a - low_b
    low, high = a - b - np.hypot(a - low_a, high_b - b), a - b + np.hypot(high_a - a, b - low_b)
    return np.where(np.isnan(low), low_a - high_b, low), np.where(np.isnan(high), high_a - low_b, high)


def contrasted(value: Floats, low: Floats, high: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return weighted sums of independent estimates, with their ends, shape (..., contrasts).

    Args:
        value, low, high: of the estimates, shape (..., m).
        weights: shape (contrasts, m).

    Source: Zou (MOVER).
    """
    total, reaches = value @ weights.T, []
    more, less = np.maximum(weights, 0).T ** 2, np.minimum(weights, 0).T ** 2
    for first, other in ((value - low, high - value), (high - value, value - low)):
        endless = np.isinf(first) @ (more > 0) | np.isinf(other) @ (less > 0)
        first, other = (np.where(np.isinf(side), 0.0, side) ** 2 for side in (first, other))
        reaches.append(np.where(endless, np.inf, np.sqrt(first @ more + other @ less)))
    return total, total - reaches[0], total + reaches[1]


def ratio_recovered(
    first: tuple[Floats, Floats, Floats], second: tuple[Floats, Floats, Floats], correlation: ArrayLike = 0.0
) -> Ends:
    """Return the interval of a ratio of two numbers that cannot be negative, from value, low and high of both.

    A ratio r is refused if the interval that `recovered` gives of first - r second does not hold 0. An interval below 0
    is moved to 0 with its width.

    Args:
        first, second: shape (...).
        correlation: of the two estimates.

    Returns:
        The ends, from 0; the upper one is infinite where the second number may be 0.

    Source: DonnerZou for the ratio (MOVER-R), Zou for the correlation.
    """
    (a, low_a, high_a), (b, low_b, high_b) = (
        (np.clip(value, low, np.where(high > 0, high, high - low)), low, np.where(high > 0, high, high - low))
        for value, low, high in (first, second)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = []
        for end, other in ((low_a, high_b), (high_a, low_b)):
            lead, last = other * (2 * b - other), end * (2 * a - end)
            middle = a * b - np.asarray(correlation) * np.abs(a - end) * np.abs(other - b)
            ends.append((lead, middle, last, np.sqrt(np.maximum(middle**2 - lead * last, 0.0))))
        lead, middle, last, root = ends[0]
        low = np.where(low_a > 0, last / (middle + root), 0.0)
        lead, middle, last, root = ends[1]
        high = np.where(low_b > 0, (middle + root) / lead, np.inf)
    return np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), np.inf, high)


def poisson(counts: ArrayLike, level: float) -> Ends:
    """Return the exact interval of Poisson means; it holds binomial means, too.

    Source: Garwood.
    """
    counts, tail = np.asarray(counts, dtype=np.float64), (1 - level) / 2
    low = np.where(counts > 0, gammaincinv(np.maximum(counts, 1), tail), 0.0)
    return low, gammaincinv(counts + 1, 1 - tail)


def rectangle(level: float, count: int) -> float:
    """Return the level of each of several intervals so that all hold together; each is exact given those before it."""
    return level ** (1 / count)


def detection(part: Any, right: Any, missed: Any) -> tuple[Any, Any]:
    """Return recall and F1 of a class from shares; recall is NaN where the class does not occur.

    Recall grows with the first two shares and falls with the third; so does F1.

    Args:
        part: the share of records for which the class is predicted.
        right: its share among these.
        missed: its share among the other records.
    """
    hit, lost = part * right, (1 - part) * missed
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(hit + lost > 0, hit / (hit + lost), np.nan), np.where(
            part + hit + lost > 0, 2 * hit / (part + hit + lost), np.nan
        )


def mean_of_cells(
    values: tuple[Floats, Floats, Floats],
    sizes: Any,
    level: float,
    reach: tuple[float, float],
    target: str = "population",
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the mean over records of the values of their cells, with its ends and its variance from the sizes alone.

    New records fall into the cells in other numbers. So the interval recovers the variance of the values, and that of
    the sizes: a size moves the mean by the distance of its value from the mean. More records of a cell have its least
    value where the low end is computed, so that a cell without records counts, too.

    Args:
        values: value, low and high of each cell, shape (..., cells); an empty cell has the ends of what is possible.
        sizes: the number of records in each cell, shape (..., cells).
        level: coverage.
        reach: between which a true value of a cell lies.
        target: "records" takes the sizes as they are.

    Returns:
        Mean, low, high and the variance that is due to the sizes, each shape (...).

    Source: Zou (MOVER); Garwood for the sizes.
    """
    low, high = values[1:]
    value = np.where(sizes > 0, values[0], (low + high) / 2)
    records = np.maximum(sizes.sum(axis=-1, keepdims=True), 1)
    part = sizes / records
    mean = (part * value).sum(axis=-1, keepdims=True)
    middle = (part * np.clip(value, *reach)).sum(axis=-1, keepdims=True)
    apart, least, most = (np.clip(number, *reach) - middle for number in (value, low, high))
    if target == "records":
        apart, least, most = (np.zeros_like(apart) for _ in range(3))
    fewer, more = (np.abs(end - sizes) / records for end in poisson(sizes, level))
    below = (part * (value - low)) ** 2 + np.maximum(apart * fewer, -least * more) ** 2
    above = (part * (high - value)) ** 2 + np.maximum(-apart * fewer, most * more) ** 2
    spread = (part * apart**2).sum(axis=-1) / records[..., 0]
    mean = mean[..., 0]
    return mean, mean - np.sqrt(below.sum(axis=-1)), mean + np.sqrt(above.sum(axis=-1)), spread


def fieller(
    means: Floats,
    covariances: Floats,
    level: float,
    freedom: ArrayLike = np.inf,
    slopes: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
) -> Ends:
    """Return the interval of ratios of two means: the ratios r at which the mean of top - r * bottom may be 0.

    Args:
        means: of top and bottom, shape (..., 2).
        covariances: of these means, shape (..., 2, 2).
        level: coverage.
        freedom: degrees of freedom of the variance, shape (...).
        slopes: by how much the variance of top - r * bottom grows where r * bottom exceeds the top by 1, for the low
            end (at most 0) and for the high end (at least 0), each shape (...).

    Returns:
        The ends; infinite where the bottom may be 0, or is not positive.

    Source: Fieller, Section 3.
    """
    square = student_quantile(level, freedom) ** 2
    top, bottom = means[..., 0], means[..., 1]
    known = np.isfinite(square) & np.isfinite(covariances).all(axis=(-2, -1))
    square, covariances = np.where(known, square, 0.0), np.where(known[..., None, None], covariances, 0.0)
    lead = bottom**2 - square * covariances[..., 1, 1]
    bounded = known & (lead > 0) & (bottom > 0)
    ends = []
    for sign, slope in zip((-1, 1), map(np.asarray, slopes), strict=True):
        middle = top * bottom - square * (covariances[..., 0, 1] - slope * bottom / 2)
        last = top**2 - square * (covariances[..., 0, 0] - slope * top)
        root = np.sqrt(np.maximum(middle**2 - lead * last, 0.0))
        ends.append(np.where(bounded, (middle + sign * root) / np.where(bounded, lead, 1.0), sign * np.inf))
    return ends[0], ends[1]


def ratio_within(
    means: Floats,
    terms: Floats,
    covariances: Floats,
    units: ArrayLike,
    more: ArrayLike,
    level: float,
    freedom: ArrayLike = np.inf,
    slopes: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
) -> Ends:
    """Return the ends of ratios in [0, 1]: Fieller's, or normal ones with `more_units` if they lie further out.

    The units that are counted at an end have the ratio 0 or 1.

    Args:
        means, covariances, level, freedom, slopes: see `fieller`.
        terms: the means of the terms of units that move the means, shape (..., 2).
        units: how many units there are.
        more: the bottom term of one more unit.

    Source: Fieller, Section 3; Agresti for one rate.
    """
    added, units = more_units(level), np.asarray(units, dtype=np.float64)[..., None]
    usual = fieller(means, covariances, level, freedom, slopes)
    ends = []
    for end, outer in ((0, np.minimum), (1, np.maximum)):
        extreme = np.stack(np.broadcast_arrays(end * np.asarray(more, dtype=np.float64), more), axis=-1)
        move = (extreme - terms) / (units + added)
        spread = covariances + added * move[..., :, None] * move[..., None, :]
        ends.append(outer(usual[end], fieller(means + added * move, spread, level)[end]))
    return ends[0], ends[1]


def end_of_tests(over: Callable[[float], float], center: float, limit: float, step: float, farthest: float) -> float:
    """Return the nearest number that a test refuses, on one side of an estimate; infinite if it is too far.

    Args:
        over: by how much the root of the statistic, which is almost a line, exceeds its limit at a number.
        center: the estimate, where the statistic is 0.
        limit: of the root of the statistic.
        step: the first step from the estimate, with its sign.
        farthest: the size of the largest number that is tried.
    """
    sign = float(np.sign(step))
    inside, gap, outside = center, -limit, center + step
    while True:
        if sign * outside >= farthest:
            outside = sign * farthest
        beyond = over(outside)
        if beyond > 0:
            break
        if sign * outside >= farthest:
            return float(sign * np.inf)
        inside, gap, outside = outside, beyond, outside + step
    for _ in range(30):
        if abs(outside - inside) < 1e-3 * abs(step) or beyond < 1e-3:
            break
        middle = inside + (outside - inside) * float(np.clip(-gap / (beyond - gap), 0.05, 0.95))
        value = over(middle)
        if value > 0:
            outside, beyond = middle, value
        else:
            inside, gap = middle, value
    return outside


GRID = 400
"""Values of a mean that bets are placed against."""


def betting(values: Floats, low: float, high: float, level: float) -> tuple[float, float]:
    """Return the interval of the mean of independent numbers in [low, high], for every number of records.

    Bets follow the order of the records, which must not depend on the outcomes.

    Source: WaudbySmith, hedged capital with plug-in bets.
    """
    x = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    bets = np.sqrt(2 * np.log(2 / (1 - level)) / (len(x) * earlier_variances(x)))
    grid = (np.arange(GRID) + 0.5) / GRID
    limit = np.log(2 / (1 - level))
    refused = np.zeros(GRID, dtype=np.bool_)
    for index, mean in enumerate(grid):
        up = np.cumsum(np.log1p(np.minimum(bets, 0.5 / mean) * (x - mean))).max()
        down = np.cumsum(np.log1p(-np.minimum(bets, 0.5 / (1 - mean)) * (x - mean))).max()
        refused[index] = max(up, down) >= limit
    open_means = np.flatnonzero(~refused)
    if not len(open_means):
        return low, high
    first, last = grid[open_means[0]] - 1 / GRID, grid[open_means[-1]] + 1 / GRID
    return low + (high - low) * max(first, 0.0), low + (high - low) * min(last, 1.0)


def earlier_variances(x: Floats) -> Floats:
    """Return for each number in [0, 1] the variance of the earlier ones, moved towards a coin's, shape (n,)."""
    count = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (count + 1)
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (count + 1)
    return np.concatenate([[0.25], spread[:-1]])


MOST_CELLS = 2048
"""Cells of a geometric law; a wider law has several integers in a cell, which moves both ends outwards."""

MOST_INTEGERS = 1 << 22
"""A sum of several draws that needs more integers has an interval without information."""


def noisy_binomial(totals: ArrayLike, trials: ArrayLike, rate: float, level: float, terms: ArrayLike = 1) -> Ends:
    """Return the interval of rates from binomial counts with two-sided geometric noise: exact, by inverted tests.

    Args:
        totals: noisy counts, any integers.
        trials: how many records each count is of.
        rate: noise i has probability proportional to e^(-rate |i|).
        level: coverage.
        terms: how many such draws each count has.
    """
    totals, trials, terms = np.broadcast_arrays(
        np.asarray(totals, np.float64), np.asarray(trials, np.float64), np.asarray(terms)
    )
    low, high = np.zeros(totals.shape), np.ones(totals.shape)
    for count in np.unique(terms).tolist():
        chosen = terms == count
        low[chosen], high[chosen] = _noisy_binomial(
            totals[chosen], trials[chosen], geometric_cells(rate, count), (1 - level) / 2
        )
    return np.where(trials > 0, low, 0.0), np.where(trials > 0, high, 1.0)


def geometric_cells(rate: float, terms: int) -> tuple[Floats, Floats, Floats] | None:
    """Return the first and last integers of at most about `MOST_CELLS` cells, and the mass of a sum of draws in each.

    None where the sum of several draws reaches too far.
    """
    reach = ceil(40 / rate + (8 * np.sqrt(2 * terms) / rate if terms > 1 else 0))
    width = max(-(-2 * reach // MOST_CELLS), 1)
    starts = np.arange(-reach, reach + 1, width, dtype=np.float64)
    ends = starts + width - 1
    if terms <= 1:
        mass = geometric_cdf(ends, rate) - geometric_cdf(starts - 1, rate)
    else:
        if 2 * reach > MOST_INTEGERS:
            return None
        size, share = 1 << int(np.ceil(np.log2(4 * reach))), np.exp(-rate)
        angles = 2 * np.pi * np.arange(size // 2 + 1) / size
        law = np.fft.irfft(((1 - share) ** 2 / (1 - 2 * share * np.cos(angles) + share**2)) ** terms, size)
        padded = np.zeros(len(starts) * width)
        padded[: 2 * reach + 1] = np.maximum(np.roll(law, reach)[: 2 * reach + 1], 0)
        mass = padded.reshape(-1, width).sum(axis=1)
    return starts, ends, mass / mass.sum()


def _noisy_binomial(totals: Floats, trials: Floats, cells: tuple[Floats, Floats, Floats] | None, tail: float) -> Ends:
    """Return the ends of one-dimensional counts whose noise has the same law."""
    if cells is None:
        return np.zeros(totals.shape), np.ones(totals.shape)
    starts, ends, mass = cells

    def above(rates: Floats) -> Floats:
        """P(count + noise >= total), at most."""
        needed = totals[..., None] - ends
        return np.asarray(_at_least(needed, trials[..., None], rates[..., None]) @ mass)

    def below(rates: Floats) -> Floats:
        """P(count + noise <= total), at most."""
        needed = totals[..., None] - starts
        return np.asarray((1 - _at_least(needed + 1, trials[..., None], rates[..., None])) @ mass)

    low, high = np.zeros(totals.shape), np.ones(totals.shape)
    low_end, high_end = np.ones(totals.shape), np.zeros(totals.shape)
    for _ in range(44):  # the ends of the bisection move outwards by 2^-44
        middle, middle_end = (low + low_end) / 2, (high + high_end) / 2
        refused, refused_end = above(middle) <= tail, below(middle_end) <= tail
        low, low_end = np.where(refused, middle, low), np.where(refused, low_end, middle)
        high, high_end = np.where(refused_end, middle_end, high), np.where(refused_end, high_end, middle_end)
    return low, high


def _at_least(needed: Floats, trials: Floats, rates: Floats) -> Floats:
    """P(binomial count >= needed)."""
    count = np.clip(needed - 1, 0, trials)
    tail = bdtrc(count, np.broadcast_to(trials, count.shape).astype(np.int64), np.broadcast_to(rates, count.shape))
    return np.where(needed <= 0, 1.0, np.where(needed > trials, 0.0, tail))


def geometric_cdf(at: ArrayLike, rate: float) -> Floats:
    """P(noise <= at), where noise i has probability proportional to e^(-rate |i|)."""
    places = np.asarray(at, dtype=np.float64)
    share = 1 / (1 + np.exp(-rate))
    return np.where(
        places < 0,
        share * np.exp(rate * np.minimum(places, 0.0)),
        1 - share * np.exp(-rate * (np.maximum(places, 0.0) + 1)),
    )


def geometric_variance(rate: float) -> float:
    """Return the variance of noise of which i has probability proportional to e^(-rate |i|)."""
    return float(0.5 / np.sinh(rate / 2) ** 2)


def geometric_quantile(rate: float, level: float, terms: int = 1) -> float:
    """Return an r with P(|noise| <= r) of at least `level`, for a sum of noise draws proportional to e^(-rate |i|).

    For one noise it is the smallest.
    """
    if terms > 1:
        cells = geometric_cells(rate, terms)
        if cells is None:
            return np.inf
        starts, ends, mass = cells
        reaches = np.maximum(np.abs(starts), np.abs(ends))
        order = np.argsort(reaches)
        return float(reaches[order][min(int(np.searchsorted(np.cumsum(mass[order]), level)), len(order) - 1)])
    share = np.exp(-rate)
    return float(max(ceil(np.log((1 - level) * (1 + share) / 2) / -rate - 1), 0))
