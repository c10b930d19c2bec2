"""Changes of images do what they say, and the same generator gives the same ones."""

import pytest
import torch

from labeldp.networks import Recipe
from labeldp.networks.inputs import AUGMENTATIONS, augment, crop, cutout, flip, light, mixup, warp, zoom
from labeldp.privacy import InputError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 64) -> torch.Tensor:
    return torch.rand(count, 3, 16, 16, generator=generator(1)) + 0.5


def test_a_crop_is_a_shift() -> None:
    given = images()
    found = crop(given, generator())
    for before, after in zip(given, found, strict=True):
        padded = torch.nn.functional.pad(before, (2, 2, 2, 2), mode="replicate")
        shifts = [padded[:, row : row + 16, column : column + 16] for row in range(5) for column in range(5)]
        assert any(torch.equal(after, shift) for shift in shifts)
    assert not torch.equal(found, given)


def test_a_flip_mirrors_about_half_of_the_images() -> None:
    given = images(200)
    found = flip(given, generator())
    mirrored = (found != given).flatten(1).any(dim=1)
    assert torch.equal(found[mirrored], given.flip(3)[mirrored])
    assert 60 < int(mirrored.sum()) < 140


def test_cutout_blanks_a_part_and_leaves_the_rest() -> None:
    given = images()
    found = cutout(given, generator())
    blank = found == 0
    assert torch.equal(found[~blank], given[~blank])
    shares = blank.flatten(1).float().mean(dim=1)
    assert bool((shares > 0).all() and (shares < 0.3).all())


def test_a_warp_keeps_the_size_and_the_middle() -> None:
    given = torch.zeros(20, 1, 17, 17)
    given[:, :, 7:10, 7:10] = 1.0
    found = warp(given, generator())
    assert found.shape == given.shape
    assert bool((found[:, 0, 8, 8] > 0.9).all())
    assert not torch.allclose(found, given)


def test_a_zoom_shows_a_square_of_the_image() -> None:
    slope = torch.linspace(0, 1, 33).expand(200, 1, 33, 33)
    found = zoom(slope, generator())
    assert found.shape == slope.shape
    shown = (found[:, 0, 16, 24] - found[:, 0, 16, 8]) / 0.5  # sides between the root of 0.4 and 1
    assert 0.63 < float(shown.min()) < 0.7 and 0.95 < float(shown.max()) <= 1.001
    assert float(found.min()) >= 0 and float(found.max()) <= 1 and float(found[:, 0, 16, 16].std()) > 0.02


def test_light_changes_contrast_and_brightness_of_whole_images() -> None:
    given = images()
    found = light(given, generator())
    for before, after in zip(given, found, strict=True):
        contrast = (after.max() - after.min()) / (before.max() - before.min())
        assert 0.6 <= float(contrast) <= 1.4
        assert torch.allclose(after - contrast * before, (after - contrast * before).mean(), atol=1e-4)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_the_same_generator_gives_the_same_changes(name: str) -> None:
    first, second = (augment(images(), (name,), generator(5)) for _ in range(2))
    assert torch.equal(first, second)


def test_mixup_mixes_two_records() -> None:
    given = images()
    mixed, order, weight = mixup(given, 4.0, generator())
    assert 0 < weight < 1
    assert torch.allclose(mixed, weight * given + (1 - weight) * given[order])
    assert sorted(order.tolist()) == list(range(len(given)))


def test_unknown_changes_are_refused() -> None:
    with pytest.raises(InputError, match="augment must hold names out of crop, flip, cutout, warp"):
        Recipe(augment=("blur",))
