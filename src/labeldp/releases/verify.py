"""Compare a released file with its certificate, and a certificate with a ledger."""

import json
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from labeldp.curator import LedgerFile
from labeldp.privacy import Certificate, InputError, LabelDPError, checked_certificate, requested_delta
from labeldp.tables import (
    has_folder_certificate,
    is_as_certified,
    is_folder_as_certified,
    read_certificate,
    read_folder_certificate,
)


@dataclass(frozen=True)
class Check:
    """Whether something holds, and the same in a sentence.

    Args:
        holds: None where what was given cannot tell: it is unverified.
        sentence: the result in words.
    """

    holds: bool | None
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """A certificate, whether what was published still is what it covers, and the same in a sentence."""

    certificate: Certificate
    holds: bool
    sentence: str

    @property
    def delta(self) -> Fraction:
        """The delta that was asked for."""
        return requested_delta(self.certificate.entries)


def statements(certificate: Certificate) -> dict[str, Any]:
    """Return what a certificate states, by field, in a form that does not depend on the order of releases."""
    charges = [json.dumps(charge.to_json(), sort_keys=True) for charge in certificate.entries]
    return {
        "charges": sorted(charges),
        "dataset": certificate.dataset,
        "neighbors": certificate.neighbors,
        "trust": certificate.trust,
        "randomness": certificate.randomness,
        "published": sorted(certificate.phrases),
        "conditions": sorted(certificate.assumptions),
        "cohorts": sorted(certificate.cohorts),
    }


def verify_file(path: str | os.PathLike[str]) -> Verdict:
    """Check a released file, or a released folder, against its certificate.

    Raises:
        InputError: the path does not exist, or there is no certificate of labeldp in or beside it.
    """
    is_folder = has_folder_certificate(path)
    content = (read_folder_certificate if is_folder else read_certificate)(path)
    certificate = checked_certificate(content["certificate"], path)
    unchanged = (is_folder_as_certified if is_folder else is_as_certified)(path)
    column = f"The column {content['column']!r} of {'the parts of ' if is_folder else ''}{path}"
    verdict = "still holds what was certified" if unchanged else "is NOT what was certified: it was changed afterwards"
    return Verdict(certificate, unchanged, f"{column} {verdict}.")


def check_charges(certificate: Certificate, ledger: str, *, fit: bool = False) -> Check:
    """Compare a certificate with the one that a ledger file gives its charges; open their commitments to the labels.

    Every field is compared.

    Args:
        certificate: of any release.
        ledger: path of the ledger file.
        fit: whether it is the certificate of a fit, which adds conditions that no ledger has. Then `holds` is None.

    Raises:
        InputError: there is no such file.
        LedgerError: the file is no ledger.
    """
    if not Path(ledger).is_file():
        raise InputError(f": there is no ledger {ledger}: check the path", argument="ledger")
    file, no = LedgerFile(ledger), f"The certificate is NOT of the ledger {ledger}"
    file.datasets()  # refuses what is no ledger
    try:
        account = file.dataset(certificate.dataset)
    except LabelDPError:
        return Check(False, f"{no}, which has no dataset {certificate.dataset!r}.")
    missing = [charge.id for charge in certificate.entries if not account.commits_to(charge)]
    if missing:
        charges = f"the charge{'s' * (len(missing) > 1)} {', '.join(missing)}"
        return Check(False, f"{no}: {charges} is not in it as certified.")
    joined = account.state.certificate_of([charge.id for charge in certificate.entries])
    stated, stored = statements(certificate), statements(joined)
    changed = [name for name in stated if stated[name] != stored[name]]
    if fit and changed == ["conditions"] and set(joined.assumptions) < set(certificate.assumptions):
        added = "; ".join(sorted(set(certificate.assumptions) - set(joined.assumptions)))
        return Check(None, f"Unverified: the certificate has conditions that no ledger has: {added}.")
    if changed:
        return Check(False, f"{no}: it states otherwise {', '.join(changed)}.")
    count, opened = len(certificate.entries), sum("commitment" in charge.facts for charge in certificate.entries)
    words = f"the commitment of {opened} of them matches the stored digest of the labels"
    return Check(True, f"The ledger {ledger} holds the {count} charge{'s' * (count > 1)} as certified; {words}.")
