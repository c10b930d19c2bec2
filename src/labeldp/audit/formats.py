"""A certificate with what was checked of it, as text and in forms for other programs."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from labeldp.audit.contents import Contents, check_coverage
from labeldp.audit.signing import check_signature
from labeldp.fit import FitSummary, check_records, check_summary, verify
from labeldp.privacy import Certificate
from labeldp.releases import Check, check_charges


@dataclass(frozen=True)
class CertificateText:
    """A certificate in some form.

    Args:
        text: the form; empty if something failed and the form cannot say so.
        aside: what failed or is unverified, if the form cannot say so.
        failed: whether a check failed.
    """

    text: str
    aside: str
    failed: bool


def describe_certificate(
    path: str,
    form: str = "text",
    *,
    delta: Any = None,
    signed_by: str | None = None,
    signature: str | None = None,
    ledger: str | None = None,
    data: str | None = None,
    brief: bool = False,
    render: Callable[[FitSummary], str],
) -> CertificateText:
    """Verify what `fit`, `release` or `online run` wrote, and return its certificate in a form.

    Args:
        path: a model directory, or a released file or folder.
        form: "text", "json" (all that the text says), "opendp" (a draft for the deployments registry of OpenDP) or
            "pld" (privacy loss distributions for dp-accounting).
        delta: at which the guarantee is read; by default the one that was requested.
        signed_by: a public key in PEM form: of whom the signature must be.
        signature: the signature; by default `path`.signature.
        ledger: the ledger that the certificate is compared with.
        data: a file whose features and ids are compared with those of a model.
        brief: whether the text has failed checks alone beside the certificate.
        render: turns the summary of a fit into its report, such as `labeldp.report.render_report`.

    Raises:
        InputError: there is nothing of labeldp at the path, a file cannot be used, or nothing is guaranteed and the
            form has no words for it.
        LedgerError: the ledger cannot be used.
    """
    verdict, signed = verify(path), check_signature(path, signature=signature, signed_by=signed_by)
    summary = check_summary(path, render) if verdict.holds else None
    charges = check_charges(verdict.certificate, ledger, fit=summary is not None) if ledger else None
    compared = check_records(path, data) if data and verdict.holds else None
    vouched = signed if charges is None or signed.holds is not None else None
    contents = Contents.of(path) if verdict.holds else None
    held = contents.check() if contents else None
    results = (
        Check(verdict.holds, verdict.sentence),
        vouched,
        charges,
        summary,
        compared,
        held,
        *check_coverage(path, signed),
    )
    checks = worst_first(check for check in results if check is not None)
    failed = any(check.holds is False for check in checks)
    certificate, at = verdict.certificate, float(verdict.delta) if delta is None else delta
    first = [check.sentence for check in checks if not check.holds]
    if form == "json":
        return CertificateText(_as_json(certificate, at, checks, contents), "", failed)
    if form == "text":
        histories = [charge.history for charge in certificate.entries if charge.history]
        last = [check.sentence for check in checks if check.holds] + ([str(contents)] if contents else [])
        notes = [] if brief else [*histories, *last]
        return CertificateText("\n".join([*first, certificate.at(at), *notes]), "", failed)
    if failed:
        return CertificateText("", "\n".join(first), failed)
    # Imported here: what the other forms do not need takes a second.
    from labeldp.audit.deployment import deployment_record
    from labeldp.audit.loss_distribution import loss_distributions

    exact = verdict.delta if delta is None else delta
    if form == "opendp":
        return CertificateText(deployment_record(certificate, exact).rstrip("\n"), "\n".join(first), failed)
    return CertificateText(json.dumps(loss_distributions(certificate, exact)), "\n".join(first), failed)


def worst_first(checks: Iterable[Check]) -> list[Check]:
    """Return checks that fail, then those that are unverified, then those that hold."""
    return sorted(checks, key=lambda check: (False, None, True).index(check.holds))


def _as_json(certificate: Certificate, delta: Any, checks: Iterable[Check], contents: Contents | None) -> str:
    epsilon = certificate.epsilon(delta)
    content = {
        "words": certificate.at(delta),
        "epsilon": epsilon if epsilon < float("inf") else None,
        "checks": [{"holds": check.holds, "sentence": check.sentence} for check in checks],
        "contents": None if contents is None else contents.to_json(),
        "certificate": certificate.to_json(),
    }
    return json.dumps(content, indent=2, ensure_ascii=False)
