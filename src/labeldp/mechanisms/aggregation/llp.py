"""Bags with published random weights and noise on some labels: what one label in a bag is promised."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from labeldp.mechanisms.aggregation.checks import (
    MAX_EPSILON,
    at_epsilon,
    label_width,
    one_of,
    positive,
    target,
    whole,
)
from labeldp.mechanisms.aggregation.solve import falls_below, integer_below
from labeldp.privacy import (
    MAX_BAG,
    InputError,
    NoisyBag,
    PrivacyLoss,
    bag_ends,
    binomial,
    decimal,
    shortest_float,
)

WEIGHTS = "rademacher", "gaussian"
NOISY_SETS = "stratified", "fixed"
ENDS = "lower", "upper"
MAX_RECORDS = 1 << 50
UNKNOWNS = "size", "stddev", "noisy_fraction"

_NOBODY = "leaves bags without a noisy one, which give their labels away: take a larger size or noisy_fraction"


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

    Guarantee: a release of these bags about labels that are replaced one at a time has no larger delta than the loss.

    Raises:
        InputError: a parameter out of range, or noise that leaves bags without any.

    Source: Brahmbhatt, Fig. 2 (a fixed set and Gaussian weights). Proof: `docs/proofs/aggregation.md`.

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
        whole(self.size, "size", MAX_BAG)
        positive(self.stddev, "stddev")
        label_width(self.label_range)
        one_of(self.weights, "weights", WEIGHTS)
        one_of(self.noisy_set, "noisy_set", NOISY_SETS)
        if not 0 < decimal(self.noisy_fraction, "noisy_fraction") <= 1:
            raise InputError("noisy_fraction must lie in (0, 1]: without noisy labels a bag reveals its labels")
        if self.records is not None:
            self._check_records(self.records)
        if not self.limit and not self.noisy:
            raise InputError(f"noisy_fraction = {self.noisy_fraction} of {self.population} labels {_NOBODY}")

    def _check_records(self, records: int) -> None:
        if self.noisy_set != "fixed":
            raise InputError('records is for noisy_set="fixed": a stratified set promises the same for any number')
        if whole(records, "records", MAX_RECORDS) < self.size:
            raise InputError(f"records must be at least size = {self.size}: a bag holds so many labels")

    @property
    def limit(self) -> bool:
        """Whether only the limit of infinitely many records is asked for: no loss that a certificate may hold."""
        return self.noisy_set == "fixed" and self.records is None and self.fraction < 1

    @property
    def fraction(self) -> Fraction:
        """The share of noisy labels, exactly."""
        return decimal(self.noisy_fraction, "noisy_fraction")

    @property
    def population(self) -> int:
        """The labels among which the noisy ones are counted: those of a bag, or all."""
        return self.size if self.records is None else self.records

    @property
    def noisy(self) -> int:
        """How many of the population have noise."""
        return math.floor(self.fraction * self.population)

    @property
    def ratio(self) -> Fraction:
        """Width of the label range over the standard deviation."""
        return label_width(self.label_range) / positive(self.stddev, "stddev")

    @property
    def each(self) -> int | None:
        """How many labels of every bag have noise; None where that is random."""
        if self.noisy == self.population:
            return self.size
        return self.noisy if self.noisy_set == "stratified" else None

    def privacy_loss(self) -> PrivacyLoss:
        """What one release costs a label that is in a bag.

        With weights +1 and -1 and a stratified set it is Gaussian, with mu = ratio / sqrt(noisy labels of a bag).

        Raises:
            InputError: a fixed set without `records`.
        """
        if self.limit:
            raise InputError("records must be given: the limit of infinitely many promises nothing for finitely many")
        if self.each is not None and (self.weights == "rademacher" or self.size == 1):
            return PrivacyLoss.gaussian(_root_above(self.ratio**2 / self.each))
        return PrivacyLoss.curve(self.bag())

    def bag(self) -> NoisyBag:
        """The loss of one bag as a curve between two ends; not of the limit."""
        noisy, records = (self.noisy, self.records) if self.each is None else (self.each, None)
        return NoisyBag(self.weights, shortest_float(self.ratio), self.size, noisy, records)


def _root_above(square: Fraction) -> float:
    """The square root of a rational, rounded up."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def llp_delta(bags: NoisyBags, epsilon: Any, *, end: str = "upper") -> float:
    """The delta of one release at `epsilon`, for the worst label that is in a bag.

    It is an exact integral between certified ends. The chance of not being in a bag, m size / records, would multiply
    it only for somebody who does not see the published bags, and it never makes epsilon smaller: it is left out.

    Args:
        epsilon: in [0, 10**6].
        end: "upper", or "lower" for the other end of the bracket; they differ by a relative 1e-10.

    Guarantee: the upper end is never below the exact delta, the lower end never above it.

    Source: Brahmbhatt, Fig. 2; `docs/proofs/aggregation.md`, equation (2), where the paper has a bound.

    Examples:
        >>> paper = NoisyBags(256, stddev=1, label_range=(0, 253.78), noisy_fraction=0.1, weights="gaussian",
        ...                   noisy_set="fixed")
        >>> round(llp_delta(paper, 1), 3)
        0.966
    """
    one_of(end, "end", ENDS)
    return _read(bags, at_epsilon(epsilon), ENDS.index(end))


