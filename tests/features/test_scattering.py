"""Scattering features of images: what they see, what they do not, and what is refused."""

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.base import clone

import labeldp as ldp
from labeldp.features import ImageMap, PatchFilters, ScatterFilters, scattering
from labeldp.privacy import InputError

RNG = np.random.default_rng(0)

IMAGES = RNG.integers(0, 256, (40, 12, 12)).astype(np.uint8)


def slow_wavelet(size: int, scale: int, turn: float, slant: float) -> np.ndarray:
    """A Morlet wavelet in space: sampled far out, then wrapped around a grid."""
    reach = np.arange(-8 * size, 8 * size)
    row, column = np.meshgrid(reach, reach, indexing="ij")
    along = row * np.cos(turn) + column * np.sin(turn)
    across = column * np.cos(turn) - row * np.sin(turn)
    envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * (0.8 * scale) ** 2))
    envelope *= slant / (2 * np.pi * (0.8 * scale) ** 2)
    wave = envelope * np.exp(0.75j * np.pi / scale * along)
    wrapped, plain = (each.reshape(16, size, 16, size).sum(axis=(0, 2)) for each in (wave, envelope))
    return wrapped - wrapped.sum() / plain.sum() * plain


def slow_convolution(image: np.ndarray, wavelet: np.ndarray) -> np.ndarray:
    """A circular convolution, term by term."""
    size = len(image)
    result = np.zeros((size, size), dtype=complex)
    for row in range(size):
        for column in range(size):
            result += image[row, column] * np.roll(wavelet, (row, column), axis=(0, 1))
    return result


def slow_features(image: np.ndarray, angles: int, regions: int) -> np.ndarray:
    """The features of a gray image of 8 pixels a side, on a grid of 12, shape (paths, regions squared)."""
    padded = np.pad(image.astype(float), 2, mode="symmetric")
    turns = [np.pi * angle / angles for angle in range(angles)]
    fine, coarse = ([slow_wavelet(12, scale, turn, 4 / angles) for turn in turns] for scale in (1, 2))

    def means(plane: np.ndarray) -> np.ndarray:
        inner = plane[2:-2, 2:-2] if len(plane) == 12 else plane[1:-1, 1:-1]
        side = len(inner) // regions
        return inner.reshape(regions, side, regions, side).mean(axis=(1, 3)).ravel()

    first = [np.abs(slow_convolution(padded, wavelet)) for wavelet in fine]
    paths = [means(padded), *(means(each) for each in first)]
    for plane in (padded, *first):
        paths += [means(np.abs(slow_convolution(plane, wavelet))[::2, ::2]) for wavelet in coarse]
    return np.sqrt(paths)


@pytest.mark.parametrize("angles", [3, 4, 8])
def test_the_transform_is_that_of_slow_convolutions(angles: int) -> None:
    image = RNG.uniform(0, 255, (8, 8))
    found = ScatterFilters(side=8, angles=angles, regions=2).fit_transform(image[None])
    assert found.shape == (1, (1 + 2 * angles + angles**2) * 4)
    assert np.allclose(found[0].reshape(-1, 4), slow_features(image, angles, 2), rtol=1e-4, atol=1e-3)


def test_wavelets_are_waves_of_mean_zero_in_an_envelope() -> None:
    for scale in (1, 2):
        for turn in (0.0, 0.4, np.pi / 2):
            spectrum = scattering.morlet(32, scale, turn, slant=0.5)
            assert np.allclose(np.fft.ifft2(spectrum), slow_wavelet(32, scale, turn, 0.5), atol=1e-12)
            assert spectrum[0, 0] == 0  # the sum over space
    peak = np.unravel_index(scattering.morlet(32, 1, 0.0, slant=0.5).argmax(), (32, 32))
    assert peak == (12, 0)  # three quarters of pi radians a pixel, of 2 pi / 32 each, along rows


def test_means_over_regions_by_hand() -> None:
    halves = [[0, 0], [0.5, 0], [0.5, 0], [0, 0.5], [0, 0.5], [0, 0]]
    assert np.allclose(scattering.region_means(6, 4, 2, 1), np.kron(halves, halves))
    assert np.allclose(scattering.region_means(12, 8, 2, 2), np.kron(halves, halves))  # places of two pixels
    thirds = [[0.6, 0, 0], [0.4, 0.2, 0], [0, 0.6, 0], [0, 0.2, 0.4], [0, 0, 0.6]]
    assert np.allclose(scattering.region_means(10, 10, 3, 2), np.kron(thirds, thirds))


