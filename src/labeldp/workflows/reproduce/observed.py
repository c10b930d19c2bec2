"""What a simulation may look at that nobody else could: candidate sets beside the true labels."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import Mechanism
from labeldp.privacy import Public, Release
from labeldp.workflows.curator import Curator
from labeldp.workflows.watched import Onlooker


@dataclass(frozen=True)
class Seen:
    """One release as the simulation saw it.

    Args:
        step: its name.
        records: how many labels it was about.
        mechanism: in words.
        candidates: mean size of the candidate sets, where there are any.
        covered: share of the records whose true class is among their candidates.
    """

    step: str
    records: int
    mechanism: str
    candidates: float | None = None
    covered: float | None = None


@final
class ObservedCurator(Onlooker):
    """Passes everything on to a curator, and notes what was released; for simulations, which know the labels.

    Args:
        curator: does the work.
        codes: the labels that it holds, shape (n,).
        seen: filled.
    """

    def __init__(self, curator: Curator, codes: NDArray[Any], seen: list[Seen]) -> None:
        super().__init__(curator)
        self._codes = codes
        self._seen = seen

    def release(self, mechanism: Mechanism, *, rng: Any, step: str | None = None) -> Release[Any]:
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
