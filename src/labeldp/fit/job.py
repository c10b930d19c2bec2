"""A requested fit: what is asked is read and checked, and nothing is charged yet."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from labeldp.curator import (
    Curator,
    DatasetLedger,
    Ledger,
    LedgerFile,
    Recorded,
    records_digest,
    user_names,
    users_digest,
)
from labeldp.fit.choice import WAYS, Option, advise
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
from labeldp.fit.settings import FitSettings, Ids, public_digest
from labeldp.fit.users import Owners, best_cap, counted, named_ids
from labeldp.learners import EVALUATED, Model, evaluation_mechanism
from labeldp.mechanisms import Mechanism
from labeldp.privacy import (
    Budget,
    Certificate,
    Charge,
    InputError,
    LedgerError,
    NamedFile,
    Neighbors,
    Release,
    Request,
    Source,
    SystemRandomness,
    decimal,
    float_below,
    positive_epsilon,
)
from labeldp.privacy import Path as Part

if TYPE_CHECKING:
    from labeldp.fit.networks import PretrainedModel

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
class RemoteAccount:
    """A share of a dataset that a server holds: a ledger's dataset to everything else in a fit.

    Charges, and how they are found again, are the server's; here nothing is known of them but what it answers.

    Args:
        server: the curator of the dataset, as `labeldp.connect` returns it.
    """

    server: Any
    is_new = False
    columns = ()
    ids_key = digest_key = None
    entries = own_entries = charges = ()

    @classmethod
    def of(cls, server: Any, settings: FitSettings, records: int, ids: Ids | None) -> "RemoteAccount":
        """Return the account of a fit, after comparing what is public of its rows with the server's.

        Raises:
            InputError: other records than the server's, or an option that servers do not know.
        """
        for name in ("cohort", "revision", "user_column", "other_ids"):
            if getattr(settings, name):
                flag = "other-ids" if name == "other_ids" else name.partition("_")[0]
                raise InputError(f"--{flag} does not go with --curator: a server has one state of all records")
        if records != server.records:
            raise InputError(
                f"--curator: the server has labels of {server.records:,} records, and the file has {records:,}: the "
                "rows must be those of the labels, in their order"
            )
        if ids is not None:
            server.check_ids(ids)
        return cls(server)

    @property
    def name(self) -> str:
        """The dataset's."""
        return str(self.server.dataset)

    @property
    def randomness(self) -> SystemRandomness:
        """Of which nothing is taken: the server draws the noise."""
        return SystemRandomness()

    @cached_property
    def budget(self) -> Budget:
        """The analyst's share of the dataset's epsilon, at the delta of the whole."""
        content = self.server.budget
        return Budget(decimal(content["epsilon"], "epsilon") * Fraction(content["share"]), content["delta"])

    def used(self) -> Fraction:
        """Return how much of the share is used up by now."""
        return Fraction(self.server.budget["used"])

    def holds(self, charges: Iterable[Charge]) -> bool:
        """Return whether the server released these to the same analyst."""
        try:
            return all(self.server.certificate(charge.id).entries[0] == charge for charge in charges)
        except InputError:
            return False

    def part(self, path: Part) -> Part:
        """Return the part of the records that a charge was about."""
        return path

    def charged_at(self, certificate: Certificate) -> str:
        """Return when the last of some releases was charged, as the server says."""
        return max((str(charge.facts.get("charged", "")) for charge in certificate.entries), default="")


