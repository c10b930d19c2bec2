"""The README and the guide run as they are printed, page by page, in a folder with the tables of `people`."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from guide.blocks import examples, run
from slow import slow_cases

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "start.md"
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", START, *sorted((ROOT / "docs" / "guide").glob("*.md"))]
SLOW = [
    ROOT / "docs" / "guide" / f"{name}.md"
    for name in (
        "4-training", "5-command-line", "7-images-and-ratings", "19-several-columns", "20-audit", "21-a-server",
    )
]  # fmt: skip
NEED_TORCH = ["8-networks.md", "18-training-loops.md"]
NEED_SPARK = ["13-cluster.md"]


@pytest.mark.parametrize("page", slow_cases(PAGES, SLOW), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_of_a_page_runs(page: Path, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name in NEED_TORCH and not find_spec("torch"):
        pytest.skip("make test-torch runs it")
    if page.name in NEED_SPARK and not (find_spec("pyspark") and find_spec("duckdb")):
        pytest.skip("make test-spark runs it")
    monkeypatch.chdir(people)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in examples(page.read_text()):
        run(str(page.relative_to(ROOT)), example, namespace)


def test_the_files_that_the_first_page_makes_have_the_columns_of_those_that_the_pages_are_tested_on(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("people.csv", "new_people.csv")
    expected = [(people / name).read_text().splitlines()[0] for name in names]
    monkeypatch.chdir(tmp_path)
    run("docs/start.md", examples(START.read_text())[0], {})
    assert [(tmp_path / name).read_text().splitlines()[0].replace('"', "") for name in names] == expected


def test_the_index_says_which_pages_need_more_than_the_package() -> None:
    """The packages that a page imports are dependencies, or stand beside its number in the index."""
    index = (ROOT / "docs" / "guide" / "README.md").read_text()
    more, needed = {}, {"labeldp.networks": "torch", "labeldp.spark": "pyspark"}
    for page in sorted((ROOT / "docs" / "guide").glob("[0-9]*.md")):
        python = "\n".join(example.source for example in examples(page.read_text()) if example.kind == "python")
        found = r"^(?:import|from) (torch|duckdb|pandas|polars|labeldp\.networks|labeldp\.spark)\b"
        imported = {needed.get(name, name) for name in re.findall(found, python, re.M)}
        if imported:
            more[page.name.split("-")[0]] = imported
    assert more == {"8": {"torch"}, "18": {"torch"}, "13": {"duckdb"}, "16": {"pandas"}}
    assert "pages 8 and 18 (torch), 13 (pyspark, duckdb) and 16 (pandas)" in index


PAGE = """
<!-- no-test: needs a network -->
```python
raise SystemExit
```
```python
x = 1
```
```console
$ make demo
$ labeldp fit people.csv \\
    --label bought
fitted
$ labeldp certificate out
$ python -m papers --list
```
"""


def test_examples_are_found_in_order_with_their_lines() -> None:
    assert [(e.kind, e.source, e.line) for e in examples(PAGE)] == [
        ("python", "x = 1\n", 7),
        ("command", "labeldp fit people.csv --label bought", 11),
        ("command", "labeldp certificate out", 14),
        ("command", "python -m papers --list", 15),
    ]


@pytest.mark.parametrize("page", ["<!-- no-test: -->\n```python\n1\n```\n", "```bash\nlabeldp demo\n```\n"])
def test_an_example_is_not_left_out_in_silence(page: str) -> None:
    with pytest.raises(AssertionError):
        examples(page)


@pytest.mark.parametrize("page", ["```python\n1 / 0\n```\n", "```console\n$ labeldp no-such-command\n```\n"])
def test_an_example_that_fails_fails_the_page(page: str) -> None:
    [example] = examples(page)
    with pytest.raises((ZeroDivisionError, AssertionError)):
        run("page", example, {})
