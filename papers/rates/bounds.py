"""Upper bounds of private gradient descent, and lower bounds that no label-private learner beats."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labeldp.mechanisms import Classes, GaussianOneHot
from labeldp.privacy import Floats, InputError, Integers, check_integer, check_positive, positive_epsilon


def check_share(value: Any, name: str) -> float:
    """Return a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise InputError("must lie in [0, 1]", argument=name)
    return float(value)


def last_iterate_bound(records: int, *, diameter: float, moment: float) -> float:
    """Bound the expected excess risk after n projected gradient steps η_t = D/(G √t): 2DG (2 + ln(n+1))/√(n+1).

    Use it with `response_moment` or `normal_moment` for the sharpest bound of a loss with known gradients.

    Args:
        records: n, each used once, drawn independently.
        diameter: D, of the set of weights.
        moment: G, with E|ĝ|² at most G² for unbiased gradients ĝ.

    Source: Shamir, Theorem 2, with c = D/G, for the iterate after n steps. Its constants stand where the bounds of
    Ghazi, Theorem 9 and Proposition 11, have an O.
    """
    last = check_integer(records, "records") + 1
    scale = check_positive(diameter, "diameter") * check_positive(moment, "moment")
    return 2 * scale * (2 + math.log(last)) / math.sqrt(last)


def response_sgd_bound(
    records: int, *, classes: int, epsilon: Any, diameter: float, lipschitz: float, outside: float = 0.0
) -> float:
    """Bound the expected excess population risk of one pass of `lp_rr_sgd`, for any convex L-Lipschitz loss.

    Args:
        records: n.
        classes: K; or k where each record has k candidates.
        epsilon: of randomized response.
        diameter: D, of the ball of weights.
        lipschitz: L.
        outside: P(label is no candidate of its record): it adds 2DL times that.

    Source: Ghazi, Theorem 9 and Corollary 10, with G = L (e^ε + 2K - 3)/(e^ε - 1) in place of 6KL/ε
    (`docs/theory/corrections.md`) and the constants of `last_iterate_bound`.
    """
    check_positive(lipschitz, "lipschitz")
    extra = 2 * diameter * lipschitz * check_share(outside, "outside")
    moment = lipschitz * _amplification(classes, epsilon)
    return last_iterate_bound(records, diameter=diameter, moment=moment) + extra


def normal_sgd_bound(
    records: int, *, classes: int, epsilon: Any, delta: Any, diameter: float, lipschitz: float
) -> float:
    """Bound the expected excess population risk of one pass of `lp_normal_sgd`, for any convex L-Lipschitz loss.

    `last_iterate_bound` with `normal_moment` is smaller for a loss whose gradients have a known spread.

    Args:
        records: n.
        classes: K.
        epsilon: of the release.
        delta: of the release.
        diameter: D, of the ball of weights.
        lipschitz: L.

    Source: Ghazi, Proposition 11, with noise on the label: G² = L² + 2c²KL², half of what noise of sensitivity 2L in
    K directions has; c from the analytic Gaussian mechanism of Balle and Wang (2018) in place of an unnamed
    constant (`docs/theory/corrections.md`), and the constants of `last_iterate_bound`.
    """
    noise = GaussianOneHot(domain=Classes(check_integer(classes, "classes", 2)), epsilon=epsilon, delta=delta)
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
    """Bound the distance of the debiased risk on released labels from the population risk, for all functions at once.

    It is 2Lc R + c √(ln(2/failure)/(2n)) + P(label is no candidate), with c = (e^ε + 2k - 3)/(e^ε - 1).

    Args:
        records: n, drawn independently.
        candidates: k, of each record; K without a prior.
        epsilon: of randomized response within them.
        failure: probability with which the bound may not hold.
        lipschitz: L, of a loss in [0, 1], as a function of the prediction.
        complexity: Rademacher complexity R of the class of functions, such as `linear_complexity`.
        outside: P(label is no candidate of its record).

    Source: Ghazi, Theorem 17, corrected: the debiased loss has the range c and not 1 (`docs/theory/corrections.md`).
    """
    if not 0 < check_share(failure, "failure") < 1:
        raise InputError("failure must lie in (0, 1)")
    if check_share(outside, "outside") == 1:
        return 1.0
    check_positive(lipschitz, "lipschitz")
    if not 0 <= complexity < math.inf:
        raise InputError("complexity must be a non-negative finite number")
    spread = math.sqrt(math.log(2 / failure) / (2 * check_integer(records, "records")))
    return _amplification(candidates, epsilon, 1) * (2 * lipschitz * complexity + spread) + outside


