"""How many bits a randomized label tells about a uniform one: exact sums for every local mechanism on classes."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Floats, InputError, positive_epsilon

MAX_CLASSES = 1 << 16


def response_bits(classes: int, epsilon: Any) -> float:
    """Return the bits of randomized response, which is a partition into groups of one class."""
    return local_hashing_bits(classes, epsilon, classes)


def local_hashing_bits(classes: int, epsilon: Any, groups: int) -> float:
    """Return the mutual information, in bits, of a uniform label and randomized response over a balanced partition.

    Args:
        classes: K, from 2 to 65,536.
        epsilon: privacy parameter, positive.
        groups: g, 2 to K; the first K mod g groups have one class more than the others.

    Raises:
        InputError: numbers out of range.

    Source: WangBlocki, local hashing, on labels.
    """
    _check(classes, groups)
    return float(_local_hashing_bits(classes, float(positive_epsilon(epsilon)), np.array([groups]))[0])


def best_groups(classes: int, epsilon: Any) -> int:
    """Return the number of groups whose answers carry most bits; of equally good ones the largest.

    It is the number of classes above the 65,536 that partitions take.

    Raises:
        InputError: numbers out of range.

    Examples:
        >>> [best_groups(10, epsilon) for epsilon in (0.5, 1, 2, 3)]
        [2, 3, 5, 10]
    """
    if isinstance(classes, int | np.integer) and classes > MAX_CLASSES:
        return int(classes)
    _check(classes, classes)
    groups = np.arange(2, classes + 1)
    bits = _local_hashing_bits(classes, float(positive_epsilon(epsilon)), groups)
    # Sums in doubles are off by about 1e-15 of a bit, and what differs by less is a tie.
    return int(groups[np.flatnonzero(bits >= bits.max() - 1e-13)[-1]])


def best_size(classes: int, epsilon: Any) -> int:
    """Return the number of classes in an answer of subset selection that tells most bits."""
    _check(classes, classes)
    return int(_subset_selection_bits(classes, float(positive_epsilon(epsilon)), np.arange(1, classes)).argmax()) + 1


def _check(classes: Any, groups: Any) -> None:
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or not 2 <= classes <= MAX_CLASSES:
        raise InputError(f"classes must be an integer from 2 to {MAX_CLASSES}")
    if isinstance(groups, bool) or not isinstance(groups, int | np.integer) or not 2 <= groups <= classes:
        raise InputError(f"groups must be an integer from 2 to {classes}, the number of classes")


def _log(values: Any) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values), dtype=np.float64)


def _plogp(chances: Any) -> Floats:
    """Return p log p, 0 for p = 0."""
    return np.asarray(chances * np.log(np.maximum(chances, np.finfo(np.float64).tiny)), dtype=np.float64)


def _local_hashing_bits(classes: int, epsilon: float, groups: NDArray[Any]) -> Floats:
    """Return the bits for each number of groups: the entropy of the answer less that of randomized response."""
    small, more = classes // groups, classes % groups
    total = np.logaddexp(epsilon, _log(groups - 1))
    lie, extra = np.exp(-total), np.exp(-total) * math.expm1(min(epsilon, 700.0))
    large, little = ((size / classes) * extra + lie for size in (small + 1, small))
    answer = -(more * _plogp(large) + (groups - more) * _plogp(little))
    keep = np.exp(epsilon - total)
    noise = -(keep * (epsilon - total) + (groups - 1) * lie * -total)
    return np.asarray((answer - noise) / math.log(2), dtype=np.float64)


def _subset_selection_bits(classes: int, epsilon: float, sizes: NDArray[Any]) -> Floats:
    inside = 1 / (1 + (classes - sizes) / sizes * math.exp(-epsilon))
    outside = 1 - inside
    nats = math.log(classes) + _plogp(inside) + _plogp(outside)
    nats = nats - inside * np.log(sizes) - outside * np.log(classes - sizes)
    return np.asarray(nats / math.log(2), dtype=np.float64)
