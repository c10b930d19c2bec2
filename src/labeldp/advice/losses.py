"""What mistakes cost: the expected loss of one noisy label, for each mechanism and epsilon."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from labeldp.fit import decimal_float, parts_of
from labeldp.mechanisms import Classes, LocalHashing, Optimal, RandomizedResponse
from labeldp.privacy import Floats, InputError, Public
from labeldp.tables import open_table

SUM_TOLERANCE = 1e-6
"""How far a typed prior may be from a sum of 1."""


@dataclass(frozen=True)
class Costs:
    """A table of costs and the shares of the labels.

    Args:
        names: of the labels, in the order of the rows.
        loss: what an answer costs, shape (K, K): a row for each true label.
        prior: share of each label, shape (K,).
    """

    names: tuple[str, ...]
    loss: Floats = field(repr=False)
    prior: Floats = field(repr=False)

    @classmethod
    def read(cls, path: str, prior: str | None) -> "Costs":
        """Read a table whose first column holds the true labels, with a column for each answer.

        Raises:
            InputError: it is none, or the prior is no distribution over its labels.
        """
        table = open_table(path).read(None)
        names = tuple(str(name) for name in table.column(0).to_pylist())
        if len(set(names)) < len(names) or sorted(table.column_names[1:]) != sorted(names):
            raise InputError(
                f"{Path(path).name} must have the true labels in its first column, and a column for each of them: "
                "what that answer costs"
            )
        try:
            loss = np.array([table.column(name).to_numpy() for name in names], dtype=np.float64).T
        except (TypeError, ValueError):
            raise InputError(f"{Path(path).name} must hold numbers in all columns but the first") from None
        shares = np.full(len(names), 1 / len(names))
        if prior is not None:
            shares = np.array([decimal_float(part, "prior") for part in parts_of(prior, "prior")])
            if len(shares) != len(names) or shares.min() < 0 or abs(shares.sum() - 1) > SUM_TOLERANCE:
                raise InputError(
                    f"must hold {len(names)} shares that sum to 1, in the order of the rows", argument="prior"
                )
        return cls(names, loss, shares / shares.sum())


@dataclass(frozen=True)
class LossRow:
    """The expected loss of one answer at one epsilon.

    Args:
        epsilon: of the answer.
        constant: without any answer, the best constant decision.
        response: of the best decision on an answer of `RandomizedResponse`.
        hashing: of the best decision on an answer of `LocalHashing`.
        optimal: of `Optimal`.
        gap: how far that can be from the least expected loss.
        known_as: what `Optimal` is; "" where it has no name.
    """

    epsilon: float
    constant: float
    response: float
    hashing: float
    optimal: float
    gap: float
    known_as: str

    @classmethod
    def of(cls, costs: Costs, epsilon: float) -> "LossRow":
        """Return the row of an epsilon."""
        domain, weighted = Classes(costs.names), costs.prior[:, None] * costs.loss
        order = [costs.names.index(str(name)) for name in domain.names]  # classes are sorted
        weighted = weighted[np.ix_(order, order)]
        prior = Public(costs.prior[order], why="stated on the command line")
        optimal = Optimal(domain, epsilon, costs.loss[np.ix_(order, order)], prior)
        answers = RandomizedResponse(domain, epsilon).matrix().T
        return cls(
            epsilon,
            float(weighted.sum(axis=0).min()),
            _decided(answers, weighted),
            _decided(_hashed(domain.size, epsilon), weighted),
            optimal.expected_loss,
            optimal.gap,
            optimal.known_as,
        )


def expected_losses(costs: Costs, epsilons: Sequence[float]) -> list[LossRow]:
    """Return the expected loss of one answer, a row for each epsilon."""
    return [LossRow.of(costs, epsilon) for epsilon in epsilons]


def _decided(answers: Floats, weighted: Floats) -> float:
    """Return the expected loss of the best decision on answers of probabilities (answers, K)."""
    return float((answers @ weighted).min(axis=1).sum())


def _hashed(classes: int, epsilon: float) -> Floats:
    """Return P(set of classes | class) of local hashing over all of its partitions, shape (sets, K)."""
    mechanism = LocalHashing(Classes(classes), epsilon)
    groups = int(mechanism.groups)
    growth = np.exp(min(mechanism.epsilon, 700.0))
    rows = []
    for group in range(groups):
        sets = list(combinations(range(classes), classes // groups + (group < classes % groups)))
        named = np.zeros((len(sets), classes))
        named[np.arange(len(sets))[:, None], sets] = 1
        rows.append(np.where(named > 0, growth, 1) / (growth + groups - 1) / len(sets))
    return np.concatenate(rows)
