"""Shares of a budget that are reserved to analysts."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, LABELS, SYSTEM, response, with_prior
from labeldp.curator import Curator, DatasetLedger, LedgerFile
from labeldp.privacy import Filter, PrivacyLoss, joint_costs


def shared(path: Path, budget: ldp.Budget | None = None, **parts: Any) -> Callable[[str], Curator]:
    """A function that makes a curator of "people" for an analyst."""
    ledger = LedgerFile(path)
    ledger.add("people", budget or ldp.Budget(epsilon=4))
    ledger.reserve("people", parts)
    return lambda analyst: Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people", analyst=analyst))


def release(curator: Curator, epsilon: float = 1.0, step: str | None = None) -> ldp.Release[Any]:
    return curator.release(response(epsilon), rng=curator.ledger.randomness, step=step)


@pytest.mark.guarantee("labeldp.curator:LedgerFile.reserve", "analysts_together")
def test_analysts_who_show_each_other_everything_never_learn_more_than_the_budget_promises(tmp_path: Path) -> None:
    curator = shared(tmp_path / "l.db", ana="0.5", ben="0.25")
    for analyst, most in (("ana", 2), ("ben", 1), ("", 1)):
        for number in range(most):
            release(curator(analyst), 1 - number / 10**6)
        with pytest.raises(ldp.BudgetExceeded, match="your share"):
            release(curator(analyst), 0.9)
    ledger = LedgerFile(tmp_path / "l.db").dataset("people")
    assert ledger.spent.epsilon() <= 4


@pytest.mark.guarantee("labeldp.curator:Share", "within_budget")
def test_what_all_shares_admit_together_is_within_the_budget_however_releases_are_chosen(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(1, 1e-6))
    ledger.reserve("people", {"ana": "0.3", "ben": "0.7"})
    rng, who = np.random.default_rng(0), ["ana", "ben"]
    for number in range(200):
        mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=float(rng.integers(1, 40)) / 1000 + number / 10**6)
        curator = Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people", analyst=who[rng.integers(2)]))
        try:
            curator.release(mechanism, rng=SYSTEM)
        except ldp.BudgetExceeded:
            continue
    whole = ledger.dataset("people")
    used = whole.used()
    assert used is not None and Fraction(9, 10) < used <= 1
    assert all(ledger.dataset("people", analyst=each).share_used > Fraction(9, 10) for each in who)


def test_a_part_of_the_losses_and_a_part_of_the_rates_are_more_than_the_whole() -> None:
    """Why a share is of rates alone where delta > 0: the "or" of the filter does not divide."""
    rule = Filter.of(1, "1e-6")
    mu = (float(rule.most) / 2) ** 0.5 * (1 - 1e-12)
    both = PrivacyLoss.pure("0.5") + PrivacyLoss.gaussian(mu)
    assert both.delta(1) > 40 * 1e-6
    half = rule.share(Fraction(1, 2))
    assert not half.admits((rule.cost(PrivacyLoss.pure("0.5")),))
    assert half.admits((rule.cost(PrivacyLoss.gaussian(mu)),))


@pytest.mark.parametrize("budget", [ldp.Budget(4), ldp.Budget(1, 1e-6), ldp.Budget(1, 1e-6, "zcdp")])
def test_parts_that_sum_to_one_admit_together_what_the_whole_admits(budget: ldp.Budget) -> None:
    rule = Filter.of(budget.epsilon, budget.delta, budget.kind or "gaussian", None if budget.delta else 0)
    parts = [Fraction(1, 3), Fraction(1, 2), Fraction(1, 6)]
    for loss in (PrivacyLoss.pure("0.003"), PrivacyLoss.response(0.01, 5), PrivacyLoss.gaussian(0.001)):
        cost = rule.cost(loss)
        counts = []
        for part in parts:
            count = 0
            while count < 10**4 and rule.share(part).admits((cost * (count + 1),)):
                count += 1
            counts.append(count)
        assert sum(counts) == 0 or rule.admits((cost * sum(counts),))


def test_nobody_is_answered_from_anothers_releases_and_noise_is_of_ones_own(tmp_path: Path) -> None:
    curator = shared(tmp_path / "l.db", ana="0.5", ben="0.5")
    first, again, other = (release(curator(who)) for who in ("ana", "ana", "ben"))
    assert np.array_equal(first.value, again.value) and first.certificate == again.certificate
    assert not np.array_equal(first.value, other.value)
    assert first.certificate.entries[0].id != other.certificate.entries[0].id
    entries = LedgerFile(tmp_path / "l.db").dataset("people").entries
    assert [each.analyst for each in entries] == ["ana", "ben"]


def test_stages_of_two_analysts_are_not_found_by_each_other(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(epsilon=4))
    ledger.reserve("people", {"ana": "0.5", "ben": "0.5"})
    found = {}
    for who, seed in (("ana", 1), ("ben", 2), ("ana", 3)):
        account = ledger.dataset("people", analyst=who)
        curator = Curator(LABELS, domain=DOMAIN, ledger=account, run="fit")
        assert curator.has_released(with_prior(seed), step="stage 2") == (who in found)
        release = curator.release(with_prior(seed), rng=account.randomness, step="stage 2")
        assert release.mechanism.specification() == found.setdefault(who, with_prior(seed)).specification()
    assert len(ledger.dataset("people").charges) == 2


def test_what_one_is_told_does_not_depend_on_what_others_were_charged(tmp_path: Path) -> None:
    told = []
    for charged in (False, True):
        curator = shared(tmp_path / f"{charged}.db", ana="0.5", ben="0.5")
        if charged:
            release(curator("ben"), 2)
        mine = release(curator("ana"), 1.5)
        with pytest.raises(ldp.BudgetExceeded) as refusal:
            curator("ana").require({"more": PrivacyLoss.pure(1)})
        facts = {name: fact for name, fact in mine.certificate.entries[0].facts.items() if name in ("total", "filter")}
        told.append((str(refusal.value), facts, curator("ana").ledger.share_used))
    assert told[0] == told[1] and told[0][2] == Fraction(3, 4)


def test_shares_that_are_no_shares_are_refused_and_charge_nothing(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(epsilon=4))
    for parts in ({"ana": "0.6", "ben": "0.41"}, {"ana": -1}, {"": "0.5"}, {"ana": 2}, {"ana": "much"}):
        with pytest.raises(ldp.privacy.InputError, match="shares"):
            ledger.reserve("people", parts)
    with pytest.raises(ldp.privacy.LedgerError, match="reserve"):
        Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people", analyst="ana")).release(response(), rng=SYSTEM)
    ledger.reserve("people", {"ana": "0.5"})
    release(Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people", analyst="ana")), 2)
    with pytest.raises(ldp.BudgetExceeded, match="less than was charged"):
        ledger.reserve("people", {"ana": "0.49"})
    with pytest.raises(ldp.BudgetExceeded, match="less than was charged"):
        ledger.reserve("people", {"ben": "0.1"})
    with pytest.raises(ldp.BudgetExceeded, match="less than was charged"):
        ledger.set_budget("people", ldp.Budget(epsilon=3.9))
    ledger.set_budget("people", ldp.Budget(epsilon=8))
    release(Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people", analyst="ana")), 1.9)
    with pytest.raises(ldp.BudgetExceeded):  # its rates and failures are less than was charged
        ledger.set_budget("people", ldp.Budget(8, 1e-6))


def test_a_new_kind_of_budget_has_its_filter_pinned_at_once(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(epsilon=4))
    ledger.reserve("people", {"ana": "0.5"})
    ledger.set_budget("people", ldp.Budget(4, 1e-6))
    assert ledger.dataset("people").account == Filter.of(4, 1e-6)


def test_a_list_of_releases_has_no_shares(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(1, 1e-6, fixed=True))
    with pytest.raises(ldp.privacy.LedgerError, match="list of releases"):
        ledger.reserve("people", {"ana": "0.5"})


def test_splits_count_in_parallel_for_each_analyst(tmp_path: Path) -> None:
    curator = shared(tmp_path / "l.db", ana="0.25", ben="0.75")
    for who in ("ana", "ben"):
        for part in curator(who).split(ldp.Public(np.arange(len(LABELS)) % 2, why="rows alternate")):
            release(part, 1)
    with pytest.raises(ldp.BudgetExceeded):
        release(curator("ana"), 0.01)
    release(curator("ben"), 2)
    account: DatasetLedger = LedgerFile(tmp_path / "l.db").dataset("people", analyst="ana")
    share = account.share
    assert share is not None and account.share_used == 1
    assert share.own.admits(joint_costs(share.rule, account._charged(), 0))
