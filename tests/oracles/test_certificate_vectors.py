"""Test vectors of certificates: by the library, and by the verifier that shares no code with it."""

import base64
import json
import math
import runpy
from fractions import Fraction
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from architecture.source import ROOT
from labeldp.audit import signing
from labeldp.mechanisms import Classes
from labeldp.privacy import (
    Certificate,
    Charge,
    NamedFile,
    Plan,
    PrivacyLoss,
    RandomnessKind,
    Request,
    Source,
    Step,
    Trust,
    Unit,
)
from labeldp.privacy.charges import stated_unit
from labeldp.tables import column_digest

VECTORS = ROOT / "docs" / "specification" / "certificates.json"
VERIFIER = runpy.run_path(str(ROOT / "tools" / "verify_certificate.py"))

LOSSES = json.loads((ROOT / "docs" / "specification" / "losses.json").read_text(encoding="utf-8"))

PURE, GAUSSIAN = PrivacyLoss.response("0.5", 3), PrivacyLoss.gaussian(0.25)
MIXED = PrivacyLoss.gaussian(0.125) * 4 + PrivacyLoss.pure("0.1") + PrivacyLoss.failure("1e-9")
HALVES = tuple(Step("", PrivacyLoss.pure(epsilon), (("halves", part),)) for part, epsilon in enumerate(("0.25", "1")))
TWO = Plan("two", (Step("", PrivacyLoss.pure("2")), Step("", PrivacyLoss.pure("1"))))
BUDGETS = ((Fraction(3), Fraction(0)), (Fraction(2), Fraction(1, 10**6)))
BUDGET = {"account": "a1", "budgets": BUDGETS, "keeps": Unit.ONE_LABEL}
USER = BUDGET | {"unit": Unit.ONE_USER}
"""Of a release for users in an account of single records."""
PAIR = Plan("pair", tuple(Step("", PrivacyLoss.gaussian(mu), unit=Unit.ONE_USER) for mu in (0.25, 0.5)))
ROUNDS = BUDGET | {"unit": Unit.ONE_LOSS, "keeps": Unit.ZERO_OUT}


def charge(name: str, loss: PrivacyLoss, path: Any = (), plan: Plan | None = None, **more: Any) -> Charge:
    """A charge of a release."""
    return Charge(name, path, loss, {"mechanism": "Example"}, {}, plan, **more)


CASES: dict[str, tuple[tuple[Charge, ...], str]] = {
    "one pure release": ((charge("1", PURE),), "0"),
    "the same at a delta": ((charge("1", PURE),), "0.001"),
    "a Gaussian release": ((charge("1", GAUSSIAN),), "1e-6"),
    "a Gaussian release without a delta": ((charge("1", GAUSSIAN),), "0"),
    "a mixed release": ((charge("1", MIXED),), "1e-6"),
    "several pure releases": ((charge("1", PURE), charge("2", PURE)), "0"),
    "two parts of a split": (tuple(charge(str(k), step.loss, step.path) for k, step in enumerate(HALVES)), "0"),
    "parts of two splits": ((charge("1", PURE, (("s", 0),)), charge("2", PURE, (("t", 0),))), "0"),
    "a plan, half taken": ((charge("1", HALVES[0].loss, HALVES[0].path, Plan("p", HALVES)),), "0"),
    "a plan, a step of it taken twice": (
        tuple(charge(str(k), HALVES[1].loss, HALVES[1].path, Plan("p", HALVES)) for k in range(2)),
        "0",
    ),
    "a plan, a small release first": ((charge("1", PURE, (), TWO), charge("2", TWO.steps[0].loss, (), TWO)), "0.001"),
    "several releases under a budget": ((charge("1", GAUSSIAN, **BUDGET), charge("2", GAUSSIAN, **BUDGET)), "1e-6"),
    "a release for users, in an account of records": ((charge("1", GAUSSIAN, **USER),), "1e-6"),
    "two releases for users, in an account of records": (
        (charge("1", GAUSSIAN, **USER), charge("2", GAUSSIAN, **USER)),
        "1e-6",
    ),
    "two releases for users, in an account of users": (
        tuple(charge(str(k), GAUSSIAN, **USER | {"keeps": Unit.ONE_USER}) for k in range(2)),
        "1e-6",
    ),
    "a plan for users, in an account of records": (
        tuple(charge(str(k), step.loss, (), PAIR, **USER) for k, step in enumerate(PAIR.steps)),
        "1e-6",
    ),
    "releases for users and for records": ((charge("1", PURE), charge("2", GAUSSIAN, **USER)), "1e-6"),
    "rounds against any losses and against zero": (
        (charge("1", PURE, **ROUNDS), charge("2", PURE, **ROUNDS | {"unit": Unit.ZERO_OUT})),
        "0",
    ),
    "several releases without a budget": ((charge("1", GAUSSIAN), charge("2", GAUSSIAN)), "1e-6"),
}


