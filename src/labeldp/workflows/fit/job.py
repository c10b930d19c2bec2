"""A requested fit: its settings and files are read and checked, and nothing is charged yet."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from labeldp.curator import Curator, DatasetLedger, LedgerFile, WatchedCurator, records_digest
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
)
from labeldp.tables import names_images
from labeldp.workflows.fit.data import ImageRows, PrivateRows, PublicRows, Rows, public_images, public_rows
from labeldp.workflows.fit.networks import PretrainedModel
from labeldp.workflows.fit.recipe import Recipe, TrainingContext
from labeldp.workflows.fit.registry import recipe_of
from labeldp.workflows.fit.settings import FitSettings

OTHER_FILES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".zip", ".tar")
"""Suffixes of files that are neither a table nor a source of images; a file with another one is read by its content."""


@dataclass(frozen=True)
class FitJob:
    """A requested fit, with everything read and nothing charged.

    Args:
        recipe: how the model is learned.
        file: the name of the data file, without its folder.
        command: the command line that identifies the fit; it does not say that test labels are public.
        rows: the private rows.
        public: the rows of a test file, or None.
        account: the dataset of the ledger to charge.
        init: a network whose weights the training starts from, or None.
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
            InputError, LedgerError: a setting, a file or the ledger cannot be used; nothing was charged.
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
        ledgers = LedgerFile(ledger)
        whole = ledgers.dataset(settings.dataset, cohort=settings.cohort, revision=settings.revision, budget=budget)
        account = whole.of_records(records_digest(rows.ids, whole))
        init = None if settings.init is None else PretrainedModel.read(settings.init, account)
        command = recipe.settings.command(data, ledger, out, test)
        job = cls(recipe, path.name, command, rows, public, account, init)._as_charged()
        job.recipe.refuse_earlier(job.charged())
        recipe.check(rows, job.context)
        if rows.index and not job.charged():
            # Earlier versions took the index of pandas for a feature: find a fit that was charged that way.
            rows, public = _read_files(data, settings, test, index=True)
            older = replace(job, rows=rows, public=public)._as_charged()
            if older.charged():
                return older
        return job

    def _as_charged(self) -> "FitJob":
        """Return this fit, or that of an earlier version if its labels were released then: they cost nothing again."""
        earlier = self.recipe.earlier()
        if earlier is None:
            return self
        before = replace(self, recipe=earlier)
        return before if before._was_answered() and not self._was_answered() else self

    def _was_answered(self) -> bool:
        """Return whether labels of this fit were released by its mechanism already."""
        return any(charge.mechanism.get("mechanism") == self.recipe.answers for charge in self.charged().values())

    @property
    def settings(self) -> FitSettings:
        """The settings of the fit."""
        return self.recipe.settings

    @property
    def context(self) -> TrainingContext:
        """What the training starts from."""
        return TrainingContext(init=self.init and self.init.network)

    @cached_property
    def run(self) -> str:
        """The name of the run in the ledger."""
        digest = self.init.digest if self.init else ""
        return self.settings.run(self.rows.features, self.rows.ids, digest, self.recipe.variant(self.rows))

    @property
    def request(self) -> str:
        """A digest of the public part of the request: settings, file names, features, the test file, the sampler.

        The sampler is in it because, with another one, the ledger would not find the releases, and charge new ones.
        """
        test = "" if self.public is None else self.public.digest()
        mechanism = evaluation_mechanism(self.settings.domain, self.settings.epsilon).specification()
        return hashlib.sha256(json.dumps([self.command, self.run, test, mechanism]).encode()).hexdigest()

    @cached_property
    def curator(self) -> Curator:
        """The curator of the private labels; the ledger records their domain before they are compared with it."""
        return Curator.of_codes(
            lambda: self.rows.codes,
            domain=self.settings.domain,
            ledger=self.account,
            ids=self.rows.ids,
            run=self.run,
        )

    def charged(self) -> dict[str, Charge]:
        """Return the charges so far of this run's steps, by step.

        A step that names its mechanism may share the charge of another run.
        """
        charges = [
            ((entry.step or "").rpartition(": "), replace(entry.certificate.entries[0], path=entry.part))
            for entry in self.account.own_entries
        ]
        found = {step: charge for (run, _, step), charge in charges if run == self.run}
        for step in self.recipe.steps(len(self.rows.features)):
            same = [charge for _, charge in charges if not charge.path and charge.mechanism == step.mechanism]
            if same:
                found.setdefault(step.name, same[0])
        return found

    def require_budget(self) -> None:
        """Check that the budget admits all steps that are left, before the next of them is charged.

        Raises:
            BudgetExceeded: it does not; nothing was charged.
        """
        budget = self.account.budget
        rest = self.recipe.remaining_charges(self.charged(), len(self.rows.features))
        total = self.account.spent_with([(charge.path, charge.loss) for charge in rest])
        if not rest or budget.admits(total):
            return
        delta = budget.delta
        if not decimal(delta, "delta") and total.epsilon(delta) == float("inf"):
            raise BudgetExceeded(
                f"the budget of {self.settings.dataset!r} has no delta, and this fit asks for "
                f"delta = {decimal_text(self.settings.delta)}"
            )
        spent, after = (rounded_up_text(loss.epsilon(delta), 12) for loss in (self.account.spent_with(), total))
        raise BudgetExceeded(
            f"the budget of {self.settings.dataset!r} is {budget}; spent so far: epsilon = {spent}; "
            f"this fit would bring it to epsilon = {after} at that delta"
        )

    def learn(self, on_release: Callable[[str, int, Mechanism], None], context: TrainingContext) -> Release[Model]:
        """Release labels and train; call `on_release` with step, number of records and mechanism of each release.

        Returns:
            The model; its certificate says that the labels of the test file are public, if there is one.
        """
        watched = WatchedCurator(self.curator, on_release, self.charged())
        release = self.recipe.learn(self.rows, watched, rng=self.account.randomness, context=context)
        if self.public is None:
            return release
        assumptions = (*release.certificate.assumptions, f"the labels of {self.public.file} are public")
        return replace(release, certificate=replace(release.certificate, assumptions=assumptions))


def _read_files(
    data: str, settings: FitSettings, test: str | None, *, index: bool = False
) -> tuple[Rows, PublicRows | None]:
    """Return the private rows, and the public ones of a test file or None; see `PrivateRows.read` for `index`."""
    if names_images(data):
        images = ImageRows.read(data, settings)
        return images, None if test is None else public_images(test, data, settings, images)
    table = PrivateRows.read(data, settings, index=index)
    return table, None if test is None else public_rows(test, data, settings, table)
