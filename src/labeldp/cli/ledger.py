"""labeldp ledger show, add, backup, restore, move, rotate: options and words."""

from __future__ import annotations

import math
import shlex
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import FILE, PATH, flags_in_errors, warn_if_weak

if TYPE_CHECKING:
    from labeldp.curator import DatasetLedger
    from labeldp.privacy import Charge

GRID = 2
"""The grid of a declared range; ranges that differ in the grid alone are the same domain."""

CHOICE = "Which cohort a record is in must not depend on its label, and certificates say so."

SECRECY = (
    "This file holds the keys to the noise of every release: it is as secret as the labels. "
    "Keep it beside them, and never restore an older copy, which forgets what was spent."
)


def describe_ledger(path: str) -> str:
    """Describe the datasets of a ledger, with their budgets and releases.

    Raises:
        LedgerError: the file does not exist, or is not a ledger.
    """
    from labeldp.curator import LedgerFile
    from labeldp.privacy import LedgerError

    ledger = LedgerFile(path)
    if not ledger.exists:
        raise LedgerError(f"there is no ledger {path}")
    names = ledger.datasets()
    parts = [_dataset(ledger.dataset(name)) for name in names] or ["It has no datasets yet."]
    return "\n\n".join([f"Ledger {path}", *parts, SECRECY])


def _dataset(account: DatasetLedger) -> str:
    """Describe one dataset: its budget, what was spent, and each release in a line."""
    from labeldp.curator import times
    from labeldp.privacy import decimal, rounded_up_text

    lines = [balance_line(account)]
    for domain in account.domains:
        refused = f"; labels were refused {times(domain.refused)}" if domain.refused else ""
        of = f" of {domain.column}" if domain.column else ""
        lines.append(f"  declared domain{of}: {domain.words}, since {_when(domain.created)}{refused}")
    if not account.cohorts and account.declared_records is not None:
        lines.append(f"  declared number of records: {account.declared_records:,}")
    for cohort in account.cohorts:
        if decimal(account.budget.delta, "delta"):
            spent = f"used {percent(account.used(cohort.number))}"
        else:
            spent = f"spent epsilon = {rounded_up_text(account.spent_of(cohort.name).epsilon(), 12)}"
        lines.append(f"  cohort {cohort.name}: {cohort.records:,} records since {_when(cohort.created)}; {spent}")
    if account.differences:
        lines.append(f"  other labels were refused {times(account.differences)}")
    for change in account.changes:
        why = f" ({change.why})" if change.why else ""
        lines.append(f"  {_when(change.created)}, {change.what} changed from {change.before} to {change.after}{why}")
    rotated = any(change.what == "keys" for change in account.changes)
    for entry in account.entries:
        charge = entry.certificate.entries[0]
        words = [_when(entry.created), str(charge.mechanism["mechanism"]), _cost(charge)]
        words += [entry.step.rpartition(": ")[2]] if entry.step else []
        words += [_whose(entry.cohorts)] if entry.cohorts else []
        words += [f"part {part + 1} of split {split[:8]}" for split, part in entry.part]
        words += [f"column {entry.column}"] if entry.column else []
        words += [f"revision {entry.revision}"] if entry.revision else []
        words += [f"keys {entry.generation}"] if rotated else []
        lines.append("  " + ", ".join(words))
    return "\n".join(lines)


def _whose(cohorts: tuple[str, ...]) -> str:
    """Return the cohorts that a release was about, in words."""
    if len(cohorts) == 1:
        return f"cohort {cohorts[0]}"
    return f"cohorts {cohorts[0]} {'and' if len(cohorts) == 2 else 'to'} {cohorts[-1]}"


def _when(created: str) -> str:
    """Return an ISO 8601 time as people write it."""
    return created[:19].replace("T", " ") + " UTC"


def _cost(charge: Charge) -> str:
    """Return the epsilon of a charge, at the requested delta if that is not 0."""
    from labeldp.privacy import decimal_text, float_above, requested_delta, rounded_up_text

    bound, delta = charge.loss.max_loss, requested_delta([charge])
    if delta:
        return f"epsilon {rounded_up_text(charge.loss.epsilon(delta))} at delta {decimal_text(float_above(delta))}"
    return "no finite epsilon at delta 0" if bound is None else f"epsilon {decimal_text(float_above(bound))}"


