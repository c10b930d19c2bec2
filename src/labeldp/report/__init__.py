"""Show a finished fit as one self-contained HTML file."""

from labeldp.report.render import render_report, write_report
from labeldp.report.words import fixed

__all__ = ["fixed", "render_report", "write_report"]
