"""What keeps a budget: a ledger in memory and one in a file decide alike, and a file adds up what was paid."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, LABELS, SYSTEM, asked, curator, people, response
from labeldp.accounting import Account, Books, Policy
from labeldp.bags.losses import NoisyBag
from labeldp.cli.ledger import describe_ledger
from labeldp.curator import DatasetLedger, Ledger, LedgerFile
from labeldp.curator.datasets import Dataset, cost_digest
from labeldp.curator.ledger_store import SCHEMA
from labeldp.curator.paid import StoredAccount, read_books, write_payment
from labeldp.privacy import LedgerError, PendingCharge, PrivacyLoss, Span, Step, Trust, Unit, float_above
from labeldp.privacy.certificate import join_certificates

DELTA = "0.0383"

WHOLE = PrivacyLoss.curve(NoisyBag("gaussian", 0.82, 64, 64))
"""Within (1, 1e-6), and in no account that keeps a tenth of delta for other things."""

Make = Callable[[ldp.Budget], Any]


class Released:
    """A mechanism, as far as a ledger looks at it."""

    neighbors, trust = Unit.ONE_LABEL, Trust.CENTRAL
    published, assumptions, basis = "sums", (), ()

    def arrays(self) -> None:
        return None


def charge(ledger: Any, loss: PrivacyLoss, path: Any = (), name: str = "release", step: Any = None) -> Any:
    """Charge some loss: labels and traces are made up."""
    traces = (("row numbers", "classes", "digest"),)
    request = PendingCharge({"mechanism": name}, loss, path, labels="digest", traces=traces, step=step)
    with ledger.charging(request, Released()) as draw:
        draw.value = np.zeros(3)
    return draw.certificate


def opened(path: Path, budget: ldp.Budget) -> DatasetLedger:
    """The dataset "people", added if it is new."""
    return LedgerFile(path).dataset("people", budget=budget)


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a ledger with a budget: in memory, or in a new file."""
    numbers = iter(range(100))
    if request.param == "memory":
        return lambda budget: Ledger(budget, "people")
    return lambda budget: opened(tmp_path / f"{next(numbers)}.db", budget)


def test_a_strategy_that_passes_the_curve_on_each_path_is_refused(make: Make) -> None:
    """RR(.5), then RR(.6) on one answer and a failure of delta on the other: 1.38 delta together."""
    budget = ldp.Budget(1, DELTA)
    for first in (PrivacyLoss.pure("0.6"), PrivacyLoss.failure(DELTA)):
        assert budget.admits(PrivacyLoss.pure("0.5") + first)
        ledger = make(budget)
        charge(ledger, PrivacyLoss.pure("0.5"))
        with pytest.raises(ldp.BudgetExceeded, match=r" % of .* is used, .* Nothing was charged"):
            charge(ledger, first, name="next")
        charge(ledger, PrivacyLoss.pure("0.5"), name="what is left")
        assert len(ledger.charges) == 2


def test_one_release_at_its_exact_cost_is_admitted_whatever_it_is(make: Make) -> None:
    budget = ldp.Budget(1, "1e-6")
    mu = max(mu for mu in np.linspace(0.2, 0.3, 1001) if PrivacyLoss.gaussian(mu).within(1, "1e-6"))
    for loss in (
        PrivacyLoss.gaussian(mu),
        PrivacyLoss.gaussian(mu * 0.9) + PrivacyLoss.failure("3e-7"),
        PrivacyLoss.approximate(1, "1e-6"),
        PrivacyLoss.pure(1),
        WHOLE,
        PrivacyLoss.pure("0.03") * 50,
    ):
        ledger = make(budget)
        charge(ledger, loss)
        with pytest.raises(ldp.BudgetExceeded):
            charge(ledger, PrivacyLoss.pure("0.5") + PrivacyLoss.failure("9e-7"), name="more")