@dataclass(frozen=True)
class Job:
    """A requested fit, with everything read and nothing charged; `prepare` makes it.

    Args:
        request: what was asked for.
        recipe: how the model is learned.
        rows: the private rows that are used.
        account: what is charged: the dataset of a ledger file, a ledger in memory, or a share of a server's dataset.
        public: the rows of a test file, or None.
        init: a network whose weights the training starts from, or None.
        choice: what `--method auto` chose just now; None where nothing was, or the ledger held a choice.
        all_rows: all private rows, where `rows` are those of each user that are used.
        owners: whose they are, where users are protected.
    """

    request: Request
    recipe: Recipe
    rows: Rows
    account: Any
    public: PublicRows | None = None
    init: "PretrainedModel | None" = None
    choice: Option | None = None
    all_rows: Rows | None = None
    owners: Owners | None = None

    @property
    def settings(self) -> FitSettings:
        """The settings of the fit."""
        return self.recipe.settings

    @property
    def file(self) -> str:
        """The name of the data file, without its folder."""
        return FROM_SERVER if not self.request.source.name and self.settings.curator else self.request.source.name

    @property
    def sampler(self) -> Any:
        """The version of the sampler: with another one the ledger finds no release again, and charges new ones."""
        return evaluation_mechanism(self.settings.domain, self.settings.epsilon).specification()["sampler"]

    @property
    def times(self) -> int:
        """How often a user pays for a release that answers records one by one."""
        return self.owners.most if self.owners is not None and self.settings.trust == "local" else 1

    @property
    def context(self) -> TrainingContext:
        """What the training starts from."""
        return TrainingContext(init=self.init and self.init.network)

    @cached_property
    def run(self) -> str:
        """The name of the run in the ledger: the digest of the request, without what no release depends on.

        A default counts as it is: it is not charged again for being asked for. Of models that share their releases no
        option counts.
        """
        settings = replace(self.settings, curator=None, other_ids=False)
        if settings.evaluation == EVALUATED:
            settings = replace(settings, evaluation=None)
        files = {name: file for name, file in self.request.files.items() if name == "init"}
        source = replace(self.request.source, features=())
        request = settings.request(source, cap=self.request.cap, files=files)
        if self.recipe.shares_releases:
            request = replace(request, does="labels", source=replace(source, digest=""), options={})
        return request.digest

    @cached_property
    def curator(self) -> Any:
        """The curator of the private labels, here or on a server.

        Of labels that are here the ledger records the domain before they are compared with it.
        """
        if isinstance(self.account, RemoteAccount):
            return self.account.server.of_run(self.run)
        rows = self.all_rows or self.rows
        curator = Curator(
            rows,
            domain=self.settings.domain,
            ledger=self.account,
            ids=rows.ids,
            run=self.run,
            users=None if self.owners is None else self.owners.names,
        )
        return curator if self.owners is None else curator.limited(self.owners.most)[0]

    def charged(self) -> dict[str, Charge]:
        """Return the charges so far of this run's steps, by step.

        A step that names its mechanism may share the charge of another run.
        """
        if isinstance(self.account, Ledger):
            return {}
        charges = [
            ((entry.step or "").rpartition(": "), replace(entry.certificate.entries[0], path=entry.part))
            for entry in self.account.own_entries
            if (entry.certificate.neighbors is Neighbors.ONE_USER) == (self.owners is not None)
        ]
        by_step = {step: charge for (run, _, step), charge in charges if run == self.run}
        for step in self.recipe.steps(len(self.rows.features)):
            alike = (charge for _, charge in charges if not charge.path and charge.mechanism == step.mechanism)
            if same := [charge for charge in alike if charge.loss == step.loss * self.times]:
                by_step.setdefault(step.name, same[0])
        return by_step

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
        rest = self.recipe.remaining_charges(self.charged(), len(self.rows.features))
        self.account.foresee([(charge.path, charge.loss * self.times) for charge in rest])

    def learn(self, on_release: Callable[[str, int, Mechanism], None], context: TrainingContext) -> Release[Model]:
        """Release labels and train; call `on_release` with step, number of records and mechanism of each release.

        Returns:
            The model; its certificate has the request, and says that labels of a test file are public.
        """
        charged = self.charged()

        def before(step: str, mechanism: Mechanism) -> None:
            charge = charged.get(step)
            if charge and mechanism.arrays() is None and charge.mechanism != mechanism.specification():
                raise LedgerError(OTHER_BITS.format(step))

        def after(event: Recorded) -> None:
            on_release(event.step, len(event.rows), event.release.mechanism)

        rng = self.account.randomness or SystemRandomness()
        with self.curator.subscribe(after, before):
            release = self.recipe.learn(self.rows, self.curator, rng=rng, context=context)
        conditions = []
        if self.settings.chosen:
            conditions.append(f"{self.settings.chosen} was chosen by what is public: features and how many records")
        if self.public is not None:
            conditions.append(f"the labels of {self.public.file} are public")
        assumptions = (*release.certificate.assumptions, *conditions)
        return replace(release, certificate=replace(release.certificate, assumptions=assumptions, request=self.request))


