"""Programs audited by what they print: numbers, texts, lines, seeds; and programs that cannot be."""

import sys
from fractions import Fraction
from pathlib import Path

import pytest

from labeldp.audit import audit_command, audit_csv, describe_table
from labeldp.audit.command import MOST_BYTES
from labeldp.privacy import InputError

RESPONSE = """
import random, sys
label = int(open(sys.argv[1]).read() if len(sys.argv) > 1 else sys.stdin.read())
for _ in range({lines}):
    print(label if random.random() < 0.9 else 1 - label, "and", random.random())
"""


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[str, str]:
    for label in (0, 1):
        (tmp_path / str(label)).write_text(f"{label}\n")
    return str(tmp_path / "0"), str(tmp_path / "1")


def program(folder: Path, source: str) -> list[str]:
    (folder / "program.py").write_text(source)
    return [sys.executable, str(folder / "program.py")]


def test_lines_of_one_run_are_outputs(tmp_path: Path, inputs: tuple[str, str]) -> None:
    words = [*program(tmp_path, RESPONSE.format(lines=4000)), "{}"]
    bound = audit_command(words, *inputs, runs=1, each_line=True)
    assert 1.8 < bound.epsilon < 2.4


def test_each_run_is_an_output_and_the_input_comes_on_stdin(tmp_path: Path, inputs: tuple[str, str]) -> None:
    told = []
    words = program(tmp_path, RESPONSE.format(lines=1))
    bound = audit_command(words, *inputs, runs=100, progress=lambda _, share: told.append(share))
    assert 0.3 < bound.epsilon < 3.5
    assert told[-1] == 1.0 and len(told) == 100


def test_outputs_of_different_lengths_count_as_wholes(tmp_path: Path, inputs: tuple[str, str]) -> None:
    source = "import sys; print('a ' * (1 + int(sys.stdin.read())))"
    assert audit_command(program(tmp_path, source), *inputs, runs=20).epsilon > 0.3


def test_what_cannot_be_run_is_refused(tmp_path: Path, inputs: tuple[str, str]) -> None:
    for words, files, message in (
        ([], inputs, "command must name a program"),
        (["./no-such-program"], inputs, "cannot be run"),
        (program(tmp_path, "raise SystemExit(3)"), inputs, "ended with status 3"),
        (["true"], inputs, "printed nothing"),
        (["cat"], (inputs[0], inputs[0]), "other must be another file"),
        (["cat"], (inputs[0], "nowhere"), "there is no file nowhere"),
    ):
        with pytest.raises(InputError, match=message):
            audit_command(words, *files, runs=4)


ROWS = "0.75,0.25\n0.25,0.75\n"


@pytest.mark.parametrize(
    ("text", "labels", "outputs"),
    [
        (ROWS, ("0", "1"), ("0", "1")),
        ("no,yes\n" + ROWS, ("0", "1"), ("no", "yes")),
        ("label,no,yes\nno,0.75,0.25\nyes,0.25,0.75\n", ("no", "yes"), ("no", "yes")),
        (",0,1\n0,0.75,0.25\n1,0.25,0.75\n", ("0", "1"), ("0", "1")),
        ("a,0.75,0.25\nb,0.25,0.75\n", ("a", "b"), ("0", "1")),
        ("\ufeffLabel, 5 , 6\n\n7,3/4,1/4\n8,1/4,3/4\n\n", ("7", "8"), ("5", "6")),
    ],
)
def test_a_header_and_names_of_labels_may_be_there(
    text: str, labels: tuple[str, ...], outputs: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    audit = audit_csv(path)
    assert (audit.labels, audit.outputs) == (labels, outputs)
    assert audit.ratio == 3


def test_decimals_are_taken_exactly(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("0.1,0.9\n0.30000000000000000000000000000001,0.69999999999999999999999999999999\n")
    assert audit_csv(path).ratio == Fraction(30000000000000000000000000000001, 10**31)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "below its header"),
        ("0.5,0.5\n", "two rows or more"),
        ("0.5,0.5\n1\n", "line 2: must have 2 cells as the first line has, not 1"),
        ("label,x,y\na,0.5,0.5\nb,0.5,0.4\n", "that of 'b' sums to 0.9"),
        ("label,x,y\na,0.5,0.5\nb,1.5,-0.5\n", r"P\(y \| b\) must not be negative"),
        ("label,x,y\na,0.5,0.5\nb,nan,1\n", r"P\(x \| b\) must be finite"),
        ("label,x,y\na,0.5,0.5\nb,0.5,half\n", r"P\(y \| b\) must be a number"),
        ("label,x,y\na,0.5,0.5\nb,1/0,1\n", r"P\(x \| b\) must not be divided by 0"),
        ("label,x,y\na,1e999,0\nb,0.5,0.5\n", r"P\(x \| a\) must be a number of ordinary size"),
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        audit_csv(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        audit_csv(tmp_path / "missing.csv")
    path = tmp_path / "bytes.csv"
    path.write_bytes(b"\xff\xfe\x00\x01,1")
    with pytest.raises(InputError, match="is no CSV file of text"):
        audit_csv(path)
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(InputError, match="is larger than 256 MiB"):
        audit_csv(path)


def test_sentences_name_what_is_wrong_first(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("label,x,y\na,1,0\nb,0.5,0.5\n")
    lines = describe_table(audit_csv(path), "1", "1e-6")
    assert lines[0] == "The claim epsilon = 1, delta = 1e-6 does NOT hold."
    assert "Pure epsilon: unbounded. The odds are infinite at 'b' against 'a', output 'y'." in lines
    path.write_text("0.5,0.5\n0.5,0.5\n")
    assert "Pure epsilon: 0. Every label has the same law: outputs do not depend on it." in describe_table(
        audit_csv(path)
    )


def test_a_claim_that_rounded_decimals_miss_by_their_last_digits_says_so(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("0.7310585786300049,0.2689414213699951\n0.2689414213699951,0.7310585786300049\n")
    lines = describe_table(audit_csv(path), "1")
    assert ("NOT" in lines[0]) == any("last digits" in line for line in lines)
    path.write_text("0.731058578630005,0.268941421369995\n0.268941421369995,0.731058578630005\n")
    assert any("last digits" in line for line in describe_table(audit_csv(path), "1"))
