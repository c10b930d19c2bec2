"""What charges add up to, and whether one more block fits the budget: accounts with two books, and declared plans."""

import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, final

from labeldp.accounting.costs import Cost, sequence_rate
from labeldp.privacy import (
    Block,
    Budget,
    BudgetExceeded,
    Failure,
    OpenPlan,
    Path,
    Plan,
    PrivacyLoss,
    Span,
    Step,
    decimal,
    decimal_text,
    failures,
    float_above,
    gaussian_delta,
    joint_loss,
    largest,
    max_loss,
    numbers_of,
    rounded_up_text,
)

TAIL_SHARE, FAILURE_SHARE, RESERVE_SHARE = Fraction(1, 10), Fraction(1, 10), Fraction(1, 20)
"""Of delta what is kept for tails and for failures, and of the rates what is never spent: fixed for all accounts."""

TAIL_PARTS = (Fraction(1, 16), Fraction(1, 4))
"""The shares of an account's tails that a block may take, the smallest that suffices."""

MAX_PLACES = 32
"""More totals of records than this are joined into one that covers them."""

_NUDGES = 1024


class Policy(StrEnum):
    """How an account divides delta; its first block decides."""

    ADAPTIVE = "adaptive"
    PLAN = "plan"


class Entry(NamedTuple):
    """The sum of the costs of one place: some cohorts, and the part of their records."""

    span: Span
    path: Path
    cost: Cost


@dataclass(frozen=True)
class Limits:
    """How much either book may hold.

    An account admits a block while one of its books holds it: losses within `loss` and their tails within `tail`, or
    rates within `rate` and failures within `failure`.

    Args:
        loss, tail: limits of the loss book.
        rate, failure: limits of the rate book.
        reserve: a further part of the rates that is never spent, so that small releases count less.

    Guarantee (limits): with `tail + failure + (1 - failure) * delta(rate + reserve)` at most delta, whatever is
        admitted keeps (loss, delta) together, however it was chosen after looking at earlier outputs.

    Source: `docs/proofs/composition.md`, the account, Theorem 5.
    """

    loss: Fraction
    tail: Fraction = Fraction(0)
    rate: Fraction = Fraction(0)
    failure: Fraction = Fraction(0)
    reserve: Fraction = Fraction(0)

    @classmethod
    def of(cls, budget: Budget, policy: Policy) -> "Limits":
        """Return the limits of a budget: sums of epsilon at delta = 0; else as the policy divides delta."""
        epsilon, delta = decimal(budget.epsilon, "epsilon"), decimal(budget.delta, "delta")
        if not delta:
            return cls(epsilon)
        if policy is Policy.PLAN:
            return cls(epsilon, delta)
        tail, failure = delta * TAIL_SHARE, delta * FAILURE_SHARE
        rates = _largest_square(epsilon, delta - tail - failure)
        return cls(epsilon, tail, rates * (1 - RESERVE_SHARE), failure, rates * RESERVE_SHARE)

    def admit(self, cost: Cost) -> bool:
        """Return whether one of the books holds this sum."""
        return self.holds_loss(cost) or (
            cost.rate is not None and cost.rate <= self.rate and cost.failure <= self.failure
        )

    def holds_loss(self, cost: Cost) -> bool:
        """Return whether the loss book holds this sum."""
        return cost.loss is not None and cost.loss <= self.loss and cost.tail <= self.tail

    def used(self, cost: Cost) -> Fraction:
        """Return the share that a sum uses of the book that has more budget left; it is no epsilon."""
        books = (
            ((cost.loss, self.loss), (cost.tail, self.tail)),
            ((cost.rate, self.rate), (cost.failure, self.failure)),
        )
        shares = [max(_share(amount, limit) for amount, limit in book) for book in books if book[0][1]]
        return min(shares)


def _share(amount: Fraction | None, limit: Fraction) -> Fraction:
    if amount is None:
        return Fraction(10**6)
    if not limit:
        return Fraction(10**6 if amount else 0)
    return amount / limit


