"""One training loop, a generator of records: everything that happens to weights happens here."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.networks.augment import augment, check_names, mixup
from labeldp.networks.inputs import Inputs
from labeldp.networks.objectives import Objective
from labeldp.privacy import InputError

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
        """The learning rate after a share of all steps."""
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
        """Before the first step."""
        optimizer = torch.optim.SGD(
            network.parameters(),
            lr=recipe.peak,
            momentum=recipe.momentum,
            nesterov=recipe.momentum > 0,
            weight_decay=recipe.weight_decay,
        )
        return cls(network, optimizer, torch.Generator().manual_seed(recipe.seed))


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
    inputs, objective, steps = inputs.to(device), objective.to(device), math.ceil(len(inputs) / recipe.batch)
    model = torch.compile(state.network) if device.type == "cuda" else state.network
    while state.epoch < recipe.epochs:
        state.network.train()
        order = torch.randperm(len(inputs), generator=state.generator)
        total = torch.zeros(2, device=device)
        for step in range(steps):
            rate = recipe.rate((state.epoch + step / steps) / recipe.epochs)
            for group in state.optimizer.param_groups:
                group["lr"] = rate
            records = order[step * recipe.batch : (step + 1) * recipe.batch]
            if len(records) > 1:  # batch norm needs two
                total += _step(model, state, inputs, objective, recipe, records.to(device))
        state.epoch += 1
        loss, confident = (total / steps).tolist()
        state.records.append(Record(state.epoch, loss, rate, confident))
        yield state.records[-1]


def _step(model: Any, state: State, inputs: Inputs, objective: Objective, recipe: Recipe, records: Tensor) -> Tensor:
    """One step of descent; its loss and the share of confident answers."""
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
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    state.optimizer.step()
    return torch.stack([loss.detach(), confident])


def _consistency(model: Any, state: State, plain: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The cross-entropy of answers for strongly changed images under confident answers for the images themselves.

    Source: Sohn et al., FixMatch (2020), eq. (4).
    """
    with torch.no_grad():
        own = functional.softmax(model(augment(plain, ("crop",), state.generator)).float(), dim=1)
    confidence, guesses = own.max(dim=1)
    mask = (confidence >= CONFIDENT).float()
    flips = tuple(name for name in recipe.augment if name == "flip")
    strong = augment(plain, (*flips, "warp", "crop", "cutout"), state.generator)
    losses = functional.cross_entropy(model(strong).float(), guesses, reduction="none")
    return (mask * losses).mean(), mask.mean()


def mixed_precision(device: torch.device) -> Any:
    """Half the bits where the device multiplies them faster."""
    fast = device.type == "cuda" or bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.autocast(device.type, torch.bfloat16, enabled=fast)
