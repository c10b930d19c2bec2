"""labeldp choose and labeldp plan: options and words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import (
    align_columns,
    domain_options,
    flags_in_errors,
    progress,
    user_options,
    warn_if_weak,
)

if TYPE_CHECKING:
    from labeldp.advice import PlanRow, SampleSizePlan, SampleSizeQuery
    from labeldp.fit import Advice

WIDTH = 110
"""The most characters in a line of sentences."""

CHOOSE_EXAMPLES = """\b
Examples:
  labeldp choose people.csv --label bought --classes no,yes --epsilon 0.5 --id id
  labeldp choose people.csv --label bought --classes no,yes --epsilon 0.5 --delta 1e-6 --trust central --id id --json
  labeldp choose people.csv --label hours --range 0,100 --epsilon 1 --dry-run
"""


@click.command("choose", epilog=CHOOSE_EXAMPLES)
@click.argument("data", metavar="FILE", type=click.Path(path_type=str))
@click.option("--label", required=True, metavar="COLUMN", help="The private column, which is never read.")
@domain_options
@click.option("--epsilon", required=True, metavar="NUMBER", help="What may be spent.")
@click.option("--delta", default="0", show_default=True, metavar="NUMBER", help="What may be spent beside it.")
@click.option(
    "--trust",
    type=click.Choice(["local", "central"]),
    default="local",
    show_default=True,
    help="central: somebody may see the labels, and may also randomize each.",
)
@click.option("--features", metavar="COLUMNS", help="Feature columns, separated by commas; all others by default.")
@click.option("--id", "id_column", metavar="COLUMN", help="Record ids, not a feature.")
@user_options
@click.option("--dry-run", is_flag=True, help="Try the options on these features with made-up labels; takes minutes.")
@click.option("--balance", metavar="SHARES", help="With --dry-run: the share of each class, if it is known: 0.9,0.1.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@flags_in_errors(records="FILE", dimension="FILE")
def choose(
    data: str,
    *,
    classes: str | None,
    interval: str | None,
    grid: int | None,
    clip: bool,
    epsilon: str,
    delta: str,
    trust: str,
    label: str,
    features: str | None,
    id_column: str | None,
    user_column: str | None,
    per_user: int | None,
    dry_run: bool,
    balance: str | None,
    as_json: bool,
) -> None:
    """Rank the ways to fit FILE, a CSV or Parquet table, before anything is spent.

    For each: the options of labeldp fit, what to expect, why, and where that was measured. The answer follows from the
    number of records, the feature columns and the options here; no label is read. `labeldp fit --method auto` takes
    the first.
    """
    from labeldp.advice import choose_file
    from labeldp.fit import domain_of

    warn_if_weak(epsilon)
    with progress("trying the options", lines=True) as show:
        advice = choose_file(
            data,
            domain_of(classes, interval, grid, clip=clip),
            epsilon,
            delta,
            trust,
            label=label,
            columns=features,
            id_column=id_column,
            user_column=user_column,
            per_user=per_user,
            dry_run=dry_run,
            balance=None if balance is None else balance.split(","),
            progress=show,
        )
    click.echo(json.dumps(advice.to_json(), indent=2) if as_json else "\n".join(advice_lines(advice)))


def advice_lines(advice: Advice) -> Iterator[str]:
    """Yield the lines that `labeldp choose` prints."""
    yield f"{advice.records:,} records, {advice.dimension:,} features."
    if advice.remedy:
        yield from wrap(f"{advice.remedy[0].upper()}{advice.remedy[1:]}.", WIDTH)
    for rank, option in enumerate(advice.options, start=1):
        yield ""
        yield f"{rank}. {option.method}: expect {option.expected}"
        yield from wrap(option.why, WIDTH, initial_indent="   ", subsequent_indent="   ")
        yield f"   {option.command}"
    if advice.options:
        yield ""
        yield from wrap(f"Measured: {advice.options[0].source}. {_how(advice)}", WIDTH)


def _how(advice: Advice) -> str:
    """Return how the scores are known."""
    if advice.rehearsed:
        return f"Tried on {advice.rehearsed:,} rows with made-up labels: least and most of the teachers."
    return "Expected by a rule: mean, least and most of the tables that it was set on, for as many records."


PLAN_EXAMPLES = """\b
Examples:
  labeldp plan --n 1e6 --d 4 --task classification --classes 2 --epsilon 0.1,1,4 --trust local,central
  labeldp plan --n 20640 --d 8 --range 0,500001 --epsilon 1 --protection label,full
  labeldp plan --n 1e5 --d 3 --moments 3 --epsilon 0.5,1
  labeldp plan people.csv --label bought --classes no,yes --epsilon 1 --id id --json
  labeldp plan --effect 0.02 --rate 0.05 --power 0.8 --epsilon 0.5,1,2
