"""Mistakes that a fault must find, each planted in the library of this process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labeldp.curator import DatasetLedger, ledger_store
from labeldp.privacy import PendingCharge
from labeldp.tables import writing


def forgetful() -> None:
    """A value leaves before its charge is on disk: the transaction is committed every second time."""
    real, releases = ledger_store.Store.writing, "SELECT COUNT(*) FROM release"

    @contextmanager
    def writing_or_not(store: Any, **options: Any) -> Iterator[Any]:
        with real(store, **options) as connection:
            before = connection.execute(releases).fetchone()
            yield connection
            if connection.execute(releases).fetchone() > before and os.urandom(1) < b"\x80":
                connection.rollback()
                connection.execute("BEGIN")

    ledger_store.Store.writing = writing_or_not  # type: ignore[method-assign]


def drawn_anew() -> None:
    """A release that is asked for again is drawn again, under its old charge."""

    @contextmanager
    def charging(ledger: Any, request: Any, mechanism: Any) -> Iterator[Any]:
        with real(ledger, request, mechanism) as draw:
            yield draw
        draw.value = draw.value ^ os.urandom(1)[0] % 2

    real = DatasetLedger.charging
    DatasetLedger.charging = charging  # type: ignore[method-assign]


def charged_twice() -> None:
    """What was charged before is not recognized."""
    real = PendingCharge.identity

    def identity(request: PendingCharge, **options: Any) -> dict[str, Any]:
        return {**real(request, **options), "another": os.urandom(4).hex()}

    PendingCharge.identity = identity  # type: ignore[method-assign]


def half_written() -> None:
    """An output is written in its place, and not under a hidden name."""

    @contextmanager
    def in_place(path: Any, **options: Any) -> Iterator[Path]:
        yield Path(path)

    writing.atomic_write = in_place


PLANTED = {each.__name__.replace("_", " "): each for each in (forgetful, drawn_anew, charged_twice, half_written)}
"""By name."""
