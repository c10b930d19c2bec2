"""A finished run as its file tells it."""

import os
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from labeldp.workflows.reproduce.grid import Run
from labeldp.workflows.reproduce.stored import Stored

PACKAGES = ("labeldp", "numpy", "scikit-learn", "torch")


@dataclass(frozen=True)
class Result(Stored):
    """One number and everything that it came from; no field holds a label.

    Args:
        run: what was asked for.
        metric: what was measured.
        value: it, on the test records.
        steps: the same of the models on the way, where a method has several.
        trust: who sees the labels before the noise: "local" or "central".
        recipe: how the network was trained, stage by stage.
        releases: every release, with mean size of candidate sets and how many true labels they held.
        curve: loss by step and epoch, on released labels.
        seconds: of wall-clock time, features that are computed once for all noises included, interruptions not.
        processor_seconds: the same, of all cores together, without waiting for others on the machine.
        records: of training and test.
        data: digest of the features.
        certificate: the guarantee as a sentence, which says that this was a simulation.
        hardware: where it ran.
        versions: of Python and packages.
        date: when it ended.
        constants: what the code of the method fixed; None, unknown, in files of before this was noted.
    """

    COMMAND = "reproduce multistage"
    NOTE = "SIMULATION: noise comes from a public seed"

    run: Run
    metric: str
    value: float
    steps: tuple[dict[str, Any], ...]
    trust: str
    recipe: tuple[dict[str, Any], ...]
    releases: tuple[dict[str, Any], ...]
    curve: tuple[dict[str, Any], ...]
    seconds: float
    processor_seconds: float
    records: tuple[int, int]
    data: str
    certificate: str
    hardware: dict[str, Any]
    versions: dict[str, str]
    date: str
    constants: dict[str, Any] | None = None

    @property
    def candidates(self) -> float | None:
        """The mean size of the last candidate sets, k*; None where there were none."""
        return self._last("candidates")

    @property
    def covered(self) -> float | None:
        """The share of records whose true class was among those candidates: stage 1's top-k accuracy."""
        return self._last("covered")

    def _last(self, name: str) -> float | None:
        found = [each[name] for each in self.releases if each[name] is not None]
        return found[-1] if found else None

    def content(self) -> dict[str, Any]:
        """As plain JSON values, and what is often asked of them."""
        found = {**super().content(), "mean candidates": self.candidates, "stage-1 top-k accuracy": self.covered}
        found["run"]["settings"] = dict(self.run.settings)
        return found

    @classmethod
    def parts(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Run, lists, and constants, which old files do not tell."""
        run = content["run"]
        lists = ("steps", "recipe", "releases", "curve", "records")
        given: dict[str, Any] = {name: tuple(content[name]) for name in lists}
        given["run"] = Run(**{**run, "settings": tuple(run["settings"].items())})
        return {**given, "constants": content.get("constants")}


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
