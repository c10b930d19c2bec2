"""Mechanisms of a trusted curator on public groups of records: what they share."""

import hashlib
from abc import abstractmethod
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.base import EpsilonMechanism
from labeldp.mechanisms.candidates import basis_of
from labeldp.mechanisms.domains import Classes, Domain
from labeldp.privacy import Certificate, InputError, Public, Release, Trust

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """A public group for each record.

    Args:
        of_record: group numbers 0 to count - 1, shape (n,).
        count: how many groups there are; some may be empty.
    """

    of_record: NDArray[np.int64] = field(repr=False)
    count: int

    @classmethod
    def of(cls, groups: Any, name: str = "groups") -> "Groups":
        """Groups that were declared public or were released; refusals call them by `name`.

        Raises:
            InputError: a bare array, or not one non-negative integer for each record.
        """
        if not isinstance(groups, Public | Release):
            raise InputError(
                f'{name} must be Public(array, why="…") or a Release: {name} may not depend on private labels'
            )
        array = np.asarray(groups.value)
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0):
            raise InputError(f"{name} must be one non-negative integer for each record")
        array = array.astype(np.int64)
        array.flags.writeable = False
        return cls(array, int(array.max(initial=-1)) + 1)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the groups in the order of the records, as the smallest unsigned integers that hold them all.

        The type comes first: the bytes of two groups of one kind may be those of a single one of another.
        """
        kind = np.min_scalar_type(max(self.count - 1, 0)).newbyteorder("<")
        digest = hashlib.sha256(kind.str.encode())
        digest.update(np.ascontiguousarray(self.of_record, dtype=kind).data)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and bool(np.array_equal(self.of_record, other.of_record))

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, kw_only=True)
class CountMechanism(EpsilonMechanism):
    """A mechanism on the class counts of public groups; replacing a label moves two counts of one group by one.

    `LaplaceSum` has sums over the groups in place of counts.

    Args:
        domain: `Classes`, K = its size; an `Interval`, or two classes, for sums.
        epsilon: privacy parameter, positive.
        groups: a public group for each record, shape (n,), `Public(array, why="…")` or a `Release`.
    """

    groups: InitVar[Any]
    partition: Groups = field(init=False)
    why: str = field(init=False, compare=False)
    sources: tuple[Certificate, ...] = field(init=False, compare=False, repr=False)
    trust: ClassVar[Trust] = Trust.CENTRAL
    domain_wanted: ClassVar[str] = "Classes, such as Classes(10)"

    def __post_init__(self, groups: Any) -> None:
        super().__post_init__()
        if not self.takes(self.domain):
            raise InputError(f"domain must be {self.domain_wanted}")
        object.__setattr__(self, "partition", Groups.of(groups))
        object.__setattr__(self, "why", getattr(groups, "why", ""))
        object.__setattr__(self, "sources", basis_of(groups))

    @classmethod
    def takes(cls, domain: Domain) -> bool:
        """Whether it is a mechanism on such labels."""
        return isinstance(domain, Classes)

    @property
    def basis(self) -> tuple[Certificate, ...]:
        """The certificate of the groups, where they were released."""
        return self.sources

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That the groups were public, in the caller's words."""
        return (f"the groups do not depend on the private labels ({self.why})",) if self.why else ()

    def arrays(self) -> NDArray[np.int64]:
        """The group of each record, shape (n,)."""
        return self.partition.of_record

    def restored(self, arrays: NDArray[Any]) -> "CountMechanism":
        """The same mechanism with groups that were stored."""
        why = "the groups were fixed by an earlier release, whose certificate says what they rest on"
        again = type(self)(domain=self.domain, epsilon=self.epsilon, groups=Public(np.array(arrays), why=why))
        object.__setattr__(again, "sources", self.sources)
        return again

    @property
    def records(self) -> int:
        """One for each entry of `groups`."""
        return len(self.partition.of_record)

    def parameters(self) -> dict[str, Any]:
        """The exact epsilon and a digest of the groups."""
        return {**super().parameters(), "groups": self.partition.digest}

    def counts(self, labels: Any) -> Counts:
        """Class counts of each group, shape (groups, K). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        size = self.domain.size
        flat = np.bincount(self.partition.of_record * size + codes, minlength=self.partition.count * size)
        return flat.reshape(-1, size)

    def randomize(self, labels: Any, *, rng: Any, ids: Any = None) -> NDArray[Any]:
        """The released result for each group; record ids are not used. See `Mechanism.randomize`."""
        counts = self.counts(labels)
        bound = self.bound(rng)
        return self.release_counts(counts, rng=bound)

    @abstractmethod
    def law(self, counts: Any) -> NDArray[np.float64]:
        """The probability of each outcome for the counts (K,) of one group, in doubles: for tests and planning."""

    @abstractmethod
    def outcome(self, released: NDArray[Any], counts: Any) -> NDArray[np.intp]:
        """The outcome, an index into `law(counts)`, of each released result for groups that all have these counts."""

    @abstractmethod
    def release_counts(self, counts: Counts, *, rng: Any) -> NDArray[Any]:
        """The released result for counts (groups, K) that are given: the bare map, for whoever has counts."""
