"""The group `labeldp online`, and its command `plan`: parse, call one workflow, print."""

import json
from typing import Any

import click

from labeldp.cli_options import naming_flags, online_options, saying_weak

__all__ = ["online"]

GROUP_EXAMPLES = """\b
Examples:
  labeldp online plan --horizon 100000 --experts 1000 --epsilon 1
  labeldp online run losses.parquet --epsilon 1 --ledger clicks.ledger --dataset clicks --out decisions.parquet
"""

EXAMPLES = """\b
Examples:
  labeldp online plan --horizon 100000 --experts 1000 --epsilon 1 --delta 1e-6
  labeldp online plan --horizon 1e6 --experts 50 --epsilon 0.5 --neighbors zero-out --json
  labeldp online plan --horizon 1e5 --experts 100 --epsilon 1 --method matrix-factorization --loss-bits 16
  labeldp online plan --horizon 1e5 --experts 100 --epsilon 1 --delta 0 --method doubling
"""


@click.group(epilog=GROUP_EXAMPLES)
def online() -> None:
    """Decide every round, in private: which of several experts to follow, before their losses are seen."""


@online.command("plan", epilog=EXAMPLES)
@click.option("--horizon", required=True, metavar="NUMBER", help="How many rounds will be played, such as 1e6.")
@click.option("--experts", required=True, metavar="NUMBER", help="How many experts there are to follow.")
@online_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@naming_flags(d="--experts")
def plan(loss_bits: str, as_json: bool, **asked: Any) -> None:
    """Which learner to take, its parameters and its bound of regret, before any data is touched.

    The plan follows from these numbers alone. It is the one that online run takes for as many rounds and columns.
    """
    from labeldp.workflows import online_plan_lines, plan_online

    saying_weak(asked["epsilon"], about="the losses of one round")
    found = plan_online(**asked, loss_bits=int(loss_bits))
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else "\n".join(online_plan_lines(found)))
