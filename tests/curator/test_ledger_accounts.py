"""Budgets with a delta in a ledger file: filters, lists that are declared first, and ledgers of before."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, LABELS, SYSTEM, people
from labeldp.cli.ledger import add_dataset, describe_ledger
from labeldp.curator import DatasetLedger, LedgerFile
from labeldp.curator.ledger_accounts import pay, read_paid
from labeldp.privacy import (
    Cost,
    Filter,
    FixedList,
    Neighbors,
    NoisyBag,
    PendingCharge,
    PrivacyLoss,
    Row,
    Trust,
    joint_costs,
)
from labeldp.privacy.accounts import USUAL_SHARES, open_filter

DELTA = "0.0383"


def opened(path: Path, budget: ldp.Budget) -> DatasetLedger:
    """The dataset "people", added if it is new."""
    return LedgerFile(path).dataset("people", budget=budget)


def charge(ledger: DatasetLedger, loss: PrivacyLoss, path: Any = (), name: str = "release", step: Any = None) -> Any:
    """Charge some loss: labels and traces are made up."""
    traces = (("row numbers", "classes", "digest"),)
    request = PendingCharge({"mechanism": name}, loss, path, labels="digest", traces=traces, step=step)
    return ledger.draw(request, Released(name), lambda: np.zeros(3)).certificate


class Released:
    """A mechanism, as far as a ledger looks at it."""

    neighbors, trust = Neighbors.ONE_LABEL, Trust.CENTRAL
    published, assumptions, basis = "sums", (), ()

    def __init__(self, name: str) -> None:
        self.name = name

    def arrays(self) -> None:
        return None


def test_a_strategy_that_passes_the_curve_on_each_path_is_refused(tmp_path: Path) -> None:
    """RR(.5), then RR(.6) on one answer and a failure of delta on the other: 1.38 delta together."""
    budget = ldp.Budget(1, DELTA)
    for number, first in enumerate((PrivacyLoss.pure("0.6"), PrivacyLoss.failure(DELTA))):
        assert budget.admits(PrivacyLoss.pure("0.5") + first)
        path = tmp_path / f"{number}.db"
        charge(opened(path, budget), PrivacyLoss.pure("0.5"))
        with pytest.raises(ldp.BudgetExceeded, match=r"kept by a filter of which .* % is used up"):
            charge(people(path), first, name="next")
        charge(people(path), PrivacyLoss.pure("0.5"), name="what is left")
    assert isinstance(people(path).account, Filter)


@pytest.mark.slow
def test_one_release_at_its_exact_cost_is_admitted_whatever_it_is(tmp_path: Path) -> None:
    budget = ldp.Budget(1, 1e-6)
    mu = max(mu for mu in np.linspace(0.2, 0.3, 100_001) if PrivacyLoss.gaussian(mu).within(1, 1e-6))
    for number, (loss, kind) in enumerate([
        (PrivacyLoss.gaussian(mu), Filter),
        (PrivacyLoss.gaussian(mu * 0.99) + PrivacyLoss.failure("1e-7"), Filter),
        (PrivacyLoss.gaussian(mu * 0.9) + PrivacyLoss.failure("3e-7"), Filter),
        (PrivacyLoss.approximate(1, 1e-6), Filter),
        (PrivacyLoss.pure(1), Filter),
        (PrivacyLoss.curve(NoisyBag("gaussian", 0.82, 64, 64)), FixedList),
        (PrivacyLoss.pure("0.032") * 50, FixedList),
    ]):  # fmt: skip
        path = tmp_path / f"{number}.db"
        charge(opened(path, budget), loss)
        assert isinstance(people(path).account, kind), loss
        with pytest.raises(ldp.BudgetExceeded):
            charge(people(path), PrivacyLoss.pure("0.5") + PrivacyLoss.failure("9e-7"), name="more")


def test_a_list_that_is_declared_before_the_first_may_cost_what_its_curve_says(tmp_path: Path) -> None:
    loss, path = PrivacyLoss.pure("0.1"), tmp_path / "l.db"
    ledger = opened(path, ldp.Budget(3, 1e-6))
    ledger.require([PendingCharge({}, loss, step=f"{number}") for number in range(46)])
    for number in range(46):
        charge(ledger, loss, name=f"{number}", step=f"{number}")
    assert isinstance(ledger.account, FixedList)
    with pytest.raises(ldp.BudgetExceeded, match="declared before the first of them, and this is none"):
        charge(ledger, PrivacyLoss.pure("0.001"), name="late")
    charge(ledger, loss, name="7", step="7")  # found again
    assert len(ledger.charges) == 46


@pytest.mark.parametrize(("kind", "most"), [("gaussian", 30), ("zcdp", 36)])
def test_a_filter_that_is_asked_for_admits_one_after_another(tmp_path: Path, kind: str, most: int) -> None:
    ledger = opened(tmp_path / "l.db", ldp.Budget(3, 1e-6, kind=kind))
    for number in range(most):
        charge(ledger, PrivacyLoss.pure("0.1"), name=f"{number}")
    with pytest.raises(ldp.BudgetExceeded, match="kept by a filter"):
        charge(ledger, PrivacyLoss.pure("0.1"), name="more")


def test_a_fixed_budget_admits_its_list_alone(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "l.db", ldp.Budget(3, 1e-6, fixed=True))
    one, two = PrivacyLoss.pure("0.1"), PrivacyLoss.pure("0.2")
    ledger.require([PendingCharge({}, one), PendingCharge({}, two)])
    charge(ledger, two, name="b")
    charge(ledger, one, name="a")
    for loss in (one, PrivacyLoss.pure("0.001")):
        with pytest.raises(ldp.BudgetExceeded, match="declared before the first"):
            charge(ledger, loss, name="c")
    assert "for releases that are declared before the first" in describe_ledger(str(tmp_path / "l.db"))


def test_records_that_nothing_was_released_of_may_get_a_list_of_their_own(tmp_path: Path) -> None:
    """Epochs of a learner: each at the whole budget, none about the rounds of another."""
    ledger = opened(tmp_path / "l.db", ldp.Budget(1, 1e-6))
    loss = PrivacyLoss.curve(NoisyBag("gaussian", 0.82, 64, 64))
    for part in range(3):
        charge(ledger, loss, (("epochs", part),), name=f"{part}")
    for path in ((("epochs", 2),), (), (("other", 0),)):
        with pytest.raises(ldp.BudgetExceeded):
            charge(ledger, PrivacyLoss.pure("0.001"), path, name="again")


def test_a_refused_release_pins_nothing(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "l.db", ldp.Budget(1, 1e-6))
    with pytest.raises(ldp.BudgetExceeded, match=r"bring it to epsilon = 1\.99"):
        charge(ledger, PrivacyLoss.pure(2))
    with pytest.raises(RuntimeError):
        ledger.draw(
            PendingCharge({}, PrivacyLoss.pure(1), labels="d", traces=(("row numbers", "classes", "digest"),)),
            Released("r"),
            lambda: (_ for _ in ()).throw(RuntimeError()),
        )
    assert ledger.account is None and ledger.used() is None


def test_releases_of_a_curator_are_kept_by_the_filter(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "l.db", ldp.Budget(2, 1e-6))
    curator = ldp.Curator(LABELS, domain=DOMAIN, ledger=ledger)
    first = curator.release(ldp.RandomizedResponse(domain=DOMAIN, epsilon=0.5), rng=SYSTEM)
    second = curator.release(ldp.RandomizedResponse(domain=DOMAIN, epsilon=0.25), rng=SYSTEM)
    one, both = first.certificate, ldp.gather([first, second], lambda *_: None).certificate
    assert "with epsilon = 0.5 and delta = 0 " in one.at(0)
    assert "by a sum of" not in one.at(1e-6)
    assert both.at(0) == both.at(1e-6) and "by a sum of epsilon = 0.75" in both.at(0)
    assert ledger.used() == Fraction(3, 8)
    said = describe_ledger(str(tmp_path / "l.db"))
    assert "kept by a gaussian filter; used 37.5 % of it" in said and "spent epsilon" not in said


def test_certificates_of_what_was_chosen_late_promise_the_budget_alone(tmp_path: Path) -> None:
    from labeldp.privacy.certificate import join_certificates

    ledger = opened(tmp_path / "l.db", ldp.Budget(2, 1e-6))
    loss = PrivacyLoss.gaussian(0.05)
    late = [charge(ledger, loss, name=name) for name in "ab"]
    together = join_certificates(late)
    assert "with epsilon = 2 and delta = 1e-06" in together.at(1e-6) and "This is the budget" in together.at(1e-6)
    assert "No finite epsilon is promised at delta = 1e-07" in together.at("1e-7")
    again = type(together).from_json(json.loads(json.dumps(together.to_json())))
    assert again.at(1e-6) == together.at(1e-6)
    ledger.require([PendingCharge({}, loss, step=step) for step in ("c", "d")])
    declared = join_certificates([charge(ledger, loss, name=name, step=name) for name in ("c", "d")])
    assert declared.at(1e-6) != together.at(1e-6) and "all 2 steps of a declared plan" in declared.at(1e-6)
    assert declared.epsilon(1e-6) < 1
    ledger.require([PendingCharge({}, loss, step="e")])  # declared after a look at those
    more = [charge(ledger, loss, name=name, step=name) for name in ("e", "f")]
    for several in ([declared, more[0]], more):
        assert "This is the budget" in join_certificates(several).at(1e-6)


def test_what_a_filter_added_up_is_recomputed_from_a_random_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, chance = tmp_path / "l.db", random.Random(7)
    monkeypatch.setattr("labeldp.curator.ledger_store.SYNC", "OFF")
    ledger = opened(path, ldp.Budget(3, 1e-5))
    losses = [PrivacyLoss.pure("0.01"), PrivacyLoss.gaussian(0.11), PrivacyLoss.approximate("0.02", "1e-8")]
    for number in range(150):
        place = chance.choice([(), (("s", 0),), (("s", 1),), (("t", number % 3),)])
        with suppress(ldp.BudgetExceeded):
            charge(ledger, chance.choice(losses), place, name=f"{number}")
    rule = ledger.account
    assert isinstance(rule, Filter) and len(ledger.charges) > 60
    summed = Cost()
    for each in ledger.charges:
        summed = summed + rule.cost(each.loss)
    with closing(sqlite3.connect(path)) as connection:
        [texts] = connection.execute("SELECT pure, rate, failure, tail FROM paid").fetchall()
    kept = Cost.from_texts(*texts)
    assert (kept.pure, kept.failure) == (summed.pure, summed.failure)
    assert kept.rate is not None and summed.rate is not None and 0 <= abs(kept.rate - summed.rate) < 1e-20
    rows = [Row((0, 0), each.path, each.loss) for each in ledger.charges]
    assert rule.admits(joint_costs(rule, rows, 0)) and not rule.admits((kept,))  # splits were counted in parallel


def test_one_more_release_does_not_read_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = opened(tmp_path / "l.db", ldp.Budget(3, 1e-5))
    charge(ledger, PrivacyLoss.pure("0.01"), name="first")
    monkeypatch.setattr("labeldp.curator.ledger_totals.CohortTotals.rows", property(lambda _: pytest.fail("was read")))
    for number in range(20):
        charge(ledger, PrivacyLoss.pure("0.01"), name=f"{number}")


def fill(path: Path, loss: PrivacyLoss, times: int, budget: ldp.Budget) -> None:
    """Charge equal releases at delta = 0, and then set a budget with a delta."""
    ledger = opened(path, ldp.Budget(times * loss.epsilon()))
    for number in range(times):
        charge(ledger, loss, name=f"{number}", step=f"{number}")
    LedgerFile(path).set_budget("people", budget)


def test_a_history_at_delta_0_that_fits_goes_on_with_a_filter(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    fill(path, PrivacyLoss.pure("0.1"), 10, ldp.Budget(3, 1e-6))
    content = path.read_bytes()
    assert people(path).account is None and "spent epsilon" in describe_ledger(str(path))
    assert path.read_bytes() == content
    charge(people(path), PrivacyLoss.pure("0.1"), name="more")
    rule = people(path).account
    assert isinstance(rule, Filter) and people(path).used() == Fraction(11, 30)
    for number in range(19):
        charge(people(path), PrivacyLoss.pure("0.1"), name=f"more {number}")
    with pytest.raises(ldp.BudgetExceeded):
        charge(people(path), PrivacyLoss.pure("0.1"), name="too many")


def test_a_history_at_delta_0_that_does_not_fit_is_closed(tmp_path: Path) -> None:
    path, loss = tmp_path / "l.db", PrivacyLoss.pure("0.1")
    fill(path, loss, 40, ldp.Budget(3, 1e-6))
    charge(people(path), loss, name="7", step="7")  # found again, and costs nothing
    assert len(people(path).charges) == 40 and people(path).account is None
    with pytest.raises(ldp.BudgetExceeded, match="was declared in no list"):
        people(path).require([PendingCharge({}, loss, step="x"), PendingCharge({}, loss, step="y")])
    with pytest.raises(ldp.BudgetExceeded, match="was declared in no list"):
        charge(people(path), loss, name="z", step="z")


def test_budgets_change_with_what_keeps_them(tmp_path: Path) -> None:
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    charge(opened(path, ldp.Budget(2, 1e-6)), PrivacyLoss.gaussian(0.2))
    file.set_budget("people", ldp.Budget(3, 1e-6))
    rule = people(path).account
    assert isinstance(rule, Filter) and rule.epsilon == 3
    used = people(path).used()
    assert used is not None and used < 1
    for smaller in (ldp.Budget("0.1", 1e-6), ldp.Budget(3, 1e-6, kind="zcdp"), ldp.Budget(3, 1e-6, fixed=True)):
        with pytest.raises(ldp.BudgetExceeded, match="cannot be"):
            file.set_budget("people", smaller)
    file.add("people", ldp.Budget(3, 1e-6))
    with pytest.raises(ldp.LedgerError, match="has a budget already"):
        file.add("people", ldp.Budget(3, 1e-6, kind="zcdp"))
    charge(people(path), PrivacyLoss.gaussian(0.2), name="more")
    assert people(path).account == rule


def test_a_larger_budget_turns_a_list_into_a_filter_that_admits_it(tmp_path: Path) -> None:
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    charge(opened(path, ldp.Budget(1, 1e-6)), PrivacyLoss.curve(NoisyBag("gaussian", 0.82, 64, 64)))
    assert isinstance(people(path).account, FixedList)
    file.set_budget("people", ldp.Budget(3, 1e-6))
    assert isinstance(people(path).account, Filter)
    charge(people(path), PrivacyLoss.pure("0.3"), name="more")


@pytest.mark.parametrize("changed", [ldp.Budget(1, DELTA, kind="gaussian"), ldp.Budget("1.0001", DELTA)])
def test_a_change_after_a_look_moves_nothing_from_failures_to_rates(tmp_path: Path, changed: ldp.Budget) -> None:
    """Else randomized response, and then failures or another budget and rates, would be 1.07 delta together."""
    path, one = tmp_path / "l.db", PrivacyLoss.pure("0.2")
    ledger = opened(path, ldp.Budget(1, DELTA))
    ledger.require([PendingCharge({}, one, step="a"), PendingCharge({}, PrivacyLoss.failure("0.038"), step="b")])
    charge(ledger, one, step="a")
    before = people(path).account
    assert isinstance(before, Filter) and before.failure == Fraction("0.038")
    LedgerFile(path).set_budget("people", changed)
    after = people(path).account
    assert isinstance(after, Filter) and (after.failure, after.tail) == (before.failure, before.tail)
    admitted = 1
    with suppress(ldp.BudgetExceeded):
        for number in range(9):
            charge(people(path), one, name=f"{number}")
            admitted += 1
    assert admitted == 5


def test_a_list_that_is_turned_into_a_filter_does_not_choose_what_delta_is_kept_for(tmp_path: Path) -> None:
    """A failure of three tenths of delta fits shares that follow from it, and not the ones that were fixed before."""
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    curve, failure = PrivacyLoss.curve(NoisyBag("gaussian", 0.8, 64, 64)), PrivacyLoss.failure("3e-7")
    ledger = opened(path, ldp.Budget(1, 1e-6))
    ledger.require([PendingCharge({}, curve, step="a"), PendingCharge({}, failure, step="b")])
    charge(ledger, curve, step="a")
    assert isinstance(people(path).account, FixedList)
    rows = people(path).account.rows  # type: ignore[union-attr]
    assert open_filter(ldp.Budget(3, 1e-6), rows) is not None
    assert open_filter(ldp.Budget(3, 1e-6), rows, USUAL_SHARES) is None
    file.set_budget("people", ldp.Budget(3, 1e-6))
    assert isinstance(people(path).account, FixedList)


def test_a_filter_takes_what_a_list_declared_and_keeps_its_kind(tmp_path: Path) -> None:
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    ledger = opened(path, ldp.Budget(3, 1e-6, fixed=True))
    ledger.require(
        [PendingCharge({}, PrivacyLoss.pure("0.3"), step="a"), PendingCharge({}, PrivacyLoss.pure(2), step="b")]
    )
    charge(ledger, PrivacyLoss.pure("0.3"), step="a")
    with pytest.raises(ldp.BudgetExceeded, match="no filter of it admits"):
        file.set_budget("people", ldp.Budget(1, 1e-6, kind="zcdp"))  # enough for the one that was charged
    file.set_budget("people", ldp.Budget(3, 1e-6, kind="zcdp"))
    file.set_budget("people", ldp.Budget(4, 1e-6))
    account = people(path).account
    assert isinstance(account, Filter) and (account.kind, account.epsilon) == ("zcdp", 4)


def test_what_delta_is_kept_for_does_not_follow_from_releases_at_delta_0(tmp_path: Path) -> None:
    """RR(.5) with no delta, then delta, then RR(.6) or a failure of all of delta: neither of them."""
    for number, (more, kind) in enumerate((more, kind) for more in ("0.6", None) for kind in (None, "gaussian")):
        path = tmp_path / f"{number}.db"
        charge(opened(path, ldp.Budget(1)), PrivacyLoss.pure("0.5"))
        LedgerFile(path).set_budget("people", ldp.Budget(1, DELTA, kind=kind))
        loss = PrivacyLoss.failure(DELTA) if more is None else PrivacyLoss.pure(more)
        with pytest.raises(ldp.BudgetExceeded, match="kept by a filter" if kind else "was declared in no list"):
            charge(people(path), loss, name="b")
        charge(people(path), PrivacyLoss.pure("0.5"), name="c")
        assert people(path).account == Filter.of(1, DELTA)


def test_what_was_admitted_with_a_delta_keeps_one(tmp_path: Path) -> None:
    for number, fixed in enumerate((True, False)):
        path = tmp_path / f"{number}.db"
        charge(opened(path, ldp.Budget(1, DELTA, fixed=fixed)), PrivacyLoss.pure("0.5"))
        account = people(path).account
        with pytest.raises(ldp.BudgetExceeded, match="Read their certificates at delta = 0"):
            LedgerFile(path).set_budget("people", ldp.Budget(1))
        assert people(path).account == account and people(path).budget.delta == float(DELTA)
    LedgerFile(tmp_path / "new.db").add("people", ldp.Budget(1, DELTA))
    LedgerFile(tmp_path / "new.db").set_budget("people", ldp.Budget(1))


def test_a_list_that_fits_may_go_on_with_a_filter(tmp_path: Path) -> None:
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    charge(opened(path, ldp.Budget(1, 1e-6, fixed=True)), PrivacyLoss.pure("0.3"))
    file.set_budget("people", ldp.Budget(2, 1e-6, kind="gaussian"))
    charge(people(path), PrivacyLoss.pure("0.4"), name="late")
    assert people(path).used() == Fraction(7, 20)
    ledger, other = opened(tmp_path / "m.db", ldp.Budget(3, 1e-6)), LedgerFile(tmp_path / "m.db")
    ledger.require([PendingCharge({}, PrivacyLoss.pure("0.1"), step=f"{number}") for number in range(41)])
    charge(ledger, PrivacyLoss.pure("0.1"), name="0", step="0")
    with pytest.raises(ldp.BudgetExceeded, match="no filter of it admits"):
        other.set_budget("people", ldp.Budget("3.5", 1e-6, kind="gaussian"))
    other.set_budget("people", ldp.Budget(5, 1e-6, kind="gaussian"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "zcdp"}, "kept by a zcdp filter"),
        ({"fixed": True}, "for releases that are declared before the first"),
        ({}, "delta = 1e-06"),
    ],
)
def test_the_command_line_says_what_keeps_a_budget(tmp_path: Path, options: Any, words: str) -> None:
    assert words in add_dataset(str(tmp_path / "l.db"), "people", "3", "1e-6", **options)
    assert people(tmp_path / "l.db").budget == ldp.Budget(3.0, 1e-6, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ldp.Budget(1, 1e-6, kind="best"), "must be one of 'gaussian', 'zcdp'"),
        (lambda: ldp.Budget(1, kind="zcdp"), "goes with a delta"),
        (lambda: ldp.Budget(1, fixed=True), "goes with a delta"),
        (lambda: ldp.Budget(1, 1e-6, kind="zcdp", fixed=True), "not with fixed"),
        (lambda: ldp.Budget(1, 1e-6, fixed="yes"), "True or False"),
        (lambda: add_dataset("l.db", "people", None, kind="zcdp", change=True), "go with --epsilon and --delta"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ldp.InputError, match=words):
        make()


def test_a_charge_says_what_the_dataset_has_paid_by_then(tmp_path: Path) -> None:
    """Exactly for up to four unlike charges before it, and from then on by a bound."""
    pure = opened(tmp_path / "pure.db", ldp.Budget(3))
    costs = [PrivacyLoss.pure(f"0.{place}") for place in (1, 2, 3, 4, 5, 6)]
    said = [charge(pure, cost, name=str(place)).entries[-1].facts["total"] for place, cost in enumerate(costs)]
    assert said == [
        *(f"epsilon = {total}, delta = 0" for total in ("0.1", "0.3", "0.6", "1", "1.5")),
        "at most epsilon = 2.1, delta = 0",
    ]
    listed = opened(tmp_path / "listed.db", ldp.Budget(3, 1e-6, fixed=True))
    listed.require([PendingCharge({}, PrivacyLoss.pure("0.1"))])
    [entry] = charge(listed, PrivacyLoss.pure("0.1")).entries
    assert "total" not in entry.facts  # with a delta nobody can promise it
    assert entry.account and entry.budgets == ((Fraction(3), Fraction(1, 10**6)),)


def test_what_a_list_keeps_stays_a_list_where_either_budget_says_so(tmp_path: Path) -> None:
    """It becomes a filter where a kind of filter is asked for."""
    cheap = PrivacyLoss.pure("0.3")
    for old, new, kept in (
        (ldp.Budget(1, 1e-6, fixed=True), ldp.Budget(3, 1e-6), FixedList),
        (ldp.Budget(1, 1e-6, fixed=True), ldp.Budget(3, 1e-6, fixed=True), FixedList),
        (ldp.Budget(1, 1e-6, fixed=True), ldp.Budget(3, 1e-6, kind="zcdp"), Filter),
    ):
        path = tmp_path / f"{new!r}.db"
        ledger = opened(path, old)
        ledger.require([PendingCharge({"mechanism": "release"}, cheap)])
        assert all(charge(ledger, cheap).assumptions) and isinstance(people(path).account, FixedList)
        LedgerFile(path).set_budget("people", new)
        assert isinstance(people(path).account, kept)
    path = tmp_path / "refused.db"
    charge(opened(path, ldp.Budget(1, 1e-6, fixed=True)), PrivacyLoss.pure("0.9"))
    for asked, words in (
        (ldp.Budget("0.5", 1e-6, fixed=True), "for a list of releases: the list of its releases costs more"),
        (ldp.Budget("0.5", 1e-6, kind="zcdp"), "kept by a zcdp filter: no filter of it admits"),
        (ldp.Budget("0.5", 1e-6), "cannot be epsilon = 0.5, delta = 1e-06: the list"),
    ):
        with pytest.raises(ldp.BudgetExceeded, match=words):
            LedgerFile(path).set_budget("people", asked)


def test_what_a_later_cohort_pays_changes_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    charge(opened(path, ldp.Budget(3, 1e-6)), PrivacyLoss.pure("0.3"))
    rule = people(path).account
    assert isinstance(rule, Filter)
    with closing(sqlite3.connect(path)) as connection:
        before = read_paid(connection, 1, (0, 0))[0]
        pay(connection, 1, rule, Row((2, 3), (), PrivacyLoss.pure("0.5")))
        found = read_paid(connection, 1, (0, 3))
        assert read_paid(connection, 1, (2, 2)) == {2: found[2]}
        assert connection.execute("SELECT count(*) FROM paid").fetchone() == (3,)
    assert before.pure == Fraction("0.3") and found[0] == before and found[1] == Cost()
    assert found[2] == found[3] and found[3].pure == Fraction("0.5")


def test_a_lowered_budget_leaves_the_larger_promise(tmp_path: Path) -> None:
    """Of what was charged under a budget; one under which nothing was charged is forgotten."""
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    file.add("people", ldp.Budget(9))
    file.set_budget("people", ldp.Budget(2))
    charge(people(path), PrivacyLoss.pure("0.5"))
    file.set_budget("people", ldp.Budget(1))
    assert people(path).promised == ldp.Budget(Fraction(2), Fraction(0))
    assert "Everything together keeps the largest that it had: epsilon = 2, delta = 0." in describe_ledger(str(path))
    [entry] = charge(people(path), PrivacyLoss.pure("0.25"), name="more").entries
    assert entry.budgets == ((Fraction(2), Fraction(0)), (Fraction(1), Fraction(0)))
    file.set_budget("people", ldp.Budget(3))
    assert people(path).promised == ldp.Budget(Fraction(3), Fraction(0))
