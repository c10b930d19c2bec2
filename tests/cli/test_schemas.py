"""The schema files in docs/specification/schemas are those of what labeldp writes, key for key."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from cli.conftest import PUBLIC, Ran, account
from mechanisms.examples import EXAMPLES
from people import table_of_people

Run = Callable[..., Ran]

FOLDER = Path(__file__).parents[2] / "docs/specification/schemas"
SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*.schema.json"))
}
PEOPLE = ("--label", "bought", "--classes", "no,yes", "--epsilon", "1")


def ledger(name: str) -> tuple[str, ...]:
    """The options for a ledger of its own."""
    return account("bought", "20" if name == "losses" else "1", f"{name}.ledger")


def closed(schema: Any) -> Any:
    """A schema that admits no key that it does not name, though readers must expect more of them."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: closed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **own} if isinstance(schema.get("properties"), dict) else own


REGISTRY: Registry[Any] = Registry().with_resources(
    [(f"{name}.schema.json", Resource.from_contents(closed(schema))) for name, schema in SCHEMAS.items()]
)


def problems(name: str, content: Any, part: str = "") -> list[str]:
    """What a schema, or a definition in one, has against a JSON value."""
    validator = Draft202012Validator({"$ref": f"{name}.schema.json{part}"}, registry=REGISTRY)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(content)]


def test_every_schema_is_one() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_every_schema_is_on_the_page_of_formats() -> None:
    page = (FOLDER.parents[1] / "reference" / "file-formats.md").read_text(encoding="utf-8")
    assert [name for name in SCHEMAS if f"specification/schemas/{name}.schema.json" not in page] == []


def written(labeldp: Run, people: Path) -> Iterator[tuple[str, Any]]:
    """What commands write and print, by the name of the schema."""

    def ran(*words: str) -> str:
        done = labeldp(*words)
        assert done.status == (2 if words[0] == "audit" and words[2:] == ("--json",) else 0), done.err
        return done.out

    def read(path: str) -> Any:
        return json.loads((people / path).read_text(encoding="utf-8"))

    ran("fit", "people.csv", *PEOPLE, "--id", "id", *ledger("fit"), "--test", "public.csv", PUBLIC, "--out", "model")
    yield "model-certificate", read("model/certificate.json")
    yield "model", read("model/model.json")
    yield "certificate-report", json.loads(ran("certificate", "model", "--json"))
    yield "loss-distributions", json.loads(ran("certificate", "model", "--format", "pld"))
    yield "ledger-export", json.loads(ran("ledger", "show", "fit.ledger", "--json"))
    yield "audit", json.loads(ran("audit", "model", "--json"))
    numbers = ("--label", "hours", "--range", "0,80", "--epsilon", "1", "--features", "region")
    ran("fit", "people.csv", *numbers, *ledger("numbers"), "--out", "numbers", "--trust", "central")
    yield "model-certificate", read("numbers/certificate.json")
    yield "model", read("numbers/model.json")
    ran("release", "people.csv", *PEOPLE, "--id", "id", *ledger("csv"), "--out", "released.csv")
    yield "released-table", read("released.csv.certificate.json")
    yield "certificate-report", json.loads(ran("certificate", "released.csv", "--format", "json"))
    ran("release", "people.parquet", *PEOPLE, "--id", "id", *ledger("parquet"), "--out", "released.parquet")
    metadata = pq.read_metadata(people / "released.parquet").metadata
    yield "released-table", json.loads(metadata[b"labeldp.certificate"])
    (people / "parts").mkdir()
    for part in range(2):
        table_of_people(50, seed=part).to_csv(people / f"parts/{part}.csv", index=False)
    ran("release", "parts", *PEOPLE, "--id", "id", *ledger("parts"), "--out", "released")
    yield "released-folder", read("released/_certificate.json")
    ran("sign", "released.csv", "--key", "me.pem", "--new-key")
    yield "signature", read("released.csv.signature")
    audited = ("--ledger", "csv.ledger", "--data", "people.csv", "--json")
    yield "audit", json.loads(ran("audit", "released.csv", *audited))
    losses = np.random.default_rng(0).random((30, 3))
    np.savetxt(people / "losses.csv", losses, delimiter=",", header="a,b,c", comments="")
    ran("online", "run", "losses.csv", "--epsilon", "20", "--out", "decisions.csv", *ledger("losses"))
    yield "released-table", read("decisions.csv.certificate.json")
    yield "audit", json.loads(ran("audit", "decisions.csv", "--json"))
    yield (
        "online-plan",
        json.loads(ran("online", "plan", *["--horizon", "1e4", "--experts", "5", "--epsilon", "0.5", "--json"])),
    )
    yield "advice", json.loads(ran("choose", "people.csv", *PEOPLE, "--json"))
    yield "plan", json.loads(ran("plan", "people.csv", *PEOPLE, "--json"))
    (people / "table.csv").write_text("0.75,0.25\n0.25,0.75\n", encoding="utf-8")
    (people / "unbounded.csv").write_text("1,0\n0.5,0.5\n", encoding="utf-8")
    yield "audit-table", json.loads(ran("audit", "table", "table.csv", "--json"))
    yield "audit-table", json.loads(ran("audit", "table", "table.csv", "--epsilon", "2", "--json"))
    yield "audit-table", json.loads(ran("audit", "table", "unbounded.csv", "--delta", "0.1", "--json"))
    yield "audit-table", json.loads(ran("audit", "table", "unbounded.csv", "--delta", "0.6", "--json"))
    given = ("--one", "table.csv", "--other", "unbounded.csv", "--runs", "20", "--json")
    yield "audit-command", json.loads(ran("audit", "command", *given, "--", "echo", "{}"))
    llp = "--size 72 --stddev 1 --range -1,1 --epsilon 1 --json"
    yield "account-llp", json.loads(ran("account", "llp", *llp.split()))
    lba = "--size 1024 --leverage 0.015 --residual 100 --range -1,1 --epsilon 1 --json"
    yield "account-lba", json.loads(ran("account", "lba", *lba.split()))


def test_what_commands_write_is_what_the_schemas_say(labeldp: Run, people: Path) -> None:
    found = list(written(labeldp, people))
    assert {name: wrong for name, content in found if (wrong := problems(name, content))} == {}
    assert {name for name, _ in found} | {"certificate", "request"} == set(SCHEMAS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_loss_of_every_mechanism_is_what_the_schema_says(name: str) -> None:
    loss = EXAMPLES[name](1).privacy_loss().to_json()
    assert problems("certificate", json.loads(json.dumps(loss)), "#/$defs/loss") == []


def test_what_is_another_thing_is_refused(labeldp: Run, people: Path) -> None:
    """The comparison finds a key that is missing, one that nobody named, and a value of another kind."""
    assert labeldp("release", "people.csv", *PEOPLE, *ledger("csv"), "--out", "released.csv").status == 0
    content = json.loads((people / "released.csv.certificate.json").read_text(encoding="utf-8"))
    certificate, [charge] = content["certificate"], content["certificate"]["entries"]
    assert problems("released-table", content) == []
    without = {**charge, "loss": [[{"kind": "response", "times": 1}]]}
    for broken in (
        {**content, "more": 1},
        {key: value for key, value in content.items() if key != "digest"},
        {**content, "certificate": {**certificate, "trust": "ALL"}},
        {**content, "certificate": {**certificate, "entries": [without]}},
    ):
        assert problems("released-table", broken)
