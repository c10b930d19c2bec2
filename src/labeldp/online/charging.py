"""What a learner asks of a ledger: all of its rounds before the first action, and who goes on from a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np

from labeldp.privacy import (
    Certificate,
    Charge,
    InputError,
    LedgerLike,
    Neighbors,
    Path,
    PrivacyLoss,
    Randomness,
    Request,
    Trust,
    decimal,
)

MECHANISM_NAME = "PrivateExperts"

CLAIM_NAME = "going on from a snapshot"

_SEEN_LATER = (("rounds as they come", "losses", "seen after the charge"),)
"""Traces of losses for a durable ledger: there are none when a learner is charged before the first round."""


class OnlineLedger(LedgerLike, Protocol):
    """What a learner needs of a ledger: that of a curator, and the charges so far."""

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge so far, oldest first."""


def checked_ledger(ledger: OnlineLedger) -> OnlineLedger:
    """A ledger, and not the budget of one."""
    if not callable(getattr(ledger, "draw", None)):
        raise InputError("ledger must be one, such as Ledger(Budget(1, 1e-6)) or LedgerFile(path).dataset(name)")
    return ledger


class ChargeableKernel(Protocol):
    """What a ledger must know of a learner: a `Kernel`, a `ConvexKernel` or another one."""

    @property
    def neighbors(self) -> Neighbors:
        """Which losses count as neighboring."""

    @property
    def published(self) -> str:
        """What leaves, in words."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee depends on, in words."""

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return what everything that may be seen after the losses of so many rounds reveals of one round's losses."""


K = TypeVar("K", bound=ChargeableKernel)


@final
@dataclass(frozen=True)
class RoundsMechanism(Generic[K]):
    """All rounds of a learner as one mechanism, whose output is the sequence of its decisions.

    A ledger is charged for it once, before the first decision.

    Args:
        kernel: the learner; public.
        rounds: how many it will play.
        plan: the public plan that it came from, plain JSON values.
        run: names the learner. One run is charged once for its rounds.
        traces: of all losses where they are known beforehand, each (kind of ids, kind of losses, keyed digest); secret.
        name: of the mechanism in the ledger.
    """

    kernel: K
    rounds: int
    plan: Mapping[str, Any]
    run: str
    traces: tuple[tuple[str, str, str], ...] = field(default=_SEEN_LATER, repr=False)
    name: str = MECHANISM_NAME
    trust = Trust.CENTRAL
    basis: tuple[Certificate, ...] = ()

    @property
    def neighbors(self) -> Neighbors:
        """Which losses count as neighboring."""
        return self.kernel.neighbors

    @property
    def published(self) -> str:
        """What leaves, in words."""
        return f"{self.kernel.published}, for at most {self.rounds:,} rounds"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee depends on, in words."""
        return self.kernel.assumptions

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What all actions reveal: the last of them depends on the losses of the rounds before it."""
        return self.kernel.privacy_loss(self.rounds - 1)

    def spent(self, rounds: int) -> PrivacyLoss:
        """What was revealed once the losses of so many rounds were seen and the next action is known."""
        return self.kernel.privacy_loss(min(rounds, self.rounds - 1))

    def arrays(self) -> None:
        """None: a learner has no array with a row for each record."""

    def specification(self) -> dict[str, Any]:
        """All of it that is public, as plain JSON values; equal for equal learners."""
        delta = str(decimal(self.plan["delta"], "delta"))
        return {"mechanism": self.name, "run": self.run, "rounds": self.rounds, "delta": delta, "plan": dict(self.plan)}

    def pay(self, ledger: LedgerLike, rng: Randomness, path: Path = ()) -> Certificate:
        """Charge all rounds; a durable ledger charges the rounds of one run once.

        Raises:
            BudgetExceeded: nothing was charged.
        """
        request = self._request(rng, path)
        return ledger.draw(request, self, lambda: np.zeros(0, np.uint8)).certificate  # actions come one by one

    def receipt(self, charge: Charge, rng: Randomness, dataset: str) -> Certificate:
        """The certificate of a charge that was paid before."""
        return self._request(rng, charge.path).certificate(charge, self, dataset)

    def _request(self, rng: Randomness, path: Path) -> Request:
        return Request(
            mechanism=self.specification(),
            loss=self.loss,
            path=path,
            labels=self.run,
            randomness=rng.kind,
            source=rng.identity,
            traces=self.traces,
        )


def claim(ledger: LedgerLike, mechanism: RoundsMechanism[Any], rounds: int, owner: bytes) -> bool:
    """Take, in a durable ledger, the one right to go on from the state after so many rounds of a run.

    Returns:
        False where another owner has it, in whatever process. A ledger in memory knows of no other process: True.
    """
    if ledger.digest_key is None:
        return True
    mine = np.frombuffer(owner, np.uint8)
    request = Request(claimed(mechanism.run, rounds), PrivacyLoss.zero(), labels=mechanism.run, traces=mechanism.traces)
    return np.array_equal(ledger.draw(request, mechanism, lambda: mine).value, mine)


def claimed(run: str, rounds: int) -> dict[str, Any]:
    """What a ledger holds once somebody went on from the state after so many rounds of a run."""
    return {"mechanism": CLAIM_NAME, "run": run, "rounds": rounds}
