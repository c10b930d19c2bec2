"""Learn embeddings from images alone: two augmented views of one image should have similar embeddings."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional

from labeldp.networks.architectures import Network, build
from labeldp.networks.classifier import Checkpoint, Watch, answers, refusing_large_batches
from labeldp.networks.inputs import Inputs, augment
from labeldp.networks.training import Recipe, Record, State, device_of, mixed_precision, run_epochs
from labeldp.privacy import InputError

Method = Literal["contrast", "byol"]

HIDDEN = 256

PROJECTED = 128

TEMPERATURE = 0.2
"""The temperature of the contrastive loss: similarities of views are divided by it."""

TARGET_MOMENTUM = 0.95
"""The share of its weights that BYOL's target network keeps in the first step; it rises to 1."""

VIEWS = ("zoom", "flip", "light")

RECIPE = Recipe(epochs=4, batch=256, peak=0.3, warmup=0.1, decay="cosine", augment=VIEWS)


class Contrast(nn.Module):  # type: ignore[misc]
    """The contrastive loss: a view's projection should pick out the other view of its image among all in the batch.

    Source: Chen et al., A Simple Framework for Contrastive Learning (2020), eq. (1).
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.projector = _mlp(network.width)

    def forward(self, views: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss of a batch."""
        count = len(views[0])
        projected = [self.projector(self.network.encoder(view)).float() for view in views]
        joined = functional.normalize(torch.cat(projected), dim=1)
        alike = (joined @ joined.T / TEMPERATURE).fill_diagonal_(-torch.inf)
        partners = torch.arange(2 * count, device=alike.device).roll(count)
        return functional.cross_entropy(alike, partners)

    def follow(self, done: float) -> None:
        """Do nothing: there is no target network."""


class Bootstrap(nn.Module):  # type: ignore[misc]
    """The loss of BYOL: one view's projection should predict the other's by a target network, a slowly updated copy.

    Source: Grill et al., Bootstrap Your Own Latent (2020), eq. (2).
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.projector, self.predictor = _mlp(network.width), _mlp(PROJECTED)
        self.target = deepcopy(nn.ModuleList([network.encoder, self.projector])).requires_grad_(False)

    def forward(self, views: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss of a batch, with each view as the target once."""
        predictions = [self.predictor(self.projector(self.network.encoder(view))).float() for view in views]
        with torch.no_grad():
            aims = [self.target[1](self.target[0](view)).float() for view in reversed(views)]
        likeness = [
            functional.cosine_similarity(prediction, aim).mean()
            for prediction, aim in zip(predictions, aims, strict=True)
        ]
        return 2 - likeness[0] - likeness[1]

    def follow(self, done: float) -> None:
        """Move the target network towards the network, less so towards the end of the training."""
        step = (1 - TARGET_MOMENTUM) * (math.cos(math.pi * done) + 1) / 2
        leading = [*self.network.encoder.parameters(), *self.projector.parameters()]
        with torch.no_grad():
            for parameter, led in zip(self.target.parameters(), leading, strict=True):
                parameter.lerp_(led, step)


LOSSES: dict[str, Callable[[Network], Any]] = {"contrast": Contrast, "byol": Bootstrap}


class SelfSupervised(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Embeddings of a network trained on images alone, with the interface of scikit-learn.

    Use it as `representation` of `fit_linear`, as `init` of `NetworkClassifier`, or embed images for `cluster_prior`.
    It costs no epsilon, but time: `PatchFilters` is faster, and better if images are centered and training is short.
    To use a fitted one again without training, wrap it: `FunctionTransformer(fitted.transform)` of scikit-learn.

    Args:
        network: a key of `NETWORKS` that takes images.
        method: "contrast", the better one for the time that it takes (`docs/results/choice-of-defaults.md`), or "byol",
            as in the paper.
        recipe: how to train; its `augment` makes the views; `mixup` and `consistency` are not used. Leave "flip" out
            if mirrored images mean something else, as those of digits do.
        checkpoints: a folder in which an interrupted training is continued, and a finished one is found again.
        watch: called after each epoch with the step, the record, and the number of epochs.
        device: "cpu" or "cuda"; by default an accelerator if there is one.

    Guarantee (no_labels): labels are not looked at.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, section 5 (BYOL before Algorithm 4).
    """

    def __init__(
        self,
        network: str = "cnn",
        *,
        method: Method = "contrast",
        recipe: Recipe = RECIPE,
        checkpoints: str | Path | None = None,
        watch: Watch | None = None,
        device: str | None = None,
    ) -> None:
        self.network = network
        self.method = method
        self.recipe = recipe
        self.checkpoints = checkpoints
        self.watch = watch
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on images X, bytes (n, h, w) or (n, h, w, 3); labels are not read.

        Raises:
            InputError: the features are not such images, or a checkpoint is of another run.
        """
        if self.method not in get_args(Method):
            raise InputError(f"method must be one of {', '.join(get_args(Method))}")
        inputs = Inputs.of(X)
        if inputs.raw.ndim != 4 or len(inputs) < 2:
            raise InputError("features must be two images or more, bytes of shape (n, h, w) or (n, h, w, 3)")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            module = LOSSES[self.method](build(self.network, inputs.shape, 2, self.recipe.seed))
        state = State.fresh(module.to(device=device_of(self.device), memory_format=torch.channels_last), self.recipe)
        checkpoint = Checkpoint.of(self.checkpoints, self.method, state, inputs, None, self.recipe)
        checkpoint.resume(state)
        with refusing_large_batches(self.recipe.batch, len(inputs)):
            for record in train_views(state, inputs, self.recipe):
                checkpoint.save(state)
                if self.watch is not None:
                    self.watch(self.method, record, self.recipe.passes(len(inputs)))
        self.network_, self.scale_, self.shape_ = state.average.network.eval(), inputs.scale, inputs.shape
        self.records_ = tuple(state.records)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return embeddings, shape (n, width)."""
        check_is_fitted(self, "network_")
        return answers(self, X, lambda network, batch: network.encoder(batch)).numpy()


def train_views(state: State, inputs: Inputs, recipe: Recipe) -> Iterator[Record]:
    """Train in place on two views of each image; yield a record after each epoch."""
    device = next(state.network.parameters()).device

    def step(records: Tensor, done: float) -> Tensor:
        loss = _step(state, inputs.batch(records, device), recipe)
        state.network.follow(done)
        return torch.stack([loss, torch.zeros_like(loss)])

    yield from run_epochs(state, recipe, len(inputs), step)


def _step(state: State, images: Tensor, recipe: Recipe) -> Tensor:
    views = tuple(augment(images, recipe.augment, state.generator) for _ in range(2))
    with mixed_precision(images.device):
        loss = state.network(tuple(view.contiguous(memory_format=torch.channels_last) for view in views))
    state.descend(loss)
    return loss.detach()


def _mlp(width: int) -> nn.Sequential:
    """Build a network with one hidden layer and a linear projection."""
    hidden = [nn.Linear(width, HIDDEN, bias=False), nn.BatchNorm1d(HIDDEN), nn.ReLU(inplace=True)]
    return nn.Sequential(*hidden, nn.Linear(HIDDEN, PROJECTED))
