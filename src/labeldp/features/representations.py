"""Feature maps for linear models, learned without labels, and features as they encode them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from labeldp import encoders
from labeldp.features.rows import TableTransformer, image_array, means_and_spreads, number_table, rows_of, take_rows
from labeldp.mechanisms import RowBlocks
from labeldp.privacy import AnyFloats, InputError, Public, Release

Floats = NDArray[np.float32]

VARIANCE_RECORDS = 1024
"""Records whose leaves are held at a time while variances are added up."""

BLOCK_RECORDS, CACHED_RECORDS = 8192, 512
"""Records of a table that are mapped at a time, and those whose cosines stay in cache."""


MAX_COLUMNS = 2000
"""The largest number of columns that a map of a table makes, if the table itself has no more numbers."""


class TableMap(TableTransformer):
    """A map of mixed-type tables to scaled numbers and indicators of quantile bins, gaps, categories and random leaves.

    Every block of columns has the same total variance. A table for which that would be more than `MAX_COLUMNS` gets
    fewer trees; if plain indicators are still too many it gets no bins; and then the most frequent categories alone.

    Args:
        categorical: boolean mask of the columns that hold category codes, shape (d,); NaN is a gap everywhere.
        bins: number of quantile bins of each number.
        trees: number of random trees, which split at random places and never see a label; 0 for none.
        depth: depth of the trees.
        random_state: seed of the trees.
    """

    def __init__(
        self, *, categorical: Any = None, bins: int = 10, trees: int = 100, depth: int = 4, random_state: int = 0
    ) -> None:
        self.categorical = categorical
        self.bins = bins
        self.trees = trees
        self.depth = depth
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn scales, bins, levels and trees from X, shape (n, d); labels are ignored."""
        table = np.asarray(number_table(X, self, fit=True), dtype=np.float64)
        width = table.shape[1]
        mask = np.zeros(width, bool) if self.categorical is None else np.asarray(self.categorical, bool)
        self.numbers_, self.categories_ = np.flatnonzero(~mask), np.flatnonzero(mask)
        shares = np.linspace(0, 1, self.bins + 1)[1:-1]
        columns = [column[np.isfinite(column)] for column in table.T]
        self.mean_ = np.array([column.mean() if column.size else 0.0 for column in columns])
        spread = np.array([column.std() if column.size else 0.0 for column in columns])
        self.spread_ = np.where(spread > 0, spread, 1.0)
        self.cuts_ = [np.unique(np.quantile(columns[j], shares)) if columns[j].size else shares for j in self.numbers_]
        self.levels_ = [np.unique(columns[j]) for j in self.categories_]
        self.gaps_ = np.flatnonzero(np.isnan(table).any(axis=0))
        trees = self._bounded(columns)
        plain = self._plain(table)
        self.forest_: Any = None
        if trees:
            forest = RandomTreesEmbedding(
                trees, max_depth=self.depth, min_samples_leaf=10, random_state=self.random_state
            )
            self.forest_ = forest.fit(np.hstack(plain))
        spreads = [float(block.var(axis=0).sum()) for block in plain]
        if self.forest_ is not None:
            spreads.append(self._leaf_variance(np.hstack(plain)))
        self.weights_ = [1 / np.sqrt(max(number, 1e-9)) for number in spreads]
        return self

    def _bounded(self, columns: list[NDArray[np.float64]]) -> int:
        """Leave out bins and categories that are too many, and return for how many trees there is room."""
        room = MAX_COLUMNS - len(self.numbers_) - len(self.gaps_)
        bins, levels = sum(len(cuts) + 1 for cuts in self.cuts_), sum(map(len, self.levels_))
        if bins + levels > room:
            self.cuts_, bins = [], 0
        if levels > room:
            counts = [np.unique(columns[j], return_counts=True)[1] for j in self.categories_]
            rank = np.argsort(np.argsort(-np.concatenate(counts), kind="stable"), kind="stable")
            ends = np.cumsum([len(names) for names in self.levels_])[:-1]
            frequent = np.split(rank < max(room, 0), ends)
            self.levels_ = [names[kept] for names, kept in zip(self.levels_, frequent, strict=True)]
            levels = max(room, 0)
        return max(min(self.trees, (room - bins - levels) // 2**self.depth), 0)

    def _leaf_variance(self, plain: Floats) -> float:
        """Return the sum of the variances of the indicators of all leaves.

        It is `var(axis=0).sum()` of all indicators to the bit: NumPy adds rows one after the other. Held are those of a
        block.
        """
        leaves = self._leaf_columns(plain)
        count = self._leaf_count
        mean = np.bincount(leaves.ravel(), minlength=count).astype(np.float32) / np.float32(len(leaves))
        total = np.zeros(count, dtype=np.float32)
        for start in range(0, len(leaves), VARIANCE_RECORDS):
            part = leaves[start : start + VARIANCE_RECORDS]
            rows = np.empty((1 + len(part), count), dtype=np.float32)
            _indicate(rows[1:], part, 1.0)
            rows[0] = total
            np.square(np.subtract(rows[1:], mean, out=rows[1:]), out=rows[1:])
            total = rows.sum(axis=0)
        return float((total / np.float32(len(leaves))).sum())

    def transform(self, X: Any) -> Floats:
        """Return the blocks side by side, shape (n, columns)."""
        check_is_fitted(self, "weights_")
        table = number_table(X, self)
        result: Floats | None = None
        for start in range(0, len(table), BLOCK_RECORDS):
            plain = self._plain(np.asarray(table[start : start + BLOCK_RECORDS], dtype=np.float64))
            ends = np.cumsum([0, *(block.shape[1] for block in plain)])
            if result is None:
                result = np.empty((len(table), ends[-1] + self._leaf_count), dtype=np.float32)
            rows = result[start : start + BLOCK_RECORDS]
            for block, first, last, weight in zip(plain, ends, ends[1:], self.weights_, strict=False):
                np.multiply(block, np.float32(weight), out=rows[:, first:last])
            if self.forest_ is not None:
                _indicate(rows[:, ends[-1] :], self._leaf_columns(np.hstack(plain)), self.weights_[-1])
        assert result is not None  # there is a record
        return result

    def _plain(self, table: NDArray[np.float64]) -> list[Floats]:
        """Return scaled numbers, and indicators of gaps, bins and categories."""
        gaps = np.isnan(table)
        scaled = np.clip((np.where(gaps, self.mean_, table) - self.mean_) / self.spread_, -4, 4)
        bins = [
            (np.searchsorted(cuts, table[:, j], side="right")[:, None] == np.arange(len(cuts) + 1)) & ~gaps[:, [j]]
            for j, cuts in zip(self.numbers_, self.cuts_, strict=False)
        ]
        levels = [table[:, [j]] == names for j, names in zip(self.categories_, self.levels_, strict=True)]
        indicators = [gaps[:, self.gaps_], *bins, *levels]
        return [scaled[:, self.numbers_].astype(np.float32), np.hstack(indicators).astype(np.float32)]

    @property
    def _leaf_count(self) -> int:
        """How many leaves all trees have together."""
        return 0 if self.forest_ is None else sum(map(len, self.forest_.one_hot_encoder_.categories_))

    def _leaf_columns(self, plain: Floats) -> NDArray[np.intp]:
        """Return the leaf of each tree that a record falls into, numbered over all trees, shape (n, trees)."""
        names = self.forest_.one_hot_encoder_.categories_
        first = np.cumsum([0, *map(len, names)])
        leaves_of = self.forest_.apply(plain)
        return np.column_stack(
            [
                np.searchsorted(tree, leaves) + start
                for tree, leaves, start in zip(names, leaves_of.T, first, strict=False)
            ]
        )


class CenteredColumns(TableTransformer):
    """Numbers around their means, in the scale that they share; a gap counts as the mean.

    Use it for embeddings: many numeric columns, of which principal directions say more than bins do.
    """

    embeds: ClassVar[bool] = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the means of X, shape (n, d); labels are ignored."""
        self.mean_, _ = means_and_spreads(number_table(X, self, fit=True))
        return self

    def transform(self, X: Any) -> Floats:
        """Return centered numbers, shape (n, d)."""
        check_is_fitted(self, "mean_")
        return np.nan_to_num((number_table(X, self) - self.mean_).astype(np.float32))


def is_embedded(transformer: Any) -> bool:
    """Return whether a fitted map makes embeddings: columns that share a scale."""
    return bool(getattr(transformer, "embeds", False))


def _indicate(table: Floats, columns: NDArray[np.intp], value: float) -> None:
    """Fill a table (n, count) with a value at some columns of each row, shape (n, c), and zeros elsewhere."""
    table[:] = 0
    table[np.arange(len(columns))[:, None], columns] = value


class RandomFourier(TableTransformer):
    """Cosines along random directions, on which a linear model approximates a Gaussian kernel.

    Args:
        components: number of directions.
        bandwidth: length scale of the kernel, in units of the spread of all columns together.
        random_state: seed of the directions.

    Source: Rahimi and Recht, Random Features for Large-Scale Kernel Machines (2007).
    """

    _takes_gaps = False

    def __init__(self, *, components: int = 1000, bandwidth: float = 0.5, random_state: int = 0) -> None:
        self.components = components
        self.bandwidth = bandwidth
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the spread of X, shape (n, d), and draw the directions; labels are ignored."""
        table = np.asarray(number_table(X, self, fit=True, gaps=False), dtype=np.float64)
        self.mean_ = table.mean(axis=0)
        length = self.bandwidth * np.sqrt(max(float(table.var(axis=0).sum()), 1e-12))
        rng = np.random.default_rng(self.random_state)
        self.directions_ = rng.normal(size=(table.shape[1], self.components)) / length
        self.phases_ = rng.uniform(0, 2 * np.pi, self.components)
        return self

    def transform(self, X: Any) -> Floats:
        """Return cosines, shape (n, components)."""
        check_is_fitted(self, "directions_")
        table = np.asarray(number_table(X, self, gaps=False), dtype=np.float64) - self.mean_
        parts = (table[start : start + CACHED_RECORDS] for start in range(0, len(table), CACHED_RECORDS))
        cosines = [np.cos((part @ self.directions_ + self.phases_).astype(np.float32)) for part in parts]
        return np.float32(np.sqrt(2 / self.components)) * np.concatenate(cosines)


BANDWIDTH = 0.7
"""Length scale of the kernel of tables."""


def fourier_map(categorical: Any, components: int) -> Pipeline:
    """Return an unfitted map of a table to random cosines of scaled numbers and of indicators of categories."""
    plain = TableMap(categorical=categorical, bins=1, trees=0)
    return make_pipeline(plain, RandomFourier(components=components, bandwidth=BANDWIDTH))


BLOCK_IMAGES = 64
"""Images handled at a time: their filter responses stay in cache."""

MAX_PATCHES = 100_000


class PatchFilters(TableTransformer):
    """Root mean responses of filters in regions of images.

    Use it for centered images such as digits or clothes, whose classes are nearly linear in these features. Patches
    are centered, scaled to unit contrast and whitened, all channels together; the filters are their k-means centers;
    responses below `threshold` count as 0.

    Args:
        side: height and width of an image, in pixels.
        channels: numbers of a pixel: 1 for gray, 3 for colors.
        patch: height and width of a patch.
        filters: number of filters; each gives `regions` squared features.
        regions: number of rows and columns of regions in an image.
        threshold: least response, in standard deviations.
        random_state: seed of the choice of patches and of the clustering.

    Source: Coates, Ng, Lee, An Analysis of Single-Layer Networks in Unsupervised Feature Learning (2011).
    """

    _takes_gaps = False

    def __init__(
        self,
        *,
        side: int = 28,
        channels: int = 1,
        patch: int = 6,
        filters: int = 300,
        regions: int = 3,
        threshold: float = 1.0,
        random_state: int = 0,
    ) -> None:
        self.side = side
        self.channels = channels
        self.patch = patch
        self.filters = filters
        self.regions = regions
        self.threshold = threshold
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the filters from images X, shape (n, side, side, channels) or flat; labels are ignored."""
        images = image_array(X, self, fit=True).astype(np.float32)
        rng = np.random.default_rng(self.random_state)
        sample = self._sample(images, rng)
        self.smoothing_ = np.float32(0.1 * sample.var(axis=1).mean())
        if not self.smoothing_ > 0:
            raise InputError("images must not be of one color each: there is nothing to learn from")
        patches = _contrast(sample, self.smoothing_)
        values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(patches.T)))
        whiten = (vectors / np.sqrt(np.maximum(values, 0) + 0.1 * values.mean())) @ vectors.T
        means = MiniBatchKMeans(self.filters, random_state=self.random_state, n_init=1, batch_size=4096)
        centers = means.fit(patches @ whiten).cluster_centers_
        centers /= np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), 1e-9)
        kernel = centers @ whiten
        self.kernel_ = (kernel - kernel.mean(axis=1, keepdims=True)).T.astype(np.float32)
        self.offset_ = np.float32(self.threshold * (patches @ self.kernel_).std())
        return self

    def transform(self, X: Any) -> Floats:
        """Return roots of mean responses, which have fewer extremes, shape (n, regions squared times filters)."""
        check_is_fitted(self, "kernel_")
        images = image_array(X, self).astype(np.float32)
        width = self.side - self.patch + 1
        ends = np.linspace(0, width, self.regions + 1).astype(int)
        result = np.empty((len(images), self.regions**2 * self.filters), dtype=np.float32)
        for start in range(0, len(images), BLOCK_IMAGES):
            part = slice(start, start + BLOCK_IMAGES)
            windows = self._windows(images[part]).reshape(-1, len(self.kernel_))
            patches = _contrast(windows, self.smoothing_, center=False)
            answers = patches @ self.kernel_
            np.maximum(answers - self.offset_, 0, out=answers)
            maps = answers.reshape(-1, width, width, self.filters)
            rows = np.add.reduceat(maps, ends[:-1], axis=1)
            sums = np.add.reduceat(rows, ends[:-1], axis=2)
            counts = np.outer(np.diff(ends), np.diff(ends))[None, :, :, None]
            result[part] = np.sqrt(sums / counts).reshape(len(maps), -1)
        return result

    def _windows(self, images: Floats) -> Floats:
        """Return a view of all patches, shape (n, positions, positions, channels, patch, patch)."""
        return sliding_window_view(images, (self.patch, self.patch), axis=(1, 2))

    def _sample(self, images: Floats, rng: np.random.Generator) -> Floats:
        """Return patches at random places, shape (count, values of a patch)."""
        width = self.side - self.patch + 1
        count = min(MAX_PATCHES, len(images) * width**2)
        if self.patch**2 * self.channels == 1:
            raise InputError("patch must hold more than one number, to have a contrast: n_features = 1")
        if count < max(self.filters, 2):
            raise InputError(f"filters must be no more than the images hold patches: n_samples = {count}")
        which, row, column = (rng.integers(0, end, count) for end in (len(images), width, width))
        return self._windows(images)[which, row, column].reshape(count, -1)


def _contrast(patches: Floats, smoothing: Any, *, center: bool = True) -> Floats:
    """Divide patches by their spread; subtracting their mean changes nothing for filters of mean zero."""
    spread = np.sqrt(patches.var(axis=1, keepdims=True) + smoothing)
    return (patches - patches.mean(axis=1, keepdims=True)) / spread if center else patches / spread


WHY = "rows computed from public features alone, by a rule that was fixed without the labels"


@dataclass(frozen=True)
class EncodedFeatures:
    """Features as a fitted transformer encodes them.

    Args:
        transformer: the fitted transformer.
        table: the encoded features, shape (n, p), or those of a sample of the records.
        source: the release that they come from, if any.
        why: why they may be taken for public, where they come from none.
        whole: features of all records as they were given, where the table is of a sample; else None.
        places: of the records among these, shape (n,), where they are not all; else None.
    """

    transformer: Any
    table: AnyFloats = field(repr=False)
    source: Release[Any] | None = None
    why: str = WHY
    whole: Any = field(default=None, repr=False)
    places: NDArray[np.intp] | None = field(default=None, repr=False)

    @property
    def records(self) -> int:
        """Number of records, n."""
        if self.whole is None:
            return len(self.table)
        return rows_of(self.whole) if self.places is None else len(self.places)

    def block(self, start: int, stop: int) -> AnyFloats:
        """Return the encoded features of records `start` to `stop`, shape (stop - start, p)."""
        if self.whole is None:
            return self.table[start:stop]
        some = np.arange(start, stop) if self.places is None else self.places[start:stop]
        return self.encoded(take_rows(self.whole, some))

    def encoded(self, features: Any) -> AnyFloats:
        """Return other features as the same transformer encodes them, shape (n, p)."""
        return _table(self.transformer, features, "representation")

    def take(self, rows: Any) -> "EncodedFeatures":
        """Return the same of some records, by a mask, or `slice(None)`; a sample stays that of all records."""
        if self.whole is None:
            return EncodedFeatures(self.transformer, self.table[rows], self.source, self.why)
        every = np.arange(rows_of(self.whole)) if self.places is None else self.places
        return self if isinstance(rows, slice) else replace(self, places=every[rows])

    def wrapped(self, rows: RowBlocks) -> Public[RowBlocks] | Release[RowBlocks]:
        """Return rows that were computed from the table, public or released like it."""
        return Public(rows, why=self.why) if self.source is None else self.source.map(lambda _: rows)


STREAMED_RECORDS, SAMPLED_RECORDS = 200_000, 50_000
"""The largest number of records whose encoded features are held together, and how many of more records are."""


def sample_places(records: int) -> NDArray[np.intp]:
    """Draw `SAMPLED_RECORDS` places below `records` by a public seed, and return them in order."""
    return np.sort(np.random.default_rng(0).permutation(records)[:SAMPLED_RECORDS])


def encode(
    representation: Any, features: Any, source: Release[Any] | None, *, sampled: bool = False
) -> EncodedFeatures:
    """Fit a clone of a transformer to features alone; use a fitted public transformer unchanged.

    Args:
        representation: the transformer, or the name of a public encoder.
        features: what it encodes.
        source: the release that features come from, if any.
        sampled: whether a sample of more than `STREAMED_RECORDS` records is encoded, and learned from, in place of all.

    Raises:
        InputError: it cannot take them, or does not make a finite matrix; or it is fitted, and nothing says to what.
    """
    rows = features if sampled and rows_of(features) > STREAMED_RECORDS else None
    if rows is not None:
        features = take_rows(features, sample_places(rows_of(features)))
    if isinstance(representation, str):
        network = encoders.public_encoder(representation)
        representation = Public(network, why=network.why)
    if isinstance(representation, Public):
        fitted = representation.value
        if not hasattr(fitted, "transform"):
            raise InputError("must hold a fitted transformer where it is Public", argument="representation")
        if source is not None:
            raise InputError("must be unfitted where features are a Release", argument="representation")
        why = f"rows computed from public features by an encoder of which is said: {representation.why}"
        return EncodedFeatures(fitted, _table(fitted, features, "representation"), why=why, whole=rows)
    if isinstance(representation, FrozenEstimator):
        raise InputError(
            'must be Public(encoder, why="…") where it is fitted: it may not have seen the private labels',
            argument="representation",
        )
    if not hasattr(representation, "fit") or not hasattr(representation, "transform"):
        raise InputError("representation must be a scikit-learn transformer, such as TableMap()")
    with _taking(representation):
        transformer = clone(representation).fit(features)
    return EncodedFeatures(transformer, _table(transformer, features, "representation"), source, whole=rows)


def _table(transformer: Any, features: Any, argument: str) -> AnyFloats:
    """Return what a fitted transformer makes of features, shape (n, p), or raise an `InputError`."""
    with _taking(transformer), np.errstate(over="ignore"):
        result = transformer.transform(features)
        table = np.asarray(result.toarray() if hasattr(result, "toarray") else result)
        single = table.astype(np.float32, copy=False) if table.dtype.kind in "buif" else np.array(np.nan)
    if single.ndim != 2 or len(single) != rows_of(features) or not np.all(np.isfinite(single)):
        raise InputError(f"{argument} must make a finite matrix of numbers, one row for each record")
    return single


@contextmanager
def _taking(transformer: Any) -> Iterator[None]:
    """Raise the errors of a transformer as an `InputError` that names it."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{type(transformer).__name__} cannot take these features: {first}") from error


def principal(table: NDArray[Any], dimension: int) -> NDArray[Any]:
    """Return about the widest directions of encoded features, at most so many, for a simulation."""
    size = min(dimension, *table.shape)
    return np.asarray(PCA(size, svd_solver="randomized", iterated_power=2, random_state=0).fit_transform(table))
