"""Show a finished fit as one self-contained HTML file."""

from labeldp.report.render import render_report, write_report

__all__ = ["render_report", "write_report"]
