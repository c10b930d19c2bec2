"""One round at a time: experts, convex losses, what they cost, and regret."""

from labeldp.online.adversaries import Alternating, Epochs, Gap, LossSequence, Shift, Trap
from labeldp.online.dartboard import BatchedDartboard, PlainRedraw, ShrinkingDartboard
from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.l2p import L2P, LazyState, Measure, MultiplicativeWeightsMeasure
from labeldp.online.losses import check_levels, quantize
from labeldp.online.regret import Regret, expected_doubling, expected_softmax, expected_weights, measured_regret
from labeldp.online.weights import MultiplicativeWeights

__all__ = [
    "L2P",
    "Actions",
    "Alternating",
    "BatchedDartboard",
    "Epochs",
    "Gap",
    "Kernel",
    "LazyState",
    "LossSequence",
    "Losses",
    "Measure",
    "MultiplicativeWeights",
    "MultiplicativeWeightsMeasure",
    "PlainRedraw",
    "Regret",
    "Shift",
    "ShrinkingDartboard",
    "Trap",
    "check_levels",
    "expected_doubling",
    "expected_softmax",
    "expected_weights",
    "measured_regret",
    "quantize",
]
