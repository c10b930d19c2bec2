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
        request: the request, as the ledger and the certificate store it.
        taken: the same request, with the chosen model by name; the run is named after it.
        settings: what `taken` says; its epsilon is that of one answer, where those of a user are randomized.
        learner: what learns.
        rows: the private rows that are used.
        all_rows: the private rows, with those of users that are not used.
        account: what is charged: the dataset of a ledger file, a ledger in memory, or a share of a server's dataset.
        choice: what was taken, and why.
        public: the rows of a test file, or None.
        init: a network whose weights the training starts from, or None.
        has_learner: whether a program made the learner.
        owners: the user of each of all rows, or None where single records are protected.
    """

    request: Request
    taken: Request
    settings: FitSettings
    learner: Learner
    rows: Rows
    all_rows: Rows
    account: AccountLike
    choice: Choice
    public: PublicRows | None = None
    init: PretrainedModel | None = None
    has_learner: bool = False
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
        return self.request.source.name or (FROM_SERVER if self.settings.server else "")

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
        request = _run_request(self.taken)
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
        rows = self.all_rows
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
            pending = self._pending(mechanism)
            for _, charge in charges:
                same = charge.mechanism == pending.mechanism and charge.loss == pending.loss
                if not charge.path and same and state.has_made(pending):
                    by_step.setdefault(step, charge)
        return by_step

    @property
    def _unit(self) -> Unit:
        return Unit.ONE_LABEL if self.owners is None else Unit.ONE_USER

    def _pending(self, mechanism: Mechanism) -> PendingCharge:
        """Return the charge of a release of all records by a mechanism that randomizes each by itself."""
        rows, account = self.all_rows, self.account
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
    request: Request,
    rows: Rows,
    ledger: Any,
    *,
    public: PublicRows | None = None,
    init: str | None = None,
    learner: Learner | None = None,
    new_budget: Budget | None = None,
) -> Job:
    """Return a fit, after checking that it can be done; no label is read, and nothing is charged.

    Args:
        request: what is asked for.
        rows: the private rows.
        ledger: the path of a ledger file, or an account; where a server holds the labels, its curator.
        public: the rows of a test file, or None.
        init: the directory of a network whose weights are the first ones, or None.
        learner: what learns, if a program made it; by default what the request says.
        new_budget: of a ledger that does not exist yet; by default what the request costs.

    Raises:
        InputError, LedgerError: an option, the rows or the ledger cannot be used; nothing was charged.
    """
    digest = public_digest(rows.features, rows.ids, request.source.ids or None)
    request = replace(request, source=replace(request.source, rows=len(rows.features), digest=digest))
    account, settings = _account(ledger, request, rows, new_budget), FitSettings.of(request)
    if learner is None:
        charged = partial(_was_charged, request=request, rows=rows, account=account)
        choice = choose_model(request, _described(settings, rows, account), charged)
    else:
        choice = Choice(learner.name or type(learner).__name__.lower(), settings.trust, settings.delta)
    job = _job(request, choice, rows, account, public, init, learner)
    job.task.check_records()
    job.learner.check(job.inputs, job.task)
    return job


def _described(settings: FitSettings, rows: Rows, account: Any) -> Described:
    """Return what is public of the records, as the choice of a model needs it."""
    (records, *shape), epsilon = rows.features.shape, settings.epsilon
    if settings.user_column is not None and settings.model == AUTO:
        sizes = Owners.of(rows.users, rows.ids, None, account).sizes
        records, epsilon = counted(sizes, settings.per_user, epsilon, settings.delta, settings.domain, settings.trust)
    categories, weights = getattr(rows.encoder, "categorical", ()), rows.weights
    images, weighted = isinstance(rows, ImageRows), weights is not None
    return Described(records, epsilon, shape[0], sum(categories), images, weighted)


def _was_charged(choice: Choice, request: Request, rows: Rows, account: Any) -> bool:
    """Return whether the ledger has a charge of the run of a fit with this choice.

    It never has one for learners that share their releases: these have no run of their own, and after one of them
    the others are free.
    """
    if not account.state.own_entries:
        return False
    taken = choice.applied(request)
    _, owners = _of_users(FitSettings.of(taken), rows, account)
    run = _run_request(replace(taken, cap=0 if owners is None else owners.cap)).digest
    return any((entry.step or "").startswith(f"{run}: ") for entry in account.state.own_entries)


def _run_request(request: Request) -> Request:
    """Return the part of a request that releases depend on; its digest names the run."""
    options = {name: value for name, value in request.options.items() if name not in ("chosen", "other_ids", "server")}
    if options.get("evaluation") == EVALUATED:
        del options["evaluation"]
    files = {name: file for name, file in request.files.items() if name == "init"}
    return replace(request, source=replace(request.source, features=()), options=options, files=files)


def _job(
    request: Request,
    choice: Choice,
    rows: Rows,
    account: AccountLike,
    public: PublicRows | None,
    init: str | None,
    learner: Learner | None,
) -> Job:
    """Return a fit whose model is chosen."""
    taken, has_learner = choice.applied(request), learner is not None
    settings = FitSettings.of(taken)
    learner = learner or settings.learner(images=isinstance(rows, ImageRows))
    network = None if init is None else PretrainedModel.read(init, account)
    begun = request.files.get("init")
    if network is not None and begun is not None and begun.digest not in ("", network.digest):
        raise InputError(f"is not the network {begun.name!r} of the request", argument="init")
    if network is not None:
        learner = replace(learner, init=network.network)  # type: ignore[call-arg]
    settings, owners = _of_users(settings, rows, account)
    used = rows if owners is None else cast(PrivateRows | GivenRows, rows).take(owners.rows)
    files = {} if network is None else {"init": NamedFile(path_text(Path(str(init)).name), network.digest)}
    files |= {} if public is None else {"test": NamedFile(path_text(public.file), public.digest())}
    cap = 0 if owners is None else owners.cap
    if request.does == AUTO:
        request = replace(request, options={**request.options, "chosen": choice.name})
    else:
        request = replace(request, does=choice.model)
    request, taken = (replace(asked, files=files, cap=cap) for asked in (request, taken))
    account = account.of_request(request)
    return Job(request, taken, settings, learner, used, rows, account, choice, public, network, has_learner, owners)


def _of_users(settings: FitSettings, rows: Rows, account: Any) -> tuple[FitSettings, Owners | None]:
    """Return settings with the cap of records and the epsilon of one randomized label, and the user of each record.

    Where single records are protected, return the settings unchanged, and None.
    """
    if settings.user_column is None:
        return settings, None
    assert isinstance(rows, PrivateRows | GivenRows)
    if settings.stages != 1 or settings.prior != "none":
        raise InputError("--stages and --prior do not go with --user: every record is answered, or summed, once")
    one_by_one, cap, epsilon = settings.trust == "local", settings.per_user, settings.epsilon
    if one_by_one and cap is None:
        sizes = Owners.of(rows.users, rows.ids, None, account).sizes
        cap = best_cap(sizes, epsilon, settings.delta, settings.domain)
    owners = Owners.of(rows.users, rows.ids, cap, account)
    if one_by_one:
        epsilon = answer_epsilon(epsilon, settings.delta, owners.cap)
    return replace(settings, per_user=owners.cap, epsilon=epsilon), owners


def _account(ledger: Any, request: Request, rows: Rows, new_budget: Budget | None) -> AccountLike:
    """Return the account of these records, which is opened unless it is given."""
    if request.options.get("server"):
        remote: AccountLike = ledger.account(request, len(rows.features), rows.ids)
        return remote
    if not isinstance(ledger, str | os.PathLike):
        account: AccountLike = ledger
        return account
    source = request.source
    return open_account(
        request,
        ledger,
        public=(*rows.columns, source.ids or None, source.users or None),
        named=rows.ids is not None,
        users=partial(_users, rows=rows) if source.users else None,
        records=lambda account: records_digest(rows.ids, account),
        count=lambda: len(rows.features),
        budget=new_budget,
    )


def _users(account: AccountLike, rows: Any) -> str:
    """Return a digest of the map from records to users, as the ledger keeps it."""
    key = account.ids_key or b""
    return users_digest(named_ids(rows.ids, account), user_names(rows.users, key), key)


def read_rows(request: Request, data: str | pa.Table, test: str | None) -> tuple[Rows, PublicRows | None]:
    """Return the private rows, and the public ones of a test file or None; no label of the private ones is read.

    Raises:
        InputError: an option does not go with such data, or a file cannot be used.
    """
    settings, images = FitSettings.of(request), isinstance(data, str) and takes_images(data)
    if images and settings.server:
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
