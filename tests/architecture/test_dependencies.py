"""Every dependency has its reason in docs/dependencies.md, and its version in the constraints."""

import re
import tomllib

from architecture.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    """The package names of requirement strings."""
    return {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements}


def pins(file: str) -> set[str]:
    """The packages that a constraints file pins."""
    return names(re.findall(r"^[\w.-]+(?===)", (ROOT / file).read_text(), re.M))


def test_every_dependency_has_a_reason_and_every_reason_a_dependency() -> None:
    explained = set(re.findall(r"^\| `([\w.-]+)` \|", (ROOT / "docs" / "dependencies.md").read_text(), re.M))
    assert explained == names(PROJECT["dependencies"]).union(*map(names, EXTRAS.values()))


def test_what_the_tests_install_is_pinned() -> None:
    assert names(PROJECT["dependencies"]) | names(EXTRAS["dev"]) <= pins("constraints.txt")
    assert names(EXTRAS["torch"]) <= pins("constraints-torch.txt")
    assert names(EXTRAS["spark"]) <= pins("constraints.txt") | pins("constraints-spark.txt")
    assert not {"torch", "pyspark"} & pins("constraints.txt")
