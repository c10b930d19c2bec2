"""Charges, the certificates that list them, and the values that they certify."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from itertools import chain
from math import ceil, exp, log
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy.charges import Charge, Promise, promised, stated_unit, total_loss
from labeldp.privacy.errors import InputError, PrivacyWarning
from labeldp.privacy.exact import decimal, decimal_text, float_above, rounded_up_text
from labeldp.privacy.loss import PrivacyLoss
from labeldp.privacy.randomness import RandomnessKind, RandomSource
from labeldp.privacy.request import Request
from labeldp.privacy.unit import Unit, common_unit
from labeldp.privacy.validate import stored_fraction

T = TypeVar("T")

U = TypeVar("U")


class Trust(Enum):
    """Who sees the labels before the noise."""

    LOCAL = "local: noise is added to each label"
    CENTRAL = "central: a trusted curator sees the labels"
    NONE = "none: no one is protected"


JOINT = " + "
"""What separates the phrases of `Certificate.published`."""

SHOWN_COHORTS = 10
"""The most cohorts that a certificate names."""


@dataclass(frozen=True)
class Certificate:
    """Privacy guarantee of one release; printed, it is four lines.

    Everything in it is public. `entries` are the charges that the released value depends on, so that the union of
    several certificates counts each charge once. `neighbors` is the unit of protection; see `stated_unit`. `cohorts`
    names the cohorts that it is about; it is empty if these are all. `request` is the request, in the certificate of a
    file or a model. It does not count in comparisons.
    """

    entries: tuple[Charge, ...]
    dataset: str
    neighbors: Unit
    trust: Trust
    randomness: RandomnessKind
    published: str
    assumptions: tuple[str, ...] = ()
    cohorts: tuple[str, ...] = ()
    request: Request | None = field(default=None, repr=False, compare=False)

    def epsilon(self, delta: Any = 0.0) -> float:
        """Return the smallest epsilon of the guarantee at one delta, rounded up, or infinity."""
        return float("inf") if self.trust is Trust.NONE else promised(self.entries, delta).epsilon

    def __str__(self) -> str:
        """Return the four lines at the delta of the release, or at the budget's if the former gives no guarantee."""
        delta = requested_delta(self.entries)
        budgets = sum((share for _, share in promised(self.entries, delta).budgets), Fraction(0))
        return self.at(max(delta, min(budgets, Fraction(1))))

    def at(self, delta: Any = 0.0) -> str:
        """Return the guarantee at one delta in four lines; a simulation has a line before them.

        It is the guarantee of one release, or of a plan that was declared before the first of its releases. For several
        releases it is the sum of their pure costs or the budget of their dataset, whichever is less.

        Args:
            delta: in [0, 1]; with 0 the guarantee holds for every output without exception.
        """
        promise, words = promised(self.entries, delta), self.neighbors.words
        guarantee, more = self._guarantee(promise, words.other)
        simulated = self.randomness is RandomnessKind.SIMULATION
        trust = self.trust.value.replace("labels", words.seen[1]).replace("label", words.seen[0])
        protects = f"{words.unit} of {self._of()}dataset {self.dataset!r} ({trust})"
        conditions = [one_line(text) for text in (*self.assumptions, *more)]
        numbered = [f"{i}. {text}" for i, text in enumerate(conditions, 1)] if len(conditions) > 1 else conditions
        lines = {
            "Protects": "nothing" if self.trust is Trust.NONE else protects,
            "Guarantee": f"NONE. With secret noise: {guarantee}" if simulated else guarantee,
            "Published": self.published,
            "Conditions": "  ".join(numbered) or "none",
        }
        texts = [f"{name + ':':<12}{one_line(text)}" for name, text in lines.items()]
        return "\n".join([SIMULATED, *texts] if simulated else texts)

    def _guarantee(self, promise: Promise, other: str) -> tuple[str, list[str]]:
        """Return what is guaranteed under `other` values of the unit of protection, and on which further conditions."""
        if self.trust is Trust.NONE:
            smallest = total_loss(self.entries).delta(_LARGEST_EPSILON)
            return f"NONE. No ε gives δ below {rounded_up_text(smallest)}.", []
        if promise.epsilon == float("inf"):
            return f"NONE at δ = {decimal_text(float_above(promise.delta))}{_nothing(promise)}", []
        epsilon, delta = rounded_up_text(promise.epsilon), decimal_text(float_above(promise.delta))
        factor = f"{ceil(1000 * exp(promise.epsilon)) / 1000:.3f}" if promise.epsilon <= 50 else f"e^{epsilon}"
        if promise.kind == "sum":
            said = f"a sum of ε = {epsilon} for these outputs; others might have cost more. "
            meant = f"They are at most {factor} times as likely under {other}"
        else:
            said = f"ε = {epsilon}, δ = {delta}"
            meant = f". Any output is at most {factor} times as likely under {other}"
            if promise.delta:
                meant = f". The probability of any set of outputs is at most {factor} times that under {other}"
                meant += f", plus {delta}"
        weak = " WARNING: weak guarantee." if promise.epsilon > WEAK_EPSILON else ""
        accounts = {charge.keeps for charge in self.entries if charge.keeps is not None}
        if weaker := [unit.words.unit for unit in accounts if not unit.covers(self.neighbors)]:
            weak = f" All releases of the dataset together protect {weaker[0]} only.{weak}"
        if promise.uncovered is not None:
            uncovered, share = rounded_up_text(promise.uncovered[0]), decimal_text(float_above(promise.uncovered[1]))
            weak = f" Records of the other parts: ε = {uncovered}, δ = {share}.{weak}"
        if promise.kind != "sum" and any(part.kind == "sum" for part in promise.others):
            weak = f" Records of some parts: a sum for these outputs; others might have cost more.{weak}"
        parts = (promise, *promise.others)
        whose = {charge.account or charge.id for charge in self.entries}
        same = [SAME_USERS] if self.neighbors is Unit.ONE_USER and len(whose) > 1 else []
        sentences = [text for part in parts if part.kind == "budget" for text in self._kept(part)[2]]
        more = list(
            dict.fromkeys([*same, *sentences, *[SHOWN for part in parts if part.kind == "block" and part.blocks]])
        )
        if promise.kind == "budget":
            which, beyond, _ = self._kept(promise)
            return f"{said} ({which}){meant}{beyond}.{weak}", more
        if promise.kind == "sum" or not promise.blocks:
            return f"{said}{meant}{BEYOND}.{weak}", more
        steps = max(sum(step.times for step in block.steps) for block in promise.blocks)
        plan = f" (all {steps} steps of a declared plan, taken or not)" if steps > 1 else ""
        return f"{said}{plan}{meant}{BEYOND}.{weak}", more

    def _kept(self, promise: Promise) -> tuple[str, str, list[str]]:
        """Return whose budget is guaranteed, beyond which other releases, and on which conditions."""
        charges = [charge for block in promise.blocks for charge in block.charges]
        changed = any(len(set(charge.budgets)) > 1 for charge in charges)
        shares = sorted({charge.facts.get("share") or "datasets without shares" for charge in charges})
        about, beyond = "", BEYOND_SHARE
        if shares == ["datasets without shares"]:
            whose = "the whole budget" if len(promise.budgets) == 1 else "the sum of the budgets of all ledgers"
            beyond = ""
        elif len(shares) == 1:
            whose, about = f"the whole share of {shares[0]}", f" to {shares[0]}"
        else:
            whose, about = f"the sum of the budgets of {' and '.join(shares)}", " to them"
        largest = ", the largest so far" if changed else ""
        which = f"{whose}{largest}, for all releases{about}, now or later, however each was chosen"
        return which, beyond, [RAISED, FIXED] if changed else [RAISED]

    def _of(self) -> str:
        """Return the cohorts of the dataset, in words."""
        names = [repr(name) for name in self.cohorts]
        if len(names) > SHOWN_COHORTS:
            names[2:-1] = [f"… ({len(names)} in all)"]
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
        return f"cohort{'s' * (len(names) > 1)} {listed} of " if names else ""

    @property
    def phrases(self) -> list[str]:
        """The published values, a phrase for each kind."""
        return self.published.split(JOINT)

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
            entries = tuple(Charge.from_json(entry) for entry in value["entries"])
            if len({charge.id for charge in entries}) < len(entries):
                raise ValueError("a charge counts once")
            if entries and not stated_unit(entries).covers(Unit[value["neighbors"]]):
                raise ValueError("its charges protect less")
            return cls(
                entries=entries,
                dataset=value["dataset"],
                neighbors=Unit[value["neighbors"]],
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

    def __str__(self) -> str:
        """Return the certificate: a printed release shows its guarantee, and not its value."""
        return str(self.certificate)


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
            raise InputError("is required: state why the value does not depend on the private labels", argument="why")


BEYOND = ", beyond what other releases of the same records tell"
"""The limit of a guarantee about some releases of a dataset."""

BEYOND_SHARE = ", beyond what releases to others tell"
"""The limit of a guarantee about the releases to one analyst."""

SHOWN = "the decision to show this release does not depend on any output"
"""The condition of a guarantee about one of several releases."""

RAISED, FIXED = "the budget is not raised", "this largest budget was fixed independently of the outputs"
"""The conditions of a guarantee that is a budget; the second one if the budget was changed."""

SAME_USERS = "records of one user are records of one user in every account that was charged"
"""The condition of a guarantee for users that several accounts keep."""

SIMULATED = "SIMULATION – seeded noise, no privacy"

WEAK_EPSILON = 10
"""Above this epsilon a promise is called weak where it is asked for: odds may change by a factor of 22,000."""

_LARGEST_EPSILON = 10**6
"""An epsilon above all that promises anything."""


def one_line(text: str) -> str:
    """Return a text on one line without control characters: no reason of a user looks like a line of a certificate."""
    joined = " ".join(part.strip() for part in text.splitlines())
    if joined.isprintable():
        return joined
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in joined)


