"""The noisy sum of squared errors of public predictions, from a trusted curator."""

from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import Mechanism, word_stream
from labeldp.mechanisms.domains import Interval, require_domain
from labeldp.mechanisms.inputs import Groups, GroupSizes, PublicInput
from labeldp.privacy import (
    UNTIL_MADE,
    Floats,
    InputError,
    PrivacyLoss,
    RandomSource,
    Trust,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import MIN_RATE, discrete_laplace, laplace_law

MAX_ERROR = 1 << 20
"""The largest error of one record, in the unit of the sum, where epsilon is not tiny: a finer one would not show."""


@final
@dataclass(frozen=True, kw_only=True)
class SquaredErrors(Mechanism):
    """The sum of the squared distances of labels from public predictions, with two-sided geometric noise.

    Use it to measure a model on records that it was not learned from. Numbers outside of the range, where the domain
    clips them, count as its ends.

    Args:
        predictions: the grid point that is predicted for each record, shape (n,), `Public(codes, why="…")` or a
            `Release`.

    What is released is one integer, shape (1,): see `mean`.

    Guarantee (pure): epsilon-DP for each label: a replaced label moves the sum by at most the largest squared distance
        of a prediction from an end of the range.

    Raises:
        InputError: a domain without numbers, or predictions that are no grid points.

    Source: `docs/proofs/sums-and-counts.md`.
    """

    domain: Interval = field(kw_only=False)
    epsilon: float = field(kw_only=False)
    stored: ClassVar[str] = "predictions"
    predictions: InitVar[Any]
    predicted: Groups = field(init=False, repr=False)
    unit: int = field(init=False, default=UNTIL_MADE)
    sensitivity: int = field(init=False, default=UNTIL_MADE)
    trust: ClassVar[Trust] = Trust.CENTRAL
    contract: ClassVar[str] = "labeldp.testing.checks:check_errors"

    def __post_init__(self, predictions: Any) -> None:
        super().__post_init__()
        require_domain(self.domain, "numbers")
        places = Groups.of(predictions, "predictions")
        if isinstance(places, GroupSizes) or not places.records or places.count > self.domain.size:
            raise InputError(f"must be grid points from 0 to {self.domain.size - 1}", argument="predictions")
        set_fields(self, predicted=places, public_inputs=(PublicInput.of(predictions, "predictions"),))
        self._calibrate()

    def _calibrate(self) -> None:
        """Compute how far one label moves the sum, from the predictions alone."""
        places = self._places
        largest = int(np.maximum(places, self.domain.size - 1 - places).max()) ** 2
        fitting = int(positive_epsilon(self.epsilon) / MIN_RATE) // 2  # so that the noise stays within 64 bits
        if not fitting:
            raise InputError("is too small for integer noise of 64 bits: take at least 1e-8", argument="epsilon")
        unit = -(-largest // min(MAX_ERROR, fitting))
        set_fields(self, unit=unit, sensitivity=(largest + unit // 2) // unit)

    @property
    def _places(self) -> NDArray[np.int64]:
        assert self.predicted.of_record is not None
        return self.predicted.of_record

    @property
    def records(self) -> int:
        return self.predicted.records

    @property
    def rate(self) -> Fraction:
        """Noise i has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / self.sensitivity

    @property
    def largest(self) -> float:
        """The largest error that a record can have, in the square of the unit of the labels."""
        return self.sensitivity * self._square

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on the mean squared error, of a continuous Laplace law."""
        return float(np.sqrt(2)) / float(self.rate) * self._square / self.records

    @property
    def _square(self) -> float:
        """One unit of the sum, in the square of the unit of the labels."""
        return float(self.unit * self.domain.step**2)

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon: exact at delta = 0, an upper bound elsewhere."""
        return PrivacyLoss.pure(self.epsilon)

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "predictions": self.predicted.digest}

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {"predictions": self._places}

    @property
    def published(self) -> str:
        return f"one noisy sum of squared errors over {self.records:,} records (discrete Laplace noise)"

    def sums(self, labels: Any) -> NDArray[np.int64]:
        """Return the sum of squared errors, each rounded to the unit, shape (1,). It is private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        squares = (codes.astype(np.int64) - self._places) ** 2
        return np.array([((squares + self.unit // 2) // self.unit).sum()])

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> NDArray[np.int64]:
        """Return the noisy sum; record ids are not used. See `Mechanism.randomize`."""
        sums = self.sums(labels)
        return self.release_sums(sums, rng=self.bound(rng))

    def release_sums(self, sums: NDArray[np.int64], *, rng: RandomSource) -> NDArray[np.int64]:
        """Return noisy sums, shape as given, without labels."""
        return np.asarray(sums + discrete_laplace(word_stream(rng, sums.size), self.rate).reshape(sums.shape))

    def mean(self, released: Any) -> float:
        """Return the noisy mean squared error, in the square of the unit of the labels; it may be negative.

        Args:
            released: what this mechanism released, shape (1,).
        """
        return float(np.asarray(released)[0]) * self._square / self.records

    def law_between(self, edges: NDArray[np.int64], total: int) -> Floats:
        """Return the law of a noisy sum between edges, where the sum is `total`."""
        return laplace_law(float(self.rate), edges - total)

    def edges(self) -> NDArray[np.int64]:
        """Return places between which a noisy sum is told apart: about three scales of the noise around zero."""
        return np.unique(np.rint(np.linspace(-3, 3, 13) / float(self.rate)).astype(np.int64))
