"""Results of one command, each a JSON file: written whole, read back, and made where they are missing."""

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from labeldp.privacy import InputError
from labeldp.tables import whole_or_nothing
from labeldp.workflows.reproduce.folder import RUNS, UNFINISHED, claimed

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
