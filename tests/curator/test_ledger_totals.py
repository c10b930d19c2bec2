"""Totals of a ledger file are those of its releases, whatever happened to it."""

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, SYSTEM, curator, people, response
from labeldp.curator import LedgerFile
from labeldp.curator.ledger_totals import cost_digest
from labeldp.privacy import Bound, PrivacyLoss, Request, total_loss


class Killed(BaseException):
    """Stands for a process that ends in the middle of a transaction."""


def kept(path: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """What the file says of releases, totals and bounds."""
    with closing(sqlite3.connect(path)) as connection:
        releases = connection.execute("SELECT dataset, cost FROM release").fetchall()
        totals = connection.execute("SELECT dataset, cost, times FROM total").fetchall()
        return releases, totals, connection.execute("SELECT * FROM bound").fetchall()


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
    assert Counter(releases) == {(dataset, cost): times for dataset, cost, times in totals}
    account, summed = people(path), Bound()
    for charge in account.charges:
        summed += Bound.of(charge.loss)
    [bound] = [Bound.from_texts(*row[1:]) for row in bounds]
    assert (bound.pure, bound.failures) == (summed.pure, summed.failures)
    assert abs(bound.rho - summed.rho) < 1e-20  # type: ignore[operator]  (rounded up)
    assert account.budget.admits(account.spent)


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
    asked = [Request({}, loss, step="fit: one"), Request({}, loss, step="fit: two")]
    holder.release(mechanism, rng=SYSTEM, step="one")
    holder.ledger.require(asked)
    with pytest.raises(ldp.BudgetExceeded):
        holder.ledger.require([*asked, Request({}, loss, step="fit: three")])
    holder.ledger.afford(response(0.5))  # found again
    holder.ledger.afford(response("0.49"))
    with pytest.raises(ldp.BudgetExceeded):
        holder.ledger.afford(response(0.51))


def test_equal_costs_have_one_digest() -> None:
    loss = PrivacyLoss.pure("0.1") + PrivacyLoss.gaussian(0.2)
    again = PrivacyLoss.from_json(json.loads(json.dumps((PrivacyLoss.gaussian(0.2) + PrivacyLoss.pure(0.1)).to_json())))
    assert cost_digest((), loss) == cost_digest((), again) != cost_digest((("split", 1),), loss)


def test_old_datasets_keep_their_ids_and_new_ones_have_one_scheme(tmp_path: Path) -> None:
    """In one file: the dataset of an earlier version takes '7' and 7 for two records, a new one for one."""
    path = tmp_path / "ledger.db"
    LedgerFile(path).add("people", ldp.Budget(9))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE dataset SET ids = 1")
    LedgerFile(path).add("others", ldp.Budget(9))
    labels = np.arange(20) % 3
    for name, same in (("people", False), ("others", True)):
        found = []
        for ids in (np.arange(20), [str(row) for row in range(20)]):
            account = LedgerFile(path).dataset(name)
            holder = ldp.Curator(labels, domain=DOMAIN, ledger=account, ids=ids)
            found.append(holder.release(response(1), rng=account.randomness))
        assert (found[0].certificate == found[1].certificate) is same
        assert bool((found[0].value == found[1].value).all()) is same
        assert len(LedgerFile(path).dataset(name).charges) == (1 if same else 2)
