"""Help texts: commands in groups without a sentence cut off, options in sections, rare ones with --help-all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

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
                callback=self._show_all,
                help="Show every option.",
            )
        )

    @staticmethod
    def _show_all(ctx: click.Context, option: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta["labeldp.help_all"] = True
            click.echo(ctx.get_help())
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each section; of the main ones alone the first sentence."""
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


def _first_sentence(text: str) -> str:
    """Return the first sentence of a help text, and what stands in brackets after it: a default."""
    sentences, bracket, default = text.partition("  [")
    sentence, stop, _ = sentences.partition(". ")
    return sentence + (stop and ".") + bracket + default
