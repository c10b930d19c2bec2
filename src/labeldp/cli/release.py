"""labeldp release: options and words."""

from __future__ import annotations

import json
from typing import Any

import click

from labeldp.cli.account_options import describe_budget, private_label_options
from labeldp.cli.options import (
    PATH,
    SectionedCommand,
    bag_options,
    domain_options,
    flags_in_errors,
    json_option,
    note,
    quiet_option,
    user_option,
    warn_if_weak,
)
from labeldp.cli.options import progress as _progress
from labeldp.mechanisms import COMMANDS, MechanismEntry

RELEASE_EXAMPLES = """\b
Examples:
  labeldp release people.parquet --label bought --classes no,yes \\
      --mechanism randomized-response \\
      --epsilon 1 --ledger people.ledger --dataset bought --id id \\
      --out noisy.parquet
  labeldp ledger add people.ledger --dataset income --epsilon 2
  labeldp release people.csv --label income --range 0,200000 \\
      --mechanism discrete-laplace \\
      --epsilon 1 --ledger people.ledger --dataset income --in-place \\
      --out noisy.csv
  labeldp release people.csv --label income --range 0,200000 \\
      --mechanism bag-sum --size 64 \\
      --epsilon 1 --ledger people.ledger --dataset income --id id \\
      --out sums.csv
  labeldp release orders --label bought --classes no,yes --epsilon 1 \\
      --ledger orders.ledger \\
      --dataset bought --id id --engine spark --master yarn \\
      --out /shared/noisy
"""

SECTIONS = {
    "Data": ("id_column", "user_column", "cohort", "revision", "other_ids"),
    "Labels": ("label", "classes", "interval", "grid", "clip"),
    "Privacy": ("mechanism", "epsilon", "ledger", "dataset", "new_budget"),
    "Bags": ("size", "delta", "bags", "noisy", "weights", "rows"),
    "Output": ("out", "in_place", "engine", "master", "as_json"),
}
"""The options of release in the sections of its help; others are in the last."""

FREQUENT = (
    *("id_column", "user_column", "label", "classes", "interval", "mechanism", "epsilon", "ledger", "new_budget"),
    *("size", "out", "in_place"),
)
"""The options that `labeldp release --help` shows."""

BAGS = ", ".join(name for name, entry in COMMANDS.items() if entry.on_bags)