def _nothing(promise: Promise) -> str:
    """Return why there is no guarantee, and for which question there is one."""
    if len(promise.blocks) <= 1:
        return ": no finite ε holds. Ask at a larger δ."
    together = " for these releases together"
    if not promise.budgets:
        return f"{together}: they have no common budget. Ask about each release alone."
    share = decimal_text(float_above(sum((delta for _, delta in promise.budgets), Fraction(0))))
    return f"{together}: their budget has δ = {share}. Ask at that δ, or about each release alone."


def weak_promise(epsilon: float, about: str = "one label") -> str:
    """Return a warning about an epsilon above 10, or "" for a smaller one; the factor is rounded up."""
    if not WEAK_EPSILON < epsilon < float("inf"):
        return ""
    exponent = epsilon / log(10) * (1 + 1e-12)
    factor = f"{float(rounded_up_text(10**exponent, 3)):,.0f}" if exponent < 9 else f"10^{ceil(exponent)}"
    return f"epsilon = {decimal_text(epsilon)} is a weak guarantee: the odds about {about} can change {factor}-fold"


def warn_of_weak_budget(epsilon: Any, delta: Any, records: int) -> None:
    """Issue a PrivacyWarning for an epsilon above 10, and for a delta that is not below one over the records."""
    sentences = [weak_promise(float(decimal(epsilon, "epsilon")))]
    if records and decimal(delta, "delta") * records >= 1:
        sentences.append(
            f"delta = {decimal_text(delta)} is not below 1/{records}, one over the number of records: it allows to "
            "publish the label of one record. Use a far smaller delta"
        )
    for sentence in filter(None, sentences):
        warnings.warn(sentence, PrivacyWarning, stacklevel=4)


