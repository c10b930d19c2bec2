"""Fit_file; checkpoints of an interrupted fit."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

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
from labeldp.tables import atomic_directory, names_images
from labeldp.workflows.fit.bundle import (
    CERTIFICATE,
    CERTIFIED,
    REPORT,
    SUMMARY,
    Bundle,
    certificate_digest,
    certify,
    read_certified,
    read_json,
    write_json,
    write_text,
)
from labeldp.workflows.fit.data import ImageRows, PrivateRows, PublicRows, Rows, public_images, public_rows
from labeldp.workflows.fit.networks import PretrainedModel
from labeldp.workflows.fit.recipe import Recipe, TrainingContext
from labeldp.workflows.fit.registry import recipe_of
from labeldp.workflows.fit.settings import FitSettings
from labeldp.workflows.fit.summarize import FitRecord, summarize
from labeldp.workflows.fit.summary import FitSummary, Stage

UNREAD = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".zip", ".tar")
"""Names of single files that are neither a table nor a source of images; any other name is read as its content says."""

PUBLIC = "--test-labels-are-public"

PUBLIC_TEST = (
    f"--test needs {PUBLIC} beside it: what the report says of that file is computed from its labels, without noise "
    "and without a charge, so a held-out part of the private records must not be used; without --test the model is "
    "measured on released labels"
)

Progress = Callable[[str, float], None]

Render = Callable[[FitSummary], str]


def fit_file(
    data: str,
    settings: FitSettings,
    *,
    ledger: str,
    out: str,
    test: str | None = None,
    test_labels_are_public: bool = False,
    render: Render | None = None,
    note: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> FitSummary:
    """Learn a model from a file, and write model, certificate and report into a new directory.

    Everything is read and checked before the first label is used. The same fit again costs nothing and
    finishes what was interrupted: the released labels are in the ledger. A directory that holds this very fit
    already is left as it is.

    Args:
        data: CSV, CSV.gz or Parquet; or images, as `open_images` reads them: of a source with a test part, the rest.
        settings: what to do.
        ledger: the ledger file to charge; made if it is not there.
        out: a directory that does not exist, is empty, or holds what this call once wrote.
        test: a file with the same columns whose labels are public, of other records, to measure the model on; of
            images the test part of a source, which may be `data`, or all of one without.
        test_labels_are_public: must be said beside `test`: what the report says of it has no noise, and is not charged.
        render: turns the summary into the report, such as `labeldp.report.render_report`; without it none is written.
        note: called with a sentence that the user should read.
        progress: called with what is being done and the share of the work that is done.

    Guarantee: what is refused charges nothing, and the directory is whole or absent.

    Raises:
        InputError: a column, a label, the test file or the directory is not as it should be.
        BudgetExceeded: the ledger does not allow it; nothing was charged.
        LedgerError: the ledger cannot be used, or the labels changed.
    """
    if test is not None and not test_labels_are_public:
        raise InputError(PUBLIC_TEST)
    if test is None and test_labels_are_public:
        raise InputError(f"{PUBLIC} goes with --test FILE: it says that the labels of FILE are public")
    show = progress or (lambda text, share: None)
    show("reading", 0.0)
    if (Path(out) / CERTIFICATE).is_file():
        return existing_result(FitJob.read(data, settings, ledger, out, test), Path(out))
    with atomic_directory(out, (*CERTIFIED, CERTIFICATE)) as folder:
        job = FitJob.read(data, settings, ledger, out, test)
        job.require_budget()
        if job.account.is_new and note:
            budget = job.account.budget
            note(f"{settings.dataset!r} is new in {ledger}: its whole budget is the cost of this fit ({budget})")
        if note:
            _say_of_index(job.private, note)
        stages: list[Stage] = []
        show("learning", 0.1)
        with checkpoint_folder(out, job.request, wanted=job.recipe.resumable) as checkpoints:
            context = replace(job.context, checkpoints=checkpoints, show=lambda text, done: show(text, 0.1 + done / 2))
            release = job.certified(job.learn(lambda *release: stages.append(Stage.of(*release)), context))
        show("evaluating", 0.6)
        summary = summarize(job.record(tuple(stages)), release, job.public, show)
        digest = certificate_digest(release.certificate.to_json())
        summary = replace(summary, request=job.request, certificate_digest=digest)
        _write(folder, release, job.private.encoder, summary, render)
    return summary


@dataclass(frozen=True)
class FitJob:
    """A fit that was asked for, with everything read and nothing charged."""

    recipe: Recipe
    file: str
    command: str
    """All that identifies the fit; that test labels are public, which must be said beside it, does not."""
    private: Rows
    public: PublicRows | None
    account: DatasetLedger
    init: PretrainedModel | None

    @classmethod
    def read(cls, data: str, settings: FitSettings, ledger: str, out: str, test: str | None) -> "FitJob":
        """Read and check the files, the settings first."""
        if not Path(data).exists():
            raise InputError(f"no such file or folder: {data}")
        if Path(data).is_file() and Path(data).suffix.lower() in UNREAD:
            raise InputError(
                f"{data} is neither a table (CSV or Parquet) nor a source of images: an .npz file, or a folder of "
                "MNIST's or CIFAR's files or of a folder of pictures for each class"
            )
        recipe = recipe_of(settings, images=names_images(data))
        private, public = _files(data, settings, test)
        budget = Budget(settings.epsilon, settings.delta)
        account = LedgerFile(ledger).dataset(settings.dataset, revision=settings.revision, budget=budget)
        init = None if settings.init is None else PretrainedModel.read(settings.init, account)
        command = recipe.settings.command(data, ledger, out, test)
        job = cls(recipe, Path(data).name, command, private, public, account, init)
        recipe.check(private, job.context)
        if private.index and not job.charged():
            private, public = _files(data, settings, test, index=True)
            older = replace(job, private=private, public=public)
            if older.charged():
                return older
        return job

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
        return self.settings.run(self.private.features, self.private.ids, self.init.digest if self.init else "")

    @property
    def request(self) -> str:
        """A digest of all that is asked for and public: settings, files' names, features, the test file, the sampler.

        With another sampler the ledger would not find the releases again, and would charge them.
        """
        test = "" if self.public is None else self.public.digest()
        mechanism = evaluation_mechanism(self.settings.domain, self.settings.epsilon).specification()
        return hashlib.sha256(json.dumps([self.command, self.run, test, mechanism]).encode()).hexdigest()

    def charged(self) -> dict[str, Charge]:
        """What was charged so far of this very run, by stage; labels in one release may be another run's."""
        entries = [entry for entry in self.account.entries if entry.revision == self.account.revision]
        named = [((entry.step or "").rpartition(": "), entry.certificate.entries[0]) for entry in entries]
        found = {step: charge for (run, _, step), charge in named if run == self.run}
        for step in self.recipe.steps(len(self.private.features)):
            same = [charge for _, charge in named if not charge.path and charge.mechanism == step.mechanism]
            found.update(dict.fromkeys((step.name,) if same else (), *same[:1]))
        return found

    def require_budget(self) -> None:
        """Refuse a fit whose later stages the budget would not admit, before the next of them is charged."""
        budget, charges = self.account.budget, self.account.charges
        rest = self.recipe.remaining_charges(self.charged(), len(self.private.features))
        total = total_loss([*charges, *rest])
        if rest and not budget.admits(total):
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
        """The releases and the training."""
        settings, private, account = self.settings, self.private, self.account
        held = Curator.of_codes(
            lambda: private.codes, domain=settings.domain, ledger=account, ids=private.ids, run=self.run
        )
        watched = WatchedCurator(held, told, self.charged())
        return self.recipe.learn(private, watched, rng=account.randomness, context=context)

    def certified(self, release: Release[Model]) -> Release[Model]:
        """The model under the condition that the test file brings along, where there is one."""
        if self.public is None:
            return release
        condition = f"the labels of {self.public.file} are public"
        certificate = release.certificate
        return replace(release, certificate=replace(certificate, assumptions=(*certificate.assumptions, condition)))

    def record(self, stages: tuple[Stage, ...]) -> FitRecord:
        """The public side."""
        said = f"{self.command} {PUBLIC}" if self.public else self.command
        return FitRecord(self.recipe, self.file, said, self.private, self.account, stages)


