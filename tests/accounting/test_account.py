"""An account keeps its budget against every adaptive strategy of a few steps, and refuses no more than it must."""

import math
import random
from collections.abc import Hashable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from accounting.strategies import Pair, best, orders, some_release
from labeldp.accounting import Account, Books, Cost, Entry, Limits, Policy, block_cost
from labeldp.privacy import Block, Budget, BudgetExceeded, OpenPlan, Plan, PrivacyLoss, Step


def block(*losses: PrivacyLoss) -> Block:
    return Block(tuple(Step("", loss) for loss in losses))


class Player(NamedTuple):
    """Books, and every budget under which something was charged to them."""

    books: Books
    plan: Plan | None = None
    versions: tuple[Budget, ...] = ()

    def charge(self, loss: PrivacyLoss) -> "Player":
        """Charge a release; with a plan that it is a step of, that."""
        books = self.books.charge(Step("", loss), [self.plan] if self.plan and not self.books.plans else []).books
        paid = books.entries != self.books.entries
        versions = tuple(dict.fromkeys((*self.versions, *([books.account.budget] if paid else []))))
        return Player(books, self.plan, versions)


def admitted(loss: PrivacyLoss, budget: Budget, most: int = 600) -> int:
    books = Books(Account("'p'", budget))
    for count in range(most):
        try:
            books = books.charge(Step("", loss)).books
        except BudgetExceeded:
            return count
    return most


@pytest.mark.parametrize(
    ("epsilon", "each", "count"),
    [("1", "0.02", 127), ("1", "0.03", 55), ("1", "0.05", 20), ("1", "0.1", 10), ("3", "0.06", 105), ("8", "0.16", 82)],
)
def test_so_many_small_releases_are_admitted(epsilon: str, each: str, count: int) -> None:
    """Golden values; the loss book alone admits epsilon / each."""
    assert admitted(PrivacyLoss.pure(each), Budget(epsilon, "1e-6")) == count


def test_epsilon_adds_up_exactly_without_a_delta() -> None:
    assert admitted(PrivacyLoss.pure("0.1"), Budget(1)) == 10
    assert admitted(PrivacyLoss.gaussian(0.1), Budget(1)) == 0


def test_one_release_or_one_plan_may_cost_the_whole_budget() -> None:
    whole = PrivacyLoss.approximate(1, "1e-6")
    books = Books(Account("'p'", Budget(1, "1e-6"))).charge(Step("", whole)).books
    assert books.account.policy is Policy.PLAN
    with pytest.raises(BudgetExceeded, match=r": 100 % of .* is used.* Nothing was charged"):
        books.charge(Step("", PrivacyLoss.pure("0.001")))
    sums = [PrivacyLoss.gaussian(0.1)] * 5
    mu = (PrivacyLoss.gaussian(0.1) * 5).epsilon("1e-6")
    books = Books(Account("'p'", Budget(mu, "1e-6")))
    plan = Plan("all", block(*sums).steps)
    assert books.charge(Step("", sums[0]), [plan]).books.account.policy is Policy.PLAN


def test_a_refused_first_block_decides_nothing() -> None:
    account = Account("'p'", Budget(1, "1e-6"))
    with pytest.raises(BudgetExceeded):
        account.admit(block(PrivacyLoss.pure(2)), ())
    assert account.policy is None
    assert account.admit(block(PrivacyLoss.pure("0.1")), ()).account.policy is Policy.ADAPTIVE


def test_a_release_without_a_delta_budget_says_what_is_missing() -> None:
    with pytest.raises(BudgetExceeded, match=r"delta = 0, and this costs a delta\. .* Nothing was charged"):
        Account("'p'", Budget(1)).admit(block(PrivacyLoss.gaussian(0.1)), ())


def test_parts_of_a_split_are_charged_in_parallel_and_splits_add_up() -> None:
    half = PrivacyLoss.pure("0.5")
    account, path = Account("'p'", Budget(1)), lambda split, part: ((split, part),)
    entries: list[Entry] = []
    for place in [path("a", 0), path("a", 1), path("b", 0)]:
        entries.append(account.admit(Block((Step("", half, place),)), entries).entry)
    for place in [path("c", 0), path("b", 0), ()]:  # a record of b's part 0 may be in either part of a
        with pytest.raises(BudgetExceeded, match=r"bring it to 1\.5"):
            account.admit(Block((Step("", half, place),)), entries)
    account.admit(Block((Step("", half, path("b", 1)),)), entries)


def test_cohorts_pay_for_themselves() -> None:
    one = PrivacyLoss.pure(1)
    account, entries = Account("'p'", Budget(1)), [Entry((0, 0), (), block_cost(block(one), Limits(Fraction(1)), ()))]
    account.admit(Block((Step("", one, span=(1, 1)),)), entries)
    with pytest.raises(BudgetExceeded):
        account.admit(Block((Step("", one, span=(0, 1)),)), entries)


def test_a_plan_costs_what_its_worst_record_pays() -> None:
    parts = [Step("", PrivacyLoss.pure(1), (("s", part),)) for part in range(3)]
    everyone = Step("", PrivacyLoss.pure("0.5"))
    plan = Block((*parts, everyone))
    assert (plan.path, block_cost(plan, Limits(Fraction(2)), ()).loss) == ((), Fraction(3, 2))
    assert Block(tuple(parts[:1])).path == (("s", 0),)


