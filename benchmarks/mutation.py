"""Whether the tests notice a changed line: mutants of the rooms that keep the promise.

    make mutation                                         an environment with mutmut, the map, the run and the page
    python benchmarks/mutation.py map [FILE …]            which tests run which lines, and how long each takes; with
                                                          files of tests, these are put into the map that there is
    python benchmarks/mutation.py run [--sample N] [--small] [--minutes M] [--seconds S] [--part I/N]
    python benchmarks/mutation.py again [FILE …]          the survivors once more, against the tests of today, or those
                                                          of files that the map has got since
    python benchmarks/mutation.py show                    the score, and what survived

A mutant is one change by one of mutmut's operators to one expression of `privacy`, `sampling`, `mechanisms` or
`curator`. It is loaded in a process of its own in place of the file, and the tests that run the changed statement are
run until one fails.
Left alone: what an error says (all of a `raise`, names of arguments or None for them, strings with a blank),
annotations, names of types, decorators, imports, docstrings and what only asserts (`strict` of zip); None for False;
of a string, mutants that only change its case.
Findings are kept in .cache/mutation; an interrupted run resumes. `--part 1/2` and `--part 2/2` share the work.
"""

import argparse
import gc
import importlib
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from itertools import accumulate
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".cache" / "mutation"
ROOMS = ("privacy", "sampling", "mechanisms", "curator")
TESTS = [f"{where}/{room}" for room in ROOMS for where in ("tests", "src/labeldp")]
TESTS += ["tests/oracles", "tests/architecture/test_reprs.py"]
DECIDE = [
    *(f"privacy/{name}.py" for name in ("exact", "ids", "loss", "randomness", "validate")),
    *(f"curator/{name}.py" for name in ("datasets", "ledger_transaction", "paid", "users")),
    "mechanisms/additive.py",
]
"""Files that decide a charge: what it is, whether it fits, whose it is, if it is made."""

NAMES = ("check_", "exact_", "decimal", "Argument", "label_width", "cast", "TypeVar", "warn")
"""Calls whose strings are names of arguments, and words for people."""

TYPES = ("tuple[", "Callable[", "NDArray[", "Literal[", "Sequence[", "Mapping[")
"""How names of types begin."""

STAGES = (8, 120)
"""So many tests, the shortest, are tried first; then up to so many, and the others where these pass."""

NOT_LOADED = 98
"""Ends a test process that passed without a look at the mutant."""

WARM = ("numpy", "scipy.special", "scipy.optimize", "scipy.stats", "pandas", "hypothesis", "hypothesis.strategies")
WARM += ("hypothesis.extra.numpy", "cryptography.hazmat.primitives.ciphers", "sqlite3")
"""What each test process finds imported."""

OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
"""Plain, since pytest reads a file that is asked for by its doctests itself, and not as it is imported."""

Operator = Callable[[Any], Any]


