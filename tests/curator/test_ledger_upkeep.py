"""Backups, restored and moved ledgers, and new keys: nothing that was spent is forgotten."""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, LABELS, SYSTEM, asked, curator, people, response
from labeldp.cli.ledger import describe_ledger
from labeldp.curator import Curator, DatasetLedger, LedgerFile, back_up, ledger_upkeep, move, restore, rotate_keys
from labeldp.online import PrivateExperts

IDS = np.arange(len(LABELS))


def keyed(path: Path, epsilon: float = 1.0, revision: str | None = None) -> np.ndarray:
    """A release with the ledger's key, which is not stored."""
    holder = curator(path, ids=IDS, revision=revision)
    return holder.release(response(epsilon), rng=holder.ledger.randomness).value


def spent(account: DatasetLedger) -> float:
    return account.spent.epsilon()


@pytest.mark.guarantee("labeldp.curator:back_up", "no_ledger")
def test_a_backup_is_no_ledger(path: Path, tmp_path: Path) -> None:
    curator(path).release(response(), rng=SYSTEM)
    copy = back_up(path, tmp_path / "backup")
    content = copy.read_bytes()
    with pytest.raises(ldp.privacy.LedgerError, match="is a backup of a ledger, and no ledger: labeldp ledger restore"):
        LedgerFile(copy)
    with pytest.raises(ldp.privacy.LedgerError, match="is a backup"):
        back_up(copy, tmp_path / "another")
    assert copy.read_bytes() == content and stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert spent(people(path)) == 1
    curator(path).release(response(2), rng=SYSTEM)  # the ledger itself goes on
    assert {each.name for each in tmp_path.iterdir()} == {"ledger.db", "backup"}


@pytest.mark.guarantee("labeldp.curator:restore", "no_charge")
def test_a_restored_ledger_finds_what_it_knows_and_charges_nothing(path: Path, tmp_path: Path) -> None:
    held = curator(path).release(response(), rng=SYSTEM).value
    stream = keyed(path)
    back_up(path, tmp_path / "backup")
    lost = curator(path).release(response(0.5), rng=SYSTEM)
    path.unlink()
    again = restore(tmp_path / "backup", path)
    assert again.datasets() == ("people",) and spent(people(path)) == 2
    assert (curator(path).release(response(), rng=SYSTEM).value == held).all() and (keyed(path) == stream).all()
    for ask in (
        lambda: curator(path).release(response(0.5), rng=SYSTEM),
        lambda: curator(path).require({"": response(0.5)}),
        lambda: people(path).read().afford(asked(response(0.5))),
        lambda: keyed(path, 0.5),
    ):
        with pytest.raises(
            ldp.privacy.LedgerError, match=r"restored from its backup of .* takes no new release"
        ) as refusal:
            ask()
        assert "labeldp ledger add" in str(refusal.value)
    assert spent(people(path)) == 2
    again.change("people", budget=ldp.Budget(epsilon=3.5), why="an epsilon of 0.5 was released after the backup")
    value = curator(path).release(response(1.5), rng=SYSTEM)
    assert any("the ledger was restored from its backup of" in each for each in value.certificate.assumptions)
    assert not any("restored" in each for each in lost.certificate.assumptions)
    assert spent(people(path)) == 3.5
    assert [change.what for change in people(path).read().changes] == ["ledger", "budget"]


def test_the_same_budget_opens_a_restored_ledger_once(path: Path, tmp_path: Path) -> None:
    curator(path).release(response(), rng=SYSTEM)
    restore(back_up(path, tmp_path / "backup"), tmp_path / "again").change("people", budget=ldp.Budget(epsilon=4))
    curator(tmp_path / "again").release(response(3), rng=SYSTEM)
    restore(back_up(tmp_path / "again", tmp_path / "second"), tmp_path / "third")
    with pytest.raises(ldp.privacy.LedgerError, match="takes no new release"):
        curator(tmp_path / "third").release(response(0.1), rng=SYSTEM)


