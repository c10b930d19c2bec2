"""The harness of all comparisons: make the runs of a grid that are missing, and keep each as a JSON file."""

import hashlib
import json
import os
import platform
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar, Unpack

import numpy as np

from labeldp.privacy import InputError
from labeldp.tables import atomic_write, lock_directory

Json = dict[str, Any]
Progress = Callable[[str, float], None]
"""Told what is being done, and the share of the work that is done."""

Told = Callable[[str], None]
"""Told a sentence."""

RUNS, UNFINISHED = "runs", "unfinished"
"""Folders of finished runs, and of what unfinished ones keep."""


class Hooks(TypedDict, total=False):
    """Functions that are called while runs are made.

    Args:
        told: told in a sentence what is left out or left to another command, and of slow runs what came out.
        publish: called with all results in the folder after each batch in which a run was made.
        progress: told what is being done, and the share of the work that is done.
    """

    told: Told | None
    publish: Callable[[list[Any]], object] | None
    progress: Progress | None


class SeededRun(ABC):
    """One run of a grid: a frozen dataclass with a seed, all of it public."""

    seed: int

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its file; different runs have different names."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name for people."""

    def rng(self) -> np.random.Generator:
        """Return the generator of this run alone: reproducible, and so everything drawn from it is a simulation."""
        return np.random.default_rng(list(hashlib.sha256(self.name.encode()).digest()))


