"""Random changes of batches of images that leave the label as it is; all randomness comes from one public generator."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.privacy import InputError


def crop(images: Tensor, generator: torch.Generator, padding: int | None = None) -> Tensor:
    """Each image moved by up to `padding` pixels (an eighth of a side) in each direction, zeros where it left.

    Args:
        images: shape (n, c, h, w).
    """
    count, _, height, width = images.shape
    reach = height // 8 if padding is None else padding
    padded = functional.pad(images, (reach,) * 4)
    tops, lefts = (_integers(count, 2 * reach + 1, generator, images.device) for _ in range(2))
    rows = tops[:, None] + torch.arange(height, device=images.device)
    columns = lefts[:, None] + torch.arange(width, device=images.device)
    records = torch.arange(count, device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[records, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored left to right, or not."""
    chosen = _integers(len(images), 2, generator, images.device).bool()
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def cutout(images: Tensor, generator: torch.Generator) -> Tensor:
    """A square of half the side, anywhere, blanked in each image.

    Source: DeVries and Taylor, Improved Regularization of Convolutional Neural Networks with Cutout (2017).
    """
    count, _, height, width = images.shape
    tops, lefts = (_integers(count, side, generator, images.device)[:, None] for side in (height, width))
    half = height // 4
    rows = (torch.arange(height, device=images.device) - tops).abs() < half
    columns = (torch.arange(width, device=images.device) - lefts).abs() < half
    return images.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


def warp(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image turned by up to 15 degrees, scaled and sheared by up to 15 percent."""
    angle, size, shear, stretch = (_uniform(len(images), generator, images.device) for _ in range(4))
    angle, scales = 0.26 * angle, (1 + 0.15 * size, (1 + 0.15 * size) * (1 + 0.1 * stretch))
    first = torch.stack([angle.cos() * scales[0], -angle.sin() * scales[1] + 0.15 * shear, torch.zeros_like(angle)], 1)
    second = torch.stack([angle.sin() * scales[0], angle.cos() * scales[1], torch.zeros_like(angle)], 1)
    grid = functional.affine_grid(torch.stack([first, second], dim=1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def zoom(images: Tensor, generator: torch.Generator) -> Tensor:
    """A square of 40 to 100 percent of each image, anywhere in it, in the size of the whole.

    Source: Grill et al., Bootstrap Your Own Latent (2020), appendix B.
    """
    share, across, down = ((1 + _uniform(len(images), generator, images.device)) / 2 for _ in range(3))
    side = (0.4 + 0.6 * share).sqrt()
    none = torch.zeros_like(side)
    rows = torch.stack([side, none, (1 - side) * (2 * across - 1)], dim=1)
    columns = torch.stack([none, side, (1 - side) * (2 * down - 1)], dim=1)
    grid = functional.affine_grid(torch.stack([rows, columns], dim=1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def light(images: Tensor, generator: torch.Generator) -> Tensor:
    """Contrast changed by up to 40 percent, and brightness by up to 0.4 standard deviations of all pixels."""
    contrast, brightness = (_uniform(len(images), generator, images.device)[:, None, None, None] for _ in range(2))
    return images * (1 + 0.4 * contrast) + 0.4 * brightness


AUGMENTATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "crop": crop,
    "flip": flip,
    "cutout": cutout,
    "warp": warp,
    "zoom": zoom,
    "light": light,
}


def augment(images: Tensor, names: tuple[str, ...], generator: torch.Generator) -> Tensor:
    """The named changes, one after the other."""
    for name in names:
        images = AUGMENTATIONS[name](images, generator)
    return images


def check_names(names: tuple[str, ...]) -> None:
    """Refuse unknown changes."""
    if not set(names) <= set(AUGMENTATIONS):
        raise InputError(f"augment must hold names out of {', '.join(AUGMENTATIONS)}")


def mixup(inputs: Tensor, alpha: float, generator: torch.Generator) -> tuple[Tensor, Tensor, float]:
    """Inputs mixed with those of another record of the batch; the other records; the weight of the first ones.

    The weight is drawn from Beta(alpha, alpha); losses are mixed like inputs.

    Source: Zhang et al., mixup: Beyond Empirical Risk Minimization (2018).
    """
    seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
    weight = float(np.random.default_rng(seed).beta(alpha, alpha))
    order = torch.randperm(len(inputs), generator=generator, device=generator.device).to(inputs.device)
    return weight * inputs + (1 - weight) * inputs[order], order, weight


def _integers(count: int, end: int, generator: torch.Generator, device: torch.device) -> Tensor:
    return torch.randint(end, (count,), generator=generator, device=generator.device).to(device)


def _uniform(count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Numbers in [-1, 1)."""
    return (2 * torch.rand(count, generator=generator, device=generator.device) - 1).to(device)
