"""What the answer of least expected loss saves: measured costs of noisy labels on two tables of `data/`.

Costs are stated, shares of the labels are rounded figures that a reader of the tables' pages knows. No label sets one.

    python benchmarks/costs.py --data FOLDER [--write]
"""

import argparse
from pathlib import Path

import numpy as np
import pages
import pandas as pd

from labeldp.advice import Costs, LossRow
from labeldp.mechanisms import Classes, Optimal, RandomizedResponse
from labeldp.privacy import Public

EPSILONS = (0.5, 1.0, 2.0)
RUNS = 20

CREDIT = Costs(("0", "1"), np.array([[0.0, 1.0], [5.0, 0.0]]), np.array([0.8, 0.2]))
"""A missed default costs five times a false alarm; one in five defaults."""

BANDS = (0, 20, 35, 40, 45, 60, 100)
DISTANCE = np.abs(np.subtract.outer(range(6), range(6))).astype(float)
HOURS = Costs(tuple("abcdef"), DISTANCE, np.array([0.1, 0.1, 0.5, 0.1, 0.15, 0.05]))
"""Six bands of weekly hours, a unit for each band that an answer is off. Half work 40 hours."""

EVEN = Costs(HOURS.names, DISTANCE, np.full(6, 1 / 6))
"""The same where nothing is known of the shares."""


def columns(folder: Path) -> dict[str, tuple[Costs, np.ndarray]]:
    """Return the costs and the codes of the labels of each table."""
    credit = pd.read_csv(next((folder / "credit_default").glob("*.csv*")))
    adult = pd.concat([pd.read_csv(path) for path in sorted((folder / "adult").glob("*.csv*"))])
    hours = next(name for name in adult.columns if name.startswith("hours"))
    target = next(name for name in credit.columns if name.startswith("default"))
    bands = np.digitize(adult[hours].to_numpy(), BANDS[1:-1], right=True)
    return {
        "credit default, 5 : 1": (CREDIT, credit[target].to_numpy()),
        "adult hours, six bands": (HOURS, bands),
        "adult hours, even prior": (EVEN, bands),
    }


def measured(costs: Costs, codes: np.ndarray, epsilon: float) -> dict[str, np.ndarray]:
    """Return the mean cost of an answer in each run: the optimum, and the best decision on randomized response."""
    domain, prior = Classes(costs.names), Public(costs.prior, why="a stated figure")
    optimal, response = Optimal(domain, epsilon, costs.loss, prior), RandomizedResponse(domain, epsilon)
    decisions = (response.matrix().T @ (costs.prior[:, None] * costs.loss)).argmin(axis=1)
    found: dict[str, list[float]] = {"optimal": [], "randomized response": []}
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        found["optimal"].append(costs.loss[codes, optimal.randomize(codes, rng=rng)].mean())
        found["randomized response"].append(costs.loss[codes, decisions[response.randomize(codes, rng=rng)]].mean())
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    lines = ["| labels | ε | randomized response, best decision | least expected loss | saved | it is |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, (costs, codes) in columns(given.data).items():
        for epsilon in EPSILONS:
            values = measured(costs, codes, epsilon)
            one, other = values["randomized response"], values["optimal"]
            known = LossRow.of(costs, epsilon).known_as or "no named one"
            lines.append(
                f"| {name} | {epsilon:g} | {one.mean():.4f} ± {one.std(ddof=1):.4f} | {other.mean():.4f} ± "
                f"{other.std(ddof=1):.4f} | {100 * (1 - other.mean() / one.mean()):.1f} % | {known} |"
            )
    print("\n".join(lines))
    if given.write:
        pages.store("\n".join(lines), "costs")


if __name__ == "__main__":
    main()
