"""The command line: parse, call one workflow, print. Heavy imports wait until a command needs them."""

import os
import sys
from typing import Any

import click

from labeldp.cli_account import account
from labeldp.cli_online import online
from labeldp.cli_online_run import run
from labeldp.cli_options import bag_options, domain_options, naming_flags, private, saying_weak
from labeldp.cli_plan import plan
from labeldp.cli_reproduce import reproduce
from labeldp.terminal import progress as _progress

__all__ = ["cli", "main"]

_DATA = click.Path(dir_okay=False, path_type=str)
_SOURCE = click.Path(path_type=str)
_EPILOG = "Every command has examples: labeldp COMMAND --help."


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="labeldp", message="%(prog)s %(version)s")
def cli() -> None:
    """Learn from private labels: features are public, labels are not.

    A release is charged to a ledger before anything leaves. The ledger holds the keys to the noise: it
    is as secret as the labels.
    """


cli.add_command(account)
cli.add_command(online)
online.add_command(run)
cli.add_command(plan)
cli.add_command(reproduce)


def main() -> None:
    """The entry point: every user mistake ends in one line on stderr and exit status 1."""
    # Waiting threads that spin slow everybody down on shared cores; this is read when the numerical libraries load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted: no output was published. Running the same command again finishes it.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        click.echo(f"Error: {sentence}", err=True)
        sys.exit(1)


def _sentence(error: Exception) -> str | None:
    """What a user is told of an error; None where it is not the user's."""
    from labeldp.privacy import LabelDPError

    if isinstance(error, LabelDPError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or 'the system refused'}: {error.filename or 'a file'}"
    return None


def _note(sentence: str) -> None:
    click.echo(sentence, err=True)


def _standing(ledger: str, dataset: str) -> str:
    """What the dataset has cost so far, as a line."""
    from labeldp.workflows import describe_budget

    return describe_budget(ledger, dataset)


FIT_EXAMPLES = """\b
Examples:
  labeldp fit people.parquet --label bought --classes no,yes --epsilon 1 \\
      --ledger people.ledger --dataset people --id id --out model
  labeldp fit people.csv --label bought --classes no,yes --epsilon 2 --features age,job \\
      --model boosting --test public.csv --test-labels-are-public --ledger people.ledger --dataset people --out model2
  labeldp fit people.csv --label bought --classes no,yes --epsilon 0.5 --delta 1e-6 --trust central \\
      --model linear --ledger people.ledger --dataset people --id id --out model3
  labeldp fit homes.csv --label price --range 0,500000 --epsilon 1 --trust central \\
      --ledger homes.ledger --dataset homes --out model6
  labeldp fit digits.npz --label labels --classes 10 --epsilon 1 --model cnn --stages 2 \\
      --ledger digits.ledger --dataset digits --out model4
  labeldp fit digits.npz --label labels --classes 10 --epsilon 1 --delta 1e-6 --trust central \\
      --method best --ledger digits.ledger --dataset digits --out model5
"""


@cli.command(epilog=FIT_EXAMPLES)
@click.argument("data", type=_SOURCE)
@private
@domain_options
@click.option("--epsilon", required=True, metavar="NUMBER", help="The privacy parameter that this fit costs.")
@click.option(
    "--delta",
    default="0",
    show_default=True,
    metavar="NUMBER",
    help="With --trust central: the delta that this fit costs; 0 is a pure guarantee, which needs more noise.",
)
@click.option("--out", required=True, type=click.Path(path_type=str), help="A new directory for model and report.")
@click.option("--features", metavar="COLUMNS", help="Feature columns, separated by commas; all others by default.")
@click.option(
    "--trust",
    type=click.Choice(["local", "central"]),
    default="local",
    show_default=True,
    help="local randomizes each label; central adds noise to sums or counts over labels, which somebody must see.",
)
@click.option(
    "--model",
    type=click.Choice(
        [
            *("auto", "boosting", "logistic", "kernel", "forest", "cells", "neighbors", "linear"),
            *("cnn", "inception", "resnet18", "mlp"),
        ]
    ),
    default="auto",
    show_default=True,
    help="What is learnt; auto tries boosting and kernel on the released labels, of numbers boosting and cells. linear "
    "needs --trust central. Images take linear or a network: cnn, inception, resnet18, mlp (with the extra torch).",
)
@click.option(
    "--method",
    type=click.Choice(["best"]),
    help="best, for images with --trust central: linear model, network and noisy labels together.",
)
@click.option("--stages", type=click.IntRange(1, 5), help="Stages of training; one by default, which measured best.")
@click.option(
    "--prior",
    type=click.Choice(["none", "clusters"]),
    default="none",
    show_default=True,
    help="Spend a part of epsilon on class counts of feature clusters first, with --trust central; it seldom helps.",
)
@click.option("--epochs", type=click.IntRange(1), metavar="N", help="Of each stage of a network.")
@click.option(
    "--init",
    type=click.Path(path_type=str),
    metavar="MODEL",
    help="A directory with a network of other labels to start from.",
)
@click.option("--cells", type=click.IntRange(1), metavar="N", help="How many cells, as labeldp plan says; chosen else.")
@click.option("--neighbors", type=click.IntRange(1), metavar="K", help="How many neighbors; chosen by default.")
@click.option(
    "--test",
    type=_SOURCE,
    metavar="FILE",
    help="Other records, whose labels are public, to measure the model on; of images the test part.",
)
@click.option(
    "--test-labels-are-public",
    is_flag=True,
    help="Must stand beside --test: what the report says of FILE has no noise. A held-out part of DATA is not public.",
)
@click.option(
    "--id", "id_column", metavar="COLUMN", help="Distinct record ids, no feature: noise follows them, not the rows."
)
def fit(data: str, **options: Any) -> None:
    """Learn a classifier, or a regression with --range, from DATA whose labels are private.

    DATA is a table (CSV, CSV.gz or Parquet) with a column of labels, or holds images: an .npz file, or a folder of
    MNIST's or CIFAR's files or of a folder of pictures for each class.

    Writes the model, certificate.json and report.html into a new directory. The same command again costs
    nothing, and finishes one that was interrupted. Every column but the label and the index of pandas is a feature
    unless --features or --id say otherwise.
    """
    from labeldp.report import render_report
    from labeldp.workflows import FitSettings, fit_file, spoken_lines

    files = {name: options.pop(name) for name in ("ledger", "out", "test", "test_labels_are_public")}
    settings = FitSettings.parse(**options)
    saying_weak(settings.epsilon)
    with _progress("reading") as progress:
        summary = fit_file(
            data,
            settings,
            **files,
            render=render_report,
            note=_note,
            progress=progress,
        )
    for line in spoken_lines(summary):
        click.echo(line)
    click.echo(_standing(files["ledger"], settings.dataset))
    click.echo(f"Report: {files['out'].rstrip('/')}/report.html")