def prepare(
    settings: FitSettings,
    rows: Rows,
    ledger: Any,
    *,
    data: Any = None,
    public: PublicRows | None = None,
    recipe: Recipe | None = None,
) -> Job:
    """Return a fit, after checking that it can be done; no label is read, and nothing is charged.

    Args:
        settings: what is asked for.
        rows: the private rows.
        ledger: the path of a ledger file, a dataset of one, a ledger in memory, or the curator of labels on a server.
        data: the file that the rows were read from; None for rows in memory.
        public: the rows of a test file, or None.
        recipe: how the model is learned, if a program made it; by default what the settings say.

    Raises:
        InputError, LedgerError: an option, the rows or the ledger cannot be used; nothing was charged.
    """
    source = replace(
        Source.of(data, settings.label, settings.id_column, settings.user_column),
        features=settings.features or (),
        rows=len(rows.features),
        digest=public_digest(rows.features, rows.ids, settings.id_column),
    )
    if settings.chooses and not isinstance(rows, ImageRows):
        job = _chosen(settings, rows, ledger, source, public)
    else:
        job = _job(settings, rows, ledger, source, public, recipe)
    job.recipe.check_share(len(job.rows.features))
    job.recipe.check(job.rows, job.context)
    return job


def _chosen(settings: FitSettings, rows: Rows, ledger: Any, source: Source, public: PublicRows | None) -> Job:
    """Return the fit that `labeldp choose` ranks first, or the one that the ledger was charged for already.

    Raises:
        InputError: options that would be chosen, or nothing is left to choose from.
    """
    plain = FitSettings(settings.label, settings.domain, settings.epsilon, settings.delta, settings.dataset)
    for name in ("model", "stages", "prior", "epochs", "init", "cells", "neighbors"):
        if getattr(settings, name) != getattr(plain, name):
            raise InputError(f"--{name} does not go with --method auto, which chooses it")
    jobs: dict[str, Job] = {}
    for way in WAYS:
        if way.admissible(settings.domain, settings.trust):
            jobs[way.name] = _job(replace(settings, chosen=way.name), rows, ledger, source, public)
            if jobs[way.name].holds_choice():
                return jobs[way.name]
    records, dimension = rows.features.shape
    epsilon, owners = settings.epsilon, next(iter(jobs.values())).owners
    if owners is not None:
        records, epsilon = counted(owners.sizes, settings.per_user, epsilon, settings.domain, settings.trust)
    best = advise(records, dimension, settings.domain, epsilon, settings.delta, settings.trust).best
    return replace(jobs[best.method], choice=best)