@click.command(cls=SectionedCommand, sections=SECTIONS, frequent=FREQUENT, epilog=RELEASE_EXAMPLES)
@click.argument("data", type=PATH)
@private_label_options
@domain_options
@click.option(
    "--mechanism",
    type=click.Choice(list(COMMANDS)),
    default="randomized-response",
    show_default=True,
    help="; ".join(f"{name}: {entry.help}" for name, entry in COMMANDS.items()) + ".",
)
@bag_options
@click.option("--epsilon", required=True, metavar="NUMBER", help="The privacy parameter that this release costs.")
@click.option("--out", required=True, type=PATH, help="A new CSV or Parquet file; a new folder for a folder.")
@click.option(
    "--id", "id_column", metavar="COLUMN", help="Distinct record ids. Noise follows the ids, not the row order."
)
@user_option
@click.option("--in-place", is_flag=True, help="Write the whole table, with noisy labels in place of the private ones.")
@click.option(
    "--engine",
    type=click.Choice(["labeldp", "spark"]),
    default="labeldp",
    show_default=True,
    help="What reads DATA: labeldp itself, or Spark, where the records are; then OUT is a new folder.",
)
@click.option("--master", metavar="MASTER", help="Where Spark runs: local[4], yarn, spark://host:7077.  [local[*]]")
@json_option
@quiet_option
@flags_in_errors(domain="--classes or --range")
def release(data: str, out: str, engine: str, master: str | None, as_json: bool, **options: Any) -> None:
    """Publish a noisy label column.

    DATA is a table or a folder of tables. Writes the noisy column and the ids; with --in-place the whole table. For
    bags it writes the bag of each record with the noisy sum, and for weighted-lba a row for each weighted
    sum. The certificate is stored in the Parquet metadata, or next to a CSV file. A folder is one table and one
    release: OUT is a folder with the same parts, one _certificate.json and _SUCCESS. The same command resumes an
    interrupted run.
    """
    from labeldp.fit import domain_of
    from labeldp.privacy import Request, Source
    from labeldp.releases import ask_column

    warn_if_weak(options["epsilon"])
    new_budget, ledger_and_dataset = options.pop("new_budget"), (options["ledger"], options["dataset"])
    declared = {name: options.pop(name) for name in ("classes", "interval", "grid", "clip")}
    bags = {name: options.pop(name) for name in ("size", "delta", "bags", "noisy", "weights", "rows")}
    bags = {name: value for name, value in bags.items() if value is not None}
    domain, delta = domain_of(**declared), bags.get("delta", 0)
    mechanism = COMMANDS[options["mechanism"]]
    if options["user_column"] is not None and not mechanism.on_bags:
        bags.pop("delta", None)  # it is the delta of a user
    if engine != "spark" and master is not None:
        raise click.UsageError("--master is for --engine spark")
    if engine == "spark" and mechanism.on_bags:
        raise click.UsageError("--engine spark releases a label for each record: labeldp.spark.bag_sum has sums")
    if engine == "spark" and options["other_ids"]:
        raise click.UsageError("--other-ids does not go with --engine spark")
    if engine == "spark" and options["user_column"] is not None:
        raise click.UsageError("--user does not go with --engine spark, which protects single records only")
    if mechanism.on_bags:
        from labeldp.bags import release_bags  # it imports scikit-learn

        _check_bags(mechanism, bags, options.pop("in_place"))
        certificate = release_bags(data, out=out, domain=domain, note=note, new_budget=new_budget(), **bags, **options)
    elif bags:
        raise click.UsageError(f"--{next(iter(bags))} is for mechanisms on bags: {BAGS}")
    elif declared["interval"] is not None and "range" not in mechanism.domains:
        numbers = [name for name, entry in COMMANDS.items() if "range" in entry.domains and not entry.on_bags]
        raise click.UsageError(f"--range goes with --mechanism {', '.join(numbers)}, or with bags: {BAGS}")
    elif declared["classes"] is not None and "classes" not in mechanism.domains:
        raise click.UsageError(
            f"--mechanism {options['mechanism']} is for numbers: it takes --range LOW,HIGH, not --classes"
        )
    else:
        source = Source.of(data, *(options.pop(name) for name in ("label", "id_column", "user_column")))
        does, dataset, ledger, epsilon = (options.pop(name) for name in ("mechanism", "dataset", "ledger", "epsilon"))
        request = Request.of("release", does, dataset, source, epsilon, delta, domain=domain, **options)
        account = {"ledger": ledger, "out": out, "note": note, "new_budget": new_budget()}
        if engine == "spark":
            from labeldp.spark import ask_files

            certificate = ask_files(request, data, master=master or "local[*]", **account)
        else:
            with _progress("releasing") as progress:
                certificate = ask_column(request, data, progress=progress, **account)
    if as_json:
        click.echo(json.dumps({"certificate": certificate.to_json(), "out": out}, indent=2))
        return
    click.echo(certificate.at(delta))
    click.echo(describe_budget(*ledger_and_dataset))
    click.echo(f"Released: {out}")


def _check_bags(mechanism: MechanismEntry, bags: dict[str, Any], in_place: bool) -> None:
    """Refuse options that a release of bags does not take."""
    if "size" not in bags:
        raise click.UsageError("--size must be given: how many records the smallest bag has")
    if in_place:
        raise click.UsageError("--in-place is for one noisy label for each record: bags have sums")
    for name in bags:
        if name not in mechanism.options:
            owner = next(entry.command for entry in COMMANDS.values() if name in entry.options)
            secret = ", whose weights are published; those of weighted-lba must stay secret"
            raise click.UsageError(f"--{name} is for {owner}{secret if name == 'weights' else ''}")
