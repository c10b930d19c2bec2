"""CIFAR-10 and CIFAR-100 in their binary version."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError
from labeldp.tables.arrays import ImageData, LabeledArrays, fill, labeled_images, parsed

SIDE = 32
PIXELS = 3 * SIDE * SIDE
LABELS_10 = ("labels",)
LABELS_100 = ("coarse_labels", "labels")
"""The label bytes that stand before the pixels of a record; the fine labels are the usual ones."""


def batches(folder: Path) -> list[Path]:
    """The training files of a folder with CIFAR, in order; of the Python version one stands for all."""
    names = [path for path in folder.iterdir() if re.fullmatch(r"data_batch_\d+\.bin|train\.bin", path.name)]
    pickles = [path for name in ("data_batch_1", "train") if (path := folder / name).is_file()]
    return sorted(names, key=lambda path: (len(path.name), path.name)) or pickles


def open_cifar(folder: Path, label: str) -> ImageData:
    """Images and labels of a folder with data_batch_1.bin and so on (CIFAR-10), or train.bin (CIFAR-100).

    The Python version is refused: it consists of pickles, and reading one may run any code.
    """
    train = batches(folder)
    if not train[0].suffix:
        raise InputError(
            f"{folder} holds CIFAR's Python version, pickles that may run code when they are read; "
            "get the binary version, whose files end in .bin"
        )
    if len({path.name == "train.bin" for path in train}) > 1:
        raise InputError(f"{folder} holds CIFAR-10 and CIFAR-100; keep each in a folder of its own")
    of_100 = train[0].name == "train.bin"
    columns = LABELS_100 if of_100 else LABELS_10
    if label not in columns:
        raise InputError(f"label must be {' or '.join(map(repr, columns))} for {folder}")
    test = folder / ("test.bin" if of_100 else "test_batch.bin")
    place = (columns.index(label), len(columns))
    return ImageData(_part(train, *place), _part([test], *place) if test.is_file() else None)


def _part(files: Sequence[Path], column: int, columns: int) -> LabeledArrays:
    """The records of some files, whose labels stand in one of the first columns."""
    needed = f"a file of records of {columns + PIXELS} bytes is needed"
    records = [parsed(path, partial(_records, path, columns + PIXELS), needed) for path in files]
    count = sum(map(len, records))
    images = np.empty((count, SIDE, SIDE, 3), dtype=np.uint8)
    start = 0
    for part in records:
        planes = part[:, columns:].reshape(-1, 3, SIDE, SIDE)
        images[start : start + len(part)] = planes.transpose(0, 2, 3, 1)
        start += len(part)
    return labeled_images(images, np.concatenate([part[:, column] for part in records]), files[0].parent)


def _records(path: Path, length: int) -> NDArray[np.uint8]:
    size = path.stat().st_size
    if size % length:
        raise EOFError
    records = np.empty((size // length, length), dtype=np.uint8)
    with path.open("rb") as file:
        fill(file, records)
    return records
