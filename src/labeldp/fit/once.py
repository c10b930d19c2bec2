"""A fit without a ledger file: one for an estimator and all its clones."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from labeldp.curator import Ledger
from labeldp.privacy import Budget, BudgetExceeded, Charge, Path, RecordLoss, SingleProcess, decimal

FREE = (
    "Scores cost nothing: a fitted model has its own in evaluation_, and cross-validation is free on labels that were "
    "released once (NoisyLabelClassifier, debiased_scorer)"
)
"""What costs nothing after a fit, in words."""

LEDGER = "a ledger file, ledger= and dataset=, whose budget says how much more these labels may cost"

USED = (
    "this estimator, or a clone of it, was fitted before, and all clones share one right to fit: another fit, also to "
    f"a fold of a cross-validation, would look at private labels again. {FREE}. To fit again on purpose, give {LEDGER}"
)

NO_RIGHT = (
    "this estimator was copied or pickled, and such a copy has no right to fit: fit the one that you made, or a clone "
    f"of it, or give {LEDGER}. {FREE}"
)
"""Why a copy of an estimator may not fit."""


@final
class RightToFit(SingleProcess):
    """The right of an estimator and all its clones to one fit without a ledger file.

    Guarantee (charged_once): of all fits that share a right, in any number of threads, one is charged.
    """

    _why_no_copy = f"a right to fit cannot be copied or pickled: {NO_RIGHT}"
    _why_no_fork = (
        "an estimator's right to fit belongs to the process that made it: fit it in that process, or give "
        f"{LEDGER}. {FREE}"
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._claim_process()

    @contextmanager
    def use(self, ledger: Ledger) -> Iterator[None]:
        """Let the body charge a ledger, unless an earlier body charged another one.

        Raises:
            BudgetExceeded: the right is used up.
            InputError: this is a fork of the process that the right belongs to.
        """
        self.check_process()
        with self._lock:
            if self._ledger is not None and self._ledger.charges:
                raise BudgetExceeded(USED)
            self._ledger = ledger
            yield


@dataclass(frozen=True)
class FitCost:
    """What a fit without a ledger file cost, for a report, which else asks the dataset of a ledger.

    Args:
        budget: of the fit.
        loss: what was spent of it.
    """

    budget: Budget
    loss: RecordLoss
    secret: ClassVar[tuple[str, ...]] = ()

    def read(self) -> "FitCost":
        """Return this cost."""
        return self

    def part(self, path: Path) -> Path:
        """Return the part that a charge used."""
        return path

    def used(self, *, without: Iterable[Charge] = ()) -> Fraction:
        """Return the share that is used up; nothing without this fit."""
        budget = decimal(self.budget.epsilon, "epsilon")
        return Fraction(0) if tuple(without) else decimal(self.loss.epsilon(self.budget.delta), "epsilon") / budget
