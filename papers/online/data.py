"""Real sequences of losses: a stock of each day's market as an expert, and simple forecasters of electricity prices."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Floats, InputError

Levels = NDArray[np.uint8]
STOCKS = ("nyse_o", "sp500", "djia")
ELECTRICITY = "elec2"
COLUMNS = ("period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")
DAY, WEEK = 48, 336
"""Half-hours."""

MIN_ROUNDS = 64
LAGS = (1, 2, 3, 4, DAY, 2 * DAY, WEEK)
WINDOWS = (3, 5, 11, 25, DAY + 1, 97, WEEK + 1)
DAYS, WEEKS = (3, 7, 28), (4, 12)
PRICES, DEMANDS = (0.04, 0.05, 0.06, 0.07, 0.1), (0.3, 0.4, 0.5, 0.6)
MEANS = (6, DAY, WEEK)
STEPS = (0.01, 0.1, 1.0)
"""Of forecasters: all were fixed before a forecast was scored."""


@dataclass(frozen=True)
class RealLosses:
    """Losses of every expert in every round, in order of time.

    Args:
        name: of the data.
        experts: their names.
        levels: shape (rounds, experts).
        digest: of the levels.
    """

    name: str
    experts: tuple[str, ...]
    levels: Levels = field(repr=False)
    digest: str

    @classmethod
    def of(cls, name: str, experts: tuple[str, ...], losses: Floats) -> "RealLosses":
        """Round losses in [0, 1] to the nearest of 256 levels.

        Raises:
            InputError: fewer than `MIN_ROUNDS` rounds, or than two experts.
        """
        if len(losses) < MIN_ROUNDS or len(experts) < 2:
            raise InputError(f"{name} must have at least {MIN_ROUNDS} rounds and two experts")
        levels = np.rint(255 * losses).astype(np.uint8)
        return cls(name, experts, levels, hashlib.sha256(levels.tobytes()).hexdigest()[:16])

    def blocks(self) -> Iterator[Levels]:
        """Yield all rounds."""
        yield self.levels


def real_losses(data: str | None) -> dict[str, Callable[[], RealLosses]]:
    """Return what a folder holds, by name; nothing without a folder.

    Args:
        data: a folder with stock_experts/NAME.csv.gz for NAME of nyse_o, sp500 and djia, or elec2/elec2.csv.gz.

    Raises:
        InputError: no such folder, or none of them in it.
    """
    if data is None:
        return {}
    folder = Path(data)
    if not folder.is_dir():
        raise InputError(f"--data {data} is not a folder")
    places = {name: folder / "stock_experts" / f"{name}.csv.gz" for name in STOCKS}
    found: dict[str, Callable[[], RealLosses]] = {
        name: cache(partial(_stocks, name, place)) for name, place in places.items() if place.is_file()
    }
    if (place := folder / ELECTRICITY / f"{ELECTRICITY}.csv.gz").is_file():
        found[ELECTRICITY] = cache(partial(_electricity, place))
    if not found:
        names = ", ".join(f"stock_experts/{name}.csv.gz" for name in STOCKS)
        raise InputError(f"--data {data} must hold {names} or {ELECTRICITY}/{ELECTRICITY}.csv.gz")
    return found


def _table(path: Path) -> tuple[list[str], Floats]:
    """Read names of columns, and numbers.

    Raises:
        InputError: the file holds something else.
    """
    try:
        rows = np.loadtxt(path, delimiter=",", dtype=str, ndmin=2)
        return [str(name) for name in rows[0]], rows[1:].astype(np.float64)
    except (ValueError, OSError, IndexError) as error:
        raise InputError(f"{path} cannot be read as a table of numbers with a line of names") from error


def stock_losses(relatives: Floats) -> Floats:
    """Return daily losses: 0 for the stock that gained most, 1 for the one that gained least, linear between them.

    Args:
        relatives: price of the day over price of the day before, shape (days, stocks).
    """
    most, least = relatives.max(axis=1, keepdims=True), relatives.min(axis=1, keepdims=True)
    return np.asarray((most - relatives) / (most - least).clip(1e-12))


def _stocks(name: str, path: Path) -> RealLosses:
    """Read one market."""
    names, relatives = _table(path)
    return RealLosses.of(name, tuple(names), stock_losses(relatives))


def _electricity(path: Path) -> RealLosses:
    """Return errors of forecasters of whether the price of a half-hour is above its mean of the last day."""
    names, numbers = _table(path)
    if missing := [name for name in (*COLUMNS, "class") if name not in names]:
        raise InputError(f"{path} must have the columns {', '.join(missing)}")
    series = {name: numbers[:, place] for place, name in enumerate(names)}
    rose = series["class"] > 0.5
    made = forecasts(series, rose)
    losses = np.column_stack([forecast != rose for forecast in made.values()]).astype(np.float64)
    return RealLosses.of(ELECTRICITY, tuple(made), losses)


def forecasts(series: dict[str, Floats], rose: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Return what every forecaster says for every half-hour, from the published past alone.

    Args:
        series: the columns of `COLUMNS`; of the present half-hour only its time of day is known.
        rose: what is to be forecast; that of earlier half-hours is known.
    """
    price, demand = _before(series["nswprice"]), _before(series["nswdemand"])
    found = {"always up": np.ones(len(rose), dtype=bool), "always down": np.zeros(len(rose), dtype=bool)}
    found |= {f"as {lag} before": _before(rose, lag) for lag in LAGS}
    found |= {f"majority of {length}": _mean(_before(rose), length) > 0.5 for length in WINDOWS}
    found |= {f"same half-hour, {days} days": _seasonal(rose, DAY, days) > 0.5 for days in DAYS}
    found |= {f"same half-hour of the week, {weeks} weeks": _seasonal(rose, WEEK, weeks) > 0.5 for weeks in WEEKS}
    found |= {f"price above {level:g}": price > level for level in PRICES}
    found |= {f"demand above {level:g}": demand > level for level in DEMANDS}
    for name, values in (("price", price), ("demand", demand)):
        found |= {f"{name} above its mean of {length}": values > _mean(values, length) for length in MEANS}
        found[f"{name} rising"] = values > _before(values)
    features = _features(series, rose)
    for name, columns in (("market", features[:, :-2]), ("market and past", features)):
        found |= {f"logistic on {name}, step {step:g}": _logistic(columns, rose, step) for step in STEPS}
    return found


