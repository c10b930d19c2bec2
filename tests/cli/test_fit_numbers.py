"""Numbers as private labels, and models of cells and neighbors: from a file to predictions and a report."""

import csv
import html
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli.conftest import DONE, PUBLIC, Ran, account
from cli.test_fit_again import KILLED, steps
from cli.test_refusals import refused
from labeldp.curator import LedgerFile
from labeldp.fit import FitSummary, simulate
from labeldp.learners import released
from slow import mostly_slow

LABELS = ("--label", "price", "--range", "0,100", *account("people", "8"), "--id", "id")
FIT = ("fit", "homes.csv", *LABELS, "--epsilon", "8", "--out", "model")
CENTRAL = ("--trust", "central", "--model", "linear")
PEOPLE = ("--label", "bought", "--classes", "no,yes", *account("people", "8"), "--id", "id")


def homes(rows: int, seed: int) -> pd.DataFrame:
    """Prices from 0 to 100 that depend on size, age and town; some ages are missing."""
    rng = np.random.default_rng(seed)
    size, age = rng.uniform(20, 120, rows).round(1), rng.integers(0, 90, rows).astype(float)
    town = rng.choice(["harbor", "hill", "mill"], rows)
    price = 20 + 0.5 * size - 0.2 * age + 15 * (town == "harbor") + rng.normal(0, 4, rows)
    age[rng.random(rows) < 0.05] = np.nan
    ids = np.arange(10_000 * seed, 10_000 * seed + rows)
    return pd.DataFrame({"id": ids, "size": size, "age": age, "town": town, "price": np.clip(price, 0, 100)})


@pytest.fixture
def folder(labeldp: Callable[..., Ran], people: Path) -> Path:
    """The folder in which commands run, with homes.csv, public_homes.csv and new_homes.csv."""
    homes(800, seed=1).to_csv(people / "homes.csv", index=False)
    homes(300, seed=2).to_csv(people / "public_homes.csv", index=False)
    homes(40, seed=3).drop(columns="price").to_csv(people / "new_homes.csv", index=False)
    return people


def summary(folder: Path, out: str = "model") -> Any:
    return json.loads((folder / out / "summary.json").read_text())


