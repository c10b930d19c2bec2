"""Inputs of networks, and random augmentations of images."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.privacy import InputError

SHAPES = "images of bytes, shape (n, h, w) or (n, h, w, 3), numbers, shape (n, d), or pairs of ids, shape (n, 2)"


@dataclass(frozen=True)
class InputScale:
    """Mean and standard deviation of each channel or column, to scale inputs to mean 0 and variance 1."""

    mean: Any = field(repr=False)
    spread: Any = field(repr=False)

    @classmethod
    def of(cls, raw: Tensor) -> "InputScale":
        """Learn the scale of each channel of images, or each column of numbers."""
        places = (0, 2, 3) if raw.ndim == 4 else (0,)
        sample = raw[:: max(len(raw) // 10_000, 1)].float()
        spread, mean = torch.std_mean(sample, dim=places, unbiased=False)
        return cls(mean, torch.where(spread > 0, spread, torch.ones_like(spread)))


@dataclass(frozen=True)
class Inputs:
    """n records as a tensor, and how they are scaled.

    Args:
        raw: bytes (n, c, h, w), numbers (n, d), or ids (n, 2).
        scale: None for ids.
    """

    raw: Tensor = field(repr=False)
    scale: InputScale | None = field(repr=False)

    @classmethod
    def of(cls, features: Any, scale: InputScale | None = None, *, ids: bool = False) -> "Inputs":
        """Check features, and take the given scale or learn one from these records.

        Args:
            features: images, numbers or pairs of ids.
            scale: that of the training records; None to learn one.
            ids: whether pairs of integers are ids, not numbers.

        Raises:
            InputError: the features are of none of the three kinds.
        """
        raw = _tensor(features, ids)
        return cls(raw, scale if scale is not None or _are_ids(raw) else InputScale.of(raw))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one record, as `NETWORKS` take it: (c, h, w), (d,), or the counts of ids."""
        if _are_ids(self.raw):
            return tuple((self.raw.max(dim=0).values + 1).tolist())
        return tuple(self.raw.shape[1:])

    def batch(self, records: Tensor, device: torch.device) -> Tensor:
        """Return some records, scaled, on a device."""
        raw = self.raw[records.to(self.raw.device)].to(device)
        if self.scale is None:
            return raw
        mean, spread = (moment.to(device) for moment in (self.scale.mean, self.scale.spread))
        if raw.ndim == 4:
            numbers = (raw.float() - mean[:, None, None]) / spread[:, None, None]
            return numbers.contiguous(memory_format=torch.channels_last)
        return (raw.float() - mean) / spread

    def fit_into(self, shape: tuple[int, ...]) -> bool:
        """Return whether a network for records of this shape accepts these."""
        if _are_ids(self.raw):
            return len(shape) == 2 and all(size <= limit for size, limit in zip(self.shape, shape, strict=True))
        return self.shape == shape

    @property
    def are_images(self) -> bool:
        """Whether the records are images."""
        return self.raw.ndim == 4

    @property
    def are_ids(self) -> bool:
        """Whether the records are pairs of ids."""
        return _are_ids(self.raw)

    def to(self, device: torch.device) -> "Inputs":
        """Return the same on another device."""
        return Inputs(self.raw.to(device), self.scale)

    def take(self, records: Any) -> "Inputs":
        """Return some of the records."""
        return Inputs(self.raw[torch.as_tensor(np.asarray(records))], self.scale)

    def __len__(self) -> int:
        return len(self.raw)


def _are_ids(raw: Tensor) -> bool:
    return raw.dtype == torch.int64


def _tensor(features: Any, ids: bool) -> Tensor:
    array = np.asarray(features)
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        images = array[:, None] if array.ndim == 3 else np.moveaxis(array, 3, 1)
        if images.shape[1] not in (1, 3):
            raise InputError(f"features must be {SHAPES}; these images have neither one channel nor three, the last")
        return torch.from_numpy(np.require(images, requirements=["C", "W"]))
    if ids:
        if array.ndim != 2 or array.dtype.kind not in "iu" or array.shape[1] != 2 or (array.size and array.min() < 0):
            raise InputError("features must be pairs of ids that are not negative, shape (n, 2)")
        return torch.from_numpy(array.astype(np.int64))
    if array.ndim == 2 and array.dtype.kind in "fiub":
        numbers = array.astype(np.float32)
        if not np.all(np.isfinite(numbers)):
            raise InputError("features must be finite numbers: fill gaps first")
        return torch.from_numpy(numbers)
    hint = "; images of numbers from 0 to 1 become bytes by (255 * images).round().astype('uint8')"
    raise InputError(f"features must be {SHAPES}{hint if array.ndim > 2 else ''}")


def crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """Move each image by up to an eighth of a side each way, and repeat its edge in the gap.

    Args:
        images: shape (n, c, h, w).
    """
    count, _, height, width = images.shape
    reach = height // 8
    padded = functional.pad(images, (reach,) * 4, mode="replicate")
    tops, lefts = (_integers(count, 2 * reach + 1, generator, images.device) for _ in range(2))
    rows = tops[:, None] + torch.arange(height, device=images.device)
    columns = lefts[:, None] + torch.arange(width, device=images.device)
    records = torch.arange(count, device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[records, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each image left to right with probability 1/2."""
    chosen = _integers(len(images), 2, generator, images.device).bool()
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def cutout(images: Tensor, generator: torch.Generator) -> Tensor:
    """Blank a square of half the side, anywhere in each image.

    Source: DeVries and Taylor, Improved Regularization of Convolutional Neural Networks with Cutout (2017).
    """
    count, _, height, width = images.shape
    tops, lefts = (_integers(count, side, generator, images.device)[:, None] for side in (height, width))
    half = height // 4
    rows = (torch.arange(height, device=images.device) - tops).abs() < half
    columns = (torch.arange(width, device=images.device) - lefts).abs() < half
    return images.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


def warp(images: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate each image by up to 15 degrees, scale and shear it by up to 15 percent, and repeat its edge in gaps."""
    angle, size, shear, stretch = (_uniform(len(images), generator, images.device) for _ in range(4))
    angle, scales = 0.26 * angle, (1 + 0.15 * size, (1 + 0.15 * size) * (1 + 0.1 * stretch))
    first = torch.stack([angle.cos() * scales[0], -angle.sin() * scales[1] + 0.15 * shear, torch.zeros_like(angle)], 1)
    second = torch.stack([angle.sin() * scales[0], angle.cos() * scales[1], torch.zeros_like(angle)], 1)
    grid = functional.affine_grid(torch.stack([first, second], dim=1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def zoom(images: Tensor, generator: torch.Generator) -> Tensor:
    """Enlarge a square of 40 to 100 percent of each image, anywhere in it, to the size of the whole.

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
    """Change contrast by up to 40 percent, and brightness by up to 0.4 standard deviations of all pixels."""
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
    """Apply the named augmentations, one after the other."""
    for name in names:
        images = AUGMENTATIONS[name](images, generator)
    return images


def check_names(names: tuple[str, ...]) -> None:
    """Raise InputError if an augmentation is unknown."""
    if not set(names) <= set(AUGMENTATIONS):
        raise InputError(f"augment must hold names out of {', '.join(AUGMENTATIONS)}")


def mixup(inputs: Tensor, alpha: float, generator: torch.Generator) -> tuple[Tensor, Tensor, float]:
    """Mix each input with that of another record of the batch, with one weight drawn from Beta(alpha, alpha).

    Mix the losses like the inputs: weight times that of the record, the rest that of the other one.

    Returns:
        The mixed inputs, the position of each other record, and the weight of the first ones.

    Source: Zhang et al., mixup: Beyond Empirical Risk Minimization (2018).
    """
    seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
    weight = float(np.random.default_rng(seed).beta(alpha, alpha))
    order = torch.randperm(len(inputs), generator=generator, device=generator.device).to(inputs.device)
    return weight * inputs + (1 - weight) * inputs[order], order, weight


def _integers(count: int, end: int, generator: torch.Generator, device: torch.device) -> Tensor:
    return torch.randint(end, (count,), generator=generator, device=generator.device).to(device)


def _uniform(count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    return (2 * torch.rand(count, generator=generator, device=generator.device) - 1).to(device)
