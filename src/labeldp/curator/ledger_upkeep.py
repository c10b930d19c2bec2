"""A ledger file backed up, restored, moved, and given new keys, with nothing that was spent forgotten."""

import os
import secrets
import shlex
from pathlib import Path
from sqlite3 import Connection

from labeldp.curator.cohorts import cohorts_of
from labeldp.curator.datasets import (
    SECRET_BYTES,
    Dataset,
    charge_from,
    dataset_names,
    known_dataset,
    now,
    record_change,
    record_restored,
)
from labeldp.curator.ledger_file import LedgerFile
from labeldp.curator.ledger_store import (
    APPLICATION,
    BACKUP,
    MOVED,
    Store,
    appearing,
    application_of,
    copy_database,
    opened,
)
from labeldp.privacy import InputError, LedgerError, path_text


def back_up(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Copy a ledger file that may be in use into a backup, which nothing can be charged to.

    The backup is as secret as the ledger, since it holds the same keys.

    Args:
        path: of the ledger.
        target: of the backup; its folder must exist, and no file of that name.

    Returns:
        The path of the backup.

    Guarantee (no_ledger): no command and no `LedgerFile` takes a backup for a ledger.

    Raises:
        InputError: there is a file at `target`.
        LedgerError: there is no ledger at `path`, it is damaged, or the backup cannot be written.
    """
    new = _new(target, "target")
    with Store(path).connected() as connection, appearing(new) as hidden:
        copy_database(connection, hidden, BACKUP)
        with opened(hidden) as copy:
            copy.execute("CREATE TABLE backup (created TEXT NOT NULL)")
            copy.execute("INSERT INTO backup VALUES (?)", (now(),))
    return new


def restore(backup: str | os.PathLike[str], target: str | os.PathLike[str]) -> LedgerFile:
    """Make a ledger file of a backup, with every dataset closed.

    Charges since the backup are not in it. So each dataset finds its earlier releases, and refuses new ones until
    `LedgerFile.change` sets its budget again. The new budget must leave room for all releases since the backup.
    Certificates of later releases name this condition.

    Args:
        backup: what `back_up` wrote.
        target: of the ledger; its folder must exist, and no file of that name.

    Guarantee (no_charge): nothing is charged to a restored dataset before its budget was set again.

    Raises:
        InputError: there is a file at `target`.
        LedgerError: this is no backup, or the ledger cannot be written.
    """
    new = _new(target, "target")
    with opened(Path(backup).absolute()) as connection:
        if application_of(connection) != BACKUP:
            raise LedgerError(f"{backup} is no backup of a ledger; it is unchanged")
        with appearing(new) as hidden:
            copy_database(connection, hidden, APPLICATION)
            with Store(hidden).writing() as copy:
                [since] = copy.execute("SELECT created FROM backup").fetchone()
                copy.execute("DROP TABLE backup")
                for name in dataset_names(copy):
                    record_restored(copy, known_dataset(copy, hidden, name), since)
    return LedgerFile(new)


def move(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> LedgerFile:
    """Move a ledger file; the old path then names the new one, so that no process charges both.

    A file without keys stays at the old place. Where a move was interrupted, the same call ends it.

    Args:
        target: where it goes; the folder must exist, and no file of that name.

    Guarantee (one_place): at every moment at most one of the two places takes charges, and every charge is in it.

    Raises:
        InputError: there is a file at `target`.
        LedgerError: there is no ledger at `path`, it was moved elsewhere, or the new one cannot be written.
    """
    old, new = Path(path).absolute(), Path(target).absolute()
    address = path_text(new)
    with opened(old) as connection:
        moved = application_of(connection) == MOVED
        begun = moved and _tables(connection) != ["moved"]
        whither = connection.execute("SELECT path FROM moved").fetchone()[0] if moved else address
    if not moved:
        _new(target, "target")
        with Store(old).writing() as connection:
            connection.execute("CREATE TABLE moved (path TEXT NOT NULL)")
            connection.execute("INSERT INTO moved VALUES (?)", (address,))
            connection.execute(f"PRAGMA application_id = {MOVED}")
    elif not begun or whither != address:
        words = f"labeldp ledger move {shlex.quote(str(old))} --out {shlex.quote(whither)}"
        ends = f"; {words} ends that" if begun else ""
        raise LedgerError(f"the ledger {old} was moved: it is {whither} now{ends}")
    with opened(old) as connection:
        if not os.path.lexists(new):
            try:
                with appearing(new) as hidden:
                    copy_database(connection, hidden, MOVED)
                    with opened(hidden) as copy:
                        _be_ledger(copy)
            except Exception:  # such as a full disk: the ledger stays where it is
                _be_ledger(connection)
                raise
        LedgerFile(new)  # it is whole before the other goes
        _empty(connection)
    return LedgerFile(new)


def rotate_keys(path: str | os.PathLike[str], name: str, why: str | None = None) -> None:
    """Give a dataset new keys, which no copy from before holds.

    What was charged stays charged. Releases so far are kept as those of an earlier generation of keys, and are not
    found again: the same request is another release, with noise of its own, and is charged.

    Args:
        path: of the ledger.
        name: of the dataset.
        why: the reason, in words.

    Guarantee (new_noise): noise that is drawn after a rotation is independent of all that was drawn before, and every
        release after it is charged in addition to all before.

    Raises:
        LedgerError: there is no such dataset; or the keys tell its cohorts, users or snapshots apart.

    Source: `docs/proofs/keys.md`, new keys.
    """
    store = Store(path)
    with store.writing() as connection:
        dataset = known_dataset(connection, store.path, name)
        _refuse_known_by_keys(connection, dataset)
        number = dataset.generation
        values = (secrets.token_bytes(SECRET_BYTES), number + 1, dataset.id)
        connection.execute("UPDATE dataset SET secret = ?, generation = ? WHERE id = ?", values)
        record_change(connection, dataset, "keys", f"number {number}", f"number {number + 1}", why)


def _refuse_known_by_keys(connection: Connection, dataset: Dataset) -> None:
    """Raise LedgerError if more than labels and their noise is known by the keys of a dataset."""
    charges = connection.execute("SELECT charge FROM release WHERE dataset = ?", (dataset.id,))
    if cohorts_of(connection, dataset.id):
        what = "ids of a cohort are compared with those of others"
    elif dataset.protection.users is not None:
        what = "the records of a user are told"
    elif any("run" in charge_from(text).mechanism for (text,) in charges):
        what = "a learner of rounds is known, and a snapshot that was used"
    else:
        return
    raise LedgerError(
        f"the keys of {dataset.name!r} cannot be changed: by them {what}. Add another dataset, with what is left "
        "of the budget; nothing was changed"
    )


def _be_ledger(connection: Connection) -> None:
    """Make a file that was marked as moved a ledger."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DROP TABLE moved")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute("COMMIT")


def _empty(connection: Connection) -> None:
    """Leave nothing in a file but where its ledger is, and overwrite the rest."""
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    for table in _tables(connection):
        if table != "moved":
            connection.execute(f"DROP TABLE {table}")
    connection.execute("COMMIT")
    connection.execute("VACUUM")


def _tables(connection: Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in rows]


def _new(path: str | os.PathLike[str], argument: str) -> Path:
    if os.path.lexists(path):
        raise InputError(f"{path} exists: give a new name", argument=argument)
    return Path(path).absolute()
