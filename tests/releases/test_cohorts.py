"""Records that came later as files: what commands do with cohorts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import labeldp as ldp
from labeldp.bags import release_bags
from labeldp.cli.ledger import describe_ledger
from labeldp.curator import LedgerFile
from labeldp.fit import fit_file, parse_fit
from labeldp.fit.verify import verify_file
from labeldp.releases import add_cohort, release_file

WORDS = ldp.Classes(("no", "yes"))
LATE = "which cohort a record is in does not depend on its label"


def people(first: int, last: int) -> pd.DataFrame:
    """Records with made-up ages and labels that follow from their ids."""
    ids = np.arange(first, last)
    ages = ids * 37 % 60 + 20
    bought = np.where((ages > 45) ^ (ids % 10 == 0), "yes", "no")
    return pd.DataFrame({"id": ids, "age": ages, "bought": bought, "hours": ids * 13 % 81})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the people of January and of May, alone and together, in several formats."""
    monkeypatch.chdir(tmp_path)
    january, may, june = people(0, 300), people(300, 420), people(420, 500)
    january.to_parquet("january.parquet", index=False)
    may.sample(frac=1, random_state=1).to_csv("may.csv", index=False)
    june.to_parquet("june.parquet", index=False)
    pd.concat([may, january]).to_csv("both.csv", index=False)
    (tmp_path / "folder").mkdir()
    january.to_parquet("folder/january.parquet", index=False)
    may.to_csv("folder/may.csv", index=False)
    LedgerFile("l.ledger").add("bought", ldp.Budget(4))
    return tmp_path


def release(data: str, out: str, epsilon: Any = 1, **more: Any) -> ldp.Certificate:
    asked = {"label": "bought", "domain": WORDS, "ledger": "l.ledger", "dataset": "bought", "id_column": "id"}
    return release_file(data, out=out, epsilon=epsilon, **(asked | more))


def add(data: Any, cohort: str, **more: Any) -> int:
    return add_cohort(
        data, **({"id_column": "id", "ledger": "l.ledger", "dataset": "bought", "cohort": cohort} | more)
    ).records


def spent() -> list[float]:
    account = LedgerFile("l.ledger").dataset("bought")
    return [account.read().spent_of(each.name).epsilon(account.budget.delta) for each in account.read().cohorts]


def test_a_table_grows_and_each_record_pays_for_what_it_was_there_for(place: Path) -> None:
    first = release("january.parquet", "january.noisy.parquet")
    with pytest.raises(
        ldp.privacy.LedgerError, match=r"not the records .* cohort, .*ledger add l?.*--cohort NAME --ids FILE"
    ):
        release("may.csv", "may.noisy.csv")
    with pytest.raises(ldp.privacy.LedgerError, match="has no cohort 'may'"):
        release("may.csv", "may.noisy.csv", cohort="may")
    assert not Path("may.noisy.csv").exists()
    assert add("january.parquet", "january") == 300 and add("may.csv", "may") == 120
    late = release("may.csv", "may.noisy.csv", cohort="may")
    assert spent() == [1, 1]
    assert late.cohorts == ("may",) and LATE in late.at() and LATE not in first.at()
    both = release("folder", "both.noisy", 0.5)
    assert both.cohorts == ("january", "may") and spent() == [1.5, 1.5]
    assert release("both.csv", "both.again.csv", 0.5) == both
    parts = pd.concat([pd.read_parquet("both.noisy/january.parquet"), pd.read_csv("both.noisy/may.csv")])
    again = pd.read_csv("both.again.csv")
    assert parts.set_index("id")["bought"].sort_index().equals(again.set_index("id")["bought"].sort_index())
    assert release("january.parquet", "january.noisy.parquet") == first  # the output stands, and is recognized
    assert release("january.parquet", "january.again.csv", cohort="january") == first
    assert release("may.csv", "may.noisy.csv", cohort="may") == late
    assert spent() == [1.5, 1.5]
    assert verify_file("may.noisy.csv").certificate == late


