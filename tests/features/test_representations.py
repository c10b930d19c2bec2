"""Feature maps: what they make of a table or an image, and that labels are not looked at."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.features import CenteredColumns, PatchFilters, RandomFourier, TableMap, default_representation
from labeldp.features.representations import MAX_COLUMNS
from labeldp.learners import SoftmaxClassifier
from labeldp.privacy import InputError
from learners.data import blobs, curator

RNG = np.random.default_rng(0)

TABLE = np.column_stack([RNG.normal(size=300), RNG.exponential(size=300), RNG.integers(0, 3, 300)])

IMAGES = RNG.integers(0, 256, (40, 12, 12)).astype(np.uint8)

MAPS: dict[str, tuple[Any, Any]] = {
    "table": (TableMap(categorical=[False, False, True], trees=5), TABLE),
    "centered": (CenteredColumns(), TABLE),
    "fourier": (RandomFourier(components=20), TABLE),
    "patches": (PatchFilters(side=12, filters=7), IMAGES),
    "colors": (PatchFilters(side=12, channels=3, filters=7), RNG.integers(0, 256, (40, 12, 12, 3))),
}


@pytest.mark.parametrize("records", [40, 300, 9001])
def test_leaves_are_those_of_scikit_learn_to_the_bit(records: int) -> None:
    """Ledgers find sums again by the bits of their rows: leaves are found faster, and are the same ones."""
    rng = np.random.default_rng(records)
    table = rng.normal(size=(records, 4)).astype(np.float32)
    table[rng.random(table.shape) < 0.02] = np.nan
    mapped = TableMap(trees=7).fit(table)
    plain = mapped._plain(table.astype(np.float64))
    leaves = mapped.forest_.transform(np.hstack(plain)).astype(np.float32).toarray()
    blocks = [*plain, leaves]
    assert mapped.weights_ == [1 / np.sqrt(max(float(block.var(axis=0).sum()), 1e-9)) for block in blocks]
    whole = np.hstack([block * np.float32(w) for block, w in zip(blocks, mapped.weights_, strict=True)])
    assert np.array_equal(mapped.transform(table), whole) and mapped.transform(table).dtype == np.float32


@pytest.mark.parametrize("name", MAPS)
def test_a_map_never_sees_labels(name: str) -> None:
    unfitted, features = MAPS[name]
    plain = clone(unfitted).fit(features).transform(features)
    told = clone(unfitted).fit(features, RNG.integers(0, 2, len(features))).transform(features)
    assert np.array_equal(plain, told)
    assert plain.dtype == np.float32 and np.all(np.isfinite(plain)) and len(plain) == len(features)
    few = clone(unfitted).fit(features).transform(features[:3])
    assert np.allclose(few, plain[:3], atol=1e-5)


def test_a_table_becomes_numbers_bins_gaps_and_categories() -> None:
    table = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [np.nan, np.nan]])
    mapped = TableMap(categorical=[False, True], bins=2, trees=0).fit(table)
    numbers, indicators = (block / w for block, w in zip((1, 1), mapped.weights_, strict=True))
    result = mapped.transform(table)
    spread = np.sqrt(2 / 3)
    assert np.allclose(result[:, 0] * numbers, np.array([-1, 0, 1, 0]) / spread, atol=1e-6)
    expected = [[0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 0, 1], [1, 1, 0, 0, 0, 0]]
    assert np.allclose(result[:, 1:] * indicators, expected)
    assert result[:, :1].var() == pytest.approx(1, rel=1e-5)
    assert result[:, 1:].var(axis=0).sum() == pytest.approx(1, rel=1e-5)


def test_many_numbers_without_gaps_are_an_embedding() -> None:
    table = RNG.normal(5, 2, (20, 100))
    gap, category = table.copy(), np.arange(100) == 3
    gap[3, 7] = np.nan
    assert isinstance(default_representation(table), CenteredColumns)
    for others in ((table[:, :99],), (gap,), (table, category)):
        assert isinstance(default_representation(*others), TableMap)
    centered = CenteredColumns().fit(table).transform(gap)
    assert np.allclose(centered[0], (table - table.mean(axis=0))[0], atol=1e-5)
    assert centered[3, 7] == 0


def test_sums_of_many_classes_of_few_columns_are_of_cosines() -> None:
    table = RNG.normal(size=(30, 50))
    mapped = default_representation(table, None, 10).fit(table).transform(table)
    assert mapped.shape == (30, 1000) and np.abs(mapped).max() <= np.sqrt(2 / 1000) + 1e-6
    assert isinstance(default_representation(table, None, 9), TableMap)
    assert isinstance(default_representation(np.hstack([table, table[:, :1]]), None, 10), TableMap)


def widths(mapped: TableMap, table: np.ndarray) -> tuple[int, int, int]:
    """Columns of the map, and how many of them are of bins and of leaves."""
    return mapped.transform(table).shape[1], sum(len(cuts) + 1 for cuts in mapped.cuts_), mapped._leaf_count


def test_no_map_has_more_columns_than_the_bound() -> None:
    """First there are fewer trees, then no bins, then no rare categories."""
    numbers = RNG.normal(size=(300, 150))
    columns, bins, leaves = widths(TableMap(depth=2).fit(numbers), numbers)
    assert bins == 1500 and 0 < leaves == columns - 1650 <= MAX_COLUMNS - 1650
    numbers = RNG.normal(size=(30, 210))
    columns, bins, leaves = widths(TableMap(depth=2).fit(numbers), numbers)
    assert bins == 0 and 0 < leaves == columns - 210 <= MAX_COLUMNS - 210
    many = [RNG.permutation(300) for _ in range(7)]
    categories = np.column_stack([np.repeat(np.arange(3), 100), *many])
    mapped = TableMap(categorical=np.ones(8, dtype=bool)).fit(categories)
    assert widths(mapped, categories) == (MAX_COLUMNS, 0, 0)
    assert len(mapped.levels_[0]) == 3


def test_random_fourier_features_approach_their_kernel() -> None:
    table = TABLE[:50]
    mapped = RandomFourier(components=20_000, bandwidth=1.0).fit(table)
    cosines = mapped.transform(table).astype(np.float64)
    length = table.var(axis=0).sum()
    distances = ((table[:, None] - table[None]) ** 2).sum(axis=2)
    assert np.abs(cosines @ cosines.T - np.exp(-distances / (2 * length))).max() < 0.06


def test_random_fourier_features_do_not_depend_on_blocks() -> None:
    table = np.random.default_rng(3).normal(size=(1100, 3))
    mapped = RandomFourier(components=40).fit(table)
    parts = [mapped.transform(part) for part in np.array_split(table, 7)]
    assert np.allclose(mapped.transform(table), np.concatenate(parts), atol=1e-6)


def test_filters_see_shapes_and_not_brightness() -> None:
    mapped = PatchFilters(side=12, filters=7, random_state=1).fit(IMAGES)
    assert mapped.transform(IMAGES).shape == (40, 63)
    assert np.allclose(mapped.kernel_.sum(axis=0), 0, atol=1e-4)
    flat = IMAGES.reshape(40, 144).astype(float)
    assert np.allclose(mapped.transform(flat), mapped.transform(IMAGES))
    assert np.allclose(mapped.transform(flat + 50), mapped.transform(flat), atol=2e-2)
    assert np.all(mapped.transform(np.full((1, 144), 9.0)) == 0)


def test_filters_see_colors() -> None:
    colored = np.repeat(IMAGES[..., None], 3, axis=3).astype(float)
    colored[..., 0] = 255 - colored[..., 0]
    mapped = PatchFilters(side=12, channels=3, filters=7).fit(colored)
    assert mapped.transform(colored).shape == (40, 63)
    assert np.allclose(mapped.transform(colored.reshape(40, -1)), mapped.transform(colored))
    gray = np.repeat(IMAGES[..., None], 3, axis=3)
    assert not np.allclose(mapped.transform(gray), mapped.transform(colored), atol=0.1)
    single = PatchFilters(side=12, filters=7).fit(IMAGES)
    assert np.array_equal(single.transform(IMAGES[..., None]), single.transform(IMAGES))


@pytest.mark.parametrize("images", [np.zeros((3, 100)), np.zeros((3, 12, 13)), np.zeros((3, 9, 16))])
def test_images_of_another_kind_are_refused(images: np.ndarray) -> None:
    with pytest.raises(
        InputError, match=r"images must be numbers, shape \(n, 12, 12, 1\) or \(n, 12, 12\) or \(n, 144\)"
    ):
        PatchFilters(side=12).fit(images)


def test_images_are_finite_numbers_of_more_than_one_value_in_a_patch() -> None:
    with pytest.raises(InputError, match="must be numbers"):
        PatchFilters(side=12).fit(np.full((3, 144), "a"))
    with pytest.raises(InputError, match="must be finite"):
        PatchFilters(side=12).fit(np.full((3, 144), np.nan))
    with pytest.raises(InputError, match="patch must hold more than one number"):
        PatchFilters(side=12, patch=1).fit(IMAGES)
    with pytest.raises(InputError, match="filters must be no more than the images hold patches"):
        PatchFilters(side=12, filters=50).fit(IMAGES[:1])


@pytest.mark.parametrize("images", [np.zeros((3, 144)), np.zeros((3, 12, 12)), np.zeros((3, 3, 12, 12))])
def test_images_without_their_colors_are_refused(images: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"images must be numbers, shape \(n, 12, 12, 3\) or \(n, 432\)"):
        PatchFilters(side=12, channels=3).fit(images)


def test_a_fitted_representation_is_taken_as_it_is_and_certified_with_its_reason() -> None:
    features, labels = blobs(400, 3)
    encoder = FixedScale().fit(features[:10])
    holder = curator(labels, 3, epsilon=2)
    arguments = {"epsilon": 1, "rng": np.random.default_rng(0)}
    release = ldp.fit_linear(features, holder, representation=ldp.Public(encoder, why="it was published"), **arguments)
    assert encoder.fits == 1 and release.value.estimator.representation is encoder
    assert np.mean(release.value.predict(features) == labels) > 0.6
    assert "an encoder of which is said: it was published" in release.certificate.at()
    head = SoftmaxClassifier(representation=ldp.Public(encoder, why="it was published"))
    for classifier in (head, SoftmaxClassifier(representation=FixedScale())):
        local = curator(labels, 3, epsilon=1)
        model = ldp.fit_multistage(features, local, classifier=classifier, stages=1, **arguments)
        said = "the representation does not depend on the private labels (it was published)" in model.certificate.at()
        assert said == (classifier is head)
    assert encoder.fits == 1


@pytest.mark.parametrize(
    ("representation", "words"),
    [
        (FrozenEstimator(StandardScaler().fit([[0.0], [1.0]])), r"must be Public\(encoder"),
        (ldp.Public(np.zeros(3), why="none"), "representation must hold a fitted transformer"),
        (ldp.Public(StandardScaler(), why="none"), "StandardScaler cannot take these features"),
    ],
)
def test_a_representation_that_is_no_encoder_is_refused_and_nothing_is_charged(representation: Any, words: str) -> None:
    features, labels = blobs(40, 3)
    holder = curator(labels, 3)
    with pytest.raises(InputError, match=words):
        ldp.fit_linear(features, holder, epsilon=1, rng=np.random.default_rng(0), representation=representation)
    released = curator(labels, 3, epsilon=2)
    rows = released.release(ldp.RandomizedResponse(domain=released.domain, epsilon=1), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="representation must be unfitted where features are a Release"):
        ldp.fit_linear(
            rows.map(lambda codes: np.eye(3)[codes]),
            released,
            epsilon=1,
            rng=np.random.default_rng(0),
            representation=ldp.Public(FixedScale().fit(features), why="none"),
        )
    assert not holder.ledger.charges


class FixedScale(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Counts how often it was fitted."""

    fits = 0

    def fit(self, X: Any, y: Any = None) -> Any:
        self.fits += 1
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.asarray(X) / 3
