"""Label-private gradient steps on convex losses: `lp_rr_sgd`, `lp_normal_sgd` and their losses."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from labeldp.features import check_columns, check_rows, number_table, row_table
from labeldp.learners import Model, Response, prior_rows
from labeldp.mechanisms import (
    CandidateSets,
    Classes,
    GaussianOneHot,
    LocalHashing,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    best_groups,
    debias,
    public_seed,
)
from labeldp.privacy import (
    CuratorLike,
    Floats,
    InputError,
    Public,
    RandomSource,
    Release,
    check_choice,
    check_curator,
    check_integer,
    check_positive,
    positive_epsilon,
    set_fields,
)

Steps = Literal["sharp", "printed"]

__all__ = [
    "ConvexLoss",
    "LossClassifier",
    "SoftmaxRegression",
    "UnitVectorLoss",
    "best_gradient_groups",
    "lp_normal_sgd",
    "lp_rr_sgd",
    "normal_moment",
    "partition_moment",
    "printed_moment",
    "response_moment",
]


@runtime_checkable
class ConvexLoss(Protocol):
    """A loss ℓ(w, (x, k)), for features x and every class k, that is convex in the weights w and Lipschitz."""

    @property
    def classes(self) -> int:
        """Number of classes, K."""

    @property
    def lipschitz(self) -> float:
        """Largest length of a gradient, L."""

    def spread(self, count: int) -> float:
        """Return a bound of Σ |g_k - ḡ|² for the gradients g_k of any `count` classes and their mean ḡ."""

    def rows(self, features: Any) -> Floats:
        """Return public features as the loss takes them, shape (n, p): finite and as short as `lipschitz` asks."""

    def start(self, width: int) -> Floats:
        """Return the first weights for rows of `width` numbers: zeros of the right shape."""

    def losses(self, weights: Floats, rows: Floats) -> Floats:
        """Return ℓ(w, (x, k)), shape (n, K)."""

    def gradient(self, weights: Floats, row: Floats, label: Floats) -> Floats:
        """Return Σ label[k] ∇ℓ(w, (x, k)), shaped as the weights; an indicator as `label` selects one class."""


def lp_rr_sgd(
    features: Any,
    curator: CuratorLike,
    *,
    loss: ConvexLoss,
    epsilon: float,
    diameter: float,
    rng: RandomSource,
    prior: Any = None,
    top_k: int | None = None,
    response: Response = "randomized-response",
    partition_seed: int = 0,
    steps: Steps = "sharp",
    passes: int = 1,
    order_seed: int = 0,
) -> Release[Model]:
    """Minimize a convex loss by gradient steps on labels from randomized response.

    Use it to learn a linear model without a trusted curator and without a delta, with a bound on its excess risk; for
    other models see `fit_noisy`. The gradient at a released label is corrected by those at all other labels, so that it
    is unbiased. Weights stay in a ball around zero; the last ones are the model. The bound on the excess risk holds for
    one pass.

    Args:
        features: public numbers, shape (n, p).
        curator: holds the labels.
        loss: `SoftmaxRegression(classes)`, or another `ConvexLoss`.
        epsilon: cost of the release.
        diameter: diameter of the ball of weights, which should contain the optimum.
        rng: randomness of the noise.
        prior: class probabilities of each record, shape (n, K), a `Release` or `Public(array, why="…")`; with `top_k`.
        top_k: answer each record with one of its k likeliest classes by the prior. This adds to the excess risk at most
            2 · diameter · L · P(label is none of them), and k takes the place of K in the noise.
        response: "randomized-response" as in the paper. "best": by `LocalHashing` with the number of groups of
            classes that makes gradients shortest, which is randomized response for few classes: their length grows with
            √K in place of K. Steps are the same, and so is the bound.
        partition_seed: number that the public seed of the partitions follows from.
        steps: "sharp" for diameter / (G √t) with G from `response_moment`, for any epsilon; "printed" for the smaller
            steps of the paper, for epsilon below 1.
        passes: number of passes over the records, each in another order.
        order_seed: public seed of the orders.

    Guarantee (pure): epsilon-DP for each label: each is released once, and gradients are post-processing.

    Raises:
        InputError: an argument is wrong; nothing was charged.

    Source: Ghazi, Algorithm 5 and Corollary 10. Proof: `docs/proofs/learning.md`.
    """
    descent = _Descent.of(features, curator, loss, diameter, passes, order_seed)
    check_choice(steps, "steps", ("sharp", "printed"))
    if (prior is None) != (top_k is None):
        raise InputError("prior and top_k must be given together")
    check_choice(response, "response", ("best", "randomized-response"))
    if response == "best" and (prior is not None or steps == "printed"):
        raise InputError('must be "randomized-response" with a prior or steps="printed"', argument="response")
    seed = public_seed(check_integer(partition_seed, "partition_seed", 0))
    groups = best_gradient_groups(loss, epsilon) if response == "best" else loss.classes
    mechanism: Any = RandomizedResponse(domain=curator.domain, epsilon=epsilon)
    if top_k is not None:
        sets = _top_sets(prior, curator, top_k)
        mechanism = RandomizedResponseWithPrior(domain=curator.domain, epsilon=epsilon, prior=sets)
    elif groups < loss.classes:
        mechanism = LocalHashing(domain=curator.domain, epsilon=epsilon, groups=groups, seed=seed)
    # Gradients from groups are shorter, so that the bound holds for the steps of randomized response all the more.
    moment = (response_moment if steps == "sharp" else printed_moment)(loss, epsilon, top_k)
    release = curator.release(mechanism, rng=rng, step="lp_rr_sgd")
    return release.map(lambda noisy: descent.model(release.mechanism.gradient_weights(noisy), moment))


def lp_normal_sgd(
    features: Any,
    curator: CuratorLike,
    *,
    loss: ConvexLoss,
    epsilon: float,
    delta: float,
    diameter: float,
    rng: RandomSource,
    passes: int = 1,
    order_seed: int = 0,
) -> Release[Model]:
    """Minimize a convex loss by gradient steps on labels with Gaussian noise.

    Like `lp_rr_sgd` with a delta: its excess risk grows with √K in place of K, which at epsilon = 1 and delta = 1e-6
    pays from about a hundred classes on. The noise is on the indicators of the label and not on each gradient: there it
    need not be larger, labels are released once, and any number of passes costs no more.

    Args:
        features, curator, loss, diameter, passes, order_seed: as in `lp_rr_sgd`.
        epsilon, delta: cost of the release; delta in (0, 1).
        rng: randomness of the noise.

    Guarantee (approximate): (epsilon, delta)-DP for each label: each is released once, for any number of passes.

    Raises:
        InputError: an argument is wrong; nothing was charged.

    Source: Ghazi, Algorithm 6, with the analytic calibration of Balle and Wang (2018). Proof:
    `docs/proofs/learning.md`.
    """
    descent = _Descent.of(features, curator, loss, diameter, passes, order_seed)
    mechanism = GaussianOneHot(domain=curator.domain, epsilon=epsilon, delta=delta)
    release = curator.release(mechanism, rng=rng, step="lp_normal_sgd")
    moment = normal_moment(loss, release.mechanism)
    return release.map(lambda noisy: descent.model(debias(release.mechanism, noisy).values, moment))


def response_moment(loss: ConvexLoss, epsilon: Any, top_k: int | None = None) -> float:
    """Return G with E|ĝ|² at most G², for the gradients of `lp_rr_sgd`: the smaller of two bounds.

    Args:
        loss: a loss with Lipschitz constant L and spread S.
        epsilon: epsilon of randomized response.
        top_k: number of candidates of each record; all classes by default.

    Source: `docs/proofs/learning.md`: L (e^ε + 2k - 3)/(e^ε - 1), and √(L² + S k e^ε/(e^ε - 1)²).
    """
    size = loss.classes if top_k is None else top_k
    exact = float(positive_epsilon(epsilon))
    decay, lost = math.exp(-exact), -math.expm1(-exact)
    worst = loss.lipschitz * (1 + (2 * size - 3) * decay) / lost
    if size == 1:
        return loss.lipschitz
    return min(worst, math.sqrt(loss.lipschitz**2 + loss.spread(size) * size * decay / lost**2))


def partition_moment(loss: ConvexLoss, epsilon: Any, groups: int) -> float:
    """Return G with E|ĝ|² at most G², for gradients from groups of classes: the smaller of two bounds.

    Args:
        loss: a loss with Lipschitz constant L and spread S.
        epsilon: epsilon of `LocalHashing`.
        groups: its number of groups; with one for each class it is at most `response_moment`.

    Source: `docs/proofs/learning.md`.
    """
    classes, exact = loss.classes, float(positive_epsilon(epsilon))
    count = check_integer(groups, "groups", 2, classes)
    small, more = divmod(classes, count)
    sizes = [small + 1] * (more > 0) + [small]
    two = (more * (small + 1) * small + (count - more) * small * (small - 1)) / (classes * (classes - 1))
    three = (more * (small + 1) * small * (small - 1) + (count - more) * small * (small - 1) * (small - 2)) / max(
        classes * (classes - 1) * (classes - 2), 1
    )
    decay = math.exp(-exact)
    weight = 1 / (1 + (count - 1) * decay)
    other = weight * (two + (1 - two) * decay)
    gap = weight * (1 - two) * -math.expm1(-exact)
    both = weight * (three + (two - three) * decay) - other**2  # covariance of two other classes
    single = other * (1 - other) - both
    label = weight * (1 - weight) - 2 * weight * (two - other) + both - single
    share = (classes - 1) / classes
    farthest = min(share * loss.spread(classes), 2 * share**2 * loss.spread(2))  # of the label's gradient from the mean
    variance = (single * loss.spread(classes) + max(label, 0.0) * farthest) / gap**2
    weights = [(1 / classes + (1 - size / classes) / gap, 1 / classes - size / classes / gap, size) for size in sizes]
    worst = max(size * abs(inside) + (classes - size) * abs(outside) for inside, outside, size in weights)
    return min(loss.lipschitz * worst, math.sqrt(loss.lipschitz**2 + variance))


def best_gradient_groups(loss: ConvexLoss, epsilon: Any) -> int:
    """Return the number of groups for which `partition_moment` is smallest; the number of classes where none is less.

    It may be another one than that of `best_groups`: a gradient reads how often each class is named, and not the
    likelihood of the group.
    """
    if best_groups(loss.classes, epsilon) == loss.classes:
        return loss.classes
    return min(range(loss.classes, 1, -1), key=lambda count: partition_moment(loss, epsilon, count))


def printed_moment(loss: ConvexLoss, epsilon: Any, top_k: int | None = None) -> float:
    """Return 6KL/ε, the G behind the step size of the paper, for epsilon below 1.

    Source: Ghazi, Theorem 9 and its proof.
    """
    exact = float(positive_epsilon(epsilon))
    if exact >= 1:
        raise InputError('epsilon must be below 1 for the steps as printed: use steps="sharp"')
    return 6 * (loss.classes if top_k is None else top_k) * loss.lipschitz / exact


def normal_moment(loss: ConvexLoss, mechanism: GaussianOneHot) -> float:
    """Return G with E|ĝ|² at most G², for the gradients of `lp_normal_sgd`.

    Source: `docs/proofs/learning.md`: √(L² + σ² S), σ the noise of an indicator and S the spread of the gradients.
    """
    return math.sqrt(loss.lipschitz**2 + mechanism.noise_stddev**2 * loss.spread(loss.classes))


@dataclass(frozen=True)
class _Descent:
    """The public side of gradient steps: rows, their order, and the ball of weights."""

    domain: Classes
    loss: ConvexLoss
    features: Any = field(repr=False)
    rows: Floats = field(repr=False)
    diameter: float
    passes: int
    order_seed: int

    @classmethod
    def of(
        cls, features: Any, curator: CuratorLike, loss: ConvexLoss, diameter: Any, passes: Any, order_seed: Any
    ) -> "_Descent":
        """Check all public arguments, or raise an `InputError`."""
        check_curator(curator, "classes")
        if not isinstance(loss, ConvexLoss):
            raise InputError("loss must be a ConvexLoss, such as SoftmaxRegression(curator.domain.size)")
        if loss.classes != curator.domain.size:
            raise InputError(f"loss must be for the {curator.domain.size} classes of the labels")
        features = row_table(features)
        check_rows(features, curator.records)
        ball, count = check_positive(diameter, "diameter"), check_integer(passes, "passes")
        seed = check_integer(order_seed, "order_seed", 0)
        return cls(curator.domain, loss, features, loss.rows(features), ball, count, seed)

    def model(self, labels: Floats, moment: float) -> Model:
        """Take projected gradient steps η_t = diameter / (moment √t) on unbiased labels (n, K); the last weights count.

        Source: Ghazi, Algorithms 5 and 6, for labels that are right on average.
        """
        weights, radius, t = self.loss.start(self.rows.shape[1]), self.diameter / 2, 0
        orders = np.random.default_rng(self.order_seed)
        for _ in range(self.passes):
            for i in orders.permutation(len(self.rows)):
                t += 1
                step = self.diameter / (moment * math.sqrt(t))
                weights -= step * self.loss.gradient(weights, self.rows[i], labels[i])
                norm = math.sqrt(np.vdot(weights, weights))
                if norm > radius:
                    weights *= radius / norm
        estimator = LossClassifier(self.loss, weights)
        check_columns(estimator, self.features, fit=True)
        return Model(self.domain, estimator)


def _top_sets(prior: Any, curator: CuratorLike, top_k: Any) -> Public[CandidateSets] | Release[CandidateSets]:
    """Return the k likeliest classes of each record, public or released as the prior is."""
    size = curator.domain.size
    count = check_integer(top_k, "top_k", high=size)
    sets = CandidateSets.top(np.ascontiguousarray(prior_rows(prior, curator.records, size)), count)
    return prior.map(lambda _: sets) if isinstance(prior, Release) else Public(sets, why=prior.why)


@final
@dataclass(frozen=True)
class SoftmaxRegression:
    """Multinomial logistic regression without an offset: the cross-entropy of softmax(xᵀw), w of shape (p, K).

    Append a column of ones for an offset; it counts in the norm.

    Args:
        classes: number of classes, K.
        clip: norm to which longer rows are scaled down.
    """

    classes: int
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.clip, "clip")

    @property
    def lipschitz(self) -> float:
        """√2 times the longest row, as a gradient is the row times softmax minus indicator."""
        return math.sqrt(2) * self.clip

    def spread(self, count: int) -> float:
        """Return |x|² (count - 1), as gradients of two classes are √2 |x| apart."""
        return self.clip**2 * (count - 1)

    def rows(self, features: Any) -> Floats:
        """See `ConvexLoss.rows`."""
        return clipped_rows(features, self.clip)

    def start(self, width: int) -> Floats:
        """Return zeros, shape (width, K)."""
        return np.zeros((width, self.classes))

    def losses(self, weights: Floats, rows: Floats) -> Floats:
        """Return -log softmax(xᵀw), shape (n, K)."""
        scores = rows @ weights
        return np.asarray(logsumexp(scores, axis=1, keepdims=True) - scores)

    def gradient(self, weights: Floats, row: Floats, label: Floats) -> Floats:
        """Return x (Σ label · softmax(xᵀw) - label)ᵀ."""
        scores = row @ weights
        masses = np.exp(scores - scores.max())
        return np.outer(row, label.sum() / masses.sum() * masses - label)


@final
@dataclass(frozen=True)
class UnitVectorLoss:
    """L ⟨w, x⟩ for the first class, -L ⟨w, x⟩ for the second, 0 for others, |x| at most 1: the loss of the lower bound.

    Args:
        classes: number of classes, K, at least 2.
        lipschitz: length of the gradients, L.

    Source: Ghazi, Proposition 13.
    """

    classes: int = 2
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.lipschitz, "lipschitz")
        set_fields(self, classes=check_integer(self.classes, "classes", 2))

    def spread(self, count: int) -> float:
        """Return 2 L² for two opposite gradients, 0 for one."""
        return 2 * self.lipschitz**2 * (count > 1)

    def rows(self, features: Any) -> Floats:
        """See `ConvexLoss.rows`."""
        return clipped_rows(features, 1.0)

    def start(self, width: int) -> Floats:
        """Return zeros, shape (width,)."""
        return np.zeros(width)

    def losses(self, weights: Floats, rows: Floats) -> Floats:
        """Return the losses, shape (n, K)."""
        signs = np.zeros(self.classes)
        signs[:2] = 1, -1
        return np.outer(self.lipschitz * (rows @ weights), signs)

    def gradient(self, weights: Floats, row: Floats, label: Floats) -> Floats:
        """Return L (label[0] - label[1]) x."""
        return np.asarray(self.lipschitz * (label[0] - label[1]) * row)


class LossClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with probabilities proportional to e^(-loss), as `lp_rr_sgd` and `lp_normal_sgd` make it.

    For `SoftmaxRegression` that is the model itself.

    Args:
        loss: a `ConvexLoss`.
        weights: weights, shaped as `loss.start` says.
    """

    def __init__(self, loss: Any, weights: Any) -> None:
        self.loss = loss
        self.weights = weights

    @property
    def classes_(self) -> NDArray[np.intp]:
        """Codes 0 to K - 1."""
        return np.arange(self.loss.classes)

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities, shape (n, K)."""
        X = row_table(X)
        check_columns(self, X)
        return np.asarray(softmax(-self.loss.losses(self.weights, self.loss.rows(X)), axis=1), dtype=np.float64)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the code of the smallest loss, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)


def clipped_rows(features: Any, clip: float) -> Floats:
    """Return features as doubles, shape (n, p), with longer rows scaled down to norm `clip`."""
    rows = np.asarray(number_table(features, gaps=False), dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, clip / np.maximum(norms, clip)))
