"""labeldp ledger show, add, backup, restore, move, rotate: options and words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.account_options import balance, budget_share, percent
from labeldp.cli.options import (
    FILE,
    PATH,
    WIDTH,
    CommandGroup,
    align_columns,
    flags_in_errors,
    json_option,
    warn_if_weak,
)

if TYPE_CHECKING:
    from labeldp.curator import DatasetSnapshot
    from labeldp.privacy import Charge

GRID = 2
"""The grid of a declared range; ranges that differ in the grid alone are the same domain."""

CHOICE = "Which cohort a record is in must not depend on its label, and certificates say so."

SECRECY = "The file contains the noise keys: protect it like the labels, and never restore an older copy."

UNITS = {"label": "ONE_LABEL", "user": "ONE_USER", "replace": "ONE_LOSS", "zero-out": "ZERO_OUT"}
"""The units of protection, by their words on the command line."""

BAR = 20
"""How many characters the bar of a budget has."""


def describe_ledger(path: str) -> str:
    """Describe the datasets of a ledger, with their budgets and releases."""
    from labeldp.audit import existing_ledger

    ledger = existing_ledger(path)
    names = ledger.datasets()
    count = f"{len(names)} dataset{'' if len(names) == 1 else 's'}"
    head = f"{path}   {count}   (contains noise keys: protect it like the labels)"
    return "\n\n".join([head, *("\n".join(_dataset(ledger.dataset(name).state)) for name in names)])


def _folded(*lines: str) -> Iterator[str]:
    for line in lines:
        yield from wrap(line, WIDTH, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)


def _dataset(account: DatasetSnapshot) -> Iterator[str]:
    """Yield the lines on one dataset: its domains, its budget and each release."""
    from labeldp.accounting import PROMISE
    from labeldp.curator import times
    from labeldp.privacy import decimal, rounded_up_text

    yield account.scope.name
    for domain in account.domains:
        refused = f", labels were refused {times(domain.refused)}" if domain.refused else ""
        column = f" of {domain.column!r}" if domain.column else ""
        yield from _folded(f"  Labels{column}: {domain.words} (declared {domain.created[:10]}{refused})")
    filtered = bool(decimal(account.budget.delta, "delta"))
    share = budget_share(account)
    full = min(BAR, math.ceil(share * BAR))
    if (unit := account.protection.unit) is not None:
        yield f"  Protects      {unit.words.unit}"
    yield f"  Budget        {balance(account)}   {'█' * full}{'░' * (BAR - full)}  {percent(share)}"
    if filtered:
        yield f"  Note          {PROMISE}"
    if str(account.promised) != str(account.budget):
        yield f"  Guarantee     {account.promised}: the largest budget that the dataset had"
    if not account.cohorts and account.declared_records is not None:
        yield f"  Records       {account.declared_records:,} (declared)"
    for cohort in account.cohorts:
        spent = f"{percent(account.used(cohort.number))} of the budget"
        if not filtered:
            spent = f"ε {rounded_up_text(account.spent_of(cohort.name).epsilon(), 12)}"
        since = f"{cohort.records:,} records since {_when(cohort.created)}"
        yield from _folded(f"  Cohort        {cohort.name}: {since}; spent {spent}")
    releases = [_release(number, entry) for number, entry in enumerate(account.entries, start=1)]
    if releases:
        wanted = [title for title in releases[0] if title in MAIN or any(row[title] for row in releases)]
        if not any(change.what == "keys" for change in account.changes):
            wanted.remove("Keys")
        yield from _table(wanted, releases)
    if account.differences:
        yield f"  Other labels were refused {times(account.differences)}."
    for change in account.changes:
        why = f" ({change.why})" if change.why else ""
        changed = f"{change.what} changed from {change.before} to {change.after}{why}"
        yield from _folded(f"  {_when(change.created)}: {changed}")


def _table(titles: Sequence[str], releases: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the aligned rows of releases; columns that are too many for `WIDTH` are below their row."""
    titles, below = list(titles), list[str]()
    while rows := align_columns([titles, *([row[title] for title in titles] for row in releases)]):
        optional = [title for title in titles if title not in MAIN]
        if not optional or max(map(len, rows)) <= WIDTH - 2:
            break
        titles.remove(optional[-1])
        below.insert(0, optional[-1])
    yield f"  {rows[0]}"
    for line, row in zip(rows[1:], releases, strict=True):
        yield f"  {line}"
        if more := ", ".join(f"{title}: {row[title]}" for title in below if row[title]):
            yield from _folded(f"     {more}")


