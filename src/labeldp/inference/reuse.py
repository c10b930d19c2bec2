"""Refusal of a public column made of the released answers."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from labeldp.inference.groups import rows_at_once
from labeldp.privacy import InputError, Public

CHANCE = 0.01
"""A public column is taken for the answers if the noise makes it agree with them less often than this."""

FIRST = 256
"""Records that are compared first: nearly all columns differ from the answers there."""

MAX_SPARSE = 1_000
"""The largest number of columns of a sparse table that are compared."""

REUSED = (
    "must not be made of the released answers: an estimate would compare the noise with itself. Give a column that was "
    "fixed without this release"
)
"""Said of a public column that is made of the released answers."""


def refuse_reused(mechanism: Any, answers: Any, *, chance: float = CHANCE, **columns: Any) -> None:
    """Raise InputError if a public column is the released answers, or the same ones under other names.

    A column is refused if it is a function of the answers, or they are one of it: codes, names, truth values, one-hot
    columns, bins, products with another column. Columns that agree with the answers by chance are not refused, as of
    few records or at a large epsilon.

    Args:
        mechanism: what answered each record.
        answers: its output, codes or packed sets, one for each record.
        chance: a column is refused if noise makes a public column agree with the answers less often than this.
        columns: public columns by argument: shape (n,), or a table of n rows, `Public` or plain; None for none. What
            does not fit is left for others to refuse.

    Source: `docs/explanation/precision-of-estimates.md`.
    """
    released = NoisyAnswers(mechanism, np.asarray(answers))
    for argument, column in columns.items():
        value = column.value if isinstance(column, Public) else column
        if value is answers or any(released.tell(part, float(np.log(chance))) for part in parts_of(value)):
            raise InputError(REUSED, argument=argument)


def parts_of(value: Any) -> Iterator[NDArray[Any]]:
    """Yield the columns of a table, or a single one, as arrays of shape (n,)."""
    if value is None or (np.ndim(value) == 0 and not hasattr(value, "shape")):
        return
    if issparse(value):
        if value.shape[1] <= MAX_SPARSE:
            table = value.tocsc()
            yield from (table[:, [number]].toarray().ravel() for number in range(value.shape[1]))
    elif hasattr(value, "columns") and hasattr(value, "shape"):
        for number, column in enumerate(value.columns):
            series = column if hasattr(column, "__array__") else value[column] if not hasattr(value, "iloc") else None
            yield np.asarray(value.iloc[:, number] if series is None else series)
    else:
        table = np.asarray(value)
        yield from table.T if table.ndim == 2 else [table] if table.ndim == 1 else []


class NoisyAnswers:
    """Released answers as codes, and how their noise limits what a public column can tell of them.

    Args:
        mechanism: what answered.
        value: one answer for each record, codes or packed sets.
    """

    def __init__(self, mechanism: Any, value: NDArray[Any]) -> None:
        self._mechanism, self._value = mechanism, value

    def tell(self, column: NDArray[Any], log_chance: float) -> bool:
        """Return whether a public column, shape (n,), is related to the answers, and not by chance."""
        if len(column) != len(self._value):
            return False
        if np.may_share_memory(column, self._value):
            return True
        if self._value.dtype.kind not in "iu":
            return False
        first, codes = places(column[:FIRST]), places(column)
        named = [] if self._value.ndim == 1 else list(self._mechanism.named(self._value[:FIRST]).T)
        classes = [code for code, part in enumerate(named) if related(part.astype(np.intp), first)]
        return any(
            related(part, codes) and self._log_chance(part, codes) < log_chance for part in self._codes(first, classes)
        )

    def _codes(self, first: NDArray[np.intp], classes: list[int]) -> Iterator[NDArray[np.intp]]:
        """Yield what answers say, where the first of them are related to a column: the class, number or set.

        Of sets also whether some classes are named.
        """
        value = self._value
        if value.ndim == 1:
            codes = np.asarray(value, dtype=np.intp)
            if related(codes[:FIRST], first):
                yield codes
            return
        sets = np.unique(value, axis=0, return_inverse=True)[1].reshape(-1)
        if related(np.unique(sets[:FIRST], return_inverse=True)[1], first):
            yield sets
        step = rows_at_once(self._mechanism.domain.size)
        starts = range(0, len(value), step)
        for code in classes:
            yield np.concatenate(
                [self._mechanism.named(value[start : start + step])[:, code] for start in starts]
            ).astype(np.intp)

    def _log_chance(self, answers: NDArray[np.intp], column: NDArray[np.intp]) -> float:
        """Return the log of a bound on the probability that noise relates answers to a column that is public.

        An event of the column then occurs at the same records as an event of the answers. `_log_event` bounds this for
        one event of the answers, and a sum over all that could fit it bounds it for any.
        """
        values, answered = np.unique(answers, return_inverse=True)
        count, records = int(column.max()) + 1, len(answers)
        if len(values) == 1 or count == 1:
            return 0.0
        outputs = max(self._mechanism.domain.size, len(values))
        pairs = np.unique(np.column_stack([answered, column]), axis=0)
        bounds = [0.0]
        if len(pairs) == count:  # the column tells the answers
            ways = np.log(outputs) + (count * np.log(2) if count > len(values) else np.log(count))
            bounds += [self._log_event(answered == code, values[[code]]) + ways for code in range(len(values))]
            if self._mechanism.domain.target == "numbers":  # an answer repeats that of an equal entry
                bounds.append((records - count) * log_likely(float(self._mechanism.epsilon)))
        if len(pairs) == len(values):  # the answers tell the column
            entry, steps = pairs[:, 1], np.diff(pairs[:, 1])
            for code in range(count):
                single = (entry == code).sum() in (1, len(values) - 1)
                ways = np.log(count) + (np.log(2 * outputs) if single else outputs * np.log(2))
                bounds.append(self._log_event(column == code, values[entry == code]) + ways)
            if (steps >= 0).all() or (steps <= 0).all():  # numbers in the same order, or bins of them
                middle = np.median(column)
                for event in (column < middle, column <= middle):
                    bounds.append(self._log_event(event, np.unique(answers[event])) + np.log(2 * outputs))
        return float(min(bounds))

    def _log_event(self, column: NDArray[np.bool_], event: NDArray[np.intp]) -> float:
        """Return the log of the largest probability that exactly the answers of some records are in an event.

        Let an epsilon-private answer be in the event with probability a under one label, and b under another. Then a is
        at most e^epsilon b, and 1 - b at most e^epsilon (1 - a). The product of a over m records and of 1 - b over the
        n - m others is largest where both are equal, or the first alone and b = m / n.
        """
        hits = int(column.sum())
        misses = len(column) - hits
        design = getattr(self._mechanism, "design", None)
        if design is not None:
            chances = design.matrix[..., event].sum(axis=-1)
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log([chances.max(), 1 - chances.min()])
            return float(sum(count * log for count, log in zip((hits, misses), logs.tolist(), strict=True) if count))
        epsilon, few, many = float(self._mechanism.epsilon), min(hits, misses), max(hits, misses)
        if not few:
            return 0.0
        rare = np.exp(min(np.log(few / (few + many)), log_likely(epsilon) - epsilon))
        return float(few * (epsilon + np.log(rare)) + many * np.log1p(-rare))


def log_likely(epsilon: float) -> float:
    """Return the log of e^epsilon / (1 + e^epsilon), the largest probability of one of two answers."""
    return float(-np.log1p(np.exp(-epsilon)))


def places(column: NDArray[Any]) -> NDArray[np.intp]:
    """Return the place of each entry among the distinct ones of a column, in their order, shape (n,)."""
    if column.dtype.kind == "O":
        column = np.array([f"{type(cell).__name__} {cell}" for cell in column.tolist()], dtype=np.str_)
    if column.dtype.kind == "U":
        with suppress(ValueError):
            column = column.astype(np.float64)
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def related(answers: NDArray[np.intp], column: NDArray[np.intp]) -> bool:
    """Return whether a column is a function of answers, or they are one of it and its entries are repeated."""
    count = int(column.max(initial=-1)) + 1
    pairs = len(np.unique(answers * count + column))
    return pairs == len(np.unique(answers)) or (pairs == count and 2 * count <= len(column))
