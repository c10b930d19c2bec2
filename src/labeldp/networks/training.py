"""Train networks: recipes, and the loop over epochs."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.networks.inputs import Inputs, augment, check_names, mixup
from labeldp.networks.losses import FIRST_SMOOTHING, Objective
from labeldp.privacy import InputError

CONFIDENT = 0.9
"""The least probability at which a network's prediction for an image becomes the label of a changed image."""


@dataclass(frozen=True)
class Recipe:
    """How to train a network; all of it is public.

    Args:
        epochs: passes over the records.
        least_steps: as many passes more as it takes to come to so many steps: few records need more passes.
        batch: the most records in a step.
        peak: the highest learning rate.
        warmup: share of the steps in which the rate rises from 0.
        decay: "linear" to 0, "cosine" to 0, or "steps": divided by ten after 30, 60 and 90 percent of the steps.
        momentum: the momentum of Nesterov's method.
        weight_decay: the L2 penalty.
        average: the trained network has a running mean of the weights of all steps, in which the past counts so much at
            each step, such as 0.998; 0 takes the last weights.
        mixup: alpha of the Beta distribution of mixup; 0 for none.
        augment: random changes of each image: "crop", "flip", "cutout", "warp", "zoom", "light".
        consistency: weight of a loss that needs no label: predictions for a strongly changed image should agree with
            a confident prediction for the image itself. 0 for none.
        seed: public seed of order, changes and first weights.
    """

    epochs: int = 6
    least_steps: int = 0
    batch: int = 256
    peak: float = 0.1
    warmup: float = 0.15
    decay: Literal["linear", "cosine", "steps"] = "linear"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    average: float = 0.0
    mixup: float = 0.0
    augment: tuple[str, ...] = ("crop",)
    consistency: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        integers = (self.epochs, self.least_steps, self.batch, self.seed)
        if any(isinstance(number, bool) or not isinstance(number, int) for number in integers):
            raise InputError("epochs, least_steps, batch and seed must be integers")
        if self.epochs < 1 or self.least_steps < 0 or self.batch < 2 or self.seed < 0:
            raise InputError("epochs must be at least 1, batch at least 2, least_steps and seed not negative")
        if not 0 <= self.average < 1:
            raise InputError("average must be in [0, 1)")
        if not self.peak > 0 or not 0 <= self.warmup < 1 or self.mixup < 0 or self.consistency < 0:
            raise InputError("peak must be positive, warmup in [0, 1), mixup and consistency not negative")
        if self.decay not in ("linear", "cosine", "steps"):
            raise InputError("decay must be linear, cosine or steps")
        check_names(self.augment)

    def check(self, inputs: Inputs) -> None:
        """Raise InputError if the recipe asks for changes that these inputs do not allow."""
        if (self.augment or self.consistency) and not inputs.are_images:
            raise InputError("augment and consistency are for images: take Recipe(augment=()) for tables and ids")
        if self.mixup and inputs.are_ids:
            raise InputError("mixup is for images and numbers: ids cannot be mixed")

    def passes(self, count: int) -> int:
        """Return how often the training goes over `count` records."""
        return max(self.epochs, math.ceil(self.least_steps / math.ceil(count / self.batch)))

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
    """What an epoch reports, computed from released labels and features.

    Args:
        epoch: the number of the epoch: 1, 2, …
        loss: the mean loss of the epoch.
        rate: the learning rate at its end.
        confident: share of images with a prediction confident enough to be a label.
    """

    epoch: int
    loss: float
    rate: float
    confident: float = 0.0


