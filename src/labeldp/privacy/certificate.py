"""Charges, the certificates that list them, and the values that they certify."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import ceil, exp, log
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy.errors import InputError
from labeldp.privacy.exact import decimal, decimal_text, float_above, rounded_up_text
from labeldp.privacy.loss import PrivacyLoss
from labeldp.privacy.randomness import RandomnessKind, RandomSource
from labeldp.privacy.stored import stored_fraction

T = TypeVar("T")

U = TypeVar("U")


class Neighbors(Enum):
    """Which two datasets must look alike."""

    ONE_LABEL = "the label of one record is replaced"
    ONE_PERSON = "all labels of one person are replaced"
    ONE_LOSS = "one round's loss function is replaced"
    ZERO_OUT = "one round's loss function is replaced by zero"
    FULL = "one whole record, features and label, is replaced"


@dataclass(frozen=True)
class _Wording:
    """The words of a certificate for what is protected: the promise, its unit, singular and plural, what changes."""

    kind: str
    unit: str
    seen: tuple[str, str]
    changed: str

    def trusted(self, trust: "Trust") -> str:
        """Return who sees the protected values before the noise."""
        one, many = self.seen
        return trust.value.replace("labels", many).replace("label", one)


_LOSSES = ("round's losses", "losses")
_LABELS = ("label", "labels")

_WORDING = {
    Neighbors.ONE_LABEL: _Wording("Label differential privacy", "label", _LABELS, "any one label"),
    Neighbors.ONE_PERSON: _Wording("Label differential privacy", "person", _LABELS, "all labels of any one person"),
    Neighbors.ONE_LOSS: _Wording("Differential privacy", "round's losses", _LOSSES, "the losses of any one round"),
    Neighbors.ZERO_OUT: _Wording(
        "Differential privacy", "round's losses", _LOSSES, "the losses of any one round to zero, or back,"
    ),
    Neighbors.FULL: _Wording("Differential privacy", "record", ("record", "records"), "any one record"),
}


class Trust(Enum):
    """Who sees the labels before the noise."""

    LOCAL = "each label is randomized on its own, before anybody else sees it"
    CENTRAL = "a trusted curator sees all labels and releases a randomized result"
    NONE = "nobody is protected"


SHOWN_COHORTS = 10
"""The most cohorts that a sentence names."""

Path = tuple[tuple[str, int], ...]
"""Where a charge belongs: (split, part) from the outermost split inwards; empty for all records."""


@dataclass(frozen=True)
class Charge:
    """One use of the labels: its cost, the part of the records that it used, and the mechanism's public description.

    `facts` is what a ledger file wrote down when it was charged, in texts: "charged" (UTC, ISO 8601), "version" of
    labeldp, "records", "total" (what a record had paid by then for all of the dataset's charges, as `Budget` is
    written) and "commitment" to the labels; where a filter admitted it also "filter", its kind, "of", the dataset and
    its budget, and "list", which names a list of releases that was declared before the first of them.
    """

    id: str
    path: Path
    loss: PrivacyLoss
    mechanism: Mapping[str, Any]
    facts: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, exact."""
        return {
            "id": self.id,
            "path": [list(step) for step in self.path],
            "loss": self.loss.to_json(),
            "mechanism": dict(self.mechanism),
            **({"facts": dict(self.facts)} if self.facts else {}),
        }

    @property
    def history(self) -> str:
        """When it was charged, by what, and what the dataset had paid by then, as a sentence; "" if it is not known."""
        if not self.facts:
            return ""
        records, total = self.facts.get("records"), self.facts.get("total")
        about = f" for {int(records):,} records" if records else ""
        so_far = f"; the dataset had then paid {total}" if total else ""
        return f"Charged {self.facts['charged']}{about}, by labeldp {self.facts['version']}{so_far}."

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Charge":
        """Return the charge that `to_json` wrote."""
        path = tuple((str(split), int(part)) for split, part in value["path"])
        loss, facts = PrivacyLoss.from_json(value["loss"]), {str(a): str(b) for a, b in value.get("facts", {}).items()}
        return cls(str(value["id"]), path, loss, dict(value["mechanism"]), facts)


