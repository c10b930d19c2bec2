"""labeldp audit: what it prints, its pictures, its exit status, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Ran, account

Run = Callable[..., Ran]

TABLE = "label,no,yes\nno,0.75,0.25\nyes,0.25,0.75\n"


@pytest.fixture
def table(people: Path) -> str:
    (people / "mechanism.csv").write_text(TABLE)
    return "mechanism.csv"


def test_a_table_prints_its_exact_epsilon(labeldp: Run, table: str) -> None:
    ran = labeldp("audit", "table", table)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "2 labels, 2 outputs, every ordered pair of labels, exactly.",
        "Pure epsilon: 1.0986122886681098 (e^epsilon = 3; at least 1.0986122886681096). Worst: 'no' against 'yes', "
        "output 'no'.",
    ]
    assert labeldp("audit", "table", table, "--delta", "0.25").out.splitlines()[-1].startswith("At delta = 0.25 eps")


def test_a_claim_that_does_not_hold_ends_with_status_1(labeldp: Run, table: str) -> None:
    good = labeldp("audit", "table", table, "--epsilon", "1.1")
    assert good.status == 0 and "The claim epsilon = 1.1, delta = 0 holds." in good.out
    bad = labeldp("audit", "table", table, "--epsilon", "1")
    assert bad.status == 1 and bad.out.startswith("The claim epsilon = 1, delta = 0 does NOT hold.\n")
    assert labeldp("audit", "table", table, "--epsilon", "1", "--delta", "0.1").status == 0
    assert json.loads(labeldp("audit", "table", table, "--epsilon", "1", "--json").out)["holds"] is False


def test_the_picture_is_a_file_of_its_own(labeldp: Run, table: str, people: Path) -> None:
    ran = labeldp("audit", "table", table, "--epsilon", "1.2", "--picture", "curve.svg")
    assert ran.status == 0
    assert (people / "curve.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox=')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.csv",), "Error: there is no file nowhere.csv\n"),
        (("mechanism.csv", "--epsilon", "-1"), "Error: --epsilon must lie in [0, 1000]\n"),
        (("mechanism.csv", "--epsilon", "1", "--delta", "2"), "Error: --delta must lie in [0, 1]\n"),
        (("mechanism.csv", "--delta", "x"), "Error: --delta must be a number, such as 1e-6\n"),
    ],
)
def test_what_cannot_be_audited_is_one_line_on_stderr(
    labeldp: Run, table: str, arguments: tuple[str, ...], message: str
) -> None:
    ran = labeldp("audit", "table", *arguments)
    assert (ran.status, ran.out, ran.err) == (1, "", message)


RELEASE = ("--label", "bought", "--classes", "no,yes", "--epsilon", "1", *account("bought", ledger="p.ledger"))


def test_a_path_alone_is_audited(labeldp: Run, people: Path) -> None:
    assert labeldp("release", "people.csv", *RELEASE, "--id", "id", "--out", "noisy.csv").status == 0
    short, long = labeldp("audit", "noisy.csv"), labeldp("audit", "run", "noisy.csv")
    assert short == long and short.status == 2
    first, _, *lines = short.out.splitlines()
    assert first == "noisy.csv: not everything was checked" and max(map(len, lines)) <= 80
    assert lines[0] == "  – Not checked: the certificate of noisy.csv is unsigned and was not checked."
    assert "  – By its certificate each label was released once." in lines
    assert "  ✓ The column 'bought' of noisy.csv still holds what was certified." in lines
    assert labeldp("audit", "noisy.csv", "--ledger", "p.ledger").status == 2
    assert labeldp("sign", "noisy.csv", "--key", "me.pem", "--new-key").status == 0
    unnamed = labeldp("audit", "noisy.csv")
    assert unnamed.status == 2 and "Not checked: the certificate was not checked. noisy.csv is" in " ".join(
        unnamed.out.split()
    )
    signed = labeldp("audit", "noisy.csv", "--signed-by", "me.pem.pub")
    assert signed.status == 0 and "Signed by me.pem.pub." in signed.out and "all checks passed" not in signed.out
    assert signed.out.startswith("noisy.csv: the signature holds; the charges were not checked\n")
    both = labeldp("audit", "noisy.csv", "--signed-by", "me.pem.pub", "--ledger", "p.ledger")
    assert both.status == 0 and "The request in the certificate equals the request in" in both.out
    assert both.out.startswith("noisy.csv: signature and charges hold; the values were not recomputed\n")
    (people / "table").write_bytes((people / "people.csv").read_bytes())
    assert "has no certificate" in labeldp("audit", "./table").err


def test_with_ledger_and_data_the_page_is_as_secret_as_the_labels(labeldp: Run, people: Path) -> None:
    labeldp("release", "people.csv", *RELEASE, "--id", "id", "--out", "noisy.csv")
    files = ("noisy.csv", "--ledger", "p.ledger", "--data", "people.csv")
    ran = labeldp("audit", *files, "--out", "audit.html")
    assert ran.status == 0 and ran.out.startswith("noisy.csv: all checks passed\n"), ran
    assert (
        "Recomputed from the data" in ran.out
        and "every released value is the same" in " ".join(ran.out.split())
        and "as secret as they are" in ran.out
    )
    assert "From the released values" in ran.out
    page = people / "audit.html"
    assert "CONFIDENTIAL: computed from raw labels" in page.read_text() and page.stat().st_mode & 0o077 == 0
    assert labeldp("audit", *files, "--out", "audit.html").status == 1, "a page is not overwritten"
    found = json.loads(labeldp("audit", *files, "--json").out)
    assert (
        found["verdict"] == "holds"
        and found["as_secret_as_the_labels"]
        and found["claim"] == {"epsilon": 1.0, "delta": "0"}
    )
    text = (people / "noisy.csv").read_text()
    (people / "noisy.csv").write_text(text.replace("yes", "no", 1))
    bad = labeldp("audit", "noisy.csv")
    assert (
        bad.status == 1
        and bad.out.startswith("noisy.csv: a check FAILED\n\n  ✗")
        and "NOT what was certified" in bad.out
    )


@pytest.mark.slow
def test_a_fit_is_made_again_with_the_options_of_its_summary(labeldp: Run) -> None:
    assert labeldp("fit", "people.csv", *RELEASE, "--id", "id", "--model", "linear", "--out", "model").status == 0
    ran = labeldp("audit", "model", "--ledger", "p.ledger", "--data", "people.csv")
    said = " ".join(ran.out.split())
    assert ran.status == 0 and "the values that were stored" in said
    assert "The summary and the report of model say what its certificate says." in said
    assert "Learned again from the data and these releases, the model and its summary are the same." in said
    assert labeldp("ledger", "add", "p.ledger", "--dataset", "bought", "--change", "--epsilon", "3").status == 0
    ran = labeldp("audit", "model", "--ledger", "p.ledger", "--data", "people.csv")
    assert ran.status == 2 and "after a change of the budget" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "Error: there is no file or directory nowhere\n"),
        (("people.csv", "--data", "people.csv"), "Error: --ledger must be given with --data: the values"),
        (("people.csv",), "Error: people.csv has no certificate"),
    ],
)
def test_what_is_no_result_is_one_line_on_stderr(labeldp: Run, arguments: tuple[str, ...], message: str) -> None:
    ran = labeldp("audit", *arguments)
    assert ran.status == 1 and ran.out == "" and ran.err.startswith(message) and ran.err.count("\n") == 1


def test_a_program_is_refuted(labeldp: Run, people: Path) -> None:
    for label in ("no", "yes"):
        (people / label).write_text(label)
    files = ("--one", "no", "--other", "yes", "--runs", "30")
    ran = labeldp("audit", "command", *files, "--epsilon", "0.1", "--", "cat", "{}")
    assert ran.status == 1 and ran.out.endswith("The claim epsilon = 0.1, delta = 0 is REFUTED.\n")
    assert ran.out.startswith("Epsilon is at least ")
    assert labeldp("audit", "command", *files, "--epsilon", "5", "--", "cat").status == 0
    found = json.loads(labeldp("audit", "command", *files, "--json", "--", "echo", "same").out)
    assert found["lower_bound"]["epsilon"] == 0 and not found["refuted"]
    assert labeldp("audit", "command", *files, "--level", "2", "--", "cat").err.startswith("Error: --level must lie")
