"""Guarantees of docstrings and marks of tests, compared as tests/conftest.py does; the comparison itself runs there."""

from architecture.source import GUARANTEE, broken_promises, promises


def test_keys_of_docstrings_are_read() -> None:
    text = "One.\n\nGuarantee (pure, whole): it holds; it is whole.\n\nGuarantee: it has no key.\n"
    assert GUARANTEE.findall(text) == [" (pure, whole)", ""]
    keys = promises()
    assert ("labeldp.mechanisms:RandomizedResponse", "pure") in keys
    assert ("labeldp.curator:LedgerFile.add_cohort", "disjoint") in keys
    assert all(key for _, key in keys)


def test_a_promise_without_a_test_and_a_test_without_a_promise_are_reported() -> None:
    assert broken_promises({("a:F", "pure")}, {("a:F", "pure")}) == []
    assert broken_promises({("a:F", "pure"), ("a:G", "")}, {("a:F", "whole")}) == [
        "a:F: a test names the guarantee 'whole', which no docstring has",
        "a:F: no test has the mark `guarantee` with the key 'pure'",
        "a:G: write `Guarantee (key): …`",
    ]
