"""How much risk label privacy costs at least, and the instances that show it."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError, positive_epsilon
from labeldp.theory.checks import check_count, check_positive, check_share

MOST_COPIES = 20.0
"""Copies with a joint epsilon above this add nothing: the bound of a group falls with e^(-epsilon)."""


def erm_lower_bound(records: int, *, epsilon: Any, delta: float, diameter: float, lipschitz: float) -> float:
    """The excess empirical risk that no (epsilon, delta) label-private learner beats on some n records.

    DL/(2√n) · (1 - √((e^ε + δ)/(e^ε + 1))).

    Args:
        records: n.
        epsilon: of the learner.
        delta: of the learner, in [0, 1].
        diameter: D, of the set of weights.
        lipschitz: L.

    Source: Ghazi, Proposition 13, with the constant of its proof; it holds on average over `hard_instance`.
    """
    decay = math.exp(-float(positive_epsilon(epsilon)))
    agreement = (1 + check_share(delta, "delta") * decay) / (1 + decay)
    scale = check_positive(diameter, "diameter") * check_positive(lipschitz, "lipschitz")
    return scale / (2 * math.sqrt(check_count(records, "records"))) * (1 - math.sqrt(agreement))


def repeated_lower_bound(records: int, *, epsilon: Any, delta: float, diameter: float, lipschitz: float) -> float:
    """The same where each vector stands k times, for the best k: it grows as ε falls, like 0.076 DL/√(εn) for δ = 0.

    k equal labels that change together are private with kε and δ (e^(kε) - 1)/(e^ε - 1), and count as one record of
    `erm_lower_bound`; records that are left over have no features.

    Args:
        records: n.
        epsilon: of the learner.
        delta: of the learner, in [0, 1].
        diameter: D, of the set of weights.
        lipschitz: L.

    Source: Ghazi, Lemma 15 and Fact 14, with explicit constants (`docs/corrections.md`).
    """
    each = float(positive_epsilon(epsilon))
    last = min(check_count(records, "records"), max(1, int(MOST_COPIES / each)))
    copies = np.arange(1, last + 1)
    apart = np.exp(-copies * each)
    failure = check_share(delta, "delta") * math.exp(-each) * (1 - apart) / -math.expm1(-each)
    agreement = np.minimum(1.0, (1 + failure) / (1 + apart))
    vectors = records // copies
    share = vectors * copies / records
    scale = check_positive(diameter, "diameter") * check_positive(lipschitz, "lipschitz")
    return float(np.max(scale * share / (2 * np.sqrt(vectors)) * (1 - np.sqrt(agreement))))


def lower_rate(records: int, *, epsilon: Any, diameter: float, lipschitz: float) -> float:
    """DL/√(εn): how the excess population risk must fall with n and ε at best, for epsilon at most 1.

    A rate, not a bound: constants and logarithms are left out.

    Source: Ghazi, Proposition 12.
    """
    exact = float(positive_epsilon(epsilon))
    if exact > 1:
        raise InputError("epsilon must be at most 1: above, the rate is that of learning without privacy")
    scale = check_positive(diameter, "diameter") * check_positive(lipschitz, "lipschitz")
    return scale / math.sqrt(exact * check_count(records, "records"))


@dataclass(frozen=True)
class HardInstance:
    """Records whose labels must all be learned: each of m unit vectors has a random sign of its own.

    Args:
        features: rows of the identity, shape (n, m).
        labels: 0 or 1, shape (n,).
        copies: how often each vector stands in it.
    """

    features: NDArray[np.float64] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    copies: int

    def excess(self, weights: NDArray[np.float64], *, diameter: float, lipschitz: float) -> float:
        """The excess empirical risk of weights, shape (m,), under `UnitVectorLoss`: the optimum is known.

        Source: Ghazi, Proposition 13: the least risk is -DL/(2√m), at weights D/(2√m) times the signs.
        """
        signs = 2 * self.labels - 1
        risk = -lipschitz * float(np.mean(signs * (self.features @ weights)))
        return risk + diameter * lipschitz / (2 * math.sqrt(self.features.shape[1]))


def hard_instance(vectors: int, *, rng: np.random.Generator, copies: int = 1) -> HardInstance:
    """The instance of the lower bounds: m unit vectors with random labels of two classes, each `copies` times.

    Args:
        vectors: m; the features have m columns.
        rng: numpy generator of the labels: they are made up.
        copies: 1 for Proposition 13, about 1/ε for Lemma 15.

    Source: Ghazi, Proposition 13 and Lemma 15.
    """
    count, times = check_count(vectors, "vectors"), check_count(copies, "copies")
    labels = rng.integers(0, 2, count)
    return HardInstance(np.repeat(np.eye(count), times, axis=0), np.repeat(labels, times), times)
