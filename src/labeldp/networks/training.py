"""How networks are trained: recipes, losses, and the loop over epochs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.learners import Evidence
from labeldp.networks.inputs import Inputs, augment, check_names, mixup
from labeldp.privacy import InputError, NotInvertibleError

CONFIDENT = 0.9
"""Of a network's own answer for an image, before it is taken as a label for the image's other views."""


@dataclass(frozen=True)
class Recipe:
    """How weights are trained; all of it is public.

    Args:
        epochs: passes over the records.
        batch: records in a step.
        peak: highest learning rate.
        warmup: share of the steps in which the rate rises from 0.
        decay: "linear" to 0, "cosine" to 0, or "steps": a tenth after 30, 60 and 90 percent.
        momentum: of Nesterov's method.
        weight_decay: L2 penalty.
        mixup: alpha of its Beta law; 0 for none.
        augment: changes of each image: "crop", "flip", "cutout", "warp", "zoom", "light".
        consistency: weight of the loss that makes answers for a strongly changed image agree with a confident
            answer for the image itself; needs no label. 0 for none.
        seed: of order, changes and first weights.
    """

    epochs: int = 6
    batch: int = 256
    peak: float = 0.1
    warmup: float = 0.15
    decay: Literal["linear", "cosine", "steps"] = "linear"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    mixup: float = 0.0
    augment: tuple[str, ...] = ("crop",)
    consistency: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        whole = (self.epochs, self.batch, self.seed)
        if any(isinstance(each, bool) or not isinstance(each, int) for each in whole):
            raise InputError("epochs, batch and seed must be integers")
        if self.epochs < 1 or self.batch < 2 or self.seed < 0:
            raise InputError("epochs must be at least 1, batch at least 2, and seed not negative")
        if not self.peak > 0 or not 0 <= self.warmup < 1 or self.mixup < 0 or self.consistency < 0:
            raise InputError("peak must be positive, warmup in [0, 1), mixup and consistency not negative")
        if self.decay not in ("linear", "cosine", "steps"):
            raise InputError("decay must be linear, cosine or steps")
        check_names(self.augment)

    def check(self, inputs: Inputs) -> None:
        """Refuse what these inputs cannot be changed by."""
        if (self.augment or self.consistency) and not inputs.are_images:
            raise InputError("augment and consistency are for images: take Recipe(augment=()) for tables and ids")
        if self.mixup and inputs.are_ids:
            raise InputError("mixup is for images and numbers: ids cannot be mixed")

    def rate(self, done: float) -> float:
        """Return the learning rate after a share of all steps."""
        if done < self.warmup:
            return self.peak * done / self.warmup
        if self.decay == "steps":
            return self.peak * 0.1 ** sum(done >= mark for mark in (0.3, 0.6, 0.9))
        left = (1 - done) / (1 - self.warmup)
        return self.peak * (left if self.decay == "linear" else (1 - math.cos(math.pi * left)) / 2)


@dataclass(frozen=True)
class Record:
    """What a finished epoch shows: computed from released labels and features.

    Args:
        epoch: 1, 2, …
        loss: mean over the epoch.
        rate: learning rate at its end.
        confident: share of images whose own answer was taken as a label.
    """

    epoch: int
    loss: float
    rate: float
    confident: float = 0.0


@dataclass
class State:
    """What a training run carries from epoch to epoch, and a checkpoint holds."""

    network: Any
    optimizer: Any
    generator: torch.Generator
    epoch: int = 0
    records: list[Record] = field(default_factory=list)

    @classmethod
    def fresh(cls, network: Any, recipe: Recipe) -> "State":
        """Return the state before the first step."""
        optimizer = torch.optim.SGD(
            network.parameters(),
            lr=recipe.peak,
            momentum=recipe.momentum,
            nesterov=recipe.momentum > 0,
            weight_decay=recipe.weight_decay,
        )
        return cls(network, optimizer, torch.Generator().manual_seed(recipe.seed))

    def descend(self, loss: Tensor) -> None:
        """Take one step down the gradient of a loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


