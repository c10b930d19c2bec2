"""README and the pages run as they are printed, page by page, in a folder with the tables of `people`."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from guide.blocks import examples, run
from slow import slow_cases

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
START = DOCS / "get-started.md"
ELSEWHERE = ("api", "notebooks", "proofs", "results")
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if page.parent.name not in ELSEWHERE and examples(page.read_text())
]
SLOW = [
    *(DOCS / "how-to" / f"{name}.md" for name in ("audit", "changing-data", "evaluate-and-tune", "label-server")),
    *(DOCS / "how-to" / f"{name}.md" for name in ("protect-users", "train-on-images-and-text", "train-on-tables")),
]
NEEDED = {"train-with-pytorch.md": {"torch"}, "spark.md": {"pyspark", "duckdb"}}
"""The packages that an environment of its own has, by the page that needs them."""


@pytest.mark.parametrize("page", slow_cases(PAGES, SLOW), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_of_a_page_runs(page: Path, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not all(map(find_spec, NEEDED.get(page.name, ()))):
        pytest.skip("make test-torch or make test-spark runs it")
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
    run("docs/get-started.md", examples(START.read_text())[0], {})
    assert [(tmp_path / name).read_text().splitlines()[0].replace('"', "") for name in names] == expected


def test_the_pages_that_need_more_than_the_package_are_known() -> None:
    """The other packages that a page imports are dependencies."""
    needed = {"labeldp.networks": "torch", "labeldp.spark": "pyspark", "labeldp import spark": "pyspark"}
    found = {}
    for page in PAGES:
        python = "\n".join(example.source for example in examples(page.read_text()) if example.kind == "python")
        imports = re.findall(
            r"^(?:import|from) (torch|duckdb|pandas|polars|labeldp\.networks|labeldp import spark)\b", python, re.M
        )
        if imports:
            found[page.name] = {needed.get(name, name) for name in imports}
    assert found == NEEDED


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