def report(folder: Path) -> str:
    """The report's words."""
    text = re.sub(r"<style>.*?</style>", "", (folder / "model" / "report.html").read_text(), flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_one_command_makes_a_model_of_numbers(labeldp: Callable[..., Ran], folder: Path) -> None:
    done = labeldp(*FIT, "--test", "public_homes.csv", PUBLIC)
    assert done.status == 0, done.err
    assert "ε = 8, δ = 0" in done.out
    assert "one noisy number per record (discrete Laplace noise" in labeldp("certificate", "model").out
    assert "(public_homes.csv)" in " ".join(done.out.split()) and "Accuracy" not in done.out
    found = summary(folder)
    numbers, test = found["numbers"], found["numbers"]["test"]
    assert test["error"] < 0.75 * np.std(homes(300, seed=2)["price"]) and test["absolute"] < test["error"]
    assert numbers["error"]["low"] <= 2 * test["error"] and numbers["error"]["high"] > 0
    true = np.var(homes(300, seed=2)["price"]) - test["error"] ** 2
    assert numbers["gain"]["low"] - 30 < true < numbers["gain"]["high"] + 30
    assert found["classes"] == [] and found["accuracy"] is None
    stages = [(stage["name"], stage["records"]) for stage in found["stages"]]
    parts = [("range", 144), ("distances", 73), ("round 1", 201), ("round 2", 302), ("evaluation", 80)]
    assert stages == parts
    assert found["model"].endswith("learned from one release of noisy labels")  # which model, the noise decides
    assert found["command"].startswith("labeldp fit homes.csv --label price --range 0,100 --grid 1025 --epsilon 8")
    assert "--model auto" in found["command"]
    assert labeldp("certificate", "model").status == 0
    assert labeldp("predict", "model", "new_homes.csv", "--out", "p.csv", "--id", "id").status == 0
    rows = list(csv.DictReader((folder / "p.csv").read_text().splitlines()))
    assert list(rows[0]) == ["id", "prediction"] and len(rows) == 40
    assert all(0 <= float(row["prediction"]) <= 100 for row in rows)


@pytest.mark.slow
def test_the_report_of_numbers_speaks_of_errors(labeldp: Callable[..., Ran], folder: Path) -> None:
    assert labeldp(*FIT, "--test", "public_homes.csv", PUBLIC, "--diagnostics").status == 0
    text, found = report(folder), summary(folder)
    assert "a number from 0 to 100" in text and "RMSE on a public test file" in text and "Mean baseline:" in text
    assert "Mean of noisy label minus prediction" in text and "Rise of the mean squared error" in text
    assert "Others answer around predictions, with less noise." in text
    assert not re.search(r"[Aa]ccurac|[Cc]lass\b|[Cc]lasses|[Cc]onfus|None", text)
    bins = found["numbers"]["residuals"]
    assert sum(each["records"] for each in bins) == 80 and all(each["low"] <= each["value"] for each in bins)
    assert {item["feature"] for item in found["importance"]} == {"size", "age", "town"}
    assert FitSummary.from_json(found).numbers is not None


@pytest.mark.slow
def test_all_models_of_numbers_share_one_release_and_the_same_fit_again_costs_nothing(
    labeldp: Callable[..., Ran], folder: Path
) -> None:
    first = labeldp(*FIT, "--model", "cells")
    assert first.status == 0, first.err
    charged = steps(folder)
    assert [step for step, _ in charged] == ["range", "distances", "round 1", "round 2", "evaluation"]
    files = {path.name: path.read_bytes() for path in (folder / "model").iterdir()}
    again = labeldp(*FIT, "--model", "cells")
    assert (again.status, again.out, again.err) == (0, first.out, DONE)
    assert {path.name: path.read_bytes() for path in (folder / "model").iterdir()} == files
    pd.read_csv(folder / "homes.csv").sample(frac=1, random_state=0).to_csv(folder / "homes.csv", index=False)
    for model in ("neighbors", "boosting"):
        done = labeldp(*FIT[:-1], model, "--model", model)
        assert done.status == 0, done.err
        assert labeldp("predict", model, "new_homes.csv", "--out", f"{model}.csv", "--id", "id").status == 0
        assert summary(folder, model)["numbers"]["gain"]["high"] > 0
    assert steps(folder) == charged
    assert LedgerFile(folder / "l.ledger").dataset("people").spent.epsilon() == 8


@pytest.mark.slow
def test_a_killed_fit_is_finished_by_the_same_command_with_the_same_charges(
    labeldp: Callable[..., Ran], folder: Path
) -> None:
    cells = ("--trust", "central", "--model", "cells")
    for options, names in [
        ((), ["range", "distances", "round 1", "round 2", "evaluation"]),
        (cells, ["cells", "errors", "errors of the mean"]),
    ]:
        (folder / "l.ledger").unlink(missing_ok=True)
        fit = (*FIT[:-1], f"model_of_{names[0]}", *options)
        command = [sys.executable, "-c", KILLED, "between stages", *fit]
        killed = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        charged = steps(folder)
        assert [step for step, _ in charged] == names[:1] and not (folder / fit[-1]).exists()
        assert labeldp(*fit).status == 0
        assert steps(folder)[:1] == charged and [step for step, _ in steps(folder)] == names


def test_a_linear_model_of_numbers_is_central(labeldp: Callable[..., Ran], folder: Path) -> None:
    done = labeldp(*FIT, *CENTRAL, "--delta", "1e-6", "--test", "public_homes.csv", PUBLIC)
    assert done.status == 0, done.err
    assert "a trusted curator sees the labels" in labeldp("certificate", "model").out
    found = summary(folder)
    assert [(stage["name"], stage["records"]) for stage in found["stages"]] == [
        ("pilot", 720),
        ("distances", 720),
        ("linear", 720),
        ("errors", 80),
        ("errors of the mean", 80),
    ]
    assert found["numbers"]["test"]["error"] < 0.75 * np.std(homes(300, seed=2)["price"])
    assert found["numbers"]["error"]["low"] < 2 * found["numbers"]["test"]["error"]
    assert found["numbers"]["error"]["high"] < 4 * found["numbers"]["test"]["error"]
    assert found["numbers"]["gain"]["high"] > 0 and not found["numbers"]["residuals"] and not found["importance"]
    assert "Gaussian noise was added to every sum" in report(folder)
    assert "no value of a single record was released" in report(folder)
    assert labeldp("predict", "model", "new_homes.csv", "--out", "p.csv").status == 0


@pytest.mark.usefixtures("curves")
def test_cells_of_numbers_and_of_classes_are_central_too(labeldp: Callable[..., Ran], folder: Path) -> None:
    cells = ("--trust", "central", "--model", "cells")
    done = labeldp(*FIT, *cells, "--test", "public_homes.csv", PUBLIC)
    assert done.status == 0, done.err
    found = summary(folder)
    assert [(stage["name"], stage["records"]) for stage in found["stages"]] == [
        ("cells", 720),
        ("errors", 80),
        ("errors of the mean", 80),
    ]
    assert "(discrete Laplace noise, scale" in labeldp("certificate", "model").out
    assert "small cells of similar records" in found["model"]
    assert found["numbers"]["test"]["error"] < 0.75 * np.std(homes(300, seed=2)["price"])
    assert "noise of scale 12.50, in the unit of the labels, was added to the sum of each cell" in report(folder)
    charged, again = steps(folder), labeldp(*FIT, *cells, "--test", "public_homes.csv", PUBLIC)
    assert (again.status, again.out) == (0, done.out) and steps(folder) == charged
    assert labeldp("predict", "model", "new_homes.csv", "--out", "p.csv").status == 0
    (folder / "l.ledger").unlink()
    done = labeldp(
        *("fit", "people.csv", *PEOPLE, "--epsilon", "2", *cells, "--test", "public.csv", PUBLIC, "--out", "classes"),
        "--diagnostics",
    )
    assert done.status == 0, done.err
    found = summary(folder, "classes")
    assert found["test"]["accuracy"] > 0.7 and found["curve"] is None
    assert LedgerFile(folder / "l.ledger").dataset("people").spent.epsilon() == 2
    assert labeldp("predict", "classes", "new_people.csv", "--out", "c.csv").status == 0


@pytest.mark.slow
def test_numbers_outside_are_refused_or_clipped_as_asked(labeldp: Callable[..., Ran], folder: Path) -> None:
    table = homes(800, seed=1)
    table.loc[7, "price"] = 54321.5
    table.to_csv(folder / "homes.csv", index=False)
    ran = labeldp(*FIT)
    assert ran.status == 1 and "Some labels are missing or not numbers from" in ran.err
    assert "To count numbers outside as the nearest end, use --clip." in ran.err and not (folder / "model").exists()
    assert "54321" not in ran.err
    done = labeldp(*FIT, "--clip")
    assert done.status == 0, done.err
    assert "--clip" in summary(folder)["command"] and "Labels are clipped to the range" in report(folder)
    assert "labels outside of the range count as its ends" in summary(folder)["numbers"]["error"]["method"]
    assert labeldp(*FIT[:-1], "other").status == 1


@pytest.mark.parametrize("label", ["town", pytest.param("age", marks=pytest.mark.slow)])
def test_labels_that_are_missing_or_no_numbers_are_refused_alike(
    labeldp: Callable[..., Ran], folder: Path, label: str
) -> None:
    options = (*account("homes"), "--epsilon", "1", "--out", "model", "--range", "0,100")
    ran = labeldp("fit", "homes.csv", "--label", label, *options)
    assert (
        ran.status == 1
        and "Some labels are missing or not numbers from 0 to 100." in ran.err
        and not (folder / "model").exists()
    )
    assert "ε 0 of" in labeldp("ledger", "show", "l.ledger").out


CASES = [
    ((), "declare the labels' domain by --classes no,yes or by --range LOW,HIGH"),
    (("--range", "0,100", "--classes", "2"), "declare the labels' domain"),
    (("--range", "0"), "--range must hold two numbers"),
    (("--range", "0,100,200"), "--range must hold two numbers"),
    (("--range", "low,high"), "--range must hold two numbers"),
    (("--range", "100,0"), "the lower one first"),
    (("--range", "5,5"), "the lower one first"),
    (("--range", "0,inf"), "finite"),
    (("--range", "nan,100"), "--range"),
    (("--range", "0,100", "--grid", "1"), "grid must be an integer number of points from 2"),
    (("--range", "0,100", "--grid", "100000000"), "grid"),
    (("--range", "0,100", "--model", "linear"), "--model linear goes with --trust central"),
    (("--range", "0,100", "--model", "neighbors", "--trust", "central"), "--model neighbors goes with --trust local"),
    (("--range", "0,100", "--model", "cells", "--trust", "central", "--delta", "1e-6"), "--delta does not go with"),
    (("--range", "0,100", "--model", "cells", "--trust", "central", "--stages", "2"), "--stages does not go with"),
    (("--range", "0,100", "--delta", "1e-6"), "--delta goes with --trust central"),
    (("--range", "0,100", "--stages", "2"), "--stages"),
    (("--range", "0,100", "--prior", "clusters"), "--prior"),
    (("--range", "0,100", "--epsilon", "1e-30"), "--epsilon = 1e-30 is too small"),
    (("--range", "0,100", "--features", "town", "--label", "town"), "must not hold the label column"),
    (("--classes", "2", "--clip"), "--clip goes with --range"),
    (("--range", "0,100", "--cells", "20"), "--cells goes with --model cells"),
    (("--range", "0,100", "--model", "cells", "--neighbors", "20"), "--neighbors goes with --model neighbors"),
    (("--range", "0,100", "--model", "neighbors", "--neighbors", "401"), "--neighbors must be at most 400, half of"),
    (("--range", "0,100", "--model", "cells", "--cells", "401"), "--cells must be at most 400, half of the number"),
    (("--range", "0,100", "--trust", "central", "--cells", "401"), "--cells must be at most 400, half of the number"),
]


@pytest.mark.parametrize(("options", "words"), CASES)
def test_what_does_not_go_together_is_refused(
    labeldp: Callable[..., Ran], folder: Path, options: tuple[str, ...], words: str
) -> None:
    """One clear error; nothing is charged and nothing is written."""
    base = ("--label", "price", *account("homes"), "--epsilon", "1", "--out", "model")
    refused(labeldp("fit", "homes.csv", *base, *options), folder, words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "cells", "--cells", "16"), "means over 16 cells"),
        (("--model", "cells", "--cells", "16", "--trust", "central"), "one noisy sum for each of 16 cells"),
        (("--model", "neighbors", "--neighbors", "50"), "means over the 50 nearest records"),
    ],
)
def test_the_sizes_of_a_plan_can_be_given(
    labeldp: Callable[..., Ran], folder: Path, options: tuple[str, ...], words: str
) -> None:
    """Nothing is chosen, the command of the report has the size, and another size is another fit."""
    assert labeldp(*FIT, *options).status == 0
    found = summary(folder)
    assert found["model"].startswith(words) and " ".join(options[2:4]) in found["command"]
    assert "which flatters it" not in found["numbers"]["error"]["method"]
    other = labeldp(*FIT, *options[:3], "8", *options[4:])
    assert other.status == 1 and "not empty" in other.err