def describe_budget(path: str, name: str) -> str:
    """Return the line on the budget of a dataset in the ledger file `path`."""
    from labeldp.curator import LedgerFile

    return balance_line(LedgerFile(path).dataset(name))


def balance_line(account: DatasetLedger) -> str:
    """Return a dataset's budget and what was spent of it, as a line."""
    from labeldp.accounting import PROMISE
    from labeldp.privacy import decimal, rounded_up_text

    budget, promised = account.budget, account.promised
    largest = "" if str(promised) == str(budget) else f" Everything together keeps the largest that it had: {promised}."
    if decimal(budget.delta, "delta"):
        used = max(account.used_by.values(), default=Fraction(0))
        said = f"budget {budget}; used {percent(used)} of it. {PROMISE}"
    else:
        cost = rounded_up_text(account.spent.epsilon(), 12)
        said = f"budget {budget}; spent epsilon = {cost}{'.' * bool(largest)}"
    return f"{account.name}: {said}{largest}"


def percent(share: Fraction) -> str:
    """Return a share in percent, rounded up to a hundredth."""
    return f"{math.ceil(share * 10_000) / 100:g} %"


def add_dataset(
    path: str,
    name: str,
    epsilon: str | None,
    delta: str | None = None,
    *,
    classes: str | None = None,
    interval: str | None = None,
    records: int | None = None,
    change: bool = False,
    why: str | None = None,
) -> str:
    """Add a dataset with its budget, or change the budget or declared domain of one; return a sentence on the result.

    Args:
        path: the ledger file.
        name: the dataset's name.
        epsilon, delta: the budget; with `change`, None leaves it as it is.
        classes, interval: the domain of the labels, as on a command line, or None.
        records: how many records the dataset has, or None.
        change: whether to change an existing dataset.
        why: the reason for a change, which the ledger keeps.

    Raises:
        InputError: an argument is missing, or needs `change`.
        LedgerError: the dataset has another budget or domain already or, with `change`, does not exist.
        BudgetExceeded: with `change`, more is reserved to analysts.
    """
    from labeldp.curator import LedgerFile
    from labeldp.fit import domain_of
    from labeldp.privacy import Budget, InputError

    if epsilon is None and delta is not None:
        raise InputError("--delta goes with --epsilon: a budget has both")
    if why is not None and not change:
        raise InputError("--reason goes with --change: it is the reason of a change")
    domain = (
        None
        if classes is None and interval is None
        else domain_of(classes, interval, None if interval is None else GRID)
    )
    ledger = LedgerFile(path)
    if epsilon is not None and delta is None:
        known = change and ledger.exists and name in ledger.datasets()
        delta = ledger.dataset(name).budget.delta if known else "0"
    budget = None if epsilon is None else Budget(epsilon=epsilon, delta=delta)
    if not change:
        if budget is None and records is not None and name in ledger.datasets():
            budget = ledger.dataset(name).budget
        if budget is None:
            raise InputError("--epsilon must be given: the most that all releases of the dataset may cost together")
        ledger.add(name, budget, domain, records)
    elif budget is None and domain is None and records is None:
        raise InputError(
            "--change needs what is to be another: --epsilon (and --delta), --classes or --range, or --records"
        )
    else:
        ledger.change(name, budget, domain, why, records=records)
    account = ledger.dataset(name)
    declared = account.domains
    labels = f"; its labels are {' or '.join(each.words for each in declared)}" if declared else ""
    count = "" if records is None else f"; it has {records:,} records"
    return f"{name!r} in {path} has the budget {account.budget}{labels}{count}. {SECRECY}"


def add_records(path: str, name: str, cohort: str, ids: str, id_column: str) -> str:
    """Add the records of a file to a dataset as a cohort; return a sentence on the result.

    Args:
        path: the ledger file.
        name: the dataset's name.
        cohort: the cohort's name.
        ids: a file or folder that holds the record ids.
        id_column: their column.

    Raises:
        InputError: an id is missing or occurs twice, or there is no such column; nothing was added.
        LedgerError: an id is in another cohort, or the dataset takes no cohorts; nothing was added.
    """
    from labeldp.fit import add_cohort

    found = add_cohort(ids, id_column=id_column, ledger=path, dataset=name, cohort=cohort)
    return f"The cohort {cohort!r} of {name!r} in {path} has {found.records:,} records. {CHOICE} {SECRECY}"


@click.group()
def ledger() -> None:
    """Show a ledger file, set a budget and the domain of labels, or keep the file itself."""


