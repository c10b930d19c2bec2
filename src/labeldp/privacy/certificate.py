"""Charges, the certificates that list them, and the values that they certify."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from itertools import chain
from math import ceil, exp, log
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy.charges import Charge, Promise, promised, total_loss
from labeldp.privacy.errors import InputError, PrivacyWarning
from labeldp.privacy.exact import decimal, decimal_text, float_above, rounded_up_text
from labeldp.privacy.loss import PrivacyLoss
from labeldp.privacy.randomness import RandomnessKind, RandomSource
from labeldp.privacy.request import Request
from labeldp.privacy.stored import stored_fraction

T = TypeVar("T")

U = TypeVar("U")


class Neighbors(Enum):
    """Which two datasets must look alike."""

    ONE_LABEL = "the label of one record is replaced"
    ONE_USER = "all labels of one user are replaced"
    ONE_LOSS = "one round's loss function is replaced"
    ZERO_OUT = "one round's loss function is replaced by zero"
    FULL = "one whole record, features and label, is replaced"


def check_loss_neighbors(value: Any) -> Neighbors:
    """Return how sequences of losses may differ: in the loss of one round, replaced or set to zero.

    Raises:
        InputError: another relation.
    """
    if value not in (Neighbors.ONE_LOSS, Neighbors.ZERO_OUT):
        raise InputError("must be Neighbors.ONE_LOSS or Neighbors.ZERO_OUT", argument="neighbors")
    return Neighbors(value)


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
    Neighbors.ONE_USER: _Wording("Label differential privacy", "user", _LABELS, "all labels of any one user"),
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


@dataclass(frozen=True)
class Certificate:
    """What one release promises, to whom, and under which conditions.

    Everything in it is public. `entries` are the charges that the released value depends on, so
    that join_certificates releases can be charged once each. `cohorts` names those of the dataset that it is about,
    and is empty where that is all of it. `request` is what was asked, in the certificate of a file or a model:
    certificates of the same promise are equal, whatever was asked.
    """

    entries: tuple[Charge, ...]
    dataset: str
    neighbors: Neighbors
    trust: Trust
    randomness: RandomnessKind
    published: str
    assumptions: tuple[str, ...] = ()
    cohorts: tuple[str, ...] = ()
    request: Request | None = field(default=None, repr=False, compare=False)

    def epsilon(self, delta: Any = 0.0) -> float:
        """Return the smallest epsilon that may be promised at one delta, rounded up, or infinity; see `promised`."""
        return float("inf") if self.trust is Trust.NONE else promised(self.entries, delta).epsilon

    def at(self, delta: Any = 0.0) -> str:
        """Return the guarantee at one delta, as a sentence.

        It is that of one release, or of a plan that was declared before the first of its releases; of several together
        it is the sum of their pure costs or the budget of their dataset, whichever is less.

        Args:
            delta: in [0, 1]; with 0 the promise holds for every output without exception.
        """
        promise, words = promised(self.entries, delta), _WORDING[self.neighbors]
        share = decimal_text(float_above(promise.delta))
        if self.trust is Trust.NONE:
            surely = total_loss(self.entries).delta(_LARGEST_EPSILON)
            said = f"None: no epsilon promises a delta below {rounded_up_text(surely)}"
        elif promise.epsilon == float("inf"):
            said = f"No finite epsilon is promised at delta = {share}"
        elif promise.kind == "sum":
            said = f"{words.kind} of what was published here, by a sum of epsilon = {rounded_up_text(promise.epsilon)},"
        else:
            said = f"{words.kind} with epsilon = {rounded_up_text(promise.epsilon)} and delta = {share}"
        parts = [
            f"{said} for every {words.unit} of {self._of()}the dataset {self.dataset!r}, where neighbors are two "
            f"datasets in which {self.neighbors.value}; {words.trusted(self.trust)}.",
            *([] if self.trust is Trust.NONE else self._meant(promise, words.changed)),
            f"Published: {self.published}.",
            f"Randomness: {self.randomness.value}.",
        ]
        if self.assumptions:
            parts.append("This holds on condition that: " + "; ".join(self.assumptions) + ".")
        return " ".join(part for part in parts if part)

    def _meant(self, promise: Promise, changed: str) -> list[str]:
        """Return what a promise is about and what its numbers mean, for readers without the definition."""
        if promise.epsilon == float("inf"):
            several = len(promise.blocks) > 1
            return [_nothing(promise)] if several else []
        factor = f"{ceil(1000 * exp(promise.epsilon)) / 1000:.3f}" if promise.epsilon <= 50 else ""
        except_for = f", up to a probability of {float_above(promise.delta):g}" if promise.delta else ""
        if promise.kind == "sum":
            more = f"Changing {changed} makes this result at most {factor} times more likely{BEYOND}." if factor else ""
            return [more, SUMMED]
        likely = f"Changing {changed} makes any published result at most {factor} times more likely{except_for}"
        if promise.kind == "budget":
            return [f"{likely}." if factor else "", self._kept(promise)]
        steps = max((sum(step.times for step in block.steps) for block in promise.blocks), default=1)
        whole = f"This counts all {steps} steps of a declared plan, those not taken included." if steps > 1 else ""
        return [whole, f"{likely}{BEYOND}." if factor else "", SHOWN if steps == 1 else ""]

    def _kept(self, promise: Promise) -> str:
        """Return whose budget is promised."""
        charges = [charge for block in promise.blocks for charge in block.charges]
        changed = any(len(set(charge.budgets)) > 1 for charge in charges)
        shares = {charge.facts.get("share") for charge in charges}
        whose = "the budget of the dataset" if len(promise.budgets) == 1 else "the budgets of its ledgers added up"
        about, except_for = "everything that is released", ""
        if len(shares) == 1 and None not in shares:
            [share] = shares
            whose, about = f"the share of {share}", f"everything that is released to {share}"
            except_for = BEYOND_SHARE
        largest = ", the largest that it had, by whoever fixes that number beforehand" if changed else ""
        return (
            f"This is {whose}{largest}: it covers {about}, now or later, however each release was chosen, as long as "
            f"the budget is not raised{except_for}."
        )

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
        request = {} if self.request is None else {"request": self.request.to_json()}
        return {
            "entries": [entry.to_json() for entry in self.entries],
            "dataset": self.dataset,
            "neighbors": self.neighbors.name,
            "trust": self.trust.name,
            "randomness": self.randomness.name,
            "published": self.published,
            "assumptions": list(self.assumptions),
            **cohorts,
            **request,
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
                request=Request.from_json(value["request"]) if "request" in value else None,
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


BEYOND = ", beyond what other releases of the same records tell"
"""The limit of a promise about some releases of a dataset."""

BEYOND_SHARE = ", beyond what releases to others tell"
"""The limit of a promise about the releases to one analyst."""

SHOWN = "Which of several releases is shown must not depend on their outputs."

SUMMED = (
    "The sum holds however each release was chosen; other outputs might have led to other releases, and to another sum."
)

WEAK_EPSILON = 10
"""Above this epsilon a promise is called weak where it is asked for: odds may change by a factor of 22,000."""

_LARGEST_EPSILON = 10**6
"""An epsilon above all that promises anything."""


def _nothing(promise: Promise) -> str:
    """Return why nothing is promised of several releases together."""
    share = sum((delta for _, delta in promise.budgets), Fraction(0))
    if not promise.budgets:
        return "Nothing is promised of these releases together, which name no budget. Ask of each by itself."
    return (
        f"Nothing is promised of these releases together: their budget has delta = {decimal_text(float_above(share))}. "
        "Ask at that delta, or of each by itself."
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


def warn_of_weak_budget(epsilon: Any, delta: Any, records: int) -> None:
    """Issue a PrivacyWarning for an epsilon above 10, and for a delta that is not below one over the records.

    Args:
        epsilon, delta: of a budget that is charged.
        records: how many labels the release uses; 0 where nobody says.
    """
    sentences = [weak_promise(float(decimal(epsilon, "epsilon")))]
    if records and decimal(delta, "delta") * records >= 1:
        sentences.append(
            f"delta = {decimal_text(delta)} is not below 1/{records}, one over the number of records: a mechanism that "
            "publishes the label of one record would keep it. Take a delta far below that"
        )
    for sentence in filter(None, sentences):
        warnings.warn(sentence, PrivacyWarning, stacklevel=4)


def gather(releases: Sequence[Release[Any]], function: Callable[..., U]) -> Release[U]:
    """Join releases: `function` of their values, certified by the union of their charges.

    `map` on one of them would understate what a value of several inputs costs. What protects users protects each of
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
    if len(relations) > 1 and relations != {Neighbors.ONE_LABEL, Neighbors.ONE_USER}:
        raise InputError("releases must share one neighboring relation")
    return Release(function(*(release.value for release in releases)), join_certificates(certificates))