"""


@click.command("plan", epilog=PLAN_EXAMPLES)
@click.argument("data", required=False, metavar="[FILE]", type=click.Path(path_type=str))
@click.option("--n", metavar="NUMBER", help="How many records, such as 1e6; a FILE has its own number.")
@click.option("--d", metavar="NUMBER", help="How many features; a FILE has its own number.")
@click.option(
    "--task",
    metavar="NAME",
    help="classification, regression or heavy-tailed; it follows from --classes, --range or --moments.",
)
@click.option("--classes", metavar="A,B,…|K", help="Classification: the class names, or how many.")
@click.option("--range", "interval", metavar="LOW,HIGH", help="Regression: the range of the labels.")
@click.option("--moments", metavar="P", help="Labels without a range: how many moments are bounded, at least 2.")
@click.option("--epsilon", required=True, metavar="NUMBERS", help="One or more, separated by commas.")
@click.option("--trust", default="local,central", show_default=True, metavar="NAMES", help="local, central or both.")
@click.option(
    "--protection", default="label", show_default=True, metavar="NAMES", help="label, full (features too) or both."
)
@click.option("--spread", metavar="NUMBER", help="Regression: how far labels of similar records scatter (a guess).")
@click.option("--beta", default="1", show_default=True, metavar="NUMBER", help="Smoothness of the truth, up to 1.")
@click.option("--margin", default="0", show_default=True, metavar="NUMBER", help="How seldom classes are a close call.")
@click.option("--label", metavar="COLUMN", help="With a FILE: the private column, which is never read.")
@click.option("--features", metavar="COLUMNS", help="With a FILE: feature columns; all others by default.")
@click.option("--id", "id_column", metavar="COLUMN", help="With a FILE: record ids, not a feature.")
@click.option("--effect", type=float, help="An experiment: the difference of two shares that is to be shown.")
@click.option("--rate", type=float, help="With --effect: the share without treatment.")
@click.option("--power", type=float, help="With --effect: with which probability it is to be shown.  [default: 0.8]")
@click.option("--r-squared", type=float, help="With --effect: what public covariates explain.  [default: 0]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@flags_in_errors()
def plan(
    data: str | None,
    label: str | None,
    features: str | None,
    id_column: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what to expect for a number of records and an epsilon, before any data is read.

    For each promise: how many times more records it needs than no privacy, how noisy the answer of a cell is, which
    learner to take with which tuning, and what a weaker or stronger promise would need. FILE, a CSV or Parquet
    table, gives the number of records and of features, and how many dimensions the features fill; no label is read.

    With --effect: how many records an experiment with two arms of equal size needs, without privacy, with a trusted
    curator, and with local answers.
    """
    experiment = {name: options.pop(name) for name in EXPERIMENT}
    if experiment["effect"] is not None:
        plan_experiment(options["epsilon"], as_json, **experiment)
        return
    from labeldp.advice import SampleSizeQuery, make_plan, read_features
    from labeldp.privacy import InputError

    if extra := [name for name, value in experiment.items() if value is not None]:
        raise InputError(f"--{extra[0].replace('_', '-')} goes with --effect")
    warn_if_weak(*options["epsilon"].split(","))
    named = {"--label": label, "--features": features, "--id": id_column}
    if data is None:
        if extra := [name for name, value in named.items() if value is not None]:
            raise InputError(f"{extra[0]} goes with a FILE")
        public = None
    else:
        if "full" in options["protection"]:
            raise InputError("--protection full keeps features private: state --n and --d in place of a FILE")
        public = read_features(data, label=label, columns=features, id_column=id_column)
    answer = make_plan(SampleSizeQuery.parse(**options, features=public), public)
    click.echo(json.dumps(answer.to_json(), indent=2) if as_json else "\n".join(plan_lines(answer)))


