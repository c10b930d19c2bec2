"""Ratings in: every format, and every refusal."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labeldp.privacy import InputError
from papers.ratings import RatingData, load_movielens

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[3] / "shared" / "data")) / "movielens_1m"

USERS = np.array([1, 1, 3, 3, 9, 9, 9, 40, 40, 40])

MOVIES = np.array([70, 2, 70, 5, 5, 2, 70, 2, 70, 3952])

STARS = np.array([5, 1, 3, 4, 4, 2, 1, 5, 5, 3])

ROWS = list(zip(USERS, MOVIES, STARS, strict=True))


def dat(rows: list[tuple[object, object, object]]) -> str:
    return "".join(f"{user}::{movie}::{stars}::978300760\n" for user, movie, stars in rows)


def table(rows: list[tuple[object, object, object]], header: str = "userId,movieId,rating,timestamp") -> str:
    return "\n".join([header, *(f"{user},{movie},{stars},978300760" for user, movie, stars in rows)])


def save(folder: Path, kind: str) -> Path:
    """The ten ratings in one of the three formats."""
    path = folder / f"ratings.{kind}"
    if kind == "npz":
        np.savez(
            path, user_id=USERS.astype(np.uint16), movie_id=MOVIES.astype(np.uint16), rating=STARS.astype(np.uint8)
        )
    else:
        path.write_text(dat(ROWS) if kind == "dat" else table(ROWS))
    return path


def rows(data: RatingData) -> list[tuple[int, int, int]]:
    """The ratings of both parts, as they were."""
    features = np.concatenate([data.train.features, data.test.features])
    labels = np.concatenate([data.train.labels, data.test.labels])
    return sorted(zip(data.user_ids[features[:, 0]], data.movie_ids[features[:, 1]], labels, strict=True))


def refusal(path: Path) -> str:
    """What the one error says, with nothing private on it or behind it."""
    with pytest.raises(InputError) as caught:
        load_movielens(path)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert "54321" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["dat", "csv", "npz"])
def test_every_format_holds_the_same(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path, kind)
    data = load_movielens(path)
    assert rows(data) == rows(load_movielens(tmp_path)) == sorted(ROWS)
    assert (data.train.shape, data.test.shape) == ((8, 2), (2, 2))
    assert data.user_ids.tolist() == [1, 3, 9, 40] and data.movie_ids.tolist() == [2, 5, 70, 3952]
    assert data.train.features.dtype == data.train.labels.dtype == np.int64


def test_columns_may_be_named_as_in_the_archive(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(table(ROWS, "movie,rating,user_id,movie_id").replace(",978300760", ",7"))
    with pytest.raises(InputError, match="from 1 to 5"):
        load_movielens(tmp_path)
    (tmp_path / "ratings.csv").write_text(table(ROWS, "user_id,movie_id,rating,time"))
    assert rows(load_movielens(tmp_path)) == sorted(ROWS)


@pytest.mark.guarantee("labeldp.tables:load_movielens", "public_split")
def test_the_split_looks_at_no_rating(tmp_path: Path) -> None:
    first = load_movielens(save(tmp_path, "npz"))
    np.savez(tmp_path / "other.npz", user_id=USERS, movie_id=MOVIES, rating=6 - STARS)
    second = load_movielens(tmp_path / "other.npz")
    np.testing.assert_array_equal(first.train.features, second.train.features)
    np.testing.assert_array_equal(first.train.labels, 6 - second.train.labels)
    splits = {load_movielens(tmp_path / "other.npz", seed=seed).test.features.tobytes() for seed in range(9)}
    assert len(splits) > 1


@pytest.mark.parametrize("seed", [-1, 0.5, True, None])
def test_a_seed_is_a_number_that_everybody_may_know(tmp_path: Path, seed: object) -> None:
    with pytest.raises(InputError, match="seed must be an integer"):
        load_movielens(save(tmp_path, "npz"), seed=seed)  # type: ignore[arg-type]


def test_no_repr_shows_a_rating(tmp_path: Path) -> None:
    part = "LabeledArrays(features of shape ({}, 2), labels private)"
    expected = f"RatingData(train={part.format(8)}, test={part.format(2)})"
    assert repr(load_movielens(save(tmp_path, "npz"))) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ratings.dat", "", "ratings.dat of MovieLens-1M is needed"),
        ("ratings.dat", dat(ROWS[:4]), "at least five rows"),
        ("ratings.dat", dat([*ROWS, (1, 2, 54321)]), "from 1 to 5"),
        ("ratings.dat", dat([*ROWS, (1, 2, 0)]), "from 1 to 5"),
        ("ratings.dat", dat([*ROWS, (1, 2, "54321x")]), "is damaged"),
        ("ratings.dat", dat([*ROWS, (1, 2, "")]), "is damaged"),
        ("ratings.dat", dat([*ROWS, (1, "", 2)]), "is damaged"),
        ("ratings.dat", dat(ROWS).replace("::", ","), "is damaged"),
        ("ratings.dat", dat(ROWS) + "1::54321", "is damaged"),
        ("ratings.csv", table([*ROWS, (1, 2, "3.5")]), "is damaged"),
        ("ratings.csv", table([*ROWS, (1, 2, "")]), "is damaged"),
        ("ratings.csv", table(ROWS, "a,b,c,d"), "has no column 'user_id'"),
        ("ratings.npz", "54321", "is damaged"),
        ("ratings.txt", dat(ROWS), "ratings.dat of MovieLens-1M is needed"),
    ],
)
def test_a_file_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    assert message in refusal(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rating": STARS + 0.5}, "whole numbers"),
        ({"rating": STARS[:9]}, "in each row"),
        ({"rating": STARS[:, None]}, "in each row"),
        ({"rating": np.array(STARS, dtype=object)}, "Python objects"),
        ({"user_id": USERS.astype(str)}, "whole numbers"),
    ],
)
def test_an_archive_is_refused(tmp_path: Path, change: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "a.npz", **{"user_id": USERS, "movie_id": MOVIES, "rating": STARS} | change)
    assert message in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", user_id=USERS, movie_id=MOVIES, stars=STARS)
    assert "has no array 'rating'" in refusal(tmp_path / "a.npz")


def test_a_folder_has_one_file_of_ratings(tmp_path: Path) -> None:
    assert "is needed" in refusal(tmp_path)
    assert "is needed" in refusal(tmp_path / "absent.dat")
    save(tmp_path, "dat"), save(tmp_path, "npz")
    assert "only one of them" in refusal(tmp_path)


@pytest.mark.parametrize("kind", ["dat", "csv", "npz"])
def test_no_damage_gives_anything_but_ratings_or_one_error(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path, kind)
    whole = path.read_bytes()

    @settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(0, len(whole) - 1), st.binary(min_size=0, max_size=6), st.integers(0, 8))
    def damage(start: int, put: bytes, cut: int) -> None:
        path.write_bytes(whole[:start] + put + whole[start + cut :])
        try:
            assert isinstance(load_movielens(path), RatingData)
        except InputError as error:
            assert error.__context__ is None

    damage()


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data is not here")
def test_the_real_one() -> None:
    data = load_movielens(DATA)
    assert (len(data.train.labels), len(data.test.labels)) == (800_168, 200_041)
    counts = np.bincount(np.concatenate([data.train.labels, data.test.labels]))
    assert counts.tolist() == [0, 56174, 107557, 261197, 348971, 226310]
    assert (len(data.user_ids), len(data.movie_ids)) == (6040, 3706)
