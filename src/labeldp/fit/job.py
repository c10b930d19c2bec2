"""A requested fit: settings and files are read and checked, and nothing is charged yet."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from labeldp import encoders
from labeldp.curator import (
    Curator,
    DatasetLedger,
    LedgerFile,
    Recorded,
    kind_of_ids,
    open_account,
    records_digest,
    user_names,
    users_digest,
)
from labeldp.fit.auto import Choice, Described, choose_model
from labeldp.fit.bundle import PretrainedModel
from labeldp.fit.rows import (
    GivenRows,
    ImageRows,
    PrivateRows,
    PublicRows,
    Rows,
    public_images,
    public_rows,
)
from labeldp.fit.settings import FitSettings, names_images, public_digest
from labeldp.learners import (
    AUTO,
    EVALUATED,
    Learner,
    Model,
    Progress,
    Task,
    evaluation_mechanism,
    fit_repeatably,
    no_progress,
    remaining,
    with_given,
)
from labeldp.mechanisms import Mechanism
from labeldp.privacy import (
    AccountLike,
    AccountState,
    Budget,
    Charge,
    InputError,
    LedgerError,
    LedgerLike,
    NamedFile,
    PendingCharge,
    Public,
    RandomnessKind,
    Release,
    Request,
    Source,
    SystemRandomness,
    Unit,
    path_text,
)
from labeldp.releases import Owners, answer_epsilon, best_cap, counted, named_ids

OTHER_FILES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".zip", ".tar")
"""Suffixes of files that are neither a table nor a source of images; a file with another one is read by its content."""

FROM_SERVER = "the server's features"
"""What is said in place of a file."""


OTHER_BITS = (
    "the step {!r} of this fit was charged before, and what it released cannot be found again: its rows of features "
    "now have other bits (another machine, another version of labeldp or of a library); run it as it ran then, or give "
    "--revision NAME to be charged in addition"
)
"""Said of a step that would be charged twice."""


@dataclass(frozen=True)
class Job:
    """A requested fit, with everything read and nothing charged; `prepare` makes it.

    Args:
        request: what was asked for.
        settings: the same, with the model that was chosen.
        learner: what learns.
        rows: the private rows that are used.
        account: what is charged: the dataset of a ledger file, a ledger in memory, or a share of a server's dataset.
        choice: what was taken, and why.
        public: the rows of a test file, or None.
        init: a network whose weights the training starts from, or None.
        has_learner: whether a program made the learner.
        all_rows: all private rows, if only some rows of each user are used.
        owners: the user of each row, if users are protected.
    """

    request: Request
    settings: FitSettings
    learner: Learner
    rows: Rows
    account: AccountLike
    choice: Choice
    public: PublicRows | None = None
    init: PretrainedModel | None = None
    has_learner: bool = False
    all_rows: Rows | None = None
    owners: Owners | None = None

    @property
    def task(self) -> Task:
        """The public part of the fit."""
        settings, rows = self.settings, self.rows
        cap = None if self.owners is None else settings.per_user or 1
        mask, count = getattr(rows.encoder, "categorical", None), len(rows.features)
        delta = settings.delta if settings.trust == "central" else 0.0  # answers are not made for a delta
        return Task(settings.domain, count, settings.epsilon, delta, settings.evaluation, cap, mask, rows.weights)

    @property
    def inputs(self) -> Any:
        """The features as the learner takes them."""
        return self.rows.features if self.rows.inputs is None else self.rows.inputs

    @property
    def file(self) -> str:
        """The name of the data file, without its folder."""
        return FROM_SERVER if not self.request.source.name and self.settings.curator else self.request.source.name

    @property
    def sampler(self) -> Any:
        """The version of the sampler. With another version the ledger finds no stored release and charges new ones."""
        return evaluation_mechanism(self.settings.domain, self.settings.epsilon).specification()["sampler"]

    @property
    def times(self) -> int:
        """How often a user pays for a release that answers records one by one."""
        return self.owners.cap if self.owners is not None and self.settings.trust == "local" else 1

    @cached_property
    def run(self) -> str:
        """The name of the run in the ledger: a digest of the options that releases depend on.

        The name does not change if an option is set to its default. For models that share their releases, no option
        changes the name.
        """
        request = _run(self.settings, self.request)
        if self.learner.shares_releases(self.task):
            request = replace(request, does="labels", source=replace(request.source, digest=""), options={})
        elif self.has_learner:
            request = replace(request, options={**request.options, "learner": repr(self.learner)})
        return request.digest

    @cached_property
    def curator(self) -> Any:
        """The curator of the private labels, here or on a server.

        If the labels are here, the ledger records the domain before they are compared with it.
        """
        if self.account.remote is not None:
            return self.account.remote.of_run(self.run)
        rows = self.all_rows or self.rows
        curator = Curator(
            rows,
            domain=self.settings.domain,
            ledger=cast(LedgerLike, self.account),
            ids=rows.ids,
            run=self.run,
            users=None if self.owners is None else self.owners.names,
        )
        return curator if self.owners is None else curator.limited(self.owners.cap)[0]

    def charged(self, state: AccountState) -> dict[str, Charge]:
        """Return the charges so far of this run's steps, by step, as a state of the account has them.

        A step that names its mechanism may share the charge of another run.
        """
        charges = [
            ((entry.step or "").rpartition(": "), replace(entry.certificate.entries[0], path=entry.part))
            for entry in state.own_entries
            if entry.certificate.entries[0].unit is self._unit
        ]
        by_step = {step: charge for (run, _, step), charge in charges if run == self.run}
        for step, mechanism in self.learner.answers(self.task).items():
            request = self._asking(mechanism)
            for _, charge in charges:
                same = charge.mechanism == request.mechanism and charge.loss == request.loss
                if not charge.path and same and state.has_made(request):
                    by_step.setdefault(step, charge)
        return by_step

    @property
    def _unit(self) -> Unit:
        return Unit.ONE_LABEL if self.owners is None else Unit.ONE_USER

    def _asking(self, mechanism: Mechanism) -> PendingCharge:
        """Return the request of a release of all records by a mechanism that answers them one by one."""
        rows, account = self.all_rows or self.rows, self.account
        return PendingCharge(
            mechanism.specification(),
            mechanism.privacy_loss() * self.times,
            scheme=kind_of_ids(rows.ids),
            randomness=RandomnessKind.KEYED,
            unit=self._unit,
            users=None if self.owners is None else _users(account, rows),
        )

    def require_budget(self) -> None:
        """Check that the budget admits all steps that are left, before the next of them is charged.

        Raises:
            BudgetExceeded: it does not; nothing was charged.
        """
        state = self.account.state
        unpaid = remaining(self.learner.plan(self.task), self.charged(state))
        state.foresee([(charge.path, charge.loss * self.times) for charge in unpaid], self._unit)

    def learn(
        self,
        on_release: Callable[[str, int, Mechanism], None],
        *,
        checkpoints: Path | None = None,
        progress: Progress = no_progress,
    ) -> Release[Model]:
        """Release labels and train.

        Returns:
            The model; its certificate has the request, and says that labels of a test file are public.
        """
        charged = self.charged(self.account.read())

        def before(step: str, mechanism: Mechanism) -> None:
            charge = charged.get(step)
            if charge and mechanism.arrays() is None and charge.mechanism != mechanism.specification():
                raise LedgerError(OTHER_BITS.format(step))

        def after(event: Recorded) -> None:
            on_release(event.step, len(event.rows), event.release.mechanism)

        with self.curator.subscribe(after, before):
            release = self.fit(checkpoints=checkpoints, progress=progress)
        conditions = []
        if self.choice.alternatives:
            conditions.append(f"{self.choice.name} was chosen from features and the number of records alone")
        if self.settings.encoder is not None:
            why = encoders.ENCODERS[self.settings.encoder].why
            conditions.append(f"the encoder does not depend on the private labels ({why})")
        if self.public is not None:
            conditions.append(f"the labels of {self.public.file} are public")
        assumptions = (*release.certificate.assumptions, *conditions)
        return replace(release, certificate=replace(release.certificate, assumptions=assumptions, request=self.request))

    def fit(self, *, checkpoints: Path | None = None, progress: Progress = no_progress) -> Release[Model]:
        """Release labels and train; see `learn`."""
        learner, task, rng = self.learner, self.task, self.account.randomness or SystemRandomness()
        if checkpoints is not None:
            learner = replace(learner, checkpoints=checkpoints)  # type: ignore[call-arg]
        model = fit_repeatably(learner, self.inputs, self.curator, task, rng=rng, progress=progress)
        weights = None if task.weights is None else Public(task.weights, why="who called fit says so")
        return with_given(model, weights, "sample weights do")


def prepare(
    settings: FitSettings,
    rows: Rows,
    ledger: Any,
    *,
    data: Any = None,
    public: PublicRows | None = None,
    learner: Learner | None = None,
) -> Job:
    """Return a fit, after checking that it can be done; no label is read, and nothing is charged.

    Args:
        settings: what is asked for.
        rows: the private rows.
        ledger: the path of a ledger file, or an account; where the settings name a server, its curator.
        data: the file that the rows were read from; None for rows in memory.
        public: the rows of a test file, or None.
        learner: what learns, if a program made it; by default what the settings say.

    Raises:
        InputError, LedgerError: an option, the rows or the ledger cannot be used; nothing was charged.
    """
    source = replace(
        Source.of(data, settings.label, settings.id_column, settings.user_column),
        features=settings.features or (),
        rows=len(rows.features),
        digest=public_digest(rows.features, rows.ids, settings.id_column),
    )
    account = _account(ledger, settings, rows, source)
    if learner is None:
        charged = partial(_charged, settings=settings, rows=rows, account=account, source=source)
        choice = choose_model(settings, _described(settings, rows, account), charged)
    else:
        choice = Choice(learner.name or type(learner).__name__.lower(), settings.trust, settings.delta)
    job = _job(settings, choice, rows, account, source, public, learner)
    job.task.check_records()
    job.learner.check(job.inputs, job.task)
    return job


def _described(settings: FitSettings, rows: Rows, account: Any) -> Described:
    """Return what is public of the records, as the choice of a model needs it."""
    (records, *shape), epsilon = rows.features.shape, settings.epsilon
    if settings.user_column is not None and settings.model == AUTO:
        sizes = Owners.of(rows.users, rows.ids, None, account).sizes
        task = settings.per_user, epsilon, settings.delta, settings.domain, settings.trust
        records, epsilon = counted(sizes, *task)
    categories, weights = getattr(rows.encoder, "categorical", ()), rows.weights
    images, weighted = isinstance(rows, ImageRows), weights is not None
    return Described(records, epsilon, shape[0], sum(categories), images, weighted)


def _charged(choice: Choice, settings: FitSettings, rows: Rows, account: Any, source: Source) -> bool:
    """Return whether the ledger was charged for such a fit. Then it stays, even if a newer rule differs.

    The name of its run says so. Learners that share their releases have no run of their own: after one of them, the
    others are free.
    """
    if not account.state.own_entries:
        return False
    taken, owners = _shared(choice.applied(settings), rows, account)
    run = _run(taken, taken.request(source, cap=0 if owners is None else owners.cap)).digest
    return any((entry.step or "").startswith(f"{run}: ") for entry in account.state.own_entries)


def _run(settings: FitSettings, request: Request) -> Request:
    """Return the part of a request that releases depend on, with options at their defaults left out."""
    settings = replace(settings, curator=None, other_ids=False, chosen=None)
    if settings.evaluation == EVALUATED:
        settings = replace(settings, evaluation=None)
    files = {name: file for name, file in request.files.items() if name == "init"}
    return settings.request(replace(request.source, features=()), cap=request.cap, files=files)


def _job(
    settings: FitSettings,
    choice: Choice,
    rows: Rows,
    account: Any,
    source: Source,
    public: PublicRows | None,
    learner: Learner | None,
) -> Job:
    """Return a fit whose model is chosen."""
    taken, has_learner = choice.applied(settings), learner is not None
    learner = learner or taken.learner(images=isinstance(rows, ImageRows))
    init = None if settings.init is None else PretrainedModel.read(settings.init, account)
    if init is not None:
        learner = replace(learner, init=init.network)  # type: ignore[call-arg]
    taken, owners = _shared(taken, rows, account)
    used = rows if owners is None else cast(PrivateRows | GivenRows, rows).take(owners.rows)
    files = {} if init is None else {"init": NamedFile(path_text(Path(str(settings.init)).name), init.digest)}
    files |= {} if public is None else {"test": NamedFile(path_text(public.file), public.digest())}
    asked = replace(settings, chosen=choice.name) if settings.model == AUTO else replace(settings, model=choice.model)
    request = asked.request(source, cap=0 if owners is None else owners.cap, files=files)
    account = account.of_request(request)
    return Job(request, taken, learner, used, account, choice, public, init, has_learner, rows, owners)


def _shared(settings: FitSettings, rows: Rows, account: Any) -> tuple[FitSettings, Owners | None]:
    """Return the settings of a fit with the selected records of each user, and the user of each record.

    Without users they are as they were, and nobody's.
    """
    if settings.user_column is None:
        return settings, None
    assert isinstance(rows, PrivateRows | GivenRows)
    if settings.stages != 1 or settings.prior != "none":
        raise InputError("--stages and --prior do not go with --user: every record is answered, or summed, once")
    one_by_one, cap = settings.trust == "local", settings.per_user
    if one_by_one and cap is None:
        sizes = Owners.of(rows.users, rows.ids, None, account).sizes
        cap = best_cap(sizes, settings.epsilon, settings.delta, settings.domain)
    owners = Owners.of(rows.users, rows.ids, cap, account)
    shared = replace(settings, per_user=owners.cap)
    if one_by_one:
        answer = answer_epsilon(settings.epsilon, settings.delta, owners.cap)
        shared = replace(shared, epsilon=answer, shared=settings.epsilon)
    return shared, owners


def _account(ledger: Any, settings: FitSettings, rows: Rows, source: Source) -> AccountLike:
    """Return the account of these records, which is opened unless it is given."""
    if settings.curator is not None:
        remote: AccountLike = ledger.account(settings.request(source), len(rows.features), rows.ids)
        return remote
    if not isinstance(ledger, str | os.PathLike):
        account: AccountLike = ledger
        return account
    owners = None if settings.user_column is None else partial(_users, rows=rows)
    return open_account(
        settings.request(source),
        ledger,
        public=(*rows.columns, settings.id_column, settings.user_column),
        named=rows.ids is not None,
        users=owners,
        records=lambda account: records_digest(rows.ids, account),
        count=lambda: len(rows.features),
        budget=settings.new_budget or Budget(settings.asked, settings.delta),
    )


def _users(account: AccountLike, rows: Any) -> str:
    """Return a digest of the map from records to users, as the ledger keeps it."""
    key = account.ids_key or b""
    return users_digest(named_ids(rows.ids, account), user_names(rows.users, key), key)


def file_account(ledger: Any, settings: FitSettings) -> DatasetLedger:
    """Return the dataset of a ledger file that a fit is charged to."""
    return LedgerFile(ledger).dataset(
        settings.dataset,
        cohort=settings.cohort,
        revision=settings.revision,
        other_ids=settings.other_ids,
        budget=settings.new_budget or Budget(settings.asked, settings.delta),
    )


def read_rows(data: str | pa.Table, settings: FitSettings, test: str | None) -> tuple[Rows, PublicRows | None]:
    """Return the private rows, and the public ones of a test file or None; no label of the private ones is read.

    Raises:
        InputError: an option does not go with such data, or a file cannot be used.
    """
    images = isinstance(data, str) and takes_images(data)
    if images and settings.curator is not None:
        raise InputError("--curator is for tables; for images, connect to the server in Python: ldp.connect")
    if settings.model != AUTO:
        settings.learner(images=images)  # refuses options before files are read
    if images:
        assert isinstance(data, str)
        images_of = ImageRows.read(data, settings)
        return images_of, None if test is None else public_images(test, data, settings, images_of)
    table = PrivateRows.read(data, settings)
    return table, None if test is None else public_rows(test, data, settings, table)


def takes_images(data: str) -> bool:
    """Return whether a path is of images; refuse one that is neither of images nor of a table."""
    path = Path(data)
    if not path.exists():
        raise InputError(f"no such file or folder: {data}")
    if path.is_file() and path.suffix.lower() in OTHER_FILES:
        raise InputError(
            f"{data} is neither a table (CSV or Parquet) nor a source of images: an .npz file, or a folder of "
            "MNIST's or CIFAR's files or of a folder of pictures for each class"
        )
    return names_images(data)
