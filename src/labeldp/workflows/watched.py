"""Curators that look on while another one releases."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from labeldp.mechanisms import Domain, Mechanism
from labeldp.privacy import Charge, CuratorLike, LedgerError, PrivacyLoss, Public, Release
from labeldp.workflows.curator import Curator
from labeldp.workflows.summary import Stage


class Onlooker(ABC):
    """Passes everything on to a curator.

    Args:
        curator: does the work.
    """

    def __init__(self, curator: Curator) -> None:
        self._curator = curator

    @property
    def records(self) -> int:
        """How many records there are: public."""
        return self._curator.records

    @property
    def domain(self) -> Domain:
        """The declared domain."""
        return self._curator.domain

    @property
    def ledger(self) -> Any:
        """The ledger that every release is charged to."""
        return self._curator.ledger

    def require(self, steps: Mapping[str, PrivacyLoss]) -> None:
        """See `Curator.require`."""
        self._curator.require(steps)

    @abstractmethod
    def release(self, mechanism: Mechanism, *, rng: Any, step: str | None = None) -> Release[Any]:
        """See `Curator.release`."""

    @abstractmethod
    def split(self, parts: Public[Any]) -> Sequence[CuratorLike]:
        """See `Curator.split`."""

    def __repr__(self) -> str:
        return repr(self._curator)


@final
class WatchedCurator(Onlooker):
    """Passes everything on to a curator, and calls `told` with the public side of each release.

    Args:
        curator: does the work.
        told: called after each release; it never sees a label.
        charged: what this very run was charged before, by step.
    """

    def __init__(self, curator: Curator, told: Callable[[Stage], None], charged: Mapping[str, Charge]) -> None:
        super().__init__(curator)
        self._told = told
        self._charged = charged

    def release(self, mechanism: Mechanism, *, rng: Any, step: str | None = None) -> Release[Any]:
        """See `Curator.release`; refused where a step would be charged a second time.

        Raises:
            LedgerError: the step was charged with other rows of features, which the ledger cannot find again.
        """
        known = self._charged.get(step or "")
        if known and mechanism.arrays() is None and known.mechanism != mechanism.specification():
            raise LedgerError(
                f"the step {step!r} of this fit was charged before, and what it released cannot be found again: its "
                "rows of features now have other bits (another machine, another version of labeldp or of a library); "
                "run it as it ran then, or give --revision NAME to be charged in addition"
            )
        release = self._curator.release(mechanism, rng=rng, step=step)
        sizes = getattr(release.mechanism, "sizes", None)
        mean = None if sizes is None else float(sizes.mean())
        self._told(Stage(step or "release", self.records, str(release.mechanism), mean))
        return release

    def split(self, parts: Public[Any]) -> list["WatchedCurator"]:
        """See `Curator.split`."""
        return [WatchedCurator(part, self._told, self._charged) for part in self._curator.split(parts)]