def test_a_plan_may_cost_what_its_curve_says(make: Make) -> None:
    loss, ledger = PrivacyLoss.pure("0.1"), make(ldp.Budget(3, "1e-6"))
    ledger.require([PendingCharge({}, loss, step=f"{number}") for number in range(46)])
    for number in range(46):
        charge(ledger, loss, name=f"{number}", step=f"{number}")
    with pytest.raises(ldp.BudgetExceeded, match="Nothing was charged"):
        charge(ledger, loss, name="late")
    assert len(ledger.charges) == 46


def test_releases_may_be_chosen_late(make: Make) -> None:
    """The rate book holds more small releases than the sum of epsilon, and no list was declared."""
    ledger = make(ldp.Budget(1, "1e-6"))
    for number in range(55):
        charge(ledger, PrivacyLoss.pure("0.03"), name=f"{number}")
    with pytest.raises(ldp.BudgetExceeded, match=r"this would bring it to 10\d"):
        charge(ledger, PrivacyLoss.pure("0.03"), name="more")


def test_epochs_on_disjoint_parts_may_each_cost_the_whole_budget(make: Make) -> None:
    ledger = make(ldp.Budget(1, "1e-6"))
    for part in range(3):
        charge(ledger, WHOLE, (("epochs", part),), name=f"{part}")
    for path in ((("epochs", 2),), (), (("other", 0),)):
        with pytest.raises(ldp.BudgetExceeded, match=r"% of .* is used, and"):
            charge(ledger, PrivacyLoss.pure("0.05"), path, name="again")


def test_a_plan_is_charged_as_a_whole_and_its_other_steps_are_free(make: Make) -> None:
    ledger = make(ldp.Budget(1))
    ledger.require([PendingCharge({}, PrivacyLoss.pure(f"0.{digit}"), step=f"{digit}") for digit in (1, 2, 5)])
    assert ledger.spent.epsilon() == 0
    certificate = charge(ledger, PrivacyLoss.pure("0.5"), name="a", step="5")
    assert ledger.spent.epsilon() == 0.8 and certificate.epsilon() == 0.8
    with pytest.raises(ldp.BudgetExceeded, match=r"epsilon = 0\.8 of .* bring it to 1\.1"):
        charge(ledger, PrivacyLoss.pure("0.3"), name="other")
    charge(ledger, PrivacyLoss.pure("0.2"), name="b", step="2")
    charge(ledger, PrivacyLoss.pure("0.2"), name="no step")
    assert ledger.spent.epsilon() == 1
    charge(ledger, PrivacyLoss.pure("0.1"), name="c", step="1")
    assert ledger.used() == 1


def test_a_restarted_process_takes_the_steps_that_are_left(tmp_path: Path) -> None:
    path, losses = tmp_path / "l.db", [PrivacyLoss.gaussian(0.1), PrivacyLoss.pure("0.3")]
    ledger = opened(path, ldp.Budget(1, "1e-6"))
    asked = [PendingCharge({}, loss, step=f"{number}") for number, loss in enumerate(losses)]
    ledger.require(asked)
    first = charge(ledger, losses[0], name="0", step="0")
    used = people(path).used()
    again = people(path)
    again.require(asked)  # the first is found again, and the other is paid
    last = charge(again, losses[1], name="1", step="1")
    assert first.entries[0].plan == last.entries[0].plan and people(path).used() == used
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT done FROM plan").fetchall() == [(1,)]
    charge(people(path), PrivacyLoss.pure("0.1"), name="more")
    assert people(path).used() > used


def test_a_charge_that_is_rolled_back_leaves_the_plan_declared(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "l.db", ldp.Budget(2))
    loss, traces = PrivacyLoss.pure("0.5"), (("row numbers", "classes", "digest"),)
    ledger.require([PendingCharge({}, loss, step="a"), PendingCharge({}, loss, step="b")])
    request = PendingCharge({}, loss, labels="d", traces=traces)
    with pytest.raises(RuntimeError), ledger.charging(request, Released()):
        raise RuntimeError
    assert ledger.charges == () and ledger.read().account.policy is None and ledger.used() == 0
    assert charge(ledger, loss).epsilon() == 1


def test_a_refused_release_pins_nothing(make: Make) -> None:
    ledger = make(ldp.Budget(1, "1e-6"))
    with pytest.raises(ldp.BudgetExceeded):
        charge(ledger, PrivacyLoss.pure(2))
    charge(ledger, WHOLE, name="the whole")


