"""Candidate sets: the classes that randomized response with a prior may answer, one set for each record."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import BLOCK, InputError, Public, Release, exp_bounds

ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class CandidateSets:
    """One non-empty set of classes for each record, as packed bits: all that remains of a prior.

    Args:
        packed: uint8 array, shape (n, ceil(classes / 8)), bit j of a row set when class j is a candidate.
        classes: the number of classes.
    """

    packed: NDArray[np.uint8] = field(repr=False)
    classes: int

    def __post_init__(self) -> None:
        self.packed.flags.writeable = False

    def __len__(self) -> int:
        return len(self.packed)

    def membership(self, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """Which classes are candidates, shape (stop - start, classes)."""
        return np.unpackbits(self.packed[start:stop], axis=1, count=self.classes).view(np.bool_)

    @property
    def sizes(self) -> NDArray[np.uint32]:
        """How many candidates each record has, shape (n,)."""
        return np.bitwise_count(self.packed).sum(axis=1, dtype=np.uint32)

    @property
    def digest(self) -> str:
        """SHA-256 of the sets, in the order of the records."""
        header = f"{len(self)} records of {self.classes} classes;".encode()
        return hashlib.sha256(header + np.ascontiguousarray(self.packed).data).hexdigest()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CandidateSets)
            and self.classes == other.classes
            and bool(np.array_equal(self.packed, other.packed))
        )

    def __hash__(self) -> int:
        return hash((self.classes, self.digest))

    @classmethod
    def top(cls, prior: NDArray[np.float64], k: int) -> "CandidateSets":
        """The k classes of largest prior, for each row of `prior` (n, classes); ties by class index."""
        return cls._by_size(prior, lambda ranked: np.full(len(ranked), k))

    @classmethod
    def best(cls, prior: NDArray[np.float64], epsilon: Fraction) -> "CandidateSets":
        """For each row of `prior` (n, classes) the set that most often keeps a label drawn from it.

        Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 2 (RRWithPrior).
        """
        growth = float(exp_bounds(epsilon)[0])
        chances = growth / (growth + np.arange(prior.shape[1]))
        return cls._by_size(prior, lambda ranked: 1 + np.argmax(np.cumsum(ranked, axis=1) * chances, axis=1))

    @classmethod
    def _by_size(cls, prior: NDArray[np.float64], choose: Any) -> "CandidateSets":
        """Sets of the largest priors, `choose` giving each row's size from its priors in falling order."""
        packed = np.empty((len(prior), -(-prior.shape[1] // 8)), dtype=np.uint8)
        for start in range(0, len(prior), _rows(prior.shape[1])):
            rows = slice(start, start + _rows(prior.shape[1]))
            keys = _sortable(prior[rows])
            ranked = np.sort(keys, axis=1)
            sizes = choose(ranked[:, ::-1].view(np.float64))
            thresholds = np.take_along_axis(ranked, ranked.shape[1] - sizes[:, None], axis=1)
            packed[rows] = np.packbits(keys >= thresholds, axis=1)
        return cls(packed, prior.shape[1])

    def blocks(self) -> Iterator[NDArray[np.bool_]]:
        """`membership` in blocks of records."""
        for start in range(0, len(self), BLOCK):
            yield self.membership(start, start + BLOCK)


def _rows(classes: int) -> int:
    """Rows of a block that stays in cache."""
    return max(256, BLOCK // classes)


def _sortable(prior: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Priors as integers in the same order, all distinct: the lowest mantissa bits give ties to the smaller class."""
    classes = prior.shape[1]
    low_bits = np.uint64((1 << (classes - 1).bit_length()) - 1)
    ties = np.arange(classes - 1, -1, -1, dtype=np.uint64)
    # A zero prior stays the smallest: its key is a denormal number that holds the tie-break alone.
    return ((prior + 0.0).view(np.uint64) & ~low_bits) | ties


def candidate_sets(prior: Any, classes: int, epsilon: Fraction) -> CandidateSets:
    """The sets of RRWithPrior for a released or public prior, or such sets as they are."""
    sets = prior.value if isinstance(prior, Public | Release) else None
    if isinstance(sets, CandidateSets):
        if sets.classes != classes:
            raise InputError(f"prior must hold sets of {classes} classes")
        return sets
    return CandidateSets.best(prior_rows(prior, classes), epsilon)


def prior_rows(prior: Any, classes: int, name: str = "prior") -> NDArray[np.float64]:
    """The array of a prior that was declared public or was released.

    Raises:
        InputError: a bare array (nothing shows that it has not seen the labels), or not a distribution over
            the classes, shape (n, classes) or (classes,).
    """
    if not isinstance(prior, Public | Release):
        raise InputError(
            f'{name} must be a Release or Public(array, why="…"): a prior learnt from the private labels '
            "would destroy the guarantee without a sign"
        )
    try:
        array = np.ascontiguousarray(prior.value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, shape (n, {classes})") from None
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    if rows.ndim != 2 or rows.shape[1] != classes:
        raise InputError(f"{name} must have one column for each of the {classes} classes")
    if not np.all(np.isfinite(rows)):
        raise InputError(f"{name} must be finite: it holds NaN or infinite values")
    if np.any(rows < 0):
        raise InputError(f"{name} must not be negative")
    if np.any(np.abs(rows.sum(axis=1) - 1.0) > ROW_SUM_TOLERANCE):
        raise InputError(f"{name} must sum to 1 in each row")
    return rows
