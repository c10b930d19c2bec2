"""labeldp choose and labeldp plan: options and words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import log10
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import (
    WIDTH,
    align_columns,
    domain_options,
    flags_in_errors,
    json_option,
    progress,
    user_options,
    warn_if_weak,
)

if TYPE_CHECKING:
    from labeldp.advice import PlanRow, SampleSizePlan, SampleSizeQuery
    from labeldp.fit import Advice, Expected

CHOOSE_EXAMPLES = """\b
Examples:
  labeldp choose people.csv --label bought --classes no,yes \\
      --epsilon 0.5 --id id
  labeldp choose people.csv --label bought --classes no,yes \\
      --epsilon 0.5 --delta 1e-6 --trust central --id id --json
  labeldp choose people.csv --label hours --range 0,100 --epsilon 1 \\
      --dry-run
"""


@click.command("choose", epilog=CHOOSE_EXAMPLES)
@click.argument("data", metavar="FILE", type=click.Path(path_type=str))
@click.option("--label", required=True, metavar="COLUMN", help="The private column, which is never read.")
@domain_options
@click.option("--epsilon", required=True, metavar="NUMBER", help="The privacy parameter of the fit.")
@click.option("--delta", default="0", show_default=True, metavar="NUMBER", help="The delta that the fit may cost.")
@click.option(
    "--trust",
    type=click.Choice(["local", "central"]),
    default="local",
    show_default=True,
    help="central: a curator sees the labels and can also randomize each.",
)
@click.option("--features", metavar="COLUMNS", help="Feature columns, separated by commas; all others by default.")
@click.option("--id", "id_column", metavar="COLUMN", help="Record ids, not a feature.")
@user_options
@click.option("--dry-run", is_flag=True, help="Try the options on these features with synthetic labels; takes minutes.")
@click.option("--balance", metavar="SHARES", help="With --dry-run: the share of each class, if it is known: 0.9,0.1.")
@json_option
@flags_in_errors(records="FILE", dimension="FILE")
def choose(data: str, epsilon: str, delta: str, trust: str, balance: str | None, as_json: bool, **options: Any) -> None:
    """Recommend a training method.

    Prints the expected accuracy of each method for FILE, a CSV or Parquet table, and the command that runs the best.
    It uses the number of records, the feature columns and the options. It reads no label and costs no epsilon.
    """
    from labeldp.advice import choose_file
    from labeldp.fit import domain_of

    warn_if_weak(epsilon)
    domain = domain_of(**{name: options.pop(name) for name in ("classes", "interval", "grid", "clip")})
    columns, shares = options.pop("features"), None if balance is None else balance.split(",")
    with progress("trying the options", lines=True) as show:
        advice = choose_file(
            data, domain, epsilon, delta, trust, columns=columns, balance=shares, progress=show, **options
        )
    if as_json:
        click.echo(json.dumps(advice.to_json(), indent=2))
        return
    labels = f"{domain.size} classes" if domain.target == "classes" else "numbers"
    head = f"{Path(data).name}: {advice.records:,} records, {_counted(advice.dimension, 'feature')}, {labels}"
    click.echo(f"{head}   ε = {epsilon}, δ = {delta}, {trust}\n")
    for line in advice_lines(advice):
        click.echo(line)


def advice_lines(advice: Advice) -> Iterator[str]:
    """Yield the lines on the methods that `labeldp choose` ranks."""
    if advice.remedy:
        yield from wrap(f"{advice.remedy[0].upper()}{advice.remedy[1:]}.", WIDTH)
    if not advice.options:
        return
    best = advice.best
    information, _, _ = best.why.partition(": ")
    rows = [["#", "Method", "Cost of noise"]]
    for rank, option in enumerate(advice.options, start=1):
        rows.append([str(rank), option.method, expected_text(option.expected, tried=advice.rehearsed > 0)])
    table = align_columns([[*row, ""] for row in rows])
    width = max(map(len, table)) + 2
    for line, text in zip(
        table, ["What it does", *(option.why.partition(": ")[2] for option in advice.options)], strict=True
    ):
        first, *tail = wrap(text.rstrip("."), WIDTH - width - 2)
        yield f"  {line.ljust(width)}{first}"
        yield from (f"{'':{width + 2}}{part}" for part in tail)
    yield ""
    yield f"At this ε, {information}."
    yield ""
    yield "Run the best method:"
    yield from command_lines(best.command)
    yield ""
    unit = "RMSE in % of the labels' standard deviation" if best.expected.score == "RMSE" else best.expected.score
    text = f"Cost: points of {unit} lost to noise, with an interval"
    if advice.rehearsed:
        text += f": least and most of a dry run on {advice.rehearsed:,} rows with synthetic labels"
    elif not all(option.expected.tells for option in advice.options):
        text += ". Where it is unknown, public numbers cannot tell: --dry-run tries the methods"
    yield from wrap(f"{text}. No label was read. Details, and how often intervals hold: {best.source}", WIDTH)


def expected_text(expected: Expected, *, tried: bool = False) -> str:
    """Return an expected loss with its interval, if it says something, or was seen in a dry run."""
    if not tried and not expected.tells:
        return "unknown"
    return f"{round(expected.value)}  ({round(expected.low)} to {round(expected.high)})"


def command_lines(command: str) -> Iterator[str]:
    """Yield a command in lines that a shell takes, each indented and of at most 80 characters if it can be."""
    line = "  "
    for word in re.split(r" (?=--)", command):
        if len(line) + len(word) > WIDTH - 3 and line.strip():
            yield f"{line} \\"
            line = "     "
        line += word if line == "  " else f" {word}"
    yield line


PLAN_EXAMPLES = """\b
Examples:
  labeldp plan --n 1e6 --d 4 --task classification --classes 2 \\
      --epsilon 0.1,1,4 --trust local,central
  labeldp plan --n 20640 --d 8 --range 0,500001 --epsilon 1 \\
      --protection label,full
  labeldp plan --n 1e5 --d 3 --moments 3 --epsilon 0.5,1
  labeldp plan people.csv --label bought --classes no,yes --epsilon 1 \\
      --id id --json
  labeldp plan --effect 0.02 --rate 0.05 --power 0.8 --epsilon 0.5,1,2
  labeldp plan --rate 40 --spread 12 --range 0,100 --n 20000 --epsilon 1
  labeldp plan --loss costs.csv --prior 0.9,0.1 --epsilon 0.5,1,2
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
@click.option(
    "--epsilon", default="0.5,1,2", show_default=True, metavar="NUMBERS", help="One or more, separated by commas."
)
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
@click.option("--rate", type=float, help="An experiment: the share without treatment, or with --range the mean.")
@click.option(
    "--effect", type=float, help="With --rate: the difference to be shown; without it, what --n records show."
)
@click.option("--power", type=float, help="With --rate: with which probability it is to be shown.  [default: 0.8]")
@click.option("--r-squared", type=float, help="With --rate: what public covariates explain.  [default: 0]")
@click.option("--treated", type=float, help="With --rate: which part of the records is treated.  [default: 0.5]")
@click.option("--per-user", type=float, help="With --rate: how many records a user has.  [default: 1]")
@click.option("--correlation", type=float, help="With --rate: of two records of a user.  [default: 0]")
@click.option(
    "--loss",
    metavar="FILE",
    type=click.Path(path_type=str),
    help="Mistakes with costs: a table with a row for each true label and a column for each answer.",
)
@click.option("--prior", metavar="NUMBERS", help="With --loss: the share of each label, in the order of the rows.")
@json_option
@flags_in_errors(records="--n", domain="--range")
def plan(
    data: str | None,
    label: str | None,
    features: str | None,
    id_column: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate accuracy before you have data.

    Prints, for each privacy guarantee, how many times more records it needs than no privacy, and the noise. FILE, a
    CSV or Parquet table, gives the number of records and features in place of --n and --d. No label is read.

    With --rate: the records that an experiment with two arms needs to show --effect, or the smallest effect that --n
    records show, without privacy, with a trusted curator, and in the local model. Of numbers, --spread is their
    standard deviation.

    With --loss: the expected cost of one private answer, by mechanism. The least is that of
    labeldp.mechanisms.Optimal.
    """
    costs = {name: options.pop(name) for name in COSTS}
    if costs["loss"] is not None:
        plan_losses(options["epsilon"], as_json, **costs)
        return
    experiment = {name: options.pop(name) for name in EXPERIMENT}
    if experiment["effect"] is not None or experiment["rate"] is not None:
        asked = {name: options[name] for name in ("n", "interval", "spread")}
        plan_experiment(options["epsilon"], as_json, **asked, **experiment)
        return
    from labeldp.advice import SampleSizeQuery, make_plan, read_features
    from labeldp.privacy import InputError

    if extra := [name for name, value in experiment.items() if value is not None]:
        raise InputError(f"--{extra[0].replace('_', '-')} goes with --rate")
    if costs["prior"] is not None:
        raise InputError("--prior goes with --loss")
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


EXPERIMENT = ("effect", "rate", "power", "r_squared", "treated", "per_user", "correlation")
"""The options of an experiment."""


COSTS = ("loss", "prior")
"""The options of a table of costs."""


def _refuse_others(option: str, *names: str) -> None:
    """Refuse typed options of `labeldp plan` that do not go with one of them."""
    from labeldp.privacy import InputError

    context = click.get_current_context()
    for name in sorted(context.params):
        typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in (*names, "epsilon", "as_json"):
            flag = {"data": "FILE", "interval": "--range", "id_column": "--id"}.get(name, f"--{name}")
            raise InputError(f"{flag} does not go with {option}")


def plan_losses(epsilons: str, as_json: bool, *, loss: str, prior: str | None) -> None:
    """Print the expected cost of one answer, by epsilon and mechanism."""
    from labeldp.advice import Costs, expected_losses
    from labeldp.fit import epsilon_of, parts_of

    _refuse_others("--loss", *COSTS)
    warn_if_weak(*epsilons.split(","))
    costs = Costs.read(loss, prior)
    rows = expected_losses(costs, [epsilon_of(text) for text in parts_of(epsilons, "epsilon")])
    if as_json:
        click.echo(json.dumps([vars(row) for row in rows], indent=2))
        return
    cells = [["epsilon", "constant", "randomized response", "local hashing", "optimal", "gain", "it is"]]
    for row in rows:
        rival = min(row.response, row.hashing)
        gain = f"{max(0.0, 100 * (1 - row.optimal / rival)):.1f} %" if rival > 0 else "–"
        numbers = [f"{value:.4g}" for value in (row.constant, row.response, row.hashing, row.optimal)]
        cells.append([f"{row.epsilon:g}", *numbers, gain, row.known_as or "no named one"])
    shares = ", ".join(f"{name} {share:.3g}" for name, share in zip(costs.names, costs.prior.tolist(), strict=True))
    click.echo(f"Expected cost of one answer; shares of the labels: {shares}\n")
    click.echo("\n".join(align_columns(cells)))
    click.echo("\nThe gain is that of the optimum over the better of the two others with their best decisions.")


def plan_experiment(
    epsilons: str, as_json: bool, *, n: str | None, interval: str | None, spread: str | None, **experiment: float | None
) -> None:
    """Print how many records show an effect, or which effect records show, by epsilon and trust."""
    from labeldp.fit import decimal_float, domain_of, epsilon_of, parts_of, whole_number
    from labeldp.inference import power
    from labeldp.privacy import InputError

    _refuse_others("--rate", *EXPERIMENT, "n", "interval", "spread")
    if experiment["rate"] is None:
        raise InputError("--rate must be given with --effect: the share or mean without treatment")
    if experiment["effect"] is None and n is None:
        raise InputError("--effect must be given with --rate, or --n: then the smallest effect is told")
    warn_if_weak(*epsilons.split(","))
    wanted: dict[str, Any] = {name: value for name, value in experiment.items() if value is not None}
    wanted |= {"effect": experiment["effect"], "records": None if n is None else whole_number(n, "--n")}
    if interval is not None or spread is not None:
        wanted |= {"domain": None if interval is None else domain_of(None, interval)}
        wanted |= {"spread": None if spread is None else decimal_float(spread, "--spread")}
    several = (experiment["per_user"] or 1) > 1
    trusts = ("local",) if several else ("central", "local")  # sums do not tell whose records they are of
    settings: list[tuple[float | None, str]] = [(None, "none")]
    settings += [(epsilon_of(text), trust) for text in parts_of(epsilons, "epsilon") for trust in trusts]
    rows = [power(epsilon=epsilon, trust=trust, **wanted) for epsilon, trust in settings]
    if as_json:
        click.echo(json.dumps([vars(row) for row in rows], indent=2))
        return
    plain = rows[0]
    level = f"at a level of {100 * (1 - plain.level):.3g} %"
    chance = f"with a probability of {100 * wanted.get('power', 0.8):g} %, {level}"
    if n is None:
        head, title = (
            "records",
            f"Records in both arms that show an effect of {plain.effect:g} on {plain.outcome} {chance}",
        )
        numbers = [(float(row.records), f"{row.records:,}") for row in rows]
    elif experiment["effect"] is None:
        title, head = f"Effects on {plain.outcome} that {plain.records:,} records show {chance}", "effect"
        numbers = [(row.effect, f"{row.effect:.4g}") for row in rows]
    else:
        title = (
            f"Probability that {plain.records:,} records show an effect of {plain.effect:g} on {plain.outcome} {level}"
        )
        head, numbers = "power", [(row.power, f"{100 * row.power:.0f} %") for row in rows]
    cells = [["epsilon", "trust", head, "times no privacy"]]
    for row, (number, shown) in zip(rows, numbers, strict=True):
        epsilon = "none" if row.epsilon is None else f"{row.epsilon:g}"
        cells.append([epsilon, "" if row.trust == "none" else row.trust, shown, times(number / numbers[0][0])])
    click.echo(f"{title}:\n")
    click.echo("\n".join(align_columns(cells)))


PROTECTED = {"label": "label", "full": "label + features"}


def plan_lines(plan: SampleSizePlan) -> list[str]:
    """Return the lines that `labeldp plan` prints."""
    lines = [_about(plan.question), *_file_lines(plan)]
    for epsilon, needed in plan.alternatives.items():
        rows = {(row.trust, row.protection): row for row in plan.rows if row.epsilon == epsilon}
        names = [tuple(name.split()) for name in needed]
        order = sorted(zip(names, needed.values(), strict=True), key=lambda pair: (pair[0][1] == "full", pair[0][0]))
        table = [[*HEAD, _last(plan)], ["–", "nothing", "1 ×", "–", "–"]]
        for (trust, protection), multiple in order:
            row = rows.get((trust, protection))
            table.append([trust, PROTECTED[protection], times(multiple), *(_noise(row) if row else ("", ""))])
        lines += ["", f"ε = {epsilon:g}", *(f"  {line}" for line in align_columns(table))]
        lines += [f"  Cells       {row.trust}, {PROTECTED[row.protection]}: {_learner(row)}" for row in rows.values()]
        lines += _suggestions(plan, epsilon)
    return [*lines, "", *_notes(plan)]


HEAD = ("Trust", "Protects", "Data needed", "Noise per cell")


def _last(plan: SampleSizePlan) -> str:
    return "Smallest difference" if plan.question.task == "classification" else "Error"


def _noise(row: PlanRow) -> tuple[str, str]:
    """Return the noise of a row, and what is detected with it or by how much a prediction is off."""
    if row.off_by is not None:
        clip = f", clip at {row.clipping_radius:.2g}" if row.clipping_radius is not None else ""
        return f"{row.noise:.2g}", f"{row.off_by:.2g}{clip}"
    detected = "–" if row.tells_apart is None or row.tells_apart >= 1 else f"{row.tells_apart:.2g}"
    return f"{row.noise:.2g}", detected


def _suggestions(plan: SampleSizePlan, epsilon: float) -> Iterator[str]:
    """Yield the lines on what to fit, as `labeldp choose` says; none where it has no answer."""
    for (number, trust), advice in plan.advice.items():
        if number == epsilon and advice.options:
            settings = " ".join(f"--{name} {value}" for name, value in advice.best.settings.items())
            yield f"  Suggested   {trust}: labeldp fit … {settings}"
            yield f"              {advice.best.expected}"
        elif number == epsilon:
            yield f"  Suggested   {trust}: no method is expected to be better than the baseline"


def times(multiple: float) -> str:
    """Return a multiple in two or three digits, such as "1.25 ×"."""
    if multiple >= 1e6:
        return f"10^{log10(multiple):.0f} ×"
    if multiple >= 99.5:
        return f"{multiple:,.0f} ×"
    return f"{multiple:.2g} ×" if multiple >= 9.95 else f"{multiple:.2f} ×"


def _about(query: SampleSizeQuery) -> str:
    if query.interval:
        labels = f"labels from {query.interval[0]:g} to {query.interval[1]:g}"
    else:
        labels = f"{query.classes} classes" if query.classes else f"labels with {query.moments or 0:g} moments"
    return f"{query.task.capitalize()}, {labels}, {_counted(query.dimension, 'feature')}, n = {query.records:,}"


def _file_lines(plan: SampleSizePlan) -> list[str]:
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


def _learner(row: PlanRow) -> str:
    if row.neighbors is not None:
        return f"neighbors: {row.neighbors:,}"
    cells = f"{row.cells:,} of {row.cell_records:,.0f} records"
    if row.model == "cells":
        return f"cells: {cells}"
    smallest = f", n_0 = {row.smallest:,}" if row.smallest else ""
    return f"cubes of side {row.side:.2g}: {cells}{smallest}"


def _notes(plan: SampleSizePlan) -> list[str]:
    """Return sentences on how to read the table and on guarantees with too few records."""
    query = plan.question
    classes = query.task == "classification"
    moves = "from one class to the other" if classes else "by half of the labels' range"
    lines = [
        "Data needed: records for the same accuracy, relative to no privacy. Sizes and errors assume that the truth "
        f"moves smoothly {moves} across the features (--beta, --margin).",
        "Smallest difference: between two classes, detected reliably in a cell (error below 5 %)."
        if classes
        else "Error: root mean square, bias included. Noise per cell: its standard deviation.",
    ]
    if query.task == "heavy-tailed":
        lines.append("Numbers are in units of the p-th root of the bound on E|label|^p.")
    learned = [
        row
        for row in plan.rows
        if row.protection == "label" and (advice := plan.advice.get((row.epsilon, row.trust))) and advice.options
    ]
    for better, words in ((False, "to learn"), (True, "for such cells or neighbors to learn")):
        poor = [row for row in plan.rows if not row.enough and (row in learned) == better]
        said = "; ".join(f"ε = {row.epsilon:g}, {row.trust}, {PROTECTED[row.protection]}" for row in poor)
        lines += [f"Too few records {words} more than the baseline: {said}."] if said else []
    return [wrapped for line in lines for wrapped in wrap(line, WIDTH)]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
