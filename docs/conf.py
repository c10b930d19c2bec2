"""How `make docs` builds the site. The pages are plain Markdown and read well without it."""

import re
from collections.abc import Iterator
from typing import Any

import click

import labeldp
from labeldp.cli import cli

# Rooms are imported while torch is not there; only then a mock takes its place.
for each in set(labeldp.__all__) - {"networks"}:
    getattr(labeldp, each)

project = "labeldp"
version = release = labeldp.__version__
language = "en"
smartquotes = False  # w' is a prime, and --option two hyphens

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
templates_path = ["_templates"]
exclude_patterns = ["_templates"]

html_theme = "furo"
html_show_copyright = False
html_title = f"labeldp {version}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Pages link to headings as they do on GitHub.
myst_heading_anchors = 4
nb_execution_mode = "auto"
nb_execution_timeout = 300
nb_execution_raise_on_error = True

# Signatures show names and defaults; the types stand beside the arguments.
# scikit-learn adds the excluded ones to every estimator.
ROUTING = ("fit", "partial_fit", "predict", "predict_proba", "score", "transform")
autodoc_default_options = {
    "members": True,
    "member-order": "groupwise",
    "exclude-members": ", ".join(f"set_{each}_request" for each in ROUTING),
}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_mock_imports = ["torch", "pyspark"]
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Fields", "params_style")]
default_role = "literal"

SENTENCE = ("..", "")
"""Before a text without which napoleon would take what stands before a colon for a type."""

LITERAL = re.compile(r"(``.+?``|`[^`]+`)", re.S)


def markup(text: str) -> str:
    """A text in which a star, a bar and the underscore at the end of a word mean themselves."""
    return re.sub(r"([*|]|_(?=\W|$))", r"\\\1", text)


def as_text(line: str) -> str:
    """One line of a docstring, in which only literals and examples are markup."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    plain, *rest = LITERAL.split(line)
    parts = [markup(plain)]
    for literal, after in zip(rest[::2], rest[1::2], strict=True):
        parts += [literal, "\\ " if after[:1].isalpha() else "", markup(after)]
    return re.sub(r"^(Guarantee(?: \([\w, ]+\))?|Source):", r"**\1:**", "".join(parts))


def escape(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with literals in it, in Google's sections."""
    lines[:] = [as_text(line) for line in lines]
    if what in ("attribute", "data", "property"):
        lines[:0] = SENTENCE
    elif "Returns:" in lines:
        place = lines.index("Returns:") + 1
        lines[place:place] = [f"    {line}" for line in SENTENCE]


def name_the_code(app: Any, page: str, source: list[str]) -> None:
    """A section of a page of proofs begins with the code that it proves, which the front matter names for the tests."""
    if not page.startswith("proofs/") or not source[0].startswith("---\n"):
        return
    front, body = source[0].removeprefix("---\n").split("\n---\n", 1)
    for section in re.split(r"^# ", front, flags=re.M)[1:]:
        heading, lines = section.split("\n", 1)
        proved = re.findall(r"^proves: (?:labeldp\.)?([\w.]+):([\w.]+)", lines, re.M)
        names = ", ".join(f"`{module}:{name}`" for module, name in proved)
        box = f"```{{admonition}} About this code\n:class: note\n{names}\n```\n"
        body = body.replace(f"\n## {heading}\n", f"\n## {heading}\n\n{box}", 1)
    source[0] = f"---\n{front}\n---\n{body}"


def commands(command: click.Command, path: str) -> Iterator[str]:
    """The help of a command, and of those below it."""
    context = click.Context(command, info_name=path, max_content_width=110)
    yield f"## {path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, f"{path} {name}")


def show_the_help(app: Any, page: str, source: list[str]) -> None:
    """The page of the command line shows the help of every command."""
    if page == "reference/cli":
        source[0] += "\n" + "\n".join(commands(cli, "labeldp"))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", escape, priority=100)
    app.connect("source-read", name_the_code)
    app.connect("source-read", show_the_help)
