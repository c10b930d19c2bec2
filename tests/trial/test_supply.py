"""Licenses, the bill of materials and the lock are those of the pins; `make supply` makes them anew."""

import json
import re
import sys
import tomllib

import pytest

from trial.supply import (
    BILL,
    BUILD,
    DOWNLOADERS,
    GROUPS,
    LOCK,
    PAGE,
    PERMISSIVE,
    ROOT,
    TOOLS,
    Package,
    admits_oldest,
    bill,
    installed,
    license_of,
    licenses_in,
    needed,
    own_version,
    pins,
    plain,
    uses,
)

ROWS = dict(re.findall(r"^\| `(\S+)` \| (\S+ \| .+ \| \S+) \|$", PAGE.read_text(encoding="utf-8"), re.M))
FOUND = installed(sys.path)


def test_every_pinned_package_is_on_the_page_at_its_version() -> None:
    wanted = {name: version for file in reversed(GROUPS) for name, version in pins(file).items()}
    assert {name: row.split(" | ")[0] for name, row in ROWS.items()} == wanted


def test_licenses_are_on_the_list() -> None:
    for name, row in ROWS.items():
        _, text, use = row.split(" | ")
        admitted = TOOLS if use in ("tests", "docs") else PERMISSIVE | {DOWNLOADERS.get(name, "MIT")}
        assert licenses_in(text) <= admitted, f"{name}: {text}"


def test_a_license_that_binds_is_found() -> None:
    assert not licenses_in("MIT AND GPL-3.0-only") <= TOOLS
    assert not licenses_in("AGPL-3.0-or-later") <= TOOLS
    assert licenses_in("Apache-2.0 OR GPL-2.0-only") == {"Apache-2.0"}


def test_the_page_says_what_the_packages_say() -> None:
    pinned = {name: each for name, each in FOUND.items() if name in ROWS and ROWS[name].startswith(f"{each.version} |")}
    assert len(pinned) > 20
    for name, each in pinned.items():
        assert ROWS[name].split(" | ")[1] == license_of(each.metadata), name


def test_every_pin_admits_the_oldest_python() -> None:
    """soupsieve 4.1.2 needs 3.11.5, and `make docs` failed on 3.11.2. `make supply` checks the pins of others."""
    wanted = {name: version for file in GROUPS for name, version in pins(file).items()}
    pinned = {name: each for name, each in FOUND.items() if wanted.get(name) == each.version}
    assert len(pinned) > 20
    assert [name for name, each in pinned.items() if not admits_oldest(each.metadata)] == []
    assert not admits_oldest({"Requires-Python": ">=3.11.5"}) and admits_oldest({})
    assert wanted["soupsieve"] == "2.10"  # the newest that admits it; this environment does not have it


def test_all_that_runs_is_in_the_bill_of_materials() -> None:
    content = json.loads(BILL.read_text(encoding="utf-8"))
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
    assert content["metadata"]["component"]["version"] == own_version()
    listed = {each["name"]: each["version"] for each in content["components"]}
    always = {name: row.split(" | ")[0] for name, row in ROWS.items() if row.endswith("| always")}
    assert listed == always
    known = {content["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in content["components"])}
    named = {each["ref"] for each in content["dependencies"]}
    assert known == named and {ref for each in content["dependencies"] for ref in each["dependsOn"]} <= known


def test_the_bill_of_materials_is_made_of_what_is_installed() -> None:
    if any(name in FOUND and FOUND[name].version != version for name, version in pins("constraints.txt").items()):
        pytest.skip("other versions than the pins are installed here")
    listed = [Package(name, *row.split(" | ")) for name, row in ROWS.items()]
    assert {name: use for name, use in uses(FOUND).items() if name in FOUND and use == "always"} == {
        each.name: each.use for each in listed if each.use == "always"
    }
    assert bill(listed, FOUND, own_version()) == BILL.read_text(encoding="utf-8")


def test_what_needs_what_is_followed_to_the_end() -> None:
    assert needed(FOUND, {"labeldp"}) >= {"labeldp", "numpy", "cffi", "pycparser", "mdurl"}


def test_requirements_are_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        return {plain(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}

    tested = pins("constraints.txt").keys()
    assert names(project["dependencies"]) | names(extras["dev"]) <= tested
    assert names(extras["torch"]) <= pins("constraints-torch.txt").keys()
    assert names(extras["spark"]) <= tested | pins("constraints-spark.txt").keys()
    assert not {"torch", "pyspark"} & tested


def test_the_lock_has_the_pins_and_a_hash_for_each() -> None:
    lines = LOCK.read_text(encoding="utf-8")
    locked = {plain(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+) \\$", lines, re.M)}
    assert pins("constraints.txt").items() <= locked.items()
    assert locked.keys() - pins("constraints.txt") == set(BUILD)
    assert len(re.findall(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$", lines, re.M)) >= len(locked)
    assert len(re.findall(r"^    --hash=sha256:[0-9a-f]{64}$", lines, re.M)) == len(locked)