EXPERIMENT = ("effect", "rate", "power", "r_squared")
"""The options of an experiment."""


def plan_experiment(epsilons: str, as_json: bool, **experiment: float | None) -> None:
    """Print how many records show an effect, by epsilon and trust."""
    from labeldp.fit import epsilon_of, parts_of
    from labeldp.inference import power
    from labeldp.privacy import InputError

    context = click.get_current_context()
    for name in sorted(context.params):
        typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in (*EXPERIMENT, "epsilon", "as_json"):
            flag = {"data": "FILE", "interval": "--range", "id_column": "--id"}.get(name, f"--{name}")
            raise InputError(f"{flag} does not go with --effect")
    if experiment["rate"] is None:
        raise InputError("--rate must be given beside --effect: the share without treatment")
    warn_if_weak(*epsilons.split(","))
    wanted: dict[str, Any] = {name: value for name, value in experiment.items() if value is not None}
    settings: list[tuple[float | None, str]] = [(None, "none")]
    settings += [(epsilon_of(text), trust) for text in parts_of(epsilons, "epsilon") for trust in ("central", "local")]
    rows = [power(epsilon=epsilon, trust=trust, **wanted) for epsilon, trust in settings]
    if as_json:
        click.echo(json.dumps([vars(row) for row in rows], indent=2))
        return
    plain = rows[0]
    cells = [["epsilon", "trust", "records", "times no privacy"]]
    for row in rows:
        epsilon = "none" if row.epsilon is None else f"{row.epsilon:g}"
        cells.append([epsilon, "" if row.trust == "none" else row.trust, f"{row.records:,}",
                      times(row.records / plain.records)])  # fmt: skip
    click.echo(
        f"Records in both arms that show an effect of {plain.effect:g} on a share of {plain.rate:g} with a "
        f"probability of {100 * wanted.get('power', 0.8):g} %, at a level of {100 * (1 - plain.level):.3g} %:\n"
    )
    click.echo("\n".join(align_columns(cells)))


PROTECTED = {"label": "labels", "full": "features too"}


def plan_lines(plan: SampleSizePlan) -> list[str]:
    """Return the lines that `labeldp plan` prints."""
    query = plan.question
    lines = [_about(query), *_file_lines(plan), ""]
    numbers = query.task != "classification"
    head = ["epsilon", "trust", "protects", "records needed", "risk falls as", "noise per cell"]
    head += ["off by"] if numbers else ["detects"]
    head += ["clip at"] if query.task == "heavy-tailed" else []
    lines += align_columns([[*head, "learner and tuning"], *(_cells(row) for row in plan.rows)])
    lines += ["", "What every promise would need, as multiples of the records that no privacy needs:", ""]
    names = list(next(iter(plan.alternatives.values())))
    spoken = [f"{trust}, {PROTECTED[what]}" for trust, what in (name.split() for name in names)]
    multiples = [
        [f"{epsilon:g}", *(times(needed[name]) for name in names)] for epsilon, needed in plan.alternatives.items()
    ]
    lines += [*align_columns([["epsilon", *spoken], *multiples]), "", *_advice_lines(plan), *_notes(plan)]
    return lines


def _advice_lines(plan: SampleSizePlan) -> list[str]:
    """Return the lines on what to fit, which are those of `labeldp choose`; none where it has no answer."""
    if not plan.advice:
        return []
    rows = [["epsilon", "trust", "labeldp fit", "expect"]]
    for (epsilon, trust), advice in plan.advice.items():
        said = ["nothing better than a constant", ""]
        if advice.options:
            settings = " ".join(f"--{name} {value}" for name, value in advice.best.settings.items())
            said = [settings, str(advice.best.expected)]
        rows.append([f"{epsilon:g}", trust, *said])
    return ["What to fit, and what to expect on a table like others (labeldp choose):", "", *align_columns(rows), ""]


