"""Recipes with networks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.fit.bundle import ESTIMATOR, Bundle, file_digest, networks, read_certified
from labeldp.fit.recipe import (
    MIN_RECORDS,
    WHICH_ARE_TRUE,
    Recipe,
    StageRecipe,
    Step,
    TrainingContext,
    refuse_delta,
)
from labeldp.fit.registry import NETWORKS, RECIPES
from labeldp.fit.rows import Rows
from labeldp.learners import Model, first_response
from labeldp.mechanisms import RandomizedResponse
from labeldp.privacy import CuratorLike, InputError, Public, RandomSource, Release

PRESETS = {"inception": "mnist", "resnet18": "cifar10"}
"""The presets of the paper's networks; any other takes the short one, "quick"."""

NOT_SIMULATED = "The accuracy at other values of ε is not simulated: a network would have to be trained for each."


@final
@dataclass(frozen=True)
class NetworkLabels(StageRecipe):
    """A network that learns from labels that are randomized one by one, and knows their noise."""

    notes: ClassVar[tuple[str, ...]] = (NOT_SIMULATED,)
    resumable: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Any]] = {"temperature": "calibrated"}

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse what one step of training on made-up labels fails on, and too few images for the stages."""
        self.classifiers(rows, context).dry_run(rows.features, self.settings.domain.size)
        parts = self.settings.stages + 1
        _require_images(f"{self.settings.stages} stage{'s' * (parts > 2)}", rows, parts)

    def classifiers(self, rows: Rows, context: TrainingContext) -> Any:
        """Return the unfitted network, with a recipe for each stage."""
        room, settings = networks(), self.settings
        recipes = room.PRESETS[PRESETS.get(settings.model, "quick")]
        if settings.epochs is not None:
            recipes = tuple(replace(recipe, epochs=settings.epochs, least_steps=0) for recipe in recipes)
        return room.NetworkClassifier(
            settings.model,
            recipe=recipes,
            init=context.init,
            checkpoints=context.checkpoints,
            watch=context.watch(settings.stages),
        )

    def prior_features(self, rows: Rows) -> NDArray[Any]:
        """Return the pixels."""
        return rows.features.reshape(len(rows.features), -1)

    def describe(self, model: Model) -> str:
        """Return the network and the stages."""
        first = "" if self.settings.init is None else ", from the weights of an earlier model"
        return f"{RECIPES[self.settings.model].help}, learned in {self.describe_stages()}{first}"


@final
@dataclass(frozen=True)
class Best(Recipe):
    """One release of noisy sums or of noisy labels: a linear head learns from it, and networks from the head."""

    notes: ClassVar[tuple[str, ...]] = (NOT_SIMULATED,)
    resumable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.trust == "local":
            refuse_delta(settings)
        if settings.model not in ("auto", *NETWORKS):
            raise InputError(f"--method best takes --model {', '.join(NETWORKS)}: the network beside the linear head")
        if settings.stages != 1 or settings.prior != "none" or settings.epochs or settings.init:
            raise InputError(
                "--stages, --prior, --epochs and --init do not go with --method best: it has its own steps"
            )

    @property
    def secret(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the releases do not tell: of sums, or of labels."""
        return (WHICH_ARE_TRUE,) if self._labels else ("The sums as they were before noise was added.", WHICH_ARE_TRUE)

    @property
    def network(self) -> str:
        """Return the network that is asked for."""
        return "cnn" if self.settings.model == "auto" else self.settings.model

    @property
    def _release(self) -> tuple[Any, ...]:
        """Return what the release of `fit_best` depends on."""
        settings = self.settings
        return settings.domain, settings.epsilon, settings.delta, settings.trust

    @property
    def _labels(self) -> bool:
        """Return whether labels are randomized one by one."""
        return bool(networks().takes_labels(*self._release))

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse images that the linear head has no features for, and too few; `fit_best` tries the network itself."""
        networks()
        rows.representation()
        _require_images("--method best", rows, 2)

    def steps(self, records: int) -> tuple[Step, ...]:
        """Return the sums or noisy labels of most records, and an evaluation."""
        found = [Step(name, loss, 0) for name, loss in networks().steps(*self._release).items()]
        response = RandomizedResponse(domain=self.settings.domain, epsilon=self.settings.epsilon)
        return (*found, Step("evaluation", response.privacy_loss(), 1))

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """See `labeldp.networks.fit_best`: linear algebra on one thread, so that the same sums are found again."""
        with threadpool_limits(1, user_api="blas"):
            return networks().fit_best(
                rows.features,
                curator,
                epsilon=self.settings.epsilon,
                delta=self.settings.delta,
                trust=self.settings.trust,
                rng=rng,
                network=self.network,
                representation=rows.representation(),
                evaluation=self.share,
                checkpoints=context.checkpoints,
                watch=context.watch(1 if self._labels else 2),
            )

    def describe(self, model: Model) -> str:
        """Return head and networks, and whether a network was left out."""
        head = f"a linear model of noisy {'labels' if self._labels else 'sums'}"
        kind, count = RECIPES[self.network].help, len(model.estimator.parts)
        if not count:
            return f"{head}; {kind} that learned from it never answered a class that it answers, and was left out"
        return f"{head}, and {kind} that learned from it{' twice' if count > 1 else ''}"

    def describe_noise(self, records: int) -> str:
        """Return the noise of the sums or of the labels."""
        domain, settings = self.settings.domain, self.settings
        if self._labels and domain.target == "classes":
            return first_response(domain, settings.epsilon).describe_noise()
        kind = "Gaussian" if settings.delta else "Two-sided geometric"
        return f"{kind} noise was added to every sum."


def _require_images(what: str, rows: Rows, parts: int) -> None:
    """Refuse fewer images than the parts of the records need."""
    if len(rows.features) < MIN_RECORDS * parts:
        raise InputError(f"{what} and an evaluation need at least {MIN_RECORDS * parts} images")


@dataclass(frozen=True)
class PretrainedModel:
    """Weights that were learned from other labels.

    Args:
        network: fitted, and on what condition it costs nothing here.
        digest: of the file that it was in.
    """

    network: Public[Any] = field(repr=False)
    digest: str

    @classmethod
    def read(cls, path: str, account: Any) -> "PretrainedModel":
        """Read the network in a directory that `labeldp fit` wrote.

        Args:
            path: of the directory.
            account: what the new fit is charged to: weights that were learned from its own labels are refused, since
                their charges would have to stand in the new certificate.

        Raises:
            InputError: no such directory, no network in it, or one that was learned from these labels.
        """
        folder = Path(path)
        certificate, estimator = read_certified(folder)[0], Bundle.read(folder).model.estimator
        found = [part for part in getattr(estimator, "parts", [estimator]) if hasattr(part, "network_")]
        if not found:
            raise InputError(f"--init: {path} must hold a network, as --model cnn makes it")
        shared = {charge.id for charge in certificate.entries} & {charge.id for charge in account.charges}
        if shared or certificate.dataset == account.name:
            raise InputError(
                f"--init: {path} was learned from labels of a dataset {certificate.dataset!r}, like this one: take "
                "--stages 2 for the same labels, or give other ones another --dataset name"
            )
        condition = (
            f"the labels that the first weights ({folder.resolve().name}) were learned from are public, or those of "
            f"other records, which that model's own certificate protects (dataset {certificate.dataset!r})"
        )
        return cls(Public(found[-1], why=condition), file_digest(folder / ESTIMATOR) or "")
