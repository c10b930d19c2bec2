"""A prior of labels from clusters of the features, for learners in stages."""

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from labeldp.features import check_count, check_rows, number_table
from labeldp.learners.evidence import MIN_PROBABILITY, Probabilities, normalized
from labeldp.learners.model import label_epsilon
from labeldp.learners.plan import CLUSTER_PRIOR
from labeldp.mechanisms import LaplaceHistogram
from labeldp.privacy import (
    CuratorLike,
    Public,
    RandomSource,
    Release,
    check_curator,
    check_integer,
    gather,
    positive_epsilon,
)

CLUSTER_DIMENSIONS = 20
RECORDS_PER_CLUSTER = 50


def cluster_prior(
    features: Any,
    curator: CuratorLike,
    *,
    clusters: int | None = None,
    clusterings: int = 1,
    epsilon: float | None = None,
    rng: RandomSource,
    seed: int = 0,
) -> Release[Probabilities]:
    """Estimate class probabilities for each record from the noisy class counts of its cluster.

    Use it as the `prior` of `fit_multistage` where clusters of the features say much about the label. Its cost
    comes on top of the epsilon of that training, which uses the same labels again. Several clusterings share the
    epsilon: worth it where clusters are large enough for a part of it, as with 400 records and epsilon = 0.3; below,
    one clustering with fewer clusters is better.

    Args:
        features: numbers, shape (n, d), where NaN counts as the mean and category codes should be indicators. Or an
            embedding that no private label influenced, not its principal components: columns are scaled.
        curator: holds the n labels.
        clusters: number of clusters in each clustering; from n and K by default.
        clusterings: number of clusterings, with consecutive seeds. Their class shares are joined by a geometric mean,
            the best of three rules on synthetic records (`docs/results/choice-of-defaults.md`).
        epsilon: cost of all counts together; from n and the number of clusters by default.
        rng: randomness of the noise.
        seed: public seed of the first clustering.

    Returns:
        The prior, shape (n, K); uniform in a cluster whose noisy counts show nothing.

    Guarantee (pure, public_clusters): epsilon-DP for each label; clusters depend on the features alone.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: the budget does not admit all clusterings; nothing was charged.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, Algorithm 4.
    """
    check_curator(curator)
    check_rows(features, curator.records)
    classes = curator.domain.size
    count = default_clusters(curator.records, classes) if clusters is None else clusters
    count = check_count(count, "clusters", curator.records)
    spent = default_epsilon(curator.records, count) if epsilon is None else epsilon
    part = label_epsilon(curator, positive_epsilon(spent) / check_integer(clusterings, "clusterings"))
    why = "k-means on the public features, with a public seed"
    plain = (clusters, clusterings, seed) == (None, 1, 0)
    mechanisms = {}
    for number in range(seed, seed + clusterings):
        groups = Public(feature_clusters(features, count, number), why=why)
        step = CLUSTER_PRIOR if plain else f"{CLUSTER_PRIOR} of {count}, seed {number}"
        mechanisms[step] = LaplaceHistogram(domain=curator.domain, epsilon=part, groups=groups)
    curator.require(mechanisms)
    releases = [curator.release(mechanism, rng=rng, step=step) for step, mechanism in mechanisms.items()]
    assignments = [release.mechanism.arrays() for release in releases]

    def join(*counts: NDArray[Any]) -> Probabilities:
        shares = (normalized(np.maximum(table, 0)) for table in counts)
        return _joined([table[clusters] for table, clusters in zip(shares, assignments, strict=True)])

    return gather(releases, join)


def _joined(shares: list[Probabilities]) -> Probabilities:
    """Return the geometric mean of several class shares of each record, none of which may exclude a class.

    An arithmetic mean would keep the noise of each; a product would treat shares of the same labels as independent.
    """
    if len(shares) == 1:
        return shares[0]
    logarithms = sum(np.log(np.maximum(table, MIN_PROBABILITY)) for table in shares) / len(shares)
    return normalized(np.exp(logarithms))


def default_clusters(records: int, classes: int) -> int:
    """Return a number of clusters: about 50 records in each, at most 100, at least two for each class if possible."""
    return int(np.clip(records // RECORDS_PER_CLUSTER, min(2 * classes, max(records // 10, 1)), 100))


def default_epsilon(records: int, clusters: int) -> float:
    """Return the epsilon at which noise moves a class share of an average cluster by about a tenth.

    It is 25 over the records of the cluster, with two decimals, at least 0.01 and at most 0.2.
    """
    return float(np.clip(ceil(2500 * clusters / records) / 100, 0.01, 0.2))


def feature_clusters(features: Any, clusters: int, seed: int) -> NDArray[np.int64]:
    """Return k-means clusters of scaled features, of their 20 first principal components if more, shape (n,)."""
    table = np.asarray(number_table(features), dtype=np.float64)
    scaled = np.nan_to_num(StandardScaler().fit_transform(table))
    if min(scaled.shape) > CLUSTER_DIMENSIONS:
        scaled = PCA(CLUSTER_DIMENSIONS, random_state=seed).fit_transform(scaled)
    means = MiniBatchKMeans(clusters, random_state=seed, n_init=3, batch_size=4096)
    return means.fit_predict(scaled).astype(np.int64)
