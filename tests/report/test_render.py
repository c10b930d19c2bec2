"""The report is one whole, harmless, honest HTML file."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from labeldp.fit import ClassScore, CostRow, Estimated, FitSummary, Importance
from labeldp.report import render_report, write_report

Samples = dict[str, Callable[[], FitSummary]]

VOID = {"meta", "link", "img", "br", "wbr", "hr", "input"}


class Page(HTMLParser):
    """Collects the elements of a page and refuses any that is closed out of order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_every_element_is_closed_in_order(summary: FitSummary) -> None:
    page = Page(render_report(summary))
    assert page.open == []
    assert page.attributes("html") == [{"lang": "en"}]


def test_the_file_loads_nothing_from_elsewhere(summary: FitSummary) -> None:
    text = render_report(summary)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.tags}
    targets = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(value is not None and value.startswith("#") for value in targets)
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    assert "url(" not in styles and "@import" not in styles
    policies = [meta["content"] for meta in page.attributes("meta") if "http-equiv" in meta]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_hostile_names_are_shown_and_not_obeyed(samples: Samples) -> None:
    summary = samples["hostile"]()
    text = render_report(summary)
    assert text.count("</style>") == 1
    assert "<script" not in text and "<img" not in text and "49" not in Page(text).words
    assert not set("\x00\u202e\ud800") & set(text)
    assert summary.title.replace("\u202e", "\N{REPLACEMENT CHARACTER}") in html.unescape(text)
    text.encode("utf-8")


def test_no_attribute_holds_a_name_of_the_user(samples: Samples) -> None:
    page = Page(render_report(samples["hostile"]()))
    assert not [value for _, attributes in page.tags for value in attributes.values() if value and "evil" in value]


def test_every_number_is_the_summary_s(samples: Samples) -> None:
    summary = samples["complete"]()
    text = Page(render_report(summary)).text
    assert summary.auc and summary.log_loss and summary.test and summary.curve and summary.confusion
    shares = [end for e in (summary.accuracy, summary.baseline, summary.auc) for end in (e.value, e.low, e.high)]
    shares += [summary.test.accuracy, *(p for point in summary.curve.points for p in (point.value, point.low))]
    expected = [f"{100 * share:.1f}%" for share in shares]
    expected += [f"{summary.log_loss.value:.3f}", f"{summary.log_loss.low:.3f} to {summary.log_loss.high:.3f}"]
    expected += [f"{100 * share:.1f}" for row in summary.confusion.shares for share in row]
    expected += [f"{100 * item.drop:.1f} ({100 * item.low:.1f} to" for item in summary.importance if item.low > 0]
    expected += [f"{stage.records:,}" for stage in summary.stages] + [f"{summary.rows:,}", f"{summary.test.rows:,}"]
    assert [number for number in expected if number not in re.sub(r" +\(", " (", text)] == []


def test_no_number_appears_that_the_summary_does_not_have(samples: Samples) -> None:
    summary = dataclasses.replace(samples["plain"](), published=(), secret=(), certificate=())
    kept = {"86.4", "85.1", "87.7", "75.9", "74.7", "77.1", "95", "100", "0"}  # "times in 100", "from 0 to 100%"
    kept |= {"9.1", "11.7"}  # the gain
    kept |= {"86", "2", "7", "48,842", "50", "1.5", "1", "4", "2.72", "0.1.0"}  # also "of 2 classes", "from 7 features"
    text = Page(render_report(summary)).text
    lines = [line.partition(":")[2].strip() for line in summary.sentence.splitlines()]
    for given in (summary.title, summary.dataset, *lines, summary.command, "2026-02-03 14:05 UTC"):
        text = text.replace(given, "")
    assert set(re.findall(r"\d[\d,.]*\d|\d", text)) <= kept


