"""The network of the paper on bags, trained as its appendix says, and what it predicts."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.networks.bags import appendix_network, train_bags
from labeldp.privacy import Release


def appendix_predictions(
    features: Any, release: Release[Any], test: Any, *, seed: int, **training: Any
) -> NDArray[np.float64]:
    """What a network of 128, 64 and 1 neurons learns from released bags, on test records, shape (t,).

    Args:
        features: public, shape (n, d).
        release: of `BagSum` or `NoisyWeightedLLP`.
        test: shape (t, d).
        seed: of weights, order and held-out bags: public.
        training: as in `train_bags`.

    Source: Brahmbhatt, Appendix K.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = appendix_network(features.shape[1])
    for _ in train_bags(module, features, release, seed=seed, **training):
        pass
    module.eval()
    with torch.no_grad():
        parts = torch.as_tensor(np.asarray(test), dtype=torch.float32).split(1 << 16)
        found = torch.cat([module(part).reshape(-1) for part in parts])
    return np.asarray(found.numpy(), dtype=np.float64)
