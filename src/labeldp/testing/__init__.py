"""The public contract of a mechanism: what `check_mechanism` checks, every mechanism keeps.

Use it on your own mechanisms too. It needs no labels and no data.
"""

from labeldp.mechanisms import joint_laws
from labeldp.testing.contract import check_mechanism, check_release, check_sampler
from labeldp.testing.laws import ContractViolation, sample_size

__all__ = [
    "ContractViolation",
    "check_mechanism",
    "check_release",
    "check_sampler",
    "joint_laws",
    "sample_size",
]