@pytest.mark.guarantee("labeldp.privacy:OpenPlan", "steps_once")
@pytest.mark.parametrize(
    ("taken", "asked", "free"),
    [
        ([], (), True),
        ([()], (), False),
        ([(("s", 0),)], (("s", 1),), True),
        ([(("s", 0),)], (("s", 0),), False),
        ([(("s", 0),)], (), False),
        ([()], (("s", 0),), False),
        ([(("s", 0),)], (("t", 1),), False),
        ([(("s", 0),)], (("s", 0), ("u", 1)), False),
    ],
)
def test_a_step_of_a_plan_is_taken_once_by_each_record(taken: list[Any], asked: Any, free: bool) -> None:
    loss = PrivacyLoss.pure(1)
    plan = OpenPlan(Plan("p", (Step("", loss, span=(0, 1)),)))
    for path in taken:
        plan = plan.take(0, Step("", loss, path, span=(0, 1)))
    assert (plan.find(Step("", loss, asked, span=(0, 1))) == 0) is free
    assert plan.find(Step("", loss, asked, span=(0, 2))) is None
    assert plan.find(Step("", PrivacyLoss.pure(2), asked, span=(0, 1))) is None
    assert plan.is_done is (() in taken)


LOSSES = {"response": PrivacyLoss.response, "approximate": PrivacyLoss.approximate, "gaussian": PrivacyLoss.gaussian}


def release(g: random.Random, budget: Budget) -> tuple[Pair, PrivacyLoss]:
    limits = Limits.of(budget, Policy.ADAPTIVE)
    rate = float(limits.rate)
    pair, kind, arguments = some_release(g, float(budget.epsilon), float(budget.delta), rate)
    return pair, LOSSES[kind](*arguments)


def game(g: random.Random, accounts: int) -> float:
    """Return the largest delta that a strategy reaches, as a share of what is promised.

    Moves: a release to one of the accounts, a declared plan, a step of it, another budget.
    """
    first = [Budget(round(g.uniform(0.3, 1.5), 2), g.choice((0.3, 0.1, 0.02))) for _ in range(accounts)]
    second = [Budget(round(float(b.epsilon) * g.uniform(0.5, 1.6), 2), b.delta * g.choice((0.3, 1.7))) for b in first]
    menu = [[release(g, budget) for _ in range(2)] for budget in first]
    steps = [release(g, first[0]) for _ in range(2)]
    plan = Plan("declared", tuple(Step("", loss) for _, loss in steps))

    def moves(state: Hashable) -> Iterator[tuple[Pair | None, Hashable]]:
        everyone: tuple[Player, ...] = state  # type: ignore[assignment]
        for number, player in enumerate(everyone):

            def after(changed: Player, number: int = number) -> tuple[Player, ...]:
                return (*everyone[:number], changed, *everyone[number + 1 :])

            for pair, loss in [*menu[number], *(steps if player.plan else [])]:
                try:
                    charged = after(player.charge(loss))
                except BudgetExceeded:
                    continue
                yield from ((order, charged) for order in orders(pair))
            if number == 0 and player.plan is None:
                yield None, after(player._replace(plan=plan))
            if player.books.account.budget == first[number]:
                account = player.books.account.under(second[number])
                yield None, after(player._replace(books=replace(player.books, account=account)))

    graph: dict[Hashable, list[tuple[Pair | None, Hashable]]] = {}

    def cached(state: Hashable) -> list[tuple[Pair | None, Hashable]]:
        if state not in graph:
            graph[state] = list(moves(state))
        return graph[state]

    def promise(state: Hashable) -> tuple[float, float]:
        """One account: the largest budget that it had. Several: an account counts once for each of its budgets."""
        everyone: tuple[Player, ...] = state  # type: ignore[assignment]
        if accounts == 1:
            versions = everyone[0].versions or (first[0],)
            return max(float(b.epsilon) for b in versions), max(float(b.delta) for b in versions)
        versions = tuple(b for player in everyone for b in player.versions) or (first[0],)
        return sum(float(b.epsilon) for b in versions), sum(float(b.delta) for b in versions)

    start: Hashable = tuple(Player(Books(Account(str(number), budget))) for number, budget in enumerate(first))
    reached = 0.0
    for bounds in sorted(_promises(start, cached, promise, 3)):

        def may_end(state: Hashable, bounds: tuple[float, float] = bounds) -> bool:
            epsilon, delta = promise(state)
            return epsilon <= bounds[0] and delta <= bounds[1]

        true = best(start, cached, may_end, math.exp(bounds[0]), 3)
        reached = max(reached, true / bounds[1])
    return reached


def _promises(state: Hashable, moves: Any, promise: Any, depth: int) -> set[tuple[float, float]]:
    found = {promise(state)}
    if depth:
        for _, after in moves(state):
            found |= _promises(after, moves, promise, depth - 1)
    return found


@pytest.mark.guarantee("labeldp.accounting:Books", "books")
@pytest.mark.guarantee("labeldp.accounting:Limits", "limits")
@pytest.mark.parametrize("accounts", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_no_strategy_passes_the_budget(seed: int, accounts: int) -> None:
    assert game(random.Random(f"{seed} {accounts}"), accounts) <= 1 + 1e-9


@pytest.mark.parametrize("place", range(4))
def test_a_stored_cost_is_not_negative(place: int) -> None:
    """Whoever writes to a ledger file cannot give budget back by a negative sum."""
    texts = ["1/2", "0", "3", "1/8"]
    assert Cost.from_texts(*texts).to_texts() == tuple(texts)
    texts[place] = "-5"
    with pytest.raises(ValueError, match="a cost is not negative"):
        Cost.from_texts(*texts)
