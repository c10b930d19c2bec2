"""Whatever stands in the file of a stored run, it is read, or refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.corpus import Parser
from hostile.test_parsers import EDITS, EXAMPLES, VALUES, edited, judge, with_values
from hostile.test_parsers import no_hang as no_hang
from papers.aggregation.run import AggregationResult
from papers.multistage.run import Result
from papers.online.run import OnlineResult
from papers.rates.run import RateResult

STORED = Path(__file__).parent / "stored"
RESULTS: dict[str, Any] = {
    "rates": RateResult,
    "aggregation": AggregationResult,
    "multistage": Result,
    "online": OnlineResult,
}


def parser_of(paper: str) -> Parser:
    """The first stored run of a comparison, read as a report reads it."""
    first = sorted((STORED / paper / "runs").glob("*.json"))[0]
    return Parser(str(first.relative_to(STORED)), lambda folder: RESULTS[paper].all_in(folder / paper))


@pytest.mark.parametrize("paper", RESULTS)
def test_damaged_bytes_are_read_or_refused(tmp_path: Path, paper: str) -> None:
    parser = parser_of(paper)
    raw = (STORED / parser.file).read_bytes()

    @settings(max_examples=EXAMPLES)
    @given(edits=EDITS)
    def check(edits: list[tuple[str, float, bytes]]) -> None:
        judge(parser, STORED, tmp_path / "changed", edited(raw, edits))

    check()


@pytest.mark.parametrize("paper", RESULTS)
def test_other_values_are_read_or_refused(tmp_path: Path, paper: str) -> None:
    parser = parser_of(paper)
    value = json.loads((STORED / parser.file).read_bytes())

    @settings(max_examples=EXAMPLES)
    @given(changes=st.lists(st.tuples(st.floats(0, 1), VALUES, st.booleans()), min_size=1, max_size=2))
    def check(changes: list[tuple[float, Any, bool]]) -> None:
        judge(parser, STORED, tmp_path / "changed", json.dumps(with_values(value, changes)).encode())

    check()
    judge(parser, STORED, tmp_path / "changed", b"[" * 200_000)
