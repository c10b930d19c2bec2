"""The pages form one site: each is in a toctree, links lead somewhere, and the API page has every name."""

import re
from pathlib import Path

import labeldp
from architecture.reference import API, ROOMS, api_page, exported
from architecture.source import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TOCTREE = re.compile(r"^```\{toctree\}\n(?:^:.*\n)*\n?(?P<entries>(?:^[^`\n]+\n)*)^```$", re.M)
LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<file>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")
BANNED = ("What", "Where", "Whoever", "Of")
FENCED = re.compile(r"^ *```.*?^ *```$", re.M | re.S)


def below(page: Path) -> list[Path]:
    """The pages that the toctrees of a page name, by patterns of names too."""
    entries = [entry for tree in TOCTREE.finditer(page.read_text()) for entry in tree["entries"].split()]
    return [child.resolve() for entry in entries for child in sorted(page.parent.glob(f"{entry}.md")) if child != page]


def reached(page: Path) -> list[Path]:
    """A page and all that its toctrees lead to, each as often as it is named."""
    return [page, *(each for child in below(page) for each in reached(child))]


def anchors(text: str) -> set[str]:
    """The names that headings are linked by, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,4} (.+)$", FENCED.sub("", text), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """The links of a page whose file or heading there is not."""
    found = []
    for link in LINK.finditer(FENCED.sub("", page.read_text())):
        target = (page.parent / link["file"]).resolve() if link["file"] else page
        if not target.exists() or (link["heading"] and link["heading"] not in anchors(target.read_text())):
            found.append(link[0])
    return found


def test_every_page_is_in_one_toctree() -> None:
    assert sorted(reached(DOCS / "index.md")) == PAGES


def test_every_link_leads_to_a_file_and_to_a_heading_that_are_there() -> None:
    pages = [*PAGES, *ROOT.glob("*.md")]
    assert {str(page.relative_to(ROOT)): broken(page) for page in pages if broken(page)} == {}


def test_pages_are_few_and_short() -> None:
    """A page of results waits in an appendix; the API pages are made by Sphinx."""
    pages = [page for page in PAGES if page.relative_to(DOCS).parts[0] not in ("api", "results")]
    # two are for auditors, one is for preferences, one for surveys, one tells what each release can answer, one lists
    # Pythons
    assert len(pages) <= 57
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    long = {page.name for page in pages if len(page.read_text().splitlines()) > 220}
    assert long <= {"bags.md", "composition.md", "finite-mechanisms.md", "keys.md", "online-experts.md"} | {
        "sums-and-counts.md", "corrections.md", "notation.md", "licenses.md", "architecture.md"
    }  # fmt: skip


def test_how_to_pages_are_short_and_their_cells_too() -> None:
    pages = sorted((DOCS / "how-to").glob("*.md"))
    lengths = {page.name: len(page.read_text().splitlines()) for page in pages}
    assert {name: length for name, length in lengths.items() if length > 160} == {}
    rows = [(page.name, line) for page in pages for line in page.read_text().splitlines() if line.startswith("|")]
    assert [(name, cell) for name, line in rows for cell in line.split(" | ") if len(cell.split()) > 30] == []


def test_headings_of_pages_are_nouns_or_tasks() -> None:
    pages = [page for page in PAGES if page.relative_to(DOCS).parts[0] in ("how-to", "explanation", "reference")]
    headings = [
        heading for page in pages for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.M)
    ]
    assert [each for each in headings if "?" in each or len(each.split()) > 7 or each.split()[0] in BANNED] == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# What is it?\n")
    (tmp_path / "a.md").write_text("[1](b.md) [2](b.md#what-is-it) [3](b.md#what) [4](c.md)\n```\n[5](d.md)\n```\n")
    assert broken(tmp_path / "a.md") == ["](b.md#what)", "](c.md)"]


def test_the_api_page_has_every_room_and_every_name_of_the_package() -> None:
    """`make reference` writes it anew."""
    text = API.read_text()
    assert text == api_page()
    assert [room for room in ROOMS if f"   labeldp.{room}\n" not in text] == []
    assert [name for name in exported("labeldp") if name not in ROOMS and f".{name}\n" not in text] == []


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {labeldp.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_tests_that_pages_name_exist() -> None:
    """A promise that names the test that carries it names one that is there."""
    pages = [*PAGES, *ROOT.glob("*.md")]
    named = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"`((?:papers/)?tests/[\w./-]+\.py)`", page.read_text())
    }
    assert named
    assert sorted(pair for pair in named if not (ROOT / pair[1]).exists() and "ROOM" not in pair[1]) == []
