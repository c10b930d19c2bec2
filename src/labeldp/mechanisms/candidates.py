"""Candidate sets: the classes that randomized response with a prior may answer, one set for each record."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.inputs import prior_rows
from labeldp.privacy import BLOCK, InputError, Public, Release, exp_bounds

Keys = NDArray[np.uint64]
"""Priors as distinct integers in the same order."""

Ranked = NDArray[np.float64]
"""Keys as floats in falling order, shape (classes, records)."""


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

    def check(self, classes: int) -> None:
        """Refuse what is not one non-empty set of `classes` classes for each record: its sampler would not be private.

        Raises:
            InputError: another number of classes, an empty set, or bits beyond the last class.
        """
        width = -(-classes // 8)
        if self.classes != classes or self.packed.ndim != 2 or self.packed.shape[1] != width:
            raise InputError(f"prior must hold sets of {classes} classes, as packed bits, shape (n, {width})")
        beyond = np.uint8(0xFF >> (classes - 8 * (width - 1)))
        if self.packed.dtype != np.uint8 or np.any(self.packed[:, -1] & beyond) or not np.all(self.packed.any(axis=1)):
            raise InputError("prior must hold at least one class for each record, and no bit beyond the last class")

    def membership(self) -> NDArray[np.bool_]:
        """Return which classes are candidates, shape (n, classes)."""
        return np.unpackbits(self.packed, axis=1, count=self.classes).view(np.bool_)

    @property
    def sizes(self) -> NDArray[np.uint32]:
        """How many candidates each record has, shape (n,)."""
        total = np.zeros(len(self.packed), dtype=np.uint32)
        for column in self.packed.T:
            total += np.bitwise_count(column)
        return total

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
        """Return the k classes of largest prior, for each row of `prior` (n, classes); ties by class index."""
        return cls._where(prior, lambda ranked: ranked[k - 1].view(np.uint64))

    @classmethod
    def best(cls, prior: NDArray[np.float64], epsilon: Fraction) -> "CandidateSets":
        """Return, for each row of `prior` (n, classes), the set that most often keeps a label drawn from it.

        Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 2 (RRWithPrior).
        """
        decay = float(exp_bounds(-epsilon)[1])
        chances = np.asarray(1 / (1 + decay * np.arange(prior.shape[1])), dtype=np.float64)
        return cls._where(prior, lambda ranked: _best_threshold(ranked, chances))

    @classmethod
    def _where(cls, prior: NDArray[np.float64], threshold: Callable[[Ranked], Keys]) -> "CandidateSets":
        """Return sets of the largest priors; `threshold` gives the smallest key of each, from keys in falling order."""
        records, classes = prior.shape
        packed = np.empty((records, -(-classes // 8)), dtype=np.uint8)
        rows = max(256, 4 * BLOCK // classes)  # a block that stays in cache
        keys, ranked = np.empty((2, rows, classes), dtype=np.uint64)
        for start in range(0, records, rows):
            count = min(rows, records - start)
            _sortable(prior[start : start + count], keys[:count])
            ranked[:count] = keys[:count]
            ranked[:count].sort(axis=1)
            smallest = threshold(np.ascontiguousarray(ranked[:count, ::-1].T).view(np.float64))
            packed[start : start + count] = np.packbits(keys[:count] >= smallest[:, None], axis=1)
        return cls(packed, classes)

    def words(self) -> NDArray[np.uint64]:
        """Return the sets as 64-bit words, shape (n, ceil(classes / 64)); see `words_of_places`."""
        return _as_words(self.packed)


def words_of_places() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """For each of the 64 places in a word of a set: the word with that bit alone, and with all earlier places' bits."""
    bits = np.eye(64, dtype=np.uint8)
    below = np.tri(64, k=-1, dtype=np.uint8)
    return _as_words(np.packbits(bits, axis=1))[:, 0], _as_words(np.packbits(below, axis=1))[:, 0]


def _as_words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def _best_threshold(ranked: Ranked, chances: NDArray[np.float64]) -> Keys:
    """Return the smallest key of the set that maximizes chance times mass; of equal ones, of the smallest set."""
    mass = ranked[0].copy()
    best, smallest = mass * chances[0], ranked[0].copy()
    for candidate, chance in zip(ranked[1:], chances[1:], strict=True):
        mass += candidate
        score = mass * chance
        better = score > best
        np.copyto(best, score, where=better)
        np.copyto(smallest, candidate, where=better)
    return smallest.view(np.uint64)


def _sortable(prior: NDArray[np.float64], keys: Keys) -> None:
    """Priors as integers in the same order, all distinct: the lowest mantissa bits give ties to the smaller class."""
    classes = prior.shape[1]
    low_bits = np.uint64((1 << (classes - 1).bit_length()) - 1)
    # Negative zeros become zeros; a zero's key is a denormal number that holds the tie-break alone.
    np.add(prior, 0.0, out=keys.view(np.float64))
    keys &= ~low_bits
    keys |= np.arange(classes - 1, -1, -1, dtype=np.uint64)


def candidate_sets(prior: Any, classes: int, epsilon: Fraction) -> CandidateSets:
    """Return the sets of RRWithPrior for a released or public prior; return such sets unchanged."""
    sets = prior.value if isinstance(prior, Public | Release) else None
    if isinstance(sets, CandidateSets):
        copied = CandidateSets(sets.packed.copy(), sets.classes)
        copied.check(classes)
        return copied
    return CandidateSets.best(prior_rows(prior, classes), epsilon)
