"""Is a published thing still what was certified?"""

from dataclasses import dataclass
from pathlib import Path

from labeldp.privacy import Certificate, InputError
from labeldp.workflows.bundle import read_certified
from labeldp.workflows.release import verify_file


@dataclass(frozen=True)
class Verdict:
    """A certificate, whether the published thing still is what it covers, and that in words."""

    certificate: Certificate
    holds: bool
    sentence: str


def verify(path: str) -> Verdict:
    """Check a model directory, or a released file.

    Raises:
        InputError: nothing there, or nothing with a certificate of ours.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"there is no file or directory {path}")
    if not place.is_dir():
        certificate, holds, sentence = verify_file(place)
        return Verdict(certificate, holds, sentence.removeprefix(certificate.at(0.0)).strip())
    certificate, changed = read_certified(place)
    if changed:
        return Verdict(
            certificate, False, f"{path} is NOT what was certified: {', '.join(changed)} changed or is missing."
        )
    return Verdict(certificate, True, f"{path} still is what was certified.")
