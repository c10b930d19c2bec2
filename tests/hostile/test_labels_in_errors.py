# ruff: noqa: B023  (actions run at once)
"""No label stands in an exception, what is behind it, a warning, a log line or an output, whatever labels are."""

import io
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp import learners
from labeldp.online import (
    Ball,
    NamedExperts,
    PrivateExperts,
    PrivateOnlineConvex,
    StreamClassifier,
    run_online,
)
from labeldp.privacy import Budget, LabelDPError, PrivacyWarning
from labeldp.releases import release_file
from labeldp.tables import TableEncoder, open_table

N = 40
MARK = "7731773"
NUMBER = int(MARK)
X = np.random.default_rng(0).normal(size=(N, 2))


class Marked:
    """An object that tells of itself wherever it can."""

    def __repr__(self) -> str:
        return MARK

    def __float__(self) -> float:
        raise ValueError(MARK)

    def __hash__(self) -> int:
        raise TypeError(MARK)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError(MARK)


HOSTILE: dict[str, Any] = {
    "text": f"x{MARK}", "number text": MARK, "integer": NUMBER, "huge integer": int(MARK * 4), "float": NUMBER + 0.5,
    "bytes": MARK.encode(), "bytes that are not UTF-8": b"\xff" + MARK.encode(), "object": Marked(),
    "surrogate": f"\ud800{MARK}", "list": [NUMBER], "nested": [[MARK], {"a": MARK}], "dict": {MARK: MARK},
    "tuple": (MARK, NUMBER), "Decimal": Decimal(f"1e{MARK}"), "long Decimal": Decimal(MARK * 9),
    "complex": complex(NUMBER, 1),

    "date": date(7731, 7, 7), "timestamp": pd.Timestamp("2077-07-31"), "NUL": f"{MARK}\0", "set": {MARK},
    "array": np.array([NUMBER, NUMBER]), "interval": pd.Interval(0, NUMBER), "period": pd.Period("2077-07"),
    "NaN": np.nan,
    "half": np.float16(6e4), "long double": np.longdouble("1e4000"), "large": 1e300, "small": -1.0, "long": 10**400,
    "masked": np.ma.masked, "signaling": Decimal("sNaN"), "fraction": Fraction(10**400, 7), "time": pd.NaT,
    "NA": pd.NA, "None": None, "line feed": f"{MARK}\n{MARK}", "infinite": np.inf,
}  # fmt: skip


