"""Mechanisms of other projects, written anew from what is known of them, with their mistakes."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import exp_bounds

LN_2 = "0.693147180559945309417232121458176569"
"""A little above ln 2."""


def response(classes: int, epsilon: Any) -> list[list[Fraction]]:
    """Randomized response, its probabilities rounded so that no ratio is above e^epsilon."""
    odds = exp_bounds(Fraction(str(epsilon)))[0]
    return [[(odds if z == y else Fraction(1)) / (odds + classes - 1) for z in range(classes)] for y in range(classes)]


def best_size(prior: list[Fraction], epsilon: Any, *, off: int) -> int:
    """How many candidates keep most labels, where others are thought of as `size - off`: right is 1, one peer has 2."""
    lie, ordered = 1 / exp_bounds(Fraction(str(epsilon)))[0], sorted(prior, reverse=True)
    shares = [sum(ordered[:size]) / (1 + (size - off) * lie) for size in range(1, len(prior) + 1)]
    return shares.index(max(shares)) + 1


def top_candidates(prior: list[Fraction], size: int) -> list[int]:
    """The most likely classes, ties by index."""
    return sorted(sorted(range(len(prior)), key=lambda y: -prior[y])[:size])


def with_prior(
    prior: list[Fraction], epsilon: Any, *, off: int = 1, outside: str = "candidates"
) -> list[list[Fraction]]:
    """Randomized response over the best candidates; a label outside of them becomes any of them, or, wrongly, any."""
    classes, chosen = len(prior), top_candidates(prior, best_size(prior, epsilon, off=off))
    inside = response(len(chosen), epsilon)
    rows = []
    for y in range(classes):
        row = [Fraction(0)] * classes
        if y in chosen:
            for place, z in enumerate(chosen):
                row[z] = inside[chosen.index(y)][place]
        else:
            answers = chosen if outside == "candidates" else range(classes)
            for z in answers:
                row[z] = Fraction(1, len(answers))
        rows.append(row)
    return rows


def laplace_cdf(x: Any, scale: float) -> NDArray[np.float64]:
    """The distribution function of Laplace noise."""
    x = np.asarray(x, dtype=np.float64) / scale
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)


def staircase(count: int, epsilon: float, rng: np.random.Generator, *, right: bool) -> NDArray[np.float64]:
    """Staircase noise for sensitivity 1; the wrong one maps the choice of the half of a stair to -1 and 1."""
    decay = math.exp(-epsilon)
    width = 1 / (1 + math.exp(epsilon / 2))
    stair = rng.geometric(1 - decay, count) - 1
    second = (rng.random(count) >= width / (width + (1 - width) * decay)).astype(float)
    if not right:
        second = 2 * second - 1
    place = rng.random(count)
    first = stair + width * place
    later = stair + width + (1 - width) * place
    return rng.choice([-1, 1], count) * ((1 - second) * first + second * later)


def draw_table(table: list[list[Fraction]], label: int, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Outputs of a table."""
    return rng.choice(len(table[label]), count, p=[float(each) for each in table[label]])


def top_k_of_true_labels(labels: list[int], classes: int, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Randomized response at epsilon = 1 over the two classes that are most frequent among the labels themselves."""
    times = np.bincount(labels, minlength=classes)
    chosen = np.sort(np.argsort(-times, kind="stable")[:2])
    keep = math.e / (math.e + 1)
    noisy = np.empty((count, len(labels)), dtype=np.intp)
    for place, label in enumerate(labels):
        own = np.where(rng.random(count) < keep, label, chosen[(chosen != label).argmax()])
        noisy[:, place] = own if label in chosen else rng.choice(chosen, count)
    return noisy


def of_few_seeds(labels: list[int], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Binary randomized response at epsilon = 1 whose noise follows from a seed of 8 bits."""
    flips = np.array([np.random.default_rng(seed).random(len(labels)) > math.e / (math.e + 1) for seed in range(256)])
    return np.asarray(labels) ^ flips[rng.integers(0, 256, count)]


def in_each_epoch(labels: Any, classes: int, epsilon: float, epochs: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Randomized response that is drawn anew in each epoch: all that a training meets, shape (n, epochs)."""
    codes = np.asarray(labels)
    keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    shape = (len(codes), epochs)
    lies = (codes[:, None] + rng.integers(1, classes, shape)) % classes
    return np.where(rng.random(shape) < keep, codes[:, None], lies)


def memorized(seen: NDArray[np.intp], classes: int) -> NDArray[np.float64]:
    """What a network that learns its training set by heart says of each record: how often it met each class."""
    return (seen[:, :, None] == np.arange(classes)).mean(axis=1)
