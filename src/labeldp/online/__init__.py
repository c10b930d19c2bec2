"""One round at a time: experts, convex losses, what they cost, and regret."""

from labeldp.online.accounting import (
    batch_lower_bound,
    batching_excess,
    dartboard_loss,
    doubling_regret_bound,
    l2p_loss,
    mw_regret_bound,
    nonprivate_bound,
    softmax_regret_bound,
    theorem_3_2_applies,
    theorem_3_2_epsilon,
)
from labeldp.online.adapter import NamedExperts
from labeldp.online.adversaries import Alternating, Epochs, Gap, LossSequence, Shift, Trap
from labeldp.online.charging import Course
from labeldp.online.convex import Ball, Body, Box, ConvexKernel, Space
from labeldp.online.convex_plan import CONVEX_METHODS, ConvexPlan, plan_convex
from labeldp.online.dartboard import BatchedDartboard, PlainRedraw, ShrinkingDartboard
from labeldp.online.descent import OnlineGradientDescent
from labeldp.online.doubling import DoublingExponential
from labeldp.online.experts import PrivateExperts
from labeldp.online.factor import square_root_norm, toeplitz_factor
from labeldp.online.ftrl import NoisyLeader, convex_rate, convex_regret, linear_rate, linear_regret
from labeldp.online.kernel import Actions, Kernel, Losses
from labeldp.online.l2p import L2P, ExpertMeasure, LazyState, Measure, MultiplicativeWeightsMeasure
from labeldp.online.losses import check_levels, quantize
from labeldp.online.meta import BetterOfTwo
from labeldp.online.noise import ToeplitzSums, toeplitz_stddev
from labeldp.online.planning import METHODS, Alternative, Plan, plan_experts
from labeldp.online.private_convex import PrivateOnlineConvex
from labeldp.online.regret import Blocks, Regret, expected_doubling, expected_softmax, expected_weights, measured_regret
from labeldp.online.regularized import LinearMeasure, RegularizedWeights, regularized_regret
from labeldp.online.sampled import SampledWeights, Sampler
from labeldp.online.snapshots import dump_state, freeze, load_state, thaw
from labeldp.online.softmax import MatrixFactorization, TreeNoise
from labeldp.online.tree import GaussianTree, LaplaceTree
from labeldp.online.weights import MultiplicativeWeights

__all__ = [
    "CONVEX_METHODS",
    "L2P",
    "METHODS",
    "Actions",
    "Alternating",
    "Alternative",
    "Ball",
    "BatchedDartboard",
    "BetterOfTwo",
    "Blocks",
    "Body",
    "Box",
    "ConvexKernel",
    "ConvexPlan",
    "Course",
    "DoublingExponential",
    "Epochs",
    "ExpertMeasure",
    "Gap",
    "GaussianTree",
    "Kernel",
    "LaplaceTree",
    "LazyState",
    "LinearMeasure",
    "LossSequence",
    "Losses",
    "MatrixFactorization",
    "Measure",
    "MultiplicativeWeights",
    "MultiplicativeWeightsMeasure",
    "NamedExperts",
    "NoisyLeader",
    "OnlineGradientDescent",
    "PlainRedraw",
    "Plan",
    "PrivateExperts",
    "PrivateOnlineConvex",
    "Regret",
    "RegularizedWeights",
    "SampledWeights",
    "Sampler",
    "Shift",
    "ShrinkingDartboard",
    "Space",
    "ToeplitzSums",
    "Trap",
    "TreeNoise",
    "batch_lower_bound",
    "batching_excess",
    "check_levels",
    "convex_rate",
    "convex_regret",
    "dartboard_loss",
    "doubling_regret_bound",
    "dump_state",
    "expected_doubling",
    "expected_softmax",
    "expected_weights",
    "freeze",
    "l2p_loss",
    "linear_rate",
    "linear_regret",
    "load_state",
    "measured_regret",
    "mw_regret_bound",
    "nonprivate_bound",
    "plan_convex",
    "plan_experts",
    "quantize",
    "regularized_regret",
    "softmax_regret_bound",
    "square_root_norm",
    "thaw",
    "theorem_3_2_applies",
    "theorem_3_2_epsilon",
    "toeplitz_factor",
    "toeplitz_stddev",
]
