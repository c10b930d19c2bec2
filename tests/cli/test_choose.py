"""labeldp choose, and fit --model auto: what is said, that it is free again, and that a ledger's choice stays."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli.conftest import DONE, Ran
from labeldp.cli.advice import expected_text
from labeldp.curator import LedgerFile
from labeldp.fit import Expected, auto
from labeldp.fit import choice as rule
from labeldp.fit.choice import WAYS
from labeldp.privacy import total_loss

ASKED = ("people.csv", "--label", "bought", "--classes", "no,yes", "--id", "id")
CHOOSE = ("choose", *ASKED, "--epsilon", "1")
CENTRAL = ("--trust", "central", "--delta", "1e-6")
ACCOUNT = ("--ledger", "l.ledger", "--dataset", "people", "--new-budget", "2")
FIT = ("fit", *ASKED, "--epsilon", "1", "--model", "auto", *CENTRAL, *ACCOUNT)


def test_options_are_ranked_with_their_commands(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp(*CHOOSE, *CENTRAL)
    assert ran.status == 0 and ran.err == "", ran
    found = json.loads(labeldp(*CHOOSE, *CENTRAL, "--json").out)
    assert ran.out.startswith("people.csv: 600 records, 4 features, 2 classes   ε = 1, δ = 1e-6, central\n\n")
    for place, option in enumerate(found["options"], start=1):
        assert f"  {place}  {option['method']:<14}  {expected_text(Expected(**option['expected']))}" in ran.out
    assert len(found["options"]) > 2 and found["options"][0]["source"] in ran.out
    assert found["options"][0]["command"] in " ".join(ran.out.replace("\\\n", " ").split())
    assert max(map(len, ran.out.splitlines())) <= 80
    assert not list(people.glob("*.ledger")), "nothing is charged"


def test_the_bytes_do_not_depend_on_labels(labeldp: Callable[..., Ran], people: Path) -> None:
    found = [labeldp(*CHOOSE), labeldp(*CHOOSE, "--json")]
    table = pd.read_csv(people / "people.csv")
    for labels in (np.random.default_rng(1).permutation(table.bought), "no", "neither"):
        table.assign(bought=labels).to_csv(people / "people.csv", index=False)
        assert [labeldp(*CHOOSE), labeldp(*CHOOSE, "--json")] == found


def test_a_plan_says_the_same(labeldp: Callable[..., Ran], people: Path) -> None:
    """Plan and choose agree, and a plan does not call too few what a fit is expected to learn from."""
    for options, trust in [((), "local"), (("--trust", "central"), "central")]:
        found = json.loads(labeldp(*CHOOSE, *options, "--json").out)
        ran = labeldp("plan", *ASKED, "--epsilon", "1", "--trust", trust, "--json")
        [planned] = json.loads(ran.out)["advice"]
        for one, other in zip(planned["options"], found["options"], strict=True):
            assert one | {"command": ""} == other | {"command": ""}
    said = labeldp("plan", *ASKED, "--epsilon", "1,0.001", "--trust", "local").out
    said, model = " ".join(said.split()), next(o for o in found["options"] if o["settings"]["trust"] == "local")
    assert "Suggested local: labeldp fit … --trust local --model" in said and str(Expected(**model["expected"])) in said
    assert "no method is expected to be better than the baseline" in said
    assert "Too few records for such cells or neighbors to learn more than the baseline: ε = 1, local" in said
    assert "Too few records to learn more than the baseline: ε = 0.001, local" in said


def spent(people: Path) -> tuple[int, float]:
    account = LedgerFile(people / "l.ledger").dataset("people")
    return len(account.read().entries), total_loss(account.charges).epsilon(1e-6)


def certified(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "certificate.json").read_text())["certificate"]


def test_the_first_option_is_fitted_and_free_again(labeldp: Callable[..., Ran], people: Path) -> None:
    best = json.loads(labeldp(*CHOOSE, *CENTRAL, "--json").out)["options"][0]
    first = labeldp(*FIT, "--out", "model")
    assert first.status == 0 and f"--model auto took {best['method']}: " in first.err, first
    assert str(Expected(**best["expected"])) in first.err
    assert f"{best['method']} was chosen from features and" in labeldp("certificate", "model").out
    summary = json.loads((people / "model" / "summary.json").read_text())
    assert "--model auto" in str(summary)
    assert f"{best['method']} was chosen from features and" in certified(people / "model")["assumptions"][-1]
    charged = spent(people)
    again = labeldp(*FIT, "--out", "model")
    assert (again.status, again.out, again.err) == (0, first.out, DONE)
    other = labeldp(*FIT, "--out", "other")
    assert other.status == 0 and f"--model auto stays with {best['method']}" in other.err
    assert spent(people) == charged and charged[1] <= 1
    assert (people / "model" / "model.skops").read_bytes() == (people / "other" / "model.skops").read_bytes()
    assert certified(people / "model") == certified(people / "other")


@pytest.mark.slow
def test_a_choice_that_a_ledger_holds_stays(
    labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer rule that ranks another way first neither charges again nor changes what is fitted."""
    assert labeldp(*FIT, "--out", "model").status == 0
    charged, certificate = spent(people), certified(people / "model")
    held = json.loads(labeldp(*CHOOSE, *CENTRAL, "--json").out)["options"][0]["method"]
    newer = tuple(
        replace(
            way,
            given_up={"classes": 0.5 * (way.trust == "central"), "numbers": 0.0},
        )
        for way in reversed(WAYS)
    )
    for module in (rule, auto):
        monkeypatch.setattr(module, "WAYS", newer)
    assert json.loads(labeldp(*CHOOSE, *CENTRAL, "--json").out)["options"][0]["method"] != held
    for out in ("model", "other"):
        ran = labeldp(*FIT, "--out", out)
        assert ran.status == 0 and (out == "model" or f"stays with {held}" in ran.err), ran
        assert certified(people / out) == certificate
    assert spent(people) == charged
    shutil.rmtree(people / "model")
    fresh = labeldp(*FIT[:-6], "--ledger", "m.ledger", "--dataset", "people", "--new-budget", "1", "--out", "model")
    assert fresh.status == 0 and f"took {held}" not in fresh.err and "--model auto took" in fresh.err


