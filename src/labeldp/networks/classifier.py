"""`NetworkClassifier`, and the checkpoints of its training."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn
from torch.nn import functional

from labeldp.learners import IMAGE_NETWORKS, MIN_RECORDS, Evidence, Model, Progress, Staged, Task, no_progress
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.networks.architectures import build
from labeldp.networks.inputs import Inputs, InputScale
from labeldp.networks.losses import Loss, Objective, objective_of, targets
from labeldp.networks.training import PRESETS, Recipe, Record, State, device_of, mixed_precision, train
from labeldp.privacy import CuratorLike, InputError, Public, RandomSource, Release, check_choice

PREDICT_BATCH = 1024
"""Records in a batch of predictions."""

Watch = Callable[[str, Record, int], None]


class NetworkClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network with the interface of scikit-learn, for `fit_multistage`, `fit_noisy`, or on its own.

    Features are images of bytes (n, h, w) or (n, h, w, 3), numbers (n, d), or pairs of ids (n, 2). In
    `fit_multistage` the loss takes the noise of every released label into account, each stage starts from the weights
    of the one before, and each stage may have a recipe of its own.

    Args:
        network: a key of `NETWORKS`, unless there is a `module`.
        module: any `torch.nn.Module` that returns scores, shape (n, K), of images (n, channels, h, w), of numbers
            (n, d), scaled, or with `counts` of ids (n, 2). A copy of it is trained, from the weights that it has:
            the certificate says that these do not depend on the private labels, or why, if it is
            `Public(module, why="…")`.
        recipe: one recipe for every stage, or a sequence with one for each.
        loss: the loss of released labels: see `objective_of`. By default "forward", and "posterior" if there is a
            prior: where the prior left one candidate, the released label alone says nothing.
        counts: for pairs of ids, how many ids each column may hold.
        init: a fitted classifier of inputs of the same shape, to start from its weights under a new head:
            `Public(classifier, why="…")`, or a `Release` of one, whose charges the model's certificate then lists.
        checkpoints: a folder in which an interrupted training is continued.
        watch: called after each epoch with the stage, the record, and the number of epochs.
        device: "cpu" or "cuda"; by default an accelerator if there is one.
        views: names of changes of an image, "flip" or "shift", over which its prediction is averaged: itself and its
            mirror image, or itself and two that are moved by a pixel along both sides.
    """

    def __init__(
        self,
        network: str = "cnn",
        *,
        module: Any = None,
        recipe: Recipe | Sequence[Recipe] | None = None,
        loss: Loss | None = None,
        counts: tuple[int, int] | None = None,
        init: Any = None,
        checkpoints: str | Path | None = None,
        watch: Watch | None = None,
        device: str | None = None,
        views: tuple[str, ...] = (),
    ) -> None:
        self.network = network
        self.module = module
        self.recipe = recipe
        self.loss = loss
        self.views = views
        self.counts = counts
        self.init = init
        self.checkpoints = checkpoints
        self.watch = watch
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Train on codes 0 to K - 1, shape (n,), as if they were the true labels."""
        codes = np.asarray(y)
        return self.fit_soft(X, np.eye(int(codes.max()) + 1)[codes])

    def fit_soft(self, X: Any, weights: Any, start: Any = None, step: str = "soft labels") -> Self:
        """Train on soft labels, shape (n, K).

        Args:
            X: features of n records.
            weights: the soft labels.
            start: a fitted classifier, to start from its weights.
            step: the name of this training for `watch` and checkpoints.
        """
        return self._fit(X, targets(weights), np.shape(weights)[1], start, step)

    def fit_released(self, X: Any, evidence: Evidence, *, start: Any = None, prior: Any = None, stage: int = 1) -> Self:
        """Train on released labels whose noise is known.

        Args:
            X: features of n records.
            evidence: the released labels and their noise.
            start: the fitted classifier of the stage before, to start from its weights.
            prior: class probabilities from another source, shape (n, K).
            stage: 1, 2, …: which of several recipes to use.
        """
        if self.loss is not None:
            loss = self.loss
        elif start is not None:
            loss = getattr(start, "loss_", "forward")
        else:
            loss = "posterior" if prior is not None and np.ptp(prior, axis=0).any() else "forward"
        self._fit(X, objective_of(evidence, loss, prior), evidence.classes, start, f"stage {stage}", stage)
        self.loss_ = loss
        return self

    def dry_run(self, X: Any, classes: int) -> None:
        """Train one step of each stage on synthetic labels, to find errors before anything is charged.

        Raises:
            InputError: features, loss, recipes or initial weights cannot be used.
        """
        inputs = self._inputs(X)
        if inputs.are_ids and self.counts is None:
            raise InputError("counts must say how many ids each column may hold, such as counts=(6040, 3952)")
        domain = Classes(classes)
        for recipe in self._recipes(inputs):
            network = self._first_network(inputs, classes, None, recipe)
            records = np.arange(min(len(inputs), recipe.batch))
            made_up = (records % classes).astype(domain.dtype)
            evidence = Evidence.made_by(RandomizedResponse(domain=domain, epsilon=1.0), made_up)
            short = replace(recipe, epochs=1, least_steps=0, batch=max(len(records), 2))
            with refusing_large_batches(recipe.batch, len(records)):
                objective = objective_of(evidence, self.loss or "forward")
                list(train(State.fresh(network, short), inputs.take(records), objective, short))

    def _fit(self, X: Any, objective: Objective, classes: int, start: Any, step: str, stage: int = 1) -> Self:
        """Train to the end, from the checkpoint of this run if there is one."""
        inputs = self._inputs(X, None if start is None else start.scale_)
        recipes = self._recipes(inputs)
        recipe = recipes[min(stage, len(recipes)) - 1]
        if len(inputs) != len(objective):
            raise InputError("features must have one row for each label")
        network = self._first_network(inputs, classes, start, recipe)
        state = State.fresh(network, recipe)
        checkpoint = Checkpoint.of(self.checkpoints, step, state, inputs, objective, recipe)
        checkpoint.resume(state)
        with refusing_large_batches(recipe.batch, len(inputs)):
            for record in train(state, inputs, objective, recipe):
                checkpoint.save(state)
                if self.watch is not None:
                    self.watch(step, record, recipe.passes(len(inputs)))
        self.network_, self.scale_, self.shape_ = state.average.eval(), inputs.scale, self._shape(inputs)
        self.classes_ = np.arange(classes)
        self.records_ = tuple(state.records)
        return self

    def _recipes(self, inputs: Inputs) -> Sequence[Recipe]:
        """Return a recipe for each stage; the last one is used for all later stages."""
        if self.recipe is None:
            return [Recipe() if inputs.are_images else Recipe(augment=())]
        return [self.recipe] if isinstance(self.recipe, Recipe) else self.recipe

    def _inputs(self, X: Any, scale: Any = None) -> Inputs:
        return Inputs.of(X, scale, ids=_takes_ids(self))

    @property
    def module_weights(self) -> Public[Any] | Release[Any] | None:
        """The module with what is said of its first weights; None without one."""
        if self.module is None or isinstance(self.module, Public | Release):
            return self.module
        return Public(self.module, why="they were given with the module")

    def _first_module(self, inputs: Inputs, classes: int, start: Any) -> nn.Module:
        """Return a copy of the module before the first step, on the device, after a look at what it answers."""
        weights = self.module_weights
        assert weights is not None
        if not isinstance(weights.value, nn.Module):
            raise InputError("must be a torch.nn.Module that returns scores, shape (n, K)", argument="module")
        if self.init is not None:
            raise InputError("goes with network: a module has weights of its own", argument="init")
        module = deepcopy(weights.value).to(device=device_of(self.device), memory_format=torch.channels_last)
        if start is not None:
            module.load_state_dict(start.network_.state_dict())
        try:
            with torch.no_grad():
                module.eval()
                batch = inputs.batch(torch.arange(min(len(inputs), 2)), device_of(self.device))
                output = module(batch.contiguous(memory_format=_layout(batch)))
            shape = tuple(output.shape)
        except Exception as error:
            text = str(error).splitlines()[:1]
            raise InputError(f"cannot take these features: {''.join(text)}", argument="module") from error
        if shape != (len(batch), classes):
            scores = f"scores, shape ({len(batch)}, {classes}), for {len(batch)} records"
            raise InputError(f"must return {scores}, and returns shape {shape}", argument="module")
        return module

    def _first_network(self, inputs: Inputs, classes: int, start: Any, recipe: Recipe) -> nn.Module:
        shape = self._shape(inputs)
        if self.module is not None:
            return self._first_module(inputs, classes, start)
        network = build(self.network, shape, classes, recipe.seed)
        if start is not None:
            network.load_state_dict(start.network_.state_dict())
        elif self.init is not None:
            if not isinstance(self.init, Public | Release):
                raise InputError('init must be Public(network, why="…") or a Release: private labels are in no weights')
            initial = self.init.value
            if initial.network != self.network or initial.shape_ != shape:
                raise InputError("init must be a network of the same kind, for inputs of the same shape")
            network.encoder.load_state_dict(initial.network_.encoder.state_dict())
        return network.to(device=device_of(self.device), memory_format=torch.channels_last)

    def _shape(self, inputs: Inputs) -> tuple[int, ...]:
        if self.counts is None:
            return inputs.shape
        if not inputs.fit_into(self.counts):
            raise InputError("counts must be larger than every id of its column")
        return self.counts

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities of the true class, shape (n, K)."""
        logarithms = answers(self, X, self._mean_logarithms)
        return functional.softmax(logarithms.double(), dim=1).numpy()

    def _mean_logarithms(self, network: Any, batch: torch.Tensor) -> torch.Tensor:
        """Return log probabilities of a batch, averaged over its views, shape (b, K)."""
        views = [batch, *(changed for name in self.views for changed in VIEWS[name](batch))]
        logits = (network(view.contiguous(memory_format=_layout(view))).float() for view in views)
        return torch.stack([functional.log_softmax(scores, dim=1) for scores in logits]).mean(dim=0)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the likeliest code, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the embedding below the head, shape (n, width): features for `fit_linear`."""
        if self.module is not None:
            raise InputError("must be left out: only networks by name have an embedding", argument="module")
        return answers(self, X, lambda network, batch: network.encoder(batch)).numpy()

    def __getstate__(self) -> dict[str, Any]:
        """Return, once fitted, what predictions need, as NumPy arrays: reading them needs no torch and runs no code."""
        if self.module is not None or not hasattr(self, "network_"):
            return dict(vars(self))
        weights = {name: weight.cpu().numpy() for name, weight in self.network_.state_dict().items()}
        scale = None if self.scale_ is None else (self.scale_.mean.numpy(), self.scale_.spread.numpy())
        classes, shape = len(self.classes_), list(self.shape_)
        views = {"views": list(self.views)} if self.views else {}
        return {
            "network": self.network,
            "classes": classes,
            "shape": shape,
            "scale": scale,
            "weights": weights,
            **views,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "weights" not in state:
            self.__dict__.update(state)
            return
        self.__init__(state["network"], views=tuple(state.get("views", ())))  # type: ignore[misc]
        self.shape_, self.classes_ = tuple(state["shape"]), np.arange(state["classes"])
        self.scale_ = None if state["scale"] is None else InputScale(*map(torch.from_numpy, state["scale"]))
        network = build(self.network, self.shape_, state["classes"], 0)
        network.load_state_dict({name: torch.as_tensor(array) for name, array in state["weights"].items()})
        self.network_ = network.to(device=device_of(self.device), memory_format=torch.channels_last).eval()

    def __sklearn_clone__(self) -> "NetworkClassifier":
        """Return an unfitted classifier with the same arguments; initial weights are shared, not copied."""
        return type(self)(**self.get_params(deep=False))

    def __deepcopy__(self, memo: Any) -> "NetworkClassifier":
        copy = self.__sklearn_clone__()
        copy.__dict__.update({name: deepcopy(value, memo) for name, value in vars(self).items() if name.endswith("_")})
        return copy


def mirrored(images: torch.Tensor) -> list[torch.Tensor]:
    """Return images (n, c, h, w) from left to right."""
    return [images.flip(3)]


def shifted(images: torch.Tensor) -> list[torch.Tensor]:
    """Return images (n, c, h, w) moved by a pixel along both sides; what leaves on one side enters on the other."""
    return [torch.roll(images, (step, step), (2, 3)) for step in (1, -1)]


VIEWS: dict[str, Callable[[torch.Tensor], list[torch.Tensor]]] = {"flip": mirrored, "shift": shifted}


def _layout(batch: torch.Tensor) -> torch.memory_format:
    return torch.channels_last if batch.ndim == 4 else torch.contiguous_format


def _takes_ids(estimator: Any) -> bool:
    """Return whether an estimator takes pairs of integers for ids, and not for numbers."""
    if getattr(estimator, "module", None) is not None:
        return estimator.counts is not None
    return bool(estimator.network == "collaborative")


def answers(fitted: Any, X: Any, function: Callable[[Any, Any], Any]) -> torch.Tensor:
    """Return `function(network, batch)` of a fitted estimator's network, for all records in batches, shape (n, …)."""
    inputs = Inputs.of(X, fitted.scale_, ids=_takes_ids(fitted))
    if not inputs.fit_into(fitted.shape_):
        raise InputError(f"features must have the shape of those in training: {fitted.shape_} for each record")
    device = next(fitted.network_.parameters()).device
    parts = []
    for start in range(0, max(len(inputs), 1), PREDICT_BATCH):
        batch = inputs.batch(torch.arange(start, min(start + PREDICT_BATCH, len(inputs))), device)
        with torch.no_grad(), mixed_precision(device):
            parts.append(function(fitted.network_, batch).float().cpu())
    return torch.cat(parts)