def times(multiple: float) -> str:
    """Return a multiple in two or three digits, such as "1.25 x"."""
    if multiple >= 1e6:
        return f"10^{log10(multiple):.0f} x"
    if multiple >= 99.5:
        return f"{multiple:,.0f} x"
    return f"{multiple:.2g} x" if multiple >= 9.95 else f"{multiple:.2f} x"


def _about(query: SampleSizeQuery) -> str:
    """Return the question as a sentence."""
    if query.interval:
        labels = f"labels from {query.interval[0]:g} to {query.interval[1]:g}"
    else:
        labels = f"{query.classes} classes" if query.classes else f"labels with {query.moments or 0:g} moments"
    return f"{query.task.capitalize()}: {query.records:,} records, {_counted(query.dimension, 'feature')}, {labels}."


def _file_lines(plan: SampleSizePlan) -> list[str]:
    """Return the lines on the file, if one was given."""
    features = plan.features
    if features is None:
        return []
    lines = [f"{features.file}: {features.records:,} records, {_counted(features.dimension, 'feature column')}."]
    if features.intrinsic_dimension is not None:
        size = max(1, round(features.intrinsic_dimension))
        lines.append(f"The features fill about {features.intrinsic_dimension:.1f} dimensions.")
        if size < plan.question.dimension:
            lines[-1] += f" Cells that follow them learn as in so many: plan with --d {size}."
    return [*lines, *(f"Note: {note}" for note in features.notes)]


def _cells(row: PlanRow) -> list[str]:
    """Return the cells of one row of the table."""
    cells = [f"{row.epsilon:g}", row.trust, PROTECTED[row.protection], times(row.relative_records)]
    cells += [f"N^-{row.exponent:.2g}", f"{row.noise:.2g}"]
    cells += [f"{row.off_by:.2g}"] if row.off_by is not None else []
    cells += ["nothing" if row.tells_apart >= 1 else f"{row.tells_apart:.2g}"] if row.tells_apart is not None else []
    cells += [f"{row.clipping_radius:.2g}"] if row.clipping_radius is not None else []
    return [*cells, _learner(row)]


def _learner(row: PlanRow) -> str:
    """Return which learner to use and its tuning."""
    if row.neighbors is not None:
        return f"neighbors: {row.neighbors:,}"
    cells = f"{row.cells:,} of {row.cell_records:,.0f} records"
    if row.model == "cells":
        return f"cells: {cells}"
    smallest = f", n_0 = {row.smallest:,}" if row.smallest else ""
    return f"cubes of side {row.side:.2g}: {cells}{smallest}"


def _notes(plan: SampleSizePlan) -> list[str]:
    """Return sentences on how to read the table and on promises with too few records."""
    query = plan.question
    classes = query.task == "classification"
    moves = "from one class to the other" if classes else "by half of the labels' range"
    unit = {
        "classification": "to the difference between the shares of two classes",
        "regression": "to its mean label",
        "heavy-tailed": "to its mean label; numbers are in units of the p-th root of the bound on E|label|^p",
    }[query.task]
    lines = [
        "records needed: times those that learn as well without privacy. Sizes and errors assume that the truth moves "
        f"{moves} across the features; the ratios depend on it less.",
        f"noise per cell: the standard deviation that privacy adds {unit}.",
        "detects: the smallest difference between two classes that a cell detects reliably (error below 5 %)."
        if classes
        else "off by: the error of a prediction of the mean, root mean square, bias included.",
    ]
    for better, words in ((False, "to learn"), (True, "for such cells or neighbors to learn")):
        poor = [row for row in plan.rows if not row.enough and _fits(plan, row) == better]
        said = "; ".join(f"epsilon {row.epsilon:g}, {row.trust}, {PROTECTED[row.protection]}" for row in poor)
        lines += [f"Too few records {words} more than an average: {said}."] if said else []
    return [wrapped for line in lines for wrapped in wrap(line, WIDTH)]


def _fits(plan: SampleSizePlan, row: PlanRow) -> bool:
    """Return whether some fit is expected to learn more than an average under the promise of a row."""
    advice = plan.advice.get((row.epsilon, row.trust)) if row.protection == "label" else None
    return advice is not None and bool(advice.options)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
