"""NumPy archives (.npz), read without ever running a pickle."""

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables.arrays import ImageData, LabeledArrays, labeled_images, parsed

IMAGES = ("images", "X", "x")
TRAIN = ("{}", "train_{}", "{}_train")
TEST = ("test_{}", "{}_test")
NEEDED = "a NumPy archive (.npz) of plain arrays, as numpy.savez writes it, is needed"
SHOWN = 12
OBJECTS = "{path}: {name!r} are Python objects, which are not read: save labels with .astype(str)"


def open_archive(path: Path, label: str) -> ImageData:
    """Images and labels of an .npz file.

    Images are the array `images`, `X` or `x`, labels the one named `label`; both may carry `train_` before or
    `_train` behind. A test part is read where the archive has one, with `test` in the same places.
    """
    train = _part(path, label, TRAIN)
    if train is None:
        raise _unclear(path, label)
    return ImageData(train, _part(path, label, TEST))


def _part(path: Path, label: str, forms: tuple[str, ...]) -> LabeledArrays | None:
    """The part whose names have one of the forms; None where there is none, refused where there is not one of each."""
    names = array_names(path)
    wanted = [form.format(name) for name in IMAGES for form in forms if name != label]
    images = [name for name in wanted if name in names]
    labels = [name for name in (form.format(label) for form in forms) if name in names]
    if not images and not labels:
        return None
    if (len(images), len(labels)) != (1, 1):
        raise _unclear(path, label)
    return labeled_images(read_array(path, images[0]), read_array(path, labels[0]), path)


def images_of_archive(path: Path) -> NDArray[Any]:
    """The images of an .npz file, whether it has labels or not."""
    names = array_names(path)
    wanted = [form.format(name) for name in IMAGES for form in (*TRAIN, *TEST)]
    found = [name for name in wanted if name in names]
    if len(found) != 1:
        raise InputError(
            f"{path} must have one array of images, named {' or '.join(IMAGES)}; it has {', '.join(found) or 'none'}"
        )
    images = read_array(path, found[0])
    return labeled_images(images, np.zeros(len(images)), path).features


def _unclear(path: Path, label: str) -> InputError:
    names = array_names(path)
    shown = ", ".join(map(repr, names[:SHOWN])) or "none"
    return InputError(
        f"{path} must have one array of images, named {' or '.join(IMAGES)}, and one of labels, named {label!r}, or "
        f"both as train_… and test_…; it has {shown}{f' and {len(names) - SHOWN} more' if len(names) > SHOWN else ''}"
    )


def array_names(path: Path) -> list[str]:
    """The names of the arrays in an archive."""

    def names() -> list[str]:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]

    return parsed(path, names, NEEDED)


def _dtype(stream: IO[bytes]) -> np.dtype[Any]:
    """What an array holds, by its header alone."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)[2]


def read_array(path: Path, name: str) -> NDArray[Any]:
    """One array of an archive; arrays of Python objects are refused, they would be pickles."""

    def read() -> NDArray[Any]:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
            if _dtype(stream).hasobject:
                raise InputError(OBJECTS.format(path=path, name=name))
            stream.seek(0)
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):  # the checksum is looked at when the end is reached
                raise EOFError
            return array

    return parsed(path, read, NEEDED)