@dataclass(frozen=True)
class Objective:
    """A loss of log probabilities for each record.

    Args:
        rows: shape (n, K). Targets: the loss is -sum_k rows[k] log p[k]. Likelihoods of the released label:
            -log sum_k rows[k] p[k].
        likelihood: which of the two.
    """

    rows: Tensor = field(repr=False)
    likelihood: bool = False

    def __call__(self, logarithms: Tensor, records: Tensor) -> Tensor:
        """Return the loss of each record, shape (b,).

        Args:
            logarithms: log probabilities, shape (b, K).
            records: which ones, shape (b,).
        """
        rows = self.rows[records]
        if self.likelihood:
            return -torch.logsumexp(logarithms + rows.log(), dim=1)
        return -(rows * logarithms).sum(dim=1)

    def to(self, device: torch.device) -> "Objective":
        """Return the same on another device."""
        return Objective(self.rows.to(device), self.likelihood)

    def __len__(self) -> int:
        return len(self.rows)


def train(state: State, inputs: Inputs, objective: Objective, recipe: Recipe) -> Iterator[Record]:
    """Train in place; yield a record after each epoch, from where the state stands to the last one.

    Args:
        state: fresh, or from a checkpoint of the same run.
        inputs: n records.
        objective: of the same n records.
        recipe: how.
    """
    device = next(state.network.parameters()).device
    recipe.check(inputs)
    inputs, objective = inputs.to(device), objective.to(device)
    model = torch.compile(state.network) if device.type == "cuda" else state.network

    def step(records: Tensor, done: float) -> Tensor:
        return _step(model, state, inputs, objective, recipe, records.to(device))

    yield from run_epochs(state, recipe, len(inputs), step)


def run_epochs(state: State, recipe: Recipe, count: int, step: Callable[[Tensor, float], Tensor]) -> Iterator[Record]:
    """Take the steps of all epochs that are left; yield a record after each epoch.

    Args:
        state: changed in place.
        recipe: how many records a step has, and at which rate.
        count: of all records.
        step: takes the records of a batch and the share of the training that is done; returns their loss and the share
            of confident answers.
    """
    steps = math.ceil(count / recipe.batch)
    device = next(state.network.parameters()).device
    while state.epoch < recipe.epochs:
        state.network.train()
        order = torch.randperm(count, generator=state.generator)
        total = torch.zeros(2, device=device)
        for number in range(steps):
            done = (state.epoch + number / steps) / recipe.epochs
            for group in state.optimizer.param_groups:
                group["lr"] = recipe.rate(done)
            records = order[number * recipe.batch : (number + 1) * recipe.batch]
            if len(records) > 1:  # batch norm needs two
                total += step(records, done)
        state.epoch += 1
        loss, confident = (total / steps).tolist()
        state.records.append(Record(state.epoch, loss, recipe.rate(done), confident))
        yield state.records[-1]


def _step(model: Any, state: State, inputs: Inputs, objective: Objective, recipe: Recipe, records: Tensor) -> Tensor:
    """Take one step of descent; return its loss and the share of confident answers."""
    device = records.device
    with mixed_precision(device):
        plain = inputs.batch(records, device)
        changed = augment(plain, recipe.augment, state.generator)
        if recipe.mixup:
            changed, others, weight = mixup(changed, recipe.mixup, state.generator)
            logarithms = functional.log_softmax(model(changed).float(), dim=1)
            losses = weight * objective(logarithms, records) + (1 - weight) * objective(logarithms, records[others])
        else:
            losses = objective(functional.log_softmax(model(changed).float(), dim=1), records)
        loss, confident = losses.mean(), torch.zeros((), device=device)
        if recipe.consistency:
            added, confident = _consistency(model, state, plain, recipe)
            loss = loss + recipe.consistency * added
    state.descend(loss)
    return torch.stack([loss.detach(), confident])


