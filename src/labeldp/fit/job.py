"""A requested fit: its settings and files are read and checked, and nothing is charged yet."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from labeldp.curator import (
    Curator,
    DatasetLedger,
    LedgerFile,
    WatchedCurator,
    person_names,
    persons_digest,
    records_digest,
)
from labeldp.fit.bundle import CertifiedRecords
from labeldp.fit.choice import WAYS, Option, Way, advise
from labeldp.fit.elsewhere import RemoteAccount
from labeldp.fit.persons import Owners, best_cap, counted, named_ids
from labeldp.fit.recipe import Recipe, TrainingContext
from labeldp.fit.registry import recipe_of
from labeldp.fit.rows import (
    GivenRows,
    ImageRows,
    PrivateRows,
    PublicRows,
    Rows,
    names_images,
    public_images,
    public_rows,
)
from labeldp.fit.settings import FitSettings
from labeldp.learners import Model, evaluation_mechanism
from labeldp.mechanisms import Mechanism
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    Charge,
    InputError,
    Neighbors,
    Release,
    decimal,
    decimal_text,
    float_below,
    positive_epsilon,
    rounded_up_text,
)

if TYPE_CHECKING:
    from labeldp.fit.networks import PretrainedModel
    from labeldp.serve import RemoteCurator

OTHER_FILES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".zip", ".tar")
"""Suffixes of files that are neither a table nor a source of images; a file with another one is read by its content."""


FROM_SERVER = "the server's features"
"""What is said in place of a file."""


@dataclass(frozen=True)
class FitJob:
    """A requested fit, with everything read and nothing charged.

    Args:
        recipe: how the model is learned.
        file: the name of the data file, without its folder.
        command: the command line that identifies the fit; it does not say that test labels are public.
        rows: the private rows.
        public: the rows of a test file, or None.
        account: the dataset of the ledger to charge, or the share of a dataset that a server holds.
        init: a network whose weights the training starts from, or None.
        choice: what `--method auto` chose just now; None where nothing was, or the ledger held a choice.
        whole: all private rows, where `rows` are those of each person that are used.
        owners: whose they are, where persons are protected.
    """

    recipe: Recipe
    file: str
    command: str
    rows: Rows
    public: PublicRows | None
    account: DatasetLedger | RemoteAccount
    init: "PretrainedModel | None"
    choice: Option | None = None
    whole: Rows | None = None
    owners: Owners | None = None

    @classmethod
    def read(
        cls, data: str | pa.Table, settings: FitSettings, held: "str | RemoteCurator", out: str, test: str | None
    ) -> "FitJob":
        """Read and check the settings, then the files.

        Args:
            data, settings, out, test: see `fit_file`.
            held: the ledger file, or the curator of the labels that a server holds.

        Raises:
            InputError, LedgerError: a setting, a file or the ledger cannot be used; nothing was charged.
        """
        images = isinstance(data, str) and _names_images(data)
        if images and settings.curator is not None:
            raise InputError("--curator is for tables; for images, connect to the server in Python: ldp.connect")
        if settings.chooses and not images:
            return cls._chosen(data, settings, held, out, test)
        recipe = recipe_of(settings, images=images)
        rows, public = _read_files(data, settings, test)
        command = recipe.settings.command(data, held, out, test)
        return cls._of(recipe, data, rows, public, held, command)._checked()

    @classmethod
    def of_rows(cls, recipe: Recipe, rows: Rows, ledger: str) -> "FitJob":
        """Return the fit of rows that a program holds.

        Raises:
            InputError, LedgerError: the rows or the ledger cannot be used; nothing was charged.
        """
        return cls.of_account(recipe, rows, _account(ledger, recipe.settings, rows))

    @classmethod
    def of_account(cls, recipe: Recipe, rows: Rows, account: Any) -> "FitJob":
        """Return the fit of rows that a program holds, charged to a ledger that may be one in memory."""
        job = cls(recipe, "", "", rows, None, account, None)
        return job if recipe.settings.person_column is None else job._of_persons()

    @classmethod
    def _chosen(
        cls, data: str | pa.Table, settings: FitSettings, held: "str | RemoteCurator", out: str, test: str | None
    ) -> "FitJob":
        """Return the fit that `labeldp choose` ranks first, or the one that the ledger was charged for already.

        Raises:
            InputError: options that would be chosen, or nothing is left to choose from.
        """
        plain = FitSettings(settings.label, settings.domain, settings.epsilon, settings.delta, settings.dataset)
        for name in ("model", "stages", "prior", "epochs", "init", "cells", "neighbors"):
            if getattr(settings, name) != getattr(plain, name):
                raise InputError(f"--{name} does not go with --method auto, which chooses it")
        rows, public = _read_files(data, settings, test)
        assert isinstance(rows, PrivateRows)
        command = settings.command(data, held, out, test)

        def job_of(way: Way) -> FitJob:
            taken = {"delta": 0.0, **way.settings(settings.delta), "chosen": way.name}
            return cls._of(recipe_of(replace(settings, **taken)), data, rows, public, held, command)

        for way in WAYS:
            if way.admissible(settings.domain, settings.trust):
                job = job_of(way)
                if job.holds_choice():
                    return job._checked()
        records, dimension = rows.features.shape
        epsilon = settings.epsilon
        if rows.persons is not None:
            job = job_of(next(way for way in WAYS if way.admissible(settings.domain, settings.trust)))
            assert job.owners is not None
            sizes, most = job.owners.sizes, settings.per_person
            records, epsilon = counted(sizes, most, epsilon, settings.domain, settings.trust)
        best = advise(records, dimension, settings.domain, epsilon, settings.delta, settings.trust).best
        return replace(job_of(next(way for way in WAYS if way.name == best.method)), choice=best)._checked()

    @classmethod
    def _of(
        cls,
        recipe: Recipe,
        data: str | pa.Table,
        rows: Rows,
        public: PublicRows | None,
        held: "str | RemoteCurator",
        command: str,
    ) -> "FitJob":
        """Return a fit of what was read and its dataset in the ledger; see `_checked`."""
        settings = recipe.settings
        account: DatasetLedger | RemoteAccount
        if not isinstance(held, str | os.PathLike):
            account = RemoteAccount.of(held, settings, len(rows.features), rows.ids)
        else:
            account = _account(held, settings, rows)
        init = None
        if settings.init is not None:
            from labeldp.fit.networks import PretrainedModel

            init = PretrainedModel.read(settings.init, account)
        job = cls(
            recipe, Path(data).name if isinstance(data, str) else FROM_SERVER, command, rows, public, account, init
        )
        return job if settings.person_column is None else job._of_persons()

    def _checked(self) -> "FitJob":
        """Return this fit, after checking that it can be done.

        Raises:
            InputError: it cannot; nothing was charged.
        """
        self.recipe.check_share(len(self.rows.features))
        self.recipe.check(self.rows, self.context)
        return self

    def _of_persons(self) -> "FitJob":
        """Return this fit of the records of each person that are used, at what each of their answers may cost.

        Raises:
            InputError: a model that cannot protect persons.
        """
        settings, rows = self.settings, self.rows
        assert isinstance(rows, PrivateRows | GivenRows) and not isinstance(self.account, RemoteAccount)
        if settings.stages != 1 or settings.prior != "none":
            raise InputError("--stages and --prior do not go with --person: every record is answered, or summed, once")
        one_by_one, most = settings.trust == "local", settings.per_person
        if one_by_one and most is None:
            sizes = Owners.of(rows.persons, rows.ids, None, self.account).sizes
            most = best_cap(sizes, settings.epsilon, settings.domain)
        owners = Owners.of(rows.persons, rows.ids, most, self.account)
        shared = replace(settings, per_person=owners.most)
        if one_by_one:
            each = float_below(positive_epsilon(settings.epsilon) / owners.most)
            shared = replace(shared, epsilon=each, shared=settings.epsilon)
        # A model was chosen already: its recipe alone takes another epsilon.
        recipe = replace(self.recipe, settings=shared)
        job = replace(self, recipe=recipe, rows=rows.take(owners.rows), whole=rows, owners=owners)
        self.account.check_persons(job._map)
        return job

    @property
    def _map(self) -> str:
        """A digest of the map from records to persons, as the ledger keeps it."""
        assert isinstance(self.whole, PrivateRows | GivenRows) and not isinstance(self.account, RemoteAccount)
        key = self.account.ids_key or b""
        return persons_digest(named_ids(self.whole.ids, self.account), person_names(self.whole.persons, key), key)

    @property
    def times(self) -> int:
        """How often a person pays for a release that answers records one by one."""
        return self.owners.most if self.owners is not None and self.settings.trust == "local" else 1

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
        """The name of the run in the ledger: of this fit alone, or of all whose recipe shares its releases."""
        return self._run_of_labels if self.recipe.shares_releases else self._run_of_fit

    @property
    def _run_of_fit(self) -> str:
        digest = self.init.digest if self.init else ""
        return self.settings.run(self.rows.features, self.rows.ids, digest)

    @property
    def _run_of_labels(self) -> str:
        asked = replace(self.settings, model="", cells=None, neighbors=None, chosen=None)
        return asked.run(np.empty((len(self.rows.features), 0)), self.rows.ids)

    @property
    def request(self) -> str:
        """A digest of the public part of the request: settings, file names, features, the test file, the sampler.

        The sampler is in it because, with another one, the ledger would not find the releases, and charge new ones.
        """
        test = "" if self.public is None else self.public.digest()
        mechanism = evaluation_mechanism(self.settings.domain, self.settings.epsilon).specification()
        return hashlib.sha256(json.dumps([self.command, self._run_of_fit, test, mechanism]).encode()).hexdigest()

    @property
    def records(self) -> CertifiedRecords:
        """Whose labels are fitted, by what is public of them."""
        whole = self.rows if self.whole is None else self.whole
        return CertifiedRecords.of(whole.features, whole.ids, self.settings.id_column)

    @cached_property
    def curator(self) -> Any:
        """The curator of the private labels, here or on a server.

        Of labels that are here the ledger records the domain before they are compared with it.
        """
        if isinstance(self.account, RemoteAccount):
            return self.account.server.of_run(self.run)
        whole = self.rows if self.whole is None else self.whole
        curator = Curator.of_codes(
            lambda: whole.codes,
            domain=self.settings.domain,
            ledger=self.account,
            ids=whole.ids,
            run=self.run,
            persons=None if self.owners is None else self.owners.names,
        )
        return curator if self.owners is None else curator.limited(self.owners.most)[0]

    def charged(self) -> dict[str, Charge]:
        """Return the charges so far of this run's steps, by step.

        A step that names its mechanism may share the charge of another run.
        """
        charges = [
            ((entry.step or "").rpartition(": "), replace(entry.certificate.entries[0], path=entry.part))
            for entry in self.account.own_entries
            if (entry.certificate.neighbors is Neighbors.ONE_PERSON) == (self.owners is not None)
        ]
        found = {step: charge for (run, _, step), charge in charges if run == self.run}
        for step in self.recipe.steps(len(self.rows.features)):
            alike = (charge for _, charge in charges if not charge.path and charge.mechanism == step.mechanism)
            same = [charge for charge in alike if charge.loss == step.loss * self.times]
            if same:
                found.setdefault(step.name, same[0])
        return found

    def holds_choice(self) -> bool:
        """Return whether the ledger was charged for this very run: a choice stays, whatever a newer rule says.

        Of ways that share their releases none is held: any of them is free then.
        """
        if self.recipe.shares_releases:
            return False
        return any((entry.step or "").startswith(f"{self.run}: ") for entry in self.account.own_entries)

    def require_budget(self) -> None:
        """Check that the budget admits all steps that are left, before the next of them is charged.

        Raises:
            BudgetExceeded: it does not; nothing was charged.
        """
        if isinstance(self.account, RemoteAccount):
            steps = self.recipe.steps(len(self.rows.features))
            if all(step.part is None for step in steps):  # else the parts are known when the learner asks for them
                self.curator.require({step.name: step.loss for step in steps})
            return
        budget = self.account.budget
        rest = self.recipe.remaining_charges(self.charged(), len(self.rows.features))
        more = [(charge.path, charge.loss * self.times) for charge in rest]
        if rest and decimal(budget.delta, "delta"):
            self.account.foresee(more)
            return
        total = self.account.spent_with(more)
        if not rest or budget.admits(total):
            return
        delta = budget.delta
        if total.epsilon(delta) == float("inf"):
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
        conditions = []
        if self.settings.chosen:
            conditions.append(f"{self.settings.chosen} was chosen by what is public: features and how many records")
        if self.public is not None:
            conditions.append(f"the labels of {self.public.file} are public")
        if not conditions:
            return release
        assumptions = (*release.certificate.assumptions, *conditions)
        return replace(release, certificate=replace(release.certificate, assumptions=assumptions))


def _account(path: str, settings: FitSettings, rows: Rows) -> DatasetLedger:
    """Return the dataset of a ledger file as it charges these records."""
    budget = Budget(settings.asked, settings.delta)
    ledger = LedgerFile(path)
    whole = ledger.dataset(
        settings.dataset,
        cohort=settings.cohort,
        revision=settings.revision,
        other_ids=settings.other_ids,
        budget=budget,
    )
    account = whole.of_records(records_digest(rows.ids, whole))
    account.check_domain(settings.domain)  # before the budget: a larger one would not help
    account.check_count(len(rows.features))
    if settings.person_column is None:
        account.check_persons(None)
    if private := [name for name in getattr(rows, "columns", ()) if name in account.columns]:
        raise InputError(
            f"--features must not hold {private[0]!r}: its labels are private in {settings.dataset!r}, and features "
            "are public. Name the columns that are"
        )
    return account


def _names_images(data: str) -> bool:
    """Return whether a path is of images, not of a table.

    Raises:
        InputError: it is of neither.
    """
    path = Path(data)
    if not path.exists():
        raise InputError(f"no such file or folder: {data}")
    if path.is_file() and path.suffix.lower() in OTHER_FILES:
        raise InputError(
            f"{data} is neither a table (CSV or Parquet) nor a source of images: an .npz file, or a folder of "
            "MNIST's or CIFAR's files or of a folder of pictures for each class"
        )
    return names_images(data)


def _read_files(data: str | pa.Table, settings: FitSettings, test: str | None) -> tuple[Rows, PublicRows | None]:
    """Return the private rows, and the public ones of a test file or None."""
    if isinstance(data, str) and names_images(data):
        images = ImageRows.read(data, settings)
        return images, None if test is None else public_images(test, data, settings, images)
    table = PrivateRows.read(data, settings)
    return table, None if test is None else public_rows(test, data, settings, table)
