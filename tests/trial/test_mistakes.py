"""Every mistake in the tables gets one clear line; nothing is charged or overwritten, and no label is told.

`commands.txt` has command lines, with what is said of each after a bar. A line names a command and what is other than
in `USUAL`: options with their values, `!--option` for one that is left out, other files, or `only` for nothing of the
usual. `calls.txt` has calls in Python in the same way.
"""

import copy
import pickle
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.online import Ball
from labeldp.sgd import UnitVectorLoss
from labeldp.tables import TableEncoder
from trial.world import SECRET, SECRET_NUMBER, labeldp

HERE = Path(__file__).parent
CLASSES = "--label bought --classes no,yes --epsilon 0.2 --ledger spent.ledger --dataset bought --id id"
NUMBERS = "--label hours --range 0,80 --epsilon 0.5 --ledger spent.ledger --dataset hours --id id"
USUAL = {
    "fit": f"people.csv {CLASSES} --out new-model",
    "fit-number": f"clean.csv {NUMBERS} --out new-model",
    "release": f"people.csv {CLASSES} --out new.csv",
    "release-number": f"clean.csv {NUMBERS} --mechanism discrete-laplace --out new.csv",
    "predict": "model new_people.csv --out new.csv --id id",
    "certificate": "model",
    "sign": "noisy.csv --key me.pem",
    "audit": "noisy.csv",
    "audit table": "mechanism.csv",
    "audit command": "",
    "choose": "people.csv --label bought --classes no,yes --epsilon 1 --id id",
    "plan": "--n 1e5 --d 4 --classes 2 --epsilon 1",
    "ledger add": "spent.ledger --dataset clicks --epsilon 1",
    "ledger show": "spent.ledger",
    "online plan": "--horizon 1e4 --experts 10 --epsilon 1",
    "online run": "losses.csv --epsilon 1 --out new.csv",
    "account llp": "--size 72 --stddev 1 --range -1,1 --epsilon 1",
    "account lba": "--size 1024 --leverage 0.015 --residual 100 --range -1,1 --epsilon 1",
    "demo": "--out demo --epsilon 1",
}
"""Each command as it works; with -number on labels that are numbers."""


def rows(table: Path) -> list[Any]:
    """The lines of a table: what is done, and what is said."""
    lines = table.read_text().splitlines()
    return [pytest.param(*line.split(" | ", 1), id=line.split(" | ", 1)[0]) for line in lines]


def parsed(words: list[str]) -> tuple[list[str], dict[str, str | None]]:
    """Arguments, and options with their values."""
    arguments: list[str] = []
    options: dict[str, str | None] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            options[word] = rest.pop(0) if rest and not rest[0].startswith(("--", "!")) else None
        else:
            arguments.append(word)
    return arguments, options


def whole(line: str, usual: dict[str, str] = USUAL) -> list[str]:
    """The command that a line of the table stands for."""
    words = shlex.split(line)
    names = [name for name in sorted(usual, key=len, reverse=True) if words[: len(name.split())] == name.split()]
    if not names:
        return words
    rest = words[len(names[0].split()) :]
    command = names[0].removesuffix("-number").split()
    if rest[:1] == ["only"]:
        return [*command, *rest[1:]]
    arguments, options = parsed(usual[names[0]].split())
    others, changes = parsed([word for word in rest if not word.startswith("!")])
    kept = {name: value for name, value in (options | changes).items() if f"!{name}" not in rest}
    typed = [word for name, value in kept.items() for word in ([name] if value is None else [name, value])]
    return [*command, *(others or arguments), *typed]


def charges() -> dict[str, Any]:
    """What each dataset was charged for."""
    file = ldp.LedgerFile("spent.ledger")
    return {name: (file.dataset(name).charges, file.dataset(name).budget) for name in file.datasets()}


@pytest.fixture
def unchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is charged, made, changed or removed; a ledger may note that labels were refused."""
    monkeypatch.chdir(folder)
    files, charged = contents(), charges()
    yield
    after = contents()
    files.pop("spent.ledger"), after.pop("spent.ledger")
    assert after == files and charges() == charged


def contents() -> dict[str, bytes]:
    """Every file of the current folder."""
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("line", "words"), rows(HERE / "commands.txt"))
def test_a_mistake_in_a_command_gets_one_line(line: str, words: str) -> None:
    """The line begins with "Error:", names what is wrong, and ends a command that fails."""
    ran = labeldp(*whole(line))
    errors = [each for each in ran.err.splitlines() if each.startswith("Error: ")]
    said = errors or ran.out.splitlines()[:1]  # `certificate` prints its verdict
    assert ran.status != 0 and len(said) == 1 and words in said[0].replace(f"{Path.cwd()}/", ""), ran
    assert not errors or ran.err.endswith(f"{errors[0]}\n"), ran.err
    assert SECRET not in ran.out + ran.err and SECRET_NUMBER not in ran.out + ran.err


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the calls of the table name."""
    rng, domain, interval = ldp.SystemRandomness(), ldp.Classes(("no", "yes")), ldp.Interval(0, 80)
    made_up = np.random.default_rng(0)
    X = made_up.normal(size=(200, 3))
    labels, numbers = np.where(X[:, 0] > 0, "yes", "no"), 40 + 5 * X[:, 1]
    response = ldp.RandomizedResponse(domain=domain, epsilon=0.5)

    def experts() -> ldp.online.PrivateExperts:
        return ldp.online.PrivateExperts(3, 100, 1, rng=rng)

    def played() -> ldp.online.PrivateExperts:
        learner = experts()
        learner.predict()
        return learner

    return {
        **{each.__name__: each for each in (Ball, LinearRegression, LogisticRegression, StandardScaler, TableEncoder)},
        **{"SoftmaxLoss": UnitVectorLoss, "copy": copy, "ldp": ldp, "np": np, "pa": pa, "pickle": pickle},
        **{"rng": rng, "domain": domain, "interval": interval, "response": response, "X": X, "labels": labels},
        **{"numbers": numbers, "odd": np.where(X[:, 1] > 2, SECRET, labels), "texts": np.array([["a", "b"]] * 200)},
        "curator": ldp.Curator(labels, domain=domain, budget=ldp.Budget(1)),
        "of_numbers": ldp.Curator(numbers, domain=interval, budget=ldp.Budget(1)),
        "noisy": ldp.Curator(labels, domain=domain, budget=ldp.Budget(1)).release(response, rng=rng),
        "fitted": ldp.LabelDPClassifier(epsilon=1, classes=("no", "yes")).fit(X, labels),
        **{"experts": experts, "played": played},
    }


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("line", "words"), rows(HERE / "calls.txt"))
def test_a_mistake_in_a_call_gets_one_line(line: str, words: str, names: dict[str, Any]) -> None:
    """The error is one of labeldp, names the argument, and leaves the curator's budget as it was."""
    with pytest.raises(ldp.LabelDPError) as caught:
        eval(line, {**names, "file": ldp.LedgerFile("spent.ledger")})
    said = str(caught.value)
    assert words in said.replace(f"{Path.cwd()}/", "") and "\n" not in said, said
    assert SECRET not in said and SECRET_NUMBER not in said
    assert not names["curator"].ledger.charges