class Mutants:
    """The mutants of one file; each is a place, an operator and a number."""

    def __init__(self, path: str) -> None:
        self.path = path
        wrapper = MetadataWrapper(cst.parse_module((ROOT / path).read_text(encoding="utf-8")))
        self.module = wrapper.module
        self.positions = wrapper.resolve(PositionProvider)
        self.parents = wrapper.resolve(ParentNodeProvider)
        self.found: dict[str, tuple[cst.CSTNode, cst.CSTNode]] = {}
        self._visit(self.module)

    def _visit(self, node: cst.CSTNode) -> None:
        if self._left_alone(node):
            return
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                for number, changed in enumerate(_changes(operator, node)):
                    if _as_false(node, changed) or self._names_nothing(node, changed):
                        continue
                    start = self.positions[node].start
                    how = operator.__name__.removeprefix("operator_")
                    name = f"{self.path}:{start.line}:{start.column}:{how}:{number}"
                    self.found.setdefault(name, (node, changed))
        for child in node.children:
            self._visit(child)

    def _left_alone(self, node: cst.CSTNode) -> bool:
        """Whether a node and all below it are no behavior, or words for people."""
        if isinstance(node, cst.Raise | cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom | cst.Assert):
            return True
        if isinstance(node, cst.If) and isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING":
            return True
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString | cst.ConcatenatedString):
            return True
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "strict":
            return True
        if isinstance(node, cst.Assign) and self.module.code_for_node(node.targets[0].target) == "__all__":
            return True
        if isinstance(node, cst.Assign) and self._names_a_type(node):
            return True
        return isinstance(node, cst.SimpleString) and (" " in node.value or self._is_name(node))

    def _names_a_type(self, node: cst.Assign) -> bool:
        """Whether a statement of the file itself names a type, for annotations."""
        value, above = node.value, self.parents[self.parents[node]]
        return isinstance(above, cst.Module) and self.module.code_for_node(value).startswith(TYPES)

    def _is_name(self, node: cst.CSTNode) -> bool:
        """Whether a string names an argument, for an error."""
        above = self.parents[node]
        if not isinstance(above, cst.Arg):
            return False
        call = self.parents[above]
        return isinstance(call, cst.Call) and self.module.code_for_node(call.func).startswith(NAMES)

    def _names_nothing(self, node: cst.CSTNode, changed: cst.CSTNode) -> bool:
        """Whether a change takes the name of an argument, for an error, for None."""
        if not (isinstance(node, cst.Call) and isinstance(changed, cst.Call) and len(node.args) == len(changed.args)):
            return False
        pairs = zip(node.args, changed.args, strict=True)
        before = [one.value for one, other in pairs if not one.deep_equals(other)]
        return all(isinstance(value, cst.SimpleString) and self._is_name(value) for value in before)

    def code(self, name: str) -> str:
        """The file with one mutant."""
        node, changed = self.found[name]
        return self.module.deep_replace(node, changed).code  # type: ignore[union-attr]

    def words(self, name: str) -> str:
        """The statement before and after, in a line."""
        node, changed = self.found[name]
        before, after = (" ".join(self.module.code_for_node(each).split()) for each in (node, changed))
        return f"`{before[:70]}` → `{after[:70]}`"

    def lines(self, name: str) -> range:
        """The lines of the statement, or of the head of a compound one, that a mutant changes."""
        node: cst.CSTNode = self.found[name][0]
        while not isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            node = self.parents[node]
        start, last = self.positions[node].start.line, self.positions[node].end.line
        body = getattr(node, "body", None)
        if isinstance(node, cst.BaseCompoundStatement) and isinstance(body, cst.IndentedBlock):
            last = max(start, self.positions[body.body[0]].start.line - 1)
        return range(start, last + 1)

    def at_import(self, name: str) -> bool:
        """Whether a mutant is run as the file is imported, and so by whichever test came first."""
        node: cst.CSTNode = self.found[name][0]
        while node in self.parents and not isinstance(node, cst.FunctionDef | cst.Lambda):
            node = self.parents[node]
            if isinstance(node, cst.Parameters):  # a default is made where its function is
                node = self.parents[self.parents[node]]
        return isinstance(node, cst.Module)


def _as_false(node: cst.CSTNode, changed: cst.CSTNode) -> bool:
    """Whether the change is None for False, alone."""
    before, after = (cst.Module([]).code_for_node(each) for each in (node, changed))
    pieces = before.split("False")
    return any(after == "False".join(pieces[:at]) + "None" + "False".join(pieces[at:]) for at in range(1, len(pieces)))


