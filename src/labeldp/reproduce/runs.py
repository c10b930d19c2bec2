"""A grid of runs, a JSON file each; shared by the four papers."""

import fcntl
import json
import os
import platform
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Self

from labeldp.privacy import InputError
from labeldp.tables import whole_or_nothing

Json = dict[str, Any]


class Stored(ABC):
    """What one run found, a frozen dataclass with the run and all that the code fixed for it.

    Attributes:
        COMMAND: that makes such results, behind `labeldp`.
        NOTE: what a reader of the file must know.
    """

    COMMAND: ClassVar[str]
    NOTE: ClassVar[str]

    run: Any
    constants: Any

    def content(self) -> Json:
        """As plain JSON values."""
        return {**asdict(self), "simulation": self.NOTE}  # type: ignore[call-overload]

    @classmethod
    @abstractmethod
    def parts(cls, content: Json) -> Json:
        """The fields of a file that are more than plain values."""

    def write(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        with whole_or_nothing(path, overwrite=True) as hidden:
            hidden.write_text(json.dumps(self.content(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The inverse of `write`.

        Raises:
            InputError: not such a file.
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
        """All finished runs of a folder, by name.

        Raises:
            InputError: one of the files is something else.
        """
        return [cls.read(path) for path in sorted((folder / RUNS).glob("*.json"))]

    @classmethod
    def standing(cls, folder: Path, run: Any, constants: Json) -> bool:
        """Whether a run was made before.

        Raises:
            InputError: it was made with other data or constants.
        """
        path = path_of(folder, run)
        if not path.exists():
            return False
        if cls.read(path).constants != json.loads(json.dumps(constants)):
            raise InputError(f"{path} was made with other data or constants: name another folder, or remove it")
        return True


def path_of(folder: Path, run: Any) -> Path:
    """Where a run's file is, or will be."""
    return folder / RUNS / f"{run.name}.json"


def make(
    folder: Path, run: Any, stands: Callable[[], bool], measure: Callable[[Path], Any], say: Callable[[str], None]
) -> bool:
    """One run, unless it stands or somebody else is at it; whether it was made.

    Args:
        stands: whether there is a file of this run, of this code.
        measure: makes the result; it may keep what is unfinished in the folder that it is given.
        say: told where the run is left to another command.
    """
    if stands():
        return False
    place = folder / UNFINISHED / run.name
    with claimed(place) as free:
        if not free:
            say(f"{run.title}: left to the command that is at work on it")
            return False
        made = not stands()  # it may have been made since
        if made:
            measure(place).write(path_of(folder, run))
        shutil.rmtree(place)
    return made


def timed(measure: Callable[[], Any]) -> tuple[Any, float]:
    """What is found, and the seconds of wall-clock time that it took."""
    start = time.perf_counter()
    found = measure()
    return found, round(time.perf_counter() - start, 2)


RUNS, UNFINISHED = "runs", "unfinished"


def results_folder(out: str) -> Path:
    """The folder of runs, made if need be.

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


@contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Hold the folder of a run; the claim goes with the process, however that ends. False where another holds it."""
    handle = _opened(place)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
        with suppress(OSError):  # others are at work
            place.parent.rmdir()


def _opened(place: Path) -> int:
    """A folder that was made if need be, open; again where another command removed it meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            place.mkdir(parents=True, exist_ok=True)
            return os.open(place, os.O_RDONLY | os.O_DIRECTORY)


PACKAGES = ("labeldp", "numpy", "scikit-learn", "torch")


def hardware() -> dict[str, Any]:
    """What a number's seconds depend on: processor, cores, accelerator."""
    allowed = getattr(os, "sched_getaffinity", None)  # which some systems do not have
    found: dict[str, Any] = {"processor": _processor(), "cores": len(allowed(0)) if allowed else os.cpu_count()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        found["accelerator"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return found


def _processor() -> str:
    """Its name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions(network: bool) -> dict[str, str]:
    """Of Python and of the packages that took part."""
    found = {"python": platform.python_version()}
    for package in PACKAGES if network else PACKAGES[:-1]:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def now() -> str:
    """Date and time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
