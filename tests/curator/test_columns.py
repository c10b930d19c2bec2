"""Private columns that share a budget, and labels that are missing."""

from pathlib import Path

import numpy as np
import pytest

import labeldp as ldp
from labeldp.curator import Curator, LedgerFile
from labeldp.mechanisms import UnbiasedNumbers
from labeldp.privacy import BudgetExceeded, DomainError, InputError, LedgerError, Scope, Unit

SYSTEM = ldp.SystemRandomness()

YES, HOURS = ldp.Classes(("no", "yes")), ldp.Interval(0, 80)

ANSWERS, NUMBERS = np.array(["no", "yes"] * 30), np.arange(60.0)


def response(epsilon: float = 1.0) -> ldp.RandomizedResponse:
    return ldp.RandomizedResponse(domain=YES, epsilon=epsilon)


@pytest.fixture
def file(tmp_path: Path) -> LedgerFile:
    found = LedgerFile(tmp_path / "ledger.db")
    found.add("survey", ldp.Budget(epsilon=2))
    return found


def bought(file: LedgerFile, **more: object) -> Curator:
    return Curator(ANSWERS, domain=YES, ledger=file.dataset("survey/bought"), **more)


def hours(file: LedgerFile, **more: object) -> Curator:
    return Curator(NUMBERS, domain=HOURS, ledger=file.dataset("survey/hours"), **more)


def test_columns_of_a_dataset_pay_from_one_budget(file: LedgerFile) -> None:
    one = bought(file).release(response(), rng=SYSTEM)
    other = hours(file).release(UnbiasedNumbers(domain=HOURS, epsilon=0.75), rng=SYSTEM)
    assert file.dataset("survey").spent.epsilon() == file.dataset("survey/hours").spent.epsilon() == 1.75
    with pytest.raises(BudgetExceeded, match=r"epsilon = 1\.75 of"):
        bought(file).release(response(0.26), rng=SYSTEM)
    bought(file).release(response(0.25), rng=SYSTEM)
    joint = ldp.gather([one, other], lambda *values: values).certificate
    assert (joint.dataset, joint.epsilon()) == ("survey/bought and survey/hours", 1.75)


def test_a_column_finds_its_own_releases_again(file: LedgerFile) -> None:
    first = bought(file).release(response(), rng=SYSTEM)
    again = bought(LedgerFile(file.path)).release(response(), rng=SYSTEM)
    assert np.array_equal(first.value, again.value) and file.dataset("survey").spent.epsilon() == 1
    same = Curator(ANSWERS, domain=YES, ledger=file.dataset("survey/again")).release(response(), rng=SYSTEM)
    assert file.dataset("survey").spent.epsilon() == 2 and same.certificate.dataset == "survey/again"
    entries = file.dataset("survey").read().entries
    assert [(entry.column, entry.revision) for entry in entries] == [("bought", ""), ("again", "")]
    assert [entry.column for entry in file.dataset("survey/bought").read().own_entries] == ["bought"]
    assert not file.dataset("survey").read().own_entries


def test_keyed_noise_of_columns_with_the_same_labels_differs(file: LedgerFile) -> None:
    found = []
    for name in ("survey/one", "survey/two"):
        ledger = file.dataset(name)
        holder = Curator(ANSWERS, domain=YES, ledger=ledger, ids=np.arange(60))
        found.append(holder.release(response(0.5), rng=ledger.randomness).value)
    assert not np.array_equal(*found)


def test_every_column_has_a_declared_domain_and_changes_of_its_own(file: LedgerFile) -> None:
    assert "one bit" not in bought(file).release(response(0.1), rng=SYSTEM).certificate.at()
    late = hours(file).release(UnbiasedNumbers(domain=HOURS, epsilon=0.1), rng=SYSTEM)
    assert "one bit" not in late.certificate.at()  # a second column is no change
    assert [each.column for each in file.dataset("survey").read().domains] == ["bought", "hours"]
    with pytest.raises(LedgerError, match=r"the declared domain of 'survey/hours' is numbers from 0 to 80"):
        Curator(NUMBERS, domain=ldp.Interval(0, 90), ledger=file.dataset("survey/hours"))
    file.change("survey/hours", domain=ldp.Interval(0, 90), why="overtime")
    wide = Curator(NUMBERS, domain=ldp.Interval(0, 90), ledger=file.dataset("survey/hours"))
    release = wide.release(UnbiasedNumbers(domain=wide.domain, epsilon=0.1), rng=SYSTEM)
    assert "declared domain was changed (1 time before this release)" in release.certificate.at()


def test_labels_of_a_column_may_not_change_but_in_a_revision(file: LedgerFile) -> None:
    bought(file).release(response(), rng=SYSTEM)
    turned = ANSWERS[::-1].copy()
    with pytest.raises(LedgerError, match="not the labels"):
        Curator(turned, domain=YES, ledger=file.dataset("survey/bought")).release(response(), rng=SYSTEM)
    may = file.dataset("survey/bought", revision="May")
    Curator(turned, domain=YES, ledger=may).release(response(), rng=SYSTEM)
    assert file.dataset("survey").spent.epsilon() == 2
    assert [entry.revision for entry in may.read().own_entries] == ["May"]


