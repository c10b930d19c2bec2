"""Features of small images that are learned without labels: filters from k-means on whitened patches."""

from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils.validation import check_is_fitted

from labeldp.learners.features import RESHAPE, check_columns, check_values, real_array
from labeldp.privacy import InputError

Floats = NDArray[np.float32]

BLOCK_IMAGES = 64
"""Images handled at a time: their filter responses stay in cache."""

SAMPLED_PATCHES = 100_000


class PatchFilters(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """How strongly each filter answers in each region of an image: the root of the mean.

    Use it for centered images such as digits or clothes: the features are linear enough for `fit_linear`. Patches
    are centered, scaled to unit contrast and whitened, all channels together; the filters are their k-means centers;
    answers below `threshold` count as none.

    Args:
        side: height and width of an image, in pixels.
        channels: of a pixel: 1 for gray, 3 for colors.
        patch: height and width of a patch.
        filters: how many; each gives `regions` squared features.
        regions: the image is divided into so many rows and columns of regions.
        threshold: in standard deviations of the answers.
        random_state: of the choice of patches and of the clustering.

    Source: Coates, Ng, Lee, An Analysis of Single-Layer Networks in Unsupervised Feature Learning (2011).
    """

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
        """Learn the filters from images X, shape (n, side, side, channels) or flat; labels are not looked at."""
        images = self._images(X, fit=True)
        rng = np.random.default_rng(self.random_state)
        sample = self._sample(images, rng)
        self.smoothing_ = np.float32(0.1 * sample.var(axis=1).mean())
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
        """Roots of mean answers, which have fewer extremes, shape (n, regions squared times filters)."""
        check_is_fitted(self, "kernel_")
        images = self._images(X)
        width = self.side - self.patch + 1
        ends = np.linspace(0, width, self.regions + 1).astype(int)
        result = np.empty((len(images), self.regions**2 * self.filters), dtype=np.float32)
        for start in range(0, len(images), BLOCK_IMAGES):
            part = slice(start, start + BLOCK_IMAGES)
            patches = _contrast(
                self._windows(images[part]).reshape(-1, len(self.kernel_)), self.smoothing_, center=False
            )
            answers = patches @ self.kernel_
            np.maximum(answers - self.offset_, 0, out=answers)
            maps = answers.reshape(-1, width, width, self.filters)
            rows = np.add.reduceat(maps, ends[:-1], axis=1)
            sums = np.add.reduceat(rows, ends[:-1], axis=2)
            counts = np.outer(np.diff(ends), np.diff(ends))[None, :, :, None]
            result[part] = np.sqrt(sums / counts).reshape(len(maps), -1)
        return result

    def _images(self, images: Any, *, fit: bool = False) -> Floats:
        """Images, shape (n, side, side, channels).

        Raises:
            InputError: another shape, not numbers, or not finite.
        """
        array = real_array(images)
        if array.ndim <= 2:
            check_columns(self, images, fit=fit)
        shape = (self.side, self.side, self.channels)
        allowed = (shape, shape[:2] if self.channels == 1 else shape, (int(np.prod(shape)),))
        if array.shape[1:] not in allowed:
            shapes = " or ".join(_shape(each) for each in dict.fromkeys(allowed))
            raise InputError(f"images must be numbers, shape {shapes}{f'. {RESHAPE}' * (array.ndim == 1)}")
        if array.dtype.kind == "f":
            check_values(array.reshape(len(array), -1), gaps=False)
        return array.reshape(-1, *shape).astype(np.float32)

    def _windows(self, images: Floats) -> Floats:
        """Every patch of every image, a view, shape (n, positions, positions, channels, patch, patch)."""
        return sliding_window_view(images, (self.patch, self.patch), axis=(1, 2))

    def _sample(self, images: Floats, rng: np.random.Generator) -> Floats:
        """Patches at random places, shape (count, values of a patch)."""
        width = self.side - self.patch + 1
        count = min(SAMPLED_PATCHES, len(images) * width**2)
        if self.patch**2 * self.channels == 1:
            raise InputError("patch must hold more than one number, to have a contrast: n_features = 1")
        if count < max(self.filters, 2):
            raise InputError(f"filters must be no more than the images hold patches: n_samples = {count}")
        which, row, column = (rng.integers(0, end, count) for end in (len(images), width, width))
        return self._windows(images)[which, row, column].reshape(count, -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _contrast(patches: Floats, smoothing: Any, *, center: bool = True) -> Floats:
    """Patches divided by their spread; `center` subtracts their mean, which filters of mean zero do not see."""
    spread = np.sqrt(patches.var(axis=1, keepdims=True) + smoothing)
    return (patches - patches.mean(axis=1, keepdims=True)) / spread if center else patches / spread


def _shape(shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(map(str, shape))})"
