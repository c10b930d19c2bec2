"""One file, two readers: labeldp and the verifier read the same certificate, or both refuse the file."""

import json
import random
import runpy
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import labeldp as ldp
from labeldp.audit import check_signature, describe_certificate, make_key, sign_files
from labeldp.curator import LedgerFile
from labeldp.fit import fit_file, fit_request, load, verify
from labeldp.privacy import InputError
from labeldp.releases import release_file
from labeldp.report import render_report
from labeldp.tables.footer import read_value

VERIFIER = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "verify_certificate.py"))
KEY = b"labeldp.certificate"
CLASSES = ldp.Classes(("no", "yes"))
NAMES = ("noisy.parquet", "noisy.csv", "noisy.csv.gz", "noisy.arrow", "parts", "model")
SECRET = Path("me.pem")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with released files of all formats and a model, signed."""
    folder = tmp_path_factory.mktemp("honest")
    rows = range(60)
    people = pa.table({"id": rows, "age": [n % 7 for n in rows], "bought": [("no", "yes")[n % 3 > 1] for n in rows]})
    csv.write_csv(people, folder / "people.csv")
    (folder / "people").mkdir()
    for number in range(2):
        csv.write_csv(people.slice(30 * number, 30), folder / "people" / f"{number}.csv")
    LedgerFile(folder / "l.ledger").add("bought", ldp.Budget(30))
    asked: dict[str, Any] = {"label": "bought", "domain": CLASSES, "dataset": "bought", "id_column": "id"}
    for name in NAMES[:-1]:
        source = folder / ("people" if name == "parts" else "people.csv")
        release_file(source, out=folder / name, epsilon=1, ledger=folder / "l.ledger", **asked)
    request = fit_request("bought", CLASSES, 1.0, 0.0, "bought", id_column="id", model="linear")
    out = str(folder / "model")
    fit_file(request, str(folder / "people.csv"), ledger=str(folder / "l.ledger"), out=out, render=render_report)
    make_key(str(folder / SECRET))
    for name in NAMES:
        sign_files(str(folder / name), str(folder / SECRET))
    return folder


@pytest.fixture
def fresh(honest: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(honest, tmp_path / "fresh"))


def document(folder: Path, name: str) -> Path:
    """Where the certificate of a result stands, of all but Parquet."""
    inside = {"parts": "parts/_certificate.json", "model": "model/certificate.json"}
    return folder / inside.get(name, f"{name}.certificate.json")


Read = tuple[Any, ...] | None


def ours(path: Path) -> Read:
    """What labeldp reads of a certificate: its words, and its epsilon at three deltas; None where it refuses."""
    try:
        certificate = verify(str(path)).certificate
    except InputError:
        return None
    words = certificate.neighbors.name, certificate.trust.name, certificate.randomness.name
    texts = certificate.dataset, certificate.published, *certificate.assumptions, *certificate.cohorts
    return words, texts, [certificate.epsilon(delta) for delta in (0, "1e-6", 0.125)]


def theirs(path: Path) -> Read:
    """The same of the verifier."""
    try:
        certificate, charges, _, _ = VERIFIER["load"](path)
        protects = certificate["trust"] != "NONE"
        deltas = (Fraction(0), Fraction(1, 10**6), Fraction(1, 8))
        epsilons = [VERIFIER["guarantee"](charges, delta) if protects else float("inf") for delta in deltas]
    except Exception:
        return None
    words = certificate["neighbors"], certificate["trust"], certificate["randomness"]
    texts = certificate["dataset"], certificate["published"], *certificate["assumptions"]
    return words, (*texts, *certificate.get("cohorts", ())), epsilons


def status(path: Path, folder: Path) -> int:
    """The exit status of the verifier, which knows the signer."""
    return int(VERIFIER["main"]([str(path), "--signed-by", str(folder / "me.pem.pub")]))


def agree(one: Read, other: Read) -> bool:
    """Whether two readers read the same, with epsilons up to rounding."""
    if one is None or other is None:
        return one is other
    return one[:2] == other[:2] and one[2] == pytest.approx(other[2], rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_both_read_what_is_honest(honest: Path, name: str) -> None:
    read = ours(honest / name)
    assert read is not None and agree(read, theirs(honest / name))
    assert status(honest / name, honest) == 0
    assert check_signature(str(honest / name), signed_by=str(honest / "me.pem.pub")).holds


def varint(number: int) -> bytes:
    """A number of Thrift's compact protocol, and of no sign."""
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def text(content: bytes) -> bytes:
    """A text with its length."""
    return varint(len(content)) + content


