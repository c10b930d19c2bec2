"""The command line: parse options, call one workflow, print. Heavy modules are imported when a command needs them."""

import os
import sys
import warnings
from importlib import import_module
from typing import Any

import click

from labeldp.cli.options import CommandGroup, note
from labeldp.cli.streams import UNPRINTED, standard_streams

__all__ = ["COMMANDS", "cli", "main"]
_EPILOG = "Every command has examples: labeldp COMMAND --help."

SECTIONS = {
    "Train": {
        "fit": "labeldp.cli.fit:fit",
        "predict": "labeldp.cli.fit:predict",
        "report": "labeldp.cli.fit:report",
        "demo": "labeldp.cli.fit:demo",
    },
    "Release": {
        "release": "labeldp.cli.release:release",
        "estimate": "labeldp.cli.estimate:estimate",
        "online": "labeldp.cli.online:online",
    },
    "Plan": {"choose": "labeldp.cli.advice:choose", "plan": "labeldp.cli.advice:plan"},
    "Budget": {"ledger": "labeldp.cli.ledger:ledger", "account": "labeldp.cli.account:account"},
    "Check": {
        "certificate": "labeldp.cli.certificate:certificate",
        "sign": "labeldp.cli.certificate:sign",
        "audit": "labeldp.cli.audit:audit",
    },
    "Server": {"serve": "labeldp.cli.serve:serve", "admin": "labeldp.cli.serve:admin"},
}
"""Where each command is defined, by section and name; its module is imported when the command is used."""

COMMANDS = {name: target for commands in SECTIONS.values() for name, target in commands.items()}
"""Where each command is defined, by name."""


class _Commands(CommandGroup):
    """A group that imports a command only when it is used, so that each starts fast."""

    sections = SECTIONS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; a mistyped one is refused with the nearest name."""
        if args[0] not in COMMANDS:
            from labeldp.privacy import did_you_mean

            near = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"there is no command {args[0]!r}{near and f'; {near}'}", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command


@click.group(
    cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="labeldp", message="%(prog)s %(version)s")
def cli() -> None:
    """Train models and publish statistics from private labels.

    Features are public, labels are private. labeldp records each release in a
    ledger file before it leaves. The ledger contains the noise keys: protect it
    like the labels.
    """


def main(command: click.Command = cli) -> None:
    """Run a command line; report a user's mistake as one line on stderr and exit with status 1.

    A command that finished but could not print its result says so, and exits with status 74.
    """
    # Waiting threads that spin slow everybody down on shared cores; this is read when the numerical libraries load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.showwarning = _show_warning
    with standard_streams():
        status = _run(command)
        sys.stdout.flush()
        failure = getattr(sys.stdout, "failure", None)
        if failure is not None:
            click.echo(f"Error: the result could not be printed: {failure.strerror}{'' if status else _DONE}", err=True)
            status = status or UNPRINTED
    if status:
        sys.exit(status)


_DONE = ". The command itself finished: the files that it writes are complete, and its charges are made"


def _run(command: click.Command) -> int:
    """Run a command line, report what went wrong on stderr, and return the exit status."""
    try:
        status = command(standalone_mode=False)
        return status if isinstance(status, int) else 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
        help_of = f" (see {path} --help)" if path else ""
        click.echo(f"Error: {error.format_message().rstrip('.')}{help_of}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted: no output was published. Running the same command again finishes it.", err=True)
        return 130
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        click.echo(f"Error: {sentence}", err=True)
        return 1


def _show_warning(message: Warning | str, category: type[Warning], *location: Any, **options: Any) -> None:
    """Show a warning about a guarantee as one line on stderr; commands say of a new ledger themselves."""
    from labeldp.privacy import NewLedgerWarning, PrivacyWarning

    if not issubclass(category, PrivacyWarning):
        _SHOW_OTHERS(message, category, *location, **options)
    elif not issubclass(category, NewLedgerWarning):
        note(str(message))


_SHOW_OTHERS = warnings.showwarning


def _sentence(error: Exception) -> str | None:
    from labeldp.privacy import LabelDPError

    if isinstance(error, LabelDPError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or 'the system refused'}: {error.filename or 'a file'}"
    return None
