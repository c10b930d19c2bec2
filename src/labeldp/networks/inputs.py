"""Features as a network takes them: images, numbers, or pairs of ids."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeldp.privacy import InputError

SHAPES = "images of bytes, shape (n, h, w) or (n, h, w, 3), numbers, shape (n, d), or pairs of ids, shape (n, 2)"


@dataclass(frozen=True)
class Scale:
    """What turns raw inputs into numbers of mean 0 and variance 1, learned from features: by channel or column."""

    mean: Any = field(repr=False)
    spread: Any = field(repr=False)

    @classmethod
    def of(cls, raw: Tensor) -> "Scale":
        """Of images: one number a channel. Of numbers: one a column."""
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
    scale: Scale | None = field(repr=False)

    @classmethod
    def of(cls, features: Any, scale: Scale | None = None, *, ids: bool = False) -> "Inputs":
        """Checked; scaled as given, or by these records themselves.

        Args:
            ids: whether pairs of integers are ids, not numbers.

        Raises:
            InputError: none of the three kinds.
        """
        raw = _tensor(features, ids)
        return cls(raw, scale if scale is not None or _are_ids(raw) else Scale.of(raw))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one record, as `NETWORKS` take it: (c, h, w), (d,), or the counts of ids."""
        if _are_ids(self.raw):
            return tuple((self.raw.max(dim=0).values + 1).tolist())
        return tuple(self.raw.shape[1:])

    def batch(self, records: Tensor, device: torch.device) -> Tensor:
        """Some records, scaled, on a device."""
        raw = self.raw[records.to(self.raw.device)].to(device)
        if self.scale is None:
            return raw
        mean, spread = (each.to(device) for each in (self.scale.mean, self.scale.spread))
        if raw.ndim == 4:
            numbers = (raw.float() - mean[:, None, None]) / spread[:, None, None]
            return numbers.contiguous(memory_format=torch.channels_last)
        return (raw.float() - mean) / spread

    def fit_into(self, shape: tuple[int, ...]) -> bool:
        """Whether a network for records of that shape takes these."""
        if _are_ids(self.raw):
            return len(shape) == 2 and all(own <= most for own, most in zip(self.shape, shape, strict=True))
        return self.shape == shape

    @property
    def are_images(self) -> bool:
        """Whether they can be cropped, flipped and warped."""
        return self.raw.ndim == 4

    @property
    def are_ids(self) -> bool:
        """Whether they are pairs of ids."""
        return _are_ids(self.raw)

    def to(self, device: torch.device) -> "Inputs":
        """The same on another device."""
        return Inputs(self.raw.to(device), self.scale)

    def take(self, records: Any) -> "Inputs":
        """Some of the records."""
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
