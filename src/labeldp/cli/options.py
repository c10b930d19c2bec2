"""Options, help texts, messages and progress that commands share."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from shutil import which
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import click

__all__ = ["CommandGroup", "SectionedCommand"]

WIDEST = 34
"""The most characters of an option and its values; a longer list of choices is named in the option's help."""


class CommandGroup(click.Group):
    """A group of commands whose help shows the whole first sentence of each."""

    sections: Mapping[str, Iterable[str]] = MappingProxyType({})
    """The commands of each section; without any, all commands are in one."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, a section after the other."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        width = max(map(len, commands), default=0)
        for title, names in (self.sections or {"Commands": tuple(commands)}).items():
            with formatter.section(title):
                rows = [(name.ljust(width), command) for name in names if (command := commands[name])]
                formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in rows])


class SectionedCommand(click.Command):
    """A command whose help has the main options in sections, and --help-all every option.

    Args:
        sections: the names of the options in each section; options that none names are in the last.
        frequent: the names of those that --help shows.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Sequence[str]], frequent: Sequence[str], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.sections, self.frequent = sections, frequent
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help="Show every option.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each section, and only their first sentence without --help-all."""
        everything = ctx.meta.get("labeldp.help_all", False)
        records = {}
        for option in self.get_params(ctx):
            frequent = option.name in self.frequent or {"--help", "--help-all"} & set(option.opts)
            if (everything or frequent) and (record := option.get_help_record(ctx)):
                names, text = record
                names = names if len(names) <= WIDEST else f"{option.opts[0]} NAME"
                records[str(option.name)] = (names, text if everything else _first_sentence(text))
        *_, last = self.sections
        for title, wanted in self.sections.items():
            rows = [records.pop(name) for name in wanted if name in records]
            rows += records.values() if title == last else ()
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _show_all(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta["labeldp.help_all"] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _first_sentence(text: str) -> str:
    """Return the first sentence of a help text and its default in brackets."""
    sentences, bracket, default = text.partition("  [")
    sentence, stop, _ = sentences.partition(". ")
    return sentence + (stop and ".") + bracket + default


P = ParamSpec("P")
R = TypeVar("R")

FILE = click.Path(dir_okay=False, path_type=str)
PATH = click.Path(path_type=str)


def program() -> str:
    """Return how labeldp is called from here: by its path, where the shell would not find it by its name."""
    called = Path(sys.argv[0])
    if which("labeldp") or called.name != "labeldp":
        return "labeldp"
    here = Path.cwd()
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


_SAME = {"name": "dataset", "columns": "features", "ids": "id_column", "id": "id_column"}
"""The option that a function's argument comes from, where the two have different names."""


def flags_in_errors(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes errors of a command name its options instead of arguments of functions.

    `names` are the flags of arguments whose names differ from the option's.
    """

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            from labeldp.privacy import InputError

            try:
                return command(*args, **kwargs)
            except InputError as error:
                options = click.get_current_context().command.params
                flags = {
                    option.name: option.opts[0]
                    for option in options
                    if isinstance(option, click.Option) and option.name
                }
                same = {name: flags[flag] for name, flag in _SAME.items() if flag in flags}
                raise InputError(error.typed(same | flags | names)) from error

        return run

    return decorate


@contextmanager
def suggest_budget_change(ledger: Any, dataset: Any) -> Iterator[None]:
    """Add the command that changes a budget to any BudgetExceeded of the body."""
    from labeldp.curator import LedgerFile, add_command
    from labeldp.privacy import BudgetExceeded, Scope

    try:
        yield
    except BudgetExceeded as error:
        name = dataset if dataset in LedgerFile(ledger).datasets() else Scope.parse(dataset).dataset
        words = add_command(Path(ledger), name)
        end = f"Use a smaller --epsilon, or raise the budget: {words} --change --epsilon … --reason …"
        raise BudgetExceeded(f"{str(error).removesuffix('.')}. {end}") from None


def warn_if_weak(*epsilons: Any, about: str = "one label") -> None:
    """Warn on stderr about each epsilon above 10; what is not a number is refused elsewhere."""
    from labeldp.privacy import InputError, decimal, weak_promise

    for value in epsilons:
        with suppress(InputError):
            sentence = weak_promise(float(decimal(value, "epsilon")), about)
            if sentence:
                note(sentence)


def add_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, in the order of its help."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


curator_options = add_options(
    click.option(
        "--curator",
        metavar="ADDRESS",
        help="In place of --ledger: the server that holds the labels of --dataset (unix:PATH or https://HOST:PORT). "
        "Your token is read from the environment variable LABELDP_TOKEN, or from --token-file.",
    ),
    click.option("--token-file", type=FILE, help="With --curator: a file with your token, and nothing else."),
    click.option(
        "--server-certificate",
        type=FILE,
        help="With --curator: a file of certificates that the server's is checked with.",
    ),
    click.option(
        "--reason", metavar="TEXT", help="With --curator: what you need it for; the owner reads it in the log."
    ),
)
"""The options of a command that may ask a server for releases."""


def remote_curator(options: dict[str, Any]) -> Any:
    """Return the curator of the labels that a server holds; None where they are in the file.

    Options that only say how to reach the server are taken out.
    """
    from labeldp.privacy import InputError

    address, file = options["curator"], options.pop("token_file")
    more = {"certificate": options.pop("server_certificate"), "reason": options.pop("reason")}
    if address is None:
        flags = {"--token-file": file, "--server-certificate": more["certificate"], "--reason": more["reason"]}
        if extra := [name for name, value in flags.items() if value is not None]:
            raise InputError(f"{extra[0]} goes with --curator")
        return None
    if options["ledger"] is not None:
        raise InputError("--ledger does not go with --curator: the server charges its own")
    try:
        token = os.environ.get("LABELDP_TOKEN", "") if file is None else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"--token-file {file} cannot be read") from None
    if not token.strip():
        raise InputError("--curator needs your token, in the environment variable LABELDP_TOKEN or in --token-file")
    from labeldp.serve import connect

    return connect(address, token=token, dataset=options["dataset"], **more | {"reason": more["reason"] or ""})


domain_options = add_options(
    click.option("--classes", metavar="A,B,…|K", help="The class names in any order, or K for codes 0 … K-1."),
    click.option("--range", "interval", metavar="LOW,HIGH", help="The range, where labels are numbers."),
    click.option("--grid", type=int, show_default="1025", help="With --range: how many grid points it has."),
    click.option("--clip", is_flag=True, help="Replace numbers outside the range by its nearest end."),
)
"""The options that declare the domain of the labels."""

new_budget_option = click.option(
    "--new-budget", metavar="NUMBER", help="Create the ledger with this epsilon as the budget of all releases."
)
"""The option that creates a ledger."""

user_option = click.option(
    "--user",
    "user_column",
    metavar="COLUMN",
    help="The user behind each record, not a feature. All labels of a user are protected together.",
)

user_options = add_options(
    user_option,
    click.option(
        "--per-user",
        type=click.IntRange(1),
        metavar="N",
        help="With --user: use at most N records of a user; by default all for sums, chosen for randomized labels.",
    ),
)
"""The options that protect all labels of a user."""

bag_options = add_options(
    click.option("--size", type=int, help="Bags: how many records the smallest has."),
    click.option(
        "--delta", metavar="NUMBER", help="Bags and --user: the delta that this release costs; 0 for a pure guarantee."
    ),
    click.option(
        "--bags",
        metavar="median|random|COLUMN",
        help="Bags of similar records, at random, or a public column with a value for each bag.",
    ),
    click.option("--noisy", type=int, help="noisy-weighted-llp: how many labels of each bag get noise."),
    click.option("--weights", type=click.Choice(["rademacher", "gaussian"]), help="noisy-weighted-llp: its weights."),
    click.option("--rows", type=int, help="weighted-lba: how many weighted sums of each bag."),
)
"""The options of mechanisms on bags."""


class _MethodOption(click.Option):
    """An option whose help lists the online methods, which are imported only when the help is shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from labeldp.online import methods_of

        self.help = f"auto takes the smallest bound that holds for any losses. Or: {', '.join(methods_of('experts'))}."
        return super().get_help_record(ctx)


online_options = add_options(
    click.option(
        "--epsilon", required=True, metavar="NUMBER", help="The privacy parameter that all rounds cost together."
    ),
    click.option(
        "--delta", default="1e-6", show_default=True, metavar="NUMBER", help="The delta that all rounds cost together."
    ),
    click.option("--method", default="auto", show_default=True, metavar="NAME", cls=_MethodOption),
    click.option(
        "--neighbors",
        type=click.Choice(["replace", "zero-out"]),
        default="replace",
        show_default=True,
        help="What is hidden: that the losses of a round were replaced by others, or set to zero.",
    ),
    click.option(
        "--loss-bits",
        type=click.Choice(["8", "16"]),
        default="8",
        show_default=True,
        help="Precision of the losses, in bits.",
    ),
)
"""The options of an online learner, whether it is planned or run."""


quiet_option = click.option(
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, value: context.find_root().meta.update({"labeldp.quiet": value}),
    help="Print results and warnings alone.",
)
"""The option that hides progress."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""The option that prints a result for programs."""


def is_quiet() -> bool:
    """Return whether the user asked for no progress."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().meta.get("labeldp.quiet", False))


def note(sentence: str) -> None:
    """Print a sentence on stderr, once in a run."""
    context = click.get_current_context(silent=True)
    notes = set() if context is None else context.find_root().meta.setdefault("labeldp.notes", set())
    if sentence not in notes:
        notes.add(sentence)
        (_bars[-1] if _bars else partial(click.echo, err=True))(sentence)


_bars: list[Callable[[str], None]] = []
"""Functions that print a line above a bar, the innermost last."""


WIDTH = 80
"""The most characters of a line."""


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines with aligned columns; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


@contextmanager
def progress(title: str, *, lines: bool = False) -> Iterator[Callable[[str, float], None] | None]:
    """Show progress on stderr: a bar on a terminal, else a line for each stage if there are to be `lines`.

    On a terminal each stage that ended stays as a line, if there are to be `lines`. Notes are printed above the bar.

    Yields:
        A function of a text, whose stage is what stands before a colon, and a share in [0, 1]; or None.
    """
    if is_quiet():
        yield None
        return
    if not sys.stderr.isatty():
        yield _line_by_line() if lines else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    text = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), Elapsed(), TextColumn("/ ~"), Remaining()
    width = 80 if os.environ.get("COLUMNS") == "0" else None  # rich would print nothing, notes included
    console = Console(stderr=True, highlight=False, width=width)
    write = partial(console.print, markup=False, soft_wrap=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task, stage, start = bar.add_task(_capitalized(title), total=1.0), "", time.monotonic()

        def show(text: str, share: float) -> None:
            nonlocal stage, start
            before, stage = stage, text.partition(":")[0]
            if stage != before:
                if lines and before in _ENDED:
                    write(f"\N{CHECK MARK} {_ENDED[before]} in {time.monotonic() - start:.0f} s")
                start = time.monotonic()
            bar.update(task, description=_capitalized(text), completed=share)

        _bars.append(write)
        try:
            yield show
            show("", 1.0)
        finally:
            _bars.pop()


_ENDED = {"training": "Trained", "evaluating": "Evaluated", "simulating other ε": "Simulated other ε"}
_ENDED |= {"ranking features": "Ranked features"}
"""What is said of stages that ended; of reading, the fit itself says what was read."""


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _line_by_line() -> Callable[[str, float], None]:
    """Return a function that prints a line, with the seconds so far, where a stage begins, once work has begun."""
    start, before = time.monotonic(), [""]

    def show(text: str, share: float) -> None:
        stage = text.partition(":")[0]
        if share and stage != before[-1]:
            before.append(stage)
            note(f"[{time.monotonic() - start:4.0f} s] {stage}")

    return show