def _changes(operator: Operator, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What an operator makes of a node; of a string, the first alone."""
    changes = iter(operator(node))
    if operator is operator_string:
        yield from [change for change, _ in zip(changes, range(1), strict=False)]
    else:
        yield from changes


@cache
def mutants_of(path: str) -> Mutants:
    """The mutants of a file of this tree."""
    return Mutants(path)


def files() -> list[str]:
    """All files of the rooms."""
    return [
        str(path.relative_to(ROOT)) for room in ROOMS for path in sorted((ROOT / "src/labeldp" / room).rglob("*.py"))
    ]


def write_map(more: list[str]) -> None:
    """Run the tests of the rooms once, or those of some files, and keep which ran which line."""
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != ROOT / "benchmarks"]  # coverage.py beside
    import coverage
    import pytest

    watch = coverage.Coverage(
        data_file=None, config_file=False, source=[str(ROOT / "src/labeldp" / room) for room in ROOMS]
    )
    seconds: dict[str, float] = {}
    failed: set[str] = set()

    class Plugin:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failed.add(report.nodeid)

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            watch.switch_context(item.nodeid)
            start = time.process_time()
            try:
                return (yield)
            finally:
                seconds[item.nodeid] = time.process_time() - start
                watch.switch_context("")

    watch.start()
    pytest.main(["-q", "-p", "no:cacheprovider", *(more or TESTS)], plugins=[Plugin()])
    watch.stop()
    kept: dict[str, Any] = {"seconds": {}, "lines": {}}
    if more:
        kept = json.loads((KEPT / "map.json").read_text(encoding="utf-8"))
    kept["seconds"].update(seconds)
    numbers = {test: number for number, test in enumerate(kept["seconds"])}
    for path in files():
        lines = kept["lines"].setdefault(path, {})
        for line, tests in watch.get_data().contexts_by_lineno(str(ROOT / path)).items():
            ran = {numbers[test] for test in tests if test and test not in failed}
            lines[str(line)] = sorted(ran.union(lines.get(str(line), [])))
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / "map.json").write_text(json.dumps(kept), encoding="utf-8")
    print(f"{len(seconds)} tests, {sum(seconds.values()):.0f} s; left out, since they fail as it is: {sorted(failed)}")


class Map:
    """Which tests run which lines."""

    def __init__(self) -> None:
        kept = json.loads((KEPT / "map.json").read_text(encoding="utf-8"))
        self.seconds: dict[str, float] = kept["seconds"]
        self.tests = list(self.seconds)
        self.lines: dict[str, dict[str, list[int]]] = kept["lines"]

    def tests_of(self, path: str, lines: range | None) -> list[str]:
        """The tests that run some lines of a file, or any for None: those of the room first, by their time."""
        known = self.lines[path]
        asked = known.values() if lines is None else (known.get(str(line), []) for line in lines)
        found = {test for tests in asked for test in tests}
        names = [self.tests[number] for number in found]
        room, own = path.split("/")[2], f"/test_{Path(path).stem}"
        return sorted(names, key=lambda name: (f"/{room}/" not in name, own not in name, self.seconds[name]))

    def within(self, tests: list[str], seconds: float) -> list[str]:
        """The first tests that take so long together, at least one."""
        total = list(accumulate(self.seconds[test] for test in tests))
        return tests[: max(1, bisect_right(total, seconds))]


def test_once(path: str, code: str, tests: list[str], limit: float) -> str:
    """Run tests on a file with other code, in a process of its own: killed, survived or slow."""
    child = os.fork()
    if child == 0:
        _be_child(path, code, tests, limit)
    end = time.monotonic() + 6 * limit
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "slow"
        time.sleep(0.02)
    if os.WIFSIGNALED(status):
        return "slow" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "killed"
    return {0: "survived", NOT_LOADED: "not loaded"}.get(os.WEXITSTATUS(status), "killed")


def _be_child(path: str, code: str, tests: list[str], limit: float) -> None:
    """Put the mutant in the file's place, run the tests, and leave."""
    os.setpgid(0, 0)
    sink = os.open(os.environ.get("MUTATION_SHOW", os.devnull), os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    place, get_code, loaded = str(ROOT / path), SourceFileLoader.get_code, []

    def changed(self: SourceFileLoader, name: str) -> Any:
        if os.path.realpath(self.path) != place:
            return get_code(self, name)
        loaded.append(name)
        return compile(code, self.path, "exec")

    SourceFileLoader.get_code = changed  # type: ignore[method-assign, assignment]
    import pytest

    status = 99
    try:
        status = int(pytest.main([*OPTIONS, *tests]))
        status = status if status or loaded else NOT_LOADED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def judge(name: str, known: Map, seconds: float, places: tuple[str, ...] = ("",)) -> dict[str, Any]:
    """Whether the tests of some places notice a mutant; what survives those that take `seconds` together is left."""
    path = name.split(":")[0]
    mutants = mutants_of(path)
    start = time.monotonic()
    code = mutants.code(name)
    try:
        same = compile(code, path, "exec") == compile((ROOT / path).read_text(encoding="utf-8"), path, "exec")
    except SyntaxError:
        return {"mutant": name, "result": "no program"}
    if same:
        return {"mutant": name, "result": "no change"}
    lines = None if mutants.at_import(name) else mutants.lines(name)
    every = [test for test in known.tests_of(path, lines) if test.startswith(places)]
    tests = known.within(every, seconds)
    result = "survived" if tests else "not run"
    for some in (tests[: STAGES[0]], tests[STAGES[0] : STAGES[1]], tests[STAGES[1] :]):
        if result == "survived" and some:
            result = test_once(path, code, some, 15 + 5 * sum(known.seconds[test] for test in some))
    entry = {"mutant": name, "result": result, "tests": len(tests), "of": len(every), "change": mutants.words(name)}
    return {**entry, "seconds": round(time.monotonic() - start, 2)}


def warm() -> None:
    """Import what is not mutated, for all test processes."""
    os.chdir(ROOT)
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MPLBACKEND="Agg")
    for name in WARM:
        with suppress(ImportError):
            importlib.import_module(name)
    assert not any(name.split(".")[0] == "labeldp" for name in sys.modules)
    gc.freeze()


def queue(sample: int, small: bool) -> list[str]:
    """The mutants to judge, the same in each run: a random sample of all, and all of small files in random order."""
    place = KEPT / "mutants.json"
    if not place.exists():
        place.write_text(json.dumps([name for path in files() for name in mutants_of(path).found]), encoding="utf-8")
    every = json.loads(place.read_text(encoding="utf-8"))
    chosen = random.Random(18).sample(every, min(sample, len(every)))
    if not small:
        return chosen
    own = {f"src/labeldp/{path}" for path in DECIDE}
    rest = [name for name in every if name.split(":")[0] in own and name not in set(chosen)]
    random.Random(81).shuffle(rest)
    return chosen + rest


def results() -> dict[str, dict[str, Any]]:
    """What is known, by mutant; later lines replace earlier ones."""
    place = KEPT / "results.jsonl"
    lines = place.read_text(encoding="utf-8").splitlines() if place.exists() else []
    return {entry["mutant"]: entry for entry in map(json.loads, lines)}


def shown(sample: int) -> str:
    """The score of the random sample and of all mutants that were judged, and the survivors."""
    known = results()
    known = {name: entry for name, entry in known.items() if name in mutants_of(entry["mutant"].split(":")[0]).found}
    chosen = [known[name] for name in queue(sample, False) if name in known]
    lines = [
        "| which | mutants | killed | too slow | survived | run by no test | noticed |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, some in (("random sample", chosen), ("all that were judged", list(known.values()))):
        count = Counter(entry["result"] for entry in some)
        valid = sum(count[each] for each in ("killed", "slow", "survived", "not run"))
        found = count["killed"] + count["slow"]
        share = f"{100 * found / valid:.1f} %" if valid else "none"
        numbers = [valid, *(count[each] for each in ("killed", "slow", "survived", "not run"))]
        lines.append(f"| {title} | {' | '.join(map(str, numbers))} | {share} |")
    left = [entry for entry in known.values() if entry["result"] in ("survived", "not run", "not loaded")]
    return "\n".join([*lines, "", *(f"| `{e['mutant']}` | {e['change']} | {e['result']} |" for e in left)])


def run(names: list[str], minutes: float, seconds: float, places: list[str]) -> None:
    """Judge mutants, and keep each finding at once; of the tests of some places alone, what they kill."""
    known, end, count = Map(), time.monotonic() + 60 * minutes, Counter[str]()
    path = "src/labeldp/privacy/loss.py"
    text = (ROOT / path).read_text(encoding="utf-8")
    assert test_once(path, text, known.tests[:20], 60) == "survived", "the tests fail without a mutant"
    assert test_once(path, text.replace("0", "1"), known.tests[:200], 60) == "killed", "no mutant is noticed"
    with (KEPT / "results.jsonl").open("a", encoding="utf-8") as file:
        for name in names:
            if time.monotonic() > end:
                break
            entry = judge(name, known, seconds, tuple(places) or ("",))
            count[entry["result"]] += 1
            if not places or entry["result"] in ("killed", "slow"):
                print(json.dumps(entry), file=file, flush=True)
    print(dict(count), "left:", len(names) - sum(count.values()))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("map", "run", "again", "show", "count"))
    parser.add_argument("tests", nargs="*", help="for map and again: files of tests")
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--small", action="store_true", help="all mutants of the small files that decide a charge, too")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seconds", type=float, default=1e9, help="so long may the tests of a mutant take, as mapped")
    parser.add_argument("--part", default="1/1", help="of the work, such as 1/2")
    parser.add_argument("--only", default="", help="mutants whose name has this")
    asked = parser.parse_args()
    if asked.what == "map":
        os.chdir(ROOT)
        write_map(asked.tests)
    elif asked.what == "count":
        counts = {path: len(mutants_of(path).found) for path in files()}
        for path, number in counts.items():
            print(number, path)
        print(sum(counts.values()), "in all;", sum(counts[f"src/labeldp/{path}"] for path in DECIDE), "in small files")
    elif asked.what == "show":
        print(shown(asked.sample))
    else:
        warm()
        known = results()
        if asked.what == "run":
            names = [name for name in queue(asked.sample, asked.small) if name not in known]
        else:
            names = [name for name, entry in known.items() if entry["result"] in ("survived", "not run", "not loaded")]
        names = [name for name in names if name in mutants_of(name.split(":")[0]).found]  # others are left alone today
        part, parts = map(int, asked.part.split("/"))
        run(
            [name for name in names if asked.only in name][part - 1 :: parts], asked.minutes, asked.seconds, asked.tests
        )


if __name__ == "__main__":
    main()
