"""Intervals that may be read after every record: confidence sequences of a share, a mean or an effect."""

from typing import Any

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from labeldp.inference.catalog import RULES
from labeldp.inference.cells import values_of
from labeldp.inference.estimate import LEVEL, Estimate, check_level
from labeldp.inference.groups import Codes
from labeldp.inference.intervals import earlier_variances
from labeldp.inference.released import Outcomes, estimate_of, outcome_code, treated_column
from labeldp.privacy import Floats, InputError, check_integer

IN_ORDER = "answers stand in the order in which records arrived"
CONSTANT = "the share, or the mean, is the same for all records"

POINTS = 401
"""Values of a mean that bets are placed against."""

CELLS = 1 << 22
"""Bets that are held in memory together."""


def monitor(
    release: Any,
    treated: Any = None,
    *,
    outcome: Any = None,
    users: Any = None,
    looks: int = 200,
    level: float = LEVEL,
) -> Estimate:
    """Estimate a share, a mean or an effect after each of many records: all intervals hold together, at any stop.

    Args:
        release: single answers, in the order of arrival.
        treated: true or false for each record: the effect, from pairs of one record of each arm, in the order of
            arrival. Without it the share or the mean.
        outcome: the class; of two classes the second one by default.
        users: refused where users have several records: bets need independent answers.
        looks: at how many numbers of records an interval is returned; that they hold is promised for all.
        level: coverage at all times together.

    Returns:
        Intervals by number of records, or of pairs. Each is within those before it.

    Raises:
        InputError: users with several records, or a class that is none.

    Source: Robbins for mixtures; WaudbySmith for bets.
    """
    check_level(level)
    outcomes = Outcomes.of(release, users, treated=treated)
    if outcomes.clustered:
        raise InputError("cannot have several records each: bets need independent answers", argument="users")
    code = outcome_code(outcomes, outcome) if outcomes.names else None
    rates = outcomes.rates() if code is not None else None
    if treated is not None:
        return _pairs(outcomes, treated_column(treated, outcomes.records), code, looks, level)
    times = look_times(outcomes.records, looks)
    domain = outcomes.mechanism.domain
    if rates is not None and code is not None:
        start, end = rates[1][code], rates[0][code]
        named = np.concatenate([outcomes.named(rows, code) for rows in outcomes.blocks()])
        name, reach = f"share of {outcomes.names[code]}", (0.0, 1.0)
    elif code is None and outcomes.two_outputs:
        lowest, highest = outcomes.outputs
        start, end = (np.array([0.0, 1.0]) * (domain.high - domain.low) + domain.low - lowest) / (highest - lowest)
        named, name, reach = np.asarray(outcomes.release.value) == 1, "mean", (domain.low, domain.high)
    else:
        numbers = np.concatenate([values_of(outcomes, code, rows) for rows in outcomes.blocks()])
        ends = outcomes.outputs if code is None else _ends_of(outcomes, code)
        low, high = bet_sequence((numbers - ends[0]) / (ends[1] - ends[0]), times, level)
        value = np.cumsum(numbers)[times - 1] / times
        low, high = ends[0] + (ends[1] - ends[0]) * low, ends[0] + (ends[1] - ends[0]) * high
        reach = (domain.low, domain.high) if code is None else (0.0, 1.0)
        return _estimate(outcomes, "sequence, numbers", "mean", times, value, low, high, reach, level, "records")
    hits = np.cumsum(named)[times - 1]
    low, high = mixture_ends(hits, times, level)
    unit, bottom = reach[1] - reach[0], reach[0]
    mapped = [bottom + unit * (rate - start) / (end - start) for rate in (hits / times, low, high)]
    low, high = np.minimum(mapped[1], mapped[2]), np.maximum(mapped[1], mapped[2])
    return _estimate(outcomes, "sequence", name, times, mapped[0], low, high, reach, level, "records")


def look_times(records: int, looks: int) -> Codes:
    """Return numbers of records at which intervals are returned: evenly in the logarithm, the last one included."""
    count = check_integer(looks, "looks")
    spaced = np.geomspace(1, records, min(count, records)) if count > 1 else np.array([records])
    return np.unique(np.rint(spaced).astype(np.int64))


