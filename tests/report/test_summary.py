"""The summary survives JSON and refuses what the report could not show."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from labeldp.fit import Confusion, CurvePoint, Estimated, FitSummary
from labeldp.privacy import InputError

Samples = dict[str, Callable[[], FitSummary]]


def test_json_gives_the_summary_back(summary: FitSummary) -> None:
    text = json.dumps(summary.to_json(), allow_nan=False)
    assert FitSummary.from_json(json.loads(text)) == summary


def test_numpy_floats_become_plain_ones(samples: Samples) -> None:
    accuracy = dataclasses.replace(samples["plain"]().accuracy, value=np.float64(0.86))
    written = dataclasses.replace(samples["plain"](), accuracy=accuracy).to_json()
    assert type(written["accuracy"]["value"]) is float


def test_optional_parts_may_be_missing(samples: Samples) -> None:
    value = samples["plain"]().to_json()
    for name in ("dropped", "auc", "log_loss", "curve", "importance", "test", "stages", "warnings", "confusion"):
        del value[name]
    assert FitSummary.from_json(value) == samples["plain"]()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "format is 'labeldp fit summary 1'"),
        ({"rows": "many"}, "summary.rows must be of type int, not str"),
        ({"rows": True}, "summary.rows must be of type int, not bool"),
        ({"classes": "ab"}, "summary.classes must be a list"),
        ({"classes": ["a"]}, "at least two classes"),
        ({"budget": {"total": 1}}, "summary.budget must be an object with the fields total, before, run, left"),
        ({"unknown": 1}, "summary must be an object with the fields"),
        ({"file": "/home/somebody/data.csv"}, "without its folder"),
        ({"confusion": {"shares": [[1.0]], "method": ""}}, "must have 2 rows"),
    ],
)
def test_a_wrong_object_is_refused_with_the_place(samples: Samples, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FitSummary.from_json(samples["plain"]().to_json() | change)


def test_numbers_must_be_finite_and_intervals_in_order() -> None:
    with pytest.raises(InputError, match=r"Estimated\.high must be a finite number"):
        Estimated(0.5, 0.4, float("inf"), 0.95, "")
    with pytest.raises(InputError, match="low must not be above high"):
        Estimated(0.5, 0.6, 0.4, 0.95, "")
    with pytest.raises(InputError, match=r"CurvePoint\.epsilon must be positive"):
        CurvePoint(0.0, 0.5, 0.4, 0.6)
    with pytest.raises(InputError, match="must be square"):
        Confusion(((0.5, 0.5), (1.0,)), "")
    with pytest.raises(InputError, match="must be finite"):
        Confusion(((float("nan"),),), "")
