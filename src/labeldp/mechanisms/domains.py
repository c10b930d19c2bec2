"""The public sets that labels come from: declared, never discovered."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import DomainError, InputError, decimal

Codes = NDArray[np.unsignedinteger[Any]]
"""Encoded labels, shape (n,), dtype uint8, uint16 or uint32: 0 to size - 1."""

MAX_SIZE = 1 << 24
_OUTSIDE = "labels must lie in the declared domain; at least one is missing or outside of {domain}"


class Domain(ABC):
    """A finite public set of labels, each with a code."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many labels there are."""

    @abstractmethod
    def encode(self, labels: Any) -> Codes:
        """Codes of labels, shape (n,).

        Raises:
            DomainError: a label is missing or outside; the message does not say which, where or how many.
        """

    @abstractmethod
    def decode(self, codes: Any) -> NDArray[Any]:
        """Labels of codes, shape (n,): the inverse of `encode`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """A public description, plain JSON values, order included."""

    def contains(self, labels: Any) -> bool:
        """True when every label lies in the domain. The answer is as private as the labels."""
        try:
            self.encode(labels)
        except DomainError:
            return False
        return True

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds the codes."""
        return np.min_scalar_type(self.size - 1)

    def check_codes(self, codes: Any) -> Codes:
        """Codes as an array of `dtype`, one-dimensional and inside the domain.

        Raises:
            DomainError: a code is outside.
            InputError: not a one-dimensional array of integers.
        """
        array = np.asarray(codes)
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise InputError(f"labels must be a one-dimensional array of integer codes 0 to {self.size - 1}")
        if array.size and (array.max() >= self.size or (array.dtype.kind == "i" and array.min() < 0)):
            raise DomainError(_OUTSIDE.format(domain=self))
        return array.astype(self.dtype, copy=False)


@final
@dataclass(frozen=True, init=False)
class Classes(Domain):
    """K classes: `Classes(10)` for codes 0 to 9, `Classes(("no", "yes"))` for names.

    Args:
        classes: the number of classes, at least 2, or their distinct names in order.

    Examples:
        >>> Classes(("no", "yes")).encode(["yes", "no"])
        array([1, 0], dtype=uint8)
    """

    names: tuple[str | int, ...]

    def __init__(self, classes: int | Sequence[str | int]) -> None:
        object.__setattr__(self, "names", _names(classes))

    @property
    def size(self) -> int:
        """K."""
        return len(self.names)

    def encode(self, labels: Any) -> Codes:
        """Codes of class names, shape (n,); see `Domain.encode`."""
        mixed = len({type(name) for name in self.names}) > 1
        array = _without_mask(labels, self, object if mixed else None)
        if array.ndim != 1:
            raise InputError("labels must be one-dimensional")
        if self.names == tuple(range(self.size)):
            return self._encode_codes(array)
        if array.dtype.kind in "US" and all(isinstance(name, str) for name in self.names):
            return self._encode_texts(array)
        codes = self._looked_up(array.tolist())
        if None in codes:
            raise DomainError(_OUTSIDE.format(domain=self))
        return np.array(codes, dtype=self.dtype)

    def _looked_up(self, labels: list[Any]) -> list[int | None]:
        """The code of each label, None where there is none: an exception on the way would hold a label."""
        table: dict[Any, int] = {name: code for code, name in enumerate(self.names)}
        try:
            return [table.get(label) for label in labels]
        except TypeError:
            return [None]

    def _encode_codes(self, array: NDArray[Any]) -> Codes:
        if array.dtype.kind == "f" and np.all(array == np.floor(array)) and np.all(np.abs(array) < 2**31):
            array = array.astype(np.int64)
        if array.dtype.kind not in "iub" and array.size:
            raise DomainError(_OUTSIDE.format(domain=self))
        return self.check_codes(array.astype(np.uint8) if array.dtype.kind == "b" else array)

    def _encode_texts(self, array: NDArray[Any]) -> Codes:
        names = np.array(self.names)
        order = np.argsort(names)
        texts = _as_texts(array)
        if texts is None:
            raise DomainError(_OUTSIDE.format(domain=self))
        places = np.minimum(np.searchsorted(names[order], texts), self.size - 1)
        codes = order[places]
        if not np.array_equal(names[codes], texts):
            raise DomainError(_OUTSIDE.format(domain=self))
        return codes.astype(self.dtype)

    def decode(self, codes: Any) -> NDArray[Any]:
        """Class names of codes, shape (n,)."""
        kinds = {type(name) for name in self.names}
        names = np.array(self.names, dtype=None if len(kinds) == 1 else object)
        return names[self.check_codes(codes)]

    def to_json(self) -> dict[str, Any]:
        """The names in order."""
        return {"classes": list(self.names)}

    def __repr__(self) -> str:
        if self.names == tuple(range(self.size)):
            return f"Classes({self.size})"
        return f"Classes({self.names!r})"