class Stored(ABC):
    """What one run found: a frozen dataclass with the run and all that the code fixed for it.

    Attributes:
        COMMAND: the command that makes such results, without `labeldp`.
        NOTE: what a reader of the file must know.
    """

    COMMAND: ClassVar[str]
    NOTE: ClassVar[str]

    run: Any
    constants: Any
    seconds: float

    def content(self) -> Json:
        """Return the result as plain JSON values."""
        return {**asdict(self), "simulation": self.NOTE}  # type: ignore[call-overload]

    @classmethod
    @abstractmethod
    def parts(cls, content: Json) -> Json:
        """Return those fields of a file that are more than plain values."""

    def write(self, path: Path) -> None:
        """Write the result as JSON, whole or not at all."""
        with atomic_write(path, overwrite=True) as hidden:
            hidden.write_text(json.dumps(self.content(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` wrote.

        Raises:
            InputError: the file is something else.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            parts = cls.parts(content)
            names = [each.name for each in fields(cls) if each.name not in parts]  # type: ignore[arg-type]
            return cls(**parts, **{name: content[name] for name in names})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path} is not a result of labeldp {cls.COMMAND}: name another folder, or remove it"
            ) from error

    @classmethod
    def all_in(cls, folder: Path) -> list[Self]:
        """Return all finished runs of a folder, sorted by name.

        Raises:
            InputError: one of the files is something else.
        """
        return [cls.read(path) for path in sorted((folder / RUNS).glob("*.json"))]


R = TypeVar("R", bound=SeededRun)
T = TypeVar("T", bound=Stored)


class Experiment(ABC, Generic[R, T]):
    """How the runs of one paper are made and recognized; `run_missing` does the rest.

    Attributes:
        stored: the class of its results.
    """

    stored: type[T]

    @abstractmethod
    def constants(self, run: R) -> Json:
        """Return what code and data fix for a run: with other constants it is another run."""

    @abstractmethod
    def measure(self, run: R, place: Path, show: Progress) -> T:
        """Make a run.

        Args:
            run: what to do.
            place: a folder for what is unfinished, which outlives an interruption.
            show: told the progress of this run.
        """

    def origin(self, run: R, seconds: float, *, network: bool = False) -> Json:
        """Return what every result tells of its making: constants, seconds, versions and date."""
        date = datetime.now(UTC).isoformat(timespec="seconds")
        return {"constants": self.constants(run), "seconds": seconds, "versions": versions(network), "date": date}

    def check(self, result: T, path: Path) -> None:
        """Refuse a stored result that this code would not make.

        Raises:
            InputError: it was made with other data or constants.
        """
        if result.constants != json.loads(json.dumps(self.constants(result.run))):
            raise InputError(f"{path} was made with other data or constants: name another folder, or remove it")

    def batch(self, run: R) -> object:
        """Return what is equal for runs that are published together."""
        return run.seed

    def sentence(self, result: T) -> str:
        """Return what is said of a finished run; nothing is said where this is empty."""
        return ""

    def run_missing(self, runs: Sequence[R], folder: Path, **hooks: Unpack[Hooks]) -> list[T]:
        """Make every run that has no file yet; commands that run at the same time on one folder share the work.

        Args:
            runs: what to run, in this order.
            folder: as `results_folder` returns it.
            hooks: functions that are called meanwhile.

        Returns:
            All results in the folder, of other grids too.

        Raises:
            InputError: the folder holds something else, or such a run with other constants. No run was started.
        """
        say, show = hooks.get("told") or _silent, hooks.get("progress") or _silent
        publish = hooks.get("publish")
        self.stored.all_in(folder)
        for run in runs:
            self._existing(folder, run)
        made = False
        for place, run in enumerate(runs):
            made |= self._make(folder, run, say, partial(_part, show, place, len(runs)))
            ends = place + 1 == len(runs) or self.batch(runs[place + 1]) != self.batch(run)
            if publish is not None and made and ends:
                publish(self.stored.all_in(folder))
                made = False
        return self.stored.all_in(folder)

    def _existing(self, folder: Path, run: R) -> T | None:
        """Return the result of a run that was made before, None where there is none."""
        path = path_of(folder, run)
        if not path.exists():
            return None
        result = self.stored.read(path)
        self.check(result, path)
        return result

    def _make(self, folder: Path, run: R, say: Told, show: Progress) -> bool:
        """Make a run unless it exists or another command is at it; return whether it was made."""
        show(run.title, 0.0)
        if (result := self._existing(folder, run)) is not None:
            if said := self.sentence(result):
                say(f"{run.title}: {said}, from before")
            return False
        place = folder / UNFINISHED / run.name
        with claimed(place) as free:
            if not free:
                say(f"{run.title}: left to the command that is at work on it")
                return False
            missing = self._existing(folder, run) is None  # it may have been made since
            if missing:
                result = self.measure(run, place, show)
                result.write(path_of(folder, run))
                if said := self.sentence(result):
                    say(f"{run.title}: {said} in {result.seconds:.0f} s")
            shutil.rmtree(place)
        return missing


def _silent(*_: object) -> None:
    """Do nothing, where nobody listens."""


def _part(show: Progress, done: int, count: int, text: str, share: float) -> None:
    """Show the progress of one run as a share of all."""
    show(text, (done + share) / count)


def path_of(folder: Path, run: SeededRun) -> Path:
    """Return where a run's file is, or will be."""
    return folder / RUNS / f"{run.name}.json"


def results_folder(out: str) -> Path:
    """Return the folder of runs, made if need be.

    Raises:
        InputError: a file, a folder that holds other things only, or one that cannot be made.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {out} is a file; the name of a folder is needed")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RUNS).is_dir():
        raise InputError(f"--out {out} holds other things: name a new folder, or one of labeldp reproduce")
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"--out {out} cannot be made: give a folder that can be written to") from None
    return folder


def write_files(folder: str | os.PathLike[str], texts: Mapping[str, str]) -> list[str]:
    """Write texts by the names of their files, each whole or not at all, over what was there; return the paths."""
    for name, text in texts.items():
        with atomic_write(Path(folder) / name, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
    return [str(Path(folder) / name) for name in texts]


def markdown_table(heads: Sequence[str], alignment: str, rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a Markdown table; each letter of the alignment is l or r, for a column."""
    yield "|" + "".join(f" {head} |" if head else " |" for head in heads)
    yield "|" + "".join("---|" if letter == "l" else "---:|" for letter in alignment)
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def listed(text: str, option: str, kind: Callable[[str], Any] = str) -> list[Any]:
    """Return the values of a text with commas.

    Args:
        text: as it is written on a command line.
        option: its name, for messages.
        kind: makes a value of each part.

    Raises:
        InputError: a part is empty or no such value, or a value stands twice.
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        values = [kind(part) for part in parts]
    except InputError:
        raise
    except ValueError:
        raise InputError(f"--{option} must hold numbers, separated by commas") from None
    if not all(parts) or len(set(values)) < len(values):
        raise InputError(f"--{option} must hold distinct values, separated by commas")
    return values


def check_seeds(seeds: int) -> None:
    """Refuse less than one seed.

    Raises:
        InputError: that.
    """
    if seeds < 1:
        raise InputError("--seeds must be at least 1")


@contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Hold the folder of a run; the claim goes with the process, however that ends. False where another holds it."""
    while True:
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another command removed the parent meanwhile
            handle = lock_directory(place)
            break
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)
        with suppress(OSError):  # others are at work
            place.parent.rmdir()


def timed(measure: Callable[[], Any]) -> tuple[Any, float]:
    """Return what is found, and the seconds of wall-clock time that it took."""
    start = time.perf_counter()
    found = measure()
    return found, round(time.perf_counter() - start, 2)


def hardware() -> Json:
    """Return what seconds depend on: processor, cores, accelerator."""
    allowed = getattr(os, "sched_getaffinity", None)  # which some systems do not have
    found: Json = {"processor": _processor(), "cores": len(allowed(0)) if allowed else os.cpu_count()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        found["accelerator"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return found


def _processor() -> str:
    """Return the processor's name as far as the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions(network: bool) -> dict[str, str]:
    """Return the versions of Python and of the packages that took part, torch among them for a network."""
    found = {"python": platform.python_version()}
    for package in ("labeldp", "numpy", "scikit-learn", *(["torch"] if network else [])):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
