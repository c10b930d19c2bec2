"""Budgets: the most that all releases about one set of labels may cost together."""

from dataclasses import dataclass
from typing import Any

from labeldp.privacy.errors import Argument, InputError
from labeldp.privacy.exact import decimal, decimal_text, float_above, positive_epsilon
from labeldp.privacy.loss import PrivacyLoss, RecordLoss

KINDS = ("gaussian", "zcdp")
"""The kinds of filters, by what they add up: squares of mu, or rates of zero-concentrated privacy."""

LARGER_BUDGET = "A larger budget is a decision of its own: the worst that may ever be revealed of one label or round"
"""The sentence that ends the refusal of a budget."""


@dataclass(frozen=True)
class Budget:
    """The most that all releases about one set of labels may cost together.

    Args:
        epsilon: positive, at most 1000; the decimal as written counts.
        delta: in [0, 1); 0 admits pure guarantees only.
        kind: with a delta, the filter of a ledger that looks at each release as it comes: "gaussian", which is the
            default of a ledger file, or "zcdp", which admits more of many small releases with a pure loss.
        fixed: with a delta, in place of a filter: the releases are declared before the first of them
            (`Curator.require`), and no others are admitted. Together they may cost more of it.

    Examples:
        >>> Budget(epsilon=1.0).admits(PrivacyLoss.pure(0.1) * 10)
        True
    """

    epsilon: Any
    delta: Any = 0
    kind: str | None = None
    fixed: bool = False

    def __post_init__(self) -> None:
        positive_epsilon(self.epsilon)
        if self.kind is not None and self.kind not in KINDS:
            raise InputError("must be one of 'gaussian', 'zcdp'", argument="kind")
        if not isinstance(self.fixed, bool):
            raise InputError("must be True or False", argument="fixed")
        if not 0 <= decimal(self.delta, "delta") < 1:
            raise InputError("must lie in [0, 1), such as ", Argument("delta", "1e-6"), argument="delta")
        if self.kind is not None and (self.fixed or not decimal(self.delta, "delta")):
            raise InputError("goes with a delta, and not with fixed", argument="kind")
        if self.fixed and not decimal(self.delta, "delta"):
            raise InputError("goes with a delta: at delta = 0 costs may be chosen late", argument="fixed")

    def admits(self, loss: PrivacyLoss | RecordLoss) -> bool:
        """Return whether `loss` stays within the budget, in exact decimals where the guarantee is pure."""
        return loss.within(self.epsilon, self.delta)

    def __str__(self) -> str:
        return f"epsilon = {decimal_text(self.epsilon)}, delta = {decimal_text(self.delta)}"


def whole_cost(loss: PrivacyLoss) -> Budget | None:
    """Return the budget that admits one release and nothing more; None where its loss has a delta."""
    return None if loss.max_loss is None else Budget(float_above(loss.max_loss))