def test_all_labels_of_a_row_are_those_of_one_user(file: LedgerFile) -> None:
    row = np.arange(60)
    parts = [
        bought(file, users=row).release(response(), rng=SYSTEM),
        hours(file, users=row).release(UnbiasedNumbers(domain=HOURS, epsilon=1), rng=SYSTEM),
    ]
    joint = ldp.gather(parts, lambda *values: values).certificate
    assert joint.neighbors is Unit.ONE_USER and joint.epsilon() == 2
    with pytest.raises(LedgerError, match="not the users"):
        hours(file, users=row // 2)


def test_a_ledger_in_memory_that_curators_share_is_one_budget() -> None:
    ledger = ldp.Ledger(ldp.Budget(epsilon=1))
    one, other = Curator(ANSWERS, domain=YES, ledger=ledger), Curator(NUMBERS, domain=HOURS, ledger=ledger)
    split = ldp.Public(np.arange(60) % 2, why="odd and even rows")
    one.split(split)[0].release(response(0.5), rng=SYSTEM)
    other.split(split)[1].release(UnbiasedNumbers(domain=HOURS, epsilon=0.5), rng=SYSTEM)
    assert ledger.spent.epsilon() == 1  # parts of two columns may hold the same row


def test_columns_cohorts_and_revisions_of_one_name_have_noise_of_their_own(file: LedgerFile) -> None:
    file.add_cohort("survey", "first", np.arange(60))
    file.add_cohort("survey", "may", np.arange(60, 90))
    ledgers = [
        file.dataset(name, cohort=cohort, revision=revision)
        for name in ("survey", "survey/may", "survey/first")
        for cohort in (None, "may")
        for revision in (None, "may", "\x20may")
    ]
    assert len({ledger.randomness.identity for ledger in ledgers}) == len(ledgers)
    populations = {ledger.enroll() for ledger in ledgers}
    assert len(populations) == 9  # cohorts are told apart by their ids


def test_names_of_columns(file: LedgerFile, tmp_path: Path) -> None:
    assert Scope.parse("a/b/c") == Scope("a/b", "c") and Scope.parse("a/ ") == Scope("a/ ")
    assert Scope("survey").name == "survey" and Scope("survey", "income").name == "survey/income"
    with pytest.raises(LedgerError, match=r"'survey/bought' is a column of the dataset 'survey' and shares its budget"):
        file.add("survey/bought", ldp.Budget(epsilon=1))
    with pytest.raises(LedgerError, match="change the budget of that"):
        file.change("survey/bought", budget=ldp.Budget(epsilon=3))
    with pytest.raises(LedgerError, match="cohorts are of a whole dataset, 'survey'"):
        file.add_cohort("survey/bought", "May", np.arange(3))
    with pytest.raises(LedgerError, match="has no dataset 'surve/bought'"):
        file.dataset("surve/bought")
    other = LedgerFile(tmp_path / "other.db")
    other.add("a/b", ldp.Budget(epsilon=1))  # a dataset of its own, as before there were columns
    other.add("a", ldp.Budget(epsilon=2))
    assert other.dataset("a/b").budget == ldp.Budget(epsilon=1.0)
    other.change("a/b", budget=ldp.Budget(epsilon=3))
    assert [other.dataset(name).budget.epsilon for name in ("a/b", "a")] == [3.0, 2.0]


@pytest.mark.parametrize("gap", [None, np.nan, ""])
def test_missing_labels_are_refused_with_both_ways_and_nothing_is_charged(file: LedgerFile, gap: object) -> None:
    labels = [gap, *ANSWERS[1:]]
    for ledger in (ldp.Ledger(ldp.Budget(epsilon=1)), file.dataset("survey/gaps")):
        with pytest.raises(DomainError) as missing:
            Curator(labels, domain=YES, ledger=ledger)
        with pytest.raises(DomainError) as outside:
            Curator(["maybe", *ANSWERS[1:]], domain=YES, ledger=ledger)
        words = str(missing.value)
        assert words == str(outside.value) and ledger.spent.epsilon() == 0
        assert "declare a class. Leave out their records only if it is public" in words
    numbers = NUMBERS.copy()
    numbers[3] = np.nan
    with pytest.raises(DomainError, match="declare a class"):
        Curator(numbers, domain=HOURS, budget=ldp.Budget(epsilon=1))


def test_missing_labels_are_a_class_or_left_out(file: LedgerFile) -> None:
    gaps = np.arange(60) % 7 == 0
    three = ldp.Classes(("no", "yes", "none"))
    filled = Curator(np.where(gaps, "none", ANSWERS), domain=three, ledger=file.dataset("survey/all"))
    mechanism = ldp.RandomizedResponse(domain=three, epsilon=1)
    assert len(filled.release(mechanism, rng=SYSTEM).value) == 60
    there = Curator(ANSWERS[~gaps], domain=YES, ledger=file.dataset("survey/some"), ids=np.arange(60)[~gaps])
    assert len(there.release(response(), rng=SYSTEM).value) == int((~gaps).sum())
    with pytest.raises(InputError, match="ids must be one integer"):
        Curator(ANSWERS[~gaps], domain=YES, ledger=file.dataset("survey/more"), ids=np.arange(60))
