"""labeldp estimate: shares, effects and scores from a released file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.help import CommandGroup
from labeldp.cli.options import FILE, add_options, align_columns, flags_in_errors

if TYPE_CHECKING:  # rooms are imported when a command needs them
    from labeldp.inference import Estimate

EXAMPLES = """\b
Examples:
  labeldp estimate mean visits.csv --by channel
  labeldp estimate difference visits.csv --treated mail --by channel
  labeldp estimate evaluate visits.csv --probabilities score \\
      --why "trained on visits of last year"
"""


@click.group("estimate", cls=CommandGroup, epilog=EXAMPLES)
def estimate() -> None:
    """Estimate statistics from noisy labels.

    Estimates have confidence intervals and cost no epsilon. FILE is what `labeldp release --in-place` wrote: public
    columns stand beside the answers. Without --in-place there are no other columns, and only the overall share,
    mean or quantile can be estimated.
    """


def estimate_options(*options: Any) -> Callable[[Any], Any]:
    """Add FILE and the options of every estimate."""
    return add_options(
        click.argument("data", metavar="FILE", type=FILE),
        *options,
        click.option("--outcome", metavar="CLASS", help="Of classes: the one that is meant; of two the second one."),
        click.option("--user", "users", metavar="COLUMN", help="Whose each record is, where users have several."),
        click.option("--level", type=float, default=0.95, show_default=True, help="Coverage of the intervals."),
        click.option("--plot", type=FILE, metavar="FILE", help="Write a forest plot, an SVG file."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )


BY = click.option("--by", "groups", metavar="COLUMN", help="A public column: an estimate for each of its values.")
TREATED = click.option("--treated", required=True, metavar="COLUMN", help="Who was treated: 1 or 0, true or false.")


class ReleasedFile:
    """A released file and its public columns."""

    def __init__(self, path: str) -> None:
        from labeldp.fit import read_release

        self.path = path
        self.release, self.table = read_release(path)

    def column(self, name: str | None, flag: str) -> Any:
        """Return a public column; None without a name."""
        from labeldp.privacy import InputError
        from labeldp.tables import plain

        if name is None:
            return None
        if name not in self.table.column_names:
            raise InputError(
                f"{flag} must be a column of {self.path}, which has {', '.join(self.table.column_names)}; "
                "labeldp release --in-place keeps public columns beside the answers"
            )
        values = plain(self.table.column(name).combine_chunks())
        if values.null_count:
            raise InputError(f"{flag} must be a column without missing values")
        return values

    def numbers(self, name: str | None, flag: str) -> Any:
        """Return a public column of numbers, or of true and false, shape (n,); None without a name."""
        import pyarrow as pa

        from labeldp.privacy import InputError

        values = self.column(name, flag)
        for kind in (pa.float64(), pa.bool_()):
            try:
                return None if values is None else values.cast(kind).to_numpy(zero_copy_only=False)
            except pa.ArrowException:
                continue
        raise InputError(f"{flag} must be a column of numbers, or of true and false")


def settings(source: ReleasedFile, options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return what an estimator takes of the options: those of these names, users, groups and the level."""
    from labeldp.privacy import InputError

    if options["outcome"] is not None and "outcome" not in names:
        raise InputError("--outcome does not go with this estimate")
    chosen = {name: options[name] for name in ("level", *names)}
    for name, flag in (("users", "--user"), ("groups", "--by")):
        if options.get(name) is not None:
            chosen[name] = source.column(options[name], flag).to_numpy(zero_copy_only=False)
    return chosen


def show(result: Estimate, options: dict[str, Any]) -> None:
    """Print an estimate: a sentence, a row for each entry, the conditions and the certificate."""
    if options["plot"] is not None:
        with open(options["plot"], "x", encoding="utf-8") as file:
            file.write(result.plot())
    rows = result.table().to_pylist()
    if options["as_json"]:
        certificate = None if result.certificate is None else result.certificate.to_json()
        content = {"estimates": rows, "assumptions": list(result.assumptions), "certificate": certificate}
        click.echo(json.dumps(content, indent=2))
        return
    click.echo(str(result))
    if result.axes:
        names = [name for name, _ in result.axes]
        head = [*names, "estimate", "low", "high"]
        cells = [
            [*(row[name] for name in names), *(f"{row[key]:.4g}" for key in ("value", "low", "high"))] for row in rows
        ]
        click.echo("\n".join(align_columns([head, *cells])))
    click.echo("On condition that: " + "; ".join(result.assumptions) + ".")
    if result.certificate is not None:
        click.echo(result.certificate.at(0))


