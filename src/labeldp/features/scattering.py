"""ScatterFilters: how wavelets answer in each region of an image; ImageMap: their features next to those of patches."""

from typing import Any, Self

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from labeldp.features.representations import CenteredColumns, PatchFilters, TableMap, fourier_map
from labeldp.features.rows import TableTransformer, are_numbers, image_array, rows_with_gaps
from labeldp.privacy import InputError, check_integer

Floats = NDArray[np.float32]
Complex = NDArray[np.complex64]

BLOCK_PIXELS = 1 << 14
"""Pixels that are transformed at a time: their spectra stay in cache."""

MARGIN = 2
"""Mirrored pixels around an image, at least."""

WIDTH, FREQUENCY = 0.8, 0.75 * np.pi
"""Of the finest wavelet: the standard deviation of its envelope in pixels, and its frequency in radians a pixel."""

ALIASES = range(-3, 4)
"""Multiples of the sampling rate at which a sampled wavelet repeats its spectrum, as far as it is not negligible."""


class ScatterFilters(TableTransformer):
    """How strongly wavelets answer in each region of an image, and how their answers vary: a scattering transform.

    Use it for small images, from about 28 to 96 pixels a side, alone or beside `PatchFilters` (`ImageMap` joins them).
    Every channel is seen by Morlet wavelets of two scales and several directions. The features are roots of means over
    each region: of the pixels (order 0), of the magnitude of each wavelet's answer (order 1), and of the magnitude of
    each coarse wavelet's answer to each magnitude of a fine one (order 2). A small shift or warp changes them little;
    pixels multiplied by c multiply them by the root of c; orders 1 and 2 do not see brightness. Nothing is learned
    from the images but their shape.

    Args:
        side: height and width of an image, in pixels.
        channels: of a pixel: 1 for gray, 3 for colors.
        angles: directions of the wavelets, evenly spread over half a turn.
        regions: the image is divided into so many rows and columns of regions. There are
            channels * (1 + 2 angles + angles squared) * regions squared features.

    Source: Bruna and Mallat, Invariant Scattering Convolution Networks (2013), section 2.
    """

    _takes_gaps = False

    def __init__(self, *, side: int = 28, channels: int = 1, angles: int = 8, regions: int = 4) -> None:
        self.side = side
        self.channels = channels
        self.angles = angles
        self.regions = regions

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make the wavelets for images X, shape (n, side, side, channels) or flat; labels are not read."""
        for name in ("side", "channels", "angles", "regions"):
            check_integer(getattr(self, name), name)
        if self.regions > self.side:
            raise InputError("regions must be no more than side, the pixels in a row of an image")
        image_array(X, self, fit=True)
        size = 2 * scipy.fft.next_fast_len(-(-self.side // 2) + MARGIN)
        turns = np.pi * np.arange(self.angles) / self.angles
        self.fine_, self.coarse_ = (
            np.stack([morlet(size, scale, turn, slant=4 / self.angles) for turn in turns]).astype(np.float32)
            for scale in (1, 2)
        )
        self.fine_means_, self.coarse_means_ = (region_means(size, self.side, self.regions, step) for step in (1, 2))
        return self

    def transform(self, X: Any) -> Floats:
        """Return the features of images, by channel, order and wavelets, shape (n, features)."""
        check_is_fitted(self, "fine_")
        images = image_array(X, self)
        size = self.fine_.shape[1]
        before = (size - self.side) // 2
        margins = (before, size - self.side - before)
        features = self.channels * (1 + 2 * self.angles + self.angles**2) * self.regions**2
        result = np.empty((len(images), features), dtype=np.float32)
        count = max(BLOCK_PIXELS // (size**2 * self.channels), 1)
        for start in range(0, len(images), count):
            part = slice(start, start + count)
            planes = np.moveaxis(images[part], 3, 1).reshape(-1, self.side, self.side).astype(np.float32)
            padded = np.pad(planes, ((0, 0), margins, margins), mode="symmetric")
            result[part] = self._features(padded).reshape(-1, features)
        return result

    def _features(self, planes: Floats) -> Floats:
        """Return the features of single channels (m, size, size), shape (m, paths, regions squared)."""
        # Wavelets do not see the middle of the range, and answer in proportion to the range: without both, answers
        # to a constant are 0 and none overflows.
        high, low = (end(planes, axis=(1, 2), keepdims=True) / 2 for end in (np.max, np.min))
        spread = high - low
        spectrum = scipy.fft.fft2((planes - (high + low)) / np.where(spread > 0, spread, 1))
        fine = _magnitude(scipy.fft.ifft2(spectrum * self.fine_[:, None]))
        coarse = [self._coarse(spectrum), *(self._coarse(scipy.fft.fft2(answer)) for answer in fine)]
        answers = np.concatenate([fine.reshape(*fine.shape[:2], -1) @ self.fine_means_, *coarse])
        means = planes.reshape(1, len(planes), -1) @ self.fine_means_
        signed = np.concatenate([np.sign(means) * np.sqrt(np.abs(means)), np.sqrt(answers) * np.sqrt(spread[..., 0])])
        return signed.transpose(1, 0, 2)

    def _coarse(self, spectrum: Complex) -> Floats:
        """Mean magnitudes of the answers of coarse wavelets at every other pixel, shape (angles, m, regions squared).

        The spectrum of every other pixel is the mean of the four quarters of a spectrum.
        """
        half = spectrum.shape[-1] // 2
        quarters = [(slice(row, row + half), slice(column, column + half)) for row in (0, half) for column in (0, half)]
        folded = sum(spectrum[:, *quarter] * self.coarse_[:, None, *quarter] for quarter in quarters)
        answers = _magnitude(scipy.fft.ifft2(0.25 * folded))
        return answers.reshape(*answers.shape[:2], -1) @ self.coarse_means_


def morlet(size: int, scale: int, turn: float, *, slant: float) -> NDArray[np.float64]:
    """Return the spectrum of a Morlet wavelet on a periodic grid of size times size pixels, which is real.

    In space it is a wave in a Gaussian envelope of unit sum, minus as much of the envelope as makes its mean zero.

    Args:
        size: of the grid.
        scale: multiplies the width of the envelope and the length of the wave.
        turn: angle of the wave's direction to the columns' axis.
        slant: width of the envelope along the wave, divided by that across.
    """
    grid = 2 * np.pi * np.arange(size) / size
    row, column = np.meshgrid(grid, grid, indexing="ij")

    def envelope(frequency: float) -> NDArray[np.float64]:
        """Return the spectrum of the envelope, moved to the wave's frequency."""
        total = np.zeros((size, size))
        for up in ALIASES:
            for right in ALIASES:
                rows, columns = row + 2 * np.pi * up, column + 2 * np.pi * right
                along = rows * np.cos(turn) + columns * np.sin(turn) - frequency
                across = (columns * np.cos(turn) - rows * np.sin(turn)) / slant
                total += np.exp(-((WIDTH * scale) ** 2) * (along**2 + across**2) / 2)
        return total

    wave, plain = envelope(FREQUENCY / scale), envelope(0.0)
    return wave - wave[0, 0] / plain[0, 0] * plain