def join_certificates(certificates: Sequence[Certificate]) -> Certificate:
    """Return one certificate for all: each charge once, and the weaker promise where they differ."""
    entries = {entry.id: entry for certificate in certificates for entry in certificate.entries}
    datasets = dict.fromkeys([certificate.dataset for certificate in certificates])
    relations = {certificate.neighbors for certificate in certificates}
    first = certificates[0].neighbors
    mixed = first is Neighbors.ONE_USER and Neighbors.ONE_LABEL in relations
    parts = len(datasets) == 1 and all(certificate.cohorts for certificate in certificates)
    return Certificate(
        entries=tuple(entries.values()),
        dataset=" and ".join(datasets),
        neighbors=Neighbors.ONE_LABEL if mixed else first,
        trust=max([certificate.trust for certificate in certificates], key=list(Trust).index),
        randomness=max([certificate.randomness for certificate in certificates], key=_WEAKEST_LAST.index),
        published="; ".join(_distinct([certificate.published.split("; ") for certificate in certificates])),
        assumptions=_distinct([certificate.assumptions for certificate in certificates]),
        cohorts=_distinct([certificate.cohorts for certificate in certificates]) if parts else (),
    )


_WEAKEST_LAST = [
    RandomnessKind.SYSTEM,
    RandomnessKind.KEYED,
    RandomnessKind.DECLARED,
    RandomnessKind.SIMULATION,
    RandomnessKind.NONE,
]


