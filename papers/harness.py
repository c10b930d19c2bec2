"""The harness of all comparisons: carry out the missing runs of a grid, and keep the result of each as a JSON file."""

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
"""Called with what is being done, in words, and the share of the work that is done, in [0, 1]."""

Callback = Callable[[str], None]
"""Called with a sentence for the user."""

RUNS, UNFINISHED = "runs", "unfinished"
"""Names of the folders of finished runs, and of what unfinished ones keep."""


class Hooks(TypedDict, total=False):
    """Functions that are called during the runs.

    Args:
        callback: called with a sentence about a run that is skipped, left to another command or, if slow, finished.
        publish: called with all results in the folder after each batch in which a run was carried out.
        progress: called with what is being done, and the share of the work that is done.
    """

    callback: Callback | None
    publish: Callable[[list[Any]], object] | None
    progress: Progress | None


class SeededRun(ABC):
    """One run of a grid: a frozen dataclass with a seed, all of it public."""

    seed: int

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its file, without suffix; different runs have different names."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in messages and tables."""

    def rng(self) -> np.random.Generator:
        """Return a generator seeded by the run's name: reproducible, so everything drawn from it is a simulation."""
        return np.random.default_rng(list(hashlib.sha256(self.name.encode()).digest()))


class Stored(ABC):
    """The result of one run: a frozen dataclass with the run and all that the code fixed for it.

    Attributes:
        COMMAND: the command that computes such results, after `python -m papers`.
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
        """Return the fields that are not plain values, by name, made from the content of a file."""

    def write(self, path: Path) -> None:
        """Write the result as JSON, whole or not at all."""
        with atomic_write(path, overwrite=True) as hidden:
            hidden.write_text(json.dumps(self.content(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a result that `write` wrote.

        Raises:
            InputError: the file is not such a result.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            parts = cls.parts(content)
            names = [each.name for each in fields(cls) if each.name not in parts]  # type: ignore[arg-type]
            return cls(**parts, **{name: content[name] for name in names})
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise InputError(
                f"{path} is not a result of python -m papers {cls.COMMAND}: name another folder, or remove it"
            ) from error

    @classmethod
    def all_in(cls, folder: Path) -> list[Self]:
        """Return all results in a folder, sorted by name.

        Raises:
            InputError: one of the files is not such a result.
        """
        return [cls.read(path) for path in sorted((folder / RUNS).glob("*.json"))]


R = TypeVar("R", bound=SeededRun)
T = TypeVar("T", bound=Stored)


class Experiment(ABC, Generic[R, T]):
    """How to carry out the runs of one paper, and to recognize their results; `run_missing` does the rest.

    Attributes:
        stored: the class of the results.
    """

    stored: type[T]

    @abstractmethod
    def constants(self, run: R) -> Json:
        """Return what code and data fix for a run; a result with other constants is of another run."""

    @abstractmethod
    def measure(self, run: R, place: Path, show: Progress) -> T:
        """Carry out a run and return its result.

        Args:
            run: the run.
            place: a folder for unfinished work, which survives an interruption.
            show: called with the progress of this run.
        """

    def origin(self, run: R, seconds: float, *, network: bool = False) -> Json:
        """Return the fields of every result: constants, seconds, versions and date."""
        date = datetime.now(UTC).isoformat(timespec="seconds")
        return {"constants": self.constants(run), "seconds": seconds, "versions": versions(network), "date": date}

    def check(self, result: T, path: Path) -> None:
        """Check that a stored result is one that this code would compute.

        Raises:
            InputError: it was made with other data or constants.
        """
        if result.constants != json.loads(json.dumps(self.constants(result.run))):
            raise InputError(f"{path} was made with other data or constants: name another folder, or remove it")

    def batch(self, run: R) -> object:
        """Return the key of a run's batch: neighboring runs with the same key are published together."""
        return run.seed

    def sentence(self, result: T) -> str:
        """Return what to tell about a finished run, or "" for nothing."""
        return ""

    def run_missing(self, runs: Sequence[R], folder: Path, **hooks: Unpack[Hooks]) -> list[T]:
        """Carry out every run that has no result yet; commands at work on the same folder share the runs.

        Args:
            runs: the runs, in this order.
            folder: as `results_folder` returns it.
            hooks: functions that are called during the runs.

        Returns:
            All results in the folder, those of other grids included.

        Raises:
            InputError: the folder holds something else, or such a run with other constants. No run was started.
        """
        say, show = hooks.get("callback") or _silent, hooks.get("progress") or _silent
        publish = hooks.get("publish")
        self.stored.all_in(folder)
        for run in runs:
            self._existing(folder, run)
        made = False
        for number, run in enumerate(runs):
            made |= self._make(folder, run, say, partial(_part, show, number, len(runs)))
            batch_ends = number + 1 == len(runs) or self.batch(runs[number + 1]) != self.batch(run)
            if publish is not None and made and batch_ends:
                publish(self.stored.all_in(folder))
                made = False
        return self.stored.all_in(folder)

    def _existing(self, folder: Path, run: R) -> T | None:
        """Return the stored result of a run, or None."""
        path = path_of(folder, run)
        if not path.exists():
            return None
        result = self.stored.read(path)
        self.check(result, path)
        return result

    def _make(self, folder: Path, run: R, say: Callback, show: Progress) -> bool:
        """Carry out a run unless its result exists or another command is at work on it; return whether it did."""
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
            missing = self._existing(folder, run) is None  # another command may have finished it meanwhile
            if missing:
                result = self.measure(run, place, show)
                result.write(path_of(folder, run))
                if said := self.sentence(result):
                    say(f"{run.title}: {said} in {result.seconds:.0f} s")
            shutil.rmtree(place)
        return missing


