"""Signatures: who vouches for a model or a released file, and what a changed one says."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Ran, account
from labeldp._version import __version__

RELEASE = (
    "release", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1",
    *account("bought"), "--id", "id", "--out",
)  # fmt: skip


@pytest.fixture(params=["noisy.csv", "noisy.parquet"])
def released(request: pytest.FixtureRequest, labeldp: Callable[..., Ran]) -> str:
    """A released file."""
    done = labeldp(*RELEASE, request.param)
    assert done.status == 0, done.err
    return str(request.param)


def test_a_signed_file_names_its_signer(labeldp: Callable[..., Ran], people: Path, released: str) -> None:
    done = labeldp("sign", released, "--key", "me.pem", "--new-key")
    assert done.status == 0, done.err
    if os.name == "posix":
        assert (people / "me.pem").stat().st_mode & 0o777 == 0o600
    key = json.loads((people / f"{released}.signature").read_text())["public_key"]
    assert key in done.out and "PRIVATE" not in (people / "me.pem.pub").read_text()
    said = labeldp("certificate", released)
    assert said.status == 0 and said.out.startswith("Unverified: the certificate was not checked.")
    assert f"signed with the key {key}" in said.out.splitlines()[0]
    said = labeldp("certificate", released, "--signed-by", "me.pem.pub")
    assert said.status == 0 and "Signed by me.pem.pub" in said.out


def test_another_key_is_not_the_signer(labeldp: Callable[..., Ran], released: str) -> None:
    assert labeldp("sign", released, "--key", "me.pem", "--new-key").status == 0
    assert labeldp("sign", released, "--key", "other.pem", "--new-key", "--out", "other.signature").status == 0
    said = labeldp("certificate", released, "--signed-by", "other.pem.pub")
    assert said.status == 1 and said.out.startswith(f"{released} is NOT signed by other.pem.pub")
    said = labeldp("certificate", released, "--signed-by", "other.pem.pub", "--signature", "other.signature")
    assert said.status == 0


def test_without_a_signature_nobody_vouches(labeldp: Callable[..., Ran], people: Path, released: str) -> None:
    assert labeldp("sign", released, "--key", "me.pem", "--new-key").status == 0
    (people / f"{released}.signature").unlink()
    said = labeldp("certificate", released)
    first = f"Unverified: the certificate of {released} is unsigned and was not checked."
    assert said.status == 0 and said.out.splitlines()[0] == first
    said = labeldp("certificate", released, "--signed-by", "me.pem.pub")
    assert said.status == 1 and "is NOT signed" in said.out.splitlines()[0]


@pytest.mark.parametrize("field", ["signature", "files", "public_key"])
def test_a_changed_signature_does_not_hold(
    labeldp: Callable[..., Ran], people: Path, released: str, field: str
) -> None:
    assert labeldp("sign", released, "--key", "me.pem", "--new-key").status == 0
    assert labeldp("sign", released, "--key", "you.pem", "--new-key", "--out", "other").status == 0
    place = people / f"{released}.signature"
    written, other = json.loads(place.read_text()), json.loads((people / "other").read_text())
    given = {"signature": other["signature"], "public_key": other["public_key"], "files": {"": "0" * 64}}[field]
    place.write_text(json.dumps({**written, field: given}))
    said = labeldp("certificate", released)
    assert said.status == 1 and "NOT" in said.out.splitlines()[0]


def test_the_reason_comes_before_the_sentence(labeldp: Callable[..., Ran], people: Path, released: str) -> None:
    assert labeldp("sign", released, "--key", "me.pem", "--new-key").status == 0
    place = people / released
    place.write_bytes(place.read_bytes() + (b"x,yes\n" if released.endswith("csv") else b""))
    if released.endswith("csv"):
        first, *rest = labeldp("certificate", released).out.splitlines()
        assert "is NOT what was certified" in first and any(line.startswith("Protects:") for line in rest)
        assert "is NOT what was signed: it changed" in rest[0]


def test_a_model_is_signed_whole(labeldp: Callable[..., Ran], people: Path) -> None:
    fit = ("fit", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1", *account("bought"))
    done = labeldp(*fit, "--id", "id", "--out", "model")
    assert done.status == 0, done.err
    assert labeldp("sign", "model", "--key", "me.pem", "--new-key").status == 0
    assert labeldp("certificate", "model", "--signed-by", "me.pem.pub").status == 0
    (people / "model" / "notes.txt").write_text("more")  # no certificate covers it, a signature does
    uncovered = "'notes.txt' is not covered by the certificate: remove it."
    assert uncovered in labeldp("certificate", "model").out and uncovered in labeldp("audit", "model").out
    said = labeldp("certificate", "model")
    assert said.status == 1 and said.out.startswith("model is NOT what was signed: notes.txt changed")
    assert labeldp("sign", "model", "--key", "me.pem").status == 0  # whoever signs now vouches for the notes, too
    assert labeldp("certificate", "model").status == 0
    assert uncovered not in labeldp("certificate", "model", "--signed-by", "me.pem.pub").out
    (people / "model" / "model.skops").unlink()
    said = labeldp("certificate", "model")
    assert "model.skops changed or is missing. Restore it from the original, or run the same fit again" in said.out
    assert "labeldp loads all" not in said.out
    (people / "model" / "model.json").write_text("{}")
    refused = labeldp("sign", "model", "--key", "me.pem")
    assert refused.status == 1 and "NOT what was certified" in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--key", "none.pem"), "there is no file none.pem; --new-key makes one"),
        (("--key", "people.csv"), "people.csv is no private key of Ed25519 in PEM form"),
        (("--key", "people.csv", "--new-key"), "people.csv exists"),
    ],
)
def test_wrong_keys_are_one_sentence(
    labeldp: Callable[..., Ran], people: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert labeldp(*RELEASE, "noisy.csv").status == 0
    before = (people / "people.csv").read_bytes()
    refused = labeldp("sign", "noisy.csv", *arguments)
    assert refused.status == 1 and words in refused.err and refused.err.count("\n") == 1
    assert (people / "people.csv").read_bytes() == before and not (people / "noisy.csv.signature").exists()


def test_keys_and_signatures_that_are_none(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*RELEASE, "noisy.csv").status == 0
    refused = labeldp("certificate", "noisy.csv", "--signed-by", "people.csv")
    assert refused.status == 1 and "people.csv is no public key of Ed25519 in PEM form" in refused.err
    content: Any
    for content in ("{}", "[]", "x", '{"format": "labeldp signature 1", "files": 3}'):
        (people / "noisy.csv.signature").write_text(content)
        refused = labeldp("certificate", "noisy.csv")
        assert refused.status == 1 and "noisy.csv.signature is no signature of labeldp" in refused.err


def test_a_certificate_says_when_it_was_charged_and_a_ledger_opens_its_commitment(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    assert labeldp(*RELEASE, "noisy.csv").status == 0
    said = labeldp("certificate", "noisy.csv", "--ledger", "l.ledger")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert any(
        re.fullmatch(r"Charged 20\d\d-\d\d-\d\dT\S+ for [\d,]+ records, by labeldp \S+\.", line) for line in lines
    )
    assert lines[-1].startswith("The ledger l.ledger holds the 1 charge as certified; the commitment of 1 of them")
    [charge] = json.loads((people / "noisy.csv.certificate.json").read_text())["certificate"]["entries"]
    assert len(charge["facts"]["commitment"]) == 64 and charge["facts"]["version"] == __version__
    assert labeldp(*RELEASE, "again.csv").status == 0  # the same charge, with the same facts
    assert [charge] == json.loads((people / "again.csv.certificate.json").read_text())["certificate"]["entries"]


def test_commitments_to_the_same_labels_are_unlike_and_another_ledger_opens_none(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "bought", "--epsilon", "2").status == 0
    for place, epsilon in enumerate(("0.25", "0.5")):
        arguments = [epsilon if each == "1" else each for each in RELEASE]
        assert labeldp(*arguments, f"{place}.csv", "--new-budget", "2").status == 0
    assert labeldp(*(each.replace("l.ledger", "other.ledger") for each in RELEASE), "2.csv").status == 0
    contents = [json.loads((people / f"{place}.csv.certificate.json").read_text()) for place in range(3)]
    charges = [each["certificate"]["entries"][0] for each in contents]
    assert len({charge["facts"]["commitment"] for charge in charges}) == 3
    assert "ε 0.75 of" in labeldp("ledger", "show", "l.ledger").out
    assert all("total" not in charge["facts"] for charge in charges)
    assert labeldp("certificate", "1.csv", "--ledger", "l.ledger").status == 0
    said = labeldp("certificate", "2.csv", "--ledger", "l.ledger")
    assert said.status == 1 and said.out.startswith("The certificate is NOT of the ledger l.ledger: the charge ")
    forged = contents[1]
    forged["certificate"]["entries"][0]["facts"]["records"] = "7"
    (people / "1.csv.certificate.json").write_text(json.dumps(forged))
    assert labeldp("certificate", "1.csv", "--ledger", "l.ledger").status == 1
