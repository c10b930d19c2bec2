"""Randomized response: over all classes, over the likely ones of a prior, and on the bits of a unary encoding."""

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import Debiased, FiniteMechanism, SetAnswers, Table, Weights, refuse_large, words_for
from labeldp.mechanisms.candidates import CandidateSets, candidate_sets, words_of_places
from labeldp.mechanisms.domains import Classes, Codes, Domain, require_domain
from labeldp.mechanisms.inputs import PublicInput, prior_rows
from labeldp.privacy import (
    BLOCK,
    UNTIL_MADE,
    WORD,
    Floats,
    Ids,
    InputError,
    NotInvertibleError,
    PrivacyLoss,
    Randomness,
    Words,
    check_integer,
    exp_bounds,
    float_above,
    positive_epsilon,
    set_fields,
)

_EACH, _BELOW = words_of_places()


@dataclass(frozen=True)
class ResponseLaw:
    """Randomized response over `size` candidates by one word u.

    If u < (size - 1) * lie, the answer is the (u div lie)-th other candidate, counted cyclically, and
    the truth else. A label outside of the candidates is answered by the (u div ⌊2**64 / size⌋)-th, or the last.

    Guarantee (pure): any two labels give every answer with weights of ratio at most e**epsilon.
    Proof: `docs/proofs/finite-mechanisms.md`.
    """

    size: int
    lie: int

    @classmethod
    def of(cls, size: int, epsilon: Fraction) -> "ResponseLaw":
        """Return the law for an exact epsilon; its guarantee is checked here, in integers.

        Raises:
            InputError: epsilon is too small for a table of 64-bit weights.
        """
        low, _ = exp_bounds(epsilon)
        law = cls(size, -(-WORD * low.denominator // (low.numerator + (size - 1) * low.denominator)))
        spread = (law.lie, law.uniform, law.uniform_last, law.keep)
        ordered = sorted(spread) == list(spread) and law.lie < law.keep  # else every answer is equally likely
        if size > 1 and not (ordered and law.keep <= low * law.lie):
            raise InputError(
                f"= {float_above(epsilon):g} is too small for {size} candidates: "
                f"64-bit weights need at least about {size * size / WORD:.1g}",
                argument="epsilon",
            )
        return law

    @property
    def keep(self) -> int:
        """Weight of the truth."""
        return WORD - (self.size - 1) * self.lie

    @property
    def uniform(self) -> int:
        """Weight of every candidate but the last, for a label that is none of them."""
        return WORD // self.size

    @property
    def uniform_last(self) -> int:
        """Weight of the last candidate, for a label that is none of them."""
        return WORD - (self.size - 1) * self.uniform

    def rows(self) -> list[list[int]]:
        """Return exact weights, shape (size + 1, size): row i for candidate i, the last row for a label outside."""
        rows = [[self.keep if j == i else self.lie for j in range(self.size)] for i in range(self.size)]
        return [*rows, [self.uniform] * (self.size - 1) + [self.uniform_last]]


@final
@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(FiniteMechanism):
    """Keep the label, one of K, with probability e^epsilon / (e^epsilon + K - 1), else answer another one uniformly.

    Use it without a prior; with one, `RandomizedResponseWithPrior` keeps more labels.

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 1.

    Examples:
        >>> import numpy as np
        >>> mechanism = RandomizedResponse(domain=Classes(10), epsilon=1.0)
        >>> round(mechanism.keep_probability, 6)
        0.231969
        >>> mechanism.randomize(np.array([3, 3, 3, 3]), rng=np.random.default_rng(0))
        array([1, 7, 4, 4], dtype=uint8)
    """

    law: ResponseLaw = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_classes(self.domain)
        self._calibrate()

    def _calibrate(self) -> None:
        set_fields(self, law=ResponseLaw.of(self.domain.size, positive_epsilon(self.epsilon)))

    @property
    def keep_probability(self) -> float:
        """P(output is the truth)."""
        return self.law.keep / WORD

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        return f"Each released label is the true label with probability {self.keep_probability:.3f}."

    @property
    def published(self) -> str:
        share = f"{self.keep_probability:.3f}"
        return f"one noisy label per record (randomized response, true label kept with probability {share})"

    def privacy_loss(self) -> PrivacyLoss:
        """Return the exact loss of K-ary randomized response."""
        return PrivacyLoss.response(self.epsilon, self.domain.size)

    def tables(self) -> list[Table]:
        return [Table(self.weights(), "table")]

    def weights(self) -> Weights:
        """Return exact weights, shape (K, K)."""
        refuse_large(self.domain.size**2)
        return np.array(self.law.rows()[:-1], dtype=object)

    def unbiased(self, noisy: Any) -> Debiased:
        """Return unbiased class indicators, shape (n, K)."""
        return _indicators(self.domain.check_codes(noisy), self.law)

    def naming_rates(self) -> tuple[float, float]:
        return self.law.keep / WORD, self.law.lie / WORD

    def gradient_weights(self, noisy: Any) -> Floats:
        """See `FiniteMechanism.gradient_weights`. Source: Ghazi, eq. (7), as weights of the K gradients."""
        return self.unbiased(noisy).values

    def likelihood(self, noisy: Any) -> Floats:
        """Return P(answer | class), shape (n, K)."""
        return np.where(self.named(noisy), self.law.keep / WORD, self.law.lie / WORD)

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        return respond(codes, words_for(randomness, ids), self.law)


class _CandidateResponse(FiniteMechanism):
    """Randomized response within a candidate set for each record."""

    domain: Classes = field(kw_only=False)
    candidates: CandidateSets
    laws: dict[int, ResponseLaw]

    def _calibrate(self) -> None:
        """Compute the law for every size of set that occurs."""
        epsilon = positive_epsilon(self.epsilon)
        sizes = np.flatnonzero(np.bincount(self.sizes))
        set_fields(self, laws={int(size): ResponseLaw.of(int(size), epsilon) for size in sizes})
        ResponseLaw.of(2, epsilon)  # refuses a small epsilon also where no record was left a choice

    @property
    def published(self) -> str:
        return (
            "one noisy label per record (randomized response over the top classes of a prior, "
            f"{float(self.sizes.mean()):.3g} on average)"
        )

    @cached_property
    def sizes(self) -> NDArray[np.uint32]:
        """How many candidates each set has, shape (n,)."""
        return self.candidates.sizes

    @cached_property
    def _steps(self) -> NDArray[np.uint64]:
        """What a word is divided by, for labels [outside, inside] and each size; one where it does not matter."""
        steps = np.ones((2, self.domain.size + 1), dtype=np.uint64)
        for size, law in self.laws.items():
            if size > 1:
                steps[:, size] = law.uniform, law.lie
        return steps

    @property
    def block(self) -> int:
        """Records handled at a time: fewer where sets are large, so that memory stays small."""
        return int(np.clip((1 << 24) // self.domain.size, 64, BLOCK))

    def privacy_loss(self) -> PrivacyLoss:
        """Return the worst of the sets' losses: that of randomized response over the smallest set with a choice.

        Where the prior was released, the sets may depend on earlier outputs about the same labels. Then the loss is
        that of two answers, which covers any sets and so does not depend on them.
        """
        if self.basis:
            return PrivacyLoss.pure(self.epsilon)
        smallest = min((size for size in self.laws if size > 1), default=1)
        return PrivacyLoss.response(self.epsilon, smallest)

    def membership(self) -> NDArray[np.bool_]:
        """Return which classes are candidates, one row for each set, shape (n, K)."""
        return self.candidates.membership()

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "candidates": self.candidates.digest, "sets": len(self.candidates)}

    def tables(self) -> list[Table]:
        sizes = self.sizes
        return [
            Table(np.array(law.rows(), dtype=object), "subset response", np.flatnonzero(sizes == size))
            for size, law in self.laws.items()
        ]

    def _expand(self) -> Weights:
        """Return exact weights over codes, shape (sets, K, K)."""
        classes = self.domain.size
        refuse_large(len(self.candidates) * classes**2)
        weights = np.zeros((len(self.candidates), classes, classes), dtype=object)
        for i, members in enumerate(self.membership()):
            rows = self.laws[int(self.sizes[i])].rows()
            places = np.flatnonzero(members)
            weights[i][:, places] = np.array(rows[-1], dtype=object)
            weights[i][np.ix_(places, places)] = np.array(rows[:-1], dtype=object)
        return weights

    def unbiased(self, noisy: Any) -> Debiased:
        """Return unbiased class indicators, shape (n, K), where every class is a candidate of every record."""
        return _indicators(self.domain.check_codes(noisy), self._full_law())

    def naming_rates(self) -> tuple[float, float]:
        law = self._full_law()
        return law.keep / WORD, law.lie / WORD

    def _full_law(self) -> ResponseLaw:
        """Return the one law of all records, where every class is a candidate of every record."""
        if set(self.laws) != {self.domain.size}:
            raise NotInvertibleError(
                "the noise has no inverse: some records had fewer candidates than classes; "
                "evaluate on records that were released by RandomizedResponse"
            )
        return self.laws[self.domain.size]

    def likelihood(self, noisy: Any) -> Floats:
        """Return P(answer | class), shape (n, K)."""
        codes = self.domain.check_codes(noisy)
        self.check_records(len(codes))
        members = np.broadcast_to(self.membership(), (len(codes), self.domain.size))
        rates = np.zeros((self.domain.size + 1, 3))
        for size, law in self.laws.items():
            outside = np.array(law.rows()[-1], dtype=np.float64).mean() / WORD
            rates[size] = law.keep / WORD, law.lie / WORD if size > 1 else 0.0, outside
        keep, lie, outside = rates[members.sum(axis=1)].T
        likelihood = np.where(members, lie[:, None], outside[:, None])
        likelihood[np.arange(len(codes)), codes] = keep
        return likelihood

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> Codes:
        words = words_for(randomness, ids)
        return self._answer(codes, words, self._block_sets(start, len(codes)))

    def gradient_weights(self, noisy: Any) -> Floats:
        """Return weights that average to a candidate's indicator, and to equal weights for any other label.

        Raises:
            InputError: candidate sets differ in size.

        Source: Ghazi, eq. (17).
        """
        if len(self.laws) > 1:
            raise InputError("must be of one size for the weights of a gradient", argument="candidates")
        [law] = self.laws.values()
        lie, gap = law.lie / WORD, (law.keep - law.lie) / WORD
        hits = np.asarray(noisy)[:, None] == np.arange(self.domain.size)
        return np.asarray(self.membership() * (hits - lie) / gap)

    def _block_sets(self, start: int, count: int) -> CandidateSets:
        return CandidateSets(self.candidates.packed[start : start + count], self.domain.size)

    def _answer(self, codes: Codes, words: NDArray[np.uint64], sets: CandidateSets) -> Codes:
        """Answer within the candidates: places are counted within each record's set, in the order of the classes."""
        inside, ranks, sizes = _places(codes, sets)
        jumps = np.minimum(words // self._steps[inside.view(np.uint8), sizes], (sizes - 1).astype(np.uint64))
        places = jumps.astype(np.int32)
        places += inside * (ranks + 1)  # for all records, so that the time does not tell how many are inside
        places -= sizes * (places >= sizes)
        flat = np.flatnonzero(sets.membership())
        chosen = flat[np.cumsum(sizes) - sizes + places]
        return (chosen - np.arange(len(codes)) * self.domain.size).astype(codes.dtype)


@final
@dataclass(frozen=True, kw_only=True)
class RandomizedResponseTopK(_CandidateResponse):
    """Randomized response over the k most likely classes; a label outside of them becomes a uniform one of them.

    All records share one candidate set. Use it if a class prior says that few classes matter; it cannot be debiased
    for k < K.

    Args:
        prior: class prior, shape (K,), a `Release` or `Public(array, why="…")`; ties by class index.
        k: candidates, 1 to K.

    Guarantee (pure, prior_charged): epsilon-DP for each label, exactly, for the emitted bits, given its prior; what a
        released prior costs stands in the certificate of the release, too.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 2 (RRTop-k).
    """

    plain: ClassVar[tuple[str, ...]] = ("epsilon", "k")
    prior: InitVar[Any]
    k: int = field(repr=False, compare=False)
    candidates: CandidateSets = field(init=False, default=UNTIL_MADE)
    laws: dict[int, ResponseLaw] = field(init=False, repr=False, compare=False)

    def __post_init__(self, prior: Any) -> None:
        require_classes(self.domain)
        rows = prior_rows(prior, self.domain.size)
        if len(rows) != 1:
            raise InputError("prior must be one row: RandomizedResponseWithPrior takes one for each record")
        k = check_integer(self.k, "k", high=self.domain.size)
        set_fields(self, k=k, candidates=CandidateSets.top(rows, k), public_inputs=(PublicInput.of(prior, "prior"),))
        super().__post_init__()
        self._calibrate()

    def packed(self) -> dict[str, NDArray[Any] | None]:
        members = self.membership()[0]
        return {"prior": members / members.sum()}

    def weights(self) -> Weights:
        """Return exact weights, shape (K, K)."""
        return self._expand()[0]

    def _block_sets(self, start: int, count: int) -> CandidateSets:
        shared = self.candidates.packed
        return CandidateSets(np.broadcast_to(shared, (count, shared.shape[1])), self.domain.size)


@final
@dataclass(frozen=True, kw_only=True)
class RandomizedResponseWithPrior(_CandidateResponse):
    """For each record, randomized response over the set of classes that most often keeps a label drawn from its prior.

    A good prior leaves few candidates, so that few wrong answers are possible. It cannot be debiased if a record has
    fewer candidates than classes.

    Args:
        prior: shape (n, K), rows sum to 1; a `Release` or `Public(array, why="…")`. It is reduced to one candidate set
            for each record: noise depends on nothing else. Stored candidate sets can replace it.

    Guarantee (pure, prior_charged): epsilon-DP for each label, exactly, for the emitted bits, given its prior; what a
        released prior costs stands in the certificate of the release, too.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 3 and Theorem 3.
    """

    stored: ClassVar[str] = "prior"
    prior: InitVar[Any]
    candidates: CandidateSets = field(init=False, default=UNTIL_MADE)
    laws: dict[int, ResponseLaw] = field(init=False, repr=False, compare=False)

    def __post_init__(self, prior: Any) -> None:
        require_classes(self.domain)
        candidates = candidate_sets(prior, self.domain.size, positive_epsilon(self.epsilon))
        set_fields(self, candidates=candidates, public_inputs=(PublicInput.of(prior, "prior"),))
        super().__post_init__()
        self._calibrate()

    @property
    def records(self) -> int:
        return len(self.candidates)

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {"prior": self.candidates.packed}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> dict[str, Any]:
        return {"prior": CandidateSets(np.array(arrays["prior"]), domain.size)}

    def weights(self) -> Weights:
        """Return exact weights, shape (n, K, K)."""
        return self._expand()


def _places(codes: Codes, sets: CandidateSets) -> tuple[NDArray[np.bool_], NDArray[np.int32], NDArray[np.int32]]:
    """Return whether each label is in its set, how many candidates come before it, and of how many; shapes (n,)."""
    bits = sets.words()
    counts = np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.int32)
    rows, column = np.arange(len(codes)), codes >> 6
    bit, word = codes & 63, bits[rows, column]
    earlier = counts[rows, column] - np.bitwise_count(word)
    inside = (word & _EACH[bit]).astype(np.bool_)
    return inside, earlier + np.bitwise_count(word & _BELOW[bit]), counts[:, -1]


def _indicators(codes: Codes, law: ResponseLaw) -> Debiased:
    """(1{z = j} - lie) / (keep - lie): averaged over the noise, the indicator of the truth."""
    lie, gap = law.lie / WORD, (law.keep - law.lie) / WORD
    values = np.full((len(codes), law.size), -lie / gap)
    values[np.arange(len(codes)), codes] = (1 - lie) / gap
    return Debiased(values, (1 + (law.size - 2) * lie) / gap)


def require_classes(domain: Any) -> None:
    """Refuse a domain that is not `Classes`."""
    require_domain(domain, "classes", advice="; an Interval goes with DiscreteLaplace")


def respond(codes: NDArray[Any], words: Words, law: ResponseLaw) -> NDArray[Any]:
    """Randomized response over all codes 0 to size - 1, shape (n,); destroys `words`."""
    if law.size == 2:
        return codes ^ (words < np.uint64(law.lie)).view(np.uint8).astype(codes.dtype, copy=False)
    np.floor_divide(words, np.uint64(law.lie), out=words)
    np.minimum(words, np.uint64(law.size - 1), out=words)
    wide = np.min_scalar_type(2 * law.size)
    shifted = words.astype(wide)
    shifted += codes
    shifted += wide.type(1)
    # Below 2 * size, so reducing once is reducing modulo size; a negative difference wraps to a large value.
    np.minimum(shifted, shifted - wide.type(law.size), out=shifted)
    return shifted.astype(codes.dtype, copy=False)


@final
@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(FiniteMechanism):
    """The indicator bits of the classes, each flipped with probability 1 / (e^(epsilon/2) + 1).

    Use it for sums of labels over groups: its variance does not grow with the number of classes. Single answers are
    harder to use than those of `RandomizedResponse`.

    Guarantee (pure): epsilon-DP for each label, exactly, for the emitted bits (two labels differ in two, each at
        epsilon / 2).

    Source: Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy, eq. (11).
    """

    column_ending: ClassVar[str] = "_bits"
    law: ResponseLaw = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_classes(self.domain)
        self._calibrate()

    def _calibrate(self) -> None:
        """Compute the law of one bit."""
        set_fields(self, law=ResponseLaw.of(2, Fraction(positive_epsilon(self.epsilon), 2)))

    def privacy_loss(self) -> PrivacyLoss:
        """Return the loss of two binary randomized responses at epsilon / 2, exactly."""
        return PrivacyLoss.response(Fraction(positive_epsilon(self.epsilon), 2), 2) * 2

    @property
    def published(self) -> str:
        flipped = f"flip probability {self.law.lie / WORD:.3f}"
        return f"{self.domain.size} noisy bits per record (unary encoding, {flipped})"

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        flipped = f"Each bit is flipped with probability {self.law.lie / WORD:.3f}."
        return f"Each record releases one bit per class. {flipped}"

    def tables(self) -> list[Table]:
        return [Table(np.array(self.law.rows()[:-1], dtype=object), "bits")]

    def weights(self) -> Weights:
        """Return exact weights of each bit by itself, shape (K labels, K bits, 2); the bits are independent."""
        refuse_large(2 * self.domain.size**2)
        bit = self.tables()[0].weights
        return bit[np.eye(self.domain.size, dtype=int)]

    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> NDArray[np.uint8]:
        bits = np.empty((len(codes), self.domain.size), dtype=np.bool_)
        for j in range(self.domain.size):
            bits[:, j] = (codes == j) ^ (words_for(randomness, ids, lane=j) < np.uint64(self.law.lie))
        return np.packbits(bits, axis=1)

    @property
    def answers(self) -> SetAnswers:
        keep, lie, classes = self.law.keep, self.law.lie, self.domain.size
        return SetAnswers(classes, (keep / lie) ** 2, keep / WORD, lie / WORD, np.arange(classes + 1))

    def unbiased(self, noisy: Any) -> Debiased:
        """Return unbiased class indicators, shape (n, K), from packed bits."""
        flip, gap = self.law.lie / WORD, (self.law.keep - self.law.lie) / WORD
        values = np.subtract(self.named(noisy), flip, dtype=np.float64)
        values /= gap  # in place: there is one array of this size
        return Debiased(values, 1 / gap)
