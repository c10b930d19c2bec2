"""Default ledger and dataset of labels in a file, and the line that describes a budget."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from labeldp.cli.options import FILE, add_options, new_budget_option, program, suggest_budget_change

if TYPE_CHECKING:
    from labeldp.curator import DatasetSnapshot
    from labeldp.privacy import Budget

P = ParamSpec("P")
R = TypeVar("R")

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
"""Suffixes of files that make a folder one of images."""


def complete_account(options: dict[str, Any]) -> None:
    """Fill in the ledger and the dataset; replace `new_budget` by a function without arguments that returns it."""
    from labeldp.privacy import InputError, path_text
    from labeldp.tables import FORMATS, open_table

    budget, options["new_budget"] = options["new_budget"], lambda: None
    if options.get("curator") is not None:
        if options["dataset"] is None:
            raise InputError("--dataset must be given with --curator: the name of the server's dataset")
        if budget is not None:
            raise InputError("--new-budget does not go with --curator: the server has its own budgets")
        return
    if options["data"] is None:
        raise InputError("DATA must be given, or --curator of a server that has features")
    if options["label"] is None:
        raise InputError("--label must be given, or --curator where a server holds the labels")
    path = Path(options["data"])
    if path.exists() and (options.get("engine") == "labeldp" or any(kind.names(path) for kind in FORMATS.values())):
        open_table(path).require(options["label"], "--label")  # before questions about ledgers: columns are public
    stem = Path(path.name.removesuffix(".gz")).stem
    if options["ledger"] is None:
        options["ledger"] = str(ledger_next_to(path))
    if options["dataset"] is None:
        options["dataset"] = f"{path_text(stem)}/{options['label']}"
    names = options["ledger"], options["dataset"], budget, options["epsilon"], options.get("delta") or "0"
    options["new_budget"] = partial(budget_of_new_ledger, *names)


def is_terminal() -> bool:
    """Return whether someone can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ledger_next_to(data: Path) -> Path:
    """Return the ledger of a file; refuse a new one in a folder of images or a read-only folder."""
    from labeldp.privacy import InputError

    if not data.exists():
        raise InputError(f"no such file or folder: {data}")
    stem = Path(data.name.removesuffix(".gz")).stem
    ledger, folder = data.with_name(f"{stem}.ledger"), data.absolute().parent
    use = "Use --ledger FILE, in a folder that only you can read"
    if data.is_dir():
        raise InputError(f"--ledger must be given for a folder: labeldp creates no ledger next to one. {use}")
    if not ledger.exists():
        if any(path.suffix.lower() in PICTURES for path in folder.iterdir()):
            raise InputError(f"--ledger must be given: {folder} has images, and labeldp creates no ledger there. {use}")
        if not os.access(folder, os.W_OK):
            raise InputError(f"--ledger must be given: the folder {folder} is read-only. {use}")
    return ledger


def budget_of_new_ledger(path: str, dataset: str, epsilon: str | None, cost: str, delta: str = "0") -> Budget | None:
    """Return the budget with which a release creates its ledger, None if the ledger has the dataset.

    If the epsilon of the budget is missing, a terminal asks for it. The delta of the budget is that of the release.
    """
    from labeldp.curator import add_command, read_account
    from labeldp.privacy import Budget, InputError, LedgerError, Scope, decimal, positive_epsilon

    account, table = read_account(path, dataset), Scope.parse(dataset).dataset
    if account is not None:
        name = account.scope.dataset
        # The same command again may name the budget that the dataset had at first.
        budgets = [str(account.budget), *(change.before for change in account.changes if change.what == "budget")]
        former = {decimal(words.partition(",")[0].removeprefix("epsilon = "), "epsilon") for words in budgets}
        if epsilon is not None and positive_epsilon(epsilon, "new_budget") not in former:
            raise LedgerError(
                f"--new-budget: {path} has a budget for {name!r} already ({budgets[0]}). Leave it out, or change "
                f"the budget: {add_command(Path(path), name)} --change --epsilon {shlex.quote(epsilon)}"
            )
        return None
    if epsilon is None:
        if not is_terminal():
            command = shlex.join([program(), *sys.argv[1:]])
            raise InputError(
                f"the ledger {path} does not exist. Create it with a budget, the most that all releases of {table!r} "
                f"may cost together:\n       {command} --new-budget {cost}"
            )
        epsilon = click.prompt(f"{path} does not exist. Budget ε of all releases of {table!r}", err=True)
    return Budget(positive_epsilon(epsilon, "new_budget"), delta)


def private_label_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options of every command on private labels; the command gets a complete account."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        complete_account(kwargs)
        if kwargs["ledger"] is None:  # a server's
            return command(*args, **kwargs)
        with suggest_budget_change(kwargs["ledger"], kwargs["dataset"]):
            return command(*args, **kwargs)

    return add_options(
        click.option(
            "--label", required=True, metavar="COLUMN", help="The column (of an .npz file the array) of private labels."
        ),
        click.option(
            "--ledger",
            type=FILE,
            help="The ledger file. Protect it like the labels; by default STEM.ledger next to the file STEM.csv.",
        ),
        click.option(
            "--dataset",
            metavar="NAME",
            help="The dataset's name in the ledger. By default STEM/COLUMN for a file STEM.csv: all label columns of a "
            "file share the budget of STEM.",
        ),
        new_budget_option,
        click.option(
            "--cohort",
            metavar="NAME",
            help="DATA holds only this cohort of the dataset (labeldp ledger add --cohort); by default all records.",
        ),
        click.option(
            "--revision", metavar="NAME", help="A new name for labels that have changed; charged in addition."
        ),
        click.option(
            "--other-ids",
            is_flag=True,
            help="Charge labels once more that were released without --id and have one now, or the other way around.",
        ),
    )(run)


def held_label_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options of a command on private labels that are in a file, or that a server holds."""
    command = private_label_options(command)
    for option in command.__click_params__:  # type: ignore[attr-defined]
        if option.name in ("label", "ledger"):
            option.required = False
            option.help += (
                " Not with --curator." if option.name == "ledger" else " With --curator: that of --test alone."
            )
    return command


def describe_budget(path: str | os.PathLike[str], name: str) -> str:
    """Return a dataset in a ledger file and how much of its budget is spent, as a line."""
    from labeldp.curator import read_account

    account = read_account(path, name)
    assert account is not None, "the command has charged it"
    return f"{account.scope.name!r}: {balance(account)} spent"


def budget_share(account: DatasetSnapshot) -> Fraction:
    """Return how much of a budget is spent."""
    from labeldp.privacy import decimal

    if decimal(account.budget.delta, "delta"):
        return max(account.used_by.values(), default=Fraction(0))
    return Fraction(account.spent.epsilon()) / decimal(account.budget.epsilon, "epsilon")


def balance(account: DatasetSnapshot) -> str:
    """Return the spent part of a budget: ε, or the share if δ is positive and no difference remains."""
    from labeldp.privacy import decimal, decimal_text, rounded_up_text

    epsilon, delta = decimal_text(account.budget.epsilon), decimal(account.budget.delta, "delta")
    if delta:
        return f"{percent(budget_share(account))} of ε = {epsilon}, δ = {decimal_text(account.budget.delta)}"
    return f"ε {rounded_up_text(account.spent.epsilon(), 12)} of {epsilon}"


def percent(share: Fraction) -> str:
    """Return a share in percent, rounded up to a hundredth."""
    return f"{math.ceil(share * 10_000) / 100:g} %"
