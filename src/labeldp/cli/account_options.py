"""The ledger and the dataset of labels in a file, where the options of a command leave them out."""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from labeldp.cli.options import note, program
from labeldp.privacy import Budget, InputError, LedgerError, Scope, decimal

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp")
"""Suffixes of files that make a folder one of images."""


def complete_account(options: dict[str, Any]) -> None:
    """Fill in the ledger and the dataset; put `create_ledger` in place of `new_budget`, a function that creates it.

    Args:
        options: of a command on private labels.

    Raises:
        InputError: an option is missing, or the ledger has no default.
    """
    budget = options.pop("new_budget")
    options["create_ledger"] = lambda: None
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
    stem = Path(path.name.removesuffix(".gz")).stem
    defaults = options["ledger"] is None or options["dataset"] is None
    if options["ledger"] is None:
        options["ledger"] = str(_ledger_next_to(path, stem))
    if options["dataset"] is None:
        options["dataset"] = f"{stem}/{options['label']}"
    if defaults or budget is not None:
        names = options["ledger"], options["dataset"], budget, options["epsilon"], options.get("delta") or "0"
        options["create_ledger"] = partial(_create_ledger, *names)


def is_terminal() -> bool:
    """Return whether somebody can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ledger_next_to(data: Path, stem: str) -> Path:
    """Return the ledger of a file.

    Raises:
        InputError: it would be new, and in a folder of images or a read-only folder; or the data are no file.
    """
    if not data.exists():
        raise InputError(f"no such file or folder: {data}")
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


def _create_ledger(path: str, dataset: str, epsilon: str | None, cost: str, delta: str) -> None:
    """Create a ledger with a budget, unless the dataset is there.

    Args:
        path: of the ledger.
        dataset: what is charged.
        epsilon: of the budget; None to ask on a terminal.
        cost: the epsilon of the release.
        delta: of the release, and of the budget.

    Raises:
        InputError: the ledger is new, and no budget is given.
        LedgerError: the ledger has another budget, or other datasets.
    """
    from labeldp.curator import LedgerFile

    ledger, whole = LedgerFile(path), Scope.parse(dataset).dataset
    names = ledger.datasets() if ledger.exists else ()
    change = f"labeldp ledger add {shlex.quote(path)} --dataset"
    for name in {dataset, whole} & set(names):
        budget = ledger.dataset(name).budget
        if epsilon is not None and decimal(epsilon, "new-budget") != decimal(budget.epsilon, "epsilon"):
            raise LedgerError(
                f"--new-budget: {path} has a budget for {name!r} already ({budget}). Leave the option out, or change "
                f"the budget: {change} {shlex.quote(name)} --change --epsilon {epsilon}"
            )
        return
    if names:
        others = ", ".join(map(repr, names))
        raise LedgerError(
            f"{path} has no dataset {whole!r}, but {others}. If these are the same labels, use --dataset "
            f"{shlex.quote(names[0])}; otherwise add a dataset: {change} {shlex.quote(whole)} --epsilon {cost}"
        )
    if epsilon is None:
        if not is_terminal():
            command = shlex.join([program(), *sys.argv[1:]])
            raise InputError(
                f"the ledger {path} does not exist. Create it with a budget, the most that all releases of {whole!r} "
                f"may cost together:\n       {command} --new-budget {cost}"
            )
        epsilon = click.prompt(f"{path} does not exist. Budget ε of all releases of {whole!r}", err=True)
    budget = Budget(epsilon, delta)
    ledger.add(whole, budget)
    note(
        f"Created {path} (only you can read it): the budget of {whole!r} is {budget}. The file contains the noise "
        "keys: protect it like the labels"
    )