MAIN = ("#", "Date (UTC)", "Release", "ε", "δ")
"""The columns that every table of releases has."""


def _release(number: int, entry: Any) -> dict[str, str]:
    """Return the cells of a release, by the titles of their columns."""
    charge = entry.certificate.entries[0]
    epsilon, delta = _cost(charge)
    return {
        "#": str(number),
        "Date (UTC)": _when(entry.created),
        "Release": _in_words(str(charge.mechanism["mechanism"])),
        "Step": entry.step.rpartition(": ")[2] if entry.step else "",
        "Column": entry.column,
        "ε": epsilon,
        "δ": delta,
        "Records": f"{int(charge.facts['records']):,}" if charge.facts.get("records") else "",
        "Cohorts": " to ".join(dict.fromkeys((entry.cohorts[0], entry.cohorts[-1]))) if entry.cohorts else "",
        "Part": ", ".join(f"{part + 1} of {split[:6]}" for split, part in entry.part),
        "Revision": entry.revision,
        "Keys": str(entry.generation),
    }


def _in_words(name: str) -> str:
    """Return the name of a class in words, such as "randomized response"."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).split()
    return " ".join(word if word.isupper() else word.lower() for word in words)


def _when(created: str) -> str:
    return created[:16].replace("T", " ")


def _cost(charge: Charge) -> tuple[str, str]:
    """Return the epsilon and the delta of a charge, at the requested delta if that is not 0."""
    from labeldp.privacy import decimal_text, float_above, requested_delta, rounded_up_text

    bound, delta = charge.loss.max_loss, requested_delta([charge])
    if delta:
        return rounded_up_text(charge.loss.epsilon(delta)), decimal_text(float_above(delta))
    return ("no finite ε" if bound is None else decimal_text(float_above(bound))), "0"


def _declare(
    path: str,
    name: str,
    epsilon: str | None,
    delta: str | None,
    *,
    classes: str | None,
    interval: str | None,
    records: int | None,
    unit: str | None,
    change: bool,
    why: str | None,
) -> str:
    """Add a dataset with its budget, or change one by the options of `ledger add`; return a sentence on the result."""
    from labeldp.curator import LedgerFile
    from labeldp.fit import domain_of
    from labeldp.privacy import Budget, InputError, Unit

    if epsilon is None and delta is not None:
        raise InputError("--delta goes with --epsilon: a budget has both")
    if why is not None and not change:
        raise InputError("--reason goes with --change: it is the reason of a change")
    grid, has_domain = None if interval is None else GRID, classes is not None or interval is not None
    domain = domain_of(classes, interval, grid) if has_domain else None
    ledger = LedgerFile(path)
    if epsilon is not None and delta is None:
        exists = change and ledger.exists and name in ledger.datasets()
        delta = ledger.dataset(name).budget.delta if exists else "0"
    budget = None if epsilon is None else Budget(epsilon=epsilon, delta=delta)
    if not change:
        if budget is None and (records or unit) and name in ledger.datasets():
            budget = ledger.dataset(name).budget
        if budget is None:
            raise InputError("--epsilon must be given: the most that all releases of the dataset may cost together")
        ledger.add(name, budget, domain, records, None if unit is None else Unit[UNITS[unit]])
    elif unit is not None:
        raise InputError("--protects does not go with --change: what an account protects stays")
    elif budget is None and domain is None and records is None:
        raise InputError(
            "--change needs what is to be another: --epsilon (and --delta), --classes or --range, or --records"
        )
    else:
        ledger.change(name, budget=budget, domain=domain, records=records, why=why)
    account = ledger.dataset(name).state
    declared = account.domains
    labels = f"; its labels are {' or '.join(form.words for form in declared)}" if declared else ""
    count = "" if records is None else f"; it has {records:,} records"
    protects = "" if unit is None else f"; it protects {Unit[UNITS[unit]].words.unit}"
    return f"{name!r} in {path} has the budget {account.budget}{labels}{count}{protects}. {SECRECY}"


@click.group(cls=CommandGroup)
def ledger() -> None:
    """Manage privacy budgets.

    A ledger file has the budget and the charges of each dataset. It contains the noise keys: protect it like the
    labels.
    """


@ledger.command(
    "show",
    epilog="\b\nExamples:\n  labeldp ledger show people.ledger\n"
    "  labeldp ledger show people.ledger --json > ledger.json\n",
)
@click.argument("path", type=FILE)
@json_option
def ledger_show(path: str, as_json: bool) -> None:
    """Show budgets and releases.

    The ledger file contains the noise keys: protect it like the labels. --json prints its public part, with which
    others can verify certificates.
    """
    from labeldp.audit import export_ledger

    click.echo(json.dumps(export_ledger(path), indent=1) if as_json else describe_ledger(path))


LEDGER_EXAMPLES = """\b
Examples:
  labeldp ledger add people.ledger --dataset bought --epsilon 4 \\
      --delta 1e-6
  labeldp ledger add people.ledger --dataset hours --epsilon 4 \\
      --range 0,80
  labeldp ledger add people.ledger --dataset hours --records 1000
  labeldp ledger add people.ledger --dataset hours --change \\
      --range 0,168 --reason "on call counts, too"
  labeldp ledger add people.ledger --dataset bought --cohort january \\
      --ids people.parquet --id id
