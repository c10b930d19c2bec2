"""How much risk label-private learning of convex losses costs at most."""

import math
from typing import Any

from labeldp.mechanisms import Classes, GaussianOneHot
from labeldp.privacy import InputError, positive_epsilon
from labeldp.theory.checks import check_count, check_positive, check_share


def last_iterate_bound(records: int, *, diameter: float, moment: float) -> float:
    """The expected excess risk of the last of n projected gradient steps η_t = D/(G √t): 2DG (2 + ln(n+1))/√(n+1).

    Use it with `response_moment` or `normal_moment` for the sharpest bound of a loss whose gradients are known.

    Args:
        records: n, each used once, drawn independently.
        diameter: D, of the set of weights.
        moment: G, with E|ĝ|² at most G² for unbiased gradients ĝ.

    Source: Shamir, Theorem 2, with c = D/G, for the iterate after n steps. Its constants stand where the bounds of
    Ghazi, Theorem 9 and Proposition 11, have an O.
    """
    last = check_count(records, "records") + 1
    scale = check_positive(diameter, "diameter") * check_positive(moment, "moment")
    return 2 * scale * (2 + math.log(last)) / math.sqrt(last)


def response_sgd_bound(
    records: int, *, classes: int, epsilon: Any, diameter: float, lipschitz: float, outside: float = 0.0
) -> float:
    """The expected excess population risk of one pass of `lp_rr_sgd`, for any convex loss that is L-Lipschitz.

    Args:
        records: n.
        classes: K; or k where each record has k candidates.
        epsilon: of randomized response.
        diameter: D, of the ball of weights.
        lipschitz: L.
        outside: P(label is no candidate of its record): it adds 2DL times that.

    Source: Ghazi, Theorem 9 and Corollary 10, with G = L (e^ε + 2K - 3)/(e^ε - 1) in place of 6KL/ε
    (`docs/corrections.md`) and the constants of `last_iterate_bound`.
    """
    check_positive(lipschitz, "lipschitz")
    extra = 2 * diameter * lipschitz * check_share(outside, "outside")
    moment = lipschitz * _amplification(classes, epsilon)
    return last_iterate_bound(records, diameter=diameter, moment=moment) + extra


def normal_sgd_bound(
    records: int, *, classes: int, epsilon: Any, delta: Any, diameter: float, lipschitz: float
) -> float:
    """The expected excess population risk of one pass of `lp_normal_sgd`, for any convex loss that is L-Lipschitz.

    For a loss with a known spread of its gradients `last_iterate_bound` with `normal_moment` is smaller.

    Args:
        records: n.
        classes: K.
        epsilon: of the release.
        delta: of the release.
        diameter: D, of the ball of weights.
        lipschitz: L.

    Source: Ghazi, Proposition 11, with noise on the label: G² = L² + 2c²KL², half of what noise of sensitivity 2L in
    K directions has; c from the analytic Gaussian mechanism of Balle and Wang (2018) in place of an unnamed
    constant (`docs/corrections.md`), and the constants of `last_iterate_bound`.
    """
    noise = GaussianOneHot(domain=Classes(check_count(classes, "classes", 2)), epsilon=epsilon, delta=delta)
    moment = check_positive(lipschitz, "lipschitz") * math.sqrt(1 + noise.noise_stddev**2 * classes)
    return last_iterate_bound(records, diameter=diameter, moment=moment)


def debiased_gap_bound(
    records: int,
    *,
    candidates: int,
    epsilon: Any,
    failure: float,
    lipschitz: float,
    complexity: float,
    outside: float = 0.0,
) -> float:
    """How far the debiased risk on released labels is at most from the true population risk, for all functions at once.

    It is 2Lc R + c √(ln(2/failure)/(2n)) + P(label is no candidate), with c = (e^ε + 2k - 3)/(e^ε - 1).

    Args:
        records: n, drawn independently.
        candidates: k, of each record; K without a prior.
        epsilon: of randomized response within them.
        failure: probability with which the bound may not hold.
        lipschitz: L, of a loss in [0, 1], as a function of the prediction.
        complexity: Rademacher complexity R of the class of functions, such as `linear_complexity`.
        outside: P(label is no candidate of its record).

    Source: Ghazi, Theorem 17, corrected: the debiased loss has the range c and not 1 (`docs/corrections.md`).
    """
    if not 0 < check_share(failure, "failure") < 1:
        raise InputError("failure must lie in (0, 1)")
    if check_share(outside, "outside") == 1:
        return 1.0
    check_positive(lipschitz, "lipschitz")
    if not 0 <= complexity < math.inf:
        raise InputError("complexity must be a non-negative finite number")
    spread = math.sqrt(math.log(2 / failure) / (2 * check_count(records, "records")))
    return _amplification(candidates, epsilon, 1) * (2 * lipschitz * complexity + spread) + outside


def linear_complexity(records: int, *, radius: float, norm: float) -> float:
    """The Rademacher complexity of x -> ⟨w, x⟩ with |w| at most `radius` and |x| at most `norm`: radius · norm / √n.

    Source: Ghazi, eq. (20), by Cauchy and Schwarz and Jensen: E|Σ σ_i x_i| is at most √(Σ|x_i|²).
    """
    return check_positive(radius, "radius") * check_positive(norm, "norm") / math.sqrt(check_count(records, "records"))


def _amplification(classes: int, epsilon: Any, least: int = 2) -> float:
    """(e^ε + 2k - 3)/(e^ε - 1): Σ|v_k| for the weights v of a debiased label, and the range of the debiased loss."""
    decay = math.exp(-float(positive_epsilon(epsilon)))
    return (1 + (2 * check_count(classes, "classes", least) - 3) * decay) / (1 - decay)
