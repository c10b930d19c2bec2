"""Is a published thing still what was certified?"""

from pathlib import Path

from labeldp.privacy import InputError
from labeldp.workflows.bundle import read_certified
from labeldp.workflows.release import verify_file
from labeldp.workflows.verdict import Verdict


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
