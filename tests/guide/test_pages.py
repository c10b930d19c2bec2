"""The README and the guide run as they are printed, page by page, in a folder with the tables of `people`."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from guide.blocks import examples, run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
NEED_TORCH = ["8-networks.md"]
NEED_SPARK = ["13-cluster.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_of_a_page_runs(page: Path, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name in NEED_TORCH and not find_spec("torch"):
        pytest.skip("make test-torch runs it")
    if page.name in NEED_SPARK and not (find_spec("pyspark") and find_spec("duckdb")):
        pytest.skip("make test-spark runs it")
    monkeypatch.chdir(people)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in examples(page.read_text()):
        run(str(page.relative_to(ROOT)), example, namespace)


def test_the_files_that_the_index_makes_have_the_columns_of_those_that_the_pages_are_tested_on(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("people.csv", "new_people.csv")
    expected = [(people / name).read_text().splitlines()[0] for name in names]
    monkeypatch.chdir(tmp_path)
    for example in examples((ROOT / "docs" / "index.md").read_text()):
        run("docs/index.md", example, {})
    assert [(tmp_path / name).read_text().splitlines()[0].replace('"', "") for name in names] == expected


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
```
"""


def test_examples_are_found_in_order_with_their_lines() -> None:
    assert [(e.kind, e.source, e.line) for e in examples(PAGE)] == [
        ("python", "x = 1\n", 7),
        ("command", "labeldp fit people.csv --label bought", 11),
        ("command", "labeldp certificate out", 14),
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