@cli.command(epilog="\b\nExample:\n  labeldp predict model new_people.csv --out predictions.csv --id id\n")
@click.argument("model", type=click.Path(path_type=str))
@click.argument("data", type=_SOURCE)
@click.option("--out", required=True, type=_DATA, help="A new CSV or Parquet file.")
@click.option("--id", "id_column", metavar="COLUMN", help="A column to carry along.")
def predict(model: str, data: str, out: str, id_column: str | None) -> None:
    """Predict the classes or numbers of the rows or images of DATA with the model in directory MODEL.

    Writes a column `prediction` with class names and one column of probabilities for each class, or with numbers; for
    images their places in a column `row`.
    """
    from labeldp.workflows import predict_file

    with _progress("predicting") as progress:
        rows = predict_file(model, data, out=out, id_column=id_column, progress=progress)
    click.echo(f"{rows} predictions in {out}")


RELEASE_EXAMPLES = """\b
Examples:
  labeldp release people.parquet --label bought --classes no,yes --mechanism randomized-response \\
      --epsilon 1 --ledger people.ledger --dataset bought --id id --out noisy.parquet
  labeldp ledger add people.ledger --dataset income --epsilon 2
  labeldp release people.csv --label income --range 0,200000 --mechanism discrete-laplace \\
      --epsilon 1 --ledger people.ledger --dataset income --in-place --out noisy.csv
  labeldp release people.csv --label income --range 0,200000 --mechanism bag-sum --size 64 \\
      --epsilon 1 --ledger people.ledger --dataset income --id id --out sums.csv
"""
BAGS = ("bag-sum", "noisy-weighted-llp", "weighted-lba")


@cli.command(epilog=RELEASE_EXAMPLES)
@click.argument("data", type=_DATA)
@private
@domain_options
@click.option(
    "--mechanism",
    type=click.Choice(["randomized-response", "unary-encoding", "discrete-laplace", *BAGS]),
    default="randomized-response",
    show_default=True,
)
@bag_options
@click.option("--epsilon", required=True, metavar="NUMBER", help="The privacy parameter that this release costs.")
@click.option("--out", required=True, type=_DATA, help="A new CSV or Parquet file.")
@click.option("--id", "id_column", metavar="COLUMN", help="Distinct record ids: noise follows them, not the row order.")
@click.option("--in-place", is_flag=True, help="Write the whole table, with noisy labels in place of the private ones.")
@naming_flags(domain="--classes or --range", low="--range", high="--range")
def release(data: str, out: str, **options: Any) -> None:
    """Release the label column of DATA with noise.

    Writes the noisy column (and the ids), or with --in-place the whole table; of mechanisms on bags, who is in which
    bag and the noisy sums, of weighted-lba a row for each weighted sum. The certificate goes into the Parquet
    metadata, or beside a CSV file.
    """
    from labeldp.workflows import domain_of, release_bags, release_file

    saying_weak(options["epsilon"])
    given = {name: options.pop(name) for name in ("classes", "interval", "grid", "clip")}
    bags = {name: options.pop(name) for name in ("size", "delta", "bags", "noisy", "weights", "rows")}
    bags = {name: value for name, value in bags.items() if value is not None}
    domain, delta = domain_of(**given), bags.get("delta", 0)
    if options["mechanism"] in BAGS:
        certificate = release_bags(data, out=out, domain=domain, note=_note, **bags, **_of_bags(bags, options))
    elif bags:
        raise click.UsageError(f"--{next(iter(bags))} is for mechanisms on bags: {', '.join(BAGS)}")
    elif given["interval"] is not None and options["mechanism"] != "discrete-laplace":
        raise click.UsageError("--range goes with --mechanism discrete-laplace, or with bags: " + ", ".join(BAGS))
    else:
        with _progress("releasing") as progress:
            certificate = release_file(data, out=out, domain=domain, note=_note, progress=progress, **options)
    click.echo(certificate.at(delta))
    click.echo(_standing(options["ledger"], options["dataset"]))
    click.echo(f"Released: {out}")


