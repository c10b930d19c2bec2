"""Programs audited by what they print: numbers, texts, lines, seeds; and programs that cannot be."""

import sys
from pathlib import Path

import pytest

from labeldp.audit import audit_command
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
