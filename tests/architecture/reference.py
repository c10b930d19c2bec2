"""The API page, made from the names that subpackages export.

`python tests/architecture/reference.py --write` (or `make reference`) writes it.
"""

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
API = ROOT / "docs" / "api.md"
ROOMS = (
    "privacy",
    "sampling",
    "mechanisms",
    "accounting",
    "curator",
    "inference",
    "features",
    "learners",
    "networks",
    "online",
    "audit",
    "tables",
    "serve",
    "releases",
    "fit",
    "advice",
    "estimators",
    "bags",
    "sgd",
    "images",
    "encoders",
    "spark",
    "report",
    "testing",
    "cli",
)
API_HEAD = """# API

Every public name with its signature, from its docstring. The most used names are in `labeldp` itself
(`import labeldp as ldp`; `ldp.Curator`). All others are in their subpackages, such as
`labeldp.online.BatchedDartboard`.
"""
SUBJECTS = {
    "privacy": "Guarantees and randomness",
    "curator": "Curator and ledger",
    "mechanisms": "Domains and mechanisms",
    "learners": "Learners",
    "online": "Online decisions",
    "serve": "Label server",
    "estimators": "Estimators",
    "bags": "Bags",
    "sgd": "Private gradient descent",
    "fit": "Fits of files",
    "releases": "Releases of files",
    "advice": "Advice",
    "report": "Reports",
}
"""The rooms whose names stand in `labeldp` itself, in the order of the API page."""


@cache
def parsed(module: str, suffix: str = ".py") -> ast.Module | None:
    """The syntax tree of a module, or of the stub that lists what a package exports lazily."""
    path = SOURCE / Path(*module.split("."))
    file = path / f"__init__{suffix}" if path.is_dir() else path.with_suffix(suffix)
    return ast.parse(file.read_text()) if file.exists() else None


@cache
def imported(module: str, suffix: str) -> dict[str, tuple[str, str]]:
    """The names that a module imports from others, with the module and the name there."""
    tree, found = parsed(module, suffix), {}
    for node in tree.body if tree else []:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("labeldp", *ROOMS):
            origin = f"{module}.{node.module}" if node.level else str(node.module)
            found |= {each.asname or each.name: (origin, each.name) for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level and node.module:
            found |= {each.asname or each.name: (f"{module}.{node.module}", each.name) for each in node.names}
    return found


def exported(module: str) -> list[str]:
    """What a room says that it exports: the names of its stub, else its `__all__`."""
    if parsed(module, ".pyi"):
        return sorted(imported(module, ".pyi"))
    for node in parsed(module).body:  # type: ignore[union-attr]
        if isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "__all__" for each in node.targets):
            return sorted(ast.literal_eval(node.value))
    raise LookupError(f"{module} does not say what it exports")


def documentation(module: str, name: str) -> str:
    """The docstring of a definition, or the text below a constant, wherever the name comes from."""
    for suffix in (".pyi", ".py"):
        if name in (origins := imported(module, suffix)):
            return documentation(*origins[name])
    body = parsed(module).body  # type: ignore[union-attr]
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return ast.get_docstring(node) or ""
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(getattr(each, "id", "") == name for target in targets for each in getattr(target, "elts", [target])):
            value = following.value if isinstance(following, ast.Expr) else None
            return str(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
    raise LookupError(f"{module} defines no {name}")


def summary(names: list[str], *options: str) -> list[str]:
    """What Sphinx makes a table of names from."""
    lines = [f"   {line}" for line in [*options, ":nosignatures:", "", *names]]
    return ["", "```{eval-rst}", ".. autosummary::", *(line.rstrip() for line in lines), "```"]


def api_page() -> str:
    """The page that Sphinx makes the pages of the rooms from."""
    origins = imported("labeldp", ".pyi")
    top = {name: origins[name][0].split(".")[1] for name in exported("labeldp") if origins[name][1] not in ROOMS}
    parts = [API_HEAD.rstrip()]
    for room in [*SUBJECTS, *sorted(set(top.values()) - set(SUBJECTS))]:
        names = [f"~labeldp.{room}.{name}" for name, origin in top.items() if origin == room]
        parts += ["", f"**{SUBJECTS.get(room, room)}**", *summary(names)] if names else []
    rooms = [f"labeldp.{room}" for room in ROOMS]
    return "\n".join([*parts, "", "## All subpackages", *summary(rooms, ":toctree: api", ":template: room.rst")]) + "\n"


def estimate_tables() -> dict[Path, str]:
    """The pages on estimates, with their tables as the list of estimates has them."""
    from labeldp.inference import ESTIMATES

    rows = [f"| `{name.replace('-', '_')}` | {' | '.join(entry.answers)} |" for name, entry in ESTIMATES.items()]
    commands = [f"| `{name}` | {entry.help.partition('.')[0]} |" for name, entry in ESTIMATES.items()]
    pages = {}
    for page, head, body in (("explanation/precision-of-estimates", "| Estimate |", rows),
                             ("reference/cli", "| Command |", commands)):  # fmt: skip
        path = ROOT / "docs" / f"{page}.md"
        before, _, after = path.read_text().partition(f"\n{head}")
        title, line, *_ = f"{head}{after}".split("\n")
        rest = after.partition("\n\n")[2]
        pages[path] = "\n".join([before, title, line, *body, "", rest])
    return pages


if __name__ == "__main__":
    texts = {API: api_page(), **estimate_tables()}
    if "--write" in sys.argv:
        for path, text in texts.items():
            path.write_text(text)
    elif any(path.read_text() != text for path, text in texts.items()):
        sys.exit("docs/api.md or a table of estimates is not what the code says: make reference")