@pytest.mark.parametrize("budget", [ldp.Budget(4), ldp.Budget(4, "1e-6")])
def test_a_restored_ledger_with_an_account_charges_nothing(path: Path, tmp_path: Path, budget: ldp.Budget) -> None:
    LedgerFile(path).add("people", budget)
    holder = curator(path)
    holder.require({str(each): response(each) for each in (0.5, 0.25)})
    holder.release(response(0.5), rng=SYSTEM)
    again = restore(back_up(path, tmp_path / "backup"), tmp_path / "again")
    closed = curator(tmp_path / "again")
    with pytest.raises(ldp.privacy.LedgerError, match="takes no new release"):
        closed.require({"0.25": response(0.25)})
    with pytest.raises(ldp.privacy.LedgerError, match="takes no new release"):
        closed.release(response(0.25), rng=SYSTEM)
    assert len(again.dataset("people").charges) == 1


def test_what_is_no_backup_is_left_as_it_is(path: Path, tmp_path: Path) -> None:
    curator(path).release(response(), rng=SYSTEM)
    content = path.read_bytes()
    (tmp_path / "text").write_text("no database at all, but long enough to be one" * 50)
    for place, message in ((path, "is no backup"), (tmp_path / "text", "is not a ledger"), (tmp_path / "none", "no")):
        with pytest.raises(ldp.privacy.LedgerError, match=message):
            restore(place, tmp_path / "again")
    assert path.read_bytes() == content and not (tmp_path / "again").exists()
    for command in (back_up, move):
        with pytest.raises(ldp.privacy.InputError, match="exists: give a new name"):
            command(path, tmp_path / "text")
        with pytest.raises(ldp.privacy.LedgerError):
            command(tmp_path / "none", tmp_path / "new")
    with pytest.raises(ldp.privacy.InputError, match="exists: give a new name"):
        restore(back_up(path, tmp_path / "backup"), tmp_path / "text")


def test_a_damaged_ledger_has_no_backup(path: Path, tmp_path: Path) -> None:
    for epsilon in np.linspace(0.01, 0.02, 8):
        curator(path).release(response(float(epsilon)), rng=SYSTEM)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(range(256)) * 32)
    with pytest.raises(ldp.privacy.LedgerError, match="damaged"):
        back_up(path, tmp_path / "backup")
    assert {each.name for each in tmp_path.iterdir()} == {"ledger.db"}


@pytest.mark.guarantee("labeldp.curator:move", "one_place")
def test_a_moved_ledger_says_where_it_is(path: Path, tmp_path: Path) -> None:
    stream, account = keyed(path), people(path)
    with closing(sqlite3.connect(path)) as connection:
        secret = connection.execute("SELECT secret FROM dataset").fetchone()[0]
    new = move(path, tmp_path / "new.db")
    for ask in (lambda: LedgerFile(path), lambda: account.spent, lambda: curator(path, budget=9)):
        with pytest.raises(ldp.privacy.LedgerError, match=f"was moved: it is {tmp_path / 'new.db'} now"):
            ask()
    with pytest.raises(ldp.privacy.LedgerError, match="was moved"):
        move(path, tmp_path / "third.db")
    assert secret not in path.read_bytes() and b"RandomizedResponse" not in path.read_bytes()
    assert secret in new.path.read_bytes() and stat.S_IMODE(new.path.stat().st_mode) == 0o600
    assert spent(people(new.path)) == 1 and (keyed(new.path) == stream).all()
    keyed(new.path, 2)
    move(new.path, tmp_path / "last.db")
    assert spent(people(tmp_path / "last.db")) == 3


@pytest.mark.parametrize("at", ["copy_database", "_empty"])
def test_a_move_that_was_cut_off_is_ended(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    keyed(path)

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ledger_upkeep, at, cut)
        move(path, tmp_path / "new.db")
    with pytest.raises(ldp.privacy.LedgerError, match="was moved"):
        keyed(path, 2)
    with pytest.raises(ldp.privacy.LedgerError, match=r"labeldp ledger move .*new\.db ends that"):
        move(path, tmp_path / "other.db")
    assert spent(people(move(path, tmp_path / "new.db").path)) == 1
    with closing(sqlite3.connect(path)) as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["moved"]


