"""What is promised: neighbors, privacy loss, certificate, ledger, budget, randomness."""

from labeldp.privacy.certificate import (
    Certificate,
    CuratorLike,
    Neighbors,
    Public,
    Release,
    Trust,
    gather,
)
from labeldp.privacy.charges import Charge, Path, total_loss
from labeldp.privacy.digest import LabelDigest
from labeldp.privacy.errors import (
    BudgetExceeded,
    DomainError,
    InputError,
    LabelDPError,
    LedgerError,
    NotInvertibleError,
)
from labeldp.privacy.exact import WORD, decimal, exp_bounds, positive_epsilon, shortest_float
from labeldp.privacy.ledger import Budget, Drawn, Ledger, LedgerLike, Request, check
from labeldp.privacy.loss import PrivacyLoss
from labeldp.privacy.randomness import (
    BLOCK,
    Ids,
    KeyedRandomness,
    Randomness,
    RandomnessKind,
    SystemRandomness,
    Words,
    as_randomness,
    derive,
    record_words,
)

__all__ = [
    "BLOCK",
    "WORD",
    "Budget",
    "BudgetExceeded",
    "Certificate",
    "Charge",
    "CuratorLike",
    "DomainError",
    "Drawn",
    "Ids",
    "InputError",
    "KeyedRandomness",
    "LabelDPError",
    "LabelDigest",
    "Ledger",
    "LedgerError",
    "LedgerLike",
    "Neighbors",
    "NotInvertibleError",
    "Path",
    "PrivacyLoss",
    "Public",
    "Randomness",
    "RandomnessKind",
    "Release",
    "Request",
    "SystemRandomness",
    "Trust",
    "Words",
    "as_randomness",
    "check",
    "decimal",
    "derive",
    "exp_bounds",
    "gather",
    "positive_epsilon",
    "record_words",
    "shortest_float",
    "total_loss",
]
