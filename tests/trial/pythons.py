"""Print the Pythons from 3.11 up that are on this machine, one line for each patch version: version, path.

python tests/trial/pythons.py          all of them: on the path, the distribution's own, pyenv's
python tests/trial/pythons.py --ends   the distribution's and the newest, where they are others than `python3`
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 11)
ASK = "import ensurepip, sys, venv; print(*sys.version_info[:3], sys.version_info.releaselevel, sep='.')"
DISTRIBUTION = Path("/usr/bin/python3")

Version = tuple[int, ...]


def candidates() -> Iterator[Path]:
    """Yield paths that may be interpreters; what `python3` means here comes first."""
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], 30))]
    yield from (Path(path) for name in names if (path := shutil.which(name)))
    yield DISTRIBUTION
    versions = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    yield from sorted(versions.glob("*/bin/python3"))


def version_of(path: Path) -> Version | None:
    """Return the version of an interpreter that runs, makes environments and is not a preview, else None."""
    try:
        done = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    *numbers, level = done.stdout.strip().split(".")
    version = tuple(map(int, numbers))
    return version if level == "final" and version >= OLDEST else None


def pythons() -> dict[Version, Path]:
    """Return the interpreters by version, the first of each."""
    found: dict[Version, Path] = {}
    for path in candidates():
        if (version := version_of(path)) is not None:
            found.setdefault(version, path)
    return found


def ends(found: dict[Version, Path]) -> dict[Version, Path]:
    """Return the distribution's interpreter and the newest, where they are others than `python3`."""
    usual = version_of(Path(shutil.which("python3") or ""))
    wanted = {version_of(DISTRIBUTION), max(found, default=None)} - {usual, None}
    return {version: path for version, path in found.items() if version in wanted}


if __name__ == "__main__":
    chosen = ends(pythons()) if "--ends" in sys.argv else pythons()
    for version, path in sorted(chosen.items()):
        print(".".join(map(str, version)), path)