def _of_bags(bags: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What a release of bags takes of the other options."""
    if "size" not in bags:
        raise click.UsageError("--size must be given: how many records the smallest bag has")
    if options.pop("in_place"):
        raise click.UsageError("--in-place is for one noisy label for each record: bags have sums")
    for name, mechanism in {"noisy": BAGS[1], "weights": BAGS[1], "rows": BAGS[2]}.items():
        if name in bags and options["mechanism"] != mechanism:
            secret = (
                ", whose weights are published; those of weighted-lba must stay secret" if name == "weights" else ""
            )
            raise click.UsageError(f"--{name} is for {mechanism}{secret}")
    return options


@cli.command(epilog="\b\nExamples:\n  labeldp certificate model\n  labeldp certificate noisy.parquet\n")
@click.argument("path", type=click.Path(path_type=str))
@click.option(
    "--delta", metavar="NUMBER", help="The delta at which the guarantee is read; by default the one it was made for."
)
def certificate(path: str, delta: str | None) -> None:
    """Print a certificate, and whether the thing still is what was certified.

    PATH is a directory that fit wrote, or a file that release or online run wrote; of a file, the released column alone
    is covered.
    Ends with status 1 when it is not.
    """
    from labeldp.workflows import verify

    verdict = verify(path)
    click.echo(verdict.certificate.at(float(verdict.delta) if delta is None else delta))
    click.echo(verdict.sentence)
    if not verdict.holds:
        sys.exit(1)


@cli.group()
def ledger() -> None:
    """Look into a ledger file, or set a budget and what labels can be."""


@ledger.command("show", epilog="\b\nExample:\n  labeldp ledger show people.ledger\n")
@click.argument("path", type=_DATA)
def ledger_show(path: str) -> None:
    """Show the datasets of a ledger, their budgets and what was released.

    The ledger itself is as secret as the labels: it holds the keys to the noise.
    """
    from labeldp.workflows import describe_ledger

    click.echo(describe_ledger(path))


LEDGER_EXAMPLES = """\b
Examples:
  labeldp ledger add people.ledger --dataset bought --epsilon 4 --delta 1e-6
  labeldp ledger add people.ledger --dataset hours --epsilon 4 --range 0,80
  labeldp ledger add people.ledger --dataset hours --change --range 0,168 --reason "on call counts, too"
"""


@ledger.command("add", epilog=LEDGER_EXAMPLES)
@click.argument("path", type=_DATA)
@click.option("--dataset", required=True, metavar="NAME", help="The dataset's name: one for each column of labels.")
@click.option("--epsilon", metavar="NUMBER", help="The most that all its releases may cost together.")
@click.option("--delta", metavar="NUMBER", help="The budget's delta; 0 by default.")
@click.option("--classes", metavar="A,B,…|K", help="Declare what labels can be: class names, or K for codes 0 … K-1.")
@click.option("--range", "interval", metavar="LOW,HIGH", help="Declare the range of labels that are numbers.")
@click.option("--change", is_flag=True, help="Give a dataset that is there another budget, another domain, or both.")
@click.option("--reason", "why", metavar="TEXT", help="With --change: why, for the record.")
@naming_flags(low="--range", high="--range")
def ledger_add(path: str, dataset: str, epsilon: str | None, delta: str | None, **others: Any) -> None:
    """Add a dataset with the most that all its releases may ever cost together, or change it on record.

    The first domain that labels are compared with is declared thereby. Another one is a change: whether labels fit may
    tell one bit about all of them, so certificates of later releases count it. What was spent stays spent.
    """
    from labeldp.workflows import add_dataset

    saying_weak(epsilon)
    click.echo(add_dataset(path, dataset, epsilon, delta, **others))


@cli.command(epilog="\b\nExample:\n  labeldp demo\n")
@click.option("--out", default="demo-output", show_default=True, type=click.Path(path_type=str), help="A directory.")
@click.option("--epsilon", default="1", show_default=True, type=str)
def demo(out: str, epsilon: str) -> None:
    """The main job on data that scikit-learn brings: a table, a ledger, a model, a report."""
    from labeldp.report import render_report
    from labeldp.workflows import run_demo

    with _progress("preparing") as progress:
        report = run_demo(out, epsilon, render=render_report, note=click.echo, progress=progress)
    click.echo(f"Report: {report}")
