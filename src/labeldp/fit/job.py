"""A requested fit: its settings and files are read and checked, and nothing is charged yet."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

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
from labeldp.fit.bundle import CertifiedRecords, PretrainedModel
from labeldp.fit.choice import WAYS, Option, Way, advise
from labeldp.fit.elsewhere import RemoteAccount
from labeldp.fit.persons import Owners, best_cap, counted, named_ids
from labeldp.fit.rows import GivenRows, ImageRows, PrivateRows, PublicRows, Rows, public_images, public_rows
from labeldp.fit.settings import FitSettings
from labeldp.images import names_images
from labeldp.learners import (
    Learner,
    Model,
    Progress,
    Task,
    evaluation_mechanism,
    fit_repeatably,
    no_progress,
    remaining,
)
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
from labeldp.serve import RemoteCurator

OTHER_FILES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".zip", ".tar")
"""Suffixes of files that are neither a table nor a source of images; a file with another one is read by its content."""


FROM_SERVER = "the server's features"
"""What is said in place of a file."""


@dataclass(frozen=True)
class FitJob:
    """A requested fit, with everything read and nothing charged.

    Args:
        settings: what was asked for, with the model that was chosen.
        learner: what learns.
        file: the name of the data file, without its folder.
        command: the command line that identifies the fit; it does not say that test labels are public.
        rows: the private rows.
        public: the rows of a test file, or None.
        account: the dataset of the ledger to charge, or the share of a dataset that a server holds.
        init: a network whose weights the training starts from, or None.
        choice: what `--model auto` chose just now; None where nothing was, or the ledger held a choice.
        whole: all private rows, where `rows` are those of each person that are used.
        owners: whose they are, where persons are protected.
    """

    settings: FitSettings
    learner: Learner
    file: str
    command: str
    rows: Rows
    public: PublicRows | None
    account: DatasetLedger | RemoteAccount
    init: PretrainedModel | None
    choice: Option | None = None
    whole: Rows | None = None
    owners: Owners | None = None

    @classmethod
    def read(
        cls, data: str | pa.Table, settings: FitSettings, held: str | RemoteCurator, out: str, test: str | None
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
        learner = settings.learner(images=images)
        rows, public = _read_files(data, settings, test)
        command = settings.command(data, held, out, test)
        return cls._of(settings, learner, data, rows, public, held, command).checked()

    @classmethod
    def of_rows(cls, settings: FitSettings, rows: Rows, account: Any = None, *, ledger: str = "") -> "FitJob":
        """Return the fit of rows that a program holds.

        Args:
            settings, rows: what to learn, from which rows.
            account: the ledger to charge, such as one in memory.
            ledger: in place of it, a ledger file.

        Raises:
            InputError, LedgerError: the rows or the ledger cannot be used; nothing was charged.
        """
        learner = settings.learner()
        settings = replace(settings, model=learner.name)
        account = _account(ledger, settings, rows) if account is None else account
        job = cls(settings, learner, "", "", rows, None, account, None)
        return job if settings.person_column is None else job._of_persons()

    @classmethod
    def _chosen(
        cls, data: str | pa.Table, settings: FitSettings, held: str | RemoteCurator, out: str, test: str | None
    ) -> "FitJob":
        """Return the fit that `labeldp choose` ranks first, or the one that the ledger was charged for already.

        Where nothing is expected to learn more than a constant, it is that of `learner_of`.
        """
        rows, public = _read_files(data, settings, test)
        assert isinstance(rows, PrivateRows)
        command, default = settings.command(data, held, out, test), settings.learner()

        def job_of(way: Way) -> FitJob:
            taken = replace(settings, **{"delta": 0.0, **way.settings(settings.delta)})
            learner = taken.learner()
            if (learner, taken.trust, taken.delta) != (default, settings.trust, settings.delta):
                taken = replace(taken, chosen=way.name)
            return cls._of(taken, learner, data, rows, public, held, command)

        ways = {way.name: way for way in WAYS if way.admissible(settings.domain, settings.trust)}
        for way in ways.values():
            job = job_of(way)
            if job.holds_choice():
                return job.checked()
        records, dimension = rows.features.shape
        epsilon = settings.epsilon
        if rows.persons is not None:
            job = cls._of(settings, default, data, rows, public, held, command)
            assert job.owners is not None
            records, epsilon = counted(job.owners.sizes, settings.per_person, epsilon, settings.domain, settings.trust)
        options = advise(records, dimension, settings.domain, epsilon, settings.delta, settings.trust).options
        if not options:
            return cls._of(settings, default, data, rows, public, held, command).checked()
        return replace(job_of(ways[options[0].method]), choice=options[0]).checked()

    @classmethod
    def _of(
        cls,
        settings: FitSettings,
        learner: Learner,
        data: str | pa.Table,
        rows: Rows,
        public: PublicRows | None,
        held: str | RemoteCurator,
        command: str,
    ) -> "FitJob":
        """Return a fit of what was read and its dataset in the ledger; see `checked`."""
        settings = replace(settings, model=learner.name)
        account: DatasetLedger | RemoteAccount
        if isinstance(held, RemoteCurator):
            account = RemoteAccount.of(held, settings, len(rows.features), rows.ids)
        else:
            account = _account(held, settings, rows)
        init = None if settings.init is None else PretrainedModel.read(settings.init, account)
        if init is not None:
            learner = replace(learner, init=init.network)  # type: ignore[call-arg]
        name = Path(data).name if isinstance(data, str) else FROM_SERVER
        job = cls(settings, learner, name, command, rows, public, account, init)
        return job if settings.person_column is None else job._of_persons()

    def checked(self) -> "FitJob":
        """Return this fit, after checking that it can be done.

        Raises:
            InputError: it cannot; nothing was charged.
        """
        self.task.check_records()
        self.learner.check(self.rows.features, self.task)
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
        job = replace(self, settings=shared, rows=rows.take(owners.rows), whole=rows, owners=owners)
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
    def task(self) -> Task:
        """What is public of the fit."""
        settings = self.settings
        cap = None if settings.person_column is None else settings.per_person or 1
        mask = getattr(self.rows.encoder, "categorical", None)
        records = len(self.rows.features)
        return Task(settings.domain, records, settings.epsilon, settings.delta, settings.evaluation, cap, mask)

    @cached_property
    def run(self) -> str:
        """The name of the run in the ledger: of this fit alone, or of all that share its releases."""
        return self._run_of_labels if self.learner.shares_releases(self.task) else self._run_of_fit

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
        by_step = {step: charge for (run, _, step), charge in charges if run == self.run}
        for step, mechanism in self.learner.answers(self.task).items():
            specification, loss = mechanism.specification(), mechanism.privacy_loss() * self.times
            for _, charge in charges:
                if not charge.path and charge.mechanism == specification and charge.loss == loss:
                    by_step.setdefault(step, charge)
        return by_step

    def holds_choice(self) -> bool:
        """Return whether the ledger was charged for this very run: a choice stays, whatever a newer rule says.

        Of ways that share their releases none is held: any of them is free then.
        """
        if self.learner.shares_releases(self.task):
            return False
        first = f"{self.run}: {self.learner.plan(self.task).steps[0].name}"
        return any(entry.step == first for entry in self.account.own_entries)

    def require_budget(self) -> None:
        """Check that the budget admits all steps that are left, before the next of them is charged.

        Raises:
            BudgetExceeded: it does not; nothing was charged.
        """
        if isinstance(self.account, RemoteAccount):
            steps = self.learner.plan(self.task).steps
            if not any(step.path for step in steps):  # else the parts are known when the learner asks for them
                self.curator.require({step.name: step.loss for step in steps})
            return
        budget = self.account.budget
        unpaid = remaining(self.learner.plan(self.task), self.charged())
        more = [(charge.path, charge.loss * self.times) for charge in unpaid]
        if unpaid and decimal(budget.delta, "delta"):
            self.account.foresee(more)
            return
        total = self.account.spent_with(more)
        if not unpaid or budget.admits(total):
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

    def learn(
        self,
        on_release: Callable[[str, int, Mechanism], None],
        *,
        checkpoints: Path | None = None,
        progress: Progress = no_progress,
    ) -> Release[Model]:
        """Release labels and train.

        Args:
            on_release: called with step, number of records and mechanism of each release.
            checkpoints: where a learner that is resumable keeps its state.
            progress: called with what is being done.

        Returns:
            The model; its certificate says that the labels of the test file are public, if there is one.
        """
        watched = WatchedCurator(self.curator, on_release, self.charged())
        release = self.fit(watched, rng=self.account.randomness, checkpoints=checkpoints, progress=progress)
        conditions = []
        if self.settings.chosen:
            conditions.append(f"{self.settings.chosen} was chosen by what is public: features and how many records")
        if self.public is not None:
            conditions.append(f"the labels of {self.public.file} are public")
        if not conditions:
            return release
        assumptions = (*release.certificate.assumptions, *conditions)
        return replace(release, certificate=replace(release.certificate, assumptions=assumptions))

    def fit(
        self, curator: Any, *, rng: Any, checkpoints: Path | None = None, progress: Progress = no_progress
    ) -> Release[Model]:
        """Learn with a curator of these labels; see `learn`."""
        learner = self.learner
        if checkpoints is not None:
            learner = replace(learner, checkpoints=checkpoints)  # type: ignore[call-arg]
        return fit_repeatably(learner, self.rows.features, curator, self.task, rng=rng, progress=progress)


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
