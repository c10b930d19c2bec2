"""Folders of PNG and JPEG images, a folder for each class."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables.arrays import ImageData, LabeledArrays, labeled_images, parsed

SUFFIXES = (".png", ".jpg", ".jpeg")
GRAY = ("1", "L")
COLOR = ("RGB", "RGBA", "P")
NEEDED = "8-bit PNG or JPEG files, gray or RGB, are needed"


def open_image_folder(folder: Path) -> ImageData:
    """Images of `folder/CLASS/…`, or of `folder/train/CLASS/…` and, where it is there, `folder/test/CLASS/…`.

    The name of a class folder is the label of its images, a text. Records are in the order of a digest of their
    pixels: in the order of their folders a row's number would tell its label. Files that are not named as
    images are passed over. Images are gray if all of them are, else RGB.
    """
    train, test = folder / "train", folder / "test"
    if not train.is_dir():
        return ImageData(_part(folder), None)
    return ImageData(_part(train), _part(test) if test.is_dir() else None)


def _part(folder: Path) -> LabeledArrays:
    """The images of all class folders. No message names a file: its path holds the label."""
    files = parsed(folder, lambda: _files(folder), NEEDED)
    if not files:
        raise InputError(
            f"{folder} holds nothing to read: files of MNIST's format, CIFAR's binary version, or folders of PNG or "
            "JPEG images, one for each class, are needed"
        )
    images = [_pixels(file, folder) for file in files]
    if len({image.shape[:2] for image in images}) > 1:
        raise InputError(f"the images in {folder} must all have the same height and width")
    if len({image.ndim for image in images}) > 1:
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    keys = [(hashlib.sha256(image.tobytes()).digest(), file.name) for image, file in zip(images, files, strict=True)]
    if len(set(keys)) < len(keys):
        raise InputError(f"{folder} holds an image twice under one file name; each needs one class, or its own name")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    labels = np.array([files[i].parent.name for i in order])
    return labeled_images(np.stack([images[i] for i in order]), labels, folder)


def _files(folder: Path) -> list[Path]:
    """The image files of all class folders; hidden ones are none."""
    classes = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    files = [file for place in classes for file in place.iterdir() if file.suffix.lower() in SUFFIXES]
    return [file for file in files if file.is_file() and not file.name.startswith(".")]


def _pixels(file: Path, folder: Path) -> NDArray[np.uint8]:
    """One image, shape (height, width) or (height, width, 3)."""

    def read() -> Any:
        from PIL import Image

        with Image.open(file, formats=("PNG", "JPEG")) as image:
            if image.mode not in GRAY + COLOR:
                raise ValueError
            opaque = image.convert("RGBA") if image.mode == "P" else image
            return np.asarray(opaque.convert("L" if image.mode in GRAY else "RGB"))

    size = parsed(folder, lambda: file.stat().st_size, NEEDED)
    return parsed(f"an image of {size} bytes in {folder}", read, NEEDED)
