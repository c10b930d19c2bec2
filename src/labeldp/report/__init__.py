"""Show a finished fit, an audit or an estimate as one self-contained HTML file."""

from labeldp.report.audit import draw_loss, render_audit
from labeldp.report.estimates import render_estimate
from labeldp.report.render import render_report, write_report
from labeldp.report.words import fixed

__all__ = ["draw_loss", "fixed", "render_audit", "render_estimate", "render_report", "write_report"]