def _read(bags: NoisyBags, epsilon: float, end: int = 1) -> float:
    """One end of the curve at one epsilon."""
    epsilons = np.array([epsilon])
    if bags.limit:
        ratio, others = shortest_float(bags.ratio), binomial(bags.size - 1, float(bags.fraction))
        return float(bag_ends(bags.weights, ratio, others, epsilons)[end][0])
    return float(bags.bag().ends(epsilons)[end][0])


def llp_epsilon(bags: NoisyBags, delta: Any) -> float:
    """The epsilon of one release at `delta` in (0, 1), rounded up; infinite where none keeps it.

    Guarantee: at the epsilon that it returns the delta of `llp_delta` is at most the one that was asked for.
    """
    aim, least = target(delta), 1e-9
    found = falls_below(lambda epsilon: _read(bags, epsilon), aim, least, float(MAX_EPSILON))
    if found == least and _read(bags, 0.0) <= aim:
        return 0.0
    return math.inf if found is None else found


def llp_calibrate(solve_for: str, *, epsilon: Any, delta: Any, **design: Any) -> NoisyBags:
    """The bags with the smallest size, stddev or noisy fraction that keeps (epsilon, delta).

    Args:
        solve_for: "size", "stddev" or "noisy_fraction".
        epsilon, delta: what is to be kept; delta in (0, 1).
        design: every other argument of `NoisyBags`.

    Guarantee: the bags that it returns keep (epsilon, delta).

    Raises:
        InputError: nothing keeps it, or an argument is out of range.

    Source: `docs/proofs/aggregation.md`: the curve falls in each of the three.

    Examples:
        >>> llp_calibrate("size", epsilon=1, delta=1e-6, stddev=1, label_range=(-1, 1)).size
        72
    """
    one_of(solve_for, "solve_for", UNKNOWNS)
    aim, at = target(delta), at_epsilon(epsilon)
    if solve_for in design:
        raise InputError(f"{solve_for} is what is to be found: leave it out")
    finder = {"size": _smallest_size, "stddev": _smallest_stddev, "noisy_fraction": _smallest_fraction}[solve_for]
    found = finder(design, lambda bags: _read(bags, at), aim)
    if found is None:
        raise InputError(
            f"{solve_for} cannot keep epsilon = {epsilon} and delta = {delta} here: change another argument"
        )
    return found


Reader = Callable[[NoisyBags], float]


def _smallest_size(design: dict[str, Any], read: Reader, aim: float) -> NoisyBags | None:
    records = design.get("records")
    most = MAX_BAG if records is None else min(MAX_BAG, whole(records, "records", MAX_RECORDS))
    stratified = design.get("noisy_set", "stratified") == "stratified"
    widest = _bags(design, size=most)
    size = integer_below(
        lambda size: read(_bags(design, size=size)), aim, math.ceil(1 / widest.fraction) if stratified else 1, most
    )
    return None if size is None else _bags(design, size=size)


def _smallest_stddev(design: dict[str, Any], read: Reader, aim: float) -> NoisyBags | None:
    unit = float(_bags(design, stddev=1).ratio)
    found = falls_below(lambda share: read(_bags(design, stddev=share * unit)), aim, 1e-6, 1e9)
    return None if found is None else _bags(design, stddev=found * unit)


def _smallest_fraction(design: dict[str, Any], read: Reader, aim: float) -> NoisyBags | None:
    most = _bags(design, noisy_fraction=1)
    if most.noisy_set == "fixed" and most.records is None:
        share = falls_below(lambda share: read(_bags(design, noisy_fraction=share)), aim, 1e-9, 1.0)
        return None if share is None else _bags(design, noisy_fraction=share)

    def with_noisy(noisy: int) -> NoisyBags:
        return _bags(design, noisy_fraction=shortest_float(Fraction(noisy, most.population)))

    noisy = integer_below(lambda noisy: read(with_noisy(noisy)), aim, 1, most.population)
    return None if noisy is None else with_noisy(noisy)


def _bags(design: dict[str, Any], **found: Any) -> NoisyBags:
    """The bags of a design with what is being looked for."""
    given = {**design, **found}
    missing = [name for name in ("size", "stddev", "label_range") if name not in given]
    unknown = sorted(set(given) - {part.name for part in fields(NoisyBags)})
    if missing or unknown:
        raise InputError(
            f"{' and '.join(missing or unknown)} {'must be given' if missing else 'is no argument of NoisyBags'}"
        )
    return NoisyBags(**given)
