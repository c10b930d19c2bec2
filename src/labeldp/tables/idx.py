"""Files in the format of MNIST (idx, plain or gzip), and KMNIST's archives of the same parts."""

import gzip
import re
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables.archive import array_names, read_array
from labeldp.tables.arrays import ImageData, LabeledArrays, fill, labeled_images, parsed

IMAGES = re.compile(
    r"(?P<set>(?:.+?-)??)(?P<part>(?:(?:train|t10k|test)-)?)(?:images[-.]idx3-ubyte(?:\.gz)?|imgs\.npz)"
)
UNSIGNED_BYTES = 8
GZIP = b"\x1f\x8b"


def image_files(folder: Path) -> list[Path]:
    """The training images of each data set in a folder. A file that is there plain and as .gz counts once."""
    names = {path.name: IMAGES.fullmatch(path.name) for path in folder.iterdir()}
    found = sorted(name for name, parts in names.items() if parts and parts["part"] == "train-")
    return [folder / name for name in found if not (name.endswith(".gz") and name.removesuffix(".gz") in found)]


def open_idx(images: Path) -> ImageData:
    """The data set whose training images are named so; labels and test part lie beside, named alike.

    Images of other names than `train-…` are taken alone with their labels. They are as the file has them: those
    of EMNIST lie on their side.
    """
    name = IMAGES.fullmatch(images.name)
    if name is None:
        raise InputError(f"{images}: a file of MNIST's format is named as train-images-idx3-ubyte.gz, plain or gzip")
    train = _pair(images)
    if name["part"] != "train-":
        return ImageData(train, None)
    tests = (_beside(images, name["set"] + part + images.name[name.end("part") :]) for part in ("t10k-", "test-"))
    test = next((path for path in tests if path), None)
    return ImageData(train, _pair(test) if test else None)


def images_of_idx(images: Path) -> NDArray[Any]:
    """The images of a file, whether labels lie beside it or not."""
    found = _read(images, 3)
    return labeled_images(found, np.zeros(len(found)), images).features


def _pair(images: Path) -> LabeledArrays:
    """Images and the labels beside them."""
    name = re.sub(r"images([-.])idx3(?=-ubyte(\.gz)?$)", r"labels\1idx1", images.name)
    name = re.sub(r"imgs(?=\.npz$)", "labels", name)
    labels = _beside(images, name)
    if labels is None:
        raise InputError(f"the labels of {images} must lie beside it, named {name}")
    return labeled_images(_read(images, 3), _read(labels, 1), images)


def _beside(path: Path, name: str) -> Path | None:
    """The file of that name in the folder of `path`, or the same with .gz or without."""
    plain = name.removesuffix(".gz")
    return next((path.with_name(n) for n in (name, plain, f"{plain}.gz") if path.with_name(n).is_file()), None)


def _read(path: Path, dimensions: int) -> NDArray[Any]:
    if path.suffix == ".npz":
        return read_array(path, next(iter(array_names(path)), "arr_0"))
    needed = f"an idx file of unsigned bytes with {dimensions} dimension{'s' * (dimensions > 1)} is needed"
    return parsed(path, lambda: _read_idx(path, dimensions, needed), needed)


def _read_idx(path: Path, dimensions: int, needed: str) -> NDArray[np.uint8]:
    """The array of an idx file: two zero bytes, type, number of dimensions, their sizes (big end first), values."""
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP
    with cast(BinaryIO, gzip.open(path)) if zipped else path.open("rb") as stream:
        if stream.read(4) != bytes([0, 0, UNSIGNED_BYTES, dimensions]):
            raise InputError(f"{path} does not begin as it should; {needed}")
        sizes = np.frombuffer(stream.read(4 * dimensions), dtype=">u4").tolist()
        if len(sizes) != dimensions or (not zipped and prod(sizes) > path.stat().st_size):
            raise EOFError
        array = np.empty(sizes, dtype=np.uint8)
        fill(stream, array)
    return array
