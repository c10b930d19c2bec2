"""The release checklist, in one command: `make release-check`.

Versions agree; no proof is older than its code; wheel and sdist are the same bytes when built twice, and the wheel
from the sdist is the same wheel; the wheel has what users need; it installs into an empty environment, and
`labeldp demo` runs there in an empty home.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]


def version() -> str:
    """The version that the package says; citation and changelog have it, and so does a tag on this commit."""
    [found] = re.findall(r'^__version__ = "(.+)"$', (ROOT / "src/labeldp/_version.py").read_text(), re.M)
    assert f"version: {found}\n" in (ROOT / "CITATION.cff").read_text(), "CITATION.cff has another version"
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] in ("Unreleased", found), f"CHANGELOG.md begins with {headings[0]}"
    tags = output("git", "tag", "--points-at", "HEAD", cwd=ROOT).split()
    versions = [tag for tag in tags if re.fullmatch(r"v\d.*", tag)]
    assert versions in ([], [f"v{found}"]), f"this commit has the tags {versions}"
    assert not versions or headings[0] == found, "a tagged commit has its version in CHANGELOG.md, not Unreleased"
    return found


def output(*words: str | Path, cwd: Path, **environment: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def environment(place: Path, *packages: str | Path) -> Path:
    """A new environment with some packages; its folder of programs."""
    venv.create(place, with_pip=True)
    pip = (place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    output(*pip, "-c", ROOT / "constraints.txt", *packages, cwd=place)
    return place / "bin"


def build(hatchling: Path, source: Path, place: Path) -> dict[str, Path]:
    """Wheel and sdist of a source tree, by kind."""
    stamp = output("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    output(hatchling, "build", "--directory", place, cwd=source, SOURCE_DATE_EPOCH=stamp)
    return {"wheel": next(place.glob("*.whl")), "sdist": next(place.glob("*.tar.gz"))}


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def check_wheel(wheel: Path, number: str) -> None:
    """The wheel has types, license, program and bill of materials, and nothing but the package."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = f"labeldp-{number}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        programs = archive.read(f"{info}/entry_points.txt").decode()
        bill = json.loads(archive.read(f"{info}/sboms/labeldp.cdx.json"))
    assert {"labeldp/py.typed", f"{info}/licenses/LICENSE"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"labeldp", info}
    assert "License-Expression: Apache-2.0" in metadata and "Requires-Python: >=3.11" in metadata
    assert "labeldp = labeldp.cli:main" in programs
    assert bill["metadata"]["component"]["version"] == number, "make supply: the bill of materials is another"
    direct = {name.lower() for name in re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*$", metadata, re.M)}
    assert direct <= {each["name"] for each in bill["components"]}, "make supply: the bill of materials lacks some"


def main() -> None:
    """Go through the list, and print a line for each point."""
    number = version()
    print(f"version {number}: package, CITATION.cff, CHANGELOG.md and tags agree")
    output(sys.executable, ROOT / "tests/architecture/stamps.py", cwd=ROOT)
    print("every proof was read beside its code")
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        hatchling = environment(here / "build", "hatchling") / "hatchling"
        first, second = (build(hatchling, ROOT, here / name) for name in ("first", "second"))
        for kind, path in first.items():
            assert digest(path) == digest(second[kind]), f"two builds of the {kind} differ"
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, the same bytes twice, sha256 {digest(path)}")
        output("tar", "xzf", first["sdist"], cwd=here)
        again = build(hatchling, here / f"labeldp-{number}", here / "third")["wheel"]
        assert digest(again) == digest(first["wheel"]), "the wheel from the sdist differs"
        check_wheel(first["wheel"], number)
        print("the wheel from the sdist is the same; it has types, license, program and bill, and nothing else")
        start = time.monotonic()
        programs = environment(here / "user", first["wheel"])
        print(f"installed into an empty environment in {time.monotonic() - start:.0f} s")
        (here / "home").mkdir()
        start = time.monotonic()
        output(programs / "labeldp", "demo", cwd=here / "home", HOME=str(here / "home"), PYTHONPATH="")
        assert (here / "home/demo-output").is_dir()
        print(f"labeldp demo in an empty home: {time.monotonic() - start:.0f} s")
        if sys.argv[1:]:
            Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
            for path in first.values():
                (Path(sys.argv[1]) / path.name).write_bytes(path.read_bytes())
                print(f"{sys.argv[1]}/{path.name}")


if __name__ == "__main__":
    main()
