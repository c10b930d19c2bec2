"""What must not be copied is not, and what belongs to one process is refused in every other."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.curator import Ledger, LedgerFile
from labeldp.privacy import InputError, KeyedRandomness, NotCopyable, Public, SingleProcess, randomness

FORKS = 16

FORKED = """
import json, os, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
import numpy as np
import labeldp as ldp
from labeldp.privacy import Public
from labeldp.curator import LedgerFile

kind, folder, forks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
labels = np.arange(1000) % 2
if kind == "file":
    ledger = {"ledger": LedgerFile(folder / "ledger").dataset("people", budget=ldp.Budget(1))}
else:
    ledger = {"budget": ldp.Budget(1)}
curator = ldp.Curator(labels, domain=ldp.Classes(2), **ledger)
[part] = curator.split(Public(np.zeros(1000, dtype=int), why="all of them"))
holder = part if kind == "part" else curator

def attempt(_):
    try:
        mechanism = ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1)
        return holder.release(mechanism, rng=ldp.SystemRandomness()).value.tolist()
    except ldp.privacy.InputError as error:
        return str(error)

def others(_):
    refused = []
    asked = (
        lambda: curator.split(Public(labels, why="no")),
        lambda: curator.require({"a": ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1)}),
        lambda: curator.ledger.spent,
        lambda: ldp.Curator([0], domain=ldp.Classes(2), ledger=curator.ledger),
    )
    for ask in asked:
        try:
            ask()
            refused.append(False)
        except ldp.privacy.InputError as error:
            refused.append("LedgerFile" in str(error))
    return refused

with ProcessPoolExecutor(forks, mp_context=get_context("fork")) as pool:
    answers = list(pool.map(attempt, range(forks)))
    rest = list(pool.map(others, range(1))) if kind == "memory" else []
print(json.dumps({"answers": answers, "rest": rest, "spent": curator.ledger.spent.epsilon()}))
"""


def forked(kind: str, folder: Path) -> dict[str, Any]:
    """What happens in `FORKS` forks of a process that holds a curator."""
    import json

    command = [sys.executable, "-c", FORKED, kind, str(folder), str(FORKS)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.guarantee("labeldp.curator:Curator", "no_copy")
@pytest.mark.guarantee("labeldp.curator:Ledger", "no_copy")
@pytest.mark.guarantee("labeldp.privacy:SingleProcess", "no_fork")
@pytest.mark.parametrize("kind", ["memory", "part"])
def test_a_fork_has_no_budget(kind: str, tmp_path: Path) -> None:
    """Before, 16 forks of one curator with a budget of 1 released 16 independent answers, each certified epsilon = 1: a
    majority vote was right for 97.4 % of the labels, where one answer is for 73.6 %, and the ledger read 0."""
    found = forked(kind, tmp_path)
    assert all("LedgerFile(path).dataset(name)" in answer for answer in found["answers"])
    assert all(refused for each in found["rest"] for refused in each)
    assert found["spent"] == 0


def test_forks_share_a_ledger_file(tmp_path: Path) -> None:
    """The way that the refusal names: every fork gets the same bits, which are charged once."""
    found = forked("file", tmp_path)
    assert len(found["answers"]) == FORKS and len(found["answers"][0]) == 1000
    assert all(answer == found["answers"][0] for answer in found["answers"])
    assert found["spent"] == 1


def test_threads_share_a_budget() -> None:
    """Sixteen threads under a budget of one: one success, whoever comes first."""
    curator = ldp.Curator(np.arange(1000) % 2, domain=ldp.Classes(2), budget=ldp.Budget(1))

    def attempt(_: int) -> bool:
        try:
            curator.release(ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=1), rng=ldp.SystemRandomness())
        except ldp.BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(attempt, range(16))) == 1
    assert curator.ledger.spent.epsilon() == 1


SECRET = b"never in a pickle".ljust(32, b".")

MAKERS: dict[str, Callable[[Path], Any]] = {
    "curator": lambda _: ldp.Curator([0, 1], domain=ldp.Classes(2), budget=ldp.Budget(1)),
    "part": lambda _: ldp.Curator([0, 1], domain=ldp.Classes(2), budget=ldp.Budget(1)).split(
        Public(np.zeros(2, dtype=int), why="all of them")
    )[0],
    "durable curator": lambda folder: ldp.Curator(
        [0, 1], domain=ldp.Classes(2), ledger=LedgerFile(folder / "l").dataset("a", budget=ldp.Budget(1))
    ),
    "ledger": lambda _: Ledger(ldp.Budget(1)),
    "ledger file": lambda folder: LedgerFile(folder / "l"),
    "ledger of a dataset": lambda folder: LedgerFile(folder / "l").dataset("a", budget=ldp.Budget(1)),
    "system randomness": lambda _: ldp.SystemRandomness(),
    "keyed randomness": lambda _: KeyedRandomness(SECRET),
    "keyed stream": lambda _: KeyedRandomness(SECRET).stream(),
    "learner": lambda _: ldp.online.PrivateExperts(d=2, horizon=10, epsilon=1),
}


@pytest.mark.guarantee("labeldp.privacy:NotCopyable", "no_copy")
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("double", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_copies_are_refused(name: str, double: Callable[[Any], Any], tmp_path: Path) -> None:
    """Before, a durable curator was pickled with its raw codes and the ledger's secret, `SystemRandomness` drew again
    in a retried task, uncharged, and `KeyedRandomness` carried its key."""
    made = MAKERS[name](tmp_path)
    for wanted in (made, [made], {"inside": (made,)}):
        if wanted is not made and double is copy.copy:
            continue  # a shallow copy of a list holds the thing itself
        with pytest.raises(InputError, match="cannot be copied or pickled"):
            double(wanted)


def test_every_kind_says_what_to_do() -> None:
    kinds, bases = list[type](), [NotCopyable]
    while bases:
        below = bases.pop().__subclasses__()
        kinds += [kind for kind in below if kind is not SingleProcess]
        bases += below
    assert len(kinds) >= 7
    for kind in kinds:
        assert "cannot be copied or pickled" in kind._why_no_copy
        if issubclass(kind, SingleProcess):
            assert "belongs to the process that made it" in kind._why_no_fork


class Alone(SingleProcess):
    _why_no_copy, _why_no_fork = "Alone cannot be copied or pickled", "Alone belongs to the process that made it"


def test_a_fork_is_refused_where_the_system_gives_it_a_known_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a child runs when it is forked, in the process at hand: its number stays, as one that is given again."""
    monkeypatch.setattr(randomness, "_generation", [0])
    for _ in range(3):  # a child, its child, and the child of that
        alone = Alone()
        alone._claim_process()
        alone.check_process()
        randomness._count_fork()
        with pytest.raises(InputError, match="belongs to the process"):
            alone.check_process()
