"""Tiny files of every format that images come in."""

import gzip
from pathlib import Path

import numpy as np
from PIL import Image

SECRET = "hiv-positive"
CODE = 231
"""A label that no size below contains."""

rng = np.random.default_rng(7)
GRAY = rng.integers(0, 256, (6, 4, 5), dtype=np.uint8)
COLOR = rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
CODES = np.array([CODE, 0, 7, 7, CODE, 1], dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    """An array of bytes in MNIST's format."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


def mnist(folder: Path, prefix: str = "", *, dot: bool = False, zipped: bool = True, test: str = "t10k") -> Path:
    """A folder of four files; the test part is the first two training records."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 6), (test, 2)):
        for kind, array in (("images-idx3", GRAY[:n]), ("labels-idx1", CODES[:n])):
            name = f"{prefix}{part}-{kind.replace('-', '.') if dot else kind}-ubyte"
            content = idx(array)
            (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(content) if zipped else content)
    return folder


def cifar(folder: Path, columns: int = 1) -> Path:
    """A folder of CIFAR-10 (one label byte) or CIFAR-100 (two, the coarse one is zero)."""
    folder.mkdir(parents=True, exist_ok=True)
    coarse = np.zeros((6, columns - 1), dtype=np.uint8)
    records = np.hstack([coarse, CODES[:, None], COLOR.transpose(0, 3, 1, 2).reshape(6, -1)])
    parts = {"data_batch_1": records[:4], "data_batch_10": records[5:], "data_batch_2": records[4:5]}
    parts = {**parts, "test_batch": records[:2]} if columns == 1 else {"train": records, "test": records[:2]}
    for name, part in parts.items():
        (folder / f"{name}.bin").write_bytes(part.tobytes())
    return folder


def class_folders(folder: Path, images: np.ndarray = GRAY, labels: np.ndarray = CODES, suffix: str = ".png") -> Path:
    """A folder for each class, named `SECRET` and the code."""
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        (folder / f"{SECRET}-{label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{SECRET}-{label}" / f"{place}{suffix}")
    return folder


def archive(path: Path, **arrays: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    return path
