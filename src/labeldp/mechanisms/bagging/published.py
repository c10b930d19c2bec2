"""Bag sums with published random weights and Gaussian noise on some labels of each bag."""

import math
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.aggregation.checks import one_of, positive, target, whole
from labeldp.mechanisms.aggregation.llp import WEIGHTS, NoisyBags, llp_calibrate
from labeldp.mechanisms.bagging.bags import Bagged, Keys
from labeldp.mechanisms.bagging.coins import NORMAL_ERROR, SEED_WORDS, fresh_seed, normals, public_stream
from labeldp.mechanisms.coins import Integers, WordStream
from labeldp.mechanisms.discrete_gaussian import (
    CELL_FAILURE,
    MAX_STDDEV,
    MIN_STDDEV,
    SMOOTHING,
    discrete_gaussian,
)
from labeldp.privacy import InputError, PrivacyLoss, all_digits, as_bound, decimal, float_within

UNIT = 1 << 16
"""Steps of a weight of one, and of a released sum in one step of the labels."""

WEIGHT_FAILURE = Fraction(1, 1 << 50)
"""What stands for normal weights in doubles."""

_LARGEST_WEIGHT = 10


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """What a release of weighted bags shows, in the unit of the labels.

    Args:
        bags: the bag of each record, shape (n,).
        weights: of each record, shape (n,).
        noisy: which records count as noisy, shape (n,).
        sums: weighted sums of labels with their noise, shape (bags,).
        noise_stddev: of each sum, shape (bags,).
    """

    bags: Keys = field(repr=False)
    weights: NDArray[np.float64] = field(repr=False)
    noisy: NDArray[np.bool_] = field(repr=False)
    sums: NDArray[np.float64] = field(repr=False)
    noise_stddev: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights in steps (n,), who is noisy (n,), and the standard deviation of each bag's noise in steps (bags,)."""

    steps: Integers = field(repr=False)
    noisy: NDArray[np.bool_] = field(repr=False)
    stddevs: Integers = field(repr=False)

    @property
    def variances(self) -> Integers:
        """The variance of each bag's noise that its promise counts on, shape (bags,)."""
        return np.maximum(self.stddevs**2 - SMOOTHING, 0)