def test_releases_of_a_curator_are_kept_by_the_account(make: Make) -> None:
    ledger = make(ldp.Budget(2, 1e-6))
    holder = ldp.Curator(LABELS, domain=DOMAIN, ledger=ledger)
    first = holder.release(response(0.5), rng=SYSTEM)
    second = holder.release(response(0.25), rng=SYSTEM)
    one, both = first.certificate, ldp.gather([first, second], lambda *_: None).certificate
    assert "ε = 0.5, δ = 0" in one.at(0)
    assert "a sum of" not in one.at(1e-6)
    assert both.at(0) == both.at(1e-6) and "a sum of ε = 0.75" in both.at(0)
    assert ledger.spent.epsilon() == 0.75


def test_certificates_of_what_was_chosen_late_promise_the_budget_alone(make: Make) -> None:
    ledger, loss = make(ldp.Budget(2, 1e-6)), PrivacyLoss.gaussian(0.05)
    late = [charge(ledger, loss, name=name) for name in "ab"]
    together = join_certificates(late)
    assert "ε = 2, δ = 1e-06" in together.at(1e-6) and "the whole budget" in together.at(1e-6)
    assert "NONE at δ = 1e-07 for these releases together" in together.at("1e-7")
    again = type(together).from_json(json.loads(json.dumps(together.to_json())))
    assert again.at(1e-6) == together.at(1e-6)
    ledger.require([PendingCharge({}, loss, step=step) for step in ("c", "d")])
    declared = join_certificates([charge(ledger, loss, name=name, step=name) for name in ("c", "d")])
    assert declared.at(1e-6) != together.at(1e-6) and "all 2 steps of a declared plan" in declared.at(1e-6)
    assert declared.epsilon(1e-6) < 1
    ledger.require([PendingCharge({}, loss, step="e")])  # declared after a look at those
    more = [charge(ledger, loss, name=name, step=name) for name in ("e", "f")]
    for several in ([declared, more[0]], more):
        assert "the whole budget" in join_certificates(several).at(1e-6)


LOSSES = [
    PrivacyLoss.pure("0.05"),
    PrivacyLoss.response("0.1", 5),
    PrivacyLoss.gaussian(0.11),
    PrivacyLoss.approximate("0.02", "1e-8"),
    PrivacyLoss.pure("0.4"),
]

PLACES: list[Any] = [(), (), (("s", 0),), (("s", 1),), (("t", 0),), (("s", 0), ("u", 1))]


@pytest.mark.parametrize("budget", [ldp.Budget(1), ldp.Budget(2, "1e-5")])
@pytest.mark.parametrize("seed", range(3))
def test_a_ledger_in_memory_and_one_in_a_file_decide_alike(tmp_path: Path, budget: ldp.Budget, seed: int) -> None:
    chance, memory, file = random.Random(seed), Ledger(budget, "people"), opened(tmp_path / "l.db", budget)
    admitted = 0
    for number in range(60):
        losses, place = chance.sample(LOSSES, 2), chance.choice(PLACES)
        told = []
        for ledger in (memory, file):
            try:
                if number % 5 == 4:
                    ledger.require([PendingCharge({}, loss, place, step=f"{number}") for loss in losses])
                else:
                    charge(ledger, losses[0], place, name=f"{number}")
                told.append("")
            except ldp.BudgetExceeded as error:
                told.append(str(error))
        assert told[0] == told[1]
        admitted += not told[0]
    assert 5 < admitted < 60
    assert memory.spent.epsilon("1e-6") == file.spent.epsilon("1e-6") and memory.used() == file.used()
    plans = [[len(entry.plan.steps) if entry.plan else 0 for entry in ledger.charges] for ledger in (memory, file)]
    assert plans[0] == plans[1]


TENTH = Fraction(1, 10)


def paid(history: list[tuple[Span, int | None, Fraction]], cohort: int, part: int) -> Fraction:
    """What a record paid: of all charges of its cohort, those on all records or on its part."""
    return sum((cost for (low, high), of, cost in history if low <= cohort <= high and of in (None, part)), Fraction(0))


