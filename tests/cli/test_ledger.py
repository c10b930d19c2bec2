"""What a ledger says on the command line, and how its budgets are set."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from cli.conftest import Ran, account
from labeldp.cli.options import suggest_budget_change

ADD = ("ledger", "add", "l.ledger", "--dataset", "people")

HOURS = ("ledger", "add", "l.ledger", "--dataset", "hours")

RELEASE = ("release", "people.csv", "--label", "bought", "--classes", "no,yes", "--ledger", "l.ledger")


def test_a_budget_is_changed_on_purpose_only(labeldp: Callable[..., Ran]) -> None:
    assert labeldp(*ADD, "--epsilon", "1").status == 0
    refused = labeldp(*ADD, "--epsilon", "2")
    assert refused.status == 1 and "--change" in refused.err
    assert "epsilon = 2" in labeldp(*ADD, "--epsilon", "2", "--change").out
    assert labeldp(*RELEASE, "--dataset", "people", "--epsilon", "2", "--out", "a.csv").status == 0
    assert labeldp(*ADD, "--epsilon", "1", "--change").status == 0
    assert "epsilon = 2, delta = 0: the largest budget" in labeldp("ledger", "show", "l.ledger").out
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "none", "--epsilon", "1", "--change").status == 1


def test_a_number_of_records_is_declared_and_keeps_parts_away(labeldp: Callable[..., Ran]) -> None:
    count = str(len(pd.read_csv("people.csv")))
    new = labeldp(*ADD, "--records", count)
    assert new.status == 1 and "--epsilon must be given" in new.err
    assert labeldp(*ADD, "--epsilon", "2").status == 0
    assert "it has 7 records" in labeldp(*ADD, "--records", "7").out
    assert "Records       7 (declared)" in labeldp("ledger", "show", "l.ledger").out
    fit = ("fit", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1", "--out", "a")
    for refused in (
        labeldp(*RELEASE, "--dataset", "people", "--epsilon", "1", "--out", "a.csv"),
        labeldp(*fit, "--ledger", "l.ledger", "--dataset", "people"),
    ):
        assert refused.status == 1 and "'people' has 7 records, and these are" in refused.err
    assert "ε 0 of 2" in labeldp("ledger", "show", "l.ledger").out
    other = labeldp(*ADD, "--records", count)
    assert other.status == 1 and f"--change --records {count}" in other.err
    changed = labeldp(*ADD, "--change", "--records", count, "--reason", "a typing error")
    assert changed.status == 0, changed.err
    assert labeldp(*RELEASE, "--dataset", "people", "--epsilon", "1", "--out", "a.csv").status == 0


def test_a_release_says_what_the_dataset_has_cost(labeldp: Callable[..., Ran]) -> None:
    assert labeldp(*ADD, "--epsilon", "2").status == 0
    done = labeldp(*RELEASE, "--dataset", "people", "--epsilon", "0.5", "--out", "a.csv")
    assert "'people': ε 0.5 of 2 spent" in done.out
    shown = labeldp("ledger", "show", "l.ledger").out
    assert "randomized response  0.5  0  600" in shown and "protect it like the labels" in shown


@pytest.mark.slow
def test_another_domain_is_declared_on_purpose_and_shown_with_its_reason(labeldp: Callable[..., Ran]) -> None:
    """A user who widened `--range` until it was accepted published a range that follows the largest label."""
    fit = ("fit", "people.csv", "--label", "hours", "--features", "age,region", "--model", "cells", "--epsilon", "1")
    fit += ("--ledger", "l.ledger", "--dataset", "hours")
    assert "labels are numbers from 0 to 20" in labeldp(*HOURS, "--epsilon", "2", "--range", "0,20").out
    refused = labeldp(*fit, "--range", "0,20", "--out", "a")
    assert refused.status == 1 and "--clip" in refused.err and "--change" in refused.err
    other = labeldp(*fit, "--range", "0,30", "--out", "a")
    assert other.status == 1 and "No label was read" in other.err and "--change --range 0,30" in other.err
    changed = labeldp(*HOURS, "--change", "--range", "0,80", "--reason", "hours a week")
    assert changed.status == 0 and "numbers from 0 to 20 or numbers from 0 to 80" in changed.out
    assert labeldp(*HOURS, "--change", "--epsilon", "3", "--delta", "1e-6", "--reason", "a survey").status == 0
    changed = labeldp(*HOURS, "--change", "--epsilon", "3", "--reason", "two surveys")
    assert "delta = 1e-06" in changed.out, "a delta that is not named stays"
    assert labeldp(*HOURS, "--change", "--epsilon", "3", "--delta", "0", "--reason", "two surveys").status == 0
    unknown = labeldp("ledger", "add", "l.ledger", "--dataset", "Hour", "--change", "--epsilon", "3")
    assert unknown.status == 1 and "no dataset 'Hour'; did you mean 'hours'?" in unknown.err
    done = labeldp(*fit, "--range", "0,80", "--out", "a")
    assert done.status == 0, done.err
    told = "domain was changed (1 time before this release) or that labels were refused (1 time)"
    assert told in labeldp("certificate", "a").out
    shown = " ".join(labeldp("ledger", "show", "l.ledger").out.split())
    assert "declared domain changed from numbers from 0 to 20 to numbers from 0 to 80 (hours a week)" in shown
    assert "budget changed from epsilon = 2, delta = 0 to epsilon = 3, delta = 1e-06 (a survey)" in shown
    assert "labels were refused 1 time" in shown


def test_a_dataset_that_a_ledger_does_not_know_is_refused_by_every_command(labeldp: Callable[..., Ran]) -> None:
    """`fit … --dataset poeple` on a ledger where `people` was nearly spent succeeded, with a budget of its own."""
    assert labeldp(*ADD, "--epsilon", "0.1").status == 0
    common = ("--epsilon", "1", "--ledger", "l.ledger", "--dataset", "poeple", "--out")
    people = ("people.csv", "--label", "bought", "--classes", "no,yes")
    commands = [
        ("fit", *people, *common, "model"),
        ("release", *people, *common, "noisy.csv"),
        ("release", *people, "--mechanism", "bag-sum", "--size", "20", *common, "sums.csv"),
        ("online", "run", "people.csv", "--experts", "age,hours", *common, "decisions.csv"),
    ]
    for command in commands:
        ran = labeldp(*command)
        assert ran.status == 1 and "no dataset 'poeple'; did you mean 'people'?" in ran.err, ran
        assert "labeldp ledger add" in ran.err and ran.err.count("\n") == 1
    assert "poeple" not in labeldp("ledger", "show", "l.ledger").out


WRONG = [
    ((), "--epsilon must be given"),
    (("--range", "0,1"), "--epsilon must be given"),
    (("--change",), "--change needs"),
    (("--change", "--delta", "1e-6"), "--delta goes with --epsilon"),
    (("--epsilon", "1", "--reason", "why"), "--reason goes with --change"),
    (("--epsilon", "1", "--range", "1,0"), "--range must hold two numbers"),
    (("--epsilon", "1", "--range", "0,1", "--classes", "a,b"), "--classes no,yes or by --range"),
    (("--change", "--epsilon", "2", "--reason", " "), "--reason must be a printable text"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG)
def test_what_cannot_be_meant_is_refused(labeldp: Callable[..., Ran], words: tuple[str, ...], sentence: str) -> None:
    ran = labeldp(*ADD, *words)
    assert ran.status == 1 and sentence in ran.err and ran.err.count("\n") == 1
    assert not Path("l.ledger").exists()


def test_a_ledger_with_a_promise_on_a_condition_is_shown(labeldp: Callable[..., Ran], people: Path) -> None:
    """A release that was asked for no delta, and has no pure epsilon: `ledger show` refused the whole ledger."""
    file, domain = ldp.LedgerFile(people / "l.ledger"), ldp.Interval(0, 1, grid=2)
    file.add("people", ldp.Budget(1000, 0.5))
    curator = ldp.Curator(np.arange(40) % 2, domain=domain, ledger=file.dataset("people"))
    features = ldp.Public(np.eye(40, 2) + 1, why="written by hand")
    bags = ldp.bags.WeightedLBA(20, bag_noise=0, assumed_residual_square=1, domain=domain, features=features)
    curator.release(bags, rng=ldp.SystemRandomness())
    shown = labeldp("ledger", "show", "l.ledger")
    assert shown.status == 0 and "weighted LBA  no finite ε" in shown.out, shown.err


def test_records_that_came_later_are_added_and_released_by_their_names(labeldp: Callable[..., Ran]) -> None:
    """The whole way: a release, its records named, later ones added, released alone and with all others."""
    table = pd.read_csv("people.csv")
    table[:200].to_csv("first.csv", index=False)
    table[200:].to_csv("later.csv", index=False)
    release = ("--label", "bought", "--classes", "no,yes", "--ledger", "l.ledger", "--dataset", "people", "--id", "id")
    assert labeldp(*ADD, "--epsilon", "2").status == 0
    assert labeldp("release", "first.csv", *release, "--epsilon", "1", "--out", "first.out.csv").status == 0
    refused = labeldp("release", "later.csv", *release, "--epsilon", "1", "--out", "later.out.csv")
    assert (
        refused.status == 1 and "are a cohort" in refused.err and "--cohort NAME --ids FILE --id COLUMN" in refused.err
    )
    later = ("--cohort", "later", "--ids", "later.csv", "--id", "id")
    early = labeldp(*ADD, *later)
    assert early.status == 1 and "its first cohort is all of them" in early.err
    assert "has 200 records." in labeldp(*ADD, "--cohort", "first", "--ids", "first.csv", "--id", "id").out
    added = labeldp(*ADD, *later)
    assert f"The cohort 'later' of 'people' in l.ledger has {len(table) - 200} records." in added.out
    assert "Which cohort a record is in must not depend on its label" in added.out and labeldp(*ADD, *later).status == 0
    done = labeldp("release", "later.csv", *release, "--cohort", "later", "--epsilon", "1", "--out", "later.out.csv")
    assert done.status == 0 and "of cohort 'later' of dataset 'people'" in done.out, done.err
    assert "ε 1 of" in done.out
    done = labeldp("release", "people.csv", *release, "--epsilon", "0.5", "--out", "all.csv")
    assert (
        "of cohorts 'first' and 'later'" in done.out
        and "which cohort a record is in does not depend on its label" in done.out
    )
    shown = labeldp("ledger", "show", "l.ledger").out
    assert "first: 200 records since" in shown and "first to later" in shown
    assert "ε 1.5 of" in shown


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("--cohort", "later"), 2, "--cohort, --ids and --id go together"),
        (("--ids", "people.csv", "--id", "id"), 2, "--cohort, --ids and --id go together"),
        (("--cohort", "later", "--ids", "people.csv", "--id", "nr"), 1, "'nr'"),
        (("--cohort", "later", "--ids", "people.csv", "--id", "region"), 1, "ids must be distinct"),
        (("--cohort", " ", "--ids", "people.csv", "--id", "id"), 1, "--cohort must be a printable text"),
    ],
)
def test_what_is_no_cohort_is_refused(
    labeldp: Callable[..., Ran], words: tuple[str, ...], status: int, sentence: str
) -> None:
    assert labeldp(*ADD, "--epsilon", "1").status == 0
    ran = labeldp(*ADD, *words)
    assert ran.status == status and sentence in ran.err, ran.err
    assert "cohort" not in labeldp("ledger", "show", "l.ledger").out


def test_a_dataset_and_its_first_cohort_are_added_at_once(labeldp: Callable[..., Ran]) -> None:
    ran = labeldp(*ADD, "--epsilon", "1", "--cohort", "first", "--ids", "people.csv", "--id", "id")
    assert ran.status == 0 and "has the budget epsilon = 1" in ran.out and "The cohort 'first'" in ran.out


def test_a_ledger_is_backed_up_moved_restored_and_given_new_keys(labeldp: Callable[..., Ran], people: Path) -> None:
    release = ("release", "people.csv", "--label", "bought", "--classes", "no,yes", "--id", "id", "--dataset", "bought")
    assert labeldp("ledger", "add", "p.ledger", "--dataset", "bought", "--epsilon", "4").status == 0
    assert labeldp(*release, "--epsilon", "1", "--ledger", "p.ledger", "--out", "a.csv").status == 0
    assert "is a backup of p.ledger" in labeldp("ledger", "backup", "p.ledger", "--out", "p.backup").out
    refused = labeldp("ledger", "backup", "p.ledger", "--out", "p.backup")
    assert refused.err == "Error: --out p.backup exists: give a new name\n", refused
    assert "is a backup of a ledger, and no ledger" in labeldp("ledger", "show", "p.backup").err

    assert "is new.ledger now" in labeldp("ledger", "move", "p.ledger", "--out", "new.ledger").out
    assert "was moved: it is" in labeldp(*release, "--epsilon", "1", "--ledger", "p.ledger", "--out", "b.csv").err
    again = (*release, "--epsilon", "1", "--ledger", "new.ledger")
    assert labeldp(*again, "--out", "b.csv").status == 0
    assert (people / "a.csv").read_bytes() == (people / "b.csv").read_bytes()
    assert "has new keys" in labeldp("ledger", "rotate", "new.ledger", "--dataset", "bought", "--reason", "lost").out
    assert labeldp(*again, "--out", "c.csv").status == 0
    assert (people / "a.csv").read_bytes() != (people / "c.csv").read_bytes()
    shown = labeldp("ledger", "show", "new.ledger").out
    assert "ε 2 of 4" in shown and "Keys" in shown
    assert "keys changed from number 1 to number 2 (lost)" in shown

    closed = labeldp("ledger", "restore", "p.backup", "--out", "again.ledger").out
    assert "Closed until their budgets are set: bought." in closed
    more = (*release, "--epsilon", "2", "--ledger", "again.ledger", "--out", "d.csv")
    assert "takes no new release until its budget is set" in labeldp(*more).err and not (people / "d.csv").exists()
    change = ("ledger", "add", "again.ledger", "--dataset", "bought", "--change", "--epsilon", "3")
    assert labeldp(*change, "--reason", "epsilon = 1 was released since").status == 0
    assert labeldp(*more).status == 0
    assert "the ledger was restored from its backup of" in labeldp("certificate", "d.csv").out


def test_names_in_a_command_to_paste_are_quoted() -> None:
    words = r"labeldp ledger add 'my l\.db' --dataset 'a; rm b' --change"
    with pytest.raises(ldp.BudgetExceeded, match=words), suggest_budget_change("my l.db", "a; rm b"):
        raise ldp.BudgetExceeded("too much")


def test_another_kind_of_ids_is_refused_unless_the_option_asks_for_it(
    labeldp: Callable[..., Ran], people: Path
) -> None:
    command = (
        *("release", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1"),
        *account("people"),
    )
    assert labeldp(*command, "--id", "id", "--out", "a.csv").status == 0
    spent = labeldp("ledger", "show", "l.ledger").out
    refused = labeldp(*command, "--out", "b.csv")
    assert refused.status == 1 and "--other-ids" in refused.err and not (people / "b.csv").exists()
    assert labeldp("ledger", "show", "l.ledger").out == spent
    change = ("ledger", "add", "l.ledger", "--dataset", "people", "--change", "--epsilon", "2")
    assert labeldp(*change).status == 0
    assert labeldp(*command, "--out", "b.csv", "--other-ids").status == 0
    assert "ε 2 of 2" in labeldp("ledger", "show", "l.ledger").out
