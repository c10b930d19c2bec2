"""How many dimensions features have in truth: records that follow each other along few directions need fewer cells."""

from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from labeldp.learners.features import column_medians, number_table, positive_integer
from labeldp.privacy import InputError

NEIGHBORS = 20
MOST_RECORDS = 5_000
"""More records are drawn from: what counts is the distance to neighbors, and of more there are nearer ones."""


def intrinsic_dimension(features: Any, *, neighbors: int = NEIGHBORS, seed: int = 0) -> float:
    """How fast the number of records grows with the distance from one of them: r^m in m dimensions.

    Columns are scaled to the same spread, gaps filled with the median, equal rows counted once. In many dimensions the
    estimate is too low, as most records are near an edge: read it as "at least about".

    Args:
        features: public numbers, shape (n, d); of more than 5,000 records so many are drawn.
        neighbors: how far to look.
        seed: of the draw, public.

    Returns:
        A number above 0 and at most d, the columns that are not constant.

    Raises:
        InputError: no numbers, or fewer than three different rows.

    Source: Levina, eq. (8), with the mean taken over the inverses, as MacKay and Ghahramani (2005) advise.
    """
    table = np.asarray(number_table(features), dtype=np.float64)
    most = positive_integer(neighbors, "neighbors")
    if len(table) > MOST_RECORDS:
        table = table[np.random.default_rng(seed).choice(len(table), MOST_RECORDS, replace=False)]
    table = np.where(np.isnan(table), column_medians(table), table)
    table = table[:, np.ptp(table, axis=0) > 0]
    rows = np.unique(table / table.std(axis=0), axis=0)
    if len(rows) < 3:
        raise InputError("features must have at least three different rows")
    count = int(np.clip(most, 2, len(rows) - 1))
    distances, _ = NearestNeighbors(n_neighbors=count).fit(rows).kneighbors()
    inverse = np.mean(np.log(distances[:, -1:] / distances[:, :-1]))
    return float(min(1 / inverse, rows.shape[1])) if inverse > 0 else float(rows.shape[1])
