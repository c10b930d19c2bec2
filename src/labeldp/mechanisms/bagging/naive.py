"""Sums over bags with no noise at all: a baseline that protects nobody, and says so."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.aggregation.checks import whole
from labeldp.mechanisms.bagging.bags import MAX_RECORDS, Keys
from labeldp.mechanisms.bagging.coins import SEED_WORDS, fresh_seed, public_stream
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.coins import Integers
from labeldp.privacy import InputError, PrivacyLoss, Trust


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
        for name in ("size", "count", "population"):
            whole(getattr(self, name), name, MAX_RECORDS)
        if self.size * self.count > self.population:
            raise InputError("bags must not overlap: count times size is at most the number of records")

    @property
    def records(self) -> int:
        """The population."""
        return self.population

    def check_records(self, count: int) -> None:
        """Refuse labels that are more or fewer than the population."""
        if count != self.population:
            raise InputError(f"labels must hold {self.population} records, as population says")

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
        """The bag of each record, -1 for none, shape (n,)."""
        order = np.argsort(public_stream(released, self.population).words(np.arange(self.population)), kind="stable")
        of_record = np.full(self.population, -1, dtype=np.int64)
        of_record[order[: self.size * self.count]] = np.repeat(np.arange(self.count), self.size)
        return of_record

    def sums(self, released: Any) -> NDArray[np.int64]:
        """The exact sums of codes, shape (count,)."""
        return np.asarray(released)[SEED_WORDS:]

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> Integers:
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