@dataclass
class State:
    """The state of a training between epochs, which a checkpoint holds.

    Args:
        network: with the newest weights.
        average: with their running mean, or the same network where there is none.
    """

    network: Any
    average: Any
    optimizer: Any
    generator: torch.Generator
    decay: float = 0.0
    taken: int = 0
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
        average = deepcopy(network) if recipe.average else network
        return cls(network, average, optimizer, torch.Generator().manual_seed(recipe.seed), recipe.average)

    def descend(self, loss: Tensor) -> None:
        """Take one step down the gradient of a loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.taken += 1
        if self.average is self.network:
            return
        decay = min(self.decay, (1 + self.taken) / (10 + self.taken))  # the first weights are forgotten sooner
        with torch.no_grad():
            for mean, newest in zip(
                self.average.state_dict().values(), self.network.state_dict().values(), strict=True
            ):
                if mean.is_floating_point():
                    mean.lerp_(newest, 1 - decay)
                else:
                    mean.copy_(newest)


def train(state: State, inputs: Inputs, objective: Objective, recipe: Recipe) -> Iterator[Record]:
    """Train in place from where the state stands; yield a record after each epoch.

    Args:
        state: fresh, or from a checkpoint of the same run.
        inputs: n records.
        objective: the loss of the same n records.
        recipe: how to train.
    """
    device = next(state.network.parameters()).device
    recipe.check(inputs)
    inputs, objective = inputs.to(device), objective.to(device)
    model = torch.compile(state.network) if is_accelerator(device) else state.network

    def step(records: Tensor, done: float) -> Tensor:
        return _step(model, state, inputs, objective, recipe, records.to(device), FIRST_SMOOTHING * (1 - done))

    yield from run_epochs(state, recipe, len(inputs), step)


def run_epochs(state: State, recipe: Recipe, count: int, step: Callable[[Tensor, float], Tensor]) -> Iterator[Record]:
    """Take the steps of all epochs that are left; yield a record after each epoch.

    Batches of an epoch differ by one record at most: a last one of a few records would count as much as the others, and
    one such step at a high rate, with their mean and deviation in batch norm, can undo what was learned.

    Args:
        state: changed in place.
        recipe: how many records a step has at most, and its learning rate.
        count: the number of records.
        step: takes the records of a batch and the share of the training that is done; returns their loss and the share
            of confident predictions.
    """
    steps, passes = math.ceil(count / recipe.batch), recipe.passes(count)
    device = next(state.network.parameters()).device
    while state.epoch < passes:
        state.network.train()
        batches = torch.randperm(count, generator=state.generator).tensor_split(steps)
        total = torch.zeros(2, device=device)
        for number, records in enumerate(batches):
            done = (state.epoch + number / steps) / passes
            for group in state.optimizer.param_groups:
                group["lr"] = recipe.rate(done)
            if len(records) > 1:  # batch norm needs two
                total += step(records, done)
        state.epoch += 1
        loss, confident = (total / steps).tolist()
        state.records.append(Record(state.epoch, loss, recipe.rate(done), confident))
        yield state.records[-1]


def _step(
    model: Any, state: State, inputs: Inputs, objective: Objective, recipe: Recipe, records: Tensor, smoothing: float
) -> Tensor:
    """Take one step of descent; return its loss and the share of confident predictions."""
    device = records.device
    with mixed_precision(device):
        plain = inputs.batch(records, device)
        changed = augment(plain, recipe.augment, state.generator)
        if recipe.mixup:
            changed, partners, weight = mixup(changed, recipe.mixup, state.generator)
            logarithms = functional.log_softmax(model(changed).float(), dim=1)
            main, other = (objective(logarithms, targets, smoothing) for targets in (records, records[partners]))
            losses = weight * main + (1 - weight) * other
        else:
            losses = objective(functional.log_softmax(model(changed).float(), dim=1), records, smoothing)
        loss, confident = losses.mean(), torch.zeros((), device=device)
        if recipe.consistency:
            added, confident = _consistency(model, state, plain, recipe)
            loss = loss + recipe.consistency * added
    state.descend(loss)
    return torch.stack([loss.detach(), confident])


def _consistency(model: Any, state: State, plain: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of strongly changed images, with confident predictions for the images as labels.

    The second value is the share of confident predictions.

    Source: Sohn et al., FixMatch (2020), eq. (4).
    """
    with torch.no_grad():
        probabilities = functional.softmax(model(augment(plain, ("crop",), state.generator)).float(), dim=1)
    confidence, answers = probabilities.max(dim=1)
    mask = (confidence >= CONFIDENT).float()
    flips = tuple(name for name in recipe.augment if name == "flip")
    strong = augment(plain, (*flips, "warp", "crop", "cutout"), state.generator)
    losses = functional.cross_entropy(model(strong).float(), answers, reduction="none")
    return (mask * losses).mean(), mask.mean()


def device_of(name: str | None) -> torch.device:
    """Return the device of a name; by default an accelerator if there is one."""
    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def is_accelerator(device: torch.device) -> bool:
    """Return whether networks are compiled for a device, and computed in bfloat16."""
    return device.type == "cuda"


def mixed_precision(device: torch.device) -> Any:
    """Return a context that computes in bfloat16 if the device is faster with it."""
    fast = is_accelerator(device) or bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.autocast(device.type, torch.bfloat16, enabled=fast)


_MNIST = Recipe(epochs=40, batch=256, peak=0.02, mixup=8.0, augment=("crop", "cutout"))

_CIFAR10 = Recipe(epochs=200, batch=512, peak=0.4, decay="steps", mixup=8.0, augment=("crop", "flip", "cutout"))

_CIFAR100 = Recipe(epochs=200, batch=256, peak=0.2, decay="steps", mixup=8.0, augment=("crop", "flip", "cutout"))

_QUICK = Recipe(epochs=6, least_steps=1400, batch=256, peak=0.1, augment=("crop",))

_MOVIELENS = Recipe(epochs=20, batch=128, peak=0.1, augment=())

PRESETS: dict[str, tuple[Recipe, ...]] = {
    "mnist": (_MNIST, replace(_MNIST, mixup=2.0)),
    "cifar10": (_CIFAR10, replace(_CIFAR10, mixup=4.0)),
    "cifar100": (_CIFAR100, replace(_CIFAR100, mixup=4.0)),
    "movielens": (_MOVIELENS,),
    "movielens-noisy": (replace(_MOVIELENS, weight_decay=2e-5),),
    "quick": (_QUICK,),
    "brief": (replace(_QUICK, epochs=1, least_steps=400),),
}
"""Recipes for each stage by name; the last one of each is used for all later stages.

"mnist" (28 pixels: MNIST, Fashion-MNIST, KMNIST), "cifar10" and "cifar100" are the paper's, with a mixup inside the
range that it searched. The paper tuned mixup, sizes of stages and temperature for every epsilon on true labels, which
is not done here. The others are ours: "movielens"; "movielens-noisy", the same with less weight decay for an epsilon of
about 1, where the signal is so weak that the decay of "movielens" keeps all embeddings at 0; "quick"; and "brief", a
third of its steps for sweeps without an accelerator.

Source: Ghazi et al., Deep Learning with Label Differential Privacy, appendix F.
"""
