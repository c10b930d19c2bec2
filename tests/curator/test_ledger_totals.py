"""Totals of a ledger file are those of its releases, whatever happened to it."""

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, SYSTEM, curator, people, response
from labeldp.curator import LedgerFile
from labeldp.curator.ledger_store import SCHEMA
from labeldp.curator.ledger_totals import add_charge, check_cohorts, cost_digest, read_bounds, read_totals
from labeldp.privacy import Bound, PendingCharge, PrivacyLoss, Span, total_loss


class Killed(BaseException):
    """Stands for a process that ends in the middle of a transaction."""


def kept(path: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """What the file says of releases, totals and bounds."""
    with closing(sqlite3.connect(path)) as connection:
        releases = connection.execute("SELECT dataset, low, high, cost FROM release").fetchall()
        totals = connection.execute("SELECT dataset, low, high, cost, times FROM total").fetchall()
        return releases, totals, connection.execute("SELECT cohort, pure, rho, failures FROM bound").fetchall()


@pytest.mark.slow
def test_totals_are_recomputed_from_random_histories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases of the whole and of parts, refusals, and processes that end before or after the value was drawn."""
    path, chance = tmp_path / "ledger.db", random.Random(5)
    # What is on disk is the subject, not how long the disk takes.
    monkeypatch.setattr("labeldp.curator.ledger_store.SYNC", "OFF")
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
        if step % 10 == 0:
            account = people(path)
            assert account.spent == total_loss(account.charges)
    releases, totals, bounds = kept(path)
    assert len(releases) > 50
    assert Counter(releases) == {tuple(place): times for *place, times in totals}
    account, summed = people(path), Bound()
    for charge in account.charges:
        summed += Bound.of(charge.loss)
    [bound] = [Bound.from_texts(*row[1:]) for row in bounds]
    assert (bound.pure, bound.failures) == (summed.pure, summed.failures)
    assert abs(bound.rho - summed.rho) < 1e-20  # type: ignore[operator]  (rounded up)
    assert account.budget.admits(account.spent)


TENTH = Fraction(1, 10)

PARTS = 2
"""Parts of a split of every cohort in `random_history`."""


def paid(history: list[tuple[Span, int | None, Fraction]], cohort: int, part: int) -> Fraction:
    """What a record paid: of all charges of its cohort, those on all records or on its part."""
    return sum((cost for (low, high), of, cost in history if low <= cohort <= high and of in (None, part)), Fraction(0))


def random_history(
    connection: sqlite3.Connection, chance: random.Random, dataset: int, add: Callable[..., None] = add_charge
) -> None:
    """Cohorts that come and are charged, alone and with all before them, whole and in parts; some charges are undone.

    After each step the kept totals are what every record paid, added up one by one, and the bounds are no less.
    """
    history: list[tuple[Span, int | None, Fraction]] = []
    cohorts = 1
    for _ in range(chance.randrange(1, 12)):
        if chance.random() < 0.3:
            cohorts += 1
            continue
        last = chance.randrange(cohorts)
        span = chance.choice([(last, last), (0, last), (0, cohorts - 1)])
        part, cost = chance.choice([None, None, 0, 1]), Fraction(chance.choice([1, 1, 2, 5]), 10)
        path = () if part is None else (("split", part),)
        connection.execute("BEGIN")
        add(connection, dataset, span, path, PrivacyLoss.pure(cost))
        if chance.random() < 0.25:  # the process was killed, or the disk was full
            connection.execute("ROLLBACK")
        else:
            connection.execute("COMMIT")
            history.append((span, part, cost))
    totals, bounds = read_totals(connection, dataset), read_bounds(connection, dataset, (0, cohorts - 1))
    worst = [max(paid(history, cohort, part) for part in range(PARTS)) for cohort in range(cohorts)]
    assert [totals.loss([cohort]).max_loss for cohort in range(cohorts)] == worst
    assert totals.loss(range(cohorts)).max_loss == max(worst)
    assert all(bound.pure is not None and bound.pure >= worst[cohort] for cohort, bound in bounds.items())
    limit, cohort = chance.choice([each for each in worst if each] or [TENTH]), chance.randrange(cohorts)
    admitted = True
    try:
        more = [((), PrivacyLoss.pure(TENTH))]
        check_cohorts(ldp.Budget(limit), {cohort: bounds[cohort]}, lambda: totals, more, "people")
    except ldp.BudgetExceeded:
        admitted = False
    assert admitted is (worst[cohort] + TENTH <= limit)


@pytest.mark.slow
@pytest.mark.guarantee("labeldp.curator:CohortTotals", "never_less")
def test_thousands_of_histories_with_cohorts_never_under_count() -> None:
    chance = random.Random(11)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        for dataset in range(1, 3001):
            random_history(connection, chance, dataset)


def test_totals_that_forget_a_cohort_are_caught() -> None:
    """The histories tell wrong books: charges of all records on the last cohort alone, or on one more."""

    def forgetful(connection: sqlite3.Connection, dataset: int, span: Span, *rest: Any) -> None:
        add_charge(connection, dataset, (span[1], span[1]), *rest)

    def generous(connection: sqlite3.Connection, dataset: int, span: Span, *rest: Any) -> None:
        add_charge(connection, dataset, (span[0], span[1] + 1), *rest)

    for wrong in (forgetful, generous):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection, pytest.raises(AssertionError):
            connection.executescript(SCHEMA)
            for dataset in range(1, 50):
                random_history(connection, random.Random(dataset), dataset, wrong)


def test_a_bound_decides_like_the_whole_loss(tmp_path: Path) -> None:
    """Budgets are spent to the last decimal, though the sums count both parts of a split."""
    path = tmp_path / "ledger.db"
    holder = curator(path, budget=1)
    for part in holder.split(ldp.Public(np.arange(300) % 2, why="by row number")):
        part.release(response(0.5), rng=SYSTEM)
    holder.release(response(0.25), rng=SYSTEM)
    with pytest.raises(ldp.BudgetExceeded, match=r"spent so far: epsilon = 0\.75; this .* epsilon = 1\.01"):
        holder.release(response(0.26), rng=SYSTEM)
    holder.release(response("0.2499"), rng=SYSTEM)
    holder.release(response("0.0001"), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1


def test_steps_are_found_by_their_cost_before_a_run(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    holder = curator(path, budget=1, run="fit")
    mechanism = response(0.5)
    loss = mechanism.privacy_loss()
    asked = [PendingCharge({}, loss, step="fit: one"), PendingCharge({}, loss, step="fit: two")]
    holder.release(mechanism, rng=SYSTEM, step="one")
    holder.ledger.require(asked)
    with pytest.raises(ldp.BudgetExceeded):
        holder.ledger.require([*asked, PendingCharge({}, loss, step="fit: three")])
    holder.ledger.afford(response(0.5))  # found again
    holder.ledger.afford(response("0.49"))
    with pytest.raises(ldp.BudgetExceeded):
        holder.ledger.afford(response(0.51))


def test_equal_costs_have_one_digest() -> None:
    loss = PrivacyLoss.pure("0.1") + PrivacyLoss.gaussian(0.2)
    again = PrivacyLoss.from_json(json.loads(json.dumps((PrivacyLoss.gaussian(0.2) + PrivacyLoss.pure(0.1)).to_json())))
    assert cost_digest((), loss) == cost_digest((), again) != cost_digest((("split", 1),), loss)


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