def test_what_is_refused_is_refused_before_a_label_is_compared(place: Path) -> None:
    release("january.parquet", "january.noisy.parquet")
    add("january.parquet", "january")
    add("may.csv", "may")
    table = people(0, 420)
    table["bought"] = "never heard of"
    table.to_csv("wrong.csv", index=False)
    table[:300].to_csv("wrong_january.csv", index=False)
    for data, more, sentence in (
        ("wrong_january.csv", {"cohort": "may"}, "not the records of the cohort 'may'"),
        ("june.parquet", {}, "neither all records of 'bought'"),
        ("wrong.csv", {"id_column": None}, "told apart by record ids"),
        ("wrong.csv", {"epsilon": 3.5}, "budget exceeded for 'bought'"),
    ):
        with pytest.raises(ldp.LabelDPError, match=sentence):
            release(data, "out.csv", **more)
    [domain] = LedgerFile("l.ledger").dataset("bought").read().domains
    assert (domain.passed, domain.refused) == (1, 0) and spent() == [1, 0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: add("june.parquet", "june", id_column="ID"), "has no column 'ID'|no column"),
        (lambda: add("nothing.csv", "june"), "nothing.csv"),
        (lambda: add("both.csv", "june"), "in the cohort 'january' of 'bought' already"),
        (lambda: add("june.parquet", "june", id_column="hours"), "ids must be distinct|nothing was added"),
        (lambda: add(pa.table({"id": [1000, None]}), "june"), "missing id"),
        (lambda: add(pa.table({"id": [1.5]}), "june"), "must hold integers or texts"),
        (lambda: add(pa.table({"id": ["0299", "299"]}), "june"), "in the cohort 'january'"),
        (lambda: add("june.parquet", "june", dataset="buoght"), "did you mean 'bought'"),
        (lambda: add("june.parquet", "june", ledger="nowhere.ledger"), "no dataset|no ledger"),
    ],
)
def test_a_file_that_is_no_cohort_is_refused(place: Path, make: Callable[[], Any], sentence: str) -> None:
    add("january.parquet", "january")
    before = Path("l.ledger").read_bytes()
    with pytest.raises(ldp.LabelDPError, match=sentence):
        make()
    assert Path("l.ledger").read_bytes() == before and not Path("nowhere.ledger").exists()


def test_labels_of_a_cohort_are_not_read_when_it_is_added(place: Path) -> None:
    """A file whose label column cannot be read, and memory of a block at a time."""
    table = pa.table({"id": np.arange(1000, 6000), "bought": pa.array([{"a": 1}] * 5000)})
    parquet.write_table(table, "odd.parquet", row_group_size=100)
    add("january.parquet", "january")
    assert add("odd.parquet", "odd", block_rows=64) == 5000


def test_sums_over_bags_of_a_cohort(place: Path) -> None:
    asked: dict[str, Any] = {
        "label": "hours",
        "domain": ldp.Interval(0, 80, grid=81),
        "mechanism": "bag-sum",
        "size": 20,
    }
    asked |= {"epsilon": 1, "ledger": "l.ledger", "dataset": "hours", "id_column": "id"}
    LedgerFile("l.ledger").add("hours", ldp.Budget(2))
    for data, name in (("january.parquet", "january"), ("may.csv", "may")):
        add(data, name, dataset="hours")
        frame = pd.read_csv(data) if data.endswith("csv") else pd.read_parquet(data)
        frame.drop(columns="bought").to_csv(f"{name}.hours.csv", index=False)
        made = release_bags(f"{name}.hours.csv", out=f"{name}.bags.csv", cohort=name, **asked)
        assert made.cohorts == (name,)
    with pytest.raises(ldp.privacy.LedgerError, match="not the records of the cohort"):
        release_bags("may.hours.csv", out="wrong.csv", cohort="january", **asked)
    assert LedgerFile("l.ledger").dataset("hours").spent.epsilon() == 1


