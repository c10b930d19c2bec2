"""Every table and figure of the four papers: its command, the published figures, ours, their difference, and why.

`python -m papers.index` writes `docs/results/data/papers.csv` from this list; `python benchmarks/pages.py` fills the
page of the papers from that file.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[1] / "docs" / "results" / "data"

GHAZI, ZHAO, BRAHMBHATT, ASI = "Ghazi", "Zhao", "Brahmbhatt", "Asi"
MULTISTAGE, RATES = "python -m papers multistage", "python -m papers rates --seeds 3 --out rates"
AGGREGATION, ONLINE = "python -m papers aggregation", "python -m papers online"


@dataclass(frozen=True)
class Paper:
    """One of the four papers.

    Args:
        title: in words.
        quick: a command that ends within two minutes with a picture.
    """

    title: str
    quick: str


@dataclass(frozen=True)
class Entry:
    """A table or a figure.

    Args:
        paper: a key of `PAPERS`.
        item: as the paper numbers it, and what it is about.
        data: files of docs/results/data that have ours.
        command: that makes ours; DIR is a folder with the files of the data set, FOLDER one of all stand-ins.
        published: what the paper has, in short.
        ours: the same of ours; each number is in the data. Empty where `missing` is not.
        why: why they differ.
        took: the time of the command.
        missing: the data or the hardware that is missing for the rest, or for all.
        pairs: published numbers with ours, whose difference is shown.
        gap: the difference in words, without pairs.
    """

    paper: str
    item: str
    data: tuple[str, ...]
    command: str
    published: str
    ours: str
    why: str = ""
    took: str = ""
    missing: str = ""
    pairs: tuple[tuple[float, float], ...] = ()
    gap: str = ""

    @property
    def difference(self) -> str:
        """Ours less the published number, for each pair."""
        numbers = (f"{ours - published:+,.3f}".rstrip("0").rstrip(".") for published, ours in self.pairs)
        return ", ".join(number.replace("-", "−") for number in numbers) or self.gap


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a file of data."""
    with (DATA / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def staged(item: str, dataset: str, file: str, command: str, why: str, took: str = "", missing: str = "") -> Entry:
    """Return the entry of a table of accuracies or errors by epsilon, with all numbers from a file."""
    published, ours, pairs = [], [], []
    for column, title in (("LP-1ST, published", "LP-1ST"), ("LP-2ST, published", "LP-2ST")):
        own = title.lower() + (", subset" if file == "multistage-cifar" else "")
        found = [row for row in rows(file) if row["table"] == dataset]
        both = [row for row in found if row[column] and row[own]] or [row for row in found if row[column]]
        epsilons = ", ".join(row["ε"] for row in both)
        published.append(f"{title}, ε = {epsilons}: {', '.join(row[column] for row in both)}")
        if numbers := [row[own].split(" ")[0] for row in both if row[own]]:
            ours.append(f"{title}: {', '.join(numbers)}")
            pairs += [(float(row[column]), float(number)) for row, number in zip(both, numbers, strict=True)]
    texts = "; ".join(published), "; ".join(ours)
    return Entry("Ghazi", item, (file,), command, *texts, why, took, missing, tuple(pairs))


def slopes(task: str, item: str, command: str, published: str, ours: str, why: str, took: str) -> Entry:
    """Return the entry of measured slopes; the difference is the largest one from the corrected prediction."""
    found = [row for row in rows("rates") if row["table"] == task and "printed" not in row["row"]]
    gaps = [abs(_signed(row["measured"]) - _signed(row["predicted"])) for row in found]
    near = sum(gap <= 0.1 for gap in gaps)
    gap = f"{near} of {len(gaps)} slopes within 0.1 of the prediction; largest difference {max(gaps):.3f}"
    return Entry("Zhao", item, ("rates",), command, published, ours, why, took, gap=gap)


def _signed(text: str) -> float:
    return float(text.replace("−", "-"))


PAPERS = {
    GHAZI: Paper(
        "Ghazi et al., Deep Learning with Label Differential Privacy",
        f"{MULTISTAGE} --dataset mnist --data DIR --epsilon 0.1,1 --figure clusters --seeds 1 --out quick-multistage",
    ),
    ZHAO: Paper(
        "Zhao et al., On Theoretical Limits of Learning with Label Differential Privacy",
        "python -m papers rates --rows classification-local-label --epsilon 1 --seeds 3 --out quick-rates",
    ),
    BRAHMBHATT: Paper(
        "Brahmbhatt et al., Label Differential Privacy via Aggregation",
        f"{AGGREGATION} --tables lba --bag-size 32,64 --bags 256,512 --seeds 1 --out quick-aggregation",
    ),
    ASI: Paper(
        "Asi et al., Private Online Learning via Lazy Algorithms",
        f"{ONLINE} --tables exponents,table1 --out quick-online",
    ),
}
"""By their keys in `docs/theory/notation.md`."""

_SUBSET = "15,000 of 50,000 images and the compact network instead of a ResNet-18"
_LBA = "scaled numbers, with which 3,000 steps of Adam end far from the constant"
_GRID = "--bags 512,1024,2048,4096 --bag-size 32,64,128,256"
_LLP = "other data; of Criteo the same shape: falls with m, flat in k and ρ"

ENTRIES = (
    staged(
        "Table 1: CIFAR-10",
        "cifar10",
        "multistage-cifar",
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 4 --method lp-1st,lp-2st --seeds 1 --out runs",
        _SUBSET,
        missing="the whole of CIFAR-10, and an accelerator",
    ),
    staged(
        "Table 2: CIFAR-100",
        "cifar100",
        "multistage-cifar",
        f"{MULTISTAGE} --dataset cifar100 --data DIR --epsilon 4,8 --method lp-1st,lp-2st --seeds 1 --out runs",
        "10,000 of 50,000 images and the compact network instead of a ResNet-18",
        missing="the whole of CIFAR-100, and an accelerator",
    ),
    staged(
        "Table 3: MovieLens-1M, RMSE",
        "movielens",
        "multistage",
        f"{MULTISTAGE} --dataset movielens --data DIR --epsilon 1,2,3,4,8,1000 "
        "--method lp-1st,lp-2st --seeds 1 --out runs",
        "another split, another network, a noise-aware loss, and one recipe for every ε",
        "170 and 245 s each",
    ),
    staged(
        "Table 4: MNIST",
        "mnist",
        "multistage",
        f"{MULTISTAGE} --dataset mnist --data DIR --epsilon 1,2,3,4,8,1000 --method lp-1st,lp-2st --seeds 1 --out runs",
        "likely the loss: ours is noise-aware, the paper treats noisy labels as true",
        "60 and 125 s each",
    ),
    staged(
        "Table 4: Fashion-MNIST",
        "fashion_mnist",
        "multistage",
        f"{MULTISTAGE} --dataset fashion_mnist --data DIR --epsilon 1,2,3,4,8,1000 "
        "--method lp-1st,lp-2st --seeds 1 --out runs",
        "from ε = 2 on the compact network is the limit; the paper has an Inception of 40 epochs",
        "60 and 123 s each",
    ),
    staged(
        "Table 5: KMNIST",
        "kmnist",
        "multistage",
        f"{MULTISTAGE} --dataset kmnist --data DIR --epsilon 1,2,3,4,1000 --method lp-1st,lp-2st --seeds 1 --out runs",
        "",
        missing="the files of KMNIST",
    ),
    Entry(
        GHAZI,
        "Figure 1: three stages, and priors of clusters",
        ("multistage-stages",),
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
        ("multistage-clusters",),
        f"{MULTISTAGE} --dataset mnist --data DIR --epsilon 0.1,1 --figure clusters --seeds 1 --out runs",
        "curves without numbers",
        "86.44 with 100 clusters, 66.35 with 1000 at ε = 0.1; 94.29 at ε = 1 (MNIST)",
        "principal components of MNIST instead of BYOL and DINO of CIFAR-10: the same shape",
        "15 s",
    ),
    Entry(
        GHAZI,
        "Figure 3: learning curves",
        ("multistage-stages",),
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 2 --method lp-1st,lp-2st --preset brief --out runs",
        "82.38, 86.05; mean k* 1.86, top-2 accuracy of stage 1 about 90",
        "55.53, 59.87; mean k* 2.9, 84.5 percent of true labels among the candidates",
        "15,000 of 50,000 images, the compact network, 400 steps a stage; curves are of the loss",
        "80 s of processor time",
        "the whole of CIFAR-10, and an accelerator",
        pairs=((82.38, 55.53), (86.05, 59.87)),
    ),
    Entry(
        GHAZI,
        "Figure 4a: split and temperature; Figure 5: top-k accuracy of stage 1",
        ("multistage-split",),
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
        ("multistage-mixup",),
        f"{MULTISTAGE} --dataset cifar10 --data DIR --epsilon 2 --figure mixup --preset brief --seeds 1 --out runs",
        "a picture without numbers: 4 to 8, and less in stage 2",
        "59.27 without mixup, 59.13 with 2 in stage 1, 55.50 with 2 in stage 2, 51.93 with 8 in both",
        "15,000 of 50,000 images, 400 steps a stage, which likely learn nothing by heart that mixup could prevent",
        "7 min of processor time",
        missing="the whole of CIFAR-10, and an accelerator",
    ),
    *(
        slopes(task, f"Table I: {name}", f"{RATES} --rows {row}", published, ours, why, "7 min for all rows")
        for task, name, row, published, ours, why in (
            (
                "Classification",
                "classification",
                "classification",
                "β(γ + 1)/(2β + d), with full local protection β(γ + 1)/(2β + 2d): 0.500, 0.375",
                "−0.517 to −0.489 and −0.396 to −0.376 (d = 1, local)",
                "slopes over three decades of N; central ones have two terms",
            ),
            (
                "Regression",
                "bounded regression",
                "regression",
                "2β/(2β + d), with full local protection β/(β + d): 0.667, 0.500",
                "−0.667 to −0.664 and −0.509 to −0.473 (d = 1, local)",
                "the same",
            ),
            (
                "Heavy-tailed",
                "unbounded noise",
                "heavy-tailed",
                "2β(p − 1)/(2pβ + d(p − 1)) local, as published; tuned as published",
                "−0.500 to −0.490 corrected, −0.453 to −0.448 as published (d = 1, local)",
                "Theorems 10, 12 and 14 are tuned wrongly: see the corrections",
            ),
        )
    ),
    Entry(
        ZHAO,
        "Table I, with β = 0.5, γ = 1, p = 2",
        ("rates",),
        f"{RATES}-rough --family rough --records 1e4,2e4,5e4,1e5,2e5,5e5,1e6",
        "the same exponents",
        "−0.529 to −0.522 (classification), −0.209 to −0.177 (full local regression), d = 1",
        "few records for the smallest ε: up to 10⁶, as rough functions need many cells",
        "3 min of processor time",
    ),
    Entry(
        BRAHMBHATT,
        "Table 1: WTD-LBA, linear model",
        ("bag_tables-synthetic",),
        f"{AGGREGATION} --tables lba {_GRID} --out grid",
        "Criteo: 252.9 (m = 512, k = 32) to 200.11 (4096, 256)",
        "2,722.49 to 179.69 by Adam, 203.46 to 178.61 by least squares",
        _LBA,
        "about an hour, all tables of two seeds",
        "Criteo and the 1940 census",
    ),
    Entry(
        BRAHMBHATT,
        "Table 1 by Adam: learning curves",
        ("bag_tables-adam",),
        f"{AGGREGATION} --tables adam --seeds 10 --out bags",
        "Criteo, m = 512, k = 32: 252.9; labels themselves 196.35",
        "2,725.26 with scaled numbers, 345.49 with unscaled numbers, 208.39 by least squares",
        "scale and steps, not the data: Appendix K does not scale numbers",
        "4 min of processor time",
        "Criteo and the 1940 census",
    ),
    *(
        Entry(
            BRAHMBHATT,
            f"Table {number}: NOISY-WTD-LLP, network, ρ = {share}",
            ("bag_tables-synthetic",),
            f"{AGGREGATION} --tables llp --noisy-fraction {share} {_GRID} --out grid",
            published,
            cells,
            _LLP,
            "about an hour, all tables of two seeds",
            "Criteo and the 1940 census",
        )
        for number, share, published, cells in (
            (2, 0.1, "Criteo: 235.0 (m = 512, k = 32) to 205.18 (4096, 256)", "230.13 to 191.15"),
            (3, 0, "Criteo: 241.14 to 202.67", "231.40 to 191.08"),
            (4, 0.01, "Criteo: 227.66 to 202.09", "224.02 to 188.15"),
            (5, 0.5, "Criteo: 223.15 to 197.66", "236.71 to 188.92"),
            (6, 1, "Criteo: 225.1 to 193.41", "324.04 to 196.66"),
        )
    ),
    Entry(
        ASI,
        "Figure 1: (a), (b), (c)",
        ("online-exponents",),
        f"{ONLINE} --tables exponents --out online",
        "free of charge until ε = T^(−1/4): 0.250",
        "0.167, corrected",
        "the proof has a gap: see the corrections",
        "seconds",
        pairs=((0.25, 0.167),),
    ),
    Entry(
        ASI,
        "Figure 1 (a), (b): convex losses, played",
        ("online_convex",),
        "PYTHONPATH=. python benchmarks/online_convex.py --write",
        "exponents 0.500 and 0.556 at α = 0 and 1/3",
        "regret 60 of noisy leaders, 319 of L2P, 37 of gradient descent (lean, T = 10,000, ball of 10 dimensions)",
        "bounds of what can be proved of lazy draws are larger than those of noisy sums",
    ),
    Entry(
        ASI,
        "Table 1: regret",
        ("online-rates",),
        f"{ONLINE} --tables table1 --out online",
        "√(T ln d) + T^(1/3) ln d / ε^(2/3): 2,319 at T = 1e5, d = 1e3, ε = 0.1",
        "2,700 corrected; 6,713 planned with all constants",
        "published without constants, and corrected",
        "seconds",
        pairs=((2319, 2700),),
    ),
    Entry(
        ASI,
        "Proposition 3.3",
        ("online-proposition",),
        f"{ONLINE} --tables excess --out online",
        "T B² η²: 4,642 at T = 10^7, ε = 0.01",
        "26,660",
        "the counterexample costs η T B / 8",
        "seconds",
        pairs=((4642, 26660),),
    ),
    Entry(
        ASI,
        "Theorem 4.2: the adversary, played",
        ("online-adversary-1e5",),
        f"{ONLINE} --tables adversary --experts 100 --seeds 3 --out online",
        "√T + T^(1/3)/ε^(2/3): 2,454, 1,156 and 633 at T = 100,000, ε = 0.0032, 0.013 and 0.056",
        "2,501, 1,049 and 419 (dartboard), 2,499, 1,047 and 420 for any expert at random",
        "the bound has a constant of one; at these sizes no private learner is better than any expert at random",
        "5 min",
        pairs=((2454, 2501), (1156, 1049), (633, 419)),
    ),
)
"""All tables and figures; `docs/results/data/papers.csv` is made of this list, and `python -m papers --list`."""

COLUMNS = ("paper", "item", "published", "ours", "difference", "reason", "missing", "time", "command", "data")


def table() -> Iterator[Sequence[str]]:
    """Yield the columns, and a row for each table and figure."""
    yield COLUMNS
    for each in ENTRIES:
        texts = (each.paper, each.item, each.published, each.ours, each.difference, each.why, each.missing, each.took)
        yield (*texts, f"`{each.command}`", ", ".join(f"[{name}](data/{name}.csv)" for name in each.data))


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
    with (DATA / "papers.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table())
