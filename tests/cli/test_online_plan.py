"""labeldp online plan: the plan in words and as JSON, its warnings, and what is refused."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran
from labeldp.cli_online import EXAMPLES
from labeldp.online import METHODS, plan_experts

Run = Callable[..., Ran]


def plan(labeldp: Run, words: str) -> Ran:
    return labeldp("online", "plan", *words.split())


def test_the_main_question(labeldp: Run, people: Path) -> None:
    ran = plan(labeldp, "--horizon 100000 --experts 1000 --epsilon 1 --delta 1e-6")
    assert ran.status == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0] == (
        "1,000 experts, 100,000 rounds, epsilon = 1 and delta = 1e-06, where one round's loss function is replaced."
    )
    assert lines[2].startswith("Method: dartboard, batches of B = 3 rounds, rate eta = 0.00581")
    assert "Expected regret: at most 1,406, for any losses. Without privacy: at most 588." in lines
    table = lines[lines.index(next(line for line in lines if line.startswith("method "))) + 1 :]
    assert [line.split()[0] for line in table[:8]] == [
        *("dartboard", "shrinking-dartboard", "l2p", "doubling", "better-of-two", "matrix-factorization", "redraw"),
        "tree",
    ]
    assert "its regret can grow as fast as the number of rounds" in " ".join(lines)
    assert "can add 393 at worst; with --loss-bits 16, 1.53" in " ".join(lines)
    assert "says nothing" not in ran.out
    assert not list(people.glob("*.ledger")), "nothing is charged"


def test_json(labeldp: Run) -> None:
    found = json.loads(plan(labeldp, "--horizon 1e5 --experts 1e3 --epsilon 1 --delta 1e-6 --json").out)
    assert found == json.loads(json.dumps(plan_experts(1000, 10**5, 1, 1e-6).to_json()))
    assert found["method"] == "dartboard" and found["B"] == 3 and found["regret_bound"] < 1406
    assert {"eta", "p", "alternatives", "nonprivate_bound"} <= set(found)


def test_noise_and_epochs_in_words(labeldp: Run) -> None:
    ran = plan(labeldp, "--horizon 1e5 --experts 30 --epsilon 1 --neighbors zero-out --loss-bits 16")
    assert "Method: matrix-factorization, rate eta = 0.0" in ran.out and "noise of standard deviation" in ran.out
    assert "is replaced by zero." in ran.out and "Losses are counted" not in ran.out
    ran = plan(labeldp, "--horizon 1e5 --experts 100 --epsilon 1 --delta 0 --method doubling")
    assert "Method: doubling, rate eta = 0.5: one draw for each of 1, 2, 4, … rounds." in ran.out


def test_bounds_that_say_little_or_nothing(labeldp: Run) -> None:
    ran = plan(labeldp, "--horizon 100 --experts 1e6 --epsilon 0.1")
    assert "Expected regret: at most 100, for any losses." in ran.out
    assert "This bound says nothing: nobody loses more than 100 in 100 rounds." in " ".join(ran.out.split())
    ran = plan(labeldp, "--horizon 1e4 --experts 100 --epsilon 0.1")
    assert "% of the largest loss that is possible" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--horizon 1e5 --experts 1.5 --epsilon 1", "--experts must be a whole number from 2 to 10^9, such as 1e5"),
        ("--horizon 1e5 --experts 1 --epsilon 1", "--experts must be a whole number from 2 to 10^9, such as 1e5"),
        ("--horizon 0 --experts 10 --epsilon 1", "--horizon must be a whole number from 1 to 10^12, such as 1e5"),
        ("--horizon many --experts 10 --epsilon 1", "--horizon must be a whole number from 1 to 10^12, such as 1e5"),
        ("--horizon 1e30 --experts 10 --epsilon 1", "--horizon must be a whole number from 1 to 10^12, such as 1e5"),
        ("--horizon 1e5 --experts 1e30 --epsilon 1", "--experts must be a whole number from 2 to 10^9, such as 1e5"),
        ("--horizon 1e5 --experts 10 --epsilon 0", "--epsilon must be positive, such as --epsilon 1.0"),
        ("--horizon 1e5 --experts 10 --epsilon x", "--epsilon must be a number, such as 1.0"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --delta x", "--delta must be a number, such as 1e-6"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --delta 2", "--delta must lie in [1e-200, 1), or be 0 for the method"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --delta 0", "--delta must be positive, such as 1e-6"),
        ("--horizon 1e5 --experts 10 --epsilon 1 --method best", "--method must be one of: auto, dartboard"),
    ],
)
def test_what_is_refused(labeldp: Run, words: str, message: str) -> None:
    ran = plan(labeldp, words)
    assert ran.status == 1 and ran.out == "" and ran.err.startswith(f"Error: {message}") and ran.err.count("\n") == 1


def test_the_examples_of_the_help_run(labeldp: Run) -> None:
    for line in EXAMPLES.splitlines():
        if line.startswith("  labeldp "):
            assert labeldp(*shlex.split(line)[1:]).status == 0, line


@pytest.mark.parametrize("command", ["plan", "run"])
def test_help_names_every_method(labeldp: Run, command: str) -> None:
    shown = "".join(labeldp("online", command, "--help").out.split())
    assert all(method in shown for method in METHODS)
