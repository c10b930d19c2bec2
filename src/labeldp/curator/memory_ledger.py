"""The ledger in memory, which charges releases to a budget."""

import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fractions import Fraction
from typing import Any, final

from labeldp.accounting import Account, Books, Declarations, Entry, Limits, Policy, Spent, totals_within
from labeldp.privacy import (
    Budget,
    Charge,
    Draw,
    InputError,
    Path,
    PendingCharge,
    PrivacyLoss,
    Protection,
    Request,
    Scope,
    SingleProcess,
    Step,
    Unit,
    even_if_refused,
    numbers_of,
    warn_of_weak_budget,
)


@final
class Ledger(SingleProcess):
    """The charges about one set of labels, in memory.

    It belongs to the process that made it. Where several processes release (forked workers, a process pool, a web
    server with workers), use a ledger file, which all of them share: `LedgerFile(path).dataset(name)`.

    Args:
        budget: the most that all charges may cost together.
        name: of the dataset, or of one of its columns, such as "survey/income".
        policy: how delta is divided; by default the first charge decides.

    Guarantee (charged_first, no_copy): nothing is drawn before its charge is recorded, and no charge passes the budget;
        a fork, a copy or a pickle of it has no budget.
    """

    _why_no_copy = (
        "a Ledger in memory cannot be copied or pickled: each copy would spend the same budget again. Use a ledger "
        "file, LedgerFile(path).dataset(name), which all processes share"
    )
    _why_no_fork = (
        "this ledger in memory belongs to the process that made it, and a fork would spend the same budget again: use "
        "a ledger file, LedgerFile(path).dataset(name), which all processes share"
    )

    digest_key = ids_key = randomness = None
    """A ledger in memory never finds a release again: it fingerprints neither labels nor ids, and has no keyed noise,
    which needs a ledger file that keeps the key and notices labels that changed."""

    remote, secret, own_entries = None, (), ()
    """It is no file, and nothing of it is found again or kept on disk."""

    def __init__(self, budget: Budget, name: str = "labels", *, policy: Policy | None = None) -> None:
        if not isinstance(budget, Budget):
            raise InputError("budget must be a Budget, such as Budget(epsilon=1.0)")
        self._budget, self.scope = budget, Scope.parse(name)
        self._charges: dict[str, tuple[Charge, Entry | None]] = {}
        limits = None if policy is None else Limits.of(budget, policy)
        self._books = Books(Account(repr(self.scope.name), budget, policy, limits))
        self._declared = Declarations()
        self._protection = Protection()
        self._curators = 0
        self._lock = threading.Lock()
        self._token = secrets.token_hex(8)
        self._claim_process()

    @property
    def state(self) -> "Ledger":
        """This ledger: it is read where it is."""
        return self

    def read(self) -> "Ledger":
        """Return this ledger."""
        return self

    @property
    def budget(self) -> Budget:
        """The most that all charges may cost together; it never changes."""
        return self._budget

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge so far, oldest first."""
        self.check_process()
        return tuple(charge for charge, _ in self._charges.values())

    @property
    def spent(self) -> Spent:
        """What the record that paid most was charged, by sums; with delta > 0 the budget is what is guaranteed."""
        self.check_process()
        return Spent(totals_within(self._books.entries, (0, 0)), self._budget)

    def creation(self, ledger: object) -> str:
        """Return an empty text: no file is created."""
        return ""

    def used(self, *, without: Iterable[Charge] = ()) -> Fraction:
        """Return the share of the budget that the record that paid most has used; with delta > 0 it is no epsilon."""
        self.check_process()
        left_out = {charge.id for charge in without}
        entries = [entry for name, (_, entry) in self._charges.items() if entry is not None and name not in left_out]
        return self._books.account.used(totals_within(entries, (0, 0)))

    def holds(self, charges: Iterable[Charge]) -> bool:
        """Return whether all these were charged here."""
        return all(charge in self.charges for charge in charges)

    def part(self, path: Path) -> Path:
        """Return the part of these records that a charge was about."""
        return path

    def has_made(self, request: PendingCharge) -> bool:
        """Return False: a ledger in memory finds nothing again."""
        return False

    def of_request(self, request: Request) -> "Ledger":
        """Return this ledger: one in memory stores no request."""
        return self

    def foresee(self, more: Iterable[tuple[Path, PrivacyLoss]], unit: Unit) -> None:
        """Raise BudgetExceeded if the budget cannot admit more charges of parts of these records, at most so costly."""
        self.require([PendingCharge({}, loss, path, unit=unit) for path, loss in more])

    def of_records(self, records: str | None) -> "Ledger":
        """Return this ledger: one in memory does not tell records apart."""
        return self

    @property
    def protection(self) -> Protection:
        """What the charges protect; its unit is None before the first one."""
        return self._protection

    def check_unit(self, unit: Unit, users: str | None = None) -> None:
        """See `Protection.admit`."""
        self._protection.admit(unit, users, self.scope.dataset)

    def check_count(self, records: int) -> None:
        """Refuse nothing: a ledger in memory does not know how many records there are."""

    def comparing(self, domain: Any) -> AbstractContextManager[None]:
        """Do nothing: a ledger in memory remembers neither domains nor refusals."""
        return nullcontext()

    def enroll(self) -> str:
        """Return a new name: whether two curators hold the same records is not known here."""
        self.check_process()
        with self._lock:
            self._curators += 1
            return f"curator {self._curators}"

    def record(self, request: PendingCharge) -> Charge:
        """Charge a request.

        Raises:
            BudgetExceeded: it would pass the budget; nothing was charged.
        """
        self.check_process()
        release = self._step(request)
        with self._lock:
            protection = self._protection.admit(request.unit, request.users, self.scope.dataset)
            books, plan, entry = self._books.charge(release, self._declared.plans)
            warn_of_weak_budget(self._budget.epsilon, self._budget.delta, request.records)
            self._books, self._protection = books, protection
            self._declared.charged(plan)
            charge = Charge(
                secrets.token_hex(8),
                release.path,
                request.loss,
                request.mechanism,
                plan=plan.plan if plan else None,
                account=self._token,
                budgets=(numbers_of(self._budget),),
                unit=request.unit,
                keeps=protection.unit,
            )
            self._charges[charge.id] = charge, entry
        return charge

    def require(self, requests: Sequence[PendingCharge]) -> None:
        """Refuse requests that the budget would not admit together; a ledger in memory finds none of them again.

        Raises:
            BudgetExceeded: nothing was charged.
        """
        self.check_process()
        with self._lock:
            self._declared.add(self._books, map(self._step, requests))

    def has_charged(self, request: PendingCharge) -> bool:
        """Return False: a ledger in memory finds nothing again."""
        return False

    def check_labels(self, request: PendingCharge) -> None:
        """Refuse nothing: a ledger in memory does not fingerprint labels."""

    def _step(self, request: PendingCharge) -> Step:
        # Splits of two ledgers never count as one: their records may overlap in any way.
        path = tuple((f"{self._token}:{split}", part) for split, part in request.path)
        return Step(request.step or "", request.loss, path, unit=request.unit)

    @contextmanager
    def charging(self, request: PendingCharge, mechanism: Any) -> Iterator[Draw]:
        """Charge before the body draws: what fails there stays charged."""
        charge, draw = self.record(request), Draw(mechanism, is_new=True)
        yield draw
        draw.certificate = request.certificate(charge, mechanism, self.scope.name)

    @even_if_refused
    def __repr__(self) -> str:
        return f"Ledger(name={self.scope.name!r}, budget=({self.budget}), charges={len(self._charges)})"
