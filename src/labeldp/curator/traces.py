"""Traces of labels and ids in a ledger, by which those that changed are recognized."""

from collections.abc import Mapping
from sqlite3 import Connection

from labeldp.privacy import Request, Span, add_digests

ANY_KIND = "any"
"""The kind of a trace that can be compared whatever the ids, or the labels, are."""

IDS_KIND = "ids"
"""The kind of labels in a trace of ids alone; its digest is empty where some release did not say whose labels it was
about."""

WITH_IDS = frozenset(("ids", "integers", "texts"))
"""The kinds of ids that tell records apart in another file, too."""

Kinds = tuple[str, str]
"""Kind of ids and kind of labels."""

Traces = dict[Kinds, dict[Span, str]]
"""The digest of the labels, by kinds and by the cohorts that they are of."""


def traces_of(connection: Connection, dataset: int, revision: str) -> Traces:
    """Return the traces of a revision."""
    query = "SELECT scheme, domain, low, high, digest FROM labels WHERE dataset = ? AND revision = ?"
    found: Traces = {}
    for scheme, domain, low, high, digest in connection.execute(query, (dataset, revision)):
        found.setdefault((scheme, domain), {})[low, high] = digest
    return found


def expected(known: Traces, kinds: Kinds, span: Span) -> str | None:
    """Return the digest that labels of some cohorts must have, None if nothing tells.

    Digests of labels with their ids are sums over records: those of cohorts add up to that of all of them.
    """
    traces = known.get(kinds, {})
    own = traces.get(span)
    return _sum(traces, span) if own is None and kinds[0] in WITH_IDS else own


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


def are_expected(known: Traces, request: Request, span: Span) -> bool:
    """Return whether the labels of a request are those of earlier ones, as far as their traces tell."""
    found = ((expected(known, (ids, labels), span), digest) for ids, labels, digest in request.traces)
    return all(before in (None, now) for before, now in found)


def new_traces(known: Traces, request: Request, span: Span, records: str | None) -> dict[Kinds, str]:
    """Return what is new of the traces of a request and of its ids.

    Args:
        known: the traces of the revision so far.
        request: what was asked for.
        span: the cohorts of its records.
        records: a digest of their ids, or None if nobody gave it.
    """
    new = {(ids, labels): digest for ids, labels, digest in request.traces if span not in known.get((ids, labels), {})}
    if request.scheme in WITH_IDS:
        before = known.get((ANY_KIND, IDS_KIND), {}).get(span)
        if before != (found := records if records is not None and _are_ids_of_all(known, request, span) else ""):
            new[ANY_KIND, IDS_KIND] = found
    return new


def _are_ids_of_all(known: Traces, request: Request, span: Span) -> bool:
    """Return whether every release so far with ids had those of this request.

    It was compared with the ids on record before. Where there are none, releases of an earlier version were compared by
    labels with ids: they had the same ids if they had the same kinds of both.
    """
    before = known.get((ANY_KIND, IDS_KIND), {}).get(span)
    if before is not None:
        return bool(before)
    others = {kinds for kinds, traces in known.items() if kinds[0] in WITH_IDS and span in traces}
    return others <= {(ids, labels) for ids, labels, _ in request.traces}


def first_records(connection: Connection, dataset: int) -> dict[str, str | None]:
    """Return a digest of the ids that a dataset without cohorts was released of, by revision.

    It is empty where some release had no ids, or did not say them; None where an earlier version wrote none down.
    """
    query = "SELECT revision, scheme, domain, digest FROM labels WHERE dataset = ?"
    released = connection.execute("SELECT DISTINCT revision FROM release WHERE dataset = ?", (dataset,))
    found: dict[str, str | None] = {revision: None for (revision,) in released}
    for revision, scheme, domain, digest in connection.execute(query, (dataset,)):
        before = found.setdefault(revision, None)
        if (scheme, domain) == (ANY_KIND, IDS_KIND) and before is None:
            found[revision] = digest
        elif scheme != ANY_KIND and scheme not in WITH_IDS:
            found[revision] = ""
    return found