"""


@ledger.command("add", epilog=LEDGER_EXAMPLES)
@click.argument("path", type=FILE)
@click.option("--dataset", required=True, metavar="NAME", help="The dataset's name: one for each column of labels.")
@click.option("--epsilon", metavar="NUMBER", help="The most that all its releases may cost together.")
@click.option("--delta", metavar="NUMBER", help="The budget's delta; 0 by default.")
@click.option("--classes", metavar="A,B,…|K", help="Declare what labels can be: class names, or K for codes 0 … K-1.")
@click.option("--range", "interval", metavar="LOW,HIGH", help="Declare the range of labels that are numbers.")
@click.option(
    "--records",
    type=click.IntRange(1),
    metavar="N",
    help="How many records the dataset has: a release of a part of them is refused before it is charged.",
)
@click.option(
    "--protects",
    "unit",
    type=click.Choice(list(UNITS)),
    help="What all releases protect: one label, all labels of one user, or the losses of one round (against any "
    "others, or against none); by default what the first release protects.",
)
@click.option(
    "--change", is_flag=True, help="Give a dataset that is there another budget, domain or number of records."
)
@click.option("--reason", "why", metavar="TEXT", help="With --change: why, for the record.")
@click.option(
    "--cohort", metavar="NAME", help="Add records under this name; the first cohort names the records so far."
)
@click.option("--ids", type=PATH, metavar="FILE", help="With --cohort: a table or folder with their ids.")
@click.option("--id", "id_column", metavar="COLUMN", help="With --cohort: the column of distinct record ids.")
@flags_in_errors()
def ledger_add(
    path: str,
    dataset: str,
    epsilon: str | None,
    delta: str | None,
    cohort: str | None,
    ids: str | None,
    id_column: str | None,
    **options: Any,
) -> None:
    """Add a dataset with its budget, or change it.

    With --records N, a release of another number of records is refused, so that no one charges a fold of a
    cross-validation. A later cohort adds its own records to that number.

    With --cohort NAME --ids FILE --id COLUMN, add records that came later, which then pay for their own releases and
    for those of all records from now on. Their ids must be new; labels in FILE are not read, and nothing is charged.

    The cost of a release may be chosen after looking at others. With a delta, the guarantee of all releases is the
    whole budget.

    The budget is the most that all releases of the dataset may ever cost together. The first domain that labels are
    compared with is the declared one. To declare another is a change: whether labels fit can tell one bit about all of
    them, so certificates of later releases count it. What was spent stays spent.
    """
    warn_if_weak(epsilon)
    arguments = (cohort, ids, id_column)
    if any(argument is not None for argument in arguments) and None in arguments:
        raise click.UsageError("--cohort, --ids and --id go together: a name, and whose ids it is for")
    if cohort is None or any((epsilon, delta, *options.values())):
        click.echo(_declare(path, dataset, epsilon, delta, **options))
    if cohort is not None and ids is not None and id_column is not None:
        from labeldp.releases import add_cohort

        count = add_cohort(ids, id_column=id_column, ledger=path, dataset=dataset, cohort=cohort).records
        click.echo(f"The cohort {cohort!r} of {dataset!r} in {path} has {count:,} records. {CHOICE} {SECRECY}")


OUT = click.option("--out", required=True, type=FILE, help="The new file.")


@ledger.command("backup", epilog="\b\nExample:\n  labeldp ledger backup people.ledger --out safe/people.backup\n")
@click.argument("path", type=FILE)
@OUT
@flags_in_errors(target="--out")
def ledger_backup(path: str, out: str) -> None:
    """Back up a ledger.

    The ledger can be in use. Nothing can be charged to the backup. It is as secret as the ledger.
    """
    from labeldp.curator import back_up

    back_up(path, out)
    click.echo(f"{out} is a backup of {path}, as secret as the labels. Make one after each release.")


@ledger.command("restore", epilog="\b\nExample:\n  labeldp ledger restore safe/people.backup --out people.ledger\n")
@click.argument("backup", type=FILE)
@OUT
@flags_in_errors(target="--out")
def ledger_restore(backup: str, out: str) -> None:
    """Restore a lost ledger from its backup.

    Charges after the backup are not in it. Earlier releases are found as before, and new ones are refused until
    you set each budget again (labeldp ledger add --change --epsilon): to what it was if nothing was released since,
    else to less by all that was. Certificates name this condition. If you find the lost ledger, never
    use both.
    """
    from labeldp.curator import add_command, restore

    names = restore(backup, out).datasets()
    commands = "".join(f"\n  {add_command(Path(out), name)} --change --epsilon …" for name in names)
    click.echo(f"{out} is a ledger again. Closed until their budgets are set: {', '.join(names)}.{commands}\n{SECRECY}")


@ledger.command("move", epilog="\b\nExample:\n  labeldp ledger move people.ledger --out /safe/people.ledger\n")
@click.argument("path", type=FILE)
@OUT
@flags_in_errors(target="--out")
def ledger_move(path: str, out: str) -> None:
    """Move a ledger file.

    The old file then names the new one, so that nothing is charged to two files.

    Where a move was interrupted, the same command ends it. Between computers copy a backup and restore it there.
    """
    from labeldp.curator import move

    move(path, out)
    click.echo(f"The ledger {path} is {out} now; the old file says so, and holds nothing else. {SECRECY}")


@ledger.command("rotate", epilog="\b\nExample:\n  labeldp ledger rotate people.ledger --dataset bought\n")
@click.argument("path", type=FILE)
@click.option("--dataset", required=True, metavar="NAME", help="The dataset's name.")
@click.option("--reason", "why", metavar="TEXT", help="Why, for the record.")
@flags_in_errors()
def ledger_rotate(path: str, dataset: str, why: str | None) -> None:
    """Give a dataset new keys after a leak of the ledger.

    Noise that was drawn before stays exposed. No earlier release is found again: the same release is charged again,
    with new noise. Earlier charges stay.
    """
    from labeldp.curator import rotate_keys

    rotate_keys(path, dataset, why)
    click.echo(f"{dataset!r} in {path} has new keys. Releases so far stay charged, and are not found again. {SECRECY}")
