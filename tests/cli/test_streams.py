"""Standard streams in any encoding, closed, full or broken: a command does its work and ends with its status."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click
import numpy as np
import pandas as pd
import pytest

from labeldp.cli import cli, main
from labeldp.cli.options import note, progress
from labeldp.cli.streams import UNPRINTED, spelled

ENCODINGS = ["utf-8", "ascii", "cp1252", "koi8-r", "shift_jis", "utf-16"]

RELEASE = (
    "release people.csv --label y --classes no,yes --id id --epsilon 0.1 --ledger l.ledger --dataset d --out {}.csv"
)
FIT = (
    "fit people.csv --label y --classes no,yes --id id --epsilon 1 --ledger l.ledger --dataset d --model linear "
    "--out model"
)

WORK = [
    "ledger show l.ledger",
    "ledger show l.ledger --json",
    "certificate noisy.csv --ledger l.ledger",
    "certificate model",
    "certificate noisy.csv --format opendp",
    "audit run noisy.csv --ledger l.ledger",
    "audit run model --ledger l.ledger --data people.csv",
    "estimate mean noisy.csv",
    "choose people.csv --label y --classes no,yes --epsilon 1",
    "plan --classes no,yes --features 4 --records 1000 --epsilon 1",
    "account --help",
    RELEASE.format("noisy"),
    FIT,
    "ledger add l.ledger --dataset d --epsilon 9",
    "ledger show missing.ledger",
    "certificate people.csv",
    "relase",
    "",
    "--version",
]
"""Commands that may be run again and again: what they made is there, or they are refused."""


def helps(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the arguments that show the help of a command and of all commands in it."""
    yield (*path, "--help")
    if any("--help-all" in option.opts for option in command.params):
        yield (*path, "--help-all")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from helps(inner, (*path, name))


@contextmanager
def streams(out: TextIO | None, err: TextIO | None) -> Iterator[None]:
    """Replace stdout and stderr."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        yield


def run(*arguments: str, out: TextIO | None, err: TextIO | None) -> int:
    """Run a command on some streams and return its status."""
    with streams(out, err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["labeldp", *arguments])
        try:
            main()
        except SystemExit as done:
            return int(done.code or 0)
        return 0


def encoded(*arguments: str, encoding: str) -> tuple[int, str]:
    """Run a command whose streams have an encoding; return the status, and the text that such a terminal shows."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2))
    status = run(*arguments, out=out, err=err)
    return status, "".join(stream.buffer.getvalue().decode(encoding) for stream in (out, err))  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a table, a ledger, a release and a model, which is the working directory."""
    path = tmp_path_factory.mktemp("streams")
    rng, rows = np.random.default_rng(0), 300
    table = {"id": range(rows), "x": rng.normal(size=rows), "y": rng.choice(["no", "yes"], rows)}
    pd.DataFrame(table).to_csv(path / "people.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for command in ("ledger add l.ledger --dataset d --epsilon 9", RELEASE.format("noisy"), FIT):
            status, said = encoded(*command.split(), encoding="utf-8")
            assert status == 0, said
        yield path


@pytest.fixture(scope="module")
def usual(folder: Path) -> dict[str, int]:
    """The statuses of the commands in UTF-8."""
    return {command: encoded(*command.split(), encoding="utf-8")[0] for command in WORK}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_help_is_readable_in_every_encoding(encoding: str, folder: Path) -> None:
    for arguments in helps(cli):
        status, said = encoded(*arguments, encoding=encoding)
        assert status == 0 and "\\u" not in said and "\\x" not in said, (arguments, said)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_command_ends_in_every_encoding_as_in_utf_8(encoding: str, usual: dict[str, int]) -> None:
    for command in WORK:
        status, said = encoded(*command.split(), encoding=encoding)
        assert status == usual[command], (command, said)
        assert "\\u" not in said, said
    shown = encoded("ledger", "show", "l.ledger", encoding=encoding)[1]
    assert ("ε" in shown) != ("epsilon 1.1 of 9" in shown), shown


def test_a_file_name_that_is_not_utf_8_is_printed(folder: Path) -> None:
    status, said = encoded("ledger", "show", "b\udcff\N{LATIN SMALL LETTER E WITH ACUTE}.ledger", encoding="utf-8")
    assert status == 1 and "b\\xffé.ledger" in said
    assert "b\\xff\\xe9.ledger" in encoded("ledger", "show", "b\udcffé.ledger", encoding="ascii")[1]


def test_every_character_has_a_spelling_in_ascii() -> None:
    for number in range(0x80, 0x30000):
        assert spelled(chr(number)).isascii()


@contextmanager
def broken() -> Iterator[TextIO]:
    """A pipe whose reader went away."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream:
        yield stream


@contextmanager
def full() -> Iterator[TextIO]:
    """A full disk."""
    with open("/dev/full", "w", encoding="utf-8") as stream:
        yield stream


BAD: dict[str, Callable[[], object]] = {"broken": broken, "full": full}


