"""Learn from private labels: features are public, labels are not.

>>> import labeldp as ldp
>>> mechanism = ldp.RandomizedResponse(domain=ldp.Classes(("no", "yes")), epsilon=1.0)
>>> round(mechanism.keep_probability, 3)
0.731
"""

from importlib import import_module
from typing import Any

from labeldp.mechanisms import (
    Classes,
    DiscreteLaplace,
    ExponentialMechanism,
    Interval,
    LaplaceHistogram,
    PermuteAndFlip,
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
    UnaryEncoding,
    debias,
)
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    Certificate,
    DomainError,
    InputError,
    KeyedRandomness,
    LabelDPError,
    Ledger,
    LedgerError,
    NotInvertibleError,
    PrivacyLoss,
    Public,
    Release,
    SystemRandomness,
    gather,
)

_LAZY = {
    "Curator": "labeldp.workflows.curator",
}

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetExceeded",
    "Certificate",
    "Classes",
    "Curator",
    "DiscreteLaplace",
    "DomainError",
    "ExponentialMechanism",
    "InputError",
    "Interval",
    "KeyedRandomness",
    "LabelDPError",
    "LaplaceHistogram",
    "Ledger",
    "LedgerError",
    "NotInvertibleError",
    "PermuteAndFlip",
    "PrivacyLoss",
    "Public",
    "RandomizedResponse",
    "RandomizedResponseTopK",
    "RandomizedResponseWithPrior",
    "Release",
    "SystemRandomness",
    "UnaryEncoding",
    "debias",
    "gather",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Names that need more than numpy are imported when they are first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
