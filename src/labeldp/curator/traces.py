"""Traces of labels and ids in a ledger, by which those that changed are recognized."""

from collections.abc import Mapping
from sqlite3 import Connection

from labeldp.curator.datasets import STATE, State
from labeldp.privacy import PendingCharge, Span, add_digests

ANY_KIND = "any"
"""The kind of a trace that can be compared whatever the ids, or the labels, are."""

IDS_KIND = "ids"
"""The kind of ids that tell records apart in another file, too. As the kind of labels it marks a trace of ids alone,
whose digest is empty where some release did not say whose labels it was about."""

Kinds = tuple[str, str]
"""Kind of ids and kind of labels."""

Traces = dict[Kinds, dict[Span, str]]
"""The digest of the labels, by kinds and by the cohorts that they are of."""


def traces_of(connection: Connection, state: State) -> Traces:
    """Return the traces of a state of the labels."""
    query = f"SELECT scheme, domain, low, high, digest FROM labels WHERE {STATE}"
    found: Traces = {}
    for scheme, domain, low, high, digest in connection.execute(query, state):
        found.setdefault((scheme, domain), {})[low, high] = digest
    return found


def expected(known: Traces, kinds: Kinds, span: Span) -> str | None:
    """Return the digest that labels of some cohorts must have, None if nothing tells.

    Digests of labels with their ids are sums over records: those of cohorts add up to that of all of them.
    """
    traces = known.get(kinds, {})
    own = traces.get(span)
    return _sum(traces, span) if own is None and kinds[0] == IDS_KIND else own


def _sum(traces: Mapping[Span, str], span: Span) -> str | None:
    """Return the digest of a span from those of others, None if they do not give it."""
    start, end = span[0], span[1] + 1
    reached: dict[int, str] = {start: f"{0:032x}-0"}
    waiting = [start]
    while waiting and end not in reached:
        here = waiting.pop()
        for (low, high), digest in traces.items():
            for first, last, times in ((low, high + 1, 1), (high + 1, low, -1)):
                if first == here and last not in reached:
                    reached[last] = add_digests(reached[here], digest, times)
                    waiting.append(last)
    return reached.get(end)


def are_expected(known: Traces, request: PendingCharge, span: Span) -> bool:
    """Return whether the labels of a request are those of earlier ones, as far as their traces tell."""
    found = ((expected(known, (ids, labels), span), digest) for ids, labels, digest in request.traces)
    return all(before in (None, now) for before, now in found)


def new_traces(known: Traces, request: PendingCharge, span: Span, records: str | None) -> dict[Kinds, str]:
    """Return what is new of the traces of a request and of its ids, whose digest is None if no one gave it."""
    new = {(ids, labels): digest for ids, labels, digest in request.traces if span not in known.get((ids, labels), {})}
    if request.scheme == IDS_KIND:
        before = known.get((ANY_KIND, IDS_KIND), {}).get(span)
        found = "" if records is None or before == "" else records
        if before != found:
            new[ANY_KIND, IDS_KIND] = found
    return new


def first_records(connection: Connection, dataset: int) -> dict[State, str]:
    """Return a digest of the ids that a dataset without cohorts was released of, by the state of the labels.

    It is empty where some release had no ids, or did not say them.
    """
    query = "SELECT dataset, label_column, generation, revision, scheme, domain, digest FROM labels WHERE dataset = ?"
    found: dict[State, str] = {}
    for *place, scheme, domain, digest in connection.execute(query, (dataset,)):
        state: State = (place[0], place[1], place[2], place[3])
        if (scheme, domain) == (ANY_KIND, IDS_KIND):
            found.setdefault(state, digest)
        elif scheme not in (ANY_KIND, IDS_KIND):
            found[state] = ""
    return found
