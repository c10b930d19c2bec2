"""Show a finished fit as one self-contained HTML file, and reproduced comparisons as a table and figures."""

from labeldp.report.aggregation import write_aggregation
from labeldp.report.online import write_online
from labeldp.report.rates import write_rates
from labeldp.report.render import render_report, write_report
from labeldp.report.reproduced import write_reproduced

__all__ = ["render_report", "write_aggregation", "write_online", "write_rates", "write_report", "write_reproduced"]