def _before(values: NDArray[Any], lag: int = 1) -> NDArray[Any]:
    """Return values so many half-hours ago; 0 before there were any."""
    return np.concatenate([np.repeat(values[:1] * 0, lag), values[:-lag]]).astype(values.dtype)[: len(values)]


def _mean(values: NDArray[Any], length: int) -> Floats:
    """Return the mean of the last `length` values, or of as many as there are."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - length, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def _seasonal(values: NDArray[Any], period: int, count: int) -> Floats:
    """Return the mean of the values one, two, … periods ago."""
    return np.mean([_before(values, period * (each + 1)) for each in range(count)], axis=0)


def _features(series: dict[str, Floats], rose: NDArray[np.bool_]) -> Floats:
    """Return what logistic models see: the market a half-hour ago, the time of day, at last two earlier answers."""
    market = [_before(series[name]) for name in COLUMNS[1:]]
    angle = 2 * np.pi * series["period"]
    past = [_before(rose, lag).astype(np.float64) for lag in (1, DAY)]
    return np.column_stack([np.ones(len(rose)), np.sin(angle), np.cos(angle), *market, *past])


def _logistic(features: Floats, rose: NDArray[np.bool_], step: float) -> NDArray[np.bool_]:
    """Forecast by a logistic model that learns from every half-hour after it was forecast."""
    weights, said = np.zeros(features.shape[1]), np.empty(len(rose), dtype=bool)
    for place, (row, truth) in enumerate(zip(features, rose, strict=True)):
        score = float(row @ weights)
        said[place] = score > 0
        weights += step * (float(truth) - 1 / (1 + np.exp(-score))) * row
    return said