def pair(key: bytes, value: bytes) -> bytes:
    """A pair of the metadata, as every writer writes it."""
    return b"\x18" + text(key) + b"\x18" + text(value) + b"\x00"


class Footer:
    """The footer of a Parquet file in pieces: before the list of pairs, the pairs, and what follows."""

    def __init__(self, path: Path) -> None:
        self.path, raw = path, path.read_bytes()
        size = int.from_bytes(raw[-8:-4], "little")
        self.body, footer = raw[: -8 - size], raw[-8 - size : -8]
        pairs = [pair(key, value) for key, value in parquet.read_metadata(path).metadata.items()]
        pairs.sort(key=footer.index)
        listed = b"\x19" + bytes([len(pairs) << 4 | 12]) + b"".join(pairs)
        assert footer.count(listed) == 1
        self.before, _, self.after = footer.partition(listed)
        self.pairs = pairs
        [self.own] = [pair for pair in pairs if KEY in pair[:30]]
        self.real = parquet.read_metadata(path).metadata[KEY]
        self.decoy = self.real.replace(b'"epsilon": "1"', b'"epsilon": "1/9"')

    @property
    def head(self) -> bytes:
        return bytes([len(self.pairs) << 4 | 12])

    def write(self, footer: bytes, *, start: bytes = b"", end: bytes = b"PAR1") -> None:
        self.path.write_bytes(start + self.body + footer + len(footer).to_bytes(4, "little") + end)

    def listed(self, *pairs: bytes) -> bytes:
        """A footer with these pairs."""
        return self.before + b"\x19" + bytes([len(pairs) << 4 | 12]) + b"".join(pairs) + self.after


def value_first(f: Footer) -> None:
    """Legal Thrift that hides the decoy where a search for bytes finds it."""
    real = b"\x28" + text(f.real) + b"\x08\x02" + text(KEY) + b"\x00"
    f.write(f.listed(real, pair(b"x", pair(KEY, f.decoy))))