def region_means(size: int, side: int, regions: int, step: int) -> Floats:
    """Return the matrix from maps of every `step`-th pixel to means over regions, shape (places, regions squared).

    Args:
        size: of the grid of pixels.
        side: of the image in the middle of the grid; its margins count for nothing.
        regions: rows and columns of regions, of the same size.
        step: distance of the places on the map; a place that lies in two regions counts for each by its share.
    """
    starts, edges = np.arange(0, size, step), (size - side) // 2 + side * np.arange(regions + 1) / regions
    overlap = np.minimum(starts[:, None] + step, edges[1:]) - np.maximum(starts[:, None], edges[:-1])
    shares = np.maximum(overlap, 0) * regions / side
    return np.kron(shares, shares).astype(np.float32)


def _magnitude(answers: Complex) -> Floats:
    """Return the absolute values of complex numbers, without the care for huge ones that `np.abs` takes."""
    return np.sqrt(np.square(answers.real) + np.square(answers.imag))


SAMPLED_IMAGES = 4000
"""Images whose features tell how much both kinds vary, at most."""

BLOCK_IMAGES = 512
"""Images handled at a time."""


class ImageMap(TableTransformer):
    """The features of `PatchFilters` and of `ScatterFilters` side by side.

    Use it for small centered images, such as digits or clothes: `fit_linear` is more accurate with both kinds than with
    patches alone. Both have the same total variance.

    Args:
        side: height and width of an image, in pixels.
        channels: of a pixel: 1 for gray, 3 for colors.
        filters: of `PatchFilters`.
        random_state: of `PatchFilters`.
    """

    _takes_gaps = False

    def __init__(self, *, side: int = 28, channels: int = 1, filters: int = 200, random_state: int = 0) -> None:
        self.side = side
        self.channels = channels
        self.filters = filters
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn filters and variances from images X, shape (n, side, side, channels) or flat, without labels."""
        for name in ("side", "channels", "filters"):
            check_integer(getattr(self, name), name)
        shape = {"side": self.side, "channels": self.channels}
        patches = PatchFilters(**shape, filters=self.filters, random_state=self.random_state)
        if self.side < patches.patch:
            raise InputError(f"side must be at least {patches.patch}, the pixels in a row of a patch")
        images = image_array(X, self, fit=True)
        self.maps_ = [part.fit(images) for part in (patches, ScatterFilters(**shape))]
        sample = images[:: -(-len(images) // SAMPLED_IMAGES)]
        tables = [part.transform(sample) for part in self.maps_]
        variances = [float(table.var(axis=0, dtype=np.float64).sum()) for table in tables]
        self.weights_ = [1 / np.sqrt(variance) if variance > 0 else 1.0 for variance in variances]
        self.width_ = sum(table.shape[1] for table in tables)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the features of images, those of patches first, shape (n, features)."""
        check_is_fitted(self, "maps_")
        images = image_array(X, self)
        result = np.empty((len(images), self.width_), dtype=np.float32)
        for start in range(0, len(images), BLOCK_IMAGES):
            part = slice(start, start + BLOCK_IMAGES)
            np.concatenate(self._scaled(images[part]), axis=1, out=result[part])
        return result

    def _scaled(self, images: NDArray[Any]) -> list[Floats]:
        """Return what each map makes of images, times its weight."""
        return [
            part.transform(images) * np.float32(weight) for part, weight in zip(self.maps_, self.weights_, strict=True)
        ]


