"""Plans that were charged, and the books of an account: what was paid, and what is left of each plan."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

from labeldp.accounting.account import Account, Entry
from labeldp.privacy import Block, Path, Plan, PrivacyLoss, Step, can_take, most_met


@dataclass(frozen=True)
class OpenPlan:
    """A plan that was charged as a whole with the first of its releases, and the steps that were taken of it.

    Its other steps are free, in any order and however they are chosen. What is not taken is lost.

    Args:
        plan: what was declared.
        taken: the number of a step, with the records of the releases that took it.

    Guarantee (steps_once): which step a release takes is decided before its output, and no record meets a step more
        often than it was declared.

    Source: `docs/proofs/composition.md`, the account, Theorems 2 and 6.
    """

    plan: Plan
    taken: tuple[tuple[int, Step], ...] = ()

    def find(self, release: Step) -> int | None:
        """Return the number of a step that a release may take, the smallest part and the very loss first, or None.

        A step that a part took is gone for that part, for everything that contains it, for everything inside it, and
        for the parts of other splits.
        """
        steps = self.plan.steps
        order = sorted(range(len(steps)), key=lambda i: (-len(steps[i].path), steps[i].loss != release.loss))
        for number in order:
            step = steps[number]
            if can_take(step, release):
                takers = [taker for index, taker in self.taken if index == number]
                cohorts = range(release.span[0], release.span[1] + 1)
                if all(_most_taken([*takers, release], cohort, step.path) <= step.times for cohort in cohorts):
                    return number
        return None

    def take(self, number: int, release: Step) -> "OpenPlan":
        """Return the plan after a release took a step."""
        for index, (other, taker) in enumerate(self.taken):
            if other == number and (taker.span, taker.path) == (release.span, release.path):
                more = replace(taker, times=taker.times + release.times)
                return replace(self, taken=(*self.taken[:index], (number, more), *self.taken[index + 1 :]))
        taker = Step("", PrivacyLoss.zero(), release.path, release.times, release.span)
        return replace(self, taken=(*self.taken, (number, taker)))

    @property
    def is_done(self) -> bool:
        """Whether every step was taken as often as it was declared, by all of its records."""
        counts = [
            sum(t.times for index, t in self.taken if index == number and (t.span, t.path) == (step.span, step.path))
            for number, step in enumerate(self.plan.steps)
        ]
        return all(times >= step.times for times, step in zip(counts, self.plan.steps, strict=True))


def _most_taken(releases: Iterable[Step], cohort: int, part: Path) -> int:
    """How many of these releases a record of a cohort, in a part of it, meets at most."""
    depth = len(part)
    return most_met(
        (release.path[depth:], release.times) for release in releases if release.span[0] <= cohort <= release.span[1]
    )


class Payment(NamedTuple):
    """How one release is paid.

    Args:
        books: of the account, afterwards.
        plan: the plan that it takes a step of, as it is afterwards; None of a release alone.
        entry: what is added to the books; None where the plan was charged before, or nothing is paid.
    """

    books: "Books"
    plan: OpenPlan | None = None
    entry: Entry | None = None


@dataclass(frozen=True)
class Books:
    """An account with what was charged to it.

    Args:
        account: what keeps the budget.
        entries: the sum of what was paid at each place.
        plans: those that were charged and have steps left.

    Guarantee (books): with every release charged by `charge`, everything together keeps the budget, however it was
        chosen after looking at earlier outputs.

    Source: `docs/proofs/composition.md`, the account, Theorems 5, 6 and 9.
    """

    account: Account
    entries: tuple[Entry, ...] = ()
    plans: tuple[OpenPlan, ...] = ()

    def charge(self, release: Step, declared: Sequence[Plan] = ()) -> Payment:
        """Return how a release is paid: as a step of a plan that was charged, of a declared plan, or by itself.

        A declared plan is charged as a whole with the first of its releases.

        Args:
            release: what is asked for, once.
            declared: plans of which nothing was released yet.

        Raises:
            BudgetExceeded: neither book has room; nothing was charged.
        """
        if release.loss == PrivacyLoss.zero():
            return Payment(self)
        for index, plan in enumerate(self.plans):
            if (number := plan.find(release)) is not None:
                return Payment(self._with_plan(index, plan.take(number, release)), plan.take(number, release))
        for plan in map(OpenPlan, declared):
            if (number := plan.find(release)) is not None:
                account, entry = self.account.admit(Block(plan.plan.steps), self.entries)
                opened, plans = plan.take(number, release), (*self.plans, plan)
                books = Books(account, _added(self.entries, entry), plans)._with_plan(len(self.plans), opened)
                return Payment(books, opened, entry)
        account, entry = self.account.admit(Block((release,)), self.entries)
        return Payment(replace(self, account=account, entries=_added(self.entries, entry)), entry=entry)

    def _with_plan(self, index: int, plan: OpenPlan) -> "Books":
        """Return the books with a plan in place of another; one without steps goes."""
        left = () if plan.is_done else (plan,)
        return replace(self, plans=(*self.plans[:index], *left, *self.plans[index + 1 :]))


@final
class Declarations:
    """The plans that a user of a ledger declared, of which nothing was released yet.

    What is declared last about some records replaces what was declared about them before.
    """

    def __init__(self) -> None:
        self.plans: tuple[Plan, ...] = ()

    def add(self, books: Books, steps: Iterable[Step]) -> None:
        """Declare releases, without those that a plan has left that was charged already; charge nothing.

        Steps about different parts of one split are a plan for each part.

        Args:
            books: of the account that will be charged.
            steps: the releases that will be asked for.

        Raises:
            BudgetExceeded: the account does not admit them together; nothing was charged, and nothing is declared.
        """
        missing = merged(_unpaid(books.plans, steps))
        parts: dict[object, list[Step]] = {}
        apart = len({step.path[0][0] if step.path else None for step in missing}) == 1
        for step in missing:
            parts.setdefault(step.path[:1] if apart else (), []).append(step)
        plans = tuple(Plan(secrets.token_hex(8), tuple(group)) for group in parts.values())
        for plan in plans:
            books.account.admit(Block(plan.steps), books.entries)
        declared = Block(missing)
        self.plans = (*(plan for plan in self.plans if not declared.meets(Block(plan.steps))), *plans)

    def charged(self, plan: OpenPlan | None) -> None:
        """Take note of a release, and of the plan that it took a step of."""
        self.plans = tuple(other for other in self.plans if plan is None or other.name != plan.plan.name)


def _unpaid(plans: Iterable[OpenPlan], steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps that no plan has left, one for each release."""
    left = list(plans)
    for step in steps:
        for _ in range(step.times if step.loss != PrivacyLoss.zero() else 0):
            release = replace(step, times=1)
            for index, plan in enumerate(left):
                if (number := plan.find(release)) is not None:
                    left[index] = plan.take(number, release)
                    break
            else:
                yield release


def merged(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps with equal ones counted."""
    counts: dict[Step, int] = {}
    for step in steps:
        one = replace(step, times=1)
        counts[one] = counts.get(one, 0) + step.times
    return tuple(replace(step, times=times) for step, times in counts.items())


def _added(entries: Sequence[Entry], entry: Entry) -> tuple[Entry, ...]:
    """Return entries with one more, equal places in one."""
    for index, other in enumerate(entries):
        if other[:2] == entry[:2]:
            total = other._replace(cost=other.cost + entry.cost)
            return (*entries[:index], total, *entries[index + 1 :])
    return (*entries, entry)