@dataclass(frozen=True)
class Checkpoint:
    """A file and the digest of the run that may use it.

    Args:
        path: the file; None if nothing is kept.
        run: a digest of recipe, inputs, objective and first weights.
    """

    path: Path | None
    run: str

    @classmethod
    def of(
        cls, folder: Any, step: str, state: State, inputs: Inputs, objective: Objective | None, recipe: Recipe
    ) -> "Checkpoint":
        """Return the checkpoint of a step, and make its folder; the objective is None for training without labels."""
        if folder is None:
            return cls(None, "")
        Path(folder).mkdir(parents=True, exist_ok=True)
        kind = None if objective is None else objective.likelihood
        digest = hashlib.sha256(repr((recipe, inputs.shape, len(inputs), kind)).encode())
        digest.update(inputs.raw.numpy())
        if objective is not None:
            digest.update(objective.rows.numpy())
        for weight in state.network.state_dict().values():
            digest.update(weight.cpu().contiguous().numpy().tobytes())
        return cls(Path(folder) / f"{step.replace(' ', '-')}.pt", digest.hexdigest())

    def save(self, state: State) -> None:
        """Write the state, whole or not at all."""
        if self.path is None:
            return
        content = {
            "run": self.run,
            "network": state.network.state_dict(),
            "average": state.average.state_dict(),
            "taken": state.taken,
            "optimizer": state.optimizer.state_dict(),
            "generator": state.generator.get_state(),
            "records": [asdict(record) for record in state.records],
        }
        hidden = self.path.with_suffix(".writing")
        torch.save(content, hidden)
        os.replace(hidden, self.path)

    def resume(self, state: State) -> None:
        """Restore a state from the file, if there is one.

        Raises:
            InputError: the file belongs to another run, or is damaged.
        """
        if self.path is None or not self.path.is_file():
            return
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
            run = content["run"]
        except Exception as error:  # a damaged file may raise anything
            raise InputError(f"the checkpoint {self.path} is damaged: remove it to start again") from error
        if run != self.run:
            raise InputError(f"{self.path} is a checkpoint of another run: name another folder, or remove it")
        state.network.load_state_dict(content["network"])
        state.average.load_state_dict(content["average"])
        state.taken = content["taken"]
        state.optimizer.load_state_dict(content["optimizer"])
        state.generator.set_state(content["generator"])
        state.records = [Record(**entry) for entry in content["records"]]
        state.epoch = len(state.records)


