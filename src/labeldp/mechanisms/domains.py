"""Domains: the public sets that labels come from, and their codes."""

import hashlib
import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import (
    DomainError,
    InputError,
    Integers,
    check_range,
    decimal,
    decimal_text,
    set_fields,
    stored_fraction,
    without_traceback,
)

Codes = NDArray[np.unsignedinteger[Any]]
"""Encoded labels, shape (n,), dtype uint8, uint16 or uint32: 0 to size - 1."""

MAX_SIZE = 1 << 24

MAX_NAME = 1 << 64
"""Class names that are integers are below, in absolute value."""

NUMBER_TYPES = (int, float, np.integer, np.floating, Decimal, Fraction)

LABEL_TYPES = (str, bytes, np.bool_, *NUMBER_TYPES)
"""What a label may be; every other object is outside of any domain."""

_BOOLEANS = {"false": 0, "False": 0, "FALSE": 0, "true": 1, "True": 1, "TRUE": 1}

_INTEGER_TEXT = re.compile(r"-?(0|[1-9][0-9]{0,19})(\.0*)?|-?[1-9](\.[0-9]{1,17})?e\+[0-9]{2}", re.ASCII)

_NUMBER_TEXT = re.compile(rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(?i:inf)")

_MAX_INT64 = 1 << 63

_BOOL_TYPES = (bool, np.bool_)

GAPS = "For missing labels, declare a class. Leave out their records only if it is public which labels are missing"
"""Said wherever labels are refused, whether or not one is missing."""

GRID = 1025
"""Grid points of an interval, where nothing else is said."""

SHOWN_CLASSES = 10
"""The most classes that a sentence names; of more it names the first and the last."""

_OUTSIDE = "labels must lie in the declared domain; at least one is missing or outside of {domain}. " + GAPS


class LabelSource(ABC):
    """Private labels that encode themselves, such as a column of a table."""

    @abstractmethod
    def codes(self, domain: "Domain") -> NDArray[Any]:
        """Return the codes of all labels in a declared domain, shape (n,).

        Raises:
            DomainError: a label is missing or outside of the domain; the message does not depend on which.
        """


@final
@dataclass(frozen=True)
class LabelCodes(LabelSource):
    """Private labels that are codes of their domain already."""

    values: NDArray[Any] = field(repr=False)

    def codes(self, domain: "Domain") -> NDArray[Any]:
        """Return the codes."""
        return self.values


class Domain(ABC):
    """A finite public set of labels, each with a code.

    A label stands in sums as a vector of integers: the indicator of its class, or the code of its grid point.
    """

    target: ClassVar[str] = ""
    """What labels are: "classes", or "numbers"."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many labels there are."""

    @property
    def columns(self) -> int:
        """The entries of a label's vector: K, or 1."""
        return self.size

    @property
    def largest_entry(self) -> int:
        """The largest entry of a label's vector: 1, or grid size - 1."""
        return 1

    @property
    def low_exact(self) -> Fraction:
        """The number of the code 0, in the unit of the labels; classes have 0."""
        return Fraction(0)

    @property
    def step_exact(self) -> Fraction:
        """The distance of two codes, in the unit of the labels; classes have 1."""
        return Fraction(1)

    @property
    def step(self) -> float:
        """The distance of two codes, in the unit of the labels, as a float."""
        return float(self.step_exact)

    @property
    def ends(self) -> tuple[float, float]:
        """The numbers that the lowest and the highest code stand for."""
        return 0.0, float(self.size - 1)

    @property
    def has_sums(self) -> bool:
        """Whether labels add up to one number: numbers do, and two classes, which count as 0 and 1."""
        return self.target == "numbers" or (self.target == "classes" and self.size == 2)

    @property
    def center(self) -> float:
        """The middle of an entry of a label's vector, in the unit of the labels: 1/K, or the middle of the range."""
        return 1 / self.size

    @property
    def variance_guess(self) -> float:
        """A guess of the variance of one entry, in the square of that unit; no label is read."""
        return (1 - 1 / self.size) / self.size

    def unit_sums(self, steps: NDArray[np.int16], codes: NDArray[Any]) -> Integers:
        """Return the sum of x tᵀ over records with public rows x and private label vectors t, shape (d, columns).

        Args:
            steps: rows in steps of a grid, shape (n, d).
            codes: private codes, shape (n,).
        """
        return np.column_stack([steps[codes == k].sum(axis=0, dtype=np.int64) for k in range(self.size)])

    def in_file(self) -> "Domain":
        """Return the domain with its labels as a file holds them: names of classes are texts there."""
        return self

    @property
    def texts(self) -> list[str] | None:
        """The names of classes as texts, by code; None where labels are no classes."""
        return None

    @property
    def form(self) -> str:
        """What identifies the set in a ledger, whatever the grid, the order of classes and the clipping of numbers."""
        return json.dumps(self.to_json(), sort_keys=True)

    @property
    def words(self) -> str:
        """The set in words."""
        return repr(self)

    @property
    def options(self) -> list[str]:
        """The options of a command line that declare the domain.

        Raises:
            InputError: no options declare it.
        """
        raise InputError("is declared by no options of a command line", argument="domain")

    @property
    def option_words(self) -> str:
        """The options as text, with … if they are long or cannot be written."""
        return "--classes … or --range …"

    @abstractmethod
    def encode(self, labels: Any) -> Codes:
        """Return codes of labels, shape (n,).

        Raises:
            DomainError: a label is missing or outside; the message does not say which, where or how many.
        """

    @abstractmethod
    def decode(self, codes: Any) -> NDArray[Any]:
        """Return labels of codes, shape (n,), numbers in their unit: the inverse of `encode`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a public description, plain JSON values, order included."""

    @staticmethod
    def from_json(content: Any) -> "Domain":
        """Return the domain that `to_json` described.

        Raises:
            InputError: no such description, or one of a domain that may not be.
            KeyError, TypeError, ValueError, ArithmeticError: a part of it is missing or of another type.
        """
        for key, kind in DOMAINS.items():
            if isinstance(content, Mapping) and key in content:
                return kind._restore(content)
        raise InputError("the description is of no domain of labeldp")

    def contains(self, labels: Any) -> bool:
        """Return True when every label lies in the domain. The answer is as private as the labels."""
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
        """Return codes as an array of `dtype`, one-dimensional and inside the domain.

        Raises:
            DomainError: a code is outside.
            InputError: not a one-dimensional array of integers.
        """
        array = codes if type(codes) is np.ndarray else without_traceback(lambda: np.asarray(codes))
        if array is None or array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise InputError(f"labels must be a one-dimensional array of integer codes 0 to {self.size - 1}")
        if array.size and (array.max() >= self.size or (array.dtype.kind == "i" and array.min() < 0)):
            raise DomainError(_OUTSIDE.format(domain=self))
        return array.astype(self.dtype, copy=False)


@final
@dataclass(frozen=True, init=False)
class Classes(Domain):
    """K classes: `Classes(10)` for codes 0 to 9, `Classes(("no", "yes"))` for names.

    A label belongs to the class whose name is its text. Otherwise whole numbers and truth values count by their value:
    0, 0.0, "0", "0.0", False, "false" and "False" are one label, unless two of them are names of classes. All other
    texts must equal the name.

    Codes, columns of probabilities and entries of a prior follow `names`, which are sorted: whole numbers and truth
    values by value, then texts.

    Args:
        classes: the number of classes, at least 2, or their distinct names, in any order.

    Examples:
        >>> Classes(("yes", "no")).names
        ('no', 'yes')
        >>> Classes(("no", "yes")).encode(["yes", "no"])
        array([1, 0], dtype=uint8)
        >>> Classes(("false", "true")).encode([True, False])
        array([1, 0], dtype=uint8)
    """

    target: ClassVar[str] = "classes"
    names: tuple[str | int, ...]

    def __init__(self, classes: int | Iterable[str | int]) -> None:
        set_fields(self, names=_names(classes))

    @classmethod
    def of(cls, classes: Any) -> "Classes":
        """Return classes from their number or names; return `Classes` unchanged."""
        return classes if isinstance(classes, cls) else cls(classes)

    @property
    def size(self) -> int:
        return len(self.names)

    def encode(self, labels: Any) -> Codes:
        """Return codes of class names, shape (n,); see `Domain.encode`."""
        array = _column(labels, self)
        if self.names == tuple(range(self.size)) and array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
            return self._encode_codes(array)
        codes = without_traceback(lambda: self._looked_up(array))
        if codes is None:
            raise DomainError(_OUTSIDE.format(domain=self))
        return codes

    def _looked_up(self, array: NDArray[Any]) -> Codes | None:
        labels = array.tolist()
        kinds = set(map(type, labels))
        if array.dtype.kind not in "biufUSTO" or not all(issubclass(kind, LABEL_TYPES) for kind in kinds):
            return None
        codes: list[int | None] = list(map(self._named.get, labels))
        if not kinds.isdisjoint(_BOOL_TYPES):  # False == 0, and they have different texts
            codes = [
                None if isinstance(label, _BOOL_TYPES) else code for label, code in zip(labels, codes, strict=True)
            ]
        if None in codes:
            pairs = list(zip(map(type, labels), labels, strict=True))  # True == 1, and they have different texts
            unknown = {pair for pair, code in zip(pairs, codes, strict=True) if code is None}
            values = {pair: self._alike(pair[1]) for pair in unknown}
            codes = [values[pair] if code is None else code for pair, code in zip(pairs, codes, strict=True)]
        return None if None in codes else np.array(codes, dtype=self.dtype)

    def _encode_codes(self, array: NDArray[Any]) -> Codes:
        """Return codes of numbers, where the names are the codes."""
        if array.dtype.kind == "f":
            with np.errstate(all="ignore"):  # some missing values warn where they are converted or rounded
                numbers = array.astype(np.float64)
                integral = numbers == np.floor(numbers)
            if not np.all(integral & (np.abs(numbers) < 2**31)):
                raise DomainError(_OUTSIDE.format(domain=self))
            array = numbers.astype(np.int64)
        return self.check_codes(array.astype(np.uint8) if array.dtype.kind == "b" else array)

    @cached_property
    def _named(self) -> dict[str | int, int]:
        """The code of each name; of truth values, which equal 0 and 1, the texts alone count."""
        return {name: code for code, name in enumerate(self.names) if not isinstance(name, bool)}

    @cached_property
    def _truths(self) -> dict[bool, int]:
        """The code of each name that is a truth value."""
        return {name: code for code, name in enumerate(self.names) if isinstance(name, bool)}

    @cached_property
    def _texts(self) -> dict[str, int]:
        """The code of each name's text, where it is the text of one name alone."""
        return _unique((str(name), code) for code, name in enumerate(self.names))

    @cached_property
    def _values(self) -> dict[int, int]:
        """The code of each whole number or truth value that only one name has."""
        valued = ((_value(str(name)), code) for code, name in enumerate(self.names))
        return _unique((value, code) for value, code in valued if value is not None)

    def _alike(self, label: Any) -> int | None:
        """Return the code of a label that is not itself a name: by its text in a file, else by its value."""
        if isinstance(label, _BOOL_TYPES) and bool(label) in self._truths:
            return self._truths[bool(label)]
        text = _text(label)
        if text is None or text in self._texts:
            return self._texts.get(text or "")
        value = _value(text)
        return None if value is None else self._values.get(value)

    def decode(self, codes: Any) -> NDArray[Any]:
        kinds = {type(name) for name in self.names}
        # Integers that do not fit numpy would make rounded floats.
        plain = len(kinds) == 1 and not any(
            isinstance(name, int) and not -_MAX_INT64 <= name < _MAX_INT64 for name in self.names
        )
        names = np.array(self.names, dtype=None if plain else object)
        return names[self.check_codes(codes)]

    def in_file(self) -> "Classes":
        return Classes(self.texts)

    @property
    def texts(self) -> list[str]:
        return [str(name) for name in self.names]

    @property
    def form(self) -> str:
        digest = hashlib.sha256(json.dumps(sorted(self.texts)).encode())
        return f"classes {digest.hexdigest()}"

    @property
    def words(self) -> str:
        shown = [repr(text) for text in self.texts]
        if len(shown) > SHOWN_CLASSES:
            shown[SHOWN_CLASSES - 2 : -1] = ["…"]
        return f"the {self.size} classes {', '.join(shown)}"

    @property
    def options(self) -> list[str]:
        return ["--classes", ",".join(self.texts)]

    @property
    def option_words(self) -> str:
        if self.names == tuple(range(self.size)):
            return f"--classes {self.size}"
        plain = self.size <= SHOWN_CLASSES and all(
            text.strip() == text and "," not in text and text for text in self.texts
        )
        return f"--classes {shlex.quote(','.join(self.texts))}" if plain else "--classes …"

    def to_json(self) -> dict[str, Any]:
        return {"classes": list(self.names)}

    @classmethod
    def _restore(cls, content: Any) -> "Classes":
        domain = cls(tuple(content["classes"]))
        if domain.names != tuple(content["classes"]):  # its codes would stand for other names
            raise InputError("the classes of the description are not in sorted order")
        return domain

    def __repr__(self) -> str:
        if self.names == tuple(range(self.size)):
            return f"Classes({self.size})"
        return f"Classes({self.names!r})"


Key = TypeVar("Key")


def _column(labels: Any, domain: Domain) -> NDArray[Any]:
    """Return labels as a one-dimensional array; a masked label is missing, whatever value the mask covers.

    Raises:
        DomainError: a label is masked, labels are dates, or labels of different kinds do not make an array.
        InputError: not one column, or a tensor with gradients.
    """
    if without_traceback(lambda: bool(labels.requires_grad)):
        raise InputError("labels: a tensor with gradients is not read. Pass labels.detach()")
    if without_traceback(lambda: labels.dtype.kind in "mM"):
        raise DomainError("labels: dates and times are no labels. Convert them to texts for Classes, or to numbers")
    # Of a list numpy would make texts of numbers beside texts, round integers beside floats, and drop a final NUL.
    kind = None if hasattr(labels, "__array__") else object
    array = without_traceback(lambda: None if np.ma.is_masked(labels) else np.asarray(labels, dtype=kind))
    if array is None:
        raise DomainError(_OUTSIDE.format(domain=domain))
    if array.ndim != 1:
        raise InputError("labels must be one-dimensional")
    return array


def _unique(pairs: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    """Return a dict of those keys that occur once."""
    values: dict[Key, int] = {}
    twice = set()
    for key, code in pairs:
        if key in values:
            twice.add(key)
        values[key] = code
    return {key: code for key, code in values.items() if key not in twice}


def _text(label: Any) -> str | None:
    """Return the text that stands for a label in a file, as `tables.as_text` writes it; None where there is none."""
    if isinstance(label, bytes):
        return label.decode("ascii")
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    if label != label:  # NaN, a missing label
        return None
    if abs(label) < MAX_NAME and label == int(label):
        return str(int(label))
    return str(label) if isinstance(label, Decimal) else repr(float(label))


def _value(text: str) -> int | None:
    """Return the whole number or the truth value that a text says, None where it says neither."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    number = Decimal(text) if _INTEGER_TEXT.fullmatch(text) else None
    return int(number) if number is not None and number == int(number) else None


def _number(label: Any) -> float:
    """Return a label as a double: infinite where it is too large for one, NaN where it is no number."""
    if isinstance(label, str | bytes):
        text = label if isinstance(label, bytes) else label.encode("ascii", "replace")
        return float(text) if _NUMBER_TEXT.fullmatch(text) else np.nan
    if isinstance(label, bool) or not isinstance(label, NUMBER_TYPES):
        return np.nan
    try:
        return float(label)
    except OverflowError:
        return np.inf if label > 0 else -np.inf
    except ValueError:  # a signaling NaN
        return np.nan


def _numbers(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return labels as doubles, or None where they are of a kind that has no numbers, such as dates."""
    if array.dtype.kind in "iuf":
        with np.errstate(all="ignore"):  # a warning would tell of a label
            return array.astype(np.float64)
    if array.dtype.kind in "USTO":
        return np.array(list(map(_number, array.tolist())), dtype=np.float64)
    return np.full(len(array), np.nan)


def _names(classes: Any) -> tuple[str | int, ...]:
    what = 'classes must be a number of classes or a sequence of names, such as ("no", "yes")'
    if isinstance(classes, bool | str | bytes | Mapping) or (isinstance(classes, np.ndarray) and classes.ndim != 1):
        raise InputError(what)
    if isinstance(classes, int | np.integer):
        classes = range(int(classes))
    if not isinstance(classes, Iterable):
        raise InputError(what)
    names: tuple[Any, ...] = () if _too_many(classes) else tuple(islice(classes, MAX_SIZE + 1))
    if _too_many(classes) or len(names) > MAX_SIZE:
        raise InputError(f"must hold at most {MAX_SIZE} classes", argument="classes")
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    if len(names) < 2:
        raise InputError(
            "must hold at least two classes: with one there is nothing to learn or to protect", argument="classes"
        )
    if not all(isinstance(name, str | int) for name in names) or len(set(names)) < len(names):
        raise InputError("must be distinct texts or integers", argument="classes")
    if any("\0" in name if isinstance(name, str) else abs(name) >= MAX_NAME for name in names):
        raise InputError(
            "must be texts without NUL characters, or integers below 2**64 in absolute value", argument="classes"
        )
    return names if isinstance(classes, range) and classes.step > 0 else tuple(sorted(names, key=_sort_key))


def _sort_key(name: str | int) -> tuple[bool, int, str, str]:
    """Return what class names are sorted by; no two names of a domain have the same."""
    value = _value(str(name))
    return value is None, value or 0, str(name), type(name).__name__


def _too_many(classes: Any) -> bool:
    return isinstance(classes, Sized) and len(classes) > MAX_SIZE


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

    target: ClassVar[str] = "numbers"
    low: float
    high: float
    grid: int = GRID
    clip: bool = False

    def __post_init__(self) -> None:
        low, high = decimal(self.low, "low"), decimal(self.high, "high")
        if not low < high:
            raise InputError("must be below high", argument="low")
        for name, value in (("low", low), ("high", high)):
            if type(getattr(self, name)) not in (int, float):
                set_fields(self, **{name: float(value)})
        if isinstance(self.grid, bool) or not isinstance(self.grid, int) or not 2 <= self.grid <= MAX_SIZE:
            raise InputError(f"must be an integer number of points from 2 to {MAX_SIZE}", argument="grid")
        if not isinstance(self.clip, bool):
            raise InputError("must be True or False", argument="clip")
        check_range(low, high, ("low", "high"), self.grid - 1)

    @property
    def size(self) -> int:
        return self.grid

    @property
    def columns(self) -> int:
        return 1

    @property
    def largest_entry(self) -> int:
        return self.grid - 1

    @property
    def low_exact(self) -> Fraction:
        return decimal(self.low, "low")

    @property
    def step_exact(self) -> Fraction:
        return (decimal(self.high, "high") - self.low_exact) / (self.grid - 1)

    @property
    def ends(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    @property
    def center(self) -> float:
        return (self.low + self.high) / 2

    @property
    def variance_guess(self) -> float:
        return ((self.high - self.low) / 4) ** 2

    def unit_sums(self, steps: NDArray[np.int16], codes: NDArray[Any]) -> Integers:
        return (codes.astype(np.int64) @ steps.astype(np.int64))[:, None]

    @property
    def form(self) -> str:
        low, high = (str(Fraction(decimal(value, "range"))) for value in (self.low, self.high))
        return json.dumps({"high": high, "low": low})

    @property
    def words(self) -> str:
        return f"numbers from {decimal_text(self.low)} to {decimal_text(self.high)}"

    @property
    def options(self) -> list[str]:
        options = ["--range", f"{decimal_text(self.low)},{decimal_text(self.high)}"]
        options += ["--grid", str(self.grid)] if self.grid != GRID else []
        return [*options, "--clip"] if self.clip else options

    @property
    def option_words(self) -> str:
        return " ".join(self.options[:2])

    def encode(self, labels: Any) -> Codes:
        """Return codes of the nearest grid points, shape (n,); see `Domain.encode`."""
        array, (low, high) = _column(labels, self), self.ends
        values = without_traceback(lambda: _numbers(array))
        if values is not None and self.clip:
            values = np.clip(values, low, high)
        if values is None or not np.all((values >= low) & (values <= high)):
            raise DomainError(_OUTSIDE.format(domain=self))
        codes = np.rint((values - low) / self.step)
        return np.clip(codes, 0, self.grid - 1).astype(self.dtype)

    def decode(self, codes: Any) -> NDArray[np.float64]:
        return np.asarray(self.low + self.check_codes(codes) * self.step, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        low, high = (Fraction(decimal(value, "range")) for value in (self.low, self.high))
        clipped = {"clip": True} if self.clip else {}
        return {"low": str(low), "high": str(high), "grid": self.grid, **clipped}

    @classmethod
    def _restore(cls, content: Any) -> "Interval":
        low, high = (float(stored_fraction(content[end])) for end in ("low", "high"))
        return cls(low, high, content["grid"], content.get("clip", False))


DOMAINS: dict[str, type[Classes] | type[Interval]] = {"classes": Classes, "grid": Interval}
"""Every domain, by a key that the description of no other has."""


_WANTED = {
    ("classes",): "Classes, such as Classes(10)",
    ("numbers",): "an Interval, such as Interval(0, 100, grid=1025)",
    ("classes", "numbers"): "Classes or an Interval, such as Classes(10) or Interval(0, 100)",
}


def require_domain(domain: Any, *targets: str, advice: str = "") -> None:
    """Raise InputError for what is no domain of such targets; `advice` says what to do else."""
    if not isinstance(domain, Domain) or domain.target not in targets:
        raise InputError(f"must be {_WANTED[targets]}{advice}", argument="domain")


def distance_cuts(domain: Domain, bins: int) -> Integers:
    """Return the first distance of two codes, in grid steps, of each bin after the first: each is twice the one before.

    They are fewer where the grid is too coarse.
    """
    return np.unique([-(-(domain.size - 1) // 2**halvings) for halvings in range(1, bins)])


def bins_of(distances: NDArray[Any], cuts: Integers) -> Codes:
    """Return the bin of each distance, shape (n,)."""
    bins = np.zeros(len(distances), dtype=np.uint8)
    for cut in cuts.tolist():  # a binary search would take other branches for other labels
        bins += distances >= cut
    return bins
