"""The base class of learners on experts, their regret when played, and their losses as integer levels."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from labeldp.online.experts.accounting import Blocks, MeanRegret, Regret
from labeldp.privacy import (
    DomainError,
    InputError,
    Integers,
    PrivacyLoss,
    Randomness,
    Trust,
    Unit,
    check_integer,
    check_loss_neighbors,
    private_array,
    set_fields,
    without_traceback,
)

Losses = Any
"""Levels 0 … `levels` of every expert in one or more rounds, shape (rounds, experts): a dense array of unsigned
integers, or a scipy.sparse CSR array of them where most are zero."""
Actions = NDArray[np.int64]
"""The experts that were played, shape (rounds,)."""
S = TypeVar("S")


class Kernel(ABC, Generic[S]):
    """A learner that picks one of several experts in every round, before it sees the losses of that round.

    A kernel is a frozen, public description. Its state is a frozen dataclass of integers, arrays and other states, as
    secret as the losses: its repr shows sizes only. What is released is the sequence of actions. A state holds no
    randomness that future actions rely on: `docs/proofs/keys.md` depends on this.

    Attributes:
        experts: d, at least 2.
        levels: 255 or 65535, the level of a loss of 1.
        neighbors: `Unit.ONE_LOSS` or `Unit.ZERO_OUT`.

    Guarantee (causal): an action depends on losses of earlier rounds alone, and its law does not depend on how the
        rounds are divided among calls of `update`.
    """

    experts: int
    levels: int
    neighbors: Unit
    trust = Trust.CENTRAL

    @abstractmethod
    def init(self, *, rng: Randomness) -> S:
        """Return the state before the first round."""

    @abstractmethod
    def predict(self, state: S) -> int:
        """Return the expert of the coming round; draws nothing."""

    @abstractmethod
    def update(self, state: S, losses: Losses, *, rng: Randomness) -> tuple[S, Actions]:
        """Return the state after more rounds and the actions in them, the first of which is `predict(state)`.

        Args:
            losses: checked levels, shape (rounds, experts).
        """

    @abstractmethod
    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return what all actions up to the one after `rounds` rounds of losses reveal of one round's losses."""

    @property
    def published(self) -> str:
        """The released values, in one phrase."""
        return "the action of each round"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions of the guarantee, in words."""
        return ()

    @property
    def words(self) -> str:
        """The parameters of the learner, in words."""
        return repr(self)

    def mean_regret(self) -> MeanRegret | None:
        """Return a function for the mean regret on losses fixed in advance; None if the learner must be played."""
        return None

    def _check_common_fields(self) -> None:
        """Check and store `experts`, `levels` and `neighbors`."""
        experts, neighbors = check_integer(self.experts, "experts", 2), check_loss_neighbors(self.neighbors)
        set_fields(self, experts=experts, levels=check_top_level(self.levels), neighbors=neighbors)


def measured_regret(kernel: Kernel[Any], blocks: Blocks, *, rng: Randomness) -> Regret:
    """Play all rounds once and compare with the best expert in hindsight. NOT private: for synthetic or public losses.

    Raises:
        InputError: there are no rounds.
    """
    state, actions = kernel.init(rng=rng), list[Actions]()
    totals, loss = np.zeros(kernel.experts), 0
    for block in blocks:
        state, played = kernel.update(state, block, rng=rng)
        actions.append(played)
        totals += block.sum(axis=0, dtype=np.int64)
        loss += int(block[np.arange(len(block)), played].sum(dtype=np.int64))
    if not actions:
        raise InputError("there are no rounds to measure")
    every = np.concatenate(actions)
    switches = int(np.count_nonzero(np.diff(every)))
    return Regret(len(every), loss / kernel.levels, float(totals.min()) / kernel.levels, switches)


TYPE_OF_LEVELS: dict[int, np.dtype[Any]] = {255: np.dtype(np.uint8), 65535: np.dtype(np.uint16)}
"""The possible levels of a loss of 1, and the integers that hold exactly the levels up to it."""
BLOCK_LOSSES = 1 << 16
"""How many losses are rounded at a time: they stay in cache."""
BLOCK_ROUNDS = 257
"""The number of rounds whose levels can be summed without overflow in integers twice as wide."""
PRODUCT_EXPERTS = 256
"""Up to so many experts, levels are summed by a product with ones: whole numbers, exact in doubles of either size."""
_WIDER = {np.dtype(np.uint8): np.uint16, np.dtype(np.uint16): np.uint32}
_ONES: dict[np.dtype[Any], NDArray[Any]] = {
    np.dtype(np.uint8): np.ones(1 << 12, np.float32),
    np.dtype(np.uint16): np.ones(1 << 12, np.float64),
}
"""For each type of levels: sums of as many levels are below 2**24, or 2**53."""
_FLOATS = "losses must be numbers in [0, 1], none of them missing"
_INTEGERS = "losses must be numbers in [0, 1]; these are integers: levels that are rounded already go to update_levels"
_KINDS = {"f": "floats", "b": "truth values", "c": "complex numbers", "U": "text", "S": "text", "T": "text"}


def quantize(losses: Any, bits: int = 8, *, experts: int | None = None) -> Losses:
    """Round losses in [0, 1] to the nearest of 2**bits levels.

    Rounding moves a loss by at most half a level, so it moves the regret by at most T levels in T rounds.

    Args:
        losses: numbers in [0, 1] of any type, including integers and truth values, shape (experts,) for one round or
            (rounds, experts); any scipy.sparse array of that shape where most are zero.
        bits: 8 or 16.
        experts: the expected number of experts; any by default.

    Returns:
        Unsigned integers, shape (rounds, experts); in canonical CSR format where losses were sparse.

    Guarantee (nearest, silent): a loss becomes its nearest level; an error shows neither a loss nor its position.

    Raises:
        InputError: losses are no numbers, have another shape, are missing or lie outside [0, 1]. Give integers that
            are levels already to `check_levels`.

    Examples:
        >>> quantize([0.0, 0.25, 1.0])
        array([[  0,  64, 255]], dtype=uint8)
    """
    dtype = _dtype(bits)
    values, sparse = _matrix("losses", losses, experts)
    kind = values.dtype.kind
    if kind not in "fbiu":
        raise DomainError(f"losses must be numbers in [0, 1]; these are {_KINDS.get(kind, 'objects of another kind')}")
    levels = np.empty(values.shape, dtype=dtype)
    step = max(1, BLOCK_LOSSES // max(1, values[:1].size))
    for start in range(0, len(values), step):
        with np.errstate(all="ignore"):  # a warning would tell of a loss
            part = values[start : start + step].astype(np.float64)
        if not (part.min() >= 0 and part.max() <= 1):
            raise DomainError(_INTEGERS if kind in "iu" else _FLOATS)
        levels[start : start + step] = np.rint(part * np.iinfo(dtype).max)
    return _like(sparse, levels)


def check_levels(levels: Any, bits: int = 8, *, experts: int | None = None) -> Losses:
    """Return integers that are levels already, one row for each round; without a copy where their type fits.

    A level of 1 is a loss of 1 / (2**bits - 1): give losses that are 0 or 1 to `quantize`.

    Args:
        levels: integers from 0 to 2**bits - 1 of any integer type, shaped as for `quantize`.
        bits: 8 or 16.
        experts: the expected number of experts; any by default.

    Returns:
        As `quantize`.

    Raises:
        InputError: levels are no integers, have another shape or are out of range. Give losses in [0, 1] to `quantize`.

    Examples:
        >>> check_levels([[0, 255], [255, 0]])
        array([[  0, 255],
               [255,   0]], dtype=uint8)
    """
    dtype = _dtype(bits)
    top = np.iinfo(dtype).max
    values, sparse = _matrix("levels", levels, experts)
    kind = values.dtype.kind
    if kind not in "iu":
        kind_words = _KINDS.get(kind, "objects of another kind")
        raise DomainError(f"levels must be integers from 0 to {top}; these are {kind_words}, and losses go to update")
    if values.size and values.dtype != dtype and not 0 <= values.min() <= values.max() <= top:
        raise DomainError(f"levels must be integers from 0 to {top}")
    return _like(sparse, values.astype(dtype, copy=False))


def paired(losses: Any, experts: int) -> Any:
    """Return losses unchanged, but a tuple (indices, values) as a sparse array of one round.

    Raises:
        InputError: the tuple holds something else. The message shows neither losses nor experts.
    """
    if not isinstance(losses, tuple):
        return losses
    if len(losses) != 2:
        raise InputError("losses must be an array or a list, or a tuple (indices, values) for one round")
    wrong = InputError(
        "losses that are a tuple must be (indices, values) of one round: numbers of one shape (n,), with integers for "
        "indices. Without indices give an array or a list"
    )
    indices, values = map(private_array, losses)
    if indices is None or values is None:
        raise wrong
    if indices.shape == values.shape == (0,):  # nobody loses; an empty list is one of floats
        indices, values = indices.astype(np.intp), values.astype(np.uint8)
    kinds = indices.dtype.kind in "iu" and values.dtype.kind in "fiub"
    if not kinds or indices.ndim != 1 or indices.shape != values.shape:
        raise wrong
    if indices.size and not (indices.min() >= 0 and indices.max() < experts and len(np.unique(indices)) == len(values)):
        raise InputError(f"indices must be different numbers of experts from 0 to {experts - 1}")
    places = np.zeros(len(indices), np.intp), indices.astype(np.intp)
    return csr_array((values, places), shape=(1, experts))


def _dtype(bits: int) -> np.dtype[Any]:
    if bits not in (8, 16):
        raise InputError("bits must be 8 or 16")
    return np.dtype(f"uint{bits}")


def _matrix(name: str, losses: Any, experts: int | None) -> tuple[NDArray[Any], Any]:
    """Return losses as a matrix and None; or the entries of a sparse array, and the array in canonical CSR format."""
    if np.ma.isMaskedArray(losses):
        raise InputError(f"{name} must not be a masked array: none of them may be missing")
    sparse = without_traceback(lambda: _canonical(losses)) if hasattr(losses, "tocsr") else None
    rows = private_array(losses) if sparse is None else sparse
    if rows is None:
        raise DomainError(f"{name} must be an array of numbers, as many in every round")
    shape = rows.shape
    if isinstance(rows, np.ndarray) and rows.ndim == 1:
        rows = rows[np.newaxis]
    if rows.ndim == 2 and experts and rows.shape[1] != experts:
        columns = "1 column" if rows.shape[1] == 1 else f"{rows.shape[1]:,} columns"
        raise InputError(f"{name} have {columns}, but there are {experts:,} experts")
    if rows.ndim != 2 or 0 in rows.shape:
        width = experts or "experts"
        raise InputError(
            f"{name} have shape {shape}: it must be ({width},) for one round or (rounds, {width}), one round or more; "
            f"(rounds, {width}) where they are sparse"
        )
    if isinstance(rows, np.ndarray):
        return rows, None
    # scipy does not check that the entries lie inside the columns.
    if rows.nnz and not 0 <= rows.indices.min() <= rows.indices.max() < rows.shape[1]:
        raise InputError(f"{name} must not be a sparse array with entries outside of its columns")
    return rows.data, rows


def _canonical(losses: Any) -> Any:
    """Return a sparse array in CSR format with every entry once; a copy if it is not one."""
    if losses.format == "csr" and losses.has_canonical_format:
        return losses
    # Repeated entries are summed, which must not overflow.
    rows = losses.astype(np.int64 if losses.dtype.kind in "iu" else losses.dtype).tocsr()
    rows.sum_duplicates()
    return rows


def _like(sparse: Any, levels: NDArray[Any]) -> Losses:
    """Return the levels, placed as the entries of a sparse array if there is one."""
    return levels if sparse is None else type(sparse)((levels, sparse.indices, sparse.indptr), shape=sparse.shape)


def check_top_level(levels: Any) -> int:
    """Return the level of a loss of 1, which must be 255 or 65535.

    Raises:
        InputError: it is another value.
    """
    if levels not in TYPE_OF_LEVELS:
        raise InputError("must be 255 or 65535", argument="levels")
    return int(levels)


@final
@dataclass(frozen=True)
class DenseRows:
    """Levels of some rounds as a matrix."""

    values: NDArray[Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> "DenseRows":
        return DenseRows(self.values[part])

    def column(self, expert: int) -> Integers:
        """Return one expert's level in every round."""
        return self.values[:, expert].astype(np.int64)

    def spent(self, start: int, end: int, expert: int) -> int:
        """Return one expert's sum over a few rounds."""
        return sum(self.values[start:end, expert].tolist())

    def sums(self, start: int = 0, end: int | None = None) -> Integers:
        """Return every expert's sum over some rounds, by default all; the levels themselves of a single one."""
        values = self.values[start:end]
        if len(values) == 1:
            return values[0]
        total = np.zeros(values.shape[1], dtype=np.int64)
        if len(total) > PRODUCT_EXPERTS:
            for first in range(0, len(values), BLOCK_ROUNDS):
                total += np.add.reduce(values[first : first + BLOCK_ROUNDS], axis=0, dtype=_WIDER[values.dtype])
            return total
        ones = _ONES[values.dtype]
        for first in range(0, len(values), len(ones)):
            block = values[first : first + len(ones)].astype(ones.dtype)
            total += (ones[: len(block)] @ block).astype(np.int64)
        return total

    def pieces(self, ends: list[int]) -> Integers:
        """Return every expert's sums between each end, at least one round apart, and the next one: few experts."""
        start = ends[0]
        # numpy casts all that it is given.
        return np.add.reduceat(
            self.values[start : ends[-1]], [end - start for end in ends[:-1]], axis=0, dtype=np.int64
        )


