"""Every table and figure of the four papers: its page, its command, what is printed, what came out here, and why.

`python -m papers.index FILE` writes the page `docs/results/papers.md` from this list.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from papers.harness import markdown_table, write_files

GHAZI, ZHAO, BRAHMBHATT, ASI = "Ghazi", "Zhao", "Brahmbhatt", "Asi"
MULTISTAGE, RATES = "python -m papers multistage", "python -m papers rates --seeds 3 --out rates"
AGGREGATION, ONLINE = "python -m papers aggregation", "python -m papers online"


@dataclass(frozen=True)
class Paper:
    """One of the four papers.

    Args:
        title: in words.
        quick: a command that ends within two minutes with a picture.
        about: what a reader must know of all of its rows.
    """

    title: str
    quick: str
    about: str


@dataclass(frozen=True)
class Entry:
    """A table or a figure.

    Args:
        paper: a key of `PAPERS`.
        item: as the paper numbers it, and what it is about.
        page: where ours stands, a file of docs/results with its heading.
        command: that makes ours; DIR is a folder with the files of the data set, FOLDER one of all stand-ins.
        printed: what the paper has, in short.
        ours: the same of ours; each number stands on the page. Empty where `missing` is not.
        why: why they differ.
        took: the time of the command.
        missing: the data or the hardware that is missing for the rest, or for all.
    """

    paper: str
    item: str
    page: str
    command: str
    printed: str
    ours: str
    why: str = ""
    took: str = ""
    missing: str = ""


PAPERS = {
    GHAZI: Paper(
        "Ghazi et al., Deep Learning with Label Differential Privacy",
        f"{MULTISTAGE} --dataset mnist --data DIR --epsilon 0.1,1 --figure clusters --seeds 1 --out quick-multistage",
        "Accuracies in percent. The paper chose mixup, sizes of stages and temperature for every ε on true labels, "
        "which is not done here. Its main text and the numbers of its figures are not all in the versions at hand.",
    ),
    ZHAO: Paper(
        "Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy",
        "python -m papers rates --rows classification-local-label --epsilon 1 --seeds 3 --out quick-rates",
        "The paper has no experiments: printed are exponents of bounds, ours are slopes on hard instances.",
    ),
    BRAHMBHATT: Paper(
        "Brahmbhatt et al., Label Differential Privacy via Aggregation",
        f"{AGGREGATION} --tables lba --bag-size 32,64 --bags 256,512 --seeds 1 --out quick-aggregation",
        "Test errors (mean squared). Criteo Sponsored Search and the 1940 census are not at hand: ours are of made-up "
        "records of the shape of Criteo, and of census_income_kdd in place of the 1940 census; a command with the file "
        "fills the paper's own cells.",
    ),
    ASI: Paper(
        "Asi et al., Private Online Learning via Lazy Algorithms",
        f"{ONLINE} --tables exponents,table1 --out quick-online",
        "The paper has no experiments: printed are rates, ours the same rates corrected, planned bounds, and regret.",
    ),
}
"""By their keys in `docs/theory/notation.md`."""

_SUBSET = "15,000 of 50,000 images and the compact network instead of a ResNet-18"
_LBA = "numbers of mean 0 and deviation 1, with which 3,000 steps of Adam end far from the constant; as they are: 345"
_GRID = "--bags 512,1024,2048,4096 --bag-size 32,64,128,256"
_LLP = "other data; of Criteo the same shape: falls with m, flat in k and ρ"

ENTRIES = (
    Entry(
        GHAZI,
        "Table 1: CIFAR-10",
        "multistage.md#cifar10",
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 4 --method lp-1st,lp-2st --seeds 1 --out runs",
        "ε = 4: 92.58, 93.37",
        "73.20, 67.57 (ε = 4)",
        _SUBSET,
        missing="the whole of CIFAR-10, and an accelerator",
    ),
    Entry(
        GHAZI,
        "Table 2: CIFAR-100",
        "multistage.md#cifar100",
        f"{MULTISTAGE} --dataset cifar100 --data DIR --epsilon 4,8 --method lp-1st,lp-2st --seeds 1 --out runs",
        "ε = 4: 46.28, 50.15; ε = 8: 73.59, 74.14",
        "16.60, 13.75; 35.10, 30.85",
        "10,000 of 50,000 images and the compact network instead of a ResNet-18",
        missing="the whole of CIFAR-100, and an accelerator",
    ),
    Entry(
        GHAZI,
        "Table 3: MovieLens-1M, RMSE",
        "multistage.md#movielens",
        f"{MULTISTAGE} --dataset movielens --data DIR --epsilon 1,2,3,4,8,1000 "
        "--method lp-1st,lp-2st --seeds 1 --out runs",
        "LP-1ST, ε = 1 to 4, 8, ∞: 1.122, 0.981, 0.902, 0.877, 0.867, 0.868; LP-2ST 1.034, 0.928, 0.891, 0.874, 0.865",
        "1.119, 0.917, 0.887, 0.878, 0.872, 0.873; 1.119, 0.918, 0.887, 0.878, 0.865",
        "another split of 80 to 20, another network, a loss that knows the noise, and one recipe for every ε; "
        "preset movielens-noisy, a fifth of its weight decay, reaches 0.989 and 1.022 at ε = 1",
        "170 and 245 s each",
    ),
    Entry(
        GHAZI,
        "Table 4: MNIST",
        "multistage.md#mnist",
        f"{MULTISTAGE} --dataset mnist --data DIR --epsilon 1,2,3,4,8,1000 --method lp-1st,lp-2st --seeds 1 --out runs",
        "LP-1ST, ε = 1 to 4: 95.34, 98.16, 98.81, 99.08; LP-2ST 95.82, 98.78, 99.14, 99.24; none: 99.33",
        "97.99, 99.14, 99.33, 99.31, at 8 99.40; 97.31, 99.05, 99.41, 99.47, at 8 99.47; none: 99.48",
        "likely the loss: ours knows the noise, the paper learns from the answers as they are",
        "60 and 125 s each",
    ),
    Entry(
        GHAZI,
        "Table 4: Fashion-MNIST",
        "multistage.md#fashion_mnist",
        f"{MULTISTAGE} --dataset fashion_mnist --data DIR --epsilon 1,2,3,4,8,1000 "
        "--method lp-1st,lp-2st --seeds 1 --out runs",
        "LP-1ST, ε = 1 to 4: 80.78, 90.18, 92.52, 93.50; LP-2ST 83.26, 91.24, 93.18, 94.10; none: 94.28",
        "82.33, 87.51, 89.50, 90.17, at 8 90.76; 84.71, 89.42, 90.59, 91.15, at 8 91.52; none: 90.74",
        "at ε = 2 the compact network is the limit, where the paper has an Inception of 40 epochs",
        "60 and 123 s each",
    ),
    Entry(
        GHAZI,
        "Table 5: KMNIST",
        "multistage.md#kmnist",
        f"{MULTISTAGE} --dataset kmnist --data DIR --epsilon 1,2,3,4,1000 --method lp-1st,lp-2st --seeds 1 --out runs",
        "ε = 1: 76.56, 81.26",
        "",
        missing="the files of KMNIST",
    ),
    Entry(
        GHAZI,
        "Figure 1: three stages, and priors of clusters",
        "multistage.md#cifar10",
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 2,3,4 --method lp-2st,lp-3st --preset brief --out runs",
        "curves without numbers; by the text 1 to 2 points for a third stage",
        "two and three stages: 59.87, 57.47 at ε = 2, 66.77, 67.90 at 3, 70.83, 70.87 at 4",
        "15,000 of 50,000 images, the compact network, 400 steps a stage; priors of clusters: Figure 2",
        "8 min of processor time",
        "the whole of CIFAR-10, and an accelerator",
    ),
    Entry(
        GHAZI,
        "Figure 2: clusters by ε and C",
        "multistage.md#clusters-figure-2",
        f"{MULTISTAGE} --dataset mnist --data DIR --epsilon 0.1,1 --figure clusters --seeds 1 --out runs",
        "curves without numbers",
        "86.44 with 100 clusters, 66.35 with 1000 at ε = 0.1; 94.29 at ε = 1 (MNIST)",
        "principal components of MNIST instead of BYOL and DINO of CIFAR-10: the same shape",
        "15 s",
    ),
    Entry(
        GHAZI,
        "Figure 3: learning curves",
        "multistage.md#cifar10",
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 2 --method lp-1st,lp-2st --preset brief --out runs",
        "82.38, 86.05; mean k* 1.86, top-2 accuracy of stage 1 about 90",
        "55.53, 59.87; mean k* 2.90, 84.47 percent of true labels among the candidates",
        "15,000 of 50,000 images, the compact network, 400 steps a stage; curves are of the loss",
        "80 s of processor time",
        "the whole of CIFAR-10, and an accelerator",
    ),
    Entry(
        GHAZI,
        "Figure 4a: split and temperature; Figure 5: top-k accuracy of stage 1",
        "multistage.md#cifar10",
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 2 --figure split-temperature --preset brief --out runs",
        "a picture without numbers: best a little above one half, and temperatures up to 1",
        "best 62.20 at split 0.55 and temperature 1; 57.57 at 0.5 and 60.13 at 2; 59.90 at split 0.4, 60.20 at 0.7",
        "15,000 of 50,000 images, the compact network, 400 steps a stage: the same shape",
        "10 min of processor time",
        missing="the whole of CIFAR-10, and an accelerator",
    ),
    Entry(
        GHAZI,
        "Figure 4b: mixup of both stages",
        "multistage.md#cifar10",
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 2 --figure mixup --preset brief --seeds 1 --out runs",
        "a picture without numbers: 4 to 8, and less in stage 2",
        "59.27 without mixup, 59.13 with 2 in stage 1, 55.50 with 2 in stage 2, 51.93 with 8 in both",
        "15,000 of 50,000 images, 400 steps a stage, which likely learn nothing by heart that mixup could prevent",
        "7 min of processor time",
        missing="the whole of CIFAR-10, and an accelerator",
    ),
    *(
        Entry(
            ZHAO,
            f"Table I: {task}",
            f"rates.md#{page}",
            f"{RATES} --rows {row}",
            printed,
            ours,
            why,
            "7 min of processor time for all rows",
        )
        for task, page, row, printed, ours, why in (
            (
                "classification",
                "classification",
                "classification",
                "β(γ + 1)/(2β + d), with full local protection β(γ + 1)/(2β + 2d): 0.500, 0.375",
                "−0.517 to −0.489 and −0.396 to −0.376 (d = 1, local); 20 of 26 hold the rate's",
                "slopes over three decades of N; central ones have two terms",
            ),
            (
                "bounded regression",
                "regression",
                "regression",
                "2β/(2β + d), with full local protection β/(β + d): 0.667, 0.500",
                "−0.667 to −0.664 and −0.509 to −0.473 (d = 1, local); 16 of 26 hold the rate's",
                "the same",
            ),
            (
                "unbounded noise",
                "heavy-tailed",
                "heavy-tailed",
                "2β(p − 1)/(2pβ + d(p − 1)) local, as printed; tuned as printed",
                "−0.500 to −0.490 corrected, −0.453 to −0.448 as printed (d = 1, local); 18 of 26 hold the rate's",
                "Theorems 10, 12 and 14 are tuned wrongly: see the corrections",
            ),
        )
    ),
    Entry(
        ZHAO,
        "Table I, with β = 0.5, γ = 1, p = 2",
        "rates.md#a-rough-family",
        f"{RATES}-rough --family rough --records 1e4,2e4,5e4,1e5,2e5,5e5,1e6",
        "the same exponents",
        "64 of the 78 slopes within 0.1, 61 of their intervals hold the rate's",
        "few records for the smallest ε: up to 10⁶, as rough functions need many cells",
        "3 min of processor time",
    ),
    Entry(
        BRAHMBHATT,
        "Table 1: WTD-LBA, linear model",
        "aggregation_tables.md#generated",
        f"{AGGREGATION} --tables lba {_GRID} --out grid",
        "Criteo: 252.9 (m = 512, k = 32) to 200.11 (4096, 256)",
        "2,722 to 180 by Adam, 203 to 179 by least squares",
        _LBA,
        "about an hour, all tables of two seeds",
        "Criteo and the 1940 census",
    ),
    Entry(
        BRAHMBHATT,
        "Table 1 by Adam: learning curves",
        "aggregation_tables.md#why-adam-ends-far-from-least-squares",
        f"{AGGREGATION} --tables adam --seeds 10 --out bags",
        "Criteo, m = 512, k = 32: 252.9; labels themselves 196.35",
        "2,725 with numbers scaled, 345 as they are, 208.39 by least squares",
        "scale and steps, not the data: Appendix K does not scale numbers",
        "4 min of processor time",
        "Criteo and the 1940 census",
    ),
    *(
        Entry(
            BRAHMBHATT,
            f"Table {number}: NOISY-WTD-LLP, network, ρ = {share}",
            "aggregation_tables.md#generated",
            f"{AGGREGATION} --tables llp --noisy-fraction {share} {_GRID} --out grid",
            printed,
            "230, 207, 197 and 190 for m = 512 to 4096, means over k and ρ",
            _LLP,
            "about an hour, all tables of two seeds",
            "Criteo and the 1940 census",
        )
        for number, share, printed in (
            (2, 0.1, "Criteo: 235.0 (m = 512, k = 32) to 205.18 (4096, 256)"),
            (3, 0, "Criteo: 241.14 to 202.67"),
            (4, 0.01, "Criteo: 227.66 to 202.09"),
            (5, 0.5, "Criteo: 223.15 to 197.66"),
            (6, 1, "Criteo: 225.1 to 193.41"),
        )
    ),
    Entry(
        ASI,
        "Figure 1: (a), (b), (c)",
        "online.md#figure-1",
        f"{ONLINE} --tables exponents --out online",
        "free of charge until ε = T^(−1/4): 0.250",
        "0.167, corrected",
        "the proof has a gap: see the corrections",
        "seconds",
    ),
    Entry(
        ASI,
        "Figure 1 (a), (b): convex losses, played",
        "online_convex.md",
        "PYTHONPATH=. python benchmarks/online_convex.py --write docs/results/online_convex.md",
        "exponents 0.500 and 0.556 at α = 0 and 1/3",
        "regret 60 of noisy leaders, 319 of L2P, 37 of gradient descent (lean, T = 10,000, ball of 10 dimensions)",
        "bounds of what can be proved of lazy draws are larger than those of noisy sums",
    ),
    Entry(
        ASI,
        "Table 1: regret",
        "online.md#table-1",
        f"{ONLINE} --tables table1 --out online",
        "√(T ln d) + T^(1/3) ln d / ε^(2/3): 2,319 at T = 1e5, d = 1e3, ε = 0.1",
        "2,700 corrected; 6,713 planned with all constants",
        "printed without constants, and corrected",
        "seconds",
    ),
    Entry(
        ASI,
        "Proposition 3.3",
        "online.md#proposition-33",
        f"{ONLINE} --tables excess --out online",
        "T B² η²: 4,642 at T = 10^7, ε = 0.01",
        "26,660",
        "the counterexample costs η T B / 8",
        "seconds",
    ),
    Entry(
        ASI,
        "Theorem 4.2: the adversary, played",
        "online.md#the-adversary-of-theorem-42-played",
        f"{ONLINE} --tables adversary --experts 100 --seeds 3 --out online",
        "√T + T^(1/3)/ε^(2/3): 2,454, 1,156 and 633 at T = 100,000, ε = 0.0032, 0.013 and 0.056",
        "2,501, 1,049 and 419 (dartboard), 2,499, 1,047 and 420 for any expert at random",
        "the bound has a constant of one; at these sizes nobody private is better than any expert at random",
        "5 min",
    ),
)
"""All tables and figures; the page `docs/results/papers.md` is made of this list, and `python -m papers --list`."""


def papers_markdown() -> str:
    """Return the page that lists every table and figure, paper by paper."""
    text = ["# The papers' tables and figures", "", _INTRODUCTION, ""]
    for name, paper in PAPERS.items():
        own = [each for each in ENTRIES if each.paper == name]
        text += [
            f"## {paper.title}",
            "",
            paper.about,
            "",
            "In two minutes, with a picture:",
            "",
            f"    {paper.quick}",
            "",
        ]
        text += [*markdown_table(_HEADS, "l" * len(_HEADS), map(_row, own)), ""]
        text += [line for each in own for line in (f"    # {each.item}", f"    {each.command}")] + [""]
    return "\n".join(text)


_INTRODUCTION = """\
Each with the page that has ours beside it, the command that makes it, what is printed, what came out, why the two
differ, and the time that it took. `python -m papers --list` prints the commands. Where data or hardware was missing,
the row names it. Errors that were found in the papers stand in [corrections](../theory/corrections.md)."""

_HEADS = ("", "printed", "ours", "why they differ", "time", "missing")


def _row(entry: Entry) -> tuple[str, ...]:
    """Return the cells of a row."""
    return (f"[{entry.item}]({entry.page})", entry.printed, entry.ours, entry.why, entry.took, entry.missing)


def listed_commands() -> Iterator[str]:
    """Yield what `python -m papers` can make, as lines of text."""
    for name, paper in PAPERS.items():
        yield from (paper.title, f"  in two minutes: {paper.quick}")
        for entry in ENTRIES:
            if entry.paper == name:
                yield from (
                    f"  {entry.item}" + (f" (missing: {entry.missing})" if entry.missing else ""),
                    f"    {entry.command}",
                )
        yield ""


if __name__ == "__main__":
    path = Path(sys.argv[1])
    write_files(path.parent, {path.name: papers_markdown()})