@ledger.command("show", epilog="\b\nExample:\n  labeldp ledger show people.ledger\n")
@click.argument("path", type=FILE)
def ledger_show(path: str) -> None:
    """Show the datasets of a ledger, their budgets and what was released.

    The ledger itself is as secret as the labels: it holds the keys to the noise.
    """
    click.echo(describe_ledger(path))


LEDGER_EXAMPLES = """\b
Examples:
  labeldp ledger add people.ledger --dataset bought --epsilon 4 --delta 1e-6
  labeldp ledger add people.ledger --dataset hours --epsilon 4 --range 0,80
  labeldp ledger add people.ledger --dataset hours --records 1000
  labeldp ledger add people.ledger --dataset hours --change --range 0,168 --reason "on call counts, too"
  labeldp ledger add people.ledger --dataset bought --cohort january --ids people.parquet --id id
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
    **others: Any,
) -> None:
    """Add a dataset with its budget, or change it on record.

    With --records N, a release of another number of records is refused, so that nobody charges a fold of a
    cross-validation. A later cohort adds its own records to that number.

    With --cohort NAME --ids FILE --id COLUMN, add records that came later, which then pay for their own releases and
    for those of all records from now on. Their ids must be new; labels in FILE are not read, and nothing is charged.

    The cost of a release may be chosen after looking at others. With a delta the budget is promised of all of them, and
    no smaller epsilon of those so far.

    The budget is the most that all releases of the dataset may ever cost together. The first domain that labels are
    compared with is the declared one. To declare another is a change: whether labels fit can tell one bit about all of
    them, so certificates of later releases count it. What was spent stays spent.
    """
    warn_if_weak(epsilon)
    given = (cohort, ids, id_column)
    if any(each is not None for each in given) and None in given:
        raise click.UsageError("--cohort, --ids and --id go together: a name, and whose ids it is for")
    if cohort is None or any((epsilon, delta, *others.values())):
        click.echo(add_dataset(path, dataset, epsilon, delta, **others))
    if cohort is not None and ids is not None and id_column is not None:
        click.echo(add_records(path, dataset, cohort, ids, id_column))


OUT = click.option("--out", required=True, type=FILE, help="The new file.")


@ledger.command("backup", epilog="\b\nExample:\n  labeldp ledger backup people.ledger --out safe/people.backup\n")
@click.argument("path", type=FILE)
@OUT
@flags_in_errors(target="--out")
def ledger_backup(path: str, out: str) -> None:
    """Copy a ledger, which may be in use, into a backup that nothing can be charged to.

    The backup is as secret as the ledger.
    """
    from labeldp.curator import back_up

    back_up(path, out)
    click.echo(f"{out} is a backup of {path}, as secret as the labels. Make one after each release.")


@ledger.command("restore", epilog="\b\nExample:\n  labeldp ledger restore safe/people.backup --out people.ledger\n")
@click.argument("backup", type=FILE)
@OUT
@flags_in_errors(target="--out")
def ledger_restore(backup: str, out: str) -> None:
    """Make a ledger of a backup where the ledger itself is lost.

    What was charged after the backup is not in it. Earlier releases are found as before, and new ones are refused until
    you set each budget again (labeldp ledger add --change --epsilon): to what it was if nothing was released since,
    else to less by all that was. Certificates name this condition. Never use it beside the lost ledger, should that
    turn up.
    """
    from labeldp.curator import restore

    names = ", ".join(restore(backup, out).datasets())
    click.echo(
        f"{out} is a ledger again. Closed until their budgets are set: {names}. For each: labeldp ledger add "
        f"{shlex.quote(out)} --dataset NAME --change --epsilon E. {SECRECY}"
    )


@ledger.command("move", epilog="\b\nExample:\n  labeldp ledger move people.ledger --out /safe/people.ledger\n")
@click.argument("path", type=FILE)
@OUT
@flags_in_errors(target="--out")
def ledger_move(path: str, out: str) -> None:
    """Move a ledger, and leave word at its old place, so that nobody charges to two files.

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
    """Give a dataset new keys, after an old copy of the ledger got out.

    Noise that was drawn before stays as exposed as it was. Nothing that was released before is found again: the same
    release is charged anew, with noise of its own. What was spent stays spent.
    """
    from labeldp.curator import rotate_keys

    rotate_keys(path, dataset, why)
    click.echo(f"{dataset!r} in {path} has new keys. Releases so far stay charged, and are not found again. {SECRECY}")
