"""Charge all rounds of a learner before its first action, and claim the right to continue from a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar, final

import numpy as np

from labeldp.privacy import (
    Certificate,
    Charge,
    LedgerLike,
    Neighbors,
    Path,
    PrivacyLoss,
    Randomness,
    Request,
    Trust,
    decimal,
)

CLAIM_NAME = "going on from a snapshot"
_SEEN_LATER = (("rounds as they come", "losses", "seen after the charge"),)
"""The traces of losses in a durable ledger if the losses are not known when the learner is charged."""


class State:
    """Base of the states that a snapshot of a learner may hold: frozen dataclasses of numbers, arrays and states."""

    kinds: ClassVar[dict[str, Any]] = {}
    """Every subclass, by name."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        State.kinds[cls.__name__] = cls


class OnlineLedger(LedgerLike, Protocol):
    """What a learner needs of a ledger: what a curator needs, and the charges so far."""

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges so far, oldest first."""


class ChargeableKernel(Protocol):
    """What a ledger must know of a learner, such as a `Kernel` or a `ConvexKernel`."""

    @property
    def neighbors(self) -> Neighbors:
        """Which losses count as neighboring."""

    @property
    def published(self) -> str:
        """What is released, in words."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee depends on, in words."""

    def privacy_loss(self, rounds: int) -> PrivacyLoss:
        """Return what everything that may be seen after `rounds` rounds of losses reveals of one round's losses."""


K = TypeVar("K", bound=ChargeableKernel)


@final
@dataclass(frozen=True)
class RoundsMechanism(Generic[K]):
    """All rounds of a learner as one mechanism, charged once before the first decision.

    Its output is the sequence of decisions.

    Args:
        kernel: the learner; public.
        rounds: how many rounds it will play.
        plan: the public plan that the learner was made from, as plain JSON values.
        run: the name of this run of the learner, whose rounds are charged once.
        traces: (kind of ids, kind of losses, keyed digest) of all losses, if they are known beforehand; secret.
        name: the name of the mechanism in the ledger.
    """

    kernel: K
    rounds: int
    plan: Mapping[str, Any]
    run: str
    traces: tuple[tuple[str, str, str], ...] = field(default=_SEEN_LATER, repr=False)
    name: str = "PrivateExperts"
    trust = Trust.CENTRAL
    basis: tuple[Certificate, ...] = ()

    @property
    def neighbors(self) -> Neighbors:
        """Which losses count as neighboring."""
        return self.kernel.neighbors

    @property
    def published(self) -> str:
        """What is released, in words."""
        return f"{self.kernel.published}, for at most {self.rounds:,} rounds"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee depends on, in words."""
        return self.kernel.assumptions

    @cached_property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of all actions; the last of them depends only on the losses of the rounds before it."""
        return self.kernel.privacy_loss(self.rounds - 1)

    def spent(self, rounds: int) -> PrivacyLoss:
        """Return the privacy loss after `rounds` rounds of losses, with the next action."""
        return self.kernel.privacy_loss(min(rounds, self.rounds - 1))

    def arrays(self) -> None:
        """Return None: a learner has no array with a row for each record."""

    def specification(self) -> dict[str, Any]:
        """Return the public fields as plain JSON values: equal for equal learners."""
        delta = str(decimal(self.plan["delta"], "delta"))
        return {"mechanism": self.name, "run": self.run, "rounds": self.rounds, "delta": delta, "plan": dict(self.plan)}

    def pay(self, ledger: LedgerLike, rng: Randomness, path: Path = ()) -> Certificate:
        """Charge all rounds and return the certificate; a durable ledger charges the rounds of one run once.

        Raises:
            BudgetExceeded: the ledger does not admit them; nothing was charged.
        """
        request = self._request(rng, path)
        return ledger.draw(request, self, lambda: np.zeros(0, np.uint8)).certificate  # actions come one by one

    def receipt(self, charge: Charge, rng: Randomness, dataset: str) -> Certificate:
        """Return the certificate of an earlier charge."""
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
    """Claim in a durable ledger the right to continue from the state after `rounds` rounds of a run.

    Returns:
        False if another owner has it, in any process; always True with a ledger in memory, which has one process.
    """
    if ledger.digest_key is None:
        return True
    mine = np.frombuffer(owner, np.uint8)
    request = Request(claimed(mechanism.run, rounds), PrivacyLoss.zero(), labels=mechanism.run, traces=mechanism.traces)
    return np.array_equal(ledger.draw(request, mechanism, lambda: mine).value, mine)


def claimed(run: str, rounds: int) -> dict[str, Any]:
    """Return what a ledger records of a claim to continue from the state after `rounds` rounds of a run."""
    return {"mechanism": CLAIM_NAME, "run": run, "rounds": rounds}
