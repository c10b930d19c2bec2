"""What a fit reads where records are images: the private source, and another one whose labels are public."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.learners import PatchFilters
from labeldp.mechanisms import Domain
from labeldp.privacy import DomainError, InputError
from labeldp.tables import open_images
from labeldp.workflows.fit_data import OUTSIDE_TEST, PRIVATE_TEST, PrivateRows, same_rows
from labeldp.workflows.fit_settings import FitSettings
from labeldp.workflows.labels import codes_of
from labeldp.workflows.summarize import PublicRows

SMALLEST = 8
"""Pixels a side that the patches of a linear model need."""


@dataclass(frozen=True)
class ImageShape:
    """Which images a model takes: it stands where a table has its encoder.

    Args:
        shape: (height, width), or (height, width, 3) for colors.
    """

    shape: tuple[int, ...]
    names: ClassVar[tuple[str, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        height, width = self.shape[:2]
        return f"{'gray' if len(self.shape) == 2 else 'color'} images of {height} × {width} pixels"

    def require(self, images: NDArray[Any], name: str) -> None:
        """Refuse images of another shape.

        Raises:
            InputError: both shapes.
        """
        if images.shape[1:] != self.shape:
            raise InputError(f"{name} must hold {self}, not {ImageShape(images.shape[1:])}")

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"images": list(self.shape)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ImageShape":
        """The inverse of `to_json`.

        Raises:
            InputError: not such a value.
        """
        shape = value.get("images")
        if not (isinstance(shape, list) and len(shape) in (2, 3) and all(type(size) is int for size in shape)):
            raise InputError("this does not describe images")
        return cls(tuple(shape))


@dataclass(frozen=True)
class ImageRows:
    """The private images, in the order of their source; they have no ids but their numbers.

    Args:
        encoder: their shape.
        features: bytes, shape (n, height, width) or (n, height, width, 3).
        labels: the private ones, shape (n,).
        label: their name.
        domain: what they can be.
    """

    encoder: ImageShape
    features: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    label: str
    domain: Domain
    columns: ClassVar[tuple[str, ...]] = ()
    ids: ClassVar[None] = None
    index: ClassVar[tuple[str, ...]] = ()
    keeps_index: ClassVar[bool] = False

    @cached_property
    def codes(self) -> NDArray[Any]:
        """The codes of the private labels, shape (n,), as `PrivateRows.codes`."""
        return _codes(self.labels, self.label, self.domain)

    @classmethod
    def read(cls, data: str, settings: FitSettings) -> "ImageRows":
        """Read a whole source and check all but the labels: what is wrong is refused here, and nothing was charged.

        Raises:
            InputError: an option for tables, or images that are not as they should be.
        """
        if settings.features or settings.id_column:
            raise InputError("--features and --id are for tables: images have no columns and are told apart by number")
        part = open_images(data, label=settings.label).train
        return cls(ImageShape(part.shape[1:]), part.features, part.labels, settings.label, settings.domain)

    def representation(self) -> PatchFilters:
        """What makes linear features of such images.

        Raises:
            InputError: they are too small, too few, or not square.
        """
        (height, width), channels = self.encoder.shape[:2], (*self.encoder.shape, 1)[2]
        if height != width or height < SMALLEST:
            raise InputError(
                f"linear features need square images of at least {SMALLEST} pixels a side; these are {self.encoder}"
            )
        filters = PatchFilters(side=height, channels=channels)
        least = -(-filters.filters // (height - filters.patch + 1) ** 2)
        if len(self.features) < least:
            raise InputError(f"linear features of {self.encoder} need at least {least} of them")
        return filters


Rows = PrivateRows | ImageRows


def public_images(path: str, data: str, settings: FitSettings, private: ImageRows) -> PublicRows:
    """The test part of a source, or all of it where it has none: its labels are public, and never trained on.

    Raises:
        InputError: it holds the private images, or others than the model takes.
    """
    found = open_images(path, label=settings.label)
    part, name = found.test or found.train, Path(path).name
    private.encoder.require(part.features, f"--test: {path}")
    if (found.test is None and os.path.samefile(path, data)) or same_rows(part.features, private.features):
        raise InputError(PRIVATE_TEST.format(path))
    try:
        codes = _codes(part.labels, settings.label, settings.domain)
    except DomainError:
        raise InputError(OUTSIDE_TEST.format(path, settings.domain)) from None
    return PublicRows(f"{name} (test part)" if found.test else name, part.features, codes)


def _codes(labels: NDArray[Any], name: str, domain: Domain) -> NDArray[Any]:
    """The codes of an array of labels, read as a table's column would be, shape (n,)."""
    plain = labels.astype(np.float64) if labels.dtype.kind == "f" else labels
    return codes_of(pa.RecordBatch.from_arrays([pa.array(plain)], names=[name]), name, domain)