def random_history(connection: sqlite3.Connection, chance: random.Random, dataset: Dataset, widen: int = 0) -> None:
    """Cohorts that come and are charged, alone and with all before them, whole and in parts; some charges are undone.

    Each is admitted exactly where no record of its cohorts and its part passes the budget.

    Args:
        connection: of a file.
        chance: decides what comes.
        dataset: whose budget it is.
        widen: how many cohorts more are charged than should be.
    """
    history: list[tuple[Span, int | None, Fraction]] = []
    cohorts, limit = 1, Fraction(dataset.budget.epsilon)
    for _ in range(chance.randrange(2, 14)):
        if chance.random() < 0.25:
            cohorts += 1
            continue
        last = chance.randrange(cohorts)
        span = chance.choice([(last, last), (0, last), (0, cohorts - 1)])
        part, cost = chance.choice([None, None, 0, 1]), Fraction(chance.choice([1, 1, 2, 5]), 10)
        path = () if part is None else (("split", part),)
        account = StoredAccount("", Account("'p'", dataset.budget))
        books = replace_limits(read_books(connection, dataset, account))
        places = [part] if part is not None else [0, 1]
        fits = all(
            paid(history, cohort, place) + cost <= limit for cohort in range(span[0], span[1] + 1) for place in places
        )
        connection.execute("BEGIN")
        try:
            payment = books.charge(Step("", PrivacyLoss.pure(cost), path, 1, (span[0], span[1] + widen)))
        except ldp.BudgetExceeded:
            assert not fits
            connection.execute("ROLLBACK")
            continue
        assert fits
        write_payment(connection, dataset, account, payment, ())
        if chance.random() < 0.25:  # the process was killed, or the disk was full
            connection.execute("ROLLBACK")
        else:
            connection.execute("COMMIT")
            history.append((span, part, cost))


def replace_limits(books: Books) -> Books:
    """Return the books of a budget without a delta, whose limits are known."""
    return Books(books.account.under(books.account.budget), books.entries, books.plans)


def file_of(connection: sqlite3.Connection, number: int) -> Dataset:
    """A dataset in a file."""
    connection.execute(
        "INSERT INTO dataset (id, name, epsilon, delta, secret, created) VALUES (?, ?, '1', '0', x'00', '')",
        (number, f"{number}"),
    )
    return Dataset(number, f"{number}", ldp.Budget(1), b"")


def test_histories_with_cohorts_never_under_count() -> None:
    chance = random.Random(11)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        for number in range(1, 401):
            random_history(connection, chance, file_of(connection, number))


def test_books_that_charge_a_cohort_too_many_are_caught() -> None:
    """The histories tell wrong books."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection, pytest.raises(AssertionError):
        connection.executescript(SCHEMA)
        for number in range(1, 60):
            random_history(connection, random.Random(number), file_of(connection, number), widen=1)


class Killed(BaseException):
    """Stands for a process that ends in the middle of a transaction."""


@pytest.mark.slow
def test_books_are_recomputed_from_random_histories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases of the whole and of parts, refusals, and processes that end before or after the value was drawn."""
    path, chance = tmp_path / "ledger.db", random.Random(5)
    whole = curator(path, budget=2)
    parts = ldp.Public(np.arange(300) % 2, why="by row number")
    for step in range(250):
        holder = chance.choice([whole, *whole.split(parts)])
        mechanism = response(chance.choice([0.001, 0.002, 0.003, 1]) + step * chance.choice([0, 1e-6]))
        dies = chance.random() < 0.2
        draw = type(mechanism).randomize
        if dies:
            monkeypatch.setattr(type(mechanism), "randomize", lambda *_, **__: (_ for _ in ()).throw(Killed()))
        with suppress(Killed, ldp.BudgetExceeded):
            holder.release(mechanism, rng=SYSTEM)
        monkeypatch.setattr(type(mechanism), "randomize", draw)
    account = people(path)
    sums = [Fraction(0), Fraction(0)]
    for entry in account.charges:
        for part in (0, 1):
            if not entry.path or entry.path[0][1] == part:
                sums[part] += entry.loss.max_loss or 0
    assert len(account.charges) > 50 and account.spent.epsilon() == float_above(max(sums)) <= 2


