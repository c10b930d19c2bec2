"""Report words and sentences to write otherwise: `make words`. It fails nothing.

It prints patterns of style in the pages, the help, docstrings and errors, local names that are no nouns, and the
lengths of sentences of each group of pages.
"""

import ast
import re
from collections.abc import Iterator

import click

from architecture.sentences import grouped, lengths
from architecture.source import PACKAGE, ROOT
from labeldp.cli import cli

PATTERNS = {
    r"\b(?:nobody|somebody|whoever|anybody|everybody)\b": "no one, anyone, or a role: curator, analyst, attacker",
    r"\bnoises\b": "runs, noise draws",
    r"\banew\b": "again",
    r"(?:^|[.:;] )Of (?:each|every|all|an?|the|those|these|many|classes|numbers|labels|bins|one)\b": "the subject",
    r"\bwhat (?:is|was|were|are) (?:promised|released|charged|spent|asked|found|protected|measured|learned|certified"
    r"|paid)\b": "the guarantee, the release, the charge, the cost",
    r"\b(?:aimed at|wanted at|was asked of|its aims?|all six aims)\b": "nothing",
    r"\bon one footing\b": "with the same data and features",
    r"\bas (?:it is|they are|it was|they were)\b": "unchanged",
    r"\bof (?:yours|one's own|theirs|its own|their own|ours)\b": "its own …",
    r"\bstands? (?:in|on|beside|at|below|above|under|there)\b": "is in",
    r"\bbeside\b": "next to, in addition to",
    r"\b(?:all|each|every|the|own|other|another) rooms?\b": "subpackage",
    r"\bmade[- ]up\b|\bmak(?:es?|ing) (?:\w+ ){1,3}up\b": "synthetic",
    r"\bpromis(?:e|es|ed)\b": "guarantee",
    r"\banswer(?:s|ed)? (?:by|plainly|with|that)\b|\bplainly\b": "randomized by, noisy label",
    r"\b(?:without|with) a look\b|\blooked? at\b|\bto look\b": "without reading the labels",
    r"\bfor life\b|\bin life\b": "total budget",
    r"\b(?:is|are|was|were) put back\b": "restored",
    r"\b(?:that|those) of (?:the|a|an|one|each|its|their)\b": "the noun again",
    r"\b(?:in|with) (?:nobody|anybody)\b|\btrust in\b": "local model, central model",
}
"""What to write instead of each pattern."""

WAITING = ("choose.md", "first-day.md", "fitting.md", "imagenet-features.md", "inference.md", "intervals.md")

PRONOUNS = {
    *("each", "found", "place", "own", "known", "kept", "asked", "given"),
    *("told", "made", "most", "least", "whole", "rest", "others"),
}
"""Local names that are pronouns or participles."""


def hits(where: str, text: str) -> list[str]:
    """A line for each pattern in a text, but for lines with an exemption: `<!-- words: reason -->`."""
    if "<!-- words:" in text:
        return []
    found = ((match[0], better) for pattern, better in PATTERNS.items() if (match := re.search(pattern, text, re.I)))
    return [f"{where}: {phrase!r} → {better}" for phrase, better in found]


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """The context of a command and of those below it, with every option in the help."""
    context.meta["labeldp.help_all"] = True
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, click.Context(below, info_name=name, parent=context))


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Each node of the package, with its file and line."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            yield f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", node


def in_pages() -> Iterator[str]:
    """Patterns in the pages. Proofs and some pages of results wait for their own pass."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        if {"api", "proofs"} & set(page.relative_to(ROOT).parts):
            continue
        if page.parent.name != "results" or page.name not in WAITING:
            for number, line in enumerate(page.read_text().splitlines(), 1):
                yield from hits(f"{page.relative_to(ROOT)}:{number}", line)


def in_help() -> Iterator[str]:
    """Patterns in the help of commands."""
    for context in commands(cli, click.Context(cli, info_name="labeldp")):
        for line in context.get_help().splitlines():
            yield from hits(context.command_path, line)


def in_code() -> Iterator[str]:
    """Patterns in first lines of docstrings and in errors."""
    for where, node in nodes():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from hits(where, (ast.get_docstring(node) or "").partition("\n")[0])
        elif isinstance(node, ast.Raise) and node.exc is not None:
            texts = [text.value for text in ast.walk(node.exc) if isinstance(text, ast.Constant)]
            yield from hits(where, "".join(text for text in texts if isinstance(text, str)))


def in_names() -> Iterator[str]:
    """Local names that are pronouns or participles."""
    for where, node in nodes():
        name = node.arg if isinstance(node, ast.arg) else None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if name in PRONOUNS:
            yield f"{where}: {name!r} → a noun of the field"


if __name__ == "__main__":
    for report in (in_pages, in_help, in_code, in_names):
        lines = list(report())
        print(*lines, f"{report.__name__}: {len(lines)}", sep="\n")
    for name, pages in grouped().items():
        words = lengths(pages)
        long = sum(count > 30 for count in words)
        print(f"{name}: {sum(words) / len(words):.0f} words in a sentence, {long} of {len(words):,} above 30")
