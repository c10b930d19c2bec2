"""Lists that are declared first, and which account the first charges choose."""

import pytest
from labeldp.privacy.accounts import declared, refused

import labeldp as ldp
from labeldp.privacy import BudgetExceeded, Filter, FixedList, PrivacyLoss, Row, account_from, settle
from privacy.test_filters import answer, reveal, worst_delta

BUDGET = ldp.Budget(1, "0.0383", fixed=True)


def rows(*losses: PrivacyLoss) -> list[Row]:
    """Charges on all records."""
    return [Row((0, 0), (), loss) for loss in losses]


@pytest.mark.guarantee("labeldp.privacy:FixedList", "within_list")
def test_a_list_may_be_asked_for_in_any_order() -> None:
    actions = [answer("0.5"), answer("0.3"), answer("0.31"), reveal("0.002")]
    asked = rows(*(loss for loss, _ in actions))
    listed = settle(BUDGET, None, (), asked[:1], asked, "labels")
    assert isinstance(listed, FixedList)
    with pytest.raises(BudgetExceeded, match="was declared in no list"):
        settle(BUDGET, None, asked[:1], asked[1:2], asked[1:], "labels")

    def admits(losses: tuple[PrivacyLoss, ...]) -> bool:
        try:
            return settle(BUDGET, listed, (), rows(*losses), (), "labels") == listed
        except BudgetExceeded:
            return False

    whole = PrivacyLoss.total((row.loss, 1) for row in asked)
    worst = worst_delta(1, actions, admits, 4)
    assert worst <= whole.delta(1) * (1 + 1e-9)
    assert worst > 0.5 * whole.delta(1)  # it is close to what the list may cost
    assert admits(tuple(row.loss for row in asked)) and not admits((asked[0].loss, asked[0].loss))


def test_parts_of_a_split_share_a_place_on_the_list_and_other_splits_do_not() -> None:
    loss = PrivacyLoss.pure("0.5")
    listed = settle(BUDGET, None, (), rows(loss, loss), (), "labels")
    first, second = (Row((0, 0), (("a", part),), loss) for part in (0, 1))
    other = Row((0, 0), (("b", 0),), loss)
    assert settle(BUDGET, listed, [first], [second], (), "labels") == listed
    assert settle(BUDGET, listed, [first, second], [other], (), "labels") == listed
    with pytest.raises(BudgetExceeded, match="declared before the first of them"):
        settle(BUDGET, listed, [first, second, other], [other], (), "labels")


def test_other_records_get_a_list_of_their_own() -> None:
    loss = PrivacyLoss.pure(1)
    listed = settle(BUDGET, None, (), [Row((0, 0), (("a", 0),), loss)], (), "labels")
    for asked in (Row((0, 0), (("a", 1),), loss), Row((1, 1), (), loss)):
        longer = settle(BUDGET, listed, listed.rows, [asked], (), "labels")  # type: ignore[union-attr]
        assert isinstance(longer, FixedList) and len(longer.rows) == 2
    for asked in (Row((0, 0), (("b", 1),), loss), Row((0, 1), (), loss), Row((0, 0), (("a", 0), ("c", 0)), loss)):
        with pytest.raises(BudgetExceeded):
            settle(BUDGET, listed, listed.rows, [asked], (), "labels")  # type: ignore[union-attr]


def test_the_first_list_chooses_a_filter_that_admits_it_or_stays_a_list() -> None:
    budget = ldp.Budget(3, "1e-6")
    many = [Row((0, 0), (), PrivacyLoss.pure("0.1"), times) for times in (20, 46, 47)]
    kept = settle(budget, None, (), [many[0]], (), "labels")
    assert isinstance(kept, Filter) and kept.failure == kept.delta / 10
    assert isinstance(settle(budget, None, (), [many[1]], (), "labels"), FixedList)
    with pytest.raises(BudgetExceeded, match="for a list of releases that is declared before the first"):
        settle(budget, None, (), [many[2]], (), "labels")
    with pytest.raises(BudgetExceeded, match="kept by a filter of kind 'zcdp'"):
        settle(ldp.Budget(3, "1e-6", kind="zcdp"), None, (), [many[1]], (), "labels")
    failing = rows(PrivacyLoss.approximate("0.5", "3e-7"))
    kept = settle(budget, None, (), failing, (), "labels")
    assert isinstance(kept, Filter) and kept.failure * 10 == 3 * kept.delta


def test_a_plan_that_was_given_up_does_not_stand_in_the_way() -> None:
    budget, loss = ldp.Budget(3, "1e-6"), PrivacyLoss.pure("0.1")
    kept = settle(budget, None, (), rows(loss), [Row((0, 0), (), loss, 200)], "labels")
    assert isinstance(kept, Filter)


def test_accounts_are_written_exactly() -> None:
    listed = FixedList((Row((0, 2), (("a", 1),), PrivacyLoss.gaussian(0.1), 3),))
    assert account_from(listed.to_json()) == listed
    assert account_from(Filter.of(1, "1e-6").to_json()) == Filter.of(1, "1e-6")


def test_what_is_declared_is_what_either_asks_for() -> None:
    loss = PrivacyLoss.pure("0.1")
    one, other = [Row((0, 0), (), loss, 2)], [Row((0, 0), (), loss, 3), Row((0, 0), (), PrivacyLoss.zero())]
    assert declared(one, other) == (Row((0, 0), (), loss, 3),)


def test_a_fixed_budget_in_memory_admits_what_was_declared() -> None:
    ledger = ldp.Ledger(BUDGET)
    curator = ldp.Curator(["no", "yes"] * 5, domain=ldp.Classes(("no", "yes")), ledger=ledger)
    one, two = (ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon) for epsilon in (0.5, 0.6))
    curator.require({"first": one.privacy_loss(), "second": two.privacy_loss()})
    curator.release(one, rng=ldp.SystemRandomness())
    curator.release(two, rng=ldp.SystemRandomness())
    with pytest.raises(BudgetExceeded, match="none of those that were"):
        curator.release(one, rng=ldp.SystemRandomness())


def test_a_refusal_says_how_full_a_filter_is() -> None:
    """Twice as full as it may be is still a number; a release without a cost for it has none."""
    budget, rule = ldp.Budget(1, "1e-6"), Filter.of(1, "1e-6", failure=0, tail=0)
    third, most = (rule.cost(PrivacyLoss.pure("0.25")),), (rule.cost(PrivacyLoss.pure("1.5")),)
    said = str(refused(budget, rule, third, most, "labels"))
    assert "of which 25 % is used up; this would bring it to 150 %" in said
    assert "it keeps nothing for releases of this kind" in str(refused(budget, rule, third, third, "labels"))
