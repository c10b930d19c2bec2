"""The verifier without dependencies, beside the library: keys, guarantees, and what it refuses."""

import base64
import json
import math
import random
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import labeldp as ldp
from labeldp.audit import export_ledger, make_key, sign_files
from labeldp.curator import LedgerFile
from labeldp.privacy import Certificate, Charge, Plan, PrivacyLoss, RandomnessKind, Step, Trust, Unit
from labeldp.privacy.charges import stated_unit
from labeldp.releases import release_file

FILE = Path(__file__).parents[2] / "tools" / "verify_certificate.py"
VERIFIER = runpy.run_path(str(FILE))


def test_it_is_one_file_of_the_standard_library() -> None:
    text = FILE.read_text(encoding="utf-8")
    modules = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert modules <= sys.stdlib_module_names and len(text.splitlines()) < 560


def test_signatures_are_those_of_the_standard() -> None:
    """RFC 8032, section 7.1, test 3, and keys of another implementation."""
    is_signed = VERIFIER["is_signed"]
    public = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
    signature = bytes.fromhex(
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    )
    assert is_signed(public, bytes.fromhex("af82"), signature)
    assert not is_signed(public, bytes.fromhex("af83"), signature)
    rng = random.Random(0)
    for number in range(10):
        key, message = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32)), rng.randbytes(number)
        public, signature = key.public_key().public_bytes_raw(), key.sign(message)
        assert is_signed(public, message, signature)
        changed = bytearray(signature)
        changed[rng.randrange(64)] ^= 1 << rng.randrange(8)
        with pytest.raises(InvalidSignature):
            key.public_key().verify(bytes(changed), message)
        try:
            assert not is_signed(public, message, bytes(changed))
        except ValueError:  # no point of the curve
            continue


LOSSES: list[Callable[[], PrivacyLoss]] = [
    lambda: PrivacyLoss.pure("0.5"),
    lambda: PrivacyLoss.response("0.3", 5),
    lambda: PrivacyLoss.response(2, 3) * 3,
    lambda: PrivacyLoss.gaussian(0.25),
    lambda: PrivacyLoss.gaussian(1.5) * 4,
    lambda: PrivacyLoss.approximate("0.7", "1e-7"),
    lambda: PrivacyLoss.gaussian(0.1) + PrivacyLoss.pure("0.2") + PrivacyLoss.failure("1e-9"),
]


KEPT = {
    Unit.ONE_LABEL: (Unit.ONE_LABEL,),
    Unit.ONE_USER: (Unit.ONE_USER, Unit.ONE_LABEL),
    Unit.FULL: (Unit.FULL, Unit.ONE_LABEL),
    Unit.ONE_LOSS: (Unit.ONE_LOSS, Unit.ZERO_OUT),
    Unit.ZERO_OUT: (Unit.ZERO_OUT,),
}
"""What an account may keep that was charged for a unit."""


