"""What a ledger says on the command line, and how its budgets are set."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import labeldp as ldp
from cli.conftest import Ran

ADD = ("ledger", "add", "l.ledger", "--dataset", "people")
RELEASE = ("release", "people.csv", "--label", "bought", "--classes", "no,yes", "--ledger", "l.ledger")


def test_a_budget_is_changed_on_purpose_only(labeldp: Callable[..., Ran]) -> None:
    assert labeldp(*ADD, "--epsilon", "1").status == 0
    refused = labeldp(*ADD, "--epsilon", "2")
    assert refused.status == 1 and "--change" in refused.err
    assert "epsilon = 2" in labeldp(*ADD, "--epsilon", "2", "--change").out
    assert labeldp(*RELEASE, "--dataset", "people", "--epsilon", "2", "--out", "a.csv").status == 0
    small = labeldp(*ADD, "--epsilon", "1", "--change")
    assert small.status == 1 and "spent already" in small.err
    assert labeldp("ledger", "add", "l.ledger", "--dataset", "none", "--epsilon", "1", "--change").status == 1


def test_a_release_says_what_the_dataset_has_cost(labeldp: Callable[..., Ran]) -> None:
    assert labeldp(*ADD, "--epsilon", "2").status == 0
    done = labeldp(*RELEASE, "--dataset", "people", "--epsilon", "0.5", "--out", "a.csv")
    assert "people: budget epsilon = 2, delta = 0; spent epsilon = 0.5 at that delta" in done.out
    shown = labeldp("ledger", "show", "l.ledger").out
    assert "UTC, RandomizedResponse, epsilon 0.5" in shown and "as secret as the labels" in shown


def test_a_ledger_with_a_promise_on_a_condition_is_shown(labeldp: Callable[..., Ran], people: Path) -> None:
    """A release that was asked for no delta, and has no pure epsilon: `ledger show` refused the whole ledger."""
    file, domain = ldp.LedgerFile(people / "l.ledger"), ldp.Interval(0, 1, grid=2)
    file.add("people", ldp.Budget(1000, 0.5))
    curator = ldp.Curator(np.arange(40) % 2, domain=domain, ledger=file.dataset("people"))
    features = ldp.Public(np.eye(40, 2) + 1, why="written by hand")
    bags = ldp.WeightedLBA(20, bag_noise=0, assumed_residual_square=1, domain=domain, features=features)
    curator.release(bags, rng=ldp.SystemRandomness())
    shown = labeldp("ledger", "show", "l.ledger")
    assert shown.status == 0 and "WeightedLBA, no finite epsilon at delta 0" in shown.out, shown.err
