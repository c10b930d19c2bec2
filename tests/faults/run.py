"""Faults, many times: each happens to a library call or a command, and what must hold is looked at afterwards.

    PYTHONPATH=tests python tests/faults/run.py [--kills 10000] [--commands 300] [--others 10] [--log LOG]
    PYTHONPATH=tests python tests/faults/run.py --log LOG … --page build/faults.md

The first line makes a log, a line for each fault; the second writes the page from one or several. Processes are forked
from one that has imported everything, and killed at a time drawn over the measured length of what they do.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faults import others
from faults.acts import COMMANDS, LIBRARY, Act
from faults.planted import PLANTED
from faults.world import World, act_in_child, answer_of, ledger_rows, read_to_end, settle
from labeldp.privacy import LabelDPError

ROUND = 12
"""Faults in a folder before there is a new one: ledgers stay small."""


def measured(act: Act, place: Path) -> tuple[float, int]:
    """How long an act takes, and how many charges it makes."""
    times, charges = [], 0
    world = World(_folder(place))
    for number in range(900, 903):
        before = len(ledger_rows(world.folder))
        child, reading = act_in_child(act, world.folder, number)
        os.read(reading, len(b"begin\n"))
        start = time.monotonic()
        lines = read_to_end(child, reading)
        times.append(time.monotonic() - start)
        charges = len(ledger_rows(world.folder)) - before
        answer = answer_of(lines)
        if answer is None or "bug" in answer or "refused" in answer:
            raise RuntimeError(f"{act.name}: {answer}")
    shutil.rmtree(world.folder)
    return min(times), charges


def killed(world: World, act: Act, number: int, after: float) -> list[Any]:
    """Do an act in a process that is killed some time after it began; what it told."""
    child, reading = act_in_child(act, world.folder, number)
    os.read(reading, len(b"begin\n"))
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    return [answer_of(read_to_end(child, reading))]


def kills(acts: list[Act], count: int, place: Path, clock: random.Random) -> Iterator[dict[str, Any]]:
    """So many kills, shared out to acts."""
    shares = sum(act.share for act in acts)
    for act in acts if count else ():
        try:
            length, charges = measured(act, place)
        except (RuntimeError, AssertionError, LabelDPError) as error:
            yield {"act": act.name, "fault": "none", "wrong": [str(error)]}
            continue
        yield {"act": act.name, "fault": "length", "seconds": length, "charges": charges}
        times, world = round(count * act.share / shares), None
        for number in range(times):
            if number % ROUND == 0:
                world = _fresh(world, place)
            assert world is not None
            answers = killed(world, act, number % ROUND, clock.uniform(0, 1.5 * length))
            found = _told(settle(world, act, number % ROUND, answers, charges))
            yield {"act": act.name, "fault": "SIGKILL", **found}
            world = _fresh(world, place) if found["wrong"] else world
        if world is not None:
            shutil.rmtree(world.folder)


def _told(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in ("wrong", "left", "refused")}


def other_faults(acts: list[Act], count: int, place: Path, clock: random.Random, few: bool) -> Iterator[dict[str, Any]]:
    """Every other fault that this machine can make, so many times for each act; or for one act each."""
    for place_in_list, (name, fault) in enumerate(others.possible(place).items()):
        for act in [acts[place_in_list % len(acts)]] if few else acts:
            if fault is others.threads and act in COMMANDS:  # one process has one command line
                continue
            _, charges = measured(act, place)
            world = None
            for number in range(count):
                if number % ROUND == 0:
                    world = _fresh(world, place)
                assert world is not None
                answers = fault(world, act, number % ROUND, clock)
                found = _told(settle(world, act, number % ROUND, answers, charges))
                told = sum(each is not None and "refused" not in each and "bug" not in each for each in answers)
                yield {"act": act.name, "fault": name, **found, "told": told}
                world = _fresh(world, place) if found["wrong"] else world
            if world is not None:
                shutil.rmtree(world.folder)


def _folder(place: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="faults-", dir=place))


def _fresh(world: World | None, place: Path) -> World:
    if world is not None:
        shutil.rmtree(world.folder)
    return World(_folder(place))


def warm(acts: list[Act], place: Path) -> None:
    """Import what acts import when they run, so that a child's time is that of the act."""
    world = World(_folder(place))
    for act in acts:
        act.do(world.folder, 0)
    os.chdir("/")
    shutil.rmtree(world.folder)


HEAD = """# Faults

Made by `tests/faults/run.py --page`, as `make faults` does, from the logs of
{commands}.
A run that was stopped did less than it was asked for; the counts below are of what was done.

Each fault happens to a process that is doing something to a small folder with a
ledger; then another process looks at the folder, does the same again without a fault, and looks again. Wrong would be:
a charge that is not in the ledger any more, or changed; an output that left without its charge; a charge with two
outputs; another number of charges than an undisturbed run makes; a total that is not the sum of its charges; a file
that has its name and does not verify; a visible file that nobody asked for; a hidden one that others may read and that
is not whole; a traceback; a process that hangs. `tests/faults/test_faults.py` plants mistakes of these kinds, and each
is found.

**{faults:,} faults, {wrong} after which something was wrong: {forgotten} charges forgotten, {twice} charges with two
outputs.**
"""

