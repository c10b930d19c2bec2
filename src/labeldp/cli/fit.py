"""labeldp fit, predict, demo."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.account_options import describe_budget, held_label_options, ledger_next_to
from labeldp.cli.options import (
    FILE,
    PATH,
    WIDTH,
    SectionedCommand,
    curator_options,
    domain_options,
    flags_in_errors,
    is_quiet,
    json_option,
    note,
    program,
    quiet_option,
    remote_curator,
    user_options,
    warn_if_weak,
)
from labeldp.cli.options import progress as _progress
from labeldp.learners import AUTO, IMAGE_NETWORKS, LEARNERS, TRUSTS

if TYPE_CHECKING:
    from labeldp.fit import Estimated, FitSummary, RegressionSummary
    from labeldp.privacy import Request


def summary_rows(summary: FitSummary) -> Iterator[tuple[str, str]]:
    """Yield how good the model is and what to know before believing it: a name and a text for each row."""
    how = "noisy labels"
    if summary.crossed:
        how = "cross-validated on noisy labels"
    elif summary.held_out:
        how = f"on {summary.held_out:,} held-out noisy labels"
    if summary.numbers is not None:
        yield from _errors(summary.numbers, how)
    if summary.accuracy is not None and summary.baseline is not None:
        yield "Accuracy", _share(summary.accuracy, how)
        shares = [score.true_share for score in summary.class_scores]
        if shares and min(shares) * len(shares) < FEWEST:
            if summary.auc is not None:
                yield "AUC", _share(summary.auc, how)
            for score in sorted(summary.class_scores, key=lambda score: score.true_share)[:MOST_RECALLS]:
                if score.recall is not None:
                    yield "Recall", _share(score.recall, f"of {score.name!r}, {_percent(score.true_share)} of records")
        yield "Baseline", f"{_percent(summary.baseline.value)}  (majority class)"
    if summary.test is not None:
        yield "Test", f"{_percent(summary.test.accuracy)}  ({summary.test.file}, {summary.test.rows:,} public labels)"
    for dropped in summary.dropped:
        yield "Dropped", f"{dropped.column!r}: {dropped.why}"
    for sentence in summary.notes:
        if sentence.startswith("'"):  # a column, of which something was cut off
            yield "Note", sentence
    for sentence in summary.warnings:
        yield "Warning", sentence


MOST_RECALLS = 5
"""Of how many classes the recall is shown, the rarest first."""

FEWEST = 0.5
"""Classes are unbalanced if one has a smaller share than this times that of equal classes."""


TOO_NOISY = 0.9
"""The width of an interval of a share that is not shown."""


def _percent(share: float) -> str:
    """Return a share in percent, clipped to what is possible: debiasing can pass it."""
    return f"{100 * min(max(share, 0.0), 1.0):.1f} %"


def _share(estimate: Estimated, how: str) -> str:
    low, high = (_percent(end).removesuffix(" %") for end in (estimate.low, estimate.high))
    value = "too noisy" if estimate.high - estimate.low > TOO_NOISY else _percent(estimate.value)
    return f"{value}  ({100 * estimate.level:.0f} % CI {low}–{high}, {how})"


def _errors(numbers: RegressionSummary, how: str) -> Iterator[tuple[str, str]]:
    from labeldp.learners import format_number

    def interval(estimate: Estimated) -> str:
        value, low, high = map(format_number, (estimate.value, estimate.low, estimate.high))
        return f"{value}  (95 % CI {low} to {high}"

    error, test = numbers.error, numbers.test
    if error.low <= 0:
        yield "RMSE", f"at most {format_number(error.high)}  (95 % confidence, {how}; too noisy for a better estimate)"
    else:
        yield "RMSE", f"{interval(error)}, {how})"
    yield "Baseline", f"{interval(numbers.constant)}, mean of the labels)"
    yield "Gain", f"{interval(numbers.gain)}, squared error below the baseline's)"
    if test is not None:
        square, absolute = format_number(test.error), format_number(test.absolute)
        explained = "" if test.explained is None else f", R² {test.explained:.3f}"
        yield "Test", f"RMSE {square}, mean absolute error {absolute}{explained}  ({test.file})"


def format_rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield rows as aligned lines of at most 80 characters."""
    for name, text in rows:
        yield from wrap(
            text,
            WIDTH,
            initial_indent=f"  {name:<9}  ",
            subsequent_indent=" " * 13,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _choices_help(data: str) -> str:
    choices = [f"{name} ({entry.help})" for name, entry in LEARNERS.items() if data in entry.data]
    return f"For {data}: {', '.join(choices)}."


FIT_EXAMPLES = """\b
Examples:
  labeldp fit people.csv --label bought --classes no,yes --id id \\
      --epsilon 1 --new-budget 2 --out model
  labeldp fit homes.csv --label price --range 0,500000 --epsilon 1 \\
      --trust central --ledger homes.ledger --dataset homes --out prices
"""

SECTIONS = {
    "Data": ("id_column", "features", "user_column", "per_user", "cohort", "revision", "other_ids"),
    "Labels": ("label", "classes", "interval", "grid", "clip"),
    "Privacy": ("epsilon", "delta", "trust", "ledger", "dataset", "new_budget"),
    "Server": ("curator", "token_file", "server_certificate", "reason"),
    "Model": ("model", "network", "encoder", "stages", "prior", "epochs", "init", "cells", "neighbors"),
    "Evaluation": ("evaluation", "test", "test_labels_are_public"),
    "Output": ("out", "diagnostics", "as_json", "quiet"),
}
"""The options of fit in the sections of its help; others are in the last."""

FREQUENT = (
    *("id_column", "user_column", "label", "classes", "interval", "epsilon", "trust", "ledger", "new_budget"),
    *("model", "evaluation", "out"),
)
"""The options that `labeldp fit --help` shows."""


@click.command(cls=SectionedCommand, sections=SECTIONS, frequent=FREQUENT, epilog=FIT_EXAMPLES)
@click.argument("data", type=PATH, required=False)
@held_label_options
@domain_options
@curator_options
@click.option("--epsilon", required=True, metavar="NUMBER", help="The privacy parameter that this fit costs.")
@click.option(
    "--delta",
    default="0",
    show_default=True,
    metavar="NUMBER",
    help="With --trust central or --user: the delta that this fit costs; 0 is a pure guarantee, with more noise.",
)
@click.option("--out", required=True, type=click.Path(path_type=str), help="A new directory for model and report.")
@click.option("--features", metavar="COLUMNS", help="Feature columns, separated by commas; all others by default.")
@click.option(
    "--trust",
    type=click.Choice(TRUSTS),
    default="local",
    show_default=True,
    help="local randomizes each label; central adds noise to sums or counts over labels, which a curator sees.",
)
@click.option(
    "--model",
    type=click.Choice([AUTO, *LEARNERS]),
    default="auto",
    show_default=True,
    help="The learner. auto takes what labeldp choose ranks first, of images distilled with torch, else linear, and "
    f"says why. {_choices_help('tables')} {_choices_help('images')} Networks need the extra torch.",
)
@click.option(
    "--stages",
    type=click.IntRange(1, 5),
    help="Stages of training; the default of one did best in our measurements.",
)
@click.option(
    "--prior",
    type=click.Choice(["none", "clusters"]),
    default="none",
    show_default=True,
    help="With --trust central: first spend part of epsilon on class counts of feature clusters; seldom helps.",
)
@click.option(
    "--encoder",
    type=click.Choice(["imagenet", "text"]),
    help="Learn from features that a public network computes: imagenet of images, text of columns of texts. It needs "
    "the extra image-encoder or text-encoder, and downloads nothing.",
)
@click.option(
    "--network",
    type=click.Choice(list(IMAGE_NETWORKS)),
    help="With --model network or distilled: "
    f"{', '.join(f'{name} ({words})' for name, words in IMAGE_NETWORKS.items())}; cnn by default.",
)
@click.option("--epochs", type=click.IntRange(1), metavar="N", help="Networks: epochs of each stage.")
@click.option(
    "--init",
    type=click.Path(path_type=str),
    metavar="MODEL",
    help="A directory with a network of other labels to start from.",
)
@click.option(
    "--cells", type=click.IntRange(1), metavar="N", help="How many cells (see labeldp plan); chosen by default."
)
@click.option("--neighbors", type=click.IntRange(1), metavar="K", help="How many neighbors; chosen by default.")
@click.option(
    "--evaluation",
    metavar="SHARE",
    help="Measure the model on this share of the records, such as 0.2, and learn from the others. It costs records "
    "and no epsilon. By default 0.1; but where all labels are randomized at once the model learns from every record, "
    "models of cross-validation are measured, and no interval is known for the model itself.",
)
@click.option(
    "--test",
    type=PATH,
    metavar="FILE",
    help="Other records with public labels, to measure the model on; for images, the test part.",
)
@click.option(
    "--test-labels-are-public",
    is_flag=True,
    help="Required with --test: labels of FILE are used without noise. A held-out part of DATA is not public.",
)
@click.option(
    "--id",
    "id_column",
    metavar="COLUMN",
    help="Distinct record ids, not a feature. Noise follows the ids, not the row order.",
)
@click.option(
    "--diagnostics/--no-diagnostics",
    default=False,
    help="Add accuracy at other ε and the importance of features to the report. It can take longer than the fit, and "
    "costs no ε; labeldp report adds both later.",
)
@user_options
@json_option
@quiet_option
@flags_in_errors(
    domain="--classes or --range", address="--curator", token="the token", representation="--encoder", features="DATA"
)
def fit(data: str | None, as_json: bool, **options: Any) -> None:
    """Train a model on private labels.

    DATA is a table (CSV, CSV.gz or Parquet) with a label column, or has images: an .npz file, or a folder of files of
    MNIST or CIFAR, or with a folder of pictures for each class. With --curator a server has the labels: then DATA has
    the features alone, in the order of the labels.

    Writes the model, certificate.json and report.html into a new directory. Running the command again is free: it
    resumes an interrupted run or returns the finished model. All columns are features but the label and the index of
    pandas, unless --features, --id or --user say otherwise.
    """
    from labeldp.fit import fit_file, parse_fit
    from labeldp.report import render_report

    server, new_budget = remote_curator(options), options.pop("new_budget")
    if server is not None:
        options |= {"held": server.domain, "label": options["label"] or server.dataset}
    names = ("ledger", "out", "test", "test_labels_are_public", "diagnostics", "init")
    arguments, address = {name: options.pop(name) for name in names}, options.pop("curator")
    request = parse_fit(**options)
    warn_if_weak(request.epsilon)
    start, exists = datetime.now(UTC), (Path(arguments["out"]) / "certificate.json").is_file()
    with _progress("reading", lines=True) as progress:
        summary = fit_file(
            request,
            data,
            **arguments,
            curator=server,
            address=address,
            new_budget=new_budget(),
            render=render_report,
            note=None if is_quiet() else note,
            progress=progress,
        )
    out = arguments["out"].rstrip("/")
    if exists:
        _done(f"Already done: {out}/ is this fit. No ε spent.")
    elif (released := datetime.fromisoformat(summary.created)) < start.replace(microsecond=0):
        _done(f"Resumed: labels were released at {released:%Y-%m-%d %H:%M} UTC. No ε spent.")
    budget = describe_budget(arguments["ledger"], request.scope.name) if server is None else server.budget["words"]
    if as_json:
        entries = summary.to_json()
        content = {name: entries[name] for name in RESULTS}
        content["budget"] = {"dataset": summary.dataset, **entries["budget"], "words": budget}
        click.echo(json.dumps(content | {"model": out, "report": f"{out}/report.html"}, indent=2))
        return
    _show(summary, request, out, budget, data if server is None else None)


def _show(summary: FitSummary, request: Request, out: str, budget: str, data: str | None) -> None:
    """Print how good the model is, its cost, and what to do next."""
    charged = summary.certificate[-1]  # with --model auto the trust and the delta of what it took
    trust = charged.trust.partition(":")[0]
    cost = f"ε = {float(request.budget.epsilon):g}, δ = {charged.delta:g} · {trust} · {budget}"
    carried = f" --id {shlex.quote(request.source.ids)}" if request.source.ids else ""
    rows = [
        ("Privacy", cost),
        ("Model", f"{out}/"),
        ("Predict", f"{program()} predict {shlex.quote(out)} NEW.csv --out OUT.csv{carried}"),
        ("Check", f"{program()} certificate {shlex.quote(out)}"),
        ("Report", f"{out}/report.html"),
    ]
    if data is not None and summary.curve is None and not summary.importance:
        details = f"{program()} report {shlex.quote(out)} --data {shlex.quote(data)}"
        rows.append(("Details", f"{details}  (importance of features, accuracy at other ε)"))
    for line in format_rows([*summary_rows(summary), *rows]):
        click.echo(line)


def _done(sentence: str) -> None:
    if not is_quiet():
        note(f"\N{CHECK MARK} {sentence}")


RESULTS = ("accuracy", "baseline", "auc", "class_scores", "numbers", "test", "features", "dropped", "notes", "warnings")
"""The entries of a summary that `labeldp fit --json` prints; the directory has the others."""


@click.command(epilog="\b\nExample:\n  labeldp predict model new_people.csv --out predictions.csv --id id\n")
@click.argument("model", type=click.Path(path_type=str))
@click.argument("data", type=PATH)
@click.option("--out", required=True, type=FILE, help="A new CSV or Parquet file.")
@click.option("--id", "id_column", metavar="COLUMN", help="A column to carry along.")
@json_option
@quiet_option
@flags_in_errors(data="DATA")
def predict(model: str, data: str, out: str, id_column: str | None, as_json: bool) -> None:
    """Predict with a trained model.

    MODEL is the directory that fit wrote, DATA a table or images. Writes a column `prediction` and one column of
    probabilities for each class. With images a column `row` has their positions.
    """
    from labeldp.fit import predict_file

    with _progress("predicting") as progress:
        rows = predict_file(model, data, out=out, id_column=id_column, progress=progress)
    if as_json:
        click.echo(json.dumps({"rows": rows, "out": out}, indent=2))
    elif not is_quiet():
        click.echo(f"{rows:,} predictions in {out}")


@click.command(epilog="\b\nExample:\n  labeldp report model --data people.csv\n")
@click.argument("model", type=click.Path(path_type=str))
@click.option("--data", type=PATH, metavar="FILE", help="The data that the model was learned from.")
@click.option("--ledger", type=FILE, help="The ledger of the fit; by default STEM.ledger next to the file STEM.csv.")
@quiet_option
@flags_in_errors(data="--data", ledger="--ledger")
def report(model: str, data: str | None, ledger: str | None) -> None:
    """Add details to the report of a model.

    Adds what labeldp fit leaves out without --diagnostics: the importance of the features, and a simulation of the
    accuracy at other ε. Learns the model again from the noisy labels in the ledger, so it costs no ε. MODEL is the
    directory that fit wrote. Its model stays as it is; a signature must be made again.
    """
    from labeldp.fit import diagnose_file
    from labeldp.privacy import InputError
    from labeldp.report import render_report

    if data is None:
        raise InputError("--data must be given: details need the features that the model was learned from")
    ledger = ledger or str(ledger_next_to(Path(data)))
    with _progress("reading", lines=True) as progress:
        summary = diagnose_file(model, data, ledger=ledger, render=render_report, progress=progress)
    if is_quiet():
        return
    if summary.curve is None and not summary.importance:
        note(f"The report has no details: {summary.model} has neither a simulation nor an importance of features.")
    click.echo(f"Report: {model.rstrip('/')}/report.html")


@click.command(epilog="\b\nExample:\n  labeldp demo\n")
@click.option("--out", default="demo-output", show_default=True, type=click.Path(path_type=str), help="A directory.")
@click.option("--epsilon", default="1", show_default=True, type=str)
@flags_in_errors()
def demo(out: str, epsilon: str) -> None:
    """Train on sample data.

    The table is scikit-learn's breast-cancer data. Writes a ledger, a model and a report.
    """
    from labeldp.fit import fit_file, prepare_demo
    from labeldp.report import render_report

    request, files = prepare_demo(out, epsilon, note=note)
    with _progress("reading", lines=True) as progress:
        summary = fit_file(
            request, **files, test_labels_are_public=True, render=render_report, note=note, progress=progress
        )
    _show(summary, request, files["out"], describe_budget(files["ledger"], request.scope.name), files["data"])