FOOTERS: dict[str, Callable[[Footer], None]] = {
    "a value before its key": value_first,
    "a key twice, the decoy first": lambda f: f.write(f.listed(pair(KEY, f.decoy), *f.pairs)),
    "a key twice, the decoy last": lambda f: f.write(f.listed(*f.pairs, pair(KEY, f.decoy))),
    "a key twice in a pair": lambda f: f.write(
        f.listed(f.own[:-1] + b"\x08\x02" + text(KEY) + b"\x08\x04" + text(f.decoy) + b"\x00")
    ),
    "a third text in a pair": lambda f: f.write(f.listed(f.own[:-1] + b"\x18" + text(f.decoy) + b"\x00")),
    "no value": lambda f: f.write(f.listed(b"\x18" + text(KEY) + b"\x00")),
    "a value that is a number": lambda f: f.write(f.listed(b"\x18" + text(KEY) + b"\x16\x02\x00")),
    "the pairs twice": lambda f: f.write(
        f.before + b"\x19" + f.head + b"".join(f.pairs) + b"\x09\x0a\x1c" + pair(KEY, f.decoy) + f.after
    ),
    "pairs under a number that wraps at 2^16": lambda f: f.write(
        f.before
        + b"\x19"
        + f.head
        + b"".join(f.pairs)
        + b"\x09"
        + varint(2 * (65536 + 5))
        + b"\x1c"
        + pair(KEY, f.decoy)
        + f.after
    ),
    "a number of a field in full": lambda f: f.write(f.before + b"\x09\x0a" + f.head + b"".join(f.pairs) + f.after),
    "a list of another declared type": lambda f: f.write(
        f.before + b"\x19" + bytes([len(f.pairs) << 4 | 11]) + b"".join(f.pairs) + f.after
    ),
    "a list of integers in place of row groups": lambda f: f.write(
        f.listed(*f.pairs).replace(b"\x19\x1c", b"\x19\x15")
    ),
    "a length that wraps at 2^32": lambda f: f.write(
        f.listed(b"\x18" + text(KEY) + b"\x18" + varint(2**32 + len(f.decoy)) + f.decoy + b"\x00")
    ),
    "a length of eleven bytes": lambda f: f.write(
        f.listed(b"\x18" + b"\x93" + b"\x80" * 10 + b"\x00" + KEY + b"\x18" + text(f.decoy) + b"\x00")
    ),
    "an end with a number": lambda f: f.write(f.listed(*f.pairs)[:-1] + b"\x10"),
    "bytes behind the fields": lambda f: f.write(f.listed(*f.pairs) + f.listed(pair(KEY, f.decoy))),
    "a byte behind the fields": lambda f: f.write(f.listed(*f.pairs) + b"\x00"),
    "a signature behind the fields": lambda f: f.write(f.listed(*f.pairs) + bytes(28)),
    "no end": lambda f: f.write(f.listed(*f.pairs)[:-1]),
    "an encrypted footer": lambda f: f.write(f.listed(*f.pairs), end=b"PARE"),
    "bytes before the file": lambda f: f.write(f.listed(*f.pairs), start=b"PAR1" + f.decoy),
    "another start": lambda f: f.write(f.listed(*f.pairs), start=b"XXXX"),
    "bytes after the file": lambda f: f.path.write_bytes(f.path.read_bytes() + b"\n"),
    "a start alone": lambda f: f.path.write_bytes(b"PAR1"),
    "a length beyond the file": lambda f: f.path.write_bytes(f.path.read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "a deep footer": lambda f: f.write(b"\x1c" * 100_000),
    "a wide list": lambda f: f.write(f.before + b"\x19\xfc" + b"\xff\xff\xff\xff\x0f" + b"".join(f.pairs)),
    "a mark before the text": lambda f: f.write(f.listed(pair(KEY, b"\xef\xbb\xbf" + f.real))),
    "UTF-16": lambda f: f.write(f.listed(pair(KEY, f.real.decode().encode("utf-16")))),
    "two texts": lambda f: f.write(f.listed(pair(KEY, f.real + f.decoy))),
    "no text": lambda f: f.write(f.listed(pair(KEY, b""))),
    "another key": lambda f: f.write(f.listed(pair(KEY + b"\x00", f.real))),
    "a key in capitals": lambda f: f.write(f.listed(pair(KEY.upper(), f.real))),
    "a certificate beside it": lambda f: (
        f.path.with_name("noisy.parquet.certificate.json").write_bytes(f.decoy) and None
    ),
    "a link beside it": lambda f: f.path.with_name("noisy.parquet.certificate.json").symlink_to("people.csv"),
}


@pytest.mark.parametrize("attack", FOOTERS)
def test_both_refuse_an_unusual_footer(fresh: Path, attack: str) -> None:
    """A signature does not help: what only one of them can read is not signed."""
    path = fresh / "noisy.parquet"
    footer = Footer(path)
    assert footer.decoy != footer.real
    FOOTERS[attack](footer)
    assert ours(path) is None
    assert theirs(path) is None or attack == "bytes before the file"  # the verifier does not look at pages
    (fresh / "noisy.parquet.signature").unlink()
    with pytest.raises(InputError):
        sign_files(str(path), str(fresh / SECRET))
    assert status(path, fresh) == 1


def pairs_of_pyarrow(path: Path) -> Any:
    try:
        return dict(parquet.read_metadata(path).metadata or {})
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None


def test_a_key_of_others_may_occur_twice(fresh: Path) -> None:
    """As Arrow writes it after a user copied the metadata."""
    path = fresh / "noisy.parquet"
    table = parquet.read_table(path).replace_schema_metadata(parquet.read_metadata(path).metadata)
    parquet.write_table(table, path)
    assert path.read_bytes().count(b"ARROW:schema") > 1
    assert ours(path) is not None and agree(ours(path), theirs(path))


@pytest.mark.parametrize("count", [1500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutated_footers_have_one_reading(fresh: Path, count: int) -> None:
    """Three parsers: whatever both of ours read, pyarrow reads, too, unless it refuses the file."""
    rng, accepted = random.Random(count), 0
    path = fresh / "noisy.parquet"
    footer = Footer(path)
    plain = footer.listed(*footer.pairs)
    small = footer.listed(pair(KEY, b"{}"), pair(b"x", pair(KEY, b"[]")))
    for _ in range(count):
        raw = bytearray(rng.choice([plain, small, small]))
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            place = rng.randrange(len(raw))
            kind = rng.choice(["bit", "byte", "insert", "remove", "copy", "nibble"])
            if kind == "bit":
                raw[place] ^= 1 << rng.randrange(8)
            elif kind == "byte":
                raw[place] = rng.choice([0, 1, 12, 0x18, 0x19, 0x1C, 0x28, 127, 128, 255, rng.randrange(256)])
            elif kind == "nibble":
                raw[place] = raw[place] & 15 | rng.randrange(16) << 4
            elif kind == "insert":
                raw[place:place] = rng.randbytes(rng.randrange(1, 4))
            elif kind == "copy":
                end = place + rng.randrange(60)
                raw[place:place] = raw[place:end]
            else:
                del raw[place : place + rng.randrange(1, 4)]
        footer.write(bytes(raw))
        mine, other = None, None
        with suppress(ValueError):
            mine = read_value(path, KEY)  # None, too, where the key is missing
        with suppress(Exception):
            [other] = [text for key, text in VERIFIER["key_values"](bytes(raw)) if key == KEY]
        assert mine == other, bytes(raw)
        third = pairs_of_pyarrow(path)
        accepted += mine is not None
        assert mine is None or third is None or mine == third[KEY], bytes(raw)
    assert count / 50 < accepted < count / 2


def twice(content: str, key: str, value: str) -> str:
    """A JSON text in which a key occurs twice."""
    start = content.index(f'"{key}"')
    return f'{content[:start]}"{key}": {value}, {content[start:]}'


TEXTS: dict[str, Callable[[str], bytes]] = {
    **{
        f"{key} twice": lambda content, key=key, value=value: twice(content, key, value).encode()
        for key, value in {
            "certificate": "{}",
            "format": "1",
            "entries": "[]",
            "dataset": '"x"',
            "trust": '"LOCAL"',
            "loss": "[[]]",
            "epsilon": '"1/9"',
            "kind": '"failure"',
            "times": "1",
            "mechanism": '{"mechanism": "x"}',
            "budgets": '[["1/9", "0"]]',
        }.items()
    },
    "a key twice, once escaped": lambda content: (
        twice(content, "trust", '"LOCAL"').replace('"trust"', '"tr\\u0075st"', 1).encode()
    ),
    "NaN": lambda content: content.replace('"format": 1', '"format": 1, "more": NaN').encode(),
    "infinity": lambda content: content.replace('"format": 1', '"format": 1, "more": [-1e999]').encode(),
    "a huge integer": lambda content: content.replace('"times": 1', f'"times": {"9" * 5000}').encode(),
    "steps as a text": lambda content: content.replace('"times": 1', '"times": "1"').encode(),
    "steps as a fraction": lambda content: content.replace('"times": 1', '"times": 1.9').encode(),
    "a wrong boolean": lambda content: content.replace('"times": 1', '"times": true').encode(),
    "a number in other digits": lambda content: content.replace('"epsilon": "1"', '"epsilon": "١"').encode(),
    "a number with a space": lambda content: content.replace('"epsilon": "1"', '"epsilon": " 1"').encode(),
    "a number with a sign": lambda content: content.replace('"epsilon": "1"', '"epsilon": "+1"').encode(),
    "an underscore": lambda content: content.replace('"epsilon": "1"', '"epsilon": "1_0"').encode(),
    "a mark before the text": lambda content: content.encode("utf-8-sig"),
    "UTF-16": lambda content: content.encode("utf-16-le"),
    "UTF-32": lambda content: content.encode("utf-32"),
    "Latin-1": lambda content: content.replace('"dataset": "bought"', '"dataset": "é"').encode("latin-1"),
    "half a character": lambda content: content.replace('"dataset": "bought"', '"dataset": "\\udc00"').encode(),
    "bytes after the text": lambda content: content.encode() + b"{}",
    "a NUL after the text": lambda content: content.encode() + b"\0",
    "bytes before the text": lambda content: b"\x0c" + content.encode(),
    "a comment": lambda content: b"// 1\n" + content.encode(),
    "a deep value": lambda content: content.replace('"format": 1', '"format": 1, "more": ' + "[" * 99_999).encode(),
    "another format": lambda content: content.replace('"format": 1', '"format": 1.5').encode(),
    "a list": lambda content: f"[{content}]".encode(),
}


def written(folder: Path, name: str, raw: bytes) -> None:
    """Write a certificate where it belongs."""
    if name == "noisy.parquet":
        footer = Footer(folder / name)
        footer.write(footer.listed(pair(KEY, raw)))
    else:
        document(folder, name).write_bytes(raw)


@pytest.mark.parametrize("name", ["noisy.parquet", "noisy.csv", "parts", "model"])
def test_both_refuse_texts_that_readers_take_differently(fresh: Path, name: str) -> None:
    honest = Footer(fresh / name).real.decode() if name == "noisy.parquet" else document(fresh, name).read_text()
    for what, attack in TEXTS.items():
        raw = attack(honest)
        assert raw != honest.encode(), what
        written(fresh, name, raw)
        assert ours(fresh / name) is theirs(fresh / name) is None, what
        written(fresh, name, honest.encode())
    assert ours(fresh / name) is not None


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


LEAVES = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        1.0,
        1.5,
        2,
        10**30,
        "",
        "0",
        "1",
        "1.0",
        "01",
        "1/2",
        "2/4",
        "0.5",
        "1e-3",
        "-1",
        "+1",
    ),
    *(
        "1e999",
        "x",
        "response",
        "gaussian",
        "failure",
        "LOCAL",
        "CENTRAL",
        "NONE",
        "FULL",
        "SIMULATION",
        "0x1p-1",
        "nan",
    ),
    *([], {}, [[]], ["0", "0"], [["s", 0]], [["s", 0.0]]),
)


def test_mutated_certificates_have_one_reading(fresh: Path) -> None:
    """What both read is the same; what one refuses, the other refuses."""
    rng, read = random.Random(7), 0
    path = fresh / "noisy.csv"
    honest = json.loads(document(fresh, "noisy.csv").read_text())
    honest["certificate"].pop("request")
    [entry] = honest["certificate"]["entries"]
    losses: list[Any] = [
        entry["loss"],
        [[{"kind": "response", "epsilon": "1/2", "classes": 3, "times": 2}]],
        [[{"kind": "failure", "delta": "1/1000000", "times": 1}, {"kind": "gaussian", "mu": (0.25).hex(), "times": 1}]],
    ]
    for number in range(1500):
        content = json.loads(json.dumps(honest))
        [charge] = content["certificate"]["entries"]
        charge["loss"] = json.loads(json.dumps(rng.choice(losses)))
        if rng.random() < 0.5:
            steps = [[[], charge["loss"], rng.choice([1, 2])], [[["s", 0]], losses[0], 1]]
            charge |= {"plan": {"name": "p", "unit": "ONE_LABEL", "steps": json.loads(json.dumps(steps))}}
        if rng.random() < 0.4:
            content["certificate"]["entries"].append(json.loads(json.dumps(charge | {"id": "other"})))
        for _ in range(rng.choice([1, 1, 2])):
            container, key = rng.choice(places(content["certificate"]))
            if isinstance(container, dict) and rng.random() < 0.1:
                del container[key]
            elif isinstance(container, dict) and rng.random() < 0.1:
                container[rng.choice(["more", "classes", "times"])] = rng.choice(LEAVES)
            elif isinstance(container, list) and rng.random() < 0.1:
                container.append(json.loads(json.dumps(rng.choice(container))))
            else:
                container[key] = json.loads(json.dumps(rng.choice(LEAVES)))
        document(fresh, "noisy.csv").write_text(json.dumps(content))
        one, other = ours(path), theirs(path)
        read += one is not None
        assert agree(one, other), (number, json.dumps(content["certificate"]["entries"]), one, other)
    assert 100 < read < 1000


def charge(name: str, loss: Any, **more: Any) -> dict[str, Any]:
    """A charge of a certificate."""
    return {"id": name, "path": [], "loss": loss, "unit": "ONE_LABEL", "mechanism": {"mechanism": "X"}, **more}


def pure(epsilon: str, **more: Any) -> Any:
    return [[{"kind": "response", "epsilon": epsilon, "classes": 2, "times": 1, **more}]]


def certified(folder: Path, *charges: Any) -> tuple[Read, Read]:
    """What both read of a certificate with these charges."""
    content = json.loads(document(folder, "noisy.csv").read_text())
    content["certificate"]["entries"] = list(charges)
    document(folder, "noisy.csv").write_text(json.dumps(content))
    return ours(folder / "noisy.csv"), theirs(folder / "noisy.csv")


def test_two_charges_of_one_plan_are_one_block_for_both(fresh: Path) -> None:
    """A field that no loss has would make two plans of it for a reader that compares texts, and half of the cost."""

    def plan(**more: Any) -> Any:
        return {"name": "p", "unit": "ONE_LABEL", "steps": [[[], pure("1", **more), 10]]}

    one, other = certified(fresh, *(charge(name, pure("1"), plan=plan()) for name in "ab"))
    assert one is not None and agree(one, other) and one[2][0] == 10
    for more in ({"more": 1}, {"delta": "0"}, {"losses": []}):
        charges = charge("a", pure("1"), plan=plan()), charge("b", pure("1"), plan=plan(**more))
        assert certified(fresh, *charges) == (None, None)
        assert certified(fresh, charge("a", pure("1", **more))) == (None, None)


def test_parts_have_numbers_from_zero_for_both(fresh: Path) -> None:
    assert certified(fresh, charge("a", pure("1")) | {"path": [["s", -1]]}) == (None, None)
    plan = {"name": "p", "unit": "ONE_LABEL", "steps": [[[], pure("1"), 1], [[["s", -1]], pure("1"), 1]]}
    assert certified(fresh, charge("a", pure("1"), plan=plan)) == (None, None)


def gaussian(mu: float, times: int = 1) -> Any:
    return [[{"kind": "gaussian", "mu": mu.hex(), "times": times}]]


RANGE = [[{"kind": "bounded range", "eta": "9", "times": 1}]]
LIST = [[{"kind": "discrete", "losses": ["5", "-1"], "probabilities": ["99/100", "1/100"], "times": 1}]]
BEYOND: dict[str, tuple[Any, tuple[str, str]]] = {
    "ten times epsilon": (pure("10"), ("1", "0")),
    "a little more": (pure("1000000000000000001/1000000000000000000"), ("1", "0")),
    "a delta too small": (pure("10"), ("1", "1/1000000000000000000000")),
    "many small ones": (pure("1/10", times=200), ("1", "1/1000000")),
    "Gaussian, no delta": (gaussian(0.001), ("1", "0")),
    "Gaussian": (gaussian(3.0), ("1", "1/1000000")),
    "many Gaussian ones": (gaussian(0.25, 400), ("2", "1/1000000")),
    "a failure": ([[{"kind": "failure", "delta": "1/1000", "times": 1}]], ("1", "1/1000000")),
    "a failure beside another loss": (
        [[{"kind": "failure", "delta": "1/1000000", "times": 1}, *gaussian(0.25)[0]]],
        ("1", "1/1000000"),
    ),
    "a range": (RANGE, ("1", "1/1000000")),
    "a list": (LIST, ("1", "1/1000000")),
    "a list without a delta": (LIST, ("4", "0")),
}


@pytest.mark.parametrize("name", BEYOND)
def test_both_refuse_a_charge_that_costs_more_than_its_budgets(fresh: Path, name: str) -> None:
    """Two of them would be stated at the budget, and cost more each."""
    loss, budget = BEYOND[name]
    account = {"account": "a", "budgets": [list(budget)], "keeps": "ONE_LABEL"}
    assert certified(fresh, *(charge(name, loss, **account) for name in "ab")) == (None, None)
    larger = account | {"budgets": [list(budget), ["1000", "1/2"]]}
    one, other = certified(fresh, *(charge(name, loss, **larger) for name in "ab"))
    assert one is not None
    assert other is None or agree(one, other)  # the verifier does not compute every loss at a delta


def decoy(raw: bytes) -> bytes:
    """A certificate of another cost."""
    changed = raw.replace(b'"epsilon": "1"', b'"epsilon": "1/9"')
    assert changed != raw
    return changed


def test_both_refuse_a_folder_with_two_certificates(fresh: Path) -> None:
    shutil.copy(fresh / "model" / "certificate.json", fresh / "parts")
    shutil.copy(fresh / "parts" / "_certificate.json", fresh / "model")
    for name in ("parts", "model"):
        assert ours(fresh / name) is theirs(fresh / name) is None
        assert status(fresh / name, fresh) == 1


@pytest.mark.parametrize(
    "other", ["_Certificate.json", "CERTIFICATE.JSON", "certi\u017fi\u212aate.json", "Certificate.json"]
)
def test_both_refuse_a_name_that_a_file_system_takes_for_a_certificate(fresh: Path, other: str) -> None:
    """Letters in capitals are the same name on other file systems; the long s and the sign of Kelvin fold, too."""
    for name in ("parts", "model"):
        raw = document(fresh, name).read_bytes()
        (fresh / name / other).write_bytes(decoy(raw))
        if other.casefold() in ("certificate.json", "_certificate.json"):
            assert ours(fresh / name) is theirs(fresh / name) is None
        assert status(fresh / name, fresh) == 1
        document(fresh, name).unlink()
        assert ours(fresh / name) is theirs(fresh / name) is None


@pytest.mark.parametrize("name", NAMES)
def test_neither_passes_a_link(fresh: Path, name: str) -> None:
    """Not of the values, of the certificate or of the signature."""
    places = [fresh / name, document(fresh, name), fresh / f"{name}.signature", *sorted((fresh / name).rglob("*"))]
    places = [place for place in places if place.is_file()]
    assert len(places) > 1
    for place in places:
        place.rename(fresh / "elsewhere")
        place.symlink_to(fresh / "elsewhere")
        assert status(fresh / name, fresh) == 1, place
        signed = check_signature(str(fresh / name), signed_by=str(fresh / "me.pem.pub"))
        assert signed.holds is False, place
        if place.suffix != ".signature":
            assert not verify(str(fresh / name)).holds, place
            with pytest.raises(InputError):
                sign_files(str(fresh / name), str(fresh / SECRET), str(fresh / "new.signature"))
        place.unlink()
        (fresh / "elsewhere").rename(place)
    assert status(fresh / name, fresh) == 0


def test_metadata_of_an_arrow_file_is_no_certificate(fresh: Path) -> None:
    """Neither the schema before the batches nor the footer counts: both read the file beside it."""
    path = fresh / "noisy.arrow"
    raw = document(fresh, "noisy.arrow").read_bytes()
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    table = table.replace_schema_metadata({KEY: decoy(raw), b"x": b"y"})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, metadata={KEY: decoy(raw)}) as writer:
        writer.write_table(table)
    assert ours(path) is not None and agree(ours(path), theirs(path))
    assert ours(path)[2][0] == 1  # type: ignore[index]
    assert not verify(str(path)).holds and status(path, fresh) == 1


