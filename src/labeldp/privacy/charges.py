"""Charges, their plans, and the guarantee of several charges together."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import combinations, product, takewhile
from typing import Any, TypeVar

from labeldp.privacy.atoms import Response
from labeldp.privacy.composition import exceeds
from labeldp.privacy.exact import decimal, float_above
from labeldp.privacy.loss import PrivacyLoss, RecordLoss, checked_times
from labeldp.privacy.unit import Unit, common_unit
from labeldp.privacy.validate import stored_fraction

T = TypeVar("T")

Path = tuple[tuple[str, int], ...]
"""Where a charge belongs: (split, part) from the outermost split inwards; empty for all records."""

MAX_PLACES = 32
"""The losses of more places than this are joined into one that covers them."""


Span = tuple[int, int]
"""The numbers of the first and the last cohort that a charge is about; (0, 0) without cohorts."""


@dataclass(frozen=True)
class Step:
    """A number of equal releases, with the cost of each and the records that they use.

    Args:
        name: of the release, for readers; it has no effect.
        loss: what each costs.
        path: the part of the records.
        times: how many there are.
        span: the cohorts of the records.
        unit: the unit of protection that the cost is for.
    """

    name: str = field(compare=False)
    loss: PrivacyLoss
    path: Path = ()
    times: int = 1
    span: Span = (0, 0)
    unit: Unit = Unit.ONE_LABEL


@dataclass(frozen=True)
class Plan:
    """Releases that were declared together, before the first of them.

    Args:
        name: distinguishes it from other plans.
        steps: all of its releases, taken or not, in one unit of protection.

    Guarantee (whole_plan): the steps that are taken never cost a record more than all steps together. This holds for
        every order of the steps, even if earlier outputs decide which steps are taken.

    Source: `docs/proofs/composition.md`, plans.
    """

    name: str
    steps: tuple[Step, ...]

    def has_step(self, path: Path, loss: PrivacyLoss, unit: Unit) -> bool:
        """Return whether a release can take one of the steps; the plan is as certificates have it, without cohorts."""
        return any(can_take(step, Step("", loss, path, unit=unit)) for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, exact, without cohorts and the names of steps."""
        rows = [[_listed(step.path), step.loss.to_json(), step.times] for step in self.steps]
        return {"name": self.name, "unit": self.steps[0].unit.name, "steps": rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Plan":
        """Return the plan that `to_json` wrote."""
        unit = Unit[value["unit"]]
        steps = [
            Step("", PrivacyLoss.from_json(loss), _path(path), checked_times(times), unit=unit)
            for path, loss, times in value["steps"]
        ]
        if not steps:
            raise ValueError("a plan has steps")
        return cls(str(value["name"]), tuple(steps))


Numbers = tuple[Fraction, Fraction]
"""Epsilon and delta of a budget."""


@dataclass(frozen=True)
class Charge:
    """One use of the labels: its cost, the part of the records that it used, and the mechanism's public description.

    `facts` are texts that a ledger file stored with the charge: "charged" (UTC, ISO 8601), "version" of labeldp,
    "records" and "commitment" to the labels. If shares of the budget are reserved, "share" names the analyst.

    Args:
        plan: the plan that it is a step of, or None.
        account: identifies the account that keeps the budget; empty if it is not known.
        budgets: every budget under which the account was charged so far, this one included, oldest first.
        unit: the unit of protection that the cost is for.
        keeps: the unit of protection of the account, which `unit` covers; None if the account is not known.
    """

    id: str
    path: Path
    loss: PrivacyLoss
    mechanism: Mapping[str, Any]
    facts: Mapping[str, str] = field(default_factory=dict)
    plan: Plan | None = None
    account: str = ""
    budgets: tuple[Numbers, ...] = ()
    unit: Unit = Unit.ONE_LABEL
    keeps: Unit | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, exact."""
        budgets = [[str(number) for number in budget] for budget in self.budgets]
        return {
            "id": self.id,
            "path": _listed(self.path),
            "loss": self.loss.to_json(),
            "unit": self.unit.name,
            "mechanism": dict(self.mechanism),
            **({"facts": dict(self.facts)} if self.facts else {}),
            **({"plan": self.plan.to_json()} if self.plan else {}),
            **({"account": self.account, "budgets": budgets} if self.account else {}),
            **({"keeps": self.keeps.name} if self.keeps else {}),
        }

    @property
    def exceeds_budgets(self) -> bool:
        """Whether it surely costs more than the largest of its budgets: then no account was charged with it."""
        return bool(self.budgets) and exceeds(self.loss.atoms, *largest_of(self.budgets))

    @property
    def history(self) -> str:
        """When it was charged, and by what, as a sentence; "" where no one says."""
        if not self.facts:
            return ""
        records = self.facts.get("records")
        about = f" for {int(records):,} records" if records else ""
        return f"Charged {self.facts['charged']}{about}, by labeldp {self.facts['version']}."

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Charge":
        """Return the charge that `to_json` wrote."""
        loss, facts = PrivacyLoss.from_json(value["loss"]), {str(a): str(b) for a, b in value.get("facts", {}).items()}
        budgets = tuple((stored_fraction(a), stored_fraction(b)) for a, b in value.get("budgets", ()))
        plan = Plan.from_json(value["plan"]) if "plan" in value else None
        account, unit = str(value.get("account", "")), Unit[value["unit"]]
        keeps = Unit[value["keeps"]] if "keeps" in value else None
        if not bool(account) == bool(budgets) == bool(keeps) or not all(e > 0 <= delta < 1 for e, delta in budgets):
            raise ValueError("an account has a budget and a unit of protection")
        if keeps is not None and not unit.covers(keeps):
            raise ValueError("an account admits what covers its unit of protection")
        path = _path(value["path"])
        if plan is not None and not plan.has_step(path, loss, unit):
            raise ValueError("a charge is a step of its plan")
        return cls(str(value["id"]), path, loss, dict(value["mechanism"]), facts, plan, account, budgets, unit, keeps)


def _listed(path: Path) -> list[list[Any]]:
    return [list(step) for step in path]


def _path(value: Iterable[Any]) -> Path:
    path = tuple((str(split), int(part)) for split, part in value)
    if any(part < 0 for _, part in path):
        raise ValueError("parts are numbered from 0")
    return path


def can_take(step: Step, release: Step) -> bool:
    """Return whether a release may take a step: about its records or some of them, at its cost or a smaller pure one.

    Both are in one unit of protection. Any pure loss is dominated by randomized response over two answers.
    """
    inside = step.span[0] <= release.span[0] and release.span[1] <= step.span[1]
    if not inside or release.unit is not step.unit or release.path[: len(step.path)] != step.path:
        return False
    atoms, loss = step.loss.atoms, release.loss
    pure = len(atoms) == 1 and atoms[0][1] == 1 and isinstance(atoms[0][0], Response) and atoms[0][0].classes == 2
    below = pure and loss.max_loss is not None and loss.max_loss <= (step.loss.max_loss or 0)
    return step.loss == loss or below


def joint(
    counted: Iterable[tuple[Path, T]], none: T, plus: Callable[[T, T], T], worst: Callable[[Iterable[T]], T]
) -> T:
    """Return the largest cost of a record: a split costs the worst of its parts, and different splits add up."""
    total = none
    splits: dict[str, dict[int, list[tuple[Path, T]]]] = {}
    for path, cost in counted:
        if path:
            splits.setdefault(path[0][0], {}).setdefault(path[0][1], []).append((path[1:], cost))
        else:
            total = plus(total, cost)
    for parts in splits.values():
        total = plus(total, worst(joint(inner, none, plus, worst) for inner in parts.values()))
    return total


def most_met(counted: Iterable[tuple[Path, int]]) -> int:
    """Return the largest number of releases of one record, from parts and the number of releases of each part."""
    return joint(counted, 0, int.__add__, max)


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
        """Return the number of a step that a release may take, or None: smallest part, then equal, then least loss.

        A step that a part took is gone for that part, for everything that contains it, for everything inside it, and
        for the parts of other splits.
        """

        def preference(number: int) -> tuple[int, bool, Fraction]:
            step = self.plan.steps[number]
            return -len(step.path), step.loss != release.loss, step.loss.max_loss or Fraction(0)

        for number in sorted(range(len(self.plan.steps)), key=preference):
            step = self.plan.steps[number]
            if can_take(step, release):
                takers = [taker for index, taker in self.taken if index == number]
                cohorts = range(release.span[0], release.span[1] + 1)
                if all(_most_taken([*takers, release], cohort) <= step.times for cohort in cohorts):
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
        """Whether all records took every step of the plan as often as it declares."""
        counts = [
            sum(t.times for index, t in self.taken if index == number and (t.span, t.path) == (step.span, step.path))
            for number, step in enumerate(self.plan.steps)
        ]
        return all(times >= step.times for times, step in zip(counts, self.plan.steps, strict=True))


def _most_taken(releases: Iterable[Step], cohort: int) -> int:
    """How many of these releases a record of a cohort meets at most."""
    return most_met((other.path, other.times) for other in releases if other.span[0] <= cohort <= other.span[1])


def joint_loss(counted: Iterable[tuple[tuple[Path, PrivacyLoss], int]]) -> RecordLoss:
    """Return the cost of the record that pays most, from charges as ((path, loss), how many of them).

    Charges on the same records add up. A record lies in exactly one part of a split, so a split costs the worst of its
    parts; different splits add up, because their overlap is not known.

    Guarantee (never_less): never less than the loss of any single record.
    """
    rows = [(path, loss * times) for (path, loss), times in counted]
    losses: list[tuple[Path, tuple[PrivacyLoss, ...]]] = [(path, (loss,)) for path, loss in rows]
    places = joint(
        losses,
        (PrivacyLoss.zero(),),
        lambda one, other: _pruned(left + right for left, right in product(one, other)),
        lambda several: _pruned(loss for group in several for loss in group),
    )
    return RecordLoss(places, largest_sum((path, loss.max_loss) for path, loss in rows))


def _pruned(losses: Iterable[PrivacyLoss]) -> tuple[PrivacyLoss, ...]:
    """Return the losses of places that no other loss covers; if they are too many, one loss that covers all."""
    maximal: list[PrivacyLoss] = []
    for loss in losses:
        if not any(other.covers(loss) for other in maximal):
            maximal = [other for other in maximal if not loss.covers(other)] + [loss]
    return tuple(maximal) if len(maximal) <= MAX_PLACES else (PrivacyLoss.covering(maximal),)


def largest_sum(costs: Iterable[tuple[Path, Fraction | None]]) -> Fraction | None:
    """Return the largest sum that a record meets; None stands for infinity."""
    listed = list(costs)
    if any(cost is None for _, cost in listed):
        return None
    return joint(((path, cost or Fraction(0)) for path, cost in listed), Fraction(0), Fraction.__add__, max)


def total_loss(charges: Iterable[Charge]) -> RecordLoss:
    """Return the most that any record pays for all charges together, if their list was fixed in advance."""
    return joint_loss(Counter((charge.path, charge.loss) for charge in charges).items())


def share_records(one: Path, other: Path) -> bool:
    """Return whether some record may be in two parts: not in unlike parts of one split."""
    for (split, part), (other_split, other_part) in zip(one, other, strict=False):
        if split != other_split:
            return True
        if part != other_part:
            return False
    return True


@dataclass(frozen=True)
class Block:
    """One release or one plan, which was decided at once. Its privacy curve does not depend on other releases.

    Args:
        steps: its releases; for a plan all releases, taken or not.
        charges: those of its releases that a certificate counts.
    """

    steps: tuple[Step, ...]
    charges: tuple[Charge, ...] = field(default=(), compare=False)

    @property
    def loss(self) -> RecordLoss:
        """The loss of the record that pays most."""
        return joint_loss(((step.path, step.loss), step.times) for step in self.steps)

    @property
    def span(self) -> Span:
        """The cohorts that it is about."""
        return min([step.span[0] for step in self.steps]), max([step.span[1] for step in self.steps])

    @property
    def path(self) -> Path:
        """The smallest part of the records that holds those of all steps."""
        levels = zip(*[step.path for step in self.steps], strict=False)
        return tuple([parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, levels)])

    def meets(self, other: "Block") -> bool:
        """Return whether some record may be in both."""
        return any(share_records(mine.path, theirs.path) for mine, theirs in product(self.steps, other.steps))


def blocks_of(charges: Iterable[Charge]) -> list[Block]:
    """Return the blocks of charges that cost something. A charge is a block alone if its plan has too few steps."""
    groups: dict[Plan | str, list[Charge]] = {}
    for charge in charges:
        if charge.loss != PrivacyLoss.zero():
            groups.setdefault(charge.plan or charge.id, []).append(charge)
    blocks = []
    for plan, group in groups.items():
        if isinstance(plan, Plan) and _suffices(plan, group):
            blocks.append(Block(plan.steps, tuple(group)))
        else:
            blocks.extend(Block((_step(charge),), (charge,)) for charge in group)
    return blocks


def _suffices(plan: Plan, charges: Iterable[Charge]) -> bool:
    """Return whether the charges can take steps of the plan in their order, as in an account."""
    left = OpenPlan(plan)
    for charge in charges:
        release = _step(charge)
        number = left.find(release)
        if number is None:
            return False
        left = left.take(number, release)
    return True


def _step(charge: Charge) -> Step:
    return Step("", charge.loss, charge.path, unit=charge.unit)


def stated_unit(charges: Iterable[Charge]) -> Unit:
    """Return the unit of protection of a statement about charges: what the costs of all of them are for.

    A statement about several blocks may be about the budgets of their accounts, which bound the costs of charges that
    it does not list. So it is for what the accounts keep. One block stands for itself.

    Raises:
        InputError: the charges share no unit of protection.

    Source: `docs/proofs/composition.md`, units of protection.
    """
    listed = list(charges)
    accounts = [charge.keeps for charge in listed if charge.keeps is not None] if len(blocks_of(listed)) > 1 else []
    return common_unit([*[charge.unit for charge in listed], *accounts])


@dataclass(frozen=True)
class Promise:
    """The guarantee of charges at a delta.

    Args:
        kind: "block" (one block for each record: its own curve), "sum" (of pure losses, of what was released) or
            "budget" (of all accounts together).
        epsilon: infinite if there is no guarantee.
        delta: of the guarantee, at most the requested one.
        blocks: the blocks that it is about: those that the record with the largest epsilon may meet.
        budgets: of "budget": the numbers of each account that are added up; of others empty.
        others: the guarantees of records that no block of these shares.
    """

    kind: str
    epsilon: float
    delta: Fraction
    blocks: tuple[Block, ...] = ()
    budgets: tuple[Numbers, ...] = ()
    others: tuple["Promise", ...] = ()

    @property
    def uncovered(self) -> tuple[float, Fraction] | None:
        """The largest numbers of `others` that this guarantee does not cover at any delta; None if it covers all.

        A sum holds at delta = 0 and a budget at its own delta, while others may need the requested one.
        """
        delta = Fraction(0) if self.kind == "sum" else self.delta
        exceeding = [
            other
            for other in self.others
            if other.kind != "sum"
            and other.delta > delta
            and (other.kind == "budget" or other.blocks[0].loss.epsilon(delta) > self.epsilon)
        ]
        if not exceeding:
            return None
        return max(other.epsilon for other in exceeding), max(other.delta for other in exceeding)


def promised(charges: Iterable[Charge], delta: Any) -> Promise:
    """Return the guarantee of charges, even if each of them was chosen by the outputs of others.

    Records of one block have the curve of that block; others have the smaller of the sum of their pure losses and the
    budgets of all their accounts. No smaller guarantee holds at a delta above 0, because the next release may depend on
    outputs of the last.

    Args:
        charges: of a certificate.
        delta: in [0, 1].

    Source: `docs/proofs/composition.md`, statements of certificates.
    """
    exact = decimal(delta, "delta")
    promises = [_promised_together(group, exact) for group in _groups(blocks_of(charges))]
    if not promises:
        return Promise("block", 0.0, exact)
    first = max(range(len(promises)), key=lambda number: promises[number].epsilon)
    return replace(promises[first], others=(*promises[:first], *promises[first + 1 :]))


def _groups(blocks: Sequence[Block]) -> list[tuple[Block, ...]]:
    """Blocks that share records, directly or by others: all blocks of a record are in one group."""
    groups = [{number} for number in range(len(blocks))]
    for one, other in combinations(range(len(blocks)), 2):
        if blocks[one].meets(blocks[other]):
            joined = [group for group in groups if one in group or other in group]
            groups = [group for group in groups if group not in joined] + [reduce(set.union, joined)]
    return [tuple(blocks[number] for number in sorted(group)) for group in groups]


def _promised_together(blocks: tuple[Block, ...], delta: Fraction) -> Promise:
    if len(blocks) == 1:
        return Promise("block", blocks[0].loss.epsilon(delta), delta, blocks)
    charges = [charge for block in blocks for charge in block.charges]
    total = largest_sum((charge.path, charge.loss.max_loss) for charge in charges)
    epsilon = float("inf") if total is None else float_above(total)
    budgets = budgets_of(charges)
    limit, share = (sum((budget[i] for budget in budgets), Fraction(0)) for i in (0, 1))
    if budgets and share <= delta and float_above(limit) <= epsilon:
        return Promise("budget", float_above(limit), share, blocks, budgets)
    return Promise("sum", epsilon, delta, blocks, budgets if epsilon == float("inf") else ())


def budgets_of(charges: Sequence[Charge]) -> tuple[Numbers, ...]:
    """Return the budgets that hold for all charges together if they are added up; none if a charge has no account.

    For one account this is the largest epsilon and the largest delta that it had. Of several accounts, each counts once
    for every budget under which it was charged: the largest budget would not be enough.
    """
    accounts: dict[str, list[Numbers]] = {}
    for charge in charges:
        accounts.setdefault(charge.account, []).extend(charge.budgets)
    if "" in accounts:
        return ()
    if len(accounts) == 1:
        [budgets] = accounts.values()
        return (largest_of(budgets),)
    return tuple(budget for budgets in accounts.values() for budget in dict.fromkeys(budgets))


def largest_of(budgets: Iterable[Numbers]) -> Numbers:
    """Return the largest epsilon and the largest delta of some budgets."""
    epsilons, deltas = zip(*budgets, strict=True)
    return max(epsilons), max(deltas)