@estimate.command("mean")
@estimate_options(BY)
@flags_in_errors(groups="--by", users="--user", release="FILE")
def mean(data: str, **options: Any) -> None:
    """Estimate the share of each class, or a mean.

    The estimate is overall, or by a public column.
    """
    from labeldp import inference

    source = ReleasedFile(data)
    show(inference.mean(source.release, **settings(source, options, "outcome")), options)


@estimate.command("quantile")
@estimate_options(BY, click.option("--at", type=float, default=0.5, show_default=True, help="The median is 0.5."))
@flags_in_errors(groups="--by", users="--user", release="FILE")
def quantile(data: str, **options: Any) -> None:
    """Estimate a quantile of ordered classes or binned numbers."""
    from labeldp import inference

    source = ReleasedFile(data)
    show(inference.quantile(source.release, **settings(source, options, "at")), options)


@estimate.command("difference")
@estimate_options(
    TREATED, BY, click.option("--covariates", metavar="COLUMNS", help="Public numbers, measured before the treatment.")
)
@flags_in_errors(groups="--by", users="--user", release="FILE")
def difference(data: str, treated: str, covariates: str | None, **options: Any) -> None:
    """Estimate the effect of a randomized treatment.

    The estimate is overall, or by a public column.
    """
    import numpy as np

    from labeldp import inference

    source = ReleasedFile(data)
    names = [] if covariates is None else covariates.split(",")
    table = np.column_stack([source.numbers(name, "--covariates") for name in names]) if names else None
    arms = source.numbers(treated, "--treated")
    chosen = settings(source, options, "outcome")
    show(inference.difference(source.release, arms, covariates=table, **chosen), options)


@estimate.command("odds-ratio")
@estimate_options(click.option("--exposure", required=True, metavar="COLUMN", help="1 or 0, true or false."))
@flags_in_errors(treated="--exposure", users="--user", release="FILE")
def odds_ratio(data: str, exposure: str, **options: Any) -> None:
    """Estimate the odds ratio of a class for an exposure.

    The exposure is public. The interval is exact, and wide.
    """
    from labeldp import inference

    source = ReleasedFile(data)
    exposed = source.numbers(exposure, "--exposure")
    show(inference.odds_ratio(source.release, exposed, **settings(source, options, "outcome")), options)


@estimate.command("monitor")
@estimate_options(click.option("--treated", metavar="COLUMN", help="Who was treated: then the effect; else the share."))
@flags_in_errors(users="--user", release="FILE")
def monitor(data: str, treated: str | None, **options: Any) -> None:
    """Estimate a share, a mean or an effect over time.

    The intervals hold after every record, in the order of FILE.
    """
    from labeldp import inference

    source = ReleasedFile(data)
    arms = source.numbers(treated, "--treated")
    show(inference.monitor(source.release, arms, looks=10, **settings(source, options, "outcome")), options)


SCORES = ("accuracy", "precision", "recall", "f1", "auc", "log_loss", "brier", "confusion")


@estimate.command("evaluate")
@estimate_options(
    click.option("--probabilities", required=True, metavar="COLUMN", help="P(second of two classes), by a model."),
    click.option("--why", required=True, metavar="TEXT", help="Why these labels did not make the probabilities."),
    click.option("--score", type=click.Choice(SCORES), default="accuracy", show_default=True, help="What is measured."),
    click.option("--gap", is_flag=True, help="With --by: differences to the largest group."),
    BY,
)
@flags_in_errors(groups="--by", users="--user", release="FILE")
def evaluate(data: str, probabilities: str, why: str, score: str, gap: bool, **options: Any) -> None:
    """Evaluate a model on noisy labels.

    The model must not have been trained on these labels. The result is overall, or by a public column.
    """
    from labeldp import inference
    from labeldp.privacy import Public

    source = ReleasedFile(data)
    chances = Public(source.numbers(probabilities, "--probabilities"), why=why)
    scores = inference.evaluate(source.release, chances, **settings(source, options))
    show(scores.gap(score) if gap else getattr(scores, score)(), options)
