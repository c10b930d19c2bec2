"""A ledger with the dataset "people", as every new process would open it."""

from pathlib import Path
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.curator import Curator, DatasetLedger, LedgerFile
from labeldp.privacy import PendingCharge

DOMAIN = ldp.Classes(3)

LABELS = np.arange(300) % 3

SYSTEM = ldp.SystemRandomness()


def response(epsilon: float = 1.0) -> ldp.RandomizedResponse:
    return ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon)


def asked(mechanism: ldp.RandomizedResponse) -> PendingCharge:
    """What an account is asked about a mechanism before any label is read."""
    return PendingCharge(mechanism.specification(), mechanism.privacy_loss())


def with_prior(seed: int) -> ldp.mechanisms.RandomizedResponseWithPrior:
    rows = np.random.default_rng(seed).dirichlet([0.5] * 3, len(LABELS))
    return ldp.mechanisms.RandomizedResponseWithPrior(
        domain=DOMAIN, epsilon=1, prior=ldp.Public(rows, why="drawn by a test")
    )


def curator(
    path: Path, labels: Any = LABELS, *, revision: str | None = None, budget: float = 4, **more: Any
) -> Curator:
    """A curator of the dataset "people", as a new process would make it, with ids or without."""
    new = ldp.Budget(epsilon=budget)
    ledger = LedgerFile(path).dataset("people", revision=revision, budget=new, other_ids=True)
    return Curator(labels, domain=DOMAIN, ledger=ledger, **more)


def people(path: Path) -> DatasetLedger:
    return LedgerFile(path).dataset("people")
