"""labeldp estimate: from a released file, at no further cost."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli.conftest import account
from labeldp import inference
from labeldp.curator import LedgerFile
from labeldp.privacy import InputError
from labeldp.releases import read_release

Run = Callable[..., Any]


@pytest.fixture
def visits(tmp_path: Path, labeldp: Run) -> str:
    """A table of 4,000 records that was released in place."""
    rng = np.random.default_rng(0)
    mail, score = rng.integers(0, 2, 4000), rng.random(4000).round(3)
    bought = np.where(rng.random(4000) < 0.2 + 0.3 * mail, "yes", "no")
    table = pd.DataFrame({"bought": bought, "mail": mail, "channel": rng.choice(["web", "shop"], 4000), "score": score})
    table["late"] = rng.integers(0, 2, 4000)
    table["old"], table["new"], table["id"] = "no", np.where(mail == 1, "yes", "no"), rng.permutation(4000)
    table.to_csv(tmp_path / "raw.csv", index=False)
    labeldp(
        "release", "raw.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "3", "--in-place",
        *account("visits", "3", "visits.ledger"), "--out", "visits.csv",
    )  # fmt: skip
    return "visits.csv"


EXAMPLES: dict[str, list[list[str]]] = {
    "mean": [["--by", "channel", "--outcome", "yes", "--plot", "plot.svg"]],
    "quantile": [[]],
    "weighted-mean": [["--weights", "score"]],
    "stratified-mean": [["--strata", "channel", "--population", "web=0.7,shop=0.3"]],
    "change": [["--periods", "channel", "--since", "web"]],
    "difference-in-differences": [["--treated", "mail", "--after", "late"]],
    "difference": [["--treated", "mail", "--by", "channel"], ["--treated", "mail", "--covariates", "score"]],
    "lift": [["--treated", "channel", "--control", "shop"], ["--treated", "mail", "--covariates", "score"]],
    "uplift": [
        ["--treated", "mail", "--score", "score", "--why", "made up"],
        ["--treated", "mail", "--score", "score", "--why", "made up", "--measure", "curve", "--plot", "curve-plot.svg"],
    ],
    "regression": [["--features", "mail,score"], ["--features", "score", "--kind", "linear"]],
    "odds-ratio": [["--exposure", "mail"]],
    "risk-ratio": [["--exposure", "mail"]],
    "evaluate": [
        ["--probabilities", "score", "--why", "made up", "--score", "recall", "--by", "channel", "--gap"],
        ["--probabilities", "score", "--why", "made up", "--score", "average_precision"],
    ],
    "compare": [["--one", "new", "--other", "old", "--why", "made up"]],
    "conformal": [["--probabilities", "score", "--why", "made up", "--coverage", "0.8"]],
    "monitor": [["--treated", "mail"]],
}
"""A question for each row of the list of estimates: the common tests ask all of them."""


def test_commands_print_a_sentence_rows_and_the_certificate(visits: str, labeldp: Run) -> None:
    assert EXAMPLES.keys() == inference.ESTIMATES.keys()
    before = Path("visits.ledger").read_bytes()
    for command, questions in EXAMPLES.items():
        for options in questions:
            ran = labeldp("estimate", command, visits, *options)
            assert ran.status == 0, ran.err
            assert "95 % interval" in ran.out or command == "conformal"
            assert "On condition that: " in ran.out and "ε = 3, δ = 0" in ran.out
            printed = labeldp("estimate", command, visits, *[word for word in options if "plot" not in word], "--json")
            assert json.loads(printed.out)["certificate"]["dataset"] == "visits"
    assert Path("visits.ledger").read_bytes() == before, "nothing was charged"
    assert Path("plot.svg").read_text().startswith("<svg")


def test_options_that_name_columns_refuse_wrong_ones_and_the_released_one(visits: str, labeldp: Run) -> None:
    for command, questions in EXAMPLES.items():
        for part in (*inference.ESTIMATES[command].inputs, inference.USERS):
            if part.kind not in ("column", "numbers", "arms", "table", "codes", "chances"):
                continue
            for column, sentence in (("shop", "must be a column of visits.csv"), ("bought", "must not be made of the")):
                options = [word for word in questions[0] if word not in ("--plot", "plot.svg")]
                if part.option in options:
                    options[options.index(part.option) + 1] = column
                else:
                    options += [part.option, column]
                ran = labeldp("estimate", command, visits, *options)
                assert ran.status == 1 and f"{part.option} {sentence}" in ran.err and ran.err.count("\n") == 1, ran


def test_json_is_what_python_says(visits: str, labeldp: Run) -> None:
    content = json.loads(labeldp("estimate", "mean", visits, "--json", "--outcome", "yes").out)
    release, table = read_release(visits)
    estimate = inference.mean(release, outcome="yes")
    assert content["estimates"][0]["value"] == estimate.value and content["certificate"]["dataset"] == "visits"
    assert set(table.column_names) == {"bought", "mail", "channel", "score", "late", "old", "new", "id"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["mean", "--by", "shop"], "--by must be a column of"),
        (["mean", "--classes", "no,yes"], "--classes goes with --ledger, where FILE holds raw labels"),
        (
            ["compare", "--one", "score", "--other", "mail", "--why", "old"],
            "--one must be a column of predicted classes",
        ),
        (["conformal", "--probabilities", "score"], "--why must be given with --probabilities"),
        (["conformal", "--out", "sets.csv"], "--out goes with --probabilities"),
        (["mean", "--outcome", "maybe"], "--outcome must be one of the classes no, yes"),
        (["odds-ratio", "--exposure", "mail", "--user", "channel"], "--user must be left out: an odds ratio"),
        (["difference", "--treated", "score"], "--treated must be true or false, or the arm"),
        (["difference", "--treated", "channel", "--control", "0"], "--control must be one of shop, web"),
        (["stratified-mean", "--strata", "mail", "--population", "0,1"], "--population must be a number for each name"),
        (["stratified-mean", "--strata", "mail", "--population", "0=1"], "--population must name each stratum"),
        (["change", "--periods", "mail", "--since", "2"], "--since must be one of 0, 1"),
        (["evaluate", "--probabilities", "mail", "--why", " "], "--why is required: state why"),
    ],
)
def test_what_is_wrong_is_one_sentence(visits: str, labeldp: Run, options: list[str], sentence: str) -> None:
    ran = labeldp("estimate", options[0], visits, *options[1:])
    assert ran.status == 1 and sentence in ran.err and ran.err.count("\n") == 1


def test_json_has_null_where_nothing_is_known(visits: str, labeldp: Run) -> None:
    table = pd.read_csv("raw.csv").assign(first=lambda rows: rows.index == 0)
    table.to_csv("first.csv", index=False)
    words = ["--classes", "no,yes", "--epsilon", "0.1", "--ledger", "f.ledger", "--dataset", "f", "--in-place"]
    words += ["--new-budget", "1"]
    labeldp("release", "first.csv", "--label", "bought", *words, "--out", "f.csv")
    ran = labeldp("estimate", "odds-ratio", "f.csv", "--exposure", "first", "--json")
    (row,) = json.loads(ran.out, parse_constant=pytest.fail)["estimates"]
    assert row["high"] is None and row["low"] == 0


def test_sums_are_a_file_that_an_audit_makes_again(visits: str, labeldp: Run) -> None:
    question = ["estimate", "difference", "raw.csv", "--treated", "mail", *raw()]
    assert labeldp(*question, "--sums", "sums.csv", "--new-budget", "1").status == 0
    again = ["audit", "sums.csv", "--ledger", "sums.ledger", "--data", "raw.csv"]
    ran = labeldp(*again)
    assert ran.status == 0 and "every released value is the same" in ran.out.replace("\n    ", " "), ran
    Path("sums.csv").write_text(Path("sums.csv").read_text().replace("0,0,", "0,0,1", 1))
    assert labeldp(*again).status == 1
    wrong = labeldp("estimate", "mean", visits, "--sums", "more.csv")
    assert wrong.status == 1 and "--sums goes with --ledger" in wrong.err and not Path("more.csv").exists()


def test_sets_are_thresholds_and_a_file(visits: str, labeldp: Run) -> None:
    options = ["--probabilities", "score", "--why", "made up", "--coverage", "0.8"]
    ran = labeldp("estimate", "conformal", visits, *options, "--out", "sets.csv")
    assert ran.status == 0 and "sets hold the label in 80 %" in ran.out and "threshold " in ran.out, ran
    sets = pd.read_csv("sets.csv", keep_default_na=False).set
    assert len(sets) == 4000 and set(sets) <= {"", "no", "yes", "no|yes"}
    ran = labeldp("estimate", "conformal", visits, *options, "--report", "sets.html")
    page = Path("sets.html").read_text()
    assert ran.status == 0 and "sets hold the label in 80 %" in page.lower(), ran
    for size in (0, 1, 2):
        share = np.mean([len(names.split("|")) * bool(names) == size for names in sets])
        assert share == 0 or f'>{size}</th><td class="number">{100 * share:.1f}' in page
    assert "ε = 3, δ = 0" in page and "Nobody checked these" in page
    assert labeldp("estimate", "conformal", visits, *options, "--report", "sets.html").status == 1
    content = json.loads(labeldp("estimate", "conformal", visits, *options, "--by-class", "--json").out)
    assert [row["class"] for row in content["thresholds"]] == ["no", "yes"] and content["certificate"]["entries"]


def raw(epsilon: str = "1", *, ledger: str = "sums.ledger") -> list[str]:
    """The options of raw labels."""
    words = ["--label", "bought", "--classes", "no,yes", "--ledger", ledger, "--dataset", "bought"]
    return [*words, "--trust", "central", "--epsilon", epsilon, "--id", "id"]


SUMS: list[tuple[str, list[str], float]] = [
    ("mean", ["--outcome", "yes"], 0.35),
    ("difference", ["--treated", "mail"], 0.3),
    ("difference", ["--treated", "channel"], 0.0),
    ("stratified-mean", ["--strata", "mail", "--population", "0=3,1=1"], 0.275),
    ("change", ["--periods", "mail"], 0.3),
    ("difference-in-differences", ["--treated", "mail", "--after", "late"], 0.0),
    ("lift", ["--treated", "channel", "--control", "shop"], 0.0),
    ("odds-ratio", ["--exposure", "mail"], 4.0),
    ("evaluate", ["--probabilities", "mail", "--why", "drawn", "--score", "accuracy"], 0.65),
    ("evaluate", ["--probabilities", "mail", "--why", "drawn", "--score", "auc"], 0.66),
    ("compare", ["--one", "new", "--other", "old", "--why", "drawn"], 0.0),
]


@pytest.mark.parametrize(("command", "options", "truth"), SUMS, ids=[f"{row[0]} {row[1][-1]}" for row in SUMS])
def test_raw_labels_are_charged_once_for_the_sums_of_a_question(
    visits: str, labeldp: Run, command: str, options: list[str], truth: float
) -> None:
    labeldp("ledger", "add", "sums.ledger", "--dataset", "bought", "--epsilon", "3")
    question = ["estimate", command, "raw.csv", *options, *raw(), "--json"]
    first, again = labeldp(*question), labeldp(*question)
    assert first.status == 0, first.err
    content = json.loads(first.out)
    found = content["estimates"][0]
    assert abs(found["value"] - truth) < (0.7 if command == "odds-ratio" else 0.06)
    assert found["low"] <= found["value"] <= found["high"]
    assert json.loads(again.out) == content, "the same question again has the same noise"
    (entry,) = content["certificate"]["entries"]
    assert entry["mechanism"]["mechanism"] in ("LaplaceSum", "LaplaceMoment")
    assert "ε 1 of 3 spent" in again.err, again.err


def test_a_refused_question_about_raw_labels_charges_nothing(visits: str, labeldp: Run) -> None:
    labeldp("ledger", "add", "sums.ledger", "--dataset", "bought", "--epsilon", "3")
    before = Path("sums.ledger").read_bytes()
    for command, more, sentence in (
        ("mean", ["--outcome", "maybe"], "--outcome must be one of the classes no, yes"),
        ("mean", ["--level", "95"], "--level must lie between 0 and 1"),
        ("mean", ["--user", "channel"], "--user must be left out: sums do not tell whose records they are of"),
        ("difference", ["--treated", "mail", "--covariates", "score"], "--covariates must be left out"),
        ("evaluate", ["--probabilities", "score", "--why", "old", "--score", "f1"], "--score f1 needs single answers"),
        ("mean", ["--by", "bought"], "--by must be a column of raw.csv, which has mail"),
    ):
        ran = labeldp("estimate", command, "raw.csv", *more, *raw())
        assert ran.status == 1 and sentence in ran.err and ran.err.count("\n") == 1, ran
    for more, sentence in (
        (["--report", "nowhere/page.html"], "--report nowhere/page.html cannot be written"),
        (["--plot", "nowhere/plot.svg"], "--plot nowhere/plot.svg cannot be written"),
        (["--sums", "nowhere/sums.csv"], "--sums nowhere/sums.csv cannot be written"),
        (["--sums", "raw.csv"], "--sums raw.csv exists already"),
        (["--sums", "a.csv", "--report", "./a.csv"], "must be different files"),
        (["--sums", "a.txt"], "a.txt"),
    ):
        ran = labeldp("estimate", "mean", "raw.csv", *more, *raw())
        assert ran.status == 1 and sentence in ran.err and ran.err.count("\n") == 1, ran
    ran = labeldp("estimate", "difference", "raw.csv", "--treated", "mail", "--by", "id", *raw())
    assert ran.status == 1 and "--by must have a record of each arm in each group" in ran.err, ran
    for missing in ("--label", "--dataset", "--epsilon", "--trust"):
        words = raw()
        del words[words.index(missing) : words.index(missing) + 2]
        ran = labeldp("estimate", "mean", "raw.csv", *words)
        assert ran.status == 1 and f"{missing} " in ran.err and "must be given with --ledger" in ran.err
    assert Path("sums.ledger").read_bytes() == before
    ran = labeldp("estimate", "mean", "raw.csv", *raw("4"))
    assert ran.status == 1 and "sums.ledger" in ran.err and ran.out == ""


def test_labels_outside_of_the_domain_cost_nothing_and_are_not_shown(visits: str, labeldp: Run) -> None:
    labeldp("ledger", "add", "sums.ledger", "--dataset", "bought", "--epsilon", "3")
    words = ["no,maybe" if word == "no,yes" else word for word in raw()]
    ran = labeldp("estimate", "mean", "raw.csv", *words)
    assert ran.status == 1 and ran.out == "" and "yes" not in ran.err.replace("no,yes", ""), ran
    assert LedgerFile("sums.ledger").dataset("bought").spent.epsilon(0) == 0


def test_a_mistyped_label_is_told_before_questions_about_ledgers(visits: str, labeldp: Run) -> None:
    words = ["--ledger", "no.ledger", "--dataset", "new", "--trust", "central", "--epsilon", "1", "--classes", "no,yes"]
    ran = labeldp("estimate", "mean", "raw.csv", "--label", "bougth", *words)
    assert ran.status == 1 and "has no column 'bougth'; did you mean 'bought'?" in ran.err, ran


def test_a_column_of_private_labels_is_no_public_column(visits: str, labeldp: Run) -> None:
    words = ["--ledger", "sums.ledger", "--trust", "central", "--epsilon", "1", "--classes", "no,yes"]
    labeldp("ledger", "add", "sums.ledger", "--dataset", "survey", "--epsilon", "3")
    first = labeldp("estimate", "mean", "raw.csv", "--label", "new", "--dataset", "survey/new", *words)
    assert first.status == 0, first
    ran = labeldp(
        "estimate", "mean", "raw.csv", "--label", "bought", "--by", "new", "--dataset", "survey/bought", *words
    )
    assert ran.status == 1 and "'new' holds private labels of 'survey'" in ran.err, ran
    rows = Path("raw.csv").read_text().splitlines()
    place = rows[0].split(",").index("new")
    gap = [cell if i != place else "" for i, cell in enumerate(rows[1].split(","))]
    Path("gap.csv").write_text("\n".join([rows[0], ",".join(gap), *rows[2:]]) + "\n")
    for public in (["--by", "new"], ["--id", "new"]):  # a missing or repeated label is not told
        words_of = ["estimate", "mean", "gap.csv", "--label", "bought", *public, "--dataset", "survey/bought", *words]
        ran = labeldp(*words_of)
        assert ran.status == 1 and "'new' holds private labels of 'survey'" in ran.err, ran


def test_a_report_is_one_page_with_pictures(visits: str, labeldp: Run) -> None:
    evaluated = ["--probabilities", "score", "--why", "made up"]
    for command, options, pictures in (
        ("difference", ["--treated", "mail", "--by", "channel"], 1),
        ("evaluate", evaluated, 4),
        ("evaluate", [*evaluated, "--by", "channel"], 1),
        ("monitor", [], 1),
    ):
        ran = labeldp("estimate", command, visits, *options, "--report", "page.html")
        assert ran.status == 0, ran.err
        page = Path("page.html").read_text()
        assert labeldp("estimate", command, visits, *options, "--report", "page.html").status == 1
        assert Path("page.html").read_text() == page, "no file is replaced"
        Path("page.html").unlink()
        assert page.lstrip().startswith("<!DOCTYPE html>")
        assert page.count("<svg") == pictures and not re.search(r">nan<|src=|href=", page)
        assert "ε = 3, δ = 0" in page and "Nobody checked these" in page
        assert ("Gaps between groups" in page) == ("--by" in options and command == "evaluate")


MECHANISMS = [
    ("randomized-response", ["--classes", "no,yes"], "bought"),
    ("unary-encoding", ["--classes", "no,yes"], "bought"),
    ("discrete-laplace", ["--range", "0,1", "--grid", "11"], "score"),
    ("unbiased-numbers", ["--range", "0,1", "--grid", "11"], "score"),
    ("response-on-bins", ["--range", "0,1", "--grid", "11"], "score"),
]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize(("mechanism", "domain", "label"), MECHANISMS, ids=[row[0] for row in MECHANISMS])
def test_answers_are_read_as_they_were_released(
    people: Path, labeldp: Run, mechanism: str, domain: list[str], label: str, ending: str
) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame({"bought": rng.choice(["no", "yes"], 500), "score": rng.integers(0, 11, 500) / 10}).to_csv(
        people / "raw.csv", index=False
    )
    out = people / f"noisy{ending}"
    labeldp(
        "release", "raw.csv", "--label", label, *domain, "--mechanism", mechanism, "--epsilon", "8",
        *account("one", "8", "one.ledger"), "--out", str(out),
    )  # fmt: skip
    release, _ = read_release(out)
    if label == "bought" or mechanism == "response-on-bins":
        estimate = inference.mean(release)
        truth = (pd.read_csv(people / "raw.csv").bought == "yes").mean()
        assert estimate.value.sum() == pytest.approx(1, abs=0.1)
        assert mechanism == "response-on-bins" or abs(estimate.value[1] - truth) < 0.1
    else:
        assert abs(inference.mean(release).value - pd.read_csv(people / "raw.csv").score.mean()) < 0.05


def test_a_changed_file_is_refused(visits: str) -> None:
    Path(visits).write_text(Path(visits).read_text().replace("yes", "no", 5))
    with pytest.raises(InputError, match="is NOT what was certified"):
        read_release(visits)
