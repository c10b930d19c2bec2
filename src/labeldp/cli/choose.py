"""labeldp choose: options and words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from labeldp.cli.options import domain_options, flags_in_errors, person_options, progress, warn_if_weak

if TYPE_CHECKING:
    from labeldp.fit import Advice

EXAMPLES = """\b
Examples:
  labeldp choose people.csv --label bought --classes no,yes --epsilon 0.5 --id id
  labeldp choose people.csv --label bought --classes no,yes --epsilon 0.5 --delta 1e-6 --trust central --id id --json
  labeldp choose people.csv --label hours --range 0,100 --epsilon 1 --rehearse
"""

WIDTH = 110
"""The most characters in a line of sentences."""


@click.command("choose", epilog=EXAMPLES)
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
@person_options
@click.option("--rehearse", is_flag=True, help="Try the options on these features with made-up labels; takes minutes.")
@click.option("--balance", metavar="SHARES", help="With --rehearse: the share of each class, if it is known: 0.9,0.1.")
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
    person_column: str | None,
    per_person: int | None,
    rehearse: bool,
    balance: str | None,
    as_json: bool,
) -> None:
    """Rank the ways to fit FILE, a CSV or Parquet table, before anything is spent.

    For each: the options of labeldp fit, what to expect, why, and where that was measured. The answer follows from the
    number of records, the feature columns and the options here; no label is read. `labeldp fit --model auto` takes
    the first.
    """
    from labeldp.advice import choose_file
    from labeldp.fit import domain_of

    warn_if_weak(epsilon)
    with progress("rehearsing", lines=True) as show:
        advice = choose_file(
            data,
            domain_of(classes, interval, grid, clip=clip),
            epsilon,
            delta,
            trust,
            label=label,
            columns=features,
            id_column=id_column,
            person_column=person_column,
            per_person=per_person,
            rehearse=rehearse,
            balance=None if balance is None else balance.split(","),
            progress=show,
        )
    click.echo(json.dumps(advice.to_json(), indent=2) if as_json else "\n".join(advice_lines(advice)))


def advice_lines(advice: Advice) -> Iterator[str]:
    """Yield the lines that `labeldp choose` prints."""
    yield f"{advice.records:,} records, {advice.dimension:,} features."
    if advice.remedy:
        yield from wrap(f"{advice.remedy[0].upper()}{advice.remedy[1:]}.", WIDTH)
    for place, option in enumerate(advice.options, start=1):
        yield ""
        yield f"{place}. {option.method}: expect {option.expected}"
        yield from wrap(option.why, WIDTH, initial_indent="   ", subsequent_indent="   ")
        yield f"   {option.command}"
    if advice.options:
        yield ""
        yield from wrap(f"Measured: {advice.options[0].source}. {_how(advice)}", WIDTH)


def _how(advice: Advice) -> str:
    """Return how the scores are known."""
    if advice.rehearsed:
        return f"Rehearsed on {advice.rehearsed:,} rows with made-up labels: least and most of the teachers."
    return "Expected by a rule: mean, least and most of the tables that it was set on, for as many records."
