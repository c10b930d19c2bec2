"""Sizes that the eye can hold: no function body above 40 lines, nine in ten at most 25, no file above 350."""

import ast

import pytest

from architecture.source import ROOT, Function, definitions, files

# "src/labeldp/room/file.py" or "src/labeldp/room/file.py:Class.method" -> why it is better long.
EXCEPTIONS: dict[str, str] = {}

TREES = ["src", "tests", "benchmarks"]


def body_length(function: Function) -> int:
    """The lines of a body, from its first statement after the docstring to its last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def functions(tree: str) -> dict[str, int]:
    """The length of every function below a folder, by file and qualified name."""
    return {
        f"{file.relative_to(ROOT)}:{name}": body_length(node)
        for file in files(tree)
        for name, node in definitions(ast.parse(file.read_text()))
        if isinstance(node, Function)
    }


def lines(tree: str) -> dict[str, int]:
    """The length of every file below a folder."""
    return {str(file.relative_to(ROOT)): file.read_text().count("\n") for file in files(tree)}


def too_long(tree: str) -> set[str]:
    """What stands above the limits."""
    return {name for name, n in functions(tree).items() if n > 40} | {
        name for name, n in lines(tree).items() if n > 350
    }


@pytest.mark.parametrize("tree", TREES)
def test_functions_and_files_are_short(tree: str) -> None:
    assert sorted(too_long(tree) - set(EXCEPTIONS)) == []


@pytest.mark.parametrize("tree", TREES)
def test_nine_functions_in_ten_have_at_most_25_lines(tree: str) -> None:
    above = sorted(name for name, length in functions(tree).items() if length > 25)
    assert len(above) <= len(functions(tree)) / 10, above


def test_every_exception_is_needed_and_has_a_reason() -> None:
    assert set().union(*map(too_long, TREES)) >= set(EXCEPTIONS)
    assert all(reason.strip() for reason in EXCEPTIONS.values())


def test_a_long_body_is_seen_and_its_docstring_is_not_counted() -> None:
    source = 'def f():\n    """One.\n\n    Two.\n    """\n' + "    pass\n" * 41
    [(_, function)] = definitions(ast.parse(source))
    assert isinstance(function, Function)
    assert body_length(function) == 41