def mixture_ends(hits: Codes, trials: Codes, level: float) -> tuple[Floats, Floats]:
    """Return the rates between which the beta-binomial e-process against none reaches 1 / (1 - level), by bisection."""
    wins, count = hits.astype(np.float64), trials.astype(np.float64)
    mixture = betaln(1 + wins, 1 + count - wins)
    limit = -np.log(1 - level)

    def refused(rate: Floats) -> Any:
        return mixture - xlogy(wins, rate) - xlog1py(count - wins, -rate) >= limit

    middle = wins / count
    ends = []
    for border in (np.zeros_like(middle), np.ones_like(middle)):
        outside, inside = border, middle
        for _ in range(50):
            half = (outside + inside) / 2
            out = refused(half)
            outside, inside = np.where(out, half, outside), np.where(out, inside, half)
        ends.append(outside)
    return ends[0], ends[1]


def bet_sequence(x: Floats, times: Codes, level: float) -> tuple[Floats, Floats]:
    """Return the means in [0, 1] that bets have not refused by each time; a block of records at a time.

    Args:
        x: independent numbers in [0, 1], in the order of arrival, shape (n,).
        times: numbers of records, rising.
        level: coverage at all times together.
    """
    grid = ((np.arange(POINTS) + 0.5) / POINTS)[:, None]
    count = np.arange(1, len(x) + 1)
    bets = np.sqrt(2 * np.log(2 / (1 - level)) / (count * np.log1p(count) * earlier_variances(x)))
    limit = np.log(2 / (1 - level))
    up, down, high_up, high_down = (np.full((POINTS, 1), start) for start in (0.0, 0.0, -np.inf, -np.inf))
    low, high = np.zeros(len(times)), np.ones(len(times))
    size = max(CELLS // POINTS, 1)
    for begin in range(0, len(x), size):
        part, wager = x[begin : begin + size], bets[begin : begin + size]
        gain = np.cumsum(np.log1p(np.minimum(wager, 0.5 / grid) * (part - grid)), axis=1) + up
        loss = np.cumsum(np.log1p(-np.minimum(wager, 0.5 / (1 - grid)) * (part - grid)), axis=1) + down
        best = np.maximum(
            np.maximum(np.maximum.accumulate(gain, axis=1), high_up),
            np.maximum(np.maximum.accumulate(loss, axis=1), high_down),
        )
        inside = np.flatnonzero((times > begin) & (times <= begin + len(part)))
        for look in inside:
            open_means = np.flatnonzero(best[:, times[look] - begin - 1] < limit)
            if len(open_means):
                low[look], high[look] = (open_means[0] - 0.5) / POINTS, (open_means[-1] + 1.5) / POINTS
            elif look:  # every mean was refused, which is part of the risk
                low[look], high[look] = low[look - 1], high[look - 1]
        up, down = gain[:, -1:], loss[:, -1:]
        high_up, high_down = best[:, -1:], best[:, -1:]
    # evidence against a mean is monotone, so that the next point of the grid bounds the means in between
    return np.maximum(low, 0), np.minimum(high, 1)


def _pairs(outcomes: Outcomes, flags: Any, code: int | None, looks: int, level: float) -> Estimate:
    numbers = np.concatenate([values_of(outcomes, code, rows) for rows in outcomes.blocks()])
    count = int(min(flags.sum(), (~flags).sum()))
    low_end, high_end = outcomes.outputs if code is None else _ends_of(outcomes, code)
    reach = high_end - low_end
    apart = numbers[flags][:count] - numbers[~flags][:count]
    times = look_times(count, looks)
    low, high = bet_sequence((apart + reach) / (2 * reach), times, level)
    value = np.cumsum(apart)[times - 1] / times
    domain = outcomes.mechanism.domain
    widest = 1.0 if code is not None else domain.high - domain.low
    return _estimate(
        outcomes, "sequence of a difference", "effect", times, value, (2 * low - 1) * reach, (2 * high - 1) * reach,
        (-widest, widest), level, "pairs",
    )  # fmt: skip


def _ends_of(outcomes: Outcomes, code: int) -> Floats:
    """Return the lowest and the highest unbiased indicator that an answer can stand for."""
    rates = outcomes.rates()
    if rates is None:
        raise InputError("must treat classes alike for a confidence sequence", argument="release")
    hit, miss = rates[0][code], rates[1][code]
    return np.sort(np.array([-miss, 1 - miss]) / (hit - miss))


def _estimate(
    outcomes: Outcomes, key: str, name: str, times: Codes, value: Floats, low: Floats, high: Floats,
    reach: tuple[float, float], level: float, axis: str,
) -> Estimate:  # fmt: skip
    low, high = np.maximum.accumulate(np.clip(low, *reach)), np.minimum.accumulate(np.clip(high, *reach))
    return estimate_of(
        outcomes, RULES[key], name, ((axis, tuple(map(str, times.tolist()))),), value, low, high, None, level, True,
        None, None, (IN_ORDER, CONSTANT, *outcomes.conditions),
    )  # fmt: skip