def fit(data: str, out: str, epsilon: str = "1", **more: Any) -> Any:
    asked: dict[str, Any] = {"label": "bought", "classes": "no,yes", "dataset": "bought", "features": "age"}
    asked |= {"model": "boosting", "stages": None, "delta": "0", "id_column": "id"} | more
    return fit_file(parse_fit(epsilon=epsilon, **asked), data, ledger="l.ledger", out=out)


def test_a_model_of_a_cohort_and_one_of_all(place: Path) -> None:
    fit("january.parquet", "model")
    add("january.parquet", "january")
    add("may.csv", "may")
    LedgerFile("l.ledger").change("bought", budget=ldp.Budget(2))
    late = fit("may.csv", "late", cohort="may")
    assert spent() == [1, 1] and "--cohort may" in late.command and "of cohort 'may'" in late.sentence
    assert all(each.records == "the cohort 'may'" or each.records.startswith("part") for each in late.certificate)
    assert late.budget.before.epsilon == 0 and late.budget.left.epsilon == 1
    both = fit("both.csv", "both")
    assert spent() == [2, 2] and LATE in both.sentence
    assert both.budget.before.epsilon == 1 and both.budget.left.epsilon == 0
    fit("both.csv", "both.again")
    fit("january.parquet", "model.again")
    fit("january.parquet", "model.named", cohort="january")
    fit("may.csv", "late.again", cohort="may")
    assert spent() == [2, 2]
    with pytest.raises(ldp.BudgetExceeded, match=r"epsilon = 2 of .* bring it to 3\.5\."):
        fit("may.csv", "more", "1.5", cohort="may")
    with pytest.raises(ldp.privacy.LedgerError, match="neither all records"):
        fit("june.parquet", "june")
    with pytest.raises(ldp.privacy.LedgerError, match="told apart by record ids"):
        fit("both.csv", "none", id_column=None)


@pytest.mark.slow
def test_sums_that_a_model_shares_are_found_by_their_cohort(place: Path) -> None:
    """A step that names its mechanism shares the charge of another run of these records, and of no others."""
    central = {"trust": "central", "model": "linear", "delta": "1e-6"}
    LedgerFile("l.ledger").change("bought", budget=ldp.Budget(4, "1e-4"))
    add("january.parquet", "january")
    add("may.csv", "may")
    fit("january.parquet", "model", **central, cohort="january")
    charged = spent()
    assert charged[0] > 0 and charged[1] == 0
    fit("january.parquet", "again", **central)
    assert spent() == charged
    fit("may.csv", "late", **central, cohort="may")
    assert spent() == [charged[0]] * 2


def test_the_ledger_lists_its_cohorts(place: Path) -> None:
    release("january.parquet", "january.noisy.parquet")
    add("january.parquet", "january")
    add("may.csv", "may")
    add("june.parquet", "june")
    release("may.csv", "may.noisy.csv", 0.5, cohort="may")
    release("both.csv", "both.noisy.csv", 0.25)
    said = describe_ledger("l.ledger")
    for line in (
        "january: 300 records since",
        "ε 1.25 of",
        "june: 80 records since",
        "0.5   0  ",
        "january to may",
        "ε 1.25 of",
    ):
        assert line in said, said


def test_what_grants_were_charged_is_of_the_records_that_they_said(place: Path) -> None:
    """A table of many machines is charged, found and extended like a file."""
    from labeldp.releases import charge

    mechanism = ldp.RandomizedResponse(domain=WORDS, epsilon=1)

    def grant(data: pd.DataFrame, cohort: str | None = None) -> Any:
        account = {"ledger": "l.ledger", "dataset": "bought", "cohort": cohort}
        return charge(data, label="bought", id="id", mechanism=mechanism, **account)

    first = grant(people(0, 300))
    add("january.parquet", "january")
    add("may.csv", "may")
    assert grant(people(300, 420), "may").certificate.cohorts == ("may",)
    assert grant(people(0, 300)).certificate == first.certificate
    with pytest.raises(ldp.privacy.LedgerError, match="neither all records"):
        grant(people(300, 500))
    assert release("may.csv", "may.noisy.csv", cohort="may").cohorts == ("may",)
    assert spent() == [1, 1]
