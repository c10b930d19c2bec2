"""labeldp estimate: from a released file, at no further cost."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp import inference
from labeldp.fit import read_release
from labeldp.privacy import InputError

Run = Callable[..., Any]


@pytest.fixture
def visits(tmp_path: Path, labeldp: Run) -> str:
    """A table of 4,000 records that was released in place."""
    rng = np.random.default_rng(0)
    mail, score = rng.integers(0, 2, 4000), rng.random(4000).round(3)
    bought = np.where(rng.random(4000) < 0.2 + 0.3 * mail, "yes", "no")
    table = pd.DataFrame({"bought": bought, "mail": mail, "channel": rng.choice(["web", "shop"], 4000), "score": score})
    table.to_csv(tmp_path / "raw.csv", index=False)
    labeldp(
        "release", "raw.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "3", "--in-place",
        "--ledger", "visits.ledger", "--dataset", "visits", "--out", "visits.csv",
    )  # fmt: skip
    return "visits.csv"


def test_commands_print_a_sentence_rows_and_the_certificate(visits: str, labeldp: Run) -> None:
    before = Path("visits.ledger").read_bytes()
    for command, options in (
        ("mean", ["--by", "channel", "--outcome", "yes", "--plot", "plot.svg"]),
        ("quantile", []),
        ("difference", ["--treated", "mail", "--by", "channel"]),
        ("difference", ["--treated", "mail", "--covariates", "score"]),
        ("odds-ratio", ["--exposure", "mail"]),
        ("monitor", ["--treated", "mail"]),
        ("evaluate", ["--probabilities", "score", "--why", "made up", "--score", "recall", "--by", "channel", "--gap"]),
    ):
        ran = labeldp("estimate", command, visits, *options)
        assert ran.status == 0, ran.err
        assert "95 % interval" in ran.out and "On condition that: " in ran.out
        assert "ε = 3, δ = 0" in ran.out
    assert Path("visits.ledger").read_bytes() == before, "nothing was charged"
    assert Path("plot.svg").read_text().startswith("<svg")


def test_json_is_what_python_says(visits: str, labeldp: Run) -> None:
    content = json.loads(labeldp("estimate", "mean", visits, "--json", "--outcome", "yes").out)
    release, table = read_release(visits)
    estimate = inference.mean(release, outcome="yes")
    assert content["estimates"][0]["value"] == estimate.value and content["certificate"]["dataset"] == "visits"
    assert set(table.column_names) == {"bought", "mail", "channel", "score"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["mean", "--by", "shop"], "--by must be a column of"),
        (["quantile", "--outcome", "yes"], "--outcome does not go with this estimate"),
        (["mean", "--outcome", "maybe"], "--outcome must be one of the classes no, yes"),
        (["difference", "--treated", "score"], "--treated must be true or false"),
        (["difference", "--treated", "channel"], "--treated must be a column of numbers, or of true and false"),
        (["evaluate", "--probabilities", "mail", "--why", " "], "why must say in words"),
    ],
)
def test_what_is_wrong_is_one_sentence(visits: str, labeldp: Run, options: list[str], sentence: str) -> None:
    ran = labeldp("estimate", options[0], visits, *options[1:])
    assert ran.status == 1 and sentence in ran.err and ran.err.count("\n") == 1


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
        "--ledger", "one.ledger", "--dataset", "one", "--out", str(out),
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