def test_a_constant_image_has_brightness_and_nothing_else() -> None:
    for brightness in (0, 9, 255):
        found = ScatterFilters(side=12).fit_transform(np.full((1, 12, 12), brightness))
        assert np.allclose(found[:, :16], np.sqrt(brightness)) and np.all(found[:, 16:] == 0)


def test_multiplied_pixels_multiply_features_by_the_root() -> None:
    mapped = ScatterFilters(side=12).fit(IMAGES)
    plain, few = mapped.transform(IMAGES), np.float64(IMAGES)
    for factor in (1e-30, 0.3, 7.0, 1e35):
        assert np.allclose(mapped.transform(factor * few) / np.sqrt(factor), plain, rtol=1e-4, atol=1e-3)
    negative = mapped.transform(-few)
    assert np.allclose(negative[:, :16], -plain[:, :16]) and np.allclose(negative, plain * np.sign(negative), atol=1e-3)


def test_brightness_changes_order_zero_alone() -> None:
    mapped = ScatterFilters(side=12).fit(IMAGES)
    darker, brighter = (mapped.transform(IMAGES + level) for level in (0.0, 1000.0))
    assert np.all(brighter[:, :16] > darker[:, :16])
    assert np.allclose(brighter[:, 16:], darker[:, 16:], atol=0.05)


def test_a_shift_by_a_pixel_changes_little() -> None:
    smooth = gaussian_filter(RNG.normal(size=(20, 40, 40)), (0, 2, 2))[:, 2:38, 2:38]
    smooth = np.pad(smooth / smooth.std(), ((0, 0), (4, 4), (4, 4)))
    mapped = ScatterFilters(side=44).fit(smooth)
    plain, moved = (mapped.transform(each)[:, 16:] for each in (smooth, np.roll(smooth, 1, axis=2)))
    pixels = np.linalg.norm(np.roll(smooth, 1, axis=2) - smooth) / np.linalg.norm(smooth)
    assert np.linalg.norm(moved - plain) / np.linalg.norm(plain) < pixels / 4


def test_each_channel_is_seen_by_itself() -> None:
    colors = RNG.integers(0, 256, (5, 12, 12, 3)).astype(np.uint8)
    found = ScatterFilters(side=12, channels=3).fit_transform(colors)
    single = ScatterFilters(side=12).fit(IMAGES)
    assert np.allclose(found, np.hstack([single.transform(colors[..., each]) for each in range(3)]), atol=1e-3)
    assert np.array_equal(ScatterFilters(side=12, channels=3).fit_transform(colors.reshape(5, -1)), found)


MAPS: dict[str, Any] = {"scattering": ScatterFilters(side=12), "both": ImageMap(side=12, filters=7)}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_never_sees_labels(name: str) -> None:
    plain = clone(MAPS[name]).fit(IMAGES).transform(IMAGES)
    told = clone(MAPS[name]).fit(IMAGES, RNG.integers(0, 2, len(IMAGES))).transform(IMAGES)
    assert np.array_equal(plain, told)
    assert plain.dtype == np.float32 and np.all(np.isfinite(plain)) and len(plain) == len(IMAGES)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float16, np.float32, np.float64])
def test_kinds_and_shapes_of_the_same_images_give_the_same(name: str, kind: Any) -> None:
    images = IMAGES.astype(kind)
    mapped = clone(MAPS[name]).fit(IMAGES)
    plain = mapped.transform(IMAGES)
    for form in (images, images[..., None], images.reshape(40, 144), images[:, ::-1][:, ::-1]):
        assert np.allclose(mapped.transform(form), plain, atol=1e-4)


@pytest.mark.parametrize("name", MAPS)
def test_images_are_handled_in_blocks_of_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = clone(MAPS[name]).fit(IMAGES)
    plain = mapped.transform(IMAGES)
    for pixels, images in ((1, 1), (16**2 * 7, 13), (1 << 20, 4000)):
        monkeypatch.setattr(scattering, "BLOCK_PIXELS", pixels)
        monkeypatch.setattr(scattering, "BLOCK_IMAGES", images)
        assert np.allclose(mapped.transform(IMAGES), plain, atol=1e-3)


