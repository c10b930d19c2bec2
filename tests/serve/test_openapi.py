"""The OpenAPI file says what the server takes and what it answers."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import labeldp as ldp
from labeldp.mechanisms import MECHANISMS
from labeldp.serve.vault import MAX_MECHANISMS, MAX_SPLITS, MAX_STEPS, RETRY
from labeldp.serve.wire import CALLS, MAX_AXES, MAX_REASON, described, described_steps, packed
from serve.test_descriptions import EXAMPLES
from serve.test_vault import ask, vault

FILE = json.loads((Path(__file__).parents[2] / "docs" / "serve-openapi.json").read_text())

SCHEMAS = FILE["components"]["schemas"]


def check(value: Any, schema: dict[str, Any]) -> None:
    """Compare a value with a schema of the file."""
    whole = {"components": FILE["components"], **schema}
    jsonschema.Draft202012Validator(whole).validate(json.loads(json.dumps(value)))


def asked(call: str) -> dict[str, Any]:
    schema: dict[str, Any] = FILE["paths"][f"/v1/{call}"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    return schema


def answered(call: str, status: int) -> dict[str, Any]:
    if status != 200:
        return {"$ref": "#/components/schemas/Error"}
    content: dict[str, Any] = FILE["paths"][f"/v1/{call}"]["post"]["responses"]["200"]["content"]
    return dict(content["application/json"]["schema"])


def test_the_file_has_the_routes_of_the_server_and_its_limits() -> None:
    assert set(FILE["paths"]) == {"/v1/health", *(f"/v1/{call}" for call in CALLS)}
    assert max(map(len, MECHANISMS)) <= SCHEMAS["Mechanism"]["properties"]["name"]["maxLength"]
    assert SCHEMAS["Part"]["properties"]["splits"]["maxItems"] == MAX_SPLITS
    assert SCHEMAS["Steps"]["allOf"][1]["properties"]["steps"]["maxProperties"] == MAX_STEPS
    assert SCHEMAS["Steps"]["allOf"][1]["properties"]["mechanisms"]["maxItems"] == MAX_MECHANISMS
    assert SCHEMAS["Release"]["allOf"][1]["properties"]["reason"]["maxLength"] == MAX_REASON
    assert SCHEMAS["Array"]["properties"]["shape"]["maxItems"] == MAX_AXES


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_mechanism_is_described_as_the_file_says(mechanism: Any) -> None:
    check(described(mechanism), {"$ref": "#/components/schemas/Mechanism"})


def test_requests_and_answers_are_as_the_file_says(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", budget="epsilon = 4", more='features = ["day"]')
    domain = ldp.Classes(("no", "yes", "maybe"))
    parts = [{"parts": packed(np.arange(300) % 2), "part": 0, "why": "rows alternate"}]
    release = {"mechanism": described(ldp.RandomizedResponse(domain=domain, epsilon=1)), "reason": "a test"}
    charge = ask(one, "release", **release)[1]["certificate"]["entries"][0]["id"]
    steps = described_steps({"a": ldp.RandomizedResponse(domain=domain, epsilon=1)})
    costly = described_steps({"a": ldp.RandomizedResponse(domain=domain, epsilon=9)})
    much = {"mechanism": described(ldp.RandomizedResponse(domain=domain, epsilon=3))}
    calls: list[tuple[str, dict[str, Any], int]] = [
        ("datasets", {}, 200),
        ("budget", {}, 200),
        ("features", {}, 200),
        ("features", {"start": 299}, 200),
        ("features", {"start": 300}, 400),
        ("require", {**steps, "run": "r", "splits": parts}, 200),
        ("require", costly, 403),
        ("released", steps, 200),
        ("certificate", {"charge": charge}, 200),
        ("certificate", {"charge": "0"}, 400),
        ("release", release, 200),
        ("release", {**release, "splits": parts, "step": "s", "run": "r"}, 200),
        ("release", much, 403),
    ]
    assert {call for call, _, _ in calls} == set(CALLS)
    for call, content, status in calls:
        check({"dataset": "people", **content}, asked(call))
        found, answer = ask(one, call, **content)
        assert found == status
        check(answer, answered(call, status))
    check(RETRY[1], answered("release", RETRY[0]))
