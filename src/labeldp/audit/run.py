"""Audit what a command wrote: certificate, files and ledger, the released values, and how much they show."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from labeldp._version import __version__
from labeldp.audit.black_box import LowerBound
from labeldp.audit.contents import check_coverage
from labeldp.audit.rerun import Rerun
from labeldp.audit.signing import check_signature
from labeldp.curator import DatasetLedger, LedgerFile
from labeldp.fit import FitSummary, check_summary, verify
from labeldp.privacy import (
    REQUEST_KINDS,
    Certificate,
    Charge,
    InputError,
    LabelDPError,
    PrivacyLoss,
    Request,
    decimal,
    most_met,
)
from labeldp.releases import Check, check_charges
from labeldp.tables import file_digest, has_folder_certificate

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class RunAudit:
    """What an audit found of something that a command wrote.

    Its verdict is "fails" where something differs, "unverified" where something that is claimed could not be checked,
    and else "holds".

    Args:
        path: what was audited.
        kind: "fit", or the command of the certificate's request, such as "release" or "online run".
        certificate: its certificate.
        delta: the delta at which it is read.
        digests: SHA-256 of each file, by its name.
        checks: what was checked, in order.
        not_checked: what is not claimed and was not checked, and why.
        bound: a lower bound of epsilon from the released values, or None.
        secret: whether raw labels were read: then all of this is as secret as they are.
        created, version: when, UTC, and by which labeldp.
        charged: whether the charges were compared with a ledger.
    """

    path: str
    kind: str
    certificate: Certificate
    delta: Fraction
    digests: dict[str, str]
    checks: tuple[Check, ...]
    not_checked: tuple[str, ...]
    bound: LowerBound | None
    secret: bool
    created: str
    version: str
    charged: bool

    @property
    def claim(self) -> float:
        """The epsilon that the certificate guarantees at its delta."""
        return self.certificate.epsilon(self.delta)

    @property
    def refuted(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.bound is not None and self.bound.refutes(self.claim)

    @property
    def verdict(self) -> str:
        """One of "holds", "fails" and "unverified"."""
        results = {check.holds for check in self.checks}
        if self.refuted or False in results:
            return "fails"
        return "unverified" if None in results else "holds"

    @property
    def headline(self) -> str:
        """The verdict in words, with the claims that a signature alone vouches for."""
        if self.verdict != "holds":
            return {"fails": "a check FAILED", "unverified": "not everything was checked"}[self.verdict]
        if not self.charged:
            return "the signature holds; the charges were not checked"
        return "all checks passed" if self.secret else "signature and charges hold; the values were not recomputed"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        bound = None
        if self.bound is not None:
            bound = {
                "epsilon": self.bound.epsilon,
                "delta": self.bound.delta,
                "level": self.bound.level,
                "how": self.bound.how,
                "above_the_claim": self.refuted,
            }
        claim = self.claim
        return {
            "format": "labeldp audit 1",
            "path": self.path,
            "kind": self.kind,
            "verdict": self.verdict,
            "as_secret_as_the_labels": self.secret,
            "claim": {"epsilon": claim if claim < float("inf") else None, "delta": str(self.delta)},
            "checks": [{"holds": check.holds, "sentence": check.sentence} for check in self.checks],
            "not_checked": list(self.not_checked),
            "lower_bound": bound,
            "files": dict(self.digests),
            "certificate": self.certificate.to_json(),
            "created": self.created,
            "version": self.version,
        }


def audit_run(
    path: str,
    *,
    ledger: str | None = None,
    data: str | None = None,
    init: str | None = None,
    test: str | None = None,
    signature: str | None = None,
    signed_by: str | None = None,
    render: Callable[[FitSummary], str] | None = None,
    progress: Progress | None = None,
) -> RunAudit:
    """Audit what `fit`, `release` or `online run` wrote; nothing is charged, and nothing is written.

    A certificate is checked by the ledger, which has its own, or by the signature of somebody who is named. Values are
    checked by that signature, or recomputed: with ledger and data, as the ledger's copy of the request asks for it, on
    a copy of the ledger that is removed. What follows from that is as secret as the labels. What was checked by neither
    is unverified.

    Args:
        path: a directory that `fit` wrote, or a file or folder that `release` or `online run` wrote.
        ledger: the ledger file that was charged.
        data: the private file that it was made of.
        init: of a fit that started from another model: its directory.
        test: of a fit that was measured on a public test file: that file.
        signature: the signature; by default `path`.signature.
        signed_by: a public key in PEM form: of whom the signature must be.
        render: turns the summary of a fit into its report, such as `labeldp.report.render_report`.
        progress: called with what is being done, and a share.

    Raises:
        InputError: there is nothing of labeldp at the path, or a file cannot be used.
        LedgerError: the ledger cannot be used.
    """
    if data is not None and ledger is None:
        raise InputError("must be given with --data: the values are recomputed from its keys", argument="ledger")
    show = progress or (lambda text, share: None)
    show("files", 0.0)
    verdict = verify(path)
    certificate, is_fit = verdict.certificate, Path(path).is_dir() and not has_folder_certificate(path)
    checks, missing = [Check(verdict.holds, verdict.sentence)], []
    signed = check_signature(path, signature=signature, signed_by=signed_by)
    if signed.holds is not None or ledger is None:
        checks.append(signed)
    if is_fit:
        checks += [_summary_check(path, render), *check_coverage(path, signed)]
    bound, request = None, None
    if ledger is None:
        checks.append(_times(certificate, signed.holds))
        missing.append("Without --ledger: whether the charges are in a ledger, and what else was released.")
    else:
        show("ledger", 0.1)
        compared, request = _ledger_checks(certificate, ledger, is_fit)
        # What a fit adds to the certificate of its ledger is in its signature, or it is recomputed below.
        checks += [check for check in compared if check.holds is not None or not (signed.holds or data)]
        checks.append(_times(certificate, compared[0].holds is not False))
    if ledger is not None and data is None:
        words = "whether the released values are those that the ledger's keys give: --data FILE recomputes them."
        if signed.holds:
            missing.append(f"Without --data: {words}")
        else:
            checks.append(Check(None, f"Unverified: {words}"))
    if ledger is not None and data is not None:
        show("values", 0.2)
        if not Path(data).exists():
            raise InputError(f"no such file or folder: {data}")
        remade, bound, reasons = Rerun(path, certificate, request, ledger, data, init, test, show).run()
        checks += remade
        missing += reasons
    command = "release" if certificate.request is None else REQUEST_KINDS[certificate.request.kind].command
    return RunAudit(
        str(path),
        "fit" if is_fit else command,
        certificate,
        verdict.delta,
        _digests(path),
        tuple(checks),
        tuple(missing),
        bound,
        data is not None,
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        __version__,
        ledger is not None,
    )


def _digests(path: str) -> dict[str, str]:
    root = Path(path)
    files = {file.relative_to(root).as_posix(): file for file in sorted(root.rglob("*"))} or {root.name: root}
    digests = {name: file_digest(file) for name, file in files.items()}
    return {name: digest for name, digest in digests.items() if digest is not None}


def _most_releases(charges: Iterable[Charge]) -> int:
    """Return the most releases that one label is in: parts of a split share no record, different splits may."""
    return most_met((charge.path, 1) for charge in charges if charge.loss != PrivacyLoss.zero())  # others are notes


def _times(certificate: Certificate, checked: bool | None) -> Check:
    """Say how often a label was released for this, by its own certificate, which was checked or was not."""
    limit, count, holds = _most_releases(certificate.entries), len(certificate.entries), True if checked else None
    if limit <= 1:
        parts = f", in {count} releases of disjoint parts" if count > 1 else ""
        return Check(holds, f"By its certificate each label was released once{parts}.")
    return Check(holds, f"By its certificate a label was in up to {limit} releases; it charges all of them together.")


def _summary_check(path: str, render: Callable[[FitSummary], str] | None) -> Check:
    """Compare summary and report of a model with its certificate."""
    problems = None if render is None else check_summary(path, render)
    return problems or Check(None, f"Unverified: whether summary and report of {path} say what its certificate says.")


def _ledger_checks(certificate: Certificate, path: str, is_fit: bool) -> tuple[list[Check], Request | None]:
    """Compare a certificate with its ledger, and say what else was released of its dataset.

    Returns:
        The checks, the first of the charges, and the ledger's copy of the request; None where it has none.
    """
    checks = [check_charges(certificate, path, fit=is_fit)]
    try:
        account = LedgerFile(path).dataset(certificate.dataset)
    except LabelDPError:
        return checks, None  # the first check says that there is no such dataset
    state = account.state
    charges = state.charges
    twice = [name for name, times in Counter(charge.id for charge in charges).items() if times > 1]
    checks.append(
        Check(not twice, "The ledger has each charge once." if not twice else "A charge is TWICE in the ledger.")
    )
    budget, count = state.budget, _most_releases(charges)
    words = f"{len(charges)} release{'s' * (len(charges) != 1)}"
    inside = state.keeps_promise
    # At delta > 0 no epsilon of what was spent so far is a promise.
    cost = "" if decimal(budget.delta, "delta") else f" they cost epsilon = {state.spent.epsilon():.6g},"
    checks.append(
        Check(
            inside,
            f"{words} of {certificate.dataset!r} in all, up to {count} of one label;{cost} "
            f"{'within' if inside else 'ABOVE'} its budget ({state.promised}).",
        )
    )
    check, request = _request_check(certificate, account, path, is_fit)
    return [*checks, check], request


def _request_check(
    certificate: Certificate, account: DatasetLedger, path: str, is_fit: bool
) -> tuple[Check, Request | None]:
    """Compare the request of a certificate with the ledger's copy, and return that.

    The copy differs at most in the version and the names of files.
    """
    request, asked = certificate.request, {account.requested(charge.id) for charge in certificate.entries}
    if asked == {None}:
        return Check(None, f"Unverified: the ledger {path} has no request of this release."), None
    copy = None if request is None else account.find_request(request.digest)
    if (
        copy is None
        or request is None
        or (copy.digest, copy.scope.name, copy.kind == "fit") != (request.digest, certificate.dataset, is_fit)
    ):
        return Check(False, f"The request in the certificate does NOT equal the request in the ledger {path}."), None
    words = f"The request in the certificate equals the request in the ledger {path}."
    if request.digest not in asked:
        words = f"The ledger {path} has the request in the certificate. Another request caused its charges."
    return Check(True, words), copy