MIN_SIDE = 8
"""Pixels that linear features need in a row."""


WIDE_COLUMNS = 100
"""Numeric columns from which on a table without gaps and categories is taken for an embedding."""


MANY_CLASSES, FEW_COLUMNS, COSINES = 10, 50, 1000
"""So many classes of a table of at most so many columns are told apart by so many random cosines."""


def default_representation(
    features: Any, categorical: Any = None, classes: int = 2
) -> ImageMap | TableMap | CenteredColumns | Pipeline:
    """Return the unfitted map that linear models take by default.

    It is `ImageMap` for images, `CenteredColumns` for at least `WIDE_COLUMNS` columns of numbers without gaps and no
    others, and `TableMap` for other tables; where a curator is trusted, `fourier_map` for many classes of few columns.

    Args:
        features: images, shape (n, side, side) or (n, side, side, channels), or a table.
        categorical: of a table, which columns hold category codes, shape (d,).
        classes: number of classes that sums are released of.

    Raises:
        InputError: images are too small, too few, or not square.
    """
    shape = np.shape(features)
    if len(shape) < 3:
        if len(shape) == 2 and classes >= MANY_CLASSES and shape[1] <= FEW_COLUMNS:
            return fourier_map(categorical, COSINES)
        return CenteredColumns() if is_embedding(features, categorical) else TableMap(categorical=categorical)
    (height, width), channels = shape[1:3], (*shape, 1)[3]
    words = f"{'color' if channels > 1 else 'gray'} images of {height} × {width} pixels"
    if height != width or height < MIN_SIDE:
        raise InputError(f"linear features need square images of at least {MIN_SIDE} pixels a side; these are {words}")
    mapping = ImageMap(side=height, channels=channels)
    fewest = -(-mapping.filters // (height - PatchFilters().patch + 1) ** 2)
    if len(features) < fewest:
        raise InputError(f"linear features of {words} need at least {fewest} of them")
    return mapping


def is_embedding(features: Any, categorical: Any = None) -> bool:
    """Return whether a table is of many numbers, without gaps and categories; images are not."""
    shape = np.shape(features)
    if len(shape) != 2 or shape[1] < WIDE_COLUMNS or (categorical is not None and np.any(categorical)):
        return False
    return not issparse(features) and are_numbers(features) and not len(rows_with_gaps(features))


FEATURES = {
    "TableMap": "numbers, categories and random trees’ leaves",
    "CenteredColumns": "numbers",
    "Pipeline": "cosines of numbers and categories along random directions",
    "PatchFilters": "how strongly parts of the image answer to filters, found without labels",
    "ScatterFilters": "how strongly parts of the image answer to wavelets",
    "ImageMap": "how strongly parts of the image answer to wavelets and to filters, found without labels",
}
"""What a linear model sees, by the transformer that makes it."""


def described_features(representation: Any) -> str:
    """Return what a linear model sees, as a phrase."""
    name = type(representation).__name__
    return FEATURES.get(name, f"what {name} makes of the features")
