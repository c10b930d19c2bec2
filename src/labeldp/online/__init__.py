"""One round at a time: experts, convex losses, what they cost, and regret."""

from labeldp.online.adversaries import Alternating, Epochs, Gap, LossSequence, Shift, Trap
from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.regret import Regret, expected_doubling, expected_softmax, expected_weights, measured_regret

__all__ = [
    "Actions",
    "Alternating",
    "Epochs",
    "Gap",
    "Kernel",
    "LossSequence",
    "Losses",
    "Regret",
    "Shift",
    "Trap",
    "expected_doubling",
    "expected_softmax",
    "expected_weights",
    "measured_regret",
]