def test_every_sentence_about_privacy_is_the_summary_s(samples: Samples) -> None:
    summary = samples["complete"]()
    text = Page(render_report(summary)).text
    row = summary.certificate[0]
    lines = [" ".join(line.replace(":", "", 1).split()) for line in summary.sentence.splitlines()]
    sentences = (*lines, *summary.published, *summary.secret, *row.assumptions, row.trust, row.neighbors)
    assert [sentence for sentence in sentences if " ".join(sentence.split()) not in text] == []
    for sentence in sentences:
        text = text.replace(sentence, "")
    assert not re.search(r"anonym|guarantee|protect|cannot|never|safe|sanitize|differential", text, re.I)


def test_headings_tables_and_pictures_can_be_read_aloud(summary: FitSummary) -> None:
    page = Page(render_report(summary))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
    assert len(page.attributes("caption")) == len(page.attributes("table"))
    assert all("scope" in attributes for attributes in page.attributes("th"))
    assert all("aria-label" in svg or svg.get("aria-hidden") == "true" for svg in page.attributes("svg"))
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))
    assert {link["href"] for link in page.attributes("a")} <= {f"#{name}" for name in names}


def test_the_order_is_the_reader_s(samples: Samples) -> None:
    text = render_report(samples["complete"]())
    headings = [html.unescape(heading) for heading in re.findall(r"<h2>(.*?)</h2>", text)]
    assert headings == [
        "Accuracy",
        "How to improve this model",
        "Privacy certificate",
        "Privacy budget",
        "Accuracy vs ε (simulated)",
        "Confusion matrix",
        "Permutation importance",
        "Releases",
        "Public and secret",
        "Reproduce",
    ]


def test_missing_parts_leave_no_trace(samples: Samples) -> None:
    text = render_report(samples["plain"]())
    assert "None" not in text and "simulated" not in text and "Confusion" not in text and "Warning" not in text


def test_a_fit_that_costs_nothing_at_the_budget_s_delta_has_no_curve(samples: Samples) -> None:
    """ε = 1 costs no ε at δ = 0.5: the report failed with a bare ValueError, after the charge."""
    summary = samples["complete"]()
    free = dataclasses.replace(summary.budget, run=CostRow(0.0, 0.5))
    assert "Dots and band: simulation." in render_report(summary)
    assert "Dots and band: simulation." not in render_report(dataclasses.replace(summary, budget=free))


def test_many_classes_become_a_picture_and_the_most_confused_pairs(samples: Samples) -> None:
    page = Page(render_report(samples["hundred"]()))
    assert any("100 classes" in (svg.get("aria-label") or "") for svg in page.attributes("svg"))
    assert "15 most frequent errors of 9,900" in page.text
    assert "matrix" not in {table.get("class") for table in page.attributes("table")}
    assert len(render_report(samples["many"]())) < 200_000


def test_what_was_measured_on_public_labels_comes_first(samples: Samples) -> None:
    text = Page(render_report(samples["complete"]())).text
    lead = text.index("(16,281 records with public labels): 86.9%")
    assert (
        lead < text.index("Estimated accuracy on new records, from noisy labels alone:") and "this model, 86.9%" in text
    )
    assert text.index("Accuracy on a public test file") < text.index("Majority-class baseline Debiased")
    assert 'class="measured"' in render_report(samples["complete"]()) and "public test" not in render_report(
        samples["plain"]()
    )


def test_a_wide_interval_is_not_hidden(samples: Samples) -> None:
    text = Page(render_report(samples["unclear"]())).text
    assert "too wide to tell" in text and "79.0% to 100.0%" in text and "times in 100" not in text
    assert "Not significantly better than the majority class" in text and "clipped to 0–100%" in text


def test_a_share_is_shown_inside_its_interval_and_the_reader_is_told(samples: Samples) -> None:
    summary = samples["complete"]()
    assert summary.auc and "nearest possible" not in Page(render_report(summary)).text
    summary = dataclasses.replace(summary, auc=dataclasses.replace(summary.auc, value=1.067, low=0.91, high=1.0))
    text = Page(render_report(summary)).text
    assert "106.7" not in text and "100.0% 91.0% to 100.0% (95%)" in text and "clipped to 0–100%" in text