def _without_mask(labels: Any, domain: Domain, dtype: Any = None) -> NDArray[Any]:
    """Labels as an array; a masked label is a missing one, whatever stands below the mask.

    Raises:
        DomainError: a label is masked, or labels of different kinds do not make an array.
    """
    array = None if np.ma.is_masked(labels) else _as_array(labels, dtype)
    if array is None:
        raise DomainError(_OUTSIDE.format(domain=domain))
    return array


def _as_array(labels: Any, dtype: Any) -> NDArray[Any] | None:
    """An array, or None where labels do not make one: the exception would hold a label."""
    try:
        return np.asarray(labels, dtype=dtype)
    except (TypeError, ValueError):
        return None


def _as_texts(array: NDArray[Any]) -> NDArray[np.str_] | None:
    """Texts, or None where bytes are not ASCII: the exception would hold the label."""
    try:
        return array.astype(np.str_)
    except UnicodeDecodeError:
        return None


def _as_numbers(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """Numbers, or None where a label is none: the exception would hold the label."""
    try:
        return array.astype(np.float64) if array.dtype.kind != "c" else None
    except (TypeError, ValueError):
        return None


def _names(classes: Any) -> tuple[str | int, ...]:
    """Class names in order, checked."""
    if isinstance(classes, bool | str | bytes):
        raise InputError('classes must be a number of classes or a sequence of names, such as ("no", "yes")')
    if isinstance(classes, int | np.integer):
        classes = range(int(classes))
    if not isinstance(classes, Iterable):
        raise InputError('classes must be a number of classes or a sequence of names, such as ("no", "yes")')
    if isinstance(classes, Sized) and len(classes) > MAX_SIZE:
        raise InputError(f"classes must hold at most {MAX_SIZE} classes")
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
    if len(names) < 2:
        raise InputError("classes must hold at least two classes: with one there is nothing to learn or to protect")
    if not all(isinstance(name, str | int) for name in names) or len(set(names)) < len(names):
        raise InputError("classes must be distinct texts or integers")
    return names


@final
@dataclass(frozen=True)
class Interval(Domain):
    """Numbers from `low` to `high`, rounded to a grid of equally spaced points.

    Args:
        low, high: the declared range, low < high; as decimals.
        grid: the number of grid points, at least 2.
        clip: whether a number outside counts as the nearest end; otherwise it is refused. For labels of heavy tails,
            whose range nobody can declare.

    Examples:
        >>> Interval(0, 10, grid=11).encode([2.4, 10])
        array([ 2, 10], dtype=uint8)
        >>> Interval(0, 10, grid=11, clip=True).encode([2.4, 10, 1e6])
        array([ 2, 10, 10], dtype=uint8)
    """

    low: float
    high: float
    grid: int = 1025
    clip: bool = False

    def __post_init__(self) -> None:
        low, high = decimal(self.low, "low"), decimal(self.high, "high")
        if not low < high:
            raise InputError("low must be below high")
        for name, value in (("low", low), ("high", high)):
            if type(getattr(self, name)) not in (int, float):
                object.__setattr__(self, name, float(value))
        if isinstance(self.grid, bool) or not isinstance(self.grid, int) or not 2 <= self.grid <= MAX_SIZE:
            raise InputError(f"grid must be an integer number of points from 2 to {MAX_SIZE}")
        if not isinstance(self.clip, bool):
            raise InputError("clip must be True or False")

    @property
    def size(self) -> int:
        """The number of grid points."""
        return self.grid

    @property
    def step(self) -> float:
        """The distance of two grid points, in the unit of the labels."""
        return float((decimal(self.high, "high") - decimal(self.low, "low")) / (self.grid - 1))

    def encode(self, labels: Any) -> Codes:
        """Codes of the nearest grid points, shape (n,); see `Domain.encode`."""
        values = _as_numbers(_without_mask(labels, self))
        if values is None:
            raise DomainError(_OUTSIDE.format(domain=self))
        if values.ndim != 1:
            raise InputError("labels must be one-dimensional")
        values = np.clip(values, self.low, self.high) if self.clip else values
        if not np.all((values >= self.low) & (values <= self.high)):
            raise DomainError(_OUTSIDE.format(domain=self))
        codes = np.rint((values - self.low) / self.step)
        return np.clip(codes, 0, self.grid - 1).astype(self.dtype)

    def decode(self, codes: Any) -> NDArray[np.float64]:
        """Grid points of codes, shape (n,), in the unit of the labels."""
        return np.asarray(self.low + self.check_codes(codes) * self.step, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """Range and number of points, exact, and whether numbers outside are clipped."""
        low, high = (Fraction(decimal(value, "range")) for value in (self.low, self.high))
        clipped = {"clip": True} if self.clip else {}
        return {"low": str(low), "high": str(high), "grid": self.grid, **clipped}
