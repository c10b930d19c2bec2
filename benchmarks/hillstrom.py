"""Effects of an e-mail on private outcomes of 64,000 customers, beside what is found without privacy.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/hillstrom.py [--draws 50] [--write docs/results]

The table hillstrom/hillstrom.csv.gz is looked for in the folder LABELDP_DATA, by default ../shared/data. Each draw is a
release of its own, with fresh noise: the spread over draws is that of the noise alone. --write makes the page and one
forest plot for each outcome.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import DATA

import labeldp as ldp
from labeldp import inference
from labeldp.inference.forest import forest
from labeldp.inference.intervals import normal_quantile, recovered, sidak, wilson
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
    """Effect and interval of true outcomes: Newcombe's of shares, the normal one of numbers."""
    arms = [outcome[treated], outcome[~treated]]
    value = float(arms[0].mean() - arms[1].mean())
    if set(np.unique(outcome).tolist()) <= {0, 1}:
        first, second = ((arm.mean(), *wilson(arm.sum(), len(arm), level)) for arm in arms)
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


def table(rows: list[Row], digits: int) -> list[str]:
    """A line for each row: the mean effect with its spread, the mean interval, and how often 0 lies outside."""
    lines = [
        "| release | effect | interval, mean ends | width | away from 0 | as precise as |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        effect, low, high = (numbers[:, 0] for numbers in (row.effects, row.low, row.high))
        spread = f" ± {effect.std(ddof=1):.{digits}f}" if len(effect) > 1 else ""
        away = f"{100 * np.mean((low > 0) | (high < 0)):.0f} %"
        as_precise = "" if row.effective is None else f"{row.effective:,.0f} records"
        mean = f"{effect.mean():.{digits}f}{spread}"
        ends = f"{low.mean():.{digits}f} to {high.mean():.{digits}f} | {(high - low).mean():.{digits}f}"
        lines.append(f"| {row.name} | {mean} | {ends} | {away} | {as_precise} |")
    return lines


def by_channel(rows: list[Row], names: list[str]) -> list[str]:
    """A line for each row with the mean ends of the intervals of all groups, which hold together."""
    lines = ["| release | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for row in rows:
        cells = [f"{low:.3f} to {high:.3f}" for low, high in zip(row.low.mean(0), row.high.mean(0), strict=True)]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return lines


PAGE = """# An e-mail experiment with private outcomes

Hillstrom's experiment: {records:,} customers of a shop, two thirds of whom were sent an e-mail by lot. Arms and
channels are public. Whether a customer visited the shop, bought something, and for how much, is private. What is the
effect of the e-mail without privacy, from a trusted curator, and from single answers?

```console
$ OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/hillstrom.py{draws} --write docs/results
```

The data is Kevin Hillstrom's. It was published in 2008 for free use and is not part of this package: the command looks
for `hillstrom/hillstrom.csv.gz` in the folder `LABELDP_DATA`.

Each row is of {count} releases with fresh noise. The effect is their mean ± their standard deviation; an interval has
the mean of their ends. *Away from 0* is the part of the releases whose 95 % interval leaves out 0. *As precise as* is
how many records without privacy give such an interval. Central: the noisy sums of both arms (`plan_sums`). Local:
randomized response, and for dollars `UnbiasedNumbers`. Each outcome is charged by itself.
"""

FOUND = """## What it teaches

- With a trusted curator, visits and purchases lose nothing: there are enough records for every ε here.
- Answers show the effect on visits from ε = 0.5 on. They hardly show the effect on purchases, half a point, even at
  ε = 2.
- 99 of 100 customers spent nothing, and others up to 499. Answers do not show the effect at all. They were clipped at
  100, which makes the effect smaller.
- The interval of a noisy sum of dollars is wider than without privacy, although its noise is small. Sums do not tell
  the variance, so the largest one that the range admits is taken.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    data = pd.read_csv(DATA / "hillstrom" / "hillstrom.csv.gz")
    treated = (data.segment != "No E-Mail").to_numpy()
    drawn = "" if options.draws == 50 else f" --draws {options.draws}"
    lines = [PAGE.format(records=len(data), count=options.draws, draws=drawn)]
    for outcome, title in (("visit", "Visits"), ("conversion", "Purchases"), ("spend", "Dollars spent")):
        start = time.perf_counter()
        rows = effects_of(outcome, data, treated, options.draws)
        digits = 3 if outcome == "spend" else 4
        lines += [f"## {title}", "", f"Without an e-mail the mean is {data[outcome][~treated].mean():.4f}.", ""]
        lines += table(rows, digits)
        lines += ["", f"![Effect on {outcome}, with intervals](hillstrom/{outcome}.svg)", ""]
        points = [tuple(float(end[:, 0].mean()) for end in (row.effects, row.low, row.high)) for row in rows]
        if options.write:
            folder = options.write / "hillstrom"
            folder.mkdir(exist_ok=True)
            picture = forest(f"effect on {outcome}", [row.name for row in rows], points)  # type: ignore[arg-type]
            (folder / f"{outcome}.svg").write_text(picture + "\n", encoding="utf-8")
        print(f"{outcome}: {time.perf_counter() - start:.0f} s", flush=True)
    channels = data.channel.to_numpy().astype(str)
    rows = effects_of("visit", data, treated, options.draws, channels)
    lines += ["## Visits by channel of the last purchase", "", "All intervals of a row hold together.", ""]
    lines += by_channel(rows, np.unique(channels).tolist())
    text = "\n".join([*lines, "", FOUND])
    if options.write:
        (options.write / "hillstrom.md").write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
