"""One noisy bit for each class."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import FiniteMechanism, Table, Weights, refuse_large, words_for
from labeldp.mechanisms.debias import Debiased
from labeldp.mechanisms.domains import Classes, Codes
from labeldp.mechanisms.sampler import ResponseLaw
from labeldp.privacy import WORD, Ids, InputError, PrivacyLoss, Randomness, positive_epsilon


@final
@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(FiniteMechanism):
    """The indicator bits of the classes, each flipped with probability 1 / (e^(epsilon/2) + 1).

    Use it where labels are summed over groups: its variance does not grow with the number of
    classes. As single labels the bits are harder to use than `RandomizedResponse`.

    Args:
        domain: `Classes`, K = its size.
        epsilon: privacy parameter, positive.

    Guarantee: epsilon-DP for each label, exactly, for the emitted bits (two labels differ in two, each at epsilon / 2).

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (11).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Classes):
            raise InputError("domain must be Classes, such as Classes(10)")
        self._calibrate()

    def _calibrate(self) -> None:
        self.law  # refuses an epsilon too small for the table  # noqa: B018

    @cached_property
    def law(self) -> ResponseLaw:
        """The law of one bit."""
        return ResponseLaw.of(2, Fraction(positive_epsilon(self.epsilon), 2))

    def privacy_loss(self) -> PrivacyLoss:
        """Two binary randomized responses at epsilon / 2, exactly."""
        return PrivacyLoss.response(Fraction(positive_epsilon(self.epsilon), 2), 2) * 2

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"{self.domain.size} randomized bits for each record, by {self}"

    def tables(self) -> list[Table]:
        """One table, bit to bit; it serves every bit of every record."""
        return [Table(np.array(self.law.rows()[:-1], dtype=object), "bits")]

    def weights(self) -> Weights:
        """Exact weights of each bit by itself, shape (K labels, K bits, 2); the bits are independent."""
        refuse_large(2 * self.domain.size**2)
        bit = self.tables()[0].weights
        return bit[np.eye(self.domain.size, dtype=int)]

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> NDArray[np.uint8]:
        """One block of noisy bits, packed eight to a byte, shape (n, ceil(K / 8))."""
        bits = np.empty((len(codes), self.domain.size), dtype=np.bool_)
        for j in range(self.domain.size):
            bits[:, j] = (codes == j) ^ (words_for(randomness, ids, lane=j) < np.uint64(self.law.lie))
        return np.packbits(bits, axis=1)

    def bits(self, noisy: Any) -> NDArray[np.bool_]:
        """The bits of a release, shape (n, K)."""
        packed = np.asarray(noisy)
        if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != -(-self.domain.size // 8):
            raise InputError(f"noisy must be packed bits, uint8, shape (n, {-(-self.domain.size // 8)})")
        return np.unpackbits(packed, axis=1, count=self.domain.size).view(np.bool_)

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased class indicators, shape (n, K), from packed bits."""
        flip, gap = self.law.lie / WORD, (self.law.keep - self.law.lie) / WORD
        return Debiased(np.asarray((self.bits(noisy) - flip) / gap), 1 / gap)
