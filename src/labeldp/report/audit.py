"""Audits: the picture of a curve of delta(epsilon), and the page of what was audited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from markupsafe import Markup

from labeldp.privacy import rounded_up_text
from labeldp.report.render import environment
from labeldp.report.svg import BOTTOM, LEFT, RIGHT, TOP, AxisScale, ChartAxis, figure, round_ticks, tag

if TYPE_CHECKING:  # what audits load, a report of a fit does not need
    from labeldp.audit import RunAudit

HEIGHT = BOTTOM + 66

_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#5b626a}text.strong{fill:#20242a;font-weight:600}"
    "line,polyline{fill:none}.grid{stroke:#ddd8ce}.axis,.tick{stroke:#5b626a}.line{stroke:#1d5c78;stroke-width:2}"
    ".claim{fill:none;stroke:#9c4a17;stroke-width:2.5}"
)


def draw_loss(
    epsilons: Sequence[float], deltas: Sequence[float], claim: tuple[float, float] | None = None, *, alone: bool = True
) -> Markup:
    """Return delta against epsilon as SVG: the worst pair of labels at each epsilon.

    Args:
        epsilons, deltas: the curve, at least two points.
        claim: an epsilon and a delta that are marked with a ring.
        alone: as a file of its own, with its colors; else as a part of a page.
    """
    across = [*epsilons, *([claim[0]] if claim else [])]
    up = [*deltas, *([claim[1]] if claim else []), 1e-3]
    x, y = AxisScale(0, max(across), LEFT, RIGHT), AxisScale(0, max(up), BOTTOM, TOP)
    ticks = [tuple((value, f"{value:g}") for value in round_ticks(0, scale.end)) for scale in (x, y)]
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(epsilons, deltas, strict=True))
    marked = [] if claim is None else [tag("circle", class_="claim", cx=x(claim[0]), cy=y(claim[1]), r=6)]
    label = f"delta against epsilon: {deltas[0]:.3g} at 0, {deltas[-1]:.3g} at {epsilons[-1]:.3g}"
    drawn = figure(
        label + (f"; the claim is {claim[1]:g} at {claim[0]:g}" if claim else ""),
        RIGHT + 24,
        HEIGHT,
        *([tag("style", Markup(_STYLE))] if alone else []),
        ChartAxis("δ of the worst pair", y, ticks[1]).beside(LEFT, RIGHT),
        ChartAxis("ε", x, ticks[0]).below(BOTTOM),
        tag("polyline", class_="line", points=line),
        *marked,
        class_="plot",
    )
    return Markup('<svg xmlns="http://www.w3.org/2000/svg"') + drawn[len("<svg") :] if alone else drawn


MOST_FILES = 12
"""Files whose digests are on the page; of more, the number alone."""


def render_audit(audit: RunAudit) -> str:
    """Return an audit as one HTML document that prints to two pages, for anyone who signs it.

    What was computed from raw labels stands on this page alone, which says that it is as secret as they are. Names and
    sentences are escaped.
    """
    claim = audit.claim
    digests = dict(audit.digests)
    if len(digests) > MOST_FILES:
        digests = {f"{len(digests)} files, their digests together": _joined(digests)}
    words = f"ε = {rounded_up_text(claim)}" if claim < float("inf") else "no finite ε"
    shown = replace(audit, digests=digests)
    return (
        environment()
        .get_template("audit.html")
        .render(
            a=shown,
            claim=f"{words} at δ = {float(audit.delta):g}",
            claimed=words,
            sentence=audit.certificate.at(float(audit.delta)),
            bound=None if audit.bound is None else f"{audit.bound.epsilon:.3g}",
        )
    )


def _joined(digests: dict[str, str]) -> str:
    """Return one digest of the digests of many files, by their names."""
    return hashlib.sha256(json.dumps(sorted(digests.items())).encode()).hexdigest()
