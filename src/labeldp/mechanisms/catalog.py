"""The catalog of mechanisms: the only list. It imports nothing heavy, so that help on the command line is fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class MechanismEntry:
    """A mechanism that `restore` builds again, servers release by, and the contract tests check.

    Args:
        path: "module:class" of its class.
        help: what it releases, in a few words.
        domains: the command line options that may declare its labels, "classes" and "range".
        where: what it answers: "records", "groups" of records, sums of public "rows", or "bags".
        command: its name in `labeldp release`; empty where that does not offer it.
        options: what `labeldp release` takes for it beyond a domain and epsilon; all of the others are refused.
        needs_delta: whether delta must be positive.
    """

    path: str
    help: str
    domains: tuple[str, ...] = ("classes",)
    where: str = "records"
    command: str = ""
    options: tuple[str, ...] = ()
    needs_delta: bool = False

    @property
    def name(self) -> str:
        """The name of its class, which specifications hold."""
        return self.path.partition(":")[2]

    @property
    def on_bags(self) -> bool:
        """Whether it releases sums over bags."""
        return self.where == "bags"

    def load(self) -> Any:
        """Return its class."""
        return load(self.path)


def load(path: str) -> Any:
    """Return what "module:name" stands for; never call it with a text from a file."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


_BOTH = ("classes", "range")
_RANGE = ("range",)
_BAG_OPTIONS = ("size", "delta", "bags")

MECHANISMS: Mapping[str, MechanismEntry] = {
    entry.name: entry
    for entry in (
        MechanismEntry(
            "labeldp.mechanisms.randomized_response:RandomizedResponse",
            "a class that may be a lie",
            command="randomized-response",
        ),
        MechanismEntry(
            "labeldp.mechanisms.randomized_response:RandomizedResponseTopK",
            "one of the k likely classes, which may be a lie",
        ),
        MechanismEntry(
            "labeldp.mechanisms.randomized_response:RandomizedResponseWithPrior",
            "one of the likely classes of a record, which may be a lie",
        ),
        MechanismEntry(
            "labeldp.mechanisms.local_hashing:LocalHashing",
            "a group of classes that may be a lie, of groups drawn for each record",
            command="local-hashing",
        ),
        MechanismEntry("labeldp.mechanisms.local_hashing:SubsetSelection", "a random set of k classes"),
        MechanismEntry(
            "labeldp.mechanisms.randomized_response:UnaryEncoding",
            "a noisy bit for each class",
            command="unary-encoding",
        ),
        MechanismEntry("labeldp.mechanisms.optimal:Optimal", "the label of least expected loss", _BOTH),
        MechanismEntry("labeldp.mechanisms.additive:GaussianOneHot", "a noisy number for each class"),
        MechanismEntry(
            "labeldp.mechanisms.additive:DiscreteLaplace", "a number with noise", _RANGE, command="discrete-laplace"
        ),
        MechanismEntry(
            "labeldp.mechanisms.numbers:UnbiasedNumbers",
            "one of a few numbers, which average to the label",
            _RANGE,
            command="unbiased-numbers",
        ),
        MechanismEntry(
            "labeldp.mechanisms.numbers:ResponseOnBins",
            "an interval of the range that may be a lie",
            _RANGE,
            command="response-on-bins",
        ),
        MechanismEntry(
            "labeldp.mechanisms.centered:ResponseOnPoints",
            "one of a few points of a public span, which average to the label",
            _RANGE,
        ),
        MechanismEntry(
            "labeldp.mechanisms.centered:ResponseOnDistances",
            "a bin of the distance from a public center, that may be a lie",
            _RANGE,
        ),
        MechanismEntry("labeldp.mechanisms.histograms:LaplaceHistogram", "noisy class counts", where="groups"),
        MechanismEntry("labeldp.mechanisms.histograms:LaplaceSum", "noisy sums of labels", _BOTH, "groups"),
        MechanismEntry("labeldp.mechanisms.histograms:ExponentialMechanism", "a frequent class", where="groups"),
        MechanismEntry("labeldp.mechanisms.histograms:PermuteAndFlip", "a frequent class", where="groups"),
        MechanismEntry("labeldp.mechanisms.errors:SquaredErrors", "the noisy sum of squared errors", _RANGE, "rows"),
        MechanismEntry("labeldp.mechanisms.moments:GaussianMoment", "noisy sums weighted by labels", _BOTH, "rows"),
        MechanismEntry("labeldp.mechanisms.moments:LaplaceMoment", "noisy sums weighted by labels", _BOTH, "rows"),
        MechanismEntry("labeldp.mechanisms.moments:GaussianChoice", "noisy sums of chosen rows", where="rows"),
        MechanismEntry("labeldp.bags.sums:BagSum", "a noisy sum for each bag", _BOTH, "bags", "bag-sum", _BAG_OPTIONS),
        MechanismEntry(
            "labeldp.bags.llp:NoisyWeightedLLP",
            "weighted sums, with their weights",
            _BOTH,
            "bags",
            "noisy-weighted-llp",
            (*_BAG_OPTIONS, "noisy", "weights"),
            needs_delta=True,
        ),
        MechanismEntry(
            "labeldp.bags.lba:WeightedLBA",
            "weighted sums of features and labels, with secret weights",
            _BOTH,
            "bags",
            "weighted-lba",
            (*_BAG_OPTIONS, "rows"),
            needs_delta=True,
        ),
    )
}
"""Every mechanism of the package, by the name of its class."""

COMMANDS: Mapping[str, MechanismEntry] = {entry.command: entry for entry in MECHANISMS.values() if entry.command}
"""The mechanisms of `labeldp release`, by their names on the command line."""
