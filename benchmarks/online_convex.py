"""Regret of private learners of linear losses on a ball and a box, beside their bounds.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/online_convex.py [--seeds 5] \\
        [--horizons 10000 100000] [--write]

Gradients have length 1 (at most, where they lean), the body radius 1/2 (a ball, or a cube with this half diagonal);
epsilon = 1 and delta = 1e-6 for one replaced gradient. Every learner has the parameters of `plan_convex`; nothing was
tuned. *Random*: directions independent and uniform. *Lean*: nine tenths of that and a tenth of one fixed direction.
*Blocks*: a random direction is held for 100 rounds. Regret is against the best fixed point; each number is a mean over
seeds, of data and learner alike, with its standard deviation (of one, not of the mean). "Tree, fast" is the tree at the
rate that would be best if the bound for monotone noise held for it, which is not proved. "Doing nothing" stays at the
center. Matrix factorization and tree are noisy leaders (`NoisyLeader`); "gradient descent" is `OnlineGradientDescent`,
without privacy.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pages

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from labeldp.online import Ball, Body, Box, linear_rate, plan_convex
from labeldp.privacy import as_successive
from papers.online.baselines import OnlineGradientDescent

EPSILON, DELTA, RADIUS = 1.0, 1e-6, 0.5
HELD = 100
LEAN = 0.1


def directions(count: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform points of a sphere."""
    rows = rng.normal(size=(count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def random(horizon: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Independent directions."""
    return directions(horizon, dimension, rng)


def lean(horizon: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Directions that lean to one side."""
    rows = directions(horizon, dimension, rng) * (1 - LEAN) + LEAN * directions(1, dimension, rng)
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))


def blocks(horizon: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Directions that are held for a while."""
    return np.repeat(directions(-(-horizon // HELD), dimension, rng), HELD, axis=0)[:horizon]


KINDS: dict[str, Callable[..., np.ndarray]] = {"random": random, "lean": lean, "blocks": blocks}


def bodies(dimension: int) -> dict[str, Body]:
    """A ball and a cube of the same radius."""
    side = RADIUS / dimension**0.5
    return {"ball": Ball(dimension, RADIUS), "box": Box((-side,) * dimension, (side,) * dimension)}


def learners(body: Body, horizon: int) -> dict[str, tuple[Any, float]]:
    """Kernels and their bounds."""
    names = ["matrix-factorization", "tree", "redraw", "dartboard", "l2p"]
    plans = {name: plan_convex(body, horizon, EPSILON, DELTA, method=name) for name in names}
    found = {name: (plan.kernel, plan.regret_bound) for name, plan in plans.items()}
    tree: Any = plans["tree"].kernel
    fast = replace(tree, rate=linear_rate(body, horizon, 1.0, tree.sums.deviation))
    descent = OnlineGradientDescent(body, horizon, 1.0)
    return {**found, "tree, fast": (fast, np.nan), "gradient descent": (descent, RADIUS * horizon**0.5)}


def regret(body: Body, gradients: np.ndarray, played: np.ndarray) -> float:
    """Of the points that were played, against the best fixed one."""
    total = gradients.sum(axis=0)
    return float((gradients * played).sum() - total @ body.project(-1e12 * total))


def measured(body: Body, horizon: int, seeds: int) -> list[list[str]]:
    """Rows of a table: a learner, its bound, and regret on each kind of data."""
    rows = []
    for name, (kernel, bound) in [*learners(body, horizon).items(), ("doing nothing", (None, np.nan))]:
        row = [name, "–" if np.isnan(bound) else f"{bound:.0f}"]
        for kind in KINDS:
            values = [once(body, horizon, kernel, kind, seed) for seed in range(seeds)]
            row.append(f"{np.mean(values):.0f} ± {np.std(values, ddof=1):.0f}")
        rows.append(row)
        print("|", " | ".join(row), "|", flush=True)
    return rows


def once(body: Body, horizon: int, kernel: Any, kind: str, seed: int) -> float:
    """The regret of one learner on one sequence."""
    gradients = KINDS[kind](horizon, body.dimension, np.random.default_rng([1, seed]))
    if kernel is None:
        return regret(body, gradients, np.zeros_like(gradients))
    rng = as_successive(np.random.default_rng([2, seed]))
    _, played = kernel.update(kernel.init(rng=rng), gradients, rng=rng)
    return regret(body, gradients, played)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizons", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    options = parser.parse_args()
    lines: list[str] = []
    for horizon in options.horizons:
        for dimension in options.dimensions:
            for shape, body in bodies(dimension).items():
                if shape == "box" and horizon > 10_000:
                    continue
                title = f"## T = {horizon:,}, {dimension} dimensions, {shape}"
                print(title, flush=True)
                lines += ["", title, "", "| learner | bound | " + " | ".join(KINDS) + " |"]
                lines += ["|---|---:|" + "---:|" * len(KINDS)]
                lines += ["| " + " | ".join(row) + " |" for row in measured(body, horizon, options.seeds)]
    if options.write:
        pages.store("\n".join(lines) + "\n", "online_convex")


if __name__ == "__main__":
    main()
