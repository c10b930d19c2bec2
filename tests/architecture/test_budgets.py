"""The sizes of the subpackages, printed with `-s`; the core grows only with a sentence that says for whom."""

from collections import Counter

from architecture.source import PACKAGE, files

LEAVES = {
    *("advice", "audit", "bags", "cluster", "encoders", "images", "inference", "networks", "online"),
    *("report", "serve", "sgd", "spark", "testing"),
}
"""Subpackages that `labeldp fit` on a table does not run, or not without asking for them."""

CORE = 40_600
"""How many lines the others have at most, stubs included. 1,000 of them are for those who learn from private numbers
and from several classes: answers around predictions, the mixture of linear models and trees.
200 keep one unit of protection for each account.
"""


def test_the_core_does_not_grow() -> None:
    lines: Counter[str] = Counter()
    for file in (*files("src"), *PACKAGE.rglob("*.pyi")):
        lines[file.relative_to(PACKAGE).parts[0].removesuffix(".py")] += len(file.read_text().splitlines())
    for name, size in lines.most_common():
        print(f"{size:6,} {name}{'' if name in LEAVES else '  (core)'}")
    core = sum(size for name, size in lines.items() if name not in LEAVES)
    print(f"{core:6,} lines of the core, of {lines.total():,}")
    assert core <= CORE
