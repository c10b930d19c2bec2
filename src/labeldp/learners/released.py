"""What cells and neighbors ask of released labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners.probabilities import Probabilities, normalized
from labeldp.mechanisms import Classes, Interval, debias
from labeldp.privacy import InputError, Release

AT_ONCE = 1 << 20
"""Records that are debiased at a time, or four for each cell."""

ROUNDS = 100
"""Steps of expectation-maximization where the noise has no inverse."""

DIGITS = 12
"""Sums of the same bits in another order are the same share up to rounding."""


def domain_of(release: Any, kind: type[Classes] | type[Interval]) -> Any:
    """The domain of released labels.

    Raises:
        InputError: not the direct output of a mechanism on such a domain that answers every record.
    """
    mechanism = release.mechanism if isinstance(release, Release) else None
    if mechanism is None or not isinstance(mechanism.domain, kind) or not hasattr(mechanism, "unbiased"):
        raise InputError(
            f"release must be what Curator.release returned for a mechanism on {kind.__name__} that randomizes labels "
            "one by one"
        )
    return mechanism.domain


def unbiased(release: Release[Any]) -> NDArray[np.float64]:
    """Unbiased numbers, shape (n,), or class indicators, shape (n, K)."""
    return np.asarray(debias(release.mechanism, release.value).values)


def unbiased_means(release: Release[Any], cells: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean unbiased label of each cell, shape (cells, 1), or class shares, shape (cells, K).

    Args:
        release: of labels that `debias` inverts.
        cells: of each record, shape (n,).
        sizes: records in each cell, positive.
    """
    step = max(AT_ONCE, 4 * len(sizes)) if release.mechanism.records is None else len(cells)
    total: Any = 0.0
    for start in range(0, len(cells), step):
        rows = slice(start, start + step)
        values = np.asarray(debias(release.mechanism, release.value[rows]).values).reshape(len(cells[rows]), -1)
        total = total + np.column_stack([np.bincount(cells[rows], column, len(sizes)) for column in values.T])
    return np.round(total / sizes[:, None], DIGITS)


def likeliest_shares(likelihood: NDArray[np.float64], cells: NDArray[np.int64], count: int) -> Probabilities:
    """The class shares of each cell that explain its released codes best, shape (cells, K).

    Expectation-maximization from equal shares: it needs no inverse of the noise.

    Args:
        likelihood: P(released code | true class), shape (n, K).
        cells: of each record, shape (n,).
        count: how many cells.
    """
    classes = likelihood.shape[1]
    shares = np.full((count, classes), 1.0 / classes)
    for _ in range(ROUNDS):
        posterior = normalized(shares[cells] * likelihood)
        shares = normalized(np.column_stack([np.bincount(cells, column, count) for column in posterior.T]))
    return shares
