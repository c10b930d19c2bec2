"""`labeldp report`: accuracy at other epsilons and the importance of features, added to the report of a model."""

from pathlib import Path

from labeldp.fit.bundle import (
    REMEDY,
    REPORT,
    SUMMARY,
    Bundle,
    certify,
    json_text,
    read_certified,
    read_json,
)
from labeldp.fit.run import Progress, Render, read_job
from labeldp.fit.simulate import diagnosed
from labeldp.fit.summary import FitSummary
from labeldp.learners import remaining
from labeldp.privacy import InputError

AGAIN = "run the same labeldp fit with --diagnostics and another --out: that is free"


def diagnose_file(
    path: str,
    data: str,
    *,
    ledger: str,
    render: Render,
    progress: Progress | None = None,
) -> FitSummary:
    """Add to the report of a model what a default fit leaves out: accuracy at other epsilons and importances.

    The model is learned again from the labels that were released, which the ledger holds; then both are computed from
    these and from public features. Model and certificate stay as they are, with new digests of report and summary.

    Args:
        path: the directory that `fit_file` wrote.
        data: the file that the model was learned from.
        ledger: the ledger file that was charged.
        render: turns the summary into the report.
        progress: called with what is being done and the share of the work that is done.

    Guarantee (free): nothing is charged, and no label is released.

    Raises:
        InputError: not such a directory, changed, of other records than the data, of a release that the ledger does
            not hold, or of a model that is learned otherwise here.
        LedgerError: the ledger cannot be used, or the labels changed.
    """
    folder, show = Path(path), progress or (lambda text, share: None)
    show("reading", 0.0)
    certificate, changed = read_certified(folder)
    if changed:
        raise InputError(f"{folder} is not what was certified: {', '.join(changed)} changed. {REMEDY}")
    request, summary = certificate.request, FitSummary.from_json(read_json(folder / SUMMARY))
    if request is None or request.kind != "fit" or request.options.get("server") or "init" in request.files:
        raise InputError(f"the report of {folder} cannot be extended: {AGAIN}")
    job = read_job(request, data, ledger=ledger)
    if job.request.source.digest != request.source.digest:
        raise InputError(f"the features and ids of {data} are not those that {folder} was learned from")
    if remaining(job.learner.plan(job.task), job.charged(job.account.state)):
        raise InputError(f"{ledger} does not hold the releases of {folder}: name the ledger of its fit by --ledger")
    model = job.learn(lambda *_: None, progress=lambda text, done: show(text, 0.1 + done / 2)).value
    if not Bundle(model, job.rows.encoder).is_in(folder):
        raise InputError(f"{folder} is learned otherwise here, by other versions or on another machine: {AGAIN}")
    full = diagnosed(summary, job, model, show)
    if full != summary:
        certify(folder, certificate, {REPORT: render(full), SUMMARY: json_text(full.to_json())})
    return full
