"""Open labeled images by what a file or folder holds."""

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables.archive import images_of_archive, open_archive
from labeldp.tables.arrays import ImageData, parsed
from labeldp.tables.cifar import batches, open_cifar
from labeldp.tables.idx import IMAGES, image_files, images_of_idx, open_idx
from labeldp.tables.imagefolder import open_image_folder

NEEDED = (
    "a NumPy archive (.npz), files of MNIST's format, CIFAR's binary version, or a folder of images for each class, "
    "is needed"
)


def open_images(path: str | os.PathLike[str], *, label: str = "labels") -> ImageData:
    """Read images and their private labels from files of the user's own; nothing is downloaded.

    | path | is read as |
    |---|---|
    | `file.npz` | array `images`, `X` or `x`, and the array `label`; alone, or `train_…` and `test_…` |
    | a folder with `train-images-idx3-ubyte.gz` | MNIST's format, plain or gzip, with the test part `t10k-…` |
    | one such file of images | the same, where a folder holds several data sets: `emnist-letters-train-…` |
    | a folder with `kmnist-train-imgs.npz` | KMNIST's archives, with the test part |
    | a folder with `data_batch_1.bin` or `train.bin` | CIFAR-10 or CIFAR-100, binary version, with the test part |
    | a folder of folders | PNG and JPEG images: `CLASS/…`, or `train/CLASS/…` and `test/CLASS/…` |

    Args:
        path: a file or a folder.
        label: which labels, where a source has several: an array of an archive, or `coarse_labels` of CIFAR-100.
            All other sources have `labels` only.

    Returns:
        Images as uint8, gray (n, height, width) or colored (n, height, width, 3), and the labels as the files have
        them: numbers, or the names of the class folders.

    Guarantee:
        Records of an image folder come in an order that depends on their pixels and file names alone. No
        pickle is loaded.

    Raises:
        InputError: nothing that can be read, damaged or ambiguous files, images that are not integers from 0 to 255 or
            not of one size, labels that are not one for each image. No message holds a label or the name of a
            class folder.

    Example:
        >>> import tempfile, numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/made.npz", images=np.zeros((2, 8, 8), dtype=np.uint8), labels=["cat", "dog"])
        ...     open_images(f"{folder}/made.npz")
        ImageData(train=LabeledArrays(features of shape (2, 8, 8), labels private), test=None)
    """
    data = _opened(Path(path), label)
    if data.test and data.test.shape[1:] != data.train.shape[1:]:
        shapes = f"{data.train.shape[1:]} and {data.test.shape[1:]}"
        raise InputError(f"{path}: training and test images must have one shape; they have {shapes}")
    return data


def open_unlabeled_images(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read the images of a source of which `open_images` would read labels as well; here it needs none.

    Args:
        path: an .npz file with one array of images, a file of MNIST's format, or a folder, of which the training
            part is taken.

    Returns:
        Images as `open_images` returns them.

    Raises:
        InputError: as of `open_images`.
    """
    place = Path(path)
    if place.is_file() and IMAGES.fullmatch(place.name):
        return images_of_idx(place)
    if place.is_file() and place.suffix.lower() == ".npz":
        return images_of_archive(place)
    return open_images(path).train.features


def names_images(path: str | os.PathLike[str]) -> bool:
    """Whether a path is one for `open_images`, and not that of a table: a folder, or named as a file of images."""
    place = Path(path)
    return place.is_dir() or place.suffix.lower() == ".npz" or bool(IMAGES.fullmatch(place.name))


def _opened(place: Path, label: str) -> ImageData:
    if parsed(place, place.is_dir, NEEDED):
        return _open_folder(place, label)
    if not place.is_file():
        raise InputError(f"no such file or folder: {place}; {NEEDED}")
    if IMAGES.fullmatch(place.name):
        _require_only(label, place)
        return open_idx(place)
    if place.suffix.lower() == ".npz":
        return open_archive(place, label)
    raise InputError(f"{place} is not named as a file of images; {NEEDED}")


def _open_folder(folder: Path, label: str) -> ImageData:
    if parsed(folder, lambda: batches(folder), NEEDED):
        return open_cifar(folder, label)
    _require_only(label, folder)
    sets = image_files(folder)
    if len(sets) > 1:
        raise InputError(f"{folder} holds several data sets: name one of {', '.join(path.name for path in sets)}")
    return open_idx(sets[0]) if sets else open_image_folder(folder)


def _require_only(label: str, path: Path) -> None:
    if label != "labels":
        raise InputError(f"label must be 'labels' for {path}: it has no other labels")