KILLS = """
## {kind}, killed

{count:,} SIGKILLs, at times drawn from 0 to 1.5 of the shortest of three undisturbed runs. Where the kill met it: in
the middle of a transaction, with SQLite's journal on disk; before anything was charged; when it was charged, and no
output there; when an output was there.

| operation | length in ms | kills | in a transaction | nothing charged | charged | output there | wrong |
|---|---|---|---|---|---|---|---|
"""

OTHERS = """
## Other faults

Refused: a process said so in one sentence, an error of labeldp. Done: it did not meet the fault, or got past it. Some
faults happen to several processes or threads at once, each of which is counted.

| fault | times | refused | done | wrong |
|---|---|---|---|---|
"""


def summary(lines: list[dict[str, Any]]) -> str:
    """The page of a log."""
    done = [each for each in lines if "wrong" in each]
    said = [sentence for each in done for sentence in each["wrong"]]
    text = HEAD.format(
        commands=_commands([each["command"] for each in lines if "command" in each]),
        faults=len(done),
        wrong=sum(bool(each["wrong"]) for each in done),
        forgotten=sum("forgotten" in sentence or "without the charge" in sentence for sentence in said),
        twice=sum("two outputs" in sentence for sentence in said),
    )
    lengths: dict[str, float] = {}
    for each in lines:
        if each.get("fault") == "length":
            lengths[each["act"]] = min(each["seconds"], lengths.get(each["act"], each["seconds"]))
    for kind, acts in (("Library calls", LIBRARY), ("Commands", COMMANDS)):
        names = [act.name for act in acts if act.name in lengths]
        rows = [each for each in done if each["fault"] == "SIGKILL" and each["act"] in names]
        text += KILLS.format(kind=kind, count=len(rows)) if rows else ""
        for name in names:
            own = [each for each in rows if each["act"] == name]
            left = Counter(each["left"].split(", ")[-1] for each in own)
            cells = [
                f"{1000 * lengths[name]:.0f}",
                len(own),
                sum(each["left"].startswith("in the middle") for each in own),
                *(left[met] for met in ("nothing was charged", "it was charged", "an output was there")),
                sum(bool(each["wrong"]) for each in own),
            ]
            text += f"| {name} | {' | '.join(map(str, cells))} |\n"
    rest = [each for each in done if each["fault"] != "SIGKILL"]
    text += OTHERS if rest else ""
    for name in dict.fromkeys(each["fault"] for each in rest):
        own = [each for each in rest if each["fault"] == name]
        counts = [len(own), sum(len(each["refused"]) for each in own), sum(each["told"] for each in own)]
        text += f"| {name} | {' | '.join(map(str, counts))} | {sum(bool(each['wrong']) for each in own)} |\n"
    sentences = sorted({_plain(sentence) for each in rest for sentence in each["refused"]})
    text += "\nWhat the refusals say, without paths and numbers:\n\n" if sentences else ""
    return text + "".join(f"- {sentence}\n" for sentence in sentences)


def _commands(typed: list[str]) -> str:
    """The commands that made logs, each once, with its seeds."""
    seeds: dict[str, list[str]] = {}
    for each in typed:
        command, _, seed = each.partition(" --seed ")
        seeds.setdefault(command, []).append(seed)
    return ",\n".join(f"`{command}` with seed {', '.join(found)}" for command, found in seeds.items())


def _plain(sentence: str) -> str:
    """A sentence without the names of folders and files."""
    named = re.compile(r"[\w.]*/[\w./-]*|\.?\b(released|decisions|model|cohort)\d+[\w.]*")
    return re.sub(r"\d+", "N", named.sub("…", sentence.removeprefix("Error: ")))


def main() -> None:
    """Run faults, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("--kills", 10_000), ("--commands", 300), ("--others", 10), ("--seed", 1)):
        parser.add_argument(name, type=int, default=usual)
    parser.add_argument("--few", action="store_true", help="other faults happen to one act each")
    parser.add_argument("--only", help="the acts whose names have this in them")
    parser.add_argument("--plant", choices=PLANTED, help="a mistake in the library, which must be found")
    parser.add_argument("--log", type=Path, nargs="+", default=[Path("build/faults.jsonl")])
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    log = asked.log[0].absolute()
    if asked.page:
        lines = [json.loads(line) for each in asked.log for line in each.read_text().splitlines()]
        asked.page.write_text(summary(lines))
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    clock, bad = random.Random(asked.seed), 0
    numbers = f"--kills {asked.kills} --commands {asked.commands} --others {asked.others} --seed {asked.seed}"
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a kill leaves what was written, whatever the disk
    with tempfile.TemporaryDirectory(dir=memory) as folder, log.open("w") as file:
        place = Path(folder)
        file.write(json.dumps({"command": f"python tests/faults/run.py {numbers}"}) + "\n")
        library, commands = ([act for act in acts if (asked.only or "") in act.name] for acts in (LIBRARY, COMMANDS))
        warm([*library, *commands], place)
        if asked.plant:
            PLANTED[asked.plant]()
        todo = [kills(library, asked.kills, place, clock)]
        todo += [kills(commands, asked.commands * len(commands), place, clock)]
        todo += [other_faults([*library, *commands], asked.others, place, clock, asked.few)] if asked.others else []
        for each in (line for lines in todo for line in lines):
            file.write(json.dumps(each) + "\n")
            file.flush()
            if each.get("wrong"):
                bad += 1
                print(each["act"], each["fault"], *each["wrong"], sep="\n  ", file=sys.stderr)
    print(f"{bad} faults after which something was wrong; the log is {log}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