def _job(
    settings: FitSettings,
    rows: Rows,
    ledger: Any,
    source: Source,
    public: PublicRows | None,
    recipe: Recipe | None = None,
) -> Job:
    """Return a fit whose model is chosen."""
    chosen = settings
    if settings.chosen is not None:
        taken = {way.name: way.settings(settings.delta) for way in WAYS}.get(settings.chosen)
        if taken is None:
            raise InputError(f"--method auto has no way {settings.chosen!r}")
        chosen = replace(settings, **{"delta": 0.0, **taken})
    recipe = recipe or recipe_of(chosen, images=isinstance(rows, ImageRows))
    account = _account(ledger, recipe.settings, rows)
    init = None
    if settings.init is not None:
        from labeldp.fit.networks import PretrainedModel

        init = PretrainedModel.read(settings.init, account)
    used, owners = rows, None
    if settings.user_column is not None:
        shared, owners = _shared(recipe.settings, rows, account)
        # A model was chosen already: its recipe alone takes another epsilon.
        recipe, used = replace(recipe, settings=shared), rows.take(owners.rows)  # type: ignore[union-attr]
    files = {} if init is None else {"init": NamedFile(Path(str(settings.init)).name, init.digest)}
    files |= {} if public is None else {"test": NamedFile(public.file, public.digest())}
    model = settings.model if settings.chosen is not None else recipe.settings.model
    cap = 0 if owners is None else owners.most
    request = replace(settings, model=model).request(source, cap=cap, files=files)
    if isinstance(account, DatasetLedger):
        account = account.of_request(request)
    return Job(request, recipe, used, account, public, init, None, rows, owners)


def _shared(settings: FitSettings, rows: Rows, account: Any) -> tuple[FitSettings, Owners]:
    """Return the settings of a fit of the records of each user that are used, and whose they are.

    Raises:
        InputError: a model that cannot protect users.
    """
    assert isinstance(rows, PrivateRows | GivenRows)
    if settings.stages != 1 or settings.prior != "none":
        raise InputError("--stages and --prior do not go with --user: every record is answered, or summed, once")
    one_by_one, cap = settings.trust == "local", settings.per_user
    if one_by_one and cap is None:
        sizes = Owners.of(rows.users, rows.ids, None, account).sizes
        cap = best_cap(sizes, settings.epsilon, settings.domain)
    owners = Owners.of(rows.users, rows.ids, cap, account)
    shared = replace(settings, per_user=owners.most)
    if one_by_one:
        cost = float_below(positive_epsilon(settings.epsilon) / owners.most)
        shared = replace(shared, epsilon=cost, shared=settings.epsilon)
    key = account.ids_key or b""
    account.check_users(users_digest(named_ids(rows.ids, account), user_names(rows.users, key), key))
    return shared, owners


def _account(ledger: Any, settings: FitSettings, rows: Rows) -> Any:
    """Return what is charged for these records: of a ledger file the dataset, of a server a share."""
    if isinstance(ledger, DatasetLedger | Ledger):
        return ledger
    if not isinstance(ledger, str | os.PathLike):
        return RemoteAccount.of(ledger, settings, len(rows.features), rows.ids)
    budget = Budget(settings.asked, settings.delta)
    dataset = LedgerFile(ledger).dataset(
        settings.dataset,
        cohort=settings.cohort,
        revision=settings.revision,
        other_ids=settings.other_ids,
        budget=budget,
    )
    account = dataset.of_records(records_digest(rows.ids, dataset))
    account.check_domain(settings.domain)  # before the budget: a larger one would not help
    account.check_count(len(rows.features))
    if settings.user_column is None:
        account.check_users(None)
    if private := [name for name in getattr(rows, "columns", ()) if name in account.columns]:
        raise InputError(
            f"--features must not hold {private[0]!r}: its labels are private in {settings.dataset!r}, and features "
            "are public. Name the columns that are"
        )
    return account


def read_rows(data: str | pa.Table, settings: FitSettings, test: str | None) -> tuple[Rows, PublicRows | None]:
    """Return the private rows, and the public ones of a test file or None; no label of the private ones is read.

    Raises:
        InputError: an option does not go with such data, or a file cannot be used.
    """
    images = isinstance(data, str) and _names_images(data)
    if images and settings.curator is not None:
        raise InputError("--curator is for tables; for images, connect to the server in Python: ldp.connect")
    if not settings.chooses or images:
        recipe_of(settings, images=images)  # refuses options before files are read
    if images:
        assert isinstance(data, str)
        images_of = ImageRows.read(data, settings)
        return images_of, None if test is None else public_images(test, data, settings, images_of)
    table = PrivateRows.read(data, settings)
    return table, None if test is None else public_rows(test, data, settings, table)


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
