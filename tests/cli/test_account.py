"""labeldp account: the numbers of both commands, their inverses, JSON, and what is refused."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran
from labeldp.cli.account import LBA_EXAMPLES, LLP_EXAMPLES

Run = Callable[..., Ran]
PAPER = "--size 256 --noisy-fraction 0.1 --stddev 1 --range 0,253.78 --weights gaussian --noisy-set fixed"
UNIT = "--stddev 1 --range -1,1"


def llp(labeldp: Run, words: str) -> Ran:
    return labeldp("account", "llp", *words.split())


def test_the_delta_of_the_published_setting(labeldp: Run, people: Path) -> None:
    ran = llp(labeldp, f"{PAPER} --epsilon 1")
    assert ran.status == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0] == "delta = 0.965924 at epsilon = 1"
    assert "gaussian weights" in ran.out and "a share of 0.1 of all labels" in ran.out
    assert lines[-1] == "The limit of infinitely many records, for no certificate; --n gives the exact law of so many."
    assert not list(people.glob("*.ledger")), "nothing is charged"


def test_the_exact_law_of_so_many_records(labeldp: Run) -> None:
    limit, exact = (json.loads(llp(labeldp, f"{PAPER} --epsilon 1 --json {n}").out) for n in ("", "--n 1e4"))
    assert limit["law"] == "binomial limit" and exact["law"] == "exact" and exact["records"] == 10_000
    assert limit["delta"] == pytest.approx(exact["delta"], rel=1e-4) and limit["delta"] != exact["delta"]
    assert 0 < exact["delta"] - exact["delta_lower"] < 1e-9
    assert "limit" not in llp(labeldp, f"{PAPER} --epsilon 1 --n 1e4").out


def test_signs_and_strata_are_the_default(labeldp: Run) -> None:
    ran = llp(labeldp, f"--size 72 {UNIT} --epsilon 1")
    assert ran.out.startswith("delta = 9.16064e-07 at epsilon = 1\n")
    assert ran.out.splitlines()[-1] == "A Gaussian loss with mu = 0.235703."


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (f"--solve-for size {UNIT}", "size = 72 "),
        (f"--solve-for size --weights gaussian --noisy-set fixed {UNIT}", "size = 385 "),
        (f"--solve-for size --weights gaussian --noisy-set fixed --noisy-fraction 0.1 {UNIT}", "size = 3975 "),
        ("--solve-for stddev --size 72 --range -1,1", "stddev = 0.995767 "),
        (f"--solve-for noisy-fraction --size 144 {UNIT}", "noisy-fraction = 0.5 "),
    ],
)
def test_what_keeps_a_promise(labeldp: Run, words: str, answer: str) -> None:
    ran = llp(labeldp, f"{words} --epsilon 1 --delta 1e-6")
    assert ran.status == 0, ran
    assert ran.out.splitlines()[0] == f"{answer}is the smallest that keeps epsilon = 1 and delta = 1e-6."


def test_what_is_printed_keeps_the_promise_too(labeldp: Run) -> None:
    """Printed digits are rounded upwards."""
    found = llp(labeldp, "--solve-for stddev --size 60 --range 0,5 --epsilon 1 --delta 1e-6 --noisy-fraction 0.3").out
    stddev = found.split()[2]
    again = llp(labeldp, f"--stddev {stddev} --size 60 --range 0,5 --epsilon 1 --noisy-fraction 0.3 --json")
    assert 0.999e-6 < json.loads(again.out)["delta"] <= 1e-6


def test_epsilons(labeldp: Run) -> None:
    assert llp(labeldp, f"{PAPER} --delta 1e-5").out.startswith("epsilon = 53890.4 at delta = 1e-5\n")
    ran = llp(labeldp, f"{PAPER} --delta 1e-15")
    assert ran.out.startswith("No finite epsilon keeps delta = 1e-15\n")
    assert json.loads(llp(labeldp, f"{PAPER} --delta 1e-15 --json").out)["epsilon"] is None


def lba(labeldp: Run, words: str) -> Ran:
    return labeldp("account", "lba", *words.split())


def test_hidden_weights(labeldp: Run) -> None:
    bags = "--size 16384 --leverage 0.00091552734375 --range -1,1"
    ran = lba(labeldp, f"{bags} --solve-for residual --epsilon 1 --delta 1e-6")
    assert ran.out.startswith("residual = 143.165 is the smallest that keeps epsilon = 1 and delta = 1e-6.\n")
    assert "is never below 143.165;" in ran.out and "without a condition, with noise of variance 143.165" in ran.out
    found = json.loads(lba(labeldp, f"{bags} --residual 143.165 --epsilon 1 --json").out)
    assert 0.999e-6 < found["delta"] <= 1e-6 and found["rows"] == 1
    ran = lba(labeldp, f"{bags} --residual 143.165 --delta 1e-6")
    assert float(ran.out.split()[2]) == pytest.approx(1.0, abs=1e-4)


def test_a_floor_that_no_labels_have_is_no_condition(labeldp: Run) -> None:
    """Ten labels in [-1, 1] have a squared residual of at most 10."""
    ran = lba(labeldp, "--size 10 --leverage 0.1 --residual 10 --range -1,1 --delta 1e-6")
    assert "On condition that" in ran.out and "without a condition, with noise of variance 10 " in ran.out
    ran = lba(labeldp, "--size 10 --leverage 0.1 --residual 10.1 --range -1,1 --delta 1e-6")
    assert "ondition" not in ran.out and "With noise of variance 10.1 on each released sum" in ran.out
    ran = lba(labeldp, "--leverage 0.1 --cross 1 --residual 10.1 --range -1,1 --delta 1e-6")
    assert "On condition that" in ran.out, "without a size nobody knows"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--size 256 --noisy-fraction 0.1", "on 25 of 256 labels of each bag, a share of 0.1 rounded down.\nA "),
        ("--size 256", "on 256 of 256 labels of each bag.\n"),
        ("--size 256 --noisy-fraction 0.1 --noisy-set fixed", "on a share of 0.1 of all labels.\nThe limit"),
        ("--size 256 --noisy-fraction 0.1 --noisy-set fixed --n 1e4",
         "on 1000 of 10000 labels.\nThe exact law of 10000 labels"),
    ],
)  # fmt: skip
def test_how_many_labels_are_noisy(labeldp: Run, words: str, sentence: str) -> None:
    assert sentence in llp(labeldp, f"{words} --stddev 1 --range 0,9 --epsilon 1").out


def test_the_examples_of_the_help_run(labeldp: Run) -> None:
    for text in (LLP_EXAMPLES, LBA_EXAMPLES):
        commands = text.replace("\\\n", " ").split("Examples:")[1].strip().splitlines()
        assert len(commands) >= 3
        for command in commands:
            ran = labeldp(*shlex.split(command)[1:])
            assert ran.status == 0 and ran.err == "", ran
    assert "account llp --size 72" in labeldp("account", "llp", "--help").out


WRONG = [
    ("llp --size 5 --stddev 1 --range -1,1", "--epsilon prints the delta, --delta the epsilon: give one of them"),
    ("llp --size 5 --stddev 1 --range -1,1 --epsilon 1 --delta 1e-6", "give one of them, or --solve-for"),
    ("llp --size 5 --range -1,1 --epsilon 1", "--stddev must be given"),
    ("llp --stddev 5 --range -1,1 --epsilon 1", "--size must be given"),
    ("llp --size 5 --stddev 1 --range -1 --epsilon 1", "--range must be two numbers"),
    ("llp --size 5 --stddev 1 --range 1,-1 --epsilon 1", "--range must have its lowest label first"),
    ("llp --size 5.5 --stddev 1 --range -1,1 --epsilon 1", "--size must be a whole number"),
    ("llp --size many --stddev 1 --range -1,1 --epsilon 1", "--size must be a number"),
    ("llp --size 5 --stddev 1 --range -1,1 --epsilon -1", "--epsilon must lie in [0, 1000000]"),
    ("llp --size 5 --stddev 1 --range -1,1 --epsilon one", "epsilon must be a number"),
    ("llp --size 5 --stddev 1 --range -1,1 --delta 2", "delta must lie in (0, 1)"),
    ("llp --size 5 --stddev 1 --range -1,1 --epsilon 1 --weights x", "weights must be one of"),
    ("llp --size 5 --stddev 1 --range -1,1 --epsilon 1 --n 100", "--n is for --noisy-set fixed"),
    ("llp --size 5 --stddev 1 --range -1,1 --epsilon 1 --noisy-fraction 0.1", "take a larger size or --noisy-fraction"),
    ("llp --solve-for bags --stddev 1 --range -1,1 --epsilon 1 --delta 1e-6", "--solve-for must be one of"),
    ("llp --solve-for size --stddev 1 --range -1,1 --epsilon 1", "--solve-for needs --epsilon and --delta"),
    ("llp --solve-for size --size 4 --stddev 1 --range -1,1 --epsilon 1 --delta 1e-6", "leave it out"),
    ("llp --solve-for noisy-fraction --size 4 --stddev 1 --range -1,1 --epsilon 1 --delta 1e-6", "cannot keep"),
    ("lba --leverage 0.1 --residual 9 --range 0,1 --epsilon 1", "--cross must be given, or --size"),
    ("lba --leverage 0.1 --size 9 --range 0,1 --epsilon 1", "--residual must be given"),
    ("lba --leverage 2 --size 9 --residual 3 --range 0,1 --epsilon 1", "--leverage must lie in [0, 1]"),
    ("lba --leverage 0.1 --size 9 --residual 0 --range 0,1 --epsilon 1", "--residual must be positive"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG)
def test_a_mistake_gets_one_line(labeldp: Run, words: str, sentence: str) -> None:
    ran = labeldp("account", *words.split())
    assert ran.status == 1 and ran.out == "" and ran.err.count("\n") == 1, ran
    assert sentence in ran.err
