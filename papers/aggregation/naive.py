"""Exact sums of random bags, which promise nothing, and the exact loss of Gaussian noise on linear sums."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.bags.base import MAX_RECORDS, Keys
from labeldp.mechanisms import Mechanism
from labeldp.privacy import (
    InputError,
    Integers,
    PrivacyLoss,
    RandomSource,
    Trust,
    check_integer,
    float_above,
    label_width,
    set_fields,
)
from labeldp.sampling import SEED_WORDS, fresh_seed, public_stream
from labeldp.testing.laws import require


@final
@dataclass(frozen=True)
class NaiveBags(Mechanism):
    """Exact sums of the labels of random bags: the papers' naive LBA and LLP, to be compared with.

    Do not use it on labels that matter: whoever knows all labels of a bag but one reads that one off. Only a label
    that the draw leaves out is hidden. No budget below delta = count size / population admits it.

    Args:
        size: records in a bag.
        count: how many bags.
        population: how many records there are.

    Guarantee: none: delta = mk/n for every epsilon, and nothing better.

    Source: Brahmbhatt, Section 1. Proof: `docs/proofs/bags.md`.
    """

    size: int
    count: int
    _: KW_ONLY
    population: int
    trust: ClassVar[Trust] = Trust.NONE

    def __post_init__(self) -> None:
        names = ("size", "count", "population")
        set_fields(self, **{name: check_integer(getattr(self, name), name, high=MAX_RECORDS) for name in names})
        if self.size * self.count > self.population:
            raise InputError("must not overlap: count times size is at most the number of records", argument="bags")

    @property
    def records(self) -> int:
        """The population."""
        return self.population

    @property
    def share(self) -> Fraction:
        """The chance of being in a bag."""
        return Fraction(self.size * self.count, self.population)

    def privacy_loss(self) -> PrivacyLoss:
        """With the chance of being in a bag everything is revealed."""
        return PrivacyLoss.failure(self.share)

    @property
    def published(self) -> str:
        """What leaves, in words."""
        none = f"which promises none: delta = mk/n = {float(self.share):.6g}"
        return f"exact sums of labels, and who is in which bag, by {self}, {none}"

    def parameters(self) -> dict[str, Any]:
        """Size, count and population."""
        return {"size": self.size, "count": self.count, "population": self.population}

    def bags(self, released: Any) -> Keys:
        """Return the bag of each record, -1 for none, shape (n,)."""
        order = np.argsort(public_stream(released, self.population).words(np.arange(self.population)), kind="stable")
        of_record = np.full(self.population, -1, dtype=np.int64)
        of_record[order[: self.size * self.count]] = np.repeat(np.arange(self.count), self.size)
        return of_record

    def sums(self, released: Any) -> NDArray[np.int64]:
        """Return the exact sums of codes, shape (count,)."""
        return np.asarray(released)[SEED_WORDS:]

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> Integers:
        """A public seed of the bags, and the sums, shape (4 + count,)."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        seed = fresh_seed(self.bound(rng))
        of_record = self.bags(seed)
        kept = of_record >= 0
        total = np.zeros(self.count, dtype=np.int64)
        np.add.at(total, of_record[kept], codes[kept].astype(np.int64))
        return np.concatenate([seed, total])

    def __str__(self) -> str:
        return f"NaiveBags of {self.size} records without noise"

    def contract(self, seed: int) -> None:
        """Check that it claims nothing but the chance of being left out, and that each label is in one bag at most."""
        labels = np.arange(self.records) % self.domain.size
        released = self.randomize(labels, rng=np.random.default_rng(seed))
        bags = self.bags(released)
        sizes = np.bincount(bags[bags >= 0], minlength=self.count)
        require(set(sizes) == {self.size}, "bags have the size that they should")
        require(
            self.privacy_loss().delta(50) >= float(self.share), "the claimed delta(epsilon) is never below the true one"
        )
        sums = [labels[bags == bag].sum() for bag in range(self.count)]
        require(self.sums(released).tolist() == sums, "the sums are exact")


LARGEST = 1e100
"""No coefficient or variance is larger, and none but 0 smaller than one over it: squares of others leave doubles."""

_NULL, _CLEAR = 2.0**-46, 2.0**-30
"""Eigenvalues of correlations, as a share of the largest: those below the first, for each sum, are zero up to rounding;
between the two nobody can tell."""


