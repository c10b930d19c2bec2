"""Declared plans are charged as a whole with their first release, and their other steps are free."""

from fractions import Fraction
from typing import Any

import pytest

from labeldp.accounting import Account, Books, Declarations
from labeldp.privacy import Budget, BudgetExceeded, Path, PrivacyLoss, Step

LEFT, RIGHT, OTHER = ((("s", 0),), (("s", 1),), (("t", 0),))

pure = PrivacyLoss.pure


class User:
    """Somebody who declares releases and makes them."""

    def __init__(self, budget: Budget) -> None:
        self.books = Books(Account("'p'", budget))
        self.declared = Declarations()

    def declare(self, *steps: Step) -> None:
        self.declared.add(self.books, steps)

    def release(self, loss: PrivacyLoss, path: Path = ()) -> tuple[str | None, Fraction | None]:
        """Make a release; return the name of its plan, and what the loss book counts in all for its records."""
        self.books, plan, _ = self.books.charge(Step("", loss, path), self.declared.plans)
        self.declared.charged(plan)
        paid = sum((entry.cost.loss or 0 for entry in self.books.entries), Fraction(0))
        return plan.plan.name if plan else None, paid


def test_a_step_is_taken_once_by_each_of_disjoint_parts() -> None:
    user = User(Budget(9))
    user.declare(Step("a", pure(1)), Step("b", pure(2), LEFT))
    first, paid = user.release(pure("0.5"), LEFT)  # a smaller loss takes the step of its own part
    assert first is not None and paid == 3
    user.declare(Step("c", pure(1)))  # it is paid already
    assert user.declared.plans == ()
    assert user.release(pure(1), LEFT) == (first, 3)  # that of all records
    assert user.release(pure(1), RIGHT) == (first, 3)
    assert user.release(pure(1), RIGHT) == (None, 4)
    assert user.release(pure(1)) == (None, 5)
    assert user.release(pure(1), OTHER) == (None, 6)


def test_what_is_declared_last_about_some_records_is_their_plan() -> None:
    user = User(Budget(2))
    user.declare(Step("a", pure(1), times=2))
    user.declare(Step("b", pure("1.5")), Step("c", PrivacyLoss.zero()))  # another learner, after the first gave up
    assert user.release(PrivacyLoss.response("1.5", 5))[1] == Fraction(3, 2)
    user = User(Budget(2))
    user.declare(Step("a", pure(2), LEFT))
    user.declare(Step("b", pure(1), RIGHT), Step("c", pure(1), RIGHT))
    assert user.release(pure(1), RIGHT)[1] == 2
    assert user.release(pure(2), LEFT)[0] is not None
    user = User(Budget(2))
    user.release(pure(1), LEFT)
    user.declare(Step("a", pure(1), LEFT), Step("b", pure(2), RIGHT))  # a plan for each part
    assert len(user.declared.plans) == 2


def test_a_declaration_that_is_refused_declares_nothing() -> None:
    user = User(Budget(2))
    with pytest.raises(BudgetExceeded, match=r"bring it to 3\. Nothing was charged"):
        user.declare(Step("a", pure(1), times=3))
    assert user.declared.plans == () and user.books.entries == ()
    user.declare(Step("a", pure(1)), Step("c", pure("0.5")))
    with pytest.raises(BudgetExceeded):
        user.declare(Step("a", pure(1)), Step("b", pure("1.5")))
    assert user.release(pure(1))[1] == Fraction(3, 2)


@pytest.mark.parametrize("budget", [Budget(1), Budget(1, "1e-6")])
def test_opening_a_plan_is_admitted_again(budget: Budget) -> None:
    user = User(budget)
    user.declare(Step("a", pure("0.4")), Step("b", pure("0.3")))
    user.release(pure("0.5"))
    with pytest.raises(BudgetExceeded):
        user.release(pure("0.3"))
    assert user.release(pure("0.5"))[0] is None


def test_steps_of_unlike_losses_are_charged_at_the_curve_of_all() -> None:
    steps: list[Any] = [Step("", PrivacyLoss.gaussian(0.05), times=16)]
    user = User(Budget(1, "1e-6"))
    user.declare(*steps)
    name, _ = user.release(PrivacyLoss.gaussian(0.05))
    assert user.books.account.used([entry.cost for entry in user.books.entries]) == pytest.approx(0.745, abs=0.05)
    assert all(user.release(PrivacyLoss.gaussian(0.05))[0] == name for _ in range(15))
    assert user.release(PrivacyLoss.gaussian(0.05))[0] is None
    assert user.books.plans == ()
