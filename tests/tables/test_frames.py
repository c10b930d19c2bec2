"""Columns of data frames are read right, or refused by name before anything is charged."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.linear_model import LinearRegression

import labeldp as ldp
from labeldp.privacy import InputError
from labeldp.tables import TableEncoder, as_table

N = 60
RNG = np.random.default_rng(0)
B = RNG.normal(size=N)
LABELS = RNG.integers(0, 2, N)
WHOLE = np.arange(N) % 7
LETTERS = ["ab"[place % 2] for place in range(N)]
DAYS = [date(2026, 1, 1) + timedelta(days=place % 9) for place in range(N)]
TIMES = [datetime(2026, 1, 1, place % 24) for place in range(N)]
GAP = np.arange(N) == 3


def gapped(values: Any) -> Any:
    return [None if gap else value for value, gap in zip(list(values), GAP.tolist(), strict=True)]


def ranks(values: Any) -> list[float]:
    """Return numbers for values that are read as categories: the most frequent first, then by text."""
    counts = {value: -values.count(value) for value in values}
    order = sorted(counts, key=lambda value: (counts[value], str(value)))
    return [float(order.index(value)) for value in values]


def days_of(values: Any) -> list[float]:
    return [(pd.Timestamp(value) - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1) for value in values]


mixed = [7 if place % 2 else "x" for place in range(N)]

READ: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "Int64 with gaps": (lambda: pd.array(gapped(WHOLE.tolist()), dtype="Int64"), np.where(GAP, np.nan, WHOLE).tolist()),
    "boolean with gaps": (
        lambda: pd.array(gapped((WHOLE > 2).tolist()), dtype="boolean"),
        np.where(GAP, np.nan, WHOLE > 2).tolist(),
    ),
    "string[pyarrow]": (lambda: pd.array(LETTERS, dtype="string[pyarrow]"), ranks(LETTERS)),
    "string[python]": (lambda: pd.array(LETTERS, dtype="string[python]"), ranks(LETTERS)),
    "category of texts": (lambda: pd.Categorical(LETTERS), ranks(LETTERS)),
    "category of integers": (lambda: pd.Categorical(WHOLE), ranks(list(map(str, WHOLE)))),
    "category of truth values": (lambda: pd.Categorical(WHOLE > 2), (WHOLE > 2).astype(float).tolist()),
    "category of intervals": (lambda: pd.cut(B, 3), ranks(list(map(str, pd.cut(B, 3))))),
    "category of mixed": (lambda: pd.Categorical(mixed), ranks(list(map(str, mixed)))),
    "category of days": (lambda: pd.Categorical(pd.to_datetime(DAYS)), ranks([str(pd.Timestamp(day)) for day in DAYS])),
    "period": (lambda: pd.PeriodIndex(pd.to_datetime(DAYS), freq="D").array, days_of(DAYS)),
    "interval": (lambda: pd.arrays.IntervalArray(pd.cut(B, 3)), ranks(list(map(str, pd.cut(B, 3))))),
    "time zone": (lambda: pd.DatetimeIndex(TIMES, tz="Europe/Paris").array, [day - 1 / 24 for day in days_of(TIMES)]),
    "timedelta": (lambda: pd.to_timedelta(WHOLE, unit="D").array, WHOLE.astype(float).tolist()),
    "Decimal objects": (lambda: np.array([Decimal(int(w)) / 4 for w in WHOLE], object), (WHOLE / 4).tolist()),
    "long Decimals": (
        lambda: np.array([Decimal(f"1e{60 + w}") for w in WHOLE], object),
        [10.0 ** (60 + w) for w in WHOLE],
    ),
    "Fractions": (
        lambda: np.array([Fraction(int(w), 3) for w in WHOLE], object),
        ranks([str(Fraction(int(w), 3)) for w in WHOLE]),
    ),
    "huge integers": (
        lambda: np.array([2**70 * (1 + int(w)) for w in WHOLE], object),
        [2.0**70 * (1 + w) for w in WHOLE],
    ),
    "mixed": (lambda: np.array(mixed, object), ranks(list(map(str, mixed)))),
    "mixed truth values": (lambda: np.array([True, 1] * (N // 2), object), ranks(["true", "1"] * (N // 2))),
    "dates": (lambda: np.array(DAYS, object), days_of(DAYS)),
    "sparse": (
        lambda: pd.arrays.SparseArray(np.where(WHOLE > 4, WHOLE, 0)),
        np.where(WHOLE > 4, WHOLE, 0).astype(float).tolist(),
    ),
    "float16": (lambda: (WHOLE / 4).astype(np.float16), (WHOLE / 4).tolist()),
    "uint64": (
        lambda: (WHOLE.astype(np.uint64) << np.uint64(60)) + np.uint64(2**63),
        (2.0**63 + 2.0**60 * WHOLE).tolist(),
    ),
    "arrow decimals": (
        lambda: pd.array([Decimal(int(w)) / 4 for w in WHOLE], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        (WHOLE / 4).tolist(),
    ),
    "arrow texts": (lambda: pd.array(LETTERS, dtype=pd.ArrowDtype(pa.string())), ranks(LETTERS)),
    "arrow dates": (lambda: pd.array(DAYS, dtype=pd.ArrowDtype(pa.date32())), days_of(DAYS)),
}

REFUSED: dict[str, Callable[[], Any]] = {
    "complex": lambda: B.astype(complex),
    "complex objects": lambda: np.array([1j] * N, object),
    "objects": lambda: np.array([object() for _ in range(N)], object),
    "texts that are not UTF-8": lambda: np.array(["\ud800", "b"] * (N // 2), object),
    "lists and texts": lambda: np.array([["x"] if place % 2 else "b" for place in range(N)] + [None], object)[:N],
}


def same(one: Any, other: Any) -> bool:
    return bool(np.allclose(np.asarray(one, float), np.asarray(other, float), equal_nan=True))


@pytest.mark.parametrize("kind", READ)
def test_a_column_of_pandas_is_read_right(kind: str) -> None:
    make, expected = READ[kind]
    frame = pd.DataFrame({"a": make(), "b": B})
    assert same(TableEncoder.fit(frame).transform(frame)[:, 0], expected)
    fit = ldp.LabelDPClassifier(epsilon=5, classes=(0, 1), estimator="cells").fit(frame, LABELS)
    assert fit.predict(frame).shape == (N,)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_column_that_cannot_be_read_is_refused_by_name(kind: str) -> None:
    frame = pd.DataFrame({"b": B})
    frame["the column"] = REFUSED[kind]()
    classifier = ldp.LabelDPClassifier(epsilon=5, classes=(0, 1), estimator="cells")
    for action in (
        lambda: classifier.fit(frame, LABELS),
        lambda: TableEncoder.fit(frame),
        lambda: TableEncoder.fit(frame, columns=["the column"]),
        lambda: TableEncoder.fit(pd.DataFrame({"the column": LETTERS})).transform(frame),
    ):
        with pytest.raises(InputError, match="'the column'"):
            action()
    assert same(TableEncoder.fit(frame, columns=["b"]).transform(frame)[:, 0], B)
    classifier.fit(frame[["b"]], LABELS)  # the right to fit is left


POLARS: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "Categorical": (lambda: pl.Series(LETTERS, dtype=pl.Categorical), ranks(LETTERS)),
    "Enum": (lambda: pl.Series(LETTERS, dtype=pl.Enum(["a", "b", "c"])), ranks(LETTERS)),
    "Categorical with gaps": (
        lambda: pl.Series(gapped(LETTERS), dtype=pl.Categorical),
        np.where(GAP, np.nan, ranks(gapped(LETTERS))).tolist(),
    ),
    "Decimal": (lambda: pl.Series([Decimal(int(w)) / 4 for w in WHOLE], dtype=pl.Decimal(9, 2)), (WHOLE / 4).tolist()),
    "Date": (lambda: pl.Series(DAYS), days_of(DAYS)),
    "Datetime": (lambda: pl.Series(TIMES), days_of(TIMES)),
    "Duration": (lambda: pl.Series([timedelta(days=int(w)) for w in WHOLE]), WHOLE.astype(float).tolist()),
    "Boolean": (lambda: pl.Series((WHOLE > 2).tolist()), (WHOLE > 2).astype(float).tolist()),
    "String": (lambda: pl.Series(LETTERS), ranks(LETTERS)),
    "Object of mixed": (lambda: pl.Series(mixed, dtype=pl.Object), ranks(list(map(str, mixed)))),
    "Int128": (
        lambda: pl.Series([2**70 * (1 + int(w)) for w in WHOLE], dtype=pl.Int128),
        [2.0**70 * (1 + w) for w in WHOLE],
    ),
}


@pytest.mark.parametrize("kind", POLARS)
def test_a_column_of_polars_is_read_right_or_refused(kind: str) -> None:
    make, expected = POLARS[kind]
    frame = pl.DataFrame({"a": make(), "b": B})
    classifier = ldp.LabelDPClassifier(epsilon=5, classes=(0, 1), estimator="cells")
    try:
        read = TableEncoder.fit(frame).transform(frame)[:, 0]
    except InputError as error:
        assert kind == "Int128" and "'a'" in str(error)
        with pytest.raises(InputError, match="'a'"):
            classifier.fit(frame, LABELS)
        return
    assert same(read, expected)
    assert classifier.fit(frame, LABELS).predict(frame).shape == (N,)


@pytest.mark.parametrize("kind", ["Binary", "List", "Array", "Struct", "Object", "Null"])
def test_a_column_of_polars_without_numbers_is_left_out_or_refused(kind: str) -> None:
    column = {
        "Binary": pl.Series([b"x"] * N),
        "List": pl.Series([[1]] * N),
        "Array": pl.Series([[1, 2]] * N, dtype=pl.Array(pl.Int64, 2)),
        "Struct": pl.Series([{"u": 1}] * N),
        "Object": pl.Series([object() for _ in range(N)], dtype=pl.Object),
        "Null": pl.Series([None] * N),
    }[kind]
    frame = pl.DataFrame({"a": column, "b": B})
    if kind == "Object":
        with pytest.raises(InputError, match="'a'"):
            TableEncoder.fit(frame)
    else:
        assert TableEncoder.fit(frame).names == ("b",)
        assert any("'a'" in note for note in TableEncoder.fit(frame).notes)


texts = pa.array(LETTERS)
ARROW: dict[str, tuple[Any, list[float]]] = {
    "dictionary": (texts.dictionary_encode(), ranks(LETTERS)),
    "dictionary of views": (
        pa.DictionaryArray.from_arrays(pa.array(np.arange(N) % 2, pa.uint32()), pa.array(["a", "b"], pa.string_view())),
        ranks(LETTERS),
    ),
    "dictionary of decimals": (
        pa.array([Decimal(int(w)) / 4 for w in WHOLE]).dictionary_encode(),
        ranks([str(Decimal(int(w)) / 4) for w in WHOLE]),
    ),
    "view": (texts.cast(pa.string_view()), ranks(LETTERS)),
    "large texts": (texts.cast(pa.large_string()), ranks(LETTERS)),
    "runs": (pa.compute.run_end_encode(pa.array(np.sort(WHOLE))), np.sort(WHOLE).astype(float).tolist()),
    "decimal256": (pa.array([Decimal(int(w)) / 4 for w in WHOLE], pa.decimal256(60, 3)), (WHOLE / 4).tolist()),
    "bool8": (
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array(WHOLE > 2).cast(pa.int8())),
        (WHOLE > 2).astype(float).tolist(),
    ),
    "float16": (pa.array((WHOLE / 4).astype(np.float16)), (WHOLE / 4).tolist()),
    "chunks": (pa.chunked_array([texts[:20], texts[20:]]), ranks(LETTERS)),
}


@pytest.mark.parametrize("kind", ARROW)
def test_a_column_of_arrow_is_read_right(kind: str) -> None:
    column, expected = ARROW[kind]
    table = pa.table({"a": column, "b": B})
    assert same(TableEncoder.fit(table).transform(table)[:, 0], expected)
    fit = ldp.LabelDPClassifier(epsilon=5, classes=(0, 1), estimator="cells").fit(table, LABELS)
    assert fit.predict(table).shape == (N,)


def frames() -> dict[str, Any]:
    """Return tables of odd shapes."""
    wide = np.column_stack([B, WHOLE])
    names = pd.MultiIndex.from_tuples([("u", 1), ("u", 2)])
    masked = np.ma.array(wide, mask=np.column_stack([GAP, GAP]))
    return {
        "duplicate names": pd.DataFrame(wide, columns=["a", "a"]),
        "duplicate names of texts": pd.DataFrame(np.array([LETTERS, LETTERS]).T, columns=["a", "a"]),
        "duplicate names, arrow": pa.table([pa.array(B), pa.array(WHOLE)], names=["a", "a"]),
        "a level for each name": pd.DataFrame(wide, columns=names),
        "names that are numbers": pd.DataFrame(wide, columns=[0, 1]),
        "names of two kinds": pd.DataFrame(wide, columns=[0, "a"]),
        "no columns": pd.DataFrame(index=range(N)),
        "no columns, polars": pl.DataFrame(),
        "no rows": pd.DataFrame({"a": [], "b": []}),
        "a generator": (row for row in wide.tolist()),
        "rows of unlike length": [[1.0], [1.0, 2.0]] * (N // 2),
        "a structured array": np.array([(1.0, 2)] * N, dtype=[("u", float), ("v", int)]),
        "a masked array": masked,
        "sparse": csr_matrix(wide),
        "sparse array": csr_array(wide),
        "sparse, complex": csr_matrix(wide.astype(complex)),
        "a series": pd.Series(B),
        "a lazy frame": pl.LazyFrame({"a": B}),
        "a dict": {"a": B},
        "texts": LETTERS,
        "None": None,
        "dates": np.array(DAYS, "M8[D]")[:, None],
        "objects": np.array([[object()]] * N, object),
    }


@pytest.mark.parametrize("kind", frames())
@pytest.mark.parametrize("estimator", ["linear", "cells", "sklearn"])
def test_a_table_of_odd_shape_is_fitted_or_refused_for_free(kind: str, estimator: str) -> None:
    table = frames()[kind]
    learner: Any = LinearRegression() if estimator == "sklearn" else "cells"
    regressor = ldp.LabelDPRegressor(epsilon=5, range=(0, 1), estimator=learner)
    if estimator == "linear":
        regressor = ldp.LabelDPClassifier(epsilon=5, classes=(0, 1), estimator="linear")
    try:
        regressor.fit(table, LABELS)
    except InputError:
        assert (kind, estimator) != ("sparse array", "cells") and kind not in (
            "a level for each name",
            "names that are numbers",
        )
        regressor.fit(np.column_stack([B, WHOLE]), LABELS)  # the right to fit is left
    else:
        assert kind in (
            "sparse", "sparse array", "a masked array", "a level for each name", "names that are numbers",
            "duplicate names",
        ), kind  # fmt: skip
        predicted = regressor.predict(frames()[kind])
        assert predicted.shape == (N,)


def test_a_masked_number_is_missing() -> None:
    for hidden in (0.0, 1e6):
        wide = np.column_stack([np.where(GAP, hidden, B), WHOLE])
        masked = np.ma.array(wide, mask=np.column_stack([GAP, np.zeros(N, bool)]))
        predicted = (
            ldp.LabelDPRegressor(epsilon=9, range=(0, 1), estimator="cells", trust="central").fit(masked, LABELS).model_
        )
        assert predicted.encoder is not None
        assert np.isnan(predicted.encoder.transform(pa.table({"x0": masked[:, 0].filled(np.nan), "x1": WHOLE}))[3, 0])
        from labeldp.features import number_table

        assert np.isnan(number_table(masked)[3, 0])


@pytest.mark.parametrize(
    "ids",
    [
        [2**70 + place for place in range(N)],
        [-1, 2**63, *range(2, N)],
        [*range(N - 1), -(2**90)],
        np.arange(N).astype(object),
        pd.Series(range(N), dtype="Int64"),
        pd.Series([f"i{place}" for place in range(N)], dtype="string"),
        pl.Series([f"i{place}" for place in range(N)]),
        pa.array(range(N)),
        np.arange(N).astype(np.uint64) + np.uint64(2**63),
    ],
)
def test_ids_of_any_size_are_read(ids: Any) -> None:
    classifier = ldp.LabelDPClassifier(epsilon=5, classes=(0, 1), estimator="cells")
    assert classifier.fit(B[:, None], LABELS, ids=ids).predict(B[:, None]).shape == (N,)
    ldp.Curator(
        LABELS, domain=ldp.Classes(2), budget=ldp.Budget(1), ids=list(ids) if isinstance(ids, pa.Array) else ids
    )


@pytest.mark.parametrize(
    "ids",
    [
        [1.5] * N,
        [None, *range(1, N)],
        [object() for _ in range(N)],
        ["\ud800", *"x" * (N - 1)],
        [[1]] * N,
        np.zeros((N, 2), int),
        np.ma.array(np.arange(N), mask=GAP),
        (place for place in range(N - 1)),
        7,
        "abc",
        [1, "a"] * (N // 2),
        pd.Series([pd.NA, *range(1, N)], dtype="Int64"),
        np.array([1j] * N),
        [b"x", "y"] * (N // 2),
        [True] * N,
    ],
)
def test_what_is_no_id_is_refused_for_free(ids: Any) -> None:
    classifier = ldp.LabelDPClassifier(epsilon=5, classes=(0, 1), estimator="cells")
    with pytest.raises(InputError):
        classifier.fit(B[:, None], LABELS, ids=ids)
    classifier.fit(B[:, None], LABELS)


def test_only_named_columns_are_converted() -> None:
    looked: list[str] = []

    class Private:
        def __getattribute__(self, name: str) -> Any:
            looked.append(name)
            return object.__getattribute__(self, name)

    column = np.empty(N, dtype=object)
    for place in range(N):
        column[place] = Private()
    frame = pd.DataFrame({"x": WHOLE, "y": pd.Series(column, dtype=object)})
    looked.clear()
    encoder = TableEncoder.fit(frame, columns=["x"], label="y")
    assert same(encoder.transform(frame)[:, 0], WHOLE)
    assert as_table(frame, ["x"]).column_names == ["x"]
    with pytest.raises(InputError, match="must not hold 'y', the label"):
        TableEncoder.fit(frame, label="y")
    assert not looked