def _distinct(texts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(texts)))


class CuratorLike(Protocol):
    """The curator as a private learner uses it."""

    @property
    def records(self) -> int:
        """The number of records that the curator holds; public."""

    @property
    def domain(self) -> Any:
        """The declared domain of the labels."""

    @property
    def users(self) -> Public[NDArray[np.int64]] | None:
        """Whose each record is, public numbers, shape (n,); None where each record is protected by itself."""

    def release(self, mechanism: Any, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """Charge the mechanism, draw, and return the release."""

    def cost(self, mechanism: Any) -> PrivacyLoss:
        """Return what a release would cost a label or, with users, all labels of a user."""

    def require(self, steps: Mapping[str, PrivacyLoss]) -> None:
        """Refuse steps that the budget would not admit together; nothing is charged."""

    def has_released(self, mechanism: Any, *, step: str) -> bool:
        """Return whether a durable ledger holds a release of these records, of that step and cost; public and free."""

    def split(self, parts: Public[NDArray[np.integer[Any]]]) -> Sequence["CuratorLike"]:
        """Return one curator for each part; the parts are disjoint by construction."""

    def limited(self, most: int) -> tuple["CuratorLike", NDArray[np.intp]]:
        """Return a curator of at most `most` records of each user, and which ones these are."""


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
