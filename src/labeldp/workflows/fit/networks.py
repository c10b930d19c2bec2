"""Recipes with networks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labeldp.curator import DatasetLedger
from labeldp.learners import Model
from labeldp.mechanisms import RandomizedResponse
from labeldp.privacy import CuratorLike, InputError, Public, RandomSource, Release
from labeldp.workflows.fit.bundle import ESTIMATOR, Bundle, file_digest, networks, read_certified
from labeldp.workflows.fit.data import ImageRows, Rows
from labeldp.workflows.fit.recipe import (
    EVALUATED,
    MIN_RECORDS,
    WHICH_ARE_TRUE,
    Recipe,
    StageRecipe,
    Step,
    TrainingContext,
)
from labeldp.workflows.fit.registry import NETWORKS, RECIPES

PRESETS = {"inception": "mnist", "resnet18": "cifar10"}
"""The presets of the paper's networks; any other takes the short one, "quick"."""

NOT_SIMULATED = "The accuracy at other values of ε is not simulated: a network would have to be trained for each."


@final
@dataclass(frozen=True)
class NetworkLabels(StageRecipe):
    """A network that learns from labels that are randomized one by one, and knows their noise."""

    notes: ClassVar[tuple[str, ...]] = (NOT_SIMULATED,)
    resumable: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Any]] = {"evaluation": EVALUATED, "temperature": "calibrated"}

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
            recipes = tuple(replace(recipe, epochs=settings.epochs) for recipe in recipes)
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
    """A linear head of noisy sums, a network that learns from it, and noisy labels on what is left of epsilon."""

    secret: ClassVar[tuple[str, ...]] = ("The sums as they were before noise was added.", WHICH_ARE_TRUE)
    notes: ClassVar[tuple[str, ...]] = (NOT_SIMULATED,)
    resumable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.trust != "central":
            raise InputError("--method best goes with --trust central: somebody must see the labels")
        if settings.model not in ("auto", *NETWORKS):
            raise InputError(f"--method best takes --model {', '.join(NETWORKS)}: the network beside the linear head")
        if settings.stages != 1 or settings.prior != "none" or settings.epochs or settings.init:
            raise InputError(
                "--stages, --prior, --epochs and --init do not go with --method best: it has its own steps"
            )

    @property
    def network(self) -> str:
        """Return the network that is asked for."""
        return "cnn" if self.settings.model == "auto" else self.settings.model

    def check(self, rows: Rows, context: TrainingContext) -> None:
        """Refuse images that the linear head has no features for, and too few; `fit_best` tries the network itself."""
        networks()
        self.representation(rows)
        _require_images("--method best", rows, 2)

    def steps(self, records: int) -> tuple[Step, ...]:
        """Return two rounds of sums, noisy labels of most records if epsilon is large enough, and an evaluation."""
        settings = self.settings
        losses = networks().steps(settings.domain, settings.epsilon, settings.delta)
        found = [Step(name, loss, 0) for name, loss in losses.items()]
        response = RandomizedResponse(domain=settings.domain, epsilon=settings.epsilon)
        return (*found, Step("evaluation", response.privacy_loss(), 1))

    def learn(self, rows: Rows, curator: CuratorLike, *, rng: RandomSource, context: TrainingContext) -> Release[Model]:
        """See `labeldp.networks.fit_best`: linear algebra on one thread, so that the same sums are found again."""
        trainings = len(self.steps(curator.records)) - 1
        with threadpool_limits(1, user_api="blas"):
            return networks().fit_best(
                rows.features,
                curator,
                epsilon=self.settings.epsilon,
                delta=self.settings.delta,
                rng=rng,
                network=self.network,
                representation=self.representation(rows),
                evaluation=EVALUATED,
                checkpoints=context.checkpoints,
                watch=context.watch(trainings),
            )

    def representation(self, rows: Rows) -> Any:
        """Return the map of images of version 0.1: another one would be charged again."""
        assert isinstance(rows, ImageRows)
        return rows.representation(patches=True)

    def describe(self, model: Model) -> str:
        """Return both halves."""
        return f"the mean of a linear model of noisy sums and of {RECIPES[self.network].help} that learned from it"

    def describe_noise(self, records: int) -> str:
        """Return the noise of the sums, and of the labels where they are released."""
        settings = self.settings
        _, rest = networks().shares(settings.epsilon, settings.delta, settings.domain.size)
        kind = "Gaussian" if settings.delta else "Two-sided geometric"
        labels = f", and each label was randomized at epsilon = {rest:g} among the classes left open" if rest else ""
        return f"{kind} noise was added to every sum{labels}."


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
    def read(cls, path: str, account: DatasetLedger) -> "PretrainedModel":
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
                f"--init: {path} was learnt from labels of a dataset {certificate.dataset!r}, like this one: take "
                "--stages 2 for the same labels, or give other ones another --dataset name"
            )
        condition = (
            f"the labels that the first weights ({folder.resolve().name}) were learnt from are public, or those of "
            f"other records, which that model's own certificate protects (dataset {certificate.dataset!r})"
        )
        return cls(Public(found[-1], why=condition), file_digest(folder / ESTIMATOR) or "")