@pytest.mark.slow
def test_few_records_have_their_features_shuffled_where_each_is_looked_up(
    labeldp: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "MAX_SHUFFLED", 60)
    assert labeldp(*FIT, "--model", "neighbors", "--diagnostics").status == 0
    assert {each["feature"] for each in summary(folder)["importance"]} == {"size", "age", "town"}


def test_an_evaluation_says_when_its_labels_chose_the_model(labeldp: Callable[..., Ran], folder: Path) -> None:
    fit = ("fit", "people.csv", *PEOPLE, "--epsilon", "4", "--model", "neighbors", "--out", "model")
    assert labeldp(*fit).status == 0
    method = summary(folder)["accuracy"]["method"]
    assert "of 4 learners the one with the best score on these labels, which flatters it a little" in method


@pytest.mark.slow
def test_a_table_too_small_to_hold_anything_out_is_refused(labeldp: Callable[..., Ran], folder: Path) -> None:
    homes(59, seed=1).to_csv(folder / "homes.csv", index=False)
    for model in ("cells", "neighbors", "boosting", "auto"):
        name = "mixture" if model == "auto" else model
        refused(labeldp(*FIT, "--model", model), folder, f"--model {name} needs at least 60 records")
    homes(19, seed=1).to_csv(folder / "homes.csv", index=False)
    for model in ("cells", "linear"):
        refused(labeldp(*FIT, "--trust", "central", "--model", model), folder, "a fit needs at least 20 records")
    homes(60, seed=1).to_csv(folder / "homes.csv", index=False)
    for model in ("cells", "neighbors", "boosting", "auto"):
        assert labeldp(*FIT[:-1], model, "--model", model).status == 0