def guarantees() -> list[dict[str, Any]]:
    """Certificates with the epsilon that they guarantee, rounded up; null for none."""
    rows = []
    for name, (charges, delta) in CASES.items():
        given = (
            charges,
            "people",
            stated_unit(charges),
            Trust.CENTRAL,
            RandomnessKind.SYSTEM,
            "sums",
            ("nobody looks",),
        )
        certificate = Certificate(*given)
        epsilon = certificate.epsilon(delta)
        row = {"name": name, "delta": delta, "epsilon": None if math.isinf(epsilon) else epsilon}
        rows.append(row | {"words": certificate.at(delta), "certificate": certificate.to_json()})
    return rows


def requests() -> list[dict[str, Any]]:
    """Requests with their digests."""
    source = Source("people.csv", "bought", "id", rows=3)
    files = {"test": NamedFile("public.csv", "0" * 64)}
    made = [
        Request.of("release", "randomized-response", "people", source, "0.5", "0", domain=Classes(("no", "yes"))),
        Request.of("fit", "linear", "people", source, 1, "1e-6", domain=Classes(3), files=files, stages=2),
    ]
    return [{"request": request.to_json(), "digest": request.digest} for request in made]


def signatures() -> list[dict[str, Any]]:
    """A signature with its message."""
    key, files = Ed25519PrivateKey.from_private_bytes(bytes(range(32))), {"": "1" * 64, ".certificate.json": "2" * 64}
    message = signing._message(files)
    public, signed = key.public_key().public_bytes_raw(), key.sign(message)
    content = {"public_key": base64.b64encode(public).decode(), "signature": base64.b64encode(signed).decode()}
    return [{"format": signing.FORMAT, "files": files, **content, "message": message.decode()}]


def vectors() -> dict[str, Any]:
    """All vectors: what the file holds."""
    columns = [["yes", "no", "yes"], ["", "é", "a,b\n"], ["0.5"]]
    made = {
        "format": 1,
        "guarantees": guarantees(),
        "columns": [{"values": values, "digest": column_digest([values])} for values in columns],
        "requests": requests(),
        "signatures": signatures(),
    }
    content: dict[str, Any] = json.loads(json.dumps(made))
    for row in content["requests"]:
        row["request"].pop("version")  # of whoever writes the file; no part of the digest
    return content


def write() -> None:
    """Write the vectors anew."""
    VECTORS.write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def stored() -> Any:
    """The vectors in the file."""
    return json.loads(VECTORS.read_text(encoding="utf-8"))


def test_the_vectors_are_those_of_the_library() -> None:
    ours, theirs = vectors(), stored()
    for one, other in zip(ours["guarantees"], theirs["guarantees"], strict=True):
        epsilon, expected = one.pop("epsilon"), other.pop("epsilon")
        assert epsilon == (expected and pytest.approx(expected, rel=1e-11))  # the last bits are the system's
    assert ours == theirs
    for row in stored()["guarantees"]:
        assert Certificate.from_json(row["certificate"]).to_json() == row["certificate"]
    for row in stored()["requests"]:
        assert Request.from_json(row["request"]).digest == row["digest"]


@pytest.mark.parametrize("row", stored()["guarantees"] if VECTORS.exists() else [], ids=lambda row: row["name"])
def test_the_verifier_finds_their_guarantees(row: Any) -> None:
    charges = [VERIFIER["Charge"](entry) for entry in row["certificate"]["entries"]]
    epsilon = VERIFIER["guarantee"](charges, Fraction(row["delta"]))
    assert VERIFIER["stated_unit"](charges) == row["certificate"]["neighbors"]
    assert math.isinf(epsilon) if row["epsilon"] is None else epsilon == pytest.approx(row["epsilon"], rel=1e-9)


def test_the_verifier_finds_their_signatures() -> None:
    [row] = stored()["signatures"]
    public, signature = base64.b64decode(row["public_key"]), base64.b64decode(row["signature"])
    assert VERIFIER["is_signed"](public, row["message"].encode(), signature)
    assert not VERIFIER["is_signed"](public, row["message"].encode() + b" ", signature)


@pytest.mark.parametrize("loss", LOSSES["accepted"].values(), ids=LOSSES["accepted"])
def test_losses_are_taken_by_library_and_verifier_alike(loss: Any) -> None:
    found = PrivacyLoss.from_json(loss)
    pure = VERIFIER["largest"](VERIFIER["parsed_loss"](loss))
    assert pure == (math.inf if found.max_loss is None else found.max_loss)
    assert 0 <= found.delta(1) <= 1


@pytest.mark.parametrize("loss", LOSSES["refused"].values(), ids=LOSSES["refused"])
def test_what_no_pair_of_distributions_has_is_refused_by_library_and_verifier_alike(loss: Any) -> None:
    for read in (PrivacyLoss.from_json, VERIFIER["parsed_loss"]):
        with pytest.raises((ValueError, KeyError, TypeError, OverflowError)):
            read(loss)