def test_the_schema_that_arrow_keeps_in_a_parquet_file_is_no_certificate(fresh: Path) -> None:
    path = fresh / "noisy.parquet"
    footer = Footer(path)
    table = parquet.read_table(path).replace_schema_metadata({KEY: footer.decoy})
    writer = parquet.ParquetWriter(path, table.schema)
    writer.write_table(table)
    writer.add_key_value_metadata({KEY: footer.real})
    writer.close()
    one, other = ours(path), theirs(path)
    assert agree(one, other) and (one is None or one[2][0] == 1)


@pytest.mark.parametrize("name", ["noisy.csv", "noisy.csv.gz", "noisy.arrow"])
@pytest.mark.parametrize("end", ["before", "after"])
def test_bytes_around_a_file_are_a_change(fresh: Path, name: str, end: str) -> None:
    path = fresh / name
    raw = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + raw if end == "before" else raw + b"\n")
    assert status(path, fresh) == 1
    with suppress(InputError):  # or it is no file of its kind
        assert not verify(str(path)).holds


@pytest.mark.parametrize("name", ["noisy.parquet", "noisy.arrow"])
def test_both_refuse_a_file_of_another_kind_than_its_name_says(fresh: Path, name: str) -> None:
    shutil.copy(fresh / "noisy.csv", fresh / name)
    shutil.copy(fresh / "noisy.csv.certificate.json", fresh / f"{name}.certificate.json")
    assert ours(fresh / name) is theirs(fresh / name) is None