def test_labels_that_nobody_may_see_are_randomized(labeldp: Callable[..., Ran], people: Path) -> None:
    """Where there is one way alone it is named with its reason, and no condition says that it was chosen."""
    ran = labeldp("fit", *ASKED, "--epsilon", "2", *ACCOUNT, "--out", "model")
    assert ran.status == 0 and "--model auto took local mixture: noise costs" in ran.err, ran
    assert certified(people / "model")["trust"] == "LOCAL"
    assert not any("chosen" in each for each in certified(people / "model")["assumptions"])
    summary = json.loads((people / "model" / "summary.json").read_text())
    assert "--model auto --trust local" in str(summary)


def test_where_nothing_is_expected_to_learn_the_default_is_fitted(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp("fit", *ASKED, "--epsilon", "0.001", *CENTRAL, *ACCOUNT, "--out", "model")
    assert ran.status == 0 and "--model auto took central linear: it is not expected to learn more" in ran.err, ran
    summary = json.loads((people / "model" / "summary.json").read_text())
    assert summary["model"].startswith("a linear model of")


def test_options_of_other_models_charge_nothing(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp("fit", *ASKED, "--epsilon", "1", "--cells", "4", *ACCOUNT, "--out", "model")
    assert ran.status == 1 and "--cells goes with --model cells" in ran.err, ran
    assert not (people / "model").exists() and not (people / "l.ledger").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", "0"), "--epsilon must be positive"),
        (("--epsilon", "1", "--delta", "2"), "--delta must lie in [0, 1)"),
        (("--epsilon", "1", "--balance", "0.5,0.5"), "--balance goes with --dry-run"),
        (("--epsilon", "1", "--dry-run", "--balance", "0.5,0.6"), "--balance must hold 2 positive shares"),
        (("--epsilon", "1", "--features", "bought"), "--features must not hold the label column"),
        (("--epsilon", "1", "--label", "bougth"), "bougth"),
    ],
)
def test_a_wrong_question_gets_one_line(labeldp: Callable[..., Ran], words: tuple[str, ...], said: str) -> None:
    ran = labeldp("choose", *ASKED, *words)
    assert ran.status == 1 and said in ran.err and ran.err.count("\n") == 1 and ran.out == "", ran


def test_too_few_rows_to_rehearse(labeldp: Callable[..., Ran], people: Path) -> None:
    pd.read_csv(people / "people.csv").head(150).to_csv(people / "few.csv", index=False)
    ran = labeldp("choose", "few.csv", *ASKED[1:], "--epsilon", "4", "--dry-run")
    assert ran.status == 1 and "--dry-run needs at least 200 rows" in ran.err, ran


def test_what_would_help_is_said(labeldp: Callable[..., Ran]) -> None:
    ran = labeldp("choose", *ASKED, "--epsilon", "0.01")
    assert ran.status == 0 and "Nothing admissible is left" in ran.out and "would do." in ran.out
    assert json.loads(labeldp("choose", *ASKED, "--epsilon", "0.01", "--json").out)["options"] == []
