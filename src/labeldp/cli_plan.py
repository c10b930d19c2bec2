"""The command `labeldp plan`: parse, call one workflow, print."""

import json
from typing import Any

import click

from labeldp.cli_options import saying_weak

__all__ = ["plan"]

EXAMPLES = """\b
Examples:
  labeldp plan --n 1e6 --d 4 --task classification --classes 2 --epsilon 0.1,1,4 --trust local,central
  labeldp plan --n 20640 --d 8 --range 0,500001 --epsilon 1 --protection label,full
  labeldp plan --n 1e5 --d 3 --moments 3 --epsilon 0.5,1
  labeldp plan people.csv --label bought --classes no,yes --epsilon 1 --id id --json
"""


@click.command("plan", epilog=EXAMPLES)
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
@click.option("--moments", metavar="P", help="Labels without a range: so many moments are bounded, at least 2.")
@click.option("--epsilon", required=True, metavar="NUMBERS", help="One or more, separated by commas.")
@click.option("--trust", default="local,central", show_default=True, metavar="NAMES", help="local, central or both.")
@click.option(
    "--protection", default="label", show_default=True, metavar="NAMES", help="label, full (features too) or both."
)
@click.option("--spread", metavar="NUMBER", help="Regression: how far labels of like records scatter, a guess.")
@click.option("--beta", default="1", show_default=True, metavar="NUMBER", help="Smoothness of the truth, up to 1.")
@click.option("--margin", default="0", show_default=True, metavar="NUMBER", help="How seldom classes are a close call.")
@click.option("--label", metavar="COLUMN", help="With a FILE: the private column, which is never read.")
@click.option("--features", metavar="COLUMNS", help="With a FILE: feature columns; all others by default.")
@click.option("--id", "id_column", metavar="COLUMN", help="With a FILE: record ids, which are no feature.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    data: str | None, label: str | None, features: str | None, id_column: str | None, as_json: bool, **asked: Any
) -> None:
    """What to expect of so many records and epsilon, before any data is touched.

    For each promise: how many times more records it needs than no privacy, how noisy the answer of a cell is, which
    learner to take with which tuning, and what a weaker or stronger promise would need. FILE, a CSV or Parquet
    table, gives the number of records and of features, and how many dimensions the features fill; no label is read.
    """
    from labeldp.privacy import InputError
    from labeldp.workflows import Question, make_plan, plan_lines, read_features

    saying_weak(*asked["epsilon"].split(","))
    named = {"--label": label, "--features": features, "--id": id_column}
    if data is None:
        if extra := [name for name, value in named.items() if value is not None]:
            raise InputError(f"{extra[0]} goes with a FILE")
        found = None
    else:
        if "full" in asked["protection"]:
            raise InputError("--protection full keeps features private: state --n and --d in place of a FILE")
        found = read_features(data, label=label, columns=features, id_column=id_column)
    answer = make_plan(Question.parse(**asked, features=found), found)
    click.echo(json.dumps(answer.to_json(), indent=2) if as_json else "\n".join(plan_lines(answer)))
