"""Is the promise kept: exact privacy of tables of probabilities, and lower bounds from outputs alone."""

from labeldp.audit.additive import AdditiveAudit, audit_additive
from labeldp.audit.black_box import LowerBound, audit_outputs, audit_sampler
from labeldp.audit.bounds import guess_bound
from labeldp.audit.exact import Curve, Pair, TableAudit, audit_mechanism, audit_table, composed, largest_loss
from labeldp.audit.inference import Canaries, audit_observed, audit_training

__all__ = [
    "AdditiveAudit",
    "Canaries",
    "Curve",
    "LowerBound",
    "Pair",
    "TableAudit",
    "audit_additive",
    "audit_mechanism",
    "audit_observed",
    "audit_outputs",
    "audit_sampler",
    "audit_table",
    "audit_training",
    "composed",
    "guess_bound",
    "largest_loss",
]
