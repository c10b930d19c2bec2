"""labeldp plan: the table, JSON, a file of public features, and what is refused."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran

EXAMPLE = "plan --n 1e6 --d 4 --task classification --classes 2 --epsilon 0.1,1,4 --trust local,central"
FILE = "plan people.csv --label bought --classes no,yes --epsilon 1"


def test_the_plan_of_the_example(labeldp: Callable[..., Ran]) -> None:
    ran = labeldp(*EXAMPLE.split())
    assert ran.status == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0] == "Classification, 2 classes, 4 features, n = 1,000,000"
    assert [line for line in lines if line.startswith("ε = ")] == ["ε = 0.1", "ε = 1", "ε = 4"]
    rows = [line.split() for line in lines if line.startswith(("  local  ", "  central  "))]
    assert [row[:2] for row in rows] == [["central", "label"], ["local", "label"]] * 6
    assert rows[5][2:] == ["8.84", "×", "0.11", "0.19"] and "cells: 1,474 of 678 records" in ran.out
    assert rows[7][2:] == ["+", "features", "81,015", "×"] and max(map(len, lines)) <= 80


def test_the_plan_is_json_too(labeldp: Callable[..., Ran]) -> None:
    ran = labeldp(*EXAMPLE.split(), "--json")
    found = json.loads(ran.out)
    assert found["question"]["records"] == 1_000_000 and found["question"]["epsilons"] == [0.1, 1.0, 4.0]
    assert len(found["rows"]) == 6 and found["rows"][2]["relative_records"] == pytest.approx(8.835, rel=1e-3)
    assert set(found["alternatives"][0]) == {"epsilon", "local label", "local full", "central label", "central full"}


def test_the_plan_of_a_file_reports_its_intrinsic_dimension(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp(*FILE.split(), "--id", "id")
    assert ran.status == 0, ran
    assert "people.csv: " in ran.out and "The features fill about" in ran.out
    found = json.loads(labeldp(*FILE.split(), "--id", "id", "--features", "age,hours", "--json").out)
    assert found["features"]["columns"] == ["age", "hours"] and 1 <= found["features"]["intrinsic_dimension"] <= 2
    assert found["question"]["dimension"] == 2
    assert not list(people.glob("*.ledger")), "a plan charges nothing"


@pytest.mark.parametrize(
    "words",
    [
        "--n 20640 --d 8 --range 0,500001 --epsilon 1 --protection label,full",
        "--n 1e5 --d 3 --moments 3 --epsilon 0.5,1",
        "--n 1 --d 1 --classes 2 --epsilon 1000",
        "--n 1e15 --d 200 --range -1,1 --epsilon 1e-6 --beta 0.3 --spread 0.01 --protection full",
    ],
)
def test_plans_of_all_tasks(labeldp: Callable[..., Ran], words: str) -> None:
    ran = labeldp("plan", *words.split())
    assert ran.status == 0 and "nan" not in ran.out and "inf" not in ran.out, ran
    assert labeldp("plan", *words.split(), "--json").status == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("plan --d 4 --classes 2 --epsilon 1", ("--n is missing", "file")),
        ("plan --n 1e6 --d 4 --epsilon 1", ("--classes", "--range", "--moments")),
        ("plan --n 1e6 --d 4 --task regression --epsilon 1", ("--task regression needs --range LOW,HIGH",)),
        ("plan --n 1e6 --d 4 --moments inf --epsilon 1", ("--moments must be finite", "--range")),
        ("plan --n 1e6 --d 4 --range -1e308,1e308 --epsilon 1", ("--range must hold finite numbers of ordinary size",)),
        ("plan --n 1e6 --d 4 --classes 2 --epsilon 0", ("epsilon must be positive",)),
        ("plan --n 1e6 --d 4 --classes 2 --epsilon 1 --trust me", ("--trust must hold local or central",)),
        ("plan --n 1e6 --d 4 --classes 2 --epsilon 1 --id id", ("--id goes with a FILE",)),
        (f"{FILE} --protection label,full", ("--protection full keeps features private", "--n and --d")),
        ("plan people.csv --classes 2 --epsilon 1", ("--label must name the private column",)),
        ("plan people.csv --label bougth --classes 2 --epsilon 1", ("bougth", "bought")),
        ("plan nobody.csv --label y --classes 2 --epsilon 1", ("no such file", "nobody.csv")),
    ],
)
def test_a_wrong_plan_gets_one_line(labeldp: Callable[..., Ran], command: str, words: tuple[str, ...]) -> None:
    ran = labeldp(*command.split())
    assert ran.status == 1 and ran.err.count("\n") == 1 and ran.out == "", ran
    assert all(word in ran.err for word in words), ran.err


EFFECT = "plan --effect 0.02 --rate 0.05 --power 0.8 --epsilon 0.5,1,2"


def test_the_records_of_an_experiment(labeldp: Callable[..., Ran]) -> None:
    ran = labeldp(*EFFECT.split())
    assert ran.status == 0 and ran.err == "", ran
    rows = [line.split() for line in ran.out.splitlines() if line.startswith(("none", "0.5 ", "1 ", "2 "))]
    assert rows[0][1] == "4,419" and [row[:2] for row in rows[1:3]] == [["0.5", "central"], ["0.5", "local"]]
    assert ["1", "local", "76,682", "17", "×"] in rows
    found = json.loads(labeldp(*EFFECT.split(), "--json").out)
    assert found[0]["records"] == 4419 and found[4]["trust"] == "local"
    saved = json.loads(labeldp(*EFFECT.split(), "--r-squared", "0.5", "--json").out)
    assert saved[0]["records"] == pytest.approx(4419 / 2, rel=0.01)
    assert saved[2]["records"] > 0.9 * found[2]["records"], "noise is not explained by covariates"


def test_the_smallest_effect_and_the_power_of_records(labeldp: Callable[..., Ran]) -> None:
    ran = labeldp(*["plan", "--rate", "0.05", "--n", "76682", "--epsilon", "1"])
    assert ran.status == 0 and "Effects on a share of 0.05 that 76,682 records show" in ran.out, ran
    assert ["1", "local", "0.02", "4.44", "×"] in [line.split() for line in ran.out.splitlines()]
    ran = labeldp(*["plan", "--rate", "0.05", "--effect", "0.02", "--n", "76682", "--epsilon", "1", "--treated", "0.2"])
    assert "Probability that 76,682 records show an effect of 0.02 on a share of 0.05 at a level of 5 %" in ran.out
    assert ["1", "local", "61", "%", "0.61", "×"] in [line.split() for line in ran.out.splitlines()]
    numbers = "plan --rate 40 --effect 2 --spread 12 --range 0,100 --epsilon 3 --per-user 4 --correlation 0.5 --json"
    rows = json.loads(labeldp(*numbers.split()).out)
    assert [row["trust"] for row in rows] == ["none", "local"], "sums do not tell whose records they are of"
    assert rows[0]["records"] == pytest.approx(2.5 * 4 * 144 * 7.849 / 4, rel=0.01)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("plan --effect 0.02 --epsilon 1", "--rate must be given with --effect"),
        (f"{EFFECT} --d 4", "--d does not go with --rate"),
        (f"{EFFECT} --range 0,1", "--spread must be given for numbers"),
        ("plan --rate 0.1 --epsilon 1", "--effect must be given with --rate, or --n"),
        ("plan --rate 0.1 --n 50 --epsilon 0.5", "--n must be more: no increase is shown with this probability at eps"),
        (
            "plan --rate 40 --effect 2 --range 0,100 --spread 60 --epsilon 1",
            "--spread must be positive, and at most 48.99",
        ),
        ("plan --n 1e6 --d 4 --classes 2 --epsilon 1 --treated 0.1", "--treated goes with --rate"),
        ("plan --effect 0.02 --rate 1.2 --epsilon 1", "--rate must lie between 0 and 1, with the effect"),
        ("plan --effect 0.02 --rate 0.2 --epsilon 0", "--epsilon must be positive"),
        ("plan --effect 0.02 --rate 0.2 --power 1 --epsilon 1", "--power must lie between the level of the test and 1"),
    ],
)
def test_a_wrong_experiment_gets_one_line(labeldp: Callable[..., Ran], command: str, sentence: str) -> None:
    ran = labeldp(*command.split())
    assert ran.status == 1 and ran.err.count("\n") == 1 and ran.out == "" and sentence in ran.err, ran


COSTS = "true,no,maybe,yes\nno,0,1,2\nmaybe,1,0,1\nyes,6,2,0\n"


def test_the_expected_cost_of_an_answer(labeldp: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text(COSTS)
    asked = ["plan", "--loss", str(tmp_path / "costs.csv"), "--prior", "0.6,0.3,0.1", "--epsilon", "0.5,2,6"]
    rows = json.loads(labeldp(*asked, "--json").out)
    for row in rows:
        assert row["optimal"] <= min(row["constant"], row["response"], row["hashing"]) * (1 + 1e-9)
        assert row["gap"] <= 1e-6
    assert rows[0]["constant"] == pytest.approx(0.8) and rows[0]["optimal"] > rows[2]["optimal"]
    ran = labeldp(*asked)
    assert ran.status == 0 and "no 0.6, maybe 0.3, yes 0.1" in ran.out and "local hashing" in ran.out
    (tmp_path / "costs.csv").write_text("true,yes,no\nyes,0,1\nno,1,0\n")
    [row] = json.loads(labeldp("plan", "--loss", str(tmp_path / "costs.csv"), "--epsilon", "1", "--json").out)
    assert row["known_as"] == "randomized response" and row["optimal"] == pytest.approx(1 / (1 + math.e))
    assert row["response"] == pytest.approx(row["optimal"]) == row["hashing"]


@pytest.mark.parametrize(
    ("content", "more", "sentence"),
    [
        ("true,no\nno,0\nyes,1\n", [], "must have the true labels in its first column"),
        ("true,no,yes\nno,0,a\nyes,1,0\n", [], "must hold numbers"),
        (COSTS, ["--prior", "0.5,0.5"], "--prior must hold 3 shares that sum to 1"),
        (COSTS, ["--prior", "0.5,0.4,0.5"], "--prior must hold 3 shares"),
        (COSTS, ["--classes", "no,yes"], "--classes does not go with --loss"),
        (COSTS, ["--epsilon", "0"], "--epsilon must be positive"),
    ],
)
def test_wrong_costs_get_one_line(
    labeldp: Callable[..., Ran], tmp_path: Path, content: str, more: list[str], sentence: str
) -> None:
    (tmp_path / "costs.csv").write_text(content)
    ran = labeldp("plan", "--loss", str(tmp_path / "costs.csv"), "--epsilon", "1", *more)
    assert ran.status == 1 and ran.err.count("\n") == 1 and ran.out == "" and sentence in ran.err, ran


def test_help_has_examples(labeldp: Callable[..., Ran]) -> None:
    assert "labeldp plan --n 1e6 --d 4" in labeldp("plan", "--help").out