@dataclass(frozen=True)
class Certificate:
    """What one release promises, to whom, and under which conditions.

    Everything in it is public. `entries` are the charges that the released value depends on, so
    that join_certificates releases can be charged once each. `cohorts` names those of the dataset that it is about,
    and is empty where that is all of it.
    """

    entries: tuple[Charge, ...]
    dataset: str
    neighbors: Neighbors
    trust: Trust
    randomness: RandomnessKind
    published: str
    assumptions: tuple[str, ...] = ()
    cohorts: tuple[str, ...] = ()

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all entries together."""
        return total_loss(self.entries)

    def at(self, delta: Any = 0.0) -> str:
        """Return the guarantee at one delta, as a sentence.

        Args:
            delta: in [0, 1]; with 0 the promise holds for every output without exception.
        """
        (epsilon, late), words = self._promised(delta), _WORDING[self.neighbors]
        if self.trust is Trust.NONE:
            surely, epsilon = self.loss.delta(_LARGEST_EPSILON), float("inf")
            promise = f"None: no epsilon promises a delta below {rounded_up_text(surely)}"
        elif epsilon == float("inf"):
            promise = f"No finite epsilon is promised at delta = {decimal_text(delta)}"
        else:
            promise = f"{words.kind} with epsilon = {rounded_up_text(epsilon)} and delta = {decimal_text(delta)}"
        parts = [
            f"{promise} for every {words.unit} of {self._of()}the dataset {self.dataset!r}, where neighbors are two "
            f"datasets in which {self.neighbors.value}; {words.trusted(self.trust)}.",
            late,
            _in_plain_words(epsilon, float(delta), words.changed),
            f"Published: {self.published}.",
            f"Randomness: {self.randomness.value}.",
        ]
        if self.assumptions:
            parts.append("This holds on condition that: " + "; ".join(self.assumptions) + ".")
        return " ".join(part for part in parts if part)

    def _promised(self, delta: Any) -> tuple[float, str]:
        """Return the epsilon at a delta, and a sentence where it is that of budgets.

        Of one release, and of a list that was declared before the first of it, the curve is promised. The costs of
        others that a filter admitted may follow from earlier outputs: of these the pinned budget is promised.
        """
        filtered = [entry for entry in self.entries if "filter" in entry.facts]
        if len({entry.facts.get("list", entry.id) for entry in filtered}) < 2 or not decimal(delta, "delta"):
            return self.loss.epsilon(delta), ""
        budgets = {entry.facts["of"]: _budget_of(entry.facts["of"]) for entry in filtered}
        rest = decimal(delta, "delta") - sum(share for _, share in budgets.values())
        others = total_loss(entry for entry in self.entries if "filter" not in entry.facts)
        together = float("inf")
        if rest >= 0:
            limits = decimal(others.epsilon(rest), "epsilon") if others.within(_LARGEST_EPSILON, rest) else None
            if limits is not None:
                together = float_above(limits + sum(limit for limit, _ in budgets.values()))
        return min(together, self.loss.epsilon(0)), LATE

    def _of(self) -> str:
        """Return which cohorts of the dataset it is about, in words."""
        names = [repr(name) for name in self.cohorts]
        if len(names) > SHOWN_COHORTS:
            names[2:-1] = [f"… ({len(names)} in all)"]
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
        return f"the cohort{'s' * (len(names) > 1)} {listed} of " if names else ""

    def __getstate__(self) -> dict[str, Any]:
        """Return plain values, which skops stores, too: it has no word for enumerations."""
        return self.to_json()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(Certificate.from_json(state)))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; the loss is written exactly."""
        cohorts = {"cohorts": list(self.cohorts)} if self.cohorts else {}
        return {
            "entries": [entry.to_json() for entry in self.entries],
            "dataset": self.dataset,
            "neighbors": self.neighbors.name,
            "trust": self.trust.name,
            "randomness": self.randomness.name,
            "published": self.published,
            "assumptions": list(self.assumptions),
            **cohorts,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Certificate":
        """Return the certificate that `to_json` wrote.

        Raises:
            InputError: not a certificate.
        """
        try:
            return cls(
                entries=tuple(Charge.from_json(entry) for entry in value["entries"]),
                dataset=value["dataset"],
                neighbors=Neighbors[value["neighbors"]],
                trust=Trust[value["trust"]],
                randomness=RandomnessKind[value["randomness"]],
                published=value["published"],
                assumptions=tuple(value["assumptions"]),
                cohorts=tuple(value.get("cohorts", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError("this is not a certificate of labeldp") from error


@dataclass(frozen=True)
class Release(Generic[T]):
    """A value that left the private side, with its certificate.

    `mechanism` is the description of the noise where the value is its direct output: what
    `debias` and the learners need. A value computed further has none.
    """

    value: T = field(repr=False)
    certificate: Certificate
    mechanism: Any = None

    def map(self, function: Callable[[T], U]) -> "Release[U]":
        """Post-processing: anything computed from the value and from public data costs nothing more."""
        return Release(function(self.value), self.certificate)


@dataclass(frozen=True)
class Public(Generic[T]):
    """A value that does not depend on the private labels, and the reason why.

    Args:
        value: any value; arrays are taken as they are.
        why: the reason, in words; it goes into the certificate.
    """

    value: T = field(repr=False)
    why: str = field(kw_only=True)

    def __post_init__(self) -> None:
        if not (isinstance(self.why, str) and self.why.strip()):
            raise InputError("why must say in words for what reason the value does not depend on private labels")


LATE = (
    "The costs of these releases may have been chosen after looking at earlier ones: with delta > 0 the budget is what "
    "is promised of them together."
)

WEAK_EPSILON = 10
"""Above this epsilon a promise is called weak where it is asked for: odds may change by a factor of 22,000."""

_LARGEST_EPSILON = 10**6
"""An epsilon above all that promises anything."""


def _budget_of(text: str) -> tuple[Fraction, Fraction]:
    """Return epsilon and delta of a filter, of a fact of its charges."""
    _, epsilon, delta = text.rsplit(", ", 2)
    return Fraction(epsilon.removeprefix("epsilon = ")), Fraction(delta.removeprefix("delta = "))


def _in_plain_words(epsilon: float, delta: float, changed: str) -> str:
    """Return what epsilon and delta mean, for readers without the definition."""
    if epsilon > 50:
        return ""
    except_for = f", up to a probability of {delta:g}" if delta else ""
    return (
        f"Changing {changed} makes any published result at most {ceil(1000 * exp(epsilon)) / 1000:.3f} times more "
        f"likely{except_for}."
    )


def odds_factor(epsilon: float) -> str:
    """Return e to the power of epsilon, rounded up to three digits; from a billion on, to a power of ten."""
    exponent = epsilon / log(10) * (1 + 1e-12)
    return f"{float(rounded_up_text(10**exponent, 3)):,.0f}" if exponent < 9 else f"10^{ceil(exponent)}"


def weak_promise(epsilon: float, about: str = "one label") -> str:
    """Return a sentence that warns of an epsilon above 10, or "" for a smaller one.

    Args:
        epsilon: of a release or a budget.
        about: what is protected, in words.
    """
    if not WEAK_EPSILON < epsilon < float("inf"):
        return ""
    words = (
        f"epsilon = {decimal_text(epsilon)} lets the odds about {about} change by a factor of {odds_factor(epsilon)}"
    )
    return f"{words}: this is a weak promise"


def gather(releases: Sequence[Release[Any]], function: Callable[..., U]) -> Release[U]:
    """Join releases: `function` of their values, certified by the union of their charges.

    `map` on one of them would understate what a value of several inputs costs. What protects persons protects each of
    their records, so that joined with a release that protects records it counts for records.

    Raises:
        InputError: no release, something else, or releases of different neighboring relations.
    """
    if not all(isinstance(release, Release) for release in releases):
        raise InputError("must be what Curator.release or a learner returned, each of them", argument="releases")
    if not releases:
        raise InputError("releases must hold at least one release")
    certificates = [release.certificate for release in releases]
    relations = {certificate.neighbors for certificate in certificates}
    if len(relations) > 1 and relations != {Neighbors.ONE_LABEL, Neighbors.ONE_PERSON}:
        raise InputError("releases must share one neighboring relation")
    return Release(function(*(release.value for release in releases)), join_certificates(certificates))


def join_certificates(certificates: Sequence[Certificate]) -> Certificate:
    """Return one certificate for all: each charge once, and the weaker promise where they differ."""
    entries = {entry.id: entry for certificate in certificates for entry in certificate.entries}
    datasets = _distinct(certificate.dataset for certificate in certificates)
    relations = {certificate.neighbors for certificate in certificates}
    first = certificates[0].neighbors
    mixed = first is Neighbors.ONE_PERSON and Neighbors.ONE_LABEL in relations
    parts = len(datasets) == 1 and all(certificate.cohorts for certificate in certificates)
    return Certificate(
        entries=tuple(entries.values()),
        dataset=" and ".join(datasets),
        neighbors=Neighbors.ONE_LABEL if mixed else first,
        trust=max((certificate.trust for certificate in certificates), key=list(Trust).index),
        randomness=max((certificate.randomness for certificate in certificates), key=_WEAKEST_LAST.index),
        published="; ".join(_distinct(text for each in certificates for text in each.published.split("; "))),
        assumptions=_distinct(text for certificate in certificates for text in certificate.assumptions),
        cohorts=_distinct(name for certificate in certificates for name in certificate.cohorts) if parts else (),
    )


_WEAKEST_LAST = [RandomnessKind.SYSTEM, RandomnessKind.KEYED, RandomnessKind.SIMULATION, RandomnessKind.NONE]


def _distinct(texts: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


class CuratorLike(Protocol):
    """The curator as a private learner uses it."""

    @property
    def records(self) -> int:
        """The number of records that the curator holds; public."""

    @property
    def domain(self) -> Any:
        """The declared domain of the labels."""

    @property
    def persons(self) -> Public[NDArray[np.int64]] | None:
        """Whose each record is, public numbers, shape (n,); None where each record is protected by itself."""

    def release(self, mechanism: Any, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """Charge the mechanism, draw, and return the release."""

    def cost(self, mechanism: Any) -> PrivacyLoss:
        """Return what a release would cost a label or, with persons, all labels of a person."""

    def require(self, steps: Mapping[str, PrivacyLoss]) -> None:
        """Refuse steps that the budget would not admit together; nothing is charged."""

    def has_released(self, mechanism: Any, *, step: str) -> bool:
        """Return whether a durable ledger holds a release of these records, of that step and cost; public and free."""

    def split(self, parts: Public[NDArray[np.integer[Any]]]) -> Sequence["CuratorLike"]:
        """Return one curator for each part; the parts are disjoint by construction."""

    def limited(self, most: int) -> tuple["CuratorLike", NDArray[np.intp]]:
        """Return a curator of at most `most` records of each person, and which ones these are."""


def total_loss(charges: Iterable[Charge]) -> PrivacyLoss:
    """Return the most that any label pays for all charges together.

    Charges on the same records add up. A record lies in exactly one part of a split, so a split
    costs the worst of its parts; different splits add up, since nothing is known of how they overlap.

    Guarantee (never_less): never less than the loss of any single record.
    """
    return joint_loss(Counter((charge.path, charge.loss) for charge in charges).items())


def joint_loss(counted: Iterable[tuple[tuple[Path, PrivacyLoss], int]]) -> PrivacyLoss:
    """Return what `total_loss` returns, of charges as ((path, loss), how many of them)."""
    whole: list[tuple[PrivacyLoss, int]] = []
    splits: dict[str, dict[int, list[tuple[tuple[Path, PrivacyLoss], int]]]] = {}
    for (path, loss), times in counted:
        if not path:
            whole.append((loss, times))
        else:
            (split, part), rest = path[0], path[1:]
            splits.setdefault(split, {}).setdefault(part, []).append(((rest, loss), times))
    for parts in splits.values():
        worst = PrivacyLoss.zero()
        for inner in parts.values():
            worst = worst | joint_loss(inner)
        whole.append((worst, 1))
    return PrivacyLoss.total(whole)


def requested_delta(charges: Iterable[Charge]) -> Fraction:
    """Return the largest delta that a mechanism was asked to keep; 0 where none was.

    Raises:
        InputError: the delta of a mechanism is not a number from 0 to 1.
    """
    try:
        asked = [charge.mechanism.get("delta") for charge in charges]
        delta = max((stored_fraction(each) for each in asked if each is not None), default=Fraction(0))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError("this is not a certificate of labeldp") from error
    if not 0 <= delta <= 1:
        raise InputError("this is not a certificate of labeldp")
    return delta


def checked_certificate(content: Any, place: object) -> Certificate:
    """Return the certificate in a JSON value, after checking its types.

    Args:
        content: the value.
        place: what it is the certificate of, for the message.

    Raises:
        InputError: not a certificate of labeldp, or a damaged one.
    """
    try:
        certificate = Certificate.from_json(content)
        requested_delta(certificate.entries)
        texts = (certificate.dataset, certificate.published, *certificate.assumptions, *certificate.cohorts)
        lists = (content["assumptions"], content.get("cohorts", []))
        whole = all(isinstance(text, str) for text in texts) and all(isinstance(each, list) for each in lists)
    except InputError:
        whole = False
    if not whole:
        raise InputError(f"the certificate of {place} is damaged, or this is not a certificate of labeldp")
    if not certificate.entries:
        raise InputError(f"the certificate of {place} lists no charge, and so certifies no release; do not rely on it")
    return certificate
