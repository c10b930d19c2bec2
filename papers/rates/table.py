"""Rates at which the excess risk falls with the records: Table I of Zhao, corrected.

Rates leave constants out: they compare, they do not predict. `labeldp.advice.rates` has what privacy costs with the
constants of our mechanisms.
"""

import math
from collections.abc import Sequence
from typing import Any

from labeldp.advice.rates import Term, rate_terms, risk_power
from labeldp.privacy import InputError, check_integer, check_positive, positive_epsilon, smallest

SOURCES = {
    ("classification", "local", "label"): "Zhao, Theorems 1 and 2",
    ("classification", "central", "label"): "Zhao, Theorems 3 and 4",
    ("classification", "local", "full"): "Zhao, Remark 1, after Berrett and Butucea (2019)",
    ("classification", "central", "full"): "Zhao, Theorem 13",
    ("regression", "local", "label"): "Zhao, Theorems 5 and 6",
    ("regression", "central", "label"): "Zhao, Theorem 8, and Theorem 7 corrected",
    ("regression", "local", "full"): "Zhao, Table I, after Berrett, Györfi and Walk (2021)",
    ("regression", "central", "full"): "Zhao, Theorem 14 (1)",
    ("heavy-tailed", "local", "label"): "Zhao, Theorems 9 and 10",
    ("heavy-tailed", "central", "label"): "Zhao, Theorems 11 and 12",
    ("heavy-tailed", "local", "full"): "Zhao, Table I, after Berrett, Györfi and Walk (2021)",
    ("heavy-tailed", "central", "full"): "Zhao, Theorem 14 (2)",
}
"""Where each row of Table I is proved; rows without protection are known results."""


def rate(*, records: float, epsilon: Any = None, classes: int = 2, **setting: Any) -> float:
    """Return the excess risk that is possible, up to a constant: the sum of the terms of `rate_terms`.

    Args:
        records: N, at least 1.
        epsilon: of the release; without protection it may be missing.
        classes: K; each record of a classification counts as 1/ln K, also without privacy (the upper bounds say so).
        setting: the arguments of `rate_terms`.

    Source: Zhao, eq. (14), (18), (21), (24), (26), (29), (32), (37), (38).
    """
    terms = rate_terms(**setting)
    numbers = _numbers(records, epsilon, classes, **setting)
    return sum(term.value(*numbers) for term in terms)


def records_for(risk: float, *, epsilon: Any = None, classes: int = 2, **setting: Any) -> float:
    """Return the number of records that the rate needs for a risk: the inverse of `rate`, exact for one term.

    Args:
        risk: as `rate` gives it.
        epsilon: of the release; without protection it may be missing.
        classes: K.
        setting: the arguments of `rate_terms`.

    Source: Zhao, Table I.
    """
    return _solve(rate_terms(**setting), check_positive(risk, "risk"), _numbers(1, epsilon, classes, **setting))


def critical_side(*, records: float, epsilon: Any = None, classes: int = 2, **setting: Any) -> float:
    """Return the side h of cubes, up to a constant, that balances bias and noise.

    The rate is h^(2β), for classes h^(β(γ+1)). A cube holds about records · h^d records, which is also the number of
    neighbors for a learner that uses them.

    Args:
        records: N, at least 1.
        epsilon: of the release; without protection it may be missing.
        classes: K.
        setting: the arguments of `rate_terms`; the margin changes nothing.

    Source: Zhao, Theorems 2, 4, 6, 8, 10, 12 and 14, with k, and the exponents of h, of `docs/theory/corrections.md`.
    """
    numbers = _numbers(records, epsilon, classes, **setting)
    return sum(term.value(*numbers) for term in _side_terms(**setting))


def critical_records(side: float, *, epsilon: Any = None, classes: int = 2, **setting: Any) -> float:
    """Return the number of records at which a side is critical: the inverse of `critical_side`.

    Args:
        side: h, of a cube.
        epsilon: of the release; without protection it may be missing.
        classes: K.
        setting: the arguments of `rate_terms`.

    Source: Zhao, Theorems 2, 4, 6, 8, 10, 12 and 14.
    """
    return _solve(_side_terms(**setting), check_positive(side, "side"), _numbers(1, epsilon, classes, **setting))


def sample_multiplier(
    *,
    records: float,
    epsilon: Any,
    trust: str = "local",
    protection: str = "label",
    versus: str = "none",
    versus_trust: str | None = None,
    **setting: Any,
) -> float:
    """Return how many times the records of another promise a promise needs for the same risk.

    Args:
        records: N, under the other promise.
        epsilon: privacy parameter of both.
        trust: trust of this promise.
        protection: what this promise protects.
        versus: what the other promise protects; nothing by default.
        versus_trust: trust of the other promise; the same by default.
        setting: `task`, `dimension` and the rest, as `rate` takes them.

    Returns:
        The ratio: 1/(ε² ∧ 1) for local labels of classes or of an interval against no privacy; below 1 where this
        promise needs less.

    Source: Zhao, Remark 1 and Table I.
    """
    other = {"trust": versus_trust or trust, "protection": versus, "epsilon": epsilon, **setting}
    goal = rate(records=records, **other)
    return records_for(goal, trust=trust, protection=protection, epsilon=epsilon, **setting) / records


def _side_terms(**setting: Any) -> list[Term]:
    """Return the terms whose sum is the critical side: the sides of the terms of the rate."""
    terms = rate_terms(**{**setting, "margin": 0.0})
    power = risk_power(setting["task"], setting.get("beta", 1.0), 0.0)
    return [Term(term.exponent / power, term.power, term.capped) for term in terms]


def _numbers(records: Any, epsilon: Any, classes: Any, *, task: str, **setting: Any) -> tuple[float, float, float]:
    """Return records, epsilon and ln K (1 for regression), checked."""
    count = check_positive(records, "records")
    if count < 1:
        raise InputError("records must be at least 1")
    if epsilon is None and setting.get("protection") != "none":
        raise InputError("epsilon is missing")
    exact = math.inf if epsilon is None else float(positive_epsilon(epsilon))
    return count, exact, math.log(check_integer(classes, "classes", 2)) if task == "classification" else 1.0


def _solve(terms: Sequence[Term], value: float, numbers: tuple[float, float, float]) -> float:
    """Return the records at which the terms add up to `value`: where the largest is between its share and all of it."""
    _, epsilon, logarithm = numbers
    low = max(term.records(value, epsilon, logarithm) for term in terms)
    high = max(term.records(value / len(terms), epsilon, logarithm) for term in terms)
    return smallest(
        lambda records: sum(term.value(records, epsilon, logarithm) for term in terms) <= value, low, high, tol=1e-14
    )
