"""What Ghazi et al. print in their Tables 1 to 5 of their own methods."""

from math import inf

_EPSILONS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, inf)


def _row(*figures: float, at: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, inf)) -> dict[float, float]:
    """Return figures by epsilon; the last one of five is without privacy."""
    return dict(zip(at, figures, strict=False))


PRINTED: dict[str, dict[str, dict[float, float]]] = {
    "cifar10": {
        "lp-1st": _row(59.96, 82.38, 89.89, 92.58, 93.58, 94.70, 94.96, at=_EPSILONS),
        "lp-2st": _row(63.67, 86.05, 92.19, 93.37, 94.26, 94.52, at=_EPSILONS),
    },
    "cifar100": {
        "lp-1st": _row(20.96, 46.28, 61.38, 68.34, 73.59, at=(3.0, 4.0, 5.0, 6.0, 8.0)),
        "lp-2st": _row(28.74, 50.15, 63.51, 70.58, 74.14, at=(3.0, 4.0, 5.0, 6.0, 8.0)),
    },
    "movielens": {
        "lp-1st": _row(1.122, 0.981, 0.902, 0.877, 0.867, 0.868, at=(1.0, 2.0, 3.0, 4.0, 8.0, inf)),
        "lp-2st": _row(1.034, 0.928, 0.891, 0.874, 0.865, at=(1.0, 2.0, 3.0, 4.0, 8.0)),
    },
    "mnist": {"lp-1st": _row(95.34, 98.16, 98.81, 99.08, 99.33), "lp-2st": _row(95.82, 98.78, 99.14, 99.24)},
    "fashion_mnist": {"lp-1st": _row(80.78, 90.18, 92.52, 93.50, 94.28), "lp-2st": _row(83.26, 91.24, 93.18, 94.10)},
    "kmnist": {"lp-1st": _row(76.56, 92.04, 95.86, 96.86, 98.33), "lp-2st": _row(81.26, 93.72, 97.19, 97.83)},
}
"""By data set, method and epsilon: test accuracy in percent, RMSE of movielens; infinity is without privacy.

Tables 1 (without outside data), 2, 3, 4 and 5. Networks and recipes were chosen for every epsilon on true labels.

Source: Ghazi, Tables 1 to 5.
"""

UNPROTECTED = 1000.0
"""The largest epsilon of the library: no label is changed, which stands for training without privacy."""