def gather(releases: Sequence[Release[Any]], function: Callable[..., U]) -> Release[U]:
    """Join releases: `function` of their values, certified by the union of their charges.

    `map` on one of them would understate what a value of several inputs costs. What protects users protects each of
    their records, so that joined with a release that protects records it counts for records. Several releases together
    protect what the accounts protect that they were charged to; see `stated_unit`.

    Raises:
        InputError: no release, something else, or releases that share no unit of protection.
    """
    if not all(isinstance(release, Release) for release in releases):
        raise InputError("must be what Curator.release or a learner returned, each of them", argument="releases")
    if not releases:
        raise InputError("releases must hold at least one release")
    certificate = join_certificates([release.certificate for release in releases])
    return Release(function(*(release.value for release in releases)), certificate)


def join_certificates(certificates: Sequence[Certificate]) -> Certificate:
    """Return one certificate for all: each charge once, and the weaker guarantee where they differ.

    Raises:
        InputError: they share no unit of protection, such as labels and losses of rounds.
    """
    entries: dict[str, Charge] = {}
    for entry in (entry for certificate in certificates for entry in certificate.entries):
        if entries.setdefault(entry.id, entry) != entry:
            raise InputError("certificates state one charge in two ways: one of them was changed by hand")
    datasets = dict.fromkeys([certificate.dataset for certificate in certificates])
    units = [certificate.neighbors for certificate in certificates]
    parts = len(datasets) == 1 and all(certificate.cohorts for certificate in certificates)
    return Certificate(
        entries=tuple(entries.values()),
        dataset=" and ".join(datasets),
        neighbors=common_unit([*units, stated_unit(entries.values())] if entries else units),
        trust=max([certificate.trust for certificate in certificates], key=list(Trust).index),
        randomness=max([certificate.randomness for certificate in certificates], key=list(RandomnessKind).index),
        published=JOINT.join(_distinct([certificate.phrases for certificate in certificates])),
        assumptions=_distinct([certificate.assumptions for certificate in certificates]),
        cohorts=_distinct([certificate.cohorts for certificate in certificates]) if parts else (),
    )


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
        """The user of each record, public numbers, shape (n,); None where each record is protected by itself."""

    def release(self, mechanism: Any, *, rng: RandomSource, step: str | None = None) -> Release[Any]:
        """Charge the mechanism, draw, and return the release."""

    def cost(self, mechanism: Any) -> PrivacyLoss:
        """Return what a release would cost a label or, with users, all labels of a user."""

    def require(self, steps: Mapping[str, Any]) -> None:
        """Refuse steps that the budget would not admit together; nothing is charged."""

    def has_released(self, mechanism: Any, *, step: str) -> bool:
        """Return whether a durable ledger holds a release of these records, of that step and cost; public and free."""

    def split(self, parts: Public[NDArray[np.integer[Any]]]) -> Sequence["CuratorLike"]:
        """Return one curator for each part; the parts are disjoint by construction."""

    def limited(self, cap: int) -> tuple["CuratorLike", NDArray[np.intp]]:
        """Return a curator of at most `cap` records of each user, and which ones these are."""


