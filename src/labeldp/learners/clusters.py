"""A prior from public features: noisy class counts of clusters."""

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from labeldp.learners.features import MIXED, check_rows
from labeldp.learners.probabilities import Probabilities, normalized
from labeldp.mechanisms import LaplaceHistogram
from labeldp.privacy import CuratorLike, InputError, Public, Release

DIMENSIONS = 20
RECORDS_PER_CLUSTER = 50


def cluster_prior(
    features: Any,
    curator: CuratorLike,
    *,
    clusters: int | None = None,
    epsilon: float | None = None,
    rng: Any,
    seed: int = 0,
) -> Release[Probabilities]:
    """Class probabilities for each record from the noisy class counts of its cluster.

    Use it as the `prior` of `fit_multistage` where clusters of the features say much about the label. Its cost
    comes on top of the epsilon of that training, which uses the same labels again.

    Args:
        features: numbers, shape (n, d), NaN counted as the mean; category codes should be indicators.
        curator: holds the n labels.
        clusters: how many; from n and K by default.
        epsilon: spent on the counts; from n and the number of clusters by default.
        rng: randomness of the noise.
        seed: of the clustering, public.

    Returns:
        Prior, shape (n, K); uniform in a cluster whose noisy counts show nothing.

    Guarantee: epsilon-DP for each label; clusters depend on the features alone.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 4.
    """
    check_rows(features, curator.records)
    classes = curator.domain.size
    count = default_clusters(curator.records, classes) if clusters is None else clusters
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= curator.records:
        raise InputError("clusters must be an integer from 1 to the number of records")
    spent = default_epsilon(curator.records, int(count)) if epsilon is None else epsilon
    groups = feature_clusters(features, int(count), seed)
    why = "k-means on the public features, with a public seed"
    mechanism = LaplaceHistogram(domain=curator.domain, epsilon=spent, groups=Public(groups, why=why))
    step = "cluster prior" if (clusters, seed) == (None, 0) else f"cluster prior of {count}, seed {seed}"
    release = curator.release(mechanism, rng=rng, step=step)
    stored = release.mechanism.arrays()
    return release.map(lambda counts: normalized(np.maximum(counts, 0))[stored])


def default_clusters(records: int, classes: int) -> int:
    """How many clusters: about 50 records in each, at most 100, at least two for each class where n allows."""
    return int(np.clip(records // RECORDS_PER_CLUSTER, min(2 * classes, max(records // 10, 1)), 100))


def default_epsilon(records: int, clusters: int) -> float:
    """The epsilon at which noise moves a class share of an average cluster by about a tenth: 25 over its records.

    Two decimals, at least 0.01 and at most 0.2.
    """
    return float(np.clip(ceil(2500 * clusters / records) / 100, 0.01, 0.2))


def feature_clusters(features: Any, clusters: int, seed: int) -> NDArray[np.int64]:
    """k-means clusters 0 to clusters - 1 of scaled features, at most 20 principal components, shape (n,)."""
    try:
        table = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"features must be numbers, categories as indicators: {MIXED}") from None
    if table.ndim != 2 or np.any(np.isinf(table)):
        raise InputError("features must be a finite array of numbers, shape (n, d)")
    scaled = np.nan_to_num(StandardScaler().fit_transform(table))
    if min(scaled.shape) > DIMENSIONS:
        scaled = PCA(DIMENSIONS, random_state=seed).fit_transform(scaled)
    means = MiniBatchKMeans(clusters, random_state=seed, n_init=3, batch_size=4096)
    return means.fit_predict(scaled).astype(np.int64)
