"""A prior of private numbers from released answers."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betainc, expit, logit

from labeldp.privacy import Floats, Release, gather

MEANS = expit(np.linspace(-7, 7, 57))
CONCENTRATIONS = np.geomspace(1, 30, 10)
"""Beta distributions on the range, from which the prior is mixed, by their mean and by how narrow they are."""

LOGIT_SPREAD = 2.0
"""Before there are answers, the logit of the mean is normal with this standard deviation."""


def number_prior(releases: Sequence[Release[Any]]) -> Release[Floats]:
    """Return how frequent each grid point is, shape (grid,), by released answers: a mixture of beta distributions.

    Each distribution counts as much as the answers are likely under it.

    Args:
        releases: answers of finite mechanisms on one `Interval`, such as `UnbiasedNumbers` and `ResponseOnBins`.

    The certificate holds the charges of all.
    """
    family, score = _family(releases[0].mechanism.domain.size)
    score = score.copy()
    for release in releases:
        law = release.mechanism.matrix()
        counts = np.bincount(release.value, minlength=law.shape[1])
        score += np.log(np.maximum(family @ law, np.finfo(np.float64).tiny)) @ counts
    weights = np.exp(score - score.max())
    mixed = weights @ family
    return gather(releases, lambda *_: np.asarray(mixed / mixed.sum()))


@lru_cache(maxsize=2)
def _family(size: int) -> tuple[Floats, Floats]:
    """Return distributions on a grid, shape (distributions, grid), and logarithms of their weights beforehand."""
    edges = np.clip((np.arange(size + 1) - 0.5) / (size - 1), 0, 1)
    means, narrow = (grid.ravel()[:, None] for grid in np.meshgrid(MEANS, CONCENTRATIONS))
    masses = np.diff(betainc(means * narrow, (1 - means) * narrow, edges), axis=1)
    return np.asarray(masses), -((logit(means[:, 0]) / LOGIT_SPREAD) ** 2) / 2
