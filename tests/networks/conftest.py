"""One thread, and images whose label shows: small, so that a test takes a second."""

import numpy as np
import pytest
import torch

torch.set_num_threads(1)

Images = tuple[np.ndarray, np.ndarray]


def bars(count: int, seed: int, side: int = 12) -> Images:
    """Noisy images of one of four bars, uint8 (n, side, side), and which one, 0 to 3."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    images = rng.integers(0, 90, (count, side, side))
    for which in range(4):
        place = slice(2 + which % 2 * 6, 4 + which % 2 * 6)
        chosen = labels == which
        images[chosen, place, :] += 120 * (which < 2)
        images[chosen, :, place] += 120 * (which >= 2)
    return images.astype(np.uint8), labels


@pytest.fixture(scope="session")
def training() -> Images:
    """600 images."""
    return bars(600, 0)


@pytest.fixture(scope="session")
def test() -> Images:
    """200 more."""
    return bars(200, 1)
