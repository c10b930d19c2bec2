"""Features as a fitted transformer sees them, and what they were computed from."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from labeldp.learners.features import rows_of
from labeldp.privacy import InputError, Public, Release, gather

Floats = NDArray[np.floating[Any]]

WHY = "rows computed from public features alone, by a rule that was fixed without the labels"


@dataclass(frozen=True)
class Mapped:
    """Features as their fitted transformer sees them, shape (n, p), and the release that they came from, if any."""

    transformer: Any
    table: Floats = field(repr=False)
    source: Release[Any] | None = None

    def take(self, rows: Any) -> "Mapped":
        return Mapped(self.transformer, self.table[rows], self.source)

    def refined(self, transformer: Release[Any], features: Any) -> "Mapped":
        """The features as another fitted transformer sees them, which was released.

        Raises:
            InputError: it is no release of a transformer, or what it makes of them is not a finite matrix.
        """
        if not isinstance(transformer, Release) or not hasattr(transformer.value, "transform"):
            raise InputError("refine must return a Release of a fitted transformer, as model.map(…) makes one")
        source = transformer if self.source is None else gather([self.source, transformer], lambda _, other: other)
        return Mapped(transformer.value, _table(transformer.value, features, "refine"), source)

    def wrapped(self, rows: Floats) -> Public[Floats] | Release[Floats]:
        """Rows that were computed from the table, as public or as released as it is."""
        return Public(rows, why=WHY) if self.source is None else self.source.map(lambda _: rows)


def mapped_by(representation: Any, features: Any, source: Release[Any] | None) -> Mapped:
    """Fit a transformer on features alone.

    Raises:
        InputError: it cannot take them, or what it makes of them is not a finite matrix.
    """
    if not hasattr(representation, "fit") or not hasattr(representation, "transform"):
        raise InputError("representation must be a scikit-learn transformer, such as TableMap()")
    with _taking(representation):
        transformer = clone(representation).fit(features)
    return Mapped(transformer, _table(transformer, features, "representation"), source)


def _table(transformer: Any, features: Any, argument: str) -> Floats:
    """What a fitted transformer makes of features, shape (n, p).

    Raises:
        InputError: it cannot take them, or this is not a finite matrix.
    """
    with _taking(transformer), np.errstate(over="ignore"):
        found = transformer.transform(features)
        table = np.asarray(found.toarray() if hasattr(found, "toarray") else found)
        single = table.astype(np.float32, copy=False) if table.dtype.kind in "buif" else np.array(np.nan)
    if single.ndim != 2 or len(single) != rows_of(features) or not np.all(np.isfinite(single)):
        raise InputError(f"{argument} must make a finite matrix of numbers, one row for each record")
    return single


@contextmanager
def _taking(transformer: Any) -> Iterator[None]:
    """Say whose error it is that features cannot be taken."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{type(transformer).__name__} cannot take these features: {error}") from error
