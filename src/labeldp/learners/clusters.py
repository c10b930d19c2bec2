"""A prior from public features: noisy class counts of clusters."""

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from labeldp.learners.features import check_rows, number_table
from labeldp.learners.probabilities import FLOOR, Probabilities, normalized
from labeldp.mechanisms import LaplaceHistogram
from labeldp.privacy import CuratorLike, InputError, Public, Release, float_within, gather, positive_epsilon

DIMENSIONS = 20
RECORDS_PER_CLUSTER = 50


def cluster_prior(
    features: Any,
    curator: CuratorLike,
    *,
    clusters: int | None = None,
    clusterings: int = 1,
    epsilon: float | None = None,
    rng: Any,
    seed: int = 0,
) -> Release[Probabilities]:
    """Class probabilities for each record from the noisy class counts of its cluster.

    Use it as the `prior` of `fit_multistage` where clusters of the features say much about the label. Its cost
    comes on top of the epsilon of that training, which uses the same labels again. Several clusterings share the
    epsilon: worth it where clusters are large enough for a part of it, as with 400 records and epsilon = 0.3; below,
    one clustering with fewer clusters is better.

    Args:
        features: numbers, shape (n, d), NaN counted as the mean; category codes should be indicators. Or an embedding
            that no private label had a say in, as it is: columns are scaled, which would spoil principal components.
        curator: holds the n labels.
        clusters: how many in each clustering; from n and K by default.
        clusterings: how many, with seeds that follow each other. Their class shares are joined by a geometric mean,
            the best of three rules on made-up records (`docs/results/representations.md`).
        epsilon: spent on all counts together; from n and the number of clusters by default.
        rng: randomness of the noise.
        seed: of the first clustering, public.

    Returns:
        Prior, shape (n, K); uniform in a cluster whose noisy counts show nothing.

    Guarantee: epsilon-DP for each label; clusters depend on the features alone.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit all clusterings; nothing was charged.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 4.
    """
    check_rows(features, curator.records)
    classes = curator.domain.size
    count = default_clusters(curator.records, classes) if clusters is None else clusters
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= curator.records:
        raise InputError("clusters must be an integer from 1 to the number of records")
    if isinstance(clusterings, bool) or not isinstance(clusterings, int | np.integer) or clusterings < 1:
        raise InputError("clusterings must be a positive integer")
    spent = default_epsilon(curator.records, int(count)) if epsilon is None else epsilon
    part = float_within(positive_epsilon(spent) / int(clusterings))
    why = "k-means on the public features, with a public seed"
    plain = (clusters, clusterings, seed) == (None, 1, 0)
    mechanisms = {}
    for each in range(seed, seed + clusterings):
        groups = Public(feature_clusters(features, int(count), each), why=why)
        step = "cluster prior" if plain else f"cluster prior of {count}, seed {each}"
        mechanisms[step] = LaplaceHistogram(domain=curator.domain, epsilon=part, groups=groups)
    curator.require({step: mechanism.privacy_loss() for step, mechanism in mechanisms.items()})
    releases = [curator.release(mechanism, rng=rng, step=step) for step, mechanism in mechanisms.items()]
    places = [release.mechanism.arrays() for release in releases]
    return gather(releases, lambda *counts: _joined([_shares(c)[at] for c, at in zip(counts, places, strict=True)]))


def _shares(counts: NDArray[Any]) -> Probabilities:
    """Class shares of each cluster, shape (clusters, K); uniform where no count is positive."""
    return normalized(np.maximum(counts, 0))


def _joined(shares: list[Probabilities]) -> Probabilities:
    """The geometric mean of several opinions about each record, of which none may exclude a class; one stays as it is.

    Their sum keeps what noise is in each; their product takes opinions of the same labels for independent ones.
    """
    if len(shares) == 1:
        return shares[0]
    logarithms = sum(np.log(np.maximum(each, FLOOR)) for each in shares) / len(shares)
    return normalized(np.exp(logarithms))


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
    table = np.asarray(number_table(features), dtype=np.float64)
    scaled = np.nan_to_num(StandardScaler().fit_transform(table))
    if min(scaled.shape) > DIMENSIONS:
        scaled = PCA(DIMENSIONS, random_state=seed).fit_transform(scaled)
    means = MiniBatchKMeans(clusters, random_state=seed, n_init=3, batch_size=4096)
    return means.fit_predict(scaled).astype(np.int64)
