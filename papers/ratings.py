"""Read ratings of movies by users: MovieLens-1M."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from labeldp.images.reading import LabeledArrays, array_names, parse_or_refuse, read_array
from labeldp.privacy import InputError
from labeldp.tables import open_table

STARS = (1, 5)
COLUMNS = ("user_id", "movie_id", "rating")
CSV_COLUMNS = ("userId", "movieId", "rating")

NEEDED = (
    "ratings.dat of MovieLens-1M is needed (UserID::MovieID::Rating::Timestamp), or ratings.csv, or ratings.npz, "
    "with columns user_id, movie_id and rating"
)


@final
@dataclass(frozen=True, eq=False)
class RatingData:
    """The ratings that `load_movielens` read.

    Fields:
        train: features, the codes of user and movie, int64, shape (n, 2); labels, the ratings from 1 to 5.
        test: the same for the other ratings.
        user_ids: the id of each user by code, in increasing order, shape (users,).
        movie_ids: the same for movies, shape (movies,).
    """

    train: LabeledArrays
    test: LabeledArrays
    user_ids: NDArray[np.int64] = field(repr=False)
    movie_ids: NDArray[np.int64] = field(repr=False)


def load_movielens(path: str | os.PathLike[str], *, seed: int = 0) -> RatingData:
    """Read MovieLens-1M from a local file; nothing is downloaded.

    Who rated which movie is public; the rating is private.

    Args:
        path: ratings.dat, ratings.csv or ratings.npz, or a folder with one of them.
        seed: public; determines which fifth of the ratings is the test part.

    Returns:
        Training and test ratings, 80 % and 20 %, and the ids behind the codes.

    Guarantee (public_split):
        The split depends on the seed and the number of ratings alone.

    Raises:
        InputError: the file does not exist or is not of this format. No message holds a rating.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError("seed must be an integer, at least 0")
    users, movies, ratings = _columns(_file(Path(path)))
    user_ids, user = np.unique(users, return_inverse=True)
    movie_ids, movie = np.unique(movies, return_inverse=True)
    features = np.stack([user, movie], axis=1)
    order = np.random.default_rng(seed).permutation(len(ratings))
    train, test = (
        LabeledArrays(features[rows], ratings[rows]) for rows in (order[len(order) // 5 :], order[: len(order) // 5])
    )
    return RatingData(train, test, user_ids, movie_ids)


def _file(path: Path) -> Path:
    found = [path / f"ratings{suffix}" for suffix in READERS] if parse_or_refuse(path, path.is_dir, NEEDED) else [path]
    found = [file for file in found if file.is_file()]
    if len(found) != 1 or found[0].suffix not in READERS:
        raise InputError(f"{path}: {NEEDED}" + (", and only one of them" if len(found) > 1 else ""))
    return found[0]


def _columns(file: Path) -> list[NDArray[np.int64]]:
    """Return the users, movies and ratings of a file, checked."""
    users, movies, ratings = parse_or_refuse(file, lambda: READERS[file.suffix](file), NEEDED)
    columns = (users, movies, ratings)
    if len({column.shape for column in columns}) > 1 or ratings.ndim != 1 or len(ratings) < 5:
        raise InputError(f"{file} must hold a user, a movie and a rating in each row, and at least five rows")
    if any(column.dtype.kind not in "iu" for column in columns):
        raise InputError(f"{file} must hold whole numbers: ids and stars")
    if ratings.min() < STARS[0] or ratings.max() > STARS[1]:
        raise InputError(f"{file} must hold ratings from {STARS[0]} to {STARS[1]}")
    return [column.astype(np.int64) for column in columns]


def _dat(path: Path) -> list[NDArray[Any]]:
    """Read a file with the delimiter `::`, as two delimiters with an empty column between."""
    names = ["user_id", "gap1", "movie_id", "gap2", "rating", "gap3", "time"]
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=names),
        parse_options=csv.ParseOptions(delimiter=":", quote_char=False),
        convert_options=csv.ConvertOptions(column_types={n: pa.null() if "gap" in n else pa.int64() for n in names}),
    )
    return [_integers(table.column(name)) for name in COLUMNS]


def _csv(path: Path) -> list[NDArray[Any]]:
    table = open_table(path)
    names = CSV_COLUMNS if set(CSV_COLUMNS) <= set(table.columns) else COLUMNS
    return [_integers(column.cast(pa.int64())) for column in table.read(names).columns]


def _integers(column: pa.ChunkedArray) -> NDArray[Any]:
    if column.null_count:
        raise ValueError
    return column.to_numpy()


def _npz(path: Path) -> list[NDArray[Any]]:
    missing = [name for name in COLUMNS if name not in array_names(path)]
    if missing:
        raise InputError(f"{path} has no array {missing[0]!r}; {NEEDED}")
    return [read_array(path, name) for name in COLUMNS]


READERS: dict[str, Callable[[Path], list[NDArray[Any]]]] = {".dat": _dat, ".csv": _csv, ".npz": _npz}
