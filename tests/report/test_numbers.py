"""Reports of numbers, and pictures of models of one or two features."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Callable

import pytest

from labeldp.fit import Across, FitSummary, Picture
from labeldp.learners import format_number
from labeldp.privacy import InputError
from labeldp.report import render_report
from labeldp.report.svg import ChartAxis
from report.test_render import Page

Samples = dict[str, Callable[[], FitSummary]]


def test_what_was_measured_on_public_numbers_comes_first(samples: Samples) -> None:
    text = Page(render_report(samples["numbers"]())).text
    lead = text.index("RMSE on homes_test.csv (2,000 records with public labels): 2,050,000 .")
    assert "a number from −5 to 20,000,000, from 18 features" in text
    assert lead < text.index("Estimated RMSE on new records, from noisy labels alone: 2,100,000")
    assert "(95% CI 1,900,000 to 2,300,000 )" in text and "Better than the mean" in text
    assert "1,234,500" in text and "0.812" in text and "0.830" in text and "0.780 to 0.880 (95%)" in text
    assert "2.2 × 10¹³" in text and "Labels are clipped to the range, also for" in text
    assert "Rise of the mean squared error (square of the labels’ unit × 10¹²)" in text
    assert "2.00 (1.50 to 2.50)" in text and not re.search("accura|classes|None", text[: text.index("Releases")])


def test_an_error_that_the_noise_hides_is_a_bound(samples: Samples) -> None:
    text = Page(render_report(samples["dark numbers"]())).text
    assert "below 3,100,000 (95% confidence). The noise is too large for a lower bound" in text
    assert "Not significantly better than the mean" in text and "Residuals" not in text


def test_a_model_that_does_worse_than_the_mean_is_said_to(samples: Samples) -> None:
    summary = samples["numbers"]()
    assert summary.numbers
    worse = dataclasses.replace(summary.numbers.gain, value=-2e13, low=-3e13, high=-1e13)
    text = Page(
        render_report(dataclasses.replace(summary, numbers=dataclasses.replace(summary.numbers, gain=worse)))
    ).text
    assert "Worse than the mean" in text and "−2 × 10¹³" in text


@pytest.mark.parametrize("name", ["numbers", "map of numbers", "curve of classes", "map of classes", "map of ten"])
def test_pictures_stay_inside_their_frame_and_are_said_in_words(samples: Samples, name: str) -> None:
    text = render_report(samples[name]())
    drawings = re.findall(r"<svg[^>]*class=\"plot[^>]*>.*?</svg>", text, re.S)
    page = Page(text)
    assert "Predictions" in page.text
    assert any("Predictions " in (svg.get("aria-label") or "") for svg in page.attributes("svg"))
    for drawing in drawings:
        width, height = map(float, re.findall(r"viewBox=\"0 0 (\S+) (\S+)\"", drawing)[0])
        for axis, most in (("x", width), ("y", height)):
            places = [float(value) for value in re.findall(rf" (?:c|){axis}[12]?=\"(-?[\d.]+)\"", drawing)]
            assert places and min(places) >= 0 and max(places) <= most
    assert len(text) < 150_000


def test_dates_and_long_names_fit_below_an_axis(samples: Samples) -> None:
    text = html.unescape(render_report(samples["numbers"]()))
    assert re.search(r">20\d\d-\d\d-\d\d</text>", text)
    assert "a name that i…" in html.unescape(render_report(samples["map of ten"]()))
    assert "(× 10⁶)" in text
    axis = ChartAxis.of_feature(Across("age", "number", (0.0, 1e-7)), 0.0, 100.0)
    assert axis.title == "age (× 10⁻⁹)" and "100" in [label for _, label in axis.ticks]


def test_a_constant_feature_or_answer_is_drawn_too(samples: Samples) -> None:
    flat = Picture((Across("age", "number", (5.0, 5.0 + 1e-12)),), ((3.0, 3.0),))
    assert "Predictions along the feature" in render_report(dataclasses.replace(samples["numbers"](), picture=flat))


def test_summaries_of_numbers_survive_json_and_refuse_what_cannot_be_shown(samples: Samples) -> None:
    summary = samples["map of numbers"]()
    assert FitSummary.from_json(json.loads(json.dumps(summary.to_json(), allow_nan=False))) == summary
    with pytest.raises(InputError, match="an answer for each of their places"):
        Picture((Across("age", "number", (0.0, 1.0)),), ((1.0,),))
    with pytest.raises(InputError, match="must be finite"):
        Picture((Across("age", "number", (0.0, 1.0)),), ((1.0, float("nan")),))
    with pytest.raises(InputError, match="without its folder"):
        assert summary.numbers and summary.numbers.test
        test = dataclasses.replace(summary.numbers.test, file="/home/somebody/test.csv")
        dataclasses.replace(summary, numbers=dataclasses.replace(summary.numbers, test=test))
    with pytest.raises(InputError, match="of an accuracy and a baseline"):
        dataclasses.replace(samples["plain"](), accuracy=None)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12.3456, "12.35"), (-0.5, "-0.5000"), (123456.0, "123,456"), (7.6e9, "7.6e+09"), (3e-7, "3e-07")],
)
def test_amounts_have_four_digits_or_all_before_the_point(value: float, text: str) -> None:
    assert format_number(value) == text