@final
@dataclass(frozen=True)
class NoisyWeightedLLP(Bagged):
    """Weighted sums of the labels of each bag, with the bags, the weights and who is noisy published beside them.

    Use it where this form of release is asked for; `BagSum` learns more from the same labels at the same promise. Noise
    with standard deviation `stddev` on each noisy label is drawn at once for its bag, which has the same law.

    Args:
        domain, size, bags, features, seed: as in `Bagged`; bags are random by default.
        noisy: how many labels of each bag have noise.
        stddev: standard deviation of the noise on one label, in the unit of the labels; "auto": as little as
            (epsilon, delta) needs.
        weights: "rademacher" (+1 and -1) by default, or "gaussian", which cost privacy and buy nothing.
        paper_faithful: Gaussian weights, and one set of noisy labels drawn from all of them, `noisy` for each bag on
            average. Where n is a multiple of size this is Fig. 2; a bag may then have no noisy label, and its chance is
            in the loss.

    Guarantee: as in `NoisyBags`, for the emitted bits: what is drawn beside the noise depends on no label.

    Raises:
        InputError: bags that overlap or are smaller than asked, a bag without a noisy label, or a parameter out of
            range.

    Source: Brahmbhatt, Fig. 2. Proof: `docs/proofs/bags.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval, random_bags
        >>> bags = random_bags(1000, 72)
        >>> llp = NoisyWeightedLLP(72, 72, 1.0, domain=Interval(-1, 1), bags=bags)
        >>> llp.privacy_loss().within(1, 1e-6)
        True
    """

    noisy: int
    stddev: Any
    weights: Any = None
    _: KW_ONLY
    bags: InitVar[Any] = "random"
    seed_words: ClassVar[int] = SEED_WORDS
    paper_faithful: bool = False
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self, bags: Any, features: Any, seed: int) -> None:
        super().__post_init__(bags, features, seed)
        own = "gaussian" if self.paper_faithful else "rademacher"
        object.__setattr__(self, "weights", own if self.weights is None else one_of(self.weights, "weights", WEIGHTS))
        if self.paper_faithful and self.weights != own:
            raise InputError('weights must be "gaussian" with paper_faithful=True: those are the weights of the paper')
        if isinstance(self.noisy, int) and self.noisy < 1:
            raise InputError("noisy must be at least 1: a bag without a noisy label reveals its labels")
        if whole(self.noisy, "noisy", 1 << 40) > self.size:
            raise InputError("noisy must be at most size: so many labels does a bag hold")
        self._settle()
        most = int(self.sizes.max())
        if self.bound_of_a_sum >= 1 << 62 or self.step_ratio * math.sqrt(most) * _LARGEST_WEIGHT > MAX_STDDEV:
            raise InputError("sums or noise do not fit into 64 bits: take a coarser grid of labels or less noise")

    def _settle(self) -> None:
        """Make numbers of what was asked for: the standard deviation, and what "auto" keeps."""
        asked = {"epsilon": self.epsilon, "delta": self.delta}
        if self.stddev != "auto":
            if any(value is not None for value in asked.values()):
                raise InputError('epsilon and delta are for stddev="auto": a given noise decides them')
            object.__setattr__(self, "stddev", float(positive(self.stddev, "stddev")))
            return
        if None in asked.values():
            raise InputError('epsilon and delta must be given with stddev="auto"')
        target(self.delta)
        object.__setattr__(self, "epsilon", float_within(positive(self.epsilon, "epsilon")))
        object.__setattr__(self, "delta", float_within(decimal(self.delta, "delta")))
        rest = decimal(self.delta, "delta") - self.failure - WEIGHT_FAILURE
        if rest <= 0:
            raise InputError(f"delta must be above {float(self.failure + WEIGHT_FAILURE):.3g} here")
        design = {part.name: getattr(self._law(self.width), part.name) for part in fields(NoisyBags)}
        design = {name: value for name, value in design.items() if name != "stddev"}
        found = llp_calibrate("stddev", epsilon=self.epsilon, delta=rest, **design)
        object.__setattr__(self, "stddev", float(found.stddev) * (1 + 1e-9))

    @property
    def bound_of_a_sum(self) -> int:
        """No weighted sum is larger, in steps."""
        largest = 1 if self.weights == "rademacher" else _LARGEST_WEIGHT
        return int(self.sizes.max()) * largest * UNIT * self.domain.size

    @property
    def step_ratio(self) -> Fraction:
        """The standard deviation of one label's noise in steps, exactly."""
        return positive(self.stddev, "stddev") / self.step * UNIT

    @cached_property
    def law(self) -> NoisyBags:
        """The bags in real numbers, whose loss this release has."""
        return self._law(positive(self.stddev, "stddev"))

    def _law(self, stddev: Fraction) -> NoisyBags:
        fixed = self.paper_faithful
        population = self.records if fixed else int(self.sizes.max())
        return NoisyBags(
            int(self.sizes.min()) if fixed else population,
            stddev=stddev * (1 if self.weights == "rademacher" else 1 - Fraction(1, 1 << 40)),
            label_range=(self.low, self.low + self.width),
            noisy_fraction=Fraction(self.noisy * (self.partition.count if fixed else 1), population),
            weights=self.weights,
            noisy_set="fixed" if fixed else "stratified",
            records=self.records if fixed else None,
        )

    def privacy_loss(self) -> PrivacyLoss:
        """That of the bags in real numbers, and a small failure that stands for integers and doubles."""
        return self.law.privacy_loss() + PrivacyLoss.failure(self.failure)

    @property
    def failure(self) -> Fraction:
        """What integers and doubles add to delta, at every epsilon."""
        return CELL_FAILURE + (0 if self.weights == "rademacher" else WEIGHT_FAILURE)

    def parameters(self) -> dict[str, Any]:
        """Size, bags, noise and weights."""
        own = {"noisy": self.noisy, "stddev": str(decimal(self.stddev, "stddev")), "weights": self.weights}
        asked = {name: getattr(self, name) for name in ("epsilon", "delta")}
        own |= {name: str(decimal(value, name)) for name, value in asked.items() if value is not None}
        return {**super().parameters(), **own, "noisy_set": "fixed" if self.paper_faithful else "stratified"}

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return (
            f"the noisy weighted sum of the labels of each of {self.partition.count} bags, who is in which, all "
            f"{self.weights} weights and who is noisy, of {self.labels_in_words}, by {self}"
        )

    def weighing(self, released: Any) -> Weighing:
        """What follows from the seed of a released array: public.

        Gaussian weights are rounded towards zero, and the noise is that of the weights before, up to 2^-6 larger.
        """
        stream = public_stream(released, self.records)
        priorities = stream.words(np.arange(self.records))
        noisy = self._noisy(priorities)
        of_record, count = self.partition.of_record, self.partition.count
        if self.weights == "rademacher":
            signs = stream.words(np.arange(self.records)) & np.uint64(1)
            own = math.isqrt(math.ceil(self.noisy * self.step_ratio**2) + SMOOTHING - 1) + 1
            return Weighing(UNIT * (1 - 2 * signs.astype(np.int64)), noisy, np.full(count, max(own, MIN_STDDEV)))
        weights = normals(stream)
        squares = np.bincount(of_record[noisy], weights=weights[noisy] ** 2, minlength=count)
        spread = float(self.step_ratio) * np.sqrt(squares) * (1 + 16 * NORMAL_ERROR * self.records)
        stddevs = np.where(squares > 0, _few(np.hypot(spread, math.sqrt(SMOOTHING) + 1)), 0)
        return Weighing(np.trunc(weights * UNIT).astype(np.int64), noisy, stddevs)

    def _noisy(self, priorities: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """The records of smallest priority, in each bag or, in a fixed set, of all."""
        chosen = np.zeros(self.records, dtype=np.bool_)
        if self.paper_faithful:
            chosen[np.argsort(priorities, kind="stable")[: self.noisy * self.partition.count]] = True
            return chosen
        of_record = self.partition.of_record
        order = np.lexsort((priorities, of_record))
        starts = np.cumsum(self.sizes) - self.sizes
        chosen[order] = np.arange(self.records) - starts[of_record[order]] < self.noisy
        return chosen

    def sums(self, labels: Any, weighing: Weighing) -> Integers:
        """Weighted sums of codes in steps, shape (bags,). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        total = np.zeros(self.partition.count, dtype=np.int64)
        np.add.at(total, self.partition.of_record, weighing.steps * codes)
        return total

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Integers:
        """A public seed of weights and noisy records, and the noisy sums, shape (4 + bags,); see `opened`."""
        bound = self.bound(rng)
        seed = fresh_seed(bound)
        weighing = self.weighing(seed)
        return np.concatenate([seed, self.sums(labels, weighing) + self.drawn(weighing.stddevs, rng=bound)])

    def drawn(self, stddevs: Integers, *, rng: Any) -> Integers:
        """Noise in steps of each standard deviation, shape as `stddevs`; none where it is 0."""
        randomness, noise = as_bound(rng), np.zeros(len(stddevs), dtype=np.int64)
        names = randomness.record_ids(None, len(stddevs))
        for stddev in np.unique(stddevs[stddevs > 0]):
            cells = stddevs == stddev
            noise[cells] = discrete_gaussian(WordStream(randomness, names[cells]), int(stddev))
        return noise

    def opened(self, released: Any) -> WeightedSums:
        """What was released, in the unit of the labels."""
        weighing, of_record = self.weighing(released), self.partition.of_record
        weights = weighing.steps / UNIT
        total = np.bincount(of_record, weights=weights, minlength=self.partition.count)
        unit = float(self.step / UNIT)
        sums = unit * np.asarray(released)[SEED_WORDS:] + float(self.low) * total
        return WeightedSums(of_record, weights, weighing.noisy, sums, unit * weighing.stddevs.astype(np.float64))

    def __str__(self) -> str:
        noise = f"{self.noisy} noisy labels" + (" on average" if self.paper_faithful else "")
        text = f"NoisyWeightedLLP of {self.size} records, {noise} of stddev {all_digits(self.stddev)}"
        if self.epsilon is not None and self.delta is not None:
            text += f" for epsilon = {all_digits(self.epsilon)}, delta = {all_digits(self.delta)}"
        return text


def _few(numbers: NDArray[np.float64]) -> Integers:
    """Integers at least as large, rounded up to seven binary digits, so that few of them differ."""
    grid = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(numbers, 1))) - 6, 0)
    return (np.ceil(numbers / grid) * grid).astype(np.int64)
