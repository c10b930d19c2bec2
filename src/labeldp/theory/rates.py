"""Rates at which the excess risk falls with the records: Table I of Zhao, corrected.

Rates leave constants out: they compare, they do not predict. `labeldp.theory.balance` has what privacy costs with the
constants of our mechanisms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.privacy import (
    InputError,
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    positive_epsilon,
    smallest,
)

TASKS = ("classification", "regression", "heavy-tailed")
"""Tasks that a rate is known for."""

TRUSTS = ("local", "central")
"""Who may see the labels."""

PROTECTIONS = ("label", "full", "none")
"""What is private: the label, features too, or nothing."""

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


@dataclass(frozen=True)
class Term:
    """One term of a rate: (records · epsilon^power / logarithm)^-exponent.

    Args:
        exponent: exponent of the records.
        power: exponent of epsilon: 0, 1 or 2.
        capped: whether an epsilon above 1 counts as 1.
    """

    exponent: float
    power: int
    capped: bool = False

    def value(self, records: float, epsilon: float, logarithm: float = 1.0) -> float:
        """Return the term at a number of records; `logarithm` is ln K for classes, else 1."""
        return float((records * self._weight(epsilon) / logarithm) ** -self.exponent)

    def records(self, value: float, epsilon: float, logarithm: float = 1.0) -> float:
        """Return the number of records at which the term has a value."""
        return float(value ** (-1 / self.exponent) * logarithm / self._weight(epsilon))

    def _weight(self, epsilon: float) -> float:
        """Return the factor by which epsilon weighs one record."""
        return float((min(epsilon, 1.0) if self.capped else epsilon) ** self.power)


def rate_terms(
    *,
    task: str,
    trust: str = "local",
    protection: str = "label",
    dimension: int,
    beta: float = 1.0,
    margin: float = 0.0,
    moments: float = 2.0,
) -> tuple[Term, ...]:
    """Return the terms whose sum is the rate of a row of Table I; the one without privacy first where there are two.

    Args:
        task: "classification", "regression" (labels in an interval) or "heavy-tailed" (labels with bounded moments).
        trust: "local" or "central".
        protection: "label"; "full" for features too; "none", where `trust` says nothing.
        dimension: d, of the features.
        beta: Hölder smoothness, in (0, 1].
        margin: Tsybakov's γ of classes, at least 0; margin · beta at most d.
        moments: p, at least 2: E|label|^p is bounded. For "heavy-tailed" alone.

    Raises:
        InputError: a choice that does not exist, or a number out of its range.

    Source: Zhao, Table I, with the theorems of `SOURCES` and `docs/corrections.md`.
    """
    check_choice(task, "task", TASKS)
    check_choice(trust, "trust", TRUSTS)
    check_choice(protection, "protection", PROTECTIONS)
    size = check_integer(dimension, "dimension")
    smooth = check_smoothness(beta, margin, size)
    power = _risk_power(task, smooth, margin)
    tail = _tail(task, moments)
    public = Term(power / (2 * smooth + size), 0)
    if protection == "none":
        return (public,)
    if trust == "central":
        return public, Term(power / (smooth * tail + size), 1)
    if protection == "full":
        return public, Term(power / (2 * smooth * tail + 2 * size), 2)
    private = Term(power / (2 * smooth * tail + size), 2, capped=tail == 1)
    return (private,) if tail == 1 else (public, private)


def exponent(**setting: Any) -> float:
    """Return a where the risk falls as N^-a for fixed epsilon: the smallest exponent of the terms.

    Args:
        setting: the arguments of `rate_terms`.

    Source: Zhao, Table I.
    """
    return min(term.exponent for term in rate_terms(**setting))


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

    Source: Zhao, Theorems 2, 4, 6, 8, 10, 12 and 14, with k, and the exponents of h, of `docs/corrections.md`.
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


def check_smoothness(beta: Any, margin: Any, dimension: int) -> float:
    """Return the smoothness, in (0, 1], after checking that the margin is at least 0 and their product at most d.

    Raises:
        InputError: another value.
    """
    smooth = check_positive(beta, "beta")
    if smooth > 1:
        raise InputError("beta must lie in (0, 1]: a function that is smoother than that in this sense is constant")
    if smooth * check_nonnegative(margin, "margin") > dimension:
        raise InputError(f"margin · beta must be at most {dimension}, the dimension: no smooth classes are clearer")
    return smooth


def check_moments(moments: Any) -> float:
    """Return the number of bounded moments, at least 2; infinite for bounded labels.

    Raises:
        InputError: another value.
    """
    order = math.inf if moments == math.inf else check_positive(moments, "moments")
    if order < 2:
        raise InputError("moments must be at least 2: without a variance even learning without privacy is slower")
    return order


def _risk_power(task: str, beta: float, margin: float) -> float:
    """Return a where the risk is h^a for cubes of side h."""
    return beta * (margin + 1) if task == "classification" else 2 * beta


def _side_terms(**setting: Any) -> list[Term]:
    """Return the terms whose sum is the critical side: the sides of the terms of the rate."""
    terms = rate_terms(**{**setting, "margin": 0.0})
    power = _risk_power(setting["task"], setting.get("beta", 1.0), 0.0)
    return [Term(term.exponent / power, term.power, term.capped) for term in terms]


def _tail(task: str, moments: Any) -> float:
    """Return p/(p - 1) for labels with p moments and 1 for bounded ones, the factor by which tails slow privacy."""
    order = check_moments(moments) if task == "heavy-tailed" else math.inf
    return 1.0 if order == math.inf else order / (order - 1)


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