def columns(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield labels that hold a value, in every container that takes it; one that does not is no case."""
    for others in ([0, 1], ["no", "yes"], [0.0, 1.0], [None, "yes"]):
        listed: list[Any] = [others[row % 2] for row in range(N)]
        listed[17] = value
        objects = np.empty(N, dtype=object)
        for row, label in enumerate(listed):
            objects[row] = label
        makers: dict[str, Callable[[], Any]] = {
            "list": lambda listed=listed: listed,
            "tuple": lambda listed=listed: tuple(listed),
            "objects": lambda objects=objects: objects,
            "array": lambda listed=listed: np.array(listed),
            "pandas": lambda objects=objects: pd.Series(objects, dtype=object),
            "category": lambda objects=objects: pd.Series(objects, dtype="category"),
            "string": lambda objects=objects: pd.Series(objects, dtype="string"),
            "polars": lambda listed=listed: pl.Series(listed, strict=False),
            "polars object": lambda listed=listed: pl.Series(listed, dtype=pl.Object),
            "arrow": lambda listed=listed: pa.array(listed),
        }
        for name, make in makers.items():
            try:
                yield name, make()
            except BaseException:
                continue


def frames(labels: Any) -> Iterator[Any]:
    """Yield tables with a column of labels, in memory."""
    for make in (
        lambda: pd.DataFrame({"x": X[:, 0], "y": labels}),
        lambda: pl.DataFrame({"x": X[:, 0], "y": labels}),
        lambda: pa.table({"x": X[:, 0], "y": labels}),
    ):
        try:
            yield make()
        except BaseException:
            continue


def refuse_marks(action: Callable[[], Any]) -> None:
    """Fail if an action shows a label, or raises another error than one of labeldp."""
    stream, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    shown = ""
    try:
        with warnings.catch_warnings(record=True) as told, redirect_stdout(stream), redirect_stderr(stream):
            warnings.simplefilter("always")
            try:
                action()
            except LabelDPError as error:
                shown = "".join(traceback.format_exception(error))
                behind: BaseException | None = error
                while behind is not None:
                    shown += f"{behind} {behind.args!r}"
                    assert isinstance(behind, LabelDPError), type(behind)
                    behind = behind.__cause__ or behind.__context__
    finally:
        logging.getLogger().removeHandler(handler)
    warned = [str(warning.message) for warning in told if not issubclass(warning.category, PrivacyWarning)]
    assert warned == []  # whatever it says, it is said of some labels alone
    for text in (shown, stream.getvalue(), log.getvalue()):
        assert MARK not in text and "7731-07-07" not in text and "2077-07" not in text


DOMAINS = [ldp.Classes(("no", "yes")), ldp.Classes(2), ldp.Interval(0, 1)]


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_error_of_arrays_shows_a_label(kind: str) -> None:
    for name, labels in columns(HOSTILE[kind]):
        for domain in DOMAINS:
            refuse_marks(lambda: ldp.Curator(labels, domain=domain, budget=Budget(1)))
            refuse_marks(lambda: domain.contains(labels))
        if name in ("list", "objects", "pandas", "polars", "arrow"):
            refuse_marks(lambda: ldp.LabelDPClassifier(epsilon=1, classes=("no", "yes")).fit(X, labels))
            refuse_marks(lambda: ldp.LabelDPRegressor(epsilon=1, range=(0, 1)).fit(X, labels))
            refuse_marks(lambda: learners.Model(DOMAINS[0], None).score(X, labels))


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_error_of_tables_shows_a_label(kind: str, tmp_path: Path) -> None:
    count = 0
    for name, labels in columns(HOSTILE[kind]):
        if name not in ("objects", "polars object", "polars", "arrow", "category"):
            continue
        for frame in frames(labels):
            count += 1
            refuse_marks(lambda: TableEncoder.fit(frame, columns=["x"], label="y"))
            refuse_marks(lambda: TableEncoder.fit(frame, label="y"))
            refuse_marks(lambda: open_table(frame).read(["y"]))
            for domain in DOMAINS[::2]:
                refuse_marks(
                    lambda: release_file(
                        frame,
                        label="y",
                        domain=domain,
                        epsilon=1,
                        ledger=tmp_path / f"{count}.ledger",
                        dataset="d",
                        out=tmp_path / f"{count}.csv",
                    )
                )


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_error_of_losses_shows_one(kind: str, tmp_path: Path) -> None:
    size = 6
    experts = PrivateExperts(d=size, horizon=1000, epsilon=1, rng=np.random.default_rng(0))
    named = NamedExperts("abcdef", PrivateExperts(d=size, horizon=1000, epsilon=1, rng=np.random.default_rng(0)))
    ball = Ball(size, 1.0)
    convex = PrivateOnlineConvex(ball, horizon=1000, epsilon=1, delta=1e-6, rng=np.random.default_rng(0))
    streams = [StreamClassifier(names, epsilon=1, rng=np.random.default_rng(0)) for names in (2, ("no", "yes"))]
    for stream in streams:
        refuse_marks(lambda: stream.learn_one({"age": 1}, HOSTILE[kind]))
    count = 0
    for name, values in columns(HOSTILE[kind]):
        losses = values[12 : 12 + size]  # the value stands at 17
        refuse_marks(lambda: experts.update(losses))
        refuse_marks(lambda: experts.update_levels(losses))
        refuse_marks(lambda: experts.update((list(range(size)), losses)))
        refuse_marks(lambda: experts.update((losses, [0.5] * size)))
        refuse_marks(lambda: named.update(dict(zip("abcdef", losses, strict=True))))
        refuse_marks(lambda: convex.update(losses))
        if name == "arrow" and len(runs := list(frames(values))[-1:]):
            count += 1
            for levels in (False, True):
                out = tmp_path / f"{count}{levels}.csv"
                refuse_marks(lambda: run_online(runs[0], epsilon=1, levels=levels, experts=("x", "y"), out=out))
