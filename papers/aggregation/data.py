"""What sums over bags are tried on: a made-up linear problem, stand-ins, and files prepared as Appendix K says."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Floats, InputError

Rows = NDArray[np.float32]
MAX_RARE = 5
"""Occurrences of a category up to which it counts as missing."""

SPLIT = 0.8
"""Share of the records that is trained on."""

MADE, BLOCK = 4096 * 256 * 5 // 4, 1 << 16
"""Made-up records, enough for the paper's largest cell on Criteo and a test part; how many are made at once."""

MAX_RECORDS = 2_700_000
"""Records of a file at most: of larger ones so many are drawn by a public seed."""

LEVELS, NUMBERS, MEAN, SPREAD = (40, 20), 11, 50.0, 178.0**0.5
"""Of made-up records: levels of two categories, numbers, the mean label, and the deviation of labels around the fit."""

NATURAL = [[100.0], [50.0]]
"""Mean and deviation of made-up numbers where they are not scaled, about those of squared logarithms of prices."""

# fmt: off
CRITEO_COLUMNS = (
    "Sale", "SalesAmountInEuro", "Time_delay_for_conversion", "click_timestamp", "nb_clicks_1week", "product_price",
    "product_age_group", "device_type", "audience_id", "product_gender", "product_brand", "product_category_1",
    "product_category_2", "product_category_3", "product_category_4", "product_category_5", "product_category_6",
    "product_category_7", "product_country", "product_id", "product_title", "partner_id", "user_id",
)
# fmt: on
"""Of the published file, which has no header."""


@dataclass(frozen=True)
class Source:
    """Which columns of a file make a problem.

    Args:
        label: the number to be learned.
        low, high: its declared range; labels beyond are clipped.
        numbers: columns of numbers; a missing one counts as the mean.
        categories: columns of which each frequent value becomes a column of zeros and ones.
        squared_log: whether numbers z above 2 are replaced by the square of log2 z, label included.
        least, most: records with labels beyond have none.
        missing: the code of a missing number, where there is one.
    """

    label: str
    low: float
    high: float
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    squared_log: bool = False
    least: float = -np.inf
    most: float = np.inf
    missing: float | None = None


CRITEO = Source(
    "SalesAmountInEuro",
    0.0,
    253.78,
    ("Time_delay_for_conversion", "nb_clicks_1week", "product_price"),
    ("product_age_group", "product_category_1", "product_category_7", "product_country", "product_gender"),
    squared_log=True,
    least=0.0,
    missing=-1.0,
)

CENSUS = Source(
    "WKSWORK1",
    0.0,
    52.0,
    ("AGE",),
    ("SEX", "MARST", "CHBORN", "SCHOOL", "EMPSTAT", "OCC", "IND"),
    least=1.0,
    most=52.0,
    missing=999.0,
)
"""Users who worked: 50.6 of 132 million in the paper, in which those without a label are left out."""

EXTRACT = {
    "SEX": (73, 73),
    "AGE": (74, 76),
    "MARST": (79, 79),
    "CHBORN": (83, 84),
    "SCHOOL": (127, 127),
    "EMPSTAT": (138, 138),
    "OCC": (142, 145),
    "IND": (149, 152),
    "WKSWORK1": (159, 160),
}
"""First and last character, from 1, in lines of users of EXT1940USCB.dat, as its setup file EXT1940USCB.sps says."""

FILES = {"criteo": CRITEO, "census": CENSUS}
"""The paper's own, recognized by their columns; the published census by its lines of households and users."""

STAND_INS = {
    "hillstrom": Source(
        "spend",
        0.0,
        400.0,
        ("recency", "history"),
        ("history_segment", "mens", "womens", "zip_code", "newbie", "channel", "segment"),
    ),
    "census_income_kdd": Source(
        "weeks_worked_in_year",
        0.0,
        52.0,
        ("age",),
        (
            *("sex", "marital_status", "education", "class_of_worker", "major_industry_code"),
            *("major_occupation_code", "full_or_part_time_employment_stat"),
        ),
        least=1.0,
    ),
    "protein_structure": Source("rmsd", 0.0, 21.0, tuple(f"F{number}" for number in range(1, 10)), ()),
}
"""By their folder and file NAME/NAME.csv.gz."""

GENERATED = "generated"


