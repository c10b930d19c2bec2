"""Effects of an e-mail on private outcomes of 64,000 customers, beside what is found without privacy.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/hillstrom.py [--draws 50] [--write FILE.csv]

The table hillstrom/hillstrom.csv.gz is looked for in the folder LABELDP_DATA, by default ../shared/data. Each draw is a
release of its own, with fresh noise: the spread over draws is that of the noise alone. docs/notebooks/experiment.md
shows what --write stores.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import DATA

import labeldp as ldp
from labeldp import inference
from labeldp.inference.intervals import clopper_pearson, normal_quantile, recovered, sidak
from labeldp.mechanisms import Interval, UnbiasedNumbers

EPSILONS = (0.5, 1.0, 2.0)
LEVEL = 0.95
LOT = "the arm was drawn by lot"
ENDS = ("value", "low", "high")


@dataclass(frozen=True)
class Row:
    """Effects of several draws, or of no privacy.

    Args:
        name: the release, in words.
        effects, low, high: shape (draws,), or (draws, groups).
        effective: records without privacy that would be as precise, mean; None where it is not known.
    """

    name: str
    effects: np.ndarray
    low: np.ndarray
    high: np.ndarray
    effective: float | None = None


def without_privacy(outcome: np.ndarray, treated: np.ndarray, level: float = LEVEL) -> tuple[float, float, float]:
    """Effect and interval of true outcomes: of two exact ones for shares, the normal one of numbers."""
    arms = [outcome[treated], outcome[~treated]]
    value = float(arms[0].mean() - arms[1].mean())
    if set(np.unique(outcome).tolist()) <= {0, 1}:
        first, second = ((arm.mean(), *clopper_pearson(arm.sum(), len(arm), level)) for arm in arms)
        low, high = recovered(first, second)
        return value, float(low), float(high)
    half = normal_quantile(level) * float(np.sqrt(sum(arm.var(ddof=1) / len(arm) for arm in arms)))
    return value, value - half, value + half


def effects_of(outcome: str, data: pd.DataFrame, treated: np.ndarray, draws: int, groups: Any = None) -> list[Row]:
    """Rows of one outcome: without privacy, then central and local at each epsilon."""
    labels = data[outcome].to_numpy()
    if groups is None:
        parts, level = [np.ones(len(labels), dtype=bool)], LEVEL
    else:
        names = np.unique(groups)
        parts, level = [groups == name for name in names], sidak(LEVEL, len(names))
    plain = np.array([without_privacy(labels[part], treated[part], level) for part in parts])[None]
    rows = [Row("no privacy", *np.moveaxis(plain, -1, 0))]
    number = outcome == "spend"
    local_domain: Any = Interval(0, 100, grid=101, clip=True) if number else ldp.Classes(2)
    central_domain: Any = Interval(0, 500, grid=501) if number else ldp.Classes(2)
    labels = np.rint(labels) if number else labels
    for epsilon in EPSILONS:
        given = None if groups is None else ldp.Public(groups, why="in the register")
        lot = ldp.Public(treated, why=LOT)
        sums = inference.plan_sums("difference", central_domain, epsilon, treated=lot, groups=given)
        answers: Any = UnbiasedNumbers if number else ldp.RandomizedResponse
        settings = (("central", sums), ("local", answers(domain=local_domain, epsilon=epsilon)))
        for trust, mechanism in settings:
            rows.append(row_of(f"{trust}, ε = {epsilon:g}", labels, mechanism, draws, treated, groups))
    return rows


def row_of(name: str, labels: Any, mechanism: Any, draws: int, treated: np.ndarray, groups: Any) -> Row:
    """The estimates of several releases, each with fresh noise."""
    found = []
    for seed in range(draws):
        curator = ldp.Curator(labels, domain=mechanism.domain, budget=ldp.Budget(epsilon=9))
        release = curator.release(mechanism, rng=np.random.default_rng(seed))
        found.append(inference.difference(release, treated, groups=groups))
    value, low, high = (np.stack([np.atleast_1d(getattr(one, end)) for one in found]) for end in ENDS)
    shares = mechanism.domain == ldp.Classes(2)  # of dollars the variance is not known, and so is no precision
    effective = float(np.mean([one.n_effective for one in found])) if shares else None
    return Row(name, value, low, high, effective)


def lines_of(outcome: str, rows: list[Row], groups: list[str]) -> list[dict[str, Any]]:
    """A line for each row and group: the mean effect, its spread, mean ends, and how often 0 lies outside."""
    return [
        {
            "outcome": outcome,
            "group": name,
            "release": row.name,
            "effect": row.effects[:, group].mean(),
            "spread": row.effects[:, group].std(ddof=1) if len(row.effects) > 1 else 0.0,
            "low": row.low[:, group].mean(),
            "high": row.high[:, group].mean(),
            "away from 0": np.mean((row.low[:, group] > 0) | (row.high[:, group] < 0)),
            "as precise as": row.effective,
        }
        for row in rows
        for group, name in enumerate(groups)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    data = pd.read_csv(DATA / "hillstrom" / "hillstrom.csv.gz")
    treated = (data.segment != "No E-Mail").to_numpy()
    channels = data.channel.to_numpy().astype(str)
    lines: list[dict[str, Any]] = []
    for outcome in ("visit", "conversion", "spend"):
        lines += lines_of(outcome, effects_of(outcome, data, treated, options.draws), ["all"])
    rows = effects_of("visit", data, treated, options.draws, channels)
    lines += lines_of("visit", rows, np.unique(channels).tolist())
    table = pd.DataFrame(lines)
    if options.write:
        table.to_csv(options.write, index=False, float_format="%.5g")
    else:
        print(table.to_string())


if __name__ == "__main__":
    main()