@pytest.mark.guarantee("labeldp.curator:rotate_keys", "new_noise")
def test_new_keys_have_noise_of_their_own_and_forget_no_charge(path: Path) -> None:
    before, held = keyed(path), curator(path).release(response(0.5), rng=SYSTEM).value
    account, key = people(path), people(path).randomness
    rotate_keys(path, "people", "an old copy got out")
    assert spent(people(path)) == 1.5 and people(path).randomness.identity != key.identity
    with pytest.raises(ldp.privacy.LedgerError, match="was added or replaced meanwhile"):
        account.check_labels(curator(path)._request(response(), SYSTEM, None))
    after = keyed(path)
    assert spent(people(path)) == 2.5 and 0.3 < (after == before).mean() < 0.9
    assert (curator(path).release(response(0.5), rng=SYSTEM).value != held).any() and spent(people(path)) == 3
    assert (keyed(path) == after).all() and spent(people(path)) == 3
    assert [entry.generation for entry in people(path).read().entries] == [1, 1, 2, 2]
    assert [entry.generation for entry in people(path).read().own_entries] == [2, 2]
    assert [line.split()[-1] for line in describe_ledger(str(path)).splitlines()[-5:-1]] == ["1", "1", "2", "2"]
    [change] = people(path).read().changes
    assert (change.what, change.why) == ("keys", "an old copy got out")
    with pytest.raises(ldp.BudgetExceeded):
        keyed(path, 1.25)
    rotate_keys(path, "people")
    assert people(path).read().own_entries == () and spent(people(path)) == 3


def test_splits_before_and_after_new_keys_add_up(path: Path) -> None:
    """Parts of the same records under unlike keys are parts of two splits: nobody knows that they are the same."""
    for _ in range(2):
        first, second = curator(path, ids=IDS).split(ldp.Public(IDS % 2, why="even and odd ids"))
        for part in (first, second):
            part.release(response(), rng=part.ledger.randomness)
        rotate_keys(path, "people")
    assert spent(people(path)) == 2


def test_columns_keep_their_names_under_new_keys(path: Path) -> None:
    LedgerFile(path).add("survey", ldp.Budget(4))
    for column in ("income", "age"):
        holder = Curator(LABELS, domain=DOMAIN, ledger=LedgerFile(path).dataset(f"survey/{column}"))
        holder.release(response(), rng=SYSTEM)
    rotate_keys(path, "survey")
    found = LedgerFile(path).dataset("survey").read().entries
    assert [(entry.column, entry.generation) for entry in found] == [("income", 1), ("age", 1)]


def with_cohorts(path: Path) -> None:
    LedgerFile(path).add("people", ldp.Budget(4))
    LedgerFile(path).add_cohort("people", "january", IDS)


def with_users(path: Path) -> None:
    holder = curator(path, ids=IDS, users=IDS // 2, budget=8)
    holder.release(response(), rng=SYSTEM)


def with_a_learner(path: Path) -> None:
    LedgerFile(path).add("people", ldp.Budget(4, "1e-6"))
    PrivateExperts(3, 10, epsilon=1, delta=1e-6, ledger=people(path), rng=SYSTEM)


@pytest.mark.parametrize("known", [with_cohorts, with_users, with_a_learner])
def test_keys_that_tell_more_than_labels_apart_stay(path: Path, known: Callable[[Path], None]) -> None:
    known(path)
    key = people(path).digest_key
    with pytest.raises(ldp.privacy.LedgerError, match="the keys of 'people' cannot be changed: by them"):
        rotate_keys(path, "people")
    assert people(path).digest_key == key and people(path).read().changes == ()


def test_a_full_disk_leaves_one_ledger(path: Path, tiny_disk: Path) -> None:
    for epsilon in (0.1, 0.2):
        Curator(
            np.tile(LABELS, 900), domain=DOMAIN, ledger=LedgerFile(path).dataset("people", budget=ldp.Budget(4))
        ).release(response(epsilon), rng=SYSTEM)
    before = spent(people(path))
    with pytest.raises(ldp.privacy.LedgerError, match="disk is full"):
        back_up(path, tiny_disk / "backup")
    assert os.listdir(tiny_disk) == [] and spent(people(path)) == before
    with pytest.raises(ldp.privacy.LedgerError, match="disk is full"):
        move(path, tiny_disk / "new.db")
    assert os.listdir(tiny_disk) == []
    assert spent(people(path)) == before
    curator(path, np.tile(LABELS, 900)).release(response(0.3), rng=SYSTEM)
