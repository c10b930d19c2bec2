from .audit import draw_loss as draw_loss
from .audit import render_audit as render_audit
from .estimates import render_estimate as render_estimate
from .estimates import render_sets as render_sets
from .render import render_report as render_report
from .render import write_report as write_report
from .words import fixed as fixed
