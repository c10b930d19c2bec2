"""The mechanisms that `labeldp release` offers: the only list. It imports nothing heavy, so that help is fast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReleaseMechanism:
    """A mechanism that releases the label column of a file.

    Args:
        name: on the command line.
        type: its class in `labeldp.mechanisms`.
        help: what it releases, in a few words.
        domains: options that may declare its labels.
        output: how its output stands in a table: "labels", "bits" or "group"; "sums" over bags.
        options: what it takes beyond a domain and epsilon; all of the others are refused.
        needs_delta: whether delta must be positive.
    """

    name: str
    type: str
    help: str
    domains: tuple[str, ...]
    output: str = "labels"
    options: tuple[str, ...] = ()
    needs_delta: bool = False

    @property
    def on_bags(self) -> bool:
        """Whether it releases sums over bags, and not an answer for each record."""
        return self.output == "sums"


_BOTH = ("classes", "range")
_ON_BAGS = ("size", "delta", "bags")

RELEASE_MECHANISMS = {
    each.name: each
    for each in (
        ReleaseMechanism("randomized-response", "RandomizedResponse", "a class that may be a lie", ("classes",)),
        ReleaseMechanism(
            "partition-response",
            "PartitionResponse",
            "a group of classes that may be a lie, of groups drawn anew for each record",
            ("classes",),
            "group",
        ),
        ReleaseMechanism("unary-encoding", "UnaryEncoding", "a noisy bit for each class", ("classes",), "bits"),
        ReleaseMechanism("discrete-laplace", "DiscreteLaplace", "a number with noise", ("range",)),
        ReleaseMechanism(
            "unbiased-numbers", "UnbiasedNumbers", "one of a few numbers, which average to the label", ("range",)
        ),
        ReleaseMechanism(
            "response-on-bins", "ResponseOnBins", "an interval of the range that may be a lie", ("range",)
        ),
        ReleaseMechanism("bag-sum", "BagSum", "a noisy sum for each bag", _BOTH, "sums", _ON_BAGS),
        ReleaseMechanism(
            "noisy-weighted-llp",
            "NoisyWeightedLLP",
            "weighted sums, with their weights",
            _BOTH,
            "sums",
            (*_ON_BAGS, "noisy", "weights"),
            needs_delta=True,
        ),
        ReleaseMechanism(
            "weighted-lba",
            "WeightedLBA",
            "weighted sums of features and labels, with secret weights",
            _BOTH,
            "sums",
            (*_ON_BAGS, "rows"),
            needs_delta=True,
        ),
    )
}
"""The mechanisms of `labeldp release`, by their names on the command line."""
