"""Private labels beside arrays of public features, and the refusals that every loader of such files shares."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError

Result = TypeVar("Result")
CHUNK_BYTES = 1 << 20
IMAGE_SHAPES = "shape (n, height, width) or (n, height, width, 3), at least one image"


@final
@dataclass(frozen=True, eq=False)
class LabeledArrays:
    """Features and labels of the same records in the same order.

    Fields:
        features: public, one row or image for each record, shape (n, ...).
        labels: private, as the file gives them, shape (n,). No repr shows them.
    """

    features: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the features."""
        return self.features.shape

    def __repr__(self) -> str:
        return f"LabeledArrays(features of shape {self.shape}, labels private)"


@final
@dataclass(frozen=True)
class ImageData:
    """What `open_images` found.

    Fields:
        train: images, uint8, shape (n, height, width) or (n, height, width, 3), with their labels.
        test: the same of the test part, or None where the source brings none. Its labels are as private
            as the others until somebody says that they are public.
    """

    train: LabeledArrays
    test: LabeledArrays | None


def labeled_images(features: NDArray[Any], labels: NDArray[Any], source: Path) -> LabeledArrays:
    """Images and labels that were read from `source`, checked.

    Integers from 0 to 255 become uint8, and a single channel, shape (n, height, width, 1), is taken off. Floats are
    refused: their scale would be a guess.
    """
    if features.ndim == 4 and features.shape[3] == 1:
        features = features[..., 0]
    if not (features.ndim == 3 or (features.ndim == 4 and features.shape[3] == 3)) or 0 in features.shape:
        raise InputError(f"{source}: images must be of {IMAGE_SHAPES}; these are of shape {features.shape}")
    return LabeledArrays(_bytes(features, source), _one_each(labels, len(features), source))


def _bytes(pixels: NDArray[Any], source: Path) -> NDArray[np.uint8]:
    if pixels.dtype.kind not in "iu" or (pixels.dtype != np.uint8 and (pixels.min() < 0 or pixels.max() > 255)):
        example = "for floats from 0 to 1 that is (255 * images).round().astype('uint8')"
        raise InputError(f"{source}: images must be integers from 0 to 255, best as uint8; {example}")
    return np.ascontiguousarray(pixels, dtype=np.uint8)


def _one_each(labels: NDArray[Any], count: int, source: Path) -> NDArray[Any]:
    if labels.shape not in ((count,), (count, 1)):
        raise InputError(f"{source}: labels must be one for each of the {count} images, shape (n,)")
    if labels.dtype.kind not in "biufU":
        raise InputError(f"{source}: labels must be numbers or texts")
    return labels.reshape(count).astype(labels.dtype.newbyteorder("="), copy=False)


def parsed(what: object, action: Callable[[], Result], needed: str) -> Result:
    """The result of `action`, which reads `what`; whatever a parser complains about is told without its words."""
    try:
        return action()
    except InputError:
        raise
    except OSError as error:
        problem = f"cannot be read: {error.strerror}" if error.errno else None
    except Exception:
        problem = None  # parsers of damaged files raise nearly everything, and quote what they choked on
    raise InputError(f"{what} {problem or f'is damaged, truncated or too large for the memory; {needed}'}")


def fill(stream: BinaryIO, array: NDArray[np.uint8]) -> None:
    """Fill a contiguous array with the rest of a stream, which must be exactly as long: no second copy is held."""
    flat = array.reshape(-1).data
    for start in range(0, len(flat), CHUNK_BYTES):
        part = flat[start : start + CHUNK_BYTES]
        part[:] = stream.read(len(part))
    if stream.read(1):
        raise EOFError