@pytest.mark.parametrize("kind", BAD)
def test_every_command_says_that_its_result_could_not_be_printed(kind: str, usual: dict[str, int]) -> None:
    for arguments, right in [
        *((name.split(), code) for name, code in usual.items()),
        *((words, 0) for words in helps(cli)),
    ]:
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with BAD[kind]() as out:  # type: ignore[attr-defined]
            status = run(*arguments, out=out, err=err)
        said = err.buffer.getvalue().decode()  # type: ignore[attr-defined]
        if "the result could not be printed" in said:
            assert status == (right or UNPRINTED), (arguments, said)
            assert ("The command itself finished" in said) == (right == 0), said
        else:  # it prints errors alone
            assert status == right and right, (arguments, said)


@pytest.mark.parametrize("kind", BAD)
def test_a_release_is_complete_though_nothing_can_be_printed(kind: str, folder: Path) -> None:
    for place, streams in enumerate(["out", "err", "out err"]):
        with BAD[kind]() as bad, open(os.devnull, "w", encoding="utf-8") as good:  # type: ignore[attr-defined]
            out, err = (bad if name in streams.split() else good for name in ("out", "err"))
            status = run(*RELEASE.format(f"{kind}{place}").split(), out=out, err=err)
        assert status == (UNPRINTED if "out" in streams else 0)
        assert encoded("certificate", f"{kind}{place}.csv", "--ledger", "l.ledger", encoding="utf-8")[0] == 0


@pytest.mark.parametrize(("stdout", "stderr"), [(False, False), (False, True), (True, False)])
def test_commands_work_without_streams(stdout: bool, stderr: bool, usual: dict[str, int]) -> None:
    for command, right in usual.items():
        out, err = (io.StringIO() if there else None for there in (stdout, stderr))
        assert run(*command.split(), out=out, err=err) == right, command


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_a_job_without_descriptors_writes_its_files(closed: tuple[int, ...], folder: Path) -> None:
    name = f"closed{''.join(map(str, closed))}"
    code = "import sys; from labeldp.cli import main; sys.argv = ['labeldp', *sys.argv[1:]]; main()"
    words = RELEASE.replace("l.ledger", f"{name}.ledger").format(name).split()
    script = f"import os, sys\nfor n in {closed}: os.close(n)\nos.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-c", script, sys.executable, "-c", code, *words, "--new-budget", "9"]
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    assert encoded("certificate", f"{name}.csv", "--ledger", f"{name}.ledger", encoding="utf-8")[0] == 0


@pytest.mark.parametrize("environment", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}])
def test_a_process_without_home_and_locale_prints_text(environment: dict[str, str], folder: Path) -> None:
    code = "import sys; from labeldp.cli import main; sys.argv = ['labeldp', *sys.argv[1:]]; main()"
    command = [sys.executable, "-c", code, "ledger", "show", "l.ledger"]
    bare = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
    done = subprocess.run(command, env=bare | environment, capture_output=True, check=True)
    said = done.stdout.decode("ascii" if environment else "utf-8")
    assert "of 9" in said and not done.stderr


@pytest.mark.parametrize("here", ["b\udcff", "."])
def test_files_may_have_any_name(here: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of files are in certificates, summaries and ledgers, which are UTF-8."""
    place = folder / here
    place.mkdir(exist_ok=True)
    monkeypatch.chdir(place)
    Path("\udcfe.csv").write_bytes((folder / "people.csv").read_bytes())
    labels = ("--label", "y", "--classes", "no,yes", "--id", "id", "--epsilon", "1", "--new-budget", "3")
    model = ("--model", "linear", "--out", "\udcfemodel")
    for arguments in (
        ("release", "\udcfe.csv", *labels, "--out", "\udcfe.parquet"),
        ("release", "\udcfe.csv", *labels, "--out", "\udcfeo.csv"),
        ("fit", "\udcfe.csv", *labels, *model),
        ("fit", "\udcfe.csv", *labels, *model),
        ("predict", "\udcfemodel", "\udcfe.csv", "--id", "id", "--out", "\udcfep.csv"),
        ("certificate", "\udcfemodel", "--data", "\udcfe.csv", "--ledger", "\udcfe.ledger"),
        ("certificate", "\udcfeo.csv", "--ledger", "\udcfe.ledger"),
        ("audit", "run", "\udcfeo.csv", "--ledger", "\udcfe.ledger", "--data", "\udcfe.csv"),
        ("sign", "\udcfe.parquet", "--key", "\udcfe.pem", "--new-key"),
        ("certificate", "\udcfe.parquet", "--signed-by", "\udcfe.pem.pub"),
        ("ledger", "backup", "\udcfe.ledger", "--out", "\udcfe.backup"),
        ("ledger", "move", "\udcfe.ledger", "--out", "\udcfem.ledger"),
    ):
        status, said = encoded(*arguments, encoding="utf-8")
        assert status == 0 or (arguments[0] == "audit" and status == 2), (arguments, said)
    assert "was moved: it is" in encoded("ledger", "show", "\udcfe.ledger", encoding="utf-8")[1]


def test_notes_are_shown_where_columns_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for columns in ("0", "1", "20", "x", ""):
        terminal = Terminal()
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress("reading", lines=True):
            note("Created people.ledger")
        assert "Created people.ledger" in terminal.getvalue()