@lru_cache(maxsize=256)
def _largest_square(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest square of mu whose delta at epsilon is at most `delta`, rounded down."""
    below = float(epsilon) * (1 - 2.0**-50)

    def keeps(mu: float) -> bool:
        return Fraction(gaussian_delta(below, mu)) <= delta

    high = 1.0
    while keeps(high):
        high *= 2
    best = step = largest(keeps, 0.0, high, tol=2.0**-50)
    for _ in range(_NUDGES):  # rounding blurs the border by some floats
        step = math.nextafter(step, math.inf)
        best = step if keeps(step) else best
    return Fraction(best) ** 2


@lru_cache(maxsize=1024)
def _block_losses(block: Block) -> tuple[PrivacyLoss, ...]:
    """Return what a record of a block may pay in all, one loss for each place that it may be in."""
    span = block.span
    cohorts = {
        tuple(((step.path, step.loss), step.times) for step in block.steps if step.span[0] <= cohort <= step.span[1])
        for cohort in range(span[0], span[1] + 1)
    }
    losses = {loss for charges in cohorts for loss in joint_loss(charges).losses}
    return tuple(sorted(losses, key=repr))


def block_cost(block: Block, limits: Limits, totals: Iterable[Cost]) -> Cost:
    """Return what a block adds to both books: to every record that it may meet, what the one pays that pays most.

    The loss book counts the pure epsilon, where there is one, or the epsilon at the smallest tail for which it has
    room. The choice follows from costs alone.

    Args:
        block: one release, or one declared plan.
        limits: of the account.
        totals: what the records paid before.
    """
    losses = _block_losses(block)
    rates = [sequence_rate(loss.atoms, limits.reserve, limits.failure, limits.rate) for loss in losses]
    slow = Cost.largest([Cost(rate=rate, failure=failure) for rate, failure in rates])
    before = list(totals)
    left = limits.tail - max([cost.tail for cost in before], default=Fraction(0))
    pure = point = _pure(losses)
    bounded = None
    for tail in (None, *[limits.tail * part for part in TAIL_PARTS], left):
        if tail is not None:
            if tail <= 0:
                continue
            point = _at_tail(losses, tail)
        if all(limits.holds_loss(cost + point) for cost in before):
            break
        if bounded is None and point.loss is not None:
            bounded = point
    else:
        point = bounded or pure
    return Cost(point.loss, point.tail, slow.rate, slow.failure)


def _pure(losses: Iterable[PrivacyLoss]) -> Cost:
    """Return the loss of a block but for its stated failures: the exact decimal."""
    points = []
    for loss in losses:
        finite = tuple([pair for pair in loss.atoms if not isinstance(pair[0], Failure)])
        points.append(Cost(max_loss(finite), failures(loss.atoms)))
    return Cost.largest(points)


@lru_cache(maxsize=4096)
def _at_tail(losses: tuple[PrivacyLoss, ...], tail: Fraction) -> Cost:
    epsilon = max(loss.epsilon(tail) for loss in losses)
    return Cost(None if math.isinf(epsilon) else decimal(epsilon, "epsilon"), tail)


def totals_within(entries: Iterable[Entry], span: Span, path: Path = ()) -> tuple[Cost, ...]:
    """Return what a record of some cohorts, in a part of them, may have paid, without totals that another covers."""
    rows = list(entries)
    groups = {
        tuple((entry.path, entry.cost) for entry in rows if entry.span[0] <= cohort <= entry.span[1])
        for cohort in range(span[0], span[1] + 1)
    }
    return _pruned(cost for group in groups for cost in _totals(group, path))


def _totals(charges: Sequence[tuple[Path, Cost]], within: Path) -> tuple[Cost, ...]:
    """Return what a record in one part may have paid."""
    totals: tuple[Cost, ...] = (sum((cost for path, cost in charges if not path), Cost()),)
    splits: dict[str, dict[int, list[tuple[Path, Cost]]]] = {}
    for path, cost in charges:
        if path:
            splits.setdefault(path[0][0], {}).setdefault(path[0][1], []).append((path[1:], cost))
    for split, parts in splits.items():
        if within and within[0][0] == split:
            inner = _totals(parts.get(within[0][1], []), within[1:])
        else:
            inner = _pruned(cost for part in parts.values() for cost in _totals(part, ()))
        totals = _pruned(one + other for one in totals for other in inner)
    return totals


def _pruned(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """Costs without those that another covers; one that covers all where they are too many."""
    maximal: list[Cost] = []
    for cost in costs:
        if not any(other.covers(cost) for other in maximal):
            maximal = [other for other in maximal if not cost.covers(other)] + [cost]
    return tuple(maximal) if len(maximal) <= MAX_PLACES else (Cost.largest(maximal),)


@dataclass(frozen=True)
class Spent:
    """What records paid, by sums, and what is guaranteed of everything.

    Args:
        totals: what a record may have paid, the largest of them.
        promise: the budget.

    Source: `docs/proofs/composition.md`, the account, Theorems 3, 5 and 10.
    """

    totals: tuple[Cost, ...]
    promise: Budget

    def epsilon(self, delta: Any = 0) -> float:
        """Return the sum of the losses of the record that paid most, or the budget where that is less.

        It is infinite where the tails of the losses exceed delta, and the budget does, too.
        """
        allowed, (epsilon, share) = decimal(delta, "delta"), numbers_of(self.promise)
        losses = [total.loss if total.tail <= allowed else None for total in self.totals]
        total = max((math.inf if loss is None else float_above(loss) for loss in losses), default=0.0)
        return min(total, float_above(epsilon)) if share <= allowed else total


class Admission(NamedTuple):
    """An admitted block: its account, whose limits are decided, and what it adds to the books of its records."""

    account: "Account"
    entry: Entry


@dataclass(frozen=True)
class Account:
    """What keeps one budget: for one analyst, or for everyone where no shares are reserved.

    Args:
        name: what has this budget, in words, for messages.
        budget: the budget.
        policy: how delta is divided; None before the first block.
        limits: of the books; None before the first block.
    """

    name: str
    budget: Budget
    policy: Policy | None = None
    limits: Limits | None = None

    def admit(self, block: Block, entries: Sequence[Entry]) -> Admission:
        """Return what a block costs where one of the books has room for it; charge nothing.

        The first block of an account decides how delta is divided: as usual, or all of it for the loss book where the
        block needs that. A refused first block decides nothing.

        Raises:
            BudgetExceeded: neither book has room.
        """
        span, path = block.span, block.path
        before = totals_within(entries, span, path)
        policies = [self.policy] if self.policy else list(Policy)
        for policy in policies:
            limits = self.limits or Limits.of(self.budget, policy)
            cost = block_cost(block, limits, before)
            if all(limits.admit(total + cost) for total in before):
                return Admission(replace(self, policy=policy, limits=limits), Entry(span, path, cost))
        raise self._refusal(before, limits, cost)

    def under(self, budget: Budget) -> "Account":
        """Return the account with another budget; the division of delta stays unchanged."""
        return replace(self, budget=budget, limits=Limits.of(budget, self.policy) if self.policy else None)

    def used(self, totals: Iterable[Cost]) -> Fraction:
        """Return the share that is used up of the book with more room, for the record that paid most: no epsilon."""
        limits = self.limits or Limits.of(self.budget, Policy.ADAPTIVE)
        return max((limits.used(total) for total in totals), default=Fraction(0))

    def _refusal(self, before: Sequence[Cost], limits: Limits, cost: Cost) -> BudgetExceeded:
        """Return a refusal that says how full the account is, and with delta = 0 what the sum would be."""
        after = [total + cost for total in before]
        if limits.tail or limits.rate:
            used, share = (max(limits.used(total) for total in totals) for totals in (before, after))
            would = f"this would bring it to {_percent(share)}" if share < 10**4 else "it has no room for this"
            why = f"{_percent(used)} of {self.budget} is used, and {would}"
        elif cost.loss is None or cost.tail:
            why = f"it is {self.budget}, and this costs a delta. Use delta = 0, or give the budget a delta"
        else:
            spent = f"epsilon = {_largest_loss(before)} of {decimal_text(self.budget.epsilon)} is spent"
            why = f"{spent}, and this would bring it to {_largest_loss(after)}"
        end = f" {PROMISE}" if limits.tail or limits.rate else ""
        return BudgetExceeded(f"budget exceeded for {self.name}: {why}. Nothing was charged.{end}")


def _largest_loss(totals: Iterable[Cost]) -> str:
    losses = [total.loss for total in totals]
    if None in losses:
        return "infinity"
    return rounded_up_text(float_above(max(loss or Fraction(0) for loss in losses)), 12)


PROMISE = "Adaptive releases: the guarantee is the whole budget."
"""What an account with a delta promises, in words."""


def _percent(share: Fraction) -> str:
    return f"{rounded_up_text(100 * float_above(share), 4)} %"


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
    """An account and its charges.

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
