"""Certificates for other programs: the record of a registry, distributions, and the list of what a model holds."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.conftest import Ran
from cli.test_certificate import FIT, ID
from labeldp.privacy import Certificate

RELEASE = ("release", "people.csv", *FIT[2:12], "--id", "id", "--new-budget", "5")

REQUIRED = {
    "basic": [
        *("name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region"),
        "publication_date",
    ],
    "administrative": ["status", "registry_authors", "tier"],
}
"""What the registry asks of every record: `deployments-schema.yaml`, commit 057e5d81, in our own words."""

ALLOWED = {
    "basic": {"data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        *("privacy_unit", "privacy_unit_details", "number_of_privacy_units", "privacy_parameters"),
        "privacy_parameters_details",
    },
    "deployment_model": {
        *("model_name", "model_name_details", "trust_assumptions", "actors", "release_type", "release_type_details"),
        *("data_source_type", "data_source_type_details", "access_type", "access_type_details"),
    },
    "implementation": {
        *("preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing", "justification"),
        *("utility", "additional_information"),
    },
    "administrative": {"evidence_sources"},
}

CHOICES = {
    ("basic", "data_product_type"): {"Summary statistics", "Machine learning model", "Dataset", "Synthetic data"},
    ("dp_variant", "variant_name"): {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
    ("deployment_model", "model_name"): {"Local", "Central", "Shuffle", "Federated", "Varies"},
    ("deployment_model", "release_type"): {"One release", "Many releases"},
    ("deployment_model", "data_source_type"): {"Static", "Dynamic"},
    ("deployment_model", "access_type"): {"Interactive", "Non-interactive"},
    ("administrative", "tier"): {1, 2, 3},
    ("administrative", "status"): {"Draft"},
}


def problems(record: Any) -> list[str]:
    """What the registry would have against a record."""
    wrong = [] if set(record) == {"url_slug", "deployment"} and record["url_slug"] else ["root"]
    deployment = record["deployment"]
    for room, fields in deployment.items():
        needed = set(REQUIRED.get(room, ()))
        wrong += [f"{room} lacks {name}" for name in needed - set(fields)]
        wrong += [f"{room} has {name}" for name in set(fields) - needed - ALLOWED[room]]
        for name, value in fields.items():
            if value not in CHOICES.get((room, name), [value]):
                wrong.append(f"{room}: {name} is {value}")
            if isinstance(value, str) and not value:
                wrong.append(f"{room}: {name} is empty")
    curators = deployment["basic"]["data_curators"]
    wrong += [] if curators[0]["data_curator_type"] in ("Government", "Industry", "Nonprofit") else ["curator"]
    date.fromisoformat(deployment["basic"]["publication_date"])
    return wrong


def test_a_draft_for_the_registry_of_deployments(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*FIT, *ID, "--new-budget", "5", "--out", "model").status == 0
    assert labeldp(*RELEASE, "--out", "noisy.csv").status == 0
    central = ("--trust", "central", "--model", "linear", "--delta", "1e-6", "--ledger", "c.ledger", "--out", "central")
    central = (*central, "--new-budget", "1")
    assert labeldp(*FIT[:8], *FIT[10:12], *central, *ID).status == 0
    for name, variant, kind in (
        ("model", "Pure DP", "Machine learning model"),
        ("noisy.csv", "Pure DP", "Dataset"),
        ("central", "Approximate DP", "Machine learning model"),
    ):
        done = labeldp("certificate", name, "--format", "opendp")
        assert done.status == 0 and done.err.startswith("Unverified: "), done.err
        record = yaml.safe_load(done.out)
        assert problems(record) == []
        deployment = record["deployment"]
        assert deployment["dp_variant"]["variant_name"] == variant
        assert deployment["basic"]["data_product_type"] == kind
        report = json.loads(labeldp("certificate", name, "--json").out)
        parameters = deployment["privacy_loss"]["privacy_parameters"]
        assert parameters["epsilon"] == report["epsilon"] <= 1
        assert parameters.get("delta", 0) == (1e-6 if name == "central" else 0)
        assert done.out.count("# fill in") == 5 and record["deployment"]["administrative"]["status"] == "Draft"


def test_the_json_form_is_read_again(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*RELEASE, "--out", "noisy.csv").status == 0
    done, short = labeldp("certificate", "noisy.csv", "--format", "json"), labeldp("certificate", "noisy.csv", "--json")
    assert done == short and done.status == 0
    content = json.loads(done.out)
    stored = json.loads((people / "noisy.csv.certificate.json").read_text())["certificate"]
    assert content["certificate"] == stored and content["contents"] is None
    assert content["words"] == Certificate.from_json(stored).at(0) and content["epsilon"] == 1


def test_a_model_lists_its_files_and_types(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*FIT, *ID, "--new-budget", "5", "--out", "model").status == 0
    done = labeldp("certificate", "model")
    assert done.status == 0 and "ε = 1" in done.out
    for file in (people / "model").iterdir():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert f"{file.stat().st_size:,} bytes  SHA-256 {digest}\n" in done.out and f"  {file.name} " in done.out
    assert "\n  labeldp.learners.softmax.LinearClassifier\n" in done.out
    assert "NOT loaded" not in done.out
    contents = json.loads(labeldp("certificate", "model", "--json").out)["contents"]
    assert {file["name"] for file in contents["files"]} == {file.name for file in (people / "model").iterdir()}
    assert all(kind["trusted"] for kind in contents["types"])


def test_a_type_that_labeldp_does_not_load_is_named(labeldp: Callable[..., Ran], people: Path) -> None:
    """Nothing of the model runs: its schema is read."""
    assert labeldp(*FIT, *ID, "--new-budget", "5", "--out", "model").status == 0
    place, content = people / "model" / "model.skops", {}
    with zipfile.ZipFile(place) as members:
        content = {name: members.read(name) for name in members.namelist()}
    schema = json.loads(content["schema.json"])
    schema |= {"__module__": "os", "__class__": "system", "__loader__": "FunctionNode"}
    with zipfile.ZipFile(place, "w") as members:
        for name, raw in (content | {"schema.json": json.dumps(schema).encode()}).items():
            members.writestr(name, raw)
    certificate = json.loads((people / "model" / "certificate.json").read_text())
    certificate["files"]["model.skops"] = hashlib.sha256(place.read_bytes()).hexdigest()
    (people / "model" / "certificate.json").write_text(json.dumps(certificate))
    done = labeldp("certificate", "model")
    assert done.status == 1 and done.out.startswith("model.skops holds types that labeldp does NOT load: os.system.\n")
    for form in ("opendp", "pld"):
        done = labeldp("certificate", "model", "--format", form)
        assert done.status == 1 and done.out == "" and "os.system" in done.err
    place.write_bytes(b"PK")
    certificate["files"]["model.skops"] = hashlib.sha256(place.read_bytes()).hexdigest()
    (people / "model" / "certificate.json").write_text(json.dumps(certificate))
    done = labeldp("certificate", "model")
    assert done.status == 1 and done.err.endswith("model.skops is damaged: it is no estimator of skops\n")


def test_a_link_in_a_model_is_named(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*FIT, *ID, "--new-budget", "5", "--out", "model").status == 0
    (people / "model" / "more").symlink_to(people / "people.csv")
    done = labeldp("certificate", "model")
    assert done.status == 1 and done.out.startswith("model is NOT what was certified: model/more is a link,")


@pytest.mark.parametrize("form", ["opendp", "pld"])
def test_what_was_changed_is_not_exported(labeldp: Callable[..., Ran], people: Path, form: str) -> None:
    assert labeldp(*RELEASE, "--out", "noisy.csv").status == 0
    (people / "noisy.csv").write_text((people / "noisy.csv").read_text() + "\n")
    done = labeldp("certificate", "noisy.csv", "--format", form)
    assert done.status == 1 and done.out == "" and "is NOT what was certified" in done.err


DAMAGES = [
    ('"rows"', '"rows": 1, "rows"'),
    ('"epsilon": "1"', '"epsilon": "1e999999999"'),
    ('"epsilon": "1"', '"epsilon": "nan"'),
    ('"rows": ', '"rows": NaN, "more": '),
    ('"rows": ', '"more": 1e999, "rows": '),
    ('"times": 1', '"times": 10000000000000000000000000'),
    ('"dataset": "people"', '"dataset": 7'),
]


def test_a_damaged_certificate_is_an_error(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*RELEASE, "--out", "noisy.csv").status == 0
    place = people / "noisy.csv.certificate.json"
    honest = place.read_text()
    for old, new in DAMAGES:
        assert old in honest
        place.write_text(honest.replace(old, new))
        for form in ("text", "json", "opendp", "pld"):
            done = labeldp("certificate", "noisy.csv", "--format", form)
            assert done.status == 1 and done.out == "", (new, form)
            assert done.err.startswith("Error: ") and done.err.count("\n") == 1, (new, form)
    place.unlink()
    assert labeldp("certificate", "noisy.csv").status == labeldp("certificate", "noisy.csv", "--json").status == 1