@pytest.mark.parametrize("name", MAPS)
def test_memory_grows_with_a_block_and_the_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattering, "BLOCK_IMAGES", 64)
    mapped = clone(MAPS[name]).fit(IMAGES)
    images = np.tile(IMAGES, (50, 1, 1))
    tracemalloc.start()
    result = mapped.transform(images)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < result.nbytes + 10_000_000


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_kept_and_copied(name: str) -> None:
    mapped = clone(MAPS[name]).fit(IMAGES)
    assert np.array_equal(pickle.loads(pickle.dumps(mapped)).transform(IMAGES), mapped.transform(IMAGES))
    copied = clone(mapped).set_params(side=8)
    assert copied.get_params() == {**mapped.get_params(), "side": 8} and not hasattr(copied, "fine_")


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("images", [np.zeros((3, 100)), np.zeros((3, 12, 13)), np.zeros((3, 9, 16))])
def test_images_of_another_kind_are_refused(name: str, images: np.ndarray) -> None:
    words = r"images must be numbers, shape \(n, 12, 12, 1\) or \(n, 12, 12\) or \(n, 144\)"
    for work in (clone(MAPS[name]).fit, clone(MAPS[name]).fit(IMAGES).transform):
        with pytest.raises(InputError, match=words):
            work(images)


@pytest.mark.parametrize("name", MAPS)
def test_images_are_finite_numbers(name: str) -> None:
    for images, words in (
        (np.full((3, 144), "a"), "must be numbers"),
        (np.zeros((3, 144), complex), "must be real numbers"),
        (np.zeros((0, 12, 12)), "at least one row"),
        (np.full((3, 12, 12), np.nan), "must be finite"),
        (np.full((3, 12, 12), -np.inf), "must be finite"),
        (np.full((3, 12, 12), 1e39), "must be finite"),
    ):
        for work in (clone(MAPS[name]).fit, clone(MAPS[name]).fit(IMAGES).transform):
            with pytest.raises(InputError, match=words):
                work(images)


@pytest.mark.parametrize("argument", ["side", "channels", "angles", "regions"])
def test_sizes_are_positive_integers(argument: str) -> None:
    for value in (0, -3, 2.5, True, "4", None):
        with pytest.raises(InputError, match=f"{argument} must be an integer, at least 1"):
            ScatterFilters(**{argument: value}).fit(IMAGES)
    with pytest.raises(InputError, match="regions must be no more than side"):
        ScatterFilters(side=12, regions=13).fit(IMAGES)


@pytest.mark.parametrize("argument", ["side", "channels", "filters"])
def test_sizes_of_both_maps_are_positive_integers(argument: str) -> None:
    for value in (0, 2.5, None):
        with pytest.raises(InputError, match=f"{argument} must be an integer, at least 1"):
            ImageMap(**{argument: value}).fit(IMAGES)
    with pytest.raises(InputError, match="side must be at least 6"):
        ImageMap(side=5).fit(IMAGES[:, :5, :5])


@pytest.mark.parametrize("name", MAPS)
def test_flat_images_have_the_columns_of_the_fit(name: str) -> None:
    flat = IMAGES.reshape(40, 144)
    mapped = clone(MAPS[name]).fit(flat)
    assert mapped.n_features_in_ == 144
    with pytest.raises(InputError, match="features must have 144 columns"):
        mapped.transform(flat[:, :100])


@pytest.mark.parametrize("side", [1, 2, 7, 13, 33, 96])
def test_images_of_any_size_have_features(side: int) -> None:
    images = RNG.uniform(0, 1, (2, side, side))
    found = ScatterFilters(side=side, regions=min(side, 4)).fit_transform(images)
    assert found.shape == (2, 81 * min(side, 4) ** 2) and np.all(np.isfinite(found)) and np.all(found >= 0)


def test_both_maps_have_the_same_variance() -> None:
    mapped = ImageMap(side=12, filters=7).fit(IMAGES)
    table = mapped.transform(IMAGES)
    patches = PatchFilters(side=12, filters=7).fit_transform(IMAGES)
    wavelets = ScatterFilters(side=12).fit_transform(IMAGES)
    assert table.shape == (40, patches.shape[1] + wavelets.shape[1])
    first, second = np.split(table, [patches.shape[1]], axis=1)
    assert first.var(axis=0).sum() == pytest.approx(1, rel=1e-3) and second.var(axis=0).sum() == pytest.approx(
        1, rel=1e-3
    )
    assert np.allclose(first / patches.max(), patches / patches.max() * (first.max() / patches.max()), atol=1e-5)


def test_linear_models_take_both_maps() -> None:
    labels = RNG.integers(0, 2, 400)
    images = RNG.uniform(0, 100, (400, 12, 12))
    images[labels == 1, :, 4:8] += 100
    curator = ldp.Curator(labels[:300], domain=ldp.Classes(2), budget=ldp.Budget(8, 1e-6))
    model = ldp.fit_linear(
        images[:300],
        curator,
        epsilon=8,
        delta=1e-6,
        rng=np.random.default_rng(1),
        representation=ImageMap(side=12, filters=10),
    ).value
    assert np.mean(model.predict(images[300:]) == labels[300:]) > 0.95
