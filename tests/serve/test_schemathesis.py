"""Requests that schemathesis makes of the OpenAPI file, sent to a live server."""

import json
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from serve.server import TOKENS, Server, labels

FILE = Path(__file__).parents[2] / "docs" / "serve-openapi.json"


def operations() -> Any:
    """Requests of every call, such as the file allows and such as it does not; half name the dataset that is there."""
    whole = FILE.read_text()
    there = whole.replace('"dataset": {"type": "string", "maxLength": 200}', '"dataset": {"const": "people"}')
    assert there != whole
    return st.one_of(
        [
            found.ok().as_strategy(generation_mode=mode)
            for text in (whole, there)
            for found in schemathesis.openapi.from_dict(json.loads(text)).get_all_operations()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        ]
    )


@pytest.mark.parametrize("cases", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_whatever_is_asked_is_answered_in_json_and_only_503_asks_to_come_again(tmp_path: Path, cases: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    one = Server(tmp_path / "s", labels(), limits="quantum = 0.002\nrate = 1000000")
    file = one.folder / "serve.toml"
    file.write_text(file.read_text().replace("unix:door.sock", address))
    one.address, statuses = f"http://{address}", Counter[int]()

    @settings(
        max_examples=cases, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(operations())
    def ask(case: Any) -> None:
        answer = case.call(base_url=one.address, headers={"Authorization": f"Bearer {TOKENS['ana']}"}, timeout=30)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500 or (answer.status_code == 503 and "retry-after" in answer.headers)
        content = json.loads(answer.content)
        assert answer.status_code == 200 or set(content) == {"error", "message"}

    with one:
        ask()
        assert one.stop() == ""
    assert sum(statuses.values()) >= cases and statuses[200] and statuses[400]