@final
@dataclass(frozen=True)
class SparseRows:
    """Levels of some rounds where most are zero: the arrays of a CSR array, of which slices share all but `starts`."""

    starts: NDArray[Any] = field(repr=False)
    experts: NDArray[Any] = field(repr=False)
    values: NDArray[Any] = field(repr=False)
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, part: slice) -> "SparseRows":
        first, last, _ = part.indices(len(self))
        return SparseRows(self.starts[first : max(first, last) + 1], self.experts, self.values, self.width)

    def column(self, expert: int) -> Integers:
        """Return one expert's level in every round."""
        entries = np.flatnonzero(self.experts[self._inside] == expert) + self.starts[0]
        column = np.zeros(len(self), dtype=np.int64)
        column[np.searchsorted(self.starts, entries, side="right") - 1] = self.values[entries]
        return column

    def spent(self, start: int, end: int, expert: int) -> int:
        """Return one expert's sum over a few rounds."""
        return int(self[start:end].column(expert).sum())

    def sums(self, start: int = 0, end: int | None = None) -> Integers:
        """Return every expert's sum over some rounds, by default all."""
        inside = slice(int(self.starts[start]), int(self.starts[len(self) if end is None else end]))
        # Doubles hold these sums exactly: below 2**53, by far.
        total = np.bincount(self.experts[inside], weights=self.values[inside], minlength=self.width)
        return total.astype(np.int64)

    def pieces(self, ends: list[int]) -> Integers:
        """Return every expert's sums between each end and the next one."""
        return np.array([self.sums(start, end) for start, end in pairwise(ends)])

    @property
    def _inside(self) -> slice:
        return slice(int(self.starts[0]), int(self.starts[-1]))


Rows = DenseRows | SparseRows


def rows_of(losses: Any, experts: int, levels: int) -> Rows:
    """Return levels of shape (rounds, experts) as rows, after checking them.

    Raises:
        InputError: losses are no matrix of this width, or no integers of the type that holds exactly these levels.
    """
    dtype = TYPE_OF_LEVELS[levels]
    if getattr(losses, "ndim", 0) != 2 or losses.shape[1] != experts or losses.dtype != dtype:
        raise InputError(
            f"losses must be a matrix of {dtype.name} levels with one row for each round and "
            f"{experts} columns, one for each expert, such as `quantize` makes"
        )
    if not hasattr(losses, "indptr"):
        return DenseRows(np.asarray(losses))
    if losses.format != "csr" or not losses.has_canonical_format:
        raise InputError("sparse losses must be in canonical CSR format, such as `quantize` makes")
    return SparseRows(losses.indptr, losses.indices, losses.data, experts)