def test_budgets_are_spent_to_the_last_decimal(make: Make) -> None:
    holder = ldp.Curator(LABELS, domain=DOMAIN, ledger=make(ldp.Budget(1)))
    for part in holder.split(ldp.Public(np.arange(300) % 2, why="by row number")):
        part.release(response(0.5), rng=SYSTEM)
    holder.release(response(0.25), rng=SYSTEM)
    with pytest.raises(ldp.BudgetExceeded, match=r"epsilon = 0\.75 of .* bring it to 1\.01"):
        holder.release(response(0.26), rng=SYSTEM)
    holder.release(response("0.2499"), rng=SYSTEM)
    holder.release(response("0.0001"), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 1


def test_steps_are_found_by_their_cost_before_a_run(tmp_path: Path) -> None:
    holder = curator(tmp_path / "ledger.db", budget=1, run="fit")
    mechanism = response(0.5)
    loss = mechanism.privacy_loss()
    steps = [PendingCharge({}, loss, step="fit: one"), PendingCharge({}, loss, step="fit: two")]
    holder.release(mechanism, rng=SYSTEM, step="one")
    holder.ledger.require(steps)
    with pytest.raises(ldp.BudgetExceeded):
        holder.ledger.require([*steps, PendingCharge({}, loss, step="fit: three")])
    holder.ledger.read().afford(asked(response(0.5)))  # found again
    holder.ledger.read().afford(asked(response("0.49")))
    with pytest.raises(ldp.BudgetExceeded):
        holder.ledger.read().afford(asked(response(0.51)))


def test_equal_costs_have_one_digest() -> None:
    loss = PrivacyLoss.pure("0.1") + PrivacyLoss.gaussian(0.2)
    again = PrivacyLoss.from_json(json.loads(json.dumps((PrivacyLoss.gaussian(0.2) + PrivacyLoss.pure(0.1)).to_json())))
    one = Unit.ONE_LABEL
    assert cost_digest((), loss, one) == cost_digest((), again, one) != cost_digest((("split", 1),), loss, one)
    assert cost_digest((), loss, one) != cost_digest((), loss, Unit.ONE_USER)


def test_equal_integers_and_texts_are_one_id(path: Path) -> None:
    LedgerFile(path).add("people", ldp.Budget(9))
    releases = []
    for ids in (np.arange(20), [str(row) for row in range(20)]):
        account = LedgerFile(path).dataset("people")
        holder = ldp.Curator(np.arange(20) % 3, domain=DOMAIN, ledger=account, ids=ids)
        releases.append(holder.release(response(1), rng=account.randomness))
    assert releases[0].certificate == releases[1].certificate
    assert (releases[0].value == releases[1].value).all()
    assert len(LedgerFile(path).dataset("people").charges) == 1


def test_a_budget_may_change_in_any_direction_and_a_smaller_one_only_refuses_more(tmp_path: Path) -> None:
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    charge(opened(path, ldp.Budget(2, 1e-6)), PrivacyLoss.gaussian(0.2))
    used = people(path).used()
    file.change("people", budget=ldp.Budget(3, 1e-6))
    assert people(path).used() < used
    for smaller in (ldp.Budget("0.1", 1e-6), ldp.Budget("0.1")):
        file.change("people", budget=smaller)
        with pytest.raises(ldp.BudgetExceeded, match="Nothing was charged"):
            charge(people(path), PrivacyLoss.pure("0.01"), name="small")
        assert people(path).read().promised == ldp.Budget(Fraction(2), Fraction(1, 10**6))
    with pytest.raises(ldp.privacy.LedgerError, match="has a budget already"):
        file.add("people", ldp.Budget(3, 1e-6))
    file.change("people", budget=ldp.Budget(3, 1e-6))
    charge(people(path), PrivacyLoss.gaussian(0.2), name="more")


@pytest.mark.parametrize("first", [PrivacyLoss.pure("0.5"), WHOLE])
def test_a_change_after_a_look_does_not_divide_delta_again(tmp_path: Path, first: PrivacyLoss) -> None:
    path = tmp_path / "l.db"
    charge(opened(path, ldp.Budget(1, 1e-6)), first)
    before = people(path).read().account
    LedgerFile(path).change("people", budget=ldp.Budget(2, 1e-5))
    after = people(path).read().account
    assert before.policy is after.policy is (Policy.PLAN if first == WHOLE else Policy.ADAPTIVE)
    assert before.limits is not None and after.limits is not None
    for number in ("tail", "failure"):
        assert getattr(after.limits, number) == 10 * getattr(before.limits, number)
    assert after.limits.reserve * 20 == after.limits.rate + after.limits.reserve


def test_how_delta_is_divided_does_not_follow_from_releases_at_delta_0(tmp_path: Path) -> None:
    """RR(.5) with no delta, then delta, then RR(.6) or a failure of all of delta: neither of them."""
    for number, more in enumerate((PrivacyLoss.pure("0.6"), PrivacyLoss.failure(DELTA))):
        path = tmp_path / f"{number}.db"
        charge(opened(path, ldp.Budget(1)), PrivacyLoss.pure("0.5"))
        LedgerFile(path).change("people", budget=ldp.Budget(1, DELTA))
        with pytest.raises(ldp.BudgetExceeded, match=r"% of .* is used, and"):
            charge(people(path), more, name="b")
        charge(people(path), PrivacyLoss.pure("0.5"), name="c")
        assert people(path).read().account.policy is Policy.ADAPTIVE


def test_a_charge_names_its_account_and_the_budgets_of_that(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "l.db", ldp.Budget(3, 1e-6))
    [entry] = charge(ledger, PrivacyLoss.pure("0.1")).entries
    assert entry.account and entry.budgets == ((Fraction(3), Fraction(1, 10**6)),)
    assert set(entry.facts) == {"charged", "version", "commitment"}


def test_a_lowered_budget_leaves_the_larger_promise(tmp_path: Path) -> None:
    """Of what was charged under a budget; one under which nothing was charged is forgotten."""
    path, file = tmp_path / "l.db", LedgerFile(tmp_path / "l.db")
    file.add("people", ldp.Budget(9))
    file.change("people", budget=ldp.Budget(2))
    charge(people(path), PrivacyLoss.pure("0.5"))
    file.change("people", budget=ldp.Budget(1))
    assert people(path).read().promised == ldp.Budget(Fraction(2), Fraction(0))
    assert "epsilon = 2, delta = 0: the largest budget that the dataset had" in describe_ledger(str(path))
    [entry] = charge(people(path), PrivacyLoss.pure("0.25"), name="more").entries
    assert entry.budgets == ((Fraction(2), Fraction(0)), (Fraction(1), Fraction(0)))
    file.change("people", budget=ldp.Budget(3))
    assert people(path).read().promised == ldp.Budget(Fraction(3), Fraction(0))


def test_what_is_used_is_told_without_an_epsilon(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    charge(opened(path, ldp.Budget(2, 1e-6)), PrivacyLoss.pure("0.75"))
    said = describe_ledger(str(path))
    assert "37.5 % of ε = 2, δ = 1e-06" in said and "the guarantee is the whole budget" in said
    LedgerFile(path).add("empty", ldp.Budget(2, 1e-6))
    assert "0 % of ε = 2, δ = 1e-06" in describe_ledger(str(path))


@pytest.mark.parametrize("cell", ["account.loss", "account.reserve", "paid.loss", "paid.failure"])
def test_a_negative_number_in_a_ledger_is_refused(tmp_path: Path, cell: str) -> None:
    """A sum or a limit below zero would give budget back."""
    path = tmp_path / "ledger.db"
    curator(path, budget=2).release(response(0.5), rng=SYSTEM)
    table, column = cell.split(".")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = '-5'")
    with pytest.raises(LedgerError, match="an entry that labeldp did not write"):
        curator(path).release(response(0.25), rng=SYSTEM)