@dataclass(frozen=True)
class Problem:
    """Records whose labels play the private part.

    Args:
        name: of the problem.
        features: shape (n, d).
        labels: shape (n,).
        low, high: the declared range.
        digest: of all of it.
        scales: mean and deviation of each column as it was before it was scaled, shape (2, d).
    """

    name: str
    features: Rows = field(repr=False)
    labels: Floats = field(repr=False)
    low: float
    high: float
    digest: str
    scales: Floats = field(repr=False)

    @classmethod
    def of(cls, name: str, features: Rows, labels: Floats, low: float, high: float, scales: Floats) -> "Problem":
        """Return a problem with labels clipped to their declared range, and a digest."""
        clipped = np.clip(labels, low, high)
        found = hashlib.sha256(np.ascontiguousarray(features).ravel().data)
        found.update(clipped.data)
        return cls(name, features, clipped, low, high, found.hexdigest()[:16], scales)


def problems(data: str | None) -> dict[str, Callable[[], Problem]]:
    """Return what can be run, by name: a file alone, or the made-up problem and the stand-ins of a folder.

    Args:
        data: a file, a folder, or None for the made-up problem alone.

    Raises:
        InputError: no such file or folder.
    """
    if data is None:
        return {GENERATED: generated}
    path = Path(data)
    if path.is_file():
        name, source = _recognized(path)
        return {name: partial(_read, name, path, source)}
    if not path.is_dir():
        raise InputError(f"--data {data} is neither a file nor a folder")
    places = {name: path / name / f"{name}.csv.gz" for name in STAND_INS}
    there = {name: partial(_read, name, place, STAND_INS[name]) for name, place in places.items() if place.is_file()}
    if not there:
        raise InputError(f"--data {data} must be a folder with NAME/NAME.csv.gz for NAME of {', '.join(STAND_INS)}")
    return {GENERATED: generated, **there}


def generated() -> Problem:
    """Make a linear problem of the shape of the paper's: two categories and some numbers, 71 features."""
    rng = np.random.default_rng(0)
    slopes = np.concatenate([rng.normal(size=sum(LEVELS)) * 7, rng.normal(size=NUMBERS) * 3])
    features, labels = np.empty((MADE, len(slopes)), dtype=np.float32), np.empty(MADE)
    for first in range(0, MADE, BLOCK):
        block = features[first : first + BLOCK]
        parts = [np.eye(count)[rng.integers(count, size=len(block))] for count in LEVELS]
        block[:] = np.column_stack([*parts, rng.normal(size=(len(block), NUMBERS))])
        labels[first : first + BLOCK] = MEAN + block @ slopes + SPREAD * rng.normal(size=len(block))
    scales = np.array([[0.0], [1.0]]).repeat(len(slopes), axis=1)
    scales[:, -NUMBERS:] = NATURAL
    return Problem.of(GENERATED, features, labels, 0.0, CRITEO.high, scales)


def _columns(path: Path, names: list[str]) -> Any:
    """Read the named columns of a CSV file as an arrow table.

    Raises:
        InputError: it cannot be read.
    """
    from pyarrow import ArrowException, csv

    if _is_extract(path):
        return _users(path, names)
    _, tab, nameless = _header(path)
    reading = csv.ReadOptions(column_names=CRITEO_COLUMNS if nameless else None)
    parsing = csv.ParseOptions(delimiter="\t" if tab else ",")
    try:
        return csv.read_csv(path, reading, parsing, csv.ConvertOptions(include_columns=names))
    except (ArrowException, OSError, KeyError) as error:
        raise InputError(f"{path} cannot be read as a table with the columns {', '.join(names)}") from error


def _header(path: Path) -> tuple[tuple[str, ...], bool, bool]:
    """Return the columns of a file, whether tabs separate them, and whether it is Criteo's, which has no header."""
    from pyarrow import input_stream

    with input_stream(str(path)) as stream:
        lines = stream.read(1 << 14).decode("utf-8", "replace").splitlines()
    first = lines[0] if lines else ""
    names = tuple(name.strip('" ') for name in first.split("\t" if "\t" in first else ","))
    nameless = "\t" in first and len(names) == len(CRITEO_COLUMNS) and CRITEO.label not in names
    return (CRITEO_COLUMNS if nameless else names), "\t" in first, nameless


def _is_extract(path: Path) -> bool:
    """Return whether a file has the lines of households and users of the published extract of the census."""
    from pyarrow import input_stream

    with input_stream(str(path)) as stream:
        return re.match(rb"[HP]1940\d{10}", stream.read(16)) is not None


def _users(path: Path, names: list[str]) -> Any:
    """Read columns of the published extract of the census: of lines of users alone, those who have a label."""
    import pyarrow as pa

    parts: dict[str, list[NDArray[np.int16]]] = {name: [] for name in names}
    width = max(last for _, last in EXTRACT.values())
    with pa.input_stream(str(path), buffer_size=BLOCK * width) as stream:
        rest = b""
        while block := stream.read(BLOCK * width):
            *whole, rest = (rest + block).split(b"\n")
            _add_users(parts, whole, width)
        _add_users(parts, [rest], width)
    return pa.table({name: np.concatenate(found) for name, found in parts.items()})


