"""What mechanisms of a trusted curator promise: on counts, sums, moments and whole records."""

import math
from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import CountMechanism, CrossMoment, FullMeans, FullSelection, LaplaceSum
from labeldp.privacy import exp_bounds
from labeldp.testing.laws import check_law, require

MORE_EPSILON = 1.1
SLACK = 1 + 1e-9
"""Laws of these mechanisms are compared in doubles."""

Counts = NDArray[np.int64]


def check_counts(mechanism: CountMechanism, seed: int) -> None:
    """The law of a mechanism on counts, on all neighbors of a few count vectors, and its sampler."""
    size = mechanism.domain.size
    base = np.arange(size)[::-1] % 3 + 2
    laws = {}
    for source, target in [(0, 0), *permutations(range(min(size, 4)), 2)]:
        counts = base.copy()
        counts[source] -= 1
        counts[target] += 1
        laws[source, target] = mechanism.law(counts)
    for one, two in permutations(laws.values(), 2):
        # Two neighbors of the same counts differ by up to two replaced labels.
        require(bool(np.all(one <= two * math.exp(2 * mechanism.epsilon) * SLACK)), "two steps cost at most twice")
    for key, changed in laws.items():
        if key != (0, 0):
            ratio = float(np.max(changed / laws[0, 0]))
            require(ratio <= math.exp(mechanism.epsilon) * SLACK, "replacing one label costs at most epsilon")
    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)
    rng = np.random.default_rng(seed)

    for first in range(min(size, 8) if mechanism.release_counts(base[None], rng=rng).ndim == 2 else 1):
        turned = np.roll(base, -first)
        check_law(_turned(mechanism, base, first, rng), mechanism.law(turned), other.law(turned))


def _turned(
    mechanism: CountMechanism, base: Counts, first: int, rng: np.random.Generator
) -> Callable[[int], NDArray[np.intp]]:
    """A function that draws `count` outcomes for one group's counts, seen from class `first` on."""

    def draw(count: int) -> NDArray[np.intp]:
        released = mechanism.release_counts(np.tile(base, (count, 1)), rng=rng)
        seen = np.roll(released, -first, axis=1) if released.ndim == 2 else released
        return mechanism.outcome(seen, np.roll(base, -first))

    return draw


def check_sums(mechanism: LaplaceSum, seed: int) -> None:
    """How far one label moves a sum, what that costs at every kink of the true curve, and the sampler.

    The noise is geometric, so that the loss of every output is a multiple of the rate: the true curve bends at the
    multiples up to the largest move and nowhere else.
    """
    top = mechanism.domain.size - 1
    base = np.zeros(mechanism.records, dtype=mechanism.domain.dtype)
    for record in range(min(mechanism.records, 8)):
        for code in {1, top}:
            changed = base.copy()
            changed[record] = code
            move = mechanism.counts(changed) - mechanism.counts(base)
            require(int(np.abs(move).sum()) == code, "a replaced label moves one sum by the distance of the labels")
    rate, claim = float(mechanism.rate), mechanism.privacy_loss()
    for kink in range(top + 1):
        true = _shifted_delta(rate, top, kink * rate)
        claimed = claim.delta(kink * mechanism.rate) * SLACK + 1e-12
        require(true <= claimed, "the claimed delta(epsilon) is never below the true one")
    bound = float(exp_bounds(mechanism.rate * top)[0])
    require(bound <= math.exp(mechanism.epsilon) * SLACK, "replacing one label costs at most epsilon")
    rng, sums = np.random.default_rng(seed), np.array([3])
    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)

    def draw(count: int) -> NDArray[np.intp]:
        released = mechanism.release_counts(np.tile(sums, (count, 1)), rng=rng)
        return mechanism.outcome(released, sums)

    edges = mechanism.edges()
    check_law(draw, mechanism.law_between(edges, sums), other.law_between(edges, sums))


