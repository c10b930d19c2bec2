"""Budgets: the most that all releases about one set of labels may cost together."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from labeldp.privacy.errors import Argument, InputError
from labeldp.privacy.exact import decimal, decimal_text, float_above, positive_epsilon
from labeldp.privacy.loss import PrivacyLoss, RecordLoss


@dataclass(frozen=True)
class Budget:
    """The most that all releases about one set of labels may cost together.

    Args:
        epsilon: positive, at most 1000; the decimal as written counts.
        delta: in [0, 1); 0 admits pure guarantees only.

    Examples:
        >>> Budget(epsilon=1.0).admits(PrivacyLoss.pure(0.1) * 10)
        True
    """

    epsilon: Any
    delta: Any = 0

    def __post_init__(self) -> None:
        positive_epsilon(self.epsilon)
        if not 0 <= decimal(self.delta, "delta") < 1:
            raise InputError("must lie in [0, 1), such as ", Argument("delta", "1e-6"), argument="delta")

    def admits(self, loss: PrivacyLoss | RecordLoss) -> bool:
        """Return whether `loss` stays within the budget, in exact decimals where the guarantee is pure."""
        return loss.within(self.epsilon, self.delta)

    def __str__(self) -> str:
        return f"epsilon = {decimal_text(self.epsilon)}, delta = {decimal_text(self.delta)}"


def numbers_of(budget: Budget) -> tuple[Fraction, Fraction]:
    """Return epsilon and delta of a budget, exact."""
    return decimal(budget.epsilon, "epsilon"), decimal(budget.delta, "delta")


def whole_cost(loss: PrivacyLoss) -> Budget | None:
    """Return the budget that admits one release and nothing more; None where its loss has a delta."""
    return None if loss.max_loss is None else Budget(float_above(loss.max_loss))
