"""What a ledger remembers of labels to notice that they changed: keyed, and as secret as its key."""

import hashlib
import hmac
import json
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, Domain
from labeldp.privacy import LabelDigest, derive, record_words

ANY = "any"


@final
class Fingerprint:
    """Keyed digests of labelled records, in any order and any split.

    Classes count by their texts: neither their order nor whether they are integers matters.

    Args:
        key: secret.
        domain: of the codes that will be added.
    """

    def __init__(self, key: bytes, domain: Domain) -> None:
        self._key, self._domain = key, domain
        self._digest = LabelDigest(key)
        self._names, self._ranks = _canonical(domain)
        self._counts = np.zeros(domain.size, dtype=np.int64)

    def update(self, ids: Any, codes: NDArray[Any]) -> None:
        """Add records: ids as the randomness takes them, or None for row numbers; codes (n,)."""
        self._digest.update(record_words(ids, len(codes), self._key), self._ranks[codes])
        if len(self._counts) <= len(codes):
            self._counts += np.bincount(codes, minlength=len(self._counts))
        else:
            found, counts = np.unique(codes, return_counts=True)
            self._counts[found] += counts

    @property
    def labels(self) -> str:
        """A digest of the pairs of id and label."""
        return self._digest.hexdigest()

    def traces(self, scheme: str) -> tuple[tuple[str, str, str], ...]:
        """What to compare with other releases of the same labels: (kind of ids, kind of labels, digest).

        Where both kinds are those of another trace, the labels are the same only if the digests are. Under other ids,
        and under other classes, it is still told how often each label occurs; under any, how many records there are.
        """
        form = json.dumps(self._domain.to_json(), sort_keys=True)
        common = form
        if isinstance(self._domain, Classes):
            form = f"classes {hashlib.sha256(json.dumps(sorted(self._names)).encode()).hexdigest()}"
            common = "classes"
        return (
            (scheme, form, self.labels),
            (ANY, common, self._histogram()),
            (ANY, ANY, str(int(self._counts.sum()))),
        )

    def _histogram(self) -> str:
        """A keyed digest of how often each label occurs."""
        present = np.flatnonzero(self._counts)
        pairs = sorted((self._names[code], int(self._counts[code])) for code in present.tolist())
        key = derive(self._key, b"label histogram")
        return hmac.new(key, json.dumps(pairs).encode(), hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return "Fingerprint(<secret>)"


def _canonical(domain: Domain) -> tuple[list[str] | range, NDArray[np.uint32]]:
    """The texts of all labels, by code, and the place of each among the sorted texts."""
    if not isinstance(domain, Classes):
        return range(domain.size), np.arange(domain.size, dtype=np.uint32)
    names = [str(name) for name in domain.names]
    ranks = np.empty(len(names), dtype=np.uint32)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names), dtype=np.uint32)
    return names, ranks