def linear_complexity(records: int, *, radius: float, norm: float) -> float:
    """Bound the Rademacher complexity of x -> ⟨w, x⟩ for |w| ≤ `radius` and |x| ≤ `norm`: radius · norm / √n.

    Source: Ghazi, eq. (20), by Cauchy and Schwarz and Jensen: E|Σ σ_i x_i| is at most √(Σ|x_i|²).
    """
    return (
        check_positive(radius, "radius") * check_positive(norm, "norm") / math.sqrt(check_integer(records, "records"))
    )


def _amplification(classes: int, epsilon: Any, least: int = 2) -> float:
    """Return (e^ε + 2k - 3)/(e^ε - 1): Σ|v_k| for the weights v of a debiased label, and the debiased loss's range."""
    decay = math.exp(-float(positive_epsilon(epsilon)))
    return (1 + (2 * check_integer(classes, "classes", least) - 3) * decay) / (1 - decay)


MAX_COPIES = 20.0
"""The largest joint epsilon of copies that is tried: beyond, the bound of a group falls with e^(-epsilon)."""


def erm_lower_bound(records: int, *, epsilon: Any, delta: float, diameter: float, lipschitz: float) -> float:
    """Return the excess empirical risk that no (epsilon, delta) label-private learner beats on some n records.

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
    return scale / (2 * math.sqrt(check_integer(records, "records"))) * (1 - math.sqrt(agreement))


def repeated_lower_bound(records: int, *, epsilon: Any, delta: float, diameter: float, lipschitz: float) -> float:
    """Return `erm_lower_bound` with each vector repeated k times, for the best k: about 0.076 DL/√(εn) for δ = 0.

    k equal labels that change together are private with kε and δ (e^(kε) - 1)/(e^ε - 1), and count as one record of
    `erm_lower_bound`; records that are left over have no features.

    Args:
        records: n.
        epsilon: of the learner.
        delta: of the learner, in [0, 1].
        diameter: D, of the set of weights.
        lipschitz: L.

    Source: Ghazi, Lemma 15 and Fact 14, with explicit constants (`docs/theory/corrections.md`).
    """
    each = float(positive_epsilon(epsilon))
    last = min(check_integer(records, "records"), max(1, int(MAX_COPIES / each)))
    copies = np.arange(1, last + 1)
    apart = np.exp(-copies * each)
    failure = check_share(delta, "delta") * math.exp(-each) * (1 - apart) / -math.expm1(-each)
    agreement = np.minimum(1.0, (1 + failure) / (1 + apart))
    vectors = records // copies
    share = vectors * copies / records
    scale = check_positive(diameter, "diameter") * check_positive(lipschitz, "lipschitz")
    return float(np.max(scale * share / (2 * np.sqrt(vectors)) * (1 - np.sqrt(agreement))))


def lower_rate(records: int, *, epsilon: Any, diameter: float, lipschitz: float) -> float:
    """Return DL/√(εn), the rate at which the excess population risk falls at best, for epsilon at most 1.

    It is a rate, not a bound: constants and logarithms are left out.

    Source: Ghazi, Proposition 12.
    """
    exact = float(positive_epsilon(epsilon))
    if exact > 1:
        raise InputError("epsilon must be at most 1: above, the rate is that of learning without privacy")
    scale = check_positive(diameter, "diameter") * check_positive(lipschitz, "lipschitz")
    return scale / math.sqrt(exact * check_integer(records, "records"))


@dataclass(frozen=True)
class HardInstance:
    """Records whose labels must all be learned: m unit vectors, each with its own random sign.

    Args:
        features: rows of the identity, shape (n, m).
        labels: 0 or 1, shape (n,).
        copies: how often each vector is repeated.
    """

    features: Floats = field(repr=False)
    labels: Integers = field(repr=False)
    copies: int

    def excess(self, weights: Floats, *, diameter: float, lipschitz: float) -> float:
        """Return the excess empirical risk of weights, shape (m,), under `UnitVectorLoss`, whose optimum is known.

        Source: Ghazi, Proposition 13: the least risk is -DL/(2√m), at weights D/(2√m) times the signs.
        """
        signs = 2 * self.labels - 1
        risk = -lipschitz * float(np.mean(signs * (self.features @ weights)))
        return risk + diameter * lipschitz / (2 * math.sqrt(self.features.shape[1]))


def hard_instance(vectors: int, *, rng: np.random.Generator, copies: int = 1) -> HardInstance:
    """Return the instance of the lower bounds: m unit vectors with random labels of two classes, each `copies` times.

    Args:
        vectors: m; the features have m columns.
        rng: numpy generator of the labels: they are made up.
        copies: 1 for Proposition 13, about 1/ε for Lemma 15.

    Source: Ghazi, Proposition 13 and Lemma 15.
    """
    count, times = check_integer(vectors, "vectors"), check_integer(copies, "copies")
    labels = rng.integers(0, 2, count)
    return HardInstance(np.repeat(np.eye(count), times, axis=0), np.repeat(labels, times), times)