_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


@contextmanager
def refusing_large_batches(batch: int, records: int) -> Iterator[None]:
    """Turn the failure of an allocation into an InputError that proposes a smaller batch.

    Raises:
        InputError: there is not enough memory.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _OUT_OF_MEMORY):
            raise
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        used = min(batch, records)
        raise InputError(
            f"a batch of {used} records does not fit into memory: take batch={max(used // 2, 2)} or less"
        ) from error


STAGE_PRESETS = {"inception": "mnist", "resnet18": "cifar10"}
"""The presets of the paper's networks; any other takes the short one, "quick"."""

NOT_SIMULATED = "The accuracy at other values of ε is not simulated: a network would have to be trained for each."


@final
@dataclass(frozen=True)
class NetworkStages(Staged):
    """A network that learns in stages from labels that are randomized one by one, and knows their noise.

    Args:
        network: a key of `IMAGE_NETWORKS`.
        epochs: of each stage; None for what its recipe says.
        init, checkpoints: as in `NetworkClassifier`.
    """

    network: str = "cnn"
    temperature: float | Literal["calibrated"] = "calibrated"
    epochs: int | None = None
    init: Any = field(default=None, repr=False)
    checkpoints: str | Path | None = None
    watch: Watch | None = field(default=None, repr=False, compare=False)
    resumable: ClassVar[bool] = True
    notes: ClassVar[tuple[str, ...]] = (NOT_SIMULATED,)

    @property
    def noise_aware(self) -> bool:
        """It is."""
        return True

    def candidates(self, features: Any, task: Task) -> list[Any]:
        """Return the unfitted network, with a recipe for each stage."""
        recipes = PRESETS[STAGE_PRESETS.get(self.network, "quick")]
        if self.epochs is not None:
            recipes = tuple(replace(recipe, epochs=self.epochs, least_steps=0) for recipe in recipes)
        state = {"init": self.init, "checkpoints": self.checkpoints, "watch": self.watch}
        return [NetworkClassifier(self.network, recipe=recipes, **state)]

    def check(self, features: Any, task: Task) -> None:
        """Refuse what one step of training on synthetic labels fails on, and too few images for the stages."""
        check_choice(self.network, "network", tuple(IMAGE_NETWORKS))
        self.candidates(features, task)[0].dry_run(features, task.domain.size)
        parts = self.count + 1
        require_images(f"{self.count} stage{'s' * (parts > 2)}", features, parts)

    def fit(
        self, features: Any, curator: CuratorLike, task: Task, *, rng: RandomSource, progress: Progress = no_progress
    ) -> Release[Model]:
        """See `fit_multistage`; each epoch is shown."""
        if self.watch is None:
            shown = replace(self, watch=epochs_shown(progress, self.count))
            return shown.fit(features, curator, task, rng=rng, progress=progress)
        return super().fit(features, curator, task, rng=rng, progress=progress)

    def prior_features(self, features: Any, task: Task) -> NDArray[Any]:
        """Return the pixels."""
        return np.asarray(features.reshape(len(features), -1))

    def describe(self, model: Model, task: Task) -> str:
        """Return the network and the stages."""
        start = "" if self.init is None else ", from the weights of an earlier model"
        return f"{IMAGE_NETWORKS[self.network]}, learned in {self.words()}{start}"


def epochs_shown(progress: Progress, trainings: int) -> Watch:
    """Return a function that shows each epoch of so many trainings."""
    begun: list[str] = []

    def watch(step: str, record: Record, epochs: int) -> None:
        if step not in begun:
            begun.append(step)
        done = (len(begun) - 1 + record.epoch / epochs) / trainings
        progress(f"{step}: epoch {record.epoch} of {epochs}, loss {record.loss:.3f}", min(done, 1.0))

    return watch


def require_images(what: str, images: Any, parts: int) -> None:
    """Refuse fewer images than the parts of the records need.

    Raises:
        InputError: how many they must be.
    """
    if len(images) < MIN_RECORDS * parts:
        raise InputError(f"{what} and an evaluation need at least {MIN_RECORDS * parts} images")
