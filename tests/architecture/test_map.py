"""The page of the architecture names files that exist, and tests stand where their sources do."""

import re

from architecture.source import PACKAGE, ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()

APART = {
    "learners/test_conventions.py": "scikit-learn's checks of all estimators",
    "learners/test_evaluation_classes.py": "scores of each class, and calibration",
    "learners/test_local_end_to_end.py": "all local learners, from labels to a model",
    "workflows/test_forgeries.py": "forged results of all kinds, audited",
    "mechanisms/test_contract.py": "the contract of all mechanisms",
    "mechanisms/test_recorded.py": "what ledgers hold of all mechanisms",
    "mechanisms/test_mutants.py": "broken mechanisms, which the contract must catch",
    "mechanisms/test_cells.py": "sums and means over cells of several files",
    "mechanisms/bags/test_brahmbhatt.py": "what a paper promises of bags, and what holds",
    "mechanisms/bags/test_end_to_end.py": "neighbors told apart from what bags release",
    "mechanisms/bags/test_refused.py": "bad input of all mechanisms on bags",
    "online/test_brute_force.py": "every learner, enumerated",
    "networks/test_accelerator.py": "what runs on a GPU, by the same code on a CPU",
    "networks/test_door.py": "networks that learn from labels of a server",
    "networks/test_fit_command.py": "`labeldp fit` with networks",
    "networks/test_reproduce.py": "`labeldp reproduce` with networks",
    "report/test_numbers.py": "reports of numbers",
    "report/test_summary.py": "a summary as JSON",
    "serve/test_openapi.py": "the OpenAPI file of the server",
    "serve/test_storm.py": "a server that is killed while many ask",
    "theory/test_corrections.py": "where papers err",
    "workflows/test_online_again.py": "an online run that is repeated, copied or killed",
    "workflows/test_release_folder.py": "the release of a folder of files: whole, killed, changed meanwhile",
}
"""Test files about several sources, with what they are about."""

COMMANDS = "cli", "architecture", "guide", "oracles", "trial", "versions", "faults", "hostile"
"""Folders whose files are named after what a user does, or what is checked, not after a source."""


def test_the_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:src|tests|docs)/[\w/.-]+)`", PAGE))
    assert len(named) > 30
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_page_has_a_line_for_every_room() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \| ", PAGE, re.M)) == rooms


def test_a_recipe_touches_few_files() -> None:
    for title, most in {"mechanism": 8, "learner": 8, "figure": 7, "online method": 6}.items():
        [recipe] = re.findall(rf"## To add an? {title}.*?\n\n(\| file.*?)\n\n", PAGE + "\n\n", re.S)
        assert 0 < recipe.count("\n|") - 1 <= most, title


def test_tests_mirror_the_tree() -> None:
    """One test file for each source file, named after it; what is about several is named here, with its subject."""
    tests = {str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests").rglob("test_*.py")}
    mirrored = {name for name in tests if name.split("/")[0] not in COMMANDS}
    sources = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    homeless = {name for name in mirrored if name.replace("test_", "") not in sources}
    assert homeless == set(APART)
