"""What is possible: bounds of the risk that label privacy costs, from above and from below, and hard instances."""

from labeldp.theory.bounds import (
    debiased_gap_bound,
    last_iterate_bound,
    linear_complexity,
    normal_sgd_bound,
    response_sgd_bound,
)
from labeldp.theory.lower import HardInstance, erm_lower_bound, hard_instance, lower_rate, repeated_lower_bound

__all__ = [
    "HardInstance",
    "debiased_gap_bound",
    "erm_lower_bound",
    "hard_instance",
    "last_iterate_bound",
    "linear_complexity",
    "lower_rate",
    "normal_sgd_bound",
    "repeated_lower_bound",
    "response_sgd_bound",
]
