"""One round at a time: experts, convex losses, what they cost, and regret."""

from labeldp.online.adapter import NamedExperts
from labeldp.online.adversaries import Alternating, Epochs, Gap, LossSequence, Shift, Trap
from labeldp.online.charging import Course
from labeldp.online.dartboard import BatchedDartboard, PlainRedraw, ShrinkingDartboard
from labeldp.online.experts import PrivateExperts
from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.l2p import L2P, LazyState, Measure, MultiplicativeWeightsMeasure
from labeldp.online.losses import check_levels, quantize
from labeldp.online.planning import Plan, plan_experts
from labeldp.online.regret import Regret, expected_doubling, expected_softmax, expected_weights, measured_regret
from labeldp.online.snapshots import dump_state, freeze, load_state, thaw
from labeldp.online.weights import MultiplicativeWeights

__all__ = [
    "L2P",
    "Actions",
    "Alternating",
    "BatchedDartboard",
    "Course",
    "Epochs",
    "Gap",
    "Kernel",
    "LazyState",
    "LossSequence",
    "Losses",
    "Measure",
    "MultiplicativeWeights",
    "MultiplicativeWeightsMeasure",
    "NamedExperts",
    "PlainRedraw",
    "Plan",
    "PrivateExperts",
    "Regret",
    "Shift",
    "ShrinkingDartboard",
    "Trap",
    "check_levels",
    "dump_state",
    "expected_doubling",
    "expected_softmax",
    "expected_weights",
    "freeze",
    "load_state",
    "measured_regret",
    "plan_experts",
    "quantize",
    "thaw",
]