def zipped(members: list[tuple[str, bytes]], path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members:
            file.writestr(name, content)


def two_schemas(members: list[tuple[str, bytes]], path: Path) -> None:
    zipped([("schema.json", b"{}"), *members], path)


def a_name_in_capitals(members: list[tuple[str, bytes]], path: Path) -> None:
    zipped([*members, ("SCHEMA.json", b"{}")], path)


def another_name_before_its_member(members: list[tuple[str, bytes]], path: Path) -> None:
    zipped(members, path)
    path.write_bytes(path.read_bytes().replace(b"schema.json", b"sch3ma.json", 1))


def bytes_before(members: list[tuple[str, bytes]], path: Path) -> None:
    zipped(members, path)
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())


def bytes_behind(members: list[tuple[str, bytes]], path: Path) -> None:
    zipped(members, path)
    path.write_bytes(path.read_bytes() + b"\n")


def a_note(members: list[tuple[str, bytes]], path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members:
            file.writestr(name, content)
        file.comment = b"PK\x05\x06" + bytes(18)


ARCHIVES = (two_schemas, a_name_in_capitals, another_name_before_its_member, bytes_before, bytes_behind, a_note)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("attack", ARCHIVES)
def test_no_archive_is_loaded_that_readers_take_differently(fresh: Path, attack: Callable[..., None]) -> None:
    """Not even with all digests in order."""
    place = fresh / "model" / "model.skops"
    with zipfile.ZipFile(place) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    digest = VERIFIER["sha256"](place.read_bytes()).hexdigest()
    zipped(members, place)
    attack(members, place)
    text = document(fresh, "model").read_text()
    document(fresh, "model").write_text(text.replace(digest, VERIFIER["sha256"](place.read_bytes()).hexdigest()))
    assert verify(str(fresh / "model")).holds
    with pytest.raises(InputError):
        load(str(fresh / "model"))
    with pytest.raises(InputError):
        describe_certificate(str(fresh / "model"), render=render_report)
