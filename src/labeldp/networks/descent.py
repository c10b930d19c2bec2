"""Gradient descent of any module where only labels are private: noise on the part of the gradient that they choose."""

import copy
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from labeldp.learners import LinearTask, Model, with_given
from labeldp.mechanisms import GaussianChoice
from labeldp.privacy import (
    CuratorLike,
    Floats,
    InputError,
    Public,
    RandomSource,
    Release,
    check_curator,
    check_integer,
    check_positive,
    gather,
)

PROJECTION_STEPS = 200
"""Of projected gradient descent on the weights of public gradients."""

ALTERNATIVES = 300
"""Records whose gradients a projection is to, at most."""

MOMENTUM = 0.9

BLOCK = 256
"""Records whose gradients are computed at a time."""

SMOOTHING = 0.25
"""The share of the uniform weights in those that a projection found."""


CHOSEN = {
    "PROJECTION_STEPS": PROJECTION_STEPS,
    "ALTERNATIVES": ALTERNATIVES,
    "MOMENTUM": MOMENTUM,
    "SMOOTHING": SMOOTHING,
}
"""What this file fixes, for a program that stores results."""


class ModuleClassifier:
    """A module with the interface of a fitted classifier, as `fit_descent` makes it.

    Args:
        module: maps numbers (n, d) to scores (n, K).
        classes: number of classes, K.
    """

    def __init__(self, module: nn.Module, classes: int) -> None:
        self.module = module
        self.classes_ = np.arange(classes)

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities, shape (n, K)."""
        with torch.no_grad():
            scores = self.module(torch.as_tensor(np.asarray(X), dtype=torch.float32))
        return np.asarray(torch.softmax(scores.double(), dim=1).numpy())


def fit_descent(
    features: Any,
    curator: CuratorLike,
    *,
    module: Any,
    epsilon: float,
    delta: float,
    rng: RandomSource,
    epochs: int = 4,
    batches: int = 4,
    rate: float = 1.0,
    project: bool = False,
    order_seed: int = 0,
) -> Release[Model]:
    """Train a module by gradient steps in which only what labels choose gets noise, released by a trusted curator.

    The gradient of the cross-entropy of a record is Σ_k p_k ∇s_k - ∇s_y for scores s and probabilities p of the module.
    Only the second term knows the label: noise is as large as the two classes of a record whose gradients are farthest
    apart ask for, and nothing is clipped. Use it for a network of your own; where a linear model of good features will
    do, `fit_linear` learns more from the same epsilon.

    Args:
        features: public numbers, shape (n, d).
        curator: holds the labels, `Classes`.
        module: maps numbers (b, d) to scores (b, K), each record by itself: no batch norm, no dropout. A copy is
            trained from its weights: `Public(module, why="…")` or a `Release` of one.
        epsilon, delta: cost of all steps together.
        rng: randomness of the noise.
        epochs: how often each record is looked at; the noise grows with its root.
        batches: public parts of the records, each of which makes a step.
        rate: length of a step, in gradients: a running mean of the released ones; it falls to zero.
        project: whether the noisy part is projected to what some labels of other records could make of it.
        order_seed: public seed of the parts.

    Returns:
        The trained module as a model.

    Guarantee (approximate): (epsilon, delta)-DP for each label: a label is in one part, and is looked at `epochs`
        times.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit all steps together; nothing was charged.

    Source: Huang, for `project`, with the exact noise of parts in the place of sampling. Proof of the noise:
    `docs/proofs/sums-and-counts.md`; of the parts: `docs/proofs/composition.md`.
    """
    check_curator(curator, "classes")
    if not isinstance(module, Public | Release) or not isinstance(module.value, nn.Module):
        raise InputError('must be Public(torch.nn.Module, why="…") or a Release of one', argument="module")
    table = np.asarray(features, dtype=np.float32)
    if table.ndim != 2 or len(table) != curator.records or not np.all(np.isfinite(table)):
        raise InputError(f"must be finite numbers, shape ({curator.records}, d)", argument="features")
    times, count = check_integer(epochs, "epochs"), check_integer(batches, "batches", high=len(table) // 2)
    pace = check_positive(rate, "rate")
    if curator.users is not None:
        raise InputError("curator must protect records, and not users: its parts would share them")
    trained = copy.deepcopy(module.value).float().eval()
    gradients = _Gradients(trained, torch.as_tensor(table), curator.domain.size)
    parts = np.random.default_rng(order_seed).permutation(len(table)) % count
    places = [np.flatnonzero(parts == part) for part in range(count)]
    share = LinearTask.of(curator.domain, epsilon, delta).shared(times)
    holders = curator.split(Public(parts, why=f"records are assigned to parts by the public seed {order_seed}"))
    [stand_in] = share.steps().values()  # gradients follow from earlier steps, and cost as much
    for holder in holders:
        holder.require({f"step {epoch + 1}": stand_in for epoch in range(times)})
    releases: list[Release[Any]] = [] if isinstance(module, Public) else [module]
    speed, total = torch.zeros(gradients.size), times * count
    for number in range(total):
        epoch, part = divmod(number, count)
        rows = gradients.of(places[part])
        public: Any = Public(rows, why="gradients of the first weights")
        if releases:
            public = gather(releases, lambda *_, rows=rows: rows)
        mechanism = GaussianChoice(domain=curator.domain, epsilon=share.epsilon, delta=delta, rows=public)
        release = holders[part].release(mechanism, rng=rng, step=f"step {epoch + 1}")
        releases.append(release)
        mean = release.mechanism.total(release.value) / len(rows)
        if project:
            alternatives = gradients.of(places[(part + 1) % count][:ALTERNATIVES])
            mean = projected(mean, alternatives.reshape(-1, gradients.size))
        speed = MOMENTUM * speed + (1 - MOMENTUM) * torch.as_tensor(mean, dtype=torch.float32)
        gradients.move(pace * (1 - number / total) * speed)
    model = gather(releases, lambda *_: Model(curator.domain, ModuleClassifier(trained, curator.domain.size)))
    return with_given(model, module, "first weights do")


def linear_module(width: int, classes: int) -> nn.Module:
    """Return a linear layer without an offset whose weights are zero.

    Args:
        width: number of features, d.
        classes: number of scores, K.
    """
    layer = nn.Linear(width, classes, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


class _Gradients:
    """Gradients of the scores of a module by its parameters.

    Args:
        module: what is trained, in place.
        inputs: of all records, shape (n, d).
        classes: number of scores, K.
    """

    def __init__(self, module: nn.Module, inputs: Tensor, classes: int) -> None:
        self._module, self._inputs = module, inputs
        self._parameters = {
            name: parameter.detach() for name, parameter in module.named_parameters() if parameter.requires_grad
        }
        self.size = sum(parameter.numel() for parameter in self._parameters.values())
        with torch.no_grad():
            scores = module(inputs[:2])
        if tuple(scores.shape) != (len(inputs[:2]), classes) or not self.size:
            raise InputError(f"must map features to {classes} scores, and have parameters", argument="module")

    def of(self, places: NDArray[np.intp]) -> Floats:
        """Return ∇s_k - Σ_l p_l ∇s_l of some records, shape (b, K, P): minus the gradient if k is the class."""
        blocks = (places[start : start + BLOCK] for start in range(0, len(places), BLOCK))
        return np.concatenate([self._block(self._inputs[torch.as_tensor(block)]) for block in blocks])

    def _block(self, inputs: Tensor) -> Floats:
        def scores(parameters: dict[str, Tensor], one: Tensor) -> Tensor:
            return torch.as_tensor(functional_call(self._module, parameters, (one[None],)))[0]

        slopes = vmap(jacrev(scores), in_dims=(None, 0))(self._parameters, inputs)
        flat = torch.cat([slope.flatten(start_dim=2) for slope in slopes.values()], dim=2)
        with torch.no_grad():
            chances = torch.softmax(self._module(inputs), dim=1)
        return np.asarray((flat - torch.einsum("bk,bkp->bp", chances, flat)[:, None]).double().numpy())

    def move(self, step: Tensor) -> None:
        """Add a step to all parameters."""
        start = 0
        for parameter in self._parameters.values():
            parameter += step[start : start + parameter.numel()].reshape(parameter.shape)
            start += parameter.numel()


def projected(noisy: Floats, gradients: Floats) -> Floats:
    """Return the point of the convex hull of public gradients that is nearest to a noisy one, nearly, shape (P,).

    Weights take steps of accelerated projected descent, and are mixed with uniform ones.

    Args:
        noisy: a mean of gradients with noise, shape (P,).
        gradients: public ones, shape (m, P).

    Source: Huang, Section 4, with the projection to the simplex of Duchi.
    """
    count = len(gradients)
    weights = ahead = np.full(count, 1 / count)
    largest = float(np.linalg.norm(gradients, ord=2)) ** 2
    pace = 1.0
    for _ in range(PROJECTION_STEPS):
        slope = gradients @ (ahead @ gradients - noisy)
        moved = to_simplex(ahead - slope / largest)
        following = (1 + math.sqrt(1 + 4 * pace**2)) / 2
        ahead = moved + (pace - 1) / following * (moved - weights)
        weights, pace = moved, following
    return np.asarray(((1 - SMOOTHING) * weights + SMOOTHING / count) @ gradients)


def to_simplex(values: Floats) -> Floats:
    """Return the nearest point of non-negative coordinates whose sum is 1, shape as given.

    Source: Duchi, Figure 1.

    Examples:
        >>> to_simplex(np.array([0.7, 0.5, -1.0])).round(2).tolist()
        [0.6, 0.4, 0.0]
    """
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    return np.asarray(np.maximum(values - excess[last], 0))
