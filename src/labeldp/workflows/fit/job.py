"""A fit that was asked for: everything is read and checked, and nothing is charged yet."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from labeldp.curator import Curator, DatasetLedger, LedgerFile, WatchedCurator
from labeldp.learners import Model, evaluation_mechanism
from labeldp.mechanisms import Mechanism
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    Charge,
    InputError,
    Release,
    decimal,
    decimal_text,
    rounded_up_text,
    total_loss,
)
from labeldp.tables import names_images
from labeldp.workflows.fit.data import ImageRows, PrivateRows, PublicRows, Rows, public_images, public_rows
from labeldp.workflows.fit.networks import PretrainedModel
from labeldp.workflows.fit.recipe import Recipe, TrainingContext
from labeldp.workflows.fit.registry import recipe_of
from labeldp.workflows.fit.settings import FitSettings

OTHER_FILES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".zip", ".tar")
"""Names of single files that are neither a table nor a source of images; any other name is read as its content says."""


@dataclass(frozen=True)
class FitJob:
    """A fit that was asked for, with everything read and nothing charged.

    Args:
        recipe: how the model is learned.
        file: name of the data file, without its folder.
        command: all that identifies the fit. That test labels are public does not.
        rows: the private rows.
        public: a test file, or None.
        account: the ledger to charge.
        init: the first weights of a network, or None.
    """

    recipe: Recipe
    file: str
    command: str
    rows: Rows
    public: PublicRows | None
    account: DatasetLedger
    init: PretrainedModel | None

    @classmethod
    def read(cls, data: str, settings: FitSettings, ledger: str, out: str, test: str | None) -> "FitJob":
        """Read and check the settings, then the files.

        Raises:
            InputError, LedgerError: what is wrong; nothing was charged.
        """
        path = Path(data)
        if not path.exists():
            raise InputError(f"no such file or folder: {data}")
        if path.is_file() and path.suffix.lower() in OTHER_FILES:
            raise InputError(
                f"{data} is neither a table (CSV or Parquet) nor a source of images: an .npz file, or a folder of "
                "MNIST's or CIFAR's files or of a folder of pictures for each class"
            )
        recipe = recipe_of(settings, images=names_images(data))
        rows, public = _read_files(data, settings, test)
        budget = Budget(settings.epsilon, settings.delta)
        account = LedgerFile(ledger).dataset(settings.dataset, revision=settings.revision, budget=budget)
        init = None if settings.init is None else PretrainedModel.read(settings.init, account)
        command = recipe.settings.command(data, ledger, out, test)
        job = cls(recipe, path.name, command, rows, public, account, init)._as_charged()
        recipe.check(rows, job.context)
        if rows.index and not job.charged():
            # Once the index of pandas was a feature: a fit that was charged so is found again.
            rows, public = _read_files(data, settings, test, index=True)
            older = replace(job, rows=rows, public=public)
            if older.charged():
                return older
        return job

    def _as_charged(self) -> "FitJob":
        """Return this fit, or that of an earlier version if its labels were released then: they cost nothing again."""
        earlier = self.recipe.earlier()
        if earlier is None:
            return self
        before = replace(self, recipe=earlier)
        released = before._answered_by("RandomizedResponse") and not self._answered_by("PartitionResponse")
        return before if released else self

    def _answered_by(self, mechanism: str) -> bool:
        """Return whether labels of this fit were released by a mechanism already."""
        return any(charge.mechanism.get("mechanism") == mechanism for charge in self.charged().values())

    @property
    def settings(self) -> FitSettings:
        """What was asked for."""
        return self.recipe.settings

    @property
    def context(self) -> TrainingContext:
        """What the training starts from."""
        return TrainingContext(init=self.init and self.init.network)

    @cached_property
    def run(self) -> str:
        """The name of the run in the ledger."""
        return self.settings.run(self.rows.features, self.rows.ids, self.init.digest if self.init else "")

    @property
    def request(self) -> str:
        """A digest of all that is asked for and public: settings, files' names, features, the test file, the sampler.

        With another sampler the ledger would not find the releases again, and would charge them.
        """
        test = "" if self.public is None else self.public.digest()
        mechanism = evaluation_mechanism(self.settings.domain, self.settings.epsilon).specification()
        return hashlib.sha256(json.dumps([self.command, self.run, test, mechanism]).encode()).hexdigest()

    @cached_property
    def curator(self) -> Curator:
        """The curator of the private labels: the ledger remembers their domain before they are compared with it."""
        return Curator.of_codes(
            lambda: self.rows.codes,
            domain=self.settings.domain,
            ledger=self.account,
            ids=self.rows.ids,
            run=self.run,
        )

    def charged(self) -> dict[str, Charge]:
        """Return what was charged so far of this very run, by stage; labels in one release may be another run's."""
        entries = [entry for entry in self.account.entries if entry.revision == self.account.revision]
        named = [((entry.step or "").rpartition(": "), entry.certificate.entries[0]) for entry in entries]
        found = {step: charge for (run, _, step), charge in named if run == self.run}
        for step in self.recipe.steps(len(self.rows.features)):
            same = [charge for _, charge in named if not charge.path and charge.mechanism == step.mechanism]
            if same:
                found[step.name] = same[0]
        return found

    def require_budget(self) -> None:
        """Refuse a fit whose later stages the budget would not admit, before the next of them is charged.

        Raises:
            BudgetExceeded: what is left of the fit, and of the budget.
        """
        budget, charges = self.account.budget, self.account.charges
        rest = self.recipe.remaining_charges(self.charged(), len(self.rows.features))
        total = total_loss([*charges, *rest])
        if not rest or budget.admits(total):
            return
        delta = budget.delta
        if not decimal(delta, "delta") and total.epsilon(delta) == float("inf"):
            raise BudgetExceeded(
                f"the budget of {self.settings.dataset!r} has no delta, and this fit asks for "
                f"delta = {decimal_text(self.settings.delta)}"
            )
        spent, come = (rounded_up_text(loss.epsilon(delta), 12) for loss in (total_loss(charges), total))
        raise BudgetExceeded(
            f"the budget of {self.settings.dataset!r} is {budget}; spent so far: epsilon = {spent}; "
            f"this fit would bring it to epsilon = {come} at that delta"
        )

    def learn(self, told: Callable[[str, int, Mechanism], None], context: TrainingContext) -> Release[Model]:
        """Release labels and train; call `told` with step, number of records and mechanism of each release.

        Returns:
            The model; its certificate says that the labels of the test file are public, if there is one.
        """
        watched = WatchedCurator(self.curator, told, self.charged())
        release = self.recipe.learn(self.rows, watched, rng=self.account.randomness, context=context)
        if self.public is None:
            return release
        assumptions = (*release.certificate.assumptions, f"the labels of {self.public.file} are public")
        return replace(release, certificate=replace(release.certificate, assumptions=assumptions))


def _read_files(
    data: str, settings: FitSettings, test: str | None, *, index: bool = False
) -> tuple[Rows, PublicRows | None]:
    """Return the private rows, and the public ones of a test file; see `PrivateRows.read`."""
    if names_images(data):
        images = ImageRows.read(data, settings)
        return images, None if test is None else public_images(test, data, settings, images)
    table = PrivateRows.read(data, settings, index=index)
    return table, None if test is None else public_rows(test, data, settings, table)
