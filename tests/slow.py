"""Which cases of a parametrized test `make test` runs; `make test-all` runs the others."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Mark the cases that are not among the quick ones."""
    return [case if case in quick else _slow(case) for case in cases]


def slow_cases(cases: Iterable[Any], slow: Collection[Any]) -> list[Any]:
    """Mark the slow cases."""
    return [_slow(case) if case in slow else case for case in cases]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
