"""Wrappers of a curator that observe what it releases."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.curator.curator import Curator
from labeldp.mechanisms import Domain, Mechanism
from labeldp.privacy import Charge, CuratorLike, LedgerError, PrivacyLoss, Public, RandomSource, Release


class CuratorProxy(ABC):
    """Base of the wrappers of a curator.

    Args:
        curator: the wrapped curator.
    """

    def __init__(self, curator: Curator) -> None:
        self._curator = curator

    @property
    def records(self) -> int:
        """Number of records, which is public."""
        return self._curator.records

    @property
    def domain(self) -> Domain:
        """The declared domain."""
        return self._curator.domain

    @property
    def persons(self) -> Public[NDArray[np.int64]] | None:
        """See `Curator.persons`."""
        return self._curator.persons

    @property
    def ledger(self) -> Any:
        """The ledger that is charged."""
        return self._curator.ledger

    def cost(self, mechanism: Mechanism) -> PrivacyLoss:
        """See `Curator.cost`."""
        return self._curator.cost(mechanism)

    def require(self, steps: Mapping[str, PrivacyLoss]) -> None:
        """See `Curator.require`."""
        self._curator.require(steps)

    def has_released(self, mechanism: Mechanism, *, step: str) -> bool:
        """See `Curator.has_released`."""
        return self._curator.has_released(mechanism, step=step)

    @abstractmethod
    def release(self, mechanism: Mechanism, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """See `Curator.release`."""

    @abstractmethod
    def split(self, parts: Public[Any]) -> Sequence[CuratorLike]:
        """See `Curator.split`."""

    @abstractmethod
    def limited(self, most: int) -> tuple[CuratorLike, NDArray[np.intp]]:
        """See `Curator.limited`."""

    def __repr__(self) -> str:
        return repr(self._curator)


@final
class WatchedCurator(CuratorProxy):
    """Wraps a curator, and calls `callback` with step, number of records and mechanism of each release.

    Args:
        curator: the wrapped curator.
        callback: called after each release; it never sees a label.
        charged: the earlier charges of the same run, by step.
    """

    def __init__(
        self, curator: Curator, callback: Callable[[str, int, Mechanism], None], charged: Mapping[str, Charge]
    ) -> None:
        super().__init__(curator)
        self._callback = callback
        self._charged = charged

    def release(self, mechanism: Mechanism, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """Release as `Curator.release` does, but never charge a step twice.

        Raises:
            LedgerError: the step was charged with other rows of features, so the ledger cannot find it again.
        """
        known = self._charged.get(step or "")
        if known and mechanism.arrays() is None and known.mechanism != mechanism.specification():
            raise LedgerError(
                f"the step {step!r} of this fit was charged before, and what it released cannot be found again: its "
                "rows of features now have other bits (another machine, another version of labeldp or of a library); "
                "run it as it ran then, or give --revision NAME to be charged in addition"
            )
        release = self._curator.release(mechanism, rng=rng, step=step)
        self._callback(step or "release", self.records, release.mechanism)
        return release

    def split(self, parts: Public[Any]) -> list["WatchedCurator"]:
        """See `Curator.split`."""
        return [WatchedCurator(part, self._callback, self._charged) for part in self._curator.split(parts)]

    def limited(self, most: int) -> tuple["WatchedCurator", NDArray[np.intp]]:
        """See `Curator.limited`."""
        part, rows = self._curator.limited(most)
        return WatchedCurator(part, self._callback, self._charged), rows


@dataclass(frozen=True)
class Seen:
    """What a simulation saw of one release.

    Args:
        step: name of the step.
        records: number of labels.
        mechanism: the mechanism in words.
        candidates: mean size of the candidate sets, None without them.
        covered: share of the records whose true class is among their candidates.
    """

    step: str
    records: int
    mechanism: str
    candidates: float | None = None
    covered: float | None = None


@final
class ObservedCurator(CuratorProxy):
    """Wraps a curator, and notes what it releases; for simulations, which know the labels.

    Args:
        curator: the wrapped curator.
        codes: its labels, shape (n,).
        seen: a list to which each release is appended.
    """

    def __init__(self, curator: Curator, codes: NDArray[Any], seen: list[Seen]) -> None:
        super().__init__(curator)
        self._codes = codes
        self._seen = seen

    def release(self, mechanism: Mechanism, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """See `Curator.release`."""
        release = self._curator.release(mechanism, rng=rng, step=step)
        sets = getattr(release.mechanism, "candidates", None)
        if sets is None:
            found: tuple[float, ...] = ()
        else:
            inside = sets.membership()[np.arange(len(sets)), self._codes]
            found = (float(sets.sizes.mean()), float(inside.mean()))
        self._seen.append(Seen(step or "release", self.records, str(release.mechanism), *found))
        return release

    def split(self, parts: Public[Any]) -> list["ObservedCurator"]:
        """See `Curator.split`."""
        places = enumerate(self._curator.split(parts))
        return [ObservedCurator(part, self._codes[parts.value == number], self._seen) for number, part in places]

    def limited(self, most: int) -> tuple["ObservedCurator", NDArray[np.intp]]:
        """See `Curator.limited`."""
        part, rows = self._curator.limited(most)
        return ObservedCurator(part, self._codes[rows], self._seen), rows


@dataclass(frozen=True)
class Recorded:
    """A release as an audit sees it.

    Args:
        step: name of the step, or "release".
        release: the value with its certificate and its mechanism.
        rows: which records it is about, shape (n,).
    """

    step: str
    release: Release[Any]
    rows: NDArray[np.intp] = field(repr=False)


@final
class RecordingCurator(CuratorProxy):
    """Wraps a curator, and calls `callback` with each release and the rows that it is about; for audits.

    Args:
        curator: the wrapped curator.
        callback: called after each release.
        rows: which records it holds, shape (n,); by default all.
    """

    def __init__(
        self, curator: Curator, callback: Callable[[Recorded], None], rows: NDArray[np.intp] | None = None
    ) -> None:
        super().__init__(curator)
        self._callback = callback
        self._rows = np.arange(curator.records) if rows is None else rows

    def release(self, mechanism: Mechanism, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """See `Curator.release`."""
        release = self._curator.release(mechanism, rng=rng, step=step)
        self._callback(Recorded(step or "release", release, self._rows))
        return release

    def split(self, parts: Public[Any]) -> list["RecordingCurator"]:
        """See `Curator.split`."""
        places = enumerate(self._curator.split(parts))
        return [RecordingCurator(part, self._callback, self._rows[parts.value == number]) for number, part in places]

    def limited(self, most: int) -> tuple["RecordingCurator", NDArray[np.intp]]:
        """See `Curator.limited`."""
        part, rows = self._curator.limited(most)
        return RecordingCurator(part, self._callback, self._rows[rows]), rows