def _shifted_delta(rate: float, move: int, epsilon: float) -> float:
    """sum of (P(i) - e^epsilon P(i - move))+ for two-sided geometric noise, in doubles: where P(i) is larger."""
    decay = math.exp(-rate)
    reach = move + math.ceil(40 / rate) if rate > 1e-3 else 4 * move
    places = np.arange(-reach, reach + 1, dtype=np.float64)
    law, shifted = ((1 - decay) / (1 + decay) * np.exp(-rate * np.abs(places - each)) for each in (0, move))
    tail = decay ** (reach + 1) / (1 + decay)
    outside = max(0.0, tail - math.exp(epsilon) * tail * decay**move)
    return float(np.maximum(law - math.exp(epsilon) * shifted, 0).sum()) + outside


def check_moments(mechanism: CrossMoment, seed: int) -> None:
    """How far one replaced label moves the sums, and the sampler of their noise."""
    base = np.zeros(mechanism.records, dtype=mechanism.domain.dtype)
    for record in range(min(mechanism.records, 8)):
        for code in {1, mechanism.domain.size - 1}:
            changed = base.copy()
            changed[record] = code
            move = mechanism.sums(changed) - mechanism.sums(base)
            require(int((move**2).sum()) <= mechanism.sensitivity_square, "a replaced label moves no further than said")
            require(int(np.abs(move).sum()) <= mechanism.sensitivity_sum, "a replaced label moves no further than said")
    rng, edges = np.random.default_rng(seed), mechanism.edges()

    def draw(count: int) -> NDArray[np.intp]:
        return np.searchsorted(edges, mechanism.noise(count, rng=rng))

    other = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)
    check_law(draw, mechanism.noise_law(edges), other.noise_law(edges))


def neighboring_tables(cells: int, size: int, seed: int, pairs: int = 40) -> Iterator[tuple[Counts, Counts]]:
    """Tables (cells, labels) that differ in one record, which may leave a cell empty or enter an empty one."""
    rng = np.random.default_rng(seed)
    for _ in range(pairs):
        table = rng.integers(0, 4, (cells, size)) * rng.integers(0, 2, (cells, 1))
        own = (int(rng.integers(cells)), int(rng.choice([0, size - 1])))
        other = (int(rng.integers(cells)), int(rng.choice([0, size - 1])))
        one, two = table.copy(), table.copy()
        one[own] += 1
        two[other] += 1
        yield one, two
        yield two, one


def check_selection(mechanism: FullSelection, seed: int) -> None:
    """The joint law of all cells' classes on tables that differ in one record, and the sampler."""
    grid, size = mechanism.domain.grid, mechanism.domain.labels.size
    for one, two in neighboring_tables(grid.cells, size, seed):
        # Cells are independent: the largest ratio of all together is the product of the largest of each.
        ratios = [np.max(mechanism.law(a) / mechanism.law(b)) for a, b in zip(one, two, strict=True)]
        total = float(np.prod(ratios))
        require(total <= math.exp(mechanism.epsilon) * SLACK, "replacing one record costs at most epsilon")
    counts = np.arange(size)[::-1] % 3 + 2
    rng, other = np.random.default_rng(seed), mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON)

    def draw(count: int) -> NDArray[np.intp]:
        return mechanism.release_counts(np.tile(counts, (count, 1)), rng=rng).astype(np.intp)

    check_law(draw, mechanism.law(counts), other.law(counts))


def check_means(mechanism: FullMeans, seed: int) -> None:
    """How far one record moves all rounded means together, that the noise fits to it, and the sampler."""
    grid, size = mechanism.domain.grid, mechanism.domain.labels.size
    for one, two in neighboring_tables(grid.cells, size, seed):
        move = np.abs(mechanism.rounded(one) - mechanism.rounded(two)).sum()
        cost = float(mechanism.rate) * int(move)
        require(cost <= mechanism.epsilon * SLACK, "replacing one record costs at most epsilon")
    edges = np.unique(np.rint(np.linspace(-3, 3, 13) / float(mechanism.rate)).astype(np.int64))
    other, rng = mechanism.with_epsilon(mechanism.epsilon * MORE_EPSILON), np.random.default_rng(seed)

    def draw(count: int) -> NDArray[np.intp]:
        return np.searchsorted(edges, mechanism.noise(count, rng=rng))

    check_law(draw, mechanism.noise_law(edges), other.noise_law(edges))
