"""What is promised: neighbors, privacy loss, certificate, ledger, budget, randomness."""

from labeldp.privacy.bags import MAX_BAG, Curve, HiddenWeights, NoisyBag, bag_ends
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
from labeldp.privacy.counts import binomial
from labeldp.privacy.digest import LabelDigest
from labeldp.privacy.errors import (
    BudgetExceeded,
    DomainError,
    InputError,
    LabelDPError,
    LedgerError,
    NotInvertibleError,
)
from labeldp.privacy.exact import (
    WORD,
    all_digits,
    decimal,
    digits_above,
    exp_bounds,
    float_within,
    positive_epsilon,
    shortest_float,
)
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
    "MAX_BAG",
    "WORD",
    "Budget",
    "BudgetExceeded",
    "Certificate",
    "Charge",
    "CuratorLike",
    "Curve",
    "DomainError",
    "Drawn",
    "HiddenWeights",
    "Ids",
    "InputError",
    "KeyedRandomness",
    "LabelDPError",
    "LabelDigest",
    "Ledger",
    "LedgerError",
    "LedgerLike",
    "Neighbors",
    "NoisyBag",
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
    "all_digits",
    "as_randomness",
    "bag_ends",
    "binomial",
    "check",
    "decimal",
    "derive",
    "digits_above",
    "exp_bounds",
    "float_within",
    "gather",
    "positive_epsilon",
    "record_words",
    "shortest_float",
    "total_loss",
]
