"""Mechanisms that are broken on purpose, each in a way in which a published one was."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import (
    ExponentialMechanism,
    FiniteMechanism,
    GaussianChoice,
    LaplaceHistogram,
    LaplaceSum,
    Table,
    UnaryEncoding,
)
from labeldp.mechanisms.base import words_for
from labeldp.mechanisms.randomized_response import ResponseLaw, respond
from labeldp.privacy import WORD, PrivacyLoss, exp_bounds, positive_epsilon, set_fields
from labeldp.sampling import AliasTable, WordStream, discrete_laplace

Rows = list[list[int]]


@dataclass(frozen=True, kw_only=True)
class Mutant(FiniteMechanism):
    """Says that it is randomized response; a child breaks the weights, the sampler or the claim."""

    @property
    def law(self) -> ResponseLaw:
        """The right law."""
        return ResponseLaw.of(self.domain.size, positive_epsilon(self.epsilon))

    def rows(self) -> Rows:
        """The weights that it says it has."""
        return self.law.rows()[:-1]

    def drawn(self) -> Rows:
        """The weights that its sampler has."""
        return self.rows()

    def privacy_loss(self) -> PrivacyLoss:
        """The claim."""
        return PrivacyLoss.pure(self.epsilon)

    def tables(self) -> list[Table]:
        """One table."""
        return [Table(self.weights(), "table")]

    def weights(self) -> NDArray[np.object_]:
        """Shape (K, K)."""
        return np.array(self.rows(), dtype=object)

    def sample(self, codes: Any, start: int, randomness: Any, ids: Any) -> NDArray[Any]:
        """By one alias table for each label."""
        words, rows = words_for(randomness, ids), self.drawn()
        noisy = np.empty_like(codes)
        for code in np.unique(codes):
            noisy[codes == code] = AliasTable.of(rows[code]).draw(words[codes == code])
        return noisy


class NoMutant(Mutant):
    """Nothing is broken."""


class LieMayBeTheTruth(Mutant):
    """A liar draws from all classes, the true one included."""

    def drawn(self) -> Rows:
        size, lie = self.domain.size, self.law.lie
        less = lie * (size - 1) // size
        return [[WORD - (size - 1) * less if z == y else less for z in range(size)] for y in range(size)]


class LastClassNeverDrawn(Mutant):
    """`range(K - 1)` where `range(K)` was meant."""

    def drawn(self) -> Rows:
        return [[row[0] + row[-1], *row[1:-1], 0] for row in self.rows()]


class UnderClaimed(Mutant):
    """Its certificate says 10 % less than it costs."""

    def privacy_loss(self) -> PrivacyLoss:
        return PrivacyLoss.pure(positive_epsilon(self.epsilon) * 10 / 11)


class ClaimsAWiderResponse(Mutant):
    """Claims the curve of randomized response over more classes: right at delta = 0, wrong between."""

    def privacy_loss(self) -> PrivacyLoss:
        return PrivacyLoss.response(self.epsilon, self.domain.size + 1)


class PriorSawTheLabel(Mutant):
    """The candidate set is the label and its neighbor: from a prior that was learned from this label."""

    def rows(self) -> Rows:
        size, pair = self.domain.size, ResponseLaw.of(2, positive_epsilon(self.epsilon))
        others = {0: pair.keep, 1: pair.lie}
        return [[others.get((z - y) % size, 0) for z in range(size)] for y in range(size)]


class OutsideAnsweredOverAll(Mutant):
    """A label outside of the top k is answered by a uniform one of all classes."""

    def rows(self) -> Rows:
        size, pair = self.domain.size, ResponseLaw.of(2, positive_epsilon(self.epsilon))
        top = [[*row, *[0] * (size - 2)] for row in pair.rows()[:2]]
        uniform = [WORD // size] * (size - 1)
        return top + [[*uniform, WORD - sum(uniform)] for _ in range(size - 2)]


class RoundedDown(Mutant):
    """The small weights are rounded down and the peak gets the rest."""

    def rows(self) -> Rows:
        size, growth = self.domain.size, exp_bounds(positive_epsilon(self.epsilon))[0]
        lie = int(WORD / (growth + size - 1))
        keep = WORD - (size - 1) * lie
        return [[keep if y == z else lie for z in range(size)] for y in range(size)]


class DoesNotSumToOne(Mutant):
    """The last weight is one short."""

    def rows(self) -> Rows:
        return [[*row[:-1], row[-1] - 1] for row in super().rows()]


class IgnoresIds(Mutant):
    """Keyed noise goes by the place of a record."""

    def sample(self, codes: Any, start: int, randomness: Any, ids: Any) -> NDArray[Any]:
        return respond(codes, words_for(randomness, np.arange(start, start + len(codes), dtype=np.uint64)), self.law)


class DrawsItsOwnSeed(Mutant):
    """The same rng gives other noise each time."""

    def sample(self, codes: Any, start: int, randomness: Any, ids: Any) -> NDArray[Any]:
        words = np.random.default_rng().integers(0, WORD, len(codes), dtype=np.uint64)
        return respond(codes, words, self.law)


class AnswersOutsideLabels(Mutant):
    """A label outside of the domain is answered, not refused."""

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> NDArray[Any]:
        return super().randomize(np.minimum(labels, self.domain.size - 1), rng=rng, ids=ids)


class DoubleSampler(Mutant):
    """Compares a double of 53 random bits with probabilities in doubles; its weights are right."""

    def sample(self, codes: Any, start: int, randomness: Any, ids: Any) -> NDArray[Any]:
        uniform = (words_for(randomness, ids) >> np.uint64(11)) * 2.0**-53
        lies = np.cumsum([self.law.lie / WORD] * (self.domain.size - 1))
        jumps = np.searchsorted(lies, uniform, side="right")
        return ((codes + jumps + 1) % self.domain.size).astype(codes.dtype)


class BitsAtWholeEpsilon(UnaryEncoding):
    """Each bit at epsilon, though two of them change."""

    def _calibrate(self) -> None:
        set_fields(self, law=ResponseLaw.of(2, positive_epsilon(self.epsilon)))


class HistogramAtWholeEpsilon(LaplaceHistogram):
    """Noise of rate epsilon, though two counts change."""

    @property
    def rate(self) -> Fraction:
        return positive_epsilon(self.epsilon)


class HistogramSampledAtWholeEpsilon(LaplaceHistogram):
    """The law is right, the sampler is not."""

    def release_counts(self, counts: Any, *, rng: Any) -> Any:
        from labeldp.privacy import as_randomness

        randomness = as_randomness(rng)
        stream = WordStream(randomness, randomness.record_ids(None, counts.size))
        return counts + discrete_laplace(stream, 2 * self.rate).reshape(counts.shape)


class LastCountWithoutNoise(LaplaceHistogram):
    """The noise of the last class is forgotten."""

    def release_counts(self, counts: Any, *, rng: Any) -> Any:
        released = super().release_counts(counts, rng=rng)
        released[:, -1] = counts[:, -1]
        return released


class OneNoiseForAllClasses(LaplaceHistogram):
    """The counts of a group share their noise, so that their differences are exact."""

    def release_counts(self, counts: Any, *, rng: Any) -> Any:
        released = super().release_counts(counts, rng=rng)
        return counts + (released - counts)[:, :1]


class ExponentAtWholeEpsilon(ExponentialMechanism):
    """e^(epsilon * count), though one count rises while another falls."""

    @property
    def unit(self) -> Fraction:
        return positive_epsilon(self.epsilon)


class PrintedCellNoise(LaplaceSum):
    """Noise of scale 2/(n_l epsilon) on a cell mean, as eq. (23) is printed, whatever the range of the labels is."""

    @property
    def rate(self) -> Fraction:
        return positive_epsilon(self.epsilon) * Fraction(self.domain.step) / 2


class SumSampledAtWholeRange(LaplaceSum):
    """The rate is right, the sampler counts in units of the whole range."""

    def release_counts(self, counts: Any, *, rng: Any) -> Any:
        from labeldp.privacy import as_randomness

        randomness = as_randomness(rng)
        stream = WordStream(randomness, randomness.record_ids(None, counts.size))
        return counts[:, 0] + discrete_laplace(stream, positive_epsilon(self.epsilon))


class LongestRow(GaussianChoice):
    """Noise for the longest row, though a label that is replaced moves the sum by the distance of two."""

    @property
    def sensitivity_square(self) -> int:
        return int((self.choices.steps.astype(np.int64) ** 2).sum(axis=2).max())


class ChoiceSampledAtHalf(GaussianChoice):
    """The law is right, the sampler is not."""

    def draw_noise(self, count: int, *, rng: Any) -> Any:
        return super().draw_noise(count, rng=rng) // 2


class UniformWithCeil(ResponseLaw):
    """The uniform branch divides by ⌈2**64 / size⌉."""

    @property
    def uniform(self) -> int:
        return -(-WORD // self.size)
