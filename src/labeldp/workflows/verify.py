"""Whether a published thing still is what was certified."""

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from labeldp.privacy import Certificate, InputError, checked_certificate, requested_delta
from labeldp.tables import is_as_certified, read_certificate
from labeldp.workflows.fit.bundle import read_certified


@dataclass(frozen=True)
class Verdict:
    """A certificate, whether the published thing still is what it covers, and that in words."""

    certificate: Certificate
    holds: bool
    sentence: str

    @property
    def delta(self) -> Fraction:
        """The delta that was asked for."""
        return requested_delta(self.certificate.entries)


def verify(path: str) -> Verdict:
    """Check a model directory, or a released file.

    Raises:
        InputError: nothing there, or nothing with a certificate of ours.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"there is no file or directory {path}")
    if not place.is_dir():
        return verify_file(place)
    certificate, changed = read_certified(place)
    if changed:
        return Verdict(
            certificate, False, f"{path} is NOT what was certified: {', '.join(changed)} changed or is missing."
        )
    return Verdict(certificate, True, f"{path} still is what was certified.")


def verify_file(path: str | os.PathLike[str]) -> Verdict:
    """Return the certificate of a released file, and whether the file still is what was certified.

    Args:
        path: a CSV or Parquet file that `release_file` wrote.

    Raises:
        InputError: no such file, or no certificate of ours in or beside it.
    """
    content = read_certificate(path)
    certificate = checked_certificate(content["certificate"])
    unchanged = is_as_certified(path)
    column = f"The column {content['column']!r} of {path}"
    verdict = "still holds what was certified" if unchanged else "is NOT what was certified: it was changed afterwards"
    return Verdict(certificate, unchanged, f"{column} {verdict}.")
