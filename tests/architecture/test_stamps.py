"""A proof and the code that it proves change together."""

import ast
from pathlib import Path

import pytest

from architecture.stamps import LINE, PROOFS, front_matter, pages, renewed, stamp

CODE = 'def keep(k: int) -> int:\n    """Doc."""\n    return k + 1\n'


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: page.name)
def test_the_code_is_the_code_that_was_proved(page: Path) -> None:
    text = page.read_text()
    assert LINE.search(front_matter(text)), f"{page.name} names no code: begin it with `proves: module:qualname`"
    assert renewed(text) == text, f"code changed after {page.name}: read the proof again, then `make stamps`"


@pytest.mark.parametrize("same", ["def keep(k: int) -> int: return k+1", CODE.replace("Doc", "Other")])
def test_formatting_and_docstrings_keep_the_stamp(same: str) -> None:
    assert stamp(ast.parse(same).body[0]) == stamp(ast.parse(CODE).body[0])


@pytest.mark.parametrize("edit", [("+ 1", "+ 2"), ("+", "-"), ("-> int", "-> float"), ("keep", "lose")])
def test_any_change_of_code_changes_the_stamp(edit: tuple[str, str]) -> None:
    assert stamp(ast.parse(CODE.replace(*edit)).body[0]) != stamp(ast.parse(CODE).body[0])


def test_every_proof_lies_where_the_stamps_are_checked() -> None:
    assert set(PROOFS.rglob("*.md")) - {PROOFS / "README.md"} == set(pages())


@pytest.mark.parametrize("stamped", ["", " 0", " 0123456789abcdef", " later"])
def test_what_is_no_stamp_of_the_code_is_stale(stamped: str) -> None:
    page = f"---\nproves: labeldp.privacy.exact:WORD{stamped}\n---\n"
    assert renewed(page) != page and renewed(renewed(page)) == renewed(page)