def _files(
    data: str, settings: FitSettings, test: str | None, *, index: bool = False
) -> tuple[Rows, PublicRows | None]:
    """The private rows, and the public ones where a test file is named; see `PrivateRows.read`."""
    if names_images(data):
        images = ImageRows.read(data, settings)
        return images, None if test is None else public_images(test, data, settings, images)
    table = PrivateRows.read(data, settings, index=index)
    return table, None if test is None else public_rows(test, data, settings, table)


def _say_of_index(rows: Rows, note: Callable[[str], None]) -> None:
    """What was made of the index that pandas wrote into the file."""
    names = ", ".join(map(repr, rows.index))
    if rows.index and rows.keeps_index:
        note(f"the index of a pandas data frame, {names}, is a feature of this fit, as it was charged before")
    elif rows.index:
        note(f"left out {names}: the index of a pandas data frame is no feature; --features takes it where it is named")


class _Recognized(BaseException):  # nothing that a learner raises, and nothing that one may catch
    """The first release of a fit was found again."""


def existing_result(job: FitJob, folder: Path) -> FitSummary:
    """The summary of a directory that holds this very fit; any other is refused, and nothing is charged."""
    refusal = InputError(f"the directory {folder} is not empty; choose another name or remove it first")
    try:
        certificate, changed = read_certified(folder)
        summary = None if changed else FitSummary.from_json(read_json(folder / SUMMARY))
    except InputError:
        raise refusal from None
    known = {charge.id for charge in certificate.entries} <= {charge.id for charge in job.account.charges}
    if summary is None or summary.request != job.request or not known:
        raise refusal

    def recognized(*_: Any) -> None:
        raise _Recognized

    try:
        job.learn(recognized, job.context)  # the ledger refuses labels that changed
    except _Recognized:
        return summary
    raise refusal


def _write(folder: Path, release: Release[Model], encoder: Any, summary: FitSummary, render: Render | None) -> None:
    """The model, the report and the certificate that covers them."""
    Bundle(release.value, encoder).write(folder)
    write_json(folder / SUMMARY, summary.to_json())
    if render is not None:
        write_text(folder / REPORT, render(summary))
    certify(folder, release.certificate)


MARK = "fit"
"""The file that says which fit the checkpoints are of."""


@contextmanager
def checkpoint_folder(out: str, request: str, *, wanted: bool) -> Iterator[Path | None]:
    """The folder OUT.training for checkpoints; gone when the body ends well, or where no training had begun.

    Args:
        out: the directory that the fit will write.
        request: a digest of what is asked for.
        wanted: whether there is anything to keep; None is yielded if not.

    Raises:
        InputError: the folder holds another fit's checkpoints, or something else.
    """
    if not wanted:
        yield None
        return
    folder = Path(out).with_name(f"{Path(out).name}.training")
    mark = folder / MARK
    if folder.exists() and not (mark.is_file() and mark.read_text(encoding="utf-8") == request):
        raise InputError(
            f"{folder} holds checkpoints of another fit: finish that one, remove them, or name another --out"
        )
    folder.mkdir(mode=0o700, exist_ok=True)
    write_text(mark, request)
    try:
        yield folder
    except BaseException:
        if not list(folder.rglob("*.pt")):
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
