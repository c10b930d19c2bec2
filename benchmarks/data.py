"""Data sets of the benchmarks, as (features, labels, test features, test labels).

They are looked for in the folder LABELDP_DATA, by default ../shared/data, and read by the loaders of the library. The
CIFAR subsets are stored as wrapped differences, which no public format knows; they are undone here.
"""

import os
from pathlib import Path

import numpy as np

from labeldp.images import open_images

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[2] / "shared" / "data"))
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def mnist() -> Parts:
    """60,000 and 10,000 digits, (n, 28, 28) uint8."""
    return images("mnist")


def fashion_mnist() -> Parts:
    """60,000 and 10,000 pieces of clothing, (n, 28, 28) uint8."""
    return images("fashion_mnist")


def cifar10_subset() -> Parts:
    """15,000 and 3,000 images of ten classes, (n, 32, 32, 3) uint8: not comparable with the full CIFAR-10."""
    return subset("cifar10_subset")


def cifar10() -> Parts:
    """50,000 and 8,865 images of ten classes, (n, 32, 32, 3) uint8, nearly all; the split is not the official one."""
    return subset("cifar10")


def cifar100_subset() -> Parts:
    """10,000 and 2,000 images of a hundred classes, (n, 32, 32, 3) uint8; the split is not the official one."""
    return subset("cifar100_subset")


def movielens(seed: int = 0) -> Parts:
    """MovieLens-1M: codes of user and movie, (n, 2), and stars from 1 to 5; a fifth of the ratings is the test part."""
    from papers.ratings import load_movielens  # with the checkout on PYTHONPATH

    data = load_movielens(DATA / "movielens_1m", seed=seed)
    return data.train.features, data.train.labels, data.test.features, data.test.labels


def images(folder: str) -> Parts:
    """A folder that the library reads and that brings a test part."""
    data = open_images(DATA / folder)
    assert data.test is not None
    return data.train.features, data.train.labels, data.test.features, data.test.labels


def subset(name: str) -> Parts:
    """One of the CIFAR subsets."""
    with np.load(DATA / name / f"{name}.npz", allow_pickle=False) as stored:
        train, test = (undone(stored[f"{part}_r"]) for part in ("train", "test"))
        return train, stored["train_y"], test, stored["test_y"]


def undone(differences: np.ndarray) -> np.ndarray:
    """Images (n, 32, 32, 3) of the planes R - G, G, B - G, each stored as differences along rows and columns."""
    planes = np.cumsum(np.cumsum(differences, 2, dtype=np.uint8), 3, dtype=np.uint8)
    return np.stack([planes[0] + planes[1], planes[1], planes[2] + planes[1]], axis=-1)
