"""What sums over bags of labels reveal: exact curves, and each direction of the inverse."""

from labeldp.mechanisms.aggregation.lba import HiddenBag, cross_bound, lba_delta, lba_required_residual
from labeldp.mechanisms.aggregation.linear import linear_release_gdp
from labeldp.mechanisms.aggregation.llp import NoisyBags, llp_calibrate, llp_delta, llp_epsilon

__all__ = [
    "HiddenBag",
    "NoisyBags",
    "cross_bound",
    "lba_delta",
    "lba_required_residual",
    "linear_release_gdp",
    "llp_calibrate",
    "llp_delta",
    "llp_epsilon",
]
