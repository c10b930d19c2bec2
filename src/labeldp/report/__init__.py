"""Show a finished fit, or an audit, as one self-contained HTML file."""

from labeldp.report.audit import draw_loss, render_audit
from labeldp.report.render import render_report, write_report
from labeldp.report.words import fixed

__all__ = ["draw_loss", "fixed", "render_audit", "render_report", "write_report"]