def _consistency(model: Any, state: State, plain: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of answers for strongly changed images under confident answers for the images.

    Source: Sohn et al., FixMatch (2020), eq. (4).
    """
    with torch.no_grad():
        own = functional.softmax(model(augment(plain, ("crop",), state.generator)).float(), dim=1)
    confidence, answers = own.max(dim=1)
    mask = (confidence >= CONFIDENT).float()
    flips = tuple(name for name in recipe.augment if name == "flip")
    strong = augment(plain, (*flips, "warp", "crop", "cutout"), state.generator)
    losses = functional.cross_entropy(model(strong).float(), answers, reduction="none")
    return (mask * losses).mean(), mask.mean()


def mixed_precision(device: torch.device) -> Any:
    """Return a context that halves the bits where the device multiplies them faster."""
    fast = device.type == "cuda" or bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.autocast(device.type, torch.bfloat16, enabled=fast)


Loss = Literal["forward", "cross-entropy", "debiased", "posterior"]


def targets(rows: Any) -> Objective:
    """Return the loss of soft labels, such as the probabilities of a released model: distillation.

    Args:
        rows: shape (n, K).

    Source: Hinton, Vinyals, Dean, Distilling the Knowledge in a Neural Network (2015).
    """
    return Objective(torch.tensor(np.asarray(rows), dtype=torch.float32))


def objective_of(evidence: Evidence, loss: Loss, prior: Any = None) -> Objective:
    """Return the loss of released labels.

    Args:
        evidence: of n released labels.
        loss: "forward": the likelihood of the released label under the network's probabilities of the true one.
            "cross-entropy": released labels taken for true. "debiased": the unbiased loss, with negative
            weights. "posterior": soft labels P(true class | released label) under `prior`.
        prior: class probabilities from elsewhere, shape (n, K); for "posterior", by default the classes' shares.

    Raises:
        NotInvertibleError: "debiased" where the noise has no inverse.

    Source: Patrini et al. (2017), section 3.2, for "forward"; "debiased": Ghazi et al., Deep Learning with Label
    Differential Privacy, eq. (17).
    """
    if loss not in get_args(Loss):
        raise InputError(f"loss must be one of {', '.join(get_args(Loss))}")
    if loss == "forward":
        return Objective(torch.tensor(evidence.likelihood, dtype=torch.float32), likelihood=True)
    if loss == "posterior":
        return targets(evidence.posterior(evidence.class_prior()[None, :] if prior is None else prior))
    if loss == "cross-entropy":
        return targets(np.eye(evidence.classes)[evidence.codes.astype(np.int64)])
    if evidence.matrix is None:
        raise NotInvertibleError('loss="debiased" needs noise with an inverse: one stage without a prior')
    return targets(np.linalg.inv(evidence.matrix)[evidence.codes.astype(np.int64)])


_GRAY = Recipe(epochs=40, batch=256, peak=0.02, mixup=8.0, augment=("crop", "cutout"))

_COLOR = Recipe(epochs=200, batch=512, peak=0.4, decay="steps", mixup=8.0, augment=("crop", "flip", "cutout"))

_FINE = Recipe(epochs=200, batch=256, peak=0.2, decay="steps", mixup=8.0, augment=("crop", "flip", "cutout"))

_QUICK = Recipe(epochs=6, batch=256, peak=0.1, augment=("crop",))

PRESETS: dict[str, tuple[Recipe, ...]] = {
    "mnist": (_GRAY, replace(_GRAY, mixup=2.0)),
    "cifar10": (_COLOR, replace(_COLOR, mixup=4.0)),
    "cifar100": (_FINE, replace(_FINE, mixup=4.0)),
    "movielens": (Recipe(epochs=20, batch=128, peak=0.1, augment=()),),
    "quick": (_QUICK,),
}
"""A recipe for each stage, the last one for all that follow.

"mnist" (28 pixels: MNIST, Fashion-MNIST, KMNIST), "cifar10" and "cifar100" are the paper's, with a mixup inside the
range that it searched; it tuned mixup, sizes of stages and temperature for every epsilon on true labels, which is not
done here. "movielens" and "quick" are ours.

Source: Ghazi et al., Deep Learning with Label Differential Privacy, appendix F.
"""