def requested_delta(charges: Iterable[Charge]) -> Fraction:
    """Return the largest delta that a mechanism was asked to keep; 0 where none was.

    Raises:
        InputError: the delta of a mechanism is not a number from 0 to 1.
    """
    try:
        deltas = [charge.mechanism.get("delta") for charge in charges]
        delta = max((stored_fraction(number) for number in deltas if number is not None), default=Fraction(0))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError("this is not a certificate of labeldp") from error
    if not 0 <= delta <= 1:
        raise InputError("this is not a certificate of labeldp")
    return delta


def _holds(content: Any, written: Any) -> bool:
    """Return whether a JSON value has all of another one, with the same types; objects may have more keys.

    What is read must be what is written. Otherwise 2.7 steps count as 2 here, and as something else to another reader.
    """
    if isinstance(written, dict):
        return isinstance(content, dict) and all(
            name in content and _holds(content[name], value) for name, value in written.items()
        )
    if isinstance(written, list):
        same = isinstance(content, list) and len(content) == len(written)
        return same and all(_holds(part, value) for part, value in zip(content, written, strict=True))
    return type(content) is type(written) and bool(content == written)


def checked_certificate(content: Any, path: object) -> Certificate:
    """Return the certificate of a path in a JSON value; raise InputError for a damaged one."""
    try:
        certificate = Certificate.from_json(content)
        requested_delta(certificate.entries)
        texts = (certificate.dataset, certificate.published, *certificate.assumptions, *certificate.cohorts)
        texts += tuple(charge.mechanism.get("mechanism", 0) for charge in certificate.entries)
        texts += tuple(charge.mechanism.get("delta") or "0" for charge in certificate.entries)
        lists = (content["assumptions"], content.get("cohorts", []))
        readable = all(isinstance(text, str) for text in texts) and all(isinstance(part, list) for part in lists)
        readable = readable and _holds(content, replace(certificate, request=None).to_json())
        readable = readable and not any(charge.exceeds_budgets for charge in certificate.entries)
    except (InputError, ArithmeticError):
        readable = False
    if not readable:
        raise InputError(f"the certificate of {path} is damaged, or this is not a certificate of labeldp")
    if not certificate.entries:
        raise InputError(f"the certificate of {path} lists no charge, and so certifies no release; do not rely on it")
    return certificate
