"""Show a finished fit as one self-contained HTML file, and reproduced comparisons as a table and figures."""

from labeldp.report.render import render_report, write_report
from labeldp.report.svg import Scale, apart, figure, round_ticks, tag
from labeldp.report.words import fixed

__all__ = ["Scale", "apart", "figure", "fixed", "render_report", "round_ticks", "tag", "write_report"]
