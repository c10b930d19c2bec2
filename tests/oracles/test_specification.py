"""Local noise as clients draw it: the specification's vectors, by the library and by a program that shares no code."""

import json
import runpy
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from architecture.source import ROOT
from labeldp.mechanisms import LocalHashing, Mechanism, UnaryEncoding

FOLDER = ROOT / "docs" / "specification"
VECTORS = FOLDER / "vectors.json"

MECHANISMS = [
    ldp.RandomizedResponse(domain=ldp.Classes(("no", "yes")), epsilon=0.5),
    ldp.RandomizedResponse(domain=ldp.Classes(7), epsilon="0.1"),
    UnaryEncoding(domain=ldp.Classes(("a", "b", "é")), epsilon=1),
    LocalHashing(domain=ldp.Classes(10), epsilon=1, seed=bytes(range(16))),
    LocalHashing(domain=ldp.Classes(("lung", "skin", "blood", "none")), epsilon=0.25),
]
KEY, CONTEXT = bytes(range(32)), b"bought, 2026"
RECORDS: list[list[int] | list[str]] = [[0, 1, 2, 77, -1, 2**63 - 1], ["anna", "b-17", "Zoë", ""]]


def answered(mechanism: Mechanism, ids: Any) -> list[dict[str, Any]]:
    """One vector for each record and each label."""
    noise = ldp.KeyedRandomness(KEY, CONTEXT)
    names = mechanism.domain.decode(np.arange(mechanism.domain.size)).tolist()
    found = []
    for code, label in enumerate(names):
        noisy = mechanism.randomize(np.full(len(ids), code), rng=noise, ids=ids)
        sets = mechanism.named(noisy).tolist()  # type: ignore[attr-defined]
        answers = [[name for name, told in zip(names, row, strict=True) if told] for row in sets]
        found += [{"id": each, "label": label, "answer": told} for each, told in zip(ids, answers, strict=True)]
    return found


def vectors() -> list[dict[str, Any]]:
    """All vectors, as the library draws them: what the file holds."""
    common = {"key": KEY.hex(), "context": CONTEXT.hex()}
    made = [(mechanism, ids) for mechanism in MECHANISMS for ids in RECORDS]
    return [{"mechanism": each.specification(), **common, "records": answered(each, ids)} for each, ids in made]


def write() -> None:
    """Write the vectors anew."""
    lines = [json.dumps(each, ensure_ascii=False) for each in vectors()]
    VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def test_the_library_answers_as_the_vectors_say() -> None:
    assert json.loads(VECTORS.read_text(encoding="utf-8")) == vectors()


def test_a_program_that_shares_no_code_answers_as_the_vectors_say() -> None:
    text = (FOLDER / "reference.py").read_text()
    assert "import labeldp" not in text and "from labeldp" not in text and "numpy" not in text
    done = subprocess.run([sys.executable, str(FOLDER / "reference.py"), str(VECTORS)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_wrong_vector_is_found(tmp_path: Path) -> None:
    content = json.loads(VECTORS.read_text(encoding="utf-8"))
    row = content[3]["records"][5]
    row["answer"] = row["answer"][1:]
    (tmp_path / "wrong.json").write_text(json.dumps(content))
    done = subprocess.run(
        [sys.executable, str(FOLDER / "reference.py"), str(tmp_path / "wrong.json")], capture_output=True, text=True
    )
    assert done.returncode == 1 and "1 vectors differ" in done.stderr


@pytest.mark.parametrize("size", [2, 3, 4, 10, 100, 1000])
def test_the_weight_of_a_lie_is_that_of_the_table(size: int) -> None:
    lie = runpy.run_path(str(FOLDER / "reference.py"))["lie"]
    for epsilon in ("0.001", "0.1", "0.5", "1", "2.7", "8", "20"):
        mechanism = ldp.RandomizedResponse(domain=ldp.Classes(size), epsilon=epsilon)
        exact = Fraction(mechanism.specification()["epsilon"])
        assert lie(exact, size) == mechanism.law.lie