def linear_release_gdp(coefficients: Any, noise: Any, label_range: Any) -> NDArray[np.float64]:
    """Return the mu of every record's Gaussian loss where `coefficients @ labels` is released with Gaussian noise.

    The largest of them is what the release costs, given coefficients that depend on no label: they may have been drawn
    again and again until this was small.

    Args:
        coefficients: shape (sums, records), an array or a scipy sparse matrix; published.
        noise: variances of independent noise on the sums, shape (sums,), or a covariance, shape (sums, sums), of
            sums that share noise.
        label_range: the lowest and the highest label.

    Returns:
        shape (records,); infinite for a record that some combination of the sums shows without noise.

    Guarantee: no mu is below the exact one; sums whose noise is dependent up to rounding count as dependent.

    Raises:
        InputError: shapes that do not fit, or a noise that is no covariance.

    Source: Dong, Theorem 2.7; Balle, Theorem 8. Proof: `docs/proofs/bags.md`.

    Examples:
        >>> linear_release_gdp([[1, -1, 0], [0, 0, 1]], [4, 0], (-1, 1)).round(3)
        array([ 1.,  1., inf])
    """
    width = float_above(label_width(label_range))
    matrix, spread = _checked(coefficients, noise)
    squares = _independent(matrix, spread) if spread.ndim == 1 else _shared(matrix, spread)
    return np.asarray(width * np.sqrt(squares) * (1 + 2.0**-48 * (matrix.shape[0] + 4)))


def _checked(coefficients: Any, noise: Any) -> tuple[Any, NDArray[np.float64]]:
    """Coefficients and noise of shapes that fit."""
    matrix = coefficients.tocsr() if hasattr(coefficients, "tocsr") else np.asarray(coefficients, dtype=np.float64)
    spread = np.asarray(noise, dtype=np.float64)
    if matrix.ndim != 2 or spread.shape not in ((matrix.shape[0],), (matrix.shape[0],) * 2):
        raise InputError("noise must hold one variance for each row of coefficients, or their covariance")
    values = matrix.data if hasattr(matrix, "tocsr") else matrix
    if not (np.isfinite(values).all() and np.isfinite(spread).all()):
        raise InputError("coefficients and noise must be finite numbers")
    for sizes in (np.abs(values), spread if spread.ndim == 1 else np.diag(spread)):
        if ((sizes > 0) & ((sizes < 1 / LARGEST) | (sizes > LARGEST))).any():
            raise InputError(
                f"coefficients and variances must be 0, or between {1 / LARGEST:g} and {LARGEST:g} in size"
            )
    if (spread.ndim == 1 and (spread < 0).any()) or (spread.ndim == 2 and not np.array_equal(spread, spread.T)):
        raise InputError("noise must hold variances of at least zero, or a symmetric covariance")
    return matrix, spread


def _independent(matrix: Any, variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of squares of each column, each over its variance."""
    squares = matrix.multiply(matrix) if hasattr(matrix, "tocsr") else matrix**2
    noisy = variances > 0
    total = np.asarray(squares.T @ np.where(noisy, 1 / np.where(noisy, variances, 1.0), 0.0), dtype=np.float64)
    bare = np.asarray(squares.T @ (~noisy).astype(np.float64)) > 0
    return np.where(bare, np.inf, total)


def _shared(matrix: Any, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quadratic form of each column in the pseudo-inverse of a covariance, from eigenvectors of its correlations.

    Raises:
        InputError: no covariance, or one of sums that are nearly, but not exactly, dependent.
    """
    stddevs = np.sqrt(np.maximum(np.diag(covariance), 0))
    scale = np.where(stddevs > 0, stddevs, 1.0)
    values, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
    largest, none = float(values.max(initial=0.0)), len(values) * _NULL
    kept = values > none * largest
    if (values < -none * (largest or 1.0)).any() or (covariance[stddevs == 0] != 0).any():
        raise InputError("noise must be a covariance: it has a negative eigenvalue")
    smallest = float(values[kept].min(initial=largest or 1.0))
    if smallest < _CLEAR * largest:
        raise InputError("noise must be clearly dependent or clearly not: a combination of the sums has next to none")
    dense = matrix.toarray() if hasattr(matrix, "tocsr") else matrix
    turned = vectors.T @ (dense / scale[:, None])
    error = len(values) * 2.0**-50 * largest / smallest
    bare = (turned[~kept] ** 2).sum(axis=0) > (4 * error) ** 2 * (turned**2).sum(axis=0)
    total = (turned[kept] ** 2 / values[kept, None]).sum(axis=0) / max(1 - error, 0.5)
    return np.where(bare, np.inf, total)
