"""Printed bounds, and what batches cost: no plan reads them."""

import math


def theorem_3_2_epsilon(rate: float, batch: int, redraw: float, horizon: int, delta: float) -> float:
    """Return epsilon by the published formula, to compare: no certificate uses it.

    Its proof has gaps (`docs/theory/corrections.md`). For experts, under its conditions (`theorem_3_2_applies`), it
    never was below the truth here; it is about ten times `l2p_loss`. With delta_0 = 0 it leaves delta = 2 T delta_1.

    Source: Asi, Theorem 3.2.
    """
    log, load = math.log(2 * horizon / delta), horizon * rate**2 * redraw / batch
    return 2 * rate / redraw + rate + 1.5 * load * log + math.sqrt(6 * load) * log


def theorem_3_2_applies(rate: float, batch: int, redraw: float, horizon: int, delta: float) -> bool:
    """Return whether the conditions of the formula hold: eta <= 1/10, T p >= B and eta B log(1 / delta_1) <= p.

    Source: Asi, Theorem 3.2 and Lemma 3.8.
    """
    log = math.log(2 * horizon / delta)
    return rate <= 0.1 and horizon * redraw >= batch and rate * batch * log <= redraw


def batching_excess(horizon: float, batch: int, rate: float) -> float:
    """Return (T / 4) (1 - 1 / B) tanh(eta B / 2), the cost of batches where two experts lose in turn, one batch each.

    It is about eta T B / 8, not O(T B^2 eta^2) as in Proposition 3.3: `docs/theory/corrections.md`.

    Args:
        horizon: T, a multiple of 2 B.

    Source: `docs/proofs/online-experts.md`, equation (8).

    Examples:
        >>> round(batching_excess(10_000, 10, 0.01)), 10_000 * 10**2 * 0.01**2
        (112, 100.0)
    """
    return horizon / 4 * (1 - 1 / batch) * math.tanh(rate * batch / 2)


def batch_lower_bound(experts: int, horizon: float, batch: int) -> float:
    """Return sqrt(T B ln d / 2): up to 1 - o(1), the least regret of a learner that plays each batch with one action.

    Source: Cesa, Theorem 3.7, on T / B rounds with losses up to B.
    """
    return math.sqrt(horizon * batch * math.log(experts) / 2)
