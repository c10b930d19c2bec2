"""Proof stamps: a proof names the code that it proves, by the hash that this code had when the proof was last read.

A page of docs/proofs begins with a block of lines `proves: module:qualname stamp` between two `---`; a line
`# Heading` in it names the section whose code follows.
`make proofs` lists the proofs whose code changed since; `make stamps` renews the stamps, after reading them again.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "docs" / "proofs"
LINE = re.compile(r"^proves: (?P<module>[\w.]+):(?P<name>[\w.]+)(?: (?P<stamp>\S+))?$", re.M)


def canonical(node: object) -> object:
    """A syntax tree as nested tuples, without docstrings, positions, and the fields that newer Pythons added empty."""
    if isinstance(node, list):
        return tuple(canonical(item) for item in node)
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    return (type(node).__name__, *((key, canonical(value)) for key, value in fields.items() if value not in (None, [])))


def find(module: str, name: str) -> ast.AST:
    """The definition `name` (dotted for a method) in a module, or the assignment to a module's constant."""
    path = ROOT / ("" if module.startswith("papers.") else "src") / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    node: ast.AST = ast.parse(file.read_text())
    for part in name.split("."):
        found = [child for child in ast.iter_child_nodes(node) if part in names(child)]
        if not found:
            raise LookupError(f"{module} defines no {name}")
        node = found[-1]
    return node


def names(node: ast.AST) -> set[str]:
    """The names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def stamp(node: ast.AST) -> str:
    """The stamp of a definition: formatting, comments and docstrings do not change it, code does."""
    return hashlib.sha256(repr(canonical(node)).encode()).hexdigest()[:16]


def front_matter(page: str) -> str:
    """The block between the two `---` that a page begins with, or nothing."""
    block = re.match(r"---\n(.*?)^---$", page, re.M | re.S)
    return block[0] if block else ""


def renewed(page: str) -> str:
    """A page with the stamps of today's code."""
    head = front_matter(page)
    lines = LINE.sub(lambda m: f"proves: {m['module']}:{m['name']} {stamp(find(m['module'], m['name']))}", head)
    return lines + page[len(head) :]


def pages() -> Iterator[Path]:
    """Every page of proofs, but not their index."""
    return (page for page in sorted(PROOFS.glob("*.md")) if page.name != "index.md")


def stale() -> list[Path]:
    """The proofs whose code changed after they were read, or that name no code."""
    texts = {page: page.read_text() for page in pages()}
    return [page for page, text in texts.items() if renewed(text) != text or not LINE.search(front_matter(text))]


if __name__ == "__main__":
    for page in stale():
        if "--write" in sys.argv:
            page.write_text(renewed(page.read_text()))
        print(f"{'renewed' if '--write' in sys.argv else 'stale'}: {page.relative_to(ROOT)}")
    sys.exit(bool(stale()))
