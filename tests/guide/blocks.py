"""The examples of a Markdown page, in order: Python blocks, and the commands of console blocks.

Commands are lines that begin with `$ labeldp` or `$ python -m papers`.

A block with `<!-- no-test: reason -->` on the line before it is left out.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from trial.world import labeldp

KINDS = "python|py|console|bash|shell|sh"
FENCE = re.compile(
    rf"^(?:<!-- no-test:(?P<reason>[^\n]*)-->\n)?```(?P<kind>{KINDS})\b[^\n]*\n(?P<body>.*?)^```$", re.M | re.S
)

SHELL = re.compile(r"[|&;<>$`*?~#]")
"""What the shell reads in a command beside words and quotes."""


@dataclass(frozen=True)
class Example:
    """One thing to run: Python source, or one command line."""

    kind: str
    source: str
    line: int


def examples(text: str) -> list[Example]:
    """Every example of a page; an exemption without a reason, or a command without its `$`, is refused."""
    found = []
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("body")) + 1
        if fence["reason"] is not None:
            assert fence["reason"].strip(), f"line {line}: `no-test` needs a reason"
        elif fence["kind"].startswith("py"):
            found.append(Example("python", fence["body"], line))
        else:
            found += commands(fence["body"], line, prompted=fence["kind"] == "console")
    return found


def commands(body: str, first: int, *, prompted: bool) -> list[Example]:
    """Those lines of a block, each joined with the lines that a backslash continues it on."""
    joined = re.sub(r"\s*\\\n\s*", lambda gap: " " + "\0" * gap[0].count("\n"), body)
    found, line = [], first
    for command in joined.split("\n"):
        if command.startswith(("$ labeldp ", "$ python -m papers ")):
            found.append(Example("command", command[2:].replace("\0", ""), line))
        assert prompted or not command.startswith("labeldp "), f"line {line}: write `$ labeldp`, so that it is run"
        line += 1 + command.count("\0")
    return found


def run(page: str, example: Example, namespace: dict[str, object]) -> None:
    """Runs one example in the current folder; a traceback names the line of the page.

    A command of labeldp alone runs in this process, which has imported what it needs; the shell runs all others.
    """
    if example.kind == "python":
        exec(compile("\n" * (example.line - 1) + example.source, page, "exec"), namespace)
        return
    home = {"HOME": os.getcwd()}
    if example.source.startswith("labeldp ") and not SHELL.search(example.source):
        with patch.dict(os.environ, home):
            ran = labeldp(*shlex.split(example.source)[1:])
        assert ran.status == 0, f"{page}:{example.line}: {example.source}\n{ran.out}{ran.err}"
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        example.source,
        shell=True,
        capture_output=True,
        text=True,
        env={**os.environ, **home, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, f"{page}:{example.line}: {example.source}\n{done.stdout}{done.stderr}"