@pytest.mark.parametrize("features", mostly_slow(["size", "town", "size,town", "size,age"], ["size,age"]))
def test_a_model_of_one_or_two_features_is_drawn(labeldp: Callable[..., Ran], folder: Path, features: str) -> None:
    assert labeldp(*FIT, "--features", features, "--model", "cells").status == 0
    picture = summary(folder)["picture"]
    assert [axis["feature"] for axis in picture["axes"]] == features.split(",")
    assert len(picture["answers"]) == 1 and bool(picture["seen"]) == ("," not in features)
    assert "Predictions" in report(folder)


def test_classes_are_drawn_too(labeldp: Callable[..., Ran], folder: Path) -> None:
    fit = ("fit", "people.csv", *PEOPLE, "--epsilon", "4", "--model", "cells")
    for features in ("age", "age,region"):
        assert labeldp(*fit, "--features", features, "--out", "model").status == 0
        picture = summary(folder)["picture"]
        assert len(picture["answers"]) == 2 and np.allclose(np.sum(picture["answers"], axis=0), 1)
        assert "The probability of yes" in report(folder)
        for path in (folder / "model").iterdir():
            path.unlink()


@pytest.mark.parametrize("model", ["cells", "neighbors"])
@pytest.mark.usefixtures("curves")
def test_cells_and_neighbors_learn_classes(labeldp: Callable[..., Ran], folder: Path, model: str) -> None:
    done = labeldp("fit", "people.csv", *PEOPLE, "--epsilon", "3", "--model", model, "--test", "public.csv", PUBLIC,
                   "--out", "model", "--diagnostics")  # fmt: skip
    assert done.status == 0, done.err
    found = summary(folder)
    assert found["test"]["accuracy"] > 0.65
    assert found["accuracy"]["low"] - 0.25 <= found["test"]["accuracy"] <= found["accuracy"]["high"] + 0.25
    assert found["curve"] is None  # sizes chosen at this epsilon would be wrong at others
    assert labeldp("predict", "model", "new_people.csv", "--out", "p.csv").status == 0
    row = next(csv.DictReader((folder / "p.csv").read_text().splitlines()))
    assert list(row) == ["prediction", "probability_no", "probability_yes"]


