"""The command `labeldp online run`: parse, call one workflow, print."""

from typing import Any

import click

from labeldp.cli_options import naming_change, naming_flags, online_options, saying_weak
from labeldp.terminal import progress

__all__ = ["run"]

EXAMPLES = """\b
Examples:
  labeldp online run losses.parquet --epsilon 1 --out decisions.parquet
  labeldp online run losses.csv --epsilon 0.5 --delta 1e-7 --neighbors zero-out --horizon 1e5 --out decisions.csv
  labeldp online run losses.parquet --epsilon 1 --experts red,green,blue --out decisions.parquet
  labeldp online run losses.parquet --epsilon 1 --ledger clicks.ledger --dataset clicks --out decisions.parquet
"""


@click.command("run", epilog=EXAMPLES)
@click.argument("losses", type=click.Path(dir_okay=False, path_type=str))
@online_options
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=str), help="A new CSV or Parquet file.")
@click.option("--experts", metavar="NAMES", help="The columns that are experts, such as a,b,c; by default all.")
@click.option("--horizon", metavar="NUMBER", help="Charged for so many; by default for the rows.")
@click.option("--levels", is_flag=True, help="Losses are integers from 0 to 255 (or 65535), not numbers in [0, 1].")
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=str), help="A ledger file to charge.")
@click.option("--dataset", metavar="NAME", help="With --ledger: the name of the losses in it.")
@click.option("--revision", metavar="NAME", help="Names another file of losses; charged in addition.")
@naming_flags(name="--dataset")
def run(losses: str, out: str, ledger: str | None, dataset: str | None, loss_bits: str, **asked: Any) -> None:
    """Play the rounds of LOSSES, a CSV or Parquet file whose columns are experts and whose rows are rounds.

    Writes the name of the expert that is played in each round, chosen before its losses are looked at. The certificate
    goes into the Parquet metadata, or beside a CSV file. The names of the columns and the number of rows are public.

    The same command goes on where it was interrupted. Until it is done OUT.unfinished holds its state, as secret as the
    losses.
    """
    from labeldp.workflows import OnlineRun, describe_budget, run_online

    saying_weak(asked["epsilon"], about="the losses of one round")
    revision = asked.pop("revision")
    experts = asked.pop("experts")
    columns = None if experts is None else tuple(experts.split(","))
    wanted = OnlineRun(**asked, loss_bits=int(loss_bits), experts=columns)
    with naming_change(ledger, dataset), progress("reading") as show:
        certificate = run_online(
            losses,
            wanted,
            out=out,
            ledger=ledger,
            dataset=dataset,
            revision=revision,
            progress=show,
            note=lambda sentence: click.echo(sentence, err=True),
        )
    click.echo(certificate.at(wanted.delta))
    if ledger is not None and dataset is not None:
        click.echo(describe_budget(ledger, dataset))
    click.echo(f"Decisions: {out}")
