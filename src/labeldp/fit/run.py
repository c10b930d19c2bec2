"""`labeldp fit`: from a file of private labels to a directory with model, certificate and report."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from labeldp._version import __version__
from labeldp.curator import Curator, counts_unreadable, refuse_private
from labeldp.fit.bundle import (
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
from labeldp.fit.job import Job, prepare, read_rows, takes_images
from labeldp.fit.summarize import PUBLIC_FLAG, summarize
from labeldp.fit.summary import FitSummary, Stage
from labeldp.mechanisms import Mechanism
from labeldp.privacy import Budget, CuratorLike, InputError, NamedFile, Request, Source, path_text
from labeldp.releases import owner_note
from labeldp.tables import atomic_directory, first_names, open_table

Progress = Callable[[str, float], None]
"""Called with what is being done, in words, and the share of the work that is done, in [0, 1]."""

Render = Callable[[FitSummary], str]
"""Turns a summary into a report."""


def fit_file(
    request: Request,
    data: str | None,
    *,
    ledger: str | None = None,
    curator: CuratorLike | None = None,
    address: str | None = None,
    new_budget: Budget | None = None,
    out: str,
    init: str | None = None,
    test: str | None = None,
    test_labels_are_public: bool = False,
    render: Render | None = None,
    note: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    diagnostics: bool = False,
) -> FitSummary:
    """Learn a model from a file, and write model, certificate and report into a new directory.

    Everything is read and checked before the first label is used. The same fit again costs nothing and
    finishes what was interrupted: the released labels are in the ledger. If the directory already holds this fit, it
    stays as it is.

    Args:
        request: what `fit_request` returned, or what a ledger or a certificate holds.
        data: a CSV, CSV.gz or Parquet file; or a source of images as for `open_images`, without its test part. None for
            the features that the server of `curator` has beside the labels.
        ledger: the ledger file to charge; created if it does not exist.
        curator: in place of a ledger, the curator of labels that a server holds, as `labeldp.connect` returns it; the
            file holds features alone, in the order of the labels.
        address: of that server, for the command in the report.
        new_budget: of a ledger that does not exist yet; by default what the fit costs.
        out: a directory that does not exist, is empty, or holds what this call once wrote.
        init: the directory of a fitted network, whose weights are the first ones.
        test: a file of other records with the same columns and public labels, to measure the model on. For images a
            source, which may be `data`: its test part, or all of it if it has none.
        test_labels_are_public: must be True with `test`: results on its labels have no noise and are not charged.
        render: turns the summary into the report, such as `labeldp.report.render_report`; without it none is written.
        note: called with a sentence that the user should read.
        progress: called with what is being done and the share of the work that is done.
        diagnostics: whether the report has simulated accuracy at other epsilons and ranks features, which may take
            longer than the fit; `diagnose_file` adds both later.

    Guarantee (refusal_free): what is refused charges nothing, and the directory is whole or absent.

    Raises:
        InputError: a column, a label, the test file or the directory is not as it should be.
        BudgetExceeded: the ledger does not allow it; nothing was charged.
        LedgerError: the ledger cannot be used, or the labels changed.
    """
    if test is not None and not test_labels_are_public:
        raise InputError(
            f"--test needs {PUBLIC_FLAG}: the report uses the labels of that file without noise and without a charge. "
            "Do not use a held-out part of the private records. Without --test, noisy labels measure the model"
        )
    if test is None and test_labels_are_public:
        raise InputError(f"{PUBLIC_FLAG} goes with --test FILE: it says that the labels of FILE are public")
    if not 1980 <= (year := time.localtime(time.time()).tm_year) <= 2107:
        raise InputError(
            f"the clock of this machine says that it is the year {year}, and the archive of a model can be of 1980 to "
            "2107: set the clock, and run again"
        )
    if (ledger is None) == (curator is None) or (curator is None) == bool(request.options.get("server")):
        raise InputError("--ledger or --curator must be given, and not both")
    if data is None and curator is None:
        raise InputError("DATA must be given, or --curator of a server that has features")
    if data is None and request.source.ids:
        raise InputError("--id goes with DATA: a server's own features are in the order of its labels")
    show = progress or (lambda text, share: None)
    show("reading", 0.0)

    job_of = partial(
        read_job, request, data, ledger=ledger, curator=curator, new_budget=new_budget, init=init, test=test
    )
    if (Path(out) / CERTIFICATE).is_file():
        return existing_result(job_of(), Path(out))
    with atomic_directory(out, (*CERTIFIED, CERTIFICATE)) as folder:
        job = job_of()
        job.require_budget()
        if note:
            _note_what_is_new(job, data, ledger, note)
        stages: list[Stage] = []
        charged = len(job.account.state.charges)
        epsilon, delta = float(job.taken.budget.epsilon), float(job.taken.budget.delta)

        def on_release(step: str, records: int, mechanism: Mechanism) -> None:
            if note and not stages and len(job.account.charges) > charged:
                note(f"\N{CHECK MARK} Spent ε = {epsilon:g}, δ = {delta:g} on {request.scope.name!r}")
            stages.append(Stage.of(step, records, mechanism))
            show("training", 0.1)

        show("training", 0.0)
        with checkpoint_folder(out, job, wanted=job.learner.resumable) as checkpoints:
            release = job.learn(
                on_release, checkpoints=checkpoints, progress=lambda text, done: show(text, 0.1 + done / 2)
            )
        show("evaluating", 0.6)
        if address is not None and address.startswith("unix:"):
            address = f"unix:{path_text(Path(address).name)}"
        files = {"ledger": path_text(Path(ledger or "").name), "out": path_text(Path(out).name)}
        summary = summarize(job, release, tuple(stages), job.request.command(curator=address, **files))
        if diagnostics:
            from labeldp.fit.simulate import diagnosed

            summary = diagnosed(summary, job, release.value, show)
        digest = certificate_digest(release.certificate.to_json())
        summary = replace(summary, request=job.request.digest, certificate_digest=digest)
        Bundle(release.value, job.rows.encoder).write(folder)
        write_json(folder / SUMMARY, summary.to_json())
        if render is not None:
            write_text(folder / REPORT, render(summary))
        certify(folder, release.certificate)
    return summary


@counts_unreadable
def read_job(
    request: Request,
    data: str | None,
    *,
    ledger: str | None = None,
    curator: CuratorLike | None = None,
    new_budget: Budget | None = None,
    init: str | None = None,
    test: str | None = None,
) -> Job:
    """Read the rows of a fit, and return it; see `fit_file` and `prepare`."""
    begun = request.files.get("init")
    if begun is not None and init is None:
        raise InputError(f"must name the directory of {begun.name!r}, as the request does", argument="init")
    files = {} if init is None else {"init": begun or NamedFile(path_text(Path(str(init)).name), "")}
    source = replace(request.source, name=Source.of(data).name)
    request = replace(request, source=source, files=files, version=__version__)
    if ledger is not None and data is not None and not takes_images(data):  # before a message tells of values
        source = request.source
        names = (source.ids, source.users, *(source.features or open_table(data).columns))
        refuse_private(ledger, request.scope.name, [name for name in names if name != source.label])
    content = curator.features() if data is None else data  # type: ignore[union-attr]
    rows, public = read_rows(request, content, test)
    account = ledger if curator is None else curator
    return prepare(request, rows, account, public=public, init=init, new_budget=new_budget)


def existing_result(job: Job, folder: Path) -> FitSummary:
    """Return the summary in `folder` if this same fit wrote it; charge nothing."""
    refusal = InputError(f"the directory {folder} is not empty; choose another name or remove it first")
    try:
        certificate, changed = read_certified(folder)
        summary = None if changed else FitSummary.from_json(read_json(folder / SUMMARY))
    except InputError:
        raise refusal from None
    request = certificate.request
    same = request is not None and replace(request, version="") == replace(job.request, version="")
    same = same and {charge.mechanism.get("sampler", job.sampler) for charge in certificate.entries} == {job.sampler}
    if summary is None or not same or not job.account.read().holds(certificate.entries):
        raise refusal
    if isinstance(job.curator, Curator):  # a server has compared them as it started
        job.curator.check_labels()
    return summary


def _note_what_is_new(job: Job, data: str | None, ledger: str | None, note: Callable[[str], None]) -> None:
    """Tell the user what was read and chosen, of a new budget, and which index of pandas was left out."""
    records, *shape = job.rows.features.shape
    if data is not None:
        columns = ""
        if len(shape) == 1:
            categorical = sum(getattr(job.rows.encoder, "categorical", ()))
            names = first_names(job.rows.encoder.names)  # a mistyped label leaves a private column among them
            columns = f", {shape[0]:,} features ({categorical:,} categorical){names and ': '}{names}"
        note(f"\N{CHECK MARK} Read {Path(data).name}: {records:,} records{columns}")
    if job.choice.charged:
        note(f"--model auto stays with {job.choice.name}, which was charged before")
    elif job.choice.reason:
        note(str(job.choice))
    if creation := job.account.creation(ledger):
        note(creation)
    if job.owners is not None:
        note(job.owners.describe(job.settings.epsilon if job.settings.trust == "local" else None))
    elif job.rows.owner is not None:
        note(owner_note(job.rows.owner))
    index = ", ".join(map(repr, job.rows.index))
    if index:
        note(f"left out {index}: the index of a pandas data frame is no feature; name it in --features to use it")


@contextmanager
def checkpoint_folder(out: str, job: Job, *, wanted: bool) -> Iterator[Path | None]:
    """Yield the folder OUT.training for checkpoints; remove it if the body ends well or no training had begun.

    A folder with checkpoints of another fit is refused; where none are wanted, None is yielded.
    """
    if not wanted:
        yield None
        return
    folder = Path(out).with_name(f"{Path(out).name}.training")
    mark, text = folder / "fit", json.dumps([job.request.to_json(), job.sampler], sort_keys=True)
    if folder.exists() and not (mark.is_file() and mark.read_text(encoding="utf-8") == text):
        raise InputError(
            f"{folder} holds checkpoints of another fit: finish that one, remove them, or name another --out"
        )
    folder.mkdir(mode=0o700, exist_ok=True)
    write_text(mark, text)
    try:
        yield folder
    except BaseException:
        if not list(folder.rglob("*.pt")):
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
