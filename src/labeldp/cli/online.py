"""labeldp online plan, run: options and words."""

from __future__ import annotations

import json
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.account_options import budget_of_new_ledger
from labeldp.cli.options import (
    FILE,
    CommandGroup,
    align_columns,
    flags_in_errors,
    json_option,
    new_budget_option,
    note,
    online_options,
    progress,
    suggest_budget_change,
    warn_if_weak,
)

if TYPE_CHECKING:
    from labeldp.online import OnlinePlan

GROUP_EXAMPLES = """\b
Examples:
  labeldp online plan --horizon 100000 --experts 1000 --epsilon 1
  labeldp online run losses.parquet --epsilon 1 --ledger clicks.ledger \\
      --dataset clicks --out decisions.parquet
"""

EXAMPLES = """\b
Examples:
  labeldp online plan --horizon 100000 --experts 1000 --epsilon 1 \\
      --delta 1e-6
  labeldp online plan --horizon 1e6 --experts 50 --epsilon 0.5 \\
      --neighbors zero-out --json
  labeldp online plan --horizon 1e5 --experts 100 --epsilon 1 \\
      --method matrix-factorization --loss-bits 16
  labeldp online plan --horizon 1e5 --experts 100 --epsilon 1 \\
      --delta 0 --method doubling
"""


@click.group(cls=CommandGroup, epilog=GROUP_EXAMPLES)
def online() -> None:
    """Choose actions with private losses."""


class _PlanCommand(click.Command):
    """A command whose help ends with a line for each method; methods are imported only when the help is shown."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from labeldp.online import methods_of

        super().format_options(ctx, formatter)
        with formatter.section("Methods"):
            formatter.write_dl([(name, method.help) for name, method in methods_of("experts").items()])


@online.command("plan", cls=_PlanCommand, epilog=EXAMPLES)
@click.option("--horizon", required=True, metavar="NUMBER", help="How many rounds will be played, such as 1e6.")
@click.option("--experts", required=True, metavar="NUMBER", help="How many experts there are to follow.")
@online_options
@json_option
@flags_in_errors(d="--experts")
def plan(loss_bits: str, as_json: bool, **options: Any) -> None:
    """Compute the bound on the regret of each method.

    The plan follows from these numbers alone. It is the one that online run takes for as many rounds and columns.
    """
    from labeldp.online import count, plan_experts

    warn_if_weak(options["epsilon"], about="the losses of one round")
    experts = count(options.pop("experts"), "experts", 2, 9)
    horizon = count(options.pop("horizon"), "horizon", 1, 12)
    chosen = plan_experts(experts, horizon, **options, loss_bits=int(loss_bits))
    click.echo(json.dumps(chosen.to_json(), indent=2) if as_json else "\n".join(online_plan_lines(chosen)))


RUN_EXAMPLES = """\b
Examples:
  labeldp online run losses.parquet --epsilon 1 --out decisions.parquet
  labeldp online run losses.csv --epsilon 0.5 --delta 1e-7 \\
      --neighbors zero-out --horizon 1e5 --out decisions.csv
  labeldp online run losses.parquet --epsilon 1 \\
      --experts red,green,blue --out decisions.parquet
  labeldp online run losses.parquet --epsilon 1 --ledger clicks.ledger \\
      --dataset clicks --out decisions.parquet
