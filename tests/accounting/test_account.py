"""An account keeps its budget against every adaptive strategy of a few steps, and refuses no more than it must."""

import math
import random
from collections.abc import Hashable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from accounting.strategies import Pair, best, orders, some_release
from labeldp.accounting import Account, Block, DeclaredPlan, Entry, Limits, Policy, Step
from labeldp.privacy import Budget, BudgetExceeded, PrivacyLoss

EVERYWHERE: Any = ((0, 0), ())


def block(*losses: PrivacyLoss) -> Block:
    return Block.of([Step(*EVERYWHERE, loss) for loss in losses])


class Books(NamedTuple):
    """An account with what it was charged, and every budget under which it was."""

    account: Account
    entries: tuple[Entry, ...] = ()
    plan: DeclaredPlan | None = None
    versions: tuple[Budget, ...] = ()

    def charge(self, charged: Block) -> "Books":
        policy, limits, cost = self.account.admit(charged, self.entries)
        total = cost + self.entries[0].cost if self.entries else cost
        account = Account(self.account.name, self.account.budget, policy, limits)
        versions = tuple(dict.fromkeys((*self.versions, account.budget)))
        return Books(account, (Entry((0, 0), (), total),), self.plan, versions)


def admitted(loss: PrivacyLoss, budget: Budget, most: int = 600) -> int:
    books = Books(Account("p", budget))
    for count in range(most):
        try:
            books = books.charge(block(loss))
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
    books = Books(Account("p", Budget(1, "1e-6"))).charge(block(whole))
    assert books.account.policy is Policy.PLAN
    with pytest.raises(BudgetExceeded, match="100 % is used up"):
        books.charge(block(PrivacyLoss.pure("0.001")))
    sums = [PrivacyLoss.gaussian(0.1)] * 5
    mu = (PrivacyLoss.gaussian(0.1) * 5).epsilon("1e-6")
    assert Books(Account("p", Budget(mu, "1e-6"))).charge(block(*sums)).account.policy is Policy.PLAN


def test_a_refused_first_block_decides_nothing() -> None:
    account = Account("p", Budget(1, "1e-6"))
    with pytest.raises(BudgetExceeded):
        account.admit(block(PrivacyLoss.pure(2)), ())
    assert account.policy is None
    assert account.admit(block(PrivacyLoss.pure("0.1")), ()).policy is Policy.ADAPTIVE


def test_a_release_without_a_delta_budget_says_what_is_missing() -> None:
    with pytest.raises(BudgetExceeded, match="needs a delta, and the budget has delta = 0"):
        Account("p", Budget(1)).admit(block(PrivacyLoss.gaussian(0.1)), ())


def test_parts_of_a_split_are_charged_in_parallel_and_splits_add_up() -> None:
    half = PrivacyLoss.pure("0.5")
    account, path = Account("p", Budget(1)), lambda split, part: ((split, part),)
    entries: list[Entry] = []
    for place in [path("a", 0), path("a", 1), path("b", 0)]:
        cost = account.admit(Block.of([Step((0, 0), place, half)]), entries).cost
        entries.append(Entry((0, 0), place, cost))
    for place in [path("c", 0), path("b", 0), ()]:  # a record of b's part 0 may be in either part of a
        with pytest.raises(BudgetExceeded, match=r"epsilon = 1\.5"):
            account.admit(Block.of([Step((0, 0), place, half)]), entries)
    account.admit(Block.of([Step((0, 0), path("b", 1), half)]), entries)


def test_cohorts_pay_for_themselves() -> None:
    one = PrivacyLoss.pure(1)
    account, entries = Account("p", Budget(1)), [Entry((0, 0), (), block(one).cost(Limits(Fraction(1)), ()))]
    account.admit(Block.of([Step((1, 1), (), one)]), entries)
    with pytest.raises(BudgetExceeded):
        account.admit(Block.of([Step((0, 1), (), one)]), entries)


def test_a_plan_costs_what_its_worst_record_pays() -> None:
    parts = [Step((0, 0), (("s", part),), PrivacyLoss.pure(1)) for part in range(3)]
    everyone = Step((0, 0), (), PrivacyLoss.pure("0.5"))
    plan = Block.of([*parts, everyone])
    assert (plan.path, plan.cost(Limits(Fraction(2)), ()).loss) == ((), Fraction(3, 2))
    assert Block.of(parts[:1]).path == (("s", 0),)


@pytest.mark.guarantee("labeldp.accounting:DeclaredPlan", "whole_plan")
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
    plan = DeclaredPlan((Step((0, 1), (), loss),))
    for path in taken:
        plan = plan.take(0, Step((0, 1), path, loss))
    assert (plan.find(Step((0, 1), asked, loss)) == 0) is free
    assert plan.find(Step((0, 2), asked, loss)) is None
    assert plan.find(Step((0, 1), asked, PrivacyLoss.pure(2))) is None


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
    plan = DeclaredPlan(tuple(Step(*EVERYWHERE, loss) for _, loss in steps))

    def moves(state: Hashable) -> Iterator[tuple[Pair | None, Hashable]]:
        everyone: tuple[Books, ...] = state  # type: ignore[assignment]
        for number, books in enumerate(everyone):

            def after(changed: Books, number: int = number) -> tuple[Books, ...]:
                return (*everyone[:number], changed, *everyone[number + 1 :])

            for pair, loss in menu[number]:
                try:
                    charged = after(books.charge(block(loss)))
                except BudgetExceeded:
                    continue
                yield from ((order, charged) for order in orders(pair))
            if number == 0 and books.plan is None:
                with suppress(BudgetExceeded):
                    yield None, after(books.charge(plan.block)._replace(plan=plan))
            elif books.plan is not None:
                for pair, loss in steps:
                    step = Step(*EVERYWHERE, loss)
                    index = books.plan.find(step)
                    if index is not None:
                        taken = after(books._replace(plan=books.plan.take(index, step)))
                        yield from ((order, taken) for order in orders(pair))
            if books.account.budget == first[number]:
                yield None, after(books._replace(account=books.account.under(second[number])))

    graph: dict[Hashable, list[tuple[Pair | None, Hashable]]] = {}

    def cached(state: Hashable) -> list[tuple[Pair | None, Hashable]]:
        if state not in graph:
            graph[state] = list(moves(state))
        return graph[state]

    def promise(state: Hashable) -> tuple[float, float]:
        """One account: the largest budget that it had. Several: an account counts once for each of its budgets."""
        everyone: tuple[Books, ...] = state  # type: ignore[assignment]
        if accounts == 1:
            versions = everyone[0].versions or (first[0],)
            return max(float(b.epsilon) for b in versions), max(float(b.delta) for b in versions)
        versions = tuple(b for books in everyone for b in books.versions) or (first[0],)
        return sum(float(b.epsilon) for b in versions), sum(float(b.delta) for b in versions)

    start: Hashable = tuple(Books(Account(str(number), budget)) for number, budget in enumerate(first))
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


@pytest.mark.guarantee("labeldp.accounting:Limits", "limits")
@pytest.mark.parametrize("accounts", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_no_strategy_passes_the_budget(seed: int, accounts: int) -> None:
    assert game(random.Random(f"{seed} {accounts}"), accounts) <= 1 + 1e-9
