"""Tables of methods of other papers, beside what was published."""

import os
from collections.abc import Iterator, Sequence

from labeldp.report import fixed
from papers.harness import markdown_table, write_files
from papers.peers.published import PUBLISHED
from papers.peers.run import PEER_METHODS, PeerResult
from papers.plots import Point

PEERS = "peers.md"

INTRODUCTION = """\
Test accuracy in percent, or root mean squared error of numbers: mean ± standard deviation of single noises, without ±
where there is one. Every method sees the same principal directions of public features and learns one linear layer from
them where it leaves the learner open; penalties are chosen on released labels. Every run is a simulation: noise comes
from public seeds. The command of a row, where NAME is its name:"""

Group = Sequence[PeerResult]


def write_peers(results: Group, folder: str | os.PathLike[str]) -> list[str]:
    """Write `peers.md` over what was there; return its path."""
    return write_files(folder, {PEERS: peers_markdown(results)})


def peers_markdown(results: Group) -> str:
    """Return a table for each data set, then what was published, as Markdown."""
    text = ["# Methods of other papers", "", INTRODUCTION, ""]
    sides = dict.fromkeys((each.run.dataset, each.records) for each in results)
    text += ["```sh", *(_command(results, name, sizes) for name, sizes in sides), "```", ""]
    for name, sizes in sides:
        own = [each for each in results if (each.run.dataset, each.records) == (name, sizes)]
        text += [f"## {name}", "", _facts(own), "", *_measured(own), ""]
    return "\n".join([*text, "## What was published", "", *_published(results), ""])


def _command(results: Group, name: str, sizes: tuple[int, int]) -> str:
    runs = [each.run for each in results if (each.run.dataset, each.records) == (name, sizes) and each.run.epsilon]
    epsilons = ",".join(f"{each:g}" for each in sorted({run.epsilon for run in runs})) or "1"
    seeds = max((run.seed for run in runs), default=0) + 1
    records = max((run.records for run in runs), default=sizes[0])
    return (
        f"python -m papers peers --dataset {name} --data DIR --records {records} --epsilon {epsilons} "
        f"--seeds {seeds} --out peers --method NAME"
    )


def _facts(own: Group) -> str:
    """Return sizes, time and what the labels themselves give."""
    alone = [_number(own, [each.value]) for each in own if each.run.method == "labels"]
    known = f" From the labels themselves the same learner gets {alone[0]}." if alone else ""
    minutes = sum(each.seconds for each in own) / 60
    train, test = own[0].records
    measured = "accuracy" if own[0].metric == "accuracy" else "root mean squared error"
    took = f"{minutes:.0f} minutes on the clock, learning alone"
    return f"{train:,} training and {test:,} test records, {measured}; {took}.{known}"


def _measured(own: Group) -> Iterator[str]:
    """Yield a line for each method, a column for each epsilon."""
    runs = [each for each in own if each.run.method in PEER_METHODS]
    epsilons, rows = sorted({each.run.epsilon for each in runs}), []
    for name, method in PEER_METHODS.items():
        mine = [each for each in runs if each.run.method == name]
        if not mine:
            continue
        delta = max(each.run.delta for each in mine)
        cells = [_number(own, [each.value for each in mine if each.run.epsilon == epsilon]) for epsilon in epsilons]
        trust = mine[0].trust
        rows.append([f"`{name}`", method.title, trust, f"{delta:g}", *cells])
    heads = ["name", "method", "trust", "δ", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    return markdown_table(heads, "lll" + "r" * (len(epsilons) + 1), rows)


def _number(own: Group, values: Sequence[float]) -> str:
    """Return mean ± standard deviation."""
    if not values:
        return "–"
    scale, digits = (100, 2) if own[0].metric == "accuracy" else (1, 3)
    point = Point.of(0.0, [scale * value for value in values])
    return fixed(point.value, digits) + (f" ± {fixed(point.spread, digits)}" if len(values) > 1 else "")


def _published(results: Group) -> Iterator[str]:
    """Yield for each method that was run its figures beside ours, why they differ, and what is wrong in the code."""
    for name, method in PEER_METHODS.items():
        mine = [each for each in results if each.run.method == name]
        if not mine or name not in PUBLISHED:
            continue
        known = PUBLISHED[name]
        yield from (f"### {method.title}: `{name}`", "", f"*Published:* {known.source}", "")
        if known.figures:
            yield from markdown_table(["data", "ε", "published", "ours"], "lrrr", _beside(name, mine))
            yield ""
        if known.why:
            yield from (f"*Why ours differ:* {known.why}", "")
        yield from (f"*The published code:* {known.code}", "")


def _beside(name: str, mine: Group) -> Iterator[tuple[str, str, str, str]]:
    """Yield published figures with ours at the same data set and epsilon; ours is missing where it was not run."""
    for (dataset, epsilon), figure in PUBLISHED[name].figures.items():
        own = [each for each in mine if (each.run.dataset, each.run.epsilon) == (dataset, epsilon)]
        yield dataset, f"{epsilon:g}", f"{figure:g}", _number(own, [each.value for each in own])
