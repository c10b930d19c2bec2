"""A certificate as it stands in a file, and what is found when the file is compared with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from labeldp.privacy import Certificate, Charge, InputError


@dataclass(frozen=True)
class Verdict:
    """A certificate, whether the published thing still is what it covers, and that in words."""

    certificate: Certificate
    holds: bool
    sentence: str

    @property
    def delta(self) -> Fraction:
        """The delta that was asked for."""
        return asked_delta(self.certificate.entries)


def asked_delta(charges: Iterable[Charge]) -> Fraction:
    """The largest delta that a mechanism was asked to keep; 0 where none was, as by a promise on a condition.

    Raises:
        InputError: a mechanism says something else than a number from 0 to 1.
    """
    try:
        asked = [charge.mechanism.get("delta") for charge in charges]
        delta = max((Fraction(each) for each in asked if each is not None), default=Fraction(0))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError("this is not a certificate of labeldp") from error
    if not 0 <= delta <= 1:
        raise InputError("this is not a certificate of labeldp")
    return delta


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
