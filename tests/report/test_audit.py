"""The picture of a curve, and the page of an audit."""

from fractions import Fraction
from xml.etree.ElementTree import fromstring

from labeldp.audit import LowerBound, RunAudit
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import Budget
from labeldp.releases import Check
from labeldp.report import draw_loss, render_audit


def audited(epsilon: float, *, secret: bool, files: int = 2) -> RunAudit:
    import numpy as np

    from labeldp.curator import Curator

    curator = Curator([0, 1], domain=Classes(2), budget=Budget(epsilon=1))
    mechanism = RandomizedResponse(domain=curator.domain, epsilon=1)
    certificate = curator.release(mechanism, rng=np.random.default_rng(0)).certificate
    bound = LowerBound(epsilon, 0.0, 0.95, "one event had 9 of 9 outputs of '<b>' and 0 of 9 of 'no'")
    digests = {f"file {number}": "0" * 64 for number in range(files)}
    checks = (Check(True, "a check that holds"), Check(epsilon <= 1, "another <script>"))
    path, day = "run & <i>more</i>", "2026-01-01"
    return RunAudit(
        path, "release", certificate, Fraction(0), digests, checks, ("what not",), bound, secret, day, "1", charged=True
    )


def test_the_picture_has_the_curve_and_the_claim() -> None:
    alone = str(draw_loss([0, 0.5, 1], [0.4, 0.2, 0.0], (1.0, 0.1)))
    root = fromstring(alone)
    assert root.tag.endswith("svg") and "the claim is 0.1 at 1" in root.attrib["aria-label"]
    assert sum(each.tag.endswith("circle") for each in root.iter()) == 1
    [line] = [each for each in root.iter() if each.tag.endswith("polyline")]
    heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
    assert heights == sorted(heights) and len(heights) == 3
    assert "style" not in str(draw_loss([0, 1], [0.0, 0.0], alone=False))


def test_the_page_says_what_holds_and_that_it_is_secret() -> None:
    page = render_audit(audited(0.5, secret=True))
    assert "CONFIDENTIAL: computed from raw labels" in page and "All checks passed." in page and "Signature" in page
    assert "<strong>0.5</strong>" in page and "another &lt;script&gt;" in page and "&lt;i&gt;more" in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "CONFIDENTIAL: computed from raw labels" not in render_audit(audited(0.5, secret=False))


def test_the_page_says_what_fails() -> None:
    page = render_audit(audited(1.5, secret=True, files=40))
    assert "A check FAILED." in page and "The claim is refuted." in page and "FAILS" in page
    assert "40 files, their digests together" in page
