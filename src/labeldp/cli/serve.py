"""labeldp serve, and labeldp admin for anyone who runs a server."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import click

from labeldp.cli.options import FILE, CommandGroup, flags_in_errors

SHOWN_LINES = 20
"""How many lines of the log are shown, where nothing else is asked for."""


@click.command(epilog="\b\nExample:\n  labeldp serve /etc/labeldp/serve.toml\n")
@click.argument("config", type=FILE)
@flags_in_errors()
def serve(config: str) -> None:
    """Run a label server.

    Analysts may release from its labels, but not see them.

    CONFIG is a file of TOML: the datasets with their labels, ledgers and budgets, and the analysts with their shares.
    Labels and keys are opened by one child process alone, which has another user and no network. Stop it with SIGTERM:
    it first answers requests that were charged. The page "Label server" has a configuration.
    """
    from labeldp.serve import serve as run

    sys.exit(run(config))


@click.group(cls=CommandGroup)
def admin() -> None:
    """Administer a label server."""


@admin.command("token", epilog="\b\nExample:\n  labeldp admin token ana\n")
@click.argument("analyst")
@flags_in_errors()
def admin_token(analyst: str) -> None:
    """Make a token for an analyst.

    The token is printed once and kept nowhere. Another token for the same name replaces the first: releases and
    charges stay with the name.
    """
    from labeldp.serve import check_analyst, hashed, new_token

    check_analyst(analyst)
    token = new_token()
    key = analyst if re.fullmatch("[A-Za-z0-9_-]+", analyst) else json.dumps(analyst, ensure_ascii=False)
    click.echo(f"Give this to {analyst}, and to nobody else:\n  {token}\nWrite this into the configuration:")
    click.echo(f'  [analyst.{key}]\n  token = "{hashed(token)}"')


@admin.command("budget", epilog="\b\nExample:\n  labeldp admin budget /etc/labeldp/serve.toml\n")
@click.argument("config", type=FILE)
@flags_in_errors()
def admin_budget(config: str) -> None:
    """Show the spent budgets of all analysts.

    Run it as the user who may read the ledgers.
    """
    from labeldp.cli.account_options import describe_budget, percent
    from labeldp.curator import LedgerFile
    from labeldp.serve import Config

    for served in Config.read(config).datasets.values():
        file = LedgerFile(served.ledger)
        click.echo(describe_budget(served.ledger, served.name))
        for analyst, share in served.shares.items():
            used = percent(file.dataset(served.name, analyst=analyst).state.used())
            click.echo(f"  {analyst}: has a share of {share}, used {used} of it")


@admin.command("log", epilog="\b\nExample:\n  labeldp admin log /etc/labeldp/serve.toml --head 5f3c…\n")
@click.argument("config", type=FILE)
@click.option("--lines", default=SHOWN_LINES, show_default=True, help="How many of the last lines are shown.")
@click.option("--head", metavar="DIGEST", help="A digest that was printed before: it must still be in the chain.")
@flags_in_errors()
def admin_log(config: str, lines: int, head: str | None) -> None:
    """Check and show the log of a server.

    Lines that were changed or removed from the middle break the chain. Lines that were cut off at the end do not: keep
    the head that this prints elsewhere, and give it the next time.
    """
    from labeldp.privacy import LedgerError
    from labeldp.serve import Config, read_log

    entries = read_log(Config.read(config).state)
    if head is not None and head not in {entry["chain"] for entry in entries}:
        raise LedgerError("the log does not hold this head: lines were cut off, or it is another log")
    for entry in entries[-lines:] if lines > 0 else []:
        click.echo(_line(entry))
    click.echo(f"{len(entries):,} lines, chained. Head: {entries[-1]['chain'] if entries else 'none'}")


def _line(entry: dict[str, Any]) -> str:
    words = [str(entry["at"]), str(entry["what"])]
    words += [str(entry[name]) for name in ("who", "dataset", "mechanism", "charge") if name in entry]
    if entry.get("new") is False:
        words.append("found again")
    if entry.get("late"):
        words.append(f"{entry['late']} answers left late")
    if entry.get("reason"):
        words.append(repr(entry["reason"]))
    return ", ".join(words)