def test_features_without_any_effect_are_one_line(samples: Samples) -> None:
    summary = samples["complete"]()
    idle = tuple(Importance(f"idle {number}", 0.0, 0.0, 0.0) for number in range(40))
    page = Page(render_report(dataclasses.replace(summary, importance=(*idle, *summary.importance))))
    assert (
        "40 features without any effect" in page.text
        and "features with a smaller drop, or one that can be 0" in page.text
    )
    assert "(0.0 to 0.0)" not in page.text
    text = Page(render_report(dataclasses.replace(summary, importance=idle[:1]))).text
    assert "1 feature without any effect" in text and "when a feature is permuted" not in text


def test_features_whose_interval_holds_0_are_folded(samples: Samples) -> None:
    summary = samples["complete"]()
    vague = (Importance("vague", 0.02, -0.01, 0.05), Importance("also vague", 0.001, -0.002, 0.004))
    page = render_report(dataclasses.replace(summary, importance=(*vague, Importance("clear", 0.05, 0.01, 0.09))))
    folded = page.index("2 features with a smaller drop, or one that can be 0")
    assert page.index(">clear</bdi>", page.index("Permutation importance")) < folded < page.index(">also vague</bdi>")
    text = Page(render_report(dataclasses.replace(summary, importance=vague))).text
    assert "The noise is too large to rank the features." in text


def test_two_sentences_do_not_run_together(samples: Samples) -> None:
    summary = samples["complete"]()
    assert summary.confusion
    confusion = dataclasses.replace(summary.confusion, method="debiased; shares may be negative")
    text = Page(render_report(dataclasses.replace(summary, confusion=confusion))).text
    assert "Debiased; shares may be negative. Margin of error" in text


def test_the_same_summary_gives_the_same_text(summary: FitSummary) -> None:
    again = FitSummary.from_json(summary.to_json())
    assert render_report(again) == render_report(summary)


def test_a_report_is_written_whole_or_not_at_all(
    samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    write_report(samples["plain"](), path)
    assert path.read_text(encoding="utf-8") == render_report(samples["plain"]())
    monkeypatch.setattr("labeldp.report.render.render_report", lambda summary: "half\ud800")
    with pytest.raises(UnicodeEncodeError):
        write_report(samples["complete"](), path)
    assert path.read_text(encoding="utf-8") == render_report(samples["plain"]())
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_each_class_is_named_with_what_the_model_is_good_and_bad_at(samples: Samples) -> None:
    found, right = (Estimated(value, value - 0.05, value + 0.05, 0.95, "Debiased.") for value in (0.912, 0.604))
    scores = (ClassScore("no", 0.99, 0.8, found, right), ClassScore("<30", 0.01, 0.2, None, right))
    summary = dataclasses.replace(samples["plain"](), class_scores=scores)
    text = Page(render_report(summary)).text
    assert "91.2% (86.2% to 96.2%)" in text and "60.4% (55.4% to 65.4%)" in text and "not known" in text
    assert "The model almost never predicts <30 (1.0% of records; estimated true share 20.0%)." in text
    assert "almost never predicts no" not in text


def test_what_is_left_of_the_budget_is_said_at_the_top(samples: Samples) -> None:
    text = Page(render_report(samples["plain"]())).text
    assert text.index("Spent ε = 1 of 4; 1.5 left") < text.index("Privacy certificate")


def test_a_simulation_is_said_before_the_lines(samples: Samples) -> None:
    summary = samples["complete"]()
    simulated = dataclasses.replace(summary, sentence="SIMULATION – seeded noise, no privacy\n" + summary.sentence)
    text = Page(render_report(simulated)).text
    assert text.index("SIMULATION – seeded noise, no privacy") < text.index("Protects")


def test_the_cards_come_first(samples: Samples) -> None:
    text = Page(render_report(samples["plain"]())).text
    order = [
        "86.4% 95% CI",
        "Better than baseline? Yes",
        "Privacy ε = 1 δ = 0, central",
        "Budget left ε = 1.5",
        "Predicts",
    ]
    order += ["Predicts", "Privacy certificate"]
    assert [text.index(each) for each in order] == sorted(text.index(each) for each in order)
