"""A certificate as it stands in a file, and what is found when the file is compared with it."""

from dataclasses import dataclass
from typing import Any

from labeldp.privacy import Certificate, InputError


@dataclass(frozen=True)
class Verdict:
    """A certificate, whether the published thing still is what it covers, and that in words."""

    certificate: Certificate
    holds: bool
    sentence: str


def certificate_in(content: Any) -> Certificate:
    """The certificate of a JSON value, with texts where texts belong.

    Raises:
        InputError: not a certificate of labeldp, or a damaged one.
    """
    if not isinstance(content, dict):
        raise InputError("this is not a certificate of labeldp")
    certificate = Certificate.from_json(content)
    texts = (certificate.dataset, certificate.published, *certificate.assumptions)
    if not all(isinstance(text, str) for text in texts) or not isinstance(content["assumptions"], list):
        raise InputError("this is not a certificate of labeldp")
    return certificate
