"""Sums with published random weights, and noise on some labels: `NoisyWeightedLLP` and its accounting."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from labeldp.bags.base import Bagged, Keys, ReleasedSums
from labeldp.bags.losses import ENDS, MAX_BAG, NoisyBag, bag_ends, binomial
from labeldp.mechanisms import CELL_FAILURE, MAX_MU, MIN_MU, Domain
from labeldp.privacy import (
    MAX_EPSILON,
    Argument,
    Floats,
    InputError,
    Integers,
    PrivacyLoss,
    RandomSource,
    as_bound,
    check_choice,
    check_delta,
    check_epsilon,
    check_integer,
    decimal,
    decimal_text,
    exact_positive,
    float_above,
    float_below,
    label_width,
    largest,
    set_fields,
    smallest_below,
    smallest_integer,
    sqrt_above,
)
from labeldp.sampling import (
    MAX_STDDEV,
    MIN_STDDEV,
    NORMAL_ERROR,
    SEED_WORDS,
    SMOOTHING,
    WordStream,
    discrete_gaussian,
    fresh_seed,
    normals,
    public_stream,
)

STEPS_IN_WEIGHT = 1 << 16
"""Steps of a weight of one, and of a released sum in one step of the labels."""

WEIGHT_FAILURE = Fraction(1, 1 << 50)
"""Failure probability for normal weights in doubles and for priorities that are equal, in bags of up to 2**12 records;
in larger ones it grows with their size."""

MAX_RECORDS = 1 << 50

WEIGHTS = "rademacher", "gaussian"

NOISY_SETS = "stratified", "fixed"

UNKNOWNS = "size", "stddev", "noisy_fraction"

_LARGEST_WEIGHT = 10


@dataclass(frozen=True, eq=False)
class BagWeights:
    """Weights in steps (n,), who is noisy (n,), and the standard deviation of each bag's noise in steps (bags,)."""

    steps: Integers = field(repr=False)
    noisy: NDArray[np.bool_] = field(repr=False)
    stddevs: Integers = field(repr=False)

    @property
    def variances(self) -> Integers:
        """The certified variance of the noise of each bag, shape (bags,)."""
        return np.maximum(self.stddevs**2 - SMOOTHING, 0)