def certified(rng: random.Random) -> Certificate:
    """A certificate of some charges: parts of splits, plans, units and accounts among them."""
    charges = []
    family = rng.choice([(Unit.ONE_LABEL,), (Unit.ONE_LABEL, Unit.ONE_USER, Unit.FULL), (Unit.ONE_LOSS, Unit.ZERO_OUT)])
    for number in range(rng.randrange(1, 4)):
        path = tuple((rng.choice("st"), rng.randrange(2)) for _ in range(rng.randrange(2)))
        loss, plan, releases, unit = rng.choice(LOSSES)(), None, [], rng.choice(family)
        if rng.random() < 0.4:
            more = tuple((rng.choice("st"), rng.randrange(2)) for _ in range(rng.randrange(2)))
            steps = (
                Step("", loss, path, rng.randrange(1, 3), unit=unit),
                Step("", rng.choice(LOSSES)(), more, 1, unit=unit),
            )
            plan = Plan(rng.choice("pq"), steps)
            releases = rng.choices(steps, k=rng.choice((0, 0, 1, 2)))  # more than the plan has, at times
        given: dict[str, Any] = {"unit": unit}
        if rng.random() < 0.7:
            budgets = ((Fraction(3), Fraction(0)), (Fraction(2), Fraction(1, 10**6)))
            given |= {"account": rng.choice("ab"), "budgets": budgets[: rng.randrange(1, 3)]}
            given["keeps"] = rng.choice(KEPT[unit])
        for index, (part, cost) in enumerate([(path, loss), *((step.path, step.loss) for step in releases)]):
            inside = (*part, ("u", rng.randrange(2))) if index and rng.random() < 0.3 else part
            charge = Charge(f"{number}.{index}", inside, cost, {"mechanism": "M"}, {}, plan, **given)
            if charge.exceeds_budgets:
                charge = replace(charge, budgets=((Fraction(100), Fraction(1, 10**6)),))
            if charge.exceeds_budgets:
                charge = replace(charge, account="", budgets=(), keeps=None)
            charges.append(charge)
    unit = stated_unit(charges)
    return Certificate(tuple(charges), "people", unit, Trust.CENTRAL, RandomnessKind.SYSTEM, "sums")


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_guarantees_are_those_of_the_library(count: int) -> None:
    """Rounded up: never below, and above by rounding alone."""
    rng, infinite = random.Random(count), 0
    for _ in range(count):
        certificate, delta = certified(rng), rng.choice(["0", "1e-6", "1e-5"])
        content = json.loads(json.dumps(certificate.to_json()))
        charges = [VERIFIER["Charge"](entry) for entry in content["entries"]]
        ours, theirs = certificate.epsilon(delta), VERIFIER["guarantee"](charges, Fraction(delta))
        infinite += math.isinf(ours)
        assert VERIFIER["stated_unit"](charges) == certificate.neighbors.name
        assert theirs == ours or ours * (1 - 1e-9) <= theirs <= ours * (1 + 1e-9), (content, delta)
    assert infinite < 0.6 * count


def changed_units(certificate: Certificate, rng: random.Random) -> dict[str, Any]:
    """A certificate with other units of protection in some of its fields."""
    content: dict[str, Any] = json.loads(json.dumps(certificate.to_json()))
    entries = content["entries"]
    fields = [(content, "neighbors"), *[(entry, "unit") for entry in entries]]
    fields += [(entry, "keeps") for entry in entries if "keeps" in entry]
    fields += [(entry["plan"], "unit") for entry in entries if "plan" in entry]
    for place, name in rng.sample(fields, min(len(fields), rng.randrange(1, 3))):
        place[name] = rng.choice([*Unit.__members__, "nothing"])
    if rng.random() < 0.1:
        rng.choice(entries).pop(rng.choice(["unit", "keeps"]), None)
    return content


