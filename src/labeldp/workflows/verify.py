"""Check whether a model or a released file still is what was certified."""

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from labeldp.privacy import Certificate, InputError, checked_certificate, requested_delta
from labeldp.tables import (
    has_folder_certificate,
    is_as_certified,
    is_folder_as_certified,
    read_certificate,
    read_folder_certificate,
)
from labeldp.workflows.fit.bundle import read_certified


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


def verify(path: str) -> Verdict:
    """Check a model directory or a released file against its certificate.

    Raises:
        InputError: the path does not exist, or has no certificate of labeldp.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"there is no file or directory {path}")
    if not place.is_dir():
        return verify_file(place)
    if has_folder_certificate(place):
        return verify_folder(place)
    certificate, changed = read_certified(place)
    if changed:
        sentence = f"{path} is NOT what was certified: {', '.join(changed)} changed or is missing."
        return Verdict(certificate, False, sentence)
    return Verdict(certificate, True, f"{path} still is what was certified.")


def verify_folder(path: str | os.PathLike[str]) -> Verdict:
    """Check a released folder against its certificate.

    Args:
        path: a folder that `release_file` wrote.

    Raises:
        InputError: it has no certificate of labeldp.
    """
    content = read_folder_certificate(path)
    certificate = checked_certificate(content["certificate"])
    unchanged = is_folder_as_certified(path)
    column = f"The column {content['column']!r} of the parts of {path}"
    verdict = "still holds what was certified" if unchanged else "is NOT what was certified: it was changed afterwards"
    return Verdict(certificate, unchanged, f"{column} {verdict}.")


def verify_file(path: str | os.PathLike[str]) -> Verdict:
    """Check a released file against its certificate.

    Args:
        path: a CSV or Parquet file that `release_file` wrote.

    Raises:
        InputError: the file does not exist, or has no certificate of labeldp in or beside it.
    """
    content = read_certificate(path)
    certificate = checked_certificate(content["certificate"])
    unchanged = is_as_certified(path)
    column = f"The column {content['column']!r} of {path}"
    verdict = "still holds what was certified" if unchanged else "is NOT what was certified: it was changed afterwards"
    return Verdict(certificate, unchanged, f"{column} {verdict}.")