def _add_users(parts: dict[str, list[NDArray[np.int16]]], lines: list[bytes], width: int) -> None:
    """Add the columns of the users among some lines, of those with a label."""
    users = [line[:width] for line in lines if line[:1] == b"P"]
    if any(len(line) < width for line in users):
        raise InputError(f"lines of users must have at least {width} characters, as in EXT1940USCB.dat")
    signs = np.frombuffer(b"".join(users), dtype="S1").reshape(len(users), width)
    columns = {}
    for name in (*parts, CENSUS.label):
        first, last = EXTRACT[name]
        try:
            texts = np.ascontiguousarray(signs[:, first - 1 : last]).view(f"S{last - first + 1}").ravel()
            columns[name] = texts.astype(np.int16)
        except ValueError as error:
            raise InputError(f"characters {first} to {last} of users must be whole numbers: {name}") from error
    has_label = (columns[CENSUS.label] >= CENSUS.least) & (columns[CENSUS.label] <= CENSUS.most)
    for name, found in parts.items():
        found.append(columns[name][has_label])


def _recognized(path: Path) -> tuple[str, Source]:
    """Return which of the paper's files it is, and its columns; the paper calls the weeks WKSWORK, files WKSWORK1.

    Raises:
        InputError: neither.
    """
    if _is_extract(path):
        return "census", CENSUS
    names = set(_header(path)[0])
    for name, source in (*FILES.items(), ("census", replace(CENSUS, label="WKSWORK"))):
        if {source.label, *source.numbers, *source.categories} <= names:
            return name, source
    raise InputError(f"--data {path} must have the columns of Criteo ({CRITEO.label}, …) or census ({CENSUS.label}, …)")


def _read(name: str, path: Path, source: Source) -> Problem:
    """Read a file as numbers."""
    table = _columns(path, [source.label, *source.numbers, *source.categories])
    labels = _numbers(table[source.label])
    rows = np.flatnonzero((labels >= source.least) & (labels <= source.most))
    if len(rows) > MAX_RECORDS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MAX_RECORDS, replace=False))
    numbers = np.column_stack([_filled(_numbers(table[column]), rows, source) for column in source.numbers])
    mean, deviation = numbers.mean(axis=0), np.maximum(numbers.std(axis=0), 1e-9)
    flags = [_flags(table[column], rows) for column in source.categories]
    features = np.column_stack([((numbers - mean) / deviation).astype(np.float32), *flags])
    scales = np.array([[0.0], [1.0]]).repeat(features.shape[1], axis=1)
    scales[:, : len(mean)] = mean, deviation
    chosen = squared_log(labels[rows]) if source.squared_log else labels[rows]
    return Problem.of(name, features, chosen, source.low, source.high, scales)


def _numbers(column: Any) -> Floats:
    """Return a column as numbers, NaN where there is none."""
    import pyarrow as pa

    try:
        found = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError("the columns of numbers must hold numbers or nothing") from error
    return np.asarray(found, dtype=np.float64)


def squared_log(values: Floats) -> Floats:
    """Return log2(z)² of what is above 2, and the rest as it is: sales of 62,400 become the paper's 253.78."""
    return np.where(values > 2, np.log2(np.maximum(values, 2)) ** 2, values)


def _filled(values: Floats, rows: NDArray[np.int64], source: Source) -> Floats:
    """Return chosen values; what is missing is the mean."""
    chosen = np.where(values == source.missing, np.nan, values)[rows]
    chosen = np.where(np.isnan(chosen), np.nanmean(chosen) if np.isfinite(chosen).any() else 0.0, chosen)
    return squared_log(chosen) if source.squared_log else np.asarray(chosen, dtype=np.float64)


def _flags(column: Any, rows: NDArray[np.int64]) -> Rows:
    """Return a column of zeros and ones for each frequent value, and one for the others."""
    import pyarrow as pa

    texts = column.cast(pa.string()).take(pa.array(rows)).fill_null("-1")
    coded = texts.combine_chunks().dictionary_encode()
    codes, names = coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
    counts = np.bincount(codes, minlength=len(names))
    frequent = [place for place, name in enumerate(names) if counts[place] > MAX_RARE and name not in ("-1", "")]
    places = np.full(len(names), len(frequent))
    places[frequent] = np.arange(len(frequent))
    return np.eye(len(frequent) + 1, dtype=np.float32)[places[codes]]
