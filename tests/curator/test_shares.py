"""Shares of a budget that are reserved to analysts."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, LABELS, SYSTEM, response, with_prior
from labeldp.curator import Curator, LedgerFile


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
        with pytest.raises(ldp.BudgetExceeded, match=r"budget exceeded for .* Nothing was charged"):
            release(curator(analyst), 0.9)
    ledger = LedgerFile(tmp_path / "l.db").dataset("people")
    assert ledger.spent.epsilon() <= 4


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
    used = ledger.dataset("people").read().used_by
    assert set(used) == set(who) and all(Fraction(9, 10) < share <= 1 for share in used.values())
    assert ledger.dataset("people").read().keeps_promise


def test_a_share_has_both_books(tmp_path: Path) -> None:
    """A quarter of a budget with a delta admits a quarter of its epsilon, which a share of rates alone did not."""
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(1, 1e-6))
    ledger.reserve("people", {"ana": "0.25"})
    release(Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people", analyst="ana")), 0.25)
    assert ledger.dataset("people", analyst="ana").used() == 1
    assert ledger.shares("people") == {"ana": ldp.Budget(0.25, 2.5e-7)}


def test_whoever_names_no_analyst_has_what_is_left_by_their_first_release(tmp_path: Path) -> None:
    curator = shared(tmp_path / "l.db", ana="0.5")
    first = release(curator(""), 2)
    assert first.certificate.entries[0].budgets == ((Fraction(2), Fraction(0)),)
    assert "the share of those who name no analyst" not in first.certificate.at(0)
    ledger = LedgerFile(tmp_path / "l.db")
    with pytest.raises(ldp.BudgetExceeded, match=r"the shares exceed the rest of the budget of .* nothing was"):
        ledger.reserve("people", {"ben": "0.1"})
    assert set(ledger.shares("people")) == {"ana"}
    ledger.change("people", budget=ldp.Budget(5))  # nobody who is there has more
    with pytest.raises(ldp.BudgetExceeded, match=r"epsilon = 2 of .* Nothing was charged"):
        release(curator(""), 0.5)
    with pytest.raises(ldp.BudgetExceeded, match="its analysts have more than that together"):
        ledger.change("people", budget=ldp.Budget("3.9"))
    ledger.reserve("people", {"ben": "0.2"})
    release(curator("ben"), 1)


def test_a_budget_that_is_reserved_as_a_whole_leaves_nothing(tmp_path: Path) -> None:
    curator = shared(tmp_path / "l.db", ana="0.5", ben="0.5")
    with pytest.raises(ldp.BudgetExceeded, match="reserved to analysts as a whole; nothing was charged"):
        release(curator(""), 0.1)


def test_an_account_whose_budget_changed_counts_once_for_each_of_them(tmp_path: Path) -> None:
    """The largest of each number holds for one account alone: two of them reach up to 1.6 times that (Theorem 8)."""
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(1, 1e-6))
    owner = Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people"))
    for number, budget in enumerate((ldp.Budget(2, 1e-7), ldp.Budget(5, "2.2e-6"))):
        release(owner, 0.1 + number / 100)
        ledger.change("people", budget=budget)
    with pytest.raises(ldp.BudgetExceeded, match="the shares exceed"):  # 1 and 2 were charged under, and 5 is there now
        ledger.reserve("people", {"ana": "0.01"})


def test_a_certificate_of_an_analyst_states_their_share(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "l.db")
    ledger.add("people", ldp.Budget(2, 1e-6))
    ledger.reserve("people", {"ana": "0.5", "ben": "0.5"})
    found = {}
    for who in ("ana", "ben"):
        holder = Curator(LABELS, domain=DOMAIN, ledger=ledger.dataset("people", analyst=who))
        found[who] = [release(holder, epsilon) for epsilon in (0.6, 0.4)]
    mine = ldp.gather(found["ana"], lambda *_: None).certificate
    assert "a sum of ε = 1 for these outputs" in mine.at(0)
    assert "for all releases to 'ana', now or later" in mine.at(1e-6)
    assert "beyond what releases to others tell" in mine.at(1e-6)
    both = ldp.gather([*found["ana"], *found["ben"]], lambda *_: None).certificate
    assert both.epsilon(1e-6) == 2
    assert "the sum of the budgets of 'ana' and 'ben', for all releases to them" in both.at(1e-6)
    assert "beyond what releases to others tell" in both.at(1e-6)


def test_nobody_is_answered_from_anothers_releases_and_noise_is_of_ones_own(tmp_path: Path) -> None:
    curator = shared(tmp_path / "l.db", ana="0.5", ben="0.5")
    first, again, other = (release(curator(who)) for who in ("ana", "ana", "ben"))
    assert np.array_equal(first.value, again.value) and first.certificate == again.certificate
    assert not np.array_equal(first.value, other.value)
    assert first.certificate.entries[0].id != other.certificate.entries[0].id
    entries = LedgerFile(tmp_path / "l.db").dataset("people").read().entries
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
            curator("ana").require({"more": response(1)})
        told.append((str(refusal.value), set(mine.certificate.entries[0].facts), curator("ana").ledger.used()))
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
    ledger.reserve("people", {"ana": "0.5"})
    for part in ("0.49", "0.51"):
        with pytest.raises(ldp.privacy.LedgerError, match="a share is never divided again; nothing was changed"):
            ledger.reserve("people", {"ana": part})


def test_splits_count_in_parallel_for_each_analyst(tmp_path: Path) -> None:
    curator = shared(tmp_path / "l.db", ana="0.25", ben="0.75")
    for who in ("ana", "ben"):
        for part in curator(who).split(ldp.Public(np.arange(len(LABELS)) % 2, why="rows alternate")):
            release(part, 1)
    with pytest.raises(ldp.BudgetExceeded):
        release(curator("ana"), 0.01)
    release(curator("ben"), 2)
    assert LedgerFile(tmp_path / "l.db").dataset("people", analyst="ana").used() == 1