@pytest.mark.slow
def test_of_many_records_some_say_how_many_neighbors_to_take(
    labeldp: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeldp.learners.numbers.TUNING_RECORDS", 400)
    assert labeldp(*FIT, "--model", "neighbors").status == 0
    assert "nearest records" in summary(folder)["model"]
    monkeypatch.setattr(released, "TUNING_RECORDS", 400)
    fit = ("fit", "people.csv", *PEOPLE, "--epsilon", "4", "--model", "neighbors", "--out", "other")
    assert labeldp(*fit).status == 1  # another column of another table: another dataset
    assert labeldp(*fit, "--ledger", "other.ledger").status == 0
    assert "nearest records" in summary(folder, "other")["model"]


def test_many_classes_are_released_as_groups(labeldp: Callable[..., Ran], folder: Path) -> None:
    """Where one answer among many would almost never be the truth, a group of classes tells more."""
    table = homes(800, seed=1)
    table["price"] = (table["price"] // 5).clip(0, 19).astype(int)
    table.to_csv(folder / "homes.csv", index=False)
    words = [word for word in FIT if word not in ("--range", "0,100")]
    done = labeldp(*words, "--classes", "20", "--epsilon", "1", "--model", "cells")
    assert done.status == 0, done.err
    assert "local hashing" in labeldp("certificate", "model").out
    assert "Each record releases one of 3 random class groups." in report(folder)
    found = summary(folder)
    assert found["confusion"] is not None and len(found["confusion"]["shares"]) == 20
    assert found["accuracy"]["low"] <= found["accuracy"]["value"] <= found["accuracy"]["high"]


def test_a_range_can_be_clipped_in_a_release_too(labeldp: Callable[..., Ran], folder: Path) -> None:
    words = ("release", "homes.csv", *LABELS, "--epsilon", "1", "--mechanism", "discrete-laplace", "--out", "n.csv")
    clipped = [word if word != "0,100" else "30,60" for word in words]
    assert labeldp(*clipped).status == 1
    assert labeldp(*clipped, "--clip").status == 0
    assert labeldp("certificate", "n.csv").status == 0
    noisy = pd.read_csv(folder / "n.csv")["price"]
    assert noisy.min() >= 30 and noisy.max() <= 60