@dataclass(frozen=True)
class NoisyBags:
    """Disjoint bags of labels, released as weighted sums with their weights, after Gaussian noise on some labels.

    Args:
        size: labels in a bag.
        stddev: standard deviation of the noise on one noisy label.
        label_range: the lowest and the highest label.
        noisy_fraction: share of labels that have noise, in (0, 1]; whole numbers of labels are rounded down.
        weights: "rademacher" (+1 and -1) or "gaussian".
        noisy_set: "stratified", the same number of noisy labels in each bag, or "fixed", one set drawn from all
            labels before the bags are.
        records: how many labels there are, with a fixed set. Without it there is only the limit of infinitely many,
            the binomial law of the noisy labels of a bag, and no `privacy_loss`.

    Guarantee (approximate): a release of these bags about labels that are replaced one at a time has no larger delta
        than the loss.

    Raises:
        InputError: a parameter out of range, or noise that leaves bags without any.

    Source: Brahmbhatt, Fig. 2 (a fixed set and Gaussian weights). Proof: `docs/proofs/bags.md`.

    Examples:
        >>> bags = NoisyBags(72, stddev=1, label_range=(-1, 1))
        >>> bags.privacy_loss().delta(1) < 1e-6
        True
    """

    size: int
    _: KW_ONLY
    stddev: Any
    label_range: Any
    noisy_fraction: Any = 1
    weights: str = "rademacher"
    noisy_set: str = "stratified"
    records: int | None = None

    def __post_init__(self) -> None:
        set_fields(self, size=check_integer(self.size, "size", high=MAX_BAG))
        exact_positive(self.stddev, "stddev")
        label_width(self.label_range)
        check_choice(self.weights, "weights", WEIGHTS)
        check_choice(self.noisy_set, "noisy_set", NOISY_SETS)
        if not 0 < decimal(self.noisy_fraction, "noisy_fraction") <= 1:
            raise InputError(
                "must lie in (0, 1]: without noisy labels a bag reveals its labels", argument="noisy_fraction"
            )
        if self.records is not None:
            self._check_records(self.records)
        if not self.limit and not self.noisy:
            raise InputError(
                f"= {self.noisy_fraction} of {self.population} labels leaves bags without a noisy one, which give "
                "their labels away: take a larger size or ",
                Argument("noisy_fraction"),
                argument="noisy_fraction",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as values of JSON."""
        return {
            "size": self.size,
            "stddev": float(self.stddev),
            "label_range": [float(end) for end in self.label_range],
            "noisy_fraction": float(self.noisy_fraction),
            "weights": self.weights,
            "noisy_set": self.noisy_set,
            "records": self.records,
        }

    def _check_records(self, records: int) -> None:
        if self.noisy_set != "fixed":
            raise InputError(
                "is for ",
                Argument("noisy_set", "fixed"),
                ": a stratified set guarantees the same for any number",
                argument="records",
            )
        if check_integer(records, "records", high=MAX_RECORDS) < self.size:
            raise InputError(f"must be at least size = {self.size}: a bag holds so many labels", argument="records")

    @property
    def limit(self) -> bool:
        """Whether the design is the limit of infinitely many records, which has no certified loss."""
        return self.noisy_set == "fixed" and self.records is None and self.fraction < 1

    @property
    def fraction(self) -> Fraction:
        """The share of noisy labels, exactly."""
        return decimal(self.noisy_fraction, "noisy_fraction")

    @property
    def population(self) -> int:
        """The number of labels among which the noisy ones are drawn: one bag or all bags."""
        return self.size if self.records is None else self.records

    @property
    def noisy(self) -> int:
        """How many of the population have noise."""
        return math.floor(self.fraction * self.population)

    @property
    def ratio(self) -> Fraction:
        """Width of the label range over the standard deviation."""
        return label_width(self.label_range) / exact_positive(self.stddev, "stddev")

    @property
    def noisy_per_bag(self) -> int | None:
        """How many labels of every bag have noise; None where that is random."""
        if self.noisy == self.population:
            return self.size
        return self.noisy if self.noisy_set == "stratified" else None

    def privacy_loss(self) -> PrivacyLoss:
        """Return what one release costs a label that is in a bag.

        With weights +1 and -1 and a stratified set it is Gaussian, with mu = ratio / sqrt(noisy labels of a bag).

        Raises:
            InputError: a fixed set without `records`.
        """
        if self.limit:
            raise InputError(
                "must be given: the limit of infinitely many guarantees nothing for finitely many", argument="records"
            )
        if self.noisy_per_bag is not None and (self.weights == "rademacher" or self.size == 1):
            return PrivacyLoss.gaussian(sqrt_above(self.ratio**2 / self.noisy_per_bag))
        return PrivacyLoss.curve(self.bag())

    def bag(self) -> NoisyBag:
        """Return the loss of one bag as a curve between two ends; not of the limit."""
        noisy, records = (self.noisy, self.records) if self.noisy_per_bag is None else (self.noisy_per_bag, None)
        return NoisyBag(self.weights, float_above(self.ratio), self.size, noisy, records)


@final
@dataclass(frozen=True)
class NoisyWeightedLLP(Bagged):
    """Weighted sums of the labels of each bag, published with the bags, the weights and the noisy records.

    `BagSum` learns more from the same labels at the same guarantee. The noise of the noisy labels of a bag is drawn at
    once, which has the same law.

    Args:
        domain, size, bags, features, seed: as in `Bagged`; bags are random by default.
        noisy: how many labels of each bag have noise.
        stddev: standard deviation of the noise on one label, in the unit of the labels; "auto": as little as
            (epsilon, delta) needs.
        weights: "rademacher" (+1 and -1) by default, or "gaussian", which cost privacy and buy nothing.
        paper_faithful: Gaussian weights, and one set of noisy labels drawn from all of them, `noisy` for each bag on
            average. Where n is a multiple of size this is Fig. 2; a bag may then have no noisy label, and its chance is
            in the loss.
        users: the user of each record, public integers, shape (n,), `Public(array, why="…")`: all labels of a user are
            protected together. Not with Gaussian weights, which have no bound.

    Guarantee (approximate, users): as in `NoisyBags`, for the emitted bits: what is drawn beside the noise depends on
        no label. With users, for all labels of each user.

    Raises:
        InputError: bags that overlap or are smaller than asked, a bag without a noisy label, or a parameter out of
            range.

    Source: Brahmbhatt, Fig. 2. Proof: `docs/proofs/bags.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> from labeldp.bags import random_bags
        >>> bags = random_bags(1000, 72)
        >>> llp = NoisyWeightedLLP(72, 72, 1.0, domain=Interval(-1, 1), bags=bags)
        >>> llp.privacy_loss().within(1, 1e-6)
        True
    """

    contract: ClassVar[str] = "labeldp.testing.checks:check_published"
    plain: ClassVar[tuple[str, ...]] = ("size", "noisy", "stddev", "weights", "paper_faithful", "epsilon", "delta")
    takes_users: ClassVar[bool] = True
    noisy: int
    stddev: Any
    weights: Any = None
    _: KW_ONLY
    bags: InitVar[Any] = "random"
    seed_words: ClassVar[int] = SEED_WORDS
    paper_faithful: bool = False
    epsilon: float | None = None
    delta: float | None = None
    users: InitVar[Any] = None
    law: NoisyBags = field(init=False, repr=False, compare=False)

    def __post_init__(self, bags: Any, features: Any, seed: int, users: Any) -> None:
        super().__post_init__(bags, features, seed)
        default = "gaussian" if self.paper_faithful else "rademacher"
        set_fields(self, weights=default if self.weights is None else check_choice(self.weights, "weights", WEIGHTS))
        if self.paper_faithful and self.weights != default:
            raise InputError(
                'must be "gaussian" with paper_faithful=True: those are the weights of the paper', argument="weights"
            )
        if isinstance(self.noisy, int) and self.noisy < 1:
            raise InputError("must be at least 1: a bag without a noisy label reveals its labels", argument="noisy")
        set_fields(self, noisy=check_integer(self.noisy, "noisy", high=1 << 40))
        if self.noisy > self.size:
            raise InputError("must be at most size: so many labels does a bag hold", argument="noisy")
        if users is not None:
            self._protect(users)
        design = self._design()
        set_fields(self, stddev=self._calibrated(design))
        # Gaussian weights are rounded to doubles.
        rounding = 0 if self.weights == "rademacher" else Fraction(1, 1 << 40)
        set_fields(self, law=NoisyBags(stddev=exact_positive(self.stddev, "stddev") * (1 - rounding), **design))
        largest_bag = int(self.sizes.max())
        if self.bound_of_a_sum >= 1 << 62 or self.step_ratio * math.sqrt(largest_bag) * _LARGEST_WEIGHT > MAX_STDDEV:
            raise InputError("sums or noise do not fit into 64 bits: take a coarser grid of labels or less noise")

    @classmethod
    def calibrated(cls, size: int, *, epsilon: Any, delta: Any, **arguments: Any) -> Self:
        """Return the mechanism with the smallest standard deviation; all labels of the smallest bag are noisy."""
        noisy = arguments.pop("noisy", None)
        return cls(size, size if noisy is None else noisy, "auto", epsilon=epsilon, delta=delta, **arguments)

    def _protect(self, users: Any) -> None:
        if self.weights != "rademacher":
            raise InputError(
                'must be "rademacher" with users: what Gaussian weights move has no bound', argument="weights"
            )
        super()._protect(users)

    def _design(self) -> dict[str, Any]:
        """Return all arguments of `law` but its standard deviation."""
        fixed = self.paper_faithful
        population = self.records if fixed else int(self.sizes.max())
        return {
            "size": int(self.sizes.min()) if fixed else population,
            "label_range": (self.domain.low_exact, self.domain.low_exact + self.width),
            "noisy_fraction": Fraction(self.noisy * (self.partition.count if fixed else 1), population),
            "weights": self.weights,
            "noisy_set": "fixed" if fixed else "stratified",
            "records": self.records if fixed else None,
        }

    def _calibrated(self, design: dict[str, Any]) -> float:
        """Return the standard deviation that was given, or the smallest one that keeps (epsilon, delta)."""
        if self.stddev != "auto":
            if self.epsilon is not None or self.delta is not None:
                raise InputError('are for stddev="auto": a given noise decides them', argument=("epsilon", "delta"))
            return float(exact_positive(self.stddev, "stddev"))
        if self.epsilon is None or self.delta is None:
            raise InputError('must be given with stddev="auto"', argument=("epsilon", "delta"))
        check_delta(self.delta)
        set_fields(
            self,
            epsilon=float_below(exact_positive(self.epsilon, "epsilon")),
            delta=float_below(decimal(self.delta, "delta")),
        )
        remainder = decimal(self.delta, "delta") - self.failure - WEIGHT_FAILURE
        if remainder <= 0:
            raise InputError(f"must be above {float(self.failure + WEIGHT_FAILURE):.3g} here", argument="delta")
        if self.owners is not None:
            at = exact_positive(self.epsilon, "epsilon")
            mu = largest(
                lambda mu: PrivacyLoss.gaussian(mu).within(at, remainder), 0.0, MAX_MU, tol=1e-9, lowest=MIN_MU
            )
            if not mu:
                raise InputError("cannot be kept with users here: take larger ones", argument=("epsilon", "delta"))
            return float(self.width) * math.sqrt(self.moves[1] / self.noisy) / mu * (1 + 1e-9)
        stddev = llp_calibrate("stddev", epsilon=self.epsilon, delta=remainder, **design)
        return float(stddev.stddev) * (1 + 1e-9)

    @property
    def bound_of_a_sum(self) -> int:
        """No weighted sum is larger, in steps."""
        largest = 1 if self.weights == "rademacher" else _LARGEST_WEIGHT
        return int(self.sizes.max()) * largest * STEPS_IN_WEIGHT * self.domain.size

    @property
    def step_ratio(self) -> Fraction:
        """The standard deviation of one label's noise in steps, exactly."""
        return exact_positive(self.stddev, "stddev") / self.domain.step_exact * STEPS_IN_WEIGHT

    def privacy_loss(self) -> PrivacyLoss:
        """Return the loss of the bags in real numbers, plus a small failure for integers and doubles.

        With users it is Gaussian, with mu = ratio sqrt(squares of how many records lie in each bag / noisy labels).
        """
        if self.owners is None:
            return self.law.privacy_loss() + PrivacyLoss.failure(self.failure)
        mu = sqrt_above(self.law.ratio**2 * self.moves[1] / self.noisy)
        return PrivacyLoss.gaussian(mu) + PrivacyLoss.failure(self.failure)

    @property
    def failure(self) -> Fraction:
        """What integers and doubles add to delta, at every epsilon."""
        if self.weights == "rademacher":
            return self.moves[2] * CELL_FAILURE
        return self.moves[2] * CELL_FAILURE + max(WEIGHT_FAILURE, Fraction(int(self.sizes.max()), 1 << 62))

    def parameters(self) -> dict[str, Any]:
        design = {"noisy": self.noisy, "stddev": str(decimal(self.stddev, "stddev")), "weights": self.weights}
        budget = {name: getattr(self, name) for name in ("epsilon", "delta")}
        design |= {name: str(decimal(value, name)) for name, value in budget.items() if value is not None}
        users = {} if self.owners is None else {"users": self.owners.digest, "moves": list(self.moves)}
        return {
            **super().parameters(),
            **design,
            "noisy_set": "fixed" if self.paper_faithful else "stratified",
            **users,
        }

    @property
    def published(self) -> str:
        return (
            f"weighted label sums of {self.partition.count:,} bags, the bag membership, all {self.weights} weights and "
            "which labels are noisy (Gaussian noise)"
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments in `plain`, with the standard deviation in the form given."""
        return super().arguments() | ({} if self.epsilon is None else {"stddev": "auto"})

    def bag_weights(self, released: Any) -> BagWeights:
        """Return the public weights and noise levels, computed from the seed of a released array.

        Gaussian weights are rounded towards zero, and the noise is that of the weights before, up to 2^-6 larger.
        """
        stream = public_stream(released, self.records)
        priorities = stream.words(np.arange(self.records))
        noisy = self._noisy(priorities)
        of_record, count = self.partition.of_record, self.partition.count
        if self.weights == "rademacher":
            signs = stream.words(np.arange(self.records)) & np.uint64(1)
            stddev = math.isqrt(math.ceil(self.noisy * self.step_ratio**2) + SMOOTHING - 1) + 1
            return BagWeights(
                STEPS_IN_WEIGHT * (1 - 2 * signs.astype(np.int64)), noisy, np.full(count, max(stddev, MIN_STDDEV))
            )
        weights = normals(stream)
        squares = np.bincount(of_record[noisy], weights=weights[noisy] ** 2, minlength=count)
        spread = float(self.step_ratio) * np.sqrt(squares) * (1 + 16 * NORMAL_ERROR * self.records)
        stddevs = np.where(squares > 0, _few(np.hypot(spread, math.sqrt(SMOOTHING) + 1)), 0)
        return BagWeights(np.trunc(weights * STEPS_IN_WEIGHT).astype(np.int64), noisy, stddevs)

    def _noisy(self, priorities: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return the records of smallest priority, in each bag or, in a fixed set, of all."""
        chosen = np.zeros(self.records, dtype=np.bool_)
        if self.paper_faithful:
            chosen[np.argsort(priorities, kind="stable")[: self.noisy * self.partition.count]] = True
            return chosen
        of_record = self.partition.of_record
        order = np.lexsort((priorities, of_record))
        starts = np.cumsum(self.sizes) - self.sizes
        chosen[order] = np.arange(self.records) - starts[of_record[order]] < self.noisy
        return chosen

    def sums(self, labels: Any, bag_weights: BagWeights) -> Integers:
        """Return weighted sums of codes in steps, shape (bags,). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        return self.summed(bag_weights.steps * codes)

    def released_sums(self, value: Any) -> ReleasedSums:
        public, of_record = self.bag_weights(value), self.partition.of_record
        weights = public.steps / STEPS_IN_WEIGHT
        totals = np.bincount(of_record, weights=weights, minlength=self.partition.count)
        unit = float(self.domain.step_exact / STEPS_IN_WEIGHT)
        sums = unit * np.asarray(value)[SEED_WORDS:] + float(self.domain.low_exact) * totals
        stddevs = unit * public.stddevs.astype(np.float64)
        return ReleasedSums.of_sums(self, sums, stddevs, weights, public.noisy)

    def column_names(self, record: str, features: Sequence[str]) -> tuple[str, ...]:
        return (record, "bag", "weight", "noisy")

    def column_values(self, value: Any, names: Any, places: NDArray[np.intp]) -> list[Any]:
        content = self.released_sums(value)
        columns = (content.bags, content.weights, content.noisy, content.sums[self.partition.of_record])
        return [names, *(np.asarray(column)[places] for column in columns)]

    @classmethod
    def read_columns(
        cls, names: Sequence[str], column: Callable[[str], Floats], sums: str, specification: Mapping[str, Any]
    ) -> ReleasedSums:
        weights, noisy, stddev = column("weight"), column("noisy"), float(Fraction(specification["stddev"]))

        def spread(bags: Keys) -> Floats:
            return np.asarray(stddev * np.sqrt(np.bincount(bags, weights=noisy * weights**2)))

        return ReleasedSums.of_records(
            Domain.from_json(specification["domain"]), column("bag"), weights, column(sums), spread
        )

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> Integers:
        """Return a public seed of weights and noisy records, and the noisy sums, shape (4 + bags,).

        `released_sums` has them in the unit of the labels.
        """
        bound = self.bound(rng)
        seed = fresh_seed(bound)
        bag_weights = self.bag_weights(seed)
        return np.concatenate([seed, self.sums(labels, bag_weights) + self.draw_noise(bag_weights.stddevs, rng=bound)])

    def draw_noise(self, stddevs: Integers, *, rng: RandomSource) -> Integers:
        """Draw noise in steps of each standard deviation, shape as `stddevs`; none where it is 0."""
        randomness, noise = as_bound(rng), np.zeros(len(stddevs), dtype=np.int64)
        names = randomness.record_ids(None, len(stddevs))
        for stddev in np.unique(stddevs[stddevs > 0]):
            cells = stddevs == stddev
            noise[cells] = discrete_gaussian(WordStream(randomness, names[cells]), int(stddev))
        return noise

    def __str__(self) -> str:
        noise = f"{self.noisy} noisy labels" + (" on average" if self.paper_faithful else "")
        text = f"NoisyWeightedLLP of {self.size} records, {noise} of stddev {decimal_text(self.stddev)}"
        if self.epsilon is not None and self.delta is not None:
            text += f" for epsilon = {decimal_text(self.epsilon)}, delta = {decimal_text(self.delta)}"
        return text


def _few(numbers: NDArray[np.float64]) -> Integers:
    """Return integers at least as large, rounded up to seven binary digits, so that few of them differ."""
    grid = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(numbers, 1))) - 6, 0)
    return (np.ceil(numbers / grid) * grid).astype(np.int64)


def llp_delta(bags: NoisyBags, epsilon: Any, *, end: str = "upper") -> float:
    """Return the delta of one release at `epsilon`, for the worst label that is in a bag.

    It is an exact integral between certified ends. The chance of not being in a bag, m size / records, would multiply
    it only for somebody who does not see the published bags, and it never makes epsilon smaller: it is left out.

    Args:
        epsilon: in [0, 10**6].
        end: "upper", or "lower" for the other end of the bracket; they differ by a relative 1e-10.

    Guarantee (enclosed): the upper end is never below the exact delta, the lower end never above it.

    Source: Brahmbhatt, Fig. 2; `docs/proofs/bags.md`, equation (2), where the paper has a bound.

    Examples:
        >>> paper = NoisyBags(256, stddev=1, label_range=(0, 253.78), noisy_fraction=0.1, weights="gaussian",
        ...                   noisy_set="fixed")
        >>> round(llp_delta(paper, 1), 3)
        0.966
    """
    check_choice(end, "end", ENDS)
    return _read(bags, check_epsilon(epsilon), ENDS.index(end))


def _read(bags: NoisyBags, epsilon: float, end: int = 1) -> float:
    epsilons = np.array([epsilon])
    if bags.limit:
        ratio, neighbors = float_above(bags.ratio), binomial(bags.size - 1, float(bags.fraction))
        return float(bag_ends(bags.weights, ratio, neighbors, neighbors, epsilons)[end][0])
    return float(bags.bag().ends(epsilons)[end][0])


def llp_epsilon(bags: NoisyBags, delta: Any) -> float:
    """Return the epsilon of one release at `delta` in (0, 1), rounded up; infinite where none keeps it.

    Guarantee (kept): at the epsilon that it returns the delta of `llp_delta` is at most the one that was asked for.
    """
    aim, lowest = check_delta(delta), 1e-9
    epsilon = smallest_below(lambda epsilon: _read(bags, epsilon), aim, lowest, float(MAX_EPSILON))
    if epsilon == lowest and _read(bags, 0.0) <= aim:
        return 0.0
    return math.inf if epsilon is None else epsilon


def llp_calibrate(solve_for: str, *, epsilon: Any, delta: Any, **design: Any) -> NoisyBags:
    """Return the bags with the smallest size, stddev or noisy fraction that keeps (epsilon, delta).

    Args:
        solve_for: "size", "stddev" or "noisy_fraction".
        epsilon, delta: the guarantee; delta in (0, 1).
        design: every other argument of `NoisyBags`.

    Guarantee (kept): the bags that it returns keep (epsilon, delta).

    Raises:
        InputError: nothing keeps it, or an argument is out of range.

    Source: `docs/proofs/bags.md`: the curve falls in each of the three.

    Examples:
        >>> llp_calibrate("size", epsilon=1, delta=1e-6, stddev=1, label_range=(-1, 1)).size
        72
    """
    check_choice(solve_for, "solve_for", UNKNOWNS)
    aim, at = check_delta(delta), check_epsilon(epsilon)
    if solve_for in design:
        raise InputError("is what is to be found: leave it out", argument=solve_for)
    finder = {"size": _smallest_size, "stddev": _smallest_stddev, "noisy_fraction": _smallest_fraction}[solve_for]
    number = finder(design, lambda bags: _read(bags, at), aim)
    if number is None:
        raise InputError(
            f"cannot keep epsilon = {epsilon} and delta = {delta} here: change another argument", argument=solve_for
        )
    return number


Reader = Callable[[NoisyBags], float]


def _smallest_size(design: dict[str, Any], read: Reader, aim: float) -> NoisyBags | None:
    records = design.get("records")
    largest = MAX_BAG if records is None else min(MAX_BAG, check_integer(records, "records", high=MAX_RECORDS))
    stratified = design.get("noisy_set", "stratified") == "stratified"
    widest = _bags(design, size=largest)
    size = smallest_integer(
        lambda size: read(_bags(design, size=size)) <= aim, math.ceil(1 / widest.fraction) if stratified else 1, largest
    )
    return None if size is None else _bags(design, size=size)


def _smallest_stddev(design: dict[str, Any], read: Reader, aim: float) -> NoisyBags | None:
    unit = float(_bags(design, stddev=1).ratio)
    share = smallest_below(lambda share: read(_bags(design, stddev=share * unit)), aim, 1e-6, 1e9)
    return None if share is None else _bags(design, stddev=share * unit)


def _smallest_fraction(design: dict[str, Any], read: Reader, aim: float) -> NoisyBags | None:
    all_noisy = _bags(design, noisy_fraction=1)
    if all_noisy.noisy_set == "fixed" and all_noisy.records is None:
        share = smallest_below(lambda share: read(_bags(design, noisy_fraction=share)), aim, 1e-9, 1.0)
        return None if share is None else _bags(design, noisy_fraction=share)

    def with_noisy(noisy: int) -> NoisyBags:
        return _bags(design, noisy_fraction=float_above(Fraction(noisy, all_noisy.population)))

    noisy = smallest_integer(lambda noisy: read(with_noisy(noisy)) <= aim, 1, all_noisy.population)
    return None if noisy is None else with_noisy(noisy)


def _bags(design: dict[str, Any], **changes: Any) -> NoisyBags:
    """Return the bags of a design with some arguments changed."""
    arguments = {**design, **changes}
    missing = [name for name in ("size", "stddev", "label_range") if name not in arguments]
    unknown = sorted(set(arguments) - {part.name for part in fields(NoisyBags)})
    if missing or unknown:
        raise InputError(
            "must be given" if missing else "is no argument of NoisyBags", argument=tuple(missing or unknown)
        )
    return NoisyBags(**arguments)