"""


@online.command("run", epilog=RUN_EXAMPLES)
@click.argument("losses", type=FILE)
@online_options
@click.option("--out", required=True, type=FILE, help="A new CSV or Parquet file.")
@click.option("--experts", metavar="NAMES", help="The columns that are experts, such as a,b,c; by default all.")
@click.option("--horizon", metavar="NUMBER", help="How many rounds to charge for; by default the number of rows.")
@click.option("--levels", is_flag=True, help="Losses are integers from 0 to 255 (or 65535), not numbers in [0, 1].")
@click.option("--ledger", type=FILE, help="A ledger file to charge.")
@click.option("--dataset", metavar="NAME", help="With --ledger: the name of the losses in it.")
@new_budget_option
@click.option("--revision", metavar="NAME", help="Names another file of losses; charged in addition.")
@flags_in_errors()
def run(losses: str, out: str, ledger: str | None, dataset: str | None, loss_bits: str, **options: Any) -> None:
    """Choose an expert in each round.

    LOSSES is a CSV or Parquet file with a column for each expert and a row for each round. Writes the name of the
    expert that is played in each round, chosen before its losses are read. The certificate goes into the
    Parquet metadata, or next to a CSV file. The names of the columns and the number of rows are public.

    The same command resumes an interrupted run. Until it is finished, OUT.unfinished holds its state, which is as
    secret as the losses.
    """
    from labeldp.cli.account_options import describe_budget
    from labeldp.online import run_online
    from labeldp.privacy import InputError

    warn_if_weak(options["epsilon"], about="the losses of one round")
    revision, experts = options.pop("revision"), options.pop("experts")
    columns = None if experts is None else tuple(experts.split(","))
    new_budget = options.pop("new_budget")
    if ledger is None and new_budget is not None:
        raise InputError("--new-budget goes with --ledger")
    budget = None
    if ledger is not None and dataset is not None:
        budget = budget_of_new_ledger(ledger, dataset, new_budget, options["epsilon"], options["delta"])
    with suggest_budget_change(ledger, dataset), progress("reading") as show:
        certificate = run_online(
            losses,
            **options,
            loss_bits=int(loss_bits),
            experts=columns,
            out=out,
            ledger=ledger,
            dataset=dataset,
            revision=revision,
            progress=show,
            note=note,
            new_budget=budget,
        )
    click.echo(certificate.at(options["delta"]))
    if ledger is not None and dataset is not None:
        click.echo(describe_budget(ledger, dataset))
    click.echo(f"Decisions: {out}")


WIDTH = 110
"""The most characters in a line of sentences."""


def online_plan_lines(plan: OnlinePlan) -> list[str]:
    """Return the lines that `labeldp online plan` prints."""
    from labeldp.privacy import decimal_text

    def most(bound: float) -> str:
        return _amount(min(bound, plan.horizon))  # nobody loses more

    task = plan.task
    promise = f"epsilon = {decimal_text(float(task.epsilon))} and delta = {decimal_text(float(task.delta))}"
    sizes = f"{task.experts:,} experts, {task.horizon:,} rounds, {promise}, where {task.neighbors.value}."
    lines = [sizes, "", f"Method: {plan.method}, {plan.kernel.words}."]
    lines += [
        f"Expected regret: at most {most(plan.regret_bound)}, {plan.holds}. Without privacy: at most "
        f"{most(plan.nonprivate_bound)}.",
        f"Expected changes of the expert: at most {_amount(plan.expected_switches)}.",
        "",
    ]
    rows = [["method", "regret at most", "holds"], [plan.method, most(plan.regret_bound), plan.holds]]
    rows += [[other.method, most(other.regret_bound), other.holds] for other in plan.alternatives]
    return [*lines, *align_columns(rows), "", *(wrapped for note in _notes(plan) for wrapped in wrap(note, WIDTH))]


def _amount(number: float) -> str:
    """Return a bound rounded up: to a whole number from 100 on, else to three digits."""
    from labeldp.privacy import rounded_up_text

    return f"{-int(-number // 1):,}" if number >= 100 else rounded_up_text(number, 3)


def _notes(plan: OnlinePlan) -> list[str]:
    """Return sentences on what the numbers mean, and on bounds that say little."""
    from labeldp.online import methods_of

    task = plan.task
    notes = [
        "Regret is what is lost beyond the expert that is best over all rounds, with losses in [0, 1], in the mean "
        "over its own draws, for losses that do not follow what is played. Privacy holds for losses that do, too."
    ]
    methods = (plan.method, *(other.method for other in plan.alternatives))
    cautions = [methods_of(task.kind)[name].caution for name in methods]
    notes += [caution for caution in cautions if caution]
    if task.rounding_bound > plan.regret_bound / 100:
        finer = "" if task.loss_bits == 16 else f"; with --loss-bits 16, {_amount(plan.horizon / 65535)}"
        notes.append(
            f"Losses are counted in steps of 1/{task.levels:,}. Rounding finer ones can add "
            f"{_amount(task.rounding_bound)} at worst{finer}; it hardly adds anything where roundings cancel."
        )
    if plan.vacuous:
        notes.append(
            f"This bound says nothing: nobody loses more than {plan.horizon:,} in {plan.horizon:,} rounds. It takes "
            "more rounds, fewer experts or a larger epsilon."
        )
    elif plan.regret_bound > plan.horizon / 10:
        notes.append(
            f"The bound is {plan.regret_bound / plan.horizon:.0%} of the largest loss that is possible: there is "
            "little to learn with so few rounds or so small an epsilon."
        )
    return notes
