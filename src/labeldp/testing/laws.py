"""Tests whether draws follow a law, and would be told apart from a slightly different one."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FALSE_ALARM = 1e-12
"""Probability that one statistical check fails for a correct mechanism, and that it misses 10 % more epsilon."""

LARGEST_SAMPLE = 1_000_000_000

CHUNK = 1 << 20

_QUANTILE = 7.04  # of the standard normal at FALSE_ALARM

_SMALLEST_EXPECTATION = 20.0


class ContractViolation(AssertionError):
    """A mechanism does not keep the contract."""


def require(holds: bool, sentence: str) -> None:
    """Raise the sentence where it does not hold."""
    if not holds:
        raise ContractViolation(sentence)


def check_law(draw: Callable[[int], NDArray[np.intp]], law: NDArray[np.float64], wrong: NDArray[np.float64]) -> None:
    """Return a chi-squared test that must accept the law, and reject the wrong one where they differ."""
    from scipy.stats import chi2

    if np.count_nonzero(law) == 1:
        require(bool(np.all(draw(1000) == np.argmax(law))), "the sampler follows the weights")
        return
    differ = bool(np.any(np.abs(law - wrong) > 1e-15))
    # However far the two are apart: a chi-squared law describes counts only where they are not few.
    count = max(sample_size(law, wrong), CHUNK >> 6) if differ else CHUNK
    if count > LARGEST_SAMPLE:
        raise ContractViolation("epsilon is too small for the sampler check: choose a larger one for it")
    counts = _tally(draw, count, len(law))
    require(len(counts) == len(law) and not np.any(counts[law == 0]), "the sampler draws what the weights allow")
    cells = _cells(law, wrong, count)
    limit = float(chi2.isf(FALSE_ALARM, int(cells.max())))
    require(_statistic(counts, law, cells) <= limit, "the sampler follows the weights")
    require(not differ or _statistic(counts, wrong, cells) > limit, "the sampler is told apart from 10 % more epsilon")


def _tally(draw: Callable[[int], NDArray[np.intp]], count: int, outputs: int) -> NDArray[np.intp]:
    """Return how often each output came in `count` draws; one cell more where an output is out of range."""
    total = np.zeros(outputs + 1, dtype=np.intp)
    for start in range(0, count, CHUNK):
        drawn = draw(min(CHUNK, count - start))
        total += np.bincount(np.minimum(drawn, outputs), minlength=outputs + 1)
    return total if total[-1] else total[:-1]


def sample_size(law: NDArray[np.float64], wrong: NDArray[np.float64]) -> int:
    """Return draws after which a chi-squared test tells `law` from `wrong` with both errors below `FALSE_ALARM`."""
    from scipy.stats import chi2

    used = (law > 0) & (wrong > 0)
    freedom = max(int(np.count_nonzero(used)) - 1, 1)
    limit = float(chi2.isf(FALSE_ALARM, freedom))
    shift = limit - freedom
    while freedom + shift - _QUANTILE * math.sqrt(2 * (freedom + 2 * shift)) < 1.2 * limit:
        shift *= 1.1
    distance = float(np.sum((law[used] - wrong[used]) ** 2 / wrong[used]))
    return int(max(1.2 * shift / distance, 2 * _SMALLEST_EXPECTATION / float(law[used].max()))) + 1


def _cells(law: NDArray[np.float64], wrong: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return a cell for each output; neighbors share one until it is expected often enough under both laws."""
    cells, cell, expected = np.zeros(len(law), dtype=np.intp), 0, 0.0
    for i, share in enumerate(np.minimum(law, wrong)):
        cells[i] = cell
        expected += share * count
        if expected >= _SMALLEST_EXPECTATION and i + 1 < len(law):
            cell, expected = cell + 1, 0.0
    if expected < _SMALLEST_EXPECTATION and cell:
        cells[cells == cell] = cell - 1
    return cells


def _statistic(counts: NDArray[np.intp], law: NDArray[np.float64], cells: NDArray[np.intp]) -> float:
    expected = np.bincount(cells, weights=law) * counts.sum()
    return float(np.sum((np.bincount(cells, weights=counts) - expected) ** 2 / expected))
