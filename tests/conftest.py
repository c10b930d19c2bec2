"""What every test starts from: one thread each, repeatable properties, and a table to try things on."""

import hashlib
import os
import resource
import secrets
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

# Before numpy is imported: two pytest workers on two cores, and a cache that stays in the checkout.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("MPLCONFIGDIR", str(Path(__file__).parents[1] / ".cache" / "matplotlib"))

import pytest
from hypothesis import settings

from architecture.source import broken_promises, promises
from people import table_of_people

# A failure is never "run it again": the same examples in every run, and no test depends on the clock.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


@contextmanager
def _drawn_by_name(name: str) -> Iterator[None]:
    """Let a name decide what the system would draw, keys among it, so that noise is the same in every run.

    A forked process draws other bytes, as it would from the system; a new one draws from the system.
    """
    from labeldp.privacy.randomness import _forget_streams

    owner, numbers = os.getpid(), count()

    def drawn(size: int | None = None) -> bytes:
        who = "" if os.getpid() == owner else f" in {os.getpid()}"
        text = f"{name}, {next(numbers)}{who}"
        return hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(32 if size is None else size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", drawn)
        patch.setattr(os, "urandom", drawn)
        _forget_streams()
        yield
    _forget_streams()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test draws what its name decides."""
    with _drawn_by_name(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
    """What several tests share draws what its own name decides, whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    with _drawn_by_name(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', '')}"):
        return (yield)


OPTIONAL = {"networks": "torch", "spark": "pyspark"}
"""Rooms with an environment of their own, and the library that it has; their promises are tested in their folder."""


class Guarantees(pytest.Item):
    """A failure that lists promises without a test and tests without a promise."""

    def __init__(self, *, problems: list[str], **options: Any) -> None:
        super().__init__(**options)
        self.problems = problems

    def runtest(self) -> None:
        """Fail."""
        pytest.fail("\n".join(self.problems), pytrace=False)


def _checked(config: pytest.Config, room: str) -> bool:
    """Whether all tests of a room were collected: with the whole suite, or with the folder of an optional room."""
    paths = {config.rootpath / path for path in config.args}
    if room in OPTIONAL:
        return find_spec(OPTIONAL[room]) is not None and config.rootpath / "tests" / room in paths
    return paths == {config.rootpath / path for path in config.getini("testpaths")} and not config.option.ignore


def _is_skipped(item: pytest.Item) -> bool:
    """Whether a mark skips a test, whatever its condition."""
    return any(item.iter_markers("skip")) or any(True in mark.args for mark in item.iter_markers("skipif"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Tie promises to tests: of all that were collected, before `-m` leaves some of them for `make test-all`."""
    marks = {mark.args for item in items if not _is_skipped(item) for mark in item.iter_markers("guarantee")}
    yield
    if not any((config.rootpath / path).is_dir() for path in config.args):
        return
    problems = [
        problem
        for problem in broken_promises(promises(), marks)
        if _checked(config, problem.partition(":")[0].removeprefix("labeldp."))
    ]
    if problems:
        items.append(Guarantees.from_parent(session, name="guarantees", problems=problems))


@pytest.fixture(scope="session", autouse=True)
def durability() -> Iterator[str]:
    """Wait for no disk, because no test cuts the power; what the product sets. Processes that tests start do wait."""
    from labeldp.curator import ledger_store

    with pytest.MonkeyPatch.context() as patch:
        setting = ledger_store.SYNC
        patch.setattr(ledger_store, "SYNC", "OFF")
        patch.setattr(os, "fsync", lambda _: None)
        yield setting


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports with details simulate two epsilons and their own."""
    from labeldp.fit import simulate

    monkeypatch.setattr(simulate, "EPSILONS", (1.0, 4.0))


@pytest.fixture(scope="session")
def people_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of `people`, written once."""
    folder = tmp_path_factory.mktemp("people")
    table = table_of_people(600, seed=1)
    table.to_csv(folder / "people.csv", index=False)
    table.to_parquet(folder / "people.parquet", index=False)
    table_of_people(50, seed=2).drop(columns="bought").to_csv(folder / "new_people.csv", index=False)
    return folder


@pytest.fixture
def people(people_files: Path, tmp_path: Path) -> Path:
    """A folder with people.csv and people.parquet (600 rows, label `bought`) and new_people.csv (50 rows, no label)."""
    return Path(shutil.copytree(people_files, tmp_path, dirs_exist_ok=True))


@contextmanager
def _small_disk(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes; the error comes from the system, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def small_disk() -> Callable[[int], AbstractContextManager[None]]:
    """A context in which the disk fills up at so many bytes a file."""
    return _small_disk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a ledger may be made."""
    return tmp_path / "ledger.db"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "tiny"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)
