"""A ledger finds a release by its specification and draws it again from its key: neither may change by accident."""

import json

import numpy as np
import pytest

from mechanisms.examples import EXAMPLES
from mechanisms.recorded import FILE, SOLVED, recorded

EARLIER = ", whose certificate says what they rest on"

STORED = [name for name, make in EXAMPLES.items() if make(1.0).arrays() is not None]
"""Examples of which something is stored beside the specification."""

KNOWN = json.loads(FILE.read_text(encoding="utf-8"))


def test_every_example_is_recorded() -> None:
    assert set(KNOWN) == set(EXAMPLES) - set(SOLVED)


@pytest.mark.parametrize("name", KNOWN)
def test_specification_cost_and_draws_are_those_that_ledgers_hold_and_it_says_what_it_said(name: str) -> None:
    assert json.loads(json.dumps(recorded(EXAMPLES[name](1.0)))) == KNOWN[name]


@pytest.mark.parametrize("name", STORED)
def test_a_mechanism_that_was_stored_is_the_same_again(name: str) -> None:
    made = EXAMPLES[name](1.0)
    kept = made.arrays()
    again = made.restored(kept)
    found, known = recorded(again), recorded(made)
    for each in (found, known):
        reasons = each["says"].pop("assumptions")  # of what was stored the reason is that it was fixed earlier
        assert (f"fixed by an earlier release{EARLIER}" in reasons) == (each is found)
    assert again == made and found == known
    assert [each.name for each in again.public_inputs] == [each.name for each in made.public_inputs]
    assert np.array_equal(again.arrays(), kept) and all(each.why for each in again.public_inputs)


@pytest.mark.parametrize("name", STORED)
def test_a_mechanism_is_restored_with_what_was_stored_and_not_with_its_own(name: str) -> None:
    made = EXAMPLES[name](1.0)
    kept = made.arrays()
    turned = np.ascontiguousarray(np.asarray(kept)[::-1])
    assert np.array_equal(made.restored(turned).arrays(), turned)


@pytest.mark.parametrize("name", [name for name, make in EXAMPLES.items() if hasattr(type(make(1.0)), "read_columns")])
def test_a_table_of_sums_over_bags_shows_what_the_release_shows(name: str) -> None:
    made = EXAMPLES[name](1.0)
    labels, places = np.arange(made.records) % made.domain.size, np.arange(made.records)
    value = made.randomize(labels, rng=np.random.default_rng(0))
    features = [f"x{place}" for place in range(1, made.table.shape[1])] if hasattr(made, "table") else []
    names = [*made.column_names("row", features), "sums"]
    values = [np.asarray(each, dtype=np.float64) for each in made.column_values(value, places, places)]
    table = dict(zip(names, values, strict=True))
    read = type(made).read_columns(list(table), table.__getitem__, "sums", made.specification())
    shown = made.released_sums(value)
    assert (read.domain, read.records) == (shown.domain, shown.records)
    for part in ("sizes", "sums", "noise_stddev", "bags", "weights", "features"):
        found, known = getattr(read, part), getattr(shown, part)
        assert (found is None) == (known is None), part
        exact = part != "noise_stddev"  # which is rounded up to steps where it is drawn
        assert known is None or np.allclose(found, known, rtol=1e-12 if exact else 0.04), part
    assert len(repr(shown)) < 200 and "array" not in repr(shown)
