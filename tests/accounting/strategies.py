"""The exact supremum over adaptive strategies of a few steps; knows nothing of the library."""

import math
import random
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from statistics import NormalDist

Pair = tuple[tuple[float, float], ...]
"""Probabilities (p, q) of each output under two labels."""

Moves = Callable[[Hashable], Iterable[tuple[Pair | None, Hashable]]]

_NORMAL = NormalDist()


def best(state: Hashable, moves: Moves, may_end: Callable[[Hashable], bool], alpha: float, depth: int) -> float:
    """Return the supremum of sum max(0, V - alpha V') over strategies that end only where they may.

    A move without a pair has no output: a budget is set, a plan is declared.
    """
    value = max(0.0, 1 - alpha) if may_end(state) else -math.inf
    if depth:
        for pair, after in moves(state):
            if pair is None:
                value = max(value, best(after, moves, may_end, alpha, depth - 1))
                continue
            total = sum(p * best(after, moves, may_end, alpha * q / p, depth - 1) for p, q in pair if p > 0)
            value = max(value, total)
    return value


def response(epsilon: float, classes: int) -> Pair:
    """Randomized response."""
    z = math.exp(epsilon) + classes - 1
    two = ((math.exp(epsilon) / z, 1 / z), (1 / z, math.exp(epsilon) / z))
    return two if classes == 2 else (*two, ((classes - 2) / z, (classes - 2) / z))


def failing(pair: Pair, delta: float) -> Pair:
    """A pair that tells the label with probability delta."""
    return ((delta, 0.0), (0.0, delta), *(((1 - delta) * p, (1 - delta) * q) for p, q in pair))


def binned(mu: float, cuts: list[float]) -> Pair:
    """A Gaussian of deviation mu, told by the bin that it falls into."""
    edges = [-math.inf, *sorted(cuts), math.inf]

    def cdf(x: float) -> float:
        return float(x > 0) if math.isinf(x) else _NORMAL.cdf(x)

    return tuple((cdf(b - mu) - cdf(a - mu), cdf(b) - cdf(a)) for a, b in pairwise(edges))


def orders(pair: Pair) -> tuple[Pair, Pair]:
    """Both orders of the two labels."""
    return pair, tuple((q, p) for p, q in pair)


def some_release(g: random.Random, epsilon: float, delta: float, rate: float) -> tuple[Pair, str, tuple[float, ...]]:
    """A random release: its pair, and which loss the library states of it."""
    kind = g.randrange(4)
    if kind == 0:
        loss, classes = round(g.uniform(0.05, 1.2) * epsilon, 3), g.choice((2, 3, 20, 1000))
        return response(loss, classes), "response", (loss, classes)
    if kind == 1:
        loss, failure = round(g.uniform(0.05, 1) * epsilon, 3), delta * g.choice((0.05, 0.1, 0.5, 1))
        return failing(response(loss, 2), failure), "approximate", (loss, failure)
    mu = math.sqrt(rate * g.choice((1, 0.94, 0.5, 0.25)) * 0.9999) if rate else 0.3
    return binned(mu, [epsilon / mu + mu / 2, g.uniform(-1, 1)]), "gaussian", (mu,)
