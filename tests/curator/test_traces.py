"""Traces of labels: what those of cohorts tell about those of all, and what ids are known."""

import random

import numpy as np
import pytest

from labeldp.curator import IDS_KIND
from labeldp.curator.datasets import ANY_KIND, expected, new_traces
from labeldp.privacy import LabelDigest, PendingCharge, PrivacyLoss, add_digests

KINDS = "ids", "classes a"


def digest(rows: range) -> str:
    found = LabelDigest(b"k" * 32)
    found.update(np.arange(rows.start, rows.stop, dtype=np.uint64), np.arange(rows.start, rows.stop) % 3)
    return found.hexdigest()


def request(*traces: tuple[str, str, str], scheme: str = "ids") -> PendingCharge:
    return PendingCharge({}, PrivacyLoss.zero(), labels="x", traces=traces, scheme=scheme)


def test_digests_of_parts_add_up_and_are_taken_away() -> None:
    left, right, both = digest(range(40)), digest(range(40, 100)), digest(range(100))
    assert add_digests(left, right) == both == add_digests(right, left)
    assert add_digests(both, left, -1) == right and add_digests(both, both, -1) == digest(range(0))
    assert add_digests(digest(range(0)), left, -1).endswith("--40")  # a sum on its way
    assert add_digests(add_digests(digest(range(0)), left, -1), both) == right


def test_labels_of_a_span_are_known_from_others_wherever_they_follow() -> None:
    """Against the closure of all sums and differences, over random sets of known spans."""
    chance = random.Random(3)
    for _ in range(200):
        count = chance.randrange(1, 6)
        edges = np.cumsum([0, *(chance.randrange(1, 5) for _ in range(count))]).tolist()
        spans = [(low, high) for low in range(count) for high in range(low, count) if low in (0, high)]
        known = {span: digest(range(edges[span[0]], edges[span[1] + 1])) for span in spans if chance.random() < 0.5}
        reached = {frozenset((low, high + 1)) for low, high in known}
        for _ in range(count):
            reached |= {one ^ other for one in reached for other in reached if len(one ^ other) == 2}
        for low, high in spans:
            found = expected({KINDS: known}, KINDS, (low, high))
            assert (found is not None) is (frozenset((low, high + 1)) in reached)
            assert found in (None, digest(range(edges[low], edges[high + 1])))


def test_digests_that_are_no_sums_tell_of_their_own_span_alone() -> None:
    known = {(ANY_KIND, "classes"): {(0, 0): "a", (1, 1): "b"}}
    assert [expected(known, (ANY_KIND, "classes"), span) for span in ((0, 0), (1, 1), (0, 1))] == ["a", "b", None]
    assert expected(known, KINDS, (0, 0)) is None


OWN, OTHER = ("ids", "classes a", "1-1"), ("ids", "classes b", "2-1")
IDS = ANY_KIND, IDS_KIND


@pytest.mark.parametrize(
    ("known", "asked", "records", "kept"),
    [
        ({}, request(OWN), "r", "r"),
        ({}, request(OWN), None, ""),
        ({}, request(("row numbers", "classes a", "1-1"), scheme="row numbers"), None, None),
        ({("ids", "classes a"): {(0, 0): "1-1"}, IDS: {(0, 0): "r"}}, request(OTHER), "r", None),
        ({("ids", "classes a"): {(0, 0): "1-1"}, IDS: {(0, 0): "r"}}, request(OTHER), None, ""),
        ({IDS: {(0, 0): ""}}, request(OTHER), "r", None),
    ],
)
def test_ids_are_known_only_where_every_release_has_them(
    known: dict, asked: PendingCharge, records: str, kept: str
) -> None:
    assert new_traces(known, asked, (0, 0), records).get(IDS) == kept