def accepted(read: Callable[[], Any]) -> bool:
    """Whether a reader takes a certificate for one."""
    try:
        return bool(read())
    except (ValueError, KeyError):
        return False


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_both_readers_refuse_units_that_the_charges_do_not_have(count: int, tmp_path: Path) -> None:
    """A certificate states no unit that is not one of all of its charges and, for several, of their accounts."""
    rng, taken = random.Random(count), 0
    place = tmp_path / "noisy.csv"
    place.touch()
    for _ in range(count):
        content = changed_units(certified(rng), rng)
        document = {"format": 1, "sha256": "", "certificate": content | {"assumptions": []}}
        (tmp_path / "noisy.csv.certificate.json").write_text(json.dumps(document))
        ours = accepted(lambda content=content: Certificate.from_json(content))
        assert ours == accepted(lambda: VERIFIER["load"](place)), content
        taken += ours
        if ours:
            neighbors = Unit[content["neighbors"]]
            for entry in content["entries"]:
                assert neighbors in KEPT[Unit[entry["unit"]]]
                assert "plan" not in entry or entry["plan"]["unit"] == entry["unit"]
    assert 0 < taken < count / 2


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a signed release, its ledger's export and the signer's key."""
    folder = tmp_path_factory.mktemp("honest")
    (folder / "people.csv").write_text("id,bought\n" + "".join(f"{k},{'yes' if k % 3 else 'no'}\n" for k in range(40)))
    LedgerFile(folder / "l.ledger").add("bought", ldp.Budget(5))
    asked: dict[str, Any] = {"label": "bought", "domain": ldp.Classes(("no", "yes")), "dataset": "bought"}
    for name in ("noisy.csv", "noisy.arrow", "noisy.parquet"):
        release_file(
            folder / "people.csv", out=folder / name, epsilon=1, ledger=folder / "l.ledger", id_column="id", **asked
        )
    make_key(str(folder / "me.pem"))
    for name in ("noisy.csv", "noisy.arrow", "noisy.parquet"):
        sign_files(str(folder / name), str(folder / "me.pem"))
    (folder / "ledger.json").write_text(json.dumps(export_ledger(str(folder / "l.ledger"))))
    return folder


@pytest.fixture
def fresh(honest: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    for file in honest.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def status(folder: Path, *words: str, name: str = "noisy.csv") -> int:
    """The exit status of the verifier."""
    return int(VERIFIER["main"]([str(folder / name), *words]))


def test_it_runs_alone(fresh: Path) -> None:
    """Without the packages of this environment: isolated, and from another folder."""
    command = [
        sys.executable,
        "-I",
        "-S",
        str(FILE),
        "noisy.csv",
        "--signed-by",
        "me.pem.pub",
        "--ledger",
        "ledger.json",
    ]
    done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "holds: the guarantee: ONE_LABEL: epsilon = 1.0, delta = 0.0" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["noisy.csv", "noisy.arrow", "noisy.parquet"])
def test_only_a_signature_of_somebody_who_is_named_suffices(fresh: Path, name: str) -> None:
    signed = ("--signed-by", str(fresh / "me.pem.pub"))
    assert status(fresh, *signed, name=name) == 0
    assert status(fresh, name=name) == status(fresh, "--ledger", str(fresh / "ledger.json"), name=name) == 2
    make_key(str(fresh / "other.pem"))
    assert status(fresh, "--signed-by", str(fresh / "other.pem.pub"), name=name) == 1
    (fresh / f"{name}.signature").unlink()
    assert status(fresh, *signed, name=name) == 1
    assert status(fresh, name=name) == 2


def test_a_claim_is_compared_with_the_guarantee(fresh: Path) -> None:
    signed = ("--signed-by", str(fresh / "me.pem.pub"))
    assert status(fresh, *signed, "--epsilon", "1") == status(fresh, *signed, "--epsilon", "2", "--delta", "1e-6") == 0
    assert status(fresh, *signed, "--epsilon", "0.999") == 1
    assert status(fresh, *signed, "--epsilon", "nan") == status(fresh, *signed, "--delta", "2") == 1
    for option in ("--epsilon", "--delta", "--ledger", "--signed-by"):
        assert status(fresh, *signed, option, "") == 1, option


DEEP = "[" * 100_000
SIDECAR = "noisy.csv.certificate.json"
ATTACKS: dict[str, Callable[[str], bytes]] = {
    "no JSON": lambda text: text[:-9].encode(),
    "empty": lambda text: b"",
    "a list": lambda text: b"[]",
    "nested": lambda text: DEEP.encode(),
    "a key twice": lambda text: text.replace('"rows": 40', '"rows": 41, "rows": 40').encode(),
    "a field twice": lambda text: text.replace('"epsilon": "1"', '"epsilon": "0.1", "epsilon": "1"').encode(),
    "NaN": lambda text: text.replace('"rows": 40', '"rows": NaN').encode(),
    "infinity": lambda text: text.replace('"rows": 40', '"rows": 1e999').encode(),
    "no UTF-8": lambda text: text.replace('"dataset": "bought"', '"dataset": "bou\udcffght"').encode(
        errors="surrogateescape"
    ),
    "half a character": lambda text: text.replace('"dataset": "bought"', '"dataset": "\\ud800"').encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "a huge number": lambda text: text.replace('"epsilon": "1"', f'"epsilon": "{"9" * 10**6}"').encode(),
    "a huge exponent": lambda text: text.replace('"epsilon": "1"', '"epsilon": "1e999999999"').encode(),
    "a huge integer": lambda text: text.replace('"times": 1', f'"times": {"9" * 5000}').encode(),
    "many times": lambda text: text.replace('"times": 1', '"times": 1000000000000000000000').encode(),
    "many classes": lambda text: text.replace('"classes": 2', '"classes": -2').encode(),
    "nothing": lambda text: text.replace('"epsilon": "1"', '"epsilon": "0"').encode(),
    "less than nothing": lambda text: text.replace('"epsilon": "1"', '"epsilon": "-1"').encode(),
    "a division by zero": lambda text: text.replace('"epsilon": "1"', '"epsilon": "1/0"').encode(),
    "another kind": lambda text: text.replace('"kind": "response"', '"kind": "nothing"').encode(),
    "no charge": lambda text: json.dumps(changed(text, entries=[])).encode(),
    "a text for a list": lambda text: json.dumps(changed(text, assumptions="none")).encode(),
    "another word": lambda text: json.dumps(changed(text, trust="ALL")).encode(),
    "no noise": lambda text: json.dumps(changed(text, randomness="SIMULATION")).encode(),
}


def changed(text: str, **fields: Any) -> Any:
    """A document with other fields in its certificate."""
    content = json.loads(text)
    content["certificate"] |= fields
    return content


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_damaged_certificate_is_wrong_in_a_line(fresh: Path, attack: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (fresh / SIDECAR).read_text(encoding="utf-8")
    raw = ATTACKS[attack](text)
    assert raw != text.encode()
    (fresh / SIDECAR).write_bytes(raw)
    (fresh / "noisy.csv.signature").unlink()
    capsys.readouterr()
    assert status(fresh, "--ledger", str(fresh / "ledger.json")) == 1
    said = capsys.readouterr()
    assert any(line.startswith("WRONG: ") for line in said.out.splitlines()) and said.err == ""
    assert all(len(line) <= 500 and line.isascii() for line in said.out.splitlines())


@pytest.mark.parametrize("target", ["noisy.csv", SIDECAR, "noisy.csv.signature"])
def test_what_is_missing_or_a_link_is_wrong(fresh: Path, target: str) -> None:
    signed = ("--signed-by", str(fresh / "me.pem.pub"))
    (fresh / target).rename(fresh / "elsewhere")
    assert status(fresh, *signed) == 1
    (fresh / target).symlink_to(fresh / "elsewhere")
    assert status(fresh, *signed) == 1
    (fresh / target).unlink()
    (fresh / target).mkdir()
    assert status(fresh, *signed) == 1


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n"])
def test_a_key_that_is_none_is_wrong(fresh: Path, raw: bytes) -> None:
    (fresh / "me.pem.pub").write_bytes(raw)
    assert status(fresh, "--signed-by", str(fresh / "me.pem.pub")) == 1


def test_a_forged_signature_is_wrong(fresh: Path) -> None:
    signed, place = ("--signed-by", str(fresh / "me.pem.pub")), fresh / "noisy.csv.signature"
    honest = json.loads(place.read_text())
    for field, value in (
        ("signature", base64.b64encode(bytes(64)).decode()),
        ("signature", base64.b64encode(b"\xff" * 64).decode()),
        ("signature", "é"),
        ("signature", 7),
        ("public_key", base64.b64encode(bytes(32)).decode()),
        ("files", {}),
        ("files", {**honest["files"], "/more": "0" * 64}),
        ("format", "labeldp signature 2"),
    ):
        place.write_text(json.dumps({**honest, field: value}))
        assert status(fresh, *signed) == 1, (field, value)


def test_an_export_that_is_none_is_wrong(fresh: Path) -> None:
    for raw in ("{}", "[]", "{", '{"format": "labeldp ledger export 1"}'):
        (fresh / "ledger.json").write_text(raw)
        assert status(fresh, "--signed-by", str(fresh / "me.pem.pub"), "--ledger", str(fresh / "ledger.json")) == 1


def test_the_export_holds_no_secret(fresh: Path) -> None:
    """Neither keys nor digests of labels nor values leave."""
    text = (fresh / "ledger.json").read_text()
    raw = (fresh / "l.ledger").read_bytes()
    assert set(json.loads(text)["datasets"]["bought"]) == {"budget", "promised", "unit", "releases"}
    for number in range(0, len(raw) - 32, 7):
        assert raw[number : number + 32].hex() not in text


def test_bad_options_are_no_success(fresh: Path) -> None:
    for words in (["--unknown"], ["--ledger"], []):
        with pytest.raises(SystemExit) as done:
            VERIFIER["main"](words)
        assert done.value.code == 1