def _silent(*_: object) -> None:
    """Do nothing: the hook that is called if none is given."""


def _part(show: Progress, done: int, count: int, text: str, share: float) -> None:
    """Show the progress of one run as a share of all runs."""
    show(text, (done + share) / count)


def path_of(folder: Path, run: SeededRun) -> Path:
    """Return the path of a run's result, whether it exists or not."""
    return folder / RUNS / f"{run.name}.json"


def results_folder(out: str) -> Path:
    """Return the folder of results; create it if it does not exist.

    Raises:
        InputError: it is a file, holds no results but other things, or cannot be created.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {out} is a file; the name of a folder is needed")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RUNS).is_dir():
        raise InputError(f"--out {out} holds other things: name a new folder, or one of python -m papers")
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"--out {out} cannot be made: give a folder that can be written to") from None
    return folder


def write_files(folder: str | os.PathLike[str], texts: Mapping[str, str]) -> list[str]:
    """Write texts, given by file name, each whole or not at all; replace existing files and return the paths."""
    for name, text in texts.items():
        with atomic_write(Path(folder) / name, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
    return [str(Path(folder) / name) for name in texts]


def markdown_table(heads: Sequence[str], alignment: str, rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a Markdown table; `alignment` has a letter for each column, l for left or r for right."""
    yield "|" + "".join(f" {head} |" if head else " |" for head in heads)
    yield "|" + "".join("---|" if letter == "l" else "---:|" for letter in alignment)
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def listed(text: str, option: str, kind: Callable[[str], Any] = str) -> list[Any]:
    """Return the values in a text that separates them with commas.

    Args:
        text: the text on the command line.
        option: the name of the option, for messages.
        kind: converts each part to a value.

    Raises:
        InputError: a part is empty or cannot be converted, or a value is repeated.
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
    """Check the number of seeds.

    Raises:
        InputError: it is less than 1.
    """
    if seeds < 1:
        raise InputError("--seeds must be at least 1")


@contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Lock the folder of a run, and yield whether that worked: False if another process holds it.

    The lock ends with the process, however that ends.
    """
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
    """Return what `measure` returns, and the wall-clock time that it took, in seconds."""
    start = time.perf_counter()
    found = measure()
    return found, round(time.perf_counter() - start, 2)


def hardware() -> Json:
    """Return the hardware that run times depend on: processor, cores, accelerator."""
    allowed = getattr(os, "sched_getaffinity", None)  # missing on some systems
    found: Json = {"processor": _processor(), "cores": len(allowed(0)) if allowed else os.cpu_count()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        found["accelerator"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return found


def _processor() -> str:
    """Return the name of the processor as the system gives it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions(network: bool) -> dict[str, str]:
    """Return the versions of Python and of the packages in use; of torch only for a network."""
    found = {"python": platform.python_version()}
    for package in ("labeldp", "numpy", "scikit-learn", *(["torch"] if network else [])):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
