"""Mechanisms: their descriptions, laws as tables of integers, and unbiased estimates from their output."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.catalog import MECHANISMS
from labeldp.mechanisms.domains import Codes, Domain
from labeldp.mechanisms.inputs import Groups, PublicInput
from labeldp.privacy import (
    BLOCK,
    WORD,
    Certificate,
    Flags,
    Floats,
    Ids,
    InputError,
    KeyedRandomness,
    NotInvertibleError,
    PrivacyLoss,
    Public,
    Randomness,
    RandomSource,
    Trust,
    Unit,
    Words,
    as_bound,
    as_randomness,
    decimal_text,
    float_below,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import WordStream


@dataclass(frozen=True)
class Debiased:
    """Unbiased estimates and what they cost.

    Args:
        values: for classes the indicators of the true label, shape (n, K), rows sum to about 1, entries
            may be negative; for an interval the labels, shape (n,), in their unit.
        condition_number: of the noise matrix in the maximum norm, at least 1: by this much noise may be amplified.
    """

    values: NDArray[np.float64] = field(repr=False)
    condition_number: float


@dataclass(frozen=True)
class SetAnswers:
    """Outputs that are sets of classes, packed eight to a byte as `numpy.packbits` does.

    Args:
        classes: K.
        odds: P(answer | class) of a class that the answer names, over that of one that it does not name.
        own: P(the answer names the label's own class).
        other: P(the answer names any other class).
        sizes: how many classes an answer can name.
    """

    classes: int
    odds: float
    own: float
    other: float
    sizes: NDArray[np.intp] = field(repr=False)

    def named(self, noisy: Any) -> Flags:
        """Return which classes each answer names, shape (n, K).

        Raises:
            InputError: not packed bits of these classes.
        """
        packed, width = np.asarray(noisy), -(-self.classes // 8)
        if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != width:
            raise InputError(f"must be packed bits, uint8, shape (n, {width})", argument="noisy")
        return np.unpackbits(packed, axis=1, count=self.classes).view(np.bool_)

    def likelihood(self, noisy: Any) -> Floats:
        """Return P(answer | class) up to a factor of each record, shape (n, K)."""
        return np.where(self.named(noisy), self.odds, 1.0)

    def unbiased(self, noisy: Any) -> Debiased:
        """Unbiased class indicators, shape (n, K): averaged over noise and public partitions, they are the truth."""
        named, gap = self.named(noisy), self.own - self.other
        worst = (self.sizes * (1 - self.other) + (self.classes - self.sizes) * self.other).max()
        values = np.subtract(named, self.other, dtype=np.float64)
        values /= gap  # in place: there is one array of this size
        return Debiased(values, float(worst / gap))

    def gradient_weights(self, noisy: Any) -> Floats:
        """Return unbiased indicators, shifted so that each row sums to 1, shape (n, K).

        Source: `docs/proofs/learning.md`.
        """
        named = self.named(noisy)
        centered = named - named.mean(axis=1, keepdims=True)
        return np.asarray(1 / self.classes + centered / (self.own - self.other), dtype=np.float64)


SAMPLER_VERSION = 1
"""Part of every specification: keyed noise is the same only under the same sampler."""

MAX_EXPANDED = 1 << 24
"""`weights()` and `matrix()` refuse to hold more entries."""

Weights = NDArray[np.object_]
"""Exact Python integers; every row sums to 2**64."""

Row = list[int]
"""The weights of all outputs for one input."""


@dataclass(frozen=True)
class Table:
    """One law of a finite mechanism: integer weights over 2**64, and the records that it serves.

    Args:
        weights: rows (inputs, outputs). What an input or an output is, `kind` says.
        kind: "table" (codes to codes), "subset response" (place in the candidate set, last row: outside of it, to
            places), "noise and clamp" (one row: noise -N to N, added and clamped), "bits" (bit 0 or 1, to 0 or 1).
        records: a slice, or the row numbers.
    """

    weights: Weights = field(repr=False)
    kind: str
    records: slice | NDArray[np.intp] = field(default_factory=lambda: slice(None), repr=False)


@dataclass(frozen=True)
class Description:
    """A mechanism as plain values and arrays, of which `restore` makes it again.

    Args:
        name: of its class, in `MECHANISMS`.
        arguments: numbers and texts, by the arguments of its constructor.
        arrays: public arrays of numbers, by name.
        inputs: why the arrays are public.
        specification: what its law depends on.
    """

    name: str
    arguments: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)
    inputs: tuple[PublicInput, ...]
    specification: Any


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A random map on labels: a description that may be published, without any label in it.

    Args:
        domain: the declared domain of the labels.
        epsilon: privacy parameter, positive, of the mechanisms whose noise it sets. The decimal as written is exact,
            and one that no float prints is rounded down.
    """

    domain: Domain
    public_inputs: tuple[PublicInput, ...] = field(init=False, default=(), repr=False, compare=False)
    plain: ClassVar[tuple[str, ...]] = ("epsilon",)
    """The arguments that are numbers or texts."""
    stored: ClassVar[str] = ""
    """The array of `packed` that ledgers store, a row for each record; empty for none."""
    neighbors: ClassVar[Unit] = Unit.ONE_LABEL
    trust: ClassVar[Trust] = Trust.LOCAL
    contract: ClassVar[Any] = ""
    """How `labeldp.testing.check_mechanism` checks the law: "module:function", or a method that takes a seed."""

    def __post_init__(self) -> None:
        set_fields(self, epsilon=float_below(positive_epsilon(vars(self)["epsilon"])))

    def _calibrate(self) -> None:
        """Compute the noise; refuse parameters that no noise of 64 bits can guarantee. Constructors call this last."""
        raise InputError(f"{type(self).__name__} has no noise that an epsilon alone sets: make it anew")

    def with_epsilon(self, epsilon: float) -> Self:
        """Return the same mechanism at another epsilon: domain, candidate sets and groups stay.

        Raises:
            InputError: an epsilon that the constructor would refuse.
        """
        other = self._with(epsilon=float_below(positive_epsilon(epsilon)))
        other._calibrate()
        return other

    @abstractmethod
    def privacy_loss(self) -> PrivacyLoss:
        """Return what one release costs."""

    @property
    def protected(self) -> Groups | None:
        """The users whose labels are protected together; None if each record is protected by itself."""
        return None

    def user_loss(self, users: Groups) -> PrivacyLoss:
        """Return what one release costs a user all of whose labels change.

        A local mechanism costs a user one answer for each record. A pure central one costs as much as all labels of the
        user, changed one after the other. Any other mechanism protects users only if it was made for them.

        Raises:
            InputError: it was made for others, or protects single records only.

        Source: `docs/proofs/users-and-cohorts.md`.
        """
        if self.protected is not None:
            if self.protected != users:
                raise InputError("must be made for the users of the curator: users=curator.users")
            return self.privacy_loss()
        loss, records = self.privacy_loss(), users.most
        if self.trust is Trust.LOCAL:
            return loss * records
        if loss.max_loss is None or self.neighbors is not Unit.ONE_LABEL:
            raise InputError(f"{type(self).__name__} protects single records only, and has no guarantee for a user")
        return PrivacyLoss.pure(records * loss.max_loss)

    @abstractmethod
    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> NDArray[Any]:
        """Randomize codes. This is the map alone: `Curator.release` charges before it calls it.

        Args:
            labels: codes, shape (n,), integer.
            rng: `SystemRandomness()`, `KeyedRandomness(key, context)`, or a numpy generator (a simulation). Noise
                that does not belong to single records is keyed only under `KeyedRandomness(…).bind(what it is for)`.
            ids: distinct record ids, shape (n,). Only keyed noise needs them, and does not do without.

        Raises:
            DomainError: a code is outside of the domain.
            InputError: keyed noise that would repeat.
        """

    def parameters(self) -> dict[str, Any]:
        """Return what distinguishes this mechanism from others of its type, as plain JSON values: the exact epsilon."""
        return {"epsilon": str(positive_epsilon(vars(self)["epsilon"]))}

    @property
    def records(self) -> int | None:
        """The number of records that the mechanism was made for; None for any number."""
        return None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments in `plain`."""
        return {name: getattr(self, name) for name in self.plain}

    def packed(self) -> dict[str, NDArray[Any] | None]:
        """Return the public arrays that the mechanism was made from; None in place of one that workers hold."""
        return {}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> dict[str, Any]:
        """Return arguments of the constructor, from what `packed` returned.

        Raises:
            InputError: arrays of another kind.
        """
        return dict(arrays)

    @classmethod
    def limited(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> Mapping[str, NDArray[Any]]:
        """Return the arrays that a stranger gave.

        Raises:
            InputError: they would exhaust the memory.
        """
        return arrays

    def arrays(self) -> NDArray[Any] | None:
        """Return the array, a row for each record, that must be stored next to the specification, or None."""
        return self.packed().get(self.stored)

    def restored(self, arrays: NDArray[Any]) -> "Mechanism":
        """Return this mechanism with a stored array in place of the current one."""
        if self.arrays() is None:
            raise InputError(f"{type(self).__name__} has no arrays to restore")
        why = "fixed by an earlier release, whose certificate says what they rest on"
        mechanism = self._made(self.arguments(), {self.stored: np.array(arrays)}, self.domain, why)
        return mechanism._with(public_inputs=(PublicInput(self.stored, why, self.basis),))

    @classmethod
    def _made(
        cls, arguments: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], domain: Domain, why: str
    ) -> "Mechanism":
        """Return a mechanism of these arguments; its arrays are public for one reason."""
        public = {name: Public(value, why=why) for name, value in cls.unpacked(arrays, domain).items()}
        return cls(domain=domain, **arguments, **public)

    def describe(self) -> Description:
        """Return the description that `restore` makes this mechanism of.

        Raises:
            InputError: it is not in `MECHANISMS`, protects users, or was made of records that workers hold.
        """
        name = type(self).__name__
        if name not in MECHANISMS or MECHANISMS[name].load() is not type(self):
            raise InputError(f"{name} is not in the catalog: take one of {', '.join(MECHANISMS)}", argument="mechanism")
        if self.protected is not None:
            raise InputError("must protect single records, and no users", argument="mechanism")
        arrays = {}
        for argument, array in self.packed().items():
            if array is None:
                raise InputError("must be given for each record: workers hold it", argument=argument)
            arrays[argument] = array
        return Description(name, self.arguments(), arrays, self.public_inputs, self.specification())

    def specification(self) -> dict[str, Any]:
        """Return everything that the law depends on, as plain JSON values: public."""
        return {
            "mechanism": type(self).__name__,
            "domain": self.domain.to_json(),
            "sampler": SAMPLER_VERSION,
            **self.parameters(),
        }

    @property
    def published(self) -> str:
        """The released values, in one phrase."""
        return f"one noisy label per record ({self})"

    def describe_noise(self, number: Callable[[float], str] = str) -> str:
        """Return the noise in one sentence, with numbers as `number` writes them; "" by default."""
        return ""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions of the guarantee, in words; empty where it is unconditional."""
        return tuple(argument.assumption for argument in self.public_inputs if argument.why)

    @property
    def basis(self) -> tuple[Certificate, ...]:
        """The certificates of releases that this mechanism was made from: what it publishes depends on them, too."""
        return tuple(certificate for argument in self.public_inputs for certificate in argument.certificates)

    def unbiased(self, noisy: Any) -> Debiased:
        """Return what `debias` returns; refused unless the mechanism says how."""
        raise NotInvertibleError(f"{type(self).__name__} has no unbiased estimate of single labels")

    def bound(self, rng: RandomSource, ids: Any = None) -> Randomness:
        """Return the caller's randomness, bound to this mechanism: another law gets other keyed noise.

        Raises:
            InputError: keyed noise that would be the same for another part of the labels: without the record ids that
                it belongs to, or, where it belongs to no record, without a name for the release (see `as_bound`).
        """
        by_record = self.trust is Trust.LOCAL and isinstance(rng, KeyedRandomness)
        if by_record and ids is None:
            raise InputError(
                "ids must be given with keyed noise: row numbers begin again in every part of a table, so that all "
                "parts would get the same noise"
            )
        randomness = as_randomness(rng) if by_record else as_bound(rng)
        text = json.dumps(self.specification(), sort_keys=True).encode()
        return randomness.bind(hashlib.sha256(text).digest())

    def check_records(self, count: int) -> None:
        """Refuse labels that this mechanism was not made for."""
        if self.records is not None and count != self.records:
            raise InputError(f"labels must hold {self.records} records, as this mechanism was made for so many")

    def _with(self, **values: Any) -> Self:
        """Return a copy with other values of some fields, without a call of the constructor."""
        other = object.__new__(type(self))
        set_fields(other, **{part.name: getattr(self, part.name) for part in fields(self)} | values)
        return other

    def __str__(self) -> str:
        budget = {name: vars(self)[name] for name in ("epsilon", "delta") if vars(self).get(name)}
        text = ", ".join(f"{name} = {decimal_text(value)}" for name, value in budget.items())
        return f"{type(self).__name__} with {text}" if text else repr(self)


@dataclass(frozen=True, kw_only=True)
class FiniteMechanism(Mechanism):
    """A mechanism whose law is a few tables of integers over 2**64.

    Domain and epsilon may be given by position, in this order.
    """

    domain: Domain = field(kw_only=False)
    epsilon: float = field(kw_only=False)
    contract: ClassVar[Any] = "labeldp.testing.contract:check_tables"
    column_ending: ClassVar[str] = ""
    """Suffix of the name of a released column."""

    def _calibrate(self) -> None:
        """Compute nothing: the law follows from the fields."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return each distinct law with the records that it serves."""

    @abstractmethod
    def weights(self) -> Weights:
        """Return P(z | y) times 2**64 as Python integers, shape (k, m), or (n, k, m) with one law for each record.

        Raises:
            InputError: more than 2**24 entries.
        """

    @property
    def answers(self) -> SetAnswers | None:
        """What an answer says that is a set of classes; None where it is a class or a number."""
        return None

    def named(self, noisy: Any) -> Flags:
        """Return which classes each answer names, shape (n, K).

        Raises:
            InputError: not this mechanism's answers.
        """
        if self.answers is not None:
            return self.answers.named(noisy)
        return self.domain.check_codes(noisy)[:, None] == np.arange(self.domain.size)

    def naming_rates(self) -> tuple[float, float] | None:
        """Return P(an answer names the class of the label) and P(it names a given other class).

        None where these are not the same for all classes, as in an arbitrary table.

        Raises:
            NotInvertibleError: some record had fewer candidates than classes.
        """
        return None if self.answers is None else (self.answers.own, self.answers.other)

    def singles(self) -> NDArray[Any]:
        """Return an answer for each class that names it alone."""
        codes = np.arange(self.domain.size)
        return codes if self.answers is None else np.packbits(codes[:, None] == codes, axis=1)

    def values(self, noisy: Any) -> NDArray[Any]:
        """Return answers in the words, or the unit, of the labels, shape (n,)."""
        return np.asarray(self.domain.decode(noisy))

    def likelihood(self, noisy: Any) -> Floats:
        """Return P(answer | class), up to a factor of each record, shape (n, K): all that answers say of their labels.

        Raises:
            InputError: not this mechanism's answers, or a mechanism that does not answer each record about its class.
        """
        if self.answers is not None:
            return self.answers.likelihood(noisy)
        raise InputError("release must answer each record with a class, a set of classes or a bit for each class")

    def unbiased(self, noisy: Any) -> Debiased:
        """Return unbiased class indicators, shape (n, K), of sets of classes; else see `debias`."""
        return super().unbiased(noisy) if self.answers is None else self.answers.unbiased(noisy)

    def gradient_weights(self, noisy: Any) -> Floats:
        """Return what stands for the indicators of the true classes in a gradient, shape (n, K); rows sum to 1.

        Raises:
            InputError: a mechanism that does not say it.
        """
        if self.answers is None:
            raise InputError(f"{type(self).__name__} has no weights of a gradient", argument="mechanism")
        return self.answers.gradient_weights(noisy)

    @abstractmethod
    def sample(self, codes: Codes, start: int, randomness: Randomness, ids: Ids) -> NDArray[Any]:
        """Return the noisy labels of one block of records, of which the first is record `start`."""

    @property
    def block(self) -> int:
        """Records handled at a time."""
        return BLOCK

    def matrix(self) -> NDArray[np.float64]:
        """Return P(z | y), shape as `weights`; rows sum to 1 within rounding."""
        return (self.weights() / WORD).astype(np.float64)

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> NDArray[Any]:
        """Randomize codes, shape (n,); see `Mechanism.randomize`."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        randomness = self.bound(rng, ids)
        names = randomness.record_ids(ids, len(codes))
        block = self.block
        first = self.sample(codes[:block], 0, randomness, names[:block])
        noisy = np.empty((len(codes), *first.shape[1:]), dtype=first.dtype)
        noisy[: len(first)] = first
        for start in range(block, len(codes), block):
            stop = start + block
            noisy[start:stop] = self.sample(codes[start:stop], start, randomness, names[start:stop])
        return noisy


def joint_laws(mechanism: FiniteMechanism) -> Iterator[list[Row]]:
    """Yield for each distinct law one row of integer weights over all outputs for each input."""
    for table in mechanism.tables():
        if table.kind == "bits":
            zero, one = table.weights.tolist()  # the only two bits in which two labels differ, as one law
            yield [[a * b for a in first for b in second] for first, second in ((one, zero), (zero, one))]
        elif table.kind == "noise and clamp":
            yield mechanism.weights().tolist()
        else:
            yield table.weights.tolist()


def words_for(randomness: Randomness, ids: Ids, lane: int = 0) -> Words:
    """Return one fresh word for each of the records `ids`, shape (n,)."""
    words = np.empty(len(ids), dtype=np.uint64)
    randomness.fill(words, ids, lane)
    return words


def edges_of(law: Weights) -> NDArray[np.uint64]:
    """Return where the words of each output end, less one, shape as the weights, (rows, outputs)."""
    return (np.cumsum(law, axis=1) - 1).astype(np.uint64)


def draw_places(words: Words, edges: NDArray[np.uint64], rows: NDArray[Any]) -> Codes:
    """Return the output that each word stands for, shape (n,), from the `edges_of` a table and each record's row."""
    places = np.zeros(len(words), dtype=np.min_scalar_type(edges.shape[1] - 1))
    for output in range(edges.shape[1] - 1):  # a binary search would take other branches for other labels
        places += words > edges[rows, output]
    return places


def check_places(noisy: Any, count: int, what: str) -> Codes:
    """Return output numbers below `count`, shape (n,); raise InputError for others."""
    places = np.asarray(noisy)
    if places.dtype.kind not in "ui" or places.ndim != 1 or np.any((places < 0) | (places >= count)):
        raise InputError(f"must be places in {count} {what}, shape (n,)", argument="noisy")
    return places


def integer_row(chances: list[float], floors: list[int], caps: list[int], more: list[int], less: list[int]) -> Row:
    """Return integer weights near probabilities, between floors and caps; their sum is 2**64 if these allow it.

    Args:
        chances, floors, caps: of each output.
        more, less: the outputs in the order in which they take what rounding leaves, and in which they give.
    """
    row = [min(max(int(chance * WORD), floor), cap) for chance, floor, cap in zip(chances, floors, caps, strict=True)]
    left = WORD - sum(row)
    for output in more if left > 0 else less:
        room = (caps if left > 0 else floors)[output] - row[output]
        change = min(left, room) if left > 0 else max(left, room)
        row[output] += change
        left -= change
    return row


def word_stream(rng: RandomSource, count: int) -> WordStream:
    """Return a stream of words for `count` draws that belong to no record."""
    randomness = as_bound(rng)
    return WordStream(randomness, randomness.record_ids(None, count))


def words_of(rng: RandomSource) -> Randomness:
    """Return the words of one release, one after another, for draws that belong to no record."""
    randomness = as_bound(rng)
    return randomness.stream() if isinstance(randomness, KeyedRandomness) else randomness


def refuse_large(entries: int) -> None:
    """Refuse to expand a law into too many entries."""
    if entries > MAX_EXPANDED:
        raise InputError(
            f"weights() and matrix() hold at most 2**24 entries, and this would be {entries}: use tables()"
        )


def debias(mechanism: Any, noisy: Any) -> Debiased:
    """Return unbiased estimates of the true labels: averaged over the noise, they are the truth.

    Use the estimates in sums and averages over many records; a single one is far from its truth.

    Args:
        mechanism: the mechanism that made `noisy`.
        noisy: its output.

    Raises:
        InputError: not a mechanism, or not its output.
        NotInvertibleError: the noise has no inverse, as when a record has fewer candidates than classes. An
            estimate made regardless could read as a perfect accuracy.
    """
    if not hasattr(mechanism, "unbiased"):
        raise InputError("must be the one that made the noisy labels, such as release.mechanism", argument="mechanism")
    result: Debiased = mechanism.unbiased(noisy)
    return result


def restore(description: Description, domain: Domain) -> Mechanism:
    """Build a mechanism on a domain from its description; nothing that this says of itself is believed.

    Only the classes of `MECHANISMS` are built. Arrays are checked by `limited` and `unpacked`.

    Args:
        description: what `Mechanism.describe` returned, or a stranger wrote; its inputs were checked.
        domain: the declared domain of the labels.

    Raises:
        InputError: an unknown mechanism, wrong arguments, or a specification that is not that of these arguments.
    """
    name, arguments = description.name, description.arguments
    if name not in MECHANISMS:
        raise InputError(f"must be in the catalog: one of {', '.join(MECHANISMS)}", argument="mechanism")
    kind: type[Mechanism] = MECHANISMS[name].load()
    if set(arguments) != set(kind.plain) or not all(map(_is_plain, arguments.values())):
        raise InputError(f"must have the arguments {', '.join(kind.plain)}, numbers or texts", argument="mechanism")
    try:
        mechanism = kind._made(arguments, kind.limited(description.arrays, domain), domain, "given by an analyst")
        names = {argument.name for argument in mechanism.public_inputs}
        if {argument.name for argument in description.inputs} != names:
            raise InputError(f"must say why the {' and the '.join(sorted(names)) or 'nothing'} is public, and no more")
        set_fields(mechanism, public_inputs=description.inputs)
        mechanism.privacy_loss()
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, MemoryError):
        raise InputError("cannot be made of these arguments", argument="mechanism") from None
    if mechanism.specification() != description.specification:
        raise InputError(
            "is not what its arguments make here: is it on another domain, or of another version of labeldp?",
            argument="mechanism",
        )
    return mechanism


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 64)
