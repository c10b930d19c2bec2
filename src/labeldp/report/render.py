"""Turn a summary into one HTML file."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from labeldp.fit import CertificateRow, FitSummary, Importance, RegressionSummary
from labeldp.privacy import InputError
from labeldp.report import charts, words
from labeldp.tables import atomic_write

MANY_NAMES = 24
"""Lists with more names than this are folded."""

MOST_BARS = 15
"""How many features have a bar in view; the others are in a folded table."""


def render_report(summary: FitSummary) -> str:
    """Return the report of a finished fit as one HTML document.

    Every number and every sentence about privacy is a field of the summary; names and sentences are escaped.
    The same summary gives the same text.
    """
    return environment().get_template("report.html").render(_context(summary))


def write_report(fitted: Any, path: str | os.PathLike[str], features: Any = None) -> None:
    """Write the report to a file, whole or not at all; an existing file is replaced.

    Args:
        fitted: a `FitSummary`, such as `fit_file` returns, or a fitted `LabelDPClassifier` or `LabelDPRegressor`.
        path: the HTML file.
        features: of an estimator, the features that it was fitted to.

    Raises:
        InputError: neither of them, or features that are missing, or not those of the fit.
    """
    summary = fitted
    if not isinstance(fitted, FitSummary):
        if not hasattr(fitted, "summarize"):
            raise InputError(
                "must be a FitSummary or a fitted LabelDPClassifier or LabelDPRegressor", argument="fitted"
            )
        if features is None:
            raise InputError("must be the features of the fit, to measure their importance", argument="features")
        summary = fitted.summarize(features)
    with atomic_write(path, overwrite=True) as draft:
        draft.write_text(render_report(summary), encoding="utf-8", newline="\n")


@cache
def environment() -> Environment:
    """Return what fills the templates: names and sentences are escaped, and nothing may be undefined."""
    environment = Environment(
        loader=PackageLoader("labeldp.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=words.visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    shown = (words.percent, words.points, words.spent, words.left, words.interval, words.fixed, words.upward)
    environment.filters.update({function.__name__: function for function in shown})
    environment.filters.update(
        sentence=words.sentence,
        signed=words.signed,
        between=words.between,
        declared=words.declared,
        breakable=words.breakable,
    )
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.globals.update(strip=charts.strip, importance_bar=charts.importance_bar)
    return environment


def _context(estimated: FitSummary) -> dict[str, Any]:
    """Return what the template may use: the summary, and the charts and words made from it."""
    summary = _possible(estimated)
    importance = tuple(sorted(filter(_matters, summary.importance), key=lambda item: -item.drop))
    shown = [item for item in importance if item.low > 0 or item.high < 0][:MOST_BARS]
    return {
        "s": summary,
        "date": _date(summary.created),
        "trust": summary.certificate[0].trust.partition(":")[0] if summary.certificate else "",
        **(_of_numbers(summary, summary.numbers) if summary.numbers else _of_classes(summary)),
        "picture_chart": summary.picture and charts.picture_chart(summary.picture, summary.classes, summary.label),
        "moved": summary != estimated,
        "entries": entries(summary.certificate),
        "budget_bar": charts.budget_bar(summary.budget),
        "additive": words.adds_up(summary.budget),
        "importance": shown,
        "rest": [item for item in importance if item not in shown],
        "idle": [item.feature for item in summary.importance if not _matters(item)],
        "importance_scale": charts.importance_scale(importance) if importance else None,
        "matrix": charts,
        "many": MANY_NAMES,
    }


def _of_classes(summary: FitSummary) -> dict[str, Any]:
    accuracy, baseline = summary.accuracy, summary.baseline
    assert accuracy is not None and baseline is not None
    measured = None if summary.test is None else summary.test.accuracy
    spent = summary.budget.run.epsilon
    # At the delta of a large budget a fit may cost no epsilon at all, which has no place on a logarithmic axis.
    curve = summary.curve if summary.curve and summary.curve.points and spent else None
    return {
        "changed": words.points,
        "comparison": words.comparison(summary.gain),
        "verdict": words.verdict(summary.gain),
        "difference": words.difference(summary.gain),
        "curve": curve,
        "curve_chart": curve and charts.curve_chart(curve, spent, accuracy, baseline.value, measured),
    }


def _of_numbers(summary: FitSummary, numbers: RegressionSummary) -> dict[str, Any]:
    rises = [abs(end) for item in summary.importance for end in (item.low, item.high)]
    power = words.thousands(max(rises, default=0.0))
    return {
        "changed": lambda rise: words.fixed(rise / 10.0**power, 2),
        "rise_factor": f" × 10{words.exponent_of(power)}" if power else "",
        "comparison": words.against_the_mean(numbers),
        "verdict": words.verdict(numbers.gain),
        "step": (numbers.end - numbers.start) / (numbers.grid - 1),
        "curve": None,
        "residual_chart": charts.residual_chart(numbers.residuals) if len(numbers.residuals) > 1 else None,
    }


def _possible(summary: FitSummary) -> FitSummary:
    """Return the summary with its estimated shares as `words.possible` shows them."""
    shares = (summary.accuracy, summary.baseline, summary.auc)
    accuracy, baseline, auc = (share and words.possible(share) for share in shares)
    return replace(summary, accuracy=accuracy, baseline=baseline, auc=auc)


def _matters(item: Importance) -> bool:
    """Return whether shuffling the feature changed any measured prediction."""
    return any((item.drop, item.low, item.high))


def _date(created: str) -> str:
    """Return day and minute, or the text itself if it is not an ISO time."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{moment:%Y-%m-%d %H:%M %Z}".strip()


_TITLES = {
    "Records": "records",
    "Neighbors": "neighbors",
    "Trust": "trust",
    "Randomness": "randomness",
    "Published": "published",
}


@dataclass(frozen=True)
class Entries:
    """How to show the entries of a certificate.

    Args:
        columns: title and field of what differs between entries.
        shared: title and text of what all entries have in common.
    """

    columns: dict[str, str]
    shared: dict[str, str]


def entries(rows: tuple[CertificateRow, ...]) -> Entries:
    """Sort the fields of the entries into columns and shared facts; records always have a column."""
    texts = {title: [getattr(row, field) for row in rows] for title, field in _TITLES.items()}
    columns = {t: field for t, field in _TITLES.items() if field == "records" or len(set(texts[t])) > 1}
    return Entries(
        columns=columns,
        shared={title: values[0] for title, values in texts.items() if title not in columns and values},
    )
